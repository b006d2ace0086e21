"""``solve_ivp``: closed solutions, orders, SciPy's results side by side, and bad input."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.integrate

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, ConvergenceError, FuncgradError
from funcgrad.integrate import StiffnessWarning, solve_ivp
from funcgrad.integrate.explicit_pairs import RK45, TSIT5
from tests.integrate.closed_solutions import CLOSED
from tests.together import together

ORDERS = {"RK45": 5, "Tsit5": 5, "DOP853": 8}


def predators(t: Any, y: Any, rates: Any) -> Any:
    """The equations of Lotka and Volterra."""
    return [rates[0] * y[0] - y[0] * y[1], y[0] * y[1] - rates[1] * y[1]]


# ------------------------------------------------------------------------------------------ values


def fixed_steps_error(method: str, name: str, size: float, middle: bool) -> float:
    problem = CLOSED[name]
    first, last = problem.span
    times = np.linspace(first, last, 30 if middle else 2)
    sol = solve_ivp(
        problem.fun,
        problem.span,
        problem.solution(np.asarray(first)),
        method,
        times,
        rtol=1e9,
        atol=1e9,
        first_step=size,
        max_step=size,
    )
    return float(np.max(np.abs(sol.y - problem.solution(times))))


@pytest.mark.slow
@together("method", ORDERS)
def test_orders(method: str) -> None:
    """Half the step divides the error by two to the order; between the ends by about as much."""
    for name, problem in CLOSED.items():
        length = abs(problem.span[1] - problem.span[0])
        for middle, order in ((False, ORDERS[method]), (True, {5: 4, 8: 7}[ORDERS[method]])):
            sizes = [length / 8, length / 16]
            coarse, fine = [fixed_steps_error(method, name, size, middle) for size in sizes]
            assert fine < 1e-12 or np.log2(coarse / fine) > order - 0.6, (name, middle)


@together("method", ["RK45", "Tsit5", "DOP853"])
def test_closed_solutions(method: str) -> None:
    for name in ("logistic", "spring", "complex", "backwards", "kepler"):
        problem = CLOSED[name]
        start = problem.solution(np.asarray(problem.span[0]))
        sol = solve_ivp(problem.fun, problem.span, start, method, rtol=1e-8, atol=1e-8)
        assert sol.success
        assert sol.y.shape == (len(start), len(sol.t))
        np.testing.assert_allclose(sol.y, problem.solution(np.asarray(sol.t)), atol=1e-6)


@together("pair", [RK45, TSIT5])
def test_interpolation_joins_with_its_slopes(pair: Any) -> None:
    """The quartic term is the published one: the conditions up to order 4 hold at each time."""
    nodes = np.array([0.0, *pair.nodes])
    matrix = np.zeros((7, 7))
    for place, row in enumerate(pair.stages, 1):
        matrix[place, : len(row)] = row
    weights, bend = np.array([*pair.stages[-1], 0.0]), np.array(pair.quartic)
    for theta in (0.25, 0.5, 0.9):
        start, end = np.eye(7)[0], np.eye(7)[6]
        first = start - weights
        second = weights - end - first
        b = theta * (weights + (1 - theta) * (first + theta * (second + (1 - theta) * bend)))
        for power in range(4):
            assert abs(b @ nodes**power - theta ** (power + 1) / (power + 1)) < 1e-12
        assert abs(b @ matrix @ nodes - theta**3 / 6) < 1e-12
        assert abs(b @ (nodes * (matrix @ nodes)) - theta**4 / 8) < 1e-12
        assert abs(b @ matrix @ nodes**2 - theta**4 / 12) < 1e-12
        assert abs(b @ matrix @ matrix @ nodes - theta**4 / 24) < 1e-12


@together("method", ["RK45", "DOP853"])
def test_agrees_with_scipy(method: str) -> None:
    """Fields, shapes and values; SciPy's controller takes other steps."""
    times, rates = np.linspace(0.0, 6.0, 9), (1.1, 0.7)
    options: dict[str, Any] = {"rtol": 1e-8, "atol": 1e-8, "args": (rates,)}
    for more in ({"t_eval": times}, {"dense_output": True}, {"t_eval": times[2:5]}):
        mine = solve_ivp(predators, (0.0, 6.0), [1.0, 2.0], method, **more, **options)
        theirs = scipy.integrate.solve_ivp(
            lambda t, y, rates: np.asarray(predators(t, y, rates)),
            (0.0, 6.0),
            [1.0, 2.0],
            method,
            **more,
            **options,
        )
        assert mine.message == theirs.message
        assert mine.status == theirs.status == 0
        assert bool(mine.success) is theirs.success is True
        assert 0.7 < int(mine.nfev) / theirs.nfev < 1.4 or "t_eval" in more
        if "t_eval" in more:
            np.testing.assert_array_equal(mine.t, theirs.t)
            np.testing.assert_allclose(mine.y, theirs.y, atol=3e-7)
        else:
            assert 0.7 < len(mine.t) / len(theirs.t) < 1.4
            np.testing.assert_allclose(mine.sol(mine.t), mine.y, rtol=1e-13)
            np.testing.assert_allclose(mine.sol(times), theirs.sol(times), atol=3e-7)
            np.testing.assert_allclose(mine.sol(2.5), theirs.sol(2.5), atol=3e-7)
            np.testing.assert_allclose(mine.sol(-0.1), theirs.sol(-0.1), rtol=1e-3)
            assert (float(mine.sol.t_min), float(mine.sol.t_max)) == (0.0, 6.0)


