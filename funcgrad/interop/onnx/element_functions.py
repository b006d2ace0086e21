"""NumPy functions as nodes: each is one ONNX operator, or several.

A function here takes the algebra and operands in the dtype of NumPy's loop, and returns the element
of the result in the dtype of that loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad.interop.onnx.series import arctan_series, clenshaw

ElementAlgebra: TypeAlias = Any
"""The algebra of a graph (``element_algebra.py``), one layer up."""

Element: TypeAlias = Any
"""A value of that algebra."""

_BOOL: Final = np.dtype(np.bool_)
_UNSIGNED: Final = MappingProxyType({4: np.dtype(np.uint32), 8: np.dtype(np.uint64)})

Writer: TypeAlias = Callable[..., Element]
"""``(algebra, *elements) -> element``: operands and result have the dtypes of NumPy's loop."""


def _direct(name: str) -> Writer:
    """An ONNX operator, in the dtype of its operands."""

    def write(m: ElementAlgebra, *operands: Element) -> Element:
        return m.nodes(name, operands[0].dtype, *operands)

    return write


def _wide(write: Writer) -> Writer:
    """Compute with short integers in int32, and with uint32 in int64.

    Not every runtime has operators for all integer dtypes; the conversion back wraps around.
    """

    def written(m: ElementAlgebra, *operands: Element) -> Element:
        dtype = operands[0].dtype
        wide = {1: np.int32, 2: np.int32, 4: np.int64}.get(dtype.itemsize)
        if dtype.kind not in "iu" or wide is None or dtype == np.int32:
            return write(m, *operands)
        return m.astype(write(m, *[m.astype(x, np.dtype(wide)) for x in operands]), dtype)

    return written


def _arithmetic(name: str, of_bools: str = "") -> Writer:
    """An operator for numeric dtypes, and another for booleans."""
    of_numbers, logical = _wide(_direct(name)), _direct(of_bools)

    def write(m: ElementAlgebra, *operands: Element) -> Element:
        if operands[0].dtype == _BOOL:
            return logical(m, *operands)
        if operands[0].dtype == np.uint64 and name in ("Add", "Mul", "Sub"):  # the bits of int64
            signed = [m.astype(x, np.dtype(np.int64)) for x in operands]
            return m.astype(m.nodes(name, signed[0].dtype, *signed), np.dtype(np.uint64))
        return of_numbers(m, *operands)

    return write


def _compared(name: str) -> Writer:
    def write(m: ElementAlgebra, x: Element, y: Element) -> Element:
        if (x.dtype.kind == "b" and name != "Equal") or (
            x.dtype.kind in "iu" and x.dtype.itemsize < 4
        ):
            x, y = [m.astype(number, np.dtype(np.int32)) for number in (x, y)]
        elif x.dtype == np.uint32:
            x, y = [m.astype(number, np.dtype(np.int64)) for number in (x, y)]
        elif x.dtype == np.uint64 and name != "Equal":  # as signed integers in the same order
            least = np.int64(-(2**63))
            x, y = [m.astype(number, np.dtype(np.int64)) ^ least for number in (x, y)]
        return m.nodes(name, _BOOL, x, y)

    return write


def _tested(name: str, of_others: bool) -> Writer:
    def write(m: ElementAlgebra, x: Element) -> Element:
        if x.dtype.kind in "biu":
            return m.element(m.writer.constant(np.full(x.shape, of_others)))
        return m.nodes(name, _BOOL, x)

    return write


def _not(m: ElementAlgebra, x: Element) -> Element:
    return m.nodes("Not", _BOOL, x)


def _bits(name: str, of_bools: str) -> Writer:
    def write(m: ElementAlgebra, *operands: Element) -> Element:
        dtype = operands[0].dtype
        return m.nodes(of_bools if dtype == _BOOL else name, dtype, *operands)

    return write


