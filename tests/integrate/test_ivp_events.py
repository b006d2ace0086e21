"""Events of ``solve_ivp``, and derivatives of its results: closed forms, and all ways agree."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.integrate

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ConvergenceError
from funcgrad.integrate import Event, solve_ivp
from tests.integrate.closed_solutions import CLOSED
from tests.together import together

TIGHT: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-9}
GROUND = Event(lambda t, y, g: y[0], terminal=True, direction=-1)


def falling(t: Any, y: Any, g: Any) -> Any:
    return y[1], -g


def landing(values: Any, **options: Any) -> Any:
    """The time and the speed at which a ball lands, from its height, its speed and gravity."""
    height, speed, g = values
    sol = solve_ivp(falling, (0.0, 9.0), (height, speed), events=GROUND, args=(g,), **options)
    return fnp.stack([sol.t_events[0][0], sol.y_events[0][1][0]])


def landing_exactly(values: Any) -> Any:
    height, speed, g = values
    down = fnp.sqrt(speed**2 + 2.0 * g * height)
    return fnp.stack([(speed + down) / g, -down])


THROW = fg.tensor([10.0, 1.0, 9.81])


def test_a_list_of_scalars_is_a_vector_also_if_they_are_traced() -> None:
    def after(height: Any, speed: float | fg.Tensor) -> Any:
        sol = solve_ivp(lambda _, y: [y[1], -9.81], (0.0, 1.0), [height, speed], t_eval=[1.0])
        assert sol.y.shape == (2, 1)
        return sol.y[0, -1]

    np.testing.assert_allclose(fg.grad(after)(10.0, 1.0), 1.0, rtol=1e-12)
    np.testing.assert_allclose(
        fg.vmap(after)(fg.tensor([1.0, 2.0]), fg.tensor([1.0, 1.0])), [-2.905, -1.905]
    )


@together("method", ["RK45", "Tsit5", "DOP853"])
def test_a_ball_lands_where_it_should(method: str) -> None:
    np.testing.assert_allclose(landing(THROW, method=method), landing_exactly(THROW), rtol=1e-13)
    sol = solve_ivp(falling, (0.0, 9.0), (10.0, 1.0), method, events=GROUND, args=(9.81,))
    assert int(sol.status) == 1
    assert bool(sol.success)
    assert sol.message == "A termination event occurred."
    assert float(sol.t[-1]) == float(sol.t_events[0][0])
    assert float(sol.y[1][-1]) == float(sol.y_events[0][1][0])
    assert abs(float(sol.y[0][-1])) < 1e-13


def test_derivatives_of_an_event() -> None:
    run = fg.jit(lambda values: landing(values, t_eval=[]))
    exact = fg.jacfwd(landing_exactly)(THROW)
    np.testing.assert_allclose(fg.jacfwd(run)(THROW), exact, rtol=1e-12)
    np.testing.assert_allclose(fg.jacrev(run)(THROW), exact, rtol=1e-12)


@pytest.mark.slow
@together("options", [{}, {"max_steps": 50}, {"t_eval": [0.1, 0.2, 3.0]}])
@together("derivative", ["steps", "adjoint"])
def test_derivatives_of_events_by_all_ways(options: dict[str, Any], derivative: str) -> None:
    def run(values: Any) -> Any:
        return landing(values, derivative=derivative, **options)

    exact = fg.jacfwd(landing_exactly)(THROW)
    np.testing.assert_allclose(fg.jacfwd(run)(THROW), exact, rtol=1e-12)
    np.testing.assert_allclose(fg.jacrev(run)(THROW), exact, rtol=1e-12)
    if options:
        np.testing.assert_allclose(fg.jit(fg.jacrev(run))(THROW), exact, rtol=1e-12)
    if derivative == "steps" and "t_eval" in options:
        second = fg.jacfwd(fg.jacrev(run))(THROW)
        np.testing.assert_allclose(
            second, fg.jacfwd(fg.jacfwd(landing_exactly))(THROW), rtol=1e-10, atol=1e-12
        )


@pytest.mark.slow
def test_third_derivatives_of_an_event() -> None:
    def run(height: Any) -> Any:
        return landing((height, 0.0, 2.0), t_eval=[])[0]  # the root of the height

    third = fg.grad(fg.grad(fg.grad(run)))(4.0)
    np.testing.assert_allclose(third, 0.375 * 4.0**-2.5, rtol=1e-10)


def test_a_bouncing_ball_inside_of_jit() -> None:
    """Restarts are the user's: a loop of solutions, with its derivative."""

    def bounces(height: Any, count: int) -> Any:
        def bounce(_: Any, carry: Any) -> Any:
            t, speed = carry
            sol = solve_ivp(
                falling,
                (t, t + 9.0),
                (0.0, speed),
                t_eval=[],
                events=GROUND,
                args=(9.81,),
                max_events=1,
            )
            return sol.t_events[0][0], -0.8 * sol.y_events[0][1][0]

        t, speed = landing((height, 0.0, 9.81), t_eval=[])
        return fg.fori_loop(0, count, bounce, (t, -0.8 * speed))[0]

    def exactly(height: Any, count: int) -> Any:
        return fnp.sqrt(2.0 * height / 9.81) * (
            1.0 + 2.0 * sum(0.8**k for k in range(1, count + 1))
        )

    value, slope = fg.jit(fg.value_and_grad(lambda h: bounces(h, 2)))(10.0)
    exact, exact_slope = fg.value_and_grad(lambda h: exactly(h, 2))(10.0)
    np.testing.assert_allclose([value, slope], [exact, exact_slope], rtol=1e-12)


