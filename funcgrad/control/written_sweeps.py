"""Sweeps as loops that a compiler writes out, one after the other.

The way forth is a ``while`` that stacks the values that later sweeps read of its steps. Each turn
is a ``for`` along those stacks, from one end to the other, which stacks the values that sweeps
after it read of its own steps. The number of steps is known when they have run: the spec of a stack
has ``ROWS`` rows, and its array as many as there were steps. So these two operations are for
compilers alone, and nothing but such a loop reads a stack.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from funcgrad.control.examples import may_refuse
from funcgrad.control.invariants import split_invariants
from funcgrad.control.sweeps import Sweeps
from funcgrad.control.values import inputs_read, result_specs, specs_inside, strong
from funcgrad.programs.program import Program
from funcgrad.shape import Spec, stand_in
from funcgrad.structure import Control, Loop
from funcgrad.trace import Value, concrete
from funcgrad.transforms.call import innermost_trace
from funcgrad.transforms.flat_functions import CallPrimitive, call_primitive
from funcgrad.transforms.numberless import flat_program

ROWS: Final = 1024
"""The rows that a stack has in programs, which stand for any number."""

_PYTHONS: Final = frozenset(np.dtype(kind).char for kind in (bool, int, float, complex))

_MARK: Final = -1
"""The place of a stack that only gives the number of steps."""

_SPEC_OF_MARK: Final = Spec((), np.dtype(bool))


def written(params: Mapping[str, Any]) -> Program | None:
    """Write sweeps as a program of loops, which returns the loop's last carry and the results.

    None for sweeps that hold few states at once, since a stack holds all of them.
    """
    sweeps = Sweeps.of(params)
    places = _read(sweeps)
    specs = sweeps.programs[-1].inputs
    has_weak = any(specs[k].weak for k in places if k >= 0)
    if sweeps.checkpoints is not None or (has_weak and not _is_double(sweeps)):
        return None  # slices of an array are no Python numbers

    def ends_of_sweeps(values: Sequence[Value]) -> list[Value]:
        consts, *carries = sweeps.parts(values)
        known: dict[int, Value] = {}
        ends: list[Value] = []
        for number, carry in enumerate(carries):
            outs = _sweep(sweeps, number, places, known, consts, carry)
            ends += outs[: len(carry)] if not number or number >= sweeps.first else ()
        return ends

    return flat_program(f"{sweeps.loop.body.name}_sweeps", ends_of_sweeps, specs)


def _sweep(
    sweeps: Sweeps,
    number: int,
    places: Sequence[int],
    known: dict[int, Value],
    consts: Sequence[Value],
    carry: Sequence[Value],
) -> list[Value]:
    """Append a sweep, and return its last carry. It adds its stacks to ``known``, by operand."""
    program = sweeps.programs[number]
    start = len(program.inputs) - len(program.outputs)
    before = [k for k in places if k < start] if number else []
    mine = [k for k in places if start <= k < len(program.inputs) or (k == _MARK and not number)]
    body = _step(sweeps, number, before, mine)
    if number:
        outs = _along(body, consts, carry, [known[k] for k in before], bool(number % 2))
    else:
        outs = _forth(body, sweeps.loop.cond, consts, carry)
    known.update(zip(mine, outs[len(carry) :], strict=True))
    return outs


def _step(sweeps: Sweeps, number: int, before: Sequence[int], mine: Sequence[int]) -> Program:
    """The program of a step of a sweep.

    It takes the values that all steps share, its carry, and the values that it reads of the sweeps
    before it. It returns the next carry, and those of its operands that are stacked.
    """
    program, count = sweeps.programs[number], sweeps.loop.consts
    start = len(program.inputs) - len(program.outputs)
    specs = [*program.inputs[:count], *program.inputs[start:]]
    specs += [_SPEC_OF_MARK if k == _MARK else strong(program.inputs[k]) for k in before]
    unread = [stand_in(spec) for spec in program.inputs[count:start]]

    def step(values: Sequence[Value]) -> list[Value]:
        stop = count + len(program.outputs)
        carry = values[count:stop]
        read = [*values[:count], *unread, *carry]
        for k, value in zip(before, values[stop:], strict=True):
            if k != _MARK:
                read[k] = value
        rows = [np.True_ if k == _MARK else carry[k - start] for k in mine]
        return [*program.evaluate(read), *rows]

    return flat_program(program.name, step, specs)


def _forth(
    body: Program, cond: Program, consts: Sequence[Value], carry: Sequence[Value]
) -> list[Value]:
    """Append a loop that stacks; its last carry, and the stacks."""
    before, step_body, shared = _apart(body, len(consts))
    more = [] if before is None else before.evaluate(consts)
    stop = len(consts) + len(more)
    specs = [*body.inputs[: len(consts)], *specs_inside(more), *body.inputs[len(consts) :]]

    def step(values: Sequence[Value]) -> list[Value]:
        return step_body.evaluate([*[values[k] for k in shared], *values[len(consts) :]])

    def goes_on(values: Sequence[Value]) -> list[Value]:
        return cond.evaluate([*values[: len(consts)], *values[stop:]])

    programs = {
        "body": flat_program(body.name, step, specs),
        "cond": flat_program(cond.name, goes_on, specs),
    }
    return list(FORTH(*consts, *more, *carry, consts=stop, **programs))


def _along(
    body: Program,
    consts: Sequence[Value],
    carry: Sequence[Value],
    stacks: Sequence[Value],
    reverse: bool,
) -> list[Value]:
    """Append a loop along stacks; its last carry, and its own stacks."""
    before, step_body, shared = _apart(body, len(consts))
    step_consts = [consts[k] for k in shared] + ([] if before is None else before.evaluate(consts))
    settings = {"consts": len(step_consts), "carry": len(carry), "reverse": reverse}
    return list(ALONG(*step_consts, *carry, *stacks, body=step_body, **settings))


def _apart(body: Program, consts: int) -> tuple[Program | None, Program, list[int]]:
    """Split a body as ``split_invariants`` does, unless the part before the loop might refuse its
    numbers: there may be no step."""
    before, step_body, shared = split_invariants(body, consts)
    if before is not None and may_refuse(before):
        return None, body, [*range(consts)]
    return before, step_body, shared


def _is_double(sweeps: Sweeps) -> bool:
    """Whether all numbers have Python's precision, so that arrays may hold the Python numbers."""
    specs = [spec for program in sweeps.programs for spec in program.specs()]
    return all(spec.dtype.char in _PYTHONS for spec in specs)


