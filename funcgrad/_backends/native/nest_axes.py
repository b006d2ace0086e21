"""The loops of a nest: axes that all arrays go through as one, in the order of the loops.

An array with rows of four elements side by side is one loop over all of them:

>>> import numpy as np
>>> rows = NestArray(0, np.dtype(float), [4, 1], "%rows")
>>> arranged((3, 4), [rows], {}, [0])
([12], {})
>>> rows.strides
[1]
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Shape


@dataclass(slots=True)
class NestArray:
    """An array of a nest.

    Attributes
    ----------
    variable : int
    dtype : dtype
    strides : list of int
        Along each axis of the nest, later along each loop, in elements.
    pointer : str
        Where it begins.
    """

    variable: int
    dtype: np.dtype[Any]
    strides: list[int]
    pointer: str


def arranged(
    shape: Shape,
    arrays: Sequence[NestArray],
    reduced: Mapping[int, frozenset[int]],
    stores: Container[int],
    columns: Container[int] = (),
) -> tuple[list[int], dict[int, frozenset[int]]]:
    """Merge and order the axes of a nest, and the strides of its arrays.

    Parameters
    ----------
    shape : tuple of int
    arrays : sequence of NestArray
        Their strides are changed.
    reduced : mapping
        The axes that each reduction reduces.
    stores : container
        The variables that are written.
    columns : container of int
        The lengths of an innermost loop for which totals of all columns are collected in registers.

    Returns
    -------
    extents : list of int
        The lengths of the loops, from the outermost.
    loops : dict
        The loops that each reduction reduces.
    """
    groups: list[list[int]] = []
    for axis in [axis for axis in range(len(shape)) if shape[axis] != 1]:
        last = groups[-1][-1] if groups else None
        if (
            last is not None
            and all(a.strides[last] == a.strides[axis] * shape[axis] for a in arrays)
            and all((last in axes) == (axis in axes) for axes in reduced.values())
        ):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    extents = [prod([shape[axis] for axis in group]) for group in groups]
    inner = [[array.strides[group[-1]] for group in groups] for array in arrays]

    def worth(place: int) -> float:
        """How many arrays lie side by side along a loop; those that are written count twice.

        Reductions count once where they are collected in registers: along loops that they reduce,
        and along rows of few vectors.
        """
        total = 0.5 * (place == len(groups) - 1)
        in_columns = extents[place] in columns and all(
            axes.isdisjoint(groups[place]) and sum([group[0] in axes for group in groups]) == 1
            for axes in reduced.values()
        )
        for array, strides in zip(arrays, inner, strict=True):
            if array.variable in reduced:
                total += in_columns or groups[place][0] in reduced[array.variable]
            else:
                total += (strides[place] == 1) * (1 + (array.variable in stores))
        return total

    order = list(range(len(groups)))
    if order:
        best = max(order, key=worth)
        order.remove(best)
        order.append(best)
    for array, strides in zip(arrays, inner, strict=True):
        array.strides = [strides[place] for place in order] or [0]
    places = {
        variable: frozenset([k for k, place in enumerate(order) if groups[place][0] in axes])
        for variable, axes in reduced.items()
    }
    return [extents[place] for place in order] or [1], places
