"""Norms of vectors and of matrices, condition numbers and ranks, as in ``numpy.linalg``.

At a kink the derivative of a norm is the subgradient of least norm: 0 at the origin and for zero
singular values; equal greatest elements share it. So second derivatives at the origin are 0, even
if the norm is squared afterwards. The sum of squares itself has the right second derivative.

>>> import funcgrad as fg
>>> norm([3.0, 4.0])
Tensor(5.0)
>>> fg.grad(norm)(fg.tensor([3.0, 4.0])), fg.grad(norm)(fg.tensor([0.0, 0.0]))
(Tensor([0.6, 0.8]), Tensor([0., 0.]))
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from funcgrad._core.specs import (
    AxisLike,
    dtype_of,
    is_inexact,
    normalize_axes,
    reduced_shape,
    shape_of,
)
from funcgrad._core.trace import Value
from funcgrad._core.users_values import operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives import norms
from funcgrad._primitives.singular_values import positive
from funcgrad._primitives.structural import cast, reshape, unfollowed
from funcgrad.errors import ArgumentError, DtypeError, MatrixShapeError, ShapeError
from funcgrad.numpy.arithmetic import absolute
from funcgrad.numpy.decompositions import eigvalsh, svdvals
from funcgrad.numpy.linear_systems import inv, slogdet
from funcgrad.numpy.manipulation import moveaxis
from funcgrad.numpy.matrices import matrices, square
from funcgrad.numpy.options import failed_as, real_number
from funcgrad.numpy.reductions import any as any_of
from funcgrad.numpy.reductions import max as max_of
from funcgrad.numpy.reductions import min as min_of
from funcgrad.numpy.reductions import sum as sum_of
from funcgrad.numpy.selection import where
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply, wrap

Order: TypeAlias = float | str | None


def _order(x: object, operation: str, argument: str = "ord") -> Order:
    """Check the order of a norm: a number, a word, or None.

    Raises
    ------
    DtypeError
        The order is none of these.
    """
    if x is None or isinstance(x, (int, float, str)):
        return x
    return real_number(x, operation, argument)


def _numbers(x: ArrayLike, operation: str) -> Tensor:
    """An array of an inexact dtype."""
    value = operand(x, operation)
    return wrap(value if is_inexact(dtype_of(value)) else cast(value, dtype=np.dtype(np.float64)))


@answering
def norm(
    x: ArrayLike,
    ord: Order = None,
    axis: AxisLike = None,
    keepdims: bool = False,
    *,
    failed: str = "raise",
) -> Tensor:
    """A norm of vectors or of matrices.

    Parameters
    ----------
    x : array_like
    ord : None, number, "fro" or "nuc"
        For vectors the order p: any number but 0 (``sum(abs(x) ** p) ** (1 / p)``), 0 (the count of
        nonzero elements), inf or -inf (the greatest or least absolute value). For matrices "fro"
        (the root of the sum of squares), "nuc" (the sum of singular values), 2 or -2 (the greatest
        or least singular value), 1 or -1 (the greatest or least sum of absolute values of a
        column), inf or -inf (of a row). None is the root of the sum of squares.
    axis : int or pair of ints, optional
        The axis of the vectors, or both axes of the matrices. By default ``x`` is one vector or
        matrix, and with ``ord=None`` of any number of axes.
    keepdims : bool
        Whether to keep these axes, with size 1.
    failed : {"raise", "nan"}
        For infinities and NaN, if ``ord`` needs singular values, raise an error or return NaN for
        that matrix.

    Returns
    -------
    Tensor
        Real.

    Raises
    ------
    ArgumentError
        ``ord`` names no norm of vectors, or no norm of matrices.
    ShapeError
        The number of axes is neither one nor two.

    Notes
    -----
    The derivative at the origin is 0; for other kinks see the module ``funcgrad.numpy.norms``. So
    the Hessian of ``norm(x) ** 2`` is 0 there, not 2, since the norm is not known to be squared. If
    ``x`` may be 0, write ``vdot(x, x)`` or ``sum(x * x)``. The root of a sum of squares neither
    overflows nor underflows on the way.

    Examples
    --------
    >>> norm([[3.0, 4.0], [6.0, 8.0]], axis=1)
    Tensor([ 5., 10.])
    >>> norm([[3.0, 0.0], [0.0, -4.0]], "nuc")
    Tensor(7.0)
    >>> import funcgrad as fg
    >>> zero = fg.tensor([0.0])
    >>> fg.hessian(lambda x: norm(x) ** 2)(zero), fg.hessian(lambda x: x @ x)(zero)
    (Tensor([[0.]]), Tensor([[2.]]))
    """
    value, ord, failed = _numbers(x, "norm"), _order(ord, "norm"), failed_as(failed, "norm")
    rank = len(shape_of(value))
    if axis is None:
        if ord is None or (ord in ("f", "fro") and rank == 2) or (_is(ord, 2) and rank == 1):
            return _length(value, tuple(range(rank)), keepdims)
        axes = tuple(range(rank))
    else:
        axes = normalize_axes(axis, rank, "norm")
    if len(axes) == 1:
        return _of_vectors(value, 2 if ord is None else ord, axes, keepdims, "norm")
    if len(axes) == 2:
        chosen = "fro" if ord is None else ord
        return _of_matrices(value, chosen, axes, keepdims, "norm", failed)
    raise ShapeError(
        f"norm: needs one axis for vectors or two for matrices, not {len(axes)}; the shape is"
        f" {shape_of(value)}. Give axis=, or ord=None for all elements."
    )


@answering
def vector_norm(
    x: ArrayLike, /, *, axis: AxisLike = None, keepdims: bool = False, ord: Order = 2
) -> Tensor:
    """A norm of vectors, along any axes.

    Parameters
    ----------
    x : array_like
    axis : int or tuple of ints, optional
        The elements along all of these axes form one vector; by default all axes.
    keepdims : bool
    ord : number
        See ``norm``.

    Returns
    -------
    Tensor

    Raises
    ------
    ArgumentError
        ``ord`` names no such norm.

    Examples
    --------
    >>> vector_norm([[3.0, 4.0], [0.0, 12.0]])
    Tensor(13.0)
    """
    value = _numbers(x, "vector_norm")
    axes = normalize_axes(axis, len(shape_of(value)), "vector_norm")
    return _of_vectors(value, ord, axes, keepdims, "vector_norm")


def matrix_norm(
    x: ArrayLike, /, *, keepdims: bool = False, ord: Order = "fro", failed: str = "raise"
) -> Tensor:
    """A norm of the matrices on the last two axes.

    Parameters
    ----------
    x : array_like, shape (..., m, n)
    keepdims : bool
    ord : "fro", "nuc", 1, -1, 2, -2, inf or -inf
        See ``norm``.
    failed : {"raise", "nan"}
        For infinities and NaN, if ``ord`` needs singular values, raise an error or return NaN for
        that matrix.

    Returns
    -------
    Tensor, shape (...)

    Raises
    ------
    ArgumentError
        ``ord`` names no such norm.
    MatrixShapeError
        There are fewer than two axes.

    Examples
    --------
    >>> matrix_norm([[3.0, 0.0], [0.0, -4.0]], ord=2)
    Tensor(4.0)
    """
    value = _numbers(x, "matrix_norm")
    rank = len(shape_of(value))
    if rank < 2:
        raise MatrixShapeError(
            f"matrix_norm: x has to be a matrix, or a stack of matrices on the last two axes; its"
            f" shape is {shape_of(value)}."
        )
    chosen = "fro" if ord is None else _order(ord, "matrix_norm")
    axes, failed = (rank - 2, rank - 1), failed_as(failed, "matrix_norm")
    return _of_matrices(value, chosen, axes, keepdims, "matrix_norm", failed)


# -------------------------------------------------------------------------------------- vectors


def _is(ord: Order, number: float) -> bool:
    return not isinstance(ord, str) and bool(ord == number)


def _length(x: Tensor, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    if not shape_of(x):  # a number is a vector of one element
        return absolute(x)
    return apply(norms.length, x, axis=axes, keepdims=bool(keepdims))


def _of_vectors(
    x: Tensor, ord: Order, axes: tuple[int, ...], keepdims: bool, operation: str
) -> Tensor:
    if isinstance(ord, str):
        raise ArgumentError(
            f"{operation}: {ord!r} is not a norm of vectors; ord has to be a number, inf or -inf."
        )
    p = real_number(2 if ord is None else ord, operation, "ord")
    if p != p:
        raise ArgumentError(f"{operation}: ord is NaN.")
    if not shape_of(x):
        x, axes, keepdims = wrap(reshape(x, shape=(1,))), (0,), False
    if p == 2:
        return _length(x, axes, keepdims)
    sizes = absolute(x)
    if p == np.inf:
        return _greatest(sizes, axes, keepdims)
    if p == -np.inf:
        return min_of(sizes, axis=axes, keepdims=keepdims)
    if p == 0:
        count = sum_of(x != 0, axis=axes, keepdims=keepdims)
        return wrap(cast(count, dtype=dtype_of(sizes)))
    if p == 1:
        return sum_of(sizes, axis=axes, keepdims=keepdims)
    return _powers(sizes, p, axes, keepdims)


def _greatest(x: Tensor, axis: AxisLike, keepdims: bool = False) -> Tensor:
    """The greatest of non-negative elements; 0 if there are none."""
    reduced = normalize_axes(axis, len(shape_of(x)), "norm")
    choose = sum_of if 0 in [shape_of(x)[k] for k in reduced] else max_of
    return choose(x, axis=axis, keepdims=keepdims)


def _powers(sizes: Tensor, p: float, axes: tuple[int, ...], keepdims: bool) -> Tensor:
    """The p-norm, computed relative to the greatest element, which changes only rounding.

    Where the norm is 0, its derivative is 0: at the origin, and for p < 0 where any element is 0.
    """
    if 0 in [shape_of(sizes)[axis] for axis in axes]:
        return sum_of(sizes**p, axis=axes, keepdims=keepdims) ** (1 / p)
    held = wrap(unfollowed(max_of(sizes, axis=axes, keepdims=True)))
    flat = held == 0 if p > 0 else any_of(sizes == 0, axis=axes, keepdims=True)
    usual = (held > 0) & (held < np.inf)
    scaled = where(flat, 1.0, sizes / where(usual, held, 1.0))
    if 0 < p < 1:  # a cusp at 0, whose least subgradient is 0
        away = scaled > 0
        powers = where(away, where(away, scaled, 1.0) ** p, 0.0)
    else:
        powers = scaled**p
    root = sum_of(powers, axis=axes, keepdims=True) ** (1 / p)
    out = where(flat, 0.0, root * where(usual, held, 1.0))
    return (
        out if keepdims else wrap(reshape(out, shape=reduced_shape(shape_of(sizes), axes, False)))
    )


# ------------------------------------------------------------------------------------- matrices


def _of_matrices(
    x: Tensor, ord: Order, axes: tuple[int, ...], keepdims: bool, operation: str, failed: str
) -> Tensor:
    if len(set(axes)) != 2:
        raise ShapeError(f"{operation}: the two axes have to differ; they are {axes}.")
    if ord in ("f", "fro"):
        return _length(x, axes, keepdims)
    moved = moveaxis(x, axes, (-2, -1))
    if ord == "nuc":
        out = sum_of(_singular_values(moved, failed), axis=-1)
    elif isinstance(ord, str) or ord is None or ord not in (1, -1, 2, -2, np.inf, -np.inf):
        raise ArgumentError(
            f"{operation}: {ord!r} is not a norm of matrices; ord has to be 'fro', 'nuc', 1, -1,"
            " 2, -2, inf or -inf."
        )
    else:
        if ord in (2, -2):
            sizes = _singular_values(moved, failed)
        else:
            sizes = sum_of(absolute(moved), axis=-2 if abs(ord) == 1 else -1)
        out = _greatest(sizes, -1) if ord > 0 else min_of(sizes, axis=-1)
    return wrap(reshape(out, shape=reduced_shape(shape_of(x), axes, True))) if keepdims else out


def _singular_values(x: Tensor, failed: str) -> Tensor:
    """Singular values; the derivative of a zero is 0, the least subgradient, in both modes."""
    s = svdvals(x, failed=failed)
    counted = positive(s, size=max(shape_of(x)[-2:])) > 0
    return where(counted, s, unfollowed(s))


# ------------------------------------------------------------------------------------ condition


def cond(x: ArrayLike, p: Order = None, *, failed: str = "raise") -> Tensor:
    """Condition numbers: the greatest factor from relative errors of b to those in ``solve(x, b)``.

    Parameters
    ----------
    x : array_like, shape (..., m, n)
        Matrices, which are square except for the 2-norm.
    p : None, 2, -2, 1, -1, inf, -inf or "fro", "nuc"
        The norm; None is the 2-norm.
    failed : {"raise", "nan"}
        For infinities and NaN in a matrix, raise an error or return NaN for that matrix.

    Returns
    -------
    Tensor, shape (...)
        Infinite for singular matrices, where the derivative is 0.

    Raises
    ------
    MatrixShapeError
        There are fewer than two axes, or the matrices are not square.
    ArgumentError
        ``p`` names no such norm, or the matrices are empty.

    Examples
    --------
    >>> cond([[4.0, 0.0], [0.0, 2.0]])
    Tensor(2.0)
    """
    value, failed = wrap(matrices(x, "cond", "x")), failed_as(failed, "cond")
    p = _order(p, "cond", "p")
    if 0 in shape_of(value)[-2:]:
        raise MatrixShapeError("cond: empty matrices have no condition number.")
    if p is None or (not isinstance(p, str) and p in (2, -2)):
        s = _singular_values(value, failed)
        greatest, least = max_of(s, axis=-1), min_of(s, axis=-1)  # equal ones share
        return _ratio(least, greatest) if p == -2 else _ratio(greatest, least)
    value = wrap(square(x, "cond", "x"))
    singular = slogdet(wrap(unfollowed(value))).sign == 0
    lifted = singular[..., None, None]
    safe = where(lifted, np.eye(shape_of(value)[-1], dtype=dtype_of(value)), value)
    axes = (-2, -1)
    inverse = inv(safe, failed=failed)
    product = norm(value, p, axes, failed=failed) * norm(inverse, p, axes, failed=failed)
    return where(singular, np.inf, product)


def _ratio(first: Tensor, second: Tensor) -> Tensor:
    """A quotient, which is inf where the divisor is 0."""
    zero = second == 0
    return where(zero, np.inf, first / where(zero, 1.0, second))


def matrix_rank(
    A: ArrayLike,
    tol: ArrayLike = None,
    hermitian: bool = False,
    *,
    rtol: ArrayLike = None,
    failed: str = "raise",
) -> Tensor:
    """The number of singular values above a tolerance. It has no derivative.

    Parameters
    ----------
    A : array_like, shape (..., m, n), or (n,) or ()
        Arrays with fewer than two axes have the rank 1, or 0 if they are 0.
    tol : array_like, shape (...), optional
        By default ``rtol`` times the greatest singular value.
    hermitian : bool
        Whether the matrices are Hermitian, so that eigenvalues can be used.
    rtol : array_like, shape (...), optional
        By default the greater size times the machine epsilon.
    failed : {"raise", "nan"}
        For infinities and NaN in a matrix, raise an error or return NaN for that matrix.

    Returns
    -------
    Tensor, shape (...)
        Integers, which have no NaN: a matrix that failed has the rank 0.

    Raises
    ------
    ArgumentError
        Both tolerances are given.

    Examples
    --------
    >>> matrix_rank([[1.0, 2.0], [2.0, 4.0]])
    Tensor(1)
    """
    value, failed = wrap(unfollowed(_numbers(A, "matrix_rank"))), failed_as(failed, "matrix_rank")
    if tol is not None and rtol is not None:
        raise ArgumentError("matrix_rank: give tol or rtol, not both.")
    if len(shape_of(value)) < 2:
        return wrap(cast(any_of(value != 0), dtype=np.dtype(int)))
    values = eigvalsh if hermitian else svdvals
    s = absolute(values(value, failed=failed))
    if 0 in shape_of(value)[-2:]:
        return wrap(cast(sum_of(s, axis=-1), dtype=np.dtype(int)))
    if tol is None:
        relative = max(shape_of(value)[-2:]) * np.finfo(dtype_of(s)).eps if rtol is None else rtol
        bound = max_of(s, axis=-1, keepdims=True) * _raised(relative)
    else:
        bound = _raised(tol)
    return sum_of(s > bound, axis=-1)


def _raised(tolerance: ArrayLike) -> Value:
    """A tolerance with an axis for the singular values."""
    value = operand(tolerance, "matrix_rank")
    if dtype_of(value).kind not in "biuf":
        raise DtypeError(f"matrix_rank: a tolerance is real, not of {dtype_of(value)}.")
    return wrap(reshape(value, shape=(*shape_of(value), 1))) if shape_of(value) else value
