"""Differentiate one input in many threads
=======================================

One input feeds two functions, from one thread and from eight at once.

``x`` goes into ``sin(x)`` and into ``x**2``, and their dot product is differentiated. The two
gradients meet at ``x`` and are added, in the reverse pass of that one call. Nothing is stored on
``x``, where threads could meet::

    L(x) = sum(sin(x) * x**2)        dL/dx = cos(x) * x**2 + 2 * x * sin(x)

Run it with ``python examples/shared_input.py``.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp

# %%
# The function, and the closed form
# ---------------------------------

THREADS = 8
CALLS = 50


def loss(x: fg.Tensor) -> fg.Tensor:
    return fnp.dot(fnp.sin(x), x**2)


def closed_form(x: fg.Tensor) -> fg.Tensor:
    return fnp.cos(x) * x**2 + 2 * x * fnp.sin(x)


def error(x: fg.Tensor) -> float:
    """The greatest difference between the gradient and its closed form."""
    return float(fnp.max(abs(fg.grad(loss)(x) - closed_form(x))))


# %%
# The result
# ----------


def main() -> float:
    x = fg.tensor(np.linspace(-3.0, 3.0, 101))
    alone = error(x)
    with ThreadPoolExecutor(THREADS) as pool:
        together = max(pool.map(error, [x] * (THREADS * CALLS)))
    print(f"Greatest error of {len(x)} derivatives: {alone:.1e} in one thread,")
    print(f"{together:.1e} in {THREADS * CALLS} calls from {THREADS} threads on the same x.")
    return max(alone, together)


if __name__ == "__main__":
    main()
