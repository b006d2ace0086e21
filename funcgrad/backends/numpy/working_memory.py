"""Memory for the large intermediate results of one compiled program, used from call to call.

Memory that was given back to the system has to be got from it again, page by page, which takes
several times as long as to compute the numbers in it. So the large arrays that a call needs on its
way are laid out once, side by side or over one another as their lives allow, and kept for the next
call.

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
"""The number of simultaneous calls for which memory is kept; others get theirs from the system."""


class WorkingMemory:
    """Places for arrays of given shapes and dtypes; each names the slot that it lies in.

    Every call that is under way has a room of its own, so that threads do not meet. One that ends
    by an exception leaves its room to the collector of memory.
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
        """Arrays with any numbers in them, which are the caller's until it keeps them here."""
        try:
            return self._rooms.pop()
        except IndexError:
            slots = [np.empty(size, np.uint8) for size in self._sizes]
            return tuple([np.ndarray(s, d, slots[slot]) for s, d, slot in self._arrays])

    def keep(self, room: Room) -> None:
        """Take the arrays of a call back, whose caller must not use them any more."""
        if len(self._rooms) < _MOST:
            self._rooms.append(room)
