"""``checkpoint``: reverse mode keeps a call's arguments, and runs the call again when needed.

In its first run a function is staged, on values that the recorder does not follow. The record
keeps the program, which takes hardly any memory, and its inputs: the arguments, and the traced
values that the function closes over. The pullback evaluates the program once more. So the second
run does what the first did, even if names, objects and arrays that the function read have changed.

A checkpoint is not a ``Composite``. It depends on the traces that run, not on those that follow its
arguments: the innermost recorder gets the entry, even from inside other transformations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, ParamSpec, TypeVar, overload

from funcgrad._core import pytrees
from funcgrad._core.context import current, delegate, delegated, entered
from funcgrad._core.primitive import DISCRETE, Primitive
from funcgrad._core.specs import Spec, is_inexact
from funcgrad._core.structure.structures import Control
from funcgrad._core.trace import RAW, Trace, Value, begin_level, concrete, running_traces
from funcgrad._hints.lookup import decorating
from funcgrad._hooks.result_watch import WATCH
from funcgrad._programs.equation import Params
from funcgrad._programs.program import Program
from funcgrad._programs.second_runs import replayed, replayed_params
from funcgrad._transforms.arguments import call_values, check_function, values_of
from funcgrad._transforms.auxiliary import WithAux
from funcgrad._transforms.call import Call
from funcgrad._transforms.call_values import has_linear_rules, has_rules
from funcgrad._transforms.checkpoint_entry import (
    CheckpointEntry,
    changed,
    is_followed,
    primal,
    values_at_level,
)
from funcgrad._transforms.composite import bind_composite, innermost_trace
from funcgrad._transforms.flat_functions import call_primitive
from funcgrad._transforms.probe import (
    RetainedSet,
    check_names,
    retain_named,
    retained_sets,
    running_probes,
)
from funcgrad._transforms.record import Recorder
from funcgrad._transforms.stager import Staged, Stager
from funcgrad._transforms.transformed import Transformed
from funcgrad.errors import DifferentiationError
from funcgrad.tensor.conversion import reveal_primal
from funcgrad.tensor.tensor import wrap

P = ParamSpec("P")
R = TypeVar("R")


def _meet(values: Sequence[Value], *, body: Program) -> list[Value]:
    running, segment = running_traces(), Segment.of_body(body)
    if body.is_raw:
        # Traces inside of those that the values belong to have nothing to do with it: a loop that a
        # stager runs to know its numbers may have it in its body.
        trace: Trace | None = innermost_trace(values)
        while interpreter := delegate(trace, has_linear_rules(body)):  # as within a staged branch
            trace = interpreter
        running = [other for other in running if trace is not None and other.level <= trace.level]
    if not running:
        return body.evaluate(values)
    staged = running[0].process_segment(segment, values)
    if staged is not None:
        return staged
    traces = _recording(running)
    if not traces:
        return body.evaluate(values)
    recorder: Any = traces[-1]
    body = replayed(body)
    results = body.evaluate([primal(recorder, value) for value in values])
    outs = [primal(recorder, result) for result in results]  # a probe follows its value
    follows = _follows(body, [is_followed(recorder, value) for value in values])
    return _remembered(traces, body, values, outs, follows)


CHECKPOINT: Final = call_primitive(
    "checkpoint",
    lambda values, *, body: body.evaluate(values),
    lambda *specs, body: body.results(*specs),
    Control(lambda *, body: [(body, 1)], inlines=True),
    label=lambda *, body: "checkpoint",
    bind_composite=_meet,
)
"""A checkpointed function, whose program is ``body``; reverse mode runs it again.

