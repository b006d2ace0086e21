"""Elements at ranks of an order as text: lines are narrowed down until few elements are left.

The elements of a line are compared as keys (`sort_text.py`). A sorted sample of the line says
between which two keys the element with a rank lies, most likely. One pass counts the keys below and
up to these bounds, which shows where the element is indeed, and another pass keeps the keys there
(R. W. Floyd and R. L. Rivest, Expected time bounds for selection, Communications of the ACM 18,
1975). After a round that has kept more than half of the keys, the next bound is the middle of the
keys that are possible, so that a line takes at most some rounds for each bit of a key, whatever its
elements are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad._backends.native.function_site import FunctionSite
from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.instructions import Value
from funcgrad._backends.native.native_module import NativeModule
from funcgrad._backends.native.plan_steps import Sorting
from funcgrad._backends.native.registers import Registers
from funcgrad._backends.native.sort_planning import SAMPLE
from funcgrad._backends.native.sort_text import element_of, key_of, network

_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)

_SPREAD: Final = 6
"""How far from its rank in the sample an element may lie: 1.5 times the standard deviation."""


def write_ranks(site: FunctionSite, step: Sorting) -> None:
    """Write the selection of the elements with some ranks from each line along an axis."""
    spec, form, lines = site.plan.specs[step.equation.operands[0]], step.form, site.lines
    count, ranks = spec.shape[form.axis], form.ranks or ()
    dtype = np.dtype(np.uint8) if spec.dtype.kind == "b" else spec.dtype
    outer, inner = prod(spec.shape[: form.axis]), prod(spec.shape[form.axis + 1 :])
    kind = _INT32 if dtype.itemsize <= 4 else _INT64
    site.work += prod(spec.shape) * (1 + 2 * len(ranks))
    source, target = site.at(step.equation.operands[0]), site.pointer(step.variable)
    keys, work = [site.scratch(count * kind.itemsize) for _ in range(2)]
    select = _narrowing(site.module, kind)
    single = Registers(lines, 1)

    def line(row: str, column: str, _: Sequence[str]) -> Sequence[str]:
        def at(place: str, size: int) -> str:
            """The place of an element in an array that has so many along the axis."""
            begin = lines.op(f"add i64 {lines.times(row, size * inner)}, {column}")
            return lines.op(f"add i64 {begin}, {lines.times(place, inner)}")

        def read(lanes: Registers, index: str, _: Sequence[str]) -> Sequence[str]:
            element = lanes.load(source, dtype, at(index, count))
            lanes.store(keys, key_of(lanes, element, kind), index)
            return ()

        wide = site.module.bits // 8 // kind.itemsize if inner == 1 else 1
        whole = count // wide * wide
        if whole:
            lines.counted(whole, partial(read, Registers(lines, wide)), step=wide)
        if whole < count:
            lines.counted(count, partial(read, single), start=whole)
        for place, rank in enumerate(ranks):
            word = f"i{8 * kind.itemsize}"
            key = lines.op(
                f"call {word} @{select}(ptr {keys}, ptr {work}, i64 {count}, i64 {rank})"
            )
            element = element_of(single, Value(key, kind, single), dtype)
            single.store(target, element, at(str(place), len(ranks)))
        return ()

    def block(row: str, _: Sequence[str]) -> Sequence[str]:
        lines.counted(inner, partial(line, row))
        return ()

    lines.counted(outer, block)


def _narrowing(module: NativeModule, kind: np.dtype[Any]) -> str:
    """The function that returns the key with a rank.

    Its arguments are the addresses of the keys and of as much memory, their number, and the rank.
    """
    bits = 8 * kind.itemsize
    name = f"rank_{kind.char}{module.bits}"
    parameters = "ptr %keys, ptr %work, i64 %count, i64 %rank"

    def write(lines: FunctionText) -> None:
        sorting = network(module, kind, 1, has_pairs=False)
        _Narrowing(lines, kind, module.bits // bits, sorting).write()

    return module.shared(f"i{bits} @{name}", parameters, write)


class _Narrowing:
    """Writes the rounds in which a line is narrowed down."""

    def __init__(self, lines: FunctionText, kind: np.dtype[Any], width: int, sorting: str) -> None:
        self._lines, self._kind, self._sorting = lines, kind, sorting
        self._lanes, self._single = Registers(lines, width), Registers(lines, 1)
        self._word = f"i{8 * kind.itemsize}"
        info = np.iinfo(kind)
        self._from = lines.room("ptr", "%keys")
        self._left = lines.room("i64", "%count")
        self._rank = lines.room("i64", "%rank")
        self._least = lines.room(self._word, str(info.min))
        self._most = lines.room(self._word, str(info.max))
        self._stalls = lines.room("i1", "false")
        self._sample = lines.room(f"[{SAMPLE} x {self._word}]")

    def write(self) -> None:
        """Write a round, after which there is another one unless few keys are left."""
        lines = self._lines
        head, after = lines.fresh_label("round"), lines.fresh_label("few")
        more = lines.op(f"icmp sgt i64 %count, {SAMPLE}")
        lines.branch(more, head, after)
        lines.begin_block(head)
        source = self._load("ptr", self._from)
        left, rank = self._number(self._left), self._number(self._rank)
        low, high = self._bounds(source, left, rank)
        below, up_to = self._counts(source, left, low, high)
        self._decide(rank, low, high, below, up_to)
        fewer = self._keep(source, left)
        lines.emit(f"store ptr %work, ptr {self._from}")
        lines.emit(f"store i64 {fewer}, ptr {self._left}")
        stalls = lines.op(f"icmp ugt i64 {lines.op(f'shl i64 {fewer}, 1')}, {left}")
        lines.emit(f"store i1 {stalls}, ptr {self._stalls}")
        lines.branch(lines.op(f"icmp sgt i64 {fewer}, {SAMPLE}"), head, after)
        lines.begin_block(after)
        self._finish()

    def _load(self, kind: str, room: str) -> str:
        return self._lines.op(f"load {kind}, ptr {room}")

    def _number(self, room: str) -> str:
        return self._load("i64", room)

    def _key(self, place: str, offset: str) -> Value:
        return self._single.load(place, self._kind, offset)

    def _bounds(self, source: str, left: str, rank: str) -> tuple[str, str]:
        """Two bounds of the key, by a sample; or twice the middle of the possible keys."""
        lines, word = self._lines, self._word
        low, high = [lines.room(word) for _ in range(2)]

        def halved() -> None:
            least, most = self._load(word, self._least), self._load(word, self._most)
            differ = lines.op(f"ashr {word} {lines.op(f'xor {word} {least}, {most}')}, 1")
            middle = lines.op(f"add {word} {lines.op(f'and {word} {least}, {most}')}, {differ}")
            for room in (low, high):
                lines.emit(f"store {word} {middle}, ptr {room}")

        def sampled() -> None:
            def draw(index: str, _: Sequence[str]) -> Sequence[str]:
                product = lines.op(f"mul i64 {index}, {left}")
                place = lines.op(f"udiv i64 {product}, {SAMPLE}")
                self._single.store(self._sample, self._key(source, place), index)
                return ()

            lines.counted(SAMPLE, draw)
            self._sort(self._sample, str(SAMPLE))
            among = lines.op(f"udiv i64 {lines.op(f'mul i64 {rank}, {SAMPLE}')}, {left}")
            for room, edge, step, end in (
                (low, self._least, -_SPREAD, 0),
                (high, self._most, _SPREAD, SAMPLE - 1),
            ):
                place = lines.op(f"add i64 {among}, {step}")
                name = "smax" if step < 0 else "smin"
                inside = lines.call("i64", f"llvm.{name}.i64", ("i64", place), ("i64", str(end)))
                drawn = self._key(self._sample, inside)
                beyond = lines.op(f"icmp ne i64 {place}, {inside}")
                bound = self._load(word, edge)
                chosen = lines.op(f"select i1 {beyond}, {word} {bound}, {word} {drawn.text}")
                lines.emit(f"store {word} {chosen}, ptr {room}")

        lines.when(self._load("i1", self._stalls), halved, sampled)
        return self._load(word, low), self._load(word, high)

    def _counts(self, source: str, left: str, low: str, high: str) -> tuple[str, str]:
        """How many keys are below the lower bound, and up to the higher one."""
        lines, lanes, single = self._lines, self._lanes, self._single
        bounds = [Value(text, self._kind, single) for text in (low, high)]
        whole = lines.op(f"and i64 {left}, {-lanes.width}")
        wide = [lanes.splat(bound) for bound in bounds]
        kind = lanes.kind(self._word)
        none = "0" if lanes.width == 1 else "zeroinitializer"

        def several(index: str, carried: Sequence[str]) -> Sequence[str]:
            keys = lanes.load(source, self._kind, index)
            flags = [keys < wide[0], keys <= wide[1]]
            ones = [lines.op(f"sext {flag.kind} {flag.text} to {kind}") for flag in flags]
            pairs = zip(carried, ones, strict=True)
            return [lines.op(f"sub {kind} {count}, {one}") for count, one in pairs]

        sums = lines.counted(whole, several, [(kind, none)] * 2, step=lanes.width)
        if lanes.width > 1:
            name = f"llvm.vector.reduce.add.{lanes.suffix(self._kind)}"
            sums = [lines.call(self._word, name, (kind, total)) for total in sums]
        if self._word != "i64":
            sums = [lines.op(f"zext {self._word} {total} to i64") for total in sums]
        rooms = [lines.room("i64") for _ in sums]
        for room, total in zip(rooms, sums, strict=True):
            lines.emit(f"store i64 {total}, ptr {room}")

        def one(index: str, carried: Sequence[str]) -> Sequence[str]:
            key = self._key(source, index)
            flags = [key < bounds[0], key <= bounds[1]]
            ones = [lines.op(f"zext i1 {flag.text} to i64") for flag in flags]
            pairs = zip(carried, ones, strict=True)
            return [lines.op(f"add i64 {count}, {one}") for count, one in pairs]

        def others() -> None:
            first = [("i64", total) for total in sums]
            for room, total in zip(
                rooms, lines.counted(left, one, first, start=whole), strict=True
            ):
                lines.emit(f"store i64 {total}, ptr {room}")

        lines.when(lines.op(f"icmp slt i64 {whole}, {left}"), others)
        below, up_to = [self._number(room) for room in rooms]
        return below, up_to

    def _decide(self, rank: str, low: str, high: str, below: str, up_to: str) -> None:
        """Note between which keys the key lies, and its rank there; return if there is one key."""
        lines, word = self._lines, self._word
        is_below = lines.op(f"icmp slt i64 {rank}, {below}")
        is_above = lines.op(f"icmp sge i64 {rank}, {up_to}")

        def note(least: str, most: str, before: str) -> None:
            for text, room in ((least, self._least), (most, self._most)):
                if text:
                    lines.emit(f"store {word} {text}, ptr {room}")
            lines.emit(f"store i64 {lines.op(f'sub i64 {rank}, {before}')}, ptr {self._rank}")

        def between() -> None:
            end = lines.fresh_label("same")
            on = lines.fresh_label("on")
            lines.branch(lines.op(f"icmp eq {word} {low}, {high}"), end, on)
            lines.begin_block(end)
            lines.emit(f"ret {word} {low}")
            lines.begin_block(on)
            note(low, high, below)

        def above() -> None:
            note(lines.op(f"add {word} {high}, 1"), "", up_to)

        lines.when(
            is_below,
            lambda: note("", lines.op(f"sub {word} {low}, 1"), "0"),
            lambda: lines.when(is_above, above, between),
        )

    def _keep(self, source: str, left: str) -> str:
        """Move the possible keys to the front of the memory for them; how many there are."""
        lines, single = self._lines, self._single
        bounds = [
            Value(self._load(self._word, room), self._kind, single)
            for room in (self._least, self._most)
        ]

        def one(index: str, carried: Sequence[str]) -> Sequence[str]:
            key = self._key(source, index)
            single.store("%work", key, carried[0])
            stays = (key >= bounds[0]) & (key <= bounds[1])
            step = lines.op(f"zext i1 {stays.text} to i64")
            return (lines.op(f"add i64 {carried[0]}, {step}"),)

        return lines.counted(left, one, [("i64", "0")])[0]

    def _finish(self) -> None:
        """Sort the keys that are left, and return one of them."""
        lines, left = self._lines, self._number(self._left)
        source = self._load("ptr", self._from)

        def copy(index: str, _: Sequence[str]) -> Sequence[str]:
            self._single.store(self._sample, self._key(source, index), index)
            return ()

        lines.counted(left, copy)
        self._sort(self._sample, left)
        key = self._key(self._sample, self._number(self._rank))
        lines.emit(f"ret {self._word} {key.text}")

    def _sort(self, place: str, count: str) -> None:
        """Sort at most as many keys as a sample has."""
        lines = self._lines
        before = lines.op(f"sub i64 {count}, 1")
        zeros = lines.call("i64", "llvm.ctlz.i64", ("i64", before), ("i1", "false"))
        levels = lines.op(f"sub i64 64, {zeros}")
        half = lines.op(f"lshr i64 {lines.op(f'shl i64 1, {levels}')}, 1")

        def sort() -> None:
            lines.emit(
                f"call void @{self._sorting}(ptr {place}, ptr null, i64 {count}, i64 {half},"
                f" i64 {levels})"
            )

        lines.when(lines.op(f"icmp sgt i64 {count}, 1"), sort)
