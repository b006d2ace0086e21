"""``interp1d``: interpolation in one variable by a kind: lines, steps, splines.

>>> interp1d([0.0, 1.0, 2.0], [0.0, 2.0, 3.0])([0.5, 1.5])
Tensor([1. , 2.5])
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import placed
from funcgrad._core.pytrees import pytree, static_field
from funcgrad._core.specs import normalize_axis
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.interpolate.b_splines import BSpline
from funcgrad.interpolate.checked_samples import (
    array_of,
    like_values,
    method_of,
    moved_back,
    points_of,
    read_samples,
    real_array_of,
    require,
    where_valid,
)
from funcgrad.interpolate.interpolating_splines import make_interp_spline
from funcgrad.numpy.options import integer, natural
from funcgrad.tensor.tensor import ArrayLike, Tensor

Fill: TypeAlias = ArrayLike | tuple[ArrayLike, ArrayLike]

_STEPS: Final = ("nearest", "nearest-up", "previous", "next")


def _degree(kind: str) -> int:
    """The degree of a kind that is a spline; -1 for the others."""
    splines = ("zero", "slinear", "quadratic", "cubic")
    return splines.index(kind) if kind in splines else -1


@pytree(init=False, eq=False)
class interp1d:  # noqa: N801  # SciPy's name
    """Interpolation in one variable.

    It is a pytree: its values are differentiable in the points of evaluation, in ``x`` and ``y``,
    and in the fill values.

    Parameters
    ----------
    x : array_like, shape (n,)
        The points of the samples, all different; real.
    y : array_like, shape (..., n, ...)
        The samples; real or complex.
    kind : str or int
        "linear"; "nearest" (the lower neighbour halfway between two), "nearest-up" (the upper
        one), "previous" and "next"; "zero", "slinear", "quadratic", "cubic" or a degree: a
        spline.
    axis : int
        The axis of ``y`` along which the points lie.
    copy : bool
        Ignored: tensors never change.
    bounds_error : bool, optional
        Whether a point outside of ``x`` raises an error; by default, unless values are
        extrapolated. Inside `jit` and `vmap`, where points are not known, it has the fill value.
    fill_value : array_like, (below, above) or "extrapolate"
        The values at points outside.
    assume_sorted : bool
        Whether ``x`` ascends; else it is sorted.

    Attributes
    ----------
    spline : BSpline or None
        The spline of a kind that is one.
    below, above : Tensor
        The values outside.
    extrapolates : bool
        Whether values outside are extrapolated.

    Raises
    ------
    ShapeError, ArgumentError, DtypeError
        The arrays do not fit each other, two points are equal, there are too few for the kind, or
        an option is unknown.

    Notes
    -----
    At a sample the derivative of lines with respect to the point is the slope to its right; the
    derivative of steps is 0.

    Examples
    --------
    >>> import funcgrad as fg
    >>> line = interp1d([0.0, 1.0, 2.0], [0.0, 2.0, 3.0], fill_value="extrapolate")
    >>> line(3.0), fg.grad(line)(1.0)
    (Tensor(4.0), Tensor(1.0))
    """

    x: Tensor
    y: Tensor
    spline: BSpline | None
    below: Tensor
    above: Tensor
    kind: str = static_field()
    axis: int = static_field()
    bounds_error: bool = static_field()
    extrapolates: bool = static_field()

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        kind: str | int = "linear",
        axis: int = -1,
        copy: bool = True,
        bounds_error: bool | None = None,
        fill_value: Fill = np.nan,
        assume_sorted: bool = False,
    ) -> None:
        del copy
        name = "interp1d"
        if not isinstance(kind, str):
            kind, degree = "spline", natural(kind, name, "kind")
        else:
            words = ("linear", *_STEPS, "zero", "slinear", "quadratic", "cubic")
            degree = _degree(method_of(name, kind, words))
        if not assume_sorted:
            x, y = _sorted(x, y, axis)
        samples = read_samples(name, x, y, axis, least=1, finite=False)
        count = samples.x.shape[0]
        if kind == "linear" and count < 2:
            raise placed(ShapeError, f"{name}: a line needs at least 2 points, not {count}.")
        rows = where_valid(samples.valid, samples.y)
        goes_on = isinstance(fill_value, str)
        if goes_on and fill_value != "extrapolate":
            raise placed(
                ArgumentError,
                f"{name}: fill_value is a value, a pair of values, or 'extrapolate', not"
                f" {fill_value!r}.",
            )
        if goes_on and bounds_error:
            raise placed(
                ArgumentError,
                f"{name}: bounds_error=True and fill_value='extrapolate' contradict each other.",
            )
        if goes_on and kind in ("previous", "next"):
            fill_value = (np.nan, rows[-1]) if kind == "previous" else (rows[0], np.nan)
        below, above = _ends(np.nan if isinstance(fill_value, str) else fill_value, rows)
        is_spline = kind == "spline" or degree >= 0
        spline = None
        if is_spline:
            spline = make_interp_spline(samples.x, samples.y, degree, check_finite=False)
        fields = {
            "x": samples.x,
            "y": fnp.moveaxis(rows, 0, samples.axis),
            "spline": spline,
            "below": below,
            "above": above,
            "kind": "spline" if is_spline else kind,
            "axis": samples.axis,
            "bounds_error": not goes_on if bounds_error is None else bool(bounds_error),
            "extrapolates": goes_on and kind not in ("previous", "next"),
        }
        for field, value in fields.items():
            object.__setattr__(self, field, value)

    def __call__(self, x: ArrayLike) -> Tensor:
        """Evaluate at points.

        Parameters
        ----------
        x : array_like
            Real.

        Returns
        -------
        Tensor
            The axes of ``x`` take the place of the axis.

        Raises
        ------
        ArgumentError
            A point is outside, and ``bounds_error`` is set.
        """
        at, knots = points_of("interp1d", x, self.x)
        rows = fnp.moveaxis(self.y, self.axis, 0)
        low, high = at < knots[0], at > knots[-1]
        if self.bounds_error:
            require(
                ~fnp.any(low | high),
                ArgumentError,
                "interp1d: a point lies outside of the samples. Choose bounds_error=False, with a"
                " fill_value or fill_value='extrapolate'.",
            )
        if self.spline is not None:
            values = self.spline(at, extrapolate=True)
        elif self.kind == "linear":
            values = _on_lines(at, knots, rows)
        else:
            values = fnp.take(rows, _step(self.kind, at, knots), axis=0)
        if not self.extrapolates:
            shape = (*at.shape, *(1,) * (rows.ndim - 1))
            values = fnp.where(fnp.reshape(low, shape), self.below, values)
            values = fnp.where(fnp.reshape(high, shape), self.above, values)
        return moved_back(values, at.ndim, self.axis)


def _sorted(x: ArrayLike, y: ArrayLike, axis: int) -> tuple[Tensor, Tensor]:
    """Points in ascending order with their samples."""
    points, values = real_array_of("interp1d", "x", x), array_of("interp1d", "y", y)
    if points.ndim != 1 or not values.ndim:
        return points, values  # which are refused
    axis = normalize_axis(integer(axis, "interp1d", "axis"), values.ndim, "interp1d")
    if values.shape[axis] != points.shape[0]:
        return points, values
    order = fnp.argsort(points, stable=True)
    return fnp.take(points, order), fnp.take(values, order, axis=axis)


def _ends(fill_value: Fill, rows: Tensor) -> list[Tensor]:
    """The values below and above, in the shape of a sample."""
    pair = fill_value if isinstance(fill_value, tuple) and len(fill_value) == 2 else None
    ends = []
    for value in pair or (fill_value, fill_value):
        end = like_values(array_of("interp1d", "fill_value", value), rows)
        try:
            ends.append(fnp.broadcast_to(end, rows.shape[1:]))
        except ShapeError:
            raise placed(
                ShapeError,
                f"interp1d: a fill_value of the shape {end.shape} does not fit a sample of the"
                f" shape {rows.shape[1:]}.",
            ) from None
    return ends


def _on_lines(at: Tensor, knots: Tensor, rows: Tensor) -> Tensor:
    """Values on the lines between samples."""
    place = fnp.clip(fnp.searchsorted(knots, at, side="right") - 1, 0, knots.shape[0] - 2)
    start, end = fnp.take(knots, place), fnp.take(knots, place + 1)
    low, high = fnp.take(rows, place, axis=0), fnp.take(rows, place + 1, axis=0)
    share = fnp.reshape((at - start) / (end - start), (*at.shape, *(1,) * (rows.ndim - 1)))
    return low + (high - low) * share


def _step(kind: str, at: Tensor, knots: Tensor) -> Tensor:
    """The sample whose value a point has."""
    last = knots.shape[0] - 1
    if kind in ("nearest", "nearest-up"):
        halves = knots / 2.0
        place = fnp.searchsorted(
            halves[1:] + halves[:-1], at, side="left" if kind == "nearest" else "right"
        )
    elif kind == "previous":
        place = fnp.searchsorted(knots, at, side="right") - 1
    else:
        place = fnp.searchsorted(knots, at, side="left")
    return fnp.clip(place, 0, last)
