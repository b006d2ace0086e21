"""Slots of memory for large intermediate results; two whose lives do not overlap may share one.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> from funcgrad.backends.numpy.plan import plan_of
>>> x = fnp.ones((500, 500))
>>> plan = plan_of(fg.program(lambda x: ((x @ x) @ x) @ x)(x))
>>> plan.slots  # variables 1 and 2; the last product is returned, and has no slot
{1: 0, 2: 1}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heappop, heappush
from math import prod

from funcgrad.programs.equation import Equation
from funcgrad.quick_dataclasses import dataclass
from funcgrad.shape import Spec
from funcgrad.structure import Trait


@dataclass(frozen=True, slots=True)
class Life:
    """A variable that may have a slot, the step that makes it, and the last step that reads it."""

    variable: int
    spec: Spec
    start: int
    end: int

    @property
    def size(self) -> int:
        """The variable's size in bytes."""
        return prod(self.spec.shape) * self.spec.dtype.itemsize


def takes_a_place(equation: Equation, is_plain: bool) -> bool:
    """Whether an equation can be evaluated into existing memory, as by ``out=``."""
    traits = equation.operation.traits
    return is_plain or (Trait.WRITES_INTO in traits and len(equation.results[0].shape) > 1)


def leaving(lives: Sequence[Life], end: int, least: int) -> frozenset[int]:
    """The large variables whose memory is returned; for the parameters see ``slots_of``."""
    return frozenset([life.variable for life in lives if life.size >= least and life.end >= end])


def slots_of(lives: Sequence[Life], end: int, least: int) -> Mapping[int, int]:
    """Choose a slot for each large intermediate variable.

    Parameters
    ----------
    lives : sequence of Life
        Sorted by their start.
    end : int
        The step of the outputs: a variable that is still alive then is returned, and gets no slot.
    least : int
        The least size of a variable with a slot, in bytes: the C library may return memory of that
        size to the system as soon as it is freed.

    Notes
    -----
    A variable takes the free slot whose size fits best; a smaller slot grows, since all slots are
    allocated at once. A step does not write into memory that it reads.
    """
    free: list[tuple[int, int]] = []  # sizes, with slots
    busy: list[tuple[int, int, int]] = []  # last steps, with sizes and slots
    slots: dict[int, int] = {}
    count = 0
    for life in lives:
        if life.size < least or life.end >= end:
            continue
        while busy and busy[0][0] < life.start:
            _, size, slot = heappop(busy)
            free.append((size, slot))
        if free:
            best = min(free, key=lambda free_slot: abs(free_slot[0] - life.size))
            free.remove(best)
            size, slot = max(best[0], life.size), best[1]
        else:
            size, slot = life.size, count
            count += 1
        slots[life.variable] = slot
        heappush(busy, (life.end, size, slot))
    return slots
