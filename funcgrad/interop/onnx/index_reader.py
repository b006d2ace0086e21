"""Read ONNX's operators that read and write at indices."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad.interop.onnx.reader_parts import OperatorNode, Read, Value, numbers


def _counted(indices: Value, size: int) -> Value:
    """Indices from 0 on: negative ones count from the end."""
    indices = fnp.asarray(indices)
    return fnp.where(indices < 0, indices + size, indices)


def _gathered(node: OperatorNode, x: Value, indices: Value) -> Value:
    axis = node.get("axis", 0)
    if isinstance(x, np.ndarray) and isinstance(indices, np.ndarray | np.generic):
        return np.take(x, np.asarray(indices, np.int64), axis)  # of shapes, which stay arrays
    return fnp.take(x, indices, axis=axis)


def _grid(shape: tuple[int, ...], indices: Value, axis: int) -> tuple[Value, ...]:
    """Indices along an axis, among the places along the others."""
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


INDICES: Final[Mapping[str, Read]] = MappingProxyType(
    {
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
