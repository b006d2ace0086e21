"""Vectors of integers, which wrap as NumPy's do; exponents and neighbours of floats."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from funcgrad._backends.native.floats import Floats
from funcgrad._backends.native.instructions import NotEmitted, Scalar, Value
from funcgrad._backends.native.lanes import Lanes


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
    """Euclid's algorithm for two integers."""
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


def scaled_by(f: Floats, x: Value, exponent: Value) -> Value:
    """``x * 2**exponent``, rounded once.

    Where the result may be subnormal, steps before the last keep x so large that they are exact.
    """
    m, most = f.lanes, np.finfo(f.dtype).maxexp
    integers = np.dtype(f"i{f.dtype.itemsize}")
    bound = m.constant(4 * most, exponent.dtype)
    exponent = m.where(exponent > bound, bound, exponent)
    exponent = m.astype(m.where(exponent < -bound, -bound, exponent), integers)
    zero = m.constant(0, integers)
    up, down = most - 1, most - 2 - f.digits - 1
    for _ in range(2):
        high, low = exponent > most - 1, exponent < 2 - most
        factor = m.where(high, f.number(2.0**up), f.number(1.0))
        x = x * m.where(low, f.number(2.0**-down), factor)
        exponent = exponent - m.where(high, zero + up, m.where(low, zero - down, zero))
    exponent = m.where(exponent > most - 1, zero + (most - 1), exponent)
    exponent = m.where(exponent < 2 - most, zero + (2 - most), exponent)
    return x * f.power_of_two(m.astype(exponent, f.integers))


def taken_apart(f: Floats, x: Value) -> tuple[Value, Value]:
    """The fraction, from 1/2 on and below 1, and the exponent; 0 of infinity and NaN."""
    m = f.lanes
    size = m.absolute(x)
    tiny = size < float(np.finfo(f.dtype).smallest_normal)
    larger = m.where(tiny, x * 2.0 ** (f.digits + 2), x)
    bits = f.bits(larger)
    mask = (1 << (8 * f.dtype.itemsize - f.digits - 1)) - 1
    integers = np.dtype(f"i{f.dtype.itemsize}")
    field = m.astype(f.shifted("lshr", bits, f.digits) & mask, integers)
    zero = m.constant(0, integers)
    exponent = field - (mask >> 1) + 1 - m.where(tiny, zero + (f.digits + 2), zero)
    signed = (bits & (f.bits_of(-0.0) | ((1 << f.digits) - 1))) | f.bits_of(0.5)
    plain = (size > 0.0) & (size < math.inf)
    return m.where(plain, f.of_bits(signed), x), m.where(plain, exponent, zero)


def neighbour(f: Floats, x: Value, y: Value) -> Value:
    """The next number from x towards y."""
    m = f.lanes
    bits = f.bits(x)
    one = m.constant(1, f.integers)
    away = (x < y) ^ (x < 0.0)
    moved = f.of_bits(m.where(away, bits + one, bits - one))
    least = m.copysign(f.of_bits(one + 0), y)
    result = m.where(x == 0.0, least, moved)
    return m.where(x == y, y, m.where((x != x) | (y != y), x + y, result))
