"""Factorizations of single matrices, as declared, in the highest precision.

It does not use ``evaluate``. A matrix without factors gives None.

>>> from funcgrad._core.structure.factorizations import Factorization, Factors, FromFactors
>>> form = Factorization(Factors.ELIMINATION, FromFactors.DETERMINANT)
>>> (determinant,) = factored(form, np.array([[2.0, 1.0], [1.0, 3.0]]))
>>> float(determinant.real)
5.0
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from funcgrad._core.structure.factorizations import Factorization, Factors, FromFactors

Matrix: TypeAlias = np.ndarray[Any, Any]


def factored(form: Factorization, matrix: Matrix, right: Matrix | None = None) -> Any:
    """Compute the results of a factorization of one matrix.

    Parameters
    ----------
    form : Factorization
    matrix : ndarray
        With two axes.
    right : ndarray, optional
        The second operand.

    Returns
    -------
    tuple or None
    """
    a = np.array(matrix, np.clongdouble)
    if form.bands is not None:
        a = _from_bands(a, *form.bands)
    if form.factors is Factors.SQUARE_ROOT:
        return _square_root(a, form.lower)
    if form.factors is Factors.TRIANGLE:
        order, sign = np.arange(len(a)), 1
        a = np.tril(a) if form.lower else np.triu(a)
        if form.unit_diagonal:
            np.fill_diagonal(a, 1)
        lower, upper = (a, np.eye(len(a))) if form.lower else (np.eye(len(a)), a)
    else:
        order, sign, lower, upper = _eliminated(a)
    pivots = np.diagonal(lower) * np.diagonal(upper)
    if not np.all(np.isfinite(pivots) & (pivots != 0)):
        return None
    if form.makes is FromFactors.DETERMINANT:
        return (np.prod(pivots) * sign,)
    if form.makes is FromFactors.LOGARITHM:
        return np.prod(pivots / abs(pivots)) * sign, np.sum(np.log(abs(pivots)))
    if form.makes is FromFactors.INVERSE:
        right = np.eye(len(a))
    assert right is not None
    x = np.array(right[order], np.clongdouble)
    for k in range(len(a)):
        x[k] = (x[k] - lower[k, :k] @ x[:k]) / lower[k, k]
    for k in reversed(range(len(a))):
        x[k] = (x[k] - upper[k, k + 1 :] @ x[k + 1 :]) / upper[k, k]
    return (x,)


def _from_bands(bands: Matrix, lower: int, upper: int) -> Matrix:
    size = bands.shape[-1]
    out = np.zeros((size, size), bands.dtype)
    for i in range(size):
        for j in range(max(i - lower, 0), min(i + upper + 1, size)):
            out[i, j] = bands[upper + i - j, j]
    return out


def _eliminated(a: Matrix) -> tuple[Matrix, int, Matrix, Matrix]:
    """Return the order of the rows, its sign, L and U."""
    size, sign = len(a), 1
    order, upper, lower = np.arange(size), a.copy(), np.eye(size, dtype=a.dtype)
    for k in range(size):
        pivot = k + int(np.argmax(abs(upper[k:, k])))
        if pivot != k:
            sign = -sign
            order[[k, pivot]], upper[[k, pivot]] = order[[pivot, k]], upper[[pivot, k]]
            lower[[k, pivot], :k] = lower[[pivot, k], :k]
        if upper[k, k] != 0:
            lower[k + 1 :, k] = upper[k + 1 :, k] / upper[k, k]
            upper[k + 1 :] -= np.outer(lower[k + 1 :, k], upper[k])
    return order, sign, lower, upper


def _square_root(a: Matrix, reads_lower: bool) -> tuple[Matrix] | None:
    size = len(a)
    a = a if reads_lower else a.conj().T
    lower = np.zeros_like(a)
    for k in range(size):
        square = a[k, k].real - np.vdot(lower[k, :k], lower[k, :k]).real
        if not square > 0:
            return None
        lower[k, k] = np.sqrt(square)
        rows = a[k + 1 :, k] - lower[k + 1 :, :k] @ lower[k, :k].conj()
        lower[k + 1 :, k] = rows / lower[k, k]
    return (lower if reads_lower else lower.conj().T,)
