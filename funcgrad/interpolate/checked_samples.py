"""Points, samples and options of interpolators, checked and in one precision.

Known values are checked at once. In a program or a batch values are not known, so nothing can be
raised: there a condition goes with the samples, and the interpolator is NaN where it fails.

>>> samples = read_samples("CubicSpline", [0.0, 1.0], [[1.0, 2.0], [3.0, 4.0]], axis=1)
>>> samples.x, samples.y
(Tensor([0., 1.]), Tensor([[1., 3.],
        [2., 4.]]))
"""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import placed
from funcgrad._control.choices import is_unknown
from funcgrad._core.specs import normalize_axis
from funcgrad._core.trace import concrete
from funcgrad._core.users_values import operand
from funcgrad._primitives.matrices import real_dtype
from funcgrad.errors import ArgumentError, DtypeError, FuncgradError, ShapeError
from funcgrad.numpy.options import integer
from funcgrad.scipy.precision import real_numbers
from funcgrad.tensor.tensor import ArrayLike, Tensor

Extrapolate: TypeAlias = bool | Literal["periodic"] | None


class Samples(NamedTuple):
    """Samples along the first axis, and whether they are valid (None: they are)."""

    x: Tensor
    y: Tensor
    axis: int
    valid: Tensor | None


def array_of(name: str, argument: str, value: ArrayLike) -> Tensor:
    """A real or complex array; truth values and integers become float64, halves float32.

    Raises
    ------
    DtypeError
        It holds texts or objects.
    """
    array = fnp.asarray(operand(value, f"{name}: {argument}"))
    if array.dtype.kind not in "biufc":
        raise placed(
            DtypeError, f"{name}: {argument} has to be real or complex, not {array.dtype}."
        )
    if array.dtype.kind in "biu":
        return array.astype(np.float64)
    return array.astype(np.float32) if array.dtype == np.float16 else array


def real_array_of(name: str, argument: str, value: ArrayLike) -> Tensor:
    """An array of real numbers.

    Raises
    ------
    DtypeError
        It is complex, or of another kind than real.
    """
    array = array_of(name, argument, value)
    if array.dtype.kind == "c":
        raise placed(DtypeError, f"{name}: {argument} has to be real, not {array.dtype}.")
    return array


def in_one_precision(*arrays: Tensor) -> list[Tensor]:
    """Arrays in their common precision; real ones stay real."""
    common = np.result_type(*[array.dtype for array in arrays])
    real = real_dtype(common)
    return [array.astype(common if array.dtype.kind == "c" else real) for array in arrays]


def like_values(fill: Tensor, values: Tensor) -> Tensor:
    """Values that fill gaps, in the precision of the others; complex if they are."""
    if fill.dtype.kind == "c" and values.dtype.kind != "c":
        return fill.astype(np.result_type(values.dtype, np.complex64))
    return fill.astype(values.dtype)


def all_hold(*conditions: Tensor | None) -> Tensor | None:
    """The conjunction of conditions; None stands for one that is known to hold."""
    together: Tensor | None = None
    for condition in conditions:
        if condition is not None:
            together = condition if together is None else fnp.logical_and(together, condition)
    return together


def require(condition: Tensor, error: type[FuncgradError], message: str) -> Tensor | None:
    """Raise an error if a condition is known to fail; return it if nothing is known."""
    value = concrete(condition)
    if is_unknown(value):
        return condition
    if not np.asarray(value):
        raise placed(error, message)
    return None


def where_valid(valid: Tensor | None, values: Tensor) -> Tensor:
    """The values, or NaN where the samples turn out to be invalid."""
    return values if valid is None else fnp.where(valid, values, np.nan)


def ascending(name: str, argument: str, x: Tensor) -> Tensor | None:
    """Check that points are finite and that each is greater than the one before.

    Raises
    ------
    ArgumentError
        They are not.
    """
    finite = require(
        fnp.all(fnp.isfinite(x)), ArgumentError, f"{name}: {argument} has to be finite."
    )
    ordered = require(
        fnp.all(x[1:] > x[:-1]),
        ArgumentError,
        f"{name}: {argument} has to ascend strictly: each point is greater than the one before."
        " Sort the points and their values with fnp.argsort, and merge equal points.",
    )
    return all_hold(finite, ordered)