def _shifted(direction: str) -> Writer:
    """Shifts, which ONNX has only for unsigned integers: others are converted first."""

    def write(m: ElementAlgebra, x: Element, y: Element) -> Element:
        dtype = x.dtype
        if dtype.kind == "b" or dtype.itemsize < 4:  # in 32 bits
            wide = np.dtype(np.int32 if dtype.kind != "u" else np.uint32)
            return m.astype(write(m, m.astype(x, wide), m.astype(y, wide)), dtype)
        unsigned = _UNSIGNED[dtype.itemsize]
        fill = None
        if dtype.kind == "i" and direction == "RIGHT":
            fill = m.where(x < 0, dtype.type(-1), dtype.type(0))
            x = x ^ fill
        amount = m.astype(m.minimum(y, dtype.type(8 * dtype.itemsize - 1)), unsigned)
        out = m.nodes("BitShift", unsigned, m.astype(x, unsigned), amount, direction=direction)
        out = m.astype(out, dtype)
        if fill is not None:
            return out ^ fill
        return m.where(y < 8 * dtype.itemsize, out, dtype.type(0))

    return write


def _divided(m: ElementAlgebra, x: Element, y: Element) -> Element:
    return m.nodes("Div", x.dtype, x, y)


def _remainder_of_integers(m: ElementAlgebra, x: Element, y: Element, truncate: bool) -> Element:
    """A remainder; 0 for a zero divisor, as in NumPy."""
    safe = m.where(y == 0, x.dtype.type(1), y)
    return _wide(lambda m, a, b: m.nodes("Mod", a.dtype, a, b, fmod=int(truncate)))(m, x, safe)


def _fmod(m: ElementAlgebra, x: Element, y: Element) -> Element:
    if x.dtype.kind in "iu":
        return _remainder_of_integers(m, x, y, truncate=True)
    return m.nodes("Mod", x.dtype, x, y, fmod=1)


def _remainder(m: ElementAlgebra, x: Element, y: Element) -> Element:
    if x.dtype.kind in "iu":
        return _remainder_of_integers(m, x, y, truncate=False)
    out = m.fmod(x, y)
    moved = m.where((out != 0) & ((out < 0) != (y < 0)), out + y, out)
    return m.where(out == 0, m.copysign(x.dtype.type(0), y), moved)


def _floor_divided(m: ElementAlgebra, x: Element, y: Element) -> Element:
    """NumPy's quotient: subtract the remainder before dividing, so that it cannot round up."""
    if x.dtype.kind in "iu":
        safe = m.where(y == 0, x.dtype.type(1), y)
        whole = _wide(_divided)(m, x - _remainder(m, x, y), safe)
        return m.where(y == 0, x.dtype.type(0), whole)
    quotient = _divided(m, x, y)
    whole = _divided(m, x - _remainder(m, x, y), y)
    rounded = m.floor(whole)
    rounded = m.where(whole - rounded > 0.5, rounded + 1.0, rounded)
    rounded = m.where(whole == 0, m.copysign(x.dtype.type(0), quotient), rounded)
    return m.where(y == 0, quotient, rounded)


def _rounded(name: str) -> Writer:
    """Rounding, which leaves integers unchanged."""

    def write(m: ElementAlgebra, x: Element) -> Element:
        return x if x.dtype.kind in "biu" else m.nodes(name, x.dtype, x)

    return write


def _trunc(m: ElementAlgebra, x: Element) -> Element:
    return x if x.dtype.kind in "biu" else m.copysign(m.floor(abs(x)), x)


def _square(m: ElementAlgebra, x: Element) -> Element:
    return x * x


def _power(m: ElementAlgebra, x: Element, y: Element) -> Element:
    return _wide(_direct("Pow"))(m, x, y)


def _exp2(m: ElementAlgebra, x: Element) -> Element:
    return _direct("Pow")(m, m.astype(2.0, x.dtype), x)


def _expm1(m: ElementAlgebra, x: Element) -> Element:
    """Kahan's formula, after Higham, Accuracy and Stability of Numerical Algorithms, 1.14.1."""
    power = m.exp(x)
    less = power - 1.0
    near = less * (x / m.log(m.where((power == 1.0) | (power == 0.0), 2.0, power)))
    plain = (power == 0.0) | (abs(power) == np.inf)
    return m.where(power == 1.0, x, m.where(plain, less, near))


def _log1p(m: ElementAlgebra, x: Element) -> Element:
    """From the rounded sum; a ratio corrects its rounding error, as in ``expm1``."""
    more = 1.0 + x
    apart = more - 1.0
    plain = (more == np.inf) | (more == 0.0)
    ratio = x / m.where((apart == 0.0) | plain, 1.0, apart)
    return m.where(apart == 0.0, x, m.where(plain, m.log(more), m.log(more) * ratio))


