"""Counts: Poisson, binomial, multinomial and geometric distributions; signs.

A small mean takes one uniform sample and a sum of probabilities; a large mean takes Hörmann's
transformed rejection ("The transformed rejection method for generating Poisson random variables",
1993; "The generation of binomial random variates", 1993). Logarithms of probabilities are computed
from deviances, as in Loader, "Fast and accurate computation of binomial probabilities", 2000, which
keep all digits for large counts.

>>> from funcgrad.random.keys import key
>>> poisson(key(0), [0.5, 4.0, 1e6])
Tensor([      0,      12, 1001169])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._control.scans import scan
from funcgrad._control.whiles import while_loop
from funcgrad._core.specs import Shape, ShapeLike, shape_of
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.random_bits import bits_to_exponential, fold_key
from funcgrad._primitives.special import portable_exp, portable_log, portable_log1p
from funcgrad._primitives.structural import cast
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ShapeError
from funcgrad.random.parameters import check_broadcast, drawn_shape, parameter, require
from funcgrad.random.philox import as_dtype, as_shape, draw, random_words
from funcgrad.random.rejection import DOUBLE, inner_keys, open_uniform, rejected, words_of
from funcgrad.tensor.tensor import Tensor, apply, apply1, wrap

_FEW: Final = 10.0
"""Up to this mean the probabilities are added up."""

_MOST: Final = 2.0**62

# fmt: off
_SMALL: Final = (
    0.0, 1.0, 1.3068528194400546, 1.4959226032237258, 1.6328763858683832,
    1.7403021806115442, 1.828694396641771, 1.9037903176782212, 1.9690705693065629,
    2.0268062840554952,
)
# fmt: on
"""Values of ``log(k!) - k log(k) + k`` for k = 0, 1, ..."""


def _excess(k: Tensor) -> Tensor:
    """``log(k!) - k log(k) + k``: by Stirling's series beyond the table."""
    index = fnp.astype(fnp.clip(k, 0.0, len(_SMALL) - 1), np.int64)
    large = fnp.maximum(k, float(len(_SMALL)))
    square = large * large
    series = (
        1 / 12 - (1 / 360 - (1 / 1260 - (1 / 1680 - 1 / 1188 / square) / square) / square) / square
    )
    far = 0.5 * apply1(portable_log, 2 * math.pi * large) + series / large
    near = fnp.take(fnp.asarray(_SMALL), index)
    return fnp.where(k < len(_SMALL), near, far)


def _deviance(k: Tensor, mean: Tensor) -> Tensor:
    """``k log(k / mean) + mean - k``."""
    excess = (k - mean) / mean
    some = k > 0
    logarithm = apply1(portable_log1p, fnp.where(some, excess, 0.0))
    return fnp.where(some, k * logarithm - (k - mean), mean)


