"""Trees, complex numbers, the values that solvers read and return, and equations with closures."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import optimize

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, ConvergenceError
from funcgrad.implicit import bicgstab, cg, dense_solve, gmres
from tests.implicit.subjects import MATRIX, SOLUTIONS, X, linear, newton, numpy_solve, richardson

close = np.testing.assert_allclose


def _tree_solution(p: Any) -> Any:
    def matvec(x: Any) -> Any:
        inner = x["v"] * p["c"] + x["u"][0]
        return {"u": p["a"] * x["u"] + fnp.sum(x["v"]), "v": inner}

    return fg.custom_linear_solve(matvec, {"u": p["b"], "v": fnp.ones((2, 2))}, dense_solve)


def _tree_closed_form(p: Any) -> Any:
    units = fnp.eye(7)
    sums, corner = fnp.sum(units[3:], axis=0), units[0]
    rows = [p["a"] * units[k] + sums for k in range(3)]
    rows += [p["c"] * units[k] + corner for k in range(3, 7)]
    x = fnp.linalg.solve(fnp.stack(rows), fnp.concatenate([p["b"], fnp.ones(4)]))
    return {"u": x[:3], "v": x[3:].reshape(2, 2)}


def test_unknowns_and_parameters_are_trees() -> None:
    p = {"a": 3.0, "b": fg.tensor([1.0, 2.0, 3.0]), "c": 5.0}
    staged: Any = lambda f: fg.jit(fg.jacrev(f))  # noqa: E731 - as those of funcgrad
    for derive in (fg.jacrev, fg.jacfwd, staged):
        found, wanted = (derive(f)(p) for f in (_tree_solution, _tree_closed_form))
        assert fg.tree.structure(found) == fg.tree.structure(wanted)
        fg.tree.map(lambda a, b: close(a, b, atol=1e-14), found, wanted)


COMPLEX = np.array([[2.0 + 1.0j, 0.5], [1.0j, 3.0]])
HERMITIAN = COMPLEX @ COMPLEX.conj().T
RIGHT = np.array([1.0, 1.0j])


@pytest.mark.parametrize(
    ("solve", "made"),
    [
        (dense_solve, lambda z: COMPLEX * z),
        (lambda matvec, b: gmres(matvec, b, rtol=1e-13)[0], lambda z: COMPLEX * z),
        (lambda matvec, b: bicgstab(matvec, b, rtol=1e-13)[0], lambda z: COMPLEX * z),
        (lambda matvec, b: cg(matvec, b, rtol=1e-13)[0], lambda z: HERMITIAN * abs(z)),
    ],
    ids=["dense", "gmres", "bicgstab", "cg"],
)
def test_complex_systems_are_solved_and_their_adjoints(solve: Any, made: Any) -> None:
    def number(x: Any) -> Any:
        return fnp.sum(abs(x) ** 2) + fnp.sum(x).imag

    def solution(z: Any, b: Any) -> Any:
        return number(fg.custom_linear_solve(lambda v: made(z) @ v, b, solve))

    def closed_form(z: Any, b: Any) -> Any:
        return number(fnp.linalg.solve(made(z), b))

    for derive in (fg.grad, lambda f, k: fg.jit(fg.grad(f, k))):
        found, wanted = (derive(f, (0, 1))(1.5 + 0.5j, RIGHT) for f in (solution, closed_form))
        for a, b in zip(found, wanted, strict=True):
            close(a, b, atol=1e-10)


def test_a_complex_equation_that_is_not_holomorphic() -> None:
    """conj(z) z z = a (1 + i) at z = (1 + i) (a / 2)^(1/3)."""

    def root(a: Any) -> Any:
        def repeated(f: Any, z: Any) -> Any:
            return fg.fori_loop(0, 80, lambda _, z: z - 0.1 * f(z), z)

        return fg.custom_root(lambda z: z * fnp.conj(z) * z - a * (1 + 1j), 1 + 1j, repeated)

    close(root(4.0), (1 + 1j) * 2 ** (1 / 3))
    close(fg.jvp(root, (4.0,), (1.0,))[1], (1 + 1j) * 2 ** (1 / 3) / 12.0)
    close(fg.grad(lambda a: root(a).imag)(4.0), 2 ** (1 / 3) / 12.0)


def test_dtypes_stay() -> None:
    single = MATRIX.astype("float32")
    for solve in (cg, gmres, bicgstab):
        x, info = solve(lambda v: single @ single.T @ v, fnp.ones(3, "float32"))
        assert (x.dtype, int(info)) == ("float32", 0)
    assert fg.fixed_point(fnp.cos, np.float32(1.0)).dtype == "float32"
    assert fg.grad(lambda a: fg.fixed_point(lambda x: a * x / 2 + 1, 1.0))(np.float32(1)).dtype == (
        "float32"
    )


# ------------------------------------------------------------ what solvers read, and what is beside


def _preconditioned(s: Any) -> Any:
    """The solver closes over the parameter; no derivative flows through that."""

    def solve(matvec: Any, b: Any) -> Any:
        def step(_: Any, x: Any) -> Any:
            return x + (b - matvec(x)) / (5.0 * s)

        return fg.fori_loop(0, 40, step, s * b)

    return fg.custom_linear_solve(lambda x: s * (MATRIX @ x), fnp.ones(3), solve)


@pytest.mark.parametrize("derive", [fg.jacrev, fg.jacfwd])
def test_what_a_solver_closes_over_has_no_derivative(derive: Any) -> None:
    x = np.linalg.solve(MATRIX, np.ones(3))
    first = derive(_preconditioned)
    close(first(2.0), -x / 4.0, rtol=1e-9)
    close(fg.jit(first)(2.0), -x / 4.0, rtol=1e-9)
    close(derive(first)(2.0), x / 4.0, rtol=1e-9)
    close(fg.vmap(first)(fg.tensor([2.0, 4.0])), [-x / 4.0, -x / 16.0], rtol=1e-9)


def test_a_solution_whose_solver_alone_reads_a_value_has_no_derivative_in_it() -> None:
    """The solver's small error depends on the value that it reads; no derivative may show that."""

    def solution(s: Any) -> Any:
        return fg.custom_linear_solve(
            lambda x: 2.0 * x, fg.tensor(4.0), lambda matvec, b: b / matvec(1.0) + 1e-9 * s
        )

    for derive in (fg.grad, fg.jacfwd, lambda f: fg.jit(fg.grad(f))):
        assert derive(solution)(3.0) == 0.0
    close(fg.vmap(solution)(fg.tensor([3.0, 5.0])), [2.0, 2.0], rtol=1e-8)


