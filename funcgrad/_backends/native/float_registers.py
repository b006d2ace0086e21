"""Vectors of floats in registers, for the code of linear algebra.

>>> from funcgrad._backends.native.function_text import FunctionText
>>> r = FloatRegisters(FunctionText(), np.dtype(np.float32), 4, fuses=True)
>>> r.kind, r.minus_product("%a", "%b", "%c")
('<4 x float>', '%v2')
>>> print(r.lines.function("define void @f()"))
define void @f() {
entry:
  br label %start
start:
  %v1 = fneg <4 x float> %a
  %v2 = call <4 x float> @llvm.fma.v4f32(<4 x float> %v1, <4 x float> %b, <4 x float> %c)
}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.lanes import element_type, literal


class FloatRegisters:
    """Writes instructions on vectors of one dtype and width.

    Attributes
    ----------
    lines : FunctionText
    dtype : dtype
    width : int
        The number of elements; with one, values are scalars.
    fuses : bool
        Whether the processor multiplies and adds with one rounding.
    element, kind : str
        The LLVM types of an element, and of a vector.
    """

    def __init__(self, lines: FunctionText, dtype: np.dtype[Any], width: int, fuses: bool) -> None:
        self.lines, self.dtype, self.width, self.fuses = lines, dtype, width, fuses
        self.element = element_type(dtype)
        self.kind = self.element if width == 1 else f"<{width} x {self.element}>"
        self._suffix = {"float": "f32", "double": "f64"}[self.element]

    @property
    def zero(self) -> str:
        """Zeros."""
        return "0.0" if self.width == 1 else "zeroinitializer"

    def number(self, number: float) -> str:
        """A number in every lane."""
        text = literal(number, self.dtype)
        return text if self.width == 1 else f"splat ({self.element} {text})"

    # -------------------------------------------------------------------------------------- memory

    def at(self, pointer: str, offset: str | int) -> str:
        """The address so many elements behind another."""
        return self.lines.address(pointer, offset, self.element)

    def row(self, pointer: str, index: str | int, step: str | int) -> str:
        """The address of a row, so many steps of some elements behind another."""
        if index in (0, "0"):
            return pointer
        if isinstance(index, int) and isinstance(step, int):
            return self.at(pointer, index * step)
        return self.at(pointer, step if index == 1 else self.lines.op(f"mul i64 {step}, {index}"))

    def load(self, pointer: str) -> str:
        """Read elements that lie side by side."""
        return self.lines.op(f"load {self.kind}, ptr {pointer}, align {self.dtype.itemsize}")

    def load_one(self, pointer: str) -> str:
        """Read one element."""
        return self.lines.op(f"load {self.element}, ptr {pointer}, align {self.dtype.itemsize}")

    def store(self, pointer: str, x: str) -> None:
        """Write elements side by side."""
        self.lines.emit(f"store {self.kind} {x}, ptr {pointer}, align {self.dtype.itemsize}")

    def load_some(self, pointer: str, mask: str) -> str:
        """Read elements where a mask holds; the others are zeros, and their memory is not read."""
        return self.lines.masked_load(self.kind, pointer, mask, self.dtype.itemsize)

    def store_some(self, pointer: str, x: str, mask: str) -> None:
        """Write elements where a mask holds."""
        self.lines.masked_store(self.kind, x, pointer, mask, self.dtype.itemsize)

    # --------------------------------------------------------------------------------------- lanes

    def splat(self, number: str) -> str:
        """A scalar in every lane."""
        if self.width == 1:
            return number
        first = self.lines.op(f"insertelement {self.kind} poison, {self.element} {number}, i32 0")
        return self.lines.op(
            f"shufflevector {self.kind} {first}, {self.kind} poison,"
            f" <{self.width} x i32> zeroinitializer"
        )

    def lane(self, x: str, place: int) -> str:
        """One element of a vector."""
        return (
            x if self.width == 1 else self.lines.op(f"extractelement {self.kind} {x}, i32 {place}")
        )

    def with_lane(self, x: str, place: int, number: str) -> str:
        """A vector with another element at a place."""
        if self.width == 1:
            return number
        return self.lines.op(f"insertelement {self.kind} {x}, {self.element} {number}, i32 {place}")

    def without_first(self, x: str, count: int) -> str:
        """A vector with zeros in its first lanes."""
        if not count:
            return x
        lanes = [k + self.width * (k < count) for k in range(self.width)]
        return self.shuffled(x, "zeroinitializer", lanes)

    def shuffled(self, x: str, y: str, lanes: Sequence[int]) -> str:
        """Lanes of two vectors: those of the second have numbers from the width on."""
        places = ", ".join([f"i32 {lane}" for lane in lanes])
        return self.lines.op(
            f"shufflevector {self.kind} {x}, {self.kind} {y}, <{self.width} x i32> <{places}>"
        )

    # ---------------------------------------------------------------------------------- arithmetic

    def op(self, word: str, x: str, y: str) -> str:
        """An instruction of two vectors."""
        return self.lines.op(f"{word} {self.kind} {x}, {y}")

    def called(self, name: str, *operands: str) -> str:
        """A function of LLVM's."""
        suffix = self._suffix if self.width == 1 else f"v{self.width}{self._suffix}"
        arguments = [(self.kind, operand) for operand in operands]
        return self.lines.call(self.kind, f"llvm.{name}.{suffix}", *arguments)

    def plus_product(self, a: str, b: str, c: str) -> str:
        """``a * b + c``."""
        if self.fuses:
            return self.called("fma", a, b, c)
        return self.op("fadd", self.op("fmul", a, b), c)

    def minus_product(self, a: str, b: str, c: str) -> str:
        """``c - a * b``."""
        if self.fuses:
            return self.called("fma", self.lines.op(f"fneg {self.kind} {a}"), b, c)
        return self.op("fsub", c, self.op("fmul", a, b))

    def are_usual(self, size: str) -> list[str]:
        """Truth values that hold together: a size is not NaN, infinite, zero or subnormal."""
        tiny = float(np.finfo(self.dtype).tiny)
        return [
            self.lines.op(f"fcmp oge {self.kind} {size}, {self.number(tiny)}"),
            self.lines.op(f"fcmp olt {self.kind} {size}, {self.number(np.inf)}"),
        ]

    def are_zeros(self, x: str) -> str:
        """A truth value: whether all elements are zero."""
        flags = self.lines.op(f"fcmp oeq {self.kind} {x}, {self.zero}")
        if self.width == 1:
            return flags
        bits = self.lines.op(f"bitcast <{self.width} x i1> {flags} to i{self.width}")
        return self.lines.op(f"icmp eq i{self.width} {bits}, -1")
