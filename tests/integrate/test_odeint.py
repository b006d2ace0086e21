"""Solutions of differential equations: against closed forms, SciPy, and their own order."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import scipy.integrate

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ConvergenceError
from funcgrad.integrate.explicit_pairs import RK45
from funcgrad.integrate.step_methods import Settings
from funcgrad.integrate.steps import solved
from tests.together import together

EAST, ANIMALS = fg.tensor([1.0, 0.0]), fg.tensor([1.0, 2.0])


def oscillator(y: Any, t: Any, frequency: Any = 1.0) -> Any:
    return fnp.stack([y[1], -(frequency**2) * y[0]])


def predators(y: Any, t: Any, rates: Any) -> Any:
    """The equations of Lotka and Volterra."""
    return fnp.stack([rates[0] * y[0] - y[0] * y[1], y[0] * y[1] - rates[1] * y[1]])


def forced(y: Any, t: Any) -> Any:
    """A slope that depends on the time: y = sin(t) + exp(-t) for y(0) = 1."""
    return fnp.cos(t) + fnp.sin(t) - y


# ------------------------------------------------------------------------------------------ numbers


@pytest.mark.parametrize("staged", [False, True])
def test_closed_forms(staged: bool) -> None:
    wrap = fg.jit if staged else lambda f: f
    times = np.linspace(0.0, 3.0, 7)
    decay = wrap(lambda y0, ts: fg.odeint(lambda y, t: -y, y0, ts))(2.0, times)
    np.testing.assert_allclose(decay, 2.0 * np.exp(-times), atol=1e-7)
    turned = wrap(lambda y0, ts: fg.odeint(oscillator, y0, ts, 2.0))(fg.tensor([1.0, 0.0]), times)
    exact = np.stack([np.cos(2 * times), -2 * np.sin(2 * times)], axis=1)
    np.testing.assert_allclose(turned, exact, atol=1e-6)
    pushed = wrap(lambda y0, ts: fg.odeint(forced, y0, ts))(1.0, times)
    np.testing.assert_allclose(pushed, np.sin(times) + np.exp(-times), atol=1e-7)


def test_backwards_in_time_and_there_and_back() -> None:
    times = np.array([2.0, 1.5, 0.0, -1.0])
    found = fg.odeint(lambda y, t: -y, np.exp(-2.0), times)
    np.testing.assert_allclose(found, np.exp(-times), rtol=1e-6)
    there = fg.odeint(predators, ANIMALS, [0.0, 3.0], [1.0, 0.5], rtol=1e-10, atol=1e-10)
    back = fg.odeint(predators, there[-1], [3.0, 0.0], [1.0, 0.5], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(back[-1], [1.0, 2.0], rtol=1e-7)


@pytest.mark.parametrize("staged", [False, True])
def test_repeated_times_and_a_single_one(staged: bool) -> None:
    def solve(ts: Any) -> Any:
        return fg.odeint(lambda y, t: -y, 1.0, ts)

    run = fg.jit(solve) if staged else solve
    found = run(fg.tensor([0.0, 0.0, 1.0, 1.0, 1.0]))
    np.testing.assert_allclose(found, np.exp([0.0, 0.0, -1.0, -1.0, -1.0]), atol=1e-7)
    assert float(found[0]) == float(found[1]) == 1.0
    assert float(found[2]) == float(found[3]) == float(found[4])
    np.testing.assert_array_equal(run(fg.tensor([3.0, 3.0])), [1.0, 1.0])
    np.testing.assert_array_equal(run(fg.tensor([5.0])), [1.0])
    assert run(fg.tensor([5.0])).shape == (1,)


def test_dense_times_do_not_change_the_steps() -> None:
    """A quartic interpolates between the ends of steps, without a call of the function."""
    calls = itertools.count()

    def counted(y: Any, t: Any) -> Any:
        next(calls)
        return oscillator(y, t)

    few = fg.odeint(counted, EAST, [0.0, 5.0])
    first = next(calls)
    times = np.linspace(0.0, 5.0, 200)
    many = fg.odeint(counted, EAST, times)
    assert next(calls) == 2 * first + 1
    np.testing.assert_array_equal(many[-1], few[-1])
    np.testing.assert_allclose(many[:, 0], np.cos(times), atol=2e-7)


def test_agrees_with_scipy() -> None:
    times = np.linspace(0.0, 6.0, 9)
    rates = np.array([1.1, 0.7])
    exact = scipy.integrate.solve_ivp(
        lambda t, y: np.asarray(predators(y, t, rates)),
        (0.0, 6.0),
        [1.0, 2.0],
        "DOP853",
        times,
        rtol=1e-12,
        atol=1e-12,
    ).y.T
    for tolerance in (1e-4, 1e-7, 1e-10):
        found = fg.odeint(predators, ANIMALS, times, rates, rtol=tolerance, atol=tolerance)
        error = np.max(np.abs(found - exact))
        assert error < 30 * tolerance
        assert error > tolerance / 1000  # it takes no more steps than it has to


def test_steps_are_about_as_many_as_those_of_scipy() -> None:
    times = fg.tensor([0.0, 20.0])
    start = [fg.tensor([1.0, 0.0])]
    outcome = solved(
        lambda y, t: [oscillator(y[0], t)], start, times, Settings(1e-6, 1e-6, 1000, np.inf)
    )
    theirs = scipy.integrate.solve_ivp(
        lambda t, y: [y[1], -y[0]], (0.0, 20.0), [1.0, 0.0], "RK45", rtol=1e-6, atol=1e-6
    )
    assert abs(int(outcome.tried) - theirs.nfev / 6) < 0.25 * theirs.nfev / 6


def test_hmax_keeps_steps_from_passing_over_a_short_push() -> None:
    def bump(y: Any, t: Any) -> Any:
        return fnp.where(fnp.abs(t - 5.0) < 0.25, 1.0, 0.0) + 0.0 * y

    missed = fg.odeint(bump, 0.0, [0.0, 10.0])[-1]
    seen = fg.odeint(bump, 0.0, [0.0, 10.0], hmax=0.1)[-1]
    assert float(seen) == pytest.approx(0.5, abs=1e-6)
    assert float(missed) != pytest.approx(0.5, abs=1e-2)


class Tries:
    """The steps that a solver tries, known from the times at which it calls the slope."""

    def __init__(self, slope: Any) -> None:
        self.slope = slope
        self.times: list[float] = []

    def __call__(self, y: Any, t: Any) -> Any:
        self.times.append(float(t))
        return self.slope(y, t)

    def found(self) -> Any:
        """The start and the size of each try: after two slopes for the first size, six for each."""
        stages = np.array(self.times[2:]).reshape(-1, 6)
        sizes = (stages[:, -1] - stages[:, 0]) * 5 / 4
        return stages[:, -1] - sizes, sizes


def test_sizes_of_steps() -> None:
    tries = Tries(lambda y, t: 1 / (1e-3 + (t - 1.0) ** 2) + 1 / (1e-4 + (t - 2.0) ** 2))
    fg.odeint(tries, 1.0, [0.0, 3.0], rtol=1e-5, atol=1e-5)
    begins, sizes = tries.found()
    refused = np.append(np.abs(np.diff(begins)) < 1e-9, False)
    assert 2 <= np.sum(refused) <= len(sizes) / 2
    ratios = sizes[1:] / sizes[:-1]
    assert np.all(ratios[refused[:-1]] < 1)  # what is refused is tried again, smaller
    assert np.all(ratios[:-1] > 0.2 - 1e-9)
    assert np.all(ratios < 10 + 1e-9)
    again = refused[:-2] & ~refused[1:-1]
    assert np.any(again)
    assert np.all(ratios[1:][again] < 1 + 1e-9)  # no growth just after that


def test_no_step_is_greater_than_hmax_the_first_neither() -> None:
    tries = Tries(lambda y, t: -1e-3 * y)
    fg.odeint(tries, 1.0, [0.0, 1.0], rtol=1e-3, atol=1e-3, hmax=0.1)
    _, sizes = tries.found()
    assert len(sizes) == 10
    np.testing.assert_allclose(sizes, 0.1)


# -------------------------------------------------------------------------------------------- order


SIZE = 7
NODES = np.array([0.0, *RK45.nodes])
STAGES = np.zeros((SIZE, SIZE))
for _k, _row in enumerate(RK45.stages, 1):
    STAGES[_k, : len(_row)] = _row


def conditions(order: int) -> list[tuple[Any, float]]:
    """The order conditions on weights (Hairer, Nørsett and Wanner, table II.2.1)."""
    a, c = STAGES, NODES
    products: dict[int, list[tuple[Any, int]]] = {
        1: [(np.ones(SIZE), 1)],
        2: [(c, 2)],
        3: [(c**2, 3), (a @ c, 6)],
        4: [(c**3, 4), (c * (a @ c), 8), (a @ c**2, 12), (a @ a @ c, 24)],
        5: [(c**4, 5), (c**2 * (a @ c), 10), (c * (a @ c**2), 15), (c * (a @ a @ c), 30)],
    }
    products[5] += [((a @ c) ** 2, 20), (a @ c**3, 20), (a @ (c * (a @ c)), 40)]
    products[5] += [(a @ a @ c**2, 60), (a @ a @ a @ c, 120)]
    return [(product, 1 / density) for product, density in products[order]]


def misses(weights: Any, order: int, part: float = 1.0) -> float:
    """The error of weights in the order conditions, for the solution at a fraction of the step."""
    return max(abs(weights @ x - part**order * exact) for x, exact in conditions(order))


def test_the_tableau_has_the_orders_that_it_claims() -> None:
    np.testing.assert_allclose(STAGES.sum(axis=1), NODES, atol=1e-14)
    weights = STAGES[-1]
    lower = weights - np.array(RK45.error)
    assert max(misses(weights, order) for order in (1, 2, 3, 4, 5)) < 1e-14
    assert max(misses(lower, order) for order in (1, 2, 3, 4)) < 1e-14
    assert misses(lower, 5) > 1e-4


@pytest.mark.parametrize("part", [0.0, 0.3, 0.8, 1.0])
def test_the_quartic_has_the_order_that_it_claims(part: float) -> None:
    """Hermite's cubic has order 3; the term ``bend`` raises it to 4."""
    first, last = np.eye(SIZE)[0], np.eye(SIZE)[-1]
    ends = part**2 * (3 - 2 * part) * STAGES[-1]
    slopes = part * (1 - part) ** 2 * first - part**2 * (1 - part) * last
    bend = part**2 * (1 - part) ** 2 * np.array(RK45.quartic)
    assert max(misses(ends + slopes + bend, order, part) for order in (1, 2, 3, 4)) < 1e-14