def _read(sweeps: Sweeps) -> list[int]:
    """The carried operands that some turn reads of the sweeps before it.

    A turn that reads none goes along the stack that only gives the number of steps.
    """
    places: set[int] = set()
    for turn in sweeps.turns:
        inputs = inputs_read(turn, range(len(turn.outputs)))
        carried = range(sweeps.loop.consts, len(turn.inputs) - len(turn.outputs))
        places |= inputs.intersection(carried) or {_MARK}
    return sorted(places)


# ---------------------------------------------------------------------------------- the operations


def _stacked(specs: Sequence[Spec]) -> list[Spec]:
    return [Spec((ROWS, *spec.shape), spec.dtype) for spec in specs]


def _stacks(rows: Sequence[Sequence[Value]], specs: Sequence[Spec]) -> list[Value]:
    """Stack the rows of all steps, as arrays with a row for each step."""
    stacks = [np.empty((len(rows), *spec.shape), spec.dtype) for spec in specs]
    for step, row in enumerate(rows):
        for array, value in zip(stacks, row, strict=True):
            array[step] = value
    return stacks


def _run_forth(
    values: Sequence[Value], body: Program, cond: Program, consts: int
) -> Sequence[Value]:
    shared, carry = values[:consts], list(values[consts:])
    rows: list[Sequence[Value]] = []
    while cond.evaluate([*shared, *carry])[0]:
        outs = body.evaluate([*shared, *carry])
        rows.append(outs[len(carry) :])
        carry = outs[: len(carry)]
    return [*carry, *_stacks(rows, result_specs(body)[len(carry) :])]


def _run_along(
    values: Sequence[Value], body: Program, consts: int, carry: int, reverse: bool
) -> Sequence[Value]:
    shared, state = values[:consts], list(values[consts : consts + carry])
    slices = [*zip(*values[consts + carry :], strict=True)]
    rows: list[Sequence[Value]] = []
    for row in reversed(slices) if reverse else slices:
        outs = body.evaluate([*shared, *state, *row])
        state = outs[:carry]
        rows.append(outs[carry:])
    return [*state, *_stacks(rows[::-1] if reverse else rows, result_specs(body)[carry:])]


def _results_forth(*specs: Spec, body: Program, cond: Program, consts: int) -> tuple[Spec, ...]:
    count, outs = len(specs) - consts, result_specs(body)
    return (*outs[:count], *_stacked(outs[count:]))


def _results_along(
    *specs: Spec, body: Program, consts: int, carry: int, reverse: bool
) -> tuple[Spec, ...]:
    outs = result_specs(body)
    return (*outs[:carry], *_stacked(outs[carry:]))


def _loop(
    name: str,
    run: Callable[..., Sequence[Value]],
    results: Callable[..., tuple[Spec, ...]],
    form: Callable[..., Loop],
) -> CallPrimitive:
    """An operation that stands in programs as it is, for a compiler."""

    def programs(**params: object) -> list[tuple[Program, int | None]]:
        return [(param, None) for param in params.values() if isinstance(param, Program)]

    def meet(values: Sequence[Value], **params: object) -> Sequence[Value]:
        trace = innermost_trace(values)
        if trace is None:
            return run([concrete(value) for value in values], **params)
        return list(trace.process(primitive, tuple(values), params))

    primitive: Final = call_primitive(name, run, results, Control(programs, form=form), meet=meet)
    return primitive


FORTH: Final = _loop(
    "stacking_while",
    _run_forth,
    _results_forth,
    lambda body, cond, consts: Loop(body, consts, len(body.inputs) - consts, None, cond),
)
"""A loop whose length depends on the data, which stacks the results of steps besides the carry."""

ALONG: Final = _loop(
    "stacking_scan",
    _run_along,
    _results_along,
    lambda body, consts, carry, reverse: Loop(body, consts, carry, None, reverse=reverse),
)
"""A loop along stacks of such a loop."""
