"""Linear algebra in native code gives what evaluation gives, errors included."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.native import symbol_table
from funcgrad._backends.native.native_backend import NATIVE
from funcgrad._backends.native.plan_steps import Elimination
from funcgrad._backends.native.planner import plan_of
from funcgrad._backends.native.processor import Processor
from funcgrad._core.primitive import Primitive
from funcgrad._primitives.identity_product import identity_product
from funcgrad.errors import MatrixError
from tests.backends.native.other_machines import OTHERS
from tests.backends.native.other_machines import machine_code_of as run
from tests.together import together

pytest.importorskip("llvmlite")

triangular = fg.scipy.linalg.solve_triangular
USES: dict[str, Callable[..., Any]] = {
    "solve": fnp.linalg.solve,
    "solve the transposed": lambda a, b: fnp.linalg.solve(fnp.swapaxes(a, -1, -2), b),
    "solve by a flipped": lambda a, b: fnp.linalg.solve(a[..., ::-1, ::-1], b[..., ::-1]),
    "lower": lambda a, b: triangular(a, b, lower=True),
    "upper": lambda a, b: triangular(a, b, lower=False),
    "lower transposed": lambda a, b: triangular(a, b, lower=True, trans="T"),
    "unit diagonal": lambda a, b: triangular(a, b, lower=True, unit_diagonal=True),
    "inverse": lambda a, b: fnp.linalg.inv(a),
    "determinant": lambda a, b: fnp.linalg.det(a),
    "logarithm": lambda a, b: tuple(fnp.linalg.slogdet(a)),
    "root": lambda a, b: fnp.linalg.cholesky(fnp.matmul(a, fnp.swapaxes(a, -1, -2))),
    "upper root": lambda a, b: fnp.linalg.cholesky(
        fnp.matmul(a, fnp.swapaxes(a, -1, -2)), upper=True
    ),
}


def assert_agrees(
    f: Callable[..., Any], *args: Any, condition: float = 1.0, machine: Processor | None = None
) -> None:
    with np.errstate(all="ignore"):
        expected = fg.program(f)(*args).evaluate(list(args))
    actual = run(f, *args, machine=machine)
    for one, other in zip(actual, expected, strict=True):
        other = np.asarray(other)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        size = np.abs(other[np.isfinite(other)]).max(initial=1.0)
        error = 200 * np.finfo(other.dtype).eps * condition
        assert_allclose(one, other, error, error * size)


SIZES = st.integers(1, 10)
STACKS = st.sampled_from([(), (1,), (3,), (2, 3)])


@given(st.sampled_from(sorted(USES)), SIZES, st.integers(1, 19), STACKS, st.booleans(), SIZES)
def test_results_are_evaluations(
    name: str, n: int, columns: int, stack: tuple[int, ...], single: bool, seed: int
) -> None:
    rng, dtype = np.random.default_rng(seed), np.float32 if single else np.float64
    a = rng.standard_normal((*stack, n, n)) / n + np.eye(n)[rng.permutation(n)] + np.eye(n)
    b = rng.standard_normal((*stack, n, columns))
    condition = float(np.max(np.linalg.cond(a))) ** 2
    assert_agrees(USES[name], a.astype(dtype), b.astype(dtype), condition=condition)


@given(st.integers(1, 8), st.floats(0, 15), SIZES)
def test_solutions_are_those_of_a_matrix_nearby(n: int, digits: float, seed: int) -> None:
    """The residual is as small as rounding, however near to singular ones the matrix is."""
    rng = np.random.default_rng(seed)
    u, v = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    a = u * np.logspace(0, -digits, n) @ v
    b = rng.standard_normal((n, 2))
    (x,) = run(fnp.linalg.solve, a, b)
    size = np.linalg.norm(a) * np.linalg.norm(x) + np.linalg.norm(b)
    assert np.linalg.norm(a @ x - b) < 20 * n * 2.0**-53 * size


def test_rows_are_exchanged() -> None:
    """Without exchanges the first element of the solution would be 0."""
    a, b = np.array([[1e-20, 1.0], [1.0, 1.0]]), np.array([[1.0], [2.0]])
    bands = np.array([[0.0, 1.0], [1e-20, 1.0], [1.0, 0.0]])
    for f, matrix in (
        (fnp.linalg.solve, a),
        (USES["solve the transposed"], a.T.copy()),
        (lambda x, y: fg.scipy.linalg.solve_banded((1, 1), x, y), bands),
    ):
        assert_allclose(run(f, matrix, b)[0], [[1.0], [1.0]], 1e-14)


@together("n", [1, 2, 5, 9])
@together("name", ["solve", "inverse", "lower", "root"])
def test_what_has_no_result_raises_as_in_evaluation(name: str, n: int) -> None:
    a = np.tile(np.eye(n), (4, 1, 1))
    a[2, -1, -1] = 0
    with pytest.raises(MatrixError, match="matrix 2 of the stack"):
        run(USES[name], a, np.ones((4, n, 1)))
    with pytest.raises(MatrixError, match=r"matrix (is|has)"):
        run(USES[name], a[2], np.ones((n, 1)))


@pytest.mark.parametrize("n", [1, 3, 9])
def test_matrices_without_a_result_leave_the_others_alone(n: int) -> None:
    def inverses(a: Any) -> Any:
        return fnp.linalg.inv(a, failed="nan")

    a = np.random.default_rng(n).standard_normal((5, n, n)) + 4 * np.eye(n)
    singular = a.copy()
    singular[3] = 0
    (every,), (others,) = run(inverses, a), run(inverses, singular)
    assert np.isnan(others[3]).all()
    np.testing.assert_array_equal(np.delete(others, 3, 0), np.delete(every, 3, 0))


@given(
    st.integers(0, 3), st.integers(0, 3), SIZES, st.integers(1, 19), STACKS, st.booleans(), SIZES
)
def test_matrices_of_few_diagonals(
    lower: int, upper: int, n: int, columns: int, stack: tuple[int, ...], single: bool, seed: int
) -> None:
    rng, dtype = np.random.default_rng(seed), np.float32 if single else np.float64
    bands = rng.standard_normal((*stack, lower + upper + 1, n)).astype(dtype)
    diagonal = rng.integers(lower + upper + 1)
    bands[..., diagonal, :] = bands[..., diagonal, :] + 6
    b = rng.standard_normal((*stack, n, columns)).astype(dtype)
    program = fg.scipy.linalg.solve_banded

    def f(bands: Any, b: Any) -> Any:
        solve = lambda x, y: program((lower, upper), x, y)  # noqa: E731
        for _ in stack:
            solve = fg.vmap(solve)
        return solve(bands, b)

    whole = np.zeros((*stack, n, n))
    for i in range(n):
        for j in range(max(i - lower, 0), min(i + upper + 1, n)):
            whole[..., i, j] = bands[..., upper + i - j, j]
    condition = float(np.max(np.linalg.cond(whole)))
    if condition < 1e4:
        assert_agrees(f, bands, b, condition=condition * n)


def test_a_singular_matrix_of_few_diagonals_raises() -> None:
    bands = np.ones((3, 4))
    bands[:, 2] = 0
    solve = fg.scipy.linalg.solve_banded
    with pytest.raises(MatrixError, match="singular"):
        run(lambda x, y: solve((1, 1), x, y), bands, np.ones((4, 1)))


@together("n", [65, 9, 40], quick=1)
@together("name", ["lower", "upper", "lower transposed", "unit diagonal"])
def test_large_triangles(name: str, n: int) -> None:
    rng = np.random.default_rng(n)
    a = rng.standard_normal((n, n)) / n + np.eye(n)
    for columns in (1, 7, 16, 75):
        assert_agrees(USES[name], a, rng.standard_normal((n, columns)), condition=100)


def test_gradients_through_roots_and_triangles_are_machine_code() -> None:
    def likelihood(a: Any, x: Any) -> Any:
        root = fnp.linalg.cholesky(a @ a.T + fnp.eye(a.shape[0]))
        x = triangular(root, x, lower=True)
        return fnp.sum(x * x) + fnp.sum(root * root[::-1])

    rng = np.random.default_rng(0)
    for n in (4, 20):
        a, x = rng.standard_normal((n, n)) / n, rng.standard_normal(n)
        gradient = fg.grad(likelihood, argnums=(0, 1))
        assert_agrees(gradient, a, x, condition=100)
        text = NATIVE.inspect(NATIVE.prepare(fg.program(gradient)(a, x), False))
        assert text.startswith("; called back: nothing")


@pytest.mark.parametrize("number", [1.0, -0.0, np.inf, np.nan])
def test_products_with_identity_matrices_are_copies(number: float) -> None:
    x = np.random.default_rng(0).standard_normal((40, 50))
    x[3, 4] = number
    for axis in (-2, -1):
        f = lambda x, axis=axis: identity_product(fnp.asarray(x), axis=axis)  # noqa: E731
        with np.errstate(all="ignore"):
            (expected,) = fg.program(f)(x).evaluate([x])
        (out,) = run(f, x)
        np.testing.assert_array_equal(out, expected)
        finite = np.isfinite(out)
        np.testing.assert_array_equal(np.signbit(out[finite]), np.signbit(expected[finite]))


SPECIAL = (0.0, -0.0, 1e-310, 1e-200, 1e200, np.inf, -np.inf, np.nan)


@pytest.mark.slow
@together("number", SPECIAL)
@together("name", sorted(USES))
def test_special_numbers(name: str, number: float) -> None:
    f = USES[name]
    for n in (1, 2, 4):
        for place in {(0, 0), (n - 1, 0), (0, n - 1)}:
            a, b = np.eye(n) * 2 + 0.5, np.ones((n, 2))
            a[place] = number
            try:
                with np.errstate(all="ignore"):
                    expected = fg.program(f)(a, b).evaluate([a, b])
            except np.linalg.LinAlgError as error:
                with pytest.raises(type(error)):
                    run(f, a, b)
                continue
            for one, other in zip(run(f, a, b), map(np.asarray, expected), strict=True):
                size = np.abs(other[np.isfinite(other)]).max(initial=0.0)
                assert_allclose(one, other, 1e-12, 1e-12 * size)


@pytest.fixture
def without_callbacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make operations fail that machine code asks NumPy's backend to evaluate."""

    def refuse(operation: Primitive, *args: object) -> None:
        raise AssertionError(f"{operation.name} is called back")

    monkeypatch.setattr(symbol_table, "bind", refuse)


