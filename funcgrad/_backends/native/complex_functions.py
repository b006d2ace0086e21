"""Functions of complex numbers, given as real and imaginary parts.

Values at infinities and at NaN, and the signs of zeros, follow Annex G of the C standard, as NumPy
does. All are computed in float64, also for complex64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias

import numpy as np

from funcgrad._backends.native.floats import Floats
from funcgrad._backends.native.instructions import Value

Parts: TypeAlias = tuple[Value, Value]
"""The real parts and the imaginary parts of a vector."""

_FAR: Final = 700.0
"""Beyond it an exponential may be too large although its product with a sine is not."""


def complex_exp(f: Floats, x: Value, y: Value) -> Parts:
    """The exponential."""
    m = f.lanes
    far = x > _FAR
    scale = m.where(far, f.number(math.exp(_FAR)), f.number(1.0))
    size = m.exp(m.where(far, x - _FAR, x))
    real, imag = size * m.cos(y) * scale, size * m.sin(y) * scale
    is_lost = m.isfinite(y) == False  # noqa: E712 - of the algebra
    real = m.where(is_lost & m.isinf(x), size, real)
    imag = m.where((y == 0) | (is_lost & (x == -math.inf)), m.copysign(f.number(0.0), y), imag)
    return real, imag


def complex_log(f: Floats, x: Value, y: Value) -> Parts:
    """The logarithm, whose real part has all digits also near the unit circle."""
    m = f.lanes
    a, b = m.absolute(x), m.absolute(y)
    large, small = m.maximum(a, b), m.minimum(a, b)
    up, down = large < 2.0**-900, large > 2.0**900
    factor = m.where(up, f.number(2.0**120), m.where(down, f.number(2.0**-120), f.number(1.0)))
    moved = m.where(up, f.number(-120.0), m.where(down, f.number(120.0), f.number(0.0)))
    size = m.hypot(x * factor, y * factor)
    far = f.fma(moved, math.log(2), m.log(size))
    square, lost = f.two_product(large, large)
    other, more = f.two_product(small, small)
    beyond, rounded = f.two_sum(square, f.number(-1.0))
    total, error = f.two_sum(beyond, other)
    less, least = f.two_sum(lost, more)
    total, missing = f.two_sum(total, less)
    near = m.log1p(total + (missing + least + (error + rounded))) * 0.5
    return m.where((size > 0.7) & (size < 1.5), near, far), m.arctan2(y, x)


def complex_sqrt(f: Floats, x: Value, y: Value) -> Parts:
    """The square root, from half of the absolute value plus the real part: nothing cancels."""
    m = f.lanes
    large = m.maximum(m.absolute(x), m.absolute(y))
    up, down = large < 2.0**-960, large > 2.0**1000
    factor = m.where(up, f.number(2.0**108), m.where(down, f.number(2.0**-4), f.number(1.0)))
    back = m.where(up, f.number(2.0**-54), m.where(down, f.number(4.0), f.number(1.0)))
    along, across = m.absolute(x * factor), m.absolute(y * factor)
    root = m.sqrt((along + m.hypot(along, across)) * 0.5)
    other = m.where(root == 0, f.number(0.0), across / (root + root))
    root, other = root * back, other * back
    is_left = x < 0
    real, imag = m.where(is_left, other, root), m.where(is_left, root, other)
    infinite = m.isinf(x)
    real = m.where(infinite, m.where(is_left, y * 0.0, m.absolute(x)), real)
    imag = m.where(infinite, m.where(is_left, m.absolute(x), y * 0.0), imag)
    real = m.where(infinite & (y == y), m.absolute(real), real)
    is_up = m.isinf(y)
    real, imag = m.where(is_up, m.absolute(y), real), m.where(is_up, m.absolute(y), imag)
    return real, m.where(imag == imag, m.copysign(imag, y), imag)


def _halves(f: Floats, x: Value) -> tuple[Value, Value, Value]:
    """The hyperbolic sine and cosine without overflow, and the factor that scales them."""
    m = f.lanes
    size = m.absolute(x)
    far = size > _FAR
    half = m.exp(size - _FAR) * 0.5
    sine = m.where(far, m.copysign(half, x), m.sinh(x))
    cosine = m.where(far, half, m.cosh(x))
    return sine, cosine, m.where(far, f.number(math.exp(_FAR)), f.number(1.0))


def complex_sinh(f: Floats, x: Value, y: Value) -> Parts:
    """The hyperbolic sine."""
    m = f.lanes
    sine, cosine, scale = _halves(f, x)
    real, imag = sine * m.cos(y) * scale, cosine * m.sin(y) * scale
    is_lost = m.isfinite(y) == False  # noqa: E712 - of the algebra
    real = m.where((y == 0) | (is_lost & (x == 0)), sine * scale, real)
    real = m.where(is_lost & m.isinf(x), cosine, real)
    return real, m.where(y == 0, y, imag)


def complex_cosh(f: Floats, x: Value, y: Value) -> Parts:
    """The hyperbolic cosine."""
    m = f.lanes
    sine, cosine, scale = _halves(f, x)
    real, imag = cosine * m.cos(y) * scale, sine * m.sin(y) * scale
    is_lost = m.isfinite(y) == False  # noqa: E712 - of the algebra
    real = m.where(is_lost & m.isinf(x), cosine, real)
    zero = m.where(x == x, y * m.copysign(f.number(1.0), x), y)
    imag = m.where(is_lost & (x == 0), f.number(0.0), imag)
    return real, m.where(y == 0, zero, imag)


def complex_tanh(f: Floats, x: Value, y: Value) -> Parts:
    """The hyperbolic tangent (W. Kahan, "Branch cuts for complex elementary functions", 1987)."""
    m = f.lanes
    size = m.absolute(x)
    far = size > 300.0
    sine, cosine = m.sin(y), m.cos(y)
    bounded = m.where(far, f.number(0.0), x)
    high, wide = m.sinh(bounded), m.cosh(bounded)
    under = high * high + cosine * cosine
    one = m.copysign(f.number(1.0), x)
    real = m.where(far, m.where(m.isinf(x), one, one + (y - y)), high * wide / under)
    imag = sine * cosine * m.where(far, 4.0 * m.exp(-2.0 * size), 1.0 / under)
    is_lost = m.isfinite(y) == False  # noqa: E712 - of the algebra
    imag = m.where(is_lost & m.isinf(x), m.copysign(f.number(0.0), y), imag)
    real = m.where((y == 0) | (is_lost & (x == 0)), m.tanh(x), real)
    return real, m.where(y == 0, y, imag)


def complex_sin(f: Floats, x: Value, y: Value) -> Parts:
    """The sine: the hyperbolic sine of ``y + ix``, its parts exchanged."""
    imag, real = complex_sinh(f, y, x)
    return real, imag


def complex_cos(f: Floats, x: Value, y: Value) -> Parts:
    """The cosine: ``cos(z) = cosh(iz)``."""
    return complex_cosh(f, -y, x)


def complex_tan(f: Floats, x: Value, y: Value) -> Parts:
    """The tangent: the hyperbolic tangent of ``y + ix``, its parts exchanged."""
    imag, real = complex_tanh(f, y, x)
    return real, imag


def complex_log2(f: Floats, x: Value, y: Value) -> Parts:
    """The logarithm to the base 2."""
    real, imag = complex_log(f, x, y)
    return real * math.log2(math.e), imag * math.log2(math.e)


def complex_log10(f: Floats, x: Value, y: Value) -> Parts:
    """The logarithm to the base 10."""
    real, imag = complex_log(f, x, y)
    return real * math.log10(math.e), imag * math.log10(math.e)


def complex_exp2(f: Floats, x: Value, y: Value) -> Parts:
    """Powers of 2."""
    return complex_exp(f, x * math.log(2), y * math.log(2))


def complex_expm1(f: Floats, x: Value, y: Value) -> Parts:
    """The exponential minus 1, by NumPy's formula."""
    m = f.lanes
    half = m.sin(y * 0.5)
    return m.expm1(x) * m.cos(y) - 2.0 * half * half, m.exp(x) * m.sin(y)


