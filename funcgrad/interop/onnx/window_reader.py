"""Read ONNX convolutions, poolings and ``Resize``.

``Resize`` is a product with weights along each axis; the weights depend only on the sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import prod
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.specs import dtype_of
from funcgrad._primitives.convolution import convolve, spread
from funcgrad._primitives.sliding import sliding_windows
from funcgrad.interop.onnx.library import OperatorNode, Read, Value, numbers
from funcgrad.tensor.tensor import apply

Pads = list[tuple[int, int]]


def _settings(
    node: OperatorNode, sizes: Sequence[int], kernel: Sequence[int]
) -> tuple[list[int], list[int], Pads]:
    """Strides, dilations, and padding."""
    rank = len(sizes)
    strides = list(node.get("strides") or [1] * rank)
    dilations = list(node.get("dilations") or [1] * rank)
    reach = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    auto = node.get("auto_pad", "NOTSET")
    if auto in ("NOTSET", ""):
        pads = list(node.get("pads") or [0] * 2 * rank)
        return strides, dilations, list(zip(pads[:rank], pads[rank:], strict=True))
    if auto == "VALID":
        return strides, dilations, [(0, 0)] * rank
    both = [
        max((-(-n // s) - 1) * s + r - n, 0) for n, s, r in zip(sizes, strides, reach, strict=True)
    ]
    return strides, dilations, [_halves(n, auto) for n in both]


def _halves(total: int, auto: str) -> tuple[int, int]:
    less, more = total // 2, total - total // 2
    return (less, more) if auto == "SAME_UPPER" else (more, less)


def _widened(x: Value, pads: Pads, filler: Any = 0) -> Value:
    """Pad the last axes; negative pads crop."""
    x = fnp.asarray(x)
    lead = [(0, 0)] * (len(x.shape) - len(pads))
    both = [*lead, *[(max(a, 0), max(b, 0)) for a, b in pads]]
    cut = [*[slice(None)] * len(lead)]
    sizes = x.shape[len(lead) :]
    cut += [slice(max(-a, 0), n - max(-b, 0)) for (a, b), n in zip(pads, sizes, strict=True)]
    if not any(any(pair) for pair in pads):
        return x
    return fnp.pad(x[tuple(cut)], both, constant_values=filler)


def _with_bias(out: Value, bias: Value) -> Value:
    if bias is None:
        return out
    return out + fnp.reshape(bias, (-1, *[1] * (len(out.shape) - 2)))


def _convolved(node: OperatorNode, x: Value, kernel: Value, bias: Value = None) -> Value:
    strides, dilations, pads = _settings(node, np.shape(x)[2:], np.shape(kernel)[2:])
    out = apply(
        convolve,
        _widened(x, pads),
        kernel,
        strides=tuple(strides),
        dilations=tuple(dilations),
        groups=node.get("group", 1),
    )
    return _with_bias(out, bias)


def _spread(node: OperatorNode, x: Value, kernel: Value, bias: Value = None) -> Value:
    sizes, windows = np.shape(x)[2:], np.shape(kernel)[2:]
    rank = len(sizes)
    strides = list(node.get("strides") or [1] * rank)
    dilations = list(node.get("dilations") or [1] * rank)
    more = list(node.get("output_padding") or [0] * rank)
    whole = [
        s * (n - 1) + p + (k - 1) * d + 1
        for s, n, p, k, d in zip(strides, sizes, more, windows, dilations, strict=True)
    ]
    auto, shape = node.get("auto_pad", "NOTSET"), node.get("output_shape")
    if shape is None and auto in ("SAME_UPPER", "SAME_LOWER"):
        shape = [n * s for n, s in zip(sizes, strides, strict=True)]
    if shape is not None:
        shape = list(shape)[-rank:]
        pads = [
            _halves(n - m, "SAME_UPPER" if auto == "SAME_UPPER" else "SAME_LOWER")
            for n, m in zip(whole, shape, strict=True)
        ]
        if auto in ("NOTSET", ""):
            pads = [_halves(n - m, "SAME_LOWER") for n, m in zip(whole, shape, strict=True)]
    else:
        listed = list(node.get("pads") or [0] * 2 * rank)
        pads = list(zip(listed[:rank], listed[rank:], strict=True))
    out = apply(
        spread,
        x,
        kernel,
        shape=tuple(whole),
        strides=tuple(strides),
        dilations=tuple(dilations),
        groups=node.get("group", 1),
    )
    return _with_bias(_widened(out, [(-a, -b) for a, b in pads]), bias)


# ------------------------------------------------------------------------------------ poolings


def _ceiled(
    node: OperatorNode, sizes: Sequence[int], kernel: Sequence[int]
) -> tuple[list[int], list[int], Pads, Pads]:
    """Settings, and the extra padding for last windows if sizes round up (``ceil_mode``)."""
    strides, dilations, pads = _settings(node, sizes, kernel)
    extra: Pads = []
    for n, k, s, d, (a, b) in zip(sizes, kernel, strides, dilations, pads, strict=True):
        room = n + a + b - ((k - 1) * d + 1)
        count = room // s + 1
        if node.get("ceil_mode", 0) and room % s and (room // s + 1) * s < n + a:
            count += 1
        extra.append((0, max((count - 1) * s - room, 0)))
    return strides, dilations, pads, extra


def _windows(
    node: OperatorNode, x: Value, filler: Any
) -> tuple[Value, list[int], list[int], Pads, Pads]:
    """Windows of the padded array: window axes first, then the axes of places."""
    kernel = list(node.get("kernel_shape"))
    strides, dilations, pads, extra = _ceiled(node, np.shape(x)[2:], kernel)
    wide = _widened(_widened(x, pads, filler), extra, filler)
    out = apply(
        sliding_windows,
        wide,
        sizes=tuple(kernel),
        strides=tuple(strides),
        dilations=tuple(dilations),
    )
    return out, strides, dilations, pads, extra


def _inner(node: OperatorNode) -> tuple[int, ...]:
    return tuple(range(2, 2 + len(node.get("kernel_shape"))))


def _max_pooled(node: OperatorNode, x: Value) -> Any:
    dtype = dtype_of(x)
    low = -np.inf if dtype.kind == "f" else np.iinfo(dtype).min
    windows, *_ = _windows(node, x, low)
    out = fnp.max(windows, axis=_inner(node))
    if len(node.outputs) < 2:
        return out
    sizes = np.shape(x)[2:]
    places = np.arange(prod(sizes)).reshape(sizes)
    if node.get("storage_order", 0):  # the first axis runs fastest
        places = np.arange(prod(sizes)).reshape(sizes[::-1]).T
    lead = prod(np.shape(x)[:2])
    starts = np.arange(lead).reshape((*np.shape(x)[:2], *[1] * len(sizes))) * prod(sizes)
    numbered, *_ = _windows(node, (starts + places).astype(np.int64), 0)
    count = prod(node.get("kernel_shape"))
    flat = (*windows.shape[:2], count, *windows.shape[2 + len(sizes) :])
    best = fnp.argmax(fnp.reshape(windows, flat), axis=2, keepdims=True)
    chosen = fnp.take_along_axis(fnp.reshape(numbered, flat), best, axis=2)
    return out, fnp.squeeze(chosen, 2)


def _mean_pooled(node: OperatorNode, x: Value) -> Value:
    windows, strides, dilations, pads, extra = _windows(node, x, 0)
    total = fnp.sum(windows, axis=_inner(node))
    ones = np.ones((1, 1, *np.shape(x)[2:]), dtype_of(x))
    filler = 1 if node.get("count_include_pad", 0) else 0
    ones = np.asarray(_widened(_widened(ones, pads, filler), extra))
    counts = apply(
        sliding_windows,
        ones,
        sizes=tuple(node.get("kernel_shape")),
        strides=tuple(strides),
        dilations=tuple(dilations),
    )
    return total / fnp.sum(counts, axis=_inner(node))


def _length_pooled(node: OperatorNode, x: Value) -> Value:
    p = node.get("p", 2)
    windows, *_ = _windows(node, fnp.abs(x) ** p, 0)
    return fnp.sum(windows, axis=_inner(node)) ** (1.0 / p)


def _everywhere(function: Callable[..., Any]) -> Read:
    def read(node: OperatorNode, x: Value) -> Value:
        return function(x, axis=tuple(range(2, len(np.shape(x)))), keepdims=True)

    return read


def _global_length(node: OperatorNode, x: Value) -> Value:
    p = node.get("p", 2)
    axes = tuple(range(2, len(np.shape(x))))
    return fnp.sum(fnp.abs(x) ** p, axis=axes, keepdims=True) ** (1.0 / p)


def _unpooled(node: OperatorNode, x: Value, places: Value, shape: Value = None) -> Value:
    kernel, sizes = list(node.get("kernel_shape")), np.shape(x)
    strides = list(node.get("strides") or [1] * len(kernel))
    pads = list(node.get("pads") or [0] * 2 * len(kernel))
    inner = [
        (n - 1) * s + k - pads[i] - pads[i + len(kernel)]
        for i, (n, s, k) in enumerate(zip(sizes[2:], strides, kernel, strict=True))
    ]
    whole = (*sizes[:2], *inner)
    out = fnp.zeros(prod(whole), dtype_of(x)).at[fnp.ravel(places)].set(fnp.ravel(x))
    out = fnp.reshape(out, whole)
    if shape is None:
        return out
    wanted = numbers(node, shape, "output_shape")
    return fnp.pad(out, [(0, m - n) for n, m in zip(whole, wanted, strict=True)])


def _col2im(node: OperatorNode, x: Value, image: Value, block: Value) -> Value:
    """The transpose of windows: add blocks at their places."""
    sizes, kernel = numbers(node, image, "image_shape"), numbers(node, block, "block_shape")
    strides, dilations, pads = _settings(node, sizes, kernel)
    whole = [n + a + b for n, (a, b) in zip(sizes, pads, strict=True)]
    counts = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, d, s in zip(whole, kernel, dilations, strides, strict=True)
    ]
    x = fnp.asarray(x)
    channels = x.shape[1] // prod(kernel)
    x = fnp.reshape(x, (x.shape[0], channels, *kernel, *counts))
    out = fnp.zeros((x.shape[0], channels, *whole), x.dtype)
    for offset in product(*map(range, kernel)):
        key = tuple(
            [
                slice(o * d, o * d + s * (c - 1) + 1, s)
                for o, d, s, c in zip(offset, dilations, strides, counts, strict=True)
            ]
        )
        out = out.at[(..., *key)].add(x[(slice(None), slice(None), *offset)])
    return _widened(out, [(-a, -b) for a, b in pads])


Array = np.ndarray[Any, Any]


def _resized(
    node: OperatorNode, x: Value, roi: Value = None, scales: Value = None, sizes: Value = None
) -> Value:
    shape = np.shape(x)
    axes = [a % len(shape) for a in node.get("axes") or range(len(shape))]
    if node.get("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise node.unread("the mode tf_crop_and_resize is not supported")
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
    """The coordinates of the new elements among the old ones."""
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
    """The interpolation weight at a distance (cubic: Keys 1981)."""
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


WINDOWS: Final[Mapping[str, Read]] = MappingProxyType(
    {
        "AveragePool": _mean_pooled,
        "Col2Im": _col2im,
        "Conv": _convolved,
        "ConvTranspose": _spread,
        "GlobalAveragePool": _everywhere(lambda x, **over: fnp.asarray(x).mean(**over)),
        "GlobalLpPool": _global_length,
        "GlobalMaxPool": _everywhere(lambda x, **over: fnp.asarray(x).max(**over)),
        "LpPool": _length_pooled,
        "MaxPool": _max_pooled,
        "MaxUnpool": _unpooled,
        "Resize": _resized,
    }
)
