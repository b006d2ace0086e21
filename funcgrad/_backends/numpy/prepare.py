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

from funcgrad._backends.control_forms import written_out
from funcgrad._backends.numpy.formulas import formulas_of
from funcgrad._backends.numpy.rows_last import put_rows_last
from funcgrad._passes.pipeline import extended, optimize
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
        A program with the same results, in which calls are replaced by their equations, the
        programs of loops and branches are prepared too, and arrays of many short rows have their
        rows last. It is not meant to be differentiated: it lacks the rules of calls, and sums in
        its derivatives would have another order.
    """
    rewritten = with_programs_inside(
        written_out(inlined(program)), lambda body: prepared(optimize(body, relaxed), relaxed)
    )
    formulas = formulas_of(rewritten)
    if rewritten is not program:
        rewritten = optimize(rewritten, relaxed, formulas)
    elif formulas:
        rewritten = extended(rewritten, relaxed, formulas)
    return put_rows_last(rewritten)
