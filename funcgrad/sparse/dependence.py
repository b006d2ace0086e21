"""The pattern of a program, read from the structures that its operations declare.

There is one rule for each structure, so operations of users have patterns, too. A rule maps the
rows of the operands to the rows of the results (``element_rows.py``). Values that depend on no
argument are computed: their zeros are zeros of the pattern, and their integers are places.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from itertools import count
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.primitive import DISCRETE, Partials, Selection
from funcgrad._core.specs import Shape, Spec, is_inexact
from funcgrad._core.structure.index_maps import IndexArray, Places
from funcgrad._core.structure.structures import (
    EFFECT,
    PRODUCT,
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
    Indices,
    Rows,
    broadcast_rows,
    from_pairs,
    no_rows,
    numbered,
    selected,
    stacked,
    strided,
    united,
    united_axes,
    united_groups,
    without,
)

Dependent: TypeAlias = list[Rows | None]
"""The rows of several variables."""

Known: TypeAlias = Mapping[int, Any]
"""The values of some variables, or of some operands."""

_MOST_STEPS: Final = 1_000
"""Loops of more steps are not walked step by step."""

_MOST_ELEMENTS: Final = 10_000_000
"""Larger values are not computed."""


class Unknown:
    """A value in the place of operands that are not known: every use of it raises."""

    def _refuse(self, *_args: Any, **_kwargs: Any) -> Any:
        raise TypeError("the value is not known")

    __array__ = __bool__ = __eq__ = __getattr__ = __invert__ = __abs__ = __neg__ = _refuse
    __lt__ = __le__ = __gt__ = __ge__ = __ne__ = __and__ = __mul__ = __rmul__ = _refuse
    __hash__ = None  # type: ignore[assignment]


UNKNOWN: Final = Unknown()


@dataclass(frozen=True, slots=True)
class DenseOperation:
    """An operation that was taken to be dense, since it declares too little.

    Attributes
    ----------
    name : str
    source : str
        The user's line.
    """

    name: str
    source: str

    def __str__(self) -> str:
        return f"{self.name} at {self.source}" if self.source else self.name


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """An equation at which a rule looks.

    Attributes
    ----------
    equation : Equation
    specs : sequence of Spec
        The specs of the operands.
    rows : list of rows
        The rows of the operands.
    known : mapping
        The known values of operands, by position.
    out : value or None
        The known results.
    """

    equation: Equation
    specs: Sequence[Spec]
    rows: Dependent
    known: Known
    out: tuple[Any, ...] | None

    @property
    def params(self) -> dict[str, Any]:
        return dict(self.equation.params)

    @property
    def shapes(self) -> list[Shape]:
        return [spec.shape for spec in self.specs]

    @property
    def results(self) -> list[Shape]:
        return [spec.shape for spec in self.equation.results]

    @property
    def dependent(self) -> Iterable[tuple[int, Rows]]:
        """The operands that depend on the arguments, with their rows."""
        return [(k, rows) for k, rows in enumerate(self.rows) if rows is not None]


@dataclass(frozen=True, slots=True)
class Walk:
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
        rows: Dependent = [
            each if is_inexact(spec.dtype) else None
            for each, spec in zip(inputs, specs, strict=False)
        ]
        rows += [None] * len(program.constants)
        for equation in program.equations:
            operation = self._looked_at(equation, specs, rows, values)
            if operation.out is not None:
                values.update(zip(count(len(rows)), operation.out))
            for result, each in zip(equation.results, self._rows_of(operation), strict=True):
                rows.append(each if is_inexact(result.dtype) else None)
        outputs = program.outputs
        found = {place: values[k] for place, k in enumerate(outputs) if k in values}
        return [rows[k] for k in outputs], found

    def _looked_at(
        self,
        equation: Equation,
        specs: Sequence[Spec],
        rows: Dependent,
        values: Mapping[int, Any],
    ) -> Operation:
        operands = equation.operands
        known = {place: values[k] for place, k in enumerate(operands) if k in values}
        out = None
        is_small = sum(prod(spec.shape) for spec in equation.results) <= _MOST_ELEMENTS
        is_fixed = self.is_local or all(rows[k] is None for k in operands)
        if len(known) == len(operands) and is_fixed and is_small:
            out = bound(equation, tuple([values[k] for k in operands]))
        return Operation(
            equation, [specs[k] for k in operands], [rows[k] for k in operands], known, out
        )

    def _rows_of(self, operation: Operation) -> Dependent:
        """The rows of an equation's results."""
        equation = operation.equation
        primitive = equation.operation
        if primitive.differential is DISCRETE or not any(
            rows is not None for rows in operation.rows
        ):
            return [None] * len(equation.results)
        out: Rows | _Undeclared | None = UNDECLARED
        match primitive.structure:
            case Opaque() if EFFECT in primitive.traits:  # it returns its first operand
                out = operation.rows[0]
            case Random():
                out = None
            case Elementwise():
                out = _elementwise(operation)
            case Reduction():
                out = _reduction(operation)
            case Scan():
                out = _scan(operation)
            case Movement(adds=adds):
                out = _added(operation) if adds else _moved(operation)
            case Contraction():
                out = _contraction(operation)
            case Gather(places):
                out = _gathered(operation, places(*operation.shapes, **operation.params))
            case Scatter():
                out = _scattered(operation)
            case Control():
                several = _control(self, operation)
                if several is not None:
                    return several
            case Opaque(letters=letters) if letters is not None:
                *operands, result = letters(*operation.shapes, **operation.params)
                out = _lettered(operation, operands, result)
            case Opaque(along=along) if along is not None:
                out = _along(operation, along)
        if isinstance(out, _Undeclared):
            return self._by_examples(operation)
        return [out] * len(equation.results)

    def _by_examples(self, operation: Operation) -> Dependent:
        """Each element depends on all elements of the examples at its place of the stack."""
        equation, results = operation.equation, operation.results
        cores = equation.operation.cores
        if not cores:
            self.dense[DenseOperation(equation.name, equation.source)] = None
            cores = tuple([len(shape) for shape in operation.shapes])
        stacks = [
            shape[: len(shape) - core] for shape, core in zip(operation.shapes, cores, strict=True)
        ]
        stack = np.broadcast_shapes(*stacks)
        parts = []
        for k, rows in operation.dependent:
            shape = operation.shapes[k]
            axes = range(len(stacks[k]), len(shape))
            parts.append(broadcast_rows(united_axes(rows, shape, axes), stacks[k], stack))
        whole = united(parts)
        places = [
            np.repeat(np.arange(prod(stack)), prod(result[len(stack) :])) for result in results
        ]
        return [selected(whole, each) for each in places]


