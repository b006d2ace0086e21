"""The ways of ``solve_ivp``: events, solutions at times, and solutions at the ends of steps.

With events the equation is integrated twice. The first time nothing is differentiated: it finds the
times of the events, as constants. Then the solution is computed at these times like at any others,
with its derivatives, and the times get theirs by the implicit function theorem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._control.carry import placed
from funcgrad._control.choices import is_unknown, number_in
from funcgrad._core import pytrees
from funcgrad._core.trace import RAW, beside, concrete, running_traces
from funcgrad._transforms.batch import vmap
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ArgumentError
from funcgrad.integrate.adjoint import adjoint_outcome
from funcgrad.integrate.events import Happened, event_times, happened
from funcgrad.integrate.ivp_problem import IvpProblem, fixed_slope
from funcgrad.integrate.ivp_results import OdeResult, status_of
from funcgrad.integrate.own_loop import own_results
from funcgrad.integrate.records import OdeSolution, Records, recorded
from funcgrad.integrate.right_hand_side import System
from funcgrad.integrate.solutions import STIFF, check, moved, outcome_at
from funcgrad.integrate.step_methods import Counts, Leaves
from funcgrad.integrate.steps import Outcome, along_times, solved
from funcgrad.integrate.stiff_equations import slope_of
from funcgrad.integrate.stiffness import LEAST_STEPS, spectral_radius, warn_if_stiff
from funcgrad.tensor.tensor import Tensor, wrap

_FIRST_STEPS, _FIRST_EVENTS, _GROWTH = 64, 16, 16
"""The lengths of the first records outside of ``jit``, and the factor of the next ones."""


class IvpSolver(NamedTuple):
    """One call of ``solve_ivp``.

    Attributes
    ----------
    problem : IvpProblem
    max_steps, max_events : int, optional
        The lengths of records, as far as the user gives them.
    derivative, failed : str
    """

    problem: IvpProblem
    max_steps: int | None
    max_events: int | None
    derivative: str
    failed: str

    def result(self, times: Tensor | None, dense: bool) -> OdeResult:
        """Solve at times, or at the ends of steps."""
        events = self._happened() if self.problem.events else None
        stop = stop_gradient(self.problem.span[1]) if events is None else events.stop
        is_adjoint = self.derivative == "adjoint"
        records, problem = None, self.problem.constant() if is_adjoint else self.problem
        if times is None or dense:
            records = self._recorded(problem, stop, not is_adjoint)
            self._check(Outcome(records.leaves, *records[-4:]))
        own_times = times is None
        if times is None:
            assert records is not None
            times = self._own_times(records, stop)
        at_events = [] if events is None else events.times
        sol = None
        if records is None or is_adjoint:
            outcome, groups = self._at(times, at_events)
            self._check(outcome)
        else:
            sol, outcome = self._between(records), Outcome([], *records[-4:])
            groups = [vmap(sol.at)(moments) for moments in at_events]
            ends = self._ends(records, sol, times, stop) if own_times else vmap(sol.at)(times)
            groups.insert(0, ends)
        if records is not None and own_times and self.failed != "keep" and problem.is_open():
            # The last time is not the end, and nobody can be told.
            known = fnp.where(records.status == 0, 1.0, np.nan)
            groups[0] = [leaf * known.astype(leaf.real.dtype) for leaf in groups[0]]
        self._look_for_stiffness(times, groups[0], outcome)
        return self._packed(times, own_times, groups, outcome, events, sol if dense else None)

    def _look_for_stiffness(self, times: Tensor, leaves: Leaves, outcome: Outcome) -> None:
        """Warn if the equation is stiff, outside of transformations."""
        problem, tried = self.problem, concrete(outcome.tried)
        if running_traces() or problem.method.evaluations is None or problem.settings.first:
            return
        if int(np.asarray(tried)) < LEAST_STEPS or not len(times):
            return
        moments = np.asarray(times)
        inside = np.linspace(moments[0], moments[-1], 8)[1:]
        places = np.unique([int(np.argmin(abs(moments - t))) for t in inside])
        samples = [times[places], *[leaf[places] for leaf in leaves]]
        radii = _by_program(problem, _with_radii, ("radii", len(places)), samples, 0)
        length = float(abs(outcome.time - problem.span[0]))
        warn_if_stiff(radii, length, int(np.asarray(tried)), problem.method.name)

    def _check(self, outcome: Outcome) -> None:
        if self.failed == "raise":
            is_explicit = self.problem.method.evaluations is not None
            check(outcome, self.problem.settings, "solve_ivp", STIFF if is_explicit else "")

    # ------------------------------------------------------------------------------- first: events

    def _happened(self) -> Happened:
        """The times of events, as constants."""
        problem, count = self.problem.constant(), self.max_events or _FIRST_EVENTS
        template = ([0 for _ in problem.events], [0 for _ in problem.events], 0, 0)
        while True:
            run = partial(_with_events, count=count)
            events = Happened(*_by_program(problem, run, ("events", count), (), template))
            counts = [concrete(number) for number in events.counts]
            if any(map(is_unknown, counts)):
                return stop_gradient(events)
            numbers = [int(number_in(number)) for number in counts]
            most = max(numbers)
            if most <= count:
                times = [t[:number] for t, number in zip(events.times, numbers, strict=True)]
                return stop_gradient(events._replace(times=times))
            count = max(most, _GROWTH * count)

    # ------------------------------------------------------------------------------ then: the steps

    def _recorded(self, problem: IvpProblem, stop: Tensor, dense: bool) -> Records:
        """All steps: as many as there are, or ``max_steps`` where that is not known."""
        if problem.is_open():
            if self.max_steps is None:
                raise placed(
                    ArgumentError,
                    "solve_ivp: inside jit and vmap the number of steps is not known. Pass t_eval,"
                    " without dense_output; or pass max_steps: then the steps are recorded in"
                    " arrays of this length, in which the last one is repeated.",
                )
            return _with_records(problem, stop, count=self.max_steps, dense=dense)
        count, most = _FIRST_STEPS, problem.settings.max_steps
        leaves = problem.system.start
        lists = [leaves, leaves if dense else []]
        coefficients = [leaves] * (problem.method.dense_count if dense else 0)
        is_counted = problem.method.evaluations is None
        work = Counts(0, 0, 0) if is_counted else None
        template: Any = (0, *lists, coefficients, 0, 0, 0, 0, 0, work)
        while True:
            run = partial(_with_records, count=count, dense=dense)
            is_long = count > _FIRST_STEPS
            key = ("steps", count, dense)
            records = Records(*_by_program(problem, run, key, [stop], template, is_long))
            if number_in(concrete(records.whole)) or count >= most:
                return records.first(max(1, int(number_in(concrete(records.number)))))
            count = min(_GROWTH * count, most)

    def _own_times(self, records: Records, stop: Tensor) -> Tensor:
        """The times of the start and of the ends of steps; only the ends have derivatives."""
        first, last = self.problem.span
        sign = fnp.where(stop_gradient(last) < stop_gradient(first), -1.0, 1.0)
        ends = fnp.where(sign * records.ends > sign * stop, stop, records.ends)
        ends = fnp.where(ends == stop_gradient(last), last, stop_gradient(ends))
        return fnp.concatenate([first[None], ends])

    def _between(self, records: Records) -> OdeSolution:
        """The solution at all times."""
        problem, leaves = self.problem, records.leaves
        ts = fnp.concatenate([stop_gradient(problem.span[0])[None], records.ends]) + problem.delay
        if self.failed != "keep":
            known = fnp.where(records.status == 0, 1.0, np.nan)
            leaves = [leaf * known.astype(leaf.real.dtype) for leaf in leaves]
        others = records.slopes, list(records.dense), records.number
        return OdeSolution(ts, leaves, *others, problem.method, problem.system.state)

    def _ends(self, records: Records, sol: OdeSolution, times: Tensor, stop: Tensor) -> Leaves:
        """The solution at the ends of steps; after the time of a terminal event at that time."""
        problem, at_stop = self.problem, sol.at(stop)
        first, last = problem.span
        ts = fnp.concatenate([stop_gradient(first)[None], records.ends])
        sign = fnp.where(stop_gradient(last) < stop_gradient(first), -1.0, 1.0)
        beyond = sign * ts > sign * stop
        leaves = [
            fnp.where(along_times(beyond, leaf), end, leaf)
            for leaf, end in zip(records.leaves, at_stop, strict=True)
        ]
        if all(type(concrete(end)) in RAW for end in problem.span):
            return leaves
        fixed, delay = stop_gradient(times), problem.delay
        slope = slope_of(problem.equation(delay).f, problem.mass)
        return moved(slope, leaves, fixed, times - fixed - delay)

    def _at(self, times: Tensor, at_events: Sequence[Tensor]) -> tuple[Outcome, list[Leaves]]:
        """The solution at times and at events."""
        problem, system = self.problem, self.problem.system
        merged, places = times, None
        if at_events:
            merged = fnp.concatenate([times, *at_events])
            first, last = stop_gradient(problem.span)
            order = fnp.argsort(fnp.where(last < first, -1.0, 1.0) * stop_gradient(merged))
            merged, places = merged[order], fnp.argsort(order)
        merged = fnp.concatenate([problem.span[0][None], merged])
        solve: Callable[..., Outcome] = adjoint_outcome
        if self.derivative == "steps":
            solve = partial(outcome_at, own_steps=self._own_outcome)
        outcome = solve(
            system.slope, system.start, merged, system.parameters, problem.settings, problem.scheme
        )
        leaves = [leaf[1:] for leaf in outcome.leaves]
        if places is not None:
            leaves = [leaf[places] for leaf in leaves]
        groups, begin = [], 0
        for size in [len(times), *map(len, at_events)]:
            groups.append([leaf[begin : begin + size] for leaf in leaves])
            begin += size
        return outcome, groups

    def _own_outcome(self, times: Tensor, _: object) -> Outcome:
        work = Counts(0, 0, 0) if self.problem.method.evaluations is None else None
        template = (self.problem.system.start, 0, 0, 0, work)
        return Outcome(*_by_program(self.problem, _with_times, ("times",), [times], template))

    # ------------------------------------------------------------------------------- the result

    def _packed(
        self,
        times: Tensor,
        own_times: bool,
        groups: list[Leaves],
        outcome: Outcome,
        events: Happened | None,
        sol: OdeSolution | None,
    ) -> OdeResult:
        """The user's result: times that were reached, if they are known, else NaN."""
        problem, (leaves, *at_events) = self.problem, groups
        t_events, y_events = None, None
        if events is not None:
            moments, at_events, valid = self._moved(events, at_events)
            if own_times:
                times, leaves = _at_stop(times, leaves, events, problem, moments, at_events, valid)
            t_events = tuple([_masked(t, ok) for t, ok in zip(moments, valid, strict=True)])
            y_events = tuple(
                [
                    problem.system.tree([_masked(leaf, ok) for leaf in solutions_there])
                    for solutions_there, ok in zip(at_events, valid, strict=True)
                ]
            )
        times, leaves = self._reached(times, leaves, outcome, events)
        y = [fnp.moveaxis(leaf, 0, -1) for leaf in leaves]
        stopped = None if events is None else events.stopped
        return OdeResult(
            wrap(beside(concrete(times), y[0])) if y else times,
            problem.system.tree(y),
            sol,
            t_events,
            y_events,
            *problem.work(outcome),
            status_of(outcome.status, stopped),
        )

    def _moved(
        self, events: Happened, at_events: list[Leaves]
    ) -> tuple[list[Tensor], list[Leaves], list[Tensor | None]]:
        """Times of events and solutions there, with their derivatives; which ones there are."""
        moments, solutions, valid = [], [], list[Tensor | None]()
        f = slope_of(self.problem.equation().f, self.problem.mass)
        every = zip(events.times, events.counts, at_events, self.problem.conditions(), strict=True)
        for times, count, leaves, condition in every:
            there: Any = fnp.arange(len(times)) < count
            if running_traces():
                times, leaves = event_times(f, condition, times, leaves, there)
            moments.append(times)
            solutions.append(leaves)
            valid.append(there if is_unknown(concrete(count)) else None)
        return moments, solutions, valid

    def _reached(
        self, times: Tensor, leaves: Leaves, outcome: Outcome, events: Happened | None
    ) -> tuple[Tensor, Leaves]:
        """Leave out times that were not reached; where they are not known, NaN stands there."""
        first, last = stop_gradient(self.problem.span)
        sign = fnp.where(last < first, -1.0, 1.0)
        end = last if events is None else events.stop
        there = sign * stop_gradient(times) <= sign * end
        if self.failed == "keep":
            there = there & ((outcome.status == 0) | (sign * times <= sign * outcome.time))
        mask = concrete(there)
        if is_unknown(mask):
            if events is not None:
                leaves = [_masked(leaf, there) for leaf in leaves]
            return times, leaves
        flags = np.asarray(number_in(mask))
        if flags.all():
            return times, leaves
        return times[flags], [leaf[flags] for leaf in leaves]


