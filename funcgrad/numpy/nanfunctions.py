"""Reductions that ignore NaN, with NumPy's names and signatures.

Ignored elements have no gradient. If all elements are NaN, sums are 0 and products 1; means,
variances and extrema are NaN (eager evaluation warns of the division by zero, as NumPy does).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike

from funcgrad._core.specs import AxisLike, broadcast_shapes, dtype_of, shape_of
from funcgrad._core.trace import RAW, Value, concrete
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.logic import isnan, logical_and, logical_not
from funcgrad._primitives.selection import where as choose
from funcgrad.errors import ShapeError
from funcgrad.numpy.moments import mean, std, var
from funcgrad.numpy.options import real_number
from funcgrad.numpy.reductions import all, argmax, argmin, as_mask, max, min, prod, sum
from funcgrad.tensor.tensor import Tensor, wrap


def _numbers(
    a: ArrayLike, name: str, counts: ArrayLike | None = None
) -> tuple[Value, Value | None]:
    """An array, and a mask of the elements that are not NaN; None if no element is NaN."""
    x = operand(a, name)
    mask = None if counts is None else as_mask(counts, name)
    if mask is not None:
        broadcast_shapes(f"{name} with where", shape_of(x), shape_of(mask))
    if dtype_of(x).kind not in "fc":
        return x, mask
    valid = logical_not(isnan(x))
    return x, valid if mask is None else logical_and(valid, mask)


@answering
def nansum(
    a: ArrayLike,
    axis: AxisLike = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Tensor:
    """The sum over axes, ignoring NaN; see ``sum``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.nansum([1.0, fnp.nan, 3.0])
    Tensor(4.0)
    """
    x, valid = _numbers(a, "nansum", where)
    return sum(x, axis, dtype, keepdims=keepdims, initial=initial, where=valid)


@answering
def nanprod(
    a: ArrayLike,
    axis: AxisLike = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Tensor:
    """The product over axes, ignoring NaN; see ``prod``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.nanprod([2.0, fnp.nan, 3.0])
    Tensor(6.0)
    """
    x, valid = _numbers(a, "nanprod", where)
    return prod(x, axis, dtype, keepdims=keepdims, initial=initial, where=valid)


@answering
def nanmean(
    a: ArrayLike,
    axis: AxisLike = None,
    dtype: DTypeLike | None = None,
    *,
    keepdims: bool = False,
    where: ArrayLike | None = None,
) -> Tensor:
    """The mean over axes, ignoring NaN; see ``mean``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.nanmean([1.0, fnp.nan, 3.0])
    Tensor(2.0)
    """
    x, valid = _numbers(a, "nanmean", where)
    return mean(x, axis, dtype, keepdims=keepdims, where=valid)


@answering
def nanvar(
    a: ArrayLike,
    axis: AxisLike = None,
    dtype: DTypeLike | None = None,
    *,
    ddof: float | None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float = 0,
) -> Tensor:
    """The variance over axes, ignoring NaN; see ``var``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.nanvar([1.0, fnp.nan, 3.0])
    Tensor(1.0)
    """
    lost = correction if ddof is None else ddof
    return _spread(var, "nanvar", a, axis, dtype, lost, keepdims, where, mean)


@answering
def nanstd(
    a: ArrayLike,
    axis: AxisLike = None,
    dtype: DTypeLike | None = None,
    *,
    ddof: float | None = None,
    keepdims: bool = False,
    where: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    correction: float = 0,
) -> Tensor:
    """The standard deviation over axes, ignoring NaN; see ``std``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.nanstd([1.0, fnp.nan, 3.0])
    Tensor(1.0)
    """
    lost = correction if ddof is None else ddof
    return _spread(std, "nanstd", a, axis, dtype, lost, keepdims, where, mean)


def _spread(
    function: Callable[..., Tensor],
    name: str,
    a: ArrayLike,
    axis: AxisLike,
    dtype: DTypeLike | None,
    ddof: float,
    keepdims: bool,
    counts: ArrayLike | None,
    center: ArrayLike | None,
) -> Tensor:
    """A variance or deviation; NaN where too few elements are left."""
    x, valid = _numbers(a, name, counts)
    result = function(x, axis, dtype, ddof=ddof, keepdims=keepdims, where=valid, mean=center)
    if valid is None or dtype_of(x).kind not in "fc":
        return result
    counting = broadcast_to(valid, shape=shape_of(x))
    enough = sum(counting, axis, keepdims=keepdims) > real_number(ddof, name, "ddof")
    return wrap(choose(enough, result, np.asarray(np.nan, result.dtype)))


def _extremum(
    function: Callable[..., Tensor],
    least: float,
    name: str,
    a: ArrayLike,
    axis: AxisLike,
    keepdims: bool,
    initial: ArrayLike | None,
    counts: ArrayLike | None,
) -> Tensor:
    """An extremum, with NaN replaced by ``least``, which is never chosen over another element."""
    x, valid = _numbers(a, name, counts)
    if dtype_of(x).kind not in "fc":
        return function(x, axis, keepdims=keepdims, initial=initial, where=valid)
    filled = choose(isnan(x), least, x)
    result = function(filled, axis, keepdims=keepdims, initial=initial, where=counts)
    if initial is not None:
        return result
    missing = broadcast_to(logical_not(valid), shape=shape_of(x))
    return wrap(choose(all(missing, axis, keepdims=keepdims), np.nan, result))


@answering
def nanmax(
    a: ArrayLike,
    axis: AxisLike = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Tensor:
    """The greatest element over axes, ignoring NaN; see ``max``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.nanmax([1.0, fnp.nan, 3.0])
    Tensor(3.0)
    """
    return _extremum(max, -np.inf, "nanmax", a, axis, keepdims, initial, where)


@answering
def nanmin(
    a: ArrayLike,
    axis: AxisLike = None,
    *,
    keepdims: bool = False,
    initial: ArrayLike | None = None,
    where: ArrayLike | None = None,
) -> Tensor:
    """The least element over axes, ignoring NaN; see ``min``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.nanmin([1.0, fnp.nan, 3.0])
    Tensor(1.0)
    """
    return _extremum(min, np.inf, "nanmin", a, axis, keepdims, initial, where)


@answering
def nanargmax(a: ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The position of the greatest element, ignoring NaN; see ``argmax``.

    Raises
    ------
    ShapeError
        All elements are NaN. (Inside ``vmap``, where this is unknown, the position is 0.)

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.nanargmax([1.0, fnp.nan, 3.0])
    Tensor(2)
    """
    x, valid = _numbers(a, "nanargmax")
    if valid is None:
        return argmax(x, axis, keepdims=keepdims)
    _require_numbers(valid, axis, "nanargmax")
    return argmax(choose(valid, x, -np.inf), axis, keepdims=keepdims)


@answering
def nanargmin(a: ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The position of the least element, ignoring NaN; see ``argmin`` and ``nanargmax``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.nanargmin([1.0, fnp.nan, 3.0])
    Tensor(0)
    """
    x, valid = _numbers(a, "nanargmin")
    if valid is None:
        return argmin(x, axis, keepdims=keepdims)
    _require_numbers(valid, axis, "nanargmin")
    return argmin(choose(valid, x, np.inf), axis, keepdims=keepdims)


def _require_numbers(valid: Value, axis: int | None, name: str) -> None:
    none = concrete(all(logical_not(valid), axis))
    if type(none) in RAW and np.any(none):
        raise ShapeError(f"{name}: all elements are NaN (axis={axis}).")