def complex_log1p(f: Floats, x: Value, y: Value) -> Parts:
    """The logarithm of 1 plus a number, by NumPy's formula."""
    m = f.lanes
    return m.log(m.hypot(x + 1.0, y)), m.arctan2(y, x + 1.0)


# ----------------------------------------------------------------------------------------- powers

_MOST_FACTORS: Final = 100
"""From this exponent on NumPy takes powers by logarithms, else whole ones by products."""


def complex_power(f: Floats, x: Value, y: Value, a: Value, b: Value) -> Parts:
    """The power of ``x + iy`` with exponent ``a + ib``, by products if that is small and whole."""
    m = f.lanes
    size, angle = complex_log(f, x, y)
    real, imag = complex_exp(f, a * size - b * angle, a * angle + b * size)
    count = m.absolute(a)
    is_whole = (b == 0) & (count < float(_MOST_FACTORS)) & (m.trunc(a) == a)
    left = m.where(is_whole, count, f.number(0.0))
    is_few = (a > 0) & (left < 4.0)  # products of the number itself, without a factor 1
    total, power = (m.where(left == left, f.number(1.0), left), f.number(0.0)), (x, y)
    is_begun = left < 0.0
    for _ in range(_MOST_FACTORS.bit_length()):
        half = m.trunc(left * 0.5)
        is_odd, product = left != half + half, _product(total, power)
        begins = is_few & (is_begun == False)  # noqa: E712 - of the algebra
        further = [m.where(begins, p, q) for p, q in zip(power, product, strict=True)]
        total = (m.where(is_odd, further[0], total[0]), m.where(is_odd, further[1], total[1]))
        is_begun, left, power = is_begun | is_odd, half, _product(power, power)
    inverse = _inverted(f, *total)
    whole = [m.where(a < 0, p, q) for p, q in zip(inverse, total, strict=True)]
    real, imag = m.where(is_whole, whole[0], real), m.where(is_whole, whole[1], imag)
    of_zero = m.where(a > 0, f.number(0.0), f.number(math.nan))
    is_zero, is_one = (x == 0) & (y == 0), (a == 0) & (b == 0)
    real, imag = m.where(is_zero, of_zero, real), m.where(is_zero, of_zero, imag)
    return m.where(is_one, f.number(1.0), real), m.where(is_one, f.number(0.0), imag)


