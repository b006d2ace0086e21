"""Arithmetic of complex numbers: NumPy's formulas, in the real and the imaginary parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._backends.native.instructions import Pair, Value, paired, parts_of

_Lanes: TypeAlias = Any
"""The algebra, which stands on this module."""


def _sum(m: _Lanes, x: Pair, y: Pair) -> Value:
    return Pair(x.real + y.real, x.imag + y.imag)


def _difference(m: _Lanes, x: Pair, y: Pair) -> Value:
    return Pair(x.real - y.real, x.imag - y.imag)


def _product(m: _Lanes, x: Pair, y: Pair) -> Value:
    """The product as NumPy's loops over arrays have it: fused where the processor can."""
    first, second = x.imag * y.imag, x.imag * y.real
    if m.lines.arithmetic.fuses:
        return Pair(
            m.intrinsic("fma", x.real, y.real, -first), m.intrinsic("fma", x.real, y.imag, second)
        )
    return Pair(x.real * y.real - first, x.real * y.imag + second)


def _quotient(m: _Lanes, x: Pair, y: Pair) -> Value:
    """The quotient by Smith's method, which divides the lesser part of y by the greater.

    R. L. Smith, "Algorithm 116: complex division", Communications of the ACM, 1962.
    """
    is_real = abs(y.real) >= abs(y.imag)
    greater, lesser = m.where(is_real, y.real, y.imag), m.where(is_real, y.imag, y.real)
    ratio = lesser / greater
    scale = 1 / (greater + lesser * ratio)
    along, across = m.where(is_real, x.real, x.imag), m.where(is_real, x.imag, x.real)
    turned = along * ratio
    less, by = m.where(is_real, across, turned), m.where(is_real, turned, across)
    real, imag = (along + across * ratio) * scale, (less - by) * scale
    is_zero = is_real & (greater == 0)
    return Pair(m.where(is_zero, x.real * np.inf, real), m.where(is_zero, x.imag * np.inf, imag))


def inverted(m: _Lanes, x: Pair) -> Value:
    is_real = abs(x.imag) <= abs(x.real)
    greater, lesser = m.where(is_real, x.real, x.imag), m.where(is_real, x.imag, x.real)
    ratio = lesser / greater
    size = lesser * ratio + greater
    one = m.constant(1, x.real.dtype)
    real, imag = m.where(is_real, one, ratio), m.where(is_real, ratio, one)
    return Pair(real / size, -imag / size)


def raised(m: _Lanes, x: Pair, exponent: int) -> Value:
    """A power with a whole exponent, by the products that NumPy takes, which are not fused."""

    def product(x: Pair, y: Pair) -> Pair:
        first, second = x.real * y.real, x.imag * y.imag
        return Pair(first - second, x.real * y.imag + x.imag * y.real)

    one, is_zero = paired(parts_of(m.constant(1, x.dtype))), m.equal(x, 0)
    if exponent == 0:
        return one
    total: Value
    if exponent in (1, 2, 3):
        total = (x, product(x, x), product(x, product(x, x)))[exponent - 1]
    else:
        total, power = one, x
        for place in range(abs(exponent).bit_length()):
            power = product(power, power) if place else x
            total = product(total, power) if abs(exponent) >> place & 1 else total
    if exponent > 0:
        return m.where(is_zero, m.constant(0, x.dtype), total)
    undefined = m.constant(complex(np.nan, np.nan), x.dtype)
    return m.where(is_zero, undefined, _quotient(m, one, total))


Formula: TypeAlias = Callable[[_Lanes, Any, Any], Value]

ARITHMETIC: Final[Mapping[np.ufunc, Formula]] = MappingProxyType(
    {np.add: _sum, np.subtract: _difference, np.multiply: _product, np.divide: _quotient}
)
