"""Distributions of extremes and of waiting times.

>>> pareto.sf(2.0, 1.0), weibull_min.mean(1.0)
(Tensor(0.5), Tensor(1.))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._primitives.special_functions.entropies import log_ratio
from funcgrad.scipy import special
from funcgrad.scipy.stats.conditions import chosen, holding, log_probability, split, times_log_ratio
from funcgrad.scipy.stats.distributions import ContinuousDistribution
from funcgrad.tensor.tensor import Tensor, apply2

_TERMS: Final = 14
"""Terms of the exponential series up to 0.1; second derivatives have two fewer."""

_PEAK: Final = math.sqrt(2 / math.pi)
_ZETAS: Final = (
    1.6449340668482264,
    1.2020569031595942,
    1.0823232337111381,
    1.03692775514337,
    1.0173430619844492,
    1.008349277381923,
    1.0040773561979444,
    1.0020083928260821,
    1.000994575127818,
    1.0004941886041194,
    1.000246086553308,
    1.0001227133475785,
    1.0000612481350588,
    1.000030588236307,
)
"""The values of Riemann's function at 2 and so on (DLMF 25.6)."""

# ------------------------------------------------------------------------------------ extremes


def _log_gumbel(z: Tensor) -> Tensor:
    """Near 0, where the slope is small, a power series is used."""

    def near(z: Tensor) -> Tensor:
        total = fnp.zeros_like(z)
        for k in range(_TERMS, 1, -1):
            total = 1 / math.factorial(k) - z * total
        return -1 - z * z * total

    return split(lambda z: abs(z) < 0.1, z, near, lambda z: -z - fnp.exp(-z), (0.0, 1.0))


def _with_values(z: Tensor, formula: Callable[[Tensor], Tensor], below: float) -> Tensor:
    """Evaluate a formula, or a constant where its inner exponential is above 1e17."""
    return split(lambda z: z < -40, z, lambda z: fnp.full_like(z, below), formula, (0.0, 0.0))


def _far_gumbel(z: Tensor) -> Tensor:
    """The greater of two terms; the other one is negligible."""
    return split(lambda z: z > 0, z, lambda z: -z, lambda z: -fnp.exp(-z), (1.0, 0.0))


def _density_of_gumbel(z: Tensor) -> Tensor:
    return _with_values(z, lambda z: fnp.exp(_log_gumbel(z)), 0.0)


def _below_gumbel(z: Tensor) -> Tensor:
    return _with_values(z, lambda z: fnp.exp(-fnp.exp(-z)), 0.0)


def _above_gumbel(z: Tensor) -> Tensor:
    return _with_values(z, lambda z: -fnp.expm1(-fnp.exp(-z)), 1.0)


def _log_above_gumbel(z: Tensor) -> Tensor:
    """Large values use the ratio of a small probability to its leading term."""

    def tail(z: Tensor) -> Tensor:
        return -z + fnp.log(special.exprel(-fnp.exp(-z)))

    return split(lambda z: z > 1, z, tail, lambda z: fnp.log1p(-_below_gumbel(z)), (2.0, 1.0))


gumbel_r = ContinuousDistribution(
    "gumbel_r",
    (),
    -math.inf,
    math.inf,
    0.0,
    log_density=_log_gumbel,
    density=_density_of_gumbel,
    below=_below_gumbel,
    above=_above_gumbel,
    log_below=lambda z: -fnp.exp(-z),
    log_above=_log_above_gumbel,
    quantile=lambda q: -fnp.log(-fnp.log(q)),
    upper_quantile=lambda q: -fnp.log(-fnp.log1p(-q)),
    expectation=lambda: np.euler_gamma,
    variance=lambda: math.pi**2 / 6,
    uncertainty=lambda: np.euler_gamma + 1,
    far=_far_gumbel,
)
gumbel_l = ContinuousDistribution(
    "gumbel_l",
    (),
    -math.inf,
    math.inf,
    0.0,
    log_density=lambda z: _log_gumbel(-z),
    density=lambda z: _density_of_gumbel(-z),
    below=lambda z: _above_gumbel(-z),
    above=lambda z: _below_gumbel(-z),
    log_below=lambda z: _log_above_gumbel(-z),
    log_above=lambda z: -fnp.exp(z),
    quantile=lambda q: fnp.log(-fnp.log1p(-q)),
    upper_quantile=lambda q: fnp.log(-fnp.log(q)),
    expectation=lambda: -np.euler_gamma,
    variance=lambda: math.pi**2 / 6,
    uncertainty=lambda: np.euler_gamma + 1,
    far=lambda z: _far_gumbel(-z),
)


