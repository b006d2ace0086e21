"""Derivatives of Bessel functions with respect to their order, by contour integrals.

>>> k_in_order(np.array([0.0, 1.5]), np.array([2.0, 2.0]), (1, 0), True)
array([0.        , 0.79479239])

Each function is an integral of ``exp(x f(w) - v w)`` along a path in the complex plane, with the
hyperbolic sine or cosine for f (Schläfli's integrals: DLMF 10.9.6, 10.9.7, 10.32.4 and 10.32.9). A
derivative with respect to the order v brings down a factor -w; the same path serves all orders. It
goes through the saddle point, or starts from there, so that nothing cancels. ``orders`` are the
number of derivatives with respect to v, and, where the function is scaled by an exponential, to x.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from funcgrad._primitives.special_functions.quadrature import GRADED, NOTHING_LEFT, integral
from funcgrad.errors import DifferentiationError

Array = np.ndarray[Any, Any]
Orders = tuple[int, int]

_FARTHEST: Final = 3000.0
"""Up to where oscillations are followed one by one."""


def _parts_of_oscillation(turns: Array) -> tuple[float, ...]:
    """Parts of an interval for 40 points each, in which an angle grows by some 20 at most."""
    count = 2 + int(np.max(turns, initial=0.0) / 20)
    return tuple((np.arange(count + 1) / count).tolist())


def _bounds(exponent: Callable[[Array], Array], peak: Array, far: Array) -> Array:
    """Where a function that falls from its peak on has fallen far enough, by bisection."""
    top = exponent(peak) - NOTHING_LEFT
    near = peak
    for _ in range(40):
        middle = (near + far) / 2
        inside = exponent(middle) > top
        near, far = np.where(inside, middle, near), np.where(inside, far, middle)
    return far


def _wave(u: Array, quarters: int) -> tuple[Array, Array]:
    """The cosine and the sine of ``pi (u + quarters / 2)``, 0 where they are that."""
    turn = np.fmod(u, 2.0) + quarters / 2
    cosine = np.where(np.fmod(turn + 0.5, 1.0) == 0, 0.0, np.cos(math.pi * turn))
    return cosine, np.where(np.fmod(turn, 1.0) == 0, 0.0, np.sin(math.pi * turn))


def _over(integrand: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """The integral between bounds, with the finest parts at the upper one.

    There the exponential of an exponential sets in; below, plain exponentials decay.
    """
    length: Array = high - low
    return integral(lambda s: integrand(high - s), length, GRADED)


# ---------------------------------------------------------------------------- modified functions


def k_in_order(v: Array, x: Array, orders: Orders, scaled: bool) -> Array:
    """The derivative of K of given orders in v and x, or with ``scaled`` of ``exp(x) K``.

    It is an integral, whose integrand has one sign.
    """
    n, m = orders
    u = np.abs(v)

    def exponent(t: Array) -> Array:
        return u * t - 2 * x * np.sinh(t / 2) ** 2

    def integrand(t: Array) -> Array:
        wave = (1 + (-1) ** n * np.exp(-2 * u * t)) / 2
        if n % 2:
            wave = -np.expm1(-2 * u * t) / 2
        factor = t**n * (-2 * np.sinh(t / 2) ** 2) ** m
        return factor * wave * np.exp(exponent(t) - (0 if scaled else x))

    peak = np.arcsinh(u / x)
    high = _bounds(exponent, peak, peak + np.arcsinh((NOTHING_LEFT + u + 1) / x) + 3)
    low = np.maximum(_bounds(lambda t: exponent(-t), -peak, np.zeros_like(peak)) * -1, 0.0)
    sign = np.where(v < 0, (-1.0) ** n, 1.0)
    return sign * _over(integrand, low, high)


def i_in_order(v: Array, x: Array, orders: Orders, scaled: bool) -> Array:
    """The derivative of I of given orders in v and x, or with ``scaled`` of ``exp(-x) I``."""
    n = orders[0]
    u = np.abs(v)
    value = _i_of_positive(u, x, orders, scaled)
    if not (v < 0).any():
        return value
    other = np.zeros_like(x)
    for k in range(n + 1):
        wave = math.comb(n, k) * math.pi**k * _wave(u, k)[1]
        other += np.where(wave == 0, 0.0, wave * _k_times(u, x, (n - k, orders[1]), scaled))
    return np.where(v < 0, (-1.0) ** n * (value + 2 / math.pi * other), value)


def _k_times(u: Array, x: Array, orders: Orders, scaled: bool) -> Array:
    """``exp(-x) K(x)``, differentiated, or K without the exponential."""
    n, m = orders
    if not scaled:
        return k_in_order(u, x, orders, False)
    total = np.zeros_like(x)
    for k in range(m + 1):  # exp(-2 x) times the scaled function
        total += math.comb(m, k) * (-2.0) ** (m - k) * k_in_order(u, x, (n, k), True)
    return np.exp(-2 * x) * total


def _i_of_positive(v: Array, x: Array, orders: Orders, scaled: bool) -> Array:
    """I for positive v: through the saddle ``sinh(w0) = v / x``, and outwards from both ends."""
    n, m = orders
    saddle = np.arcsinh(v / x)
    size = np.hypot(v, x)
    reach = 2 * np.arcsin(np.minimum(1.0, np.sqrt(NOTHING_LEFT / (2 * size))))
    whole = (v * v / (size + x) if scaled else size) - v * saddle

    def upright(theta: Array) -> Array:
        w = saddle + 1j * theta
        factor = (-w) ** n * (2 * np.sinh(w / 2) ** 2) ** m
        phase = v * (np.sin(theta) - theta)
        exponent = whole - 2 * size * np.sin(theta / 2) ** 2
        return (factor * np.exp(exponent + 1j * phase)).real

    turns = v * (reach - np.sin(reach))
    first = integral(upright, reach, _parts_of_oscillation(turns))

    def level(t: Array) -> Array:
        w = t + 1j * math.pi
        exponent = -x * np.cosh(t) - v * t - (x if scaled else 0)
        factor = (-w) ** n * (-2 * np.cosh(t / 2) ** 2) ** m * np.exp(-1j * math.pi * v)
        return (factor * np.exp(exponent)).imag

    far = np.where(v > 0, NOTHING_LEFT / np.maximum(v, 1e-9), np.inf)
    far = np.minimum(saddle + far, np.maximum(saddle, np.arcsinh(NOTHING_LEFT / x)) + 3)
    high = _bounds(lambda t: -x * np.cosh(t) - v * t, saddle, far)
    return (first + _over(level, saddle, high)) / math.pi


# ---------------------------------------------------------------------------- J and Y


def j_in_order(v: Array, x: Array, order: int) -> Array:
    """The derivative of J in v of a given order, for v of both signs."""
    return _reflected(v, x, order, _j_of_positive, _y_of_positive, -1.0)


def y_in_order(v: Array, x: Array, order: int) -> Array:
    """The derivative of Y in v of a given order, for v of both signs."""
    return _reflected(v, x, order, _y_of_positive, _j_of_positive, 1.0)


Positive = Callable[[Array, Array, int], Array]


def _reflected(
    v: Array, x: Array, order: int, same_kind: Positive, other_kind: Positive, sign: float
) -> Array:
    """``cos(pi v) same_kind(v) + sign sin(pi v) other_kind(v)`` is the function of the order -v.

    DLMF 10.4.
    """
    u = np.abs(v)
    if not (v < 0).any():
        return same_kind(u, x, order)
    turned = np.zeros_like(x)
    for k in range(order + 1):
        cosine, sine = _wave(u, k)
        first = np.where(cosine == 0, 0.0, cosine * same_kind(u, x, order - k))
        second = np.where(sine == 0, 0.0, sine * other_kind(u, x, order - k))
        turned += math.comb(order, k) * math.pi**k * (first + sign * second)
    return np.where(v < 0, (-1.0) ** order * turned, same_kind(u, x, order))


def _by_kind(near: Positive, component: str) -> Positive:
    def function(v: Array, x: Array, order: int) -> Array:
        far = (x > 40) & (x > v * v)
        beyond = ~far & (x > _FARTHEST) & (v < 2 * x)
        if beyond.any():
            k = np.flatnonzero(beyond)[0]
            raise DifferentiationError(
                "Bessel functions: the derivative with respect to the order is available for"
                f" arguments up to {_FARTHEST:.0f}, for those above the square of the order, and"
                f" for those below half the order; got the order {v[k]} at {x[k]}."
            )
        result = np.zeros_like(x)
        if far.any():
            result[far] = getattr(_by_hankel(v[far], x[far], order), component)
        if not far.all():
            result[~far] = near(v[~far], x[~far], order)
        return result

    return function


def _by_hankel(v: Array, x: Array, order: int) -> Array:
    """Hankel's expansion of ``J + i Y``, differentiated term by term: DLMF 10.17.5."""
    square = [4 * v * v, 8 * v, 8 * np.ones_like(v)]  # with its derivatives
    term = [np.ones_like(v) + 0j] + [np.zeros_like(v) + 0j] * order
    total = [derivative.copy() for derivative in term]
    for k in range(1, 40):
        scale = 1j / (8 * k * x)
        odd = (2 * k - 1) ** 2
        new = []
        for j in range(order + 1):
            value = (square[0] - odd) * term[j]
            for i in range(1, min(j, 2) + 1):
                value = value + math.comb(j, i) * square[i] * term[j - i]
            new.append(scale * value)
        term = new
        total = [partial_sum + more for partial_sum, more in zip(total, term, strict=True)]
    turn = -0.5j * math.pi
    expansion = sum(
        [math.comb(order, j) * turn ** (order - j) * total[j] for j in range(order + 1)],
        np.zeros_like(v) + 0j,
    )
    return np.sqrt(2 / (math.pi * x)) * np.exp(1j * (x - math.pi * (v / 2 + 0.25))) * expansion


