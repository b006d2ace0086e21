"""Formulas as instructions: the algebra whose values are vectors in registers.

``Lanes`` has the names of ``funcgrad._core.intrinsics``, so any formula of an operation can be read
with it. Python's operators on values, and the functions here, convert operands as NumPy does and
write an instruction. Whatever has none raises ``NotEmitted``, and the operation is then done by
NumPy's own code. Complex numbers are computed by NumPy's formulas for their parts
(`complex_functions.py`), so that infinities, NaN and the signs of zeros are NumPy's.

>>> import numpy as np
>>> from funcgrad._backends.native.function_text import FunctionText
>>> m = Lanes(FunctionText(), width=8)
>>> x = Value("%x", np.dtype(np.float32), m)
>>> y = m.maximum(x * 2.0, 0)
>>> y.dtype, y.kind
(dtype('float32'), '<8 x float>')
>>> z = m.join_parts(x, y) * 2
>>> z.dtype, m.real(z).kind
(dtype('complex64'), '<8 x float>')
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._backends.native.complex_arithmetic import ARITHMETIC, inverted
from funcgrad._backends.native.instructions import (
    Builder,
    NotEmitted,
    Pair,
    Scalar,
    Value,
    element_type,
    paired,
    part_of,
    parts_of,
)

_BOOL: Final = np.dtype(np.bool_)
_HALF: Final = np.dtype(np.float16)
_PYTHON: Final[Mapping[str, type[Any]]] = MappingProxyType(
    {"i": int, "u": int, "f": float, "c": complex}
)


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

_COMPARISONS: Final = frozenset(
    {np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal}
)
_OF_TWO: Final[Mapping[str, np.ufunc]] = MappingProxyType(
    {ufunc.__name__: ufunc for ufunc in INSTRUCTIONS}
)
_OF_ONE: Final[Mapping[str, np.ufunc]] = MappingProxyType(
    {f.__name__: f for f in (np.sqrt, np.floor, np.trunc, np.rint)}
)
"""Functions that are one instruction, by their names in formulas."""


class Lanes(Builder):
    """The algebra whose values are vectors of some lanes."""

    __slots__ = ()

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
        """A value in another dtype; a complex number becomes real by its real part."""
        if not isinstance(x, Value):
            return self.constant(x, dtype)
        if isinstance(x, Pair):
            parts = [self.astype(component, part_of(dtype)) for component in parts_of(x)]
            if dtype.kind == "b":
                return parts[0] | parts[1]
            return paired(parts) if dtype.kind == "c" else parts[0]
        if dtype.kind == "c":
            component = part_of(dtype)
            return Pair(self.astype(x, component), self.constant(0, component))
        source, target = x.dtype, dtype
        integers = source.kind in "iu" and target.kind in "iu"
        if source == target or (integers and source.itemsize == target.itemsize):
            return Value(x.text, target, self)
        if target.kind == "b":
            return self.compare(np.not_equal, x, self.constant(0, source))
        if target == _HALF:
            return self.as_half(x)
        if source == _HALF and x.kind == self.kind(element_type(target)):
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
        return self.cast(word, x, target)

    def as_half(self, x: Value) -> Value:
        """A value rounded to half precision."""
        raise NotEmitted("half precision")

    def rounded(self, x: Value) -> Value:
        """Round a result of half precision, which is computed in float32; others stay."""
        return self.as_half(x) if x.dtype == _HALF else x

    def real(self, x: Scalar) -> Value:
        return parts_of(self.astype(x, np.result_type(example(x))))[0]

    def imag(self, x: Scalar) -> Value:
        value = self.astype(x, np.result_type(example(x)))
        return value.imag if isinstance(value, Pair) else self.constant(0, value.dtype)

    def join_parts(self, x: Scalar, y: Scalar) -> Value:
        """The number with these parts."""
        component = part_of(np.result_type(np.result_type(example(x), example(y)), np.complex64))
        return Pair(self.astype(x, component), self.astype(y, component))

    # -------------------------------------------------------------------------------- arithmetic

    def apply(self, ufunc: np.ufunc, *operands: Scalar) -> Value:
        """One of NumPy's functions: an instruction, or a method."""
        if ufunc in _COMPARISONS:
            return self.compare(ufunc, *operands)
        if ufunc in INSTRUCTIONS:
            return self.combined(ufunc, *operands)
        return getattr(self, ufunc.__name__)(*operands)

    def combined(self, ufunc: np.ufunc, x: Scalar, y: Scalar) -> Value:
        """Two operands by one instruction; complex numbers by a formula."""
        a, b = self.converted(ufunc, x, y)
        if isinstance(a, Pair):
            return ARITHMETIC[ufunc](self, a, b)
        word = INSTRUCTIONS[ufunc][a.dtype.kind]
        return self.rounded(self.value(f"{word} {a.kind} {a.text}, {b.text}", a.dtype))

    def square(self, x: Scalar) -> Value:
        (a,) = self.converted(np.square, x)
        return self.combined(np.multiply, a, a)

    def reciprocal(self, x: Scalar) -> Value:
        (a,) = self.converted(np.reciprocal, x)
        if isinstance(a, Pair):
            return inverted(self, a)
        if a.dtype.kind != "f":
            raise NotEmitted("the reciprocal of an integer")
        return self.combined(np.divide, self.constant(1, a.dtype), a)

    def negative(self, x: Scalar) -> Value:
        (a,) = self.converted(np.negative, x)
        if isinstance(a, Pair):
            return Pair(-a.real, -a.imag)
        if a.dtype.kind == "f":
            return self.value(f"fneg {a.kind} {a.text}", a.dtype)
        return self.value(f"sub {a.kind} {self.constant(0, a.dtype).text}, {a.text}", a.dtype)

    def absolute(self, x: Scalar) -> Value:
        (a,) = self.converted(np.absolute, x)
        if isinstance(a, Pair):
            return self.hypot(a.real, a.imag)
        if a.dtype.kind == "f":
            return self.intrinsic("fabs", a)
        return self.where(a < 0, -a, a) if a.dtype.kind == "i" else a

    def by_llvm(self, ufunc: np.ufunc, x: Scalar) -> Value:
        """A function of one operand that LLVM has by NumPy's name."""
        (a,) = self.converted(ufunc, x)
        if isinstance(a, Pair):
            if ufunc is not np.rint:
                raise NotEmitted(f"{ufunc.__name__} of complex numbers")
            return Pair(self.by_llvm(ufunc, a.real), self.by_llvm(ufunc, a.imag))
        return self.rounded(self.intrinsic(ufunc.__name__, a)) if a.dtype.kind == "f" else a

    def copysign(self, x: Scalar, y: Scalar) -> Value:
        return self.intrinsic("copysign", *self.converted(np.copysign, x, y))

    # ---------------------------------------------------------------------- comparison and choice

    def compare(self, ufunc: np.ufunc, x: Scalar, y: Scalar) -> Value:
        """One of NumPy's six comparisons; complex numbers are equal, or are not."""
        a, b = self.converted(ufunc, x, y)
        if isinstance(a, Pair):
            if ufunc not in (np.equal, np.not_equal):
                raise NotEmitted("an order of complex numbers")
            pairs = zip(parts_of(a), parts_of(b), strict=True)
            real, imag = [self.compare(ufunc, one, other) for one, other in pairs]
            return real & imag if ufunc is np.equal else real | imag
        if a.dtype.kind in "iu" and a.dtype != b.dtype:
            return self._compare_mixed(ufunc, a, b)
        word = INSTRUCTIONS[ufunc][a.dtype.kind]
        return self.value(f"{word} {a.kind} {a.text}, {b.text}", _BOOL)

    def _compare_mixed(self, ufunc: np.ufunc, a: Value, b: Value) -> Value:
        """Compare integers with and without sign: negative ones are less than all others."""
        plain = self.value(f"{INSTRUCTIONS[ufunc]['u']} {a.kind} {a.text}, {b.text}", _BOOL)
        signed = a if a.dtype.kind == "i" else b
        negative = self.compare(np.less, signed, self.constant(0, signed.dtype))
        answer = bool(ufunc(-1, 0) if signed is a else ufunc(0, -1))
        return self.where(negative, self.constant(answer, _BOOL), plain)

    def isnan(self, x: Scalar) -> Value:
        (a,) = self.converted(np.isnan, x)
        return a != a

    def isinf(self, x: Scalar) -> Value:
        (a,) = self.converted(np.isinf, x)
        if isinstance(a, Pair):
            return self.isinf(a.real) | self.isinf(a.imag)
        return abs(a) == np.inf if a.dtype.kind == "f" else self.constant(False, _BOOL)

    def isfinite(self, x: Scalar) -> Value:
        (a,) = self.converted(np.isfinite, x)
        if isinstance(a, Pair):
            return self.isfinite(a.real) & self.isfinite(a.imag)
        return abs(a) < np.inf if a.dtype.kind == "f" else self.constant(True, _BOOL)

    def maximum(self, x: Scalar, y: Scalar) -> Value:
        return self._extremum(np.maximum, np.greater_equal, x, y)

    def minimum(self, x: Scalar, y: Scalar) -> Value:
        return self._extremum(np.minimum, np.less_equal, x, y)

    def _extremum(self, ufunc: np.ufunc, better: np.ufunc, x: Scalar, y: Scalar) -> Value:
        """The first where it is better or NaN; of two that are equal, the first."""
        a, b = self.converted(ufunc, x, y)
        first = self.compare(better, a, b)
        return self.where(first | (a != a) if a.dtype.kind == "f" else first, a, b)

    def where(self, condition: Scalar, x: Scalar, y: Scalar) -> Value:
        dtype = x.dtype if isinstance(x, Value) else None
        if dtype is None or not isinstance(y, Value) or y.dtype != dtype:
            dtype = np.result_type(*[example(operand) for operand in (x, y)])
        mask, a, b = self.astype(condition, _BOOL), self.astype(x, dtype), self.astype(y, dtype)
        return self.select(mask, a, b)

    def in_active_lanes(self, after: Value, before: Value) -> Value:
        """One value in the lanes that are active, and another one in the others."""
        mask = self.active_lanes()
        return self.where(Value(mask, _BOOL, self), after, before) if mask else after

    # ---------------------------------------------------------------------------------------- bits

    def left_shift(self, x: Scalar, y: Scalar) -> Value:
        return self._shifted(np.left_shift, x, y)

    def right_shift(self, x: Scalar, y: Scalar) -> Value:
        return self._shifted(np.right_shift, x, y)

    def _shifted(self, ufunc: np.ufunc, x: Scalar, y: Scalar) -> Value:
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

    def invert(self, x: Scalar) -> Value:
        (a,) = self.converted(np.invert, x)
        ones = np.invert(np.zeros((), a.dtype)).item()
        return a ^ self.constant(ones, a.dtype)

    def __getattr__(self, name: str) -> Callable[..., Value]:
        """Find an intrinsic that is one instruction; refuse one that has none."""
        if name in _OF_TWO:
            return partial(self.apply, _OF_TWO[name])
        if name in _OF_ONE:
            return partial(self.by_llvm, _OF_ONE[name])
        raise NotEmitted(f"no instructions for {name}")


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
