"""Polynomials in matrices: sums of nested products of one size, which share their factors.

Products of the same matrix depend on each other in every possible way, and each pass reads the
results of the passes before it.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core import pytrees
from tests.together import together

SEEDS = range(120)
STEPS: Mapping[str, Callable[[Any, Any, Any], Any]] = MappingProxyType(
    {
        "a @ b": lambda x, a, b: a @ b,
        "a @ x": lambda x, a, b: a @ x,
        "x @ b": lambda x, a, b: x @ b,
        "a + b": lambda x, a, b: a + b,
        "a - b": lambda x, a, b: a - b,
        "0.5 * a * b": lambda x, a, b: 0.5 * a * b,
    }
)


def assert_staged(f: Callable[..., Any], *args: Any) -> None:
    """Check that a staged function has the values of the function, up to the order of sums."""
    pairs = zip(pytrees.leaves(fg.jit(f)(*args)), pytrees.leaves(f(*args)), strict=True)
    for own, other in pairs:
        scale = np.max(np.abs(other), initial=1.0)
        np.testing.assert_allclose(own, other, rtol=0, atol=1e-11 * scale)


def polynomial(seed: int) -> tuple[Callable[..., Any], int]:
    """A polynomial in two matrices, each of whose terms is a product of others or a sum."""
    rng = np.random.default_rng(seed)
    steps = [(str(rng.choice([*STEPS])), *rng.integers(0, 4, 2)) for _ in range(rng.integers(3, 8))]

    def f(x: Any, c: Any) -> Any:
        values = [c, x]
        for name, back, further in steps:
            a, b = values[-1 - back % len(values)], values[-1 - further % len(values)]
            values.append(STEPS[name](x, a, b))
        return sum(values[2:], c)

    return f, int(rng.integers(2, 6))


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(SEEDS), 20))
def test_polynomials_in_two_matrices(start: int) -> None:
    for seed in SEEDS[start : start + 20]:
        f, size = polynomial(seed)
        x, c, v, w = 0.5 * np.random.default_rng(seed).standard_normal((4, size, size))

        def total(x: Any, c: Any, f: Callable[..., Any] = f) -> Any:
            return fnp.sum(fnp.tanh(f(x, c)))

        def curvature(x: Any, c: Any, total: Callable[..., Any] = total, v=v, w=w) -> Any:
            return fg.hvp(total, (x, c), (v, w))

        assert_staged(f, x, c)
        assert_staged(fg.grad(total, (0, 1)), x, c)
        if seed % 2:
            assert_staged(curvature, x, c)
        else:
            assert_staged(fg.vmap(f), np.stack([x, v]), np.stack([c, w]))


def test_a_product_whose_factor_is_a_product_with_the_same_matrix() -> None:
    x, c = np.random.RandomState(0).randn(2, 3, 3)
    assert_staged(lambda x, c: (c @ x) + ((x @ x) @ x), x, c)
    assert_staged(lambda x, c: (x @ c) + (x @ (x @ x)), x, c)
    assert_staged(lambda x, c: [c @ x, c.T @ x, x @ x, (x @ x) @ x, ((x @ x) @ x) @ x], x, c)


@together("size", range(2, 9))
def test_curvature_of_powers(size: int) -> None:
    x, v = 0.3 * np.random.default_rng(size).standard_normal((2, size, size))
    for power in (lambda x: x @ x @ x, lambda x: x @ (x @ x), lambda x: (x @ x) @ (x @ x)):
        assert_staged(
            lambda x, v, power=power: fg.hvp(lambda x: fnp.sum(fnp.tanh(power(x))), (x,), (v,)),
            x,
            v,
        )
