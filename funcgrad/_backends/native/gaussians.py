"""The error function of vectors, and its complement, in float64."""

from __future__ import annotations

from funcgrad._backends.native.floats import Floats
from funcgrad._backends.native.hyperbolics import exp_of_sum_in_parts
from funcgrad._backends.native.lanes import Value


def _close(f: Floats, x: Value) -> tuple[Value, Value]:
    """``erf(x)`` for numbers from -1 to 1, as x and what is added to it."""
    return x, x * f.polynomial("erf", x * x)


def _tail(f: Floats, x: Value) -> Value:
    """``erfc(x)`` for numbers from 1/2 on: ``e**(-x**2) / (1 + 2 x)`` times a polynomial."""
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