def rates(f: Any, sizes: Any) -> Any:
    """The observed orders of errors, from each step size to the next."""
    errors = np.array([f(size) for size in sizes])
    return np.log(errors[1:] / errors[:-1]) / np.log(np.array(sizes[1:]) / np.array(sizes[:-1]))


def test_order_of_steps_of_their_error_and_of_what_is_between() -> None:
    def f(y: Any, t: Any) -> Any:
        return [forced(y[0], t) * y[0]]

    def exact(t: float) -> float:
        found = scipy.integrate.solve_ivp(
            lambda t, y: (np.cos(t) + np.sin(t) - y) * y,
            (0.0, t),
            [1.0],
            "DOP853",
            rtol=1e-13,
            atol=1e-15,
        )
        return float(found.y[0, -1])  # fmt: skip

    start, zero = [fg.tensor(1.0)], fg.tensor(0.0)

    def step_error(size: float) -> float:
        return abs(float(RK45.stages_of(f, start, f(start, zero), zero, fg.tensor(size))[0][0])
                   - exact(size))  # fmt: skip

    def greatest_error(size: float) -> float:
        """The greatest error at and between the ends of steps of maximal size."""
        times = np.linspace(0.0, 2.0, 50)
        found = fg.odeint(forced, 1.0, times, rtol=0.0, atol=1e9, hmax=size)
        return float(np.max(np.abs(found - np.sin(times) - np.exp(-times))))

    sizes = (0.4, 0.2, 0.1)
    assert np.all(rates(step_error, sizes) > 5.6)
    assert np.all(rates(greatest_error, sizes) > 4.6)


