"""Factors of matrices, as in ``numpy.linalg``.

>>> cholesky([[4.0, 2.0], [2.0, 5.0]])
Tensor([[2., 0.],
        [1., 2.]])
"""

from __future__ import annotations

from typing import NamedTuple

from funcgrad.errors import ArgumentError
from funcgrad.numpy.matrices import results, square
from funcgrad.primitives import cholesky as factors
from funcgrad.primitives import eigen
from funcgrad.primitives.matrices import hermitian
from funcgrad.tensor import ArrayLike, Tensor, wrap
from funcgrad.trace import Value

__all__ = ["EighResult", "cholesky", "eigh", "eigvalsh"]


class EighResult(NamedTuple):
    """What ``eigh`` returns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


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


def _triangle(a: ArrayLike, UPLO: str | None, operation: str) -> tuple[Value, bool]:
    """Matrices of which one triangle will be read, and whether that is the lower one."""
    if UPLO is None:
        return hermitian(square(a, operation)), True
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise ArgumentError(f"{operation}: UPLO is 'L' or 'U', not {UPLO!r}.")
    return square(a, operation), UPLO.upper() == "L"


def eigh(a: ArrayLike, UPLO: str | None = None) -> EighResult:
    """The eigenvalues and the eigenvectors of Hermitian matrices.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Hermitian. Of other matrices the Hermitian part ``(a + a.mH) / 2`` is taken; so gradients
        are Hermitian, too.
    UPLO : {"L", "U"}, optional
        With it only the lower or the upper triangle counts, for values and for gradients.

    Returns
    -------
    eigenvalues : Tensor, shape (..., n)
        Real, in ascending order.
    eigenvectors : Tensor, shape (..., n, n)
        In columns, of length 1. The sign, and of complex ones the phase, is LAPACK's.

    Raises
    ------
    MatrixShapeError
        The matrices are not square.
    MatrixError
        They have infinities or NaN; also a ``numpy.linalg.LinAlgError``.
    ArgumentError
        ``UPLO`` is something else.
    DegenerateError
        A derivative is asked for that depends on the choice of vectors for equal eigenvalues, or on
        the phase of complex ones. In forward mode that is also so where vectors of equal
        eigenvalues turn, whatever is made of them; the eigenvalues alone are had from ``eigvalsh``.

    Notes
    -----
    With D = V^H dA V: dw = diag(D) and dV = V (D / gaps) (Giles 2008, section 3.1). Eigenvalues
    count as equal that differ by 32 n times the precision, relative to the greatest. There a sum
    over the space, as the projection V V^H of some of the columns, has the right gradient; a
    function V g(w) V^H wants the derivative of g, which shows in the gradient with respect to w, so
    that is refused. (If all of that gradient is zero by a symmetry of the numbers, it does not
    show: write such functions as what they are, as ``inv`` or ``matrix_power``.)

    Examples
    --------
    >>> import funcgrad as fg
    >>> eigh([[2.0, 0.0], [0.0, 3.0]]).eigenvalues
    Tensor([2., 3.])
    >>> fg.grad(lambda a: eigh(a).eigenvalues[0])(fg.tensor([[2.0, 1.0], [1.0, 2.0]]))
    Tensor([[ 0.5, -0.5],
            [-0.5,  0.5]])
    """
    matrix, lower = _triangle(a, UPLO, "eigh")
    return EighResult(*results(eigen.eigh, matrix, lower=lower))


def eigvalsh(a: ArrayLike, UPLO: str | None = None) -> Tensor:
    """The eigenvalues of Hermitian matrices, in ascending order.

    The parameters and errors are those of ``eigh``. Derivatives are had at every matrix: sums over
    equal eigenvalues have theirs, one of several equal ones has a subgradient, by LAPACK's choice
    of vectors.

    Returns
    -------
    Tensor, shape (..., n)

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.grad(lambda a: (eigvalsh(a) ** 2).sum())(fg.tensor([[1.0, 0.0], [0.0, 1.0]]))
    Tensor([[2., 0.],
            [0., 2.]])
    """
    matrix, lower = _triangle(a, UPLO, "eigvalsh")
    return wrap(eigen.eigvalsh(matrix, lower=lower))
