"""Factors of Gaussian elimination with row exchanges, A = P L U, which SciPy computes.

With F = L^-1 P^T dA U^-1 the tangents are dL = L times the part of F below the diagonal, and dU the
rest of F times U (Seeger, Hetzel, Dai, Meissner and Lawrence, "Auto-differentiating linear
algebra", 2017). For a matrix that is not square this holds for the leading square block; the other
block follows from ``P^T dA = dL U + L dU``.

>>> lu(np.array([[1.0, 2.0], [2.0, 2.0]]))[1]
array([[1. , 0. ],
       [0.5, 1. ]])
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from math import prod
from typing import Any

import numpy as np

from funcgrad._core.primitive import DISCRETE, Kinks, Linear, Linearized, Primitive, Sample
from funcgrad._core.specs import Spec, dtype_of, shape_of
from funcgrad._core.structure.structures import OWNS
from funcgrad._core.trace import Value
from funcgrad._primitives.contraction import matmul
from funcgrad._primitives.failures import failing
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.joining import concatenate
from funcgrad._primitives.linear_systems import triangular_solve
from funcgrad._primitives.matrices import (
    MATRICES,
    Array,
    adjoint,
    batch_matrices,
    check_finite,
    linalg_dtype,
    of_stacks,
    real_dtype,
    stacks,
    triangle,
)
from funcgrad._primitives.matrix_equations import scipy_linalg
from funcgrad._primitives.structural import view


def _lu(x: Array) -> Any:
    x = np.asarray(x, linalg_dtype("lu", x.dtype))
    check_finite("lu", x)
    specs = _result(Spec(x.shape, x.dtype))
    factors = scipy_linalg("lu").lu
    if x.ndim == 2 and x.size:
        p, lower, upper = factors(x)
        return np.asarray(p.real, specs[0].dtype), lower, upper
    flat = x.reshape(prod(x.shape[:-2]), *x.shape[-2:])
    outs = [np.zeros((len(flat), *spec.shape[-2:]), spec.dtype) for spec in specs]
    outs[0][..., :, :] = np.eye(x.shape[-2])
    for number, one in enumerate(flat):
        if one.size:
            for out, factor in zip(outs, factors(one), strict=True):
                out[number] = factor if out is not outs[0] else factor.real
        else:
            outs[1][number] = np.eye(outs[1].shape[-2], outs[1].shape[-1])
    return tuple([out.reshape(spec.shape) for out, spec in zip(outs, specs, strict=True)])


def _result(x: Spec) -> tuple[Spec, Spec, Spec]:
    dtype = linalg_dtype("lu", x.dtype)
    *lead, m, n = x.shape
    k = min(m, n)
    return (
        Spec((*lead, m, m), real_dtype(dtype)),
        Spec((*lead, m, k), dtype),
        Spec((*lead, k, n), dtype),
    )


# ----------------------------------------------------------------------------------- permutations


def _permuted(p: Array, x: Array, back: bool) -> Any:
    if not p.size:
        return x.copy()
    return np.take_along_axis(x, np.argmax(p, -2 if back else -1)[..., None], -2)


def _permuted_samples() -> Iterator[Sample]:
    for number, x in enumerate(stacks((3, 2), (2, 3, 2), (3, 3), (1, 0), (0, 2, 2), seed=152)):
        order = np.random.default_rng(number).permutation(x.shape[-2])
        p = np.broadcast_to(np.eye(x.shape[-2])[order], (*x.shape[:-1], x.shape[-2]))
        yield Sample((p, x), {"back": number % 2 == 1})


permuted_rows: Primitive = Primitive(
    "permuted_rows",
    _permuted,
    lambda p, x, back: x,
    Linear((None, lambda ct, p, x, back: permuted_rows(p, ct, back=not back))),
    batch_matrices,
    _permuted_samples,
    structure=of_stacks(2, 2),
    traits=OWNS,
)
"""The product of a permutation, or with ``back`` of its inverse, and a matrix, without adding."""


# ------------------------------------------------------------------------------------- derivatives


def _block(x: Value, rows: slice, columns: slice) -> Value:
    return view(x, key=Key((..., rows, columns)))


def _over(x: Value, upper: Value, failed: str) -> Value:
    """x times the inverse of an upper triangle."""
    turned = adjoint(x)
    return adjoint(
        triangular_solve(adjoint(upper), turned, lower=True, unit_diagonal=False, failed=failed)
    )


def _push(
    tangents: tuple[Value, ...], outs: tuple[Value, ...], x: Value, failed: str = "raise"
) -> tuple[Value, Value, Value]:
    p, lower, upper = outs
    dx = permuted_rows(p, tangents[0], back=True)
    k, (m, n) = shape_of(upper)[-2], shape_of(x)[-2:]
    head, tail, every = slice(k), slice(k, None), slice(None)
    first, leading = _block(lower, head, every), _block(upper, every, head)

    def under(y: Value) -> Value:
        return triangular_solve(first, y, lower=True, unit_diagonal=True)

    inner = _over(under(_block(dx, head, head)), leading, failed)
    d_lower = matmul(first, triangle(inner, lower=True, diagonal=0.0))
    d_upper = matmul(triangle(inner, lower=False, diagonal=1.0), leading)
    if m > k:
        below = _block(dx, tail, every) - matmul(_block(lower, tail, every), d_upper)
        d_lower = concatenate(d_lower, _over(below, leading, failed), axis=len(shape_of(x)) - 2)
    if n > k:
        beside = _block(dx, every, tail) - matmul(d_lower, _block(upper, every, tail))
        d_upper = concatenate(d_upper, under(beside), axis=len(shape_of(x)) - 1)
    return None, d_lower, d_upper


def _pull(
    cts: tuple[Value, ...], outs: tuple[Value, ...], x: Value, failed: str = "raise"
) -> tuple[Value]:
    """Pull cotangents back: through the rows and columns beside the leading square first.

    These depend on the factors of the square, whose cotangents they add to.
    """
    (_, lbar, ubar), (p, lower, upper) = cts, outs
    k, (m, n) = shape_of(upper)[-2], shape_of(x)[-2:]
    head, tail, every = slice(k), slice(k, None), slice(None)
    first, leading = _block(lower, head, every), _block(upper, every, head)
    inner = rows = columns = None
    if lbar is not None and m > k:
        rows = _back_over(_block(lbar, tail, every), leading, failed)
        inner = matmul(matmul(adjoint(_block(lower, tail, every)), rows), adjoint(leading))
        inner = triangle(-inner, lower=False, diagonal=1.0)
    if ubar is not None and n > k:
        columns = _back_under(_block(ubar, every, tail), first)
        inner = matmul(adjoint(first), matmul(columns, adjoint(_block(upper, every, tail))))
        inner = triangle(-inner, lower=True, diagonal=0.0)
    if lbar is not None:
        told = matmul(adjoint(first), _block(lbar, head, every))
        told = triangle(told, lower=True, diagonal=0.0)
        inner = told if inner is None else inner + told
    if ubar is not None:
        told = matmul(_block(ubar, every, head), adjoint(leading))
        told = triangle(told, lower=False, diagonal=1.0)
        inner = told if inner is None else inner + told
    if inner is None:
        return (None,)
    pulled = _back_over(_back_under(inner, first), leading, failed)
    rank = len(shape_of(x))
    if m > k:
        below = np.zeros((*shape_of(x)[:-2], m - k, n), dtype_of(upper)) if rows is None else rows
        pulled = concatenate(pulled, below, axis=rank - 2)
    if n > k:
        beside = (
            np.zeros((*shape_of(x)[:-1], n - k), dtype_of(upper)) if columns is None else columns
        )
        pulled = concatenate(pulled, beside, axis=rank - 1)
    return (permuted_rows(p, pulled, back=False),)


def _back_over(x: Value, upper: Value, failed: str) -> Value:
    """x times the adjoint inverse of an upper triangle."""
    turned = adjoint(x)
    return adjoint(triangular_solve(upper, turned, lower=False, unit_diagonal=False, failed=failed))


def _back_under(x: Value, lower: Value) -> Value:
    """The adjoint inverse of a lower triangle with ones on its diagonal, times x."""
    return triangular_solve(adjoint(lower), x, lower=False, unit_diagonal=True)


def _gaps_of_pivots(x: Value, **_: Hashable) -> Value:
    """How much greater pivots are than the other candidates in their columns, and than 0."""
    _, lower, upper = lu(x)
    count = min(shape_of(x)[-2:])
    places = np.arange(count)
    pivots = upper[..., places, places]
    rows, columns = np.tril_indices(shape_of(lower)[-2], -1, count)
    return (1 - abs(lower[..., rows, columns])) * abs(pivots[..., columns]), pivots


def _samples() -> Iterator[Sample]:
    shapes = ((3, 3), (2, 2, 2), (4, 2), (2, 4), (1, 1), (0, 0), (0, 2, 2), (0, 2))
    for x in stacks(*shapes, seed=151):
        yield Sample((x,))


lu: Primitive = failing(
    Primitive(
        "lu",
        _lu,
        _result,
        Linearized(_push, _pull),
        batch_matrices,
        _samples,
        structure=MATRICES,
        traits=OWNS,
        kinks=Kinks(_gaps_of_pivots),
    )
)
"""A permutation, and the lower and the upper triangular factor."""


def _exchanges(p: Array) -> Any:
    """A permutation as LAPACK's pivots: step k swaps rows k and ``pivots[k]``, with ``pivots[k] >=
    k``."""
    count = p.shape[-1]
    p = np.nan_to_num(p)  # of a matrix that has failed
    wanted = np.swapaxes(p, -1, -2) @ np.arange(count)
    wanted = wanted.astype(np.intp).reshape(prod(p.shape[:-2]), count)
    exchanges = np.zeros(wanted.shape, np.int32)
    for number, rows in enumerate(wanted):
        steps = exchanges[number, :]
        standing = np.arange(count)
        for k, row in enumerate(rows):
            steps[k] = np.flatnonzero(standing == row)[0]
            standing[[k, steps[k]]] = standing[[steps[k], k]]
    return exchanges.reshape(p.shape[:-1])


exchanges: Primitive = Primitive(
    "exchanges",
    _exchanges,
    lambda p: Spec(p.shape[:-1], np.dtype(np.int32)),
    DISCRETE,
    batch_matrices,
    lambda: [
        Sample((np.eye(3)[[1, 2, 0]],)),
        Sample((np.stack([np.eye(2), np.eye(2)[::-1]]),)),
        Sample((np.zeros((0, 0)),)),
    ],
    structure=MATRICES,
    traits=OWNS,
)
"""The exchanges of rows, one after the other, that a permutation matrix p does to ``p.T @ a``."""


def _rows(steps: Array) -> Any:
    flat = steps.reshape(prod(steps.shape[:-1]), steps.shape[-1])
    permutations = np.tile(np.arange(steps.shape[-1]), (len(flat), 1))
    for rows, exchanges in zip(permutations, flat, strict=True):
        for k, row in enumerate(exchanges):
            rows[[k, row]] = rows[[row, k]]
    return permutations.reshape(steps.shape)


rows_after_exchanges: Primitive = Primitive(
    "rows_after_exchanges",
    _rows,
    lambda steps: Spec(steps.shape, np.dtype(np.intp)),
    DISCRETE,
    batch_matrices,
    lambda: [
        Sample((np.array([1, 2, 2], np.int32),)),
        Sample((np.array([[1, 1], [0, 1]], np.int32),)),
        Sample((np.zeros(0, np.int32),)),
    ],
    structure=of_stacks(1),
    traits=OWNS,
)
"""Which rows stand where after such exchanges."""