def _masked(leaf: Tensor, there: Tensor | None) -> Tensor:
    if there is None:
        return leaf
    return fnp.where(along_times(there, leaf), leaf, np.nan)


def _at_stop(
    times: Tensor,
    leaves: Leaves,
    events: Happened,
    problem: IvpProblem,
    moments: list[Tensor],
    at_events: list[Leaves],
    valid: list[Tensor | None],
) -> tuple[Tensor, Leaves]:
    """Give the end of the last step the derivatives of the event that ended it."""
    if not running_traces():
        return times, leaves
    is_end = (stop_gradient(times) == events.stop) & events.stopped
    every = zip(problem.events, events.times, moments, at_events, valid, strict=True)
    for event, fixed, moved_times, solutions_there, there in every:
        if not event.terminal or not len(fixed):
            continue
        match = fixed == events.stop if there is None else (fixed == events.stop) & there
        place, any_match = fnp.argmax(match), fnp.any(match)
        chosen = is_end & any_match
        times = fnp.where(chosen, moved_times[place], times)
        leaves = [
            fnp.where(along_times(chosen, leaf), x[place], leaf)
            for leaf, x in zip(leaves, solutions_there, strict=True)
        ]
    return times, leaves


# ------------------------------------------------------------------------- programs of their own


def _with_times(problem: IvpProblem, times: Tensor) -> Outcome:
    equation = problem.equation()
    scheme, settings = problem.scheme, problem.settings
    return solved(equation.f, problem.system.start, times, settings, scheme, equation.jacobian)


