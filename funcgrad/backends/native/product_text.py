"""Products of matrices as text: calls of the functions for panels, or of NumPy's inner loop."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad.backends.native.call_text import call_loop
from funcgrad.backends.native.float_registers import FloatRegisters
from funcgrad.backends.native.function_site import FunctionSite
from funcgrad.backends.native.packed_products import (
    DEPTH,
    packing,
    panel_product,
    panel_vectors,
    transposed_packing,
    vector_width,
)
from funcgrad.backends.native.plan_steps import MatrixProduct
from funcgrad.backends.native.small_products import is_small, small_product
from funcgrad.backends.native.stack_text import each_example
from funcgrad.backends.native.views import whole

_OFTEN: Final = 24
"""The rows from which on packing the second matrix pays."""

_IN_CACHE: Final = 1 << 15
"""The bytes of a second matrix that need not be packed, since it fits into the first cache."""

_MOST: Final = MappingProxyType({512: 1 << 29, 256: 1 << 18, 128: 1 << 15})
"""By the bits of a register, the multiplications up to which products are done here; NumPy's
library has the better code for other processors."""


def write_product(site: FunctionSite, step: MatrixProduct) -> None:
    """Write a product of stacks of matrices."""
    out = whole(step.variable, step.out_shape)
    site.work += prod(step.left.shape) * step.right.shape[-1]
    dtype = site.plan.specs[step.variable].dtype
    stack = out.shape[:-2]
    writer = _ProductWriter(site, step, dtype)
    each_example(site, stack, [(step.left, 2), (step.right, 2), (out, 2)], dtype, writer.write)


class _ProductWriter:
    """Writes the product of two matrices."""

    def __init__(self, site: FunctionSite, step: MatrixProduct, dtype: np.dtype[Any]) -> None:
        self._site, self._dtype = site, dtype
        self._rows, self._length = step.left.shape[-2:]
        self._columns = step.right.shape[-1]
        self._along, self._across = step.left.strides[-2:]
        self._row, self._column = step.right.strides[-2:]
        if self._columns == 1:
            self._column = 1
        self._one = FloatRegisters(site.lines, dtype, 1, False)
        self._width = vector_width(site.module, dtype)

    def write(self, pointers: Sequence[str]) -> None:
        if is_small(self._rows, self._length, self._columns, self._dtype):
            self._written_out(pointers)
            return
        multiplications = self._rows * self._length * self._columns
        is_transposed = self._column != 1
        if multiplications > _MOST[self._site.module.bits] or (is_transposed and self._rows < 4):
            self._by_numpy(pointers)
            return
        is_large = self._length * self._columns * self._dtype.itemsize > _IN_CACHE
        self._transposed = is_transposed
        self._packs = is_transposed or (self._rows >= _OFTEN and is_large)
        most = panel_vectors(self._site.module)
        size = most * self._width
        whole_panels = self._columns // size
        if whole_panels:

            def panel(index: str, _: Sequence[str]) -> Sequence[str]:
                place = self._site.lines.op(f"mul i64 {index}, {size}")
                self._panel(pointers, place, most, self._width)
                return ()

            self._site.lines.counted(whole_panels, panel)
        left = self._columns - whole_panels * size
        if left:
            vectors = -(-left // self._width)
            last = left - (vectors - 1) * self._width
            self._panel(pointers, str(whole_panels * size), vectors, last)

    def _panel(self, pointers: Sequence[str], first: str, vectors: int, last: int) -> None:
        """Write the product with the columns of a panel."""
        left, right, out = pointers
        start = self._one.row(right, first, self._column)
        target = self._one.at(out, first)
        if not self._packs:
            self._call(left, start, self._row, target, vectors, last, self._length, "false")
            return
        lines, blocks = self._site.lines, self._length // DEPTH
        if blocks:

            def block(index: str, _: Sequence[str]) -> Sequence[str]:
                more = lines.op(f"icmp ne i64 {index}, 0")
                self._packed(left, start, target, index, vectors, last, DEPTH, more)
                return ()

            lines.counted(blocks * DEPTH, block, step=DEPTH)
        if self._length % DEPTH:
            place, more = str(blocks * DEPTH), "true" if blocks else "false"
            length = self._length % DEPTH
            self._packed(left, start, target, place, vectors, last, length, more)

    def _packed(
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
        """Write the packing of rows of a panel, and the product with these."""
        module, lines, one = self._site.module, self._site.lines, self._one
        wide = vectors * self._width
        size = wide * min(self._length, DEPTH) * self._dtype.itemsize
        room = self._site.shared_scratch(size)
        rows = one.row(start, place, self._row)
        if self._transposed:
            if last < self._width:
                lines.call("ptr", "memset", ("ptr", room), ("i32", "0"), ("i64", str(size)))
            function = transposed_packing(module, self._dtype)
            for k in range(vectors):
                count = self._width if k < vectors - 1 else last
                lines.emit(
                    f"call void @{function}(ptr {one.at(rows, k * self._width * self._column)},"
                    f" i64 {self._column}, i64 {length}, i64 {count},"
                    f" ptr {one.at(room, k * self._width)}, i64 {wide})"
                )
        else:
            function = packing(module, vectors, last < self._width, self._dtype)
            lines.emit(
                f"call void @{function}(ptr {rows}, i64 {self._row}, i64 {length}, i64 {last},"
                f" ptr {room})"
            )
        moved = one.row(left, place, self._across)
        self._call(moved, room, wide, target, vectors, last, length, more)

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
        function = panel_product(self._site.module, vectors, is_part, self._packs, self._dtype)
        self._site.lines.emit(
            f"call void @{function}(ptr {left}, i64 {self._along}, i64 {self._across}, ptr {panel},"
            f" i64 {step}, ptr {target}, i64 {self._columns}, i64 {self._rows}, i64 {length},"
            f" i64 {last}, i1 {more})"
        )

    def _written_out(self, pointers: Sequence[str]) -> None:
        left, right, out = pointers
        sizes = self._rows, self._length, self._columns
        function = small_product(self._site.module, sizes, self._column == 1, self._dtype)
        self._site.lines.emit(
            f"call void @{function}(ptr {left}, i64 {self._along}, i64 {self._across}, ptr {right},"
            f" i64 {self._row}, i64 {self._column}, ptr {out})"
        )

    def _by_numpy(self, pointers: Sequence[str]) -> None:
        size = self._dtype.itemsize
        strides = [self._along, self._across, self._row, self._column, self._columns, 1]
        counts = [1, self._rows, self._length, self._columns]
        steps = [0, 0, 0, *[stride * size for stride in strides]]
        call_loop(self._site, np.matmul, (self._dtype,) * 3, pointers, counts, steps)