def _j_near(v: Array, x: Array, order: int) -> Array:
    """For v > x through the saddle, ``cosh(w0) = v / x``; else along the imaginary axis."""
    high = v > x
    saddle = np.where(high, np.arccosh(np.where(high, v / x, 1.0)), 0.0)
    size = np.where(high, np.sqrt(np.where(high, (v - x) * (v + x), 1.0)), 0.0)  # x sinh(w0)
    frequency = np.where(high, v, x)  # x cosh(w0)
    whole = size - v * saddle
    reach = np.where(
        2 * size > NOTHING_LEFT,
        2 * np.arcsin(np.sqrt(np.minimum(1.0, NOTHING_LEFT / np.maximum(2 * size, 1e-9)))),
        math.pi,
    )

    def upright(theta: Array) -> Array:
        w = saddle + 1j * theta
        phase = frequency * np.sin(theta) - v * theta
        exponent = whole - 2 * size * np.sin(theta / 2) ** 2
        return ((-w) ** order * np.exp(exponent + 1j * phase)).real

    turns = np.where(high, v * (reach - np.sin(reach)), (x + v) * reach)
    first = integral(upright, reach, _parts_of_oscillation(turns))

    def level(t: Array) -> Array:
        w = t + 1j * math.pi
        factor = (-w) ** order * np.exp(-1j * math.pi * v - x * np.sinh(t) - v * t)
        return factor.imag

    last = _bounds(
        lambda t: -x * np.sinh(t) - v * t,
        saddle,
        np.arcsinh(NOTHING_LEFT / x + np.sinh(saddle)) + 1,
    )
    return (first + _over(level, saddle, last)) / math.pi


