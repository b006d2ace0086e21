"""A loop of as many steps as it takes, as a value: its programs, pushed forward and batched.

>>> import funcgrad as fg
>>> goes_on, body = fg.program(lambda w, c: c < w), fg.program(lambda w, c: c * w)
>>> WhileLoop(goes_on(9.0, 2.0), body(9.0, 2.0), 1).run([9.0], [2.0])
[18.0]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from funcgrad.control.values import (
    as_spec,
    batched_program,
    inputs_read,
    part_of,
    strong,
    with_batch,
)
from funcgrad.primitives.logic import logical_and
from funcgrad.primitives.reduction import reduce_any
from funcgrad.primitives.selection import where
from funcgrad.primitives.structural import reshape
from funcgrad.programs.program import Program
from funcgrad.shape import Spec, shape_of, stand_in
from funcgrad.trace import Value
from funcgrad.transforms.factors import zeros_like
from funcgrad.transforms.numberless import flat_program
from funcgrad.transforms.with_derivative import with_pushforward

__all__ = ["BatchedWhile", "Tangents", "WhileLoop", "interleaved", "states_backwards"]

T = TypeVar("T")


class WhileLoop(NamedTuple):
    """A loop: of its first operands, so many, that all steps share, and of the carry.

    Attributes
    ----------
    cond : Program
        Whether there is another step.
    body : Program
        To the next carry.
    consts : int
    """

    cond: Program
    body: Program
    consts: int

    @property
    def specs(self) -> tuple[Sequence[Spec], Sequence[Spec]]:
        """Of what is shared, and of the carry."""
        return self.parts(self.body.inputs)

    def parts(self, values: Sequence[T]) -> tuple[Sequence[T], Sequence[T]]:
        """Operands, or what belongs to them, in the two parts."""
        return values[: self.consts], values[self.consts :]

    def goes_on(self, consts: Sequence[Value], state: Sequence[Value]) -> bool:
        """Whether there is another step."""
        return bool(self.cond.evaluate([*consts, *state])[0])

    def run(self, consts: Sequence[Value], state: Sequence[Value]) -> list[Value]:
        """The last carry."""
        own = list(state)
        while self.goes_on(consts, own):
            own = self.body.evaluate([*consts, *own])
        return own

    def leaner(self, read: Sequence[bool]) -> tuple[WhileLoop, list[int], list[int]]:
        """The loop with as much of the carry as it takes for some parts, and of its operands.

        Also the positions of these operands, and of these parts.
        """
        wanted = {k for k, flag in enumerate(read) if flag}
        while True:
            inputs = inputs_read(self.body, wanted) | inputs_read(self.cond, [0])
            grown = wanted | {k - self.consts for k in inputs if k >= self.consts}
            if grown == wanted:
                break
            wanted = grown
        kept = sorted(inputs | {self.consts + k for k in wanted})
        results = sorted(wanted)
        if len(kept) == len(self.body.inputs):
            return self, kept, results
        cond, body = part_of(self.cond, kept, [0]), part_of(self.body, kept, results)
        return WhileLoop(cond, body, len([k for k in kept if k < self.consts])), kept, results

    def pushed(self, flags: Sequence[bool]) -> tuple[WhileLoop, Tangents]:
        """The loop with tangents of some operands beside these, and of all that these reach."""
        body = self.body
        inputs = [strong(spec) for spec in body.inputs]
        args = [stand_in(spec) for spec in body.inputs]
        consts, state = map(list, self.parts(flags))
        while True:
            given = [
                stand_in(spec) if flag else None
                for spec, flag in zip(inputs, [*consts, *state], strict=True)
            ]
            both = with_pushforward(body, args, given, numbers=False)
            grown = [flag or width > 0 for flag, width in zip(state, both.widths, strict=True)]
            if grown == state:
                break
            state = grown
        own = Tangents(tuple(consts), tuple(state))
        ends = self.parts(inputs)[1]

        def pushed(values: Sequence[Value]) -> list[Value]:
            primals, tangents = own.taken_apart(values)
            outs = both.program.evaluate([*primals, *[t for t in tangents if t is not None]])
            rest = iter(outs[len(ends) :])
            found = [next(rest) if width else None for width in both.widths]
            moved = [
                as_spec(zeros_like(spec) if t is None else t, spec)
                for t, spec, flag in zip(found, ends, state, strict=True)
                if flag
            ]
            return [*outs[: len(ends)], *moved]

        def goes_on(values: Sequence[Value]) -> list[Value]:
            return self.cond.evaluate(own.taken_apart(values)[0])

        specs = own.joined(body.inputs, inputs)
        return (
            WhileLoop(
                flat_program(f"{self.cond.name}_push", goes_on, specs),
                flat_program(f"{body.name}_push", pushed, specs),
                self.consts + sum(consts),
            ),
            own,
        )

    def batched(self, size: int, flags: Sequence[bool]) -> BatchedWhile:
        """The loop on a batch, of which some operands have one, and all that these reach.

        Where it depends on the example whether there is another step, the loop goes on until there
        is none for any, and those that have come to their end stay as they are.
        """
        consts, state = map(list, self.parts(flags))
        while True:
            _, found = batched_program(self.body, size, [*consts, *state], state)
            _, masked = batched_program(self.cond, size, [*consts, *state], ())
            grown = [True] * len(state) if masked[0] else list(map(max, state, found))
            if grown == state:
                break
            state = grown
        every = [*consts, *state]
        body, _ = batched_program(self.body, size, every, state)
        cond, (is_masked,) = batched_program(self.cond, size, every, ())
        loop = _masked(cond, body, self.consts) if is_masked else WhileLoop(cond, body, self.consts)
        return BatchedWhile(loop, cond if is_masked else None, tuple(state), size)


class Tangents(NamedTuple):
    """Which operands of a loop have tangents: those shared, those of the carry."""

    consts: tuple[bool, ...]
    state: tuple[bool, ...]

    def joined(self, primals: Sequence[T], tangents: Sequence[T]) -> list[T]:
        """Operands of the loop with tangents, from the operands' and their tangents."""
        count = len(self.consts)
        consts = interleaved(primals[:count], tangents[:count], self.consts)
        return [*consts, *interleaved(primals[count:], tangents[count:], self.state)]

    def taken_apart(self, values: Sequence[T]) -> tuple[list[T], list[T | None]]:
        """Operands, and their tangents or None."""
        rest = iter(values)
        primals: list[T] = []
        tangents: list[T | None] = []
        for flags in self:
            primals += [next(rest) for _ in flags]
            tangents += [next(rest) if flag else None for flag in flags]
        return primals, tangents


