"""Eigenvalues and eigenvectors of any square matrices.

With A V = V W and D = V^-1 dA V the tangents are dW = diag(D) and dV = V (D / gaps), except for the
scale of each vector: its length is 1, and the largest component of a complex one is positive
(Giles, "Collected matrix derivative results for forward and reverse mode algorithmic
differentiation", 2008, section 3.1, has neither). That choice is differentiated, too.

>>> eigvals(np.array([[0.0, 1.0], [-1.0, 0.0]]))
array([0.+1.j, 0.-1.j])
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any

import numpy as np

from funcgrad._core.primitive import DISCRETE, Kinks, Linearized, Primitive, Sample
from funcgrad._core.specs import Spec, shape_of
from funcgrad._core.structure.structures import OWNS
from funcgrad._core.trace import Value
from funcgrad._primitives.complexes import imag, join_parts, real
from funcgrad._primitives.contraction import matmul
from funcgrad._primitives.eigen import converged, divide_by_gaps
from funcgrad._primitives.failures import failing
from funcgrad._primitives.kinks import pairs
from funcgrad._primitives.linear_systems import solve
from funcgrad._primitives.matrices import (
    MATRICES,
    Array,
    adjoint,
    batch_matrices,
    conjugate,
    diagonal_matrix,
    diagonal_of,
    linalg_dtype,
    of_stacks,
    position_of,
    stacks,
)
from funcgrad._primitives.reduction import reduce_sum
from funcgrad._primitives.sorting import sort
from funcgrad._primitives.structural import reshape
from funcgrad.errors import DegenerateError


def _complex(x: Spec) -> Any:
    return np.result_type(linalg_dtype("eig", x.dtype), np.complex64)


# ----------------------------------------------------------------------- properties of vectors


def _largest(v: Array) -> Any:
    """The largest component of each column, of those that are real."""
    sizes = np.where(v.imag == 0, np.abs(v), -1)
    chosen = np.argmax(sizes, -2)[..., None, :] if v.size else np.zeros((1, 0), int)
    return (np.arange(v.shape[-2])[:, None] == chosen).astype(v.real.dtype).reshape(v.shape)


def _vectors(seed: int) -> Iterator[Any]:
    for x in stacks((3, 3), (2, 2, 2), (1, 1), (0, 0), (0, 2, 2), seed=seed, turn=False):
        yield x + 0j + np.eye(x.shape[-1])


def _largest_samples() -> Iterator[Sample]:
    for v in _vectors(101):
        yield Sample((v,))


largest_components: Primitive = Primitive(
    "largest_components",
    _largest,
    lambda v: Spec(v.shape, np.dtype(v.dtype.char.lower())),
    DISCRETE,
    batch_matrices,
    _largest_samples,
    structure=MATRICES,
    traits=OWNS,
)
"""1 for the largest real component of each column of complex matrices, else 0."""


def _diagonalizing(v: Array) -> Any:
    if v.size:
        s = np.linalg.svd(v, compute_uv=False)
        low = s[..., -1] <= 10 * np.sqrt(np.finfo(s.dtype).eps) * s[..., 0]
        if np.any(low):
            raise DegenerateError(
                f"eig: the matrix{position_of(low)} has no basis of eigenvectors, or only just:"
                " there eigenvalues and eigenvectors have no derivatives. Use a function of the"
                " whole matrix, as det, matrix_power or funcgrad.scipy.linalg.expm."
            )
    return v.copy()


diagonalizing: Primitive = failing(
    Primitive(
        "diagonalizing",
        _diagonalizing,
        lambda v: v,
        Linearized(lambda tangents, out, v, failed="raise": tangents[0]),
        batch_matrices,
        _largest_samples,
        structure=MATRICES,
        traits=OWNS,
    )
)
"""Eigenvectors that can be divided by; otherwise an error."""


def _columns(x: Value) -> Value:
    """Sums of columns, as rows."""
    return reduce_sum(x, axis=(len(shape_of(x)) - 2,), keepdims=True)


def _turn(angle: Value) -> Value:
    return join_parts(0.0, angle)


# ------------------------------------------------------------------------------- decompositions


def _eig(x: Array) -> Any:
    w, v = converged("eig", np.linalg.eig, x)
    dtype = np.result_type(w, np.complex64)
    return w.astype(dtype), _turned(v).astype(dtype)


def _turned(v: Array) -> Array:
    """Choose the sign of complex vectors so that their largest real component is positive.

    LAPACK does so for complex matrices. For real ones rounding decides the sign.
    """
    if v.dtype.kind != "c" or not v.size:
        return v
    largest = np.sum(v.real * _largest(v), -2, keepdims=True)
    back: Array = (largest < 0) & np.any(v.imag, -2, keepdims=True)
    return np.where(back, -v, v)


def _push_eig(
    tangents: tuple[Value, ...], outs: tuple[Value, Value], x: Value, failed: str = "raise"
) -> tuple[Value, Value]:
    w, v = outs
    v = diagonalizing(v, failed=failed)
    inner = solve(v, matmul(tangents[0], v), failed=failed)
    dv = matmul(v, divide_by_gaps(w, inner, strict=True, failed=failed))
    chosen = largest_components(v)
    angle = imag(_columns(chosen * dv)) / real(_columns(chosen * v))
    along = real(_columns(conjugate(v) * dv))
    return diagonal_of(inner), dv - v * (along + _turn(angle))


def _pull_eig(
    cts: tuple[Value, Value], outs: tuple[Value, Value], x: Value, failed: str = "raise"
) -> tuple[Value]:
    (wbar, vbar), (w, v) = cts, outs
    v = diagonalizing(v, failed=failed)
    back = adjoint(v)
    inner = None if wbar is None else diagonal_matrix(wbar)
    if vbar is not None:
        chosen = largest_components(v)
        told = _columns(conjugate(v) * vbar)
        turned = _turn(imag(told) / real(_columns(chosen * v)))
        vbar = vbar - v * real(told) - chosen * turned
        apart = divide_by_gaps(conjugate(w), matmul(back, vbar), strict=True, failed=failed)
        inner = apart if inner is None else inner + apart
    return (solve(back, matmul(inner, back), failed=failed),)


def _matrices(seed: int) -> Iterator[Any]:
    shapes = ((3, 3), (2, 2, 2), (4, 4), (1, 1), (0, 0), (0, 2, 2))
    for x in stacks(*shapes, seed=seed):
        yield x + np.diag(2.0 * np.arange(x.shape[-1]))


def _samples() -> Iterator[Sample]:
    for x in _matrices(102):
        yield Sample((x,))
    yield Sample((np.array([[0.5, 2.0], [-1.0, 0.3]]),))


def _gaps(x: Value, **_: Hashable) -> Value:
    """Gaps between eigenvalues, and between the two greatest components of each vector."""
    w, v = eig(x)
    sizes = sort(abs(v), axis=len(shape_of(v)) - 2, descending=True)
    return *pairs(w), sizes[..., :1, :] - sizes[..., 1:2, :]


eig: Primitive = failing(
    Primitive(
        "eig",
        _eig,
        lambda x: (Spec(x.shape[:-1], _complex(x)), Spec(x.shape, _complex(x))),
        Linearized(_push_eig, _pull_eig),
        batch_matrices,
        _samples,
        structure=MATRICES,
        traits=OWNS,
        kinks=Kinks(_gaps),
    )
)
"""Eigenvalues, in LAPACK's order, and eigenvectors; complex ones always."""


