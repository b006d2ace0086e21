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
    closure,
    fitted,
    in_kind,
    joined,
    settled,
    total,
)
from funcgrad._control.transformed_loops import invariant_variables
from funcgrad._control.values import specs_inside, strong, tangent_in
from funcgrad._core.specs import Spec, dtype_of, shape_of, stand_in
from funcgrad._core.structure.structures import Loop
from funcgrad._core.trace import Value
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.joining import concatenate
from funcgrad._primitives.structural import reshape, view
from funcgrad._programs.extract import extract
from funcgrad._transforms.factors import zeros_like
from funcgrad._transforms.layout import CotangentKind, flat, kind_of, present, restored
from funcgrad._transforms.linearization import Linearization, LinearPart
from funcgrad._transforms.masked import Cotangent, map_cotangent
from funcgrad._transforms.numberless import flat_program

Apply: TypeAlias = Callable[[Values, Loop], list[Value]]

_MOST_FIRST_STEPS: Final = 2
"""The most steps that run before the loop backwards: each adds as many equations as the body."""


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

    __slots__ = (
        "_apply",
        "_args",
        "_invariant",
        "_length",
        "_loop",
        "_residuals",
        "_taken",
        "_values",
        "_variables",
        "connected",
        "outs",
    )

    def __init__(self, values: Values, followed: Sequence[bool], loop: Loop, apply: Apply) -> None:
        self._loop, self._length = loop, loop.length or 0
        self._values, self._apply = values, apply
        body = loop.body
        self._args = [*map(stand_in, body.inputs)]
        shared, carry, xs = loop.parts(followed)

        def linearized(state: list[bool]) -> tuple[Linearization, list[bool]]:
            taken = Linearization(body, [*shared, *state, *xs], self._args, numbers=False)
            return taken, [k in taken.connected for k in range(loop.carried)]

        start, _ = settled(body, shared, carry, xs)
        _, self._taken = closure(start, linearized)
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
            found = before.evaluate(self._values[: loop.shared])
            self._residuals.update(zip(once, found, strict=True))
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
            seeds[k - loop.carried] = in_kind(ct, by_element(kind_of(ct)), spec)  # by step
        sums: list[Cotangent] = [None] * loop.shared
        stacks: list[Sequence[Cotangent]] = []
        first = self._first_steps([*map(kind_of, state)], [*map(kind_of, seeds)])
        for number, pullback in enumerate(first):
            step = number if loop.reverse else length - 1 - number
            consts, state, rows = loop.parts(self._pulled_at(step, pullback, state, seeds))
            sums = [*map(total, sums, consts)]
            stacks.append([ct if ct is None else map_cotangent(ct, _as_stack) for ct in rows])
        sums, state, stack = self._pulled_loop(sums, state, seeds, len(first))
        if not first:
            return [*sums, *state, *stack]
        lengths = [*[1] * len(first), length - len(first)]
        order = slice(None, None, 1 if loop.reverse else -1)
        columns = zip(*[*stacks, stack][order], strict=True)
        pairs = zip(columns, x_specs, strict=True)
        return [*sums, *state, *[_end_to_end(*pair, lengths[order]) for pair in pairs]]

    def _first_steps(
        self, kinds: Sequence[CotangentKind], seed_kinds: Sequence[CotangentKind]
    ) -> list[LinearPart]:
        """Return the pullbacks of the first steps backwards that run before the loop.

        At these steps an absent cotangent becomes whole. A loop that also ran these steps would
        carry a mask at all steps, which takes 1.1 to 1.6 times as long. No step runs before the
        loop where it would take more than ``_MOST_FIRST_STEPS`` steps, or all.
        """
        pullbacks: list[LinearPart] = []
        while CotangentKind.ABSENT in kinds:
            pullback = self._pullback_for(kinds, seed_kinds)
            after = self._loop.parts(pullback.layout)[1]
            if (CotangentKind.ABSENT, CotangentKind.WHOLE) not in zip(kinds, after, strict=True):
                break
            pullbacks.append(pullback)
            if len(pullbacks) > _MOST_FIRST_STEPS or len(pullbacks) >= self._length:
                return []
            kinds = after
        return pullbacks

    def _pulled(
        self, pullback: LinearPart, known: Mapping[int, Value], cts: Sequence[Cotangent]
    ) -> list[Cotangent]:
        """Return the cotangents of the body's arguments at a step, from those of its results."""
        pulled = pullback.apply(known, [cts[k] for k in self.connected])
        return [fitted(ct, spec) for ct, spec in zip(pulled, self._loop.body.inputs, strict=True)]

    def _pulled_at(
        self,
        step: int,
        pullback: LinearPart,
        state: Sequence[Cotangent],
        seeds: Sequence[Cotangent],
    ) -> list[Cotangent]:
        """Return the cotangents of the body's arguments at a step outside of the loop."""

        def row(stack: Value) -> Value:
            return view(stack, key=Key((step,)))

        fixed, stacked = self._read(pullback)
        known = {position: self._residuals[position] for position in fixed}
        known.update({position: row(self._residuals[position]) for position in stacked})
        rows = [ct if ct is None else map_cotangent(ct, row) for ct in seeds]
        return self._pulled(pullback, known, [*state, *rows])

    def _pulled_loop(
        self,
        before: Sequence[Cotangent],
        state: Sequence[Cotangent],
        seeds: Sequence[Cotangent],
        skipped: int,
    ) -> tuple[list[Cotangent], list[Cotangent], list[Cotangent]]:
        """Run the loop backwards; return the cotangents of shared values, carry and arrays.

        ``before`` are the sums over the first steps, which the loop skips.
        """
        loop = self._loop
        consts, specs, x_specs = loop.parts(loop.body.inputs)
        seed_kinds = [*map(kind_of, seeds)]

        def pull(kinds: list[CotangentKind]) -> tuple[LinearPart, Sequence[CotangentKind]]:
            pullback = self._pullback_for(kinds, seed_kinds)
            return pullback, loop.parts(pullback.layout)[1]

        kinds, pullback = closure([*map(kind_of, state)], pull, joined)
        const_kinds, _, x_kinds = loop.parts(pullback.layout)
        begun_sums = [*map(begun, before, const_kinds, consts)]
        sum_kinds, x_kinds = [*map(kind_of, begun_sums)], [*map(by_element, x_kinds)]
        fixed, stacked = self._read(pullback)

        def back(values: Values) -> list[Value]:
            arguments = iter(values)
            known = {position: next(arguments) for position in fixed}
            cts = restored(kinds, arguments)
            sums = restored(sum_kinds, arguments)
            known.update({position: next(arguments) for position in stacked})
            cts += restored(seed_kinds, arguments)
            const_cts, state_cts, rows = loop.parts(self._pulled(pullback, known, cts))
            return flat(
                [
                    *map(in_kind, state_cts, kinds, specs),
                    *map(total, sums, const_cts),
                    *map(in_kind, rows, x_kinds, x_specs),
                ]
            )

        carry = [*map(in_kind, state, kinds, specs), *begun_sums]
        outs = self._run(back, fixed, stacked, carry, seeds, not loop.reverse, skipped=skipped)
        results = iter(outs)
        ends = restored(kinds, results)
        sums = [
            first if ct is None else ct
            for ct, first in zip(restored(sum_kinds, results), before, strict=True)
        ]
        return sums, ends, restored(x_kinds, results)

    def _pullback_for(
        self, kinds: Sequence[CotangentKind], seed_kinds: Sequence[CotangentKind]
    ) -> LinearPart:
        """Return the pullback of the body for cotangents of these kinds."""
        specs = self._loop.body.output_specs
        return self._taken.pullback_for(self._args, [*kinds, *seed_kinds], specs)

    def push(self, tangents: Values) -> list[Value]:
        loop = self._loop
        inputs = [strong(spec) for spec in loop.body.inputs]
        shared_flags, carry, x_flags = loop.parts([t is not None for t in tangents])

        def push(state: list[bool]) -> tuple[LinearPart, list[bool]]:
            flags = [*shared_flags, *state, *x_flags]
            pairs = zip(inputs, flags, strict=True)
            stand_in_tangents = [stand_in(spec) if flag else None for spec, flag in pairs]
            pushforward = self._taken.pushforward(self._args, stand_in_tangents)
            return pushforward, present(pushforward.layout)

        start, _ = settled(loop.body, shared_flags, carry, x_flags, forward=True)
        state_flags, pushforward = closure(start, push)
        flags = [*shared_flags, *state_flags, *x_flags]
        fixed, stacked = self._read(pushforward)
        consts, state, xs = loop.parts(
            [
                zeros_like(spec) if flag and t is None else t
                for t, spec, flag in zip(tangents, inputs, flags, strict=True)
            ]
        )

        def forth(values: Values) -> list[Value]:
            arguments = iter(values)
            known = {position: next(arguments) for position in fixed}
            moved = [next(arguments) if flag else None for flag in (*shared_flags, *state_flags)]
            known.update({position: next(arguments) for position in stacked})
            moved += [next(arguments) if flag else None for flag in x_flags]
            out_tangents = pushforward.apply(known, moved)
            specs = loop.parts(inputs)[1]
            ends = [
                tangent_in(t, spec)
                for t, spec, flag in zip(out_tangents, specs, state_flags, strict=False)
                if flag
            ]
            return [*ends, *flat(out_tangents[loop.carried :])]

        results = iter(self._run(forth, fixed, stacked, state, xs, loop.reverse, consts))
        moved = [*state_flags, *present(pushforward.layout)[loop.carried :]]
        return [next(results) if flag else None for flag in moved]

    def _run(
        self,
        step: Callable[[Values], list[Value]],
        fixed: Sequence[int],
        stacked: Sequence[int],
        carry: Sequence[Cotangent],
        slices: Sequence[Cotangent],
        reverse: bool,
        consts: Values = (),
        skipped: int = 0,
    ) -> list[Value]:
        """Run a loop over the residuals of all steps but the first ``skipped`` ones."""
        shared = [*[self._residuals[position] for position in fixed], *flat(consts)]
        xs = [*[self._residuals[position] for position in stacked], *flat(slices)]
        loop, state = self._loop, flat(carry)
        left = self._length - skipped
        if skipped:
            key = Key((slice(0, left) if reverse else slice(skipped, self._length),))
            xs = [view(x, key=key) for x in xs]
        specs = [*specs_inside([*shared, *state]), *map(_slice_spec, xs)]
        program = flat_program(f"{loop.body.name}_{step.__name__}", step, specs)
        back = Loop(program, len(shared), len(state), left, reverse=reverse, unroll=loop.unroll)
        return self._apply([*shared, *state, *xs], back)


def _slice_spec(x: Value) -> Spec:
    return Spec(shape_of(x)[1:], dtype_of(x))


def _stack_spec(length: int, spec: Spec) -> Spec:
    return Spec((length, *spec.shape), spec.dtype)


def _as_stack(row: Value) -> Value:
    """Return a stack of one row."""
    return reshape(row, shape=(1, *shape_of(row)))


def _end_to_end(cts: Sequence[Cotangent], spec: Spec, lengths: Sequence[int]) -> Cotangent:
    """Join the cotangents of an array's slices, which come in stacks of some lengths."""
    kinds = {*map(kind_of, cts)}
    if kinds == {CotangentKind.ABSENT}:
        return None
    kind = CotangentKind.WHOLE if kinds == {CotangentKind.WHOLE} else CotangentKind.MASKED
    pairs = zip(cts, lengths, strict=True)
    stacks = [flat([in_kind(ct, kind, _stack_spec(length, spec))]) for ct, length in pairs]
    joined_stacks = [concatenate(*column, axis=0) for column in zip(*stacks, strict=True)]
    return restored([kind], joined_stacks)[0]
