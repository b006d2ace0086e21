"""Factorials and binomial coefficients of real arguments. SciPy evaluates them."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final, Literal

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.specs import dtype_of
from funcgrad._core.users_values import operand
from funcgrad._primitives.special_functions import gammas as _p
from funcgrad.errors import ArgumentError
from funcgrad.numpy.options import choice, integer
from funcgrad.scipy.precision import real_numbers
from funcgrad.scipy.special.gammas import gamma, gammaln, poch
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply2, wrap

_GREATEST: Final = 258
"""The index of the last value within the range of float64."""


def bernoulli(n: int) -> Tensor:
    """The Bernoulli numbers B[0] to B[n], with B[1] = -1/2.

    Parameters
    ----------
    n : int

    Returns
    -------
    Tensor, shape (n + 1,)
        A constant of float64. Values beyond its range are infinite.

    Raises
    ------
    ArgumentError
        ``n`` is negative.

    Notes
    -----
    Fractions by the recurrence ``sum(comb(m + 1, k) * B[k]) = 0``: NIST Digital Library of
    Mathematical Functions, 24.5.3.

    Examples
    --------
    >>> bernoulli(4)
    Tensor([ 1.        , -0.5       ,  0.16666667,  0.        , -0.03333333])
    """
    n = integer(n, "bernoulli", "n")
    if n < 0:
        raise ArgumentError(f"bernoulli: n is {n}; it cannot be negative.")
    exact = [Fraction(1)]
    for m in range(1, min(n, _GREATEST) + 1):
        terms = () if m % 2 and m > 1 else enumerate(exact)
        total = sum((math.comb(m + 1, k) * b for k, b in terms if b), Fraction(0))
        exact.append(-total / (m + 1))
    numbers = [float(b) for b in exact]
    for m in range(_GREATEST + 1, n + 1):
        numbers.append(0.0 if m % 2 else math.inf if m % 4 == 2 else -math.inf)
    return fnp.asarray(numbers)


def binom(x: ArrayLike, y: ArrayLike, /) -> Tensor:
    """The binomial coefficient ``gamma(x + 1) / (gamma(y + 1) * gamma(x - y + 1))``.

    Where a gamma function in the denominator has a pole, the result is 0 and the derivatives are
    finite.

    Examples
    --------
    >>> binom(5.0, [2.0, 2.5, 6.0])
    Tensor([10.        , 10.86497745,  0.        ])
    """
    return apply2(_p.binom, x, y)


def comb(
    N: ArrayLike, k: ArrayLike, *, exact: bool = False, repetition: bool = False
) -> Tensor | int:
    """The number of combinations of ``k`` out of ``N`` things: 0 if ``k > N`` or one is negative.

    Parameters
    ----------
    N, k : array_like
        They have the derivatives of ``binom``, and 0 where the result is 0 by definition.
    exact : bool
        Whether to return a Python integer, for two Python integers.
    repetition : bool
        Whether things may be chosen more than once.

    Returns
    -------
    Tensor or int

    Examples
    --------
    >>> comb(5, 2), comb(100, 50, exact=True)
    (Tensor(10.0), 100891344545564193334812497256)
    """
    if exact:
        total, chosen = integer(N, "comb", "N"), integer(k, "comb", "k")
        if repetition and chosen > 0:
            total += chosen - 1
        return math.comb(total, chosen) if 0 <= chosen <= total else 0
    n, of = real_numbers("comb", N, k)
    if repetition:
        n = fnp.where(of > 0, n + of - 1, n)
    counts = (of <= n) & (n >= 0) & (of >= 0)
    chosen_of = binom(fnp.where(counts, n, 1), fnp.where(counts, of, 0))
    return fnp.where(counts, chosen_of, 0.0)


def perm(N: ArrayLike, k: ArrayLike, exact: bool = False) -> Tensor | int:
    """The number of permutations of ``k`` out of ``N`` things: 0 if ``k > N`` or one is negative.

    Parameters
    ----------
    N, k : array_like
    exact : bool
        Whether to return a Python integer, for two Python integers.

    Returns
    -------
    Tensor or int

    Examples
    --------
    >>> perm(5, 2)
    Tensor(20.0)
    """
    if exact:
        total, chosen = integer(N, "perm", "N"), integer(k, "perm", "k")
        return math.perm(total, chosen) if 0 <= chosen <= total else 0
    n, of = real_numbers("perm", N, k)
    counts = (of <= n) & (n >= 0) & (of >= 0)
    first = fnp.where(counts, n - of + 1, 1)
    return fnp.where(counts, poch(first, fnp.where(counts, of, 0)), 0.0)


def factorial(
    n: ArrayLike, exact: bool = False, extend: Literal["zero", "complex"] = "zero"
) -> Tensor | int:
    """The factorial ``gamma(n + 1)``; 0 for negative n.

    Parameters
    ----------
    n : array_like
    exact : bool
        Whether to return a Python integer, for one.
    extend : {'zero', 'complex'}
        "complex": use the gamma function for negative and complex n too.

    Returns
    -------
    Tensor or int

    Raises
    ------
    ArgumentError
        ``extend`` is neither.

    Examples
    --------
    >>> factorial(5.0), factorial(25, exact=True)
    (Tensor(120.0), 15511210043330985984000000)
    """
    choice(extend, ("zero", "complex"), "factorial", "extend")
    if exact:
        whole = integer(n, "factorial", "n")
        return math.factorial(whole) if whole >= 0 else 0
    value = fnp.asarray(n)
    if extend == "complex":
        return gamma(value + 1)
    negative = value < 0
    return fnp.where(negative, 0.0, gamma(fnp.where(negative, 0, value) + 1))


def multigammaln(a: ArrayLike, d: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension ``d``.

    Parameters
    ----------
    a : array_like
        Above ``(d - 1) / 2``; NaN elsewhere.
    d : int

    Returns
    -------
    Tensor

    Notes
    -----
    ``d (d - 1) / 4 log(pi)`` plus the sum of ``gammaln(a - j / 2)`` for j from 0 to d - 1:
    Muirhead, "Aspects of Multivariate Statistical Theory" (1982), theorem 2.1.12.

    Examples
    --------
    >>> multigammaln(3.0, 1)
    Tensor(0.6931471805599453)
    """
    size = integer(d, "multigammaln", "d")
    if size < 1:
        raise ArgumentError(f"multigammaln: the dimension d is at least 1, not {size}.")
    value = wrap(operand(a, "multigammaln"))
    dtype = dtype_of(value) if dtype_of(value).kind == "f" else np.dtype(np.float64)
    shifts = fnp.arange(size, dtype=dtype) / 2
    inside = value > (size - 1) / 2
    terms = gammaln(fnp.expand_dims(fnp.where(inside, value, size), -1) - shifts)
    total = fnp.sum(terms, axis=-1) + size * (size - 1) / 4 * math.log(math.pi)
    return fnp.where(inside, total, fnp.nan)
