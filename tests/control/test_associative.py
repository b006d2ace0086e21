"""Running totals of associative functions, and functions mapped over slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.together import together


@pytest.mark.slow
@together("count", [0, 1, 2, 3, 4, 5, 8, 13])
@together("reverse", [False, True])
@together("axis", [0, 1, -1])
def test_totals_are_those_of_a_loop(count: int, reverse: bool, axis: int) -> None:
    rng = np.random.default_rng(count)
    shape = (2, count) if axis else (count, 2)
    elems = {"a": fg.tensor(rng.standard_normal(shape)), "b": fg.tensor(rng.standard_normal(shape))}

    def compose(f: Any, g: Any) -> Any:  # which does not commute
        return {"a": f["a"] * g["a"], "b": g["a"] * f["b"] + g["b"]}

    def total(elems: Any) -> Any:
        return fg.associative_scan(compose, elems, reverse=reverse, axis=axis)

    def looped(elems: Any) -> Any:
        rows = [{k: fnp.moveaxis(x, axis, 0)[n] for k, x in elems.items()} for n in range(count)]
        rows = rows[::-1] if reverse else rows
        found = rows[:1]
        for row in rows[1:]:
            found.append(compose(found[-1], row))
        found = found[::-1] if reverse else found
        return {k: fnp.stack([row[k] for row in found], axis=axis) for k in elems}

    expected = looped(elems) if count else elems
    for f in (total, fg.jit(total)):
        for name, own in f(elems).items():
            np.testing.assert_allclose(own, expected[name], rtol=1e-12)
    if count:
        weigh = lambda f: lambda e: fnp.sum(fnp.sin(f(e)["b"]))  # noqa: E731
        own, other = fg.jit(fg.grad(weigh(total)))(elems), fg.grad(weigh(looped))(elems)
        for name, x in own.items():
            np.testing.assert_allclose(x, other[name], rtol=1e-9, atol=1e-12)


def test_the_work_grows_little_faster_than_the_length() -> None:
    done = []

    def add(x: Any, y: Any) -> Any:
        done.append(len(x))
        return x + y

    fg.associative_scan(add, fnp.ones(1024))
    assert sum(done) < 2 * 1024
    assert len(done) <= 2 * 10


@pytest.mark.parametrize("batch_size", [None, 1, 2, 5, 7])
def test_a_map_is_a_loop_in_batches_of_any_size(batch_size: int | None) -> None:
    xs = {"a": fnp.linspace(-1.0, 1.0, 5), "b": fnp.ones((5, 2))}

    def f(x: Any) -> Any:
        return {"y": fg.cond(x["a"] > 0, fnp.sin, fnp.exp, x["a"]), "z": 2.0 * x["b"]}

    expected = fg.vmap(f)(xs)
    for run in (fg.map, fg.jit(lambda f, xs, size: fg.map(f, xs, size), static_argnums=(0, 2))):
        found = run(f, xs, batch_size)
        np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-15)
        np.testing.assert_array_equal(found["z"], expected["z"])
    loss = lambda a: fnp.sum(fg.map(f, {**xs, "a": a}, batch_size)["y"] ** 2)  # noqa: E731
    other = fg.grad(lambda a: fnp.sum(fg.vmap(f)({**xs, "a": a})["y"] ** 2))(xs["a"])
    np.testing.assert_allclose(fg.grad(loss)(xs["a"]), other, rtol=1e-14)
    np.testing.assert_allclose(fg.jit(fg.grad(loss))(xs["a"]), other, rtol=1e-14)


@pytest.mark.parametrize("count", [2, 5, 8])
def test_products_of_matrices_add_up(count: int) -> None:
    factors = np.random.default_rng(count).standard_normal((count, 2, 2))
    totals = fg.associative_scan(fnp.matmul, factors)
    for k in range(count):
        expected = np.linalg.multi_dot([*factors[: k + 1], np.eye(2)])
        np.testing.assert_allclose(totals[k], expected, atol=1e-12)
