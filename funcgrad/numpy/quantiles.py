"""Quantiles, differentiable in the data and in the order.

>>> median([3.0, 1.0, 2.0, 10.0])
Tensor(2.5)
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import numpy as np

from funcgrad.border import is_weak, operand
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.primitives.indexing import gather
from funcgrad.primitives.logic import isnan
from funcgrad.primitives.rounding import floor
from funcgrad.primitives.selection import maximum, minimum, where
from funcgrad.primitives.sorting import sort
from funcgrad.primitives.structural import cast, reshape, transpose
from funcgrad.shape import AxisLike, dtype_of, normalize_axes, reduced_shape, shape_of
from funcgrad.tensor import ArrayLike, Tensor, wrap
from funcgrad.trace import RAW, Value, concrete

__all__ = ["median", "percentile", "quantile"]

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
_STEPS: Final = ("lower", "higher", "nearest", "midpoint")


def quantile(
    a: ArrayLike,
    q: ArrayLike,
    axis: AxisLike = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
) -> Tensor:
    """The numbers below which fractions ``q`` of the elements over axes lie.

    The derivative goes to the elements that enter, in proportion; the derivative in ``q`` is the
    slope of the interpolation, to the right where it has a kink, and 0 at the greatest element.

    Parameters
    ----------
    a : array_like
        Real; the result is NaN where an element is.
    q : array_like
        From 0 to 1; its axes come first in the result.
    axis : int, tuple of int, or None
        None: over all elements.
    method : str
        How to interpolate: "linear", "hazen", "weibull", "median_unbiased", "normal_unbiased",
        "interpolated_inverted_cdf", or an element, "lower", "higher", "nearest", or "midpoint".
    keepdims : bool
        Whether to keep the axes, with size 1.

    Raises
    ------
    ArgumentError
        ``q`` is outside 0 to 1, or the method is none of these.

    Examples
    --------
    >>> quantile([1.0, 2.0, 3.0], [0.25, 0.5])
    Tensor([1.5, 2. ])
    """
    order = operand(q, "quantile")
    _check_order("quantile", order, 1)
    return _quantile(a, order, is_weak(order), axis, method, keepdims, "quantile")


def percentile(
    a: ArrayLike,
    q: ArrayLike,
    axis: AxisLike = None,
    *,
    method: str = "linear",
    keepdims: bool = False,
) -> Tensor:
    """``quantile`` with ``q`` in hundredths.

    Examples
    --------
    >>> percentile([1.0, 2.0, 3.0], 50)
    Tensor(2.0)
    """
    order = operand(q, "percentile")
    _check_order("percentile", order, 100)
    return _quantile(a, order / 100, is_weak(order), axis, method, keepdims, "percentile")


def median(a: ArrayLike, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """The middle one of the sorted elements over axes, or the mean of the middle two.

    The derivative goes to that element, or half to each of the two.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.grad(median)(fg.tensor([3.0, 1.0, 2.0, 10.0]))
    Tensor([0.5, 0. , 0.5, 0. ])
    """
    return _quantile(a, 0.5, True, axis, "linear", keepdims, "median")


def _check_order(operation: str, q: Value, top: int) -> None:
    value = concrete(q)
    if type(value) in RAW and not np.all((value >= 0) & (value <= top)):
        raise ArgumentError(f"{operation}: q has to be in 0 .. {top}.")


def _quantile(
    x: ArrayLike,
    q: Value,
    weak: bool,
    axis: AxisLike,
    method: str,
    keepdims: bool,
    operation: str,
) -> Tensor:
    value, kept, size = _flattened(operand(x, operation), axis, keepdims, operation)
    table = sort(value, axis=0, descending=False)
    position = _position(q, size, method, operation)
    low = minimum(maximum(floor(position), 0), size - 1)
    high = minimum(low + 1, size - 1)
    rest = (1,) * (len(shape_of(table)) - 1)
    fraction = position - low
    if weak:  # a Python number gives way to the dtype of the elements
        fraction = cast(fraction, dtype=dtype_of(table))
    fraction = reshape(fraction, shape=shape_of(fraction) + rest)
    integer = np.dtype(np.intp)
    first = gather(table, cast(low, dtype=integer), axis=0, unique=False)
    last = gather(table, cast(high, dtype=integer), axis=0, unique=False)
    # From the nearer end, so that both ends come out exact; NumPy interpolates likewise.
    gap = last - first
    result = where(fraction < 0.5, first + gap * fraction, last - gap * (1 - fraction))
    top = gather(table, np.intp(size - 1), axis=0, unique=True)
    result = where(isnan(top), top, result)
    final: Tensor = wrap(reshape(result, shape=shape_of(low) + kept))
    return final


def _flattened(
    x: Value, axis: AxisLike, keepdims: bool, operation: str
) -> tuple[Value, tuple[int, ...], int]:
    """The axes of a quantile as one, in front; the shape of the others in the result; the size."""
    if dtype_of(x).kind == "c":
        raise DtypeError(f"{operation}: complex numbers have no order.")
    if dtype_of(x).kind != "f":
        x = cast(x, dtype=np.dtype(np.float64))
    shape = shape_of(x)
    axes = normalize_axes(axis, len(shape), operation)
    others = [a for a in range(len(shape)) if a not in axes]
    size = int(np.prod([shape[a] for a in axes]))
    if not size:
        raise ShapeError(f"{operation}: there are no elements over axis={axis} of {shape}.")
    front = transpose(x, axes=(*axes, *others))
    return (
        reshape(front, shape=(size, *[shape[a] for a in others])),
        reduced_shape(shape, axes, keepdims),
        size,
    )


def _position(q: Value, size: int, method: str, operation: str) -> Value:
    """Where among the sorted elements, counted from 0, to read."""
    if method in _CONTINUOUS:
        alpha, beta = _CONTINUOUS[method]
        position = q * (size + 1 - alpha - beta) + (alpha - 1)
        return position if method == "linear" else minimum(maximum(position, 0), size - 1)
    if method not in _STEPS:
        raise ArgumentError(
            f"{operation}: the method {method!r} is not there; it has to be one of"
            f" {', '.join([*_CONTINUOUS, *_STEPS])}."
        )
    position = q * (size - 1.0)
    low, high = floor(position), -floor(-position)
    if method == "midpoint":
        return (low + high) / 2
    if method == "nearest":  # of two equally near ones the even
        half = position - low
        even = low - 2 * floor(low / 2) == 0
        return where((half < 0.5) | ((half == 0.5) & even), low, high)
    return low if method == "lower" else high
