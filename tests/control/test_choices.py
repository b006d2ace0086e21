"""Branches: one runs, and what is not chosen is absent from derivatives of every order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp

EDGES = fg.tensor([4.0, 0.0, -1.0, 1e300])


def safe(x: Any) -> Any:
    """The logarithm, its root and 1/x where there are any; nothing infinite comes of the rest."""
    return fg.cond(
        x > 0, lambda x: fnp.log(x) * fnp.sqrt(x) + 1.0 / x, lambda x: 3.0 * x + x * x, x
    )


def closing(x: Any) -> Any:
    """The same by functions without arguments."""
    return fg.cond(x > 0, lambda: fnp.log(x) * fnp.sqrt(x) + 1.0 / x, lambda: 3.0 * x + x * x)


def expected(x: float) -> tuple[float, float, float]:
    """Value, first and second derivative."""
    if x <= 0:
        return 3 * x + x * x, 3 + 2 * x, 2.0
    with np.errstate(all="ignore"):
        root, log = np.sqrt(x), np.log(x)
        first = 1 / root + log / (2 * root) - 1 / x**2
        second = -0.5 * x**-1.5 + 0.5 * x**-1.5 - 0.25 * log * x**-1.5 + 2 * x**-3.0
    return log * root + 1 / x, first, second


@pytest.mark.parametrize("f", [safe, closing])
def test_nothing_infinite_comes_of_the_branch_not_taken(f: Any) -> None:
    wanted = [np.array(column) for column in zip(*map(expected, np.asarray(EDGES)), strict=True)]
    seconds = (
        fg.grad(fg.grad(f)),
        lambda x: fg.jvp(fg.grad(f), (x,), (1.0,))[1],
        fg.grad(lambda x: fg.jvp(f, (x,), (1.0,))[1]),
        lambda x: fg.jvp(lambda x: fg.jvp(f, (x,), (1.0,))[1], (x,), (1.0,))[1],
    )
    for order, g in [(0, f), (1, fg.grad(f)), *[(2, second) for second in seconds]]:
        for run in (fg.vmap(g), fg.jit(fg.vmap(g)), fg.vmap(fg.jit(g))):
            np.testing.assert_allclose(run(EDGES), wanted[order], rtol=1e-12)
        for run in (g, fg.jit(g)):
            own = [run(x) for x in EDGES]
            np.testing.assert_allclose([float(y) for y in own], wanted[order], rtol=1e-12)


def test_one_branch_runs_in_a_program() -> None:
    def f(x: Any) -> Any:
        return fg.cond(x > 0, lambda: fnp.exp(x), lambda: fnp.sin(x))

    program = fg.program(f)(2.0)
    assert [equation.name for equation in program.equations] == ["greater", "switch"]
    program = fg.program(fg.grad(f))(2.0)
    assert not {"exp", "sin", "cos"} & {equation.name for equation in program.equations}


def test_a_predicate_that_all_examples_share_stays_one() -> None:
    def f(flag: Any, x: Any) -> Any:
        return fg.cond(flag, fnp.exp, fnp.sin, x)

    program = fg.program(fg.vmap(f, (None, 0)))(fg.tensor(True), EDGES[:2])
    assert [equation.name for equation in program.equations] == ["switch"]
    np.testing.assert_allclose(program(fg.tensor(False), EDGES[:2]), np.sin([4.0, 0.0]))


def test_a_number_outside_counts_as_the_nearest_branch() -> None:
    branches = [lambda x: x, lambda x: 10.0 * x, lambda x: 100.0 * x]
    numbers = fg.tensor([-5, 0, 1, 2, 9])
    f = lambda k: fg.switch(k, branches, 1.0)  # noqa: E731
    for run in (f, fg.jit(f)):
        assert [float(run(k)) for k in numbers] == [1.0, 1.0, 10.0, 100.0, 100.0]
    for run in (fg.vmap(f), fg.jit(fg.vmap(f))):
        np.testing.assert_array_equal(run(numbers), [1.0, 1.0, 10.0, 100.0, 100.0])
    assert float(fg.switch(3, branches[:1], 2.0)) == 2.0


def test_many_branches_keep_their_order() -> None:
    branches = [lambda x, k=k: x + float(k) for k in range(12)]
    f = fg.jit(lambda k: fg.switch(k, branches, 0.5))
    assert [float(f(k)) for k in range(12)] == [k + 0.5 for k in range(12)]


def test_a_python_number_of_one_branch_takes_the_dtype_of_the_other() -> None:
    x = fnp.asarray(2.0, dtype="float32")
    f = lambda x: fg.cond(x > 5, lambda x: x, lambda x: 0, x)  # noqa: E731
    assert fg.jit(f)(x).dtype == np.float32
    assert fg.vmap(f)(x[None]).dtype == np.float32


def test_trees_and_integers_pass_through_branches() -> None:
    def f(x: Any, k: Any) -> Any:
        return fg.cond(
            x > 0,
            lambda x, k: {"a": (x * x, k), "b": None},
            lambda x, k: {"a": (-x, k + 1), "b": None},
            x,
            k,
        )

    for x in (2.0, -2.0):
        (own, k), (other, n) = f(x, 3)["a"], fg.jit(f)(x, 3)["a"]
        assert (float(own), int(k)) == (float(other), int(n))
        assert float(fg.jit(fg.grad(lambda x: f(x, 3)["a"][0]))(x)) == (4.0 if x > 0 else -1.0)


def test_a_predicate_that_is_known_chooses_when_staged() -> None:
    program = fg.program(lambda x: fg.cond(True, fnp.exp, fnp.sin, x))(2.0)
    assert [equation.name for equation in program.equations] == ["exp"]


def test_a_branch_without_a_derivative_leaves_none() -> None:
    def f(x: Any) -> Any:
        y = fnp.sqrt(x)  # whose derivative at 0 is infinite
        return fg.cond(x > 1.0, lambda y: y * y, lambda y: fnp.ones(()), y)

    for g in (fg.grad(f), fg.jit(fg.grad(f)), fg.grad(fg.jit(f))):
        assert float(g(0.0)) == 0.0
        np.testing.assert_allclose(g(4.0), 1.0)


@pytest.mark.parametrize("way", [lambda f: f, fg.jit], ids=["eager", "jit"])
def test_examples_beyond_the_branches_take_the_first_or_the_last(way: Any) -> None:
    """Each example by itself, also where no other example goes into that branch."""

    def chosen(k: Any, x: Any) -> Any:
        branches = [lambda x: 2.0 * x, lambda x: x + 10.0, lambda x: fnp.linalg.inv(x[None, None])]
        return fg.switch(k, [lambda x, f=f: fnp.reshape(f(x), ()) for f in branches], x)

    numbers, xs = np.array([7, 0, -3, 1]), np.array([4.0, 0.0, 3.0, 0.0])
    np.testing.assert_array_equal(way(fg.vmap(chosen))(numbers, xs), [0.25, 0.0, 6.0, 10.0])
    slopes = way(fg.vmap(fg.grad(chosen, argnums=1)))(numbers, xs)
    np.testing.assert_array_equal(slopes, [-0.0625, 2.0, 2.0, 1.0])
