"""The variables of a program that may share memory.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: (x + 1.0)[1:] * 2.0)(fg.tensor([1.0, 2.0, 3.0]))
>>> print(staged.to_text(sources=False))
program <lambda>(x: float64[3]) -> float64[2]
  a = constant 1.0
  b = constant 2.0
  c: float64[3] = add x a
  d: float64[2] = view c key=(slice(1, None, None),)
  e: float64[2] = multiply d b
  return e
>>> aliases(staged)[4]
(3,)
"""

from __future__ import annotations

from typing import TypeAlias

from funcgrad._programs.program import Program

Aliases: TypeAlias = list[tuple[int, ...]]


def aliases(program: Program) -> Aliases:
    """For each variable, the variables that own the memory it may use."""
    makers: Aliases = [(variable,) for variable in range(program.index.first_result)]
    for equation in program.equations:
        shared: set[int] = set()
        if not equation.operation.owns:  # a reshape or an index may return a view of its operand
            shared.update(*[makers[variable] for variable in equation.operands])
        for _ in equation.results:
            makers.append(tuple(sorted(shared)) or (len(makers),))
    return makers