def interleaved(primals: Sequence[T], tangents: Sequence[T], flags: Sequence[bool]) -> list[T]:
    """Values, and behind them the tangents that are flagged."""
    return [*primals, *[t for t, flag in zip(tangents, flags, strict=True) if flag]]


class BatchedWhile(NamedTuple):
    """A loop on a batch.

    Attributes
    ----------
    loop : WhileLoop
    cond : Program or None
        Whether there is another step for each example, if that depends on the example: what it
        says is the first part of the carry.
    state : tuple of bool
        Which parts of the carry have the batch.
    size : int
    """

    loop: WhileLoop
    cond: Program | None
    state: tuple[bool, ...]
    size: int

    def operands(self, values: Sequence[Value], flags: Sequence[bool]) -> list[Value]:
        """The operands of the loop."""
        consts = values[: -len(self.state)]
        own = flags[-len(self.state) :]
        state = with_batch(values[-len(self.state) :], own, self.state, self.size)
        active = [] if self.cond is None else self.cond.evaluate([*consts, *state])
        return [*consts, *active, *state]


def _masked(cond: Program, body: Program, consts: int) -> WhileLoop:
    """A loop that goes on for each example by itself; what has ended is kept."""
    mask = cond.specs()[cond.outputs[0]]
    specs = [*body.inputs[:consts], mask, *body.inputs[consts:]]

    def goes_on(values: Sequence[Value]) -> list[Value]:
        return [reduce_any(values[consts], axis=(0,), keepdims=False)]

    def step(values: Sequence[Value]) -> list[Value]:
        shared, active, state = values[:consts], values[consts], values[consts + 1 :]
        found = body.evaluate([*shared, *state])
        kept = [_where(active, new, old) for new, old in zip(found, state, strict=True)]
        (more,) = cond.evaluate([*shared, *kept])
        return [logical_and(active, more), *kept]

    return WhileLoop(
        flat_program(cond.name, goes_on, specs), flat_program(body.name, step, specs), consts
    )


def _where(mask: Value, new: Value, old: Value) -> Value:
    shape = shape_of(mask)
    return where(reshape(mask, shape=(*shape, *(1,) * (len(shape_of(old)) - 1))), new, old)


def states_backwards(
    step: Callable[[Any], Any], goes_on: Callable[[Any], bool], state: Any, most: int | None
) -> Iterator[Any]:
    """The states that a loop goes through, but for its last, from the last to the first.

    Parameters
    ----------
    step, goes_on : callable
        Of a state.
    state : object
        The first.
    most : int, optional
        About so many are held at once: of the others, some are computed again.

    Examples
    --------
    >>> list(states_backwards(lambda n: n + 1, lambda n: n < 9, 0, 3))
    [8, 7, 6, 5, 4, 3, 2, 1, 0]
    """
    kept, every, count = [state], 1, 0
    while goes_on(state):
        state, count = step(state), count + 1
        if count % every == 0:
            kept.append(state)
            if most is not None and len(kept) > max(most, 2):
                kept, every = kept[::2], 2 * every
    while kept:
        length = min(every, count - (len(kept) - 1) * every)
        yield from _of_segment(step, kept.pop(), length, every if most is None else max(most, 2))


def _of_segment(step: Callable[[Any], Any], state: Any, length: int, most: int) -> Iterator[Any]:
    """The first states from one on, so many, the last first."""
    if length <= 1:
        yield from [state][:length]
        return
    every = -(-length // most)
    kept = []
    for number in range(length):
        if number % every == 0:
            kept.append(state)
        state = step(state) if number < length - 1 else None
    while kept:
        start = (len(kept) - 1) * every
        yield from _of_segment(step, kept.pop(), min(every, length - start), most)
