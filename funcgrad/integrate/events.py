"""Events of a solution: where functions of the time and of the solution pass zero.

The loop stops at nothing: after each step it looks whether a function has changed its sign, and
finds the zero on the interpolation of that step by a bracket that shrinks to neighbouring floats.
Here times are constants; ``event_time`` gives them their derivatives, by the implicit function
theorem: g(t, y(t)) = 0 gives dt = -dg / (∂g/∂t + ∂g/∂y y').

>>> theta = _crossing(lambda x: x * x - 0.25, fnp.asarray(-0.25), fnp.asarray(0.75), True)
>>> float(theta)
0.5
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._control.carry import placed
from funcgrad._control.choices import cond
from funcgrad._control.whiles import while_loop
from funcgrad._core.users_values import described
from funcgrad._transforms.arguments import is_whole
from funcgrad._transforms.batch import vmap
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ArgumentError, DtypeError, FunctionError, ShapeError
from funcgrad.implicit.roots import custom_root
from funcgrad.integrate.explicit_pairs import RK45
from funcgrad.integrate.step_methods import Leaves, OdeEquation, RightHandSide
from funcgrad.integrate.steps import Scheme, State, Way, begun, between, tried
from funcgrad.tensor.tensor import Tensor

_SHORTLY: Final = 2.0**-10
"""The place in a step where an event's function shows its sign if it is 0 at the start."""

Condition = Callable[[Tensor, Leaves], Tensor]
"""A function whose zeros are events: ``(t, y) -> number``."""


@dataclass(frozen=True, slots=True)
class Event:
    """A function of the time and the solution; an event happens where it crosses zero.

    Parameters
    ----------
    fun : callable
        ``fun(t, y, *args)`` returns one real number.
    terminal : bool or int
        Whether the integration ends at the event; an integer n ends it at the n-th event.
    direction : float
        Positive: only where the function crosses zero from below, in the direction of integration;
        negative: only from above; 0: both.

    Examples
    --------
    >>> import funcgrad as fg
    >>> ground = fg.integrate.Event(lambda t, y: y[0], terminal=True, direction=-1)
    >>> fall = lambda t, y: (y[1], -9.81)
    >>> sol = fg.integrate.solve_ivp(fall, (0.0, 9.0), (10.0, 0.0), events=ground)
    >>> sol.t_events[0], sol.message
    (Tensor([1.42784...]), 'A termination event occurred.')
    """

    fun: Callable[..., Any]
    terminal: bool | int = False
    direction: float = 0.0

    @classmethod
    def read(cls, value: Any) -> Event:
        """Make an event of a user's function, which may have the attributes of SciPy's events.

        Raises
        ------
        FunctionError, ArgumentError
            It is not callable, or an attribute is not allowed.
        """
        if not isinstance(value, Event):
            if not callable(value):
                raise placed(
                    FunctionError, f"solve_ivp: events are functions, got {described(value)}."
                )
            attributes = [getattr(value, name, 0) for name in ("terminal", "direction")]
            value = cls(value, *attributes)
        terminal, direction = value.terminal, value.direction
        if not isinstance(terminal, bool | np.bool_) and (not is_whole(terminal) or terminal < 0):
            raise placed(
                ArgumentError,
                "solve_ivp: terminal of an event has to be a truth value or a number of events,"
                f" got {terminal!r}.",
            )
        if not isinstance(direction, int | float | np.number) or direction != direction:
            raise placed(
                ArgumentError,
                f"solve_ivp: direction of an event has to be a number, got {direction!r}.",
            )
        return cls(value.fun, int(terminal), float(np.sign(direction)))


def number_of(value: Any, dtype: np.dtype[Any]) -> Tensor:
    """Check the result of an event's function, and return it.

    Raises
    ------
    ShapeError, DtypeError
        It is not one real number.
    """
    value = fnp.asarray(value)
    if value.size != 1:
        raise placed(
            ShapeError,
            f"solve_ivp: the function of an event has to return one number, got shape"
            f" {value.shape}.",
        )
    if value.dtype.kind not in "biuf":
        raise placed(
            DtypeError,
            f"solve_ivp: the function of an event has to return a real number, got {value.dtype}.",
        )
    return fnp.reshape(value, ()).astype(dtype)


class Happened(NamedTuple):
    """The events of a solution; times are constants.

    Attributes
    ----------
    times : list of Tensor
        For each event its times, a vector; the last time of the solution beyond the number.
    counts : list of Tensor
        For each event the number of times, which may be greater than the length of the vector.
    stop : Tensor
        The time at which the integration ends.
    stopped : Tensor
        Whether an event has ended it.
    """

    times: list[Tensor]
    counts: list[Tensor]
    stop: Tensor
    stopped: Tensor


class _Noted(NamedTuple):
    signs: list[Tensor]
    times: list[Tensor]
    counts: list[Tensor]
    stop: Tensor
    stopped: Tensor


