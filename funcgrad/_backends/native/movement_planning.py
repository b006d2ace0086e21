"""Steps that move elements or go through them in order.

Movements are views, or copies of boxes; gathers and scatters are loops over places; cumulative
operations, and reductions whose elements have an order, are folds.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad._backends.native.boxes import box_of_piece, boxes_of, place_in
from funcgrad._backends.native.instructions import NotEmitted, Value, element_type, part_of, unknown
from funcgrad._backends.native.lanes import Lanes
from funcgrad._backends.native.plan_steps import (
    BoundFormula,
    Fill,
    Folding,
    Gathering,
    Member,
    Nest,
    Scanning,
    Scattering,
)
from funcgrad._backends.native.split_nests import MovedBox
from funcgrad._backends.native.unfinished_plan import UnfinishedPlan
from funcgrad._backends.native.views import View, composed, scanned_along, whole
from funcgrad._core.specs import Shape
from funcgrad._core.structure.folds import Fold
from funcgrad._core.structure.index_maps import Piece, Places, dense_strides
from funcgrad._core.structure.structures import Gather, Movement, Reduction, Scan, Scatter
from funcgrad._programs.equation import Equation
from funcgrad._programs.moved_elements import pieces_of

_MEETINGS: Final = 40
"""The most pieces, counted once for each box that they come to, of a movement by boxes."""


def moves(plan: UnfinishedPlan, equation: Equation, structure: Movement, variable: int) -> bool:
    """Plan a movement; returns whether it is a view, or copies.

    Elements move as bits. Only where they are converted or added registers have to hold them.
    """
    pieces = pieces_of(equation, plan.specs)
    spec = plan.specs[variable]
    if pieces is None or spec.weak:
        return False
    specs = [plan.specs[equation.operands[piece.operand]] for piece in pieces]
    is_added = [structure.adds and piece.operand > 0 for piece in pieces]
    moved = [
        source.dtype == spec.dtype and not adds
        for source, adds in zip(specs, is_added, strict=True)
    ]
    if not all(moved) and not plan.is_emitted(equation, variable):
        return False
    operands = [plan.views[operand] for operand in equation.operands]
    if len(pieces) == 1 and moved[0] and _is_whole(pieces[0], spec.shape):
        plan.views[variable] = _boxed(plan, operands[pieces[0].operand], spec.dtype, pieces[0])
        return True
    views = [
        _boxed(plan, operands[piece.operand], source.dtype, piece)
        for piece, source in zip(pieces, specs, strict=True)
    ]
    if _assembles(plan, equation, variable, pieces, views, is_added):
        return True
    first_written = _first_written(pieces, prod(spec.shape))
    if (
        not all(first_written)
        or sum([prod(piece.shape) for piece in pieces]) < prod(spec.shape)
        or not pieces
    ):
        plan.append(Fill(variable))
    for position, (piece, view) in enumerate(zip(pieces, views, strict=True)):
        place = View(variable, piece.shape, piece.to_strides, piece.to)
        if moved[position]:
            plan.copy(view, place, spec.dtype)
        else:
            sources = [(view, specs[position].dtype)]
            if is_added[position] and not first_written[position]:
                sources.insert(0, (place, spec.dtype))
            _put(plan, sources, place, BoundFormula(_total, (spec.dtype, len(sources) > 1)))
    plan.views[variable] = whole(variable, spec.shape)
    return True


def _assembles(
    plan: UnfinishedPlan,
    equation: Equation,
    variable: int,
    pieces: Sequence[Piece],
    views: Sequence[View],
    is_added: Sequence[bool],
) -> bool:
    """Plan the boxes of a movement one by one, if they are few: each element is written once."""
    spec, count = plan.specs[variable], len(pieces)
    known = [place_in(spec.shape, piece) for piece in pieces]
    places = [place for place in known if place is not None]
    if len(places) < count or not count or 0 in spec.shape:
        return False
    boxes = list(islice(boxes_of(spec.shape, places), 3 * count + 3))
    meetings = sum([len(box.pieces) for box in boxes])
    if len(boxes) > 3 * count + 2 or meetings > max(_MEETINGS, 2 * count):
        return False
    has_zeros = not all(box.pieces for box in boxes)
    if has_zeros and not plan.is_emitted(equation, variable):
        return False
    dtypes = [plan.specs[equation.operands[piece.operand]].dtype for piece in pieces]
    steps = dense_strides(spec.shape)
    moved: list[MovedBox] = []
    for box in boxes:
        to = sum([low * step for low, step in zip(box.low, steps, strict=True)])
        target = View(variable, box.shape, steps, to)
        moves = [k for k in box.pieces if not is_added[k]]
        last = box.pieces[box.pieces.index(moves[-1]) :] if moves else box.pieces
        sources = [(box_of_piece(views[k], places[k], box), dtypes[k]) for k in last]
        is_moved = bool(moves) and sources[0][1] == spec.dtype
        formula = BoundFormula(_total, (spec.dtype, is_moved))
        operand = equation.operands[pieces[last[0]].operand] if last else -1
        if len(sources) == 1 and _is_stored_there(plan, operand, sources[0][0], target, formula):
            continue
        if is_moved and len(sources) == 1:
            plan.copy(sources[0][0], target, spec.dtype)
        else:
            _put(plan, sources, target, formula)
        nest = plan.steps[-1]
        assert isinstance(nest, Nest)
        becomes = None if is_moved and len(sources) == 1 else formula
        moved.append(MovedBox(box, sources, becomes, nest, nest.members[0].variable))
    if len(moved) == len(boxes):  # nothing lies there at once
        plan.moved[variable] = moved
    plan.views[variable] = whole(variable, spec.shape)
    return True


def _is_stored_there(
    plan: UnfinishedPlan, operand: int, view: View, place: View, formula: BoundFormula
) -> bool:
    """Have the nest that makes an operand store it at a place too, if all of it comes there."""
    shape = plan.specs[operand].shape if operand in plan.elements else (0,)
    axes = [axis for axis in zip(place.shape, place.strides, strict=True) if axis[0] > 1]
    sizes = [size for size in shape if size > 1]
    if view.buffer != operand or not view.covers(shape) or sizes != [size for size, _ in axes]:
        return False
    position, along = plan.made_at[operand], iter([stride for _, stride in axes])
    nest, strides = plan.steps[position], [next(along) if size > 1 else 0 for size in shape]
    assert isinstance(nest, Nest)
    target = plan.new(shape, plan.specs[place.buffer].dtype)
    nest.members.append(Member(target, (operand,), formula))
    nest.stores[target] = View(place.buffer, shape, tuple(strides), place.offset)
    plan.made_at[target] = position
    plan.made_at[place.buffer] = max(plan.made_at.get(place.buffer, -1), position)
    return True


def _put(
    plan: UnfinishedPlan,
    sources: Sequence[tuple[View, np.dtype[Any]]],
    place: View,
    formula: BoundFormula,
) -> None:
    """Append a step that adds elements of some views, and of some dtypes, at a place."""
    nest, operands = Nest(place.shape), list[int]()
    for view, dtype in sources:
        operands.append(plan.new(view.shape, dtype))
        plan.views[operands[-1]] = nest.operands[operands[-1]] = view
    target = plan.new(place.shape, plan.specs[place.buffer].dtype)
    nest.members.append(Member(target, tuple(operands), formula))
    nest.stores[target] = place
    plan.append(nest)
    plan.made_at[target] = plan.made_at[place.buffer]


def _total(dtype: np.dtype[Any], is_moved: bool, lanes: Lanes, *elements: Value) -> Value:
    """The sum of elements and zero: 0.0 turns -0.0 to 0.0, unless the first one only moves."""
    total = elements[0] if is_moved else lanes.constant(0, dtype)
    for element in elements[is_moved:]:
        total = lanes.add(lanes.astype(element, dtype), total)
    return total


def _first_written(pieces: Sequence[Piece], size: int) -> list[bool]:
    """Whether no piece before has written any of the places of a piece."""
    written, is_first = np.zeros(size, np.bool_), []
    for piece in pieces:
        window = np.lib.stride_tricks.as_strided(written[piece.to :], piece.shape, piece.to_strides)
        is_first.append(not window.any())
        window[...] = True
    return is_first


def _boxed(plan: UnfinishedPlan, view: View, dtype: np.dtype[Any], piece: Piece) -> View:
    """The box of a view that a piece takes, of a copy where strides cannot tell it."""
    moved = composed(view, piece) or composed(plan.copied(view, dtype), piece)
    assert moved is not None  # a copy in C order has one stride for each piece's axis
    return moved


def _is_whole(piece: Piece, shape: Shape) -> bool:
    """Whether a movement's only piece makes all of its result, in C order."""
    return piece.shape == shape and not piece.to and piece.to_strides == dense_strides(shape)


