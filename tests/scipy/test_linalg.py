"""Functions of scipy.linalg have its values, and exact derivatives at difficult spectra."""

import sys
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import (
    ArgumentError,
    MatrixError,
    MatrixShapeError,
    MissingPackageError,
    ShapeError,
)
from funcgrad.scipy import linalg
from tests.every_mode import assert_every_mode
from tests.together import together

RNG = np.random.default_rng(7)
X = RNG.standard_normal((3, 3)) * 0.5 + 2 * np.eye(3)
POSITIVE = X @ X.T
E = RNG.standard_normal((3, 3))
JORDAN = np.array([[2.0, 1.0, 0.0], [0.0, 2.0, 1.0], [0.0, 0.0, 2.0]])
FUNCTIONS = ["expm", "logm", "sqrtm"]


@together("dtype", "fdFDl")
@together("name", FUNCTIONS)
def test_functions_have_scipys_values(name: str, dtype: str) -> None:
    x = (X * 4).astype(dtype)
    found = getattr(linalg, name)(x)
    expected = getattr(scipy.linalg, name)(x.astype("D" if dtype in "FD" else "d"))
    assert_allclose(found, expected, rtol=1e-4 if dtype in "fF" else 1e-10)
    assert found.dtype == np.dtype("d" if dtype == "l" else dtype)


def exact(name: str, x: Any, e: Any) -> Any:
    """The derivative in a direction, of 60 digits."""
    with mpmath.workdps(60):
        step = mpmath.mpf(10) ** -20
        f = getattr(mpmath, name)
        parts = [
            f(mpmath.matrix(x.tolist()) + s * mpmath.matrix(e.tolist())) for s in (step, -step)
        ]
        return np.array(((parts[0] - parts[1]) / (2 * step)).tolist(), complex).real


@together("x", [X, POSITIVE, 2 * np.eye(3), JORDAN, np.diag([1.0, 1 + 1e-9, 3.0])], ids=str)
@together("name", FUNCTIONS)
def test_first_derivatives_agree_with_many_digits(name: str, x: Any) -> None:
    f: Any = getattr(linalg, name)
    expected = exact(name, x, E)
    assert_allclose(fg.jvp(f, (x,), (E,))[1], expected, rtol=1e-9, atol=1e-10)
    (g,) = fg.vjp(f, x)[1](E.T)
    assert_allclose(np.sum(np.asarray(g) * E), np.sum(E.T * expected), rtol=1e-9)


@together("x", [JORDAN, np.eye(3)], ids=str)
@together("name", FUNCTIONS)
def test_every_mode(name: str, x: Any) -> None:
    assert_every_mode(getattr(linalg, name), x)


def test_the_third_derivative_of_an_exponential() -> None:
    def along(t: Any) -> Any:
        return linalg.expm(X * 0 + E * t)[0, 1]

    for _ in range(3):
        along = fg.grad(along)
    expected = (E @ E @ E @ scipy.linalg.expm(0.3 * E))[0, 1]
    assert_allclose(along(0.3), expected, rtol=1e-8)


REAL_OR_COMPLEX: dict[str, Callable[..., Any]] = {
    "logm": linalg.logm,
    "sqrtm": linalg.sqrtm,
    "fractional_matrix_power": lambda x, **options: linalg.fractional_matrix_power(
        x, 0.5, **options
    ),
}


@pytest.mark.parametrize("name", REAL_OR_COMPLEX)
def test_functions_of_matrices_have_the_dtype_of_the_matrix_in_every_mode(name: str) -> None:
    f, negative = REAL_OR_COMPLEX[name], np.array([[-1.0, 0.0], [0.0, -4.0]])
    modes: list[Any] = [
        f,
        lambda x, **o: fg.jit(lambda x: f(x, **o))(x),
        lambda x, **o: fg.vmap(lambda x: f(x, **o))(x[None])[0],
    ]
    modes.append(lambda x, **o: fg.scan(lambda c, x: (c, f(x, **o)), 0.0, x[None])[1][0])
    with np.errstate(all="ignore"):
        expected = {"logm": scipy.linalg.logm}.get(name, scipy.linalg.sqrtm)(negative + 0j)
    for mode in modes:
        assert mode(-negative).dtype == float
        assert mode(-negative.astype(np.float32)).dtype == np.float32
        for x in (-negative, negative):
            assert mode(x + 0j).dtype == complex
        with pytest.raises(MatrixError, match=r"negative eigenvalue.*dtype=complex"):
            mode(negative)
        assert np.isnan(mode(negative, failed="nan")).all()
    for mode in (f, modes[2], modes[3]):
        assert_allclose(mode(negative, dtype=complex), expected, atol=1e-12)
        assert mode(-negative, dtype=complex).dtype == complex
    fg.testing.check_grads(f, (X,), order=2)
    fg.testing.check_grads(f, (X + 1j * E,), order=1)
    slope = fg.grad(lambda x: f(x).sum())
    assert_allclose(fg.vmap(slope)(X[None])[0], slope(X), rtol=1e-10)
    real = fg.grad(lambda x: f(x, dtype=complex).real.sum())
    assert_allclose(real(X), slope(X), rtol=1e-9)


