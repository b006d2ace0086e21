"""Schedules as values: they rise from above 0, are plotted, traced, differentiated and pickled."""

import pickle
import sys
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
from funcgrad import optim
from funcgrad.errors import ArgumentError, FunctionError, MissingPackageError
from funcgrad.optim import schedules
from tests.together import together

ALL: dict[str, Any] = {
    "constant": schedules.constant(0.5, warmup=3),
    "cosine": schedules.cosine(0.5, 0.1, 10, warmup=3),
    "exponential": schedules.exponential(0.5, 0.5, 4, warmup=3),
    "inverse_sqrt": schedules.inverse_sqrt(0.5, warmup=3),
    "join": schedules.join([schedules.constant(0.5, 3), schedules.constant(0.1)], [5]),
    "linear": schedules.linear(0.5, 0.1, 10, warmup=3),
    "onecycle": schedules.onecycle(0.5, 10, warmup=3, start=0.125, end=0.0),
    "piecewise": schedules.warmup(schedules.piecewise(0.5, {2: 0.1}), 3),
    "polynomial": schedules.polynomial(0.5, 0.1, 10, 2.0, warmup=3),
    "restarts": schedules.restarts(schedules.cosine(0.5, 0.0, 6, warmup=3), 6),
    "warmup_cosine": schedules.warmup_cosine(0.5, 10, 3, start=0.125),
    "warmup": schedules.warmup(schedules.linear(0.5, 0.1, 7), 3),
}


def test_all_are_here():
    assert {*ALL, "plot"} == set(schedules.__all__)


@together("name", ALL)
def test_a_schedule_is_a_value(name):
    schedule = ALL[name]
    counts = np.arange(12)
    rates = np.array([schedule(count).item() for count in counts])
    assert rates[0] == pytest.approx(0.125)
    assert rates[3] == pytest.approx(0.5)
    assert (np.diff(rates[:4]) > 0).all()
    assert_allclose(schedule(counts), rates, rtol=1e-15)  # for a plot
    assert_allclose(fg.jit(schedule)(fg.tensor(7)), rates[7], rtol=1e-12)
    assert_allclose(fg.vmap(schedule)(fg.tensor(counts)), rates, rtol=1e-12)
    again = pickle.loads(pickle.dumps(schedule))
    assert again == schedule
    optimizer = pickle.loads(pickle.dumps(optim.sgd(schedule)))
    _, state = optimizer.step(fg.tensor(1.0), optimizer.init(fg.tensor(1.0)), fg.tensor(1.0))
    assert state.rate.item() == pytest.approx(0.125)


def test_a_rate_may_be_traced():
    def trained(peak):
        optimizer = optim.sgd(schedules.cosine(peak, 0.0, 4, warmup=1))

        def step(carry, _):
            return optimizer.step(carry[0], carry[1], carry[0]), None

        start = fg.tensor(1.0)
        (params, _), _ = fg.scan(step, (start, optimizer.init(start)), length=3)
        return params

    slope = (trained(0.1 + 1e-6) - trained(0.1 - 1e-6)) / 2e-6
    assert_allclose(fg.grad(fg.jit(trained))(0.1), slope, rtol=1e-8)
    assert fg.vmap(trained)(fg.tensor([0.1, 0.2])).shape == (2,)


def test_bad_schedules():
    with pytest.raises(ArgumentError, match=r"schedules\.linear: steps has to be an integer, 1 or"):
        schedules.linear(1.0, 0.0, 0)
    with pytest.raises(ArgumentError, match="warmup has to be an integer, 0 or more"):
        schedules.cosine(1.0, 0.0, 10, warmup=0.5)  # type: ignore[arg-type]
    with pytest.raises(FunctionError, match=r"schedules\.join: expected a list of schedules"):
        schedules.join([], [])
    with pytest.raises(FunctionError, match="a schedule is a function of the count"):
        schedules.warmup(0.1, 3)
    with pytest.raises(ArgumentError, match="2 schedules need 1 boundaries that rise"):
        schedules.join([schedules.constant(1.0)] * 2, [3, 4])
    with pytest.raises(ArgumentError, match="rates has to be a dict"):
        schedules.piecewise(1.0, [(2, 0.5)])  # type: ignore[arg-type]


@together(
    ("name", "fields"),
    [
        ("constant", {"start": -0.1}),
        ("linear", {"start": -0.1, "end": 0.1, "steps": 3}),
        ("linear", {"start": 0.1, "end": -0.1, "steps": 3}),
        ("cosine", {"start": 0.1, "end": -0.1, "steps": 3}),
        ("polynomial", {"start": -0.1, "end": 0.0, "steps": 3}),
        ("exponential", {"start": 0.1, "factor": -0.5, "steps": 3}),
        ("exponential", {"start": float("nan"), "factor": 0.5, "steps": 3}),
        ("inverse_sqrt", {"start": -0.1, "warmup": 1}),
        ("onecycle", {"peak": -0.1, "steps": 9}),
        ("onecycle", {"peak": 0.1, "steps": 9, "end": -0.1}),
        ("piecewise", {"start": -0.1, "rates": {2: 0.1}}),
        ("piecewise", {"start": 0.1, "rates": {2: -0.1}}),
        ("restarts", {"schedule": schedules.constant(0.1), "steps": 3, "factor": -1.0}),
    ],
)
def test_a_rate_that_climbs_is_refused(name, fields):
    with pytest.raises(ArgumentError, match=rf"schedules.{name}: .* has to be at least 0"):
        getattr(schedules, name)(**fields)


def test_a_schedule_of_the_user_s_that_climbs_is_refused():
    optimizer = optim.sgd(lambda count: 0.2 - 0.1 * count)
    params, state = fg.tensor(1.0), optimizer.init(fg.tensor(1.0))
    for _ in range(3):
        params, state = optimizer.step(fg.tensor(1.0), state, params)
    with pytest.raises(ArgumentError, match=r"a schedule returned -0\.1.* at the count 3"):
        optimizer.step(fg.tensor(1.0), state, params)
    with pytest.raises(ArgumentError, match=r"a schedule returned -0\.1 at the count 0"):
        optim.adam(lambda count: -0.1).step(params, optim.adam(0.1).init(params), params)


def test_gradients_of_schedules_may_be_negative():
    gradient = fg.grad(lambda schedule: -schedule(2))(schedules.linear(0.5, 0.1, 10))
    assert float(gradient.start) == pytest.approx(-0.8)


def test_a_schedule_is_plotted():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    rate = schedules.cosine(0.5, 0.1, 10, warmup=3)
    axes = Figure().subplots()
    assert schedules.plot(rate, 12, ax=axes) is axes
    schedules.plot(lambda count: 0.1 if count < 5 else 0.2, 5000, ax=axes)  # one of one's own
    first, second = (np.asarray(line.get_xydata()) for line in axes.lines)
    assert_allclose(first, [[n, rate(n).item()] for n in range(12)])
    assert len(second) == 1000
    assert_array_equal(second[[0, 1, -1]], [[0, 0.1], [5, 0.2], [4999, 0.2]])
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("step", "rate")
    new = schedules.plot(rate, 5)
    assert new is not axes
    with pytest.raises(FunctionError, match=r"schedules\.plot: a schedule is a function"):
        schedules.plot(0.1, 5)
    with pytest.raises(ArgumentError, match=r"schedules\.plot: steps has to be an integer above 0"):
        schedules.plot(rate, 0)


def test_a_plot_without_matplotlib_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingPackageError, match=r"Install it with `pip install matplotlib"):
        schedules.plot(schedules.constant(0.1), 5)
