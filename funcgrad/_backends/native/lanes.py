"""Formulas as instructions: the algebra whose values are vectors in registers.

``Lanes`` has the names of ``funcgrad._core.intrinsics``, so any formula of an operation can be read
with it. A value is the name of an LLVM value with a dtype; Python's operators on values, and the
functions here, convert operands as NumPy does and write an instruction. Whatever has none raises
``NotEmitted``, and the operation is then done by NumPy's own code.

>>> import numpy as np
>>> from funcgrad._backends.native.function_text import FunctionText
>>> lines = FunctionText()
>>> m = Lanes(lines, width=8)
>>> x = Value("%x", np.dtype(np.float32), m)
>>> y = m.maximum(x * 2.0, 0)
>>> y.dtype, y.kind
(dtype('float32'), '<8 x float>')
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._backends.native.function_text import FunctionText

Scalar: TypeAlias = "Value | bool | int | float | complex"
"""A value, or a number that is known: Python's is weak."""

Number: TypeAlias = "bool | int | float | complex | np.generic[Any]"

# Half precision is computed in float32, and rounded after each operation, as NumPy does.
_FLOATS: Final[Mapping[str, str]] = MappingProxyType({"e": "float", "f": "float", "d": "double"})
_IN_MEMORY: Final[Mapping[str, str]] = MappingProxyType(
    {"?": "i8", "e": "half", "F": "[2 x float]", "D": "[2 x double]"}
)
_PYTHON: Final[Mapping[str, type[Any]]] = MappingProxyType(
    {"i": int, "u": int, "f": float, "c": complex}
)


class NotEmitted(Exception):  # noqa: N818 - it says what to do, and is no error
    """There are no instructions for an operation on operands of these dtypes."""


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

    def __init__(self, text: str, dtype: np.dtype[Any], lanes: Lanes, weak: bool = False) -> None:
        self.text, self.dtype, self.lanes, self.weak = text, dtype, lanes, weak

    @property
    def kind(self) -> str:
        """Its LLVM type."""
        return self.lanes.kind(element_type(self.dtype))

    def __add__(self, other: Scalar) -> Value:
        return self.lanes.add(self, other)

    def __radd__(self, other: Scalar) -> Value:
        return self.lanes.add(other, self)

    def __sub__(self, other: Scalar) -> Value:
        return self.lanes.subtract(self, other)

    def __rsub__(self, other: Scalar) -> Value:
        return self.lanes.subtract(other, self)

    def __mul__(self, other: Scalar) -> Value:
        return self.lanes.multiply(self, other)

    def __rmul__(self, other: Scalar) -> Value:
        return self.lanes.multiply(other, self)

    def __truediv__(self, other: Scalar) -> Value:
        return self.lanes.divide(self, other)

    def __rtruediv__(self, other: Scalar) -> Value:
        return self.lanes.divide(other, self)

    def __pow__(self, other: Scalar) -> Value:
        if type(other) is int and other == 2:
            return self.lanes.square(self)
        return self.lanes.power(self, other)

    def __rpow__(self, other: Scalar) -> Value:
        return self.lanes.power(other, self)

    def __pos__(self) -> Value:
        return self

    def __neg__(self) -> Value:
        return self.lanes.negative(self)

    def __abs__(self) -> Value:
        return self.lanes.absolute(self)

    def __invert__(self) -> Value:
        return self.lanes.invert(self)

    def __and__(self, other: Scalar) -> Value:
        return self.lanes.combined(np.bitwise_and, self, other)

    def __or__(self, other: Scalar) -> Value:
        return self.lanes.combined(np.bitwise_or, self, other)

    def __xor__(self, other: Scalar) -> Value:
        return self.lanes.combined(np.bitwise_xor, self, other)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __lshift__(self, other: Scalar) -> Value:
        return self.lanes.shifted(np.left_shift, self, other)

    def __rshift__(self, other: Scalar) -> Value:
        return self.lanes.shifted(np.right_shift, self, other)

    def __rlshift__(self, other: Scalar) -> Value:
        return self.lanes.shifted(np.left_shift, other, self)

    def __rrshift__(self, other: Scalar) -> Value:
        return self.lanes.shifted(np.right_shift, other, self)

    def __floordiv__(self, other: Scalar) -> Value:
        return self.lanes.floor_divide(self, other)

    def __rfloordiv__(self, other: Scalar) -> Value:
        return self.lanes.floor_divide(other, self)

    def __mod__(self, other: Scalar) -> Value:
        raise NotEmitted("a remainder that is not that of a formula")

    __rmod__ = __mod__

    def __lt__(self, other: Scalar) -> Value:
        return self.lanes.compare(np.less, self, other)

    def __le__(self, other: Scalar) -> Value:
        return self.lanes.compare(np.less_equal, self, other)

    def __gt__(self, other: Scalar) -> Value:
        return self.lanes.compare(np.greater, self, other)

    def __ge__(self, other: Scalar) -> Value:
        return self.lanes.compare(np.greater_equal, self, other)

    def __eq__(self, other: Scalar) -> Value:  # type: ignore[override]  # of the algebra
        return self.lanes.compare(np.equal, self, other)

    def __ne__(self, other: Scalar) -> Value:  # type: ignore[override]
        return self.lanes.compare(np.not_equal, self, other)

    __hash__ = None  # type: ignore[assignment]  # a comparison is a value of the algebra

    def __bool__(self) -> bool:
        raise NotEmitted("a choice by a number that is not known yet")


