"""Rebuild programs, so that passes need no arithmetic on variables.

``rewrite`` visits the equations in order. For each it calls a function, the *replacement*, which
returns the variables that replace the results: results of an equation that it appends to the draft,
or existing variables. Operands are renumbered before, outputs and guards afterwards.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: x * x)(3.0)
>>> rewrite(staged, Draft.append) == staged
True
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Shape, Spec
from funcgrad._primitives.structural import reshape
from funcgrad._programs.equation import Constant, Equation, Guard
from funcgrad._programs.program import Program


class Draft:
    """An unfinished program.

    Variables are numbered as in a program, so that unchanged equations need not be copied; new
    constants are numbered -1, -2, ...
    """

    def __init__(self, program: Program) -> None:
        self._input_count = len(program.inputs)
        self._constants = program.constants
        self._new: list[Constant] = []
        self._numbers: dict[Hashable, int] = {}
        for variable, constant in enumerate(self._constants, self._input_count):
            self._numbers.setdefault(constant.in_memory, variable)
        self._specs = [*program.inputs, *[constant.spec for constant in self._constants]]
        self._equations: list[Equation] = []
        self._guards: list[Guard] = []

    def spec(self, variable: int) -> Spec:
        """The shape and dtype of a variable."""
        return self._new[-1 - variable].spec if variable < 0 else self._specs[variable]

    def constant_of(self, variable: int) -> Constant | None:
        """The constant of a variable; None if the variable is not a constant."""
        if variable < 0:
            return self._new[-1 - variable]
        number = variable - self._input_count
        return self._constants[number] if 0 <= number < len(self._constants) else None

    def constant(self, constant: Constant) -> int:
        """The variable of a constant; equal constants have one variable."""
        number = self._numbers.setdefault(constant.in_memory, -1 - len(self._new))
        if number == -1 - len(self._new):
            self._new.append(constant)
        return number

    def append(self, equation: Equation) -> list[int]:
        """Append an equation, and return the variables that it defines."""
        first = len(self._specs)
        self._equations.append(equation)
        self._specs += equation.results
        return list(range(first, len(self._specs)))

    def put(
        self,
        like: Equation,
        operation: Primitive,
        operands: Sequence[int],
        params: Mapping[str, Any],
        result: Spec | None = None,
    ) -> int:
        """Append an equation with one result, and return its variable.

        Parameters
        ----------
        like : Equation
            The equation from which the new one takes the user's line and the epoch.
        operation, operands, params
        result : Spec, optional
            The spec of the result, if it is known.
        """
        if result is None:
            (result,) = operation.results(*map(self.spec, operands), **params)
        sorted_params = tuple(sorted(params.items()))
        results = (result,)
        new = Equation(operation, tuple(operands), sorted_params, results, like.source, like.epoch)
        return self.append(new)[0]

    def reshaped(self, like: Equation, variable: int, shape: Shape) -> int:
        """Reshape a variable; return the variable itself if it already has the shape."""
        if self.spec(variable).shape == shape:
            return variable
        return self.put(like, reshape, [variable], {"shape": shape})

    def splice(self, program: Program, inputs: Sequence[int]) -> list[int]:
        """Append the equations and guards of another program; return its outputs' variables."""
        known = [*inputs, *[self.constant(constant) for constant in program.constants]]
        for equation in program.equations:
            body, moved = equation.called, _with_operands(equation, known.__getitem__)
            known += self.append(moved) if body is None else self.splice(body, moved.operands)
        for guard in program.guards:
            self._guards.append(replace(guard, variable=known[guard.variable]))
        return [known[variable] for variable in program.outputs]

    def finish(self, program: Program, outputs: Sequence[int], guarded: Sequence[int]) -> Program:
        """Make a program from the draft, with these outputs and these variables for the guards."""
        guards_and_variables = [*zip(program.guards, guarded, strict=True)]
        guards_and_variables += [(guard, guard.variable) for guard in self._guards]
        read = {*outputs, *[variable for _, variable in guards_and_variables]}
        for equation in self._equations:
            read.update(equation.operands)
        input_count, old = self._input_count, len(self._constants)
        places = [*range(input_count, input_count + old), *range(-1, -1 - len(self._new), -1)]
        places = [variable for variable in places if variable in read]
        moved = {variable: place for place, variable in enumerate(places, input_count)}
        shift = len(places) - old

        def final(variable: int) -> int:
            if 0 <= variable < input_count:
                return variable
            new_place = moved.get(variable)
            return variable + shift if new_place is None else new_place

        guards = [
            replace(guard, variable=final(variable)) for guard, variable in guards_and_variables
        ]
        constants = [self.constant_of(variable) for variable in places]
        equations = self._equations
        if shift or any(variable != place for variable, place in moved.items()):
            equations = [_with_operands(equation, final) for equation in equations]
        return replace(
            program,
            constants=tuple([constant for constant in constants if constant is not None]),
            equations=tuple(equations),
            outputs=tuple([final(variable) for variable in outputs]),
            guards=tuple(dict.fromkeys(guards)),
        )


_DROPPED: Final = -(1 << 62)
"""The variable of a result whose equation was dropped; reading it is an error."""

Replacement: TypeAlias = Callable[[Draft, Equation], Sequence[int]]
"""``(draft, equation) -> variables of the draft``, one for each result of the equation. Operands of
the equation are variables of the draft."""


def rewrite(
    program: Program, replacement: Replacement, live: Container[int] | None = None
) -> Program:
    """Rebuild a program with the results of its equations replaced.

    If positions in ``live`` are given, only these equations are visited; the others are dropped,
    and must not be read. The new program has the constants that are read, each once.
    """
    draft = Draft(program)
    known = [
        *range(len(program.inputs)),
        *[draft.constant(constant) for constant in program.constants],
    ]
    new = known.__getitem__
    for position, equation in enumerate(program.equations):
        if live is None or position in live:
            known += replacement(draft, _with_operands(equation, new))
        else:
            known += [_DROPPED] * len(equation.results)
    outputs = [new(variable) for variable in program.outputs]
    guarded = [new(guard.variable) for guard in program.guards]
    return draft.finish(program, outputs, guarded)


def _with_operands(equation: Equation, change: Callable[[int], int]) -> Equation:
    return equation.on(tuple(map(change, equation.operands)))
