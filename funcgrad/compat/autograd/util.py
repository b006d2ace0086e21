"""``subval`` and ``subvals``: tuples with some of their items replaced.

>>> subval((1, 2, 3), 1, 5), subvals((1, 2, 3), [(0, 4), (2, 6)])
((1, 5, 3), (4, 2, 6))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from funcgrad._hints.lookup import missing_from as _missing_from


def subvals(x: Sequence[Any], ivs: Iterable[tuple[int, Any]]) -> tuple[Any, ...]:
    """Replace items by pairs of position and value."""
    items = list(x)
    for position, value in ivs:
        items[position] = value
    return tuple(items)


def subval(x: Sequence[Any], i: int, v: object) -> tuple[Any, ...]:
    """Replace one item."""
    return subvals(x, [(i, v)])


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
