"""Sweeps as loops that a compiler writes out, one after the other.

The first sweep is a ``while``, which stacks the values of its steps that later sweeps read. Each
later sweep is a ``for`` along these stacks, from one end to the other. It also stacks the values of
its steps that later sweeps read. The number of steps is known only when they have run: the spec of
a stack has ``ROWS`` rows, and its array has as many as there were steps. So such loops are only for
compilers, and only such a loop reads a stack.
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
from funcgrad._transforms.abstract_stager import applied, flat_program

_PYTHONS: Final = frozenset(np.dtype(kind).char for kind in (bool, int, float, complex))

_MARK: Final = -1
"""The position that stands for a stack which only gives the number of steps."""

_SPEC_OF_MARK: Final = Spec((), np.dtype(bool))


def as_loops(sweeps: Sweeps, run: Primitive) -> Program | None:
    """Write sweeps as a program of loops, which returns the loop's last carry and the results.

    ``run`` is the operation of a ``Loop``. Returns None for sweeps with checkpoints, since a stack
    holds all states, and where a slice of an array cannot take the place of a Python number.
    """
    if sweeps.loop.checkpoints is not None:
        return None
    places = _read(sweeps)
    as_slice = strong if _is_double(sweeps) else _unchanged

    def ends_of_sweeps(values: Sequence[Value]) -> list[Value]:
        consts, *carries = sweeps.parts(values)
        stacks: dict[int, Value] = {}
        ends: list[Value] = []
        for number, carry in enumerate(carries):
            loop, read, stacked = _loop(sweeps, number, places, as_slice)
            loop, shared = hoisted(loop, consts)
            outs = run(*shared, *carry, *[stacks[k] for k in read], **loop.params())
            stacks.update(zip(stacked, outs[len(carry) :], strict=True))
            ends += outs[: len(carry)] if not number or number >= sweeps.first else ()
        return ends

    specs = sweeps.programs[-1].inputs
    return flat_program(f"{sweeps.loop.body.name}_sweeps", ends_of_sweeps, specs)


def _loop(
    sweeps: Sweeps, number: int, places: Sequence[int], as_slice: Callable[[Spec], Spec]
) -> tuple[Loop, list[int], list[int]]:
    """Return the loop of a sweep, and which operands of sweeps it reads from stacks and stacks.

    Its body takes the values that all steps share, its carry, and the values that it reads of the
    sweeps before it. It returns the next carry, and the operands that are stacked.
    """
    program, count = sweeps.programs[number], sweeps.loop.shared
    stop = len(program.inputs)
    start = stop - len(program.outputs)
    read = [k for k in places if k < start] if number else []
    stacked = [k for k in places if start <= k < stop or (k == _MARK and not number)]
    specs = [*program.inputs[:count], *program.inputs[start:]]
    specs += [_SPEC_OF_MARK if k == _MARK else as_slice(program.inputs[k]) for k in read]
    unread = [*map(stand_in, program.inputs[count:start])]

    def step(values: Sequence[Value]) -> list[Value]:
        carry = values[count : count + stop - start]
        operands = [*values[:count], *unread, *carry]
        for k, value in zip(read, values[count + stop - start :], strict=True):
            if k != _MARK:
                operands[k] = value
        rows = [np.True_ if k == _MARK else carry[k - start] for k in stacked]
        return [*applied(program, operands), *rows]

    body = flat_program(program.name, step, specs)
    condition = None if number else sweeps.loop.condition
    loop = Loop(body, count, stop - start, condition=condition, reverse=bool(number % 2))
    return loop, read, stacked


def _unchanged(spec: Spec) -> Spec:
    return spec


def _is_double(sweeps: Sweeps) -> bool:
    """Whether all values have the precision of Python numbers, so that arrays may hold these."""
    specs = [spec for program in sweeps.programs for spec in program.specs()]
    return all(spec.dtype.char in _PYTHONS for spec in specs)


def _read(sweeps: Sweeps) -> list[int]:
    """Return the carried operands of earlier sweeps that some later sweep reads.

    A sweep that reads none goes along the stack that only gives the number of steps.
    """
    places: set[int] = set()
    for program in sweeps.later:
        inputs = inputs_read(program, range(len(program.outputs)))
        carried = range(sweeps.loop.shared, len(program.inputs) - len(program.outputs))
        places |= inputs.intersection(carried) or {_MARK}
    return sorted(places)
