"""Repeat, pad, insert and delete elements.

>>> repeat([1.0, 2.0], 2)
Tensor([1., 1., 2., 2.])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex

import numpy as np

from funcgrad._core.specs import (
    AxisLike,
    Shape,
    ShapeLike,
    dtype_of,
    normalize_axes,
    normalize_axis,
    shape_of,
)
from funcgrad._core.trace import RAW, Raw, Value, concrete
from funcgrad._core.users_values import Setting, explained, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.indexing import gather
from funcgrad._primitives.structural import move_axis, place, reshape, view
from funcgrad.errors import ArgumentError, IndexKindError, ShapeError
from funcgrad.numpy.creation import made
from funcgrad.numpy.indexing import revealed
from funcgrad.numpy.joining import concatenate
from funcgrad.numpy.options import choice, converted, integers, shape_argument, sized
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap


def _flat(x: Value) -> Value:
    return reshape(x, shape=(int(np.prod(shape_of(x))),))


def _on_axis(x: ArrayLike, axis: SupportsIndex | None, operation: str) -> tuple[Value, int, Shape]:
    """An array, or all its elements on one axis, with the axis and the shape."""
    value = operand(x, operation)
    if axis is None:
        value, axis = _flat(value), 0
    shape = shape_of(value)
    return value, normalize_axis(axis, len(shape), operation), shape


@answering
def repeat(a: ArrayLike, repeats: Setting, axis: SupportsIndex | None = None) -> Tensor:
    """Repeat each element, or each slice along an axis.

    Parameters
    ----------
    a : array_like
    repeats : int, or 1-d array_like of integers
        The number of repetitions; concrete, since the shape of the result depends on it.
    axis : int, optional
        By default the elements are taken row by row, as one axis.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> repeat([[1.0, 2.0]], [2, 1], axis=1)
    Tensor([[1., 1., 2.]])
    """
    value, along, shape = _on_axis(a, axis, "repeat")
    counts = revealed(repeats, "repeat", "repeats")
    if counts.dtype.kind not in "iu" or (counts < 0).any():
        raise ShapeError("repeat: repeats have to be non-negative integers.")
    if counts.size == 1:
        count = int(counts.reshape(()))
        sized((*shape, count), "repeat")
        wide = broadcast_to(
            reshape(value, shape=(*shape[: along + 1], 1, *shape[along + 1 :])),
            shape=(*shape[: along + 1], count, *shape[along + 1 :]),
        )
        return wrap(
            reshape(wide, shape=(*shape[:along], shape[along] * count, *shape[along + 1 :]))
        )
    if counts.shape != (shape[along],):
        raise ShapeError(
            f"repeat: {counts.size} repeats do not fit axis {along}, of size {shape[along]}."
        )
    return _chosen(value, np.repeat(np.arange(shape[along]), counts.astype(np.intp)), along)


def _chosen(x: Value, positions: Raw, axis: int, unique: bool = False) -> Tensor:
    return wrap(gather(x, positions, axis=axis, unique=unique))


def tile(A: ArrayLike, reps: SupportsIndex | Sequence[SupportsIndex]) -> Tensor:
    """Repeat the whole array, ``reps`` times along each axis.

    Parameters
    ----------
    A : array_like
    reps : int or sequence of int
        For the last axes, if there are fewer than axes; for new axes in front, if there are more.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> tile([1.0, 2.0], (2, 2))
    Tensor([[1., 2., 1., 2.],
            [1., 2., 1., 2.]])
    """
    value, counts = operand(A, "tile"), integers(reps, "tile", "reps")
    if min(counts, default=0) < 0:
        raise ShapeError(f"tile: reps must not be negative, but are {reps!r}.")
    shape = shape_of(value)
    rank = max(len(shape), len(counts))
    shape, counts = (1,) * (rank - len(shape)) + shape, (1,) * (rank - len(counts)) + counts
    narrow = reshape(value, shape=tuple([n for size in shape for n in (1, size)]))
    sized(tuple([n * k for n, k in zip(shape, counts, strict=True)]), "tile")
    pairs = [pair for both in zip(counts, shape, strict=True) for pair in both]
    wide = broadcast_to(narrow, shape=tuple(pairs))
    return wrap(reshape(wide, shape=tuple([n * k for n, k in zip(shape, counts, strict=True)])))


def resize(a: ArrayLike, new_shape: ShapeLike) -> Tensor:
    """Put the elements, row by row, into another shape; truncate or repeat them if necessary.

    Examples
    --------
    >>> resize([1.0, 2.0, 3.0], (2, 2))
    Tensor([[1., 2.],
            [3., 1.]])
    """
    value = _flat(operand(a, "resize"))
    shape = shape_argument(new_shape, "resize")
    count, size = int(np.prod(shape)), shape_of(value)[0]
    if not size:
        value, size = np.zeros(1, dtype_of(value)), 1
    positions = concrete(made(np.arange, "resize", count)) % size
    return _chosen(value, positions.reshape(shape), 0)


# --------------------------------------------------------------------------------------- padding


_MODES = ("edge", "reflect", "symmetric", "wrap")


def pad(array: ArrayLike, pad_width: Setting, mode: str = "constant", **kwargs: Any) -> Tensor:
    """Add elements before and behind along each axis.

    Parameters
    ----------
    array : array_like
    pad_width : int, (before, behind), a sequence of such pairs for the axes, or a dict by axis
    mode : {"constant", "edge", "reflect", "symmetric", "wrap", "empty"}
        The added elements: a constant (also "empty"), the last element, the elements reflected
        without or with the last, or the elements of the other end.
    **kwargs : array_like or str
        ``constant_values``, with mode "constant": a number, (before, behind), or a pair for each
        axis; differentiable. ``reflect_type``, with "reflect" and "symmetric": only "even".

    Returns
    -------
    Tensor

    Examples
    --------
    >>> pad([1.0, 2.0, 3.0], (1, 2))
    Tensor([0., 1., 2., 3., 0., 0.])
    >>> pad([1.0, 2.0, 3.0], 1, mode="reflect")
    Tensor([2., 1., 2., 3., 2.])
    """
    value = operand(array, "pad")
    shape = shape_of(value)
    widths = _widths(pad_width, len(shape))
    sized(tuple([n + sum(width) for n, width in zip(shape, widths, strict=True)]), "pad")
    choice(mode, (*_MODES, "constant", "empty"), "pad", "the mode")
    if mode in ("constant", "empty"):
        constants = kwargs.pop("constant_values", 0)
        _refuse_unknown(kwargs)
        return _pad_constant(value, widths, constants)
    if kwargs.pop("reflect_type", "even") != "even":
        raise ArgumentError("pad: only reflect_type='even' is supported.")
    _refuse_unknown(kwargs)
    modes: Any = mode
    for axis, width in enumerate(widths):
        if width != (0, 0):
            try:
                positions = np.pad(np.arange(shape[axis]), width, modes)
            except ValueError as error:
                raise explained(error, "pad", value, pad_width=pad_width, mode=mode) from error
            value = gather(value, positions, axis=axis, unique=False)
    return wrap(value)


def _refuse_unknown(kwargs: Mapping[str, Any]) -> None:
    if kwargs:
        raise ArgumentError(f"pad: the mode has no parameter {', '.join(kwargs)}.")


def _widths(pad_width: ArrayLike, rank: int) -> list[tuple[int, int]]:
    """The numbers of elements before and behind, for each axis."""
    if isinstance(pad_width, Mapping):
        widths = [(0, 0)] * rank
        for axis, width in pad_width.items():
            widths[normalize_axis(axis, rank, "pad")] = _widths(width, 1)[0]
        return widths
    try:
        pairs = np.broadcast_to(np.asarray(pad_width), (rank, 2))
    except ValueError:
        raise ShapeError(
            f"pad: pad_width={pad_width!r} does not fit {rank} axes; give a pair for each."
        ) from None
    if pairs.dtype.kind not in "iu" or (pairs < 0).any():
        raise ShapeError(f"pad: widths have to be non-negative integers, not {pad_width!r}.")
    return [(int(before), int(behind)) for before, behind in pairs]


def _pad_constant(x: Value, widths: Sequence[tuple[int, int]], constants: ArrayLike) -> Tensor:
    constant = _constant(constants, len(widths))
    if type(constant) in RAW and not np.any(constant):
        shape = shape_of(x)
        padded = tuple([b + n + a for n, (b, a) in zip(shape, widths, strict=True)])
        key = Key([slice(b, b + n) for n, (b, _) in zip(shape, widths, strict=True)])
        return wrap(place(x, key=key, shape=padded))
    pairs = broadcast_to(converted(constant, dtype_of(x), "pad"), shape=(len(widths), 2))
    for axis, width in enumerate(widths):
        if width == (0, 0):
            continue
        shape = shape_of(x)
        parts = [x, x]
        for side, count in enumerate(width):
            # As in NumPy, the constants of an axis also fill the corners that earlier axes have
            # added.
            slab = (*shape[:axis], count, *shape[axis + 1 :])
            number = wrap(pairs)[axis, side]
            parts[side] = broadcast_to(number, shape=slab)
        x = concatenate([wrap(parts[0]), wrap(x), wrap(parts[1])], axis)
    return wrap(x)


def _constant(constants: ArrayLike, rank: int) -> Value:
    """The constants as a value that broadcasts to (axes, 2)."""
    if isinstance(constants, Mapping):
        table = np.zeros((rank, 2))
        for axis, pair in constants.items():
            table[normalize_axis(axis, rank, "pad")] = pair
        return table
    if isinstance(constants, (tuple, list)):
        return _stacked(constants)
    return operand(constants, "pad")


def _stacked(constants: ArrayLike) -> Value:
    flat = [
        _stacked(constant) if isinstance(constant, (tuple, list)) else operand(constant, "pad")
        for constant in constants
    ]
    shape = np.broadcast_shapes(*map(shape_of, flat))
    rows = [wrap(broadcast_to(constant, shape=shape)) for constant in flat]
    return concatenate([row[None] for row in rows])


# --------------------------------------------------------------------------- inserting, deleting


def _positions(obj: ArrayLike, operation: str) -> np.ndarray[Any, Any]:
    """Concrete positions; an empty list, whose dtype is float, means none.

    Small integers widen: NumPy's own ``insert`` fails when it adds sizes to them.
    """
    positions = revealed(obj, operation, "obj")
    if positions.size and positions.dtype.kind not in "biu":
        raise IndexKindError(f"{operation}: obj has to be of integers, not of {positions.dtype}.")
    return (
        positions if positions.dtype.kind == "b" and positions.size else positions.astype(np.intp)
    )


@answering
def delete(arr: ArrayLike, obj: ArrayLike, axis: SupportsIndex | None = None) -> Tensor:
    """Delete the slices at positions along an axis.

    Parameters
    ----------
    arr : array_like
    obj : int, slice, or array_like of integers or booleans
        Concrete, since the shape of the result depends on it.
    axis : int, optional
        By default the elements are taken row by row, as one axis.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> delete([1.0, 2.0, 3.0], [0, 2])
    Tensor([2.])
    """
    value, a, shape = _on_axis(arr, axis, "delete")
    gone = obj if isinstance(obj, slice) else _positions(obj, "delete")
    try:
        remaining = np.delete(np.arange(shape[a]), gone)
    except (IndexError, ValueError) as error:
        raise explained(error, "delete", value, obj=obj) from error
    return _chosen(value, remaining, a, unique=True)


@answering
def insert(
    arr: ArrayLike, obj: ArrayLike, values: ArrayLike, axis: SupportsIndex | None = None
) -> Tensor:
    """Insert values before positions along an axis.

    Parameters
    ----------
    arr : array_like
    obj : int, slice, or array_like of integers
        Positions in ``arr``, concrete.
    values : array_like
        Values, which broadcast to the inserted slices and are cast to the dtype of ``arr``.
    axis : int, optional
        By default the elements are taken row by row, as one axis.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> insert([1.0, 3.0], 1, 2.0)
    Tensor([1., 2., 3.])
    """
    value, a, shape = _on_axis(arr, axis, "insert")
    inserted = converted(operand(values, "insert"), dtype_of(value), "insert")
    inserted = reshape(
        inserted, shape=(1,) * (len(shape) - len(shape_of(inserted))) + shape_of(inserted)
    )
    marks = np.arange(shape[a])
    spots = marks[obj] if isinstance(obj, slice) else _positions(obj, "insert")
    if spots.dtype.kind == "b":
        spots = np.flatnonzero(spots)
    if not spots.ndim:  # several values for one position lie along the first axis, as in x[i] = v
        inserted = move_axis(inserted, 0, a)
    count = shape_of(inserted)[a] if spots.size == 1 else spots.size
    surplus = len(shape_of(inserted)) - len(shape)
    if set(shape_of(inserted)[:surplus]) == {1}:  # size 1, dropped as by NumPy's assignments
        inserted = reshape(inserted, shape=shape_of(inserted)[surplus:])
    try:
        # Positions in x count from 0; positions in the new elements are negative.
        order = np.insert(marks, spots, -1 - np.arange(count))
        new = broadcast_to(inserted, shape=(*shape[:a], count, *shape[a + 1 :]))
    except (IndexError, ValueError) as error:
        raise explained(error, "insert", value, inserted, obj=obj) from error
    both = concatenate([wrap(value), wrap(new)], a)
    return _chosen(both, np.where(order < 0, shape[a] - 1 - order, order), a, unique=True)


@answering
def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: AxisLike = None) -> Tensor:
    """Remove the zeros at the ends of a concrete array.

    Parameters
    ----------
    filt : array_like
        Concrete, since the shape of the result depends on its elements.
    trim : str
        "f", "b" or both: at the front, at the back.
    axis : int, sequence of int, or None
        The axes to trim; by default all.

    Returns
    -------
    Tensor
        The result is empty if all elements are zero.

    Examples
    --------
    >>> trim_zeros([0.0, 1.0, 0.0, 2.0, 0.0])
    Tensor([1., 0., 2.])
    """
    value = operand(filt, "trim_zeros")
    shape = shape_of(value)
    ends = choice(str(trim).lower(), ("fb", "bf", "f", "b"), "trim_zeros", "trim")
    axes = normalize_axes(axis, len(shape), "trim_zeros")
    places = np.argwhere(revealed(value, "trim_zeros", "filt"))
    front, back = "f" in ends, "b" in ends
    key = []
    for k in range(len(shape)):
        low = int(places[:, k].min()) if front and places.size else 0
        high = int(places[:, k].max()) + 1 if back and places.size else shape[k]
        if k in axes:
            key.append(slice(low, high) if places.size else slice(0, 0))
        else:
            key.append(slice(None))
    return wrap(view(value, key=Key(key))) if key else wrap(value)
