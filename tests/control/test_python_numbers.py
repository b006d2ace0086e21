"""Python numbers that loops carry: elements of arrays once they were kept of all steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.together import together

XS = fnp.arange(3.0, dtype="float32")


def _while(x: Any, a: Any, k: Any, u: Any) -> Any:
    return fg.while_loop(
        lambda s: s[1] < 3.0, lambda s: (s[0] * x + 0.1 * s[1] + u, s[1] + 1.0), (a, k)
    )[0]


def _cond(x: Any, a: Any, k: Any, u: Any) -> Any:
    return fg.cond(a > 1.0, lambda a, k: a * x * k, lambda a, k: fnp.sin(a) * x + k * u, a, k)


def _for(x: Any, a: Any, k: Any, u: Any) -> Any:
    return fg.fori_loop(0, 2, lambda i, a: fnp.sin(a) * x + k * i + u, a)


def _second(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return fg.grad(fg.grad(f))


def _pushed(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: fg.linearize(f, x)[1](x)


def _batched(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: fg.vmap(fg.grad(f))(fnp.stack([x, 2 * x]))


@together("transformed", [fg.grad, _second, _pushed, _batched])
@together("inner", [_while, _cond, _for])
@together("segment", [lambda f: f, fg.checkpoint], quick=1)
def test_loops_and_branches_read_numbers_of_loops_around(
    transformed: Any, inner: Any, segment: Any
) -> None:
    def f(x: Any) -> Any:
        def step(carry: Any, u: Any) -> Any:
            a, k = carry
            return (inner(x, a, k, u), k + 0.5), None

        return fg.scan(segment(step), (x, 0.0), XS)[0][0]

    x = fg.tensor(np.float32(0.5))
    found, expected = fg.jit(transformed(f))(x), transformed(f)(x)
    assert found.dtype == expected.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("every", [1, 2, "sqrt"])
def test_checkpoints_of_a_loop_that_counts(every: Any) -> None:
    def f(x: Any) -> Any:
        def step(carry: Any, u: Any) -> Any:
            a, k = carry
            return (a * x + u * k, k + 1), k

        (a, _), counts = fg.scan(step, (x, 0), XS, checkpoint_every=every)
        return a, counts

    gradient, counts = fg.jit(fg.grad(f, has_aux=True))(fg.tensor(np.float32(0.5)))
    np.testing.assert_array_equal(counts, [0, 1, 2])
    np.testing.assert_allclose(gradient, 4 * 0.5**3 + 1.0, rtol=1e-6)


def test_numbers_of_branches_take_the_precision_of_others() -> None:
    def f(x: Any) -> Any:
        return fg.cond(x > 0, lambda: 1.0, lambda: 2.0) * x

    for way in (f, fg.jit(f)):
        assert way(np.float32(1.0)).dtype == np.float32


def test_a_number_that_becomes_complex_keeps_the_sign_of_zero() -> None:
    f = fg.jit(lambda p, t: fg.cond(p, lambda t: t, lambda t: t * 1j, t))
    assert np.signbit(complex(f(True, -0.0)).real)