def test_errors_fall_as_tolerances_do() -> None:
    """The error of the solution falls as the tolerance to a power between 4/5 and 1."""

    def error(tolerance: float) -> float:
        found = fg.odeint(oscillator, EAST, [0.0, 10.0], rtol=tolerance, atol=tolerance)
        return float(np.max(np.abs(found[-1] - np.array([np.cos(10.0), -np.sin(10.0)]))))

    found = rates(error, (1e-4, 1e-6, 1e-8, 1e-10))
    assert np.all((found > 0.75) & (found < 1.3)), found


# ------------------------------------------------------------------------------- trees and dtypes


def test_trees_keep_their_structure_and_leaves_their_dtypes() -> None:
    start = {"z": fnp.asarray(1.0, np.complex64), "x": (fnp.ones((2, 3), np.float32), 1)}

    def f(y: Any, t: Any, how: Any) -> Any:
        assert t.dtype == np.float64
        return {"z": how["turn"] * 1j * y["z"], "x": (-y["x"][0], y["x"][1] * how["power"])}

    found = fg.odeint(f, start, [0.0, 0.5, 1.0], {"turn": 2.0, "power": 1})
    assert fg.tree.structure(found) == fg.tree.structure(start)
    (first, second), third = found["x"], found["z"]
    assert (first.dtype, second.dtype, third.dtype) == (np.float32, np.float64, np.complex64)
    assert found["x"][0].shape == (3, 2, 3)
    np.testing.assert_allclose(found["z"], np.exp(2j * np.array([0.0, 0.5, 1.0])), rtol=1e-5)
    np.testing.assert_allclose(found["x"][0][-1], np.exp(-1.0), rtol=1e-5)
    np.testing.assert_allclose(found["x"][1], np.exp([0.0, 0.5, 1.0]), rtol=1e-6)


