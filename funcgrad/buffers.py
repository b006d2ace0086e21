"""Memory of large arrays, used again once nobody holds it.

To get memory from the system and to touch it for the first time may take several times as long as
to compute the numbers in it. A pool remembers the arrays that it made. It gives one out again when
nobody else holds it: a tensor, a view, a buffer, or anything else that could still see the array,
has a reference to it. So an array from a pool is as good as a new one.

>>> import numpy as np
>>> pool = BufferPool()
>>> first = pool.take((1000,), np.dtype(float))
>>> view = first[:10]
>>> del first
>>> pool.take((1000,), np.dtype(float)) is view.base  # the view still needs it
False
"""

from __future__ import annotations

import sys
from typing import Any, Final, TypeAlias

import numpy as np

LARGE: Final = 3 * 2**16
"""Bytes from which an array is worth a pool: allocators of memory give as much back to the system
as soon as it is free. A pool takes 1 µs, and to fill so much at least five times that."""

_MOST: Final = 16
"""Arrays that a pool remembers: the search takes time for each. Older ones are their holders'."""

_IDLE: Final = 2**23
"""Bytes that a pool may hold while its owner does not run."""

Array: TypeAlias = np.ndarray[Any, Any]


def _popped(arrays: list[Array], position: int) -> tuple[Array, int]:
    """An array, taken out of a list, and how many references to it there are."""
    array = arrays.pop(position)
    return array, sys.getrefcount(array)


_ALONE: Final = _popped([np.empty(0)], 0)[1]
"""The count for an array that nobody else holds. Versions of Python differ in it."""


_has_lock: Final = getattr(sys, "_is_gil_enabled", lambda: True)
"""Whether only one thread runs at a time; otherwise counts of references say nothing."""


class BufferPool:
    """Arrays that are used again; of one owner, such as the function that ``grad`` returns.

    Many threads may use it at once: whoever looks at an array has it alone meanwhile.
    """

    __slots__ = ("arrays",)

    def __init__(self) -> None:
        self.arrays: list[Array] = []

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """An array with any numbers in it, in C order.

        If none of the pool's can be had, all that nobody holds are freed before a new one is made:
        so at that moment no more memory is in use than without a pool.
        """
        arrays: list[Array] = self.arrays
        free: list[Array] = []
        alone = _ALONE if _has_lock() else -1
        for position in range(len(arrays) - 1, -1, -1):  # the latest may be in the cache still
            try:
                array, count = _popped(arrays, position)
            except IndexError:  # another thread was faster
                continue
            if count != alone:
                arrays.insert(position, array)
            elif array.shape == shape and array.dtype is dtype:
                arrays += free
                arrays.append(array)
                return array
            else:
                free.append(array)
        array = free = None  # type: ignore[assignment]  # gone, before there is a new one
        array = np.empty(shape, dtype)
        arrays.append(array)
        del arrays[:-_MOST]
        return array

    def trim(self) -> None:
        """Forget arrays until few bytes are held: the owner has done its work for now."""
        total, count = 0, 0
        for array in reversed(self.arrays):
            total += array.nbytes
            if total > _IDLE:
                break
            count += 1
        del self.arrays[: len(self.arrays) - count]
