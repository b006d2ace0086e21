"""Distributions without a shape parameter, and the lognormal distribution.

Only the logarithms of probabilities of ``norm`` and ``lognorm`` need SciPy.

>>> cauchy.ppf([0.25, 0.5])
Tensor([-1.,  0.])
"""

from __future__ import annotations

import math

import funcgrad.numpy as fnp
from funcgrad._primitives.special import bell
from funcgrad._primitives.special_functions.entropies import log_ratio
from funcgrad._primitives.special_functions.logistic import log_expit_slope
from funcgrad._primitives.transcendental import ratio_to_square_of_hypot, sech_squared
from funcgrad.scipy.special import expit, exprel, log_expit, log_ndtr, logit, ndtr, ndtri
from funcgrad.scipy.stats.conditions import holding, log_probability, split
from funcgrad.scipy.stats.distributions import ContinuousDistribution
from funcgrad.tensor.tensor import Tensor, apply, apply1, apply2

_SERIES = 8
"""Terms of a power series up to 0.01."""

_LOG_ROOT_OF_TURN = 0.5 * math.log(2 * math.pi)


def _bell(z: Tensor) -> Tensor:
    return apply(bell, z, sharpness=0.5) / math.sqrt(2 * math.pi)


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


def _log_expon_below(x: Tensor, scale: Tensor) -> Tensor:
    """Near 0 it is the logarithm of x plus the logarithm of probability / x."""
    near = holding(lambda x, scale: x < scale, x, scale)
    if near is True:
        return apply2(log_ratio, x, scale) + fnp.log(exprel(-x / scale))
    inner = fnp.where(near, x, scale)
    small = apply2(log_ratio, inner, scale) + fnp.log(exprel(-inner / scale))
    outer = fnp.log1p(-fnp.exp(-fnp.where(near, scale, x) / scale))
    return fnp.where(near, small, outer)


expon = ContinuousDistribution(
    "expon",
    (),
    0.0,
    math.inf,
    1.0,
    log_density=lambda x, scale: -x / scale - fnp.log(scale),
    density=lambda x, scale: fnp.exp(-x / scale) / scale,
    below=lambda x, scale: -fnp.expm1(-x / scale),
    above=lambda x, scale: fnp.exp(-x / scale),
    log_below=_log_expon_below,
    log_above=lambda x, scale: -x / scale,
    quantile=lambda q: -fnp.log1p(-q),
    upper_quantile=lambda q: -fnp.log(q),
    expectation=lambda: 1.0,
    variance=lambda: 1.0,
    uncertainty=lambda: 1.0,
    far=lambda x, scale: -x / scale,
    of_distances=True,
)


def _half(z: Tensor) -> Tensor:
    """``exp(-abs(z)) / 2``; the derivative at the peak is 0."""
    return fnp.exp(-fnp.abs(z)) / 2


def _laplace_below(z: Tensor) -> Tensor:
    """Each side has its own formula, so that derivatives at 0 are its limits."""
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


logistic = ContinuousDistribution(
    "logistic",
    (),
    -math.inf,
    math.inf,
    0.0,
    log_density=lambda z: apply1(log_expit_slope, z),
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


def _cauchy_below(x: Tensor, scale: Tensor) -> Tensor:
    return fnp.arctan2(scale, -x) / math.pi


def _cauchy_above(x: Tensor, scale: Tensor) -> Tensor:
    return fnp.arctan2(scale, x) / math.pi


def _log_cauchy_below(x: Tensor, scale: Tensor) -> Tensor:
    """In the far lower tail it is the logarithm of ``scale / -x``, corrected by a series."""
    far = holding(lambda x, scale: x < -10 * scale, x, scale)
    near = log_probability(_cauchy_below, _cauchy_above)
    if type(far) is Tensor and not fnp.any(far):
        return near(x, scale)
    size = fnp.where(far, -x, 20.0 * scale)
    square, series = (scale / size) ** 2, fnp.zeros_like(size)
    for k in range(_SERIES, 0, -1):
        series = square * ((-1) ** k / (2 * k + 1) + series)
    outer = fnp.log(scale) - fnp.log(size) + (fnp.log1p(series) - math.log(math.pi))
    return fnp.where(far, outer, near(fnp.where(far, 0.0, x), scale))


def _cauchy_quantile(q: Tensor) -> Tensor:
    """Minus the cotangent from the nearer end: the tangent would lose digits at both ends."""

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
    log_density=lambda x, scale: fnp.log(scale) - 2 * fnp.log(fnp.hypot(scale, x)),
    density=lambda x, scale: apply2(ratio_to_square_of_hypot, scale, x) / math.pi,
    below=_cauchy_below,
    above=_cauchy_above,
    log_below=_log_cauchy_below,
    log_above=lambda x, scale: _log_cauchy_below(-x, scale),
    quantile=_cauchy_quantile,
    upper_quantile=lambda q: -_cauchy_quantile(q),
    expectation=lambda: math.nan,
    variance=lambda: math.nan,
    uncertainty=lambda: math.log(4 * math.pi),
    log_factor=-math.log(math.pi),
    of_distances=True,
)
uniform = ContinuousDistribution(
    "uniform",
    (),
    0.0,
    1.0,
    0.5,
    log_density=lambda x, scale: 0.0 * x - fnp.log(scale),
    density=lambda x, scale: (0.0 * x + 1.0) / scale,
    below=lambda x, scale: x / scale,
    above=lambda x, scale: 1 - x / scale,
    log_below=lambda x, scale: apply2(log_ratio, x, scale),
    log_above=lambda x, scale: fnp.log1p(-x / scale),
    quantile=lambda q: q,
    upper_quantile=lambda q: 1 - q,
    expectation=lambda: 0.5,
    variance=lambda: 1 / 12,
    uncertainty=lambda: 0.0,
    of_distances=True,
)


def _normal_of(x: Tensor, scale: Tensor, s: Tensor) -> Tensor:
    """The standard normal value of a lognormal one: ``log(x / scale) / s``."""
    return apply2(log_ratio, x, scale) / s


def _log_lognormal(x: Tensor, scale: Tensor, s: Tensor) -> Tensor:
    """The scale occurs once, so its derivative is not a difference of large numbers."""
    return -0.5 * _normal_of(x, scale, s) ** 2 - fnp.log(s) - fnp.log(x)


lognorm = ContinuousDistribution(
    "lognorm",
    ("s",),
    0.0,
    math.inf,
    1.0,
    log_density=_log_lognormal,
    density=lambda x, scale, s: _bell(_normal_of(x, scale, s)) / s / x,
    below=lambda x, scale, s: ndtr(_normal_of(x, scale, s)),
    above=lambda x, scale, s: ndtr(-_normal_of(x, scale, s)),
    log_below=lambda x, scale, s: log_ndtr(_normal_of(x, scale, s)),
    log_above=lambda x, scale, s: log_ndtr(-_normal_of(x, scale, s)),
    quantile=lambda q, s: fnp.exp(s * ndtri(q)),
    upper_quantile=lambda q, s: fnp.exp(-s * ndtri(q)),
    expectation=lambda s: fnp.exp(s * s / 2),
    variance=lambda s: fnp.expm1(s * s) * fnp.exp(s * s),
    uncertainty=lambda s: _LOG_ROOT_OF_TURN + 0.5 + fnp.log(s),
    open=True,
    log_factor=-_LOG_ROOT_OF_TURN,
    of_distances=True,
)
