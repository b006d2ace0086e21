"""Singular values with SciPy's options, and functions of the rank.

>>> svdvals([[3.0, 0.0], [0.0, -2.0]])
Tensor([3., 2.])
"""

from __future__ import annotations

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.specs import shape_of
from funcgrad._core.trace import Value
from funcgrad._hints.lookup import answering
from funcgrad._primitives.matrices import adjoint
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ShapeError
from funcgrad.numpy import decompositions as plain
from funcgrad.numpy import norms
from funcgrad.numpy.matrices import matrices
from funcgrad.numpy.options import integer, tolerance
from funcgrad.scipy.linalg.composed import where_true
from funcgrad.scipy.linalg.spectra import known_count
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
    *,
    failed: str = "raise",
) -> Tensor | tuple[Tensor, Tensor, Tensor]:
    """The singular value decomposition ``a = (U * s) @ Vh``, as ``funcgrad.numpy.linalg.svd``.

    Its other parameters are ignored.

    Examples
    --------
    >>> svd([[3.0, 0.0], [0.0, -2.0]], compute_uv=False)
    Tensor([3., 2.])
    """
    return plain.svd(a, full_matrices, compute_uv, failed=failed)


def svdvals(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True, *, failed: str = "raise"
) -> Tensor:
    """Singular values, in descending order, as ``funcgrad.numpy.linalg.svdvals``.

    Examples
    --------
    >>> svdvals([[3.0, 0.0], [0.0, -2.0]])
    Tensor([3., 2.])
    """
    return plain.svdvals(a, failed=failed)


def diagsvd(s: ArrayLike, M: int, N: int) -> Tensor:
    """The M x N matrix with singular values on its diagonal: ``a = U @ diagsvd(s, M, N) @ Vh``.

    Parameters
    ----------
    s : array_like, shape (..., k)
    M, N : int
        The numbers of rows and columns; k is the smaller one.

    Returns
    -------
    Tensor, shape (..., M, N)

    Raises
    ------
    ShapeError
        The sizes do not fit.

    Examples
    --------
    >>> diagsvd([3.0, 2.0], 2, 3)
    Tensor([[3., 0., 0.],
            [0., 2., 0.]])
    """
    values = fnp.atleast_1d(s)
    rows, columns = integer(M, "diagsvd", "M"), integer(N, "diagsvd", "N")
    k = values.shape[-1]
    if k != min(rows, columns):
        raise ShapeError(
            f"diagsvd: a matrix of {rows} x {columns} has {min(rows, columns)} singular values; got"
            f" the shape {values.shape}."
        )
    spread = values[..., None, :] if rows > columns else values[..., :, None]
    return where_true(np.eye(rows, columns, dtype=bool), spread)


@answering
def norm(
    a: ArrayLike,
    ord: float | str | None = None,
    axis: int | tuple[int, int] | None = None,
    keepdims: bool = False,
    check_finite: bool = True,
    *,
    failed: str = "raise",
) -> Tensor:
    """The norm of a vector or of a matrix, as ``funcgrad.numpy.linalg.norm``.

    Examples
    --------
    >>> norm([3.0, 4.0])
    Tensor(5.)
    """
    return norms.norm(a, ord, axis, keepdims, failed=failed)


def orth(A: ArrayLike, rcond: float | None = None) -> Tensor:
    """An orthonormal basis of the column space of a matrix.

    In ``fg.vmap`` all matrices have to be of one rank. Results that do not depend on the choice of
    the basis, such as ``Q @ Q.mT``, have a derivative where singular values differ; see
    ``funcgrad.numpy.linalg.svd``.

    Parameters
    ----------
    A : array_like, shape (m, n)
    rcond : float, optional
        Singular values count as zero up to ``rcond`` times the greatest; by default the greater
        size times the precision.

    Returns
    -------
    Tensor, shape (m, rank)

    Raises
    ------
    ShapeError
        The argument is a stack of matrices.
    BatchError
        Matrices have different ranks in ``fg.vmap``.
    TracerError
        The function is called in a loop or a branch under ``jit``.
    DegenerateError
        See ``svd``.

    Examples
    --------
    >>> orth([[0.0, 2.0], [0.0, 0.0]]).shape
    (2, 1)
    """
    u, s, vh = plain.svd(_one(A, "orth"), full_matrices=False)
    return u[:, : _rank(s, u.shape[0], vh.shape[1], rcond, "orth")]


def null_space(
    A: ArrayLike,
    rcond: float | None = None,
    *,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Tensor:
    """An orthonormal basis of the null space of a matrix. See ``orth`` for parameters and errors.

    Returns
    -------
    Tensor, shape (n, n - rank)

    Examples
    --------
    >>> null_space([[0.0, 2.0], [0.0, 0.0]]).shape
    (2, 1)
    """
    u, s, vh = plain.svd(_one(A, "null_space"), full_matrices=True)
    return wrap(adjoint(vh[_rank(s, u.shape[0], vh.shape[1], rcond, "null_space") :]))


def _one(a: ArrayLike, operation: str) -> Value:
    """Check that an argument is one matrix, not a stack, whose ranks may differ."""
    matrix = matrices(a, operation, "A")
    if len(shape_of(matrix)) != 2:
        raise ShapeError(
            f"{operation}: A has to be one matrix, since the shape of the result depends on its"
            f" rank; the shape is {shape_of(matrix)}."
        )
    return matrix


def _rank(s: Tensor, m: int, n: int, rcond: float | None, operation: str) -> int:
    share = max(m, n) * float(np.finfo(s.dtype).eps)
    if rcond is not None:
        share = tolerance(rcond, operation, "rcond")
    held = stop_gradient(s)
    return known_count(fnp.sum(held > share * fnp.max(held, initial=0.0)), operation)
