"""The incomplete gamma functions, their inverses, and derivatives with respect to both arguments.

>>> gammainc(2.0, 1.0)
np.float64(0.2642411176571153)

With the density ``x**(a - 1) * exp(-x) / gamma(a)`` of the gamma distribution, ``gammainc`` is the
integral from 0 to x, so its derivatives with respect to the shape a are integrals of derivatives of
the density: see ``_shape_slope``. Derivatives of every order with respect to a are one operation
with a parameter ``order``, whose derivative is the next order; derivatives with respect to x are
densities again.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Kinks, Primitive, Sample
from funcgrad._core.specs import dtype_of
from funcgrad._core.structure.structures import OWNS, TRANSCENDENTAL, UNEVEN
from funcgrad._core.trace import Value, bind1, bind2
from funcgrad._primitives.elementwise import combined, divide, edges, elementwise, log, reals
from funcgrad._primitives.logic import isfinite
from funcgrad._primitives.selection import where
from funcgrad._primitives.special import ndtri
from funcgrad._primitives.special_functions.entropies import ratio_or_zero
from funcgrad._primitives.special_functions.gammas import psi
from funcgrad._primitives.special_functions.quadrature import (
    NOTHING_LEFT,
    bell_polynomials,
    in_parts,
    integral,
)
from funcgrad._primitives.special_functions.scipys import (
    evaluated_by_scipy,
    in_double,
    scipy_special,
)
from funcgrad._primitives.transcendental import exp, sqrt

Array = np.ndarray[Any, Any]

_STIRLING: Final = 16.0
"""From here on the gamma function is computed by Stirling's series."""

_CORRECTIONS: Final = (
    1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156,
)  # fmt: skip
"""The coefficients of Stirling's series for the logarithm of the gamma function: DLMF 5.11.1."""

_HARMONIC: Final = (1 / 2, 1 / 12, 0.0, -1 / 120, 0.0, 1 / 252, 0.0, -1 / 240, 0.0, 1 / 132)
"""The coefficients of log(a) - psi(a) in powers of 1 / a from the first on: DLMF 5.11.2."""


def log_less(x: Array, centre: Array) -> Array:
    """Compute ``log(r) - (r - 1)`` for ``r = x / centre`` without cancellation near 1.

    Near 1 it uses the series of the inverse hyperbolic tangent of (r - 1) / (r + 1).
    """
    excess = (x - centre) / centre
    near = np.abs(excess) < 0.5
    small = np.where(near, excess, 0.0)
    r = small / (2 + small)
    square = r * r
    series = np.zeros_like(r)
    for k in range(39, 1, -2):
        series = (series + 1 / k) * square
    return np.where(near, r * (2 * series - small), np.log(x / centre) - excess)


def stirling(a: Array) -> Array:
    """Stirling's series: its sum corrects the logarithm of the gamma function for large a."""
    correction = np.zeros_like(a)
    for number in _CORRECTIONS[::-1]:
        correction = correction / (a * a) + number
    return correction / a


def density(a: Array, x: Array) -> Array:
    """``x**(a - 1) * exp(-x) / gamma(a)``; for large a in the form that Stirling's series gives.

    exp((a - 1) log x - x - log gamma(a)) would lose the digits by which these three are large.
    """
    large = a >= _STIRLING
    b, y = np.where(large, a, 20.0), np.where(large & np.isfinite(x) & (x > 0), x, 20.0)
    exponent = b * log_less(y, b) - stirling(b)
    far = np.sqrt(b / (2 * np.pi)) / y * np.exp(exponent)
    c = np.where(large, 1.0, a)
    factor = scipy_special("gammainc").rgamma(c)
    root = np.exp(-np.where(x < 0, np.nan, x) / 2)
    power = np.power(np.where(np.isposinf(x), 0.0, x), c - 1)
    near = np.where((factor == 0) | np.isposinf(x), 0.0, power * root * factor * root)
    return np.where(large, np.where((x == 0) | np.isposinf(x), 0.0, far), near)


def log_less_psi(a: Array, x: Array) -> Array:
    """``log(x) - psi(a)``, also where they are nearly equal."""
    large = a >= _STIRLING
    b = np.where(large, a, _STIRLING)
    defect = np.zeros_like(b)
    for number in _HARMONIC[::-1]:
        defect = (defect + number) / b
    near = np.abs(x - b) < 0.5 * b
    ratio = np.where(near, np.log1p(np.where(near, (x - b) / b, 0.0)), np.log(x / b))
    return np.where(large, ratio + defect, np.log(x) - scipy_special("gammainc").psi(a))


