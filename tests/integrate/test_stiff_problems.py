"""The implicit methods of ``solve_ivp`` on stiff problems: values, orders, Jacobians, masses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.integrate

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ConvergenceError
from funcgrad.integrate import solve_ivp
from funcgrad.integrate.backward_differences import BDF
from funcgrad.integrate.radau_collocation import Radau
from funcgrad.integrate.rosenbrock import Rodas5P
from funcgrad.integrate.singly_implicit import Kvaerno5
from funcgrad.integrate.step_methods import Settings, StepStart, TakenStep, equation_of
from funcgrad.integrate.steps import Scheme, solved
from tests.integrate.stiff_problems import STIFF_PROBLEMS, StiffProblem, hires, robertson

pytestmark = pytest.mark.slow

METHODS: dict[str, Any] = {
    "Kvaerno5": Kvaerno5(),
    "Rodas5P": Rodas5P(),
    "Radau": Radau(),
    "BDF": BDF(),
}
ONE_STEP = ["Kvaerno5", "Rodas5P", "Radau"]
every_method = pytest.mark.parametrize("method", list(METHODS))

_TIGHT = {"Kvaerno5": 1e-11, "Rodas5P": 1e-10, "Radau": 1e-10, "BDF": 1e-11}


@every_method
@pytest.mark.parametrize("problem", STIFF_PROBLEMS, ids=lambda problem: problem.name)
def test_stiff_problems_have_their_known_solutions_to_8_digits(
    problem: StiffProblem, method: str
) -> None:
    rtol = _TIGHT[method]
    sol = solve_ivp(
        problem.slope,
        (0.0, problem.end),
        problem.start,
        method,
        [problem.end],
        rtol=rtol,
        atol=rtol * problem.smallest,
        max_steps=100_000,
    )
    np.testing.assert_allclose(sol.y[:, -1], problem.solution, rtol=1e-8)


@every_method
def test_errors_follow_the_tolerance_as_scipys_do(method: str) -> None:
    problem = STIFF_PROBLEMS[1]
    errors = []
    for rtol in (1e-4, 1e-7):
        sol = solve_ivp(
            hires,
            (0, problem.end),
            problem.start,
            method,
            [problem.end],
            rtol=rtol,
            atol=rtol / 1e4,
        )
        errors.append(np.max(abs(np.asarray(sol.y[:, -1]) / problem.solution - 1)))
    slope = fg.jit(lambda y: hires(0.0, y))
    name = method if method in ("Radau", "BDF") else "Radau"
    other = scipy.integrate.solve_ivp(
        lambda t, y: np.asarray(slope(y)),
        (0, problem.end),
        problem.start,
        name,
        rtol=1e-4,
        atol=1e-8,
    )
    scipys = np.max(abs(other.y[:, -1] / problem.solution - 1))
    assert errors[0] < 10 * scipys
    assert errors[1] < 2e-5
    assert errors[1] < errors[0] / 100


@every_method
def test_steps_grow_with_the_smoothness_of_the_solution(method: str) -> None:
    sol = solve_ivp(robertson, (0.0, 1e11), [1.0, 0.0, 0.0], method, rtol=1e-6, atol=1e-12)
    assert len(sol.t) < 900
    assert int(sol.njev) < len(sol.t) + 2
    assert abs(float(sol.y[:, -1].sum()) - 1.0) < 1e-5


def steps(method: Any, f: Any, start: list[float], end: float, count: int) -> Any:
    """The solution after steps of one size, and in each step at 0.3 and 0.7 of it."""
    settings = Settings(1e-13, 1e-15, 1, float("inf"))
    equation = equation_of(lambda y, t: [f(t, y[0])], settings, np.dtype(float))
    size = end / count

    def run(start: Any) -> Any:
        first = fnp.asarray(0.0)
        at = StepStart([start], [f(first, start)], first, fnp.asarray(size))
        memory, _ = method.begin(equation, at)

        def step(carry: Any, number: Any) -> Any:
            (y, slope, memory) = carry
            h = fnp.asarray(size)
            tried = method.attempt(equation, StepStart(y, slope, number * size, h), memory)
            taken = TakenStep(y, tried.new, slope, tried.slope, tried.dense, h)
            inner = [method.between(taken, fnp.asarray(x))[0] for x in (0.3, 0.7)]
            return (tried.new, tried.slope, tried.memory), inner

        carry, inner = fg.scan(step, ([start], [f(first, start)], memory), np.arange(count) * 1.0)
        return carry[0][0], inner

    return fg.jit(run)(fnp.asarray(start))


def orders(method: Any, f: Any, start: list[float], exact: Any, counts: Any) -> tuple[float, float]:
    """The order at the end, and between the ends of steps."""
    errors: list[tuple[float, float]] = []
    for count in counts:
        y, inner = steps(method, f, start, 1.5, count)
        times = [1.5 / count * (np.arange(count) + x) for x in (0.3, 0.7)]
        between = max(
            np.max(abs(np.asarray(found)[:, 0] - exact(t)))
            for found, t in zip(inner, times, strict=True)
        )
        errors.append((abs(float(y[0]) - exact(1.5)), between))
    at_end, within = np.log2(np.array(errors[0]) / np.array(errors[1])) / np.log2(
        counts[1] / counts[0]
    )
    return float(at_end), float(within)


def riccati(t: Any, y: Any) -> Any:
    return -2.0 * t * y**2


def prothero_robinson(t: Any, y: Any) -> Any:
    """A smooth solution, sin(t), that attracts all others at once."""
    return -1e5 * (y - fnp.sin(t)) + fnp.cos(t)


@pytest.mark.parametrize("method", ONE_STEP)
def test_methods_converge_with_their_order(method: str) -> None:
    at_end, within = orders(METHODS[method], riccati, [1.0], lambda t: 1 / (1 + t * t), (20, 40))
    assert at_end > 4.7
    assert within > (3.8 if method == "Radau" else 4.7)  # local order 4: of the cubic


@pytest.mark.parametrize(
    ("method", "least", "least_within"),
    [("Kvaerno5", 1.9, 2.8), ("Rodas5P", 2.8, 3.8), ("Radau", 2.9, 2.8)],
)
def test_very_stiff_equations_keep_the_order_of_stages(
    method: str, least: float, least_within: float
) -> None:
    at_end, within = orders(METHODS[method], prothero_robinson, [0.0], np.sin, (10, 20))
    assert at_end > least
    assert within > least_within


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_each_bdf_converges_with_its_order(order: int) -> None:
    method, settings = BDF(), Settings(1e-13, 1e-15, 1, float("inf"))
    equation = equation_of(lambda y, t: [riccati(t, y[0])], settings, np.dtype(float))

    def end_of(values: Any, size: Any, count: int) -> Any:
        table = [values]
        for _ in range(7):
            table.append(table[-1][:-1] - table[-1][1:])  # the latest value is the first
        rows = fnp.stack([row[:1] for row in table])
        y, t = [values[:1]], 1.0 + 0.0 * size
        memory, _ = method.begin(equation, StepStart(y, [riccati(t, y[0])], t, size))
        memory = memory._replace(differences=rows, order=fnp.asarray(order))

        def step(carry: Any, number: Any) -> Any:
            y, memory = carry
            memory = memory._replace(equal_count=fnp.asarray(-9))
            tried = method.attempt(equation, StepStart(y, y, t + number * size, size), memory)
            return (tried.new, tried.memory), None

        return fg.scan(step, (y, memory), fnp.arange(count) * 1.0)[0][0][0][0]

    errors = []
    for count in (20, 40):
        size = 0.5 / count
        known = 1 / (1 + (1.0 - size * np.arange(8)) ** 2)
        errors.append(
            abs(float(fg.jit(end_of, static_argnums=2)(known, size, count)) - 1 / (1 + 1.5**2))
        )
    assert np.log2(errors[0] / errors[1]) > order - 0.25


@every_method
def test_all_ways_to_give_the_jacobian_agree(method: str) -> None:
    pytest.importorskip("scipy")

    def chain(t: Any, y: Any) -> Any:
        return -3.0 * y**3 + 50.0 * (fnp.roll(y, 1) - 2.0 * y + fnp.roll(y, -1))

    def jac(t: Any, y: Any) -> Any:
        return fg.jacfwd(lambda y: chain(t, y))(y)

    start = 1.0 + np.sin(np.arange(6.0))
    ends = [
        np.asarray(solve_ivp(chain, (0, 0.5), start, method, [0.5], jac=way).y)
        for way in (None, jac, "sparse")
    ]
    for end in ends[1:]:
        np.testing.assert_allclose(end, ends[0], rtol=1e-9)


@every_method
def test_a_large_jacobian_is_sparse_without_being_asked_for(method: str) -> None:
    def heat(t: Any, u: Any) -> Any:
        return 1e3 * (fnp.roll(u, 1) - 2.0 * u + fnp.roll(u, -1)) - u

    start = np.sin(2 * np.pi * np.arange(240) / 240)
    solve = fg.jit(lambda u: solve_ivp(heat, (0, 0.1), u, method, [0.1], rtol=1e-5, atol=1e-8).y)
    decay = 2e3 * (np.cos(2 * np.pi / 240) - 1) - 1
    np.testing.assert_allclose(solve(start)[:, 0], start * np.exp(0.1 * decay), atol=1e-4)
    assert "sparse_solve" in solve.lower(start).optimized.to_text()


@every_method
def test_complex_trees_and_float32_are_solved(method: str) -> None:
    def turning(t: Any, y: Any) -> Any:
        return {"turn": 1j * y["turn"], "fall": -20.0 * y["fall"]}

    start = {"turn": fnp.asarray(1.0 + 0j), "fall": fnp.ones((2, 1))}
    sol = solve_ivp(turning, (0.0, -1.0), start, method, [-1.0], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(sol.y["turn"], np.exp([-1j]), rtol=2e-5)
    np.testing.assert_allclose(sol.y["fall"][0, 0], np.exp([20.0]), rtol=2e-4)
    single = solve_ivp(lambda t, y: -50 * y, (0, 1), np.ones(2, np.float32), method, [0.1])
    assert single.y.dtype == np.float32
    np.testing.assert_allclose(single.y[:, 0], np.exp(-5), atol=1e-3)


@every_method
def test_a_mass_matrix_multiplies_the_slope(method: str) -> None:
    mass = np.array([[2.0, 1.0], [0.5, 3.0]])

    def f(t: Any, y: Any) -> Any:
        pull = -100.0 * (y[0] - fnp.cos(t)) - fnp.sin(t)
        return mass @ fnp.stack([pull, t - y[1]])

    times = np.array([0.3, 1.0, 2.0])
    sol = solve_ivp(f, (0, 2), [1.0, 1.0], method, times, rtol=1e-7, atol=1e-9, mass=mass)
    exact = np.stack([np.cos(times), times - 1 + 2 * np.exp(-times)])
    np.testing.assert_allclose(sol.y, exact, atol=2e-6)


@pytest.mark.parametrize("method", ["Radau", "BDF"])
def test_algebraic_equations_have_a_singular_mass_matrix(method: str) -> None:
    def f(t: Any, y: Any) -> Any:
        *slopes, _ = robertson(t, y)
        return fnp.stack([*slopes, y.sum() - 1.0])

    mass = np.diag([1.0, 1.0, 0.0])
    sol = solve_ivp(f, (0, 40), [1.0, 0.0, 0.0], method, [40.0], rtol=1e-7, atol=1e-11, mass=mass)
    known = [0.7158270688, 0.9185534765e-5, 0.2841637457]  # Hairer and Wanner, section IV.10
    np.testing.assert_allclose(sol.y[:, 0], known, rtol=1e-6)


@every_method
def test_a_solution_that_ends_is_reported(method: str) -> None:
    with pytest.raises(ConvergenceError, match="no step is small enough"):
        solve_ivp(lambda t, y: y**2, (0.0, 2.0), [1.0], method, [2.0])
    with pytest.raises(ConvergenceError):
        solve_ivp(lambda t, y: fnp.where(t > 0.5, np.nan, -y), (0.0, 2.0), [1.0], method, [2.0])


@every_method
def test_a_python_loop_has_the_values_of_the_program(method: str) -> None:
    def f(y: Any, t: Any) -> Any:
        return [-20.0 * (y[0] - fnp.cos(t))]

    start, times = [fnp.asarray([1.0, 2.0])], fnp.asarray([0.0, 0.5, 2.0])
    settings, scheme = Settings(1e-5, 1e-8, 1000, float("inf")), Scheme(METHODS[method])
    eager = solved(f, start, times, settings, scheme).leaves[0]
    staged = fg.jit(lambda y: solved(f, [y], times, settings, scheme).leaves[0])(start[0])
    np.testing.assert_allclose(eager, staged, rtol=1e-11)
