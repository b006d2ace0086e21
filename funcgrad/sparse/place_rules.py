"""Rules for operations that move elements: index maps, reading and writing at places.

Each takes a ``PatternSite`` and returns the rows of its result. Integers that are not known may be
any integer of their axis.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.structure.index_maps import IndexArray, Places
from funcgrad.sparse.element_rows import (
    Indices,
    Rows,
    from_pairs,
    no_rows,
    numbered,
    selected,
    stacked,
    strided,
    united,
    united_groups,
)
from funcgrad.sparse.sites import UNDECLARED, PatternSite, Undeclared


def moved_rows(site: PatternSite) -> Rows | Undeclared | None:
    """Move the positions of the elements instead of the elements: from 1 on, as 0 means nothing."""
    rows, arrays, first = [], [], 1
    for k, shape in enumerate(site.shapes):
        dependence = site.rows[k]
        if dependence is None:
            arrays.append(np.zeros(shape, np.int64))
        else:
            arrays.append(numbered(shape) + first)
            rows.append(dependence)
            first += dependence.shape[0]
    primitive = site.equation.operation
    try:
        numbers = np.asarray(primitive.evaluate(*arrays, **site.params))
    except Exception:
        return added_rows(site)
    return selected(stacked(rows), numbers.astype(np.int64).reshape(-1) - 1)


def added_rows(site: PatternSite) -> Rows | Undeclared | None:
    structure: Any = site.equation.operation.structure
    (result,) = site.results
    pieces = structure.pieces(result, *site.shapes, **site.params)
    if pieces is None:
        return UNDECLARED
    parts = []
    for piece in pieces:
        rows = site.rows[piece.operand]
        if rows is not None:
            to = strided(piece.to, piece.to_strides, piece.shape)
            start = strided(piece.start, piece.strides, piece.shape)
            parts.append(from_pairs(to, start, prod(result), rows))
    return united(parts)


@dataclass(frozen=True, slots=True)
class _ChosenPlaces:
    """Places that are known except along some axes, whose integers are not known.

    Attributes
    ----------
    places : array of int
        The flat element for each index ``k``, at position 0 of the unknown axes; -1 for none.
    unknown : tuple of IndexArray
        The index arrays whose integers are not known.
    """

    places: Indices
    unknown: tuple[IndexArray, ...]

    def groups(self, size: int) -> Indices:
        """For each element of the array, its element at position 0 of the unknown axes."""
        elements = np.arange(size, dtype=np.int64)
        for index in self.unknown:
            elements = elements - (elements // index.step) % index.size * index.step
        return elements


def _chosen(site: PatternSite, places: Places) -> _ChosenPlaces:
    elements = strided(places.start, places.strides, places.shape)
    is_missing = np.zeros(len(elements), np.bool_)
    unknown = []
    for index in places.indices:
        value = site.known.get(index.operand)
        if value is None:
            unknown.append(index)
            continue
        at = strided(0, index.strides, places.shape)
        integers = np.asarray(value).reshape(-1)[at].astype(np.int64)
        if index.mode == "clip":
            integers = np.clip(integers, 0, index.size - 1)
        elif index.mode != "wrap":
            is_missing |= (integers < -index.size) | (integers >= index.size)
        elements = elements + index.step * (integers % max(index.size, 1))
    return _ChosenPlaces(np.where(is_missing, -1, elements), tuple(unknown))


def gathered_rows(site: PatternSite, places: Places) -> Rows | None:
    rows = site.rows[0]
    if rows is None:
        return None
    chosen = _chosen(site, places)
    if chosen.unknown:
        count = rows.shape[0]
        rows = united_groups(rows, chosen.groups(count), count)
    return selected(rows, chosen.places)


def scattered_rows(site: PatternSite) -> Rows | None:
    structure: Any = site.equation.operation.structure
    (result,) = site.results
    size, updates = prod(result), site.rows[structure.updates]
    chosen = _chosen(site, structure.places(*site.shapes, **site.params))
    base = site.rows[0] if structure.updates else None
    written = chosen.places >= 0
    if structure.fold is None and not chosen.unknown:  # the last update wins
        width = next(rows.shape[1] for _, rows in site.dependent)
        parts = [
            no_rows(size, width) if base is None else base,
            no_rows(len(written), width) if updates is None else updates,
        ]
        places = np.arange(size)
        places[chosen.places[written]] = size + np.flatnonzero(written)
        return selected(stacked(parts), places)
    if updates is None:
        return base
    to = chosen.places[written]
    spread = from_pairs(to, np.flatnonzero(written), size, updates)
    if chosen.unknown:
        spread = selected(spread, chosen.groups(size))
    return united([base, spread])
