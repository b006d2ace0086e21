"""The logarithm of the incomplete beta function, whose derivatives keep their digits in the tail.

>>> round(float(log_betainc_factor.evaluate(2.0, 1.0, 1e-200)), 12)
0.0

With ``s = logit(x) - logit(t)`` the integral of the density up to x, which has not reached the
mean, is ``x**a (1 - x)**b / beta(a, b)`` times the integral of ``exp(b U - a D)`` over positive s,
where ``D = log(x / t)`` and ``U = log((1 - t) / (1 - x))``. That is ``beta_tail``. Both D and U
change with x by ``W = (1 - t / x) / (1 - x)``, and W by its own square: derivatives are moments of
the three, and never negative. The parameter is ``a + 1`` (DLMF 8.17.20), since the integral for a
small a would be nearly ``1 / a``.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcgrad._core.primitive import Kinks, Primitive, Sample
from funcgrad._core.structure.structures import OWNS, TRANSCENDENTAL, UNEVEN
from funcgrad._core.trace import Value, bind1, bind2
from funcgrad._primitives.elementwise import combined, divide, edges, elementwise
from funcgrad._primitives.special_functions.gammas import polygamma_rise
from funcgrad._primitives.special_functions.incomplete_betas import point, reach_of_tail
from funcgrad._primitives.special_functions.quadrature import GRADED, in_parts, integral
from funcgrad._primitives.special_functions.scipys import in_double, scipy_special
from funcgrad._primitives.transcendental import log1p

Array = np.ndarray[Any, Any]
Powers = tuple[int, int, int]

_SMALLEST = 1e-290
"""A probability below this is computed by its logarithm."""


def _tail(a: Array, b: Array, x: Array, powers: Powers) -> Array:
    inside = (a > 0) & (b > 0) & (x > 0) & (x * (a + b) <= a) & np.isfinite(a) & np.isfinite(b)
    numbers = [
        np.where(inside, argument, harmless) for argument, harmless in ((a, 1), (b, 1), (x, 0.5))
    ]
    flat = in_parts(lambda a, b, x: _moment(a, b, x, powers), *map(np.ravel, numbers))
    return np.where(inside, flat.reshape(a.shape), np.nan)


def _moment(a: Array, b: Array, x: Array, powers: Powers) -> Array:
    at = point(a, b, x)

    def integrand(s: Array) -> Array:
        down = np.where(s < 700, np.log1p(at.y * np.expm1(np.minimum(s, 700))), s + at.log_y)
        up = -np.log1p(at.x * np.expm1(-s))
        change = -np.expm1(-down) / at.y
        weight = down ** powers[0] * up ** powers[1] * change ** powers[2]
        return weight * np.exp(b * up - a * down)

    return integral(integrand, reach_of_tail(at), GRADED)


def _raised(powers: Powers, place: int, by: int = 1) -> Powers:
    first, second, third = [power + by * (k == place) for k, power in enumerate(powers)]
    return first, second, third


def _to_x(_: Value, a: Value, b: Value, x: Value, powers: Powers) -> Value:
    higher = _raised(powers, 2)
    total = (a + b + powers[2]) * beta_tail(a, b, x, powers=higher)
    if powers[0]:
        total = total - powers[0] * beta_tail(a, b, x, powers=_raised(higher, 0, -1))
    if powers[1]:
        total = total + powers[1] * beta_tail(a, b, x, powers=_raised(higher, 1, -1))
    return total


_BELOW_THE_MEAN = Kinks(domain=lambda a, b, x, **_: (a, b, x, 1 - x, a - x * (a + b)))

_TRIPLES = combined(
    lambda: [
        Sample((np.array([0.5, 2.0, 9.0]), np.array([3.0, 0.7, 20.0]), np.array([0.1, 0.6, 0.3]))),
        Sample((2.5, 1.5, 0.3)),
        Sample((np.array(2.5), np.array(1.5), np.array(0.3))),
        Sample((np.array([[5.0], [9.0]]), 1.5, np.linspace(0.1, 0.7, 6)[::-2])),
        Sample((np.zeros((0, 2)), np.zeros(2), 0.5)),
    ],
    edges((300.0, 500.0, 0.37), (40.0, 0.4, 0.95), (0.3, 2.0, 0.05), smooth=True),
    edges((-1.0, 2.0, 0.5), (1.0, 2.0, 1.5), (np.nan, 1.0, 0.5)),
)

# Integrals of exp(b U - a D) times powers of D, of U and of W
beta_tail: Primitive = elementwise(
    "beta_tail",
    in_double("beta_tail", _tail),
    partials=(
        lambda _, a, b, x, powers: -beta_tail(a, b, x, powers=_raised(powers, 0)),
        lambda _, a, b, x, powers: beta_tail(a, b, x, powers=_raised(powers, 1)),
        _to_x,
    ),
    samples=lambda: [
        *combined(_TRIPLES, powers=(0, 0, 0))(),
        *combined(_TRIPLES, powers=(1, 1, 1))(),
    ],
    traits=TRANSCENDENTAL | UNEVEN | OWNS,
    kinks=_BELOW_THE_MEAN,
)


def _log_betainc_factor(a: Array, b: Array, x: Array) -> Array:
    special = scipy_special("log_betainc_factor")
    probability = special.betainc(a, b, x)
    usual: Array = np.where(x * (a + b) <= a, np.log(probability) - a * np.log(x), np.nan)
    gone = (probability < _SMALLEST) & (a > 0) & (b > 0) & (x > 0) & (x < 1)
    if not np.any(gone):
        return usual
    inner = [
        np.where(gone, argument, harmless) for argument, harmless in ((a, 1.0), (b, 1.0), (x, 0.5))
    ]
    return np.where(gone, _by_tail(*inner), usual)


def _by_tail(a: Array, b: Array, x: Array) -> Array:
    special = scipy_special("log_betainc_factor")
    factor = special.xlog1py(b, -x) - np.log(a + b) - special.betaln(a + 1, b)
    return factor + np.log1p((a + b) * x * _tail(a + 1, b, x, (0, 0, 0)))


def _tails(a: Value, b: Value, x: Value, *several: Powers) -> list[Value]:
    return [beta_tail(a + 1, b, x, powers=powers) for powers in several]


def _factor_to_a(_: Value, a: Value, b: Value, x: Value) -> Value:
    whole, down = _tails(a, b, x, (0, 0, 0), (1, 0, 0))
    change = x * (whole - (a + b) * down)
    return polygamma_rise(a + 1, b - 1, order=0) + bind2(divide, change, 1 + (a + b) * x * whole)


def _factor_to_b(_: Value, a: Value, b: Value, x: Value) -> Value:
    whole, up = _tails(a, b, x, (0, 0, 0), (0, 1, 0))
    change = x * (whole + (a + b) * up)
    outer = bind1(log1p, -x) + polygamma_rise(b, a, order=0)
    return outer + bind2(divide, change, 1 + (a + b) * x * whole)


def _factor_to_x(_: Value, a: Value, b: Value, x: Value) -> Value:
    whole, change = _tails(a, b, x, (0, 0, 0), (0, 0, 1))
    rise = (a + b) * (whole + x * (a + b + 1) * change)
    return bind2(divide, rise, 1 + (a + b) * x * whole) - bind2(divide, b, 1 - x)


# log(betainc(a, b, x)) - a log(x), for x below the mean, a / (a + b)
log_betainc_factor: Primitive = elementwise(
    "log_betainc_factor",
    in_double("log_betainc_factor", _log_betainc_factor),
    partials=(_factor_to_a, _factor_to_b, _factor_to_x),
    samples=_TRIPLES,
    traits=TRANSCENDENTAL | UNEVEN | OWNS,
    kinks=_BELOW_THE_MEAN,
)