def _added_up(u: Tensor, first: Tensor, ratio: Callable[[Tensor], Tensor], few: Tensor) -> Tensor:
    """The first count at which the sum of probabilities exceeds u; 0 unless ``few``.

    Rounding may keep the sum below u; the limit ends the loop then.
    """

    def beyond(state: tuple[Tensor, ...]) -> Tensor:
        return few & (u > state[2]) & (state[0] < 100.0)

    def count(state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        k, p, total = state
        goes_on = beyond(state)
        p = fnp.where(goes_on, p * ratio(k), p)
        return fnp.where(goes_on, k + 1, k), p, fnp.where(goes_on, total + p, total)

    start = (fnp.zeros_like(u), first + fnp.zeros_like(u), first + fnp.zeros_like(u))
    counted: tuple[Tensor, ...] = while_loop(lambda s: fnp.any(beyond(s)), count, start)
    return counted[0]


def _proposed(words: Tensor, a: Tensor, b: Tensor, centre: Tensor) -> tuple[Tensor, ...]:
    """Hörmann's table mountain: an integer, the level, the hat, the distance to the edge."""
    u, level = open_uniform(words[..., 0]) - 0.5, open_uniform(words[..., 1])
    edge = fnp.maximum(0.5 - fnp.abs(u), 2.0**-54)
    k = fnp.floor((2 * a / edge + b) * u + centre)
    return k, level, a / (edge * edge) + b, edge


def _poisson(inner: Tensor, mean: Tensor, shape: Shape) -> Tensor:
    few = mean < _FEW
    small, mu = fnp.where(few, mean, 1.0), fnp.where(few, _FEW, mean)
    b = 0.931 + 2.53 * fnp.sqrt(mu)
    a = -0.059 + 0.02483 * b
    quick, height = 0.9277 - 3.6224 / (b - 2), 1.1239 + 1.1328 / (b - 3.4)

    def attempt(words: Tensor) -> tuple[Tensor, Tensor]:
        k, level, hat, edge = _proposed(words, a, b, mu + 0.43)
        outside = (k < 0) | ((edge < 0.013) & (level > edge))
        count = fnp.where(outside, 0.0, k)
        probability = -_deviance(count, mu) - _excess(count)
        above = apply1(portable_log, level * height / hat) > probability
        inside = (edge >= 0.07) & (level <= quick)
        return k, ~few & ~inside & (outside | above)

    many = rejected(inner, shape, 2, attempt)
    u = open_uniform(words_of(inner, shape))
    added = _added_up(u, apply1(portable_exp, -small), lambda k: small / (k + 1), few)
    return fnp.where(few, added, many)


def _binomial(inner: Tensor, n: Tensor, p: Tensor, shape: Shape) -> Tensor:
    """Count the rarer of the two outcomes."""
    turned = p > 0.5
    q = fnp.where(turned, 1 - p, p)
    few = n * q < _FEW
    odds = q / (1 - q)
    first = apply1(portable_exp, fnp.where(few, n, 0.0) * apply1(portable_log1p, -q))
    u = open_uniform(words_of(inner, shape))
    added = _added_up(u, first, lambda k: fnp.maximum(n - k, 0.0) / (k + 1) * odds, few)

    number, chance = fnp.where(few, 40.0, n), fnp.where(few, 0.5, q)
    mean, other = number * chance, number * (1 - chance)
    deviation = fnp.sqrt(mean * (1 - chance))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * chance
    quick, height = 0.92 - 4.2 / b, (2.83 + 5.1 / b) * deviation

    def log_probability(k: Tensor) -> Tensor:
        """Up to a constant."""
        missing = number - k
        deviances = _deviance(k, mean) + _deviance(missing, other)
        return -deviances - _excess(k) - _excess(missing)

    mode = log_probability(fnp.floor((number + 1) * chance))

    def attempt(words: Tensor) -> tuple[Tensor, Tensor]:
        k, level, hat, edge = _proposed(words, a, b, mean + 0.5)
        outside = (k < 0) | (k > number)
        difference = log_probability(fnp.where(outside, 0.0, k)) - mode
        above = apply1(portable_log, level * height / hat) > difference
        inside = (edge >= 0.07) & (level <= quick)
        return k, ~few & (outside | (~inside & above))

    count = fnp.where(few, added, rejected(inner, shape, 2, attempt))
    return fnp.where(turned, n - count, count)


def _whole(numbers: Tensor, valid: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """Convert counts to an integer dtype, clipped to its range; -1 (0 if unsigned) if invalid."""
    limits = np.iinfo(dtype)
    most = min(float(limits.max), np.nextafter(2.0**63, 0.0))
    return wrap(
        cast(fnp.where(valid, fnp.minimum(numbers, most), max(limits.min, -1)), dtype=dtype)
    )


@answering
def poisson(
    key: ArrayLike,
    lam: ArrayLike = 1.0,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.int64,
) -> Tensor:
    """Draw from the Poisson distribution: counts of events with a given mean.

    Parameters
    ----------
    key : key
    lam : array_like
        The mean, from 0 to 2**62.
    shape : int or tuple of int, optional
        By default the shape of the parameters, which broadcast to it.
    dtype : dtype
        An integer dtype. Counts beyond its range become its maximum.

    Returns
    -------
    Tensor
        Without derivatives.

    Raises
    ------
    ArgumentError
        A parameter is out of range. Where it is traced, the count is -1 instead (0 if unsigned).

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> poisson(key(0), 4.0, 5)
    Tensor([ 0, 12,  6,  3,  4])
    """
    wanted = as_dtype(dtype, "iu", "poisson", key)
    require(lambda lam: (lam >= 0) & (lam <= _MOST), "poisson", "0 <= lam <= 2**62", lam)
    size = drawn_shape(shape, "poisson", lam=lam)
    mean = stop_gradient(parameter(lam, DOUBLE, "poisson", "lam", size))
    valid = (mean >= 0) & (mean <= _MOST)
    (inner,) = inner_keys(key, 1, "poisson")
    return _whole(_poisson(inner, fnp.where(valid, mean, 1.0), size), valid, wanted)


@answering
def binomial(
    key: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.int64,
) -> Tensor:
    """Draw from the binomial distribution: the number of successes in ``n`` trials.

    Parameters
    ----------
    key : key
    n : array_like
        Numbers of trials, from 0 to 2**53.
    p : array_like
        The probability of a success.
    shape, dtype
        As for ``poisson``.

    Returns
    -------
    Tensor
        Without derivatives.

    Raises
    ------
    ArgumentError
        A parameter is out of range, see ``poisson``; or n is not an integer.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> binomial(key(0), 10, 0.3, 5)
    Tensor([0, 8, 4, 2, 3])
    """
    wanted = as_dtype(dtype, "iu", "binomial", key)
    require(_are_trials, "binomial", "0 <= n <= 2**53, whole", n)
    require(_are_shares, "binomial", "0 <= p <= 1", p)
    size = drawn_shape(shape, "binomial", n=n, p=p)
    trials = stop_gradient(parameter(n, DOUBLE, "binomial", "n", size))
    chance = stop_gradient(parameter(p, DOUBLE, "binomial", "p", size))
    valid = _are_trials(trials) & _are_shares(chance)
    (inner,) = inner_keys(key, 1, "binomial")
    safe = fnp.where(valid, trials, 0.0), fnp.where(valid, chance, 0.0)
    return _whole(_binomial(inner, *safe, size), valid, wanted)


def _are_trials(n: Tensor) -> Tensor:
    return (n >= 0) & (n <= 2**53) & (n % 1 == 0)


def _are_shares(p: Tensor) -> Tensor:
    return (p >= 0) & (p <= 1)


@answering
def multinomial(
    key: ArrayLike,
    n: ArrayLike,
    p: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.int64,
) -> Tensor:
    """Draw from the multinomial distribution: how many of ``n`` trials end in each class.

    Parameters
    ----------
    key : key
    n : array_like
        Numbers of trials, see ``binomial``.
    p : array_like
        Weights of the classes along the last axis; the probabilities are proportional to them.
    shape : int or tuple of int, optional
        The shape without the axis of the classes; by default the shape to which ``n`` and ``p``
        without its last axis broadcast.
    dtype : dtype
        An integer dtype.

    Returns
    -------
    Tensor
        Counts, which add up to ``n`` along the last axis; without derivatives.

    Raises
    ------
    ArgumentError
        A weight is negative or not finite, or none is positive.
    ShapeError
        ``p`` has no classes.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> multinomial(key(0), 100, [1.0, 2.0, 1.0])
    Tensor([33, 48, 19])
    """
    wanted = as_dtype(dtype, "iu", "multinomial", key)
    require(_are_trials, "multinomial", "0 <= n <= 2**53, whole", n)
    lengths = shape_of(operand(p, "multinomial"))
    if not lengths or not lengths[-1]:
        raise ShapeError(
            "multinomial: p needs a last axis with one weight for each class; its shape is"
            f" {lengths}."
        )
    described = "0 <= p, finite, and one of them positive"
    require(
        lambda p: ((p >= 0) & np.isfinite(p)).all(-1) & (p > 0).any(-1), "multinomial", described, p
    )
    weights = stop_gradient(parameter(p, DOUBLE, "multinomial", "p", lengths))
    size = _shape_of_counts(shape, n, lengths)
    trials = stop_gradient(parameter(n, DOUBLE, "multinomial", "n", size))
    # The remaining trials end in a class with probability weight / remaining weights.
    remaining = fnp.flip(fnp.cumsum(fnp.flip(weights, axis=-1), axis=-1), axis=-1)
    shares = fnp.where(remaining > 0, weights / fnp.where(remaining > 0, remaining, 1.0), 0.0)
    valid = _are_trials(trials) & fnp.isfinite(remaining[..., 0]) & fnp.all(weights >= 0, axis=-1)
    (inner,) = inner_keys(key, 1, "multinomial")

    def choose(left: Tensor, class_: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        count = _binomial(apply(fold_key, inner, class_[0]), left, class_[1], size)
        return left - count, count

    start = fnp.broadcast_to(fnp.where(valid, trials, 0.0), size)
    classes = (fnp.arange(lengths[-1]), fnp.moveaxis(shares, -1, 0))
    _, counts = scan(choose, start, classes)
    return _whole(fnp.moveaxis(counts, 0, -1), valid[..., None], wanted)


def _shape_of_counts(shape: ShapeLike | None, n: ArrayLike, lengths: Shape) -> Shape:
    if shape is None:
        return drawn_shape(None, "multinomial", n=n, p=np.empty(lengths[:-1]))
    size = drawn_shape(shape, "multinomial", n=n)
    check_broadcast(lengths[:-1], size, "multinomial", "p without the last axis")
    return size


@answering
def geometric(
    key: ArrayLike, p: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = np.int64
) -> Tensor:
    """Draw from the geometric distribution: the number of trials up to the first success.

    Parameters
    ----------
    key : key
    p : array_like
        The probability of a success, above 0.
    shape, dtype
        As for ``poisson``.

    Returns
    -------
    Tensor
        Without derivatives.

    Raises
    ------
    ArgumentError
        A probability is not above 0, or above 1; see ``poisson``.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> geometric(key(0), 0.2, 5)
    Tensor([11,  1,  1,  4, 20])
    """
    wanted = as_dtype(dtype, "iu", "geometric", key)
    require(lambda p: (p > 0) & (p <= 1), "geometric", "0 < p <= 1", p)
    size = drawn_shape(shape, "geometric", p=p)
    chance = stop_gradient(parameter(p, DOUBLE, "geometric", "p", size))
    valid = (chance > 0) & (chance <= 1)
    safe = fnp.where(valid & (chance < 1), fnp.maximum(chance, 1e-290), 0.5)
    waited = draw(bits_to_exponential, key, size, DOUBLE, "geometric")
    counts = fnp.floor(waited / -apply1(portable_log1p, -safe)) + 1
    return _whole(fnp.where(chance == 1, 1.0, counts), valid, wanted)


@answering
def rademacher(key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = np.int64) -> Tensor:
    """Draw signs, 1 and -1, with the same probability.

    Parameters
    ----------
    key : key
    shape : int or tuple of int
    dtype : dtype
        An integer or a real dtype, signed.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> rademacher(key(0), 5)
    Tensor([ 1, -1, -1,  1,  1])
    """
    wanted = as_dtype(dtype, "if", "rademacher", key)
    words = random_words(key, as_shape(shape, "rademacher"), "rademacher")
    signs = 1 - 2 * fnp.astype(words >> np.uint64(63), np.int64)
    return wrap(cast(signs, dtype=wanted))
