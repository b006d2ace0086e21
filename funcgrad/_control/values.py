"""Conversions of values and specs that programs take and return, and programs on a batch.

>>> import numpy as np
>>> stacked([np.float64(1.0), np.float64(2.0)], Spec((), np.dtype(np.float64)))
array([1., 2.])
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from funcgrad._core.specs import Spec, dtype_of, shape_of, stand_in
from funcgrad._core.structure.structures import Control
from funcgrad._core.trace import RAW, Value
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.joining import stack
from funcgrad._primitives.stand_in_examples import with_stand_in
from funcgrad._primitives.structural import cast
from funcgrad._programs.equation import as_spec, spec_inside
from funcgrad._programs.extract import extract, needed, rewired
from funcgrad._programs.program import Program
from funcgrad._transforms.abstract_stager import applied, flat_program
from funcgrad._transforms.active_examples import refuses_numbers
from funcgrad._transforms.auxiliary import WithAux
from funcgrad._transforms.factors import zeros_like
from funcgrad._transforms.flat_functions import run_batched


class LoopSteps:
    """The steps of a running loop, an iterator that knows the loop's name and the current step.

    It is the first argument of each function that runs a loop: there ``fg.debug`` finds it.
    """

    __slots__ = ("_numbers", "number", "operation")

    def __init__(self, operation: str, numbers: Iterable[int]) -> None:
        self.operation = operation
        self.number: int | None = None  # none has begun
        self._numbers = iter(numbers)

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self.number = number = next(self._numbers)
        return number


def stacked(rows: Sequence[Value], spec: Spec) -> Value:
    """Stack rows of one spec along a new axis 0; the list may be empty."""
    if any(type(row) not in RAW for row in rows):
        return stack(*rows, axis=0)
    array = np.empty((len(rows), *spec.shape), spec.dtype)  # in a third of the time of np.stack
    for k, row in enumerate(rows):
        array[k] = row
    return array


def tangent_in(tangent: Value, spec: Spec) -> Value:
    """Convert a tangent to the dtype of a spec; return zeros where it is None."""
    return as_spec(zeros_like(spec) if tangent is None else tangent, spec)


def tangent_stand_ins(specs: Sequence[Spec], flags: Sequence[bool]) -> list[Value]:
    """Return stand-ins for the tangents of flagged values, and None for others."""
    pairs = zip(specs, flags, strict=True)
    return [stand_in(strong(spec)) if flag else None for spec, flag in pairs]


def specs_inside(values: Sequence[Value]) -> list[Spec]:
    """Return the specs of values."""
    return [spec_inside(value) for value in values]


def with_common_results(programs: Sequence[Program]) -> Sequence[Program]:
    """Convert results of a choice's programs to arrays where only some return Python numbers."""
    program_specs = [program.output_specs for program in programs]
    if len({*program_specs}) == 1:
        return programs
    wanted = [
        specs[0] if len({*specs}) == 1 else strong(specs[0])
        for specs in zip(*program_specs, strict=True)
    ]
    return [converted(program, program.inputs, wanted) for program in programs]


def converted(
    program: Program,
    inputs: Sequence[Spec],
    wanted: Sequence[Spec],
    reads: Sequence[int] | None = None,
) -> Program:
    """Stage a program on inputs of these specs (it may read only some); convert results."""

    def run(values: Sequence[Value]) -> list[Value]:
        operands = values if reads is None else [values[k] for k in reads]
        return [*map(as_spec, applied(program, operands), wanted)]

    return flat_program(program.name, run, inputs)


def closed_together(
    staged: Sequence[tuple[Program, list[Value]]],
    specs: Sequence[Spec],
    wanted: Sequence[Spec] | None = None,
) -> tuple[list[Program], list[Value]]:
    """Let programs take the same inputs: first the values that any of them closes over.

    Each program comes with the values that it closes over, which are its last inputs; ``specs`` are
    the specs of the others. Results are converted to ``wanted``. Also returns the values that they
    close over.
    """
    closed = [*{id(x): x for _, program_closed in staged for x in program_closed}.values()]
    every, count = [*specs_inside(closed), *specs], len(closed)
    places = {id(x): k for k, x in enumerate(closed)}

    def over(program: Program, program_closed: list[Value]) -> Program:
        reads = [*range(count, len(every)), *[places[id(x)] for x in program_closed]]
        if wanted is None or program.output_specs == tuple(wanted):
            return rewired(program, every, reads)
        return converted(program, every, wanted, reads)

    return [over(*pair) for pair in staged], closed