If there are values to keep, they are the program's last results, and the tree of its results is a
pair: the function's, and these.
"""


class Segment:
    """A function of values that is checkpointed; it returns its results, and the values to keep.

    ``names`` name the values, in the order in which they were marked.
    """

    primitive: Final = CHECKPOINT

    def __init__(
        self, run: Callable[[Sequence[Value]], list[Value]], save: frozenset[str] = frozenset()
    ) -> None:
        self._run, self._save = run, save
        self.names: list[str] = []

    @classmethod
    def of_body(cls, body: Program) -> Segment:
        """The segment of a program that is a checkpoint's body."""
        segment = cls(body.evaluate)
        segment.names = [""] * _retained_count(body)
        return segment

    def __call__(self, values: Sequence[Value]) -> list[Value]:
        outer, running = running_probes(), running_traces()
        around = frozenset[str]().union(*[retained.names for retained in retained_sets(outer)])
        if self.names or not (self._save or around):
            return self._run(values)
        level = running[0].level if running else 0
        retained = RetainedSet(level, self._save | around, outer)
        with entered(current()._replace(probes=retained)):
            outs = self._run(values)
        self.names = [name for name, _ in retained.marked]
        if missing := sorted(self._save.difference(self.names)):
            raise DifferentiationError(
                f"checkpoint: the function names no value {', '.join(map(repr, missing))}; it names"
                f" {sorted({*self.names}) or 'none'} of those asked for. Call fg.probe(x, name) on"
                " the value."
            )
        return [*outs, *[value for _, value in retained.marked]]

    def params(self, body: Program) -> Params:
        """The parameters of an equation, for the program of the segment."""
        if not self.names:
            return (("body", body),)
        count = len(body.outputs) - len(self.names)
        result = pytrees.structure(((0,) * count, (0,) * len(self.names)))
        return (("body", replace(body, result=result)),)


def _retained_count(body: Program) -> int:
    """How many of the results of a checkpoint's program are values to keep."""
    if body.result == pytrees.of_leaves(len(body.outputs)):
        return 0
    _, retained = pytrees.unflatten(body.result, body.outputs)
    return len(retained)


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
        self, segment: Segment, args: Sequence[Value]
    ) -> tuple[Params, list[Value], list[Value]]:
        """Stage a segment as ``body`` does, for arguments that the recorder may follow."""
        outer = self if self._outer is None else self._outer
        self._followed = {k for k, arg in enumerate(args) if outer._is_followed(arg)}
        values = [outer.inner(arg) for arg in args]
        program, closed, outs = self.body(segment, CHECKPOINT.name, values)
        return segment.params(replace(program, guards=())), closed, outs  # for these values only

    def inner(self, value: Value) -> Value:
        """The raw value, which the recorder does not follow."""
        if type(value) is Staged and value._trace is self and type(value._value) in RAW:
            return value._value
        return primal(self.recorder, super().inner(value))

    def look(self, tracer: Staged, use: str, exact: bool, raw: Value) -> None:
        """Let Python use a value, unless a derivative follows it."""
        if self._is_followed(tracer):
            reveal_primal(raw, use, exact)

    def process(
        self, primitive: Primitive, args: tuple[Value, ...], params: Mapping[str, Any]
    ) -> Value:
        """Evaluate, and append an equation, which will run again."""
        return super().process(primitive, args, replayed_params(primitive, params))

    def process_segment(self, segment: Any, args: Sequence[Value]) -> list[Value] | None:
        """Rehearse a segment within this one, too; within a call on raw values it only runs."""
        if self._calls:
            return None
        self.check()
        with begin_level() as level:
            stager_inside = _CheckpointStager(level, self.recorder, self)
            too = stager_inside if delegate(self.recorder) is self else None
            with delegated(self.recorder, too), delegated(self, stager_inside):
                params, closed, outs = stager_inside.stage_first_run(segment, args)
        return self._define(CHECKPOINT, [*args, *closed], params, outs)

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
        return is_followed(self.recorder, concrete(value))

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
    if not values_at_level(recorder, outs, follows):
        return list(outs)
    watch = WATCH.get()
    steps = () if watch is None else watch.steps()
    count = len(outs) - _retained_count(program)
    retained, follows = outs[count:], [*follows[:count], *[False] * (len(outs) - count)]
    entry = CheckpointEntry(program, values, follows, traces, running_probes(), steps, retained)
    if len(running_traces()) > len(traces) and has_rules(program):
        outs = entry.results()
    results_at_level = values_at_level(recorder, outs, follows)
    results = iter(recorder.append_call(entry, results_at_level))
    return [
        changed(recorder, out, lambda _: next(results)) if flag else out
        for out, flag in zip(outs, follows, strict=True)
    ]


