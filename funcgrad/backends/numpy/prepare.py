"""An optimized program as NumPy runs it best.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: fg.checkpoint(lambda y: y * y)(x) + x)(3.0)
>>> print(prepared(staged).to_text(sources=False))
program <lambda>(x: float64[]) -> float64[]
  a: float64[] = multiply x x
  b: float64[] = add a x
  return b
"""

from __future__ import annotations

from funcgrad.backends.numpy.formulas import formulas_of
from funcgrad.backends.numpy.rows_last import put_rows_last
from funcgrad.backends.numpy.stacking import stack_small_operations
from funcgrad.passes.pipeline import extended, optimize
from funcgrad.programs.inline import inlined, with_programs_inside
from funcgrad.programs.program import Program

__all__ = ["prepared"]


def prepared(program: Program, relaxed: bool = False) -> Program:
    """An optimized program as it is best run.

    Parameters
    ----------
    program : Program
    relaxed : bool
        As for ``optimize``.

    Returns
    -------
    Program
        Without calls, with the programs inside, as the bodies of loops, prepared likewise, with
        small operations stacked and with arrays of many short rows turned. Its results are those of
        the other; it is not meant to be differentiated, since the rules of calls are gone, and sums
        in its derivatives have another order.
    """
    runs = with_programs_inside(
        inlined(program), lambda body: prepared(optimize(body, relaxed), relaxed)
    )
    formulas = formulas_of(runs)
    if runs is not program:
        runs = optimize(runs, relaxed, formulas)
    elif formulas:
        runs = extended(runs, relaxed, formulas)
    return put_rows_last(stack_small_operations(runs))
