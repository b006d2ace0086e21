"""Memory that is planned once: places for what is alive at the same time do not meet.

The memory of outputs comes first, as far as it is free: before an output is made, intermediate
results may lie there. Behind it comes the arena.

>>> plan = MemoryPlan()
>>> plan.place(100, 0, 1), plan.place(64, 1, 2), plan.place(64, 2, 3)
(0, 128, 0)
>>> plan.size
192
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

ALIGNMENT: Final = 64

LARGE: Final = 4096
"""Arrays of so many bytes share memory where they may; LLVM takes small ones into registers."""

_FOR_EVER: Final = np.iinfo(np.int64).max


class MemoryPlan:
    """Places in memory, each for some time.

    Attributes
    ----------
    arena : int
        Where the arena begins, behind the memory of outputs.
    """

    def __init__(self) -> None:
        # Begin and end in memory, and in time, in the order of memory. Arrays, since a program of
        # 8,000 equations took 15 seconds by a loop over tuples.
        self._placed = np.empty((4, 16), np.int64)
        self._count = self.arena = 0
        self._outputs: list[tuple[int, str]] = []

    @property
    def size(self) -> int:
        """The bytes of the arena."""
        stops = self._placed[1, : self._count]
        return int(stops.max(initial=self.arena)) - self.arena

    def add_output(self, name: str, size: int, begin: int) -> None:
        """Add the memory of an output, which is free until a moment."""
        self._outputs.append((self.arena, name))
        self._insert(self._count, self.arena, size, (begin, _FOR_EVER))
        self._insert(self._count, self.arena + size, ALIGNMENT, (0, _FOR_EVER))  # a wall
        self.arena = _aligned(self.arena + size + ALIGNMENT)

    def place(self, size: int, begin: int, end: int, lowest: int = 0) -> int:
        """The first place that is free from one moment to another."""
        starts, stops, born, died = self._placed[:, : self._count]
        beside = (died >= begin) & (born <= end)
        ends = np.maximum.accumulate(np.append(lowest, _aligned(stops[beside])))
        fits = np.append(starts[beside] >= ends[:-1] + size, True)
        place = int(ends[fits.argmax()])
        self._insert(int(starts.searchsorted(place)), place, size, (begin, end))
        return place

    def located(self, place: int) -> tuple[str, int]:
        """The name of the memory in which a place is, and how far from its begin."""
        if place >= self.arena:
            return "%arena", place - self.arena
        first, name = max([output for output in self._outputs if output[0] <= place])
        return name, place - first

    def _insert(self, after: int, place: int, size: int, life: tuple[int, int]) -> None:
        count = self._count
        if count == self._placed.shape[1]:
            self._placed = np.concatenate([self._placed, np.empty_like(self._placed)], axis=1)
        self._placed[:, after + 1 : count + 1] = self._placed[:, after:count]
        self._placed[:, after] = place, place + size, *life
        self._count += 1


def _aligned(place: Any) -> Any:
    """The next places at which vectors begin."""
    return -(-place // ALIGNMENT) * ALIGNMENT
