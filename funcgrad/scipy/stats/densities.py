"""Distributions that have no shape parameter, and the lognormal one. They need no SciPy.

Two need it for logarithms of probabilities: ``norm`` and ``lognorm``.

>>> cauchy.ppf([0.25, 0.5])
Tensor([-1.,  0.])
"""

from __future__ import annotations

import math

import funcgrad.numpy as fnp
from funcgrad.primitives.special import bell
from funcgrad.primitives.transcendental import sech_squared
from funcgrad.scipy.special import expit, log_expit, log_ndtr, logit, ndtr, ndtri
from funcgrad.scipy.stats.conditions import split
from funcgrad.scipy.stats.distributions import ContinuousDistribution, log_probability
from funcgrad.tensor import Tensor, apply, apply1

__all__ = ["cauchy", "expon", "laplace", "logistic", "lognorm", "norm", "uniform"]

_LOG_ROOT_OF_TURN = 0.5 * math.log(2 * math.pi)


def _bell(z: Tensor) -> Tensor:
    result: Tensor = apply(bell, z, sharpness=0.5) / math.sqrt(2 * math.pi)
    return result


def _minus_half_square(z: Tensor) -> Tensor:
    return -0.5 * z**2


norm = ContinuousDistribution(
    "norm",
    (),
    -math.inf,
    math.inf,
    0.0,
    log_density=_minus_half_square,
    density=_bell,
    below=ndtr,
    above=lambda z: ndtr(-z),
    log_below=log_ndtr,
    log_above=lambda z: log_ndtr(-z),
    quantile=ndtri,
    upper_quantile=lambda q: -ndtri(q),
    expectation=lambda: 0.0,
    variance=lambda: 1.0,
    uncertainty=lambda: _LOG_ROOT_OF_TURN + 0.5,
    log_factor=-_LOG_ROOT_OF_TURN,
    far=_minus_half_square,
)
expon = ContinuousDistribution(
    "expon",
    (),
    0.0,
    math.inf,
    1.0,
    log_density=lambda z: -z,
    density=lambda z: fnp.exp(-z),
    below=lambda z: -fnp.expm1(-z),
    above=lambda z: fnp.exp(-z),
    log_below=log_probability(lambda z: -fnp.expm1(-z), lambda z: fnp.exp(-z)),
    log_above=lambda z: -z,
    quantile=lambda q: -fnp.log1p(-q),
    upper_quantile=lambda q: -fnp.log(q),
    expectation=lambda: 1.0,
    variance=lambda: 1.0,
    uncertainty=lambda: 1.0,
    far=lambda z: -z,
)


def _half(z: Tensor) -> Tensor:
    """Half an exponential of minus the magnitude; the derivative at the peak is 0."""
    result: Tensor = fnp.exp(-fnp.abs(z)) / 2
    return result


def _laplace_below(z: Tensor) -> Tensor:
    """Each side by itself, so that derivatives at 0 are those of the smooth function that it is."""
    return split(
        lambda z: z <= 0, z, lambda z: fnp.exp(z) / 2, lambda z: 1 - fnp.exp(-z) / 2, (0.0, 0.0)
    )


def _log_laplace_below(z: Tensor) -> Tensor:
    def right(z: Tensor) -> Tensor:
        return fnp.log1p(-fnp.exp(-z) / 2)

    return split(lambda z: z <= 0, z, lambda z: z - math.log(2), right, (0.0, 1.0))


def _laplace_quantile(q: Tensor) -> Tensor:
    def upper(q: Tensor) -> Tensor:
        return -fnp.log(2 * (1 - q))

    return split(lambda q: q <= 0.5, q, lambda q: fnp.log(2 * q), upper, (0.5, 0.5))


laplace = ContinuousDistribution(
    "laplace",
    (),
    -math.inf,
    math.inf,
    0.0,
    log_density=lambda z: -fnp.abs(z),
    density=_half,
    below=_laplace_below,
    above=lambda z: _laplace_below(-z),
    log_below=_log_laplace_below,
    log_above=lambda z: _log_laplace_below(-z),
    quantile=_laplace_quantile,
    upper_quantile=lambda q: -_laplace_quantile(q),
    expectation=lambda: 0.0,
    variance=lambda: 2.0,
    uncertainty=lambda: 1 + math.log(2),
    log_factor=-math.log(2),
    far=lambda z: -fnp.abs(z),
)


def _log_logistic(z: Tensor) -> Tensor:
    """Near 0 by the hyperbolic cosine, whose slope has all digits where it is small."""

    def middle(z: Tensor) -> Tensor:
        return -2 * fnp.log(fnp.cosh(z / 2)) - math.log(4)

    return split(lambda z: abs(z) < 1, z, middle, _outer_log_logistic, (0.0, 1.0))


