"""A loop whose length depends on the data, run forwards and backwards in turn, as a value.

The first sweep computes the states. Each *turn* after that goes through all steps in the opposite
direction to the sweep before it, carries values of its own, and reads at each step the state and
the carries of the turns before. Reverse mode of a loop is one turn, which carries cotangents;
reverse mode of that has two more turns: derivatives of sweeps are sweeps.

>>> from funcgrad._control.sweeps import swept
>>> steps = [lambda entries: entries[0] + 1, lambda entries: [*entries[1], entries[0]]]
>>> swept(steps, lambda n: n < 4, 0, [[]], None)  # the states, from the last to the first
[4, [3, 2, 1, 0]]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias, TypeVar

from funcgrad._control.inactive_examples import may_refuse, taking_part
from funcgrad._control.spread import closure
from funcgrad._control.transformed_loops import BatchedLoop, Tangents, batched, pushed, pushed_step
from funcgrad._control.values import batched_program, with_batch
from funcgrad._core.structure.structures import Loop
from funcgrad._core.trace import Value
from funcgrad._primitives.stand_in_examples import chosen_examples
from funcgrad._programs.program import Program
from funcgrad._transforms.numberless import applied, flat_program
from funcgrad._transforms.with_derivative import as_recorded

T = TypeVar("T")
Steps: TypeAlias = Sequence[Callable[[Sequence[Any]], Any]]
"""A function for each sweep: from the carries of all sweeps up to it, to its own next carry."""


class Sweeps(NamedTuple):
    """A loop, and its turns.

    Attributes
    ----------
    loop : Loop
    turns : tuple of Program
        Each maps the values that all steps share, the state at a step, the carries of the turns
        before and its own carry to its next carry. The first turn goes backwards.
    first : int
        The first turn, counted from 1, whose last carry is a result.
    """

    loop: Loop
    turns: tuple[Program, ...] = ()
    first: int = 0

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Sweeps:
        """Read sweeps back from the parameters of an equation."""
        loop = Loop(**{name: params[name] for name in Loop._fields if name in params})
        turns = tuple([params[name] for name in sorted(params) if name.startswith("turn_")])
        return cls(loop, turns, params["first"])

    def params(self) -> dict[str, Any]:
        """Return the parameters of an equation."""
        width = len(str(len(self.turns)))
        turns = {f"turn_{k:0{width}}": turn for k, turn in enumerate(self.turns, 1)}
        return {**self.loop.params(), "first": self.first, **turns}

    @property
    def programs(self) -> tuple[Program, ...]:
        """The programs of all sweeps: the body of the loop, and the turns."""
        return (self.loop.body, *self.turns)

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

    def pushed(self, flags: Sequence[bool]) -> tuple[Sweeps, Tangents]:
        """Add the tangents of flagged operands, and of all values that depend on these."""
        count = len(self.loop.body.inputs)
        loop, layout, _ = pushed(self.loop, flags[:count])
        parts, turns = layout.parts[:2], []
        for turn, flagged in zip(self.turns, self.parts(flags)[2:], strict=True):
            program, layout, _ = pushed_step(turn, [*parts, flagged], len(parts))
            parts = layout.parts
            turns.append(program)
        return Sweeps(loop, tuple(turns), self.first), Tangents(parts)

    def recorded(self, followed: Sequence[Sequence[bool]]) -> Sweeps:
        """Return the sweeps with the programs that recording runs for the followed operands."""
        flags, (body, *turns) = [*chain(*followed)], self.programs
        loop = self.loop._replace(body=as_recorded(body, flags[: len(body.inputs)]))
        recorded_turns = tuple([as_recorded(turn, flags[: len(turn.inputs)]) for turn in turns])
        return self._replace(loop=loop, turns=recorded_turns)

    def batched(self, size: int, flags: Sequence[bool]) -> BatchedSweeps:
        """Batch the sweeps: flagged operands, and values that depend on them, have a batch axis."""
        count = len(self.loop.body.inputs)
        batch = batched(self.loop, size, flags[:count])
        parts = [list(flags[: self.loop.shared]), batch.carry]
        turns = []
        for turn, flagged in zip(self.turns, self.parts(flags)[2:], strict=True):

            def step(carried: list[bool], turn: Program = turn) -> tuple[Program, list[bool]]:
                return batched_program(turn, size, [*chain(*parts), *carried], carried)

            is_masked = batch.condition is not None
            carried, program = closure([flag or is_masked for flag in flagged], step)
            parts.append(carried)
            if is_masked:
                program = self._masked(program, [*chain(*parts)], batch)
            turns.append(program)
        return BatchedSweeps(Sweeps(batch.loop, tuple(turns), self.first), batch, parts)

    def _masked(self, turn: Program, flags: Sequence[bool], batch: BatchedLoop) -> Program:
        """Mask a turn on a batch: an example skips the steps that it did not take forwards."""
        shared, count = self.loop.shared, len(turn.outputs)
        deputes = may_refuse(turn)

        def masked_turn(values: Sequence[Value]) -> list[Value]:
            operands, active = [*values[:shared], *values[shared + 1 :]], values[shared]
            before = operands[len(operands) - count :]
            if deputes:
                operands = taking_part(active, operands, flags)
            pairs = zip(applied(turn, operands), before, strict=True)
            return [chosen_examples(active, new, old) for new, old in pairs]

        mask = batch.loop.body.inputs[shared]
        specs = [*turn.inputs[:shared], mask, *turn.inputs[shared:]]
        return flat_program(turn.name, masked_turn, specs)


class BatchedSweeps(NamedTuple):
    """A loop and its turns on a batch.

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
        count = len(self.parts[0]) + len(self.parts[1])
        wanted = [*chain(*self.parts[2:])]
        starts = with_batch(values[count:], flags[count:], wanted, self.loop.size)
        return [*self.loop.operands(values[:count], flags[:count]), *starts]

    @property
    def results(self) -> list[bool]:
        """Which results have the batch."""
        return [*chain(*self.parts[1 + self.sweeps.first :])]


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
    return [state, *_turned(steps, known, lengths, starts, most)]


def _turned(
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
    return _turned(steps, [[state] for state in states], lengths, entries[1:], most)[-1]
