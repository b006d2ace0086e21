"""Every function of ``funcgrad.scipy.linalg`` has SciPy's signature and values, and derivatives.

The functions are discovered: the test of one without calls here fails.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import (
    ArgumentError,
    BatchError,
    DegenerateError,
    MatrixError,
    MissingOptionError,
    ShapeError,
    TracerError,
)
from funcgrad.scipy import linalg
from tests.together import refused, together
from tests.tools.benchmarks.coverage import of_some_versions

RNG = np.random.default_rng(11)
A = RNG.standard_normal((3, 3)) + 3 * np.eye(3)
Z = A + 0.5j * RNG.standard_normal((3, 3))
S, H = A + A.T, Z + Z.conj().T
P, Q = A @ A.T, Z @ Z.conj().T
B, V = RNG.standard_normal((3, 2)), RNG.standard_normal(3)
BANDS = np.array([[0.0, 0.5, -0.3, 0.2], [3.0, 4.0, 3.5, 5.0], [0.4, 0.1, 0.7, 0.0]])
COLUMN = np.array([4.0, 1.0, 0.5])
FACTORS, TALL = scipy.linalg.lu_factor(A), RNG.standard_normal((4, 2))
PAIRS = np.kron(np.diag([1.0, 3.0]), [[1.0, 2.0], [-1.0, 1.0]]) + 0.1 * RNG.standard_normal((4, 4))
CHOLESKY = scipy.linalg.cholesky(P)

Call = tuple[tuple[Any, ...], dict[str, Any]]


def _(*args: Any, **options: Any) -> Call:
    return args, options


CALLS: dict[str, list[Call]] = {
    "block_diag": [_(A, B)],
    "cho_factor": [_(P)],
    "cho_solve": [_((CHOLESKY, False), B)],
    "cholesky": [_(P, lower=True)],
    "circulant": [_(V), _(B)],
    "companion": [_(V), _(np.array([2.0, 1.0])), _(A)],
    "convolution_matrix": [_(V, 2, mode) for mode in ("full", "same", "valid")] + [_(V, 5, "same")],
    "coshm": [_(A), _(Z)],
    "cosm": [_(A), _(Z)],
    "det": [_(A), _(Z)],
    "dft": [_(3), _(4, "sqrtn"), _(5, scale="n"), _(0)],
    "diagsvd": [_(V, 3, 4), _(V, 5, 3)],
    "eig": [],
    "eigh": [],
    "eigh_tridiagonal": [],
    "eigvals": [],
    "eigvalsh": [
        _(S),
        _(H, lower=False),
        _(S, subset_by_index=[1, 2]),
        _(S, subset_by_value=(-100.0, scipy.linalg.eigvalsh(S)[1] + 0.1)),
        *[_(S, P, type=kind) for kind in (1, 2, 3)],
        *[_(H, Q, type=kind) for kind in (1, 2, 3)],
    ],
    "eigvalsh_tridiagonal": [
        _(V, V[:2]),
        _(V, V[:2], "i", (1, 2)),
        _(V, V[:2], "v", (-100.0, 0.5)),
    ],
    "expm": [_(A)],
    "expm_cond": [_(A)],
    "expm_frechet": [_(A, S), _(A, S, compute_expm=False)],
    "fiedler": [_(V)],
    "fiedler_companion": [_(RNG.standard_normal(k) + 2) for k in (2, 3, 4, 5, 6)],
    "fractional_matrix_power": [_(A, 0.3), _(A, -1.5), _(A, 3), _(A, -1)],
    "funm": [_(A, np.exp), _(Z, np.exp), _(A, lambda w: 1 / w)],
    "hadamard": [_(4), _(1)],
    "hankel": [_(V), _(V, B[:, 0])],
    "helmert": [_(4), _(3, full=True)],
    "hessenberg": [_(A), _(Z), _(A[:2, :2]), _(P, True), _(Z, calc_q=True)],
    "hilbert": [_(3)],
    "inv": [_(A), _(Q, assume_a="pos"), _(A, assume_a="lower triangular")],
    "invhilbert": [_(3), _(4, exact=True)],
    "invpascal": [_(3), _(4, "lower")],
    "khatri_rao": [_(A, B.T @ A)],
    "leslie": [_(V, V[:2] + 3)],
    "logm": [_(A)],
    "lstsq": [_(B, V), _(B, A), _(B.T, V[:2]), _(Z[:, :2], V)],
    "lu": [_(A)],
    "lu_factor": [_(A), _(TALL), _(TALL.T), _(Z)],
    "lu_solve": [_(FACTORS, B, trans) for trans in (0, 1)] + [_(FACTORS, V)],
    "matmul_toeplitz": [_(COLUMN, B), _((COLUMN, V), V)],
    "norm": [_(A), _(A, 1), _(Z, "nuc"), _(V, 3), _(A, axis=0), _(A, 2, keepdims=True)],
    "null_space": [],
    "orth": [],
    "orthogonal_procrustes": [_(A, S), _(TALL, TALL[::-1]), _(Z, H)],
    "pascal": [_(3), _(4, "upper", exact=False)],
    "pinv": [_(B), _(A, atol=1.0, return_rank=True), _(Z, rtol=0.5)],
    "pinvh": [_(S), _(H, atol=1.0, return_rank=True)],
    "polar": [_(A), _(TALL), _(TALL.T, "left"), _(Z), _(TALL, "left"), _(np.eye(3) * 2.0)],
    "qr": [_(A), _(TALL, mode="economic"), _(Z), _(TALL.T)],
    "qr_multiply": [
        *[_(A, B.T), _(A, B, "left"), _(A, V), _(TALL, TALL[:2], "left")],
        *[_(Z, B.T, conjugate=True), _(TALL.T, V[:2], "left")],
    ],
    "rq": [_(A), _(TALL.T, mode="economic"), _(Z)],
    "rsf2csf": [_(*scipy.linalg.schur(PAIRS[:2, :2]))],
    "schur": [_(A), _(A[:2, :2], sort="lhp"), _(PAIRS), _(PAIRS, "real", sort="ouc")],
    "sinhm": [_(A), _(Z)],
    "sinm": [_(A), _(Z)],
    "solve": [
        _(A, B),
        _(A, V, transposed=True),
        *[_(P, B, assume_a=kind) for kind in ("sym", "pos", "her", "gen", "banded")],
        *[_(A, B, assume_a=kind) for kind in ("upper triangular", "lower triangular", "diagonal")],
        _(Q, B, assume_a="positive definite"),
        _(H, B, assume_a="hermitian"),
        _(H, B, assume_a="sym", lower=True),
        _(A, B, assume_a="sym", lower=False),
        _(A, B, assume_a="her", lower=True),
    ],
    "solve_banded": [
        _((1, 1), BANDS, BANDS[0]),
        _((2, 0), BANDS + 3 * (BANDS[:1] * 0 + [[1], [0], [0]]), BANDS.T),
        _((1, 1), BANDS * (1 + 0.2j), BANDS.T),
    ],
    "solve_circulant": [
        _(COLUMN, V),
        _(V - np.mean(V), V, "lstsq", 1e-3),
        _(A[:2] + 0.5j, B, baxis=0, outaxis=-1),
        _(V, V, tol=1e-3, singular="lstsq"),
    ],
    "solve_continuous_lyapunov": [_(A, S)],
    "solve_discrete_lyapunov": [_(A * 0.2, S)],
    "solve_sylvester": [_(A, P, S)],
    "solve_toeplitz": [_(COLUMN, V), _((COLUMN, V), B), _(COLUMN + 0.2j, V)],
    "solve_triangular": [_(A, B)],
    "solveh_banded": [
        _(BANDS[:2], V[[0, 1, 2, 0]]),
        _(BANDS[1:], BANDS.T, lower=True),
        _(BANDS[1:] + np.array([[0.0], [0.3j]]), BANDS.T, lower=True),
        _(BANDS[:2] + np.array([[0.3j], [0.0]]), BANDS.T),
    ],
    "sqrtm": [_(A)],
    "subspace_angles": [
        _(TALL, TALL[::-1]),
        _(TALL, TALL[:, :1] + 0.1),
        _(TALL * 1j, TALL[::-1] + 0.2j),
    ],
    "svd": [],
    "svdvals": [_(A), _(Z)],
    "tanhm": [_(A * 0.3), _(Z * 0.3)],
    "tanm": [_(A * 0.3), _(Z * 0.3)],
    "toeplitz": [_(V, B[:, 0])],
}
NARROWER = ("fractional_matrix_power", "lstsq", "sqrtm")
"""Real results where SciPy has complex ones without imaginary parts: ``sqrtm`` in SciPy 1.15, the
sums of squares of ``lstsq`` from 1.18 on."""
NEW = {"inv": {"assume_a", "lower"}, "eigvals": {"overwrite_b"}}
"""Parameters that SciPy's functions have from 1.17 or 1.18 on."""
ALL = [(name, number) for name, calls in CALLS.items() for number in range(len(calls))]


