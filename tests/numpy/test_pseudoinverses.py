"""Pseudoinverses, least squares and bases of spaces where a tolerance cuts off what is not 0."""

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._primitives.stein_equation import stein
from funcgrad.errors import DegenerateError
from funcgrad.scipy import linalg
from funcgrad.testing import check_grads
from tests.together import together

SHAPES = [(4, 4), (6, 4), (4, 6)]


def matrix(shape, values, is_complex=False, seed=0):
    """A matrix with these singular values."""
    rng = np.random.default_rng(seed)
    factors = []
    for size in shape:
        x = rng.normal(size=(size, len(values)))
        x = x + 1j * rng.normal(size=x.shape) if is_complex else x
        factors.append(np.linalg.qr(x)[0])
    left, right = factors
    return (left * np.array(values)) @ right.conj().T


def projection(q):
    return q @ q.mT.conj()


@together("is_complex", [False, True])
@together("shape", SHAPES, ids=str)
@together("values", [(3.0, 2.0, 1.0, 0.5), (2.0, 2.0, 1.0, 1.0)], ids=str)
def test_what_is_cut_off_has_its_part_in_derivatives(shape, values, is_complex):
    a = matrix(shape, values, is_complex)
    b = np.random.default_rng(1).normal(size=(shape[0], 2))
    check_grads(lambda a: fnp.linalg.pinv(a, 0.6), (a,), order=2)
    order = 2 if len(set(values)) == 4 else 1  # lstsq returns the singular values as well
    check_grads(lambda a, b: fnp.linalg.lstsq(a, b, 0.6)[0], (a, b), order=order)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_functions_that_cut_by_a_tolerance(shape):
    a = matrix(shape, (3.0, 2.0, 1.0, 0.5))
    assert linalg.orth(a, 0.5).shape[1] == 2
    check_grads(lambda a: projection(linalg.orth(a, 0.5)), (a,))
    check_grads(lambda a: projection(linalg.null_space(a, 0.5)), (a,))
    check_grads(lambda a: linalg.pinv(a, atol=0.7), (a,), order=1)
    check_grads(lambda a: linalg.lstsq(a, np.ones(shape[0]), 0.5)[0], (a,), order=1)
    check_grads(lambda a: fnp.linalg.pinv(a, rtol=0.01), (a,))  # which cuts nothing off
    x = np.linspace(0.5, 2.0, 6)
    with pytest.warns(np.exceptions.RankWarning):
        check_grads(lambda x, y: fnp.polyfit(x, y, 3, rcond=0.1), (x, np.cos(3 * x)), order=1)


@pytest.mark.parametrize("is_complex", [False, True])
def test_hermitian_matrices_are_cut_by_the_sizes_of_eigenvalues(is_complex):
    u = matrix((4, 4), np.ones(4), is_complex)
    a = (u * np.array([3.0, -2.0, 1.0, -0.5])) @ u.conj().T
    check_grads(lambda a: fnp.linalg.pinv(a, 0.5, hermitian=True), (a,))
    check_grads(lambda a: linalg.pinvh(a, rtol=0.5), (a,), order=1)


def test_stacks_and_compiled_functions_are_cut_matrix_by_matrix():
    a = np.stack([matrix((4, 3), (3.0, 2.0, 1.0)), matrix((4, 3), (5.0, 1.0, 0.1), seed=1)])
    bounds = np.array([0.5, 0.1])
    check_grads(lambda a: fnp.linalg.pinv(a, bounds), (a,))
    check_grads(lambda a: fg.vmap(fnp.linalg.pinv)(a, bounds), (a,), order=1)
    check_grads(fg.jit(lambda a: fnp.linalg.pinv(a, 0.5)), (a,), order=1)
    inverse = fg.jit(fnp.linalg.pinv)  # whose tolerance is traced, too
    check_grads(lambda a: inverse(a, 0.5), (a,), order=1)


def test_low_rank_by_construction_keeps_its_derivative():
    rng = np.random.default_rng(2)
    left, right = rng.normal(size=(5, 2)), rng.normal(size=(2, 4))
    for rcond in (1e-12, 1e-3):
        check_grads(lambda b, c, r=rcond: fnp.linalg.pinv(b @ c, r), (left, right))


def test_nothing_is_lost_where_nothing_is_cut_off():
    a = matrix((5, 5), np.geomspace(1, 1e-6, 5))
    t = np.random.default_rng(3).normal(size=a.shape)

    def along(rcond):
        return fg.jit(lambda a: fg.jvp(lambda a: fnp.linalg.pinv(a, rcond), (a,), (t,))[1])(a)

    plain, traced = np.asarray(along(1e-15)), np.asarray(along(1e-10))
    assert abs(plain - traced).max() <= 1e-9 * abs(plain).max()


def test_a_matrix_that_fails_leaves_the_others():
    a = np.stack([matrix((3, 3), (3.0, 2.0, 1.0)), np.full((3, 3), np.nan)])
    weights = np.random.default_rng(4).normal(size=(3, 3))

    def f(a):
        return fnp.sum(fnp.linalg.pinv(a, 0.6, failed="nan")[0] * weights)

    g = np.asarray(fg.grad(f)(a))
    alone = fg.grad(lambda a: fnp.sum(fnp.linalg.pinv(a, 0.6) * weights))(a[0])
    np.testing.assert_allclose(g[0], alone, rtol=1e-12)


def test_equal_values_on_both_sides_of_the_tolerance_are_refused():
    one = np.eye(1)
    with pytest.raises(DegenerateError, match=r"counts, 2, and one that is cut off, 2, are equal"):
        stein(one * 0.5, one * 2.0, one)
    assert np.isnan(stein(one * 0.5, one * 2.0, one, failed="nan")).all()
