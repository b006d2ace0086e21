"""Random bits, and their conversion to samples: the primitives behind ``funcgrad.random``.

A key is 128 bits, as two uint64. It keys the Philox4x64-10 cipher (Salmon, Moraes, Dror, Shaw,
"Parallel random numbers: as easy as 1, 2, 3", SC 2011), which turns a 256-bit counter into 256
random bits. Random bits are the encrypted counters 0, 1, 2, ...; other uses of a key (splitting it,
folding an integer into it) have separate counters, distinguished by the top word, so that they
never share bits.

>>> random_bits(np.zeros(2, np.uint64), shape=(2,), stream=BITS)
array([ 1609277786247541068, 15789900245555285980], dtype=uint64)

NumPy supplies only the cipher. The conversions from bits to samples are written here, with
operations that every machine rounds alike, because NumPy may change the conversions of its
``Generator``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final

import numpy as np

from funcgrad._core import intrinsics
from funcgrad._core.primitive import DISCRETE, Kinks, Primitive, Sample
from funcgrad._core.specs import Shape, Spec, broadcast_shapes, shape_of
from funcgrad._core.structure.structures import OWNS, Algebra, Random
from funcgrad._core.trace import Raw, Value
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.elementwise import elementwise
from funcgrad._primitives.special import DOUBLE, exact_log, ndtri_of, quick_ndtri
from funcgrad._primitives.structural import reshape

Array = np.ndarray[Any, Any]

BITS: Final = 0
SPLIT: Final = 1
_FOLD: Final = 2
ATTEMPTS: Final = 3
_WORD: Final = 2**64 - 1
_MANY: Final = 24
"""Beyond this number the formula, hundreds of calls of NumPy, beats a NumPy generator for each."""

_MULTIPLIERS: Final = 0xD2E7470EE14C6C93, 0xCA5A826395121157
_STEPS: Final = 0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B
"""The constants of Philox4x64: the multipliers of the rounds, and the increments of the key."""


def _cipher(key: Array, start: int, count: int) -> Array:
    """``count`` words: the encrypted counters ``start``, ``start + 1`` and so on."""
    before = (start - 1) % 2**256  # NumPy steps the counter before it encrypts
    words = np.array([before >> shift & _WORD for shift in (0, 64, 128, 192)], np.uint64)
    # np.random loads here, on first use, and not on import.
    return np.random.Philox(key=key, counter=words).random_raw(count)


def _block(
    m: Algebra, first: Value, second: Value, number: Value, stream: int
) -> tuple[Value, ...]:
    """The cipher as a formula: four words, from a key and the lowest and highest of a counter's."""
    words: tuple[Value, ...] = (number, 0, 0, stream)
    for step in range(10):
        upper, lower = _multiply(_MULTIPLIERS[0], words[0])
        other_upper, other_lower = _multiply(_MULTIPLIERS[1], words[2])
        moves = [length * step & _WORD for length in _STEPS]
        words = (
            other_upper ^ words[1] ^ (first + moves[0]),
            other_lower,
            upper ^ words[3] ^ (second + moves[1]),
            lower,
        )
    return words


def _random_bits(key: Raw, shape: Shape, stream: int) -> Array:
    keys = np.asarray(key, np.uint64)
    lead, count = keys.shape[:-1], math.prod(shape)
    if not lead:
        return _cipher(keys, stream << 192, count).reshape(shape)
    out = np.empty((math.prod(lead), count), np.uint64)
    for row, one in zip(out, keys.reshape(-1, 2), strict=True):
        row[:] = _cipher(one, stream << 192, count)
    return out.reshape(lead + shape)


def _bits_samples() -> Iterator[Sample]:
    key = np.array([1, 2], np.uint64)
    for shape in ((), (3,), (2, 3), (0,)):
        yield Sample((key,), {"shape": shape, "stream": BITS})
    keys = np.arange(8, dtype=np.uint64).reshape(2, 2, 2)
    yield Sample((keys[::-1],), {"shape": (3,), "stream": SPLIT})


random_bits: Primitive = Primitive(
    "random_bits",
    _random_bits,
    lambda key, shape, stream: Spec((*key.shape[:-1], *shape), np.dtype(np.uint64)),
    DISCRETE,
    # Each key of an array gives its own bits.
    lambda primitive, size, args, batched, params: primitive(*args, **params),
    _bits_samples,
    structure=Random(
        lambda m, first, second, number, shape, stream: _block(m, first, second, number, stream)
    ),
    traits=OWNS,
)


