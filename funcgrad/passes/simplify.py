"""Algebra that is exact: the result has the bits of the operand, for -0.0, infinities and NaN too.

So there is ``x - 0.0 = x`` and ``x + -0.0 = x``, but no ``x + 0.0 = x``, which turns -0.0 into 0.0,
and no ``x * 0.0 = 0.0``, which infinities and NaN refute. Complex products with 1 are left alone:
NumPy multiplies with ``1 + 0j``, which makes NaN of an infinity.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: -(-x) / 1.0 + 0.0)(fg.tensor([3.0]))
>>> [equation.operation.name for equation in simplify(staged).equations]
['negative', 'add']
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad.equations import Equation, identity
from funcgrad.passes.rewrite import Draft, rewrite
from funcgrad.primitives import elementwise as ew
from funcgrad.primitives.complexes import conj
from funcgrad.primitives.logic import bitwise_invert, logical_not
from funcgrad.primitives.selection import where
from funcgrad.primitives.structural import flip, reshape, transpose
from funcgrad.programs import Program

__all__ = ["simplify"]

Rule: TypeAlias = Callable[[Draft, Equation], int | None]
"""``(draft, equation) -> the variable that the result equals``, or None where it cannot tell."""


def simplify(program: Program) -> Program:
    """Replace results that equal a variable which is there already.

    Only where shape, dtype and weakness are the same as well, so that promotion does not change.
    """

    def step(draft: Draft, equation: Equation) -> Sequence[int]:
        rule = _RULES.get(equation.operation)
        found = None if rule is None else rule(draft, equation)
        if found is None or draft.spec(found) != equation.results[0]:
            return draft.append(equation)
        return [found]

    return rewrite(program, step)


def _is(draft: Draft, variable: int, *numbers: Any) -> bool:
    """Whether a variable is a constant whose elements all are one of some numbers, to the sign."""
    constant = draft.constant_of(variable)
    if constant is None or not constant.is_raw or constant.spec.dtype.kind == "c":
        return False
    if type(constant.value) is float:  # most are, and an array takes fifty times as long
        return identity(constant.value) in [identity(number) for number in numbers]
    value = np.asarray(constant.value)
    return any(
        bool(np.all(value == number) and np.all(np.signbit(value * 1.0) == np.signbit(number)))
        for number in numbers
    )


def _is_real(draft: Draft, variable: int) -> bool:
    return draft.spec(variable).dtype.kind != "c"


def _product(draft: Draft, equation: Equation) -> int | None:
    x, y = equation.operands
    if not (_is_real(draft, x) and _is_real(draft, y)):
        return None
    if _is(draft, y, 1.0):
        return x
    return y if _is(draft, x, 1.0) else None


def _quotient(draft: Draft, equation: Equation) -> int | None:
    x, y = equation.operands
    return x if _is_real(draft, x) and _is(draft, y, 1.0) else None


def _difference(draft: Draft, equation: Equation) -> int | None:
    x, y = equation.operands
    return x if _is(draft, y, 0.0) else None


def _sum(draft: Draft, equation: Equation) -> int | None:
    x, y = equation.operands
    if not (_is_real(draft, x) and _is_real(draft, y)):
        return None
    zeros = (-0.0,) if equation.results[0].dtype.kind == "f" else (0.0,)
    if _is(draft, y, *zeros):
        return x
    return y if _is(draft, x, *zeros) else None


def _selection(draft: Draft, equation: Equation) -> int | None:
    condition, x, y = equation.operands
    if x == y:
        return x
    constant = draft.constant_of(condition)
    if constant is None or not constant.is_raw:
        return None
    chosen = np.asarray(constant.value).astype(np.bool_)
    if chosen.all():
        return x
    return None if chosen.any() else y


def _twice(draft: Draft, equation: Equation) -> int | None:
    """The operand of an operation that undoes itself, such as a negation."""
    maker = draft.maker(equation.operands[0])
    if (
        maker is None
        or maker.operation is not equation.operation
        or maker.params != equation.params
    ):
        return None
    return maker.operands[0]


def _operand(draft: Draft, equation: Equation) -> int | None:
    return equation.operands[0]


def _conjugate(draft: Draft, equation: Equation) -> int | None:
    return (
        equation.operands[0] if _is_real(draft, equation.operands[0]) else _twice(draft, equation)
    )


def _power(draft: Draft, equation: Equation) -> int | None:
    x = equation.operands[0]
    return x if _is_real(draft, x) and dict(equation.params)["exponent"] == 1 else None


def _reshaped(draft: Draft, equation: Equation) -> int | None:
    """Of two reshapes the last one says all."""
    maker = draft.maker(equation.operands[0])
    if maker is None or maker.operation is not reshape:
        return None
    return draft.append(replace(equation, operands=maker.operands))[0]


def _transposed(draft: Draft, equation: Equation) -> int | None:
    """Two transpositions are one."""
    maker = draft.maker(equation.operands[0])
    if maker is None or maker.operation is not transpose:
        return None
    first, second = dict(maker.params)["axes"], dict(equation.params)["axes"]
    axes = tuple([first[axis] for axis in second])
    return draft.append(replace(equation, operands=maker.operands, params=(("axes", axes),)))[0]


_RULES: Final[Mapping[Any, Rule]] = MappingProxyType(
    {
        ew.add: _sum,
        ew.subtract: _difference,
        ew.multiply: _product,
        ew.divide: _quotient,
        ew.constant_power: _power,
        ew.negative: _twice,
        ew.positive: _operand,
        conj: _conjugate,
        logical_not: _twice,
        bitwise_invert: _twice,
        flip: _twice,
        where: _selection,
        reshape: _reshaped,
        transpose: _transposed,
    }
)
