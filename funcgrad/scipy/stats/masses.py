"""Distributions of whole numbers, which have no derivative in these, but in their parameters.

At most k of n numbers is certain where n is k, and where it is less: there the distribution
function has a kink in n, and the slope 0.

>>> poisson.pmf([0, 1, 0.5], 1.0)
Tensor([0.36787944, 0.36787944, 0.        ])
"""

from __future__ import annotations

import numpy as np

import funcgrad.numpy as fnp
from funcgrad.scipy import special
from funcgrad.scipy.stats.conditions import split, times_log, times_log1p
from funcgrad.scipy.stats.distributions import DiscreteDistribution
from funcgrad.tensor import Tensor
from funcgrad.trace import Value

__all__ = ["bernoulli", "binom", "geom", "nbinom", "poisson"]


def _is_share(p: Value) -> Value:
    return (p >= 0) & (p <= 1)


def _log_choices(n: Tensor, k: Tensor) -> Tensor:
    whole = special.gammaln(n + 1) - special.gammaln(k + 1)
    return whole - special.gammaln(n - k + 1)


def _log_binomial(k: Tensor, n: Tensor, p: Tensor) -> Tensor:
    return _log_choices(n, k) + times_log(k, p) + times_log1p(n - k, -p)


poisson = DiscreteDistribution(
    "poisson",
    ("mu",),
    valid=lambda mu: mu >= 0,
    greatest=None,
    log_mass=lambda k, mu: times_log(k, mu) - special.gammaln(k + 1) - mu,
    below=lambda k, mu: special.gammaincc(k + 1, mu),
    above=lambda k, mu: special.gammainc(k + 1, mu),
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
    below=lambda k, n, p: special.betaincc(k + 1, n - k, p),
    above=lambda k, n, p: special.betainc(k + 1, n - k, p),
    harmless=(1.0, 0.5),
    expectation=lambda n, p: n * p,
    variance=lambda n, p: n * p * (1 - p),
)
nbinom = DiscreteDistribution(
    "nbinom",
    ("n", "p"),
    valid=lambda n, p: (n > 0) & (p > 0) & (p <= 1),
    greatest=None,
    log_mass=lambda k, n, p: (
        special.gammaln(n + k)
        - special.gammaln(k + 1)
        - special.gammaln(n)
        + n * fnp.log(p)
        + times_log1p(k, -p)
    ),
    below=lambda k, n, p: special.betainc(n, k + 1, p),
    above=lambda k, n, p: special.betaincc(n, k + 1, p),
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
    below=lambda k, p: 1 - p + 0 * k,
    above=lambda k, p: p + 0 * k,
    harmless=(0.5,),
    expectation=lambda p: p,
    variance=lambda p: p * (1 - p),
)


def _hit(k: Tensor, p: Tensor) -> Tensor:
    """By the logarithm of a miss where a hit is rare."""

    def rare(p: Tensor) -> Tensor:
        return -fnp.expm1(k * fnp.log1p(-p))

    return split(lambda p: p < 0.5, p, rare, lambda p: 1 - (1 - p) ** k, (0.25, 0.5))


def _missed(k: Tensor, p: Tensor) -> Tensor:
    def rare(p: Tensor) -> Tensor:
        return fnp.exp(k * fnp.log1p(-p))

    return split(lambda p: p < 0.5, p, rare, lambda p: (1 - p) ** k, (0.25, 0.5))


geom = DiscreteDistribution(
    "geom",
    ("p",),
    valid=lambda p: (p > 0) & (p <= 1),
    greatest=None,
    log_mass=lambda k, p: times_log1p(k - 1, -p) + fnp.log(p),
    below=_hit,
    above=_missed,
    harmless=(0.5,),
    expectation=lambda p: 1 / p,
    variance=lambda p: (1 - p) / (p * p),
    least=1.0,
)
