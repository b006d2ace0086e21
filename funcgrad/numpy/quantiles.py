"""Quantiles, differentiable with respect to the data and the order.

>>> median([3.0, 1.0, 2.0, 10.0])
Tensor(2.5)
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import numpy as np

from funcgrad._core.specs import AxisLike, dtype_of, normalize_axes, reduced_shape, shape_of
from funcgrad._core.trace import RAW, Value, concrete
from funcgrad._core.users_values import is_weak, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.cumulative import cumulative_sum
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.indexing import gather
from funcgrad._primitives.joining import stack
from funcgrad._primitives.logic import equal, isnan, logical_and, logical_not
from funcgrad._primitives.reduction import reduce_sum
from funcgrad._primitives.rounding import floor, rint
from funcgrad._primitives.selection import fmax, fmin, maximum, minimum, where
from funcgrad._primitives.sorting import argsort, sort, take_along_axis
from funcgrad._primitives.structural import cast, reshape, transpose, unfollowed, view
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.numpy.moments import mean
from funcgrad.numpy.options import choice
from funcgrad.numpy.ordered_columns import OrderedColumns, ordered_columns
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap

# The continuous methods of Hyndman and Fan, Sample Quantiles in Statistical Packages (1996): the
# position among n sorted elements is α + q (n + 1 − α − β) − 1, counted from 0.
_CONTINUOUS: Final = MappingProxyType(
    {
        "interpolated_inverted_cdf": (0.0, 1.0),
        "hazen": (0.5, 0.5),
        "weibull": (0.0, 0.0),
        "linear": (1.0, 1.0),
        "median_unbiased": (1 / 3, 1 / 3),
        "normal_unbiased": (3 / 8, 3 / 8),
    }
)
_STEPS: Final = ("inverted_cdf", "closest_observation", "lower", "higher", "nearest")
_BETWEEN: Final = ("averaged_inverted_cdf", "midpoint")
_METHODS: Final = (*_CONTINUOUS, *_BETWEEN, *_STEPS)


@answering
def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: AxisLike = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: ArrayLike | None = None,
) -> Tensor:
    """The quantiles over axes: values that have a fraction ``q`` of the elements below them.

    The interpolated elements share the gradient, in proportion to their weights. The derivative
    with respect to ``q`` is the slope of the interpolation (at kinks to the right), and 0 at the
    greatest element.

    Parameters
    ----------
    a : array_like
        Real numbers; the result is NaN if an element is NaN.
    q : array_like
        Fractions from 0 to 1; their axes come first in the result.
    axis : int, tuple of int, or None
        None means over all elements.
    method : str
        The interpolation: linear ("linear", "hazen", "weibull", "median_unbiased",
        "normal_unbiased", "interpolated_inverted_cdf"), the mean of two elements ("midpoint",
        "averaged_inverted_cdf"), or none ("lower", "higher", "nearest", "inverted_cdf",
        "closest_observation"), which returns elements in their dtype.
    keepdims : bool
        Whether to keep the axes, with size 1.
    weights : array_like, optional
        Weights of the elements, or of the positions along the axes; not negative, and without a
        derivative. Only for the method "inverted_cdf".

    Returns
    -------
    Tensor
        The axes of ``q`` come first.

    Raises
    ------
    ArgumentError
        ``q`` is not between 0 and 1, or the method does not exist.

    Examples
    --------
    >>> quantile([1.0, 2.0, 3.0], [0.25, 0.5])
    Tensor([1.5, 2. ])
    """
    order = operand(q, "quantile")
    _check_order("quantile", order, 1)
    if weights is not None:
        return _weighted(a, order, axis, weights, method, keepdims, "quantile")
    return _quantile(a, order, _gives_way(order), axis, method, keepdims, "quantile")


@answering
def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: AxisLike = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: ArrayLike | None = None,
) -> Tensor:
    """``quantile`` with ``q`` in percent.

    Examples
    --------
    >>> percentile([1.0, 2.0, 3.0], 50)
    Tensor(2.0)
    """
    order = operand(q, "percentile")
    _check_order("percentile", order, 100)
    if weights is not None:
        return _weighted(a, order / 100, axis, weights, method, keepdims, "percentile")
    return _quantile(a, order / 100, _gives_way(order), axis, method, keepdims, "percentile")


@answering
def median(a: ArrayLike, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """The median: the middle of the sorted elements over axes, or the mean of the middle two.

    That element has the gradient, or each of the two has half of it. The median is NaN if an
    element is NaN, or if the array is empty.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.grad(median)(fg.tensor([3.0, 1.0, 2.0, 10.0]))
    Tensor([0.5, 0. , 0.5, 0. ])
    """
    value, other_sizes, size = _flattened(operand(a, "median"), axis, keepdims, "median")
    if not size:
        return mean(value, 0).reshape(other_sizes)
    middle = np.arange((size - 1) // 2, size // 2 + 1)
    table = ordered_columns(value, (middle,))
    result = mean(gather(table.columns, table.rows(middle), axis=0, unique=True), 0)
    return _unless_nan(result, table, size, other_sizes)


@answering
def nanquantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: AxisLike = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: ArrayLike | None = None,
) -> Tensor:
    """``quantile``, ignoring NaN. The result is NaN where all elements are NaN, or there are none.

    Ignored elements have no gradient.

    Examples
    --------
    >>> nanquantile([1.0, float("nan"), 3.0], 0.25)
    Tensor(1.5)
    """
    order = operand(q, "nanquantile")
    _check_order("nanquantile", order, 1)
    if weights is not None:
        return _weighted(a, order, axis, weights, method, keepdims, "nanquantile")
    return _nanquantile(a, order, _gives_way(order), axis, method, keepdims, "nanquantile")


@answering
def nanpercentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: AxisLike = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
    weights: ArrayLike | None = None,
) -> Tensor:
    """``nanquantile`` with ``q`` in percent.

    Examples
    --------
    >>> nanpercentile([1.0, float("nan"), 3.0], 50)
    Tensor(2.0)
    """
    order = operand(q, "nanpercentile")
    _check_order("nanpercentile", order, 100)
    if weights is not None:
        return _weighted(a, order / 100, axis, weights, method, keepdims, "nanpercentile")
    return _nanquantile(a, order / 100, _gives_way(order), axis, method, keepdims, "nanpercentile")


@answering
def nanmedian(a: ArrayLike, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """``median``, ignoring NaN. The result is NaN where all elements are NaN.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.grad(nanmedian)(fg.tensor([3.0, float("nan"), 2.0]))
    Tensor([0.5, 0. , 0.5])
    """
    value, other_sizes, size = _flattened(operand(a, "nanmedian"), axis, keepdims, "nanmedian")
    if dtype_of(value).kind != "f" or not size:
        return median(a, axis, keepdims=keepdims)
    table = sort(value, axis=0, descending=False)
    count = _numbers_in(table)
    places = [maximum(k, 0) for k in ((count - 1) // 2, count // 2)]
    both = [_elements(OrderedColumns(table), place, count) for place in places]
    return _unless_none(mean(stack(*both, axis=0), 0), count, other_sizes)


def _nanquantile(
    x: ArrayLike, q: Value, weak: bool, axis: AxisLike, method: str, keepdims: bool, operation: str
) -> Tensor:
    value, other_sizes, size = _flattened(operand(x, operation), axis, keepdims, operation)
    if not size:
        choice(method, _METHODS, operation, "the method")
        none = reshape(concrete(mean(value, 0)), shape=other_sizes)  # with NumPy's warning
        return wrap(broadcast_to(none, shape=shape_of(q) + other_sizes))
    if dtype_of(value).kind != "f":
        return _quantile(x, q, weak, axis, method, keepdims, operation)
    table = OrderedColumns(sort(value, axis=0, descending=False))
    count = _numbers_in(table.columns)
    among = cast(count, dtype=dtype_of(q)) if dtype_of(q).kind == "f" else count
    order = reshape(q, shape=shape_of(q) + (1,) * len(shape_of(count)))
    result = _interpolated(table, order, weak, among, method, operation)
    return _unless_none(result, count, shape_of(q) + other_sizes)


def _numbers_in(table: Value) -> Value:
    """The number of elements of each column that are not NaN."""
    return reduce_sum(
        cast(logical_not(isnan(table)), dtype=np.dtype(np.intp)), axis=(0,), keepdims=False
    )


def _unless_none(result: Value, count: Value, shape: tuple[int, ...]) -> Tensor:
    """A reshaped result, with NaN where no element counts."""
    final = where(count > 0, result, np.asarray(np.nan, dtype_of(result)))
    return wrap(reshape(final, shape=shape))


def _gives_way(q: Value) -> bool:
    """Whether an order is weak: a Python number, but not a boolean."""
    return is_weak(q) and dtype_of(q).kind != "b"


def _check_order(operation: str, q: Value, top: int) -> None:
    if dtype_of(q).kind == "c":
        raise DtypeError(f"{operation}: q has to be real, not of {dtype_of(q)}.")
    value = concrete(unfollowed(q))
    if type(value) in RAW and not np.all((value >= 0) & (value <= top)):
        raise ArgumentError(f"{operation}: q has to be in 0 .. {top}.")


def _quantile(
    x: ArrayLike, q: Value, weak: bool, axis: AxisLike, method: str, keepdims: bool, operation: str
) -> Tensor:
    value, other_sizes, size = _flattened(operand(x, operation), axis, keepdims, operation)
    if not size:
        raise ShapeError(f"{operation}: there are no elements over axis={axis}.")
    choice(method, _METHODS, operation, "the method")
    table = ordered_columns(value, _neighbours(q, size, method)[0])
    result = _interpolated(table, q, weak, size, method, operation)
    return _unless_nan(result, table, size, shape_of(q) + other_sizes)


def _weighted(
    x: ArrayLike,
    q: Value,
    axis: AxisLike,
    weights: ArrayLike,
    method: str,
    keepdims: bool,
    operation: str,
) -> Tensor:
    """The least elements at which the running sum of weights reaches the fractions ``q``."""
    if method != "inverted_cdf":
        raise ArgumentError(f'{operation}: weights are for method="inverted_cdf", not {method!r}.')
    array = operand(x, operation)
    spread = _spread_weights(weights, shape_of(array), axis, operation)
    value, other_sizes, size = _flattened(array, axis, keepdims, operation)
    amounts, _, _ = _flattened(spread, axis, keepdims, operation)
    if not size:
        raise ShapeError(f"{operation}: there are no elements over axis={axis}.")
    order = argsort(value, axis=0, descending=False)
    table = take_along_axis(value, order, 0, unique=True)
    amounts = take_along_axis(cast(amounts, dtype=np.dtype(np.float64)), order, 0, unique=True)
    leaves_nan_out = operation.startswith("nan") and dtype_of(table).kind == "f"
    if leaves_nan_out:
        amounts = where(isnan(table), 0.0, amounts)
    share = cumulative_sum(amounts, axis=0, reverse=False)
    share = share / view(share, key=Key((slice(-1, None),)))
    if dtype_of(q).kind == "f":
        share = cast(share, dtype=dtype_of(q))
    share = where(equal(share, 0), -1.0, share)  # an element without weight is never chosen
    bound = reshape(q, shape=shape_of(q) + (1,) * len(shape_of(share)))
    below = cast(share < bound, dtype=np.dtype(np.intp))
    place = reduce_sum(below, axis=(len(shape_of(q)),), keepdims=False)
    count = _numbers_in(table) if leaves_nan_out else np.asarray(size)
    result = _elements(OrderedColumns(table), minimum(place, maximum(count - 1, 0)), count)
    if leaves_nan_out:
        return _unless_none(result, count, shape_of(q) + other_sizes)
    return _unless_nan(result, OrderedColumns(table), size, shape_of(q) + other_sizes)


def _spread_weights(
    weights: ArrayLike, shape: tuple[int, ...], axis: AxisLike, operation: str
) -> Value:
    """Weights in the shape of the elements.

    Raises
    ------
    ShapeError
        The weights have neither the shape of the elements nor the sizes of the axes.
    ArgumentError
        A weight is negative or NaN, or all are zero.
    """
    amounts = operand(weights, operation)
    known = concrete(amounts)
    if type(known) in RAW and not (np.all(known >= 0) and np.any(known) and np.all(known < np.inf)):
        raise ArgumentError(f"{operation}: weights are finite, not negative, and not all zero.")
    if shape_of(amounts) == shape:
        return amounts
    axes = normalize_axes(axis, len(shape), operation)
    if axis is None or shape_of(amounts) != tuple([shape[a] for a in axes]):
        raise ShapeError(
            f"{operation}: weights of the shape {shape_of(amounts)} fit neither the elements, of"
            f" the shape {shape}, nor axis={axis}."
        )
    amounts = transpose(amounts, axes=tuple(sorted(range(len(axes)), key=axes.__getitem__)))
    amounts = reshape(amounts, shape=tuple([n if a in axes else 1 for a, n in enumerate(shape)]))
    return broadcast_to(amounts, shape=shape)


def _neighbours(q: Value, size: Value, method: str) -> tuple[tuple[Value, ...], Value]:
    """The places of the elements that a quantile depends on, and its position among them."""
    if method in _STEPS or (method == "linear" and dtype_of(q).kind in "biu"):
        place = _step(q, size, method) if method in _STEPS else (size - 1) * q
        return (_clipped_to_size(place, size),), place
    position = _position(q, size, method)
    below = floor(position)  # both are the last element beyond the end
    return tuple([_clipped_to_size(place, size) for place in (below, below + 1)]), position


def _interpolated(
    table: OrderedColumns, q: Value, weak: bool, size: Value, method: str, operation: str
) -> Value:
    """Quantiles of sorted columns, whose first ``size`` elements count. If ``size`` differs by
    column, ``q`` has an axis for each axis of the columns."""
    choice(method, (*_CONTINUOUS, *_BETWEEN, *_STEPS), operation, "the method")
    places, position = _neighbours(q, size, method)
    if len(places) == 1:
        return _unless_order_is_nan(_elements(table, *places, size), q, size)
    if dtype_of(table.columns).kind == "b":
        raise DtypeError(f"{operation}: cannot interpolate booleans; cast them to floats.")
    low, high = places
    fraction = position - low
    if method == "averaged_inverted_cdf":
        fraction = cast(where(equal(fraction, 0), 0.5, 1.0), dtype=dtype_of(position))
    kind = np.result_type(dtype_of(table.columns), 0.0 if weak else dtype_of(fraction))
    fraction = cast(fraction, dtype=kind)  # a Python number takes the elements' dtype
    if type(size) is int:
        fraction = reshape(
            fraction, shape=shape_of(fraction) + (1,) * (len(shape_of(table.columns)) - 1)
        )
    first, last = (cast(_elements(table, place, size), dtype=kind) for place in (low, high))
    # Start at the nearer end, as NumPy does, so that both ends are exact.
    gap = last - first
    return where(fraction < 0.5, first + gap * fraction, last - gap * (1 - fraction))


def _unless_order_is_nan(result: Value, q: Value, size: Value) -> Value:
    """Elements, with NaN for an order that is NaN (only traced orders can be)."""
    kind = dtype_of(result)
    if kind.kind != "f" or dtype_of(q).kind != "f" or type(concrete(q)) in RAW:
        return result
    none = isnan(q)
    if type(size) is int:
        none = reshape(none, shape=shape_of(q) + (1,) * (len(shape_of(result)) - len(shape_of(q))))
    return where(none, kind.type(np.nan), result)


def _clipped_to_size(place: Value, size: Value) -> Value:
    """Clip a place to the elements; an order that is NaN gives the first."""
    return fmin(fmax(place, 0), size - 1)


def _elements(table: OrderedColumns, place: Value, size: Value) -> Value:
    """Elements of sorted columns: at the same place of all columns, or at a place for each."""
    chosen = cast(place, dtype=np.dtype(np.intp))
    if type(size) is int:
        return gather(table.columns, table.rows(chosen), axis=0, unique=False)
    shape, others = shape_of(chosen), shape_of(table.columns)[1:]
    rows = reshape(chosen, shape=(_count(shape, others), *others))
    return reshape(take_along_axis(table.columns, rows, 0), shape=shape)


def _count(shape: tuple[int, ...], others: tuple[int, ...]) -> int:
    return int(np.prod(shape[: len(shape) - len(others)]))


def _unless_nan(result: Value, table: OrderedColumns, size: int, shape: tuple[int, ...]) -> Tensor:
    """A reshaped result, with NaN where an element (sorted to the end) is NaN."""
    if dtype_of(table.columns).kind == "f":
        last = table.rows(np.intp(size - 1))
        top = gather(table.columns, last, axis=0, unique=True)
        result = where(isnan(top), top, result)
    return wrap(reshape(result, shape=shape))


def _flattened(
    x: Value, axis: AxisLike, keepdims: bool, operation: str
) -> tuple[Value, tuple[int, ...], int]:
    """Flatten the axes into one in front; also return the shape of the others, and the size."""
    if dtype_of(x).kind == "c":
        raise DtypeError(f"{operation}: complex numbers have no order.")
    shape = shape_of(x)
    axes = normalize_axes(axis, len(shape), operation)
    others = [a for a in range(len(shape)) if a not in axes]
    size = int(np.prod([shape[a] for a in axes]))
    front = transpose(x, axes=(*axes, *others))
    return (
        reshape(front, shape=(size, *[shape[a] for a in others])),
        reduced_shape(shape, axes, keepdims),
        size,
    )


def _position(q: Value, size: Value, method: str) -> Value:
    """The position among the sorted elements, from 0; a fraction if between two of them."""
    if method == "linear":
        return (size - 1) * q
    if method == "midpoint":
        exact = (size - 1) * q
        return 0.5 * (floor(exact) - floor(-exact))
    alpha, beta = _CONTINUOUS.get(method, (0.0, 1.0))
    return size * q + (alpha + q * (1 - alpha - beta)) - 1


def _step(q: Value, size: Value, method: str) -> Value:
    """The position of the element that is the quantile."""
    if method in ("lower", "higher", "nearest"):
        exact = (size - 1) * q
        if method == "nearest":
            return rint(exact)
        return floor(exact) if method == "lower" else -floor(-exact)
    half = 0.5 if method == "closest_observation" else 0.0
    exact = size * q - 1 - half
    low = floor(exact)
    stays = equal(exact, low)
    if half:  # ties go to the even rank
        stays = logical_and(stays, equal(low - 2 * floor(low / 2), 1))
    return where(stays, low, low + 1)
