"""Cumulative operations, and reductions whose elements have an order, as steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.lanes import NotEmitted, Value
from funcgrad._backends.native.pairs import unknown
from funcgrad._backends.native.plan_steps import Fill, Folding, Scanning
from funcgrad._backends.native.registers import Registers
from funcgrad._backends.native.unfinished_plan import UnfinishedPlan
from funcgrad._core.structure.folds import Fold
from funcgrad._core.structure.structures import Reduction, Scan
from funcgrad._programs.equation import Equation


def scans(plan: UnfinishedPlan, equation: Equation, structure: Scan, variable: int) -> bool:
    """Plan a cumulative operation; returns whether its fold has instructions."""
    params, spec = dict(equation.params), plan.specs[variable]
    specs = [plan.specs[operand] for operand in equation.operands]
    if not {*params} <= {"axis", "reverse"} or any(s.shape != spec.shape for s in specs):
        return False
    if not spec.shape or not is_folded(plan, structure.fold, [s.dtype for s in specs], spec.dtype):
        return False
    if 0 in spec.shape:
        plan.append(Fill(variable), range(variable, variable + 1))
        return True
    axis, reverse = params["axis"] % len(spec.shape), params.get("reverse", False)
    plan.prepare(equation.operands)
    step = Scanning(equation, variable, structure.fold, axis, reverse)
    plan.append(step, range(variable, variable + 1))
    return True


def folds_in_order(
    plan: UnfinishedPlan, equation: Equation, structure: Reduction, variable: int
) -> bool:
    """Plan a reduction along neighbouring axes; returns whether its fold has instructions."""
    params, fold, spec = dict(equation.params), structure.fold, plan.specs[variable]
    if fold is None or not {*params} <= {"axis", "keepdims"} or not params["axis"]:
        return False
    shape = plan.specs[equation.operands[0]].shape
    axes = sorted([axis % len(shape) for axis in params["axis"]])
    if 0 in shape or axes[-1] - axes[0] != len(axes) - 1:
        return False
    dtypes = [plan.specs[operand].dtype for operand in equation.operands]
    if not is_folded(plan, fold, dtypes, spec.dtype):
        return False
    plan.prepare(equation.operands)
    step = Folding(equation, variable, fold, axes[0], len(axes))
    plan.append(step, range(variable, variable + 1))
    return True


def is_folded(
    plan: UnfinishedPlan, fold: Fold, sources: Sequence[np.dtype[Any]], target: np.dtype[Any]
) -> bool:
    """Whether there are instructions for a fold of elements of some dtypes."""
    lanes = Registers(FunctionText(plan.arithmetic, is_draft=True), 1)
    elements = [unknown(lanes, dtype) for dtype in sources]
    place = Value("%k", np.dtype(np.int64), lanes)
    try:
        state = fold.of(lanes, target, place, *elements)
        both = fold.combine(lanes, state, state)
        lanes.astype(fold.element(lanes, both), target)
    except NotEmitted as error:
        plan.lack = f"{error} in a fold"
        return False
    return True
