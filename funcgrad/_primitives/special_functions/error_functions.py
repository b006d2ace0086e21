"""The error functions beside ``erf`` and ``erfc``, the normal distribution's logarithm, inverses.

>>> erfcx(1e100), log_ndtr(-30.0)
(np.float64(5.641895835477563e-101), np.float64(-454.321243956343))

``erfcx``, that is ``exp(x**2) * erfc(x)``, and ``dawsn`` satisfy differential equations in which
nearly all digits of large arguments cancel; their derivatives are operations that keep them.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import dtype_of
from funcgrad._core.structure.structures import OWNS, TRANSCENDENTAL, UNEVEN
from funcgrad._core.trace import Value, bind1, bind2
from funcgrad._primitives.complexes import imag, join_parts, real
from funcgrad._primitives.elementwise import combined, complexes, divide, edges, elementwise, reals
from funcgrad._primitives.kinks import below, between
from funcgrad._primitives.selection import where
from funcgrad._primitives.special import bell, ndtr
from funcgrad._primitives.special_functions.faddeeva import wofz
from funcgrad._primitives.special_functions.quadrature import NOTHING_LEFT, in_parts, integral
from funcgrad._primitives.special_functions.scipys import (
    evaluated_by_scipy,
    in_double,
    in_precision,
    no_derivative,
    scipy_special,
)
from funcgrad._primitives.transcendental import exp

Array = np.ndarray[Any, Any]

_UNIT: Final = 2 / math.sqrt(math.pi)
_LINE = combined(reals(-3, 3), edges(-np.inf, -30.0, 0.0, 30.0, np.inf, np.nan))


def _square(z: Value) -> Value:
    """The square of a number; of a complex one without the difference of two infinities."""
    if dtype_of(z).kind != "c":
        return z * z
    x, y = bind1(real, z), bind1(imag, z)
    return bind2(join_parts, (x - y) * (x + y), 2 * x * y)


def _gauss(x: Value) -> Value:
    """``2 / sqrt(pi) * exp(-x**2)``, the derivative of the error function."""
    if dtype_of(x).kind == "c":
        return _UNIT * bind1(exp, -_square(x))
    return _UNIT * bell(x, sharpness=1.0)


erf_of_complex: Primitive = elementwise(
    "erf_of_complex",
    lambda z: in_precision(scipy_special("erf").erf(z), z),
    partials=(lambda _, z: _gauss(z),),
    samples=combined(complexes(), reals(-2, 2)),
    traits=TRANSCENDENTAL | OWNS,
)
erfc_of_complex: Primitive = elementwise(
    "erfc_of_complex",
    lambda z: in_precision(scipy_special("erfc").erfc(z), z),
    partials=(lambda _, z: -_gauss(z),),
    samples=combined(complexes(), reals(-2, 2)),
    traits=TRANSCENDENTAL | OWNS,
)
erfi: Primitive = evaluated_by_scipy(
    "erfi",
    partials=(lambda _, x: _UNIT * bind1(exp, _square(x)),),
    samples=combined(_LINE, complexes()),
)


def _erfcx_derivative(x: Array, order: int) -> Array:
    """``2 / sqrt(pi)`` times the integral of ``(-2 t)**order * exp(-t**2 - 2 x t)`` from 0 on.

    For negative x by the recurrence of the derivatives, whose terms have one sign there. DLMF
    7.7.1, and 7.10.
    """
    positive = ~(x < 0)
    outside = ~np.isfinite(x)
    at = np.where(positive & ~outside, x, 1.0)
    forward = in_parts(lambda x: _moment(x, order), at)
    below = np.where(positive, -1.0, x)
    before, last = scipy_special("erfcx").erfcx(below), np.zeros_like(below)
    last, before = before, 2 * below * before - _UNIT
    for n in range(1, order):
        last, before = before, 2 * below * before + 2 * n * last
    result = np.where(positive, forward, before)
    return np.where(np.isposinf(x), 0.0 * (-1) ** order, np.where(np.isnan(x), np.nan, result))


def _moment(x: Array, order: int) -> Array:
    reach = NOTHING_LEFT / (x + np.sqrt(x * x + NOTHING_LEFT))
    return _UNIT * integral(lambda t: (-2 * t) ** order * np.exp(-t * (t + 2 * x)), reach)


erfcx_derivative: Primitive = elementwise(
    "erfcx_derivative",
    in_double("erfcx_derivative", _erfcx_derivative),
    partials=(lambda _, x, order: erfcx_derivative(x, order=order + 1),),
    samples=lambda: [*combined(_LINE, order=1)(), *combined(_LINE, order=2)()],
    traits=TRANSCENDENTAL | UNEVEN | OWNS,
)

_of_complex = no_derivative("erfcx", "a complex argument", "Pass real numbers.")
_dawson_of_complex = no_derivative("dawsn", "a complex argument", "Pass real numbers.")


def _slope_of_erfcx(_: Value, x: Value) -> Value:
    return _of_complex() if dtype_of(x).kind == "c" else erfcx_derivative(x, order=1)


erfcx: Primitive = evaluated_by_scipy("erfcx", partials=(_slope_of_erfcx,), samples=_LINE)

_FAR: Final = 6.0
"""From here on the asymptotic series of Dawson's integral has all digits of float64."""


