"""Factors of matrices, as in ``numpy.linalg``.

>>> cholesky([[4.0, 2.0], [2.0, 5.0]])
Tensor([[2., 0.],
        [1., 2.]])
"""

from __future__ import annotations

from typing import NamedTuple

from numpy.typing import DTypeLike

from funcgrad.errors import ArgumentError, TracerError
from funcgrad.numpy.arithmetic import absolute, sign
from funcgrad.numpy.indexing import take_along_axis
from funcgrad.numpy.manipulation import flip
from funcgrad.numpy.matrices import matrices, results, square
from funcgrad.numpy.options import choice, complex_dtype, failed_as
from funcgrad.numpy.reductions import any as any_of
from funcgrad.numpy.sorting import argsort, sort
from funcgrad.primitives import cholesky as factors
from funcgrad.primitives import eigen, eigen_general, orthogonal, singular_values
from funcgrad.primitives.matrices import adjoint, hermitian
from funcgrad.primitives.structural import cast
from funcgrad.shape import dtype_of
from funcgrad.tensor import ArrayLike, Tensor, wrap
from funcgrad.trace import Value


class EigResult(NamedTuple):
    """The result of ``eig``."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class EighResult(NamedTuple):
    """The result of ``eigh``."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class QRResult(NamedTuple):
    """The result of ``qr``."""

    Q: Tensor
    R: Tensor


class SVDResult(NamedTuple):
    """The result of ``svd``."""

    U: Tensor
    S: Tensor
    Vh: Tensor


def cholesky(a: ArrayLike, /, *, upper: bool = False, failed: str = "raise") -> Tensor:
    """The triangular factors L of positive definite matrices ``L @ L.mH``.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Hermitian. Of other matrices the Hermitian part ``(a + a.mH) / 2`` is taken, where NumPy
        would read one triangle; so gradients are Hermitian, too.
    upper : bool
        Whether to return ``L.mH``, which is upper triangular.
    failed : {"raise", "nan"}
        What becomes of a matrix that is not positive definite: an error, or NaN for it alone.

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
    failed = failed_as(failed, "cholesky")
    return wrap(factors.cholesky(matrix, upper=bool(upper), failed=failed))


def _triangle(a: ArrayLike, UPLO: str | None, operation: str) -> tuple[Value, bool]:
    """Matrices of which one triangle will be read, and whether that is the lower one."""
    if UPLO is None:
        return hermitian(square(a, operation)), True
    if not isinstance(UPLO, str) or UPLO.upper() not in ("L", "U"):
        raise ArgumentError(f"{operation}: UPLO is 'L' or 'U', not {UPLO!r}.")
    return square(a, operation), UPLO.upper() == "L"


def eigh(a: ArrayLike, UPLO: str | None = None, *, failed: str = "raise") -> EighResult:
    """The eigenvalues and the eigenvectors of Hermitian matrices.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Hermitian. Of other matrices the Hermitian part ``(a + a.mH) / 2`` is taken; so gradients
        are Hermitian, too.
    UPLO : {"L", "U"}, optional
        With it only the lower or the upper triangle counts, for values and for gradients.
    failed : {"raise", "nan"}
        What becomes of infinities, of NaN and of what has no derivative: an error, or NaN for that
        matrix alone.

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
    failed = failed_as(failed, "eigh")
    return EighResult(*results(eigen.eigh, matrix, lower=lower, failed=failed))


