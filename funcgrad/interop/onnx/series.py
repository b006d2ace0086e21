"""Chebyshev's series of functions that runtimes of ONNX lack in float64.

>>> float(0.5 * clenshaw(erf_series(), np.float64(0.25))) - math.erf(0.5)
0.0
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial.chebyshev import chebinterpolate


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
    """Sum a series, from the last coefficient to the first (Clenshaw 1955)."""
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
