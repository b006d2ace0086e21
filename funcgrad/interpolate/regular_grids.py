"""Interpolation of values on rectangular grids, in any number of variables.

>>> RegularGridInterpolator(([0.0, 1.0], [0.0, 2.0]), [[0.0, 2.0], [1.0, 3.0]])([0.5, 1.0])
Tensor([1.5])
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from math import prod
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import placed
from funcgrad._control.choices import is_unknown
from funcgrad._core.pytrees import pytree, static_field
from funcgrad._core.trace import concrete
from funcgrad._transforms.batch import vmap
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.interpolate.b_splines import basis_values, interval_of
from funcgrad.interpolate.checked_samples import (
    all_hold,
    array_of,
    ascending,
    in_one_precision,
    like_values,
    method_of,
    real_array_of,
    require,
    where_valid,
)
from funcgrad.interpolate.interpolating_splines import make_interp_spline
from funcgrad.interpolate.local_cubics import PchipInterpolator
from funcgrad.numpy.options import natural
from funcgrad.scipy.precision import real_numbers
from funcgrad.tensor.tensor import ArrayLike, Tensor

_DEGREES: Final = MappingProxyType({"slinear": 1, "cubic": 3, "quintic": 5})

_METHODS: Final = ("linear", "nearest", *_DEGREES, "pchip")

_NAME: Final = "RegularGridInterpolator"


_GridSpline: TypeAlias = tuple[tuple[Tensor, ...], Tensor]
"""The knots along each axis, and the coefficients; without a spline no knots, and the values."""


@pytree(init=False, eq=False)
class RegularGridInterpolator:
    """Interpolation of values on a rectangular grid.

    It is a pytree: results are differentiable in the points of evaluation, in the values and in
    the points of the grid.

    Parameters
    ----------
    points : sequence of array_like, shapes (n1,), ..., (nd,)
        The points of the grid along each axis, ascending, or descending if they are known.
    values : array_like, shape (n1, ..., nd, ...)
        Real or complex.
    method : {"linear", "nearest", "slinear", "cubic", "quintic", "pchip"}
        Lines, the nearest value (the lower one halfway), splines of degree 1, 3 and 5 along all
        axes, or monotone interpolation along one axis after the other, the last first.
    bounds_error : bool
        Whether a point outside of the grid raises an error. Inside `jit` and `vmap`, where points
        are not known, it has the fill value.
    fill_value : scalar or None
        The value at points outside; None: extrapolate.
    solver, solver_args : None
        Refused: the equations of splines are solved along one axis after the other, exactly.

    Attributes
    ----------
    grid : tuple of Tensor
        The points along each axis, ascending.
    spline : pair
        The knots along each axis and the coefficients of a spline.

    Raises
    ------
    ShapeError, ArgumentError, DtypeError
        The arrays do not fit each other, there are too few points, they are not in order, or an
        option is unknown.

    Notes
    -----
    At points of the grid "linear" has the derivatives of the cell to the right. "nearest" has
    the derivative 0. A spline's coefficients take O(n) time for n values. "pchip" goes through the
    whole grid for every point.

    Examples
    --------
    >>> import funcgrad as fg
    >>> grid = RegularGridInterpolator(([0.0, 1.0, 3.0], [0.0, 2.0]), np.arange(6.0).reshape(3, 2))
    >>> grid(fg.tensor([[0.5, 1.0], [2.0, 0.0]]))
    Tensor([1.5, 3. ])
    >>> fg.grad(lambda at: grid(at)[0])(fg.tensor([0.5, 1.0]))
    Tensor([2. , 0.5])
    """

    grid: tuple[Tensor, ...]
    values: Tensor
    fill_value: Tensor | None
    spline: _GridSpline
    method: str = static_field()
    bounds_error: bool = static_field()

    def __init__(
        self,
        points: Sequence[ArrayLike],
        values: ArrayLike,
        method: str = "linear",
        bounds_error: bool = True,
        fill_value: ArrayLike | None = np.nan,
        *,
        solver: object = None,
        solver_args: object = None,
    ) -> None:
        if solver is not None or solver_args:
            raise placed(
                ArgumentError,
                f"{_NAME}: takes no solver; the equations are solved along one axis after the"
                " other, exactly.",
            )
        self_method = method_of(_NAME, method, _METHODS)
        if not isinstance(points, Sequence | np.ndarray | Tensor):
            raise placed(
                ArgumentError,
                f"{_NAME}: points is a sequence with an array for each axis, not {points!r}.",
            )
        axes = [real_array_of(_NAME, f"points[{n}]", axis) for n, axis in enumerate(points)]
        *axes, heights = in_one_precision(*axes, array_of(_NAME, "values", values))
        shape = tuple(axis.shape[0] if axis.ndim == 1 else -1 for axis in axes)
        if heights.shape[: len(axes)] != shape or not axes or 0 in shape:
            raise placed(
                ShapeError,
                f"{_NAME}: the points have the shapes {[axis.shape for axis in axes]}, and values"
                f" {heights.shape}: the first axes of values have to be as long as the points.",
            )
        valid: Tensor | None = None
        for number, axis in enumerate(axes):
            if _falls(axis):
                axes[number], heights = axis[::-1], fnp.flip(heights, number)
            valid = all_hold(valid, ascending(_NAME, f"points[{number}]", axes[number]))
        _enough(shape, self_method)
        if self_method == "pchip" and heights.dtype.kind == "c":
            raise placed(DtypeError, f"{_NAME}: 'pchip' takes real values, not {heights.dtype}.")
        fill = None
        if fill_value is not None:
            fill = like_values(array_of(_NAME, "fill_value", fill_value), heights)
        heights = where_valid(valid, heights)
        fields = {
            "grid": tuple(axes),
            "values": heights,
            "spline": _grid_spline(axes, heights, self_method),
            "fill_value": fill,
            "method": self_method,
            "bounds_error": bool(bounds_error),
        }
        for field, value in fields.items():
            object.__setattr__(self, field, value)

    def __call__(
        self,
        xi: ArrayLike | tuple[ArrayLike, ...],
        method: str | None = None,
        *,
        nu: Sequence[int] | None = None,
    ) -> Tensor:
        """Evaluate at points.

        Parameters
        ----------
        xi : array_like, shape (..., d), or tuple of d array_like
            The points, or their coordinates, which are broadcast. An array of shape (d,) is one
            point, and its result has a leading axis of length 1, as in SciPy.
        method : str, optional
            By default as for the instance.
        nu : sequence of int, optional
            The order of the derivative along each axis, for "slinear", "cubic" and "quintic".

        Returns
        -------
        Tensor, shape (..., *values.shape[d:])

        Raises
        ------
        ArgumentError
            A point is outside, and ``bounds_error`` is set; or an option is unknown.
        """
        chosen = self.method if method is None else method_of(_NAME, method, _METHODS)
        _enough(tuple(axis.shape[0] for axis in self.grid), chosen)
        at = _coordinates(xi, len(self.grid))
        orders = self._orders(nu, chosen)
        at, *axes = real_numbers(_NAME, at, *self.grid)
        columns = [at[..., number] for number in range(len(axes))]
        outside = fnp.zeros(at.shape[:-1], bool)
        for column, axis in zip(columns, axes, strict=True):
            outside = outside | (column < axis[0]) | (column > axis[-1])
        if self.bounds_error:
            require(
                ~fnp.any(outside),
                ArgumentError,
                f"{_NAME}: a point lies outside of the grid. Choose bounds_error=False, with a"
                " fill_value, or None to extrapolate.",
            )
        if chosen == "pchip":
            values = self._monotone(columns, axes)
        else:
            values = self._summed(columns, axes, chosen, orders)
        lifted = (*at.shape[:-1], *(1,) * (values.ndim - at.ndim + 1))
        if self.fill_value is not None:
            values = fnp.where(fnp.reshape(outside, lifted), self.fill_value, values)
        unknown = fnp.reshape(fnp.any(fnp.isnan(at), axis=-1), lifted)
        return fnp.where(unknown, np.nan, values)

    def _orders(self, nu: Sequence[int] | None, method: str) -> list[int]:
        if nu is None:
            return [0] * len(self.grid)
        if method not in _DEGREES or len(nu) != len(self.grid):
            raise placed(
                ArgumentError,
                f"{_NAME}: nu has an order for each of the {len(self.grid)} axes, and the method"
                f" is one of {', '.join(_DEGREES)}; got {nu!r} and {method!r}. fg.grad"
                " differentiates all methods.",
            )
        return [natural(order, _NAME, "nu") for order in nu]

    def _summed(
        self, columns: list[Tensor], axes: list[Tensor], method: str, orders: list[int]
    ) -> Tensor:
        """Weighted sums of the values, or of a spline's coefficients, around each point."""
        knots, heights = self.spline
        if method != self.method:
            knots, heights = _grid_spline([*self.grid], self.values, method)
        sides = []
        for number, (column, order) in enumerate(zip(columns, orders, strict=True)):
            if method in _DEGREES:
                degree, t = _DEGREES[method], knots[number]
                column, t = real_numbers(_NAME, column, t)
                place = interval_of(t, column, degree)
                weights = basis_values(t, column, place, degree, order)
                sides.append([(place + (n - degree), w) for n, w in enumerate(weights)])
            else:
                sides.append(_neighbours(column, axes[number], method))
        lead, behind = heights.shape[: len(axes)], heights.shape[len(axes) :]
        flat = fnp.reshape(heights, (prod(lead), *behind))
        lifted = (*columns[0].shape, *(1,) * len(behind))
        total: Tensor | None = None
        for corner in itertools.product(*sides):
            place, weight = corner[0]
            for size, (step, factor) in zip(lead[1:], corner[1:], strict=True):
                place, weight = place * size + step, weight * factor
            term = fnp.take(flat, place, axis=0) * fnp.reshape(weight, lifted)
            total = term if total is None else total + term
        assert total is not None
        return total

    def _monotone(self, columns: list[Tensor], axes: list[Tensor]) -> Tensor:
        """Monotone interpolation along the last axis, then along the one before, and so on."""

        def one(*at: Tensor) -> Tensor:
            heights = self.values
            for number in reversed(range(len(axes))):
                heights = PchipInterpolator(axes[number], heights, axis=number)(at[number])
            return heights

        count = prod(columns[0].shape)
        results = vmap(one)(*[fnp.reshape(column, (count,)) for column in columns])
        return fnp.reshape(results, (*columns[0].shape, *results.shape[1:]))


