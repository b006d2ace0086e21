"""Stacks of loops whose length depends on the data: rows in memory that doubles when it is full.

The rows that a step puts down lie side by side, as a *record*, so that one piece of memory holds
all stacks of a loop. It is freed where the function ends, however it ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate
from math import prod
from typing import Final

from funcgrad._backends.native.function_site import FunctionSite, GrowingStack
from funcgrad._core.specs import Spec

_ALIGNMENT: Final = 16

_FEWEST: Final = 16
_BYTES: Final = 4096
"""The fewest records that memory is asked for at first, and how many bytes if more fit in them."""


class GrowingStacks:
    """The stacks of one loop.

    Parameters
    ----------
    site : FunctionSite
    specs : sequence of Spec
        Of the rows.
    length : str, optional
        The number of steps, where it is known when the loop begins.
    """

    def __init__(self, site: FunctionSite, specs: Sequence[Spec], length: str | None) -> None:
        self._site, self._length = site, length
        sizes = [
            -(-prod(spec.shape) * spec.dtype.itemsize // _ALIGNMENT) * _ALIGNMENT for spec in specs
        ]
        *self._offsets, self._record = accumulate(sizes, initial=0)
        self._memory = site.held() if specs else ""
        self._count = site.lines.room("i64", "0") if specs else ""
        self._room = site.lines.room("i64", "0") if specs and length is None else ""
        if specs and length is not None:
            size = site.lines.op(f"mul i64 {length}, {max(self._record, 1)}")
            size = site.lines.op(f"add i64 {size}, 1")  # no memory would look like refused memory
            memory = site.lines.call("ptr", "malloc", ("i64", size))
            site.lines.emit(f"store ptr {memory}, ptr {self._memory}")
            site.require(memory)

    def rows(self, number: str) -> list[str]:
        """Write the addresses of the rows of a step; where memory is full, it grows first."""
        lines = self._site.lines
        if not self._offsets:
            return []
        if self._length is None:
            self._grow(number)
        memory = lines.op(f"load ptr, ptr {self._memory}")
        return [stack.row(lines, memory, number) for stack in self._stacks]

    def end(self, count: str, variables: Iterable[int]) -> None:
        """Note how many steps there were; the stacks are then the values of these variables."""
        if self._offsets:
            self._site.lines.emit(f"store i64 {count}, ptr {self._count}")
        self._site.stacks.update(zip(variables, self._stacks, strict=True))

    @property
    def _stacks(self) -> list[GrowingStack]:
        return [
            GrowingStack(self._memory, self._count, self._record, offset)
            for offset in self._offsets
        ]

    def _grow(self, number: str) -> None:
        lines = self._site.lines
        full, after = lines.fresh_label("full"), lines.fresh_label("fits")
        room = lines.op(f"load i64, ptr {self._room}")
        lines.branch(lines.op(f"icmp eq i64 {number}, {room}"), full, after)
        lines.begin_block(full)
        fewest = max(_FEWEST, _BYTES // max(self._record, 1))
        is_new = lines.op(f"icmp eq i64 {room}, 0")
        twice = lines.op(f"shl i64 {room}, 1")
        count = lines.op(f"select i1 {is_new}, i64 {fewest}, i64 {twice}")
        size = lines.op(f"mul i64 {count}, {max(self._record, 1)}")
        before = lines.op(f"load ptr, ptr {self._memory}")
        memory = lines.call("ptr", "realloc", ("ptr", before), ("i64", size))
        self._site.require(memory)
        lines.emit(f"store ptr {memory}, ptr {self._memory}")
        lines.emit(f"store i64 {count}, ptr {self._room}")
        lines.jump(after)
        lines.begin_block(after)
