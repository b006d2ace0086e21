"""Calls: what they do takes their place, in the program that runs.

A call of a function with a custom derivative, or of a checkpointed one, is one equation, so that
its rules are there when the program is differentiated. To run the program nobody needs them, and
the equations inside are better fused and shared with those around. So passes leave calls alone;
what is compiled, and what is shown as source, has none.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: fg.checkpoint(lambda y: y * y)(x) + x)(3.0)
>>> print(inlined(staged).to_text(sources=False))
program <lambda>(x: float64[]) -> float64[]
  a: float64[] = multiply x x
  b: float64[] = add a x
  return b
"""

from __future__ import annotations

from funcgrad.programs.builder import Draft, rewrite
from funcgrad.programs.equation import Equation
from funcgrad.programs.program import Program

__all__ = ["inlined"]


def inlined(program: Program) -> Program:
    """The program with the equations of its calls in their place.

    Parameters
    ----------
    program : Program

    Returns
    -------
    Program
        It computes the same; its derivatives are those of the operations, whatever rules the calls
        had. Guards of the calls are its own now. Calls of which nobody knows what they do stay.
    """
    if not any(equation.called for equation in program.equations):
        return program

    def step(draft: Draft, equation: Equation) -> list[int]:
        body = equation.called
        return draft.append(equation) if body is None else draft.splice(body, equation.operands)

    return rewrite(program, step)
