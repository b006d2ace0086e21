"""``checkpoint``: reverse mode keeps a call's arguments, and runs the call again when needed.

In its first run a function is staged, on values that the recorder does not follow. The record
keeps the program, which takes hardly any memory, and its inputs: the arguments, and the traced
values that the function closes over. The pullback evaluates the program once more. So the second
run does what the first did, even if names, objects and arrays that the function read have changed.

A checkpoint is not a ``Composite``. It depends on the traces that run, not on those that follow its
arguments: the innermost recorder gets the entry, even from inside other transformations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, ParamSpec, TypeVar

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core import pytrees
from funcgrad._core.context import delegate, delegated, repeated
from funcgrad._core.primitive import DISCRETE, Primitive
from funcgrad._core.specs import Spec, is_inexact
from funcgrad._core.structure.structures import Control
from funcgrad._core.trace import (
    RAW,
    Trace,
    Value,
    begin_level,
    concrete,
    resume,
    running_traces,
)
from funcgrad._hints.lookup import answering
from funcgrad._hooks.result_watch import WATCH
from funcgrad._programs.equation import Params
from funcgrad._programs.program import Program
from funcgrad._transforms.accumulation import Variables, accumulate, finished
from funcgrad._transforms.arguments import call_values, check_function, values_of
from funcgrad._transforms.auxiliary import WithAux
from funcgrad._transforms.call import Call
from funcgrad._transforms.call_values import has_linear_rules, has_rules
from funcgrad._transforms.composite import bind_composite, innermost_trace
from funcgrad._transforms.entries import Entry, VariableMap, pull_back, push_through
from funcgrad._transforms.flat_functions import call_primitive
from funcgrad._transforms.masked import Cotangent
from funcgrad._transforms.probe import ProbeSet, probe_again, running_probes
from funcgrad._transforms.record import Recorder
from funcgrad._transforms.stager import Staged, Stager
from funcgrad._transforms.transformed import Transformed
from funcgrad.tensor.conversion import reveal_primal
from funcgrad.tensor.tensor import wrap

P = ParamSpec("P")
R = TypeVar("R")


def _meet(values: Sequence[Value], *, body: Program) -> list[Value]:
    running = running_traces()
    if body.is_raw:
        # Traces inside of those that the values belong to have nothing to do with it: a loop that a
        # stager runs to know its numbers may have it in its body.
        trace: Trace | None = innermost_trace(values)
        while interpreter := delegate(trace, has_linear_rules(body)):  # as within a staged branch
            trace = interpreter
        running = [other for other in running if trace is not None and other.level <= trace.level]
    if not running:
        return body.evaluate(values)
    staged = _staged(running, body.evaluate, values)
    if staged is not None:
        return staged
    traces = _recording(running)
    if not traces:
        return body.evaluate(values)
    recorder: Any = traces[-1]
    results = body.evaluate([_primal(recorder, value) for value in values])
    outs = [_primal(recorder, result) for result in results]  # a probe follows its value
    follows = _follows(body, [_is_followed(recorder, value) for value in values])
    return _remembered(traces, body, values, outs, follows)


CHECKPOINT: Final = call_primitive(
    "checkpoint",
    lambda values, *, body: body.evaluate(values),
    lambda *specs, body: body.results(*specs),
    Control(lambda *, body: [(body, 1)], inlines=True),
    label=lambda *, body: "checkpoint",
    bind_composite=_meet,
)
"""A checkpointed function, whose program is ``body``; reverse mode runs it again."""


class _CheckpointStager(Stager):
    """Stages the first run of a function, on values that a recorder does not follow.

    The program will run again on the same values, so it may depend on any value that the
    function looks at; but values that are being differentiated refuse to be looked at.
    """

    __slots__ = ("_calls", "_followed", "_outer", "follows", "recorder")
    has_numbers = True
    keeps_compiled = True

    def __init__(
        self, level: int, recorder: Recorder, outer: _CheckpointStager | None = None
    ) -> None:
        super().__init__(level, around=outer, title="checkpoint")
        self._is_nested = True
        self.recorder = recorder
        self._outer = outer
        self._followed: set[int] = set()
        self._calls = False
        self.follows: list[bool] = []

    def stage_first_run(
        self, run: Callable[[Sequence[Value]], list[Value]], args: Sequence[Value]
    ) -> tuple[Program, list[Value], list[Value]]:
        """Stage a function as ``body`` does, for arguments that the recorder may follow."""
        outer = self if self._outer is None else self._outer
        self._followed = {k for k, arg in enumerate(args) if outer._is_followed(arg)}
        return self.body(run, CHECKPOINT.name, [outer.inner(arg) for arg in args])

    def inner(self, value: Value) -> Value:
        """The raw value, which the recorder does not follow."""
        if type(value) is Staged and value._trace is self and type(value._value) in RAW:
            return value._value
        return _primal(self.recorder, super().inner(value))

    def look(self, tracer: Staged, use: str, exact: bool, raw: Value) -> None:
        """Let Python use a value, unless a derivative follows it."""
        if self._is_followed(tracer):
            reveal_primal(raw, use, exact)

    def process_segment(
        self,
        run: Callable[[Sequence[Value]], list[Value]],
        args: Sequence[Value],
        primitive: Primitive,
    ) -> list[Value] | None:
        """Rehearse a segment within this one, too; within a call on raw values it only runs."""
        if self._calls:
            return None
        self.check()
        with begin_level() as level:
            stager_inside = _CheckpointStager(level, self.recorder, self)
            too = stager_inside if delegate(self.recorder) is self else None
            with delegated(self.recorder, too), delegated(self, stager_inside):
                program, closed, outs = stager_inside.stage_first_run(run, args)
        params = (("body", replace(program, guards=())),)
        return self._define(primitive, [*args, *closed], params, outs)

    def _called(
        self, call: Call, values: Sequence[Value], results: Sequence[Value]
    ) -> Sequence[Value]:
        """Apply the rules of a call to tracers that stand for numbers."""
        if RAW.issuperset(map(type, values)):
            return results
        outside, self._calls = self._calls, True
        try:
            return bind_composite(call, values)
        finally:
            self._calls = outside

    def finish(self, outs: Sequence[Value], **fields: Any) -> Program:
        """The program, and which of its results are followed."""
        self.follows = [self._is_followed(out) for out in outs]
        return super().finish(outs, **fields)

    def _source(self) -> str:
        return super()._source() if WATCH.get() is not None else ""  # nobody else reads it

    def _is_followed(self, value: Value) -> bool:
        if type(value) is Staged:
            if value._trace is self:
                return value._index in self._followed
            if self._outer is not None:
                return self._outer._is_followed(value)
        return _is_followed(self.recorder, concrete(value))

    def _define(
        self, operation: Primitive, args: Sequence[Value], params: Params, outs: Sequence[Value]
    ) -> list[Value]:
        results: list[Any] = super()._define(operation, args, params, outs)
        flags = [self._is_followed(arg) for arg in args]
        for result in results:
            if type(result._value) not in RAW:
                result._value = self.inner(result._value)
            if _reaches(operation, flags, result):
                self._followed.add(result._index)
        return results


def _reaches(operation: Primitive, flags: Sequence[bool], result: Spec) -> bool:
    """Whether a derivative flows from operands that are followed to a result."""
    if not is_inexact(result.dtype):
        return False
    if operation.is_foreign:
        return True
    if operation.differential is DISCRETE:
        return False
    for flag, route in zip(flags, operation.routes(len(flags)), strict=True):
        if flag and route is not None:
            return True
    return False


def _follows(program: Program, flags: Sequence[bool]) -> list[bool]:
    """Which results of a program depend on the flagged inputs through derivatives."""
    followed = [*flags, *[False] * len(program.constants)]
    for equation in program.equations:
        flagged = [followed[variable] for variable in equation.operands]
        followed += [_reaches(equation.operation, flagged, spec) for spec in equation.results]
    return [followed[variable] for variable in program.outputs]


@dataclass(slots=True, eq=False)
class CheckpointEntry(Entry):
    """A program that can be evaluated again on the tracers of a recorder."""

    program: Program
    values: Sequence[Value]  # its inputs
    follows: Sequence[bool]  # the results that are recorded
    # Those that ran during the call, from the innermost to the recorder's: tracers of theirs mean
    # the same when the program is evaluated again.
    traces: tuple[Trace, ...]
    probes: ProbeSet | None  # of the gradient that ran
    steps: tuple[tuple[str, int], ...]  # of the loops around the call, where somebody watches

    def again(self) -> tuple[list[Entry], list[int]]:
        """The entries of the call, and the variables of its results."""
        recorder: Any = self.traces[-1]
        with (
            begin_level(),
            probe_again(self.probes),
            repeated(object()),
            recorder.aside() as entries,
        ):
            resume(self.traces)
            outs = self.program.evaluate(self.values)
        parts = _values_at_level(recorder, outs, self.follows)
        return entries, [recorder.index_of(value) for value in parts]

    def results(self) -> list[Value]:
        """The results as recording computes them, which transformations around differentiate.

        For a call with rules these are the results of its rule.
        """
        recorder: Any = self.traces[-1]
        with begin_level(), probe_again(self.probes), recorder.aside():
            resume(self.traces)
            outs = self.program.evaluate(self.values)
        return [_primal(recorder, out) for out in outs]

    def push(self, tangents: Variables) -> list[Value]:
        entries, outs = self.again()
        inner_tangents = VariableMap(tangents)
        push_through(entries, inner_tangents)
        return [inner_tangents[index] for index in outs]

    def pull_from(self, cotangents: Variables, ct: Cotangent) -> None:
        entries, outs = self.again()
        inner_cotangents = VariableMap()
        pull_back(reversed(entries), inner_cotangents, outs, ct)
        for index, g in inner_cotangents.items():
            if g is not None:
                accumulate(cotangents, index, finished(g))


def _changed(recorder: Recorder, value: Value, change: Callable[[Value], Value]) -> Value:
    """Change the parts of a value that a recorder may follow, also inside of inner tracers."""
    trace = None if type(value) in RAW else value._trace
    if trace is None or trace.level <= recorder.level:
        return change(value)
    return trace.rebuild(value, lambda inner: _changed(recorder, inner, change))


def _values_at_level(
    recorder: Recorder, values: Sequence[Value], flags: Sequence[bool]
) -> list[Value]:
    """The parts of some values that ``_changed`` changes, in its order."""
    values_at_level: list[Value] = []

    def keep(inner: Value) -> Value:
        values_at_level.append(inner)
        return inner

    for value, flag in zip(values, flags, strict=True):
        if flag:
            _changed(recorder, value, keep)
    return values_at_level


def _primal(recorder: Recorder, value: Value) -> Value:
    """A value as it is without the recorder."""
    return value if type(value) in RAW else _changed(recorder, value, recorder.inner)


def _is_followed(recorder: Recorder, value: Value) -> bool:
    if type(value) in RAW:
        return False
    return any(
        recorder.index_of(inner) >= 0 for inner in _values_at_level(recorder, [value], [True])
    )


def _staged(
    running: Sequence[Trace],
    function: Callable[[Sequence[Value]], list[Value]],
    args: Sequence[Value],
) -> list[Value] | None:
    """The results of a segment from the innermost trace, if it handles segments itself."""
    return running[0].process_segment(function, args, CHECKPOINT) if running else None


def _recording(traces: Sequence[Trace]) -> tuple[Trace, ...]:
    """The traces from the innermost to the first recorder, if there is one that may run code again.

    A recorder outside a running stager does not count.
    """
    for place, trace in enumerate(traces):
        if isinstance(trace, Stager):
            break
        if isinstance(trace, Recorder):
            return tuple(traces[: place + 1]) if trace.runs_again else ()
    return ()


def _remembered(
    traces: tuple[Trace, ...],
    program: Program,
    values: Sequence[Value],
    outs: Sequence[Value],
    follows: Sequence[bool],
) -> list[Value]:
    """Record a program that has run as one that runs again; returns its results as tracers."""
    recorder: Any = traces[-1]
    if not _values_at_level(recorder, outs, follows):
        return list(outs)
    watch = WATCH.get()
    steps = () if watch is None else watch.steps()
    entry = CheckpointEntry(program, values, follows, traces, running_probes(), steps)
    if len(running_traces()) > len(traces) and has_rules(program):
        outs = entry.results()
    results_at_level = _values_at_level(recorder, outs, follows)
    results = iter(recorder.append_call(entry, results_at_level))
    return [
        _changed(recorder, out, lambda _: next(results)) if flag else out
        for out, flag in zip(outs, follows, strict=True)
    ]


def _run(function: Callable[[Sequence[Value]], list[Value]], args: Sequence[Value]) -> list[Value]:
    """Run a function of values; a recorder gets one entry for it, that runs it again."""
    running = running_traces()
    staged = _staged(running, function, args)
    if staged is not None:
        return staged
    traces = _recording(running)
    if not traces:
        return function(args)
    recorder: Any = traces[-1]
    is_next = len(traces) == 1
    recorder.is_plain &= not is_next
    with begin_level() as level:
        stager_inside = _CheckpointStager(level, recorder)
        with delegated(recorder, stager_inside if is_next else None):
            program, closed, outs = stager_inside.stage_first_run(function, args)
    program = replace(program, guards=())  # it runs on these values only
    return _remembered(traces, program, [*args, *closed], outs, stager_inside.follows)


@answering
def checkpoint(f: Callable[P, R]) -> Callable[P, R]:
    """Save memory in reverse mode: run a function again instead of keeping intermediate results.

    Parameters
    ----------
    f : callable
        Takes pytrees and returns a pytree. Python runs it once. The second run repeats its
        operations on the values that it read, so ``f`` may be made in a loop, and side effects
        happen once.

    Returns
    -------
    callable
        A function with the same results. Reverse mode keeps its inputs and results only; pulling
        back through it costs one more evaluation. Forward mode is unchanged.

    Notes
    -----
    Operations that depend on the arguments are repeated. Others, such as those that make a
    constant mask, run once, and their results are kept.

    Where to place checkpoints: Griewank and Walther, "Algorithm 799: revolve", ACM TOMS 26, 2000.
    Under nested reverse mode the innermost derivative saves the memory.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.grad(lambda x: fg.checkpoint(lambda y: (y * y) * y)(x))(2.0)
    Tensor(12.0)
    """
    check_function("checkpoint", f)

    def checkpointed(*args: P.args, **kwargs: P.kwargs) -> R:
        leaves, structure = pytrees.flatten((args, kwargs))
        values = call_values("checkpoint", f, leaves, structure)

        def run(inner: Sequence[Value]) -> tuple[list[Value], pytrees.Structure]:
            inner_args, inner_kwargs = pytrees.unflatten(structure, [wrap(x) for x in inner])
            call: Callable[..., Any] = f
            out_leaves, out_structure = pytrees.flatten(call(*inner_args, **inner_kwargs))
            outs = values_of("checkpoint", out_leaves, out_structure, lambda: "the result")
            return outs, out_structure

        with_structure = WithAux(run)
        outs = _run(with_structure, values)
        return pytrees.unflatten(with_structure.aux, [wrap(out) for out in outs])

    return Transformed(checkpointed, "checkpoint", (checkpoint, (f,)))