def test_every_function_is_tried() -> None:
    assert sorted(CALLS) == sorted(linalg.__all__)


EXCLUDED = {
    "no numbers but answers and functions of LAPACK's": """LinAlgError LinAlgWarning bandwidth
        find_best_blas_type get_blas_funcs get_lapack_funcs ishermitian issymmetric""",
    "random, or changes of factors by what factorizing anew does": """
        clarkson_woodruff_transform qr_delete qr_insert qr_update""",
    "forms that depend on LAPACK's choices, which have no derivative where eigenvalues meet": """
        cdf2rdf cossin ldl matrix_balance ordqz qz""",
    "of stored diagonals: the whole matrix, or solveh_banded, serves": """
        cho_solve_banded cholesky_banded eig_banded eigvals_banded""",
    "no rule yet": "signm solve_continuous_are solve_discrete_are",
    "an old name of solve_continuous_lyapunov": "solve_lyapunov",
}


def test_every_function_of_scipys_is_here_or_has_a_reason() -> None:
    own = scipy.linalg
    theirs = {name for name in own.__all__ if not inspect.ismodule(getattr(own, name))}
    theirs -= set(of_some_versions("scipy.linalg"))
    reasons = {name for names in EXCLUDED.values() for name in names.split()}
    assert sorted(theirs - set(linalg.__all__) - reasons) == []
    assert sorted(set(linalg.__all__) & reasons) == []
    assert sorted((set(linalg.__all__) | reasons) - theirs) == []


