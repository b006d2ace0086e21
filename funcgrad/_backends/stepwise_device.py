"""``StepwiseDevice``: the base class of devices that compute one operation after another.

A subclass says how to keep arrays, and how to compute the result of an equation. This one keeps
lists, and adds:

>>> import funcgrad as fg
>>> class Lists(StepwiseDevice):
...     name = "lists:0"
...
...     def put(self, array):
...         return array.tolist()
...
...     def get(self, handle):
...         return np.array(handle)
...
...     def result(self, equation, specs, values):
...         if equation.name != "add":
...             raise NotImplementedError(equation.name)
...         return [x + y for x, y in zip(*values)]
>>> x = fg.put(np.arange(3.0), Lists())
>>> fg.jit(lambda x: x + x + x)(x)
Tensor(float64[3] on lists:0)
>>> np.asarray(x + x)
array([0., 2., 4.])
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from funcgrad._backends.decompose import decomposed
from funcgrad._backends.interface import Compiled, Handle
from funcgrad._core.specs import Spec
from funcgrad._core.trace import NUMBERS, STRONG, Raw
from funcgrad._programs.equation import Equation
from funcgrad._programs.inline import inlined
from funcgrad._programs.program import Program


class StepwiseDevice(ABC):
    """A device whose compiled programs compute the equations in their order.

    The host computes an operation whose ``result`` raises an error for ones.
    """

    calls_host = False

    @abstractmethod
    def put(self, array: Raw) -> Handle:
        """Copy an array or a NumPy scalar to the device; return its handle."""

    @abstractmethod
    def get(self, handle: Handle) -> np.ndarray[Any, Any]:
        """Copy an array to the host."""

    @abstractmethod
    def result(self, equation: Equation, specs: Sequence[Spec], values: Sequence[Handle]) -> Handle:
        """Compute the one result of an equation.

        Parameters
        ----------
        equation : Equation
        specs : sequence of Spec
            The shapes and dtypes of its operands.
        values : sequence
            The operands: handles. A weak operand that no equation computed is a Python number.

        Raises
        ------
        Exception
            Of any kind, if the device cannot compute it.
        """

    def supports(self, program: Program) -> bool:
        """Whether no constant is traced."""
        return program.is_raw

    def prepare(self, program: Program, relaxed: bool) -> Program:
        """Inline calls, and replace each reduction without a fold by its body."""
        return decomposed(inlined(program), lambda op: getattr(op.structure, "fold", op) is None)

    def inspect(self, program: Program) -> str:
        """The printed program."""
        return program.to_text()

    def lacks(self, program: Program) -> list[Equation]:
        """Try each equation on ones; return the equations that raise an error."""
        specs, lacking = program.specs(), []
        for equation in program.equations:
            operands = [specs[k] for k in equation.operands]
            ones = [np.ones(spec.shape, spec.dtype) for spec in operands]
            try:
                pairs = zip(ones, operands, strict=True)
                values = [x.item() if spec.weak else self.put(x) for x, spec in pairs]
                self.result(equation, operands, values)
            except Exception:  # of any kind: each library has its own
                lacking.append(equation)
        return lacking

    def compile(self, program: Program) -> Compiled:
        """A function that computes the equations; its constants are moved once."""
        constants = [self._moved(constant.value) for constant in program.constants]
        specs = program.specs()
        kinds = [[specs[k] for k in equation.operands] for equation in program.equations]

        def run(*inputs: Handle) -> tuple[Any, ...] | None:
            values = [*map(self._moved, inputs), *constants]
            for equation, operands in zip(program.equations, kinds, strict=True):
                values.append(
                    self.result(equation, operands, [values[k] for k in equation.operands])
                )
            for guard in program.guards:
                if not guard.holds(guard.finds(self._fetched(values[guard.variable]))):
                    return None
            return tuple(
                [
                    np.asarray(self._fetched(values[k])).item() if specs[k].weak else values[k]
                    for k in program.outputs
                ]
            )

        return Compiled(run, warns=False, is_fresh=True)

    def _moved(self, value: Handle) -> Handle:
        return self.put(value) if type(value) in STRONG else value

    def _fetched(self, value: Handle) -> Raw:
        return value if type(value) in NUMBERS else self.get(value)[()]
