"""Let a loop change an array in place: a step does not visit elements that it does not change.

The gradient of a loop that reads ``x[i]`` adds a cotangent to an array at each step: zeros, with an
update scattered into them, are added to all of the array. The sum is replaced by a scatter that
adds to the array itself, which a backend may overwrite.

>>> import funcgrad as fg
>>> def total(x):
...     return fg.scan(lambda c, i: (c * x[i], None), 1.0, fg.numpy.arange(5))[0]
>>> staged = change_in_place(fg.program(fg.grad(total))(fg.numpy.ones(5)))
>>> loops = [equation for equation in staged.equations if equation.name == "scan"]
>>> [equation.name for equation in dict(loops[1].params)["body"].equations]
['multiply', 'multiply', 'reshape', 'reshape', 'scatter_add', 'scatter_add']

``x + 0.0`` turns -0.0 to 0.0, and a scatter leaves it, so the array must not have -0.0. An
accumulated cotangent has none: it begins with zeros, and a sum is -0.0 only if both terms are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._core.structure.folds import SUM
from funcgrad._core.structure.structures import Control, Loop, Scatter
from funcgrad._passes.schedule import reordered
from funcgrad._passes.workbench import Rule, Workbench, improve
from funcgrad._primitives.blocks import put_block, spread_block, take_block
from funcgrad._primitives.elementwise import add
from funcgrad._primitives.indexing import deposit
from funcgrad._primitives.logic import logical_or
from funcgrad._primitives.scatter import scatter_add
from funcgrad._primitives.structural import reshape
from funcgrad._programs.builder import Draft, rewrite
from funcgrad._programs.equation import Constant, Equation
from funcgrad._programs.program import Program

_LARGE: Final = 2**10
"""The elements of an array from which on several updates are added one after the other, though some
may come to one place: then the sum is added in another order."""


def change_in_place(program: Program) -> Program:
    """Rewrite the bodies of loops so that arrays, to which few elements are added, stay in place.

    Scatters come after all other readers of the array that they change.
    """
    if not _scatters_in_loops(program):
        return program
    return _changed(program, [False] * len(program.inputs))[0]


def _scatters_in_loops(program: Program, is_inside: bool = False) -> bool:
    """Whether programs inside a program have scatters."""
    for equation in program.equations:
        structure = equation.operation.structure
        if isinstance(structure, Scatter):
            if is_inside:
                return True
        elif isinstance(structure, Control):
            for _, value in equation.params:
                if isinstance(value, Program) and _scatters_in_loops(value, True):
                    return True
    return False


def _changed(program: Program, plain: Sequence[bool]) -> tuple[Program, list[bool]]:
    """Rewrite the loops in a program; also tell which outputs have no -0.0.

    ``plain`` tells which inputs have none.
    """
    known = [*plain, *map(_has_no_negative_zero, program.constants)]
    bodies: dict[int, Program] = {}
    for position, equation in enumerate(program.equations):
        loop = _loop_of(equation)
        if loop is None:
            known += _without_negative_zeros(equation, known, program)
            continue
        body, outputs = _body(loop, [known[variable] for variable in equation.operands])
        known += outputs
        if body is not loop.body:
            bodies[position] = body
    outputs = [known[variable] for variable in program.outputs]
    if not bodies:
        return program, outputs
    positions = iter(range(len(program.equations)))

    def step(draft: Draft, equation: Equation) -> list[int]:
        body = bodies.get(next(positions))
        if body is not None:
            params = [(name, body if name == "body" else x) for name, x in equation.params]
            equation = replace(equation, params=tuple(params))
        return draft.append(equation)

    return rewrite(program, step), outputs


def _loop_of(equation: Equation) -> Loop | None:
    """The loop that an equation is, if its parameters are the loop's."""
    structure = equation.operation.structure
    if not isinstance(structure, Control) or structure.form is None:
        return None
    form = structure.form(**dict(equation.params))
    is_plain = isinstance(form, Loop) and dict(equation.params).get("body") is form.body
    return form if is_plain and form.carried else None


def _body(loop: Loop, plain: Sequence[bool]) -> tuple[Program, list[bool]]:
    """The rewritten body; also which results of the loop have no -0.0."""
    if not _scatters_in_loops(loop.body, True):
        return loop.body, [False] * len(loop.body.outputs)
    shared, carry, arrays = map(list, loop.parts(plain))
    while True:
        body, outputs = _changed(loop.body, [*shared, *carry, *arrays])
        after = [a and b for a, b in zip(carry, outputs, strict=False)]
        if after == carry:
            break
        carry = after
    outputs[: len(carry)] = carry  # a loop of no steps returns its first carry
    return _late_scatters(_added_in_place(body, [*shared, *carry, *arrays])), outputs


# ----------------------------------------------------------------------------- arrays without -0.0


