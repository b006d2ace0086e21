"""The pattern of a program, read from the structures that its operations declare.

There is one rule for each structure, so operations of users have patterns, too. A rule maps the
rows of the operands to the rows of the results (``element_rows.py``). Values that depend on no
argument are computed: their zeros are zeros of the pattern, and their integers are places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import count
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.primitive import DISCRETE
from funcgrad._core.specs import Spec, is_inexact
from funcgrad._core.structure.structures import (
    EFFECT,
    Choice,
    Contraction,
    Control,
    Elementwise,
    Gather,
    Loop,
    Movement,
    Opaque,
    Random,
    Reduction,
    Scan,
    Scatter,
)
from funcgrad._programs.equation import Equation, bound
from funcgrad._programs.program import Program
from funcgrad.sparse.element_rows import (
    Rows,
    broadcast_rows,
    no_rows,
    selected,
    stacked,
    united,
    united_axes,
)
from funcgrad.sparse.element_rules import (
    along_rows,
    contraction_rows,
    elementwise_rows,
    lettered_rows,
    reduction_rows,
    scan_rows,
    term_rows,
)
from funcgrad.sparse.place_rules import added_rows, gathered_rows, moved_rows, scattered_rows
from funcgrad.sparse.sites import (
    UNDECLARED,
    DenseOperation,
    Dependent,
    Known,
    PatternSite,
    Undeclared,
)

_MOST_STEPS: Final = 1_000
"""Loops of more steps are not walked step by step."""

_MOST_ELEMENTS: Final = 10_000_000
"""Larger values are not computed."""


@dataclass(frozen=True, slots=True)
class PatternWalk:
    """A walk through a program, one equation after another.

    Attributes
    ----------
    width : int
        The number of elements of the arguments.
    is_local : bool
        Whether the arguments' values are known.
    dense : dict
        The operations that were taken to be dense, in order.
    """

    width: int
    is_local: bool = False
    dense: dict[DenseOperation, None] = field(default_factory=dict)

    def outputs(self, program: Program, inputs: Dependent, known: Known) -> Dependent:
        """The rows of a program's outputs."""
        return self.run(program, inputs, known)[0]

    def run(
        self, program: Program, inputs: Dependent, known: Known
    ) -> tuple[Dependent, dict[int, Any]]:
        """The rows of a program's outputs, and those outputs that are known, by position."""
        specs, first = program.specs(), len(program.inputs)
        values = dict(known)
        for place, constant in enumerate(program.constants):
            if constant.is_raw:
                values[first + place] = constant.value
            elif constant.value._trace.is_remote:
                values[first + place] = np.asarray(constant.value)[()]
        rows: Dependent = [
            argument if is_inexact(spec.dtype) else None
            for argument, spec in zip(inputs, specs, strict=False)
        ]
        rows += [None] * len(program.constants)
        for equation in program.equations:
            site = self._looked_at(equation, specs, rows, values)
            if site.out is not None:
                values.update(zip(count(len(rows)), site.out))
            for result, answer in zip(equation.results, self._rows_of(site), strict=True):
                rows.append(answer if is_inexact(result.dtype) else None)
        outputs = program.outputs
        numbers = {place: values[k] for place, k in enumerate(outputs) if k in values}
        return [rows[k] for k in outputs], numbers

    def _looked_at(
        self, equation: Equation, specs: Sequence[Spec], rows: Dependent, values: Mapping[int, Any]
    ) -> PatternSite:
        operands = equation.operands
        known = {place: values[k] for place, k in enumerate(operands) if k in values}
        out = None
        is_small = sum(prod(spec.shape) for spec in equation.results) <= _MOST_ELEMENTS
        is_fixed = self.is_local or all(rows[k] is None for k in operands)
        if len(known) == len(operands) and is_fixed and is_small:
            out = bound(equation, tuple([values[k] for k in operands]))
        return PatternSite(
            equation, [specs[k] for k in operands], [rows[k] for k in operands], known, out
        )

    def _rows_of(self, site: PatternSite) -> Dependent:
        """The rows of an equation's results."""
        equation = site.equation
        primitive = equation.operation
        if primitive.differential is DISCRETE or not any(rows is not None for rows in site.rows):
            return [None] * len(equation.results)
        out: Rows | Undeclared | None = UNDECLARED
        match primitive.structure:
            case Opaque() if EFFECT in primitive.traits:  # it returns its first operand
                out = site.rows[0]
            case Random():
                out = None
            case Elementwise():
                out = elementwise_rows(site)
            case Reduction():
                out = reduction_rows(site)
            case Scan():
                out = scan_rows(site)
            case Movement(adds=adds):
                out = added_rows(site) if adds else moved_rows(site)
            case Contraction():
                out = contraction_rows(site)
            case Gather(places):
                out = gathered_rows(site, places(*site.shapes, **site.params))
            case Scatter():
                out = scattered_rows(site)
            case Control():
                several = _control(self, site)
                if several is not None:
                    return several
            case Opaque(letters=letters, along=along) as structure:
                out = term_rows(site, structure)
                if isinstance(out, Undeclared) and letters is not None:
                    *operands, result = letters(*site.shapes, **site.params)
                    out = lettered_rows(site, operands, result)
                if along is not None:
                    out = along_rows(site, along)
        if isinstance(out, Undeclared):
            return self._by_examples(site)
        return [out] * len(equation.results)

    def _by_examples(self, site: PatternSite) -> Dependent:
        """Each element depends on all elements of the examples at its place of the stack."""
        equation, results = site.equation, site.results
        cores = equation.operation.cores
        if not cores:
            self.dense[DenseOperation(equation.name, equation.source)] = None
            cores = tuple([len(shape) for shape in site.shapes])
        stacks = [
            shape[: len(shape) - core] for shape, core in zip(site.shapes, cores, strict=True)
        ]
        stack = np.broadcast_shapes(*stacks)
        parts = []
        for k, rows in site.dependent:
            shape = site.shapes[k]
            axes = range(len(stacks[k]), len(shape))
            parts.append(broadcast_rows(united_axes(rows, shape, axes), stacks[k], stack))
        whole = united(parts)
        places = [
            np.repeat(np.arange(prod(stack)), prod(result[len(stack) :])) for result in results
        ]
        return [selected(whole, place) for place in places]


