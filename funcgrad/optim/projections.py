"""Projections: the point of a set that is closest to a pytree of parameters.

The whole tree is one vector, and the result has its structure, shapes and dtypes. Projected
gradient descent steps, and then projects:

>>> import funcgrad as fg
>>> from funcgrad import optim
>>> def loss(w):
...     return fg.numpy.sum((w - fg.tensor([0.9, 0.5, -0.3])) ** 2)
>>> optimizer = optim.sgd(0.2)
>>> w = fg.tensor([1.0, 0.0, 0.0])
>>> state = optimizer.init(w)
>>> for _ in range(50):
...     w, state = optimizer.step(fg.grad(loss)(w), state, w)
...     w = optim.projections.simplex(w)
>>> w
Tensor([0.7, 0.3, 0. ])

A projection consists of pieces of lines, planes and cones, and so do its derivatives. Where two
pieces meet, the derivative comes from the piece that keeps points of the set as they are, and a
number that is 0 stays 0. In ``box``, ``hypercube`` and ``linf_ball`` a number that is equal to a
bound shares the derivative with it, as in ``fnp.clip``.

Complex leaves, except in ``l2_ball`` and ``l2_sphere``, integers, and a scale that is not one real
number raise `DtypeError`; a negative scale, or an infinite one of ``simplex`` and of a sphere,
raises `ArgumentError`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.pytrees import Structure, broadcast_prefix, flatten, structure, unflatten
from funcgrad._core.specs import dtype_of, is_inexact, shape_of
from funcgrad._core.trace import RAW, bind2, concrete
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad._primitives.activations import relu, shift
from funcgrad._primitives.norms import directed, length
from funcgrad._primitives.structural import cast
from funcgrad._transforms.arguments import values_of
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.optim.base import Pytree, in_dtype
from funcgrad.tensor.tensor import Tensor, apply1, wrap
from funcgrad.tree.vectors import ravel

__all__ = [
    "box",
    "hypercube",
    "l1_ball",
    "l1_sphere",
    "l2_ball",
    "l2_sphere",
    "linf_ball",
    "non_negative",
    "simplex",
]

Tree = TypeVar("Tree")


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules


@answering
def non_negative(tree: Tree) -> Tree:
    """Replace negative numbers by 0.

    Parameters
    ----------
    tree : pytree of real tensors

    Notes
    -----
    At 0 the derivative is 0: the subgradient of least norm.

    Examples
    --------
    >>> non_negative({"w": wrap(np.array([-1.0, 2.0]))})
    {'w': Tensor([0., 2.])}
    """
    return _leafwise("non_negative", tree, lambda leaf: apply1(relu, leaf))


@answering
def box(tree: Tree, lower: Pytree, upper: Pytree) -> Tree:
    """Limit numbers to an interval.

    Parameters
    ----------
    tree : pytree of real tensors
    lower, upper : float, 0-d tensor or pytree
        The bounds: one number for all, which may be infinite, or a tree like the first one, whose
        leaves broadcast to the leaves of ``tree``. The result is differentiable in them.

    Raises
    ------
    TreeError, ShapeError
        A tree of bounds has another structure, or a bound does not broadcast to its leaf.
    DtypeError
        A bound is complex.
    ArgumentError
        A lower bound is greater than the upper bound. (Traced bounds are not checked.)

    Examples
    --------
    >>> box([wrap(np.array([-1.0, 2.0])), 0.5], 0.0, [1.0, fnp.inf])
    [Tensor([0., 1.]), Tensor(0.5)]
    """
    return _boxed("box", tree, lower, upper)


@answering
def hypercube(tree: Tree, scale: Pytree = 1.0) -> Tree:
    """Limit numbers to the interval from 0 to a scale.

    Parameters
    ----------
    tree : pytree of real tensors
    scale : float, 0-d tensor or pytree
        The upper bounds, as of ``box``; not negative.

    Examples
    --------
    >>> hypercube(wrap(np.array([-1.0, 0.5, 2.0])))
    Tensor([0. , 0.5, 1. ])
    """
    return _boxed("hypercube", tree, 0.0, scale, ("0", "the scale"))


@answering
def linf_ball(tree: Tree, scale: ArrayLike = 1.0) -> Tree:
    """Limit the magnitude of all numbers.

    Parameters
    ----------
    tree : pytree of real tensors
    scale : float or 0-d tensor
        The greatest magnitude, not negative. The result is differentiable in it.

    Examples
    --------
    >>> linf_ball(wrap(np.array([-3.0, 0.5, 2.0])))
    Tensor([-1. ,  0.5,  1. ])
    """
    most = _checked_scale("linf_ball", scale)
    return _boxed("linf_ball", tree, -most, most)


@answering
def simplex(tree: Tree, scale: ArrayLike = 1.0) -> Tree:
    """The closest tree of numbers that are not negative, and whose sum is the scale.

    Parameters
    ----------
    tree : pytree of real tensors
        With one number at least.
    scale : float or 0-d tensor
        The sum, not negative and finite. The result is differentiable in it.

    Raises
    ------
    ShapeError
        The tree is empty.

    Notes
    -----
    The numbers minus a common level, or 0 if that is negative. Where a number becomes 0 for the
    first time, its derivative is 0. The level follows from the sorted numbers: Held, Wolfe,
    Crowder, "Validation of subgradient optimization", Math. Programming 6 (1974). For the scale 1
    this is ``nn.sparsemax`` of all numbers.

    Examples
    --------
    >>> simplex({"b": 0.5, "w": wrap(np.array([2.0, 2.5]))})
    {'b': Tensor(0.), 'w': Tensor([0.25, 0.75])}
    """
    vector, restored = _vector_of("simplex", tree)
    total = _scale_of("simplex", scale, vector, finite=True)
    if not vector.size:
        raise ShapeError(
            "projections.simplex: the tree has no elements, so their sum cannot be scale."
        )
    return restored(_on_simplex(vector, total))


@answering
def l1_ball(tree: Tree, scale: ArrayLike = 1.0) -> Tree:
    """The closest tree with a sum of absolute values of at most the scale.

    Parameters
    ----------
    tree : pytree of real tensors
    scale : float or 0-d tensor
        The radius, not negative. The result is differentiable in it.

    Notes
    -----
    Outside of the ball absolute values become smaller by a common level, or 0. Duchi,
    Shalev-Shwartz, Singer, Chandra, "Efficient projections onto the l1-ball for learning in high
    dimensions", ICML 2008.

    Examples
    --------
    >>> l1_ball(wrap(np.array([-2.0, 0.5, 1.5])))
    Tensor([-0.75,  0.  ,  0.25])
    """
    vector, restored = _vector_of("l1_ball", tree)
    radius = _scale_of("l1_ball", scale, vector)
    if not vector.size:
        return restored(vector)
    with np.errstate(over="ignore"):  # beyond all numbers is outside
        is_inside = fnp.sum(fnp.abs(stop_gradient(vector))) <= radius
    return restored(fnp.where(is_inside, vector, _on_l1_sphere(vector, radius, is_inside)))


@answering
def l1_sphere(tree: Tree, scale: ArrayLike = 1.0) -> Tree:
    """The closest tree whose sum of absolute values is the scale.

    Parameters
    ----------
    tree : pytree of real tensors
    scale : float or 0-d tensor
        The radius, not negative and finite. The result is differentiable in it.

    Notes
    -----
    Numbers that are 0 stay 0, the mean of the closest points, also where the sum would need them.

    Examples
    --------
    >>> l1_sphere(wrap(np.array([0.25, -0.25])))
    Tensor([ 0.5, -0.5])
    """
    vector, restored = _vector_of("l1_sphere", tree)
    radius = _scale_of("l1_sphere", scale, vector, finite=True)
    return restored(_on_l1_sphere(vector, radius) if vector.size else vector)


@answering
def l2_ball(tree: Tree, scale: ArrayLike = 1.0) -> Tree:
    """The closest tree whose norm, of the whole tree as one vector, is at most the scale.

    Parameters
    ----------
    tree : pytree of tensors
        Complex ones keep their directions in the plane.
    scale : float or 0-d tensor
        The radius, not negative. The result is differentiable in it.

    Notes
    -----
    Outside of the ball the tree becomes shorter. An infinite tree becomes the direction of its
    infinite numbers.

    Examples
    --------
    >>> l2_ball({"b": 3e200, "w": wrap(np.array([4e200, 0.0]))})
    {'b': Tensor(0.6), 'w': Tensor([0.8, 0. ])}
    """
    vector, restored = _vector_of("l2_ball", tree, real=False)
    radius = _scale_of("l2_ball", scale, vector)
    constant = stop_gradient(vector)
    is_inside = wrap(length(constant, axis=(0,), keepdims=False)) <= radius
    return restored(fnp.where(is_inside, vector, _on_l2_sphere(vector, radius)))


@answering
def l2_sphere(tree: Tree, scale: ArrayLike = 1.0) -> Tree:
    """The closest tree whose norm, of the whole tree as one vector, is the scale.

    Parameters
    ----------
    tree : pytree of tensors
        Complex ones keep their directions in the plane.
    scale : float or 0-d tensor
        The radius, not negative and finite. The result is differentiable in it.

    Notes
    -----
    A tree of zeros, to which all points of the sphere are equally close, stays zero: the mean of
    these points. The derivative there is 0.

    Examples
    --------
    >>> l2_sphere(wrap(np.array([3e-200, 4e-200])), 10.0)
    Tensor([6., 8.])
    """
    vector, restored = _vector_of("l2_sphere", tree, real=False)
    return restored(_on_l2_sphere(vector, _scale_of("l2_sphere", scale, vector, finite=True)))


def _leafwise(name: str, tree: Tree, function: Callable[[Tensor], Tensor]) -> Tree:
    leaves = _checked_leaves(name, tree)
    return unflatten(structure(tree), [function(leaf) for leaf in leaves])


def _boxed(
    name: str, tree: Tree, lower: Pytree, upper: Pytree, words: tuple[str, str] = ("lower", "upper")
) -> Tree:
    leaves, form = _checked_leaves(name, tree), structure(tree)
    lows, highs = [
        _bounds_of(name, word, bound, leaves, form)
        for word, bound in zip(words, (lower, upper), strict=True)
    ]
    for position, pair in enumerate(zip(lows, highs, strict=True)):
        low, high = [concrete(bound) for bound in pair]
        if type(low) in RAW and type(high) in RAW and np.any(np.greater(low, high)):
            raise ArgumentError(
                f"projections.{name}: {words[0]} is greater than {words[1]} for"
                f" tree{form.paths()[position]}, and no number is between them."
            )
    every = zip(leaves, lows, highs, strict=True)
    return unflatten(form, [fnp.clip(leaf, low, high) for leaf, low, high in every])


def _on_simplex(vector: Tensor, total: Tensor) -> Tensor:
    """Project a vector that is not empty.

    Numbers count relative to the greatest, and, to find the level, in units of the total: nothing
    overflows, and a number that is further below than the total becomes 0 in any case.
    """
    constant = stop_gradient(vector)
    relative = wrap(bind2(shift, vector, fnp.max(constant)))
    place, unit = stop_gradient(relative), stop_gradient(total)
    is_below = place < -unit
    inner = fnp.where(is_below, 0, place) / fnp.where(unit > 0, unit, 1)
    ratios = fnp.where(is_below, -1, inner)
    descending = -fnp.sort(-ratios)
    counts = fnp.arange(1, vector.size + 1).astype(vector.dtype)
    number = fnp.sum(1 + counts * descending > fnp.cumsum(descending))
    least = descending[fnp.maximum(number, 1) - 1]
    is_zero = ratios < least  # so that NaN is not a zero
    present = fnp.where(is_zero, 0, relative)
    count = fnp.sum(~is_zero).astype(vector.dtype)
    level = (fnp.sum(present) - total) / count
    return fnp.where(is_zero, 0, relative - level)


def _on_l1_sphere(vector: Tensor, radius: Tensor, is_inside: Tensor | None = None) -> Tensor:
    sizes = fnp.abs(vector)
    if is_inside is not None:  # another radius there, which may be infinite
        radius = fnp.where(is_inside, 0, radius)
    return fnp.sign(vector) * _on_simplex(sizes, radius)


def _on_l2_sphere(vector: Tensor, radius: Tensor) -> Tensor:
    constant = stop_gradient(vector)
    is_infinite = fnp.isinf(constant)
    ends = fnp.where(is_infinite, fnp.sign(fnp.where(is_infinite, constant, 1)), 0)
    tamed = fnp.where(fnp.any(is_infinite), ends, vector)
    return wrap(directed(radius.reshape(1), tamed, axis=(0,)))


def _vector_of(name: str, tree: Tree, real: bool = True) -> tuple[Tensor, Callable[[Tensor], Tree]]:
    """A tree as a vector, of single precision at least, and back."""
    _checked_leaves(name, tree, real)
    vector, unravel = ravel(tree)
    return in_dtype(vector, np.promote_types(vector.dtype, np.float32)), unravel


def _checked_leaves(name: str, tree: Pytree, real: bool = True) -> list[Tensor]:
    leaves, form = flatten(tree)
    values = values_of(f"projections.{name}", leaves, form, lambda: "tree")
    for position, value in enumerate(values):
        dtype = dtype_of(value)
        if is_inexact(dtype) and not (real and dtype.kind == "c"):
            continue
        kind = "complex" if dtype.kind == "c" else f"of dtype {dtype}"
        remedy = (
            "Project .real and .imag, or take l2_ball."
            if dtype.kind == "c"
            else "Use a floating dtype, or keep it out of the tree."
        )
        raise DtypeError(
            f"projections.{name}: tree{form.paths()[position]} is {kind}, and has no projection"
            f" here. {remedy}"
        )
    return [wrap(value) for value in values]


def _scale_of(name: str, scale: ArrayLike, vector: Tensor, finite: bool = False) -> Tensor:
    """A scale in the precision of the real part of a vector."""
    number = _checked_scale(name, scale, finite)
    dtype = vector.real.dtype if vector.dtype.kind == "c" else vector.dtype
    return wrap(cast(number, dtype=dtype))


def _checked_scale(name: str, scale: ArrayLike, finite: bool = False) -> Tensor:
    number = operand(scale, f"projections.{name}")
    if shape_of(number) or dtype_of(number).kind not in "fiu":
        raise DtypeError(
            f"projections.{name}: scale has to be one real number, got {scale!r}. For a scale of"
            " each number take box."
        )
    raw = concrete(number)
    if type(raw) in RAW and not (raw >= 0 and (raw < np.inf or not finite)):
        raise ArgumentError(
            f"projections.{name}: scale has to be at least 0"
            + (" and finite" if finite else "")
            + f", got {raw!r}."
        )
    return wrap(number)


def _bounds_of(
    name: str, word: str, bounds: Pytree, leaves: list[Tensor], form: Structure
) -> list[Tensor]:
    """A bound for each leaf, in its dtype."""
    made = []
    for position, (bound, leaf) in enumerate(
        zip(broadcast_prefix(bounds, form, f"projections.{name}: {word}"), leaves, strict=True)
    ):
        place = f"projections.{name}: {word}, for tree{form.paths()[position]},"
        value = operand(bound, place)
        if dtype_of(value).kind not in "fiu":
            raise DtypeError(f"{place} has to be of real numbers, got {dtype_of(value)}.")
        try:
            fits = np.broadcast_shapes(shape_of(value), leaf.shape) == leaf.shape
        except ValueError:
            fits = False
        if not fits:
            raise ShapeError(
                f"{place} has the shape {shape_of(value)}, which does not broadcast to"
                f" {leaf.shape}, the shape there."
            )
        made.append(wrap(cast(value, dtype=leaf.dtype)))
    return made
