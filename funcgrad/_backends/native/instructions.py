"""The builder of instructions: values in registers, and the code that all of them share.

A value is a vector of some lanes, or a scalar where there is one lane; it has a dtype and the name
that LLVM knows it by. A complex number is a pair of values: the real parts in one register, the
imaginary parts in another. ``Builder`` names values, and writes constants, calls of LLVM's
functions, moves between lanes, loads and stores. The algebra of formulas stands on it (`lanes.py`).

>>> from funcgrad._backends.native.function_text import FunctionText
>>> lines = FunctionText()
>>> b = Builder(lines, width=4)
>>> x = b.load("%source", np.dtype(np.float32))
>>> b.store("%target", b.shuffled(x, [3, 2, 1, 0]))
>>> print(lines.function("define void @reverse(ptr %source, ptr %target)"))
define void @reverse(ptr %source, ptr %target) {
entry:
  br label %start
start:
  %v1 = load <4 x float>, ptr %source, align 4
  %v2 = shufflevector <4 x float> %v1, <4 x float> poison, <4 x i32> <i32 3, i32 2, i32 1, i32 0>
  store <4 x float> %v2, ptr %target, align 4
}
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Self, TypeAlias

import numpy as np

from funcgrad._backends.native.function_text import FunctionText

Scalar: TypeAlias = "Value | bool | int | float | complex"
"""A value, or a number that is known: Python's is weak."""

Operator: TypeAlias = "Callable[[Value, Scalar], Value]"

Number: TypeAlias = "bool | int | float | complex | np.generic[Any]"

_BOOL: Final = np.dtype(np.bool_)
_HALF: Final = np.dtype(np.float16)

COSTLY: Final = ("call", "div", "rem")
"""The instructions that take less time on a vector of four than on four scalars."""

# Half precision is computed in float32, and rounded after each operation, as NumPy does.
_FLOATS: Final[Mapping[str, str]] = MappingProxyType({"e": "float", "f": "float", "d": "double"})
_IN_MEMORY: Final[Mapping[str, str]] = MappingProxyType(
    {"?": "i8", "e": "half", "F": "[2 x float]", "D": "[2 x double]"}
)


class NotEmitted(Exception):  # noqa: N818 - it asks for another step, and no error is shown
    """No instructions exist for an operation on operands of these dtypes."""


def element_type(dtype: np.dtype[Any]) -> str:
    """The LLVM type of an element in a register.

    >>> element_type(np.dtype(bool)), element_type(np.dtype(np.uint16))
    ('i1', 'i16')
    """
    if dtype.kind == "b":
        return "i1"
    if dtype.kind in "iu":
        return f"i{8 * dtype.itemsize}"
    if dtype.char not in _FLOATS:
        raise NotEmitted(f"elements of {dtype}")
    return _FLOATS[dtype.char]


def memory_type(dtype: np.dtype[Any]) -> str:
    """The LLVM type of an element in memory, where a boolean is a byte.

    >>> memory_type(np.dtype(bool)), memory_type(np.dtype(np.complex64))
    ('i8', '[2 x float]')
    """
    return _IN_MEMORY.get(dtype.char) or element_type(dtype)


def literal(number: Number, dtype: np.dtype[Any]) -> str:
    """A number as LLVM writes it.

    >>> literal(1.5, np.dtype(np.float32)), literal(-1, np.dtype(np.int8))
    ('0x3FF8000000000000', '-1')
    """
    if dtype.kind == "f":
        with np.errstate(all="ignore"):
            rounded = float(dtype.type(number))
        return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
    if dtype.kind == "b":
        return "true" if number else "false"
    return str(int(dtype.type(number)))