class _Undeclared:
    """The answer of a rule for which an operation declares too little."""


UNDECLARED: Final = _Undeclared()


# ------------------------------------------------------------------ element by element


def _zeros_of_factor(operation: Operation, k: int, out: Any = UNKNOWN) -> Any:
    """Where the derivative with respect to operand ``k`` is zero, as far as values are known."""
    primitive, params = operation.equation.operation, operation.params
    args = [operation.known.get(place, UNKNOWN) for place in range(len(operation.specs))]
    if PRODUCT in primitive.traits:
        other = args[1 - k] if len(args) == 2 else UNKNOWN
        return other is not UNKNOWN and np.asarray(other) == 0
    differential = primitive.differential
    if not (isinstance(differential, Partials) and differential.selects):
        return False
    factor = differential.factors[k]
    if not callable(factor):
        return False
    try:
        value = factor(out, *args, **params)
    except TypeError:
        return False
    mask = value.mask if isinstance(value, Selection) else value
    return False if isinstance(mask, Unknown) else ~np.asarray(mask, np.bool_)


def _elementwise(operation: Operation) -> Rows | None:
    (shape,) = operation.results
    routes = operation.equation.operation.routes(len(operation.specs))
    out = UNKNOWN if operation.out is None else operation.out[0]
    parts = []
    for k, rows in operation.dependent:
        if routes[k] is not None:
            is_zero = np.broadcast_to(_zeros_of_factor(operation, k, out), shape)
            parts.append(without(broadcast_rows(rows, operation.shapes[k], shape), is_zero))
    return united(parts)


def _reduction(operation: Operation) -> Rows | None:
    params, parts = operation.params, []
    for k, rows in operation.dependent:
        shape, axes = operation.shapes[k], params["axis"]
        out: Any = UNKNOWN
        if operation.out is not None:
            kept = [1 if axis in axes else n for axis, n in enumerate(shape)]
            out = np.reshape(operation.out[0], kept)
        is_zero = np.broadcast_to(_zeros_of_factor(operation, k, out), shape)
        parts.append(united_axes(without(rows, is_zero), shape, axes))
    return united(parts)