@pytest.mark.usefixtures("without_callbacks")
@together("name", ["solve", "lower", "solve the transposed", "upper", "unit diagonal"], quick=2)
def test_right_hand_sides_that_are_not_finite_stay_in_machine_code(name: str) -> None:
    """NaN and infinities are where evaluation has them, and other columns are finite."""
    for n, dtype in ((1, "f8"), (2, "f4"), (3, "f8"), (8, "f4"), (11, "f8"), (24, "f8")):
        rng = np.random.default_rng(n)
        a = (rng.standard_normal((2, n, n)) + 2 * np.eye(n)).astype(dtype)
        compiled = fg.jit(USES[name], backend="native")
        for place, number in product({0, n // 2, n - 1}, (np.nan, np.inf, -np.inf)):
            b = rng.standard_normal((2, n, 3)).astype(dtype)
            b[1, place, 1] = number
            with np.errstate(all="ignore"):
                (expected,) = fg.program(USES[name])(a, b).evaluate([a, b])
                out = np.asarray(compiled(a, b))
            for holds in (np.isnan, np.isposinf, np.isneginf):
                np.testing.assert_array_equal(holds(out), holds(expected))
            assert not np.isfinite(out[1, -1, 1])
            assert_allclose(out[0], expected[0], 1e-3 if dtype == "f4" else 1e-10)


FAILED: dict[str, Callable[..., Any]] = {
    "solve": lambda a, b: fnp.linalg.solve(a, b, failed="nan"),
    "inverse": lambda a, b: fnp.linalg.inv(a, failed="nan"),
    "lower": lambda a, b: triangular(a, b, lower=True, failed="nan"),
    "upper": lambda a, b: triangular(a, b, failed="nan"),
    "root": lambda a, b: fnp.linalg.cholesky(a, failed="nan"),
    "upper root": lambda a, b: fnp.linalg.cholesky(a, upper=True, failed="nan"),
    "determinant": lambda a, b: fnp.linalg.det(a),
    "logarithm": lambda a, b: tuple(fnp.linalg.slogdet(a)),
}


@pytest.mark.usefixtures("without_callbacks")
@together("name", sorted(FAILED))
def test_matrices_without_a_result_stay_in_machine_code(name: str) -> None:
    """Their results are NaN, and the others have the same bits as without them."""
    for n, dtype in ((1, "f8"), (3, "f4"), (8, "f8"), (9, "f8"), (24, "f8")):
        if n > 8 and name in ("determinant", "logarithm"):
            continue
        a = np.random.default_rng(n).standard_normal((4, n, n)) / n
        a = (a @ a.swapaxes(-1, -2) + np.eye(n)).astype(dtype)
        b, sound = np.ones((4, n, 2), dtype), a.copy()
        a[1, -1], a[1, :, -1], a[2, -1, -1] = 0, 0, np.nan
        with np.errstate(all="ignore"):
            expected = fg.program(FAILED[name])(a, b).evaluate([a, b])
        for one, whole, other in zip(
            run(FAILED[name], a, b), run(FAILED[name], sound, b), expected, strict=True
        ):
            np.testing.assert_array_equal(np.isnan(one), np.isnan(other))
            np.testing.assert_array_equal(one[[0, 3]], whole[[0, 3]])
            tolerance = 1e-4 if dtype == "f4" else 1e-10
            assert_allclose(one, other, tolerance, tolerance)


def test_values_for_which_an_operation_is_called_back_are_named() -> None:
    solve = fg.jit(lambda a, b: triangular(a, b, lower=True), backend="native")
    a, b = np.tri(30) + np.eye(30), np.ones(30)
    b[27] = np.nan
    text = solve.lower(a, b).source.splitlines()[1]
    assert text == "; called back at times: triangular_solve: a result that is not finite"
    np.testing.assert_array_equal(np.isnan(solve(a, b)), np.isnan(triangular(a, b, lower=True)))
    for few in (a[:24, :24], a[:3, :3]):
        lines = solve.lower(few, b[: len(few)]).source.splitlines()
        assert lines[0] == "; called back: nothing"
        assert not lines[1].startswith("; called back")


@pytest.mark.parametrize("shape", [(0, 0), (0, 3, 3), (2, 0, 0)])
def test_nothing_at_all(shape: tuple[int, ...]) -> None:
    for f in USES.values():
        assert_agrees(f, np.zeros(shape), np.zeros((*shape[:-1], 2)))


def test_stacks_broadcast() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 1, 3, 3)) + 3 * np.eye(3), rng.standard_normal((4, 3, 2))
    assert_agrees(fnp.linalg.solve, a, b, condition=10)
    assert_agrees(fnp.linalg.solve, a[0, 0], b, condition=10)
    assert_agrees(fg.vmap(fnp.linalg.solve, in_axes=(None, 0)), a[0, 0], b, condition=10)