def test_where_to_start_has_no_derivative() -> None:
    def root(a: Any) -> Any:
        return fg.custom_root(lambda x: x**3 - 8.0, a, newton)

    assert fg.value_and_grad(root)(1.5) == (2.0, 0.0)
    assert fg.jit(fg.grad(root))(1.5) == 0.0


def test_what_is_beside_a_solution_has_no_derivative_not_one_of_zero() -> None:
    """The derivative of the square root is infinite at zero, and would turn a zero into NaN."""

    def number(s: Any) -> Any:
        x, aux = fg.custom_linear_solve(
            lambda x: s * x, fnp.ones(()), lambda m, b: (b / m(1.0), b - b), has_aux=True
        )
        return x + fnp.sqrt(aux)

    for derive in (fg.grad, fg.jacfwd, fg.jacrev, lambda f: fg.jit(fg.grad(f))):
        close(derive(number)(2.0), -0.25)


def test_what_is_beside_a_solution_is_handed_through() -> None:
    def solve(matvec: Any, b: Any) -> Any:
        return dense_solve(matvec, b), {"steps": fnp.asarray(3), "sum": fnp.sum(b)}

    def solution(s: Any) -> Any:
        return fg.custom_linear_solve(lambda x: s * x, s * fnp.ones(2), solve, has_aux=True)

    def number(s: Any) -> Any:
        x, aux = solution(s**2)
        return fnp.sum(x * s), aux

    for derive in (fg.grad, lambda f, has_aux: fg.jit(fg.grad(f, has_aux=has_aux))):
        slope, aux = derive(number, has_aux=True)(2.0)
        assert (float(slope), int(aux["steps"]), float(aux["sum"])) == (2.0, 3, 8.0)
    (_, aux), (_, tangent) = fg.jvp(solution, (2.0,), (1.0,))
    assert (float(aux["sum"]), float(tangent["sum"])) == (4.0, 0.0)
    x, aux = fg.vmap(solution)(fg.tensor([1.0, 2.0]))
    assert x.shape == (2, 2)
    close(aux["sum"], [2.0, 4.0])
    transposed = fg.linear_transpose(
        lambda b: fg.custom_linear_solve(lambda x: 2.0 * x, b, solve, has_aux=True)[0], np.ones(2)
    )
    close(transposed(np.ones(2))[0], [0.5, 0.5])
    root = fg.vmap(
        lambda a: fg.custom_root(
            lambda x: x - a, 1.0, lambda f, x: (float(x - f(x)), 7), has_aux=True
        )
    )
    assert [part.tolist() for part in root(fg.tensor([1.0, 2.0]))] == [[1.0, 2.0], [7, 7]]


