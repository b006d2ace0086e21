"""Gathers and scatters in ``jax.lax``: integers choose windows of an array.

Axes of the places along which no integer changes are windows, the others are batch axes of XLA's
gather. A single window is a slice. If the places are anything else, positions in the flattened
array are gathered.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final, NamedTuple

import numpy as np

from funcgrad._backends.array_code.array_writer import Array
from funcgrad._backends.array_code.moved_boxes import offsets, window
from funcgrad._backends.xla.xla_algebra import XlaAlgebra
from funcgrad._backends.xla.xla_writer import UntranslatableError, XlaWriter
from funcgrad._core.specs import Shape, Spec
from funcgrad._core.structure import folds
from funcgrad._core.structure.folds import Fold
from funcgrad._core.structure.index_maps import IndexArray, Places, dense_strides

_BOOL: Final = np.dtype(np.bool_)
_INT64: Final = np.dtype(np.int64)


class _Windows(NamedTuple):
    """Windows of an array, one for each index of the batch axes of the places.

    Attributes
    ----------
    axes : list of int
        The axes of the array along which windows do not all start at 0.
    starts : list of (int, int or None, int or None)
        For each of these axes: the first start, the position of the index array that is added, and
        the batch axis whose index is added.
    windows : list of int
        The axes of the places that are axes of a window.
    sizes : tuple of int
        The sizes of a window in the array.
    """

    axes: list[int]
    starts: list[tuple[int, int | None, int | None]]
    windows: list[int]
    sizes: tuple[int, ...]


def _layout(shape: Shape, places: Places) -> _Windows | None:
    """How windows of an array are chosen; None if places are no such windows."""
    steps = dense_strides(shape)
    if not 0 <= places.start < prod(shape):
        return None
    chosen = _axes_of(steps, [index.step for index in places.indices])
    counted = [k for k, n in enumerate(places.shape) if n > 1 and places.strides[k]]
    along = _axes_of(steps, [places.strides[k] for k in counted])
    if chosen is None or along is None:
        return None
    axes, starts, windows, sizes = [], [], [], [1] * len(shape)
    for a, n in enumerate(shape):
        first = places.start // steps[a] % n if steps[a] else 0
        k = counted[along[a]] if a in along else None
        index = places.indices[chosen[a]] if a in chosen else None
        last = (
            first + (places.shape[k] - 1 if k is not None else 0) + (index.size - 1 if index else 0)
        )
        if last >= n or (index and index.mode == "fill" and (first or last < n - 1)):
            return None
        if k is not None and not any(index.strides[k] for index in places.indices):
            windows.append(k)
            sizes[a], k = places.shape[k], None
        if first or index or k is not None:
            axes.append(a)
            starts.append((first, chosen.get(a), k))
    if windows != sorted(windows):
        return None
    return _Windows(axes, starts, windows, tuple(sizes))


def _axes_of(steps: Sequence[int], strides: Sequence[int]) -> dict[int, int] | None:
    """The axis with each stride, from axis to position; None unless each has one of its own."""
    axes = {steps.index(stride): k for k, stride in enumerate(strides) if stride in steps}
    return axes if len(axes) == len(strides) and 0 not in strides else None


class StartsOfWindows(NamedTuple):
    """The start of each window, and whether all are inside.

    Attributes
    ----------
    coordinates : list of array
        The starts along some axes of the array.
    axes : list of int
        These axes.
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

    coordinates: list[Array]
    axes: list[int]
    windows: list[int]
    sizes: tuple[int, ...]
    inside: Array | None
    drops: bool
    flat: bool

    def starts(self, writer: XlaWriter) -> Array:
        """The starts, with a last axis for coordinates."""
        shape = self.coordinates[0].shape if self.coordinates else ()
        columns = [writer.reshaped(c, (*shape, 1)) for c in self.coordinates]
        return writer.joined(columns, len(shape)) if columns else np.zeros(0, np.int64)

    def slice(self) -> list[Array] | None:
        """The start of a single window along all axes; None if there are several or none."""
        if self.drops or any(c.shape for c in self.coordinates):
            return None
        known = dict(zip(self.axes, self.coordinates, strict=True))
        return [known.get(a, np.int64(0)) for a in range(len(self.sizes))]


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
        starts = [_start(writer, stack, batch, start, coordinates) for start in layout.starts]
        return StartsOfWindows(
            starts, layout.axes, windows, layout.sizes, inside, drops, flat=False
        )
    total = writer.expanded(offsets(writer, places.shape, places.start, places.strides), stack)
    outside = None
    for index, c in zip(places.indices, coordinates, strict=True):
        total = lax.add(total, lax.mul(c, np.int64(index.step)))
        if index.mode == "fill":
            beyond = lax.bitwise_or(lax.lt(c, np.int64(0)), lax.ge(c, np.int64(index.size)))
            outside = beyond if outside is None else lax.bitwise_or(outside, beyond)
    if outside is not None:
        total = lax.select(outside, lax.full_like(total, prod(shape)), total)
    return StartsOfWindows([total], [0], [], (1,), inside, drops, flat=True)


