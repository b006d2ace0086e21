"""Fifty steps of each rule end where optax's and PyTorch's do; ``golden.py`` made the numbers."""

import json
from typing import Any

import numpy as np
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import optim
from funcgrad.optim import schedules
from tests.optim.golden import CASES, COUNTS, STEPS, TABLE, gradients, start, value
from tests.together import together

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
    "trace": lambda: optim.chain(optim.trace(0.9), optim.scale(-0.05)),
    "trace-nesterov": lambda: optim.chain(optim.trace(0.9, nesterov=True), optim.scale(-0.05)),
    "ema": lambda: optim.chain(optim.ema(0.9), optim.scale(-0.05)),
    "ema-biased": lambda: optim.chain(optim.ema(0.9, debias=False), optim.scale(-0.05)),
    "lookahead": lambda: optim.lookahead(optim.adam(0.05), 5, 0.3),
    "lookahead-reset": lambda: optim.lookahead(optim.adam(0.05), 4, 0.5, reset_state=True),
    "plateau": lambda: optim.chain(
        optim.sgd(0.05),
        optim.reduce_on_plateau(0.5, 2, 0.05, 0.01, 1, accumulation_size=2, min_scale=0.1),
    ),
    "optimistic": lambda: optim.optimistic_gradient_descent(0.05, 0.7, 0.9),
    "optimistic-adam": lambda: optim.optimistic_adam(0.05, 0.7, 0.9),
    "optimistic-plain": lambda: optim.optimistic_adam(0.05, nesterov=False),
    "prodigy": lambda: optim.prodigy(),
    "prodigy-warm": lambda: optim.prodigy(
        0.5, start=1e-3, growth=2.0, weight_decay=0.1, safeguard_warmup=True
    ),
    "sam": lambda: optim.sam(optim.adam(0.05), 0.1),
    "schedule-free": lambda: optim.schedule_free(optim.sgd(0.05), b1=0.8),
    "schedule-free-adam": lambda: optim.schedule_free(
        optim.adamw(0.05, b1=0.0, weight_decay=0.1), weight_lr_power=1.0
    ),
}
SCHEDULES: dict[str, Any] = {
    "linear": schedules.linear(1.0, 0.1, 20),
    "polynomial": schedules.polynomial(1.0, 0.1, 20, 2.5),
    "cosine": schedules.cosine(1.0, 0.1, 20),
    "warmup-cosine": schedules.warmup_cosine(1.0, 20, 6, 0.1, 0.05, 1.5),
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
    if case == "adafactor-torch":

        def rate(count):
            return fnp.minimum(0.05, 1 / fnp.sqrt(count + 1.0))

        return optim.adafactor(rate, 1, weight_decay_rate=0.05 * 0.1)
    if case in CHAINS:
        return CHAINS[case]()
    name, options, _ = CASES[case]
    if name == "amsgrad":
        return optim.adam(**options, amsgrad=True)
    return getattr(optim, name)(**options)


ROWS = [
    row for row in NUMBERS if row.split()[0] not in ("schedule", "mean") and row.split()[2] != "-"
]


def objective(step):
    """A function whose gradients are those of a step, for real parameters."""
    waves = gradients([np.zeros_like(p) for p in start("real")], step)

    def loss(params):
        pairs = zip(params, waves, strict=True)
        return sum((fnp.sum(0.2 * p**2 + wave * p) for p, wave in pairs), 0.0)

    return loss


def ran(optimizer, kind):
    """The parameters after all steps, as numbers, and the last state."""
    params = [fg.tensor(p) for p in start(kind)]
    state = optimizer.init(params)
    for step in range(STEPS):
        grads = [fg.tensor(g) for g in gradients([np.asarray(p) for p in params], step)]
        named = {"value": value(step), "objective": objective(step)}
        taken = {name: named[name] for name in optimizer.takes}
        params, state = optimizer.step(grads, state, params, **taken)
    return numbers(params), state


def numbers(params):
    flat = np.concatenate([np.asarray(p).ravel() for p in params])
    return np.concatenate([flat.real, flat.imag]) if np.iscomplexobj(flat) else flat


@together("row", ROWS)
def test_fifty_steps(row):
    _, case, kind = row.split()
    found, _ = ran(optimizer_of(case), kind)
    assert_allclose(found, NUMBERS[row], rtol=1e-10, atol=1e-12)


def test_the_mean_of_parameters_is_that_of_ema():
    optimizer = optim.average_params(optim.sgd(0.05), 0.9)
    found, state = ran(optimizer, "real")
    assert_allclose(found, NUMBERS["optax sgd real"], rtol=1e-10)
    assert_allclose(numbers(state.average), NUMBERS["mean sgd real"], rtol=1e-10)


@together("name", SCHEDULES)
def test_schedules(name):
    rates = [SCHEDULES[name](count).item() for count in COUNTS]
    assert_allclose(rates, NUMBERS[f"schedule {name} -"], rtol=1e-12, atol=1e-15)
