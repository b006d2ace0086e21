"""Inlining: replace calls by their equations.

A call of a function with a custom derivative, or of a checkpointed function, is one equation, so
that its rules are available when the program is differentiated. Running the program does not need
the rules, and the equations inside can be fused with the surrounding ones. So passes keep calls,
and programs are inlined before they are compiled or shown as source.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: fg.checkpoint(lambda y: y * y)(x) + x)(3.0)
>>> print(inlined(staged).to_text(sources=False))
program <lambda>(x: float64[]) -> float64[]
  a: float64[] = multiply x x
  b: float64[] = add a x
  return b
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from funcgrad._core.structure.structures import Control
from funcgrad._programs.builder import Draft, rewrite
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program


def inlined(program: Program) -> Program:
    """Replace the calls in a program by their equations.

    The results are the same, and guards of the calls are kept. Derivatives follow from the
    operations, without the calls' rules. Calls without a program stay.
    """
    if not any(equation.called for equation in program.equations):
        return program

    def step(draft: Draft, equation: Equation) -> list[int]:
        body = equation.called
        return draft.append(equation) if body is None else draft.splice(body, equation.operands)

    return rewrite(program, step)


def with_changed_programs(equation: Equation, change: Callable[[Program], Program]) -> Equation:
    """Apply a function to each program among an equation's parameters."""
    params = tuple(
        [
            (name, change(value) if isinstance(value, Program) else value)
            for name, value in equation.params
        ]
    )
    if all(new is old for (_, new), (_, old) in zip(params, equation.params, strict=True)):
        return equation
    return replace(equation, params=params)


def with_programs_inside(
    program: Program,
    change: Callable[[Program], Program],
    stays: Callable[[Equation], bool] = lambda equation: False,
) -> Program:
    """Apply a function to the programs inside a program, such as the bodies of its loops.

    The programs of equations that ``stays`` chooses stay unchanged.
    """
    if not any(isinstance(equation.operation.structure, Control) for equation in program.equations):
        return program

    def step(draft: Draft, equation: Equation) -> list[int]:
        is_unchanged = stays(equation)
        return draft.append(equation if is_unchanged else with_changed_programs(equation, change))

    return rewrite(program, step)
