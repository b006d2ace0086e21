"""Solutions at bounds: their derivatives are those of SciPy's own solutions, by differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pytest
from scipy import optimize

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, ConvergenceError, ShapeError, TreeError
from tests.together import together

SIZE: Final = 3
LOWER, UPPER = np.array([0.0, -np.inf, -0.2]), np.array([1.0, 0.6, np.inf])
START = np.full(SIZE, 0.3)


def residuals(x: Any, p: Any, matrix: Any) -> Any:
    return matrix @ x + 0.3 * fnp.sin(matrix[:, ::-1] @ x) - p


def cost(x: Any, p: Any, matrix: Any) -> Any:
    return 0.5 * fnp.sum(fnp.square(residuals(x, p, matrix))) + 0.1 * fnp.sum(x**4)


def fitted(method: str, g: Any, x: Any) -> Any:
    tight = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-13}
    within = {"bounds": (LOWER, UPPER), "jac": fg.jacfwd(g)}
    return optimize.least_squares(g, x, method=method, max_nfev=2000, **within, **tight)


def descended(method: str, g: Any, x: Any) -> Any:
    options = {"ftol": 1e-13, "gtol": 1e-9} if method == "L-BFGS-B" else {"ftol": 1e-16}
    bounds = optimize.Bounds(LOWER, UPPER)
    found = optimize.minimize(g, x, jac=fg.grad(g), bounds=bounds, method=method, options=options)
    return found.x


def inside(g: Any, x: Any) -> Any:
    """A method of barriers, which tells multipliers."""
    return optimize.minimize(
        g,
        x,
        jac=fg.grad(g),
        hess=fg.hessian(g),
        bounds=optimize.Bounds(LOWER, UPPER),
        method="trust-constr",
        options={"gtol": 1e-10, "barrier_tol": 1e-10, "xtol": 1e-14, "maxiter": 3000},
    )


def wrapped(g: Any, x: Any) -> Any:
    tight = {"ftol": 1e-11, "gtol": 1e-8}
    bounds = optimize.Bounds(LOWER, UPPER)
    found = fg.scipy.optimize.minimize(g, x, bounds=bounds, options=tight)
    found.success = True  # also where the line search ends at the precision; the residual decides
    return found


SOLVERS: Final[Mapping[str, tuple[Any, Any, Any, dict[str, Any]]]] = MappingProxyType(
    {
        "trf": (fg.implicit.least_squares, residuals, partial(fitted, "trf"), {}),
        "dogbox": (fg.implicit.least_squares, residuals, partial(fitted, "dogbox"), {}),
        "L-BFGS-B": (
            fg.implicit.minimize,
            cost,
            partial(descended, "L-BFGS-B"),
            {"bounds": (LOWER, UPPER)},
        ),
        "SLSQP": (
            fg.implicit.minimize,
            cost,
            partial(descended, "SLSQP"),
            {"bounds": optimize.Bounds(LOWER, UPPER)},
        ),
        "funcgrad.scipy": (fg.implicit.minimize, cost, wrapped, {}),
    }
)


def is_differentiated_as_by_differences(name: str, seed: int) -> int:
    """Compare at a random problem; return how many numbers are at a bound, or -1 at a kink."""
    make, f, solver, options = SOLVERS[name]
    rng = np.random.default_rng(seed)
    matrix, p, along = rng.normal(size=(5, SIZE)), 2.0 * rng.normal(size=5), rng.normal(size=5)
    solution = make(f, solver, **options)

    def at(t: float) -> Any:
        return np.asarray(solution(START, p + t * along, matrix))

    def slope(step: float) -> Any:
        return (at(step) - at(-step)) / (2.0 * step)

    wanted = slope(1e-3)
    if not np.allclose(wanted, slope(3e-3), rtol=1e-3, atol=1e-3):
        return -1  # a number reaches a bound, or another minimum is found
    x = at(0.0)
    derivative = fg.jacrev(lambda t: solution(START, p + t * along, matrix))(0.0)
    forward = fg.jacfwd(lambda t: solution(START, p + t * along, matrix))(0.0)
    np.testing.assert_allclose(derivative, wanted, rtol=1e-3, atol=1e-3, err_msg=f"seed {seed}")
    np.testing.assert_allclose(forward, derivative, rtol=1e-12, atol=1e-14)
    return int(np.sum(np.minimum(x - LOWER, UPPER - x) < 1e-5))


@pytest.mark.parametrize("name", SOLVERS)
def test_some_bounded_problems_have_the_derivatives_of_their_solutions(name: str) -> None:
    assert max(is_differentiated_as_by_differences(name, seed) for seed in range(3)) > 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Values in x were outside bounds")  # of SLSQP in older SciPys
@pytest.mark.parametrize("name", SOLVERS)
def test_a_hundred_bounded_problems_have_the_derivatives_of_their_solutions(name: str) -> None:
    """Each solver has a sixth of them; those with no active bound are a tenth of all."""
    seeds = range([*SOLVERS].index(name), 100, 6)
    held = [is_differentiated_as_by_differences(name, seed) for seed in seeds]
    assert {1, 2} <= set(held)
    assert held.count(-1) < 3


# ------------------------------------------------------------------------------- in closed form

HALF = np.full(2, 0.5)


def coupled(x: Any, p: Any) -> Any:
    """Where x[0] is free, it is p[0] - x[1] / 2; where x[1] is, it is p[1] - x[0] / 2."""
    return fnp.sum((x - p) ** 2) + x[0] * x[1]


def projected(g: Any, x: Any) -> Any:
    """A bounded method written in funcgrad's functions."""
    return fg.fori_loop(0, 200, lambda _, x: fnp.clip(x - 0.3 * fg.grad(g)(x), 0.0, 1.0), x)


