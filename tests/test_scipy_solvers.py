"""SciPy's solvers take our functions and derivatives as they are, whichever method they use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.optimize

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.together import together

START = np.array([-0.8, 0.7, 0.9])


def valley(x: Any) -> Any:
    """Rosenbrock's function, whose minimum is at ones."""
    return fnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def residuals(x: Any) -> Any:
    return fnp.stack([10.0 * (x[1] - x[0] ** 2), 1.0 - x[0]])


SLOPE, CURVATURE = fg.grad(valley), fg.hessian(valley)


def curvature_times(x: Any, direction: Any) -> Any:
    return fg.hvp(valley, (x,), (direction,))


def minimized(**options: Any) -> Any:
    return scipy.optimize.minimize(valley, START, **options)


FIRST_ORDER = ["CG", "BFGS", "L-BFGS-B", "TNC", "SLSQP"]
MANY = {m: {"maxfun" if m == "TNC" else "maxiter": 1000} for m in FIRST_ORDER}
SECOND_ORDER = ["Newton-CG", "trust-ncg", "dogleg", "trust-krylov", "trust-exact", "trust-constr"]
PRODUCTS = [method for method in SECOND_ORDER if method not in ("dogleg", "trust-exact")]


@pytest.mark.parametrize("method", ["Nelder-Mead", "Powell", "COBYQA"])
def test_minimize_without_derivatives(method: str) -> None:
    np.testing.assert_allclose(minimized(method=method, tol=1e-8).x, 1.0, atol=1e-3)


@together("staged", [False, True])
@together("method", FIRST_ORDER)
def test_minimize_takes_gradients(method: str, staged: bool) -> None:
    slope = fg.jit(SLOPE) if staged else SLOPE
    found = minimized(method=method, jac=slope, tol=1e-10, options=MANY[method])
    np.testing.assert_allclose(found.x, 1.0, atol=1e-4)
    both = fg.jit(fg.value_and_grad(valley)) if staged else fg.value_and_grad(valley)
    found = scipy.optimize.minimize(
        both, START, method=method, jac=True, tol=1e-10, options=MANY[method]
    )
    np.testing.assert_allclose(found.x, 1.0, atol=1e-4)


@together("method", SECOND_ORDER)
def test_minimize_takes_hessians(method: str) -> None:
    hessian: Any = CURVATURE
    if method == "dogleg":  # which asks for a function that is convex
        found = scipy.optimize.minimize(
            lambda x: fnp.sum(fnp.cosh(x - 1.0)),
            START,
            method=method,
            jac=fg.grad(lambda x: fnp.sum(fnp.cosh(x - 1.0))),
            hess=fg.hessian(lambda x: fnp.sum(fnp.cosh(x - 1.0))),
        )
    else:
        found = minimized(method=method, jac=SLOPE, hess=hessian, tol=1e-8)
    np.testing.assert_allclose(found.x, 1.0, atol=1e-4)


@pytest.mark.parametrize("method", PRODUCTS)
def test_minimize_takes_products_with_hessians(method: str) -> None:
    found = minimized(method=method, jac=SLOPE, hessp=curvature_times, tol=1e-8)
    np.testing.assert_allclose(found.x, 1.0, atol=1e-4)


@pytest.mark.parametrize("method", ["SLSQP", "trust-constr", "COBYQA"])
def test_constraints(method: str) -> None:
    def inside(x: Any) -> Any:
        return fnp.sum(x**2)

    exact: dict[str, Any] = {} if method == "COBYQA" else {"jac": SLOPE}
    second: dict[str, Any] = {}
    if method == "trust-constr":
        exact["hess"] = CURVATURE
        second["hess"] = lambda x, v: v[0] * fg.hessian(inside)(x)
    ball = scipy.optimize.NonlinearConstraint(inside, 0.0, 1.0, jac=fg.grad(inside), **second)
    found = minimized(method=method, constraints=[ball], **exact)
    assert abs(np.sum(found.x**2) - 1.0) < 1e-4
    normal = 2.0 * found.x
    slope = np.asarray(SLOPE(found.x))
    np.testing.assert_allclose(slope, normal * (slope @ normal) / (normal @ normal), atol=0.05)


