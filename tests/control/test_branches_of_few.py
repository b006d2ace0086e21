"""A branch that few examples of a large batch choose runs for these only, with the same results."""

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._control import choices, whiles
from funcgrad._transforms.flat_functions import run_for_few

RNG = np.random.default_rng(0)
X = RNG.normal(size=12_000)
Y = RNG.normal(size=(12_000, 3))


def chosen(x: Any, y: Any) -> Any:
    rare = lambda x, y: (fnp.sin(x) * y.sum(), y * x, 1.0)  # noqa: E731
    return fg.cond(x > 2.0, rare, lambda x, y: (x, y, 0), x, y)


def closing(x: Any, y: Any) -> Any:
    return fg.cond(x > 2.0, lambda z: z * y.sum() + x, lambda z: z, x)


def three(x: Any, y: Any) -> Any:
    index = (x > 1.5).astype(int) + (x > 2.5).astype(int)
    return fg.switch(index, [fnp.sum, lambda y: y[0] * x, lambda y: fnp.prod(y)], y)


def looking(x: Any, y: Any) -> Any:
    return fg.cond(x > 2.0, lambda x, y: x * 10 if y[0] > 0 else -x, lambda x, y: x, x, y)


def refusing(x: Any, y: Any) -> Any:
    inverse = lambda y: fnp.linalg.inv(fnp.stack([y, y * y, y**3]) + fnp.eye(3))[0, 0]  # noqa: E731
    return fg.cond(x > 2.0, inverse, lambda y: y[0], y * (x > 2.0) - (x <= 2.0))


def results(f: Any) -> list[Any]:
    def total(x: Any, y: Any) -> Any:
        return sum(map(fnp.sum, fg.tree.leaves(fg.vmap(f)(x, y))))

    def nested(x: Any, y: Any) -> Any:
        return fg.vmap(fg.vmap(f))(x.reshape(2, 6000), y.reshape(2, 6000, 3))

    return fg.tree.leaves([fg.vmap(f)(X, Y), fg.grad(total, (0, 1))(X, Y), nested(X, Y)])


@pytest.mark.parametrize("f", [chosen, closing, three, looking, refusing])
def test_results_are_the_same_bits(f: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[int] = []

    def counted(*args: Any) -> Any:
        runs.append(len(args[2]))
        return run_for_few(*args)

    monkeypatch.setattr(choices, "run_for_few", counted)
    monkeypatch.setattr(whiles, "run_for_few", counted)
    monkeypatch.setattr(choices, "_MANY_ELEMENTS", 1000)
    few = results(f)
    assert runs
    assert max(runs) * 4 <= len(X)
    monkeypatch.setattr(choices, "_FEW", len(X) + 1)
    runs.clear()
    for one, other in zip(few, results(f), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    assert not runs


def test_small_batches_and_derivatives_further_in_run_as_a_whole() -> None:
    def f(x: Any) -> Any:
        return fg.cond(x > 2.0, lambda x: x * x, lambda x: x, x)

    x = np.array([1.0, 3.0, 0.0, -1.0])
    np.testing.assert_array_equal(fg.vmap(f)(x), [1.0, 9.0, 0.0, -1.0])
    np.testing.assert_array_equal(fg.vmap(fg.grad(f))(x), [1.0, 6.0, 1.0, 1.0])


def halvings(x: Any, y: Any) -> Any:
    step = lambda c: (c[0] / 2 + 0.1 * c[1].sum() * 1e-3, c[1] * 0.9, c[2] + 1)  # noqa: E731
    return fg.while_loop(lambda c: c[0] > 0.3, step, (fnp.exp(2 * x), y, 0))


def closing_loop(x: Any, y: Any) -> Any:
    return fg.while_loop(lambda c: c < 9 * y[0], lambda c: c + fnp.exp(x) + y[1] ** 2, x)


def numbered(x: Any, y: Any) -> Any:
    return fg.while_loop(lambda c: c[0] * c[1] < x, lambda c: (c[0] + 1, c[1] * 1.5), (0, 0.1))


def one_by_one(x: Any, y: Any) -> Any:
    return fg.fori_loop(0, (fnp.abs(x) * 3).astype(int), lambda i, c: c * y[0] + i, x)


@pytest.mark.parametrize("f", [halvings, closing_loop, numbered, one_by_one])
def test_loops_go_on_with_the_examples_that_are_left(
    f: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    test_results_are_the_same_bits(f, monkeypatch)


def test_a_step_of_the_loop_may_branch() -> None:
    def f(x: Any) -> Any:
        step = lambda c: c * 2 if c < 5 else c + 7  # noqa: E731
        return fg.while_loop(lambda c: c < 40, step, fnp.exp(x))

    x = RNG.normal(size=40_000)
    expected = np.exp(x)
    while (expected < 40).any():
        following = np.where(expected < 5, expected * 2, expected + 7)
        expected = np.where(expected < 40, following, expected)
    np.testing.assert_allclose(np.asarray(fg.vmap(f)(x)), expected)
