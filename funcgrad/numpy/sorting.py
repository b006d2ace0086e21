"""Sorting, searching in sorted arrays, and distinct elements.

Sorting permutes tangents like elements; equal elements keep their order.

>>> sort([3.0, 1.0, 2.0])
Tensor([1., 2., 3.])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, SupportsIndex

import numpy as np

from funcgrad._core.specs import dtype_of, normalize_axis, shape_of
from funcgrad._core.trace import Value, beside, concrete
from funcgrad._core.users_values import explained, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives import sorting as _p
from funcgrad._primitives.joining import stack as _stack
from funcgrad._primitives.structural import cast, reshape
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.numpy.indexing import as_integers, revealed, take
from funcgrad.numpy.options import choice
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap


def _along(x: ArrayLike, axis: SupportsIndex | None, operation: str) -> tuple[Value, int]:
    """An array and an axis, or all its elements on one axis."""
    value = operand(x, operation)
    if axis is None:
        return reshape(value, shape=(int(np.prod(shape_of(value))),)), 0
    return value, normalize_axis(axis, len(shape_of(value)), operation)


_KINDS: Final = ("quick", "quicksort", "mergesort", "heap", "heapsort", "stable")
"""NumPy's names of algorithms."""


def _check_kind(kind: object, kinds: tuple[str, ...], operation: str) -> None:
    if kind is not None:
        choice(kind, kinds, operation, "kind")


@answering
def sort(
    a: ArrayLike,
    axis: SupportsIndex | None = -1,
    kind: str | None = None,
    *,
    descending: bool = False,
    stable: bool = True,
) -> Tensor:
    """Sort in ascending order along an axis; NaN comes last.

    Tangents are permuted like the elements; equal elements keep their order.

    Parameters
    ----------
    a : array_like
    axis : int or None
        None means all elements, on one axis.
    kind : str, optional
        One of NumPy's names of algorithms, which is ignored.
    descending : bool
        Whether the order is descending; then NaN comes first.
    stable : bool
        Ignored: sorting is always stable.

    Returns
    -------
    Tensor
        In the shape of ``a``.

    Examples
    --------
    >>> sort([2.0, 3.0, 1.0], descending=True)
    Tensor([3., 2., 1.])
    >>> import funcgrad as fg
    >>> fg.grad(lambda x: sort(x)[0])(fg.tensor([2.0, 3.0, 1.0]))
    Tensor([0., 0., 1.])
    """
    _check_kind(kind, _KINDS, "sort")
    value, place = _along(a, axis, "sort")
    return wrap(_p.sort(value, axis=place, descending=bool(descending)))


def sort_complex(a: ArrayLike) -> Tensor:
    """Sort complex numbers along the last axis, by the real and then the imaginary part.

    Examples
    --------
    >>> sort_complex([2.0, 1 + 1j, 1 - 1j])
    Tensor([1.-1.j, 1.+1.j, 2.+0.j])
    """
    ordered = sort(a)
    if ordered.dtype.kind == "c":
        return ordered
    return wrap(cast(ordered, dtype=np.dtype("F" if ordered.dtype.char in "bhBH" else "D")))


@answering
def argsort(
    a: ArrayLike,
    axis: SupportsIndex | None = -1,
    kind: str | None = None,
    *,
    descending: bool = False,
    stable: bool = True,
) -> Tensor:
    """The positions that would sort an array along an axis; equal elements keep their order.

    Parameters
    ----------
    a, axis, kind, descending, stable
        See ``sort``.

    Returns
    -------
    Tensor
        Of integers.

    Examples
    --------
    >>> argsort([2.0, 3.0, 1.0])
    Tensor([2, 0, 1])
    """
    _check_kind(kind, _KINDS, "argsort")
    value, place = _along(a, axis, "argsort")
    return wrap(_p.argsort(value, axis=place, descending=bool(descending)))


@answering
def argpartition(
    a: ArrayLike,
    kth: SupportsIndex | Sequence[SupportsIndex],
    axis: SupportsIndex | None = -1,
    kind: object = None,
) -> Tensor:
    """The positions that would partition an array; see ``partition``.

    The position at ``kth`` is the one that ``argsort`` would put there, also among equal elements.

    Examples
    --------
    >>> argpartition([3.0, 1.0, 2.0], 0)[0]
    Tensor(1)
    """
    _check_kind(kind, ("introselect",), "argpartition")
    value, place = _along(a, axis, "argpartition")
    return wrap(_partition_order(value, kth, place, "argpartition"))


