"""Factors of matrices, as in ``numpy.linalg``.

>>> cholesky([[4.0, 2.0], [2.0, 5.0]])
Tensor([[2., 0.],
        [1., 2.]])
"""

from __future__ import annotations

from funcgrad.numpy.matrices import square
from funcgrad.primitives import cholesky as factors
from funcgrad.primitives.matrices import hermitian
from funcgrad.tensor import ArrayLike, Tensor, wrap

__all__ = ["cholesky"]


def cholesky(a: ArrayLike, /, *, upper: bool = False) -> Tensor:
    """The triangular factors L of positive definite matrices ``L @ L.mH``.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Hermitian. Of other matrices the Hermitian part ``(a + a.mH) / 2`` is taken, where NumPy
        would read one triangle; so gradients are Hermitian, too.
    upper : bool
        Whether to return ``L.mH``, which is upper triangular.

    Returns
    -------
    Tensor, shape (..., n, n)

    Raises
    ------
    MatrixShapeError
        The matrices are not square.
    MatrixError
        One is not positive definite; also a ``numpy.linalg.LinAlgError``.

    Notes
    -----
    The derivative is by substitution: Murray, "Differentiation of the Cholesky decomposition",
    2016.

    Examples
    --------
    >>> cholesky([[4.0, 2.0], [2.0, 5.0]], upper=True)
    Tensor([[2., 1.],
            [0., 2.]])
    """
    matrix = hermitian(square(a, "cholesky"))
    return wrap(factors.cholesky(matrix, upper=bool(upper)))
