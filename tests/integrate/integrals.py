"""Integrals with closed forms: the integrand, the limits, the value."""

from __future__ import annotations

from collections.abc import Callable
from math import atan, cos, e, erf, exp, gamma, inf, log, pi, sin, sqrt
from typing import Any

import funcgrad.numpy as fnp

Case = tuple[Callable[[Any], Any], float, float, float]

SMOOTH: dict[str, Case] = {
    "constant": (lambda x: 2.0, -1.0, 2.0, 6.0),
    "line backwards": (lambda x: x, 2.0, -1.0, -1.5),
    "power 9": (lambda x: x**9, 0.0, 1.0, 0.1),
    "power 40": (lambda x: x**40, 0.0, 1.0, 1.0 / 41.0),
    "exp": (fnp.exp, 0.0, 1.0, e - 1.0),
    "sin": (fnp.sin, 0.0, pi, 2.0),
    "sin over a period": (fnp.sin, 0.0, 2.0 * pi, 0.0),
    "cos squared": (lambda x: fnp.cos(x) ** 2, 0.0, pi, pi / 2.0),
    "tan": (fnp.tan, 0.0, 1.0, -log(cos(1.0))),
    "sinh": (fnp.sinh, -1.0, 2.0, (e**2 + e**-2 - e - 1.0 / e) / 2.0),
    "reciprocal": (lambda x: 1.0 / x, 1.0, 5.0, log(5.0)),
    "Runge": (lambda x: 1.0 / (1.0 + 25.0 * x * x), -1.0, 1.0, 0.4 * atan(5.0)),
    "arctan": (fnp.arctan, 0.0, 1.0, pi / 4.0 - log(2.0) / 2.0),
    "log": (fnp.log, 1.0, 3.0, 3.0 * log(3.0) - 2.0),
    "x exp": (lambda x: x * fnp.exp(-x), 0.0, 2.0, 1.0 - 3.0 * exp(-2.0)),
    "exp of sin": (lambda x: fnp.exp(fnp.sin(x)), 0.0, 2.0 * pi, 7.954926521012845),
    "logistic": (lambda x: 1.0 / (1.0 + fnp.exp(-x)), -2.0, 2.0, 2.0),
    "Gauss": (lambda x: fnp.exp(-x * x), -1.0, 1.0, sqrt(pi) * erf(1.0)),
    "elliptic": (
        lambda x: 1.0 / fnp.sqrt(1.0 - 0.5 * fnp.sin(x) ** 2),
        0.0,
        pi / 2,
        1.8540746773013719,
    ),
    "Bessel": (lambda x: fnp.cos(2.0 * fnp.sin(x)) / pi, 0.0, pi, 0.22389077914123567),
    "empty": (lambda x: 1.0 / x, 2.0, 2.0, 0.0),
}
INFINITE: dict[str, Case] = {
    "exp": (lambda x: fnp.exp(-x), 0.0, inf, 1.0),
    "exp from 3": (lambda x: fnp.exp(-x), 3.0, inf, exp(-3.0)),
    "exp backwards": (lambda x: fnp.exp(-x), inf, 0.0, -1.0),
    "exp below": (fnp.exp, -inf, 1.0, e),
    "exp below backwards": (fnp.exp, 1.0, -inf, -e),
    "Gauss": (lambda x: fnp.exp(-x * x), -inf, inf, sqrt(pi)),
    "Gauss backwards": (lambda x: fnp.exp(-x * x), inf, -inf, -sqrt(pi)),
    "Gauss far": (lambda x: fnp.exp(-((x - 3.0) ** 2)), -inf, inf, sqrt(pi)),
    "Cauchy": (lambda x: 1.0 / (1.0 + x * x), -inf, inf, pi),
    "half Cauchy": (lambda x: 1.0 / (1.0 + x * x), -inf, 0.0, pi / 2.0),
    "square": (lambda x: 1.0 / x**2, 1.0, inf, 1.0),
    "1.5": (lambda x: x**-1.5, 1.0, inf, 2.0),
    "gamma 4": (lambda x: x**3 * fnp.exp(-x), 0.0, inf, 6.0),
    "gamma 1/2": (lambda x: fnp.exp(-x) / fnp.sqrt(x), 0.0, inf, sqrt(pi)),
    "Planck": (lambda x: x**3 / fnp.expm1(x), 0.0, inf, pi**4 / 15.0),
    "Fermi": (lambda x: x / (1.0 + fnp.exp(x)), 0.0, inf, pi**2 / 12.0),
    "sech": (lambda x: 1.0 / fnp.cosh(x), -inf, inf, pi),
    "log of Cauchy": (lambda x: fnp.log(x) / (1.0 + x * x), 0.0, inf, 0.0),
    "damped sine": (lambda x: fnp.exp(-x) * fnp.sin(3.0 * x), 0.0, inf, 0.3),
}
HARD: dict[str, Case] = {
    "1/sqrt": (lambda x: 1.0 / fnp.sqrt(x), 0.0, 1.0, 2.0),
    "1/sqrt above": (lambda x: 1.0 / fnp.sqrt(1.0 - x), 0.0, 1.0, 2.0),
    "1/sqrt at both": (lambda x: 1.0 / fnp.sqrt(1.0 - x * x), -1.0, 1.0, pi),
    "sqrt": (fnp.sqrt, 0.0, 1.0, 2.0 / 3.0),
    "-1/4": (lambda x: x**-0.25, 0.0, 1.0, 4.0 / 3.0),
    "-3/4": (lambda x: x**-0.75, 0.0, 1.0, 4.0),
    "log": (fnp.log, 0.0, 1.0, -1.0),
    "log squared": (lambda x: fnp.log(x) ** 2, 0.0, 1.0, 2.0),
    "x log": (lambda x: x * fnp.log(x), 0.0, 1.0, -0.25),
    "log of sin": (lambda x: fnp.log(fnp.sin(x)), 0.0, pi / 2.0, -pi / 2.0 * log(2.0)),
    "log over sqrt": (lambda x: fnp.log(x) / fnp.sqrt(x), 0.0, 1.0, -4.0),
    "semicircle": (lambda x: fnp.sqrt(1.0 - x * x), -1.0, 1.0, pi / 2.0),
    "beta": (lambda x: (x * (1.0 - x)) ** -0.5, 0.0, 1.0, pi),
    "x to the x": (lambda x: x**x, 0.0, 1.0, 0.78343051071213441),
    "kink": (lambda x: fnp.abs(x - 1.0 / 3.0), 0.0, 1.0, 5.0 / 18.0),
    "peak": (lambda x: 1e-2 / (1e-4 + (x - 0.3) ** 2), 0.0, 1.0, atan(70.0) + atan(30.0)),
    "oscillating": (lambda x: fnp.sin(100.0 * x), 0.0, 1.0, (1.0 - cos(100.0)) / 100.0),
    "chirp": (lambda x: fnp.cos(x * x), 0.0, 5.0, 0.6114667663964634),
    "gamma 1.1": (lambda x: x**0.1 * fnp.exp(-x), 0.0, inf, gamma(1.1)),
    "sinc": (lambda x: fnp.sinc(x / pi), 0.0, 20.0, 1.5482417010434397),
    "steep": (lambda x: fnp.tanh(200.0 * (x - 0.7)), 0.0, 1.0, -0.4),
    "exp of 1/x": (lambda x: fnp.exp(-1.0 / x) / x**2, 0.0, 1.0, exp(-1.0)),
    "sin at 0": (lambda x: fnp.sin(x) / x, 0.0, 1.0, 0.946083070367183),
    "two scales": (
        lambda x: fnp.exp(-50.0 * x) + 0.01 * fnp.exp(-x),
        0.0,
        10.0,
        0.03 - 0.01 * exp(-10.0),
    ),
    "sin of log": (lambda x: fnp.sin(fnp.log(x)), 0.0, 1.0, -0.5),
    "cosine": (lambda x: x * fnp.sin(30.0 * x), 0.0, 1.0, (sin(30.0) / 30.0 - cos(30.0)) / 30.0),
}