def _dawsn_derivative(x: Array, order: int) -> Array:
    """By the recurrence of the derivatives; far out by the asymptotic series, differentiated.

    DLMF 7.12.1 with 7.5.1: the terms are ``(2 k - 1)!! / (2**(k + 1) * x**(2 k + 1))``.
    """
    far = np.abs(x) > _FAR + order
    near = np.where(far, 1.0, x)
    last = scipy_special("dawsn").dawsn(near)
    value = 1 - 2 * near * last
    for n in range(1, order):
        last, value = value, -2 * near * value - 2 * n * last
    out = np.where(far & np.isfinite(x), x, 30.0)
    series, coefficient = np.zeros_like(x), 0.5
    terms = []
    for k in range(24):
        falling = math.prod(range(2 * k + 1, 2 * k + 1 + order)) * (-1) ** order
        terms.append(coefficient * falling)
        coefficient *= (2 * k + 1) / 2
    for term in reversed(terms):
        series = series / (out * out) + term
    series = series / out ** (order + 1)
    return np.where(np.isinf(x), 0.0, np.where(far, series, value))


dawsn_derivative: Primitive = elementwise(
    "dawsn_derivative",
    in_double("dawsn_derivative", _dawsn_derivative),
    partials=(lambda _, x, order: dawsn_derivative(x, order=order + 1),),
    samples=lambda: [*combined(_LINE, order=1)(), *combined(_LINE, order=2)()],
    traits=TRANSCENDENTAL | OWNS,
)


def _slope_of_dawsn(_: Value, x: Value) -> Value:
    return _dawson_of_complex() if dtype_of(x).kind == "c" else dawsn_derivative(x, order=1)


dawsn: Primitive = evaluated_by_scipy("dawsn", partials=(_slope_of_dawsn,), samples=_LINE)


def _hazard(_: Value, x: Value) -> Value:
    """The normal density over its distribution function, which may both be too small."""
    if dtype_of(x).kind == "c":
        return bind2(divide, math.sqrt(2 / math.pi), bind1(wofz, -1j * math.sqrt(0.5) * x))
    right = x > 5
    upper, lower = where(right, x, 5.0), where(right, 5.0, x)
    plain = bell(upper, sharpness=0.5) / math.sqrt(2 * math.pi) / bind1(ndtr, upper)
    scaled = bind2(divide, math.sqrt(2 / math.pi), bind1(erfcx, -math.sqrt(0.5) * lower))
    return where(right, plain, scaled)


log_ndtr: Primitive = evaluated_by_scipy("log_ndtr", partials=(_hazard,), samples=_LINE)

_LEVELS = combined(reals(-0.9, 0.9), edges(-1.0, 0.0, 1.0, 2.0, np.nan))
erfinv: Primitive = evaluated_by_scipy(
    "erfinv",
    partials=(lambda y, _x: bind1(exp, y * y) / _UNIT,),
    samples=_LEVELS,
    kinks=between(-1.0, 1.0),
)
erfcinv: Primitive = evaluated_by_scipy(
    "erfcinv",
    partials=(lambda y, _x: -bind1(exp, y * y) / _UNIT,),
    samples=combined(reals(0.1, 1.9), edges(0.0, 1.0, 2.0, 3.0, np.nan)),
    kinks=between(0.0, 2.0),
)
ndtri_exp: Primitive = evaluated_by_scipy(
    "ndtri_exp",
    partials=(lambda y, _x: math.sqrt(math.pi / 2) * bind1(erfcx, -math.sqrt(0.5) * y),),
    samples=combined(reals(-9, -0.1), edges(-np.inf, -1e4, -1e-3, 0.0, 1.0, np.nan)),
    kinks=below(0.0),
)
