"""Memory of stacks whose rows are counted by making them.

>>> import numpy as np
>>> doubled(np.array([[1.0, 2.0]]))[:1]
array([[1., 2.]])
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np

from funcgrad.shape import Spec

__all__ = ["FEWEST", "MOST", "doubled", "first_rows"]

FEWEST: Final = 4
MOST: Final = 1024
"""The bounds of the rows that there is room for at first."""

_BYTES: Final = 2**16
"""Between them, so many bytes: NumPy has that much at hand."""


def first_rows(spec: Spec) -> int:
    """For how many rows there is room at first, by the spec of one."""
    size = prod(spec.shape) * spec.dtype.itemsize
    return min(max(FEWEST, _BYTES // max(size, 1)), MOST)


def doubled(stack: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The rows of a stack, with room for as many more."""
    larger = np.empty((2 * len(stack), *stack.shape[1:]), stack.dtype)
    larger[: len(stack)] = stack
    return larger
