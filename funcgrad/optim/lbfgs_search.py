"""How far to go along a line: a bracket, then a zoom into it, until Wolfe's strong conditions hold.

>>> from funcgrad.tensor.tensor import tensor
>>> def along(rate):  # f(x) = (x - 3)², from x = 0 along 1
...     return (rate - 3.0) ** 2, 2.0 * (rate - 3.0), 2.0 * (rate - 3.0)
>>> start = LinePlace(tensor(0.0), tensor(9.0), tensor(-6.0))
>>> low, _, evaluations = searched(along, start, tensor(-6.0), Conditions(1e-4, 0.1, 1e-15, 20))
>>> low.rate, evaluations
(Tensor(3.0), Tensor(2))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import funcgrad.numpy as fnp
from funcgrad._control.choices import cond
from funcgrad._control.whiles import while_loop
from funcgrad._core.users_values import ArrayLike
from funcgrad.tensor.tensor import Tensor, tensor


class LinePlace(NamedTuple):
    """A place on the line: its distance from the start, the value and the slope there."""

    rate: Tensor
    value: Tensor
    slope: Tensor


class Conditions(NamedTuple):
    """When a search ends.

    ``decrease`` and ``curvature`` are the numbers of Wolfe's conditions; ``noise`` is the rounding
    of a value, relative to it; ``evaluations`` is the greatest number of evaluations.
    """

    decrease: ArrayLike
    curvature: ArrayLike
    noise: float
    evaluations: int


class _Search(NamedTuple):
    """The best place so far and the gradient there, the other end, and the next rate to try.

    The rate of the other end is infinite as long as the other end is unknown.
    """

    low: LinePlace
    gradient: Tensor
    high: LinePlace
    rate: Tensor
    evaluations: Tensor
    is_met: Tensor


def searched(
    along: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]],
    start: LinePlace,
    gradient: Tensor,
    conditions: Conditions,
) -> tuple[LinePlace, Tensor, Tensor]:
    """Look along a line for a place that satisfies Wolfe's strong conditions; first at rate 1.

    Parameters
    ----------
    along : callable
        From a rate to the value, the slope and the gradient there.
    start : LinePlace
        Rate 0. Where its value or slope is not finite or its slope not below 0, nothing is
        evaluated.
    gradient : Tensor
        The gradient at the start.
    conditions : Conditions

    Returns
    -------
    low : LinePlace
        The best place; the start if none is better.
    gradient : Tensor
        The gradient there.
    evaluations : Tensor of int64

    Notes
    -----
    Nocedal, Wright, "Numerical optimization", 2006, algorithms 3.5 and 3.6, as one loop: as long as
    the other end is unknown, the next rate lies beyond the last. The limits of extrapolation are
    from Moré, Thuente, "Line search algorithms with guaranteed sufficient decrease", ACM TOMS 20,
    1994. Values that differ only by rounding are taken for equal, so that slopes decide, as Hager
    and Zhang, "A new conjugate gradient method with guaranteed descent", SIAM J. Optim. 16, 2005,
    do near a minimum. A rate whose value is infinite or NaN is too long.
    """
    noise = conditions.noise * abs(start.value)

    def is_open(search: _Search) -> Tensor:
        return ~search.is_met & (search.evaluations < conditions.evaluations)

    def tried(search: _Search) -> _Search:
        rate, low, high = search.rate, search.low, search.high
        value, slope, gradient = along(rate)
        trial = LinePlace(rate, value, slope)
        most = start.value + conditions.decrease * rate * start.slope
        is_lower = fnp.isfinite(value) & fnp.isfinite(slope)
        is_lower = is_lower & (value <= fnp.minimum(most, low.value) + noise)
        is_met = is_lower & (abs(slope) <= -conditions.curvature * start.slope)
        has_turned = fnp.where(high.rate > low.rate, slope >= 0.0, slope <= 0.0)
        high = _chosen(is_lower, _chosen(has_turned, low, high), trial)
        nearest = _chosen(is_lower, trial, low)
        return _Search(
            nearest,
            _either(is_lower, gradient, search.gradient),
            high,
            _next_rate(nearest, high, low),
            search.evaluations + 1,
            is_met,
        )

    can_descend = fnp.isfinite(start.value) & fnp.isfinite(start.slope) & (start.slope < 0.0)
    nowhere = LinePlace(tensor(fnp.inf), tensor(fnp.inf), tensor(0.0))
    first = _Search(start, gradient, nowhere, tensor(1.0), tensor(0), ~can_descend)
    last = while_loop(is_open, tried, first)
    is_better = last.is_met | (last.low.value < start.value)
    gradient = _either(is_better, last.gradient, gradient)
    return _chosen(is_better, last.low, start), gradient, last.evaluations


def _either(which: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """One of two vectors, without the copy that ``where`` makes."""
    return cond(which, lambda x, _: x, lambda _, y: y, first, second)


def _chosen(which: Tensor, first: LinePlace, second: LinePlace) -> LinePlace:
    return LinePlace(*(fnp.where(which, x, y) for x, y in zip(first, second, strict=True)))


def _next_rate(low: LinePlace, high: LinePlace, before: LinePlace) -> Tensor:
    """The next rate to try: a cubic polynomial's minimum, in the middle of the bracket or beyond.

    Without another end it lies beyond ``low`` by 0.1 to 4 times the way from the best place before.
    """
    is_closed = fnp.isfinite(high.rate)
    other = _chosen(is_closed, high, before)
    width = other.rate - low.rate
    share, is_known = _minimum_of_cubic(low, other, width)
    inside = fnp.where(is_known, fnp.clip(share, 0.1, 0.9), 0.5)
    beyond = fnp.where(is_known & (share < 0.0), fnp.clip(share, -4.0, -0.1), -4.0)
    return low.rate + fnp.where(is_closed, inside, beyond) * width


def _minimum_of_cubic(low: LinePlace, other: LinePlace, width: Tensor) -> tuple[Tensor, Tensor]:
    """Where a cubic polynomial with the values and slopes of two places has its minimum.

    The first result is a share of the way from ``low`` to ``other``, the second whether there is a
    minimum.
    """
    is_known = fnp.isfinite(other.value) & fnp.isfinite(other.slope) & (width != 0.0)
    width = fnp.where(is_known, width, 1.0)
    here, there = low.slope, fnp.where(is_known, other.slope, 1.0)
    chord = (fnp.where(is_known, other.value, low.value) - low.value) / width
    middle = here + there - 3.0 * chord
    size = fnp.maximum(abs(middle), fnp.maximum(abs(here), abs(there)))
    size = fnp.where(size > 0.0, size, 1.0)
    middle, here, there = middle / size, here / size, there / size
    square = middle * middle - here * there
    has_root = square > 0.0  # where it has none, neither has the root a derivative
    root = fnp.where(has_root, fnp.sign(width) * fnp.sqrt(fnp.where(has_root, square, 1.0)), 0.0)
    bottom = there - here + 2.0 * root
    is_known = is_known & (square >= 0.0) & (bottom != 0.0)
    return 1.0 - (there + root - middle) / fnp.where(is_known, bottom, 1.0), is_known
