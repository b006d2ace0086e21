"""Distributions with shape parameters, from incomplete gamma and beta functions.

>>> gamma.cdf(1.0, 1.0), beta.pdf(0.5, 2.0, 2.0)
(Tensor(0.63212056), Tensor(1.5))
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import funcgrad.numpy as fnp
from funcgrad._primitives.special_functions.beta_tails import log_betainc_factor
from funcgrad._primitives.special_functions.entropies import log_ratio
from funcgrad._primitives.special_functions.gamma_tails import log_gammainc, log_gammaincc
from funcgrad._primitives.special_functions.incomplete_betas import beta_density
from funcgrad._primitives.special_functions.incomplete_gammas import gamma_density
from funcgrad._primitives.special_functions.student import stdtr, stdtrit
from funcgrad.scipy import special
from funcgrad.scipy.stats.conditions import (
    chosen,
    holding,
    log_betainc,
    log_betaincc,
    log_probability,
    split,
    times_log,
    times_log1p,
    times_log_ratio,
)
from funcgrad.scipy.stats.distributions import ContinuousDistribution
from funcgrad.tensor.tensor import Tensor, apply, apply2


def _log_gamma_density(x: Tensor, scale: Tensor, a: Tensor) -> Tensor:
    powers = times_log_ratio(a - 1, x, scale) - x / scale
    return powers - special.gammaln(a) - fnp.log(scale)


def _gamma_density(x: Tensor, scale: Tensor, a: Tensor) -> Tensor:
    return apply(gamma_density, a, x / scale, order=0) / scale


def _below_gamma(x: Tensor, scale: Tensor, a: Tensor) -> Tensor:
    return special.gammainc(a, x / scale)


def _above_gamma(x: Tensor, scale: Tensor, a: Tensor) -> Tensor:
    return special.gammaincc(a, x / scale)


def _gamma_entropy(a: Tensor) -> Tensor:
    return a + special.gammaln(a) + (1 - a) * special.psi(a)


gamma = ContinuousDistribution(
    "gamma",
    ("a",),
    0.0,
    math.inf,
    1.0,
    log_density=_log_gamma_density,
    density=_gamma_density,
    below=_below_gamma,
    above=_above_gamma,
    log_below=lambda x, scale, a: apply2(log_gammainc, a, x / scale),
    log_above=lambda x, scale, a: apply2(log_gammaincc, a, x / scale),
    quantile=lambda q, a: special.gammaincinv(a, q),
    upper_quantile=lambda q, a: special.gammainccinv(a, q),
    expectation=lambda a: a,
    variance=lambda a: a,
    uncertainty=_gamma_entropy,
    far=lambda x, scale, a: -x / scale,
    of_distances=True,
)


chi2 = ContinuousDistribution(
    "chi2",
    ("df",),
    0.0,
    math.inf,
    1.0,
    log_density=lambda x, scale, df: _log_gamma_density(x, 2 * scale, df / 2),
    density=lambda x, scale, df: _gamma_density(x, 2 * scale, df / 2),
    below=lambda x, scale, df: _below_gamma(x, 2 * scale, df / 2),
    above=lambda x, scale, df: _above_gamma(x, 2 * scale, df / 2),
    log_below=lambda x, scale, df: apply2(log_gammainc, df / 2, x / (2 * scale)),
    log_above=lambda x, scale, df: apply2(log_gammaincc, df / 2, x / (2 * scale)),
    quantile=lambda q, df: 2 * special.gammaincinv(df / 2, q),
    upper_quantile=lambda q, df: 2 * special.gammainccinv(df / 2, q),
    expectation=lambda df: df,
    variance=lambda df: 2 * df,
    uncertainty=lambda df: _gamma_entropy(df / 2) + math.log(2),
    far=lambda x, scale, df: -x / (2 * scale),
    of_distances=True,
)


def _log_beta_density(x: Tensor, scale: Tensor, a: Tensor, b: Tensor) -> Tensor:
    powers = times_log1p(b - 1, -x / scale) + times_log_ratio(a - 1, x, scale)
    return powers - special.betaln(a, b) - fnp.log(scale)


def _beta_density(x: Tensor, scale: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return apply(beta_density, a, b, x / scale, orders=(0, 0)) / scale


def _below_beta(x: Tensor, scale: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return special.betainc(a, b, x / scale)


def _above_beta(x: Tensor, scale: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return special.betaincc(a, b, x / scale)


def _beta_entropy(a: Tensor, b: Tensor) -> Tensor:
    outer = (a + b - 2) * special.psi(a + b)
    return special.betaln(a, b) - (a - 1) * special.psi(a) - (b - 1) * special.psi(b) + outer


beta = ContinuousDistribution(
    "beta",
    ("a", "b"),
    0.0,
    1.0,
    0.5,
    log_density=_log_beta_density,
    density=_beta_density,
    below=_below_beta,
    above=_above_beta,
    log_below=lambda x, scale, a, b: log_betainc(a, b, x / scale, a * apply2(log_ratio, x, scale)),
    log_above=lambda x, scale, a, b: log_betaincc(a, b, x / scale, b * fnp.log1p(-x / scale)),
    quantile=lambda q, a, b: special.betaincinv(a, b, q),
    upper_quantile=lambda q, a, b: special.betainccinv(a, b, q),
    expectation=lambda a, b: a / (a + b),
    variance=lambda a, b: a * b / ((a + b) ** 2 * (a + b + 1)),
    uncertainty=_beta_entropy,
    of_distances=True,
)


_MANY: Final = 1e5
"""With more degrees of freedom than this, tails are nearly normal."""

_SERIES: Final = 8
"""Terms of a power series up to 0.01."""


def _log_student(z: Tensor, df: Tensor) -> Tensor:
    return _log_student_factor(df) - _student_exponent(z, df)


def _log_student_factor(df: Tensor) -> Tensor:
    """Many degrees of freedom use Stirling's series: the factor is nearly the normal one."""

    def many(df: Tensor) -> Tensor:
        u = 1 / df
        square = u * u
        steps = square * (1 / 24 - square * (1 / 20 - square * 17 / 112)) - 0.25
        return u * steps - 0.5 * math.log(2 * math.pi)

    def few(df: Tensor) -> Tensor:
        return -0.5 * fnp.log(df) - special.betaln(df / 2, 0.5)

    return split(lambda df: df > 200, df, many, few, (2000.0, 1.0))


def _student_exponent(z: Tensor, df: Tensor) -> Tensor:
    """``(df + 1) / 2 * log1p(z**2 / df)``, whose slope in df loses digits as df grows.

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
    return fnp.where(usual, outer, series)


def _student_tail(z: Tensor, df: Tensor) -> Tensor:
    """The far tail is computed from ``1 / z``, whose square does not overflow."""
    near = holding(lambda z: abs(z) < 1e100, z)
    if near is True:
        return fnp.log1p(z**2 / df)
    out = 2 * fnp.log(fnp.abs(fnp.where(near, 1.0, z))) - fnp.log(df)
    return fnp.where(near, fnp.log1p(fnp.where(near, z, 0.0) ** 2 / df), out)


def _below_t(z: Tensor, df: Tensor) -> Tensor:
    return apply2(stdtr, df, z)


def _above_t(z: Tensor, df: Tensor) -> Tensor:
    return apply2(stdtr, df, -z)


def _log_below_t(z: Tensor, df: Tensor) -> Tensor:
    """Below -1 it is log(betainc / 2): DLMF 8.17 and Abramowitz and Stegun 26.7.1."""
    out = holding(lambda z, df: (z < -1) & (df < _MANY), z, df)
    usual = log_probability(_below_t, _above_t)
    far, half = fnp.where(out, z, -2.0), fnp.where(out, df, 1.0) / 2
    power = -half * _student_tail(far, 2 * half)
    share = 1 / (1 + far * (far / (2 * half)))
    tail: Tensor = power + apply(log_betainc_factor, half, 0.5, share) - math.log(2)
    if out is True:
        return tail
    return fnp.where(out, tail, usual(fnp.where(out, 0.0, z), df))


def _student_variance(df: Tensor) -> Tensor:
    finite = df > 2
    safe = fnp.where(finite, df, 3.0)
    beyond = fnp.where(df > 1, fnp.full_like(df, math.inf), math.nan)
    return fnp.where(finite, 1 / (1 - 2 / safe), beyond)


def _student_entropy(df: Tensor) -> Tensor:
    """Differences of large terms lose digits: many degrees of freedom use a series about inf."""

    def far(df: Tensor) -> Tensor:
        total, small = fnp.zeros_like(df), 1 / df
        for coefficient in (0.25, 0.3, -0.125, -1 / 6, 0.25, 1.0):
            total = small * (coefficient + total)
        return 0.5 + 0.5 * math.log(2 * math.pi) + total

    def near(df: Tensor) -> Tensor:
        rise = special.psi((df + 1) / 2) - special.psi(df / 2)
        return (df + 1) / 2 * rise + fnp.log(df) / 2 + special.betaln(df / 2, 0.5)

    return split(lambda df: df > 300, df, far, near, (1e3, 1.0))


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
    log_below=_log_below_t,
    log_above=lambda z, df: _log_below_t(-z, df),
    quantile=lambda q, df: apply2(stdtrit, df, q),
    upper_quantile=lambda q, df: -apply2(stdtrit, df, q),
    expectation=lambda df: fnp.where(df > 1, fnp.zeros_like(df), math.inf),
    variance=_student_variance,
    uncertainty=_student_entropy,
)


# --------------------------------------------------------------- reciprocals, and quotients: 1, f


def _log_invgamma(z: Tensor, a: Tensor) -> Tensor:
    return -(a + 1) * fnp.log(z) - special.gammaln(a) - 1 / z


def _moment_above(a: Tensor, least: float, moment: Callable[[Tensor], Tensor]) -> Tensor:
    """A moment where a shape is above a bound, and infinity elsewhere."""
    finite = a > least
    return fnp.where(finite, moment(fnp.where(finite, a, least + 1)), math.inf)


invgamma = ContinuousDistribution(
    "invgamma",
    ("a",),
    0.0,
    math.inf,
    1.0,
    log_density=_log_invgamma,
    density=lambda z, a: fnp.exp(_log_invgamma(z, a)),
    below=lambda z, a: special.gammaincc(a, 1 / z),
    above=lambda z, a: special.gammainc(a, 1 / z),
    log_below=lambda z, a: apply2(log_gammaincc, a, 1 / z),
    log_above=lambda z, a: apply2(log_gammainc, a, 1 / z),
    quantile=lambda q, a: 1 / special.gammainccinv(a, q),
    upper_quantile=lambda q, a: 1 / special.gammaincinv(a, q),
    expectation=lambda a: _moment_above(a, 1.0, lambda a: 1 / (a - 1)),
    variance=lambda a: _moment_above(a, 2.0, lambda a: 1 / ((a - 1) ** 2 * (a - 2))),
    uncertainty=lambda a: a + special.gammaln(a) - (1 + a) * special.psi(a),
    open=True,
)


def _share_of(z: Tensor, dfn: Tensor, dfd: Tensor) -> Tensor:
    """The beta variable of a quotient of chi-squares: DLMF 8.17 and Abramowitz, Stegun 26.6.2."""
    return dfn * z / (dfd + dfn * z)


def _log_f(z: Tensor, dfn: Tensor, dfd: Tensor) -> Tensor:
    """Without a power of z for two degrees of freedom, where z may be 0."""
    ratio = dfn / dfd
    half, other = 0.5 * dfn, 0.5 * dfd
    powers = times_log(half - 1, z) - (half + other) * fnp.log1p(ratio * z)
    return powers + half * fnp.log(ratio) - special.betaln(half, other)


def _f_above(z: Tensor, dfn: Tensor, dfd: Tensor) -> Tensor:
    """By the share that is smaller: the other one is nearly 1."""
    low = holding(lambda z, dfn, dfd: dfn * z < dfd, z, dfn, dfd)
    near = special.betaincc(dfn / 2, dfd / 2, _share_of(chosen(low, z, 0.0), dfn, dfd))
    if low is True:
        return near
    share = dfd / (dfd + dfn * fnp.where(low, 1.0, z))
    return fnp.where(low, near, special.betainc(dfd / 2, dfn / 2, share))


def _log_f_below(z: Tensor, dfn: Tensor, dfd: Tensor) -> Tensor:
    half = 0.5 * dfn
    low = holding(lambda z, dfn, dfd: dfn * z < dfd, z, dfn, dfd)
    share = _share_of(chosen(low, z, 0.1), dfn, dfd)
    value = log_betainc(half, 0.5 * dfd, share, half * fnp.log(share))
    if low is True:
        return value
    above = _f_above(fnp.where(low, 1.0, z), dfn, dfd)
    return fnp.where(low, value, fnp.log1p(-above))


def _log_f_above(z: Tensor, dfn: Tensor, dfd: Tensor) -> Tensor:
    other = 0.5 * dfd
    power = -other * fnp.log1p(dfn * z / dfd)
    return log_betaincc(0.5 * dfn, other, _share_of(z, dfn, dfd), power)


def _f_quantile(q: Tensor, dfn: Tensor, dfd: Tensor, upper: bool = False) -> Tensor:
    """By the inverse for the share that is smaller: where the other is 1, its slope is lost."""
    half, other = 0.5 * dfn, 0.5 * dfd
    if upper:
        low = q > special.betaincc(half, other, 0.5)
        near = special.betainccinv(half, other, fnp.where(low, q, 0.5))
        far = special.betaincinv(other, half, fnp.where(low, 0.5, q))
    else:
        low = q < special.betainc(half, other, 0.5)
        near = special.betaincinv(half, other, fnp.where(low, q, 0.5))
        far = special.betainccinv(other, half, fnp.where(low, 0.5, q))
    # At 0 the slope of the inverse may be infinite, and counts once.
    complement = 1 - fnp.where(near > 0, near, 0.0)
    return dfd * fnp.where(low, near, 1 - far) / (dfn * fnp.where(low, complement, far))


def _f_variance(dfn: Tensor, dfd: Tensor) -> Tensor:
    def moment(n: Tensor) -> Tensor:
        return 2 * n * n * (dfn + n - 2) / (dfn * (n - 2) ** 2 * (n - 4))

    return _moment_above(dfd, 4.0, moment)


def _f_entropy(dfn: Tensor, dfd: Tensor) -> Tensor:
    half, other = 0.5 * dfn, 0.5 * dfd
    outer = special.betaln(half, other) + fnp.log(dfd / dfn)
    inner = (1 - half) * special.psi(half) - (1 + other) * special.psi(other)
    return outer + inner + (half + other) * special.psi(half + other)


f = ContinuousDistribution(
    "f",
    ("dfn", "dfd"),
    0.0,
    math.inf,
    1.0,
    log_density=_log_f,
    density=lambda z, dfn, dfd: fnp.exp(_log_f(z, dfn, dfd)),
    below=lambda z, dfn, dfd: special.betainc(dfn / 2, dfd / 2, _share_of(z, dfn, dfd)),
    above=_f_above,
    log_below=_log_f_below,
    log_above=_log_f_above,
    quantile=_f_quantile,
    upper_quantile=lambda q, dfn, dfd: _f_quantile(q, dfn, dfd, True),
    expectation=lambda dfn, dfd: _moment_above(dfd, 2.0, lambda n: n / (n - 2)) + 0 * dfn,
    variance=_f_variance,
    uncertainty=_f_entropy,
)
