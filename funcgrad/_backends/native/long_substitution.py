"""Substitution in triangles of any number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from funcgrad._backends.native.float_registers import FloatRegisters
from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.native_module import NativeModule

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
