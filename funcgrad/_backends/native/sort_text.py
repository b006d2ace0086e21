"""Sorting as text: a network of exchanges, with a line of the array in each lane of a vector.

Batcher's odd-even merge sort compares the same places whatever the elements are (Knuth, *The Art of
Computer Programming*, volume 3, algorithm 5.2.2M), so lanes need no branches. Elements are sorted
as integers, *keys*, which have the order of the elements; NaN are the greatest. Equal elements keep
their order by their places, which follow the key in the same 64 bits, or lie beside them.

NumPy sorts single long lines, in fewer steps (`sort_planning.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from funcgrad._backends.native.function_site import FunctionSite
from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.instructions import Value
from funcgrad._backends.native.lanes import Lanes
from funcgrad._backends.native.native_module import NativeModule
from funcgrad._backends.native.plan_steps import Sorting
from funcgrad._backends.native.registers import Registers
from funcgrad._backends.native.sort_planning import exchanges

_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)


def write_sorting(site: FunctionSite, step: Sorting) -> None:
    """Write a sort of the lines along an axis."""
    _SortWriter(site, step).write()


class _SortWriter:
    """Writes the loops over lines, and the keys of their elements."""

    def __init__(self, site: FunctionSite, step: Sorting) -> None:
        spec = site.plan.specs[step.equation.operands[0]]
        self._site, self._step, self._form = site, step, step.form
        self._dtype = np.dtype(np.uint8) if spec.dtype.kind == "b" else spec.dtype
        self._count = spec.shape[step.form.axis]
        self._ranks, wanted = step.form.ranks, step.form.wanted
        self._wanted = self._count if wanted is None else wanted
        if self._ranks is not None:
            self._wanted = len(self._ranks)
        self._outer = prod(spec.shape[: step.form.axis])
        self._inner = prod(spec.shape[step.form.axis + 1 :])
        self._key = _INT32 if self._dtype.itemsize <= 4 else _INT64
        self._is_joined = step.form.places and self._key == _INT32
        self._has_pairs = step.form.places and not self._is_joined
        self._entry = _INT64 if self._is_joined else self._key

    def write(self) -> None:
        """Write all lines, in blocks of as many as a vector has lanes."""
        site, lines = self._site, self._site.lines
        site.work += self._outer * self._inner * exchanges(self._count)
        across = self._outer if self._inner == 1 else self._inner
        widest = site.module.bits // 8 // self._entry.itemsize
        width = min(widest, 1 << (across - 1).bit_length())
        size = self._count * width * self._entry.itemsize
        self._keys = site.scratch(size * (2 if self._has_pairs else 1))
        self._order = lines.address(self._keys, size)

        def blocks(index: str, _: Sequence[str]) -> Sequence[str]:
            bases = [lines.times(index, size * self._inner) for size in (self._count, self._wanted)]

            def block(active: int, number: str, _: Sequence[str]) -> Sequence[str]:
                lanes = Registers(lines, width, active)
                sizes = (self._count, self._wanted) if self._inner == 1 else (1, 1)
                places = [lines.times(number, size) for size in sizes]
                if self._inner > 1:
                    pairs = zip(bases, places, strict=True)
                    places = [lines.op(f"add i64 {base}, {place}") for base, place in pairs]
                self._block(lanes, *places)
                return ()

            full = across // width * width
            if full:
                lines.counted(full, partial(block, width), step=width)
            if full < across:
                block(across - full, str(full), ())
            return ()

        lines.counted(1 if self._inner == 1 else self._outer, blocks)

    def _block(self, lanes: Registers, first: str, to: str) -> None:
        """Write the sort of some lines; the first begins at a place, and its result at another."""
        site, lines, count = self._site, self._site.lines, self._count
        source, target = site.at(self._step.equation.operands[0]), site.pointer(self._step.variable)
        step = 1 if self._inner == 1 else self._inner
        skipped = count - self._wanted if self._form.last else 0

        def at(index: str, first: str = first) -> str:
            return lines.op(f"add i64 {first}, {lines.times(index, step)}")

        def read(index: str, _: Sequence[str]) -> Sequence[str]:
            if self._inner > 1 or lanes.width == 1:
                element = lanes.load(source, self._dtype, at(index))
            else:
                place = lines.address(source, lines.times(at(index), self._dtype.itemsize))
                element = lanes.gathered(place, self._dtype, count)
            if self._form.places and self._dtype.kind == "f":
                element = element + 0.0  # zeros of both signs are equal
            key = key_of(lanes, element, self._key)
            if self._form.places and self._form.descending:
                key = ~key
            number = lanes.splat(Value(index, _INT64, lanes.single))
            if self._is_joined:
                key = (lanes.astype(key, _INT64) << 32) | number
            offset = lines.times(index, lanes.width)
            whole = Registers(lines, lanes.width)
            whole.store(self._keys, key, offset)
            if self._has_pairs:
                whole.store(self._order, number, offset)
            return ()

        def write(index: str, _: Sequence[str]) -> Sequence[str]:
            write_at(index, lines.op(f"add i64 {index}, {skipped}") if skipped else index)
            return ()

        def write_at(index: str, number: str) -> None:
            offset = lines.times(number, lanes.width)
            element = self._element(Registers(lines, lanes.width), offset)
            place = index
            if self._form.descending and not self._form.places:
                place = lines.op(f"sub i64 {count - 1}, {index}")
            if self._inner > 1 or lanes.width == 1:
                lanes.store(target, element, at(place, to))
            else:
                size = element.dtype.itemsize
                begin = lines.address(target, lines.times(at(place, to), size))
                lanes.scattered(begin, element, self._wanted)

        lines.counted(count, read)
        if count > 1:
            levels = (count - 1).bit_length()
            function = network(site.module, self._entry, lanes.width, self._has_pairs)
            lines.emit(
                f"call void @{function}(ptr {self._keys}, ptr {self._order}, i64 {count}, i64"
                f" {1 << levels - 1}, i64 {levels})"
            )
        if self._ranks is None:
            lines.counted(self._wanted, write)
        for index, rank in enumerate(self._ranks or ()):
            write_at(str(index), str(rank))

    def _element(self, lanes: Lanes, offset: str) -> Value:
        """An element of the result."""
        if self._has_pairs:
            return lanes.load(self._order, _INT64, offset)
        entry = lanes.load(self._keys, self._entry, offset)
        if self._is_joined:
            return entry & 0xFFFFFFFF
        return element_of(lanes, entry, self._dtype)


def key_of(lanes: Lanes, x: Value, key: np.dtype[Any]) -> Value:
    """Integers that have the order of elements."""
    if x.dtype.kind == "f":
        bits = lanes.cast("bitcast", _in_register(lanes, x), key)
        limit = lanes.constant(np.iinfo(key).max, key)
        return lanes.where(lanes.isnan(x), limit, _flipped(bits))
    if x.dtype.kind == "u" and x.dtype.itemsize == key.itemsize:
        return lanes.astype(x, key) ^ np.iinfo(key).min
    return lanes.astype(x, key)


def element_of(lanes: Lanes, key: Value, dtype: np.dtype[Any]) -> Value:
    """The elements of keys."""
    if dtype.kind == "f":
        register = np.dtype(np.float32) if dtype.itemsize == 2 else dtype
        return lanes.astype(lanes.cast("bitcast", _flipped(key), register), dtype)
    if dtype.kind == "u" and dtype.itemsize == key.dtype.itemsize:
        key = key ^ np.iinfo(key.dtype).min
    return lanes.astype(key, dtype)


def _in_register(lanes: Lanes, x: Value) -> Value:
    return lanes.astype(x, np.dtype(np.float32)) if x.dtype.itemsize == 2 else x


def _flipped(bits: Value) -> Value:
    """Bits of floats as integers of the same order, and back: of negative ones the others."""
    return bits ^ ((bits >> (8 * bits.dtype.itemsize - 1)) & np.iinfo(bits.dtype).max)


def network(module: NativeModule, dtype: np.dtype[Any], width: int, has_pairs: bool) -> str:
    """The function that sorts keys, with their places if they have any.

    Its arguments are the addresses of both, the number of vectors, the greatest power of two below
    it, and the exponent of the next one.
    """

    def write(lines: FunctionText) -> None:
        lanes = Registers(lines, width)

        def exchange(i: str, k: str) -> None:
            places = [lines.times(index, width) for index in (i, k)]
            a, b = [lanes.load("%keys", dtype, place) for place in places]
            if not has_pairs:
                lanes.store("%keys", lanes.intrinsic("smin", a, b), places[0])
                lanes.store("%keys", lanes.intrinsic("smax", a, b), places[1])
                return
            first, second = [lanes.load("%order", _INT64, place) for place in places]
            swaps = (b < a) | ((b == a) & (second < first))
            for table, one, other in (("%keys", a, b), ("%order", first, second)):
                lanes.store(table, lanes.select(swaps, other, one), places[0])
                lanes.store(table, lanes.select(swaps, one, other), places[1])

        _compare_all(lines, exchange)
        lines.emit("ret void")

    name = f"sort{'_pairs' if has_pairs else ''}_{dtype.char}{width}"
    parameters = "ptr %keys, ptr %order, i64 %count, i64 %top, i64 %levels"
    return module.shared(f"void @{name}", parameters, write)


def _compare_all(lines: FunctionText, exchange: Callable[[str, str], None]) -> None:
    """Write the loops of the network; in Knuth's letters, p and q are powers of two, d and r."""

    def level(number: str, _: Sequence[str]) -> Sequence[str]:
        p = lines.op(f"lshr i64 %top, {number}")
        twice = lines.op(f"shl i64 {p}, 1")

        def stage(turn: str, _: Sequence[str]) -> Sequence[str]:
            is_first = lines.op(f"icmp eq i64 {turn}, 0")
            before = lines.op(f"sub i64 {turn}, 1")
            back = lines.op(f"select i1 {is_first}, i64 0, i64 {before}")
            q = lines.op(f"lshr i64 %top, {back}")
            d = lines.op(f"select i1 {is_first}, i64 {p}, i64 {lines.op(f'sub i64 {q}, {p}')}")
            r = lines.op(f"select i1 {is_first}, i64 0, i64 {p}")
            limit = lines.op(f"sub i64 %count, {d}")
            some = lines.op(f"icmp sgt i64 {limit}, {r}")
            lines.when(some, partial(blocks, p, twice, d, r, limit))
            return ()

        lines.counted(lines.op(f"add i64 {number}, 1"), stage)
        return ()

    def blocks(p: str, twice: str, d: str, r: str, limit: str) -> None:
        past = lines.op(f"sub i64 {lines.op(f'add i64 {limit}, {twice}')}, {r}")
        count = lines.op(f"udiv i64 {lines.op(f'sub i64 {past}, 1')}, {twice}")

        def block(number: str, _: Sequence[str]) -> Sequence[str]:
            begin = lines.op(f"add i64 {r}, {lines.op(f'mul i64 {number}, {twice}')}")
            end = lines.op(f"add i64 {begin}, {p}")
            stop = lines.call("i64", "llvm.smin.i64", ("i64", end), ("i64", limit))

            def pair(i: str, _: Sequence[str]) -> Sequence[str]:
                exchange(i, lines.op(f"add i64 {i}, {d}"))
                return ()

            lines.counted(stop, pair, start=begin)
            return ()

        lines.counted(count, block)

    lines.counted("%levels", level)
