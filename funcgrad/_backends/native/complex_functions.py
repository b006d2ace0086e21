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


ComplexFunction: TypeAlias = Callable[[Floats, Value, Value], Parts]

COMPLEX_FUNCTIONS: Final[Mapping[np.ufunc, ComplexFunction]] = MappingProxyType(
    {
        np.cos: complex_cos,
        np.cosh: complex_cosh,
        np.exp: complex_exp,
        np.log: complex_log,
        np.log2: complex_log2,
        np.log10: complex_log10,
        np.sin: complex_sin,
        np.sinh: complex_sinh,
        np.sqrt: complex_sqrt,
        np.tan: complex_tan,
        np.tanh: complex_tanh,
    }
)
