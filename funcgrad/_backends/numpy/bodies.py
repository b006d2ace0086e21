"""Compile the programs inside a program, such as the bodies of loops.

An operation evaluates a compiled body as it evaluates any program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from funcgrad._backends.control_forms import form_of
from funcgrad._backends.numpy.blocks import DEEPEST
from funcgrad._core.specs import Spec, spec_of
from funcgrad._core.structure.structures import Control
from funcgrad._core.trace import NUMBERS, Value
from funcgrad._programs.builder import Draft, rewrite
from funcgrad._programs.equation import Equation
from funcgrad._programs.inline import with_changed_programs
from funcgrad._programs.program import Program


def _is_of(value: Value, spec: Spec) -> bool:
    kind = type(value)
    if kind is np.ndarray:
        return value.dtype is spec.dtype and value.shape == spec.shape and not spec.weak
    if spec.weak:
        return kind in NUMBERS and spec_of(value) == spec
    return kind is spec.dtype.type and not spec.shape


class CompiledBody(Program):
    """A program whose ``evaluate`` runs compiled code on raw inputs of the right specs."""

    __slots__ = ("_run",)
    _run: Callable[..., Sequence[Value] | None]

    def evaluate(self, values: Sequence[Value]) -> list[Value]:
        for value, spec in zip(values, self.inputs, strict=True):
            if not _is_of(value, spec):
                return Program.evaluate(self, values)
        outs = self._run(*values)
        # If a guard fails, evaluation raises the error that names it.
        return Program.evaluate(self, values) if outs is None else list(outs)


def with_compiled_bodies(
    program: Program, compile: Callable[[Program], Any], depth: int = 1
) -> Program:
    """Compile the programs inside a program, except loops and choices that are written out.

    Parameters
    ----------
    program : Program
    compile : callable
        From a program to ``(*raw inputs) -> raw outputs``, which returns None if a guard fails.
    depth : int
        One more than the number of written-out programs around this one.
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
