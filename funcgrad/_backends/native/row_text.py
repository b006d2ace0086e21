"""Products with sparse matrices as text: loops over compressed rows, and over other columns.

Each of the three arrays is computed from the other two, see ``RowProducts``. A row of the matrix
times x is a sum in registers. Its transpose adds to places in memory. A product for a nonzero is a
sum along columns. Columns are the lanes of vectors, several vectors at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, Final, TypeAlias

from funcgrad._backends.native.function_site import FunctionSite
from funcgrad._backends.native.instructions import Pair, Value, memory_type
from funcgrad._backends.native.plan_steps import RowProduct
from funcgrad._backends.native.registers import Registers
from funcgrad._backends.native.views import repeated
from funcgrad._core.specs import Shape
from funcgrad._core.structure.structures import RowProducts

_VECTORS: Final = 4
"""The vectors of columns that a loop over nonzeros computes at once."""


def write_row_product(site: FunctionSite, step: RowProduct) -> None:
    """Write products with the nonzeros of a sparse matrix."""
    _RowWriter(site, step).write()


_Vectors: TypeAlias = "list[tuple[Registers, str | int]]"
"""Vectors of columns side by side, each with its first column."""


class _RowWriter:
    """Writes the products of a step."""

    def __init__(self, site: FunctionSite, step: RowProduct) -> None:
        self._site, self._step = site, step
        structure: Any = step.equation.operation.structure
        self._form: RowProducts = structure.rows(**dict(step.equation.params))
        variables = (*step.equation.operands, step.variable)
        self._variables = dict(zip(self._form.arrays, variables, strict=True))
        self._dtype = site.plan.specs[step.variable].dtype
        *self._stack, _, self._columns = self._shape("x")
        self._rows = {name: self._shape(name)[-2] for name in "xy"}
        self._at: dict[str, str] = {}

    def _shape(self, name: str) -> Shape:
        return self._site.plan.specs[self._variables[name]].shape

    def write(self) -> None:
        """Write the products of all matrices of a stack."""
        site, form = self._site, self._form
        result, many = form.arrays[2], prod(self._stack)
        spec = site.plan.specs[self._step.variable]
        site.work += 2 * many * len(form.indices) * self._columns
        starts = {
            name: site.pointer(v) if name == result else site.at(v)
            for name, v in self._variables.items()
        }
        writers = {"d": self._sample, "x": self._spread, "y": self._sum}
        if result == "x" or (result == "y" and not (form.indptr[1:] > form.indptr[:-1]).all()):
            site.clear(starts[result], spec)

        def one(number: str, _: Sequence[str]) -> Sequence[str]:
            self._at = {
                name: self._row(start, number, prod(self._shape(name)[len(self._stack) :]))
                if len(self._shape(name)) > len(self._stack)
                else start
                for name, start in starts.items()
            }
            self._each_row(writers[result])
            return ()

        site.lines.counted(many, one)

    # ------------------------------------------------------------------------------------ places

    def _row(self, pointer: str, number: str | int, step: int) -> str:
        return self._site.lines.row(pointer, number, step, memory_type(self._dtype))

    def _each_row(self, work: Callable[[str, str, str], None]) -> None:
        """Write the work on each row that has nonzeros: its number, and the first and the last."""
        lines, indptr = self._site.lines, self._form.indptr

        def row(number: str, starts: Sequence[str]) -> Sequence[str]:
            (begin,), end = starts, self._integer("indptr", lines.op(f"add i64 {number}, 1"))
            if (indptr[1:] > indptr[:-1]).all():
                work(number, begin, end)
            else:
                some = lines.op(f"icmp slt i64 {begin}, {end}")
                lines.when(some, lambda: work(number, begin, end))
            return [end]

        lines.counted(self._rows["y"], row, [("i64", "0")])

    def _integer(self, name: str, place: str) -> str:
        """An element of the arrays that say where nonzeros are."""
        site, form = self._site, self._form
        kind = f"i{8 * form.indices.dtype.itemsize}"
        number = site.number_of(self._step.equation)
        table = site.module.symbol(name, ("rows", site.number, number, name))
        value = site.lines.op(f"load {kind}, ptr {site.lines.address(table, place, kind)}")
        return value if kind == "i64" else site.lines.op(f"sext {kind} {value} to i64")

    def _load(self, lanes: Registers, name: str, row: str, column: str | int = 0) -> Value:
        return lanes.load(self._place(name, row, column), self._dtype)

    def _place(self, name: str, row: str, column: str | int) -> str:
        """The address of an element of x or y, or of a nonzero."""
        start = self._row(self._at[name], row, 1 if name == "d" else self._columns)
        return self._row(start, column, 1)

    def _each_column(self, work: Callable[[_Vectors], None]) -> None:
        """Write the work on all columns: some vectors at once, then fewer and shorter ones."""
        lines, width = self._site.lines, max(1, self._site.module.bits // 8 // self._dtype.itemsize)
        full = self._columns // (width * _VECTORS) * width * _VECTORS

        def some(column: str, _: Sequence[str]) -> Sequence[str]:
            firsts = [lines.op(f"add i64 {column}, {k * width}") for k in range(_VECTORS)]
            work([(Registers(lines, width), first) for first in firsts])
            return ()

        if full:
            lines.counted(full, some, step=width * _VECTORS)
        vectors: _Vectors = []
        while full < self._columns:
            while width > self._columns - full:
                width //= 2
            vectors.append((Registers(lines, width), full))
            full += width
        for start in range(0, len(vectors), _VECTORS):
            work(vectors[start : start + _VECTORS])

    # -------------------------------------------------------------------------------------- sums

    def _nonzero(self, place: str) -> tuple[Value, str]:
        """A nonzero and its column."""
        one = Registers(self._site.lines, 1)
        return self._load(one, "d", place), self._integer("indices", place)

    def _added(self, lanes: Registers, x: Value, y: Value, total: Value) -> Value:
        if isinstance(total, Pair) or not self._site.lines.arithmetic.fuses:
            return lanes.add(total, lanes.multiply(x, y))
        return lanes.intrinsic("fma", x, y, total)

    def _sum(self, row: str, begin: str, end: str) -> None:
        """Write a row of y: the sum of rows of x times nonzeros."""

        def columns(vectors: _Vectors) -> None:
            def add(place: str, totals: list[Value]) -> list[Value]:
                number, other = self._nonzero(place)
                return [
                    self._added(
                        lanes, lanes.splat(number), self._load(lanes, "x", other, at), total
                    )
                    for (lanes, at), total in zip(vectors, totals, strict=True)
                ]

            zeros = [lanes.constant(0.0, self._dtype) for lanes, _ in vectors]
            totals = repeated(self._site.lines, end, add, zeros, start=begin)
            for (lanes, at), total in zip(vectors, totals, strict=True):
                lanes.store(self._place("y", row, at), total)

        self._each_column(columns)

    def _spread(self, row: str, begin: str, end: str) -> None:
        """Write additions to rows of x: a row of y times nonzeros."""

        def columns(vectors: _Vectors) -> None:
            factors = [self._load(lanes, "y", row, at) for lanes, at in vectors]

            def add(place: str, _: Sequence[str]) -> Sequence[str]:
                number, other = self._nonzero(place)
                for (lanes, at), y in zip(vectors, factors, strict=True):
                    before = self._load(lanes, "x", other, at)
                    after = self._added(lanes, lanes.splat(number), y, before)
                    lanes.store(self._place("x", other, at), after)
                return ()

            self._site.lines.counted(end, add, start=begin)

        self._each_column(columns)

    def _sample(self, row: str, begin: str, end: str) -> None:
        """Write the nonzeros of a row: products of a row of y and rows of x, summed."""
        lines, one = self._site.lines, Registers(self._site.lines, 1)
        room = lines.room(memory_type(self._dtype))

        def columns(other: str, vectors: _Vectors) -> None:
            totals: dict[int, Value] = {}
            for lanes, at in vectors:
                x, y = self._load(lanes, "x", other, at), self._load(lanes, "y", row, at)
                zero = lanes.constant(0.0, self._dtype)
                totals[lanes.width] = self._added(lanes, x, y, totals.get(lanes.width, zero))
            sums = [one.load(room, self._dtype)]
            for width, total in totals.items():
                sums += [one.lane(total, place) for place in range(width)]
            while len(sums) > 1:  # neighbors first, so that few wait for one another
                pairs = zip(sums[::2], sums[1::2], strict=False)
                sums = [one.add(*pair) for pair in pairs] + sums[len(sums) // 2 * 2 :]
            one.store(room, sums[0])

        def nonzero(place: str, _: Sequence[str]) -> Sequence[str]:
            other = self._integer("indices", place)
            one.store(room, one.constant(0.0, self._dtype))
            self._each_column(partial(columns, other))
            one.store(self._place("d", place, 0), one.load(room, self._dtype))
            return ()

        lines.counted(end, nonzero, start=begin)
