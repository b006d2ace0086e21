"""Formulas of projections, of a tree as one vector, and checks of arguments.

>>> on_simplex(wrap(np.array([2.0, 1.5, 0.0])), wrap(1.0))
Tensor([0.75, 0.25, 0.  ])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.pytrees import Structure, broadcast_prefix, flatten
from funcgrad._core.specs import dtype_of, is_inexact, shape_of
from funcgrad._core.trace import RAW, bind2, concrete
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._primitives.activations import shift
from funcgrad._primitives.norms import directed
from funcgrad._primitives.structural import cast
from funcgrad._transforms.arguments import values_of
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.optim.base import Pytree, in_dtype
from funcgrad.tensor.tensor import Tensor, wrap
from funcgrad.tree.vectors import ravel

Tree = TypeVar("Tree")


def on_simplex(vector: Tensor, total: Tensor) -> Tensor:
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
    is_zero = ratios < least  # so that NaN is no zero
    present = fnp.where(is_zero, 0, relative)
    count = fnp.sum(~is_zero).astype(vector.dtype)
    level = (fnp.sum(present) - total) / count
    return fnp.where(is_zero, 0, relative - level)


def on_l1_sphere(vector: Tensor, radius: Tensor, is_inside: Tensor | None = None) -> Tensor:
    sizes = fnp.abs(vector)
    if is_inside is not None:  # another radius there, which may be infinite
        radius = fnp.where(is_inside, 0, radius)
    return fnp.sign(vector) * on_simplex(sizes, radius)


def on_l2_sphere(vector: Tensor, radius: Tensor) -> Tensor:
    constant = stop_gradient(vector)
    is_infinite = fnp.isinf(constant)
    ends = fnp.where(is_infinite, fnp.sign(fnp.where(is_infinite, constant, 1)), 0)
    tamed = fnp.where(fnp.any(is_infinite), ends, vector)
    return wrap(directed(radius.reshape(1), tamed, axis=(0,)))


def vector_of(name: str, tree: Tree, real: bool = True) -> tuple[Tensor, Callable[[Tensor], Tree]]:
    """A tree as a vector, of single precision at least, and back."""
    checked_leaves(name, tree, real)
    vector, unravel = ravel(tree)
    return in_dtype(vector, np.promote_types(vector.dtype, np.float32)), unravel


def checked_leaves(name: str, tree: Pytree, real: bool = True) -> list[Tensor]:
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


def scale_of(name: str, scale: ArrayLike, vector: Tensor, finite: bool = False) -> Tensor:
    """A scale in the precision of the real part of a vector."""
    number = checked_scale(name, scale, finite)
    dtype = vector.real.dtype if vector.dtype.kind == "c" else vector.dtype
    return wrap(cast(number, dtype=dtype))


def checked_scale(name: str, scale: ArrayLike, finite: bool = False) -> Tensor:
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


def bounds_of(
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