@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")
def test_real_roots_that_take_complex_numbers_on_the_way() -> None:
    """Pairs of complex eigenvalues, and eigenvalues that are zero but for rounding."""
    turn = np.array([[0.0, 2.0], [-2.0, 0.0]])
    for f, back in ((linalg.logm, linalg.expm), (linalg.sqrtm, lambda x: x @ x)):
        assert f(turn).dtype == float
        assert_allclose(back(f(turn)), turn, atol=1e-12)
        fg.testing.check_grads(f, (turn,), order=2)
    near = np.array([[1.0, 1e-9], [-1e-9, 1.0]])
    assert_allclose(linalg.logm(near), [[0, 1e-9], [-1e-9, 0]], atol=1e-15)
    for seed in range(20):
        tall = np.random.default_rng(seed).standard_normal((6, 2))
        root = linalg.sqrtm(tall @ tall.T)  # of rank 2
        assert root.dtype == float
        assert_allclose(root @ root, tall @ tall.T, atol=1e-6)


# ----------------------------------------------------------------------- triangular systems


@together("trans", [0, 1, 2, "N", "T", "C"])
@together("lower", [True, False])
@together("unit_diagonal", [True, False])
def test_triangular_systems(trans: Any, lower: bool, unit_diagonal: bool) -> None:
    options = {"trans": trans, "lower": lower, "unit_diagonal": unit_diagonal}
    for a, b in ((X, E[0]), (X, E), (X + 1j * E, E)):
        found = linalg.solve_triangular(a, b, **options)
        assert_allclose(found, scipy.linalg.solve_triangular(a, b, **options), rtol=1e-10)
    fg.testing.check_grads(lambda a, b: linalg.solve_triangular(a, b, **options), (X, E), order=2)


@pytest.mark.slow
@given(st.integers(1, 60), st.integers(0, 2**31))
@settings(max_examples=15, deadline=None)
def test_large_triangular_systems_that_are_nearly_singular(n: int, seed: int) -> None:
    """For a smooth covariance the error is a small multiple of a substitution's."""
    points = np.sort(np.random.default_rng(seed).uniform(0, 1, n))
    kernel = np.exp(-((points[:, None] - points) ** 2) / 0.02) + 1e-10 * np.eye(n)
    factor = np.linalg.cholesky(kernel)
    b = np.sin(9 * points)
    with mpmath.workdps(60):
        exactly = mpmath.lu_solve(mpmath.matrix(factor.tolist()), mpmath.matrix(b.tolist()))
        expected = np.array(exactly.tolist(), float)[:, 0]
    usual = np.max(np.abs(scipy.linalg.solve_triangular(factor, b, lower=True) - expected))
    found = np.max(np.abs(np.asarray(linalg.solve_triangular(factor, b, lower=True)) - expected))
    assert found <= 20 * usual + 1e-12 * np.max(np.abs(expected))


@pytest.mark.parametrize("shape", [(3, 3), (4, 2), (2, 4), (2, 3, 3), (1, 1)])
def test_factors_of_elimination(shape: Any) -> None:
    x = RNG.standard_normal(shape)
    p, low, up = linalg.lu(x)
    for own, peer in zip((p, low, up), scipy.linalg.lu(x), strict=True):
        assert_allclose(own, peer, atol=1e-14)
        assert own.dtype == peer.dtype
    assert_allclose(linalg.lu(x, permute_l=True)[0] @ up, x, atol=1e-12)
    rows = linalg.lu(x, p_indices=True)[0]
    assert_allclose(rows, scipy.linalg.lu(x, p_indices=True)[0])
    cycle = np.stack([np.eye(3)[[1, 2, 0]], np.eye(3)])  # is not its own inverse
    assert linalg.lu(cycle, p_indices=True)[0].tolist() == [[1, 2, 0], [0, 1, 2]]
    fg.testing.check_grads(lambda x: linalg.lu(x)[1:], (x,), order=2)
    complex_x = x + 1j * RNG.standard_normal(shape)
    fg.testing.check_grads(lambda x: linalg.lu(x)[1:], (complex_x,), order=1)


# ------------------------------------------------------------------------------- equations