# ------------------------------------------------------------------------------------------ levels


def test_an_equation_closes_over_values_of_several_transformations() -> None:
    scale = fg.tensor([1.0, 2.0])

    def root(a: Any, b: Any, c: Any) -> Any:
        return fg.custom_root(lambda x: x**3 - a * b * c * scale, fnp.ones(2), newton)

    def nested(f: Any) -> Any:
        def slope(a: Any, b: Any) -> Any:
            return fg.grad(lambda c: fnp.sum(f(a, b, c)))(b)

        return lambda a: fnp.sum(fg.vmap(slope)(a, a + 1.0))

    closed_form = nested(lambda a, b, c: fnp.cbrt(a * b * c * scale))
    for derive in (fg.grad, lambda f: fg.jit(fg.grad(f)), fg.hessian):
        close(derive(nested(root))(X), derive(closed_form)(X), atol=1e-12)


def test_solutions_of_solutions() -> None:
    """y solves y² = x, where x solves x³ = p: y = p^(1/6)."""

    def inner(p: Any) -> Any:
        return fg.custom_root(lambda x: x**3 - p, 1.5, newton)

    def outer(p: Any) -> Any:
        return fg.custom_root(lambda y: y**2 - inner(p) * y**0, 1.5, newton)

    for derive in (fg.grad, fg.hessian, lambda f: fg.jit(fg.hessian(f))):
        close(derive(outer)(3.0), derive(lambda p: p ** (1 / 6))(3.0), rtol=1e-10)


def test_the_transpose_of_a_solution_is_one() -> None:
    solution = linear(dense_solve)
    b = fg.tensor([1.0, -2.0, 0.5])

    def of_right_side(b: Any) -> Any:
        return fg.custom_linear_solve(lambda x: MATRIX @ x, b, richardson)

    (found,) = fg.linear_transpose(of_right_side, X)(b)
    close(found, np.linalg.solve(np.asarray(MATRIX).T, b), rtol=1e-10)
    (again,) = fg.linear_transpose(lambda b: fg.linear_transpose(of_right_side, X)(b)[0], X)(b)
    close(again, np.linalg.solve(MATRIX, b), rtol=1e-10)
    assert solution(X).shape == (3,)


def test_a_right_side_that_a_batch_shares_gets_the_sum() -> None:
    scales, cts = fg.tensor([1.0, 2.0, 4.0]), fnp.ones((3, 2))

    def solutions(b: Any) -> Any:
        return fg.vmap(lambda s: fg.custom_linear_solve(lambda x: s * x, b, dense_solve))(scales)

    close(fg.linear_transpose(solutions, np.ones(2))(cts)[0], [1.75, 1.75])
    close(fg.linearize(solutions, np.ones(2))[1](np.ones(2))[:, 0], [1.0, 0.5, 0.25])
    close(fg.grad(lambda b: fnp.sum(solutions(b)))(np.ones(2)), [1.75, 1.75])


def test_what_is_called_symmetric_is_taken_for_it() -> None:
    def solution(b: Any) -> Any:
        return fnp.sum(fg.custom_linear_solve(lambda x: MATRIX @ x, b, dense_solve, symmetric=True))

    close(fg.grad(solution)(X), np.linalg.solve(MATRIX, np.ones(3)))


def test_the_adjoint_has_the_adjoint_of_the_preconditioner() -> None:
    """With the inverse matrix as preconditioner one step is enough; more are not allowed."""

    def solution(b: Any) -> Any:
        inverse = np.linalg.inv(MATRIX)
        return gmres(lambda x: MATRIX @ x, b, rtol=1e-10, restart=1, maxiter=1, M=inverse)[0]

    close(fg.jacrev(solution)(X), np.linalg.inv(MATRIX))