@together("name", linalg.__all__)
def test_parameters_are_scipys(name: str) -> None:
    ours = inspect.signature(getattr(linalg, name)).parameters
    theirs = inspect.signature(getattr(scipy.linalg, name)).parameters
    kept = [x for x in theirs.values() if x.name not in ("disp", "blocksize")]  # deprecated
    added = ({"failed", "dtype"} | NEW.get(name, set())) - set(theirs)
    common = [each for each in ours.values() if each.name not in added]
    assert [each.name for each in common] == [each.name for each in kept]
    for own, peer in zip(common, kept, strict=True):
        assert own.kind == peer.kind
        # ``lower`` chooses a triangle only where it is given: see ``eigh``. In SciPy 1.18 an object
        # stands for an ``lwork`` that is not given.
        assert own.default in (peer.default, None if own.name in ("lower", "lwork") else own)


def _flat(found: Any) -> list[Any]:
    return [x for each in found for x in _flat(each)] if isinstance(found, tuple) else [found]


@together(("name", "number"), ALL)
def test_values_are_scipys(name: str, number: int) -> None:
    args, options = CALLS[name][number]
    if set(options) - set(inspect.signature(getattr(scipy.linalg, name)).parameters):
        pytest.skip(f"{name} of this SciPy has not all of {sorted(options)}")
    found = _flat(getattr(linalg, name)(*args, **options))
    expected = _flat(getattr(scipy.linalg, name)(*args, **options))
    for own, peer in zip(found, expected, strict=True):
        assert np.shape(own) == np.shape(peer)
        if name == "cho_factor" and np.ndim(peer):  # SciPy's has something below, too
            peer = np.triu(peer)
        assert_allclose(np.asarray(own), peer, rtol=2e-11, atol=1e-12)
        assert np.asarray(own).dtype.kind == np.asarray(peer).dtype.kind or name in NARROWER


