"""Derivatives of functions at equal eigenvalues and singular values, and at zero singular values.

With A = U S V^H, the gradient of a function F of singular values is G = U g V^H, where g has the
derivatives of F; for eigenvalues V is U. Along dA, with D = U^H dA V, and E and Y its Hermitian and
its skew part, G changes by U (dg + E (g_j - g_i) / (s_j - s_i) + Y (g_i + g_j) / (s_i + s_j)) V^H,
and outside the range of U by ``(1 - U U^H) dA V g / s``, and likewise for V.

Where two values are equal, the first quotient is k = H_ii - H_ij, where H has the second
derivatives of F (Lewis and Sendov, "Twice differentiable spectral functions", 2001). Where values
are zero, all quotients are k = H_ii: a smooth F is even there. Only dg is known, which is H times
the diagonal of D. But F is symmetric in equal values, so that dg_i - dg_j = k (D_ii - D_jj), and at
zeros it is even, so that dg_i = k D_ii. In randomly rotated bases, where these differ from 0, k
follows. Between a zero and a nonzero value that counts as equal to it, k is g / s.

>>> clusters(np.array([3.0, 2.0, 2.0, 1.0]))
[[1, 2]]
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from types import ModuleType
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._core.primitive import Linearized, Primitive, Sample
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import OWNS
from funcgrad._core.trace import Value
from funcgrad._primitives.eigen import (
    eigh,
    eigh_arrays,
    equal_bound,
    equal_share,
    near,
    nothing_bound,
)
from funcgrad._primitives.failures import failing
from funcgrad._primitives.matrices import Array, adjoint, batch_matrices, of_stacks
from funcgrad._primitives.singular_values import is_zero, svd, svd_arrays
from funcgrad.errors import DegenerateError

Frame: TypeAlias = tuple[Value, Value, Value]
"""U, the values and V^H."""

Run: TypeAlias = "Sequence[int] | Array"
"""The numbers of values that are equal."""


# ---------------------------------------------------------------------------------- turned bases


def clusters(s: Array, zeros: int = 0) -> list[list[int]]:
    """The indices of groups of equal values of one matrix, without the last ``zeros`` values."""
    runs: list[list[int]] = [[0]] if s.size > zeros else []
    for i, j in pairwise(range(s.size - zeros)):
        if abs(s[i] - s[j]) <= equal_bound(s):
            runs[-1].append(j)
        else:
            runs.append([j])
    return [run for run in runs if len(run) > 1]


def _zeros(s: Array, shape: tuple[int, ...]) -> Array:
    """The numbers of singular values that are zero."""
    return np.flatnonzero(is_zero(s, max(shape)))


def _numbers(like: Array, *shape: int) -> Any:
    """Random numbers, always the same, of the dtype of others."""
    rng = np.random.default_rng(20)
    x = rng.standard_normal(shape)
    x = x + 1j * rng.standard_normal(shape) if like.dtype.kind == "c" else x
    return x.astype(like.dtype)


def _completed(u: Array, zero: Array) -> Array:
    """Columns turned at random in the complement of all others."""
    others = np.delete(u, zero, -1)
    x = _numbers(u, len(u), len(zero))
    for _ in range(2):  # once more, for the digits that the first time loses
        x = x - others @ (np.conj(others.T) @ x)
    out = u.copy()
    out[:, zero] = np.linalg.qr(x)[0]
    return out


def _turned(u: Array, s: Array, vh: Array, hermitian: bool, g: Array | None) -> tuple[Array, Array]:
    """Vectors of equal values turned at random, of one matrix."""
    zero = np.zeros(0, int) if hermitian else _zeros(s, (u.shape[0], vh.shape[1]))
    for run in clusters(s, len(zero)):
        if g is not None and np.ptp(g[run]) <= nothing_bound(g) * np.max(np.abs(g)):
            continue
        q = np.linalg.qr(_numbers(u, len(run), len(run)))[0]
        u, vh = u.copy(), vh.copy()
        u[:, run] = u[:, run] @ q
        vh[run] = np.conj(q.T) @ vh[run]
    if len(zero) and (g is None or np.any(g[zero])):
        u, vh = _completed(u, zero), np.conj(_completed(np.conj(vh.T), zero).T)
    return u, vh


def _places(s: Array, shape: tuple[int, ...], hermitian: bool) -> list[tuple[int, ...]]:
    """The positions of the matrices of a stack that have equal values, or zeros."""
    if not s.size:
        return []
    if s.ndim == 1:  # in the time of few calls of NumPy's
        values, top = s.tolist(), max(map(abs, s[[0, -1]].tolist()))
        bound = equal_share(s) * top
        has_any = any(abs(x - y) <= bound for x, y in pairwise(values))
        if not hermitian:
            has_any = has_any or values[-1] <= max(shape[-2:]) * float(np.finfo(s.dtype).eps) * top
        return [()] if has_any and math.isfinite(sum(values)) else []
    flags = np.any(np.abs(np.diff(s)) <= equal_bound(s)[..., None], -1)
    if not hermitian:
        flags = flags | np.any(is_zero(s, max(shape[-2:])), -1)
    return [tuple(place) for place in np.argwhere(flags & np.all(np.isfinite(s), -1)).tolist()]


def turned(
    u: Array, s: Array, vh: Array, hermitian: bool, g: Array | None = None
) -> tuple[Array, Array]:
    """The vectors U and V^H, with vectors of equal values turned at random.

    For U g V^H with a known g only those that matter are turned, so that zeros stay zeros.
    """
    places = _places(s, (u.shape[-2], vh.shape[-1]), hermitian)
    if places:
        u, vh = np.array(u), np.array(vh)
    for i in places:
        u[i], vh[i] = _turned(u[i], s[i], vh[i], hermitian, None if g is None else g[i])
    return u, vh


def _svd(x: Array, **params: Hashable) -> Any:
    u, s, vh = svd.evaluate(x, **params)
    u, vh = turned(u, s, vh, hermitian=False)
    return u, np.where(is_zero(s, max(x.shape[-2:])), 0, s), vh


def _eigh(x: Array, **params: Hashable) -> Any:
    w, v = eigh.evaluate(x, **params)
    return w, turned(v, w, np.conj(np.swapaxes(v, -1, -2)), hermitian=True)[0]


def turned_svd_arrays(
    m: ModuleType, x: Array, full_matrices: bool = False, apart: bool = True
) -> tuple[tuple[Any, ...], Any]:
    (u, s, vh), wrong = svd_arrays(m, x, full_matrices)
    q, zero = _rotation(m, u, s, max(x.shape[-2:])), is_zero(s, max(x.shape[-2:]), m)
    u, v = [_with_turned(m, y, q, zero) for y in (u, _adjoint(m, vh))]
    return (u, m.where(zero, 0, s), _adjoint(m, v)), wrong


def _with_turned(m: ModuleType, u: Array, q: Array, zero: Array) -> Any:
    """Turn the first columns. If u has no others, draw the columns of zero singular values."""
    k = q.shape[-1]
    first = m.matmul(u[..., :k], q)
    if u.shape[-1] > k:
        return m.concatenate([first, u[..., k:]], -1)
    started = m.where(zero[..., None, :], _numbers(u, *u.shape[-2:]), first)
    return m.where(zero[..., None, :], m.linalg.qr(started)[0], first)


def turned_eigh_arrays(
    m: ModuleType, x: Array, lower: bool, apart: bool = True
) -> tuple[tuple[Any, ...], Any]:
    (w, v), wrong = eigh_arrays(m, x, lower)
    return (w, m.matmul(v, _rotation(m, v, w, None))), wrong


def _adjoint(m: ModuleType, x: Array) -> Any:
    return m.conj(m.swapaxes(x, -1, -2))


def _same(m: ModuleType, s: Array, size: int | None) -> Any:
    """Where two values are equal; with a size, singular values that are not zero."""
    if size is None:
        return near(s, m)
    some = ~is_zero(s, size, m)
    return near(s, m) & some[..., :, None] & some[..., None, :]


def _rotation(m: ModuleType, u: Array, s: Array, size: int | None) -> Any:
    """A unitary matrix with a random block for each group of equal values, else 1."""
    same, n = _same(m, s, size), s.shape[-1]
    several = m.sum(same, -1, keepdims=True) > 1
    return m.linalg.qr(m.where(same & several, _numbers(u, n, n), np.eye(n, dtype=u.dtype)))[0]


turned_svd: Primitive = replace(
    svd, name="turned_svd", evaluate=_svd, structure=of_stacks(2, arrays=turned_svd_arrays)
)
turned_eigh: Primitive = replace(
    eigh, name="turned_eigh", evaluate=_eigh, structure=of_stacks(2, arrays=turned_eigh_arrays)
)
"""The decompositions, with vectors of equal values turned at random, always in the same way."""


def frame_of(x: Value, hermitian: bool, lower: bool, failed: str) -> Frame:
    if not hermitian:
        u, s, vh = turned_svd(x, full_matrices=False, apart=True, failed=failed)
        return u, s, vh
    w, v = turned_eigh(x, lower=lower, apart=True, failed=failed)
    return v, w, adjoint(v)


# -------------------------------------------------------------------------- quotients that are 0/0


def _refuse(s: Array, run: Run, why: str) -> None:
    values = ", ".join([f"{value:.6g}" for value in s[run]])
    raise DegenerateError(
        f"The eigenvalues (or singular values) {values}, numbers {', '.join(map(str, run))}, are"
        f" equal or zero up to rounding, and {why}"
    )


_ROUGH: Final = (
    "the function of them has no second derivative there: it is not symmetric, or not even."
)
_SEVERAL: Final = (
    "their directions are not known in this order of modes. Use fg.hessian or fg.hvp,"
    " which are forward mode over reverse mode."
)


def _quotient(
    s: Array, run: Run, moved: Array, dg: Array, known: bool, greatest: float, noise: float
) -> float:
    """The k for which ``dg = k * moved``, or an error if there is none."""
    size = float(np.max(np.abs(dg)))
    if size <= nothing_bound(s) * greatest:
        return 0.0
    reach = float(np.max(np.abs(moved)))
    if not (known and reach):
        if size > noise:
            _refuse(s, run, _SEVERAL)
        return 0.0
    moved = moved / reach  # whose squares are in range
    k = float(np.sum(moved * (dg / size)) / np.sum(moved * moved)) * size
    if not np.max(np.abs(dg - k * moved)) <= 8 * np.finfo(s.dtype).eps ** 0.5 * greatest + noise:
        _refuse(s, run, _ROUGH)
    return k / reach


def _of_one(
    u: Array, s: Array, vh: Array, g: Array, d: Array, dg: Array, count: float, hermitian: bool
) -> Any:
    out = np.zeros_like(d)
    v = np.conj(vh.T)
    inner = np.conj(u.T) @ d @ v
    size, slope = np.max(np.abs(d), initial=0), np.max(np.abs(np.real(np.diag(inner))), initial=0)
    nothing, known = nothing_bound(d) * size, count <= 1.5
    greatest = np.max(np.abs(dg), initial=0)
    # Rounding errors of large terms remain where slopes, or the factors of slopes, cancel.
    noise = greatest / slope * size if slope else 0.0
    noise = nothing_bound(s) * max(noise, np.max(np.abs(g)) * size / max(1.0, np.max(np.abs(s))))
    noise = noise if known else 0.0
    zero = np.zeros(0, int) if hermitian else _zeros(s, d.shape)
    for run in clusters(s, len(zero)):
        block = inner[np.ix_(run, run)]
        block = (block + np.conj(block.T)) / 2
        beside = block - np.diag(np.diag(block))
        is_moved = np.max(np.abs(beside)) > nothing
        if is_moved and np.ptp(g[run]) > nothing_bound(g) * np.max(np.abs(g)):
            _refuse(s, run, _ROUGH)
        moved = np.real(np.diag(block))
        moved, change = moved - np.mean(moved), dg[run] - np.mean(dg[run])
        k = _quotient(s, run, moved, change, known and is_moved, greatest, noise)
        out += u[:, run] @ (k * beside) @ vh[run]
    if len(zero):  # between zeros and values that count as equal to them the quotient is g / s
        some, none = slice(zero[0]), slice(zero[0], None)
        straight = (inner[some, none] + np.conj(inner[none, some].T)) / 2
        pairs = np.where(near(s)[some, none], straight * (g[some] / s[some])[:, None], 0)
        out += u[:, some] @ pairs @ vh[none] + u[:, none] @ np.conj(pairs.T) @ vh[some]
    if len(zero) and (d.shape != (len(s),) * 2 or len(zero) > 1 or d.dtype.kind == "c"):
        first, second = np.delete(u, zero, 1), np.delete(v, zero, 1)
        block = d - first @ (np.conj(first.T) @ d)
        block = block - (block @ second) @ np.conj(second.T)
        moved = np.real(np.diag(inner)[zero])
        is_moved = np.max(np.abs(block)) > nothing
        k = _quotient(s, zero, moved, dg[zero], known and is_moved, greatest, noise)
        if k:
            out += k * block - u[:, zero] * dg[zero] @ vh[zero]
    return out


def _fitted(
    m: ModuleType,
    group: Array,
    moved: Array,
    dg: Array,
    known: Array,
    greatest: Array,
    noise: Array,
) -> tuple[Any, Any]:
    """Find k as ``_quotient`` does, for the group of each value; flags instead of errors."""
    bound = nothing_bound(dg) * greatest
    reach, size = [m.max(m.where(group, m.abs(x)[..., None, :], 0), -1) for x in (moved, dg)]
    usable = known & (reach > 0)
    scale, unit = [m.where(x > 0, x, 1)[..., None] for x in (reach, size)]
    a = m.where(group, moved[..., None, :] / scale, 0)
    b = m.where(group, dg[..., None, :] / unit, 0)
    squares = m.sum(a * a, -1)
    k = m.sum(a * b, -1) / m.where(squares > 0, squares, 1) * size
    misfit = m.max(m.abs(m.where(group, dg[..., None, :], 0) - k[..., None] * a), -1)
    rough = ~(misfit <= 8 * np.finfo(dg.dtype).eps ** 0.5 * greatest + noise)
    wrong = (size > bound) & m.where(usable, rough, size > noise)
    return m.where((size > bound) & usable, k / scale[..., 0], 0), wrong


def _at_ties_arrays(
    m: ModuleType,
    u: Array,
    s: Array,
    vh: Array,
    g: Array,
    d: Array,
    dg: Array,
    count: Array,
    hermitian: bool,
) -> tuple[Any, Any]:
    """Compute what ``_of_one`` does, for all matrices and groups together."""
    size = None if hermitian else max(d.shape[-2:])
    same, inner = _same(m, s, size), m.matmul(m.matmul(_adjoint(m, u), d), _adjoint(m, vh))
    eye = np.eye(s.shape[-1], dtype=bool)
    straight = (inner + _adjoint(m, inner)) / 2
    slopes = m.real(m.diagonal(inner, 0, -2, -1))
    reach, slope, greatest, weight, top = [
        m.max(m.abs(x), axes)[..., None]
        for x, axes in ((d, (-2, -1)), (slopes, -1), (dg, -1), (g, -1), (s, -1))
    ]
    known = count[..., None] <= 1.5
    noise = m.where(slope > 0, greatest / m.where(slope > 0, slope, 1) * reach, 0)
    noise = nothing_bound(s) * m.maximum(noise, weight * reach / m.maximum(top, 1))
    noise = m.where(known, noise, 0)
    beside = m.where(same & ~eye, straight, 0)
    is_moved = m.max(m.abs(beside), -1) > nothing_bound(d) * reach
    is_moved = m.any(same & is_moved[..., None, :], -1)
    number = m.maximum(m.sum(same, -1), 1)
    moved, change = [
        x - m.sum(m.where(same, x[..., None, :], 0), -1) / number for x in (slopes, dg)
    ]
    spread = m.max(m.where(same, m.abs(g[..., None, :] - g[..., :, None]), 0), -1)
    k, wrong = _fitted(m, same, moved, change, known & is_moved, greatest, noise)
    wrong = wrong | (is_moved & (spread > nothing_bound(g) * weight))
    within = k[..., None] * beside
    if hermitian:
        return m.matmul(m.matmul(u, within), vh), wrong
    zero = is_zero(s, max(d.shape[-2:]), m)
    pairs = near(s, m) & ~zero[..., :, None] & zero[..., None, :]
    share = m.where(zero, 0, g / m.where(zero, 1, s))[..., None]
    pairs = m.where(pairs, straight * share, 0)
    within = within + pairs + _adjoint(m, pairs)
    some = m.where(zero, 0, 1)[..., None, :].astype(s.dtype)
    first, second = u * some, _adjoint(m, vh) * some
    block = d - m.matmul(first, m.matmul(_adjoint(m, first), d))
    block = block - m.matmul(m.matmul(block, second), _adjoint(m, second))
    is_moved = m.max(m.abs(block), (-2, -1))[..., None] > nothing_bound(d) * reach
    several = m.sum(zero, -1, keepdims=True) > 1
    if d.shape[-1] != d.shape[-2] or d.dtype.kind == "c":
        several = several | m.any(zero, -1, keepdims=True)
    both = zero[..., :, None] & zero[..., None, :] & several[..., None]
    k, rough = _fitted(m, both, slopes, dg, known & is_moved, greatest, noise)
    one = k[..., None] * m.where(both & eye, 1, 0)  # of all zeros, or 0
    within = within - m.where(k != 0, dg, 0)[..., None] * m.where(both & eye, 1, 0)
    out = m.matmul(m.matmul(u, within), vh)
    return out + m.sum(one, (-2, -1))[..., None, None] * block / _count(m, both), wrong | rough


def _count(m: ModuleType, both: Array) -> Any:
    return m.maximum(m.sum(m.any(both, -1), -1), 1)[..., None, None]


def _at_ties(
    u: Array, s: Array, vh: Array, g: Array, d: Array, dg: Array, count: Array, hermitian: bool
) -> Any:
    out = np.zeros(d.shape, np.result_type(u, d))
    count = np.asarray(count)
    for i in _places(s, d.shape, hermitian):
        one = d[i].astype(out.dtype, copy=False)
        out[i] = _of_one(u[i], s[i], vh[i], g[i], one, dg[i], float(count[i]), hermitian)
    return out


def _known_to_be_smooth(s: Array, like: Array, hermitian: bool) -> Any:
    for place in _places(s, like.shape, hermitian):
        runs: list[Run] = [*clusters(s[place])]
        if not hermitian:
            runs.append(_zeros(s[place], like.shape[-2:]))
        is_square = like.shape[-1] == like.shape[-2] and like.dtype.kind != "c"
        for run in runs:
            if len(run) > 1 or (len(run) and not is_square):
                _refuse(s[place], run, "higher derivatives of functions of them are not known.")
    return np.zeros_like(like)


def _smooth_arrays(m: ModuleType, s: Array, like: Array, hermitian: bool) -> tuple[Any, Any]:
    wrong = m.sum(_same(m, s, None if hermitian else max(like.shape[-2:])), -1) > 1
    if not hermitian:
        zero = is_zero(s, max(like.shape[-2:]), m)
        is_square = like.shape[-1] == like.shape[-2] and like.dtype.kind != "c"
        wrong = wrong | (m.sum(zero, -1, keepdims=True) > (1 if is_square else 0))
    return m.zeros_like(like), wrong


def _smooth_samples() -> Iterator[Sample]:
    for _, s, _, _, d, _, _ in _tie_arguments():
        yield Sample((s, d), {"hermitian": False})


known_to_be_smooth: Primitive = failing(
    Primitive(
        "known_to_be_smooth",
        _known_to_be_smooth,
        lambda s, like, hermitian: like,
        Linearized(
            lambda tangents, out, s, like, hermitian, failed="raise": out * 0,
            lambda ct, out, s, like, hermitian, failed="raise": (None, ct * 0),
        ),
        batch_matrices,
        _smooth_samples,
        structure=of_stacks(1, 2, arrays=_smooth_arrays),
        traits=OWNS,
    )
)
"""Zeros in the shape of matrices; an error if values are equal, or zero."""


def _push_ties(tangents: tuple[Value, ...], out: Value, *args: Value, **params: Hashable) -> Value:
    if all(tangent is None for tangent in tangents[:4]):  # only the direction changes
        d, dg = (args[k] * 0 if tangents[k] is None else tangents[k] for k in (4, 5))
        return at_ties(*args[:4], d, dg, args[6], **params)
    return known_to_be_smooth(args[1], out, **params)


def _pull_ties(ct: Value, out: Value, *args: Value, **params: Hashable) -> tuple[Value, ...]:
    nothing = known_to_be_smooth(args[1], ct, **params)
    return None, None, None, None, nothing, None, None


def _tie_arguments() -> Iterator[tuple[Any, ...]]:
    rng = np.random.default_rng(85)
    for shape in ((3, 3), (4, 2), (2, 2, 3), (0, 2), (0, 2, 2)):
        x = rng.standard_normal(shape)
        k = min(shape[-2:])
        u, s, vh = np.linalg.svd(x, full_matrices=False)
        g, dg = rng.standard_normal((2, *shape[:-2], k))
        yield u, s, vh, g, rng.standard_normal(shape), dg, np.ones(shape[:-2])


def _tie_samples() -> Iterator[Sample]:
    for args in _tie_arguments():
        yield Sample(args, {"hermitian": False})


at_ties: Primitive = failing(
    Primitive(
        "at_ties",
        _at_ties,
        lambda u, s, vh, g, d, dg, count, hermitian: Spec(
            d.shape, np.result_type(u.dtype, d.dtype)
        ),
        Linearized(_push_ties, _pull_ties, linear_in=(4, 5)),
        batch_matrices,
        _tie_samples,
        structure=of_stacks(2, 1, 2, 1, 2, 1, 0, arrays=_at_ties_arrays),
        traits=OWNS,
    )
)
"""The change of G that quotients of 0 by 0 add; zeros where there are none."""
