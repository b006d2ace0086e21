"""Nests that read the result of a movement of several pieces, in parts, each from the pieces.

A nest over a rolled array, or over one with a border, becomes nests over boxes: in each of them
the elements come from one piece, or from the same ones. Then nobody writes the result of the
movement. Steps of a heat equation on a periodic grid of 64 by 64 take 0.6 of the time so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import pairwise, product
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad._backends.native.boxes import Box, Place, place_in
from funcgrad._backends.native.plan_steps import BoundFormula, Member, Nest, Step
from funcgrad._backends.native.views import View
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Shape, Spec
from funcgrad._core.structure.index_maps import Piece

_FEWEST: Final = 1024
"""The elements of a nest from which on it comes apart: passes over fewer take no time."""

_MOST_PARTS: Final = 9
_MOST_MEMBERS: Final = 150
"""How many nests a nest becomes at most, and with how many members in all."""


@dataclass(frozen=True, slots=True)
class MovedBox:
    """A box of the result of a movement, and the step that writes it.

    Attributes
    ----------
    box : Box
    sources : sequence of (view, dtype)
        The elements that come there, of the shape of the box.
    formula : BoundFormula, optional
        What they become; None if one of them only moves.
    nest : Nest
        It writes the box.
    member : int
        The variable of the member that does.
    """

    box: Box
    sources: Sequence[tuple[View, np.dtype[Any]]]
    formula: BoundFormula | None
    nest: Nest
    member: int


Moved = Mapping[int, Sequence[MovedBox]]
"""The boxes of the results of movements, by variable."""


def split_nests(
    steps: Sequence[Step],
    moved: Moved,
    specs: list[Spec],
    views: Mapping[int, View],
    needed: Set[int],
) -> list[list[Step]]:
    """The steps that each step becomes.

    Parameters
    ----------
    steps : sequence of steps
    moved : mapping
    specs : list of Spec
        Of variables; those that are needed are added.
    views : mapping
        From variables to how they lie in memory.
    needed : set of int
        The buffers that are read after all steps.
    """
    writers = {id(box.nest) for boxes in moved.values() for box in boxes}
    fixed = {*needed}
    for step in steps:
        if not isinstance(step, Nest) or id(step) in writers:
            fixed |= {view.buffer for view in step.reads(views)}
    readers = [step for step in steps if isinstance(step, Nest) and id(step) not in writers]
    cuts: dict[int, list[list[int]]] = {}
    while True:
        chosen = {variable: boxes for variable, boxes in moved.items() if variable not in fixed}
        cuts = {
            id(nest): _cuts(nest, chosen, specs)
            for nest in readers
            if any(view.buffer in chosen for view in nest.operands.values())
        }
        refused = [nest for nest in readers if cuts.get(id(nest)) == []]
        if not refused:
            break
        fixed |= {view.buffer for nest in refused for view in nest.operands.values()}
    read = {view.buffer for nest in readers for view in nest.operands.values()}
    gone = {(id(box.nest), box.member) for v, boxes in chosen.items() if v in read for box in boxes}
    parts: list[list[Step]] = []
    for step in steps:
        if not isinstance(step, Nest):
            parts.append([step])
        elif id(step) in cuts:
            parts.append([*_parts(step, cuts[id(step)], chosen, specs)])
        else:
            step.members[:] = [m for m in step.members if (id(step), m.variable) not in gone]
            known = {member.variable for member in step.members}
            for variable in [*step.stores.keys() - known]:
                del step.stores[variable]
            parts.append([step] if step.members else [])
    return parts


def _place(view: View, specs: Sequence[Spec]) -> Place | None:
    """Where a view lies in its buffer, if it is a box of that."""
    piece = Piece(0, view.shape, 0, (), view.offset, view.strides)
    return place_in(specs[view.buffer].shape, piece)


def _cuts(nest: Nest, moved: Moved, specs: Sequence[Spec]) -> list[list[int]]:
    """Where a nest is cut along each axis; empty if it must stay whole."""
    shape = nest.shape
    if prod(shape) < _FEWEST or any(member.folded for member in nest.members):
        return []
    bounds = [{0, size} for size in shape]
    for variable, view in nest.operands.items():
        if view.buffer not in moved:
            continue
        place = _place(view, specs)
        if place is None or view.shape != shape or _copies_sums(variable, view, moved, specs):
            return []
        for moved_box in moved[view.buffer]:
            box = moved_box.box
            for axis, low, first, extent in zip(
                place.axes, place.low, box.low, box.shape, strict=True
            ):
                if axis is not None:
                    ends = first - low, first + extent - low
                    bounds[axis] |= {end for end in ends if 0 < end < shape[axis]}
    cuts = [sorted(ends) for ends in bounds]
    count = prod([len(ends) - 1 for ends in cuts])
    largest = prod([max([b - a for a, b in pairwise(ends)]) for ends in cuts])
    along_rows = prod([len(ends) - 1 for ends in cuts[1:]]) == 1
    fits = count <= _MOST_PARTS and count * len(nest.members) <= _MOST_MEMBERS
    return cuts if fits and (along_rows or 4 * largest >= 3 * prod(shape)) else []


def _copies_sums(variable: int, view: View, moved: Moved, specs: Sequence[Spec]) -> bool:
    """Whether a nest that copies bits would read elements that are added or converted."""
    dtype, whole = specs[variable].dtype, specs[view.buffer].dtype
    if dtype == whole:
        return False
    made = [box for box in moved[view.buffer] if box.formula is not None and box.sources]
    return bool(made) or dtype.itemsize != whole.itemsize


def _parts(
    nest: Nest, cuts: Sequence[Sequence[int]], moved: Moved, specs: list[Spec]
) -> Iterator[Nest]:
    """The nests over the boxes between the cuts."""
    for ranges in product(*[pairwise(ends) for ends in cuts]):
        low = tuple([begin for begin, _ in ranges])
        shape = tuple([end - begin for begin, end in ranges])
        small = Nest(shape)
        for variable, view in nest.operands.items():
            if view.buffer in moved:
                _read(small, variable, _source(view, low, moved, specs), specs)
            else:
                small.operands[variable] = _window(view, nest.shape, low, shape)
        small.members += nest.members
        for variable, view in nest.stores.items():
            small.stores[variable] = _window(view, nest.shape, low, shape)
        yield small


def _window(view: View, whole: Shape, low: Sequence[int], shape: Shape) -> View:
    """The elements of a view in a box of the nest."""
    strides = view.broadcast(whole)
    offset = sum([first * stride for first, stride in zip(low, strides, strict=True)])
    return View(view.buffer, shape, strides, view.offset + offset)


def _source(
    view: View, low: Sequence[int], moved: Moved, specs: Sequence[Spec]
) -> tuple[MovedBox, list[tuple[int, tuple[int, ...]]]]:
    """The box from which elements come, and the offset and the strides into each of its sources."""
    place = _place(view, specs)
    assert place is not None
    index = [
        first if axis is None else first + low[axis]
        for first, axis in zip(place.low, place.axes, strict=True)
    ]
    moved_box = next(small for small in moved[view.buffer] if small.box.has(index))
    inside = [at - first for at, first in zip(index, moved_box.box.low, strict=True)]
    ways = []
    for source, _ in moved_box.sources:
        strides = dict(zip(place.axes, source.strides, strict=True))
        offset = sum([at * stride for at, stride in zip(inside, source.strides, strict=True)])
        along = tuple([strides.get(axis, 0) for axis in range(len(view.shape))])
        ways.append((source.offset + offset, along))
    return moved_box, ways


def _read(
    small: Nest,
    variable: int,
    where: tuple[MovedBox, list[tuple[int, tuple[int, ...]]]],
    specs: list[Spec],
) -> None:
    """Have a nest read a variable from the sources of a box."""
    moved_box, ways = where
    names = []
    for (source, dtype), (offset, strides) in zip(moved_box.sources, ways, strict=True):
        view = View(source.buffer, small.shape, strides, offset)
        if moved_box.formula is None:
            small.operands[variable] = view
            return
        specs.append(Spec(small.shape, dtype))
        names.append(len(specs) - 1)
        small.operands[names[-1]] = view
    assert moved_box.formula is not None
    small.members.append(Member(variable, tuple(names), moved_box.formula))
