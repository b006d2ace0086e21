"""A backend over plain Python lists: what a compiler needs to know of operations, in one page.

Elements are NumPy's scalars, in lists. Arrays are used only for operations that declare nothing
but how to evaluate them. All others are computed from their structures: formulas, folds, index
maps, letters, loops and choices. So this backend is slow, and right.

>>> import funcgrad as fg
>>> fg.jit(lambda x: x[::-1] * 2.0, backend=LISTS)(fg.tensor([1.0, 2.0]))
Tensor([4., 2.])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from funcgrad._backends.decompose import decomposed
from funcgrad._backends.interface import Compiled
from funcgrad._core import intrinsics
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Spec
from funcgrad._core.structure.index_maps import dense_strides
from funcgrad._core.structure.structures import (
    Choice,
    Contraction,
    Control,
    Elementwise,
    Gather,
    Loop,
    Movement,
    Reduction,
    Scan,
    Scatter,
)
from funcgrad._core.trace import NUMBERS, Raw, bind
from funcgrad._programs.equation import Equation
from funcgrad._programs.inline import inlined, with_programs_inside
from funcgrad._programs.program import Program
from funcgrad.testing.operations.interpreter import folded, gathered, scanned, scattered


class Listed(NamedTuple):
    """The elements of an array, in C order."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    elements: list[Any]


Held: TypeAlias = Any
"""A ``Listed``, or a Python number, which is weak."""


class _Miss(Exception):  # noqa: N818 - a guard does not hold
    pass


def listed(value: Raw) -> Held:
    """A raw value as this backend holds it."""
    if type(value) in NUMBERS:
        return value
    array = np.asarray(value)
    return Listed(array.shape, array.dtype, list(array.flat))


def raw(held: Held) -> Raw:
    """A value of this backend as a NumPy array."""
    if type(held) is not Listed:
        return held
    return np.array(held.elements, held.dtype).reshape(held.shape)[()]


def spread(held: Held, shape: Sequence[int]) -> list[Any]:
    """The elements of a value that is broadcast to a shape."""
    if type(held) is not Listed:
        return [held] * int(np.prod(shape))
    strides = (0,) * (len(shape) - len(held.shape)) + dense_strides(held.shape)
    return [held.elements[at(index, strides)] for index in product(*map(range, shape))]


def at(index: Sequence[int], strides: Sequence[int]) -> int:
    return sum([k * stride for k, stride in zip(index, strides, strict=True)])


@dataclass(frozen=True)
class ListsBackend:
    """Python lists, for every program."""

    name: str = "lists"

    def supports(self, program: Program) -> bool:
        """Whether this backend can run a program, which must not close over a tracer."""
        return program.is_raw

    def prepare(self, program: Program, relaxed: bool) -> Program:
        """The program without calls, and so the programs inside; with the bodies of reductions that
        are no folds."""
        written = decomposed(inlined(program), is_no_fold)
        return with_programs_inside(written, lambda body: self.prepare(body, relaxed))

    def inspect(self, program: Program) -> str:
        """The printed program."""
        return program.to_text()

    def compile(self, program: Program) -> Compiled:
        """A function that runs the program."""

        def run(*values: Raw) -> tuple[Any, ...] | None:
            try:
                return tuple(map(raw, self.outputs(program, [listed(value) for value in values])))
            except _Miss:
                return None

        return Compiled(run)

    def outputs(self, program: Program, inputs: Sequence[Held]) -> list[Held]:
        """Run a program: constants, then equation by equation, each with its guards."""
        held = [*inputs, *[listed(constant.value) for constant in program.constants]]
        guards = program.index.guards
        waiting = [*guards.get(-1, ())]  # of inputs and constants
        for equation in (None, *program.equations):
            if equation is not None:
                results = self.results(equation, [held[k] for k in equation.operands])
                for result in results:
                    waiting += guards.get(len(held), ())
                    held.append(result)
            for guard in waiting:
                if not guard.holds(guard.finds(raw(held[guard.variable]))):
                    raise _Miss
            waiting = []
        return [held[variable] for variable in program.outputs]

    def results(self, equation: Equation, operands: list[Held]) -> list[Held]:
        """The results of one operation, from its declarations."""
        structure, spec = equation.operation.structure, next(iter(equation.results), None)
        if isinstance(structure, Control) and structure.form is not None:
            form = structure.form(**dict(equation.params))
            if isinstance(form, Program):  # of loops, whose last outputs are the results
                return self.outputs(form, operands)[-len(equation.results) :]
            if isinstance(form, Choice):
                return self.choose(form, operands)
            if isinstance(form, Loop):
                return self.loop(form, operands)
        if spec is None or len(equation.results) > 1 or spec.weak:
            return self.evaluated(equation, operands)
        elements = elements_of(equation, operands, spec)
        if elements is None:
            return self.evaluated(equation, operands)
        return [Listed(spec.shape, spec.dtype, [spec.dtype.type(e) for e in elements])]

    def evaluated(self, equation: Equation, operands: list[Held]) -> list[Held]:
        """The results that NumPy computes for an operation."""
        out = bind(equation.operation, tuple(map(raw, operands)), dict(equation.params))
        return [listed(each) for each in (out if isinstance(out, tuple) else (out,))]

    def choose(self, choice: Choice, operands: list[Held]) -> list[Held]:
        """The results of the branch that the first operand names."""
        number = min(max(int(raw(operands[0])), 0), len(choice.branches) - 1)
        return self.outputs(choice.branches[number], operands[1:])

    def continues(self, loop: Loop, left: int, shared: list[Held], carry: list[Held]) -> bool:
        """Whether there is another step."""
        if loop.condition is None:
            return left > 0
        return bool(raw(self.outputs(loop.condition, [*shared, *carry])[0]))

    def loop(self, loop: Loop, operands: list[Held]) -> list[Held]:
        """The last carry, and the stacks."""
        shared, carry = operands[: loop.shared], operands[loop.shared :][: loop.carried]
        rows = operands[loop.shared + loop.carried :]
        specs = loop.body.specs()
        stacked = [specs[variable] for variable in loop.body.outputs[loop.carried :]]
        stacks: list[list[Held]] = [[] for _ in stacked]
        length = rows[0].shape[0] if rows and loop.length is None else loop.length or 0
        count = 0
        while self.continues(loop, length - count, shared, carry):
            place = length - 1 - count if loop.reverse else count
            slices = [
                row(x, place, spec.weak)
                for x, spec in zip(rows, loop.body.inputs[-len(rows) :], strict=False)
            ]
            outs = self.outputs(loop.body, [*shared, *carry, *slices])
            carry = outs[: loop.carried]
            for stack, out in zip(stacks, outs[loop.carried :], strict=True):
                stack.append(out)
            count += 1
        ordered = [stack[::-1] if loop.reverse else stack for stack in stacks]
        return [*carry, *map(stack_of, ordered, stacked)]


