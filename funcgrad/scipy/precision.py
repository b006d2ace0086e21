"""Convert real arguments to their common precision; Python scalars are weak.

>>> import numpy as np
>>> real_numbers("norm.pdf", np.float32(0.5), 1.0)
[Tensor(0.5, dtype=float32), Tensor(1.0, dtype=float32)]
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from funcgrad._core.specs import dtype_of
from funcgrad._core.trace import NUMBERS, STRONG, Value
from funcgrad._core.users_values import is_weak, operand
from funcgrad._primitives.structural import cast
from funcgrad.errors import DtypeError
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap

_DOUBLE: Final = np.dtype(np.float64)


def real_numbers(operation: str, *args: ArrayLike) -> list[Tensor]:
    """Convert arguments to their common precision, as a ufunc does.

    Python scalars are weak, also if traced; integers and booleans count as float64.

    Raises
    ------
    DtypeError
        An argument is complex.
    """
    values: list[Value] = []
    dtypes = set()
    for arg in args:
        value = arg._value if type(arg) is Tensor else operand(arg, operation)
        values.append(value)
        if type(value) in STRONG:
            dtypes.add(value.dtype)
        elif type(value) is complex or not is_weak(value):
            dtypes.add(dtype_of(value))
    # A traced Python scalar may stay one beside arrays of its precision.
    least = _DOUBLE if dtypes else None
    dtype = dtypes.pop() if len(dtypes) == 1 else _together(operation, dtypes)
    common = dtype if dtype.kind == "f" else _together(operation, {dtype})
    return [wrap(_cast(value, common, least)) for value in values]


def _together(operation: str, dtypes: set[np.dtype[Any]]) -> np.dtype[Any]:
    """The precision of arrays of several dtypes, or of none."""
    wrong = [str(dtype) for dtype in dtypes if dtype.kind == "c"]
    if wrong:
        raise DtypeError(f"{operation}: takes real arguments, got {', '.join(wrong)}.")
    return np.result_type(*[d if d.kind == "f" else _DOUBLE for d in dtypes or {_DOUBLE}])


def _cast(value: Value, dtype: np.dtype[Any], weak: np.dtype[Any] | None) -> Value:
    """Cast a value to the common precision; a Python scalar becomes a NumPy scalar."""
    if type(value) in STRONG:
        return value if value.dtype is dtype else cast(value, dtype=dtype)
    if type(value) in NUMBERS:
        return dtype.type(value)
    if dtype_of(value) == dtype and (dtype == weak or not is_weak(value)):
        return value
    return cast(value, dtype=dtype)
