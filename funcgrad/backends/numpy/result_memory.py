"""Memory of large results, reused once nobody else refers to it.

Getting memory from the system and touching it for the first time may take longer than computing the
numbers in it. So a compiled function remembers its last large results, and reuses their memory if
nothing else refers to them.

>>> import numpy as np
>>> memory = ResultMemory()
>>> first = memory.take(1000, np.float64)
>>> memory.keep(first)
>>> memory.take(1000, np.float64) is first  # we still hold it
False
"""

from __future__ import annotations

import sys
from typing import Any, Final

import numpy as np

_MOST: Final = 2  # in a loop the last result is held while the next one is made


def _popped(arrays: list[np.ndarray[Any, Any]]) -> tuple[np.ndarray[Any, Any], int]:
    """Remove the first array of a list; return it and the number of references to it."""
    array = arrays.pop(0)
    return array, sys.getrefcount(array)


_ALONE: Final = _popped([np.empty(0)])[1]
"""The count for an array that nothing else refers to. It depends on the version of Python."""


class ResultMemory:
    """Memory for one result of one compiled function.

    Many threads may use it at once: no two of them get the same array.
    """

    __slots__ = ("_arrays",)

    def __init__(self) -> None:
        self._arrays: list[np.ndarray[Any, Any]] = []

    def take(self, shape: int | tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """Return an array with arbitrary numbers in it, new or reused."""
        for _ in range(len(self._arrays)):
            try:
                array, count = _popped(self._arrays)
            except IndexError:  # another thread was faster
                break
            # Tensors, views and buffers of the array refer to it. Without the global interpreter
            # lock the count says nothing.
            if count == _ALONE and getattr(sys, "_is_gil_enabled", _always)():
                return array
            self._arrays.append(array)
        return np.empty(shape, dtype)

    def keep(self, array: np.ndarray[Any, Any]) -> None:
        """Remember an array; it is reused as soon as nothing else refers to it."""
        self._arrays.append(array)
        del self._arrays[:-_MOST]


def _always() -> bool:
    return True
