"""Colors of a pattern: columns, rows or pairs that one product with the matrix determines together.

Columns of one color share no row, so that one Jacobian-vector product gives all their elements
(Curtis, Powell, Reid, "On the estimation of sparse Jacobian matrices", 1974). For symmetric
matrices a *star coloring* needs fewer colors: each element or its mirror image stands alone in its
row among the columns of one color (Coleman, Moré, "Estimation of sparse Hessian matrices and graph
coloring problems", 1984; Gebremedhin, Tarafdar, Manne, Pothen, "New acyclic and star coloring
algorithms", 2007).

>>> from funcgrad.sparse.patterns import Pattern
>>> tridiagonal = Pattern.of(np.eye(6) + np.eye(6, k=1) + np.eye(6, k=-1))
>>> tridiagonal.colors().tolist()
[2, 0, 1, 2, 0, 1]
>>> first = np.arange(5) == 0
>>> arrow = Pattern.of(np.eye(5, dtype=bool) | first | first[:, None])
>>> arrow.colors("star").tolist(), arrow.colors().max() + 1
([0, 1, 1, 1, 1], np.int64(5))
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from funcgrad.sparse.element_rows import Indices, Rows, identity_rows


def column_colors(rows: Rows) -> Indices:
    """Color columns so that columns of one color share no row; the fullest columns come first.

    Coloring again in an order that keeps the columns of a color together never needs more colors
    (Culberson, "Iterated greedy graph coloring and the difficulty landscape", 1992): first with the
    rarest colors in front, then with the last.
    """
    columns = rows.tocsc()
    starts, members = columns.indptr.tolist(), columns.indices.tolist()
    colors = _greedy(starts, members, np.argsort(-np.diff(starts), kind="stable"), rows.shape[0])
    fewest = np.diff(rows.indptr).max(initial=0)  # the columns of a row all differ
    for by_size in (True, False):
        if colors.max(initial=-1) < fewest:
            break
        first = np.bincount(colors)[colors] if by_size else -colors
        colors = _greedy(starts, members, np.lexsort((colors, first)), rows.shape[0])
    return colors


def _greedy(starts: list[int], members: list[int], order: Indices, rows: int) -> Indices:
    """Give each column, in an order, the least color that no column of its rows has."""
    taken = [0] * rows  # for each row the colors of its columns, as bits
    colors = [0] * len(order)
    for column in order.tolist():
        inside = members[starts[column] : starts[column + 1]]
        used = 0
        for row in inside:
            used |= taken[row]
        lowest = ~used & (used + 1)
        colors[column] = lowest.bit_length() - 1
        for row in inside:
            taken[row] |= lowest
    return np.array(colors, np.int64)


def row_colors(rows: Rows) -> Indices:
    """Color rows so that rows of one color share no column."""
    return column_colors(rows.T.tocsr())


def star_colors(rows: Rows) -> Indices:
    """Color the columns of a symmetric pattern so that no path of four has only two colors.

    Greedy, the fullest columns first. Neighbors differ in color, too. Colors of columns that share
    no row are a star coloring as well, found five times as fast, and three of them are hardly too
    many: only stars need two.
    """
    simple = column_colors(rows + identity_rows(rows.shape[0], rows.shape[0], 0))
    if simple.max(initial=0) < 3 and rows.nnz:
        return simple
    starts, members = rows.indptr.tolist(), rows.indices.tolist()
    neighbors: list[list[int]] = [
        [other for other in members[start:end] if other != column]
        for column, (start, end) in enumerate(pairwise(starts))
    ]
    colors = [-1] * len(neighbors)
    for column in np.argsort(-np.diff(rows.indptr), kind="stable").tolist():
        colors[column] = _star_color(column, neighbors, colors)
    return np.array(colors, np.int64)


def _star_color(column: int, neighbors: list[list[int]], colors: list[int]) -> int:
    """The least color that makes no path of four columns of two colors."""
    around = neighbors[column]
    near = [colors[neighbor] for neighbor in around]
    forbidden: set[int] = set(near)
    for middle, color in zip(around, near, strict=True):
        beyond = [(end, colors[end]) for end in neighbors[middle] if end != column]
        if color < 0 or near.count(color) > 1:
            # Both ends of a path through `middle`, or of one that goes on beside `own`.
            forbidden.update([other for _, other in beyond])
            continue
        for end, other in beyond:
            if other >= 0 and other not in forbidden:
                further = [colors[last] for last in neighbors[end] if last != middle]
                if color in further:
                    forbidden.add(other)
    color = 0
    while color in forbidden:
        color += 1
    return color


def readable(rows: Rows, colors: Indices) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """For each element of a pattern, whether it stands alone in its row among its color.

    For symmetric patterns it is enough that either an element or its mirror image does.
    """
    count = int(colors.max(initial=-1)) + 1
    row = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    keys = row * count + colors[rows.indices]
    return np.bincount(keys, minlength=rows.shape[0] * count)[keys] == 1
