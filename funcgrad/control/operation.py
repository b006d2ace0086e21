"""Operations of control flow, which transformations treat as a whole, by rules of their own.

A loop or a choice runs programs, which are its parameters. It computes its results together with
their tangents, or with the residuals of its pullback, so a transformation does not look inside it,
but applies its *rules*.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from funcgrad.control.values import as_spec, specs_inside, strong, strong_program
from funcgrad.errors import DifferentiationError
from funcgrad.primitive import Primitive
from funcgrad.programs.program import Program
from funcgrad.quick_dataclasses import dataclass
from funcgrad.shape import Spec, dtype_of, is_inexact
from funcgrad.structure import Choice, Control, Loop
from funcgrad.trace import RAW, Trace, Value, begin_level, concrete
from funcgrad.transforms.auxiliary import WithAux
from funcgrad.transforms.explicit import has_linear_rules
from funcgrad.transforms.factors import fit_tangent
from funcgrad.transforms.flat_functions import CallPrimitive, call_primitive
from funcgrad.transforms.linear import LinearRecorder
from funcgrad.transforms.masked import Cotangent
from funcgrad.transforms.numberless import flat_program
from funcgrad.transforms.whole import Interpreter, Recording, Whole, meet

Params: TypeAlias = Mapping[str, Any]
Values: TypeAlias = Sequence[Value]


class ControlRecording:
    """The record of an operation that has run, from which reverse mode computes derivatives.

    Attributes
    ----------
    outs : list of values
        The results.
    connected : tuple of int
        The positions of the results that depend on the followed operands.
    """

    outs: list[Value]
    connected: tuple[int, ...]

    def pull(self, cts: Sequence[Cotangent]) -> Sequence[Cotangent]:
        """Return the operands' cotangents, from those of all results; None is an absent one."""
        raise NotImplementedError

    def push(self, tangents: Values) -> Values:
        """Return the results' tangents, from the operands'; None is zero."""
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
        ``(values, params) -> results``, of any values; applies the programs' operations one by one.
    """

    evaluate: Callable[[Values, Params], list[Value]]
    record: Callable[[Values, Sequence[bool], Params], ControlRecording]
    push: Callable[[Values, Values, Params], tuple[list[Value], Sequence[Value]]]
    batch: Callable[[int, Values, Sequence[bool], Params], tuple[list[Value], Sequence[bool]]]
    check_linear: Callable[[Sequence[bool], Params], None]
    unrolled: Callable[[Values, Params], list[Value]]


@dataclass(frozen=True, slots=True)
class _ControlCall(Whole):
    """An operation of control flow with its parameters."""

    primitive: Primitive
    rules: Rules
    params: Params
    first: int  # the first operand that the programs get
    programs: Sequence[Program]

    @property
    def is_linear(self) -> bool:
        return all(map(has_linear_rules, self.programs))

    def run(self, args: Values) -> list[Value]:
        return self.rules.unrolled(args, self.params)

    def evaluate(self, args: Values) -> list[Value]:
        return self.rules.evaluate([concrete(arg) for arg in args], self.params)

    def record(self, args: Values, followed: Sequence[bool]) -> Recording:
        pairs = zip(args, followed, strict=True)
        flags = [flag and is_inexact(dtype_of(arg)) for arg, flag in pairs]
        recording = self.rules.record(args, flags, self.params)
        return Recording(recording.outs, recording.pull, recording.push, recording.connected)

    def record_linearly(self, recorder: Interpreter, args: Values) -> list[Value]:
        if all(type(recorder.inner(arg)) in RAW for arg in args):
            return self.run(args)  # the numbers tell what is affine
        self.rules.check_linear([recorder.index_of(arg) >= 0 for arg in args], self.params)
        return self.record_in(recorder, args)

    def push(self, args: Values, tangents: list[Value]) -> tuple[list[Value], Values]:
        fitted_tangents = [
            fit_tangent(tangent, arg) if is_inexact(dtype_of(arg)) else None
            for arg, tangent in zip(args, tangents, strict=True)
        ]
        return self.rules.push(args, fitted_tangents, self.params)

    def batch(
        self, size: int, args: Values, flags: Sequence[bool], around: Trace | None = None
    ) -> tuple[list[Value], Sequence[bool]]:
        return self.rules.batch(size, args, flags, self.params)

    def interpret(self, trace: Interpreter, args: Values) -> list[Value]:
        values, params = _of_arrays(args, self.params, self.first)
        return list(trace.process(self.primitive, values, params))


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
    """Make the primitive of an operation of control flow.

    Parameters
    ----------
    name : str
    rules : Rules
    result : callable
        ``(*specs, **params) -> specs`` of the results.
    runs, leaner, form, begins : callable
        See ``Control``.
    first : int
        The position of the first operand that the programs take.
    label : callable, optional
        See ``Primitive``.
    """

    def run(values: Values, **params: Any) -> list[Value]:
        programs = [program for program, _ in runs(**params)]
        if not all(program.is_raw for program in programs):
            return rules.unrolled(values, params)  # the programs close over traced values
        return meet(_ControlCall(primitive, rules, params, first, programs), values)

    structure = Control(runs, form=form, leaner=leaner, begins=begins)
    primitive: Final = call_primitive(name, run, result, structure, label=label)
    return primitive


def _of_arrays(values: Values, params: Params, first: int) -> tuple[tuple[Value, ...], Params]:
    """Fit an operation's operands and its programs to each other.

    A Python number that a loop carries becomes an element of an array where its values at all steps
    are stacked. Programs that took the number are then converted to take an array.
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


def check_linear(name: str, program: Program, followed: Sequence[bool]) -> list[bool]:
    """Check that a program is linear in the followed inputs; return which results depend on them.

    Raises
    ------
    DifferentiationError
        The program is not linear.
    """

    def checked(values: Values) -> tuple[list[Value], list[bool]]:
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
        flags = [recorder.index_of(out) >= 0 for out in outs]
        return [recorder.inner(out) for out in outs], flags

    with_flags = WithAux(checked)
    flat_program(name, with_flags, program.inputs)
    return with_flags.aux
