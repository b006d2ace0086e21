"""Distributions with shape parameters, by incomplete gamma and beta functions, as SciPy's.

>>> gamma.cdf(1.0, 1.0), beta.pdf(0.5, 2.0, 2.0)
(Tensor(0.63212056), Tensor(1.5))
"""

from __future__ import annotations

import math
from typing import Final

import funcgrad.numpy as fnp
from funcgrad.primitives.special_functions.gamma_tails import log_gammainc, log_gammaincc
from funcgrad.primitives.special_functions.incomplete_betas import beta_density
from funcgrad.primitives.special_functions.incomplete_gammas import gamma_density
from funcgrad.primitives.special_functions.student import stdtr, stdtrit
from funcgrad.scipy import special
from funcgrad.scipy.stats.conditions import holding, split, times_log, times_log1p
from funcgrad.scipy.stats.distributions import ContinuousDistribution, log_probability
from funcgrad.tensor import Tensor, apply, apply2

__all__ = ["beta", "chi2", "gamma", "t"]


def _log_gamma_density(z: Tensor, a: Tensor) -> Tensor:
    return times_log(a - 1, z) - z - special.gammaln(a)


def _below_gamma(z: Tensor, a: Tensor) -> Tensor:
    return special.gammainc(a, z)


def _above_gamma(z: Tensor, a: Tensor) -> Tensor:
    return special.gammaincc(a, z)


def _gamma_entropy(a: Tensor) -> Tensor:
    return a + special.gammaln(a) + (1 - a) * special.psi(a)


gamma = ContinuousDistribution(
    "gamma",
    ("a",),
    0.0,
    math.inf,
    1.0,
    log_density=_log_gamma_density,
    density=lambda z, a: apply(gamma_density, a, z, order=0),
    below=_below_gamma,
    above=_above_gamma,
    log_below=lambda z, a: apply2(log_gammainc, a, z),
    log_above=lambda z, a: apply2(log_gammaincc, a, z),
    quantile=lambda q, a: special.gammaincinv(a, q),
    upper_quantile=lambda q, a: special.gammainccinv(a, q),
    expectation=lambda a: a,
    variance=lambda a: a,
    uncertainty=_gamma_entropy,
    far=lambda z, a: -z,
)


def _below_chi2(z: Tensor, df: Tensor) -> Tensor:
    return special.gammainc(df / 2, z / 2)


def _above_chi2(z: Tensor, df: Tensor) -> Tensor:
    return special.gammaincc(df / 2, z / 2)


chi2 = ContinuousDistribution(
    "chi2",
    ("df",),
    0.0,
    math.inf,
    1.0,
    log_density=lambda z, df: _log_gamma_density(z / 2, df / 2),
    density=lambda z, df: apply(gamma_density, df / 2, z / 2, order=0) / 2,
    below=_below_chi2,
    above=_above_chi2,
    log_below=lambda z, df: apply2(log_gammainc, df / 2, z / 2),
    log_above=lambda z, df: apply2(log_gammaincc, df / 2, z / 2),
    quantile=lambda q, df: 2 * special.gammaincinv(df / 2, q),
    upper_quantile=lambda q, df: 2 * special.gammainccinv(df / 2, q),
    expectation=lambda df: df,
    variance=lambda df: 2 * df,
    uncertainty=lambda df: _gamma_entropy(df / 2) + math.log(2),
    log_factor=-math.log(2),
    far=lambda z, df: -z / 2,
)