def _y_near(v: Array, x: Array, order: int) -> Array:
    """Y for moderate arguments: along the imaginary axis, and both halves of the real one."""

    def exponent(t: Array) -> Array:
        return v * t - x * np.sinh(t)

    peak = np.where(v > x, np.arccosh(np.where(v > x, v / x, 1.0)), 0.0)
    whole = exponent(peak)
    alone = whole > 2 * NOTHING_LEFT  # the oscillating part is negligible
    turns = np.where(alone, 0.0, (x + v) * math.pi)

    def upright(theta: Array) -> Array:
        phase = np.where(alone, 0.0, x * np.sin(theta) - v * theta)
        return ((-1j * theta) ** order * np.exp(1j * phase)).imag

    first = integral(upright, np.full_like(x, math.pi), _parts_of_oscillation(turns))
    high = _bounds(exponent, peak, np.arcsinh((NOTHING_LEFT + v + 1) / x) + peak + 3)
    low = np.maximum(-_bounds(lambda t: exponent(-t), -peak, np.zeros_like(peak)), 0.0)
    rising = _over(lambda t: t**order * np.exp(exponent(t)), low, high)

    def falling(t: Array) -> Array:
        factor = (-t + 1j * math.pi) ** order * np.exp(1j * math.pi * v - v * t - x * np.sinh(t))
        return factor.real

    zero = np.zeros_like(x)
    end = _bounds(lambda t: -v * t - x * np.sinh(t), zero, np.arcsinh(NOTHING_LEFT / x) + 1)
    return (np.where(alone, 0.0, first - _over(falling, zero, end)) - rising) / math.pi


_j_of_positive: Final = _by_kind(_j_near, "real")
_y_of_positive: Final = _by_kind(_y_near, "imag")
