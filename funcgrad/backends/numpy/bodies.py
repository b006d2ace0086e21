"""Programs inside of one that is compiled, as the bodies of loops: they are compiled with it.

The operation evaluates them as it would evaluate any program, and knows nothing of that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from funcgrad.backends.numpy.blocks import DEEPEST, form_of
from funcgrad.programs.builder import Draft, rewrite
from funcgrad.programs.equation import Equation
from funcgrad.programs.inline import with_changed_programs
from funcgrad.programs.program import Program
from funcgrad.shape import Spec, spec_of
from funcgrad.structure import Control
from funcgrad.trace import NUMBERS, Value


def _is_of(value: Value, spec: Spec) -> bool:
    kind = type(value)
    if kind is np.ndarray:
        return value.dtype is spec.dtype and value.shape == spec.shape and not spec.weak
    if spec.weak:
        return kind in NUMBERS and spec_of(value) == spec
    return kind is spec.dtype.type and not spec.shape


class CompiledBody(Program):
    """A program that runs in compiled form where its inputs are raw values of its specs."""

    __slots__ = ("_run",)
    _run: Callable[..., Sequence[Value] | None]

    def evaluate(self, values: Sequence[Value]) -> list[Value]:
        for value, spec in zip(values, self.inputs, strict=True):
            if not _is_of(value, spec):
                return Program.evaluate(self, values)
        outs = self._run(*values)
        # Where a guard does not hold, evaluation raises the error that says which.
        return Program.evaluate(self, values) if outs is None else list(outs)


def with_compiled_bodies(
    program: Program, compile: Callable[[Program], Any], depth: int = 1
) -> Program:
    """A program whose operations run compiled programs, but for those that are written out.

    Parameters
    ----------
    program : Program
    compile : callable
        From a program to ``(*raw inputs) -> raw outputs``, or None where a guard does not hold.
    depth : int
        The number of programs around it, which are written out.
    """

    def compiled(body: Program) -> Program:
        compiled_body: CompiledBody = object.__new__(CompiledBody)
        for field in fields(body):
            object.__setattr__(compiled_body, field.name, getattr(body, field.name))
        object.__setattr__(compiled_body, "_run", compile(body))
        return compiled_body

    def step(draft: Draft, equation: Equation) -> list[int]:
        if not isinstance(equation.operation.structure, Control):
            return draft.append(equation)
        specs = {variable: draft.spec(variable) for variable in equation.operands}
        if depth <= DEEPEST and form_of(equation, specs):
            deeper = partial(with_compiled_bodies, compile=compile, depth=depth + 1)
            return draft.append(with_changed_programs(equation, deeper))
        return draft.append(with_changed_programs(equation, compiled))

    if not any(isinstance(equation.operation.structure, Control) for equation in program.equations):
        return program
    return rewrite(program, step)
