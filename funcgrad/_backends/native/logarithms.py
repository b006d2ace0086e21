"""Logarithms of vectors, and the inverse hyperbolic functions, which are logarithms.

A number is ``2**k m`` with m close to 1, and ``log(m)`` is a polynomial in the square of
``(m - 1) / (m + 1)``. It is a float and a small remainder, so that other bases lose no digits.
"""

from __future__ import annotations

import math

from funcgrad._backends.native.floats import Floats
from funcgrad._backends.native.lanes import Value


def _near_one(f: Floats, x: Value, low: Value | None = None) -> tuple[Value, Value]:
    """``log(1 + x + low)`` as a float and a small remainder, for x from -0.3 to 0.42."""
    ratio = x / (x + 2.0)
    square = ratio * ratio
    half = 0.5 * x * x
    high = x - half
    remainder = ((x - high) - half) + ratio * f.fma(square, f.polynomial("log", square), half)
    if low is not None:  # over 1 + x, which is (1 + ratio) / (1 - ratio)
        remainder = f.fma(low, f.fma(ratio, ratio + ratio - 2.0, 1.0), remainder)
    return high, remainder


def _with_exponent(f: Floats, k: Value, high: Value, remainder: Value) -> Value:
    """``k log(2) + high + remainder``."""
    large, small = f.pieces("log(2)")
    total, error = f.fast_two_sum(k * large, high)
    return total + (error + f.fma(k, small, remainder))


def _where_positive(f: Floats, x: Value, result: Value) -> Value:
    """A logarithm with its values at 0, at infinity, and of numbers below 0."""
    m = f.lanes
    at_edge = m.where(x == 0.0, f.number(-math.inf), m.where(x < 0.0, f.number(math.nan), x))
    return m.where((x > 0.0) & (x < math.inf), result, at_edge)


def logarithm_of_positive(f: Floats, x: Value) -> Value:
    """The natural logarithm of positive numbers."""
    k, fraction = f.split(x)
    return _with_exponent(f, k, *_near_one(f, fraction - 1.0))


def log(f: Floats, x: Value) -> Value:
    """The natural logarithm."""
    return _where_positive(f, x, logarithm_of_positive(f, x))


def _in_base(f: Floats, x: Value, factor: str, unit: tuple[float, float]) -> Value:
    k, fraction = f.split(x)
    high, remainder = _near_one(f, fraction - 1.0)
    large, small = f.pieces(factor)
    product, error = f.two_product(high, f.number(large))
    error = error + f.fma(high, small, remainder * large)
    total, lost = f.fast_two_sum(k * unit[0], product)
    return _where_positive(f, x, total + (lost + f.fma(k, unit[1], error)))


def log2(f: Floats, x: Value) -> Value:
    """The logarithm to base 2."""
    return _in_base(f, x, "1/log(2)", (1.0, 0.0))


def log10(f: Floats, x: Value) -> Value:
    """The logarithm to base 10."""
    high, low = f.pieces("log10(2)")
    return _in_base(f, x, "1/log(10)", (high, low))


def _of_sum(f: Floats, x: Value, low: Value, doubled: Value | None = None) -> Value:
    """``log(x + low)`` for a number x above 0.5 and a low part that is small beside it.

    Parameters
    ----------
    doubled : Value, optional
        0 or 1: the logarithm of the number times 2 to this power.
    """
    m = f.lanes
    k, fraction = f.split(x, subnormal=False)
    bounded = m.where(k > 64.0, f.number(64.0), k)  # then the low part is far below one digit
    scale = f.power_of_two(f.bits(f.shifter - bounded))
    high, remainder = _near_one(f, *f.two_sum(fraction - 1.0, low * scale))
    return _with_exponent(f, k if doubled is None else k + doubled, high, remainder)


def _of_one_plus(f: Floats, x: Value, low: Value | None = None) -> Value:
    """``log(1 + x + low)`` for x above -1, and no more than ``2**60``."""
    total, error = f.two_sum(f.number(1.0), x)
    return _of_sum(f, total, error if low is None else error + low)


def log1p(f: Floats, x: Value) -> Value:
    """``log(1 + x)``, without loss of digits near 0."""
    m = f.lanes
    far = x > 2.0**60
    total, error = f.two_sum(f.number(1.0), x)
    result = _of_sum(f, m.where(far, x, total), m.where(far, f.number(0.0), error))
    at_edge = m.where(x == -1.0, f.number(-math.inf), m.where(x < -1.0, f.number(math.nan), x))
    inside = (x > -1.0) & (x < math.inf) & (m.absolute(x) > 2.0**-60)
    return m.where(inside, result, at_edge)


def arcsinh(f: Floats, x: Value) -> Value:
    """The inverse of the hyperbolic sine: ``log(x + sqrt(x**2 + 1))``."""
    m = f.lanes
    size = m.absolute(x)
    far = size > 2.0**30
    near = m.where(far, f.number(1.0), size)
    square = near * near
    bend = square / (1.0 + m.sqrt(1.0 + square))
    high, low = f.fast_two_sum(near, bend)
    total, error = f.two_sum(f.number(1.0), high)
    zero = f.number(0.0)
    result = _of_sum(
        f,
        m.where(far, size, total),
        m.where(far, zero, error + low),
        m.where(far, f.number(1.0), zero),
    )
    unchanged = (size < 2.0**-30) | (size == math.inf) | (x != x)
    return m.where(unchanged, x, m.copysign(result, x))


def arccosh(f: Floats, x: Value) -> Value:
    """The inverse of the hyperbolic cosine: ``log(x + sqrt(x**2 - 1))``."""
    m = f.lanes
    far = x > 2.0**30
    near = m.where(far, f.number(1.0), x)
    below, below_low = f.two_sum(near, f.number(-1.0))
    above, above_low = f.two_sum(near, f.number(1.0))
    square, error = f.two_product(below, above)
    error = error + (below * above_low + above * below_low)
    root = m.sqrt(square)
    back, back_error = f.two_product(root, root)
    correction = (((square - back) - back_error) + error) / (root + root)
    correction = m.where(root == 0.0, f.number(0.0), correction)
    high, low = f.two_sum(root, below)
    total, lost = f.two_sum(f.number(1.0), high)
    zero = f.number(0.0)
    result = _of_sum(
        f,
        m.where(far, x, total),
        m.where(far, zero, lost + (low + (correction + below_low))),
        m.where(far, f.number(1.0), zero),
    )
    at_edge = m.where(x < 1.0, f.number(math.nan), x)
    return m.where((x >= 1.0) & (x < math.inf), result, at_edge)


def arctanh(f: Floats, x: Value) -> Value:
    """The inverse of the hyperbolic tangent: ``log((1 + x) / (1 - x)) / 2``."""
    m = f.lanes
    size = m.absolute(x)
    near = m.where(size < 1.0, size, f.number(0.0))
    below, low = f.fast_two_sum(f.number(1.0), -near)
    ratio, remainder = f.quotient((near + near, None), (below, low))
    result = 0.5 * _of_one_plus(f, ratio, remainder)
    at_edge = m.where(size == 1.0, f.number(math.inf), f.number(math.nan))
    result = m.copysign(m.where(size < 1.0, result, at_edge), x)
    return m.where((size < 2.0**-30) | (x != x), x, result)
