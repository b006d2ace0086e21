"""The operation of a loop whose steps were captured (``captured_loops.py``).

Each way through a step was captured several times. Where the operations and the places of their
operands agree, they are the step of a ``while_loop``. Where ways part, ``cond`` chooses, with the
values at which the function looked. A way out of the middle of a step ends the loop, which tells
its number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from funcgrad._core.specs import dtype_of
from funcgrad._core.trace import Value, concrete
from funcgrad._primitives.logic import equal, logical_not, not_equal
from funcgrad._programs.equation import Equation, bound, exact_key
from funcgrad._transforms.active_examples import active_mask
from funcgrad._transforms.staged_paths import LookScope
from funcgrad.tensor.tensor import wrap

Captured: TypeAlias = Any
"""A ``LoopCapture``, whose class is in a layer above this one."""


class Look(NamedTuple):
    """A look within a step: how many variables there were, and the conditions of its answers."""

    before: int
    conditions: list[int]  # one for a truth value; one for each way out of a loop
    state: dict[str, int]


class LoopStep:
    """A step of a loop that has been captured: its answers, its beginning, and its end."""

    def __init__(self, scope: LookScope, start: int, state: dict[str, int]) -> None:
        self.scope, self.start, self.state = scope, start, state
        self.looks: list[Look] = []
        self.end = start
        self.end_state: dict[str, int] = {}
        self.condition = 0


class LoopForm:
    """The operations of a loop's step, made from the steps that were captured.

    Each way through the step has its equations. An operand is a pair: ("result", n) of the step's
    variable n, ("state", name), or ("outside", value).
    """

    def __init__(self, capture: Captured, carried: Sequence[str]) -> None:
        self.capture, self.carried, self.loop = capture, carried, capture.loop
        self.stager, self.fail = capture.stager, capture.fail
        self.headers = capture.headers()
        self.ways = capture.loop.ways
        self.steps = {way: self._steps(way) for way in self.ways}
        self.equations = {way: self._equations(way) for way in self.ways}
        self.looks = {way: self._looks(way) for way in self.ways}
        self.ends = {way: self._end(way) for way in self.ways}
        self.states_out = {way: self._states_out(way) for way in self.loop.exits if way}

    def _steps(self, way: tuple[Any, ...]) -> list[LoopStep]:
        return [
            step
            for step in self.capture.steps
            if step.end_state and tuple(step.scope.answers) == way
        ]

    def _origin(self, steps: Sequence[LoopStep], references: Sequence[int]) -> tuple[str, Any]:
        """Where a value comes from that some steps of one way read at the same place."""
        places = {
            reference - step.start if reference >= step.start else -1
            for reference, step in zip(references, steps, strict=True)
        }
        if len(places) > 1:
            self.fail("its steps differ")
        (place,) = places
        if place >= 0:
            return "result", place
        names = [
            name
            for name in self.carried
            if all(s.state[name] == r for s, r in zip(steps, references, strict=True))
        ]
        is_outside = references[0] < 0 and len({*references}) == 1
        for name in names:
            alike = names[0], name
            if any(header[alike[0]] != header[alike[1]] for header in self.headers):
                self.fail("two of its variables cannot be told apart")
        if is_outside and names and len({header[names[0]] for header in self.headers}) > 1:
            self.fail("two of its variables cannot be told apart")
        if is_outside:
            return "outside", self.stager.outside(references[0])
        if not names:
            self.fail("a step reads a value that none of its variables holds")
        return "state", names[0]

    def _equations(self, way: tuple[Any, ...]) -> list[tuple[int, Equation, list[Any]]]:
        steps = self.steps[way]
        columns = [self.stager.equations_between(step.start, step.end) for step in steps]
        if len({len(column) for column in columns}) > 1:
            self.fail("its steps differ")
        equations = []
        for row in zip(*columns, strict=True):
            first, equation = row[0]
            for _, other in row:
                if (
                    other.operation is not equation.operation
                    or exact_key(other.params) != exact_key(equation.params)
                    or other.results != equation.results
                    or len(other.operands) != len(equation.operands)
                ):
                    self.fail("its steps differ")
            operands = [
                self._origin(steps, references)
                for references in zip(*[one.operands for _, one in row], strict=True)
            ]
            equations.append((first - steps[0].start, equation, operands))
        return equations

    def _looks(self, way: tuple[Any, ...]) -> list[tuple[int, list[Any]]]:
        """How many variables each look has before it, and the conditions of its answers."""
        steps = self.steps[way]
        looks = []
        for row in zip(*[step.looks for step in steps], strict=True):
            if len({look.before - s.start for look, s in zip(row, steps, strict=True)}) > 1:
                self.fail("its steps differ")
            columns = zip(*[look.conditions for look in row], strict=True)
            conditions = [self._origin(steps, references) for references in columns]
            looks.append((row[0].before - steps[0].start, conditions))
        return looks

    def _end(self, way: tuple[Any, ...]) -> tuple[Any, list[Any]]:
        """The condition of the next step, and the variables that the loop carries to it."""
        steps = self.steps[way]
        condition = self._origin(steps, [step.condition for step in steps])
        return condition, [
            self._origin(steps, [step.end_state[name] for step in steps]) for name in self.carried
        ]

    def _states_out(self, way_out: tuple[Any, ...]) -> list[Any]:
        """The variables where the loop is left within a step."""
        place = len(way_out) - 1
        way = next(way for way in self.ways if way[:place] == way_out[:place])
        steps = self.steps[way]
        states = [step.looks[place].state for step in steps]
        return [self._origin(steps, [state[name] for state in states]) for name in self.carried]

    # ------------------------------------------------------------------------------- the steps

    def run(self, condition: Value, start: Sequence[Value]) -> tuple[list[Value], list[Value]]:
        """Run the loop; return its results, and for each way out whether it was taken."""
        from funcgrad._control.whiles import while_loop

        goes_on = condition if self.loop.goes_on else logical_not(condition)
        if not self.capture.path.captures:
            goes_on = active_mask(goes_on)
        has_exits = len(self.loop.exits) > 1
        state = wrap(goes_on), [wrap(x) for x in start], *([wrap(0)] if has_exits else [])
        ended = while_loop(lambda state: state[0], self._step, state)
        flags: list[Value] = []
        if has_exits:
            flags = [equal(concrete(ended[2]), k) for k in range(len(self.loop.exits))]
        return [concrete(x) for x in ended[1]], flags

    def _step(self, state: Sequence[Any]) -> Any:
        values = dict(zip(self.carried, map(concrete, state[1]), strict=True))
        return self._run(self.ways, 0, {}, 0, values)

    def _run(
        self,
        ways: Sequence[tuple[Any, ...]],
        place: int,
        results: dict[int, Value],
        count: int,
        state: Mapping[str, Value],
    ) -> Any:
        """Run the rest of a step, from a look on, for the ways that the answers before lead to."""
        from funcgrad._control.choices import cond

        way, looks = ways[0], self.looks[ways[0]]
        is_last = place == len(way)
        end = looks[place][0] if not is_last else 1 << 62

        def value_of(origin: tuple[str, Any]) -> Value:
            kind, key = origin
            return results[key] if kind == "result" else state[key] if kind == "state" else key

        results = dict(results)
        for first, equation, operands in self.equations[way]:
            if count <= first < end:
                outs = bound(equation, tuple(map(value_of, operands)))
                results.update(zip(range(first, first + len(outs)), outs, strict=True))
        if is_last:
            condition, ends = self.ends[way]
            goes_on = _truth(value_of(condition), self.loop.goes_on)
            return self._next_state(goes_on, 0, [value_of(origin) for origin in ends])
        outs_here = [one for one in self.loop.exits if one and one[:-1] == way[:place]]
        answers = [*dict.fromkeys([one[place] for one in ways]), *[one[-1] for one in outs_here]]

        def chosen(waiting: Sequence[Any]) -> Any:
            answer, *others = waiting

            def branch() -> Any:
                way_out = (*way[:place], answer)
                if way_out in self.loop.exits:
                    origins = self.states_out[way_out]
                    number = self.loop.exits.index(way_out)
                    return self._next_state(False, number, [*map(value_of, origins)])
                some = [one for one in ways if one[place] == answer]
                return self._run(some, place + 1, results, end, state)

            if not others:
                return branch()
            conditions = looks[place][1]
            if type(answer) is tuple:
                is_chosen = value_of(conditions[answer[1]])
            else:
                is_chosen = _truth(value_of(conditions[0]), answer)
            return cond(wrap(is_chosen), branch, lambda: chosen(others))

        return chosen(answers)

    def _next_state(self, goes_on: Value, number: int, values: Sequence[Value]) -> Any:
        code = [wrap(number)] if len(self.loop.exits) > 1 else []
        return wrap(goes_on), [wrap(x) for x in values], *code


def _truth(condition: Value, wanted: bool) -> Value:
    """Whether a value that the function looks at answers as wanted."""
    condition = condition if dtype_of(condition).kind == "b" else not_equal(condition, 0)
    return condition if wanted else logical_not(condition)
