"""Where the carries and the stacks of a loop lie, from step to step.

A small carry lies on the stack, from where LLVM takes it into registers. A carry that a step
changes in place stays in one place. For others three places take turns: nothing is copied, and
where the number of steps is known, the last one writes to the memory of the result.

Stacks of loops whose length depends on the data lie in memory that doubles when it is full. The
rows that a step puts down lie side by side, as a *record*, so that one piece of memory holds all
stacks of a loop. It is freed where the function ends, however it ends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate
from math import prod
from typing import Final

from funcgrad._backends.native.function_site import FunctionSite, GrowingStack
from funcgrad._backends.native.sharing import SMALL
from funcgrad._core.specs import Spec


class Carries:
    """The carries of one loop.

    Parameters
    ----------
    site : FunctionSite
    specs : sequence of Spec
    first : sequence of str
        The addresses of their first values, in the order of ``specs``.
    results : sequence of str
        The addresses of their last values.
    in_place : collection of int
        Those that a step changes in place.
    length : int, optional
        The number of steps, where it is known: one at least.

    Attributes
    ----------
    turns : list of str
        The addresses that take turns, at first: of the carries, of the carries that a step makes,
        and of the carries that the next step makes.
    may_inline : bool
        Whether LLVM may write a step out in the loop. Not where addresses take turns: it would take
        its word that a step's results lie apart from its operands for all steps at once, and read
        a carry from where the step before had something else.
    """

    def __init__(
        self,
        site: FunctionSite,
        specs: Sequence[Spec],
        first: Sequence[str],
        results: Sequence[str],
        in_place: Collection[int],
        length: int | None = None,
    ) -> None:
        self._site, self._specs, self._results = site, specs, results
        self._is_known = length is not None
        sizes = [prod(spec.shape) * spec.dtype.itemsize for spec in specs]
        small = [k for k, size in enumerate(sizes) if size <= SMALL]
        self._small = {k: (site.on_stack(sizes[k]), site.on_stack(sizes[k])) for k in small}
        self._stays = [k for k in in_place if k not in self._small]
        self._turning = [
            k for k in range(len(specs)) if k not in self._small and k not in self._stays
        ]
        for k, (now, _) in self._small.items():
            self._copy(now, first[k], k)
        for k in self._stays:
            site.moved(results[k], first[k], specs[k])
        self.may_inline = not self._turning
        starts = [first[k] for k in self._turning]
        spares = [site.scratch(sizes[k]) for k in self._turning]
        if length is None:
            others = [site.scratch(sizes[k]) for k in self._turning]
        else:
            others = [results[k] for k in self._turning]
            if length % 2:
                spares, others = others, spares
        self.turns = [*starts, *spares, *others]

    def now(self, turns: Sequence[str]) -> list[str]:
        """The addresses of the carries in a step."""
        return self._placed(0, turns[: len(self._turning)])

    def here(self, turns: Sequence[str]) -> list[str]:
        """The addresses of the carries that a step makes."""
        count = len(self._turning)
        return self._placed(1, turns[count : 2 * count])

    def after(self, turns: Sequence[str]) -> list[str]:
        """Write the end of a step; returns the addresses that take turns in the next."""
        for k, (now, made) in self._small.items():
            self._copy(now, made, k)
        count = len(self._turning)
        here, there = turns[count : 2 * count], turns[2 * count :]
        return [*here, *there, *here]

    def end(self, turns: Sequence[str]) -> None:
        """Write the end of the loop: the results lie where they belong."""
        for k, (now, _) in self._small.items():
            self._copy(self._results[k], now, k)
        if not self._is_known:
            for k, now in zip(self._turning, turns, strict=False):
                self._site.copy(self._results[k], now, self._specs[k])

    def _placed(self, turn: int, turning: Sequence[str]) -> list[str]:
        """Addresses in the order of the carries, given those that take turns."""
        places = {k: pair[turn] for k, pair in self._small.items()}
        places.update({k: self._results[k] for k in self._stays})
        places.update(zip(self._turning, turning, strict=True))
        return [places[k] for k in range(len(self._specs))]

    def _copy(self, target: str, source: str, number: int) -> None:
        """Write a copy of a small carry, which LLVM understands."""
        spec, lines = self._specs[number], self._site.lines
        size = prod(spec.shape) * spec.dtype.itemsize
        pointers = ("ptr", target), ("ptr", source)
        lines.call("void", "llvm.memcpy.p0.p0.i64", *pointers, ("i64", str(size)), ("i1", "false"))


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
        room = lines.op(f"load i64, ptr {self._room}")
        is_full = lines.op(f"icmp eq i64 {number}, {room}")
        lines.when(is_full, lambda: self._double(room))

    def _double(self, room: str) -> None:
        lines = self._site.lines
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
