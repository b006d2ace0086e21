"""Folds as text, where elements have an order: cumulative operations, and places of extrema.

Lanes of a vector go along neighbours across the axis. Where there are none, they go along rows: a
cumulative operation waits for the element before, so several rows at once take less time. The fold
of a long row cuts it into as many pieces as there are lanes, and then folds the results of the
pieces, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from funcgrad._backends.native.call_text import call_back_at
from funcgrad._backends.native.function_site import FunctionSite
from funcgrad._backends.native.indexed_text import in_vectors
from funcgrad._backends.native.instructions import Value, memory_type, part_of
from funcgrad._backends.native.lanes import Lanes
from funcgrad._backends.native.plan_steps import FinitePass, Folding, Scanning
from funcgrad._backends.native.registers import Registers
from funcgrad._backends.native.views import carried, scanned_along

_INT64 = np.dtype(np.int64)

_Element = Callable[[Lanes, str], "list[Value]"]
"""Reads the elements of all operands at a position along the axis."""


def write_scanning(site: FunctionSite, step: Scanning) -> None:
    """Write a cumulative operation."""
    lines, spec = site.lines, site.plan.specs[step.variable]
    writer, axis = _FoldWriter(site, step), step.axis
    shape = prod(spec.shape[:axis]), spec.shape[axis], prod(spec.shape[axis + 1 :])
    rows, count, inner = shape
    target, strides = site.pointer(step.variable), (count * inner, inner, 1)
    sources = [scanned_along(site.plan.views[v], axis) for v in step.equation.operands]
    checks = writer.has_parts and spec.dtype.kind in "fc"
    beyond = lines.fresh_label("beyond")
    by_rows = inner == 1 and spec.dtype.kind == "f"
    across = 0 if by_rows else 2  # lanes go along rows, or along neighbours

    def place(along: Sequence[int], at: Sequence[str]) -> str:
        terms = [lines.op(f"mul i64 {k}, {by}") for k, by in zip(at, along, strict=True) if by]
        total = "0"
        for term in terms:
            total = term if total == "0" else lines.op(f"add i64 {total}, {term}")
        return total

    def lane(lanes: Lanes, row: str, neighbour: str) -> None:
        def at(along: Sequence[int], position: str) -> str:
            return place(along, (row, position, neighbour))

        def turned(position: str) -> str:
            return lines.op(f"sub i64 {count - 1}, {position}") if step.reverse else position

        def read(m: Lanes, position: str) -> list[Value]:
            position = turned(position)
            return writer.read(
                m,
                [at(along or strides, position) for along in sources],
                [(along or strides)[across] for along in sources],
            )

        def put(position: str, state: Sequence[Value]) -> None:
            element = lanes.astype(writer.element(lanes, state), spec.dtype)
            if checks:
                _leave_unless_finite(lanes, element, beyond)
            there = lines.address(target, at(strides, turned(position)), memory_type(spec.dtype))
            if strides[across] == 1 or lanes.width == 1:
                lanes.store(there, element)
            else:
                lanes.scattered(there, element, strides[across])

        writer.follow(lanes, read, count, put)

    def row(index: str, _: Sequence[str]) -> Sequence[str]:
        in_vectors(site, inner, writer.widest, lambda lanes, k: lane(lanes, index, k))
        return ()

    site.work += prod(shape)
    if by_rows:  # a sum waits for the one before for four cycles
        in_vectors(site, rows, 2 * writer.widest, lambda lanes, k: lane(lanes, k, "0"))
    else:
        lines.counted(rows, row)
    if checks:
        call_back_at(site, step, beyond, "a result that is not finite")


def write_finite_pass(site: FunctionSite, step: FinitePass) -> None:
    """Write the copy of an operand; if some elements are not finite, a call back instead."""
    lines, spec = site.lines, site.plan.specs[step.variable]
    source, target = site.at(step.equation.operands[0]), site.pointer(step.variable)
    beyond = lines.fresh_label("beyond")

    def move(lanes: Lanes, place: str) -> None:
        element = lanes.load(source, spec.dtype, place)
        _leave_unless_finite(lanes, element, beyond)
        lanes.store(target, element, place)

    site.work += prod(spec.shape)
    in_vectors(site, prod(spec.shape), spec.dtype.itemsize, move)
    call_back_at(site, step, beyond, "a result that is not finite")


def _leave_unless_finite(lanes: Lanes, element: Value, label: str) -> None:
    """Leave a loop for a label where an element overflows: NumPy may have a way around that."""
    lines = lanes.lines
    lines.leave_unless(lanes.every(lanes.isfinite(element)).text, label)


def write_folding(site: FunctionSite, step: Folding) -> None:
    """Write a reduction whose elements have an order.

    Products of complex numbers that are not finite depend on the order, and are called back.
    """
    lines, shape = site.lines, site.plan.specs[step.equation.operands[0]].shape
    dtype = site.plan.specs[step.variable].dtype
    writer = _FoldWriter(site, step)
    count = prod(shape[step.axis : step.axis + step.rank])
    inner = prod(shape[step.axis + step.rank :])
    target = site.pointer(step.variable)
    beyond = lines.fresh_label("beyond")

    def put(lanes: Lanes, number: str, state: Sequence[Value]) -> None:
        element = lanes.astype(writer.element(lanes, state), dtype)
        if dtype.kind == "c":
            _leave_unless_finite(lanes, element, beyond)
        lanes.store(target, element, number)

    def rows(lanes: Lanes, index: str) -> None:
        base = lines.op(f"mul i64 {index}, {count}")

        def read(m: Lanes, position: str) -> list[Value]:
            return writer.read_at(m, lines.op(f"add i64 {base}, {position}"), count)

        put(lanes, index, writer.follow(lanes, read, count))

    def outer(index: str, _: Sequence[str]) -> Sequence[str]:
        base = lines.op(f"mul i64 {index}, {count * inner}")
        if inner == 1:
            put(Registers(lines, 1), index, writer.folded_in_pieces(base, count))
            return ()
        first = lines.op(f"mul i64 {index}, {inner}")

        def lane(lanes: Lanes, k: str) -> None:
            def read(m: Lanes, position: str) -> list[Value]:
                place = lines.op(f"add i64 {base}, {lines.op(f'mul i64 {position}, {inner}')}")
                return writer.read_at(m, lines.op(f"add i64 {place}, {k}"))

            put(lanes, lines.op(f"add i64 {first}, {k}"), writer.follow(lanes, read, count))

        in_vectors(site, inner, writer.widest, lane)
        return ()

    site.work += prod(shape)
    if inner == 1 and not writer.cuts(count):
        in_vectors(site, prod(shape[: step.axis]), writer.widest, rows)
    else:
        lines.counted(prod(shape[: step.axis]), outer)
    if dtype.kind == "c":
        call_back_at(site, step, beyond, "a result that is not finite")


class _FoldWriter:
    """Writes the states of a fold."""

    def __init__(self, site: FunctionSite, step: Scanning | Folding) -> None:
        self._site, self._fold, self._step = site, step.fold, step
        self._dtype = site.plan.specs[step.variable].dtype
        operands = step.equation.operands
        self._dtypes = [site.plan.specs[v].dtype for v in operands]
        self._sources = [site.at(v) for v in operands]
        state = self._state(
            Registers(site.lines, 1), "0", self.read_at(Registers(site.lines, 1), "0")
        )
        self._parts = [number.dtype for number in state]
        self.has_parts = len(state) > 1
        dtypes = (*self._dtypes, *self._parts, self._dtype)
        widths = [part_of(dtype).itemsize for dtype in dtypes]
        self.widest = max(widths)

    def read(self, lanes: Lanes, places: Sequence[str], apart: Sequence[int]) -> list[Value]:
        """Read elements of all operands, from a place on and so many apart."""
        elements = []
        known = zip(self._sources, self._dtypes, places, apart, strict=True)
        for source, dtype, place, stride in known:
            there = lanes.lines.address(source, place, memory_type(dtype))
            if stride == 1 or lanes.width == 1:
                elements.append(lanes.load(there, dtype))
            else:
                elements.append(lanes.gathered(there, dtype, stride))
        return elements

    def read_at(self, lanes: Lanes, place: str, apart: int = 1) -> list[Value]:
        """Read elements of all operands from the same place on."""
        count = len(self._sources)
        return self.read(lanes, [place] * count, [apart] * count)

    def _state(self, lanes: Lanes, position: str, elements: Sequence[Value]) -> list[Value]:
        place = lanes.splat(Value(position, _INT64, lanes.single))
        return parts_of(self._fold.of(lanes, self._dtype, place, *elements))

    def element(self, lanes: Lanes, state: Sequence[Value]) -> Value:
        """The element of the result for a state."""
        return self._fold.element(lanes, self._joined(state))

    def _joined(self, state: Sequence[Value]) -> Any:
        return tuple(state) if self.has_parts else state[0]

    def _combined(
        self, lanes: Lanes, earlier: Sequence[Value], later: Sequence[Value]
    ) -> list[Value]:
        both = self._fold.combine(lanes, self._joined(earlier), self._joined(later))
        pairs = zip(parts_of(both), self._parts, strict=True)
        return [lanes.astype(number, dtype) for number, dtype in pairs]

    def follow(
        self,
        lanes: Lanes,
        read: _Element,
        count: int,
        put: Callable[[str, Sequence[Value]], None] | None = None,
        start: int = 0,
        state: Sequence[Value] | None = None,
    ) -> list[Value]:
        """Write a loop that folds one element after the other; returns the last state.

        Parameters
        ----------
        lanes : Lanes
        read : callable
        count : int
            The position at which it ends.
        put : callable, optional
            Is given each position, and the state there.
        start : int
        state : sequence of Value, optional
            The first state; else the state of the first element.
        """
        if state is None:
            first = str(start)
            state, start = self._state(lanes, first, read(lanes, first)), start + 1
            if put is not None:
                put(first, state)
        if start >= count:
            return list(state)

        def one(position: str, before: Sequence[Value]) -> list[Value]:
            here = self._state(lanes, position, read(lanes, position))
            after = self._combined(lanes, before, here)
            if put is not None:
                put(position, after)
            return after

        return self._repeated(count, one, state, start)

    def _repeated(
        self,
        count: int,
        body: Callable[[str, Sequence[Value]], list[Value]],
        state: Sequence[Value],
        start: int,
    ) -> list[Value]:
        """Write a loop that carries a state."""

        def one(position: str, before: dict[int, Value]) -> dict[int, Value]:
            return dict(enumerate(body(position, list(before.values()))))

        first = dict(enumerate(state))
        return list(carried(self._site.lines, count, one, first, start=start).values())

    def cuts(self, count: int) -> bool:
        """Whether a row of so many elements is long enough to be cut."""
        width = self._site.module.bits // 8 // self.widest
        return width > 1 and count >= 4 * width

    def folded_in_pieces(self, base: str, count: int) -> list[Value]:
        """Write the fold of elements that lie side by side; each lane has a piece of the axis."""
        lines, single = self._site.lines, Registers(self._site.lines, 1)
        width = self._site.module.bits // 8 // self.widest

        def read(lanes: Lanes, position: str) -> list[Value]:
            return self.read_at(lanes, lines.op(f"add i64 {base}, {position}"))

        size, lanes = count // width, Registers(lines, width)
        steps = [size * lane for lane in range(width)]

        def state_at(position: str) -> list[Value]:
            place = lines.op(f"add i64 {base}, {position}")
            elements = self.read_at(lanes, place, size)
            along = lanes.splat(Value(position, _INT64, lanes.single))
            places = along + lanes.listed(steps, _INT64)
            return parts_of(self._fold.of(lanes, self._dtype, places, *elements))

        def one(position: str, before: Sequence[Value]) -> list[Value]:
            return self._combined(lanes, before, state_at(position))

        total = self._across(lanes, self._repeated(size, one, state_at("0"), 1))
        return self.follow(single, read, count, start=size * width, state=total)

    def _across(self, lanes: Lanes, state: Sequence[Value]) -> list[Value]:
        """Fold the states of all lanes, from the first to the last."""
        single = Registers(lanes.lines, 1)
        total = self._lane(single, state, 0)
        for lane in range(1, lanes.width):
            total = self._combined(single, total, self._lane(single, state, lane))
        return total

    def _lane(self, single: Lanes, state: Sequence[Value], lane: int) -> list[Value]:
        return [single.lane(number, lane) for number in state]


def parts_of(state: Value | Sequence[Value]) -> list[Value]:
    """The values of a state."""
    return [state] if isinstance(state, Value) else list(state)
