"""Sorts in native code: the order of NumPy's stable sort, whatever the elements are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.native.native_backend import NATIVE
from funcgrad._primitives.sorting import argsort, sort
from tests.backends.native.other_machines import OTHERS, machine_code_of
from tests.together import together

pytest.importorskip("llvmlite")


def elements(shape: tuple[int, ...], kind: str, seed: int = 0) -> np.ndarray[Any, Any]:
    """Elements with ties, the greatest and the least, NaN and zeros of both signs."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(kind)
    if dtype.kind in "biu":
        least, most = (0, 1) if kind == "?" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        return rng.choice(np.array([least, most, 1, 0, 5], dtype), shape)
    x = rng.integers(-3, 4, shape) / 2
    special = rng.choice([np.nan, -np.nan, np.inf, -np.inf, -0.0, np.finfo(dtype).max], shape)
    return np.where(rng.random(shape) < 0.3, special, x).astype(dtype)


def assert_sorted(x: Any, axis: int, descending: bool, machine: Any = None) -> None:
    for operation in (sort, argsort):

        def f(x: Any) -> Any:
            return operation(x, axis=axis, descending=descending)  # noqa: B023 - called here

        text = NATIVE.inspect(NATIVE.prepare(fg.program(f)(x), False))
        assert text.startswith("; called back: nothing")
        (out,) = machine_code_of(f, x, machine=machine)
        expected = np.asarray(f(x))
        assert out.dtype == expected.dtype
        np.testing.assert_array_equal(out, expected)
        if operation is sort and x.dtype.kind == "f":
            zeros = [np.sum(np.signbit(values[values == 0])) for values in (x, out)]
            assert zeros[0] == zeros[1]


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=3),
    st.integers(0, 2),
    st.sampled_from("?bBhHiIqQefd"),
    st.booleans(),
    st.integers(0, 99),
)
def test_sorts_of_any_shape(
    shape: list[int], axis: int, kind: str, descending: bool, seed: int
) -> None:
    if len(shape) == 1 or shape[axis % len(shape)] > 30:
        shape = [min(size, 25) for size in shape]
    assert_sorted(elements(tuple(shape), kind, seed), axis % len(shape), descending)


@together("kind", "fQdi", quick=2)
@together("shape", [(8, 1000), (1000, 8), (17, 70), (3, 64, 9), (0, 4), (4, 0)], ids=str)
def test_lines_in_vectors(shape: tuple[int, ...], kind: str) -> None:
    for axis in range(len(shape)):
        if np.size(np.empty(shape)) == 0 or shape[axis] * 8 < 10 * np.prod(shape):
            assert_sorted(elements(shape, kind), axis, descending=axis == 0)


@pytest.mark.parametrize("machine", OTHERS, ids=str)
def test_sorts_on_other_processors(machine: Any) -> None:
    for kind in "fdq":
        assert_sorted(elements((5, 21), kind), 1, False, machine)
        assert_sorted(elements((21, 5), kind), 0, True, machine)


def test_medians_quantiles_and_their_gradients_are_machine_code() -> None:
    x = np.random.default_rng(3).standard_normal((40, 21))

    def f(x: Any) -> Any:
        return fnp.sum(fnp.median(x, axis=1) ** 2 + fnp.quantile(x, 0.3, axis=1))

    jitted = fg.jit(fg.value_and_grad(f), backend="native")
    for out, expected in zip(jitted(x), fg.value_and_grad(f)(x), strict=True):
        np.testing.assert_allclose(out, expected, rtol=1e-13, atol=1e-15)
    assert jitted.lower(x).source.startswith("; called back: nothing")


def test_single_long_lines_and_complex_numbers_are_numpys() -> None:
    for x, reason in (
        (np.ones(500), "NumPy is faster"),
        (1j * np.ones(5), "an order of complex128"),
    ):
        jitted = fg.jit(fnp.sort, backend="native")
        assert f"sort: {reason}" in jitted.lower(x).source
        np.testing.assert_array_equal(jitted(x), np.sort(x))


@together(
    ("kinds", "count"),
    [("dd", 5), ("fd", 40), ("?l", 6), ("ld", 40), ("ee", 40), ("BB", 40)],
    quick=3,
)
def test_elements_of_a_set(kinds: str, count: int) -> None:
    rng = np.random.default_rng(7)
    x: Any = rng.integers(2 * count, size=(9, 8)).astype(kinds[0])
    table: Any = rng.integers(2 * count, size=(3, count)).astype(kinds[1])
    if "?" not in kinds and kinds[1] in "def":
        x, table = x / x.dtype.type(2), table / table.dtype.type(2)
        x[0, 0] = table[0, 0] = np.nan
        x[0, 1], table[0, 1] = -0.0, 0.0
    for f, args in (
        (fnp.isin, (x, table[0])),
        (fnp.isin, (x[0, 0], table)),
        (lambda x, table: fg.vmap(fnp.isin)(x, table), (x[:3], table)),
        (lambda x, table: fg.vmap(lambda t: fnp.isin(x, t))(table), (x, table)),
    ):
        jitted = fg.jit(f, backend="native")
        np.testing.assert_array_equal(jitted(*args), f(*args))
        assert str(jitted.lower(*args).source).startswith("; called back: nothing")


@pytest.mark.parametrize("dtype", ["d", "l", "?"])
def test_orders_by_several_keys(dtype: str) -> None:
    keys = np.random.default_rng(7).integers(3, size=(3, 4, 20)).astype(dtype)
    if dtype == "d":
        keys[1, :, ::3] = np.nan
        keys[0, :, ::4] = -0.0
    for axis in (0, -1):

        def f(keys: Any, axis: int = axis) -> Any:
            return fnp.lexsort(keys, axis=axis)

        jitted = fg.jit(f, backend="native")
        np.testing.assert_array_equal(jitted(keys), np.lexsort(keys, axis=axis))
        assert str(jitted.lower(keys).source).startswith("; called back: nothing")
