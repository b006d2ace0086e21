"""Where paths of a batch could go wrong without a word: ended runs, empty batches, costs."""

import time
from typing import Any, NamedTuple

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.transforms.support import assert_same, halved, numbers

X = np.array([3.0, -2.0, 0.5, 100.0, -1.0, 7.0])


def each(f: Any, batch: Any) -> np.ndarray[Any, Any]:
    """The plain loop."""
    return np.array([np.asarray(f(fg.tensor(x))) for x in batch])


class Point(NamedTuple):
    x: Any
    y: Any


def test_trees_and_keywords_are_regrouped_with_their_examples() -> None:
    def f(point: Any, *, options: Any) -> Any:
        if point.x > options["low"]:
            return Point(point.x * options["by"][0], point.y)
        return Point(point.y, point.x - options["by"][0])

    low, by = numbers(6, seed=1), numbers(6, seed=2)
    x, y = numbers(6, seed=3), numbers(6, 2, seed=4)[:, 0]
    taken = x > low
    assert set(taken) == {True, False}
    call = lambda p, by: fg.vmap(f)(p, options={"low": low, "by": [by]})  # noqa: E731
    assert_same(
        call(Point(x, y), by), Point(np.where(taken, x * by, y), np.where(taken, y, x - by))
    )
    slopes = fg.grad(lambda p, by: (call(p, by).x + 2 * call(p, by).y).sum(), argnums=(0, 1))
    expected = Point(np.where(taken, by, 2.0), np.where(taken, 2.0, 1.0))
    assert_same(slopes(Point(x, y), by), (expected, np.where(taken, x, -2.0)))


def test_a_jitted_function_keeps_no_variant_of_an_abandoned_run() -> None:
    inner = fg.jit(halved, backend="numpy")
    chosen = lambda x: fg.cond(x < 50, inner, lambda x: -x, x)  # noqa: E731 - which abandons runs
    expected = np.where(X < 50, each(halved, X), -X)
    for batch in (X, X[::-1], X):
        assert_same(fg.vmap(chosen)(batch), expected if batch[0] == X[0] else expected[::-1])
    assert_same(fg.vmap(inner)(X), each(halved, X))
    np.testing.assert_allclose(each(inner, X), each(halved, X), rtol=1e-15)
    assert_same(fg.vmap(fg.grad(inner))(X), each(fg.grad(halved), X))


def test_rules_and_loops_of_an_empty_batch() -> None:
    f = fg.custom_vjp(lambda x, w: w * x * x if x > 0 else x - w)
    f.defvjp(
        lambda x, w: (f(x, w), (x, w)),
        lambda xw, ct: (ct * 2 * xw[0] * xw[1], ct * xw[0] ** 2) if xw[0] > 0 else (ct, -ct),
    )
    batched = fg.vmap(f, in_axes=(0, None))
    none = np.zeros(0)
    assert_same(batched(none, 2.0), none)
    assert_same(fg.grad(lambda x, w: batched(x, w).sum(), argnums=(0, 1))(none, 2.0), (none, 0.0))
    assert_same(fg.vmap(fg.grad(f), in_axes=(0, None))(none, 2.0), none)
    nested = fg.vmap(fg.vmap(halved))
    assert_same(nested(np.zeros((0, 3))), np.zeros((0, 3)))
    assert_same(nested(np.ones((5, 0))), np.zeros((5, 0)))


def test_an_exception_leaves_nothing_behind() -> None:
    calls: list[Any] = []

    def failing(x: Any) -> Any:
        calls.append(None)
        y = halved(x)
        if x > 50 and len(calls) < 8:
            raise KeyboardInterrupt
        return y

    with pytest.raises(KeyboardInterrupt):
        fg.vmap(failing)(X)
    calls += [None] * 8
    assert_same(fg.vmap(failing)(X), each(halved, X))
    assert_same(fg.vmap(fg.grad(failing))(X), each(fg.grad(halved), X))


@pytest.mark.slow
def test_a_long_prefix_is_computed_for_the_waiting_examples_only() -> None:
    def f(x: Any, divisions: int) -> Any:
        y = x
        for _ in range(1_000):
            y = fnp.sin(y)
        for k in range(divisions):
            if x > k:
                y = y + 1
        return y

    batch = np.random.default_rng(0).uniform(0, 30, 10_000)

    def cost(divisions: int) -> float:
        begin = time.process_time()
        fg.vmap(lambda x: f(x, divisions))(batch)
        return time.process_time() - begin

    ratio = min(cost(30) for _ in range(3)) / min(cost(0) for _ in range(3))
    assert ratio < 6  # 2.9 measured; with a whole prefix for each path it would be 31
