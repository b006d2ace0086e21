"""Arrays of many examples whose last axes are small, as one array of examples for each place.

Examples: points ``(n, 3)``, and their Jacobians ``(n, 2, 3)``. Loops along an axis of three use
three lanes of a vector, and factors ``(n, 1)``, cross products and sums along it stand between
loops. As arrays of ``n`` examples, all of these are operations in one loop.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> def volumes(x, y, z):
...     return fnp.sum(fnp.cross(x, y) * z, axis=1)
>>> staged = fg.program(volumes)(*[fnp.ones((500, 3))] * 3)
>>> taken = small_axes_apart(staged)
>>> {equation.results[0].shape for equation in taken.equations}
{(500,)}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np

from funcgrad._backends.native.element_programs import as_dtype, contracted, reduced
from funcgrad._core.specs import Shape, Spec
from funcgrad._core.structure.index_maps import Piece
from funcgrad._core.structure.structures import Contraction, Elementwise, Movement, Reduction
from funcgrad._core.trace import Value
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.joining import stack
from funcgrad._primitives.structural import reshape, view
from funcgrad._programs.equation import Equation, bound
from funcgrad._programs.moved_elements import letters_of, pieces_of
from funcgrad._programs.program import Program
from funcgrad._transforms.abstract_stager import flat_program

_LONG: Final = 17
"""The least size of an axis of examples."""

_EXAMPLES: Final = 64
"""The least number of examples."""

_MOST: Final = 32
"""The most places of the axes that come apart."""

_LANES: Final = 8
_READ: Final = 0.4
_STORED: Final = 0.6
_SUMMED: Final = 1.5
_MULTIPLIED: Final = 0.3
"""Operations on vectors that a place costs: of an array in memory that is read, or stored; a sum
over a row, and a product of two elements, while the last axes are together."""

_WORTH: Final = 0.8
"""Arrays come apart if they then cost at most so much."""


class _PlacesApart(NamedTuple):
    """An array as arrays of examples, one for each place of the last axes, in C order."""

    items: Sequence[Value]
    rank: int


_Variable: TypeAlias = "Value | _PlacesApart"


class _ItemSource(NamedTuple):
    """An item of an operand: which operand, how many of its last axes come apart, and the place."""

    operand: int
    rank: int
    place: int


class _WayApart(NamedTuple):
    """How an equation is computed item by item.

    Attributes
    ----------
    rank : int
        How many last axes of the result come apart.
    together, apart : float
        Operations on vectors, before and after.
    sources : sequence of _ItemSource or None, optional
        Where the items of a movement come from; None for zeros.
    """

    rank: int
    together: float
    apart: float
    sources: Sequence[_ItemSource | None] = ()


def small_axes_apart(program: Program) -> Program:
    """Take arrays with small last axes apart, where that pays.

    A turn of 5,000 points by quaternions takes 0.28 of the time, its gradient 0.23, colours of
    pixels 0.39, 50 steps of 500 orbits 0.47, and the gradient of a mesh's area 0.69.
    """
    if program.guards or not any(_rank(spec.shape) for spec in program.specs()):
        return program
    ways = _paying(program, _ways(program))
    return _staged(program, ways) if ways else program


def _rank(shape: Shape) -> int:
    """How many last axes are small, behind a long one; 0 if they do not come apart.

    >>> _rank((1000, 2, 3)), _rank((26, 100, 3)), _rank((5, 3)), _rank((1000, 100))
    (2, 1, 0, 0)
    """
    long = [axis for axis, size in enumerate(shape) if size >= _LONG]
    rank = len(shape) - long[-1] - 1 if long else 0
    examples, tail = _split(shape, rank)
    return rank if prod(examples) >= _EXAMPLES and 0 < prod(tail) <= _MOST else 0


def _split(shape: Shape, rank: int) -> tuple[Shape, Shape]:
    """The axes of examples, and so many last ones."""
    first = max(len(shape) - rank, 0)
    return shape[:first], shape[first:]


# ------------------------------------------------------------------------------- what comes apart


def _ways(program: Program) -> dict[int, _WayApart]:
    """How equations can be computed item by item, by their results."""
    specs, ways = program.specs(), dict[int, _WayApart]()
    for equation, results in zip(program.equations, program.index.results, strict=True):
        way = _way(equation, [specs[v] for v in equation.operands]) if len(results) == 1 else None
        if way is not None:
            ways[results.start] = way
    return ways


def _paying(program: Program, ways: Mapping[int, _WayApart]) -> Mapping[int, _WayApart]:
    """The ways in groups that pay; equations are in one group with those that read them."""
    specs, groups = program.specs(), {variable: variable for variable in ways}

    def group(variable: int) -> int:
        while groups[variable] != variable:
            variable = groups[variable]
        return variable

    stored, read = {*program.outputs}, set[tuple[int, int]]()
    for equation, results in zip(program.equations, program.index.results, strict=True):
        if results.start not in ways:
            stored.update(equation.operands)
            continue
        for operand in equation.operands:
            if operand in ways:
                groups[group(operand)] = group(results.start)
    for equation, results in zip(program.equations, program.index.results, strict=True):
        if results.start in ways:
            others = [v for v in equation.operands if v not in ways]
            read.update([(group(results.start), v) for v in others])
    together, apart = dict.fromkeys(groups, 0.0), dict.fromkeys(groups, 0.0)
    for variable, way in ways.items():
        together[group(variable)] += way.together
        apart[group(variable)] += way.apart
        if variable in stored and way.rank:
            apart[group(variable)] += _STORED * prod(specs[variable].shape)
    for place, variable in read:
        if _rank(specs[variable].shape):
            apart[place] += _READ * prod(specs[variable].shape)
    pays = {v for v in groups if apart[v] <= _WORTH * together[v] and together[v]}
    return {variable: way for variable, way in ways.items() if group(variable) in pays}


def _way(equation: Equation, specs: Sequence[Spec]) -> _WayApart | None:
    """How an equation is computed item by item; None if it is not."""
    structure, (spec,) = equation.operation.structure, equation.results
    shapes, rank = [s.shape for s in specs], _rank(spec.shape)
    if isinstance(structure, Elementwise) and structure.formula is not None and rank:
        apart = prod(spec.shape) / _LANES
        is_one_loop = all(_goes_along(shape, spec.shape, rank) for shape in shapes)
        return _WayApart(rank, apart if is_one_loop else _vectors(spec.shape, rank), apart)
    if isinstance(structure, Reduction):
        return _way_of_reduction(equation, structure, shapes[0])
    if isinstance(structure, Contraction) and spec.dtype.kind == "f":
        return _way_of_contraction(equation, specs, rank)
    if isinstance(structure, Movement) and (rank or any(map(_rank, shapes))):
        pieces = pieces_of(equation, dict(zip(equation.operands, specs, strict=True)))
        sources = None if pieces is None else _sources(pieces, spec.shape, rank, shapes)
        together = 0.0 if structure.is_view else float(prod(spec.shape))
        return None if sources is None else _WayApart(rank, together, 0.0, sources)
    return None


def _goes_along(shape: Shape, result: Shape, rank: int) -> bool:
    """Whether a loop across the last axes, and from one example to the next, is one walk.

    >>> _goes_along((100, 3), (7, 100, 3), 1), _goes_along((3,), (100, 3), 1)
    (True, False)
    """
    walk = result[len(result) - rank - 1 :]
    return prod(shape[-rank - 1 :]) == 1 or shape[-rank - 1 :] == walk


def _vectors(shape: Shape, rank: int) -> float:
    """How many vectors an array fills whose last axes are loops of their own."""
    examples, tail = _split(shape, rank)
    return float(prod(examples) * prod(tail[:-1]) * -(-tail[-1] // _LANES))


def _way_of_reduction(equation: Equation, structure: Reduction, shape: Shape) -> _WayApart | None:
    params, fold, rank = dict(equation.params), structure.fold, _rank(shape)
    if not rank or fold is None or fold.start or fold.finish is not None:
        return None
    if {*params} != {"axis", "keepdims"} or not params["axis"]:
        return None
    axes = {axis % len(shape) for axis in params["axis"]}
    inside = [axis for axis in axes if axis >= len(shape) - rank]
    left, apart = rank if params["keepdims"] else rank - len(inside), prod(shape) / _LANES
    together = _SUMMED * prod(shape[:-1]) if inside else _vectors(shape, rank)
    if axes >= {*range(len(shape) - rank - 1, len(shape))}:
        together = apart
    return _WayApart(left, together, apart)


def _way_of_contraction(equation: Equation, specs: Sequence[Spec], rank: int) -> _WayApart | None:
    letters = letters_of(equation, dict(zip(equation.operands, specs, strict=True)))
    if letters is None or any(len({*text}) < len(text) for text in letters):
        return None
    (spec,), out = equation.results, letters[2]
    examples, sizes = out[: len(out) - rank], dict[str, int]()
    for text, operand in zip(letters, specs, strict=False):
        shared = _shared(text, examples)
        if not shared or operand.dtype != spec.dtype or {*examples} & {*text[shared:]}:
            return None
        sizes.update(zip(text, operand.shape, strict=True))
    count = prod(spec.shape[: len(examples)])
    if sizes[examples[-1]] < _LONG or count < _EXAMPLES:
        return None
    products = prod([size for letter, size in sizes.items() if letter not in examples])
    if products > 2 * _MOST:
        return None
    return _WayApart(rank, _MULTIPLIED * count * products, count * products / _LANES)


def _shared(text: str, examples: str) -> int:
    """With how many of the last axes of examples a factor begins."""
    counts = range(len(examples), 0, -1)
    return next((k for k in counts if text.startswith(examples[len(examples) - k :])), 0)


def _sources(
    pieces: Sequence[Piece], shape: Shape, rank: int, shapes: Sequence[Shape]
) -> Sequence[_ItemSource | None] | None:
    """Where the items of a movement come from; None if examples move, or items are added."""
    count, places = [prod(axes) for axes in _split(shape, rank)]
    if count < _EXAMPLES or places > _MOST:
        return None
    sources: list[_ItemSource | None] = [None] * places
    for piece in pieces:
        source = shapes[piece.operand]
        behind = next(
            (k for k in range(len(source)) if prod(source[: len(source) - k]) == count), None
        )
        if behind is None:
            return None
        inside = prod(_split(source, behind)[1])
        axes, expected = _axes(piece, places), places * count
        for size, step, to in [axis for axis in axes if axis[2] >= places]:
            if expected != to * size or step * places != to * inside:
                return None
            expected = to
        starts, ends = np.full((), piece.start), np.full((), piece.to)
        for size, step, to in [axis for axis in axes if axis[2] < places]:
            starts = starts[..., None] + step * np.arange(size)
            ends = ends[..., None] + to * np.arange(size)
        if (
            expected != places
            or ends.max() >= places
            or not 0 <= starts.min() <= starts.max() < inside
        ):
            return None
        for start, end in zip(starts.ravel().tolist(), ends.ravel().tolist(), strict=True):
            if sources[end] is not None:
                return None
            sources[end] = _ItemSource(piece.operand, behind, start)
    return sources


def _axes(piece: Piece, places: int) -> list[tuple[int, int, int]]:
    """The axes of a piece, slowest in the result first: size, step, and step in the result.

    An axis that goes on from the last axes to the next example is two.

    >>> _axes(Piece(0, (1500,), 0, (1,), 0, (1,)), 3)
    [(500, 3, 3), (3, 1, 1)]
    """
    axes = []
    for size, step, to in zip(piece.shape, piece.strides, piece.to_strides, strict=True):
        inner = places // to if 0 < to < places and places % to == 0 else 0
        if inner and size > inner and size % inner == 0:
            axes += [(size // inner, step * inner, to * inner), (inner, step, to)]
        else:
            axes.append((size, step, to))
    return sorted([axis for axis in axes if axis[0] > 1], key=lambda axis: -axis[2])


# ------------------------------------------------------------------------------------ item by item


def _staged(program: Program, ways: Mapping[int, _WayApart]) -> Program:
    specs = program.specs()

    def run(values: Sequence[Value]) -> list[Value]:
        known: list[_Variable] = [*values, *[one.value for one in program.constants]]
        for equation, results in zip(program.equations, program.index.results, strict=True):
            operands = [known[v] for v in equation.operands]
            inside, way = [specs[v] for v in equation.operands], ways.get(results.start)
            if way is None:
                wholes = [_whole(x, spec) for x, spec in zip(operands, inside, strict=True)]
                known += bound(equation, tuple(wholes))
            else:
                items = _computed(equation, way, operands, inside)
                known.append(_PlacesApart(items, way.rank) if way.rank else items[0])
        return [_whole(known[v], specs[v]) for v in program.outputs]

    flat = flat_program(program.name, run, program.inputs)
    # Results keep their structure, such as a dict.
    return replace(flat, names=program.names, arguments=program.arguments, result=program.result)


def _whole(x: _Variable, spec: Spec) -> Value:
    """A value as one array."""
    if not isinstance(x, _PlacesApart):
        return x
    flat = stack(*x.items, axis=len(spec.shape) - x.rank)
    return flat if x.rank == 1 else reshape(flat, shape=spec.shape)


def _items(x: _Variable, spec: Spec, rank: int) -> Sequence[Value]:
    """The items of a value whose last ``rank`` axes come apart."""
    count = prod(_split(spec.shape, rank)[1])
    if isinstance(x, _PlacesApart) and count != len(x.items):
        x = _whole(x, spec)
    return [_item(x, spec, rank, place) for place in range(count)]


def _item(x: _Variable, spec: Spec, rank: int, place: int) -> Value:
    """One of the items."""
    examples, tail = _split(spec.shape, rank)
    if isinstance(x, _PlacesApart):
        if x.rank == min(rank, len(spec.shape)):
            return x.items[place]
        if x.rank > rank and len(x.items) == prod(tail):
            return reshape(x.items[place], shape=examples)
        x = _whole(x, spec)
    if not tail:
        return x
    key: tuple[Any, ...] = (Ellipsis, *[int(k) for k in np.unravel_index(place, tail)])
    return x[key] if type(x) is np.ndarray else view(x, key=Key(key))


def _numbers(tail: Shape) -> np.ndarray[Any, np.dtype[np.intp]]:
    """The numbers of items, in the shape of the last axes."""
    return np.arange(prod(tail)).reshape(tail)


def _computed(
    equation: Equation, way: _WayApart, operands: Sequence[_Variable], specs: Sequence[Spec]
) -> Sequence[Value]:
    """The items of a result."""
    structure, (spec,) = equation.operation.structure, equation.results
    examples, tail = _split(spec.shape, way.rank)
    if isinstance(structure, Movement):
        return [_moved(one, operands, specs, Spec(examples, spec.dtype)) for one in way.sources]
    if isinstance(structure, Reduction):
        return _reduced(equation, structure, operands[0], specs[0], Spec(tail, spec.dtype))
    if isinstance(structure, Contraction):
        letters = letters_of(equation, dict(zip(equation.operands, specs, strict=True)))
        assert letters is not None
        counts = [_shared(text, letters[2][: len(examples)]) for text in letters]
        first, second, out = [text[k:] for text, k in zip(letters, counts, strict=True)]
        ranks = [len(s.shape) - k for s, k in zip(specs, counts, strict=False)]
        known = [*zip(operands, specs, ranks, strict=True)]
        arrays = [_items(*one) for one in known]
        numbers = [_numbers(_split(s.shape, rank)[1]) for _, s, rank in known]
        return contracted((first, second, out), arrays, numbers, Spec(tail, spec.dtype))
    arrays = [_items(x, s, way.rank) for x, s in zip(operands, specs, strict=True)]
    along = [_numbers(_split(s.shape, way.rank)[1]) for s in specs]
    spread = [np.broadcast_to(numbers, tail).ravel().tolist() for numbers in along]
    params = dict(equation.params)
    return [
        equation.operation(*[x[k] for x, k in zip(arrays, at, strict=True)], **params)
        for at in zip(*spread, strict=True)
    ]


def _moved(
    source: _ItemSource | None, operands: Sequence[_Variable], specs: Sequence[Spec], spec: Spec
) -> Value:
    """An item of a movement."""
    if source is None:
        return np.zeros(spec.shape, spec.dtype)
    inside = specs[source.operand]
    item = _item(operands[source.operand], inside, source.rank, source.place)
    if _split(inside.shape, source.rank)[0] != spec.shape:
        item = reshape(item, shape=spec.shape)
    return as_dtype(item, spec.dtype)


def _reduced(
    equation: Equation, structure: Reduction, x: _Variable, operand: Spec, spec: Spec
) -> Sequence[Value]:
    """The items of a reduction: along the last axes first, then over examples."""
    params, rank = dict(equation.params), _rank(operand.shape)
    items, first = _items(x, operand, rank), len(operand.shape) - rank
    axes = [axis % len(operand.shape) for axis in params["axis"]]
    inside = tuple([axis - first for axis in axes if axis >= first])
    if inside:
        tail = _split(operand.shape, rank)[1]
        folded = reduced(structure, items, _numbers(tail), spec, inside)
        assert folded is not None
        items = folded
    outside = tuple([axis for axis in axes if axis < first])
    if not outside:
        return items
    return [equation.operation(item, **{**params, "axis": outside}) for item in items]
