"""Cubic interpolation whose slopes come from few neighbours: monotone, or after Akima.

>>> PchipInterpolator([0.0, 1.0, 2.0, 3.0], [0.0, 0.0, 1.0, 1.0])([0.5, 1.5, 2.5])
Tensor([0. , 0.5, 1. ])
"""

from __future__ import annotations

from typing import Final

import funcgrad.numpy as fnp
from funcgrad._core.pytrees import pytree
from funcgrad.interpolate.checked_samples import (
    Extrapolate,
    beside_rows,
    method_of,
    read_samples,
    real_samples,
    where_valid,
)
from funcgrad.interpolate.cubic_splines import hermite_rows
from funcgrad.interpolate.piecewise_polynomials import PPoly
from funcgrad.tensor.tensor import ArrayLike, Tensor

_CUT: Final = 1e-9
"""Akima's weights below this part of the greatest count as 0, as in SciPy."""


@pytree(init=False, eq=False)
class PchipInterpolator(PPoly):
    """Cubic interpolation that is monotone where the samples are.

    Parameters
    ----------
    x : array_like, shape (n,)
        The points of the samples, ascending; at least 2.
    y : array_like, shape (..., n, ...)
        The samples; real and finite.
    axis : int
        The axis of ``y`` along which the points lie.
    extrapolate : bool or "periodic", optional
        As for `PPoly`.

    Raises
    ------
    ShapeError, ArgumentError, DtypeError
        The arrays do not fit each other, the points do not ascend, or a value is not finite or
        not real.

    Notes
    -----
    The slope at a point is a harmonic mean of the slopes of both neighbouring secants, and 0 where
    these have different signs or one is 0. There the derivative with respect to the samples jumps;
    the slope counts as the constant 0. Source: F. N. Fritsch, J. Butland, "A method for
    constructing local monotone piecewise cubic interpolants", SIAM J. Sci. Stat. Comput. 5, 1984;
    at the ends C. Moler, "Numerical computing with MATLAB", 2004.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.grad(lambda y: PchipInterpolator([0.0, 1.0, 2.0], y)(0.5))(fg.tensor([0.0, 1.0, 4.0]))
    Tensor([...])
    """

    def __init__(
        self, x: ArrayLike, y: ArrayLike, axis: int = 0, extrapolate: Extrapolate = None
    ) -> None:
        name = "PchipInterpolator"
        samples = read_samples(name, x, y, axis)
        real_samples(samples, name)
        rows = hermite_rows(samples.x, samples.y, _monotone_slopes(samples.x, samples.y))
        self._fill(where_valid(samples.valid, rows), samples.x, extrapolate, samples.axis)


def _monotone_slopes(x: Tensor, y: Tensor) -> Tensor:
    """The slopes of monotone interpolation along the first axis."""
    width = beside_rows(x[1:] - x[:-1], y)
    secant = (y[1:] - y[:-1]) / width
    if x.shape[0] == 2:
        return fnp.concatenate([secant, secant])
    left, right = secant[:-1], secant[1:]
    turns = left * fnp.sign(right) <= 0.0
    heavy_left, heavy_right = width[:-1] + 2.0 * width[1:], 2.0 * width[:-1] + width[1:]
    total = heavy_left / fnp.where(turns, 1.0, left) + heavy_right / fnp.where(turns, 1.0, right)
    inner = fnp.where(turns, 0.0, (heavy_left + heavy_right) / fnp.where(turns, 1.0, total))
    first = _end_slope(width[:1], width[1:2], secant[:1], secant[1:2])
    last = _end_slope(width[-1:], width[-2:-1], secant[-1:], secant[-2:-1])
    return fnp.concatenate([first, inner, last])


def _end_slope(near: Tensor, far: Tensor, secant: Tensor, next_secant: Tensor) -> Tensor:
    """The slope of the parabola through three points, limited so that no extremum arises."""
    slope = ((2.0 * near + far) * secant - near * next_secant) / (near + far)
    turns = fnp.sign(slope) != fnp.sign(secant)
    bends = fnp.sign(secant) != fnp.sign(next_secant)
    steep = fnp.abs(slope) > 3.0 * fnp.abs(secant)
    limited = fnp.where(fnp.logical_and(bends, steep), 3.0 * secant, slope)
    return fnp.where(turns, 0.0, limited)


@pytree(init=False, eq=False)
class Akima1DInterpolator(PPoly):
    """Cubic interpolation after Akima, which looks natural and oscillates little.

    Parameters
    ----------
    x : array_like, shape (n,)
        The points of the samples, ascending; at least 2.
    y : array_like, shape (..., n, ...)
        The samples; real and finite.
    axis : int
        The axis of ``y`` along which the points lie.
    method : {"akima", "makima"}
        The weights of the secants; the modified ones of "makima" prefer flat parts.
    extrapolate : bool or "periodic", optional
        As for `PPoly`, but None stands for False.

    Raises
    ------
    ShapeError, ArgumentError, DtypeError
        The arrays do not fit each other, the points do not ascend, a value is not finite or not
        real, or the method is unknown.

    Notes
    -----
    The slope at a point is a mean of the secants beside it; the weight of each is the change of
    the secants on the other side. If both weights are 0 the slope is the mean of the outer
    secants. Derivatives of |change| at 0 are 0. Source: H. Akima, "A new method of interpolation
    and smooth curve fitting based on local procedures", J. ACM 17, 1970.

    Examples
    --------
    >>> Akima1DInterpolator([0.0, 1.0, 2.0, 3.0], [0.0, 1.0, 4.0, 9.0])(1.5)
    Tensor(2.25)
    """

    def __init__(
        self,
        x: ArrayLike,
        y: ArrayLike,
        axis: int = 0,
        *,
        method: str = "akima",
        extrapolate: Extrapolate = None,
    ) -> None:
        name = "Akima1DInterpolator"
        method_of(name, method, ("akima", "makima"))
        samples = read_samples(name, x, y, axis)
        real_samples(samples, name)
        slopes = _akima_slopes(samples.x, samples.y, method == "makima")
        rows = hermite_rows(samples.x, samples.y, slopes)
        goes_on = False if extrapolate is None else extrapolate
        self._fill(where_valid(samples.valid, rows), samples.x, goes_on, samples.axis)


def _akima_slopes(x: Tensor, y: Tensor, modified: bool) -> Tensor:
    secant = (y[1:] - y[:-1]) / beside_rows(x[1:] - x[:-1], y)
    if x.shape[0] == 2:
        return fnp.concatenate([secant, secant])
    before, after = secant[0] - secant[1], secant[-1] - secant[-2]
    steps = [
        (secant[0] + 2.0 * before)[None],
        (secant[0] + before)[None],
        secant,
        (secant[-1] + after)[None],
        (secant[-1] + 2.0 * after)[None],
    ]
    slope = fnp.concatenate(steps)
    change = fnp.abs(slope[1:] - slope[:-1])
    if modified:
        change = change + 0.5 * fnp.abs(slope[1:] + slope[:-1])
    right, left = change[2:], change[:-2]
    total = right + left
    counts = total > _CUT * fnp.max(total, initial=0.0)
    share = left / fnp.where(counts, total, 1.0)
    mean = slope[1:-2] + share * (slope[2:-1] - slope[1:-2])
    return fnp.where(counts, mean, 0.5 * (slope[3:] + slope[:-3]))
