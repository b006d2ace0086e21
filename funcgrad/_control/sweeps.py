"""A loop whose length depends on the data, run forwards and backwards alternately, as a value.

A *sweep* goes through all steps. The first sweep is the loop itself, which computes the states.
Each later sweep goes in the direction opposite to the sweep before it, carries other values, and
reads at each step the state and the carries of the sweeps before. Reverse mode of a loop is one
later sweep, which carries cotangents; reverse mode of both has two more. So derivatives of sweeps
are sweeps.

>>> from funcgrad._control.sweeps import swept
>>> steps = [lambda entries: entries[0] + 1, lambda entries: [*entries[1], entries[0]]]
>>> swept(steps, lambda n: n < 4, 0, [[]], None)  # the states, from the last to the first
[4, [3, 2, 1, 0]]
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeAlias, TypeVar

from funcgrad._core.structure.structures import Loop
from funcgrad._core.trace import Value
from funcgrad._programs.program import Program
from funcgrad._transforms.with_derivative import as_recorded

T = TypeVar("T")
Steps: TypeAlias = Sequence[Callable[[Sequence[Any]], Any]]
"""A function for each sweep: from the carries of all sweeps up to it, to its next carry."""


class Sweeps(NamedTuple):
    """A loop, and the sweeps after it.

    Attributes
    ----------
    loop : Loop
    later : tuple of Program
        Each maps the values that all steps share, the state at a step, the carries of the sweeps
        before and its carry to its next carry. The first of them goes backwards.
    first : int
        The number of the first sweep whose last carry is a result; the loop has the number 0.
    """

    loop: Loop
    later: tuple[Program, ...] = ()
    first: int = 0

    @classmethod
    def of(cls, loop: Loop, params: Mapping[str, Any]) -> Sweeps:
        """Read the sweeps after a loop back from the parameters of an equation."""
        names = [name for name in sorted(params) if name.startswith("sweep_")]
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

    def recorded(self, followed: Sequence[Sequence[bool]]) -> Sweeps:
        """Return the sweeps with the programs that recording runs for the followed operands.

        The way back runs the loop again.
        """
        flags, (body, *later) = [*chain(*followed)], self.programs
        recorded_body = as_recorded(body, flags[: len(body.inputs)])
        loop = self.loop._replace(body=recorded_body, replayed=True)
        programs = tuple([as_recorded(program, flags[: len(program.inputs)]) for program in later])
        return self._replace(loop=loop, later=programs)


def swept(
    steps: Steps,
    goes_on: Callable[[Any], bool],
    state: Any,
    starts: Sequence[Any],
    most: int | None,
) -> list[Any]:
    """Run sweeps to and fro and return their last carries.

    ``goes_on`` says whether the first sweep has another step at a state; ``state`` is its first
    carry, and ``starts`` has the first carries of the other sweeps. About ``most`` states of each
    sweep are held at once, unless it is None; the others are computed again.
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