def orbit(values: Any, derivative: str = "steps", **options: Any) -> Any:
    """The time and the place at which an orbit crosses the axis after half a turn."""
    speed, tilt = values
    start = fnp.stack([fnp.asarray(x) * 1.0 for x in (1.0, tilt, 0.0, speed)])
    event = Event(lambda t, y: y[1], terminal=True, direction=-1)
    sol = solve_ivp(
        CLOSED["kepler"].fun,
        (0.0, 10.0),
        start,
        events=[event],
        derivative=derivative,
        **TIGHT,
        **options,
    )
    return fnp.concatenate([sol.t_events[0][:1], sol.y_events[0][0, [0, 3]]])


@pytest.mark.slow
def test_an_orbit_crosses_the_axis() -> None:
    """Half of Kepler's period, and the far point of the ellipse, at speed v: closed forms."""

    def exactly(speed: Any) -> Any:
        axis = 1.0 / (2.0 - speed**2)
        return fnp.stack([np.pi * axis**1.5, 1.0 - 2.0 * axis])

    run = lambda v, **options: orbit((v, 0.0), t_eval=[], **options)[:2]  # noqa: E731
    np.testing.assert_allclose(run(1.1), exactly(1.1), rtol=1e-7)
    exact = fg.jacfwd(exactly)(fg.tensor(1.1))
    for derivative in ("steps", "adjoint"):
        way = partial(run, derivative=derivative)
        np.testing.assert_allclose(fg.jit(fg.jacrev(way))(fg.tensor(1.1)), exact, rtol=1e-6)
    by_adjoint = partial(run, derivative="adjoint")
    np.testing.assert_allclose(fg.jacfwd(by_adjoint)(fg.tensor(1.1)), exact, rtol=1e-6)
    slope = lambda v: fg.jvp(run, (v,), (1.0,))[1]  # noqa: E731
    first, second = fg.jit(lambda v: fg.jvp(slope, (v,), (1.0,)))(1.1)
    np.testing.assert_allclose(first, exact, rtol=1e-6)
    np.testing.assert_allclose(second, fg.jacfwd(fg.jacfwd(exactly))(fg.tensor(1.1)), rtol=1e-5)


@pytest.mark.slow
def test_orbits_adjoint_steps_forward_differences() -> None:
    point, size = fg.tensor([1.1, 0.05]), 1e-4
    by_steps = fg.jacrev(orbit)(point)
    np.testing.assert_allclose(fg.jacfwd(orbit)(point), by_steps, rtol=1e-10, atol=1e-12)
    adjoint = fg.jacrev(lambda v: orbit(v, "adjoint"))(point)
    np.testing.assert_allclose(adjoint, by_steps, rtol=1e-6, atol=1e-6)
    moves, staged = size * np.eye(2), fg.jit(lambda v: orbit(v, t_eval=[]))
    differences = [(staged(point + d) - staged(point - d)) / (2 * size) for d in moves]
    np.testing.assert_allclose(np.stack(differences, 1), by_steps, rtol=1e-5, atol=1e-5)
    padded = fg.jit(fg.jacrev(lambda v: orbit(v, max_steps=300)))(point)
    np.testing.assert_allclose(padded, by_steps, rtol=1e-8, atol=1e-9)


