"""Loops and choices that differ from example to example of a batch, as loops over the examples.

Where a loop ends for each example by itself, or each example chooses a branch, the operation on a
staged batch is a loop over the examples. Its body is the operation for one example. So an example
takes the steps that it needs, and its results do not depend on the other examples. Where a few
operations on whole arrays take less time, as in NumPy, several examples or all of them run
*together*: the body on a batch.

>>> import funcgrad as fg
>>> triple = fg.vmap(lambda x: fg.while_loop(lambda c: c < 9.0, lambda c: c * 3.0, x))
>>> print(fg.program(triple)(fg.tensor([1.0, 4.0])).to_text(sources=False))
program <lambda>(x: float64[2]) -> float64[2]
  a: float64[2] = scan x body=<<lambda>> carried=0 examples=True length=2 shared=0
    program <lambda>(a: float64[]) -> float64[]
      b: float64[] = while_loop a body=<<lambda>> carried=1 condition=<<lambda>> shared=0
        program <lambda>(a: float64[]) -> float64[]
          b = constant 3.0
          c: float64[] = multiply a b
          return c
        program <lambda>(a: float64[]) -> bool[]
          b = constant 9.0
          c: bool[] = less a b
          return c
      return b
  return a

"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from funcgrad._control.spread import spread
from funcgrad._control.values import batched_program
from funcgrad._core.context import current, entered
from funcgrad._core.specs import Spec, dtype_of, shape_of
from funcgrad._core.structure.structures import Choice, Control, Loop
from funcgrad._core.trace import Value
from funcgrad._programs.equation import Equation, spec_inside
from funcgrad._programs.program import Program
from funcgrad._transforms.abstract_stager import flat_program
from funcgrad._transforms.answers import is_staged

Flags: TypeAlias = Sequence[bool]


def may_run_apart(size: int, args: Sequence[Value], programs: Sequence[Program]) -> bool:
    """Whether a batch is staged, and its programs may run for one example after the other.

    Effects of a program that runs for all examples at once would change their order and number.
    """
    if size < 2 or not current().by_example or not any(map(is_staged, args)):
        return False
    return all(program.is_raw and not program.index.effects for program in programs)


def over_examples(
    operation: Callable[[Sequence[Value]], list[Value]],
    name: str,
    size: int,
    args: Sequence[Value],
    flags: Flags,
) -> tuple[list[Value], Loop]:
    """Stage an operation for one example; return a loop over a batch, and its operands.

    Flagged operands have the batch.
    """
    order = sorted(range(len(args)), key=flags.__getitem__)  # what all examples share comes first
    places = sorted(range(len(args)), key=order.__getitem__)

    def one(values: Sequence[Value]) -> list[Value]:
        return operation([values[place] for place in places])

    specs = [
        Spec(shape_of(args[k])[1:], dtype_of(args[k])) if flags[k] else spec_inside(args[k])
        for k in order
    ]
    loop = Loop(flat_program(name, one, specs), len(args) - sum(flags), 0, size, examples=True)
    return [args[k] for k in order], loop


def together(size: int, loop: Loop) -> Program:
    """Stage the body of a loop over examples for so many examples at once."""

    def made() -> Program:
        flags = [place >= loop.shared for place in range(len(loop.body.inputs))]
        with entered(current()._replace(by_example=False)):
            return batched_program(loop.body, size, flags, [True] * len(loop.body.outputs))[0]

    return loop.body.derived(("together", size, loop.shared), made)


# -------------------------------------------------------------- what differs between the examples


def differs(form: Loop | Choice, flags: Flags) -> bool:
    """Whether examples take different steps or branches, if flagged operands differ."""
    return _through(form, flags)[1]


def _dependent(program: Program, flags: Flags) -> tuple[list[bool], bool]:
    """Return which results depend on flagged inputs, and whether steps or branches inside do.

    Where these do, results may depend on the inputs by the number of steps, too, but then nobody
    asks which.
    """
    known = [*flags, *[False] * len(program.constants)]
    is_different = False
    for equation in program.equations:
        operands = [known[variable] for variable in equation.operands]
        results = [any(operands)] * len(equation.results)
        if any(operands) and isinstance(equation.operation.structure, Control):
            results, differs_inside = _through_equation(equation, operands)
            is_different |= differs_inside
        known += results
    return [known[variable] for variable in program.outputs], is_different


def _through_equation(equation: Equation, operands: Flags) -> tuple[list[bool], bool]:
    params, structure = dict(equation.params), equation.operation.structure
    assert isinstance(structure, Control)
    if equation.called is not None:
        return _dependent(equation.called, operands)
    if structure.begins is not None:  # the way back through a loop takes its steps
        _, loop_params, count = structure.begins(**params)
        is_different = _through(Loop(**loop_params), operands[:count])[1]
        return [True] * len(equation.results), is_different
    form = None if structure.form is None else structure.form(**params)
    if isinstance(form, Loop | Choice):
        return _through(form, operands)
    return [True] * len(equation.results), False


def _through(form: Loop | Choice, operands: Flags) -> tuple[list[bool], bool]:
    """Return which results of a loop or choice depend on flagged operands, as ``_dependent``."""
    if isinstance(form, Choice):
        outcomes = [_dependent(branch, operands[1:]) for branch in form.branches]
        columns = zip(*[branch_results for branch_results, _ in outcomes], strict=True)
        is_different = operands[0] or True in [inside for _, inside in outcomes]
        return [*map(any, columns)], is_different
    shared, carry, xs = form.parts(operands)

    def step(state: list[bool]) -> tuple[tuple[list[bool], bool], list[bool]]:
        results, is_different = _dependent(form.body, [*shared, *state, *xs])
        if form.condition is not None:
            (ends,), _ = _dependent(form.condition, [*shared, *state])
            is_different |= ends
        return (results, is_different), results

    state, (results, is_different) = spread(carry, step)
    return [*state, *results[form.carried :]], is_different
