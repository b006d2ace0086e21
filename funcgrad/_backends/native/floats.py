"""Floating-point numbers by their bits: the parts that functions of vectors are made of.

Floats are split into powers of two and fractions, sums and products into a float and its rounding
error. The instructions are the same for one lane and for many, so an element has the same bits in a
whole vector and in the rest of an array.

>>> import numpy as np
>>> from funcgrad._backends.native.function_text import FunctionText
>>> from funcgrad._backends.native.lanes import Lanes
>>> f = Floats(Lanes(FunctionText(), 8), np.dtype(np.float64))
>>> x = Value("%x", f.dtype, f.lanes)
>>> total, error = f.two_sum(x, f.number(1.0))
>>> error.kind
'<8 x double>'
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from funcgrad._backends.native.coefficients import PIECES, POLYNOMIALS
from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.instructions import Value, element_type, some_lanes
from funcgrad._backends.native.lanes import Lanes


def float_vectors(lines: FunctionText, dtype: np.dtype[Any], width: int) -> Floats:
    """Arithmetic on vectors of so many floats in a function."""
    return Floats(Lanes(lines, width), dtype)


class Floats:
    """Arithmetic on vectors of one floating dtype.

    Attributes
    ----------
    lanes : Lanes
    dtype : dtype
        float32 or float64.
    letter : str
        Which of the coefficients are taken: as many as this dtype needs.
    digits : int
        The bits of a fraction in memory.
    integers : dtype
        Unsigned integers of the same size.
    fuses : bool
        Whether the processor multiplies and adds with one rounding.
    """

    __slots__ = ("_splitter", "digits", "dtype", "fuses", "integers", "lanes", "letter", "shifter")

    def __init__(self, lanes: Lanes, dtype: np.dtype[Any], letter: str = "") -> None:
        self.lanes, self.dtype, self.letter = lanes, dtype, letter or dtype.char
        self.fuses = lanes.lines.arithmetic.fuses
        self.digits = np.finfo(dtype).nmant
        self.integers = np.dtype(f"u{dtype.itemsize}")
        self.shifter = 1.5 * 2.0**self.digits
        self._splitter = 2.0 ** ((self.digits + 2) // 2) + 1.0

    # ----------------------------------------------------------------------------------- constants

    def number(self, x: float) -> Value:
        """A number in every lane."""
        return self.lanes.constant(x, self.dtype)

    def choose(self, double: float, single: float) -> float:
        """The number for float64, or the one for float32."""
        return double if self.letter == "d" else single

    def pieces(self, name: str) -> tuple[float, ...]:
        """A constant as a sum, see ``coefficients.py``."""
        return PIECES[name][self.letter]

    # -------------------------------------------------------------------------- memory and lanes

    @property
    def single(self) -> Floats:
        """Arithmetic on scalars of the dtype, in the same function."""
        return Floats(self.lanes.single, self.dtype, self.letter)

    def at(self, pointer: str, offset: str | int) -> str:
        """The address so many elements behind another."""
        return self.lanes.lines.address(pointer, offset, element_type(self.dtype))

    def row(self, pointer: str, index: str | int, step: str | int) -> str:
        """The address of a row, so many steps of some elements behind another."""
        return self.lanes.lines.row(pointer, index, step, element_type(self.dtype))

    def load(self, pointer: str, mask: str = "") -> Value:
        """Read elements that lie side by side, all or where a mask holds."""
        return self.lanes.load(pointer, self.dtype, mask=mask)

    def store(self, pointer: str, x: Value, mask: str = "") -> None:
        """Write elements side by side, all or where a mask holds."""
        self.lanes.store(pointer, x, mask=mask)

    def are_usual(self, size: Value) -> Value:
        """Whether sizes are not NaN, infinite, zero or subnormal."""
        return (size >= float(np.finfo(self.dtype).tiny)) & (size < np.inf)

    def are_zeros(self, x: Value) -> Value:
        """Whether all elements are zero."""
        return self.lanes.every(x == 0.0)

    # ------------------------------------------------------------------------------------ rounding

    def fma(self, x: Value, y: Value | float, z: Value | float) -> Value:
        """``x * y + z``, rounded once where the processor can."""
        y, z = self._value(y), self._value(z)
        return self.lanes.intrinsic("fma", x, y, z) if self.fuses else x * y + z

    def _value(self, x: Value | float) -> Value:
        return x if isinstance(x, Value) else self.number(x)

    def polynomial(self, name: str, z: Value) -> Value:
        """A polynomial by its name; the even and the odd powers are two chains, side by side."""
        coefficients = POLYNOMIALS[name][self.letter]
        if len(coefficients) < 4:
            return self.powers(coefficients, z)
        square = z * z
        return self.fma(
            z, self.powers(coefficients[1::2], square), self.powers(coefficients[::2], square)
        )

    def powers(self, coefficients: Sequence[float], z: Value) -> Value:
        """The sum of coefficients times powers of z, by Horner's rule."""
        total = self.number(coefficients[-1])
        for coefficient in coefficients[-2::-1]:
            total = self.fma(total, z, coefficient)
        return total

    def fast_two_sum(self, x: Value, y: Value) -> tuple[Value, Value]:
        """A sum and its rounding error, where x is 0 or no smaller than y (Dekker)."""
        total = x + y
        return total, (x - total) + y

    def two_sum(self, x: Value, y: Value) -> tuple[Value, Value]:
        """A sum and its rounding error (Knuth)."""
        total = x + y
        back = total - x
        return total, (x - (total - back)) + (y - back)

    def two_product(self, x: Value, y: Value) -> tuple[Value, Value]:
        """A product and its rounding error (Dekker, Veltkamp)."""
        product = x * y
        if self.fuses:
            return product, self.lanes.intrinsic("fma", x, y, -product)
        x_high, x_low = self._halves(x)
        y_high, y_low = self._halves(y)
        error = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
        return product, error

    def _halves(self, x: Value) -> tuple[Value, Value]:
        moved = x * self._splitter
        high = moved - (moved - x)
        return high, x - high

    def quotient(
        self, x: tuple[Value, Value | None], y: tuple[Value, Value | None]
    ) -> tuple[Value, Value]:
        """The quotient of two sums of a float and a small one, as such a sum."""
        (x_high, x_low), (y_high, y_low) = x, y
        ratio = x_high / y_high
        product, error = self.two_product(ratio, y_high)
        remainder = (x_high - product) - error
        if x_low is not None:
            remainder = remainder + x_low
        if y_low is not None:
            remainder = remainder - ratio * y_low
        return ratio, remainder / y_high

    # ---------------------------------------------------------------------------------------- bits

    def bits(self, x: Value) -> Value:
        """The bits of floats as unsigned integers."""
        return self.lanes.cast("bitcast", x, self.integers)

    def of_bits(self, x: Value) -> Value:
        """The floats of bits."""
        return self.lanes.cast("bitcast", x, self.dtype)

    def bits_of(self, number: float) -> int:
        """The bits of a number that is known."""
        return int(self.dtype.type(number).view(self.integers))

    def shifted(self, word: str, x: Value, by: int) -> Value:
        """The bits of integers moved by ``shl`` or ``lshr``."""
        count = self.lanes.constant(by, x.dtype)
        return self.lanes.value(f"{word} {x.kind} {x.text}, {count.text}", x.dtype)

    def nearest_whole(self, x: Value, factor: float = 1.0) -> tuple[Value, Value]:
        """The whole number closest to ``x * factor``, as a float, and as the last of some bits.

        A number as large as the shifter has no place for a fraction.
        """
        moved = self.fma(x, factor, self.shifter)
        return moved - self.shifter, self.bits(moved)

    def power_of_two(self, exponent: Value) -> Value:
        """A power of two whose exponent is the last of some bits, see ``nearest_whole``."""
        bias = (1 << (8 * self.dtype.itemsize - self.digits - 2)) - 1
        return self.of_bits(self.shifted("shl", exponent + bias, self.digits))

    def scaled(self, x: Value, exponent: Value) -> Value:
        """``x * 2**exponent`` for a whole number as a float; rounded where it is subnormal."""
        if self.lanes.lines.arithmetic.scales and self.lanes.width * self.dtype.itemsize % 64 == 0:
            return self._scaled_at_once(x, exponent)
        moved = self.bits(exponent + self.shifter)
        half = self.bits(self.fma(exponent, 0.5, self.shifter))
        return x * self.power_of_two(half) * self.power_of_two(moved - half)

    def _scaled_at_once(self, x: Value, exponent: Value) -> Value:
        """Multiply by powers of two in one instruction for each register of 512 bits."""
        lines, width = self.lanes.lines, 64 // self.dtype.itemsize
        letter, element = "d" if self.dtype.itemsize == 8 else "s", element_type(self.dtype)
        kind, mask = f"<{width} x {element}>", f"i{width}"
        name = f"llvm.x86.avx512.mask.scalef.p{letter}.512"
        lines.declarations.add(f"declare {kind} @{name}({kind}, {kind}, {kind}, {mask}, i32)")
        parts = []
        for start in range(0, self.lanes.width, width):
            register, power = [
                some_lanes(Lanes(lines, width), value, range(start, start + width))
                for value in (x, exponent)
            ]
            arguments = f"{kind} {register.text}, {kind} {power.text}, {kind} {register.text}"
            text = lines.shared(f"call {kind} @{name}({arguments}, {mask} -1, i32 4)")
            parts.append(Value(text, self.dtype, register.lanes))
        while len(parts) > 1:
            width *= 2
            wide, places = Lanes(lines, width), range(width)
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [wide.shuffled(low, places, high) for low, high in pairs]
        return Value(parts[0].text, self.dtype, self.lanes)

    def split(self, x: Value, subnormal: bool = True) -> tuple[Value, Value]:
        """The exponent and the fraction of positive floats: ``x = 2**k * m``.

        m lies between the square roots of 1/2 and of 2.
        """
        m, number = self.lanes, self.number
        correction = None
        if subnormal:
            tiny = x < float(np.finfo(self.dtype).smallest_normal)
            more = float(self.digits + 2)
            x = m.where(tiny, x * 2.0**more, x)
            correction = m.where(tiny, number(more), number(0.0))
        root = self.bits_of(0.5**0.5)
        moved = self.bits(x) + (self.bits_of(1.0) - root)
        power = 2.0**self.digits
        exponent = self.shifted("lshr", moved, self.digits) | self.bits_of(power)
        bias = float((1 << (8 * self.dtype.itemsize - self.digits - 2)) - 1)
        k = self.of_bits(exponent) - (power + bias)
        if correction is not None:
            k = k - correction
        fraction = self.of_bits((moved & ((1 << self.digits) - 1)) + root)
        return k, fraction
