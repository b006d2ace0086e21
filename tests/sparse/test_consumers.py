"""SciPy's solvers get sparse derivatives."""

from typing import Any

import numpy as np
import scipy.integrate
import scipy.optimize
import scipy.sparse
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import sparse
from funcgrad.scipy import optimize


def chained(x: Any) -> Any:
    return fnp.concatenate([10.0 * (x[1:] - x[:-1] ** 2), 1.0 - x[:-1]])


def test_least_squares() -> None:
    start = np.full(30, -0.5)
    dense = optimize.least_squares(chained, start)
    for options in ({"tr_solver": "lsmr"}, {"jac_sparsity": sparse.pattern(chained)(start)}):
        found = optimize.least_squares(chained, start, **options)
        assert scipy.sparse.issparse(found.jac)
        assert found.jac.nnz == 2 * 29 + 29
        assert_allclose(np.asarray(found.x), np.asarray(dense.x), atol=1e-6)


def test_trust_constr() -> None:
    seen: list[Any] = []

    def fun(x: Any) -> Any:
        return fnp.sum(chained(x) ** 2)

    def ball(x: Any) -> Any:
        return x[1:] ** 2 + x[:-1] ** 2

    constraint = scipy.optimize.NonlinearConstraint(ball, -np.inf, 1.0)
    start = np.full(6, 0.3)
    plain = optimize.minimize(fun, start, method="trust-constr", constraints=constraint)
    found = optimize.minimize(
        fun,
        start,
        method="trust-constr",
        constraints=constraint,
        options={"sparse_jacobian": True},
        callback=seen.append,
    )
    assert seen
    assert all(scipy.sparse.issparse(jac) for jac in found.jac)
    assert_allclose(np.asarray(found.x), np.asarray(plain.x), atol=1e-4)


def test_stiff_equations_of_scipy() -> None:
    n = 40

    def heat(t: Any, u: Any) -> Any:
        return (fnp.roll(u, 1) - 2 * u + fnp.roll(u, -1)) * n**2 - u**3

    start = np.sin(np.arange(n) * 2 * np.pi / n)
    jacobian = sparse.jacobian(heat, argnums=1)
    f = fg.jit(heat)
    pattern = sparse.pattern(heat, argnums=1)(0.0, start)
    ends = []
    for options in ({"jac": jacobian}, {"jac_sparsity": pattern.matrix}, {}):
        for method in ("BDF", "Radau"):
            found = scipy.integrate.solve_ivp(
                lambda t, u: np.asarray(f(t, u)), (0, 1), start, method, rtol=1e-8, **options
            )
            assert found.success
            assert found.nlu > 0
            ends.append(found.y[:, -1])
    assert_allclose(ends[1:], [ends[0]] * 5, atol=1e-5)
    assert jacobian(0.0, start).nnz == pattern.nnz == 3 * n
