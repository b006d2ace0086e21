"""Fifty steps of each rule end where optax's and PyTorch's do; ``golden.py`` made the numbers."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
from funcgrad import optim
from tests.optim.golden import CASES, STEPS, TABLE, gradients, start

NUMBERS = json.loads(TABLE.read_text("utf-8"))


def optimizer_of(case):
    """The optimizer of a row, under its name and with its options in funcgrad."""
    if case == "rmsprop-torch":
        return optim.rmsprop(0.02, decay=0.99, eps_in_sqrt=False, centered=True, momentum=0.5)
    name, options, _ = CASES[case]
    if name == "amsgrad":
        return optim.adam(**options, amsgrad=True)
    return getattr(optim, name)(**options)


@pytest.mark.parametrize("row", NUMBERS)
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
    assert state.count.item() == STEPS
