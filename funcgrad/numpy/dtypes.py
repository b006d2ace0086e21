"""The dtypes by name, and questions about them; the constants of mathematics.

>>> result_type(float32, 1.0), can_cast(int32, float32)
(dtype('float32'), False)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from funcgrad._core.specs import dtype_of, shape_of
from funcgrad._core.trace import TracedValue
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad.errors import DtypeError

bool = bool_ = np.bool_
int8, int16, int32, int64 = np.int8, np.int16, np.int32, np.int64
uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
float16, float32, float64 = np.float16, np.float32, np.float64
complex64, complex128 = np.complex64, np.complex128

# NumPy's aliases, and its abstract types.
byte, short, intc, int_, long, longlong = np.byte, np.short, np.intc, np.int_, np.long, np.longlong
ubyte, ushort, uintc, uint = np.ubyte, np.ushort, np.uintc, np.uint
ulong, ulonglong, intp, uintp = np.ulong, np.ulonglong, np.intp, np.uintp
half, single, double, csingle, cdouble = np.half, np.single, np.double, np.csingle, np.cdouble
generic, number, integer, inexact = np.generic, np.number, np.integer, np.inexact
signedinteger, unsignedinteger = np.signedinteger, np.unsignedinteger
floating, complexfloating = np.floating, np.complexfloating
dtype = np.dtype

e, pi, euler_gamma = np.e, np.pi, np.euler_gamma
inf, nan, newaxis = np.inf, np.nan, None

isdtype = np.isdtype
issubdtype = np.issubdtype
promote_types = np.promote_types


def _bare(x: object) -> Any:
    """The dtype of a tensor; other objects unchanged, for NumPy's functions about dtypes."""
    return dtype_of(x) if isinstance(x, TracedValue) else x


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The dtype of an operation on these arrays and dtypes; Python numbers are weak.

    Examples
    --------
    >>> result_type(int64, float32)
    dtype('float64')
    """
    return np.result_type(*map(_bare, arrays_and_dtypes))


def can_cast(from_: Any, to: DTypeLike, casting: Any = "safe") -> Any:
    """Whether a cast from a dtype, or the dtype of a tensor, to another is possible.

    Examples
    --------
    >>> can_cast(float64, float32), can_cast(float64, float32, "same_kind")
    (False, True)
    """
    return np.can_cast(_bare(from_), to, casting)


def finfo(dtype: DTypeLike) -> np.finfo[Any]:
    """The limits of a floating dtype, or of a tensor's dtype: NumPy's ``finfo``.

    Examples
    --------
    >>> finfo(float64).eps
    np.float64(2.220446049250313e-16)
    """
    return np.finfo(_bare(dtype))


def iinfo(dtype: DTypeLike, /) -> np.iinfo[Any]:
    """The limits of an integer dtype, or of a tensor's dtype: NumPy's ``iinfo``.

    Examples
    --------
    >>> iinfo(int8).max
    127
    """
    return np.iinfo(_bare(dtype))


def common_type(*arrays: ArrayLike) -> type[np.inexact[Any]]:
    """The inexact scalar type to which arrays are promoted; integers count as float64.

    Examples
    --------
    >>> common_type([1, 2]), common_type(np.zeros(1, np.float32), np.zeros(1, np.complex64))
    (<class 'numpy.float64'>, <class 'numpy.complex64'>)
    """
    dtypes = [dtype_of(operand(a, "common_type")) for a in arrays]
    if any(dtype.kind == "b" for dtype in dtypes):
        raise DtypeError("common_type: booleans are not numbers; cast them.")
    return np.common_type(*[np.empty(0, dtype) for dtype in dtypes])


def min_scalar_type(a: ArrayLike) -> np.dtype[Any]:
    """The smallest dtype that can hold a concrete scalar. An array with axes keeps its dtype.

    Examples
    --------
    >>> min_scalar_type(10), min_scalar_type(-260)
    (dtype('uint8'), dtype('int16'))
    """
    value = operand(a, "min_scalar_type")
    if shape_of(value):
        return dtype_of(value)
    return np.min_scalar_type(np.asarray(value))