def happened(
    equation: OdeEquation,
    start: Leaves,
    span: tuple[Tensor, Tensor],
    scheme: Scheme,
    events: Sequence[tuple[Event, Condition]],
    most: int,
) -> Happened:
    """Integrate, and note the times of events, at most ``most`` of each."""
    first, last = span
    way, state = begun(scheme.method, equation, start, first, last, fnp.asarray(0))
    values = [condition(first, start) for _, condition in events]
    buffer = fnp.full((most,), np.nan, equation.dtype)
    none = fnp.zeros((), int)
    watch = _Noted(values, [buffer for _ in events], [none for _ in events], last, none > 0)

    def goes_on(fields: tuple[Any, Any]) -> Tensor:
        state, watch = State(*fields[0]), _Noted(*fields[1])
        return way.before(state, last) & (state.status == 0) & ~watch.stopped

    def step(fields: tuple[Any, Any]) -> tuple[Any, Any]:
        state, watch = State(*fields[0]), _Noted(*fields[1])
        state = tried(scheme.method, equation, state, way)
        return tuple(state), tuple(_watched(scheme, state, way, watch, events))

    ended, noted = while_loop(goes_on, step, (tuple(state), tuple(watch)))
    state, watch = State(*ended), _Noted(*noted)
    stop = fnp.where(watch.stopped, watch.stop, last)
    known = [fnp.where(fnp.isnan(times), stop, times) for times in watch.times]
    return Happened(known, watch.counts, stop, watch.stopped)


def _watched(
    scheme: Scheme, state: State, way: Way, watch: _Noted, events: Sequence[tuple[Event, Condition]]
) -> _Noted:
    """Look for events in the last step, and note them."""
    accepted = ~state.refused
    length = state.end - state.start
    values, roots, fired = [], [], []
    for (event, condition), before in zip(events, watch.signs, strict=True):

        def along(theta: Tensor | float, condition: Condition = condition) -> Tensor:
            time = state.start + theta * length
            return condition(time, between(scheme.method, state, time))

        now = condition(state.end, state.new)
        before = cond(before == 0.0, lambda: along(_SHORTLY), lambda before=before: before)
        rises, falls = (before < 0) & (now >= 0), (before > 0) & (now <= 0)
        passes = rises | falls if not event.direction else (rises if event.direction > 0 else falls)
        passes = passes & accepted
        theta = _crossing(along, before, now, passes)
        roots.append(fnp.where(theta >= 1, state.end, state.start + theta * length))
        fired.append(passes)
        values.append(fnp.where(accepted, now, before))
    stop, stopped = watch.stop, watch.stopped
    for (event, _), root, passes, count in zip(events, roots, fired, watch.counts, strict=True):
        if event.terminal:
            ends = passes & (count + 1 >= event.terminal)
            nearer = ends & (~stopped | (way.sign * (stop - root) > 0))
            stop, stopped = fnp.where(nearer, root, stop), stopped | ends
    times, counts = [], []
    for root, passes, buffer, count in zip(roots, fired, watch.times, watch.counts, strict=True):
        noted = passes & (~stopped | (way.sign * (stop - root) >= 0))
        place = (fnp.arange(buffer.size) == count) & noted
        times.append(fnp.where(place, root, buffer))
        counts.append(count + noted.astype(count.dtype))
    return _Noted(values, times, counts, stop, stopped)


def _crossing(f: Callable[[Tensor], Tensor], at_0: Tensor, at_1: Tensor, wanted: Any) -> Tensor:
    """The place between 0 and 1 where f passes zero: the first number behind it.

    The bracket shrinks by the secant of Illinois, and by bisection at every third step, until its
    ends are neighbours: Dowell and Jarratt, "A modified regula falsi method", BIT 11, 1971.
    """
    eps = np.finfo(at_0.dtype).eps

    def goes_on(state: tuple[Tensor, ...]) -> Tensor:
        low, high, _, f_high, count = state[:5]
        return wanted & (high - low > eps * high) & (f_high != 0.0) & (count < 200)

    def shrink(state: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        low, high, f_low, f_high, count, side = state
        secant = high - f_high * (high - low) / fnp.where(f_high == f_low, 1.0, f_high - f_low)
        inside = (secant > low) & (secant < high) & (count % 3 != 2)
        point = fnp.where(inside, secant, 0.5 * (low + high))
        value = f(point)
        behind = (value == 0) | ((value > 0) == (f_high > 0))
        # The end that stays twice pulls the next secant towards itself.
        stays_low, stays_high = behind & (side > 0), ~behind & (side < 0)
        return (
            fnp.where(behind, low, point),
            fnp.where(behind, point, high),
            fnp.where(behind, fnp.where(stays_low, 0.5, 1.0) * f_low, value).astype(value.dtype),
            fnp.where(behind, value, fnp.where(stays_high, 0.5, 1.0) * f_high).astype(value.dtype),
            count + 1,
            fnp.where(behind, 1, -1),
        )

    zero, one = fnp.zeros((), at_0.dtype), fnp.ones((), at_0.dtype)
    none = fnp.asarray(0)
    return while_loop(goes_on, shrink, (zero, one, at_0, at_1, none, none))[1]


def event_times(
    f: RightHandSide, condition: Condition, times: Tensor, leaves: Leaves, valid: Tensor
) -> tuple[Tensor, Leaves]:
    """Give the times of an event, and the solution there, their derivatives."""

    def one(t: Tensor, y: Leaves, valid: Tensor) -> tuple[Tensor, Leaves]:
        slope = f(y, t)

        def missing(delay: Tensor) -> Tensor:
            there = RK45.stages_of(f, y, slope, t, delay)[0]
            return fnp.where(valid, condition(t + delay, there), delay)

        delay = custom_root(
            missing,
            fnp.zeros((), t.dtype),
            lambda _, start: stop_gradient(start),
            lambda g, y: y / g(fnp.ones((), t.dtype)),
            failed="nan",
        )
        return t + delay, RK45.stages_of(f, y, slope, t, delay)[0]

    return vmap(one)(times, leaves, valid)
