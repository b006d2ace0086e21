"""Pseudoinverses, and least squares by them.

With P = pinv(A) the tangent is ``dP = -P dA P + P P^H dA^H (1 - A P) + (1 - P A) dA^H P^H P``
(Golub and Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems
whose variables separate", 1973) as long as the rank does not change, as near matrices of full rank.
If the rank can grow, the pseudoinverse jumps, and this is its derivative along directions that keep
the rank.

A tolerance may cut off nonzero singular values. Then the second term X changes: for a singular
value s above and t below the tolerance, its element in the bases of singular vectors is, with M =
U^H dA V, ``(conj(M[t, s]) + M[s, t] t / s) / (s**2 - t**2)``, by the divided differences of the
function that is 1 / s and then 0 (Noferini, "A formula for the Fréchet derivative of a generalized
matrix function", 2017). So it solves ``X = P P^H (dA^H (1 - A P) + P dA B^H + X B B^H)``, where B
is the part that is cut off; the third term is the adjoint of the same term for A^H. The map from dA
to dP^H is its own adjoint, the Hessian of the sum of log s.

>>> pinv(np.array([[2.0, 0.0], [0.0, 0.0]]), np.float64(1e-15), hermitian=False)
array([[0.5, 0. ],
       [0. , 0. ]])
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from funcgrad._core.primitive import Kinks, Linearized, Primitive, Sample
from funcgrad._core.specs import Spec, dtype_of, shape_of
from funcgrad._core.structure.structures import OWNS
from funcgrad._core.trace import RAW, Value
from funcgrad._primitives.contraction import matmul
from funcgrad._primitives.eigen import converged
from funcgrad._primitives.failures import failing
from funcgrad._primitives.matrices import (
    Array,
    adjoint,
    batch_matrices,
    hermitian_of,
    linalg_dtype,
    of_stacks,
    real_dtype,
    stacks,
)
from funcgrad._primitives.stein_equation import stein
from funcgrad._primitives.structural import cast
from funcgrad._primitives.values_alone import svdvals


def _above_limit(x: Value, rcond: Value, **_: Hashable) -> Value:
    """How far singular values are above those that count as 0, where the rank changes."""
    values = svdvals(x)
    limit = rcond[..., None] if shape_of(rcond) else rcond
    return values - limit * values[..., :1]


def _pinv(x: Array, rcond: Array, hermitian: bool) -> Any:
    x = np.asarray(x, linalg_dtype("pinv", x.dtype))
    return converged("pinv", lambda x: np.linalg.pinv(x, rcond, hermitian), x)


def _parts(m: ModuleType, x: Array, rcond: Array | float) -> tuple[Array, Array, Array, Array, Any]:
    """Return u, s, vh, where singular values are not cut off, and where LAPACK failed."""
    u, s, vh = m.linalg.svd(x, full_matrices=False)
    counts = s > m.asarray(rcond)[..., None] * m.max(s, -1, keepdims=True, initial=0)
    return u, s, vh, counts, ~m.isfinite(s)


def _pinv_arrays(m: ModuleType, x: Array, rcond: Array, hermitian: bool) -> tuple[Any, Any]:
    x = hermitian_of(m, x, True) if hermitian else x
    u, s, vh, counts, wrong = _parts(m, x, rcond)
    shares = m.where(counts, 1 / m.where(counts, s, 1), 0)
    back, turned = [m.conj(m.swapaxes(y, -1, -2)) for y in (u, vh)]
    return m.matmul(turned * shares[..., None, :], back), wrong


def _cuts(x: Value, p: Value, rcond: Value) -> bool:
    """Whether a tolerance may have cut off more than the rounding errors of singular values.

    Where the matrix is known that is seen; where it is traced the tolerance says it.
    """
    rounding = max(8, *shape_of(x)[-2:]) * np.finfo(real_dtype(dtype_of(p))).eps
    if type(rcond) in RAW and not np.any(rcond > rounding):
        return False
    return type(x) not in RAW or type(p) not in RAW or not np.all(_rank(x, p) == min(p.shape[-2:]))


def _rank(x: Array, p: Array) -> Any:
    """The ranks of pseudoinverses, which are the traces of projections."""
    return np.rint(np.einsum("...ij,...ji->...", p, x).real)


def _outside(a: Value, p: Value, x: Value) -> Value:
    """Project columns onto the orthogonal complement of range(A): (1 - A A⁺) X."""
    return x - matmul(a, matmul(p, x))


def _push(
    tangents: tuple[Value, ...],
    out: Value,
    x: Value,
    rcond: Value,
    hermitian: bool,
    failed: str = "raise",
) -> Value:
    if tangents[0] is None:  # only the tolerance, on which nothing depends, changes
        return None
    if _cuts(x, out, rcond):
        return _push_cut(tangents[0], out, x, rcond, failed)
    change = adjoint(tangents[0])
    back = adjoint(out)
    rows = matmul(out, matmul(back, change))
    columns = matmul(matmul(change, back), out)
    within = matmul(matmul(out, tangents[0]), out)
    return rows - matmul(matmul(rows, x), out) + _outside(out, x, columns) - within


def _pull(
    ct: Value, out: Value, x: Value, rcond: Value, hermitian: bool, failed: str = "raise"
) -> tuple[Value, Value]:
    if _cuts(x, out, rcond):
        return adjoint(_push_cut(adjoint(ct), out, x, rcond, failed)), rcond * 0
    back, turned = adjoint(out), adjoint(ct)
    rows = matmul(matmul(turned, out), back)
    columns = matmul(back, matmul(out, turned))
    # The products of both come first: theirs with a third factor may leave the range.
    pulled = rows - matmul(matmul(x, out), rows) + columns - matmul(columns, matmul(out, x))
    return pulled - matmul(matmul(back, ct), back), rcond * 0


def _push_cut(dx: Value, out: Value, x: Value, rcond: Value, failed: str) -> Value:
    """The tangent where a tolerance may have cut off singular values that are not 0."""
    cut = cut_off(x, rcond, failed=failed)
    rows = _toward_cut(dx, out, x, cut, failed)
    columns = _toward_cut(adjoint(dx), adjoint(out), adjoint(x), adjoint(cut), failed)
    return rows + adjoint(columns) - matmul(matmul(out, dx), out)


def _toward_cut(dx: Value, p: Value, x: Value, cut: Value, failed: str) -> Value:
    """The term X of the tangent, by an equation of the smaller size."""
    back, away = adjoint(p), adjoint(cut)
    first = matmul(back, adjoint(dx))
    whole = first - matmul(matmul(first, x), p) + matmul(matmul(back, matmul(p, dx)), away)
    if shape_of(x)[-2] < shape_of(x)[-1]:
        return matmul(p, stein(back, cut, whole, failed=failed))
    whole = matmul(p, whole)
    inner = stein(p, away, matmul(whole, cut), failed=failed)
    return whole + matmul(p, matmul(back, matmul(inner, away)))


def _matrices(seed: int) -> Iterator[Any]:
    shapes = ((3, 3), (4, 2), (2, 4), (2, 3, 2), (1, 1), (0, 0), (0, 2, 2), (0, 2))
    yield from stacks(*shapes, seed=seed)


def _samples() -> Iterator[Sample]:
    for x in _matrices(121):
        yield Sample((x, np.full(x.shape[:-2], 1e-15)), {"hermitian": False})
    x = np.array([[2.0, 1.0], [1.0, -3.0]])
    yield Sample((x, np.array(1e-15)), {"hermitian": True}, smooth=False)
    yield Sample((np.ones((2, 2)), np.array(1e-15)), {"hermitian": False}, smooth=False)
    for x in stacks((3, 3), (4, 2), (2, 4), (2, 3, 2), (1, 1), (0, 2, 2), seed=125):
        yield Sample((x, np.full(x.shape[:-2], 0.6)), {"hermitian": False})
    yield Sample((np.diag([2.0, 1.0, 1.0]), np.array(0.5)), {"hermitian": True}, smooth=False)


pinv: Primitive = failing(
    Primitive(
        "pinv",
        _pinv,
        lambda x, rcond, hermitian: Spec(
            (*x.shape[:-2], x.shape[-1], x.shape[-2]), linalg_dtype("pinv", x.dtype)
        ),
        Linearized(_push, _pull),
        batch_matrices,
        _samples,
        structure=of_stacks(2, 0, arrays=_pinv_arrays),
        traits=OWNS,
        kinks=Kinks(_above_limit),
    )
)
"""Pseudoinverses; singular values count that are more than ``rcond`` times the greatest."""


# ------------------------------------------------------------------------------- the part cut off


def _cut_off(x: Array, rcond: Array) -> Any:
    x = np.asarray(x, linalg_dtype("pinv", x.dtype))
    return converged("pinv", lambda x: _cut_off_arrays(np, x, rcond)[0], x)


def _cut_off_arrays(m: ModuleType, x: Array, rcond: Array) -> tuple[Any, Any]:
    u, s, vh, counts, wrong = _parts(m, x, rcond)
    return m.matmul(u * m.where(counts, 0, s)[..., None, :], vh), wrong


def _push_cut_off(
    tangents: tuple[Value, ...], out: Value, x: Value, rcond: Value, failed: str = "raise"
) -> Value:
    if tangents[0] is None:
        return None
    return _cut_off_tangent(tangents[0], x, rcond, failed)


def _cut_off_tangent(dx: Value, x: Value, rcond: Value, failed: str) -> Value:
    inverse = pinv(x, rcond, hermitian=False, failed=failed)
    moved = _push_cut(dx, inverse, x, rcond, failed)
    inside = matmul(matmul(dx, inverse), x) + matmul(x, matmul(inverse, dx))
    return dx - inside - matmul(x, matmul(moved, x))


def _cut_off_samples() -> Iterator[Sample]:
    for number, x in enumerate(stacks((3, 3), (4, 2), (2, 4), (2, 3, 2), (0, 2, 2), seed=124)):
        yield Sample((x, np.full(x.shape[:-2], 1e-3 if number == 2 else 0.6)))


cut_off: Primitive = failing(
    Primitive(
        "cut_off",
        _cut_off,
        lambda x, rcond: Spec(x.shape, linalg_dtype("pinv", x.dtype)),
        Linearized(
            _push_cut_off,
            lambda ct, out, x, rcond, failed="raise": (
                _cut_off_tangent(ct, x, rcond, failed),
                rcond * 0,
            ),
        ),
        batch_matrices,
        _cut_off_samples,
        structure=of_stacks(2, 0, arrays=_cut_off_arrays),
        traits=OWNS,
        kinks=Kinks(_above_limit),
    )
)
"""The part ``A - A A⁺ A`` of matrices A that a tolerance cuts off."""


# --------------------------------------------------------------------------------- least squares


def _least_squares(a: Array, b: Array, rcond: float) -> Any:
    return converged("lstsq", lambda a: _solution(a, b, rcond), a)


def _solution(a: Array, b: Array, rcond: float) -> Any:
    if a.ndim == 2:
        return np.linalg.lstsq(a, b, rcond)[0]
    lead = a.shape[:-2]
    count = prod(lead)
    flat = [x.reshape(count, *x.shape[-2:]) for x in (a, b)]
    solutions = [np.linalg.lstsq(x, y, rcond)[0] for x, y in zip(*flat, strict=True)]
    dtype = linalg_dtype("lstsq", a.dtype, b.dtype)
    return np.asarray(solutions, dtype).reshape(*lead, a.shape[-1], b.shape[-1])


def _solution_arrays(m: ModuleType, a: Array, b: Array, rcond: float) -> tuple[Any, Any]:
    u, s, vh, counts, wrong = _parts(m, a, rcond)
    inner = m.matmul(m.conj(m.swapaxes(u, -1, -2)), b) / m.where(counts, s, 1)[..., None]
    inner = m.where(counts[..., None], inner, 0)
    return m.matmul(m.conj(m.swapaxes(vh, -1, -2)), inner), wrong


def _inverse(a: Value, out: Value, rcond: float, failed: str) -> Value:
    """The pseudoinverse in the precision of the solution."""
    precision = real_dtype(dtype_of(out))
    if real_dtype(dtype_of(a)) != precision:
        a = cast(a, dtype=dtype_of(out))
    return pinv(a, _bound(a, out, rcond), hermitian=False, failed=failed)


def _bound(a: Value, out: Value, rcond: float) -> Array:
    return np.full(shape_of(a)[:-2], rcond, real_dtype(dtype_of(out)))


def _push_solution(
    tangents: tuple[Value, ...], out: Value, a: Value, b: Value, rcond: float, failed: str = "raise"
) -> Value:
    da, db = tangents
    inverse = _inverse(a, out, rcond, failed)
    change = None if db is None else matmul(inverse, db)
    if da is None:
        return change
    if _cuts(a, inverse, rcond):
        bound = _bound(a, out, rcond)
        moved = matmul(_push_cut(da, inverse, a, bound, failed), b)
        return moved if change is None else change + moved
    turned = adjoint(da)
    residual = b - matmul(a, out)
    moved = matmul(inverse, matmul(adjoint(inverse), matmul(turned, residual)))
    moved = moved - matmul(inverse, matmul(da, out))
    moved = moved + _outside(inverse, a, matmul(turned, matmul(adjoint(inverse), out)))
    return moved if change is None else change + moved


def _pull_solution(
    ct: Value, out: Value, a: Value, b: Value, rcond: float, failed: str = "raise"
) -> tuple[Value, Value]:
    inverse = _inverse(a, out, rcond, failed)
    back = adjoint(inverse)
    y = matmul(back, ct)

    def of_a() -> Value:
        if _cuts(a, inverse, rcond):
            turned = matmul(b, adjoint(ct))  # the adjoint of the cotangent of the inverse
            return adjoint(_push_cut(turned, inverse, a, _bound(a, out, rcond), failed))
        residual = b - matmul(a, out)
        outside = _outside(inverse, a, ct)
        pulled = matmul(residual, adjoint(matmul(inverse, y))) - matmul(y, adjoint(out))
        return pulled + matmul(matmul(back, out), adjoint(outside))

    return of_a, y


def _solution_samples() -> Iterator[Sample]:
    rng = np.random.default_rng(122)
    for number, a in enumerate(_matrices(123)):
        b = rng.standard_normal((*a.shape[:-1], 2))
        yield Sample((a, b), {"rcond": 1e-15})
        if number == 1:
            yield Sample((a, b * (1 + 2j)), {"rcond": 1e-15})
        if 1 < number < 5:
            yield Sample((a, b), {"rcond": 0.6})
    yield Sample((np.ones((3, 2)), np.eye(3)), {"rcond": 1e-15}, smooth=False)


least_squares: Primitive = failing(
    Primitive(
        "least_squares",
        _least_squares,
        lambda a, b, rcond: Spec(
            (*a.shape[:-2], a.shape[-1], b.shape[-1]), linalg_dtype("lstsq", a.dtype, b.dtype)
        ),
        Linearized(_push_solution, _pull_solution, linear_in=(1,)),
        batch_matrices,
        _solution_samples,
        structure=of_stacks(2, 2, arrays=_solution_arrays),
        traits=OWNS,
        kinks=Kinks(lambda a, b, rcond, **_: _above_limit(a, rcond)),
    )
)
"""The shortest of all x that make ``|a x - b|`` least."""