def bounded(g: Any, x: Any) -> Any:
    return optimize.minimize(g, x, jac=fg.grad(g), bounds=[(0.0, 1.0)] * 2, tol=1e-12).x


MODES: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {
        "jacrev": fg.jacrev,
        "jacfwd": fg.jacfwd,
        "linearize": lambda f: lambda p: fg.vmap(fg.linearize(f, p)[1], out_axes=1)(fnp.eye(2)),
        "jit": lambda f: fg.jit(fg.jacrev(f)),
        "of jit": lambda f: fg.jacfwd(fg.jit(f)),
        "vmap": lambda f: lambda p: fg.vmap(fg.jacrev(f))(fnp.stack([p, 0.3 * p]))[0],
    }
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("solver", [bounded, pytest.param(projected, marks=pytest.mark.slow)])
def test_numbers_at_a_bound_stay_and_the_others_follow(solver: Any, mode: str) -> None:
    solution = fg.implicit.minimize(coupled, solver, bounds=(0.0, 1.0))
    derivative = MODES[mode](lambda p: solution(HALF, p))
    np.testing.assert_allclose(derivative(fg.tensor([2.0, 0.9])), [[0, 0], [0, 1]], atol=1e-12)
    np.testing.assert_allclose(derivative(fg.tensor([2.0, 3.0])), np.zeros((2, 2)))
    free = np.array([[4.0, -2.0], [-2.0, 4.0]]) / 3.0
    np.testing.assert_allclose(derivative(fg.tensor([0.6, 0.7])), free, rtol=1e-9)


@pytest.mark.parametrize("solver", [bounded, projected])
def test_second_derivatives_are_those_of_the_free_numbers(solver: Any) -> None:
    """With x[0] = 1 the other is p² - 1/2."""

    def solution(p: Any) -> Any:
        found = fg.implicit.minimize(coupled, solver, bounds=(0.0, 1.0))
        return found(HALF, fnp.stack([2.0 + p, p**2]))

    for second in (
        fg.jacfwd(fg.jacrev(solution)),
        fg.jacrev(fg.jacrev(solution)),
        fg.jit(fg.jacrev(fg.jacfwd(solution))),
    ):
        np.testing.assert_allclose(second(1.0), [0.0, 2.0], atol=1e-11)


def test_a_method_of_barriers_tells_what_its_bounds_hold() -> None:
    p = np.array([2.0, -1.5, 0.5])
    solution = fg.implicit.minimize(lambda x, p: fnp.sum((x - p) ** 2), inside)
    np.testing.assert_allclose(fg.jacrev(solution, 1)(START, p), np.diag([0.0, 1.0, 1.0]))
    np.testing.assert_allclose(
        fg.jacrev(solution, 1)(START, -p), np.diag([0.0, 0.0, 0.0]), atol=1e-12
    )


def test_unknowns_in_trees_have_bounds_in_trees() -> None:
    def squares(x: Any, p: Any) -> Any:
        return {"u": x["a"] - p, "v": x["b"] - x["a"] * p * np.ones(2)}

    def fit(g: Any, x: Any) -> Any:
        return fg.scipy.optimize.least_squares(g, x, bounds={"a": (0.0, 1.0), "b": None})

    def known(g: Any, x: Any) -> Any:
        return fit(g, x).x

    start = {"a": np.array(0.5), "b": np.zeros(2)}
    limits = {"a": 0.0, "b": None}, {"a": 1.0, "b": None}
    for solution in (
        fg.implicit.least_squares(squares, fit),
        fg.implicit.least_squares(squares, known, bounds=limits),
    ):
        slope = fg.jacrev(solution, 1)(start, 2.0)
        assert float(slope["a"]) == 0.0
        np.testing.assert_allclose(slope["b"], [1.0, 1.0])


def test_a_number_between_equal_bounds_stays() -> None:
    def fixed(g: Any, x: Any) -> Any:
        bounds = [(0.5, 0.5), (None, None)]
        return fg.scipy.optimize.minimize(g, x, bounds=bounds, tol=1e-12)

    solution = fg.implicit.minimize(coupled, fixed)
    for p in (fg.tensor([2.0, 3.0]), fg.tensor([-2.0, 3.0])):
        np.testing.assert_allclose(fg.jacrev(solution, 1)(HALF, p), [[0, 0], [0, 1]], atol=1e-9)


