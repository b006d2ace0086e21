"""Loop nests as text: vectors along one axis, plain loops over the others.

Axes that all arrays go through as one are one loop. The innermost loop goes along the axis along
which most arrays lie side by side, a vector at a time. The rest is a vector with some active lanes,
or, on processors without masks, elements one by one (`nest_forms.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Final

from funcgrad._backends.native.instructions import Value, memory_type, some_lanes
from funcgrad._backends.native.lanes import Lanes
from funcgrad._backends.native.nest_forms import WRITTEN_OUT, NestForm, power_of_two
from funcgrad._backends.native.registers import Registers
from funcgrad._backends.native.step_text import StepText
from funcgrad._backends.native.views import carried

BLOCK: Final = 4096
"""Elements that are summed one after another, then added to the total: sums keep their digits."""

_COLUMNS: Final = 8
"""So many vectors of totals are carried in registers over the rows of a matrix."""


class NestWriter(NestForm):
    """Writes one nest."""

    # ------------------------------------------------------------------------------------ the loops

    def write(self) -> None:
        """Write all lines of the nest."""
        self._begin()
        self._loops(0, self._pointers, {})

    @property
    def _pointers(self) -> dict[int, str]:
        return {variable: array.pointer for variable, array in self.arrays.items()}

    def _begin(self) -> None:
        """Begin reductions that are collected in memory."""
        for variable in () if self._has_columns else self._folded:
            if any(place < self._in_registers(variable) for place in self.reduced[variable]):
                self._fill(variable, self.arrays[variable].pointer)

    def _fill(self, variable: int, pointer: str) -> None:
        """Begin a reduction in memory."""
        spec = self.specs[variable]
        lanes = Registers(self._lines, 1)

        def one(index: str, _: Sequence[str]) -> Sequence[str]:
            lanes.store(pointer, lanes.constant(self.neutral(variable), spec.dtype), index)
            return ()

        self._lines.counted(prod(spec.shape), one)

    def _loops(
        self, place: int, pointers: Mapping[int, str], collected: Mapping[int, Value]
    ) -> dict[int, Value]:
        """Write the loops from one on; returns the values that reductions have collected."""
        starting = self._starting(place)
        values = {**collected, **self.begun(self._gathering, starting)}
        if place == len(self.extents) - 1:
            ended = self._inner(pointers, values)
        elif place == len(self.extents):
            ended = values
        elif self._has_columns and place == len(self.extents) - 2:
            self._columns(pointers)
            ended = values
        elif not place and starting:
            step = partial(self._step, pointers=pointers)
            ended = self._in_order(self.extents[0], self._gathering.width, starting, step)
        else:
            start, stop = self._bounds(place)

            def one(index: str, values: dict[int, Value]) -> dict[int, Value]:
                return self._loops(place + 1, self._rows(place, index, pointers), values)

            ended = carried(self._lines, stop, one, values, 1, start)
        for variable in starting:
            self._finish(variable, pointers[variable], ended.pop(variable))
        return ended

    def _columns(self, pointers: Mapping[int, str]) -> None:
        """Write the last two loops, for some columns after the others."""
        width, extent, last = self._width, self.extents[-1], len(self.extents) - 1
        tile = max(1, _COLUMNS // len(self._folded)) * width
        tiled = extent // tile * tile if extent > tile else 0
        whole = [(start, Registers(self._lines, width)) for start in range(0, tile, width)]

        def tile_at(index: str, _: Sequence[str]) -> Sequence[str]:
            self._down(self._rows(last, index, pointers), whole)
            return ()

        if tiled:
            self._lines.counted(tiled, tile_at, step=tile)
        parts = [(k, Registers(self._lines, width)) for k in range(tiled, self._full, width)]
        left = extent - self._full
        if left and self._has_masks:
            wide = Registers(self._lines, power_of_two(left, above=True), left)
            parts.append((self._full, wide))
        elif left:
            parts += [(k, Registers(self._lines, 1)) for k in range(self._full, extent)]
        if parts:
            self._down(pointers, parts)

    def _down(self, pointers: Mapping[int, str], parts: Sequence[tuple[int, Registers]]) -> None:
        """Write the loop over rows, with a total in registers for each vector of a row."""
        place = len(self.extents) - 2
        values = {
            (start, v): value
            for start, lanes in parts
            for v, value in self.begun(lanes, [*self._folded]).items()
        }

        def row(index: str, totals: dict[tuple[int, int], Value]) -> dict[tuple[int, int], Value]:
            rows = self._rows(place, index, pointers)
            for start, lanes in parts:
                collected = {v: totals[start, v] for v in self._folded}
                after = StepText(self, lanes, rows).step(str(start), collected)
                totals |= {(start, v): value for v, value in after.items()}
            return totals

        ended = carried(self._lines, self.extents[place], row, values)
        for start, lanes in parts:
            text = StepText(self, lanes, pointers)
            for variable in self._folded:
                total = lanes.astype(ended[start, variable], self.specs[variable].dtype)
                text.store(variable, str(start), total)

    def _bounds(self, place: int) -> tuple[str | int, str | int]:
        """Where a loop begins and ends."""
        return 0, self.extents[place]

    def _starting(self, place: int) -> list[int]:
        """The reductions that are collected in registers from a loop on."""
        return [v for v in self._folded if self._in_registers(v) == place]

    def _in_order(
        self,
        count: int,
        width: int,
        names: Sequence[int],
        write_part: Callable[[str], dict[int, Value]],
    ) -> dict[int, Value]:
        """Write parts of loops, which collect from the beginning; returns the totals."""
        lanes = Registers(self._lines, width)

        def one(index: str, totals: dict[int, Value]) -> dict[int, Value]:
            sums = write_part(index)
            return {v: self.combined(lanes, v, total, sums[v]) for v, total in totals.items()}

        return carried(self._lines, count, one, self.begun(lanes, names))

    def _step(self, index: str, pointers: Mapping[int, str]) -> dict[int, Value]:
        """Write a step of the outermost of several loops; returns the values that it collects."""
        first = self.begun(self._gathering, self._starting(0))
        return self._loops(1, self._rows(0, index, pointers), first)

    def _block(
        self, index: str, stop: int, names: Sequence[int], pointers: Mapping[int, str]
    ) -> dict[int, Value]:
        """Write a block of the innermost loop; returns the values that it collects."""
        lanes = Registers(self._lines, self._width)
        start = self._lines.op(f"mul i64 {index}, {BLOCK}")
        end = self._lines.op(f"add i64 {start}, {BLOCK}")
        beyond = self._lines.op(f"icmp sgt i64 {end}, {stop}")
        until = self._lines.op(f"select i1 {beyond}, i64 {stop}, i64 {end}")
        return self._swept(lanes, start, until, pointers, self.begun(lanes, names))

    def _rows(self, place: int, index: str, pointers: Mapping[int, str]) -> dict[int, str]:
        return {v: self._row(v, pointers[v], place, index) for v in pointers}

    def _row(self, variable: int, pointer: str, place: int, index: str) -> str:
        """Where the part of an array begins that a step of a loop goes through."""
        array = self.arrays[variable]
        return self._lines.row(pointer, index, array.strides[place], memory_type(array.dtype))

    def _inner(
        self, pointers: Mapping[int, str], collected: Mapping[int, Value]
    ) -> dict[int, Value]:
        """Write the innermost loop: whole vectors, then the rest."""
        full, names, gathering = self._full, list(collected), self._gathering
        left = self.extents[-1] - full
        vectors = self.begun(Registers(self._lines, self._width), names)
        if full:
            vectors = self._vectors(full, pointers, names)
        if left and self._has_masks:
            vectors = self._swept_left(pointers, vectors)
        if gathering.width == 1:
            vectors = {v: self._across_lanes(v, vector) for v, vector in vectors.items()}
        ended = {v: self.combined(gathering, v, collected[v], x) for v, x in vectors.items()}
        if left and not self._has_masks:
            ended = self._swept_left(pointers, ended)
        return ended

    def _swept_left(
        self, pointers: Mapping[int, str], collected: Mapping[int, Value]
    ) -> dict[int, Value]:
        """Write the rest behind whole vectors: a vector of some lanes, or elements one by one.

        Reductions then collect as many lanes as they do over whole vectors.
        """
        full, extent = self._full, self.extents[-1]
        width, left = 1, extent - full
        if self._has_masks:
            width = self._width if collected or self._in_full else power_of_two(left, above=True)
        lanes = Registers(self._lines, width, min(width, left))
        return self._swept(lanes, full, extent, pointers, collected)

    def _swept(
        self,
        lanes: Lanes,
        start: str | int,
        stop: str | int,
        pointers: Mapping[int, str],
        collected: Mapping[int, Value],
    ) -> dict[int, Value]:
        """Write a loop over elements; returns the values that reductions have collected."""
        body = StepText(self, lanes, pointers)
        is_whole = lanes.width == 1 and self.extents[-1] == stop
        if is_whole and isinstance(stop, int) and prod(self.extents) <= WRITTEN_OUT:
            values = dict(collected)
            for place in range(int(start), stop):
                values = body.step(str(place), values)
            return values
        return carried(self._lines, stop, body.step, collected, lanes.width, start)

    def _vectors(
        self, stop: int, pointers: Mapping[int, str], names: Sequence[int]
    ) -> dict[int, Value]:
        """Write the loop over whole vectors; long sums are sums of sums of blocks."""
        if stop > BLOCK and names:
            block = partial(self._block, stop=stop, names=names, pointers=pointers)
            return self._in_order(-(-stop // BLOCK), self._width, names, block)
        lanes = Registers(self._lines, self._width)
        return self._swept(lanes, 0, stop, pointers, self.begun(lanes, names))

    # ---------------------------------------------------------------------------------- reductions

    @property
    def _gathering(self) -> Registers:
        """The lanes in which reductions are collected over all of their loops.

        They are combined at the end, unless elements one by one come after vectors: in the sums of
        rows of three, to combine them for each row took more time than to read the row.
        """
        in_vectors = self._has_masks or self._full == self.extents[-1]
        return Registers(self._lines, self._width if in_vectors else 1)

    def _across_lanes(self, variable: int, vector: Value) -> Value:
        """Combine the lanes of a vector, half by half."""
        width = self._width
        while width > 1:
            width //= 2
            lanes = Registers(self._lines, width)
            low, high = [
                some_lanes(lanes, vector, range(start, start + width)) for start in (0, width)
            ]
            vector = self.combined(lanes, variable, low, high)
        return vector

    def _finish(self, variable: int, pointer: str, collected: Value) -> None:
        """Write the value that a reduction has collected in registers to memory."""
        lanes, dtype = Registers(self._lines, 1), self.specs[variable].dtype
        if self._gathering.width > 1:
            collected = self._across_lanes(variable, collected)
        total = lanes.astype(collected, dtype)
        first = self._in_registers(variable)
        if any(place < first for place in self.reduced[variable]):
            before = lanes.load(pointer, dtype)
            total = self.combined(lanes, variable, before, total)
        lanes.store(pointer, total)
