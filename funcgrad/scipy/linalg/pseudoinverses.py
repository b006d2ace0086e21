"""Least squares and pseudoinverses with SciPy's options.

>>> lstsq([[1.0], [1.0]], [1.0, 3.0])[0]
Tensor([2.])
"""

from __future__ import annotations

import numpy as np

import funcgrad.numpy as fnp
import funcgrad.numpy.pseudoinverses as plain
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ArgumentError
from funcgrad.numpy.decompositions import svdvals
from funcgrad.numpy.matrices import matrices, square
from funcgrad.numpy.norms import matrix_rank
from funcgrad.numpy.options import tolerance
from funcgrad.scipy.linalg.systems import half_of
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap


def lstsq(
    a: ArrayLike,
    b: ArrayLike,
    cond: float | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    lapack_driver: str | None = None,
    *,
    failed: str = "raise",
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The x of least norm that minimizes ``norm(a @ x - b)``.

    Errors and derivatives are as in ``funcgrad.numpy.linalg.lstsq``.

    Parameters
    ----------
    a : array_like, shape (m, n)
    b : array_like, shape (m,) or (m, k)
    cond : float, optional
        Singular values below ``cond`` times the greatest count as zero; by default the machine
        epsilon.
    overwrite_a, overwrite_b, check_finite, lapack_driver
        Ignored.
    failed : {"raise", "nan"}
        Treatment of infinities and NaN in the matrix: an error, or NaN.

    Returns
    -------
    x : Tensor, shape (n,) or (n, k)
    residues : Tensor, shape () or (k,)
        The sums of squares of ``b - a @ x``; of shape (0,) if the columns of ``a`` are linearly
        dependent, or m <= n.
    rank : Tensor, integer
    s : Tensor
        The singular values of ``a``.

    Examples
    --------
    >>> lstsq([[1.0], [1.0]], [1.0, 3.0])[:2]
    (Tensor([2.]), Tensor(2.))
    """
    x, squares, rank, s = plain.lstsq(a, b, -1.0 if cond is None else cond, failed=failed)
    if x.ndim == 1 and squares.shape == (1,):
        squares = squares[0]
    return x, squares, rank, s


def pinv(
    a: ArrayLike,
    *,
    atol: float | None = None,
    rtol: float | None = None,
    return_rank: bool = False,
    check_finite: bool = True,
    failed: str = "raise",
) -> Tensor | tuple[Tensor, Tensor]:
    """The Moore-Penrose pseudoinverses of matrices.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
    atol, rtol : float, optional
        Singular values count as zero up to ``atol + rtol * greatest``; by default 0, and the
        greater size times the precision.
    return_rank : bool
        Whether to return also the rank.
    check_finite : bool
        Ignored.
    failed : {"raise", "nan"}
        Whether a matrix with infinities or NaN raises an error or gives NaN.

    Returns
    -------
    B : Tensor, shape (..., n, m)
    rank : Tensor, shape (...)
        Only with ``return_rank``.

    Raises
    ------
    ArgumentError
        A tolerance is negative.
    MatrixError
        A matrix has infinities or NaN; also a ``numpy.linalg.LinAlgError``.

    Notes
    -----
    See ``funcgrad.numpy.linalg.pinv`` for the derivative.

    Examples
    --------
    >>> pinv([[2.0, 0.0], [0.0, 0.1]], atol=0.2)
    Tensor([[0.5, 0. ],
            [0. , 0. ]])
    """
    return _pseudoinverse(wrap(matrices(a, "pinv")), atol, rtol, return_rank, False, failed)


def pinvh(
    a: ArrayLike,
    atol: float | None = None,
    rtol: float | None = None,
    lower: bool | None = None,
    return_rank: bool = False,
    check_finite: bool = True,
    *,
    failed: str = "raise",
) -> Tensor | tuple[Tensor, Tensor]:
    """The pseudoinverses of Hermitian matrices, by their eigenvalues.

    It has the parameters of ``pinv``, and ``lower``, which chooses the triangle that is read; by
    default the Hermitian part is taken.

    Examples
    --------
    >>> pinvh([[2.0, 0.0], [0.0, 0.0]])
    Tensor([[0.5, 0. ],
            [0. , 0. ]])
    """
    matrix = half_of(wrap(square(a, "pinvh")), lower, True)
    return _pseudoinverse(matrix, atol, rtol, return_rank, True, failed)


def _pseudoinverse(
    matrix: Tensor,
    atol: float | None,
    rtol: float | None,
    return_rank: bool,
    is_hermitian: bool,
    failed: str,
) -> Tensor | tuple[Tensor, Tensor]:
    operation = "pinvh" if is_hermitian else "pinv"
    real = np.dtype(matrix.dtype.char.lower())
    least = 0.0 if atol is None else tolerance(atol, operation, "atol")
    share = max(matrix.shape[-2:]) * float(np.finfo(real).eps)
    if rtol is not None:
        share = tolerance(rtol, operation, "rtol")
    if least < 0 or share < 0:
        raise ArgumentError(f"{operation}: atol and rtol are not negative; got {least}, {share}.")
    bound: ArrayLike = share
    if least:
        greatest = fnp.max(svdvals(stop_gradient(matrix), failed=failed), axis=-1, initial=0.0)
        bound = share + least / fnp.where(greatest > 0, greatest, 1.0)
    pseudoinverse = plain.pinv(matrix, bound, hermitian=is_hermitian, failed=failed)
    if not return_rank:
        return pseudoinverse
    held = stop_gradient(matrix)
    return pseudoinverse, matrix_rank(held, rtol=bound, hermitian=is_hermitian, failed=failed)
