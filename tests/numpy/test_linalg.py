"""Linear algebra beyond NumPy's values, which ``tests/differential`` compares.

Derivatives at singular and ill-conditioned matrices, stacks, and errors.
"""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._primitives.cholesky import cholesky_pullback
from funcgrad.errors import DtypeError, MatrixError, MatrixShapeError, ShapeError
from tests.every_mode import assert_every_mode
from tests.together import together

RNG = np.random.default_rng(0)
SQUARE = RNG.standard_normal((3, 3)) + 2 * np.eye(3)
STACK = RNG.standard_normal((2, 3, 3)) + 2 * np.eye(3)
COMPLEX = STACK + 1j * RNG.standard_normal((2, 3, 3))
SINGULAR = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])


def positive(x: Any) -> Any:
    """A positive definite matrix, Hermitian to the last bit."""
    x = x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(x.shape[-1])
    return (x + np.conj(np.swapaxes(x, -1, -2))) / 2


def cofactor(x: Any, i: int, j: int) -> Any:
    rest = [[x[a][b] for b in range(len(x)) if b != j] for a in range(len(x)) if a != i]
    return (-1) ** (i + j) * (mpmath.det(mpmath.matrix(rest)) if rest else 1)


# ------------------------------------------------------------------------------- determinants


@together(
    "x",
    [
        SQUARE,
        SINGULAR,
        np.zeros((3, 3)),
        1e110 * np.eye(4),
        np.ones((3, 3)),
        np.diag([1.0, 1e-9, 1e-9]),
        np.diag([1e200, 1e200, 1e-300]),
        np.diag([1e-150, 1e-150, 1.0]),
        np.array([[1.0, 1.0], [1.0, 1.0 + 1e-12]]),
        np.array([[0.5]]),
    ],
)
def test_gradients_of_determinants_are_cofactors(x: Any) -> None:
    with mpmath.workdps(400):
        exact = mpmath.matrix(x.tolist()).tolist()
        n = range(len(x))
        expected = np.array([[float(cofactor(exact, i, j)) for j in n] for i in n])
    found = fg.grad(fnp.linalg.det)(x)
    assert_allclose(found, expected, rtol=1e-12, atol=1e-14 * np.max(np.abs(x)))


@pytest.mark.parametrize("x", [SQUARE, SINGULAR, np.zeros((3, 3)), np.ones((3, 3)), np.eye(2)])
def test_hessians_of_determinants_are_exact(x: Any) -> None:
    """The derivative of a cofactor is a determinant without two rows and two columns."""
    n = len(x)
    expected = np.zeros((n,) * 4)
    for i, j, k, m in np.ndindex(*expected.shape):
        if i != k and j != m:
            rest = np.delete(np.delete(x, [i, k], 0), [j, m], 1)
            sign = (-1) ** (i + j + k + m) * (1 if (i < k) == (j < m) else -1)
            expected[i, j, k, m] = sign * (np.linalg.det(rest) if n > 2 else 1.0)
    assert_allclose(fg.hessian(fnp.linalg.det)(x), expected, atol=1e-12)
    assert_allclose(fg.jacfwd(fg.jacfwd(fnp.linalg.det))(x), expected, atol=1e-12)
    assert_allclose(fg.jacrev(fg.jacrev(fnp.linalg.det))(x), expected, atol=1e-12)


def test_third_derivatives_of_determinants_want_an_invertible_matrix() -> None:
    def third(x: Any) -> Any:
        f: Any = fnp.linalg.det
        for _ in range(3):
            f = fg.jacfwd(f)
        return f(x)

    step: Any = 1e-4 * np.cos(np.arange(9.0)).reshape(3, 3)
    ahead, behind = (fg.hessian(fnp.linalg.det)(SQUARE + sign * step) for sign in (1, -1))
    assert_allclose(
        fnp.tensordot(third(SQUARE), step, 2), (ahead - behind) / 2, rtol=1e-7, atol=1e-12
    )
    with pytest.raises(
        MatrixError, match=r"det: the matrix.* is singular: there determinants have"
    ):
        third(SINGULAR)


