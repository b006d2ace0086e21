"""Reverse mode of a scan: a loop forwards that stores residuals, and a loop backwards.

The residuals of the body are stacked over steps. Those that do not depend on the step are computed
once, and those that exist anyway, such as the arrays that the loop goes through, are not stored a
second time. The loop backwards adds up the cotangents of values that all steps share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Final, TypeAlias

from funcgrad._control.connections import settled
from funcgrad._control.cotangents import fitted, in_kind, joined, total
from funcgrad._control.invariants import invariant_variables
from funcgrad._control.operation import Values
from funcgrad._control.spread import closure
from funcgrad._control.values import specs_inside, strong, tangent_in
from funcgrad._core.specs import Spec, dtype_of, shape_of, stand_in
from funcgrad._core.structure.structures import Loop
from funcgrad._core.trace import Value
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.joining import concatenate, stack
from funcgrad._primitives.structural import view
from funcgrad._programs.extract import extract
from funcgrad._transforms.factors import zeros_like
from funcgrad._transforms.layout import CotangentKind, flat, kind_of, present, restored
from funcgrad._transforms.linearization import Linearization, LinearPart
from funcgrad._transforms.masked import Cotangent, map_cotangent, plain
from funcgrad._transforms.numberless import flat_program

Apply: TypeAlias = Callable[[Values, Loop], list[Value]]

_MOST_PEELED: Final = 2
"""The most steps that run before the loop backwards: each adds a program as long as the body."""


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
        "_length",
        "_loop",
        "_residuals",
        "_taken",
        "_values",
        "_ys",
        "connected",
        "outs",
    )

    def __init__(self, values: Values, followed: Sequence[bool], loop: Loop, apply: Apply) -> None:
        self._loop, self._length = loop, loop.length or 0
        self._ys = loop.body.output_specs[loop.carried :]
        self._values = values
        self._apply = apply
        body = loop.body
        self._args = [stand_in(spec) for spec in body.inputs]
        shared, carry, xs = loop.parts(followed)

        def linearized(state: list[bool]) -> tuple[Linearization, list[bool]]:
            taken = Linearization(body, [*shared, *state, *xs], self._args, numbers=False)
            return taken, [k in taken.connected for k in range(loop.carried)]

        start, _ = settled(body, shared, carry, xs)
        _, self._taken = closure(start, linearized)
        self.connected = self._taken.connected
        self._residuals: dict[int, Value] = {}
        self.outs = self._keep(sorted({*self._taken.first.reads}))

    def _keep(self, wanted: Sequence[int]) -> list[Value]:
        """Run the loop and return its results; store the wanted inputs and residuals of the body.

        Positions in ``wanted`` count the body's inputs, and then its residuals.
        """
        loop, forward = self._loop, self._taken.forward
        count = len(loop.body.inputs)
        outs, residuals = forward.outputs[: len(loop.body.outputs)], forward.outputs
        consts, _, xs = loop.parts(self._values)
        invariant = invariant_variables(forward, loop.shared)
        once: dict[int, int] = {}
        stacked: dict[int, int] = {}
        for position in wanted:
            if position < loop.shared:
                self._residuals[position] = consts[position]
            elif loop.shared + loop.carried <= position < count:
                self._residuals[position] = xs[position - loop.shared - loop.carried]
            elif position < count:
                stacked[position] = position
            else:
                variable = residuals[len(outs) + position - count]
                (once if variable in invariant else stacked)[position] = variable
        ys = outs[loop.carried :]
        more = sorted({*stacked.values()} - {*ys})
        body = extract(forward, range(count), [*outs, *more])
        results = self._apply(self._values, loop._replace(body=body))
        places = {variable: place for place, variable in enumerate([*ys, *more], loop.carried)}
        for position, variable in stacked.items():
            self._residuals[position] = results[places[variable]]
        if once:
            before = extract(forward, range(loop.shared), [*once.values()])
            self._residuals.update(zip(once, before.evaluate(consts), strict=True))
        return results[: len(outs)]

    def _read(self, linear: LinearPart) -> tuple[list[int], list[int]]:
        """Return the positions that a linear part reads, in two lists: of the values that are the
        same at all steps, and of those stacked over steps."""
        lacking = [position for position in linear.reads if position not in self._residuals]
        if lacking:
            self._keep(lacking)
        loop, forward = self._loop, self._taken.forward
        count = len(loop.body.inputs)
        invariant = invariant_variables(forward, loop.shared)

        def is_fixed(position: int) -> bool:
            if position < count:
                return position < loop.shared
            return forward.outputs[len(loop.body.outputs) + position - count] in invariant

        fixed = [position for position in linear.reads if is_fixed(position)]
        return fixed, [position for position in linear.reads if position not in fixed]

    def pull(self, cts: Sequence[Cotangent]) -> list[Cotangent]:
        loop = self._loop
        _, specs, x_specs = loop.parts(loop.body.inputs)
        state = [fitted(ct, spec) for ct, spec in zip(cts, specs, strict=False)]
        seeds = [
            _by_step(ct, Spec((self._length, *spec.shape), spec.dtype))
            if k in self.connected
            else None
            for k, (ct, spec) in enumerate(
                zip(cts[loop.carried :], self._ys, strict=True), loop.carried
            )
        ]
        seed_kinds = [*map(kind_of, seeds)]
        sums: list[Cotangent] = [None] * loop.shared
        rows: list[Sequence[Cotangent]] = []
        first = self._peeled([*map(kind_of, state)], seed_kinds)
        for number, pullback in enumerate(first):
            step = number if loop.reverse else self._length - 1 - number
            pulled = self._pulled_at(step, pullback, state, seeds)
            consts, state[:], slices = loop.parts(pulled)
            sums = [*map(total, sums, consts)]
            rows.append(slices)
        sums, state, stacked = self._pulled_loop(sums, state, seeds, len(first))
        columns = zip(*rows, strict=True) if rows else [()] * len(x_specs)
        arguments = zip(stacked, columns, repeat(self._length - len(first)), x_specs, strict=False)
        return [*sums, *state, *[_with_rows(*parts, loop.reverse) for parts in arguments]]

    def _peeled(
        self, kinds: Sequence[CotangentKind], seed_kinds: Sequence[CotangentKind]
    ) -> list[LinearPart]:
        """Return the pullbacks of the first steps backwards that run before the loop.

        At these steps an absent cotangent becomes whole, so that the loop need not carry a mask. No
        step runs before the loop where it would take more than ``_MOST_PEELED`` steps, or all.
        """
        pullbacks: list[LinearPart] = []
        while CotangentKind.ABSENT in kinds:
            pullback = self._pullback_for(kinds, seed_kinds)
            after = self._loop.parts(pullback.layout)[1]
            turn = (CotangentKind.ABSENT, CotangentKind.WHOLE)
            if turn not in zip(kinds, after, strict=True):
                break
            pullbacks.append(pullback)
            if len(pullbacks) > _MOST_PEELED or len(pullbacks) >= self._length:
                return []
            kinds = after
        return pullbacks

    def _pulled_at(
        self,
        step: int,
        pullback: LinearPart,
        state: Sequence[Cotangent],
        seeds: Sequence[Cotangent],
    ) -> list[Cotangent]:
        """Return the cotangents of the body's arguments at a step outside of the loop."""
        inputs, key = self._loop.body.inputs, Key((step,))
        fixed, stacked = self._read(pullback)
        known = {position: self._residuals[position] for position in fixed}
        known.update({position: view(self._residuals[position], key=key) for position in stacked})
        slices = [
            None if ct is None else map_cotangent(ct, lambda x: view(x, key=key)) for ct in seeds
        ]
        cts = [*state, *slices]
        pulled = pullback.apply(known, [cts[k] for k in self.connected])
        return [fitted(ct, spec) for ct, spec in zip(pulled, inputs, strict=True)]

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
        sum_kinds = [*map(_kind_of_sum, before, const_kinds)]
        x_kinds = [
            CotangentKind.MASKED if kind is CotangentKind.SWITCHED else kind for kind in x_kinds
        ]
        fixed, stacked = self._read(pullback)

        def back(values: Values) -> list[Value]:
            arguments = iter(values)
            known = {position: next(arguments) for position in fixed}
            cts = restored(kinds, arguments)
            sums = restored(sum_kinds, arguments)
            known.update({position: next(arguments) for position in stacked})
            cts += restored(seed_kinds, arguments)
            pulled = pullback.apply(known, [cts[k] for k in self.connected])
            pairs = zip(pulled, loop.body.inputs, strict=True)
            consts, state_cts, xs = loop.parts([fitted(ct, spec) for ct, spec in pairs])
            return flat(
                [
                    *map(in_kind, state_cts, kinds, specs),
                    *map(total, sums, consts),
                    *map(in_kind, xs, x_kinds, x_specs),
                ]
            )

        carry = [*map(in_kind, state, kinds, specs), *map(_begun, before, sum_kinds, consts)]
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