def _partition_order(
    x: Value, kth: SupportsIndex | Sequence[SupportsIndex], axis: int, operation: str
) -> Value:
    size = shape_of(x)[axis]
    places = np.atleast_1d(revealed(kth, operation, "kth"))
    if places.ndim > 1 or places.dtype.kind not in "biu":
        raise DtypeError(f"{operation}: kth has to be an integer or integers, not {kth!r}.")
    marks = tuple([int(k) for k in places])
    if not size:  # as in NumPy, any place will do
        marks = tuple([0 for _ in marks])
    elif any(not -size <= k < size for k in marks):
        raise ShapeError(f"{operation}: kth={kth!r} is out of bounds for an axis of size {size}.")
    return _p.argpartition(x, kth=tuple([k % max(size, 1) for k in marks]), axis=axis)


@answering
def partition(
    a: ArrayLike,
    kth: SupportsIndex | Sequence[SupportsIndex],
    axis: SupportsIndex | None = -1,
    kind: object = None,
) -> Tensor:
    """Sort partly: put at ``kth`` the element that full sorting would put there.

    No element before it is greater, and none behind it is less. The order of the elements on one
    side is not specified, and may differ in jitted functions. Equal elements are divided as in a
    stable sort: of several elements that could be at ``kth``, the same one has the derivative
    there, with and without ``jit``.

    Parameters
    ----------
    a : array_like
    kth : int or sequence of int
    axis : int or None
    kind : str, optional
        "introselect", NumPy's only one; it is ignored.

    Returns
    -------
    Tensor
        In the shape of ``a``.

    Examples
    --------
    >>> partition([3.0, 1.0, 2.0], 1)[1]
    Tensor(2.0)
    """
    _check_kind(kind, ("introselect",), "partition")
    value, place = _along(a, axis, "partition")
    order = _partition_order(value, kth, place, "partition")
    return wrap(_p.take_along_axis(value, order, place, unique=True))


@answering
def lexsort(keys: ArrayLike, axis: SupportsIndex = -1) -> Tensor:
    """The positions that sort by several keys; the last key is the primary one.

    Parameters
    ----------
    keys : sequence of array_like, or array_like
        Keys of one shape, or the rows of a single array.
    axis : int

    Returns
    -------
    Tensor of int64
        In the shape of a key.

    Examples
    --------
    >>> lexsort(([1, 0, 2], [5, 5, 4]))
    Tensor([2, 1, 0])
    """
    if isinstance(keys, (tuple, list)):
        values = [operand(key, "lexsort") for key in keys]
        shapes = {shape_of(value) for value in values}
        if len(shapes) != 1:
            raise ShapeError(f"lexsort: the keys need one common shape, not {sorted(shapes)}.")
        table = _stack(*values, axis=0)
    else:
        table = operand(keys, "lexsort")
    if not shape_of(table) or not shape_of(table)[0]:
        raise ShapeError("lexsort: at least one key is needed.")
    place = normalize_axis(axis, len(shape_of(table)) - 1, "lexsort")
    return wrap(_p.lexsort(table, axis=place))


def searchsorted(
    a: ArrayLike, v: ArrayLike, side: Literal["left", "right"] = "left", sorter: ArrayLike = None
) -> Tensor:
    """The positions at which to insert values into a sorted array to keep it sorted.

    Parameters
    ----------
    a : array_like
        A 1-d array in ascending order.
    v : array_like
        The values to insert.
    side : {"left", "right"}
        Whether the positions are before or behind equal elements.
    sorter : array_like of integers, optional
        The positions that sort ``a``, if it is not sorted.

    Returns
    -------
    Tensor of int64
        In the shape of ``v``.

    Examples
    --------
    >>> searchsorted([1.0, 2.0, 3.0], [0.0, 2.0])
    Tensor([0, 1])
    """
    table, numbers = operand(a, "searchsorted"), operand(v, "searchsorted")
    if len(shape_of(table)) != 1:
        raise ShapeError(f"searchsorted: the table has to be 1-d, not {shape_of(table)}.")
    choice(side, ("left", "right"), "searchsorted", "side")
    if sorter is not None:
        order = as_integers(sorter, "searchsorted", "sorter")
        if shape_of(order) != shape_of(table):
            raise ShapeError(
                f"searchsorted: a sorter of the shape {shape_of(order)} does not fit the table, of"
                f" the shape {shape_of(table)}."
            )
        table = concrete(take(table, order))
    return wrap(_p.searchsorted(table, numbers, side=side, lead=0))