def test_complex_and_whole_numbers_are_evaluated() -> None:
    a = np.array([[2, 1], [1, 3]])
    for x in (a, a + 1j, a.astype(np.complex64)):
        assert_agrees(lambda x: (fnp.linalg.inv(x), fnp.linalg.det(x)), x)


def test_determinants_of_any_size() -> None:
    sizes = ([1e-200, 1e-200, 1e200, 1e200], [1e300, 1e300, 1.0], [1e-300] * 3, [-1e-160] * 2)
    for numbers in sizes:
        a = np.diag(numbers)[::-1].copy()
        assert_agrees(lambda a: (fnp.linalg.det(a), *fnp.linalg.slogdet(a)), a)


def test_one_matrix_is_eliminated_once() -> None:
    def f(a: Any, b: Any) -> Any:
        _, logarithm = fnp.linalg.slogdet(a)
        return fnp.linalg.solve(a, b), logarithm, fnp.linalg.inv(a), fnp.linalg.solve(a.T, b)

    a, b = np.eye(3) + 0.1 * np.arange(9.0).reshape(3, 3), np.ones((3, 2))
    program = NATIVE.prepare(fg.program(f)(a, b), False)
    steps = plan_of(program).steps
    assert len([step for step in steps if isinstance(step, Elimination)]) == 1
    assert_agrees(f, a, b)


def test_gradients_of_a_likelihood() -> None:
    def likelihood(a: Any, x: Any) -> Any:
        covariance = a @ a.T + fnp.eye(4)
        _, logarithm = fnp.linalg.slogdet(covariance)
        return x @ fnp.linalg.solve(covariance, x) + logarithm

    rng = np.random.default_rng(0)
    a, x = rng.standard_normal((4, 4)), rng.standard_normal(4)
    assert_agrees(fg.grad(likelihood, argnums=(0, 1)), a, x, condition=30)
    assert_agrees(
        fg.vmap(fg.grad(likelihood)), np.stack([a, 2 * a]), np.stack([x, x]), condition=90
    )


@pytest.mark.slow
@pytest.mark.parametrize("machine", OTHERS, ids=lambda machine: machine.cpu)
def test_other_processors(machine: Processor) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 6, 6)) + 4 * np.eye(6), rng.standard_normal((2, 6, 5))
    for f in USES.values():
        for dtype in (np.float32, np.float64):
            assert_agrees(f, a.astype(dtype), b.astype(dtype), condition=100, machine=machine)
