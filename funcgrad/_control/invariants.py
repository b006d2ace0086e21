"""Split a loop's body: equations with the same value at every step move in front of the loop.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> body = fg.program(lambda w, c: fnp.sin(w) * c)(2.0, 3.0)
>>> before, step_body, shared = split_invariants(body, 1)
>>> print(before.to_text(sources=False))
program <lambda>(w: float64[]) -> float64[]
  a: float64[] = sin w
  return a
>>> print(step_body.to_text(sources=False), shared)
program <lambda>(a: float64[], c: float64[]) -> float64[]
  b: float64[] = multiply a c
  return b []
"""

from __future__ import annotations

from collections.abc import Sequence

from funcgrad._control.inactive_examples import may_refuse
from funcgrad._control.values import specs_inside
from funcgrad._core.structure.structures import Loop
from funcgrad._core.trace import Value
from funcgrad._programs.extract import extract, rewired
from funcgrad._programs.program import Program
from funcgrad._transforms.frozen_calls import calls_in


def hoisted(loop: Loop, shared: Sequence[Value]) -> tuple[Loop, list[Value]]:
    """Run the equations with the same value at every step, and take them out of the loop.

    Returns the changed loop and its shared operands. Nothing runs or changes where such an equation
    might refuse its numbers, unless the loop surely has a step.
    """
    before, body, read = split_invariants(loop.body, loop.shared)
    if before is not None and not loop.length and may_refuse(before):
        return loop, list(shared)
    more = [] if before is None else before.evaluate(shared)
    if loop.condition is None:
        operands = [*[shared[k] for k in read], *more]
        return loop._replace(body=body, shared=len(operands)), operands
    start, stop = loop.shared, loop.shared + len(more)
    specs = [*loop.body.inputs[:start], *specs_inside(more), *loop.body.inputs[start:]]

    behind = range(stop, len(specs))
    changed = loop._replace(
        body=rewired(body, specs, [*read, *range(start, stop), *behind]),
        condition=rewired(loop.condition, specs, [*range(start), *behind]),
        shared=stop,
    )
    return changed, [*shared, *more]


def invariant_variables(program: Program, consts: int) -> set[int]:
    """Return the variables that depend only on constants and the first ``consts`` inputs.

    Excluded are results of operations that run foreign Python, which may print, and of calls whose
    pullback may be nonlinear, since it is applied to the cotangents of each step.
    """
    invariant = {*range(consts), *range(len(program.inputs), program.index.first_result)}
    for equation, results in zip(program.equations, program.index.results, strict=True):
        is_settled = not equation.operation.is_foreign and invariant.issuperset(equation.operands)
        if is_settled and all(call.is_linear for call in calls_in([equation])):
            invariant.update(results)
    return invariant


def split_invariants(body: Program, consts: int) -> tuple[Program | None, Program, list[int]]:
    """Split a body into a program that runs before the loop, and one that runs at each step.

    The first program takes the first ``consts`` inputs, which are the same at every step; it is
    None where nothing moves in front of the loop. The second takes those of these inputs that it
    reads, the results of the first, and the other inputs. Also returns the positions that it reads.
    """
    invariant = invariant_variables(body, consts)
    read = {*body.outputs}
    moved: set[int] = set()
    for equation, results in zip(body.equations, body.index.results, strict=True):
        if results and invariant.issuperset(results):
            moved.update(results)
        else:
            read.update(equation.operands)
    wanted = sorted(moved & read)
    before = extract(body, range(consts), wanted) if wanted else None
    shared = [variable for variable in range(consts) if variable in read]
    if not wanted and len(shared) == consts:
        return None, body, shared
    others = range(consts, len(body.inputs))
    return before, extract(body, [*shared, *wanted, *others], body.outputs), shared