def _eigvals(x: Array) -> Any:
    w = converged("eigvals", np.linalg.eigvals, x)
    return w.astype(np.result_type(w, np.complex64))


def _matching(out: Array, w: Array) -> Any:
    """Match two lists of eigenvalues: a 1 at i, j if the j-th of the second is nearest to the i-th
    of the first."""
    n = w.shape[-1]
    matches = np.zeros((*w.shape, n), w.real.dtype)
    for place in np.ndindex(w.shape[:-1]):
        apart = np.abs(out[place][:, None] - w[place])
        for i in range(n):
            j = int(np.argmin(apart[i]))
            apart[:, j] = np.inf
            matches[(*place, i, j)] = 1
    return matches


def _matching_samples() -> Iterator[Sample]:
    yield Sample((np.array([1.0, 2j, 3.0]), np.array([3.0, 1.0, 2j])))
    yield Sample((np.array([[1j, 1j]]), np.array([[1j, 1j]])))
    yield Sample((np.zeros(0, complex), np.zeros(0, complex)))


matching: Primitive = Primitive(
    "matching",
    _matching,
    lambda out, w: Spec((*w.shape, w.shape[-1]), np.dtype(w.dtype.char.lower())),
    DISCRETE,
    batch_matrices,
    _matching_samples,
    structure=of_stacks(1, 1),
    traits=OWNS,
)
"""The permutation that brings eigenvalues into another order."""


def _ordered(x: Value, out: Value, failed: str) -> tuple[Value, Value]:
    """Eigenvectors, and the permutation that reorders their eigenvalues to match ``out``: LAPACK
    orders them differently when it computes eigenvalues only."""
    w, v = eig(x, failed=failed)
    return diagonalizing(v, failed=failed), matching(out, w)


def _push_values(tangents: tuple[Value, ...], out: Value, x: Value, failed: str = "raise") -> Value:
    v, order = _ordered(x, out, failed)
    moved = diagonal_of(solve(v, matmul(tangents[0], v), failed=failed))
    return reduce_sum(order * _row(moved), axis=(len(shape_of(order)) - 1,), keepdims=False)


def _pull_values(ct: Value, out: Value, x: Value, failed: str = "raise") -> tuple[Value]:
    v, order = _ordered(x, out, failed)
    back = adjoint(v)
    matched = _columns(order * reshape(ct, shape=(*shape_of(ct), 1)))
    inner = reshape(matched, shape=(*shape_of(ct), 1)) * back
    return (solve(back, inner, failed=failed),)


def _row(x: Value) -> Value:
    return reshape(x, shape=(*shape_of(x)[:-1], 1, shape_of(x)[-1]))


eigvals: Primitive = failing(
    Primitive(
        "eigvals",
        _eigvals,
        lambda x: Spec(x.shape[:-1], _complex(x)),
        Linearized(_push_values, _pull_values),
        batch_matrices,
        _samples,
        structure=MATRICES,
        traits=OWNS,
        kinks=Kinks(lambda x, **_: pairs(eigvals(x))),
    )
)
"""Eigenvalues without vectors; always complex."""
