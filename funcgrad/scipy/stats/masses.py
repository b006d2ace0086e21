"""Distributions of whole numbers, which have no derivative in these, but in their parameters.

>>> poisson.pmf([0, 1, 0.5], 1.0)
Tensor([0.36787944, 0.36787944, 0.        ])
"""

from __future__ import annotations

import math

import funcgrad.numpy as fnp
from funcgrad.scipy import special
from funcgrad.scipy.stats.distributions import DiscreteDistribution
from funcgrad.tensor import Tensor

__all__ = ["bernoulli", "binom", "geom", "nbinom", "poisson"]


def _is_share(p: Tensor) -> Tensor:
    return (p >= 0) & (p <= 1)


def _log_choices(n: Tensor, k: Tensor) -> Tensor:
    whole = special.gammaln(n + 1) - special.gammaln(k + 1)
    return whole - special.gammaln(n - k + 1)


def _log_binomial(k: Tensor, n: Tensor, p: Tensor) -> Tensor:
    inner = fnp.minimum(k, n)
    logarithms = special.xlogy(inner, p) + special.xlog1py(n - inner, -p)
    return _log_choices(n, inner) + logarithms


poisson = DiscreteDistribution(
    "poisson",
    ("mu",),
    valid=lambda mu: mu >= 0,
    greatest=lambda mu: fnp.full_like(mu, math.inf),
    log_mass=lambda k, mu: special.xlogy(k, mu) - special.gammaln(k + 1) - mu,
    below=lambda k, mu: special.gammaincc(k + 1, mu),
    above=lambda k, mu: special.gammainc(k + 1, mu),
    harmless=(1.0,),
    expectation=lambda mu: mu,
    variance=lambda mu: mu,
)
binom = DiscreteDistribution(
    "binom",
    ("n", "p"),
    valid=lambda n, p: (n >= 0) & (n == fnp.floor(n)) & _is_share(p),
    greatest=lambda n, p: n,
    log_mass=_log_binomial,
    below=lambda k, n, p: special.betaincc(k + 1, fnp.maximum(n - k, 1), p),
    above=lambda k, n, p: special.betainc(k + 1, fnp.maximum(n - k, 1), p),
    harmless=(1.0, 0.5),
    expectation=lambda n, p: n * p,
    variance=lambda n, p: n * p * (1 - p),
)
nbinom = DiscreteDistribution(
    "nbinom",
    ("n", "p"),
    valid=lambda n, p: (n > 0) & (p > 0) & (p <= 1),
    greatest=lambda n, p: fnp.full_like(n * p, math.inf),
    log_mass=lambda k, n, p: (
        special.gammaln(n + k)
        - special.gammaln(k + 1)
        - special.gammaln(n)
        + n * fnp.log(p)
        + special.xlog1py(k, -p)
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
    greatest=fnp.ones_like,
    log_mass=lambda k, p: special.xlogy(k, p) + special.xlog1py(1 - fnp.minimum(k, 1), -p),
    below=lambda k, p: 1 - p + 0 * k,
    above=lambda k, p: p + 0 * k,
    harmless=(0.5,),
    expectation=lambda p: p,
    variance=lambda p: p * (1 - p),
)


def _log_misses(k: Tensor, p: Tensor) -> Tensor:
    """The logarithm of ``(1 - p)**k`` for small p."""
    return k * fnp.log1p(-fnp.where(p < 0.5, p, 0.25))


geom = DiscreteDistribution(
    "geom",
    ("p",),
    valid=lambda p: (p > 0) & (p <= 1),
    greatest=lambda p: fnp.full_like(p, math.inf),
    log_mass=lambda k, p: fnp.where(
        k < 1, -math.inf, special.xlog1py(fnp.maximum(k, 1) - 1, -p) + fnp.log(p)
    ),
    below=lambda k, p: fnp.where(p < 0.5, -fnp.expm1(_log_misses(k, p)), 1 - (1 - p) ** k),
    above=lambda k, p: fnp.where(p < 0.5, fnp.exp(_log_misses(k, p)), (1 - p) ** k),
    harmless=(0.5,),
    expectation=lambda p: 1 / p,
    variance=lambda p: (1 - p) / (p * p),
)
