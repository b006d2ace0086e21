"""Complex numbers as pairs of vectors: the real parts in one register, the imaginary in another.

A pair is a value of the algebra like others. What NumPy computes of complex numbers is written in
the parts, as NumPy has it, so that infinities, NaN and the signs of zeros are its own.

>>> from funcgrad._backends.native.function_text import FunctionText
>>> m = PairLanes(FunctionText(), width=4)
>>> real, imag = [Value(text, np.dtype(np.float32), m) for text in ("%a", "%b")]
>>> z = m.join_parts(real, imag) * 2
>>> z.dtype, m.real(z).kind
(dtype('complex64'), '<4 x float>')
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeAlias, TypeVar

import numpy as np

from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.lanes import Lanes, NotEmitted, Number, Scalar, Value, example

K = TypeVar("K")


def part_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of what registers hold of a number: of its parts, if it is complex."""
    return np.dtype(dtype.char.lower()) if dtype.kind == "c" else dtype


class Pair(Value):
    """Complex numbers, in two registers.

    Attributes
    ----------
    real, imag : Value
    """

    __slots__ = ("imag", "real")

    def __init__(self, real: Value, imag: Value, weak: bool = False) -> None:
        self.real, self.imag = real, imag
        self.dtype = np.dtype(real.dtype.char.upper())
        self.lanes, self.weak = real.lanes, weak

    @property
    def text(self) -> str:  # type: ignore[override]  # no instruction takes it as it is
        """Its name, which two registers do not have."""
        raise NotEmitted("a complex number in one register")


def parts_of(value: Value) -> tuple[Value, ...]:
    """The vectors that a value consists of."""
    return (value.real, value.imag) if isinstance(value, Pair) else (value,)


def like(value: Value, texts: Iterator[str], lanes: Lanes | None = None) -> Value:
    """A value of the dtype of another in registers with other names, which may be narrower."""
    lanes = lanes or value.lanes
    parts = [Value(next(texts), component.dtype, lanes) for component in parts_of(value)]
    return paired(parts) if len(parts) == 2 else parts[0]


def paired(parts: Iterable[Value]) -> Pair:
    """The complex numbers with these parts."""
    real, imag = parts
    return Pair(real, imag)


def some_lanes(lanes: Lanes, vector: Value, start: int) -> Value:
    """Take some lanes of a vector, from one on: as many as these registers have."""
    texts, lines = [], lanes.lines
    places = ", ".join([f"i32 {start + k}" for k in range(lanes.width)])
    for component in parts_of(vector):
        kind, text = component.kind, component.text
        if lanes.width == 1:
            texts.append(lines.op(f"extractelement {kind} {text}, i32 {start}"))
        else:
            texts.append(
                lines.op(
                    f"shufflevector {kind} {text}, {kind} poison, <{lanes.width} x i32> <{places}>"
                )
            )
    return like(vector, iter(texts), lanes)


def unknown(lanes: Lanes, dtype: np.dtype[Any], weak: bool = False) -> Value:
    """Some value of a dtype, for a draft."""
    component = Value("%x", part_of(dtype), lanes, weak)
    return Pair(component, component, weak) if dtype.kind == "c" else component


def carried(
    lines: FunctionText,
    count: str | int,
    body: Callable[[str, dict[K, Value]], Mapping[K, Value]],
    values: Mapping[K, Value],
    step: int = 1,
    start: str | int = 0,
) -> dict[K, Value]:
    """Write a loop that carries values, as ``FunctionText.counted`` does texts."""

    def named(texts: Iterator[str]) -> dict[K, Value]:
        return {name: like(value, texts) for name, value in values.items()}

    def one(index: str, texts: Sequence[str]) -> list[str]:
        after = body(index, named(iter(texts)))
        return [component.text for name in values for component in parts_of(after[name])]

    first = [
        (component.kind, component.text)
        for value in values.values()
        for component in parts_of(value)
    ]
    return named(iter(lines.counted(count, one, first, step, start)))