def test_pytrees_and_scalars_have_the_times_last() -> None:
    sol = solve_ivp(
        lambda t, y: {"a": -y["a"], "m": 2.0 * y["m"]},
        (0.0, 1.0),
        {"a": 1.0, "m": np.ones((2, 3))},
        t_eval=[0.0, 0.5, 1.0],
        rtol=1e-7,
        atol=1e-7,
        dense_output=True,
    )
    assert sol.y["a"].shape == (3,)
    assert sol.y["m"].shape == sol.sol([0.0, 0.5, 1.0])["m"].shape == (2, 3, 3)
    assert sol.sol(0.5)["m"].shape == (2, 3)
    np.testing.assert_allclose(sol.y["a"], np.exp([0.0, -0.5, -1.0]), atol=1e-6)


@together(
    "run",
    [
        lambda y: (
            solve_ivp(lambda t, y: -y, (0.0, 3.0), y, "DOP853", [3.0], rtol=1e-12, atol=1e-12).y
        ),
        lambda y: fg.odeint(lambda y, t: -y, y, [0.0, 3.0], rtol=1e-12, atol=1e-12),
    ],
)
def test_a_tolerance_below_the_precision_is_raised(run: Any) -> None:
    with pytest.warns(UserWarning, match="too small for the dtype of y. Setting rtol to 1.19e-06"):
        y = run(np.ones(1, np.float32))
    np.testing.assert_allclose(np.ravel(y)[-1], np.exp(-3.0), rtol=1e-5)
    run(np.ones(1))  # without a warning


def test_float32_stays_and_empty_y_is_solved() -> None:
    single = solve_ivp(lambda t, y: -y, (0.0, 1.0), np.ones(2, np.float32), dense_output=True)
    assert single.y.dtype == single.sol(0.3).dtype == np.float32
    np.testing.assert_allclose(single.y[:, -1], np.exp(-1.0), rtol=2e-3)
    empty = solve_ivp(lambda t, y: -y, (0.0, 1.0), np.zeros(0), dense_output=True)
    assert empty.y.shape == (0, len(empty.t))
    assert empty.sol([0.1, 0.2]).shape == (0, 2)
    assert solve_ivp(lambda t, y: y, (0.0, 1.0), [], t_eval=[1.0]).y.shape == (0, 1)
    assert solve_ivp(lambda t, y: y, (0.0, 1.0), {}, "Rodas5P", t_eval=[1.0]).y == {}
    none = solve_ivp(lambda t, y: -y, (0.0, 1.0), [1.0], t_eval=[])
    assert none.y.shape == (1, 0)
    point = solve_ivp(lambda t, y: -y, (1.0, 1.0), [1.0], dense_output=True)
    np.testing.assert_array_equal(point.y[:, -1], [1.0])
    np.testing.assert_array_equal(point.sol(1.0), [1.0])


