"""Sweeps in stretches: so many steps of each at once, as loops that a compiler writes out.

How many steps there are is counted first. Then each sweep goes through stretches of ``LENGTH``
steps, as a loop of that length, which stacks what later sweeps read of its steps; what is left of
the steps is gone through one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from funcgrad.control.scan_operation import apply_scan
from funcgrad.control.scan_settings import ScanSettings
from funcgrad.control.sweeps import Sweeps
from funcgrad.control.values import inputs_read, strong
from funcgrad.control.while_loops import WhileLoop
from funcgrad.primitives.elementwise import add
from funcgrad.programs.program import Program
from funcgrad.shape import Spec, stand_in
from funcgrad.trace import Value
from funcgrad.transforms.numberless import flat_program

__all__ = ["LENGTH", "run_in_stretches", "with_stretches"]

LENGTH: Final = 16
"""Steps of a stretch: what a stretch costs besides is little then, for each step."""

_PYTHONS: Final = frozenset(np.dtype(kind).char for kind in (bool, int, float, complex))
_NUMBER: Final = Spec((), np.dtype(np.int64))


Apply: TypeAlias = Callable[[Sequence[Value], WhileLoop], Sequence[Value]]


def with_stretches(params: Mapping[str, Any], apply: Apply) -> Mapping[str, Any]:
    """The parameters of sweeps, and the programs of their stretches, if they can have some.

    ``apply`` runs a loop.
    """
    sweeps = Sweeps.of(params)
    places = _read(sweeps)
    specs = sweeps.programs[-1].inputs
    has_weak = any(specs[k].weak for k in places)
    if sweeps.checkpoints is not None or (has_weak and not _is_double(sweeps)):
        return params  # slices of an array are no Python numbers
    stretches = [_stretch(sweeps, number, places) for number in range(len(sweeps.programs))]
    names = {f"stretch_{number}": program for number, program in enumerate(stretches)}
    return {**params, "counted": _counted(sweeps, apply), "read": tuple(places), **names}


def run_in_stretches(params: Mapping[str, Any], values: Sequence[Value]) -> list[Value]:
    """The results of sweeps whose parameters have the programs of stretches."""
    sweeps = Sweeps.of(params)
    consts, *carries = sweeps.parts(values)
    places = params["read"]
    (count,) = params["counted"].evaluate([*consts, *carries[0]])
    whole, left = divmod(int(count), LENGTH)
    portions: list[_Portion] = [_Portion(True, {}) for _ in range(whole)]
    portions += [_Portion(False, {}) for _ in range(left)]
    ends: list[Value] = []
    for number, program in enumerate(sweeps.programs):
        rows = _rows(sweeps, number, places)
        start = len(program.inputs) - len(program.outputs)
        own = _Way(program, params[f"stretch_{number}"], *rows, start)
        carry = list(carries[number])
        for portion in reversed(portions) if number % 2 else portions:
            carry = own.through(portion, consts, carry)
        ends += carry if number >= sweeps.first else ()
    return ends


class _Portion(NamedTuple):
    """A stretch or a step, and what is known of it: by operand, stacked in a stretch."""

    is_long: bool
    known: dict[int, Value]


class _Way(NamedTuple):
    """A sweep, step by step and in stretches.

    Attributes
    ----------
    program, stretch : Program
    before, mine : list of int
        See ``_rows``.
    start : int
        The first operand that it carries.
    """

    program: Program
    stretch: Program
    before: list[int]
    mine: list[int]
    start: int

    def through(
        self, portion: _Portion, consts: Sequence[Value], carry: Sequence[Value]
    ) -> list[Value]:
        """Carry on from a portion."""
        known = portion.known
        if portion.is_long:
            outs = self.stretch.evaluate([*consts, *[known[k] for k in self.before], *carry])
            known.update(zip(self.mine, outs[len(carry) :], strict=True))
            return outs[: len(carry)]
        for k in self.mine:
            known[k] = carry[k - self.start]
        inputs = self.program.inputs
        read = [
            known[k] if k in known else stand_in(inputs[k])  # which nothing reads
            for k in range(len(consts), self.start)
        ]
        return self.program.evaluate([*consts, *read, *carry])


def _is_double(sweeps: Sweeps) -> bool:
    """Whether all numbers are as precise as Python's, so that these may be an array's."""
    specs = [spec for program in sweeps.programs for spec in program.specs()]
    return all(spec.dtype.char in _PYTHONS for spec in specs)


def _read(sweeps: Sweeps) -> list[int]:
    """The operands, of those that are carried, that turns read of the sweeps before them."""
    found: set[int] = set()
    for turn in sweeps.turns:
        before = len(turn.inputs) - len(turn.outputs)
        found |= {k for k in inputs_read(turn, range(len(turn.outputs))) if k < before}
    return sorted([k for k in found if k >= sweeps.loop.consts])


def _rows(sweeps: Sweeps, number: int, places: Sequence[int]) -> tuple[list[int], list[int]]:
    """The places of what is read of the sweeps before one, and of what that one carries."""
    stop = len(sweeps.programs[number].inputs)
    start = stop - len(sweeps.programs[number].outputs)
    return [k for k in places if k < start], [k for k in places if start <= k < stop]


def _stretch(sweeps: Sweeps, number: int, places: Sequence[int]) -> Program:
    """A sweep through a stretch.

    A program of what all steps share, of what it reads of the sweeps before it, stacked, and of
    what it carries; to what it carries on, and what later sweeps read of that, stacked.
    """
    program, count = sweeps.programs[number], sweeps.loop.consts
    before, mine = _rows(sweeps, number, places)
    start = len(program.inputs) - len(program.outputs)
    consts, carried = program.inputs[:count], program.inputs[start:]
    slices = [strong(program.inputs[k]) for k in before]
    unread = [stand_in(spec) for spec in program.inputs[:start]]

    def step(values: Sequence[Value]) -> list[Value]:
        carry, own = values[count : count + len(carried)], values[count + len(carried) :]
        read = [*values[:count], *unread[count:]]
        for k, value in zip(before, own, strict=True):
            read[k] = value
        return [*program.evaluate([*read, *carry]), *[carry[k - start] for k in mine]]

    body = flat_program(program.name, step, [*consts, *carried, *slices])
    settings = ScanSettings(body, count, len(carried), LENGTH, reverse=bool(number % 2))

    def run(values: Sequence[Value]) -> list[Value]:
        stop = count + len(before)
        return apply_scan(values[:count], values[stop:], values[count:stop], settings)

    stacked = [Spec((LENGTH, *spec.shape), spec.dtype) for spec in slices]
    return flat_program(f"{program.name}_stretch", run, [*consts, *stacked, *carried])


def _counted(sweeps: Sweeps, apply: Apply) -> Program:
    """The number of steps, of the operands of the loop."""
    loop, count = sweeps.loop, sweeps.loop.consts
    inputs = [*loop.body.inputs[:count], _NUMBER, *loop.body.inputs[count:]]

    def goes_on(values: Sequence[Value]) -> list[Value]:
        return loop.cond.evaluate([*values[:count], *values[count + 1 :]])

    def step(values: Sequence[Value]) -> list[Value]:
        state = loop.body.evaluate([*values[:count], *values[count + 1 :]])
        return [add(values[count], 1), *state]

    own = WhileLoop(
        flat_program(loop.cond.name, goes_on, inputs),
        flat_program(loop.body.name, step, inputs),
        count,
    )

    def run(values: Sequence[Value]) -> list[Value]:
        return [apply([*values[:count], np.int64(0), *values[count:]], own)[0]]

    return flat_program(f"{loop.body.name}_count", run, loop.body.inputs)