@pytest.mark.slow
@together(("name", "number"), ALL)
def test_derivatives_in_every_mode(name: str, number: int) -> None:
    args, options = CALLS[name][number]
    places = [k for k, x in enumerate(args) if isinstance(x, np.ndarray)]
    if isinstance(args[0], tuple) and isinstance(args[0][0], np.ndarray):
        places = [*places, 0]
    if not places:
        return

    def f(*given: Any) -> Any:
        whole = list(args)
        for place, x in zip(places, given, strict=True):
            whole[place] = (x, *args[place][1:]) if isinstance(args[place], tuple) else x
        found = _flat(getattr(linalg, name)(*whole, **options))
        return tuple(x for x in found if hasattr(x, "dtype") and x.dtype.kind in "fc")

    values = [args[k][0] if isinstance(args[k], tuple) else args[k] for k in places]
    order = 1 if any(np.iscomplexobj(x) for x in values) or name in ("logm", "expm_cond") else 2
    fg.testing.check_grads(f, tuple(values), order=order)
    for own, staged in zip(f(*values), fg.jit(f)(*values), strict=True):
        assert_allclose(staged, own, rtol=1e-10, atol=1e-12)
    if "subset_by_value" in options or any(isinstance(x, str) and x == "v" for x in args):
        with pytest.raises(TracerError, match="the shape of the result depends on values"):
            fg.vmap(f, branches=False)(*[np.stack([x, x]) for x in values])
        for own, batch in zip(
            f(*values), fg.vmap(f)(*[np.stack([x, x]) for x in values]), strict=True
        ):
            assert_allclose(batch, np.stack([own, own]), rtol=1e-9, atol=1e-11)
        return
    batches = [np.stack([x, x * 1.01]) for x in values]
    for own, batch in zip(f(*[x[1] for x in batches]), fg.vmap(f)(*batches), strict=True):
        assert_allclose(batch[1], own, rtol=1e-9, atol=1e-11)


REFUSED_AS_STACKS = [
    *["expm_cond", "lstsq", "lu_solve", "norm", "orthogonal_procrustes", "solve_circulant"],
    *["solve_discrete_lyapunov", "subspace_angles", "solve_toeplitz"],
]
SOME_REFUSED = [("eigvalsh", 3), ("eigvalsh_tridiagonal", 2), ("matmul_toeplitz", 1), ("solve", 1)]
SOME_REFUSED += [("qr_multiply", k) for k in (2, 5)]
SOME_REFUSED += [("solve_banded", 0), ("solveh_banded", 0)]  # a vector beside a matrix


@together(
    ("name", "number"), [c for c in ALL if c[0] not in REFUSED_AS_STACKS and c not in SOME_REFUSED]
)
def test_stacks_have_the_values_of_their_examples(name: str, number: int) -> None:
    args, options = CALLS[name][number]
    function = getattr(linalg, name)
    if not any(isinstance(x, np.ndarray) for x in args):
        return

    def changed(change: Any) -> list[Any]:
        given = [change(x) if isinstance(x, np.ndarray) else x for x in args]
        return [x for x in _flat(function(*given, **options)) if hasattr(x, "dtype")]

    both = changed(lambda x: np.stack([x, x * 1.01, x, x]))  # no axis has 4 elements
    for k, scale in enumerate((1.0, 1.01)):
        for one, stack in zip(changed(lambda x, s=scale: x * s), both, strict=True):
            assert_allclose(stack[k], one, rtol=1e-9, atol=1e-11)


# ----------------------------------------------------- what is determined up to signs and turns