def test_a_stack_of_which_some_are_singular() -> None:
    stack = np.stack([SQUARE, SINGULAR, np.zeros((3, 3)), SQUARE + 1])
    expected = np.stack([fg.grad(fnp.linalg.det)(x) for x in stack])
    found = fg.grad(lambda x: fnp.sum(fnp.linalg.det(x)))(stack)
    assert_allclose(found, expected, atol=1e-12)
    assert_allclose(fg.vmap(fg.grad(fnp.linalg.det))(stack), expected, atol=1e-12)
    along = np.cos(stack)
    pushed = [fg.hvp(fnp.linalg.det, (x,), (v,)) for x, v in zip(stack, along, strict=True)]
    whole = fg.hvp(lambda x: fnp.sum(fnp.linalg.det(x)), (stack,), (along,))
    assert_allclose(whole, np.stack(pushed), atol=1e-12)


def test_logarithms_of_determinants() -> None:
    assert_allclose(
        fg.grad(lambda x: fnp.linalg.slogdet(x).logabsdet)(SQUARE),
        np.linalg.inv(SQUARE).T,
        rtol=1e-12,
    )
    sign, logarithm = fnp.linalg.slogdet(SINGULAR)
    assert (float(sign), float(logarithm)) == (0.0, -np.inf) or float(logarithm) < -30
    zero = np.zeros((2, 2))
    assert float(fnp.linalg.slogdet(zero).logabsdet) == -np.inf
    with pytest.raises(MatrixError, match="slogdet: the matrix is singular: the logarithm of its"):
        fg.grad(lambda x: fnp.linalg.slogdet(x)[1])(zero)
    with pytest.raises(np.linalg.LinAlgError, match="matrix 1 of the stack"):
        fg.grad(lambda x: fnp.sum(fnp.linalg.slogdet(x)[1]))(np.stack([np.eye(2), zero]))


# ------------------------------------------------------------------------------------ equations


def test_one_matrix_for_many_right_hand_sides_is_factorized_once() -> None:
    rows = RNG.standard_normal((5, 3))
    found = fg.vmap(lambda b: fnp.linalg.solve(SQUARE, b))(rows)
    assert_allclose(found, np.linalg.solve(SQUARE, rows.T).T, rtol=1e-12)
    staged = fg.program(fg.vmap(lambda b: fnp.linalg.solve(SQUARE, b)))(rows)
    (solved,) = [each for each in staged.equations if each.operation.name == "solve"]
    assert solved.operands.count(0) <= 1  # the matrix is a constant, of two axes
    gradient = fg.grad(lambda a: fnp.sum(fg.vmap(lambda b: fnp.linalg.solve(a, b))(rows) ** 2))
    expected = fg.grad(lambda a: fnp.sum(fnp.linalg.solve(a, rows.T) ** 2))
    assert_allclose(gradient(SQUARE), expected(SQUARE), rtol=1e-10)


def test_one_right_hand_side_for_many_matrices() -> None:
    b = RNG.standard_normal(3)
    found = fg.vmap(lambda a: fnp.linalg.solve(a, b))(STACK)
    assert_allclose(found, np.stack([np.linalg.solve(a, b) for a in STACK]), rtol=1e-12)
    jacobian = fg.jacrev(lambda b: fg.vmap(lambda a: fnp.linalg.solve(a, b))(STACK))(b)
    assert_allclose(jacobian, np.linalg.inv(STACK), rtol=1e-10)


