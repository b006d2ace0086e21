"""Shapes and the order of axes and elements.

>>> reshape([1.0, 2.0, 3.0, 4.0], (2, -1))
Tensor([[1., 2.],
        [3., 4.]])
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final, SupportsIndex

import numpy as np

from funcgrad._core.specs import (
    AxisLike,
    Shape,
    ShapeLike,
    broadcast_shapes,
    normalize_axes,
    normalize_axis,
    shape_of,
)
from funcgrad._core.trace import RAW, Value, concrete, on_one_device
from funcgrad._core.users_values import operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives import structural as _p
from funcgrad._primitives.broadcasting import broadcast_to as _broadcast_to
from funcgrad._primitives.structural import move_axis
from funcgrad.errors import AxisError, ShapeError
from funcgrad.numpy.blocks import rolled, shifts_of
from funcgrad.numpy.options import choice, integer, sequence, shape_argument, shape_with_unknowns
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap


def _permuted(x: Value, axes: tuple[int, ...]) -> Tensor:
    return wrap(_p.transpose(x, axes=axes))


def _reshaped(x: Value, shape: Shape) -> Tensor:
    return wrap(_p.reshape(x, shape=shape))


# ---------------------------------------------------------------------------------------- shapes


def reshape(
    a: ArrayLike, /, shape: ShapeLike, order: str = "C", *, copy: bool | None = None
) -> Tensor:
    """Arrange the elements, read row by row, in another shape; a view.

    Parameters
    ----------
    a : array_like
    shape : int or sequence of int
        One size may be -1; it follows from the others.
    order : {"C", "F"}
        Row by row, or column by column. NumPy's other orders depend on the layout in memory, and
        are not supported.
    copy : bool, optional
        Ignored: tensors cannot be written to.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        The number of elements differs.

    Examples
    --------
    >>> reshape([1, 2, 3, 4], (-1, 2))
    Tensor([[1, 2],
            [3, 4]])
    """
    value, wanted = operand(a, "reshape"), shape_with_unknowns(shape, "reshape")
    if choice(order, ("C", "F"), "reshape", "order") == "F":
        columns = reshape(_p.reverse_axes(value), wanted[::-1])
        return wrap(_p.reverse_axes(columns))
    return _reshaped(value, _resolved(wanted, shape_of(value)))


def _resolved(wanted: Shape, shape: Shape) -> Shape:
    """A shape with its -1 replaced."""
    count = int(np.prod(shape))
    unknown = [n for n in wanted if n < 0]
    known = int(np.prod([n for n in wanted if n >= 0]))
    if unknown == [-1] and known and count % known == 0:
        return tuple([count // known if n < 0 else n for n in wanted])
    if unknown or known != count:
        raise ShapeError(
            f"reshape: {count} elements, of the shape {shape}, do not fit the shape {wanted}."
        )
    return wanted


def ravel(a: ArrayLike, order: str = "C") -> Tensor:
    """Flatten the elements, row by row; a view.

    Examples
    --------
    >>> ravel([[1, 2], [3, 4]])
    Tensor([1, 2, 3, 4])
    """
    return reshape(a, -1, order)


@answering
def squeeze(a: ArrayLike, axis: AxisLike = None) -> Tensor:
    """Remove axes of size 1, by default all of them.

    Raises
    ------
    ShapeError
        A named axis has another size.

    Examples
    --------
    >>> squeeze([[1.0, 2.0]])
    Tensor([1., 2.])
    """
    value = operand(a, "squeeze")
    shape = shape_of(value)
    if axis is None:
        return _reshaped(value, tuple([n for n in shape if n != 1]))
    axes = normalize_axes(axis, len(shape), "squeeze")
    for place in axes:
        if shape[place] != 1:
            raise ShapeError(
                f"squeeze: axis {place} of the shape {shape} has the size {shape[place]}, not 1,"
                " and cannot be left out."
            )
    return _reshaped(value, tuple([n for place, n in enumerate(shape) if place not in axes]))


@answering
def expand_dims(a: ArrayLike, axis: AxisLike = 0) -> Tensor:
    """Insert axes of size 1 at places counted in the result.

    Examples
    --------
    >>> expand_dims([1.0, 2.0], 1).shape
    (2, 1)
    """
    value = operand(a, "expand_dims")
    sizes = iter(shape_of(value))
    count = 1 if axis is None or not isinstance(axis, Sequence) else len(axis)
    rank = len(shape_of(value)) + count
    axes = normalize_axes(0 if axis is None else axis, rank, "expand_dims")
    return _reshaped(value, tuple([1 if place in axes else next(sizes) for place in range(rank)]))


def _at_least(name: str, arrays: tuple[ArrayLike, ...], widen: Any) -> Any:
    results = []
    for x in arrays:
        value = operand(x, name)
        results.append(_reshaped(value, widen(shape_of(value))))
    return results[0] if len(results) == 1 else tuple(results)


def atleast_1d(*arrays: ArrayLike) -> Any:
    """Give 0-d arrays an axis; for several arrays return a tuple.

    Examples
    --------
    >>> atleast_1d(1.0)
    Tensor([1.])
    """
    return _at_least("atleast_1d", arrays, lambda shape: shape or (1,))


def atleast_2d(*arrays: ArrayLike) -> Any:
    """Add axes in front until there are two; for several arrays return a tuple.

    Examples
    --------
    >>> atleast_2d([1.0, 2.0])
    Tensor([[1., 2.]])
    """
    return _at_least("atleast_2d", arrays, lambda shape: (1,) * (2 - len(shape)) + shape)


def atleast_3d(*arrays: ArrayLike) -> Any:
    """Give arrays at least three axes: (n,) becomes (1, n, 1), and (m, n) becomes (m, n, 1).

    Examples
    --------
    >>> atleast_3d([1.0, 2.0]).shape
    (1, 2, 1)
    """

    def widen(shape: Shape) -> Shape:
        return (
            shape
            if len(shape) > 2
            else ((1,) * (2 - len(shape)) + shape + (1,) if shape else (1, 1, 1))
        )

    return _at_least("atleast_3d", arrays, widen)


def broadcast_to(array: ArrayLike, shape: ShapeLike) -> Tensor:
    """Repeat an array along new axes and along axes of size 1.

    A large result is a view without memory of its own; programs and derivatives copy it.

    Raises
    ------
    ShapeError
        The array does not broadcast to the shape.

    Examples
    --------
    >>> broadcast_to([1.0, 2.0], (2, 2))
    Tensor([[1., 2.],
            [1., 2.]])
    """
    value, wanted = operand(array, "broadcast_to"), shape_argument(shape, "broadcast_to")
    return _widened(value, wanted, "broadcast_to")


def _widened(x: Value, wanted: Shape, operation: str) -> Tensor:
    shape = shape_of(x)
    if shape == wanted:
        return wrap(x)
    if broadcast_shapes(operation, shape, wanted) != wanted:
        raise ShapeError(f"{operation}: the shape {shape} does not broadcast to {wanted}.")
    number = concrete(x)
    if type(number) in RAW and prod(wanted) > _LARGE:
        return wrap(np.broadcast_to(number, wanted))
    return wrap(_broadcast_to(x, shape=wanted))


_LARGE: Final = 1 << 16
"""The size from which a broadcast array is a view; copying small arrays is faster."""


def broadcast_arrays(*arrays: ArrayLike) -> tuple[Tensor, ...]:
    """Broadcast several arrays to their common shape.

    Examples
    --------
    >>> broadcast_arrays([1.0, 2.0], 3.0)
    (Tensor([1., 2.]), Tensor([3., 3.]))
    """
    values = on_one_device([operand(x, "broadcast_arrays") for x in arrays], "broadcast_arrays")
    wanted = broadcast_shapes("broadcast_arrays", *[shape_of(x) for x in values])
    return tuple([_widened(x, wanted, "broadcast_arrays") for x in values])


# --------------------------------------------------------------------------------- order of axes


@answering
def transpose(a: ArrayLike, axes: AxisLike = None) -> Tensor:
    """Permute the axes, by default to their reverse order; a view.

    Examples
    --------
    >>> transpose([[1.0, 2.0], [3.0, 4.0]])
    Tensor([[1., 3.],
            [2., 4.]])
    """
    return permute_dims(a, axes)


@answering
def permute_dims(a: ArrayLike, axes: AxisLike = None) -> Tensor:
    """Permute the axes, by default to their reverse order; a view.

    Parameters
    ----------
    a : array_like
    axes : sequence of int
        For each axis of the result, the axis of ``a``.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> permute_dims([[[1.0, 2.0]]], (2, 0, 1)).shape
    (2, 1, 1)
    """
    value = operand(a, "permute_dims")
    if axes is None:
        return wrap(_p.reverse_axes(value))
    rank = len(shape_of(value))
    order = normalize_axes(axes, rank, "permute_dims")
    if len(order) != rank:
        raise ShapeError(f"permute_dims: {len(order)} axes for an array of {rank}: {axes}.")
    return _permuted(value, order)


def matrix_transpose(x: ArrayLike, /) -> Tensor:
    """Transpose the matrices of a stack: exchange the last two axes.

    Examples
    --------
    >>> matrix_transpose([[[1.0, 2.0]]]).shape
    (1, 2, 1)
    """
    return wrap(_p.swap_last_axes(operand(x, "matrix_transpose")))


@answering
def swapaxes(a: ArrayLike, axis1: SupportsIndex, axis2: SupportsIndex) -> Tensor:
    """Exchange two axes; a view.

    Examples
    --------
    >>> swapaxes([[1.0, 2.0]], 0, 1)
    Tensor([[1.],
            [2.]])
    """
    value = operand(a, "swapaxes")
    order = list(range(len(shape_of(value))))
    first = normalize_axis(axis1, len(order), "swapaxes")
    second = normalize_axis(axis2, len(order), "swapaxes")
    order[first], order[second] = second, first
    return _permuted(value, tuple(order))


def moveaxis(a: ArrayLike, source: AxisLike, destination: AxisLike) -> Tensor:
    """Move axes to new places; the others keep their order.

    Examples
    --------
    >>> moveaxis([[[1.0, 2.0]]], 2, 0).shape
    (2, 1, 1)
    """
    value = operand(a, "moveaxis")
    rank = len(shape_of(value))
    sources = normalize_axes(source, rank, "moveaxis")
    places = normalize_axes(destination, rank, "moveaxis")
    if len(sources) != len(places):
        raise ShapeError(f"moveaxis: {len(sources)} axes cannot move to {len(places)} places.")
    order = [old for old in range(rank) if old not in sources]
    for place, old in sorted(zip(places, sources, strict=True)):
        order.insert(place, old)
    return _permuted(value, tuple(order))


@answering
def rollaxis(a: ArrayLike, axis: SupportsIndex, start: SupportsIndex = 0) -> Tensor:
    """Move an axis in front of another; ``moveaxis`` is easier to read.

    Examples
    --------
    >>> rollaxis([[[1.0, 2.0]]], 2).shape
    (2, 1, 1)
    """
    value = operand(a, "rollaxis")
    rank = len(shape_of(value))
    place = integer(start, "rollaxis", "start")
    if not -rank <= place <= rank:
        raise AxisError(f"rollaxis: start {place} is out of bounds for {rank} axes.")
    source = normalize_axis(axis, rank, "rollaxis")
    place += rank * (place < 0)
    return wrap(move_axis(value, source, place - (source < place)))


# ------------------------------------------------------------------------------ order of elements


@answering
def flip(m: ArrayLike, axis: AxisLike = None) -> Tensor:
    """Reverse the order of elements along axes, by default along all axes.

    Examples
    --------
    >>> flip([1.0, 2.0, 3.0])
    Tensor([3., 2., 1.])
    """
    value = operand(m, "flip")
    axes = normalize_axes(axis, len(shape_of(value)), "flip")
    return wrap(_p.flip(value, axis=axes))


def fliplr(m: ArrayLike) -> Tensor:
    """Reverse the order of columns: ``flip`` along axis 1.

    Examples
    --------
    >>> fliplr([[1.0, 2.0]])
    Tensor([[2., 1.]])
    """
    return flip(m, 1)


def flipud(m: ArrayLike) -> Tensor:
    """Reverse the order of rows: ``flip`` along axis 0.

    Examples
    --------
    >>> flipud([1.0, 2.0])
    Tensor([2., 1.])
    """
    return flip(m, 0)


@answering
def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Tensor:
    """Rotate by ``k`` right angles, from the first towards the second of two axes.

    Examples
    --------
    >>> rot90([[1.0, 2.0], [3.0, 4.0]])
    Tensor([[2., 4.],
            [1., 3.]])
    """
    value = operand(m, "rot90")
    pair = sequence(axes, "rot90", "axes")
    if len(pair) != 2:
        raise ShapeError(f"rot90: there have to be two axes, not {axes!r}.")
    first, second = normalize_axes(pair, len(shape_of(value)), "rot90")
    k = integer(k, "rot90", "k")
    if k % 4 == 0:
        return wrap(value)
    if k % 4 == 2:
        return flip(value, (first, second))
    if k % 4 == 1:
        return swapaxes(flip(value, second), first, second)
    return flip(swapaxes(value, first, second), second)


@answering
def roll(a: ArrayLike, shift: AxisLike, axis: AxisLike = None) -> Tensor:
    """Shift the elements along axes; elements beyond the end reappear at the front.

    Parameters
    ----------
    a : array_like
    shift : int or tuple of int
        They may be traced: then one program serves all shifts.
    axis : int or tuple of int, optional
        By default the elements are shifted row by row, as on one axis.

    Returns
    -------
    Tensor
        In the shape of ``a``.

    Examples
    --------
    >>> roll([1.0, 2.0, 3.0], 1)
    Tensor([3., 1., 2.])
    """
    value = operand(a, "roll")
    shifts, shape = shifts_of(shift), shape_of(value)
    if axis is None:
        flat = _p.reshape(value, shape=(int(np.prod(shape)),))
        return _reshaped(rolled(flat, (sum(shifts),), (0,)), shape)
    named = tuple(axis) if isinstance(axis, Sequence) else (axis,)
    axes = tuple([normalize_axis(place, len(shape), "roll") for place in named])
    if len(shifts) == 1:
        shifts *= len(axes)
    elif len(axes) == 1:
        axes *= len(shifts)
    if len(shifts) != len(axes):
        raise ShapeError(f"roll: {len(shifts)} shifts do not fit {len(axes)} axes.")
    return wrap(rolled(value, shifts, axes))
