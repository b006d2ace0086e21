"""Sums, products and parts of sparse arrays: the pattern is computed once, from the patterns.

>>> diagonal = Nonzeros(np.ones(2), Pattern.of(np.eye(2)))
>>> matrix_sum(diagonal, diagonal).data
array([2., 2.])
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.specs import Shape, dtype_of, shape_of
from funcgrad._core.trace import concrete
from funcgrad._transforms.arguments import is_whole
from funcgrad.errors import AxisError, ShapeError
from funcgrad.sparse.element_rows import Indices, compressed_rows, scipy_sparse
from funcgrad.sparse.patterns import Pattern
from funcgrad.tensor.tensor import wrap


class Nonzeros(NamedTuple):
    """The nonzeros of a matrix, or of a batch of matrices, with their pattern.

    Attributes
    ----------
    data : array, shape (..., nnz)
    pattern : Pattern
    """

    data: Any
    pattern: Pattern

    @property
    def batch(self) -> Shape:
        """The axes of a batch."""
        return shape_of(concrete(wrap(self.data)))[:-1]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the nonzeros."""
        return dtype_of(concrete(wrap(self.data)))


def _check_equal(what: str, a: Nonzeros, b: Nonzeros) -> None:
    if a.pattern.shape != b.pattern.shape:
        raise ShapeError(
            f"{what}: sparse arrays of shapes {a.pattern.shape} and {b.pattern.shape} do not fit."
        )


def _keys(pattern: Pattern) -> Indices:
    """A number for each element, ascending."""
    return pattern.row_numbers * max(pattern.shape[1], 1) + pattern.indices


def _of_keys(keys: Indices, shape: tuple[int, int]) -> Pattern:
    """The pattern of ascending keys."""
    width = max(shape[1], 1)
    starts = np.searchsorted(keys, width * np.arange(shape[0] + 1))
    return Pattern(compressed_rows(keys % width, starts, shape))


def matrix_sum(a: Nonzeros, b: Nonzeros) -> Nonzeros:
    """The sum of two sparse arrays; it stores the elements of both."""
    _check_equal("A + B", a, b)
    if a.pattern == b.pattern:
        return Nonzeros(a.data + b.data, a.pattern)
    first, second = _keys(a.pattern), _keys(b.pattern)
    keys = np.union1d(first, second)
    dtype = fnp.result_type(a.dtype, b.dtype)
    out = fnp.zeros((*np.broadcast_shapes(a.batch, b.batch), len(keys)), dtype)
    out = out.at[..., np.searchsorted(keys, first)].add(a.data)
    out = out.at[..., np.searchsorted(keys, second)].add(b.data)
    return Nonzeros(out, _of_keys(keys, a.pattern.shape))


def elementwise_product(a: Nonzeros, b: Nonzeros) -> Nonzeros:
    """The elementwise product; it stores the common elements."""
    _check_equal("A * B", a, b)
    if a.pattern == b.pattern:
        return Nonzeros(a.data * b.data, a.pattern)
    keys, first, second = np.intersect1d(
        _keys(a.pattern), _keys(b.pattern), assume_unique=True, return_indices=True
    )
    chosen = [fnp.take(wrap(x.data), at, axis=-1) for x, at in ((a, first), (b, second))]
    return Nonzeros(chosen[0] * chosen[1], _of_keys(keys, a.pattern.shape))


def matrix_product(a: Nonzeros, b: Nonzeros) -> Nonzeros:
    """The product of two sparse arrays: each pair of nonzeros contributes to one element."""
    (rows, inner), (other, columns) = a.pattern.shape, b.pattern.shape
    if inner != other:
        raise ShapeError(
            f"A @ B: sparse arrays of shapes {a.pattern.shape} and {b.pattern.shape} do not fit:"
            " A needs as many columns as B has rows."
        )
    counts = np.diff(b.pattern.indptr)[
        a.pattern.indices
    ]  # for each nonzero of A its number of partners in B
    first = np.repeat(np.arange(a.pattern.nnz), counts)
    begins = np.cumsum(counts) - counts
    second = np.arange(len(first)) - begins[first] + b.pattern.indptr[a.pattern.indices[first]]
    pairs = a.pattern.row_numbers[first] * max(columns, 1) + b.pattern.indices[second]
    keys, places = np.unique(pairs, return_inverse=True)
    products = fnp.take(wrap(a.data), first, axis=-1) * fnp.take(wrap(b.data), second, axis=-1)
    out = fnp.zeros((*products.shape[:-1], len(keys)), products.dtype)
    out = out.at[..., places.reshape(-1)].add(products)
    return Nonzeros(out, _of_keys(keys, (rows, columns)))


def chosen_block(a: Nonzeros, key: Any) -> tuple[Nonzeros, tuple[bool, ...]]:
    """The block that a static key selects, and whether an integer selects along each axis."""
    keys = key if isinstance(key, tuple) else (key,)
    if len(keys) > 2:
        raise AxisError(f"A[key]: a sparse array has 2 axes, got {len(keys)} keys.")
    both: tuple[Any, ...] = (*keys, slice(None), slice(None))
    rows, columns = both[:2]
    if np.ndim(rows) == np.ndim(columns) == 1:
        raise AxisError(
            "A[rows, columns]: two arrays would select single elements, as in NumPy. Write"
            " A[rows][:, columns] for the block, or A.toarray()[rows, columns] for the elements."
        )
    chosen_rows = _chosen(rows, a.pattern.shape[0], 0)
    chosen_columns = _chosen(columns, a.pattern.shape[1], 1)
    return _block(a, chosen_rows, chosen_columns), (is_whole(rows), is_whole(columns))


def _chosen(key: Any, size: int, axis: int) -> Indices:
    try:
        places = np.arange(size)[key]
    except IndexError as error:
        raise AxisError(f"A[key]: axis {axis} of size {size}: {error}.") from None
    if places.ndim > 1:
        raise AxisError(f"A[key]: a key of axis {axis} has {places.ndim} axes; it may have one.")
    return np.atleast_1d(places)


def _block(a: Nonzeros, rows: Indices, columns: Indices) -> Nonzeros:
    """The elements in chosen rows and columns, in their order."""
    numbers = scipy_sparse().csr_array(
        (np.arange(1, a.pattern.nnz + 1), a.pattern.indices, a.pattern.indptr),
        shape=a.pattern.shape,
    )
    chosen = numbers[rows][:, columns].tocsr()
    chosen.sort_indices()
    places = chosen.data - 1
    chosen.data = np.ones(len(places), np.bool_)
    return Nonzeros(fnp.take(wrap(a.data), places, axis=-1), Pattern(chosen))
