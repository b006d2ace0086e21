"""Declare an operation, and get everything else
=============================================

The story of the library on one page.

A primitive declares its evaluation and its partial derivative, as a formula of the output y and the
input x. Here it is the softplus function, log(1 + exp(x)), whose derivative is the logistic
function: 1 - exp(-y) when written with the output.

Nothing else is needed: no backward function, no batching rule, no registration. Gradients,
tangents, second derivatives and batches follow, because the formula itself consists of operations
that transformations see.

Run it with ``python examples/from_scratch.py``.
"""

from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import extend
from funcgrad.testing import check_grads

# %%
# The declaration
# ---------------
#
# A value and a partial derivative: nothing else is declared.

softplus_p = extend.elementwise(
    "softplus", lambda x: np.logaddexp(0.0, x), partials=(lambda y, _: -fnp.expm1(-y),)
)


def softplus(x: Any) -> fg.Tensor:
    """The operation as users call it: lists and arrays become tensors, errors get their words."""
    return extend.apply(softplus_p, x)


# %%
# Everything else
# ---------------
#
# ``check_grads`` compares the derivatives with differences.


def main() -> dict[str, Any]:
    x = fg.tensor([-2.0, 0.0, 3.0])
    logistic = 1 / (1 + fnp.exp(-x))

    def total(x: fg.Tensor) -> fg.Tensor:
        return fnp.sum(softplus(x))

    results = {
        "value": softplus(x),
        "grad": fg.grad(total)(x),
        "jvp": fg.jvp(softplus, (x,), (fg.tensor([1.0, 0.0, 0.0]),))[1],
        "vmap": fg.vmap(fg.grad(softplus))(x),
        "hessian": fg.hessian(total)(x),
        "logistic": logistic,
    }
    check_grads(softplus, (x,), order=3)  # against finite differences, in both modes
    for name, result in results.items():
        print(f"{name:>8}  {str(result).replace(chr(10), chr(10) + ' ' * 10)}")
    return results


if __name__ == "__main__":
    main()
