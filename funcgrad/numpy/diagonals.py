"""Diagonals and triangles of matrices.

>>> diag([1.0, 2.0])
Tensor([[1., 0.],
        [0., 2.]])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike

from funcgrad._core.specs import dtype_of, normalize_axes, shape_of
from funcgrad._core.trace import Value, concrete
from funcgrad._core.users_values import checked_dtype, explained, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.indexing import deposit, gather
from funcgrad._primitives.reduction import reduce_sum
from funcgrad._primitives.selection import where
from funcgrad._primitives.structural import cast, reshape, transpose
from funcgrad._primitives.traced_slices import is_traced
from funcgrad.errors import FunctionError, ShapeError
from funcgrad.numpy.creation import made, ones
from funcgrad.numpy.indexing import nonzero
from funcgrad.numpy.options import integer, natural, sized, traced_integer
from funcgrad.numpy.reductions import in_dtype
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap


def _diagonal(x: Value, offset: int, axis1: int, axis2: int, operation: str) -> Value:
    """The elements on a diagonal, along the last axis."""
    shape, offset = shape_of(x), integer(offset, operation, "offset")
    if len(shape) < 2:
        raise ShapeError(f"{operation}: needs two axes at least; the shape is {shape}.")
    first, second = normalize_axes((axis1, axis2), len(shape), operation)
    others = [a for a in range(len(shape)) if a not in (first, second)]
    if (first, second) != (len(others), len(others) + 1):
        x = transpose(x, axes=(*others, first, second))
    rows, columns = max(-offset, 0), max(offset, 0)
    count = max(min(shape[first] - rows, shape[second] - columns), 0)
    steps = np.arange(count)
    return gather(x, steps + rows, steps + columns, axis=len(others), unique=True)


@answering
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """The elements on a diagonal of two axes, along a last axis.

    Parameters
    ----------
    a : array_like
    offset : int
        The offset above the main diagonal; negative below it.
    axis1, axis2 : int
        The axes of the rows and the columns.

    Returns
    -------
    Tensor, shape (..., k)

    Examples
    --------
    >>> diagonal([[1.0, 2.0], [3.0, 4.0]])
    Tensor([1., 4.])
    """
    value = operand(a, "diagonal")
    return wrap(_diagonal(value, offset, axis1, axis2, "diagonal"))


@answering
def trace(
    a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None
) -> Tensor:
    """The sum of the elements on a diagonal of two axes.

    Examples
    --------
    >>> trace([[1.0, 2.0], [3.0, 4.0]])
    Tensor(5.0)
    """
    chosen, kind = _diagonal(operand(a, "trace"), offset, axis1, axis2, "trace"), dtype
    if dtype is not None:
        kind = checked_dtype(dtype, "trace")
        chosen = cast(chosen, dtype=kind)
    rank = len(shape_of(chosen))
    return in_dtype(reduce_sum(chosen, axis=(rank - 1,), keepdims=False), kind)


def diag(v: ArrayLike, k: int = 0) -> Tensor:
    """The diagonal of a matrix, or the matrix with a 1-d array on its diagonal.

    Examples
    --------
    >>> diag([[1.0, 2.0], [3.0, 4.0]], k=1)
    Tensor([2.])
    """
    value, k = operand(v, "diag"), integer(k, "diag", "k")
    shape = shape_of(value)
    if len(shape) == 2:
        return diagonal(value, k)
    if len(shape) != 1:
        raise ShapeError(f"diag: the array has to be 1-d or 2-d, not of the shape {shape}.")
    return diagflat(value, k)


def diagflat(v: ArrayLike, k: int = 0) -> Tensor:
    """The matrix with all elements of an array, row by row, on a diagonal.

    Examples
    --------
    >>> diagflat([1.0], k=1)
    Tensor([[0., 1.],
            [0., 0.]])
    """
    value = operand(v, "diagflat")
    count = int(np.prod(shape_of(value)))
    k = integer(k, "diagflat", "k")
    size, steps = count + abs(k), np.arange(count)
    sized((size, size), "diagflat")
    flat = reshape(value, shape=(count,))
    rows, columns = steps + max(-k, 0), steps + max(k, 0)
    return wrap(deposit(flat, rows, columns, axis=0, unique=True, shape=(size, size)))


def _triangle(x: ArrayLike, k: Value, operation: str) -> tuple[Value, Any]:
    """The array, and whether elements lie on the k-th diagonal or below it."""
    value = operand(x, operation)
    shape = shape_of(value)
    if not shape:
        raise ShapeError(f"{operation}: the array has no axes (0-d).")
    # NumPy repeats a 1-d array as the rows of a matrix.
    rows, columns = (shape[-1], *shape)[-2:]
    if is_traced(k):  # one program for all
        return value, np.arange(columns) - np.arange(rows)[:, None] <= concrete(k)
    return value, np.tri(rows, columns, _clipped_offset(k, rows, columns), np.bool_)


def _clipped_offset(k: int, rows: int, columns: int) -> int:
    """Clip the offset of a diagonal to the matrix, since NumPy's integers are bounded."""
    return max(-rows - 1, min(k, columns))


def _offset(k: Value, operation: str) -> Value:
    """The number of a diagonal: an integer, or a traced one."""
    return traced_integer(k, operation, "k") if is_traced(k) else integer(k, operation, "k")


