"""Programs that will run again: their loops are told, so that both runs take the same steps.

The number of steps of a loop with a condition may depend on rounding errors. A backend that rounds
the same steps differently in two programs has to know of such loops.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: fg.while_loop(lambda c: c < 9.0, lambda c: c * 2.0, x))(1.0)
>>> dict(replayed(staged).equations[0].params)["replayed"]
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import Control
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program


def replayed(program: Program) -> Program:
    """The program, as it runs where it will run again; the same object if it has no such loop."""
    changed: Program | None = program.derived("replayed", lambda: _replayed(program))
    return program if changed is None else changed


def replayed_params(operation: Primitive, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """The parameters of an operation that will run again."""
    structure = operation.structure
    if not isinstance(structure, Control):
        return params
    if structure.replayed is not None:
        params = structure.replayed(**params)
    return {
        name: replayed(value) if isinstance(value, Program) else value
        for name, value in params.items()
    }


def _replayed(program: Program) -> Program | None:
    equations = tuple(map(_equation, program.equations))
    if all(new is old for new, old in zip(equations, program.equations, strict=True)):
        return None  # itself would be a cycle
    return replace(program, equations=equations)


def _equation(equation: Equation) -> Equation:
    params = dict(equation.params)
    changed = replayed_params(equation.operation, params)
    if changed is params or all(params.get(name) is value for name, value in changed.items()):
        return equation
    return replace(equation, params=tuple(sorted(changed.items())))
