"""Selecting the first elements of an order as text: one pass over a line.

Candidates are sorted when there are twice as many as are wanted, or more; then as many as are
wanted stay. From there on an element becomes a candidate only if it comes before the last of them,
which a vector of elements is asked at once. Elements are compared as keys, with their numbers
(`sort_text.py`); for the last elements of an order the keys are inverted, and the line is read from
its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from funcgrad._backends.native.function_site import FunctionSite
from funcgrad._backends.native.instructions import Value
from funcgrad._backends.native.plan_steps import Sorting
from funcgrad._backends.native.registers import Registers
from funcgrad._backends.native.sort_planning import candidates
from funcgrad._backends.native.sort_text import key_of, network

_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


def write_selection(site: FunctionSite, step: Sorting) -> None:
    """Write the selection of some places from each line; elements of a line lie side by side."""
    _SelectionWriter(site, step).write()


class _SelectionWriter:
    """Writes the pass over a line."""

    def __init__(self, site: FunctionSite, step: Sorting) -> None:
        spec, form = site.plan.specs[step.equation.operands[0]], step.form
        self._site, self._lines, self._form = site, site.lines, form
        self._dtype = np.dtype(np.uint8) if spec.dtype.kind == "b" else spec.dtype
        self._size, self._count = spec.shape[form.axis], form.wanted or 0
        self._rows, self._room = prod(spec.shape[: form.axis]), candidates(self._count)
        self._key = _INT32 if self._dtype.itemsize <= 4 else _INT64
        self._is_joined = self._key == _INT32
        self._is_inverted = form.descending != form.last
        self._source = site.at(step.equation.operands[0])
        self._target = site.pointer(step.variable)
        self._keys = site.scratch(self._room * (8 if self._is_joined else 16))
        self._order = self._lines.address(self._keys, self._room * 8)
        self._cursor = self._lines.room("i64")
        self._bound = self._lines.room(self._kind)
        self._single = Registers(self._lines, 1)

    @property
    def _kind(self) -> str:
        return f"i{8 * self._key.itemsize}"

    def write(self) -> None:
        """Write the loop over lines."""
        self._site.work += self._rows * self._size

        def row(number: str, _: Sequence[str]) -> Sequence[str]:
            self._row(number)
            return ()

        self._lines.counted(self._rows, row)

    def _row(self, number: str) -> None:
        lines, size = self._lines, self._size
        base = lines.times(number, size)
        width = self._site.module.bits // 8 // self._key.itemsize

        def first(scanned: str, _: Sequence[str]) -> Sequence[str]:
            self._store(scanned, self._key_at(self._single, base, scanned), scanned)
            return ()

        def single(scanned: str, _: Sequence[str]) -> Sequence[str]:
            key = self._key_at(self._single, base, scanned)
            lines.when((key < self._loaded_bound()).text, lambda: self._add(base, scanned))
            return ()

        def several(scanned: str, _: Sequence[str]) -> Sequence[str]:
            self._several(Registers(lines, width), base, scanned)
            return ()

        lines.counted(self._room, first)
        self._sort()
        begin = self._room + (size - self._room) % width
        if begin > self._room:
            lines.counted(begin, single, start=self._room)
        if begin < size:
            lines.counted(size, several, step=width, start=begin)
        self._sort()
        self._write(lines.times(number, self._count))

    def _place(self, scanned: str) -> str:
        """The place in a line of the element that is read as number ``scanned``."""
        return (
            self._lines.op(f"sub i64 {self._size - 1}, {scanned}") if self._form.last else scanned
        )

    def _key_at(self, lanes: Registers, base: str, scanned: str) -> Value:
        """The keys of the elements from one on."""
        lines = self._lines
        if self._form.last and lanes.width > 1:
            place = lines.op(f"sub i64 {self._size - lanes.width}, {scanned}")
        else:
            place = self._place(scanned)
        element = lanes.load(self._source, self._dtype, lines.op(f"add i64 {base}, {place}"))
        if self._dtype.kind == "f":
            element = element + 0.0  # zeros of both signs are equal
        key = key_of(lanes, element, self._key)
        return ~key if self._is_inverted else key

    def _several(self, lanes: Registers, base: str, scanned: str) -> None:
        """Write the look at a vector of elements."""
        lines, width = self._lines, lanes.width
        bound = lanes.splat(self._loaded_bound())
        comes_before = self._key_at(lanes, base, scanned) < bound
        kind = f"i{width}"
        bits = lines.op(f"bitcast <{width} x i1> {comes_before.text} to {kind}")

        def add(_: str, carried: Sequence[str]) -> Sequence[str]:
            (left,) = carried
            lane = lines.call(kind, f"llvm.cttz.{kind}", (kind, left), ("i1", "true"))
            number = lane if width == 64 else lines.op(f"zext {kind} {lane} to i64")
            if self._form.last:
                number = lines.op(f"sub i64 {width - 1}, {number}")
            self._add(base, lines.op(f"add i64 {scanned}, {number}"))
            return (lines.op(f"and {kind} {left}, {lines.op(f'sub {kind} {left}, 1')}"),)

        def all_lanes() -> None:
            count = lines.call(kind, f"llvm.ctpop.{kind}", (kind, bits))
            count = count if width == 64 else lines.op(f"zext {kind} {count} to i64")
            lines.counted(count, add, [(kind, bits)])

        lines.when(lines.op(f"icmp ne {kind} {bits}, 0"), all_lanes)

    def _add(self, base: str, scanned: str) -> None:
        """Add a candidate; if there is no room for more, sort them."""
        lines = self._lines
        cursor = lines.op(f"load i64, ptr {self._cursor}")
        self._store(cursor, self._key_at(self._single, base, scanned), scanned)
        after = lines.op(f"add i64 {cursor}, 1")
        lines.emit(f"store i64 {after}, ptr {self._cursor}")
        lines.when(lines.op(f"icmp eq i64 {after}, {self._room}"), self._sort)

    def _store(self, number: str, key: Value, scanned: str) -> None:
        single, place = self._single, Value(scanned, _INT64, self._single)
        if self._is_joined:
            single.store(self._keys, (single.astype(key, _INT64) << 32) | place, number)
            return
        single.store(self._keys, key, number)
        single.store(self._order, place, number)

    def _sort(self) -> None:
        """Sort the candidates; as many as are wanted stay, the others are overwritten."""
        lines, count = self._lines, self._room
        function = network(self._site.module, _INT64, 1, not self._is_joined)
        levels = (count - 1).bit_length()
        lines.emit(
            f"call void @{function}(ptr {self._keys}, ptr {self._order}, i64 {count}, i64"
            f" {1 << levels - 1}, i64 {levels})"
        )
        last = self._single.load(self._keys, _INT64, str(self._count - 1))
        if self._is_joined:
            last = self._single.astype(last >> 32, _INT32)
        lines.emit(f"store {self._kind} {last.text}, ptr {self._bound}")
        lines.emit(f"store i64 {self._count}, ptr {self._cursor}")

    def _loaded_bound(self) -> Value:
        text = self._lines.op(f"load {self._kind}, ptr {self._bound}")
        return Value(text, self._key, self._single)

    def _write(self, base: str) -> None:
        """Write the places of the first candidates."""
        lines, single = self._lines, self._single

        def one(index: str, _: Sequence[str]) -> Sequence[str]:
            if self._is_joined:
                scanned = single.load(self._keys, _INT64, index) & 0xFFFFFFFF
            else:
                scanned = single.load(self._order, _INT64, index)
            place = Value(self._place(scanned.text), _INT64, single)
            to = index
            if self._form.last:
                to = lines.op(f"sub i64 {self._count - 1}, {index}")
            single.store(self._target, place, lines.op(f"add i64 {base}, {to}"))
            return ()

        lines.counted(self._count, one)
