"""Logarithms of the incomplete gamma functions, whose derivatives keep their digits in the tails.

>>> log_gammaincc.evaluate(1.0, 5000.0)
np.float64(-5000.0)

Relative derivatives of a small probability are nearly powers of each other, so second derivatives
of its logarithm would cancel. With ``t = x exp(s)`` the integral from x on is ``x**a exp(-x) /
gamma(a)`` times the integral of ``exp(a s - x expm1(s))`` over positive s, and the integral from 0
to x the same over negative s. Each is ``gamma_tail``, whose derivatives are moments of s and
``expm1(s)``: their integrands have one sign, and the terms of both factors agree in sign.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Kinks, Primitive
from funcgrad._core.structure.structures import OWNS, TRANSCENDENTAL, UNEVEN
from funcgrad._core.trace import Value, bind1, bind2
from funcgrad._primitives.elementwise import combined, divide, edges, elementwise, log, reals
from funcgrad._primitives.logic import isfinite
from funcgrad._primitives.selection import where
from funcgrad._primitives.special_functions.gammas import psi
from funcgrad._primitives.special_functions.incomplete_gammas import (
    gamma_density,
    gammainc,
    gammainc_in_shape,
    gammaincc,
    reach_of_left,
    reach_of_right,
)
from funcgrad._primitives.special_functions.quadrature import EVEN, GRADED, in_parts, integral
from funcgrad._primitives.special_functions.scipys import in_double, scipy_special

Array = np.ndarray[Any, Any]

_SMALLEST: Final = 1e-290
"""A probability below this is computed by its logarithm."""


def _tail(a: Array, x: Array, upper: bool, powers: tuple[int, int]) -> Array:
    inside = (a > 0) & (x > 0) & np.isfinite(x) & np.isfinite(a)
    b, y = np.where(inside, a, 1.0), np.where(inside, x, 1.0)
    flat = in_parts(
        lambda a, x: _moment(a, x, 1 if upper else -1, powers), np.ravel(b), np.ravel(y)
    )
    return np.where(inside, flat.reshape(b.shape), np.nan)


def _moment(a: Array, x: Array, sign: int, powers: tuple[int, int]) -> Array:
    """The moments of ``abs(expm1(s))`` and ``abs(s)`` in a tail, unnormalized."""
    slow = (a < 1) & (sign < 0)  # which changes near the start, and then decays slowly
    result = np.empty(a.shape)
    for chosen, ends in ((slow, GRADED), (~slow, EVEN)):
        if np.any(chosen):
            result[chosen] = _moment_in(a[chosen], x[chosen], sign, powers, ends)
    return result


def _moment_in(
    a: Array, x: Array, sign: int, powers: tuple[int, int], ends: Sequence[float]
) -> Array:
    rise, length = powers

    def integrand(s: Array) -> Array:
        growth = np.expm1(sign * s)
        weight = (sign * growth) ** rise * s**length
        return weight * np.exp(sign * a * s - x * growth)

    return integral(integrand, reach_of_right(a, x) if sign > 0 else reach_of_left(a, x), ends)


def _with_powers(
    upper: bool, powers: tuple[int, int], more: tuple[int, int], a: Value, x: Value
) -> Value:
    raised = (powers[0] + more[0], powers[1] + more[1])
    return gamma_tail(a, x, upper=upper, powers=raised)


_PAIRS = combined(
    reals(0.4, 4, 2),
    edges((3.0, 25.0), (30.0, 45.0), (25.0, 3.0), (0.3, 8.0), (0.2, 1.0), smooth=True),
    edges((2.0, 0.0), (2.0, np.inf), (-1.0, 1.0), (np.nan, 1.0)),
)

# Integrals of exp(a s - x expm1(s)) times powers of expm1(s) and of s, over s above or below 0
gamma_tail: Primitive = elementwise(
    "gamma_tail",
    in_double("gamma_tail", _tail),
    partials=(
        lambda _, a, x, upper, powers: (
            (1 if upper else -1) * _with_powers(upper, powers, (0, 1), a, x)
        ),
        lambda _, a, x, upper, powers: (
            (-1 if upper else 1) * _with_powers(upper, powers, (1, 0), a, x)
        ),
    ),
    samples=lambda: [
        *combined(_PAIRS, upper=True, powers=(0, 0))(),
        *combined(_PAIRS, upper=False, powers=(1, 1))(),
    ],
    traits=TRANSCENDENTAL | UNEVEN | OWNS,
    kinks=Kinks(domain=lambda a, x, **_: (a, x)),
)


def _logarithm(probability: Array, opposite: Array, tail: Array) -> Array:
    near = np.where(probability < 0.5, np.log(probability), np.log1p(-opposite))
    return np.where(probability < _SMALLEST, tail, near)


def _log_factor(a: Array, x: Array) -> Array:
    return a * np.log(x) - x - scipy_special("log_gammainc").gammaln(a)


def _log_gammainc(a: Array, x: Array) -> Array:
    functions = scipy_special("log_gammainc")
    probability, opposite = functions.gammainc(a, x), functions.gammaincc(a, x)
    gone = probability < _SMALLEST
    if not np.any(gone):
        return _logarithm(probability, opposite, probability)
    b, y = np.where(gone, a, 2.0), np.where(gone, x, 1.0)
    tail = _log_factor(b + 1, y) - np.log(y) + np.log1p(y * _tail(b + 1, y, False, (0, 0)))
    return _logarithm(probability, opposite, np.where(x == 0, -np.inf, tail))


def _log_gammaincc(a: Array, x: Array) -> Array:
    functions = scipy_special("log_gammaincc")
    probability, opposite = functions.gammaincc(a, x), functions.gammainc(a, x)
    gone = probability < _SMALLEST
    if not np.any(gone):
        return _logarithm(probability, opposite, probability)
    b, y = np.where(gone, a, 1.0), np.where(gone & np.isfinite(x), x, 2.0)
    tail = _log_factor(b, y) + np.log(_tail(b, y, True, (0, 0)))
    return _logarithm(probability, opposite, np.where(np.isinf(x), -np.inf, tail))


def _split(inside: Value, a: Value, x: Value, harmless: tuple[float, float]) -> tuple[Value, Value]:
    return where(inside, a, harmless[0]), where(inside, x, harmless[1])


def _is_below(a: Value, x: Value) -> Value:
    return (x < a) & (x > 0)


def _is_above(a: Value, x: Value) -> Value:
    """Below 1 the probability behaves like log(a) for a small shape a."""
    return (x >= a) & (x >= 1) & (a > 0) & bind1(isfinite, x)


def _below_in_shape(a: Value, x: Value) -> Value:
    """By the parameter a + 1, since psi(a) is large for small a where psi(a + 1) is not."""
    below = _is_below(a, x)
    b, y = _split(below, a, x, (2.0, 1.0))
    whole = 1 + y * gamma_tail(b + 1, y, upper=False, powers=(0, 0))
    moment = y * gamma_tail(b + 1, y, upper=False, powers=(0, 1))
    tail = bind1(log, y) - bind1(psi, b + 1) - bind2(divide, moment, whole)
    c, z = where(below, 1.0, a), where(below, 2.0, x)
    usual = bind2(divide, gammainc_in_shape(c, z, order=1), bind2(gammainc, c, z))
    return where(below, tail, usual)


def _below_in_x(a: Value, x: Value) -> Value:
    below = _is_below(a, x)
    b, y = _split(below, a, x, (2.0, 1.0))
    least = gamma_tail(b + 1, y, upper=False, powers=(0, 0))
    moment = gamma_tail(b + 1, y, upper=False, powers=(1, 0))
    tail = (bind2(divide, b, y) - 1) + bind2(divide, least + y * moment, 1 + y * least)
    c, z = where(below, 1.0, a), where(below, 2.0, x)
    usual = bind2(divide, gamma_density(c, z, order=0), bind2(gammainc, c, z))
    return where(below, tail, usual)


def _above_in_shape(a: Value, x: Value) -> Value:
    above = _is_above(a, x)
    b, y = _split(above, a, x, (1.0, 2.0))
    moment = gamma_tail(b, y, upper=True, powers=(0, 1))
    share = bind2(divide, moment, gamma_tail(b, y, upper=True, powers=(0, 0)))
    tail = bind1(log, y) - bind1(psi, b) + share
    c, z = where(above, 2.0, a), where(above, 1.0, x)
    usual = -bind2(divide, gammainc_in_shape(c, z, order=1), bind2(gammaincc, c, z))
    return where(above, tail, usual)


def _above_in_x(a: Value, x: Value) -> Value:
    above = _is_above(a, x)
    b, y = _split(above, a, x, (1.0, 2.0))
    moment = gamma_tail(b, y, upper=True, powers=(1, 0))
    share = bind2(divide, moment, gamma_tail(b, y, upper=True, powers=(0, 0)))
    tail = (bind2(divide, b, y) - 1) - share
    c, z = where(above, 2.0, a), where(above, 1.0, x)
    usual = -bind2(divide, gamma_density(c, z, order=0), bind2(gammaincc, c, z))
    return where(above, tail, usual)


log_gammainc: Primitive = elementwise(
    "log_gammainc",
    in_double("log_gammainc", _log_gammainc),
    partials=(lambda _, a, x: _below_in_shape(a, x), lambda _, a, x: _below_in_x(a, x)),
    samples=_PAIRS,
    traits=TRANSCENDENTAL | UNEVEN | OWNS,
    kinks=Kinks(domain=lambda a, x, **_: (a, x)),
)
log_gammaincc: Primitive = elementwise(
    "log_gammaincc",
    in_double("log_gammaincc", _log_gammaincc),
    partials=(lambda _, a, x: _above_in_shape(a, x), lambda _, a, x: _above_in_x(a, x)),
    samples=_PAIRS,
    traits=TRANSCENDENTAL | UNEVEN | OWNS,
    kinks=Kinks(domain=lambda a, x, **_: (a, x)),
)
