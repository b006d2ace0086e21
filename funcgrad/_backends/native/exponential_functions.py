"""Exponentials, hyperbolic functions, logarithms, powers, and the error function, of vectors.

Exponentials and hyperbolic functions take x apart: ``x = n log(2) + r``, with a whole number n.
Then ``e**x`` is ``2**n`` times ``cosh(r) + sinh(r)``, and these are short polynomials in ``r**2``.

For logarithms, and the inverse hyperbolic functions, a number is ``2**k m`` with m close to 1, and
``log(m)`` is a polynomial in the square of ``(m - 1) / (m + 1)``. It is a float and a small
remainder, so that other bases, and powers, lose no digits.
"""

from __future__ import annotations

import math

import numpy as np

from funcgrad._backends.native.coefficients import PIECES
from funcgrad._backends.native.floats import Floats
from funcgrad._backends.native.instructions import Value
from funcgrad._base.fast_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class _ReducedExponent:
    """A number ``n log(2) + r``, and the hyperbolic functions of r.

    Attributes
    ----------
    n, r : Value
    tail : Value
        ``sinh(r) - r``, with the rounding error of r.
    bend : Value
        ``cosh(r) - 1``.
    """

    n: Value
    r: Value
    tail: Value
    bend: Value


def _parts(f: Floats, x: Value, low: Value | None = None) -> _ReducedExponent:
    """Take apart x, or x + low."""
    n, _ = f.nearest_whole(x, 1 / math.log(2))
    high, small = f.pieces("log(2)")
    near = f.fma(n, -high, x)
    r = f.fma(n, -small, near)
    lost = f.fma(n, -small, near - r)
    if low is not None:
        r, lost = f.fast_two_sum(r, lost + low)
    return _of_reduced(f, n, r, lost)


def _of_reduced(f: Floats, n: Value, r: Value, lost: Value) -> _ReducedExponent:
    square = r * r
    tail = f.fma(r * square, f.polynomial("sinh", square), lost)
    bend = f.fma(square * square, f.polynomial("cosh", square), 0.5 * square)
    return _ReducedExponent(n, r, tail, bend)


def _clamped(f: Floats, x: Value, least: float, greatest: float) -> Value:
    """x within bounds; NaN stays."""
    m = f.lanes
    x = m.where(x > greatest, f.number(greatest), x)
    return m.where(x < least, f.number(least), x)


def _raised(f: Floats, parts: _ReducedExponent) -> Value:
    """``e**(n log(2) + r)``."""
    total, remainder = _fraction(f, parts)
    return f.scaled(total + remainder, parts.n)


def _fraction(f: Floats, parts: _ReducedExponent) -> tuple[Value, Value]:
    """``e**r`` as a float and a remainder."""
    total, error = f.fast_two_sum(f.number(1.0), parts.r)
    return total, error + (parts.bend + parts.tail)


def exp(f: Floats, x: Value) -> Value:
    """The exponential function."""
    return _raised(f, _parts(f, _clamped(f, x, f.choose(-746.0, -105.0), f.choose(710.0, 89.0))))


def exp_of_sum(f: Floats, x: Value, low: Value) -> Value:
    """``e**(x + low)``, for a low part that is small beside 1."""
    return _raised(f, _parts(f, _clamped(f, x, -746.0, 710.0), low))


def exp_of_sum_in_parts(f: Floats, x: Value, low: Value) -> tuple[Value, Value, Value]:
    """``e**(x + low)`` as a float and a small remainder, over a power of two, and its exponent."""
    parts = _parts(f, x, low)
    return *f.fast_two_sum(*_fraction(f, parts)), parts.n


def exp2(f: Floats, x: Value) -> Value:
    """``2**x``."""
    x = _clamped(f, x, f.choose(-1076.0, -151.0), f.choose(1025.0, 129.0))
    n, _ = f.nearest_whole(x)
    fraction = x - n
    high, low = f.pieces("log(2), rounded")
    r, lost = f.two_product(fraction, f.number(high))
    return _raised(f, _of_reduced(f, n, r, f.fma(fraction, low, lost)))


def expm1(f: Floats, x: Value) -> Value:
    """``e**x - 1``, without loss of digits near 0."""
    m = f.lanes
    bounded = _clamped(f, x, f.choose(-40.0, -20.0), f.choose(710.0, 89.0))
    parts = _parts(f, bounded)
    small = f.bits(f.shifter - m.where(parts.n > 64.0, f.number(64.0), parts.n))
    base = 1.0 - f.power_of_two(small)
    total, error = f.fast_two_sum(base, parts.r)
    result = f.scaled(total + (error + (parts.bend + parts.tail)), parts.n)
    return m.where(x == 0.0, x, result)


@dataclass(frozen=True, slots=True)
class _Hyperbolic:
    """The hyperbolic functions of a number that is not less than 0, over ``2**(n-1)``, as sums of a
    float and something smaller."""

    n: Value
    sinh: tuple[Value, Value]
    cosh: tuple[Value, Value]


