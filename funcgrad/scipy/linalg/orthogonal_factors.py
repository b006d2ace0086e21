"""Orthonormal factors with SciPy's options.

>>> polar([[0.0, -2.0], [3.0, 0.0]])
(Tensor([[ 0., -1.],
        [ 1.,  0.]]), Tensor([[3., 0.],
        [0., 2.]]))
"""

from __future__ import annotations

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._primitives.contraction import matmul
from funcgrad._primitives.matrices import adjoint, hermitian
from funcgrad._primitives.polar import polar_factor
from funcgrad.errors import MissingOptionError, ShapeError
from funcgrad.numpy import decompositions as plain
from funcgrad.numpy.matrices import matrices, square
from funcgrad.numpy.options import choice, failed_as
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap


def qr(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: int | None = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
    *,
    failed: str = "raise",
) -> tuple[Tensor, ...]:
    """Orthonormal columns Q and an upper triangular R with ``Q @ R = a``.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
    mode : {"full", "r", "economic"}
        Return a square Q, only R, or a Q with min(m, n) columns.
    pivoting : bool
        Not supported: an error.
    overwrite_a, lwork, check_finite
        Ignored.
    failed : {"raise", "nan"}
        Whether a matrix without a derivative raises an error or gives NaN.

    Returns
    -------
    Q : Tensor, shape (..., m, m) or (..., m, k)
        Missing with "r", which returns a tuple of one.
    R : Tensor, shape (..., m, n) or (..., k, n)

    Raises
    ------
    MatrixShapeError
        There are fewer than two axes.
    ArgumentError
        ``mode`` is another word; SciPy's "raw", LAPACK's own form, is not supported.
    MissingOptionError
        ``pivoting`` is given.
    DegenerateError
        See ``funcgrad.numpy.linalg.qr``.

    Examples
    --------
    >>> qr([[3.0], [4.0]], mode="r")
    (Tensor([[-5.],
            [ 0.]]),)
    """
    _allowed("qr", mode)
    if pivoting:
        raise MissingOptionError(
            "qr: pivoting=True is not available. Choose the order of the columns by"
            " scipy.linalg.qr(a, pivoting=True, mode='r')[-1] of the concrete matrix, and pass"
            " a[:, order]."
        )
    q, r = plain.qr(a, "reduced" if mode == "economic" else "complete", failed=failed)
    return (r,) if mode == "r" else (q, r)


def _allowed(operation: str, mode: str) -> None:
    choice(mode, ("full", "r", "economic"), operation, "mode")


def rq(
    a: ArrayLike,
    overwrite_a: bool = False,
    lwork: int | None = None,
    mode: str = "full",
    check_finite: bool = True,
    *,
    failed: str = "raise",
) -> Tensor | tuple[Tensor, Tensor]:
    """An upper triangular R and orthonormal rows Q with ``R @ Q = a``.

    It mirrors ``qr``, and has its parameters and errors.

    Returns
    -------
    R : Tensor, shape (..., m, n) or (..., m, k)
        The only result with the mode "r".
    Q : Tensor, shape (..., n, n) or (..., k, n)

    Examples
    --------
    >>> rq([[3.0, 4.0]], mode="economic")
    (Tensor([[-5.]]), Tensor([[-0.6, -0.8]]))
    """
    _allowed("rq", mode)
    turned = adjoint(wrap(matrices(a, "rq"))[..., ::-1, ::-1])
    q, r = plain.qr(turned, "reduced" if mode == "economic" else "complete", failed=failed)
    upper: Tensor = wrap(adjoint(r))[..., ::-1, ::-1]
    return upper if mode == "r" else (upper, wrap(adjoint(q))[..., ::-1, ::-1])


def polar(a: ArrayLike, side: str = "right", *, failed: str = "raise") -> tuple[Tensor, Tensor]:
    """Orthonormal columns (or rows) U and a positive semidefinite P with ``U @ P = a``.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
    side : {"right", "left"}
        The side of P: ``P @ U = a`` for "left".
    failed : {"raise", "nan"}
        Whether a matrix with infinities, NaN or an undefined derivative raises or gives NaN.

    Returns
    -------
    U : Tensor, shape (..., m, n)
    P : Tensor, shape (..., n, n) or (..., m, m)

    Raises
    ------
    MatrixShapeError
        There are fewer than two axes.
    ArgumentError
        ``side`` is not one of these words.
    MatrixError
        There are infinities or NaN; or a derivative is asked for at a matrix that is not of full
        rank, where it does not exist.
    MissingPackageError
        A derivative is asked for, and SciPy is not installed.

    Notes
    -----
    The derivative is by Kenney and Laub, 1991; it exists for equal singular values, too.

    Examples
    --------
    >>> polar([[3.0], [4.0]])
    (Tensor([[0.6],
            [0.8]]), Tensor([[5.]]))
    """
    choice(side, ("right", "left"), "polar", "side")
    matrix = wrap(matrices(a, "polar"))
    u = _isometry(matrix, failed_as(failed, "polar"))
    product = matmul(adjoint(u), matrix) if side == "right" else matmul(matrix, adjoint(u))
    return u, wrap(hermitian(product))


