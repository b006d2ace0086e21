"""Compute arrays of many short rows with the axis of the rows last.

NumPy's inner loops run along the last axis of an array. If its rows are short, as in a batch of
points or scores, an operation that broadcasts or reduces along them runs many loops over a few
elements each. If the axis of the rows is last, it runs a few loops, each over all rows.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> def spread(x):
...     return fnp.sum(fnp.exp(x - fnp.max(x, axis=1, keepdims=True)), axis=0)
>>> staged = fg.program(spread)(fnp.ones((5000, 4)))
>>> print(put_rows_last(staged).to_text(sources=False))
program spread(x: float64[5000,4]) -> float64[4]
  a: float64[4,5000] = transpose x axes=(1, 0)
  b: float64[4,5000] = broadcast_to a shape=(4, 5000)
  c: float64[1,5000] = max b axis=(0,) keepdims=True
  d: float64[4,5000] = subtract b c
  e: float64[4,5000] = exp d
  f: float64[4] = sum e axis=(1,) keepdims=False
  return f

Here ``broadcast_to`` copies the transposed view to C order; the shape stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from math import prod
from typing import Final

import numpy as np

from funcgrad._backends.numpy.graphs import connected
from funcgrad._backends.numpy.rowwise import Product, Rowwise, Site, Total, site_of
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Shape, Spec
from funcgrad._passes.costs import bytes_of
from funcgrad._passes.dead_code import remove_dead_code
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.contraction import contract, matmul
from funcgrad._primitives.movement import behind
from funcgrad._primitives.structural import transpose
from funcgrad._programs.builder import Draft
from funcgrad._programs.equation import Constant, Equation
from funcgrad._programs.moved_elements import is_matrix_product
from funcgrad._programs.program import Program

# The arrays that are considered: they have many rows, short rows, and some size.
_MANY_ROWS: Final = 64
_LONGEST_ROW: Final = 64
_ROWS_TO_COLUMNS: Final = 4
_SOME: Final = 2**10

_TURN: Final = 1.0
_MOVE: Final = 0.001
_LARGE: Final = 2**17
"""Microseconds to turn an array, that is to copy it with its rows last, or first: for the call,
and for each element. Arrays above ``_LARGE`` bytes leave the cache; their elements take twice as
long."""

_ROW: Final = 0.004
"""Microseconds for each row that is written when the rows are put first again."""

_CALL: Final = 0.2
"""Microseconds to turn an array by a reshape, without a copy."""

_LEAST_GAIN: Final = 2.0
"""The least saving, in microseconds, for which arrays are turned."""


def put_rows_last(program: Program) -> Program:
    """Compute arrays of many short rows with the rows last, if that takes less time.

    A variable of shape ``(rows, *axes)`` is replaced by one of shape ``(*axes, rows)``. Elementwise
    operations, reductions, products of arrays and movements within rows run in that layout. For
    other operations, and for outputs, arrays are turned by a copy. ``rowwise.py`` estimates from
    shapes and dtypes which variables are worth it.

    Elementwise operations and extrema give the same bits. Sums and products of arrays add in
    another order: a sum of n terms changes by at most ``n * eps * sum(abs(terms))``.
    """
    counts = _row_counts(program)
    if not counts:
        return program
    layout = _layout_of(program, counts)
    return _RowsLastWriter(program, layout).finished() if layout.last else program


def _row_counts(program: Program) -> frozenset[int]:
    """The lengths of the first axes of those arrays that have many short rows."""
    counts: set[int] = set()
    for equation in program.equations:
        for spec in equation.results:
            shape = spec.shape
            if len(shape) > 1 and shape[0] >= _MANY_ROWS and shape[0] not in counts:
                longest = min(_LONGEST_ROW, shape[0] // _ROWS_TO_COLUMNS)
                if shape[-1] <= longest and prod(shape) >= _SOME:
                    counts.add(shape[0])
    return frozenset(counts)


# ------------------------------------------------------------------------- where rows are last


@dataclass(frozen=True, slots=True)
class _Layout:
    """The variables that have their rows last, and how equations compute with them.

    Attributes
    ----------
    sites : mapping
        From positions to how the equations there compute with the rows last, if they can.
    last : set of int
    """

    sites: Mapping[int, Site]
    last: AbstractSet[int]


def _layout_of(program: Program, counts: frozenset[int]) -> _Layout:
    """Choose the variables that have their rows last, in groups connected by equations.

    A group is turned if that saves more time in loops over rows than the copies at its borders
    take.
    """
    specs, makers = program.index.specs, program.index.makers
    with_rows = {
        v for v, spec in enumerate(specs) if {*spec.shape[:1]} & counts and 0 not in spec.shape
    }
    sites: dict[int, Site] = {}
    totals: dict[int, list[Total]] = {}
    read_first = {*program.outputs, *program.index.guarded}
    for position, equation in enumerate(program.equations):
        result = program.index.results[position].start
        site = None
        if len(equation.results) == 1 and not with_rows.isdisjoint((*equation.operands, result)):
            site = site_of(equation, specs, result, with_rows)
        if site is not None:
            sites[position] = site
        if site is None or isinstance(site, Rowwise):
            read_first.update({*equation.operands}.difference(site.rows if site else ()))
        elif isinstance(site, Total):
            totals.setdefault(site.operand, []).append(site)
    able = {s.result for s in sites.values() if not isinstance(s, Total)} & with_rows
    links = [(s.result, *s.rows) for s in sites.values() if isinstance(s, Rowwise)]
    last: set[int] = set()
    for group in connected(sorted(able), links):
        made = [sites[makers[variable]] for variable in group]
        within = [site for site in made if isinstance(site, Rowwise)]
        times = [site.times for site in within]
        times += [total.times for variable in group for total in totals.get(variable, ())]
        read = {v for site in within for v in site.rows if v not in able}
        gain = sum([first - turned for first, turned in times], 0.0)
        gain -= sum([_time_to_turn(program, variable, False) for variable in read])
        gain -= sum([_time_to_turn(program, v, True) for v in read_first.intersection(group)])
        if gain > _LEAST_GAIN:
            last.update(group)
    return _Layout(sites, last)


def _time_to_turn(program: Program, variable: int, to_first: bool) -> float:
    """Estimate the time to put the rows of a variable last, or first."""
    spec = program.index.specs[variable]
    size = prod(spec.shape)
    if size == spec.shape[0]:
        return _CALL * (len(spec.shape) > 1)
    if len(program.inputs) <= variable < program.index.first_result:
        return 0.0  # constants are turned while the program is compiled
    time = _TURN + _MOVE * size * (2 if bytes_of(spec) > _LARGE else 1)
    return time + to_first * _ROW * (size // spec.shape[-1])


def _letters_in(site: Product, last: Sequence[bool]) -> tuple[str, str, str]:
    """The subscripts of a product for the layouts of its operands and its result."""
    first, second, out = [
        "".join(behind(letters)) if flag else letters
        for letters, flag in zip(site.letters, last, strict=True)
    ]
    return first, second, out


# ---------------------------------------------------------------------------- the new program


class _RowsLastWriter:
    """Writes the new program, equation by equation."""

    __slots__ = ("_columns", "_draft", "_layout", "_others", "_program", "_rewritten")

    def __init__(self, program: Program, layout: _Layout) -> None:
        self._program = program
        self._layout = layout
        self._draft = Draft(program)
        # New variables by old ones: in the chosen layout, in the other layout, and as columns. The
        # last two are kept by epoch, since work that is repeated on purpose must not share copies.
        self._rewritten: list[int] = [
            *range(len(program.inputs)),
            *map(self._draft.constant, program.constants),
        ]
        self._others: dict[tuple[int, int], int] = {}
        self._columns: dict[tuple[int, Shape, int], int] = {}

    def finished(self) -> Program:
        """Write and return the program in the chosen layout."""
        for position, equation in enumerate(self._program.equations):
            site = self._layout.sites.get(position)
            if isinstance(site, Rowwise) and site.result in self._layout.last:
                self._rewritten.append(self._rowwise(equation, site))
            elif isinstance(site, Total) and site.operand in self._layout.last:
                self._rewritten.append(self._total(equation, site))
            elif isinstance(site, Product) and self._involves_rows_last(site):
                self._rewritten.append(self._product(equation, site))
            else:
                self._rewritten += self._rows_first(equation)
        outputs = [self._with_rows_first(variable) for variable in self._program.outputs]
        guarded = [self._with_rows_first(guard.variable) for guard in self._program.guards]
        return remove_dead_code(self._draft.finish(self._program, outputs, guarded))

    def _involves_rows_last(self, site: Product) -> bool:
        return any(v in self._layout.last for v in (*site.operands, site.result))

    # Old variables, for an equation.

    def _with_rows_first(self, variable: int) -> int:
        """The new variable for an output or a guard, with its rows first."""
        position = self._program.index.makers[variable]
        if position < 0:
            return self._rewritten[variable]
        return self._read(self._program.equations[position], variable, False)

    def _read(self, like: Equation, variable: int, last: bool) -> int:
        """The new variable for an old one, with its rows first or last; a copy if necessary."""
        rewritten = self._rewritten[variable]
        if (variable in self._layout.last) == last:
            return rewritten
        key = variable, like.epoch
        if key not in self._others:
            self._others[key] = self._turn(like, rewritten, last)
        return self._others[key]

    def _turn(self, like: Equation, variable: int, last: bool) -> int:
        """Turn a new variable: put its rows last, or first, in C order."""
        spec = self._draft.spec(variable)
        old_shape, rank = spec.shape, len(spec.shape)
        axes = behind(range(rank)) if last else (rank - 1, *range(rank - 1))
        shape = tuple([old_shape[axis] for axis in axes])
        if prod(old_shape) == max(old_shape):
            return self._draft.reshaped(like, variable, shape)
        constant = self._draft.constant_of(variable)
        if constant is not None and constant.is_raw:
            array = np.ascontiguousarray(np.asarray(constant.value).transpose(axes))
            return self._draft.constant(Constant(array))
        result = Spec(shape, spec.dtype)
        variable = self._draft.put(like, transpose, [variable], {"axes": axes}, result)
        return self._draft.put(like, broadcast_to, [variable], {"shape": shape}, result)

    def _column(self, like: Equation, variable: int, rank: int) -> int:
        """Reshape a variable without rows to broadcast with arrays that have their rows last."""
        rows_first = self._read(like, variable, False)
        shape = self._draft.spec(rows_first).shape
        column = behind(shape) if len(shape) == rank else (*shape, 1) if shape else shape
        key = rows_first, column, like.epoch
        if key not in self._columns:
            constant = self._draft.constant_of(rows_first)
            if constant is not None and constant.is_raw and shape:
                array = np.asarray(constant.value).reshape(column)
                self._columns[key] = self._draft.constant(Constant(array))
            else:
                self._columns[key] = self._draft.reshaped(like, rows_first, column)
        return self._columns[key]

    # New equations.

    def _rows_first(self, equation: Equation) -> Sequence[int]:
        operands = tuple([self._read(equation, v, False) for v in equation.operands])
        equation = equation.on(operands)
        return self._draft.append(equation)

    def _rowwise(self, equation: Equation, site: Rowwise) -> int:
        result = equation.results[0]
        operands = [
            self._read(equation, variable, True)
            if variable in site.rows
            else self._column(equation, variable, len(result.shape))
            for variable in equation.operands
        ]
        result = Spec(behind(result.shape), result.dtype)
        return self._draft.put(equation, equation.operation, operands, site.params, result)

    def _total(self, equation: Equation, site: Total) -> int:
        operand, params, result = self._rewritten[site.operand], site.params, equation.results[0]
        if params.get("axes") == tuple(range(len(result.shape))):
            return operand
        shape = behind(result.shape) if params.get("keepdims") else result.shape
        inner = Spec(shape, result.dtype)
        new = self._draft.put(equation, site.operation, [operand], params, inner)
        return self._draft.reshaped(equation, new, result.shape)

    def _product(self, equation: Equation, site: Product) -> int:
        last = [variable in self._layout.last for variable in (*site.operands, site.result)]
        first, second, out = _letters_in(site, last)
        x, y = [self._rewritten[variable] for variable in site.operands]
        result = equation.results[0]
        result = Spec(behind(result.shape) if last[2] else result.shape, result.dtype)
        for left, right, a, b in ((x, y, first, second), (y, x, second, first)):
            for turn_left, turn_right in _ORIENTATIONS:
                if is_matrix_product(a[::turn_left], b[::turn_right], out):
                    left = left if turn_left > 0 else self._transposed(equation, left)
                    right = right if turn_right > 0 else self._transposed(equation, right)
                    return self._draft.put(equation, matmul, [left, right], {}, result)
        subscripts = {"subscripts": f"{first},{second}->{out}"}
        return self._draft.put(equation, contract, [x, y], subscripts, result)

    def _transposed(self, like: Equation, variable: int) -> int:
        """Write a transposed view of a matrix, which BLAS reads without a copy."""
        return self._draft.put(like, transpose, [variable], {"axes": (1, 0)})


_ORIENTATIONS: Final = ((1, 1), (1, -1), (-1, 1), (-1, -1))
