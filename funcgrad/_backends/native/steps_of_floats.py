"""Exponents and neighbours of floating-point numbers in vectors, exact to the last bit."""

from __future__ import annotations

import math

import numpy as np

from funcgrad._backends.native.floats import Floats
from funcgrad._backends.native.lanes import Value


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
