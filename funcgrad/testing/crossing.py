"""Cross to the other side of the comparisons and choices that a function makes.

Each branch of a function begins where a comparison changes, and an operation such as ``maximum``
takes another way where a distance from its kink changes its sign. These are the distances that
points are kept away from (``moving.py``), so the same steps lead across. A chain of crossings
reaches branches inside of branches.

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
"""How many operations with kinks the steps of a draw may meet together, and the steps of the first
crossing, whatever they meet: so draws of long functions take not much longer."""

_LONGEST: Final = 2.0
"""How long a step is at most, relative to the numbers: so many of them reach from 1 to 1e11."""

_MOST_SKIPPED: Final = 8
"""How many places that were crossed before are passed over."""


def across(mover: Mover, point: Point, choices: Sequence[int]) -> Point:
    """Cross to the other side of places that numbers choose, one after the other.

    Parameters
    ----------
    mover : Mover
    point : list of arrays
        Where to begin.
    choices : sequence of int
        0 for none, else the number of a comparison or a choice, counted around, among those that
        the function and the rules of its derivatives meet at the point that was reached so far; of
        long functions without the rules, of very long ones among their comparisons alone. None is
        crossed twice, which would lead back.

    Returns
    -------
    list of arrays
        The point itself where there is no place, or no way across.
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
    """The function with a tangent, in which rules of derivatives are met, too."""

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
    """The place of a number, among the operations or comparisons first, then among elements."""
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
    """Step until a distance has the other sign; None where steps do not make it smaller.

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
                near.append(Near(again, distance, distance / 1.5))  # where a step of 0 leads
        moved = mover.step(Stop(visit, near), _LONGEST)
        if moved is None:
            return None
        visit = mover.visit(moved)
        again = visit.find(name)
        if again is None:
            return moved  # an earlier comparison has changed as well
        place, before, value = again, value, float(visit.values[again])
        if np.sign(value) == -side:
            return moved
        if not abs(value) < abs(before):  # it has no other side, such as a length
            return None
    return None
