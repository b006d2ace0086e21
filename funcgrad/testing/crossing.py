"""Cross comparisons and choices of a function, so that other branches are tested.

A branch begins where a comparison changes; an operation such as ``maximum`` chooses the other
argument where the distance from its kink changes its sign. ``moving.py`` keeps points away from
such distances of 0, and the same steps lead across. A chain of crossings reaches branches inside
branches.

>>> import funcgrad.numpy as fnp
>>> from funcgrad.testing.points import mover_of
>>> mover = mover_of("test", lambda x: fnp.where(x > 1000.0, x, -x), (1.0,), 1e-3)
>>> (x,) = across(mover, mover.start(), [1])
>>> bool(x > 1000)
True
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, Final

import numpy as np

from funcgrad._core import pytrees
from funcgrad._core.primitive import DISCRETE
from funcgrad._core.trace import Value
from funcgrad._transforms.forward import jvp
from funcgrad.testing.moving import Mover, Near, Stop
from funcgrad.testing.point_runs import Name, Point, PointRun

_STEPS: Final = 24
_MOST_VISITS: Final = 1000
_FEWEST_STEPS: Final = 4
"""The maximum number of operations with kinks in the steps of a draw, and the number of steps of
the first crossing. These limits keep draws of long functions quick.
"""

_LONGEST: Final = 2.0
"""The maximum length of a step, relative to the elements: few steps lead from 1 to 1e11."""

_MOST_SKIPPED: Final = 8
"""The maximum number of earlier crossings that are skipped."""


def across(mover: Mover, point: Point, choices: Sequence[int]) -> Point:
    """Cross the comparisons and choices that ``choices`` select, one after the other.

    Parameters
    ----------
    mover : Mover
    point : list of arrays
        The start.
    choices : sequence of int
        0 for none; otherwise the index (modulo their count) of a comparison or choice of the
        function and its derivative rules at the current point. For long functions the rules are
        left out, for very long ones also the choices. Nothing is crossed twice, because that would
        lead back.

    Returns
    -------
    list of arrays
        The new point, or the start if nothing can be crossed.
    """
    ruled = replace(mover, function=_with_tangents(mover))
    crossed: list[Name] = []
    visits = 0
    for choice in choices:
        if choice and visits < _MOST_VISITS:
            chosen, visit = mover, mover.visit(point)
            is_long = len(visit.run.met) > _MOST_VISITS // 2
            is_short = len(visit.run.met) <= _MOST_VISITS // 8
            if is_short and (with_rules := ruled.visit(point)).run.error is None:
                chosen, visit = ruled, with_rules
            place = _chosen(visit, choice - 1, crossed, comparisons=is_long)
            if place is None and is_long:
                return point
            if place is not None:
                count = len(visit.run.met)
                steps = min(_STEPS, (_MOST_VISITS - visits) // count)
                steps = steps if crossed else max(steps, _FEWEST_STEPS)
                visits += steps * count
                point = _walk_across(chosen, visit, place, crossed, steps) or point
                crossed.append(visit.name(place))
    return point


def _with_tangents(mover: Mover) -> Callable[..., Any]:
    """Return the function with a tangent, which also runs derivative rules."""

    def pushed(*args: Any) -> Any:
        leaves, structure = pytrees.flatten(args)
        moving = [leaves[k] for k in mover.movable]

        def function(*moved: Value) -> Any:
            whole = list(leaves)
            for k, leaf in zip(mover.movable, moved, strict=True):
                whole[k] = leaf
            return mover.function(*pytrees.unflatten(structure, whole))

        ones = [np.ones_like(np.asarray(mover.leaves[k])) for k in mover.movable]
        return jvp(function, moving, ones)

    return pushed


def _chosen(visit: PointRun, choice: int, crossed: Sequence[Name], comparisons: bool) -> int | None:
    """Choose a place: first among the operations or comparisons, then among elements."""
    parts = [
        (int(first), int(end - first))
        for first, end in pairwise(visit.parts)
        if first < end and visit.has_sides[first]
        if not comparisons or visit.run.met[visit.owners[first]].operation.differential is DISCRETE
    ]
    for after in range(min(len(parts), _MOST_SKIPPED)):
        first, size = parts[(choice + after) % len(parts)]
        place = first + choice // len(parts) % size
        if visit.name(place) not in crossed:
            return place
    return None


def _walk_across(
    mover: Mover, visit: PointRun, place: int, crossed: Sequence[Name], steps: int
) -> Point | None:
    """Step until a distance changes its sign; None if steps do not make it smaller.

    Distances that were crossed before stay as they are, to first order.
    """
    value, name = float(visit.values[place]), visit.name(place)
    side = np.sign(value)
    for _ in range(steps):
        near = [Near(place, value, float(-2 * side * mover.margin))]
        for other in crossed:
            again = visit.find(other)
            if again is not None:
                distance = float(visit.values[again])
                near.append(Near(again, distance, distance / 1.5))  # a step of 0 stays here
        moved = mover.step(Stop(visit, near), _LONGEST)
        if moved is None:
            return None
        visit = mover.visit(moved)
        again = visit.find(name)
        if again is None:
            return moved  # an earlier comparison has changed, too
        place, before, value = again, value, float(visit.values[again])
        if np.sign(value) == -side:
            return moved
        if not abs(value) < abs(before):  # such as a norm: it has no other side
            return None
    return None
