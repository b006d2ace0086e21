"""Reductions of rows that belong together: the messages that arrive at each node of a graph.

``ids`` says to which segment each row belongs. The names are those of ``jax.ops`` and of graph
libraries.

>>> import funcgrad as fg
>>> messages, targets = fg.tensor([1.0, 2.0, 10.0]), [0, 0, 2]
>>> segment_sum(messages, targets, 3), segment_mean(messages, targets, 3)
(Tensor([ 3.,  0., 10.]), Tensor([ 1.5,  0. , 10. ]))
"""

from __future__ import annotations

from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.trace import RAW, concrete
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad._transforms.arguments import is_whole
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.tensor.tensor import Tensor


def _rows(
    operation: str, data: ArrayLike, ids: ArrayLike, num_segments: int | None
) -> tuple[Tensor, Tensor, int]:
    """The rows, the segment of each, and the number of segments; other ids get one more segment."""
    rows, segments = fnp.asarray(data), fnp.asarray(ids)
    if segments.dtype.kind not in "iu":
        raise DtypeError(f"{operation}: ids have to be integers, got {segments.dtype}.")
    if segments.ndim != 1 or not rows.ndim or rows.shape[0] != segments.shape[0]:
        raise ShapeError(
            f"{operation}: ids has to be a vector with one integer for each row of data; the shapes"
            f" are {segments.shape} and {rows.shape}."
        )
    if num_segments is None:
        num_segments = int(np.max(np.asarray(segments), initial=-1)) + 1
    elif not is_whole(num_segments) or num_segments < 0:
        raise ArgumentError(
            f"{operation}: num_segments has to be an integer, got {num_segments!r}."
        )
    count = int(num_segments)
    integers = concrete(segments)
    if type(integers) in RAW and integers.size and 0 <= integers.min() <= integers.max() < count:
        return rows, segments, count
    inside = (segments >= 0) & (segments < count)
    return rows, fnp.where(inside, segments, count), count


def _filled(rows: Tensor, count: int, value: float | int | bool) -> Tensor:
    return fnp.full((count + 1, *rows.shape[1:]), value, rows.dtype)


@answering
def segment_sum(data: ArrayLike, ids: ArrayLike, num_segments: int | None = None) -> Tensor:
    """The sum of the rows of each segment; 0 for a segment without rows.

    Use it to add up messages at the nodes of a graph, or the elements of groups of any sizes.

    Parameters
    ----------
    data : array_like, shape (n, ...)
    ids : array_like of int, shape (n,)
        The segment of each row, in any order. Rows with an id outside 0 to num_segments - 1 are
        dropped.
    num_segments : int, optional
        By default the largest id plus 1, which needs ids that are not traced.

    Returns
    -------
    Tensor, shape (num_segments, ...)

    Raises
    ------
    ShapeError, DtypeError
        ``ids`` is not a vector of integers with one for each row.

    Examples
    --------
    >>> import funcgrad as fg
    >>> segment_sum([1.0, 2.0, 3.0], [1, 0, 1])
    Tensor([2., 4.])
    >>> fg.grad(lambda x: (segment_sum(x, [1, 0, 1]) ** 2).sum())(fg.tensor([1.0, 2.0, 3.0]))
    Tensor([8., 4., 8.])
    """
    rows, segments, count = _rows("segment_sum", data, ids, num_segments)
    rows = rows if rows.dtype.kind != "b" else rows.astype(int)
    return _filled(rows, count, 0).at[segments].add(rows)[:count]


@answering
def segment_prod(data: ArrayLike, ids: ArrayLike, num_segments: int | None = None) -> Tensor:
    """The product of the rows of each segment; 1 for a segment without rows. See ``segment_sum``.

    Examples
    --------
    >>> segment_prod([1.0, 2.0, 3.0], [1, 0, 1])
    Tensor([2., 3.])
    """
    rows, segments, count = _rows("segment_prod", data, ids, num_segments)
    return _filled(rows, count, 1).at[segments].multiply(rows)[:count]


@answering
def segment_max(data: ArrayLike, ids: ArrayLike, num_segments: int | None = None) -> Tensor:
    """The element-wise maximum of the rows of each segment; minus infinity without rows.

    For integers a segment without rows has the minimum of the dtype. Rows that are equal share the
    derivative, as in ``fnp.max``. See ``segment_sum``.

    Examples
    --------
    >>> segment_max([1.0, 2.0, 3.0], [1, 0, 1])
    Tensor([2., 3.])
    """
    rows, segments, count = _rows("segment_max", data, ids, num_segments)
    return _filled(rows, count, _least(rows.dtype)).at[segments].max(rows)[:count]


@answering
def segment_min(data: ArrayLike, ids: ArrayLike, num_segments: int | None = None) -> Tensor:
    """The element-wise minimum of the rows of each segment; infinity without rows.

    For integers a segment without rows has the maximum of the dtype. See ``segment_max``.

    Examples
    --------
    >>> segment_min([1.0, 2.0, 3.0], [1, 0, 1])
    Tensor([2., 1.])
    """
    rows, segments, count = _rows("segment_min", data, ids, num_segments)
    return _filled(rows, count, _greatest(rows.dtype)).at[segments].min(rows)[:count]


def _least(dtype: np.dtype[Any]) -> float | int | bool:
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min)
    return -np.inf if dtype.kind == "f" else False


def _greatest(dtype: np.dtype[Any]) -> float | int | bool:
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).max)
    return np.inf if dtype.kind == "f" else True


@answering
def segment_mean(data: ArrayLike, ids: ArrayLike, num_segments: int | None = None) -> Tensor:
    """The mean of the rows of each segment; 0 for a segment without rows. See ``segment_sum``.

    Examples
    --------
    >>> segment_mean([1.0, 2.0, 3.0], [1, 0, 1])
    Tensor([2., 2.])
    """
    rows, segments, count = _rows("segment_mean", data, ids, num_segments)
    sums = segment_sum(rows, segments, count)
    counts = fnp.maximum(segment_sum(fnp.ones(segments.shape, int), segments, count), 1)
    return sums / counts.reshape(count, *(1,) * (rows.ndim - 1)).astype(sums.real.dtype)


@answering
def segment_softmax(data: ArrayLike, ids: ArrayLike, num_segments: int | None = None) -> Tensor:
    """The softmax of the rows within each segment: attention over the neighbors of a node.

    Values and derivatives are exact at large logits; a logit of minus infinity has the weight 0.
    Rows that are dropped have the weight 0, too. See ``segment_sum`` for the parameters.

    Returns
    -------
    Tensor, in the shape of data

    Examples
    --------
    >>> segment_softmax([0.0, 0.0, 1000.0], [0, 0, 1])
    Tensor([0.5, 0.5, 1. ])
    """
    rows, segments, count = _rows("segment_softmax", data, ids, num_segments)
    top = stop_gradient(_filled(rows, count, -np.inf).at[segments].max(rows))
    top = fnp.where(fnp.isfinite(top), top, 0.0)
    inside = (segments < count).reshape(-1, *(1,) * (rows.ndim - 1))
    weights = fnp.where(inside, fnp.exp(rows - top[segments]), 0.0)
    sums = _filled(rows, count, 0.0).at[segments].add(weights)
    sums = fnp.where(sums > 0, sums, 1.0)
    return weights / sums[segments]
