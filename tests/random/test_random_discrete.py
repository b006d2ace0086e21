"""Discrete random numbers: integers, permutations and choices, uniform or weighted.

The seeds are fixed, so statistical bounds are checked once and for all.
"""

from collections import Counter
from itertools import permutations
from math import comb, factorial, lgamma, log

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import funcgrad as fg
from funcgrad import random
from funcgrad.errors import ArgumentError, AxisError, DtypeError, ShapeError
from funcgrad.random.count_draws import _excess
from tests.together import together

KEY = random.key(20)
SAMPLE = 20_000


def array(x):
    return np.asarray(x)


def passes_chi2(counts, probabilities):
    """Pearson's test, which one seed in ten thousand fails."""
    expected = np.sum(counts) * np.asarray(probabilities)
    return stats.chisquare(counts, expected).pvalue > 1e-4


# ---------------------------------------------------------------------------------------- integers


@together("dtype", [f"{sign}int{n}" for sign in ("", "u") for n in (8, 16, 32, 64)])
def test_integers_of_every_dtype(dtype):
    info = np.iinfo(dtype)
    numbers = random.randint(KEY, 1000, info.min, info.max + 1, dtype)
    assert numbers.dtype == dtype
    u = (array(numbers).astype(np.float64) - info.min) / (float(info.max) + 1 - info.min)
    assert abs(u.mean() - 0.5) < 0.04
    assert random.randint(KEY, (), info.max, info.max + 1, dtype).item() == info.max
    assert random.randint(KEY, (), info.min, info.min + 1, dtype).item() == info.min


@pytest.mark.parametrize("span", [2, 3, 7, 10])
def test_integers_are_equally_probable(span):
    numbers = array(random.randint(KEY, SAMPLE, -1, span - 1))
    assert passes_chi2(np.bincount(numbers + 1, minlength=span), np.full(span, 1 / span))


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**64), st.integers(0, 2**64))
def test_integers_are_the_exact_multiplication(low, span, seed):
    high = min(low + span, 2**63)
    number = random.randint(random.key(seed), (), low, high).item()
    first, second = random.bits(random.key(seed), 2).tolist()
    assert number == low + ((first * 2**64 + second) * (high - low) >> 128)
    assert low <= number < high


def test_integer_bounds_broadcast():
    numbers = array(random.randint(KEY, (1000, 2), [0, 10], fg.tensor([3, 11])))
    assert set(numbers[:, 0]) == {0, 1, 2}
    assert set(numbers[:, 1]) == {10}
    mixed = array(random.randint(KEY, 100, np.uint8(3), np.int16(5)))
    assert set(mixed) == {3, 4}


@together(
    ("bounds", "dtype", "error", "text"),
    [
        ((3, 3), "int64", ArgumentError, "minval has to be below maxval"),
        ((4, 3), "int64", ArgumentError, "minval has to be below maxval"),
        (([0, 5], [3, 5]), "int64", ArgumentError, "minval has to be below maxval"),
        ((0, 257), "uint8", ArgumentError, "maxval=257 is out of bounds for uint8"),
        ((-1, 5), "uint64", ArgumentError, "minval=-1 is out of bounds for uint64"),
        ((0.0, 3), "int64", DtypeError, "minval has to be of integers, got float64"),
        ((0, 3), "float64", DtypeError, "the dtype has to be an integer"),
        ((0, [1, 2, 3]), "int64", ShapeError, "maxval of shape"),
    ],
)
def test_bad_integer_bounds(bounds, dtype, error, text):
    with pytest.raises(error, match=text):
        random.randint(KEY, 2, bounds[0], bounds[1], dtype)


# --------------------------------------------------------------------------- permutations, choices


@given(st.integers(0, 50), st.integers(0, 2**64))
def test_permutations_are_permutations(n, seed):
    assert sorted(random.permutation(random.key(seed), n).tolist()) == list(range(n))


def test_all_permutations_are_equally_probable():
    keys = random.split(KEY, 6000)
    orders = Counter(map(tuple, fg.vmap(lambda key: random.permutation(key, 4))(keys).tolist()))
    counts = [orders[order] for order in permutations(range(4))]
    assert passes_chi2(counts, np.full(factorial(4), 1 / factorial(4)))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_permutation_moves_whole_slices(axis):
    x = np.arange(40).reshape(5, 8)
    moved = array(random.permutation(KEY, x, axis))
    assert moved.shape == x.shape
    order = array(random.permutation(KEY, x.shape[axis]))
    assert_array_equal(moved, np.take(x, order, axis))


def test_independent_permutations():
    x = np.tile(np.arange(8), (6, 1))
    moved = array(random.permutation(KEY, x, axis=1, independent=True))
    assert_array_equal(np.sort(moved, 1), x)
    assert len(set(map(tuple, moved))) > 1


def test_bad_permutations():
    with pytest.raises(ShapeError, match="permutation: expected a Python integer or an array"):
        random.permutation(KEY, 2.5)
    with pytest.raises(ArgumentError, match="at least 0, got -1"):
        random.permutation(KEY, -1)
    with pytest.raises(AxisError):
        random.permutation(KEY, np.zeros(3), 1)


