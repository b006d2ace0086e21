"""The fixed binary tree in which results are combined, whoever computes them and when.

Neighbours are combined level by level: results 0 and 1, 2 and 3 and so on, a last one without a
neighbour as it is. So the bits depend on the chunks alone, also where a worker combines those of an
aligned group of 2, 4, 8 … chunks before anything travels.

>>> folded(["a", "b", "c", "d", "e"], lambda left, right: f"({left}{right})")
'(((ab)(cd))e)'
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

T = TypeVar("T")


def folded(values: Sequence[T], combine: Callable[[T, T], T]) -> T:
    """Combine values in the fixed tree."""
    level = list(values)
    while len(level) > 1:
        pairs = [combine(level[k], level[k + 1]) for k in range(0, len(level) - 1, 2)]
        level = pairs + level[2 * len(pairs) :]
    return level[0]


class GrowingFold(Generic[T]):
    """A fold by that tree of results that arrive in any order; each is dropped once it is combined.

    >>> fold = GrowingFold(3, lambda left, right: f"({left}{right})")
    >>> for position, value in ((2, "c"), (1, "b"), (0, "a")):
    ...     fold.put(position, value)
    >>> fold.total
    '((ab)c)'
    """

    def __init__(self, count: int, combine: Callable[[T, T], T]) -> None:
        self._widths = [count]
        while self._widths[-1] > 1:
            self._widths.append((self._widths[-1] + 1) // 2)
        self._combine = combine
        self._waiting: dict[tuple[int, int], T] = {}

    def put(self, position: int, value: T) -> None:
        """Add a result, and combine it with its neighbours as far as they are there."""
        for level, width in enumerate(self._widths):
            neighbour = position ^ 1
            if width == 1 or (neighbour < width and (level, neighbour) not in self._waiting):
                self._waiting[level, position] = value
                return
            if neighbour < width:
                other = self._waiting.pop((level, neighbour))
                value = self._combine(*((value, other) if position < neighbour else (other, value)))
            position //= 2

    @property
    def total(self) -> T:
        """All results in one."""
        return self._waiting[len(self._widths) - 1, 0]
