"""Choices between large computations by one flag become branches, so that one side is computed.

``where(flag, a, b)`` with a single flag needs one of its operands. Operations that only one side
reads move into a branch, if they take long. No value changes. Operations that may raise an error
stay where they are: their errors do not depend on the flag.

>>> import numpy as np
>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> def f(flag, x):
...     return fnp.where(flag, fnp.exp(fnp.sin(x)), 0.0)
>>> staged = with_branches(fg.program(f)(np.True_, np.ones(100)))
>>> print(staged.to_text(sources=False))
program f(flag: bool[], x: float64[100]) -> float64[100]
  a: float64[100] = switch flag x branch_0=<f> branch_1=<f>
    program f(x: float64[100]) -> float64[100]
      a = constant 0.0
      b: float64[] = cast a dtype=dtype('float64')
      c: float64[100] = broadcast_to b shape=(100,)
      return c
    program f(x: float64[100]) -> float64[100]
      a: float64[100] = sin x
      b: float64[100] = exp a
      return b
  return a
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import heappop, heappush
from math import prod
from typing import Final, NamedTuple

import numpy as np

from funcgrad._backends.control_forms import in_form
from funcgrad._control.switch_operation import SWITCH
from funcgrad._core import pytrees
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import (
    Choice,
    Contraction,
    Control,
    Elementwise,
    Gather,
    Loop,
    Movement,
    Random,
    Reduction,
    Scan,
)
from funcgrad._passes.costs import equation_costs
from funcgrad._passes.workbench import merge_common_subexpressions
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.logic import logical_not
from funcgrad._primitives.selection import where
from funcgrad._primitives.structural import cast_discrete, cast_inexact
from funcgrad._programs.builder import Draft, rewrite
from funcgrad._programs.equation import Equation
from funcgrad._programs.extract import extract
from funcgrad._programs.program import Program

_SLOW: Final = 10
"""The operations that take as long as an exponential."""

_STORED: Final = 16
"""The operations on an element for which it pays to store a side, rather than to join loops."""

_LEAST: Final = 64
"""The fewest operations for which a branch pays."""

_UNKNOWN: Final = 10**6
"""The operations of a loop of unknown length, about."""


class _FlaggedChoice(NamedTuple):
    """A choice by one flag.

    Attributes
    ----------
    position : int
        Of its equation.
    sides : pair of int
        The variables for False and for True.
    """

    position: int
    sides: tuple[int, int]


class _Branching(NamedTuple):
    """Choices that one branch replaces, and its operands behind the flag."""

    flag: int
    choices: Sequence[_FlaggedChoice]
    sources: Sequence[int]


def with_branches(program: Program) -> Program:
    """Write choices between long computations as branches."""
    sides = _Sides(program)
    branchings = [branching for group in sides.groups() for branching in sides.branchings(*group)]
    return _branched(program, branchings) if branchings else program


class _Sides:
    """The choices of a program, and the equations that only one side reads."""

    def __init__(self, program: Program) -> None:
        self._program, self._specs = program, program.specs()
        self._readers: dict[int, list[int]] = {}
        self._makers: list[int] = [-1] * program.index.first_result
        for position, equation in enumerate(program.equations):
            self._makers += [position] * len(equation.results)

    def groups(self) -> list[tuple[int, list[_FlaggedChoice]]]:
        """The choices by each flag."""
        choices: dict[int, list[_FlaggedChoice]] = {}
        for position, equation in enumerate(self._program.equations):
            if equation.operation is not where or equation.results[0].weak:
                continue
            flag, true, false = equation.operands
            if self._specs[flag].shape or self._specs[flag].dtype.kind != "b":
                continue
            flag, is_negated = self._flag(flag)
            sides = (true, false) if is_negated else (false, true)
            choices.setdefault(flag, []).append(_FlaggedChoice(position, sides))
        if choices:
            self._count_readers()
        return list(choices.items())

    def _flag(self, variable: int) -> tuple[int, bool]:
        """The flag that a flag negates, and whether it does."""
        is_negated, position = False, self._makers[variable]
        while position >= 0 and self._program.equations[position].operation is logical_not:
            (variable,) = self._program.equations[position].operands
            is_negated, position = not is_negated, self._makers[variable]
        return variable, is_negated

    def _count_readers(self) -> None:
        for position, equation in enumerate(self._program.equations):
            for variable in {*equation.operands}:
                self._readers.setdefault(variable, []).append(position)
        guarded = [guard.variable for guard in self._program.guards]
        for variable in (*self._program.outputs, *guarded):
            self._readers.setdefault(variable, []).append(len(self._program.equations))

    def branchings(self, flag: int, choices: Sequence[_FlaggedChoice]) -> list[_Branching]:
        """The branches that replace choices by one flag: as few as operands allow."""
        branchings = []
        while choices:
            branching = self._branching(flag, choices)
            count = len(choices)
            if branching is None and count > 1:
                count = 1
                branching = self._branching(flag, choices[:1])
            if branching is not None and branching.sources is not _CHEAP:
                branchings.append(branching)
            choices = choices[count:]
        return branchings

    def _branching(self, flag: int, choices: Sequence[_FlaggedChoice]) -> _Branching | None:
        """The branch that replaces these choices; None if it would need its own results."""
        program, first = self._program, choices[0].position
        moved = [self._exclusive(choices, side) for side in (0, 1)]
        work = sum([self._work(positions) for positions in moved])
        stored = sum([prod(program.equations[c.position].results[0].shape) for c in choices])
        if work < _LEAST + _STORED * stored:
            return _Branching(flag, choices, _CHEAP)
        inside = moved[0] | moved[1]
        read = [variable for choice in choices for variable in choice.sides]
        read += [
            variable for place in sorted(inside) for variable in program.equations[place].operands
        ]
        sources = [v for v in dict.fromkeys(read) if self._is_outside(v, inside)]
        if any(self._makers[variable] >= first for variable in (flag, *sources)):
            return None
        return _Branching(flag, choices, sources)

    def _is_outside(self, variable: int, inside: set[int]) -> bool:
        is_constant = len(self._program.inputs) <= variable < self._program.index.first_result
        return not is_constant and self._makers[variable] not in inside

    def _exclusive(self, choices: Sequence[_FlaggedChoice], side: int) -> set[int]:
        """The positions of the equations that only one side of the choices reads."""
        program, places = self._program, {choice.position for choice in choices}
        others = {choice.sides[1 - side] for choice in choices}
        flags = {program.equations[choice.position].operands[0] for choice in choices}
        waiting: list[int] = []
        seen, inside = set[int](), set[int]()

        def ask(variables: Sequence[int]) -> None:
            for variable in variables:
                position = self._makers[variable]
                if position >= 0 and position not in seen:
                    seen.add(position)
                    heappush(waiting, -position)

        ask([choice.sides[side] for choice in choices])
        while waiting:  # the last one first: then its readers are known
            position = -heappop(waiting)
            equation, results = program.equations[position], program.index.results[position]
            readers = {place for v in results for place in self._readers.get(v, ())}
            is_read_elsewhere = not readers <= inside | places or any(
                v in others or v in flags for v in results
            )
            if position not in places and not is_read_elsewhere and self._is_quiet(equation):
                inside.add(position)
                ask(equation.operands)
        return inside

    def _is_quiet(self, equation: Equation) -> bool:
        """Whether an equation never raises an error."""
        structure, first = equation.operation.structure, self._program.index.first_result
        if isinstance(structure, Gather):
            return all(len(self._program.inputs) <= v < first for v in equation.operands[1:])
        return _never_raises(equation)

    def _work(self, positions: set[int]) -> int:
        """About how many operations on numbers some equations do."""
        total = 0
        for position in positions:
            costs = equation_costs(self._program.equations[position], self._specs)
            if costs.arithmetic is None or costs.transcendental is None:
                total += _UNKNOWN
            else:
                total += costs.arithmetic + (_SLOW - 1) * costs.transcendental
        return total


_CHEAP: Final[Sequence[int]] = (-1,)
"""The operands of a branch that does not pay."""

_QUIET: Final = (Elementwise, Movement, Reduction, Contraction, Scan, Random)


def _never_raises(equation: Equation) -> bool:
    """Whether an equation, and every equation of the programs inside, never raises an error."""
    operation, structure = equation.operation, equation.operation.structure
    if operation.is_foreign:
        return False
    if isinstance(structure, Control):
        form = None if structure.form is None else structure.form(**dict(equation.params))
        return isinstance(form, Loop | Choice) and all(map(_is_quiet_inside, in_form(form)))
    if not isinstance(structure, _QUIET):
        return False
    return operation.evaluate is not np.power or equation.results[0].dtype.kind in "fc"


def _is_quiet_inside(program: Program) -> bool:
    return not program.guards and all(map(_never_raises, program.equations))


def _branched(program: Program, branchings: Sequence[_Branching]) -> Program:
    """Replace choices by branches."""
    at = {branching.choices[0].position: branching for branching in branchings}
    chosen: dict[int, int] = {}
    made: list[list[int]] = []
    first = program.index.first_result
    owners = [
        (position, place)
        for position, equation in enumerate(program.equations)
        for place in range(len(equation.results))
    ]

    def now(variable: int) -> int:
        if variable < first:
            return variable
        position, place = owners[variable - first]
        return made[position][place]

    def replaced(draft: Draft, equation: Equation, position: int) -> list[int]:
        branching = at.get(position)
        if branching is not None:
            operands = map(now, (branching.flag, *branching.sources))
            results = draft.append(_switch(program, branching, tuple(operands)))
            for choice, result in zip(branching.choices, results, strict=True):
                chosen[choice.position] = result
        return [chosen[position]] if position in chosen else draft.append(equation)

    def step(draft: Draft, equation: Equation) -> list[int]:
        made.append(replaced(draft, equation, len(made)))
        return made[-1]

    return merge_common_subexpressions(rewrite(program, step))


def _switch(program: Program, branching: _Branching, operands: tuple[int, ...]) -> Equation:
    """The equation of a branch."""
    equations = [program.equations[choice.position] for choice in branching.choices]
    results = tuple([equation.results[0] for equation in equations])
    branches = [
        _ending(
            extract(program, branching.sources, [c.sides[side] for c in branching.choices]), results
        )
        for side in (0, 1)
    ]
    params = tuple([(f"branch_{side}", branches[side]) for side in (0, 1)])
    like = equations[0]
    return Equation(SWITCH, operands, params, results, like.source, like.epoch)


def _ending(program: Program, wanted: Sequence[Spec]) -> Program:
    """A program whose outputs have these shapes and dtypes, as a choice converts its operands."""
    specs, equations, outputs = [*program.specs()], [*program.equations], []
    for output, spec in zip(program.outputs, wanted, strict=True):
        cast = cast_inexact if spec.dtype.kind in "fc" else cast_discrete
        is_converted = specs[output].dtype != spec.dtype or specs[output].weak
        for operation, name, value, applies in (
            (cast, "dtype", spec.dtype, is_converted),
            (broadcast_to, "shape", spec.shape, specs[output].shape != spec.shape),
        ):
            if applies:
                (result,) = operation.results(specs[output], **{name: value})
                equations.append(Equation(operation, (output,), ((name, value),), (result,)))
                output = len(specs)
                specs.append(result)
        outputs.append(output)
    return replace(
        program,
        equations=tuple(equations),
        outputs=tuple(outputs),
        result=pytrees.of_leaves(len(outputs)),
    )
