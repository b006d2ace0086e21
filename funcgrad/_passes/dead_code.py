"""Dead code: drop equations on which neither outputs nor guards depend.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: (x * 2.0, x + 1.0)[1])(3.0)
>>> print(remove_dead_code(staged).to_text(sources=False))
program <lambda>(x: float64[]) -> float64[]
  a = constant 1.0
  b: float64[] = add x a
  return b
"""

from __future__ import annotations

from funcgrad._programs.builder import Draft, rewrite
from funcgrad._programs.extract import needed
from funcgrad._programs.program import Program


def remove_dead_code(program: Program) -> Program:
    """Drop unread equations and constants.

    Inputs stay, since callers pass them. Guards and the equations on which they depend stay, too.
    """
    live, read = needed(program, {*program.outputs, *program.index.guarded}, ())
    constants = range(len(program.inputs), program.index.first_result)
    if len(live) == len(program.equations) and read.issuperset(constants):
        return program
    return rewrite(program, Draft.append, live)
