"""Read ONNX reductions, products, sorts and normalizations."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad import nn
from funcgrad._core.specs import dtype_of
from funcgrad.interop.onnx.library import OperatorNode, Read, Value, axes_of, numbers
from funcgrad.scipy.special import logsumexp


def _reduced(function: Callable[..., Any]) -> Read:
    """A reduction over axes, or over all elements without axes."""

    def read(node: OperatorNode, x: Value, axes: Value = None) -> Value:
        chosen = axes_of(node, axes)
        if not chosen and node.get("noop_with_empty_axes", 0):
            axis: tuple[int, ...] | None = ()
        else:
            axis = tuple(chosen) if chosen else None
        out = function(x, axis=axis, keepdims=bool(node.get("keepdims", 1)))
        return fnp.astype(out, dtype_of(x))

    return read


def _l1(x: Value, **options: Any) -> Value:
    return fnp.sum(fnp.abs(x), **options)


def _l2(x: Value, **options: Any) -> Value:
    return fnp.sqrt(fnp.sum(fnp.square(x), **options))


def _log_sum_exp(x: Value, axis: Any, keepdims: bool) -> Value:
    return logsumexp(x, axis=axis, keepdims=keepdims)


def _greatest(x: Value, **options: Any) -> Value:
    """The maximum; for empty axes the least value of the dtype."""
    dtype = dtype_of(x)
    low = False if dtype.kind == "b" else -np.inf if dtype.kind == "f" else np.iinfo(dtype).min
    return fnp.max(x, initial=low, **options) if 0 in np.shape(x) else fnp.max(x, **options)


def _least(x: Value, **options: Any) -> Value:
    dtype = dtype_of(x)
    high = True if dtype.kind == "b" else np.inf if dtype.kind == "f" else np.iinfo(dtype).max
    return fnp.min(x, initial=high, **options) if 0 in np.shape(x) else fnp.min(x, **options)


def _extremal(function: Callable[..., Any]) -> Read:
    def read(node: OperatorNode, x: Value) -> Value:
        axis, keepdims = node.get("axis", 0), bool(node.get("keepdims", 1))
        if not node.get("select_last_index", 0):
            return function(x, axis=axis, keepdims=keepdims)
        backwards = function(fnp.flip(x, axis), axis=axis, keepdims=keepdims)
        return np.shape(x)[axis] - 1 - backwards

    return read


def _top(node: OperatorNode, x: Value, k: Value) -> tuple[Value, Value]:
    axis, count = node.get("axis", -1), numbers(node, k, "K")[0]
    if not node.get("sorted", 1) and not node.get("largest", 1):
        pass  # any order is allowed, also sorted values
    descending = bool(node.get("largest", 1))
    order = fnp.argsort(x, axis=axis, stable=True, descending=descending)
    places = fnp.take(order, np.arange(count), axis=axis)
    return fnp.take_along_axis(x, places, axis), places


def _running(node: OperatorNode, x: Value, axis: Value) -> Value:
    along = numbers(node, axis, "axis")[0]
    x = fnp.flip(x, along) if node.get("reverse", 0) else fnp.asarray(x)
    out = fnp.cumsum(x, axis=along, dtype=x.dtype)
    if node.get("exclusive", 0):
        along %= len(x.shape)
        front = tuple([(int(a == along), 0) for a in range(len(x.shape))])
        key = tuple([slice(0, n) for n in x.shape])
        out = fnp.pad(out, front)[key]
    return fnp.flip(out, along) if node.get("reverse", 0) else out


def _products(node: OperatorNode, x: Value, axis: Value) -> Value:
    along = numbers(node, axis, "axis")[0]
    x = fnp.flip(x, along) if node.get("reverse", 0) else fnp.asarray(x)
    out = fnp.cumprod(x, axis=along, dtype=x.dtype)
    if node.get("exclusive", 0):
        size = x.shape[along]
        one = fnp.ones_like(fnp.take(x, np.arange(min(size, 1)), axis=along))
        out = fnp.concatenate([one, fnp.take(out, np.arange(size - 1), axis=along)], axis=along)
    return fnp.flip(out, along) if node.get("reverse", 0) else out


def _gemm(node: OperatorNode, a: Value, b: Value, c: Value = None) -> Value:
    a = fnp.transpose(a) if node.get("transA", 0) else a
    b = fnp.transpose(b) if node.get("transB", 0) else b
    out = fnp.matmul(a, b)
    dtype = out.dtype
    if node.get("alpha", 1.0) != 1.0:
        out = node.get("alpha") * out
    if c is not None:
        out = out + (c if node.get("beta", 1.0) == 1.0 else node.get("beta") * fnp.asarray(c))
    return fnp.astype(out, dtype)


def _einsum(node: OperatorNode, *operands: Value) -> Value:
    return fnp.einsum(node.get("equation"), *operands)


def _soft(function: Callable[..., Any]) -> Read:
    """Apply along an axis; before version 13 over all axes from ``axis`` on, merged."""

    def read(node: OperatorNode, x: Value) -> Value:
        if node.version >= 13:
            return function(x, axis=node.get("axis", -1))
        shape, axis = np.shape(x), node.get("axis", 1)
        axis += len(shape) if axis < 0 else 0
        flat = fnp.reshape(x, (int(np.prod(shape[:axis])), int(np.prod(shape[axis:]))))
        return fnp.reshape(function(flat, axis=-1), shape)

    return read


def _hardmax(node: OperatorNode, x: Value) -> Value:
    axis = node.get("axis", -1)
    places = np.arange(np.shape(x)[axis]).reshape(
        [-1] + [1] * (len(np.shape(x)) - 1 - axis % len(np.shape(x)))
    )
    return fnp.astype(fnp.argmax(x, axis=axis, keepdims=True) == places, dtype_of(x))


def _by_channel(value: Value, rank: int) -> Value:
    return fnp.reshape(value, (-1, *[1] * (rank - 2)))


def _batch_normalized(
    node: OperatorNode, x: Value, scale: Value, bias: Value, mean: Value, var: Value
) -> Any:
    rank, epsilon = len(np.shape(x)), node.get("epsilon", 1e-5)
    x = fnp.asarray(x)
    if node.get("training_mode", 0):
        axes, momentum = (0, *range(2, rank)), node.get("momentum", 0.9)
        now, spread = fnp.mean(x, axis=axes), fnp.var(x, axis=axes)
        blended = [
            fnp.asarray(old) * momentum + new * (1 - momentum)
            for old, new in ((mean, now), (var, spread))
        ]
        out = _normalized(x, now, spread, scale, bias, epsilon, rank)
        return (out, *blended)[: len(node.outputs)]
    return _normalized(x, mean, var, scale, bias, epsilon, rank)


def _normalized(
    x: Value, mean: Value, var: Value, scale: Value, bias: Value, epsilon: float, rank: int
) -> Value:
    mean, var, scale, bias = [_by_channel(v, rank) for v in (mean, var, scale, bias)]
    return fnp.astype((x - mean) / fnp.sqrt(var + epsilon) * scale + bias, dtype_of(x))


def _instance_normalized(node: OperatorNode, x: Value, scale: Value, bias: Value) -> Value:
    rank = len(np.shape(x))
    axes = tuple(range(2, rank))
    x = fnp.asarray(x)
    apart = x - fnp.mean(x, axis=axes, keepdims=True)
    var = fnp.mean(fnp.square(apart), axis=axes, keepdims=True)
    out = apart / fnp.sqrt(var + node.get("epsilon", 1e-5))
    return out * _by_channel(scale, rank) + _by_channel(bias, rank)


def _group_normalized(node: OperatorNode, x: Value, scale: Value, bias: Value) -> Value:
    shape, groups = np.shape(x), node.get("num_groups")
    x = fnp.reshape(x, (shape[0], groups, -1))
    apart = x - fnp.mean(x, axis=-1, keepdims=True)
    var = fnp.mean(fnp.square(apart), axis=-1, keepdims=True)
    out = apart / fnp.sqrt(var + node.get("epsilon", 1e-5))
    if node.version < 21:  # one value for each group
        out = out * fnp.reshape(scale, (groups, 1)) + fnp.reshape(bias, (groups, 1))
        return fnp.reshape(out, shape)
    rank = len(shape)
    return fnp.reshape(out, shape) * _by_channel(scale, rank) + _by_channel(bias, rank)


def _layer_normalized(node: OperatorNode, x: Value, scale: Value, bias: Value = None) -> Any:
    rank = len(np.shape(x))
    axis = node.get("axis", -1) % rank
    axes, dtype = tuple(range(axis, rank)), dtype_of(x)
    wide = fnp.astype(x, np.float32) if dtype == np.float16 else fnp.asarray(x)
    mean = fnp.mean(wide, axis=axes, keepdims=True)
    apart = wide - mean
    var = fnp.mean(fnp.square(apart), axis=axes, keepdims=True)
    inverse = 1 / fnp.sqrt(var + node.get("epsilon", 1e-5))
    out = fnp.astype(apart * inverse, dtype) * scale
    out = out if bias is None else out + bias
    return (out, mean, inverse)[: len(node.outputs)] if len(node.outputs) > 1 else out


def _lp_normalized(node: OperatorNode, x: Value) -> Value:
    axis, p = node.get("axis", -1), node.get("p", 2)
    size = (_l1 if p == 1 else _l2)(x, axis=axis, keepdims=True)
    return fnp.where(size == 0, 0, fnp.asarray(x) / fnp.where(size == 0, 1, size))


def _local_response(node: OperatorNode, x: Value) -> Value:
    size, channels = node.get("size"), np.shape(x)[1]
    before = (size - 1) // 2
    rank = len(np.shape(x))
    widths = [(0, 0), (before, size - 1 - before), *[(0, 0)] * (rank - 2)]
    squares = fnp.pad(fnp.square(x), widths)
    total = sum([squares[:, k : k + channels] for k in range(size)])
    scale = node.get("bias", 1.0) + node.get("alpha", 1e-4) / size * total
    return fnp.asarray(x) / scale ** node.get("beta", 0.75)


REDUCTIONS: Final[Mapping[str, Read]] = MappingProxyType(
    {
        "ArgMax": _extremal(fnp.argmax),
        "ArgMin": _extremal(fnp.argmin),
        "BatchNormalization": _batch_normalized,
        "CumProd": _products,
        "CumSum": _running,
        "Det": lambda node, x: fnp.linalg.det(x),
        "Einsum": _einsum,
        "Gemm": _gemm,
        "GroupNormalization": _group_normalized,
        "Hardmax": _hardmax,
        "InstanceNormalization": _instance_normalized,
        "LRN": _local_response,
        "LayerNormalization": _layer_normalized,
        "LogSoftmax": _soft(nn.log_softmax),
        "LpNormalization": _lp_normalized,
        "MatMul": lambda node, x, y: fnp.matmul(x, y),
        "ReduceL1": _reduced(_l1),
        "ReduceL2": _reduced(_l2),
        "ReduceLogSum": _reduced(lambda x, **options: fnp.log(fnp.sum(x, **options))),
        "ReduceLogSumExp": _reduced(_log_sum_exp),
        "ReduceMax": _reduced(_greatest),
        "ReduceMean": _reduced(fnp.mean),
        "ReduceMin": _reduced(_least),
        "ReduceProd": _reduced(fnp.prod),
        "ReduceSum": _reduced(fnp.sum),
        "ReduceSumSquare": _reduced(lambda x, **options: fnp.sum(fnp.square(x), **options)),
        "Softmax": _soft(nn.softmax),
        "TopK": _top,
    }
)
