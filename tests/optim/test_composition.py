"""Wrappers and changes of gradients compose with rules and with one another, in every mode."""

import pickle
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, fields
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import optim
from funcgrad._core import pytrees
from funcgrad.errors import ArgumentError, DtypeError, FunctionError, TreeError
from tests.optim.subjects import CHANGES, FUNCTIONS, OTHERS, RULES, WRAPPED, assert_same, named
from tests.together import together

PARAMS: dict[str, Any] = {
    "w": fg.tensor([[1.0, -2.0], [0.5, 3.0]]),
    "layers": (fg.tensor(2.0), None, [fg.tensor([1.5, -0.5])]),
}


def objective(params):
    return sum((fnp.sum(abs(leaf - 0.7) ** 2) for leaf in pytrees.leaves(params)), 0.0)


def composed(rate: Any = 0.1) -> Iterator[tuple[str, Any]]:
    """Optimizers of every wrapper and of every change, inside of one another."""

    def rule() -> Any:
        return optim.rmsprop(rate, initial_scale=1.0)

    for name, wrap in WRAPPED.items():
        yield name, wrap(rule())
        yield (
            f"{name} of a chain",
            wrap(optim.chain(rule(), plateau=CHANGES["reduce_on_plateau"]())),
        )
        yield f"chain of {name}", optim.chain(optim.scale(0.5), member=wrap(rule()))
    for name, make in CHANGES.items():
        yield f"{name} first", optim.chain(make(), rule())
        yield f"apply_if_finite of {name}", optim.apply_if_finite(optim.chain(make(), a=rule()), 3)


SUBJECTS = dict(composed())
every = pytest.mark.parametrize("name", SUBJECTS)


def layout(tree):
    leaves, structure = pytrees.flatten(tree)
    return structure, [(leaf.shape, leaf.dtype) for leaf in leaves]


def stepped(optimizer, params, state):
    grads = fg.grad(objective)(params)
    return optimizer.step(grads, state, params, **named(optimizer, objective, params))


def trained(optimizer, params, steps=4):
    """The parameters and the state after some steps, by a scan."""

    def step(carry, _):
        return stepped(optimizer, *carry), None

    return fg.scan(step, (params, optimizer.init(params)), length=steps)[0]


def test_every_optimizer_is_a_subject():
    assert {*RULES, *WRAPPED, *CHANGES, *OTHERS} == set(FUNCTIONS)
    assert {"muon", "adafactor"} <= set(RULES)


@pytest.mark.slow
@every
def test_steps_are_one_in_every_mode(name):
    optimizer = SUBJECTS[name]
    params, state = PARAMS, optimizer.init(PARAMS)
    for _ in range(4):
        params, state = stepped(optimizer, params, state)
        assert layout(state) == layout(optimizer.init(PARAMS))
    assert all(isinstance(leaf, fg.Tensor) for leaf in pytrees.leaves(state))
    again = pickle.loads(pickle.dumps(optimizer))
    assert_same(fg.jit(lambda p: trained(again, p))(PARAMS), (params, state), rtol=1e-12)
    copied = pickle.loads(pickle.dumps(state))
    assert_same(copied, state)
    starts = [PARAMS, pytrees.map(lambda leaf: 1.5 * leaf, PARAMS)]
    rows = fg.tree.unstack(fg.vmap(lambda p: trained(optimizer, p))(fg.tree.stack(starts)))
    assert_same(rows[0], (params, state), rtol=1e-12)
    assert_same(rows[1], trained(optimizer, starts[1]), rtol=1e-12)
    if pytrees.leaves(state):
        with pytest.raises(FrozenInstanceError):
            setattr(state, fields(state)[0].name, 0)


@every
@together("dtype", ["float16", "complex64"])
def test_dtypes_stay(name, dtype):
    optimizer = SUBJECTS[name]
    turn = 1 - 0.5j if dtype.startswith("complex") else 1
    params = pytrees.map(lambda leaf: fg.tensor((turn * np.asarray(leaf)).astype(dtype)), PARAMS)
    moved, state = stepped(optimizer, params, optimizer.init(params))
    assert layout(moved) == layout(params)
    assert layout(state) == layout(optimizer.init(params))
    for _ in range(8):
        moved, state = stepped(optimizer, moved, state)
    assert not any(leaf.dtype == np.float16 for leaf in pytrees.leaves(state))
    value = objective(moved).item()
    assert np.isfinite(value)
    assert value < objective(params).item()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SUBJECTS if "noise" not in name])
def test_a_run_is_differentiated_in_its_rate(name):
    def result(rate):
        optimizer = dict(composed(rate))[name]
        return objective(trained(optimizer, PARAMS)[0])

    slope = (result(0.1 + 1e-6) - result(0.1 - 1e-6)) / 2e-6
    assert_allclose(fg.jit(fg.grad(result))(0.1), slope, rtol=1e-5)


@every
def test_bad_input(name):
    optimizer = SUBJECTS[name]
    state, names = optimizer.init(PARAMS), named(optimizer, objective, PARAMS)
    with pytest.raises(DtypeError, match=r"params\['w'\] is of dtype int64.*floating dtype"):
        optimizer.init({"w": fg.tensor([1, 2]), "layers": ()})
    with pytest.raises(TreeError, match=r"expected .* got"):
        optimizer.update({"w": PARAMS["w"]}, state, PARAMS, **names)
    with pytest.raises(TreeError, match=r"The order is\s*update\(grads, state, params\)"):
        optimizer.update(PARAMS, PARAMS, PARAMS, **names)
    with pytest.raises(ArgumentError, match=r"there is no argument valeu="):
        optimizer.update(PARAMS, state, PARAMS, **names, valeu=1.0)
    grads = {**PARAMS, "w": PARAMS["w"] * np.nan}
    _, following = optimizer.step(grads, state, PARAMS, **names)  # NaN passes, or is left out
    assert layout(following) == layout(state)


def test_what_is_wrapped_is_an_optimizer():
    for name in ("apply_if_finite", "average_params", "lookahead", "sam", "schedule_free"):
        with pytest.raises(FunctionError, match=f"{name}: expected an optimizer, as optim.adam"):
            WRAPPED[name](0.1)


@together("name", WRAPPED)
def test_named_arguments_reach_the_inside(name):
    inner = optim.chain(optim.sgd(0.1), optim.reduce_on_plateau(0.5, patience=1))
    optimizer = WRAPPED[name](inner)
    assert "value" in optimizer.takes
    state = optimizer.init(PARAMS)
    others = {key: objective for key in optimizer.takes if key == "objective"}
    for _ in range(4):  # two of them are seen by an accumulation
        _, state = optimizer.step(PARAMS, state, PARAMS, value=1.0, **others)
    scales = [node.scale.item() for _, node in nodes_with(state, "scale")]
    assert scales
    assert max(scales) < 1.0


def nodes_with(state, field):
    from funcgrad.tree.pieces import nodes

    return [(path, node) for path, node in nodes(state) if hasattr(type(node), field)]


def test_lbfgs_is_wrapped_too():
    optimizer = optim.average_params(optim.chain(optim.lbfgs()), 0.5)
    params, state = PARAMS, optimizer.init(PARAMS)
    for _ in range(3):
        inner = state.inner[0]
        params, state = optimizer.step(
            inner.grads, state, params, value=inner.value, objective=objective
        )
    assert_allclose(params["w"], 0.7, rtol=1e-6)