def test_numpys_functions_reach_these() -> None:
    x = fg.tensor(SQUARE)
    for f in (np.linalg.det, np.linalg.inv, lambda x: np.linalg.solve(x, x[0])):
        assert_allclose(fg.jvp(f, (x,), (x,))[1], fg.jvp(f, (x,), (2 * x,))[1] / 2, rtol=1e-12)
    sign, logarithm = np.linalg.slogdet(x)
    assert_allclose(sign * fnp.exp(logarithm), np.linalg.det(SQUARE), rtol=1e-12)


def test_a_posterior_of_gaussians_differentiates_twice_in_every_way() -> None:
    points = np.linspace(0.0, 1.0, 6)
    gaps = (points[:, None] - points) ** 2
    y = np.sin(3 * points)

    def evidence(theta: Any) -> Any:
        covariance = fnp.exp(theta[0] - gaps * fnp.exp(theta[1])) + 0.1 * np.eye(6)
        factor = fnp.linalg.cholesky(covariance)
        half = fnp.linalg.solve(factor, y)
        return fnp.sum(half * half) / 2 + fnp.sum(fnp.log(fnp.linalg.diagonal(factor)))

    def other(theta: Any) -> Any:
        covariance = fnp.exp(theta[0] - gaps * fnp.exp(theta[1])) + 0.1 * np.eye(6)
        logarithm = fnp.linalg.slogdet(covariance).logabsdet
        return (y @ fnp.linalg.inv(covariance) @ y + logarithm) / 2

    theta = np.array([0.3, 1.0])
    assert_every_mode(evidence, theta)
    assert_allclose(evidence(theta), other(theta), rtol=1e-10)
    assert_allclose(fg.grad(evidence)(theta), fg.grad(other)(theta), rtol=1e-8)
    assert_allclose(fg.hessian(evidence)(theta), fg.hessian(other)(theta), rtol=1e-7)
    assert_allclose(fg.jit(fg.hessian(evidence))(theta), fg.hessian(evidence)(theta), rtol=1e-8)


# -------------------------------------------------------------------------------------- Cholesky


@together("upper", [False, True])
@together("x", [positive(SQUARE), positive(STACK), positive(COMPLEX)], ids=str)
def test_gradients_of_cholesky_factors_are_hermitian(x: Any, upper: bool) -> None:
    def f(x: Any) -> Any:
        factor = fnp.linalg.cholesky(x, upper=upper)
        return fnp.sum(fnp.abs(fnp.sin(factor.real) + factor.imag) ** 2)

    g = np.asarray(fg.grad(f)(x))
    assert_allclose(g, np.conj(np.swapaxes(g, -1, -2)), rtol=1e-12)
    fg.testing.check_grads(f, (x,), order=2)


def test_factors_have_numpys_bits() -> None:
    for x in (positive(SQUARE), positive(STACK), positive(COMPLEX)):
        assert_array_equal(fnp.linalg.cholesky(x), np.linalg.cholesky(x))
        assert_array_equal(fnp.linalg.cholesky(x, upper=True), np.linalg.cholesky(x, upper=True))


def test_other_matrices_count_by_their_hermitian_part() -> None:
    x = positive(SQUARE) + np.array([[0.0, 1.0, 2.0], [-1.0, 0.0, 3.0], [-2.0, -3.0, 0.0]])
    assert_allclose(fnp.linalg.cholesky(x), np.linalg.cholesky((x + x.T) / 2), rtol=1e-12)
    huge = np.array([[1.5e308, 1e308], [1e308, 1.7e308]])
    assert np.all(np.isfinite(np.asarray(fnp.linalg.cholesky(huge))))


