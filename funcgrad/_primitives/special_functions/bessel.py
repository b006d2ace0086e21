"""Bessel functions of all kinds, with derivatives in the order and in the argument.

>>> j0(0.0), kv(0.5, 2.0)
(np.float64(1.0), np.float64(0.11993777196806))

Derivatives with respect to the argument are functions of neighbouring orders (DLMF 10.6.1 and
10.29.1). Of those that are scaled by an exponential, this would cancel for large arguments: theirs
are operations of their own, as those with respect to the order are (see ``bessel_orders``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Kinks, Primitive, Sample
from funcgrad._core.specs import dtype_of
from funcgrad._core.structure.structures import OWNS, TRANSCENDENTAL, UNEVEN
from funcgrad._core.trace import Value, bind1, bind2
from funcgrad._primitives.elementwise import combined, edges, elementwise, reals
from funcgrad._primitives.kinks import (
    AT_ZERO,
    POSITIVE,
    distance_to_cut,
    if_real,
    is_complex,
    is_whole,
    to_cut,
    unless,
)
from funcgrad._primitives.selection import where
from funcgrad._primitives.special_functions.bessel_orders import (
    i_in_order,
    j_in_order,
    k_in_order,
    y_in_order,
)
from funcgrad._primitives.special_functions.quadrature import in_parts
from funcgrad._primitives.special_functions.scipys import (
    evaluated_by_scipy,
    in_double,
    scipy_special,
)
from funcgrad.errors import DifferentiationError

Array = np.ndarray[Any, Any]
Orders = tuple[int, int]
Samples = Callable[[], Iterable[Sample]]

# Evaluation of derivatives in the order, for positive arguments and at their ends.


def _at_positive(function: Callable[..., Array], v: Array, x: Array, ends: Array) -> Array:
    """A function of orders and positive arguments, extended by its limits."""
    inside = np.isfinite(v) & np.isfinite(x) & (x > 0)
    result = np.where(np.isnan(v) | np.isnan(x) | (x < 0), np.nan, ends)
    if inside.any():
        result[inside] = in_parts(function, v[inside], x[inside])
    return result


def _regular(v: Array, x: Array, order: int, at_infinity: float) -> Array:
    """Edge values of derivatives in the order, of a function that is 0 at 0 for positive orders.

    At the order 0 it jumps to 1, and for an infinite order it is 0.
    """
    at_zero = np.where(v > 0, 0.0, np.where(v == 0, (-1.0) ** order * np.inf, np.nan))
    far = np.where(np.isposinf(x), at_infinity, np.where(np.isposinf(v) & (x > 0), 0.0, np.nan))
    return np.where(x == 0, at_zero, far)


def _singular(v: Array, x: Array, order: int) -> Array:
    """Edge values of derivatives in the order, of a function that is infinite at 0."""
    at_zero = np.where(v > 0, np.inf, np.nan)
    return np.where(x == 0, at_zero, np.where(np.isposinf(x), 0.0, np.nan))


def _jv_in_order(v: Array, x: Array, order: int) -> Array:
    return _at_positive(lambda v, x: j_in_order(v, x, order), v, x, _regular(v, x, order, 0.0))


def _yv_in_order(v: Array, x: Array, order: int) -> Array:
    return _at_positive(lambda v, x: y_in_order(v, x, order), v, x, -_singular(v, x, order))


def _iv_in_order(v: Array, x: Array, order: int) -> Array:
    ends = _regular(v, x, order, -np.inf if order % 2 else np.inf)
    return _at_positive(lambda v, x: i_in_order(v, x, (order, 0), False), v, x, ends)


def _kv_in_order(v: Array, x: Array, order: int) -> Array:
    return _at_positive(
        lambda v, x: k_in_order(v, x, (order, 0), False), v, x, _singular(v, x, order)
    )


# Evaluation of derivatives of scaled functions.

_NEAR = 5.0
"""Up to here neighbouring orders lose no more digits than one, and two for second derivatives."""


def _neighbours(function: Callable[..., Array], v: Array, x: Array, count: int, sign: int) -> Array:
    """``(scaled f)^(count)`` from the derivatives of f, which are sums of neighbouring orders."""
    total = np.zeros_like(x)
    for k in range(count + 1):
        slope = np.zeros_like(x)
        for j in range(k + 1):
            slope += math.comb(k, j) * function(v - k + 2 * j, x)
        total += math.comb(count, k) * (-1.0) ** (count - k) * 0.5**k * slope
    return float(sign) ** count * total


def _ive_derivative(v: Array, x: Array, orders: Orders) -> Array:
    """Whole orders have a mirror image at negative arguments; ``abs(x)`` has its kink at 0."""
    n, m = orders
    whole, u = v == np.rint(v), np.abs(x)
    near = (u <= _NEAR) & (u > 0) & (n == 0)
    special = scipy_special("ive")
    small = np.where(near, u, 1.0)
    by_orders = _neighbours(special.ive, v, small, m, 1)
    far = _at_positive(
        lambda v, x: i_in_order(v, x, orders, True),
        v,
        np.where(near, np.nan, u),
        np.where(np.isposinf(u), 0.0, _of_i_at_zero(v, n, m)),
    )
    parity = np.where(np.fmod(v + m, 2) == 0, 1.0, -1.0)
    sign = np.where(x < 0, np.where(whole & (n == 0), parity, np.nan), 1.0)
    return sign * np.where(near, by_orders, far)


def _of_i_at_zero(v: Array, n: int, m: int) -> Array:
    if n:
        return np.where(v > m, 0.0, np.nan)
    steep = np.where((v > 0) & (v < 1) & (m == 1), np.inf, np.nan)
    smooth = np.where(v > m, 0.0, steep)
    for order in range(m + 1):
        smooth = np.where(np.abs(v) == order, _of_whole_i_at_zero(order, m), smooth)
    return smooth


def _of_whole_i_at_zero(order: int, m: int) -> float:
    """From the power series; 0 where the two sides have opposite values."""
    if (order + m) % 2:
        return 0.0
    total = 0.0
    for k in range((m - order) // 2 + 1):
        power = order + 2 * k
        share = 0.5**power / (math.factorial(k) * math.factorial(order + k))
        total += share * (-1) ** (m - power) / math.factorial(m - power)
    return math.factorial(m) * total


def _kve_derivative(v: Array, x: Array, orders: Orders) -> Array:
    n, m = orders
    near = (x <= _NEAR) & (x > 0) & (n == 0)
    small = np.where(near, x, 1.0)
    by_orders = _neighbours(scipy_special("kve").kve, v, small, m, -1)
    at_zero = (-1.0) ** m * np.where((n == 0) | (v > 0), np.inf, np.nan)
    ends = np.where(np.isposinf(x), 0.0, np.where(x == 0, at_zero, np.nan))
    far = _at_positive(
        lambda v, x: k_in_order(v, x, orders, True), v, np.where(near, np.nan, x), ends
    )
    return np.where(near, by_orders, far)


# Declarations.

_POINTS = combined(
    lambda: [
        Sample((np.array([0.5, 1.0, 2.7]), np.array([0.4, 2.0, 7.0]))),
        Sample((1.5, 2.0)),
        Sample((np.array(1.5), np.array(2.0))),
        Sample((np.array([[0.3], [2.5]]), np.linspace(0.4, 9, 6)[::-2])),
        Sample((np.zeros((0, 2)), np.ones(2))),
    ],
    edges((0.0, 2.0), (-0.7, 3.0), (12.0, 3.0), (1.0, 20.0), smooth=True),
    edges((0.0, 0.0), (1.0, 0.0), (2.5, 0.0), (1.0, -1.0), (1.0, np.inf), (np.nan, 1.0)),
)
_ORDERED = combined(_POINTS, order=1)
_COMPLEX = lambda: [  # noqa: E731 - as the makers of samples are
    Sample((np.array([0, 1, 2]), np.array([0.5 + 0.4j, 1.5 - 0.3j, 2.0j + 0.6])))
]


def _to_order(of_order: Callable[[], Primitive], name: str) -> Callable[..., Value]:
    def factor(_: Value, v: Value, z: Value) -> Value:
        if dtype_of(z).kind == "c":
            raise DifferentiationError(
                f"{name}: the derivative with respect to the order is available for real arguments;"
                " hold the order constant with fg.stop_gradient, or pass z.real."
            )
        return of_order()(v, z, order=1)

    return factor


Signs = tuple[float, float]


def _where_order_is_broken(v: Value, x: Value) -> Value:
    """The domain of functions that have values at negative arguments only for integer orders."""
    return () if is_complex(x) else unless(is_whole(v), x)


def _cut(v: Value, z: Value) -> Value:
    return unless(is_whole(v), distance_to_cut(z)) if is_complex(z) else ()


_BROKEN: Final = Kinks(_cut, _where_order_is_broken)
_SINGULAR: Final = Kinks(lambda v, z: to_cut(z), lambda v, z: if_real(z))
_POSITIVE: Final = Kinks(domain=lambda v, x, **_: x)


def _function(
    name: str, of_order: Callable[[], Primitive], signs: Signs, kinks: Kinks
) -> Primitive:
    """A function whose derivative with respect to z is half the signed sum of the neighbours."""
    below, above = signs

    def slope(_: Value, v: Value, z: Value) -> Value:
        lower, upper = below * bessel(v - 1, z), above * bessel(v + 1, z)
        if kinks is not _SINGULAR:
            return lower + upper
        return where(z == 0, where(v < 0, lower, upper), lower + upper)  # the greater infinity

    bessel: Primitive = evaluated_by_scipy(
        name,
        partials=(_to_order(of_order, name), slope),
        samples=combined(_POINTS, _COMPLEX),
        kinks=kinks,
    )
    return bessel


def _in_order(name: str, evaluate: Callable[..., Array], signs: Signs, kinks: Kinks) -> Primitive:
    """Its derivative of some order with respect to v, with the same recurrence in neighbours."""
    below, above = signs

    def slope(_: Value, v: Value, z: Value, order: int) -> Value:
        return below * derivative(v - 1, z, order=order) + above * derivative(v + 1, z, order=order)

    derivative: Primitive = elementwise(
        name,
        in_double(name, evaluate),
        partials=(lambda _, v, z, order: derivative(v, z, order=order + 1), slope),
        samples=_ORDERED,
        traits=TRANSCENDENTAL | UNEVEN | OWNS,
        kinks=kinks,
    )
    return derivative


_ROUND, _HYPERBOLIC, _DECAYING = (0.5, -0.5), (0.5, 0.5), (-0.5, -0.5)
jv_in_order: Primitive = _in_order("jv_in_order", _jv_in_order, _ROUND, _POSITIVE)
yv_in_order: Primitive = _in_order("yv_in_order", _yv_in_order, _ROUND, _POSITIVE)
iv_in_order: Primitive = _in_order("iv_in_order", _iv_in_order, _HYPERBOLIC, _POSITIVE)
kv_in_order: Primitive = _in_order("kv_in_order", _kv_in_order, _DECAYING, _POSITIVE)
jv: Primitive = _function("jv", lambda: jv_in_order, _ROUND, _BROKEN)
yv: Primitive = _function("yv", lambda: yv_in_order, _ROUND, _SINGULAR)
iv: Primitive = _function("iv", lambda: iv_in_order, _HYPERBOLIC, _BROKEN)
kv: Primitive = _function("kv", lambda: kv_in_order, _DECAYING, _SINGULAR)


def _hankel(name: str, sign: int) -> Primitive:
    """``jv + sign i yv``, without cancellation for large values."""

    def to_order(_: Value, v: Value, z: Value) -> Value:
        parts = [_to_order(of_order, name)(_, v, z) for of_order in (_jv_order, _yv_order)]
        return parts[0] + sign * 1j * parts[1]

    hankel: Primitive = evaluated_by_scipy(
        name,
        partials=(to_order, lambda _, v, z: 0.5 * (hankel(v - 1, z) - hankel(v + 1, z))),
        samples=combined(
            lambda: [
                Sample((np.array([0.5, 1.0, 2.7]), np.array([0.4, 2.0, 7.0]))),
                Sample((1.5, 2.0)),
                Sample((np.zeros((0, 2)), np.ones(2))),
            ],
            _COMPLEX,
        ),
        kinks=_SINGULAR,
    )
    return hankel


def _jv_order() -> Primitive:
    return jv_in_order


def _yv_order() -> Primitive:
    return yv_in_order


hankel1: Primitive = _hankel("hankel1", 1)
hankel2: Primitive = _hankel("hankel2", -1)


def _scaled_derivative(name: str, evaluate: Callable[..., Array], kinks: Kinks) -> Primitive:
    """The derivatives of some orders in v and in x of a function with an exponential."""

    def samples() -> Iterator[Sample]:
        for orders in ((0, 1), (1, 0), (1, 1)):
            yield from combined(_POINTS, orders=orders)()

    derivative: Primitive = elementwise(
        name,
        in_double(name, evaluate),
        partials=(
            lambda _, v, x, orders: derivative(v, x, orders=(orders[0] + 1, orders[1])),
            lambda _, v, x, orders: derivative(v, x, orders=(orders[0], orders[1] + 1)),
        ),
        samples=samples,
        traits=TRANSCENDENTAL | UNEVEN | OWNS,
        kinks=kinks,
    )
    return derivative


ive_derivative: Primitive = _scaled_derivative("ive_derivative", _ive_derivative, _POSITIVE)
kve_derivative: Primitive = _scaled_derivative("kve_derivative", _kve_derivative, _POSITIVE)


def _scaled(name: str, derivative: Primitive, kinks: Kinks) -> Primitive:
    def real(z: Value) -> None:
        if dtype_of(z).kind == "c":
            raise DifferentiationError(
                f"{name}: the derivative is available for real arguments, since abs(z.real) in the"
                " scale has none along other directions. Pass z.real, or use the function without"
                " the scale."
            )

    def to_order(_: Value, v: Value, z: Value) -> Value:
        real(z)
        return derivative(v, z, orders=(1, 0))

    def slope(_: Value, v: Value, z: Value) -> Value:
        real(z)
        return derivative(v, z, orders=(0, 1))

    return evaluated_by_scipy(name, partials=(to_order, slope), samples=_POINTS, kinks=kinks)


ive: Primitive = _scaled(
    "ive",
    ive_derivative,
    Kinks(lambda v, x: x.real if is_complex(x) else x, _where_order_is_broken),
)
kve: Primitive = _scaled("kve", kve_derivative, _SINGULAR)

# For the orders 0 and 1.

_LINE = combined(
    reals(0.3, 5),
    reals(-5, -0.3),
    edges(1e-9, 40.0, smooth=True),
    edges(-np.inf, 0.0, np.inf, np.nan),
)
_ABOVE = combined(reals(0.3, 5), edges(1e-9, 40.0, smooth=True), edges(0.0, -1.0, np.inf, np.nan))


def _kinks_on(line: Samples) -> Kinks | None:
    return POSITIVE if line is _ABOVE else None


def _of_zero(name: str, of_one: Callable[[], Primitive], sign: int, line: Samples) -> Primitive:
    return evaluated_by_scipy(
        name,
        partials=(lambda _, x: sign * bind1(of_one(), x),),
        samples=line,
        kinks=_kinks_on(line),
    )


def _of_one(
    name: str, of_zero: Callable[[], Primitive], of_two: Primitive, signs: Signs, line: Samples
) -> Primitive:
    below, above = signs

    def slope(_: Value, x: Value) -> Value:
        upper = above * bind2(of_two, 2.0, x)
        whole = below * bind1(of_zero(), x) + upper
        return where(x == 0, upper, whole) if line is _ABOVE else whole

    return evaluated_by_scipy(name, partials=(slope,), samples=line, kinks=_kinks_on(line))


j0: Primitive = _of_zero("j0", lambda: j1, -1, _LINE)
j1: Primitive = _of_one("j1", lambda: j0, jv, _ROUND, _LINE)
y0: Primitive = _of_zero("y0", lambda: y1, -1, _ABOVE)
y1: Primitive = _of_one("y1", lambda: y0, yv, _ROUND, _ABOVE)
i0: Primitive = _of_zero("i0", lambda: i1, 1, _LINE)
i1: Primitive = _of_one("i1", lambda: i0, iv, _HYPERBOLIC, _LINE)
k0: Primitive = _of_zero("k0", lambda: k1, -1, _ABOVE)
k1: Primitive = _of_one("k1", lambda: k0, kv, _DECAYING, _ABOVE)


def _scaled_of(name: str, order: float, derivative: Primitive, line: Samples) -> Primitive:
    return evaluated_by_scipy(
        name,
        partials=(lambda _, x: derivative(order, x, orders=(0, 1)),),
        samples=line,
        kinks=_kinks_on(line) or AT_ZERO,
    )


i0e: Primitive = _scaled_of("i0e", 0.0, ive_derivative, _LINE)
i1e: Primitive = _scaled_of("i1e", 1.0, ive_derivative, _LINE)
k0e: Primitive = _scaled_of("k0e", 0.0, kve_derivative, _ABOVE)
k1e: Primitive = _scaled_of("k1e", 1.0, kve_derivative, _ABOVE)
