"""Reverse mode of a loop whose length depends on the data, and of the sweeps after it.

On the way back all sweeps run again, and each gets another sweep: first the last one, at the end
the loop itself. Such a sweep carries the cotangents of a sweep's carry. At each step it pulls them
back through that sweep, and adds the cotangents that the sweeps after it contribute at this step.
These have been pulled back before, so their cotangents are known.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple, TypeAlias

from funcgrad._control.spread import (
    begun,
    by_element,
    dependent_carry,
    fitted,
    joined,
    spread,
    total,
    with_presence,
)
from funcgrad._control.sweeps import Sweeps
from funcgrad._control.transformed_loops import pushed
from funcgrad._control.values import specs_inside
from funcgrad._core.specs import stand_in
from funcgrad._core.trace import Value
from funcgrad._primitives.selection import where
from funcgrad._programs.extract import extract
from funcgrad._programs.program import Program
from funcgrad._transforms.abstract_stager import applied, flat_program
from funcgrad._transforms.layout import Layout, Presence, flat, presence_of, restored, stand_ins
from funcgrad._transforms.masked import Cotangent, Masked
from funcgrad._transforms.with_derivative import with_pullback

_Pull: TypeAlias = tuple[Program, Layout, list[Presence]]
"""The program that pulls cotangents through a step, their layout, and the sums' presences."""

Apply: TypeAlias = Callable[[Sequence[Value], Sweeps], list[Value]]
"""A function that runs sweeps and returns their results."""


class SweepsRecording:
    """The record of a loop whose length depends on the data, or of sweeps: it holds no states.

    Parameters
    ----------
    values : sequence of values
        The operands of the sweeps.
    followed : sequence of bool
    sweeps : Sweeps
    apply : callable
    """

    __slots__ = ("_apply", "_followed", "_recorded", "_sweeps", "_values", "connected", "outs")

    def __init__(
        self, values: Sequence[Value], followed: Sequence[bool], sweeps: Sweeps, apply: Apply
    ) -> None:
        self._values, self._sweeps, self._apply = values, sweeps, apply
        self.connected: list[int] = []
        self._followed = self._reached(followed)
        self._recorded = sweeps.recorded(self._followed)
        self.outs = apply(values, self._recorded)

    def _reached(self, followed: Sequence[bool]) -> list[Sequence[bool]]:
        """Return which operands are followed at some step, grouped as in ``Sweeps.parts``.

        Appends the places of the results that depend on them to ``connected``.
        """
        consts, *carried = self._sweeps.parts(followed)
        parts, count = [consts], 0
        for number, (program, start) in enumerate(zip(self._sweeps.programs, carried, strict=True)):
            before = [*chain(*parts)]
            state, (results, is_all) = dependent_carry(program, before, start)
            if not is_all:
                state, results = spread(state, partial(_connected_results, program, before))
            parts.append(state)
            if number >= self._sweeps.first:
                # Without a step a last carry is the first one.
                flags = enumerate(map(max, start, results), count)
                self.connected += [place for place, flag in flags if flag]
                count += len(state)
        return parts

    def pull(self, cts: Sequence[Cotangent]) -> list[Cotangent]:
        sweeps, recorded, values = self._sweeps, self._recorded, self._values
        consts, *carried = sweeps.parts(sweeps.programs[-1].inputs)
        first, result_cts = len(carried), [*cts]
        pulls: list[_Pulled] = []
        starts: list[Cotangent] = []
        for number in range(first - 1, -1, -1):
            specs, flags = carried[number], self._followed[1 + number]
            end_cts: list[Cotangent] = [None] * len(specs)
            if number >= sweeps.first:
                end_cts = result_cts[-len(specs) :]
                del result_cts[-len(specs) :]
            triples = zip(end_cts, specs, flags, strict=True)
            end_cts = [fitted(ct, spec) if flag else None for ct, spec, flag in triples]
            presences = [*map(presence_of, end_cts)]
            pulls.append(_pulled_once(sweeps, self._followed, number, presences, pulls))
            pulled = pulls[-1]
            starts += map(with_presence, end_cts, pulled.presences, specs)
            starts += map(partial(begun, None), pulled.sums, consts)
        programs = (*recorded.later, *[pulled.program for pulled in pulls])
        results = iter(
            self._apply([*values, *flat(starts)], Sweeps(recorded.loop, programs, first))
        )
        sums: list[Cotangent] = [None] * len(consts)
        ends: list[Cotangent] = []
        is_read = any(Presence.WHOLE in pulled.sums for pulled in pulls)
        # A loop without steps reads no shared values, so their cotangents are absent.
        operands = values[: len(sweeps.loop.body.inputs)]
        ran = sweeps.loop.condition.evaluate(operands)[0] if is_read else None
        for pulled in pulls:
            ends = [*restored(pulled.presences, results), *ends]
            more = restored(pulled.sums, results)
            for k, presence in enumerate(pulled.sums):
                if presence is Presence.WHOLE:
                    more[k] = Masked(where(ran, more[k], 0), ran)
            sums = [*map(total, sums, more)]
        return [*sums, *ends]

    def push(self, tangents: Sequence[Value]) -> list[Value]:
        return push_sweeps(self._values, self._sweeps, tangents, self._apply)[1]


def push_sweeps(
    values: Sequence[Value], sweeps: Sweeps, tangents: Sequence[Value], apply: Apply
) -> tuple[list[Value], list[Value]]:
    """Run sweeps with tangents; return the results and the tangents of the results."""
    moved, operands, results = pushed(sweeps, [t is not None for t in tangents])
    outs = apply(operands.joined(values, operands.filled(values, tangents)), moved)
    return results.taken_apart(outs)


