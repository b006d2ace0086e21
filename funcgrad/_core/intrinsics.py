"""The intrinsics in which formulas are written, and their meaning on raw values.

A *formula* computes an element of an elementwise operation from the elements of its operands:
``formula(m, *operands, **params)``. It calls functions of ``m``, an *algebra*, which implements
them. This module is the algebra on raw values, with which NumPy evaluates formulas.
``funcgrad._programs.algebra`` also works on tracers, and makes programs of primitives. A compiler's
algebra emits instructions. An algebra is any object with the names below.

>>> import funcgrad._core.intrinsics as m
>>> def softplus(m, x):
...     return m.maximum(x, 0) + m.log1p(m.exp(-m.absolute(x)))
>>> softplus(m, np.array([-1.0, 0.0, 1000.0]))
array([3.13261688e-01, 6.93147181e-01, 1.00000000e+03])

Values of an algebra have a ``dtype`` and Python's operators with NumPy's meaning; Python numbers
combined with them are weak, as in NumPy. An operand may itself be a Python number, and ``/`` then
raises for a zero divisor; ``m.divide`` does not. (Other libraries call formulas kernels.)
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import numpy as np
from numpy import (
    absolute,
    add,
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    bitwise_count,
    cbrt,
    copysign,
    cos,
    cosh,
    divide,
    equal,
    exp,
    exp2,
    expm1,
    floor,
    fmod,
    frexp,
    gcd,
    hypot,
    isfinite,
    isinf,
    isnan,
    ldexp,
    log,
    log1p,
    log2,
    log10,
    maximum,
    minimum,
    multiply,
    nextafter,
    power,
    reciprocal,
    rint,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    trunc,
    where,
)

__all__ = [
    "absolute",
    "add",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "astype",
    "binary_exponent",
    "bitwise_count",
    "cbrt",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "fmod",
    "frexp",
    "gcd",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "join_parts",
    "ldexp",
    "log",
    "log1p",
    "log2",
    "log10",
    "maximum",
    "minimum",
    "multiply",
    "nextafter",
    "power",
    "real",
    "reciprocal",
    "rint",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "where",
]


_Raw: TypeAlias = "np.ndarray[Any, Any] | Any"

_INSTEAD: Final = MappingProxyType(
    {
        "abs": "m.absolute(x)",
        "fabs": "m.absolute(x)",
        "clip": "m.minimum(m.maximum(x, low), high)",
        "log_expit": "-m.log1p(m.exp(-x))",
        "logical_and": "x & y",
        "logical_not": "~x",
        "logical_or": "x | y",
        "max": "m.maximum(x, y)",
        "min": "m.minimum(x, y)",
        "negative": "-x",
        "pow": "m.power(x, y)",
        "sigmoid": "1 / (1 + m.exp(-x))",
        "sign": "m.where(x > 0, 1.0, m.where(x < 0, -1.0, x))",
    }
)
"""Other names, and how a formula says the same."""


if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        """Say which functions formulas have, if one calls another."""
        instead = f" Write {_INSTEAD[name]}." if name in _INSTEAD else ""
        raise AttributeError(
            f"m.{name}: a formula has operators and {len(__all__)} functions, and {name!r} is not"
            f" one of them.{instead} See funcgrad._core.intrinsics.__all__.",
            name=name,
        )


with np.errstate(invalid="ignore"):
    _BY_RULE: Final = bool(np.full(16, np.inf).astype(np.int64)[-1] < 0)
    """Whether NumPy converts floats by the rule of ``whole``, as on x86-64."""


def astype(x: _Raw, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Convert ``x`` to another dtype; a complex number is converted to its real part."""
    array: Any = x if isinstance(x, np.ndarray) else np.asarray(x)
    if array.dtype.kind == "c" and dtype.kind not in "cb":
        array = array.real
    if not casts_by_rule(array.dtype, dtype):
        return whole(array, dtype)
    return array.astype(dtype)


def casts_by_rule(source: np.dtype[Any], target: np.dtype[Any]) -> bool:
    """Whether NumPy's ``astype`` converts floats to the same integers as ``whole``."""
    return source.kind != "f" or target.kind not in "iu" or (_BY_RULE and target != np.uint32)


def whole(x: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Convert floats to integers equally on every processor and at every place of an array.

    A float is truncated towards zero to an integer of 32 bits, or of 64 bits for 64-bit integers
    and ``uint32``. Floats out of this range and NaN become its minimum. Then the last bits are
    taken. For ``uint64``, values above the range of ``int64`` are kept. NumPy on x86-64 does the
    same, except for ``uint32``, where elements of one array are converted by different rules.
    """
    if _BY_RULE and dtype == np.uint32:
        return x.astype(np.int64).astype(dtype)
    bits = 64 if dtype.itemsize == 8 or dtype == np.uint32 else 32
    bound = 2.0 ** (bits - 1)
    x = x.astype(np.result_type(x, np.float32))
    beyond = (x >= bound) & (dtype == np.uint64)
    x = np.where(beyond, x - bound, x)
    cut = np.where(abs(x) < bound, x, -bound).astype(f"i{bits // 8}")
    return np.where(beyond, cut ^ -(2 ** (bits - 1)), cut).astype(dtype)


def binary_exponent(x: _Raw) -> Any:
    """The exponent e of ``x = 2**e * m`` with 1/2 <= m < 1."""
    return np.frexp(x)[1]


def real(x: _Raw) -> Any:
    """The real part, a view if ``x`` is an array."""
    return _array(x).real


def imag(x: _Raw) -> Any:
    """The imaginary part."""
    return _array(x).imag


def _array(x: _Raw) -> Any:
    """Convert a Python number to a NumPy scalar, which has NumPy's attributes."""
    return np.asarray(x)[()] if type(x) in (bool, int, float, complex) else x


def join_parts(x: _Raw, y: _Raw) -> Any:
    """Join ``x + iy`` without the products of ``x + 1j * y``."""
    dtype = np.result_type(np.result_type(x, y), np.complex64)
    out = np.empty(np.broadcast_shapes(np.shape(x), np.shape(y)), dtype)
    out.real = x
    out.imag = y
    return out[()]


# The C library's functions, called through Python: exact to the last digit or two, about 100 ns an
# element.
_erf: Final = np.frompyfunc(math.erf, 1, 1)
_erfc: Final = np.frompyfunc(math.erfc, 1, 1)


def erf(x: _Raw) -> Any:
    """The error function of float64 values."""
    return np.asarray(_erf(x), np.float64)[()]


def erfc(x: _Raw) -> Any:
    """One minus the error function, of float64 values."""
    return np.asarray(_erfc(x), np.float64)[()]
