"""Products of many matrices, and powers of one, as in ``numpy.linalg``.

>>> matrix_power([[1.0, 1.0], [0.0, 1.0]], 5)
Tensor([[1., 5.],
        [0., 1.]])
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod

import numpy as np

from funcgrad._core.specs import dtype_of, shape_of
from funcgrad._core.trace import Value
from funcgrad._core.users_values import operand
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.contraction import matmul
from funcgrad._primitives.linear_systems import inv
from funcgrad._primitives.structural import reshape
from funcgrad.errors import MatrixShapeError, MissingOptionError, ShapeError
from funcgrad.numpy.matrices import square
from funcgrad.numpy.options import failed_as, integer, sequence
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap


def matrix_power(a: ArrayLike, n: int, *, failed: str = "raise") -> Tensor:
    """Powers of square matrices, by about ``2 log2(n)`` products.

    Parameters
    ----------
    a : array_like, shape (..., m, m)
    n : int
        A negative exponent inverts the matrix.
    failed : {"raise", "nan"}
        For a singular matrix and a negative ``n``, raise an error or fill the result with NaN.

    Returns
    -------
    Tensor, shape (..., m, m)

    Raises
    ------
    MatrixShapeError
        The matrices are not square.
    DtypeError
        ``n`` is not an integer.
    MatrixError
        ``n`` is negative and a matrix is singular.

    Examples
    --------
    >>> matrix_power([[0, 1], [-1, 0]], 2)
    Tensor([[-1,  0],
            [ 0, -1]])
    """
    value = operand(a, "matrix_power")
    shape = shape_of(value)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise MatrixShapeError(
            f"matrix_power: a has to be square on its last two axes; its shape is {shape}."
        )
    n, failed = integer(n, "matrix_power", "n"), failed_as(failed, "matrix_power")
    if n < 0:
        value, n = inv(square(value, "matrix_power"), purpose="inv", failed=failed), -n
    if n == 0:
        return wrap(broadcast_to(np.eye(shape[-1], dtype=dtype_of(value)), shape=shape))
    result = None
    while n:
        n, bit = divmod(n, 2)
        if bit:
            result = value if result is None else matmul(result, value)
        if n:
            value = matmul(value, value)
    return wrap(result)


def multi_dot(arrays: Sequence[ArrayLike], *, out: None = None) -> Tensor:
    """The product of two or more matrices, in the order that takes the fewest multiplications.

    Parameters
    ----------
    arrays : sequence of array_like
        Matrices; the first may be a row and the last a column, of one axis each.
    out : None
        Not supported: tensors never change.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        There are fewer than two matrices, or neighbours do not fit.
    MatrixShapeError
        An argument is not a matrix.
    MissingOptionError
        ``out`` is given.

    Notes
    -----
    Cormen, Leiserson, Rivest and Stein, "Introduction to algorithms", section 15.2.

    Examples
    --------
    >>> multi_dot([[[1.0, 2.0]], [[1.0, 0.0], [0.0, 1.0]], [3.0, 4.0]])
    Tensor([11.])
    """
    if out is not None:
        raise MissingOptionError("multi_dot: out= has no use, as tensors never change.")
    values = [operand(array, "multi_dot") for array in sequence(arrays, "multi_dot", "arrays")]
    if len(values) < 2:
        raise ShapeError(f"multi_dot: there have to be two arrays or more, not {len(values)}.")
    is_row, is_column = len(shape_of(values[0])) == 1, len(shape_of(values[-1])) == 1
    if is_row:
        values[0] = reshape(values[0], shape=(1, *shape_of(values[0])))
    if is_column:
        values[-1] = reshape(values[-1], shape=(*shape_of(values[-1]), 1))
    for number, value in enumerate(values):
        if len(shape_of(value)) != 2:
            raise MatrixShapeError(
                f"multi_dot: array {number} has to be a matrix; its shape is {shape_of(value)}."
            )
    for number, (x, y) in enumerate(pairwise(values)):
        if shape_of(x)[1] != shape_of(y)[0]:
            raise ShapeError(
                f"multi_dot: arrays {number} and {number + 1} do not fit: the shapes are"
                f" {shape_of(x)} and {shape_of(y)}."
            )
    sizes = [*[shape_of(value)[0] for value in values], shape_of(values[-1])[1]]
    product = _multiplied(values, _cuts(sizes))
    shape = shape_of(product)
    result_shape = shape[:1] * (not is_row) + shape[1:] * (not is_column)
    return wrap(product if result_shape == shape else reshape(product, shape=result_shape))


def _cuts(sizes: Sequence[int]) -> dict[tuple[int, int], int]:
    """Where to split each run of matrices; matrix k is ``sizes[k]`` by ``sizes[k + 1]``."""
    count = len(sizes) - 1
    costs = {(k, k): 0 for k in range(count)}
    cuts: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for first in range(count - length):
            last = first + length

            def cost(cut: int, first: int = first, last: int = last) -> int:
                multiplications = prod((sizes[first], sizes[cut + 1], sizes[last + 1]))
                return costs[first, cut] + costs[cut + 1, last] + multiplications

            cuts[first, last] = min(range(first, last), key=cost)
            costs[first, last] = cost(cuts[first, last])
    return cuts


def _multiplied(values: Sequence[Value], cuts: dict[tuple[int, int], int]) -> Value:
    """The product of a run by its splits; not recursive, since a chain may be long."""
    products = {(k, k): value for k, value in enumerate(values)}
    pending, runs = [(0, len(values) - 1)], []
    while pending:
        first, last = pending.pop()
        if first < last:
            runs.append((first, last))
            cut = cuts[first, last]
            pending += [(first, cut), (cut + 1, last)]
    for first, last in sorted(runs, key=lambda run: run[1] - run[0]):
        cut = cuts[first, last]
        products[first, last] = matmul(products[first, cut], products[cut + 1, last])
    return products[0, len(values) - 1]
