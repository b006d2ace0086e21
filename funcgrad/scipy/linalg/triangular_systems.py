"""Triangular systems and triangular factors, under SciPy's names.

>>> cholesky([[4.0, 2.0], [2.0, 5.0]], lower=True)
Tensor([[2., 0.],
        [1., 2.]])
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from funcgrad._core.specs import dtype_of
from funcgrad._primitives import cholesky as factors
from funcgrad._primitives import lu as triangular_factors
from funcgrad._primitives.contraction import matmul
from funcgrad._primitives.linear_systems import triangular_solve
from funcgrad._primitives.matrices import adjoint, hermitian
from funcgrad._primitives.structural import cast, swap_last_axes
from funcgrad.numpy.linear_systems import as_columns, right_side, without_columns
from funcgrad.numpy.matrices import matrices, results, square
from funcgrad.numpy.options import choice, failed_as, pair
from funcgrad.numpy.reductions import argmax
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap


def cholesky(
    a: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    failed: str = "raise",
) -> Tensor:
    """The Cholesky factors of positive definite matrices, upper triangular by default.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Hermitian matrices. Other matrices are replaced by their Hermitian part, as in
        ``funcgrad.numpy.linalg.cholesky``; so gradients are Hermitian, too.
    lower : bool
        Whether to return L with ``a = L @ L.mH``, instead of U with ``a = U.mH @ U``.
    overwrite_a, check_finite : bool
        Ignored.
    failed : {"raise", "nan"}
        Whether a matrix that is not positive definite raises an error or gives NaN.

    Returns
    -------
    Tensor, shape (..., n, n)

    Raises
    ------
    MatrixShapeError
        The matrices are not square.
    MatrixError
        A matrix is not positive definite.

    Examples
    --------
    >>> cholesky([[4.0, 2.0], [2.0, 5.0]])
    Tensor([[2., 1.],
            [0., 2.]])
    """
    matrix, failed = hermitian(square(a, "cholesky")), failed_as(failed, "cholesky")
    return wrap(factors.cholesky(matrix, upper=not lower, failed=failed))


class CholeskyFactored(NamedTuple):
    """The result of ``cho_factor``: a triangular factor, and whether it is lower."""

    c: Tensor
    lower: bool


def cho_factor(
    a: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    failed: str = "raise",
) -> CholeskyFactored:
    """The Cholesky factor of a matrix, for ``cho_solve``.

    It has the parameters and errors of ``cholesky``. The other triangle of the factor is zero; in
    SciPy it is not.

    Returns
    -------
    c : Tensor, shape (..., n, n)
    lower : bool

    Examples
    --------
    >>> cho_factor([[4.0]])
    CholeskyFactored(c=Tensor([[2.]]), lower=False)
    """
    return CholeskyFactored(cholesky(a, lower, failed=failed), bool(lower))


def cho_solve(
    c_and_lower: tuple[ArrayLike, bool],
    b: ArrayLike,
    overwrite_b: bool = False,
    check_finite: bool = True,
    *,
    failed: str = "raise",
) -> Tensor:
    """The solution x of ``a @ x = b``, where ``c_and_lower = cho_factor(a)``.

    Parameters
    ----------
    c_and_lower : tuple
        The result of ``cho_factor``.
    b : array_like, shape (n,) or (..., n, k)
    overwrite_b, check_finite : bool
        Ignored.
    failed : {"raise", "nan"}
        Whether a factor with a zero on its diagonal raises an error or gives NaN.

    Returns
    -------
    Tensor, in the shape of b

    Raises
    ------
    MatrixShapeError
        The factor is not square.
    ShapeError
        The shapes do not fit each other.
    MatrixError
        The factor has a zero on its diagonal.

    Examples
    --------
    >>> cho_solve(cho_factor([[4.0, 0.0], [0.0, 2.0]], lower=True), [4.0, 4.0])
    Tensor([1., 2.])
    """
    factor, lower = pair(c_and_lower, "cho_solve", "c_and_lower")
    matrix, failed = square(factor, "cho_solve", "c"), failed_as(failed, "cho_solve")
    right, is_vector = as_columns(matrix, right_side(b, "cho_solve"), "cho_solve")
    if not lower:
        matrix = adjoint(matrix)
    half = triangular_solve(matrix, right, lower=True, unit_diagonal=False, failed=failed)
    back = adjoint(matrix)
    x = triangular_solve(back, half, lower=False, unit_diagonal=False, failed=failed)
    return without_columns(x, is_vector)


def solve_triangular(
    a: ArrayLike,
    b: ArrayLike,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    *,
    failed: str = "raise",
) -> Tensor:
    """The solution x of ``a @ x = b`` for triangular a, by substitution.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Only one triangle is read, and has a derivative.
    b : array_like, shape (n,) or (..., n, k)
    trans : {0, 1, 2, "N", "T", "C"}
        Whether to solve with a, with its transpose, or with its conjugate transpose.
    lower : bool
        Which triangle of a is read; the upper one by default.
    unit_diagonal : bool
        Whether the diagonal is assumed to be ones, and not read.
    overwrite_b, check_finite : bool
        Ignored.
    failed : {"raise", "nan"}
        Whether a matrix with a zero on its diagonal raises an error or gives NaN.

    Returns
    -------
    Tensor, in the shape of b

    Raises
    ------
    MatrixShapeError
        ``a`` is not square.
    ShapeError
        The shapes do not fit each other.
    ArgumentError
        ``trans`` has another value.
    MatrixError
        There is a zero on the diagonal.

    Examples
    --------
    >>> solve_triangular([[2.0, 0.0], [1.0, 4.0]], [2.0, 9.0], lower=True)
    Tensor([1., 2.])
    """
    matrix = square(a, "solve_triangular")
    trans = choice(trans, (0, 1, 2, "N", "T", "C"), "solve_triangular", "trans")
    right, is_vector = as_columns(matrix, right_side(b, "solve_triangular"), "solve_triangular")
    lower = bool(lower)
    if trans not in (0, "N"):
        matrix = swap_last_axes(matrix) if trans in (1, "T") else adjoint(matrix)
        lower = not lower
    has_ones, failed = bool(unit_diagonal), failed_as(failed, "solve_triangular")
    x = triangular_solve(matrix, right, lower=lower, unit_diagonal=has_ones, failed=failed)
    return without_columns(x, is_vector)


def lu(
    a: ArrayLike,
    permute_l: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    p_indices: bool = False,
    *,
    failed: str = "raise",
) -> tuple[Tensor, ...]:
    """The LU decomposition with pivoting: ``a = p @ l @ u``.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
    permute_l : bool
        Whether to return ``p @ l`` in place of p and l.
    overwrite_a, check_finite : bool
        Ignored.
    p_indices : bool
        Whether p is returned as row indices: ``a = l[p] @ u``.
    failed : {"raise", "nan"}
        Whether a matrix with infinities, NaN or an undefined derivative raises or gives NaN.

    Returns
    -------
    p : Tensor, shape (..., m, m), or (..., m) with ``p_indices``
        A permutation, which has no derivative. Missing with ``permute_l``.
    l : Tensor, shape (..., m, k)
        With k = min(m, n), lower triangular, with ones on the diagonal.
    u : Tensor, shape (..., k, n)
        Upper triangular.

    Raises
    ------
    MatrixShapeError
        There are fewer than two axes.
    MatrixError
        A derivative is asked for where the leading square part of u is singular.
    MissingPackageError
        SciPy is not installed.

    Examples
    --------
    >>> lu([[1.0, 2.0], [2.0, 2.0]], permute_l=True)
    (Tensor([[0.5, 1. ],
            [1. , 0. ]]), Tensor([[2., 2.],
            [0., 1.]]))
    """
    matrix, failed = matrices(a, "lu"), failed_as(failed, "lu")
    p, low, up = results(triangular_factors.lu, matrix, failed=failed)
    if permute_l:
        return wrap(matmul(cast(p, dtype=dtype_of(low)), low)), up
    if p_indices:
        return wrap(cast(argmax(p, axis=-1), dtype=np.dtype(np.int32))), low, up
    return p, low, up