def test_the_solver_of_the_adjoint_is_the_one_that_was_given() -> None:
    called: list[str] = []

    def solve(matvec: Any, b: Any) -> Any:
        called.append("solve")
        return dense_solve(matvec, b)

    def transpose_solve(vecmat: Any, b: Any) -> Any:
        called.append("transpose")
        return dense_solve(vecmat, b)

    fg.grad(lambda x: fnp.sum(linear(solve, transpose_solve=transpose_solve)(x)))(X)
    assert called == ["solve", "transpose"]
    called.clear()
    fg.jvp(linear(solve, transpose_solve=transpose_solve), (X,), (X,))
    assert called == ["solve", "solve"]


def test_the_derivative_does_not_run_the_solver_of_a_root() -> None:
    calls: list[float] = []

    def solver(g: Any, init: Any) -> Any:
        calls.append(init)
        return optimize.brentq(g, 0.0, 5.0, xtol=1e-14)

    solution = fg.implicit.root(lambda x, a: x**3 - a, solver)
    _, pullback = fg.vjp(lambda a: solution(1.0, a), 8.0)
    for _ in range(3):
        close(pullback(1.0)[0], 1.0 / 12.0)
    assert calls == [1.0]


def test_derivatives_are_those_of_the_iteration_itself() -> None:
    """The iteration runs enough steps, all recorded; first and second derivatives agree."""

    def heron(x: Any, a: Any) -> Any:
        return 0.5 * (x + fnp.sin(a) / x + 0.1 * fnp.cos(x * a[::-1]))

    def unrolled(a: Any) -> Any:
        x = fnp.ones(3)
        for _ in range(60):
            x = heron(x, a)
        return fnp.sum(x**2)

    def implicit(a: Any) -> Any:
        return fnp.sum(fg.fixed_point(heron, fnp.ones(3), a) ** 2)

    for derive in (fg.grad, fg.hessian, lambda f: fg.jit(fg.hessian(f))):
        close(derive(implicit)(X), derive(unrolled)(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["cg", "custom_root", "fixed_point"])
def test_a_pullback_is_freed_without_the_garbage_collector(kind: str) -> None:
    solution, _ = SOLUTIONS[kind]
    fg.hessian(lambda x: fnp.sum(solution(x)))(X)  # what is loaded at first
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        _, pullback = fg.vjp(solution, X)
        pullback(X)
        del pullback
        fg.hessian(lambda x: fnp.sum(solution(x)))(X)
        assert gc.collect() == 0
    finally:
        if enabled:
            gc.enable()


def test_an_empty_batch_and_no_unknown() -> None:
    assert fg.vmap(linear(numpy_solve))(fnp.zeros((0, 3))).shape == (0, 3)
    assert fg.fixed_point(lambda x: x, {}) == {}
    assert fg.grad(lambda a: fnp.sum(fg.fixed_point(lambda x: x / 2 + a, fnp.zeros(0))))(1.0) == 0.0
    assert cg(lambda x: x, {})[0] == {}


def test_eight_threads_at_once() -> None:
    solution = linear(richardson)
    grad = fg.jit(fg.grad(lambda x: fnp.sum(solution(x))))
    points = [X * (1.0 + k / 10.0) for k in range(8)]
    wanted = [fg.grad(lambda x: fnp.sum(solution(x)))(point) for point in points]
    with ThreadPoolExecutor(8) as pool:
        for found, own in zip(pool.map(grad, points), wanted, strict=True):
            close(found, own, rtol=1e-10)


# --------------------------------------------------------------------------- failures of solvers

PAIRS: dict[str, Any] = {
    "cg": fg.implicit.cg,
    "cg to the last digit": lambda g, y: fg.implicit.cg(g, y, rtol=1e-13),
    "a pair of any Python": lambda g, y: (dense_solve(g, y), 0),
}
SPD = np.array([[4.0, 1.0], [1.0, 3.0]])


def _curved(a: Any, solve: Any) -> Any:
    def newton(f: Any, x: Any) -> Any:
        return fg.fori_loop(0, 20, lambda _, x: x - fnp.linalg.solve(fg.jacfwd(f)(x), f(x)), x)

    return fg.custom_root(lambda x: SPD @ x * a + x**3 - 1.0, np.zeros(2), newton, solve).sum()


@pytest.mark.parametrize("name", PAIRS)
def test_a_tangent_solver_may_return_a_pair(name: str) -> None:
    slope, expected = (fg.grad(lambda a, s=s: _curved(a, s)) for s in (PAIRS[name], dense_solve))
    for derived in (lambda f: f, fg.jit, fg.grad):
        close(derived(slope)(1.5), derived(expected)(1.5), rtol=1e-5)
    points = np.array([1.5, 2.0])
    close(fg.vmap(slope)(points), fg.vmap(expected)(points), rtol=1e-5)
    pair = fg.custom_linear_solve(lambda x: SPD @ x, np.ones(2), PAIRS[name])
    close(pair, np.linalg.solve(SPD, np.ones(2)), rtol=1e-5)


def test_a_pair_whose_info_is_not_zero_is_no_solution() -> None:
    slope = fg.grad(lambda a: _curved(a, lambda g, y: fg.implicit.cg(g, y, rtol=1e-13, maxiter=1)))
    with pytest.raises(ConvergenceError, match="custom_root: the linear solver did not converge"):
        slope(1.5)
    assert np.isnan(fg.jit(slope)(1.5))
    assert np.isnan(fg.vmap(slope)(np.array([1.5]))).all()


def test_a_fixed_point_that_is_not_reached_is_nan_in_every_mode_if_asked() -> None:
    def growing(a: Any) -> Any:
        return fg.fixed_point(lambda x: a * x + 1.0, 1.0, max_steps=50, failed="nan")

    points = np.array([2.0, 0.1])
    for f in (growing, fg.grad(growing), fg.grad(fg.grad(growing))):
        assert np.isnan(f(2.0))
        assert np.isnan(fg.jit(f)(2.0))
        assert np.isfinite(f(0.1))
        for batched in (fg.vmap(f), fg.jit(fg.vmap(f))):
            close(batched(points), [np.nan, f(0.1)], rtol=1e-12)
    assert np.isnan(dense_solve(lambda x: 0.0 * x, 1.0, failed="nan"))
    for call in (
        lambda: fg.fixed_point(lambda x: x / 2, 1.0, failed="ignore"),
        lambda: dense_solve(lambda x: x, 1.0, failed="ignore"),
    ):
        with pytest.raises(ArgumentError, match="failed is 'raise', for an error"):
            call()


@pytest.mark.parametrize("mode", [lambda f: f, fg.jit])
def test_what_a_solver_closes_over_counts_once(mode):
    def root(a):
        def solve(f, start):
            return fnp.sqrt(a)  # it knows the answer

        return fg.custom_root(lambda x: x * x - a, 1.0, solve, lambda g, y: y / g(1.0))

    slope, curvature = 0.5 / 2.0**0.5, -0.25 / 2.0**1.5
    assert np.allclose(mode(fg.grad(root))(2.0), slope)
    assert np.allclose(mode(lambda a: fg.jvp(root, (a,), (1.0,))[1])(2.0), slope)
    assert np.allclose(mode(fg.vmap(fg.grad(root)))(np.array([2.0, 2.0])), slope)
    assert np.allclose(mode(fg.grad(fg.grad(root)))(2.0), curvature)


def test_a_staged_branch_may_solve_a_system_whose_matrix_has_a_rule():
    """The rule may be nonlinear, so the branch has the values that the matrix closes over."""
    sine = fg.custom_vjp(fnp.sin)
    sine.defvjp(lambda x: (sine(x), x), lambda x, ct: (ct * fnp.cos(x),))

    def quotient(x):
        return fg.custom_linear_solve(lambda v: v * (2.0 + sine(x)), x, lambda f, b: b / f(1.0))

    def chosen(x):
        return fg.cond(x > 100.0, lambda y: y, lambda y: y + quotient(x), x)

    def fixed(x):
        return fg.fixed_point(lambda y, x: 0.2 * chosen(y) + x, x, x)

    points = np.array([0.4, 0.9])
    for f in (chosen, fixed):
        expected = [fg.jvp(f, (x,), (1.0,))[1] for x in points]
        assert np.allclose([fg.grad(f)(x) for x in points], expected, rtol=1e-7)
        assert np.allclose([fg.jit(fg.grad(f))(x) for x in points], expected, rtol=1e-7)
        assert np.allclose(fg.jit(fg.vmap(fg.grad(f)))(points), expected, rtol=1e-7)


class Point(NamedTuple):
    x: Any
    y: Any


def test_a_solution_may_have_the_fields_of_a_record_of_scipys() -> None:
    def equations(u: Any, a: Any) -> Point:
        return Point(u.x - a, u.y - 2 * a)

    def solver(g: Any, u: Any) -> Point:
        return Point(np.float64(3.0), np.float64(6.0))

    found = fg.implicit.root(equations, solver)
    assert found(Point(1.0, 1.0), 3.0) == Point(3.0, 6.0)
