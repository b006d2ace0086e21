"""The operation behind ``fg.cond`` and ``fg.switch`` in programs.

Its operands are the number of the branch that runs, and the values that the branches read. Its
branches are programs of the same operands, with results of the same specs. Reverse mode keeps the
residuals of the branch that ran, in *slots* that all branches share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Final

import numpy as np

from funcgrad._control.examples import may_run_apart, over_examples
from funcgrad._control.loop_operation import apply_loop
from funcgrad._control.operation import ControlCall, Params, Values, check_linear, control_primitive
from funcgrad._control.spread import fitted, joined, with_presence
from funcgrad._control.values import (
    batched_program,
    inputs_read,
    may_refuse,
    part_of,
    specs_inside,
    strong,
    taking_part,
    tangent_in,
    tangent_stand_ins,
    with_common_results,
)
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Spec, shape_of, stand_in
from funcgrad._core.structure.structures import Choice
from funcgrad._core.trace import Trace, Value, concrete
from funcgrad._primitives.logic import equal, greater_equal, less_equal
from funcgrad._primitives.reduction import reduce_any
from funcgrad._primitives.selection import where
from funcgrad._primitives.structural import cast, reshape
from funcgrad._programs.equation import as_spec
from funcgrad._programs.program import Program
from funcgrad._transforms.abstract_stager import applied, flat_program
from funcgrad._transforms.composite import Recording
from funcgrad._transforms.factors import zeros_like
from funcgrad._transforms.flat_functions import run_batched
from funcgrad._transforms.layout import Layout, Presence, flat, presence_of, present, restored
from funcgrad._transforms.linearization import Linearization
from funcgrad._transforms.masked import Cotangent
from funcgrad._transforms.with_derivative import WithDerivative, with_pushforward
from funcgrad.errors import ProgramError


def apply_switch(index: Value, values: Values, branches: Sequence[Program]) -> list[Value]:
    """Run the branch with a number, or the first or last one for a number out of bounds."""
    width = len(str(len(branches) - 1))
    params = {
        f"branch_{k:0{width}}": branch for k, branch in enumerate(with_common_results(branches))
    }
    operands = [as_spec(x, spec) for x, spec in zip(values, branches[0].inputs, strict=True)]
    return list(SWITCH(index, *operands, **params))


def select(index: Value, results: Sequence[Values]) -> list[Value]:
    """Select one of several lists of values by a number, example by example.

    Lists that are not selected have no derivative.
    """
    selected = list(results[-1])
    for k in range(len(results) - 2, -1, -1):
        chosen = less_equal(index, k)
        for place, (value, other) in enumerate(zip(results[k], selected, strict=True)):
            added = len(shape_of(value)) - len(shape_of(chosen))
            wide = chosen
            if added and shape_of(chosen):
                wide = reshape(chosen, shape=(*shape_of(chosen), *(1,) * added))
            selected[place] = where(wide, value, other)
    return selected


def _joined_layout(layouts: Sequence[Layout]) -> Layout:
    """Return which results of a choice have a tangent: those that have one in any branch."""
    flags = [True in column for column in zip(*map(present, layouts), strict=True)]
    return tuple([Presence.WHOLE if flag else Presence.ABSENT for flag in flags])


def _filled(tangents: Values, layout: Layout, specs: Sequence[Spec]) -> list[Value]:
    """Return the tangents of a branch, with zeros where only other branches have some."""
    triples = zip(tangents, map(strong, specs), present(layout), strict=True)
    return [tangent_in(t, spec) for t, spec, flag in triples if flag]


def goes_into(index: Value, branch: int, count: int) -> Value:
    """Return which examples choose a branch."""
    if branch == 0:
        return less_equal(index, 0)
    return greater_equal(index, branch) if branch == count - 1 else equal(index, branch)


def _run_for(
    chosen: Value, branch: Program, size: int, values: Values, flags: Sequence[bool]
) -> tuple[list[Value], list[bool]]:
    """Run a branch for the chosen examples of a batch; also return which results have the batch."""
    if not may_refuse(branch):
        return run_batched(branch.evaluate, size, values, flags)
    whole, out_flags = batched_program(branch, size, flags, ())
    nothing = _nothing(whole)
    anyone = cast(reduce_any(chosen, axis=(0,), keepdims=False), dtype=np.dtype(np.intp))
    operands = taking_part(chosen, values, flags)
    return apply_switch(anyone, operands, [nothing, whole]), out_flags


def _nothing(program: Program) -> Program:
    """Stage a program with results of the same specs that computes nothing."""
    specs = program.output_specs

    def zeros(values: Values) -> list[Value]:
        return [stand_in(spec) if spec.weak else zeros_like(spec) for spec in specs]

    return flat_program(program.name, zeros, program.inputs)


def _aligned(out: Value, flag: bool) -> Value:
    """Give a result an axis for the batch, of size 1 where all examples have the same value."""
    return out if flag else reshape(out, shape=(1, *shape_of(out)))


class SwitchRecording:
    """The record of a choice."""

    def __init__(
        self, values: Values, followed: Sequence[bool], branches: Sequence[Program]
    ) -> None:
        self._branches = branches
        self._values = values
        first = self._branches[0]
        self._args = [*map(stand_in, first.inputs)]
        self._taken = [
            Linearization(branch, followed[1:], self._args, numbers=False) for branch in branches
        ]
        self.connected = sorted({k for taken in self._taken for k in taken.connected})
        count = len(first.outputs)
        slots: list[Spec] = []
        self._places = [_shared(taken.forward, count, slots) for taken in self._taken]
        programs = [
            _filling(taken.forward, count, places, slots)
            for taken, places in zip(self._taken, self._places, strict=True)
        ]
        outs = apply_switch(values[0], values[1:], programs)
        self.outs = outs[:count]
        self._slots = outs[count:]

    def pull(self, cts: Sequence[Cotangent]) -> list[Cotangent]:
        first = self._branches[0]
        specs = first.output_specs
        fitted_cts = [
            fitted(ct, spec) if k in self.connected else None
            for k, (ct, spec) in enumerate(zip(cts, specs, strict=True))
        ]
        presences = [*map(presence_of, fitted_cts)]
        pullbacks = [taken.pullback_for(self._args, presences, specs) for taken in self._taken]
        presences_by_branch = [pullback.layout for pullback in pullbacks]
        wanted = [reduce(joined, column) for column in zip(*presences_by_branch, strict=True)]

        def back(branch: int, known: Values, incoming: Values) -> list[Value]:
            connected = self._taken[branch].connected
            pairs = enumerate(restored(presences, incoming))
            chosen = [ct if k in connected else None for k, ct in pairs]
            pulled = map(fitted, pullbacks[branch].apply(known, chosen), first.inputs)
            return flat([*map(with_presence, pulled, wanted, first.inputs)])

        return [None, *restored(wanted, self._switch(back, flat(fitted_cts)))]

    def push(self, tangents: Values) -> list[Value]:
        first = self._branches[0]
        stand_ins = tangent_stand_ins(first.inputs, [t is not None for t in tangents[1:]])
        pushforwards = [taken.pushforward(self._args, stand_ins) for taken in self._taken]
        layout = _joined_layout([linear.layout for linear in pushforwards])

        def forth(branch: int, known: Values, incoming: Values) -> list[Value]:
            moved = pushforwards[branch].apply(known, incoming)
            return _filled(moved, layout, first.output_specs)

        return restored(layout, self._switch(forth, flat(tangents[1:])))

    def _switch(
        self, step: Callable[[int, Values, Values], list[Value]], incoming: Values
    ) -> list[Value]:
        """Stage a step of a linear part for each branch, and choose between these programs.

        ``step`` takes the number of the branch, its operands and residuals, and ``incoming``.
        """
        count, stop = len(self._args), len(self._args) + len(self._slots)

        def run(branch: int, values: Values) -> list[Value]:
            residuals = [values[count + place] for place in self._places[branch]]
            return step(branch, [*values[:count], *residuals], values[stop:])

        operands = [*self._values[1:], *self._slots, *incoming]
        specs = [*self._branches[0].inputs, *specs_inside(operands[count:])]
        programs = [
            flat_program(f"{branch.name}_{step.__name__}", partial(run, k), specs)
            for k, branch in enumerate(self._branches)
        ]
        return apply_switch(self._values[0], operands, programs)


def _shared(forward: Program, count: int, slots: list[Spec]) -> list[int]:
    """Choose the slots of a branch's residuals, and add slots that are missing."""
    specs = forward.specs()
    free = list(range(len(slots)))
    places = []
    for variable in forward.outputs[count:]:
        spec = specs[variable]
        place = next((k for k in free if slots[k] == spec), None)
        if place is None:
            place = len(slots)
            slots.append(spec)
        else:
            free.remove(place)
        places.append(place)
    return places


