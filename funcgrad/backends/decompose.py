"""Operations that a compiler lacks, written in those that it has.

>>> import funcgrad as fg
>>> staged = fg.program(fg.nn.softplus)(fg.tensor([1.0, 2.0]))
>>> print(decomposed(staged, lambda primitive: True).to_text(sources=False))
program softplus(x: float64[2]) -> float64[2]
  a = constant 0
  b: float64[2] = maximum x a
  c: float64[2] = absolute x
  d: float64[2] = negative c
  e: float64[2] = exp d
  f: float64[2] = log1p e
  g: float64[2] = add b f
  return g
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial

import numpy as np

from funcgrad.algebra import body_of
from funcgrad.primitive import Primitive
from funcgrad.programs.builder import Draft, rewrite
from funcgrad.programs.equation import Equation, exact_key
from funcgrad.programs.program import Program
from funcgrad.shape import stand_in
from funcgrad.transforms.stage import program as staged

__all__ = ["decomposed"]


def decomposed(program: Program, lacks: Callable[[Primitive], bool]) -> Program:
    """The program with the bodies of some operations in their place.

    Parameters
    ----------
    program : Program
    lacks : callable
        Whether the compiler lacks a primitive. Where that has no body it stays.

    Returns
    -------
    Program
        The same object if nothing has changed. Of a body that looks at numbers, or whose result has
        another dtype for these operands, nothing is taken.
    """
    operations = {equation.operation for equation in program.equations}
    bodies = {each: body_of(each) for each in operations if lacks(each)}
    if not any(bodies.values()):
        return program
    known: dict[Hashable, Program] = {}

    def step(draft: Draft, equation: Equation) -> list[int]:
        body = bodies.get(equation.operation)
        if body is None:
            return draft.append(equation)
        specs = [draft.spec(operand) for operand in equation.operands]
        params = equation.params
        key = equation.operation, exact_key(tuple(params)), tuple(specs)
        if key not in known:
            with np.errstate(all="ignore"):
                values = [stand_in(spec) for spec in specs]
                known[key] = staged(partial(body, **dict(params)))(*values)
        found = known[key]
        made = tuple([found.specs()[output] for output in found.outputs])
        if found.guards or made != equation.results:
            return draft.append(equation)
        return draft.splice(_at(found, equation), equation.operands)

    return rewrite(program, step)


def _at(body: Program, equation: Equation) -> Program:
    """A body whose equations come from where an equation does."""
    moved = [replace(own, source=equation.source, epoch=equation.epoch) for own in body.equations]
    return replace(body, equations=tuple(moved))