@together("q", [E, E + 1j * E.T], ids=["real", "complex"])
@together("turn", [0, 1j], ids=["real", "complex"])
@together("other", ["itself", "adjoint", "transpose", "another"])
def test_sylvester_where_one_triangular_form_serves_for_both(other: str, turn: Any, q: Any) -> None:
    a = X + 3 * np.eye(3) + turn * X.T
    b = {"itself": a, "adjoint": a.conj().T, "transpose": a.T, "another": a @ a}[other]
    x = np.asarray(linalg.solve_sylvester(a, b, q))
    assert_allclose(a @ x + x @ b, q, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("method", ["direct", "bilinear", None])
def test_both_ways_to_a_discrete_equation(method: Any) -> None:
    a = RNG.standard_normal((12, 12)) * 0.1
    q = RNG.standard_normal((12, 12))
    found = linalg.solve_discrete_lyapunov(a, q, method)
    assert_allclose(a @ found @ a.T - found + q, np.zeros((12, 12)), atol=1e-10)
    g = fg.grad(lambda a: fnp.sum(linalg.solve_discrete_lyapunov(a, q, method) * q))(a)
    direct = fg.grad(lambda a: fnp.sum(linalg.solve_discrete_lyapunov(a, q, "direct") * q))(a)
    assert_allclose(g, direct, rtol=1e-8, atol=1e-9)


# ------------------------------------------------------------------------------------ refusals

REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "trans": (
        lambda: linalg.solve_triangular(X, E, trans=3),
        ArgumentError,
        "solve_triangular: trans has to be one of 0, 1, 2, 'N', 'T', 'C', not 3",
    ),
    "zero on the diagonal": (
        lambda: linalg.solve_triangular(np.diag([1.0, 0.0]), np.ones(2)),
        MatrixError,
        "solve_triangular: the matrix has a zero on its diagonal",
    ),
    "rows": (
        lambda: linalg.cho_solve((X, True), np.ones(4)),
        ShapeError,
        r"cho_solve: b has to have as many rows as a; the shapes are \(3, 3\) and \(4,\)",
    ),
    "not square": (
        lambda: linalg.expm(np.ones((2, 3))),
        MatrixShapeError,
        "expm: A has to be square",
    ),
    "singular": (
        lambda: linalg.logm(np.zeros((2, 2))),
        MatrixError,
        "logm: the matrix is singular: it has no logarithm",
    ),
    "no derivative": (
        lambda: fg.grad(lambda x: linalg.sqrtm(x)[0, 0])(np.zeros((2, 2))),
        MatrixError,
        "has no solution, or many: a and -b have an eigenvalue in common",
    ),
    "in common": (
        lambda: linalg.solve_sylvester(X, -X, E),
        MatrixError,
        "solve_sylvester: the equation has no solution, or many",
    ),
    "sizes": (
        lambda: linalg.solve_sylvester(X, X, E[:2]),
        ShapeError,
        "solve_sylvester: q has to have the rows of a and the columns of b",
    ),
    "method": (
        lambda: linalg.solve_discrete_lyapunov(X, E, "other"),
        ArgumentError,
        "solve_discrete_lyapunov: method has to be one of 'direct', 'bilinear', not 'other'",
    ),
    "stacks": (
        lambda: linalg.solve_discrete_lyapunov(np.stack([X, X]), np.stack([E, E])),
        ShapeError,
        "solve_discrete_lyapunov: a and q have to be matrices of one size",
    ),
    "stacks of blocks": (
        lambda: linalg.block_diag(np.ones((2, 1, 1)), np.ones((3, 1, 1))),
        ShapeError,
        "block_diag: the shapes",
    ),
}


@pytest.mark.parametrize("counts", [(1, 1), (0, 2), (3, 0)])
def test_banded_systems_without_scipy(
    counts: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    bands, b = RNG.standard_normal((sum(counts) + 1, 3)) + 2.0, RNG.standard_normal((3, 2))
    expected = scipy.linalg.solve_banded(counts, bands, b)
    monkeypatch.setitem(sys.modules, "scipy.linalg", None)
    assert_allclose(linalg.solve_banded(counts, bands, b), expected, rtol=1e-10)
    with pytest.raises(MissingPackageError, match="pip install scipy"):
        linalg.solve_banded((0, 0), np.ones((1, 3000)), np.ones(3000))


@pytest.mark.filterwarnings("ignore:Matrix is singular")  # SciPy's, of the root itself
@together("what", REFUSED)
def test_what_is_refused_says_why(what: str) -> None:
    call, kind, message = REFUSED[what]
    with pytest.raises(kind, match=message):
        call()


def test_bands_that_are_none_are_refused() -> None:
    for bands in (1, (), (1, 1, 1)):
        with pytest.raises(ShapeError, match=r"solve_banded: l_and_u has to be a pair \(l, u\)"):
            linalg.solve_banded(bands, [[1.0]], [1.0])  # type: ignore[arg-type]  # a mistake
    with pytest.raises(ShapeError, match="solveh_banded: ab has to have at least one row"):
        linalg.solveh_banded(np.zeros((0, 3)), np.zeros(3))


def test_stacks_of_tridiagonal_matrices() -> None:
    middle, beside = np.arange(1.0, 9.0).reshape(2, 4), np.ones((2, 3))
    values = linalg.eigh_tridiagonal(middle, beside, eigvals_only=True)
    for own, d, e in zip(values, middle, beside, strict=True):
        assert_allclose(own, scipy.linalg.eigh_tridiagonal(d, e, eigvals_only=True))
