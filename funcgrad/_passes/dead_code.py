"""Drop things that nothing reads: equations, and results of loops and branches.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: (x * 2.0, x + 1.0)[1])(3.0)
>>> print(remove_dead_code(staged).to_text(sources=False))
program <lambda>(x: float64[]) -> float64[]
  a = constant 1.0
  b: float64[] = add x a
  return b
>>> def last(xs):
...     return fg.scan(lambda c, x: (c + x, c * c), fg.tensor(0.0), xs)[0]
>>> print(leave_out_unread(fg.program(last)(fg.tensor([1.0, 2.0]))).to_text(sources=False))
program last(xs: float64[2]) -> float64[]
  a = constant 0.0
  b: float64[] = scan a xs body=<<lambda>> carried=1 length=2 shared=0
    program <lambda>(a: float64[], b: float64[]) -> float64[]
      c: float64[] = add a b
      return c
  return b
"""

from __future__ import annotations

from dataclasses import replace

from funcgrad._core.structure.structures import Control
from funcgrad._programs.builder import Draft, rewrite
from funcgrad._programs.equation import Equation
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


def leave_out_unread(program: Program) -> Program:
    """Drop the unread results of loops and branches.

    Equations in the bodies, and operands, that only these results need are dropped, too.
    """
    read = {*program.outputs, *program.index.guarded}
    all_results = program.index.results
    leaner: dict[int, tuple[Equation, list[int]]] = {}
    live: set[int] = set()  # other equations may still read a dropped result
    for position in range(len(program.equations) - 1, -1, -1):
        equation = program.equations[position]
        flags = [variable in read for variable in all_results[position]]
        if True not in flags:
            continue
        replacement = None if False not in flags else _leaner(equation, flags)
        if replacement is not None:
            leaner[position], (equation, _) = replacement, replacement
        live.add(position)
        read.update(equation.operands)
    if not leaner:
        return program
    positions = iter(sorted(live))

    def step(draft: Draft, equation: Equation) -> list[int]:
        position = next(positions)
        if position not in leaner:
            return draft.append(equation)
        before = program.equations[position].operands
        lean, read_results = leaner[position]
        moved = dict(zip(before, equation.operands, strict=True))
        variables = draft.append(lean.on(tuple([moved[variable] for variable in lean.operands])))
        # Dropped results are never read, so any variable can replace them.
        places = dict(zip(read_results, variables, strict=True))
        return [places.get(k, variables[0]) for k in range(len(equation.results))]

    return rewrite(program, step, live)


def _leaner(equation: Equation, read: list[bool]) -> tuple[Equation, list[int]] | None:
    """An equation with only the results that are read, and their old positions."""
    structure = equation.operation.structure
    if not isinstance(structure, Control) or structure.leaner is None:
        return None
    lean_fields = structure.leaner(tuple(read), **dict(equation.params))
    if lean_fields is None:
        return None
    params, operands, results = lean_fields
    lean = replace(
        equation,
        operands=tuple([equation.operands[k] for k in operands]),
        params=tuple(sorted(params.items())),
        results=tuple([equation.results[k] for k in results]),
    )
    return lean, results
