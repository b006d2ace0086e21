"""Algebra of truth values: the masks that say where a cotangent is present.

The branches of a ``where`` have opposite masks, which together are full; then no selection is left.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> staged = fg.program(lambda c, x: fnp.where(fnp.logical_or(c, ~c), x, 0.0))
>>> simplify_presence(staged(fg.tensor([True, False]), fg.tensor([1.0, 2.0]))).outputs
(1,)
"""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import Final

import numpy as np

from funcgrad._passes.workbench import Rules, Workbench, improve
from funcgrad._primitives.logic import (
    bitwise_invert,
    logical_and,
    logical_not,
    logical_or,
)
from funcgrad._primitives.selection import where
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program

_MOST: Final = 2**20
"""Full masks of so many elements become constants."""


def simplify_presence(program: Program) -> Program:
    """Simplify disjunctions and conjunctions of truth values, and selections by known masks."""
    return improve(program, PRESENCE)


def _truth(bench: Workbench, variable: int) -> bool | None:
    """The value of all elements of a constant of truth values, if they have the same."""
    constant = bench.constants.get(variable)
    if constant is None or not constant.is_raw or constant.spec.dtype != np.bool_:
        return None
    value = np.asarray(constant.value)
    if not value.size or value.all() != value.any():
        return None
    return bool(value.any())


def _opposes(bench: Workbench, x: int, y: int) -> bool:
    """Whether a variable is the negation of another."""
    return any(
        maker.operands == (other,)
        for one, other in ((x, y), (y, x))
        for operation in (logical_not, bitwise_invert)
        if (maker := bench.is_made_by(one, operation)) is not None
    )


def _joined(bench: Workbench, equation: Equation) -> int | None:
    """Rewrite a disjunction of booleans."""
    spec = equation.results[0]
    if any(bench.specs[variable].dtype != np.bool_ for variable in equation.operands):
        return None
    x, y = equation.operands
    if x == y:
        return x
    if _opposes(bench, x, y) and prod(spec.shape) <= _MOST:
        return bench.constant(np.ones(spec.shape, np.bool_)[()])
    for one, other in ((x, y), (y, x)):
        truth = _truth(bench, one)
        if truth is not None:
            return one if truth else other
    return _common(bench, x, y)


def _common(bench: Workbench, x: int, y: int) -> int | None:
    """``(a & b) | (a & ~b)`` is a."""
    first, second = [bench.is_made_by(variable, logical_and) for variable in (x, y)]
    if first is None or second is None:
        return None
    for a, b in (first.operands, first.operands[::-1]):
        for other, c in (second.operands, second.operands[::-1]):
            if a == other and _opposes(bench, b, c):
                return a
    return None


def _both(bench: Workbench, equation: Equation) -> int | None:
    """Rewrite a conjunction of booleans."""
    if any(bench.specs[variable].dtype != np.bool_ for variable in equation.operands):
        return None
    x, y = equation.operands
    if x == y:
        return x
    for one, other in ((x, y), (y, x)):
        truth = _truth(bench, one)
        if truth is not None:
            return other if truth else one
        maker = bench.is_made_by(one, logical_and)
        if maker is not None and other in maker.operands:
            return one
    return None


def _selection(bench: Workbench, equation: Equation) -> int | None:
    """Rewrite a selection by a mask that holds everywhere, or nowhere."""
    condition, x, y = equation.operands
    truth = _truth(bench, condition)
    if truth is None:
        return None
    return x if truth else y


PRESENCE: Final[Rules] = MappingProxyType(
    {
        logical_or: (_joined,),
        logical_and: (_both,),
        where: (_selection,),
    }
)
