"""Columns in ascending order, or only the rows of them that somebody reads.

>>> ordered_columns(np.array([3.0, 1.0, 2.0, 0.0]), (np.array([1]),))
OrderedColumns(columns=array([1., 3.]), ranks=(1, 3))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from funcgrad._core.specs import shape_of
from funcgrad._core.trace import RAW, Value, concrete
from funcgrad._primitives.ranking import ranked
from funcgrad._primitives.sorting import sort
from funcgrad._primitives.structural import unfollowed

_FEW: Final = 8
"""So many ranks at most are selected rather than sorted for."""


class OrderedColumns(NamedTuple):
    """Columns in ascending order.

    Attributes
    ----------
    columns : Value
    ranks : tuple of int, optional
        The ranks of the rows, if there are only some.
    """

    columns: Value
    ranks: tuple[int, ...] | None = None

    def rows(self, places: Value) -> Value:
        """The rows with some ranks."""
        return places if self.ranks is None else np.searchsorted(self.ranks, places)


def ordered_columns(value: Value, places: Sequence[Value]) -> OrderedColumns:
    """The columns in order; only the rows at some places, and the last one, if these are known."""
    known = [concrete(unfollowed(place)) for place in places]
    if all(type(place) in RAW for place in known):
        size = shape_of(value)[0]
        marks = [np.asarray(place, np.intp).reshape(-1) for place in known]
        kth = tuple(np.unique(np.concatenate([*marks, [size - 1]])).tolist())
        if len(kth) <= min(_FEW, size - 1):
            return OrderedColumns(ranked(value, axis=0, kth=kth), kth)
    return OrderedColumns(sort(value, axis=0, descending=False))
