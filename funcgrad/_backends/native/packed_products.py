"""Products of matrices: panels of columns, in blocks of rows that are summed in registers.

A *panel* is a few vectors of columns of the second matrix, side by side. Where columns of that lie
side by side in memory, it is packed first: its rows, of which a block fits into the second cache,
lie one behind the other. Numbers of the first matrix come one by one, so that may lie in memory as
it likes.

Each element is a sum in the order of the summed axis, of large products in blocks of ``DEPTH``:
wherever an element stands, its bits are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from funcgrad._backends.native.float_registers import FloatRegisters
from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.native_module import NativeModule

DEPTH: Final = 384
"""The rows of a panel that are summed, or packed, at once."""


def vector_width(module: NativeModule, dtype: np.dtype[Any]) -> int:
    """The numbers of a register."""
    return module.bits // 8 // dtype.itemsize


def panel_vectors(module: NativeModule) -> int:
    """The vectors of a whole panel: processors of 512 bits have 32 registers, others 16."""
    return 4 if module.bits >= 512 else 2


def _block_rows(module: NativeModule, vectors: int) -> int:
    """The rows that are summed at once, so that sums and operands have registers."""
    if module.bits >= 512:
        return {1: 12, 2: 12, 3: 8, 4: 6}[vectors]
    return {1: 8, 2: 6}[vectors]


def _mask(r: FloatRegisters, columns: str) -> str:
    """Truth values: the lanes of the last vector that are columns."""
    lines, width = r.lines, r.width
    count = lines.op(f"trunc i64 {columns} to i32")
    first = lines.op(f"insertelement <{width} x i32> poison, i32 {count}, i32 0")
    counts = lines.op(
        f"shufflevector <{width} x i32> {first}, <{width} x i32> poison,"
        f" <{width} x i32> zeroinitializer"
    )
    places = ", ".join([f"i32 {k}" for k in range(width)])
    return lines.op(f"icmp sgt <{width} x i32> {counts}, <{places}>")


class _Rows:
    """Reads and writes rows of some vectors, of which the last may have fewer columns."""

    def __init__(self, r: FloatRegisters, vectors: int, mask: str | None) -> None:
        self._r, self._vectors, self._mask = r, vectors, mask

    def load(self, row: str) -> list[str]:
        """Read a row."""
        r, values = self._r, []
        for k in range(self._vectors):
            place = r.at(row, k * r.width)
            some = self._mask is not None and k == self._vectors - 1
            values.append(r.load_some(place, str(self._mask)) if some else r.load(place))
        return values

    def store(self, row: str, values: Sequence[str]) -> None:
        """Write a row."""
        r = self._r
        for k, value in enumerate(values):
            place = r.at(row, k * r.width)
            if self._mask is not None and k == self._vectors - 1:
                r.store_some(place, value, self._mask)
            else:
                r.store(place, value)


def panel_product(
    module: NativeModule, vectors: int, is_part: bool, is_packed: bool, dtype: np.dtype[Any]
) -> str:
    """The function that multiplies a matrix and a panel.

    Its arguments are the first matrix and its steps along rows and columns, the panel and its step
    from row to row, the result and its step, the rows of the result, the length of the sums, the
    columns in the last vector, and whether the products are added to what the result holds.

    Parameters
    ----------
    module : NativeModule
    vectors : int
    is_part : bool
        Whether the last vector has fewer columns.
    is_packed : bool
        Whether all of the panel can be read nevertheless.
    dtype : dtype
    """
    kind = ("_part" if is_part else "") + ("_packed" if is_part and is_packed else "")
    parameters = (
        "ptr %a, i64 %along, i64 %across, ptr %b, i64 %from, ptr %o, i64 %to, i64 %rows,"
        " i64 %length, i64 %columns, i1 %more"
    )

    def write(lines: FunctionText) -> None:
        r = FloatRegisters(lines, dtype, vector_width(module, dtype), module.fuses)
        mask = _mask(r, "%columns") if is_part else None
        panel, out = _Rows(r, vectors, None if is_packed else mask), _Rows(r, vectors, mask)
        _BlockWriter(r, vectors, panel, out).write_all(_block_rows(module, vectors))

    return module.shared(f"void @panel{kind}_{vectors}{dtype.char}", parameters, write)


class _BlockWriter:
    """Writes sums of products for blocks of rows."""

    def __init__(self, r: FloatRegisters, vectors: int, panel: _Rows, out: _Rows) -> None:
        self._r, self._vectors, self._panel, self._out = r, vectors, panel, out

    def write_all(self, most: int) -> None:
        """Write the loop over whole blocks, then blocks of 8, 4, 2 and 1 rows."""
        lines = self._r.lines
        whole = lines.op(f"udiv i64 %rows, {most}")
        done = lines.op(f"mul i64 {whole}, {most}")
        left = lines.op(f"sub i64 %rows, {done}")

        def whole_block(index: str, _: Sequence[str]) -> Sequence[str]:
            self._write(most, index)
            return ()

        def blocks() -> None:
            lines.counted(done, whole_block, step=most)

        lines.when(lines.op(f"icmp ugt i64 {whole}, 0"), blocks)
        rows = 1 << (most - 1).bit_length() - 1
        while rows:
            bit = lines.op(f"and i64 {left}, {rows}")
            lines.when(lines.op(f"icmp ne i64 {bit}, 0"), partial(self._write, rows, done))
            done = lines.op(f"add i64 {done}, {bit}")
            rows //= 2
        lines.emit("ret void")

    def _write(self, rows: int, first: str) -> None:
        """Sum products for some rows from one on."""
        r, lines, vectors = self._r, self._r.lines, self._vectors
        start = r.row("%a", first, "%along")
        starts = [r.row(start, i, "%along") for i in range(rows)]

        def step(k: str, sums: Sequence[str]) -> Sequence[str]:
            columns = self._panel.load(r.row("%b", k, "%from"))
            offset, after = lines.op(f"mul i64 {k}, %across"), []
            for i in range(rows):
                factor = r.splat(r.load_one(r.at(starts[i], offset)))
                for v in range(vectors):
                    after.append(r.plus_product(factor, columns[v], sums[i * vectors + v]))
            return after

        sums = lines.counted("%length", step, [(r.kind, r.zero)] * (rows * vectors))
        target = r.row("%o", first, "%to")
        targets = [r.row(target, i, "%to") for i in range(rows)]
        parts = [sums[i * vectors : (i + 1) * vectors] for i in range(rows)]
        more, only, stored = [lines.fresh_label(word) for word in ("more", "only", "stored")]
        lines.branch("%more", more, only)
        lines.begin_block(more)
        for row, values in zip(targets, parts, strict=True):
            before = self._out.load(row)
            added = [r.op("fadd", x, y) for x, y in zip(before, values, strict=True)]
            self._out.store(row, added)
        lines.jump(stored)
        lines.begin_block(only)
        for row, values in zip(targets, parts, strict=True):
            self._out.store(row, values)
        lines.jump(stored)
        lines.begin_block(stored)


def transposed_packing(module: NativeModule, dtype: np.dtype[Any]) -> str:
    """The function ``(columns, their step, length, how many, panel, step of its rows)``.

    Columns lie side by side in memory. Squares are transposed in registers; the last columns, if
    there are fewer than a vector has, and the last rows go number by number.
    """
    name = f"pack_transposed{dtype.char}"
    width = vector_width(module, dtype)

    def write(lines: FunctionText) -> None:
        r = FloatRegisters(lines, dtype, width, module.fuses)
        one = FloatRegisters(lines, dtype, 1, module.fuses)
        whole = lines.op(f"sdiv i64 %length, {width}")
        full = lines.op(f"mul i64 {whole}, {width}")
        is_full = lines.op(f"icmp eq i64 %columns, {width}")
        some = lines.op(f"icmp ne i64 {whole}, 0")
        squares, single = lines.fresh_label("squares"), lines.fresh_label("single")
        entered = lines.block
        lines.branch(lines.op(f"and i1 {is_full}, {some}"), squares, single)
        lines.begin_block(squares)

        def square(k: str, _: Sequence[str]) -> Sequence[str]:
            start = one.at("%b", k)
            rows = [r.load(one.row(start, i, "%step")) for i in range(width)]
            target = one.row("%o", k, "%to")
            for i, row in enumerate(_transposed(r, rows)):
                r.store(one.row(target, i, "%to"), row)
            return ()

        lines.counted(full, square, step=width)
        ended = lines.block
        lines.jump(single)
        lines.begin_block(single)
        start_row = lines.op(f"phi i64 [0, %{entered}], [{full}, %{ended}]")
        any_left, done = lines.fresh_label("left"), lines.fresh_label("done")
        lines.branch(lines.op(f"icmp slt i64 {start_row}, %length"), any_left, done)
        lines.begin_block(any_left)

        def column(j: str, _: Sequence[str]) -> Sequence[str]:
            start, target = one.row("%b", j, "%step"), one.at("%o", j)

            def number(k: str, _: Sequence[str]) -> Sequence[str]:
                one.store(one.row(target, k, "%to"), one.load(one.at(start, k)))
                return ()

            lines.counted("%length", number, start=start_row)
            return ()

        lines.counted("%columns", column)
        lines.jump(done)
        lines.begin_block(done)
        lines.emit("ret void")

    parameters = "ptr %b, i64 %step, i64 %length, i64 %columns, ptr %o, i64 %to"
    return module.shared(f"void @{name}", parameters, write)


def _transposed(r: FloatRegisters, rows: list[str]) -> list[str]:
    """A square of vectors, transposed: lanes change places with rows, half by half."""
    width, distance = r.width, r.width // 2
    while distance:
        for i in range(width):
            if i & distance:
                continue
            lanes = range(width)
            low = [k if not k & distance else width + k - distance for k in lanes]
            high = [k + distance if not k & distance else width + k for k in lanes]
            x, y = rows[i], rows[i + distance]
            rows[i], rows[i + distance] = r.shuffled(x, y, low), r.shuffled(x, y, high)
        distance //= 2
    return rows