def _isometry(matrix: Tensor, failed: str) -> Tensor:
    if matrix.shape[-2] < matrix.shape[-1]:
        return wrap(adjoint(polar_factor(adjoint(matrix), failed=failed)))
    return wrap(polar_factor(matrix, failed=failed))


def orthogonal_procrustes(
    A: ArrayLike, B: ArrayLike, check_finite: bool = True, *, failed: str = "raise"
) -> tuple[Tensor, Tensor]:
    """The orthogonal (or unitary) R that minimizes ``norm(A @ R - B)``.

    Parameters
    ----------
    A, B : array_like, shape (m, n)
    check_finite : bool
        Ignored.
    failed : {"raise", "nan"}
        See ``polar``.

    Returns
    -------
    R : Tensor, shape (n, n)
    scale : Tensor, shape ()
        The sum of the singular values of ``A.mH @ B``.

    Raises
    ------
    ShapeError
        The shapes differ, or there are not two axes.
    MatrixError
        A derivative is asked for where ``A.mH @ B`` is singular: R is not determined there.

    Examples
    --------
    >>> orthogonal_procrustes([[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [2.0, 0.0]])[1]
    Tensor(3.)
    """
    first, second = wrap(matrices(A, "orthogonal_procrustes", "A")), fnp.asarray(B)
    if first.shape != second.shape or first.ndim != 2:
        raise ShapeError(
            "orthogonal_procrustes: A and B have to be matrices of one shape; the shapes are"
            f" {first.shape} and {second.shape}. Use fg.vmap for stacks."
        )
    product = matmul(adjoint(first), second)
    rotation, positive = polar(wrap(product), failed=failed)
    scale: Tensor = fnp.trace(positive).real
    return rotation, scale


def subspace_angles(A: ArrayLike, B: ArrayLike, *, failed: str = "raise") -> Tensor:
    """The angles between the column spaces of two matrices, in descending order.

    Parameters
    ----------
    A : array_like, shape (n, k)
        A matrix with linearly independent columns.
    B : array_like, shape (n, l)
        As A.
    failed : {"raise", "nan"}
        Treatment of infinities, NaN and undefined derivatives: an error, or NaN.

    Returns
    -------
    Tensor, shape (min(k, l),)

    Raises
    ------
    ShapeError
        There are not two axes, the numbers of rows differ, or there are more columns than rows.
    DegenerateError
        A derivative is asked for where columns are linearly dependent.

    Notes
    -----
    Small angles are computed from sines, others from cosines: Knyazev and Argentati, "Principal
    angles between subspaces in an A-based scalar product", 2002. An angle of 0 has the derivative
    0, its subgradient of least norm.

    Examples
    --------
    >>> subspace_angles([[1.0], [0.0]], [[1.0], [1.0]])
    Tensor([0.78539816])
    """
    values = [wrap(matrices(x, "subspace_angles", name)) for x, name in ((A, "A"), (B, "B"))]
    shapes = [x.shape for x in values]
    if any(len(s) != 2 or s[0] < s[1] for s in shapes) or shapes[0][0] != shapes[1][0]:
        raise ShapeError(
            "subspace_angles: A and B have to be matrices with as many rows, and no more columns;"
            f" the shapes are {shapes[0]} and {shapes[1]}. Use fg.vmap for stacks."
        )
    one, other = (plain.qr(x, "reduced", failed=failed)[0] for x in values)
    if one.shape[1] < other.shape[1]:
        one, other = other, one
    inner = wrap(adjoint(one)) @ other
    cosines = plain.svdvals(inner, failed=failed)[::-1]
    sines = plain.svdvals(other - one @ inner, failed=failed)
    small = cosines**2 >= 0.5
    # The vectors have length 1: their sines are 0 up to rounding if the spaces share a line.
    turned = fnp.where(sines > 4 * one.shape[0] * np.finfo(one.dtype).eps, sines, 0.0)
    by_sine = fnp.arcsin(fnp.where(small, turned, 0.0))
    return fnp.where(small, by_sine, fnp.arccos(fnp.where(small, 0.0, cosines)))


