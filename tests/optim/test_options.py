"""Every numeric option of every optimizer may be traced: batched, differentiated, compiled."""

import inspect
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import optim
from funcgrad._core import pytrees
from funcgrad.errors import DtypeError, ShapeError
from tests.optim.subjects import FUNCTIONS, OTHERS, RULES, named
from tests.together import together

PARAMS: dict[str, Any] = {"w": fg.tensor([[1.0, -2.0], [0.5, 3.0]]), "b": fg.tensor([1.5, -0.5])}
STATIC = frozenset(
    {"min_dim_size_to_factor", "ns_steps", "steps", "sync_period", "memory_size"}
    | {"max_linesearch_steps"}
)
"""Integers that decide about shapes or programs."""

FIRST: dict[str, dict[str, Any]] = {
    "accumulate": {"steps": 2},
    "apply_if_finite": {"max_consecutive_errors": 3},
    "average_params": {"decay": 0.9},
    "clip": {"max_delta": 0.5},
    "clip_by_norm": {"max_norm": 0.5},
    "ema": {"decay": 0.9},
    "noise": {"eta": 0.01, "gamma": 0.5, "key": fg.random.key(1)},
    "scale": {"factor": 0.5},
    "trace": {"decay": 0.9},
    "add_weight_decay": {"weight_decay": 0.1},
}
"""Options without a default."""

ODD: dict[tuple[str, str], float] = {
    ("adafactor", "eps"): 1e-3,
    ("adafactor", "decay_offset"): 0.0,
    ("adafactor", "momentum"): 0.5,
    ("adagrad", "initial_accumulator_value"): 0.5,
    ("muon", "consistent_rms"): 0.2,
    ("radam", "threshold"): 0.5,
    ("reduce_on_plateau", "accumulation_size"): 1.0,
    ("reduce_on_plateau", "patience"): 1.0,
}
"""Numbers for options whose defaults are no numbers, or say nothing in a few steps."""


def numeric_options():
    """Pairs of a function and an option that is a number."""
    for name, function in FUNCTIONS.items():
        for option, parameter in inspect.signature(function).parameters.items():
            first = FIRST.get(name, {}).get(option, parameter.default)
            value = ODD.get((name, option), 0.1 if option == "learning_rate" else first)
            is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if is_number and option not in STATIC and name not in OTHERS:
                yield name, option, float(value)


PAIRS = {f"{name} {option}": (name, option, value) for name, option, value in numeric_options()}
every_option = together(("name", "option", "value"), PAIRS.values(), ids=PAIRS)


def made(name, **options):
    """An optimizer that descends, with options."""
    function: Any = FUNCTIONS[name]
    parameters = inspect.signature(function).parameters
    options = {**FIRST.get(name, {}), **options}
    if name in RULES:
        options.setdefault("learning_rate", 0.1)
        return function(**options)
    if "optimizer" in parameters:
        return function(optim.sgd(0.1), **options)
    return optim.chain(function(**options), optim.sgd(0.1))


def objective(params):
    return sum((fnp.sum(abs(leaf - 0.7) ** 2) for leaf in pytrees.leaves(params)), 0.0)


def result(name, option, value):
    """What a run of a few steps comes to, by a scan."""
    optimizer = made(name, **{option: value})

    def step(carry, _):
        params, state = carry
        grads = fg.grad(objective)(params)
        return optimizer.step(grads, state, params, **named(optimizer, objective, params)), None

    (params, state), _ = fg.scan(step, (PARAMS, optimizer.init(PARAMS)), length=4)
    if name in ("average_params", "lookahead", "schedule_free"):
        params = optim.eval_params(state, params)
    return objective(params)


def test_the_options_are_found():
    assert len(PAIRS) > 70
    assert {"adam b1", "muon beta", "schedule_free b1", "sam rho", "noise eta"} <= set(PAIRS)


@pytest.mark.slow
@every_option
def test_a_run_is_batched_and_differentiated_in_an_option(name, option, value):
    value = 0.95 * value + 1e-3  # beside a place where it decides
    values = np.array([value, value * 0.7 + 0.01])
    batched = fg.jit(fg.vmap(fg.value_and_grad(lambda v: result(name, option, v))))
    rows, slopes = batched(fg.tensor(values))
    one, other, above, below = [
        result(name, option, v) for v in (*values, value + 1e-6, value - 1e-6)
    ]
    assert_allclose(rows, [one, other], rtol=1e-10)
    assert_allclose(slopes[0], (above - below) / 2e-6, rtol=1e-4, atol=1e-6)


@every_option
def test_an_option_is_one_real_number(name, option, value):
    remedy = "For a run with each of several, use fg.vmap"
    for wrong in (fg.tensor([value, value]), np.array([value])):
        with pytest.raises(DtypeError, match=f"{option} has to be a real number, got.*{remedy}"):
            made(name, **{option: wrong})
    with pytest.raises(DtypeError, match=f"{option} has to be a real number, got"):
        made(name, **{option: fg.tensor(1j)})


def test_a_schedule_returns_one_number():
    optimizer = optim.adam(lambda count: fg.tensor([0.1, 0.2]))
    state = optimizer.init(PARAMS)
    with pytest.raises(ShapeError, match=r"a schedule returns one number.*shape \(2,\)"):
        optimizer.update(PARAMS, state, PARAMS)
