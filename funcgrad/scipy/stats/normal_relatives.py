"""Distributions made from the normal one: skewed, truncated, and with another exponent.

>>> truncnorm.sf(9.0, 8.0, 10.0).round(9), gennorm.pdf(0.0, 1.0)
(Tensor(0.000181405), Tensor(0.5))
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.trace import Value
from funcgrad._primitives.special_functions.gamma_tails import log_gammaincc
from funcgrad._primitives.special_functions.quadrature import GRADED
from funcgrad.scipy import special
from funcgrad.scipy.stats.conditions import chosen, holding, log_probability
from funcgrad.scipy.stats.distributions import ContinuousDistribution
from funcgrad.scipy.stats.tail_integrals import integral, normal_reach, solved, stop_gradient
from funcgrad.tensor.tensor import Tensor, apply2

_LOG_ROOT_OF_TURN: Final = 0.5 * math.log(2 * math.pi)
_TERMS: Final = 16
"""Terms of an exponential series up to 0.5."""


def _log_bell(z: Tensor) -> Tensor:
    return -0.5 * z * z - _LOG_ROOT_OF_TURN


# ---------------------------------------------------------------------------------------- skewed


def _log_skewnorm(z: Tensor, a: Tensor) -> Tensor:
    return math.log(2) + _log_bell(z) + special.log_ndtr(a * z)


def _log_left_of_skewnorm(z: Tensor, a: Tensor) -> Tensor:
    """The logarithm of the integral of the density from -inf to z < 0, relative to the density.

    Left of z the density falls at least as fast as a normal density whose width is 1,
    or ``1 / hypot(1, a)`` for positive a, where ``ndtr(a z)`` falls, too.
    """
    narrow = stop_gradient(fnp.where(a > 0, fnp.hypot(fnp.maximum(a, 0.0), 1.0), 1.0))
    reach = normal_reach(-z * narrow) / narrow
    start = special.log_ndtr(a * z)

    def integrand(s: Tensor) -> Tensor:
        return fnp.exp(s * z - 0.5 * s * s + special.log_ndtr(a * (z - s)) - start)

    return _log_skewnorm(z, a) + fnp.log(integral(integrand, reach))


def _central_skewnorm(z: Tensor, a: Tensor) -> Tensor:
    """``ndtr(z) - 2 owens_t(z, a)`` in forms without cancellation (Owen, Tables for computing
    bivariate normal probabilities, Annals of Mathematical Statistics 27, 1956, 2.4)."""
    steep = holding(lambda a: a <= 1, a)
    flat = special.ndtr(z) - 2 * special.owens_t(z, chosen(steep, a, 0.0))
    if steep is True:
        return flat
    slope = fnp.where(steep, 2.0, a)
    right = special.ndtr(slope * z) * special.erf(z * math.sqrt(0.5))
    return fnp.where(steep, flat, right + 2 * special.owens_t(slope * z, 1 / slope))


def _from_left(z: Tensor, a: Tensor) -> Value:
    return (z < 0) & ((a > 0) | (z < -5))


def _skewnorm_below(z: Tensor, a: Tensor) -> Tensor:
    tail = holding(_from_left, z, a)
    if tail is True:
        return fnp.exp(_log_left_of_skewnorm(z, a))
    left = fnp.exp(_log_left_of_skewnorm(fnp.where(tail, z, -1.0), fnp.where(tail, a, 0.0)))
    centre = _central_skewnorm(fnp.where(tail, 1.0, z), fnp.where(tail, 0.0, a))
    return fnp.where(tail, left, centre)


def _log_skewnorm_below(z: Tensor, a: Tensor) -> Tensor:
    tail = holding(_from_left, z, a)
    if tail is True:
        return _log_left_of_skewnorm(z, a)
    left = _log_left_of_skewnorm(fnp.where(tail, z, -1.0), fnp.where(tail, a, 0.0))
    usual = log_probability(_skewnorm_below, _skewnorm_above)
    return fnp.where(tail, left, usual(fnp.where(tail, 1.0, z), fnp.where(tail, 0.0, a)))


def _skewnorm_above(z: Tensor, a: Tensor) -> Tensor:
    return _skewnorm_below(-z, -a)


def _log_skewnorm_above(z: Tensor, a: Tensor) -> Tensor:
    return _log_skewnorm_below(-z, -a)


def _skewnorm_quantile(q: Tensor, a: Tensor, upper: bool = False) -> Tensor:
    """The absolute value is distributed as a normal variable's, which gives the bracket."""
    return solved(
        q,
        (a,),
        _log_skewnorm,
        _log_skewnorm_below,
        _log_skewnorm_above,
        (
            lambda low, high, a: special.ndtri(low / 2) - 0.1,
            lambda low, high, a: 0.1 - special.ndtri(high / 2),
        ),
        upper,
    )


def _skewnorm_mean(a: Tensor) -> Tensor:
    return a / fnp.hypot(1.0, a) * math.sqrt(2 / math.pi)


