"""Nests that threads share: each does ranges of a loop.

No result depends on the thread that computes it. Elements are computed one by one. A reduction
along the shared loop collects each of its parts, a row or a block of elements, in memory, and
combines them in their order, as a nest that nobody shares does in registers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Final

from funcgrad._backends.native.function_site import RANGES, FunctionSite
from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.instructions import Value
from funcgrad._backends.native.nests import BLOCK, NestWriter
from funcgrad._backends.native.plan_steps import Nest
from funcgrad._backends.native.registers import Registers
from funcgrad._base.fast_dataclass import dataclass

_BYTES: Final = 200
"""The bytes of results that a processor computes in a nanosecond."""

_OF_MEMORY: Final = 2
_OF_FUNCTIONS: Final = 16
"""How many times as long it takes to read or write a number in the cache, or to call a function."""

_FEW: Final = 4096
"""The elements of a nest that never takes long enough to be shared."""

_PARTS: Final = 64
"""The number of parts from which on several threads have some each."""

_LONG_ROW: Final = 1 << 15
"""The elements of a row from which on halves of rows are read as quickly as whole rows."""

_LONG_PART: Final = 64
"""The elements of a row that are worth a place in memory for their sum."""


@dataclass(frozen=True, slots=True)
class Cut:
    """How a nest comes apart into parts, which can be done in any order.

    Attributes
    ----------
    loop : int
        Parts are steps of this loop; of the innermost one vectors, or blocks that are summed.
    count : int
        How many parts there are.
    record : int
        The bytes that reductions collect in a part; they are combined in the order of parts.
    """

    loop: int
    count: int
    record: int


def write_whole(
    site: FunctionSite, nest: Nest, lines: FunctionText, pointer: Callable[[int], str]
) -> Cut | None:
    """Write a nest for one thread, given the addresses of buffers.

    Returns
    -------
    Cut or None
        How several threads share it, if that pays: then these lines are of no use.
    """
    plan, module = site.plan, site.module
    facts = plan.specs, pointer, plan.numbers.get, module.bits, site.number > 0
    writer = _NestPart(lines, nest, *facts)
    writer.write()
    if prod(nest.shape) < _FEW or not site.is_shared(writer.bytes_computed / _BYTES):
        return None
    cut = writer.cut(_PARTS)
    if cut is None or not writer.reads_pieces(cut):
        return cut
    return cut if site.is_shared(writer.bytes_of_functions / _BYTES) else None


def write_ranges(
    site: FunctionSite, nest: Nest, cut: Cut, pointer: Callable[[int], str], known: Sequence[str]
) -> str:
    """Write a function for ranges of a nest; returns its name.

    Parameters
    ----------
    site : FunctionSite
    nest : Nest
    cut : Cut
    pointer : callable
        The address of a buffer, by its variable.
    known : sequence of str
        The addresses that the function knows; last the place of what reductions collect.
    """
    plan, module = site.plan, site.module
    lines, name = FunctionText(module.arithmetic, module.definitions), f"range{len(module.texts)}"
    writer = _NestRange(lines, nest, plan.specs, pointer, plan.numbers.get, module.bits)
    writer.write_range(cut, known[-1])
    lines.emit("ret void")
    # Nobody writes what another range reads, so that LLVM may keep what it has read.
    written = {pointer(view.buffer) for view in nest.stores.values()}
    words = ["ptr noalias" if address in written else "ptr" for address in known]
    addresses = [f"{word} {address}" for word, address in zip(words, known, strict=True)]
    parameters = ", ".join(["i64 %begin", "i64 %end", *addresses])
    module.add(f"define internal void @{name}({parameters}) alwaysinline nounwind", lines)
    call = site.lines.inside()
    call.emit(f"call void @{name}({parameters.replace('noalias ', '')})")
    return site.add_work(call, known)


def write_shared(
    site: FunctionSite, nest: Nest, cut: Cut, function: str, known: Sequence[str]
) -> None:
    """Write a nest that threads share, given the function for its ranges."""
    plan, module = site.plan, site.module
    totals = _NestTotals(site.lines, nest, plan.specs, site.pointer, plan.numbers.get, module.bits)
    records = site.shared_scratch(cut.count * cut.record) if cut.record else "null"
    totals.begin()
    # In the rows of an outer loop each thread does one piece, for short pieces take twice as long.
    ranges = 1 if cut.loop else RANGES
    site.call_shared(function, [*known, records], cut.count, ranges)
    totals.write_totals(cut, records)


class _NestPart(NestWriter):
    """Writes a part of a nest."""

    @property
    def bytes_computed(self) -> int:
        """The bytes of all results; reading an element counts as computing several."""
        sizes = sum([self.specs[member.variable].dtype.itemsize for member in self.nest.members])
        memory = sum([array.dtype.itemsize for array in self.arrays.values()])
        return prod(self.nest.shape) * (sizes + _OF_MEMORY * memory) + self.bytes_of_functions

    @property
    def bytes_of_functions(self) -> int:
        """The bytes that are computed while the functions run that it calls."""
        widest = max([self.specs[member.variable].dtype.itemsize for member in self.nest.members])
        return prod(self.nest.shape) * _OF_FUNCTIONS * widest * len(self._lines.uses)

    def reads_pieces(self, cut: Cut) -> bool:
        """Whether each part reads short pieces of rows.

        To read half of each row takes as long as to read all of them, if the rows are short.
        """
        return cut.loop > 0 and prod(self.extents[cut.loop :]) < _LONG_ROW

    def cut(self, wanted: int) -> Cut | None:
        """The cut of the outermost loop that has as many parts as wanted, or else of the most."""
        cuts, last = [], len(self.extents) - 1
        for loop, extent in enumerate(self.extents):
            folds = [v for v, loops in self.reduced.items() if loop in loops]
            if loop == last and self._has_columns:
                continue
            if not folds:
                cuts.append(Cut(loop, extent if loop < last else extent // self._width, 0))
            elif not loop and not any(map(self._in_registers, folds)) and self._has_long_parts:
                count = extent if last else -(-self._full // BLOCK)
                cuts.append(Cut(loop, count, sum(map(self._record_size, folds))))
        several = [cut for cut in cuts if cut.count > 1]
        enough = [cut for cut in several if cut.count >= wanted]
        return enough[0] if enough else max(several, key=lambda cut: cut.count, default=None)

    @property
    def _has_long_parts(self) -> bool:
        """Whether what a part collects is little beside what it reads."""
        return len(self.extents) == 1 or prod(self.extents[1:]) >= _LONG_PART

    @property
    def _width_of_parts(self) -> int:
        return self._gathering.width if len(self.extents) > 1 else self._width

    def _record_size(self, variable: int) -> int:
        """The bytes that a reduction collects in a part."""
        return -(-self._width_of_parts * self.dtype_of_total(variable).itemsize // 8) * 8

    def _recorded(self, records: str, index: str) -> dict[int, str]:
        """The addresses of the values that reductions collect in a part."""
        sizes = {v: self._record_size(v) for v in self._starting(0)}
        offset = self._lines.op(f"mul i64 {index}, {sum(sizes.values())}")
        places, record = {}, self._lines.address(records, offset)
        for variable, size in sizes.items():
            places[variable] = record
            record = self._lines.address(record, size)
        return places

    def begin(self) -> None:
        """Write the beginnings of reductions that are collected in memory."""
        self._begin()


class _NestRange(_NestPart):
    """Writes the parts from one to another."""

    _loop = -1

    def write_range(self, cut: Cut, records: str) -> None:
        """Write the parts from ``%begin`` to ``%end``."""
        if not cut.record:
            self._loop = cut.loop
            self._loops(0, self._pointers, {})
            return

        def one(index: str, _: Sequence[str]) -> Sequence[str]:
            lanes, pointers = Registers(self._lines, self._width_of_parts), self._pointers
            if len(self.extents) > 1:
                collected = self._step(index, pointers)
            else:
                collected = self._block(index, self._full, self._starting(0), pointers)
            places = self._recorded(records, index)
            for variable, value in collected.items():
                lanes.store(places[variable], value)
            return ()

        self._lines.counted("%end", one, start="%begin")

    def _bounds(self, place: int) -> tuple[str | int, str | int]:
        return ("%begin", "%end") if place == self._loop else super()._bounds(place)

    def _inner(
        self, pointers: Mapping[int, str], collected: Mapping[int, Value]
    ) -> dict[int, Value]:
        """Write the innermost loop: where it is shared some vectors, then the rest."""
        if self._loop != len(self.extents) - 1:
            return super()._inner(pointers, collected)
        lines, width, full, extent = self._lines, self._width, self._full, self.extents[-1]
        start, stop = [lines.op(f"mul i64 {place}, {width}") for place in ("%begin", "%end")]
        self._swept(Registers(lines, width), start, stop, pointers, {})
        if full < extent:
            left = partial(self._swept_left, pointers, {})
            lines.when(lines.op(f"icmp eq i64 {stop}, {full}"), left)
        return {}


class _NestTotals(_NestPart):
    """Combines the values that all parts have collected."""

    _records = ""

    def write_totals(self, cut: Cut, records: str) -> None:
        """Combine the values that parts have collected."""
        if cut.record:
            self._records = records
            self._loops(0, self._pointers, {})

    def _in_order(
        self,
        count: int,
        width: int,
        names: Sequence[int],
        write_part: Callable[[str], dict[int, Value]],
    ) -> dict[int, Value]:
        if not self._records:
            return super()._in_order(count, width, names, write_part)

        def collected(index: str) -> dict[int, Value]:
            places, lanes = self._recorded(self._records, index), Registers(self._lines, width)
            return {v: lanes.load(place, self.dtype_of_total(v)) for v, place in places.items()}

        return super()._in_order(count, width, names, collected)
