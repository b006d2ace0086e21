"""A plan that is being made: its steps so far, and where the values that they make lie."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate, chain
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad._backends.native.function_text import Arithmetic, FunctionText
from funcgrad._backends.native.instructions import (
    COSTLY,
    NotEmitted,
    element_type,
    part_of,
    unknown,
)
from funcgrad._backends.native.plan_steps import (
    COPY,
    BoundFormula,
    Fill,
    Member,
    NativePlan,
    Nest,
    Step,
    buffers_read,
    number_in,
)
from funcgrad._backends.native.registers import Registers
from funcgrad._backends.native.split_nests import MovedBox, split_nests
from funcgrad._backends.native.views import View, merged, whole
from funcgrad._backends.native.window_steps import leave_out_borders
from funcgrad._core.specs import Shape, Spec
from funcgrad._programs.equation import Equation, Guard
from funcgrad._programs.program import Program


class _Views(dict[int, View]):
    """Views by variable; a variable lies in a buffer of its own unless another view is set."""

    def __init__(self, specs: Sequence[Spec]) -> None:
        self._specs = specs

    def __missing__(self, variable: int) -> View:
        view = self[variable] = whole(variable, self._specs[variable].shape)
        return view


_LARGE: Final = 1 << 15
"""From so many elements on, cheap ones are computed again rather than stored."""

_WIDE: Final = 32
"""So long are the rows of a nest that computes elements again: what it reads for each row or column
divides its loop into rows."""

_TIMES: Final = 16
"""So many times as large as the others is the one array that is read again."""


class UnfinishedPlan:
    """Steps of a program, in order.

    Attributes
    ----------
    program : Program
    arithmetic : Arithmetic
    specs : list of Spec
        Of the program's variables, and of those that the plan has added.
    constants : dict
        From variables to constants.
    numbers : dict
        From constants of one element to the number.
    views : dict
        From variables to how they lie in memory: all of a buffer of their own, unless told.
    made_at : dict
        From variables to the step that makes them; -1 before the first.
    steps : list of steps
    nests : dict
        From shapes to the places of the nests over them that have room for members.
    elements : set of int
        The variables that members of nests make element by element.
    moved : dict
        The boxes of results of movements of several pieces, by variable.
    eliminations : dict
        From matrices to their factors.
    formulas : dict
        The formulas of elementwise operations, each once.
    lacks : dict
        From formulas that have been tried to the reason why they have no instructions, or None.
    lack : str
        Why the equation that is being planned has no instructions, as far as known.
    """

    def __init__(self, program: Program, arithmetic: Arithmetic) -> None:
        self.program, self.arithmetic = program, arithmetic
        self.specs = list(program.specs())
        count = program.index.first_result
        self.constants = dict(
            zip(range(len(program.inputs), count), program.constants, strict=True)
        )
        self.numbers = {v: number_in(c) for v, c in self.constants.items() if not c.spec.shape}
        self.views: dict[int, View] = _Views(self.specs)
        self.made_at = dict.fromkeys(range(count), -1)
        self.steps: list[Step] = []
        self.nests: dict[Shape, list[int]] = {}
        self.elements: set[int] = set()
        self.moved: dict[int, list[MovedBox]] = {}
        self.eliminations: dict[View, int] = {}
        self.lack = ""
        self.formulas: dict[object, BoundFormula] = {}
        self.lacks: dict[object, str | None] = {}
        self._emitted: set[np.dtype[Any]] = set()

    def finished(self) -> NativePlan:
        """The plan, with its outputs in buffers of their own."""
        outputs: list[int] = []
        for variable in self.program.outputs:
            view = self.views[variable]
            is_whole = view.covers(self.specs[view.buffer].shape)
            if self.made_at[view.buffer] < 0 or not is_whole or view.buffer in outputs:
                view = self.copied(view, self.specs[variable].dtype)
            outputs.append(view.buffer)
        guarded = [self.views[guard.variable].buffer for guard in self.program.guards]
        self._repeat([*outputs, *guarded])
        self._store([*outputs, *guarded])
        self._split({*outputs, *guarded})
        leave_out_borders(self.steps, self.views, {*outputs, *guarded})
        guards: dict[int, list[Guard]] = {}
        for guard in self.program.guards:
            view = self.views[guard.variable]
            guards.setdefault(self.made_at[view.buffer], []).append(guard)
        return NativePlan(
            self.program,
            self.specs,
            self.views,
            self.steps,
            outputs,
            guards,
            self._lives(guarded),
            self.numbers,
        )

    def _lives(self, guarded: Iterable[int]) -> dict[int, tuple[int, int]]:
        """When the buffers of intermediate results are alive."""
        lives: dict[int, tuple[int, int]] = {}
        touched = [(self.made_at[buffer], buffer) for buffer in guarded]
        for position, step in enumerate(self.steps):
            read = buffers_read(step, self.views)
            touched += [(position, buffer) for buffer in (*read, *step.written)]
        for position, buffer in touched:
            if self.made_at[buffer] >= 0:
                first, last = lives.get(buffer, (position, position))
                lives[buffer] = min(first, position), max(last, position)
        return lives

    def _store(self, outputs: Sequence[int]) -> None:
        """Note the members of nests whose results are read from memory."""
        read = {*outputs, *chain(*[buffers_read(step, self.views) for step in self.steps])}
        for nest in [step for step in self.steps if isinstance(step, Nest)]:
            for member in nest.members:
                variable = member.variable
                if variable not in nest.stores and (variable in read or member.folded):
                    nest.stores[variable] = whole(variable, self.specs[variable].shape)

    def _repeat(self, needed: Sequence[int]) -> None:
        """Compute cheap elements again in the nests that read them, where only nests do.

        Large arrays such as ``x - mean(x)`` are not stored then: to standardize 50,000 to 1,000,000
        values takes 0.46 to 0.79 of the time, and the gradient of a layer norm 0.92.
        """
        readers: dict[int, list[Step]] = {}
        for step in self.steps:
            for buffer in {*buffers_read(step, self.views)}:
                readers.setdefault(buffer, []).append(step)
        made = [(n, m) for n in self.steps if isinstance(n, Nest) for m in [*n.members]]
        for nest, member in made:
            variable = member.variable
            if variable in needed or variable in nest.stores or variable not in readers:
                continue
            users = [user for user in readers[variable] if isinstance(user, Nest)]
            if len(users) < len(readers[variable]) or not self._is_cheap(member, readers):
                continue
            if all(_reads_whole(user, variable, nest.shape) for user in users):
                for user in users:
                    self._repeat_in(user, member)
                del readers[variable]
                _prune(nest, {*readers, *needed})
        self._drop_empty_nests()

    def _repeat_in(self, nest: Nest, member: Member) -> None:
        variable, spec = member.variable, self.specs[member.variable]
        again = self.new(spec.shape, spec.dtype)
        self.elements.add(again)
        self.made_at[again] = self.steps.index(nest)
        del nest.operands[variable]
        for operand in member.operands:
            if operand not in self.numbers:
                nest.operands[operand] = self.views[operand]

        def renamed(operands: Sequence[int]) -> tuple[int, ...]:
            return tuple([again if v == variable else v for v in operands])

        nest.members[:] = [
            replace(member, variable=again),
            *[replace(one, operands=renamed(one.operands)) for one in nest.members],
        ]

    def _is_cheap(self, member: Member, stored: Container[int]) -> bool:
        """Whether an element is a sum or a product of one in a large array, and of few others."""
        shape = self.specs[member.variable].shape
        if member.folded is not None or prod(shape) < _LARGE:
            return False
        arrays = [operand for operand in member.operands if operand not in self.numbers]
        if merged(shape, *[self.views[v].broadcast(shape) for v in arrays])[0][-1] < _WIDE:
            return False
        if self.moved.keys() & {member.variable, *arrays}:
            return False
        if any(v in self.elements and self.views[v].buffer not in stored for v in arrays):
            return False
        few = prod(shape) // _TIMES
        if len({v for v in arrays if prod(self.specs[v].shape) > few}) > 1:
            return False
        draft = FunctionText(self.arithmetic, is_draft=True)
        lanes = Registers(draft, 1)
        specs = [self.specs[v] for v in member.operands]
        operands = [
            self.numbers.get(v, unknown(lanes, spec.dtype, spec.weak))
            for v, spec in zip(member.operands, specs, strict=True)
        ]
        member.formula(lanes, *operands)
        text = draft.function("")
        return not any(word in text for word in COSTLY)

    def _drop_empty_nests(self) -> None:
        is_left = [not isinstance(step, Nest) or bool(step.members) for step in self.steps]
        places = [count - 1 for count in accumulate(is_left)]
        self.steps = [step for step, left in zip(self.steps, is_left, strict=True) if left]
        self.made_at = {v: places[at] if at >= 0 else at for v, at in self.made_at.items()}

    def _split(self, needed: set[int]) -> None:
        """Replace nests that read the results of movements by nests that read the pieces."""
        if not self.moved:
            return
        parts = split_nests(self.steps, self.moved, self.specs, self.views, needed)
        self.steps = [step for row in parts for step in row]
        last = [end - 1 for end in accumulate(map(len, parts))]
        self.made_at = {v: last[at] if at >= 0 else at for v, at in self.made_at.items()}

    def is_emitted(self, equation: Equation, result: int) -> bool:
        """Whether all dtypes are of those that registers hold."""
        dtypes = [self.specs[variable].dtype for variable in (*equation.operands, result)]
        if np.dtype(np.float16) in dtypes and not self.arithmetic.halves:
            self.lack = "half precision"
            return False
        unknown = [dtype for dtype in dtypes if dtype not in self._emitted]
        if unknown and not self.can_write(lambda _: [element_type(part_of(d)) for d in unknown]):
            return False
        self._emitted.update(unknown)
        return True

    def can_write(self, write: Callable[[Registers], object], suffix: str = "") -> bool:
        """Whether something can be written in registers; else ``lack`` says why not."""
        try:
            write(Registers(FunctionText(self.arithmetic, is_draft=True), 1))
        except NotEmitted as error:
            self.lack = f"{error}{suffix}"
            return False
        return True

    def append(self, step: Step) -> None:
        """Add a step that fills the buffers of its results."""
        place = len(self.steps)
        self.steps.append(step)
        if isinstance(step, Nest):
            self.nests.setdefault(step.shape, []).append(place)
        for variable in step.written:
            self.made_at[variable] = place

    def new(self, shape: Shape, dtype: np.dtype[Any]) -> int:
        """One more variable."""
        self.specs.append(Spec(shape, dtype))
        return len(self.specs) - 1

    def copied(self, view: View, dtype: np.dtype[Any]) -> View:
        """A copy of a view, in C order."""
        copy = self.new(view.shape, dtype)
        if 0 in view.shape:
            self.append(Fill(copy))
        else:
            self.copy(view, whole(copy, view.shape), dtype)
        return self.views[copy]

    def copy(self, view: View, place: View, dtype: np.dtype[Any]) -> None:
        """Add a step that copies elements to a place, which may be a window of a buffer.

        They are copied as the bits of integers, so that they may be of any dtype.
        """
        count = max(dtype.itemsize // 8, 1)
        bits = np.dtype(f"u{dtype.itemsize // count}")
        source, target = [self.new((*view.shape, count), bits) for _ in range(2)]
        self.views[source] = _in_words(view, count)
        nest = Nest((*view.shape, count))
        nest.operands[source] = self.views[source]
        nest.members.append(Member(target, (source,), COPY))
        nest.stores[target] = _in_words(place, count)
        self.append(nest)
        self.made_at[target] = self.made_at[place.buffer]

    def prepare(self, operands: Iterable[int]) -> None:
        """Have operands lie in C order, as arrays of NumPy's do: in windows of buffers.

        The slices of a loop backwards that skips steps are windows: the gradient of an LSTM takes
        0.9 of the time that it takes with copies.
        """
        for operand in operands:
            view, spec = self.views[operand], self.specs[operand]
            if not view.is_dense:
                self.views[operand] = self.copied(view, spec.dtype)


def _reads_whole(nest: Nest, variable: int, shape: Shape) -> bool:
    """Whether a nest of a shape reads a buffer as one variable only."""
    views = [one for one, view in nest.operands.items() if view.buffer == variable]
    return views == [variable] and nest.shape == shape


def _prune(nest: Nest, needed: Container[int]) -> None:
    """Remove the members whose elements nobody reads, and operands that only they read."""
    read: set[int] = set()
    for member in reversed([*nest.members]):
        variable = member.variable
        if member.folded or variable in nest.stores or variable in needed or variable in read:
            read.update(member.operands)
        else:
            nest.members.remove(member)
    for operand in nest.operands.keys() - read:
        del nest.operands[operand]


def _in_words(view: View, count: int) -> View:
    """A view of words; an element is so many of them side by side."""
    strides = (*[stride * count for stride in view.strides], 1)
    return View(view.buffer, (*view.shape, count), strides, view.offset * count)