def _words(floats: str, signed: str, unsigned: str, truths: str) -> Mapping[str, str]:
    words = {"f": floats, "i": signed, "u": unsigned, "b": truths}
    return MappingProxyType({kind: word for kind, word in words.items() if word})


INSTRUCTIONS: Final[Mapping[np.ufunc, Mapping[str, str]]] = MappingProxyType(
    {
        np.add: _words("fadd", "add", "add", "or"),
        np.subtract: _words("fsub", "sub", "sub", ""),
        np.multiply: _words("fmul", "mul", "mul", "and"),
        np.divide: _words("fdiv", "", "", ""),
        np.bitwise_and: _words("", "and", "and", "and"),
        np.bitwise_or: _words("", "or", "or", "or"),
        np.bitwise_xor: _words("", "xor", "xor", "xor"),
        np.less: _words("fcmp olt", "icmp slt", "icmp ult", "icmp ult"),
        np.less_equal: _words("fcmp ole", "icmp sle", "icmp ule", "icmp ule"),
        np.greater: _words("fcmp ogt", "icmp sgt", "icmp ugt", "icmp ugt"),
        np.greater_equal: _words("fcmp oge", "icmp sge", "icmp uge", "icmp uge"),
        np.equal: _words("fcmp oeq", "icmp eq", "icmp eq", "icmp eq"),
        np.not_equal: _words("fcmp une", "icmp ne", "icmp ne", "icmp ne"),
    }
)
"""The instruction of an operation on two vectors: for floats, signed and unsigned integers, truth
values."""


