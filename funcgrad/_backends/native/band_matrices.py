"""Large matrices, row by row: elimination of a few diagonals, and substitution in triangles.

Of a matrix that is zero but for a few diagonals, only as many rows as there are diagonals below the
main one wait at once, and these are in registers. Exchanges of rows may fill as many diagonals
above the upper ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from funcgrad._backends.native.float_registers import FloatRegisters
from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.native_module import NativeModule

MOST_DIAGONALS: Final = 9
"""The most diagonals that are written out."""


def band_elimination(
    module: NativeModule, bands: tuple[int, int], width: int, dtype: np.dtype[Any]
) -> str:
    """The function that solves equations with a matrix held by its diagonals.

    Its arguments are the diagonals and their steps from one to the next and along them, the number
    of rows, the right-hand sides and their step, the solutions and their step, and room for as many
    rows of ``band_room`` numbers. It returns whether all pivots are usual numbers, and the
    solutions finite.
    """
    name = f"eliminate_bands_{bands[0]}_{bands[1]}_{width}{dtype.char}"
    parameters = (
        "ptr %a, i64 %down, i64 %along, i64 %rows, ptr %b, i64 %from, ptr %x, i64 %to, ptr %room"
    )

    def write(lines: FunctionText) -> None:
        _BandWriter(lines, module.fuses, bands, width, dtype).write()

    return module.shared(f"i1 @{name}", parameters, write)


def band_room(bands: tuple[int, int], width: int) -> int:
    """The numbers that a row of an eliminated matrix takes, beside its right-hand sides."""
    return bands[0] + bands[1] + 1 + width


class _BandWriter:
    """Writes an elimination, and the substitution from the last row to the first."""

    def __init__(
        self,
        lines: FunctionText,
        fuses: bool,
        bands: tuple[int, int],
        width: int,
        dtype: np.dtype[Any],
    ) -> None:
        self._lower, self._upper = bands
        self._count = sum(bands) + 1
        self._width, self._lines = width, lines
        self._r = FloatRegisters(lines, dtype, width, fuses)
        self._one = FloatRegisters(lines, dtype, 1, fuses)

    def write(self) -> None:
        """Write the function."""
        lines, one, r = self._lines, self._one, self._r
        kinds = [one.kind] * self._count + [r.kind]
        waiting: list[str] = []
        for row in range(self._lower):
            waiting += self._first_row(row)
        carried = list(zip(kinds * self._lower, waiting, strict=True))
        *_, usual = lines.counted("%rows", self._eliminate, [*carried, ("i1", "true")])
        zeros = [(r.kind, r.zero)] * (self._count - 1)
        *_, total = lines.counted("%rows", self._substitute, [*zeros, (r.kind, r.zero)])
        finite = r.are_zeros(total)
        lines.emit(f"ret i1 {lines.op(f'and i1 {usual}, {finite}')}")

    # ---------------------------------------------------------------------------------- elimination

    def _element(self, row: str, column: str, diagonal: int) -> str:
        """The element of a row and column on a diagonal, counted from the uppermost; or zero."""
        lines, one = self._lines, self._one
        inside = lines.op(f"icmp slt i64 {column}, %rows")
        inside = lines.op(f"and i1 {inside}, {lines.op(f'icmp slt i64 {row}, %rows')}")
        safe = lines.op(f"select i1 {inside}, i64 {column}, i64 0")
        place = one.row(one.row("%a", diagonal, "%down"), safe, "%along")
        number = one.load_one(place)
        return lines.op(f"select i1 {inside}, {one.kind} {number}, {one.kind} {one.zero}")

    def _right(self, row: str) -> str:
        lines, r = self._lines, self._r
        inside = lines.op(f"icmp slt i64 {row}, %rows")
        safe = lines.op(f"select i1 {inside}, i64 {row}, i64 0")
        return r.load(r.row("%b", safe, "%from"))

    def _first_row(self, row: int) -> list[str]:
        """One of the rows that wait at first, from column 0 on, and its right-hand sides."""
        numbers = []
        for column in range(self._count):
            diagonal = self._upper + row - column
            known = 0 <= diagonal < self._count
            numbers.append(
                self._element(str(row), str(column), diagonal) if known else self._one.zero
            )
        return [*numbers, self._right(str(row))]

    def _eliminate(self, index: str, carried: Sequence[str]) -> Sequence[str]:
        """Choose a pivot among the rows that wait and the next one; eliminate a column."""
        lines, one, r, size = self._lines, self._one, self._r, self._count + 1
        *waiting, usual = carried
        rows = [list(waiting[k * size : (k + 1) * size]) for k in range(self._lower)]
        row = lines.op(f"add i64 {index}, {self._lower}")
        following = []
        for k in range(self._count):
            column = index if not k else lines.op(f"add i64 {index}, {k}")
            following.append(self._element(row, column, self._count - 1 - k))
        rows.append([*following, self._right(row)])
        kinds = [one.kind] * self._count + [r.kind]
        greatest = one.called("fabs", rows[0][0])
        for k in range(1, len(rows)):
            other = one.called("fabs", rows[k][0])
            more = lines.op(f"fcmp ogt {one.kind} {other}, {greatest}")
            greatest = lines.op(f"select i1 {more}, {one.kind} {other}, {one.kind} {greatest}")
            for place, kind in enumerate(kinds):
                x, y = rows[0][place], rows[k][place]
                rows[0][place] = lines.op(f"select i1 {more}, {kind} {y}, {kind} {x}")
                rows[k][place] = lines.op(f"select i1 {more}, {kind} {x}, {kind} {y}")
        for flag in one.are_usual(greatest):
            usual = lines.op(f"and i1 {usual}, {flag}")
        pivot = rows[0]
        inverse = one.op("fdiv", one.number(1.0), pivot[0])
        target = one.row("%room", index, self._count + self._width)
        one.store(target, inverse)
        for k in range(1, self._count):
            one.store(one.at(target, k), pivot[k])
        r.store(one.at(target, self._count), pivot[-1])
        after: list[str] = []
        for below in rows[1:]:
            factor = one.op("fmul", below[0], inverse)
            for k in range(1, self._count):
                after.append(one.minus_product(factor, pivot[k], below[k]))
            after += [one.zero, r.minus_product(r.splat(factor), pivot[-1], below[-1])]
        return [*after, usual]

    # --------------------------------------------------------------------------------- substitution

    def _substitute(self, index: str, carried: Sequence[str]) -> Sequence[str]:
        """One row of the solutions, from the last on; the ones after it are carried."""
        lines, one, r = self._lines, self._one, self._r
        *solved, total = carried
        row = lines.op(f"sub i64 {lines.op(f'sub i64 %rows, {index}')}, 1")
        source = one.row("%room", row, self._count + self._width)
        x = r.load(one.at(source, self._count))
        for k, later in reversed(list(enumerate(solved, 1))):
            x = r.minus_product(r.splat(one.load_one(one.at(source, k))), later, x)
        x = r.op("fmul", x, r.splat(one.load_one(source)))
        r.store(r.row("%x", row, "%to"), x)
        return [*[x, *solved][: self._count - 1], r.plus_product(x, r.zero, total)]


TOGETHER: Final = 4
"""The vectors of right-hand sides that are gone through together."""


def long_substitution(
    module: NativeModule, vectors: int, width: int, has_unit_diagonal: bool, dtype: np.dtype[Any]
) -> str:
    """The function ``(matrix, its steps, right-hand sides, step, solutions, step, rows)``.

    The matrix is a lower triangle; there are some vectors of right-hand sides side by side. It
    returns whether all solutions are finite.
    """
    unit = "_unit" if has_unit_diagonal else ""
    name = f"substitute_long{unit}_{vectors}_{width}{dtype.char}"

    def write(lines: FunctionText) -> None:
        r, one = (FloatRegisters(lines, dtype, size, module.fuses) for size in (width, 1))

        def solve_row(row: str, totals: Sequence[str]) -> Sequence[str]:
            start, right = one.row("%a", row, "%row"), one.row("%b", row, "%from")
            sides = [r.load(r.at(right, v * width)) for v in range(vectors)]
            before = lines.block
            some, after = lines.fresh_label("some"), lines.fresh_label("solved")
            lines.branch(lines.op(f"icmp ne i64 {row}, 0"), some, after)
            lines.begin_block(some)

            def earlier(column: str, sums: Sequence[str]) -> Sequence[str]:
                factor = r.splat(one.load_one(one.row(start, column, "%column")))
                source = one.row("%x", column, "%to")
                return [
                    r.minus_product(factor, r.load(r.at(source, v * width)), sums[v])
                    for v in range(vectors)
                ]

            less = lines.counted(row, earlier, [(r.kind, side) for side in sides])
            end = lines.block
            lines.jump(after)
            lines.begin_block(after)
            solved = [
                lines.op(f"phi {r.kind} [{side}, %{before}], [{x}, %{end}]")
                for side, x in zip(sides, less, strict=True)
            ]
            if not has_unit_diagonal:
                pivot = r.splat(one.load_one(one.row(start, row, "%column")))
                solved = [r.op("fdiv", x, pivot) for x in solved]
            target = one.row("%x", row, "%to")
            for v, x in enumerate(solved):
                r.store(r.at(target, v * width), x)
            return [r.plus_product(x, r.zero, y) for x, y in zip(solved, totals, strict=True)]

        totals = lines.counted("%rows", solve_row, [(r.kind, r.zero)] * vectors)
        total = totals[0]
        for other in totals[1:]:
            total = r.op("fadd", total, other)
        lines.emit(f"ret i1 {r.are_zeros(total)}")

    parameters = "ptr %a, i64 %row, i64 %column, ptr %b, i64 %from, ptr %x, i64 %to, i64 %rows"
    return module.shared(f"i1 @{name}", parameters, write)