def _product(x: Parts, y: Parts) -> Parts:
    """The product, whose terms are not fused."""
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


def _inverted(f: Floats, x: Value, y: Value) -> Parts:
    """The quotient of 1 and a number, by Smith's method."""
    m = f.lanes
    is_real = m.absolute(x) >= m.absolute(y)
    greater, lesser = m.where(is_real, x, y), m.where(is_real, y, x)
    along, across = m.astype(is_real, x.dtype), m.where(is_real, f.number(0.0), f.number(1.0))
    ratio = lesser / greater
    scale = 1.0 / (greater + lesser * ratio)
    turned, is_zero = along * ratio, greater == 0
    imag = m.where(is_real, across - turned, turned - across) * scale
    real = m.where(is_zero, f.number(math.inf), (along + across * ratio) * scale)
    return real, m.where(is_zero, f.number(math.nan), imag)


# ---------------------------------------------------------------------------------------- inverses

# Formulas without cancellation: W. Kahan, "Branch cuts for complex elementary functions", 1987.

_BEYOND: Final = 1e10
"""From this size on ``arcsin(z)`` is a logarithm of ``2 z`` to all digits."""


def _with_roots(f: Floats, x: Value, y: Value) -> tuple[Value, Value, Value, Value, Value, Value]:
    """The parts of ``sqrt(1 - z)`` and ``sqrt(1 + z)``, whether z is far, and ``log(2 abs(z))``."""
    m = f.lanes
    is_far = (m.maximum(m.absolute(x), m.absolute(y)) > _BEYOND) | m.isinf(x) | m.isinf(y)
    size = complex_log(f, x, y)[0] + math.log(2)
    return (*complex_sqrt(f, 1.0 - x, -y), *complex_sqrt(f, 1.0 + x, y), is_far, size)


