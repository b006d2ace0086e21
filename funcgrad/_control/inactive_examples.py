"""Examples of a batch that take no part in a program which runs on the whole batch.

They have ended in a loop, or chosen another branch. The program may refuse their values, or never
come to an end with them, as where it divides by a matrix that is zero for them. So they get the
values of an example that does take part; nobody reads their results.

>>> import numpy as np
>>> matrices = np.array([np.zeros((2, 2)), np.eye(2)])
>>> (matrices,) = taking_part(np.array([False, True]), [matrices], [True])
>>> np.linalg.inv(matrices)[1]
array([[1., 0.],
       [0., 1.]])
"""

from __future__ import annotations

from collections.abc import Sequence

from funcgrad._core.structure.structures import Control
from funcgrad._core.trace import Value
from funcgrad._primitives.stand_in_examples import deputed
from funcgrad._programs.program import Program
from funcgrad._transforms.active_examples import refuses_numbers


def may_refuse(program: Program) -> bool:
    """Whether a program has operations that may refuse numbers, or never end with them.

    Formulas, sums, products and rearrangements are defined for all numbers.
    """
    for equation in program.equations:
        operation, params = equation.operation, dict(equation.params)
        structure = operation.structure
        if refuses_numbers(operation) or "call" in params:
            return True
        if isinstance(structure, Control):
            runs = structure.runs(**params)
            if any(count is None or may_refuse(inner) for inner, count in runs):
                return True
    return False


def taking_part(mask: Value, values: Sequence[Value], flags: Sequence[bool]) -> list[Value]:
    """Replace examples outside of a mask by one inside, in the values flagged to have the batch."""
    return [
        deputed(mask, value) if flag else value for value, flag in zip(values, flags, strict=True)
    ]
