"""Schur's form: SciPy's values, derivatives that signs and phases leave alone, and errors."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import (
    ArgumentError,
    DegenerateError,
    MatrixError,
    MissingOptionError,
    ShapeError,
)
from funcgrad.scipy.linalg import rsf2csf, schur
from tests.together import refused, together

RNG = np.random.default_rng(5)
PAIRS = np.kron(np.diag([1.0, 3.0]), [[1.0, 2.0], [-1.0, 1.0]]) + 0.3 * RNG.standard_normal((4, 4))
MIXED = np.diag([1.0, 2.0, 4.0, 7.0, 9.0]) + 0.8 * RNG.standard_normal((5, 5))
MIXED[1:3, 1:3] += [[0.0, 3.0], [-2.0, 0.0]]
COMPLEX = PAIRS + 0.5j * RNG.standard_normal((4, 4))
WEIGHTS = RNG.standard_normal((5, 5))


def test_matrices_have_blocks_and_single_eigenvalues() -> None:
    below = [np.count_nonzero(np.diag(scipy.linalg.schur(a)[0], -1)) for a in (PAIRS, MIXED)]
    assert below == [2, 1]


@together(
    "a", [PAIRS, MIXED, COMPLEX, MIXED.astype("f"), COMPLEX.astype("F"), np.eye(3, dtype=int)]
)
def test_values_and_dtypes_are_scipys(a: Any) -> None:
    for output in ("real", "complex", "r", "c"):
        expected: Any = scipy.linalg.schur(a, output)
        for ours, peer in zip(schur(a, output), expected, strict=True):
            assert ours.dtype == peer.dtype
            assert_array_equal(ours, peer)
        for word in ("lhp", "rhp", "iuc", "ouc"):
            moved = a - 2 * np.eye(len(a))
            peers: Any = scipy.linalg.schur(moved, output, sort=word)
            for ours, peer in zip(schur(moved, output, sort=word), peers, strict=True):
                assert_allclose(ours, peer, rtol=1e-12)
    form: Any = scipy.linalg.schur(a)
    for ours, peer in zip(rsf2csf(*schur(a)), scipy.linalg.rsf2csf(*form), strict=True):
        assert_allclose(ours, peer, atol=1e-5 if a.dtype.char in "fF" else 1e-13)


def test_empty_matrices_and_stacks() -> None:
    assert [x.shape for x in schur(np.zeros((0, 0)))] == [(0, 0), (0, 0)]
    t, z, count = schur(np.zeros((2, 0, 0)), sort="lhp")
    assert (t.shape, z.shape, count.shape) == ((2, 0, 0), (2, 0, 0), (2,))
    stack = np.stack([PAIRS, -PAIRS, PAIRS.T])
    for ours, peers in zip(schur(stack), zip(*map(schur, stack), strict=True), strict=True):
        assert_array_equal(ours, np.stack(peers))


# ------------------------------------------------------------------------------------ derivatives


def _diagonal(a: Any) -> Any:
    return fnp.diagonal(schur(a, "complex")[0])


def _sizes(a: Any) -> Any:
    t, z = schur(a, "complex")
    return abs(z) ** 2, abs(t)


def _whole(a: Any) -> Any:
    t, z = schur(a, "complex")
    return z @ t @ t @ fnp.conj(z.mT)


def _with_fixed_phases(a: Any) -> Any:
    t, z = schur(a, "complex")
    phases = z[0] / abs(z[0])
    return fnp.conj(phases)[None, :] * z, phases[:, None] * t * fnp.conj(phases)


def _spaces(a: Any) -> Any:
    """Projections on the spaces of the first columns."""
    z = schur(a, "complex")[1]
    return tuple(z[:, :k] @ fnp.conj(z[:, :k].mT) for k in (1, 3))


@together("f", [_diagonal, _sizes, _whole, _with_fixed_phases, _spaces])
@together("a", [PAIRS, COMPLEX])
def test_derivatives_that_do_not_depend_on_phases(f: Callable[..., Any], a: Any) -> None:
    fg.testing.check_grads(f, (a,), order=1 if np.iscomplexobj(a) else 2)


@together("f", [_diagonal, _sizes, _with_fixed_phases])
def test_second_derivatives_of_complex_matrices(f: Callable[..., Any]) -> None:
    def loss(x: Any, y: Any) -> Any:
        return sum(fnp.sum(abs(out - 0.3) ** 3) for out in fg.tree.leaves(f(x + 1j * y)))

    fg.testing.check_grads(loss, (COMPLEX.real, COMPLEX.imag), order=2)


@together("a", [PAIRS, MIXED, MIXED.T], ids=["pairs", "mixed", "turned"])
def test_derivatives_of_the_real_form(a: Any) -> None:
    """LAPACK's signs and its choice of each block are differentiated, too."""
    fg.testing.check_grads(schur, (a,), order=2)
    t, moved = (x[0] for x in fg.jvp(schur, (a,), (WEIGHTS[: len(a), : len(a)],)))
    assert_array_equal(np.asarray(moved)[np.asarray(t) == 0], 0)