def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> Tensor:
    """The index of the bin of each element.

    Parameters
    ----------
    x : array_like
    bins : array_like
        The bounds of the bins: 1-d, concrete and monotonic, ascending or descending.
    right : bool
        Whether an interval contains its right bound, instead of its left one.

    Returns
    -------
    Tensor of int64
        In the shape of ``x``.

    Raises
    ------
    DtypeError
        An argument is complex.

    Examples
    --------
    >>> digitize([0.5, 1.0, 2.5], [0.0, 1.0, 2.0])
    Tensor([1, 2, 3])
    """
    value, bounds = operand(x, "digitize"), revealed(bins, "digitize", "bins")
    if "c" in (dtype_of(value).kind, bounds.dtype.kind):
        raise DtypeError("digitize: complex numbers have no order.")
    if bounds.ndim != 1:
        raise ShapeError(f"digitize: the bins have to be 1-d, not of the shape {bounds.shape}.")
    side: Literal["left", "right"] = "left" if right else "right"
    if not (bounds[1:] < bounds[:-1]).any():
        return searchsorted(bounds, value, side=side)
    if (bounds[1:] > bounds[:-1]).any():
        raise ArgumentError("digitize: the bins have to ascend or descend.")
    return len(bounds) - searchsorted(bounds[::-1], value, side=side)


# ------------------------------------------------------------------------------ distinct elements


class UniqueAllResult(NamedTuple):
    """The results of ``unique_all``: ``values``, ``indices``, ``inverse_indices``, ``counts``."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """The results of ``unique_counts``: ``values`` and ``counts``."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """The results of ``unique_inverse``: ``values`` and ``inverse_indices``."""

    values: Any
    inverse_indices: Any


def unique_all(x: ArrayLike) -> UniqueAllResult:
    """The distinct elements, their first positions, the indices that rebuild ``x``, and counts.

    The argument has to be concrete, since the number of distinct elements is a shape.

    Examples
    --------
    >>> unique_all([2, 1, 2]).counts
    Tensor([1, 2])
    """
    names = "indices", "inverse_indices", "counts"
    return UniqueAllResult(*_unique(x, "unique_all", *names))


def _unique(x: ArrayLike, operation: str, *names: str) -> list[Tensor]:
    """The distinct elements, and the named results of ``np.unique_all``."""
    value = operand(x, operation)
    results = np.unique_all(revealed(value, operation))
    # Take elements from the argument rather than from NumPy's result, to keep derivatives.
    elements = take(value, results.indices)
    return [elements, *[wrap(beside(getattr(results, name), value)) for name in names]]


def unique_counts(x: ArrayLike) -> UniqueCountsResult:
    """The distinct elements of a concrete array, and their counts.

    Examples
    --------
    >>> unique_counts([2, 1, 2]).values
    Tensor([1, 2])
    """
    return UniqueCountsResult(*_unique(x, "unique_counts", "counts"))


def unique_inverse(x: ArrayLike) -> UniqueInverseResult:
    """The distinct elements of a concrete array, and the indices that rebuild the array.

    Examples
    --------
    >>> unique_inverse([2, 1, 2]).inverse_indices
    Tensor([1, 0, 1])
    """
    return UniqueInverseResult(*_unique(x, "unique_inverse", "inverse_indices"))


def unique_values(x: ArrayLike) -> Tensor:
    """The distinct elements of a concrete array, in ascending order.

    Examples
    --------
    >>> unique_values([2, 1, 2])
    Tensor([1, 2])
    """
    return _unique(x, "unique_values")[0]


@answering
def unique(
    ar: ArrayLike,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: SupportsIndex | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """The distinct elements, or slices along an axis, of a concrete array.

    The first of equal elements has the gradient.

    Parameters
    ----------
    ar : array_like
    return_index, return_inverse, return_counts : bool
        Whether to return also the first positions, the indices that rebuild the array, and counts.
    axis : int, optional
        The axis of the slices; by default elements are compared.
    equal_nan : bool
        Whether NaN counts as equal to NaN.
    sorted : bool
        Ignored: the order is always ascending.

    Returns
    -------
    Tensor, or tuple of Tensor
        The distinct elements, in a tuple with the results of the flags, as in NumPy.

    Examples
    --------
    >>> unique([2, 1, 2], return_counts=True)
    (Tensor([1, 2]), Tensor([1, 2]))
    """
    value = operand(ar, "unique")
    array = revealed(value, "unique")
    try:
        results: Any = np.unique(
            array, True, return_inverse, return_counts, axis, equal_nan=equal_nan
        )  # type: ignore[call-overload,unused-ignore]  # NumPy's stubs know literal flags only
    except (ValueError, TypeError, IndexError) as error:
        raise explained(error, "unique", array, axis=axis) from error
    _, places, *others = results
    values = take(value, places, axis)
    shown = [places, *others] if return_index else others
    return (values, *[wrap(beside(x, value)) for x in shown]) if shown else values
