"""Facts about the variables of a program, computed once: which equations make and read them.

>>> import funcgrad as fg
>>> index = fg.program(lambda x: fg.numpy.sin(x * x) + x)(2.0).index
>>> index.makers, index.uses, index.last_uses
((-1, 0, 1, 2), (3, 1, 1, 1), (2, 1, 2, 3))
"""

from __future__ import annotations

from collections.abc import Sequence

from funcgrad._base.locks import cached_property
from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import Control
from funcgrad._programs.equation import Constant, Equation, Guard


class Index:
    """Facts about the variables of a program, by number: makers, uses, last uses, specs.

    Attributes
    ----------
    first_result : int
        The variable that the first equation defines; inputs and constants come before it.
    specs : tuple of Spec
        The variables' shapes and dtypes.
    results : tuple of range
        By position of an equation, the variables that it defines.
    """

    def __init__(
        self,
        inputs: Sequence[Spec],
        constants: Sequence[Constant],
        equations: Sequence[Equation],
        outputs: Sequence[int],
        guards: Sequence[Guard],
    ) -> None:
        self._inputs = inputs
        self._constants = constants
        self._equations = equations
        self._outputs = outputs
        self._guards = guards
        specs = [*inputs, *[constant.spec for constant in constants]]
        self.first_result = len(specs)
        results = []
        for equation in equations:
            first = len(specs)
            specs += equation.results
            results.append(range(first, len(specs)))
        self.specs = tuple(specs)
        self.results = tuple(results)

    @cached_property
    def hash(self) -> int:
        """The hash of the program, cached, since it includes the programs inside."""
        inputs_and_constants = self._inputs, self._constants
        return hash((inputs_and_constants, self._equations, self._outputs, self._guards))

    @cached_property
    def makers(self) -> tuple[int, ...]:
        """The position of the equation that defines a variable; -1 for inputs and constants."""
        makers = [-1] * self.first_result
        for position, results in enumerate(self.results):
            makers += [position] * len(results)
        return tuple(makers)

    @cached_property
    def uses(self) -> tuple[int, ...]:
        """The number of times a variable is read, as an operand or as an output."""
        uses = [0] * len(self.specs)
        for equation in self._equations:
            for variable in equation.operands:
                uses[variable] += 1
        for variable in self._outputs:
            uses[variable] += 1
        return tuple(uses)

    @cached_property
    def last_uses(self) -> tuple[int, ...]:
        """The position of the last equation that reads a variable.

        For an unread variable, the position of the equation that defines it, or -1 for an input or
        constant; for an output, the number of equations.
        """
        last_uses = list(self.makers)
        for position, equation in enumerate(self._equations):
            for variable in equation.operands:
                last_uses[variable] = position
        for variable in self._outputs:
            last_uses[variable] = len(self._equations)
        return tuple(last_uses)

    @cached_property
    def freed(self) -> tuple[tuple[int, ...], ...]:
        """For each equation, the variables that it reads last, or defines without a use."""
        freed: list[list[int]] = [[] for _ in self._equations]
        for variable, position in enumerate(self.last_uses):
            if 0 <= position < len(freed):
                freed[position].append(variable)
        return tuple(map(tuple, freed))

    @cached_property
    def guards(self) -> dict[int, list[Guard]]:
        """The guards by the variable that they check; -1 stands for inputs and constants."""
        guards: dict[int, list[Guard]] = {}
        for guard in self._guards:
            variable = -1 if guard.variable < self.first_result else guard.variable
            guards.setdefault(variable, []).append(guard)
        return guards

    @cached_property
    def effects(self) -> tuple[Equation, ...]:
        """The equations that run for their effects, also in programs inside."""
        equations: list[Equation] = []
        for equation in self._equations:
            structure = equation.operation.structure
            if equation.operation.has_effect:
                equations.append(equation)
            if isinstance(structure, Control):
                for program, _ in structure.runs(**dict(equation.params)):
                    equations += program.index.effects
        return tuple(equations)

    @cached_property
    def guarded(self) -> frozenset[int]:
        """The variables that guards check."""
        return frozenset([guard.variable for guard in self._guards])
