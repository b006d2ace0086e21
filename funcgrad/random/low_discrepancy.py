"""Sobol and Halton sequences: points that fill a cube more evenly than random ones.

>>> from funcgrad.random.keys import key
>>> sobol(key(0), 4, 2).shape
(4, 2)

A point is a function of its index, so a sequence can start anywhere, and a point does not depend on
the points drawn with it. Arithmetic is exact: the points are the same on every machine.
"""

from __future__ import annotations

from typing import Final, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._core.specs import dtype_of, shape_of
from funcgrad._core.trace import RAW, concrete
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.random_bits import bits_to_uniform
from funcgrad._primitives.structural import cast
from funcgrad.errors import ArgumentError, DtypeError
from funcgrad.random.direction_numbers import LARGEST, direction_numbers
from funcgrad.random.philox import as_dtype, as_shape
from funcgrad.random.rejection import inner_keys, words_of
from funcgrad.tensor.tensor import Tensor, apply, wrap

_DIGITS: Final = 53
"""The binary digits of a coordinate, and of the index of a point."""

_WORD: Final = np.dtype(np.uint64)
_NO_KEY: Final = (np.uint64(0), np.uint64(0))


@answering
def sobol(
    key: ArrayLike | None,
    n: SupportsIndex,
    d: SupportsIndex,
    start: ArrayLike = 0,
    dtype: DTypeLike = np.float64,
) -> Tensor:
    """The scrambled Sobol sequence of points in the unit cube, for quasi-Monte Carlo integration.

    Parameters
    ----------
    key : key or None
        The key for scrambling; None for the sequence itself, whose first point is 0.
    n : int
        The number of points. A power of two fills the cube best.
    d : int
        The dimension of the cube, up to 128.
    start : int
        The index of the first point: ``start=n`` continues after n points. It may be traced.
    dtype : dtype
        A real one.

    Returns
    -------
    Tensor of shape (n, d)
        Points in [0, 1).

    Raises
    ------
    ArgumentError
        ``d`` is too large, or ``start`` negative or from 2**53 on.

    Notes
    -----
    The direction numbers are from Joe and Kuo, "Constructing Sobol sequences with better
    two-dimensional projections", SIAM J. Sci. Comput. 30, 2008; points are in Gray code order, as
    in SciPy. Scrambling is a random linear map of the digits and a shift: Matoušek, "On the
    L2-discrepancy for anchored boxes", J. Complexity 14, 1998.

    Examples
    --------
    >>> sobol(None, 4, 2)
    Tensor([[0.  , 0.  ],
            [0.5 , 0.5 ],
            [0.75, 0.25],
            [0.25, 0.75]])
    """
    wanted = as_dtype(dtype, "f", "sobol", _NO_KEY if key is None else key)
    dimension, numbers = _dimension(d, LARGEST, "sobol"), _numbers(n, start, "sobol")
    directions = fnp.asarray(direction_numbers(dimension, _DIGITS))
    shift: Tensor = fnp.zeros(dimension, dtype=np.uint64)
    if key is not None:
        (inner,) = inner_keys(key, 1, "sobol", repeats=True)
        words = words_of(inner, (dimension, 64))
        directions, shift = _mapped(words[:, :_DIGITS], directions), words[:, -1]
    gray = (numbers ^ (numbers >> np.uint64(1)))[:, None]
    points = shift[None, :]
    for k in range(_DIGITS):
        bit = (gray >> np.uint64(k)) & np.uint64(1)
        points = points ^ (bit * directions[:, k])
    return apply(bits_to_uniform, points, dtype=wanted)


def _mapped(words: Tensor, directions: Tensor) -> Tensor:
    """Multiply digits by a random triangular matrix with ones on the diagonal, modulo 2."""
    mapped: Tensor = fnp.zeros_like(directions)
    for j in range(_DIGITS):
        digit = np.uint64(1 << (63 - j))
        above = np.uint64((2**64 - 1) - (2 ** (64 - j) - 1)) if j else np.uint64(0)
        row = (words[:, j, None] & above) | digit
        parity = fnp.astype(fnp.bitwise_count(directions & row), np.uint64) & np.uint64(1)
        mapped = mapped | (parity * digit)
    return mapped