def complex_arcsin(f: Floats, x: Value, y: Value) -> Parts:
    """The inverse sine."""
    m = f.lanes
    p, q, r, s, is_far, size = _with_roots(f, x, y)
    real = m.arctan2(x, m.where(is_far, m.absolute(y), p * r - q * s))
    imag = m.where(is_far, m.copysign(size, y), m.arcsinh(p * s - q * r))
    return m.where((x == 0) & (y != y), x, real), imag


def complex_arccos(f: Floats, x: Value, y: Value) -> Parts:
    """The inverse cosine."""
    m = f.lanes
    p, q, r, s, is_far, size = _with_roots(f, x, y)
    real = m.where(is_far, m.arctan2(m.absolute(y), x), 2.0 * m.arctan2(p, r))
    imag = m.where(is_far, -m.copysign(size, y), m.arcsinh(r * q - s * p))
    return m.where((x == 0) & (y != y), f.number(math.pi / 2), real), imag


def complex_arccosh(f: Floats, x: Value, y: Value) -> Parts:
    """The inverse hyperbolic cosine: the inverse cosine, turned to the right half of the plane."""
    real, imag = complex_arccos(f, x, y)
    return f.lanes.absolute(imag), f.lanes.copysign(real, y)


def complex_arcsinh(f: Floats, x: Value, y: Value) -> Parts:
    """The inverse hyperbolic sine: the inverse sine of ``y + ix``, its parts exchanged."""
    imag, real = complex_arcsin(f, y, x)
    return real, imag


def complex_arctanh(f: Floats, x: Value, y: Value) -> Parts:
    """The inverse hyperbolic tangent, of the quadrant with positive parts."""
    m = f.lanes
    a, b = m.absolute(x), m.absolute(y)
    infinite = m.isinf(a) | m.isinf(b)
    is_far = (m.maximum(a, b) > 1e100) | infinite
    gap = 1.0 - a
    at_pole = 0.25 * m.log(4.0 + b * b) - 0.5 * m.log(b)
    real = m.log1p(4.0 * a / (gap * gap + b * b)) * 0.25
    real = m.where((gap == 0) & (b < 1e-100), at_pole, real)
    greater, lesser = m.maximum(a, b), m.minimum(a, b)
    ratio = lesser / greater
    real = m.where(is_far, (a / greater) / (greater * (1.0 + ratio * ratio)), real)
    real = m.where(((a == 0) & (y != y)) | infinite, f.number(0.0), real)
    imag = 0.5 * m.arctan2(2.0 * b, gap * (1.0 + a) - b * b)
    imag = m.where(y != y, y, m.where(is_far, f.number(math.pi / 2), imag))
    return m.copysign(real, x), m.copysign(imag, y)


def complex_arctan(f: Floats, x: Value, y: Value) -> Parts:
    """The inverse tangent: the inverse hyperbolic tangent of ``y + ix``, its parts exchanged."""
    imag, real = complex_arctanh(f, y, x)
    return real, imag


ComplexFunction: TypeAlias = Callable[..., Parts]

COMPLEX_FUNCTIONS: Final[Mapping[np.ufunc, ComplexFunction]] = MappingProxyType(
    {
        np.arccos: complex_arccos,
        np.arccosh: complex_arccosh,
        np.arcsin: complex_arcsin,
        np.arcsinh: complex_arcsinh,
        np.arctan: complex_arctan,
        np.arctanh: complex_arctanh,
        np.cos: complex_cos,
        np.cosh: complex_cosh,
        np.exp: complex_exp,
        np.exp2: complex_exp2,
        np.expm1: complex_expm1,
        np.log: complex_log,
        np.log1p: complex_log1p,
        np.log2: complex_log2,
        np.log10: complex_log10,
        np.power: complex_power,
        np.sin: complex_sin,
        np.sinh: complex_sinh,
        np.sqrt: complex_sqrt,
        np.tan: complex_tan,
        np.tanh: complex_tanh,
    }
)
