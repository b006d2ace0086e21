"""Powers of two: factors that change no digit of a number, only its exponent.

A product with a power of two is exact unless it leaves the range of its dtype, so some factors may
be merged to the last bit. Which ones is decided by what happens at the ends of the range:

- ``2 * (3 * x)`` is ``6 * x``: an integer times x, where it is subnormal, is exact.
- ``c * (2 * x)`` is ``(2 * c) * x`` for ``abs(c) >= 1``: what overflows does so either way.
- ``2 * (0.3 * x)`` is not ``0.6 * x``: a subnormal ``0.3 * x`` has been rounded.
- ``x / 4`` is ``0.25 * x``: both are the same number, rounded once.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x: (3.0 * x + 3.0 * x) / 4.0)(fg.tensor([1.0, 2.0]))
>>> print(merge_powers_of_two(staged).to_text(sources=False))
program <lambda>(x: float64[2]) -> float64[2]
  a = constant 6.0
  b = constant 0.25
  c: float64[2] = multiply a x
  d: float64[2] = multiply c b
  return d
"""

from __future__ import annotations

from math import frexp
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad.passes.workbench import Rules, Workbench, improve
from funcgrad.primitives.elementwise import add, divide, multiply
from funcgrad.programs.equation import Equation
from funcgrad.programs.program import Program

__all__ = ["SCALING", "factor_and_rest", "merge_powers_of_two", "scalar"]


def merge_powers_of_two(program: Program) -> Program:
    """Merge factors of which one is a power of two, and multiply rather than divide by one.

    Only where every element of the result keeps its bits, in the ends of the range too.
    """
    return improve(program, SCALING)


def scalar(bench: Workbench, variable: int, dtype: np.dtype[Any]) -> float | None:
    """The number that a 0-d constant is in an operation with a floating result of a dtype."""
    constant = bench.constants.get(variable)
    if constant is None or not constant.is_raw or constant.spec.shape:
        return None
    if constant.spec.dtype.kind not in "iuf":
        return None
    if type(constant.value) is float and dtype.char == "d":  # most are
        return constant.value
    with np.errstate(over="ignore"):
        return float(dtype.type(constant.value))


def factor_and_rest(bench: Workbench, variable: int) -> tuple[float, int] | None:
    """The ``c`` and ``x`` of a floating variable that is ``c * x``, or ``x + x``, which is ``2 x``.

    ``x`` has the dtype of the product and is no Python number, so a Python number beside it leaves
    the dtype what it is.
    """
    maker, spec = bench.makers[variable], bench.specs[variable]
    if maker is None or spec.dtype.kind != "f" or maker.operation not in (multiply, add):
        return None
    x, y = maker.operands
    if maker.operation is add:
        return (2.0, x) if x == y and _is_strong(bench, x, spec.dtype) else None
    for constant, rest in ((x, y), (y, x)):
        number = scalar(bench, constant, spec.dtype)
        if number is not None and _is_strong(bench, rest, spec.dtype):
            return number, rest
    return None


def _is_strong(bench: Workbench, variable: int, dtype: np.dtype[Any]) -> bool:
    return bench.specs[variable].dtype == dtype and not bench.specs[variable].weak


def _is_power(number: float) -> bool:
    """Whether a number is a power of two or the negative of one."""
    return abs(frexp(number)[0]) == 0.5


def _is_mergeable(outer: float, inner: float, dtype: np.dtype[Any]) -> bool:
    """Whether ``outer * (inner * x)`` is ``(outer * inner) * x`` to the bit."""
    if not np.isfinite(outer) or not np.isfinite(inner) or not abs(outer) >= 1:
        return False
    if not (_is_power(outer) and inner.is_integer()) and not (_is_power(inner) and abs(inner) >= 1):
        return False
    return abs(outer * inner) <= float(np.finfo(dtype).max)


def _merged(bench: Workbench, equation: Equation, outer: float, product: int) -> int | None:
    """``outer`` times a product with a number, as one product."""
    found = factor_and_rest(bench, product)
    if found is None or not _is_mergeable(outer, found[0], equation.results[0].dtype):
        return None
    return bench.put(equation, multiply, (bench.constant(outer * found[0]), found[1]))


def _product(bench: Workbench, equation: Equation) -> int | None:
    dtype = equation.results[0].dtype
    x, y = equation.operands
    if dtype.kind != "f":
        return None
    for constant, rest in ((x, y), (y, x)):
        if constant in bench.constants and bench.specs[rest].dtype == dtype:
            outer = scalar(bench, constant, dtype)
            if outer is not None:
                return _merged(bench, equation, outer, rest)
    return None


def _sum(bench: Workbench, equation: Equation) -> int | None:
    x, y = equation.operands
    return _merged(bench, equation, 2.0, x) if x == y else None


def _quotient(bench: Workbench, equation: Equation) -> int | None:
    x, y = equation.operands
    dtype = equation.results[0].dtype
    if dtype.kind != "f" or y not in bench.constants or not _is_strong(bench, x, dtype):
        return None
    number = scalar(bench, y, dtype)
    if not number or not np.isfinite(number) or not _is_power(number):
        return None
    inverse = 1 / number
    if not np.finfo(dtype).tiny <= abs(inverse) <= np.finfo(dtype).max:
        return None
    return bench.put(equation, multiply, (x, bench.constant(inverse)))


SCALING: Final[Rules] = MappingProxyType(
    {multiply: (_product,), add: (_sum,), divide: (_quotient,)}
)
