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
from funcgrad.programs.builder import Draft, rewrite
from funcgrad.programs.equation import Equation
from funcgrad.programs.inline import inlined, with_programs_inside
from funcgrad.programs.program import Program
from funcgrad.structure import Control

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
        _written_out(inlined(program)), lambda body: prepared(optimize(body, relaxed), relaxed)
    )
    formulas = formulas_of(runs)
    if runs is not program:
        runs = optimize(runs, relaxed, formulas)
    elif formulas:
        runs = extended(runs, relaxed, formulas)
    return put_rows_last(stack_small_operations(runs))


def _written_out(program: Program) -> Program:
    """A program with loops in the place of operations that a compiler could not write."""

    def step(draft: Draft, equation: Equation) -> list[int]:
        structure = equation.operation.structure
        if not isinstance(structure, Control) or structure.written is None:
            return draft.append(equation)
        loops = structure.written(**dict(equation.params))
        return draft.append(equation) if loops is None else draft.splice(loops, equation.operands)

    structures = [equation.operation.structure for equation in program.equations]
    if not any(isinstance(own, Control) and own.written for own in structures):
        return program
    return rewrite(program, step)
