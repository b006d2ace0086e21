"""Fifty steps of each rule end where optax's and PyTorch's do; ``golden.py`` made the numbers."""

import json
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
from funcgrad import optim
from funcgrad.optim import schedules
from tests.optim.golden import CASES, COUNTS, STEPS, TABLE, gradients, start

NUMBERS = json.loads(TABLE.read_text("utf-8"))


CHAINS = {
    "clip": lambda: optim.chain(optim.clip(0.5), optim.sgd(0.05)),
    "clip-tree": lambda: optim.chain(optim.clip_by_norm(1.0), optim.adam(0.05)),
    "clip-unit": lambda: optim.chain(optim.clip_by_norm(0.5, per="unit"), optim.sgd(0.05)),
    "decay": lambda: optim.chain(
        optim.add_weight_decay(0.1), optim.scale(2.0), optim.sgd(0.05, 0.9)
    ),
    "accumulate": lambda: optim.accumulate(optim.adam(0.05), 4),
    "partition": lambda: optim.partition({"0": optim.adam(0.05), "1": optim.sgd(0.1, 0.9)}),
}
SCHEDULES: dict[str, Any] = {
    "linear": schedules.linear(1.0, 0.1, 20),
    "polynomial": schedules.polynomial(1.0, 0.1, 20, 2.5),
    "cosine": schedules.cosine(1.0, 0.1, 20),
    "exponential": schedules.exponential(1.0, 0.5, 5),
    "staircase": schedules.exponential(1.0, 0.5, 5, staircase=True),
    "onecycle": schedules.onecycle(1.0, 20),
    "piecewise": schedules.piecewise(1.0, {12: 0.1, 5: 0.5}),
    "join": schedules.join([schedules.constant(1.0), schedules.linear(0.5, 0.0, 5)], [7]),
    "restarts": schedules.restarts(schedules.cosine(1.0, 0.0, 8), 8, 0.5),
}


def optimizer_of(case):
    """The optimizer of a row, under its name and with its options in funcgrad."""
    if case == "rmsprop-torch":
        return optim.rmsprop(0.02, decay=0.99, eps_in_sqrt=False, centered=True, momentum=0.5)
    if case in CHAINS:
        return CHAINS[case]()
    name, options, _ = CASES[case]
    if name == "amsgrad":
        return optim.adam(**options, amsgrad=True)
    return getattr(optim, name)(**options)


@pytest.mark.parametrize("row", [row for row in NUMBERS if row.split()[2] != "-"])
def test_fifty_steps(row):
    _, case, kind = row.split()
    optimizer = optimizer_of(case)
    params = [fg.tensor(p) for p in start(kind)]
    state = optimizer.init(params)
    for step in range(STEPS):
        grads = [fg.tensor(g) for g in gradients([np.asarray(p) for p in params], step)]
        params, state = optimizer.step(grads, state, params)
    flat = np.concatenate([np.asarray(p).ravel() for p in params])
    numbers = np.concatenate([flat.real, flat.imag]) if kind == "complex" else flat
    assert_allclose(numbers, NUMBERS[row], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name):
    rates = [SCHEDULES[name](count).item() for count in COUNTS]
    assert_allclose(rates, NUMBERS[f"schedule {name} -"], rtol=1e-12, atol=1e-15)