# ---------------------------------------------------------------------------- beside SciPy


def with_attributes(terminal: Any, direction: float) -> Any:
    def event(t: Any, y: Any) -> Any:
        return y[0] - 0.3

    event.terminal, event.direction = terminal, direction  # type: ignore[attr-defined]
    return event


@pytest.mark.slow
@together("terminal", [False, True, 3])
@together("direction", [-1, 0, 1])
def test_events_agree_with_scipy(terminal: Any, direction: int) -> None:
    event, other = with_attributes(terminal, direction), lambda t, y: y[1] + 0.2 * t - 1.0
    for span in ((0.0, 10.0), (10.0, 0.0)) if terminal else ((0.0, 10.0),):
        options: dict[str, Any] = {"events": [event, other], "rtol": 1e-6, "atol": 1e-6}
        mine = solve_ivp(lambda t, y: [y[1], -y[0]], span, [1.0, 0.1], **options)
        theirs = scipy.integrate.solve_ivp(lambda t, y: [y[1], -y[0]], span, [1.0, 0.1], **options)
        assert int(mine.status) == theirs.status
        for a, b, y, z in zip(
            mine.t_events, theirs.t_events, mine.y_events, theirs.y_events, strict=True
        ):
            np.testing.assert_allclose(a, b, atol=1e-4)
            np.testing.assert_allclose(y, np.reshape(z, (-1, 2)), atol=1e-4)
        np.testing.assert_allclose(mine.t[-1], theirs.t[-1], atol=1e-4)
        np.testing.assert_allclose(mine.y[:, -1], theirs.y[:, -1], atol=1e-4)
        times = np.linspace(*span, 5)
        mine = solve_ivp(lambda t, y: [y[1], -y[0]], span, [1.0, 0.1], t_eval=times, **options)
        theirs = scipy.integrate.solve_ivp(
            lambda t, y: [y[1], -y[0]], span, [1.0, 0.1], t_eval=times, **options
        )
        np.testing.assert_array_equal(mine.t, theirs.t)
        np.testing.assert_allclose(mine.y, theirs.y, atol=1e-4)


def test_events_are_located_to_the_last_bits() -> None:
    sol = solve_ivp(
        lambda t, y: [y[1], -y[0]], (0.0, 30.0), [0.0, 1.0], events=lambda t, y: t - 7.3
    )
    assert abs(float(sol.t_events[0][0]) - 7.3) <= np.spacing(7.3)
    crossings = solve_ivp(
        lambda t, y: [y[1], -y[0]],
        (0.0, 9.0),
        [1.0, 0.0],
        "DOP853",
        events=lambda t, y: y[0],
        **TIGHT,
    )
    assert np.max(np.abs(crossings.y_events[0][:, 0])) < 2e-15
    np.testing.assert_allclose(crossings.t_events[0], np.pi * (np.arange(3) + 0.5), atol=2e-7)


@pytest.mark.slow
def test_more_events_than_fit() -> None:
    def run(frequency: Any) -> Any:
        sol = solve_ivp(
            lambda t, y: [y[1], -(frequency**2) * y[0]],
            (0.0, 31.0),
            [1.0, 0.0],
            "DOP853",
            t_eval=[],
            events=lambda t, y: y[0],
            max_events=4,
            rtol=1e-7,
            atol=1e-7,
        )
        return sol.t_events[0]

    inside = fg.jit(run)(2.0)
    np.testing.assert_allclose(inside, np.pi / 4 * (2 * np.arange(4) + 1), atol=1e-5)
    assert run(2.0).shape == (20,)
    few = fg.jit(run)(0.1)
    np.testing.assert_allclose(few[0], 5 * np.pi, atol=1e-6)
    assert np.isnan(few[1:]).all()
    slope = fg.jit(fg.grad(lambda f: fnp.nansum(run(f))))(0.1)
    np.testing.assert_allclose(slope, -50 * np.pi, rtol=1e-6)


