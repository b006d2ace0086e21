"""Scheduling: reorder equations to reduce the peak of memory.

If many large values are computed first and then summed, all of them are in memory at once. If each
is computed when it is needed, only two are in memory.

>>> import funcgrad as fg
>>> def f(x):
...     parts = [fg.numpy.sin(x * k) for k in range(2, 20)]
...     return sum(parts)
>>> staged = fg.program(f)(fg.numpy.ones(100_000))
>>> peak_bytes(staged), peak_bytes(schedule(staged))
(15200000, 2400000)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final

from funcgrad._passes.costs import bytes_of, memory_homes, peak_bytes
from funcgrad._programs.program import Program

_WORTH_IT: Final = 2**20
"""Programs with a lower peak of memory, in bytes, keep their order: they fit into caches."""

_GAIN: Final = 0.95
"""A new order is used only if its peak of memory is at most this fraction of the old peak."""


def schedule(program: Program) -> Program:
    """Reorder a program's equations to reduce the peak of memory, if that is possible.

    Returns the same object if it needs little memory, or if the new order is hardly better. Guards
    are checked in their old order, each before all equations that came after it.

    Examples
    --------
    >>> import funcgrad as fg
    >>> small = fg.program(lambda x: x * 2.0 + x)(1.0)
    >>> schedule(small) is small
    True
    """
    least = peak_bytes(program)
    while least > _WORTH_IT:
        order, peak = memory_order(program)
        if peak > _GAIN * least:
            break
        program, least = reordered(program, order), peak  # repeat while that helps
    return program


def reordered(program: Program, order: Sequence[int]) -> Program:
    """Put a program's equations in the order of these positions.

    An equation has to come after the equations whose results it reads.
    """
    results = program.index.results
    new = count(program.index.first_result)
    moved = list(range(len(program.specs())))
    for position in order:
        for variable in results[position]:
            moved[variable] = next(new)
    equations = []
    for position in order:
        equation = program.equations[position]
        equations.append(equation.on(tuple([moved[v] for v in equation.operands])))
    return replace(
        program,
        equations=tuple(equations),
        outputs=tuple([moved[variable] for variable in program.outputs]),
        guards=tuple([replace(g, variable=moved[g.variable]) for g in program.guards]),
    )


def memory_order(program: Program) -> tuple[list[int], int]:
    """Find an order of a program's equations that frees memory early; also its ``peak_bytes``.

    Of the equations whose operands are computed, the next one frees the most memory, minus the
    memory that it allocates. Ties go by a depth-first walk from the outputs, so the terms of a sum
    are computed in the order in which they are added. This is a heuristic; finding the best order
    would take too long.
    """
    before = _dependencies(program)
    after: list[list[int]] = [[] for _ in before]
    for position, places in enumerate(before):
        for place in places:
            after[place].append(position)
    ranks = _ranks(before, after)
    waiting = [len(places) for places in before]
    memory = _Memory(program)
    growth = memory.growth
    ready = [(growth[k], ranks[k], k) for k, left in enumerate(waiting) if not left]
    heapify(ready)
    order: list[int] = []
    while ready:
        position = heappop(ready)[2]
        if waiting[position] < 0:  # it has run: it was pushed twice because its growth changed
            continue
        waiting[position] = -1
        order.append(position)
        for better in memory.note_run(position):
            if not waiting[better]:
                heappush(ready, (growth[better], ranks[better], better))
        for follower in after[position]:
            waiting[follower] -= 1
            if not waiting[follower]:
                heappush(ready, (growth[follower], ranks[follower], follower))
    return order, memory.peak


def _dependencies(program: Program) -> list[list[int]]:
    """For each equation, the equations that have to come before it, without duplicates."""
    guarded, makers, results = program.index.guarded, program.index.makers, program.index.results
    dependencies: list[list[int]] = []
    barrier = call = -1
    earlier: list[tuple[int, int]] = []  # epochs and positions; both increase
    for position, equation in enumerate(program.equations):
        before = [makers[variable] for variable in equation.operands]
        # An equation after a guard may fail, or take long, if the guard fails.
        before.append(barrier)
        if equation.operation.is_foreign:  # a user's code, which may print
            before.append(call)
            call = position
        # Work that is repeated comes late, so that the two results are not alive at once.
        while earlier and earlier[-1][0] >= equation.epoch:
            earlier.pop()
        if earlier:
            before.append(earlier[-1][1])
        earlier.append((equation.epoch, position))
        dependencies.append([place for place in dict.fromkeys(before) if place >= 0])
        if any(variable in guarded for variable in results[position]):
            barrier = position
    return dependencies


def _ranks(before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> list[int]:
    """The place of each equation in depth-first order: right after the equations that it needs.

    The walk starts from the equations without readers; it is not recursive.
    """
    ranks = [-1] * len(before)
    ranked = 0
    for end in range(len(before)):
        path = [] if after[end] else [(end, iter(before[end]))]
        while path:
            position, places = path[-1]
            for place in places:
                if ranks[place] < 0:
                    path.append((place, iter(before[place])))
                    break
            else:
                path.pop()
                ranks[position] = ranked
                ranked += 1
    return ranks


class _Memory:
    """How many bytes each equation would add to memory if it ran next (``growth``).

    A value is freed once the equation that makes it and all equations that read it have run. The
    last of these frees it. To find that equation, each value has the number of these equations
    that have not run yet, and the sum of their positions.
    """

    __slots__ = ("_alive", "_left", "_made", "_places", "_sizes", "_touched", "growth", "peak")

    def __init__(self, program: Program) -> None:
        homes = memory_homes(program)
        number = first_result = program.index.first_result
        self.peak = self._alive = 0
        self._left = [0] * len(homes)
        self._places = [0] * len(homes)
        self._sizes = [0] * len(homes)
        self._touched: list[set[int]] = []
        self._made: list[int] = []
        for position, equation in enumerate(program.equations):
            touched = {homes[variable] for variable in equation.operands}
            made = 0
            for spec in equation.results:
                if homes[number] == number:
                    touched.add(number)
                    self._sizes[number] = bytes_of(spec)
                    made += self._sizes[number]
                number += 1
            for home in touched:
                self._left[home] += 1
                self._places[home] += position
            self._touched.append(touched)
            self._made.append(made)
        self.growth = list(self._made)
        for variable in [*range(first_result), *program.outputs]:
            self._left[homes[variable]] += 2  # keeps it above 1: the value is never freed
        for home, left in enumerate(self._left):
            if left == 1:  # it has no readers
                self.growth[self._places[home]] -= self._sizes[home]

    def note_run(self, position: int) -> list[int]:
        """Record that an equation has run; return the equations whose growth has decreased."""
        self.peak = max(self.peak, self._alive + self._made[position])
        self._alive += self.growth[position]
        better = []
        for home in self._touched[position]:
            self._left[home] -= 1
            self._places[home] -= position
            if self._left[home] == 1:
                last = self._places[home]
                self.growth[last] -= self._sizes[home]
                better.append(last)
        return better
