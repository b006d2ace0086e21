"""Forms of opaque operations that some compilers know: products of windows and rows, and orders.

>>> WindowProducts("xky", strides=(1,), dilations=(1,), groups=1).arrays[2]  # a convolution
'y'
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class WindowProducts(NamedTuple):
    """Products of elements of windows and of kernels, as in convolutions.

    The three arrays are x, with axes for examples and channels, a kernel k, with axes for filters
    and the channels of a group, and y, with axes for examples and filters. Further axes of x are
    divided into windows, which further axes of k and y select from. With n examples, o filters and
    c channels the products are ``x[n, c, strides * p + dilations * w] * k[o, c, w] * y[n, o, p]``,
    and two of the arrays are operands. The result is the third array, in which the products are
    added where they have the same index.

    Attributes
    ----------
    arrays : str
        The names of the two operands and of the result: an order of the letters x, k and y.
    strides, dilations : tuple of int
        For each further axis.
    groups : int
        How many groups the channels and the filters form. Channels are multiplied with the filters
        of their group.
    """

    arrays: str
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int


class RowProducts(NamedTuple):
    """Products with the nonzeros of a matrix, which is stored in compressed rows.

    The three arrays are the nonzeros d, row by row; x, with a row for each column of the matrix,
    and y, with a row for each of its rows. The products are ``d[p] * x[column, k] * y[row, k]``,
    for the row and the column of each nonzero. Two of the arrays are operands. The result is the
    third array, in which the products are added where they have the same index. Axes of a stack
    come first; d may lack them, if it is an operand.

    Attributes
    ----------
    arrays : str
        The names of the two operands and of the result: an order of the letters d, x and y.
    indptr, indices : array of int32 or int64
        Row ``i`` has the columns ``indices[indptr[i] : indptr[i + 1]]``.
    """

    arrays: str
    indptr: np.ndarray[Any, Any]
    indices: np.ndarray[Any, Any]


class AlongAxis(NamedTuple):
    """A NumPy ufunc that maps each line of an array along an axis to a line.

    Attributes
    ----------
    ufunc : ufunc
        A generalized ufunc with the signature ``(n),()->(m)``.
    axis : int
        The axis in the operand and in the result.
    number : number
        The second operand.
    """

    ufunc: np.ufunc
    axis: int
    number: Any


class Ordering(NamedTuple):
    """The elements along an axis of the first operand in ascending order, equal ones as they were.

    NaN are equal to each other, and come last.

    Attributes
    ----------
    axis : int
    descending : bool
        Whether NaN and the greatest elements come first.
    places : bool
        Whether the result has the elements' places along the axis instead.
    wanted : int, optional
        Of how many elements the result consists; of all if None.
    last : bool
        Whether these are the last of the order, not the first.
    ranks : tuple of int, optional
        The places, in ascending order, whose elements are the result; all if None.
    """

    axis: int
    descending: bool
    places: bool
    wanted: int | None = None
    last: bool = False
    ranks: tuple[int, ...] | None = None
