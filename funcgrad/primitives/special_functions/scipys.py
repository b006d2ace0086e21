"""Primitives that SciPy evaluates: it is loaded when the first of them is computed.

>>> evaluator("gammaln")(3.0)
np.float64(0.6931471805599453)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcgrad.errors import DifferentiationError, MissingPackageError
from funcgrad.trace import Raw, Value

__all__ = ["evaluator", "no_derivative", "scipy_special"]

HALF = np.dtype(np.float16)


def scipy_special(name: str) -> Raw:
    """The module ``scipy.special``, for the function of a name.

    Raises
    ------
    MissingPackageError
        SciPy is not installed.
    """
    try:
        import scipy.special
    except ImportError as error:
        raise MissingPackageError(
            f"{name}: SciPy evaluates this function, and it is not installed. Install it by"
            " `pip install funcgrad[scipy]`."
        ) from error
    return scipy.special


def evaluator(name: str) -> Callable[..., Any]:
    """A function of ``scipy.special`` on raw values, in SciPy's precision; float16 stays float16.

    SciPy's own ufuncs do not know half precision: they compute and return float32 for it.
    """

    def evaluate(*args: Raw) -> Raw:
        result = getattr(scipy_special(name), name)(*args)
        return in_half(result, *args)

    return evaluate


def in_half(result: Raw, *args: Raw) -> Raw:
    """A result in half precision, if no argument has more."""
    if result.dtype.char != "f":
        return result
    dtypes = [arg.dtype for arg in args if isinstance(arg, (np.ndarray, np.generic))]
    if any(dtype == HALF for dtype in dtypes) and np.result_type(*dtypes) == HALF:
        return result.astype(HALF)
    return result


def no_derivative(function: str, parameter: str, remedy: str) -> Callable[..., Value]:
    """The factor of a parameter in which no stable formula for the derivative is known."""

    def factor(*args: Value, **params: Raw) -> Value:
        raise DifferentiationError(
            f"{function}: the derivative with respect to {parameter} is not available: no formula"
            f" for it is accurate over the whole range. {remedy}"
        )

    return factor
