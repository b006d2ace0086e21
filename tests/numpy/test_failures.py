"""One matrix without a result: an error, or with ``failed="nan"`` NaN for it alone, in every mode.

The functions are discovered: the test fails for one with the keyword ``failed`` and no case here.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, DegenerateError, MatrixError
from funcgrad.scipy import linalg as scipy_linalg
from tests.together import together

NUMPY, SCIPY = fnp.linalg, scipy_linalg
RNG = np.random.default_rng(5)
NOISE = 0.3 * RNG.standard_normal((4, 3, 3))
GOOD = NOISE + np.swapaxes(NOISE, -1, -2) + np.diag([4.0, 5.5, 7.0])
ZERO, ONE, INFINITE = np.zeros((3, 3)), np.eye(3), np.full((3, 3), np.inf)
OTHER = GOOD[0] @ np.diag([1.0, 2.0, 4.0]) @ GOOD[0]
V = np.array([1.0, -2.0, 0.5])
PLACE = 2
"""Where in the stack the bad matrix is."""


@dataclass(frozen=True)
class Case:
    """A function of a matrix and of ``failed``.

    Attributes
    ----------
    call : callable
        ``(matrix, failed=) -> array or tuple of arrays``.
    bad : ndarray
    fails : int
        The order of the first derivative that the bad matrix lacks; 0 for the value.
    raises : bool
        Whether that is an error with ``failed="raise"``: LAPACK makes NaN of some infinities.
    """

    call: Callable[..., Any]
    bad: Any
    fails: int = 0
    raises: bool = True


def _(call: Callable[..., Any], bad: Any, fails: int = 0, raises: bool = True) -> Case:
    return Case(call, bad, fails, raises)


def plain(function: Callable[..., Any], *more: Any, **options: Any) -> Callable[..., Any]:
    return lambda a, failed="raise": function(a, *more, **options, failed=failed)


CASES: dict[Any, list[Case]] = {
    NUMPY.cholesky: [_(plain(NUMPY.cholesky), -ONE), _(plain(NUMPY.cholesky, upper=True), ZERO)],
    NUMPY.cond: [_(plain(NUMPY.cond), INFINITE, 0, False)],
    NUMPY.det: [_(plain(NUMPY.det), ZERO, 3)],
    NUMPY.eig: [_(plain(NUMPY.eig), INFINITE), _(plain(NUMPY.eig), np.diag([1.0, 1.0], 1), 1)],
    NUMPY.eigh: [
        _(plain(NUMPY.eigh), np.where(np.eye(3), np.nan, np.inf), 0, False),
        _(lambda a, failed: NUMPY.eigh(a, failed=failed)[1], ONE, 1),
    ],
    NUMPY.eigvals: [
        _(plain(NUMPY.eigvals), INFINITE),
        _(plain(NUMPY.eigvals), np.diag([1.0, 1.0], 1), 1),
    ],
    NUMPY.eigvalsh: [_(plain(NUMPY.eigvalsh), ONE, 2)],
    NUMPY.inv: [_(plain(NUMPY.inv), ZERO)],
    NUMPY.lstsq: [_(lambda a, failed: NUMPY.lstsq(a, V, failed=failed)[:2:3], INFINITE)],
    NUMPY.matrix_norm: [_(plain(NUMPY.matrix_norm, ord="nuc"), INFINITE, 0, False)],
    NUMPY.matrix_power: [_(plain(NUMPY.matrix_power, -2), ZERO)],
    NUMPY.matrix_rank: [],
    NUMPY.norm: [_(plain(NUMPY.norm, 2), INFINITE, 0, False)],
    NUMPY.pinv: [_(plain(NUMPY.pinv), INFINITE)],
    NUMPY.qr: [_(plain(NUMPY.qr), ZERO, 1)],
    NUMPY.slogdet: [_(lambda a, failed: NUMPY.slogdet(a, failed=failed)[1], ZERO, 1)],
    NUMPY.solve: [
        _(lambda a, failed: NUMPY.solve(a, V, failed=failed), ZERO),
        _(lambda a, failed: NUMPY.solve(a, a + 1.0, failed=failed), ZERO),
    ],
    NUMPY.svd: [
        _(plain(NUMPY.svd), INFINITE),
        _(lambda a, failed: NUMPY.svd(a, failed=failed)[0], ONE, 1),
        _(plain(NUMPY.svd, compute_uv=False), INFINITE, 0, False),
        _(plain(NUMPY.svd, False), ZERO, 1),
    ],
    NUMPY.svdvals: [_(plain(NUMPY.svdvals), INFINITE, 0, False)],
    NUMPY.tensorinv: [_(plain(NUMPY.tensorinv, 1), ZERO)],
    NUMPY.tensorsolve: [_(lambda a, failed: NUMPY.tensorsolve(a, V, failed=failed), ZERO)],
    SCIPY.cho_factor: [_(lambda a, failed: SCIPY.cho_factor(a, failed=failed)[0], -ONE)],
    SCIPY.cho_solve: [_(lambda a, failed: SCIPY.cho_solve((a, True), V, failed=failed), ZERO)],
    SCIPY.cholesky: [_(plain(SCIPY.cholesky), -ONE), _(plain(SCIPY.cholesky, True), -ONE)],
    SCIPY.eig: [_(plain(SCIPY.eig), INFINITE), _(plain(SCIPY.eig, right=False), INFINITE)],
    SCIPY.eigh: [
        _(lambda a, failed: SCIPY.eigh(OTHER, a, failed=failed), -ONE),
        _(lambda a, failed: SCIPY.eigh(OTHER, a, type=3, failed=failed), -ONE),
    ],
    SCIPY.eigh_tridiagonal: [
        _(lambda a, failed: SCIPY.eigh_tridiagonal(V, a[0, 1:], failed=failed)[1], INFINITE)
    ],
    SCIPY.eigvals: [_(plain(SCIPY.eigvals), INFINITE)],
    SCIPY.eigvalsh: [_(lambda a, failed: SCIPY.eigvalsh(OTHER, a, failed=failed), -ONE)],
    SCIPY.eigvalsh_tridiagonal: [
        _(
            lambda a, failed: SCIPY.eigvalsh_tridiagonal(V, a[0, 1:], failed=failed),
            INFINITE,
            0,
            False,
        )
    ],
    SCIPY.fractional_matrix_power: [
        _(plain(SCIPY.fractional_matrix_power, 0.3), -ONE),
        _(plain(SCIPY.fractional_matrix_power, -1), ZERO),
        _(plain(SCIPY.fractional_matrix_power, 0.3, dtype=complex), ZERO),
    ],
    SCIPY.funm: [
        _(plain(SCIPY.funm, fnp.exp), INFINITE),
        _(plain(SCIPY.funm, fnp.exp), np.diag([1.0, 1.0], 1), 1),
    ],
    SCIPY.inv: [_(plain(SCIPY.inv, assume_a="sym"), ZERO)],
    SCIPY.logm: [_(plain(SCIPY.logm), ZERO), _(plain(SCIPY.logm), -ONE)],
    SCIPY.lstsq: [_(lambda a, failed: SCIPY.lstsq(a, V, failed=failed)[0], INFINITE)],
    SCIPY.lu: [_(lambda a, failed: SCIPY.lu(a, failed=failed)[1:], INFINITE)],
    SCIPY.lu_factor: [
        _(lambda a, failed: SCIPY.lu_factor(a, failed=failed)[0], INFINITE),
        _(lambda a, failed: SCIPY.lu_factor(a, failed=failed)[0], ZERO, 1),
    ],
    SCIPY.lu_solve: [
        _(lambda a, failed, t=trans: SCIPY.lu_solve((a, np.arange(3)), V, t, failed=failed), ZERO)
        for trans in (0, 1)
    ],
    SCIPY.norm: [_(plain(SCIPY.norm, 2), INFINITE, 0, False)],
    SCIPY.orthogonal_procrustes: [
        _(lambda a, failed: SCIPY.orthogonal_procrustes(a, GOOD[0], failed=failed), INFINITE),
        _(lambda a, failed: SCIPY.orthogonal_procrustes(a, GOOD[0], failed=failed)[0], ZERO, 1),
    ],
    SCIPY.pinv: [_(plain(SCIPY.pinv), INFINITE)],
    SCIPY.pinvh: [_(plain(SCIPY.pinvh), INFINITE, 0, False)],
    SCIPY.polar: [
        _(plain(SCIPY.polar), INFINITE),
        _(lambda a, failed: SCIPY.polar(a, failed=failed)[0], ZERO, 1),
    ],
    SCIPY.qr: [_(plain(SCIPY.qr), ZERO, 1), _(plain(SCIPY.qr, mode="r"), ZERO, 1)],
    SCIPY.qr_multiply: [
        _(plain(SCIPY.qr_multiply, V), ZERO, 1),
        _(plain(SCIPY.qr_multiply, V, "left"), ZERO, 1),
    ],
    SCIPY.rq: [_(plain(SCIPY.rq), ZERO, 1)],
    SCIPY.schur: [_(plain(SCIPY.schur), INFINITE), _(plain(SCIPY.schur), ONE, 1)],
    SCIPY.solve: [
        _(lambda a, failed, k=kind: SCIPY.solve(a, V, assume_a=k, failed=failed), ZERO)
        for kind in ("gen", "pos", "sym", "upper triangular")
    ],
    SCIPY.solve_banded: [
        _(
            lambda a, failed: SCIPY.solve_banded((0, 0), fnp.diagonal(a)[None], V, failed=failed),
            ZERO,
        )
    ],
    SCIPY.solveh_banded: [
        _(lambda a, failed: SCIPY.solveh_banded(fnp.diagonal(a)[None], V, failed=failed), ZERO)
    ],
    SCIPY.solve_circulant: [
        _(lambda a, failed: SCIPY.solve_circulant(a[0], V, failed=failed), ZERO)
    ],
    SCIPY.solve_continuous_lyapunov: [
        _(lambda a, failed: SCIPY.solve_continuous_lyapunov(a, ONE, failed=failed), ZERO),
        _(lambda a, failed: SCIPY.solve_continuous_lyapunov(a, ONE, failed=failed), INFINITE),
    ],
    SCIPY.solve_discrete_lyapunov: [
        _(
            lambda a, failed, m=method: SCIPY.solve_discrete_lyapunov(
                a / 10, ONE, m, failed=failed
            ),
            10 * sign * ONE,
        )
        for method, sign in (("direct", 1), ("bilinear", -1))
    ],
    SCIPY.solve_sylvester: [
        _(lambda a, failed: SCIPY.solve_sylvester(a, a, ONE, failed=failed), ZERO)
    ],
    SCIPY.solve_toeplitz: [_(lambda a, failed: SCIPY.solve_toeplitz(a[0], V, failed=failed), ZERO)],
    SCIPY.solve_triangular: [
        _(lambda a, failed: SCIPY.solve_triangular(a, V, failed=failed), ZERO)
    ],
    SCIPY.sqrtm: [_(plain(SCIPY.sqrtm), -ONE), _(plain(SCIPY.sqrtm), ZERO, 1)],
    SCIPY.subspace_angles: [
        _(
            lambda a, failed: SCIPY.subspace_angles(a[:, :1], GOOD[0, :, 1:2], failed=failed),
            ZERO,
            1,
        )
    ],
    SCIPY.svd: [_(plain(SCIPY.svd), INFINITE)],
    SCIPY.svdvals: [_(plain(SCIPY.svdvals), INFINITE, 0, False)],
    SCIPY.tanm: [_(plain(SCIPY.tanm), INFINITE, 0, False)],
    SCIPY.tanhm: [_(plain(SCIPY.tanhm), INFINITE, 0, False)],
}
ALL = [
    pytest.param(case, id=f"{function.__module__.split('.')[1]}.{function.__name__}-{number}")
    for function, cases in CASES.items()
    for number, case in enumerate(cases)
]


def discovered() -> Iterator[Any]:
    for module in (NUMPY, SCIPY):
        for name in module.__all__:
            function = getattr(module, name)
            if inspect.isfunction(function) and "failed" in inspect.signature(function).parameters:
                yield function


def test_every_function_with_the_keyword_has_a_case() -> None:
    assert set(discovered()) == set(CASES)


@together("function", list(discovered()), ids=lambda f: f"{f.__module__}.{f.__name__}")
def test_another_word_is_refused(function: Any) -> None:
    required = [
        p
        for p in inspect.signature(function).parameters.values()
        if p.default is p.empty and p.kind is not p.VAR_POSITIONAL
    ]
    special = {"b": V, "d": V, "e": V[:2], "n": -1, "t": 0.5, "q": ONE, "l_and_u": (0, 0)}
    special |= {"ab": V[None], "c_or_cr": V, "c": V, "c_and_lower": (ONE, True)}
    special |= {"lu_and_piv": (ONE, np.arange(3)), "func": fnp.exp}
    args = [special.get(p.name, GOOD[0]) for p in required]
    if function in (NUMPY.tensorinv,):
        args.append(1)
    if function in (SCIPY.solve_sylvester,):
        args[1] = ONE
    if function in (SCIPY.subspace_angles,):
        args = [GOOD[0][:, :1], GOOD[1][:, :1]]
    with pytest.raises(ArgumentError, match=r"failed is 'raise'.* or 'nan'.*; not 'ignore'"):
        function(*args, failed="ignore")


def total(case: Case, failed: str = "nan") -> Callable[[Any], Any]:
    """The sum of all results, with different weights."""

    def function(a: Any) -> Any:
        parts = case.call(a, failed=failed)
        whole: Any = 0.0
        for part in parts if isinstance(parts, tuple) else (parts,):
            flat = fnp.ravel(part)
            weights = 1.0 + np.arange(flat.size) / 3
            whole = whole + (flat.real * weights).sum() + (flat.imag**2 * weights).sum()
        return whole

    return function


def derivatives(f: Callable[[Any], Any]) -> list[Callable[[Any], Any]]:
    """The value, and derivatives of the first and the second order in both modes."""
    direction = np.cos(np.arange(9.0)).reshape(3, 3)

    def along(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda a: fg.jvp(f, (a,), (direction,))[1]

    return [f, fg.grad(f), along(f), fg.grad(along(f)), along(fg.grad(f))]


ORDERS = [0, 1, 1, 2, 2]


def modes(f: Callable[[Any], Any]) -> dict[str, Callable[[Any], Any]]:
    def scanned(stack: Any) -> Any:
        return fg.scan(lambda carry, a: (carry, f(a)), 0.0, stack)[1]

    def chosen(stack: Any) -> Any:
        flags = np.ones(len(stack), bool)
        other = lambda a: f(a) * 0.0 + 7.0  # noqa: E731 - beside f
        return fg.vmap(lambda flag, a: fg.cond(flag, f, other, a))(flags, stack)

    return {
        "one by one": lambda stack: np.stack([f(fg.tensor(a)) for a in stack]),
        "vmap": fg.vmap(f),
        "jit": fg.jit(fg.vmap(f)),
        "scan": scanned,
        "cond": chosen,
    }


TRIED = [
    ("one by one", "vmap", "jit", "scan", "cond"),
    ("jit", "cond"),
    ("vmap",),
    ("vmap",),
    ("one by one",),
]


def is_refused(f: Callable[[Any], Any], a: Any) -> bool:
    try:
        f(fg.tensor(a))
    except (MatrixError, DegenerateError):
        return True
    return False


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.filterwarnings("ignore::scipy.linalg.LinAlgWarning")
@together("case", ALL, pieces=2)
def test_nan_is_for_the_bad_matrix_alone_in_every_mode(case: Case) -> None:
    bad = GOOD.copy()
    bad[PLACE] = case.bad
    others = [k for k in range(len(bad)) if k != PLACE]
    raising = derivatives(total(case, "raise"))
    for number, f in enumerate(derivatives(total(case))):
        fails = ORDERS[number] >= case.fails
        if case.raises and fails and ORDERS[number] == case.fails:
            assert is_refused(raising[number], case.bad), number
        for name, mode in modes(f).items():
            if name not in TRIED[number]:
                continue
            sound, mixed = np.asarray(mode(GOOD)), np.asarray(mode(bad))
            assert np.isfinite(sound).all(), (number, name)
            if case.fails < 3:  # cofactors are computed in another way beside a singular matrix
                assert (mixed[others] == sound[others]).all(), (number, name)
            assert_allclose(mixed[others], sound[others], rtol=1e-9, err_msg=str((number, name)))
            if fails:
                assert np.isnan(mixed[PLACE]).any(), (number, name, mixed[PLACE])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@together("case", ALL)
def test_the_results_of_stacks_and_of_one_matrix_are_nan(case: Case) -> None:
    if case.fails:
        return
    parts = case.call(fg.tensor(case.bad), failed="nan")
    for part in parts if isinstance(parts, tuple) else (parts,):
        assert np.isnan(part).any()
