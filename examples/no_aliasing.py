"""Descend along a gradient without anything that changes
======================================================

In PyTorch this loop needs care. ``x.grad`` is a slot that every backward pass adds to, so it has to
be cleared; the step writes into ``x``, so it has to hide from the recording; and whoever still
holds ``x`` sees it move::

    x, y = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0)
    for _ in range(2):
        z = x * y
        z.backward()
        with torch.no_grad():
            x -= 0.1 * x.grad
        x.grad.zero_()

Here a gradient is a return value and a step makes a new value. Nothing is cleared or hidden, and
every earlier x is unchanged.

Run it with ``python examples/no_aliasing.py``.
"""

from typing import NamedTuple

import funcgrad as fg

# %%
# The loop
# --------
#
# Each round is a record of values.


class Round(NamedTuple):
    """One round of the loop: all that it computed."""

    x: fg.Tensor
    z: fg.Tensor
    gradient: fg.Tensor
    stepped: fg.Tensor


def product(x: fg.Tensor, y: fg.Tensor) -> fg.Tensor:
    return x * y


def descend(x: fg.Tensor, y: fg.Tensor, step: float, rounds: int) -> list[Round]:
    """Follow minus the gradient of ``x * y`` with respect to ``x``."""
    history: list[Round] = []
    for _ in range(rounds):
        z, gradient = fg.value_and_grad(product)(x, y)
        stepped = x - step * gradient
        history.append(Round(x, z, gradient, stepped))
        x = stepped
    return history


# %%
# The result
# ----------


def main() -> list[Round]:
    history = descend(fg.tensor(2.0), fg.tensor(3.0), step=0.1, rounds=2)
    for x, z, gradient, stepped in history:
        print(f"x = {x:.1f}  z = {z:.1f}  dz/dx = {gradient:.1f}  next x = {stepped:.1f}")
    print(f"The first x is still {history[0].x:.1f}.")
    return history


if __name__ == "__main__":
    main()
