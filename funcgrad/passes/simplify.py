"""Algebra that is exact: the result has the bits of the operand, for -0.0, infinities and NaN too.

So there is ``x + -0.0 = x``, but ``x + 0.0 = x`` only where x is never -0.0, of which that makes
0.0, and no ``x * 0.0 = 0.0``, which infinities and NaN refute. Complex products with 1 are left
alone: NumPy multiplies with ``1 + 0j``, which makes NaN of an infinity. ``x + -y`` is ``x - y`` by
the definition of a difference, to the sign of zero, and a product may be negated before or after.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x, y: x * 1.0 + (-y) * 3.0)(fg.tensor([3.0]), fg.tensor([2.0]))
>>> [str(c) for c in simplify(staged).constants]
['-3.0']
>>> [equation.operation.name for equation in simplify(staged).equations]
['multiply', 'add']
"""

from __future__ import annotations

from math import copysign
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad.passes.workbench import Rules, Workbench, improve
from funcgrad.primitives import elementwise as ew
from funcgrad.primitives.reduction import reduce_max, reduce_mean, reduce_min, reduce_sum
from funcgrad.primitives.structural import reshape, transpose, view
from funcgrad.primitives.transcendental import exp, sqrt
from funcgrad.programs.equation import Equation
from funcgrad.programs.program import Program

__all__ = ["ALGEBRA", "simplify"]

_SMALL: Final = 1024
"""No larger constant is negated: it would be kept beside the one that it is made of."""


def simplify(program: Program) -> Program:
    """Replace results that equal something which is there already, or takes one operation less.

    Only where shape, dtype and weakness are the same as well, so that promotion does not change.
    """
    return improve(program, ALGEBRA)


# --------------------------------------------------------------------------------- neutral elements


def _is(bench: Workbench, variable: int, *numbers: float) -> bool:
    """Whether a variable is a constant whose elements all are one of some numbers, to the sign."""
    constant = bench.constants.get(variable)
    if constant is None or not constant.is_raw or constant.spec.dtype.kind == "c":
        return False
    if type(constant.value) is float:  # most are, and an array takes fifty times as long
        if constant.value not in numbers:
            return False
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

# ---------------------------------------------------------------------------------- opposites


def _opposite(bench: Workbench, variable: int) -> int | None:
    """The variable that this one is the negation of, if it is a negation of floats."""
    maker = bench.is_made_by(variable, ew.negative)
    if maker is None or bench.specs[variable].dtype.kind != "f":
        return None
    x = maker.operands[0]
    return x if bench.specs[x] == bench.specs[variable] else None


def _minus(bench: Workbench, variable: int) -> int | None:
    """The negation of a constant, for use beside floats: that of a Python 0 is -0.0."""
    constant = bench.constants.get(variable)
    if constant is None or not constant.is_raw or np.size(constant.value) > _SMALL:
        return None
    if constant.spec.weak and constant.spec.dtype.kind in "if":
        return bench.constant(-float(constant.value))
    return bench.constant(-constant.value) if constant.spec.dtype.kind == "f" else None


def _sum_with_opposite(bench: Workbench, equation: Equation) -> int | None:
    """``x + -y`` as ``x - y``, and ``-x + -x`` as ``-2 * x``."""
    if equation.results[0].dtype.kind != "f":
        return None
    x, y = equation.operands
    for one, other in ((x, y), (y, x)):
        minus = _opposite(bench, other)
        if minus is not None and x == y:
            return bench.put(equation, ew.multiply, (bench.constant(-2.0), minus))
        if minus is not None:
            return bench.put(equation, ew.subtract, (one, minus))
    return None


def _difference_with_opposite(bench: Workbench, equation: Equation) -> int | None:
    """``x - -y`` as ``x + y``."""
    minus = _opposite(bench, equation.operands[1])
    if minus is None or equation.results[0].dtype.kind != "f":
        return None
    return bench.put(equation, ew.add, (equation.operands[0], minus))


def _product_with_minus_one(bench: Workbench, equation: Equation) -> int | None:
    """``x * -1`` as ``-x``."""
    x, y = equation.operands
    if x not in bench.constants and y not in bench.constants:
        return None
    if equation.results[0].dtype.kind != "f":
        return None
    for one, other in ((x, y), (y, x)):
        if _is(bench, one, -1.0) and bench.specs[other] == equation.results[0]:
            return bench.put(equation, ew.negative, (other,))
    return None


def _product_with_opposite(bench: Workbench, equation: Equation) -> int | None:
    """``-x * -y`` as ``x * y`` and ``-x * 3`` as ``x * -3``, and quotients likewise."""
    x, y = equation.operands
    minus_x, minus_y = _opposite(bench, x), _opposite(bench, y)
    if equation.results[0].dtype.kind != "f" or (minus_x is None and minus_y is None):
        return None
    minus_x = _minus(bench, x) if minus_x is None else minus_x
    minus_y = _minus(bench, y) if minus_y is None else minus_y
    if minus_x is None or minus_y is None:
        return None
    return bench.put(equation, equation.operation, (minus_x, minus_y))


def _opposite_of_product(bench: Workbench, equation: Equation) -> int | None:
    """``-(3 * x)`` as ``-3 * x``, and quotients likewise."""
    maker = bench.makers[equation.operands[0]]
    if maker is None or maker.operation not in (ew.multiply, ew.divide):
        return None
    if equation.results != maker.results or equation.results[0].dtype.kind != "f":
        return None
    x, y = maker.operands
    minus = _minus(bench, x)
    if minus is not None:
        return bench.put(equation, maker.operation, (minus, y))
    minus = _minus(bench, y)
    return None if minus is None else bench.put(equation, maker.operation, (x, minus))


def _doubled(bench: Workbench, equation: Equation) -> int | None:
    """``3 * x + 3 * x`` as ``6 * x``, for whole numbers: their products with what is subnormal are
    exact."""
    x, y = equation.operands
    product, dtype = bench.is_made_by(x, ew.multiply), equation.results[0].dtype
    if x != y or product is None or dtype.kind != "f":
        return None
    for factor, rest in (product.operands, product.operands[::-1]):
        constant = bench.constants.get(factor)
        if constant is None or bench.specs[rest] != equation.results[0]:
            continue
        value: Any = constant.value
        if type(value) not in (int, float) or not float(value).is_integer():
            continue
        if abs(2.0 * value) <= np.finfo(dtype).max:
            return bench.put(equation, ew.multiply, (bench.constant(2.0 * value), rest))
    return None


# ------------------------------------------------------------------------------------- reshapes


def _reshaped(bench: Workbench, equation: Equation) -> int | None:
    """Of two reshapes the last one says all."""
    maker = bench.is_made_by(equation.operands[0], reshape)
    if maker is None:
        return None
    (x,), result = maker.operands, equation.results[0]
    if bench.specs[x] == result:
        return x
    return bench.put(equation, reshape, (x,), equation.params)


ALGEBRA: Final[Rules] = MappingProxyType(
    {
        ew.add: (_sum, _sum_with_opposite, _doubled),
        ew.subtract: (_difference_with_opposite,),
        ew.negative: (_opposite_of_product,),
        ew.multiply: (_product, _product_with_minus_one, _product_with_opposite),
        ew.divide: (_product_with_opposite,),
        reshape: (_reshaped,),
    }
)
