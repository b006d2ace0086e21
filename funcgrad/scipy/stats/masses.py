"""Distributions of integers, differentiable with respect to their parameters only.

P(at most k of n) is 1 if n <= k, so the distribution function has a kink at n = k; its slope with
respect to n is 0 there.

>>> poisson.pmf([0, 1, 0.5], 1.0)
Tensor([0.36787944, 0.36787944, 0.        ])
"""

from __future__ import annotations

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.trace import Value
from funcgrad._primitives.special_functions.gamma_tails import log_gammainc, log_gammaincc
from funcgrad._primitives.special_functions.gammas import log_rising
from funcgrad.scipy import special
from funcgrad.scipy.stats.conditions import (
    log_betainc,
    log_betaincc,
    log_probability,
    split,
    times_log,
    times_log1p,
)
from funcgrad.scipy.stats.distributions import DiscreteDistribution
from funcgrad.tensor.tensor import Tensor, apply2


def _is_share(p: Value) -> Value:
    return (p >= 0) & (p <= 1)


def _once(count: Tensor, share: Tensor) -> tuple[Tensor, Tensor]:
    """Split ``share**count`` into a single factor and the power that remains.

    A share to the power 1 stays linear: the exponential of its logarithm would add rounding errors.
    """
    once = count == 1
    return fnp.where(once, share, 1.0), count - once


def _log_ways(least: Tensor, k: Tensor) -> Tensor:
    """The logarithm of ``least (least + 1) ... (least + k - 1) / k!``."""
    return apply2(log_rising, least, k) - special.gammaln(k + 1)


def _log_binomial(k: Tensor, n: Tensor, p: Tensor) -> Tensor:
    return _log_ways(n - k + 1, k) + times_log(k, p) + times_log1p(n - k, -p)


def _binomial(k: Tensor, n: Tensor, p: Tensor) -> Tensor:
    hit, hits = _once(k, p)
    miss, misses = _once(n - k, 1 - p)
    logarithm = _log_ways(n - k + 1, k) + times_log(hits, p) + times_log1p(misses, -p)
    return hit * miss * fnp.exp(logarithm)


def _log_poisson(k: Tensor, mu: Tensor) -> Tensor:
    return times_log(k, mu) - special.gammaln(k + 1) - mu


def _poisson(k: Tensor, mu: Tensor) -> Tensor:
    hit, hits = _once(k, mu)
    return hit * fnp.exp(times_log(hits, mu) - special.gammaln(k + 1) - mu)


def _log_negative_binomial(k: Tensor, n: Tensor, p: Tensor) -> Tensor:
    return _log_ways(n, k) + n * fnp.log(p) + times_log1p(k, -p)


def _negative_binomial(k: Tensor, n: Tensor, p: Tensor) -> Tensor:
    hit, hits = _once(n, p)
    miss, misses = _once(k, 1 - p)
    logarithm = _log_ways(n, k) + hits * fnp.log(p) + times_log1p(misses, -p)
    return hit * miss * fnp.exp(logarithm)


poisson = DiscreteDistribution(
    "poisson",
    ("mu",),
    valid=lambda mu: mu >= 0,
    greatest=None,
    log_mass=_log_poisson,
    mass=_poisson,
    below=lambda k, mu: special.gammaincc(k + 1, mu),
    above=lambda k, mu: special.gammainc(k + 1, mu),
    log_below=lambda k, mu: apply2(log_gammaincc, k + 1, mu),
    log_above=lambda k, mu: apply2(log_gammainc, k + 1, mu),
    harmless=(1.0,),
    expectation=lambda mu: mu,
    variance=lambda mu: mu,
)
binom = DiscreteDistribution(
    "binom",
    ("n", "p"),
    valid=lambda n, p: (n >= 0) & (n == np.floor(n)) & _is_share(p),
    greatest=lambda n, p: n,
    log_mass=_log_binomial,
    mass=_binomial,
    below=lambda k, n, p: special.betaincc(k + 1, n - k, p),
    above=lambda k, n, p: special.betainc(k + 1, n - k, p),
    log_below=lambda k, n, p: log_betaincc(k + 1, n - k, p, times_log1p(n - k, -p)),
    log_above=lambda k, n, p: log_betainc(k + 1, n - k, p, times_log(k + 1, p)),
    harmless=(1.0, 0.5),
    expectation=lambda n, p: n * p,
    variance=lambda n, p: n * p * (1 - p),
)
nbinom = DiscreteDistribution(
    "nbinom",
    ("n", "p"),
    valid=lambda n, p: (n > 0) & (p > 0) & (p <= 1),
    greatest=None,
    log_mass=_log_negative_binomial,
    mass=_negative_binomial,
    below=lambda k, n, p: special.betainc(n, k + 1, p),
    above=lambda k, n, p: special.betaincc(n, k + 1, p),
    log_below=lambda k, n, p: log_betainc(n, k + 1, p, n * fnp.log(p)),
    log_above=lambda k, n, p: log_betaincc(n, k + 1, p, times_log1p(k + 1, -p)),
    harmless=(1.0, 0.5),
    expectation=lambda n, p: n * (1 - p) / p,
    variance=lambda n, p: n * (1 - p) / (p * p),
)
bernoulli = DiscreteDistribution(
    "bernoulli",
    ("p",),
    valid=_is_share,
    greatest=lambda p: 1.0,
    log_mass=lambda k, p: times_log(k, p) + times_log1p(1 - k, -p),
    mass=lambda k, p: fnp.where(k == 1, p, 1 - p),
    below=lambda k, p: 1 - p + 0 * k,
    above=lambda k, p: p + 0 * k,
    log_below=lambda k, p: fnp.log1p(-p) + 0 * k,
    log_above=lambda k, p: fnp.log(p) + 0 * k,
    harmless=(0.5,),
    expectation=lambda p: p,
    variance=lambda p: p * (1 - p),
)


