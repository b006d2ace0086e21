"""Calls: what they do takes their place, in the program that runs.

A call of a function with a custom derivative, or of a checkpointed one, is one equation, so that
its rules are there when the program is differentiated. To run the program nobody needs them, and
the equations inside are better fused and shared with those around. So passes leave calls alone;
what is compiled, and what is shown as source, has none.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: fg.checkpoint(lambda y: y * y)(x) + x)(3.0)
>>> print(inlined(staged).to_text(sources=False))
program <lambda>(x: float64[]) -> float64[]
  a: float64[] = multiply x x
  b: float64[] = add a x
  return b
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from funcgrad.programs.equation import Constant, Equation, Guard, body_of
from funcgrad.programs.program import Program

__all__ = ["inlined"]


def inlined(program: Program) -> Program:
    """The program with the equations of its calls in their place.

    Parameters
    ----------
    program : Program

    Returns
    -------
    Program
        It computes the same; its derivatives are those of the operations, whatever rules the calls
        had. Guards of the calls are its own now. Calls of which nobody knows what they do stay.
    """
    if not any(body_of(equation) for equation in program.equations):
        return program
    draft = _Draft(len(program.inputs), tuple(dict.fromkeys(_constants(program))))
    outputs = draft.append(program, range(draft.given))
    return replace(
        program,
        constants=draft.constants,
        equations=tuple(draft.equations),
        outputs=tuple(outputs),
        guards=tuple(dict.fromkeys(draft.guards)),
    )


def _constants(program: Program) -> list[Constant]:
    """The constants of a program, and of the programs inside."""
    found = [*program.constants]
    for equation in program.equations:
        body = body_of(equation)
        found += [] if body is None else _constants(body)
    return found


class _Draft:
    """A program in the making, in which all constants come before the first equation."""

    __slots__ = ("_next", "_numbers", "constants", "equations", "given", "guards")

    def __init__(self, given: int, constants: tuple[Constant, ...]) -> None:
        self.given = given
        self.constants = constants
        self.equations: list[Equation] = []
        self.guards: list[Guard] = []
        self._numbers = {constant: number for number, constant in enumerate(constants, given)}
        self._next = given + len(constants)

    def append(self, program: Program, inputs: Sequence[int]) -> list[int]:
        """The variables of a program's outputs, after its equations for these inputs."""
        known = [*inputs, *[self._numbers[constant] for constant in program.constants]]
        for equation in program.equations:
            operands = tuple([known[variable] for variable in equation.operands])
            body = body_of(equation)
            if body is not None:
                known += self.append(body, operands)
            else:
                self.equations.append(equation.on(operands))
                known += range(self._next, self._next + len(equation.results))
                self._next += len(equation.results)
        for guard in program.guards:
            self.guards.append(replace(guard, variable=known[guard.variable]))
        return [known[variable] for variable in program.outputs]