class PairLanes(Lanes):
    """The algebra of vectors, and of pairs of them."""

    __slots__ = ()

    # -------------------------------------------------------------------- conversion and the parts

    def constant(self, number: Number, dtype: np.dtype[Any]) -> Value:
        """A number in every lane."""
        if dtype.kind != "c":
            return super().constant(number, dtype)
        component, z = part_of(dtype), complex(number)
        return Pair(super().constant(z.real, component), super().constant(z.imag, component))

    def astype(self, x: Scalar, dtype: np.dtype[Any]) -> Value:
        """A value in another dtype; a complex number becomes real by its real part."""
        if not isinstance(x, Value):
            return self.constant(x, dtype)
        if dtype.kind != "c" and not isinstance(x, Pair):
            return super().astype(x, dtype)
        component = part_of(dtype)
        if not isinstance(x, Pair):
            return Pair(super().astype(x, component), super().constant(0, component))
        if dtype.kind == "c":
            return Pair(super().astype(x.real, component), super().astype(x.imag, component))
        if dtype.kind == "b":
            return super().astype(x.real, dtype) | super().astype(x.imag, dtype)
        return super().astype(x.real, dtype)

    def real(self, x: Scalar) -> Value:
        value = self.astype(x, np.result_type(example(x)))
        return value.real if isinstance(value, Pair) else value

    def imag(self, x: Scalar) -> Value:
        value = self.astype(x, np.result_type(example(x)))
        return value.imag if isinstance(value, Pair) else self.constant(0, value.dtype)

    def join_parts(self, x: Scalar, y: Scalar) -> Value:
        """The number with these parts."""
        component = part_of(np.result_type(np.result_type(example(x), example(y)), np.complex64))
        return Pair(self.astype(x, component), self.astype(y, component))

    def _pairs(self, ufunc: np.ufunc, *operands: Scalar) -> list[Pair] | None:
        """The operands as a ufunc takes them, if it takes them as complex numbers."""
        if not any(map(_is_complex, operands)):
            return None
        values = self.converted(ufunc, *operands)
        pairs = [value for value in values if isinstance(value, Pair)]
        if len(pairs) < len(values):
            raise NotEmitted(f"{ufunc.__name__} of complex and other numbers")
        return pairs

    # ---------------------------------------------------------------------------------- arithmetic

    def combined(self, ufunc: np.ufunc, x: Scalar, y: Scalar) -> Value:
        pairs = self._pairs(ufunc, x, y)
        if pairs is None:
            return super().combined(ufunc, x, y)
        return _ARITHMETIC[ufunc](self, *pairs)

    def reciprocal(self, x: Scalar) -> Value:
        pairs = self._pairs(np.reciprocal, x)
        return super().reciprocal(x) if pairs is None else _reciprocal(self, *pairs)

    def negative(self, x: Scalar) -> Value:
        pairs = self._pairs(np.negative, x)
        if pairs is None:
            return super().negative(x)
        return Pair(-pairs[0].real, -pairs[0].imag)

    def absolute(self, x: Scalar) -> Value:
        pairs = self._pairs(np.absolute, x)
        return super().absolute(x) if pairs is None else self.hypot(pairs[0].real, pairs[0].imag)

    def _rounded(self, ufunc: np.ufunc, name: str, x: Scalar) -> Value:
        pairs = self._pairs(ufunc, x)
        if pairs is None:
            return super()._rounded(ufunc, name, x)
        if ufunc is not np.rint:
            raise NotEmitted(f"{name} of complex numbers")
        return Pair(self.rint(pairs[0].real), self.rint(pairs[0].imag))

    # ---------------------------------------------------------------------- comparison and choice

    def compare(self, ufunc: np.ufunc, x: Scalar, y: Scalar) -> Value:
        """One of NumPy's six comparisons; complex numbers are equal, or are not."""
        pairs = self._pairs(ufunc, x, y)
        if pairs is None:
            return super().compare(ufunc, x, y)
        first, second = pairs
        real = super().compare(ufunc, first.real, second.real)
        imag = super().compare(ufunc, first.imag, second.imag)
        if ufunc not in (np.equal, np.not_equal):
            raise NotEmitted("an order of complex numbers")
        return real & imag if ufunc is np.equal else real | imag

    def isnan(self, x: Scalar) -> Value:
        if isinstance(x, Pair):
            return super().isnan(x.real) | super().isnan(x.imag)
        return super().isnan(x)

    def isinf(self, x: Scalar) -> Value:
        if isinstance(x, Pair):
            return super().isinf(x.real) | super().isinf(x.imag)
        return super().isinf(x)

    def isfinite(self, x: Scalar) -> Value:
        if isinstance(x, Pair):
            return super().isfinite(x.real) & super().isfinite(x.imag)
        return super().isfinite(x)

    def where(self, condition: Scalar, x: Scalar, y: Scalar) -> Value:
        if not _is_complex(x) and not _is_complex(y):
            return super().where(condition, x, y)
        dtype = np.result_type(example(x), example(y))
        first, second = self.astype(x, dtype), self.astype(y, dtype)
        assert isinstance(first, Pair)
        assert isinstance(second, Pair)
        return Pair(
            super().where(condition, first.real, second.real),
            super().where(condition, first.imag, second.imag),
        )