def _grid_spline(axes: list[Tensor], heights: Tensor, method: str) -> _GridSpline:
    """Solve for the coefficients of a spline along one axis after the other."""
    knots: list[Tensor] = []
    if method in _DEGREES:
        for number, axis in enumerate(axes):
            spline = make_interp_spline(
                axis, heights, _DEGREES[method], axis=number, check_finite=False
            )
            knots, heights = [*knots, spline.t], spline.c
    return tuple(knots), heights


def _falls(axis: Tensor) -> bool:
    """Whether the points of an axis are known to descend."""
    value = concrete(fnp.all(axis[1:] < axis[:-1]))
    return axis.shape[0] > 1 and not is_unknown(value) and bool(np.asarray(value))


def _enough(shape: tuple[int, ...], method: str) -> None:
    """Check the number of points along each axis.

    Raises
    ------
    ShapeError
        There are too few.
    """
    least = _DEGREES[method] + 1 if method in _DEGREES else 2 if method == "pchip" else 1
    if min(shape) < least:
        raise placed(
            ShapeError,
            f"{_NAME}: {method!r} needs at least {least} points along each axis; the grid has"
            f" {shape}.",
        )


def _coordinates(xi: ArrayLike | tuple[ArrayLike, ...], rank: int) -> Tensor:
    """Points along the last axis."""
    if isinstance(xi, tuple):
        columns = [real_array_of(_NAME, "xi", column) for column in xi]
        at = fnp.stack(fnp.broadcast_arrays(*columns), axis=-1)
    else:
        at = real_array_of(_NAME, "xi", xi)
        if at.ndim == 1 and at.shape[0] % rank == 0:
            at = fnp.reshape(at, (at.shape[0] // rank, rank))
    if not at.ndim or at.shape[-1] != rank:
        raise placed(
            ShapeError,
            f"{_NAME}: the grid has {rank} axes, so xi has the shape (..., {rank}); it is"
            f" {at.shape}.",
        )
    return at


def _neighbours(at: Tensor, axis: Tensor, method: str) -> list[tuple[Tensor, Tensor]]:
    """The places along an axis that count for each point, and their weights."""
    last = axis.shape[0] - 1
    if not last:
        return [(fnp.zeros(at.shape, np.int64), fnp.ones_like(at))]
    place = fnp.clip(fnp.searchsorted(axis, at, side="right") - 1, 0, last - 1)
    start, end = fnp.take(axis, place), fnp.take(axis, place + 1)
    share = (at - start) / (end - start)
    if method == "nearest":
        return [(place + fnp.where(share > 0.5, 1, 0), fnp.ones_like(at))]
    return [(place, 1.0 - share), (place + 1, share)]


def interpn(
    points: Sequence[ArrayLike],
    values: ArrayLike,
    xi: ArrayLike | tuple[ArrayLike, ...],
    method: str = "linear",
    bounds_error: bool = True,
    fill_value: ArrayLike | None = np.nan,
) -> Tensor:
    """Interpolate values on a rectangular grid at points.

    Parameters
    ----------
    points, values, method, bounds_error, fill_value
        As for `RegularGridInterpolator`; SciPy's method "splinef2d" is missing, "cubic" is the
        same spline.
    xi : array_like, shape (..., d), or tuple of d array_like
        The points of evaluation.

    Returns
    -------
    Tensor, shape (..., *values.shape[d:])

    Raises
    ------
    ShapeError, ArgumentError, DtypeError
        As for `RegularGridInterpolator`.

    Examples
    --------
    >>> interpn(([0.0, 1.0], [0.0, 2.0]), [[0.0, 2.0], [1.0, 3.0]], [[0.5, 1.0]])
    Tensor([1.5])
    """
    return RegularGridInterpolator(points, values, method, bounds_error, fill_value)(xi)