def gathers(plan: UnfinishedPlan, equation: Equation, structure: Gather, variable: int) -> bool:
    """Plan a gather; returns whether it is written as loops."""
    shapes = [plan.specs[operand].shape for operand in equation.operands]
    places = structure.places(*shapes, **dict(equation.params))
    spec, source = plan.specs[variable], plan.specs[equation.operands[0]]
    if spec.dtype != source.dtype or spec.weak or not _are_integers(plan, equation, places):
        return False
    if 0 in places.shape:
        plan.append(Fill(variable))
        return True
    plan.prepare(equation.operands)
    plan.append(Gathering(variable, equation, places))
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
    # A number that only comes to zeros moves there: -0.0 added to 0.0 would be another.
    fold = None if places.unique and not structure.updates else structure.fold
    moves = fold is None and updates.dtype == spec.dtype
    if not moves and not _is_folded(plan, fold, updates.dtype, spec.dtype):
        return False
    plan.prepare(equation.operands)
    step = Scattering(variable, equation, places, structure.updates, fold)
    plan.append(step)
    return True


def _are_integers(plan: UnfinishedPlan, equation: Equation, places: Places) -> bool:
    """Whether all places are chosen by integers, along axes that have some."""
    specs = [plan.specs[equation.operands[index.operand]] for index in places.indices]
    has_places = all(index.size for index in places.indices) or not prod(places.shape)
    return has_places and all(spec.dtype.kind in "iu" for spec in specs)


