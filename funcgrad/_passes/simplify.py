"""Exact algebra: rewrites that keep every bit, also of -0.0, infinities and NaN.

So the rules exclude ``x + 0.0 = x``, which fails for -0.0, and ``x * 0.0 = 0.0``, which fails for
infinities and NaN. Complex products with 1 are kept: NumPy multiplies by ``1 + 0j``, which turns an
infinity into NaN. ``x + -y`` equals ``x - y`` by definition, including the sign of zero, and a
product may be negated before or after.

>>> import funcgrad as fg
>>> staged = fg.program(lambda x, y: x * 1.0 + -(y * 3.0))(fg.tensor([3.0]), fg.tensor([2.0]))
>>> [str(c) for c in simplify(staged).constants]
['-3.0']
>>> [equation.operation.name for equation in simplify(staged).equations]
['multiply', 'add']
"""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._core.specs import is_inexact
from funcgrad._core.structure.folds import SUM, Fold
from funcgrad._core.structure.structures import Reduction, Structure
from funcgrad._passes.workbench import Rules, Workbench, improve
from funcgrad._primitives import elementwise as ew
from funcgrad._primitives.blocks import spread_block, take_block
from funcgrad._primitives.structural import cast_discrete, cast_inexact, reshape
from funcgrad._programs.equation import Equation
from funcgrad._programs.program import Program

_SMALL: Final = 1024
"""The largest constant that is negated: both it and its negation may have to be stored."""


def simplify(program: Program) -> Program:
    """Replace results by equal existing variables, or by equal ones that take fewer operations.

    Shape, dtype and weakness have to be equal as well, so that promotion does not change.
    """
    return improve(program, ALGEBRA)


# --------------------------------------------------------------------------------- neutral elements


def _is_one(bench: Workbench, variable: int) -> bool:
    """Whether a variable is a constant of ones."""
    constant = bench.constants.get(variable)
    if constant is None or not constant.is_raw:
        return False
    if type(constant.value) is float:  # the usual case, fifty times as fast as for an array
        return constant.value == 1.0
    return bool(np.all(constant.value == 1))


def _product(bench: Workbench, equation: Equation) -> int | None:
    """Rewrite ``1 * x`` as ``x``, for real numbers."""
    x, y = equation.operands
    if equation.results[0].dtype.kind == "c":
        return None
    if _is_one(bench, y):
        return x
    return y if _is_one(bench, x) else None


# ---------------------------------------------------------------------------------- opposites


def _opposite(bench: Workbench, variable: int) -> int | None:
    """The variable whose negation this one is, if they are floats."""
    maker = bench.is_made_by(variable, ew.negative)
    if maker is None or bench.specs[variable].dtype.kind != "f":
        return None
    x = maker.operands[0]
    return x if bench.specs[x] == bench.specs[variable] else None


def _minus(bench: Workbench, variable: int) -> int | None:
    """The variable of a constant's negation, for arithmetic with floats: ``-0`` becomes -0.0."""
    constant = bench.constants.get(variable)
    if constant is None or not constant.is_raw or np.size(constant.value) > _SMALL:
        return None
    if constant.spec.weak and constant.spec.dtype.kind in "if":
        return bench.constant(-float(constant.value))
    return bench.constant(-constant.value) if constant.spec.dtype.kind == "f" else None


def _sum_with_opposite(bench: Workbench, equation: Equation) -> int | None:
    """Rewrite ``x + -y`` as ``x - y``."""
    if equation.results[0].dtype.kind != "f":
        return None
    x, y = equation.operands
    for one, other in ((x, y), (y, x)):
        minus = _opposite(bench, other)
        if minus is not None:
            return bench.put(equation, ew.subtract, (one, minus))
    return None


def _opposite_of_product(bench: Workbench, equation: Equation) -> int | None:
    """Rewrite ``-(3 * x)`` as ``-3 * x``; quotients likewise."""
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


# ------------------------------------------------------------------------------------- reshapes


def _reshaped(bench: Workbench, equation: Equation) -> int | None:
    """Rewrite ``reshape(reshape(x))`` as one reshape."""
    maker = bench.is_made_by(equation.operands[0], reshape)
    if maker is None:
        return None
    (x,), result = maker.operands, equation.results[0]
    if bench.specs[x] == result:
        return x
    return bench.put(equation, reshape, (x,), equation.params)


# --------------------------------------------------------------------------------------- blocks


def _nested_blocks(bench: Workbench, equation: Equation) -> int | None:
    """Rewrite a block of a block along other axes as one block; and spreads of spreads likewise.

    A start then counts along an axis of the same size as before, so it selects the same place.
    """
    maker = bench.is_made_by(equation.operands[0], equation.operation)
    if maker is None:
        return None
    (x, *starts), more = maker.operands, equation.operands[1:]
    inner, outer = dict(maker.params), dict(equation.params)
    if inner["mode"] != outer["mode"] or not set(inner["axes"]).isdisjoint(outer["axes"]):
        return None
    if bench.specs[starts[0]].shape != bench.specs[more[0]].shape:
        return None  # one serves the whole batch, the other one example
    joined: dict[str, Any] = {
        name: inner[name] + outer[name] for name in ("axes", "sizes") if name in outer
    }
    params = tuple([(name, joined.get(name, value)) for name, value in equation.params])
    return bench.put(equation, equation.operation, (x, *starts, *more), params)


# ------------------------------------------------------------------- reductions of single elements


def _of_single_elements(bench: Workbench, equation: Equation) -> int | None:
    """Rewrite a reduction over no axes, or over axes of size 1, without a reduction.

    A sum starts from 0.0, which turns -0.0 into 0.0; a complex product starts from ``1 + 0j``.
    """
    fold = _fold_of_elements(equation.operation.structure)
    x, result = equation.operands[0], equation.results[0]
    spec = bench.specs[x]
    is_alone = prod(spec.shape) == prod(result.shape) > 0
    if fold is None or not is_alone or not np.can_cast(spec.dtype, result.dtype):
        return None
    if result.dtype.kind == "c" and fold is not SUM:
        return None
    reshapes, casts = spec.shape != result.shape, spec.dtype != result.dtype or spec.weak
    adds = fold is SUM and is_inexact(result.dtype)
    if reshapes + casts + adds > 1:
        return None  # it would take two operations
    if adds:
        return bench.put(equation, ew.add, (x, bench.constant(0.0)))
    if casts:
        operation = cast_inexact if is_inexact(result.dtype) else cast_discrete
        return bench.put(equation, operation, (x,), (("dtype", result.dtype),))
    return bench.put(equation, reshape, (x,), (("shape", result.shape),)) if reshapes else x


def _fold_of_elements(structure: Structure) -> Fold | None:
    """The fold of a reduction whose result for one element is that element."""
    fold = structure.fold if isinstance(structure, Reduction) else None
    return fold if fold is not None and fold.start is fold.finish is None else None


ALGEBRA: Final[Rules] = MappingProxyType(
    {
        ew.add: (_sum_with_opposite,),
        ew.negative: (_opposite_of_product,),
        ew.multiply: (_product,),
        reshape: (_reshaped,),
        take_block: (_nested_blocks,),
        spread_block: (_nested_blocks,),
        Reduction: (_of_single_elements,),
    }
)