def _skewnorm_entropy(a: Tensor) -> Tensor:
    """The normal entropy less the mean of ``log(2 ndtr(a z))``, by the half-normal ``abs(z)``."""

    def integrand(s: Tensor) -> Tensor:
        up, down = special.log_ndtr(a * s), special.log_ndtr(-a * s)
        terms = fnp.exp(up) * (up + math.log(2)) + fnp.exp(down) * (down + math.log(2))
        return 2 * fnp.exp(_log_bell(s)) * terms

    return _LOG_ROOT_OF_TURN + 0.5 - integral(integrand, fnp.full_like(a, 10.0), GRADED)


skewnorm = ContinuousDistribution(
    "skewnorm",
    ("a",),
    -math.inf,
    math.inf,
    0.0,
    log_density=_log_skewnorm,
    density=lambda z, a: fnp.exp(_log_skewnorm(z, a)),
    below=_skewnorm_below,
    above=_skewnorm_above,
    log_below=_log_skewnorm_below,
    log_above=_log_skewnorm_above,
    quantile=_skewnorm_quantile,
    upper_quantile=lambda q, a: _skewnorm_quantile(q, a, True),
    expectation=_skewnorm_mean,
    variance=lambda a: 1 - _skewnorm_mean(a) ** 2,
    uncertainty=_skewnorm_entropy,
    far=lambda z, a: -0.5 * z * z * (1 + fnp.where(a * z < 0, a * a, 0.0)),
    allowed=np.isfinite,
    harmless=(0.0,),
)

# ------------------------------------------------------------------------------------- truncated


def _log_mass(a: Tensor, b: Tensor) -> Tensor:
    """The logarithm of the normal probability of ``[a, b]``, with all digits anywhere.

    From the end that is nearer to 0 it is the density there times an integral, unless the interval
    is wide and has 0 inside: then it is nearly 1.
    """
    mirrored = abs(a) > abs(b)
    near, far = fnp.where(mirrored, -b, a), fnp.where(mirrored, -a, b)
    wide = holding(lambda a, b: (a < 0) & (b - a > 2), near, far)
    left, right = special.ndtr(chosen(wide, near, -1.0)), special.ndtr(-chosen(wide, far, 2.0))
    outer = fnp.log1p(-(left + right))
    if wide is True:
        return outer
    start, end = fnp.where(wide, 0.0, near), fnp.where(wide, 1.0, far)
    reach = fnp.minimum(end - start, 2 + normal_reach(fnp.maximum(start, 0.0)))
    inner = integral(lambda s: fnp.exp(-start * s - 0.5 * s * s), reach)
    return fnp.where(wide, outer, _log_bell(start) + fnp.log(inner))