def strong(spec: Spec) -> Spec:
    """Return a spec whose dtype counts, unlike a Python number's."""
    return replace(spec, weak=False) if spec.weak else spec


def strong_program(program: Program) -> Program:
    """Let a program take and return arrays of the same dtypes in place of Python numbers."""
    inputs, wanted = [[*map(strong, specs)] for specs in (program.inputs, program.output_specs)]
    return converted(program, inputs, wanted)


def with_batch(
    values: Sequence[Value], flags: Sequence[bool], wanted: Sequence[bool], size: int
) -> list[Value]:
    """Repeat along axis 0 the values that should have the batch and do not."""
    return [
        broadcast_to(value, shape=(size, *shape_of(value))) if want and not flag else value
        for value, flag, want in zip(values, flags, wanted, strict=True)
    ]


def batched_program(
    program: Program, size: int, flags: Sequence[bool], wanted: Sequence[bool]
) -> tuple[Program, list[bool]]:
    """Stage a program on a batch; also return which results have it: the wanted ones always do."""

    def run(values: Sequence[Value]) -> tuple[list[Value], list[bool]]:
        outs, out_flags = run_batched(program.evaluate, size, values, flags)
        count = len(wanted)
        outs = [*with_batch(outs[:count], out_flags[:count], wanted, size), *outs[count:]]
        # In a batch a Python number becomes an array, which may raise the precision of others.
        results = [
            out if dtype_of(out) == spec.dtype else cast(out, dtype=spec.dtype)
            for out, spec in zip(outs, program.output_specs, strict=True)
        ]
        return results, out_flags

    pairs = zip(program.inputs, flags, strict=True)
    specs = [Spec((size, *spec.shape), spec.dtype) if flag else spec for spec, flag in pairs]
    batched = WithAux(run)
    return flat_program(f"{program.name}_batch", batched, specs), batched.aux


def inputs_read(program: Program, outputs: Iterable[int]) -> set[int]:
    """Return the positions of the inputs that some of a program's outputs depend on."""
    _, read = needed(program, [program.outputs[k] for k in outputs], ())
    return {k for k in range(len(program.inputs)) if k in read}


def part_of(program: Program, inputs: Sequence[int], outputs: Sequence[int]) -> Program:
    """Extract the part of a program that computes some of its outputs from some of its inputs."""
    return extract(program, inputs, [program.outputs[k] for k in outputs])


def may_refuse(program: Program) -> bool:
    """Whether a program has operations that may refuse values, or never end with them.

    Formulas, sums, products and rearrangements are defined for all values.
    """
    for equation in program.equations:
        operation, params = equation.operation, dict(equation.params)
        structure = operation.structure
        if refuses_numbers(operation) or "call" in params:
            return True
        if isinstance(structure, Control):
            runs = structure.runs(**params)
            if any(count is None or may_refuse(inner) for inner, count in runs):
                return True
    return False


def taking_part(mask: Value, values: Sequence[Value], flags: Sequence[bool]) -> list[Value]:
    """Replace examples outside of a mask by one inside, in the values flagged to have the batch.

    The others have ended in a loop, or chosen another branch. A program that runs on the whole
    batch may refuse their values, or never come to an end with them, as where it divides by a
    matrix that is zero for them. Nobody reads their results.

    >>> matrices = np.array([np.zeros((2, 2)), np.eye(2)])
    >>> (matrices,) = taking_part(np.array([False, True]), [matrices], [True])
    >>> np.linalg.inv(matrices)[1]
    array([[1., 0.],
           [0., 1.]])
    """
    return [
        with_stand_in(mask, value) if flag else value
        for value, flag in zip(values, flags, strict=True)
    ]
