"""Means of gradients and of parameters, and the parameters to evaluate with."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import optim
from funcgrad._core import pytrees
from funcgrad.errors import ArgumentError, TreeError

numbers = st.lists(st.floats(-10, 10), min_size=1, max_size=6)
shares = st.floats(0, 0.99)


def changed(change, gradients):
    state, found = change.init(fg.tensor(0.0)), []
    for gradient in gradients:
        update, state = change.update(fg.tensor(gradient), state, fg.tensor(0.0))
        found.append(update.item())
    return found, state


@given(numbers, shares)
def test_a_trace_is_momentum(gradients, decay):
    for nesterov in (False, True):
        found, _ = changed(optim.chain(optim.trace(decay, nesterov), optim.scale(-0.1)), gradients)
        expected, _ = changed(optim.sgd(0.1, decay, nesterov), gradients)
        assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@given(numbers, shares)
def test_a_mean_is_weighted_by_age(gradients, decay):
    found, state = changed(optim.ema(decay), gradients)
    biased, _ = changed(optim.ema(decay, debias=False), gradients)
    weights = decay ** np.arange(len(gradients))[::-1]
    assert_allclose(found[-1], np.average(gradients, weights=weights), rtol=1e-9, atol=1e-9)
    assert_allclose(biased[-1], (1 - decay) * weights @ gradients, rtol=1e-9, atol=1e-9)
    assert state.ema.item() == biased[-1]


def places(optimizer, steps=5):
    """The parameters after each step of a run, and the last state."""
    params = fg.tensor([4.0, -1.0])
    state, found = optimizer.init(params), []
    for step in range(steps):
        params, state = optimizer.step(params + step, state, params)
        found.append(np.asarray(params))
    return found, state


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9])
def test_parameters_are_averaged_beside_the_steps(decay):
    alone, _ = places(optim.adam(0.1))
    found, state = places(optim.average_params(optim.adam(0.1), decay))
    assert_array_equal(found, alone)
    weights = decay ** np.arange(5)[::-1]
    assert_allclose(state.average, np.average(alone, axis=0, weights=weights), rtol=1e-12)
    assert state.inner.rate.item() == 0.1


def test_all_steps_may_have_one_weight():
    found, state = places(optim.average_params(optim.sgd(0.1), lambda n: n / (n + 1.0)))
    assert_allclose(state.average, np.mean(found, axis=0), rtol=1e-12)

    def from_the_third(count):
        begun = fnp.maximum(count - 2.0, 0.0)
        return begun / (begun + 1.0)

    late = optim.average_params(optim.sgd(0.1), from_the_third)
    found, state = places(late)
    assert_allclose(state.average, np.mean(found[2:], axis=0), rtol=1e-12)


def test_a_mean_of_half_precision_moves():
    """In half precision a thousandth of a difference would be lost."""
    optimizer = optim.average_params(optim.sgd(1.0), 0.999)
    params = fg.tensor(100.0, "float16")
    state = optimizer.init(params)
    for _ in range(100):
        params, state = optimizer.step(fg.tensor(0.5, "float16"), state, params)
    assert_allclose(state.average.item(), 74.4, atol=0.5)
    evaluated = optim.eval_params(state, params)
    assert evaluated.dtype == np.float16


PARAMS: Any = {"a": fg.tensor([1.0, 2.0], "float32"), "b": [fg.tensor(3.0), None]}


@pytest.mark.parametrize(
    "wrap",
    [
        lambda o: optim.average_params(o, 0.5),
        lambda o: optim.lookahead(o, 2),
        lambda o: optim.schedule_free(o, 0.1),
    ],
)
def test_what_to_evaluate_is_found_in_any_state(wrap):
    direct = wrap(optim.sgd(0.1))
    _, state = direct.step(PARAMS, direct.init(PARAMS), PARAMS)
    expected = optim.eval_params(state, PARAMS)
    assert expected["a"].dtype == np.float32
    outer: Any
    for outer in (
        optim.chain(optim.clip(9.0), direct),
        optim.apply_if_finite(direct, 3),
        optim.accumulate(direct, 1),
        optim.sam(direct, 0.0),
        optim.partition({"*": direct}),
    ):
        named = {"objective": lambda p: 0.5 * fg.tree.vdot(p, p)} if outer.takes else {}
        _, state = outer.step(PARAMS, outer.init(PARAMS), PARAMS, **named)
        both = map(pytrees.leaves, (optim.eval_params(state, PARAMS), expected))
        for x, y in zip(*both, strict=True):
            assert_allclose(x, y, rtol=1e-6)
            assert x.dtype == y.dtype
    part = optim.partition({"b": direct, "a": optim.sgd(0.1)})
    moved, state = part.step(PARAMS, part.init(PARAMS), PARAMS)
    evaluated = fg.jit(optim.eval_params)(state, moved)
    assert_array_equal(evaluated["a"], moved["a"])
    assert_allclose(evaluated["b"][0], expected["b"][0])


def test_of_two_the_outer_counts():
    optimizer = optim.average_params(optim.lookahead(optim.sgd(0.1), 3), 0.5)
    params, state = optimizer.step(PARAMS, optimizer.init(PARAMS), PARAMS)
    assert_allclose(optim.eval_params(state, params)["b"][0], params["b"][0])


def test_bad_evaluations():
    state = optim.adam(0.1).init(PARAMS)
    with pytest.raises(TreeError, match=r"nothing in the state holds .* Put optim\.average_params"):
        optim.eval_params(state, PARAMS)
    averaged = optim.average_params(optim.adam(0.1)).init(PARAMS)
    with pytest.raises(TreeError, match=r"eval_params: state\.AverageState: expected a dict"):
        optim.eval_params(averaged, {"a": PARAMS["a"]})
    with pytest.raises(ArgumentError, match="decay has to be at least 0 and below 1"):
        optim.average_params(optim.adam(0.1), 1.0)
    with pytest.raises(ArgumentError, match="trace: decay has to be at least 0 and below 1"):
        optim.trace(1.0)