def test_times_do_not_change_the_solution() -> None:
    few = solve_ivp(predators, (0.0, 6.0), [1.0, 2.0], t_eval=[3.0], args=((1.0, 0.5),))
    many = solve_ivp(
        predators, (0.0, 6.0), [1.0, 2.0], t_eval=np.linspace(0.0, 6.0, 13), args=((1.0, 0.5),)
    )
    np.testing.assert_array_equal(few.y[:, 0], many.y[:, 6])


def test_the_program_outside_of_jit_has_the_same_bits() -> None:
    def run(**options: Any) -> list[bytes]:
        sol = solve_ivp(predators, (0.0, 6.0), [1.0, 2.0], args=((1.0, 0.5),), **options)
        return [np.asarray(leaf).tobytes() for leaf in fg.tree.leaves(sol)]

    for options in (
        {"t_eval": [1.0, 6.0]},
        {"dense_output": True},
        {"events": lambda t, y, r: y[0] - 1},
    ):
        first, *others = [run(**options) for _ in range(3)]
        assert others == [first, first]


def test_many_steps_are_recorded() -> None:
    sol = solve_ivp(lambda t, y: [y[1], -y[0]], (0.0, 60.0), [1.0, 0.0], rtol=1e-6, atol=1e-6)
    assert len(sol.t) > 64
    assert np.all(np.diff(sol.t) > 0)
    np.testing.assert_allclose(sol.y[0], np.cos(sol.t), atol=1e-3)


def test_leapfrog_keeps_the_energy_and_has_order_two() -> None:
    def pendulum(t: Any, y: Any) -> Any:
        q, p = y
        return p, -fnp.sin(q)

    def energy(y: Any) -> Any:
        return 0.5 * y[1] ** 2 - fnp.cos(y[0])

    sol = solve_ivp(pendulum, (0.0, 200.0), (1.0, 0.0), "leapfrog", first_step=0.1)
    assert len(sol.t) == 2001
    assert float(np.ptp(energy(sol.y))) < 2e-3
    exact = solve_ivp(pendulum, (0.0, 5.0), (1.0, 0.0), "DOP853", [5.0], rtol=1e-12, atol=1e-12)
    errors, found = [], exact
    for size in (0.1, 0.05):
        found = solve_ivp(pendulum, (0.0, 5.0), (1.0, 0.0), "leapfrog", [5.0], max_step=size)
        errors.append(abs(float(found.y[0][0] - exact.y[0][0])))
    assert 1.9 < np.log2(errors[0] / errors[1]) < 2.1
    there = [leaf[0] for leaf in found.y]
    back = solve_ivp(pendulum, (5.0, 0.0), tuple(there), "leapfrog", [0.0], max_step=0.05)
    np.testing.assert_allclose([back.y[0][0], back.y[1][0]], [1.0, 0.0], atol=1e-12)


def test_an_absolute_tolerance_for_each_element() -> None:
    def run(atol: Any) -> Any:
        return solve_ivp(lambda t, y: -y, (0.0, 1.0), [1.0, 1e-6], atol=atol, rtol=1e-12)

    loose, tight = run([1e-3, 1e-3]), run([1e-3, 1e-13])
    assert int(tight.nfev) > 2 * int(loose.nfev)
    tree = solve_ivp(lambda t, y: (-y[0], -y[1]), (0.0, 1.0), (1.0, np.ones(2)), atol=(1e-9, 1e-3))
    assert tree.success


