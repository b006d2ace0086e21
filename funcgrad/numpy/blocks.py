"""Blocks of an array at starts that may be traced: one program serves all starts.

>>> import funcgrad as fg
>>> x = fg.tensor([0.0, 1.0, 2.0, 3.0, 4.0])
>>> fg.vmap(lambda start: dynamic_slice(x, (start,), (2,)))(fg.tensor([0, 2, 9]))
Tensor([[0., 1.],
        [2., 3.],
        [3., 4.]])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcgrad._core.specs import AxisLike, Shape, ShapeLike, dtype_of, shape_of
from funcgrad._core.trace import Value, bind, concrete
from funcgrad._core.users_values import operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.blocks import put_block, take_block
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.joining import concatenate
from funcgrad._primitives.rounding import remainder
from funcgrad._primitives.scatter import replace
from funcgrad._primitives.selection import minimum, where
from funcgrad._primitives.structural import cast, roll, view
from funcgrad._primitives.traced_slices import is_traced
from funcgrad.errors import DtypeError, ShapeError
from funcgrad.numpy.options import integer, integers, shape_argument, traced_integer
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap


@answering
def dynamic_slice(
    x: ArrayLike, start_indices: ArrayLike | Sequence[ArrayLike], slice_sizes: ShapeLike
) -> Tensor:
    """The block of some sizes that begins at some place, which may be traced.

    Under ``jit``, in loops and under ``vmap`` one program serves all places. ``x[i : i + n]`` does
    the same for a constant ``n``, and is an error where it would reach beyond the array.

    Parameters
    ----------
    x : array_like
    start_indices : sequence of integers, or 1-d array of integers
        An index for each axis of ``x``. Negative ones count from the end. Then an index from which
        the block would not fit is moved to the nearest one from which it does, as in
        ``jax.lax.dynamic_slice``.
    slice_sizes : tuple of int
        The shape of the block: known integers, one for each axis.

    Returns
    -------
    Tensor
        In the dtype of ``x``. Derivatives with respect to ``x`` are those of a slice.

    Raises
    ------
    ShapeError
        There are not as many indices and sizes as axes, or a size is negative or greater than its
        axis.
    DtypeError
        An index is not an integer.

    Examples
    --------
    >>> x = np.arange(12.0).reshape(3, 4)
    >>> dynamic_slice(x, (1, -2), (2, 2))
    Tensor([[ 6.,  7.],
            [10., 11.]])
    >>> dynamic_slice(x, (5, 1), (1, 2))
    Tensor([[ 9., 10.]])
    """
    value, sizes = operand(x, "dynamic_slice"), shape_argument(slice_sizes, "dynamic_slice")
    shape = shape_of(value)
    _check_sizes("dynamic_slice", shape, sizes)
    starts = _starts("dynamic_slice", start_indices, shape, sizes)
    known, axes = _split(starts, sizes)
    params = {"axes": axes, "sizes": tuple([sizes[axis] for axis in axes]), "mode": "clip"}
    value = bind(view, (value,), {"key": known})
    return wrap(bind(take_block, (value, *_traced(starts, axes)), params) if axes else value)


@answering
def dynamic_update_slice(
    x: ArrayLike, update: ArrayLike, start_indices: ArrayLike | Sequence[ArrayLike]
) -> Tensor:
    """The array with a block replaced, which begins at some place that may be traced.

    Parameters
    ----------
    x : array_like
    update : array_like
        The block, with as many axes as ``x``. It takes the dtype of ``x``.
    start_indices : sequence of integers, or 1-d array of integers
        As for ``dynamic_slice``: the block is moved inside ``x``.

    Returns
    -------
    Tensor
        In the shape and the dtype of ``x``, which does not change.

    Raises
    ------
    ShapeError
        There are not as many indices, or axes of the block, as axes of ``x``, or the block is
        greater than ``x``.
    DtypeError
        An index is not an integer, or the block cannot be stored without loss.

    Examples
    --------
    >>> dynamic_update_slice([0.0, 0.0, 0.0, 0.0], [1.0, 2.0], [3])
    Tensor([0., 0., 1., 2.])
    """
    value, block = operand(x, "dynamic_update_slice"), operand(update, "dynamic_update_slice")
    shape, sizes, dtype = shape_of(value), shape_of(block), dtype_of(value)
    _check_sizes("dynamic_update_slice", shape, sizes)
    if dtype_of(block) != dtype:
        if not np.can_cast(dtype_of(block), dtype, "same_kind"):
            raise DtypeError(
                f"dynamic_update_slice: a block of dtype {dtype_of(block)} cannot be stored in an"
                f" array of dtype {dtype} without loss."
            )
        block = cast(block, dtype=dtype)
    starts = _starts("dynamic_update_slice", start_indices, shape, sizes)
    known, axes = _split(starts, sizes)
    if axes:
        strip = bind(view, (value,), {"key": known})
        params = {"axes": axes, "mode": "clip"}
        block = bind(put_block, (strip, block, *_traced(starts, axes)), params)
    is_whole = all(
        size == length or axis in axes
        for axis, (size, length) in enumerate(zip(sizes, shape, strict=True))
    )
    return wrap(block if is_whole else replace(value, block, key=known))


def _check_sizes(operation: str, shape: Shape, sizes: Shape) -> None:
    if len(sizes) != len(shape):
        raise ShapeError(f"{operation}: {len(sizes)} sizes do not fit the {len(shape)} axes of x.")
    for axis, (size, length) in enumerate(zip(sizes, shape, strict=True)):
        if not 0 <= size <= length:
            raise ShapeError(
                f"{operation}: a block of the shape {sizes} does not fit into x of the shape"
                f" {shape}: axis {axis} has {length} elements."
            )


def _starts(operation: str, indices: object, shape: Shape, sizes: Shape) -> list[Any]:
    """The start along each axis: an integer from which the block fits, or a traced value."""
    if is_traced(indices) or isinstance(indices, (Tensor, np.ndarray)):
        value = wrap(operand(indices, operation))
        if len(value.shape) != 1:
            raise ShapeError(
                f"{operation}: start_indices have to be a sequence or a 1-d array, not of the"
                f" shape {value.shape}."
            )
        indices = [value[k] for k in range(value.shape[0])]
    elif not isinstance(indices, Sequence):
        indices = [indices]
    if len(indices) != len(shape):
        raise ShapeError(
            f"{operation}: {len(indices)} start_indices do not fit the {len(shape)} axes of x."
        )
    return [
        _start(operation, start, length, size)
        for start, length, size in zip(indices, shape, sizes, strict=True)
    ]


def _start(operation: str, start: Value, length: int, size: int) -> Value:
    if size == length:
        return 0
    if not is_traced(start):
        number = integer(start, operation, "start_indices")
        return max(0, min(number + length * (number < 0), length - size))
    value = concrete(start)
    if shape_of(value) or dtype_of(value).kind not in "iu":
        raise DtypeError(
            f"{operation}: start_indices have to be integers, one for each axis, not"
            f" {dtype_of(value)} of the shape {shape_of(value)}."
        )
    long = np.dtype(np.int64)
    if dtype_of(value).kind == "u":  # which may not fit into an int64
        return cast(minimum(value, length), dtype=long)
    value = value if dtype_of(value) == long else cast(value, dtype=long)
    return where(value < 0, value + length, value)


def _split(starts: Sequence[Any], sizes: Shape) -> tuple[Key, tuple[int, ...]]:
    """The slices of the axes whose starts are known, and the other axes."""
    axes = tuple([axis for axis, start in enumerate(starts) if type(start) is not int])
    key = [
        slice(start, start + size) if type(start) is int else slice(None)
        for start, size in zip(starts, sizes, strict=True)
    ]
    return Key(key), axes


def _traced(starts: Sequence[Any], axes: Sequence[int]) -> list[Value]:
    return [starts[axis] for axis in axes]


# ------------------------------------------------------------------------------------------ rolls


def shifts_of(shift: AxisLike) -> tuple[Any, ...]:
    """The shifts, integers or traced ones."""
    if is_traced(shift) and shape_of(shift):
        shift = list(wrap(shift))
    several = shift if isinstance(shift, (list, tuple)) else (shift,)
    if not any(map(is_traced, several)):
        return integers(shift, "roll", "shift")
    return tuple(
        [
            traced_integer(s, "roll", "shift") if is_traced(s) else integer(s, "roll", "shift")
            for s in several
        ]
    )


def rolled(x: Value, shifts: Sequence[Any], axes: Sequence[int]) -> Value:
    """Shift along axes; by a traced number as a block of the array and a copy behind it."""
    known = [(shift, axis) for shift, axis in zip(shifts, axes, strict=True) if type(shift) is int]
    if known:
        x = roll(x, shift=tuple([s for s, _ in known]), axis=tuple([a for _, a in known]))
    for shift, axis in zip(shifts, axes, strict=True):
        size = shape_of(x)[axis]
        if type(shift) is int or not size:
            continue
        start = remainder(-concrete(shift), size)
        params = {"axes": (axis,), "sizes": (size,), "mode": "clip"}
        x = bind(take_block, (concatenate(x, x, axis=axis), start), params)
    return x
