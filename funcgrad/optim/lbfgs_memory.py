"""The memory of L-BFGS: the last steps and changes of the gradient, and their direction.

>>> from funcgrad.tensor.tensor import tensor
>>> memory = PairMemory.empty(2, tensor([0.0, 0.0]))
>>> memory = memory.with_pair(tensor([1.0, 0.0]), tensor([4.0, 0.0]), tensor(0.0))
>>> memory.direction(tensor([8.0, 8.0]))[0]  # the Hessian of 2 x² + 2 y²
Tensor([-2., -2.])
"""

from __future__ import annotations

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.choices import cond
from funcgrad._core.pytrees import pytree
from funcgrad.tensor.tensor import Tensor


@pytree(slots=True)
class PairMemory:
    """Pairs of a step and a change of the gradient; the latest is the last.

    Attributes
    ----------
    steps, changes : Tensor of shape (m, n)
    inverse : Tensor of shape (m, m)
        The inverse of the upper triangle of the products of steps and changes. Where there is no
        pair yet, or none any more, it is zero, and the numbers of ``steps`` and ``changes`` have no
        effect.
    scale : Tensor
        The first guess of the inverse Hessian: this number times the identity.

    Notes
    -----
    The two loops of Nocedal, "Updating quasi-Newton matrices with limited storage", Math. Comp. 35,
    1980, are substitutions in this triangle, so its inverse makes them products of matrices and
    vectors: on the NumPy backend a minimization takes half of the time. The inverse of a triangle
    without its first row and column is that of its inverse, so one more pair adds a column, and
    nothing is solved.
    """

    steps: Tensor
    changes: Tensor
    inverse: Tensor
    scale: Tensor

    @staticmethod
    def empty(size: int, vector: Tensor) -> PairMemory:
        """Make the memory for so many pairs of vectors, without any."""
        rows = fnp.zeros((size, *vector.shape), vector.dtype)
        return PairMemory(
            rows, rows, fnp.zeros((size, size), vector.dtype), fnp.ones((), vector.dtype)
        )

    def direction(self, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Minus the product of the approximate inverse Hessian and the gradient.

        Without a pair, and where that is no direction of descent, by rounding or since a number is
        not finite, it is along the gradient, and shorter than 1. The second result says whether it
        is not.
        """
        diagonal = fnp.diagonal(self.inverse)
        shares = self.inverse @ (self.steps @ gradient)
        product = self.scale * (gradient - shares @ self.changes)
        shares = shares / fnp.where(diagonal == 0.0, 1.0, diagonal) - self.changes @ product
        product = product + (shares @ self.inverse) @ self.steps
        slope = gradient @ product
        is_newton = (diagonal[-1] > 0.0) & fnp.isfinite(slope) & (slope > 0.0)
        product = cond(is_newton, lambda x, _: x, lambda _, g: _shortened(g), product, gradient)
        return -product, is_newton

    def emptied_unless(self, which: Tensor) -> PairMemory:
        """The memory, or an empty one."""
        inverse = cond(which, lambda x: x, fnp.zeros_like, self.inverse)
        return PairMemory(self.steps, self.changes, inverse, self.scale)

    def with_pair(self, step: Tensor, change: Tensor, least: Tensor) -> PairMemory:
        """The memory with one pair more, without the first, if the product is above a number."""
        numbers = np.finfo(step.dtype)
        product, square = step @ change, change @ change
        is_curved = (product > least) & (product > float(numbers.tiny))
        is_curved = is_curved & (square > float(numbers.tiny)) & fnp.isfinite(square)
        scale = product / fnp.where(is_curved, square, 1.0)
        return cond(is_curved, _shifted, lambda memory, *_: memory, self, step, change, scale)


def _shortened(gradient: Tensor) -> Tensor:
    """A gradient of length 1 at most, with zeros where it is not finite."""
    gradient = fnp.where(fnp.isfinite(gradient), gradient, 0.0)
    return gradient / fnp.maximum(fnp.linalg.norm(gradient), 1.0)


def _shifted(memory: PairMemory, step: Tensor, change: Tensor, scale: Tensor) -> PairMemory:
    steps = fnp.concatenate([memory.steps[1:], step[None]])
    changes = fnp.concatenate([memory.changes[1:], change[None]])
    inner = fnp.concatenate([memory.inverse[1:, 1:], fnp.zeros_like(memory.inverse[:1, 1:])])
    products = steps @ change
    last = np.arange(len(products)) == len(products) - 1
    column = (last - inner @ products[:-1]) / products[-1]
    return PairMemory(steps, changes, fnp.column_stack([inner, column]), scale)
