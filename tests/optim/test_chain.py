"""Optimizers as values: chained, pickled, with rates that states hold."""

import pickle
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
from funcgrad import optim
from funcgrad._core import pytrees
from funcgrad.errors import ArgumentError, FunctionError, MissingAttributeError, TreeError
from tests.optim.subjects import RULES
from tests.together import together

PARAMS = {"w": fg.tensor([1.0, -2.0]), "b": fg.tensor(0.5)}


def halved(count):
    return 0.5**count


def scaled_by_value(factor):
    """An optimizer of one's own that takes an argument by name."""

    def update(grads, state, params, value=1.0):
        return pytrees.map(lambda g: factor * value * g, grads), state

    return optim.Optimizer(lambda params: None, update, takes=("value",))


@together("name", RULES)
def test_an_optimizer_pickles(name):
    optimizer = getattr(optim, name)(halved)
    again = pickle.loads(pickle.dumps(optimizer))
    first = optimizer.step(PARAMS, optimizer.init(PARAMS), PARAMS)
    second = again.step(PARAMS, again.init(PARAMS), PARAMS)
    for x, y in zip(pytrees.leaves(first), pytrees.leaves(second), strict=True):
        assert_array_equal(x, y)
    assert pytrees.structure(first) == pytrees.structure(pickle.loads(pickle.dumps(second)))


@together("name", RULES)
def test_a_state_holds_the_rate(name):
    optimizer = getattr(optim, name)(halved)
    params, state = PARAMS, optimizer.init(PARAMS)
    rates = [state.rate.item()]
    for _ in range(3):
        params, state = optimizer.step(PARAMS, state, params)
        rates.append(state.rate.item())
    assert rates == [0.0, 1.0, 0.5, 0.25]


def test_a_step_is_an_update_that_is_applied():
    optimizer = optim.adam(0.1)
    state = optimizer.init(PARAMS)
    updates, following = optimizer.update(PARAMS, state, PARAMS)
    moved, also = optimizer.step(PARAMS, state, PARAMS)
    assert_array_equal(moved["w"], optim.apply_updates(PARAMS, updates)["w"])
    assert also.mu["b"] == following.mu["b"]


def test_a_step_applies_an_update_that_replaces_another():
    turned = replace(optim.sgd(0.1), update=lambda grads, state, params: (grads, state))
    moved, _ = turned.step(PARAMS, turned.init(PARAMS), PARAMS)
    assert_array_equal(moved["w"], 2.0 * PARAMS["w"])


def test_a_step_takes_few_calls():
    """A step of one leaf flattens all trees at once; 79 of the calls are arithmetic."""
    optimizer, x, events = optim.adam(0.1), fg.tensor(1.0), []
    step, state = optimizer.step, optimizer.init(x)
    step(x, state, x)
    sys.setprofile(lambda frame, event, _: events.append(event))
    try:
        step(x, state, x)
    finally:
        sys.setprofile(None)
    assert events.count("call") <= 120


def test_amsgrad_never_forgets_the_greatest():
    optimizer = optim.adam(0.1, b2=0.5, amsgrad=True)
    state = optimizer.init(fg.tensor(1.0))
    assert optim.adam(0.1).init(fg.tensor(1.0)).nu_max is None
    greatest = []
    for g in (1.0, 10.0, 0.1, 0.1):
        _, state = optimizer.update(fg.tensor(g), state, fg.tensor(1.0))
        greatest.append(state.nu_max.item())
    assert greatest == sorted(greatest)
    assert greatest[-1] == greatest[1]


# -------------------------------------------------------------------------------------------- chain


def test_each_member_gets_the_updates_of_the_one_before():
    optimizer = optim.chain(first=optim.sgd(0.5), second=optim.adam(0.1))
    params, state = optimizer.step(PARAMS, optimizer.init(PARAMS), PARAMS)
    assert_allclose(params["w"], PARAMS["w"] + [0.1, -0.1])  # minus twice is up
    assert_allclose(state.second.mu["w"], -0.05 * PARAMS["w"])
    assert state.first is state[0]
    assert state.second.rate.item() == 0.1
    with pytest.raises(MissingAttributeError, match="its fields are first, second"):
        state.third  # noqa: B018


def test_a_chain_is_jitted_scanned_batched_and_pickled():
    def trained(rate: Any, optimizer_of: Any = None) -> Any:
        optimizer = optim.chain(optim.sgd(rate), down=optim.sgd(-1.0 * fg.tensor(1.0)))

        def step(carry, _):
            return optimizer.step(carry[0], carry[1], carry[0]), None

        (params, _), _ = fg.scan(step, (PARAMS, optimizer.init(PARAMS)), length=3)
        return params["w"]

    rates = fg.tensor([0.1, 0.2])
    rows = fg.vmap(trained)(rates)
    for rate, row in zip(rates, rows, strict=True):
        assert_allclose(row, (1 - rate.item()) ** 3 * PARAMS["w"], rtol=1e-12)
        assert_allclose(fg.jit(trained)(rate), row, rtol=1e-12)
    slope = fg.grad(lambda rate: trained(rate)[0])(0.1)
    assert slope.item() == pytest.approx(-3 * 0.9**2)
    optimizer = optim.chain(optim.sgd(halved), adam=optim.adam(0.1))
    again = pickle.loads(pickle.dumps(optimizer))
    _, state = again.step(PARAMS, optimizer.init(PARAMS), PARAMS)
    copied = pickle.loads(pickle.dumps(state))
    assert copied.adam.count.item() == 1
    assert copied.names == ("0", "adam")


def test_named_arguments_reach_those_that_take_them():
    optimizer = optim.chain(optim.sgd(1.0), by=scaled_by_value(2.0))
    assert optimizer.takes == ("value",)
    state = optimizer.init(PARAMS)
    params, _ = optimizer.step(PARAMS, state, PARAMS, value=3.0)
    assert_allclose(params["w"], -5 * PARAMS["w"])
    nested = optim.chain(optimizer, optim.sgd(1.0))
    updates, _ = nested.update(PARAMS, nested.init(PARAMS), PARAMS, value=0.0)  # type: ignore[call-arg]
    assert_array_equal(np.abs(updates["w"]), 0.0)
    with pytest.raises(ArgumentError, match="no argument valeu=; by name it takes value"):
        optimizer.step(PARAMS, state, PARAMS, valeu=3.0)


def test_bad_chains():
    with pytest.raises(ArgumentError, match="one optimizer or more"):
        optim.chain()
    with pytest.raises(FunctionError, match="expected optimizers"):
        optim.chain(optim.adam)  # type: ignore[arg-type]
    optimizer = optim.chain(a=optim.sgd(0.1))
    other = optim.chain(b=optim.sgd(0.1)).init(PARAMS)
    with pytest.raises(TreeError, match="expected the state of this optimizer, with the fields a"):
        optimizer.update(PARAMS, other, PARAMS)
