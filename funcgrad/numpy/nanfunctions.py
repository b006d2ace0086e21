"""Reductions that leave NaN out, with NumPy's names and signatures.

The gradient of what is left out is absent. Where nothing is left, sums are 0 and products 1; means,
variances and extrema are NaN (eager evaluation warns of the division by zero, as NumPy does).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike

from funcgrad.errors import ShapeError
from funcgrad.numpy.moments import mean, std, var
from funcgrad.numpy.options import real_number
from funcgrad.numpy.reductions import all, argmax, argmin, max, min, prod, sum
from funcgrad.primitives.logic import isnan, logical_not
from funcgrad.primitives.selection import where
from funcgrad.shape import AxisLike, dtype_of
from funcgrad.tensor import Tensor, wrap
from funcgrad.trace import RAW, Value, concrete
from funcgrad.users_values import ArrayLike, operand

__all__ = [
    "nanargmax",
    "nanargmin",
    "nanmax",
    "nanmean",
    "nanmin",
    "nanprod",
    "nanstd",
    "nansum",
    "nanvar",
]


def _numbers(a: ArrayLike, name: str) -> tuple[Value, Value | None]:
    """An array, and where it is a number; None where it cannot be anything else."""
    x = operand(a, name)
    return x, logical_not(isnan(x)) if dtype_of(x).kind in "fc" else None


def nansum(
    a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, *, keepdims: bool = False
) -> Tensor:
    """The sum over axes of what is no NaN; see ``sum``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.nansum([1.0, fnp.nan, 3.0])
    Tensor(4.0)
    """
    x, valid = _numbers(a, "nansum")
    return sum(x, axis, dtype, keepdims=keepdims, where=valid)


def nanprod(
    a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, *, keepdims: bool = False
) -> Tensor:
    """The product over axes of what is no NaN; see ``prod``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.nanprod([2.0, fnp.nan, 3.0])
    Tensor(6.0)
    """
    x, valid = _numbers(a, "nanprod")
    return prod(x, axis, dtype, keepdims=keepdims, where=valid)


def nanmean(
    a: ArrayLike, axis: AxisLike = None, dtype: DTypeLike | None = None, *, keepdims: bool = False
) -> Tensor:
    """The mean over axes of what is no NaN; see ``mean``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.nanmean([1.0, fnp.nan, 3.0])
    Tensor(2.0)
    """
    x, valid = _numbers(a, "nanmean")
    return mean(x, axis, dtype, keepdims=keepdims, where=valid)


def nanvar(
    a: ArrayLike,
    axis: AxisLike = None,
    dtype: DTypeLike | None = None,
    *,
    ddof: float | None = None,
    keepdims: bool = False,
    correction: float = 0,
) -> Tensor:
    """The variance over axes of what is no NaN; see ``var``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.nanvar([1.0, fnp.nan, 3.0])
    Tensor(1.0)
    """
    return _spread(var, "nanvar", a, axis, dtype, correction if ddof is None else ddof, keepdims)


def nanstd(
    a: ArrayLike,
    axis: AxisLike = None,
    dtype: DTypeLike | None = None,
    *,
    ddof: float | None = None,
    keepdims: bool = False,
    correction: float = 0,
) -> Tensor:
    """The standard deviation over axes of what is no NaN; see ``std``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.nanstd([1.0, fnp.nan, 3.0])
    Tensor(1.0)
    """
    return _spread(std, "nanstd", a, axis, dtype, correction if ddof is None else ddof, keepdims)


def _spread(
    function: Callable[..., Tensor],
    name: str,
    a: ArrayLike,
    axis: AxisLike,
    dtype: DTypeLike | None,
    ddof: float,
    keepdims: bool,
) -> Tensor:
    """A variance or deviation; NaN where so few numbers are left that there is none."""
    x, valid = _numbers(a, name)
    result = function(x, axis, dtype, ddof=ddof, keepdims=keepdims, where=valid)
    if valid is None:
        return result
    enough = sum(valid, axis, keepdims=keepdims) > real_number(ddof, name, "ddof")
    return wrap(where(enough, result, np.asarray(np.nan, result.dtype)))


def nanmax(a: ArrayLike, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """The greatest element over axes that is no NaN; see ``max``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.nanmax([1.0, fnp.nan, 3.0])
    Tensor(3.0)
    """
    x, valid = _numbers(a, "nanmax")
    if valid is None:
        return max(x, axis, keepdims=keepdims)
    none = all(logical_not(valid), axis, keepdims=keepdims)
    return wrap(where(none, np.nan, max(where(valid, x, -np.inf), axis, keepdims=keepdims)))


def nanmin(a: ArrayLike, axis: AxisLike = None, *, keepdims: bool = False) -> Tensor:
    """The least element over axes that is no NaN; see ``min``.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.nanmin([1.0, fnp.nan, 3.0])
    Tensor(1.0)
    """
    x, valid = _numbers(a, "nanmin")
    if valid is None:
        return min(x, axis, keepdims=keepdims)
    none = all(logical_not(valid), axis, keepdims=keepdims)
    return wrap(where(none, np.nan, min(where(valid, x, np.inf), axis, keepdims=keepdims)))


def nanargmax(a: ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The position of the greatest element that is no NaN; see ``argmax``.

    Raises
    ------
    ShapeError
        There are only NaN. (Inside ``vmap``, where that cannot be seen, the position is 0.)

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
    return argmax(where(valid, x, -np.inf), axis, keepdims=keepdims)


def nanargmin(a: ArrayLike, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """The position of the least element that is no NaN; see ``argmin`` and ``nanargmax``.

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
    return argmin(where(valid, x, np.inf), axis, keepdims=keepdims)


def _require_numbers(valid: Value, axis: int | None, name: str) -> None:
    none = concrete(all(logical_not(valid), axis))
    if type(none) in RAW and np.any(none):
        raise ShapeError(f"{name}: there are only NaN to choose from (axis={axis}).")
