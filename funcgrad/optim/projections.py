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
from funcgrad._core.pytrees import structure, unflatten
from funcgrad._core.trace import RAW, concrete
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad._primitives.activations import relu
from funcgrad._primitives.norms import length
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.optim.base import Pytree
from funcgrad.optim.projection_formulas import (
    bounds_of,
    checked_leaves,
    checked_scale,
    on_l1_sphere,
    on_l2_sphere,
    on_simplex,
    scale_of,
    vector_of,
)
from funcgrad.tensor.tensor import Tensor, apply1, wrap

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
    most = checked_scale("linf_ball", scale)
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
    vector, restored = vector_of("simplex", tree)
    total = scale_of("simplex", scale, vector, finite=True)
    if not vector.size:
        raise ShapeError(
            "projections.simplex: the tree has no number, and nothing has the sum that scale says."
        )
    return restored(on_simplex(vector, total))


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
    vector, restored = vector_of("l1_ball", tree)
    radius = scale_of("l1_ball", scale, vector)
    if not vector.size:
        return restored(vector)
    with np.errstate(over="ignore"):  # beyond all numbers is outside
        is_inside = fnp.sum(fnp.abs(stop_gradient(vector))) <= radius
    return restored(fnp.where(is_inside, vector, on_l1_sphere(vector, radius, is_inside)))


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
    vector, restored = vector_of("l1_sphere", tree)
    radius = scale_of("l1_sphere", scale, vector, finite=True)
    return restored(on_l1_sphere(vector, radius) if vector.size else vector)


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
    vector, restored = vector_of("l2_ball", tree, real=False)
    radius = scale_of("l2_ball", scale, vector)
    constant = stop_gradient(vector)
    is_inside = wrap(length(constant, axis=(0,), keepdims=False)) <= radius
    return restored(fnp.where(is_inside, vector, on_l2_sphere(vector, radius)))


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
    vector, restored = vector_of("l2_sphere", tree, real=False)
    return restored(on_l2_sphere(vector, scale_of("l2_sphere", scale, vector, finite=True)))


def _leafwise(name: str, tree: Tree, function: Callable[[Tensor], Tensor]) -> Tree:
    leaves = checked_leaves(name, tree)
    return unflatten(structure(tree), [function(leaf) for leaf in leaves])


def _boxed(
    name: str,
    tree: Tree,
    lower: Pytree,
    upper: Pytree,
    words: tuple[str, str] = ("lower", "upper"),
) -> Tree:
    leaves, form = checked_leaves(name, tree), structure(tree)
    lows, highs = [
        bounds_of(name, word, bound, leaves, form)
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
