"""Choices between values: each element of the result is an element of an argument.

Unselected values have no gradient, so an infinite or undefined derivative there does no harm. Equal
values share the gradient equally.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._core.specs import broadcast_shapes, dtype_of, shape_of
from funcgrad._core.trace import RAW, Value, concrete
from funcgrad._core.users_values import explained, operand
from funcgrad._primitives import selection as _p
from funcgrad._primitives.complexes import join_parts
from funcgrad._primitives.logic import equal, logical_and
from funcgrad._primitives.structural import cast
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.numpy.complexes import imag, real
from funcgrad.numpy.logic import isnan, isneginf, isposinf
from funcgrad.numpy.options import common_dtype, converted, sequence
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply, apply2, tensor, wrap


def where(condition: ArrayLike, x: ArrayLike = None, y: ArrayLike = None, /) -> Any:
    """Select elements of x where a condition holds, and of y elsewhere.

    Parameters
    ----------
    condition : array_like
        A condition: true (not 0) where to choose from ``x``.
    x, y : array_like, optional
        A Python number takes the dtype of the other argument. Without both, return the positions
        where the condition holds, a tensor for each axis: see ``nonzero``.

    Returns
    -------
    Tensor, or tuple of Tensor

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> fnp.where([True, False], [1.0, 2.0], 0.0)
    Tensor([1., 0.])

    A branch that is not chosen is not differentiated, so this is safe at 0:

    >>> fg.grad(lambda x: fnp.where(x > 0, fnp.sqrt(x), 0.0))(0.0)
    Tensor(0.0)

    A product with the condition is not a selection: 0 times an infinite derivative is NaN.

    >>> fg.grad(lambda x: (x > 0) * fnp.sqrt(x))(0.0)
    Tensor(nan)
    """
    if x is None and y is None:
        return tensor(condition).nonzero()
    if x is None or y is None:
        raise ArgumentError("where: give both x and y, or none of them for the positions.")
    mask = operand(condition, "where")
    if dtype_of(mask).kind != "b":
        mask = wrap(mask) != 0
    return apply(_p.where, mask, x, y)


def maximum(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The elementwise maximum; NaN if an argument is NaN.

    Equal arguments share the gradient: each has the derivative 1/2, also at ``maximum(x, 0)``. A
    NaN is selected, and takes the gradient.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.maximum([1.0, 3.0], 2.0)
    Tensor([2., 3.])
    """
    return apply2(_p.maximum, x1, x2)


