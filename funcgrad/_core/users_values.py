"""Convert users' arguments to values, and explain errors in users' terms.

>>> operand([1, 2], "add")
array([1, 2])
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from dataclasses import is_dataclass
from functools import wraps
from numbers import Number
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.linalg import LinAlgError
from numpy.typing import DTypeLike

from funcgrad._core.specs import DTYPES, shape_of, spec_of
from funcgrad._core.trace import NUMBERS, RAW, Raw, TracedValue, Value, concrete
from funcgrad.errors import (
    ArgumentError,
    AxisError,
    DtypeError,
    FuncgradError,
    LeafError,
    MatrixError,
    RangeError,
    ShapeError,
)

ArrayLike: TypeAlias = Any
"""A tensor, an array, a scalar, or nested sequences of scalars.

Type checkers see ``Any``: a precise union would reject nested lists and NumPy scalars that NumPy's
users pass routinely.
"""
Setting: TypeAlias = Any
"""An argument whose values are read on the host, where it may be an array also if other arguments
are on a device: points of time, tolerances, widths."""

_ABOUT_SHAPES: Final = re.compile("shape|broadcast|dimension|size|axis|axes|empty")
_PLAINER: Final = (
    (
        "could not (be )?broadcast",
        "the shapes do not broadcast: counted from the last axis, sizes have to be equal or 1.",
    ),
    (
        "core dimension",
        "the last axis of the first and the second-to-last (or only) axis of the second have to"
        " be equally long.",
    ),
    ("enough dimensions", "an argument has no axis to sum over."),
    ("array is too big|Maximum allowed", "the array would be too large."),
)
"""Replacements for NumPy's messages, by a part of their text. NumPy's messages name the shapes of
whole batches, while the user sees one example, and letters for sizes that the user never wrote."""

LEAST: Final = -(2**63)
GREATEST: Final = 2**64 - 1
"""The largest integer that arrays can hold."""

REFUSALS: Final = (ValueError, TypeError, IndexError, OverflowError)
"""Errors that NumPy raises for arguments that do not fit, which ``explained`` rewrites."""

FREE: Final = frozenset(RAW - {np.ndarray})
"""The exact types of immutable raw values."""


_READ: Final = (np.generic, int, float, complex, range, memoryview)
"""Types without ``__array__`` that NumPy can read; others, such as ``array.array``, are below."""

_WRITEABLE: Final = 0x0400  # NPY_ARRAY_WRITEABLE in NumPy's C interface
"""The bit of ``flags.num``; reading ``flags.writeable`` of broadcast arrays would warn."""


class _ReadOnlyMemory:
    """The base of a tensor's read-only views, which gives no access to writable memory."""

    __slots__ = ("__array_struct__",)

    def __init__(self, owner: np.ndarray[Any, Any]) -> None:
        self.__array_struct__ = owner.__array_struct__  # a capsule that owns the memory


