"""Errors of solutions; a solution that has not converged has no derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import optimize

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import (
    ArgumentError,
    BatchError,
    ConvergenceError,
    DifferentiationError,
    DtypeError,
    FunctionError,
    LeafError,
    MatrixError,
    MatrixShapeError,
    ShapeError,
    TracerError,
    TreeError,
)
from funcgrad.implicit import bicgstab, cg, dense_solve, gmres
from tests.together import together

A = np.array([[4.0, 1.0], [0.3, 5.0]])
B = np.ones(2)
SPD = A @ A.T


def _times(x: Any) -> Any:
    return A @ x


def _solve(matvec: Any = _times, b: Any = B, solve: Any = dense_solve, **options: Any) -> Any:
    return fg.custom_linear_solve(matvec, b, solve, **options)


def _root(f: Any, solution: Any = 2.0, guess: Any = 1.0) -> Any:
    return fg.custom_root(f, guess, lambda f, x: solution)


def _slope(f: Callable[[Any], Any]) -> Any:
    return fg.grad(lambda a: fnp.sum(f(a)))(2.0)


def _growing(a: Any) -> Any:
    return fg.fixed_point(lambda x: a * x + 1.0, 1.0, max_steps=50)


def _unsolved(a: Any) -> Any:
    return fg.implicit.root(lambda x, a: x**2 + a, optimize.root)(np.ones(1), a)


CASES: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "a solution of another shape": (
        lambda: _solve(solve=lambda m, b: np.ones(3)),
        ShapeError,
        r"custom_linear_solve: the solution has shape \(3,\), but has to have the shape of the"
        r" unknown, \(2,\)\. \(At test_refusals.py:\d+",
    ),
    "a solution of another structure": (
        lambda: _solve(lambda x: {"u": _times(x["u"])}, {"u": B}, lambda m, b: (b,)),
        TreeError,
        "the solution: expected a dict with keys .'u'., got a tuple of 1",
    ),
    "a solution that is no array": (
        lambda: _solve(solve=lambda m, b: "x"),
        LeafError,
        "custom_linear_solve: the solution: expected an array or a number, got 'x'",
    ),
    "a product of another shape": (
        lambda: _solve(lambda x: {"u": fnp.ones(3)}, {"u": B}),
        ShapeError,
        r"the result of matvec\['u'\] has shape \(3,\)",
    ),
    "a right side of integers": (
        lambda: _solve(b={"u": np.ones(2, int)}),
        DtypeError,
        r"custom_linear_solve: the dtype of b\['u'\] is int64, but the unknown of an equation"
        r" has to be floating-point\. Pass 1\.0 rather than 1",
    ),
    "a complex solution of a real system": (
        lambda: _solve(solve=lambda m, b: 1j * b),
        DtypeError,
        "the solution is complex, but the unknown is float64. Start with complex numbers",
    ),
    "a matrix in place of a function": (
        lambda: _solve(A),
        FunctionError,
        r"custom_linear_solve: expected a function, got an array of shape \(2, 2\)",
    ),
    "no pair": (
        lambda: _solve(has_aux=True),
        DifferentiationError,
        r"with has_aux=True the solver has to return a pair \(solution, aux\)",
    ),
    "a singular matrix": (
        lambda: _solve(lambda x: fnp.sum(x) * B),
        MatrixError,
        "dense_solve: the linear system is singular, so it has no unique solution",
    ),
    "a singular matrix in a program": (
        lambda: fg.jit(lambda a: _solve(lambda x: (a - 2.0) * x))(2.0),
        MatrixError,
        "dense_solve: the linear system is singular",
    ),
    "a double root": (
        lambda: _slope(lambda a: _root(lambda x: (x - a) ** 2)),
        MatrixError,
        "dense_solve: the linear system is singular.*not isolated",
    ),
    "a function that is not linear": (
        lambda: fg.grad(lambda b: fnp.sum(_solve(lambda x: x**3, b, lambda m, b: b)))(B),
        DifferentiationError,
        "custom_linear_solve: reverse mode solves the adjoint system, so matvec has to be linear,"
        " but the function is not linear: constant_power",
    ),
    "an affine function": (
        lambda: fg.grad(lambda b: fnp.sum(_solve(lambda x: x + 1, b, lambda m, b: b)))(B),
        DifferentiationError,
        "matvec has to be linear, but the function is not linear but affine",
    ),
    "a root that is transposed": (
        lambda: fg.linear_transpose(lambda a: _root(lambda x: x - a), 1.0),
        DifferentiationError,
        "linear_transpose: the function is not linear: custom_root is linear in a right-hand side",
    ),
    "an integer to start with": (
        lambda: _root(lambda x: x - 2, guess=1),
        DtypeError,
        "custom_root: the dtype of initial_guess is int64",
    ),
    "an equation of another shape": (
        lambda: _slope(lambda a: _root(lambda x: a * fnp.ones(3))),
        ShapeError,
        r"custom_root: the result of the function has shape \(3,\)",
    ),
    "an equation that looks at numbers and closes over traced values": (
        lambda: _slope(lambda a: _root(lambda x: x - a if x > 0 else x + a)),
        TracerError,
        "custom_root: the function branches on values, as with if or float.*closes over a traced"
        " value.*as a parameter of fg.implicit.root",
    ),
    "an equation that cannot be staged": (
        lambda: _slope(lambda a: _root(lambda x: np.asarray(x) - 2.0, B, B)),
        TracerError,
        "custom_root: a traced value is used in Python",
    ),
    "no fixed point": (
        lambda: _growing(2.0),
        ConvergenceError,
        "fixed_point: the iteration did not converge within 50 steps.*raise max_steps",
    ),
    "the derivative of no fixed point": (
        lambda: fg.grad(_growing)(2.0),
        ConvergenceError,
        "fixed_point: the iteration did not converge within 50 steps",
    ),
    "a fixed point that is no number": (
        lambda: fg.fixed_point(lambda x: x * np.nan, 1.0),
        ConvergenceError,
        "its values are no longer finite",
    ),
    "a negative tolerance": (
        lambda: fg.fixed_point(lambda x: x, 1.0, tol=-1.0),
        ArgumentError,
        "fixed_point: tol has to be a number >= 0, got -1.0",
    ),
    "a tolerance that is no number": (
        lambda: cg(SPD, B, rtol="small"),  # type: ignore[arg-type]  # what is tested
        ArgumentError,
        "cg: rtol has to be a number >= 0, got 'small'",
    ),
    "no steps": (
        lambda: fg.fixed_point(lambda x: x, 1.0, max_steps=0),
        ArgumentError,
        "fixed_point: max_steps has to be a positive integer, got 0",
    ),
    "no restart": (
        lambda: gmres(A, B, restart=0),
        ArgumentError,
        "gmres: restart has to be a positive integer, got 0",
    ),
    "a solver of SciPy that failed": (
        lambda: _unsolved(2.0),
        ConvergenceError,
        "implicit.root: the solver has not found a solution: The iteration is not making good",
    ),
    "the same in a program": (
        lambda: fg.jit(_unsolved)(2.0),
        ConvergenceError,
        "implicit.root: the solver has not found a solution",
    ),
    "a matrix that is not square": (
        lambda: cg(np.ones((2, 3)), B),
        MatrixShapeError,
        r"cg: A has to be a linear function or a square matrix, got an array of shape \(2, 3\)",
    ),
    "a preconditioner that is not square": (
        lambda: bicgstab(A, B, M=np.ones(2)),
        MatrixShapeError,
        "bicgstab: M has to be a linear function or a square matrix",
    ),
    "a start of another shape": (
        lambda: cg(SPD, B, np.ones(3)),
        ShapeError,
        r"cg: x0 has shape \(3,\)",
    ),
    "a derivative by a method that did not converge": (
        lambda: _slope(lambda a: cg(lambda x: a * (SPD @ x), B, maxiter=1)[0]),
        ConvergenceError,
        "cg: the linear system for a derivative did not converge within",
    ),
    "an empty batch whose solver returns more": (
        lambda: fg.vmap(lambda b: _solve(b=b, solve=lambda m, b: (np.asarray(b), 1), has_aux=True))(
            np.ones((0, 2))
        ),
        BatchError,
        "in an empty batch the solver, which takes examples one by one, is not called",
    ),
}


@together("case", CASES)
def test_what_is_refused_says_why(case: str) -> None:
    run, kind, message = CASES[case]
    with pytest.raises(kind, match=f"(?s){message}"):
        run()


def test_a_minimum_of_an_array_is_refused() -> None:
    solution = fg.implicit.minimize(lambda x, a: x - a, lambda g, x: x)
    with pytest.raises(
        DifferentiationError, match=r"implicit\.minimize: the function has to return"
    ):
        fg.jvp(lambda a: solution(B, a), (2.0,), (1.0,))


def test_what_has_not_converged_is_nan_where_nothing_can_be_raised() -> None:
    assert np.isnan(fg.jit(_growing)(2.0))
    assert np.isnan(fg.jit(fg.grad(_growing))(2.0))
    batch = fg.tensor([0.5, 2.0, 0.25])
    np.testing.assert_allclose(fg.vmap(_growing)(batch), [2.0, np.nan, 4.0 / 3.0])
    np.testing.assert_allclose(fg.vmap(fg.grad(_growing))(batch), [4.0, np.nan, 16.0 / 9.0])

    def by_cg(a: Any) -> Any:
        return fnp.sum(cg(lambda x: a * (SPD @ x), B, maxiter=1)[0])

    assert np.isnan(fg.jit(fg.grad(by_cg))(2.0))
    assert np.isnan(fg.vmap(fg.grad(by_cg))(batch)).all()


@pytest.mark.parametrize("method", [cg, gmres, bicgstab])
def test_info_says_whether_a_method_converged(method: Any) -> None:
    more = {"restart": 1} if method is gmres else {}
    x, info = method(SPD, B, rtol=1e-10, maxiter=50, **more)
    assert int(info) == 0
    np.testing.assert_allclose(x, np.linalg.solve(SPD, B), rtol=1e-8)
    assert int(method(SPD, B, rtol=1e-10, maxiter=1, **more)[1]) == 1
    assert int(method(np.zeros((2, 2)), B, maxiter=3, **more)[1]) > 0
    x, info = method(SPD, np.zeros(2), **more)
    assert (x.tolist(), int(info)) == ([0.0, 0.0], 0)


def test_a_function_that_looks_at_numbers_may_read_parameters() -> None:
    def f(x: Any, a: Any) -> Any:
        return x**3 - a if x > 0 else x - a

    solution = fg.implicit.root(f, lambda g, x: optimize.newton(g, x, tol=1e-14))
    np.testing.assert_allclose(fg.grad(solution, argnums=1)(1.0, 8.0), 1.0 / 12.0)
    found = fg.vmap(solution, (None, 0))(1.0, np.array([8.0, 27.0]))
    np.testing.assert_allclose(found, [2.0, 3.0])


def test_numbers_are_asked_for_before_a_library_runs() -> None:
    """A library may hide errors that are raised inside its calls."""

    def solver(g: Any, init: Any) -> Any:
        try:
            return optimize.newton(g, init, tol=1e-14)
        except TracerError:
            return init

    solution = fg.implicit.root(lambda x, a: x**2 - a, solver)
    np.testing.assert_allclose(
        fg.vmap(lambda a: solution(1.0, a))(np.array([4.0, 9.0])), [2.0, 3.0]
    )
    np.testing.assert_allclose(fg.jit(lambda a: solution(1.0, a))(4.0), 2.0)