def minimum(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The elementwise minimum; NaN if an argument is NaN.

    Equal arguments share the gradient: each has the derivative 1/2. A NaN is selected, and takes
    the gradient.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.minimum([1.0, 3.0], 2.0)
    Tensor([1., 2.])
    """
    return apply2(_p.minimum, x1, x2)


def fmax(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The elementwise maximum, ignoring NaN: if one argument is NaN, the other one.

    Equal arguments share the gradient: each has the derivative 1/2.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.fmax([1.0, float("nan")], 0.5)
    Tensor([1. , 0.5])
    """
    return apply2(_p.fmax, x1, x2)


def fmin(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The elementwise minimum, ignoring NaN: if one argument is NaN, the other one.

    Equal arguments share the gradient: each has the derivative 1/2.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.fmin([1.0, float("nan")], 0.5)
    Tensor([0.5, 0.5])
    """
    return apply2(_p.fmin, x1, x2)


def clip(
    a: ArrayLike,
    min: ArrayLike = None,
    max: ArrayLike = None,
    *,
    a_min: ArrayLike = None,
    a_max: ArrayLike = None,
) -> Tensor:
    """Limit elements to an interval: ``minimum(maximum(a, min), max)``.

    The derivative is 1 inside the interval and 0 outside. An element equal to a bound shares the
    derivative with the bound, 1/2 for each: the subgradient of least norm with respect to all
    arguments. If ``min >= max``, the result does not depend on the element, and the derivative is
    0. (Written as ``minimum(maximum(a, min), max)``, two kinks at one point would share twice.)

    Parameters
    ----------
    a : array_like
    min, max : array_like or None, optional
        The bounds; None for an open end.
    a_min, a_max : array_like or None, optional
        NumPy's older names for the bounds.

    Returns
    -------
    Tensor
        In the shape to which the array and the bounds broadcast.

    Raises
    ------
    ArgumentError
        A bound is given under both names.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.clip([-1.0, 0.5, 2.0], 0.0, 1.0)
    Tensor([0. , 0.5, 1. ])
    """
    if (a_min is not None and min is not None) or (a_max is not None and max is not None):
        raise ArgumentError("clip: a bound is given twice, as a_min or a_max and as min or max.")
    lower = min if a_min is None else a_min
    upper = max if a_max is None else a_max
    x, low, high = _bounds(a, lower, upper)
    try:
        if low is not None and high is not None:
            x = _freed(x, low, high)
        result = x if low is None else maximum(x, low)
        return tensor(result) if high is None else minimum(result, high)
    except ValueError as error:
        bounds = [value for value in (low, high) if value is not None]
        raise explained(error, "clip", x, *bounds) from error


def _freed(x: Value, low: Value, high: Value) -> Value:
    """Replace elements that equal both of their bounds by the lower bound.

    So the result does not depend on them, as it does not on elements beyond such bounds.
    """
    low, high = concrete(low), concrete(high)
    if type(low) in RAW and type(high) in RAW and not np.count_nonzero(low == high):
        return x  # the usual case: bounds are known, and differ
    met = logical_and(equal(x, low), equal(low, high))
    return apply(_p.where, met, low, x)


def _bounds(a: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> tuple[Value, Value, Value]:
    """An array and its bounds in a common dtype; None for a missing bound."""
    x = operand(a, "clip")
    low = None if lower is None else operand(lower, "clip")
    high = None if upper is None else operand(upper, "clip")
    if dtype_of(x).kind in "iu":  # a Python integer may lie outside of the dtype's range
        limits = np.iinfo(dtype_of(x))
        low = None if type(low) is int and low <= limits.min else low
        high = None if type(high) is int and high >= limits.max else high
    if low is not None and high is not None:
        kind = common_dtype(x, low, high)
        x, low, high = [converted(value, kind, "clip") for value in (x, low, high)]
    return x, low, high


def nan_to_num(
    x: ArrayLike,
    copy: bool = True,
    nan: ArrayLike = 0.0,
    posinf: ArrayLike = None,
    neginf: ArrayLike = None,
) -> Tensor:
    """Replace NaN and infinities by finite numbers, also in the parts of complex numbers.

    Parameters
    ----------
    x : array_like
    copy : bool, optional
        Ignored: tensors never change.
    nan : array_like, optional
        The replacement of NaN: a number, or an array that broadcasts to the shape of ``x``.
    posinf, neginf : array_like or None, optional
        The replacements of infinities; by default the greatest and the least finite number.

    Returns
    -------
    Tensor
        Replaced elements have no gradient; their replacements have one.

    Raises
    ------
    ShapeError
        A replacement does not broadcast to the shape of ``x``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> fnp.nan_to_num([1.0, float("nan"), float("inf")], posinf=9.0)
    Tensor([1., 0., 9.])

    >>> x = fg.tensor([1.0, 3.0, float("nan")])
    >>> fg.grad(lambda x: fnp.sum(fnp.nan_to_num(x, nan=fnp.nanmean(x))))(x)
    Tensor([1.5, 1.5, 0. ])
    """
    value = operand(x, "nan_to_num")
    if dtype_of(value).kind == "c":
        parts = (real(value), imag(value))
        first, second = [nan_to_num(component, copy, nan, posinf, neginf) for component in parts]
        return apply2(join_parts, first, second)
    fills = {"nan": nan, "posinf": posinf, "neginf": neginf}
    arrays = {key: fill for key, fill in fills.items() if not _is_number(fill)}
    numbers = fills | dict.fromkeys(arrays, 0.0)
    params = {key: float(y) if isinstance(y, Tensor) else y for key, y in numbers.items()}
    result: Value = apply(_p.nan_to_num, value, **params)
    if dtype_of(value).kind == "f":
        for key, fill in arrays.items():
            result = apply(_p.where, _REPLACED[key](value), _like(fill, value, key), result)
    return tensor(result)


_REPLACED: Final = MappingProxyType({"nan": isnan, "posinf": isposinf, "neginf": isneginf})


def _is_number(fill: ArrayLike) -> bool:
    """Whether a replacement is known, so that it can be a parameter."""
    if isinstance(fill, Tensor):
        return type(fill) is Tensor and not fill.shape
    return fill is None or isinstance(fill, bool | int | float | np.generic)


def _like(fill: ArrayLike, x: Value, key: str) -> Value:
    """A replacement in the array's dtype; it must not change the array's shape."""
    value = operand(fill, "nan_to_num")
    if dtype_of(value).kind == "c":
        raise DtypeError(f"nan_to_num: {key} has to be real; it is {dtype_of(value)}.")
    if broadcast_shapes("nan_to_num", shape_of(value), shape_of(x)) != shape_of(x):
        raise ShapeError(
            f"nan_to_num: {key}, of the shape {shape_of(value)}, does not broadcast to the shape"
            f" {shape_of(x)} of x."
        )
    return cast(value, dtype=dtype_of(x))


def select(
    condlist: Sequence[ArrayLike], choicelist: Sequence[ArrayLike], default: ArrayLike = 0
) -> Tensor:
    """Select from the first choice whose condition holds, elementwise.

    Parameters
    ----------
    condlist : sequence of array_like of bool
    choicelist : sequence of array_like
        A choice for each condition. Their dtypes are promoted.
    default : array_like, optional
        The value where no condition holds.

    Returns
    -------
    Tensor
        In the shape to which conditions and choices broadcast.

    Raises
    ------
    ArgumentError
        Choices and conditions differ in number, or there are none.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> x = fnp.add([-1.0, 0.5, 3.0], 0.0)
    >>> fnp.select([x < 0, x < 1], [0.0, x], 1.0)
    Tensor([0. , 0.5, 1. ])
    """
    conditions = [operand(x, "select") for x in sequence(condlist, "select", "condlist")]
    choices = [operand(x, "select") for x in sequence(choicelist, "select", "choicelist")]
    if not conditions or len(conditions) != len(choices):
        raise ArgumentError(
            f"select: got {len(conditions)} conditions and {len(choices)} choices; there has to be"
            " a choice for each condition, and at least one."
        )
    for place, condition in enumerate(conditions):
        if dtype_of(condition).kind != "b":
            raise DtypeError(
                f"select: condition {place} has to be of bool, not of {dtype_of(condition)}."
            )
    fallback = operand(default, "select")
    kind = common_dtype(*choices, fallback)
    result = converted(fallback, kind, "select")
    for condition, choice in zip(reversed(conditions), reversed(choices), strict=True):
        result = where(condition, converted(choice, kind, "select"), result)
    return tensor(result)


def piecewise(
    x: ArrayLike,
    condlist: ArrayLike | Sequence[ArrayLike],
    funclist: Sequence[Callable[..., ArrayLike] | ArrayLike],
    *args: Any,
    **kwargs: Any,
) -> Tensor:
    """Evaluate a function that is defined piecewise.

    Parameters
    ----------
    x : array_like
    condlist : sequence of array_like, or one
        The conditions of the pieces; the last that holds counts.
    funclist : sequence of callables and scalars
        A function or number for each condition, and optionally a last one where no condition holds
        (by default 0). Unlike in NumPy, functions get all of ``x``, and have to be elementwise.
    *args, **kwargs
        Further arguments of the functions.

    Returns
    -------
    Tensor
        Of the dtype of ``x``.

    Raises
    ------
    ArgumentError
        Functions and conditions do not fit in number.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> fnp.piecewise([-2.0, 3.0], [[True, False]], [lambda x: -x, lambda x: x])
    Tensor([2., 3.])
    """
    at = tensor(x)
    if isinstance(condlist, (list, tuple)) and not condlist:
        raise ArgumentError("piecewise: condlist is empty; there has to be a condition.")
    several = isinstance(condlist, (list, tuple)) and (not at.shape or np.ndim(condlist[0]) > 0)
    conditions = list(condlist) if several else [condlist]
    default: Any = 0
    pieces = sequence(funclist, "piecewise", "funclist")
    if len(pieces) == len(conditions) + 1:
        default = pieces.pop()
    if len(pieces) != len(conditions):
        raise ArgumentError(
            f"piecewise: got {len(conditions)} conditions and {len(funclist)} functions; there has"
            " to be one for each condition, and at most one more."
        )

    def value(piece: Any) -> Any:
        values = piece(at, *args, **kwargs) if callable(piece) else piece
        return converted(operand(values, "piecewise"), at.dtype, "piecewise")

    result = where(True, value(default), np.zeros(at.shape, at.dtype))
    for condition, piece in zip(conditions, pieces, strict=True):
        result = where(condition, value(piece), result)
    return tensor(result)
