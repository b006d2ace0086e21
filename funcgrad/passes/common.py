"""Common subexpressions: the same operation on the same operands is done once.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: (x + 1.0) * (x + 1.0))(3.0)
>>> print(merge_common_subexpressions(staged).to_text(sources=False))
program <lambda>(x: float64[]) -> float64[]
  a = constant 1.0
  b: float64[] = add x a
  c: float64[] = multiply b b
  return c
"""

from __future__ import annotations

from funcgrad.passes.workbench import improve
from funcgrad.programs.program import Program


def merge_common_subexpressions(program: Program) -> Program:
    """Do equal operations on equal operands once, and keep equal constants once.

    Parameters are equal when nothing tells them apart (``exact_key``). Calls are equal where they
    follow the same rules and do the same; what is computed again on purpose (``Equation.epoch``)
    is equal to nothing of another epoch. It is what every table of rules does besides; here
    without any.
    """
    return improve(program, {})
