"""Every optimizer of ``fg.optim`` keeps the contract; ``test_parity.py`` has its numbers."""

import inspect
from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
from funcgrad import optim
from funcgrad._core import pytrees
from funcgrad.errors import ArgumentError, DtypeError, LeafError, ShapeError, TreeError
from funcgrad.testing import check_optimizer
from tests.optim.subjects import RULES as OPTIMIZERS
from tests.together import together

# --------------------------------------------------------------------- conformance, by discovery

# Options to try in addition to the defaults, for the optimizers that have them.
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"momentum": 0.9},
    {"momentum": 0.9, "nesterov": True},
    {"b1": 0.5, "b2": 0.9},
    {"eps_root": 1e-3},
    {"weight_decay": 0.1},
    {"weight_decay": 0.1, "mask": {"w": True, "layers": False}},
)
CASES = {
    f"{name}({', '.join(f'{key}={value}' for key, value in options.items())})": (make, options)
    for name, make in OPTIMIZERS.items()
    for options in OPTIONS
    if set(options) <= set(inspect.signature(make).parameters)
    if not options or name in ("sgd", "adam", "adamw")  # the builder is one: the others follow
}
every_case = pytest.mark.parametrize(("make", "options"), CASES.values(), ids=CASES)
every_optimizer = pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)


def example():
    return {
        "w": fg.tensor([[1.0, -2.0], [0.5, 3.0]]),
        "layers": (fg.tensor(2.0), None, [fg.tensor([1.5, -0.5])]),
    }


def like(tree, value):
    return pytrees.map(lambda leaf: fg.tensor(np.full(leaf.shape, value, leaf.dtype)), tree)


def run(optimizer, params, grad, steps):
    state = optimizer.init(params)
    for _ in range(steps):
        updates, state = optimizer.update(grad(params), state, params)
        params = optim.apply_updates(params, updates)
    return params, state


def layout(tree):
    """The structure of a tree, and the shape and dtype of each leaf."""
    leaves, structure = pytrees.flatten(tree)
    return structure, [(leaf.shape, leaf.dtype) for leaf in leaves]


def test_discovery_finds_the_optimizers():
    assert {"sgd", "adam", "adamw"} <= set(OPTIMIZERS)
    assert len(OPTIMIZERS) >= 12


def default_decay(make):
    declared = inspect.signature(make).parameters.get("weight_decay")
    return 0.0 if declared is None else declared.default


@every_case
def test_state_has_one_structure(make, options):
    params = example()
    first, plain = make(0.1, **options).init(params), make(lambda count: 0.1).init(params)
    assert type(first) is type(plain)
    assert layout(first) == layout(plain)
    _, state = run(make(0.1, **options), params, lambda params: params, 3)
    assert state.count.item() == 3
    with pytest.raises(FrozenInstanceError):
        state.count = 0


@every_case
def test_the_contract_is_kept(make, options):
    dtypes = ("float32", "float64", "complex64", "complex128")
    rate = 1.0 if make is optim.adadelta else 0.01
    check_optimizer(make(rate, **options), params=example(), dtypes=dtypes)


@every_case
@together("dtype", ["float32", "float64", "complex64", "complex128"])
def test_dtypes_stay_at_rates_of_every_kind(make, options, dtype):
    params = {"w": fg.tensor([1.0, -2.0], dtype), "layers": [fg.tensor(3.0, dtype)]}
    for rate in (np.float64(0.1), fg.tensor(0.1), lambda count: 0.1 + 0 * count):
        optimizer = make(rate, **options)
        state = optimizer.init(params)
        updates, following = optimizer.update(params, state, params)
        assert layout(updates) == layout(params)
        assert layout(optim.apply_updates(params, updates)) == layout(params)
        assert layout(following) == layout(state)


@every_case
def test_zero_gradients_move_nothing_but_by_decay(make, options):
    params = example()
    optimizer = make(0.1, **options)
    updates, _ = optimizer.update(like(params, 0.0), optimizer.init(params), params)
    decay = options.get("weight_decay", default_decay(make))
    assert_allclose(updates["w"], -0.1 * decay * params["w"], atol=1e-300)
    if "mask" in options:
        assert_array_equal(updates["layers"][0], 0.0)


@every_case
def test_schedule_counts_from_zero(make, options):
    seen = []

    def schedule(count):
        seen.append(int(count))
        return 0.1

    run(make(schedule, **options), example(), lambda params: params, 3)
    assert seen == [0, 1, 2]


# ------------------------------------------------------------------------------------- bad input


@every_optimizer
def test_mismatched_trees_name_the_path(make):
    params = {"a": [fg.tensor(1.0), fg.tensor([2.0, 3.0])], "b": fg.tensor(1.0)}
    optimizer = make(0.1)
    state = optimizer.init(params)
    with pytest.raises(TreeError, match=r"grads\['a'\]: expected a list of 2, got a list of 1"):
        optimizer.update({"a": [fg.tensor(1.0)], "b": fg.tensor(1.0)}, state, params)
    wrong = {"a": [fg.tensor(1.0), fg.tensor([2.0])], "b": fg.tensor(1.0)}
    with pytest.raises(
        ShapeError, match=r"update: grads\['a'\]\[1\]: expected shape \(2,\).*\(1,\)"
    ):
        optimizer.update(wrong, state, params)
    with pytest.raises(TreeError, match=r"state\.\w+: expected"):
        optimizer.update([fg.tensor(1.0)], state, [fg.tensor(1.0)])
    with pytest.raises(DtypeError, match=r"grads\['b'\] is of dtype complex128"):
        optimizer.update({**params, "b": fg.tensor(1j)}, state, params)
    with pytest.raises(TreeError, match=r"The order is update\(grads, state, params\)"):
        optimizer.update(params, params, state)
    with pytest.raises(TreeError, match=r"updates\['b'\]: expected a leaf"):
        optim.apply_updates(params, {**params, "b": [fg.tensor(1.0)]})


