"""Solutions are right: known ones, SciPy's, and within bounds and constraints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import optimize
from tests.optimize.problems import CONSTRAINED, RESIDUALS, SYSTEMS
from tests.together import together

scipy_optimize = pytest.importorskip("scipy.optimize")


@together("name", RESIDUALS, quick=7)
def test_least_squares_reaches_the_known_minimum(name: str) -> None:
    problem = RESIDUALS[name]
    found = optimize.least_squares(
        problem.fun, problem.start, xtol=1e-12, ftol=1e-12, gtol=1e-12, max_nfev=1000
    )
    reference = scipy_optimize.least_squares(
        lambda x: np.asarray(problem.fun(x)),
        problem.start,
        jac=lambda x: np.asarray(fg.jacfwd(problem.fun)(x)),
        method="lm",
        xtol=1e-12,
        ftol=1e-12,
        gtol=1e-12,
    )
    assert float(found.cost) <= reference.cost * (1.0 + 1e-8) + 1e-15
    if problem.least is not None:
        assert float(found.cost) == pytest.approx(problem.least, rel=1e-5, abs=1e-14)
    assert found.jac.shape == (len(found.fun), len(problem.start))


@together("method", ["hybr", "newton", "broyden1", "krylov"])
@together("name", SYSTEMS, quick=4)
def test_root_solves_the_system(name: str, method: str) -> None:
    fun, start = SYSTEMS[name]
    if name == "almost linear" and method != "hybr":
        with pytest.raises(fg.errors.ConvergenceError):  # a step of Newton leads far away
            optimize.root(fun, start, method=method)
        return
    found = optimize.root(fun, start, method=method)
    assert np.abs(np.asarray(found.fun)).max() < 1e-7


STUCK = {("box", "nelder-mead")}
"""A minimum of the differences of two equal exponentials, beside the least one."""


SOME = ("rosenbrock", "bard")
MINIMIZED = [
    name if name in SOME else pytest.param(name, marks=pytest.mark.slow) for name in RESIDUALS
]


@pytest.mark.parametrize("name", MINIMIZED)
def test_minimize_of_sums_of_squares_by_each_method(name: str) -> None:
    problem = RESIDUALS[name]
    least = float(optimize.least_squares(problem.fun, problem.start, max_nfev=1000).cost)
    for method in ("bfgs", "l-bfgs", "newton-cg", "trust-exact", "nelder-mead"):
        if (name, method) in STUCK:
            continue

        def minimum(start: Any, way: str = method) -> Any:
            cost = lambda x: 0.5 * fnp.sum(problem.fun(x) ** 2)  # noqa: E731
            return optimize.minimize(cost, start, method=way, failed="keep", maxiter=5000)

        found = fg.jit(minimum)(np.array(problem.start))
        assert float(found.fun) <= 1.001 * least + 1e-6, (method, found.status)


@together("number", CONSTRAINED, quick=7)
@together("method", ["bfgs", "trust-exact"], quick=1)
def test_minimize_with_constraints(number: int, method: str) -> None:
    problem = CONSTRAINED[number]
    constraints = [{"type": kind, "fun": fun} for kind, fun in problem.constraints]
    found = optimize.minimize(
        problem.fun, problem.start, method=method, bounds=problem.bounds, constraints=constraints
    )
    assert float(found.fun) == pytest.approx(problem.least, rel=1e-6, abs=1e-6)
    slope = np.array(found.jac)
    for (kind, fun), multipliers in zip(problem.constraints, found.multipliers, strict=True):
        values = np.atleast_1d(np.asarray(fun(found.x)))
        assert (np.abs(values).max() if kind == "eq" else -values.min()) < 1e-7
        if kind == "ineq":
            assert np.asarray(multipliers).max() <= 0.0
            assert np.abs(np.asarray(multipliers) * values).max() < 1e-5
        slope += np.asarray(fg.vjp(lambda x, c=fun: fnp.ravel(c(x)), found.x)[1](multipliers)[0])
    x = np.asarray(found.x)
    if problem.bounds is not None:
        low, high = (
            np.inf * s if b is None else b for s, b in zip((-1, 1), problem.bounds, strict=True)
        )
        slope = np.where((x <= low) & (slope > 0) | (x >= high) & (slope < 0), 0.0, slope)
    assert np.abs(slope).max() < 1e-5


SCALARS: list[tuple[Any, tuple[float, float]]] = [
    (lambda x: x**3 - 2.0, (0.0, 2.0)),
    (lambda x: fnp.cos(x) - x, (0.0, 1.0)),
    (lambda x: fnp.exp(x) - 1e3, (0.0, 50.0)),
    (lambda x: fnp.tanh(100.0 * x - 30.0), (-3.0, 3.0)),
    (lambda x: (x - 1.0) * (x * x + 1.0), (-10.0, 10.0)),
    (lambda x: x * fnp.exp(-x * x) + 0.1, (1.0, -0.9)),
]


@pytest.mark.parametrize("method", ["bisect", "brentq", "itp"])
@pytest.mark.parametrize("place", range(len(SCALARS)))
def test_bracketed_roots(place: int, method: str) -> None:
    f, bracket = SCALARS[place]
    found = optimize.root_scalar(f, bracket=bracket, method=method)
    reference = scipy_optimize.root_scalar(lambda x: float(f(x)), bracket=bracket, xtol=1e-14)
    assert float(found.x) == pytest.approx(reference.root, abs=4e-12)
    bisections = np.log2(abs(bracket[1] - bracket[0]) / 1e-12)
    assert int(found.nfev) <= bisections + 5 or method == "brentq"


@pytest.mark.parametrize("method", ["newton", "halley", "secant"])
def test_roots_from_a_point(method: str) -> None:
    found = optimize.root_scalar(lambda x: x**3 - 2.0, x0=1.0, method=method)
    assert float(found.x) == pytest.approx(2.0 ** (1.0 / 3.0), rel=1e-15)
    complex_root = optimize.root_scalar(lambda z: z**2 + 1.0, x0=1.0 + 1.0j, method=method)
    assert complex(complex_root.x) == pytest.approx(1j)


def test_minimize_scalar_is_scipys() -> None:
    for f, bounds in [
        (lambda x: (x - 2.0) ** 2 + 1.0, (0.0, 5.0)),
        (lambda x: fnp.cosh(x - 1.0) + 0.1 * x, (-5.0, 5.0)),
        (lambda x: x**3 - x, (-1.0, 2.0)),
        (lambda x: -(x**2), (-1.0, 2.0)),
        (lambda x: abs(x - 0.3), (0.0, 1.0)),
    ]:
        found = optimize.minimize_scalar(f, bounds)
        options = {"xatol": 1e-9}
        reference = scipy_optimize.minimize_scalar(
            lambda x, f=f: float(f(x)), bounds=bounds, method="bounded", options=options
        )
        assert float(found.x) == pytest.approx(reference.x, abs=2e-7)
    assert float(optimize.minimize_scalar(lambda x: x, (1.0, 3.0)).x) == 1.0
    assert float(optimize.minimize_scalar(lambda x: -x, (1.0, 3.0)).x) == 3.0


@pytest.mark.parametrize("loss", ["linear", "soft_l1", "huber", "cauchy", "arctan"])
def test_losses_are_scipys(loss: str) -> None:
    t = np.linspace(0.0, 1.0, 20)
    data = 2.0 * t + 1.0 + 0.02 * np.sin(30.0 * t)
    data[3], data[11] = 5.0, -4.0
    found = optimize.least_squares(
        lambda p: p[0] * t + p[1] - data, [1.0, 0.0], loss=loss, f_scale=0.1, xtol=1e-12
    )
    reference = scipy_optimize.least_squares(
        lambda p: p[0] * t + p[1] - data, [1.0, 0.0], loss=loss, f_scale=0.1, xtol=1e-12, ftol=1e-12
    )
    np.testing.assert_allclose(found.x, reference.x, rtol=1e-5)


@pytest.mark.parametrize("name", ["rosenbrock", "helix", "bard", "wood"])
def test_bounded_least_squares_is_scipys(name: str) -> None:
    problem = RESIDUALS[name]
    best = np.asarray(optimize.least_squares(problem.fun, problem.start, max_nfev=1000).x)
    low, high = best - 1.0, best + 5.0
    low[0] = best[0] + 0.1  # the minimum lies outside
    start = np.clip(problem.start, low, high)
    found = optimize.least_squares(problem.fun, start, bounds=(low, high), max_nfev=1000)
    reference = scipy_optimize.least_squares(
        lambda x: np.asarray(problem.fun(x)), start + 1e-3, bounds=(low, high), max_nfev=2000
    )
    assert float(found.cost) <= reference.cost * (1.0 + 1e-6) + 1e-12
    assert np.all((low <= np.asarray(found.x)) & (np.asarray(found.x) <= high))


CURVE = np.linspace(0.0, 2.0, 30)


@pytest.mark.parametrize("options", range(5))
def test_curve_fit_is_scipys(options: int) -> None:
    rng = np.random.default_rng(0)
    data = 2.0 * np.exp(-1.5 * CURVE) + 0.05 * rng.normal(size=30)
    distance = abs(CURVE[:, None] - CURVE)
    chosen: Any = [
        {},
        {"sigma": 0.03 + 0.05 * CURVE},
        {"sigma": 0.03 + 0.05 * CURVE, "absolute_sigma": True},
        {"sigma": 0.05 * (0.5 * np.eye(30) + 0.5 * np.exp(-distance / 0.1))},
        {"bounds": ([0.0, 0.0], [1.9, 3.0])},
    ][options]
    found = optimize.curve_fit(
        lambda t, a, k: a * fnp.exp(-k * t), CURVE, data, xtol=1e-12, **chosen
    )
    reference = scipy_optimize.curve_fit(
        lambda t, a, k: a * np.exp(-k * t), CURVE, data, [1.0, 1.0], xtol=1e-12, **chosen
    )
    np.testing.assert_allclose(found[0], reference[0], rtol=1e-6)
    np.testing.assert_allclose(found[1], reference[1], rtol=1e-4)


@together("loss", ["soft_l1", "huber", "cauchy", "arctan"])
def test_the_covariance_of_a_robust_fit_is_scipys_and_has_derivatives(loss: str) -> None:
    data = 2.0 * np.exp(-1.5 * CURVE) + 0.05 * np.random.default_rng(0).normal(size=30)
    data[::9] += 1.0
    options: Any = {"loss": loss, "f_scale": 0.1, "xtol": 1e-13, "ftol": 1e-13, "gtol": 1e-13}

    def fit(measured: Any) -> Any:
        return optimize.curve_fit(lambda t, a, k: a * fnp.exp(-k * t), CURVE, measured, **options)

    reference = scipy_optimize.curve_fit(
        lambda t, a, k: a * np.exp(-k * t), CURVE, data, [1.0, 1.0], method="trf", **options
    )
    np.testing.assert_allclose(fit(data)[1], reference[1], rtol=1e-4)
    slope = np.asarray(fg.grad(lambda measured: fnp.sum(fit(measured)[1]))(data))[3]
    step = 1e-5 * (np.arange(30) == 3)
    there, here = [float(fnp.sum(fit(data + sign * step)[1])) for sign in (1.0, -1.0)]
    np.testing.assert_allclose(slope, (there - here) / 2e-5, rtol=1e-4)


def test_complex_residuals_count_by_their_sizes() -> None:
    t = np.linspace(0.0, 1.0, 9)
    data = np.exp(2.0j * t) + 0.01 * np.cos(30.0 * t)
    popt, pcov = optimize.curve_fit(lambda t, k: fnp.exp(1j * k * t), t, data, [1.5])
    found = optimize.least_squares(lambda k: fnp.exp(1j * k * t) - data, np.array([1.5]))
    residuals = np.exp(1j * np.asarray(popt) * t) - data
    assert float(found.cost) == pytest.approx(0.5 * np.sum(abs(residuals) ** 2))
    variance = np.sum(abs(residuals) ** 2) / (18 - 1) / np.sum(t**2)
    assert float(pcov[0, 0]) == pytest.approx(variance, rel=1e-6)


def test_curve_fit_tells_where_nothing_is_known() -> None:
    popt, pcov = optimize.curve_fit(
        lambda t, a, b: a + b + 0.0 * t, [0.0, 1.0, 2.0], [1.0, 1.0, 1.0]
    )
    assert float(popt.sum()) == pytest.approx(1.0)
    assert np.isinf(np.asarray(pcov)).all()
    _, exact = optimize.curve_fit(lambda t, a, b: a + b * t, [0.0, 1.0], [1.0, 3.0])
    assert np.isinf(np.asarray(exact)).all()  # as many parameters as measurements


def test_fixed_points() -> None:
    found = optimize.fixed_point(fnp.cos, 1.0)
    assert float(found.x) == pytest.approx(0.7390851332151607)
    matrix = np.random.default_rng(0).normal(size=(30, 30)) / 9.0
    found = optimize.fixed_point(lambda x: fnp.tanh(matrix @ x + 1.0), np.zeros(30), xtol=1e-12)
    x = np.asarray(found.x)
    np.testing.assert_allclose(np.tanh(matrix @ x + 1.0), x, rtol=1e-9)


def test_a_list_of_scalars_is_a_vector_also_if_they_are_traced() -> None:
    def found(a: Any) -> Any:
        return optimize.minimize(lambda x: (x - a) @ (x - a), [a - 1.0, 0.0]).x

    batch = fg.vmap(found)(fg.tensor([1.0, 2.0]))
    np.testing.assert_allclose(batch, [[1.0, 1.0], [2.0, 2.0]], atol=1e-7)
    np.testing.assert_allclose(fg.jacfwd(found)(1.0), [1.0, 1.0], atol=1e-7)


def test_the_simplex_counts_its_evaluations() -> None:
    def banana(x: Any) -> Any:
        return (1.0 - x[0]) ** 2 + 100.0 * (x[1] - x[0] ** 2) ** 2

    start = np.array([-1.2, 1.0])
    found = optimize.minimize(banana, start, method="nelder-mead", maxiter=20, failed="keep")
    options = {"maxiter": 20, "adaptive": True}
    theirs = scipy_optimize.minimize(banana, start, method="Nelder-Mead", options=options)
    np.testing.assert_allclose(found.x, theirs.x)
    assert abs(int(found.nfev) - theirs.nfev) <= 2  # at the start