def _control(walk: PatternWalk, site: PatternSite) -> Dependent | None:
    structure: Any = site.equation.operation.structure
    params = site.params
    if structure.inlines:
        ((program, _),) = structure.runs(**params)
        return walk.outputs(program, site.rows, site.known)
    form = structure.form(**params) if structure.form else None
    if isinstance(form, Choice):
        return _choice(walk, site, form)
    if isinstance(form, Loop):
        return _Repeated(walk, site, form).rows()
    if isinstance(form, Program):
        outputs = walk.outputs(form, site.rows, site.known)
        return outputs[len(outputs) - len(site.results) :]
    return None


def _choice(walk: PatternWalk, site: PatternSite, form: Choice) -> Dependent:
    known = {place - 1: value for place, value in site.known.items() if place}
    branches = form.branches
    if 0 in site.known:
        index = int(np.clip(site.known[0], 0, len(branches) - 1))
        branches = [branches[index]]
    outcomes = [walk.outputs(branch, site.rows[1:], known) for branch in branches]
    return [united(alternatives) for alternatives in zip(*outcomes, strict=True)]


@dataclass(frozen=True, slots=True)
class _Repeated:
    """A loop, walked step by step if it has few steps, else until its rows stay the same."""

    walk: PatternWalk
    site: PatternSite
    form: Loop

    def rows(self) -> Dependent:
        """The rows of the last carry, and of the stacks."""
        length, out = self._length(), None
        if self.form.condition is not None:
            out = self._while()
        elif length is not None and length <= _MOST_STEPS:
            out = self._step_by_step(length)
        return self._until_they_stay() if out is None else out

    def _length(self) -> int | None:
        arrays = self.form.parts(self.site.specs)[2]
        return (
            self.form.length if not arrays or self.form.length is not None else arrays[0].shape[0]
        )

    def _known(self, number: int) -> dict[int, Any]:
        """The known ones of the shared, the carried or the sliced operands, by position."""
        positions = self.form.parts(range(len(self.site.specs)))[number]
        known = self.site.known
        return {place: known[k] for place, k in enumerate(positions) if k in known}

    def _step(
        self, carry: Dependent, slices: Dependent, known: Mapping[int, Any]
    ) -> tuple[Dependent, Dependent, dict[int, Any]]:
        shared = self.form.parts(self.site.rows)[0]
        out, values = self.walk.run(self.form.body, [*shared, *carry, *slices], known)
        return out[: self.form.carried], out[self.form.carried :], values

    def _slice(self, place: int, rows: Rows | None, step: int) -> Rows | None:
        spec = self.form.parts(self.site.specs)[2][place]
        size = prod(spec.shape[1:])
        return None if rows is None else rows[step * size : (step + 1) * size]

    def _step_by_step(self, length: int) -> Dependent:
        _, carry, arrays = map(list, self.form.parts(self.site.rows))
        shared, known, tables = self._known(0), self._known(1), self._known(2)
        first, before = self.form.shared, self.form.shared + self.form.carried
        stacks: list[Dependent] = []
        order = range(length)
        for step in reversed(order) if self.form.reverse else order:
            slices = [self._slice(place, rows, step) for place, rows in enumerate(arrays)]
            values = {**shared, **{first + k: value for k, value in known.items()}}
            values |= {before + k: np.asarray(table)[step] for k, table in tables.items()}
            carry, stack, after = self._step(carry, slices, values)
            known = {k: value for k, value in after.items() if k < self.form.carried}
            stacks.append(stack)
        if self.form.reverse:
            stacks.reverse()
        return [*carry, *self._stacked(stacks, length)]

    def _stacked(self, stacks: Sequence[Dependent], length: int) -> Dependent:
        results = self.site.results[self.form.carried :]
        if not length:
            return [None] * len(results)
        return [
            self._one_stack(steps, prod(result[1:]))
            for steps, result in zip(zip(*stacks, strict=True), results, strict=True)
        ]

    def _one_stack(self, steps: Sequence[Rows | None], size: int) -> Rows | None:
        if all(rows is None for rows in steps):
            return None
        empty = no_rows(size, self.walk.width)
        return stacked([empty if rows is None else rows for rows in steps])

    def _while(self) -> Dependent | None:
        """A loop whose condition depends on known values; None if it does not."""
        shared, known = self._known(0), self._known(1)
        carry = list(self.form.parts(self.site.rows)[1])
        first, inputs = self.form.shared, self.form.shared + self.form.carried
        stacks: list[Dependent] = []
        while len(stacks) <= _MOST_STEPS:
            values = {**shared, **{first + k: value for k, value in known.items()}}
            answer = self.walk.run(self.form.condition, [None] * inputs, values)[1]
            if not answer:
                return None
            if not answer[0]:
                return [*carry, *self._stacked(stacks, len(stacks))]
            carry, stack, after = self._step(carry, [], values)
            known = {k: value for k, value in after.items() if k < self.form.carried}
            stacks.append(stack)
        return None

    def _until_they_stay(self) -> Dependent:
        """Each step may be any step, and each slice any slice."""
        _, carry, arrays = map(list, self.form.parts(self.site.rows))
        specs = self.form.parts(self.site.specs)[2]
        slices = [
            None if rows is None else united_axes(rows, spec.shape, (0,))
            for rows, spec in zip(arrays, specs, strict=True)
        ]
        while True:
            after, stack, _ = self._step(carry, slices, self._known(0))
            grown = [united(pair) for pair in zip(carry, after, strict=True)]
            if [_size(rows) for rows in grown] == [_size(rows) for rows in carry]:
                break
            carry = grown
        results = self.site.results[self.form.carried :]
        repeated = [
            None if rows is None else selected(rows, np.tile(np.arange(rows.shape[0]), shape[0]))
            for rows, shape in zip(stack, results, strict=True)
        ]
        return [*carry, *repeated]


def _size(rows: Rows | None) -> int:
    return -1 if rows is None else int(rows.nnz)