# ------------------------------------------------------------------------------- jit, vmap, batches


def test_batches_are_loops_and_permutations_permute_bits() -> None:
    rates = np.linspace(0.5, 3.0, 7)

    def end(rate: Any) -> Any:
        sol = solve_ivp(
            lambda t, y: [y[1], -rate * fnp.sin(y[0])], (0.0, 3.0), [1.0, 0.0], "Tsit5", [1.0, 3.0]
        )
        return sol.y, sol.nfev

    batched = fg.jit(fg.vmap(end))
    found, work = batched(fg.tensor(rates))
    order = np.array([3, 0, 6, 5, 1, 4, 2])
    permuted, permuted_work = batched(fg.tensor(rates[order]))
    np.testing.assert_array_equal(permuted, found[order])
    np.testing.assert_array_equal(permuted_work, work[order])
    assert len(set(np.asarray(work).tolist())) > 1
    for rate, y, count in zip(rates, found, work, strict=True):
        alone = end(rate)
        np.testing.assert_allclose(alone[0], y, rtol=1e-12)
        assert int(alone[1]) == int(count)
    np.testing.assert_allclose(fg.vmap(end)(fg.tensor(rates))[0], found, rtol=1e-12)


def test_steps_inside_of_programs_need_a_length() -> None:
    def run(rate: Any, **options: Any) -> Any:
        return solve_ivp(lambda t, y: -rate * y, (0.0, 1.0), [1.0], **options)

    for transform in (fg.jit, fg.vmap):
        rates = fg.tensor(2.0) if transform is fg.jit else fg.tensor([1.0, 2.0])
        with pytest.raises(
            ArgumentError, match=r"number of steps is not known. Pass t_eval.*max_steps"
        ):
            transform(run)(rates)
        with pytest.raises(ArgumentError, match="without dense_output"):
            transform(lambda rate: run(rate, t_eval=[1.0], dense_output=True).sol(0.5))(rates)
    padded = fg.jit(lambda rate: run(rate, max_steps=20, dense_output=True))(2.0)
    plain = run(2.0, dense_output=True)
    count = len(plain.t)
    assert padded.t.shape == (21,)
    np.testing.assert_allclose(padded.t[:count], plain.t, rtol=1e-14)
    np.testing.assert_allclose(padded.y[:, :count], plain.y, rtol=1e-13)
    assert set(np.asarray(padded.t[count:]).tolist()) == {1.0}
    np.testing.assert_allclose(padded.y[:, -1], plain.y[:, -1], rtol=1e-13)
    np.testing.assert_allclose(padded.sol([0.1, 0.9, 1.0]), plain.sol([0.1, 0.9, 1.0]), rtol=1e-13)
    many = fg.vmap(lambda rate: run(rate, max_steps=20, dense_output=True).sol(0.5))(
        fg.tensor([1.0, 2.0])
    )
    np.testing.assert_allclose(many[1], plain.sol(0.5), rtol=1e-12)


# ---------------------------------------------------------------------------- failures, bad input