def tril(m: ArrayLike, k: int = 0) -> Tensor:
    """The lower triangle: set elements above the k-th diagonal, which may be traced, to zero.

    Examples
    --------
    >>> tril([[1.0, 2.0], [3.0, 4.0]])
    Tensor([[1., 0.],
            [3., 4.]])
    """
    value, lower = _triangle(m, _offset(k, "tril"), "tril")
    return wrap(where(lower, value, np.zeros((), dtype_of(value))))


def triu(m: ArrayLike, k: int = 0) -> Tensor:
    """The upper triangle: set elements below the k-th diagonal, which may be traced, to zero.

    Examples
    --------
    >>> triu([[1.0, 2.0], [3.0, 4.0]])
    Tensor([[1., 2.],
            [0., 4.]])
    """
    value, below = _triangle(m, _offset(k, "triu") - 1, "triu")
    return wrap(where(below, np.zeros((), dtype_of(value)), value))


def vander(x: ArrayLike, N: SupportsIndex | None = None, increasing: bool = False) -> Tensor:
    """The Vandermonde matrix: powers of a 1-d array in columns.

    Examples
    --------
    >>> vander([2.0, 3.0], 3)
    Tensor([[4., 2., 1.],
            [9., 3., 1.]])
    """
    value = wrap(operand(x, "vander"))
    shape = shape_of(value)
    if len(shape) != 1:
        raise ShapeError(f"vander: the array has to be 1-d, not of the shape {shape}.")
    exponents = made(np.arange, "vander", shape[0] if N is None else natural(N, "vander", "N"))
    return value[:, None] ** (exponents if increasing else exponents[::-1])


def _triangle_indices(
    find: Callable[..., Any], operation: str, n: object, k: object, m: object
) -> tuple[Tensor, ...]:
    rows = natural(n, operation, "n")
    columns = rows if m is None else natural(m, operation, "m")
    offset = _clipped_offset(integer(k, operation, "k"), rows, columns)
    try:
        return tuple([wrap(array) for array in find(rows, offset, columns)])
    except (ValueError, OverflowError) as error:
        raise explained(error, operation, n=n, k=k, m=m) from error


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, ...]:
    """The positions on and below a diagonal, as index arrays.

    Examples
    --------
    >>> tril_indices(2)
    (Tensor([0, 1, 1]), Tensor([0, 0, 1]))
    """
    return _triangle_indices(np.tril_indices, "tril_indices", n, k, m)


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, ...]:
    """The positions on and above a diagonal, as index arrays.

    Examples
    --------
    >>> triu_indices(2)
    (Tensor([0, 0, 1]), Tensor([0, 1, 1]))
    """
    return _triangle_indices(np.triu_indices, "triu_indices", n, k, m)


def diag_indices(n: int, ndim: int = 2) -> tuple[Tensor, ...]:
    """The positions on the main diagonal, as index arrays.

    Examples
    --------
    >>> diag_indices(2)
    (Tensor([0, 1]), Tensor([0, 1]))
    """
    rank = natural(ndim, "diag_indices", "ndim")
    if rank > 64:
        raise ShapeError(f"diag_indices: an array has 64 axes at most, not ndim={rank}.")
    return (made(np.arange, "diag_indices", natural(n, "diag_indices", "n")),) * rank


def _matrix_shape(x: ArrayLike, operation: str) -> tuple[int, int]:
    shape = shape_of(operand(x, operation))
    if len(shape) != 2:
        raise ShapeError(f"{operation}: the array has to be 2-d, not of the shape {shape}.")
    return shape[0], shape[1]


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Tensor, ...]:
    """``tril_indices`` for the shape of a matrix.

    Examples
    --------
    >>> tril_indices_from([[1.0, 2.0], [3.0, 4.0]])
    (Tensor([0, 1, 1]), Tensor([0, 0, 1]))
    """
    rows, columns = _matrix_shape(arr, "tril_indices_from")
    return tril_indices(rows, k, columns)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Tensor, ...]:
    """``triu_indices`` for the shape of a matrix.

    Examples
    --------
    >>> triu_indices_from([[1.0, 2.0], [3.0, 4.0]])
    (Tensor([0, 0, 1]), Tensor([0, 1, 1]))
    """
    rows, columns = _matrix_shape(arr, "triu_indices_from")
    return triu_indices(rows, k, columns)


def diag_indices_from(arr: ArrayLike) -> tuple[Tensor, ...]:
    """``diag_indices`` for a square array.

    Examples
    --------
    >>> diag_indices_from([[1.0, 2.0], [3.0, 4.0]])
    (Tensor([0, 1]), Tensor([0, 1]))
    """
    shape = shape_of(operand(arr, "diag_indices_from"))
    if len(shape) < 2 or len(set(shape)) > 1:
        raise ShapeError(f"diag_indices_from: all sizes have to be equal, not {shape}.")
    return diag_indices(shape[0], len(shape))


def mask_indices(
    n: int, mask_func: Callable[..., ArrayLike], k: ArrayLike = 0
) -> tuple[Tensor, ...]:
    """The positions at which a function such as ``triu`` keeps the ones of a square matrix.

    Parameters
    ----------
    n : int
        The size of the matrix.
    mask_func : callable
        A function of a matrix and ``k``, such as ``triu``.
    k : number

    Returns
    -------
    tuple of Tensor
        The rows and the columns.

    Examples
    --------
    >>> mask_indices(2, triu)
    (Tensor([0, 0, 1]), Tensor([0, 1, 1]))
    """
    size = natural(n, "mask_indices", "n")
    if not callable(mask_func):
        raise FunctionError(f"mask_indices: expected a function, got {type(mask_func).__name__}.")
    return nonzero(mask_func(ones((size, size), np.int64), k) != 0)
