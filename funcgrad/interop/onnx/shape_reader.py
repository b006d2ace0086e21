"""Read ONNX operators that move elements, make arrays of a shape, or index arrays."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.specs import dtype_of
from funcgrad.interop.onnx.element_reader import cast
from funcgrad.interop.onnx.library import OperatorNode, Read, Value, axes_of, numbers


def _reshaped(node: OperatorNode, x: Value, shape: Value = None) -> Value:
    wanted = numbers(node, shape, "shape") if shape is not None else list(node.get("shape"))
    sizes = np.shape(x)
    if not node.get("allowzero", 0):
        wanted = [sizes[k] if n == 0 else n for k, n in enumerate(wanted)]
    return fnp.reshape(x, tuple(wanted))


def _flattened(node: OperatorNode, x: Value) -> Value:
    shape, axis = np.shape(x), node.get("axis", 1)
    axis += len(shape) if axis < 0 else 0
    return fnp.reshape(x, (int(np.prod(shape[:axis])), int(np.prod(shape[axis:]))))


def _transposed(node: OperatorNode, x: Value) -> Value:
    return fnp.transpose(x, node.get("perm"))


def _concatenated(node: OperatorNode, *inputs: Value) -> Value:
    return fnp.concatenate(list(inputs), axis=node.get("axis", 1))


def _split(node: OperatorNode, x: Value, sizes: Value = None) -> tuple[Value, ...]:
    axis = node.get("axis", 0)
    length = np.shape(x)[axis]
    counts = node.get("split") if sizes is None else numbers(node, sizes, "split")
    if counts is None:
        size = -(-length // len(node.outputs))
        counts = [min(size, length - k * size) for k in range(len(node.outputs))]
    return tuple(fnp.split(x, np.cumsum(counts)[:-1].tolist(), axis=axis))


def _squeezed(node: OperatorNode, x: Value, axes: Value = None) -> Value:
    chosen = axes_of(node, axes)
    return fnp.squeeze(x, None if chosen is None else tuple(chosen))


def _unsqueezed(node: OperatorNode, x: Value, axes: Value = None) -> Value:
    return fnp.expand_dims(x, tuple(axes_of(node, axes) or ()))


def _expanded(node: OperatorNode, x: Value, shape: Value) -> Value:
    wanted = tuple(numbers(node, shape, "shape"))
    return fnp.broadcast_to(x, np.broadcast_shapes(np.shape(x), wanted))


def _tiled(node: OperatorNode, x: Value, repeats: Value) -> Value:
    return fnp.tile(x, tuple(numbers(node, repeats, "repeats")))


def _sliced(
    node: OperatorNode,
    x: Value,
    starts: Value = None,
    ends: Value = None,
    axes: Value = None,
    steps: Value = None,
) -> Value:
    if starts is None:
        firsts, lasts = node.get("starts"), node.get("ends")
    else:
        firsts, lasts = numbers(node, starts, "starts"), numbers(node, ends, "ends")
    chosen = axes_of(node, axes)
    chosen = list(range(len(firsts))) if chosen is None else chosen
    strides = [1] * len(firsts) if steps is None else numbers(node, steps, "steps")
    key = [slice(None)] * len(np.shape(x))
    for axis, first, last, step in zip(chosen, firsts, lasts, strides, strict=True):
        size = np.shape(x)[axis]
        low = min(max(first + size if first < 0 else first, 0), size if step > 0 else size - 1)
        last = last + size if last < 0 else last
        high: int | None = min(max(last, 0 if step > 0 else -1), size)
        key[axis] = slice(low, None if high == -1 else high, step)
    return fnp.asarray(x)[tuple(key)]


def _padded(
    node: OperatorNode, x: Value, pads: Value = None, filler: Value = None, axes: Value = None
) -> Value:
    widths = node.get("pads") if pads is None else numbers(node, pads, "pads")
    rank = len(np.shape(x))
    chosen = list(range(rank)) if axes is None else numbers(node, axes, "axes")
    both = [(0, 0)] * rank
    for k, axis in enumerate(chosen):
        both[axis] = (widths[k], widths[len(chosen) + k])
    x = fnp.asarray(x)
    cut = tuple(
        [slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(both, x.shape, strict=True)]
    )
    x, wide = x[cut], [(max(a, 0), max(b, 0)) for a, b in both]
    mode = node.get("mode", "constant")
    if mode != "constant":
        return fnp.pad(x, wide, mode=mode)
    value = node.get("value", 0) if filler is None else fnp.reshape(filler, ())
    if filler is None and x.dtype.kind != "f":
        value = int(value)
    inside = fnp.pad(x, wide)
    if type(value) in (int, float) and value == 0:
        return inside
    return fnp.where(np.pad(np.ones(x.shape, bool), wide), inside, value)


def _shape(node: OperatorNode, x: Value) -> Value:
    return np.array(np.shape(x)[node.get("start", 0) : node.get("end")], np.int64)


def _range(node: OperatorNode, start: Value, limit: Value, delta: Value) -> Value:
    bounds = [numbers(node, value, "range")[0] for value in (start, limit, delta)]
    count = max(int(np.ceil((bounds[1] - bounds[0]) / bounds[2])), 0)
    return np.asarray(bounds[0] + np.arange(count) * bounds[2], dtype_of(start))


def _constant_of_shape(node: OperatorNode, shape: Value) -> Value:
    value = node.get("value", np.zeros(1, np.float32))
    return np.full(tuple(numbers(node, shape, "input")), value.reshape(()), value.dtype)


def _constant(node: OperatorNode) -> Value:
    for name, dtype in (
        ("value", None),
        ("value_float", np.float32),
        ("value_floats", np.float32),
        ("value_int", np.int64),
        ("value_ints", np.int64),
    ):
        if name in node.attributes:
            return np.asarray(node.get(name), dtype)
    raise node.unread("constants are arrays and scalars, not texts or sparse arrays")


def _eye_like(node: OperatorNode, x: Value) -> Value:
    rows, columns = np.shape(x)
    out = np.eye(rows, columns, node.get("k", 0), dtype_of(x))
    code = node.get("dtype")
    return out if code is None else cast(node, out, code)


def _triangle(node: OperatorNode, x: Value, k: Value = None) -> Value:
    diagonal = 0 if k is None else numbers(node, k, "k")[0]
    return (fnp.triu if node.get("upper", 1) else fnp.tril)(x, diagonal)


def _depth_to_space(node: OperatorNode, x: Value) -> Value:
    batch, channels, height, width = np.shape(x)
    size = node.get("blocksize")
    count = channels // size**2
    if node.get("mode", "DCR") == "DCR":
        apart = fnp.reshape(x, (batch, size, size, count, height, width))
        moved = fnp.transpose(apart, (0, 3, 4, 1, 5, 2))
    else:
        apart = fnp.reshape(x, (batch, count, size, size, height, width))
        moved = fnp.transpose(apart, (0, 1, 4, 2, 5, 3))
    return fnp.reshape(moved, (batch, count, height * size, width * size))


def _space_to_depth(node: OperatorNode, x: Value) -> Value:
    batch, channels, height, width = np.shape(x)
    size = node.get("blocksize")
    apart = fnp.reshape(x, (batch, channels, height // size, size, width // size, size))
    order = (0, 3, 5, 1, 2, 4) if node.get("mode", "DCR") == "DCR" else (0, 1, 3, 5, 2, 4)
    moved = fnp.transpose(apart, order)
    return fnp.reshape(moved, (batch, channels * size**2, height // size, width // size))


def _reversed(node: OperatorNode, x: Value, lengths: Value) -> Value:
    """Reverse the first elements along the time axis; each example has its own length."""
    time, batch = node.get("time_axis", 0), node.get("batch_axis", 1)
    size = np.shape(x)[time]
    steps = np.arange(size)[:, None]
    ends = fnp.reshape(lengths, (1, -1))
    places = fnp.where(steps < ends, ends - 1 - steps, steps)
    front = fnp.moveaxis(x, (time, batch), (0, 1))
    places = fnp.reshape(places, (*places.shape, *[1] * (len(front.shape) - 2)))
    out = fnp.take_along_axis(front, fnp.broadcast_to(places, front.shape), 0)
    return fnp.moveaxis(out, (0, 1), (time, batch))


def _counted(indices: Value, size: int) -> Value:
    """Convert negative indices, which count from the end."""
    indices = fnp.asarray(indices)
    return fnp.where(indices < 0, indices + size, indices)


def _gathered(node: OperatorNode, x: Value, indices: Value) -> Value:
    axis = node.get("axis", 0)
    if isinstance(x, np.ndarray) and isinstance(indices, np.ndarray | np.generic):
        return np.take(x, np.asarray(indices, np.int64), axis)  # shapes stay arrays
    return fnp.take(x, indices, axis=axis)


def _grid(shape: tuple[int, ...], indices: Value, axis: int) -> tuple[Value, ...]:
    """Indices along an axis, with ``arange`` along the others."""
    grid: list[Any] = list(np.indices(shape, sparse=True))
    grid[axis] = indices
    return tuple(grid)


def _elements(node: OperatorNode, x: Value, indices: Value) -> Value:
    axis = node.get("axis", 0) % len(np.shape(x))
    return fnp.asarray(x)[_grid(np.shape(indices), indices, axis)]


def _nd_index(indices: Value, batch: int) -> tuple[Value, ...]:
    indices = fnp.asarray(indices)
    depth = indices.shape[-1]
    lead = np.indices(indices.shape[:batch], sparse=True) if batch else ()
    rank = len(indices.shape) - 1
    before = [np.reshape(g, (*np.shape(g), *[1] * (rank - batch))) for g in lead]
    return (*before, *[indices[..., k] for k in range(depth)])


def _gathered_nd(node: OperatorNode, x: Value, indices: Value) -> Value:
    return fnp.asarray(x)[_nd_index(indices, node.get("batch_dims", 0))]


def _updated(node: OperatorNode, x: Value, key: Any, updates: Value) -> Value:
    place = fnp.asarray(x).at[key]
    reduction = node.get("reduction", "none")
    methods = {"none": "set", "add": "add", "mul": "multiply", "max": "max", "min": "min"}
    return getattr(place, methods[reduction])(updates)


def _scattered(node: OperatorNode, x: Value, indices: Value, updates: Value) -> Value:
    axis = node.get("axis", 0) % len(np.shape(x))
    return _updated(node, x, _grid(np.shape(indices), indices, axis), updates)


def _scattered_nd(node: OperatorNode, x: Value, indices: Value, updates: Value) -> Value:
    return _updated(node, x, _nd_index(indices, 0), updates)


def _one_hot(node: OperatorNode, indices: Value, depth: Value, values: Value) -> Value:
    count = int(numbers(node, depth, "depth")[0])
    indices = fnp.astype(_counted(indices, count), np.int64)
    rank = len(indices.shape)
    axis = node.get("axis", -1) % (rank + 1)
    wide = fnp.expand_dims(indices, axis)
    places = np.arange(count).reshape([count if a == axis else 1 for a in range(rank + 1)])
    low, high = fnp.asarray(values)[0], fnp.asarray(values)[1]
    return fnp.where(wide == places, high, low)


def _nonzero(node: OperatorNode, x: Value) -> Value:
    numbers(node, x, "X")
    return np.array(np.nonzero(np.atleast_1d(np.asarray(x))), np.int64)


def _compressed(node: OperatorNode, x: Value, condition: Value) -> Value:
    chosen = np.flatnonzero(numbers(node, condition, "condition"))
    axis = node.get("axis")
    return fnp.take(fnp.ravel(x) if axis is None else x, chosen, axis=axis or 0)


SHAPES: Final[Mapping[str, Read]] = MappingProxyType(
    {
        "Concat": _concatenated,
        "Constant": _constant,
        "ConstantOfShape": _constant_of_shape,
        "DepthToSpace": _depth_to_space,
        "Expand": _expanded,
        "EyeLike": _eye_like,
        "Flatten": _flattened,
        "Pad": _padded,
        "Range": _range,
        "Reshape": _reshaped,
        "ReverseSequence": _reversed,
        "Shape": _shape,
        "Size": lambda node, x: np.int64(np.prod(np.shape(x), dtype=np.int64)),
        "Slice": _sliced,
        "SpaceToDepth": _space_to_depth,
        "Split": _split,
        "Squeeze": _squeezed,
        "Tile": _tiled,
        "Transpose": _transposed,
        "Trilu": _triangle,
        "Unsqueeze": _unsqueezed,
        "Compress": _compressed,
        "Gather": _gathered,
        "GatherElements": _elements,
        "GatherND": _gathered_nd,
        "NonZero": _nonzero,
        "OneHot": _one_hot,
        "Scatter": _scattered,
        "ScatterElements": _scattered,
        "ScatterND": _scattered_nd,
    }
)