def _outer_log_logistic(z: Tensor) -> Tensor:
    size = fnp.abs(z)
    return -size - 2 * fnp.log1p(fnp.exp(-size))


logistic = ContinuousDistribution(
    "logistic",
    (),
    -math.inf,
    math.inf,
    0.0,
    log_density=_log_logistic,
    density=lambda z: apply1(sech_squared, z / 2) / 4,
    below=expit,
    above=lambda z: expit(-z),
    log_below=log_expit,
    log_above=lambda z: log_expit(-z),
    quantile=logit,
    upper_quantile=lambda q: -logit(q),
    expectation=lambda: 0.0,
    variance=lambda: math.pi**2 / 3,
    uncertainty=lambda: 2.0,
    far=lambda z: -fnp.abs(z),
)


def _cauchy_log_density(z: Tensor) -> Tensor:
    """Far out by the reciprocal, whose square does not overflow."""

    def outer(z: Tensor) -> Tensor:
        return -2 * fnp.log(fnp.abs(z)) - fnp.log1p((1 / z) ** 2)

    return split(lambda z: abs(z) < 1e100, z, lambda z: -fnp.log1p(z**2), outer, (0.0, 1e100))


def _cauchy_below(z: Tensor) -> Tensor:
    return fnp.arctan2(1.0, -z) / math.pi


def _cauchy_above(z: Tensor) -> Tensor:
    return fnp.arctan2(1.0, z) / math.pi


def _log_cauchy_below(z: Tensor) -> Tensor:
    """Far out ``-1 / (pi z)`` has all digits, and a slope that is no square."""

    def far(z: Tensor) -> Tensor:
        return -fnp.log(-math.pi * z)

    return split(
        lambda z: z < -1e9, z, far, log_probability(_cauchy_below, _cauchy_above), (-1e9, 0.0)
    )


def _cauchy_quantile(q: Tensor) -> Tensor:
    """Minus the cotangent, of the nearer end: the tangent would lose the digits of both."""

    def inner(q: Tensor) -> Tensor:
        return fnp.tan(math.pi * (q - 0.5))

    return split(lambda q: abs(q - 0.5) < 0.25, q, inner, _far_cauchy_quantile, (0.5, 0.25))


def _far_cauchy_quantile(q: Tensor) -> Tensor:
    def lower(q: Tensor) -> Tensor:
        return -1 / fnp.tan(math.pi * q)

    return split(
        lambda q: q < 0.5, q, lower, lambda q: 1 / fnp.tan(math.pi * (1 - q)), (0.25, 0.75)
    )


cauchy = ContinuousDistribution(
    "cauchy",
    (),
    -math.inf,
    math.inf,
    0.0,
    log_density=_cauchy_log_density,
    density=lambda z: 1 / (math.pi * (1 + z * z)),
    below=_cauchy_below,
    above=_cauchy_above,
    log_below=_log_cauchy_below,
    log_above=lambda z: _log_cauchy_below(-z),
    quantile=_cauchy_quantile,
    upper_quantile=lambda q: -_cauchy_quantile(q),
    expectation=lambda: math.nan,
    variance=lambda: math.nan,
    uncertainty=lambda: math.log(4 * math.pi),
    log_factor=-math.log(math.pi),
)
uniform = ContinuousDistribution(
    "uniform",
    (),
    0.0,
    1.0,
    0.5,
    log_density=lambda z: 0.0 * z,
    density=lambda z: 0.0 * z + 1.0,
    below=lambda z: z,
    above=lambda z: 1 - z,
    log_below=fnp.log,
    log_above=lambda z: fnp.log1p(-z),
    quantile=lambda q: q,
    upper_quantile=lambda q: 1 - q,
    expectation=lambda: 0.5,
    variance=lambda: 1 / 12,
    uncertainty=lambda: 0.0,
)
lognorm = ContinuousDistribution(
    "lognorm",
    ("s",),
    0.0,
    math.inf,
    1.0,
    log_density=lambda z, s: -0.5 * (fnp.log(z) / s) ** 2 - fnp.log(s * z),
    density=lambda z, s: _bell(fnp.log(z) / s) / (s * z),
    below=lambda z, s: ndtr(fnp.log(z) / s),
    above=lambda z, s: ndtr(-fnp.log(z) / s),
    log_below=lambda z, s: log_ndtr(fnp.log(z) / s),
    log_above=lambda z, s: log_ndtr(-fnp.log(z) / s),
    quantile=lambda q, s: fnp.exp(s * ndtri(q)),
    upper_quantile=lambda q, s: fnp.exp(-s * ndtri(q)),
    expectation=lambda s: fnp.exp(s * s / 2),
    variance=lambda s: fnp.expm1(s * s) * fnp.exp(s * s),
    uncertainty=lambda s: _LOG_ROOT_OF_TURN + 0.5 + fnp.log(s),
    open=True,
    log_factor=-_LOG_ROOT_OF_TURN,
)
