"""Products of matrices: panels of columns, in blocks of rows that are summed in registers.

A *panel* is a few vectors of columns of the second matrix, side by side. Where columns of that lie
side by side in memory, it is packed first: its rows then lie one behind the other, and a block of
them fits into the second cache. Elements of the first matrix are read one by one, with any strides.

Each element is a sum in the order of the summed axis, of large products in blocks of ``DEPTH``:
wherever an element stands, its bits are the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from funcgrad._backends.native.floats import Floats, float_vectors
from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.instructions import Value
from funcgrad._backends.native.lanes import Lanes
from funcgrad._backends.native.native_module import NativeModule
from funcgrad._backends.native.views import repeated

_PLACE: Final = np.dtype(np.int32)

DEPTH: Final = 384
"""The rows of a panel that are summed, or packed, at once."""


def vector_width(module: NativeModule, dtype: np.dtype[Any]) -> int:
    """The elements of a register."""
    return module.bits // 8 // dtype.itemsize


def panel_vectors(module: NativeModule) -> int:
    """The vectors of a whole panel: processors of 512 bits have 32 registers, others 16."""
    return 4 if module.bits >= 512 else 2


def _block_rows(module: NativeModule, vectors: int) -> int:
    """The rows that are summed at once, so that sums and operands have registers."""
    if module.bits >= 512:
        return {1: 12, 2: 12, 3: 8, 4: 6}[vectors]
    return {1: 8, 2: 6}[vectors]


def _mask(m: Lanes, columns: str) -> str:
    """Truth values: the lanes of the last vector that are columns."""
    count = m.single.astype(Value(columns, np.dtype(np.int64), m.single), _PLACE)
    return (m.splat(count) > m.listed(range(m.width), _PLACE)).text


class _Rows:
    """Reads and writes rows of some vectors; the last vector may have fewer columns."""

    def __init__(self, r: Floats, count: int, mask: str) -> None:
        self._r = r
        self._places = [(k * r.lanes.width, "") for k in range(count - 1)]
        self._places.append(((count - 1) * r.lanes.width, mask))

    def load(self, row: str) -> list[Value]:
        """Read a row."""
        return [self._r.load(self._r.at(row, place), mask) for place, mask in self._places]

    def store(self, row: str, values: Sequence[Value]) -> None:
        """Write a row."""
        for (place, mask), value in zip(self._places, values, strict=True):
            self._r.store(self._r.at(row, place), value, mask)


def panel_product(
    module: NativeModule,
    count: int,
    is_part: bool,
    is_packed: bool,
    dtype: np.dtype[Any],
    tables: Sequence[str] = (),
) -> str:
    """The function that multiplies a matrix and a panel.

    Its arguments are the first matrix and its steps along rows and columns, the panel and its step
    from row to row, the result and its step, the rows of the result, the length of the sums, the
    columns in the last vector, and whether the products are added to the result. Windows of arrays
    have no such steps: for them tables tell how far all rows and columns lie from the first.

    Parameters
    ----------
    module : NativeModule
    count : int
        The vectors of the panel.
    is_part : bool
        Whether the last vector has fewer columns.
    is_packed : bool
        Whether all of the panel can be read nevertheless.
    dtype : dtype
    tables : sequence of str
        Which of the steps ``along``, ``across`` and ``from`` are the addresses of tables.
    """
    kind = ("_part" if is_part else "") + ("_packed" if is_part and is_packed else "")
    kind += "".join([f"_{name}" for name in tables])
    along, across, step = ["ptr" if n in tables else "i64" for n in ("along", "across", "from")]
    parameters = (
        f"ptr %a, {along} %along, {across} %across, ptr %b, {step} %from, ptr %o, i64 %to,"
        " i64 %rows, i64 %length, i64 %columns, i1 %more"
    )

    def write(lines: FunctionText) -> None:
        r = float_vectors(lines, dtype, vector_width(module, dtype))
        mask = _mask(r.lanes, "%columns") if is_part else ""
        panel, out = _Rows(r, count, "" if is_packed else mask), _Rows(r, count, mask)
        _BlockWriter(r, count, panel, out, tables).write_all(_block_rows(module, count))

    return module.shared(f"void @panel{kind}_{count}{dtype.char}", parameters, write)


class _BlockWriter:
    """Writes sums of products for blocks of rows."""

    def __init__(
        self, r: Floats, count: int, panel: _Rows, out: _Rows, tables: Sequence[str]
    ) -> None:
        self._r, self._count, self._panel, self._out = r, count, panel, out
        self._tables = tables

    def _offset(self, index: str, name: str) -> str:
        """How many elements a row or a column lies behind the first one."""
        lines = self._r.lanes.lines
        if name not in self._tables:
            return lines.op(f"mul i64 {index}, %{name}")
        return lines.op(f"load i64, ptr {lines.address(f'%{name}', index, 'i64')}")

    def _starts(self, rows: int, first: str) -> list[str]:
        """Where rows of the first matrix begin."""
        r, lines = self._r, self._r.lanes.lines
        if "along" in self._tables:
            numbers = [lines.op(f"add i64 {first}, {i}") for i in range(rows)]
            return [r.at("%a", self._offset(number, "along")) for number in numbers]
        start = r.row("%a", first, "%along")
        return [r.row(start, i, "%along") for i in range(rows)]

    def write_all(self, most: int) -> None:
        """Write the loop over whole blocks, then blocks of 8, 4, 2 and 1 rows."""
        lines = self._r.lanes.lines
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
        r, lines, count = self._r, self._r.lanes.lines, self._count
        starts = self._starts(rows, first)

        def step(k: str, sums: Sequence[Value]) -> Sequence[Value]:
            columns = self._panel.load(r.at("%b", self._offset(k, "from")))
            offset, after = self._offset(k, "across"), []
            for i in range(rows):
                factor = r.lanes.splat(r.single.load(r.at(starts[i], offset)))
                after += [r.fma(factor, columns[v], sums[i * count + v]) for v in range(count)]
            return after

        sums = repeated(lines, "%length", step, [r.number(0.0)] * (rows * count))
        target = r.row("%o", first, "%to")
        targets = [r.row(target, i, "%to") for i in range(rows)]
        parts = [sums[i * count : (i + 1) * count] for i in range(rows)]

        def store(adds: bool) -> None:
            for row, values in zip(targets, parts, strict=True):
                before = self._out.load(row) if adds else []
                added = [x + y for x, y in zip(before, values, strict=False)]
                self._out.store(row, added or values)

        lines.when("%more", partial(store, True), partial(store, False))


def transposed_packing(module: NativeModule, dtype: np.dtype[Any]) -> str:
    """The function ``(columns, their step, length, how many, panel, step of its rows)``.

    Columns lie side by side in memory. Squares are transposed in registers; the last columns, if
    there are fewer than a vector has, and the last rows go number by number.
    """
    name = f"pack_transposed{dtype.char}"
    width = vector_width(module, dtype)

    def write(lines: FunctionText) -> None:
        r = float_vectors(lines, dtype, width)
        one = r.single
        whole = lines.op(f"sdiv i64 %length, {width}")
        full = lines.op(f"mul i64 {whole}, {width}")
        is_full = lines.op(f"icmp eq i64 %columns, {width}")
        some = lines.op(f"icmp ne i64 {whole}, 0")

        def square(k: str, _: Sequence[str]) -> Sequence[str]:
            start = one.at("%b", k)
            rows = [r.load(one.row(start, i, "%step")) for i in range(width)]
            target = one.row("%o", k, "%to")
            for i, row in enumerate(_transposed(r, rows)):
                r.store(one.row(target, i, "%to"), row)
            return ()

        in_squares = lines.op(f"and i1 {is_full}, {some}")
        lines.when(in_squares, lambda: lines.counted(full, square, step=width))
        start_row = lines.op(f"select i1 {in_squares}, i64 {full}, i64 0")

        def column(j: str, _: Sequence[str]) -> Sequence[str]:
            start, target = one.row("%b", j, "%step"), one.at("%o", j)

            def number(k: str, _: Sequence[str]) -> Sequence[str]:
                one.store(one.row(target, k, "%to"), one.load(one.at(start, k)))
                return ()

            lines.counted("%length", number, start=start_row)
            return ()

        is_left = lines.op(f"icmp slt i64 {start_row}, %length")
        lines.when(is_left, lambda: lines.counted("%columns", column))
        lines.emit("ret void")

    parameters = "ptr %b, i64 %step, i64 %length, i64 %columns, ptr %o, i64 %to"
    return module.shared(f"void @{name}", parameters, write)


def _transposed(r: Floats, rows: list[Value]) -> list[Value]:
    """A square of vectors, transposed: lanes change places with rows, half by half."""
    width = r.lanes.width
    distance = width // 2
    while distance:
        for i in range(width):
            if i & distance:
                continue
            lanes = range(width)
            low = [k if not k & distance else width + k - distance for k in lanes]
            high = [k + distance if not k & distance else width + k for k in lanes]
            x, y = rows[i], rows[i + distance]
            rows[i], rows[i + distance] = [r.lanes.shuffled(x, places, y) for places in (low, high)]
        distance //= 2
    return rows
