"""Chebyshev and Stirling series for functions that ONNX runtimes lack, at least in float64.

>>> float(0.5 * clenshaw(erf_series(), np.float64(0.25))) - math.erf(0.5)
0.0
>>> float(log_gamma(np.float64(5.0))), float(digamma(np.float64(1.0)))
(3.17805383034794..., -0.5772156649015...)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import wraps
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebinterpolate

import funcgrad.numpy as fnp
from funcgrad._core.specs import dtype_of


class Series(NamedTuple):
    """Coefficients of a function on an interval.

    Attributes
    ----------
    low, high : float
    coefficients : tuple of float
    """

    low: float
    high: float
    coefficients: tuple[float, ...]


def clenshaw(series: Series, x: Any) -> Any:
    """Sum a Chebyshev series, from the last coefficient to the first (Clenshaw 1955)."""
    low, high, coefficients = series
    place = (x - (high + low) / 2) * (2 / (high - low))
    later: Any = 0.0
    latest: Any = 0.0
    for coefficient in reversed(coefficients[1:]):
        later, latest = 2.0 * place * later - latest + coefficient, later
    return place * later - latest + coefficients[0]


def erf_series() -> Series:
    """``erf(x) / x`` as a function of ``x**2``, from 0 to 1."""
    return _series(lambda s: math.erf(math.sqrt(s)) / math.sqrt(s), 0.0, 1.0, 14)


def arctan_series() -> Series:
    """``arctan(x) / x`` as a function of ``x**2``, from 0 to 1."""
    return _series(lambda s: math.atan(math.sqrt(s)) / math.sqrt(s), 0.0, 1.0, 22)


def erfc_series() -> Series:
    """``erfc(x) e**(x**2) (1 + 2 x)`` as a function of ``(x - 4) / (x + 4)``, from x = 1/2 on."""

    def scaled(place: float) -> float:
        x = 4.0 * (1.0 + place) / (1.0 - place)
        return math.erfc(x) * math.exp(x * x) * (1.0 + 2.0 * x)

    return _series(scaled, -7 / 9, 0.733, 24)  # up to x = 26, where erfc is 5e-296


def _series(f: Callable[[float], float], low: float, high: float, degree: int) -> Series:
    def at(places: Any) -> Any:
        return np.array([f((high - low) / 2 * t + (high + low) / 2) for t in places.tolist()])

    return Series(low, high, tuple(chebinterpolate(at, degree).tolist()))


# --------------------------------------------------------------------------------- gamma functions

_SHIFT: Final = 10
"""The series below have all digits of float64 from here on."""

_BERNOULLI: Final = tuple(
    map(Fraction, "1/6 -1/30 1/42 -1/30 5/66 -691/2730 7/6 -3617/510 43867/798".split())
)
"""The Bernoulli numbers of even indices from 2 on."""


def _in_double(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Compute in float64, since the series cancel digits, and return the dtype of the argument."""

    @wraps(function)
    def computed(x: Any) -> Any:
        dtype = dtype_of(x) if dtype_of(x).kind == "f" else np.dtype(np.float64)
        return fnp.astype(function(fnp.astype(x, np.float64)), dtype)

    return computed


def _shifted(x: Any) -> tuple[Any, Any, Any]:
    """Arguments shifted to 10 or more, the original ones, and whether those are large already."""
    far = x >= _SHIFT
    return fnp.where(far, x, x + _SHIFT), x, far


def _horner(y: Any, coefficients: list[float]) -> Any:
    """A polynomial in ``1 / y**2``, by Horner's rule."""
    z, total = 1 / (y * y), 0.0
    for coefficient in reversed(coefficients):
        total = total * z + coefficient
    return total


@_in_double
def log_gamma(x: Any) -> Any:
    """Stirling's series, recurrence and reflection (Abramowitz and Stegun 6.1.41, 15 and 17)."""
    below = x < 0.5
    y, start, far = _shifted(fnp.where(below, 1 - x, x))
    coefficients = [float(b / (2 * k * (2 * k - 1))) for k, b in enumerate(_BERNOULLI, 1)]
    value = (y - 0.5) * fnp.log(y) - y + 0.5 * np.log(2 * np.pi) + _horner(y, coefficients) / y
    product: Any = 1.0
    for k in range(_SHIFT):
        product = product * fnp.where(far, 1.0, start + k)
    value = value - fnp.log(product)
    whole = below & (x == fnp.floor(x))
    turned = np.pi * fnp.where(below & ~whole, x - 2 * fnp.rint(x / 2), 0.5)
    reflected = np.log(np.pi) - fnp.log(fnp.abs(fnp.sin(turned))) - value
    finite = fnp.where(whole, np.inf, fnp.where(below, reflected, value))
    return fnp.where(fnp.isinf(x), x, finite)


@_in_double
def digamma(x: Any) -> Any:
    """The asymptotic series, recurrence and reflection (Abramowitz and Stegun 6.3.18, 5 and 7)."""
    below = x < 0.5
    y, start, far = _shifted(fnp.where(below, 1 - x, x))
    coefficients = [float(b / (2 * k)) for k, b in enumerate(_BERNOULLI, 1)]
    value = fnp.log(y) - 0.5 / y - _horner(y, coefficients) / (y * y)
    for k in range(_SHIFT):
        value = value - fnp.where(far, 0.0, 1 / fnp.where(far, 1.0, start + k))
    whole = below & (x == fnp.floor(x))
    reflected = value - np.pi / fnp.tan(np.pi * fnp.where(below & ~whole, x - fnp.rint(x), 0.5))
    out = fnp.where(whole, np.nan, fnp.where(below, reflected, value))
    return fnp.where(x == 0, fnp.copysign(np.inf, -x), out)
