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


def _beyond(a: Tensor, least: float) -> tuple[Tensor, Tensor]:
    """Whether a shape is above a bound, and the shape, or a harmless one where it is not."""
    finite = a > least
    return finite, fnp.where(finite, a, least + 1)


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