def _log_truncated_below(z: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return _log_share(_log_mass_from(a, z, z == a), _log_mass_from(z, b, z == b), a, b)


def _log_truncated_above(z: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return _log_share(_log_mass_from(z, b, z == b), _log_mass_from(a, z, z == a), a, b)


def _log_mass_from(low: Tensor, high: Tensor, gone: Tensor) -> Tensor:
    """The logarithm of the probability of an interval, -inf of an empty one."""
    inner = _log_mass(fnp.where(gone, -1.0, low), fnp.where(gone, 1.0, high))
    return fnp.where(gone, -fnp.inf, inner)


def _log_share(mass: Tensor, other: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The logarithm of a mass among two, by the other one if that is smaller."""
    whole = _log_mass(a, b)
    small = mass <= other
    nearly_whole = fnp.log1p(-fnp.exp(fnp.where(small, -1.0, other - whole)))
    return fnp.where(small, fnp.where(small, mass, 0.0) - whole, nearly_whole)


def _truncated_quantile(q: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """The level is added to the probability beyond the end on the quantile's side of 0."""
    inner = holding(lambda q: (q > 0) & (q < 1), q)
    inside, mass = chosen(inner, q, 0.5), _log_mass(a, b)
    negative = special.ndtr(a) + inside * fnp.exp(mass) < 0.5
    left = fnp.where((a < 0) & (b > 0), negative, abs(a) > abs(b))
    start = special.log_ndtr(fnp.where(left, a, -b))
    level = fnp.log(fnp.where(left, inside, 1 - inside)) + mass
    z = special.ndtri_exp(fnp.logaddexp(start, level))
    z = fnp.where(left, z, -z)
    z = fnp.minimum(fnp.maximum(z, a), b)
    if inner is True:
        return z
    first, last = _ends(a, b)
    end, density = fnp.where(q == 0, a, b), fnp.where(q == 0, first, last)
    known = density > 0
    # The first terms of the series about an end, where q is 0 or 1, for derivatives.
    step = fnp.where(known, fnp.where(q == 0, q, q - 1), 0.0) / fnp.where(known, density, 1.0)
    return chosen(inner, z, end + step + fnp.where(known, end, 0.0) * step**2 / 2)


def _ends(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The densities at both ends, 0 at infinite ones."""
    mass = _log_mass(a, b)

    def density(x: Tensor) -> Tensor:
        finite = fnp.isfinite(x)
        return fnp.where(finite, fnp.exp(_log_bell(fnp.where(finite, x, 0.0)) - mass), 0.0)

    return density(a), density(b)


def _moment_of_ends(a: Tensor, b: Tensor) -> Tensor:
    first, last = _ends(a, b)
    low, high = (fnp.where(fnp.isfinite(x), x, 0.0) for x in (a, b))
    return low * first - high * last


def _truncated_mean(a: Tensor, b: Tensor) -> Tensor:
    first, last = _ends(a, b)
    return first - last


truncnorm = ContinuousDistribution(
    "truncnorm",
    ("a", "b"),
    -math.inf,
    math.inf,
    lambda a, b: fnp.minimum(fnp.maximum(0.0, a), b),
    log_density=lambda z, a, b: _log_bell(z) - _log_mass(a, b),
    density=lambda z, a, b: fnp.exp(_log_bell(z) - _log_mass(a, b)),
    below=lambda z, a, b: fnp.exp(_log_truncated_below(z, a, b)),
    above=lambda z, a, b: fnp.exp(_log_truncated_above(z, a, b)),
    log_below=_log_truncated_below,
    log_above=_log_truncated_above,
    quantile=_truncated_quantile,
    upper_quantile=lambda q, a, b: -_truncated_quantile(q, -b, -a),
    expectation=_truncated_mean,
    variance=lambda a, b: 1 + _moment_of_ends(a, b) - _truncated_mean(a, b) ** 2,
    uncertainty=lambda a, b: (
        _LOG_ROOT_OF_TURN + 0.5 + _log_mass(a, b) + 0.5 * _moment_of_ends(a, b)
    ),
    allowed=lambda a, b: a < b,
    harmless=(-1.0, 1.0),
    contains=lambda z, a, b: (z >= a) & (z <= b) & np.isfinite(z),
)

# ------------------------------------------------------------------------- with another exponent


def _absolute_power(z: Tensor, beta: Tensor) -> Tensor:
    """``abs(z)**beta``, with the slope 0 at 0."""
    somewhere = holding(lambda z: z != 0, z)
    return chosen(somewhere, fnp.abs(chosen(somewhere, z, 1.0)) ** beta, 0.0)


def _log_gennorm(z: Tensor, beta: Tensor) -> Tensor:
    return fnp.log(0.5 * beta) - special.gammaln(1 / beta) - _absolute_power(z, beta)


def _gennorm_below(z: Tensor, beta: Tensor) -> Tensor:
    """Near 0 by a series (DLMF 8.7.1), elsewhere by the incomplete gamma function of a tail."""
    power = _absolute_power(z, beta)
    near = holding(lambda y: y < 0.5, power)
    centre = _gennorm_centre(chosen(near, z, 0.0), chosen(near, power, 0.0), beta)
    if near is True:
        return centre
    tail = 0.5 * special.gammaincc(1 / beta, fnp.where(near, 1.0, power))
    return fnp.where(near, centre, fnp.where(z < 0, tail, 1 - tail))


def _gennorm_centre(z: Tensor, power: Tensor, beta: Tensor) -> Tensor:
    total = fnp.zeros_like(power)
    for k in reversed(range(_TERMS)):
        total = (-1) ** k / math.factorial(k) / (k * beta + 1) + power * total
    return 0.5 + 0.5 * z * total * special.rgamma(1 + 1 / beta)


def _log_gennorm_below(z: Tensor, beta: Tensor) -> Tensor:
    power = _absolute_power(z, beta)
    out = holding(lambda z, y: (z < 0) & (y >= 0.5), z, power)
    left = apply2(log_gammaincc, 1 / beta, chosen(out, power, 1.0)) - math.log(2)
    if out is True:
        return left
    above = _gennorm_below(fnp.where(out, 0.0, -z), beta)
    return fnp.where(out, left, fnp.log1p(-above))


def _gennorm_quantile(q: Tensor, beta: Tensor) -> Tensor:
    """From the nearer end; the median is 0."""
    side = fnp.where(q < 0.5, -1.0, 1.0).astype(q.dtype)
    beyond = 2 * fnp.where(q < 0.5, q, 1 - q)
    off = holding(lambda q: q != 0.5, q)
    power = special.gammainccinv(1 / beta, chosen(off, beyond, 0.5))
    middle = (2 * q - 1) * special.gamma(1 + 1 / beta)
    return chosen(off, side * power ** (1 / beta), middle)


gennorm = ContinuousDistribution(
    "gennorm",
    ("beta",),
    -math.inf,
    math.inf,
    0.0,
    log_density=_log_gennorm,
    density=lambda z, beta: fnp.exp(_log_gennorm(z, beta)),
    below=_gennorm_below,
    above=lambda z, beta: _gennorm_below(-z, beta),
    log_below=_log_gennorm_below,
    log_above=lambda z, beta: _log_gennorm_below(-z, beta),
    quantile=_gennorm_quantile,
    upper_quantile=lambda q, beta: -_gennorm_quantile(q, beta),
    expectation=lambda beta: 0.0 * beta,
    variance=lambda beta: fnp.exp(special.gammaln(3 / beta) - special.gammaln(1 / beta)),
    uncertainty=lambda beta: 1 / beta - fnp.log(0.5 * beta) + special.gammaln(1 / beta),
    far=lambda z, beta: -(fnp.abs(z) ** beta),
)
