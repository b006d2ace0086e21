"""Integrate a differential equation by steps of adaptive size, and interpolate between their ends.

The input is a function ``slope(y, t)`` of lists of tensors, a start and times; the output is the
solution at those times. Derivatives treat the sizes of steps, and the times, as constants:
``solutions.py`` adds the derivative with respect to the times.

>>> import funcgrad as fg
>>> def slope(y, t):
...     return [-y[0]]
>>> start, times = [fg.tensor(1.0)], fg.tensor([0.0, 1.0])
>>> outcome = solved(slope, start, times, Settings(1e-6, 1e-6, 100, float("inf")))
>>> outcome.leaves[0], outcome.status
(Tensor([1.        , 0.36788]), Tensor(0))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add
from typing import NamedTuple, TypeAlias

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.scans import scan
from funcgrad._control.whiles import while_loop
from funcgrad._transforms.stop import stop_gradient
from funcgrad.integrate.dormand_prince import CONTINUATION, ERROR, NODES, ORDER, STAGES
from funcgrad.integrate.right_hand_side import real_dtype
from funcgrad.tensor.tensor import Tensor

Leaves: TypeAlias = list[Tensor]
RightHandSide: TypeAlias = Callable[[Leaves, Tensor], Leaves]

TOO_MANY, TOO_SMALL, DISORDER = 1, 2, 3
"""Failures: too many steps, too small steps, unsorted times. 0 is success."""

# The controller's constants come from DOPRI5 (Hairer, Nørsett and Wanner, section IV.2 of volume
# II, where it is derived): a small power of the previous error stabilizes the sizes.
SAFETY, MEMORY = 0.9, 0.04
LEAST_FACTOR, GREATEST_FACTOR = 0.2, 10.0

LEAST_ALLOWED, GREATEST_ERROR = 1e-30, 1e10
"""Bounds that keep the scaled error finite if the allowed error is 0, and its square finite."""


class Settings(NamedTuple):
    """The accuracy of a solution, and the bounds of its steps.

    Attributes
    ----------
    rtol, atol : float
    max_steps : int
        The maximum number of steps for the whole solution, refused steps included.
    hmax : float
        The maximum size of a step.
    """

    rtol: float
    atol: float
    max_steps: int
    hmax: float


class Outcome(NamedTuple):
    """The solutions at all times, and how the integration ended.

    Attributes
    ----------
    leaves : list of Tensor
        The solutions, with times along axis 0; NaN at later times after a failure.
    status : Tensor
        0, or the kind of failure.
    time : Tensor
        The last time that was reached.
    tried : Tensor
        The number of steps, refused steps included.
    """

    leaves: Leaves
    status: Tensor
    time: Tensor
    tried: Tensor


class State(NamedTuple):
    """The last accepted step, and the next step to try.

    Attributes
    ----------
    start, end : Tensor
        The times of the last step.
    size : Tensor
        The size of the next step, at least 0.
    before : Tensor
        The error of the last step.
    refused : Tensor
        Whether a greater size of the next step was refused.
    tried, status : Tensor
        The number of steps so far; 0, or the kind of failure.
    old, new : list of Tensor
        The solution at ``start`` and at ``end``.
    old_slope, new_slope : list of Tensor
        The slopes at ``start`` and at ``end``.
    bend : list of Tensor
        The coefficient of the quartic term of the solution between them.
    """

    start: Tensor
    end: Tensor
    size: Tensor
    before: Tensor
    refused: Tensor
    tried: Tensor
    status: Tensor
    old: Leaves
    new: Leaves
    old_slope: Leaves
    new_slope: Leaves
    bend: Leaves


def solved(f: RightHandSide, start: Leaves, times: Tensor, settings: Settings) -> Outcome:
    """Solve a differential equation from the first time to each of the others."""
    times = stop_gradient(times)
    turned = fnp.where(times[-1] < times[0], times[::-1], times)
    in_order = fnp.all(turned[1:] >= turned[:-1]) & fnp.all(fnp.isfinite(times))
    times = fnp.where(in_order, times, 0.0)
    first, last = times[0], times[-1]
    way = fnp.where(last < first, -1.0, 1.0).astype(times.dtype)
    slope = f(start, first)
    size = _first_size(f, start, slope, first, (last - first), settings)
    status = fnp.where(in_order, 0, DISORDER)
    none = fnp.zeros((), times.dtype)
    no_step = fnp.zeros((), status.dtype)
    bend = [fnp.zeros_like(leaf) for leaf in start]
    state = State(
        *(first, first, size, none + 1e-4, status < 0, no_step, status),
        *(start, start, slope, slope, bend),
    )

    def to_next(carry: tuple[object, ...], time: Tensor) -> tuple[tuple[object, ...], Leaves]:
        def goes_on(fields: tuple[object, ...]) -> Tensor:
            state = State(*fields)  # type: ignore[arg-type]  # loops are fastest with a plain tuple
            return (way * (time - state.end) > 0) & (state.status == 0)

        def step(fields: tuple[object, ...]) -> tuple[object, ...]:
            state = State(*fields)  # type: ignore[arg-type]  # as above
            return tuple(_tried(f, state, last, way, settings))

        carry = while_loop(goes_on, step, carry)
        state = State(*carry)  # type: ignore[arg-type]  # as above
        there = (way * (time - state.end) <= 0) & (state.status != DISORDER)
        # NaN is a factor, so that derivatives are NaN, too.
        known = fnp.where(there, 1.0, np.nan)
        return carry, [known.astype(real_dtype([y])) * y for y in _between(state, time)]

    carry, later_leaves = scan(to_next, tuple(state), times[1:])
    end = State(*carry)  # type: ignore[arg-type]  # as above
    leaves = [
        fnp.concatenate([leaf[None], later])
        for leaf, later in zip(start, later_leaves, strict=True)
    ]
    return Outcome(leaves, end.status, end.end, end.tried)


def stage_slopes(
    f: RightHandSide, y: Leaves, slope: Leaves, t: Tensor, step: Tensor
) -> tuple[Leaves, list[Leaves]]:
    """Compute one step: the solution at its end, and the slopes of all stages.

    ``y`` and ``slope`` belong to the start of the step; ``step`` has a sign. The last stage is the
    end of the step.
    """
    slopes = [slope]
    end = y
    for row, node in zip(STAGES, NODES, strict=True):
        end = [leaf + rise for leaf, rise in zip(y, _weighted(row, slopes, step), strict=True)]
        slopes.append(f(end, t + node * step))
    return end, slopes


def _weighted(weights: Sequence[float], slopes: Sequence[Leaves], step: Tensor) -> Leaves:
    """Return the size of a step times a weighted sum of slopes, for each leaf."""
    sums = []
    for leaf_slopes in zip(*slopes, strict=True):
        terms = [weight * k for weight, k in zip(weights, leaf_slopes, strict=True) if weight]
        total = reduce(add, terms)
        sums.append(step.astype(real_dtype([total])) * total)
    return sums


def _tried(f: RightHandSide, state: State, last: Tensor, way: Tensor, settings: Settings) -> State:
    """Try one more step, and return the new state."""
    remaining = last - state.end
    # The last step may be slightly longer than planned: this avoids a tiny step due to rounding.
    reaches = (1 + np.finfo(remaining.dtype).eps ** 0.5) * state.size >= abs(remaining)
    end = fnp.where(reaches, last, state.end + way * state.size)
    step = end - state.end  # the actual size, after rounding of the time
    new, slopes = stage_slopes(f, state.new, state.new_slope, state.end, step)
    error = _norm(_weighted(ERROR, slopes, step), state.new, new, settings, state.end.dtype)
    accepted = error <= 1.0  # false for NaN
    size = _next_size(abs(step), error, accepted, state)
    size = fnp.minimum(size, settings.hmax).astype(size.dtype)
    tried = state.tried + 1
    least = 10 * np.finfo(size.dtype).eps * abs(state.end)
    stays = ~reaches & (end == state.end)
    too_small = stays | (~accepted & ((size < least) | (size == 0)))
    too_many = (tried >= settings.max_steps) & ~(accepted & reaches)
    status = fnp.where(too_small, TOO_SMALL, fnp.where(too_many, TOO_MANY, state.status))

    def if_accepted(after: Leaves, before: Leaves) -> Leaves:
        return [fnp.where(accepted, x, y) for x, y in zip(after, before, strict=True)]

    return State(
        fnp.where(accepted, state.end, state.start),
        fnp.where(accepted, end, state.end),
        size,
        fnp.where(accepted, fnp.maximum(error, 1e-4), state.before),
        ~accepted,
        tried,
        status,
        if_accepted(state.new, state.old),
        if_accepted(new, state.new),
        if_accepted(state.new_slope, state.old_slope),
        if_accepted(slopes[-1], state.new_slope),
        if_accepted(_weighted(CONTINUATION, slopes, step), state.bend),
    )


def _next_size(size: Tensor, error: Tensor, accepted: Tensor, state: State) -> Tensor:
    """Return the size of the next step: greater if the error was small."""
    known = fnp.where(fnp.isfinite(error), error, GREATEST_ERROR)
    exponent = 1 / ORDER - 0.75 * MEMORY
    by_error = known**exponent / SAFETY
    smooth = fnp.clip(by_error / state.before**MEMORY, 1 / GREATEST_FACTOR, 1 / LEAST_FACTOR)
    smooth = fnp.where(state.refused, fnp.maximum(smooth, 1.0), smooth)
    return size / fnp.where(accepted, smooth, fnp.minimum(by_error, 1 / LEAST_FACTOR))


def _first_size(
    f: RightHandSide, y: Leaves, slope: Leaves, t: Tensor, length: Tensor, settings: Settings
) -> Tensor:
    """Choose the first size from y, y' and y'': Hairer, Nørsett and Wanner, section II.4."""
    dtype = t.dtype
    y, slope = stop_gradient(y), stop_gradient(slope)

    def norm(values: Leaves) -> Tensor:
        return _norm(values, y, y, settings, dtype)

    of_y, of_slope = norm(y), norm(slope)
    flat = (of_y < 1e-5) | (of_slope < 1e-5)
    size = fnp.where(flat, 1e-6, 0.01 * of_y / fnp.where(flat, 1.0, of_slope))
    size = fnp.minimum(size, abs(length))
    step = (fnp.where(length < 0, -1.0, 1.0) * size).astype(dtype)
    euler = [leaf + rise for leaf, rise in zip(y, _weighted([1.0], [slope], step), strict=True)]
    bend = [x - k for x, k in zip(stop_gradient(f(euler, t + step)), slope, strict=True)]
    of_bend = norm(bend) / fnp.where(size == 0, 1.0, size)
    greatest = fnp.maximum(of_slope, of_bend)
    straight = ~(greatest > 1e-15)
    by_bend = (0.01 / fnp.where(straight, 1.0, greatest)) ** (1 / ORDER)
    second = fnp.where(straight, fnp.maximum(1e-6, 1e-3 * size), by_bend)
    most = fnp.minimum(fnp.minimum(100 * size, second), settings.hmax)
    return fnp.where(fnp.isfinite(most), most, 1e-6).astype(dtype)