def _beyond(a: Tensor, least: float) -> tuple[Tensor, Tensor]:
    """Whether a shape is above a bound, and the shape, or a harmless one where it is not."""
    finite = a > least
    return finite, fnp.where(finite, a, least + 1)


def _reduced(z: Tensor, c: Tensor) -> Tensor:
    """``-log1p(-c z) / c``, the value of the Gumbel distribution; by a series near 0."""
    u = c * z
    near = holding(lambda u: abs(u) < 0.01, u)
    small, total = chosen(near, u, 0.0), fnp.zeros_like(u)
    for k in range(9, 0, -1):
        total = 1 / k + small * total
    if near is True:
        return z * total
    outer = -fnp.log1p(-fnp.where(near, 0.5, u)) / fnp.where(near, 1.0, c)
    return fnp.where(near, z * total, outer)


def _log_genextreme(z: Tensor, c: Tensor) -> Tensor:
    value = _reduced(z, c)
    return _log_gumbel(value) + c * value


def _density_of_genextreme(z: Tensor, c: Tensor) -> Tensor:
    value = _reduced(z, c)
    seen = holding(lambda x: x > -40, value)
    inner = chosen(seen, value, 0.0)
    return chosen(seen, fnp.exp(_log_gumbel(inner) + c * inner), 0.0)


def _genextreme_of(value: Tensor, c: Tensor) -> Tensor:
    """The value whose ``_reduced`` one is known: ``-expm1(-c value) / c``."""
    curved = holding(lambda c, x: (c != 0) | np.isfinite(x), c, value)
    u = chosen(curved, -c * value, 0.0)
    near = holding(lambda u: abs(u) < 1, u)
    small = chosen(near, value, 0.0) * special.exprel(chosen(near, u, 0.0))
    if near is True:
        return small
    return fnp.where(near, small, -fnp.expm1(fnp.where(near, 0.0, u)) / fnp.where(near, 1.0, c))


def _genextreme_mean(c: Tensor) -> Tensor:
    finite, safe = _beyond(c, -1.0)
    near = abs(safe) < 1e-9
    inner = fnp.where(near, 1.0, safe)
    mean = -fnp.expm1(special.gammaln(1 + inner)) / inner
    slope = 0.5 * (np.euler_gamma**2 + math.pi**2 / 6)
    return fnp.where(finite, fnp.where(near, np.euler_gamma - slope * safe, mean), math.nan)


def _genextreme_variance(c: Tensor) -> Tensor:
    """By the series of the logarithm of the gamma function about 1 (DLMF 5.7.3) for a small c."""
    finite, safe = _beyond(c, -0.5)
    near = abs(safe) < 0.05
    small, series = fnp.where(near, safe, 0.0), fnp.zeros_like(c)
    for k in range(_TERMS, 1, -1):
        zeta = _ZETAS[k - 2]
        series = zeta * (-1) ** k * (2**k - 2) / k + small * series
    inner = fnp.where(near, 1.0, safe)
    rise = special.gammaln(1 + 2 * inner) - 2 * special.gammaln(1 + inner)
    share = fnp.where(near, series * special.exprel(small**2 * series), fnp.expm1(rise) / inner**2)
    return fnp.where(finite, fnp.exp(2 * special.gammaln(1 + safe)) * share, math.nan)


genextreme = ContinuousDistribution(
    "genextreme",
    ("c",),
    -math.inf,
    math.inf,
    lambda c: 0.0 * c,
    log_density=_log_genextreme,
    density=_density_of_genextreme,
    below=lambda z, c: _below_gumbel(_reduced(z, c)),
    above=lambda z, c: _above_gumbel(_reduced(z, c)),
    log_below=lambda z, c: -fnp.exp(-_reduced(z, c)),
    log_above=lambda z, c: _log_above_gumbel(_reduced(z, c)),
    quantile=lambda q, c: _genextreme_of(-fnp.log(-fnp.log(q)), c),
    upper_quantile=lambda q, c: _genextreme_of(-fnp.log(-fnp.log1p(-q)), c),
    expectation=_genextreme_mean,
    variance=_genextreme_variance,
    uncertainty=lambda c: np.euler_gamma * (1 - c) + 1,
    allowed=np.isfinite,
    harmless=(0.0,),
    contains=lambda z, c: (c * z < 1) & np.isfinite(z),
)

# ------------------------------------------------------------------------------- waiting times


def _power(x: Tensor, scale: Tensor, c: Tensor) -> Tensor:
    """``(x / scale)**c``."""
    return (x / scale) ** c


