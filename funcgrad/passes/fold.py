"""Constant folding: what is known before any input is there, is computed once.

>>> import funcgrad as fg
>>> from funcgrad.passes.simplify import simplify
>>> staged = simplify(fg.program(lambda x: x * (fg.stop_gradient(x) ** 1 * 1.0 - x))(3.0))
>>> fold_constants(staged) == staged
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad.passes.workbench import ANY, Rules, Workbench, improve
from funcgrad.primitive import Primitive
from funcgrad.primitives.broadcasting import broadcast_to
from funcgrad.primitives.structural import (
    cast_discrete,
    cast_inexact,
    flip,
    reshape,
    roll,
    transpose,
    view,
)
from funcgrad.programs.equation import Constant, Equation
from funcgrad.programs.program import Program
from funcgrad.shape import Shape, Spec, spec_of
from funcgrad.trace import bind

__all__ = ["FOLDING", "fold_constants"]

_SMALL: Final = 1024


def fold_constants(program: Program) -> Program:
    """Evaluate what depends on constants only, and drop what changes nothing.

    An equation is evaluated where its result takes no more room than its operands, or little. One
    that NumPy warns about is left alone, so that the warning comes when and where it did.

    A reshape to the same shape, a transposition that keeps the order of axes, a cast to the same
    dtype, a broadcast to the same shape and an index that takes the whole array are dropped.
    """
    return improve(program, FOLDING)


def _folded(bench: Workbench, equation: Equation) -> int | None:
    constants = bench.constants
    for variable in equation.operands:
        if variable not in constants:
            return None
    known = [constants[variable] for variable in equation.operands]
    if not all(constant.is_raw for constant in known) or not _is_worth_keeping(equation, known):
        return None
    value = _evaluated(equation.operation, equation, known)
    if value is None or spec_of(value) != equation.results[0]:
        return None
    return bench.constant(value)


def _is_worth_keeping(equation: Equation, operands: Sequence[Constant]) -> bool:
    size = prod(equation.results[0].shape)
    return size <= max(_SMALL, sum([prod(operand.spec.shape) for operand in operands]))


def _evaluated(primitive: Primitive, equation: Equation, operands: Sequence[Constant]) -> Any:
    """The value of an equation; None where NumPy would warn."""
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            values = tuple([operand.value for operand in operands])
            return bind(primitive, values, dict(equation.params))
    except FloatingPointError:
        return None


def _same(changes_nothing: Callable[..., bool]) -> Callable[[Workbench, Equation], int | None]:
    """A rule for operations of one array that may change nothing about it."""

    def rule(bench: Workbench, equation: Equation) -> int | None:
        x, result = equation.operands[0], equation.results[0]
        if bench.specs[x] != result or not changes_nothing(result, **dict(equation.params)):
            return None
        return x

    return rule


def _takes_all(spec: Spec, key: Sequence[Any]) -> bool:
    """Whether an index only takes whole axes, each once and forwards."""
    entries = [entry for entry in key if entry is not ...]
    sizes: Shape = spec.shape[: len(entries)] if ... not in key else ()
    if ... in key:
        before = list(key).index(...)
        after = len(entries) - before
        sizes = (*spec.shape[:before], *spec.shape[len(spec.shape) - after :])
    return len(sizes) == len(entries) and all(
        type(entry) is slice and entry.indices(size) == (0, size, 1)
        for entry, size in zip(entries, sizes, strict=True)
    )


_TO_ITS_SPEC: Final = _same(lambda result, **params: True)
"""For operations that change nothing where the result has the shape and dtype of the operand."""

FOLDING: Final[Rules] = MappingProxyType(
    {
        ANY: (_folded,),
        reshape: (_TO_ITS_SPEC,),
        broadcast_to: (_TO_ITS_SPEC,),
        cast_inexact: (_TO_ITS_SPEC,),
        cast_discrete: (_TO_ITS_SPEC,),
        transpose: (_same(lambda result, axes: axes == tuple(range(len(axes)))),),
        view: (_same(lambda result, key: _takes_all(result, key)),),
        flip: (_same(lambda result, axis: not axis),),
        roll: (_same(lambda result, shift, axis: not any(shift)),),
    }
)
