"""Decompositions and special functions are computed by XLA, without the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import errors
from funcgrad.scipy import special

scipy_special: Any = pytest.importorskip("scipy.special")
pytest.importorskip("jax")

linalg = fnp.linalg
rng = np.random.default_rng(7)
WIDE = rng.standard_normal((2, 3, 4))
SQUARE = WIDE[..., :3] + np.diag([1.0, 3.0, 6.0])


def spectrum(a: Any) -> Any:
    w, v = linalg.eigh(a)
    return fnp.sum(fnp.abs(v) ** 2 * fnp.sin(w)[..., None, :], axis=-1)


def shares(a: Any, full: bool = False) -> Any:
    u, s, vh = linalg.svd(a, full_matrices=full)
    k = s.shape[-1]
    return fnp.abs(u[..., :k]) ** 2 @ (s[..., None] * fnp.abs(vh[..., :k, :]) ** 2)


def factors(a: Any, mode: str = "reduced") -> Any:
    q, r = linalg.qr(a, mode)
    return fnp.abs(q) @ fnp.abs(r)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "eigenvectors": lambda a: spectrum(a[..., :3]),
    "of the other triangle": lambda a: linalg.eigvalsh(a[..., :3], UPLO="U"),
    "singular vectors": shares,
    "full ones": lambda a: shares(a[..., :2], full=True),
    "singular values": linalg.svdvals,
    "orthogonal factors": factors,
    "of tall matrices": lambda a: factors(fnp.swapaxes(a, -1, -2), "complete"),
    "pseudoinverses": linalg.pinv,
    "a part of them": lambda a: linalg.pinv(a, rcond=0.5),
    "least squares": lambda a: linalg.lstsq(a[0], a[1, :, :2], rcond=None)[0],
    "conditions": lambda a: (linalg.cond(a), linalg.matrix_rank(a), linalg.norm(a[0], "nuc")),
}


def on_device(f: Callable[..., Any], *args: Any) -> Any:
    return fg.get(fg.jit(f)(*fg.put(args, "xla:cpu:0", host="never")))


def assert_near(one: Any, other: Any, tolerance: float) -> None:
    for x, y in zip(fg.tree.leaves(one), fg.tree.leaves(other), strict=True):
        assert np.asarray(x).dtype == np.asarray(y).dtype
        np.testing.assert_allclose(x, y, tolerance, tolerance)


def everything(a: Any) -> dict[str, Any]:
    return {name: f(a) for name, f in FUNCTIONS.items()}


@pytest.mark.parametrize(
    "dtype",
    [np.complex128, *[pytest.param(d, marks=pytest.mark.slow) for d in (np.float64, np.float32)]],
)
def test_results_and_gradients_are_those_of_the_host(dtype: type) -> None:
    def both(a: Any) -> Any:
        out, pullback = fg.vjp(everything, a)
        cotangents = fg.tree.map(lambda x: fnp.cos(fnp.arange(x.size).reshape(x.shape)), out)
        cts = fg.tree.map(lambda ct, x: ct.astype(x.dtype), cotangents, out)
        return out, pullback(cts)

    a: Any = WIDE.astype(dtype) + (1j * WIDE[::-1] if dtype is np.complex128 else 0)
    assert_near(on_device(both, a), both(fg.tensor(a)), 2e-3 if a.dtype == np.float32 else 1e-9)


@pytest.mark.slow
def test_second_derivatives_are_those_of_the_host() -> None:
    def every(a: Any, b: Any) -> Any:
        first = fg.jacfwd(lambda a: (spectrum(a), shares(a), factors(a), linalg.pinv(a)))
        second = fg.grad(lambda a: fnp.sum(first(a)[0] ** 2) + fnp.sum(first(a)[3] ** 2))
        return fg.vmap(lambda a: (first(a), second(a)))(a), fg.hvp(of_values, (a,), (b,))

    args = SQUARE, SQUARE[::-1]
    assert_near(on_device(every, *args), every(*map(fg.tensor, args)), 1e-8)


def of_values(a: Any) -> Any:
    return fnp.sum(linalg.eigvalsh(a) ** 3) + fnp.sum(linalg.svdvals(a) ** 4)


def test_equal_values_have_the_derivatives_of_the_host() -> None:
    turn = np.linalg.qr(SQUARE)[0]
    tied = turn @ (np.array([[2.0, 2, -1], [0, 0, 1]])[..., None] * turn.mT)

    def every(a: Any, b: Any) -> Any:
        return fg.jvp(of_values, (a,), (b,)), fg.grad(of_values)(a), fg.hvp(of_values, (a,), (b,))

    assert_near(on_device(every, tied, SQUARE), every(fg.tensor(tied), fg.tensor(SQUARE)), 1e-8)


def refused(a: Any) -> Any:
    return fg.grad(lambda a: fnp.sum(linalg.eigh(a)[1][..., 0]))(a)


def test_where_the_host_raises_an_error_a_device_has_nan() -> None:
    stack = np.stack([np.diag([1.0, 2.0]), np.eye(2), np.full((2, 2), np.nan)])
    flags = np.isnan(on_device(lambda a: (refused(a), linalg.eigvalsh(a)), stack)[0]).any((1, 2))
    assert flags.tolist() == [False, True, True]
    with pytest.raises(errors.DegenerateError):
        fg.jit(refused, backend="xla")(stack[1])


# ------------------------------------------------------------------------------ special functions

LINE = np.concatenate([np.geomspace(1e-8, 50, 80), -np.linspace(0.05, 20.3, 80)])
ENDS = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, -2.0, 1.0, 2.0])
POSITIVE = np.geomspace(1e-3, 1e3, 60)
SPECIAL: dict[str, tuple[Any, ...]] = {
    name: (np.concatenate([LINE, ENDS]),)
    for name in "dawsn gamma gammaln i0 i0e i1 i1e psi".split()
} | {
    "boxcox": (POSITIVE, np.linspace(-2, 2, 60)),
    "boxcox1p": (POSITIVE, np.linspace(-2, 2, 60)),
    "zeta": (
        np.concatenate([np.linspace(1.01, 9, 60), [1.0, 0.5, 2.0, 2.5, 3.0, np.inf, 1.0]]),
        np.concatenate([POSITIVE, [2.0, 2.0, np.inf, -2.0, 0.0, 2.0, np.inf]]),
    ),
}


@np.errstate(all="ignore")
def test_special_functions_have_the_digits_of_scipy() -> None:
    def every(given: Any) -> Any:
        return {name: getattr(special, name)(*args) for name, args in given.items()}

    for dtype in (np.float64, np.float32, np.float16):
        given = fg.tree.map(lambda x, dtype=dtype: x.astype(dtype), SPECIAL)
        for name, out in on_device(every, given).items():
            args = [x.astype(np.float64) for x in given[name]]
            f = getattr(scipy_special, name)
            exact = f(*args)
            size = np.maximum(np.abs(exact), 1 if name == "gammaln" else 0)
            for k, x in enumerate(args):
                both = [
                    f(*[x * h if j == k else y for j, y in enumerate(args)])
                    for h in (1.00001, 0.99999)
                ]
                change = np.abs(both[0] - both[1]) / 2e-5
                size = np.maximum(size, np.where(np.isfinite(change), change, 0))
            limit = np.finfo(dtype)
            assert out.dtype == dtype, name
            inside = np.isfinite(exact) & (np.abs(exact) < limit.max / 2)
            error = np.abs(out - exact)[inside]
            bound = 512 * limit.eps * size[inside] + limit.tiny
            assert np.all(error <= bound), (name, dtype, np.argwhere(error > bound))
            outside = ~np.isfinite(exact)
            np.testing.assert_array_equal(out[outside], exact[outside], err_msg=name)


def test_derivatives_stay_on_the_device() -> None:
    def every(x: Any) -> Any:
        first = fg.grad(lambda x: fnp.sum(special.gammaln(x) + special.psi(x)))
        return first(x), fg.grad(lambda x: fnp.sum(first(x)))(x)

    assert_near(on_device(every, POSITIVE), every(fg.tensor(POSITIVE)), 1e-10)
