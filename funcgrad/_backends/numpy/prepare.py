"""Rewrite an optimized program to the form that NumPy runs best.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: fg.checkpoint(lambda y: y * y)(x) + x)(3.0)
>>> print(prepared(staged).to_text(sources=False))
program <lambda>(x: float64[]) -> float64[]
  a: float64[] = multiply x x
  b: float64[] = add a x
  return b
"""

from __future__ import annotations

from funcgrad._backends import control_forms
from funcgrad._backends.decompose import bodies_for, decomposed
from funcgrad._backends.numpy.rows_last import put_rows_last
from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import Elementwise, Loop
from funcgrad._passes.pipeline import extended, optimize, simplified
from funcgrad._passes.trials_of_passes import tried
from funcgrad._programs.inline import inlined, with_programs_inside
from funcgrad._programs.program import Program


def prepared(program: Program, relaxed: bool = False) -> Program:
    """Rewrite an optimized program to the form that NumPy runs best.

    Parameters
    ----------
    program : Program
    relaxed : bool
        See ``optimize``.

    Returns
    -------
    Program
        A program with the same results. Calls are replaced by their equations, programs of loops
        and branches are prepared too, and arrays of many short rows have their rows last. Do not
        differentiate it: the derivative rules of calls are gone, and its derivatives would add in
        another order.
    """
    rewritten = with_programs_inside(
        tried(_without_calls, program), lambda body: prepared(optimize(body, relaxed), relaxed)
    )
    formulas = bodies_for(rewritten, _is_evaluated_by_formula)
    if rewritten is not program:
        rewritten = optimize(rewritten, relaxed, formulas)
    elif formulas:
        rewritten = extended(rewritten, relaxed, formulas)
    return tried(put_rows_last, rewritten)


def prepared_exactly(program: Program) -> Program:
    """Rewrite a program as ``prepared`` does, but so that all results keep every bit."""
    rewritten = with_programs_inside(_without_calls(program), prepared_exactly)
    return simplified(decomposed(rewritten, _is_evaluated_by_formula))


def _without_calls(program: Program) -> Program:
    """Replace calls, derivatives of loops, and loops over examples, by their equations."""
    return control_forms.written_out(inlined(control_forms.in_blocks(inlined(program), _all)))


def _all(loop: Loop) -> tuple[int, Loop]:
    """Return how many examples run together: operations on whole arrays take NumPy little time."""
    return loop.length or 0, loop


def written_out(program: Program) -> Program:
    """Replace calls, and operations with formulas, by the equations that they stand for.

    Operations of a formula then run in place and on Python's floats like all others, and a common
    subexpression is computed once. An operation with its own ``evaluate`` stays a call, because
    that is faster in NumPy.

    >>> import funcgrad as fg
    >>> print(written_out(fg.program(fg.nn.relu)(2.0)).to_text(sources=False))
    program relu(x: float64[]) -> float64[]
      a = constant 0
      b: float64[] = maximum x a
      return b
    """
    return decomposed(inlined(program), _is_evaluated_by_formula)


def _is_evaluated_by_formula(primitive: Primitive) -> bool:
    structure = primitive.structure
    evaluate = getattr(primitive.evaluate, "__wrapped__", primitive.evaluate)  # the user's own
    return (
        isinstance(structure, Elementwise)
        and structure.formula is not None
        and getattr(evaluate, "func", None) is structure.formula
    )
