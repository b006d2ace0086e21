"""A checker of plans: it proves that no step reads or writes memory that it must not.

``Program.verify`` does so for programs. The environment variable ``FUNCGRAD_VERIFY=1`` has every
plan checked before its function is written; tests of this backend set it. In a plan that conforms

- each element is written before a step reads it, and each output and guard is whole;
- every view lies within its buffer, whatever integers select places;
- bits of elements, which copies read, are only copied;
- arguments and constants are never written, and neither is a value that a step has read;
- two buffers lie in one place of memory only where the first one has been read for the last time
  when the second one begins. In one step, a result may take the place of an operand if each element
  is read before it is overwritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf, prod
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._backends.native.plan_steps import (
    COPY,
    Elimination,
    FactorUse,
    Gathering,
    MatrixProduct,
    NativePlan,
    Nest,
    Run,
    Scanning,
    Scattering,
    Step,
    buffers_read,
)
from funcgrad._backends.native.same_bits import AddingLoop
from funcgrad._backends.native.sharing import Sharing
from funcgrad._backends.native.views import View, whole
from funcgrad._backends.native.window_steps import WindowProduct
from funcgrad._core.structure.structures import Loop

Access: TypeAlias = tuple[View, int]
"""A view that a step reads or writes, and the bytes of an element."""


_STRIDED: Final = (AddingLoop, Elimination, FactorUse, MatrixProduct, Scanning)
"""Steps that read views of any strides."""


class PlanError(Exception):
    """A plan that would read or write memory that it must not."""


def check_plan(plan: NativePlan) -> None:
    """Raise ``PlanError`` unless a plan conforms, wherever its buffers lie."""
    checker = _Checker(plan)
    checker.check_guards(-1)
    for position, step in enumerate(plan.steps):
        checker.check_step(position, step)
        checker.check_guards(position)
    checker.check_outputs()
    for buffer, (first, last) in lives_of(plan).items():
        begin, end = plan.lives.get(buffer, (inf, -inf))
        if not begin <= first <= last <= end:
            raise PlanError(f"buffer {buffer} is used in steps {first} to {last}: beyond its life.")


def lives_of(plan: NativePlan) -> dict[int, tuple[int, int]]:
    """The first and the last step that use a buffer of intermediate results."""
    lives: dict[int, tuple[int, int]] = {}
    for position, step in enumerate(plan.steps):
        for buffer in (*buffers_read(step, plan.views), *step.written):
            if buffer >= plan.program.index.first_result:
                lives[buffer] = lives.get(buffer, (position, 0))[0], position
    return lives


class _Checker:
    """The state of a plan's buffers between two of its steps."""

    def __init__(self, plan: NativePlan) -> None:
        self._plan, self._place = plan, ""
        self._fixed = plan.program.index.first_result
        # The words that are written; None if all of them are.
        self._written: dict[int, np.ndarray[Any, Any] | None] = dict.fromkeys(range(self._fixed))
        self._was_read: set[int] = set()
        runs = [step for step in plan.steps if isinstance(step, Run)]
        self._growing = {stack for run in runs for stack in run.growing}  # in memory of their own

    def _require(self, condition: bool, message: str) -> None:
        if not condition:
            raise PlanError(f"{self._place}{message}")

    def check_guards(self, position: int) -> None:
        """Check that guards can be read after a step."""
        for guard in self._plan.guards.get(position, ()):
            view = self._plan.views[guard.variable]
            self._check_read((view, self._plan.specs[guard.variable].dtype.itemsize))

    def check_outputs(self) -> None:
        """Check that each output has a buffer to itself, which is whole."""
        plan, self._place = self._plan, "outputs: "
        self._require(len({*plan.outputs}) == len(plan.program.outputs), "two share a buffer.")
        for variable, buffer in zip(plan.program.outputs, plan.outputs, strict=True):
            self._require(buffer >= self._fixed, f"{buffer} is an argument or a constant.")
            spec = plan.specs[variable]
            if buffer not in self._growing:
                self._check_read((whole(buffer, spec.shape), spec.dtype.itemsize))
                fits = prod(spec.shape) == prod(plan.specs[buffer].shape)
                self._require(fits, f"{buffer} has another size.")

    def check_step(self, position: int, step: Step) -> None:
        """Check a step that follows those that have been checked."""
        plan, self._place = self._plan, f"step {position} ({type(step).__name__}): "
        reads, writes = list(_reads(step, plan)), list(_writes(step, plan))
        if isinstance(step, Nest):
            self._check_members(step)
            self._check_bits(step)
        if isinstance(step, (Gathering, Scattering)):
            self._check_places(step)
        for access in reads:
            self._check_read(access)
        into = {view.buffer for view, _ in writes}
        self._require({*step.written} == into, "it writes other buffers than it says.")
        for view, size in reads:
            alike = (view, size) in writes and isinstance(step, Nest)
            if view.buffer in into:
                self._require(alike, f"it reads {view.buffer}, which it writes elsewhere.")
        self._was_read.update({view.buffer for view, _ in reads} - into)
        for access in writes:
            self._check_write(*access)

    def _check_members(self, nest: Nest) -> None:
        """Check that operands are known, and that views have the nest's shape."""
        known, plan = {*nest.operands}, self._plan
        for view in nest.operands.values():
            joined = np.broadcast_shapes(view.shape, nest.shape)
            self._require(joined == nest.shape, f"a view of shape {view.shape} does not fit.")
        for member in nest.members:
            for operand in member.operands:
                is_known = operand in known or operand in plan.numbers
                self._require(is_known, f"{member.variable} is made of {operand}, not known.")
            place, size = nest.stores.get(member.variable), prod(nest.shape)
            if member.folded is None:
                known.add(member.variable)
            else:
                size //= prod([nest.shape[axis] for axis in member.folded.axes])
                self._require(place is not None, f"the reduction {member.variable} is not stored.")
            fits = place is None or prod(place.shape) == size
            self._require(fits, f"{member.variable} has another number of elements.")
        stored = {*nest.stores} - {member.variable for member in nest.members}
        self._require(not stored, f"it stores {stored}, which it does not make.")

    def _check_bits(self, nest: Nest) -> None:
        """Check that bits, which a nest reads of elements of another dtype, are only copied."""
        zeros, dtypes = set[int](), [spec.dtype for spec in self._plan.specs]
        bits = {v for v, view in nest.operands.items() if dtypes[v] != dtypes[view.buffer]}
        for member in nest.members:
            variable, read = member.variable, {*member.operands}
            is_copy = member.formula == COPY and member.folded is None
            if read & bits:
                self._require(is_copy, f"{variable} is computed from bits.")
                bits.add(variable)
            elif not read or (is_copy and read <= zeros):
                zeros.add(variable)  # of any dtype
            place = nest.stores.get(variable)
            if place is not None and variable not in zeros:
                is_other = dtypes[variable] != dtypes[place.buffer]
                is_known = is_other == (variable in bits)
                self._require(is_known, f"{variable} is stored as another dtype.")

    def _check_places(self, step: Gathering | Scattering) -> None:
        """Check the places of a gather or scatter, for any integers that select them."""
        places, operands, plan = step.places, step.equation.operands, self._plan
        if not prod(places.shape):
            return
        indexed = operands[0] if isinstance(step, Gathering) else step.variable
        moved = step.variable if isinstance(step, Gathering) else operands[step.updates]
        low, high = _extent(places.shape, places.strides, places.start)
        for index in places.indices:
            furthest = index.step * (index.size - 1)
            low, high = low + min(furthest, 0), high + max(furthest, 0)
            last = _extent(places.shape, index.strides, 0)
            count = prod(plan.specs[operands[index.operand]].shape)
            self._require(last[0] >= 0 and last[1] < count, "it reads integers beyond the last.")
        inside = low >= 0 and high < prod(plan.specs[indexed].shape)
        self._require(inside, f"its places are {low} to {high}, beyond the array.")
        count = prod(plan.specs[moved].shape)
        self._require(prod(places.shape) == count, f"it has {places.shape} for {count} elements.")

    def _check_read(self, access: Access) -> None:
        words = self._window(*access)
        self._require(words is None or bool(words.all()), f"{access[0]} is read before it is made.")

    def _check_write(self, view: View, size: int) -> None:
        buffer, spec = view.buffer, self._plan.specs[view.buffer]
        self._require(buffer >= self._fixed, f"it writes {buffer}, an argument or a constant.")
        self._require(buffer not in self._was_read, f"it writes {buffer}, which has been read.")
        if buffer not in self._written and not view.covers(spec.shape):
            words = _bytes(self._plan, buffer) // _word(self._plan, buffer)
            self._written[buffer] = np.zeros(words, np.bool_)
        window = self._window(view, size, may_be_new=True)
        if window is not None:
            window[...] = True
        if window is None or np.all(self._written[buffer]):
            self._written[buffer] = None

    def _window(self, view: View, size: int, may_be_new: bool = False) -> Any:
        """The words of a view: whether they are written; None where all of the buffer is."""
        buffer, plan = view.buffer, self._plan
        if not prod(view.shape) or buffer in self._growing:
            return None
        low, high = _extent(view.shape, view.strides, view.offset)
        inside = low >= 0 and (high + 1) * size <= _bytes(plan, buffer)
        self._require(inside, f"{view} goes beyond its buffer.")
        self._require(may_be_new or buffer in self._written, f"{view} is read before it is made.")
        words = self._written.get(buffer)
        if words is None:
            return None
        count = size // _word(plan, buffer)
        strides = [stride * count for stride in view.strides]
        shape = (*view.shape, count)
        return np.lib.stride_tricks.as_strided(words[view.offset * count :], shape, (*strides, 1))


