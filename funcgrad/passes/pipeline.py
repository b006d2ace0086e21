"""All passes, until nothing changes any more.

>>> import funcgrad as fg
>>> print(optimize(fg.program(fg.grad(lambda x: x * x))(2.0)).to_text(sources=False))
program <lambda>(x: float64[]) -> float64[]
  a = constant 1.0
  b: float64[] = multiply a x
  c: float64[] = add b b
  return c
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from funcgrad.passes.common import merge_common_subexpressions
from funcgrad.passes.dead_code import remove_dead_code
from funcgrad.passes.fold import fold_constants
from funcgrad.passes.simplify import simplify
from funcgrad.programs import Program

__all__ = ["Pass", "optimize"]

Pass: TypeAlias = Callable[[Program], Program]

_PASSES: Final[tuple[Pass, ...]] = (
    simplify,
    fold_constants,
    merge_common_subexpressions,
    remove_dead_code,
)
_ROUNDS: Final = 8


def optimize(program: Program) -> Program:
    """A program that means the same and does less.

    Parameters
    ----------
    program : Program

    Returns
    -------
    Program
        With the inputs, outputs and guards of the other. Every element of every result has the bits
        that it had.

    Notes
    -----
    The passes run in turn until they change nothing; one round mostly suffices, and after a few
    it stops in any case.
    """
    program = remove_dead_code(program)  # the less is there, the less the others have to do
    for _ in range(_ROUNDS):
        before = program
        for each in _PASSES:
            program = each(program)
        if program == before:
            break
    return program