def _log_weibull(x: Tensor, scale: Tensor, c: Tensor) -> Tensor:
    powers = times_log_ratio(c - 1, x, scale) - _power(x, scale, c)
    return powers + fnp.log(c) - fnp.log(scale)


def _density_of_weibull(x: Tensor, scale: Tensor, c: Tensor) -> Tensor:
    """The density is exactly 0 where the exponent is below -800."""
    z = x / scale
    gone = z > 800.0 ** (1 / c)
    inner = fnp.where(gone, 1.0, z)
    density = c * inner ** (c - 1) * fnp.exp(-(inner**c)) / scale
    return fnp.where(gone, 0.0, density)


def _bounded_power(x: Tensor, scale: Tensor, c: Tensor) -> Tensor:
    """The power, at most 800: there ``exp(-power)`` is 0. Beyond it the slope is 0."""
    z = x / scale
    within = holding(lambda z, c: z < 800.0 ** (1 / c), z, c)
    return chosen(within, chosen(within, z, 1.0) ** c, 800.0)


def _weibull_below(x: Tensor, scale: Tensor, c: Tensor) -> Tensor:
    return -fnp.expm1(-_bounded_power(x, scale, c))


def _weibull_above(x: Tensor, scale: Tensor, c: Tensor) -> Tensor:
    return fnp.exp(-_bounded_power(x, scale, c))


def _log_weibull_below(x: Tensor, scale: Tensor, c: Tensor) -> Tensor:
    """Near 0 it is the logarithm of the power, plus the logarithm of probability / power."""
    near = holding(lambda x, scale: (x > 0) & (x < scale), x, scale)

    def small(x: Tensor) -> Tensor:
        ratio = special.exprel(-_power(x, scale, c))
        return c * apply2(log_ratio, x, scale) + fnp.log(ratio)

    if near is True:
        return small(x)
    outer = log_probability(_weibull_below, _weibull_above)(fnp.where(near, scale, x), scale, c)
    return fnp.where(near, small(fnp.where(near, x, scale)), outer)


def _weibull_variance(c: Tensor) -> Tensor:
    mean: Tensor = special.gamma(1 + 1 / c)
    return special.gamma(1 + 2 / c) - mean * mean


weibull_min = ContinuousDistribution(
    "weibull_min",
    ("c",),
    0.0,
    math.inf,
    1.0,
    log_density=_log_weibull,
    density=_density_of_weibull,
    below=_weibull_below,
    above=_weibull_above,
    log_below=_log_weibull_below,
    log_above=lambda x, scale, c: -_power(x, scale, c),
    quantile=lambda q, c: (-fnp.log1p(-q)) ** (1 / c),
    upper_quantile=lambda q, c: (-fnp.log(q)) ** (1 / c),
    expectation=lambda c: special.gamma(1 + 1 / c),
    variance=_weibull_variance,
    uncertainty=lambda c: np.euler_gamma * (1 - 1 / c) - fnp.log(c) + 1,
    far=lambda x, scale, c: -_power(x, scale, c),
    of_distances=True,
)


def _pareto_mean(b: Tensor) -> Tensor:
    finite, safe = _beyond(b, 1.0)
    return fnp.where(finite, safe / (safe - 1), math.inf)


def _pareto_variance(b: Tensor) -> Tensor:
    finite, safe = _beyond(b, 2.0)
    return fnp.where(finite, safe / ((safe - 1) ** 2 * (safe - 2)), math.inf)


def _log_pareto_above(x: Tensor, scale: Tensor, b: Tensor) -> Tensor:
    return -b * apply2(log_ratio, x, scale)


def _pareto_below(x: Tensor, scale: Tensor, b: Tensor) -> Tensor:
    return -fnp.expm1(_log_pareto_above(x, scale, b))


def _pareto_above(x: Tensor, scale: Tensor, b: Tensor) -> Tensor:
    return fnp.exp(_log_pareto_above(x, scale, b))


def _log_pareto(x: Tensor, scale: Tensor, b: Tensor) -> Tensor:
    """The scale occurs once, so its derivative is not a difference of large terms."""
    return fnp.log(b) - b * apply2(log_ratio, x, scale) - fnp.log(x)


pareto = ContinuousDistribution(
    "pareto",
    ("b",),
    1.0,
    math.inf,
    2.0,
    log_density=_log_pareto,
    density=lambda x, scale, b: b / x * _pareto_above(x, scale, b),
    below=_pareto_below,
    above=_pareto_above,
    log_below=log_probability(_pareto_below, _pareto_above),
    log_above=_log_pareto_above,
    quantile=lambda q, b: fnp.exp(-fnp.log1p(-q) / b),
    upper_quantile=lambda q, b: fnp.exp(-fnp.log(q) / b),
    expectation=_pareto_mean,
    variance=_pareto_variance,
    uncertainty=lambda b: 1 + 1 / b - fnp.log(b),
    of_distances=True,
)