def test_single_precision_stays_single() -> None:
    def f(y: Any, t: Any) -> Any:
        assert t.dtype == np.float32
        return t * y

    for run in (lambda g: g, fg.jit):
        found = run(lambda y, ts: fg.odeint(f, y, ts))(np.float32(1.0), np.linspace(0.0, 1.0, 3))
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, np.exp(np.linspace(0.0, 1.0, 3) ** 2 / 2), rtol=2e-3)
    assert fg.odeint(lambda y, t: 0, np.float32(1.0), [0, 1]).dtype == np.float32


def test_half_precision() -> None:
    found = fg.odeint(lambda y, t: -y, np.float16(1.0), np.array([0.0, 1.0, 2.0], np.float16))
    assert found.dtype == np.float16
    np.testing.assert_allclose(found, np.exp([0.0, -1.0, -2.0]), atol=0.02)


def test_a_number_that_is_zero_may_have_no_error_and_has_none() -> None:
    """With ``rtol`` alone no error is allowed at a number that is zero."""

    def f(y: Any, t: Any) -> Any:
        return fnp.stack([-y[0], 0.0 * y[1]])

    found = fg.odeint(f, fg.tensor([1.0, 0.0]), [0.0, 1.0], rtol=1e-6, atol=0.0)
    np.testing.assert_allclose(found[-1], [np.exp(-1.0), 0.0], rtol=1e-5)


def test_times_that_are_far_from_zero() -> None:
    """The length of a step is the difference of the rounded times."""
    late = 2.0**33
    found = fg.odeint(lambda y, t: 1.0 + 0.0 * y, 0.0, [late, late + 0.7, late + 1.0])
    np.testing.assert_allclose(found, [0.0, (late + 0.7) - late, 1.0], rtol=1e-12)