def _with_records(problem: IvpProblem, stop: Tensor, *, count: int, dense: bool) -> Records:
    first, last = stop_gradient(problem.span)
    equation, start = problem.equation(problem.delay), problem.system.start
    return recorded(equation, start, (first, last, stop), problem.method, count, dense)


def _with_events(problem: IvpProblem, *, count: int) -> Happened:
    equation = problem.equation()
    equation = equation._replace(f=fixed_slope(equation))
    pairs = list(zip(problem.events, problem.conditions(), strict=True))
    return happened(equation, problem.system.start, problem.span, problem.scheme, pairs, count)


def _with_radii(problem: IvpProblem, times: Tensor, *leaves: Tensor) -> Tensor:
    f = problem.equation().f
    return vmap(lambda t, *y: spectral_radius(f, list(y), t))(times, *leaves)


def _by_program(
    problem: IvpProblem,
    run: Callable[..., Any],
    options: tuple[Any, ...],
    others: Sequence[Tensor],
    template: Any,
    at_once: bool = False,
) -> Any:
    """The result of ``run(problem, *others)``, by a program of its own if that is possible.

    With ``at_once`` it is made at the first call: for many steps that takes less time.
    """
    if any(type(concrete(end)) not in RAW for end in problem.span):
        return run(problem, *others)
    tensors = problem.tensors()
    split, options = len(tensors), (options, problem.key())

    def inside(system: System, functions: Sequence[Any], values: Sequence[Tensor]) -> list[Tensor]:
        here = problem.joined(system, functions, values[:split])
        return pytrees.leaves(run(here, *values[split:]))

    for _ in range(1 + at_once):
        results = own_results(
            problem.system,
            problem.functions,
            [*tensors, *others],
            options,
            inside,
            at_once=problem.method.evaluations is None,  # a step in Python takes 10 ms
        )
        if results is not None:
            return pytrees.unflatten(pytrees.flatten(template)[1], results)
    return run(problem, *others)
