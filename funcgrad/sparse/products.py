"""Sums, products and parts of sparse arrays: the pattern is computed once, from the patterns.

>>> from funcgrad.sparse.constructors import eye
>>> matrix_sum(eye(2), eye(2)).toarray()
Tensor([[2., 0.],
        [0., 2.]])
"""

from __future__ import annotations

from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._transforms.arguments import is_whole
from funcgrad.errors import AxisError, ShapeError
from funcgrad.sparse.arrays import SparseArray
from funcgrad.sparse.element_rows import Indices, scipy_sparse
from funcgrad.sparse.patterns import Pattern
from funcgrad.tensor.tensor import wrap


def _check_equal(what: str, a: SparseArray, b: SparseArray) -> None:
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
    parts = np.ones(len(keys), np.bool_), keys % width, starts
    return Pattern(scipy_sparse().csr_array(parts, shape=shape))


def matrix_sum(a: SparseArray, b: SparseArray) -> SparseArray:
    """The sum of two sparse arrays; it stores what either stores."""
    _check_equal("A + B", a, b)
    if a.pattern == b.pattern:
        return SparseArray(a.data + b.data, a.pattern)
    first, second = _keys(a.pattern), _keys(b.pattern)
    keys = np.union1d(first, second)
    dtype = fnp.result_type(a.dtype, b.dtype)
    out = fnp.zeros((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), len(keys)), dtype)
    out = out.at[..., np.searchsorted(keys, first)].add(a.data)
    out = out.at[..., np.searchsorted(keys, second)].add(b.data)
    return SparseArray(out, _of_keys(keys, a.pattern.shape))


def elementwise_product(a: SparseArray, b: SparseArray) -> SparseArray:
    """The elementwise product; it stores what both store."""
    _check_equal("A * B", a, b)
    if a.pattern == b.pattern:
        return SparseArray(a.data * b.data, a.pattern)
    keys, first, second = np.intersect1d(
        _keys(a.pattern), _keys(b.pattern), assume_unique=True, return_indices=True
    )
    chosen = [fnp.take(wrap(x.data), at, axis=-1) for x, at in ((a, first), (b, second))]
    return SparseArray(chosen[0] * chosen[1], _of_keys(keys, a.pattern.shape))


def matrix_product(a: SparseArray, b: SparseArray) -> SparseArray:
    """The product of two sparse arrays: each pair of nonzeros contributes to one element."""
    (rows, inner), (other, columns) = a.pattern.shape, b.pattern.shape
    if inner != other:
        raise ShapeError(
            f"A @ B: sparse arrays of shapes {a.pattern.shape} and {b.pattern.shape} do not fit:"
            " A needs as many columns as B has rows."
        )
    counts = np.diff(b.indptr)[a.indices]  # for each nonzero of A those of B that it meets
    first = np.repeat(np.arange(a.nnz), counts)
    begins = np.cumsum(counts) - counts
    second = np.arange(len(first)) - begins[first] + b.indptr[a.indices[first]]
    pairs = a.pattern.row_numbers[first] * max(columns, 1) + b.indices[second]
    keys, places = np.unique(pairs, return_inverse=True)
    products = fnp.take(wrap(a.data), first, axis=-1) * fnp.take(wrap(b.data), second, axis=-1)
    out = fnp.zeros((*products.shape[:-1], len(keys)), products.dtype)
    out = out.at[..., places.reshape(-1)].add(products)
    return SparseArray(out, _of_keys(keys, (rows, columns)))


def part(a: SparseArray, key: Any) -> Any:
    """The part of a sparse array that a static key selects."""
    keys = key if isinstance(key, tuple) else (key,)
    if len(keys) > 2:
        raise AxisError(f"A[key]: a sparse array has 2 axes, got {len(keys)} keys.")
    rows, columns = keys[0], keys[1] if len(keys) == 2 else slice(None)
    chosen_rows = _chosen(rows, a.pattern.shape[0], 0)
    chosen_columns = _chosen(columns, a.pattern.shape[1], 1)
    out = _block(a, chosen_rows, chosen_columns)
    gone = [is_whole(each) for each in (rows, columns)]
    if not any(gone):
        return out
    dense = out.toarray()
    index = (..., *[0 if flag else slice(None) for flag in gone])
    return dense[index]


def _chosen(key: Any, size: int, axis: int) -> Indices:
    try:
        places = np.arange(size)[key]
    except IndexError as error:
        raise AxisError(f"A[key]: axis {axis} of size {size}: {error}.") from None
    if places.ndim > 1:
        raise AxisError(f"A[key]: a key of axis {axis} has {places.ndim} axes; it may have one.")
    return np.atleast_1d(places)


def _block(a: SparseArray, rows: Indices, columns: Indices) -> SparseArray:
    """The elements in chosen rows and columns, in their order."""
    numbers = scipy_sparse().csr_array(
        (np.arange(1, a.nnz + 1), a.indices, a.indptr), shape=a.pattern.shape
    )
    chosen = numbers[rows][:, columns].tocsr()
    chosen.sort_indices()
    places = chosen.data - 1
    chosen.data = np.ones(len(places), np.bool_)
    return SparseArray(fnp.take(wrap(a.data), places, axis=-1), Pattern(chosen))
