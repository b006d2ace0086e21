"""Algebra that is exact: the result has the bits of the operand, for -0.0, infinities and NaN too.

So there is ``x - 0.0 = x`` and ``x + -0.0 = x``, but ``x + 0.0 = x`` only where x is never -0.0, of
which that makes 0.0, and no ``x * 0.0 = 0.0``, which infinities and NaN refute. Complex products
with 1 are left alone: NumPy multiplies with ``1 + 0j``, which makes NaN of an infinity.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: -(-x) / 1.0 + 0.0)(fg.tensor([3.0]))
>>> [equation.operation.name for equation in simplify(staged).equations]
['add']
"""

from __future__ import annotations

from math import copysign
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad.passes.workbench import Rules, Workbench, improve
from funcgrad.primitives import elementwise as ew
from funcgrad.primitives import logic
from funcgrad.primitives import selection as chosen
from funcgrad.primitives.complexes import conj
from funcgrad.primitives.reduction import reduce_max, reduce_mean, reduce_min, reduce_sum
from funcgrad.primitives.structural import (
    cast_discrete,
    cast_inexact,
    flip,
    reshape,
    transpose,
    view,
)
from funcgrad.primitives.transcendental import exp, sqrt
from funcgrad.programs.equation import Equation
from funcgrad.programs.program import Program

__all__ = ["ALGEBRA", "simplify"]


def simplify(program: Program) -> Program:
    """Replace results that equal something which is there already, or takes one operation less.

    Only where shape, dtype and weakness are the same as well, so that promotion does not change.
    """
    return improve(program, ALGEBRA)


# --------------------------------------------------------------------------------- neutral elements


def _is(bench: Workbench, variable: int, *numbers: Any) -> bool:
    """Whether a variable is a constant whose elements all are one of some numbers, to the sign."""
    constant = bench.constants.get(variable)
    if constant is None or not constant.is_raw or constant.spec.dtype.kind == "c":
        return False
    if type(constant.value) is float:  # most are, and an array takes fifty times as long
        sign = copysign(1.0, constant.value)
        return any(constant.value == n and sign == copysign(1.0, n) for n in numbers)
    value = np.asarray(constant.value)
    return any(
        bool(np.all(value == number) and np.all(np.signbit(value * 1.0) == np.signbit(number)))
        for number in numbers
    )


def _is_real(bench: Workbench, *variables: int) -> bool:
    return all(bench.specs[variable].dtype.kind != "c" for variable in variables)


def _product(bench: Workbench, equation: Equation) -> int | None:
    x, y = equation.operands
    if (x not in bench.constants and y not in bench.constants) or not _is_real(bench, x, y):
        return None
    if _is(bench, y, 1.0):
        return x
    return y if _is(bench, x, 1.0) else None


def _quotient(bench: Workbench, equation: Equation) -> int | None:
    x, y = equation.operands
    return x if y in bench.constants and _is_real(bench, x) and _is(bench, y, 1.0) else None


def _difference(bench: Workbench, equation: Equation) -> int | None:
    x, y = equation.operands
    return x if _is(bench, y, 0.0) else None


def _sum(bench: Workbench, equation: Equation) -> int | None:
    x, y = equation.operands
    if (x not in bench.constants and y not in bench.constants) or not _is_real(bench, x, y):
        return None
    zero = -0.0 if equation.results[0].dtype.kind == "f" else 0.0
    for zeros, other in ((y, x), (x, y)):
        if zeros in bench.constants and (
            _is(bench, zeros, zero)
            or (_is(bench, zeros, 0.0) and _is_no_minus_zero(bench, other, _DEPTH))
        ):
            return other
    return None


def _power(bench: Workbench, equation: Equation) -> int | None:
    x, exponent = equation.operands[0], dict(equation.params)["exponent"]
    if exponent == 1 and _is_real(bench, x):
        return x
    if type(exponent) is int and exponent == 2 and bench.specs[x].dtype.kind in "fc":
        return bench.put(equation, ew.square, (x,))  # which is what it evaluates
    return None


_DEPTH: Final = 6


def _is_no_minus_zero(bench: Workbench, variable: int, depth: int) -> bool:
    """Whether no element can be -0.0: a sum is -0.0 only where both summands are."""
    if bench.specs[variable].dtype.kind != "f":
        return bench.specs[variable].dtype.kind != "c"
    constant = bench.constants.get(variable)
    if constant is not None:
        return constant.is_raw and not np.any(
            np.signbit(constant.value) & np.equal(constant.value, 0)
        )
    maker = bench.makers[variable]
    if maker is None or not depth:
        return False
    if maker.operation is ew.add:
        return any(_is_no_minus_zero(bench, x, depth - 1) for x in maker.operands)
    if maker.operation is ew.subtract or maker.operation in _MINUS_ZERO_OF_MINUS_ZEROS:
        return _is_no_minus_zero(bench, maker.operands[0], depth - 1)
    return _has_no_sign(bench, variable, depth)


def _has_no_sign(bench: Workbench, variable: int, depth: int) -> bool:
    """Whether every element is positive, 0.0 or NaN."""
    if bench.specs[variable].dtype.kind in "bu":
        return True
    constant = bench.constants.get(variable)
    if constant is not None:
        return constant.is_raw and not np.any(np.signbit(np.asarray(constant.value) * 1.0))
    maker = bench.makers[variable]
    if maker is None or not depth or bench.specs[variable].dtype.kind != "f":
        return False
    operation, operands = maker.operation, maker.operands
    if operation in _UNSIGNED:
        return _is_real(bench, *operands)
    if operation is ew.multiply and operands[0] == operands[1]:
        return True
    return operation in _UNSIGNED_OF_UNSIGNED and all(
        _has_no_sign(bench, x, depth - 1) for x in operands
    )


