"""Functions of samples: interpolation, derivatives, phases.

>>> interp(2.5, [1.0, 2.0, 3.0], [3.0, 2.0, 0.0])
Tensor(1.0)
"""

from __future__ import annotations

from math import pi
from typing import Any, SupportsIndex

import numpy as np

from funcgrad._core.specs import AxisLike, normalize_axes, normalize_axis
from funcgrad._core.users_values import operand
from funcgrad._hints.lookup import answering
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from funcgrad.numpy.arithmetic import absolute
from funcgrad.numpy.creation import asarray, astype, zeros
from funcgrad.numpy.indexing import take
from funcgrad.numpy.joining import concatenate
from funcgrad.numpy.logic import isfinite, isnan
from funcgrad.numpy.options import common_dtype, integer
from funcgrad.numpy.rounding import rint
from funcgrad.numpy.running import cumsum, diff
from funcgrad.numpy.selection import clip, where
from funcgrad.numpy.sorting import argsort, searchsorted
from funcgrad.tensor.tensor import ArrayLike, Tensor


def interp(
    x: ArrayLike,
    xp: ArrayLike,
    fp: ArrayLike,
    left: ArrayLike | None = None,
    right: ArrayLike | None = None,
    period: ArrayLike | None = None,
) -> Tensor:
    """Interpolate linearly between samples; all arguments are differentiable.

    At a sample the derivative with respect to ``x`` is the slope to its right; at the last sample
    and outside the samples it is 0.

    Parameters
    ----------
    x : array_like
        The points of evaluation; real.
    xp : array_like, shape (n,)
        The points of the samples; ascending, unless there is a period.
    fp : array_like, shape (n,)
        The samples, real or complex.
    left, right : number, optional
        The values before the first and behind the last sample; by default those samples.
    period : number, optional
        The period of the points, not 0; then ``left`` and ``right`` are ignored.

    Returns
    -------
    Tensor
        In float64 or complex128, of the shape of ``x``.

    Raises
    ------
    ShapeError
        There are points and no samples, or ``xp`` and ``fp`` differ in length.
    ArgumentError
        The period is 0.

    Examples
    --------
    >>> import funcgrad as fg
    >>> interp([0.0, 2.0, 4.5], [1.0, 2.0, 3.0], [3.0, 2.0, 0.0])
    Tensor([3., 2., 0.])
    >>> fg.grad(interp)(2.5, [1.0, 2.0, 3.0], [3.0, 2.0, 0.0])
    Tensor(-2.0)
    """
    points, places = (_real(a, "interp", n) for a, n in ((x, "x"), (xp, "xp")))
    heights = asarray(operand(fp, "interp"))
    heights = astype(heights, np.complex128 if heights.dtype.kind == "c" else np.float64)
    is_nothing = not (places.size or points.size)  # an error before NumPy 2.5
    if places.ndim != 1 or places.shape != heights.shape or not (places.size or is_nothing):
        raise ShapeError(
            f"interp: xp and fp have to be sequences of one length, and not empty; their shapes are"
            f" {places.shape} and {heights.shape}."
        )
    if period is not None:
        points, places, heights = _repeated(points, places, heights, period)
        left = right = None
    if is_nothing:
        return zeros(points.shape, heights.dtype)
    top = places.size - 1
    place = searchsorted(places, points, "right") - 1
    low = clip(place, 0, top - 1) if top else place * 0
    start, slope = take(heights, low), _slopes(places, heights, low) if top else 0.0
    offset = where(place < top, points - take(places, low), 0.0)
    slope = where(isfinite(slope) | (offset != 0), slope, 0.0)  # an infinite slope
    inside = start + slope * offset
    inside = where(place >= top, heights[-1], inside)
    first, last = (heights[k] if a is None else a for k, a in ((0, left), (-1, right)))
    result = where(points < places[0], first, where(points > places[-1], last, inside))
    result = where(isnan(points), points, result)
    return astype(result, np.complex128 if result.dtype.kind == "c" else np.float64)


def _real(x: ArrayLike, operation: str, argument: str) -> Tensor:
    value = asarray(operand(x, operation))
    if value.dtype.kind == "c":
        raise DtypeError(f"{operation}: {argument} has to be real, not of {value.dtype}.")
    return astype(value, np.float64)


def _slopes(places: Tensor, heights: Tensor, low: Tensor) -> Tensor:
    """The slopes from the samples at ``low`` to the next ones."""
    rise = take(heights, low + 1) - take(heights, low)
    run = take(places, low + 1) - take(places, low)
    # Equal positions have no slope between them.
    return rise / where(run == 0, 1.0, run)


def _repeated(
    points: Tensor, places: Tensor, heights: Tensor, period: ArrayLike
) -> tuple[Tensor, Tensor, Tensor]:
    """Points in one period, and the samples of one period with a neighbour on both sides."""
    length = absolute(_real(period, "interp", "period"))
    if length.ndim or (length._trace is None and not length):
        raise ArgumentError(f"interp: the period has to be a nonzero number, not {period!r}.")
    points, places = points % length, places % length
    order = argsort(places)
    places, heights = take(places, order), take(heights, order)
    return (
        points,
        concatenate((places[-1:] - length, places, places[:1] + length)),
        concatenate((heights[-1:], heights, heights[:1])),
    )


