"""Inverse trigonometric functions of vectors."""

from __future__ import annotations

import math

import numpy as np

from funcgrad._backends.native.floats import Floats
from funcgrad._backends.native.lanes import Value
from funcgrad._base.fast_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class _Arc:
    """An angle as a sum of a constant, a float and a small remainder."""

    base: Value
    base_low: Value
    high: Value
    low: Value


def _arc(f: Floats, y: Value, x: Value) -> _Arc:
    """The angle of a point whose coordinates are not less than 0.

    It is no more than an eighth of a half turn away from the angle 0, pi / 4 or pi / 2; the point
    is turned back by that one.
    """
    m, zero = f.lanes, f.number(0.0)
    bound = math.sqrt(2) - 1
    low, high = y <= x * bound, x <= y * bound
    below, below_low = f.two_sum(y, -x)
    above, above_low = f.two_sum(x, y)
    quarter, half = f.pieces("pi/4"), f.pieces("pi/2")

    def chosen(first: Value, middle: Value, last: Value) -> Value:
        return m.where(low, first, m.where(high, last, middle))

    numerator = chosen(y, below, -x), chosen(zero, below_low, zero)
    denominator = chosen(x, above, y), chosen(zero, above_low, zero)
    ratio, remainder = f.quotient(numerator, denominator)
    # At the ends of the range the error of a product is no float.
    exact = m.absolute(numerator[0]) > f.choose(2.0**-960, 2.0**-100)
    exact = exact & (denominator[0] < f.choose(2.0**990, 2.0**110))
    remainder = m.where(exact, remainder, zero)
    square = ratio * ratio
    bend = f.fma(ratio * square, f.polynomial("arctan", square), remainder)
    return _Arc(
        chosen(zero, f.number(quarter[0]), f.number(half[0])),
        chosen(zero, f.number(quarter[1]), f.number(half[1])),
        ratio,
        bend,
    )


def _angle(f: Floats, arc: _Arc) -> Value:
    total, error = f.fast_two_sum(arc.base, arc.high)
    return total + (error + (arc.low + arc.base_low))


def arctan(f: Floats, x: Value) -> Value:
    """The angle of a slope."""
    m = f.lanes
    size = m.absolute(x)
    infinite = size == math.inf
    one, zero = f.number(1.0), f.number(0.0)
    arc = _arc(f, m.where(infinite, one, size), m.where(infinite, zero, one))
    return m.copysign(_angle(f, arc), x)


def arctan2(f: Floats, y: Value, x: Value) -> Value:
    """The angle of a point."""
    m = f.lanes
    one, zero = f.number(1.0), f.number(0.0)
    up, right = m.absolute(y), m.absolute(x)
    large = m.maximum(up, right) > float(np.finfo(f.dtype).max) / 8
    scale = m.where(large, f.number(2.0**-4), one)
    endless = (up == math.inf) | (right == math.inf)
    nowhere = (up == 0.0) & (right == 0.0)
    finite_up = m.where(endless, m.where(up == math.inf, one, zero), up * scale)
    finite_right = m.where(endless, m.where(right == math.inf, one, zero), right * scale)
    arc = _arc(f, finite_up, m.where(nowhere, one, finite_right))
    left = (f.bits(x) & f.bits_of(-0.0)) != 0
    half = f.pieces("pi")
    turned = _Arc(half[0] - arc.base, half[1] - arc.base_low, -arc.high, -arc.low)
    angle = m.where(left, _angle(f, turned), _angle(f, arc))
    angle = m.where((x != x) | (y != y), x + y, angle)
    return m.copysign(angle, y)


def _of_half(f: Floats, x: Value) -> tuple[Value, Value, Value, Value]:
    """``arcsin(s)`` for s = |x|, or where that is above 1/2 for ``s = sqrt((1 - |x|) / 2)``.

    Returns whether x is above 1/2, s, what is added to s, and whether the root is all of it.
    """
    m = f.lanes
    size = m.absolute(x)
    large = size > 0.5
    left = (1.0 - size) * 0.5
    square = m.where(large, left, size * size)
    root = m.sqrt(left)
    back, back_error = f.two_product(root, root)
    lost = ((left - back) - back_error) / (root + root)
    lost = m.where(root > 0.0, lost, f.number(0.0))
    s = m.where(large, root, size)
    bend = (s * square) * f.polynomial("arcsin", square)
    return large, s, bend, lost


def arcsin(f: Floats, x: Value) -> Value:
    """The angle of a sine."""
    m = f.lanes
    large, s, bend, lost = _of_half(f, x)
    quarter, low = f.pieces("pi/2")
    total, error = f.fast_two_sum(f.number(quarter), -(s + s))
    beyond = total + (error + (low - 2.0 * (bend + lost)))
    return m.copysign(m.where(large, beyond, s + bend), x)


def arccos(f: Floats, x: Value) -> Value:
    """The angle of a cosine."""
    m = f.lanes
    large, s, bend, lost = _of_half(f, x)
    negative = x < 0.0
    quarter, low = f.pieces("pi/2")
    half, half_low = f.pieces("pi")
    twice = s + s
    more = 2.0 * (bend + lost)
    total, error = f.fast_two_sum(f.number(half), -twice)
    beyond = m.where(negative, total + (error + (half_low - more)), twice + more)
    signed, signed_bend = m.copysign(s, x), m.copysign(bend, x)
    total, error = f.fast_two_sum(f.number(quarter), -signed)
    within = total + (error + (low - signed_bend))
    return m.where(large, beyond, within)