def _is_folded(plan: UnfinishedPlan, fold: Fold | None, source: np.dtype, target: np.dtype) -> bool:
    """Whether there are instructions for one update, whose state is one number."""

    def update(lanes: Lanes) -> None:
        for dtype in (source, target):
            element_type(part_of(dtype))
        state, before = unknown(lanes, source), unknown(lanes, target)
        if fold is not None:
            state = fold.of(lanes, target, None, state)
            if isinstance(state, tuple) or fold.finish is not None:
                raise NotEmitted("a state of several values")
            state = fold.combine(lanes, before, state)
        lanes.astype(state, target)

    return plan.can_write(update, " in a fold")


def scans(plan: UnfinishedPlan, equation: Equation, structure: Scan, variable: int) -> bool:
    """Plan a cumulative operation; returns whether its fold has instructions."""
    params, spec = dict(equation.params), plan.specs[variable]
    specs = [plan.specs[operand] for operand in equation.operands]
    if not {*params} <= {"axis", "reverse"} or any(s.shape != spec.shape for s in specs):
        return False
    if not spec.shape or not is_folded(plan, structure.fold, [s.dtype for s in specs], spec.dtype):
        return False
    if 0 in spec.shape:
        plan.append(Fill(variable))
        return True
    axis, reverse = params["axis"] % len(spec.shape), params.get("reverse", False)
    may_call_back = structure.fold.finish is not None
    operands = []
    for operand in equation.operands:
        if may_call_back or scanned_along(plan.views[operand], axis) is None:
            plan.prepare([operand])
        elif not plan.views[operand].is_dense:  # a later step may have its operand copied
            operand, view = plan.new(spec.shape, plan.specs[operand].dtype), plan.views[operand]
            plan.views[operand] = view
        operands.append(operand)
    step = Scanning(variable, equation.on(tuple(operands)), structure.fold, axis, reverse)
    plan.append(step)
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
    step = Folding(variable, equation, fold, axes[0], len(axes))
    plan.append(step)
    return True


def is_folded(
    plan: UnfinishedPlan, fold: Fold, sources: Sequence[np.dtype[Any]], target: np.dtype[Any]
) -> bool:
    """Whether there are instructions for a fold of elements of some dtypes."""

    def combine(lanes: Lanes) -> None:
        place = Value("%k", np.dtype(np.int64), lanes)
        state = fold.of(lanes, target, place, *[unknown(lanes, dtype) for dtype in sources])
        both = fold.combine(lanes, state, state)
        lanes.astype(fold.element(lanes, both), target)

    return plan.can_write(combine, " in a fold")