def part_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype that a register holds: for complex elements, the dtype of their parts."""
    return np.dtype(dtype.char.lower()) if dtype.kind == "c" else dtype


def _operator(ufunc: np.ufunc) -> tuple[Operator, Operator]:
    """An operator of values, and the one for an operand on the left that is known."""

    def operator(x: Value, y: Scalar) -> Value:
        return x.lanes.apply(ufunc, x, y)

    def reflected(x: Value, y: Scalar) -> Value:
        return x.lanes.apply(ufunc, y, x)

    return operator, reflected


class Value:
    """A vector in a register, or a scalar where there is one lane.

    Attributes
    ----------
    text : str
        Its name, or a literal.
    dtype : dtype
    weak : bool
        Whether it is a Python number, whose dtype gives way to an array's.
    """

    __slots__ = ("dtype", "lanes", "text", "weak")

    def __init__(self, text: str, dtype: np.dtype[Any], lanes: Builder, weak: bool = False) -> None:
        self.text, self.dtype, self.lanes, self.weak = text, dtype, lanes, weak

    @property
    def kind(self) -> str:
        """Its LLVM type."""
        return self.lanes.kind(element_type(self.dtype))

    __add__, __radd__ = _operator(np.add)
    __sub__, __rsub__ = _operator(np.subtract)
    __mul__, __rmul__ = _operator(np.multiply)
    __truediv__, __rtruediv__ = _operator(np.divide)
    __floordiv__, __rfloordiv__ = _operator(np.floor_divide)
    __mod__, __rmod__ = _operator(np.remainder)
    _power, __rpow__ = _operator(np.power)
    __and__, __rand__ = _operator(np.bitwise_and)
    __or__, __ror__ = _operator(np.bitwise_or)
    __xor__, __rxor__ = _operator(np.bitwise_xor)
    __lshift__, __rlshift__ = _operator(np.left_shift)
    __rshift__, __rrshift__ = _operator(np.right_shift)
    __lt__, _ = _operator(np.less)
    __le__, _ = _operator(np.less_equal)
    __gt__, _ = _operator(np.greater)
    __ge__, _ = _operator(np.greater_equal)

    def __eq__(self, other: Scalar) -> Value:  # type: ignore[override]  # a value of the algebra
        return self.lanes.apply(np.equal, self, other)

    def __ne__(self, other: Scalar) -> Value:  # type: ignore[override]
        return self.lanes.apply(np.not_equal, self, other)

    def __pow__(self, other: Scalar) -> Value:
        is_square = type(other) is int and other == 2
        return self.lanes.apply(np.square, self) if is_square else self._power(other)

    def __pos__(self) -> Value:
        return self

    def __neg__(self) -> Value:
        return self.lanes.apply(np.negative, self)

    def __abs__(self) -> Value:
        return self.lanes.apply(np.absolute, self)

    def __invert__(self) -> Value:
        return self.lanes.apply(np.invert, self)

    __hash__ = None  # type: ignore[assignment]  # a comparison is a value of the algebra

    def __bool__(self) -> bool:
        raise NotEmitted("a choice by a number that is not known yet")


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


def like(value: Value, texts: Iterator[str]) -> Value:
    """A value of the dtype of another, in registers with other names."""
    parts = [Value(next(texts), component.dtype, value.lanes) for component in parts_of(value)]
    return paired(parts) if len(parts) == 2 else parts[0]


def paired(parts: Iterable[Value]) -> Pair:
    """The complex numbers with these parts."""
    real, imag = parts
    return Pair(real, imag)


class Builder:
    """Writes instructions on vectors of some lanes.

    Attributes
    ----------
    lines : FunctionText
        The function that instructions go to.
    width, active : int
        The number of lanes; with one, values are scalars. How many of them memory has.
    """

    __slots__ = ("_resolved", "_single", "active", "lines", "width")

    def __init__(self, lines: FunctionText, width: int, active: int | None = None) -> None:
        self.lines, self.width = lines, width
        self.active = width if active is None else active
        self._resolved: dict[Any, tuple[np.dtype[Any], ...]] = {}
        self._single: Self | None = None

    @property
    def single(self) -> Self:
        """The builder of scalars in the same function."""
        if self.width == 1:  # an object that held itself would wait for the garbage collector
            return self
        if self._single is None:
            self._single = type(self)(self.lines, 1)
        return self._single

    def apply(self, ufunc: np.ufunc, *operands: Scalar) -> Value:
        """One of NumPy's functions, as the operators of values ask for it."""
        raise NotEmitted(f"no instructions for {ufunc.__name__}")

    # ------------------------------------------------------------------------- types and constants

    def kind(self, element: str) -> str:
        """The LLVM type of a vector of elements of a type."""
        return element if self.width == 1 else f"<{self.width} x {element}>"

    def suffix(self, dtype: np.dtype[Any]) -> str:
        """The end of the name of an LLVM function on such vectors."""
        short = {"float": "f32", "double": "f64"}.get(element_type(dtype)) or element_type(dtype)
        return short if self.width == 1 else f"v{self.width}{short}"

    def constant(self, number: Number, dtype: np.dtype[Any]) -> Value:
        """A constant in every lane."""
        if dtype.kind == "c":
            z = complex(number)
            return paired([self.constant(x, part_of(dtype)) for x in (z.real, z.imag)])
        text = literal(number, dtype)
        if self.width > 1:
            text = f"splat ({element_type(dtype)} {text})"
        return Value(text, dtype, self)

    def value(self, instruction: str, dtype: np.dtype[Any]) -> Value:
        """Write an instruction whose result is a value."""
        return Value(self.lines.shared(instruction), dtype, self)

    def cast(self, word: str, x: Value, dtype: np.dtype[Any]) -> Value:
        """Write a conversion, such as ``fpext`` or ``bitcast``."""
        return self.value(f"{word} {x.kind} {x.text} to {self.kind(element_type(dtype))}", dtype)

    def intrinsic(self, name: str, *values: Value) -> Value:
        """Call a function of LLVM's, of values of one dtype, which its result has as well."""
        kind = values[0].kind
        function = f"llvm.{name}.{self.suffix(values[0].dtype)}"
        arguments = [(kind, value.text) for value in values]
        return Value(self.lines.call(kind, function, *arguments), values[0].dtype, self)

    def select(self, condition: Value, x: Value, y: Value) -> Value:
        """One value where a condition holds, in each lane or in all, and another one elsewhere."""
        if isinstance(x, Pair):
            pairs = zip(parts_of(x), parts_of(y), strict=True)
            return paired([self.select(condition, one, other) for one, other in pairs])
        operands = f"{x.kind} {x.text}, {y.kind} {y.text}"
        return self.value(f"select {condition.kind} {condition.text}, {operands}", x.dtype)

    # ------------------------------------------------------------------------------------- lanes

    def splat(self, x: Value) -> Value:
        """A scalar in every lane."""
        if isinstance(x, Pair):
            return Pair(self.splat(x.real), self.splat(x.imag))
        if self.width == 1:
            return Value(x.text, x.dtype, self)
        element, kind = x.kind, self.kind(x.kind)
        first = self.lines.op(f"insertelement {kind} poison, {element} {x.text}, i32 0")
        zeros = f"<{self.width} x i32> zeroinitializer"
        return self.value(f"shufflevector {kind} {first}, {kind} poison, {zeros}", x.dtype)

    def listed(self, numbers: Sequence[int], dtype: np.dtype[Any]) -> Value:
        """Known constants, one for each lane."""
        texts = [literal(number, dtype) for number in numbers]
        if self.width == 1:
            return Value(texts[0], dtype, self)
        listed = ", ".join([f"{element_type(dtype)} {text}" for text in texts])
        return Value(f"<{listed}>", dtype, self)

    def lane(self, x: Value, place: int) -> Value:
        """One element of a vector, as a scalar."""
        if isinstance(x, Pair):
            return Pair(self.lane(x.real, place), self.lane(x.imag, place))
        text = x.text
        if x.lanes.width > 1:
            text = self.lines.op(f"extractelement {x.kind} {text}, i32 {place}")
        return Value(text, x.dtype, self.single)

    def with_lane(self, x: Value, place: int, number: Value) -> Value:
        """A vector with another element at a place."""
        if isinstance(x, Pair):
            real, imag = parts_of(number)
            parts = self.with_lane(x.real, place, real), self.with_lane(x.imag, place, imag)
            return paired(parts)
        text = number.text
        if self.width > 1:
            text = self.lines.op(
                f"insertelement {x.kind} {x.text}, {number.kind} {text}, i32 {place}"
            )
        return Value(text, x.dtype, self)

    def shuffled(self, x: Value, places: Sequence[int], y: Value | None = None) -> Value:
        """Elements of a vector, or of two; the elements of the second count from the width on."""
        if isinstance(x, Pair):
            return Pair(self.shuffled(x.real, places), self.shuffled(x.imag, places))
        listed = ", ".join([f"i32 {place}" for place in places])
        operands = f"{x.kind} {x.text}, {x.kind} {'poison' if y is None else y.text}"
        mask = f"<{len(places)} x i32> <{listed}>"
        return self.value(f"shufflevector {operands}, {mask}", x.dtype)

    def every(self, truths: Value) -> Value:
        """Whether a truth value holds in all lanes."""
        if self.width == 1:
            return truths
        bits = self.lines.op(f"bitcast {truths.kind} {truths.text} to i{self.width}")
        return self.single.value(f"icmp eq i{self.width} {bits}, -1", _BOOL)

    # ------------------------------------------------------------------------------------- memory

    def load(
        self, place: str, dtype: np.dtype[Any], offset: str | int = 0, mask: str = ""
    ) -> Value:
        """Read elements that lie side by side: active lanes, or where a mask holds; else zeros.

        Parameters
        ----------
        place : str
        dtype : dtype
        offset : str or int
            How many elements behind the place they lie.
        mask : str
        """
        place = self.lines.address(place, offset, memory_type(dtype))
        if dtype.kind == "c":
            return self._load_pairs(place, part_of(dtype))
        kind = self.kind(memory_type(dtype))
        text = self.read(place, kind, dtype.itemsize, mask or self.active_lanes())
        if dtype == _HALF:
            return self.value(f"fpext {kind} {text} to {self.kind('float')}", dtype)
        if dtype.kind != "b":
            return Value(text, dtype, self)
        zero = "0" if self.width == 1 else "zeroinitializer"
        return self.value(f"icmp ne {kind} {text}, {zero}", dtype)

    def store(self, place: str, value: Value, offset: str | int = 0, mask: str = "") -> None:
        """Write elements side by side, as ``load`` reads them."""
        place = self.lines.address(place, offset, memory_type(value.dtype))
        if isinstance(value, Pair):
            self._store_pairs(place, value)
            return
        if self.active == 1 < self.width and not mask:
            # LLVM 22 makes a masked store of one lane one of a scalar, and writes all bytes that a
            # number had before it became narrower.
            self.single.store(place, self.lane(value, 0))
            return
        kind, text = self.kind(memory_type(value.dtype)), value.text
        if value.dtype == _HALF:
            text = self.lines.op(f"fptrunc {value.kind} {text} to {kind}")
        elif value.dtype.kind == "b":
            text = self.lines.op(f"zext {value.kind} {text} to {kind}")
        self.write(place, kind, text, value.dtype.itemsize, mask or self.active_lanes())

    def gathered(self, place: str, dtype: np.dtype[Any], stride: int) -> Value:
        """Read elements with a stride, into active lanes."""
        vector = self.constant(0, dtype)
        for lane in range(self.active):
            number = self.single.load(place, dtype, lane * stride)
            vector = self.with_lane(vector, lane, number)
        return vector

    def scattered(self, place: str, value: Value, stride: int) -> None:
        """Write the elements of active lanes with a stride."""
        for lane in range(self.active):
            self.single.store(place, self.lane(value, lane), lane * stride)

    def active_lanes(self, parts: int = 1) -> str:
        """A mask of the active lanes, so many elements each; empty where all lanes are active."""
        if self.active == self.width:
            return ""
        truths = [lane // parts < self.active for lane in range(parts * self.width)]
        return f"<{', '.join([f'i1 {str(truth).lower()}' for truth in truths])}>"

    def read(self, place: str, kind: str, align: int, mask: str) -> str:
        """Write a load of a type, of all elements or of some."""
        if mask:
            return self.lines.masked_load(kind, place, mask, align)
        return self.lines.op(f"load {kind}, ptr {place}, align {align}")

    def write(self, place: str, kind: str, text: str, align: int, mask: str) -> None:
        """Write a store of a type, of all elements or of some."""
        if mask:
            self.lines.masked_store(kind, text, place, mask, align)
        else:
            self.lines.emit(f"store {kind} {text}, ptr {place}, align {align}")

    def _load_pairs(self, place: str, component: np.dtype[Any]) -> Value:
        """Read complex numbers: both parts of all of them, which are then taken apart."""
        width, element = self.width, element_type(component)
        if width == 1:
            return paired([self.load(place, component, k) for k in range(2)])
        kind, mask = f"<{2 * width} x {element}>", self.active_lanes(parts=2)
        both = Value(self.read(place, kind, component.itemsize, mask), component, self._twice)
        return paired([some_lanes(self, both, range(k, 2 * width, 2)) for k in range(2)])

    def _store_pairs(self, place: str, value: Pair) -> None:
        """Write complex numbers: their parts take turns in memory."""
        width, component = self.width, value.real.dtype
        if width == 1:
            for k, number in enumerate(parts_of(value)):
                self.store(place, number, k)
            return
        turns = [k // 2 + width * (k % 2) for k in range(2 * width)]
        both = self._twice.shuffled(value.real, turns, value.imag)
        self.write(place, both.kind, both.text, component.itemsize, self.active_lanes(parts=2))

    @property
    def _twice(self) -> Self:
        return type(self)(self.lines, 2 * self.width)


def some_lanes(lanes: Builder, vector: Value, places: Sequence[int]) -> Value:
    """Some lanes of a vector: as many as these registers have."""
    if lanes.width == 1:
        return lanes.lane(vector, places[0])
    return lanes.shuffled(vector, places)


def unknown(lanes: Builder, dtype: np.dtype[Any], weak: bool = False) -> Value:
    """Some value of a dtype, for a draft."""
    component = Value("%x", part_of(dtype), lanes, weak)
    return Pair(component, component, weak) if dtype.kind == "c" else component
