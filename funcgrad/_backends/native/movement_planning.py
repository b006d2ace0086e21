"""Movements of elements as views, or as copies of boxes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from funcgrad._backends.native.bound_formulas import BoundFormula
from funcgrad._backends.native.lanes import Lanes, Value
from funcgrad._backends.native.plan_steps import Fill, Member, Nest
from funcgrad._backends.native.unfinished_plan import UnfinishedPlan
from funcgrad._backends.native.views import View, composed, whole
from funcgrad._core.specs import Shape
from funcgrad._core.structure.index_maps import Piece, dense_strides
from funcgrad._core.structure.structures import Movement
from funcgrad._programs.equation import Equation
from funcgrad._programs.moved_elements import pieces_of


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
    if not all(moved) and not plan.is_emitted(equation, range(variable, variable + 1)):
        return False
    operands = [plan.views[operand] for operand in equation.operands]
    if len(pieces) == 1 and moved[0] and _is_whole(pieces[0], spec.shape):
        plan.views[variable] = _boxed(plan, operands[pieces[0].operand], spec.dtype, pieces[0])
        return True
    first_written = _first_written(pieces, prod(spec.shape))
    if (
        not all(first_written)
        or sum([prod(piece.shape) for piece in pieces]) < prod(spec.shape)
        or not pieces
    ):
        plan.append(Fill(variable), range(variable, variable + 1))
    for position, piece in enumerate(pieces):
        dtype = specs[position].dtype
        view = _boxed(plan, operands[piece.operand], dtype, piece)
        place = View(variable, piece.shape, piece.to_strides, piece.to)
        if moved[position]:
            plan.copy(view, place, spec.dtype)
        else:
            adds_to = is_added[position] and not first_written[position]
            _put(plan, view, place, (dtype, spec.dtype), adds_to)
    plan.views[variable] = whole(variable, spec.shape)
    return True


def _put(
    plan: UnfinishedPlan,
    view: View,
    place: View,
    dtypes: tuple[np.dtype[Any], np.dtype[Any]],
    adds_to: bool,
) -> None:
    """Add a step that adds elements to those of a place, or to zeros, and converts them."""
    source, target = [plan.new(view.shape, dtype) for dtype in dtypes]
    nest = Nest(view.shape)
    plan.views[source] = nest.reads[source] = view
    operands: tuple[int, ...] = (source,)
    if adds_to:
        before = plan.new(view.shape, dtypes[1])
        plan.views[before] = nest.reads[before] = place
        operands = (source, before)
    dtype = dtypes[1]
    nest.members.append(Member(target, operands, BoundFormula(_sum, (dtype,))))
    nest.stores[target] = place
    plan.append(nest, range(place.buffer, place.buffer + 1))
    plan.made_at[target] = plan.made_at[place.buffer]


def _sum(dtype: np.dtype[Any], lanes: Lanes, x: Value, *before: Value) -> Value:
    """An element, converted, and what is added to it, if only a zero, which turns -0.0 to 0.0."""
    converted, zero = lanes.astype(x, dtype), lanes.constant(0, dtype)
    return lanes.add(converted, *before or (zero,))


def _first_written(pieces: Sequence[Piece], size: int) -> list[bool]:
    """Whether no piece before has written any of the places of a piece."""
    written, is_first = np.zeros(size, np.bool_), []
    for piece in pieces:
        window = np.lib.stride_tricks.as_strided(written[piece.to :], piece.shape, piece.to_strides)
        is_first.append(not window.any())
        window[...] = True
    return is_first


def _boxed(plan: UnfinishedPlan, view: View, dtype: np.dtype[Any], piece: Piece) -> View:
    """The box of a view that a piece takes; the view is copied first where its box is no view."""
    moved = composed(view, piece) or composed(plan.copied(view, dtype), piece)
    assert moved is not None  # a copy in C order has one stride for each piece's axis
    return moved


def _is_whole(piece: Piece, shape: Shape) -> bool:
    """Whether a movement's only piece makes all of its result, in C order."""
    return piece.shape == shape and not piece.to and piece.to_strides == dense_strides(shape)