@pytest.mark.slow
def test_events_in_batches() -> None:
    throws = fg.tensor([[10.0, 1.0, 9.81], [1.0, 0.0, 9.81], [30.0, -2.0, 1.6], [2.0, 5.0, 3.7]])
    exact = fg.vmap(landing_exactly)(throws)

    def run(values: Any) -> Any:
        return landing(values, t_eval=[0.0, 0.4])

    for transform in (fg.vmap, lambda f: fg.jit(fg.vmap(f))):
        np.testing.assert_allclose(transform(run)(throws), exact, rtol=1e-13)
    batched = fg.jit(fg.vmap(run))
    np.testing.assert_array_equal(batched(throws[::-1]), batched(throws)[::-1])
    slopes = fg.jit(fg.vmap(fg.jacrev(run)))(throws)
    np.testing.assert_allclose(
        slopes, fg.vmap(fg.jacfwd(landing_exactly))(throws), rtol=1e-11, atol=1e-12
    )
    late = fg.vmap(
        lambda h: solve_ivp(
            falling, (0.0, 2.0), (h, 0.0), t_eval=[0.5, 1.0], events=GROUND, args=(9.81,)
        )
    )(fg.tensor([1.0, 100.0]))
    assert np.isnan(late.y[0]).tolist() == [[True, True], [False, False]] or np.isnan(
        late.y[0]
    ).tolist() == [[False, True], [False, False]]
    assert np.asarray(late.status).tolist() == [1, 0]
    assert np.isnan(late.t_events[0][1]).all()


def test_an_event_that_never_happens_and_one_that_fails_first() -> None:
    sol = solve_ivp(lambda t, y: -y, (0.0, 1.0), [1.0], events=lambda t, y: y[0] + 1.0)
    assert sol.t_events[0].shape == (0,)
    assert sol.y_events[0].shape == (0, 1)
    assert int(sol.status) == 0
    with pytest.raises(ConvergenceError):
        solve_ivp(lambda t, y: y**2, (0.0, 2.0), [1.0], events=lambda t, y: y[0] + 1.0)
    stopped = solve_ivp(
        lambda t, y: y**2, (0.0, 2.0), [1.0], events=Event(lambda t, y: y[0] - 9.0, True), **TIGHT
    )
    np.testing.assert_allclose(stopped.t_events[0], [8.0 / 9.0], rtol=1e-8)
    at_start = solve_ivp(
        falling, (0.0, 1.0), (0.0, 9.0), events=Event(lambda t, y, g: y[0]), args=(9.81,)
    )
    assert at_start.t_events[0].shape == (0,)


# ---------------------------------------------------------------------------- derivatives


