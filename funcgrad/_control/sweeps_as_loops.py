"""Sweeps as loops that a compiler writes out, one after the other.

The first sweep is a ``while``, which stacks the values of its steps that later sweeps read. Each
turn is a ``for`` along these stacks, from one end to the other; it stacks the values of its own
steps that later sweeps read. The number of steps is known only when they have run: the spec of a
stack has ``ROWS`` rows, and its array has as many as there were steps. So such loops are for
compilers alone, and only such a loop reads a stack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from funcgrad._control.sweeps import Sweeps
from funcgrad._control.transformed_loops import hoisted
from funcgrad._control.values import inputs_read, strong
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Spec, stand_in
from funcgrad._core.structure.structures import Loop
from funcgrad._core.trace import Value
from funcgrad._programs.program import Program
from funcgrad._transforms.numberless import applied, flat_program

_PYTHONS: Final = frozenset(np.dtype(kind).char for kind in (bool, int, float, complex))

_MARK: Final = -1
"""The position that stands for a stack which only gives the number of steps."""

_SPEC_OF_MARK: Final = Spec((), np.dtype(bool))


def as_loops(sweeps: Sweeps, run: Primitive) -> Program | None:
    """Write sweeps as a program of loops, which returns the loop's last carry and the results.

    ``run`` is the operation of a ``Loop``. Returns None for sweeps with checkpoints, since a stack
    holds all states, and where a slice of an array cannot take the place of a Python number.
    """
    places = _read(sweeps)
    specs = sweeps.programs[-1].inputs
    if sweeps.loop.checkpoints is not None:
        return None
    as_slice = strong if _is_double(sweeps) else _unchanged

    def ends_of_sweeps(values: Sequence[Value]) -> list[Value]:
        consts, *carries = sweeps.parts(values)
        known: dict[int, Value] = {}
        ends: list[Value] = []
        for number, carry in enumerate(carries):
            outs = _sweep(sweeps, number, places, known, consts, carry, run, as_slice)
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
    run: Primitive,
    as_slice: Callable[[Spec], Spec],
) -> Sequence[Value]:
    """Append a sweep; return its last carry and its stacks, and add these to ``known``."""
    program = sweeps.programs[number]
    start = len(program.inputs) - len(program.outputs)
    before = [k for k in places if k < start] if number else []
    mine = [k for k in places if start <= k < len(program.inputs) or (k == _MARK and not number)]
    condition = None if number else sweeps.loop.condition
    loop = Loop(
        _step(sweeps, number, before, mine, as_slice),
        len(consts),
        len(carry),
        condition=condition,
        reverse=bool(number % 2),
    )
    loop, shared = hoisted(loop, consts)
    outs: Sequence[Value] = run(*shared, *carry, *[known[k] for k in before], **loop.params())
    known.update(zip(mine, outs[len(carry) :], strict=True))
    return outs


def _step(
    sweeps: Sweeps,
    number: int,
    before: Sequence[int],
    mine: Sequence[int],
    as_slice: Callable[[Spec], Spec],
) -> Program:
    """Stage the program of a step of a sweep.

    It takes the values that all steps share, its carry, and the values that it reads of the sweeps
    before it. It returns the next carry, and those of its operands that are stacked.
    """
    program, count = sweeps.programs[number], sweeps.loop.shared
    start = len(program.inputs) - len(program.outputs)
    specs = [*program.inputs[:count], *program.inputs[start:]]
    specs += [_SPEC_OF_MARK if k == _MARK else as_slice(program.inputs[k]) for k in before]
    unread = [stand_in(spec) for spec in program.inputs[count:start]]

    def step(values: Sequence[Value]) -> list[Value]:
        stop = count + len(program.outputs)
        carry = values[count:stop]
        read = [*values[:count], *unread, *carry]
        for k, value in zip(before, values[stop:], strict=True):
            if k != _MARK:
                read[k] = value
        rows = [np.True_ if k == _MARK else carry[k - start] for k in mine]
        return [*applied(program, read), *rows]

    return flat_program(program.name, step, specs)


def _unchanged(spec: Spec) -> Spec:
    return spec


def _is_double(sweeps: Sweeps) -> bool:
    """Whether all numbers have Python's precision, so that arrays may hold the Python numbers."""
    specs = [spec for program in sweeps.programs for spec in program.specs()]
    return all(spec.dtype.char in _PYTHONS for spec in specs)


def _read(sweeps: Sweeps) -> list[int]:
    """Return the carried operands of earlier sweeps that some turn reads.

    A turn that reads none goes along the stack that only gives the number of steps.
    """
    places: set[int] = set()
    for turn in sweeps.later:
        inputs = inputs_read(turn, range(len(turn.outputs)))
        carried = range(sweeps.loop.shared, len(turn.inputs) - len(turn.outputs))
        places |= inputs.intersection(carried) or {_MARK}
    return sorted(places)
