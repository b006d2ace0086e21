"""Memory of large arrays, reused once nothing else refers to it.

Getting memory from the system and touching it for the first time may take several times as long as
computing the numbers in it. A pool remembers the arrays that it made, and reuses one when nothing
else refers to it: tensors, views, buffers and anything else that could still see the array hold a
reference to it. So an array from a pool is as good as a new one.

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
from contextlib import suppress
from typing import Any, Final, TypeAlias

import numpy as np

LARGE: Final = 3 * 2**16
"""Bytes from which an array is worth a pool: allocators return blocks of this size to the system
as soon as they are freed. A pool takes 1 µs, and filling such a block at least five times that."""

_MOST: Final = 16
"""The most arrays that a pool remembers, since the search takes time for each."""

_IDLE: Final = 2**23
"""The most bytes that a pool keeps while its owner is not running."""

_LARGEST_OF_HEAP: Final = 2**25 - 2**13
"""Bytes, with room for what an allocator adds: glibc takes larger blocks for large for ever."""

Array: TypeAlias = np.ndarray[Any, Any]


def keep_freed_memory() -> None:
    """Let glibc's allocator keep freed memory for the next array, up to 64 MB of it.

    At first it gives all above 128 KiB back to the system, which hands it out again page by page,
    each filled with zeros. These limits grow with the blocks that are freed: when one of 32 MB, the
    largest that counts, has been freed, blocks up to this size are kept (mallopt(3), on
    ``M_MMAP_THRESHOLD``). This one is never written, so it takes no memory. Without a jit, steps
    of a transformer take 0.6 to 0.75 of the time, gradients of a million elements 0.8. Who has
    set limits keeps them, and other allocators have other rules.
    """
    with suppress(MemoryError):  # little is allowed, and so little is freed
        np.empty(_LARGEST_OF_HEAP, np.uint8)


def _popped(arrays: list[Array], position: int) -> tuple[Array, int]:
    """Remove an array from a list; return it and the number of references to it."""
    array = arrays.pop(position)
    return array, sys.getrefcount(array)


_ALONE: Final = _popped([np.empty(0)], 0)[1]
"""The count for an array that nothing else refers to. It depends on the version of Python."""


_has_lock: Final = getattr(sys, "_is_gil_enabled", lambda: True)
"""Whether only one thread runs at a time; otherwise counts of references say nothing."""


class BufferPool:
    """Arrays that are reused by one owner, such as the function that ``grad`` returns.

    Many threads may use it at once: an array that one of them examines is not in the list.
    """

    __slots__ = ("arrays",)

    def __init__(self) -> None:
        self.arrays: list[Array] = []

    def take(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """Return an array with arbitrary numbers in it, in C order.

        If none of the pool's arrays fits, the unused ones are freed before a new one is made, so
        that at this moment no more memory is in use than without a pool.
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
        """Forget arrays until few bytes are kept; called when the owner has finished a call."""
        total, count = 0, 0
        for array in reversed(self.arrays):
            total += array.nbytes
            if total > _IDLE:
                break
            count += 1
        del self.arrays[: len(self.arrays) - count]