def _below_beta(z: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return special.betainc(a, b, z)


def _above_beta(z: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return special.betaincc(a, b, z)


def _beta_entropy(a: Tensor, b: Tensor) -> Tensor:
    outer = (a + b - 2) * special.psi(a + b)
    return special.betaln(a, b) - (a - 1) * special.psi(a) - (b - 1) * special.psi(b) + outer


beta = ContinuousDistribution(
    "beta",
    ("a", "b"),
    0.0,
    1.0,
    0.5,
    log_density=lambda z, a, b: times_log1p(b - 1, -z) + times_log(a - 1, z) - special.betaln(a, b),
    density=lambda z, a, b: apply(beta_density, a, b, z, orders=(0, 0)),
    below=_below_beta,
    above=_above_beta,
    log_below=log_probability(_below_beta, _above_beta),
    log_above=log_probability(_above_beta, _below_beta),
    quantile=lambda q, a, b: special.betaincinv(a, b, q),
    upper_quantile=lambda q, a, b: special.betainccinv(a, b, q),
    expectation=lambda a, b: a / (a + b),
    variance=lambda a, b: a * b / ((a + b) ** 2 * (a + b + 1)),
    uncertainty=_beta_entropy,
)


_SERIES: Final = 8
"""How many terms there are of a series in at most 0.01."""


def _log_student(z: Tensor, df: Tensor) -> Tensor:
    return _log_student_factor(df) - _student_exponent(z, df)


def _log_student_factor(df: Tensor) -> Tensor:
    """For many degrees of freedom Stirling's series, which is nearly that of the normal one."""

    def many(df: Tensor) -> Tensor:
        u = 1 / df
        square = u * u
        steps = square * (1 / 24 - square * (1 / 20 - square * 17 / 112)) - 0.25
        return u * steps - 0.5 * math.log(2 * math.pi)

    def few(df: Tensor) -> Tensor:
        return -0.5 * fnp.log(df) - special.betaln(df / 2, 0.5)

    return split(lambda df: df > 200, df, many, few, (2000.0, 1.0))


def _student_exponent(z: Tensor, df: Tensor) -> Tensor:
    """``(df + 1) / 2 * log1p(z**2 / df)``, whose slope in df loses digits as that grows.

    So, for many degrees of freedom, it is a series about ``z**2 / 2``.
    """
    usual = holding(lambda z, df: (df <= 200) | (z * z > 0.01 * df), z, df)
    if usual is True:
        return 0.5 * (df + 1) * _student_tail(z, df)
    inner, many = fnp.where(usual, 0.0, z), fnp.where(usual, 2000.0, df)
    share, total = inner**2 / many, fnp.zeros_like(many)
    for k in reversed(range(_SERIES)):
        total = 1 / (k + 2) - share * total
    u = 1 / many
    series = 0.5 * inner**2 * (1 + (u - share * (1 + u) * total))
    outer = 0.5 * (df + 1) * _student_tail(fnp.where(usual, z, 1.0), df)
    result: Tensor = fnp.where(usual, outer, series)
    return result


def _student_tail(z: Tensor, df: Tensor) -> Tensor:
    """Far out by the reciprocal, whose square does not overflow."""
    near = holding(lambda z: abs(z) < 1e100, z)
    if near is True:
        return fnp.log1p(z**2 / df)
    out = 2 * fnp.log(fnp.abs(fnp.where(near, 1.0, z))) - fnp.log(df)
    result: Tensor = fnp.where(near, fnp.log1p(fnp.where(near, z, 0.0) ** 2 / df), out)
    return result


def _below_t(z: Tensor, df: Tensor) -> Tensor:
    return apply2(stdtr, df, z)


def _above_t(z: Tensor, df: Tensor) -> Tensor:
    return apply2(stdtr, df, -z)


def _student_variance(df: Tensor) -> Tensor:
    finite = df > 2
    safe = fnp.where(finite, df, 3.0)
    beyond = fnp.where(df > 1, fnp.full_like(df, math.inf), math.nan)
    result: Tensor = fnp.where(finite, safe / (safe - 2), beyond)
    return result


def _student_entropy(df: Tensor) -> Tensor:
    rise = special.psi((df + 1) / 2) - special.psi(df / 2)
    return (df + 1) / 2 * rise + fnp.log(df) / 2 + special.betaln(df / 2, 0.5)


t = ContinuousDistribution(
    "t",
    ("df",),
    -math.inf,
    math.inf,
    0.0,
    log_density=_log_student,
    density=lambda z, df: fnp.exp(_log_student(z, df)),
    below=_below_t,
    above=_above_t,
    log_below=log_probability(_below_t, _above_t),
    log_above=log_probability(_above_t, _below_t),
    quantile=lambda q, df: apply2(stdtrit, df, q),
    upper_quantile=lambda q, df: -apply2(stdtrit, df, q),
    expectation=lambda df: fnp.where(df > 1, fnp.zeros_like(df), math.inf),
    variance=_student_variance,
    uncertainty=_student_entropy,
)
