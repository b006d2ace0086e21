"""Linear algebra at repeated, clustered and distant eigenvalues, at singular matrices, and at
extreme scales: derivatives of determined results are right, others raise errors.

The expected values are differences along a direction, with 50 digits and steps of 1e-15. The
tolerance is measured as well: it is the change of the exact derivatives when the last digits of the
matrix and the direction change, which no algorithm can avoid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import DegenerateError, MatrixError
from funcgrad.scipy import linalg
from tests.together import together

GAPS = (0.0, 1e-15, 1e-12, 1e-8, 1e-4, 1.0)
MARGIN = 300.0

# SciPy's, of the matrices twice as large that derivatives of logarithms take.
pytestmark = [pytest.mark.filterwarnings("ignore:.*logm"), pytest.mark.usefixtures("quiet")]

Function = Callable[[Any], Any]


def numbers(seed: int, shape: tuple[int, ...], turn: complex = 0) -> Any:
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape) + turn * rng.standard_normal(shape)


def hermitian(x: Any) -> Any:
    return (x + np.conj(x.T)) / 2


def along(f: Function, x: Any, e: Any) -> list[float]:
    """Derivatives in a direction: forward mode, reverse mode, and the second derivative."""
    pulled, turned = fg.grad(f)(x), fg.hvp(f, (x,), (e,))
    inner = [float(np.sum(np.conj(np.asarray(each)) * e).real) for each in (pulled, turned)]
    return [float(fg.jvp(f, (x,), (e,))[1]), *inner]


# --------------------------------------------------------------------------------- many digits


@dataclass(frozen=True)
class Case:
    """A Hermitian matrix, and a direction to move it in."""

    x: Any
    e: Any

    @property
    def turn(self) -> complex:
        return 1j if np.iscomplexobj(self.x) else 0


@st.composite
def spectra(draw: Any, least: float | None = None) -> Case:
    """Eigenvalues from ``least`` on, or of any sign, zeros among them."""
    n = draw(st.integers(1, 3))
    gaps = [draw(st.sampled_from(GAPS)) for _ in range(n - 1)]
    start = draw(st.sampled_from([-1.0, 0.0, 1.0])) if least is None else least
    turn, seed = draw(st.sampled_from([0, 1j])), draw(st.integers(0, 999))
    v = np.eye(n) + 0 * turn
    kind = draw(st.sampled_from(["plain", "permuted", "turned"]))
    if kind == "permuted":
        v = v[np.random.default_rng(seed).permutation(n)]
    if kind == "turned":
        v = np.linalg.qr(numbers(seed, (n, n), turn))[0]
    x = hermitian(v @ np.diag(start + np.cumsum([0.0, *gaps])) @ np.conj(v.T))
    return Case(x, hermitian(numbers(seed + 1, (n, n), turn)))


def inner(w: Any, x: Any) -> Any:
    """The sum of the real products."""
    products = [
        mpmath.conj(mpmath.mpmathify(complex(w[i, j]))) * x[i, j]
        for i in range(x.rows)
        for j in range(x.cols)
    ]
    return sum(mpmath.re(each) for each in products)


def digits(x: Any) -> Any:
    return mpmath.matrix([[mpmath.mpmathify(each) for each in row] for row in x.tolist()])


def exactly(f: Function, x: Any, e: Any) -> list[Any]:
    step = mpmath.mpf(10) ** -15
    a, d = digits(x), digits(e)
    up, here, down = f(a + step * d), f(a), f(a - step * d)
    return [(up - down) / (2 * step), (up - 2 * here + down) / step**2, here]


def assert_right(f: Function, exact: Function, case: Case, may_refuse: bool) -> None:
    x, e = case.x, case.e
    noise = [1.1e-16 * np.max(abs(y)) * hermitian(numbers(7, y.shape, case.turn)) for y in (x, e)]
    with mpmath.workdps(50):
        expected = exactly(exact, x, e)
        moved = exactly(exact, x + noise[0], e + noise[1])
    # What is composed of eigenvalues divides by their distances in its second derivative.
    gaps = [float(each) for each in np.diff(np.linalg.eigvalsh(x)) if each > 0]
    size = float(abs(expected[2])) + 1
    bounds = [
        MARGIN * float(abs(one - two)) + 1e-12 * (float(abs(one)) + size)
        for one, two in zip(expected, moved, strict=True)
    ]
    try:
        found = along(f, x, e)
    except DegenerateError:
        assert may_refuse
        found = [float(np.sum(np.conj(np.asarray(fg.grad(f)(x))) * e).real)] * 2
    if may_refuse and gaps:
        bounds[1] += 1e-14 / min(gaps)
    for k, each in enumerate(found):
        own = max(k - 1, 0)
        assert abs(each - float(expected[own])) <= bounds[own], (k, each, expected[own], bounds)


def scalar(w: Any, x: Any) -> Any:
    return fnp.sum((np.conj(w) * x).real)


def of_spectrum(g: Function, w: Any, a: Any) -> Any:
    """A function of a Hermitian matrix, and its real products with another."""
    values, v = mpmath.eighe((a + a.transpose_conj()) / 2)
    return inner(w, v * mpmath.diag([g(each) for each in values]) * v.transpose_conj())


def of_values(g: Function, a: Any) -> Any:
    return sum(g(w) for w in mpmath.eighe((a + a.transpose_conj()) / 2, eigvals_only=True))


def powers(values: Any) -> Any:
    return fnp.sum(fnp.arctan(values))


@settings(max_examples=5)
@given(case=spectra())
def test_functions_of_matrices_whose_eigenvalues_meet(case: Case) -> None:
    w = numbers(99, case.x.shape, case.turn)
    values = partial(of_values, mpmath.atan)
    assert_right(lambda x: powers(fnp.linalg.eigvalsh(x)), values, case, True)
    assert_right(lambda x: powers(fnp.linalg.eigh(x)[0]), values, case, True)
    exponential = partial(of_spectrum, mpmath.exp, w)
    assert_right(lambda x: scalar(w, linalg.expm(x)), exponential, case, False)
    determinant = lambda a: mpmath.re(mpmath.det(a))  # noqa: E731 - one use
    assert_right(lambda x: fnp.linalg.det(x).real, determinant, case, False)


@settings(max_examples=3)
@given(case=st.one_of(spectra(1.0), spectra(1e-3)))
def test_functions_of_positive_matrices_whose_eigenvalues_meet(case: Case) -> None:
    w, b = numbers(99, case.x.shape, case.turn), numbers(98, (len(case.x), 2), case.turn)
    wb = numbers(97, b.shape, case.turn)
    inverse = partial(of_spectrum, lambda v: 1 / v, w)
    solved = lambda a: inner(wb, mpmath.inverse(a) * digits(b))  # noqa: E731 - three uses
    checks: list[tuple[Function, Function, bool]] = [
        (lambda x: scalar(w, linalg.logm(x)), partial(of_spectrum, mpmath.log, w), False),
        (lambda x: scalar(w, linalg.sqrtm(x)), partial(of_spectrum, mpmath.sqrt, w), False),
        (lambda x: scalar(w, fnp.linalg.inv(x)), inverse, False),
        (lambda x: scalar(w, fnp.linalg.pinv(x)), inverse, False),
        (lambda x: scalar(wb, fnp.linalg.solve(x, b)), solved, False),
        (lambda x: scalar(wb, fnp.linalg.lstsq(x, b)[0]), solved, False),
        (lambda x: scalar(wb, linalg.cho_solve(linalg.cho_factor(x), b)), solved, False),
        (lambda x: fnp.linalg.slogdet(x)[1], partial(of_values, mpmath.log), False),
        (lambda x: powers(fnp.linalg.svdvals(x)), partial(of_values, mpmath.atan), True),
        (lambda x: fnp.linalg.norm(x, "nuc"), partial(of_values, lambda v: v), True),
    ]
    for f, exact, may_refuse in checks:
        assert_right(f, exact, case, may_refuse)


# --------------------------------------------------------------------------------- scales

TALL = np.array([[1.0, 0.2], [0.1, 2.0], [0.3, 0.4]])
SQUARE = np.array([[2.0, 0.2, 0.1], [0.3, 1.5, -0.4], [0.1, 0.5, 1.0]])
POSITIVE = SQUARE @ SQUARE.T
B = np.array([1.0, 2.0, 3.0])
HOMOGENEOUS: dict[str, tuple[float, Any, Function]] = {
    "inv": (-1, SQUARE, lambda x: fnp.sum(fnp.linalg.inv(x) * POSITIVE)),
    "solve": (-1, SQUARE, lambda x: fnp.sum(fnp.linalg.solve(x, B))),
    "solve_triangular": (-1, SQUARE, lambda x: fnp.sum(linalg.solve_triangular(x, B))),
    "lstsq": (-1, TALL, lambda x: fnp.sum(fnp.linalg.lstsq(x, B)[0])),
    "pinv": (-1, TALL, lambda x: fnp.sum(fnp.linalg.pinv(x) * TALL.T)),
    "pinv of complex": (-1, TALL * (1 + 2j), lambda x: fnp.sum(fnp.linalg.pinv(x).real)),
    "pinv of a part": (-1, TALL.T, lambda x: fnp.sum(fnp.linalg.pinv(x, 0.6) * TALL)),
    "slogdet": (0, SQUARE, lambda x: fnp.linalg.slogdet(x)[1]),
    "cond": (0, SQUARE, fnp.linalg.cond),
    "cholesky": (0.5, POSITIVE, lambda x: fnp.sum(fnp.linalg.cholesky(x))),
    "sqrtm": (0.5, POSITIVE, lambda x: fnp.sum(linalg.sqrtm(x))),
    "qr": (1, TALL, lambda x: fnp.sum(fnp.linalg.qr(x)[1])),
    "eigvalsh": (1, POSITIVE, lambda x: fnp.sum(fnp.linalg.eigvalsh(x) * B)),
    "eigh": (0, POSITIVE, lambda x: fnp.sum(fnp.linalg.eigh(x)[1] ** 2 * SQUARE)),
    "eigvals": (1, SQUARE, lambda x: fnp.sum(fnp.linalg.eigvals(x).real ** 1 * B)),
    "svdvals": (1, TALL, lambda x: fnp.sum(fnp.linalg.svdvals(x) * B[:2])),
    "nuclear norm": (1, TALL, lambda x: fnp.linalg.norm(x, "nuc")),
    "norm": (1, TALL, fnp.linalg.norm),
    "lu": (1, SQUARE, lambda x: fnp.sum(linalg.lu(x)[2])),
}


@together("name", HOMOGENEOUS)
def test_derivatives_scale_as_functions_do(name: str) -> None:
    degree, x, f = HOMOGENEOUS[name]
    e = numbers(5, x.shape, 1j if np.iscomplexobj(x) else 0)
    e = hermitian(e) if x is POSITIVE else e
    usual = along(f, x, e)
    for power in (500, -500):
        scale = 2.0**power
        found = np.array(along(f, x * scale, e * scale)) * 2.0 ** (-degree * power)
        assert_allclose(found, usual, rtol=1e-11, atol=1e-13, err_msg=f"2**{power}")


@pytest.mark.parametrize("scale", [1e150, 1e-150])
@pytest.mark.parametrize("n", [2, 4])
def test_logarithms_of_matrices_of_any_size(scale: float, n: int) -> None:
    x = numbers(n, (n, n)) * 0.5 + 3 * np.eye(n)
    expected = linalg.logm(x) + np.log(scale) * np.eye(n)
    assert_allclose(linalg.logm(x * scale), expected, rtol=1e-13, atol=1e-12)
    f = lambda x: fnp.sum(linalg.logm(x) * np.arange(n))  # noqa: E731 - two uses
    assert_allclose(fg.grad(f)(x * scale) * scale, fg.grad(f)(x), rtol=1e-10, atol=1e-12)


def test_logarithms_where_scipy_has_none_are_refused() -> None:
    with pytest.raises(MatrixError, match=r"logm: SciPy found no logarithm .* Scale the matrix"):
        fg.hvp(lambda x: fnp.sum(linalg.logm(x)), (POSITIVE * 1e-150,), (POSITIVE,))


# --------------------------------------------------------------------------------- NaN and zeros


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_in_a_matrix_is_nan_in_derivatives_or_refused(bad: float) -> None:
    x = SQUARE.copy()
    x[1, 2] = bad
    for f in (fnp.linalg.det, lambda x: fnp.sum(linalg.expm(x))):
        for found in (fg.grad(f)(x), fg.hvp(f, (x,), (SQUARE,))):
            assert np.isnan(np.asarray(found)).any()
    refused: dict[str, Function] = {
        "logm: the matrix has infinities or NaN": linalg.logm,
        "sqrtm: the matrix has infinities or NaN": linalg.sqrtm,
        "sqrtm: the matrix 1 of the stack has": lambda x: linalg.sqrtm(np.stack([SQUARE, x])),
        "lstsq: LAPACK found no decomposition": lambda x: fnp.linalg.lstsq(x, B)[0],
    }
    for words, g in refused.items():
        with pytest.raises(MatrixError, match=words):
            g(x)


def test_eigenvectors_of_nothing() -> None:
    def projection(x: Any) -> Any:
        v = fnp.linalg.eigh(x)[1]
        return fnp.sum(v @ v.mT * SQUARE)

    assert_array_equal(fg.grad(projection)(np.zeros((3, 3))), np.zeros((3, 3)))
    with pytest.raises(DegenerateError):
        fg.grad(lambda x: fnp.sum(fnp.linalg.eigh(x)[1] * SQUARE))(np.zeros((3, 3)))


def test_tolerances_have_no_derivative() -> None:
    tolerance = fg.grad(lambda r: fnp.sum(fnp.linalg.pinv(SQUARE, r)))(0.05)
    assert float(tolerance) == 0.0


@pytest.mark.parametrize("x", [np.eye(2), np.diag([2.0, 2.0, 5.0])], ids=len)
@pytest.mark.parametrize("values", [fnp.linalg.eigvalsh, fnp.linalg.svdvals])
def test_second_derivatives_at_equal_values_are_right_in_every_mode(values: Any, x: Any) -> None:
    f = lambda x: fnp.sum(values(x) ** 3)  # noqa: E731 - five uses
    e = hermitian(numbers(3, x.shape))
    assert_allclose(fg.grad(f)(x), 3 * x @ x, rtol=1e-12, atol=1e-13)
    for way in (
        lambda: fg.hvp(f, (x,), (e,)),
        lambda: fg.vjp(fg.grad(f), x)[1](e)[0],
        lambda: fg.jit(fg.grad(lambda x: fnp.sum(fg.grad(f)(x) * e)))(x),
        lambda: fg.grad(lambda x: fg.jvp(f, (x,), (e,))[1])(x),
    ):
        assert_allclose(way(), 3 * (x @ e + e @ x), rtol=1e-11, atol=1e-12)


STACKED: dict[str, Function] = {
    "eigh": lambda x: spectral(x @ x.mT),
    "svd": lambda x: fnp.sum(fnp.linalg.svd(x, full_matrices=False)[0] ** 2 * SQUARE),
    "qr": lambda x: fnp.sum(fnp.linalg.qr(x)[0] * SQUARE) + fnp.sum(fnp.linalg.qr(x)[1]),
    "pinv": lambda x: fnp.sum(fnp.linalg.pinv(x) * SQUARE),
    "cholesky": lambda x: fnp.sum(fnp.linalg.cholesky(x @ x.mT) * SQUARE),
    "det": lambda x: fnp.sum(fnp.linalg.det(x)),
    "eig": lambda x: fnp.sum(abs(fnp.linalg.eig(x @ x.mT + SQUARE)[1]) ** 2 * SQUARE),
    "lu": lambda x: fnp.sum(linalg.lu(x)[1]) + fnp.sum(linalg.lu(x)[2]),
}


def spectral(x: Any) -> Any:
    """A number that eigenvectors of equal eigenvalues determine, whatever their basis."""
    v = fnp.linalg.eigh(x)[1]
    return fnp.sum(v @ (v.mT * B[:, None]) * SQUARE)


@together("name", STACKED)
def test_stacks_of_stacks_are_many_matrices(name: str) -> None:
    f = STACKED[name]
    x = numbers(3, (2, 1, 3, 3)) + np.diag([3.0, 5.0, 8.0])
    found = fg.grad(f)(x)
    expected = [fg.grad(f)(each) for each in x.reshape(2, 3, 3)]
    assert_allclose(np.asarray(found).reshape(2, 3, 3), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("gap", [0.0, 1e-15, 1e-12, 1e-8, 1e-4])
def test_matrices_nearly_without_a_basis_are_right_or_refused(gap: float) -> None:
    x = np.array([[2.0, 1.0, 0.0], [0.0, 2.0 + gap, 1.0], [0.0, 0.0, 3.0]])
    try:
        found = fg.grad(lambda x: fnp.sum(fnp.linalg.eigvals(x).real))(x)
    except (MatrixError, DegenerateError):
        assert gap < 1e-7
    else:
        assert_allclose(found, np.eye(3), atol=1e-15 / max(gap, 1e-15) ** 0.5 + 1e-6)
