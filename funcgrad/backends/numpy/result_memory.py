"""Memory of large results, used again once nobody holds it.

To get memory from the system and to touch it for the first time may take longer than to compute the
numbers in it. So a compiled function remembers its last large results, and uses their memory again
if nobody else holds them any longer.

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
    """The first array of a list, taken out of it, and how many references to it there are."""
    array = arrays.pop(0)
    return array, sys.getrefcount(array)


_ALONE: Final = _popped([np.empty(0)])[1]
"""The count for an array that nobody else holds. Versions of Python differ in it."""


class ResultMemory:
    """Places for one result of one compiled function.

    Many threads may use it at once: whoever takes an array has it alone, and others get new ones.
    """

    __slots__ = ("_arrays",)

    def __init__(self) -> None:
        self._arrays: list[np.ndarray[Any, Any]] = []

    def take(self, shape: int | tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
        """An array with any numbers in it."""
        for _ in range(len(self._arrays)):
            try:
                array, count = _popped(self._arrays)
            except IndexError:  # another thread was faster
                break
            # A tensor, a view or a buffer of the array would hold it too. Without the global lock
            # the count says nothing.
            if count == _ALONE and getattr(sys, "_is_gil_enabled", _always)():
                return array
            self._arrays.append(array)
        return np.empty(shape, dtype)

    def keep(self, array: np.ndarray[Any, Any]) -> None:
        """Remember an array; it may be taken again as soon as nobody else holds it."""
        self._arrays.append(array)
        del self._arrays[:-_MOST]


def _always() -> bool:
    return True
