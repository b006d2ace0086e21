"""Arguments that functions of signals share: axes, extensions at both ends, common dtypes."""

from __future__ import annotations

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.choices import is_unknown
from funcgrad._core.specs import normalize_axis
from funcgrad._core.trace import concrete
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.numpy.options import integer, tolerance
from funcgrad.tensor.tensor import ArrayLike, Tensor, tensor


def inexact(x: ArrayLike) -> Tensor:
    """A tensor of real or complex floating-point numbers; integers become float64."""
    value = tensor(x)
    return value if value.dtype.kind in "fc" else value.astype(np.float64)


def one_of(operation: str, name: str, value: object, choices: tuple[object, ...]) -> None:
    """Refuse an option that is none of the choices.

    Raises
    ------
    ArgumentError
        It is none of them.
    """
    if not (value is None or isinstance(value, str)) or value not in choices:
        words = ", ".join(map(repr, choices))
        raise ArgumentError(f"{operation}: {name}={value!r} is unknown. Choose one of {words}.")


def whole_number(operation: str, name: str, value: object, least: int) -> int:
    """Check that an option is an integer, not less than a bound.

    Raises
    ------
    DtypeError
        It is not an integer.
    ArgumentError
        It is less.
    """
    number = integer(value, operation, name)
    if number < least:
        raise ArgumentError(f"{operation}: {name} is {number}; it has to be {least} at least.")
    return number


def rate(operation: str, fs: ArrayLike) -> ArrayLike:
    """Check the samples per unit of time: a real number, which may be traced.

    Raises
    ------
    DtypeError
        It is not a real number.
    ArgumentError
        It is 0.
    """
    known = concrete(tolerance(fs, operation, "fs"))
    if not is_unknown(known) and known == 0:
        raise ArgumentError(f"{operation}: fs is {fs!r}; times are divided by it.")
    return fs


def with_axis_last(operation: str, x: ArrayLike, axis: int) -> Tensor:
    """A tensor with an axis moved to the end.

    Raises
    ------
    ShapeError
        The tensor has no such axis.
    """
    value = inexact(x)
    if not -value.ndim <= integer(axis, operation, "axis") < value.ndim:
        raise ShapeError(
            f"{operation}: there is no axis {axis} in a signal of shape {value.shape}."
        )
    return fnp.moveaxis(value, normalize_axis(axis, value.ndim, operation), -1)


def extended(operation: str, x: Tensor, count: int, kind: str) -> Tensor:
    """Extend a signal along its last axis at both ends.

    Parameters
    ----------
    operation : str
        The name of the function, for errors.
    x : Tensor
    count : int
        The number of new values at each end.
    kind : str
        ``"even"`` mirrors about the end values, ``"odd"`` mirrors and negates the differences from
        them, ``"constant"`` repeats them, ``"zeros"`` takes zeros.

    Raises
    ------
    ShapeError
        The signal is not longer than ``count``.
    """
    if count < 1:
        return x
    if kind != "zeros" and kind != "constant" and count > x.shape[-1] - 1:
        raise ShapeError(
            f"{operation}: an extension by {count} values needs a longer signal than {x.shape[-1]}"
            " values. Pass a shorter padlen or nperseg."
        )
    first, last = x[..., :1], x[..., -1:]
    one = fnp.ones((count,), x.dtype)
    if kind == "zeros":
        return fnp.concatenate([0 * first * one, x, 0 * last * one], axis=-1)
    if kind == "constant":
        return fnp.concatenate([first * one, x, last * one], axis=-1)
    left, right = x[..., count:0:-1], x[..., -2 : -count - 2 : -1]
    if kind == "odd":
        left, right = 2 * first - left, 2 * last - right
    return fnp.concatenate([left, x, right], axis=-1)
