"""Read elementwise ONNX operators: arithmetic, functions, comparisons, activations, casts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from types import MappingProxyType
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad import nn
from funcgrad._core.specs import DTYPES, dtype_of
from funcgrad._primitives.special import erf
from funcgrad.interop.onnx.library import OperatorNode, Read, Value, numbers, onnx_library
from funcgrad.tensor.tensor import apply1


def _of(function: Callable[..., Any]) -> Read:
    """Apply a function to the inputs, without attributes."""
    return lambda node, *inputs: function(*inputs)


def _folded(function: Callable[[Any, Any], Any]) -> Read:
    return lambda node, *inputs: reduce(function, inputs)


def _divided(node: OperatorNode, x: Value, y: Value) -> Value:
    """A quotient, truncated for integers."""
    if dtype_of(x).kind == "f":
        return fnp.divide(x, y)
    return fnp.floor_divide(fnp.subtract(x, fnp.fmod(x, y)), y)


def _mod(node: OperatorNode, x: Value, y: Value) -> Value:
    return fnp.fmod(x, y) if node.get("fmod", 0) else fnp.remainder(x, y)


def _power(node: OperatorNode, x: Value, y: Value) -> Value:
    dtype = dtype_of(x)
    if dtype.kind in "iu" and dtype_of(y).kind == "f":
        return fnp.astype(fnp.power(fnp.astype(x, np.float64), y), dtype)
    if dtype.kind in "iu" and dtype_of(y).kind in "iu":
        return fnp.astype(fnp.power(x, y), dtype)
    return fnp.power(x, fnp.astype(y, dtype))


def _clipped(node: OperatorNode, x: Value, low: Value = None, high: Value = None) -> Value:
    low = node.get("min") if low is None else low
    high = node.get("max") if high is None else high
    x = x if low is None else fnp.maximum(x, low)
    return x if high is None else fnp.minimum(x, high)


def _shifted(node: OperatorNode, x: Value, y: Value) -> Value:
    right = node.get("direction") == "RIGHT"
    return fnp.bitwise_right_shift(x, y) if right else fnp.bitwise_left_shift(x, y)


def _isinf(node: OperatorNode, x: Value) -> Value:
    out = fnp.isinf(x)
    if not node.get("detect_negative", 1):
        out = out & (fnp.asarray(x) > 0)
    return out if node.get("detect_positive", 1) else out & (fnp.asarray(x) < 0)


def cast(node: OperatorNode, x: Value, code: int) -> Value:
    """Convert to the dtype of an ONNX type code."""
    helper = onnx_library("interop.onnx.load").helper
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(code))
    if dtype not in DTYPES:
        name = onnx_library("interop.onnx.load").TensorProto.DataType.Name(code)
        raise node.unread(f"tensors have no dtype {name}")
    return fnp.astype(x, dtype)


def _cast(node: OperatorNode, x: Value) -> Value:
    return cast(node, x, node.get("to"))


def _cast_like(node: OperatorNode, x: Value, y: Value) -> Value:
    return fnp.astype(x, dtype_of(y))


def _gelu(node: OperatorNode, x: Value) -> Value:
    return nn.gelu(x, approximate=node.get("approximate", "none") == "tanh")


def _hard_sigmoid(node: OperatorNode, x: Value) -> Value:
    return _bounded(node.get("alpha", 0.2) * fnp.asarray(x) + node.get("beta", 0.5))


def _bounded(x: Value) -> Value:
    return fnp.maximum(fnp.minimum(x, 1), 0)


def _hard_swish(node: OperatorNode, x: Value) -> Value:
    return fnp.asarray(x) * _bounded(fnp.asarray(x) / 6 + 0.5)


def _prelu(node: OperatorNode, x: Value, slope: Value) -> Value:
    x = fnp.asarray(x)
    return fnp.where(x < 0, x * slope, x)


def _selu(node: OperatorNode, x: Value) -> Value:
    alpha, gamma = node.get("alpha", 1.6732632423543772), node.get("gamma", 1.0507009873554805)
    return gamma * nn.elu(x, alpha)


def _shrink(node: OperatorNode, x: Value) -> Value:
    x, bias, limit = fnp.asarray(x), node.get("bias", 0.0), node.get("lambd", 0.5)
    shrunk = fnp.where(x < -limit, x + bias, fnp.where(x > limit, x - bias, 0))
    return fnp.astype(shrunk, dtype_of(x))


def _thresholded(node: OperatorNode, x: Value) -> Value:
    return fnp.where(fnp.asarray(x) > node.get("alpha", 1.0), x, 0)


def _swish(node: OperatorNode, x: Value) -> Value:
    return fnp.asarray(x) * nn.sigmoid(node.get("alpha", 1.0) * fnp.asarray(x))


def _dropout(node: OperatorNode, x: Value, ratio: Value = None, training: Value = None) -> Any:
    """Return the input; training mode is refused."""
    drops = ratio is None or any(numbers(node, ratio, "ratio"))
    if drops and training is not None and any(numbers(node, training, "training_mode")):
        raise node.unread("training_mode is true, and the draws are not ONNX's to repeat")
    mask = fnp.ones(fnp.asarray(x).shape, bool)
    return (x, mask) if len(node.outputs) > 1 else x


def _mean(node: OperatorNode, *inputs: Value) -> Value:
    return reduce(fnp.add, inputs) / len(inputs)


def _celu(node: OperatorNode, x: Value) -> Value:
    return nn.celu(x, alpha=node.get("alpha", 1.0))


ELEMENTS: Final[Mapping[str, Read]] = MappingProxyType(
    {
        "Abs": _of(fnp.abs),
        "Acos": _of(fnp.arccos),
        "Acosh": _of(fnp.arccosh),
        "Add": _of(fnp.add),
        "And": _of(fnp.logical_and),
        "Asin": _of(fnp.arcsin),
        "Asinh": _of(fnp.arcsinh),
        "Atan": _of(fnp.arctan),
        "Atanh": _of(fnp.arctanh),
        "BitShift": _shifted,
        "BitwiseAnd": _of(fnp.bitwise_and),
        "BitwiseNot": _of(fnp.bitwise_invert),
        "BitwiseOr": _of(fnp.bitwise_or),
        "BitwiseXor": _of(fnp.bitwise_xor),
        "Cast": _cast,
        "CastLike": _cast_like,
        "Ceil": _of(fnp.ceil),
        "Celu": _celu,
        "Clip": _clipped,
        "Cos": _of(fnp.cos),
        "Cosh": _of(fnp.cosh),
        "Div": _divided,
        "Dropout": _dropout,
        "Elu": lambda node, x: nn.elu(x, node.get("alpha", 1.0)),
        "Equal": _of(fnp.equal),
        "Erf": _of(lambda x: apply1(erf, x)),
        "Exp": _of(fnp.exp),
        "Floor": _of(fnp.floor),
        "Gelu": _gelu,
        "Greater": _of(fnp.greater),
        "GreaterOrEqual": _of(fnp.greater_equal),
        "HardSigmoid": _hard_sigmoid,
        "HardSwish": _hard_swish,
        "Identity": _of(lambda x: x),
        "IsInf": _isinf,
        "IsNaN": _of(fnp.isnan),
        "LeakyRelu": lambda node, x: nn.leaky_relu(x, node.get("alpha", 0.01)),
        "Less": _of(fnp.less),
        "LessOrEqual": _of(fnp.less_equal),
        "Log": _of(fnp.log),
        "Max": _folded(fnp.maximum),
        "Mean": _mean,
        "Min": _folded(fnp.minimum),
        "Mish": _of(nn.mish),
        "Mod": _mod,
        "Mul": _of(fnp.multiply),
        "Neg": _of(fnp.negative),
        "Not": _of(fnp.logical_not),
        "Or": _of(fnp.logical_or),
        "PRelu": _prelu,
        "Pow": _power,
        "Reciprocal": _of(fnp.reciprocal),
        "Relu": _of(nn.relu),
        "Round": _of(fnp.rint),
        "Selu": _selu,
        "Shrink": _shrink,
        "Sigmoid": _of(nn.sigmoid),
        "Sign": _of(fnp.sign),
        "Sin": _of(fnp.sin),
        "Sinh": _of(fnp.sinh),
        "Softplus": _of(nn.softplus),
        "Softsign": _of(nn.softsign),
        "Sqrt": _of(fnp.sqrt),
        "Sub": _of(fnp.subtract),
        "Sum": _folded(fnp.add),
        "Swish": _swish,
        "Tan": _of(fnp.tan),
        "Tanh": _of(fnp.tanh),
        "ThresholdedRelu": _thresholded,
        "Where": _of(fnp.where),
        "Xor": _of(fnp.logical_xor),
    }
)
