"""Constant folding: evaluate equations whose operands are constants.

>>> import funcgrad as fg
>>> from funcgrad._passes.simplify import simplify
>>> staged = simplify(fg.program(lambda x: x * (fg.stop_gradient(x) ** 1 * 1.0 - x))(3.0))
>>> fold_constants(staged) == staged
True
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import spec_of
from funcgrad._core.structure.structures import Control, Movement, Trait
from funcgrad._core.trace import bind
from funcgrad._passes.workbench import ANY, Rules, Workbench, improve
from funcgrad._programs.equation import Constant, Equation
from funcgrad._programs.moved_elements import keeps_order
from funcgrad._programs.program import Program

_SMALL: Final = 1024


def fold_constants(program: Program) -> Program:
    """Evaluate equations that depend only on constants, and drop equations without effect.

    An equation is evaluated if its result is small, or not larger than its operands. If NumPy would
    warn, it is kept, so that the warning still appears at every call.

    Equations that do not move elements, such as a reshape to the same shape, are dropped, as are
    casts to the same dtype.
    """
    return improve(program, FOLDING)


def _folded(bench: Workbench, equation: Equation) -> int | None:
    operation, constants = equation.operation, bench.constants
    for variable in equation.operands:
        if variable not in constants:
            return None
    if isinstance(operation.structure, Control) or operation.is_foreign:
        return None  # it may take arbitrarily long
    known = [constants[variable] for variable in equation.operands]
    if not all(constant.is_raw for constant in known) or not _is_worth_keeping(equation, known):
        return None
    value = _evaluated(operation, equation, known)
    if value is None or spec_of(value) != equation.results[0]:
        return None
    return bench.constant(value)


def _is_worth_keeping(equation: Equation, operands: Sequence[Constant]) -> bool:
    size = prod(equation.results[0].shape)
    return size <= max(_SMALL, sum([prod(operand.spec.shape) for operand in operands]))


def _evaluated(primitive: Primitive, equation: Equation, operands: Sequence[Constant]) -> Any:
    """The value of an equation; None if NumPy would warn."""
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            values = tuple([operand.value for operand in operands])
            return bind(primitive, values, dict(equation.params))
    except FloatingPointError:
        return None


def _same(bench: Workbench, equation: Equation) -> int | None:
    """Return the operand if the result has its shape and dtype."""
    x = equation.operands[0]
    return x if bench.specs[x] == equation.results[0] else None


def _unmoved(bench: Workbench, equation: Equation) -> int | None:
    """Return the operand if the result has the same elements in the same places."""
    x, spec = equation.operands[0], equation.results[0]
    if bench.specs[x].shape != spec.shape or len(equation.operands) > 1 or bench.specs[x] != spec:
        return None
    piece = bench.rearrangement(equation)
    return x if piece is not None and keeps_order(piece, bench.specs[x].shape) else None


FOLDING: Final[Rules] = MappingProxyType(
    {ANY: (_folded,), Trait.CONVERTS: (_same,), Movement: (_unmoved,)}
)
