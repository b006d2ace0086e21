"""Negations: merged into constants, into sums and differences, and with one another.

``x + -y`` is ``x - y`` by the definition of a difference, to the sign of zero, and a product or
quotient may be negated before or after. A sum may not: ``-(x + y)`` of 0.0 and -0.0 is -0.0, and
``-x - y`` is 0.0. So negations move outwards, past products and moves of elements, where all that
reads the result takes a negation in for nothing.

>>> import funcgrad as fg
>>> x, y = fg.tensor([1.0, 2.0]), fg.tensor([3.0, 4.0])
>>> staged = fg.program(lambda x, y: x + (-y * x) * 2.0)(x, y)
>>> print(absorb_negations(staged).to_text(sources=False))
program <lambda>(x: float64[2], y: float64[2]) -> float64[2]
  a = constant -2.0
  b: float64[2] = multiply y x
  c: float64[2] = multiply b a
  d: float64[2] = add x c
  return d
"""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad.passes.scale import scalar
from funcgrad.passes.workbench import Rules, Workbench, improve
from funcgrad.primitives.broadcasting import broadcast_to
from funcgrad.primitives.elementwise import (
    absolute,
    add,
    divide,
    fabs,
    multiply,
    negative,
    reciprocal,
    square,
    subtract,
)
from funcgrad.primitives.selection import where
from funcgrad.primitives.structural import cast_inexact, flip, reshape, roll, transpose, view
from funcgrad.programs.equation import Equation
from funcgrad.programs.program import Program

__all__ = ["NEGATION", "absorb_negations"]

_SMALL: Final = 1024
_EVEN: Final = frozenset({square, absolute, fabs})
_MOVES: Final = frozenset({reshape, broadcast_to, transpose, view, flip, roll, cast_inexact})
_PRODUCTS: Final = frozenset({multiply, divide})


def absorb_negations(program: Program) -> Program:
    """Do away with negations of real floating numbers where something else can take them in.

    There never are more operations than before, and every element keeps its bits.
    """
    return improve(program, NEGATION)


def _opposite(bench: Workbench, variable: int) -> int | None:
    """The variable that this one is the negation of, if it is a negation of floats."""
    maker = bench.makers[variable]
    if maker is None or maker.operation is not negative or bench.specs[variable].dtype.kind != "f":
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


# What takes negations in.


def _sum(bench: Workbench, equation: Equation) -> int | None:
    x, y = equation.operands
    if equation.results[0].dtype.kind != "f":
        return None
    other = _opposite(bench, y)
    if x == y and other is not None:
        return bench.put(equation, multiply, (bench.constant(-2.0), other))
    if other is not None:
        return bench.put(equation, subtract, (x, other))
    other = _opposite(bench, x)
    return None if other is None else bench.put(equation, subtract, (y, other))


def _difference(bench: Workbench, equation: Equation) -> int | None:
    other = _opposite(bench, equation.operands[1])
    if other is None or equation.results[0].dtype.kind != "f":
        return None
    return bench.put(equation, add, (equation.operands[0], other))


def _product(bench: Workbench, equation: Equation) -> int | None:
    """A product or a quotient of which an operand is negated."""
    x, y = equation.operands
    if equation.results[0].dtype.kind != "f":
        return None
    minus_x, minus_y = _opposite(bench, x), _opposite(bench, y)
    if minus_x is None and minus_y is None:
        return None
    if minus_x is not None and minus_y is not None:
        return bench.put(equation, equation.operation, (minus_x, minus_y))
    constant = _minus(bench, x if minus_x is None else y)
    operands = (x if minus_x is None else minus_x, y if minus_y is None else minus_y)
    if constant is not None:
        operands = (constant, operands[1]) if minus_x is None else (operands[0], constant)
        return bench.put(equation, equation.operation, operands)
    return _negated_after(bench, equation, operands)


def _product_with_minus_one(bench: Workbench, equation: Equation) -> int | None:
    dtype = equation.results[0].dtype
    x, y = equation.operands
    if dtype.kind != "f" or (x not in bench.constants and y not in bench.constants):
        return None
    for constant, rest in ((x, y), (y, x)):
        if constant in bench.constants and bench.specs[rest] == equation.results[0]:
            return (
                bench.put(equation, negative, (rest,))
                if scalar(bench, constant, dtype) == -1
                else None
            )
    return None