def _logarithm(base: float) -> Writer:
    return lambda m, x: m.log(x) / float(np.log(base))


def _cbrt(m: ElementAlgebra, x: Element) -> Element:
    size = abs(x)
    plain = (size > 0) & (size < np.inf)
    safe = m.where(plain, size, 1.0)
    root = m.exp(m.log(safe) / 3.0)
    root = root - (root - safe / (root * root)) / 3.0  # a Newton step
    return m.where(plain, m.copysign(root, x), x)


def _hypot(m: ElementAlgebra, x: Element, y: Element) -> Element:
    x, y = abs(x), abs(y)
    great, small = m.maximum(x, y), m.minimum(x, y)
    plain = (great > 0) & (great < np.inf)
    ratio = small / m.where(plain, great, 1.0)
    length = m.where(plain, great * m.sqrt(1.0 + ratio * ratio), great)
    return m.where((x == np.inf) | (y == np.inf), np.inf, length)


def _signbit(m: ElementAlgebra, x: Element) -> Element:
    if x.dtype.kind in "iub":
        return x < 0
    return (x < 0) | ((x == 0) & (1.0 / x < 0))


def _copysign(m: ElementAlgebra, x: Element, y: Element) -> Element:
    return m.where(_signbit(m, x) == _signbit(m, y), x, -x)


def _arctan2(m: ElementAlgebra, y: Element, x: Element) -> Element:
    height, width = abs(y), abs(x)
    equal = height == width  # zeros and infinities, too
    angle = m.arctan(height / m.where(equal, 1.0, width))
    angle = m.where(equal, m.where(height == 0, 0.0, np.pi / 4), angle)
    return m.copysign(m.where(_signbit(m, x), np.pi - angle, angle), y)


def _ldexp(m: ElementAlgebra, x: Element, exponent: Element) -> Element:
    """In four steps, since the power of two may overflow where the product does not."""
    bounded = m.maximum(m.minimum(m.astype(exponent, np.dtype(np.int64)), 2200), -2200)
    quarter = m.trunc(m.astype(bounded, np.dtype(np.float64)) / 4.0)
    last = m.astype(bounded, np.dtype(np.float64)) - 3.0 * quarter
    dtype = np.dtype(np.float64) if x.dtype.itemsize < 8 else x.dtype
    out = m.astype(x, dtype)
    for step in (quarter, quarter, quarter, last):
        out = out * m.exp2(m.astype(step, dtype))
    return m.astype(out, x.dtype)


def _bitwise_count(m: ElementAlgebra, x: Element) -> Element:
    """Count the ones of a word in pairs, fours and eights, and sum these by a product."""
    word = np.uint64
    if x.dtype.kind == "i":
        x = abs(x)
    x = m.astype(x, np.dtype(word))
    x = x - ((x >> word(1)) & word(0x5555555555555555))
    x = (x & word(0x3333333333333333)) + ((x >> word(2)) & word(0x3333333333333333))
    x = (x + (x >> word(4))) & word(0x0F0F0F0F0F0F0F0F)
    return m.astype((x * word(0x0101010101010101)) >> word(56), np.dtype(np.uint8))


# ---------------------------------------------- float64, for which runtimes lack many functions


def _in_double(name: str, composed: Writer) -> Writer:
    """An ONNX operator; composed of others in float64, for which few runtimes have it."""
    direct = _direct(name)
    return lambda m, x: composed(m, x) if x.dtype == np.float64 else direct(m, x)


def _cosh(m: ElementAlgebra, x: Element) -> Element:
    """From the exponential of x / 2, so that it overflows only where the result does."""
    root = m.exp(abs(x) * 0.5)
    return 0.5 * root * root + 0.5 / root / root


def _sinh(m: ElementAlgebra, x: Element) -> Element:
    root = m.exp(abs(x) * 0.5)
    less = m.expm1(m.minimum(abs(x), 1.0))
    near = 0.5 * (less + less / (less + 1.0))
    return m.copysign(m.where(abs(x) < 1.0, near, 0.5 * root * root - 0.5 / root / root), x)


def _arctan(m: ElementAlgebra, x: Element) -> Element:
    size = abs(x)
    place = m.where(size > 1.0, 1.0 / m.maximum(size, 1.0), size)
    angle = place * clenshaw(arctan_series(), place * place)
    return m.copysign(m.where(size > 1.0, np.pi / 2 - angle, angle), x)


