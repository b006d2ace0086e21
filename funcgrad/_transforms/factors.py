"""Factors of tangents and cotangents: the values they are computed from, and the product.

A rule reads the operation's arguments in the result's precision. The arguments
themselves may be narrower, or not floating-point at all: in ``-y`` a ``uint8`` would wrap
and a boolean be refused, the logarithm of a small integer would be one of half precision, and a
boolean that is multiplied with would be taken for a mask.

>>> in_precision_of(np.dtype(np.float64), np.uint8(3))
array(3.)
>>> times(2.0, OPPOSITE), times(2.0, lambda y, x: y * x, 3.0, 5.0)
(-2.0, 30.0)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import OPPOSITE, SAME, Partials, Primitive, UnitFactor
from funcgrad._core.specs import Shape, dtype_of, expand, shape_of
from funcgrad._core.trace import RAW, TracedValue, Value, device_among
from funcgrad._core.users_values import is_weak
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.complexes import conj
from funcgrad._primitives.elementwise import twice
from funcgrad._primitives.structural import cast

PRECISE: Final = frozenset({int, float, complex, np.float64, np.complex128})
"""The exact types of values that ``in_precision_of`` never changes: Python's numbers, which take
the precision of the other operand (a bool is NumPy's boolean there), and scalars of the highest
precision. Checking these first makes scalar programs faster."""


def has_route(primitive: Primitive, operands: Sequence[int]) -> bool:
    """Whether a derivative reaches an operand that is followed."""
    routes = primitive.routes(len(operands))
    return True in [k >= 0 and to is not None for k, to in zip(operands, routes, strict=True)]


class Outline:
    """The shape and the dtype of an array, where rules read nothing else of it.

    The array's memory can then be used for the next operation, while it is still in the cache.
    """

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype


def outlined(x: Value) -> Any:
    """The outline of an array; any other value as it is."""
    return Outline(x.shape, x.dtype) if type(x) is np.ndarray else x


def in_precision_of(dtype: np.dtype[Any], x: Value) -> Value:
    """Convert an argument of an operation to the precision of the operation's result.

    Complex numbers stay complex, also where the result is real, as a magnitude is.
    """
    argument_dtype = dtype_of(x)
    if argument_dtype == dtype or (argument_dtype.kind != "b" and is_weak(x)):
        return x
    wanted = np.dtype(dtype.char.lower())
    if argument_dtype.kind == "c":
        wanted = np.result_type(wanted, np.complex64)
    return x if argument_dtype == wanted or type(x) is Outline else cast(x, dtype=wanted)


def operands_of_factors(
    partials: Partials, primals: Sequence[Value], out: Value
) -> Sequence[Value]:
    """The arguments that factors are computed from, in the precision of the result.

    Factors that select compare the arguments as they are.
    """
    if partials.selects or len(primals) == 1:
        return primals
    dtype = dtype_of(out)
    return [in_precision_of(dtype, x) for x in primals]


def times(v: Value, factor: Any, out: Value = None, x: Value = None, y: Value = None) -> Value:
    """A tangent or a cotangent times a factor: the product that both modes are made of.

    The factor is a constant, a value, or a function of ``out``, ``x`` and ``y``. It is computed in
    one expression with the product, so that NumPy can reuse its memory.
    """
    if factor is SAME:
        return v
    if factor is OPPOSITE:
        return -v
    if y is not None:
        return v * factor(out, x, y)
    if x is None:
        return v * factor
    if factor is twice:
        return (v + v) * x  # a cotangent may still have to be broadcast
    return v * factor(out, x)


def conjugated(factor: Value) -> Any:
    """The factor of cotangents for a factor of tangents: its conjugate."""
    if type(factor) is UnitFactor or type(factor) is float or dtype_of(factor).kind != "c":
        return factor
    return conj(factor)


def fit_tangent(tangent: Value, primal: Value) -> Value:
    """A tangent in the shape and the dtype of its primal; None stays None."""
    kind = type(tangent)
    if kind is type(primal) and kind in RAW:  # the commonest cases, without detours
        if kind is not np.ndarray:
            return tangent
        if tangent.dtype is primal.dtype and tangent.shape == primal.shape:
            return tangent
    if tangent is None:
        return None
    if callable(tangent):  # it is not known yet whether it is needed
        return lambda: fit_tangent(tangent(), primal)
    dtype = dtype_of(primal)
    if dtype_of(tangent) != dtype:
        tangent = cast(tangent, dtype=dtype)
    shape = shape_of(primal)
    if shape_of(tangent) == shape:
        return tangent
    if type(tangent) in RAW:
        return expand(tangent, shape)
    return broadcast_to(tangent, shape=shape)


def zeros_like(x: Value, seeds: Iterable[Value] = ()) -> Value:
    """Zeros in the shape and the dtype of a value, or of a spec; on the device of the value.

    If it is on none, they are on the device of the first seed that is on one.
    """
    shape, dtype = shape_of(x), dtype_of(x)
    device = device_among((x, *seeds) if isinstance(x, TracedValue) else seeds)
    if device is None:
        return np.zeros(shape, dtype)[()]
    return broadcast_to(device.constant(dtype.type(0)), shape=shape)
