"""Powers, cube roots and lengths of vectors."""

from __future__ import annotations

import math

import numpy as np

from funcgrad._backends.native.coefficients import PIECES
from funcgrad._backends.native.floats import Floats
from funcgrad._backends.native.hyperbolics import exp_of_sum
from funcgrad._backends.native.lanes import Value
from funcgrad._backends.native.logarithms import logarithm_of_positive


def cbrt(f: Floats, x: Value) -> Value:
    """The cube root, by Newton's method for its reciprocal."""
    m = f.lanes
    size = m.absolute(x)
    k, fraction = f.split(size)
    third, exponent = f.nearest_whole(k, 1 / 3)
    left = k - 3.0 * third  # -1, 0 or 1
    factor = m.where(left > 0.5, f.number(2.0), m.where(left < -0.5, f.number(0.5), f.number(1.0)))
    root = m.where(
        left > 0.5,
        f.number(2 ** (-1 / 3)),
        m.where(left < -0.5, f.number(2 ** (1 / 3)), f.number(1.0)),
    )
    a = fraction * factor
    inverse = f.polynomial("inverse_cbrt", fraction) * root
    for _ in range(2 if f.letter == "d" else 1):
        error = 1.0 - a * (inverse * inverse * inverse)
        inverse = f.fma(inverse * error, f.fma(error, 2 / 9, 1 / 3), inverse)
    y = a * (inverse * inverse)
    square, square_error = f.two_product(y, y)
    cube, cube_error = f.two_product(square, y)
    missing = ((a - cube) - cube_error) - square_error * y
    y = f.fma(missing, inverse * inverse * (1 / 3), y)
    result = m.copysign(y * f.power_of_two(exponent), x)
    return m.where((size > 0.0) & (size < math.inf), result, x)


def hypot(f: Floats, x: Value, y: Value) -> Value:
    """The length of a vector in the plane."""
    m = f.lanes
    x, y = m.absolute(x), m.absolute(y)
    swap = x < y
    large, small = m.where(swap, y, x), m.where(swap, x, y)
    bound = 2.0 ** (np.finfo(f.dtype).maxexp // 2 - 4)
    down, up = large > bound, large < 1 / bound
    factor = m.where(down, f.number(2.0**-600), m.where(up, f.number(2.0**600), f.number(1.0)))
    back = m.where(down, f.number(2.0**600), m.where(up, f.number(2.0**-600), f.number(1.0)))
    a, b = large * factor, small * factor
    a_square, a_error = f.two_product(a, a)
    b_square, b_error = f.two_product(b, b)
    total, error = f.fast_two_sum(a_square, b_square)
    root = m.sqrt(total)
    again, again_error = f.two_product(root, root)
    missing = ((total - again) - again_error) + (error + (a_error + b_error))
    length = (root + missing / (root + root)) * back
    length = m.where((large == 0.0) | (x != x) | (y != y), x + y, length)
    length = m.where((x == math.inf) | (y == math.inf), f.number(math.inf), length)
    return length


def _logarithm(f: Floats, x: Value) -> tuple[Value, Value]:
    """The logarithm of positive numbers to some 67 bits, as a sum."""
    k, fraction = f.split(x)
    near = fraction - 1.0
    s, s_low = f.quotient((near, None), f.fast_two_sum(f.number(2.0), near))
    z, error = f.two_product(s, s)
    z_low = f.fma(s + s, s_low, error)
    # log m = 2 s + s z (2/3 + z q(z)): the polynomial but for its first coefficient
    high, low = PIECES["2/3"]["d"]
    bend = f.polynomial("log beyond 2/3", z) * z
    first, lost = f.fast_two_sum(f.number(high), bend)
    lost = lost + low
    product, error = f.two_product(first, z)
    error = error + f.fma(first, z_low, lost * z)
    cubic, cubic_error = f.two_product(product, s)
    cubic_error = cubic_error + f.fma(product, s_low, error * s)
    large, middle = f.pieces("log(2)")
    total, lost = f.fast_two_sum(k * large, s + s)
    total, more = f.two_sum(total, cubic)
    remainder = (lost + more) + (f.fma(k, middle, s_low + s_low) + cubic_error)
    return f.fast_two_sum(total, remainder)


def power(f: Floats, x: Value, y: Value) -> Value:
    """``x**y`` in float64, as the C library's pow has it at edges."""
    m, one, zero = f.lanes, f.number(1.0), f.number(0.0)
    size = m.absolute(x)
    if f.letter == "d":
        high, low = _logarithm(f, size)
    else:  # float64 has digits enough for the logarithm of a float32
        f = Floats(m, f.dtype)
        high, low = logarithm_of_positive(f, size), zero
    y_bounded = m.where(m.absolute(y) < 2.0**70, y, m.copysign(f.number(2.0**70), y))
    exponent, error = f.two_product(high, y_bounded)
    error = f.fma(low, y_bounded, error)
    far = m.absolute(exponent) > 800.0
    result = exp_of_sum(f, exponent, m.where(far, zero, error))
    result = m.where((size == 1.0) & (y == y), one, result)
    grows = (size > 1.0) == (y > 0.0)
    infinite = f.number(math.inf)
    edge = (size == 0.0) | (size == math.inf) | (m.absolute(y) == math.inf)
    outer = m.where(size == 1.0, one, m.where(grows, infinite, zero))
    result = m.where(edge, outer, result)
    whole = m.trunc(y) == y
    half = y * 0.5
    odd = whole & (m.trunc(half) != half)
    negative = (f.bits(x) & f.bits_of(-0.0)) != 0
    refused = (x < 0.0) & (x != -math.inf) & (whole == False)  # noqa: E712 - of the algebra
    result = m.where(refused, f.number(math.nan), result)
    result = m.where(negative & odd & (m.absolute(y) < math.inf), -result, result)
    result = m.where((x != x) | (y != y), x + y, result)
    return m.where((y == 0.0) | (x == 1.0), one, result)
