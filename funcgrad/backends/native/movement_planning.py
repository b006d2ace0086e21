"""Movements of elements as views, or as copies of boxes."""

from __future__ import annotations

from math import prod

from funcgrad.backends.native.plan_steps import Fill, Member, Nest
from funcgrad.backends.native.unfinished_plan import UnfinishedPlan
from funcgrad.backends.native.views import View, composed, whole
from funcgrad.places import Piece, dense_strides
from funcgrad.programs.equation import Equation
from funcgrad.programs.structures import pieces_of
from funcgrad.shape import Shape, Spec
from funcgrad.structure import Movement


def moves(plan: UnfinishedPlan, equation: Equation, structure: Movement, variable: int) -> bool:
    """Plan a movement; returns whether there is an index map, of elements that registers hold."""
    pieces = pieces_of(equation, plan.specs)
    spec = plan.specs[variable]
    if pieces is None:
        return False
    dtypes = {plan.specs[operand].dtype for operand in equation.operands}
    if dtypes != {spec.dtype} or any(plan.specs[o].weak for o in equation.operands):
        return False
    operands = [plan.views[operand] for operand in equation.operands]
    if len(pieces) == 1 and _is_whole(pieces[0], spec.shape):
        view = operands[pieces[0].operand]
        moved = composed(view, pieces[0])
        plan.views[variable] = moved or _forced(plan, view, spec, pieces[0])
        return True
    # Where places meet, what the first operand brings is stored, and the others' is added.
    stored = [piece for piece in pieces if not (structure.adds and piece.operand)]
    if sum([prod(piece.shape) for piece in stored]) < prod(spec.shape) or 0 in spec.shape:
        plan.append(Fill(variable), range(variable, variable + 1))
    plan.views[variable] = whole(variable, spec.shape)
    for piece in pieces:
        view = operands[piece.operand]
        source = plan.new(piece.shape, spec.dtype)
        plan.views[source] = composed(view, piece) or _forced(plan, view, spec, piece)
        target = plan.new(piece.shape, spec.dtype)
        plan.steps.append(Nest(piece.shape))  # one that stores into this buffer
        nest = plan.steps[-1]
        assert isinstance(nest, Nest)
        nest.reads[source] = plan.views[source]
        place = View(variable, piece.shape, piece.to_strides, piece.to)
        if piece in stored:
            nest.members.append(Member(target, (source,), lambda lanes, x: x))
        else:
            before = plan.new(piece.shape, spec.dtype)
            plan.views[before] = nest.reads[before] = place
            nest.members.append(
                Member(target, (before, source), lambda lanes, x, y: lanes.add(x, y))
            )
        nest.stores[target] = place
        plan.made_at[variable] = plan.made_at[target] = len(plan.steps) - 1
    return True


def _forced(plan: UnfinishedPlan, view: View, spec: Spec, piece: Piece) -> View:
    """The box of a view that has to be copied first."""
    moved = composed(plan.copied(view, spec.dtype), piece)
    assert moved is not None  # a copy in C order has one stride for each piece's axis
    return moved


def _is_whole(piece: Piece, shape: Shape) -> bool:
    """Whether a movement's only piece makes all of its result, in C order."""
    return piece.shape == shape and not piece.to and piece.to_strides == dense_strides(shape)
