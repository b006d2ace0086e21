"""Matrices that are composed of other arrays, under SciPy's names.

>>> block_diag(1.0, 2.0)
Tensor([[1., 0.],
        [0., 2.]])
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcgrad._core.specs import broadcast_shapes, dtype_of, shape_of
from funcgrad._core.users_values import operand
from funcgrad._primitives.complexes import conj
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.indexing import index
from funcgrad._primitives.joining import concatenate
from funcgrad._primitives.structural import assemble, cast, reshape
from funcgrad.numpy.manipulation import broadcast_to
from funcgrad.numpy.options import common_dtype
from funcgrad.numpy.selection import where
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap


def block_diag(*arrs: ArrayLike) -> Tensor:
    """A matrix with blocks along its diagonal, and zeros elsewhere.

    Parameters
    ----------
    *arrs : array_like
        Matrices; a vector is one row, a number one element. Stacks broadcast.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        Stacks do not broadcast.

    Examples
    --------
    >>> block_diag([[1.0, 2.0]], 3.0)
    Tensor([[1., 2., 0.],
            [0., 0., 3.]])
    """
    if not arrs:
        return wrap(np.zeros((1, 0)))
    values = [operand(array, "block_diag") for array in arrs]
    dtype = common_dtype(*values)
    values = [
        x if len(shape_of(x)) > 1 else reshape(x, shape=(1, *(shape_of(x) or (1,)))) for x in values
    ]
    lead = broadcast_shapes("block_diag", *[shape_of(x)[:-2] for x in values])
    keys, rows, columns, parts = [], 0, 0, []
    for x in values:
        m, n = shape_of(x)[-2:]
        keys.append(Key((..., slice(rows, rows + m), slice(columns, columns + n))))
        whole = broadcast_to(wrap(x), (*lead, m, n))
        parts.append(cast(whole, dtype=dtype))
        rows, columns = rows + m, columns + n
    return wrap(assemble(*parts, keys=tuple(keys), shape=(*lead, rows, columns)))


def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Tensor:
    """A matrix with constant diagonals, from its first column and its first row.

    Parameters
    ----------
    c : array_like, shape (..., m)
        The first column.
    r : array_like, shape (..., n), optional
        The first row, whose first element is ignored; by default the conjugate of c.

    Returns
    -------
    Tensor, shape (..., m, n)

    Raises
    ------
    ShapeError
        Stacks do not broadcast.

    Examples
    --------
    >>> toeplitz([1.0, 2.0], [1.0, 3.0, 4.0])
    Tensor([[1., 3., 4.],
            [2., 1., 3.]])
    """
    column = operand(c, "toeplitz")
    column = column if shape_of(column) else reshape(column, shape=(1,))
    row = operand(r, "toeplitz") if r is not None else column
    if r is None and dtype_of(column).kind == "c":
        row = conj(column)
    row = row if shape_of(row) else reshape(row, shape=(1,))
    m, n = shape_of(column)[-1], shape_of(row)[-1]
    lead = broadcast_shapes("toeplitz", shape_of(column)[:-1], shape_of(row)[:-1])
    dtype = np.result_type(dtype_of(column), dtype_of(row))
    if not m or not n:
        return wrap(np.zeros((*lead, m, n), dtype))
    column = broadcast_to(wrap(column), (*lead, m))[..., ::-1]
    row = broadcast_to(wrap(row), (*lead, n))[..., 1:]
    diagonals = concatenate(*[cast(x, dtype=dtype) for x in (column, row)], axis=len(lead))
    return wrap(index(diagonals, (..., m - 1 - np.arange(m)[:, None] + np.arange(n))))


def where_true(mask: np.ndarray[Any, Any], values: Tensor) -> Tensor:
    """Values where a mask is true, and 0 elsewhere, even if the value is infinite or NaN."""
    return where(mask, values, np.zeros((), values.dtype))