def _halfnorm_below(x: Tensor, scale: Tensor) -> Tensor:
    return special.erf(x / scale * math.sqrt(0.5))


def _halfnorm_above(x: Tensor, scale: Tensor) -> Tensor:
    return special.erfc(x / scale * math.sqrt(0.5))


def _log_halfnorm_below(x: Tensor, scale: Tensor) -> Tensor:
    """Near 0 it is the logarithm of x plus the logarithm of probability / x: DLMF 7.11.4."""
    near = holding(lambda x, scale: (x > 0) & (x < scale), x, scale)

    def small(x: Tensor) -> Tensor:
        square = (x / scale) ** 2
        share = special.hyp1f1(0.5, 1.5, -0.5 * square)
        return apply2(log_ratio, x, scale) + (fnp.log(share) + 0.5 * math.log(2 / math.pi))

    if near is True:
        return small(x)
    outer = log_probability(_halfnorm_below, _halfnorm_above)(fnp.where(near, scale, x), scale)
    return fnp.where(near, small(fnp.where(near, x, scale)), outer)


def _log_halfnorm_above(x: Tensor, scale: Tensor) -> Tensor:
    """Near 0 from the small probability below; elsewhere from the normal distribution."""

    def near(z: Tensor) -> Tensor:
        return fnp.log1p(-special.erf(z * math.sqrt(0.5)))

    return split(
        lambda z: z < 0.5, x / scale, near, lambda z: math.log(2) + special.log_ndtr(-z), (0.0, 1.0)
    )


def _minus_half_square(x: Tensor, scale: Tensor) -> Tensor:
    return -0.5 * (x / scale) ** 2


halfnorm = ContinuousDistribution(
    "halfnorm",
    (),
    0.0,
    math.inf,
    1.0,
    log_density=lambda x, scale: _minus_half_square(x, scale) - fnp.log(scale),
    density=lambda x, scale: fnp.exp(_minus_half_square(x, scale)) * _PEAK / scale,
    below=_halfnorm_below,
    above=_halfnorm_above,
    log_below=_log_halfnorm_below,
    log_above=_log_halfnorm_above,
    quantile=lambda q: math.sqrt(2) * special.erfinv(q),
    upper_quantile=lambda q: -special.ndtri(q / 2),
    expectation=lambda: _PEAK,
    variance=lambda: 1 - 2 / math.pi,
    uncertainty=lambda: 0.5 * math.log(math.pi / 2) + 0.5,
    log_factor=0.5 * math.log(2 / math.pi),
    far=_minus_half_square,
    of_distances=True,
)


def _log_rayleigh_above(x: Tensor, scale: Tensor) -> Tensor:
    return -0.5 * (x / scale) ** 2


def _log_rayleigh_below(x: Tensor, scale: Tensor) -> Tensor:
    """Near 0 it is the logarithm of half a square, plus the logarithm of probability / that."""
    near = holding(lambda x, scale: (x > 0) & (x < scale), x, scale)
    inner = chosen(near, x, scale)
    ratio = special.exprel(_log_rayleigh_above(inner, scale))
    small = 2 * apply2(log_ratio, inner, scale) + (fnp.log(ratio) - math.log(2))
    if near is True:
        return small
    above = fnp.exp(_log_rayleigh_above(fnp.where(near, scale, x), scale))
    return fnp.where(near, small, fnp.log1p(-above))


rayleigh = ContinuousDistribution(
    "rayleigh",
    (),
    0.0,
    math.inf,
    1.0,
    log_density=lambda x, scale: fnp.log(x) - 2 * fnp.log(scale) + _log_rayleigh_above(x, scale),
    density=lambda x, scale: x / scale / scale * fnp.exp(_log_rayleigh_above(x, scale)),
    below=lambda x, scale: -fnp.expm1(_log_rayleigh_above(x, scale)),
    above=lambda x, scale: fnp.exp(_log_rayleigh_above(x, scale)),
    log_below=_log_rayleigh_below,
    log_above=_log_rayleigh_above,
    quantile=lambda q: fnp.sqrt(-2 * fnp.log1p(-q)),
    upper_quantile=lambda q: fnp.sqrt(-2 * fnp.log(q)),
    expectation=lambda: math.sqrt(math.pi / 2),
    variance=lambda: 2 - math.pi / 2,
    uncertainty=lambda: np.euler_gamma / 2 + 1 - 0.5 * math.log(2),
    far=_log_rayleigh_above,
    of_distances=True,
)
