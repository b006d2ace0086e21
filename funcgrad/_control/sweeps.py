"""A loop whose length depends on the data, run forwards and backwards in turn, as a value.

A *sweep* goes through all steps. The first sweep is the loop itself, which computes the states.
Each later sweep goes in the direction opposite to the sweep before it, carries values of its own,
and reads at each step the state and the carries of the sweeps before. Reverse mode of a loop is one
later sweep, which carries cotangents; reverse mode of both has two more. So derivatives of sweeps
are sweeps.

>>> from funcgrad._control.sweeps import swept
>>> steps = [lambda entries: entries[0] + 1, lambda entries: [*entries[1], entries[0]]]
>>> swept(steps, lambda n: n < 4, 0, [[]], None)  # the states, from the last to the first
[4, [3, 2, 1, 0]]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeAlias, TypeVar

from funcgrad._control.spread import (
    begun,
    by_element,
    closure,
    fitted,
    in_kind,
    joined,
    settled,
    total,
)
from funcgrad._control.transformed_loops import BatchedLoop, Tangents, batched, pushed, pushed_step
from funcgrad._control.values import (
    batched_program,
    may_refuse,
    specs_inside,
    taking_part,
    with_batch,
)
from funcgrad._core.specs import stand_in
from funcgrad._core.structure.structures import Loop
from funcgrad._core.trace import Value
from funcgrad._primitives.selection import where
from funcgrad._primitives.stand_in_examples import chosen_examples
from funcgrad._programs.extract import extract
from funcgrad._programs.program import Program
from funcgrad._transforms.layout import CotangentKind, Layout, flat, kind_of, restored, stand_ins
from funcgrad._transforms.masked import Cotangent, Masked
from funcgrad._transforms.numberless import applied, flat_program
from funcgrad._transforms.with_derivative import as_recorded, with_pullback

T = TypeVar("T")
Steps: TypeAlias = Sequence[Callable[[Sequence[Any]], Any]]
"""A function for each sweep: from the carries of all sweeps up to it, to its own next carry."""


class Sweeps(NamedTuple):
    """A loop, and the sweeps after it.

    Attributes
    ----------
    loop : Loop
    later : tuple of Program
        Each maps the values that all steps share, the state at a step, the carries of the sweeps
        before and its own carry to its next carry. The first of them goes backwards.
    first : int
        The number of the first sweep whose last carry is a result; the loop has the number 0.
    """

    loop: Loop
    later: tuple[Program, ...] = ()
    first: int = 0

    @classmethod
    def of(cls, loop: Loop, params: Mapping[str, Any]) -> Sweeps:
        """Read the sweeps after a loop back from the parameters of an equation."""
        # Files of earlier versions have "turn_" in place of "sweep_".
        names = [name for name in sorted(params) if name.startswith(("sweep_", "turn_"))]
        return cls(loop, tuple([params[name] for name in names]), params["first"])

    def params(self) -> dict[str, Any]:
        """Return the parameters of an equation."""
        width = len(str(len(self.later)))
        later = {f"sweep_{k:0{width}}": program for k, program in enumerate(self.later, 1)}
        return {**self.loop.params(), "first": self.first, **later}

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs of all sweeps; the first is the body of the loop."""
        return (self.loop.body, *self.later)

    def parts(self, values: Sequence[T]) -> list[Sequence[T]]:
        """Split a sequence with an entry for each operand into shared values and carries."""
        parts, start = [values[: self.loop.shared]], self.loop.shared
        for program in self.programs:
            parts.append(values[start : start + len(program.outputs)])
            start += len(program.outputs)
        return parts

    def run(self, values: Sequence[Value]) -> list[Value]:
        """Run the sweeps, and return the last carries that are results."""
        consts, state, *starts = self.parts(values)

        def step(program: Program) -> Callable[[Sequence[Any]], Any]:
            return lambda entries: program.evaluate([*consts, *chain(*entries)])

        steps = [*map(step, self.programs)]

        def goes_on(carry: Sequence[Value]) -> bool:
            return bool(self.loop.condition.evaluate([*consts, *carry])[0])

        ends = swept(steps, goes_on, state, starts, self.loop.checkpoints)
        return [*chain(*ends[self.first :])]

    def pushed(self, flags: Sequence[bool]) -> tuple[Sweeps, Tangents, Tangents]:
        """Add the tangents of flagged operands, and of all values that depend on these.

        Also returns which operands and which results have tangents.
        """
        loop, operands, results = pushed(self.loop, flags[: len(self.loop.body.inputs)])
        if not self.later:
            return Sweeps(loop), operands, results
        parts, later = operands.parts[:2], []
        for program, flagged in zip(self.later, self.parts(flags)[2:], strict=True):
            program_with_tangents, operands, _ = pushed_step(program, [*parts, flagged], len(parts))
            parts = operands.parts
            later.append(program_with_tangents)
        return Sweeps(loop, tuple(later), self.first), operands, Tangents(parts[1 + self.first :])

    def recorded(self, followed: Sequence[Sequence[bool]]) -> Sweeps:
        """Return the sweeps with the programs that recording runs for the followed operands."""
        flags, (body, *later) = [*chain(*followed)], self.programs
        loop = self.loop._replace(body=as_recorded(body, flags[: len(body.inputs)]))
        programs = tuple([as_recorded(program, flags[: len(program.inputs)]) for program in later])
        return self._replace(loop=loop, later=programs)

    def batched(self, size: int, flags: Sequence[bool]) -> BatchedSweeps:
        """Batch the sweeps: flagged operands, and values that depend on them, have a batch axis."""
        batch = batched(self.loop, size, flags[: len(self.loop.body.inputs)])
        parts = [list(flags[: self.loop.shared]), batch.carry]
        later = []
        for one, flagged in zip(self.later, self.parts(flags)[2:], strict=True):

            def step(carried: list[bool], one: Program = one) -> tuple[Program, list[bool]]:
                return batched_program(one, size, [*chain(*parts), *carried], carried)

            is_masked = batch.condition is not None
            carried, program = closure([flag or is_masked for flag in flagged], step)
            parts.append(carried)
            if is_masked:
                program = self._masked(program, [*chain(*parts)], batch)
            later.append(program)
        return BatchedSweeps(Sweeps(batch.loop, tuple(later), self.first), batch, parts)

    def _masked(self, program: Program, flags: Sequence[bool], batch: BatchedLoop) -> Program:
        """Mask a later sweep on a batch: an example skips the steps that it did not take."""
        shared, count = self.loop.shared, len(program.outputs)
        has_stand_ins = may_refuse(program)

        def masked_step(values: Sequence[Value]) -> list[Value]:
            operands, active = [*values[:shared], *values[shared + 1 :]], values[shared]
            before = operands[len(operands) - count :]
            if has_stand_ins:
                operands = taking_part(active, operands, flags)
            pairs = zip(applied(program, operands), before, strict=True)
            return [chosen_examples(active, new, old) for new, old in pairs]

        mask = batch.loop.body.inputs[shared]
        specs = [*program.inputs[:shared], mask, *program.inputs[shared:]]
        return flat_program(program.name, masked_step, specs)


