"""The Faddeeva function w(z) = exp(-z**2) erfc(-i z), the Voigt profile and Owen's T.

>>> wofz(0.0), owens_t(0.0, 1.0)
(np.complex128(1+0j), np.float64(0.125))

The derivatives of w follow from ``w' = 2 i / sqrt(pi) - 2 z w`` (DLMF 7.10.2), where nearly all
digits cancel for large z. There they come from the asymptotic series in the upper half-plane, and
from ``w(z) = 2 exp(-z**2) - w(-z)`` in the lower one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Kinks, Primitive, Sample
from funcgrad._core.structure.structures import OWNS, TRANSCENDENTAL
from funcgrad._core.trace import Raw, Value, bind1, bind2
from funcgrad._primitives.complexes import imag, join_parts, real
from funcgrad._primitives.elementwise import combined, divide, edges, elementwise
from funcgrad._primitives.kinks import unless
from funcgrad._primitives.selection import where
from funcgrad._primitives.special import bell, erf
from funcgrad._primitives.special_functions.scipys import (
    evaluated_by_scipy,
    in_precision,
    scipy_special,
)

Array = np.ndarray[Any, Any]

_FAR: Final = 7.0
"""From here on the asymptotic series has all digits of float64."""

_UNIT: Final = 2j / math.sqrt(math.pi)


def _near(z: Array, order: int) -> Array:
    """Derivatives for arguments that are not large, by their recurrence."""
    last = scipy_special("wofz").wofz(z)
    value: Array = _UNIT - 2 * z * last
    for n in range(1, order):
        last, value = value, -2 * z * value - 2 * n * last
    return value


def _far(z: Array, order: int) -> Array:
    """Derivatives of ``i / sqrt(pi)`` times the sum of ``(2 k - 1)!! / (2**k z**(2 k + 1))``."""
    terms, coefficient = [], 1.0
    for k in range(24):
        terms.append(coefficient * math.prod(range(2 * k + 1, 2 * k + 1 + order)) * (-1) ** order)
        coefficient *= (2 * k + 1) / 2
    inverse, total = 1 / z, np.zeros_like(z)
    square = inverse * inverse
    for term in reversed(terms):
        total = total * square + term
    return 1j / math.sqrt(math.pi) * total * inverse ** (order + 1)


def _bell(z: Array, order: int) -> Array:
    """The derivatives of ``exp(-z**2)``."""
    x, y = z.real, z.imag
    exponent = np.empty_like(z)  # the square itself is a difference of infinities where z is large
    exponent.real, exponent.imag = (y - x) * (y + x), -2 * x * y
    last: Array = np.exp(exponent)
    value: Array = -2 * z * last
    for n in range(1, order):
        last, value = value, -2 * z * value - 2 * n * last
    return value


def _wofz_derivative(z: Raw, order: int) -> Raw:
    whole = np.asarray(z)
    wide = np.atleast_1d(whole).astype(np.complex128)
    with np.errstate(all="ignore"):
        far = np.abs(wide) > _FAR + order
        below = far & (wide.imag < 0)
        out = np.where(far, np.where(below, -wide, wide), 1e3)
        series = _far(out, order)
        turned = _bell(np.where(below, wide, 1.0), order) * 2 - (-1) ** order * series
        result = np.where(
            far, np.where(below, turned, series), _near(np.where(far, 1.0, wide), order)
        )
    narrow = np.result_type(whole.dtype, np.complex64)
    return result.reshape(whole.shape).astype(narrow)[()]


_PLANE = combined(
    lambda: [
        Sample((np.array([-2.1, 0.0, 0.9, 20.0]),)),
        Sample((0.7,)),
        Sample((np.zeros((0, 2)),)),
        Sample((np.array([0.5 + 0.4j, 3 - 2j, 20 + 5j, 12 - 0.3j])[::-1],)),
    ]
)
wofz_derivative: Primitive = elementwise(
    "wofz_derivative",
    _wofz_derivative,
    partials=(lambda _, z, order: wofz_derivative(z, order=order + 1),),
    samples=combined(_PLANE, order=1),
    traits=TRANSCENDENTAL | OWNS,
)
wofz: Primitive = elementwise(
    "wofz",
    lambda z: in_precision(scipy_special("wofz").wofz(z), z),
    partials=(lambda _, z: wofz_derivative(z, order=1),),
    samples=_PLANE,
    traits=TRANSCENDENTAL | OWNS,
)


def _place(x: Value, sigma: Value, gamma: Value) -> Value:
    scale = bind2(divide, math.sqrt(0.5), sigma)
    return join_parts(x * scale, gamma * scale)


def _beside_lorentz(
    usual: Callable[..., Value], lorentz: Callable[..., Value], x: Value, s: Value, g: Value
) -> Value:
    """A slope; for sigma = 0 it belongs to the Lorentz profile ``gamma / (pi (x² + gamma²))``."""
    none = s == 0
    return where(
        none,
        lorentz(where(none, x, 1.0), s, where(none, g, 1.0)),
        usual(where(none, 0.0, x), where(none, 1.0, s), where(none, 1.0, g)),
    )


def _to_x(_: Value, x: Value, sigma: Value, gamma: Value) -> Value:
    def usual(x: Value, sigma: Value, gamma: Value) -> Value:
        slope = real(wofz_derivative(_place(x, sigma, gamma), order=1))
        return bind2(divide, slope, 2 * math.sqrt(math.pi) * sigma * sigma)

    def lorentz(x: Value, _: Value, gamma: Value) -> Value:
        square = x * x + gamma * gamma
        return -2 / math.pi * bind2(divide, bind2(divide, x * gamma, square), square)

    return _beside_lorentz(usual, lorentz, x, sigma, gamma)


def _to_gamma(_: Value, x: Value, sigma: Value, gamma: Value) -> Value:
    def usual(x: Value, sigma: Value, gamma: Value) -> Value:
        slope = imag(wofz_derivative(_place(x, sigma, gamma), order=1))
        return bind2(divide, -slope, 2 * math.sqrt(math.pi) * sigma * sigma)

    def lorentz(x: Value, _: Value, gamma: Value) -> Value:
        square = x * x + gamma * gamma
        rise = (x - gamma) * (x + gamma)
        return bind2(divide, bind2(divide, rise, square), math.pi * square)

    return _beside_lorentz(usual, lorentz, x, sigma, gamma)


def _to_sigma(_: Value, x: Value, sigma: Value, gamma: Value) -> Value:
    """The sigma-derivative, by the heat equation: sigma times the second x-derivative."""

    def usual(x: Value, sigma: Value, gamma: Value) -> Value:
        bent = real(wofz_derivative(_place(x, sigma, gamma), order=2))
        return bind2(divide, bent, 2 * math.sqrt(2 * math.pi) * sigma * sigma)

    def lorentz(x: Value, sigma: Value, gamma: Value) -> Value:
        square = x * x + gamma * gamma
        bent = bind2(divide, gamma * (6 * x * x - 2 * gamma * gamma), math.pi * square)
        return sigma * bind2(divide, bind2(divide, bent, square), square)

    return _beside_lorentz(usual, lorentz, x, sigma, gamma)


voigt_profile: Primitive = evaluated_by_scipy(
    "voigt_profile",
    partials=(_to_x, _to_sigma, _to_gamma),
    samples=lambda: [
        Sample((np.array([-1.2, 0.4, 3.0]), np.array([0.7, 1.5, 0.3]), np.array([0.5, 1.0, 0.2]))),
        Sample((0.7, 1.2, 0.4)),
        Sample((np.array([[0.4], [2.0]]), 0.9, np.linspace(0.2, 1, 6)[::-2])),
        Sample((np.zeros((0, 2)), np.ones(2), 1.0)),
    ],
    kinks=Kinks(domain=lambda x, sigma, gamma: unless(abs(gamma) < abs(x), sigma)),
)


def _to_h(_: Value, h: Value, a: Value) -> Value:
    return -bell(h, sharpness=0.5) * bind1(erf, a * h * math.sqrt(0.5)) / math.sqrt(8 * math.pi)


def _to_a(_: Value, h: Value, a: Value) -> Value:
    return bell(h, sharpness=0.5) * bell(a * h, sharpness=0.5) / (2 * math.pi * (1 + a * a))


owens_t: Primitive = evaluated_by_scipy(
    "owens_t",
    partials=(_to_h, _to_a),
    samples=combined(
        lambda: [
            Sample((np.array([-1.2, 0.4, 3.0]), np.array([0.7, -1.5, 0.3]))),
            Sample((0.7, 1.2)),
            Sample((np.array([[0.4], [2.0]]), np.linspace(-2, 1, 6)[::-2])),
            Sample((np.zeros((0, 2)), np.ones(2))),
        ],
        edges((0.0, 1.0), (1.0, 0.0), (0.0, 0.0), smooth=True),
        edges((np.nan, 1.0), (1.0, np.nan)),
    ),
)
