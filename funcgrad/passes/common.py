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

from collections.abc import Hashable, Sequence

from funcgrad.equations import Equation, identity
from funcgrad.passes.rewrite import Draft, rewrite
from funcgrad.programs import Program

__all__ = ["merge_common_subexpressions"]


def merge_common_subexpressions(program: Program) -> Program:
    """Do equal operations on equal operands once, and keep equal constants once.

    Parameters are equal when nothing tells them apart (``identity``). A call with rules of its own
    is equal to itself only. What a checkpointed function does again is done again: merged with the
    first time, it would have to be remembered for as long as the checkpoint is to spare.
    """
    found: dict[Hashable, list[int]] = {}

    def step(draft: Draft, equation: Equation) -> Sequence[int]:
        params = identity(equation.params)
        key = equation.operation, equation.operands, params, equation.epoch
        if key not in found:
            found[key] = draft.append(equation)
        return found[key]

    return rewrite(program, step)
