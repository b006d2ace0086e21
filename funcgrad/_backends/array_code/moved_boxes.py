"""Write index maps as operations on arrays: slices, transpositions, broadcasts, else gathers.

A piece of a movement is a box of elements of an operand. Its strides tell which axis of the operand
each of its axes follows, so slices, a transposition and a reshape make the piece. Pieces that are
adjacent in the result are concatenated; others are scattered.

>>> _routes((2, 3), (3, 2), 0, (1, 3))  # a transposition: both axes whole, the last one first
[(1, 0, 3, 1), (0, 0, 2, 1)]
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Final

import numpy as np

from funcgrad._backends.array_code.array_writer import Array, ArrayWriter
from funcgrad._core.specs import Shape, Spec
from funcgrad._core.structure.index_maps import Piece, dense_strides

_INT64: Final = np.dtype(np.int64)

Route = tuple[int, int, int, int]
"""An axis of the operand, the first position along it, the number of positions, and the step."""


def _routes(shape: Shape, counts: Shape, start: int, strides: Sequence[int]) -> list[Route] | None:
    """The axis of an array that each axis of a piece follows; None if one follows two axes.

    Axes of the piece with stride 0 are left out. Axes of the array without a route have a single
    position, given by ``start``.
    """
    steps = dense_strides(shape)
    order = sorted(
        [a for a, n in enumerate(shape) if n > 1], key=lambda axis: steps[axis], reverse=True
    )
    moving = [k for k, n in enumerate(counts) if n > 1 and strides[k]]
    low = start + sum([min(0, strides[k] * (counts[k] - 1)) for k in moving])
    firsts = dict.fromkeys(range(len(shape)), 0)
    for axis in order:
        firsts[axis], low = divmod(low, steps[axis])
    if low:
        return None
    if any(n > 1 and firsts[a] >= n for a, n in enumerate(shape)):
        return None
    plan: list[Route] = []
    for k in moving:
        stride, count = abs(strides[k]), counts[k]
        fitting = [
            a
            for a in order
            if stride % steps[a] == 0 and firsts[a] + stride // steps[a] * (count - 1) < shape[a]
        ]
        if not fitting or fitting[0] in [axis for axis, *_ in plan]:
            return None
        axis, step = fitting[0], stride // steps[fitting[0]]
        if strides[k] < 0:
            plan.append((axis, firsts[axis] + step * (count - 1), count, -step))
        else:
            plan.append((axis, firsts[axis], count, step))
    return plan


def _firsts(shape: Shape, start: int) -> list[int]:
    out = []
    for step, size in zip(dense_strides(shape), shape, strict=True):
        place, start = divmod(start, step) if size > 1 else (0, start)
        out.append(place)
    return out


def window(
    writer: ArrayWriter, x: Array, shape: Shape, start: int, strides: Sequence[int]
) -> Array:
    """The elements ``start + sum(strides * k)`` of a value, for each index ``k`` of a shape."""
    size = prod(shape)
    if size == 0:
        return writer.constant(np.zeros(shape, x.dtype))
    still = tuple([n if n > 1 and s else 1 for n, s in zip(shape, strides, strict=True)])
    steps = [s if n > 1 else 0 for n, s in zip(still, strides, strict=True)]
    if start == 0 and prod(still) == prod(x.shape) and tuple(steps) == dense_strides(still):
        if shape != still:  # leading axes may be missing
            still = still[next((a for a, n in enumerate(still) if n > 1), len(still)) :]
        return writer.expanded(writer.reshaped(x, still), shape)
    plan = _routes(x.shape, still, start, steps)
    if plan is None:
        return writer.expanded(_gathered(writer, x, still, start, steps), shape)
    return writer.expanded(_along(writer, x, still, start, steps, plan), shape)


def _along(
    writer: ArrayWriter,
    x: Array,
    still: Shape,
    start: int,
    steps: Sequence[int],
    plan: Sequence[Route],
) -> Array:
    """Slice along each axis, transpose, then add axes of size 1."""
    low = start + sum([min(0, s * (n - 1)) for n, s in zip(still, steps, strict=True)])
    firsts = _firsts(x.shape, low)
    along = {axis: (first, count, step) for axis, first, count, step in plan}
    for axis, size in enumerate(x.shape):
        if size > 1:
            x = writer.sliced(x, axis, *along.get(axis, (firsts[axis], 1, 1)))
    order = [axis for axis, *_ in plan]
    if order != sorted(order):
        every = [*order, *[a for a in range(len(x.shape)) if a not in order]]
        x = writer.permuted(x, every)
    return writer.reshaped(x, still)


def offsets(writer: ArrayWriter, shape: Shape, start: int, strides: Sequence[int]) -> Array:
    """``start + sum(strides * k)`` for each index ``k``, from one constant per axis."""
    total: Array | None = None
    for axis, (count, stride) in enumerate(zip(shape, strides, strict=True)):
        if stride and count > 1:
            line = np.arange(count, dtype=np.int64) * stride + (start if total is None else 0)
            line = line.reshape([count if a == axis else 1 for a in range(len(shape))])
            portion = writer.constant(line)
            total = portion if total is None else writer.added(total, portion)
    if total is None:
        total = writer.constant(np.full((1,) * len(shape), start, np.int64))
    return total


def _gathered(
    writer: ArrayWriter, x: Array, shape: Shape, start: int, strides: Sequence[int]
) -> Array:
    places = writer.expanded(offsets(writer, shape, start, strides), shape)
    flat = writer.reshaped(x, (prod(x.shape),))
    return writer.taken(flat, places)


# ----------------------------------------------------------------------------- where pieces go


def moved(
    writer: ArrayWriter, operands: Sequence[Array], pieces: Sequence[Piece], spec: Spec, adds: bool
) -> Array:
    """The result of a movement, from its pieces."""
    operands = [writer.cast_to(x, spec.dtype) for x in operands]
    if not pieces:
        return writer.constant(np.zeros(spec.shape, spec.dtype))
    pieces = [_in_order(piece) for piece in pieces]
    boxes = [_box(piece, spec.shape) for piece in pieces]
    values = [
        window(writer, operands[piece.operand], piece.shape, piece.start, piece.strides)
        for piece in pieces
    ]
    line = [
        (box, writer.reshaped(value, box[1]))
        for box, value in zip(boxes, values, strict=True)
        if box is not None and (writer.spreads or max(box[2], default=1) == 1)
    ]
    if len(line) < len(boxes):
        return _scattered(writer, values, pieces, spec, adds)
    out = _laid_out(writer, line, spec)
    if out is None and not adds:
        return _scattered(writer, values, pieces, spec, adds)
    if out is None:  # boxes overlap
        first, *others = [_padded(writer, box, value, spec) for box, value in line]
        out = reduce(writer.added, others, first)
    return out


Box = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
"""The first position of a box along each axis, the sizes, and the steps."""


def _in_order(piece: Piece) -> Piece:
    """A piece with its axes in the order of the result, all forwards."""
    start, to = piece.start, piece.to
    axes = []
    for count, stride, to_stride in zip(piece.shape, piece.strides, piece.to_strides, strict=True):
        if to_stride < 0:
            start, to = start + stride * (count - 1), to + to_stride * (count - 1)
            stride, to_stride = -stride, -to_stride
        axes.append((count, stride, to_stride))
    axes.sort(key=lambda axis: -axis[2])
    shape, strides, to_strides = zip(*axes, strict=True) if axes else ((), (), ())
    return Piece(piece.operand, shape, start, strides, to, to_strides)


def _box(piece: Piece, shape: Shape) -> Box | None:
    """The box of a result that a piece fills in the result's order, or None."""
    steps = dense_strides(shape)
    firsts = _firsts(shape, piece.to)
    sizes, apart = [1] * len(shape), [1] * len(shape)
    last = -1
    for count, stride in zip(piece.shape, piece.to_strides, strict=True):
        if count == 1:
            continue
        fitting = [a for a in range(last + 1, len(shape)) if shape[a] > 1 and steps[a] <= stride]
        if not fitting or stride % steps[fitting[0]]:
            return _run(piece, shape)
        axis, step = fitting[0], stride // steps[fitting[0]]
        if firsts[axis] + step * (count - 1) >= shape[axis]:
            return _run(piece, shape)
        sizes[axis], apart[axis], last = count, step, axis
    return tuple(firsts), tuple(sizes), tuple(apart)


