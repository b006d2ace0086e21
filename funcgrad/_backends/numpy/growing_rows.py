"""Memory for stacks that grow row by row, as in loops whose length depends on the data.

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

from funcgrad._core.specs import Spec

FEWEST: Final = 4
MOST: Final = 1024
"""The fewest and the most rows that a new stack has room for."""

_BYTES: Final = 2**16
"""The bytes of a new stack, between these bounds: NumPy gets that much memory without a page
fault."""


def first_rows(spec: Spec) -> int:
    """The number of rows that a new stack has room for, given the spec of a row."""
    size = prod(spec.shape) * spec.dtype.itemsize
    return min(max(FEWEST, _BYTES // max(size, 1)), MOST)


def lengthen(stack: np.ndarray[Any, Any]) -> None:
    """Make room for half as many more rows, in place.

    The memory may move, so no other array may use it. Large stacks move without a copy, but for
    NumPy from 2.5 on.
    """
    stack.resize((len(stack) * 3 // 2, *stack.shape[1:]), refcheck=False)
