"""Slots of memory for large intermediate results; results share one if their lives do not overlap.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> from funcgrad.backends.numpy.plan import plan_of
>>> x = fnp.ones((500, 500))
>>> plan = plan_of(fg.program(lambda x: ((x @ x) @ x) @ x)(x))
>>> plan.slots  # the second product is read while the third is made, and the first is not any more
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
    """A variable that may lie in a slot, and the first and the last step that makes or reads it."""

    variable: int
    spec: Spec
    start: int
    end: int

    @property
    def size(self) -> int:
        """In bytes."""
        return prod(self.spec.shape) * self.spec.dtype.itemsize


def takes_a_place(equation: Equation, is_plain: bool) -> bool:
    """Whether the function that evaluates an equation can write its result into given memory."""
    traits = equation.operation.traits
    return is_plain or (Trait.WRITES_INTO in traits and len(equation.results[0].shape) > 1)


def leaving(lives: Sequence[Life], end: int, least: int) -> frozenset[int]:
    """The variables whose memory leaves the program; parameters as those of ``slots_of``."""
    return frozenset([life.variable for life in lives if life.size >= least and life.end >= end])


def slots_of(lives: Sequence[Life], end: int, least: int) -> Mapping[int, int]:
    """The slot of each variable.

    Parameters
    ----------
    lives : sequence of Life
        In the order in which they start.
    end : int
        The step of the outputs: a variable that is alive then leaves the program without a slot.
    least : int
        Bytes from which on a slot is worth it: the C library may give memory of that size back to
        the system as soon as it is free.

    Notes
    -----
    A variable takes the free slot whose size fits best; a smaller slot grows, since all slots are
    made at once. A step does not write into memory that it reads.
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
