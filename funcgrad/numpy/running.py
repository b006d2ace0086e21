"""Running sums and products, differences, and the integral of samples."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from funcgrad._core.specs import dtype_of, normalize_axis, shape_of
from funcgrad._core.trace import Value
from funcgrad._core.users_values import ArrayLike, checked_dtype, explained, is_weak, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives import cumulative as cu
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.elementwise import subtract
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.joining import concatenate
from funcgrad._primitives.logic import isnan, not_equal
from funcgrad._primitives.selection import where
from funcgrad._primitives.structural import cast, flat, view
from funcgrad.errors import DtypeError, ShapeError
from funcgrad.numpy.options import converted, integer
from funcgrad.numpy.reductions import in_dtype, sum
from funcgrad.tensor.tensor import Tensor, apply2, wrap


@answering
def cumsum(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """The cumulative sum.

    Parameters
    ----------
    a : array_like
    axis : int or None
        None means along all elements, row by row.
    dtype : dtype, optional
        The dtype to convert the elements to first. By default bool and small integers become int64.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.cumsum([1.0, 2.0, 3.0])
    Tensor([1., 3., 6.])
    """
    return wrap(_accumulated(_sums, operand(a, "cumsum"), axis, dtype, "cumsum"))


@answering
def cumprod(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """The cumulative product. The gradient is exact where elements are zero, at every order.

    Parameters
    ----------
    a : array_like
    axis : int or None
        None means along all elements, row by row.
    dtype : dtype, optional
        The dtype to convert the elements to first. By default bool and small integers become int64.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.cumprod([1.0, 2.0, 3.0])
    Tensor([1., 2., 6.])
    """
    return wrap(_accumulated(_products, operand(a, "cumprod"), axis, dtype, "cumprod"))


@answering
def cumulative_sum(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Tensor:
    """The cumulative sum, by the array API's rules.

    Parameters
    ----------
    x : array_like
    axis : int
        It may be left out only if there is one axis.
    dtype : dtype, optional
        The dtype to convert the elements to first. By default bool and small integers become int64.
    include_initial : bool
        Whether to begin with 0, which makes the result longer by 1.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        The array has several axes and ``axis`` is not given, or it is 0-d.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.cumulative_sum([1.0, 2.0, 3.0], include_initial=True)
    Tensor([0., 1., 3., 6.])
    """
    return _cumulative(_sums, x, axis, dtype, 0 if include_initial else None, "cumulative_sum")


@answering
def cumulative_prod(
    x: ArrayLike,
    /,
    *,
    axis: int | None = None,
    dtype: DTypeLike | None = None,
    include_initial: bool = False,
) -> Tensor:
    """The cumulative product, by the array API's rules.

    Parameters are as for ``cumulative_sum``; the initial value is 1.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.cumulative_prod([1.0, 2.0, 3.0], include_initial=True)
    Tensor([1., 1., 2., 6.])
    """
    return _cumulative(_products, x, axis, dtype, 1 if include_initial else None, "cumulative_prod")


@answering
def nancumsum(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """The cumulative sum, with NaN counted as 0.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.nancumsum([1.0, fnp.nan, 3.0])
    Tensor([1., 1., 4.])
    """
    x = _without_nan(operand(a, "nancumsum"), 0)
    return wrap(_accumulated(_sums, x, axis, dtype, "nancumsum"))


@answering
def nancumprod(a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """The cumulative product, with NaN counted as 1.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.nancumprod([1.0, fnp.nan, 3.0])
    Tensor([1., 1., 3.])
    """
    x = _without_nan(operand(a, "nancumprod"), 1)
    return wrap(_accumulated(_products, x, axis, dtype, "nancumprod"))


def _without_nan(x: Value, fill: int) -> Value:
    return where(isnan(x), fill, x) if dtype_of(x).kind in "fc" else x


Accumulation = Callable[[Value, int], Value]


def _sums(x: Value, axis: int) -> Value:
    return cu.cumulative_sum(x, axis=axis, reverse=False)


def _products(x: Value, axis: int) -> Value:
    return cu.cumulative_prod(x, axis=axis)


def _accumulated(
    accumulate: Accumulation, x: Value, axis: int | None, dtype: DTypeLike | None, name: str
) -> Value:
    if dtype is not None:
        dtype = checked_dtype(dtype, name)
        x = cast(x, dtype=dtype)
    if axis is None:
        return in_dtype(accumulate(flat(x), 0), dtype)
    return in_dtype(accumulate(x, normalize_axis(axis, len(shape_of(x)), name)), dtype)


def _cumulative(
    accumulate: Accumulation,
    a: ArrayLike,
    axis: int | None,
    dtype: DTypeLike | None,
    initial: int | None,
    name: str,
) -> Tensor:
    x = operand(a, name)
    shape = shape_of(x)
    if not shape or (axis is None and len(shape) > 1):
        raise ShapeError(
            f"{name}: the array has {len(shape)} axes; give axis=."
            if shape
            else f"{name}: the array has no axes (0-d)."
        )
    along = 0 if axis is None else normalize_axis(axis, len(shape), name)
    result = _accumulated(accumulate, x, along, dtype, name)
    if initial is None:
        return wrap(result)
    start = np.full((*shape[:along], 1, *shape[along + 1 :]), initial, dtype_of(result))
    return wrap(concatenate(start, result, axis=along))


# Differences.


@answering
def diff(
    a: ArrayLike,
    n: int = 1,
    axis: int = -1,
    prepend: ArrayLike | None = None,
    append: ArrayLike | None = None,
) -> Tensor:
    """Differences of neighbours along an axis.

    Parameters
    ----------
    a : array_like
        For booleans the difference is True where neighbours differ.
    n : int
        The number of times to take differences.
    axis : int
    prepend, append : array_like, optional
        Values to join to ``a`` in front and at the end first; a scalar is one element.

    Returns
    -------
    Tensor
        The differences: shorter by ``n`` along the axis.

    Raises
    ------
    ShapeError
        ``n`` is negative, ``a`` is 0-d, or shapes do not fit.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.diff([1.0, 4.0, 9.0]), fnp.diff([1.0, 4.0, 9.0], n=2)
    (Tensor([3., 5.]), Tensor([2.]))
    """
    order = integer(n, "diff", "n")
    if order < 0:
        raise ShapeError(f"diff: differences cannot be taken {order} times.")
    x = operand(a, "diff")
    along = normalize_axis(axis, len(shape_of(x)), "diff")
    parts = [
        array if array is x else _slab(operand(array, "diff"), shape_of(x), along)
        for array in (prepend, x, append)
        if array is not None
    ]
    if len(parts) > 1 and order:
        try:
            x = concatenate(*parts, axis=along)
        except ValueError as error:
            raise explained(error, "diff", *parts) from error
    for _ in range(min(order, shape_of(x)[along])):  # then no element is left
        later, earlier = _neighbours(x, along)
        x = (not_equal if dtype_of(x).kind == "b" else subtract)(later, earlier)
    return wrap(x)


def _slab(x: Value, shape: tuple[int, ...], axis: int) -> Value:
    """A scalar as an array of size 1 along an axis."""
    if shape_of(x):
        return x
    return broadcast_to(x, shape=(*shape[:axis], 1, *shape[axis + 1 :]))


def _neighbours(x: Value, axis: int) -> tuple[Value, Value]:
    """All elements but the first, and all elements but the last."""
    lead = (slice(None),) * axis
    return (view(x, key=Key((*lead, slice(1, None)))), view(x, key=Key((*lead, slice(None, -1)))))


def ediff1d(
    ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None
) -> Tensor:
    """Differences of neighbours among all elements in a row.

    Parameters
    ----------
    ary : array_like
    to_end, to_begin : array_like, optional
        Values to put after and before the differences; they are flattened.

    Returns
    -------
    Tensor
        With one axis.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.ediff1d([1.0, 4.0, 9.0], to_begin=0.0)
    Tensor([0., 3., 5.])
    """
    x = flat(operand(ary, "ediff1d"))
    differences = apply2(subtract, *_neighbours(x, 0))
    dtype = dtype_of(x)
    ends = [
        None if end is None else _end(operand(end, "ediff1d"), dtype) for end in (to_begin, to_end)
    ]
    parts = [array for array in (ends[0], differences, ends[1]) if array is not None]
    return wrap(concatenate(*parts, axis=0))


def _end(x: Value, dtype: np.dtype[Any]) -> Value:
    """The values to put before or after differences, in their dtype."""
    if not (is_weak(x) or np.can_cast(dtype_of(x), dtype, "same_kind")):
        raise DtypeError(
            f"ediff1d: to_end and to_begin of dtype {dtype_of(x)} cannot stand among differences of"
            f" dtype {dtype}; cast the array or the ends."
        )
    return flat(converted(x, dtype, "ediff1d"))


@answering
def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Tensor:
    """Integrate samples with the trapezoidal rule.

    Parameters
    ----------
    y : array_like
        The samples.
    x : array_like, optional
        The points of the samples: 1-d for all rows, or of a shape that broadcasts with ``y``.
    dx : array_like
        The distance between samples, if ``x`` is not given.
    axis : int

    Returns
    -------
    Tensor
        The integrals, without that axis.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.trapezoid([1.0, 2.0, 3.0]), fnp.trapezoid([1.0, 2.0, 3.0], x=[0.0, 1.0, 3.0])
    (Tensor(4.0), Tensor(6.5))
    """
    samples = operand(y, "trapezoid")
    rank = len(shape_of(samples))
    along = normalize_axis(axis, rank, "trapezoid")
    if x is None:
        widths = wrap(operand(dx, "trapezoid"))
    else:
        places = operand(x, "trapezoid")
        if len(shape_of(places)) == 1:
            widths = diff(places).reshape((1,) * along + (-1,) + (1,) * (rank - along - 1))
        else:
            widths = diff(places, axis=axis)
    later, earlier = _neighbours(samples, along)
    heights = wrap(later) + earlier
    try:
        # Take the axis in the product: x may have more axes in front than y.
        return sum(widths * heights / 2.0, axis)
    except ShapeError as error:
        raise explained(error, "trapezoid", samples) from error


trapz = trapezoid
