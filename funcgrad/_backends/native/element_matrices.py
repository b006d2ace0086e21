"""Linear systems of few unknowns, element by element: elimination whose rows change by choices.

A batch of them has a vector of examples for each element, and each example its own order of rows.

>>> import funcgrad as fg
>>> matrix = [[*fg.tensor([0.0, 2.0])], [*fg.tensor([4.0, 1.0])]]
>>> [float(x) for (x,) in solutions(matrix, [[fg.tensor(2.0)], [fg.tensor(5.0)]])]
[1.0, 1.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from funcgrad._core.specs import dtype_of
from funcgrad._core.trace import Value
from funcgrad._primitives.elementwise import absolute, divide, multiply, subtract
from funcgrad._primitives.logic import equal, greater
from funcgrad._primitives.selection import where

Rows: TypeAlias = "list[list[Value]]"


def solutions(matrix: Sequence[Sequence[Value]], right: Sequence[Sequence[Value]]) -> Rows:
    """The solutions of a system with several right sides; NaN if a pivot is zero."""
    n = len(matrix)
    rows = [[*line, *more] for line, more in zip(matrix, right, strict=True)]
    for k in range(n):
        for i in range(k + 1, n):  # the greatest comes up, by exchanges
            _exchange(rows, k, i)
        for i in range(k + 1, n):
            factor = divide(rows[i][k], rows[k][k])
            rows[i][k + 1 :] = _less(rows[i][k + 1 :], factor, rows[k][k + 1 :])
    # After a pivot of zero, 0 / 0 makes all later rows NaN, and substitution the earlier ones.
    last, number = rows[-1][n - 1], dtype_of(matrix[0][0]).type
    rows[-1][n - 1] = where(equal(last, number(0.0)), number(np.nan), last)
    solved: Rows = [line[n:] for line in rows]
    for k in reversed(range(n)):
        solved[k] = [divide(x, rows[k][k]) for x in solved[k]]
        for i in range(k):
            solved[i] = _less(solved[i], rows[i][k], solved[k])
    return solved


def _exchange(rows: Rows, k: int, i: int) -> None:
    """Exchange two rows where the later one has the greater pivot."""
    more = greater(absolute(rows[i][k]), absolute(rows[k][k]))
    upper, lower = rows[k][k:], rows[i][k:]
    rows[k][k:] = [where(more, y, x) for x, y in zip(upper, lower, strict=True)]
    rows[i][k:] = [where(more, x, y) for x, y in zip(upper, lower, strict=True)]


def _less(x: Sequence[Value], factor: Value, y: Sequence[Value]) -> list[Value]:
    return [subtract(a, multiply(factor, b)) for a, b in zip(x, y, strict=True)]
