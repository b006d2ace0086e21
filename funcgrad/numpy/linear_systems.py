"""Linear equations, inverse matrices and determinants, as in ``numpy.linalg``.

>>> import funcgrad as fg
>>> a = fg.tensor([[2.0, 1.0], [1.0, 3.0]])
>>> solve(a, [3.0, 4.0])
Tensor([1., 1.])
>>> fg.grad(det)(a)
Tensor([[ 3., -1.],
        [-1.,  2.]])
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from funcgrad._core.specs import broadcast_shapes, dtype_of, is_inexact, normalize_axis, shape_of
from funcgrad._core.trace import Value
from funcgrad._core.users_values import operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives import determinants, linear_systems
from funcgrad._primitives.matrices import linalg_dtype
from funcgrad._primitives.structural import cast, reshape, transpose
from funcgrad.errors import MatrixShapeError, ShapeError
from funcgrad.numpy.matrices import matrices, results, square
from funcgrad.numpy.options import failed_as, integer, integers
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap


class SlogdetResult(NamedTuple):
    """The results of ``slogdet``."""

    sign: Tensor
    logabsdet: Tensor


def right_side(b: ArrayLike, operation: str) -> Value:
    """The right-hand side of equations, of an inexact dtype."""
    value = operand(b, operation)
    dtype = linalg_dtype(operation, dtype_of(value))
    return value if is_inexact(dtype_of(value)) else cast(value, dtype=dtype)


def as_columns(a: Value, b: Value, operation: str) -> tuple[Value, bool]:
    """Convert a right-hand side to matrices; also tell whether it was a vector.

    Raises
    ------
    ShapeError
        The rows of a and b differ in number, or their stacks do not broadcast.
    """
    matrix_shape, shape = shape_of(a), shape_of(b)
    is_vector = len(shape) == 1
    rows = shape[0] if is_vector else shape[-2] if shape else -1
    if rows != matrix_shape[-2]:
        raise ShapeError(
            f"{operation}: b has to have as many rows as a; the shapes are {matrix_shape} and"
            f" {shape}. A b of one axis is a vector, of more axes a stack of matrices: give stacks"
            " of vectors a last axis, as b[..., None]."
        )
    if is_vector:
        return reshape(b, shape=(rows, 1)), True
    broadcast_shapes(operation, matrix_shape[:-2], shape[:-2])
    return b, False


def without_columns(x: Value, is_vector: bool) -> Tensor:
    """Convert a solution back to vectors, if the right-hand side was one."""
    return wrap(reshape(x, shape=shape_of(x)[:-1]) if is_vector else x)


def solve(a: ArrayLike, b: ArrayLike, *, failed: str = "raise") -> Tensor:
    """The solution x of the linear equations ``a @ x = b``.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
    b : array_like, shape (n,) or (..., n, k)
        A vector, or matrices; stacks broadcast. One matrix with many right-hand
        sides is factorized once.
    failed : {"raise", "nan"}
        For a singular matrix, raise an error or fill its result with NaN.

    Returns
    -------
    Tensor, shape (n,), (..., n) or (..., n, k)

    Raises
    ------
    MatrixShapeError
        ``a`` is not square.
    ShapeError
        The shapes do not fit each other.
    MatrixError
        A matrix is singular; also a ``numpy.linalg.LinAlgError``.

    Notes
    -----
    dx solves ``a @ dx = db - da @ x``: no inverse is computed (Giles 2008, section 2.3).

    Examples
    --------
    >>> solve([[3.0, 1.0], [1.0, 2.0]], [9.0, 8.0])
    Tensor([2., 3.])
    """
    matrix = square(a, "solve")
    right, is_vector = as_columns(matrix, right_side(b, "solve"), "solve")
    return without_columns(
        linear_systems.solve(matrix, right, failed=failed_as(failed, "solve")), is_vector
    )


def inv(a: ArrayLike, *, failed: str = "raise") -> Tensor:
    """Inverse matrices. To multiply by an inverse, ``solve`` is faster and more accurate.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
    failed : {"raise", "nan"}
        For a singular matrix, raise an error or fill its result with NaN.

    Returns
    -------
    Tensor, shape (..., n, n)

    Raises
    ------
    MatrixShapeError
        The matrices are not square.
    MatrixError
        A matrix is singular; also a ``numpy.linalg.LinAlgError``.

    Examples
    --------
    >>> inv([[1.0, 2.0], [3.0, 4.0]])
    Tensor([[-2. ,  1. ],
            [ 1.5, -0.5]])
    """
    return wrap(
        linear_systems.inv(square(a, "inv"), purpose="inv", failed=failed_as(failed, "inv"))
    )


def det(a: ArrayLike, *, failed: str = "raise") -> Tensor:
    """Determinants.

    The derivatives are cofactors, which are polynomials: first and second derivatives are right at
    every matrix, singular ones too. Third derivatives exist at invertible matrices; elsewhere they
    raise ``MatrixError``.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
    failed : {"raise", "nan"}
        For third derivatives at a singular matrix, raise an error or fill them with NaN.

    Returns
    -------
    Tensor, shape (...)

    Raises
    ------
    MatrixShapeError
        The matrices are not square.

    Examples
    --------
    >>> import funcgrad as fg
    >>> det([[1.0, 2.0], [3.0, 4.0]])
    Tensor(-2.0)
    >>> fg.grad(det)(fg.tensor([[1.0, 2.0], [2.0, 4.0]]))
    Tensor([[ 4., -2.],
            [-2.,  1.]])
    """
    return wrap(determinants.det(square(a, "det"), failed=failed_as(failed, "det")))


def slogdet(a: ArrayLike, *, failed: str = "raise") -> SlogdetResult:
    """The signs of determinants, and the logarithms of their absolute values.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
    failed : {"raise", "nan"}
        For derivatives at a singular matrix, raise an error or fill them with NaN.

    Returns
    -------
    sign : Tensor, shape (...)
        1 or -1, or a complex number of absolute value 1; 0 for singular matrices.
    logabsdet : Tensor, shape (...)
        Real; -inf for singular matrices.

    Raises
    ------
    MatrixShapeError
        The matrices are not square.
    MatrixError
        A matrix is singular, so the derivative does not exist.

    Examples
    --------
    >>> slogdet([[1.0, 2.0], [3.0, 4.0]])
    SlogdetResult(sign=Tensor(-1.0), logabsdet=Tensor(0.6931471805599455))
    """
    matrix, failed = square(a, "slogdet"), failed_as(failed, "slogdet")
    return SlogdetResult(*results(determinants.slogdet, matrix, failed=failed))


# ------------------------------------------------------------------------------------- tensors


def tensorinv(a: ArrayLike, ind: int = 2, *, failed: str = "raise") -> Tensor:
    """The inverse with respect to ``tensordot(a, b, ind)``.

    Parameters
    ----------
    a : array_like
        The product of the first ``ind`` sizes equals the product of the others.
    ind : int
        The number of leading axes; at least 1.
    failed : {"raise", "nan"}
        For a singular matrix, raise an error or fill its result with NaN.

    Returns
    -------
    Tensor, shape ``a.shape[ind:] + a.shape[:ind]``

    Raises
    ------
    ShapeError
        ``ind`` is not positive.
    MatrixShapeError
        The products of sizes differ.
    MatrixError
        The matrix is singular.

    Examples
    --------
    >>> import numpy as np
    >>> tensorinv(np.eye(4).reshape(4, 2, 2), ind=1).shape
    (2, 2, 4)
    """
    value = operand(a, "tensorinv")
    ind = integer(ind, "tensorinv", "ind")
    if ind <= 0:
        raise ShapeError(f"tensorinv: ind has to be positive; it is {ind}.")
    shape = shape_of(value)
    if not shape:
        raise MatrixShapeError("tensorinv: a has no axes (0-d).")
    first, second = shape[:ind], shape[ind:]
    if prod(first) != prod(second):
        raise MatrixShapeError(
            f"tensorinv: the first {ind} axes have {prod(first)} elements and the others"
            f" {prod(second)}; both have to be equal. The shape is {shape}."
        )
    matrix = square(reshape(value, shape=(prod(first), prod(second))), "tensorinv")
    inverse = linear_systems.inv(matrix, purpose="inv", failed=failed_as(failed, "tensorinv"))
    return wrap(reshape(inverse, shape=(*second, *first)))


@answering
def tensorsolve(
    a: ArrayLike, b: ArrayLike, axes: Sequence[int] | None = None, *, failed: str = "raise"
) -> Tensor:
    """The solution x of ``tensordot(a, x, x.ndim) = b``.

    Parameters
    ----------
    a : array_like, shape ``b.shape + q``
        The product of the sizes q equals the size of b.
    b : array_like
    axes : sequence of int, optional
        Axes of ``a`` that are moved to its end first.
    failed : {"raise", "nan"}
        For a singular matrix, raise an error or fill its result with NaN.

    Returns
    -------
    Tensor, shape q

    Raises
    ------
    MatrixShapeError
        The numbers of equations and of unknowns differ.
    MatrixError
        The matrix is singular.

    Examples
    --------
    >>> import numpy as np
    >>> tensorsolve(np.eye(4).reshape(2, 2, 4), np.ones((2, 2)))
    Tensor([1., 1., 1., 1.])
    """
    value, right = operand(a, "tensorsolve"), right_side(b, "tensorsolve")
    rank = len(shape_of(value))
    if axes is not None:
        members = integers(axes, "tensorsolve", "axes")
        moved = [normalize_axis(axis, rank, "tensorsolve") for axis in members]
        order = [k for k in range(rank) if k not in moved] + moved
        value = transpose(value, axes=tuple(order))
    shape = shape_of(value)
    unknowns = shape[len(shape_of(right)) :]
    count = prod(unknowns)
    if prod(shape_of(right)) != count or prod(shape) != count**2:
        raise MatrixShapeError(
            f"tensorsolve: a has the shape {shape}; its first {len(shape_of(right))} axes belong"
            f" to b: there are {count} unknowns for {prod(shape_of(right))} equations."
        )
    matrix = matrices(reshape(value, shape=(count, count)), "tensorsolve")
    failed = failed_as(failed, "tensorsolve")
    x = linear_systems.solve(matrix, reshape(right, shape=(count, 1)), failed=failed)
    return wrap(reshape(x, shape=unknowns))
