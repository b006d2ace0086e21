"""Proximal operators: the trade between a penalty and the distance from a point.

The operator of a penalty p is ``argmin over x of scale * p(x) + |x - v|² / 2``. It is the step of
``proximal_gradient`` for penalties that have kinks:

>>> import funcgrad as fg
>>> from funcgrad import optim
>>> optim.prox.l1(fg.tensor([3.0, -0.5, 1.0]), 1.0)
Tensor([2., 0., 0.])

The operators are differentiable: at a kink, a number that is 0 stays 0. A negative scale raises
`ArgumentError`. Inside ``jit`` and ``vmap``, where a scale is not known, the result is NaN instead.
Sources: Parikh and Boyd, "Proximal algorithms", Foundations and Trends in Optimization 1, 2014.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import placed
from funcgrad._control.whiles import while_loop
from funcgrad._core import pytrees
from funcgrad._core.trace import RAW, concrete
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.optim import projections
from funcgrad.optim.base import Pytree
from funcgrad.tensor.tensor import Tensor

__all__ = ["box", "group", "l1", "nuclear", "simplex", "total_variation"]

Tree = TypeVar("Tree")


def l1(tree: Tree, scale: ArrayLike = 1.0) -> Tree:
    """Shrink each element towards 0: the operator of the sum of absolute values.

    Parameters
    ----------
    tree : pytree of real or complex arrays
    scale : float
        The weight of the penalty, at least 0.

    Returns
    -------
    pytree
        A tree like ``tree``; elements of at most ``scale`` are 0.

    Raises
    ------
    ArgumentError
        The scale is negative.

    Examples
    --------
    >>> import funcgrad as fg
    >>> l1({"w": fg.tensor([2.0, -0.25])}, 0.5)
    {'w': Tensor([1.5, 0. ])}
    """

    def shrunk(leaf: ArrayLike) -> Tensor:
        v, size = _floating("l1", leaf, scale)
        if v.dtype.kind == "c":
            return _shortened(v, fnp.real(v) ** 2 + fnp.imag(v) ** 2, size)
        inside = fnp.where(fnp.abs(v) <= size, fnp.zeros_like(v), np.nan)  # of a NaN, NaN
        return fnp.where(v > size, v - size, fnp.where(v < -size, v + size, inside))

    return pytrees.map(shrunk, tree)


def group(tree: Tree, scale: ArrayLike = 1.0, axis: int | None = None) -> Tree:
    """Shrink the length of each group: the operator of the sum of the groups' Euclidean lengths.

    Parameters
    ----------
    tree : pytree of real or complex arrays
    scale : float
        The weight of the penalty, at least 0.
    axis : int, optional
        The axis along which the elements of a group lie; by default each leaf is a group.

    Returns
    -------
    pytree
        A tree like ``tree``; groups of at most the length ``scale`` are 0.

    Raises
    ------
    ArgumentError
        The scale is negative.

    Examples
    --------
    >>> import funcgrad as fg
    >>> group(fg.tensor([[3.0, 4.0], [0.3, 0.4]]), 1.0, axis=1)
    Tensor([[2.4, 3.2],
            [0. , 0. ]])
    """

    def shrunk(leaf: ArrayLike) -> Tensor:
        v, size = _floating("group", leaf, scale)
        squares = fnp.real(v) ** 2 + fnp.imag(v) ** 2 if v.dtype.kind == "c" else v * v
        return _shortened(v, fnp.sum(squares, axis=axis, keepdims=True), size)

    return pytrees.map(shrunk, tree)


def _floating(name: str, leaf: ArrayLike, scale: ArrayLike) -> tuple[Tensor, Tensor]:
    """A leaf as floating-point numbers, and the weight in their precision."""
    v = fnp.asarray(leaf)
    v = v if v.dtype.kind in "fc" else v.astype(float)
    return v, _checked(name, scale).astype(v.real.dtype)


def _checked(name: str, scale: ArrayLike) -> Tensor:
    """A weight that is at least 0; NaN where it is negative and nothing can be raised.

    Raises
    ------
    ArgumentError
        It is negative.
    """
    size = fnp.asarray(scale)
    raw = concrete(size)
    if type(raw) not in RAW:
        return fnp.where(size >= 0, size, np.nan)
    if np.any(np.asarray(raw) < 0):
        raise placed(ArgumentError, f"prox.{name}: scale has to be at least 0, got {scale!r}.")
    return size


def _shortened(v: Tensor, square: Tensor, size: Tensor) -> Tensor:
    """Vectors of given squared lengths, shorter by a size; 0 if they are not as long."""
    is_long = square > size * size
    length = fnp.sqrt(fnp.where(is_long, square, 1.0))
    inside = fnp.where(square <= size * size, fnp.zeros_like(v), np.nan)  # of a NaN, NaN
    return fnp.where(is_long, v * (1.0 - size / length), inside)


def nuclear(x: ArrayLike, scale: ArrayLike = 1.0) -> Tensor:
    """Shrink singular values: the operator of their sum, which prefers matrices of low rank.

    Parameters
    ----------
    x : array_like of shape (..., m, n)
    scale : float
        The weight of the penalty, at least 0.

    Returns
    -------
    Tensor of shape (..., m, n)

    Raises
    ------
    ArgumentError
        The scale is negative.

    Notes
    -----
    The derivative exists where the singular values are different, as for ``svd``.

    Examples
    --------
    >>> import numpy as np
    >>> nuclear(np.diag([3.0, 0.5]), 1.0)
    Tensor([[2., 0.],
            [0., 0.]])
    """
    size = _checked("nuclear", scale)
    left, values, right = fnp.linalg.svd(fnp.asarray(x), full_matrices=False)
    return (left * l1(values, size)[..., None, :]) @ right


def box(tree: Tree, lower: Pytree = None, upper: Pytree = None) -> Tree:
    """Project to bounds: the operator of "within them", which is ``projections.box``.

    Parameters
    ----------
    tree : pytree of floating arrays
    lower, upper : pytree prefixes of bounds, optional

    Returns
    -------
    pytree

    Examples
    --------
    >>> import funcgrad as fg
    >>> box(fg.tensor([-1.0, 0.5]), lower=0.0)
    Tensor([0. , 0.5])
    """
    low = -float("inf") if lower is None else lower
    return projections.box(tree, low, float("inf") if upper is None else upper)


def simplex(tree: Tree, scale: ArrayLike = 1.0) -> Tree:
    """Project to shares, which are at least 0 and sum to ``scale``: ``projections.simplex``.

    Parameters
    ----------
    tree : pytree of floating arrays
    scale : float
        The sum.

    Returns
    -------
    pytree

    Examples
    --------
    >>> import funcgrad as fg
    >>> simplex(fg.tensor([1.0, 0.5, -1.0]))
    Tensor([0.75, 0.25, 0.  ])
    """
    return projections.simplex(tree, scale)


def total_variation(x: ArrayLike, scale: ArrayLike = 1.0) -> Tensor:
    """Make a signal piecewise constant: the operator of the sum of absolute differences.

    Parameters
    ----------
    x : array_like of shape (n,)
        Values of a signal.
    scale : float
        The weight of the penalty, at least 0.

    Returns
    -------
    Tensor of shape (n,)

    Raises
    ------
    ArgumentError
        The scale is negative.
    ShapeError
        ``x`` is not a vector.

    Notes
    -----
    The dual problem has bounds and a tridiagonal matrix: sets of bounds that hold are guessed,
    solved for, and corrected until they are right, in O(n) operations each. Source: Hintermüller,
    Ito, Kunisch, "The primal-dual active set strategy as a semismooth Newton method", SIAM Journal
    on Optimization 13, 2003. Jumps of the solution stay where they are in derivatives.

    Examples
    --------
    >>> total_variation([0.0, 0.2, 0.1, 2.0, 2.1], 0.1)
    Tensor([0.1 , 0.15, 0.15, 2.  , 2.  ])
    """
    v = fnp.asarray(x)
    if v.ndim != 1:
        raise placed(
            ShapeError,
            f"prox.total_variation: x has to be a vector, got shape {v.shape}. Map over further"
            " axes with fg.vmap.",
        )
    size = _checked("total_variation", scale).astype(v.dtype)
    if v.shape[0] < 2:
        return v
    v = fnp.where(size >= 0.0, v, np.nan)
    change, limit = stop_gradient(fnp.diff(v)), stop_gradient(size)

    def corrected(state: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        sides, _, count = state
        forces = _forces(sides, change, limit)
        slack = change - _bent(forces)  # the jumps of the signal, where a bound holds
        toward = forces + slack
        following = fnp.sign(toward) * (fnp.abs(toward) > limit)
        return following, fnp.any(following != sides), count + 1

    start = fnp.zeros_like(change), fnp.asarray(True), fnp.asarray(0)
    sides, _, _ = while_loop(
        lambda state: state[1] & (state[2] < 4 * len(change) + 20), corrected, start
    )
    return v + fnp.diff(fnp.pad(_forces(sides, fnp.diff(v), size), 1))


def _bent(forces: Tensor) -> Tensor:
    """The second difference, with zeros beyond the ends."""
    padded = fnp.pad(forces, 1)
    return 2.0 * forces - padded[:-2] - padded[2:]


def _forces(sides: Tensor, change: Tensor, limit: Tensor) -> Tensor:
    """The dual solution where some forces, on these sides, are at their limits."""
    free = 1.0 - fnp.abs(sides)
    from funcgrad.scipy.linalg.banded_systems import solve_banded  # loads slowly; few need it

    right = fnp.where(free > 0.0, change, sides * limit)
    above = fnp.concatenate([fnp.zeros_like(free[:1]), -free[:-1]])
    below = fnp.concatenate([-free[1:], fnp.zeros_like(free[:1])])
    return solve_banded((1, 1), fnp.stack([above, 1.0 + free, below]), right)


if not TYPE_CHECKING:  # type checkers see the imports above
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules
