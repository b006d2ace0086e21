"""Distribution functions and their inverses, under the names of the Cephes library.

They are incomplete gamma and beta functions. Counts ``k`` are rounded down and have no derivative;
all other arguments do. ``funcgrad.scipy.stats`` has the distributions by name.
"""

from __future__ import annotations

from collections.abc import Callable

import funcgrad.numpy as fnp
from funcgrad._primitives.special_functions import student
from funcgrad.scipy.precision import real_numbers
from funcgrad.scipy.special.incomplete_functions import (
    betainc,
    betaincc,
    betainccinv,
    betaincinv,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
)
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply2


def gdtr(a: ArrayLike, b: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Gamma cumulative distribution: P(X <= x) for rate a and shape b.

    Examples
    --------
    >>> round(float(gdtr(1.0, 2.0, 1.5)), 12)
    0.442174599629
    """
    a, b, x = real_numbers("gdtr", a, b, x)
    return gammainc(b, a * x)


def gdtrc(a: ArrayLike, b: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Gamma survival function: P(X > x) for rate a and shape b.

    Examples
    --------
    >>> round(float(gdtrc(1.0, 2.0, 1.5)), 12)
    0.557825400371
    """
    a, b, x = real_numbers("gdtrc", a, b, x)
    return gammaincc(b, a * x)


def gdtrix(a: ArrayLike, b: ArrayLike, p: ArrayLike, /) -> Tensor:
    """Gamma quantile: the x with ``gdtr(a, b, x) = p``.

    Examples
    --------
    >>> round(float(gdtrix(1.0, 2.0, 0.5)), 12)
    1.678346990017
    """
    a, b, p = real_numbers("gdtrix", a, b, p)
    return gammaincinv(b, p) / a


def gdtria(p: ArrayLike, b: ArrayLike, x: ArrayLike, /) -> Tensor:
    """The rate a of a gamma distribution with ``gdtr(a, b, x) = p``.

    Examples
    --------
    >>> round(float(gdtria(0.5, 2.0, 1.5)), 12)
    1.118897993344
    """
    p, b, x = real_numbers("gdtria", p, b, x)
    return gammaincinv(b, p) / x


def pdtr(k: ArrayLike, m: ArrayLike, /) -> Tensor:
    """Poisson cumulative distribution: P(X <= k) for mean m.

    Examples
    --------
    >>> round(float(pdtr(2.0, 1.5)), 12)
    0.808846830538
    """
    k, m = real_numbers("pdtr", k, m)
    return gammaincc(_next(k), m)


def pdtrc(k: ArrayLike, m: ArrayLike, /) -> Tensor:
    """Poisson survival function: P(X > k) for mean m.

    Examples
    --------
    >>> round(float(pdtrc(2.0, 1.5)), 12)
    0.191153169462
    """
    k, m = real_numbers("pdtrc", k, m)
    return gammainc(_next(k), m)


def pdtri(k: ArrayLike, y: ArrayLike, /) -> Tensor:
    """The mean m of a Poisson distribution with ``pdtr(k, m) = y``.

    Examples
    --------
    >>> round(float(pdtri(2, 0.5)), 12)
    2.674060313724
    """
    k, y = real_numbers("pdtri", k, y)
    return gammainccinv(_next(k), y)


def chdtr(v: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Chi-squared cumulative distribution: P(X <= x) for v degrees of freedom.

    Examples
    --------
    >>> round(float(chdtr(2.0, 1.5)), 12)
    0.527633447259
    """
    v, x = real_numbers("chdtr", v, x)
    return gammainc(v / 2, x / 2)


def chdtrc(v: ArrayLike, x: ArrayLike, /) -> Tensor:
    """Chi-squared survival function: P(X > x) for v degrees of freedom.

    Examples
    --------
    >>> round(float(chdtrc(2.0, 1.5)), 12)
    0.472366552741
    """
    v, x = real_numbers("chdtrc", v, x)
    return gammaincc(v / 2, x / 2)


def chdtri(v: ArrayLike, p: ArrayLike, /) -> Tensor:
    """Chi-squared quantile of the upper tail: the x with ``chdtrc(v, x) = p``.

    Examples
    --------
    >>> round(float(chdtri(2.0, 0.5)), 12)
    1.38629436112
    """
    v, p = real_numbers("chdtri", v, p)
    return 2 * gammainccinv(v / 2, p)


def bdtr(k: ArrayLike, n: ArrayLike, p: ArrayLike, /) -> Tensor:
    """Binomial cumulative distribution: P(at most k successes in n), each with probability p.

    It is 1 at n = k, and flat in n there, as ``funcgrad.scipy.stats.binom.cdf`` is.

    Examples
    --------
    >>> round(float(bdtr(1.0, 3, 0.5)), 12)
    0.5
    """
    k, n, p = real_numbers("bdtr", k, n, p)
    return _unless_all(betaincc, k, n, p, 1.0)


def bdtrc(k: ArrayLike, n: ArrayLike, p: ArrayLike, /) -> Tensor:
    """Binomial survival function: P(more than k successes in n), each with probability p.

    Examples
    --------
    >>> round(float(bdtrc(1.0, 3, 0.5)), 12)
    0.5
    """
    k, n, p = real_numbers("bdtrc", k, n, p)
    return _unless_all(betainc, k, n, p, 0.0)


def bdtri(k: ArrayLike, n: ArrayLike, y: ArrayLike, /) -> Tensor:
    """The probability p of a binomial distribution with ``bdtr(k, n, p) = y``.

    Examples
    --------
    >>> round(float(bdtri(1.0, 3, 0.5)), 12)
    0.5
    """
    k, n, y = real_numbers("bdtri", k, n, y)
    return betainccinv(*_of_counts(k, n), y)


def nbdtr(k: ArrayLike, n: ArrayLike, p: ArrayLike, /) -> Tensor:
    """Negative binomial cumulative distribution: P(at most k failures before n successes).

    Examples
    --------
    >>> round(float(nbdtr(1, 3, 0.5)), 12)
    0.3125
    """
    k, n, p = real_numbers("nbdtr", k, n, p)
    return betainc(n, _next(k), p)


def nbdtrc(k: ArrayLike, n: ArrayLike, p: ArrayLike, /) -> Tensor:
    """Negative binomial survival function: P(more than k failures before n successes).

    Examples
    --------
    >>> round(float(nbdtrc(1, 3, 0.5)), 12)
    0.6875
    """
    k, n, p = real_numbers("nbdtrc", k, n, p)
    return betaincc(n, _next(k), p)


def nbdtri(k: ArrayLike, n: ArrayLike, y: ArrayLike, /) -> Tensor:
    """The probability p of a negative binomial distribution with ``nbdtr(k, n, p) = y``.

    Examples
    --------
    >>> round(float(nbdtri(1, 3, 0.5)), 12)
    0.614272431868
    """
    k, n, y = real_numbers("nbdtri", k, n, y)
    return betaincinv(n, _next(k), y)


def fdtr(dfn: ArrayLike, dfd: ArrayLike, x: ArrayLike, /) -> Tensor:
    """F cumulative distribution: P(X <= x) for dfn and dfd degrees of freedom.

    Examples
    --------
    >>> round(float(fdtr(2.0, 3.0, 1.5)), 12)
    0.646446609407
    """
    dfn, dfd, x = real_numbers("fdtr", dfn, dfd, x)
    return _of_odds(betainc, betaincc, dfn, dfd, x)


def fdtrc(dfn: ArrayLike, dfd: ArrayLike, x: ArrayLike, /) -> Tensor:
    """F survival function: P(X > x) for dfn and dfd degrees of freedom.

    Examples
    --------
    >>> round(float(fdtrc(2.0, 3.0, 1.5)), 12)
    0.353553390593
    """
    dfn, dfd, x = real_numbers("fdtrc", dfn, dfd, x)
    return _of_odds(betaincc, betainc, dfn, dfd, x)


def fdtri(dfn: ArrayLike, dfd: ArrayLike, p: ArrayLike, /) -> Tensor:
    """F quantile: the x with ``fdtr(dfn, dfd, x) = p``.

    Examples
    --------
    >>> round(float(fdtri(2.0, 3.0, 0.5)), 12)
    0.881101577952
    """
    dfn, dfd, p = real_numbers("fdtri", dfn, dfd, p)
    first, second = dfn / 2, dfd / 2
    share, complement = betaincinv(first, second, p), betainccinv(second, first, p)
    low = share < 0.5
    small, great = fnp.where(low, share, 0.5), fnp.where(low, 0.5, complement)
    odds = fnp.where(low, small / (1 - small), (1 - great) / great)
    return dfd / dfn * odds


def stdtr(df: ArrayLike, t: ArrayLike, /) -> Tensor:
    """Student's t cumulative distribution: P(T <= t) for df degrees of freedom.

    Examples
    --------
    >>> round(float(stdtr(3.0, 1.0)), 12)
    0.804498890522
    """
    return apply2(student.stdtr, df, t)


def stdtrit(df: ArrayLike, p: ArrayLike, /) -> Tensor:
    """Student's t quantile: the t with ``stdtr(df, t) = p``.

    Examples
    --------
    >>> round(float(stdtrit(3.0, 0.75)), 12)
    0.764892328404
    """
    return apply2(student.stdtrit, df, p)


def _next(k: Tensor) -> Tensor:
    """The count, rounded down, and the next count."""
    return fnp.floor(k) + 1.0


def _of_counts(k: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
    """The shapes of the beta distribution for P(more than k successes in n)."""
    first = _next(k)
    second: Tensor = n - first + 1.0
    return first, second


def _unless_all(
    function: Callable[..., Tensor], k: Tensor, n: Tensor, p: Tensor, certain: float
) -> Tensor:
    """A probability of counts, which is certain of k = n, whatever p is."""
    first, second = _of_counts(k, n)
    probability = function(first, fnp.where(second == 0, 1.0, second), p)
    return fnp.where(second == 0, probability * 0 + certain, probability)


def _of_odds(
    near: Callable[..., Tensor], far: Callable[..., Tensor], dfn: Tensor, dfd: Tensor, x: Tensor
) -> Tensor:
    """A function of the share ``dfn x / (dfd + dfn x)``, or of 1 minus the share, if less."""
    odds = dfn * x / dfd
    low = odds < 1
    small, great = fnp.where(low, odds, 0.5), fnp.where(low, 2.0, odds)
    first, second = dfn / 2, dfd / 2
    below = near(first, second, small / (1 + small))
    return fnp.where(low, below, far(second, first, 1 / (1 + great)))
