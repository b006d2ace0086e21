"""Eigenvalues and eigenvectors: equal ones, clusters, phases, and functions of the whole matrix."""

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
from funcgrad.errors import ArgumentError, DegenerateError, DifferentiationError, MatrixError
from tests.together import together

RNG = np.random.default_rng(0)


def turned(w: Any, seed: int = 1, turn: complex = 0) -> Any:
    """A Hermitian matrix of some eigenvalues, and its eigenvectors."""
    rng = np.random.default_rng(seed)
    n = len(w)
    q = np.linalg.qr(rng.standard_normal((n, n)) + turn * rng.standard_normal((n, n)))[0]
    x = q @ np.diag(w) @ np.conj(q.T)
    return (x + np.conj(x.T)) / 2


def symmetric(seed: int, n: int = 4, turn: complex = 0) -> Any:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, n)) + turn * rng.standard_normal((n, n))
    return (x + np.conj(x.T)) / 2


DISTINCT = turned([1.0, 2.0, 4.0, 7.0])
EQUAL = turned([1.0, 2.0, 2.0, 7.0])
COMPLEX = turned([1.0, 2.0, 4.0, 7.0], turn=1j)
COMPLEX_EQUAL = turned([1.0, 2.0, 2.0, 7.0], turn=1j)
WEIGHTS = symmetric(5)


def total(x: Any) -> Any:
    """A number that depends on all of a matrix, real and imaginary parts."""
    return fnp.sum(x.real * WEIGHTS) + fnp.sum(x.imag * np.cos(np.arange(16.0)).reshape(4, 4))


def projection(x: Any) -> Any:
    """The projection on the space of the second and the third eigenvector."""
    v = fnp.linalg.eigh(x).eigenvectors[:, 1:3]
    return total(v @ fnp.conj(v.mT))


def exact_projection(x: Any) -> Any:
    """The projection by the resolvent, a rational function, on a circle around 2 of radius 0.5."""
    points = 2 + 0.5 * np.exp(2j * np.pi * (np.arange(200) + 0.5) / 200)
    resolvents = fnp.linalg.inv(points[:, None, None] * np.eye(4) - x)
    mean = fnp.mean((points - 2)[:, None, None] * resolvents, axis=0)
    return total(mean if np.iscomplexobj(x) else mean.real)


@pytest.mark.parametrize("x", [EQUAL, COMPLEX_EQUAL])
def test_sums_over_equal_eigenvectors_are_right(x: Any) -> None:
    expected = fg.grad(exact_projection)(x)
    expected = (expected + fnp.conj(expected.mT)) / 2
    assert_allclose(projection(x), exact_projection(x), rtol=1e-10)
    for path in (fg.grad(projection), fg.jit(fg.grad(projection))):
        assert_allclose(path(x), expected, rtol=1e-8, atol=1e-9)
    stack = np.stack([x, x * 1.0])
    assert_allclose(fg.vmap(fg.grad(projection))(stack)[1], expected, rtol=1e-8, atol=1e-9)


def exponential(x: Any) -> Any:
    w, v = fnp.linalg.eigh(x)
    return (v * fnp.exp(w)) @ v.mT


DEPENDS: dict[str, Callable[[Any], Any]] = {
    "one of them": lambda x: fnp.linalg.eigh(x).eigenvectors[0, 1] ** 2,
    "its projection": lambda x: fnp.sum(
        WEIGHTS
        * (fnp.linalg.eigh(x).eigenvectors[:, 1:2] @ fnp.linalg.eigh(x).eigenvectors.mT[1:2])
    ),
    "a function of the matrix": lambda x: fnp.sum(WEIGHTS * exponential(x)),
}


@pytest.mark.parametrize("what", DEPENDS)
def test_what_depends_on_the_choice_is_refused(what: str) -> None:
    f = DEPENDS[what]
    message = r"eigenvalues .* 2 and 2, positions 1 and 2, are equal up to rounding"
    for path in (fg.grad(f), fg.jit(fg.grad(f)), lambda x: fg.jvp(f, (x,), (WEIGHTS,))):
        with pytest.raises(DegenerateError, match=message):
            path(EQUAL)
    with pytest.raises(DegenerateError, match="positions 1 and 2 in the matrix 1, are equal"):
        fg.vmap(fg.grad(f))(np.stack([DISTINCT, EQUAL]))
    fg.testing.check_grads(lambda x: f((x + x.T) / 2), (DISTINCT,), order=2)


def test_the_error_is_one_of_linear_algebra_and_of_derivatives() -> None:
    f = DEPENDS["one of them"]
    for kind in (np.linalg.LinAlgError, DifferentiationError):
        with pytest.raises(kind):
            fg.grad(f)(EQUAL)


@together("x", [DISTINCT, EQUAL, COMPLEX, COMPLEX_EQUAL, np.eye(4), 0 * DISTINCT])
def test_sums_of_functions_of_eigenvalues_have_the_gradient_of_a_matrix_function(x: Any) -> None:
    w, v = np.linalg.eigh(x)
    expected = v @ np.diag(np.cos(w)) @ np.conj(v.T)
    found = fg.grad(lambda x: fnp.sum(fnp.sin(fnp.linalg.eigvalsh(x))))(x)
    assert_allclose(found, expected, atol=1e-12)
    along = symmetric(9, turn=1j if np.iscomplexobj(x) else 0)
    pushed = fg.jvp(lambda x: fnp.sum(fnp.sin(fnp.linalg.eigvalsh(x))), (x,), (along,))[1]
    assert_allclose(pushed, np.sum((np.conj(expected) * along).real), rtol=1e-10)
    by_vectors = fg.grad(lambda x: fnp.sum(fnp.sin(fnp.linalg.eigh(x).eigenvalues)))(x)
    assert_allclose(by_vectors, expected, atol=1e-12)


