"""Rows of a pattern: which elements of the arguments each element of an array depends on.

*Rows* are a boolean ``scipy.sparse.csr_array`` with a row for each element of an array, in C order,
and a column for each element of the arguments. None stands for an array that depends on nothing.

>>> rows = identity_rows(3, 3, 0)
>>> selected(rows, np.array([2, -1])).toarray()
array([[False, False,  True],
       [False, False, False]])
>>> united_groups(rows, np.array([0, 0, 1]), 2).toarray()
array([[ True,  True, False],
       [False, False,  True]])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, TypeAlias

import numpy as np

from funcgrad._core.specs import Shape
from funcgrad._hints.optional_packages import optional_package

Rows: TypeAlias = Any
"""A boolean ``scipy.sparse.csr_array``."""

Indices: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


def scipy_sparse() -> Any:
    """Import ``scipy.sparse``.

    Raises
    ------
    MissingPackageError
        SciPy is not installed.
    """
    return optional_package("scipy.sparse", "fg.sparse: sparse matrices need SciPy")


def numbered(shape: Sequence[int]) -> Indices:
    """The position of each element in C order, in the shape of the array."""
    return np.arange(prod(shape), dtype=np.int64).reshape(shape)


def identity_rows(count: int, width: int, start: int) -> Rows:
    """Rows of an argument: element ``k`` depends on column ``start + k``."""
    columns = np.arange(start, start + count, dtype=np.int64)
    return compressed_rows(columns, np.arange(count + 1, dtype=np.int64), (count, width))


def no_rows(count: int, width: int) -> Rows:
    """Rows of elements that depend on nothing."""
    return scipy_sparse().csr_array((count, width), dtype=np.bool_)


def compressed_rows(columns: Indices, starts: Indices, shape: tuple[int, int]) -> Rows:
    return scipy_sparse().csr_array((np.ones(len(columns), np.bool_), columns, starts), shape=shape)


def from_pairs(results: Indices, operands: Indices, count: int, rows: Rows) -> Rows:
    """Unite rows: result ``results[k]`` depends on whatever element ``operands[k]`` depends on."""
    ones = np.ones(len(results), np.bool_)
    shape = (count, rows.shape[0])
    return scipy_sparse().csr_array((ones, (results, operands)), shape=shape) @ rows


def united_groups(rows: Rows, groups: Indices, count: int) -> Rows:
    """Unite the rows of each group; element ``k`` belongs to group ``groups[k]``."""
    return from_pairs(groups, np.arange(rows.shape[0]), count, rows)


def selected(rows: Rows, places: Indices) -> Rows:
    """Take a row for each place; the place -1 takes an empty row."""
    if len(places) == rows.shape[0] and np.array_equal(places, np.arange(len(places))):
        return rows
    if len(places) and places.min() < 0:
        rows = stacked([rows, no_rows(1, rows.shape[1])])
        places = np.where(places < 0, rows.shape[0] - 1, places)
    return rows[places]


def stacked(parts: Sequence[Rows]) -> Rows:
    """The rows of several arrays, one after another."""
    return parts[0] if len(parts) == 1 else scipy_sparse().vstack(parts, format="csr")


def united(parts: Iterable[Rows | None]) -> Rows | None:
    """Unite rows of arrays of one shape; None if all are None."""
    whole = None
    for rows in parts:
        if whole is None:
            whole = rows
        elif rows is not None and rows is not whole:
            whole = whole + rows
    return whole


def without(rows: Rows, is_zero: np.ndarray[Any, np.dtype[np.bool_]]) -> Rows:
    """Empty the rows of elements whose derivative is zero."""
    if not is_zero.any():
        return rows
    return selected(rows, np.where(is_zero.reshape(-1), -1, np.arange(rows.shape[0])))


def broadcast_rows(rows: Rows, shape: Shape, result: Shape) -> Rows:
    """The rows of a broadcast array."""
    if shape == result:
        return rows
    return selected(rows, np.broadcast_to(numbered(shape), result).reshape(-1))


def united_axes(rows: Rows, shape: Shape, axes: Sequence[int]) -> Rows:
    """Unite rows along axes, which keep the size 1."""
    reduced = [1 if axis in axes else n for axis, n in enumerate(shape)]
    groups = np.broadcast_to(numbered(reduced), shape).reshape(-1)
    return united_groups(rows, groups, prod(reduced))


def strided(start: int, strides: Sequence[int], shape: Shape) -> Indices:
    """The positions ``start + sum(strides * k)`` for all indices ``k`` of a shape, flat."""
    out = np.full(shape, start, np.int64)
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        steps = stride * np.arange(size, dtype=np.int64)
        out += steps.reshape([-1 if other == axis else 1 for other in range(len(shape))])
    return out.reshape(-1)
