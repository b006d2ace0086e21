"""Whole runs of an optimizer: compiled, resumed, watched, batched and differentiated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import optim
from funcgrad.errors import ArgumentError, FunctionError

UNCHECKED: Any = 3.0
START = {"w": fg.tensor([3.0, -2.0]), "b": fg.tensor(0.5)}


def bowl(params: Any, target: Any = 1.0) -> Any:
    return fnp.sum((params["w"] - target) ** 2) + params["b"] ** 2


def test_a_run_takes_the_steps_of_a_loop() -> None:
    optimizer = optim.adam(0.1)
    params, state = START, optimizer.init(START)
    for _ in range(7):
        params, state = optimizer.step(fg.grad(bowl)(params), state, params)
    run = optim.minimize(bowl, START, optimizer, max_steps=7)
    assert_allclose(run.params["w"], params["w"], rtol=1e-14)
    assert_allclose(run.value, bowl(params), rtol=1e-13)
    assert_allclose(run.slope, fg.tree.norm(fg.grad(bowl)(params)), rtol=1e-13)
    assert (run.nit.item(), run.success.item(), run.state.count.item()) == (7, False, 7)


@pytest.mark.parametrize("optimizer", [optim.sgd(0.1), optim.lbfgs(), optim.sam(optim.sgd(0.1))])
def test_a_run_ends_at_the_tolerance(optimizer: Any) -> None:
    run = optim.minimize(bowl, START, optimizer, tol=1e-3, max_steps=500, args=(2.0,))
    if "objective" not in optimizer.takes or "value" in optimizer.takes:
        assert run.success.item()
        assert 0 < run.nit.item() < 500
        assert run.slope.item() <= 1e-3
    assert_allclose(run.params["w"], 2.0, atol=0.1)
    done = optim.minimize(bowl, run.params, optimizer, tol=1e3)
    assert done.nit.item() == 0


def test_a_run_goes_on() -> None:
    optimizer = optim.adam(optim.schedules.cosine(0.1, 0.0, 20))
    whole = optim.minimize(bowl, START, optimizer, max_steps=20)
    first = optim.minimize(bowl, START, optimizer, max_steps=12)
    rest = optim.minimize(bowl, None, optimizer, max_steps=8, run=first)
    assert rest.nit.item() == 20
    assert_allclose(rest.params["w"], whole.params["w"], rtol=1e-14)
    ended = optim.minimize(bowl, START, optimizer, max_steps=5, tol=100.0)
    later = optim.minimize(bowl, START, optimizer, max_steps=5, run=ended, callback=lambda run: 0)
    assert (ended.nit.item(), later.nit.item()) == (0, 5)


def test_a_callback_sees_the_run_and_may_end_it() -> None:
    seen: list[int] = []

    def watch(run: optim.OptimizerRun) -> bool:
        seen.append(int(run.nit))
        return len(seen) == 3

    run = optim.minimize(bowl, START, optim.sgd(0.01), max_steps=100, callback=watch, every=15)
    assert seen == [15, 30, 45]
    assert run.nit.item() == 45
    seen.clear()
    optim.minimize(bowl, START, optim.sgd(0.01), max_steps=20, callback=watch, every=15)
    assert seen == [15, 20]


def test_runs_inside_transformations() -> None:
    def end(target: Any) -> Any:
        run = optim.minimize(bowl, START, optim.sgd(0.1), args=target, max_steps=30)
        return run.params["w"][0]

    share = 1 - 0.8**30
    assert_allclose(fg.grad(end)(1.5), share, rtol=1e-12)
    assert_allclose(fg.jit(fg.grad(end))(1.5), share, rtol=1e-12)
    assert_allclose(fg.jvp(end, (1.5,), (1.0,))[1], share, rtol=1e-12)

    def steps(target: Any) -> Any:
        run = optim.minimize(bowl, START, optim.sgd(0.1), args=target, tol=0.1, max_steps=90)
        return run.nit

    targets = fg.tensor([0.0, 3.0, 50.0])
    assert_array_equal(fg.vmap(steps)(targets), [steps(target).item() for target in targets])


def test_a_run_ends_where_the_objective_is_not_finite() -> None:
    with np.errstate(all="ignore"):
        run = optim.minimize(lambda x: fnp.log(x), 1.0, optim.sgd(0.6), max_steps=100)
    assert not run.success.item()
    assert run.nit.item() < 10


def test_errors_say_what_is_wrong() -> None:
    for call, error, message in (
        (lambda: optim.minimize(UNCHECKED, START, optim.sgd(0.1)), FunctionError, "function"),
        (lambda: optim.minimize(bowl, START, UNCHECKED), ArgumentError, "is an optimizer such as"),
        (lambda: optim.minimize(bowl, START, optim.sgd(0.1), tol=-1), ArgumentError, "tol"),
        (
            lambda: optim.minimize(bowl, START, optim.sgd(0.1), max_steps=0),
            ArgumentError,
            "max_steps has to be a positive integer",
        ),
        (
            lambda: optim.minimize(bowl, START, optim.sgd(0.1), run=UNCHECKED),
            ArgumentError,
            "run has to be a result of minimize",
        ),
        (
            lambda: fg.jit(lambda x: optim.minimize(bowl, x, optim.sgd(0.1), callback=print).value)(
                START
            ),
            ArgumentError,
            "no callback can be called",
        ),
    ):
        with pytest.raises(error, match=message):
            call()