@answering
def halton(
    key: ArrayLike | None,
    n: SupportsIndex,
    d: SupportsIndex,
    start: ArrayLike = 0,
    dtype: DTypeLike = np.float64,
) -> Tensor:
    """The scrambled Halton sequence: coordinate k has the digits of the index in a prime base.

    Parameters
    ----------
    key, n, start, dtype
        As for ``sobol``. The number of points need not be a power of two.
    d : int
        The dimension of the cube, up to 1024; ``sobol`` is better in high dimensions.

    Returns
    -------
    Tensor of shape (n, d)
        Points in [0, 1).

    Raises
    ------
    ArgumentError
        ``d`` is too large, or ``start`` negative or from 2**53 on.

    Notes
    -----
    Every digit c becomes ``a c + b`` modulo the prime, with random a and b for each digit and each
    coordinate: Matoušek, as for ``sobol``.

    Examples
    --------
    >>> halton(None, 3, 2)
    Tensor([[0.        , 0.        ],
            [0.5       , 0.33333333],
            [0.25      , 0.66666667]])
    """
    wanted = as_dtype(dtype, "f", "halton", _NO_KEY if key is None else key)
    dimension, numbers = _dimension(d, 1024, "halton"), _numbers(n, start, "halton")
    primes = _primes(dimension)
    bases = fnp.asarray(np.array(primes, np.uint64))
    # Python rounds the quotient of integers once. Digits beyond the precision of float64 are
    # dropped.
    weights = np.array([[1 / b ** (j + 1) for b in primes] for j in range(_DIGITS)])
    weights[weights < 2.0**-_DIGITS] = 0.0
    factors = shifts = None
    if key is not None:
        (inner,) = inner_keys(key, 1, "halton", repeats=True)
        words = words_of(inner, (dimension, _DIGITS, 2)) >> np.uint64(11)
        factors = 1 + words[..., 0] % (bases - np.uint64(1))[:, None]
        shifts = words[..., 1] % bases[:, None]
    total: Tensor = fnp.zeros((numbers.shape[0], dimension))
    left = fnp.broadcast_to(numbers[:, None], total.shape)
    for j in range(_DIGITS):
        digit = left % bases
        if factors is not None and shifts is not None:
            digit = (digit * factors[:, j] + shifts[:, j]) % bases
        total = total + fnp.astype(digit, np.float64) * weights[j]
        left = left // bases
    drawn: Tensor = wrap(cast(total, dtype=wanted))
    return fnp.minimum(drawn, np.nextafter(wanted.type(1), wanted.type(0)))


def _dimension(d: SupportsIndex, most: int, operation: str) -> int:
    (number,) = as_shape((d,), operation)
    if not 0 < number <= most:
        raise ArgumentError(
            f"{operation}: the dimension d has to be from 1 to {most}, got {number}."
        )
    return number


def _numbers(n: SupportsIndex, start: ArrayLike, operation: str) -> Tensor:
    """The indices of the points."""
    (count,) = as_shape((n,), operation)
    value = operand(start, operation)
    if dtype_of(value).kind not in "iu" or shape_of(value):
        raise DtypeError(
            f"{operation}: start has to be an integer, got {dtype_of(value)} of shape"
            f" {shape_of(value)}."
        )
    raw = concrete(value)
    if type(raw) in RAW and not 0 <= int(raw) <= 2**_DIGITS - count:
        raise ArgumentError(
            f"{operation}: indices of points have to be below 2**53, but start={raw} and n={count}"
            " exceed it."
        )
    first: Tensor = wrap(cast(value, dtype=_WORD))
    return first + fnp.arange(count, dtype=np.uint64)


def _primes(count: int) -> list[int]:
    primes: list[int] = []
    candidate = 2
    while len(primes) < count:
        if all(candidate % prime for prime in primes if prime * prime <= candidate):
            primes.append(candidate)
        candidate += 1
    return primes
