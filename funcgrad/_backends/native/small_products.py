"""Products of small matrices, written out: a row of the result is a vector in a register."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from funcgrad._backends.native.float_registers import FloatRegisters
from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.native_module import NativeModule

_MOST_FACTORS: Final = 64
"""The most numbers of the first matrix."""


def is_small(rows: int, length: int, columns: int, dtype: np.dtype[Any]) -> bool:
    """Whether a product is written out."""
    return rows * length <= _MOST_FACTORS and 1 < columns <= 64 // dtype.itemsize


def small_product(
    module: NativeModule,
    sizes: tuple[int, int, int],
    has_rows: bool,
    dtype: np.dtype[Any],
) -> str:
    """The function ``(matrix, its steps, matrix, its steps, result)``, which lies in C order.

    Parameters
    ----------
    module : NativeModule
    sizes : tuple of int
        Rows, length of sums, columns.
    has_rows : bool
        Whether the elements of a row of the second matrix lie side by side.
    dtype : dtype
    """
    rows, length, columns = sizes
    kind = "" if has_rows else "_turned"
    name = f"multiply{kind}_{rows}_{length}_{columns}{dtype.char}"

    def write(lines: FunctionText) -> None:
        r, one = (FloatRegisters(lines, dtype, size, module.fuses) for size in (columns, 1))
        seconds = []
        for k in range(length):
            start = r.row("%b", k, "%row")
            if has_rows:
                seconds.append(r.load(start))
                continue
            second = r.zero
            for j in range(columns):
                second = r.with_lane(second, j, one.load_one(one.row(start, j, "%column")))
            seconds.append(second)
        for i in range(rows):
            start, total = one.row("%a", i, "%along"), r.zero
            for k in range(length):
                factor = r.splat(one.load_one(one.row(start, k, "%across")))
                total = r.plus_product(factor, seconds[k], total)
            r.store(r.at("%o", i * columns), total)
        lines.emit("ret void")

    parameters = "ptr %a, i64 %along, i64 %across, ptr %b, i64 %row, i64 %column, ptr %o"
    return module.shared(f"void @{name}", parameters, write)
