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
from typing import Any, NamedTuple

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.scans import scan
from funcgrad._control.whiles import while_loop
from funcgrad._core import pytrees
from funcgrad._transforms.stop import stop_gradient
from funcgrad.integrate.explicit_pairs import RK45
from funcgrad.integrate.right_hand_side import real_dtype
from funcgrad.integrate.step_methods import (
    GREATEST_ERROR,
    Attempt,
    Counts,
    Leaves,
    OdeEquation,
    RightHandSide,
    Settings,
    StepMethod,
    StepStart,
    TakenStep,
    equation_of,
    plus,
    weighted,
)
from funcgrad.tensor.tensor import Tensor

TOO_MANY, TOO_SMALL, DISORDER = 1, 2, 3
"""Failures: too many steps, too small steps, unsorted times. 0 is success."""

# The controller's constants come from DOPRI5 (Hairer, Nørsett and Wanner, section IV.2 of volume
# II, where it is derived): a small power of the previous error stabilizes the sizes.
SAFETY, MEMORY = 0.9, 0.2
LEAST_FACTOR, GREATEST_FACTOR = 0.2, 10.0


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
    counts : Counts or None
        The work of all steps, for methods that count it.
    """

    leaves: Leaves
    status: Tensor
    time: Tensor
    tried: Tensor
    counts: Counts | None = None


class Scheme(NamedTuple):
    """How a differential equation is solved, beside the accuracy.

    Attributes
    ----------
    method : StepMethod
    jacobian : callable, optional
        ``jacobian(y, t, parameters)``; see `OdeEquation`.
    mass : Tensor, optional
        The mass matrix.
    last : Tensor, optional
        The time beyond which no step goes: without it the last of the times.
    name : str
        The function that the user called, for errors.
    """

    method: StepMethod = RK45
    jacobian: Callable[..., Any] | None = None
    mass: Any = None
    last: Tensor | None = None
    name: str = "odeint"


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
    dense : list of lists of Tensor
        The coefficients of the interpolation between them.
    memory : pytree of Tensor
        The memory of the method.
    counts : Counts or None
        The work so far, for methods that count it.
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
    dense: Sequence[Leaves]
    memory: Any
    counts: Counts | None


class Way(NamedTuple):
    """The end of an integration, and the sign of its steps."""

    last: Tensor
    sign: Tensor

    def before(self, state: State, time: Tensor) -> Tensor:
        """Whether a time lies after the last step."""
        return self.sign * (time - state.end) > 0


def solved(
    f: RightHandSide,
    start: Leaves,
    times: Tensor,
    settings: Settings,
    scheme: Scheme = Scheme(),  # noqa: B008  # a constant
    jacobian: Callable[[Leaves, Tensor], Any] | None = None,
) -> Outcome:
    """Solve a differential equation from the first time to each of the others."""
    method, times = scheme.method, stop_gradient(times)
    last = times[-1] if scheme.last is None else stop_gradient(scheme.last)
    turned = fnp.where(last < times[0], times[::-1], times)
    in_order = fnp.all(turned[1:] >= turned[:-1]) & fnp.all(fnp.isfinite(times))
    if scheme.last is not None:
        in_order = in_order & (abs(times[-1] - times[0]) <= abs(last - times[0]))
    times = fnp.where(in_order, times, 0.0)
    equation = equation_of(f, settings, times.dtype, jacobian, scheme.mass)
    last = times[-1] if scheme.last is None else fnp.where(in_order, last, 0.0)
    way, state = begun(method, equation, start, times[0], last, fnp.where(in_order, 0, DISORDER))

    def to_next(carry: tuple[object, ...], time: Tensor) -> tuple[tuple[object, ...], Leaves]:
        def goes_on(fields: tuple[object, ...]) -> Tensor:
            state = State(*fields)  # type: ignore[arg-type]  # loops are fastest with a plain tuple
            return way.before(state, time) & (state.status == 0)

        def step(fields: tuple[object, ...]) -> tuple[object, ...]:
            state = State(*fields)  # type: ignore[arg-type]  # as above
            return tuple(tried(method, equation, state, way))

        carry = while_loop(goes_on, step, carry, settings.checkpoints)
        state = State(*carry)  # type: ignore[arg-type]  # as above
        there = (way.sign * (time - state.end) <= 0) & (state.status != DISORDER)
        # NaN is a factor, so that derivatives are NaN, too.
        known = fnp.where(there, 1.0, np.nan)
        return carry, [known.astype(real_dtype([y])) * y for y in between(method, state, time)]

    carry, later_leaves = scan(to_next, tuple(state), times[1:])
    end = State(*carry)  # type: ignore[arg-type]  # as above
    at_start = in_order & (times[1:] == times[0])  # known, even if the slope there is NaN
    leaves = [
        fnp.concatenate([leaf[None], fnp.where(along_times(at_start, later), leaf, later)])
        for leaf, later in zip(start, later_leaves, strict=True)
    ]
    return Outcome(leaves, end.status, end.end, end.tried, end.counts)


def along_times(flags: Tensor, leaf: Tensor) -> Tensor:
    """A flag for each time, in a shape that fits solutions with the times along axis 0."""
    return fnp.reshape(flags, (-1, *[1] * (leaf.ndim - 1)))


def begun(
    method: StepMethod,
    equation: OdeEquation,
    start: Leaves,
    first: Tensor,
    last: Tensor,
    status: Tensor,
) -> tuple[Way, State]:
    """The state before the first step."""
    dtype = equation.dtype
    sign = fnp.where(last < first, -1.0, 1.0).astype(dtype)
    slope = equation.f(start, first)
    size = _first_size(method, equation, start, slope, first, last - first)
    none = fnp.zeros((), dtype)
    no_step = fnp.zeros((), status.dtype)
    dense = [[fnp.zeros_like(leaf) for leaf in start] for _ in range(method.dense_count)]
    memory, counts = method.begin(equation, StepStart(start, slope, first, size))
    state = State(
        *(first, first, size, none + 1e-4, status < 0, no_step, status),
        *(start, start, slope, slope, dense, memory, None),
    )
    if method.evaluations is None:
        total = counts.plus(Counts(1 if equation.settings.first else 2))
        state = state._replace(counts=Counts(*[no_step + count for count in total]))
    return Way(last, sign), state


def tried(method: StepMethod, equation: OdeEquation, state: State, way: Way) -> State:
    """Try one more step, and return the new state."""
    remaining = way.last - state.end
    # The last step may be slightly longer than planned: this avoids a tiny step due to rounding.
    reaches = (1 + np.finfo(remaining.dtype).eps ** 0.5) * state.size >= abs(remaining)
    end = fnp.where(reaches, way.last, state.end + way.sign * state.size)
    step = end - state.end  # the actual size, after rounding of the time
    at = StepStart(state.new, state.new_slope, state.end, step)
    attempt = method.attempt(equation, at, state.memory)
    error = attempt.error
    accepted = error <= 1.0  # false for NaN
    size = _next_size(method, abs(step), accepted, state, attempt)
    size = fnp.minimum(size, equation.settings.hmax).astype(size.dtype)
    tried = state.tried + 1
    least = 10 * np.finfo(size.dtype).eps * abs(state.end)
    stays = ~reaches & (end == state.end)
    too_small = stays | (~accepted & ((size < least) | (size == 0)))
    too_many = (tried >= equation.settings.max_steps) & ~(accepted & reaches)
    status = fnp.where(too_small, TOO_SMALL, fnp.where(too_many, TOO_MANY, state.status))

    def if_accepted(after: Any, before: Any) -> Any:
        return pytrees.map(lambda x, y: fnp.where(accepted, x, y), after, before)

    counts = None
    if state.counts is not None and attempt.counts is not None:
        counts = state.counts.plus(attempt.counts)
    return State(
        fnp.where(accepted, state.end, state.start),
        fnp.where(accepted, end, state.end),
        size,
        fnp.where(accepted, fnp.maximum(error, 1e-4), state.before),
        ~accepted,
        tried,
        status,
        if_accepted(state.new, state.old),
        if_accepted(attempt.new, state.new),
        if_accepted(state.new_slope, state.old_slope),
        if_accepted(attempt.slope, state.new_slope),
        if_accepted(list(attempt.dense), state.dense),
        if_accepted(attempt.memory, attempt.refused_memory),
        counts,
    )


def _next_size(
    method: StepMethod, size: Tensor, accepted: Tensor, state: State, attempt: Attempt
) -> Tensor:
    """Return the size of the next step: greater if the error was small."""
    error = attempt.error
    known = fnp.where(fnp.isfinite(error), error, GREATEST_ERROR)
    memory = MEMORY / (method.order + 1)
    by_error = known ** (1 / (method.order + 1) - 0.75 * memory) / SAFETY
    smooth = fnp.clip(by_error / state.before**memory, 1 / GREATEST_FACTOR, 1 / LEAST_FACTOR)
    smooth = fnp.where(state.refused, fnp.maximum(smooth, 1.0), smooth)
    controlled = size / fnp.where(accepted, smooth, fnp.minimum(by_error, 1 / LEAST_FACTOR))
    if attempt.factor is None:
        return controlled
    chosen = size * attempt.factor.astype(size.dtype)
    return fnp.where(fnp.isnan(chosen), controlled, chosen)


def _first_size(
    method: StepMethod, equation: OdeEquation, y: Leaves, slope: Leaves, t: Tensor, length: Tensor
) -> Tensor:
    """Choose the first size from y, y' and y'': Hairer, Nørsett and Wanner, section II.4."""
    dtype, settings = t.dtype, equation.settings
    if settings.first is not None:
        return fnp.minimum(settings.first, abs(length)).astype(dtype)
    y, slope = stop_gradient(y), stop_gradient(slope)
    scale = equation.scale(y, y)
    of_y, of_slope = equation.norm(y, scale), equation.norm(slope, scale)
    flat = (of_y < 1e-5) | (of_slope < 1e-5)
    size = fnp.where(flat, 1e-6, 0.01 * of_y / fnp.where(flat, 1.0, of_slope))
    size = fnp.minimum(size, abs(length))
    step = (fnp.where(length < 0, -1.0, 1.0) * size).astype(dtype)
    euler = plus(y, weighted([1.0], [slope], step))
    there = stop_gradient(equation.f(euler, t + step))
    bend = [x - k for x, k in zip(there, slope, strict=True)]
    of_bend = equation.norm(bend, scale) / fnp.where(size == 0, 1.0, size)
    greatest = fnp.maximum(of_slope, of_bend)
    straight = ~(greatest > 1e-15)
    by_bend = (0.01 / fnp.where(straight, 1.0, greatest)) ** (1 / (method.order + 1))
    second = fnp.where(straight, fnp.maximum(1e-6, 1e-3 * size), by_bend)
    most = fnp.minimum(fnp.minimum(100 * size, second), settings.hmax)
    return fnp.where(fnp.isfinite(most), most, 1e-6).astype(dtype)


def between(method: StepMethod, state: State, time: Tensor) -> Leaves:
    """Interpolate the solution at a time within the last step."""
    length = state.end - state.start
    theta = (time - state.start) / fnp.where(length == 0, 1.0, length)
    ends = state.old, state.new, state.old_slope, state.new_slope
    return method.between(TakenStep(*ends, state.dense, length), theta)
