"""Gathers and scatters in ``jax.lax``: integers choose windows of an array.

Axes that integers choose along are batch axes of XLA's gather; axes that are whole are windows. If
the places are anything else, positions in the flattened array are gathered.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from funcgrad._backends.array_code.array_writer import Array
from funcgrad._backends.array_code.moved_boxes import offsets, window
from funcgrad._backends.xla.xla_algebra import XlaAlgebra
from funcgrad._backends.xla.xla_writer import UntranslatableError, filled
from funcgrad._core.specs import Shape, Spec
from funcgrad._core.structure import folds
from funcgrad._core.structure.folds import Fold
from funcgrad._core.structure.index_maps import IndexArray, Places, dense_strides

_BOOL: Final = np.dtype(np.bool_)
_INT64: Final = np.dtype(np.int64)


class _Windows(NamedTuple):
    """Which axes of an array integers choose along, and which axes of the places are windows.

    Attributes
    ----------
    axes : list of int
        For each index array, the axis of the array.
    windows : list of int
        The axes of the places that follow whole axes of the array.
    sizes : tuple of int
        The sizes of a window in the array.
    """

    axes: list[int]
    windows: list[int]
    sizes: tuple[int, ...]


def _layout(shape: Shape, places: Places) -> _Windows | None:
    """How windows of an array are chosen; None if places are no such windows."""
    steps = dense_strides(shape)
    axes: list[int] = []
    for index in places.indices:
        fitting = [
            a
            for a, pair in enumerate(zip(shape, steps, strict=True))
            if pair == (index.size, index.step) and a not in axes
        ]
        if not fitting:
            return None
        axes.append(fitting[0])
    windows, whole = [], []
    for k, (count, stride) in enumerate(zip(places.shape, places.strides, strict=True)):
        if not stride:
            continue
        axis = next((a for a, step in enumerate(steps) if step == stride), None)
        if axis is None or axis in axes or shape[axis] != count:
            return None
        if any(index.strides[k] for index in places.indices):
            return None
        windows.append(k)
        whole.append(axis)
    others = [a for a, n in enumerate(shape) if a not in axes and a not in whole and n != 1]
    if places.start or others or whole != sorted(whole):
        return None
    return _Windows(axes, windows, tuple([n if a in whole else 1 for a, n in enumerate(shape)]))


class StartsOfWindows(NamedTuple):
    """The start of each window, with an axis for coordinates, and whether all are inside.

    Attributes
    ----------
    starts : array
    axes : list of int
        The axes of the coordinates.
    windows : list of int
        See ``_Windows``.
    sizes : tuple of int
    inside : array or None
        Whether all integers are in bounds; None if they need not be.
    drops : bool
        Whether places outside are left out.
    flat : bool
        Whether the array is flattened first.
    """

    starts: Array
    axes: list[int]
    windows: list[int]
    sizes: tuple[int, ...]
    inside: Array | None
    drops: bool
    flat: bool


def _chosen(
    m: XlaAlgebra, shape: Shape, places: Places, operands: Sequence[Array]
) -> StartsOfWindows:
    writer, lax = m.writer, m.writer.lax
    layout = _layout(shape, places)
    windows = [] if layout is None else layout.windows
    batch = [k for k in range(len(places.shape)) if k not in windows]
    stack = tuple([places.shape[k] for k in batch])
    coordinates, oks, drops = [], [], False
    for index in places.indices:
        strides = [index.strides[k] for k in batch]
        place, ok = _place(m, index, writer.cast_to(operands[index.operand], _INT64))
        coordinates.append(window(writer, place, stack, 0, strides))
        drops = drops or index.mode == "fill"
        if ok is not None:
            oks.append(ok)
    inside = None
    for ok in oks:
        inside = ok if inside is None else lax.bitwise_and(inside, ok)
    if layout is not None:
        starts = writer.joined([writer.reshaped(c, (*stack, 1)) for c in coordinates], len(stack))
        return StartsOfWindows(starts, layout.axes, windows, layout.sizes, inside, drops, False)
    total = writer.expanded(offsets(writer, places.shape, places.start, places.strides), stack)
    outside = None
    for index, c in zip(places.indices, coordinates, strict=True):
        total = lax.add(total, lax.mul(c, filled(index.step, stack, _INT64)))
        if index.mode == "fill":
            low = lax.lt(c, filled(0, stack, _INT64))
            high = lax.ge(c, filled(index.size, stack, _INT64))
            beyond = lax.bitwise_or(low, high)
            outside = beyond if outside is None else lax.bitwise_or(outside, beyond)
    if outside is not None:
        total = lax.select(outside, filled(prod(shape), stack, _INT64), total)
    return StartsOfWindows(writer.reshaped(total, (*stack, 1)), [0], [], (1,), inside, drops, True)


def _place(m: XlaAlgebra, index: IndexArray, integers: Array) -> tuple[Array, Array | None]:
    """The positions that integers choose along an axis, and whether all are inside if they must."""
    lax, size = m.writer.lax, index.size
    wide = integers.shape
    zero, full = filled(0, wide, _INT64), filled(size, wide, _INT64)
    if index.mode == "wrap":
        left = lax.rem(integers, full)
        return lax.select(lax.lt(left, zero), lax.add(left, full), left), None
    if index.mode == "clip":
        return lax.clamp(zero, integers, filled(max(size - 1, 0), wide, _INT64)), None
    known = isinstance(integers, np.ndarray)
    if known and np.all((integers >= 0) & (integers < size)):
        return integers, None
    counted = lax.select(lax.lt(integers, zero), lax.add(integers, full), integers)
    if index.mode == "fill" or (known and np.all((integers >= -size) & (integers < size))):
        return counted, None
    inside = lax.bitwise_and(lax.ge(counted, zero), lax.lt(counted, full))
    return counted, lax.reduce_and(inside, [*range(len(wide))])


def gathered(
    m: XlaAlgebra, places: Places, operands: Sequence[Array], spec: Spec
) -> tuple[Array, Array | None]:
    """The chosen elements of the first operand, and whether all integers are in bounds."""
    writer, lax, x = m.writer, m.writer.lax, operands[0]
    if not prod(spec.shape):
        return np.zeros(spec.shape, spec.dtype), _all_inside(m, places, operands)
    if not prod(x.shape):
        raises = any(index.mode == "raise" for index in places.indices)
        return np.zeros(spec.shape, spec.dtype), np.bool_(False) if raises else None
    chosen = _chosen(m, x.shape, places, operands)
    x = writer.reshaped(x, (prod(x.shape),)) if chosen.flat else x
    whole = [a for a, n in enumerate(chosen.sizes) if n != 1]
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(chosen.windows),
        collapsed_slice_dims=tuple([a for a in range(len(x.shape)) if a not in whole]),
        start_index_map=tuple(chosen.axes),
    )
    mode = "fill" if chosen.drops else "promise_in_bounds"
    out = lax.gather(
        x,
        chosen.starts,
        numbers,
        chosen.sizes,
        mode=mode,
        fill_value=0 if chosen.drops else None,
        unique_indices=places.unique,
    )
    return writer.reshaped(out, spec.shape), chosen.inside


def _all_inside(m: XlaAlgebra, places: Places, operands: Sequence[Array]) -> Array | None:
    if not prod(places.shape):
        return None
    return _chosen(m, (1,), places, operands).inside


def scattered(
    m: XlaAlgebra,
    places: Places,
    fold: Fold | None,
    base: Array | None,
    updates: Array,
    operands: Sequence[Array],
    spec: Spec,
) -> tuple[Array, Array | None]:
    """The base, or zeros, with updates at chosen places, and whether all integers are in bounds."""
    writer, lax = m.writer, m.writer.lax
    dtype = np.dtype(np.uint8) if spec.dtype == _BOOL and fold is not None else spec.dtype
    below: Array = np.zeros((), dtype) if base is None else writer.cast_to(base, spec.dtype)
    below = writer.cast_to(writer.expanded(below, spec.shape), dtype)
    if not prod(places.shape):
        return writer.cast_to(below, spec.dtype), None
    if not prod(spec.shape):
        raises = any(index.mode == "raise" for index in places.indices)
        return writer.cast_to(below, spec.dtype), np.bool_(False) if raises else None
    chosen = _chosen(m, spec.shape, places, operands)
    updates = writer.cast_to(writer.cast_to(updates, spec.dtype), dtype)
    updates = writer.expanded(updates, places.shape)
    if chosen.flat:
        below = writer.reshaped(below, (prod(spec.shape),))
    axes, whole = range(len(below.shape)), [a for a, n in enumerate(chosen.sizes) if n != 1]
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(chosen.windows),
        inserted_window_dims=tuple([a for a in axes if a not in whole]),
        scatter_dims_to_operand_dims=tuple(chosen.axes),
    )
    scatter = _scatter_of(lax, fold)
    mode = "drop" if chosen.drops else "promise_in_bounds"
    out = scatter(below, chosen.starts, updates, numbers, mode=mode, unique_indices=places.unique)
    return writer.cast_to(writer.reshaped(out, spec.shape), spec.dtype), chosen.inside


def _scatter_of(lax: Any, fold: Fold | None) -> Any:
    if fold is None:
        return lax.scatter
    for known, scatter in (
        (folds.SUM, lax.scatter_add),
        (folds.PRODUCT, lax.scatter_mul),
        (folds.GREATEST, lax.scatter_max),
        (folds.LEAST, lax.scatter_min),
    ):
        if fold is known:
            return scatter
    raise UntranslatableError("XLA scatters with sums, products and extrema only")