def eigvalsh(a: ArrayLike, UPLO: str | None = None, *, failed: str = "raise") -> Tensor:
    """The eigenvalues of Hermitian matrices, in ascending order.

    The parameters and errors are those of ``eigh``. Derivatives are had at every matrix: sums over
    equal eigenvalues have theirs, one of several equal ones has a subgradient, by LAPACK's choice
    of vectors. Second derivatives divide by differences of eigenvalues: at equal ones they raise
    ``DegenerateError``, and near them they lose digits, by the inverse of the difference.

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
    return wrap(eigen.eigvalsh(matrix, lower=lower, failed=failed_as(failed, "eigvalsh")))


def narrowed(
    operation: str, values: Value, dtype: DTypeLike | None, *results: Tensor
) -> tuple[Tensor, ...]:
    """Real numbers where NumPy has such: of a real matrix whose eigenvalues all are real.

    In a batch one example may have real ones and another not, so there they are complex; so they
    are with a complex dtype.
    """
    if dtype is not None:
        chosen = complex_dtype(dtype, operation)
        return tuple([wrap(cast(result, dtype=chosen)) for result in results])
    if dtype_of(values).kind == "c":
        return results
    try:
        is_real = not bool(any_of(absolute(results[0].imag) > 0))  # NaN is neither
    except TracerError:
        is_real = False
    return tuple([result.real for result in results]) if is_real else results


def eig(a: ArrayLike, *, failed: str = "raise", dtype: DTypeLike | None = None) -> EigResult:
    """The eigenvalues and the right eigenvectors of square matrices.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
    failed : {"raise", "nan"}
        What becomes of infinities, of NaN and of what has no derivative: an error, or NaN for that
        matrix alone.
    dtype : complex dtype, optional
        With it results are complex, whatever the numbers are, and so in every mode.

    Returns
    -------
    eigenvalues : Tensor, shape (..., n)
        In LAPACK's order. Complex; of real matrices real, as NumPy's are, if all of them are, but
        in ``fg.vmap`` and in the bodies of loops, unless ``dtype`` is given.
    eigenvectors : Tensor, shape (..., n, n)
        In columns, of length 1, with a real component that is the largest.

    Raises
    ------
    MatrixShapeError
        The matrices are not square.
    MatrixError
        They have infinities or NaN; also a ``numpy.linalg.LinAlgError``.
    DegenerateError
        A derivative is asked for that depends on the choice of vectors for equal eigenvalues; or of
        a matrix that has no basis of eigenvectors, or only just.

    Notes
    -----
    The length and the phase of vectors are differentiated as LAPACK chooses them.

    Examples
    --------
    >>> eig([[2.0, 0.0], [0.0, 3.0]]).eigenvalues
    Tensor([2., 3.])
    >>> eig([[0.0, 1.0], [-1.0, 0.0]]).eigenvalues
    Tensor([0.+1.j, 0.-1.j])
    """
    matrix = square(a, "eig")
    pair = results(eigen_general.eig, matrix, failed=failed_as(failed, "eig"))
    return EigResult(*narrowed("eig", matrix, dtype, *pair))


def eigvals(a: ArrayLike, *, failed: str = "raise", dtype: DTypeLike | None = None) -> Tensor:
    """The eigenvalues of square matrices.

    The parameters and the errors are those of ``eig``.

    Returns
    -------
    Tensor, shape (..., n)

    Examples
    --------
    >>> eigvals([[2.0, 5.0], [0.0, 3.0]])
    Tensor([2., 3.])
    """
    matrix = square(a, "eigvals")
    values = wrap(eigen_general.eigvals(matrix, failed=failed_as(failed, "eigvals")))
    return narrowed("eigvals", matrix, dtype, values)[0]


# ------------------------------------------------------------------------------ orthogonal factors


def qr(a: ArrayLike, mode: str = "reduced", *, failed: str = "raise") -> QRResult | Tensor:
    """Orthonormal columns Q and an upper triangular R with ``Q @ R = a``.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
    mode : {"reduced", "complete", "r"}
        Whether Q has ``min(m, n)`` columns, or m, or is left out.
    failed : {"raise", "nan"}
        What becomes of a derivative that does not exist: an error, or NaN for it alone.

    Returns
    -------
    Q : Tensor, shape (..., m, k)
        Not with ``mode="r"``, which returns R alone. The signs are LAPACK's.
    R : Tensor, shape (..., k, n)

    Raises
    ------
    MatrixShapeError
        There are fewer than two axes.
    ArgumentError
        ``mode`` is another word; NumPy's "raw", LAPACK's own form, is not to be had.
    DegenerateError
        A derivative is asked for where the first columns depend on one another, or of the columns
        that complete Q, which are any basis, one by one. Forward mode turns these against the first
        ones and nothing more.

    Notes
    -----
    Roberts and Roberts, "QR and LQ decomposition matrix backpropagation algorithms for square,
    wide, and deep matrices", 2020.

    Examples
    --------
    >>> qr([[3.0, 1.0], [4.0, 2.0]], mode="r")
    Tensor([[-5. , -2.2],
            [ 0. ,  0.4]])
    """
    choice(mode, ("reduced", "complete", "r"), "qr", "mode")
    matrix, failed = matrices(a, "qr"), failed_as(failed, "qr")
    q, r = results(orthogonal.qr, matrix, complete=mode == "complete", failed=failed)
    return r if mode == "r" else QRResult(q, r)


# --------------------------------------------------------------------------------- singular values


def svd(
    a: ArrayLike,
    full_matrices: bool = True,
    compute_uv: bool = True,
    hermitian: bool = False,
    *,
    failed: str = "raise",
) -> SVDResult | Tensor:
    """The singular value decomposition ``a = (U * S) @ Vh``, with k = min(m, n) singular values.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
    full_matrices : bool
        Whether U and Vh are square; else they have k columns and rows.
    compute_uv : bool
        Whether U and Vh are computed at all.
    hermitian : bool
        Whether ``a`` is Hermitian, so that ``eigh`` can serve.
    failed : {"raise", "nan"}
        What becomes of infinities, of NaN and of what has no derivative: an error, or NaN for that
        matrix alone.

    Returns
    -------
    U : Tensor, shape (..., m, m) or (..., m, k)
        Only with ``compute_uv``; so is Vh.
    S : Tensor, shape (..., k)
        In descending order.
    Vh : Tensor, shape (..., n, n) or (..., k, n)

    Raises
    ------
    MatrixShapeError
        There are fewer than two axes, or a Hermitian matrix is not square.
    MatrixError
        There are infinities or NaN; also a ``numpy.linalg.LinAlgError``.
    DegenerateError
        A derivative is asked for that depends on the choice of vectors: for equal singular values,
        as for ``eigh``; for several zeros, or zeros of a matrix that is not square; for those that
        complete a basis; or on phases of complex ones.

    Notes
    -----
    Townsend, "Differentiating the singular value decomposition", 2016. A singular value that is
    zero moves here as if it might become negative, which is right for a function of the matrix;
    those of ``svdvals`` have the derivative 0 there.

    Examples
    --------
    >>> svd([[3.0, 0.0], [0.0, -2.0]], compute_uv=False)
    Tensor([3., 2.])
    """
    failed = failed_as(failed, "svd")
    if hermitian:
        return _svd_of_hermitian(square(a, "svd"), compute_uv, failed)
    matrix = matrices(a, "svd")
    if not compute_uv:
        return wrap(singular_values.svdvals(matrix, failed=failed))
    full = bool(full_matrices)
    return SVDResult(*results(singular_values.svd, matrix, full_matrices=full, failed=failed))


def _svd_of_hermitian(matrix: Value, compute_uv: bool, failed: str) -> SVDResult | Tensor:
    """The singular value decomposition by eigenvalues, whose signs go to one of the vectors."""
    if not compute_uv:
        return flip(sort(absolute(eigvalsh(matrix, failed=failed))), axis=-1)
    w, v = eigh(matrix, failed=failed)
    order = flip(argsort(absolute(w), axis=-1), axis=-1)
    s, signs = (take_along_axis(values, order, axis=-1) for values in (absolute(w), sign(w)))
    u = take_along_axis(v, order[..., None, :], axis=-1)
    return SVDResult(u, s, adjoint(u * signs[..., None, :]))


def svdvals(x: ArrayLike, /, *, failed: str = "raise") -> Tensor:
    """Singular values, in descending order.

    The derivative of one that is zero counts as 0, the least of its subgradients; sums over equal
    ones have their derivative, one of several equal ones a subgradient. Second derivatives are as
    those of ``eigvalsh``.

    Parameters
    ----------
    x : array_like, shape (..., m, n)
    failed : {"raise", "nan"}
        What becomes of infinities, of NaN and of what has no derivative: an error, or NaN for that
        matrix alone.

    Returns
    -------
    Tensor, shape (..., min(m, n))

    Raises
    ------
    MatrixShapeError
        There are fewer than two axes.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.grad(lambda x: svdvals(x).sum())(fg.tensor([[3.0, 0.0], [0.0, -2.0]]))
    Tensor([[ 1.,  0.],
            [ 0., -1.]])
    """
    matrix = matrices(x, "svdvals", "x")
    return wrap(singular_values.svdvals(matrix, failed=failed_as(failed, "svdvals")))
