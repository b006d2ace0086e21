"""Constant folding: what is known before any input is there, is computed once.

>>> import funcgrad as fg
>>> from funcgrad.passes.simplify import simplify
>>> staged = simplify(fg.program(lambda x: x * (fg.stop_gradient(x) ** 1 * 1.0 - x))(3.0))
>>> fold_constants(staged) == staged
True
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad.equations import Constant, Equation
from funcgrad.passes.rewrite import Draft, rewrite
from funcgrad.primitive import Primitive
from funcgrad.primitives.reduction import broadcast_to
from funcgrad.primitives.structural import (
    cast_discrete,
    cast_inexact,
    flip,
    reshape,
    roll,
    transpose,
    view,
)
from funcgrad.programs import Program
from funcgrad.shape import Shape, Spec, spec_of

__all__ = ["fold_constants"]

_SMALL: Final = 1024
_TO_ITS_SPEC: Final = (reshape, broadcast_to, cast_inexact, cast_discrete)
"""Operations that change nothing where the result has the shape and the dtype of the operand."""


def fold_constants(program: Program) -> Program:
    """Evaluate what depends on constants only, and drop what changes nothing.

    An equation is evaluated where its result takes no more room than its operands, or little. One
    that NumPy warns about is left alone, so that the warning comes when and where it did.

    A reshape to the same shape, a transposition that keeps the order of axes, a cast to the same
    dtype, a broadcast to the same shape and an index that takes the whole array are dropped.
    """
    return rewrite(program, _step)


def _step(draft: Draft, equation: Equation) -> Sequence[int]:
    if not isinstance(equation.operation, Primitive):
        return draft.append(equation)
    if _changes_nothing(draft, equation):
        return equation.operands
    constants = [draft.constant_of(variable) for variable in equation.operands]
    known = [constant for constant in constants if constant is not None and constant.is_raw]
    if len(known) < len(constants) or not _is_worth_keeping(equation, known):
        return draft.append(equation)
    value = _evaluated(equation.operation, equation, known)
    if value is None or spec_of(value) != equation.results[0]:
        return draft.append(equation)
    return [draft.constant(Constant(value))]


def _is_worth_keeping(equation: Equation, operands: Sequence[Constant]) -> bool:
    size = prod(equation.results[0].shape)
    return size <= max(_SMALL, sum([prod(operand.spec.shape) for operand in operands]))


def _evaluated(primitive: Primitive, equation: Equation, operands: Sequence[Constant]) -> Any:
    """The value of an equation; None where NumPy would warn."""
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            return primitive.evaluate(
                *[operand.value for operand in operands], **dict(equation.params)
            )
    except FloatingPointError:
        return None


def _changes_nothing(draft: Draft, equation: Equation) -> bool:
    """Whether the result is the operand itself, to every element and to its weakness."""
    if len(equation.operands) != 1 or draft.spec(equation.operands[0]) != equation.results[0]:
        return False
    operation, params = equation.operation, dict(equation.params)
    if operation is transpose:
        return bool(params["axes"] == tuple(range(len(params["axes"]))))
    if operation is view:
        return _takes_all(equation.results[0], params["key"])
    if operation is flip:
        return not params["axis"]
    if operation is roll:
        return not any(params["shift"])
    return operation in _TO_ITS_SPEC


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
