"""Ipopt's callbacks against dense derivatives; Ipopt itself where cyipopt is installed."""

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.interop import ipopt

START = {"u": np.linspace(0.5, 1.5, 6), "v": np.array([[2.0], [-1.0]])}
needs_cyipopt = pytest.mark.skipif(find_spec("cyipopt") is None, reason="cyipopt is not installed")


def cost(p: Any) -> Any:
    u = p["u"]
    return fnp.sum((u[1:] - u[:-1] ** 2) ** 2) + fnp.sum(p["v"] ** 4) * u[0]


def sums(p: Any) -> Any:
    return {"pairs": p["u"][1:] * p["u"][:-1] ** 2, "last": p["v"][1, 0] + p["u"][-1]}


def dense(structure: Any, data: Any, shape: tuple[int, int]) -> Any:
    out = np.zeros(shape)
    out[tuple(structure)] = data
    return out


def test_callbacks_are_derivatives() -> None:
    problem = ipopt.IpoptProblem(cost, START, sums)
    unravel, x = problem.flat.unravel, problem.flat.ravel(START) + 0.25

    def of_vector(x: Any) -> Any:
        return cost({"u": x[:6], "v": x[6:].reshape(2, 1)})

    def restrained(x: Any) -> Any:
        out = sums({"u": x[:6], "v": x[6:].reshape(2, 1)})
        return fnp.concatenate([out["last"].reshape(1), out["pairs"]])

    assert problem.count == 6
    assert problem.objective(x) == pytest.approx(float(cost(unravel(x))), rel=1e-14)
    assert_allclose(problem.gradient(x), np.asarray(fg.grad(of_vector)(x)), rtol=1e-12)
    assert_allclose(problem.constraints(x), np.asarray(restrained(x)), rtol=1e-14)
    jacobian = dense(problem.jacobianstructure(), problem.jacobian(x), (6, 8))
    assert_allclose(jacobian, np.asarray(fg.jacfwd(restrained)(x)), rtol=1e-12)
    assert len(problem.jacobian(x)) == 12
    weights = np.linspace(-1, 2, 6)
    lower = dense(problem.hessianstructure(), problem.hessian(x, weights, 0.5), (8, 8))
    expected = fg.hessian(lambda x: 0.5 * of_vector(x) + weights @ restrained(x))(x)
    assert_allclose(lower, np.tril(np.asarray(expected)), rtol=1e-10, atol=1e-12)
    assert problem.of_multipliers(weights)["last"] == -1.0


def test_a_problem_without_constraints() -> None:
    problem = ipopt.IpoptProblem(cost, START)
    x = problem.flat.ravel(START)
    assert problem.count == 0
    assert problem.constraints(x).shape == problem.jacobian(x).shape == (0,)
    assert problem.jacobianstructure()[0].shape == (0,)
    assert len(problem.hessian(x, np.zeros(0), 1.0)) == len(problem.hessianstructure()[0])


def test_bounds() -> None:
    problem = ipopt.IpoptProblem(cost, START, sums)
    low, high = problem.limits((0.0, {"u": np.arange(6.0), "v": np.ones((2, 1))}), "bounds")
    assert low.tolist() == [0.0] * 8
    assert high.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 1.0, 1.0]
    assert problem.limits((None, None), "limits")[1].tolist() == [1e20] * 6


def test_wrong_calls_say_so() -> None:
    problem = ipopt.IpoptProblem(cost, START, sums)
    with pytest.raises(fg.errors.ArgumentError, match=r"bounds has to be a pair \(lower, upper\)"):
        problem.limits(1.0, "bounds")
    with pytest.raises(fg.errors.ShapeError, match=r"limits has 4 elements; .* 6, as the constr"):
        problem.limits((np.zeros(4), None), "limits")
    with pytest.raises(fg.errors.FunctionError, match=r"interop\.ipopt: expected a function"):
        ipopt.IpoptProblem(cost, START, 3.0)  # type: ignore[arg-type]
    with pytest.raises(fg.errors.DtypeError, match="real floating-point"):
        ipopt.IpoptProblem(lambda x: x, 1)
    with pytest.raises(fg.errors.DifferentiationError, match="has to return one number"):
        ipopt.IpoptProblem(lambda x: x, np.ones(2))
    if find_spec("cyipopt") is None:
        with pytest.raises(fg.errors.MissingPackageError, match="pip install cyipopt"):
            ipopt.minimize(cost, START)


def test_another_path_with_other_nonzeros_is_refused() -> None:
    def jumps(x: Any) -> Any:
        return x[0] * x[1] if x[0] > 1 else x[0] + x[1] ** 2

    problem = ipopt.IpoptProblem(fnp.sum, np.array([2.0, 3.0]), lambda x: jumps(x).reshape(1))
    assert len(problem.hessian(np.array([2.0, 3.0]), np.ones(1), 1.0)) == 1
    with pytest.raises(fg.errors.ArgumentError, match=r"another path .* Choose with fnp\.where"):
        problem.hessian(np.array([0.5, 3.0]), np.ones(1), 1.0)


@needs_cyipopt
def test_a_published_problem() -> None:
    """Hock, Schittkowski, "Test examples for nonlinear programming codes", 1981: number 71."""

    def f(x: Any) -> Any:
        return x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2]

    found = ipopt.minimize(
        f,
        np.array([1.0, 5.0, 5.0, 1.0]),
        bounds=(1.0, 5.0),
        constraints=lambda x: {"product": fnp.prod(x), "squares": fnp.sum(x**2)},
        limits=({"product": 25.0, "squares": 40.0}, {"product": 1e20, "squares": 40.0}),
        options={"tol": 1e-9},
    )
    assert found.success
    assert found.status == 0
    assert "success" in found.message
    assert found.fun == pytest.approx(17.0140173, abs=1e-6)
    assert_allclose(np.asarray(found.x), [1.0, 4.7429994, 3.8211503, 1.3794082], atol=1e-6)
    assert found.multipliers["product"] == pytest.approx(-0.5522937, abs=1e-6)


@needs_cyipopt
def test_it_stops_where_it_is_told() -> None:
    found = ipopt.minimize(cost, START, options={"max_iter": 1})
    assert not found.success
    assert found.status == -1
    assert found.multipliers is None
