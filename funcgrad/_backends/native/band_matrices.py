"""Large matrices, row by row: elimination of a few diagonals, and substitution in triangles.

Of a matrix that is zero but for a few diagonals, only as many rows as there are diagonals below the
main one wait at once, and these are in registers. Exchanges of rows may fill as many diagonals
above the upper ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from funcgrad._backends.native.floats import float_vectors
from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.instructions import Value
from funcgrad._backends.native.native_module import NativeModule
from funcgrad._backends.native.views import chosen, repeated

MOST_DIAGONALS: Final = 9
"""The most diagonals that are written out."""


def band_elimination(
    module: NativeModule, bands: tuple[int, int], width: int, dtype: np.dtype[Any]
) -> str:
    """The function that solves equations with a matrix held by its diagonals.

    Its arguments are the diagonals and their steps from one to the next and along them, the number
    of rows, the right-hand sides and their step, the solutions and their step, and room for as many
    rows of ``band_room`` elements. It returns whether all pivots are usual, and the solutions
    finite.
    """
    name = f"eliminate_bands_{bands[0]}_{bands[1]}_{width}{dtype.char}"
    parameters = (
        "ptr %a, i64 %down, i64 %along, i64 %rows, ptr %b, i64 %from, ptr %x, i64 %to, ptr %room"
    )

    def write(lines: FunctionText) -> None:
        _BandWriter(lines, bands, width, dtype).write()

    return module.shared(f"i1 @{name}", parameters, write)


def band_room(bands: tuple[int, int], width: int) -> int:
    """The elements that a row of an eliminated matrix takes, with its right-hand sides."""
    return bands[0] + bands[1] + 1 + width


class _BandWriter:
    """Writes an elimination, and the substitution from the last row to the first."""

    def __init__(
        self, lines: FunctionText, bands: tuple[int, int], width: int, dtype: np.dtype[Any]
    ) -> None:
        self._lower, self._upper = bands
        self._count = sum(bands) + 1
        self._width, self._lines = width, lines
        self._r = float_vectors(lines, dtype, width)
        self._one = self._r.single

    def write(self) -> None:
        """Write the function."""
        lines, r = self._lines, self._r
        waiting = [x for row in range(self._lower) for x in self._first_row(row)]
        true = self._one.lanes.constant(True, np.dtype(np.bool_))
        *_, usual = repeated(lines, "%rows", self._eliminate, [*waiting, true])
        zeros = [r.number(0.0)] * self._count
        *_, total = repeated(lines, "%rows", self._substitute, zeros)
        lines.emit(f"ret i1 {(usual & r.are_zeros(total)).text}")

    # ---------------------------------------------------------------------------------- elimination

    def _within(self, place: Value) -> Value:
        """Whether a row or column is one of the matrix."""
        return place < Value("%rows", place.dtype, place.lanes)

    def _place(self, text: str | int) -> Value:
        return Value(str(text), np.dtype(np.int64), self._one.lanes)

    def _element(self, row: Value, column: Value, diagonal: int) -> Value:
        """The element of a row and column on a diagonal, counted from the uppermost; or zero."""
        one, m = self._one, self._one.lanes
        inside = self._within(column) & self._within(row)
        safe = m.where(inside, column, 0)
        number = one.load(one.row(one.row("%a", diagonal, "%down"), safe.text, "%along"))
        return m.where(inside, number, one.number(0.0))

    def _right(self, row: Value) -> Value:
        safe = self._one.lanes.where(self._within(row), row, 0)
        return self._r.load(self._r.row("%b", safe.text, "%from"))

    def _first_row(self, row: int) -> list[Value]:
        """One of the rows that wait at first, from column 0 on, and its right-hand sides."""
        numbers, here = [], self._place(row)
        for column in range(self._count):
            diagonal = self._upper + row - column
            if 0 <= diagonal < self._count:
                numbers.append(self._element(here, self._place(column), diagonal))
            else:
                numbers.append(self._one.number(0.0))
        return [*numbers, self._right(here)]

    def _eliminate(self, index: str, carried: Sequence[Value]) -> Sequence[Value]:
        """Choose a pivot among the rows that wait and the next one; eliminate a column."""
        one, r, size = self._one, self._r, self._count + 1
        *waiting, usual = carried
        rows = [list(waiting[k * size : (k + 1) * size]) for k in range(self._lower)]
        here = self._place(index)
        row = here + self._lower
        following = [
            self._element(row, here + k if k else here, self._count - 1 - k)
            for k in range(self._count)
        ]
        rows.append([*following, self._right(row)])
        greatest = abs(rows[0][0])
        for k in range(1, len(rows)):
            other = abs(rows[k][0])
            more = other > greatest
            greatest = one.lanes.where(more, other, greatest)
            for place, (x, y) in enumerate(zip(rows[0], rows[k], strict=True)):
                rows[0][place] = x.lanes.select(more, y, x)
                rows[k][place] = x.lanes.select(more, x, y)
        pivot = rows[0]
        inverse = 1.0 / pivot[0]
        target = one.row("%room", index, self._count + self._width)
        one.store(target, inverse)
        for k in range(1, self._count):
            one.store(one.at(target, k), pivot[k])
        r.store(one.at(target, self._count), pivot[-1])
        after: list[Value] = []
        for below in rows[1:]:
            factor = below[0] * inverse
            after += [one.fma(-factor, pivot[k], below[k]) for k in range(1, self._count)]
            after += [one.number(0.0), r.fma(-r.lanes.splat(factor), pivot[-1], below[-1])]
        return [*after, usual & one.are_usual(greatest)]

    # --------------------------------------------------------------------------------- substitution

    def _substitute(self, index: str, carried: Sequence[Value]) -> Sequence[Value]:
        """One row of the solutions, from the last on; the ones after it are carried."""
        one, r = self._one, self._r
        *solved, total = carried
        row = (self._place("%rows") - self._place(index) - 1).text
        source = one.row("%room", row, self._count + self._width)
        x = r.load(one.at(source, self._count))
        for k, later in reversed(list(enumerate(solved, 1))):
            x = r.fma(-r.lanes.splat(one.load(one.at(source, k))), later, x)
        x = x * r.lanes.splat(one.load(source))
        r.store(r.row("%x", row, "%to"), x)
        return [*[x, *solved][: self._count - 1], r.fma(x, r.number(0.0), total)]


TOGETHER: Final = 4
"""The vectors of right-hand sides that are gone through together."""


def long_substitution(
    module: NativeModule, count: int, width: int, has_unit_diagonal: bool, dtype: np.dtype[Any]
) -> str:
    """The function ``(matrix, its steps, right-hand sides, step, solutions, step, rows)``.

    The matrix is a lower triangle; there are some vectors of right-hand sides side by side. It
    returns whether all solutions are finite.
    """
    unit = "_unit" if has_unit_diagonal else ""
    name = f"substitute_long{unit}_{count}_{width}{dtype.char}"

    def write(lines: FunctionText) -> None:
        r = float_vectors(lines, dtype, width)
        one, zero = r.single, r.number(0.0)

        def solve_row(row: str, totals: Sequence[Value]) -> Sequence[Value]:
            start, right = one.row("%a", row, "%row"), one.row("%b", row, "%from")
            sides = [r.load(r.at(right, v * width)) for v in range(count)]

            def earlier(column: str, sums: Sequence[Value]) -> Sequence[Value]:
                factor = -r.lanes.splat(one.load(one.row(start, column, "%column")))
                source = one.row("%x", column, "%to")
                return [
                    r.fma(factor, r.load(r.at(source, v * width)), sums[v]) for v in range(count)
                ]

            some = lines.op(f"icmp ne i64 {row}, 0")
            solved = chosen(lines, some, lambda: repeated(lines, row, earlier, sides), sides)
            if not has_unit_diagonal:
                pivot = r.lanes.splat(one.load(one.row(start, row, "%column")))
                solved = [x / pivot for x in solved]
            target = one.row("%x", row, "%to")
            for v, x in enumerate(solved):
                r.store(r.at(target, v * width), x)
            return [r.fma(x, zero, y) for x, y in zip(solved, totals, strict=True)]

        total, *others = repeated(lines, "%rows", solve_row, [zero] * count)
        for other in others:
            total = total + other
        lines.emit(f"ret i1 {r.are_zeros(total).text}")

    parameters = "ptr %a, i64 %row, i64 %column, ptr %b, i64 %from, ptr %x, i64 %to, i64 %rows"
    return module.shared(f"i1 @{name}", parameters, write)
