"""Derivatives of products: right where factors are zero, in long rows, and of large numbers."""

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._primitives.cumulative import product_of_others
from funcgrad._primitives.recurrence import recurrence
from tests.together import together

WAYS: dict[str, Callable[[Callable[[Any], Any]], Callable[[Any], Any]]] = {
    "grad": fg.grad,
    "jit": lambda f: fg.jit(fg.grad(f)),
    "vmap": lambda f: lambda x: fg.vmap(fg.grad(f))(fnp.stack([x, x]))[0],
    "forward": lambda f: lambda x: fg.jacfwd(f)(x),
}
by_way = pytest.mark.parametrize("way", WAYS)

factors = st.lists(
    st.one_of(st.sampled_from([0.0, 1.0, -2.0, 1e200, 1e-200, 3e5]), st.floats(-4, 4)),
    min_size=1,
    max_size=9,
)


def other_products(row: Any) -> list[Fraction]:
    """Exactly."""
    found = []
    for k in range(len(row)):
        product = Fraction(1)
        for j, factor in enumerate(row):
            product *= Fraction(float(factor)) if j != k else 1
        found.append(product)
    return found


@given(factors)
def test_zeros_beside_large_numbers(row: list[float]) -> None:
    """Where a zero is among the others their product is 0, whatever else there is."""
    with np.errstate(all="ignore"):
        found = np.asarray(product_of_others(np.array(row)))
    for own, exact in zip(found, other_products(row), strict=True):
        if exact == 0:
            assert own == 0


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "rows": lambda x: x,
    "columns": lambda x: np.asfortranarray(x),
    "backwards": lambda x: np.ascontiguousarray(x[::-1])[::-1],
    "every other": lambda x: np.repeat(x, 2, 0)[::2],
    "vector": lambda x: x[:, 0],
    "one column": lambda x: x[:, :1].astype(np.complex64),
}


@together("zeros", [0, 1, 2])
@together("layout", LAYOUTS)
def test_products_of_any_number_of_factors(layout: str, zeros: int) -> None:
    """Pairs are made of even and odd numbers of factors, over and over. Exact in powers of two."""
    rng = np.random.default_rng(3)
    for size in [*range(70), 127, 128, 129, 255, 513, 1000, 1023]:
        x = rng.choice([-2.0, -1.0, -0.5, 0.5, 1.0, 2.0], (size, 3))
        x[:, 1] = np.where(np.arange(size) % 2, 2.0, -0.5)
        x[rng.choice(size, min(size, zeros), replace=False)] = 0
        x = LAYOUTS[layout](x)
        before, zero = x.copy(), x == 0
        products = np.prod(np.where(zero, 1, x), 0) / np.where(zero, 1, x)
        expected = np.where(np.sum(zero, 0) - zero > 0, 0, products)
        assert_array_equal(product_of_others(x), expected)
        assert_array_equal(x, before)


@by_way
@together("order", [(0, 1, 2, 3), (0, 2, 1, 3), (2, 0, 3, 1), (2, 3, 0, 1)])
def test_a_product_of_zeros_and_large_numbers(order: Any, way: str) -> None:
    x = np.array([1e200, 1e200, 0.0, 0.0])[list(order)]
    with np.errstate(all="ignore"):
        assert_array_equal(WAYS[way](fnp.prod)(x), np.zeros(4))


def test_tangents_of_running_products_behind_zeros() -> None:
    """A tangent meets one factor after the other, as it stands; no product of large ones."""
    x = np.array([0.0, 0.0, 1e200, 1e200, 2.0])
    found = fg.jvp(fnp.cumprod, (x,), (np.ones(5),))[1]
    assert_array_equal(found, [1.0, 0.0, 0.0, 0.0, 0.0])


@by_way
def test_running_products_with_zeros(way: str) -> None:
    def f(x: Any) -> Any:
        return fnp.sum(fnp.cumprod(x) * np.arange(1.0, 6.0))

    found = WAYS[way](f)(np.array([3.0, 0.0, 2.0, 0.0, 5.0]))
    assert_array_equal(found, [1.0, 3 * (2 + 3 * 2.0), 0.0, 0.0, 0.0])


