"""Distributions of extremes and of waiting times.

>>> pareto.sf(2.0, 1.0), weibull_min.mean(1.0)
(Tensor(0.5), Tensor(1.))
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import funcgrad.numpy as fnp
from funcgrad.scipy import special
from funcgrad.scipy.stats.conditions import split, times_log
from funcgrad.scipy.stats.distributions import ContinuousDistribution, log_probability
from funcgrad.tensor import Tensor

__all__ = ["gumbel_l", "gumbel_r", "halfnorm", "pareto", "weibull_min"]

# ------------------------------------------------------------------------------------ extremes


def _log_gumbel(z: Tensor) -> Tensor:
    return -z - fnp.exp(-z)


def _with_values(z: Tensor, formula: Callable[[Tensor], Tensor], below: float) -> Tensor:
    """A formula, and what it is to the last digit where its inner exponential is above 1e17."""
    return split(lambda z: z < -40, z, lambda z: fnp.full_like(z, below), formula, (0.0, 0.0))


def _far_gumbel(z: Tensor) -> Tensor:
    """The greater of the two terms, of which the other is nothing."""
    return split(lambda z: z > 0, z, lambda z: -z, lambda z: -fnp.exp(-z), (1.0, 0.0))


def _density_of_gumbel(z: Tensor) -> Tensor:
    return _with_values(z, lambda z: fnp.exp(_log_gumbel(z)), 0.0)


def _below_gumbel(z: Tensor) -> Tensor:
    return _with_values(z, lambda z: fnp.exp(-fnp.exp(-z)), 0.0)


def _above_gumbel(z: Tensor) -> Tensor:
    return _with_values(z, lambda z: -fnp.expm1(-fnp.exp(-z)), 1.0)


def _log_above_gumbel(z: Tensor) -> Tensor:
    """For large values by the ratio of a small probability to its leading term."""

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


def _log_weibull(z: Tensor, c: Tensor) -> Tensor:
    return fnp.log(c) + times_log(c - 1, z) - z**c


def _density_of_weibull(z: Tensor, c: Tensor) -> Tensor:
    """It is 0 to the last digit where the exponent is beyond -800."""
    gone = z > 800.0 ** (1 / c)
    inner = fnp.where(gone, 1.0, z)
    result: Tensor = fnp.where(gone, 0.0, c * inner ** (c - 1) * fnp.exp(-(inner**c)))
    return result


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
    below=lambda z, c: -fnp.expm1(-(z**c)),
    above=lambda z, c: fnp.exp(-(z**c)),
    log_below=log_probability(lambda z, c: -fnp.expm1(-(z**c)), lambda z, c: fnp.exp(-(z**c))),
    log_above=lambda z, c: -(z**c),
    quantile=lambda q, c: (-fnp.log1p(-q)) ** (1 / c),
    upper_quantile=lambda q, c: (-fnp.log(q)) ** (1 / c),
    expectation=lambda c: special.gamma(1 + 1 / c),
    variance=_weibull_variance,
    uncertainty=lambda c: np.euler_gamma * (1 - 1 / c) - fnp.log(c) + 1,
    far=lambda z, c: -(z**c),
)


def _beyond(a: Tensor, least: float) -> tuple[Tensor, Tensor]:
    """Whether a shape is above a bound, and a shape that is."""
    finite = a > least
    return finite, fnp.where(finite, a, least + 1)


def _pareto_mean(b: Tensor) -> Tensor:
    finite, safe = _beyond(b, 1.0)
    result: Tensor = fnp.where(finite, safe / (safe - 1), math.inf)
    return result


def _pareto_variance(b: Tensor) -> Tensor:
    finite, safe = _beyond(b, 2.0)
    result: Tensor = fnp.where(finite, safe / ((safe - 1) ** 2 * (safe - 2)), math.inf)
    return result


def _pareto_below(z: Tensor, b: Tensor) -> Tensor:
    return -fnp.expm1(-b * fnp.log(z))


def _pareto_above(z: Tensor, b: Tensor) -> Tensor:
    return fnp.exp(-b * fnp.log(z))


pareto = ContinuousDistribution(
    "pareto",
    ("b",),
    1.0,
    math.inf,
    2.0,
    log_density=lambda z, b: fnp.log(b) - (b + 1) * fnp.log(z),
    density=lambda z, b: b * fnp.exp(-(b + 1) * fnp.log(z)),
    below=_pareto_below,
    above=_pareto_above,
    log_below=log_probability(_pareto_below, _pareto_above),
    log_above=lambda z, b: -b * fnp.log(z),
    quantile=lambda q, b: fnp.exp(-fnp.log1p(-q) / b),
    upper_quantile=lambda q, b: fnp.exp(-fnp.log(q) / b),
    expectation=_pareto_mean,
    variance=_pareto_variance,
    uncertainty=lambda b: 1 + 1 / b - fnp.log(b),
)


def _halfnorm_below(z: Tensor) -> Tensor:
    return special.erf(z * math.sqrt(0.5))


def _halfnorm_above(z: Tensor) -> Tensor:
    return special.erfc(z * math.sqrt(0.5))


def _log_above_halfnorm(z: Tensor) -> Tensor:
    """Near 0 by the small probability below, further out by the normal distribution's."""

    def near(z: Tensor) -> Tensor:
        return fnp.log1p(-_halfnorm_below(z))

    return split(
        lambda z: z < 0.5, z, near, lambda z: math.log(2) + special.log_ndtr(-z), (0.0, 1.0)
    )


halfnorm = ContinuousDistribution(
    "halfnorm",
    (),
    0.0,
    math.inf,
    1.0,
    log_density=lambda z: -0.5 * z**2,
    density=lambda z: fnp.exp(-z * z / 2) * math.sqrt(2 / math.pi),
    below=_halfnorm_below,
    above=_halfnorm_above,
    log_below=log_probability(_halfnorm_below, _halfnorm_above),
    log_above=_log_above_halfnorm,
    quantile=lambda q: math.sqrt(2) * special.erfinv(q),
    upper_quantile=lambda q: -special.ndtri(q / 2),
    expectation=lambda: math.sqrt(2 / math.pi),
    variance=lambda: 1 - 2 / math.pi,
    uncertainty=lambda: 0.5 * math.log(math.pi / 2) + 0.5,
    log_factor=0.5 * math.log(2 / math.pi),
    far=lambda z: -0.5 * z**2,
)