@answering
def gradient(
    f: ArrayLike, *varargs: ArrayLike, axis: AxisLike = None, edge_order: SupportsIndex = 1
) -> Any:
    """The slopes of samples, by differences of second order; all arguments are differentiable.

    Parameters
    ----------
    f : array_like
        The samples; at least ``edge_order + 1`` along each of the axes.
    *varargs : array_like
        The spacing of samples: one number for all axes, or for each axis a number or the
        coordinates. By default 1.
    axis : int, sequence of int, or None
        None means all axes.
    edge_order : {1, 2}
        The order of the differences at both ends.

    Returns
    -------
    Tensor, or tuple of Tensor
        One for each axis.

    Raises
    ------
    ShapeError
        There are too few samples, or coordinates that do not fit.
    ArgumentError
        ``edge_order`` is neither 1 nor 2, or the number of distances does not fit.

    Notes
    -----
    Inside, slopes are exact for parabolas, also for uneven coordinates (B. Fornberg, Generation of
    Finite Difference Formulas on Arbitrarily Spaced Grids, 1988).

    Examples
    --------
    >>> gradient([1.0, 4.0, 9.0, 16.0])
    Tensor([3., 4., 6., 7.])
    """
    samples = asarray(operand(f, "gradient"))
    axes = normalize_axes(axis, samples.ndim, "gradient")
    order = integer(edge_order, "gradient", "edge_order")
    if order not in (1, 2):
        raise ArgumentError(f"gradient: edge_order has to be 1 or 2, not {order}.")
    if len(varargs) not in (0, 1, len(axes)):
        raise ArgumentError(
            f"gradient: {len(varargs)} distances do not fit {len(axes)} axes: give one, or one for"
            " each."
        )
    widths = varargs * len(axes) if len(varargs) == 1 else varargs or (1.0,) * len(axes)
    dtype = samples.dtype if samples.dtype.kind in "fc" else np.dtype(np.float64)
    slopes = []
    for along, width in zip(axes, widths, strict=True):
        if samples.shape[along] <= order:
            raise ShapeError(
                f"gradient: at least {order + 1} samples are needed along axis {along} of"
                f" {samples.shape}, for edge_order={order}."
            )
        front = samples.astype(dtype).swapaxes(0, along)
        gaps = _gaps(width, front.shape[0], along).reshape((-1,) + (1,) * (front.ndim - 1))
        slopes.append(astype(_slopes_of(front, gaps, order), dtype).swapaxes(0, along))
    return slopes[0] if len(slopes) == 1 else tuple(slopes)


def _gaps(width: ArrayLike, count: int, axis: int) -> Tensor:
    """The distances of neighbours along an axis: one for all, or one for each pair."""
    distance = asarray(operand(width, "gradient"))
    if not distance.ndim:
        return distance
    if distance.shape != (count,):
        raise ShapeError(
            f"gradient: coordinates of the shape {distance.shape} do not fit {count} samples along"
            f" axis {axis}."
        )
    return diff(distance if distance.dtype.kind in "fc" else astype(distance, np.float64))


def _slopes_of(f: Tensor, gaps: Tensor, order: int) -> Tensor:
    """The slopes of samples along the first axis."""
    even = gaps.shape[0] == 1
    before, after = (gaps, gaps) if even else (gaps[:-1], gaps[1:])
    ends = (gaps[:1], gaps[-1:])
    if order == 1:
        first, last = (f[1:2] - f[:1]) / ends[0], (f[-1:] - f[-2:-1]) / ends[1]
    else:
        first = _at_end(f[0:1], f[1:2], f[2:3], ends[0], gaps[:1] if even else gaps[1:2])
        last = -_at_end(f[-1:], f[-2:-1], f[-3:-2], ends[1], gaps[:1] if even else gaps[-2:-1])
    if even:
        inside = (f[2:] - f[:-2]) / (2.0 * gaps)
    else:
        both = before + after
        inside = (
            -after / (before * both) * f[:-2]
            + (after - before) / (before * after) * f[1:-1]
            + before / (after * both) * f[2:]
        )
    return concatenate((first, inside, last))


def _at_end(f0: Tensor, f1: Tensor, f2: Tensor, near: Tensor, far: Tensor) -> Tensor:
    """The slope at the first of three samples, of second order."""
    both = near + far
    return (
        -(2.0 * near + far) / (near * both) * f0
        + both / (near * far) * f1
        - near / (far * both) * f2
    )


@answering
def unwrap(
    p: ArrayLike,
    discont: ArrayLike | None = None,
    axis: SupportsIndex = -1,
    *,
    period: ArrayLike = 2 * pi,
) -> Tensor:
    """Remove jumps of phases: add whole periods where neighbours are too far apart.

    The derivative with respect to ``p`` is 1, and with respect to ``period`` the number of added
    periods.

    Parameters
    ----------
    p : array_like
        Real, with at least one axis.
    discont : number, optional
        The threshold below which jumps stay; by default, and at least, half a period.
    axis : int
    period : number

    Returns
    -------
    Tensor

    Examples
    --------
    >>> unwrap([0.0, 1.0, 5.5], period=6.0)
    Tensor([ 0. ,  1. , -0.5])
    """
    phases = asarray(operand(p, "unwrap"))
    along = normalize_axis(axis, phases.ndim, "unwrap")
    length = operand(period, "unwrap")
    steps = diff(phases, axis=along)
    dtype = common_dtype(steps, length)
    if dtype.kind not in "iuf":
        raise DtypeError(f"unwrap: phases and period have to be real, not of {dtype}.")
    half, odd = divmod(length, 2) if dtype.kind in "iu" else (length / 2, False)
    within = (steps + half) % length - half
    if not odd:  # ties go to the period in the direction of the step
        within = where((within == -half) & (steps > 0), half, within)
    least = half if discont is None else operand(discont, "unwrap")
    added = where(absolute(steps) < least, 0, within - steps)
    if dtype.kind == "f":  # the number of periods is a constant
        total = astype(cumsum(rint(added / length), along), dtype) * length
    else:
        total = cumsum(added, along)
    first = phases.swapaxes(0, along)
    parts = first[:1], first[1:] + total.swapaxes(0, along)
    return astype(concatenate(parts), dtype).swapaxes(0, along)
