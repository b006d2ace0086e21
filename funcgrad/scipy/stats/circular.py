"""Distributions of angles.

>>> vonmises.pdf(0.0, 1.0).round(6), wrapcauchy.cdf(3.141592653589793, 0.5)
(Tensor(0.34171), Tensor(0.5))
"""

from __future__ import annotations

import math

import funcgrad.numpy as fnp
from funcgrad._primitives.special_functions.quadrature import NOTHING_LEFT
from funcgrad.scipy import special
from funcgrad.scipy.stats.conditions import log_probability
from funcgrad.scipy.stats.distributions import ContinuousDistribution
from funcgrad.scipy.stats.tail_integrals import integral, solved, stop_gradient
from funcgrad.tensor.tensor import Tensor


def _log_vonmises(z: Tensor, kappa: Tensor) -> Tensor:
    """By ``cos z - 1``, and the scaled Bessel function: both keep their digits for large kappa."""
    return -2 * kappa * fnp.sin(0.5 * z) ** 2 - math.log(2 * math.pi) - fnp.log(special.i0e(kappa))


def _turns(z: Tensor) -> Tensor:
    return fnp.rint(z / (2 * math.pi))


def _log_left_of_vonmises(w: Tensor, kappa: Tensor) -> Tensor:
    """The logarithm of the integral of the density from -pi to w <= 0.

    ``cos(w - s) - cos(w)`` is written as a product, and the integral ends where kappa times it is
    below ``-NOTHING_LEFT``.
    """
    last = fnp.cos(w) - NOTHING_LEFT / fnp.maximum(kappa, NOTHING_LEFT / 4)
    reach = fnp.arccos(fnp.maximum(stop_gradient(last), -1.0))
    reach = fnp.where(last > -1, reach + stop_gradient(w), math.pi + w)

    def integrand(s: Tensor) -> Tensor:
        return fnp.exp(-2 * kappa * fnp.sin(0.5 * s) * fnp.sin(0.5 * s - w))

    return _log_vonmises(w, kappa) + fnp.log(integral(integrand, reach))


def _vonmises_below(z: Tensor, kappa: Tensor) -> Tensor:
    turns = _turns(z)
    w = z - 2 * math.pi * turns
    tail = fnp.exp(_log_left_of_vonmises(fnp.where(w < 0, w, -w), kappa))
    return turns + fnp.where(w < 0, tail, 1 - tail)


def _log_vonmises_below(z: Tensor, kappa: Tensor) -> Tensor:
    turns = _turns(z)
    w = z - 2 * math.pi * turns
    inner = _log_left_of_vonmises(fnp.where(w < 0, w, -w), kappa)
    inner = fnp.where(w < 0, inner, fnp.log1p(-fnp.exp(fnp.where(w < 0, -1.0, inner))))
    once = turns == 0
    return fnp.where(once, inner, fnp.log(turns + fnp.exp(fnp.where(once, 0.0, inner))))


def _vonmises_quantile(q: Tensor, kappa: Tensor, upper: bool = False) -> Tensor:
    def edge(side: float) -> Tensor:
        return fnp.full((), side, q.dtype)

    return solved(
        q,
        (kappa,),
        _log_vonmises,
        _log_vonmises_below,
        lambda z, kappa: _log_vonmises_below(-z, kappa),
        (lambda *_: edge(-math.pi), lambda *_: edge(math.pi)),
        upper,
    )


def _vonmises_variance(kappa: Tensor) -> Tensor:
    """The variance on (-pi, pi], as SciPy's: the variance of the angle as a number."""
    sharp = stop_gradient(fnp.maximum(kappa, NOTHING_LEFT / 2))
    reach = 2 * fnp.arcsin(fnp.sqrt(fnp.minimum(NOTHING_LEFT / (2 * sharp), 1.0)))
    return 2 * integral(lambda s: s * s * fnp.exp(_log_vonmises(s, kappa)), reach)


vonmises = ContinuousDistribution(
    "vonmises",
    ("kappa",),
    -math.inf,
    math.inf,
    0.0,
    log_density=_log_vonmises,
    density=lambda z, kappa: fnp.exp(_log_vonmises(z, kappa)),
    below=_vonmises_below,
    above=lambda z, kappa: _vonmises_below(-z, kappa),
    log_below=_log_vonmises_below,
    log_above=lambda z, kappa: _log_vonmises_below(-z, kappa),
    quantile=_vonmises_quantile,
    upper_quantile=lambda q, kappa: _vonmises_quantile(q, kappa, True),
    expectation=lambda kappa: 0.0 * kappa,
    variance=_vonmises_variance,
    uncertainty=lambda kappa: (
        math.log(2 * math.pi)
        + fnp.log(special.i0e(kappa))
        + kappa * (1 - special.i1e(kappa) / special.i0e(kappa))
    ),
    allowed=lambda kappa: kappa >= 0,
    harmless=(1.0,),
)


def _log_wrapped(z: Tensor, c: Tensor) -> Tensor:
    return fnp.log((1 - c) * (1 + c)) - math.log(2 * math.pi) - fnp.log(_spread(z, c))


def _spread(z: Tensor, c: Tensor) -> Tensor:
    """``1 + c**2 - 2 c cos z`` as a sum of squares."""
    return (1 - c) ** 2 + 4 * c * fnp.sin(0.5 * z) ** 2


def _sides(z: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Legs of the right triangle whose angle is pi times the distribution function."""
    return (1 + c) * fnp.sin(0.5 * z), (1 - c) * fnp.cos(0.5 * z)


def _wrapped_below(z: Tensor, c: Tensor) -> Tensor:
    up, along = _sides(z, c)
    return fnp.arctan2(up, along) / math.pi


def _wrapped_above(z: Tensor, c: Tensor) -> Tensor:
    up, along = _sides(z, c)
    return fnp.arctan2(up, -along) / math.pi


def _wrapped_quantile(q: Tensor, c: Tensor) -> Tensor:
    half = math.pi * q
    return 2 * fnp.arctan2((1 - c) * fnp.sin(half), (1 + c) * fnp.cos(half))


def _wrapped_upper_quantile(q: Tensor, c: Tensor) -> Tensor:
    quantile = _wrapped_quantile(fnp.where(q < 0.5, q, 1 - q), c)
    return fnp.where(q < 0.5, 2 * math.pi - quantile, quantile)


wrapcauchy = ContinuousDistribution(
    "wrapcauchy",
    ("c",),
    0.0,
    2 * math.pi,
    math.pi,
    log_density=_log_wrapped,
    density=lambda z, c: (1 - c) * (1 + c) / (2 * math.pi * _spread(z, c)),
    below=_wrapped_below,
    above=_wrapped_above,
    log_below=log_probability(_wrapped_below, _wrapped_above),
    log_above=log_probability(_wrapped_above, _wrapped_below),
    quantile=_wrapped_quantile,
    upper_quantile=_wrapped_upper_quantile,
    expectation=lambda c: math.pi + 0.0 * c,
    # The variance is the sum of pi**2 / 3 and 4 c**k / k**2: from the Fourier series of the square
    # of an angle and the coefficients c**k of the density (Mardia and Jupp, Directional Statistics,
    # 2000, 3.5.7); spence(1 - c) is the dilogarithm of c.
    variance=lambda c: math.pi**2 / 3 + 4 * special.spence(1 - c),
    uncertainty=lambda c: fnp.log((1 - c) * (1 + c)) + math.log(2 * math.pi),
    allowed=lambda c: (c > 0) & (c < 1),
    harmless=(0.5,),
)