@together("loss", ["linear", "soft_l1"])
@together("method", ["trf", "dogbox", "lm"])
def test_least_squares(method: Any, loss: Any) -> None:
    if method == "lm" and loss != "linear":
        loss = "linear"  # the only one that it has
    for jac in ("2-point", fg.jacfwd(residuals), fg.jacrev(residuals)):
        found = scipy.optimize.least_squares(
            residuals, START[:2], jac=jac, method=method, loss=loss
        )
        np.testing.assert_allclose(found.x, 1.0, atol=1e-6)


@pytest.mark.parametrize("method", ["hybr", "lm", "broyden1", "krylov"])
def test_root(method: Any) -> None:
    jac = fg.jacfwd(residuals) if method in ("hybr", "lm") else None
    start = START[:2] if jac else [0.9, 0.9]
    found = scipy.optimize.root(residuals, start, jac=jac, method=method)
    np.testing.assert_allclose(found.x, 1.0, atol=1e-4)


def cubic(x: Any) -> Any:
    return x**3 - 2.0


BEND = fg.grad(fg.grad(cubic))


@together(
    "options",
    [
        *[{"bracket": [0.0, 2.0], "method": m} for m in ("brentq", "brenth", "ridder", "bisect")],
        {"bracket": [0.0, 2.0], "method": "toms748"},
        {"x0": 1.0, "x1": 2.0, "method": "secant"},
        {"x0": 1.0, "fprime": fg.grad(cubic), "method": "newton"},
        {
            "x0": 1.0,
            "fprime": fg.grad(cubic),
            "fprime2": fg.grad(fg.grad(cubic)),
            "method": "halley",
        },
    ],
    ids=lambda options: options["method"],
)
def test_root_scalar(options: Any) -> None:
    assert scipy.optimize.root_scalar(cubic, **options).root == pytest.approx(2.0 ** (1 / 3))


def decay(t: Any, scale: Any, rate: Any) -> Any:
    return scale * fnp.exp(-rate * t)


@pytest.mark.parametrize("method", ["lm", "trf", "dogbox"])
def test_curve_fit(method: str) -> None:
    times = np.linspace(0.0, 1.0, 20)

    def slopes(t: Any, scale: Any, rate: Any) -> Any:
        return fnp.stack(fg.jacfwd(decay, argnums=(1, 2))(t, scale, rate), axis=-1)

    for jac in (None, slopes):
        found, _ = scipy.optimize.curve_fit(
            decay, times, 2.0 * np.exp(-3.0 * times), p0=[1.0, 1.0], jac=jac, method=method
        )
        np.testing.assert_allclose(found, [2.0, 3.0], rtol=1e-6)


def oscillator(t: Any, y: Any) -> Any:
    return fnp.stack([y[1], -y[0]])


@together("method", ["RK45", "RK23", "DOP853", "Radau", "BDF", "LSODA"])
def test_solve_ivp(method: Any) -> None:
    implicit = method in ("Radau", "BDF", "LSODA")
    jac: dict[str, Any] = {"jac": fg.jacfwd(oscillator, argnums=1)} if implicit else {}
    found = scipy.integrate.solve_ivp(
        oscillator, (0.0, 2.0), [1.0, 0.0], method=method, rtol=1e-6, atol=1e-8, **jac
    )
    np.testing.assert_allclose(found.y[:, -1], [np.cos(2.0), -np.sin(2.0)], atol=1e-4)


def reactions(t: Any, y: Any) -> Any:
    """Robertson's reactions, whose speeds differ by nine orders of magnitude."""
    slow, quick, fast = 0.04 * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return fnp.stack([quick - slow, slow - quick - fast, fast])