@given(st.integers(1, 6), st.integers(0, 2**31), st.sampled_from([1.0, 1e-8, 1e8]))
@settings(max_examples=30, deadline=None)
def test_a_factor_times_its_adjoint_is_the_matrix_in_derivatives_too(
    n: int, seed: int, scale: float
) -> None:
    rng = np.random.default_rng(seed)
    x, v = positive(rng.standard_normal((n, n))) * scale, rng.standard_normal((n, n)) * scale

    def back(x: Any) -> Any:
        factor = fnp.linalg.cholesky(x)
        return factor @ factor.T

    value, tangent = fg.jvp(back, (x,), (v,))
    assert_allclose(value, x, rtol=1e-10, atol=1e-10 * scale)
    assert_allclose(tangent, (v + v.T) / 2, rtol=1e-9, atol=1e-9 * scale)
    (g,) = fg.vjp(back, x)[1](v)
    assert_allclose(g, (v + v.T) / 2, rtol=1e-9, atol=1e-8 * scale)


# ------------------------------------------------------------------------------------ refusals

REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "not square": (
        lambda: fnp.linalg.inv(np.ones((2, 3))),
        MatrixShapeError,
        r"inv: a has to be square on its last two axes; its shape is \(2, 3\)",
    ),
    "no matrix": (
        lambda: fnp.linalg.det([1.0, 2.0]),
        MatrixShapeError,
        r"det: a has to be a matrix, or a stack .* its shape is \(2,\)",
    ),
    "rows": (
        lambda: fnp.linalg.solve(np.eye(2), np.ones((3, 2))),
        ShapeError,
        r"solve: b has to have as many rows as a; the shapes are \(2, 2\) and \(3, 2\)",
    ),
    "stacks": (
        lambda: fnp.linalg.solve(np.ones((2, 3, 3)), np.ones((4, 3, 1))),
        ShapeError,
        "solve: the shapes",
    ),
    "singular": (lambda: fnp.linalg.inv(np.ones((2, 2))), MatrixError, "inv: the matrix is singul"),
    "one of a stack": (
        lambda: fnp.linalg.solve(np.stack([np.eye(2), np.zeros((2, 2))]), np.ones((2, 1))),
        MatrixError,
        "solve: the matrix 1 of the stack is singular",
    ),
    "of a deep stack": (
        lambda: fnp.linalg.inv(np.stack([np.eye(2), np.zeros((2, 2))])[None]),
        MatrixError,
        r"inv: the matrix \(0, 1\) of the stack is singular",
    ),
    "negative": (
        lambda: fnp.linalg.cholesky([[1.0, 2.0], [2.0, 1.0]]),
        MatrixError,
        "cholesky: the matrix is not positive definite",
    ),
    "half precision": (
        lambda: fnp.linalg.det(np.eye(2, dtype=np.float16)),
        DtypeError,
        "det: linear algebra does not support float16",
    ),
    "tensorinv": (
        lambda: fnp.linalg.tensorinv(np.ones((2, 3))),
        MatrixShapeError,
        "tensorinv: the first 2 axes have 6 elements and the others 1",
    ),
    "tensorinv of nothing": (
        lambda: fnp.linalg.tensorinv(np.eye(2), 0),
        ShapeError,
        "tensorinv: ind has to be positive; it is 0",
    ),
    "tensorsolve": (
        lambda: fnp.linalg.tensorsolve(np.ones((2, 3)), np.ones(2)),
        MatrixShapeError,
        "tensorsolve: .* 3 unknowns for 2 equations",
    ),
}


@together("what", REFUSED)
def test_what_is_refused_says_why(what: str) -> None:
    call, kind, message = REFUSED[what]
    with pytest.raises(kind, match=message):
        call()
    if kind in (MatrixError, MatrixShapeError):
        with pytest.raises(np.linalg.LinAlgError):
            call()


@pytest.mark.parametrize("place", [0, 45])
def test_a_cotangent_of_cholesky_that_is_not_finite_stays_in_its_triangle(place: int) -> None:
    factor = np.eye(place + 3)
    factor[place + 1, place] = np.nan
    with np.errstate(invalid="ignore"):
        pulled = np.asarray(cholesky_pullback(factor, np.tril(np.ones(factor.shape))))
    assert np.isnan(pulled[place:, place : place + 2]).any()
    assert not np.triu(pulled, 1).any()
