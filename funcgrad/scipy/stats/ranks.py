"""Statistics of samples: ranks, the most frequent value, the error of a mean.

>>> rankdata([3.0, 1.0, 3.0]), sem([1.0, 2.0, 4.0]).round(6)
(Tensor([2.5, 1. , 2.5]), Tensor(0.881917))
"""

from __future__ import annotations

from typing import NamedTuple

import funcgrad.numpy as fnp
from funcgrad._core.specs import normalize_axis
from funcgrad.errors import ArgumentError, MissingOptionError
from funcgrad.scipy.precision import real_numbers
from funcgrad.tensor.tensor import ArrayLike, Tensor, tensor


class ModeResult(NamedTuple):
    """The most frequent values, and how often they occur."""

    mode: Tensor
    count: Tensor  # type: ignore[assignment]  # SciPy's name, which hides the method of tuples


def mode(
    a: ArrayLike, axis: int | None = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """The most frequent value along an axis, the least one of several.

    Parameters
    ----------
    a : array_like
    axis : int or None
        None stands for the flattened array.
    nan_policy : str
        ``"propagate"``: the result is NaN where a value is.
    keepdims : bool
        Whether the axis stays, with the size 1.

    Returns
    -------
    ModeResult
        ``mode``, which has the derivative of the first of the equal values, and ``count``.

    Raises
    ------
    MissingOptionError
        Another ``nan_policy``.

    Examples
    --------
    >>> mode([3.0, 1.0, 3.0, 2.0])
    ModeResult(mode=Tensor(3.), count=Tensor(2))
    """
    _check_policy("mode", nan_policy)
    values = tensor(a)
    if axis is not None:
        axis = normalize_axis(axis, values.ndim, "mode")
    whole = tuple(
        1 if axis in (None, k, k - values.ndim) else n for k, n in enumerate(values.shape)
    )
    if axis is None:
        values, axis = fnp.ravel(values), 0
    ordered = fnp.moveaxis(fnp.sort(values, axis=axis), axis, -1)
    ordered = fnp.reshape(ordered, (*ordered.shape[:-1], -1))
    if not ordered.shape[-1]:
        empty = fnp.full(ordered.shape[:-1], fnp.nan), fnp.zeros(ordered.shape[:-1])
        return ModeResult(*[fnp.reshape(x, whole) if keepdims else x for x in empty])
    first, last = _runs(ordered)
    # The greatest run ends at the first place at which most equal values have been counted.
    counts = last - first + 1
    place = fnp.argmax(counts, axis=-1, keepdims=True)
    first_place = fnp.take_along_axis(first, place, axis=-1)
    value = fnp.take_along_axis(ordered, first_place, axis=-1)[..., 0]
    count = fnp.take_along_axis(counts, place, axis=-1)[..., 0]
    if values.dtype.kind == "f":  # NaN are sorted to the end, and not equal to each other
        wrong = fnp.isnan(ordered[..., -1])
        value = fnp.where(wrong, fnp.nan, value)
        missing = fnp.sum(fnp.isnan(ordered), axis=-1)
        count = fnp.where(wrong, missing, count)
    pair = value, count
    return ModeResult(*[fnp.reshape(x, whole) if keepdims else x for x in pair])


def rankdata(
    a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Tensor:
    """The ranks of values from 1 on; their derivative is 0.

    Parameters
    ----------
    a : array_like
    method : str
        The rank of equal values: ``"average"``, ``"min"`` and ``"max"`` of their places,
        ``"dense"`` for the next whole number, or ``"ordinal"`` for places in the array's order.
    axis : int, optional
        The axis along which values are ranked; by default the flattened array.
    nan_policy : str
        ``"propagate"``: average ranks are NaN where a value is; integers rank it last.

    Returns
    -------
    Tensor
        Of float64 for ``"average"``, else of integers, as in SciPy. Without an axis
        it is a vector.

    Raises
    ------
    ArgumentError
        An unknown method.
    MissingOptionError
        Another ``nan_policy``.

    Examples
    --------
    >>> rankdata([0.0, 2.0, 3.0, 2.0], method="dense")
    Tensor([1, 2, 3, 2])
    """
    _check_policy("rankdata", nan_policy)
    if not isinstance(method, str) or method not in ("average", "min", "max", "dense", "ordinal"):
        raise ArgumentError(
            f'rankdata: the method is {method!r}. It is "average", "min", "max", "dense" or'
            ' "ordinal".'
        )
    values = tensor(a)
    if axis is None:
        values, axis = fnp.ravel(values), 0
    shape = values.shape
    if not values.size:
        return fnp.zeros(shape, fnp.float64 if method == "average" else fnp.int64)
    order = fnp.argsort(values, axis=axis, stable=True)
    order = fnp.moveaxis(order, axis, -1)
    ordered = fnp.take_along_axis(fnp.moveaxis(values, axis, -1), order, axis=-1)
    first, last = _runs(ordered)
    ranks = {
        "average": lambda: (first + last) / 2 + 1,
        "min": lambda: first + 1,
        "max": lambda: last + 1,
        "dense": lambda: fnp.cumsum(_starts(ordered), axis=-1),
        "ordinal": lambda: fnp.zeros_like(first) + fnp.arange(first.shape[-1]) + 1,
    }[method]()
    back = fnp.argsort(order, axis=-1, stable=True)
    result = fnp.take_along_axis(ranks, back, axis=-1)
    if values.dtype.kind == "f":
        wrong = fnp.any(fnp.isnan(ordered), axis=-1, keepdims=True)
        if method == "average":
            result = fnp.where(wrong, fnp.nan, result)
    return fnp.reshape(fnp.moveaxis(result, -1, axis), shape)


def sem(
    a: ArrayLike,
    axis: int | None = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Tensor:
    """The standard error of the mean, the standard deviation over the root of the number.

    Parameters
    ----------
    a : array_like
    axis : int or None
        None stands for the flattened array.
    ddof : int
        The divisor of the variance is the number of values minus this.
    nan_policy : str
        ``"propagate"``: the result is NaN where a value is.
    keepdims : bool
        Whether the axis stays, with the size 1.

    Returns
    -------
    Tensor
        Where all values are equal, where the deviation has a kink, ``funcgrad.numpy.std`` says
        which derivatives there are.

    Raises
    ------
    MissingOptionError
        Another ``nan_policy``.

    Examples
    --------
    >>> sem([[1.0, 2.0], [3.0, 6.0]])
    Tensor([1., 2.])
    """
    _check_policy("sem", nan_policy)
    (values,) = real_numbers("sem", a)
    count = values.size if axis is None else values.shape[normalize_axis(axis, values.ndim, "sem")]
    return fnp.std(values, axis=axis, ddof=ddof, keepdims=keepdims) / count**0.5


def _check_policy(operation: str, nan_policy: object) -> None:
    if not isinstance(nan_policy, str) or nan_policy != "propagate":
        raise MissingOptionError(
            f'{operation}: nan_policy={nan_policy!r} is not supported, only "propagate". Choose the'
            " values that are not NaN before the call."
        )


def _starts(ordered: Tensor) -> Tensor:
    """Whether sorted values differ from the one before."""
    differ = ordered[..., 1:] != ordered[..., :-1]
    one = fnp.ones((*ordered.shape[:-1], 1), bool)
    return fnp.concatenate([one, differ], axis=-1)


def _runs(ordered: Tensor) -> tuple[Tensor, Tensor]:
    """The first and the last place of the values that equal each sorted value."""
    number = fnp.cumsum(_starts(ordered), axis=-1) - 1  # of the run
    count = ordered.shape[-1]
    places = fnp.zeros_like(number) + fnp.arange(count)
    flat = fnp.reshape(number, (-1, count))
    rows = fnp.arange(flat.shape[0])[:, None] + fnp.zeros_like(flat)
    line = fnp.reshape(places, (-1, count))
    first = fnp.full(flat.shape, count).at[rows, flat].min(line)
    last = fnp.zeros(flat.shape, int).at[rows, flat].max(line)
    return tuple(  # type: ignore[return-value]  # two
        fnp.reshape(x[rows, flat], ordered.shape) for x in (first, last)
    )
