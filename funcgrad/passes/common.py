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

    Parameters are equal when nothing tells them apart (``exact_key``). Calls are equal if their
    rules and their programs are. Equations that are computed again on purpose (``Equation.epoch``)
    are equal to none of another epoch. Every table of rules does this as well; here it is done
    alone.
    """
    return improve(program, {})
