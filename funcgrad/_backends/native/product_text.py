"""Products of matrices as text: calls of the functions for panels, or of NumPy's inner loop."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._backends.native.call_text import call_loop, each_example, first_loop
from funcgrad._backends.native.floats import float_vectors
from funcgrad._backends.native.function_site import RANGES, FunctionSite
from funcgrad._backends.native.packed_products import (
    DEPTH,
    panel_product,
    panel_vectors,
    transposed_packing,
    vector_width,
)
from funcgrad._backends.native.plan_steps import MatrixProduct
from funcgrad._backends.native.small_matrices import is_small, small_product
from funcgrad._backends.native.views import whole

_OFTEN: Final = 24
_IN_CACHE: Final = 1 << 15
"""Sums are in blocks of ``DEPTH`` for so many rows, and a second matrix of so many bytes."""

_BYTES: Final = 400
"""The bytes of factors that are multiplied in a nanosecond."""

_ROWS: Final = 12
"""The rows of a part of a product that threads share: whole blocks of rows, see `_block_rows`."""

_MANY_PANELS: Final = 16
"""So many panels are divided among threads; with fewer of them rows are, and each thread packs the
panels that it multiplies with."""

_BY_ONE: Final = 1 << 13
"""The multiplications of a product that NumPy's library does not divide among threads of its own:
so threads of the pool may call it."""

_MOST: Final = MappingProxyType({512: 1 << 29, 256: 1 << 18, 128: 1 << 15})
"""By the bits of a register, the multiplications up to which products are done here; NumPy's
library has the better code for other processors."""


def write_product(site: FunctionSite, step: MatrixProduct) -> None:
    """Write a product of stacks of matrices."""
    site.work += prod(step.left.shape) * step.right.shape[-1]
    _ProductWriter(site, step, site.plan.specs[step.variable].dtype).write()


class _ProductWriter:
    """Writes products of matrices."""

    def __init__(self, site: FunctionSite, step: MatrixProduct, dtype: np.dtype[Any]) -> None:
        self._site, self._step, self._dtype = site, step, dtype
        self._rows, self._length = step.left.shape[-2:]
        self._columns = step.right.shape[-1]
        self._along, self._across = step.left.strides[-2:]
        self._row, self._column = step.right.strides[-2:]
        if self._columns == 1:
            self._column = 1
        self._width = vector_width(site.module, dtype)
        multiplications = self._rows * self._length * self._columns
        is_complex = dtype.kind == "c"  # NumPy's loop multiplies these
        sizes = self._rows, self._length, self._columns
        self._is_small = not is_complex and is_small(*sizes, dtype)
        self._transposed = self._column != 1
        self._by_numpy = not self._is_small and (
            is_complex
            or multiplications > _MOST[site.module.bits]
            or (self._transposed and self._rows < 4)
        )
        is_large = self._length * self._columns * dtype.itemsize > _IN_CACHE
        self._in_blocks = self._transposed or (self._rows >= _OFTEN and is_large)
        self._panels = self._columns // (panel_vectors(site.module) * self._width)
        self._shared = ""

    def write(self) -> None:
        """Write all products, which threads share if that pays: stacks, panels or rows."""
        site, step, stack = self._site, self._step, self._step.out_shape[:-2]
        outermost, size = first_loop(stack), prod(step.left.shape) * self._columns
        if self._by_numpy or not site.is_shared(size * self._dtype.itemsize / _BYTES):
            self._write_stack()
            return
        ranges = RANGES
        if outermost is not None:
            self._shared, count = "stack", stack[outermost]
        elif self._panels >= _MANY_PANELS:
            self._shared, count = "panels", self._panels
        else:
            self._shared, count, ranges = "rows", -(-self._rows // _ROWS), 1
        site.share(step, count, self._write_stack, ranges, scratch=self._panel_bytes)

    @property
    def _panel_bytes(self) -> int:
        """The bytes of a packed block of a whole panel."""
        columns = panel_vectors(self._site.module) * self._width
        return columns * min(self._length, DEPTH) * self._dtype.itemsize

    def _write_stack(self) -> None:
        site, step, out = self._site, self._step, whole(self._step.variable, self._step.out_shape)
        if not self._by_numpy:
            self._one = float_vectors(site.lines, self._dtype, 1)
        span = ("%begin", "%end") if self._shared == "stack" else None
        arrays = [(step.left, 2), (step.right, 2), (out, 2)]
        each_example(site, out.shape[:-2], arrays, self._dtype, self._write_example, span)

    def _write_example(self, pointers: Sequence[str]) -> None:
        if self._is_small:
            self._write_out(pointers)
        elif self._by_numpy:
            self._call_numpy(pointers)
        else:
            self._write_panels(pointers)

    def _write_panels(self, pointers: Sequence[str]) -> None:
        most, lines = panel_vectors(self._site.module), self._site.lines
        size = most * self._width
        shares_panels = self._shared == "panels"
        self._count = str(self._rows)
        if self._shared == "rows":
            pointers = self._range_of_rows(pointers)
        if self._panels:

            def panel(index: str, _: Sequence[str]) -> Sequence[str]:
                place = lines.op(f"mul i64 {index}, {size}")
                self._panel(pointers, place, most, self._width)
                return ()

            start, stop = ("%begin", "%end") if shares_panels else (0, self._panels)
            lines.counted(stop, panel, start=start)
        left = self._columns - self._panels * size
        if not left:
            return
        vectors = -(-left // self._width)
        last = left - (vectors - 1) * self._width
        write_left = partial(self._panel, pointers, str(self._panels * size), vectors, last)
        if shares_panels:
            lines.when(lines.op(f"icmp eq i64 %end, {self._panels}"), write_left)
        else:
            write_left()

    def _range_of_rows(self, pointers: Sequence[str]) -> list[str]:
        """Where the range of rows begins that a thread does."""
        lines, (left, right, out) = self._site.lines, pointers
        first, full = [lines.op(f"mul i64 {place}, {_ROWS}") for place in ("%begin", "%end")]
        end = lines.call("i64", "llvm.smin.i64", ("i64", full), ("i64", str(self._rows)))
        self._count = lines.op(f"sub i64 {end}, {first}")
        row = self._one.row
        return [row(left, first, self._along), right, row(out, first, self._columns)]

    def _panel(self, pointers: Sequence[str], first: str, vectors: int, last: int) -> None:
        """Write the product with the columns of a panel."""
        left, right, out = pointers
        start = self._one.row(right, first, self._column)
        target = self._one.at(out, first)
        if not self._in_blocks:
            self._call(left, start, self._row, target, vectors, last, self._length, "false")
            return
        lines, blocks = self._site.lines, self._length // DEPTH
        if blocks:

            def block(index: str, _: Sequence[str]) -> Sequence[str]:
                more = lines.op(f"icmp ne i64 {index}, 0")
                self._block(left, start, target, index, vectors, last, DEPTH, more)
                return ()

            lines.counted(blocks * DEPTH, block, step=DEPTH)
        if self._length % DEPTH:
            place, more = str(blocks * DEPTH), "true" if blocks else "false"
            length = self._length % DEPTH
            self._block(left, start, target, place, vectors, last, length, more)

    def _block(
        self,
        left: str,
        start: str,
        target: str,
        place: str,
        vectors: int,
        last: int,
        length: int,
        more: str,
    ) -> None:
        """Write the product with some rows of a panel, packed first if they are columns."""
        one = self._one
        panel, step = one.row(start, place, self._row), self._row
        if self._transposed:
            step = vectors * self._width
            panel = self._packed(panel, vectors, last, length)
        moved = one.row(left, place, self._across)
        self._call(moved, panel, step, target, vectors, last, length, more)

    def _packed(self, rows: str, vectors: int, last: int, length: int) -> str:
        """Write the packing of columns that lie side by side as the rows of a panel."""
        lines, one, wide = self._site.lines, self._one, vectors * self._width
        size = wide * min(self._length, DEPTH) * self._dtype.itemsize
        room = self._site.shared_scratch(size)
        if last < self._width:
            lines.call("ptr", "memset", ("ptr", room), ("i32", "0"), ("i64", str(size)))
        function = transposed_packing(self._site.module, self._dtype)
        for k in range(vectors):
            count = self._width if k < vectors - 1 else last
            lines.emit(
                f"call void @{function}(ptr {one.at(rows, k * self._width * self._column)},"
                f" i64 {self._column}, i64 {length}, i64 {count},"
                f" ptr {one.at(room, k * self._width)}, i64 {wide})"
            )
        return room

    def _call(
        self,
        left: str,
        panel: str,
        step: int,
        target: str,
        vectors: int,
        last: int,
        length: int,
        more: str,
    ) -> None:
        is_part = last < self._width
        function = panel_product(self._site.module, vectors, is_part, self._transposed, self._dtype)
        self._site.lines.emit(
            f"call void @{function}(ptr {left}, i64 {self._along}, i64 {self._across}, ptr {panel},"
            f" i64 {step}, ptr {target}, i64 {self._columns}, i64 {self._count}, i64 {length},"
            f" i64 {last}, i1 {more})"
        )

    def _write_out(self, pointers: Sequence[str]) -> None:
        left, right, out = pointers
        sizes = self._rows, self._length, self._columns
        function = small_product(self._site.module, sizes, self._column == 1, self._dtype)
        self._site.lines.emit(
            f"call void @{function}(ptr {left}, i64 {self._along}, i64 {self._across}, ptr {right},"
            f" i64 {self._row}, i64 {self._column}, ptr {out})"
        )

    def _call_numpy(self, pointers: Sequence[str]) -> None:
        size = self._dtype.itemsize
        strides = [self._along, self._across, self._row, self._column, self._columns, 1]
        counts = [1, self._rows, self._length, self._columns]
        steps = [0, 0, 0, *[stride * size for stride in strides]]
        anywhere = self._rows * self._length * self._columns <= _BY_ONE
        call_loop(self._site, np.matmul, (self._dtype,) * 3, pointers, counts, steps, anywhere)
