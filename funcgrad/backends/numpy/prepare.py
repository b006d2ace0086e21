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

from collections.abc import Hashable, Mapping
from typing import Any

from funcgrad.backends.numpy.formulas import formulas_of
from funcgrad.backends.numpy.rows_last import put_rows_last
from funcgrad.passes.pipeline import extended, optimize
from funcgrad.primitive import Primitive
from funcgrad.programs.builder import Draft, rewrite
from funcgrad.programs.equation import Equation, exact_key
from funcgrad.programs.extract import extract
from funcgrad.programs.inline import inlined, with_programs_inside
from funcgrad.programs.program import Program
from funcgrad.structure import Control


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
        _written_out(inlined(program)), lambda body: prepared(optimize(body, relaxed), relaxed)
    )
    formulas = formulas_of(rewritten)
    if rewritten is not program:
        rewritten = optimize(rewritten, relaxed, formulas)
    elif formulas:
        rewritten = extended(rewritten, relaxed, formulas)
    return put_rows_last(rewritten)


def _written_out(program: Program) -> Program:
    """Replace operations that have no form by the loops that they declare (``Control.written``).

    Such an operation may repeat an earlier operation's work first, as the reverse sweep through a
    loop repeats that loop. Then one loop replaces both.
    """
    loops: dict[int, Program] = {}
    begun: dict[Hashable, Program] = {}
    for position, equation in enumerate(program.equations):
        structure = equation.operation.structure
        if isinstance(structure, Control) and structure.form is not None:
            loop = structure.form(**dict(equation.params))
            if isinstance(loop, Program):
                loops[position] = loop
                if structure.begins is not None:
                    begun[_beginning(equation, *structure.begins(**dict(equation.params)))] = loop
    if not loops:
        return program
    positions = iter(range(len(program.equations)))

    def step(draft: Draft, equation: Equation) -> list[int]:
        position = next(positions)
        count = len(equation.results)
        if position in loops:
            return draft.splice(loops[position], equation.operands)[-count:]
        original = program.equations[position]
        loop = begun.get((original.operation, exact_key(original.params), original.operands))
        if loop is None:
            return draft.append(equation)
        begins = extract(loop, range(len(original.operands)), loop.outputs[:count])
        return draft.splice(begins, equation.operands)

    return rewrite(program, step)


def _beginning(
    equation: Equation, operation: Primitive, params: Mapping[str, Any], count: int
) -> Hashable:
    """A key of the operation whose work an equation repeats: operation, parameters, operands."""
    return operation, exact_key(tuple(sorted(params.items()))), equation.operands[:count]
