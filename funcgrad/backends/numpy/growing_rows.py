"""Memory of stacks whose number of rows is not known before they are made.

>>> import numpy as np
>>> stack = np.array([[1.0], [2.0]])
>>> lengthen(stack)
>>> stack[:2].tolist(), len(stack)
([[1.0], [2.0]], 3)
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np

from funcgrad.shape import Spec

FEWEST: Final = 4
MOST: Final = 1024
"""The fewest and the most rows that there is room for at first."""

_BYTES: Final = 2**16
"""The bytes at first, between these bounds: NumPy has that much memory at hand."""


def first_rows(spec: Spec) -> int:
    """The number of rows that there is room for at first, by the spec of one row."""
    size = prod(spec.shape) * spec.dtype.itemsize
    return min(max(FEWEST, _BYTES // max(size, 1)), MOST)


def lengthen(stack: np.ndarray[Any, Any]) -> None:
    """Make room for half as many more rows, in place.

    Nothing else may hold the memory, which may move. That of large stacks moves without a copy.
    """
    stack.resize((len(stack) * 3 // 2, *stack.shape[1:]), refcheck=False)