def _scan(operation: Operation) -> Rows | None:
    """Unite each row with the rows before it: with the nearest 1, 2, 4, ... of them."""
    params, shape = operation.params, operation.shapes[0]
    rows, axis = united(rows for _, rows in operation.dependent), params["axis"]
    places, distance = numbered(shape), 1
    while distance < shape[axis]:
        moved = np.full(shape, -1, np.int64)
        near = (slice(None),) * axis + (slice(None, -distance),)
        far = (slice(None),) * axis + (slice(distance, None),)
        if params.get("reverse"):
            near, far = far, near
        moved[far] = places[near]
        rows = rows + selected(rows, moved.reshape(-1))
        distance *= 2
    return rows


def _along(operation: Operation, along: Any) -> Rows | _Undeclared | None:
    """An operation on each line along an axis, such as a Fourier transform."""
    spec, (result, *others) = operation.specs[0], operation.results
    how = along(spec.shape, spec.dtype, **operation.params)
    if how is None or others or len(operation.specs) > 1:
        return UNDECLARED
    lines = united_axes(operation.rows[0], spec.shape, (how.axis,))
    kept = [1 if axis == how.axis else n for axis, n in enumerate(result)]
    return broadcast_rows(lines, tuple(kept), result)


# ----------------------------------------------------------------------- index maps


def _moved(operation: Operation) -> Rows | _Undeclared | None:
    """Move the numbers of the elements instead of the elements: from 1 on, as 0 means nothing."""
    rows, arrays, first = [], [], 1
    for k, shape in enumerate(operation.shapes):
        each = operation.rows[k]
        if each is None:
            arrays.append(np.zeros(shape, np.int64))
        else:
            arrays.append(numbered(shape) + first)
            rows.append(each)
            first += each.shape[0]
    primitive = operation.equation.operation
    try:
        numbers = np.asarray(primitive.evaluate(*arrays, **operation.params))
    except Exception:
        return _added(operation)
    return selected(stacked(rows), numbers.astype(np.int64).reshape(-1) - 1)


