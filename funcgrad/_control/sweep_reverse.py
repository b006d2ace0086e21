"""Reverse mode of a loop whose length depends on the data, and of the ways back through it.

In the way back each sweep has a turn of its own: first the last sweep, at the end the loop itself.
A turn carries the cotangents of its sweep's carry. At each step it pulls them back through that
sweep, and adds the cotangents that later sweeps contribute at this step. Later sweeps have had
their turns before, so these cotangents are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple, TypeAlias

from funcgrad._control.connections import settled
from funcgrad._control.cotangents import fitted, in_kind, joined, total
from funcgrad._control.spread import closure
from funcgrad._control.sweeps import Sweeps
from funcgrad._control.values import specs_inside
from funcgrad._core.specs import Spec, stand_in
from funcgrad._core.trace import Value
from funcgrad._primitives.selection import where
from funcgrad._programs.extract import extract
from funcgrad._programs.program import Program
from funcgrad._transforms.factors import zeros_like
from funcgrad._transforms.layout import CotangentKind, Layout, flat, kind_of, restored, stand_ins
from funcgrad._transforms.masked import Cotangent, Masked
from funcgrad._transforms.numberless import applied, flat_program
from funcgrad._transforms.with_derivative import with_pullback

Kinds: TypeAlias = list[CotangentKind]
_Pull: TypeAlias = tuple[Program, Layout, Kinds]
"""The program that pulls cotangents through a step, their layout, and the kinds of the sums."""

Apply: TypeAlias = Callable[[Sequence[Value], Sweeps], list[Value]]


def reached(
    sweeps: Sweeps, followed: Sequence[bool]
) -> tuple[list[Sequence[bool]], list[Sequence[int]]]:
    """Return which operands are followed at some step, and which last carries depend on them.

    Flags of operands are grouped as in ``Sweeps.parts``, positions of last carries by sweep.
    """
    consts, *carried = sweeps.parts(followed)
    parts: list[Sequence[bool]] = [consts]
    ends: list[Sequence[int]] = []
    for program, start in zip(sweeps.programs, carried, strict=True):
        before = [*chain(*parts)]
        state, (results, is_all) = settled(program, before, start)
        if not is_all:
            state, results = closure(state, partial(_recorded, program, before))
        # Without a step a last carry is the first one.
        ends.append([k for k, flag in enumerate(start) if flag or results[k]])
        parts.append(state)
    return parts, ends


def _recorded(
    program: Program, before: Sequence[bool], state: Sequence[bool]
) -> tuple[list[bool], list[bool]]:
    """Record a step to find out which of its results depend on what is followed."""
    args, cts = [stand_in(spec) for spec in program.inputs], [None] * len(state)
    both = with_pullback(program, [*before, *state], args, cts, numbers=False)
    flags = [k in both.connected for k in range(len(state))]
    return flags, flags


def unwind(
    values: Sequence[Value],
    followed: Sequence[Sequence[bool]],
    cts: Sequence[Sequence[Cotangent]],
    both: tuple[Sweeps, Sweeps],
    apply: Apply,
) -> list[Cotangent]:
    """Run the way back through sweeps, and return the cotangents of their operands.

    ``followed`` flags the operands by part, see ``reached``; ``cts`` has the cotangents of each
    sweep's last carry; ``both`` are the sweeps, and the sweeps as recorded.
    """
    sweeps, recorded = both
    consts, *carried = sweeps.parts(sweeps.programs[-1].inputs)
    turns: list[_Turn] = []
    starts: list[Value] = []
    for number in range(len(carried) - 1, -1, -1):
        triples = zip(cts[number], carried[number], followed[1 + number], strict=True)
        end_cts = [fitted(ct, spec) if flag else None for ct, spec, flag in triples]
        turn = _turn(sweeps, followed, number, [*map(kind_of, end_cts)], turns)
        turns.append(turn)
        starts += flat([*map(in_kind, end_cts, turn.kinds, carried[number])])
        starts += flat([*map(_beginning, turn.sums, consts)])
    first = len(carried)
    programs = (*recorded.turns, *[turn.program for turn in turns])
    whole = Sweeps(recorded.loop, programs, first)
    results = iter(apply([*values, *starts], whole))
    sums: list[Cotangent] = [None] * len(consts)
    ends: list[list[Cotangent]] = []
    is_read = any(CotangentKind.WHOLE in turn.sums for turn in turns)
    # A loop without steps reads no shared values, so their cotangents are absent.
    operands = values[: len(sweeps.loop.body.inputs)]
    ran = sweeps.loop.condition.evaluate(operands)[0] if is_read else None
    for turn in turns:
        ends.append(restored(turn.kinds, results))
        more = restored(turn.sums, results)
        for k, kind in enumerate(turn.sums):
            if kind is CotangentKind.WHOLE:
                more[k] = Masked(where(ran, more[k], 0), ran)
        sums = [*map(total, sums, more)]
    return [*sums, *chain(*reversed(ends))]


def _beginning(kind: CotangentKind, spec: Spec) -> Cotangent:
    """Return the first value of a sum of cotangents."""
    if kind is CotangentKind.WHOLE:
        return zeros_like(spec)
    return in_kind(None, kind, spec)


class _Turn(NamedTuple):
    """The way back through one sweep.

    Attributes
    ----------
    program : Program
    kinds, sums : list of CotangentKind
        The kinds of the cotangents of the sweep's carry, and of the sums for values that all steps
        share.
    """

    program: Program
    kinds: Kinds
    sums: Kinds


def _turn(
    sweeps: Sweeps,
    followed: Sequence[Sequence[bool]],
    number: int,
    kinds: Sequence[CotangentKind],
    before: Sequence[_Turn],
) -> _Turn:
    """Stage the way back through a sweep, for cotangents of some kinds at its end.

    ``before`` has the ways back through the sweeps after it, the last of them first.
    """
    specs = sweeps.programs[-1].inputs
    consts, *carried = sweeps.parts(specs)
    count, state = len(consts), carried[number]
    start = count + sum(map(len, carried[:number]))
    step = _step(sweeps, number)
    args = [stand_in(spec) for spec in step.inputs]
    flags = [*followed[0], *followed[1 + number], *[False] * len(specs)]
    later = [kind for turn in reversed(before) for kind in turn.kinds]
    results = [*state, *chain(*carried[number + 1 :])]

    def pull(kinds: Kinds) -> tuple[_Pull, Kinds]:
        stand_in_cts = stand_ins([*kinds, *later], results)
        both = with_pullback(step, flags, args, stand_in_cts, numbers=False)
        outs = both.program.outputs[len(results) :]
        pulled = extract(both.program, range(len(both.program.inputs)), outs)
        out_kinds = [*map(_wide, both.layout)]
        return (pulled, both.layout, out_kinds[:count]), out_kinds[count : count + len(state)]

    carried_kinds, (pulled, layout, sums) = closure([*map(_wide, kinds)], pull, _wide_joined)

    def back(values: Sequence[Value]) -> list[Value]:
        arguments = iter(values[len(specs) :])
        others = []
        for turn in before:
            others.append(restored(turn.kinds, arguments))
            restored(turn.sums, arguments)
        seeds, so_far = restored(carried_kinds, arguments), restored(sums, arguments)
        read = [*values[:count], *values[start : start + len(state)], *values[: len(specs)]]
        every = [*seeds, *chain(*reversed(others))]
        cts = restored(layout, applied(pulled, [*read, *flat(every)]))
        pairs = zip(cts[: count + len(state)], [*consts, *state], strict=True)
        fits = [fitted(ct, spec) for ct, spec in pairs]
        more = [total(*pair) for pair in zip(so_far, fits[:count], strict=True)]
        return flat(
            [*map(in_kind, fits[count:], carried_kinds, state), *map(in_kind, more, sums, consts)]
        )

    wide: list[Cotangent] = []
    for turn, carry in zip(before, reversed(carried), strict=False):
        wide += [*stand_ins(turn.kinds, carry), *stand_ins(turn.sums, consts)]
    wide += [*stand_ins(carried_kinds, state), *stand_ins(sums, consts)]
    name = f"{sweeps.programs[number].name}_pull"
    program = flat_program(name, back, [*specs, *specs_inside(flat(wide))])
    return _Turn(program, carried_kinds, sums)


def _step(sweeps: Sweeps, number: int) -> Program:
    """Stage a step of a sweep and of those after it as one program, to be differentiated.

    Its inputs are the shared values and the carry of this sweep, which are followed; then the
    shared values and the carries of all sweeps once more. So shared values are followed in this
    sweep alone.
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
        outs = []
        for k, program in enumerate(programs):
            read = others[: len(program.inputs)]
            if not k:
                read[:count] = shared
            outs += applied(program, read)
        return outs

    return flat_program(programs[0].name, step, [*consts, *carried[number], *specs])


def _wide(kind: CotangentKind) -> CotangentKind:
    """Replace a mask of one truth value by one for each element, as a batch needs it."""
    return CotangentKind.MASKED if kind is CotangentKind.SWITCHED else kind


def _wide_joined(first: CotangentKind, second: CotangentKind) -> CotangentKind:
    return _wide(joined(first, second))