def _hit(k: Tensor, p: Tensor) -> Tensor:
    """The probability of a hit in k trials, by the logarithm of a miss where a hit is rare."""

    def rare(p: Tensor) -> Tensor:
        return -fnp.expm1(k * fnp.log1p(-p))

    return split(lambda p: p < 0.5, p, rare, lambda p: 1 - (1 - p) ** k, (0.25, 0.5))


def _missed(k: Tensor, p: Tensor) -> Tensor:
    def rare(p: Tensor) -> Tensor:
        return fnp.exp(k * fnp.log1p(-p))

    return split(lambda p: p < 0.5, p, rare, lambda p: (1 - p) ** k, (0.25, 0.5))


def _first_hit(k: Tensor, p: Tensor) -> Tensor:
    miss, misses = _once(k - 1, 1 - p)
    return p * miss * fnp.exp(times_log1p(misses, -p))


geom = DiscreteDistribution(
    "geom",
    ("p",),
    valid=lambda p: (p > 0) & (p <= 1),
    greatest=None,
    log_mass=lambda k, p: times_log1p(k - 1, -p) + fnp.log(p),
    mass=_first_hit,
    below=_hit,
    above=_missed,
    log_below=log_probability(_hit, _missed),
    log_above=lambda k, p: times_log1p(k, -p),
    harmless=(0.5,),
    expectation=lambda p: 1 / p,
    variance=lambda p: (1 - p) / (p * p),
    least=1.0,
)


def _log_beta_binomial(k: Tensor, n: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """By rising factorials: beta functions of large arguments would cancel."""
    hits = apply2(log_rising, a, k) + apply2(log_rising, b, n - k)
    return _log_ways(n - k + 1, k) + hits - apply2(log_rising, a + b, n)


def _log_share(k: Tensor, n: Tensor, a: Tensor, b: Tensor, upper: bool) -> Tensor:
    """The logarithm of the sum of masses up to k, or above it, by the smaller of both sums.

    No closed form exists; as many terms as the greatest n are added.
    """
    j = fnp.arange(int(fnp.max(n, initial=0)) + 1, dtype=n.dtype)
    j = fnp.reshape(j, (-1, *[1] * max(x.ndim for x in (k, n, a, b))))

    def log_sum(counted: Tensor) -> Tensor:
        counted = counted & (j <= n)
        logs = _log_beta_binomial(fnp.where(counted, j, 0.0), n, a, b)
        return special.logsumexp(fnp.where(counted, logs, -np.inf), axis=0)

    share, other = log_sum((j > k) if upper else (j <= k)), log_sum((j <= k) if upper else (j > k))
    small = share <= other
    return fnp.where(small, share, fnp.log1p(-fnp.exp(fnp.where(small, -1.0, other))))


betabinom = DiscreteDistribution(
    "betabinom",
    ("n", "a", "b"),
    valid=lambda n, a, b: (n >= 0) & (n == np.floor(n)) & (a > 0) & (b > 0),
    greatest=lambda n, a, b: n,
    log_mass=_log_beta_binomial,
    mass=lambda k, n, a, b: fnp.exp(_log_beta_binomial(k, n, a, b)),
    below=lambda k, n, a, b: fnp.exp(_log_share(k, n, a, b, False)),
    above=lambda k, n, a, b: fnp.exp(_log_share(k, n, a, b, True)),
    log_below=lambda k, n, a, b: _log_share(k, n, a, b, False),
    log_above=lambda k, n, a, b: _log_share(k, n, a, b, True),
    harmless=(1.0, 1.0, 1.0),
    expectation=lambda n, a, b: n * a / (a + b),
    variance=lambda n, a, b: n * (a / (a + b)) * (b / (a + b)) * (a + b + n) / (a + b + 1),
)