class Lanes:
    """The algebra whose values are vectors of some lanes.

    Attributes
    ----------
    lines : FunctionText
        What is written goes here.
    width, active : int
        The number of lanes; with one, values are scalars. How many of them memory has.
    """

    __slots__ = ("_resolved", "active", "lines", "width")

    def __init__(self, lines: FunctionText, width: int, active: int | None = None) -> None:
        self.lines, self.width = lines, width
        self.active = width if active is None else active
        self._resolved: dict[Any, tuple[np.dtype[Any], ...]] = {}

    # ------------------------------------------------------------------------- types and constants

    def kind(self, element: str) -> str:
        """The LLVM type of a vector of elements of a type."""
        return element if self.width == 1 else f"<{self.width} x {element}>"

    def suffix(self, dtype: np.dtype[Any]) -> str:
        """The end of the name of an LLVM function on such vectors."""
        short = {"float": "f32", "double": "f64"}.get(element_type(dtype)) or element_type(dtype)
        return short if self.width == 1 else f"v{self.width}{short}"

    def constant(self, number: Number, dtype: np.dtype[Any]) -> Value:
        """A number in every lane."""
        text = literal(number, dtype)
        if self.width > 1:
            text = f"splat ({element_type(dtype)} {text})"
        return Value(text, dtype, self)

    def value(self, instruction: str, dtype: np.dtype[Any]) -> Value:
        """Write an instruction whose result is a value."""
        return Value(self.lines.shared(instruction), dtype, self)

    def intrinsic(self, name: str, *values: Value) -> Value:
        """Call a function of LLVM's, of values of one dtype, which its result has as well."""
        kind = values[0].kind
        function = f"llvm.{name}.{self.suffix(values[0].dtype)}"
        arguments = [(kind, value.text) for value in values]
        return Value(self.lines.call(kind, function, *arguments), values[0].dtype, self)

    # --------------------------------------------------------------------------------- promotion

    def converted(self, ufunc: np.ufunc, *operands: Scalar) -> list[Value]:
        """The operands in the dtypes in which a ufunc takes them; Python numbers are weak."""
        kinds = tuple([_kind_of(operand) for operand in operands])
        known = self._resolved.get((ufunc, kinds))
        if known is None:
            all_weak = all(isinstance(kind, type) for kind in kinds)
            asked = [np.dtype(kind) if all_weak else kind for kind in kinds]
            try:
                dtypes = ufunc.resolve_dtypes((*asked, *(None,) * ufunc.nout))
            except TypeError as error:
                raise NotEmitted(f"{ufunc.__name__}: {error}") from None
            known = self._resolved[ufunc, kinds] = tuple(dtypes[: len(operands)])
        return [self.astype(operand, dtype) for operand, dtype in zip(operands, known, strict=True)]

    def astype(self, x: Scalar, dtype: np.dtype[Any]) -> Value:
        """A value in another dtype."""
        if not isinstance(x, Value):
            return self.constant(x, dtype)
        source, target = x.dtype, dtype
        integers = source.kind in "iu" and target.kind in "iu"
        if source == target or (integers and source.itemsize == target.itemsize):
            return Value(x.text, target, self)
        if target.kind == "b":
            return self.compare(np.not_equal, x, self.constant(0, source))
        kind, wanted = x.kind, self.kind(element_type(target))
        if target == _HALF:
            return self.as_half(x)
        if kind == wanted and source == _HALF:
            return Value(x.text, target, self)
        if source.kind == "f" and target.kind == "f":
            word = "fpext" if target.itemsize > source.itemsize else "fptrunc"
        elif source.kind == "f":
            raise NotEmitted("an integer of a float")
        elif target.kind == "f":
            word = "sitofp" if source.kind == "i" else "uitofp"
        elif source.kind != "b" and target.itemsize < source.itemsize:
            word = "trunc"
        else:
            word = "sext" if source.kind == "i" else "zext"
        return self.value(f"{word} {kind} {x.text} to {wanted}", target)

    def as_half(self, x: Value) -> Value:
        """A value rounded to half precision."""
        raise NotEmitted("half precision")

    def rounded(self, x: Value) -> Value:
        """Round what an operation in half precision has computed in float32; others are."""
        return self.as_half(x) if x.dtype == _HALF else x

    # -------------------------------------------------------------------------------- arithmetic

    def combined(self, ufunc: np.ufunc, x: Scalar, y: Scalar) -> Value:
        """Two operands by one instruction."""
        a, b = self.converted(ufunc, x, y)
        word = INSTRUCTIONS[ufunc][a.dtype.kind]
        return self.rounded(self.value(f"{word} {a.kind} {a.text}, {b.text}", a.dtype))

    def add(self, x: Scalar, y: Scalar) -> Value:
        return self.combined(np.add, x, y)

    def subtract(self, x: Scalar, y: Scalar) -> Value:
        return self.combined(np.subtract, x, y)

    def multiply(self, x: Scalar, y: Scalar) -> Value:
        return self.combined(np.multiply, x, y)

    def divide(self, x: Scalar, y: Scalar) -> Value:
        return self.combined(np.divide, x, y)

    def square(self, x: Scalar) -> Value:
        (a,) = self.converted(np.square, x)
        return self.multiply(a, a)

    def reciprocal(self, x: Scalar) -> Value:
        (a,) = self.converted(np.reciprocal, x)
        if a.dtype.kind != "f":
            raise NotEmitted("the reciprocal of an integer")
        return self.divide(self.constant(1, a.dtype), a)

    def negative(self, x: Scalar) -> Value:
        (a,) = self.converted(np.negative, x)
        if a.dtype.kind == "f":
            return self.value(f"fneg {a.kind} {a.text}", a.dtype)
        return self.value(f"sub {a.kind} {self.constant(0, a.dtype).text}, {a.text}", a.dtype)

    def absolute(self, x: Scalar) -> Value:
        (a,) = self.converted(np.absolute, x)
        if a.dtype.kind == "f":
            return self.intrinsic("fabs", a)
        if a.dtype.kind != "i":
            return a
        return self.where(self.compare(np.less, a, 0), self.negative(a), a)

    def _rounded(self, ufunc: np.ufunc, name: str, x: Scalar) -> Value:
        (a,) = self.converted(ufunc, x)
        return self.rounded(self.intrinsic(name, a)) if a.dtype.kind == "f" else a

    def sqrt(self, x: Scalar) -> Value:
        return self._rounded(np.sqrt, "sqrt", x)

    def floor(self, x: Scalar) -> Value:
        return self._rounded(np.floor, "floor", x)

    def trunc(self, x: Scalar) -> Value:
        return self._rounded(np.trunc, "trunc", x)

    def rint(self, x: Scalar) -> Value:
        return self._rounded(np.rint, "rint", x)

    def copysign(self, x: Scalar, y: Scalar) -> Value:
        return self.intrinsic("copysign", *self.converted(np.copysign, x, y))

    # ---------------------------------------------------------------------- comparison and choice

    def compare(self, ufunc: np.ufunc, x: Scalar, y: Scalar) -> Value:
        """One of NumPy's six comparisons."""
        a, b = self.converted(ufunc, x, y)
        if a.dtype.kind in "iu" and a.dtype != b.dtype:
            return self._compare_mixed(ufunc, a, b)
        word = INSTRUCTIONS[ufunc][a.dtype.kind]
        return self.value(f"{word} {a.kind} {a.text}, {b.text}", _BOOL)

    def _compare_mixed(self, ufunc: np.ufunc, a: Value, b: Value) -> Value:
        """Compare integers with and without sign: numbers below 0 are less than all others."""
        plain = self.value(f"{INSTRUCTIONS[ufunc]['u']} {a.kind} {a.text}, {b.text}", _BOOL)
        signed = a if a.dtype.kind == "i" else b
        negative = self.compare(np.less, signed, self.constant(0, signed.dtype))
        answer = bool(ufunc(-1, 0) if signed is a else ufunc(0, -1))
        return self.where(negative, self.constant(answer, _BOOL), plain)

    def equal(self, x: Scalar, y: Scalar) -> Value:
        return self.compare(np.equal, x, y)

    def isnan(self, x: Scalar) -> Value:
        (a,) = self.converted(np.isnan, x)
        return self.compare(np.not_equal, a, a)

    def isinf(self, x: Scalar) -> Value:
        (a,) = self.converted(np.isinf, x)
        if a.dtype.kind != "f":
            return self.constant(False, _BOOL)
        return self.compare(np.equal, self.absolute(a), np.inf)

    def isfinite(self, x: Scalar) -> Value:
        (a,) = self.converted(np.isfinite, x)
        if a.dtype.kind != "f":
            return self.constant(True, _BOOL)
        return self.compare(np.less, self.absolute(a), np.inf)

    def _extremum(self, ufunc: np.ufunc, better: np.ufunc, x: Scalar, y: Scalar) -> Value:
        """The first where it is better or NaN; of two that are equal, the first."""
        a, b = self.converted(ufunc, x, y)
        first = self.compare(better, a, b)
        if a.dtype.kind == "f":
            first = self.combined(np.bitwise_or, first, self.compare(np.not_equal, a, a))
        return self.where(first, a, b)

    def maximum(self, x: Scalar, y: Scalar) -> Value:
        return self._extremum(np.maximum, np.greater_equal, x, y)

    def minimum(self, x: Scalar, y: Scalar) -> Value:
        return self._extremum(np.minimum, np.less_equal, x, y)

    def where(self, condition: Scalar, x: Scalar, y: Scalar) -> Value:
        dtype = x.dtype if isinstance(x, Value) else None
        if dtype is None or not isinstance(y, Value) or y.dtype != dtype:
            dtype = np.result_type(*[example(operand) for operand in (x, y)])
        mask, a, b = self.astype(condition, _BOOL), self.astype(x, dtype), self.astype(y, dtype)
        return self.value(
            f"select {mask.kind} {mask.text}, {a.kind} {a.text}, {b.kind} {b.text}", dtype
        )

    # ---------------------------------------------------------------------------------------- bits

    def shifted(self, ufunc: np.ufunc, x: Scalar, y: Scalar) -> Value:
        """A shift of bits; by as many as there are, or more, it leaves none but signs."""
        a, b = self.converted(ufunc, x, y)
        size = 8 * a.dtype.itemsize
        unsigned = np.dtype(f"u{a.dtype.itemsize}")
        inside = self.compare(np.less, self.astype(b, unsigned), self.constant(size, unsigned))
        by = self.where(inside, b, self.constant(size - 1, b.dtype))
        if ufunc is np.right_shift and a.dtype.kind == "i":
            return self.value(f"ashr {a.kind} {a.text}, {by.text}", a.dtype)
        word = "shl" if ufunc is np.left_shift else "lshr"
        moved = self.value(f"{word} {a.kind} {a.text}, {by.text}", a.dtype)
        return self.where(inside, moved, self.constant(0, a.dtype))

    def invert(self, x: Value) -> Value:
        (a,) = self.converted(np.invert, x)
        ones = np.invert(np.zeros((), a.dtype)).item()
        return self.combined(np.bitwise_xor, a, self.constant(ones, a.dtype))

    def __getattr__(self, name: str) -> Callable[..., Value]:
        """Refuse an intrinsic that has no instructions."""
        raise NotEmitted(f"no instructions for {name}")


_BOOL: Final = np.dtype(np.bool_)
_HALF: Final = np.dtype(np.float16)


def _kind_of(operand: Scalar) -> Any:
    """The dtype of an operand, or the Python type of a weak one; a truth value is never weak."""
    if isinstance(operand, Value):
        weak = operand.weak and operand.dtype.kind != "b"
        return _PYTHON[operand.dtype.kind] if weak else operand.dtype
    if type(operand) in (int, float, complex):
        return type(operand)
    return np.dtype(type(operand))


def example(operand: Scalar) -> Any:
    """A number or a dtype that promotes as an operand does."""
    kind = _kind_of(operand)
    return kind(0) if isinstance(kind, type) else kind