def _reads(step: Step, plan: NativePlan) -> Iterator[Access]:
    """The views that a step reads."""
    if isinstance(step, Nest):
        yield from [(view, _item(plan, variable)) for variable, view in step.operands.items()]
        return
    for view in step.reads(plan.views):
        if not (view.is_dense or isinstance(step, _STRIDED)):
            raise PlanError(f"{type(step).__name__} of {view}, which is not in C order.")
        yield view, _item(plan, view.buffer)


def _writes(step: Step, plan: NativePlan) -> Iterator[Access]:
    """The views that a step writes."""
    if isinstance(step, Nest):
        yield from [(view, _item(plan, variable)) for variable, view in step.stores.items()]
        return
    if isinstance(step, WindowProduct):
        yield step.stored, _item(plan, step.variable)
        return
    for buffer in step.written:
        yield whole(buffer, plan.specs[buffer].shape), _item(plan, buffer)


def _item(plan: NativePlan, variable: int) -> int:
    """The bytes of an element of a variable."""
    return plan.specs[variable].dtype.itemsize


def _word(plan: NativePlan, buffer: int) -> int:
    """The bytes of the words that a buffer consists of; copies move these one by one."""
    size = _item(plan, buffer)
    return size // max(size // 8, 1)


def _bytes(plan: NativePlan, buffer: int) -> int:
    return prod(plan.specs[buffer].shape) * _item(plan, buffer)


