"""Factors of matrices, as in ``numpy.linalg``.

>>> cholesky([[4.0, 2.0], [2.0, 5.0]])
Tensor([[2., 0.],
        [1., 2.]])
"""

from __future__ import annotations

from typing import NamedTuple

from funcgrad._core.trace import Value
from funcgrad._primitives import cholesky as factors
from funcgrad._primitives import eigen_general, orthogonal, values_alone
from funcgrad._primitives.matrices import adjoint, hermitian
from funcgrad.errors import ArgumentError
from funcgrad.numpy.arithmetic import absolute, sign
from funcgrad.numpy.indexing import take_along_axis
from funcgrad.numpy.manipulation import flip
from funcgrad.numpy.matrices import matrices, results, square
from funcgrad.numpy.options import choice, failed_as
from funcgrad.numpy.rounding import copysign
from funcgrad.numpy.sorting import argsort, sort
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap


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
        Hermitian matrices. The Hermitian part ``(a + a.mH) / 2`` is used, where NumPy reads one
        triangle; so gradients are Hermitian, too.
    upper : bool
        Whether to return ``L.mH``, which is upper triangular.
    failed : {"raise", "nan"}
        For a matrix that is not positive definite, raise an error or fill its result with NaN.

    Returns
    -------
    Tensor, shape (..., n, n)

    Raises
    ------
    MatrixShapeError
        The matrices are not square.
    MatrixError
        A matrix is not positive definite; also a ``numpy.linalg.LinAlgError``.

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
    """The matrices, and whether to read the lower triangle."""
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
        Hermitian matrices. The Hermitian part ``(a + a.mH) / 2`` is used, so gradients are
        Hermitian, too.
    UPLO : {"L", "U"}, optional
        If given, only the lower or the upper triangle counts, for values and for gradients.
    failed : {"raise", "nan"}
        For infinities, NaN and undefined derivatives, raise an error or fill the results of that
        matrix with NaN.

    Returns
    -------
    eigenvalues : Tensor, shape (..., n)
        The eigenvalues: real, in ascending order.
    eigenvectors : Tensor, shape (..., n, n)
        The eigenvectors in columns, of length 1. Their sign, or complex phase, is LAPACK's.

    Raises
    ------
    MatrixShapeError
        The matrices are not square.
    MatrixError
        A matrix has infinities or NaN; also a ``numpy.linalg.LinAlgError``.
    ArgumentError
        ``UPLO`` is neither "L" nor "U".
    DegenerateError
        The derivative depends on the choice of vectors for equal eigenvalues, or on the phase of
        complex vectors. Forward mode raises whenever vectors of equal eigenvalues change and any
        eigenvector is used, even if the result does not depend on the changed ones.

    Notes
    -----
    With D = V^H dA V: dw = diag(D) and dV = V (D / gaps) (Giles 2008, section 3.1). Eigenvalues
    count as equal if they differ by less than 32 n times the precision, relative to the greatest.
    For equal ones, a sum over the space, such as the projection V V^H of their columns, has the
    right gradient. A function V g(w) V^H needs the derivative of g, so a nonzero gradient with
    respect to w is an error. (If symmetry makes this gradient zero, the error is missed: call
    ``inv`` or ``matrix_power`` for such functions.)

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
    return EighResult(*map(wrap, values_alone.eigh(matrix, lower=lower, failed=failed)))


def eigvalsh(a: ArrayLike, UPLO: str | None = None, *, failed: str = "raise") -> Tensor:
    """The eigenvalues of Hermitian matrices, in ascending order.

    Parameters and errors are as for ``eigh``. Derivatives exist at every matrix: a sum over equal
    eigenvalues has a derivative; a single one has a subgradient, for some choice of vectors.

    Returns
    -------
    Tensor, shape (..., n)

    Notes
    -----
    Second derivatives at equal eigenvalues exist for functions that are symmetric in them;
    ``hessian``, ``hvp``, reverse over reverse and reverse over forward mode compute them. The
    function is assumed to be symmetric; if its first derivatives show otherwise, an error is
    raised. ``DegenerateError`` is also raised by forward over forward mode, by reverse over forward
    mode if all first derivatives with respect to the eigenvalues are 0, sometimes if second
    derivatives cancel up to rounding, and for third derivatives. Close eigenvalues lose digits in
    proportion to 1 / difference (Lewis and Sendov, "Twice differentiable spectral functions",
    2001).

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.grad(lambda a: (eigvalsh(a) ** 2).sum())(fg.tensor([[1.0, 0.0], [0.0, 1.0]]))
    Tensor([[2., 0.],
            [0., 2.]])
    """
    matrix, lower = _triangle(a, UPLO, "eigvalsh")
    return wrap(values_alone.eigvalsh(matrix, lower=lower, failed=failed_as(failed, "eigvalsh")))


def eig(a: ArrayLike, *, failed: str = "raise") -> EigResult:
    """The eigenvalues and the right eigenvectors of square matrices, complex for all matrices.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
    failed : {"raise", "nan"}
        For infinities, NaN and undefined derivatives, raise an error or fill the results of that
        matrix with NaN.

    Returns
    -------
    eigenvalues : Tensor, complex, shape (..., n)
        The eigenvalues in LAPACK's order.
    eigenvectors : Tensor, complex, shape (..., n, n)
        The eigenvectors in columns, of length 1. The largest component is real, and positive in
        vectors with imaginary parts. The sign of real vectors is LAPACK's, and depends on rounding.

    Raises
    ------
    MatrixShapeError
        The matrices are not square.
    MatrixError
        A matrix has infinities or NaN; also a ``numpy.linalg.LinAlgError``.
    DegenerateError
        The derivative depends on the choice of vectors for equal eigenvalues, or the matrix has no
        basis of eigenvectors, or nearly none.

    Notes
    -----
    Derivatives follow this choice of length and phase. The array API and NumPy from 2.5 on also
    return complex results always. Earlier versions of NumPy return real ones if all eigenvalues of
    a real matrix are real: write ``eig(a).eigenvalues.real``.

    Examples
    --------
    >>> eig([[2.0, 0.0], [0.0, 3.0]]).eigenvalues
    Tensor([2.+0.j, 3.+0.j])
    >>> eig([[0.0, 1.0], [-1.0, 0.0]]).eigenvalues
    Tensor([0.+1.j, 0.-1.j])
    """
    return EigResult(*results(eigen_general.eig, square(a, "eig"), failed=failed_as(failed, "eig")))