def _is_complex(operand: Scalar) -> bool:
    return isinstance(operand, (Pair, complex, np.complexfloating))


# ------------------------------------------------------------------------------- NumPy's formulas


def _sum(m: PairLanes, x: Pair, y: Pair) -> Value:
    return Pair(x.real + y.real, x.imag + y.imag)


def _difference(m: PairLanes, x: Pair, y: Pair) -> Value:
    return Pair(x.real - y.real, x.imag - y.imag)


def _product(m: PairLanes, x: Pair, y: Pair) -> Value:
    """The product as NumPy's loops over arrays have it: fused where the processor can."""
    first, second = x.imag * y.imag, x.imag * y.real
    if m.lines.arithmetic.fuses:
        return Pair(
            m.intrinsic("fma", x.real, y.real, -first), m.intrinsic("fma", x.real, y.imag, second)
        )
    return Pair(x.real * y.real - first, x.real * y.imag + second)


def _quotient(m: PairLanes, x: Pair, y: Pair) -> Value:
    """The quotient by Smith's method, which divides the lesser part of y by the greater.

    R. L. Smith, "Algorithm 116: complex division", Communications of the ACM, 1962.
    """
    is_real = abs(y.real) >= abs(y.imag)
    greater, lesser = m.where(is_real, y.real, y.imag), m.where(is_real, y.imag, y.real)
    ratio = lesser / greater
    scale = 1 / (greater + lesser * ratio)
    along, across = m.where(is_real, x.real, x.imag), m.where(is_real, x.imag, x.real)
    turned = along * ratio
    less, by = m.where(is_real, across, turned), m.where(is_real, turned, across)
    real, imag = (along + across * ratio) * scale, (less - by) * scale
    is_zero = is_real & (greater == 0)
    return Pair(m.where(is_zero, x.real * np.inf, real), m.where(is_zero, x.imag * np.inf, imag))


def _reciprocal(m: PairLanes, x: Pair) -> Value:
    is_real = abs(x.imag) <= abs(x.real)
    greater, lesser = m.where(is_real, x.real, x.imag), m.where(is_real, x.imag, x.real)
    ratio = lesser / greater
    size = lesser * ratio + greater
    one = m.constant(1, x.real.dtype)
    real, imag = m.where(is_real, one, ratio), m.where(is_real, ratio, one)
    return Pair(real / size, -imag / size)


def raised(m: PairLanes, x: Pair, exponent: int) -> Value:
    """A power with a whole exponent, by the products that NumPy takes, which are not fused."""

    def product(x: Pair, y: Pair) -> Pair:
        first, second = x.real * y.real, x.imag * y.imag
        return Pair(first - second, x.real * y.imag + x.imag * y.real)

    one, is_zero = paired(parts_of(m.constant(1, x.dtype))), m.equal(x, 0)
    if exponent == 0:
        return one
    total: Value
    if exponent in (1, 2, 3):
        total = (x, product(x, x), product(x, product(x, x)))[exponent - 1]
    else:
        total, power = one, x
        for place in range(abs(exponent).bit_length()):
            power = product(power, power) if place else x
            total = product(total, power) if abs(exponent) >> place & 1 else total
    if exponent > 0:
        return m.where(is_zero, m.constant(0, x.dtype), total)
    undefined = m.constant(complex(np.nan, np.nan), x.dtype)
    return m.where(is_zero, undefined, _quotient(m, one, total))


_Formula: TypeAlias = "Callable[[PairLanes, Pair, Pair], Value]"

_ARITHMETIC: Final[Mapping[np.ufunc, _Formula]] = MappingProxyType(
    {np.add: _sum, np.subtract: _difference, np.multiply: _product, np.divide: _quotient}
)
