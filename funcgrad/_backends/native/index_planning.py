"""Gathers and scatters as steps: which of them are written as loops."""

from __future__ import annotations

from math import prod

import numpy as np

from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.lanes import NotEmitted, element_type
from funcgrad._backends.native.pairs import part_of, unknown
from funcgrad._backends.native.plan_steps import Fill, Gathering, Scattering
from funcgrad._backends.native.registers import Registers
from funcgrad._backends.native.unfinished_plan import UnfinishedPlan
from funcgrad._core.structure.folds import Fold
from funcgrad._core.structure.index_maps import Places
from funcgrad._core.structure.structures import Gather, Scatter
from funcgrad._programs.equation import Equation


def gathers(plan: UnfinishedPlan, equation: Equation, structure: Gather, variable: int) -> bool:
    """Plan a gather; returns whether it is written as loops."""
    shapes = [plan.specs[operand].shape for operand in equation.operands]
    places = structure.places(*shapes, **dict(equation.params))
    spec, source = plan.specs[variable], plan.specs[equation.operands[0]]
    if spec.dtype != source.dtype or spec.weak or not _are_integers(plan, equation, places):
        return False
    if 0 in places.shape:
        plan.append(Fill(variable), range(variable, variable + 1))
        return True
    plan.prepare(equation.operands)
    plan.append(Gathering(equation, variable, places), range(variable, variable + 1))
    return True


def scatters(plan: UnfinishedPlan, equation: Equation, structure: Scatter, variable: int) -> bool:
    """Plan a scatter; returns whether it is written as loops."""
    shapes = [plan.specs[operand].shape for operand in equation.operands]
    places = structure.places(*shapes, **dict(equation.params))
    spec, updates = plan.specs[variable], plan.specs[equation.operands[structure.updates]]
    if updates.shape != places.shape or spec.weak or not _are_integers(plan, equation, places):
        return False
    if structure.updates and plan.specs[equation.operands[0]].dtype != spec.dtype:
        return False
    # A number that comes to zeros alone moves there: -0.0 added to 0.0 would be another.
    fold = None if places.unique and not structure.updates else structure.fold
    moves = fold is None and updates.dtype == spec.dtype
    if not moves and not _is_folded(plan, fold, updates.dtype, spec.dtype):
        return False
    plan.prepare(equation.operands)
    step = Scattering(equation, variable, places, structure.updates, fold)
    plan.append(step, range(variable, variable + 1))
    return True


def _are_integers(plan: UnfinishedPlan, equation: Equation, places: Places) -> bool:
    """Whether all places are chosen by integers, along axes that have some."""
    specs = [plan.specs[equation.operands[index.operand]] for index in places.indices]
    has_places = all(index.size for index in places.indices) or not prod(places.shape)
    return has_places and all(spec.dtype.kind in "iu" for spec in specs)


def _is_folded(plan: UnfinishedPlan, fold: Fold | None, source: np.dtype, target: np.dtype) -> bool:
    """Whether there are instructions for one update, whose state is one number."""
    lanes = Registers(FunctionText(plan.arithmetic, is_draft=True), 1)
    try:
        for dtype in (source, target):
            element_type(part_of(dtype))
        x, before = unknown(lanes, source), unknown(lanes, target)
        if fold is None:
            lanes.astype(x, target)
            return True
        state = fold.of(lanes, target, None, x)
        if isinstance(state, tuple) or fold.finish is not None:
            return False
        lanes.astype(fold.combine(lanes, before, state), target)
    except NotEmitted as error:
        plan.lack = f"{error} in a fold"
        return False
    return True
