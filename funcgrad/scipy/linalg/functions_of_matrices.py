"""Exponentials, logarithms and square roots of matrices, under SciPy's names.

>>> expm([[0.0]])
Tensor([[1.]])
"""

from __future__ import annotations

from funcgrad.errors import TracerError
from funcgrad.numpy.matrices import square
from funcgrad.numpy.reductions import any as any_of
from funcgrad.primitives import matrix_functions
from funcgrad.shape import dtype_of
from funcgrad.tensor import ArrayLike, Tensor, wrap
from funcgrad.trace import Value

__all__ = ["expm", "logm", "sqrtm"]


def expm(A: ArrayLike) -> Tensor:
    """The exponentials of matrices: ``1 + A + A @ A / 2 + ...``.

    The derivatives are right at every matrix and at every order, whether it has equal eigenvalues
    or no basis of eigenvectors.

    Parameters
    ----------
    A : array_like, shape (..., n, n)

    Returns
    -------
    Tensor, shape (..., n, n)

    Raises
    ------
    MatrixShapeError
        The matrices are not square.
    MissingPackageError
        SciPy is not installed.

    Notes
    -----
    Al-Mohy and Higham, "Computing the Fréchet derivative of the matrix exponential", 2009.

    Examples
    --------
    >>> expm([[0.0, 1.0], [0.0, 0.0]])
    Tensor([[1., 1.],
            [0., 1.]])
    """
    return wrap(matrix_functions.expm(square(A, "expm", "A")))


def logm(A: ArrayLike) -> Tensor:
    """The logarithms of matrices, the inverse of ``expm``: those with the least imaginary parts.

    Derivatives are as right as those of ``expm``; each order doubles the size of the matrices.

    Parameters
    ----------
    A : array_like, shape (..., n, n)

    Returns
    -------
    Tensor, shape (..., n, n)
        Complex; of real matrices real if all logarithms are, but in ``fg.vmap``.

    Raises
    ------
    MatrixShapeError
        The matrices are not square.
    MatrixError
        One is singular.
    MissingPackageError
        SciPy is not installed.

    Notes
    -----
    Mathias, "A chain rule for matrix functions and applications", 1996.

    Examples
    --------
    >>> logm([[1.0, 1.0], [0.0, 1.0]])
    Tensor([[0., 1.],
            [0., 0.]])
    """
    matrix = square(A, "logm", "A")
    return _narrowed(matrix, wrap(matrix_functions.logm(matrix)))


def sqrtm(A: ArrayLike) -> Tensor:
    """The square roots of matrices: those whose eigenvalues have no negative real part.

    The derivative solves Sylvester's equation ``X @ dX + dX @ X = dA``.

    Parameters
    ----------
    A : array_like, shape (..., n, n)

    Returns
    -------
    Tensor, shape (..., n, n)
        Complex; of real matrices real if all roots are, but in ``fg.vmap``.

    Raises
    ------
    MatrixShapeError
        The matrices are not square.
    MatrixError
        There is no root; or a derivative is asked for at a singular matrix, where there is none.
    MissingPackageError
        SciPy is not installed.

    Examples
    --------
    >>> sqrtm([[4.0, 1.0], [0.0, 4.0]])
    Tensor([[2.  , 0.25],
            [0.  , 2.  ]])
    """
    matrix = square(A, "sqrtm", "A")
    return _narrowed(matrix, wrap(matrix_functions.sqrtm(matrix)))


def _narrowed(values: Value, found: Tensor) -> Tensor:
    """Real numbers of real matrices, where all are real; not in a batch, whose examples differ."""
    if dtype_of(values).kind == "c":
        return found
    try:
        is_real = not bool(any_of(found.imag))
    except TracerError:
        is_real = False
    return found.real if is_real else found
