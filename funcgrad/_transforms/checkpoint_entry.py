"""The entry of a checkpointed call, which runs its program again when it is pulled through.

It may belong to a recorder further out than the transformations that ran during the call, so the
recorder's values may be inside of inner tracers: ``changed`` finds them there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.context import repeated
from funcgrad._core.structure.structures import Control
from funcgrad._core.trace import RAW, Trace, Value, begin_level, concrete, resume
from funcgrad._programs.equation import Equation, bound
from funcgrad._programs.program import Program
from funcgrad._transforms.accumulation import Variables, accumulate, finished
from funcgrad._transforms.entries import Entry, VariableMap, pull_back, push_through
from funcgrad._transforms.late_values import LateTrace, computed, fill, forget_unread
from funcgrad._transforms.masked import Cotangent, map_cotangent
from funcgrad._transforms.probe import Probes, probe_again
from funcgrad._transforms.record import Recorder


@dataclass(slots=True, eq=False)
class CheckpointEntry(Entry):
    """A program that can be evaluated again on the tracers of a recorder."""

    program: Program
    values: Sequence[Value]  # its inputs
    follows: Sequence[bool]  # the results that are recorded
    # Those that ran during the call, from the innermost to the recorder's: tracers of theirs mean
    # the same when the program is evaluated again.
    traces: tuple[Trace, ...]
    probes: Probes | None  # of the gradient that ran
    steps: tuple[tuple[str, int], ...]  # of the loops around the call, where somebody watches
    retained: Sequence[Value]  # the values of the program's last results

    def again(self) -> tuple[list[Entry], list[int]]:
        """The entries of the call, and the variables of its results."""
        recorder: Any = self.traces[-1]
        with begin_level(), probe_again(self.probes), repeated(object()):
            trace = LateTrace(recorder.level - 1) if self.retained else None
            resume(self.traces)
            with recorder.aside() as entries:
                outs = self._evaluate(trace) if trace else self.program.evaluate(self.values)
        if trace is not None:
            trace.end()
            for entry in entries:
                forget_unread(entry)
        parts = values_at_level(recorder, outs, self.follows)
        return entries, [recorder.index_of(value) for value in parts]

    def _evaluate(self, trace: LateTrace) -> list[Value]:
        """The results, whose values are computed when the pullback reads them.

        Kept values are known, so nothing is computed for their sake.
        """
        recorder: Any = self.traces[-1]
        program, position = self.program, count()
        variables = program.outputs[-len(self.retained) :]
        retained_values = dict(zip(variables, self.retained, strict=True))

        def with_value(value: Value, change: Callable[[Value], Value]) -> Value:
            inner, index = change(computed(recorder.inner(value))), recorder.index_of(value)
            return recorder._tracer(inner, index) if index >= 0 else inner

        def late(value: Value) -> Value:
            return changed(recorder, value, lambda x: with_value(x, trace.of))

        def known(value: Value) -> Value:
            return changed(recorder, value, lambda x: with_value(x, concrete))

        def run(equation: Equation, operands: tuple[Value, ...]) -> Sequence[Value]:
            operation = equation.operation
            if operation.is_foreign or isinstance(operation.structure, Control):
                operands = tuple(map(known, operands))
            results = bound(equation, operands)
            for variable, result in zip(
                program.index.results[next(position)], results, strict=True
            ):
                if variable in retained_values:
                    values = values_at_level(recorder, [retained_values[variable]], [True])
                    parts = values_at_level(recorder, [result], [True])
                    for follower, value in zip(parts, values, strict=True):
                        fill(recorder.inner(follower), value)
            return results

        return program.evaluate([*map(late, self.values)], run)

    def results(self) -> list[Value]:
        """The results as recording computes them, which transformations around differentiate.

        For a call with rules these are the results of its rule.
        """
        recorder: Any = self.traces[-1]
        with begin_level(), probe_again(self.probes), recorder.aside():
            resume(self.traces)
            outs = self.program.evaluate(self.values)
        return [primal(recorder, out) for out in outs]

    def push(self, tangents: Variables) -> list[Value]:
        entries, outs = self.again()
        inner_tangents = VariableMap(tangents)
        push_through(entries, inner_tangents)
        pushed = [inner_tangents[index] for index in outs]
        return [None if tangent is None else self._known(tangent) for tangent in pushed]

    def pull_from(self, cotangents: Variables, ct: Cotangent) -> None:
        entries, outs = self.again()
        inner_cotangents, known = VariableMap(), self._known
        known_cts = [None if g is None else map_cotangent(g, known) for g in ct]
        pull_back(reversed(entries), inner_cotangents, outs, known_cts)
        for index, g in inner_cotangents.items():
            if g is not None:
                accumulate(cotangents, index, map_cotangent(finished(g), known))

    def _known(self, value: Value) -> Value:
        """A value that is not late, of this run or of a run around."""
        if not self.retained:
            return value
        recorder: Any = self.traces[-1]
        return changed(recorder, value, computed)


def changed(recorder: Recorder, value: Value, change: Callable[[Value], Value]) -> Value:
    """Change the parts of a value that a recorder may follow, also inside of inner tracers."""
    trace = None if type(value) in RAW else value._trace
    if trace is None or trace.level <= recorder.level:
        return change(value)
    return trace.rebuild(value, lambda inner: changed(recorder, inner, change))


def values_at_level(
    recorder: Recorder, values: Sequence[Value], flags: Sequence[bool]
) -> list[Value]:
    """The parts of some values that ``_changed`` changes, in its order."""
    values_at_level: list[Value] = []

    def keep(inner: Value) -> Value:
        values_at_level.append(inner)
        return inner

    for value, flag in zip(values, flags, strict=True):
        if flag:
            changed(recorder, value, keep)
    return values_at_level


def primal(recorder: Recorder, value: Value) -> Value:
    """A value as it is without the recorder."""
    return value if type(value) in RAW else changed(recorder, value, recorder.inner)


def is_followed(recorder: Recorder, value: Value) -> bool:
    if type(value) in RAW:
        return False
    return any(
        recorder.index_of(inner) >= 0 for inner in values_at_level(recorder, [value], [True])
    )
