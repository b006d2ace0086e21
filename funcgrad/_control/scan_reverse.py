"""Reverse mode of a scan: a loop forwards that stores residuals, and a loop backwards.

The residuals of the body are stacked over steps. Those that do not depend on the step are computed
once, and those that exist anyway, such as the arrays that the loop goes through, are not stored a
second time. The loop backwards adds up the cotangents of values that all steps share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from funcgrad._control.operation import Values
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
from funcgrad._control.transformed_loops import invariant_variables
from funcgrad._control.values import specs_inside, strong, tangent_in, tangent_stand_ins
from funcgrad._core.specs import Spec, dtype_of, shape_of, stand_in
from funcgrad._core.structure.structures import Loop
from funcgrad._core.trace import Value
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.joining import concatenate
from funcgrad._primitives.structural import reshape, view
from funcgrad._programs.extract import extract
from funcgrad._transforms.abstract_stager import flat_program
from funcgrad._transforms.factors import zeros_like
from funcgrad._transforms.layout import Presence, flat, presence_of, present, restored
from funcgrad._transforms.linearization import Linearization, LinearPart
from funcgrad._transforms.masked import Cotangent, map_cotangent

Apply: TypeAlias = Callable[[Values, Loop], list[Value]]
Known: TypeAlias = Mapping[int, Value]

_MOST_SINGLE_STEPS: Final = 2
"""The most steps that run by themselves: each adds as many equations as the body."""


class ScanRecording:
    """The record of a scan.

    Parameters
    ----------
    values : sequence of values
        The operands of the loop.
    followed : sequence of bool
    loop : Loop
    apply : callable
        Runs a loop, see ``apply_loop``.
    """

    def __init__(self, values: Values, followed: Sequence[bool], loop: Loop, apply: Apply) -> None:
        self._loop, self._length = loop, loop.length or 0
        self._values, self._apply = values, apply
        body = loop.body
        self._args = [*map(stand_in, body.inputs)]
        shared, carry, xs = loop.parts(followed)

        def linearized(state: list[bool]) -> tuple[Linearization, list[bool]]:
            taken = Linearization(body, [*shared, *state, *xs], self._args, numbers=False)
            return taken, [k in taken.connected for k in range(loop.carried)]

        start, _ = dependent_carry(body, shared, carry, xs)
        _, self._taken = spread(start, linearized)
        self.connected = self._taken.connected
        forward = self._taken.forward
        # At positions, which count the body's inputs, and then its residuals.
        self._variables = [*range(len(body.inputs)), *forward.outputs[len(body.outputs) :]]
        self._invariant = invariant_variables(forward, loop.shared)
        self._residuals: dict[int, Value] = {}
        self.outs = self._keep(sorted({*self._taken.first.reads}))

    def _keep(self, wanted: Sequence[int]) -> list[Value]:
        """Run the loop and return its results; store the values at the wanted positions."""
        loop, forward = self._loop, self._taken.forward
        inputs = range(len(loop.body.inputs))
        arrays = inputs[loop.shared + loop.carried :]
        once: dict[int, int] = {}
        stacked: dict[int, int] = {}
        for position in wanted:
            variable = self._variables[position]
            if position < loop.shared or position in arrays:
                self._residuals[position] = self._values[position]
            else:
                (once if variable in self._invariant else stacked)[position] = variable
        outs = forward.outputs[: len(loop.body.outputs)]
        ys = outs[loop.carried :]
        more = sorted({*stacked.values()} - {*ys})
        body = extract(forward, inputs, [*outs, *more])
        results = self._apply(self._values, loop._replace(body=body))
        places = {variable: place for place, variable in enumerate([*ys, *more], loop.carried)}
        for position, variable in stacked.items():
            self._residuals[position] = results[places[variable]]
        if once:
            before = extract(forward, inputs[: loop.shared], [*once.values()])
            computed = before.evaluate(self._values[: loop.shared])
            self._residuals.update(zip(once, computed, strict=True))
        return results[: len(outs)]

    def _read(self, linear: LinearPart) -> tuple[list[int], list[int]]:
        """Return the positions that a linear part reads, in two lists: of the values that are the
        same at all steps, and of those stacked over steps."""
        lacking = [position for position in linear.reads if position not in self._residuals]
        if lacking:
            self._keep(lacking)
        fixed = [place for place in linear.reads if self._variables[place] in self._invariant]
        return fixed, [place for place in linear.reads if place not in fixed]

    def pull(self, cts: Sequence[Cotangent]) -> list[Cotangent]:
        loop, length = self._loop, self._length
        _, specs, x_specs = loop.parts(loop.body.inputs)
        state: Sequence[Cotangent] = [*map(fitted, cts, specs)]
        seeds: list[Cotangent] = [None] * (len(cts) - loop.carried)
        for k in [k for k in self.connected if k >= loop.carried]:
            spec = _stack_spec(length, loop.body.output_specs[k])
            ct = fitted(cts[k], spec)
            seeds[k - loop.carried] = with_presence(
                ct, by_element(presence_of(ct)), spec
            )  # by step
        sums: list[Cotangent] = [None] * loop.shared
        stacks: list[Sequence[Cotangent]] = []
        lengths = self._segments([*map(presence_of, state)], [*map(presence_of, seeds)])
        for number, count in enumerate(lengths):
            sums, state, rows = self._pulled(sums, state, seeds, number, count)
            stacks.append(rows)
        order = slice(None, None, 1 if loop.reverse else -1)
        pairs = zip(zip(*stacks[order], strict=True), x_specs, strict=True)
        return [*sums, *state, *[_end_to_end(*pair, lengths[order]) for pair in pairs]]

    def _segments(
        self, presences: Sequence[Presence], seed_presences: Sequence[Presence]
    ) -> list[int]:
        """Return how many steps run together on the way back: first single steps, then the loop.

        A step runs by itself where an absent cotangent becomes whole. A loop that also ran it would
        carry a mask at all steps, which takes 1.1 to 1.6 times as long. All steps run in the loop
        where more than ``_MOST_SINGLE_STEPS`` steps, or all, would run by themselves.
        """
        single = 0
        while Presence.ABSENT in presences:
            after = self._loop.parts(self._pullback_for(presences, seed_presences).layout)[1]
            if (Presence.ABSENT, Presence.WHOLE) not in zip(presences, after, strict=True):
                break
            single += 1
            if single > _MOST_SINGLE_STEPS or single >= self._length:
                return [self._length]
            presences = after
        return [*[1] * single, self._length - single]

    def _pulled(
        self,
        before: Sequence[Cotangent],
        state: Sequence[Cotangent],
        seeds: Sequence[Cotangent],
        first: int,
        count: int,
    ) -> tuple[list[Cotangent], list[Cotangent], list[Cotangent]]:
        """Run ``count`` steps backwards, from the step number ``first`` of the way back on.

        Returns the cotangents of shared values, which are added to ``before``, of the carry, and of
        slices of the arrays.
        """
        loop, is_single = self._loop, count == 1 < self._length
        consts, specs, x_specs = loop.parts(loop.body.inputs)
        presences, seed_presences = [*map(presence_of, state)], [*map(presence_of, seeds)]

        def pull(presences: list[Presence]) -> tuple[LinearPart, Sequence[Presence]]:
            pullback = self._pullback_for(presences, seed_presences)
            return pullback, loop.parts(pullback.layout)[1]

        if is_single:
            pullback, end_presences = pull(presences)
            sums = before
        else:
            presences, pullback = spread(presences, pull, joined)
            end_presences = presences
            sums = [*map(begun, before, pullback.layout, consts)]
        x_presences = [*map(by_element, loop.parts(pullback.layout)[2])]
        sum_presences = [*map(presence_of, sums)]
        layout: list[Presence] = []

        def back(known: Known, shared: Values, carried: Values, rows: Values) -> list[Value]:
            arguments = iter(carried)
            cts = [*restored(presences, arguments), *restored(seed_presences, rows)]
            pulled = pullback.apply(known, [cts[k] for k in self.connected])
            const_cts, state_cts, x_cts = loop.parts([*map(fitted, pulled, loop.body.inputs)])
            results = [
                *map(with_presence, state_cts, end_presences, specs),
                *map(total, restored(sum_presences, arguments), const_cts),
                *map(with_presence, x_cts, x_presences, x_specs),
            ]
            layout[:] = map(presence_of, results)
            return flat(results)

        carry = [*map(with_presence, state, presences, specs), *sums]
        outs = self._run(pullback, back, (), carry, seeds, not loop.reverse, first, count)
        results = restored(layout, outs)
        ends, rows = results[: loop.carried], results[loop.carried + loop.shared :]
        if is_single:
            rows = [ct if ct is None else map_cotangent(ct, _as_stack) for ct in rows]
        end_sums = results[loop.carried : loop.carried + loop.shared]
        pairs = zip(end_sums, before, strict=True)
        return [first if ct is None else ct for ct, first in pairs], ends, rows

    def _pullback_for(
        self, presences: Sequence[Presence], seed_presences: Sequence[Presence]
    ) -> LinearPart:
        """Return the pullback of the body for cotangents that are present like this."""
        specs = self._loop.body.output_specs
        return self._taken.pullback_for(self._args, [*presences, *seed_presences], specs)

    def push(self, tangents: Values) -> list[Value]:
        loop = self._loop
        inputs = [strong(spec) for spec in loop.body.inputs]
        shared_flags, carry, x_flags = loop.parts([t is not None for t in tangents])

        def push(state: list[bool]) -> tuple[LinearPart, list[bool]]:
            stand_ins = tangent_stand_ins(loop.body.inputs, [*shared_flags, *state, *x_flags])
            pushforward = self._taken.pushforward(self._args, stand_ins)
            return pushforward, present(pushforward.layout)

        start, _ = dependent_carry(loop.body, shared_flags, carry, x_flags, forward=True)
        state_flags, pushforward = spread(start, push)
        flags = [*shared_flags, *state_flags, *x_flags]
        consts, state, xs = loop.parts(
            [
                zeros_like(spec) if flag and t is None else t
                for t, spec, flag in zip(tangents, inputs, flags, strict=True)
            ]
        )

        def forth(known: Known, shared: Values, carried: Values, rows: Values) -> list[Value]:
            arguments = iter([*shared, *carried, *rows])
            moved = pushforward.apply(known, [next(arguments) if f else None for f in flags])
            triples = zip(moved, loop.parts(inputs)[1], state_flags, strict=False)
            ends = [tangent_in(t, spec) for t, spec, flag in triples if flag]
            return [*ends, *flat(moved[loop.carried :])]

        outs = self._run(pushforward, forth, flat(consts), state, xs, loop.reverse)
        results = iter(outs)
        moved_flags = [*state_flags, *present(pushforward.layout)[loop.carried :]]
        return [next(results) if flag else None for flag in moved_flags]

    def _run(
        self,
        linear: LinearPart,
        step: Callable[[Known, Values, Values, Values], list[Value]],
        consts: Values,
        carry: Sequence[Cotangent],
        slices: Sequence[Cotangent],
        reverse: bool,
        first: int = 0,
        count: int | None = None,
    ) -> list[Value]:
        """Run steps that read the residuals of a linear part: a loop, or a single step of many.

        ``step`` takes the residuals by position, shared values, the carry, and slices.
        """
        fixed, stacked = self._read(linear)
        shared = [*[self._residuals[position] for position in fixed], *consts]
        xs = [*[self._residuals[position] for position in stacked], *flat(slices)]
        loop, state, stop = self._loop, flat(carry), len(shared) + len(flat(carry))

        def run(values: Values) -> list[Value]:
            constants, rows = values[: len(shared)], values[stop:]
            residuals = [*constants[: len(fixed)], *rows[: len(stacked)]]
            known = dict(zip([*fixed, *stacked], residuals, strict=True))
            carried = values[len(shared) : stop]
            return step(known, constants[len(fixed) :], carried, rows[len(stacked) :])

        length = self._length if count is None else count
        start = self._length - first - length if reverse else first
        if length == 1 < self._length:
            return run([*shared, *state, *[view(x, key=Key((start,))) for x in xs]])
        if length < self._length:
            xs = [view(x, key=Key((slice(start, start + length),))) for x in xs]
        specs = [*specs_inside([*shared, *state]), *map(_slice_spec, xs)]
        program = flat_program(f"{loop.body.name}_{step.__name__}", run, specs)
        moved = loop._replace(
            body=program, shared=len(shared), carried=len(state), length=length, reverse=reverse
        )
        return self._apply([*shared, *state, *xs], moved)


def _slice_spec(x: Value) -> Spec:
    return Spec(shape_of(x)[1:], dtype_of(x))


def _stack_spec(length: int, spec: Spec) -> Spec:
    return Spec((length, *spec.shape), spec.dtype)


def _as_stack(row: Value) -> Value:
    """Return a stack of one row."""
    return reshape(row, shape=(1, *shape_of(row)))


def _end_to_end(cts: Sequence[Cotangent], spec: Spec, lengths: Sequence[int]) -> Cotangent:
    """Join the cotangents of an array's slices, which come in stacks of some lengths."""
    presences = {*map(presence_of, cts)}
    if len(cts) == 1 or presences == {Presence.ABSENT}:
        return cts[0]
    presence = Presence.WHOLE if presences == {Presence.WHOLE} else Presence.MASKED
    pairs = zip(cts, lengths, strict=True)
    stacks = [
        flat([with_presence(ct, presence, _stack_spec(length, spec))]) for ct, length in pairs
    ]
    joined_stacks = [concatenate(*column, axis=0) for column in zip(*stacks, strict=True)]
    return restored([presence], joined_stacks)[0]