# --------------------------------------------------------------------- what does not solve anything

UNSOLVED: Final[Mapping[str, tuple[Any, Any]]] = MappingProxyType(
    {
        "a root that was not reached": (
            fg.implicit.root(lambda x, p: x**3 - p, lambda g, x: x + 0.5),
            "residual is -4.62, and a step of Newton's method is -0.685",
        ),
        "a fixed point that was not reached": (
            fg.implicit.fixed_point(lambda x, p: (x + p / x) / 2.0, lambda g, x: g(x)),
            r"residual is -1\.36",
        ),
        "a minimum that a bound holds": (
            fg.implicit.minimize(lambda x, p: (x - p) ** 2, lambda g, x: np.minimum(8.0, 1.0)),
            r"the slope is -14, .*-7, .*pass bounds=\(lower, upper\)",
        ),
        "a minimum of a small function": (
            fg.implicit.minimize(
                lambda x, p: 1e-12 * (x - p) ** 2, lambda g, x: np.minimum(8.0, 1.0)
            ),
            "the slope is -1.4e-11",
        ),
        "a fit with another loss": (
            fg.implicit.least_squares(
                lambda x, p: fnp.stack([x - p, x - 1.0, x]),
                lambda g, x: np.median(-g(np.float64(0.0))),  # of the absolute values
            ),
            "the slope is -6",
        ),
        "a bound that holds nothing": (  # the function falls inwards
            fg.implicit.minimize(
                lambda x, p: (x - p) ** 2, lambda g, x: np.float64(1.0), bounds=(1.0, None)
            ),
            "the slope is -14",
        ),
    }
)


@together("case", UNSOLVED)
def test_what_does_not_solve_the_equation_has_no_derivative(case: str) -> None:
    solution, message = UNSOLVED[case]
    ways: list[Any] = [fg.grad, fg.jacfwd, lambda f, k: fg.grad(fg.grad(f, k), k)]
    for derive in ways:
        with pytest.raises(ConvergenceError, match=f"does not solve the equation: .*{message}"):
            derive(solution, 1)(1.0, 8.0)
    assert np.isfinite(solution(1.0, 8.0))
    for derive in ways[:2]:
        assert np.isnan(fg.jit(derive(solution, 1))(1.0, 8.0))
        assert np.isnan(fg.vmap(derive(solution, 1), (None, 0))(1.0, np.array([8.0]))).all()


def test_in_a_batch_only_the_example_that_was_not_solved_is_nan() -> None:
    solution = fg.implicit.root(lambda x, p: x - p, lambda g, x: np.minimum(x - g(x), 1.0))
    slope = fg.vmap(fg.grad(solution, 1), (None, 0))(0.5, np.array([0.7, 2.0]))
    np.testing.assert_allclose(slope, [1.0, np.nan])
    lost = fg.implicit.root(
        lambda x, p: x - p, lambda g, x: np.minimum(x - g(x), 1.0), failed="nan"
    )
    assert np.isnan(fg.grad(lost, 1)(0.5, 2.0))
    assert lost(0.5, 2.0) == 1.0


def test_how_far_from_the_solution_is_an_option() -> None:
    def rough(g: Any, x: Any) -> Any:
        return np.float64(1.99)

    assert fg.grad(fg.implicit.root(lambda x, p: x**3 - p, rough, tol=0.1), 1)(1.0, 8.0) < 0.085
    with pytest.raises(ConvergenceError):
        fg.grad(fg.implicit.root(lambda x, p: x**3 - p, rough), 1)(1.0, 8.0)
    with pytest.raises(ArgumentError, match=r"implicit.root: tol has to be a number >= 0"):
        fg.implicit.root(lambda x, p: x**3 - p, rough, tol=-1.0)


def test_numbers_that_are_zero_but_for_the_precision_are_solutions() -> None:
    """The default of BFGS leaves a slope of 1e-5; the numbers themselves are zero."""
    scale = np.array([1.0, 30.0, 0.1])
    solution = fg.implicit.minimize(
        lambda x, p: fnp.sum(scale * (x - p * np.array([0.0, 1.0, 0.0])) ** 2) + x[0] ** 4,
        lambda g, x: optimize.minimize(g, x, jac=fg.grad(g)),
    )
    np.testing.assert_allclose(fg.jacrev(solution, 1)(np.full(3, 0.7), 2.0), [0, 1, 0], atol=1e-9)


@pytest.mark.parametrize(
    ("bounds", "error"),
    [
        (1.0, ArgumentError),
        ((0.0, 1.0, 2.0), ArgumentError),
        (({"a": 0.0}, None), TreeError),
        ((np.zeros(3), None), ShapeError),
    ],
)
def test_bounds_that_do_not_fit_are_refused(bounds: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"implicit\.minimize: bounds"):
        fg.implicit.minimize(coupled, bounded, bounds=bounds)(HALF, fg.tensor([2.0, 0.9]))