def test_the_phase_of_complex_vectors_is_nobodys() -> None:
    def phase(x: Any) -> Any:
        return fnp.sum(fnp.linalg.eigh(x).eigenvectors.real * WEIGHTS)

    with pytest.raises(DegenerateError, match="depends on the phases of complex eigenvectors"):
        fg.grad(phase)(COMPLEX)

    def without(x: Any) -> Any:
        v = fnp.linalg.eigh((x + fnp.conj(x.mT)) / 2).eigenvectors
        return fnp.sum(fnp.abs(v) ** 2 * WEIGHTS)

    fg.testing.check_grads(without, (COMPLEX,), order=2)


@pytest.mark.parametrize("lower", [True, False])
def test_with_a_named_triangle_only_that_counts(lower: bool) -> None:
    x = DISTINCT + np.triu(np.ones((4, 4)), 1)
    UPLO: Any = "L" if lower else "u"
    assert_array_equal(fnp.linalg.eigvalsh(x, UPLO), np.linalg.eigvalsh(x, UPLO))
    for f in (
        lambda x: fnp.sum(fnp.sin(fnp.linalg.eigvalsh(x, UPLO))),
        lambda x: fnp.sum(fnp.linalg.eigh(x, UPLO).eigenvectors ** 2 * WEIGHTS),
    ):
        g = np.asarray(fg.grad(f)(x))
        assert not np.any(np.triu(g, 1) if lower else np.tril(g, -1))
        fg.testing.check_grads(f, (x,), order=2)
    g = np.asarray(fg.grad(lambda x: fnp.linalg.eigvalsh(x)[0])(x))
    assert_allclose(g, g.T)


def test_other_words_for_triangles_are_refused() -> None:
    with pytest.raises(ArgumentError, match="eigh: UPLO is 'L' or 'U', not 'x'"):
        fnp.linalg.eigh(DISTINCT, "x")
    with pytest.raises(MatrixError, match="eigh: LAPACK found no decomposition of the matrix 1 of"):
        fnp.linalg.eigh(np.stack([DISTINCT, DISTINCT * np.nan]))


@given(st.integers(2, 5), st.integers(0, 2**31), st.sampled_from([1e-3, 1.0, 1e3]))
@settings(max_examples=25, deadline=None)
def test_vectors_times_values_are_the_matrix_in_derivatives_too(
    n: int, seed: int, scale: float
) -> None:
    rng = np.random.default_rng(seed)
    x = turned(scale * np.cumsum(rng.uniform(0.3, 2, n)), seed)
    v = symmetric(seed, n)

    def back(x: Any) -> Any:
        w, vectors = fnp.linalg.eigh(x)
        return (vectors * w) @ vectors.mT

    value, tangent = fg.jvp(back, (x,), (v,))
    assert_allclose(value, x, rtol=1e-9, atol=1e-12 * scale)
    assert_allclose(tangent, v, rtol=1e-8, atol=1e-10)
    assert_allclose(fg.vjp(back, x)[1](v)[0], v, rtol=1e-8, atol=1e-10)


def test_derivatives_of_eigenvectors_agree_with_many_digits() -> None:
    along = symmetric(11)
    tangent = np.asarray(
        fg.jvp(lambda x: fnp.linalg.eigh(x).eigenvectors ** 2, (DISTINCT,), (along,))[1]
    )
    with mpmath.workdps(40):

        def squares(t: Any) -> Any:
            x = mpmath.matrix(DISTINCT.tolist()) + t * mpmath.matrix(along.tolist())
            vectors = mpmath.eigsy(x)[1]
            return vectors.apply(lambda each: each**2)

        step = mpmath.mpf(10) ** -12
        expected = (squares(step) - squares(-step)) / (2 * step)
        assert_allclose(tangent, np.array(expected.tolist(), float), rtol=1e-11, atol=1e-12)


def test_numpys_functions_reach_these() -> None:
    found = np.linalg.eigh(fg.tensor(DISTINCT))
    assert_array_equal(found.eigenvectors, np.linalg.eigh(DISTINCT).eigenvectors)
    g = fg.grad(lambda x: np.linalg.eigvalsh(x)[-1])(DISTINCT)
    v = np.linalg.eigh(DISTINCT).eigenvectors[:, -1]
    assert_allclose(g, np.outer(v, v), atol=1e-12)


def test_the_largest_component_of_complex_eigenvectors_is_positive() -> None:
    for seed in range(20):
        x = np.random.default_rng(seed).normal(size=(4, 4))
        w, v = map(np.asarray, fnp.linalg.eig(x))
        assert_allclose(x @ v, v * w, rtol=1e-9, atol=1e-9)
        for column in v.T[w.imag != 0]:
            largest = column[np.argmax(abs(column))]
            assert largest.real > 0
            assert largest.imag == 0