@pytest.mark.slow
def test_derivatives_with_respect_to_everything() -> None:
    """y = y0 exp(rate * (t1 - t0)): in the span, the start, the rate, by both modes."""

    def run(values: Any, **options: Any) -> Any:
        t0, t1, y0, rate = values
        return solve_ivp(
            lambda t, y, rate: rate * y, (t0, t1), y0, args=(rate,), **TIGHT, **options
        )

    def exactly(values: Any) -> Any:
        t0, t1, y0, rate = values
        return y0 * fnp.exp(rate * (t1 - t0))

    point = fg.tensor([0.3, 1.5, 2.0, -0.7])
    exact, second = fg.grad(exactly)(point), fg.hessian(exactly)(point)

    def at_end(values: Any) -> Any:
        return run(values, t_eval=fnp.stack([values[1]])).y[-1]

    for end in (
        at_end,
        lambda v: run(v).y[-1],
        lambda v: run(v, dense_output=True).sol(v[1]),
        lambda v: run(v, derivative="adjoint").y[-1],
    ):
        np.testing.assert_allclose(fg.grad(end)(point), exact, rtol=1e-6)
        np.testing.assert_allclose(fg.jacfwd(end)(point), exact, rtol=1e-6)
    np.testing.assert_allclose(fg.jit(fg.grad(at_end))(point), exact, rtol=1e-7)
    np.testing.assert_allclose(fg.hessian(at_end)(point), second, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(fg.jacfwd(lambda v: run(v).t)(point)[[0, -1]], np.eye(4)[:2])


def test_a_dense_solution_is_differentiable_in_time() -> None:
    sol = solve_ivp(
        lambda t, y: [y[1], -y[0]], (0.0, 5.0), [1.0, 0.0], "DOP853", dense_output=True, **TIGHT
    ).sol
    times = fg.tensor(np.linspace(0.1, 4.9, 7))
    for transform in (lambda f: f, fg.jit):
        slopes = transform(fg.vmap(fg.jacfwd(sol)))(times)
        np.testing.assert_allclose(slopes[:, 0], -np.sin(times), atol=1e-6)
        np.testing.assert_allclose(
            transform(fg.grad(lambda t: fnp.sum(sol(t)[0])))(times), -np.sin(times), atol=1e-6
        )
    inside = fg.jit(lambda sol, t: sol(t))(sol, 2.0)  # the solution is a pytree
    np.testing.assert_allclose(inside, sol(2.0), rtol=1e-14)


@pytest.mark.slow
@together("method", ["RK45", "Tsit5", "DOP853"])
def test_adjoint_steps_forward_differences(method: str) -> None:
    def end(rates: Any, derivative: str = "steps") -> Any:
        sol = solve_ivp(
            lambda t, y: [rates[0] * y[0] - y[0] * y[1], y[0] * y[1] - rates[1] * y[1]],
            (0.0, 3.0),
            [1.0, 2.0],
            method,
            t_eval=[1.0, 3.0],
            derivative=derivative,
            **TIGHT,
        )
        return fnp.sum(sol.y * fnp.asarray([[1.0, 2.0], [3.0, 4.0]]))

    point, size = fg.tensor([1.1, 0.7]), 1e-4
    by_steps = fg.grad(end)(point)
    np.testing.assert_allclose(fg.jacfwd(end)(point), by_steps, rtol=1e-11)
    np.testing.assert_allclose(fg.jit(fg.grad(end))(point), by_steps, rtol=1e-10)
    np.testing.assert_allclose(fg.grad(lambda p: end(p, "adjoint"))(point), by_steps, rtol=1e-6)
    staged, moves = fg.jit(end), size * np.eye(2)
    differences = [(staged(point + d) - staged(point - d)) / (2 * size) for d in moves]
    np.testing.assert_allclose(differences, by_steps, rtol=1e-5)


@pytest.mark.slow
def test_checkpoints_keep_the_derivative() -> None:
    def end(rate: Any, checkpoints: int | None = None) -> Any:
        options: dict[str, Any] = {"t_eval": [3.0], "checkpoints": checkpoints}
        return solve_ivp(lambda t, y: [y[1], -rate * y[0]], (0.0, 3.0), [1.0, 0.0], **options).y[
            0, 0
        ]

    plain = fg.jit(fg.grad(end))(2.0)
    found = fg.jit(fg.grad(lambda rate: end(rate, 4)))(2.0)
    np.testing.assert_allclose(found, plain, rtol=1e-13)


def test_leapfrog_is_differentiated_through_its_steps() -> None:
    def end(length: Any, derivative: str = "steps") -> Any:
        sol = solve_ivp(
            lambda t, y: (y[1], -9.81 / length * fnp.sin(y[0])),
            (0.0, 2.0),
            (0.5, 0.0),
            "leapfrog",
            [2.0],
            first_step=0.01,
            derivative=derivative,
        )
        return sol.y[0][0]

    run = fg.jit(end)
    slope = (run(1.0 + 1e-5) - run(1.0 - 1e-5)) / 2e-5
    np.testing.assert_allclose(fg.grad(run)(1.0), slope, rtol=1e-7)


@together("method, first", [("RK45", 0.5), ("RK45", None), ("Rodas5P", 0.5)], quick=1)
def test_an_event_that_is_zero_at_the_start_is_found_again(method: str, first: Any) -> None:
    def back(speed: Any) -> Any:  # to the ground, from where the ball is thrown
        options = {"first_step": first, "t_eval": [], **TIGHT}
        return solve_ivp(
            falling, (0.0, 9.0), (0.0, speed), method, events=GROUND, args=(2.0,), **options
        ).t_events[0][0]

    times, slopes = fg.jit(fg.vmap(fg.value_and_grad(back)))(fg.tensor([0.25, 3.0]))
    np.testing.assert_allclose(times, [0.25, 3.0], rtol=1e-7)
    np.testing.assert_allclose(slopes, 1.0)
    still = solve_ivp(falling, (0.0, 1.0), (0.0, 0.0), method, events=GROUND, args=(2.0,))
    assert not still.t_events[0].size  # it falls from zero, and does not pass it