@together("kind", [1, 2, 3])
@together(("a", "b"), [(S, P), (H, Q)], ids=["real", "complex"])
def test_generalized_eigenvectors(a: Any, b: Any, kind: int) -> None:
    w, found = linalg.eigh(a, b, type=kind)
    expected, peer = scipy.linalg.eigh(a, b, type=kind)
    assert_allclose(w, expected, rtol=1e-11)
    assert_allclose(np.abs(found), np.abs(peer), rtol=1e-9)
    v = np.asarray(found)
    sides = {1: (a @ v, b @ v), 2: (a @ b @ v, v), 3: (b @ a @ v, v)}
    left, right = sides[kind]
    assert_allclose(left, right * np.asarray(w), atol=1e-10)

    def projection(a: Any, b: Any) -> Any:
        w, v = linalg.eigh(a, b, type=kind, subset_by_index=[0, 1])
        return v * fnp.exp(w / 50) @ fnp.conj(v.mT)

    fg.testing.check_grads(projection, (a, b), order=1)


def test_eigenvectors_of_all_kinds() -> None:
    w, v = linalg.eig(A)
    assert w.dtype == complex
    assert_allclose(A @ v, np.asarray(v) * np.asarray(w), atol=1e-12)
    assert_allclose(np.sort(linalg.eigvals(A)), np.sort(scipy.linalg.eigvals(A)), rtol=1e-11)
    assert_allclose(linalg.eig(A, right=False), linalg.eigvals(A))
    fg.testing.check_grads(lambda a: fnp.sum(linalg.eigvals(a) ** 2), (A,), order=2)
    w, v = linalg.eigh_tridiagonal(V, V[:2], select="i", select_range=(1, 2))
    whole = np.diag(V) + np.diag(V[:2], 1) + np.diag(V[:2], -1)
    assert v.shape == (3, 2)
    assert_allclose(whole @ v, np.asarray(v) * np.asarray(w), atol=1e-12)
    u, s, vh = linalg.svd(TALL, full_matrices=False)
    assert_allclose((u * s) @ vh, TALL, atol=1e-13)
    assert linalg.svd(TALL)[0].shape == (4, 4)
    assert_allclose(linalg.svd(TALL, compute_uv=False), scipy.linalg.svdvals(TALL))


def test_bases_of_spaces() -> None:
    low = TALL @ TALL[:3].T
    for a in (low, low * (1 + 1j), TALL, np.zeros((2, 3))):
        for name in ("orth", "null_space"):
            found = np.asarray(getattr(linalg, name)(a))
            expected = getattr(scipy.linalg, name)(a)
            assert found.shape == expected.shape
            assert_allclose(found @ found.conj().T, expected @ expected.conj().T, atol=1e-12)
    with pytest.raises(TracerError, match="orth: the shape of the result depends on values"):
        fg.vmap(linalg.orth, branches=False)(TALL[None])
    batch = np.stack([TALL, 2 * TALL[::-1]])
    assert_allclose(fg.vmap(linalg.orth)(batch), [linalg.orth(a) for a in batch], atol=1e-12)
    with pytest.raises(BatchError, match="need one shape"):
        fg.vmap(linalg.orth)(np.stack([TALL, np.zeros_like(TALL)]))

    def projection(a: Any) -> Any:
        q = linalg.orth(a)
        return q @ q.mT

    fg.testing.check_grads(projection, (TALL,), order=1)


def test_equal_singular_values_do_polar_factors_no_harm() -> None:
    e = RNG.standard_normal((3, 3))
    turned = fg.jvp(lambda a: linalg.polar(a)[0], (2 * np.eye(3),), (e,))[1]
    assert_allclose(turned, (e - e.T) / 4, atol=1e-14)
    with pytest.raises(MatrixError, match="a and -b have an eigenvalue in common"):
        fg.grad(lambda a: linalg.polar(a)[0][0, 0])(np.zeros((2, 2)))


