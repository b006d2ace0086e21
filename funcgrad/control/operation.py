"""How an operation of control flow meets a transformation: by rules of its own, as a whole.

A loop or a branch runs programs, which are its parameters. Its results come together with their
tangents, or with the residuals of its pullback, so it meets a transformation as a whole, by its
*rules*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from funcgrad.control.values import as_spec, specs_inside, strong, strong_program
from funcgrad.errors import DifferentiationError
from funcgrad.primitive import Linearized, Primitive
from funcgrad.primitives.broadcasting import broadcast_to
from funcgrad.programs.program import Program
from funcgrad.quick_dataclasses import dataclass
from funcgrad.shape import Spec, dtype_of, is_inexact, shape_of
from funcgrad.structure import Choice, Control, Loop
from funcgrad.trace import RAW, Value, begin_level, concrete
from funcgrad.transforms.accumulation import Variables, accumulate
from funcgrad.transforms.batch import Batcher
from funcgrad.transforms.call import innermost_trace
from funcgrad.transforms.delegation import delegate
from funcgrad.transforms.entries import Entry
from funcgrad.transforms.factors import fit_tangent
from funcgrad.transforms.flat_functions import CallPrimitive
from funcgrad.transforms.forward import Pusher
from funcgrad.transforms.linear import LinearRecorder
from funcgrad.transforms.masked import Cotangent
from funcgrad.transforms.numberless import flat_program
from funcgrad.transforms.record import Recorder

Params: TypeAlias = Mapping[str, Any]
Values: TypeAlias = Sequence[Value]


class ControlRecording:
    """The record of an operation that has run, from which reverse mode computes its derivatives.

    Attributes
    ----------
    outs : list of values
        The results.
    connected : tuple of int
        The places of the results that depend on the followed operands.
    """

    outs: list[Value]
    connected: tuple[int, ...]

    def pull(self, cts: Sequence[Cotangent]) -> Sequence[Cotangent]:
        """The operands' cotangents, from those of all results; None is absent."""
        raise NotImplementedError

    def push(self, tangents: Values) -> Values:
        """The results' tangents, from the operands'; None is zero."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of an operation, one for each transformation.

    Attributes
    ----------
    evaluate : callable
        ``(values, params) -> results``, of raw values.
    record : callable
        ``(values, followed, params) -> ControlRecording``.
    push : callable
        ``(values, tangents, params) -> (results, tangents)``; a tangent may be None.
    batch : callable
        ``(size, values, flags, params) -> (results, flags)``; flagged values have the batch on
        axis 0.
    check_linear : callable
        ``(followed, params)``: raises unless the operation is linear in the followed operands.
    unrolled : callable
        ``(values, params) -> results``, of any values, operation by operation of the programs.
    """

    evaluate: Callable[[Values, Params], list[Value]]
    record: Callable[[Values, Sequence[bool], Params], ControlRecording]
    push: Callable[[Values, Values, Params], tuple[list[Value], Sequence[Value]]]
    batch: Callable[[int, Values, Sequence[bool], Params], tuple[list[Value], Sequence[bool]]]
    check_linear: Callable[[Sequence[bool], Params], None]
    unrolled: Callable[[Values, Params], list[Value]]


@dataclass(slots=True, eq=False)
class ControlEntry(Entry):
    """An operation that was recorded as a whole."""

    recording: ControlRecording
    operands: Sequence[int]

    def push(self, tangents: Variables) -> list[Value]:
        operand_tangents = [tangents[operand] for operand in self.operands]
        if all(tangent is None for tangent in operand_tangents):
            return [None] * len(self.recording.connected)
        pushed = self.recording.push(operand_tangents)
        return [pushed[k] for k in self.recording.connected]

    def pull_from(self, cotangents: Variables, ct: Sequence[Cotangent]) -> None:
        result_cts: list[Cotangent] = [None] * len(self.recording.outs)
        for k, connected_ct in zip(self.recording.connected, ct, strict=True):
            result_cts[k] = connected_ct
        for operand, g in zip(self.operands, self.recording.pull(result_cts), strict=True):
            if operand >= 0 and g is not None:
                accumulate(cotangents, operand, g)


