"""Vectors of integers: quotients, remainders, powers, which wrap as NumPy's do, and of floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from funcgrad._backends.native.lanes import Lanes, NotEmitted, Scalar, Value


def from_float(m: Lanes, x: Value, dtype: np.dtype[Any]) -> Value:
    """A float as an integer, by the rule of ``intrinsics.whole``."""
    bits = 32 if dtype.itemsize < 4 or dtype == np.int32 else 64
    wide, bound = np.dtype(f"i{bits // 8}"), 2.0 ** (bits - 1)
    turned = None
    if dtype == np.uint64:
        beyond = x >= bound
        turned = m.where(beyond, m.constant(-(2**63), wide), m.constant(0, wide))
        x = m.where(beyond, x - bound, x)
    least = m.constant(-bound, x.dtype)
    safe = m.where(m.compare(np.less, m.absolute(x), -least), x, least)
    whole = m.value(f"fptosi {x.kind} {safe.text} to {m.kind(f'i{bits}')}", wide)
    return m.astype(whole if turned is None else whole ^ turned, dtype)


def divided(m: Lanes, ufunc: np.ufunc, x: Scalar, y: Scalar) -> tuple[Value, Value, Value]:
    """The quotient of integers that is cut off, its remainder, and the divisor that was taken.

    Where the divisor is 0 it is 0 and nothing is left. The least integer over -1 is itself.
    """
    a, b = m.converted(ufunc, x, y)
    if a.dtype.kind not in "iu" or a.dtype != b.dtype:
        raise NotEmitted(f"a quotient of {a.dtype}")
    nothing = m.equal(b, m.constant(0, b.dtype))
    refused = nothing
    if a.dtype.kind == "i":
        least = m.constant(np.iinfo(a.dtype).min, a.dtype)
        refused = refused | (m.equal(a, least) & m.equal(b, m.constant(-1, a.dtype)))
    divisor = m.where(refused, m.constant(1, b.dtype), b)
    sign = "s" if a.dtype.kind == "i" else "u"
    zero = m.constant(0, a.dtype)
    quotient = m.value(f"{sign}div {a.kind} {a.text}, {divisor.text}", a.dtype)
    left = m.value(f"{sign}rem {a.kind} {a.text}, {divisor.text}", a.dtype)
    return m.where(nothing, zero, quotient), m.where(nothing, zero, left), divisor


def floor_divided(m: Lanes, x: Scalar, y: Scalar) -> Value:
    """The quotient of integers rounded down."""
    quotient, left, divisor = divided(m, np.floor_divide, x, y)
    if quotient.dtype.kind == "u":
        return quotient
    leans = (left != 0) & ((left < 0) ^ (divisor < 0))
    return m.where(leans, quotient - 1, quotient)


def raised(m: Lanes, x: Value, exponent: int) -> Value:
    """A power of integers whose exponent is known, by squares."""
    result, square = m.constant(1, x.dtype), x
    while exponent:
        if exponent & 1:
            result = m.multiply(result, square)
        exponent >>= 1
        square = m.multiply(square, square)
    return result


def greatest_common_divisor(m: Lanes, x: Value, y: Value) -> Value:
    """Euclid's algorithm for two numbers."""
    lines, dtype = m.lines, x.dtype
    unsigned = np.dtype(f"u{dtype.itemsize}")
    a, b = [m.astype(m.absolute(value), unsigned) for value in (x, y)]
    before, head, body, after = lines.block, *map(lines.fresh_label, ("euclid", "again", "divisor"))
    lines.jump(head)
    lines.begin_block(head)
    first, second, left = lines.name(), lines.name(), lines.name()
    lines.emit(f"{first} = phi {a.kind} [{a.text}, %{before}], [{second}, %{body}]")
    lines.emit(f"{second} = phi {a.kind} [{b.text}, %{before}], [{left}, %{body}]")
    lines.branch(lines.op(f"icmp eq {a.kind} {second}, 0"), after, body)
    lines.begin_block(body)
    lines.emit(f"{left} = urem {a.kind} {first}, {second}")
    lines.jump(head)
    lines.begin_block(after)
    return Value(first, dtype, m)


def remainder_by_c(m: Lanes, x: Value, y: Value) -> Value:
    """The remainder of two floats, which is exact, by the C library."""
    name, kind = ("fmod", "double") if x.dtype.itemsize == 8 else ("fmodf", "float")
    return Value(m.lines.call(kind, name, (kind, x.text), (kind, y.text)), x.dtype, m)