def _extent(shape: Sequence[int], strides: Sequence[int], start: int) -> tuple[int, int]:
    """The least and the greatest place that strides lead to."""
    ways = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    return start + sum([min(way, 0) for way in ways]), start + sum([max(way, 0) for way in ways])


# ------------------------------------------------------------------------------------------- memory


def check_memory(plan: NativePlan, sharing: Sharing, places: Mapping[int, int]) -> None:
    """Raise ``PlanError`` if two buffers lie in one place while both are needed.

    Parameters
    ----------
    plan : NativePlan
    sharing : Sharing
    places : mapping
        From buffers to where they begin in memory. Those that share memory have one place.
    """
    lives: dict[int, tuple[float, float]] = {**lives_of(plan)}
    lives |= {buffer: (lives[buffer][0], inf) for buffer in plan.outputs}
    groups: dict[int, list[int]] = {buffer: [buffer] for buffer in lives}
    for buffer, root in sharing.roots.items():
        groups[root] += groups.pop(buffer)
    last_read = {v: k for k, step in enumerate(plan.steps) for v in buffers_read(step, plan.views)}
    for output, argument in sharing.in_place.items():
        lives[argument] = -1, last_read.get(argument, -1)
        groups[plan.outputs[output]].append(argument)
    for group in groups.values():
        ordered = sorted(group, key=lives.__getitem__)
        for earlier, later in pairwise(ordered):
            end, begin = lives[earlier][1], lives[later][0]
            if end > begin or (end == begin and not _overwrites(plan, int(end), earlier, later)):
                raise PlanError(f"{later} begins in step {begin} over {earlier}, which is needed.")
    rows = []
    for root, group in groups.items():
        if root in places:
            begins, ends = zip(*[lives[buffer] for buffer in group], strict=True)
            size = max([_bytes(plan, buffer) for buffer in group])
            rows.append((places[root], places[root] + size, min(begins), max(ends)))
    check_places(np.array(rows, float).reshape(-1, 4).T)


def check_places(rows: np.ndarray[Any, Any]) -> None:
    """Raise ``PlanError`` if two places meet, in memory and in time.

    Parameters
    ----------
    rows : array
        Where the places begin and end in memory, and when in time.
    """
    start, stop, first, last = rows[:, rows[0].argsort(kind="stable")]
    for k in range(len(start) - 1):
        reach = k + 1 + np.searchsorted(start[k + 1 :], stop[k])
        beside = slice(k + 1, reach)
        meets = (
            (first[beside] <= last[k]) & (last[beside] >= first[k]) & (stop[beside] > start[beside])
        )
        if meets.any():
            raise PlanError(f"the memory at {start[k]} is used again while it is needed.")


def _overwrites(plan: NativePlan, position: int, operand: int, result: int) -> bool:
    """Whether a step reads each element of an operand before it writes the result there."""
    step = plan.steps[position]
    if buffers_read(step, plan.views).count(operand) != 1 and not isinstance(step, Nest):
        return False
    match step:
        case Nest():
            folded = {member.variable for member in step.members if member.folded is not None}
            places = {
                (view.broadcast(step.shape), view.offset, _item(plan, variable))
                for variable, view in (step.operands | step.stores).items()
                if view.buffer in (operand, result)
            }
            return len(places) == 1 and not folded & step.stores.keys() & {result}
        case Scattering():
            first = plan.views[step.equation.operands[0]].buffer
            return bool(step.updates) and (first, step.variable) == (operand, result)
        case Run(form=Loop() as form):
            carry = result - step.variable
            carried = step.equation.operands[form.shared :][: form.carried]
            return carry < len(carried) and plan.views[carried[carry]].buffer == operand
    return False