@given(factors.filter(lambda row: max(map(abs, row)) < 1e6 and 1e-200 not in row))
def test_running_products_are_derived_exactly(row: list[float]) -> None:
    exact = [Fraction(x) for x in row]
    expected = np.zeros((len(row), len(row)))
    for i in range(len(row)):
        for k in range(i + 1):
            product = Fraction(1)
            for j in range(i + 1):
                product *= exact[j] if j != k else 1
            expected[i, k] = float(product)
    scale = 1e-300 + np.abs(expected).max()
    for jacobian in (fg.jacrev, fg.jacfwd):
        assert_allclose(jacobian(fnp.cumprod)(np.array(row)), expected, 1e-13, 1e-290 * scale)


extremes = st.lists(
    st.sampled_from([0.0, 0.0, 2.0, -3.0, 0.5, 1e200, -1e200, 1e-200, 1e120, 1e-120]),
    min_size=1,
    max_size=9,
)


def exact_jacobian(row: list[float]) -> list[list[Fraction]]:
    """That of the running products: of results, and in each of factors."""
    jacobian = []
    for i in range(len(row)):
        others = other_products(row[: i + 1])
        jacobian.append(others + [Fraction(0)] * (len(row) - i - 1))
    return jacobian


def within_the_range(row: list[float]) -> bool:
    """Whether all running products are, and all their derivatives that are not 0 do not vanish."""
    products = [Fraction(1)]
    for factor in row:
        products.append(products[-1] * Fraction(factor))
    tiny, huge = Fraction(1e-290), Fraction(1e290)
    derivatives = [d for derivatives in exact_jacobian(row) for d in derivatives]
    return all(p == 0 or tiny < abs(p) < huge for p in products) and all(
        d == 0 or tiny < abs(d) for d in derivatives
    )


def assert_exact(found: Any, terms: list[list[Fraction]]) -> None:
    """Sums of terms, of which what is beyond the range is infinite."""
    for own, summands in zip(np.asarray(found).tolist(), terms, strict=True):
        exact, scale = sum(summands, Fraction(0)), sum(map(abs, summands), Fraction(0))
        if scale < Fraction(1e300):
            assert abs(Fraction(own) - exact) <= Fraction(1e-13) * scale
        elif abs(exact) > Fraction(2) ** 1024:
            assert abs(own) == np.inf


@pytest.mark.slow
@pytest.mark.parametrize("staged", [False, True])
@given(extremes.filter(within_the_range))
@example([0.0, 0.0, 1e200, 1e200, 2.0])
@example([0.0, 1e200, 1e200, 0.0])
@example([1e-200, 1.0, 1e200, 1e200])
@settings(max_examples=200)
def test_running_products_of_extreme_numbers(staged: bool, row: list[float]) -> None:
    """In either mode what leaves the range on the way, and comes back, is as it is exactly."""
    x, weights, n = np.array(row), np.arange(1.0, len(row) + 1), len(row)
    jacobian = exact_jacobian(row)
    install: Any = fg.jit if staged else lambda f: f
    with np.errstate(all="ignore"):
        gradient = install(fg.grad(lambda x: fnp.sum(fnp.cumprod(x) * weights)))(x)
        tangent = install(lambda x: fg.jvp(fnp.cumprod, (x,), (weights,))[1])(x)
    numbers = [Fraction(w) for w in weights.tolist()]
    assert_exact(gradient, [[numbers[i] * jacobian[i][k] for i in range(n)] for k in range(n)])
    assert_exact(tangent, [[numbers[k] * jacobian[i][k] for k in range(n)] for i in range(n)])


LONG: dict[str, Callable[[np.random.Generator], Any]] = {
    "vanishing": lambda rng: rng.uniform(0.2, 0.9, 3000),
    "of both signs": lambda rng: rng.uniform(0.9, 1.1, (2, 1000)) * rng.choice([-1, 1], (2, 1000)),
    "growing": lambda rng: rng.uniform(1.0, 1.3, (3, 1500)),
    "vanishing and growing": lambda _: np.repeat([0.01, 100.0], [150, 150]),
    "with a zero": lambda rng: np.insert(rng.uniform(0.5, 1.5, 200), 40, 0.0),
    "of float32": lambda rng: rng.uniform(0.9, 1.1, 100).astype(np.float32),
    "behind a larger one": lambda rng: np.append(2.0**500, rng.uniform(0.9, 1.1, 100)),
}