def _run(segment: Segment, args: Sequence[Value]) -> list[Value]:
    """Run a segment; a recorder gets one entry for it, that runs it again."""
    running = running_traces()
    staged = running[0].process_segment(segment, args) if running else None
    if staged is not None:
        return staged
    traces = _recording(running)
    if not traces:
        return segment(args)
    recorder: Any = traces[-1]
    is_next = len(traces) == 1
    recorder.is_plain &= not is_next
    with begin_level() as level:
        stager_inside = _CheckpointStager(level, recorder)
        with delegated(recorder, stager_inside if is_next else None):
            params, closed, outs = stager_inside.stage_first_run(segment, args)
    ((_, program),) = params
    return _remembered(traces, program, [*args, *closed], outs, stager_inside.follows)


@overload
def checkpoint(f: Callable[P, R], save: Sequence[str] = ()) -> Callable[P, R]: ...
@overload
def checkpoint(*, save: Sequence[str] = ()) -> Callable[[Callable[P, R]], Callable[P, R]]: ...
@decorating
def checkpoint(f: Callable[P, R], save: Sequence[str] = ()) -> Callable[P, R]:
    """Recompute intermediate results in reverse mode, instead of storing them, to save memory.

    Parameters
    ----------
    f : callable
        Takes pytrees and returns a pytree. Python calls it once, so side effects happen once.
        Reverse mode repeats the recorded operations on the values that ``f`` read, so ``f`` may be
        defined in a loop.
    save : sequence of str
        Names of intermediate values that ``f`` marks with ``fg.probe``. They are stored as well,
        and only the other operations that the pullback needs are repeated.

    Returns
    -------
    callable
        A function with the same results. Reverse mode stores its inputs and results, and the values
        named by ``save``; pulling back through it costs one more evaluation. Forward mode is
        unchanged.

    Raises
    ------
    DifferentiationError
        ``f`` marks no value under one of the names.

    Notes
    -----
    Save small values that are expensive to compute, such as the matrix product before an
    elementwise function. A name may mark several values. Checkpoints inside ``f`` store the named
    values, too. A loop runs many times, so names in its function belong to a checkpoint around that
    function: ``fg.scan(fg.checkpoint(body, save=("h",)), ...)``.

    Only operations that depend on the arguments are repeated. Others, such as the operations that
    make a constant mask, run once, and their results are stored.

    Where to place checkpoints: Griewank and Walther, "Algorithm 799: revolve", ACM TOMS 26, 2000.
    Under nested reverse mode the innermost derivative saves the memory.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.grad(lambda x: fg.checkpoint(lambda y: (y * y) * y)(x))(2.0)
    Tensor(12.0)
    >>> def layer(w, x):
    ...     h = fg.probe(w @ x, "product")
    ...     return fg.numpy.tanh(h).sum()
    >>> fg.grad(fg.checkpoint(layer, save=("product",)))(fg.tensor([1.0, 0.0]), [0.0, 2.0])
    Tensor([0., 2.])
    """
    check_function("checkpoint", f)
    check_names("checkpoint", save, "save")
    names = frozenset(save)

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
        segment = Segment(with_structure, names)
        outs = _run(segment, values)
        count = len(outs) - len(segment.names)
        for name, value in zip(segment.names, outs[count:], strict=True):
            retain_named(name, value)
        return pytrees.unflatten(with_structure.aux, [wrap(out) for out in outs[:count]])

    return Transformed(checkpointed, "checkpoint", (checkpoint, (f, tuple(save))))
