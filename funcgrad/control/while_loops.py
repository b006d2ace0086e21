"""A loop whose length depends on the data, as a value: its programs, pushed forward and batched.

>>> import funcgrad as fg
>>> goes_on, body = fg.program(lambda w, c: c < w), fg.program(lambda w, c: c * w)
>>> WhileLoop(goes_on(9.0, 2.0), body(9.0, 2.0), 1).run([9.0], [2.0])
[18.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple, TypeVar

from funcgrad.control.examples import may_refuse, taking_part
from funcgrad.control.values import (
    as_spec,
    batched_program,
    inputs_read,
    part_of,
    strong,
    with_batch,
)
from funcgrad.primitives.deputies import chosen_examples
from funcgrad.primitives.logic import logical_and
from funcgrad.primitives.reduction import reduce_any
from funcgrad.programs.program import Program
from funcgrad.shape import Spec, stand_in
from funcgrad.trace import Value
from funcgrad.transforms.factors import zeros_like
from funcgrad.transforms.numberless import flat_program
from funcgrad.transforms.with_derivative import with_pushforward

T = TypeVar("T")


class WhileLoop(NamedTuple):
    """A loop, whose operands are values that all steps share, then the carry.

    Attributes
    ----------
    cond : Program
        Whether there is another step.
    body : Program
        From the operands to the next carry.
    consts : int
        The number of operands that all steps share.
    """

    cond: Program
    body: Program
    consts: int

    @property
    def specs(self) -> tuple[Sequence[Spec], Sequence[Spec]]:
        """The specs of the shared operands, and those of the carry."""
        return self.parts(self.body.inputs)

    def parts(self, values: Sequence[T]) -> tuple[Sequence[T], Sequence[T]]:
        """Split a sequence with an entry for each operand: shared values, and the carry."""
        return values[: self.consts], values[self.consts :]

    def goes_on(self, consts: Sequence[Value], state: Sequence[Value]) -> bool:
        """Whether there is another step."""
        return bool(self.cond.evaluate([*consts, *state])[0])

    def run(self, consts: Sequence[Value], state: Sequence[Value]) -> list[Value]:
        """Run the loop, and return the last carry."""
        carry = list(state)
        while self.goes_on(consts, carry):
            carry = self.body.evaluate([*consts, *carry])
        return carry

    def leaner(self, read: Sequence[bool]) -> tuple[WhileLoop, list[int], list[int]]:
        """Drop from the loop the operands and the parts of the carry that nothing needs.

        Needed are the parts that are read, and those that these depend on. Also the positions of
        the operands and of the parts of the carry that are left.
        """
        wanted = {k for k, flag in enumerate(read) if flag}
        while True:
            inputs = inputs_read(self.body, wanted) | inputs_read(self.cond, [0])
            grown = wanted | {k - self.consts for k in inputs if k >= self.consts}
            if grown == wanted:
                break
            wanted = grown
        operands = sorted(inputs | {self.consts + k for k in wanted})
        results = sorted(wanted)
        if len(operands) == len(self.body.inputs):
            return self, operands, results
        cond, body = part_of(self.cond, operands, [0]), part_of(self.body, operands, results)
        return (
            WhileLoop(cond, body, len([k for k in operands if k < self.consts])),
            operands,
            results,
        )

    def pushed(self, flags: Sequence[bool]) -> tuple[WhileLoop, Tangents]:
        """Add the tangents of flagged operands, and of parts of the carry that depend on them."""
        consts, state = self.parts(flags)
        body, layout = pushed_step(self.body, [consts], state)

        def goes_on(values: Sequence[Value]) -> list[Value]:
            return self.cond.evaluate(layout.taken_apart(values)[0])

        cond = flat_program(f"{self.cond.name}_push", goes_on, body.inputs)
        return WhileLoop(cond, body, self.consts + sum(consts)), layout

    def batched(self, size: int, flags: Sequence[bool]) -> BatchedWhile:
        """Batch the loop: flagged operands have the batch, and all that depend on these.

        Where the condition depends on the example, the loop goes on until it holds for none, and
        examples that have come to their end stay as they are.
        """
        consts, state = map(list, self.parts(flags))
        while True:
            _, out_flags = batched_program(self.body, size, [*consts, *state], state)
            _, masked = batched_program(self.cond, size, [*consts, *state], ())
            grown = [True] * len(state) if masked[0] else list(map(max, state, out_flags))
            if grown == state:
                break
            state = grown
        every = [*consts, *state]
        body, _ = batched_program(self.body, size, every, state)
        cond, (is_masked,) = batched_program(self.cond, size, every, ())
        loop = WhileLoop(cond, body, self.consts)
        if is_masked:
            loop = _masked(cond, body, every, self.consts)
        return BatchedWhile(loop, cond if is_masked else None, tuple(state), size)


class Tangents(NamedTuple):
    """Which operands of a loop have tangents; these stand behind the operands of the same part.

    Attributes
    ----------
    parts : tuple of tuple of bool
        A flag for each operand, by part: the shared values, and the carry of each sweep.
    """

    parts: tuple[tuple[bool, ...], ...]

    def joined(self, primals: Sequence[T], tangents: Sequence[T]) -> list[T]:
        """Join operands and their tangents to the operands of the loop with tangents."""
        operands: list[T] = []
        start = 0
        for flags in self.parts:
            stop = start + len(flags)
            operands += primals[start:stop]
            operands += [t for t, flag in zip(tangents[start:stop], flags, strict=True) if flag]
            start = stop
        return operands

    def taken_apart(self, values: Sequence[T], first: int = 0) -> tuple[list[T], list[T | None]]:
        """Split values into the operands of the parts from ``first`` on, and their tangents."""
        entries = iter(values)
        primals: list[T] = []
        tangents: list[T | None] = []
        for flags in self.parts[first:]:
            primals += [next(entries) for _ in flags]
            tangents += [next(entries) if flag else None for flag in flags]
        return primals, tangents


def pushed_step(
    program: Program, before: Sequence[Sequence[bool]], carried: Sequence[bool]
) -> tuple[Program, Tangents]:
    """A step with tangents beside the values.

    Parameters
    ----------
    program : Program
        Returns the next carry.
    before : sequence of sequence of bool
        Which inputs before the carry have tangents, by part.
    carried : sequence of bool
        Which parts of the carry have tangents at first; others may get them from the step.
    """
    inputs = [strong(spec) for spec in program.inputs]
    args, state = [stand_in(spec) for spec in program.inputs], list(carried)
    while True:
        flags = [*chain(*before), *state]
        pairs = zip(inputs, flags, strict=True)
        stand_in_tangents = [stand_in(spec) if flag else None for spec, flag in pairs]
        both = with_pushforward(program, args, stand_in_tangents, numbers=False)
        grown = [flag or width > 0 for flag, width in zip(state, both.widths, strict=True)]
        if grown == state:
            break
        state = grown
    layout = Tangents((*map(tuple, before), tuple(state)))
    ends = inputs[len(inputs) - len(state) :]

    def pushed(values: Sequence[Value]) -> list[Value]:
        primals, tangents = layout.taken_apart(values)
        outs = both.program.evaluate([*primals, *[t for t in tangents if t is not None]])
        tangent_results = iter(outs[len(ends) :])
        out_tangents = [next(tangent_results) if width else None for width in both.widths]
        moved = [
            as_spec(zeros_like(spec) if t is None else t, spec)
            for t, spec, flag in zip(out_tangents, ends, state, strict=True)
            if flag
        ]
        return [*outs[: len(ends)], *moved]

    specs = layout.joined(program.inputs, inputs)
    return flat_program(f"{program.name}_push", pushed, specs), layout


class BatchedWhile(NamedTuple):
    """A loop on a batch.

    Attributes
    ----------
    loop : WhileLoop
    cond : Program or None
        Whether there is another step for each example, if that depends on the example. Its result
        is the first part of the carry.
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
        state_flags = flags[-len(self.state) :]
        state = with_batch(values[-len(self.state) :], state_flags, self.state, self.size)
        active = [] if self.cond is None else self.cond.evaluate([*consts, *state])
        return [*consts, *active, *state]


def _masked(cond: Program, body: Program, flags: Sequence[bool], consts: int) -> WhileLoop:
    """A loop that goes on until all examples have ended; those that have stay as they are."""
    mask = cond.specs()[cond.outputs[0]]
    specs = [*body.inputs[:consts], mask, *body.inputs[consts:]]
    deputes = may_refuse(body)

    def goes_on(values: Sequence[Value]) -> list[Value]:
        return [reduce_any(values[consts], axis=(0,), keepdims=False)]

    def step(values: Sequence[Value]) -> list[Value]:
        shared, active, state = values[:consts], values[consts], values[consts + 1 :]
        read = [*shared, *state]
        stepped = body.evaluate(taking_part(active, read, flags) if deputes else read)
        next_state = [
            chosen_examples(active, new, old) for new, old in zip(stepped, state, strict=True)
        ]
        (more,) = cond.evaluate([*shared, *next_state])
        return [logical_and(active, more), *next_state]

    return WhileLoop(
        flat_program(cond.name, goes_on, specs), flat_program(body.name, step, specs), consts
    )