def row(x: Listed, place: int, as_python: bool) -> Held:
    if as_python:
        return x.dtype.type(x.elements[place]).item()
    size = int(np.prod(x.shape[1:]))
    return Listed(x.shape[1:], x.dtype, x.elements[place * size : (place + 1) * size])


def stack_of(rows: list[Held], spec: Spec) -> Listed:
    """Rows along a new axis 0."""
    elements = [e for each in rows for e in (each.elements if type(each) is Listed else [each])]
    return Listed((len(rows), *spec.shape), spec.dtype, elements)


def is_no_fold(operation: Primitive) -> bool:
    return isinstance(operation.structure, Reduction) and operation.structure.fold is None


def elements_of(equation: Equation, operands: list[Held], spec: Spec) -> list[Any] | None:
    """The elements of a result, from structures alone; None where these do not determine them."""
    structure, params = equation.operation.structure, dict(equation.params)
    shapes = [x.shape if type(x) is Listed else () for x in operands]
    lists = [x.elements if type(x) is Listed else [x] for x in operands]
    match structure:
        case Elementwise() if structure.formula is not None:
            formula = partial(structure.formula, intrinsics, **params)
            rows = zip(*[spread(x, spec.shape) for x in operands], strict=True)
            return [formula(*row) for row in rows]
        case Movement():
            return moved(structure, equation, operands, spec)
        case Contraction():
            return contracted(structure, equation, operands, spec)
        case Reduction() if structure.fold is not None:
            return folded(structure.fold, spec.dtype, lists, shapes[0], params["axis"])
        case Scan():
            reverse = params.get("reverse", False)
            return scanned(structure.fold, spec.dtype, lists, shapes[0], params["axis"], reverse)
        case Gather():
            return gathered(structure.places(*shapes, **params), lists, spec.dtype.type(0))
        case Scatter():
            places, updates = structure.places(*shapes, **params), lists[structure.updates]
            base = lists[0] if structure.updates else [0] * int(np.prod(spec.shape))
            return scattered(places, structure.fold, spec.dtype, base, updates, lists)
    return None


def moved(
    structure: Movement, equation: Equation, operands: list[Held], spec: Spec
) -> list[Any] | None:
    """Move elements to the places that the index map names."""
    shapes = [x.shape if type(x) is Listed else () for x in operands]
    pieces = structure.pieces(spec.shape, *shapes, **dict(equation.params))
    if pieces is None:
        return None
    out = [spec.dtype.type(0)] * int(np.prod(spec.shape))
    for piece in pieces:
        source = spread(operands[piece.operand], shapes[piece.operand])
        for index in product(*map(range, piece.shape)):
            element = spec.dtype.type(source[piece.start + at(index, piece.strides)])
            place = piece.to + at(index, piece.to_strides)
            out[place] = out[place] + element if structure.adds and piece.operand else element
    return out


def contracted(
    structure: Contraction, equation: Equation, operands: list[Held], spec: Spec
) -> list[Any]:
    """Sums of products over the letters that the result does not have."""
    first, second = operands
    specs = [Spec(x.shape, x.dtype) for x in operands]
    *letters, result = structure.letters(*specs, **dict(equation.params))
    sizes = {
        c: n
        for text, x in zip(letters, operands, strict=True)
        for c, n in zip(text, x.shape, strict=True)
        if n != 1
    }  # an axis of one element goes along with any
    names = [*result, *sorted({*letters[0], *letters[1]} - {*result})]
    out = [spec.dtype.type(0)] * int(np.prod(spec.shape))
    steps = [
        dict(zip(text, dense_strides(x.shape), strict=True))
        for text, x in zip([*letters, result], [first, second, spec], strict=True)
    ]
    for index in product(*[range(sizes.get(name, 1)) for name in names]):
        one, other, place = [
            sum([k * step.get(name, 0) for k, name in zip(index, names, strict=True)])
            for step in steps
        ]
        term = spec.dtype.type(first.elements[one]) * spec.dtype.type(second.elements[other])
        out[place] = out[place] + term
    return out


LISTS: Final = ListsBackend()