def _filling(forward: Program, count: int, places: Sequence[int], slots: Sequence[Spec]) -> Program:
    """Let a branch return all slots, too: its residuals in their slots, zeros in the others."""

    def filled(values: Values) -> list[Value]:
        outs = applied(forward, values)
        slot_values: list[Value] = [
            stand_in(spec) if spec.weak else zeros_like(spec) for spec in slots
        ]
        for place, residual in zip(places, outs[count:], strict=True):
            slot_values[place] = residual
        return [*outs[:count], *slot_values]

    return flat_program(forward.name, filled, forward.inputs)


class SwitchCall(ControlCall):
    """A choice of programs; the first argument is the number of the one that runs."""

    __slots__ = ("branches",)
    first = 1

    def __init__(self, primitive: Primitive, params: Params) -> None:
        super().__init__(primitive, params)
        self.branches: list[Program] = [params[name] for name in sorted(params)]

    def run(self, args: Values) -> list[Value]:
        return select(args[0], [branch.evaluate(args[1:]) for branch in self.branches])

    def evaluate(self, args: Values) -> list[Value]:
        index, *values = map(concrete, args)
        return self.branches[min(max(int(index), 0), len(self.branches) - 1)].evaluate(values)

    def results(self, *specs: Spec) -> tuple[Spec, ...]:
        first, *others = [branch.results(*specs[1:]) for branch in self.branches]
        if specs[0].shape or any(other != first for other in others):
            raise ProgramError("the branches of a choice return different shapes or dtypes")
        return first

    def record_flagged(self, args: Values, flags: Sequence[bool]) -> Recording:
        switch = SwitchRecording(args, flags, self.branches)
        return Recording(switch.outs, switch.pull, switch.push, switch.connected)

    def push_fitted(self, args: Values, tangents: Values) -> tuple[list[Value], list[Value]]:
        inputs, out_specs = self.branches[0].inputs, self.branches[0].output_specs
        flags = [t is not None for t in tangents[1:]]
        pair = [*map(stand_in, inputs)], tangent_stand_ins(inputs, flags)
        every = [with_pushforward(branch, *pair, numbers=False) for branch in self.branches]
        layout, count = _joined_layout([both.layout for both in every]), len(out_specs)

        def pushed(both: WithDerivative, values: Values) -> list[Value]:
            outs = applied(both.program, values)
            moved = restored(both.layout, outs[count:])
            return [*outs[:count], *_filled(moved, layout, out_specs)]

        specs = [*inputs, *[strong(spec) for spec, flag in zip(inputs, flags, strict=True) if flag]]
        programs = [
            flat_program(f"{branch.name}_push", partial(pushed, both), specs)
            for branch, both in zip(self.branches, every, strict=True)
        ]
        outs = apply_switch(args[0], [*args[1:], *flat(tangents[1:])], programs)
        return outs[:count], restored(layout, outs[count:])

    def batch(
        self, size: int, args: Values, flags: Sequence[bool], around: Trace | None = None
    ) -> tuple[list[Value], list[bool]]:
        if not flags[0]:
            every = [batched_program(branch, size, flags[1:], ())[1] for branch in self.branches]
            wanted = [any(column) for column in zip(*every, strict=True)]
            programs = [
                batched_program(branch, size, flags[1:], wanted)[0] for branch in self.branches
            ]
            return apply_switch(args[0], args[1:], programs), wanted
        if may_run_apart(size, args, self.branches):
            values, loop = over_examples(
                lambda operands: list(self.primitive(*operands, **self.params)),
                self.branches[0].name,
                size,
                args,
                flags,
            )
            return apply_loop(values, loop), [True] * len(loop.body.outputs)
        results = []
        for number, branch in enumerate(self.branches):
            chosen = goes_into(args[0], number, len(self.branches))
            outs, out_flags = _run_for(chosen, branch, size, args[1:], flags[1:])
            results.append([*map(_aligned, outs, out_flags)])
        selected = select(args[0], results)
        return selected, [True] * len(selected)

    def require_linear(self, followed: Sequence[bool]) -> None:
        for branch in self.branches:
            check_linear("fg.cond or fg.switch", branch, followed[1:])

    def runs(self) -> list[tuple[Program, int | None]]:
        return [(branch, 1) for branch in self.branches]

    def form(self) -> Choice:
        return Choice(self.branches)

    def leaner(self, read: Sequence[bool]) -> tuple[Params, list[int], list[int]] | None:
        results = [k for k, flag in enumerate(read) if flag]
        inputs = sorted({k for branch in self.branches for k in inputs_read(branch, results)})
        branches = {name: part_of(branch, inputs, results) for name, branch in self.params.items()}
        return branches, [0, *[k + 1 for k in inputs]], results


SWITCH: Final = control_primitive("switch", SwitchCall)
"""A choice of programs by a number."""
