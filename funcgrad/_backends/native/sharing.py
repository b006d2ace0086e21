"""Memory that is planned once, and buffers that share it.

Buffers that are alive at the same time do not overlap. The memory of outputs comes first, as far as
it is free: before an output is made, intermediate results may lie there. Behind it comes the arena.

>>> plan = MemoryPlan()
>>> plan.place(100, 0, 1), plan.place(64, 1, 2), plan.place(64, 2, 3)
(0, 128, 0)
>>> plan.size
192

A scatter whose operand nobody reads any more need not copy it, and neither does a loop whose carry
is only scattered into. Large results of elementwise operations lie where their operands lay. Where
the operand is an input of the function and the result an output, the caller chooses: it may pass
the same address for both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from heapq import heappop, heappush
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad._backends.native.native_module import NativeModule
from funcgrad._backends.native.plan_steps import (
    NativePlan,
    Nest,
    Run,
    Scattering,
    Step,
    buffers_read,
)
from funcgrad._backends.native.views import View, whole
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.structure.structures import Loop

ALIGNMENT: Final = 64

LARGE: Final = 4096
"""Arrays of so many bytes share memory where they may."""

SMALL: Final = 128
"""Arrays of so few bytes lie on the stack, from where LLVM takes them into registers: integrators
of 2 to 12 variables take 0.3 to 0.8 of the time that they take with memory."""

_FOR_EVER: Final = np.iinfo(np.int64).max


class MemoryPlan:
    """Places in memory, each for some time.

    Attributes
    ----------
    arena : int
        Where the arena begins, behind the memory of outputs.
    """

    def __init__(self) -> None:
        # Begin and end in memory, and in time, in the order of memory. Arrays, since a program of
        # 8,000 equations took 15 seconds by a loop over tuples.
        self._placed = np.empty((4, 16), np.int64)
        self._count = self.arena = 0
        self._outputs: list[tuple[int, str]] = []

    @property
    def size(self) -> int:
        """The bytes of the arena."""
        stops = self._placed[1, : self._count]
        return int(stops.max(initial=self.arena)) - self.arena

    @property
    def placed(self) -> np.ndarray[Any, Any]:
        """Where places begin and end in memory, and when in time: four rows."""
        return self._placed[:, : self._count]

    def add_output(self, name: str, size: int, begin: int) -> int:
        """Add the memory of an output, which is free until a moment; returns where it begins."""
        place = self.arena
        self._outputs.append((place, name))
        self._insert(self._count, self.arena, size, (begin, _FOR_EVER))
        self._insert(self._count, self.arena + size, ALIGNMENT, (0, _FOR_EVER))  # a wall
        self.arena = _aligned(self.arena + size + ALIGNMENT)
        return place

    def place(self, size: int, begin: int, end: int, lowest: int = 0) -> int:
        """The first place that is free from one moment to another."""
        starts, stops, born, died = self.placed
        beside = (died >= begin) & (born <= end)
        ends = np.maximum.accumulate(np.append(lowest, _aligned(stops[beside])))
        fits = np.append(starts[beside] >= ends[:-1] + size, True)
        place = int(ends[fits.argmax()])
        self._insert(int(starts.searchsorted(place)), place, size, (begin, end))
        return place

    def place_many(self, size: int, lives: Sequence[tuple[int, int]]) -> list[int]:
        """Places of one size, in the order of their begins, in a piece of memory for all of them.

        A place that is free again is found at once. ``place`` compares with all other places: of
        60,000 operations of an unrolled recurrent net's gradient it took 50 µs for each.
        """
        size, count = _aligned(size), 0
        free: list[int] = []
        taken: list[tuple[int, int]] = []
        numbers: list[int] = []
        for begin, end in lives:
            while taken and taken[0][0] < begin:
                heappush(free, heappop(taken)[1])
            if free:
                numbers.append(heappop(free))
            else:
                numbers.append(count)
                count += 1
            heappush(taken, (end, numbers[-1]))
        first = self.place(count * size, lives[0][0], max([end for _, end in lives]))
        return [first + number * size for number in numbers]

    def located(self, place: int) -> tuple[str, int]:
        """The name of the memory in which a place is, and how far from its begin."""
        if place >= self.arena:
            return "%arena", place - self.arena
        first, name = max([output for output in self._outputs if output[0] <= place])
        return name, place - first

    def _insert(self, after: int, place: int, size: int, life: tuple[int, int]) -> None:
        count = self._count
        if count == self._placed.shape[1]:
            self._placed = np.concatenate([self._placed, np.empty_like(self._placed)], axis=1)
        self._placed[:, after + 1 : count + 1] = self._placed[:, after:count]
        self._placed[:, after] = place, place + size, *life
        self._count += 1


def _aligned(place: Any) -> Any:
    """The next places at which vectors begin."""
    return -(-place // ALIGNMENT) * ALIGNMENT


@dataclass(frozen=True, slots=True)
class Sharing:
    """Which buffers of a function share memory.

    Attributes
    ----------
    roots : dict
        From buffers of intermediate results to the ones in whose memory they lie.
    in_place : dict
        From outputs to the inputs in whose memory they may lie, by their positions.
    """

    roots: dict[int, int]
    in_place: dict[int, int]


def sharing_of(plan: NativePlan, module: NativeModule) -> Sharing:
    """Find the buffers of a function that may share memory."""
    inputs, outputs = len(plan.program.inputs), {v: k for k, v in enumerate(plan.outputs)}
    first_result = inputs + len(plan.program.constants)
    last_read: dict[int, int] = {}
    for position, step in enumerate(plan.steps):
        last_read.update(dict.fromkeys(buffers_read(step, plan.views), position))
    guarded = {
        plan.views[guard.variable].buffer for guards in plan.guards.values() for guard in guards
    }
    candidates = plan.lives.keys() - guarded - outputs.keys()
    roots: dict[int, int] = {}
    in_place: dict[int, int] = {}
    for position, step in reversed([*enumerate(plan.steps)]):
        if isinstance(step, Nest):
            shared = _overwritten(step, plan, position, candidates)
            roots.update({buffer: roots.get(result, result) for buffer, result in shared})
            continue
        for operand, result in _replaced(step, plan, module):
            buffer = plan.views[operand].buffer
            if not plan.views[operand].covers(plan.specs[buffer].shape):
                continue
            is_read_again = last_read[buffer] > position
            is_read_again = is_read_again or buffers_read(step, plan.views).count(buffer) > 1
            if is_read_again or buffer in outputs or buffer in guarded:
                continue
            root = roots.get(result, result)
            if buffer >= first_result:
                roots[buffer] = root
            elif buffer < inputs and root in outputs:
                in_place[outputs[root]] = buffer
    return Sharing(roots, in_place)


def _overwritten(
    nest: Nest, plan: NativePlan, position: int, candidates: Set[int]
) -> Iterator[tuple[int, int]]:
    """Pairs of large buffers of a nest: a result may lie where an operand lies that ends there.

    Each element is read before it is overwritten, for both have elements of one size in one order.
    """
    plain = whole(0, nest.shape).broadcast(nest.shape)
    size = prod(nest.shape)

    def sizes(variable: int, view: View) -> tuple[int, int]:
        """The bytes of an element, and of the buffer."""
        dtype, spec = plan.specs[variable].dtype, plan.specs[view.buffer]
        return dtype.itemsize, prod(spec.shape) * spec.dtype.itemsize

    def is_plain(view: View) -> bool:
        return view.broadcast(nest.shape) == plain and not view.offset

    ending: dict[tuple[int, int], list[int]] = {}
    views = [view for view in nest.operands.values() if not is_plain(view)]
    elsewhere = {view.buffer for view in views}
    for variable, view in nest.operands.items():
        one, total = sizes(variable, view)
        if one * size == total >= LARGE and view.buffer in candidates:
            places = ending.setdefault((one, total), [])
            ends = plan.lives[view.buffer][1] == position
            if ends and view.buffer not in elsewhere and view.buffer not in places:
                places.append(view.buffer)
    folded = {member.variable for member in nest.members if member.folded is not None}
    for variable, view in nest.stores.items():
        begins = plan.lives[view.buffer][0] == position
        places = ending.get(sizes(variable, view), [])
        if places and begins and variable not in folded and is_plain(view):
            yield places.pop(0), view.buffer


def _replaced(step: Step, plan: NativePlan, module: NativeModule) -> Iterator[tuple[int, int]]:
    """The operands of a step that its results may take the place of, with these."""
    match step:
        case Scattering(equation=equation) if step.updates and not _may_begin_again(step, plan):
            yield equation.operands[0], step.variable
        case Run(form=Loop() as form):
            body = module.function(step.programs[0])
            for carry in range(form.carried):
                place = form.shared + carry
                if body.in_place.get(carry) == place:
                    yield step.equation.operands[place], step.variable + carry


def _may_begin_again(step: Scattering, plan: NativePlan) -> bool:
    """Whether NumPy may do all of a scatter after some of its updates: from 2**63 on."""
    indices = [step.equation.operands[index.operand] for index in step.places.indices]
    return any(plan.specs[index].dtype == "u8" for index in indices)
