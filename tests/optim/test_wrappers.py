"""Optimizers around optimizers: one step for several gradients, one optimizer for each part."""

import pickle
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
from funcgrad import optim
from funcgrad._core import pytrees
from funcgrad.errors import ArgumentError, FunctionError, TreeError
from tests.optim.subjects import assert_same

PARAMS: dict[str, Any] = {
    "body": [{"w": fg.tensor([1.0, -2.0]), "b": fg.tensor(0.5, "float32")}],
    "head": fg.tensor(3.0),
}


@pytest.mark.parametrize("staged", [False, True])
def test_accumulated_steps_are_those_of_the_mean(staged):
    inner, optimizer = optim.adam(0.1), optim.accumulate(optim.adam(0.1), 3)
    step = fg.jit(optimizer.step) if staged else optimizer.step
    params, state = PARAMS, optimizer.init(PARAMS)
    expected, before = PARAMS, inner.init(PARAMS)
    for number in range(1, 7):
        grads = pytrees.map(lambda leaf, n=number: leaf * n, PARAMS)
        params, state = step(grads, state, params)
        if number % 3 == 0:
            mean = pytrees.map(lambda leaf, n=number: leaf * (n - 1), PARAMS)
            expected, before = inner.step(mean, before, expected)
        assert_same(params, expected, rtol=1e-6)
        assert state.count.item() == number % 3
        assert state.inner.count.item() == number // 3
    assert_array_equal(state.mean["head"], 0.0)


def test_an_accumulation_is_a_value():
    optimizer = pickle.loads(pickle.dumps(optim.accumulate(optim.sgd(0.1), 2)))

    def trained(x):
        def step(carry, _):
            return optimizer.step(carry[0], carry[1], carry[0]), None

        (x, _), _ = fg.scan(step, (x, optimizer.init(x)), length=4)
        return x

    rows = fg.vmap(trained)(fg.tensor([1.0, 2.0]))
    assert_allclose(rows, [0.81, 1.62], rtol=1e-12)
    assert_allclose(fg.grad(trained)(1.0), 0.81, rtol=1e-12)


def test_parts_have_optimizers_of_their_own():
    optimizer = optim.partition(
        {"*.b": optim.sgd(0.0), "body": optim.adam(0.1), "*": optim.sgd(1.0)}
    )
    state = optimizer.init(PARAMS)
    params, following = optimizer.step(PARAMS, state, PARAMS)
    assert_allclose(params["body"][0]["w"], [0.9, -1.9])
    assert params["body"][0]["b"].item() == 0.5
    assert params["head"].item() == 0.0
    assert following.body.mu["head"] is None
    assert following.body.rate.item() == 0.1
    assert pytrees.structure(following) == pytrees.structure(state)
    staged, _ = fg.jit(pickle.loads(pickle.dumps(optimizer)).step)(PARAMS, state, PARAMS)
    assert_same(staged, params, rtol=1e-12)


@pytest.mark.parametrize(
    "labels",
    [
        {"body": "slow", "head": "fast"},
        lambda params: {"body": "slow", "head": "fast"},
        {"body": [{"w": "slow", "b": "slow"}], "head": "fast"},
    ],
)
def test_labels_choose(labels):
    optimizer = optim.partition({"fast": optim.sgd(1.0), "slow": optim.sgd(0.5)}, labels)
    params, state = optimizer.step(PARAMS, optimizer.init(PARAMS), PARAMS)
    assert params["head"].item() == 0.0
    assert_allclose(params["body"][0]["w"], [0.5, -1.0])
    assert state.fast.rate.item() == 1.0


def test_named_arguments_pass_through():
    def update(grads, state, params, value=1.0):
        return pytrees.map(lambda g: -value * g, grads), state

    by_value = optim.Optimizer(lambda params: None, update, takes=("value",))
    optimizer = optim.partition({"head": by_value, "*": optim.accumulate(by_value, 1)})
    params, _ = optimizer.step(PARAMS, optimizer.init(PARAMS), PARAMS, value=0.5)
    assert params["head"].item() == 1.5
    assert_allclose(params["body"][0]["w"], [0.5, -1.0])
    with pytest.raises(ArgumentError, match="no argument valeu="):
        optimizer.step(PARAMS, optimizer.init(PARAMS), PARAMS, valeu=0.5)


def test_bad_wrappers():
    sgd = optim.sgd(0.1)
    with pytest.raises(ArgumentError, match="steps has to be an integer above 0, got 0"):
        optim.accumulate(sgd, 0)
    with pytest.raises(ArgumentError, match="steps has to be an integer above 0, got True"):
        optim.accumulate(sgd, True)
    state = optim.chain(sgd).init(PARAMS)
    with pytest.raises(TreeError, match=r"expected .* fields \*, got ChainState with 0"):
        optim.partition({"*": sgd}).update(PARAMS, state, PARAMS)
    with pytest.raises(FunctionError, match="accumulate: expected an optimizer"):
        optim.accumulate(np.sum, 2)  # type: ignore[arg-type]
    with pytest.raises(FunctionError, match="partition: expected an optimizer"):
        optim.partition({"*": 0.1})  # type: ignore[dict-item]
    with pytest.raises(ArgumentError, match="a dict of optimizers"):
        optim.partition({})
    with pytest.raises(TreeError, match=r"no pattern matches head\. Put"):
        optim.partition({"body": sgd}).init(PARAMS)
    with pytest.raises(TreeError, match=r"'boby' matches nothing\. Similar: body"):
        optim.partition({"boby": sgd, "*": sgd}).init({"body": PARAMS["head"]})
    with pytest.raises(TreeError, match=r"the label of head is 'c'; the optimizers are a"):
        optim.partition({"a": sgd}, {"body": "a", "head": "c"}).init(PARAMS)