def _even(bench: Workbench, equation: Equation) -> int | None:
    other = _opposite(bench, equation.operands[0])
    return None if other is None else bench.put(equation, equation.operation, (other,))


def _negation(bench: Workbench, equation: Equation) -> int | None:
    """A negated product with a constant, unless what reads it takes the negation for nothing."""
    maker = bench.makers[equation.operands[0]]
    if maker is None or maker.operation not in _PRODUCTS:
        return None
    if equation.results != maker.results or equation.results[0].dtype.kind != "f":
        return None
    x, y = maker.operands
    if (x not in bench.constants and y not in bench.constants) or _is_absorbed(bench):
        return None
    minus_x = _minus(bench, x)
    if minus_x is not None:
        return bench.put(equation, maker.operation, (minus_x, y))
    minus_y = _minus(bench, y)
    return None if minus_y is None else bench.put(equation, maker.operation, (x, minus_y))


# What lets negations through.


def _moved(bench: Workbench, equation: Equation) -> int | None:
    """A move of negated elements, or a reciprocal."""
    other = _opposite(bench, equation.operands[0])
    return None if other is None else _negated_after(bench, equation, (other,))


def _selection(bench: Workbench, equation: Equation) -> int | None:
    condition, x, y = equation.operands
    minus_x, minus_y = _opposite(bench, x), _opposite(bench, y)
    if (minus_x is None and minus_y is None) or not _is_absorbed(bench):
        return None
    minus_x = _minus(bench, x) if minus_x is None else minus_x
    minus_y = _minus(bench, y) if minus_y is None else minus_y
    if minus_x is None or minus_y is None:
        return None
    return _negated_after(bench, equation, (condition, minus_x, minus_y))


def _negated_after(bench: Workbench, equation: Equation, operands: tuple[int, ...]) -> int | None:
    """The negation of an operation on other operands, if the negation will be absorbed."""
    if not _is_absorbed(bench) or equation.results[0].dtype.kind != "f":
        return None
    inner = bench.put(equation, equation.operation, operands, equation.params)
    return bench.put(equation, negative, (inner,))


def _is_absorbed(bench: Workbench) -> bool:
    """Whether all that reads the result looked at could do with its negation as well."""
    bench.undecided = True  # what reads it may be another once the program has changed
    return bench.current >= 0 and bench.analysis(_absorbed)[bench.current]


def _absorbed(program: Program) -> Sequence[bool]:
    """By variable, whether all that reads it takes in a negation or lets it through to such."""
    given = len(program.inputs)
    constants = range(given, given + len(program.constants))
    total = constants.stop + sum([len(equation.results) for equation in program.equations])
    absorbed = [True] * total
    for variable in (*program.outputs, *[guard.variable for guard in program.guards]):
        absorbed[variable] = False
    first = total
    for equation in reversed(program.equations):
        first -= len(equation.results)
        operands = equation.operands
        for k, variable in enumerate(operands):
            if absorbed[variable] and not _takes(
                equation.operation, k, operands, constants, absorbed[first]
            ):
                absorbed[variable] = False
    return absorbed


def _takes(
    operation: Any, place: int, operands: tuple[int, ...], constants: range, through: bool
) -> bool:
    """Whether an operation could do with the negation of one of its operands.

    Parameters
    ----------
    operation : Primitive
    place : int
        Of the operand.
    operands : tuple of int
    constants : range
        The variables that are constants.
    through : bool
        Whether the negation of the result would do.
    """
    if operation is add or operation is negative or operation in _EVEN:
        return True
    if operation is subtract:
        return place == 1
    if operation in _PRODUCTS:
        other = operands[1 - place]
        return through or other in constants or other == operands[place]
    if operation is where:
        return place > 0 and through and any(x in constants for x in operands[1:])
    return through and (operation in _MOVES or operation is reciprocal)


NEGATION: Final[Rules] = MappingProxyType(
    {
        add: (_sum,),
        subtract: (_difference,),
        multiply: (_product, _product_with_minus_one),
        divide: (_product,),
        negative: (_negation,),
        where: (_selection,),
        reciprocal: (_moved,),
        **dict.fromkeys(_EVEN, (_even,)),
        **dict.fromkeys(_MOVES, (_moved,)),
    }
)
