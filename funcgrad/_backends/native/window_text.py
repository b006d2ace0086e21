"""Products of windows as text: convolutions, and their transposes, by products of panels.

The elements of a window lie at fixed distances from its first one. So the windows of all places
along an axis are rows of a matrix without a copy: tables tell where its rows begin. Rows of
places are joined to one long row; the sums between its lines are not read.

The text for each of the three arrays x, k and y computes it from the other two, see
``WindowProducts``. Each element is a sum in one order, wherever it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Final

from funcgrad._backends.native.call_text import call_back_at
from funcgrad._backends.native.floats import Floats, float_vectors
from funcgrad._backends.native.function_site import FunctionSite
from funcgrad._backends.native.instructions import Value
from funcgrad._backends.native.packed_products import DEPTH, panel_vectors, transposed_packing
from funcgrad._backends.native.views import repeated
from funcgrad._backends.native.window_places import WindowSizes, loops, place_of, strides_of
from funcgrad._backends.native.window_steps import WindowProduct
from funcgrad._backends.native.window_writer import WindowWriter

_ROWS: Final = 12
"""The rows of a part of a product that threads share: whole blocks of rows."""

_COPY: Final = 4
"""About how many products a vector takes that is stored, and moved to another place."""


def write_window_product(site: FunctionSite, step: WindowProduct) -> None:
    """Write sums of products of windows."""
    writers = {"x": _SpreadWriter, "k": _CorrelationWriter, "y": _ConvolutionWriter}
    windows = WindowSizes(step)
    site.work += windows.examples * windows.groups * windows.products
    writers[step.form.arrays[2]](site, step, windows).write()


class _ConvolutionWriter(WindowWriter):
    """Writes y: kernels times windows."""

    def write(self) -> None:
        """Write all products."""
        w = self.windows
        depth = w.channels * w.taps
        line, short = [-(-length // self.width) for length in (w.line, w.places[-1])]
        by_lines = w.line != w.count and (
            w.count // w.places[-1] * short * (depth - _COPY) <= line * depth
        )
        is_joined = not by_lines and w.line != w.count
        (taps,) = self.room(table=depth)
        self.note_taps(taps)
        scratch = {
            "phases": w.channels * w.channel if w.has_phases else 0,
            "out": w.filters * w.line if is_joined else 0,
        }

        def group(indices: list[str], rooms: list[str]) -> None:
            room, out = rooms
            x, k, y = [self.array(name, *indices) for name in "xky"]
            rows = self.divided(x, room)
            if not is_joined:
                self._write_lines(k, rows, taps, y, by_lines)
                return
            self._write_row(k, rows, taps, (out, w.line), w.line)
            dense = strides_of(w.places)
            strides = (w.line, *w.strides), (w.count, *dense)
            self.copy_lines(w.filters, out, y, strides)

        self.each_group([taps], scratch, group)

    def _write_lines(self, k: str, rows: str, taps: str, y: str, by_lines: bool) -> None:
        w, one = self.windows, self.one
        if not by_lines:
            self._write_row(k, rows, taps, (y, w.count), w.count)
            return

        def line(indices: list[str]) -> None:
            there = one.at(rows, place_of(self.lines, indices, w.strides[:-1]))
            here = one.at(y, place_of(self.lines, indices, strides_of(w.places)[:-1]))
            self._write_row(k, there, taps, (here, w.count), w.places[-1])

        loops(self.lines, w.places[:-1], line)

    def _write_row(self, k: str, rows: str, taps: str, out: tuple[str, int], size: int) -> None:
        w, one = self.windows, self.one
        depth = w.channels * w.taps

        def panel(first: str, vectors: int, last: int) -> None:
            target = one.at(out[0], first), out[1]
            right = one.at(rows, first), taps
            self.multiply((k, depth, 1), right, target, (w.filters, depth), (vectors, last))

        self.panels(size, panel)


class _SpreadWriter(WindowWriter):
    """Writes x: a window of y, with zeros around it, times kernels, for each place of x.

    A factor that is not finite times these zeros would be NaN, so NumPy does those.
    """

    def write(self) -> None:
        """Write all products."""
        w, lines = self.windows, self.lines
        kernel, wide = w.filters * w.channels * w.taps, w.reach + w.area
        is_padded = w.area != w.count
        beyond = lines.fresh_label("beyond")
        lines.leave_unless(self._is_finite(self.start("k"), w.groups * kernel), beyond)
        many = prod(w.phases)
        known = self.room(
            table_rows=w.taps * w.filters,
            table_columns=w.taps * w.filters,
            table_counts=many,
            table_starts=many,
            kernels=w.groups * kernel,
        )
        rows, columns, counts, starts, kernels = known
        scratch = {
            "padded": w.filters * wide if is_padded else 0,
            "out": w.channels * w.area if w.has_phases else 0,
        }
        self._note_phases(rows, columns, counts, starts, wide)

        def turn(group: str, _: Sequence[str]) -> Sequence[str]:
            size = w.filters, w.channels * w.taps
            self.packed(self.array("k", "0", group), size, self.one.row(kernels, group, kernel))
            return ()

        lines.counted(w.groups, turn)
        if w.has_phases and not w.fills_phases:
            self.site.clear(self.start("x"), self.site.plan.specs[self.step.variable])

        def clear(rooms: list[str]) -> None:
            size = str(w.filters * wide * self.dtype.itemsize)
            if is_padded:
                self.lines.call("ptr", "memset", ("ptr", rooms[0]), ("i32", "0"), ("i64", size))

        def group(indices: list[str], rooms: list[str]) -> None:
            (padded, out), lines = rooms, self.lines
            x, y = [self.array(name, *indices) for name in "xy"]
            factors = self.one.row(kernels, indices[1], kernel)
            if is_padded:
                strides = (w.count, *strides_of(w.places)), (wide, *w.strides)
                self.copy_lines(w.filters, y, self.one.at(padded, w.reach), strides)
                y = padded

            def phase(phases: list[str]) -> None:
                number = place_of(lines, phases, strides_of(w.phases))
                count, start = [
                    lines.op(f"load i64, ptr {lines.address(table, number, 'i64')}")
                    for table in (counts, starts)
                ]
                tables = [lines.address(table, start, "i64") for table in (rows, columns)]
                some = lines.op(f"icmp sgt i64 {count}, 0")
                lines.when(
                    some, lambda: self._write_phase(factors, tables, count, y, x, out, phases)
                )

            self.each_phase(phase)

        self.each_group(known, scratch, group, clear)
        call_back_at(self.site, self.step, beyond, "factors that are not finite")

    def _is_finite(self, place: str, count: int) -> str:
        """Whether all elements are finite."""
        lines = self.lines
        wide = float_vectors(lines, self.dtype, self.width)
        full = count // self.width * self.width
        totals: list[Value] = []
        for r, begin, end, step in ((wide, 0, full, self.width), (self.one, full, count, 1)):
            if begin < end:

                def add(index: str, total: list[Value], r: Floats = r) -> list[Value]:
                    return [total[0] + r.load(r.at(place, index)) * 0.0]

                first = [r.number(0.0)]
                (total,) = repeated(lines, end, add, first, step=step, start=begin)
                totals.append(r.are_zeros(total))
        truth = totals[0].text
        for other in totals[1:]:
            truth = lines.op(f"and i1 {truth}, {other.text}")
        return truth

    def _note_phases(self, rows: str, columns: str, counts: str, starts: str, wide: int) -> None:
        """Write for each phase which elements of kernels and which of y are multiplied."""
        w, lines = self.windows, self.lines
        reached = lines.room("i64", "0")

        def phase(phases: list[str]) -> None:
            number = place_of(lines, phases, strides_of(w.phases))
            first = lines.op(f"load i64, ptr {reached}")
            self.note(starts, number, first)

            def tap(indices: list[str]) -> None:
                others, place = self.tap(indices)
                is_there = "true"
                for one, other, many in zip(phases, others, w.phases, strict=True):
                    if many > 1:
                        same = lines.op(f"icmp eq i64 {one}, {other}")
                        is_there = lines.op(f"and i1 {is_there}, {same}")
                lines.when(is_there, partial(note, indices, place))

            def note(indices: list[str], place: str) -> None:
                start = lines.op(f"load i64, ptr {reached}")
                back = lines.op(f"sub i64 {w.reach}, {place}")
                column = place_of(lines, indices, [n * w.filters for n in strides_of(w.sizes)])

                def one(index: str, _: Sequence[str]) -> Sequence[str]:
                    entry = lines.op(f"add i64 {start}, {index}")
                    self.note(rows, entry, place_of(lines, [index, back], [wide, 1]))
                    self.note(columns, entry, lines.op(f"add i64 {column}, {index}"))
                    return ()

                lines.counted(w.filters, one)
                after = lines.op(f"add i64 {start}, {w.filters}")
                lines.emit(f"store i64 {after}, ptr {reached}")

            loops(lines, w.sizes, tap)
            last = lines.op(f"load i64, ptr {reached}")
            self.note(counts, number, lines.op(f"sub i64 {last}, {first}"))

        self.each_phase(phase)

    def _write_phase(
        self,
        factors: str,
        tables: Sequence[str],
        count: str,
        y: str,
        x: str,
        out: str,
        phases: Sequence[str],
    ) -> None:
        w, one = self.windows, self.one
        target = out if w.has_phases else x
        across: int | str = tables[1] if w.has_phases else 1
        begin, end = self.step.span or (0, w.area)

        def panel(number: str, vectors: int, last: int) -> None:
            first = self.lines.op(f"add i64 {number}, {begin}") if begin else number
            left = factors, w.taps * w.filters, across
            right, result = (one.at(y, first), tables[0]), (one.at(target, first), w.area)
            self.multiply(left, right, result, (w.channels, count), (vectors, last))

        self.panels(end - begin, panel)
        if not w.has_phases:
            return

        def channel(index: str, _: Sequence[str]) -> Sequence[str]:
            source, place = one.row(out, index, w.area), one.row(x, index, prod(w.space))

            def line(there: str, here: str, length: str) -> None:
                steps = 1, w.moves[-1]
                self.move(one.at(source, here), one.at(place, there), length, steps)

            self.phase_lines(phases, line)
            return ()

        self.lines.counted(w.channels, channel)


class _CorrelationWriter(WindowWriter):
    """Writes k: windows times y, whose filters are the columns of panels."""

    def write(self) -> None:
        """Write all products."""
        w, lines = self.windows, self.lines
        depth, block = w.channels * w.taps, min(w.count, DEPTH)
        columns = min(panel_vectors(self.site.module), -(-w.filters // self.width)) * self.width
        taps, places, out = self.room(
            table_taps=depth, table_places=w.count, out=depth * w.filters if w.filters > 1 else 0
        )
        scratch = {
            "phases": w.channels * w.channel if w.has_phases else 0,
            "panel": block * columns,
        }
        self.note_taps(taps)

        def place(indices: list[str]) -> None:
            number = place_of(lines, indices, strides_of(w.places))
            self.note(places, number, place_of(lines, indices, w.strides))

        loops(lines, w.places, place)

        def group(index: str, _: Sequence[str]) -> Sequence[str]:
            firsts = [self.array(name, "0", index) for name in "xy"]
            k = self.array("k", "0", index)
            target = out if w.filters > 1 else k

            def some(begin: str | int, end: str | int, rooms: list[str]) -> None:
                size = str(block * columns * self.dtype.itemsize)
                self.lines.call("ptr", "memset", ("ptr", rooms[1]), ("i32", "0"), ("i64", size))
                rows = self._rows(taps, target, begin, end)

                def example(number: str, _: Sequence[str]) -> Sequence[str]:
                    x, y = [
                        self.one.row(first, number, w.groups * size)
                        for first, size in zip(firsts, w.group_sizes, strict=True)
                    ]
                    divided = self.divided(x, rooms[0])
                    self._write_example(divided, y, rows, (places, rooms[1]), number)
                    return ()

                self.lines.counted(w.examples, example)

            known = [taps, places, target, *firsts]
            self.shared(-(-depth // _ROWS), known, scratch, some, ranges=1)
            if w.filters > 1:
                self.packed(out, (depth, w.filters), k)
            return ()

        lines.counted(w.groups, group)

    def _rows(
        self, taps: str, target: str, begin: str | int, end: str | int
    ) -> tuple[str, str, str | int]:
        """The table and the results of a range of rows that a thread does, and how many."""
        w, lines = self.windows, self.lines
        depth = w.channels * w.taps
        if isinstance(begin, int):
            return taps, target, depth
        first, full = [lines.op(f"mul i64 {place}, {_ROWS}") for place in (begin, end)]
        last = lines.call("i64", "llvm.smin.i64", ("i64", full), ("i64", str(depth)))
        count = lines.op(f"sub i64 {last}, {first}")
        return lines.address(taps, first, "i64"), self.one.row(target, first, w.filters), count

    def _write_example(
        self, x: str, y: str, rows: tuple[str, str, str | int], tables: tuple[str, str], number: str
    ) -> None:
        w, lines, one = self.windows, self.lines, self.one
        (taps, target, depth), (places, panel) = rows, tables
        function = transposed_packing(self.site.module, self.dtype)

        def columns(first: str, vectors: int, last: int) -> None:
            wide = vectors * self.width

            def block(length: int, start: str, _: Sequence[str]) -> Sequence[str]:
                source = one.at(one.row(y, first, w.count), start)
                for v in range(vectors):
                    count = self.width if v < vectors - 1 else last
                    here = v * self.width
                    rows, to = one.at(source, here * w.count), one.at(panel, here)
                    lines.emit(
                        f"call void @{function}(ptr {rows}, i64 {w.count}, i64 {length}, i64"
                        f" {count}, ptr {to}, i64 {wide})"
                    )
                is_later = lines.op(f"or i64 {number}, {start}")
                more = lines.op(f"icmp ne i64 {is_later}, 0")
                left = x, taps, lines.address(places, start, "i64")
                out = one.at(target, first), w.filters
                size = depth, length
                self.multiply(left, (panel, wide), out, size, (vectors, last), more, is_packed=True)
                return ()

            full = w.count // DEPTH * DEPTH
            if full:
                lines.counted(full, partial(block, DEPTH), step=DEPTH)
            if full < w.count:
                block(w.count - full, str(full), ())

        self.panels(w.filters, columns)
