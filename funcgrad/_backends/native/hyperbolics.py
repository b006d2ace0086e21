"""Exponentials and hyperbolic functions of vectors.

All of them take x apart: ``x = n log(2) + r``, with a whole number n. Then ``e**x`` is ``2**n``
times ``cosh(r) + sinh(r)``, and these are short polynomials in ``r**2``.
"""

from __future__ import annotations

import math

from funcgrad._backends.native.floats import Floats
from funcgrad._backends.native.lanes import Value
from funcgrad._base.fast_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class _ReducedExponent:
    """A number ``n log(2) + r``, and the hyperbolic functions of r.

    Attributes
    ----------
    n, r : Value
    tail : Value
        ``sinh(r) - r``, with what rounding has taken from r.
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