def _cumulants(a: Array, first: Array, order: int) -> list[Array]:
    """The derivatives of ``a log(x) - log(gamma(a))`` with respect to a, given the first one."""
    polygamma = scipy_special("gammainc").polygamma
    return [first, *[-polygamma(k, a) for k in range(1, order)]]


def _polynomial(a: Array, above: list[Array], order: int) -> Array:
    """The a-derivative of some order of ``a * exp(f(a))``, divided by ``exp(f(a))``.

    f belongs to the parameter a + 1: the density of a is a / x times the density of a + 1, and
    psi(a) is large for small a, unlike psi(a + 1).
    """
    bell = bell_polynomials(above)
    return a * bell[order] + order * bell[order - 1] if order else a * bell[0]


def _density_in_shape(a: Array, x: Array, order: int) -> Array:
    if order == 0:
        return density(a, x)
    inside = (a >= 0) & (x > 0) & np.isfinite(x) & np.isfinite(a)
    b, y = np.where(inside, a, 1.0), np.where(inside, x, 1.0)
    above = _cumulants(b + 1, log_less_psi(b + 1, y), order)
    value = _polynomial(b, above, order) * density(b + 1, y) / y
    at_zero = np.where(a > 1, 0.0, (-1.0) ** order * np.inf)
    outside = np.where(np.isposinf(x), 0.0, np.where((x == 0) & (a > 0), at_zero, np.nan))
    return np.where(inside, value, outside)


def _shape_slope(a: Array, x: Array, order: int) -> Array:
    """The derivative of some order of ``gammainc`` with respect to a.

    It is the integral of ``density * polynomial(log t - psi(a))`` from 0 to x and, as the whole
    integral is 0, minus the integral from x on. The first polynomial is ``log t - psi(a)`` itself,
    whose sign tells which of the two does not cancel. For x <= 1 it is the series of DLMF 8.7.1,
    term by term. The relative error is below 1e-13 for a < 1e4, and grows like the square root of
    a.
    """
    inside = (a >= 0) & (x > 0) & np.isfinite(x) & np.isfinite(a)
    b, y = np.where(inside, np.abs(a), 1.0), np.where(inside, x, 1.0)  # -0.0 is 0
    series = y <= 1
    by_series = _by_series(b, np.where(series, y, 1.0), order)
    by_integral = np.zeros_like(b)
    left = ~series
    if left.any():
        by_integral[left] = in_parts(lambda a, x: _by_integral(a, x, order), b[left], y[left])
    ends = np.where((x == 0) | np.isposinf(x) | np.isposinf(a), 0.0, np.nan)
    return np.where(inside, np.where(series, by_series, by_integral), ends)


def _by_series(a: Array, x: Array, order: int) -> Array:
    """``x**a / gamma(a + 1)`` times ``1 + sum of a / (a + n) * (-x)**n / n!``, differentiated."""
    above = _cumulants(a + 1, np.log(x) - scipy_special("gammainc").psi(a + 1), order)
    bell = bell_polynomials(above)
    sums = [np.zeros_like(a) for _ in range(order + 1)]
    for n in range(22, 0, -1):
        power = (-x) ** n / math.factorial(n)
        sums[0] += a / (a + n) * power
        for k in range(1, order + 1):
            sums[k] -= (-1) ** k * math.factorial(k) * n / (a + n) ** (k + 1) * power
    sums[0] += 1
    total = sum(
        [math.comb(order, k) * bell[k] * sums[order - k] for k in range(order + 1)],
        np.zeros_like(a),
    )
    return density(a + 1, x) * np.exp(x) * total


def _by_integral(a: Array, x: Array, order: int) -> Array:
    """An integral in the variable ``s = abs(log(t / x))`` over the rest of the exponent."""
    score = log_less_psi(a, x)
    sign = np.where(score < 0, -1.0, 1.0)
    ends = [reach_of_left(a, x), reach_of_right(a, x)]
    reach = np.where(score < 0, *ends)
    first = log_less_psi(a + 1, x)
    others = _cumulants(a + 1, first, order)[1:]

    def integrand(s: Array) -> Array:
        t = sign * s
        exponent = -(x - a) * t - x * (np.expm1(t) - t)
        return np.exp(exponent) * _polynomial(a, [first + t, *others], order)

    return -sign * density(a + 1, x) * integral(integrand, reach)


