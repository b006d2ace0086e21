"""Common subexpressions: equal operations on equal operands are computed once.

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

from funcgrad._passes.workbench import improve
from funcgrad._programs.program import Program


def merge_common_subexpressions(program: Program) -> Program:
    """Compute equal operations on equal operands once, and store equal constants once.

    Parameters have to be identical (``exact_key``: 2 is not 2.0). Calls are equal if their rules
    and programs are equal. Equations of different epochs are never merged: a later epoch repeats
    work on purpose (``Equation.epoch``). ``improve`` merges with any table of rules; this pass only
    merges.
    """
    return improve(program, {})
