"""Reverse mode of a scan: a loop that keeps what the loop backwards reads, and that loop.

What is kept of all steps are the residuals of the body, each stacked. What does not depend on the
step is computed once, and what is there anyway, as the arrays that the loop goes through, is not
kept again. Cotangents of what all steps share are added up on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from funcgrad.control.cotangents import (
    CotangentKind,
    fitted,
    in_kind,
    joined,
    kind_of,
    part_kinds,
    restored_kinds,
    stand_ins,
    total,
)
from funcgrad.control.invariants import invariant_variables
from funcgrad.control.operation import ControlRecording, Values
from funcgrad.control.scan_settings import ScanSettings
from funcgrad.control.values import as_spec, specs_inside, strong
from funcgrad.programs.extract import extract
from funcgrad.shape import Spec, dtype_of, shape_of, stand_in
from funcgrad.trace import Value
from funcgrad.transforms.factors import zeros_like
from funcgrad.transforms.linearization import Linearization, LinearPart
from funcgrad.transforms.masked import Cotangent
from funcgrad.transforms.numberless import flat_program
from funcgrad.transforms.with_derivative import flat, restored

__all__ = ["ScanRecording"]

Apply: TypeAlias = Callable[[Values, Values, Values, ScanSettings], list[Value]]


class ScanRecording(ControlRecording):
    """A scan that was recorded.

    Parameters
    ----------
    values : sequence of values
        Its operands.
    followed : sequence of bool
    settings : ScanSettings
    apply : callable
        What runs a scan.
    """

    __slots__ = ("_apply", "_args", "_kept", "_settings", "_taken", "_values", "connected", "outs")

    def __init__(
        self, values: Values, followed: Sequence[bool], settings: ScanSettings, apply: Apply
    ) -> None:
        self._settings = settings
        self._values = values
        self._apply = apply
        body = settings.body
        self._args = [stand_in(spec) for spec in body.inputs]
        flags = list(followed)
        while True:
            self._taken = Linearization(body, flags, self._args, numbers=False)
            grown = [
                flag or (settings.is_carry(k) and k - settings.consts in self._taken.connected)
                for k, flag in enumerate(flags)
            ]
            if grown == flags:
                break
            flags = grown
        self.connected = self._taken.connected
        self._kept: dict[int, Value] = {}
        self.outs = self._keep(sorted({*self._taken.first.reads}))

    def _keep(self, wanted: Sequence[int]) -> list[Value]:
        """Run the loop, and keep these of the body's arguments and residuals of all steps."""
        own, forward = self._settings, self._taken.forward
        count = len(own.body.inputs)
        outs, residuals = forward.outputs[: len(own.body.outputs)], forward.outputs
        consts, _, xs = own.parts(self._values)
        invariant = invariant_variables(forward, own.consts)
        once: dict[int, int] = {}
        stacked: dict[int, int] = {}
        for position in wanted:
            if position < own.consts:
                self._kept[position] = consts[position]
            elif own.consts + own.carry <= position < count:
                self._kept[position] = xs[position - own.consts - own.carry]
            elif position < count:
                stacked[position] = position
            else:
                variable = residuals[len(outs) + position - count]
                (once if variable in invariant else stacked)[position] = variable
        ys = outs[own.carry :]
        more = sorted({*stacked.values()} - {*ys})
        body = extract(forward, range(count), [*outs, *more])
        found = self._apply(*own.parts(self._values), own.over(body))
        places = {variable: place for place, variable in enumerate([*ys, *more], own.carry)}
        for position, variable in stacked.items():
            self._kept[position] = found[places[variable]]
        if once:
            before = extract(forward, range(own.consts), [*once.values()])
            self._kept.update(zip(once, before.evaluate(consts), strict=True))
        return found[: len(outs)]

    def _read(self, part: LinearPart) -> tuple[list[int], list[int]]:
        """What a part reads: that which is the same at all steps, and that which is not."""
        lacking = [position for position in part.reads if position not in self._kept]
        if lacking:
            self._keep(lacking)
        own, forward = self._settings, self._taken.forward
        count = len(own.body.inputs)
        invariant = invariant_variables(forward, own.consts)

        def is_fixed(position: int) -> bool:
            if position < count:
                return position < own.consts
            return forward.outputs[len(own.body.outputs) + position - count] in invariant

        fixed = [position for position in part.reads if is_fixed(position)]
        return fixed, [position for position in part.reads if position not in fixed]

    def pull(self, cts: Sequence[Cotangent]) -> list[Cotangent]:
        own = self._settings
        _, specs, x_specs = own.parts(own.body.inputs)
        state = [fitted(ct, spec) for ct, spec in zip(cts, specs, strict=False)]
        seeds = [
            _by_step(ct, Spec((own.length, *spec.shape), spec.dtype))
            if k in self.connected
            else None
            for k, (ct, spec) in enumerate(
                zip(cts[own.carry :], own.slices(), strict=True), own.carry
            )
        ]
        seed_kinds = [*map(kind_of, seeds)]
        part, kinds = self._pulled([*map(kind_of, state)], seed_kinds)
        const_kinds, _, x_kinds = own.parts(part_kinds(part))
        x_kinds = [
            CotangentKind.MASKED if kind is CotangentKind.SWITCHED else kind for kind in x_kinds
        ]
        fixed, stacked = self._read(part)

        def back(values: Values) -> list[Value]:
            rest = iter(values)
            known = {position: next(rest) for position in fixed}
            given = restored_kinds(kinds, rest)
            sums = restored_kinds(const_kinds, rest)
            known.update({position: next(rest) for position in stacked})
            given += restored_kinds(seed_kinds, rest)
            pulled = self._run(part, known, [given[k] for k in self.connected])
            pairs = zip(pulled, own.body.inputs, strict=True)
            consts, found, xs = own.parts([fitted(ct, spec) for ct, spec in pairs])
            return flat(
                [
                    *map(in_kind, found, kinds, specs),
                    *map(total, sums, consts),
                    *map(in_kind, xs, x_kinds, x_specs),
                ]
            )

        carry = [
            *map(in_kind, state, kinds, specs),
            *map(_nothing, const_kinds, own.body.inputs),
        ]
        found = iter(self._loop(back, fixed, stacked, carry, seeds, not own.reverse))
        ends = restored_kinds(kinds, found)
        sums = restored_kinds(const_kinds, found)
        return [*sums, *ends, *restored_kinds(x_kinds, found)]

    def _pulled(
        self, kinds: list[CotangentKind], seed_kinds: Sequence[CotangentKind]
    ) -> tuple[LinearPart, list[CotangentKind]]:
        """The pullback of the body, and the kinds of cotangents that the loop carries."""
        own = self._settings
        specs = [*own.parts(own.body.inputs)[1], *own.slices()]
        while True:
            every = [*kinds, *seed_kinds]
            if all(every[k] is CotangentKind.WHOLE for k in self.connected):
                part = self._taken.first
            else:
                cts = stand_ins(every, specs)
                given = [ct if k in self.connected else None for k, ct in enumerate(cts)]
                part = self._taken.pullback(self._args, given)
            grown = [*map(joined, kinds, own.parts(part_kinds(part))[1])]
            if grown == kinds:
                return part, kinds
            kinds = grown

    def push(self, tangents: Values) -> list[Value]:
        own = self._settings
        inputs = [strong(spec) for spec in own.body.inputs]
        flags = [t is not None for t in tangents]
        while True:
            given = [
                stand_in(spec) if flag else None for spec, flag in zip(inputs, flags, strict=True)
            ]
            part = self._taken.pushforward(self._args, given)
            grown = [
                flag or (own.is_carry(k) and part.widths[k - own.consts] > 0)
                for k, flag in enumerate(flags)
            ]
            if grown == flags:
                break
            flags = grown
        fixed, stacked = self._read(part)
        consts, state, xs = own.parts(
            [
                zeros_like(spec) if flag and t is None else t
                for t, spec, flag in zip(tangents, inputs, flags, strict=True)
            ]
        )
        const_flags, state_flags, x_flags = own.parts(flags)

        def forth(values: Values) -> list[Value]:
            rest = iter(values)
            known = {position: next(rest) for position in fixed}
            first = [next(rest) if flag else None for flag in const_flags]
            moved = [next(rest) if flag else None for flag in state_flags]
            known.update({position: next(rest) for position in stacked})
            given = [*first, *moved, *[next(rest) if flag else None for flag in x_flags]]
            found = self._run(part, known, given)
            specs = own.parts(inputs)[1]
            ends = [
                as_spec(zeros_like(spec) if t is None else t, spec)
                for t, spec, flag in zip(found, specs, state_flags, strict=False)
                if flag
            ]
            return [*ends, *flat(found[own.carry :])]

        found = iter(self._loop(forth, fixed, stacked, state, xs, own.reverse, consts))
        ends = [next(found) if flag else None for flag in state_flags]
        return [*ends, *[next(found) if width else None for width in part.widths[own.carry :]]]

    def _run(self, part: LinearPart, known: dict[int, Value], given: Values) -> list[Cotangent]:
        """What a part finds at one step."""
        read = [known[position] for position in part.reads]
        return restored(part.widths, part.program.evaluate([*read, *flat(given)]))

    def _loop(
        self,
        step: Callable[[Values], list[Value]],
        fixed: Sequence[int],
        stacked: Sequence[int],
        carry: Sequence[Cotangent],
        slices: Sequence[Cotangent],
        reverse: bool,
        consts: Values = (),
    ) -> list[Value]:
        """Run a loop over what was kept of the steps."""
        shared = [*[self._kept[position] for position in fixed], *flat(consts)]
        xs = [*[self._kept[position] for position in stacked], *flat(slices)]
        own, state = self._settings, flat(carry)
        specs = [*specs_inside([*shared, *state]), *map(_slice_spec, xs)]
        program = flat_program(f"{own.body.name}_{step.__name__}", step, specs)
        return self._apply(shared, state, xs, own._replace(body=program, reverse=reverse))


def _slice_spec(x: Value) -> Spec:
    return Spec(shape_of(x)[1:], dtype_of(x))


def _nothing(kind: CotangentKind, spec: Spec) -> Cotangent:
    """Where the sum of cotangents of a kind begins."""
    return zeros_like(spec) if kind is CotangentKind.WHOLE else in_kind(None, kind, spec)


def _by_step(ct: Cotangent, spec: Spec) -> Cotangent:
    """The cotangent of a stacked result, so that each step has a part of it."""
    own = fitted(ct, spec)
    return (
        in_kind(own, CotangentKind.MASKED, spec) if kind_of(own) is CotangentKind.SWITCHED else own
    )