def test_one_triangle_is_read_where_it_is_said() -> None:
    packed = np.tril(S) + np.triu(np.full((3, 3), 9.0), 1)
    assert_allclose(linalg.eigvalsh(packed, lower=True), scipy.linalg.eigvalsh(S))
    to_a = fg.grad(lambda a: fnp.sum(linalg.eigvalsh(a, lower=True) ** 3))(packed)
    assert not np.any(np.triu(to_a, 1))
    assert_allclose(linalg.solve(packed, V, lower=True, assume_a="sym"), np.linalg.solve(S, V))


def test_bands_stay_bands() -> None:
    """Neither values nor derivatives build the whole matrix."""
    n = 50
    bands, b = np.ones((3, n)), np.ones(n)
    bands[1] = 4

    def loss(bands: Any, b: Any) -> Any:
        return fnp.sum(linalg.solve_banded((1, 1), bands, b) ** 2)

    program = fg.program(fg.grad(loss, (0, 1)))(bands, b)
    shapes = [out.shape for equation in program.equations for out in equation.results]
    assert shapes
    assert max(map(np.prod, shapes)) <= 3 * n


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "circulant": (
        lambda: linalg.solve_circulant([1.0, 1.0], [1.0, 1.0]),
        MatrixError,
        "solve_circulant: the matrix is singular, or nearly so",
    ),
    "one of many": (
        lambda: fg.vmap(linalg.solve_circulant, branches=False)(A, A),
        TracerError,
        "solve_circulant: whether a matrix is singular is not known before a branch",
    ),
    "lengths": (lambda: linalg.solve_circulant(V, V[:2]), ShapeError, "vectors of one length"),
    "word": (
        lambda: linalg.solve_circulant(V, V, "no"),
        ArgumentError,
        "one of 'raise', 'lstsq', not",
    ),
    "structure": (lambda: linalg.solve(A, B, assume_a="odd"), ArgumentError, "not 'odd'"),
    "singular band": (
        lambda: linalg.solve_banded((0, 0), np.zeros((1, 2)), np.ones(2)),
        MatrixError,
        "solve_banded: the matrix is singular",
    ),
    "rows of bands": (
        lambda: linalg.solve_banded((1, 1), BANDS[:2], V),
        ShapeError,
        r"solve_banded: ab has to have l \+ u \+ 1 rows",
    ),
    "right side of bands": (
        lambda: linalg.solve_banded((1, 1), BANDS, V),
        ShapeError,
        r"solve_banded: b has to have as many rows as ab has columns; the shapes are \(3,\)",
    ),
    "trans": (
        lambda: linalg.lu_solve(FACTORS, V, 5),
        ArgumentError,
        "trans has to be one of 0, 1, 2, not",
    ),
    "pivoting": (lambda: linalg.qr(A, pivoting=True), MissingOptionError, "pivoting=True is not"),
    "mode": (lambda: linalg.qr(A, mode="reduced"), ArgumentError, "'r', 'economic', not 'red"),
    "left": (lambda: linalg.eig(A, left=True), MissingOptionError, "left=True is not available"),
    "pairs": (lambda: linalg.eigvals(A, S), MissingOptionError, r"pass eigvals\(solve\(b, a\)\)"),
    "type": (
        lambda: linalg.eigh(S, P, type=4),
        ArgumentError,
        "eigh: type has to be one of 1, 2, 3",
    ),
    "sizes": (
        lambda: linalg.eigh(S, P[:2, :2]),
        ShapeError,
        "eigh: a and b have to be of one size",
    ),
    "not positive": (lambda: linalg.eigh(S, -P), MatrixError, "not positive definite"),
    "subsets": (
        lambda: linalg.eigvalsh(S, subset_by_index=(0, 1), subset_by_value=(0, 1)),
        ArgumentError,
        "not both",
    ),
    "index": (
        lambda: linalg.eigvalsh(S, subset_by_index=(2, 3)),
        ArgumentError,
        "0 <= first <= last < 3, not",
    ),
    "values": (
        lambda: linalg.eigvalsh(S, subset_by_value=(1, 1)),
        ArgumentError,
        r"subset_by_value is \(low, high\) with low < high",
    ),
    "select": (
        lambda: linalg.eigh_tridiagonal(V, V[:2], select="i"),
        ArgumentError,
        "select is 'a' without a select_range",
    ),
    "diagonals": (
        lambda: linalg.eigh_tridiagonal(V, V),
        ShapeError,
        "eigh_tridiagonal: e has to have one element less than d",
    ),
    "side": (
        lambda: linalg.polar(A, "top"),
        ArgumentError,
        "side has to be one of 'right', 'left'",
    ),
    "procrustes": (
        lambda: linalg.orthogonal_procrustes(A, B),
        ShapeError,
        "A and B have to be matrices of one shape",
    ),
    "angles": (
        lambda: linalg.subspace_angles(A, TALL),
        ShapeError,
        "subspace_angles: A and B have to be matrices with as many rows",
    ),
    "tolerance": (lambda: linalg.pinv(A, atol=-1.0), ArgumentError, "atol and rtol are not neg"),
    "coefficients": (lambda: linalg.companion([1.0]), ShapeError, "a polynomial needs two coeff"),
    "ages": (lambda: linalg.leslie(V, V), ShapeError, "leslie: s has to have one element less"),
    "columns": (lambda: linalg.khatri_rao(A, TALL), ShapeError, "matrices with as many columns"),
    "convolution": (
        lambda: linalg.convolution_matrix(V, 0),
        ArgumentError,
        "convolution_matrix: n is at least 1",
    ),
    "scale": (lambda: linalg.dft(3, "m"), ArgumentError, "dft: scale has to be one of 'sqrtn'"),
    "power of two": (lambda: linalg.hadamard(3), ArgumentError, "hadamard: .*n must be"),
    "exact": (lambda: linalg.invhilbert(20, exact=True), ArgumentError, "do not fit 64 bits"),
    "singular values": (lambda: linalg.diagsvd(V, 2, 2), ShapeError, "2 x 2 has 2 singular"),
    "exponent": (
        lambda: linalg.fractional_matrix_power(A, V),
        ShapeError,
        "fractional_matrix_power: t has to be a scalar",
    ),
    "no logarithm": (
        lambda: linalg.fractional_matrix_power(np.zeros((2, 2)), 0.5),
        MatrixError,
        "logm: the matrix is singular",
    ),
    "direction": (
        lambda: linalg.expm_frechet(A, A[:2, :2]),
        ArgumentError,
        "expm_frechet: A and E have to be of one shape",
    ),
    "one matrix": (lambda: linalg.expm_cond(np.stack([A, A])), ShapeError, "one matrix"),
    "turned vectors": (
        lambda: fg.jvp(lambda a: linalg.eigh(a)[1], (np.eye(2),), (S[:2, :2],)),
        DegenerateError,
        "Along this direction they have no derivative",
    ),
}


