"""Calling NumPy's function and ours with the same arguments, and telling what differs.

>>> outcome = called(np.sqrt, (4.0,), {})
>>> outcome.value, outcome.error
(np.float64(2.0), None)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import funcgrad as fg
from funcgrad.errors import ArgumentError, FuncgradError, ShapeError
from tests.differential.draw import Nested

BUILTIN = (IndexError, ValueError, TypeError, OverflowError, MemoryError)
"""What NumPy raises; an error of ours is to be caught by the same ``except``, or a wider one."""


@dataclass(frozen=True)
class Outcome:
    """What a call came to."""

    value: Any = None
    error: Exception | None = None


def called(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Outcome:
    """Call a function, whatever it raises, and without warnings about numbers."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return Outcome(function(*args, **kwargs))
        except Exception as error:
            return Outcome(error=error)


def as_tensors(x: Any) -> Any:
    """The same arguments with tensors in the place of arrays, in sequences of arrays too."""
    if isinstance(x, Nested):
        return list(x)
    if isinstance(x, np.ndarray) and x.dtype.char in "?bhilqBHILQefdFD":
        return fg.tensor(x)
    if type(x) in (list, tuple) and any(isinstance(part, np.ndarray) for part in x):
        return type(x)(as_tensors(part) for part in x)
    return x


def as_arrays(x: Any) -> Any:
    """The same arguments as NumPy gets them."""
    if isinstance(x, Nested):
        return np.asarray(list(x))
    if type(x) in (list, tuple) and any(isinstance(part, Nested) for part in x):
        return type(x)(as_arrays(part) for part in x)
    return x


def difference(
    own: Outcome, expected: Outcome, precision: float = 64.0, signs: bool = True
) -> str | None:
    """What is wrong with our outcome; None where nothing is.

    Parameters
    ----------
    own, expected : Outcome
    precision : float
        How many units in the last place of its dtype, relative to the greatest finite number
        beside it, a number may be off.
    signs : bool
        Whether the signs of zeros count.
    """
    if own.error is not None:
        if not isinstance(own.error, FuncgradError):
            if expected.error is not None and isinstance(own.error, type(expected.error)):
                return None
            return f"accident: {_error(own.error)}"
        if _of_no_axes(own.error):
            return None
        if expected.error is None:
            return f"ours raises {_error(own.error)}; NumPy's is {_short(expected.value)}"
        if not _catches(expected.error, own.error):
            return f"ours raises {_error(own.error)}; NumPy raises {_error(expected.error)}"
        return None
    if expected.error is not None:
        return f"ours is {_short(own.value)}; NumPy raises {_error(expected.error)}"
    return _differs(own.value, expected.value, precision, signs)


def _of_no_axes(error: Exception) -> bool:
    """Whether an array without axes was asked for one: some of NumPy's let axis 0 pass."""
    return isinstance(error, ShapeError) and "0-d" in str(error)


def _catches(theirs: Exception, ours: Exception) -> bool:
    """Whether who catches NumPy's error catches ours: of the same built-in class.

    What NumPy raises for a divisor of zero before it computes with numbers is an argument of ours.
    """
    if isinstance(theirs, ZeroDivisionError):
        return isinstance(ours, ArgumentError)
    kinds = [kind for kind in BUILTIN if isinstance(theirs, kind)]
    return not kinds or any(isinstance(ours, kind) for kind in kinds)


def _error(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:150]}"


def _short(value: Any) -> str:
    text = f"{type(value).__name__} {value!r}"
    return text if len(text) < 200 else text[:197] + "..."


def _differs(own: Any, expected: Any, precision: float, signs: bool) -> str | None:
    if isinstance(expected, (tuple, list)):
        if not isinstance(own, (tuple, list)) or len(own) != len(expected):
            return f"ours is {_short(own)}; NumPy's is {_short(expected)}"
        found = [_differs(a, b, precision, signs) for a, b in zip(own, expected, strict=True)]
        return next(filter(None, found), None)
    if not isinstance(expected, (np.ndarray, np.generic, bool, int, float, complex)):
        same = own is expected or own == expected or str(own) == str(expected)  # finfo has no ==
        return None if same else f"ours is {_short(own)}; NumPy's is {_short(expected)}"
    first, second = np.asarray(own), np.asarray(expected)
    if first.dtype != second.dtype or first.shape != second.shape:
        return (
            f"ours is of {first.dtype} {first.shape}; NumPy's is of {second.dtype} {second.shape}"
        )
    if not signs and first.dtype.kind in "fc":
        with np.errstate(all="ignore"):
            first, second = first + 0.0, second + 0.0  # so that -0.0 is 0.0
    if _equal(first, second, precision):
        return None
    return f"ours is {_short(first)}; NumPy's is {_short(second)}"


def _scale(x: np.ndarray[Any, Any]) -> float:
    return float(np.abs(x[np.isfinite(x)]).max(initial=0.0))


def _equal(
    first: np.ndarray[Any, Any],
    second: np.ndarray[Any, Any],
    precision: float,
    scale: float | None = None,
) -> bool:
    if first.dtype.kind == "c":
        parts = [(first.real, second.real), (first.imag, second.imag)]
        return all(_equal(a, b, precision, _scale(second)) for a, b in parts)
    if first.dtype.kind != "f":
        return bool(np.array_equal(first, second))
    finite = np.isfinite(second)
    scale = _scale(second) if scale is None else scale
    with np.errstate(all="ignore"):
        near = np.abs(first.astype(float) - second.astype(float))
        near = near <= precision * float(np.finfo(first.dtype).eps) * scale
    zeros = (first != 0) | (second != 0) | (np.signbit(first) == np.signbit(second))
    same = (first == second) | (np.isnan(first) & np.isnan(second)) | (near & finite)
    return bool((same & (zeros | np.isnan(first))).all())


def described(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    """A call as one would write it."""
    words = [_written(arg) for arg in args]
    words += [f"{key}={_written(value)}" for key, value in kwargs.items()]
    return f"{name}({', '.join(words)})"


def _written(x: Any) -> str:
    if isinstance(x, np.dtype):
        return repr(x.char)
    if isinstance(x, np.ndarray):
        return f"array({x.tolist()}, {x.dtype.char!r})"
    if type(x) in (list, tuple):
        inside = ", ".join(map(_written, x))
        return f"[{inside}]" if type(x) is list else f"({inside},)"
    return repr(x)