def read_samples(
    name: str,
    x: ArrayLike,
    y: ArrayLike,
    axis: int,
    *beside: ArrayLike,
    least: int = 2,
    finite: bool = True,
) -> Samples:
    """Read points and their values.

    Parameters
    ----------
    name : str
        The interpolator, for messages.
    x : array_like, shape (n,)
        Real, ascending.
    y : array_like, shape (..., n, ...)
    axis : int
        The axis of ``y`` along which the points lie.
    *beside : array_like
        More values, whose precision counts.
    least : int
        The least number of points.
    finite : bool
        Whether the values have to be finite.

    Raises
    ------
    ArgumentError, DtypeError, ShapeError
        A value does not fit.
    """
    points, values = real_array_of(name, "x", x), array_of(name, "y", y)
    others = [array_of(name, "a boundary value", other) for other in beside]
    points, values, *_ = in_one_precision(points, values, *others)
    if any(other.dtype.kind == "c" for other in others):
        values = values.astype(np.result_type(values.dtype, *[o.dtype for o in others]))
    if points.ndim != 1 or not values.ndim:
        raise placed(
            ShapeError,
            f"{name}: x is 1-d and y at least 1-d; their shapes are {points.shape} and"
            f" {values.shape}.",
        )
    place = normalize_axis(integer(axis, name, "axis"), values.ndim, name)
    count = points.shape[0]
    if values.shape[place] != count:
        raise placed(
            ShapeError,
            f"{name}: y has {values.shape[place]} values along axis {place}, and x has {count}"
            f" points; the shapes are {values.shape} and {points.shape}.",
        )
    if count < least:
        raise placed(ShapeError, f"{name}: needs at least {least} points, not {count}.")
    valid = ascending(name, "x", points)
    if finite:
        are = fnp.all(fnp.isfinite(values))
        message = f"{name}: y has to be finite; leave out samples that are NaN or infinite."
        valid = all_hold(valid, require(are, ArgumentError, message))
    return Samples(points, fnp.moveaxis(values, place, 0), place, valid)


def real_samples(samples: Samples, name: str) -> None:
    """Refuse complex values.

    Raises
    ------
    DtypeError
        They are complex.
    """
    if samples.y.dtype.kind == "c":
        raise placed(
            DtypeError,
            f"{name}: y has to be real, since slopes are limited by their signs; interpolate"
            " y.real and y.imag.",
        )


def beside_rows(x: Tensor, y: Tensor) -> Tensor:
    """A vector along the first axis of an array."""
    return fnp.reshape(x, (x.shape[0], *(1,) * (y.ndim - 1)))


def extrapolation(name: str, extrapolate: object) -> bool | Literal["periodic"]:
    """Check the option ``extrapolate``.

    Raises
    ------
    ArgumentError
        It is neither a truth value nor "periodic".
    """
    if isinstance(extrapolate, str) and extrapolate == "periodic":
        return "periodic"
    if isinstance(extrapolate, int | np.bool_) and extrapolate in (0, 1):
        return bool(extrapolate)
    raise placed(
        ArgumentError, f"{name}: extrapolate is True, False or 'periodic', not {extrapolate!r}."
    )


def points_of(name: str, points: ArrayLike, knots: Tensor) -> tuple[Tensor, Tensor]:
    """Points of evaluation and knots, in one precision. Python's scalars do not widen."""
    at, along = real_numbers(name, points, knots)
    return at, along


def moved_back(values: Tensor, rank: int, axis: int) -> Tensor:
    """Values at points: the axes of the points take the place of the interpolated axis."""
    if not axis:
        return values
    order = [*range(rank, rank + axis), *range(rank), *range(rank + axis, values.ndim)]
    return fnp.transpose(values, order)


def within(x: Tensor, low: Tensor, high: Tensor, values: Tensor) -> Tensor:
    """The values, and NaN at points outside of an interval."""
    inside = fnp.logical_and(x >= low, x <= high)
    return fnp.where(
        fnp.reshape(inside, (*x.shape, *(1,) * (values.ndim - x.ndim))), values, np.nan
    )


def method_of(name: str, method: object, choices: tuple[str, ...]) -> str:
    """Check that a method is one of those that there are.

    Raises
    ------
    ArgumentError
        It is not one of these words.
    """
    if isinstance(method, str) and method in choices:
        return method
    raise placed(
        ArgumentError, f"{name}: the method is one of {', '.join(choices)}, not {method!r}."
    )
