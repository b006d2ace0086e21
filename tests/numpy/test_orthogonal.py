"""Singular value decompositions and orthogonal factors: zeros, equal values, and full bases."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, DegenerateError, MatrixError, MatrixShapeError
from tests.together import together

RNG = np.random.default_rng(3)
TALL = RNG.standard_normal((4, 3))
COMPLEX = TALL + 1j * RNG.standard_normal((4, 3))
WEIGHTS = RNG.standard_normal((4, 3))


def of_values(s: Any, seed: int = 1, rows: int = 4) -> Any:
    """A matrix of some singular values."""
    rng = np.random.default_rng(seed)
    u = np.linalg.qr(rng.standard_normal((rows, len(s))))[0]
    v = np.linalg.qr(rng.standard_normal((len(s), len(s))))[0]
    return (u * s) @ v.T


def reconstruct(x: Any, full: bool = False) -> Any:
    u, s, vh = fnp.linalg.svd(x, full_matrices=full)
    k = s.shape[-1]
    return (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]


@together("full", [False, True])
@together(
    "x", [TALL, TALL.T, TALL[:3], COMPLEX, np.conj(COMPLEX.T), np.diag([2.0, 1.0, 0.0])], ids=str
)
def test_the_factors_make_the_matrix_in_derivatives_too(x: Any, full: bool) -> None:
    v = (np.cos(np.arange(x.size)) * (1 + 1j if np.iscomplexobj(x) else 1)).reshape(x.shape)

    def back(x: Any) -> Any:
        return reconstruct(x, full)

    value, tangent = fg.jvp(back, (x,), (v,))
    assert_allclose(value, x, atol=1e-12)
    assert_allclose(tangent, v, atol=1e-9)
    assert_allclose(fg.vjp(back, x)[1](v)[0], v, atol=1e-9)
    assert_allclose(fg.vmap(lambda x: fg.vjp(back, x)[1](v)[0])(np.stack([x, x]))[1], v, atol=1e-9)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**31), st.sampled_from([1e-6, 1.0]))
@settings(max_examples=25, deadline=None)
def test_q_and_r_make_the_matrix_in_derivatives_too(
    rows: int, columns: int, seed: int, scale: float
) -> None:
    rng = np.random.default_rng(seed)
    x = scale * (rng.standard_normal((rows, columns)) + 2 * np.eye(rows, columns))
    v = rng.standard_normal(x.shape)
    for mode in ("reduced", "complete"):

        def back(x: Any, mode: str = mode) -> Any:
            q, r = fnp.linalg.qr(x, mode)
            return q @ r

        assert_allclose(fg.jvp(back, (x,), (v,))[1], v, rtol=1e-7, atol=1e-7)
        if mode == "reduced" or rows <= columns:
            assert_allclose(fg.vjp(back, x)[1](v)[0], v, rtol=1e-7, atol=1e-7)


def test_nuclear_norms_at_matrices_of_low_rank_have_the_least_subgradient() -> None:
    x = of_values([3.0, 1.0, 0.0])
    u, _, vh = np.linalg.svd(x, full_matrices=False)
    g = fg.grad(lambda x: fnp.sum(fnp.linalg.svdvals(x)))(x)
    assert_allclose(g, u[:, :2] @ vh[:2], atol=1e-12)
    assert not np.any(np.asarray(fg.grad(lambda x: fnp.linalg.svdvals(x)[0])(np.zeros((2, 2)))))


def test_equal_singular_values_have_sums_with_derivatives() -> None:
    x = of_values([2.0, 2.0, 1.0])
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    for f in (
        lambda x: fnp.sum(fnp.sin(fnp.linalg.svdvals(x))),
        lambda x: fnp.sum(fnp.sin(fnp.linalg.svd(x, full_matrices=False)[1])),
    ):
        assert_allclose(fg.grad(f)(x), (u * np.cos(s)) @ vh, atol=1e-12)

    def leading(x: Any) -> Any:
        u = fnp.linalg.svd(x, full_matrices=False)[0][:, :2]
        return fnp.sum(u @ u.mT * (WEIGHTS @ WEIGHTS.T))

    expected = fg.grad(lambda x: leading_by_resolvents(x))(x)
    assert_allclose(fg.grad(leading)(x), expected, atol=1e-7)


def leading_by_resolvents(x: Any) -> Any:
    """The same number without singular vectors: the projection is an integral of resolvents of
    x x^H, on a circle around 4 of radius 1.5."""
    square = x @ x.mT if isinstance(x, fg.Tensor) else x @ x.T
    points = 4 + 1.5 * np.exp(2j * np.pi * (np.arange(160) + 0.5) / 160)
    resolvents = fnp.linalg.inv(points[:, None, None] * np.eye(4) - square)
    projection = fnp.mean((points - 4)[:, None, None] * resolvents, axis=0).real
    return fnp.sum(projection * (WEIGHTS @ WEIGHTS.T))


def chosen(x: Any) -> Any:
    return fnp.linalg.svd(x)[0][0, 3] ** 2 + fnp.linalg.svd(x)[0][1, 3] * 0.5


REFUSED: dict[str, tuple[Callable[[Any], Any], Any, str]] = {
    "one of equal ones": (
        lambda x: fnp.linalg.svd(x, full_matrices=False)[0][0, 0],
        of_values([2.0, 2.0, 1.0]),
        "singular values. 2 and 2, positions 0 and 1, are equal up to rounding",
    ),
    "vectors of zeros": (
        lambda x: fnp.sum(WEIGHTS * fnp.linalg.svd(x, full_matrices=False)[0]),
        of_values([3.0, 1.0, 0.0]),
        "vectors of singular values that are zero are not unique",
    ),
    "a full basis": (
        lambda x: fnp.sum(fnp.linalg.svd(x)[0][:2, 2:] * np.array([[1.0, 2.0], [3.0, 4.0]])),
        TALL[:, :2],
        "vectors that complete an orthogonal basis",
    ),
    "a full basis of qr": (
        lambda x: fnp.sum(fnp.linalg.qr(x, "complete")[0][:2, 2:] * np.array([[1.0, 2], [3, 4]])),
        TALL[:, :2],
        "vectors that complete an orthogonal basis",
    ),
    "a phase": (
        lambda x: fnp.sum(fnp.linalg.svd(x, full_matrices=False)[0].real),
        COMPLEX,
        "depends on the phases of complex eigenvectors .or singular vectors.",
    ),
    "columns that depend": (
        lambda x: fnp.sum(WEIGHTS * fnp.linalg.qr(x)[0]),
        np.stack([TALL[:, 0], 2 * TALL[:, 0], TALL[:, 1]], axis=1),
        "qr: the matrix has linearly dependent columns",
    ),
}


@together("what", REFUSED)
def test_what_is_not_determined_is_refused(what: str) -> None:
    f, x, message = REFUSED[what]
    with pytest.raises(DegenerateError, match=message):
        fg.grad(f)(x)
    with pytest.raises(DegenerateError, match=message):
        fg.jit(fg.grad(f))(x)


def test_a_complement_as_a_space_is_determined() -> None:
    x = TALL[:, :2]

    def outside(x: Any) -> Any:
        rest = fnp.linalg.svd(x)[0][:, 2:]
        return fnp.sum(rest @ rest.mT * (WEIGHTS @ WEIGHTS.T))

    def of_qr(x: Any) -> Any:
        rest = fnp.linalg.qr(x, "complete")[0][:, 2:]
        return fnp.sum(rest @ rest.mT * (WEIGHTS @ WEIGHTS.T))

    def exact(x: Any) -> Any:
        projection = np.eye(4) - x @ fnp.linalg.solve(x.mT @ x, x.mT)
        return fnp.sum(projection * (WEIGHTS @ WEIGHTS.T))

    expected = fg.grad(exact)(fg.tensor(x))
    for f in (outside, of_qr):
        assert_allclose(fg.grad(f)(x), expected, atol=1e-10)
        assert_allclose(fg.jacfwd(f)(x), expected, atol=1e-10)


def test_the_singular_value_decomposition_of_hermitian_matrices() -> None:
    x = np.array([[1.0, 2.0], [2.0, -3.0]])
    assert_allclose(fnp.linalg.svd(x, hermitian=True)[1], np.linalg.svd(x)[1], rtol=1e-12)
    u, s, vh = fnp.linalg.svd(x, hermitian=True)
    assert_allclose((u * s) @ vh, x, atol=1e-12)

    def f(x: Any) -> Any:
        u, s, vh = fnp.linalg.svd((x + x.mT) / 2, hermitian=True)
        return fnp.sum(u**2 * fnp.sin(s)) + fnp.sum(vh[0] ** 2 * np.array([1.0, 2.0]))

    fg.testing.check_grads(f, (fg.tensor(x),), order=2)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ArgumentError, match="qr: mode has to be one of 'reduced', 'complete', 'r'"):
        fnp.linalg.qr(TALL, "raw")
    with pytest.raises(MatrixError, match="svd: LAPACK found no decomposition of the matrix"):
        fnp.linalg.svd(TALL * np.nan)
    with pytest.raises(MatrixShapeError, match="svdvals: x has to be a matrix"):
        fnp.linalg.svdvals([1.0])
