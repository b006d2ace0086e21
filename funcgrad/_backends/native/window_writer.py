"""Tables of places, copies, and products of panels: the text that all products of windows share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import accumulate
from math import prod
from typing import Final

from funcgrad._backends.native.floats import Floats, float_vectors
from funcgrad._backends.native.function_site import RANGES, FunctionSite
from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.indexed_text import in_vectors
from funcgrad._backends.native.lanes import Lanes
from funcgrad._backends.native.packed_products import (
    panel_product,
    panel_vectors,
    transposed_packing,
    vector_width,
)
from funcgrad._backends.native.window_places import WindowSizes, loops, place_of, strides_of
from funcgrad._backends.native.window_steps import WindowProduct
from funcgrad._core.specs import Shape

BYTES: Final = 400
"""The bytes of factors that are multiplied in a nanosecond."""


class WindowWriter:
    """Writes the loops around products of panels."""

    def __init__(self, site: FunctionSite, step: WindowProduct, windows: WindowSizes) -> None:
        self.site, self.step, self.windows = site, step, windows
        self.dtype = site.plan.specs[step.variable].dtype
        self.width = vector_width(site.module, self.dtype)
        self._rooms: dict[str, int] = {}

    @property
    def lines(self) -> FunctionText:
        """The function that is written."""
        return self.site.lines

    @property
    def one(self) -> Floats:
        """Arithmetic on scalars."""
        return float_vectors(self.lines, self.dtype, 1)

    def start(self, name: str) -> str:
        """The address of one of the arrays."""
        if name == self.step.form.arrays[2]:
            return self.site.pointer(self.step.variable)
        place = self.step.form.arrays.index(name)
        return self.site.at(self.step.equation.operands[place])

    def room(self, **elements: int) -> list[str]:
        """Memory for some tables of integers, whose names begin with "table", and for floats."""
        first = self.site.scratch(self.bytes_of(elements))
        return self.rooms(first, elements)

    def bytes_of(self, elements: Mapping[str, int]) -> int:
        """The bytes of memory for tables and floats."""
        return sum(self._sizes(elements))

    def rooms(self, first: str, elements: Mapping[str, int]) -> list[str]:
        """Where tables and floats lie in memory."""
        sizes = self._sizes(elements)
        return [self.lines.address(first, begin) for begin in accumulate([0, *sizes[:-1]])]

    def _sizes(self, elements: Mapping[str, int]) -> list[int]:
        return [
            -(-count * (8 if name.startswith("table") else self.dtype.itemsize) // 64) * 64
            for name, count in elements.items()
        ]

    def shared(
        self,
        count: int,
        known: Sequence[str],
        scratch: Mapping[str, int],
        body: Callable[[str | int, str | int, list[str]], None],
        ranges: int = RANGES,
    ) -> None:
        """Write work on places, which threads share if that pays.

        Parameters
        ----------
        count : int
            The number of places.
        known : sequence of str
            Addresses that the work needs.
        scratch : mapping
            The memory that each thread needs, as for ``room``.
        body : callable
            Writes the work from a place to another one, given addresses of this memory.
        ranges : int
        """
        w, site, size = self.windows, self.site, self.bytes_of(scratch)

        def work(begin: str | int, end: str | int) -> None:
            first = site.shared_scratch(size) if size else "null"
            body(begin, end, self.rooms(first, scratch))

        products = w.examples * w.groups * w.products
        if count > 1 and site.is_shared(products * self.dtype.itemsize / BYTES):
            write = partial(work, "%begin", "%end")
            site.share(self.step, count, write, ranges, known, scratch=size)
        else:
            work(0, count)

    def each_group(
        self,
        known: Sequence[str],
        scratch: Mapping[str, int],
        body: Callable[[list[str], list[str]], None],
        prepare: Callable[[list[str]], object] = lambda rooms: None,
    ) -> None:
        """Write loops over examples and groups, which threads share if that pays."""
        groups = self.windows.groups

        def some(begin: str | int, end: str | int, rooms: list[str]) -> None:
            lines = self.lines
            prepare(rooms)

            def group(index: str, _: Sequence[str]) -> Sequence[str]:
                numbers = [lines.op(f"{word} i64 {index}, {groups}") for word in ("udiv", "urem")]
                body(numbers, rooms)
                return ()

            lines.counted(end, group, start=begin)

        self.shared(self.windows.examples * groups, known, scratch, some)

    def write(self) -> None:
        """Write all products."""
        raise NotImplementedError

    # --------------------------------------------------------------------------------------- tables

    def note(self, table: str, place: str, value: str) -> None:
        """Write an entry of a table."""
        self.lines.emit(f"store i64 {value}, ptr {self.lines.address(table, place, 'i64')}")

    def tap(self, indices: Sequence[str]) -> tuple[list[str], str]:
        """The phase of an element of a window, and its place there."""
        w, lines = self.windows, self.lines
        phases, steps = [], []
        for index, dilation, move in zip(indices, w.dilations, w.moves, strict=True):
            far = lines.times(index, dilation)
            phases.append("0" if move == 1 else lines.op(f"urem i64 {far}, {move}"))
            steps.append(far if move == 1 else lines.op(f"udiv i64 {far}, {move}"))
        return phases, place_of(lines, steps, w.strides)

    def note_taps(self, table: str) -> None:
        """Write the table of the elements of windows, in all channels of a group."""
        w, lines = self.windows, self.lines

        def one(indices: list[str]) -> None:
            phases, place = self.tap(indices[1:])
            strides = [w.channel, *w.phase_strides, 1]
            number = place_of(lines, indices, [w.taps, *strides_of(w.sizes)])
            self.note(table, number, place_of(lines, [indices[0], *phases, place], strides))

        loops(lines, [w.channels, *w.sizes], one)

    # --------------------------------------------------------------------------------------- copies

    def copy(self, source: str, target: str, count: int) -> None:
        """Write a copy of elements side by side."""

        def one(lanes: Lanes, index: str) -> None:
            lanes.store(target, lanes.load(source, self.dtype, index), index)

        in_vectors(self.site, count, self.dtype.itemsize, one)

    def move(self, source: str, target: str, count: str, steps: tuple[int, int]) -> None:
        """Write a copy of elements with steps; there may be none."""
        lines, one = self.lines, self.one

        def number(index: str, _: Sequence[str]) -> Sequence[str]:
            value = one.load(one.row(source, index, steps[0]))
            one.store(one.row(target, index, steps[1]), value)
            return ()

        some = lines.op(f"icmp sgt i64 {count}, 0")
        lines.when(some, lambda: lines.counted(count, number))

    def copy_lines(self, rows: int, source: str, target: str, strides: Sequence[Shape]) -> None:
        """Write a copy of lines of places, whose rows and axes have strides here and there."""
        w, one = self.windows, self.one

        def line(indices: list[str]) -> None:
            here, there = [place_of(self.lines, indices, along[:-1]) for along in strides]
            self.copy(one.at(source, here), one.at(target, there), w.places[-1])

        loops(self.lines, [rows, *w.places[:-1]], line)

    def each_phase(self, body: Callable[[list[str]], None]) -> None:
        """Write loops over phases."""
        loops(self.lines, self.windows.phases, body)

    def phase_lines(self, phases: Sequence[str], body: Callable[[str, str, str], None]) -> None:
        """Write loops over lines of a phase: their places in x and in the phase, their lengths."""
        w, lines = self.windows, self.lines

        def limit(axis: int) -> str:
            last = lines.op(f"sub i64 {w.space[axis] + w.moves[axis] - 1}, {phases[axis]}")
            return lines.op(f"udiv i64 {last}, {w.moves[axis]}")

        axes, dense = range(len(w.space)), strides_of(w.space)
        start = place_of(lines, phases, dense)

        def line(indices: list[str]) -> None:
            far = [stride * move for stride, move in zip(dense, w.moves, strict=True)]
            offset = place_of(lines, [start, *indices], [1, *far[:-1]])
            body(offset, place_of(lines, indices, w.strides[:-1]), length)

        limits = [limit(axis) for axis in axes]
        length = limits.pop()
        loops(lines, limits, line)

    def divided(self, x: str, room: str) -> str:
        """Where the channels of a group of an example lie, divided into phases if need be."""
        w, one = self.windows, self.one
        if not w.has_phases:
            return x

        def channel(index: str, _: Sequence[str]) -> Sequence[str]:
            source = one.row(x, index, prod(w.space))
            target = one.row(room, index, w.channel)

            def phase(phases: list[str]) -> None:
                place = one.at(target, place_of(self.lines, phases, w.phase_strides))

                def line(there: str, here: str, count: str) -> None:
                    steps = w.moves[-1], 1
                    self.move(one.at(source, there), one.at(place, here), count, steps)

                self.phase_lines(phases, line)

            self.each_phase(phase)
            return ()

        self.lines.counted(w.channels, channel)
        return room

    def packed(self, rows: str, size: tuple[int, int], target: str) -> None:
        """Write the transpose of a matrix."""
        lines, one, (count, length) = self.lines, self.one, size
        function = transposed_packing(self.site.module, self.dtype)

        def some(columns: int, index: str, _: Sequence[str]) -> Sequence[str]:
            lines.emit(
                f"call void @{function}(ptr {one.row(rows, index, length)}, i64 {length}, i64"
                f" {length}, i64 {columns}, ptr {one.at(target, index)}, i64 {count})"
            )
            return ()

        full = count // self.width * self.width
        if full:
            lines.counted(full, partial(some, self.width), step=self.width)
        if full < count:
            some(count - full, str(full), ())

    # ------------------------------------------------------------------------------------- products

    def array(self, name: str, example: str, group: str) -> str:
        """Where a group of an example begins in x or y, or a group in k."""
        w = self.windows
        sizes = dict(zip("xy", w.group_sizes, strict=True))
        size = sizes.get(name, w.filters * w.channels * w.taps)
        strides = [0 if name == "k" else w.groups * size, size]
        return self.one.at(self.start(name), place_of(self.lines, [example, group], strides))

    def panels(self, columns: int, body: Callable[[str, int, int], None]) -> None:
        """Write the work on panels: their first column, vectors, and columns in the last one."""
        lines, most = self.lines, panel_vectors(self.site.module)
        size = most * self.width

        def panel(index: str, _: Sequence[str]) -> Sequence[str]:
            body(lines.op(f"mul i64 {index}, {size}"), most, self.width)
            return ()

        if columns >= size:
            lines.counted(columns // size, panel)
        left = columns % size
        if left:
            vectors = -(-left // self.width)
            body(str(columns // size * size), vectors, left - (vectors - 1) * self.width)

    def multiply(
        self,
        left: tuple[str, int | str, int | str],
        right: tuple[str, int | str],
        out: tuple[str, int],
        size: tuple[int | str, int | str],
        panel: tuple[int, int],
        more: str = "false",
        is_packed: bool = False,
    ) -> None:
        """Write the product of a matrix and a panel.

        Parameters
        ----------
        left : (address, step or table along rows, step or table across)
        right : (address, step or table)
        out : (address, step)
        size : (rows, length of the sums)
        panel : (vectors, columns in the last one)
        more : str
            Whether products are added to the result.
        is_packed : bool
            Whether all of the last vector can be read.
        """
        steps = {"along": left[1], "across": left[2], "from": right[1]}
        tables = [name for name, step in steps.items() if isinstance(step, str)]
        is_part = panel[1] < self.width
        function = panel_product(self.site.module, panel[0], is_part, is_packed, self.dtype, tables)
        along, across, step = [
            f"{'ptr' if isinstance(step, str) else 'i64'} {step}" for step in steps.values()
        ]
        self.lines.emit(
            f"call void @{function}(ptr {left[0]}, {along}, {across}, ptr {right[0]}, {step}, ptr"
            f" {out[0]}, i64 {out[1]}, i64 {size[0]}, i64 {size[1]}, i64 {panel[1]}, i1 {more})"
        )