def reach_of_left(a: Array, x: Array) -> Array:
    """Where ``(a - x) s + x (exp(-s) - 1 + s)`` is large enough."""
    reach = (NOTHING_LEFT + x) / a
    near = 1.3 * np.sqrt(2 * NOTHING_LEFT / x)
    reach = np.where(near < 1, np.minimum(near, reach), reach)
    return np.where(a > x, np.minimum(reach, NOTHING_LEFT / (a - x)), reach)


def reach_of_right(a: Array, x: Array) -> Array:
    """Where ``(x - a) s + x (exp(s) - 1 - s)`` is large enough."""
    reach = 1.05 * np.sqrt(2 * NOTHING_LEFT / x)
    reach = np.where(reach < 1, reach, np.minimum(reach, 1.15 * np.log1p(NOTHING_LEFT / x) + 0.5))
    return np.where(x > a, np.minimum(reach, NOTHING_LEFT / (x - a)), reach)


_PAIRS = combined(
    reals(0.4, 4, 2),
    edges((30.0, 25.0), (500.0, 530.0), (1e-3, 0.5), (0.3, 8.0), smooth=True),
    edges((0.5, 0.0), (2.5, 0.0), (1.0, 0.0), (2.0, np.inf), (0.0, 1.0), (-1.0, 1.0), (np.nan, 1)),
)


def _density_to_x(y: Value, a: Value, x: Value, order: int) -> Value:
    """``density * ((a - 1) / x - 1)``, differentiated; at 0 as a difference of two densities."""
    start = x == 0
    inner = where(start, 1.0, x)
    usual = gamma_density(a, inner, order=order) * (bind2(divide, a - 1, inner) - 1)
    if order:
        usual = usual + order * bind2(divide, gamma_density(a, inner, order=order - 1), inner)
    first = where(start, a, 2.0)
    at_zero = gamma_density(first - 1, 0.0, order=order) - gamma_density(first, 0.0, order=order)
    return where(start, at_zero, usual)


# x**(a - 1) * exp(-x) / gamma(a), and its derivatives with respect to a
gamma_density: Primitive = elementwise(
    "gamma_density",
    in_double("gamma_density", _density_in_shape),
    partials=(lambda _, a, x, order: gamma_density(a, x, order=order + 1), _density_to_x),
    samples=lambda: [*combined(_PAIRS, order=0)(), *combined(_PAIRS, order=1)()],
    traits=TRANSCENDENTAL | OWNS,
    kinks=Kinks(domain=lambda a, x, order: (a, x)),
)

gammainc_in_shape: Primitive = elementwise(
    "gammainc_in_shape",
    in_double("gammainc_in_shape", _shape_slope),
    partials=(
        lambda _, a, x, order: gammainc_in_shape(a, x, order=order + 1),
        lambda _, a, x, order: gamma_density(a, x, order=order),
    ),
    samples=lambda: [*combined(_PAIRS, order=1)(), *combined(_PAIRS, order=2)()],
    traits=TRANSCENDENTAL | UNEVEN | OWNS,
    kinks=Kinks(domain=lambda a, x, **_: (a, x)),
)


def _density_of(a: Value, x: Value) -> Value:
    return gamma_density(a, x, order=0)


def _in_shape(a: Value, x: Value) -> Value:
    return gammainc_in_shape(a, x, order=1)


gammainc: Primitive = evaluated_by_scipy(
    "gammainc",
    partials=(lambda _, a, x: _in_shape(a, x), lambda _, a, x: _density_of(a, x)),
    samples=_PAIRS,
    kinks=Kinks(domain=lambda a, x, **_: (a, x)),
)
gammaincc: Primitive = evaluated_by_scipy(
    "gammaincc",
    partials=(lambda _, a, x: -_in_shape(a, x), lambda _, a, x: -_density_of(a, x)),
    samples=_PAIRS,
    kinks=Kinks(domain=lambda a, x, **_: (a, x)),
)