def _added(operation: Operation) -> Rows | _Undeclared | None:
    structure: Any = operation.equation.operation.structure
    (result,) = operation.results
    pieces = structure.pieces(result, *operation.shapes, **operation.params)
    if pieces is None:
        return UNDECLARED
    parts = []
    for piece in pieces:
        rows = operation.rows[piece.operand]
        if rows is not None:
            to = strided(piece.to, piece.to_strides, piece.shape)
            start = strided(piece.start, piece.strides, piece.shape)
            parts.append(from_pairs(to, start, prod(result), rows))
    return united(parts)


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Places that are known except along some axes, whose integers are not known.

    Attributes
    ----------
    places : array of int
        The flat element for each index ``k``, at position 0 of the unknown axes; -1 for none.
    unknown : tuple of IndexArray
        The index arrays whose integers are not known.
    """

    places: Indices
    unknown: tuple[IndexArray, ...]

    def groups(self, size: int) -> Indices:
        """For each element of the array, its element at position 0 of the unknown axes."""
        elements = np.arange(size, dtype=np.int64)
        for index in self.unknown:
            elements = elements - (elements // index.step) % index.size * index.step
        return elements


def _chosen(operation: Operation, places: Places) -> _Chosen:
    elements = strided(places.start, places.strides, places.shape)
    is_missing = np.zeros(len(elements), np.bool_)
    unknown = []
    for index in places.indices:
        value = operation.known.get(index.operand)
        if value is None:
            unknown.append(index)
            continue
        at = strided(0, index.strides, places.shape)
        integers = np.asarray(value).reshape(-1)[at].astype(np.int64)
        if index.mode == "clip":
            integers = np.clip(integers, 0, index.size - 1)
        elif index.mode != "wrap":
            is_missing |= (integers < -index.size) | (integers >= index.size)
        elements = elements + index.step * (integers % max(index.size, 1))
    return _Chosen(np.where(is_missing, -1, elements), tuple(unknown))


def _gathered(operation: Operation, places: Places) -> Rows | None:
    rows = operation.rows[0]
    if rows is None:
        return None
    chosen = _chosen(operation, places)
    if chosen.unknown:
        count = rows.shape[0]
        rows = united_groups(rows, chosen.groups(count), count)
    return selected(rows, chosen.places)


def _scattered(operation: Operation) -> Rows | None:
    structure: Any = operation.equation.operation.structure
    (result,) = operation.results
    size, updates = prod(result), operation.rows[structure.updates]
    chosen = _chosen(operation, structure.places(*operation.shapes, **operation.params))
    base = operation.rows[0] if structure.updates else None
    written = chosen.places >= 0
    if structure.fold is None and not chosen.unknown:  # the last update wins
        width = next(rows.shape[1] for _, rows in operation.dependent)
        parts = [
            no_rows(size, width) if base is None else base,
            no_rows(len(written), width) if updates is None else updates,
        ]
        places = np.arange(size)
        places[chosen.places[written]] = size + np.flatnonzero(written)
        return selected(stacked(parts), places)
    if updates is None:
        return base
    to = chosen.places[written]
    spread = from_pairs(to, np.flatnonzero(written), size, updates)
    if chosen.unknown:
        spread = selected(spread, chosen.groups(size))
    return united([base, spread])


# ------------------------------------------------------------------------ products


def _contraction(operation: Operation) -> Rows | _Undeclared | None:
    structure: Any = operation.equation.operation.structure
    *operands, result = structure.letters(*operation.specs, **operation.params)
    named = list(zip((*operands, result), (*operation.shapes, *operation.results), strict=True))
    if any(len({*letters}) < len(letters) for letters, _ in named):
        return UNDECLARED
    sizes: dict[str, int] = {}
    for letters, shape in named:  # an axis of size 1 broadcasts; the result has the full size
        for letter, size in zip(letters, shape, strict=True):
            if letter in result or sizes.get(letter, 1) == 1:
                sizes[letter] = size
    parts = []
    for k, rows in operation.dependent:
        letters, shape = operands[k], operation.shapes[k]
        other = np.asarray(operation.known.get(1 - k, 1))
        nonzeros = np.nonzero(other) if other.ndim else ()
        if nonzeros and len(nonzeros[0]) < other.size:
            axes = dict(zip(operands[1 - k], nonzeros, strict=True))
            parts.append(_through_nonzeros(rows, letters, shape, result, axes, sizes))
        else:
            parts.append(_through_letters(rows, letters, shape, result, sizes))
    return united(parts)


def _lettered(operation: Operation, operands: Sequence[str], result: str) -> Rows | None:
    sizes = dict(zip(result, operation.results[0], strict=True))
    parts = []
    for k, rows in operation.dependent:
        parts.append(_through_letters(rows, operands[k], operation.shapes[k], result, sizes))
    return united(parts)


def _through_letters(
    rows: Rows, letters: str, shape: Shape, result: str, sizes: Mapping[str, int]
) -> Rows:
    """Unite along the letters that the result lacks, and repeat along those it has in addition."""
    gone = [axis for axis, letter in enumerate(letters) if letter not in result]
    rows = united_axes(rows, shape, gone)
    kept = [1 if axis in gone else n for axis, n in enumerate(shape)]
    places, axes = numbered(kept), {}
    for axis, letter in enumerate(letters):
        if letter in result:
            axes[letter] = axis
    order = [axes[letter] for letter in result if letter in axes]
    moved = places.transpose([*order, *gone]).reshape([kept[axis] for axis in order])
    for position, letter in enumerate(result):
        if letter not in axes:
            moved = np.expand_dims(moved, position)
    full = [sizes[letter] for letter in result]
    return selected(rows, np.broadcast_to(moved, full).reshape(-1))


def _through_nonzeros(
    rows: Rows,
    letters: str,
    shape: Shape,
    result: str,
    nonzeros: Mapping[str, Indices],
    sizes: Mapping[str, int],
) -> Rows:
    """A product with known elements: only those that are not zero contribute."""
    free = [letter for letter in dict.fromkeys(letters + result) if letter not in nonzeros]
    grid = np.indices([sizes[letter] for letter in free]).reshape(len(free), -1)
    count = len(next(iter(nonzeros.values())))
    repeats = grid.shape[1]
    index = {letter: np.repeat(places, repeats) for letter, places in nonzeros.items()}
    index |= {letter: np.tile(places, count) for letter, places in zip(free, grid, strict=True)}

    def flat(names: str, sizes_of: Sequence[int]) -> Indices:
        where = np.zeros(count * repeats, np.int64)
        for letter, size in zip(names, sizes_of, strict=True):
            where = where * size + (index[letter] if size != 1 else 0)
        return where

    full = [sizes[letter] for letter in result]
    return from_pairs(flat(result, full), flat(letters, shape), prod(full), rows)


# ------------------------------------------------------------------ programs inside


def _control(walk: Walk, operation: Operation) -> Dependent | None:
    structure: Any = operation.equation.operation.structure
    params = operation.params
    if structure.inlines:
        ((program, _),) = structure.runs(**params)
        return walk.outputs(program, operation.rows, operation.known)
    form = structure.form(**params) if structure.form else None
    if isinstance(form, Choice):
        return _choice(walk, operation, form)
    if isinstance(form, Loop):
        return _Repeated(walk, operation, form).rows()
    if isinstance(form, Program):
        outputs = walk.outputs(form, operation.rows, operation.known)
        return outputs[len(outputs) - len(operation.results) :]
    return None


def _choice(walk: Walk, operation: Operation, form: Choice) -> Dependent:
    known = {place - 1: value for place, value in operation.known.items() if place}
    branches = form.branches
    if 0 in operation.known:
        index = int(np.clip(operation.known[0], 0, len(branches) - 1))
        branches = [branches[index]]
    found = [walk.outputs(branch, operation.rows[1:], known) for branch in branches]
    return [united(each) for each in zip(*found, strict=True)]


@dataclass(frozen=True, slots=True)
class _Repeated:
    """A loop, walked step by step if it has few steps, else until its rows stay the same."""

    walk: Walk
    operation: Operation
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
        arrays = self.form.parts(self.operation.specs)[2]
        return (
            self.form.length if not arrays or self.form.length is not None else arrays[0].shape[0]
        )

    def _known(self, part: int) -> dict[int, Any]:
        """The known operands of a part, by their positions in the part."""
        positions = self.form.parts(range(len(self.operation.specs)))[part]
        known = self.operation.known
        return {place: known[k] for place, k in enumerate(positions) if k in known}

    def _step(
        self, carry: Dependent, slices: Dependent, known: Mapping[int, Any]
    ) -> tuple[Dependent, Dependent, dict[int, Any]]:
        shared = self.form.parts(self.operation.rows)[0]
        out, found = self.walk.run(self.form.body, [*shared, *carry, *slices], known)
        return out[: self.form.carried], out[self.form.carried :], found

    def _slice(self, place: int, rows: Rows | None, step: int) -> Rows | None:
        spec = self.form.parts(self.operation.specs)[2][place]
        size = prod(spec.shape[1:])
        return None if rows is None else rows[step * size : (step + 1) * size]

    def _step_by_step(self, length: int) -> Dependent:
        _, carry, arrays = map(list, self.form.parts(self.operation.rows))
        shared, known, tables = self._known(0), self._known(1), self._known(2)
        first, before = self.form.shared, self.form.shared + self.form.carried
        stacks: list[Dependent] = []
        order = range(length)
        for step in reversed(order) if self.form.reverse else order:
            slices = [self._slice(place, rows, step) for place, rows in enumerate(arrays)]
            values = {**shared, **{first + k: value for k, value in known.items()}}
            values |= {before + k: np.asarray(table)[step] for k, table in tables.items()}
            carry, stack, found = self._step(carry, slices, values)
            known = {k: value for k, value in found.items() if k < self.form.carried}
            stacks.append(stack)
        if self.form.reverse:
            stacks.reverse()
        return [*carry, *self._stacked(stacks, length)]

    def _stacked(self, stacks: Sequence[Dependent], length: int) -> Dependent:
        results = self.operation.results[self.form.carried :]
        if not length:
            return [None] * len(results)
        return [
            self._one_stack(each, prod(result[1:]))
            for each, result in zip(zip(*stacks, strict=True), results, strict=True)
        ]

    def _one_stack(self, steps: Sequence[Rows | None], size: int) -> Rows | None:
        if all(rows is None for rows in steps):
            return None
        empty = no_rows(size, self.walk.width)
        return stacked([empty if rows is None else rows for rows in steps])

    def _while(self) -> Dependent | None:
        """A loop whose condition depends on known values; None if it does not."""
        shared, known = self._known(0), self._known(1)
        carry = list(self.form.parts(self.operation.rows)[1])
        first, inputs = self.form.shared, self.form.shared + self.form.carried
        stacks: list[Dependent] = []
        while len(stacks) <= _MOST_STEPS:
            values = {**shared, **{first + k: value for k, value in known.items()}}
            answer = self.walk.run(self.form.condition, [None] * inputs, values)[1]
            if not answer:
                return None
            if not answer[0]:
                return [*carry, *self._stacked(stacks, len(stacks))]
            carry, stack, found = self._step(carry, [], values)
            known = {k: value for k, value in found.items() if k < self.form.carried}
            stacks.append(stack)
        return None

    def _until_they_stay(self) -> Dependent:
        """Each step may be any step, and each slice any slice."""
        _, carry, arrays = map(list, self.form.parts(self.operation.rows))
        specs = self.form.parts(self.operation.specs)[2]
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
        results = self.operation.results[self.form.carried :]
        repeated = [
            None if rows is None else selected(rows, np.tile(np.arange(rows.shape[0]), shape[0]))
            for rows, shape in zip(stack, results, strict=True)
        ]
        return [*carry, *repeated]


def _size(rows: Rows | None) -> int:
    return -1 if rows is None else int(rows.nnz)
