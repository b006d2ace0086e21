"""A unary function that keeps its operands, as users' functions may.

It raises an error if an operand that it keeps is another one later.
"""

from collections import deque
from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import extend


class Keeper:
    """The cosine, and the latest arrays that it was called with, each with a copy."""

    def __init__(self) -> None:
        self.seen: deque[tuple[Any, Any]] = deque(maxlen=8)

    def __call__(self, x: Any) -> Any:
        for array, copy in self.seen:
            if not np.array_equal(array, copy, equal_nan=True):
                raise RuntimeError("an operand that was kept is another one now")
        if isinstance(x, np.ndarray):
            self.seen.append((x, np.array(x)))
        return np.cos(x)


keeping = extend.elementwise(
    "keeping",
    Keeper(),
    partials=(lambda _, x: -fnp.sin(x),),
    samples=extend.combined(extend.reals(-3, 3), extend.edges(np.inf, -np.inf, np.nan, 0.0)),
)


def kept_cosine(x: Any) -> fg.Tensor:
    """The operation as users call it."""
    return extend.apply(keeping, x)
