"""The operation behind ``fg.scan`` in programs, and what it means forwards.

Its operands are values that all steps share, the carry, and arrays with a slice for each step. Its
body is a program of these, with one slice of each array, to the next carry and one slice of each
further result. Reverse mode is in ``scan_reverse.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from funcgrad.control.invariants import split_invariants
from funcgrad.control.operation import Params, Rules, Values, check_linear, control_primitive
from funcgrad.control.scan_reverse import ScanRecording
from funcgrad.control.scan_settings import ScanSettings
from funcgrad.control.values import (
    as_spec,
    batched_program,
    inputs_read,
    part_of,
    strong,
    with_batch,
)
from funcgrad.errors import ProgramError
from funcgrad.primitives.index_keys import Key
from funcgrad.primitives.joining import stack
from funcgrad.primitives.structural import move_axis, view
from funcgrad.shape import Spec, stand_in
from funcgrad.structure import Loop
from funcgrad.trace import Value
from funcgrad.transforms.factors import zeros_like
from funcgrad.transforms.numberless import flat_program
from funcgrad.transforms.with_derivative import flat, with_pushforward


def _evaluate(values: Values, params: Params) -> list[Value]:
    scan = ScanSettings(**params)
    fixed, state, xs = scan.parts(values)
    body = scan.body
    ys = [np.empty((scan.length, *spec.shape), spec.dtype) for spec in scan.slices()]
    for step in scan.steps():
        outs = body.evaluate([*fixed, *state, *[x[step] for x in xs]])
        state = outs[: scan.carry]
        for y, out in zip(ys, outs[scan.carry :], strict=True):
            y[step] = out
    return [*state, *ys]


def _unrolled(values: Values, params: Params) -> list[Value]:
    scan = ScanSettings(**params)
    fixed, state, xs = scan.parts(values)
    rows: list[list[Value]] = []
    for step in scan.steps():
        slices = [view(x, key=Key((step,))) for x in xs]
        outs = scan.body.evaluate([*fixed, *state, *slices])
        state = outs[: scan.carry]
        rows.append(outs[scan.carry :])
    if scan.reverse:
        rows.reverse()
    if not rows:
        return [*state, *[np.empty((0, *spec.shape), spec.dtype) for spec in scan.slices()]]
    return [*state, *[stack(*column, axis=0) for column in zip(*rows, strict=True)]]


def _result(*specs: Spec, **params: Any) -> tuple[Spec, ...]:
    scan = ScanSettings(**params)
    fixed, state, xs = scan.parts(specs)
    for x in xs:
        if x.shape[:1] != (scan.length,):
            raise ProgramError(f"a loop of {scan.length} steps over an array of shape {x.shape}")
    outs = scan.body.results(*fixed, *state, *[Spec(x.shape[1:], x.dtype) for x in xs])
    if outs[: scan.carry] != tuple(state):
        raise ProgramError("the body of a loop changes the kind of what it carries")
    stacked = [Spec((scan.length, *out.shape), out.dtype) for out in outs[scan.carry :]]
    return (*outs[: scan.carry], *stacked)


def _form(**params: Any) -> Loop:
    scan = ScanSettings(**params)
    return Loop(scan.body, scan.consts, scan.carry, scan.length, reverse=scan.reverse)


def _push(values: Values, tangents: Values, params: Params) -> tuple[list[Value], list[Value]]:
    scan = ScanSettings(**params)
    body, carry = scan.body, scan.carry
    args = [stand_in(spec) for spec in body.inputs]
    has_tangent = [t is not None for t in tangents]
    while True:
        slices = [
            stand_in(strong(spec)) if flag else None
            for spec, flag in zip(body.inputs, has_tangent, strict=True)
        ]
        both = with_pushforward(body, args, slices, numbers=False)
        grown = [
            flag or (scan.is_carry(k) and both.widths[k - scan.consts] > 0)
            for k, flag in enumerate(has_tangent)
        ]
        if grown == has_tangent:
            break
        has_tangent = grown
    parts = scan.parts(has_tangent)
    pushed_ys = [width > 0 for width in both.widths[carry:]]

    def pushed(dual_values: Values) -> list[Value]:
        arguments = iter(dual_values)
        primals, moved = [], []
        for flags in parts:
            primals += [next(arguments) for _ in flags]
            moved += [next(arguments) for flag in flags if flag]
        outs = both.program.evaluate([*primals, *moved])
        results, out_tangents = outs[: len(body.outputs)], iter(outs[len(body.outputs) :])
        sums = [next(out_tangents) if width else None for width in both.widths]
        state = [
            as_spec(zeros_like(spec) if t is None else t, strong(spec))
            for t, spec, flag in zip(sums, body.inputs[scan.consts :], parts[1], strict=False)
            if flag
        ]
        return [*results[:carry], *state, *results[carry:], *flat(sums[carry:])]

    specs, operands = [], []
    for inputs, flags, primals, moved in zip(
        scan.parts(body.inputs), parts, scan.parts(values), scan.parts(tangents), strict=True
    ):
        chosen = [k for k, flag in enumerate(flags) if flag]
        specs += [*inputs, *[strong(inputs[k]) for k in chosen]]
        operands.append(
            [*primals, *[zeros_like(primals[k]) if moved[k] is None else moved[k] for k in chosen]]
        )
    program = flat_program(f"{body.name}_push", pushed, specs)
    consts, state, xs = operands
    outs = iter(apply_scan(consts, state, xs, scan.over(program)))
    ends = [next(outs) for _ in range(carry)]
    end_tangents = [next(outs) if flag else None for flag in parts[1]]
    ys = [next(outs) for _ in pushed_ys]
    return [*ends, *ys], [*end_tangents, *[next(outs) if flag else None for flag in pushed_ys]]


def _batch(
    size: int, values: Values, flags: Sequence[bool], params: Params
) -> tuple[list[Value], list[bool]]:
    scan = ScanSettings(**params)
    body = scan.body
    fixed, state, slices = scan.parts(flags)
    while True:
        program, out_flags = batched_program(body, size, [*fixed, *state, *slices], state)
        grown = [had or has for had, has in zip(state, out_flags, strict=False)]
        if grown == state:
            break
        state = grown
    consts, carry, xs = scan.parts(values)
    carry = with_batch(carry, scan.parts(flags)[1], state, size)
    xs = [move_axis(x, 1, 0) if flag else x for x, flag in zip(xs, slices, strict=True)]
    outs = apply_scan(consts, carry, xs, scan.over(program))
    ys = [
        move_axis(y, 1, 0) if flag else y
        for y, flag in zip(outs[scan.carry :], out_flags[scan.carry :], strict=True)
    ]
    return [*outs[: scan.carry], *ys], [*state, *out_flags[scan.carry :]]


def _check_linear(followed: Sequence[bool], params: Params) -> None:
    scan = ScanSettings(**params)
    fixed, state, slices = scan.parts(followed)
    while True:
        out_flags = check_linear("fg.scan", scan.body, [*fixed, *state, *slices])
        grown = [had or has for had, has in zip(state, out_flags, strict=False)]
        if grown == state:
            return
        state = grown


def _record(values: Values, followed: Sequence[bool], params: Params) -> ScanRecording:
    return ScanRecording(values, followed, ScanSettings(**params), apply_scan)


def _leaner(read: Sequence[bool], **params: Any) -> tuple[Params, list[int], list[int]] | None:
    scan = ScanSettings(**params)
    wanted = {k for k, flag in enumerate(read) if flag}
    while True:
        inputs = inputs_read(scan.body, wanted)
        grown = wanted | {k - scan.consts for k in inputs if scan.is_carry(k)}
        if grown == wanted:
            break
        wanted = grown
    state = {k for k in wanted if k < scan.carry}
    inputs |= {scan.consts + k for k in state}
    if len(wanted) == len(read) and len(inputs) == len(scan.body.inputs):
        return None
    operands, results = sorted(inputs), sorted(wanted)
    counts = {"consts": len([k for k in operands if k < scan.consts]), "carry": len(state)}
    body = part_of(scan.body, operands, results)
    return {**scan._asdict(), **counts, "body": body}, operands, results


SCAN: Final = control_primitive(
    "scan",
    Rules(_evaluate, _record, _push, _batch, _check_linear, _unrolled),
    _result,
    lambda **params: [(params["body"], params["length"])],
    leaner=_leaner,
    form=_form,
)
"""A loop of a fixed number of steps."""


def apply_scan(consts: Values, carry: Values, xs: Values, settings: ScanSettings) -> list[Value]:
    """The results of a loop: the last carry, and the stacked results of all steps.

    Equations with the same value at every step run once, before the loop.
    """
    body = settings.body
    before, step_body, shared = split_invariants(body, len(consts))
    more = [] if before is None else before.evaluate(consts)
    step_consts = [*[consts[k] for k in shared], *more]
    state = [as_spec(x, spec) for x, spec in zip(carry, body.inputs[len(consts) :], strict=False)]
    params = settings._replace(body=step_body, consts=len(step_consts), carry=len(carry))._asdict()
    return list(SCAN(*step_consts, *state, *xs, **params))