def read_only(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Make a view that cannot be made writable.

    A read-only flag can be cleared by ``setflags``, the flag of a view through its ``base``, and
    the flag of an array over a read-only ``memoryview`` through ``base.obj``. Here the base is an
    object that exports its memory read-only, in a capsule that Python cannot open. This takes 1 µs,
    like a ``memoryview``; ``bytes`` would need a copy.
    """
    view = array.view()
    view.setflags(write=False)
    return np.asarray(_ReadOnlyMemory(view))


def is_frozen(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array can never be written to: its memory belongs to a tensor or to ``bytes``."""
    base: Any = array
    while True:
        if isinstance(base, np.ndarray):
            if base.flags.num & _WRITEABLE:
                return False
            base = base.base
        elif isinstance(base, memoryview):
            if not base.readonly:
                return False
            base = base.obj
        elif type(base) is tuple:  # NumPy's base: an object and the capsule that it exports
            base = base[0]
        else:
            return isinstance(base, (bytes, _ReadOnlyMemory))


def freeze(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array if it can never be written to, else a copy."""
    return array if is_frozen(array) else np.array(array)


def in_native_order(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array in the machine's byte order: itself, or a copy.

    Files of netCDF, FITS, IDL and others are big-endian. The copy has NumPy's own dtype: an equal
    dtype with an explicit byte order is slow in compiled code.
    """
    if array.dtype.isnative:
        return array
    is_number = array.dtype.kind in "iufc"
    return array.astype(array.dtype.type if is_number else array.dtype.newbyteorder("="))


def is_weak(value: Value) -> bool:
    """Whether a value takes an array's dtype: a Python number, or a tracer of one.

    >>> is_weak(2.0), is_weak(np.float64(2.0))
    (True, False)
    """
    while type(value) not in RAW and isinstance(value, TracedValue):
        value = value._value
    return type(value) in NUMBERS


def refuse_exact_numbers(error: LeafError, *values: object) -> None:
    """Raise an error for fractions and decimals, which have no operators with arrays.

    Raises
    ------
    LeafError
        A value is a fraction or a decimal.
    """
    for number in values:
        if isinstance(number, Number) and not isinstance(number, np.generic):
            raise LeafError(f"{number!r} is not a number of NumPy: write float(x).") from error


def operand(x: ArrayLike, operation: str) -> Value:
    """Convert an argument that a user passed to an operation to a value.

    Raises
    ------
    LeafError
        The object is neither an array nor a number.
    DtypeError
        Tensors cannot have the array's dtype.
    """
    if type(x) in FREE or isinstance(x, TracedValue):
        if type(x) is int and not LEAST <= x <= GREATEST:
            raise RangeError(f"{operation}: the integer {_shown(x)} has more than 64 bits.")
        return x
    if isinstance(x, np.ndarray):
        if type(x) is not np.ndarray and np.ma.is_masked(x):
            raise LeafError(
                f"{operation}: got a masked array, whose mask would be lost. Fill it first, with"
                " x.filled(...), and give the mask as where= or to fnp.where."
            )
        array = freeze(in_native_order(np.asarray(x)))
    elif isinstance(x, (list, tuple)):
        first = first_tensor(x)
        if first is not None:
            return first.__array_namespace__().asarray(x)
        array = in_native_order(_array(x, operation))
    elif hasattr(x, "__array__") or isinstance(x, _READ) or type(x).__module__ == "array":
        # `__array__` may return an array that is used elsewhere
        array = freeze(in_native_order(_array(x, operation)))
    else:
        raise LeafError(
            f"{operation}: expected an array or a number, got {_shown(x)} of type"
            f" {type(x).__name__}."
        )
    checked_dtype(array.dtype, operation)
    return array


def checked_dtype(dtype: DTypeLike | None, operation: str) -> np.dtype[Any]:
    """Check that tensors can have a dtype, and return it in the machine's byte order.

    Raises
    ------
    DtypeError
        Tensors cannot have the dtype.
    """
    try:
        result: np.dtype[Any] = np.dtype(dtype)
    except (TypeError, ValueError) as error:
        raise DtypeError(f"{operation}: {dtype!r} is not a dtype: {error}") from None
    if not result.isnative and result.kind in "iufc":
        result = np.dtype(result.type)
    if result not in DTYPES:
        raise DtypeError(
            f"{operation}: the dtype {result} is not supported. Tensors are of bool, integer (8 to"
            " 64 bits), float16, float32, float64, complex64 or complex128."
        )
    return result


def converted(
    array: np.ndarray[Any, Any], dtype: np.dtype[Any], place: str
) -> np.ndarray[Any, Any]:
    """Convert the elements of a file to a leaf's dtype of the same kind.

    Raises
    ------
    RangeError
        An element is out of the range of the dtype.
    """
    if array.dtype == dtype:
        return array
    with np.errstate(over="ignore"):
        numbers: np.ndarray[Any, Any] = array.astype(dtype)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        outside = (array > limits.max) | (array < limits.min)
    else:
        outside = np.isfinite(array) & ~np.isfinite(numbers)
    if np.any(outside):
        raise RangeError(
            f"{place} holds {array[outside][0]}, which {dtype} cannot hold. Give like= a leaf of"
            f" dtype {array.dtype} there."
        )
    return numbers


_NUMBERS_ONLY: Final = "Tensors hold bool, integers, float16 to 64, complex64 and complex128."
_REMEDIES: Final = (
    (
        "O",
        "np.frompyfunc makes arrays of Python objects: use np.vectorize(function,"
        " otypes=[np.float64]) instead, or append .astype(np.float64) to its result.",
    ),
    ("SUT", "Return numbers that encode the texts."),
    ("Mm", "Return integers: .astype(np.int64)."),
    ("V", "Return the fields as several results, in a tuple."),
    ("f", "Append .astype(np.float64) to its result."),
    ("c", "Append .astype(np.complex128) to its result."),
)
"""Advice for a user's operation, by the kind of an unsupported dtype."""


def dtype_refused(operation: str, who: str, dtype: np.dtype[Any]) -> DtypeError:
    """The error for an operation whose results have an unsupported dtype."""
    remedy = next((text for kinds, text in _REMEDIES if dtype.kind in kinds), "")
    return DtypeError(
        f"{operation}: {who} an array of dtype {dtype}, which tensors do not support."
        f" {_NUMBERS_ONLY} {remedy}".rstrip()
    )


def checked_evaluation(
    evaluate: Callable[..., Any], operation: str, strong: bool = False
) -> Callable[..., Any]:
    """Wrap a user's function of raw values so that it checks that its result is a value.

    It gets read-only arrays. Its attribute ``apart`` is the same function on copies, for compiled
    programs, which reuse memory: a function may keep its arguments. If ``strong``, Python numbers
    that it returns become NumPy scalars, as for NumPy's functions (but not for Python's operators).
    Functions of funcgrad, NumPy and SciPy are not wrapped.

    Raises
    ------
    DtypeError
        The function is a ufunc of Python objects, made by ``np.frompyfunc``.
    """
    if isinstance(evaluate, np.ufunc):
        if all(not types.partition("->")[2].strip("O") for types in evaluate.types):
            raise dtype_refused(operation, "evaluate returns", np.dtype(object))
        return evaluate
    if _is_proved(evaluate) or runs_apart(evaluate):
        return evaluate

    @wraps(evaluate)
    def checked(*args: Raw, **params: Hashable) -> Any:
        out = evaluate(*[read_only(x) if type(x) is np.ndarray else x for x in args], **params)
        if isinstance(out, tuple):
            return tuple([_checked_result(value, operation) for value in out])
        if strong and type(out) in NUMBERS:
            out = np.asarray(out)[()]
        return _checked_result(out, operation)

    return with_apart(checked)


def with_apart(evaluate: Callable[..., Any]) -> Callable[..., Any]:
    """Give a function of raw values the attribute ``apart``: the function on copies of arrays."""

    def apart(*args: Raw, **params: Hashable) -> Any:
        return evaluate(*[np.array(x) if type(x) is np.ndarray else x for x in args], **params)

    evaluate.apart = apart  # type: ignore[attr-defined]
    return evaluate


def runs_apart(evaluate: Callable[..., Any]) -> bool:
    """Whether a function is a user's and may keep its arguments: see ``checked_evaluation``."""
    return hasattr(evaluate, "apart")


def _is_proved(evaluate: Callable[..., Any]) -> bool:
    """Whether a function belongs to funcgrad, NumPy or SciPy, so that its results are valid."""
    home: str = getattr(evaluate, "__module__", None) or ""
    if home in ("numpy", "numpy.linalg", "numpy.fft"):
        return not isinstance(evaluate, np.vectorize)
    return home.partition(".")[0] in ("funcgrad", "scipy")


def _checked_result(value: object, operation: str) -> Value:
    if type(value) in FREE:
        return value
    if type(value) is np.ndarray:
        array = in_native_order(value)
        if array.dtype not in DTYPES:
            raise dtype_refused(operation, "evaluate returned", array.dtype)
        return array
    if isinstance(value, TracedValue):
        return concrete(value)
    if isinstance(value, np.generic):
        raise dtype_refused(operation, "evaluate returned", value.dtype)
    raise LeafError(
        f"{operation}: evaluate returned {_shown(value)} of type {type(value).__name__}. It has to"
        " return an array, as from np.asarray, or a number; for several results, a tuple."
    )


def _array(x: Any, operation: str) -> np.ndarray[Any, Any]:
    try:
        return np.asarray(x)
    except LeafError as error:
        raise LeafError(f"{operation}: {error}") from None
    except (ValueError, TypeError, OverflowError) as error:
        raise ShapeError(f"{operation}: {_shown(x)} does not form an array: {error}") from None


def first_tensor(x: object) -> Any:
    """The first tensor in a nested sequence, or None."""
    if isinstance(x, (list, tuple)):
        return next((first for entry in x if (first := first_tensor(entry)) is not None), None)
    return x if isinstance(x, TracedValue) else None


def leaf_remedy(leaf: object) -> str:
    """Advice about an object in a pytree that is neither a container nor an array."""
    kind = type(leaf)
    if is_dataclass(kind):
        return (
            f"Write @fg.pytree instead of @dataclass above the class {kind.__name__}: then it is"
            " frozen, and its fields are leaves."
        )
    if kind.__module__ != "builtins" and hasattr(leaf, "__dict__"):
        return (
            f"Make {kind.__name__} a pytree: @fg.pytree above a class makes it a frozen dataclass"
            " whose fields are leaves. Or pass its arrays in a dict."
        )
    return (
        "Keep objects that are not arrays out of the tree: close over them, or declare them with"
        " fg.static_field() in their class."
    )


def _shown(x: object) -> str:
    text = " ".join(repr(x).split())
    return text if len(text) < 60 else text[:57] + "..."


def described(x: object) -> str:
    """Describe an object for an error message, without names of internal classes.

    >>> described((1, 2, 3)), described(None)
    ('a tuple of 3', 'NoneType')
    """
    if isinstance(x, TracedValue):
        return f"a tensor of shape {shape_of(x)}"
    if isinstance(x, (list, tuple)):
        return f"a {type(x).__name__} of {len(x)}"
    return type(x).__name__


def explained(error: Exception, operation: str, *args: object, **params: object) -> Exception:
    """The error to raise instead of NumPy's: it names the operation and its arguments.

    Raises
    ------
    FuncgradError
        The error is one: it is raised again, since as its own cause it would keep itself alive.
    """
    if isinstance(error, FuncgradError):
        try:
            raise error
        finally:
            del error  # or else the traceback would hold this frame, and so the error
    description = ", ".join(str(spec_of(arg)) for arg in args)
    if params:
        description += "; " + ", ".join(f"{name}={value!r}" for name, value in params.items())
    reason = str(error).strip()
    if isinstance(error, TypeError):
        return DtypeError(
            f"{operation}({description}): the operation is not defined for these dtypes. {reason}"
        )
    kind: type[FuncgradError] = ShapeError if _ABOUT_SHAPES.search(reason) else ArgumentError
    if isinstance(error, LinAlgError):
        kind = MatrixError
    if isinstance(error, (IndexError, OverflowError)):  # so that they are caught like NumPy's
        kind = AxisError if isinstance(error, IndexError) else RangeError
    plain = next((words for start, words in _PLAINER if re.search(start, reason)), reason)
    return kind(f"{operation}({description}): the arguments do not fit: {plain}")
