"""Sines, cosines and tangents of vectors, and their inverses.

An angle is n quarter turns and a remainder of at most an eighth of a turn, as a float and a small
one. Up to a million quarter turns are taken off in pieces of pi / 2 with so few bits that products
are exact; more, number by number, with as many bits of 2 / pi as it takes (Payne and Hanek).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from funcgrad._backends.native.coefficients import PIECES, TWO_OVER_PI
from funcgrad._backends.native.floats import Floats
from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.instructions import Value
from funcgrad._backends.native.lanes import Lanes
from funcgrad._backends.native.views import chosen
from funcgrad._base.fast_dataclass import dataclass

_FAR: Final = 1.5e6
"""From here on n times a piece of pi / 2 is not exact."""

_FAR_SINGLE: Final = 1e5
"""From here on float32 does not hold enough digits of n times pi / 2."""

_DOUBLE: Final = np.dtype(np.float64)
_WORD: Final = np.dtype(np.uint64)


@dataclass(frozen=True, slots=True)
class _Angle:
    """An angle: quarter turns, as the last two of some bits, and the remainder as a sum."""

    quarters: Value
    remainder: Value
    low: Value


def _reduced(f: Floats, x: Value) -> _Angle:
    """Take off quarter turns."""
    n, quarters = f.nearest_whole(x, 2 / math.pi)
    if f.dtype != _DOUBLE:
        return _with_far(f, x, _reduced_single(f, x, n, quarters), _FAR_SINGLE)
    pieces = f.pieces("pi/2 for turns")
    total = f.fma(n, -pieces[0], x)
    if f.letter == "f":
        near = _Angle(quarters, f.fma(n, -pieces[1], total), f.number(0.0))
    else:
        total, error = f.two_sum(total, n * -pieces[1])
        total, more = f.two_sum(total, n * -pieces[2])
        error = f.fma(n, -pieces[3], error + more)
        remainder = total + error
        near = _Angle(quarters, remainder, (total - remainder) + error)
    return _with_far(f, x, near, _FAR)


def _reduced_single(f: Floats, x: Value, n: Value, quarters: Value) -> _Angle:
    """Take off n quarter turns, in float32, by fused multiplication.

    Both terms of the first difference are multiples of ``2**-24`` and below 1: it is exact.
    """
    whole, least = PIECES["pi/2"]["d"]
    first = float(np.float32(whole))
    second = float(np.float32(whole - first))
    near, product = f.fma(n, -first, x), n * second
    total, error = f.two_sum(near, -product)
    error = error - f.fma(n, second, -product)
    error = f.fma(n, -((whole - first - second) + least), error)
    remainder = total + error
    return _Angle(quarters, remainder, (total - remainder) + error)


def _with_far(f: Floats, x: Value, near: _Angle, bound: float) -> _Angle:
    """Replace the angles that are too far for the quick way, if there is one."""
    m, lines = f.lanes, f.lanes.lines
    size = m.absolute(x)
    far = (size > bound) & (size < math.inf)
    some = far.text
    if m.width > 1:
        some = lines.call("i1", f"llvm.vector.reduce.or.v{m.width}i1", (far.kind, far.text))
    quick = near.quarters, near.remainder, near.low

    def slowly() -> list[Value]:
        slow = _number_by_number(f, m.where(far, x, f.number(1e9)))
        return [m.where(far, new, old) for new, old in zip(slow, quick, strict=True)]

    return _Angle(*chosen(lines, some, slowly, quick))


def _number_by_number(f: Floats, x: Value) -> Sequence[Value]:
    m, lines = f.lanes, f.lanes.lines
    if x.dtype != _DOUBLE:
        doubles = Floats(m, _DOUBLE)
        quarters, remainder, _ = _number_by_number(doubles, m.astype(x, _DOUBLE))
        single = m.astype(remainder, f.dtype)
        low = m.astype(remainder - m.astype(single, _DOUBLE), f.dtype)
        return m.astype(quarters, f.integers), single, low
    use_far_turn(lines)
    dtypes = (_WORD, _DOUBLE, _DOUBLE)
    vectors = [m.constant(0, dtype) for dtype in dtypes]
    for lane in range(m.width):
        answer = lines.op(f"call {_ANSWER} @{_FAR_TURN}(double {m.lane(x, lane).text})")
        for place, dtype in enumerate(dtypes):
            number = m.single.value(f"extractvalue {_ANSWER} {answer}, {place}", dtype)
            vectors[place] = m.with_lane(vectors[place], lane, number)
    return vectors


_ANSWER: Final = "{ i64, double, double }"
_FAR_TURN: Final = "far_turn"


def use_far_turn(lines: FunctionText) -> None:
    """Have the function that takes quarter turns off one large number."""
    lines.use(_FAR_TURN, f"{_ANSWER} @{_FAR_TURN}(double %x)", _write_far_turn, "noinline")


def _write_far_turn(lines: FunctionText) -> None:
    """Take quarter turns off one large number.

    ``x = M 2**e`` with a whole number M. Bits of 2 / pi that make ``M 2**e`` whole multiples of 4
    are left out; the next 192, times M, are the quarter turns, in the first two bits, and a
    fraction, in steps of ``2**-190``.
    """
    m = Lanes(lines, 1)
    g = Floats(m, _DOUBLE)
    op = lines.op
    words = ", ".join([f"i64 {word}" for word in (0, *TWO_OVER_PI)])
    kind = f"[{len(TWO_OVER_PI) + 1} x i64]"
    table = lines.room(kind, f"[{words}]")
    x = Value("%x", _DOUBLE, m)
    bits = g.bits(m.absolute(x))
    exponent = g.shifted("lshr", bits, 52)  # x = M * 2**(exponent - 1075)
    whole = (bits & ((1 << 52) - 1)) | (1 << 52)
    begin = exponent - (1075 + 2 - 64)  # behind the word of zeros; from 4 * 2**e on
    place = g.shifted("lshr", begin, 6)
    within = op(f"zext i64 {(begin & 63).text} to i256")
    joined = "0"
    for word in range(4):
        wide = op(f"zext i64 {m.load(table, _WORD, (place + word).text).text} to i256")
        moved = op(f"shl i256 {wide}, {64 * (3 - word)}")
        joined = op(f"or i256 {joined}, {moved}")
    window = op(f"shl i256 {joined}, {within}")
    window = op(f"lshr i256 {window}, 64")
    window = op(f"trunc i256 {window} to i192")
    factor = op(f"zext i64 {whole.text} to i192")
    product = op(f"mul i192 {window}, {factor}")
    rounded = op(f"add i192 {product}, {1 << 189}")
    quarters = op(f"trunc i192 {op(f'lshr i192 {rounded}, 190')} to i64")
    fraction = op(f"ashr i192 {op(f'shl i192 {product}, 2')}, 2")  # of a quarter turn
    total = error = g.number(0.0)
    for start in (142, 94, 46, -2):  # 48 bits each; the first have the sign
        moved = op(f"ashr i192 {fraction}, {start}" if start >= 0 else f"shl i192 {fraction}, 2")
        piece = op(f"trunc i192 {moved} to i64")
        if start < 142:
            piece = op(f"and i64 {piece}, {(1 << 48) - 1}")
        number = m.value(f"sitofp i64 {piece} to double", _DOUBLE) * 2.0 ** (start - 190)
        total, lost = g.two_sum(total, number)
        error = error + lost
    total, error = g.fast_two_sum(total, error)
    high, low = PIECES["pi/2"]["d"]
    remainder, lost = g.two_product(total, g.number(high))
    lost = lost + (total * low + error * high)
    remainder, lost = g.fast_two_sum(remainder, lost)
    negative = x < 0.0
    turns = m.where(negative, 0 - Value(quarters, _WORD, m), Value(quarters, _WORD, m))
    remainder, lost = m.where(negative, -remainder, remainder), m.where(negative, -lost, lost)
    answer = "poison"
    for index, value in enumerate((turns, remainder, lost)):
        answer = op(f"insertvalue {_ANSWER} {answer}, {value.kind} {value.text}, {index}")
    lines.emit(f"ret {_ANSWER} {answer}")


def _is_wide(f: Floats) -> bool:
    """Whether intermediate results have more digits than the result."""
    return f.letter != f.dtype.char


def _sine(f: Floats, angle: _Angle, square: Value) -> tuple[Value, Value]:
    """The sine of the remainder, as the remainder and a summand."""
    bend = (angle.remainder * square) * f.polynomial("sin", square)
    if _is_wide(f):
        return angle.remainder, bend
    return angle.remainder, f.fma(angle.low, 1.0 - 0.5 * square, bend)


def _cosine(f: Floats, angle: _Angle, square: Value) -> tuple[Value, Value]:
    """The cosine of the remainder, as a float close to 1 and a summand."""
    half = 0.5 * square
    whole = 1.0 - half
    bend = (square * square) * f.polynomial("cos", square)
    if _is_wide(f):
        return whole, bend
    return whole, ((1.0 - whole) - half) + (bend - angle.remainder * angle.low)


def sine_and_cosine(f: Floats, x: Value) -> tuple[Value, Value]:
    """The sine and the cosine of an angle; the one is hardly more work than the other."""
    m = f.lanes
    angle = _reduced(f, x)
    square = angle.remainder * angle.remainder
    near_zero, near_one = _sine(f, angle, square), _cosine(f, angle, square)
    first, second = near_zero[0] + near_zero[1], near_one[0] + near_one[1]
    odd = (angle.quarters & 1) != 0
    sine, cosine = m.where(odd, second, first), m.where(odd, first, second)
    sign = 1 << (8 * f.dtype.itemsize - 1)
    top = 8 * f.dtype.itemsize - 2
    down = f.shifted("shl", angle.quarters, top) & sign
    left = f.shifted("shl", angle.quarters + 1, top) & sign
    sine, cosine = f.of_bits(f.bits(sine) ^ down), f.of_bits(f.bits(cosine) ^ left)
    return m.where(x == 0.0, x, sine), cosine


def tan(f: Floats, x: Value) -> Value:
    """The tangent of an angle."""
    m = f.lanes
    angle = _reduced(f, x)
    square = angle.remainder * angle.remainder
    sine = f.fast_two_sum(*_sine(f, angle, square))
    cosine = f.fast_two_sum(*_cosine(f, angle, square))
    odd = (angle.quarters & 1) != 0
    above = [m.where(odd, -c, s) for s, c in zip(sine, cosine, strict=True)]
    below = [m.where(odd, s, c) for s, c in zip(sine, cosine, strict=True)]
    if f.letter == "f":
        result = (above[0] + above[1]) / (below[0] + below[1])
    else:
        high, low = f.quotient((above[0], above[1]), (below[0], below[1]))
        result = high + low
    return m.where(x == 0.0, x, result)


@dataclass(frozen=True, slots=True)
class _Arc:
    """An angle as a sum of a constant, a float and a small remainder."""

    base: Value
    base_low: Value
    high: Value
    low: Value


def _arc(f: Floats, y: Value, x: Value) -> _Arc:
    """The angle of a point whose coordinates are not less than 0.

    It is at most an eighth of a half turn away from the angle 0, pi / 4 or pi / 2; the point
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
    # At the ends of the range the error of a product cannot be a float.
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

    Returns whether x is above 1/2, s, the summand, and the rounding error of the root.
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
