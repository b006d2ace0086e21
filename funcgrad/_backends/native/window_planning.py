"""Plan convolutions, and their transposes, as products of windows; and folds of small windows."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._backends.native.instructions import NotEmitted, Value, unknown
from funcgrad._backends.native.lanes import Lanes
from funcgrad._backends.native.nest_planning import join, neutral_of
from funcgrad._backends.native.plan_steps import BoundFormula, Fill, Member
from funcgrad._backends.native.unfinished_plan import UnfinishedPlan
from funcgrad._backends.native.views import View
from funcgrad._backends.native.window_steps import WindowProduct
from funcgrad._core.specs import Spec
from funcgrad._core.structure.folds import Fold
from funcgrad._core.structure.structures import Opaque, Reduction
from funcgrad._programs.equation import Equation

_CHARS: Final = frozenset("fd")

_MOST: Final = 25
"""The elements of a window up to which a fold is written without a loop."""


def multiplies_windows(
    plan: UnfinishedPlan, equation: Equation, structure: Opaque, variable: int
) -> bool:
    """Plan sums of products of windows; returns whether they are sums of floats of one dtype."""
    if structure.windows is None:
        return False
    form = structure.windows(**dict(equation.params))
    specs = [plan.specs[v] for v in (*equation.operands, variable)]
    dtype = specs[-1].dtype
    # The transpose may be called back, and then its operands have to be the equation's.
    is_half = dtype.char == "e" and all(spec.dtype == dtype and not spec.weak for spec in specs)
    if is_half and form.arrays[-1] != "x":
        return _in_single_precision(plan, equation, structure, variable)
    if dtype.char not in _CHARS or any(spec.dtype != dtype or spec.weak for spec in specs):
        plan.lack = f"products of {', '.join([str(spec.dtype) for spec in specs[:-1]])}"
        return False
    shapes = {name: spec.shape for name, spec in zip(form.arrays, specs, strict=True)}
    if not prod([prod(shape) for shape in shapes.values()]):
        plan.append(Fill(variable))
        return True
    if not form.strides:  # as windows of one element along an axis of one
        form = form._replace(strides=(1,), dilations=(1,))
        shapes = {name: (*shape, 1) for name, shape in shapes.items()}
    plan.prepare(equation.operands)
    plan.append(WindowProduct(variable, equation, form, MappingProxyType(shapes)))
    return True


def _in_single_precision(
    plan: UnfinishedPlan, equation: Equation, structure: Opaque, variable: int
) -> bool:
    """Plan sums of products of float16 in float32, which are rounded at the end."""
    single, half = np.dtype(np.float32), np.dtype(np.float16)
    operands = tuple([plan.new(plan.specs[v].shape, single) for v in equation.operands])
    for wide, source in zip(operands, equation.operands, strict=True):
        member = Member(wide, (source,), BoundFormula(_converted, (single,)))
        join(plan, member, plan.specs[source].shape)
    shape = plan.specs[variable].shape
    out = plan.new(shape, single)
    wider = replace(equation, operands=operands, results=(Spec(shape, single),))
    multiplies_windows(plan, wider, structure, out)
    join(plan, Member(variable, (out,), BoundFormula(_converted, (half,))), shape)
    return True


def _converted(dtype: np.dtype[Any], m: Lanes, x: Value) -> Value:
    return m.astype(x, dtype)


def folds_windows(
    plan: UnfinishedPlan, equation: Equation, structure: Reduction, variable: int
) -> bool:
    """Plan a reduction of a few elements that do not lie side by side, one after the other.

    Each operation is one on vectors, over all windows: a maximum of 3 by 3 takes a seventh of the
    time of a loop over the elements of each window.
    """
    params, fold = dict(equation.params), structure.fold
    view = plan.views[equation.operands[0]]
    if fold is None or len(equation.operands) != 1 or view.is_dense or not params.get("axis"):
        return False
    rank, spec = len(view.shape), plan.specs[variable]
    axes = sorted([axis % rank for axis in params["axis"]])
    sizes = [view.shape[axis] for axis in axes]
    if axes[-1] == rank - 1 or not 1 < prod(sizes) <= _MOST or 0 in spec.shape:
        return False
    dtype, source = spec.dtype, plan.specs[equation.operands[0]].dtype
    if not plan.can_write(lambda lanes: _folded(fold, dtype, lanes, unknown(lanes, source))):
        return False
    steps = [0 if axis in axes else stride for axis, stride in enumerate(view.strides)]
    others = [axis for axis in range(rank) if axis not in axes or params.get("keepdims")]
    state: tuple[int, ...] = ()
    places = [*product(*map(range, sizes))]
    for number, place in enumerate(places):
        element = plan.new(spec.shape, source)
        jump = sum([k * view.strides[axis] for k, axis in zip(place, axes, strict=True)])
        along = tuple([steps[axis] for axis in others])
        plan.views[element] = View(view.buffer, spec.shape, along, view.offset + jump)
        after = variable if number == len(places) - 1 else plan.new(spec.shape, dtype)
        formula = BoundFormula(_folded, (fold, dtype))
        join(plan, Member(after, (element, *state), formula), spec.shape)
        state = (after,)
    return True


def _folded(fold: Fold, dtype: np.dtype[Any], m: Lanes, x: Value, *before: Value) -> Value:
    """The state with one more element; the first one begins with the neutral number."""
    state: Any = fold.of(m, dtype, None, x)
    if isinstance(state, tuple) or fold.finish is not None:
        raise NotEmitted("a reduction whose state has several values")
    earlier = before[0] if before else m.constant(neutral_of(fold, dtype), dtype)
    return m.astype(fold.combine(m, earlier, state), dtype)