def eigvals(a: ArrayLike, *, failed: str = "raise") -> Tensor:
    """The eigenvalues of square matrices, complex for all matrices.

    Parameters and errors are as for ``eig``.

    Returns
    -------
    Tensor, complex, shape (..., n)

    Examples
    --------
    >>> eigvals([[2.0, 5.0], [0.0, 3.0]])
    Tensor([2.+0.j, 3.+0.j])
    """
    failed = failed_as(failed, "eigvals")
    return wrap(eigen_general.eigvals(square(a, "eigvals"), failed=failed))


# ------------------------------------------------------------------------------ orthogonal factors


def qr(a: ArrayLike, mode: str = "reduced", *, failed: str = "raise") -> QRResult | Tensor:
    """Orthonormal columns Q and an upper triangular R with ``Q @ R = a``.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
    mode : {"reduced", "complete", "r"}
        Whether Q has ``min(m, n)`` columns, or m, or is left out.
    failed : {"raise", "nan"}
        For an undefined derivative, raise an error or fill it with NaN.

    Returns
    -------
    Q : Tensor, shape (..., m, k)
        Missing with ``mode="r"``, which returns only R. The signs are LAPACK's.
    R : Tensor, shape (..., k, n)

    Raises
    ------
    MatrixShapeError
        There are fewer than two axes.
    ArgumentError
        ``mode`` is another word. NumPy's "raw", LAPACK's internal form, is not supported.
    DegenerateError
        The derivative is undefined: the first columns are linearly dependent, or it is asked of
        single columns that complete Q, which are an arbitrary basis. In forward mode their tangents
        are in the span of the first columns.

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
        Whether ``a`` is Hermitian, so that ``eigh`` can be used.
    failed : {"raise", "nan"}
        For infinities, NaN and undefined derivatives, raise an error or fill the results of that
        matrix with NaN.

    Returns
    -------
    U : Tensor, shape (..., m, m) or (..., m, k)
        Left singular vectors; U and Vh are returned only with ``compute_uv``.
    S : Tensor, shape (..., k)
        In descending order.
    Vh : Tensor, shape (..., n, n) or (..., k, n)

    Raises
    ------
    MatrixShapeError
        There are fewer than two axes, or a Hermitian matrix is not square.
    MatrixError
        A matrix has infinities or NaN; also a ``numpy.linalg.LinAlgError``.
    DegenerateError
        The derivative depends on the choice of vectors: for equal singular values, as in ``eigh``;
        for several zeros, or zeros of a matrix that is not square; for vectors that complete a
        basis; or on the phase of complex vectors.

    Notes
    -----
    Townsend, "Differentiating the singular value decomposition", 2016. A function of S only has the
    derivatives of ``svdvals``.

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
        return wrap(values_alone.svdvals(matrix, failed=failed))
    full = bool(full_matrices)
    return SVDResult(*map(wrap, values_alone.svd(matrix, full_matrices=full, failed=failed)))


def _svd_of_hermitian(matrix: Value, compute_uv: bool, failed: str) -> SVDResult | Tensor:
    """The singular value decomposition by eigenvalues; the right vectors take their signs."""
    if not compute_uv:
        w = eigvalsh(matrix, failed=failed)
        return flip(sort(w * _signs(w)), axis=-1)
    w, v = eigh(matrix, failed=failed)
    order = flip(argsort(absolute(w), axis=-1), axis=-1)
    s, signs = (take_along_axis(values, order, axis=-1) for values in (w * _signs(w), sign(w)))
    u = take_along_axis(v, order[..., None, :], axis=-1)
    return SVDResult(u, s, adjoint(u * signs[..., None, :]))


def _signs(w: Tensor) -> Tensor:
    """1 and -1: a zero may become negative, so that even functions have second derivatives."""
    return copysign(1.0, w)


def svdvals(x: ArrayLike, /, *, failed: str = "raise") -> Tensor:
    """Singular values, in descending order.

    A sum over equal values has a derivative; a single one has a subgradient. For second derivatives
    see ``eigvalsh``.

    Parameters
    ----------
    x : array_like, shape (..., m, n)
    failed : {"raise", "nan"}
        For infinities, NaN and undefined derivatives, raise an error or fill the results of that
        matrix with NaN.

    Returns
    -------
    Tensor, shape (..., min(m, n))

    Raises
    ------
    MatrixShapeError
        There are fewer than two axes.

    Notes
    -----
    In reverse mode the derivative of a zero singular value is 0, its least subgradient. In forward
    mode and in second derivatives it may become negative. So second derivatives of even functions,
    such as sums of squares, are right at every rank. Other functions have a kink there; ``norm``
    has the least subgradient in both modes.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.grad(lambda x: svdvals(x).sum())(fg.tensor([[3.0, 0.0], [0.0, -2.0]]))
    Tensor([[ 1.,  0.],
            [ 0., -1.]])
    """
    matrix = matrices(x, "svdvals", "x")
    return wrap(values_alone.svdvals(matrix, failed=failed_as(failed, "svdvals")))
