"""Operations that NumPy evaluates, called in the midst of native code.

A callback takes arrays over native memory, first of the operands that are no constants and then of
the results, evaluates the operation, and puts its results in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from funcgrad._core.specs import Spec
from funcgrad._core.structure.structures import FOREIGN
from funcgrad._core.trace import Raw, bind
from funcgrad._core.users_values import runs_apart
from funcgrad._programs.equation import Equation

Read: TypeAlias = Callable[[Any], Raw]


def callback_of(
    equation: Equation, specs: Sequence[Spec], known: Mapping[int, Raw], rank: int = 0
) -> Callable[..., None]:
    """Make the function that is called back for an equation.

    Parameters
    ----------
    equation : Equation
    specs : sequence of Spec
        Of its operands.
    known : mapping
        The operands that are constants, by their place.
    rank : int
        The number of first axes of the results at which only what is NaN so far is written.
    """
    operation, params = equation.operation, dict(equation.params)
    # A user's function may keep its arguments.
    keeps = FOREIGN in operation.traits or runs_apart(operation.evaluate)
    reads = [_read(spec, keeps) for spec in specs]
    count = len(specs) - len(known)

    def call(*arrays: Any) -> None:
        remaining = iter(arrays)
        operands = tuple(
            [
                known[place] if place in known else read(next(remaining))
                for place, read in enumerate(reads)
            ]
        )
        results = bind(operation, operands, params)
        results = results if isinstance(results, tuple) else (results,)
        for target, result in zip(arrays[count:], results, strict=True):
            where: Any = ...
            if rank:
                where = np.isnan(target.reshape(*target.shape[:rank], -1)).any(-1)
            target[where] = result[where] if rank else result

    return call


def _read(spec: Spec, keeps: bool) -> Read:
    """How an operand is read from an array over native memory."""
    if spec.weak:
        return lambda array: array.item()
    if not spec.shape:
        return lambda array: array[()]
    return np.array if keeps else lambda array: array