def _hyperbolic(f: Floats, x: Value) -> _Hyperbolic:
    parts = _parts(f, x)
    n = f.lanes.where(parts.n > 32.0, f.number(32.0), parts.n)  # 1 + 4**-32 is 1
    quarter = f.power_of_two(f.bits(f.fma(n, -2.0, f.shifter)))
    plus, minus = 1.0 + quarter, 1.0 - quarter
    lost = (1.0 - plus) + quarter, (1.0 - minus) - quarter

    def total(base: Value, other: Value, lost: Value) -> tuple[Value, Value]:
        """``base * cosh(r) + other * sinh(r)``."""
        large = f.fma(other, parts.r, base)
        remainder = f.fma(other, parts.r, base - large) + lost
        return large, remainder + f.fma(other, parts.tail, base * parts.bend)

    return _Hyperbolic(parts.n, total(minus, plus, lost[1]), total(plus, minus, lost[0]))


def _of_size(f: Floats, x: Value, most: float) -> Value:
    size = f.lanes.absolute(x)
    return f.lanes.where(size > most, f.number(most), size)


def sinh(f: Floats, x: Value) -> Value:
    """The hyperbolic sine."""
    h = _hyperbolic(f, _of_size(f, x, f.choose(711.0, 90.0)))
    return f.lanes.copysign(f.scaled(h.sinh[0] + h.sinh[1], h.n - 1.0), x)


def cosh(f: Floats, x: Value) -> Value:
    """The hyperbolic cosine."""
    h = _hyperbolic(f, _of_size(f, x, f.choose(711.0, 90.0)))
    return f.scaled(h.cosh[0] + h.cosh[1], h.n - 1.0)


def tanh_and_cosh(f: Floats, x: Value) -> tuple[Value, Value]:
    """The hyperbolic tangent and cosine.

    The cosine is hardly more work, and the derivative of the tangent needs it.
    """
    h = _hyperbolic(f, _of_size(f, x, f.choose(711.0, 90.0)))
    cosh = f.scaled(h.cosh[0] + h.cosh[1], h.n - 1.0)
    above, above_low = f.fast_two_sum(*h.sinh)
    below, below_low = f.fast_two_sum(*h.cosh)
    ratio = above / below
    # One over a number from 0.7 to 2.13 to a seventh, which is enough for a correction.
    about = 0.5727 * (2.83 - below)
    return f.lanes.copysign(f.fma(above_low - ratio * below_low, about, ratio), x), cosh


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
    """A logarithm with its values at 0, at infinity, and below 0."""
    m = f.lanes
    at_edge = m.where(x == 0.0, f.number(-math.inf), m.where(x < 0.0, f.number(math.nan), x))
    return m.where((x > 0.0) & (x < math.inf), result, at_edge)


def logarithm_of_positive(f: Floats, x: Value) -> Value:
    """The natural logarithm where x is positive."""
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
    return m.where((x == math.inf) | (y == math.inf), f.number(math.inf), length)


def _logarithm(f: Floats, x: Value) -> tuple[Value, Value]:
    """The logarithm to some 67 bits, as a sum, where x is positive."""
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


def _close(f: Floats, x: Value) -> tuple[Value, Value]:
    """``erf(x)`` for x from -1 to 1, as x and a summand."""
    return x, x * f.polynomial("erf", x * x)


def _tail(f: Floats, x: Value) -> Value:
    """``erfc(x)`` for x from 1/2 on: ``e**(-x**2) / (1 + 2 x)`` times a polynomial."""
    square, error = f.two_product(x, x)
    place = (x - 4.0) / (x + 4.0)
    whole, low = f.two_sum(f.number(1.0), x + x)
    middle, middle_low = f.pieces("erfc at 4")
    high, lost = f.fast_two_sum(f.number(middle), place * f.polynomial("erfc", place))
    ratio, remainder = f.quotient((high, lost + middle_low), (whole, low))
    power, power_low, exponent = exp_of_sum_in_parts(f, -square, -error)
    product, lost = f.two_product(power, ratio)
    return f.scaled(product + (lost + f.fma(power, remainder, power_low * ratio)), exponent)


def erf(f: Floats, x: Value) -> Value:
    """The error function."""
    m = f.lanes
    size = m.absolute(x)
    near = m.where(size > 1.0, f.number(1.0), size)
    far = m.where(size > 7.0, f.number(7.0), m.where(size < 0.5, f.number(0.5), size))
    high, low = _close(f, near)
    return m.copysign(m.where(size > 1.0, 1.0 - _tail(f, far), high + low), x)


def erfc(f: Floats, x: Value) -> Value:
    """One minus the error function, without loss of digits where that is close to 1."""
    m = f.lanes
    size = m.absolute(x)
    near = m.where(size > 1.0, m.copysign(f.number(1.0), x), x)
    far = m.where(size > 28.0, f.number(28.0), m.where(size < 0.5, f.number(0.5), size))
    high, low = _close(f, near)
    total, error = f.two_sum(f.number(1.0), -high)
    close = total + (error - low)
    tail = _tail(f, far)
    return m.where(x < 0.5, m.where(x < -1.0, 2.0 - tail, close), m.where(x != x, x, tail))
