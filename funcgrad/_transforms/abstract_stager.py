"""Staging functions without numbers: the bodies of loops, and programs made of programs.

A body runs on many values and is staged once, so it cannot branch on a value. It is staged for
specs; where it asks for a number, the error names the loop or the branch that it belongs to.

>>> import numpy as np
>>> twice = flat_program("twice", lambda x: [x[0] + x[0]], [Spec((2,), np.dtype(float))])
>>> print(twice.to_text(sources=False))
program twice(a: float64[2]) -> float64[2]
  b: float64[2] = add a a
  return b
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, takewhile
from typing import Any

from funcgrad._core.context import all_delegated, current, delegate
from funcgrad._core.specs import Spec, stand_in
from funcgrad._core.structure.structures import Control
from funcgrad._core.trace import RAW, Value, begin_level, running_traces
from funcgrad._programs.equation import Equation, spec_inside
from funcgrad._programs.program import Program
from funcgrad._transforms.batcher import Batcher
from funcgrad._transforms.call import Call
from funcgrad._transforms.calls import RuleCall
from funcgrad._transforms.composite import Composite
from funcgrad._transforms.record import Recorder
from funcgrad._transforms.stager import Staged, Stager
from funcgrad.errors import TracerError


class AbstractStager(Stager):
    """A stager of a function on abstract values; ``place`` names it in errors."""

    __slots__ = ("place",)

    def __init__(self, level: int, place: str, around: Stager | None = None) -> None:
        super().__init__(level, numbers=False, around=around, title=place)
        self.title = place
        self.place = place

    def need_numbers(self, *used: Staged) -> None:
        self.check()
        raise TracerError(
            f"{self.place}: a traced value is used in Python, as in if, while, int(t) or float(t)."
            " The function is staged once and runs on many values, so it has no single value here."
            " Choose with fg.cond or fnp.where, and loop with fg.while_loop. Outside the function,"
            " values that do not depend on its arguments may be used in Python."
        )

    def process_call(self, call: Composite, args: Sequence[Value]) -> list[Value]:
        if isinstance(call, Call) and not isinstance(call, RuleCall):
            raise TracerError(
                f"{self.place}: {call.name}: in a function that is staged once and runs many times,"
                " such as the body of a loop, one value stands for many. Name the result of the"
                " loop instead."
            )
        return super().process_call(call, args)

    def append_program(self, program: Program, values: Sequence[Value]) -> list[Value]:
        """Append the equations of a program, whose inputs are values of this stager or raw."""
        known = [*values, *[constant.value for constant in program.constants]]
        variables: dict[int, int] = {}
        line, inputs = self._source(), len(known)

        def variable(k: int) -> int:
            if k not in variables:
                variables[k] = self._variable(known[k])
            return variables[k]

        for equation, results in zip(program.equations, program.index.results, strict=True):
            operands = tuple([variable(k) for k in equation.operands])
            source = equation.source or line
            appended = Equation(
                equation.operation, operands, equation.params, equation.results, source
            )
            variables.update(zip(results, count(self._append(appended)), strict=False))
        specs = program.specs()
        return [
            known[k] if k < inputs else self._tracer(stand_in(specs[k]), variables[k])
            for k in program.outputs
        ]


def applied(program: Program, values: Sequence[Value]) -> list[Value]:
    """The outputs of a program, as ``Program.evaluate`` gives them.

    Where the values are abstract, its equations are appended unchanged: staging
    operation by operation takes ten times as long.
    """
    stager = next((value._trace for value in values if type(value) is Staged), None)
    if isinstance(stager, AbstractStager) and _is_appended(stager, program, values):
        return stager.append_program(program, values)
    return program.evaluate(values)


def _is_appended(stager: AbstractStager, program: Program, values: Sequence[Value]) -> bool:
    """Whether staging a program's operations on these values would give the same equations."""
    if program.guards or current().rerun is not None or delegate(stager) is not None:
        return False
    known: list[bool] = []  # whether the stager has the value
    for value, spec in zip(values, program.inputs, strict=True):
        is_staged = type(value) is Staged and value._trace is stager
        if spec_inside(value) != spec or not (is_staged or type(value) in RAW):
            return False
        known.append(is_staged)
    known += [False] * len(program.constants)
    for equation in program.equations:
        if not any(known[k] for k in equation.operands) or not _is_plain(equation):
            return False
        known += [True] * len(equation.results)
    return program.is_raw


def _is_plain(equation: Equation) -> bool:
    """Whether an equation is the same wherever it is staged; a call, with its rules, is not."""
    structure = equation.operation.structure
    if equation.epoch or equation.operation.is_foreign:
        return False
    if not isinstance(structure, Control):
        return True
    runs = structure.runs(**dict(equation.params))
    return not structure.inlines and all(program.is_raw for program, _ in runs)


def flat_program(
    name: str, function: Callable[[Sequence[Value]], Sequence[Value]], specs: Sequence[Spec]
) -> Program:
    """The program of a function from values to values, for inputs of these specs."""
    with begin_level() as level:
        stager = AbstractStager(level, name)
        program, _, _ = stager.body(
            lambda values: list(function(values)), name, [stand_in(spec) for spec in specs]
        )
    return program


def running_stager() -> Stager | None:
    """The innermost stager that is running in this context."""
    return next((trace for trace in running_traces() if isinstance(trace, Stager)), None)


def staged_body(
    stager: Stager | None,
    place: str,
    function: Callable[[Sequence[Value]], list[Value]],
    specs: Sequence[Spec],
    name: str,
    holds_all: bool = False,
) -> tuple[Program, list[Value]]:
    """Stage a function as a program whose last inputs are the traced values that it closes over.

    Also returns these values, which are unknown without the ``stager`` of the function around.
    ``place`` names the function in errors. With ``holds_all`` operations on values that the
    function closes over belong to the program too, as in a branch, which may not run. Otherwise
    they happen outside, once, as a loop needs, but for calls whose pullback may be nonlinear: once
    is not what the rule does at every step.
    """
    # Those further out as long as all inside of them do, whose tracers would hold tracers of this.
    kinds = Stager | Recorder if holds_all else Stager | Recorder | Batcher
    traces: list[Any] = [*takewhile(lambda trace: isinstance(trace, kinds), running_traces())]
    for trace in traces:
        if isinstance(trace, Recorder):
            trace.is_plain = False
    with begin_level() as level:
        stager_inside = AbstractStager(level, place, stager)
        stager_inside.open_calls = {} if stager is None else stager.open_calls
        with all_delegated(traces, stager_inside, only_nonlinear=not holds_all):
            stand_ins = [stand_in(spec) for spec in specs]
            program, closed, _ = stager_inside.body(function, name, stand_ins)
    return program, closed