@together("kind", LONG)
def test_modes_agree_on_long_running_products(kind: str) -> None:
    """One of them by division where that is as exact, the other by factors only."""
    rng = np.random.default_rng(3)
    x = LONG[kind](rng)
    _, pull = fg.vjp(lambda x: fnp.cumprod(x, axis=-1), x)
    ct = np.asarray(rng.uniform(0.5, 1.5, x.shape), x.dtype)
    places = [0, 1, 39, 40, 41, x.shape[-1] // 2, x.shape[-1] - 1]
    found = np.asarray(pull(ct)[0])[..., places]
    for k, own in zip(places, np.moveaxis(found, -1, 0), strict=True):
        one = np.zeros_like(x)
        one[..., k] = 1
        pushed = np.asarray(fg.jvp(lambda x: fnp.cumprod(x, axis=-1), (x,), (one,))[1])
        expected = np.sum(pushed * ct, axis=-1)
        tolerance = 1e-4 if x.dtype == np.float32 else 1e-11
        assert_allclose(own, expected, rtol=tolerance, atol=1e-290)


@together("size", [1, 2, 63, 64, 65, 500, 5000])
@together("shape", ["one", "many"])
@together("reverse", [False, True])
def test_a_recurrence_is_a_loop(size: int, shape: str, reverse: bool) -> None:
    rng = np.random.default_rng(size)
    a, b = rng.uniform(-1.2, 1.2, (2, size, *((3,) if shape == "many" else ())))
    a[rng.uniform(size=a.shape) < 0.05] = 0
    expected = b.copy()
    places = range(size)[::-1] if reverse else range(size)
    for before, k in pairwise(places):
        expected[k] = a[k] * expected[before] + b[k]
    assert_allclose(recurrence(a, b, axis=0, reverse=reverse), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("power", [10, 60, 140])
def test_a_recurrence_of_extreme_numbers_is_a_loop(power: int) -> None:
    rng = np.random.default_rng(1)
    sizes = 10.0 ** (power * rng.choice([-1, 0, 1], 300))  # of the states, which stay in the range
    a = np.append(1.0, sizes[1:] / sizes[:-1])
    a[rng.uniform(size=300) < 0.05] = 0.0
    a[np.abs(np.log10(a, where=a > 0, out=np.zeros(300))) > 290] = 1.0
    b = rng.uniform(size=300) * sizes
    assert_allclose(recurrence(a, b, axis=0, reverse=False), one_by_one(a, b), rtol=1e-12)


@together("place", [0, 70, 299])
@together("special", [np.inf, np.nan])
def test_a_recurrence_with_infinities_is_a_loop(special: float, place: int) -> None:
    a, b = np.random.default_rng(1).uniform(0.5, 1.0, (2, 300))
    a[place] = special
    assert_allclose(recurrence(a, b, axis=0, reverse=False), one_by_one(a, b), rtol=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_recurrence_that_leaves_the_range_comes_back(reverse: bool) -> None:
    a = np.array([7.0, 1e200, 1e200, 1e-200, 1e-190, 2.0])
    b = np.array([3.0, 0.0, 1e10, 0.5, 4e9, 1.0])
    expected = np.array([3.0, 3e200, np.inf, 3e200, 3.4e10, 6.8e10 + 1])
    turn = slice(None, None, -1 if reverse else 1)
    with np.errstate(over="ignore", invalid="ignore"):
        found = recurrence(a[turn], b[turn], axis=0, reverse=reverse)
    assert_allclose(found, expected[turn], rtol=1e-14)


def one_by_one(a: Any, b: Any) -> Any:
    states = b.copy()
    for k in range(1, len(b)):
        states[k] = a[k] * states[k - 1] + b[k]
    return states


@by_way
def test_what_a_running_product_does_not_reach_is_absent(way: str) -> None:
    """The root's derivative is infinite at 0; what stands behind an element is not in it."""

    def f(x: Any) -> Any:
        return fnp.cumprod(fnp.concatenate([x[:2], fnp.sqrt(x[2:])]))[1]

    with np.errstate(all="ignore"):
        found = WAYS[way](f)(np.array([2.0, 3.0, 0.0, np.inf]))
    assert_array_equal(found, [3.0, 2.0, 0.0, 0.0])


def test_long_products_differentiate_twice() -> None:
    x = np.random.default_rng(2).uniform(0.9, 1.1, 300)
    x[7] = 0.0
    for f in (fnp.prod, lambda x: fnp.sum(fnp.cumprod(x) ** 2)):
        step, v = 1e-6, np.cos(np.arange(300.0))
        expected = (fg.grad(f)(x + step * v) - fg.grad(f)(x - step * v)) / (2 * step)
        found = fg.hvp(f, (x,), (v,))
        assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(np.asarray(expected)).max())