def test_failures() -> None:
    explosive = lambda t, y: y**2  # noqa: E731
    with pytest.raises(ConvergenceError, match=r"solve_ivp: at t = 0\.99\d*, .* no step is small"):
        solve_ivp(explosive, (0.0, 2.0), [1.0])
    with pytest.raises(ConvergenceError, match=r"max_steps=5 .*Kvaerno5"):
        solve_ivp(lambda t, y: -y, (0.0, 9.0), [1.0], rtol=1e-9, max_steps=5)
    no_slope = lambda t, y: y * np.nan  # noqa: E731
    with pytest.raises(ConvergenceError, match="NaN"):
        solve_ivp(no_slope, (0.0, 1.0), [1.0])
    start = solve_ivp(no_slope, (0.0, 1.0), [1.0], t_eval=[0.0, 1.0], failed="keep")
    assert (start.t.tolist(), start.y.tolist()) == ([0.0], [[1.0]])
    times = [0.5, 0.9, 1.5]
    nan = solve_ivp(explosive, (0.0, 2.0), [1.0], t_eval=times, failed="nan")
    assert np.isnan(nan.y[0]).tolist() == [False, False, True]
    assert (int(nan.status), bool(nan.success)) == (-1, False)
    assert "step size" in nan.message
    reached = solve_ivp(explosive, (0.0, 2.0), [1.0], t_eval=times, failed="keep")
    np.testing.assert_array_equal(reached.t, [0.5, 0.9])
    assert reached.y.shape == (1, 2)
    steps = solve_ivp(explosive, (0.0, 2.0), [1.0], failed="keep", dense_output=True)
    assert 0.99 < float(steps.t[-1]) < 1.01
    assert float(steps.sol(0.5)[0]) == pytest.approx(2.0, rel=1e-2)
    inside = fg.jit(lambda y0: solve_ivp(explosive, (0.0, 2.0), y0, t_eval=times))(1.0)
    assert np.isnan(inside.y).tolist() == [False, False, True]
    batch = fg.vmap(lambda y0: solve_ivp(explosive, (0.0, 2.0), y0, t_eval=[1.5], failed="nan"))(
        fg.tensor([1.0, 0.1])
    )
    assert np.isnan(batch.y[:, 0]).tolist() == [True, False]
    assert batch.message[1].startswith("The solver successfully")


UP: Any = "up"
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "outside": ({"t_eval": [0.5, 1.5]}, r"t_eval holds 1\.5, which is not within t_span \(0, 1\)"),
    "unsorted": ({"t_eval": [0.5, 0.2]}, "t_eval is not in the order of t_span"),
    "nan": ({"t_eval": [np.nan]}, "t_eval holds nan"),
    "matrix": ({"t_eval": [[0.5]]}, r"t_eval has to be a vector .* \(1, 1\)"),
    "span": ({"t_span": 1.0}, r"t_span has to be a pair"),
    "long span": ({"t_span": (0.0, 1.0, 2.0)}, r"t_span has to be a pair"),
    "infinite": ({"t_span": (0.0, np.inf)}, "t_span has to be finite"),
    "complex span": ({"t_span": (0.0, 1j)}, "two real numbers"),
    "method": ({"method": "RK54"}, "method has to be one of 'RK45', .*got 'RK54'"),
    "derivative": ({"derivative": "implicit"}, "derivative has to be"),
    "failed": ({"failed": "ignore"}, "failed has to be"),
    "vectorized": ({"vectorized": True}, "vectorized=True is not needed"),
    "rtol": ({"rtol": -1.0}, "rtol has to be a number >= 0"),
    "tolerances": ({"rtol": 0.0, "atol": 0.0}, "both 0"),
    "atol": ({"atol": [1e-3, 1e-3, 1e-3]}, r"atol of shape \(3,\) does not fit"),
    "max_step": ({"max_step": 0.0}, "max_step has to be a number > 0"),
    "first_step": ({"first_step": -1.0}, "first_step has to be"),
    "max_steps": ({"max_steps": 0}, "max_steps has to be a positive integer"),
    "max_events": ({"max_events": 0}, "max_events has to be a positive integer"),
    "checkpoints": ({"checkpoints": 1}, "checkpoints has to be an integer from 2 on"),
    "mass": ({"mass": np.eye(2)}, "mass belongs to the methods"),
    "leapfrog": ({"method": "leapfrog"}, "pass it as first_step"),
    "pair": ({"method": "leapfrog", "first_step": 0.1}, r"has to be a pair \(q, p\)"),
    "adjoint": ({"derivative": "adjoint", "dense_output": True}, "dense_output needs"),
    "leapfrog's adjoint": (
        {"method": "leapfrog", "first_step": 0.1, "y0": (1.0, 0.0), "derivative": "adjoint"},
        "leapfrog needs derivative='steps'",
    ),
    "events": ({"events": [1.0]}, "events are functions"),
    "terminal": ({"events": fg.integrate.Event(np.sin, terminal=-1)}, "terminal of an event"),
    "direction": ({"events": fg.integrate.Event(np.sin, direction=UP)}, "direction of an event"),
    "event's shape": ({"events": lambda t, y: y}, r"one number, got shape \(2,\)"),
    "event's dtype": ({"events": lambda t, y: 1j}, "real number, got complex"),
}


