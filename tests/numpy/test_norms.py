"""Norms at kinks and at the ends of the range, condition numbers, ranks, powers and chains."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._primitives.norms import directed, length
from funcgrad.errors import (
    ArgumentError,
    MatrixError,
    MatrixShapeError,
    MissingOptionError,
    ShapeError,
)
from tests.together import refused, together

RNG = np.random.default_rng(4)
X = RNG.standard_normal((3, 3)) + np.eye(3)
ORDERS = (None, 1, 2, 3, 0.5, 1.5, -1, -2, np.inf, -np.inf)


@together("ord", ORDERS)
def test_vector_norms_differentiate_twice(ord: Any) -> None:
    fg.testing.check_grads(lambda x: fnp.linalg.norm(x, ord, axis=1), (X,), order=2)
    z = X + 1j * X[::-1] ** 2
    fg.testing.check_grads(lambda x: fnp.linalg.norm(x, ord, axis=0), (z,), order=1)


@together("ord", ["fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf])
def test_matrix_norms_differentiate_twice(ord: Any) -> None:
    fg.testing.check_grads(lambda x: fnp.linalg.norm(x, ord), (X,), order=2)
    stack = np.stack([X, X.T * 2])
    fg.testing.check_grads(lambda x: fnp.linalg.matrix_norm(x, ord=ord), (stack,), order=1)


@together("ord", [None, 1, 2, 3, 0.5, -1, np.inf, -np.inf, 0])
def test_the_origin_is_flat(ord: Any) -> None:
    f = lambda x: fnp.linalg.norm(x, ord)  # noqa: E731 - three uses
    zero = np.zeros(3)
    for path in (fg.grad(f), fg.jacfwd(f), fg.jit(fg.grad(f))):
        assert_array_equal(path(zero), zero)
    assert_array_equal(fg.hessian(f)(zero), np.zeros((3, 3)))
    rows = np.array([[0.0, 0.0], [3.0, 4.0]])
    g = fg.grad(lambda x: fnp.sum(fnp.linalg.norm(x, ord, axis=1)))(rows)
    assert_array_equal(g[0], [0.0, 0.0])
    assert_allclose(g[1], fg.grad(f)(rows[1]))


@pytest.mark.parametrize("ord", ["fro", "nuc", 2, 1, np.inf])
def test_the_zero_matrix_is_flat(ord: Any) -> None:
    g = fg.grad(lambda x: fnp.linalg.norm(x, ord))(np.zeros((2, 2)))
    assert_array_equal(g, np.zeros((2, 2)))


def test_the_square_of_a_norm_has_the_gradient_of_the_sum_of_squares() -> None:
    for x in (np.zeros(3), X[0], X[0] * 1e-160):
        assert_allclose(fg.grad(lambda x: fnp.linalg.norm(x) ** 2)(x), 2 * x, rtol=1e-12)


@together("scale", [1e-320, 1e-200, 1e-140, 1.0, 1e150, 1e300])
@together("weight", [0.0, 1e-200, -1.0, 1e200])
def test_gradients_of_weighted_norms_at_the_ends_of_the_range(weight: float, scale: float) -> None:
    """The quotient of weight and length may be infinite or NaN where the gradient is finite."""
    x = np.array([3.0, 4.0]) * scale
    found = fg.vjp(fnp.linalg.norm, x)[1](weight)[0]
    assert_allclose(found, weight * np.array([0.6, 0.8]), rtol=1e-2 if scale < 1e-300 else 1e-15)


def test_at_the_origin_sums_of_squares_are_curved_and_norms_count_as_flat() -> None:
    """The convention is documented, and the same under jit."""
    for square, curvature in (
        (lambda x: fnp.linalg.norm(x) ** 2, 0.0),
        (lambda x: fnp.sum(x * x), 2.0),
        (lambda x: fnp.vdot(x, x), 2.0),
    ):
        for transformed in (fg.hessian(square), fg.jit(fg.hessian(square))):
            assert_allclose(transformed(np.zeros(2)), curvature * np.eye(2))


@together("scale", [1e200, 1e-200, 1e-310, 1e300])
@together("ord", [None, 2, 3, 1.5, "fro", "nuc"])
def test_norms_at_the_ends_of_the_range(ord: Any, scale: float) -> None:
    x = np.array([[3.0, 1.0], [4.0, 2.0]]) if isinstance(ord, str) else np.array([3.0, 4.0, -1.0])
    f = lambda x: fnp.linalg.norm(x, ord)  # noqa: E731 - three uses
    tolerance = 1e-9 if scale == 1e-310 else 1e-12
    assert_allclose(f(x * scale), float(f(x)) * scale, rtol=tolerance)
    if scale > 1e-300:
        assert_allclose(fg.grad(f)(x * scale), fg.grad(f)(x), rtol=tolerance)


@pytest.mark.filterwarnings("error")
@together("staged", [False, True])
@together("mode", ["warn", "ignore", "raise"])
@together("scale", [1.0, 1e200, 1e-200])
def test_errors_on_the_way_to_a_norm_are_nobodys(scale: float, mode: Any, staged: bool) -> None:
    x = scale * np.array([3.0, 4.0])
    f = fg.value_and_grad(fnp.linalg.norm)
    with np.errstate(all=mode):
        before = np.geterr()
        value, gradient = (fg.jit(f) if staged else f)(x)
        assert np.geterr() == before
    assert_allclose(value, 5 * scale, rtol=1e-15)
    assert_allclose(gradient, [0.6, 0.8], rtol=1e-15)


@together("dtype", [np.float16, np.float32, np.float64, np.complex64, np.complex128])
@together("shape", [(2,), (1, 2), (3, 2)])
def test_norms_have_their_digits_around_where_squares_lose_them(
    shape: tuple[int, ...], dtype: Any
) -> None:
    # One vector and several are looked at in two ways.
    info = np.finfo(dtype)
    f = lambda x: fnp.linalg.norm(x, axis=-1)  # noqa: E731 - two uses
    limits = (info.minexp, info.minexp + info.nmant, info.maxexp - 4)
    exponents = {limit // part + k for limit in limits for part in (1, 2) for k in range(-3, 4)}
    for exponent in exponents & {*range(info.minexp, info.maxexp - 3)}:
        x = np.broadcast_to(np.ldexp([3.0, 4.0], exponent), shape).astype(dtype)
        length, pull = fg.vjp(f, x)
        assert_allclose(length, np.full(shape[:-1], np.ldexp(5.0, exponent)), rtol=4 * info.eps)
        (gradient,) = pull(np.ones(shape[:-1], length.dtype))
        assert_allclose(gradient, np.broadcast_to([0.6, 0.8], shape), rtol=4 * info.eps)


@given(st.integers(0, 2**31), st.sampled_from([1e-150, 1.0, 1e150]), st.integers(1, 6))
@settings(max_examples=30, deadline=None)
def test_euler_holds_of_norms(seed: int, scale: float, n: int) -> None:
    """A norm is its gradient times the vector."""
    x = np.random.default_rng(seed).standard_normal(n) * scale
    for ord in (None, 1, 3, np.inf, 0.5):
        value, g = fg.value_and_grad(lambda x, ord=ord: fnp.linalg.norm(x, ord))(x)
        assert_allclose(np.asarray(g) @ x, value, rtol=1e-11)


@together("p", [None, 2, -2, 1, -1, np.inf, -np.inf, "fro", "nuc"])
def test_condition_numbers(p: Any) -> None:
    assert_allclose(fnp.linalg.cond(X, p), np.linalg.cond(X, p), rtol=1e-12)
    fg.testing.check_grads(lambda x: fnp.linalg.cond(x, p), (X,), order=1)
    singular = np.array([[0.0, 0.0], [0.0, 2.0]])
    if p != -2:
        assert float(fnp.linalg.cond(singular, p)) == np.inf
        assert_array_equal(fg.grad(lambda x: fnp.linalg.cond(x, p))(singular), np.zeros((2, 2)))
    batch = fnp.linalg.cond(np.stack([X, np.eye(3)]), p)
    assert_allclose(batch, [np.linalg.cond(X, p), np.linalg.cond(np.eye(3), p)], rtol=1e-12)


def test_ranks_have_no_derivative() -> None:
    low = np.outer([1.0, 2.0, 3.0], [1.0, 1.0, 2.0])
    assert int(fnp.linalg.matrix_rank(low)) == 1
    assert_array_equal(
        fg.grad(lambda x: x[0, 0] * fnp.linalg.matrix_rank(x))(low).at[0, 0].set(0), 0
    )
    assert_array_equal(fg.vmap(fnp.linalg.matrix_rank)(np.stack([low, X])), [1, 3])


@together("n", [-3, -1, 0, 1, 2, 7])
def test_powers_of_matrices_are_products(n: int) -> None:
    f = lambda x: fnp.linalg.matrix_power(x, n)  # noqa: E731 - two uses
    assert_allclose(f(X), np.linalg.matrix_power(X, n), rtol=1e-9)
    fg.testing.check_grads(f, (X,), order=2)
    fg.testing.check_grads(f, (np.eye(3) * 2,), order=2)  # equal eigenvalues


def test_chains_are_products_in_any_order() -> None:
    a, b, c, d = (RNG.standard_normal(shape) for shape in ((6, 2), (2, 5), (5, 1), (1, 4)))
    assert_allclose(fnp.linalg.multi_dot([a, b, c, d]), a @ b @ c @ d, rtol=1e-12)
    fg.testing.check_grads(lambda *x: fnp.linalg.multi_dot(x), (a, b, c, d), order=2)
    assert_allclose(fnp.linalg.multi_dot([a[0], b, c[:, 0]]), a[0] @ b @ c[:, 0])
    staged = fg.program(lambda a, b, c: fnp.linalg.multi_dot([a, b, c]))(a, b, c)
    assert "[2,1]" in staged.to_text()  # b @ c first
    assert "[6,5]" not in staged.to_text()
    assert_allclose(fnp.linalg.multi_dot([np.eye(2)] * 80), np.eye(2))


# ---------------------------------------------------------------------------- least squares


def test_least_squares_agree_with_normal_equations_in_derivatives() -> None:
    a, b = RNG.standard_normal((5, 3)), RNG.standard_normal((5, 2))

    def normal(a: Any, b: Any) -> Any:
        return fnp.linalg.solve(a.mT @ a, a.mT @ b)

    def own(a: Any, b: Any) -> Any:
        return fnp.linalg.lstsq(a, b)[0]

    def by_inverse(a: Any, b: Any) -> Any:
        return fnp.linalg.pinv(a) @ b

    weights = RNG.standard_normal((3, 2))
    for argument in (0, 1):
        expected = fg.grad(lambda a, b: fnp.sum(normal(a, b) * weights), argument)(a, b)
        for f in (own, by_inverse):
            found = fg.grad(lambda a, b, f=f: fnp.sum(f(a, b) * weights), argument)(a, b)
            assert_allclose(found, expected, rtol=1e-9, atol=1e-11)
    fg.testing.check_grads(own, (a, b), order=2)
    residuals = fg.grad(lambda a: fnp.sum(fnp.linalg.lstsq(a, b)[1]))(a)
    direct = fg.grad(lambda a: fnp.sum((b - a @ own(a, b)) ** 2))(a)
    assert_allclose(residuals, direct, rtol=1e-9, atol=1e-11)


def test_a_pseudoinverse_of_low_rank_moves_with_its_factors() -> None:
    left, right = RNG.standard_normal((4, 2)), RNG.standard_normal((2, 3))
    fg.testing.check_grads(lambda a, b: fnp.linalg.pinv(a @ b, rcond=1e-9), (left, right), order=2)
    assert_allclose(
        fg.vmap(fnp.linalg.pinv)(np.stack([left, left * 2])),
        np.linalg.pinv(np.stack([left, left * 2])),
        atol=1e-12,
    )


def test_least_squares_of_low_rank_have_no_residuals() -> None:
    a = np.outer([1.0, 2.0, 3.0], [1.0, 2.0])
    x, residuals, rank, s = fnp.linalg.lstsq(a, np.ones(3))
    assert (x.shape, residuals.shape, int(rank), s.shape) == ((2,), (0,), 1, (2,))
    assert fnp.linalg.lstsq(X[:, :2], np.ones(3))[1].shape == (1,)


# ------------------------------------------------------------------------ any eigenvalues


@pytest.mark.parametrize("x", [X, X + 1j * X.T**2, np.array([[0.5, 2.0], [-1.0, 0.3]])], ids=str)
def test_any_eigenvalues_and_vectors_make_the_matrix_in_derivatives_too(x: Any) -> None:
    v = np.cos(np.arange(x.size)).reshape(x.shape).astype(x.dtype)

    def back(x: Any) -> Any:
        w, vectors = fnp.linalg.eig(x)
        made = fnp.linalg.solve(vectors.mT, (vectors * w).mT).mT
        return made if np.iscomplexobj(v) else made.real

    value, tangent = fg.jvp(back, (x,), (v,))
    assert_allclose(value, x, rtol=1e-9)
    assert_allclose(tangent, v, rtol=1e-7, atol=1e-9)
    assert_allclose(fg.vjp(back, x)[1](v)[0], v, rtol=1e-7, atol=1e-9)
    assert_allclose(fg.jit(back)(x), x, rtol=1e-9)
    batch = np.stack([x, 2 * x])
    assert_allclose(fg.vmap(lambda x: fnp.linalg.eigvals(x))(batch)[0].sum(), np.trace(x))


@together(("given", "expected"), [("l", "D"), ("f", "F"), ("d", "D"), ("F", "F"), ("D", "D")])
@together("of_namespace", [fnp.linalg, fg.scipy.linalg, np.linalg], ids=str)
def test_eigenvalues_are_complex_in_every_mode(
    given: str, expected: str, of_namespace: Any
) -> None:
    def both(x: Any) -> Any:
        return *of_namespace.eig(x), of_namespace.eigvals(x)

    # Of the first matrix all eigenvalues are real, of the second none.
    for numbers in [[2, 5], [0, 3]], [[0, 1], [-1, 0]]:
        x = fg.tensor(numbers, given)
        eager, jitted = both(x), fg.jit(both)(x)
        batch = [each[0] for each in fg.vmap(both)(x[None])]
        loop = fg.map(lambda x: both(x), x[None])
        assert [each.dtype.char for each in (*eager, *jitted, *batch, *loop)] == [expected] * 12
        for other in jitted, batch, [each[0] for each in loop]:
            for one, two in zip(eager, other, strict=True):
                np.testing.assert_array_equal(one, two)
    if given == "d":
        fg.testing.check_grads(fnp.linalg.eigvals, (np.array([[2.0, 5.0], [0.0, 3.0]]),), order=2)


def test_a_matrix_without_a_basis_of_eigenvectors_is_refused() -> None:
    x = np.array([[1.0, 1.0], [0.0, 1.0]])
    with pytest.raises(fg.errors.DegenerateError, match="eig: the matrix has no basis of eigenvec"):
        fg.grad(lambda x: fnp.linalg.eigvals(x)[0].real)(x)
    equal = np.diag([1.0, 1.0, 2.0])
    with pytest.raises(fg.errors.DegenerateError, match="equal up to rounding"):
        fg.grad(lambda x: fnp.linalg.eig(x).eigenvectors[1, 0].real)(equal + 0 * X)
    g = fg.grad(lambda x: fnp.sum(fnp.linalg.eigvals(x).real))(equal)
    assert_allclose(g, np.eye(3), atol=1e-12)


# ------------------------------------------------------------------------------------ refusals

REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "no norm of vectors": (
        lambda: fnp.linalg.norm(X[0], "nuc"),
        ArgumentError,
        "norm: 'nuc' is not a norm of vectors",
    ),
    "no norm of matrices": (
        lambda: fnp.linalg.matrix_norm(X, ord=3),
        ArgumentError,
        "matrix_norm: 3 is not a norm of matrices",
    ),
    "no number": (lambda: fnp.linalg.norm(X[0], np.nan), ArgumentError, "norm: ord is NaN"),
    "three axes": (
        lambda: fnp.linalg.norm(np.ones((2, 2, 2)), 1),
        ShapeError,
        "norm: needs one axis for vectors or two for matrices, not 3",
    ),
    "no matrix": (
        lambda: fnp.linalg.matrix_norm(X[0]),
        MatrixShapeError,
        r"matrix_norm: x has to be a matrix, .* its shape is \(3,\)",
    ),
    "empty": (lambda: fnp.linalg.cond(np.ones((0, 0))), MatrixShapeError, "cond: empty matrices"),
    "two tolerances": (
        lambda: fnp.linalg.matrix_rank(X, 1e-3, rtol=1e-3),
        ArgumentError,
        "matrix_rank: give tol or rtol, not both",
    ),
    "two tolerances of pinv": (
        lambda: fnp.linalg.pinv(X, 1e-3, rtol=1e-3),
        ArgumentError,
        "pinv: give rcond or rtol, not both",
    ),
    "power": (
        lambda: fnp.linalg.matrix_power(np.ones((2, 3)), 2),
        MatrixShapeError,
        r"matrix_power: a has to be square .* \(2, 3\)",
    ),
    "inverse power": (
        lambda: fnp.linalg.matrix_power(np.ones((2, 2)), -1),
        MatrixError,
        "the matrix is singular",
    ),
    "one matrix": (
        lambda: fnp.linalg.multi_dot([X]),
        ShapeError,
        "multi_dot: there have to be two arrays or more, not 1",
    ),
    "neighbours": (
        lambda: fnp.linalg.multi_dot([X, X[:2]]),
        ShapeError,
        r"multi_dot: arrays 0 and 1 do not fit: the shapes are \(3, 3\) and \(2, 3\)",
    ),
    "out": (
        lambda: fnp.linalg.multi_dot([X, X], out=X),  # type: ignore[arg-type]  # it is refused
        MissingOptionError,
        "multi_dot: out= has no use",
    ),
    "a chain of a vector within": (
        lambda: fnp.linalg.multi_dot([X, X[0], X]),
        MatrixShapeError,
        r"multi_dot: array 1 has to be a matrix; its shape is \(3,\)",
    ),
    "a stack": (
        lambda: fnp.linalg.lstsq(np.ones((2, 3, 3)), np.ones(3)),
        MatrixShapeError,
        "lstsq: a has to have two axes, and b one or two; .* Use fg.vmap",
    ),
    "rows": (
        lambda: fnp.linalg.lstsq(X, np.ones(4)),
        ShapeError,
        "lstsq: a and b have to have as many rows",
    ),
}


test_what_is_refused_says_why = refused(REFUSED)


def test_a_number_has_a_norm() -> None:
    for x in (-2.0, -2, np.float64(-2.0), np.array(-2.0), fg.tensor(-2.0)):
        assert fnp.linalg.norm(x) == np.linalg.norm(x) == 2.0
        for order in (2, 1, 3, np.inf, -np.inf):
            assert fnp.linalg.vector_norm(x, ord=order) == 2.0
            assert fnp.shape(fnp.linalg.vector_norm(x, ord=order, keepdims=True)) == ()
    for f in (fnp.linalg.norm, lambda x: fnp.linalg.vector_norm(x, ord=3)):
        assert fg.grad(f)(-2.0) == fg.jvp(f, (-2.0,), (1.0,))[1] == fg.jit(fg.grad(f))(-2.0) == -1
        assert (fg.vmap(fg.grad(f))(np.array([-2.0, 3.0])) == [-1.0, 1.0]).all()
        assert fg.grad(f)(0.0) == 0.0


@pytest.mark.parametrize("dtype", [np.int64, np.uint8, np.bool_])
def test_lengths_of_integers_are_refused_and_norms_convert(dtype: Any) -> None:
    x, c = np.array([1, 0, 1], dtype), np.ones((1,), dtype)
    for run in (
        lambda x: length(x, axis=(0,), keepdims=False),
        lambda x: directed(c, x, axis=(0,)),
    ):
        for f in (run, fg.program(run)):
            with pytest.raises(fg.errors.DtypeError, match="takes floats or complex numbers, not"):
                f(fg.tensor(x))
    np.testing.assert_allclose(fnp.linalg.norm(fg.tensor(x)), np.sqrt(2))
