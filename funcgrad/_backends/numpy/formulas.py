"""Replace calls and operations with formulas by the equations that they stand for.

A formula's operations run in place, in kernels and on Python's floats like all others, and share
common subexpressions with other equations. An operation with its own ``evaluate``, which is faster
in NumPy, is called instead.

>>> import funcgrad as fg
>>> print(written_out(fg.program(fg.nn.relu)(2.0)).to_text(sources=False))
program relu(x: float64[]) -> float64[]
  a = constant 0
  b: float64[] = maximum x a
  return b
"""

from __future__ import annotations

from funcgrad._backends.decompose import bodies_for, decomposed
from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import Elementwise
from funcgrad._passes.workbench import Rules
from funcgrad._programs.inline import inlined
from funcgrad._programs.program import Program


def written_out(program: Program) -> Program:
    """Replace calls and formulas in a program by their equations."""
    return decomposed(inlined(program), _is_evaluated_by_formula)


def formulas_of(program: Program) -> Rules:
    """Rewrite rules that replace a program's operations by their formulas."""
    return bodies_for(program, _is_evaluated_by_formula)


def _is_evaluated_by_formula(primitive: Primitive) -> bool:
    structure = primitive.structure
    evaluate = getattr(primitive.evaluate, "__wrapped__", primitive.evaluate)  # the user's own
    return (
        isinstance(structure, Elementwise)
        and structure.formula is not None
        and getattr(evaluate, "func", None) is structure.formula
    )