def _has_no_negative_zero(constant: Constant) -> bool:
    kind = constant.spec.dtype.kind
    if constant.spec.weak or not constant.is_raw or kind not in "fc":
        return kind in "biu"
    value: np.ndarray[Any, Any] = np.asarray(constant.value)
    numbers = [value.real, value.imag] if kind == "c" else [value]
    return not any(bool(np.any((array == 0) & np.signbit(array))) for array in numbers)


def _without_negative_zeros(
    equation: Equation, known: Sequence[bool], program: Program
) -> list[bool]:
    """Which results of an equation have no -0.0."""
    operands, result = equation.operands, equation.results[0]
    if len(equation.results) > 1 or result.dtype.kind not in "fc":
        return [spec.dtype.kind in "biu" for spec in equation.results]
    structure = equation.operation.structure
    if equation.operation is add:
        specs = program.specs()
        return [any(known[v] and specs[v].dtype == result.dtype for v in operands)]
    if equation.operation is reshape:
        return [known[operands[0]]]
    if not isinstance(structure, Scatter):
        return [False]
    if not structure.updates:  # zeros, but a single update may move there
        return [known[operands[0]]]
    return [known[operands[0]] and (structure.fold is SUM or known[operands[structure.updates]])]


# ------------------------------------------------------------------------------------------- sums


def _added_in_place(body: Program, plain: Sequence[bool]) -> Program:
    if not any(_spreads(equation) for equation in body.equations):
        return body
    known = [*plain, *map(_has_no_negative_zero, body.constants)]
    for equation in body.equations:
        known += (
            _without_negative_zeros(equation, known, body)
            if _loop_of(equation) is None
            else [False] * len(equation.results)
        )
    fit = {variable for variable, is_plain in enumerate(known) if is_plain}

    def rule(bench: Workbench, equation: Equation) -> int | None:
        x, y = equation.operands
        for array, term in ((x, y), (y, x)):
            if array in fit and bench.specs[array] == equation.results[0]:
                out = _onto(bench, equation, array, term)
                if out is not None:
                    fit.add(out)
                    return out
        return None

    rules: tuple[Rule, ...] = (rule,)
    return improve(body, MappingProxyType({add: rules, logical_or: rules}))


def _spreads(equation: Equation) -> bool:
    return equation.operation is deposit or equation.operation is spread_block


def _onto(bench: Workbench, equation: Equation, array: int, term: int) -> int | None:
    """The sum of an array and of a term, by scatters that add to the array."""
    maker, spec = bench.makers[term], equation.results[0]
    if maker is None or bench.uses[term] > 1 or bench.specs[term] != spec:
        return None
    if maker.operation is equation.operation and prod(spec.shape) >= _LARGE:
        first = _onto(bench, equation, array, maker.operands[0])
        return None if first is None else _onto(bench, equation, first, maker.operands[1])
    updates, *indices = maker.operands
    params = dict(maker.params)
    if maker.operation is deposit:
        size = prod(bench.specs[updates].shape)
        is_exact = params["unique"] or size < 2 or spec.dtype.kind not in "fc"
        if not is_exact and prod(spec.shape) < max(_LARGE, size):
            return None
        where = ("axis", params["axis"]), ("unique", params["unique"])
        return bench.put(equation, scatter_add, (array, updates, *indices), where, spec)
    if maker.operation is spread_block:
        structure, shapes = (
            maker.operation.structure,
            [bench.specs[v].shape for v in maker.operands],
        )
        if not isinstance(structure, Scatter) or not structure.places(*shapes, **params).unique:
            return None
        sizes = tuple([bench.specs[updates].shape[axis] for axis in params["axes"]])
        where = ("axes", params["axes"]), ("mode", params["mode"])
        block = bench.put(equation, take_block, (array, *indices), (*where, ("sizes", sizes)))
        block = bench.put(equation, equation.operation, (block, updates))
        return bench.put(equation, put_block, (array, block, *indices), where, spec)
    return None


# ------------------------------------------------------------------------------------------ order


def _late_scatters(body: Program) -> Program:
    """Put each scatter into an array right before its first reader, or at the end."""
    count = len(body.equations)
    moved = [k for k, equation in enumerate(body.equations) if _overwrites(equation)]
    if not moved or body.guards or body.index.effects:
        return body
    late = {*moved}
    place = [position if position not in late else count for position in range(count)]
    for position in range(count - 1, -1, -1):  # readers before scatters that move with them
        for variable in body.equations[position].operands:
            maker = body.index.makers[variable]
            if maker in late:
                place[maker] = min(place[maker], place[position])
    order = sorted(range(count), key=lambda k: (place[k], k not in late, k))
    return body if order == [*range(count)] else reordered(body, order)


def _overwrites(equation: Equation) -> bool:
    structure = equation.operation.structure
    return isinstance(structure, Scatter) and structure.updates > 0
