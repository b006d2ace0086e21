"""Floats beyond an integer dtype become the same integers everywhere: by one rule, NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core import intrinsics
from tests.together import together

FLOATS = [np.float16, np.float32, np.float64]
INTEGERS = [np.dtype(char) for char in "bBhHiIqQ"]
rng = np.random.default_rng(0)
EDGES = [
    sign * 2.0**power * (1.0 + part)
    for power in (0, 7, 8, 15, 16, 31, 32, 63, 64)
    for sign in (1, -1)
    for part in (0, 2.0**-10, -(2.0**-10), 2.0**-23, -(2.0**-23), 2.0**-52, -(2.0**-52))
]
NUMBERS = np.array(
    [
        *(np.inf, -np.inf, np.nan, 0.0, -0.0, -5.0, 300.0, 1e30, -1e30, 5e9, -3e9, 1.5e19),
        *(np.exp(rng.uniform(-1.0, 50.0, 200)) * rng.choice([-1.0, 1.0], 200)),
        *EDGES,
    ]
)


def integer(x: float, dtype: np.dtype[Any]) -> int:
    """The rule, written once more in Python's integers."""

    def cut(x: float, bits: int) -> int:
        return int(x) if abs(x) < 2.0 ** (bits - 1) else -(2 ** (bits - 1))

    if dtype == np.uint64 and x >= 2.0**63:
        whole = cut(x - 2.0**63, 64) ^ -(2**63)
    else:
        whole = cut(x, 32 if dtype.itemsize < 4 or dtype == np.int32 else 64)
    bits = 8 * dtype.itemsize
    whole %= 2**bits
    return whole - 2**bits if dtype.kind == "i" and whole >= 2 ** (bits - 1) else whole


def integers(x: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    return np.array([integer(float(number), dtype) for number in x], dtype)


def converted(dtype: np.dtype[Any], x: Any) -> Any:
    return fnp.astype(x, dtype)


WAYS: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "eager": lambda f, x: f(x),
    "NumPy's text": lambda f, x: fg.jit(f, backend="numpy")(x),
    "machine code": lambda f, x: fg.jit(f, backend="native")(x),
    "with NumPy's bits": lambda f, x: fg.jit(f, exact=True)(x),
    "a few": lambda f, x: np.concatenate([*map(fg.jit(f), np.split(x, len(x) // 2))]),
    "with a stride": lambda f, x: fg.jit(lambda x: f(x[::2]))(np.repeat(x, 2)),
    "numbers in a loop": lambda f, x: fg.jit(
        lambda x: fg.scan(lambda _, number: (0, f(number)), 0, x)[1]
    )(x),
    "batched": lambda f, x: fg.vmap(f)(x),
    "constants": lambda f, x: fg.jit(lambda: f(x))(),
    "complex": lambda f, x: fg.jit(f)(x.astype(np.result_type(x, np.complex64))),
}


@pytest.mark.slow
@together("source", FLOATS)
@together("way", WAYS)
def test_floats_beyond_an_integer_dtype(way: str, source: type[Any]) -> None:
    with np.errstate(all="ignore"):
        x = NUMBERS.astype(source)
        for dtype in INTEGERS:
            actual = WAYS[way](partial(converted, dtype), x)
            assert_array_equal(actual, integers(x, dtype), f"{source.__name__} to {dtype}")


def test_sums_and_folds_convert_by_the_rule_too() -> None:
    x = NUMBERS[: len(NUMBERS) // 3 * 3]
    with np.errstate(all="ignore"):
        for dtype in INTEGERS:
            whole = integers(x, dtype).reshape(-1, 3)
            for f, expected in (
                (lambda x, d: fnp.sum(x.reshape(-1, 3), axis=1, dtype=d), np.sum),
                (lambda x, d: fnp.cumsum(x.reshape(-1, 3), axis=1, dtype=d), np.cumsum),
            ):
                for jitted in (f, fg.jit(f, static_argnums=1)):
                    assert_array_equal(jitted(x, dtype), expected(whole, axis=1, dtype=dtype))


def test_python_numbers_beyond_an_integer_dtype() -> None:
    for number in (-5.0, 300.0, 5e9, float("inf"), float("nan")):
        for dtype in INTEGERS:
            f = fg.jit(partial(converted, dtype))
            with np.errstate(all="ignore"):
                assert_array_equal(f(number), integer(number, dtype))


@pytest.mark.parametrize("source", FLOATS)
def test_the_rule_where_numpy_has_another(
    source: type[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intrinsics, "_BY_RULE", False)  # as on 64-bit Arm
    with np.errstate(all="ignore"):
        x = NUMBERS.astype(source)
        for dtype in INTEGERS:
            f = partial(converted, dtype)
            for way in (f, fg.jit(f, backend="numpy")):
                assert_array_equal(way(x), integers(x, dtype), f"{source.__name__} to {dtype}")
