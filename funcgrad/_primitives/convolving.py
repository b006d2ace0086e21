"""Compute convolutions as products of two matrices; one of them has windows as columns.

Windows overlap, so they have to be copied, which would take nearly as long as the product if done
element by element. Here rows of neighbouring places are copied as one element each, in blocks of
examples or rows that fit into the cache. The transpose adds up the results of a product for each
position in a window. It adds long lines that wrap from row to row; the zeros between rows do not
matter.

>>> x = np.arange(5.0).reshape(1, 1, 5)
>>> convolved(x, np.ones((1, 1, 2)), strides=(1,), dilations=(1,), groups=1)
array([[[1., 3., 5., 7.]]])
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from funcgrad._core.specs import Shape
from funcgrad._core.trace import Raw

_CACHED: Final = 2**20
"""Bytes of windows that are copied before they are multiplied: half of a core's cache."""

_FEW: Final = 512
"""The number of places from which a matrix product is fast; smaller examples are joined."""

_SPARSE: Final = 2
"""The maximum number of elements that are added at once for each structurally nonzero one."""

Array = np.ndarray[Any, Any]


def steps(size: int, window: int, stride: int, dilation: int) -> int:
    """The number of places of a window along an axis of a size.

    >>> steps(7, window=3, stride=2, dilation=1)
    3
    """
    return max((size - dilation * (window - 1) - 1) // stride + 1, 0)


def places_of(shape: Shape, sizes: Shape, strides: Shape, dilations: Shape) -> Shape:
    """The number of places of windows along each of the last axes.

    >>> places_of((2, 7, 5), (3, 2), (2, 1), (1, 1))
    (3, 4)
    """
    lengths = shape[len(shape) - len(sizes) :]
    return tuple(map(steps, lengths, sizes, strides, dilations))


def windows_of(x: Raw, sizes: Shape, strides: Shape, dilations: Shape) -> Array:
    """Windows of an array, without a copy: leading axes, axes within a window, axes of places.

    >>> windows_of(np.arange(4), (2,), (1,), (1,))
    array([[0, 1, 2],
           [1, 2, 3]])
    """
    x = np.asarray(x)
    rank = len(sizes)
    lead, byte_strides = x.strides[: x.ndim - rank], x.strides[x.ndim - rank :]
    places = places_of(x.shape, sizes, strides, dilations)
    shape = (*x.shape[: x.ndim - rank], *sizes, *places)
    if 0 in places:
        return np.empty(shape, x.dtype)
    within = [step * dilation for step, dilation in zip(byte_strides, dilations, strict=True)]
    between = [step * stride for step, stride in zip(byte_strides, strides, strict=True)]
    return as_strided(x, shape, (*lead, *within, *between), writeable=False)


def window_numbers(shape: Shape, sizes: Shape, strides: Shape, dilations: Shape) -> Array:
    """The flat index of each element of each window: leading axes, within a window, places.

    >>> window_numbers((1, 4), (2,), (2,), (1,))
    array([[[0, 2],
            [1, 3]]])
    """
    return windows_of(np.arange(prod(shape)).reshape(shape), sizes, strides, dilations)


def convolved(x: Raw, k: Raw, strides: Shape, dilations: Shape, groups: int) -> Array:
    """``y[n, o, p] = sum over c, w of x[n, c, strides * p + dilations * w] k[o, c, w]``."""
    x, k, dtype = _working(x, k)
    places = places_of(x.shape, k.shape[2:], strides, dilations)
    out = np.empty((len(x), len(k), *places), x.dtype)
    if not (x.size and k.size):
        out[...] = 0
    elif out.size:
        flat = out.reshape(len(x), groups, len(k) // groups, -1)
        weights = k.reshape(groups, len(k) // groups, -1)
        for examples, area, columns in _columns(x, k.shape[2:], strides, dilations, groups):
            target = flat[examples, :, :, area]
            if len(target) == 1:
                np.matmul(weights, columns, out=target[0])
            else:
                products = weights @ columns
                target[...] = products.reshape(*products.shape[:2], len(target), -1).transpose(
                    2, 0, 1, 3
                )
    return out.astype(dtype, copy=False)


def correlated(
    x: Raw, y: Raw, sizes: Shape, strides: Shape, dilations: Shape, groups: int
) -> Array:
    """The transpose of ``convolved`` in its kernel."""
    x, y, dtype = _working(x, y)
    channels, filters = x.shape[1] // groups, y.shape[1]
    out = np.zeros((groups, channels * prod(sizes), filters // groups), x.dtype)
    if out.size and y.size and x.size:
        flat = y.reshape(len(y), groups, filters // groups, -1)
        for examples, area, columns in _columns(x, sizes, strides, dilations, groups):
            out += columns @ _filter_rows(flat[examples, :, :, area]).swapaxes(1, 2)
    return out.swapaxes(1, 2).reshape(filters, channels, *sizes).astype(dtype, copy=False)


def spread_out(
    y: Raw, k: Raw, shape: Shape, strides: Shape, dilations: Shape, groups: int
) -> Array:
    """The transpose of ``convolved`` in its first argument."""
    y, k, dtype = _working(y, k)
    filters, channels = len(k) // groups, k.shape[1]
    out = np.zeros((len(y), groups * channels, *shape), y.dtype)
    if out.size and y.size and k.size:
        # Products of scalars are done for all groups at once.
        count = 1 if filters == 1 else groups
        parts = [np.split(x, count, axis) for x, axis in ((y, 1), (k, 0), (out, 1))]
        for group_y, group_k, group_out in zip(*parts, strict=True):
            _spread(group_y, group_k, group_out, strides, dilations, groups // count)
    return out.astype(dtype, copy=False)


def _spread(y: Array, k: Array, out: Array, strides: Shape, dilations: Shape, groups: int) -> None:
    """Add the transposed product to an array; several groups have one filter each."""
    sizes, places = k.shape[2:], y.shape[2:]
    weights = np.moveaxis(k.reshape(groups, -1, k.shape[1], prod(sizes)), (3, 1), (0, 3))
    weights = np.ascontiguousarray(weights)
    memory: dict[Shape, _Lines] = {}
    for examples, rows in _blocks(len(y), places, weights[..., 0].size * y.itemsize):
        y_block, out_block = y[examples], out[examples]
        if sizes:
            y_block, out_block = y_block[:, :, rows], out_block[:, :, rows.start * strides[0] :]
        if y_block.shape not in memory:
            memory[y_block.shape] = _Lines(y_block, weights, sizes, strides, dilations)
        memory[y_block.shape].add(y_block, out_block)


def _working(x: Raw, y: Raw) -> tuple[Array, Array, np.dtype[Any]]:
    """Both arrays in C order in one dtype, and the dtype of the result: half precision is too
    coarse for long sums, and BLAS does not support it."""
    dtype = np.result_type(x, y)
    working = np.dtype(np.float32) if dtype == np.float16 else dtype
    return np.ascontiguousarray(x, working), np.ascontiguousarray(y, working), dtype


def _blocks(count: int, places: Shape, bytes_of_place: int) -> Iterator[tuple[slice, slice]]:
    """The blocks of examples and of places along the first axis: all places of one or several
    examples, or some places of one example."""
    rows = places[0] if places else 1
    most = max(_CACHED // bytes_of_place, 1)
    step = min(max(most * rows // prod(places), 1), rows)
    several = max(min(most, _FEW) // prod(places), 1) if step == rows else 1
    for first in range(0, count, several):
        for start in range(0, rows, step):
            yield slice(first, min(first + several, count)), slice(start, min(start + step, rows))


def _area(rows: slice, places: Shape) -> tuple[slice, Shape]:
    """Rows of an array of places, as a slice of all places in a line, and their shape."""
    inner = places[1:]
    size = prod(inner)
    area = (rows.stop - rows.start, *inner) if places else ()
    return slice(rows.start * size, rows.stop * size), area


def _filter_rows(y: Array) -> Array:
    """Examples, groups, filters and places as groups of matrices with all places of a filter in a
    row; no copy of a single example."""
    return y.transpose(1, 2, 0, 3).reshape(y.shape[1], y.shape[2], -1)


def _columns(
    x: Array, sizes: Shape, strides: Shape, dilations: Shape, groups: int
) -> Iterator[tuple[slice, slice, Array]]:
    """For each block of examples and places, the matrices (one for each group) with windows as
    columns. The next block reuses their memory."""
    rank, count = len(sizes), x.shape[1] * prod(sizes)
    views = windows_of(x, sizes, strides, dilations)
    places = views.shape[2 + rank :]
    views = np.moveaxis(views, 0, 1 + rank)
    memory = np.empty(0, x.dtype)
    for examples, rows in _blocks(len(x), places, count * x.itemsize):
        windows = views[(*(slice(None),) * (1 + rank), examples, *(rows,) * (rank > 0))]
        if count > x.shape[1]:  # windows of size 1 do not overlap
            if memory.size < windows.size:  # at first
                memory = np.empty(windows.size, x.dtype)
            columns = memory[: windows.size].reshape(windows.shape)
            _copy_rows(columns, windows)
            windows = columns
        yield examples, _area(rows, places)[0], windows.reshape(groups, count // groups, -1)


def _copy_rows(target: Array, source: Array) -> None:
    """Copy an array, each contiguous row as one element: short rows take half the time."""
    if target.strides[-1] == source.strides[-1] == source.itemsize:
        row = np.dtype((np.void, source.shape[-1] * source.itemsize))
        target, source = target.view(row), source.view(row)
    np.copyto(target, source)


class _Lines:
    """Memory for a block of places, and for their products with the kernel.

    Window positions that are a stride apart have one *phase*. A phase of all channels is one line
    in memory, with the examples after the first axis; the places are put into such lines, too, with
    zeros after each row. So the product for one window position is added as one line, at an offset.
    Lines that would be mostly zeros are added row by row.

    Attributes
    ----------
    shape : tuple of int
        The shape of the block: examples, filters, and places along each axis.
    """

    def __init__(
        self, y: Array, weights: Array, sizes: Shape, strides: Shape, dilations: Shape
    ) -> None:
        self.shape, area = y.shape, y.shape[2:]
        self._weights, self._strides = weights, strides
        self._offsets = [
            tuple([n * dilation for n, dilation in zip(offsets, dilations, strict=True)])
            for offsets in product(*map(range, sizes))
        ]
        self._reach = [
            (n - 1) * stride + last + 1
            for n, stride, last in zip(area, strides, self._offsets[-1], strict=True)
        ]
        cells = tuple([-(-n // stride) for n, stride in zip(self._reach, strides, strict=True)])
        few_zeros = prod(cells[1:]) <= _SPARSE * prod(area[1:])
        self._is_added_whole = few_zeros and bool(np.isfinite(weights).all())  # 0 * inf is not 0
        if not self._is_added_whole:
            cells = area
        places = np.zeros((y.shape[1], *self._line(area[:1] + cells[1:])), y.dtype)
        self._places = places.reshape(len(places), -1)
        within: Any = (..., *map(slice, area))
        self._places_by_example = self._by_example(places)[within]
        taps, groups, channels, _ = weights.shape
        products = np.zeros((taps, groups * channels, *self._line(cells)), y.dtype)
        self._products = products.reshape(taps * len(products[0]), -1)[:, : self._places.shape[1]]
        self._rows = [self._by_example(tap_products) for tap_products in products]
        sums = self._sums = np.empty((*strides, *products.shape[1:]), y.dtype)
        phases = product(*map(range, strides))
        self._phases = [(phase, self._by_example(sums[phase])) for phase in phases]
        self._additions = [*self._pairs(products)] if self._is_added_whole else []

    def _line(self, cells: Shape) -> Shape:
        return (*cells[:1], self.shape[0], *cells[1:])

    def _by_example(self, x: Array) -> Array:
        """An array of channels and their lines as one of examples and their channels."""
        return np.moveaxis(x, 1 + len(self._strides[:1]), 0)

    def _pairs(self, every: Array) -> Iterator[tuple[Array, Array]]:
        """Where lines are added, and which."""
        line = every.shape[2:]
        units = [prod(line[place + 1 :]) for place in range(len(line)) if place != 1]
        for at, products in zip(self._offsets, every, strict=True):
            cells = [n // stride for n, stride in zip(at, self._strides, strict=True)]
            ahead = sum([n * unit for n, unit in zip(cells, units, strict=False)])
            phase = tuple([n % stride for n, stride in zip(at, self._strides, strict=True)])
            sums = self._sums[phase].reshape(-1)
            yield sums[ahead:], products.reshape(-1)[: sums.size - ahead]

    def add(self, y: Array, out: Array) -> None:
        """Add the result of a block of places at the start of its first window."""
        self._multiply(y)
        if self._is_added_whole:
            self._add_whole(out)
        else:
            self._add_rows(out)

    def _multiply(self, y: Array) -> None:
        _copy_rows(self._places_by_example, y)
        taps, groups, channels, filters = self._weights.shape
        if filters > 1:
            np.matmul(self._weights.reshape(-1, filters), self._places, out=self._products)
        else:  # which BLAS does not support
            target = self._products.reshape(taps, groups, channels, -1)
            np.multiply(self._weights, self._places[:, None], out=target)

    def _add_whole(self, out: Array) -> None:
        self._sums[...] = 0
        for sums, line in self._additions:
            np.add(sums, line, out=sums)
        for phase, sums in self._phases:
            key: Any = (..., *map(slice, phase, self._reach, self._strides))
            target = out[key]
            inside: Any = (..., *map(slice, target.shape[2:]))
            target += sums[inside]

    def _add_rows(self, out: Array) -> None:
        for at, row in zip(self._offsets, self._rows, strict=True):
            counts = zip(at, self.shape[2:], self._strides, strict=True)
            slices = [slice(first, first + (n - 1) * step + 1, step) for first, n, step in counts]
            key: Any = (..., *slices)
            target = out[key]
            target += row
