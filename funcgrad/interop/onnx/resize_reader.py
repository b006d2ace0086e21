"""Read ``Resize``: along each axis a product with weights, which depend on sizes alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.specs import dtype_of
from funcgrad.interop.onnx.reader_parts import OperatorNode, Read, Value, numbers

Array = np.ndarray[Any, Any]


def _resized(
    node: OperatorNode, x: Value, roi: Value = None, scales: Value = None, sizes: Value = None
) -> Value:
    shape = np.shape(x)
    axes = [a % len(shape) for a in node.get("axes") or range(len(shape))]
    if node.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise node.unread("the mode tf_crop_and_resize is not there")
    if node.get("antialias", 0):
        raise node.unread("antialias is not there")
    lengths = [shape[a] for a in axes]
    ratios = _ratios(node, lengths, scales, sizes)
    wanted = _lengths(node, lengths, ratios, sizes)
    out = fnp.asarray(x)
    for axis, ratio, length in zip(axes, ratios, wanted, strict=True):
        if ratio != 1 or length != shape[axis]:
            weights = _weights(node, shape[axis], length, ratio).astype(np.float64)
            if node.get("mode", "nearest") == "nearest":
                out = fnp.take(out, np.argmax(weights, axis=1), axis=axis)
            else:
                spread = fnp.tensordot(out, weights.astype(dtype_of(x)), axes=([axis], [1]))
                out = fnp.moveaxis(spread, -1, axis)
    return out


def _ratios(node: OperatorNode, lengths: Sequence[int], scales: Value, sizes: Value) -> list[float]:
    if scales is not None and numbers(node, scales, "scales"):
        return [float(s) for s in numbers(node, scales, "scales")]
    wanted = numbers(node, sizes, "sizes")
    ratios = [m / n for m, n in zip(wanted, lengths, strict=True)]
    policy = node.get("keep_aspect_ratio_policy", "stretch")
    if policy != "stretch":
        same = min(ratios) if policy == "not_larger" else max(ratios)
        ratios = [same] * len(ratios)
    return ratios


def _lengths(
    node: OperatorNode, lengths: Sequence[int], ratios: Sequence[float], sizes: Value
) -> list[int]:
    policy = node.get("keep_aspect_ratio_policy", "stretch")
    if sizes is not None and numbers(node, sizes, "sizes") and policy == "stretch":
        return [int(n) for n in numbers(node, sizes, "sizes")]
    if sizes is not None and numbers(node, sizes, "sizes"):
        return [math.floor(n * r + 0.5) for n, r in zip(lengths, ratios, strict=True)]
    return [math.floor(n * r) for n, r in zip(lengths, ratios, strict=True)]


def _places(node: OperatorNode, size: int, length: int, ratio: float) -> Array:
    """Where the new elements lie among the old ones."""
    k = np.arange(length, dtype=np.float64)
    mode = node.get("coordinate_transformation_mode", "half_pixel")
    if mode == "align_corners":
        return k * (size - 1) / (ratio * size - 1) if ratio * size != 1 else k * 0
    if mode == "asymmetric":
        return k / ratio
    if mode == "pytorch_half_pixel":
        return (k + 0.5) / ratio - 0.5 if length > 1 else k * 0
    places = (k + 0.5) / ratio - 0.5
    if mode == "half_pixel_symmetric":
        places = places + size / 2 * (1 - length / (ratio * size))
    return places


def _weights(node: OperatorNode, size: int, length: int, ratio: float) -> Array:
    """A row of weights for each new element."""
    places = _places(node, size, length, ratio)
    mode = node.get("mode", "nearest")
    if mode == "nearest":
        nearest = np.clip(_nearest(node, places), 0, size - 1).astype(int)
        return np.eye(size)[nearest]
    reach = 1 if mode == "linear" else 2
    first = np.floor(places).astype(int)
    weights = np.zeros((length, size))
    for step in range(1 - reach, reach + 1):
        neighbour = first + step
        weight = _kernel(node, np.abs(places - neighbour))
        inside = (neighbour >= 0) & (neighbour < size)
        if node.get("exclude_outside", 0):
            weight = np.where(inside, weight, 0.0)
        np.add.at(weights, (np.arange(length), np.clip(neighbour, 0, size - 1)), weight)
    return weights / weights.sum(axis=1, keepdims=True)


def _kernel(node: OperatorNode, distance: Array) -> Array:
    """The weight at a distance (Keys 1981, for cubic ones)."""
    if node.get("mode") == "linear":
        return np.maximum(1 - distance, 0)
    a = node.get("cubic_coeff_a", -0.75)
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = ((distance - 5) * distance + 8) * distance * a - 4 * a
    return np.where(distance <= 1, near, np.where(distance < 2, far, 0.0))


def _nearest(node: OperatorNode, places: Array) -> Array:
    mode = node.get("nearest_mode", "round_prefer_floor")
    if mode == "floor":
        return np.floor(places)
    if mode == "ceil":
        return np.ceil(places)
    if mode == "round_prefer_ceil":
        return np.floor(places + 0.5)
    return np.ceil(places - 0.5)


RESIZES: Final[Mapping[str, Read]] = MappingProxyType({"Resize": _resized})
