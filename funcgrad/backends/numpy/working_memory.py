"""Memory for the large intermediate results of one compiled program, reused from call to call.

Memory that was returned to the system has to be requested again, page by page, which takes several
times as long as computing the numbers in it. So the large intermediate arrays of a call are
allocated once, overlapping where their lives do not, and kept for the next call.

>>> import numpy as np
>>> memory = WorkingMemory((((2, 3), np.float64, 0), ((6,), np.float32, 0), ((3,), np.float64, 1)))
>>> room = memory.take()
>>> first, second, third = room
>>> first.shape, np.shares_memory(first, second), np.shares_memory(first, third)
((2, 3), True, False)
>>> memory.keep(room)
>>> memory.take() is room
True
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

Room: TypeAlias = tuple[np.ndarray[Any, Any], ...]

_MOST: Final = 2
"""The number of simultaneous calls for which memory is kept; further calls allocate new memory."""


class WorkingMemory:
    """Memory for arrays, given as triples of shape, dtype and slot.

    Each call that is under way has a set of arrays of its own (a *room*), so that threads do not
    interfere. The room of a call that raised an exception is freed.
    """

    __slots__ = ("_arrays", "_rooms", "_sizes")

    def __init__(self, arrays: Sequence[tuple[tuple[int, ...], Any, int]]) -> None:
        self._arrays = tuple(arrays)
        self._rooms: list[Room] = []
        self._sizes = [0] * (1 + max([slot for _, _, slot in arrays]))
        for shape, dtype, slot in arrays:
            size = prod(shape) * np.dtype(dtype).itemsize
            self._sizes[slot] = max(self._sizes[slot], size)

    def take(self) -> Room:
        """Return arrays with arbitrary numbers in them, for the caller's use until ``keep``."""
        try:
            return self._rooms.pop()
        except IndexError:
            slots = [np.empty(size, np.uint8) for size in self._sizes]
            return tuple([np.ndarray(s, d, slots[slot]) for s, d, slot in self._arrays])

    def keep(self, room: Room) -> None:
        """Take back the arrays of a call; its caller must not use them any more."""
        if len(self._rooms) < _MOST:
            self._rooms.append(room)