class BatchedSweeps(NamedTuple):
    """Sweeps on a batch.

    Attributes
    ----------
    sweeps : Sweeps
    loop : BatchedLoop
    parts : sequence of sequence of bool
        Which shared values have the batch, and which leaves of each sweep's carry.
    """

    sweeps: Sweeps
    loop: BatchedLoop
    parts: Sequence[Sequence[bool]]

    def operands(self, values: Sequence[Value], flags: Sequence[bool]) -> list[Value]:
        """Return the operands of the batched sweeps."""
        count = len(self.loop.one.body.inputs)
        wanted = [*chain(*self.parts[2:])]
        starts = with_batch(values[count:], flags[count:], wanted, self.loop.size)
        return [*self.loop.operands(values[:count], flags[:count]), *starts]

    def results(self, outs: Sequence[Value]) -> tuple[list[Value], list[bool]]:
        """Return the results on each example, and which have the batch, on axis 0."""
        if not self.sweeps.later:
            return self.loop.results(outs)
        return list(outs), [*chain(*self.parts[1 + self.sweeps.first :])]


def swept(
    steps: Steps,
    goes_on: Callable[[Any], bool],
    state: Any,
    starts: Sequence[Any],
    most: int | None,
) -> list[Any]:
    """Run sweeps to and fro and return their last carries.

    ``goes_on`` says whether the first sweep has another step at a state; ``state`` is its first
    carry, and ``starts`` are those of the other sweeps. About ``most`` states of each sweep are
    held at once, where that is a number; the others are computed again.
    """
    most = None if most is None else max(most, 2)
    states, every, count = [state], 1, 0
    while goes_on(state):
        state, count = steps[0]([state]), count + 1
        if count % every == 0:
            states.append(state)
            if most is not None and len(states) > most:
                states, every = states[::2], 2 * every
    lengths = [min(every, count - k * every) for k in range(-(-count // every))]
    known = [[checkpoint] for checkpoint in states[: len(lengths)]]
    del states
    return [state, *_later_ends(steps, known, lengths, starts, most)]


def _later_ends(
    steps: Steps,
    known: Sequence[list[Any]],
    lengths: Sequence[int],
    starts: Sequence[Any],
    most: int | None,
) -> list[Any]:
    """Run the sweeps after the first and return their last carries.

    The steps are cut into pieces of these lengths, and ``known`` has the carries of the sweeps at
    the beginning of each piece. The lists in ``known`` are extended and emptied.
    """
    ends = []
    for number, value in enumerate(starts, 1):
        pieces = range(len(known))
        for piece in pieces if number % 2 == 0 else reversed(pieces):
            known[piece].append(value)
            value = _through(steps, known[piece], lengths[piece], most)
            if number == len(starts):
                known[piece].clear()
        ends.append(value)
    return ends


def _through(steps: Steps, entries: Sequence[Any], length: int, most: int | None) -> Any:
    """Run sweeps over a piece, and return the carry of the last of them at its end."""
    step, value = steps[len(entries) - 1], entries[-1]
    if length == 1 or len(entries) == 1:
        for _ in range(length):
            value = step([*entries[:-1], value])
        return value
    every = -(-length // (most or length))
    lengths = [min(every, length - start) for start in range(0, length, every)]
    states = [entries[0]]
    for piece_length in lengths[:-1]:
        states.append(_through(steps, states[-1:], piece_length, most))
    return _later_ends(steps, [[state] for state in states], lengths, entries[1:], most)[-1]


# ------------------------------------------------------------------------------- reverse mode

Kinds: TypeAlias = list[CotangentKind]
_Pull: TypeAlias = tuple[Program, Layout, Kinds]
"""The program that pulls cotangents through a step, their layout, and the kinds of the sums."""

Apply: TypeAlias = Callable[[Sequence[Value], Sweeps], list[Value]]
"""A function that runs sweeps and returns their results."""


class SweepsRecording:
    """The record of a loop whose length depends on the data, or of sweeps: it holds no states.

    On the way back all sweeps run again, and each has another sweep of its own: first the last one,
    at the end the loop itself. Such a sweep carries the cotangents of a sweep's carry. At each step
    it pulls them back through that sweep, and adds the cotangents that the sweeps after it
    contribute at this step. These have been pulled back before, so their cotangents are known.

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
            state, (results, is_all) = settled(program, before, start)
            if not is_all:
                state, results = closure(state, partial(_connected_results, program, before))
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
            pulled = _pulled_sweep(sweeps, self._followed, number, [*map(kind_of, end_cts)], pulls)
            pulls.append(pulled)
            starts += map(in_kind, end_cts, pulled.kinds, specs)
            starts += map(partial(begun, None), pulled.sums, consts)
        programs = (*recorded.later, *[pulled.program for pulled in pulls])
        results = iter(
            self._apply([*values, *flat(starts)], Sweeps(recorded.loop, programs, first))
        )
        sums: list[Cotangent] = [None] * len(consts)
        ends: list[Cotangent] = []
        is_read = any(CotangentKind.WHOLE in pulled.sums for pulled in pulls)
        # A loop without steps reads no shared values, so their cotangents are absent.
        operands = values[: len(sweeps.loop.body.inputs)]
        ran = sweeps.loop.condition.evaluate(operands)[0] if is_read else None
        for pulled in pulls:
            ends = [*restored(pulled.kinds, results), *ends]
            more = restored(pulled.sums, results)
            for k, kind in enumerate(pulled.sums):
                if kind is CotangentKind.WHOLE:
                    more[k] = Masked(where(ran, more[k], 0), ran)
            sums = [*map(total, sums, more)]
        return [*sums, *ends]

    def push(self, tangents: Sequence[Value]) -> list[Value]:
        return push_sweeps(self._values, self._sweeps, tangents, self._apply)[1]


def push_sweeps(
    values: Sequence[Value], sweeps: Sweeps, tangents: Sequence[Value], apply: Apply
) -> tuple[list[Value], list[Value]]:
    """Run sweeps with tangents; return the results and the tangents of the results."""
    moved, operands, results = sweeps.pushed([t is not None for t in tangents])
    outs = apply(operands.joined(values, operands.filled(values, tangents)), moved)
    return results.taken_apart(outs)


def _connected_results(
    program: Program, before: Sequence[bool], state: Sequence[bool]
) -> tuple[list[bool], list[bool]]:
    """Record a step to find out which of its results depend on what is followed."""
    args, cts = [stand_in(spec) for spec in program.inputs], [None] * len(state)
    both = with_pullback(program, [*before, *state], args, cts, numbers=False)
    flags = [k in both.connected for k in range(len(state))]
    return flags, flags


class _Pulled(NamedTuple):
    """The sweep that goes back through a sweep.

    Attributes
    ----------
    program : Program
    kinds, sums : list of CotangentKind
        The kinds of the cotangents of the other sweep's carry, and of the sums for values that all
        steps share.
    """

    program: Program
    kinds: Kinds
    sums: Kinds


def _pulled_sweep(
    sweeps: Sweeps,
    followed: Sequence[Sequence[bool]],
    number: int,
    kinds: Sequence[CotangentKind],
    before: Sequence[_Pulled],
) -> _Pulled:
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
    later = [kind for pulled in reversed(before) for kind in pulled.kinds]
    results = [*state, *chain(*carried[number + 1 :])]

    def pull(kinds: Kinds) -> tuple[_Pull, Kinds]:
        stand_in_cts = stand_ins([*kinds, *later], results)
        both = with_pullback(step, flags, args, stand_in_cts, numbers=False)
        outs = both.program.outputs[len(results) :]
        program = extract(both.program, range(len(both.program.inputs)), outs)
        out_kinds = [*map(by_element, both.layout)]
        return (program, both.layout, out_kinds[:count]), out_kinds[count : count + len(state)]

    carried_kinds, (pull_program, layout, sums) = closure(
        [*map(by_element, kinds)], pull, _joined_by_element
    )

    def back(values: Sequence[Value]) -> list[Value]:
        arguments = iter(values[len(specs) :])
        others: list[Cotangent] = []
        for pulled in before:
            others = [*restored(pulled.kinds, arguments), *others]
            restored(pulled.sums, arguments)
        seeds, so_far = restored(carried_kinds, arguments), restored(sums, arguments)
        read = [*values[:count], *values[start : start + len(state)], *values[: len(specs)]]
        cts = restored(layout, applied(pull_program, [*read, *flat([*seeds, *others])]))
        state_specs = step.inputs[: count + len(state)]
        fits = [*map(fitted, cts, state_specs)]
        more = [*map(total, so_far, fits[:count])]
        return flat(
            [*map(in_kind, fits[count:], carried_kinds, state), *map(in_kind, more, sums, consts)]
        )

    cts: list[Cotangent] = []
    for pulled, carry in zip(before, reversed(carried), strict=False):
        cts += [*stand_ins(pulled.kinds, carry), *stand_ins(pulled.sums, consts)]
    cts += [*stand_ins(carried_kinds, state), *stand_ins(sums, consts)]
    name = f"{sweeps.programs[number].name}_pull"
    program = flat_program(name, back, [*specs, *specs_inside(flat(cts))])
    return _Pulled(program, carried_kinds, sums)


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


def _joined_by_element(first: CotangentKind, second: CotangentKind) -> CotangentKind:
    return by_element(joined(first, second))  # as a batch needs it