@together("name", REFUSED)
def test_bad_input(name: str) -> None:
    options, message = REFUSED[name]
    arguments: dict[str, Any] = {"fun": lambda t, y: -y, "t_span": (0.0, 1.0), "y0": [1.0, 2.0]}
    with pytest.raises(FuncgradError, match=message) as caught:
        solve_ivp(**(arguments | options))
    assert "test_solve_ivp.py" in str(caught.value) or name in ("events",)


def test_own_times_of_a_failure_inside_of_jit_are_nan() -> None:
    def run(y0: Any, failed: str) -> Any:
        return solve_ivp(lambda t, y: -y, (0.0, 1.0), y0, rtol=1e-9, max_steps=3, failed=failed)

    sol = fg.jit(lambda y0: run(y0, "raise"))(1.0)
    assert np.isnan(sol.y).all()
    assert int(sol.status) == -2
    np.testing.assert_allclose(fg.jit(lambda y0: run(y0, "keep"))(1.0).y, np.exp(-sol.t), rtol=1e-6)


def test_slopes_that_do_not_fit() -> None:
    for slope, message in (
        (lambda t, y: [y[0]], r"a slope of shape \(1,\), but y0 has shape \(2,\).*fun\(t, y"),
        (lambda t, y: (y, y), r"slope of shape \(2, 2\)"),
        (lambda t, y: {"y": y}, "the slope"),
        (lambda t, y: 1j * y, "dtype complex128"),
        (lambda y, t: y @ t, "In the function of solve_ivp"),
    ):
        with pytest.raises((FuncgradError, IndexError)) as caught:
            solve_ivp(slope, (0.0, 1.0), [1.0, 2.0])
        notes = "".join(getattr(caught.value, "__notes__", []))
        assert re.search(message, str(caught.value) + notes), str(caught.value)


@pytest.mark.slow
def test_times_out_of_order_inside_of_jit_are_nan() -> None:
    def run(times: Any) -> Any:
        return solve_ivp(lambda t, y: -y, (0.0, 1.0), [1.0], t_eval=times)

    for times in ([0.5, 0.2], [0.5, 1.2], [-0.5, 0.5]):
        sol = fg.jit(run)(fg.tensor(times))
        assert np.isnan(sol.y).all()
        assert int(sol.status) == -3
    assert np.isfinite(fg.jit(run)(fg.tensor([0.2, 0.5])).y).all()


def test_stiff_equations_are_named() -> None:
    stiff = lambda t, y: -300.0 * (y - fnp.cos(t))  # noqa: E731
    with pytest.warns(StiffnessWarning, match="Kvaerno5"):
        solve_ivp(stiff, (0.0, 4.0), [0.0])
    with pytest.warns(StiffnessWarning):
        solve_ivp(stiff, (0.0, 4.0), [0.0], t_eval=[4.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        solve_ivp(lambda t, y: [y[1], -y[0]], (0.0, 100.0), [1.0, 0.0], rtol=1e-6)
        fg.jit(lambda y0: solve_ivp(stiff, (0.0, 4.0), y0, t_eval=[4.0]).y)(fg.tensor([0.0]))
