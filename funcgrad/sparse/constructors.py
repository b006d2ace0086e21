"""Sparse matrices: ``array``, and by SciPy's names ``diags``, ``eye``, ``kron``, ``block_array`` ….

>>> import funcgrad.numpy as fnp
>>> diags([fnp.ones(2), -fnp.ones(3)], offsets=[-1, 0]).toarray()
Tensor([[-1.,  0.,  0.],
        [ 1., -1.,  0.],
        [ 0.,  1., -1.]])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._core.users_values import ArrayLike
from funcgrad._transforms.arguments import is_whole
from funcgrad.errors import ArgumentError, FuncgradError, ShapeError
from funcgrad.sparse.element_rows import Indices, compressed_rows
from funcgrad.sparse.patterns import Pattern
from funcgrad.sparse.sparse_arrays import SparseArray, sparse_operand
from funcgrad.tensor.tensor import wrap


def array(
    data: ArrayLike, indices: ArrayLike, indptr: ArrayLike, shape: tuple[int, int]
) -> SparseArray:
    """Make a sparse matrix from its compressed rows, as ``scipy.sparse.csr_array`` stores them.

    Parameters
    ----------
    data : array_like
        The nonzeros, of shape (nnz,), or (..., nnz) for a batch of matrices with one pattern.
        They may be traced, and are differentiated.
    indices : array_like of int
        The column of each nonzero, ascending in each row.
    indptr : array_like of int
        Row ``i`` has the nonzeros from ``indptr[i]`` to ``indptr[i + 1]``.
    shape : tuple of int
        The numbers of rows and columns.

    Raises
    ------
    ShapeError
        The sizes do not fit each other.
    ArgumentError
        An index is out of range, or indices of a row are not ascending, or one comes twice.

    Examples
    --------
    >>> array([5.0, 7.0], [1, 0], [0, 1, 2], shape=(2, 2)).toarray()
    Tensor([[0., 5.],
            [7., 0.]])
    """
    values = fnp.asarray(data)
    columns, starts = [
        _static_integers(x, name) for x, name in ((indices, "indices"), (indptr, "indptr"))
    ]
    rows, width = _checked_shape("sparse.array", shape)
    if values.ndim < 1 or values.shape[-1] != len(columns):
        raise ShapeError(
            f"sparse.array: data of shape {values.shape} and {len(columns)} indices do not fit: the"
            " last axis of data has one element for each index."
        )
    if len(starts) != rows + 1 or starts[0] != 0 or starts[-1] != len(columns):
        raise ShapeError(
            f"sparse.array: indptr has to have {rows + 1} elements for {rows} rows, from 0 to the"
            f" number of indices, {len(columns)}; got {len(starts)} elements"
            + (f" from {starts[0]} to {starts[-1]}." if len(starts) else ".")
        )
    _check_indices(columns, starts, width)
    return SparseArray(values, Pattern(compressed_rows(columns, starts, (rows, width))))


def _checked_shape(operation: str, shape: object) -> tuple[int, int]:
    """The numbers of rows and columns; anything else is an error."""
    listed = list(shape) if isinstance(shape, np.ndarray) and shape.ndim == 1 else shape
    sizes = tuple(listed) if isinstance(listed, list | tuple) else ()
    if len(sizes) != 2 or not all(is_whole(n) and 0 <= n < 2**62 for n in sizes):
        raise ShapeError(f"{operation}: shape has to be (rows, columns), got {shape!r}.")
    return int(sizes[0]), int(sizes[1])


def _static_integers(x: ArrayLike, name: str) -> Indices:
    """Indices as a NumPy array; a tracer raises, as the pattern is static."""
    out = np.asarray(fnp.asarray(x))
    if out.ndim != 1 or (out.dtype.kind not in "iu" and out.size):
        raise ArgumentError(
            f"sparse.array: {name} has to be a vector of integers, got {out.dtype} of shape"
            f" {out.shape}."
        )
    return out.astype(np.int64)


def _check_indices(columns: Indices, starts: Indices, width: int) -> None:
    if len(columns) and not (columns.min() >= 0 and columns.max() < width):
        wrong = int(np.flatnonzero((columns < 0) | (columns >= width))[0])
        raise ArgumentError(
            f"sparse.array: indices[{wrong}] is {columns[wrong]}, out of range for {width} columns."
        )
    if (np.diff(starts) < 0).any():
        raise ArgumentError("sparse.array: indptr has to ascend.")
    inside = np.ones(max(len(columns) - 1, 0), np.bool_)
    ends = starts[1:-1]
    inside[ends[(ends > 0) & (ends < len(columns))] - 1] = False
    if (inside & (np.diff(columns) <= 0)).any():
        wrong = int(np.flatnonzero(inside & (np.diff(columns) <= 0))[0])
        row = int(np.searchsorted(starts, wrong, side="right")) - 1
        raise ArgumentError(
            f"sparse.array: the indices {columns[wrong]}, {columns[wrong + 1]} of row {row} do not"
            " ascend. Sort them, and add up elements that come twice, or let SciPy do both:"
            " fg.sparse.from_scipy(scipy.sparse.csr_array(...))."
        )


def _from_places(
    data: ArrayLike, rows: Indices, columns: Indices, shape: tuple[int, int]
) -> SparseArray:
    """A sparse array of elements at distinct places, in any order."""
    order = np.lexsort((columns, rows))
    starts = np.searchsorted(rows[order], np.arange(shape[0] + 1))
    pattern = Pattern(compressed_rows(columns[order], starts, shape))
    return SparseArray(fnp.take(wrap(data), order, axis=-1), pattern)


def diags(
    diagonals: Sequence[ArrayLike] | ArrayLike,
    offsets: int | Sequence[int] = 0,
    shape: tuple[int, int] | None = None,
) -> SparseArray:
    """Make a matrix from its diagonals, as ``scipy.sparse.diags_array`` does.

    Parameters
    ----------
    diagonals : array_like, or sequence of array_like
        The elements of each diagonal from the top; one of size 1 is repeated. They may be traced.
    offsets : int or sequence of int
        Diagonal ``k`` has the elements ``A[i, i + k]``.
    shape : tuple of int, optional
        By default square, and as small as the first diagonal allows.

    Raises
    ------
    ShapeError
        A diagonal does not fit the shape.
    ArgumentError
        The number of offsets differs from the number of diagonals, or an offset comes twice.

    Examples
    --------
    >>> diags([1.0, 2.0, 3.0]).toarray()
    Tensor([[1., 0., 0.],
            [0., 2., 0.],
            [0., 0., 3.]])
    >>> diags([[1.0], [-2.0], [1.0]], offsets=[-1, 0, 1], shape=(3, 3)).sum(axis=1)
    Tensor([-1.,  0., -1.])
    """
    several: Any = [diagonals] if is_whole(offsets) else diagonals
    ks = _offsets(offsets)
    values = [fnp.atleast_1d(fnp.asarray(diagonal)) for diagonal in _listed(several)]
    if len(ks) != len(values):
        raise ArgumentError(
            f"sparse.diags: {len(values)} diagonals and {len(ks)} offsets; each needs one."
        )
    if len(set(ks)) < len(ks):
        raise ArgumentError(f"sparse.diags: an offset comes twice: {ks}.")
    if shape is None:
        size = values[0].shape[-1] + abs(ks[0]) if values else 0
        shape = size, size
    shape = _checked_shape("sparse.diags", shape)
    rows, columns, parts = [], [], []
    for k, value in zip(ks, values, strict=True):
        length = max(0, min(shape[0] + min(k, 0), shape[1] - max(k, 0)))
        if value.shape[-1] not in (1, length):
            raise ShapeError(
                f"sparse.diags: diagonal {k} of a matrix of shape {shape} has {length} elements,"
                f" got {value.shape[-1]}."
            )
        start = np.arange(length)
        rows.append(start - min(k, 0))
        columns.append(start + max(k, 0))
        parts.append(fnp.broadcast_to(value, (*value.shape[:-1], length)))
    return _from_places(
        fnp.concatenate(parts, axis=-1) if parts else fnp.zeros(0),
        np.concatenate([*rows, np.arange(0)]),
        np.concatenate([*columns, np.arange(0)]),
        shape,
    )


def _offsets(offsets: object) -> list[int]:
    ks: Any = [offsets] if is_whole(offsets) else offsets
    if isinstance(ks, np.ndarray) and ks.ndim == 1:
        ks = list(ks)
    if not isinstance(ks, list | tuple | range) or not all(map(_is_offset, ks)):
        raise ArgumentError(
            "sparse.diags: offsets has to be an integer or a sequence of integers, got"
            f" {offsets!r}."
        )
    return [int(k) for k in ks]


def _is_offset(k: int) -> bool:
    return is_whole(k) and abs(k) < 2**62


def _listed(diagonals: Iterable[ArrayLike]) -> list[ArrayLike]:
    try:
        return list(diagonals)
    except TypeError as error:
        if isinstance(error, FuncgradError):
            raise
        raise ArgumentError(
            "sparse.diags: diagonals has to be a sequence with an array for each of the offsets,"
            f" got {type(diagonals).__name__}."
        ) from None


def eye(m: int, n: int | None = None, k: int = 0, dtype: DTypeLike = float) -> SparseArray:
    """Make a matrix with ones on a diagonal.

    Examples
    --------
    >>> eye(2).toarray()
    Tensor([[1., 0.],
            [0., 1.]])
    """
    shape = _checked_shape("sparse.eye", (m, m if n is None else n))
    if not _is_offset(k):
        raise ArgumentError(f"sparse.eye: k has to be an integer, got {k!r}.")
    return diags(fnp.ones(1, dtype), k, shape)


def _operand(x: Any, operation: str) -> SparseArray:
    out = sparse_operand(x)
    if out is None:
        raise ArgumentError(
            f"{operation}: expected a sparse array, got {type(x).__name__}. Make one with"
            " fg.sparse.array or fg.sparse.from_scipy."
        )
    return out


def kron(a: Any, b: Any) -> SparseArray:
    """Return the Kronecker product of two matrices, differentiable with respect to both.

    Examples
    --------
    >>> kron(eye(2), diags([1.0, 2.0])).diagonal()
    Tensor([1., 2., 1., 2.])
    """
    a, b = _operand(a, "sparse.kron"), _operand(b, "sparse.kron")
    (rows, columns), (height, width) = a.pattern.shape, b.pattern.shape
    first = np.repeat(np.arange(a.nnz), b.nnz)
    second = np.tile(np.arange(b.nnz), a.nnz)
    data = wrap(a.data)[..., first] * wrap(b.data)[..., second]
    return _from_places(
        data,
        a.pattern.row_numbers[first] * height + b.pattern.row_numbers[second],
        a.indices[first] * width + b.indices[second],
        (rows * height, columns * width),
    )


def block_array(blocks: Sequence[Sequence[Any]]) -> SparseArray:
    """Build a matrix from blocks; None stands for a block of zeros.

    Raises
    ------
    ShapeError
        The blocks of a row differ in height, or of a column in width, or have no size.

    Examples
    --------
    >>> block_array([[eye(1), None], [None, 2.0 * eye(2)]]).diagonal()
    Tensor([1., 2., 2.])
    """
    if isinstance(blocks, np.ndarray) and blocks.ndim == 2:
        blocks = blocks.tolist()
    if not isinstance(blocks, list | tuple) or not all(isinstance(x, list | tuple) for x in blocks):
        raise ArgumentError(
            "sparse.block_array: blocks has to be a list of rows, each a list of matrices and None."
        )
    grid = [
        [None if x is None else _operand(x, "sparse.block_array") for x in row] for row in blocks
    ]
    if len({len(row) for row in grid}) > 1:
        raise ShapeError("sparse.block_array: rows differ in their numbers of blocks.")
    heights = [
        _common([x.pattern.shape[0] for x in row if x is not None], "row", k)
        for k, row in enumerate(grid)
    ]
    widths = [
        _common([x.pattern.shape[1] for x in column if x is not None], "column", k)
        for k, column in enumerate(zip(*grid, strict=True))
    ]
    data, rows, columns = [], [], []
    for i, row in enumerate(grid):
        for j, x in enumerate(row):
            if x is not None:
                data.append(x.data)
                rows.append(x.pattern.row_numbers + sum(heights[:i]))
                columns.append(x.indices + sum(widths[:j]))
    return _from_places(
        fnp.concatenate(data, axis=-1) if data else fnp.zeros(0),
        np.concatenate([*rows, np.arange(0)]),
        np.concatenate([*columns, np.arange(0)]),
        (sum(heights), sum(widths)),
    )


def _common(sizes: Sequence[int], side: str, number: int) -> int:
    if len(set(sizes)) != 1:
        raise ShapeError(
            f"sparse.block_array: the blocks of {side} {number} have the sizes {sorted(set(sizes))}"
            " across it; they need one size, so at least one block of each row and column is given."
        )
    return sizes[0]


def random(
    key: ArrayLike, m: int, n: int, density: float = 0.01, dtype: DTypeLike = float
) -> SparseArray:
    """Draw a matrix with uniform elements at random positions; the key has to be concrete.

    Parameters
    ----------
    key : array_like
        From ``fg.random.key``; the pattern is static, so a traced key raises an error.
    m, n : int
        The shape.
    density : float
        The share of the elements that are stored, rounded to a whole number of elements.
    dtype : dtype
        Of the elements, which lie between 0 and 1.

    Examples
    --------
    >>> import funcgrad as fg
    >>> random(fg.random.key(0), 10, 20, density=0.1).nnz
    20
    """
    from funcgrad import random as draws

    m, n = _checked_shape("sparse.random", (m, n))
    if not isinstance(density, float | int | np.number) or not 0 <= density <= 1:
        raise ArgumentError(f"sparse.random: density has to be between 0 and 1, got {density!r}.")
    for_places, for_values = draws.split(key)
    count = round(density * m * n)
    chosen = np.sort(np.asarray(draws.permutation(for_places, m * n))[:count])
    data = draws.uniform(for_values, (count,), dtype=dtype)
    return _from_places(data, chosen // max(n, 1), chosen % max(n, 1), (m, n))