def test_nothing_to_solve() -> None:
    assert fg.odeint(lambda y, t: y, fnp.zeros((0,)), [0.0, 1.0]).shape == (2, 0)
    assert fg.odeint(lambda y, t: (), (), [0.0, 1.0]) == ()


# --------------------------------------------------------------------------------------- what fails


def test_a_stiff_problem_says_so() -> None:
    def stiff(y: Any, t: Any) -> Any:
        return -1e7 * (y - fnp.cos(t))

    with pytest.raises(fg.errors.ConvergenceError, match=r"max_steps=200 .*t = .*Radau.*test_ode"):
        fg.odeint(stiff, 0.0, [0.0, 1.0], max_steps=200)
    found = fg.jit(lambda y: fg.odeint(stiff, y, [0.0, 1e-8, 1.0], max_steps=200))(0.0)
    assert np.isfinite(found[:2]).all()
    assert np.isnan(found[2])


def test_steps_may_be_just_enough() -> None:
    times, start = fg.tensor([0.0, 3.0]), fg.tensor([1.0, 0.0])
    default = Settings(1.49e-8, 1.49e-8, 1000, np.inf)
    needed = int(solved(lambda y, t: [oscillator(y[0], t)], [start], times, default).tried)
    options: Any = {"rtol": 1.49e-8, "atol": 1.49e-8}
    fg.odeint(oscillator, start, times, max_steps=needed, **options)
    with pytest.raises(fg.errors.ConvergenceError, match="max_steps"):
        fg.odeint(oscillator, start, times, max_steps=needed - 1, **options)


@pytest.mark.slow
@pytest.mark.parametrize("derivative", ["steps", "adjoint"])
def test_a_solution_that_ends_says_where(derivative: str) -> None:
    def blow_up(y: Any, t: Any) -> Any:
        with np.errstate(all="ignore"):
            return y**2

    def solve(y: Any) -> Any:
        return fg.odeint(blow_up, y, [0.0, 0.5, 2.0], rtol=1e-3, atol=1e-3, derivative=derivative)

    with np.errstate(all="ignore"):
        with pytest.raises(
            fg.errors.ConvergenceError, match=r"t = 0.9999.*no step is small enough"
        ):
            solve(1.0)
        with pytest.raises(fg.errors.ConvergenceError, match="no step is small enough"):
            fg.grad(lambda y: solve(y)[1])(1.0)
        found = fg.jit(solve)(1.0)
        np.testing.assert_allclose(found[:2], [1.0, 2.0], rtol=1e-2)
        assert np.isnan(found[2])
        assert np.isnan(fg.jit(fg.grad(lambda y: solve(y)[2]))(1.0))
        assert np.isnan(fg.jvp(fg.jit(solve), (1.0,), (1.0,))[1][2])
        batch = fg.jit(fg.vmap(solve))(fg.tensor([1.0, 0.25]))
        assert np.isnan(batch[0, 2])
        np.testing.assert_allclose(batch[1], [1 / 4, 1 / 3.5, 1 / 2], rtol=1e-2)
        with pytest.raises(fg.errors.ConvergenceError, match=r"t = 0\.9999"):
            fg.vmap(solve)(fg.tensor([0.25, 1.0]))


def test_a_slope_that_is_no_number_is_no_solution() -> None:
    def bad(y: Any, t: Any) -> Any:
        return fnp.where(t > 0.5, np.nan, -y)

    with pytest.raises(fg.errors.ConvergenceError, match=r"t = 0\.5.*return NaN"):
        fg.odeint(bad, 1.0, [0.0, 1.0])
    with pytest.raises(fg.errors.ConvergenceError, match="t = 0,"):
        fg.odeint(lambda y, t: y * np.nan, 1.0, [0.0, 1.0])


@pytest.mark.parametrize(
    "ts", [[0.0, 2.0, 1.0], [0.0, np.nan, 1.0], [0.0, np.inf], [1.0, 0.0, 0.5]]
)
def test_times_in_no_order(ts: Any) -> None:
    with pytest.raises(fg.errors.ArgumentError, match="ascending or descending order"):
        fg.odeint(oscillator, EAST, ts)
    with np.errstate(invalid="ignore"):
        found = fg.jit(lambda ts: fg.odeint(lambda y, t: -y, 1.0, ts))(fg.tensor(ts))
    assert np.isnan(found[1:]).all()


