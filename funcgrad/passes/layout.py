"""Layout: arrays of many short rows, computed with their rows along the last axis.

NumPy goes through arrays in inner loops along their last axes. Where rows are short, as in a batch
of points or of scores, there are many such loops, each of a few numbers, as soon as an operation
broadcasts or reduces along a row. With the rows last there are few loops, each over all rows.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> def spread(x):
...     return fnp.sum((x - fnp.max(x, axis=1)[:, None]) ** 2, axis=0)
>>> staged = fg.program(spread)(fnp.ones((5000, 4)))
>>> print(put_rows_last(staged).to_text(sources=False))
program spread(x: float64[5000,4]) -> float64[4]
  a: float64[4,5000] = transpose x axes=(1, 0)
  b: float64[4,5000] = broadcast_to a shape=(4, 5000)
  c: float64[5000] = max b axis=(0,) keepdims=False
  d: float64[5000,1] = view c key=(slice(None, None, None), None)
  e: float64[1,5000] = reshape d shape=(1, 5000)
  f: float64[4,5000] = subtract b e
  g: float64[4,5000] = constant_power f exponent=2
  h: float64[4] = sum g axis=(1,) keepdims=False
  return h

A *broadcast to its own shape* is a copy in C order: it is what turns an array in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad.equations import Constant, Equation
from funcgrad.passes.facts import Facts
from funcgrad.passes.rewrite import Draft
from funcgrad.primitive import Primitive
from funcgrad.primitives.contraction import contract, matmul, split_subscripts
from funcgrad.primitives.elementwise import batch_elementwise
from funcgrad.primitives.joining import concatenate, stack
from funcgrad.primitives.keys import Key
from funcgrad.primitives.products import plan_product
from funcgrad.primitives.reduction import (
    batch_reduction,
    broadcast_to,
    position_of_max,
    position_of_min,
    reduce_max,
    reduce_min,
    reduce_sum,
)
from funcgrad.primitives.structural import (
    cast_discrete,
    cast_inexact,
    place,
    reshape,
    transpose,
    unfollowed,
    view,
)
from funcgrad.programs import Program
from funcgrad.shape import Shape, Spec

__all__ = ["put_rows_last"]

# What is worth looking at: arrays of many rows, which are short, and of some size.
_MANY_ROWS: Final = 64
_LONGEST_ROW: Final = 64
_ROWS_TO_COLUMNS: Final = 4
_SOME: Final = 2**10

# The cost model, in microseconds. What an operation takes for each number is the same in both
# layouts; what differs is how often it begins anew.
_LOOP: Final = 0.01
"""To begin an inner loop of an elementwise operation, or of a reduction over leading axes."""

_SUM: Final = 0.007
"""To reduce one short row, where sums use BLAS and extrema a copy; see ``primitives/rows.py``."""

_ROW: Final = 0.024
"""To reduce one row otherwise."""

_POSITION: Final = 0.001
"""For each number, to find a greatest one along another axis than the last: NumPy copies."""

_STRIDE: Final = 0.0005
"""For each number that a product of stacks of matrices does not read or write as it lies."""

_TURN: Final = 1.0
_MOVE: Final = 0.0007
"""To turn an array, and for each of its numbers."""

_CALL: Final = 0.2
"""To reshape an array."""

_LEAST_GAIN: Final = 2.0

_ROUNDS: Final = 4
"""How often variables are looked at again after others have changed; two rounds are usual."""


def put_rows_last(program: Program) -> Program:
    """Compute arrays of many short rows with the rows last, where that takes less time.

    A variable of shape ``(rows, *rest)`` is replaced by one of shape ``(*rest, rows)``. Elementwise
    operations, reductions, products of arrays, and what moves elements within rows are done in that
    layout; before and after anything else, and for outputs, arrays are turned by a copy. Which
    variables are worth it is estimated from shapes and dtypes.

    Elementwise operations and extrema have the bits that they have for such arrays; sums and
    products of arrays are added in another order, which is off by no more than
    ``n * eps * sum(abs(terms))``.
    """
    counts = _row_counts(program)
    if not counts:
        return program
    layout = _Layout(program, counts)
    layout.settle()
    return _Writing(program, layout).finished() if layout.has_any() else program


def _row_counts(program: Program) -> frozenset[int]:
    """The lengths of the first axes of arrays that have many short rows."""
    found: set[int] = set()
    for equation in program.equations:
        for spec in equation.results:
            shape = spec.shape
            if len(shape) > 1 and shape[0] >= _MANY_ROWS and shape[0] not in found:
                short = 0 < shape[-1] <= min(_LONGEST_ROW, shape[0] // _ROWS_TO_COLUMNS)
                if short and prod(shape) >= _SOME:
                    found.add(shape[0])
    return frozenset(found)


def _turned(shape: Sequence[Any]) -> tuple[Any, ...]:
    """What belongs to axes, with that of the rows last."""
    return (*shape[1:], *shape[:1])


# ---------------------------------------------------------------------- equations with rows last


@dataclass(frozen=True, slots=True)
class _Rowwise:
    """An equation whose result has rows, made of those of its operands.

    Attributes
    ----------
    result : int
    rows : tuple of int
        The operands with rows.
    params : mapping
        Those with the rows last.
    times : tuple of two float
        What it costs with the rows first, and last.
    """

    result: int
    rows: tuple[int, ...]
    params: Mapping[str, Any]
    times: tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Total:
    """An equation of one operand with rows, whose result has none: it reads them as they lie."""

    operand: int
    params: Mapping[str, Any]
    times: tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Product:
    """A product of two arrays, which reads and writes them as they lie.

    Attributes
    ----------
    operands : tuple of two int
    result : int
    letters : tuple of str
        The subscripts of the operands and of the result, rows first.
    times : dict
        By which of the three have their rows last, what that costs.
    """

    operands: tuple[int, ...]
    result: int
    letters: tuple[str, str, str]
    times: dict[tuple[bool, ...], float]


_Site: TypeAlias = _Rowwise | _Total | _Product

_COPIES: Final = frozenset({cast_inexact, cast_discrete, unfollowed})


def _is_elementwise(operation: Primitive) -> bool:
    return operation.batch is batch_elementwise or operation in _COPIES


def _without_rows(params: Mapping[str, Any], _: Shape) -> dict[str, Any] | None:
    """For an axis that is not that of the rows."""
    return {**params, "axis": params["axis"] - 1} if params["axis"] > 0 else None


def _turned_axes(params: Mapping[str, Any], shape: Shape) -> dict[str, Any] | None:
    if params["axes"][0]:
        return None
    return {"axes": (*[axis - 1 for axis in params["axes"][1:]], len(shape) - 1)}


def _turned_key(params: Mapping[str, Any], shape: Shape) -> dict[str, Any] | None:
    """For an index that takes all rows."""
    key = params["key"]
    if key and type(key[0]) is slice and key[0].indices(shape[0]) == (0, shape[0], 1):
        key = key[1:]
    elif not key or key[0] is not ... or sum(e is not None for e in key[1:]) >= len(shape):
        return None
    return {**params, "key": Key((*key, slice(None)) if ... in key else key)}


def _turned_place(params: Mapping[str, Any], _: Shape) -> dict[str, Any] | None:
    found = _turned_key(params, params["shape"])
    return found and {**found, "shape": _turned(params["shape"])}


_MOVES: Final[Mapping[Any, Callable[[Mapping[str, Any], Shape], dict[str, Any] | None]]] = (
    MappingProxyType(
        {
            concatenate: _without_rows,
            stack: _without_rows,
            transpose: _turned_axes,
            view: _turned_key,
            place: _turned_place,
            reshape: lambda params, _: {"shape": _turned(params["shape"])},
        }
    )
)
"""For operations that move elements within rows: ``(params, first operand's shape) -> params``."""

_WRITING: Final = frozenset({concatenate, stack, place})


def _loops(shape: Shape, operands: Sequence[Shape]) -> int:
    """How many inner loops an operation on operands, broadcast to a shape, has.

    Axes along which every operand either goes on or stays where it is are one in memory.
    """
    inner, known = 1, None
    for back in range(1, len(shape) + 1):
        size = shape[-back]
        if size == 1:
            continue
        goes_on = [back <= len(own) and own[-back] != 1 for own in operands]
        if known is not None and known != goes_on:
            break
        inner, known = inner * size, goes_on
    return prod(shape) // inner


def _elementwise_times(result: Shape, operands: Sequence[Shape]) -> tuple[float, float]:
    rank = len(result)
    padded = [(1,) * (rank - len(own)) + own for own in operands]
    columns = sum([own[0] == 1 < prod(own) for own in padded])
    first = _loops(result, padded)
    last = _loops(_turned(result), [_turned(own) for own in padded])
    return _LOOP * first, _LOOP * last + _CALL * columns


def _reduction_time(operation: Primitive, shape: Shape, axes: Sequence[int]) -> float:
    """What it costs to begin anew for each of the numbers that lie side by side."""
    inner, reduced = 1, len(shape) - 1 in axes
    for axis in reversed(range(len(shape))):
        if shape[axis] > 1:
            if (axis in axes) != reduced and inner > 1:
                break
            reduced = axis in axes
            inner *= shape[axis]
    loops = prod(shape) // inner
    if operation in (position_of_max, position_of_min):
        return 0.0 if reduced else _POSITION * prod(shape)
    if not reduced:
        return _LOOP * loops
    quick = operation in (reduce_sum, reduce_max, reduce_min) and inner <= _LONGEST_ROW
    return (_SUM if quick and loops >= _MANY_ROWS else _ROW) * loops


def _axes_with_rows_last(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    return tuple(sorted([(axis - 1) % rank for axis in axes]))


# ------------------------------------------------------------------------------ products of arrays


def _letters(equation: Equation, x: Shape, y: Shape) -> tuple[str, str, str] | None:
    """The subscripts of a product of arrays; None where stacks of matrices are broadcast."""
    if equation.operation is contract:
        return split_subscripts(dict(equation.params)["subscripts"])
    if x[:-2] and y[:-2] and x[:-2] != y[:-2]:
        return None
    lead = "stuvwxyz"[: max(len(x), len(y), 2) - 2]
    first = lead * bool(x[:-2]) + "ab"[2 - min(len(x), 2) :]
    second = lead * bool(y[:-2]) + "bc"[: min(len(y), 2)]
    return first, second, lead + "a" * (len(x) > 1) + "c" * (len(y) > 1)


def _product_time(letters: tuple[str, str, str], x: Spec, y: Spec) -> float:
    """What it costs that arrays do not lie as matrix products want them."""
    first, second, out = letters
    if len(first) < 3 and len(second) < 3:
        return 0.0  # BLAS takes matrices either way
    sizes = dict(zip(first + second, x.shape + y.shape, strict=True))
    subscripts = f"{first},{second}->{out}"
    product = plan_product(subscripts, x.shape, y.shape, "c" in (x.dtype.kind, y.dtype.kind))
    if product is None:  # a loop over all indices
        order = out + "".join([c for c in first if c not in out])
        shapes = [tuple([sizes[c] if c in own else 1 for c in order]) for own in letters]
        return _LOOP * _loops(tuple([sizes[c] for c in order]), shapes)
    sides = (product.right, product.left) if product.swapped else (product.left, product.right)
    strided = sum(
        [
            prod(spec.shape)
            for spec, side in zip((x, y), sides, strict=True)
            if not _lies_well(side.axes, side.dense)
        ]
    )
    if not _lies_well(product.axes, False):
        strided += prod([sizes[c] for c in out])
    return _STRIDE * strided


def _lies_well(axes: Sequence[int] | None, dense: bool) -> bool:
    """Whether a stack of matrices is in its order, but for each matrix being transposed."""
    if axes is None:
        return True
    rank = len(axes)
    return not dense and tuple(axes) == (*range(rank - 2), rank - 1, rank - 2)


# ------------------------------------------------------------------------- where the rows are last


class _Layout:
    """Which variables have their rows last, and what a program costs so.

    Attributes
    ----------
    sites : dict
        By position, the equations that can be done with rows last.
    """

    __slots__ = ("_demands", "_facts", "_last", "_nodes", "_readers", "sites")

    def __init__(self, program: Program, counts: frozenset[int]) -> None:
        self._facts = Facts(program)
        self._last: dict[int, bool] = {}
        self._nodes: list[int] = []  # of which that may change
        self._demands: dict[int, list[int]] = {}  # how many want the rows first, and last
        self._readers: dict[int, list[int]] = {}  # the sites that take the rows as they lie
        self.sites: dict[int, _Site] = {}
        for variable, spec in enumerate(program.specs()):
            shape = spec.shape
            if shape and shape[0] in counts and 0 not in shape:
                self._last[variable] = False
                self._demands[variable] = [0, 0]
        for position, equation in enumerate(program.equations):
            self._add(position, equation)
        for variable in (*program.outputs, *[guard.variable for guard in program.guards]):
            self._demand(variable, False, 1)

    def is_last(self, variable: int) -> bool:
        """Whether a variable is computed with its rows last."""
        return self._last.get(variable, False)

    def has_any(self) -> bool:
        """Whether there are such variables."""
        return any(self._last.values())

    # What there is.

    def _add(self, position: int, equation: Equation) -> None:
        result = self._facts.starts[position]
        if not any(v in self._last for v in (result, *equation.operands)):
            return
        site = self._site(equation, result) if isinstance(equation.operation, Primitive) else None
        if site is None or not isinstance(site, _Rowwise):
            self._take_as_it_lies(position, equation, site)
            return
        self.sites[position] = site
        self._nodes.append(result)
        self._last[result] = True
        for variable in {*equation.operands}:
            self._demand(variable, variable in site.rows, 1)

    def _take_as_it_lies(self, position: int, equation: Equation, site: _Site | None) -> None:
        if site is None:
            for variable in {*equation.operands}:
                self._demand(variable, False, 1)
            return
        self.sites[position] = site
        for variable in {*equation.operands}:
            if variable in self._last:
                self._readers.setdefault(variable, []).append(position)
        if isinstance(site, _Product) and site.result in self._last:
            self._nodes.append(site.result)
            self._last[site.result] = True

    def _demand(self, variable: int, last: bool, count: int) -> None:
        if variable in self._last:
            self._demands[variable][last] += count

    def _site(self, equation: Equation, result: int) -> _Site | None:
        operation, operands = equation.operation, equation.operands
        shapes = [self._facts.spec(variable).shape for variable in operands]
        if operation in (contract, matmul):
            letters = _letters(equation, *shapes)
            return None if letters is None else _Product(operands, result, letters, {})
        if not operands or (operation.batch is not batch_reduction and result not in self._last):
            return self._transposition(equation) if operation is transpose else None
        params = dict(equation.params)
        if _is_elementwise(operation) or operation is broadcast_to:
            own = equation.results[0].shape
            rows = [
                v
                for v, shape in zip(operands, shapes, strict=True)
                if len(shape) == len(own) and shape[0] == own[0]
            ]
            if operation is broadcast_to:
                params["shape"] = _turned(own)
            return _Rowwise(result, tuple(rows), params, _elementwise_times(own, shapes))
        if any(variable not in self._last for variable in operands):
            return None
        if operation.batch is batch_reduction:
            return self._reduction(equation, result)
        found = _MOVES[operation](params, shapes[0]) if operation in _MOVES else None
        rows_differ = {shape[0] for shape in shapes} != {equation.results[0].shape[0]}
        if found is None or rows_differ:
            return self._transposition(equation) if operation is transpose else None
        times = (0.0, 0.0)
        if operation in _WRITING:
            shape = equation.results[0].shape
            times = (_LOOP * prod(shape[:-1]), _LOOP * prod(shape[1:]))
        return _Rowwise(result, tuple(operands), found, times)

    def _transposition(self, equation: Equation) -> _Site | None:
        (operand,) = equation.operands
        if operand not in self._last:
            return None
        axes = dict(equation.params)["axes"]
        turned = tuple([(axis - 1) % len(axes) for axis in axes])
        return _Total(operand, {"axes": turned}, (0.0, 0.0))

    def _reduction(self, equation: Equation, result: int) -> _Site | None:
        (operand,) = equation.operands
        shape = self._facts.spec(operand).shape
        params = dict(equation.params)
        axes = params["axis"]
        params["axis"] = _axes_with_rows_last(axes, len(shape))
        operation = equation.operation
        times = (
            _reduction_time(operation, shape, axes),
            _reduction_time(operation, _turned(shape), params["axis"]),
        )
        if 0 in axes:
            return _Total(operand, params, times)
        return _Rowwise(result, (operand,), params, times)

    # What it costs.

    def _time(self, position: int) -> float:
        """What an equation costs in the layout that it has."""
        site = self.sites.get(position)
        if site is None:
            return 0.0
        if isinstance(site, _Product):
            return self._product_time(site)
        return site.times[self._last[site.result if isinstance(site, _Rowwise) else site.operand]]

    def _product_time(self, site: _Product) -> float:
        turned = tuple([self.is_last(variable) for variable in (*site.operands, site.result)])
        if turned not in site.times:
            specs = [self._facts.spec(variable) for variable in site.operands]
            letters = list(site.letters)
            for place_, last in enumerate(turned):
                if last:
                    letters[place_] = "".join(_turned(letters[place_]))
                    if place_ < 2:
                        own = specs[place_]
                        specs[place_] = Spec(_turned(own.shape), own.dtype)
            first, second, out = letters
            site.times[turned] = _product_time((first, second, out), *specs)
        return site.times[turned]

    def _turning_time(self, variable: int) -> float:
        """What it costs that some want a variable in the other layout than it has."""
        if variable not in self._last:
            return 0.0
        last = self._last[variable]
        if not self._demands[variable][not last]:
            return 0.0
        shape = self._facts.spec(variable).shape
        if prod(shape) == shape[0]:
            return _CALL * (len(shape) > 1)
        program = self._facts.program
        if 0 <= variable - len(program.inputs) < len(program.constants):
            return 0.0  # it is done once, here
        return _TURN + _MOVE * prod(shape)

    # What is best.

    def settle(self) -> None:
        """Choose the layout of each variable.

        All that can have their rows last start so. Then each is turned back that costs no less
        than otherwise, given the others, which cuts off at the borders what is not worth a copy.
        What remains hangs together in parts, each of which has to gain something in all.
        """
        for _ in range(_ROUNDS):
            nodes = self._nodes
            if not any([self._try_to_flip(node) for each in (nodes[::-1], nodes) for node in each]):
                break
        for part in self._parts():
            positions, variables = self._around(part)
            before = self._total(positions, variables)
            for node in part:
                self._flip(node)
            if self._total(positions, variables) < before + _LEAST_GAIN:
                continue
            for node in part:
                self._flip(node)

    def _try_to_flip(self, node: int) -> bool:
        """Turn a variable, if the time is less, or the same with the rows first."""
        positions, variables = self._around([node])
        before = self._total(positions, variables)
        self._flip(node)
        after = self._total(positions, variables)
        if after < before or (after == before and not self._last[node]):
            return True
        self._flip(node)
        return False

    def _flip(self, node: int) -> None:
        last = self._last[node]
        self._last[node] = not last
        site = self.sites[self._facts.position(node)]
        if isinstance(site, _Rowwise):
            for variable in {*site.rows}:
                self._demand(variable, last, -1)
                self._demand(variable, not last, 1)

    def _around(self, nodes: Iterable[int]) -> tuple[set[int], set[int]]:
        """The equations, and the variables, whose times depend on the layouts of some."""
        positions, variables = set(), set(nodes)
        for node in nodes:
            position = self._facts.position(node)
            positions.update((position, *self._readers.get(node, ())))
            site = self.sites[position]
            if isinstance(site, _Rowwise):
                variables.update(site.rows)
        return positions, variables

    def _total(self, positions: Iterable[int], variables: Iterable[int]) -> float:
        times = sum([self._time(position) for position in positions])
        return times + sum([self._turning_time(variable) for variable in variables])

    def _parts(self) -> list[list[int]]:
        """The variables with rows last, by those that one equation or one copy brings together."""
        parents: dict[int, int] = {}

        def root(node: int) -> int:
            while parents.setdefault(node, node) != node:
                parents[node] = node = parents[parents[node]]
            return node

        for site in self.sites.values():
            if isinstance(site, _Rowwise) and self._last[site.result]:
                together = [site.result, *site.rows]
            elif isinstance(site, _Product) and max(map(len, site.letters)) > 2:
                together = [v for v in (*site.operands, site.result) if self.is_last(v)]
            else:
                continue
            for variable in together[1:]:
                parents[root(variable)] = root(together[0])
        parts: dict[int, list[int]] = {}
        for node in self._nodes:
            if self._last[node]:
                parts.setdefault(root(node), []).append(node)
        return list(parts.values())