_UNSIGNED: Final = frozenset({ew.square, ew.absolute, ew.fabs, exp})
_UNSIGNED_OF_UNSIGNED: Final = frozenset(
    {ew.add, ew.multiply, ew.divide, sqrt, reduce_sum, reduce_mean, reduce_max, reduce_min}
    | {reshape, transpose, view}
)
_MINUS_ZERO_OF_MINUS_ZEROS: Final = frozenset({reduce_sum, reshape, transpose, view})

# ------------------------------------------------------------------------------- the same once more


def _twice(bench: Workbench, equation: Equation) -> int | None:
    """The operand of an operation that undoes itself, such as a negation."""
    maker = bench.is_made_by(equation.operands[0], equation.operation)
    return None if maker is None or maker.params != equation.params else maker.operands[0]


def _operand(bench: Workbench, equation: Equation) -> int | None:
    return equation.operands[0]


def _either(bench: Workbench, equation: Equation) -> int | None:
    """The operand that stands on both sides of an operation that chooses."""
    x, y = equation.operands
    return x if x == y else None


def _conjugate(bench: Workbench, equation: Equation) -> int | None:
    x = equation.operands[0]
    return x if _is_real(bench, x) else _twice(bench, equation)


def _product_as_square(bench: Workbench, equation: Equation) -> int | None:
    """``x * x`` where ``square(x)`` is there."""
    x, y = equation.operands
    return bench.known(equation, ew.square, (x,)) if x == y and _is_real(bench, x) else None


def _square_as_product(bench: Workbench, equation: Equation) -> int | None:
    x = equation.operands[0]
    return bench.known(equation, ew.multiply, (x, x)) if _is_real(bench, x) else None


# --------------------------------------------------------------------------------------- selections


def _selection(bench: Workbench, equation: Equation) -> int | None:
    condition, x, y = equation.operands
    if x == y:
        return x
    constant = bench.constants.get(condition)
    if constant is not None and constant.is_raw:
        taken = np.asarray(constant.value).astype(np.bool_)
        if taken.all():
            return x
        if not taken.any():
            return y
    maker = bench.is_made_by(condition, logic.logical_not)
    if maker is not None:
        return bench.put(equation, chosen.where, (maker.operands[0], y, x))
    return None


def _nested_selection(bench: Workbench, equation: Equation) -> int | None:
    """A selection inside a selection by the same condition: one of its values never comes out."""
    condition, *values = equation.operands
    for k, variable in enumerate(values):
        maker = bench.is_made_by(variable, chosen.where)
        if maker is None or maker.operands[0] != condition:
            continue
        inner = maker.operands[1 + k]
        if bench.specs[inner] == bench.specs[variable]:
            values[k] = inner
            return bench.put(equation, chosen.where, (condition, *values))
    return None


def _not(bench: Workbench, equation: Equation) -> int | None:
    """``not x == y`` is ``x != y``, for NaN too; of integers every comparison has an opposite."""
    maker = bench.makers[equation.operands[0]]
    if maker is None:
        return None
    opposite = _OPPOSITES.get(maker.operation)
    if opposite is None and all(bench.specs[x].dtype.kind in "biu" for x in maker.operands):
        opposite = _OPPOSITES_OF_INTEGERS.get(maker.operation)
    return None if opposite is None else bench.put(equation, opposite, maker.operands)


_OPPOSITES: Final = MappingProxyType(
    {logic.equal: logic.not_equal, logic.not_equal: logic.equal},
)
_OPPOSITES_OF_INTEGERS: Final = MappingProxyType(
    {
        logic.less: logic.greater_equal,
        logic.greater_equal: logic.less,
        logic.greater: logic.less_equal,
        logic.less_equal: logic.greater,
    }
)

# -------------------------------------------------------------------------------------------- casts


def _cast(bench: Workbench, equation: Equation) -> int | None:
    """Of two casts the first, where it loses nothing and the second goes back or is to floats."""
    maker = bench.is_made_by(equation.operands[0], cast_inexact)
    if maker is None:
        return None
    x = maker.operands[0]
    first, between, last = bench.specs[x].dtype, maker.results[0].dtype, equation.results[0].dtype
    if first.kind == "c" or not _holds(between, first):
        return None
    if first == last and bench.specs[x] == equation.results[0]:
        return x
    if last.kind == "f" and between.kind == "f":
        return bench.put(equation, cast_inexact, (x,), equation.params)
    return None


def _holds(wide: np.dtype[Any], narrow: np.dtype[Any]) -> bool:
    """Whether a floating dtype has every number of another dtype."""
    return np.can_cast(narrow, wide, "safe") and not (narrow.kind in "iu" and narrow.itemsize == 8)


_CHOOSING: Final = frozenset(
    {chosen.maximum, chosen.minimum, chosen.fmax, chosen.fmin}
    | {logic.logical_and, logic.logical_or, logic.bitwise_and, logic.bitwise_or}
)

ALGEBRA: Final[Rules] = MappingProxyType(
    {
        ew.add: (_sum,),
        ew.subtract: (_difference,),
        ew.multiply: (_product, _product_as_square),
        ew.divide: (_quotient,),
        ew.square: (_square_as_product,),
        ew.constant_power: (_power,),
        ew.negative: (_twice,),
        ew.positive: (_operand,),
        conj: (_conjugate,),
        logic.logical_not: (_twice, _not),
        logic.bitwise_invert: (_twice,),
        flip: (_twice,),
        chosen.where: (_selection, _nested_selection),
        cast_inexact: (_cast,),
        cast_discrete: (_cast,),
        **dict.fromkeys(_CHOOSING, (_either,)),
    }
)