def test_choice_with_replacement():
    x = np.array([3.0, 5.0, 9.0])
    drawn = array(random.choice(KEY, x, (SAMPLE,)))
    assert passes_chi2([np.sum(drawn == value) for value in x], np.full(3, 1 / 3))
    assert random.choice(KEY, x).shape == ()
    assert random.choice(KEY, np.ones((2, 3, 4)), (5, 6), axis=1).shape == (2, 5, 6, 4)
    assert random.choice(KEY, 0, (0, 2)).shape == (0, 2)


@pytest.mark.parametrize("p", [[0.1, 0.0, 0.6, 0.3, 0.0], [0, 0, 6, 3, 1], [0.0, 1e-300, 0, 0, 0]])
def test_choice_respects_weights(p):
    counts = np.bincount(array(random.choice(KEY, 5, SAMPLE, p=p)), minlength=5)
    p = np.array(p)
    assert (counts[p == 0] == 0).all()
    assert (counts > 0).sum() == np.count_nonzero(p)
    if (p > 0).sum() > 1:
        assert passes_chi2(counts[p > 0], p[p > 0] / p.sum())


@given(st.integers(0, 30), st.data())
def test_choice_without_replacement_is_unique(n, data):
    count = data.draw(st.integers(0, n))
    p = data.draw(st.none() | st.just(np.linspace(0.1, 2.0, n)))
    drawn = random.choice(random.key(n + 31 * count), n, count, replace=False, p=p).tolist()
    assert len(set(drawn)) == count
    assert set(drawn) <= set(range(n))


def test_choice_without_replacement_is_successive():
    p = np.array([0.5, 0.3, 0.2, 0.0])
    keys = random.split(KEY, SAMPLE)
    choose = fg.vmap(lambda key: random.choice(key, 4, 2, replace=False, p=p))
    pairs = Counter(map(tuple, array(choose(keys)).tolist()))
    expected = {(i, j): p[i] * p[j] / (1 - p[i]) for i, j in permutations(range(3), 2)}
    assert set(pairs) == set(expected)
    assert passes_chi2([pairs[pair] for pair in expected], list(expected.values()))


def test_subsets_are_equally_probable():
    choose = fg.vmap(lambda key: random.choice(key, 5, 2, replace=False))
    subsets = Counter(map(frozenset, array(choose(random.split(KEY, 5000))).tolist()))
    assert passes_chi2(list(subsets.values()), np.full(comb(5, 2), 1 / comb(5, 2)))


@together(
    ("arguments", "error", "text"),
    [
        (
            {"a": 3, "shape": 4, "replace": False},
            ArgumentError,
            "4 elements cannot be chosen from 3",
        ),
        ({"a": 0, "shape": 1}, ArgumentError, "1 elements cannot be chosen from 0"),
        ({"a": 3, "p": [0.5, 0.5]}, ShapeError, "one weight for each of the 3"),
        ({"a": 2, "p": [1.5, -0.5]}, ArgumentError, "finite and not negative"),
        ({"a": 2, "p": [1.0, np.nan]}, ArgumentError, "finite and not negative"),
        ({"a": 2, "p": [0.0, 0.0]}, ArgumentError, "only 0 of the weights"),
        ({"a": 2, "shape": 2, "replace": False, "p": [1.0, 0.0]}, ArgumentError, "only 1 of"),
        ({"a": 1.5}, ShapeError, "an array with an axis"),
        ({"a": [1, 2], "axis": 1}, AxisError, "axis 1"),
    ],
)
def test_bad_choices(arguments, error, text):
    with pytest.raises(error, match=text):
        random.choice(KEY, **arguments)


def test_bernoulli_numbers():
    drawn = array(random.bernoulli(KEY, [0.0, 0.2, 0.7, 1.0], (SAMPLE, 4)))
    assert drawn.dtype == bool
    assert_allclose(drawn.mean(0), [0, 0.2, 0.7, 1], atol=0.015)
    assert random.bernoulli(KEY, [0.5, 0.5]).shape == (2,)
    for p in (-0.1, 1.1, np.nan):
        with pytest.raises(ArgumentError, match="0 <= p <= 1"):
            random.bernoulli(KEY, p)
    with pytest.raises(ShapeError, match="p of shape"):
        random.bernoulli(KEY, [0.5, 0.5], 3)


def test_categorical_numbers():
    p = np.array([[0.1, 0.2, 0.7], [0.5, 0.5, 0.0]])
    with np.errstate(divide="ignore"):
        logits = np.log(p)
    drawn = array(random.categorical(KEY, logits + 3.0, shape=(SAMPLE, 2)))
    assert passes_chi2(np.bincount(drawn[:, 0]), p[0])
    assert passes_chi2(np.bincount(drawn[:, 1]), p[1, :2])
    assert random.categorical(KEY, logits).shape == (2,)
    assert random.categorical(KEY, logits, axis=0).shape == (3,)
    for nothing in ([-np.inf, -np.inf], [[0.0, 0.0], [0.0, np.nan]]):
        with pytest.raises(ArgumentError, match="no class can be drawn"):
            random.categorical(KEY, nothing)
    with pytest.raises(ShapeError, match="no classes"):
        random.categorical(KEY, np.zeros((3, 0)))
    with pytest.raises(ShapeError, match="does not broadcast"):
        random.categorical(KEY, logits, shape=3)


def test_logarithms_of_factorials_beyond_the_table() -> None:
    k = np.arange(1.0, 100.0)
    expected = [float(lgamma(n + 1) - n * log(n) + n) for n in k]
    assert_allclose(_excess(fg.tensor(k)), expected, rtol=0, atol=1e-12)
