"""A run of a function at a point: its distances from kinks, and their derivatives, as arrays.

>>> import numpy as np
>>> from funcgrad.debug.kinks_met import kinks_met
>>> point = [np.array([1.0, 2.0])]
>>> visit = PointRun(point, kinks_met(lambda x: abs(3 * x - 4), point))
>>> visit.values, visit.push([np.ones(2)]), visit.pull(1)
(array([-1.,  2.]), array([3., 3.]), [array([0., 3.])])

If a distance is complex, its absolute value counts:

>>> visit = PointRun([], kinks_met(lambda z: 1 / z, [3 + 4j]))
>>> visit.values, visit.push([1.0]), visit.pull(0)
(array([5.]), array([0.6]), [np.complex128(0.6+0.8j)])
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from funcgrad._base.floating_errors import quiet
from funcgrad._core.trace import Value
from funcgrad.debug.kinks_met import KinksMet

Array: TypeAlias = np.ndarray[Any, Any]
Point: TypeAlias = list[Array]
Name: TypeAlias = tuple[Hashable, int]
"""The site of an operation, and the index of an element among its distances."""


class PointRun:
    """A run at a point, with the distances of all operations in one array.

    Parameters
    ----------
    point : list of arrays
    run : KinksMet

    Attributes
    ----------
    values : array
        The distances of all operations, in the order of the run. The sign of a distance from a kink
        tells on which side the value lies; for complex values it is positive. A distance from the
        end of a domain is negative outside the domain.
    parts : array of int
        The start of each value of the run in ``values``.
    owners : array of int
        The operation of the run to which each distance belongs.
    is_end, has_sides : array of bool
        Whether a distance is from the end of a domain, and whether from a kink with two sides.
    """

    def __init__(self, point: Point, run: KinksMet) -> None:
        """Lay out the distances of the run."""
        self.point = point
        self.run = run
        self._arrays = [np.asarray(x) for met in run.met for x in (*met.zeros, *met.domain)]
        self._variables = [variable for met in run.met for variable in met.variables]
        sizes = [x.size for x in self._arrays]
        elements = _row(self._arrays)
        is_complex = np.repeat([x.dtype.kind == "c" for x in self._arrays], sizes).astype(bool)
        is_end = [k >= len(met.zeros) for met in run.met for k in range(len(met.variables))]
        owners = [k for k, met in enumerate(run.met) for _ in met.variables]
        self.parts = np.cumsum([0, *sizes])
        self.owners = np.repeat(owners, sizes).astype(int)
        self.is_end = np.repeat(is_end, sizes).astype(bool)
        self.has_sides = ~(self.is_end | is_complex)
        self.values = np.where(is_complex, abs(elements), elements.real)
        self._directions = np.where(is_complex, np.sign(elements), 1)

    @cached_property
    def sites(self) -> list[Hashable]:
        """The operation, the user's line, and a count of its runs there, for all operations."""
        turns: Counter[Hashable] = Counter()
        sites: list[Hashable] = []
        for met in self.run.met:
            place = (met.operation.name, met.line)
            turns[place] += 1
            sites.append((*place, turns[place]))
        return sites

    def name(self, place: int) -> Name:
        """Return a name of a distance that is valid in other runs."""
        owner = self.owners[place]
        return self.sites[owner], place - int(np.searchsorted(self.owners, owner))

    def find(self, name: Name) -> int | None:
        """Return the index of the distance with a name; None without one."""
        site, number = name
        if site not in self.sites:
            return None
        owner = self.sites.index(site)
        first, end = np.searchsorted(self.owners, (owner, owner + 1))
        return int(first) + number if first + number < end else None

    def push(self, tangents: Sequence[Array]) -> Array:
        """Return the derivatives of all distances along a direction of the moving arguments."""
        with quiet():
            pushed = self.run.record.push(self._variables, tangents)
            pairs = zip(pushed, self._arrays, strict=True)
            slopes = _row([np.zeros(x.shape) if t is None else np.asarray(t) for t, x in pairs])
            return np.real(self._directions.conj() * slopes)

    def pull(self, place: int) -> list[Value]:
        """Return the derivatives of a distance in the moving arguments; None is zero."""
        array = int(np.searchsorted(self.parts, place, side="right")) - 1
        value = self._arrays[array]
        ct = np.zeros(value.size, value.dtype)
        direction = self._directions[place]
        ct[place - self.parts[array]] = direction if value.dtype.kind == "c" else 1
        with quiet():
            return self.run.record.pull([self._variables[array]], [ct.reshape(value.shape)[()]])


def _row(arrays: Sequence[Array]) -> Array:
    """Return the elements of arrays, in double precision."""
    return np.concatenate([np.zeros(0), *[x.ravel() for x in arrays]])