def _fold_key(key: Raw, data: Raw) -> Array:
    keys, numbers = np.asarray(key, np.uint64), np.asarray(data).astype(np.uint64)
    lead = np.broadcast_shapes(keys.shape[:-1], numbers.shape)
    if math.prod(lead) > _MANY:
        block = _block(intrinsics, keys[..., 0], keys[..., 1], numbers, _FOLD)
        return np.stack([np.broadcast_to(word, lead) for word in block[:2]], axis=-1)
    out = np.empty((*lead, 2), np.uint64)
    keys = np.broadcast_to(keys, out.shape)
    numbers = np.broadcast_to(numbers, lead)
    for index in np.ndindex(lead):
        out[index] = _cipher(keys[index], (_FOLD << 192) + int(numbers[index]), 2)
    return out


def _batch_fold(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    _: tuple[Value, ...],
) -> Value:
    """Align the axes of keys and of integers; a key's last axis, its two words, is not counted."""
    ranks = [
        len(shape_of(arg)) - flag - last
        for arg, flag, last in zip(args, batched, (1, 0), strict=True)
    ]
    aligned = [
        reshape(arg, shape=(size,) + (1,) * (max(ranks) - rank) + shape_of(arg)[1:])
        if flag and rank < max(ranks)
        else arg
        for arg, flag, rank in zip(args, batched, ranks, strict=True)
    ]
    return primitive(*aligned)


def _fold_samples() -> Iterator[Sample]:
    key = np.array([1, 2], np.uint64)
    yield Sample((key, 3))
    yield Sample((key, np.arange(3)))
    yield Sample((np.arange(6, dtype=np.uint64).reshape(3, 2), np.arange(3)[::-1]))
    yield Sample((np.arange(6, dtype=np.uint64).reshape(3, 2), np.arange(30)[:, None]))


fold_key: Primitive = Primitive(
    "fold_key",
    _fold_key,
    lambda key, data: Spec(
        (*broadcast_shapes("fold_in", key.shape[:-1], data.shape), 2), np.dtype(np.uint64)
    ),
    DISCRETE,
    _batch_fold,
    _fold_samples,
    structure=Random(lambda m, first, second, number: _block(m, first, second, number, _FOLD)),
    traits=OWNS,
)


# ------------------------------------------------------------------------------ bits into samples


def _bit_samples(arity: int = 1, **params: Hashable) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        bits = np.array([0, 1, 2**11, 2**63, 2**64 - 1, 12345678901234567890], np.uint64)
        for x in (bits, bits[::-2], bits[:0], bits[5]):
            yield Sample((x,) * arity, params)
        yield Sample((bits[:, None], bits[::-1], bits[1], bits[5])[:arity], params)

    return samples


_DIGITS: Final = tuple([(np.dtype(char), np.finfo(char).nmant + 1) for char in "efd"])


def _uniform(m: Algebra, bits: Value, dtype: np.dtype[Any]) -> Value:
    """Samples of [0, 1): as many leading bits as the dtype has, over ``2**digits``."""
    digits = dict(_DIGITS)[dtype]
    return m.astype(bits >> 64 - digits, dtype) * 2.0**-digits


bits_to_uniform: Primitive = elementwise(
    "bits_to_uniform",
    formula=_uniform,
    partials=None,
    samples=_bit_samples(dtype=np.dtype(np.float64)),
)


def _open_uniform(m: Algebra, bits: Value) -> Value:
    """Odd multiples of ``2**-53``: neither 0 nor 1, and symmetric about 1/2."""
    return m.astype(bits >> 11 | 1, DOUBLE) * 2.0**-53


def _continuous(
    name: str,
    quantile: Callable[[Algebra, Value], Value],
    quick: Callable[[Array], Array] | None = None,
) -> Primitive:
    """Draw by the inverse distribution function: one word makes one number, also in the tails."""

    def formula(m: Algebra, bits: Value, dtype: np.dtype[Any]) -> Value:
        number = quantile(m, _open_uniform(m, bits))
        return number if dtype == DOUBLE else m.astype(number, dtype)

    def evaluate(bits: Raw, dtype: np.dtype[Any]) -> Raw:
        assert quick is not None
        return quick(np.asarray(_open_uniform(intrinsics, bits))).astype(dtype)

    return elementwise(
        name,
        quick and evaluate,
        formula=formula,
        partials=None,
        samples=_bit_samples(dtype=np.dtype(np.float64)),
        traits=OWNS,
    )


bits_to_open_uniform: Primitive = _continuous("bits_to_open_uniform", lambda _, u: u)
bits_to_normal: Primitive = _continuous("bits_to_normal", ndtri_of, quick_ndtri)
bits_to_exponential: Primitive = _continuous("bits_to_exponential", lambda m, u: -exact_log(m, u))
bits_to_gumbel: Primitive = _continuous(
    "bits_to_gumbel", lambda m, u: -exact_log(m, -exact_log(m, u))
)
bits_to_laplace: Primitive = _continuous(
    "bits_to_laplace", lambda m, u: m.copysign(exact_log(m, 2 * m.minimum(u, 1 - u)), u - 0.5)
)
bits_to_logistic: Primitive = _continuous(
    "bits_to_logistic", lambda m, u: exact_log(m, u) - exact_log(m, 1 - u)
)