test_what_is_refused_says_why = refused(REFUSED)


@pytest.mark.parametrize("number", [np.inf, np.nan])
def test_infinities_stay_where_they_are(number: float) -> None:
    for name, args in (
        ("diagsvd", ([number, 2.0], 2, 3)),
        ("leslie", ([0.1, 2.0, 3.0], [number, 0.5])),
    ):
        expected = getattr(scipy.linalg, name)(*args)
        np.testing.assert_array_equal(getattr(linalg, name)(*args), expected)


def test_unsigned_coefficients_and_no_numbers() -> None:
    unsigned = np.array([1, 2, 3], np.uint64)
    for name in ("companion", "fiedler_companion"):
        expected = getattr(scipy.linalg, name)(np.array([1.0, 2.0, 3.0]))
        np.testing.assert_array_equal(getattr(linalg, name)(unsigned), expected)
    assert linalg.hankel([], [1.0, 2.0, 3.0]).shape == (0, 3)
    assert linalg.hankel([1.0, 2.0], []).shape == (2, 0)


@pytest.mark.parametrize("name", ["orth", "null_space"])
def test_a_basis_is_of_one_matrix(name: str) -> None:
    with pytest.raises(ShapeError, match=f"{name}: A has to be one matrix"):
        getattr(linalg, name)(np.ones((2, 2, 2)))