def _norm(
    values: Leaves, y: Leaves, new: Leaves, settings: Settings, dtype: np.dtype[np.generic]
) -> Tensor:
    """Return the root mean square of all elements, each divided by its allowed error."""
    total, count = fnp.zeros((), dtype), 0
    for value, a, b in zip(*map(stop_gradient, (values, y, new)), strict=True):
        allowed = settings.atol + settings.rtol * fnp.maximum(abs(a), abs(b)).astype(dtype)
        scaled = abs(value).astype(dtype) / fnp.maximum(allowed, LEAST_ALLOWED)
        total = total + fnp.sum(fnp.minimum(scaled, GREATEST_ERROR) ** 2)
        count += value.size
    return fnp.sqrt(total / max(count, 1))


def _between(state: State, time: Tensor) -> Leaves:
    """Interpolate the solution at a time within the last step (DOPRI5's function CONTD5)."""
    length = state.end - state.start
    fraction = (time - state.start) / fnp.where(length == 0, 1.0, length)
    leaves = []
    for y, new, k, last, bend in zip(
        state.old, state.new, state.old_slope, state.new_slope, state.bend, strict=True
    ):
        real = real_dtype([y])
        theta, complement, h = [x.astype(real) for x in (fraction, 1 - fraction, length)]
        rise = new - y
        first = h * k - rise
        second = rise - h * last - first
        leaves.append(
            y + theta * (rise + complement * (first + theta * (second + complement * bend)))
        )
    return leaves