_LEVELS = combined(
    lambda: [
        Sample((np.array([0.4, 1.0, 2.5, 30.0]), np.array([0.2, 0.5, 0.9, 0.3]))),
        Sample((2.5, 0.3)),
        Sample((np.array(2.5), np.array(0.3))),
        Sample((np.array([[0.5], [2.0], [9.0]]), np.linspace(0.1, 0.9, 6)[::-2])),
        Sample((np.zeros((0, 2)), np.zeros(2))),
    ],
    edges((2.0, 0.0), (0.5, 0.0), (1.0, 0.0), (2.0, 1.0), (2.0, 1.5), (np.nan, 0.5)),
)
_NEARLY_NORMAL: Final = 1e6
"""From here on quantiles are normal quantiles with corrections."""


def is_tiny(x: Value) -> Value:
    """A mask where only the first term of the series, a power, is left of an integral from 0."""
    return (x > 0) & (x < np.finfo(dtype_of(x)).eps ** 1.25)


def _inverse_in_shape(x: Value, a: Value, normal: Value) -> Value:
    """For large a by the Cornish-Fisher expansion, since ``x - a`` would cancel.

    It is ``a + n r + (n**2 - 1) / 3 + (n**3 - 7 n) / (36 r) - (3 n**4 + 7 n**2 - 16) / (810 a)``
    with the normal quantile n and ``r = sqrt(a)`` (Abramowitz and Stegun, 26.2.49). Where x is 0 or
    infinite for every a, the slope is 0. Tiny x are ``(p gamma(a + 1)) ** (1 / a)``, whose slopes
    are finite even if the density is not.
    """
    large, tiny = a > _NEARLY_NORMAL, is_tiny(x)
    b, y = where(large | tiny, 1.0, a), where(large | tiny, 1.0, x)
    usual = -bind2(ratio_or_zero, _in_shape(b, y), _density_of(b, y))
    n = where(large & bind1(isfinite, normal), normal, 0.0)
    root = bind1(sqrt, where(large, a, 1.0))
    u, square = bind2(divide, 1, root), n * n
    terms = n * (7 - square) * (1 / 72) + (3 * square * square + 7 * square - 16) * u * (1 / 810)
    far = where(bind1(isfinite, normal), 1 + u * (0.5 * n + u * u * terms), 0.0)
    c, z = where(tiny, a, 1.0), where(tiny, x, 1.0)
    near = z * bind2(divide, bind1(psi, c + 1) - bind1(log, z), c)
    return where(tiny, near, where(large, far, usual))


def _inverse_in_level(x: Value, a: Value, p: Value, normal: Value) -> Value:
    """The slope with respect to the probability p below x; by the normal quantile for large a.

    If the density is unbounded at tiny x, its slope soon overflows.
    """
    large, tiny = a > _NEARLY_NORMAL, is_tiny(x) & (a < 1)
    usual = bind2(divide, 1, _density_of(where(large | tiny, 1.0, a), where(large | tiny, 1.0, x)))
    n = where(large, normal, 0.0)
    root = bind1(sqrt, where(large, a, 1.0))
    u, square = bind2(divide, 1, root), n * n
    terms = (3 * square - 7) * (1 / 36) - (12 * square + 14) * n * u * (1 / 810)
    rise = root + n * (2 / 3) + u * terms
    far = bind2(divide, rise * math.sqrt(2 * math.pi), bind1(exp, -0.5 * n * n))
    near = bind2(divide, where(tiny, x, 1.0), where(tiny, a * p, 1.0))
    return where(tiny, near, where(large, far, usual))


gammaincinv: Primitive = evaluated_by_scipy(
    "gammaincinv",
    partials=(
        lambda x, a, p: _inverse_in_shape(x, a, bind1(ndtri, p)),
        lambda x, a, p: _inverse_in_level(x, a, p, bind1(ndtri, p)),
    ),
    samples=_LEVELS,
    kinks=Kinks(domain=lambda a, p: (a, p, 1 - p)),
)
gammainccinv: Primitive = evaluated_by_scipy(
    "gammainccinv",
    partials=(
        lambda x, a, q: _inverse_in_shape(x, a, -bind1(ndtri, q)),
        lambda x, a, q: -_inverse_in_level(x, a, 1 - q, -bind1(ndtri, q)),
    ),
    samples=_LEVELS,
    kinks=Kinks(domain=lambda a, p: (a, p, 1 - p)),
)