def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
    *,
    failed: str = "raise",
) -> tuple[Tensor, Tensor]:
    """The product of the orthonormal factor of a matrix with another matrix, and R.

    Parameters
    ----------
    a : array_like, shape (m, n)
    c : array_like
        A matrix, or a vector.
    mode : {"right", "left"}
        ``c @ Q`` or ``Q @ c``.
    pivoting : bool
        Not supported: an error.
    conjugate : bool
        Whether Q is conjugated.
    overwrite_a, overwrite_c
        Ignored.
    failed : {"raise", "nan"}
        See ``qr``.

    Returns
    -------
    product : Tensor
    R : Tensor, shape (min(m, n), n)

    Raises
    ------
    MissingOptionError
        ``pivoting`` is given.
    ShapeError
        The shapes do not fit.
    ArgumentError
        ``mode`` is not one of these words.

    Examples
    --------
    >>> qr_multiply([[3.0], [4.0]], [5.0, 0.0])
    (Tensor([-3.]), Tensor([[-5.]]))
    """
    side = choice(mode, ("left", "right"), "qr_multiply", "mode")
    q, r = qr(a, mode="economic", pivoting=pivoting, failed=failed)
    value = fnp.asarray(c)
    rows, columns = q.shape[-2:]
    fits = value.ndim == q.ndim or (value.ndim, q.ndim) == (1, 2)
    place = 0 if value.ndim == 1 else -2 if side == "left" else -1
    if not fits or value.shape[place] != (columns if side == "left" else rows):
        raise ShapeError(
            f"qr_multiply: the factor has the shape {q.shape}, and c {value.shape}: the product"
            f" {'Q @ c' if side == 'left' else 'c @ Q'} does not exist."
        )
    q = fnp.conj(q) if conjugate else q
    return (q @ value if side == "left" else value @ q), r


def hessenberg(
    a: ArrayLike, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Tensor | tuple[Tensor, Tensor]:
    """The Hessenberg form of a matrix: ``Q^H a Q``, which is 0 below its first subdiagonal.

    It is made by reflections, column by column, and has their derivatives. Where a column is 0
    below the subdiagonal already, nothing is reflected, and a change of the column counts as 0.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
    calc_q : bool
        Whether Q is returned, too.
    overwrite_a, check_finite
        Ignored.

    Returns
    -------
    Tensor or tuple of Tensor
        The form H, or H and Q with ``a = Q @ H @ Q^H``.

    Raises
    ------
    MatrixShapeError
        The matrices are not square.

    Notes
    -----
    Golub and Van Loan, "Matrix Computations", 2013, 7.4.2; the reflections are LAPACK's, whose
    subdiagonal is real.

    Examples
    --------
    >>> hessenberg([[1.0, 2.0, 3.0], [3.0, 4.0, 5.0], [4.0, 6.0, 7.0]]).round(6)
    Tensor([[ 1. , -3.6,  0.2],
            [-5. , 11.2,  0.6],
            [ 0. , -0.4, -0.2]])
    """
    form = wrap(square(a, "hessenberg", "a"))
    form = form if form.dtype.kind in "fc" else form.astype(np.float64)
    size = form.shape[-1]
    q = fnp.broadcast_to(fnp.eye(size, dtype=form.dtype), form.shape)
    # A last reflection makes the last element of the subdiagonal real.
    for k in range(size - 1 if form.dtype.kind == "c" else size - 2):
        column = form[..., k + 1 :, k]
        direction, factor = _reflection(column)
        below, right = form[..., k + 1 :, :], direction[..., None]
        row = fnp.conj(right.mT)
        form = form.at[..., k + 1 :, :].set(below - factor[..., None, None] * right @ (row @ below))
        behind = form[..., :, k + 1 :]
        back = fnp.conj(factor)[..., None, None]
        form = form.at[..., :, k + 1 :].set(behind - (behind @ right) @ row * back)
        form = form.at[..., k + 2 :, k].set(0.0)
        turned = q[..., :, k + 1 :]
        q = q.at[..., :, k + 1 :].set(turned - (turned @ right) @ row * back)
    return (form, q) if calc_q else form


def _reflection(x: Tensor) -> tuple[Tensor, Tensor]:
    """The v and f with which ``1 - f v v^H`` takes x to a real multiple of the first unit vector.

    The multiple has the other sign than the real part of ``x[0]``, so v does not cancel.
    """
    first, others = x[..., 0], x[..., 1:]
    beyond = fnp.sum(fnp.abs(others) ** 2, axis=-1)
    beyond = beyond + fnp.imag(first) ** 2 if x.dtype.kind == "c" else beyond
    turned = beyond > 0
    real = fnp.real(first)
    length = fnp.sqrt(fnp.where(turned, beyond + real**2, 1.0))
    multiple = fnp.where(real >= 0, -length, length)
    factor = 1 / fnp.where(turned, length**2 - multiple * first, 1.0)
    direction = fnp.concatenate([(first - multiple)[..., None], others], axis=-1)
    return fnp.where(turned[..., None], direction, 0.0), factor