def _start(
    writer: XlaWriter,
    stack: Shape,
    batch: Sequence[int],
    start: tuple[int, int | None, int | None],
    coordinates: Sequence[Array],
) -> Array:
    """The starts of windows along an axis, see ``_Windows``."""
    first, place, counted = start
    line = np.full((1,) * len(stack), first, np.int64)
    if counted is not None:
        line = offsets(writer, stack, first, [int(k == counted) for k in batch])
    if place is None:
        return writer.expanded(line, stack)
    if not first and counted is None:
        return coordinates[place]
    return writer.added(coordinates[place], line)


def _place(m: XlaAlgebra, index: IndexArray, integers: Array) -> tuple[Array, Array | None]:
    """The positions that integers choose along an axis, and whether all are inside if they must."""
    lax, size = m.writer.lax, index.size
    zero, full = np.int64(0), np.int64(size)
    if index.mode == "wrap":
        left = lax.rem(integers, full)
        return lax.select(lax.lt(left, zero), lax.add(left, full), left), None
    if index.mode == "clip":
        return lax.clamp(zero, integers, np.int64(max(size - 1, 0))), None
    known = isinstance(integers, np.ndarray)
    if known and np.all((integers >= 0) & (integers < size)):
        return integers, None
    counted = lax.select(lax.lt(integers, zero), lax.add(integers, full), integers)
    if index.mode == "fill" or (known and np.all((integers >= -size) & (integers < size))):
        return counted, None
    inside = lax.bitwise_and(lax.ge(counted, zero), lax.lt(counted, full))
    return counted, lax.reduce_and(inside, [*range(len(integers.shape))])


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
    if (start := chosen.slice()) is not None:
        out = lax.dynamic_slice(x, start, chosen.sizes, allow_negative_indices=False)
        return writer.reshaped(out, spec.shape), chosen.inside
    whole = [a for a, n in enumerate(chosen.sizes) if n != 1]
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(chosen.windows),
        collapsed_slice_dims=tuple([a for a in range(len(x.shape)) if a not in whole]),
        start_index_map=tuple(chosen.axes),
    )
    mode = "fill" if chosen.drops else "promise_in_bounds"
    out = lax.gather(
        x,
        chosen.starts(writer),
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
    start = chosen.slice()
    if fold is None and start is not None and chosen.inside is None:  # else XLA would move it in
        updates = writer.reshaped(updates, chosen.sizes)
        out = lax.dynamic_update_slice(below, updates, start, allow_negative_indices=False)
        return writer.cast_to(writer.reshaped(out, spec.shape), spec.dtype), chosen.inside
    axes, whole = range(len(below.shape)), [a for a, n in enumerate(chosen.sizes) if n != 1]
    numbers = lax.ScatterDimensionNumbers(
        update_window_dims=tuple(chosen.windows),
        inserted_window_dims=tuple([a for a in axes if a not in whole]),
        scatter_dims_to_operand_dims=tuple(chosen.axes),
    )
    scatter = _scatter_of(lax, fold)
    mode = "drop" if chosen.drops else "promise_in_bounds"
    out = scatter(
        below, chosen.starts(writer), updates, numbers, mode=mode, unique_indices=places.unique
    )
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
