"""Reductions over short rows, which NumPy processes one at a time.

For each row NumPy takes 20 ns (a sum) or 60 ns (an extremum) on top of the arithmetic. Sums are
faster as products with ones, which BLAS computes, and extrema are faster down the columns of a
copy. Accuracy is the same: NumPy adds rows of up to 128 elements without the pairwise scheme of
longer rows, and along leading axes it always adds row by row.

>>> total(np.ones((100, 3), np.float32), (1,), False)[:2]
array([3., 3.], dtype=float32)
>>> extremum(np.maximum.reduce, np.arange(1200.0).reshape(400, 3), (1,), False)[:2]
array([2., 5.])
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad._core.trace import Raw

_MANY_ROWS: Final = 64
_SHORT_SUM: Final = 128
_SHORT_EXTREMUM: Final = 32

# Typed as Any: NumPy's stubs know these parameters by name only, and by name they cost 0.1 µs more.
_add: Final[Any] = np.add.reduce


def many_rows(shape: tuple[int, ...], char: str, axis: tuple[int, ...]) -> bool:
    """Whether ``total`` sums an array of such a shape and dtype by BLAS.

    >>> many_rows((1000, 10), "d", (1,)), many_rows((1000, 10), "d", (0,))
    (True, False)
    """
    return (
        len(axis) == 1
        and axis[0] == len(shape) - 1 > 0
        and 0 < shape[-1] <= _SHORT_SUM
        and char in "fd"
        and prod(shape) > _MANY_ROWS <= prod(shape[:-1])
    )


def total(x: Raw, axis: tuple[int, ...], keepdims: bool) -> Raw:
    """The sum over axes."""
    if (
        type(x) is np.ndarray
        and x.size > _MANY_ROWS  # the cheapest test comes first
        and many_rows(x.shape, x.dtype.char, axis)
    ):
        width = x.shape[-1]
        return np.matmul(x, np.ones((width, 1) if keepdims else width, x.dtype))
    return _add(x, axis, None, None, keepdims)


def total_of_leading(x: np.ndarray[Any, Any], count: int) -> Raw:
    """The sum over the first ``count`` axes."""
    if count == x.ndim:  # a single sum, which is faster than a product
        return _add(x, None)
    if x.size > _MANY_ROWS and x.dtype.char in "fd" and x.flags.c_contiguous:
        height = prod(x.shape[:count])
        if height >= _MANY_ROWS:
            rows = x.reshape((height, -1))
            summed: Any = np.matmul(np.ones(height, x.dtype), rows)
            return summed.reshape(x.shape[count:])
    return _add(x, 0 if count == 1 else tuple(range(count)))


def extremum(reduce: Callable[..., Any], x: Raw, axis: tuple[int, ...], keepdims: bool) -> Raw:
    """The greatest or least elements over axes, by the reduction of a ufunc."""
    if (
        type(x) is np.ndarray
        and axis == (x.ndim - 1,)
        and 0 < x.shape[-1] <= _SHORT_EXTREMUM
        and x.size >= _MANY_ROWS * x.shape[-1]
        and x.flags.c_contiguous
    ):
        columns = x.reshape((-1, x.shape[-1])).T.copy()
        return reduce(columns, 0).reshape(x.shape[:-1] + (1,) * keepdims)
    return reduce(x, axis, None, None, keepdims)