def _run(piece: Piece, shape: Shape) -> Box | None:
    """The box of a piece that fills whole rows in C order, as a reshape does."""
    filled = [(n, s) for n, s in zip(piece.shape, piece.to_strides, strict=True) if n > 1]
    if tuple([s for _, s in filled]) != dense_strides([n for n, _ in filled]):
        return None
    size, sizes = prod(piece.shape), [1] * len(shape)
    for axis in reversed(range(len(shape))):
        if size % shape[axis]:
            if size > shape[axis]:
                return None
            sizes[axis], size = size, 1
            break
        sizes[axis], size = (shape[axis], size // shape[axis]) if size > 1 else (1, 1)
        if size == 1:
            break
    firsts = _firsts(shape, piece.to)
    fits = all(f + n <= m for f, n, m in zip(firsts, sizes, shape, strict=True))
    return (tuple(firsts), tuple(sizes), (1,) * len(shape)) if size == 1 and fits else None


def _laid_out(writer: ArrayWriter, boxes: list[tuple[Box, Array]], spec: Spec) -> Array | None:
    """Concatenate boxes along an axis, with zeros in gaps; None if they form no row or overlap."""
    shape = spec.shape
    if len(boxes) == 1:
        return _padded(writer, *boxes[0], spec)
    if any(step > 1 for (_, _, steps), _ in boxes for step in steps):
        return None
    for axis in range(len(shape)):
        ordered = sorted(boxes, key=lambda box: box[0][0][axis])
        groups: list[list[tuple[Box, Array]]] = []
        ends: list[int] = []
        for box in ordered:
            (firsts, sizes, _), _ = box
            if groups and firsts[axis] < ends[-1]:
                if (firsts[axis], sizes[axis]) != _extent(groups[-1][0], axis):
                    break
                groups[-1].append(box)
            else:
                groups.append([box])
                ends.append(firsts[axis] + sizes[axis])
        else:
            if len(groups) > 1:
                return _row_of(writer, groups, axis, spec)
    return None


def _extent(box: tuple[Box, Array], axis: int) -> tuple[int, int]:
    (firsts, sizes, _), _ = box
    return firsts[axis], sizes[axis]


def _row_of(
    writer: ArrayWriter, groups: list[list[tuple[Box, Array]]], axis: int, spec: Spec
) -> Array | None:
    parts: list[Array] = []
    end = 0
    for group in groups:
        first, size = _extent(group[0], axis)
        if first > end:
            parts.append(_zeros(writer, spec, axis, first - end))
        narrow = Spec((*spec.shape[:axis], size, *spec.shape[axis + 1 :]), spec.dtype)
        at_zero = [
            (((*firsts[:axis], 0, *firsts[axis + 1 :]), sizes, steps), value)
            for (firsts, sizes, steps), value in group
        ]
        portion = _laid_out(writer, at_zero, narrow)
        if portion is None:
            return None
        parts.append(portion)
        end = first + size
    if end < spec.shape[axis]:
        parts.append(_zeros(writer, spec, axis, spec.shape[axis] - end))
    return writer.joined(parts, axis)


def _zeros(writer: ArrayWriter, spec: Spec, axis: int, count: int) -> Array:
    shape = (*spec.shape[:axis], count, *spec.shape[axis + 1 :])
    return writer.expanded(writer.constant(np.zeros((1,) * len(shape), spec.dtype)), shape)


def _padded(writer: ArrayWriter, box: Box, value: Array, spec: Spec) -> Array:
    firsts, sizes, steps = box
    value = writer.reshaped(value, sizes)
    ends = [f + s * (m - 1) + 1 for f, s, m in zip(firsts, steps, sizes, strict=True)]
    behind = [n - end for n, end in zip(spec.shape, ends, strict=True)]
    if not any(firsts) and not any(behind) and value.shape == spec.shape:
        return value
    return writer.padded(value, firsts, behind, [step - 1 for step in steps])


def _scattered(
    writer: ArrayWriter, values: Sequence[Array], pieces: Sequence[Piece], spec: Spec, adds: bool
) -> Array:
    flat = (prod(spec.shape),)
    out = writer.expanded(writer.constant(np.zeros(1, spec.dtype)), flat)
    for value, piece in zip(values, pieces, strict=True):
        places = offsets(writer, piece.shape, piece.to, piece.to_strides)
        places = writer.reshaped(writer.expanded(places, piece.shape), (prod(piece.shape),))
        updates = writer.reshaped(value, places.shape)
        out = writer.put(out, places, updates, adds and bool(piece.operand))
    return writer.reshaped(out, spec.shape)