def _connected_results(
    program: Program, before: Sequence[bool], state: Sequence[bool]
) -> tuple[list[bool], list[bool]]:
    """Record a step to find out which of its results depend on followed operands."""
    args, cts = [stand_in(spec) for spec in program.inputs], [None] * len(state)
    both = with_pullback(program, [*before, *state], args, cts, numbers=False)
    flags = [k in both.connected for k in range(len(state))]
    return flags, flags


class _Pulled(NamedTuple):
    """The sweep that goes back through a sweep.

    Attributes
    ----------
    program : Program
    presences, sums : list of Presence
        Where the cotangents of the other sweep's carry are present, and the sums for values that
        all steps share.
    """

    program: Program
    presences: list[Presence]
    sums: list[Presence]

    @property
    def key(self) -> Hashable:
        """A key that equal ways back share."""
        return self.program, tuple(self.presences), tuple(self.sums)


def _pulled_once(
    sweeps: Sweeps,
    followed: Sequence[Sequence[bool]],
    number: int,
    presences: Sequence[Presence],
    before: Sequence[_Pulled],
) -> _Pulled:
    """The way back through a sweep, staged once: a scan around it asks several times.

    The first gradient of a differential equation takes 0.6 of the time so.
    """
    flags, later = tuple(map(tuple, followed)), tuple([pulled.key for pulled in before])
    key = "pulled", sweeps, number, flags, tuple(presences), later
    return sweeps.loop.body.derived(
        key, lambda: _pulled_sweep(sweeps, followed, number, presences, before)
    )


def _pulled_sweep(
    sweeps: Sweeps,
    followed: Sequence[Sequence[bool]],
    number: int,
    presences: Sequence[Presence],
    before: Sequence[_Pulled],
) -> _Pulled:
    """Stage the way back through a sweep, for cotangents at its end with some presences.

    ``before`` has the ways back through the sweeps after it, the last of them first.
    """
    specs = sweeps.programs[-1].inputs
    consts, *carried = sweeps.parts(specs)
    count, state = len(consts), carried[number]
    start = count + sum(map(len, carried[:number]))
    step = sweeps.loop.body.derived(("step", sweeps, number), partial(_step, sweeps, number))
    args = [stand_in(spec) for spec in step.inputs]
    flags = [*followed[0], *followed[1 + number], *[False] * len(specs)]
    later = [presence for pulled in reversed(before) for presence in pulled.presences]
    results = [*state, *chain(*carried[number + 1 :])]

    def pull(presences: list[Presence]) -> tuple[_Pull, list[Presence]]:
        stand_in_cts = stand_ins([*presences, *later], results)
        both = with_pullback(step, flags, args, stand_in_cts, numbers=False)
        outs = both.program.outputs[len(results) :]
        program = extract(both.program, range(len(both.program.inputs)), outs)
        out_presences = [*map(by_element, both.layout)]
        return (program, both.layout, out_presences[:count]), out_presences[
            count : count + len(state)
        ]

    carried_presences, (pull_program, layout, sums) = spread(
        [*map(by_element, presences)], pull, _joined_by_element
    )

    def back(values: Sequence[Value]) -> list[Value]:
        arguments = iter(values[len(specs) :])
        others: list[Cotangent] = []
        for pulled in before:
            others = [*restored(pulled.presences, arguments), *others]
            restored(pulled.sums, arguments)
        seeds, so_far = restored(carried_presences, arguments), restored(sums, arguments)
        read = [*values[:count], *values[start : start + len(state)], *values[: len(specs)]]
        cts = restored(layout, applied(pull_program, [*read, *flat([*seeds, *others])]))
        state_specs = step.inputs[: count + len(state)]
        fits = [*map(fitted, cts, state_specs)]
        more = [*map(total, so_far, fits[:count])]
        return flat(
            [
                *map(with_presence, fits[count:], carried_presences, state),
                *map(with_presence, more, sums, consts),
            ]
        )

    cts: list[Cotangent] = []
    for pulled, carry in zip(before, reversed(carried), strict=False):
        cts += [*stand_ins(pulled.presences, carry), *stand_ins(pulled.sums, consts)]
    cts += [*stand_ins(carried_presences, state), *stand_ins(sums, consts)]
    name = f"{sweeps.programs[number].name}_pull"
    program = flat_program(name, back, [*specs, *specs_inside(flat(cts))])
    return _Pulled(program, carried_presences, sums)


def _step(sweeps: Sweeps, number: int) -> Program:
    """Stage a step of a sweep and of those after it as one program, to be differentiated.

    Its inputs are the shared values and the carry of this sweep, which are followed; then the
    shared values and the carries of all sweeps once more. So shared values are followed only in
    this sweep.
    """
    programs = sweeps.programs[number:]
    specs = sweeps.programs[-1].inputs
    consts, *carried = sweeps.parts(specs)
    count, length = len(consts), len(carried[number])
    start = count + sum(map(len, carried[:number]))

    def step(values: Sequence[Value]) -> list[Value]:
        shared, state = values[:count], values[count : count + length]
        others = list(values[count + length :])
        others[start : start + length] = state
        outs = applied(programs[0], [*shared, *others[count : start + length]])
        for program in programs[1:]:
            outs = [*outs, *applied(program, others[: len(program.inputs)])]
        return outs

    return flat_program(programs[0].name, step, [*consts, *carried[number], *specs])


def _joined_by_element(first: Presence, second: Presence) -> Presence:
    return by_element(joined(first, second))  # as a batch needs it