def control_primitive(
    name: str,
    rules: Rules,
    result: Callable[..., tuple[Spec, ...]],
    runs: Callable[..., Sequence[tuple[Program, int | None]]],
    leaner: Callable[..., tuple[Params, list[int], list[int]] | None] | None = None,
    form: Callable[..., Loop | Choice | Program | None] | None = None,
    first: int = 0,
    begins: Callable[..., tuple[Primitive, Params, int]] | None = None,
    label: Callable[..., str] | None = None,
) -> CallPrimitive:
    """An operation of control flow.

    Parameters
    ----------
    name : str
    rules : Rules
    result : callable
        ``(*specs, **params) -> specs`` of the results.
    runs, leaner, form, begins : callable
        See ``Control``.
    first : int
        The first operand that the programs get.
    label : callable, optional
        See ``Primitive``.
    """

    def evaluate(*values: Value, **params: Any) -> tuple[Value, ...]:
        return tuple(rules.evaluate(values, params))

    def meet(values: Values, **params: Any) -> list[Value]:
        if not all(program.is_raw for program, _ in runs(**params)):
            return rules.unrolled(values, params)  # what its programs close over is traced as well
        trace: Any = innermost_trace(values)
        if trace is None:
            return rules.evaluate([concrete(value) for value in values], params)
        trace.check()
        if isinstance(trace, Recorder):
            deputy = None if trace.is_plain else delegate(trace)
            if deputy is None:
                return _record(rules, trace, values, params)
            trace = deputy
        if isinstance(trace, Pusher):
            return _push(rules, trace, values, params)
        if isinstance(trace, Batcher):
            return _batch(rules, trace, values, params)
        fitted_values, fitted_params = _of_arrays(values, params, first)
        return list(trace.process(primitive, fitted_values, fitted_params))

    def push(tangents: Values, _: Any, *values: Value, **params: Any) -> tuple[Value, ...]:
        return tuple(rules.push(values, tangents, params)[1])

    def batch(
        _: Primitive, size: int, args: Values, batched: Sequence[bool], params: Params
    ) -> tuple[Value, ...]:
        outs, flags = rules.batch(size, args, batched, params)
        return tuple(
            [
                out if flag else broadcast_to(out, shape=(size, *shape_of(out)))
                for out, flag in zip(outs, flags, strict=True)
            ]
        )

    primitive: Final = CallPrimitive(
        name,
        evaluate,
        result,
        Linearized(push),
        batch,
        structure=Control(runs, form=form, leaner=leaner, begins=begins),
        label=label,
        meet=meet,
    )
    return primitive


def _of_arrays(values: Values, params: Params, first: int) -> tuple[tuple[Value, ...], Params]:
    """An operation's operands and parameters, fitted to each other.

    A Python number that a loop carries becomes an element of an array where its values at all steps
    are stacked. A program that took the number then gets an array, so it is converted, too.
    """
    programs = {name: param for name, param in params.items() if isinstance(param, Program)}
    specs = specs_inside(values[first:])
    most = max(programs.values(), key=lambda program: len(program.inputs)).inputs
    if all(
        input_spec.dtype == spec.dtype and input_spec.weak == spec.weak
        for input_spec, spec in zip(most, specs, strict=False)
    ):
        return tuple(values), params
    fitted = [
        as_spec(value, strong(spec)) for value, spec in zip(values[first:], most, strict=False)
    ]
    strong_programs = {name: strong_program(program) for name, program in programs.items()}
    return (*values[:first], *fitted), {**params, **strong_programs}


def _record(rules: Rules, recorder: Recorder, values: Values, params: Params) -> list[Value]:
    operands = [recorder.index_of(value) for value in values]
    inner = [recorder.inner(value) for value in values]
    followed = [
        operand >= 0 and is_inexact(dtype_of(value))
        for operand, value in zip(operands, inner, strict=True)
    ]
    if isinstance(recorder, LinearRecorder):
        if all(type(value) in RAW for value in inner):  # the numbers tell what is affine
            return rules.unrolled(values, params)
        rules.check_linear([operand >= 0 for operand in operands], params)
    recording = rules.record(inner, followed, params)
    outs = list(recording.outs)
    if recording.connected:
        connected = [outs[k] for k in recording.connected]
        tracers = recorder.append_call(ControlEntry(recording, operands), connected)
        for k, tracer in zip(recording.connected, tracers, strict=True):
            outs[k] = tracer
    return outs


def _push(rules: Rules, pusher: Pusher, values: Values, params: Params) -> list[Value]:
    parts = [pusher.parts(value) for value in values]
    primals = [primal for primal, _ in parts]
    tangents = [
        fit_tangent(tangent, primal) if is_inexact(dtype_of(primal)) else None
        for primal, tangent in parts
    ]
    outs, pushed = rules.push(primals, tangents, params)
    return [pusher.dual(out, tangent) for out, tangent in zip(outs, pushed, strict=True)]


def _batch(rules: Rules, batcher: Batcher, values: Values, params: Params) -> list[Value]:
    parts = [batcher.parts(value) for value in values]
    outs, flags = rules.batch(
        batcher.size, [value for value, _ in parts], [flag for _, flag in parts], params
    )
    return [batcher.follow(out) if flag else out for out, flag in zip(outs, flags, strict=True)]


def check_linear(name: str, program: Program, followed: Sequence[bool]) -> list[bool]:
    """Which results of a program depend on the followed inputs, in which it has to be linear.

    Raises
    ------
    DifferentiationError
        It is not linear.
    """
    flags: list[bool] = []

    def checked(values: Values) -> list[Value]:
        with begin_level() as level:
            recorder = LinearRecorder(level)
            try:
                pairs = zip(values, followed, strict=True)
                outs = program.evaluate([recorder.follow(x) if flag else x for x, flag in pairs])
            except DifferentiationError as error:
                raise DifferentiationError(
                    f"{error} (In the function that {name} runs.)"
                ) from error
            finally:
                recorder.close()
        flags[:] = [recorder.index_of(out) >= 0 for out in outs]
        return [recorder.inner(out) for out in outs]

    flat_program(name, checked, program.inputs)
    return flags