def _cauchy(m: Algebra, u: Value) -> Value:
    """``tan(pi (u - 1/2))``: sine over cosine of at most pi / 4, or beyond it the inverse."""
    centre = u - 0.5
    inner = m.absolute(centre) <= 0.25
    angle = math.pi * m.where(inner, m.absolute(centre), m.minimum(u, 1 - u))
    sine, cosine, square = 0.0, 0.0, angle * angle
    for k in range(9, -1, -1):  # Taylor's series
        sine = sine * -square + 1 / math.factorial(2 * k + 1)
        cosine = cosine * -square + 1 / math.factorial(2 * k)
    sine = sine * angle
    ratio = m.divide(m.where(inner, sine, cosine), m.where(inner, cosine, sine))
    return m.copysign(ratio, centre)


bits_to_cauchy: Primitive = _continuous("bits_to_cauchy", _cauchy)


def _integer(
    m: Algebra, high: Value, low: Value, start: Value, span: Value, dtype: np.dtype[Any]
) -> Value:
    """``start + floor(random * span / 2**128)`` modulo 2**64, for a random 128-bit integer.

    Lemire's multiplication ("Fast random integer generation in an interval", ACM TOMACS 29, 2019).
    It is biased by less than ``span / 2**128``, which cannot be detected, so nothing needs to be
    rejected, and each sample depends only on its own bits. A span of 0 means ``2**64``.
    """
    upper, lower = _multiply(high, span)
    carried, _ = _multiply(low, span)
    offset = m.where(m.equal(span, 0), high, upper + (lower + carried < lower))
    return m.astype(start + offset, dtype)


def _integer_of_arrays(*args: Raw, dtype: np.dtype[Any]) -> Raw:
    """Arrays of at least one axis: NumPy's scalars warn of the overflow that is meant here."""
    shape = np.broadcast_shapes(*map(np.shape, args))
    high, low, start, span = map(np.atleast_1d, args)
    return _integer(intrinsics, high, low, start, span, dtype).reshape(shape)[()]


def _multiply(x: Value, y: Value) -> tuple[Value, Value]:
    """The upper and the lower 64 bits of products of 64-bit integers, by halves."""
    half, mask = 32, 2**32 - 1
    x1, x0, y1, y0 = x >> half, x & mask, y >> half, y & mask
    low = x0 * y0
    middle = x1 * y0 + (low >> half)
    middle_low = (middle & mask) + x0 * y1
    return x1 * y1 + (middle >> half) + (middle_low >> half), x * y


bits_to_integer: Primitive = elementwise(
    "bits_to_integer",
    _integer_of_arrays,
    formula=_integer,
    partials=None,
    samples=_bit_samples(4, dtype=np.dtype(np.int64)),
    traits=OWNS,
)


def _search(cumulative: Raw, x: Raw) -> Array:
    """The first position whose cumulative weight exceeds x times the total, row by row."""
    weights, x = np.asarray(cumulative), np.asarray(x)
    lead = weights.shape[:-1]
    out = np.empty(x.shape, np.int64)
    for index in np.ndindex(lead):
        row = weights[index]
        # Rounding may make x * total reach the total: the last position of any weight, then.
        last = np.searchsorted(row, row[-1], side="left")
        positions = np.searchsorted(row, x[index] * row[-1], side="right")
        out[index] = np.minimum(positions, last)
    return out


def _batch_search(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    _: tuple[Value, ...],
) -> Value:
    """Give both arguments the batch axis."""
    rows = [
        arg if flag else broadcast_to(arg, shape=(size, *shape_of(arg)))
        for arg, flag in zip(args, batched, strict=True)
    ]
    return primitive(*rows)


def _search_samples() -> Iterator[Sample]:
    weights = np.cumsum([[0.0, 1.0, 2.0, 0.0], [3.0, 0.0, 1.0, 1.0]], axis=1)
    x = np.array([[0.0, 0.3, 0.99], [0.5, 0.6, 0.7]])
    yield Sample((weights, x))
    yield Sample((weights[0], 0.5))
    yield Sample((weights[:, None, ::2], x[:, None]))
    yield Sample((weights[0], x[:, :0]))


search_cumulative: Primitive = Primitive(
    "search_cumulative",
    _search,
    lambda cumulative, x: Spec(x.shape, np.dtype(np.int64)),
    DISCRETE,
    _batch_search,
    _search_samples,
    kinks=Kinks(lambda cumulative, x: x[..., None] - cumulative[..., None, :]),
)