@every_optimizer
def test_parameters_that_cannot_be_optimized(make):
    with pytest.raises(DtypeError, match=r"init: params\['n'\] is of dtype int64"):
        make(0.1).init({"n": fg.tensor([1, 2])})
    with pytest.raises(LeafError, match=r"init: params\['name'\]: expected an array"):
        make(0.1).init({"name": "w"})


@every_optimizer
def test_arrays_and_numbers_are_parameters_too(make):
    params = {"w": np.array([1.0, 2.0]), "b": 3.0}
    optimizer = make(0.1)
    updates, _ = optimizer.update(params, optimizer.init(params), params)
    moved = optim.apply_updates(params, updates)
    assert all(isinstance(leaf, fg.Tensor) for leaf in pytrees.leaves(moved))


@every_optimizer
@together("rate", [-0.1, np.nan, np.inf])
def test_bad_learning_rates(make, rate):
    with pytest.raises(ArgumentError, match="learning_rate has to be at least 0 and finite"):
        make(rate)


@together(
    ("name", "options"),
    [
        ("sgd", {"momentum": 1.0}),
        ("sgd", {"momentum": -0.1}),
        ("adam", {"b1": 1.0}),
        ("adam", {"b2": 1.5}),
        ("adam", {"eps": -1.0}),
        ("adam", {"eps_root": -1.0}),
        ("adamw", {"weight_decay": -1.0}),
    ],
)
def test_bad_options(name, options):
    with pytest.raises(ArgumentError, match=f"{name}: {next(iter(options))} has to be at least 0"):
        getattr(optim, name)(0.1, **options)


def test_options_that_are_no_numbers():
    with pytest.raises(DtypeError, match="learning_rate has to be a real number"):
        optim.sgd(1j)
    with pytest.raises(DtypeError, match="momentum has to be a real number"):
        optim.sgd(0.1, momentum=[0.9])


def test_bad_masks():
    params = {"a": fg.tensor(1.0), "b": fg.tensor(1.0)}
    for mask, error, text in (
        ({"a": True}, TreeError, "mask: expected a dict with keys"),
        ({"a": True, "b": 1.0}, DtypeError, r"mask at params\['b'\] has to be True or False"),
    ):
        optimizer = optim.adamw(0.1, mask=mask)
        with pytest.raises(error, match=text):
            optimizer.update(params, optimizer.init(params), params)


# -------------------------------------------------------------------------------------------- masks


@pytest.mark.parametrize(
    "mask", [{"w": True, "b": False}, lambda params: pytrees.map(lambda x: x.ndim > 0, params)]
)
def test_mask_chooses_what_decays(mask):
    params = {"w": fg.tensor([2.0]), "b": fg.tensor(2.0)}
    optimizer = optim.adamw(0.1, weight_decay=0.5, mask=mask)
    updates, _ = optimizer.update(like(params, 0.0), optimizer.init(params), params)
    assert_allclose(updates["w"], [-0.1])
    assert_array_equal(updates["b"], 0.0)


# ------------------------------------------------------------------------------ the pair as a value


def test_optimizer_is_a_value():
    optimizer = optim.sgd(0.1)
    assert pytrees.leaves(optimizer) == []
    with pytest.raises(FrozenInstanceError):
        optimizer.init = None  # type: ignore[misc, assignment]

    def step(optimizer, w):
        return optimizer.update(w, optimizer.init(w), w)[0]

    assert_allclose(
        fg.vmap(step, in_axes=(None, 0))(optimizer, fg.tensor([1.0, 2.0])), [-0.1, -0.2]
    )


def test_training_inside_a_transformation():
    """The trained parameter is the mean of the data, so each of its derivatives is 1/3."""

    def fit(data):
        optimizer = optim.sgd(0.5)
        params = fg.tensor(0.0)
        grad = fg.grad(lambda w: ((w - data) ** 2).mean())
        return run(optimizer, params, grad, 60)[0]

    data = fg.tensor([1.0, 2.0, 6.0])
    assert_allclose(fit(data), 3.0)
    assert_allclose(fg.grad(fit)(data), np.full(3, 1 / 3))


@dataclass(frozen=True)
class Model:
    weight: Any
    bias: Any


def test_dataclasses_are_parameters():
    params = Model(fg.tensor([1.0, 2.0]), fg.tensor(3.0, "float32"))
    moved, state = run(optim.adam(0.1), params, lambda params: params, 2)
    assert isinstance(moved, Model)
    assert isinstance(state.mu, Model)
    assert moved.bias.dtype == np.float32