def _arcsinh(m: ElementAlgebra, x: Element) -> Element:
    size = abs(x)
    near = m.minimum(size, 1e8)
    out = m.log1p(near + near * (near / (1.0 + m.sqrt(1.0 + near * near))))
    return m.copysign(m.where(size > 1e8, m.log(m.maximum(size, 1.0)) + np.log(2.0), out), x)


def _arccosh(m: ElementAlgebra, x: Element) -> Element:
    near = m.minimum(x, 1e8) - 1.0
    out = m.log1p(near + m.sqrt(near * (near + 2.0)))
    return m.where(x > 1e8, m.log(m.maximum(x, 1.0)) + np.log(2.0), out)


def _arctanh(m: ElementAlgebra, x: Element) -> Element:
    size = abs(x)
    return m.copysign(0.5 * m.log1p(2.0 * size / (1.0 - size)), x)


def _arcsin(m: ElementAlgebra, x: Element) -> Element:
    return m.arctan2(x, m.sqrt((1.0 - x) * (1.0 + x)))


def _arccos(m: ElementAlgebra, x: Element) -> Element:
    return m.arctan2(m.sqrt((1.0 - x) * (1.0 + x)), x)


WRITERS: Final[Mapping[str, Writer]] = MappingProxyType(
    {
        "absolute": lambda m, x: x if x.dtype == _BOOL else _wide(_direct("Abs"))(m, x),
        "add": _arithmetic("Add", "Or"),
        "arccos": _in_double("Acos", _arccos),
        "arccosh": _in_double("Acosh", _arccosh),
        "arcsin": _in_double("Asin", _arcsin),
        "arcsinh": _in_double("Asinh", _arcsinh),
        "arctan": _in_double("Atan", _arctan),
        "arctan2": _arctan2,
        "arctanh": _in_double("Atanh", _arctanh),
        "bitwise_and": _bits("BitwiseAnd", "And"),
        "bitwise_count": _bitwise_count,
        "bitwise_or": _bits("BitwiseOr", "Or"),
        "bitwise_xor": _bits("BitwiseXor", "Xor"),
        "cbrt": _cbrt,
        "ceil": _rounded("Ceil"),
        "conjugate": lambda m, x: x,
        "copysign": _copysign,
        "cos": _direct("Cos"),
        "cosh": _in_double("Cosh", _cosh),
        "divide": _divided,
        "equal": _compared("Equal"),
        "exp": _direct("Exp"),
        "exp2": _exp2,
        "expm1": _expm1,
        "floor": _rounded("Floor"),
        "floor_divide": _floor_divided,
        "fmod": _fmod,
        "greater": _compared("Greater"),
        "greater_equal": _compared("GreaterOrEqual"),
        "hypot": _hypot,
        "invert": _bits("BitwiseNot", "Not"),
        "isfinite": lambda m, x: _not(m, m.isnan(x) | m.isinf(x)),
        "isinf": _tested("IsInf", False),
        "isnan": _tested("IsNaN", False),
        "ldexp": _ldexp,
        "left_shift": _shifted("LEFT"),
        "less": _compared("Less"),
        "less_equal": _compared("LessOrEqual"),
        "log": _direct("Log"),
        "log10": _logarithm(10.0),
        "log1p": _log1p,
        "log2": _logarithm(2.0),
        "logical_not": _not,
        "maximum": _arithmetic("Max", "Or"),
        "minimum": _arithmetic("Min", "And"),
        "multiply": _arithmetic("Mul", "And"),
        "negative": _wide(_direct("Neg")),
        "not_equal": lambda m, x, y: _not(m, x == y),
        "positive": lambda m, x: x,
        "power": _power,
        "reciprocal": lambda m, x: 1 / x,
        "remainder": _remainder,
        "right_shift": _shifted("RIGHT"),
        "rint": _rounded("Round"),
        "sign": _direct("Sign"),
        "signbit": _signbit,
        "sin": _direct("Sin"),
        "sinh": _in_double("Sinh", _sinh),
        "sqrt": _direct("Sqrt"),
        "square": _square,
        "subtract": _arithmetic("Sub"),
        "tan": _in_double("Tan", lambda m, x: m.sin(x) / m.cos(x)),
        "tanh": _direct("Tanh"),
        "trunc": _trunc,
    }
)
"""Writers by the names of NumPy functions."""