def _kind_of_sum(before: Cotangent, kind: CotangentKind) -> CotangentKind:
    """Return the kind of a sum to which a loop adds cotangents; absent where it adds none."""
    kind_before = kind_of(before)
    if CotangentKind.ABSENT in (kind_before, kind):
        return kind
    return (
        CotangentKind.WHOLE
        if CotangentKind.WHOLE in (kind_before, kind)
        else joined(kind_before, kind)
    )


def _begun(before: Cotangent, kind: CotangentKind, spec: Spec) -> Cotangent:
    """Return the first value of a sum of cotangents, in the kind that a loop carries."""
    if kind is CotangentKind.ABSENT:
        return None
    if kind is CotangentKind.WHOLE:
        return zeros_like(spec) if before is None else plain(before)
    return in_kind(before, kind, spec)


def _with_rows(
    ct: Cotangent, rows: Sequence[Cotangent], length: int, spec: Spec, is_reverse: bool
) -> Cotangent:
    """Join the cotangents of an array's slices in the loop backwards and in the peeled steps."""
    kinds = {kind_of(ct), *map(kind_of, rows)}
    if not rows or kinds == {CotangentKind.ABSENT}:
        return ct
    kind = CotangentKind.WHOLE if kinds == {CotangentKind.WHOLE} else CotangentKind.MASKED
    loop_arrays = flat([in_kind(ct, kind, Spec((length, *spec.shape), spec.dtype))])
    ordered = rows if is_reverse else rows[::-1]
    columns = zip(*[flat([in_kind(row, kind, spec)]) for row in ordered], strict=True)
    arrays = []
    for loop_array, column in zip(loop_arrays, columns, strict=True):
        more = stack(*column, axis=0)
        arrays.append(
            concatenate(*((more, loop_array) if is_reverse else (loop_array, more)), axis=0)
        )
    return restored([kind], arrays)[0]


def _by_step(ct: Cotangent, spec: Spec) -> Cotangent:
    """Fit the cotangent of a stacked result; a mask, if any, gets a row for each step."""
    fitted_ct = fitted(ct, spec)
    return (
        in_kind(fitted_ct, CotangentKind.MASKED, spec)
        if kind_of(fitted_ct) is CotangentKind.SWITCHED
        else fitted_ct
    )
