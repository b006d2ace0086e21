"""Results of a program to which derivatives flow from some of its inputs.

A loop needs them of its body, to know which leaves of its carry have derivatives at some step.
Recording the body would tell as well, but takes a hundred times as long.

>>> import funcgrad as fg
>>> body = fg.program(lambda a, b: (a * 2.0, a > b, b + 1))(1.0, 2.0)
>>> connected(body, [True, False])
([True, False, False], True)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from funcgrad._control.spread import closure
from funcgrad._core.specs import is_inexact
from funcgrad._core.structure.structures import Choice, Control, Loop
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program

_WITH_RULES: Final = frozenset({"carried", "linearized", "transposed"})
"""Forms of differentials whose pushforward may find out that a tangent is zero."""


def connected(
    program: Program, flags: Sequence[bool], forward: bool = False
) -> tuple[list[bool], bool]:
    """Return which results surely depend on flagged inputs, and whether no others do.

    Others may where the program has calls with rules, or other operations that run programs.
    Flagged inputs have tangents if ``forward``, and are followed otherwise.
    """
    known = [*flags, *[False] * len(program.constants)]
    is_all = True
    for equation in program.equations:
        operands = [known[variable] for variable in equation.operands]
        results = [False] * len(equation.results)
        if True in operands:
            results, is_certain = _through(equation, operands, forward)
            is_all = is_all and is_certain
        pairs = zip(results, equation.results, strict=True)
        known += [flag and is_inexact(spec.dtype) for flag, spec in pairs]
    return [known[variable] for variable in program.outputs], is_all


def settled(
    program: Program,
    before: Sequence[bool],
    carry: Sequence[bool],
    after: Sequence[bool] = (),
    forward: bool = False,
) -> tuple[list[bool], tuple[list[bool], bool]]:
    """Return which leaves of a carry surely depend on flagged inputs at some step of a program.

    Also returns what ``connected`` returns where these leaves are flagged.
    """

    def step(state: list[bool]) -> tuple[tuple[list[bool], bool], list[bool]]:
        results, is_all = connected(program, [*before, *state, *after], forward)
        return (results, is_all), results

    return closure(carry, step)


def _through(
    equation: Equation, operands: Sequence[bool], forward: bool
) -> tuple[list[bool], bool]:
    """Return which results, if inexact, depend on flagged operands, and whether no others do."""
    operation, count = equation.operation, len(equation.results)
    if operation.is_foreign:
        return [False] * count, False
    if isinstance(operation.structure, Control):
        return _through_programs(operation.structure, equation, operands, forward), False
    if operation.form == "discrete":
        return [False] * count, True
    if forward and operation.form in _WITH_RULES:
        return [False] * count, False
    if count > 1 or len(operands) == 1:
        return [True] * count, True
    routes = zip(operands, operation.routes(len(operands)), strict=True)
    return [any(flag and route is not None for flag, route in routes)], True


def _through_programs(
    structure: Control, equation: Equation, operands: Sequence[bool], forward: bool
) -> list[bool]:
    """Return which results of a loop or choice surely depend on flagged operands; of calls none.

    Where programs close over traced values, which may be followed as well, no result is sure.
    """
    params = dict(equation.params)
    form = None if structure.form is None else structure.form(**params)
    if isinstance(form, Choice) and all(branch.is_raw for branch in form.branches):
        by_branch = [connected(branch, operands[1:], forward)[0] for branch in form.branches]
        return [any(column) for column in zip(*by_branch, strict=True)]
    if not isinstance(form, Loop) or not all(p.is_raw for p, _ in structure.runs(**params)):
        return [False] * len(equation.results)
    shared, carry, xs = form.parts(operands)
    state, (results, _) = settled(form.body, shared, carry, xs, forward)
    if forward:
        results[: form.carried] = state
    elif form.condition is not None:  # without a step the last carry is the first
        results[: form.carried] = map(max, carry, results)
    return results