def test_derivatives_of_sorted_forms_and_of_rotated_ones() -> None:
    fg.testing.check_grads(lambda a: schur(a, sort="ouc")[:2], (MIXED - 3 * np.eye(5),), order=2)
    fg.testing.check_grads(lambda a: rsf2csf(*schur(a)), (PAIRS,), order=2)


def test_every_mode() -> None:
    """vmap = loop and jit = eager, of values, gradients and second derivatives."""

    def loss(a: Any) -> Any:
        (t, z), form = schur(a), schur(a, "complex")[0]
        weights = fnp.asarray(WEIGHTS[:4, :4], a.dtype)
        return fnp.sum(weights * (t + z) ** 2) + fnp.sum(abs(form) * weights)

    def along(a: Any) -> Any:
        return fg.hvp(loss, (a,), (a * a,))

    stack = np.stack([PAIRS, PAIRS.T + 0.1, 2 * PAIRS - 1.0])
    for f in (loss, fg.grad(loss), along):
        one = np.stack([f(a) for a in stack])
        assert_allclose(fg.vmap(f)(stack), one, rtol=1e-11, atol=1e-12)
        assert_allclose(fg.jit(fg.vmap(f))(stack), one, rtol=1e-11, atol=1e-12)
        assert_allclose(fg.jit(f)(PAIRS), one[0], rtol=1e-11, atol=1e-12)
    single = fg.grad(loss)(PAIRS.astype("f"))
    assert single.dtype == np.float32
    size = fg.grad(lambda a: fnp.sum(abs(schur(a)[0])))(COMPLEX.astype("F"))
    assert size.dtype == np.complex64
    assert_allclose(size, fg.grad(lambda a: fnp.sum(abs(schur(a)[0])))(COMPLEX), rtol=2e-4)


def test_large_matrices_are_solved_by_halves() -> None:
    a = RNG.standard_normal((60, 60))
    a, e = a + np.diag(np.arange(60.0)), RNG.standard_normal((60, 60))
    for output in ("real", "complex"):
        (t, z), (dt, dz) = fg.jvp(lambda a, o=output: schur(a, o), (a,), (e,))
        back, skew = fnp.conj(z.mT), fnp.conj(z.mT) @ dz
        assert_allclose(dz @ t @ back + z @ dt @ back - z @ t @ back @ dz @ back, e, atol=1e-10)
        assert_allclose(skew + fnp.conj(skew.mT), 0, atol=1e-11)
        assert_array_equal(np.asarray(dt)[np.asarray(t) == 0], 0)


# ----------------------------------------------------------------------------------------- errors


def test_equal_eigenvalues_have_no_derivative() -> None:
    for output in ("real", "complex"):
        f = lambda a, o=output: abs(schur(a, o)[0][0, 0])  # noqa: E731
        a = 2.0 * np.eye(3)
        with pytest.raises(DegenerateError, match=r"schur: the eigenvalues 2\+0j and 2\+0j are"):
            fg.grad(f)(a)
        with pytest.raises(DegenerateError, match="and the form has no derivative"):
            fg.jvp(f, (a,), (WEIGHTS[:3, :3],))
        stack = np.stack([a, MIXED[:3, :3]])
        gradient = fg.grad(lambda a, o=output: fnp.sum(abs(schur(a, o, failed="nan")[0])))(stack)
        assert np.isnan(gradient[0]).all()
        assert np.isfinite(gradient[1]).all()


def test_a_block_that_is_a_rotation() -> None:
    rotation = np.array([[1.0, 2.0], [-2.0, 1.0]])
    for f in (lambda a: schur(a)[1][0, 0], lambda a: schur(a)[0][0, 0]):
        with pytest.raises(DegenerateError, match=r'a multiple of a rot.*pass output="complex"'):
            fg.grad(f)(rotation)
    ours, peer = fg.jacrev(lambda a: _whole(a).real)(rotation), fg.jacrev(lambda a: a @ a)
    assert_allclose(ours, peer(rotation), atol=1e-13)
    fg.testing.check_grads(_diagonal, (rotation,), order=1)


def test_phases_are_refused() -> None:
    for f in (lambda a: schur(a)[1][0, 0].real, lambda a: schur(a)[0][0, 1].imag):
        with pytest.raises(DegenerateError, match=r"depends on the phases.* abs\(z\) \*\* 2"):
            fg.grad(f)(COMPLEX)


test_what_is_refused = refused(
    [
        (lambda: schur(PAIRS, "odd"), ArgumentError, "schur: output has to be one of 'real'"),
        (lambda: schur(PAIRS, sort="odd"), ArgumentError, "schur: sort has to be one of 'lhp'"),
        (lambda: schur(PAIRS, sort=abs), MissingOptionError, "a function as sort is not avail"),
        (lambda: schur(PAIRS[:2]), ShapeError, "schur: a has to be square"),
        (lambda: schur(PAIRS * np.nan), MatrixError, "schur: the matrix has infinities or NaN"),
        (lambda: rsf2csf(PAIRS, MIXED), ShapeError, "T and Z have to be of one shape"),
    ]
)
