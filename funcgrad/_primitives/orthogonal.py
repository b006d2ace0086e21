"""Orthogonal and triangular factors.

With A = Q R and M = Q^H dA R^-1 the change of Q within its space is Q W, where W is skew-Hermitian
and has the lower triangle of M: the diagonal of R stays real. So ``dR = Q^H dA - W R`` and
``dQ = dA R^-1 - Q (M - W)`` (Roberts and Roberts, "QR and LQ decomposition matrix backpropagation
algorithms for square, wide, and deep matrices", 2020). For wide matrices this holds for the first
square block.

>>> qr(np.array([[0.0, 2.0], [1.0, 0.0]]), complete=False)[1]
array([[-1., -0.],
       [ 0., -2.]])
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from funcgrad._core.primitive import Kinks, Linearized, Primitive, Sample
from funcgrad._core.specs import Spec, dtype_of, shape_of
from funcgrad._core.structure.structures import OWNS
from funcgrad._core.trace import Value
from funcgrad._primitives.complexes import imag, join_parts
from funcgrad._primitives.contraction import matmul
from funcgrad._primitives.eigen import complement
from funcgrad._primitives.failures import failing
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.joining import concatenate
from funcgrad._primitives.linear_systems import triangular_solve
from funcgrad._primitives.matrices import (
    Array,
    adjoint,
    batch_matrices,
    diagonal_matrix,
    diagonal_of,
    linalg_dtype,
    of_stacks,
    position_of,
    real_part,
    stacks,
    triangle,
)
from funcgrad._primitives.structural import view
from funcgrad.errors import DegenerateError


def _full_rank_arrays(m: ModuleType, r: Array) -> tuple[Any, Any]:
    size = m.abs(m.diagonal(r, 0, -2, -1))
    bound = r.shape[-1] * np.finfo(r.dtype).eps * m.max(size, -1, initial=0)
    return r, size <= bound[..., None]


def _full_rank(r: Array) -> Any:
    low = np.any(_full_rank_arrays(np, r)[1], -1)
    if np.any(low):
        raise DegenerateError(
            f"qr: the matrix{position_of(low)} has linearly dependent columns, so its factors are"
            " not unique, and have no derivative. Use svdvals, pinv or lstsq instead."
        )
    return r.copy()


def _full_rank_samples() -> Iterator[Sample]:
    for x in stacks((3, 3), (2, 2, 2), (0, 2, 2), (0, 0), seed=91):
        yield Sample((np.triu(x) + 3 * np.eye(x.shape[-1]),))


of_full_rank: Primitive = failing(
    Primitive(
        "of_full_rank",
        _full_rank,
        lambda r: r,
        Linearized(lambda tangents, out, r, failed="raise": tangents[0]),
        batch_matrices,
        _full_rank_samples,
        structure=of_stacks(2, arrays=_full_rank_arrays),
        traits=OWNS,
    )
)
"""A triangular factor that can be divided by; otherwise an error."""


def _qr(x: Array, complete: bool, m: ModuleType = np) -> Any:
    return tuple(m.linalg.qr(x, "complete" if complete else "reduced"))


def _result(x: Spec, complete: bool) -> tuple[Spec, Spec]:
    dtype = linalg_dtype("qr", x.dtype)
    *lead, m, n = x.shape
    k = m if complete else min(m, n)
    return Spec((*lead, m, k), dtype), Spec((*lead, k, n), dtype)


def _columns(x: Value, start: int, stop: int) -> Value:
    return view(x, key=Key((..., slice(start, stop))))


def _turn(m: Value) -> Value:
    """The imaginary parts of diagonals, as matrices; nothing of real ones."""
    if dtype_of(m).kind != "c":
        return 0.0
    return diagonal_matrix(join_parts(0.0, imag(diagonal_of(m))))


def _leading(r: Value, k: int) -> Value:
    return view(r, key=Key((..., slice(k), slice(k))))


def _push(
    tangents: tuple[Value, ...],
    outs: tuple[Value, Value],
    x: Value,
    complete: bool,
    failed: str = "raise",
) -> tuple[Value, Value]:
    (q, r), dx = outs, tangents[0]
    k, columns = min(shape_of(x)[-2:]), shape_of(q)[-1]
    first = _columns(q, 0, k)
    factor = of_full_rank(_leading(r, k), failed=failed)
    first_rows = adjoint(_columns(dx, 0, k))
    scaled = triangular_solve(
        adjoint(factor), first_rows, lower=True, unit_diagonal=False, failed=failed
    )
    moved = adjoint(scaled)
    inner = matmul(adjoint(first), moved)
    lower = triangle(inner, lower=True, diagonal=0.0)
    within = lower - adjoint(lower) + _turn(inner)
    dq = moved - matmul(first, inner - within)
    dr = matmul(adjoint(first), dx) - matmul(within, view(r, key=Key((..., slice(k), slice(None)))))
    if columns > k:
        beside = _columns(q, k, columns)
        dq = concatenate(dq, -matmul(first, matmul(scaled, beside)), axis=len(shape_of(q)) - 1)
        zeros = np.zeros((*shape_of(r)[:-2], columns - k, shape_of(r)[-1]), dtype_of(r))
        dr = concatenate(dr, zeros, axis=len(shape_of(r)) - 2)
    return dq, dr


def _pull(
    cts: tuple[Value, Value],
    outs: tuple[Value, Value],
    x: Value,
    complete: bool,
    failed: str = "raise",
) -> tuple[Value]:
    (qbar, rbar), (q, r) = cts, outs
    k, n = min(shape_of(x)[-2:]), shape_of(x)[-1]
    first, upper = _columns(q, 0, k), view(r, key=Key((..., slice(k), slice(None))))
    rows = None if rbar is None else view(rbar, key=Key((..., slice(k), slice(None))))
    inside = moved = None
    if qbar is not None:
        inside, moved = _split_cotangent(q, first, qbar, failed)
    within = inside
    if rows is not None:
        told = matmul(rows, adjoint(upper))
        within = -told if inside is None else inside - told
    told = triangle(within - adjoint(within), lower=True, diagonal=0.0) + _turn(within)
    factor = of_full_rank(_leading(r, k), failed=failed)
    if qbar is None:  # then everything is in the space of the first columns
        inner = _over_adjoint(told, factor, failed)
        if n == k:
            return (matmul(first, inner + rows),)
        return (matmul(first, _widened(inner, n) + rows),)
    scaled = _over_adjoint(moved + matmul(first, told - inside), factor, failed)
    pulled = scaled if n == k else _widened(scaled, n)
    return (pulled if rows is None else pulled + matmul(first, rows),)


def _split_cotangent(q: Value, first: Value, qbar: Value, failed: str) -> tuple[Value, Value]:
    """Split the cotangent of a complete Q into its components inside and outside span(Q₁)."""
    k, columns = shape_of(first)[-1], shape_of(q)[-1]
    first_bar = _columns(qbar, 0, k)
    inside = matmul(adjoint(first), first_bar)
    if columns == k:
        return inside, first_bar
    beside, beside_bar = _columns(q, k, columns), _columns(qbar, k, columns)
    space = complement(matmul(adjoint(beside), beside_bar), failed=failed)
    turned = matmul(adjoint(beside_bar), first)
    return inside, first_bar - matmul(beside, turned + matmul(space, turned))


def _over_adjoint(x: Value, factor: Value, failed: str) -> Value:
    """x times the adjoint inverse of an upper triangle."""
    turned = adjoint(x)
    return adjoint(
        triangular_solve(factor, turned, lower=False, unit_diagonal=False, failed=failed)
    )


def _widened(x: Value, columns: int) -> Value:
    """Append columns of zeros."""
    *lead, width = shape_of(x)
    zeros = np.zeros((*lead, columns - width), dtype_of(x))
    return concatenate(x, zeros, axis=len(lead))


def _pivots(x: Value, **_: Hashable) -> Value:
    """The values that determine the signs of R's diagonal: each column's first element, reflected.

    They follow from Q by elimination of ``Q - 1`` (Ballard, Demmel, Grigori, Jacquelin, Knight,
    Nguyen, "Reconstructing Householder vectors from tall-skinny QR", 2014).
    """
    q, r = qr(x, complete=False)
    below = q - np.eye(shape_of(q)[-2], shape_of(q)[-1], dtype=dtype_of(q))
    pivots = []
    for k in range(shape_of(q)[-1]):
        corner = below[..., :1, :1]
        pivots.append((1 + real_part(corner)) * real_part(r[..., k : k + 1, k : k + 1]))
        if k + 1 < shape_of(q)[-1]:
            below = below[..., 1:, 1:] - below[..., 1:, :1] * below[..., :1, 1:] / corner
    return tuple(pivots)


def _samples() -> Iterator[Sample]:
    shapes = ((3, 3), (4, 2), (2, 4), (2, 3, 2), (1, 1), (3, 1), (0, 0), (0, 2, 2), (3, 0))
    for number, x in enumerate(stacks(*shapes, seed=92)):
        tall = x.shape[-2] > x.shape[-1]
        yield Sample((x,), {"complete": not tall and number % 2 == 0})
        if tall:  # any vectors complete the basis
            yield Sample((x,), {"complete": True}, smooth=False)
    yield Sample((np.ones((2, 2)),), {"complete": False}, smooth=False)


qr: Primitive = failing(
    Primitive(
        "qr",
        _qr,
        _result,
        Linearized(_push, _pull),
        batch_matrices,
        _samples,
        structure=of_stacks(2, arrays=lambda m, x, complete: (_qr(x, complete, m), None)),
        traits=OWNS,
        kinks=Kinks(_pivots),
    )
)
"""Q with orthonormal columns and R, upper triangular, with Q R = x."""