E = fg.errors


@together(
    ("args", "options", "error", "text"),
    [
        ((1.0, 1.0, [0.0]), {}, E.FunctionError, "odeint: expected a function"),
        ((oscillator, EAST, 1.0), {}, E.ShapeError, "ts has to be a vector"),
        ((oscillator, EAST, []), {}, E.ArgumentError, "ts is empty"),
        ((oscillator, EAST, [0j, 1]), {}, E.DtypeError, "ts has to hold real numbers"),
        ((oscillator, ["a"], [0, 1]), {}, E.LeafError, r"odeint: y0\[0\]"),
        ((oscillator, EAST, [0, 1], "a"), {}, E.LeafError, r"odeint: args\[0\]"),
        ((lambda y, t: (y, y), 1.0, [0, 1]), {}, E.TreeError, "a tree like y0"),
        (
            (lambda y, t: {"x": fnp.ones(2)}, {"x": 1.0}, [0, 1]),
            {},
            E.ShapeError,
            r"slope\['x'\] of shape \(2,\), but y0 has shape \(\)",
        ),
        (
            (lambda y, t: fnp.astype(y, np.float64), np.float32(1), [0, 1]),
            {},
            E.DtypeError,
            "astype.'float32'",
        ),
        ((lambda y, t: 1j * y, 1.0, [0, 1]), {}, E.DtypeError, "complex128"),
        ((oscillator, [1.0, 0.0], [0, 1]), {}, E.TreeError, r"starts with fg.tensor"),
        ((lambda y, t: None, 1.0, [0, 1]), {}, E.TreeError, "slope of y"),
        ((oscillator, EAST, [0, 1]), {"rtol": -1.0}, E.ArgumentError, "rtol"),
        ((oscillator, EAST, [0, 1]), {"atol": "a"}, E.ArgumentError, "atol"),
        ((oscillator, EAST, [0, 1]), {"rtol": 0, "atol": 0}, E.ArgumentError, "both 0"),
        ((oscillator, EAST, [0, 1]), {"max_steps": 0}, E.ArgumentError, "max_steps"),
        ((oscillator, EAST, [0, 1]), {"max_steps": 2.5}, E.ArgumentError, "max_steps"),
        ((oscillator, EAST, [0, 1]), {"hmax": 0.0}, E.ArgumentError, "hmax"),
        ((oscillator, EAST, [0, 1]), {"derivative": "x"}, E.ArgumentError, "'adjoint'"),
    ],
)
@together("derivative", ["steps", "adjoint"])
def test_bad_input(args: Any, options: Any, error: Any, text: str, derivative: str) -> None:
    with pytest.raises(error, match=text):
        fg.odeint(*args, **{"derivative": derivative, **options})


def test_the_first_time_has_a_derivative_where_slopes_depend_on_time() -> None:
    def end(start: Any) -> Any:
        return fg.odeint(lambda y, t: t, 0.0, fnp.stack([start, 1.0]))[-1]

    np.testing.assert_allclose(fg.grad(end)(0.25), -0.25, rtol=1e-9)  # of (1 - start²) / 2


def test_an_adjoint_equation_that_loses_the_solution_is_refused() -> None:
    def end(rates: Any) -> Any:
        def slope(y: Any, t: Any) -> Any:
            return -rates[0] * (y[0] - y[1]), -rates[1] * y[1]

        return fg.odeint(slope, (2.0, 1.0), [0.0, 1.0], derivative="adjoint")[0][-1]

    near, stiff, staged = fg.tensor([2.0, 1.0]), fg.tensor([40.0, 1.0]), fg.jit(fg.grad(end))
    assert np.isfinite(staged(near)).all()
    with pytest.raises(ConvergenceError, match=r"odeint: the adjoint equation .*the solution is l"):
        fg.grad(end)(stiff)
    assert np.isnan(staged(stiff)).all()
