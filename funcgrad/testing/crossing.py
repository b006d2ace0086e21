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

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad import trees
from funcgrad.primitive import DISCRETE
from funcgrad.quick_dataclasses import dataclass
from funcgrad.testing.moving import Mover, Near, Point, Stop, sites_of
from funcgrad.trace import Value
from funcgrad.transforms.encounters import Encounters
from funcgrad.transforms.forward import jvp

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
        very long functions, among their comparisons alone. None is crossed twice, which would lead
        back.

    Returns
    -------
    list of arrays
        The point itself where there is no place, or no way across.
    """
    ruled = replace(mover, function=_with_tangents(mover))
    crossed: dict[Name, KinkPlace] = {}
    visits = 0
    for choice in choices:
        if choice and visits < _MOST_VISITS:
            chosen, run = mover, mover.run(point)
            is_long = len(run.met) > _MOST_VISITS // 2
            if not is_long and (with_rules := ruled.run(point)).error is None:
                chosen, run = ruled, with_rules
            place = _chosen(run, choice - 1, crossed, comparisons=is_long)
            if place is None and is_long:
                return point
            if place is not None:
                steps = min(_STEPS, (_MOST_VISITS - visits) // len(run.met))
                steps = steps if crossed else max(steps, _FEWEST_STEPS)
                visits += steps * len(run.met)
                point = _walk_across(chosen, point, run, place, crossed, steps) or point
                crossed[place.name(run)] = place
    return point


def _with_tangents(mover: Mover) -> Callable[..., Any]:
    """The function with a tangent, in which rules of derivatives are met, too."""

    def pushed(*args: Any) -> Any:
        leaves, structure = trees.flatten(args)
        moving = [leaves[k] for k in mover.movable]

        def function(*moved: Value) -> Any:
            whole = list(leaves)
            for k, leaf in zip(mover.movable, moved, strict=True):
                whole[k] = leaf
            return mover.function(*trees.unflatten(structure, whole))

        ones = [np.ones_like(np.asarray(mover.leaves[k])) for k in mover.movable]
        return jvp(function, moving, ones)

    return pushed


Name: TypeAlias = tuple[Hashable, int, int]
"""A site of a run, the number of a distance there, and an element."""


@dataclass(frozen=True, slots=True)
class KinkPlace:
    """A distance of a run: of which operation, which of its values, and which element."""

    encounter: int
    number: int
    element: int

    def value(self, run: Encounters) -> float:
        """Read it."""
        return float(np.ravel(np.asarray(run.met[self.encounter].zeros[self.number]))[self.element])

    def name(self, run: Encounters) -> Name:
        """Name it by the operation with its line and its turn there."""
        return sites_of(run)[self.encounter], self.number, self.element

    def in_run(
        self, name: Name, run: Encounters, sites: Mapping[Hashable, int]
    ) -> KinkPlace | None:
        """Find it in another run, if that has it."""
        encounter = sites.get(name[0])
        if encounter is None:
            return None
        zeros = run.met[encounter].zeros
        if self.number >= len(zeros) or self.element >= np.size(zeros[self.number]):
            return None
        return replace(self, encounter=encounter)

    def near(self, value: float, goal: float) -> Near:
        """Say what its distance is and shall be."""
        return Near(self.encounter, self.number, self.element, value, goal)


def _chosen(
    run: Encounters, choice: int, crossed: Mapping[Name, KinkPlace], comparisons: bool
) -> KinkPlace | None:
    """The place of a number, among the operations or comparisons first, then among elements."""
    values = [
        (k, number, np.size(value))
        for k, met in enumerate(run.met)
        for number, value in enumerate(met.zeros)
        if np.size(value) and np.asarray(value).dtype.kind == "f"
        if not comparisons or met.operation.differential is DISCRETE
    ]
    for after in range(min(len(values), _MOST_SKIPPED)):
        k, number, size = values[(choice + after) % len(values)]
        place = KinkPlace(k, number, choice // len(values) % size)
        if place.name(run) not in crossed:
            return place
    return None


def _walk_across(
    mover: Mover,
    point: Point,
    run: Encounters,
    place: KinkPlace,
    crossed: Mapping[Name, KinkPlace],
    steps: int,
) -> Point | None:
    """Step until a distance has the other sign; None where steps do not make it smaller.

    Distances that were crossed before stay as they are, to first order.
    """
    value, name = place.value(run), place.name(run)
    side = np.sign(value)
    for _ in range(steps):
        sites = {site: k for k, site in enumerate(sites_of(run))}
        near = [place.near(value, float(-2 * side * mover.margin))]
        for other, earlier in crossed.items():
            again = earlier.in_run(other, run, sites)
            if other != name and again is not None:
                distance = again.value(run)
                near.append(again.near(distance, distance / 1.5))  # where a step of 0 leads
        moved = mover.step(Stop(point, run, near), _LONGEST)
        if moved is None:
            return None
        point, run = moved, mover.run(moved)
        again = place.in_run(name, run, {site: k for k, site in enumerate(sites_of(run))})
        if again is None:
            return point  # an earlier comparison has changed as well
        place, before, value = again, value, again.value(run)
        if np.sign(value) == -side:
            return point
        if not abs(value) < abs(before):  # it has no other side, such as a length
            return None
    return None
