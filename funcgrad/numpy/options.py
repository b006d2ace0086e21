"""Check and convert the options that users pass: integers, shapes, dtypes, scalars.

Each function names the operation and the argument in its errors. As in NumPy, a fraction or a
string is not an integer, and a number outside a dtype's range is an error.

>>> integer(np.int64(3), "diag", "k"), shape_argument(2, "zeros")
(3, (2,))
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from numbers import Integral, Real
from operator import index
from typing import TYPE_CHECKING, Any, Final, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from funcgrad._core.specs import Shape, dtype_of, shape_of
from funcgrad._core.trace import NUMBERS, RAW, Value, concrete
from funcgrad._core.users_values import (
    ArrayLike,
    checked_dtype,
    described,
    explained,
    is_weak,
    operand,
)
from funcgrad._primitives.structural import cast
from funcgrad.errors import ArgumentError, DtypeError, FuncgradError, ShapeError
from funcgrad.tensor.tensor import Tensor

if TYPE_CHECKING:
    from funcgrad._backends.devices.device import Device
    from funcgrad._backends.devices.placement import DeviceLike

Option = TypeVar("Option", bound=str | int)


def integer(x: Any, operation: str, argument: str) -> int:
    """Check that an option is an integer of Python or NumPy.

    Raises
    ------
    DtypeError
        The option is not an integer; fractions and texts are not converted.
    """
    if type(x) is int:
        return x
    try:
        return index(x)
    except TypeError as error:
        if isinstance(error, FuncgradError):  # a traced number has its own message
            raise
        raise DtypeError(f"{operation}: {argument} has to be an integer, not {x!r}.") from None


def traced_integer(x: Value, operation: str, argument: str) -> Value:
    """Check that an option is one traced integer, and convert it to int64.

    Raises
    ------
    DtypeError
        It is a fraction, or an array.
    """
    value = concrete(x)
    if shape_of(value) or dtype_of(value).kind not in "iu":
        raise DtypeError(
            f"{operation}: {argument} has to be an integer, not {dtype_of(value)} of the shape"
            f" {shape_of(value)}."
        )
    long = np.dtype(np.int64)
    return value if dtype_of(value) == long else cast(value, dtype=long)


def natural(x: object, operation: str, argument: str) -> int:
    """Check that an option is a non-negative integer.

    Raises
    ------
    ShapeError
        The integer is negative.
    """
    number = integer(x, operation, argument)
    if number < 0:
        raise ShapeError(f"{operation}: {argument} must not be negative, but is {number}.")
    return number


def real_number(x: Any, operation: str, argument: str) -> float:
    """Convert an option to a real Python number: also a 0-d array, but not a text.

    Raises
    ------
    DtypeError
        The value is not a real number.
    """
    if isinstance(x, Real):
        return float(x)
    try:
        if hasattr(x, "dtype") and not shape_of(x):
            return float(x)
    except (TypeError, ValueError) as error:
        if isinstance(error, FuncgradError):
            raise
    raise DtypeError(f"{operation}: {argument} has to be a real number, not {x!r}.")


def failed_as(failed: str, operation: str) -> str:
    """Check the keyword ``failed``: the treatment of a matrix without a result.

    Raises
    ------
    ArgumentError
        The option is not one of these words.
    """
    if not isinstance(failed, str) or failed not in ("raise", "nan"):
        raise ArgumentError(
            f"{operation}: failed is 'raise', for an error if a matrix has no result, or 'nan', for"
            f" NaN instead; not {failed!r}."
        )
    return failed


def complex_dtype(dtype: DTypeLike, operation: str) -> np.dtype[Any]:
    """Check a dtype that has to be complex.

    Raises
    ------
    DtypeError
        The dtype is not complex.
    """
    chosen = checked_dtype(dtype, operation)
    if chosen.kind != "c":
        raise DtypeError(
            f"{operation}: dtype has to be complex, for results that are always complex, not"
            f" {chosen}. For real parts write .real."
        )
    return chosen


def is_integer(x: object) -> bool:
    """Whether an option is an integer, rather than a sequence of integers."""
    return hasattr(x, "__index__") and not shape_of(x)


def integers(x: Any, operation: str, argument: str) -> tuple[int, ...]:
    """Convert one or several integers to a tuple."""
    if type(x) is int:
        return (x,)
    several = type(x) is tuple or not (is_integer(x) or isinstance(x, (float, str)))
    members = sequence(x, operation, argument) if several and hasattr(x, "__iter__") else (x,)
    return tuple([integer(n, operation, argument) for n in members])


def sequence(x: Any, operation: str, argument: str) -> list[Any]:
    """Convert a sequence to a list.

    Raises
    ------
    DtypeError
        The value is not a sequence: it has no order, or no members.
    """
    if type(x) in (list, tuple):
        return list(x)
    try:
        if isinstance(x, (str, bytes, set, frozenset, dict)):
            raise TypeError
        return list(x)
    except TypeError as error:
        if isinstance(error, FuncgradError):
            raise
        raise DtypeError(
            f"{operation}: {argument} has to be a sequence, not {type(x).__name__}."
        ) from None


def shape_argument(shape: object, operation: str) -> Shape:
    """Convert a shape, an integer or a sequence of integers, to a tuple.

    Raises
    ------
    ShapeError
        The value is neither, a size is negative, or there are too many elements.
    """
    sizes = shape_with_unknowns(shape, operation)
    if min(sizes, default=0) < 0:
        raise ShapeError(f"{operation}: the sizes of {sizes} must not be negative.")
    return sizes


def shape_with_unknowns(shape: object, operation: str) -> Shape:
    """Convert a shape whose sizes may be negative: see ``shape_argument``."""
    try:
        return sized(integers(shape, operation, "shape"), operation)
    except DtypeError:
        raise ShapeError(
            f"{operation}: a shape is an integer or a sequence of integers, not {shape!r}."
        ) from None


def sized(shape: Shape, operation: str) -> Shape:
    """Check that the number of elements of a shape is not too large.

    Raises
    ------
    ShapeError
        It is too large.
    """
    if prod(abs(size) or 1 for size in shape) > _MOST_ELEMENTS:
        raise ShapeError(f"{operation}: an array of the shape {shape} would be too large.")
    return shape


_MOST_ELEMENTS: Final = 2**59 - 1
"""NumPy makes no array of more than ``2**63 - 1`` bytes. The largest elements have 16 bytes."""


def optional_dtype(dtype: DTypeLike | None, operation: str) -> np.dtype[Any] | None:
    """Check that an option is a dtype that tensors can have, or None."""
    return None if dtype is None else checked_dtype(dtype, operation)


def checked_device(device: DeviceLike | None, operation: str) -> Device | None:
    """The device that an option names, the array API's ``device`` of a new array.

    Raises
    ------
    DeviceError
        The device does not exist.
    """
    if device is None:
        return None
    from funcgrad._backends.devices.placement import device_of

    return device_of(device, operation)


def placed(made: Tensor, device: Device | None, operation: str) -> Tensor:
    """Copy a new tensor to a device, unless it is there or there is none.

    Raises
    ------
    TracerError
        The tensor is on another device, and a transformation follows it.
    """
    if device is None or made.device == device:
        return made
    return device.place(made, operation)


def choice(x: object, options: tuple[Option, ...], operation: str, argument: str) -> Option:
    """Check that an option is one of some words or integers.

    Raises
    ------
    ArgumentError
        The option is none of them.
    """
    if not isinstance(x, (str, Integral)) or x not in options:
        words = ", ".join(map(repr, options))
        raise ArgumentError(f"{operation}: {argument} has to be one of {words}, not {x!r}.")
    return options[options.index(x)]


def mapping(x: object, operation: str, argument: str) -> dict[str, Any]:
    """Check a dict of options by their names; None means no options.

    Raises
    ------
    ArgumentError
        The value is not a dict, or a key is not a string.
    """
    if x is None:
        return {}
    if not isinstance(x, Mapping):
        raise ArgumentError(f"{operation}: {argument} has to be a dict, got {type(x).__name__}.")
    for key in x:
        if not isinstance(key, str):
            raise ArgumentError(
                f"{operation}: the keys of {argument} have to be names, not {key!r}."
            )
    return dict(x)


def pair(x: Any, operation: str, argument: str) -> tuple[Any, Any]:
    """The two members of a sequence of length 2.

    Raises
    ------
    DtypeError
        The value is not a sequence.
    ShapeError
        The length is not 2.
    """
    members = sequence(x, operation, argument)
    if len(members) != 2:
        raise ShapeError(f"{operation}: {argument} has to be a pair, not {described(x)}.")
    return members[0], members[1]


def tolerance(x: ArrayLike, operation: str, argument: str) -> Value:
    """Check a real number, which may be traced, unlike for ``real_number``.

    Raises
    ------
    DtypeError
        The value is not a real number.
    """
    value = operand(x, operation)
    if dtype_of(value).kind not in "biuf" or shape_of(value):
        raise DtypeError(f"{operation}: {argument} has to be a real number, not {described(x)}.")
    return value


# ----------------------------------------------------------------------------------------- dtypes


def strong(x: Value) -> Value:
    """Make a value not weak: some functions of NumPy convert all arguments to arrays.

    >>> strong(2.0)
    np.float64(2.0)
    """
    if type(x) in NUMBERS:
        return np.asarray(x)[()]
    return cast(x, dtype=dtype_of(x)) if is_weak(x) else x


def common_dtype(*values: Value) -> np.dtype[Any]:
    """The dtype to which several values are promoted; Python numbers are weak, also traced ones.

    >>> common_dtype(np.float32(1), 2.0, 3)
    dtype('float32')
    """

    def kind(x: Value) -> Any:
        raw = concrete(x)
        if type(raw) in NUMBERS:
            return type(raw)(0)
        if type(raw) not in RAW and is_weak(raw):
            return raw.dtype.type(0).item()
        return raw.dtype

    return np.result_type(*map(kind, values))


def converted(x: Value, dtype: np.dtype[Any], operation: str) -> Value:
    """Convert a value to another dtype; a Python number has to be in its range, as in NumPy.

    Raises
    ------
    RangeError
        The number is out of range, as -1 is for unsigned integers.
    DtypeError
        The number is complex, and the dtype is not.
    """
    raw = concrete(x)
    if type(raw) in NUMBERS:
        try:
            return np.asarray(raw, dtype)[()]
        except (OverflowError, TypeError, ValueError) as error:
            raise explained(error, operation, raw, dtype=dtype.name) from error
    return x if dtype_of(raw) == dtype else cast(x, dtype=dtype)


_RANKS = "biufc"


def _check_lossless(
    source: np.dtype[Any], target: np.dtype[Any], operation: str, hint: str
) -> None:
    """Raise an error if a conversion would lose a fraction or an imaginary part.

    Raises
    ------
    DtypeError
        The source has a wider kind than the target.
    """
    rank, limit = (_RANKS.index(d.kind.replace("u", "i")) for d in (source, target))
    if rank > limit:
        raise DtypeError(
            f"{operation}: values of dtype {source} cannot be stored in a tensor of dtype {target}"
            f" without loss. {hint}"
        )


def initial_value(x: object, dtype: np.dtype[Any], operation: str) -> Value:
    """The initial value of a reduction, in the dtype of its result.

    Raises
    ------
    DtypeError
        The value has a fraction or an imaginary part, which the dtype cannot hold.
    """
    value = operand(x, operation)
    raw = concrete(value)
    fits = type(raw) in RAW and not np.iscomplexobj(raw) and np.all(raw == np.floor(raw))
    if not fits:
        _check_lossless(dtype_of(value), dtype, operation, "Cast initial, or give dtype=.")
    return converted(value, dtype, operation)