@together("staged", [False, True])
@together("method", ["Radau", "BDF", "LSODA"])
def test_solve_ivp_of_a_stiff_equation(method: Any, staged: bool) -> None:
    slopes = fg.jacfwd(reactions, argnums=1)
    jac: Any = fg.jit(slopes) if staged else slopes
    calls = []

    def counted(t: Any, y: Any) -> Any:
        calls.append(t)
        return jac(t, y)

    found = scipy.integrate.solve_ivp(
        reactions, (0.0, 40.0), [1.0, 0.0, 0.0], method, jac=counted, rtol=1e-5, atol=1e-10
    )
    assert calls
    assert found.nfev < 1000
    np.testing.assert_allclose(found.y[:, -1], [0.7158271, 9.185535e-6, 0.2841638], rtol=1e-3)


def test_integrals_and_other_callers() -> None:
    def bell(x: Any) -> Any:
        return fnp.exp(-(x**2))

    area = 0.746824132812427
    assert scipy.integrate.quad(bell, 0.0, 1.0)[0] == pytest.approx(area)
    assert scipy.integrate.quad_vec(bell, 0.0, 1.0)[0] == pytest.approx(area)
    steps = scipy.integrate.odeint(lambda y, t: oscillator(t, y), [1.0, 0.0], [0.0, 2.0])
    np.testing.assert_allclose(steps[-1], [np.cos(2.0), -np.sin(2.0)], atol=1e-6)
    costs = fg.grad(lambda x: x[0] + 2.0 * x[1])(np.ones(2))
    planned = scipy.optimize.linprog(costs, A_ub=fg.tensor([[-1.0, -1.0]]), b_ub=fg.tensor([-1.0]))
    np.testing.assert_allclose(planned.x, [1.0, 0.0])
    assert scipy.optimize.check_grad(valley, SLOPE, START) < 1e-4
    lowest = scipy.optimize.minimize_scalar(lambda x: (x - 2.0) ** 2 + fnp.sin(x))
    assert 2.0 * (lowest.x - 2.0) + np.cos(lowest.x) == pytest.approx(0.0, abs=1e-6)


CALLBACKS: dict[str, Callable[[], Any]] = {
    "fmin_l_bfgs_b": lambda: scipy.optimize.fmin_l_bfgs_b(valley, START, fprime=SLOPE)[0],
    "fmin_slsqp": lambda: scipy.optimize.fmin_slsqp(valley, START, fprime=SLOPE, iprint=0),
    "fmin_bfgs": lambda: scipy.optimize.fmin_bfgs(valley, START, fprime=SLOPE, disp=False),
    "basinhopping": lambda: (
        scipy.optimize.basinhopping(valley, START, niter=2, minimizer_kwargs={"jac": SLOPE}).x
    ),
    "fsolve": lambda: scipy.optimize.fsolve(residuals, [0.5, 0.5], fprime=fg.jacfwd(residuals)),
    "leastsq": lambda: scipy.optimize.leastsq(residuals, [0.5, 0.5], Dfun=fg.jacfwd(residuals))[0],
}


@together("name", CALLBACKS)
def test_older_functions(name: str) -> None:
    np.testing.assert_allclose(CALLBACKS[name](), 1.0, atol=1e-3)


@pytest.mark.parametrize("convert", [np.atleast_1d, np.atleast_2d, np.atleast_3d])
def test_conversions_of_concrete_tensors_are_arrays_of_the_caller(convert: Any) -> None:
    kept = fg.tensor([1.0, 2.0])
    made = convert(kept)
    assert type(made) is np.ndarray
    made[:] = 0.0
    np.testing.assert_array_equal(kept, [1.0, 2.0])
    first, second = convert(kept, 3.0)
    assert type(first) is type(second) is np.ndarray
    np.testing.assert_array_equal(fg.grad(lambda x: np.sum(convert(x) ** 2))(kept), [2.0, 4.0])
    assert isinstance(fg.jit(convert)(kept), fg.Tensor)
