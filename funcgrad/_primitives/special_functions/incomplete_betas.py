"""The incomplete beta function, its inverse, and derivatives with respect to all arguments.

>>> betainc(1.0, 3.0, 0.5)
np.float64(0.875)

With the density ``x**(a - 1) * (1 - x)**(b - 1) / beta(a, b)`` of the beta distribution,
``betainc`` is the integral from 0 to x. Its derivatives with respect to a and b, of orders (m, n),
are integrals of derivatives of the density: see ``_shape_slope``.
"""

from __future__ import annotations

from math import comb, factorial
from typing import Any, Final, NamedTuple

import numpy as np

from funcgrad._core.primitive import Factor, Kinks, Primitive, Sample
from funcgrad._core.structure.structures import OWNS, TRANSCENDENTAL, UNEVEN
from funcgrad._core.trace import Value, bind1, bind2
from funcgrad._primitives.elementwise import combined, divide, edges, elementwise, log
from funcgrad._primitives.selection import where
from funcgrad._primitives.special_functions.entropies import ratio_or_zero
from funcgrad._primitives.special_functions.gammas import polygamma_rise
from funcgrad._primitives.special_functions.incomplete_gammas import is_tiny, log_less, stirling
from funcgrad._primitives.special_functions.quadrature import (
    GRADED,
    NOTHING_LEFT,
    in_parts,
    integral,
)
from funcgrad._primitives.special_functions.scipys import (
    evaluated_by_scipy,
    in_double,
    scipy_special,
)

Array = np.ndarray[Any, Any]
Orders = tuple[int, int]

_LARGE: Final = 16.0
"""From here on the gamma function is computed by Stirling's series."""


class _Point(NamedTuple):
    """Parameters, and a place between 0 and 1 with all that is known of it to full precision."""

    a: Array
    b: Array
    x: Array
    y: Array  # 1 - x
    log_x: Array
    log_y: Array

    def turned(self) -> _Point:
        """The point of the complementary integral: a and b, and x and ``1 - x``, change places."""
        return _Point(self.b, self.a, self.y, self.x, self.log_y, self.log_x)

    def chosen(self, mask: Array) -> _Point:
        """Some of them."""
        return _Point(*[array[mask] for array in self])


def point(a: Array, b: Array, x: Array) -> _Point:
    y = 1 - x
    low = x < 0.5
    log_x = np.where(low, np.log(x), np.log1p(-y))
    return _Point(a, b, x, y, log_x, np.where(low, np.log1p(-x), np.log(y)))


def _weight(at: _Point) -> Array:
    """``x**a * (1 - x)**b / beta(a, b)``, where Stirling's series applies by that.

    Didonato, Morris, "Significant digit computation of the incomplete beta function ratios", ACM
    Trans. Math. Softw. 18 (1992).
    """
    both = (at.a >= _LARGE) & (at.b >= _LARGE)
    one = ~both & (at.b >= _LARGE)
    other = ~both & (at.a >= _LARGE)
    neither = ~(both | one | other)
    result = np.zeros_like(at.x)
    result[both] = _weight_of_large(at.chosen(both))
    result[one] = _weight_of_mixed(at.chosen(one))
    result[other] = _weight_of_mixed(at.chosen(other).turned())
    a, b, *_, log_x, log_y = small = at.chosen(neither)
    factor = small.x**a * np.exp(b * log_y)
    low = small.x < 0.5
    factor = np.where(low, factor, np.exp(a * log_x) * small.y**b)
    result[neither] = factor / scipy_special("betainc").beta(a, b)
    return result


def _weight_of_large(at: _Point) -> Array:
    total = at.a + at.b
    mean, complement = at.a / total, at.b / total
    near = np.where(
        mean < 0.5, at.x - mean, complement - at.y
    )  # of the smaller one there are more digits
    exponent = at.a * log_less(mean + near, mean) + at.b * log_less(complement - near, complement)
    exponent += stirling(total) - stirling(at.a) - stirling(at.b)
    return np.sqrt(mean * at.b / (2 * np.pi)) * np.exp(exponent)


def _weight_of_mixed(at: _Point) -> Array:
    """Only for large b."""
    a, b = at.a, at.b
    total = a + b
    exponent = b * at.log_y + b * log_less(total, b) - np.log1p(a / b) / 2
    exponent += stirling(total) - stirling(b)
    return (at.x * total) ** a * np.exp(exponent) * scipy_special("betainc").rgamma(a)


# Parameter derivatives: polynomials in log(t), log(1 - t) and polygamma functions.


def _orders_up_to(orders: Orders) -> list[Orders]:
    """The orders of the derivatives that compose a derivative, from the lowest on."""
    return [(i, j) for i in range(orders[0] + 1) for j in range(orders[1] + 1)]


def _harmonic(a: Array, b: Array, orders: Orders) -> dict[Orders, Array]:
    """The derivatives of ``log gamma(a + b + 1) - log gamma(a + 1) - log gamma(b + 1)``."""
    rise = polygamma_rise.evaluate
    derivatives = {(1, 0): rise(a + 1, b, order=0), (0, 1): rise(b + 1, a, order=0)}
    for i, j in _orders_up_to(orders):
        if i and j:
            derivatives[i, j] = scipy_special("betainc").polygamma(i + j - 1, a + b + 1)
        elif i > 1:
            derivatives[i, j] = rise(a + 1, b, order=i - 1)
        elif j > 1:
            derivatives[i, j] = rise(b + 1, a, order=j - 1)
    return derivatives


def _with_prefactor(
    prefactor: dict[Orders, Array], cumulants: dict[Orders, Array], orders: Orders
) -> Array:
    """The derivative of some orders of ``prefactor * exp(f)``, over ``exp(f)``."""
    (m, n), total, bell = orders, np.zeros(()), _bell(cumulants, orders)
    for i, j in _orders_up_to(orders):
        total = total + comb(m, i) * comb(n, j) * prefactor[i, j] * bell[m - i, n - j]
    return total


def _bell(cumulants: dict[Orders, Array], orders: Orders) -> dict[Orders, Array | float]:
    """The derivatives of ``exp(f)``, divided by ``exp(f)``, from the derivatives of f."""
    derivatives: dict[Orders, Array | float] = {(0, 0): 1.0}
    for m, n in _orders_up_to(orders)[1:]:
        total = np.zeros(())
        p, q = (m - 1, n) if m else (m, n - 1)
        for i, j in _orders_up_to((p, q)):
            cumulant = cumulants[i + m - p, j + n - q]
            total = total + comb(p, i) * comb(q, j) * cumulant * derivatives[p - i, q - j]
        derivatives[m, n] = total
    return derivatives


def _harmonic_mean(a: Array, b: Array, orders: Orders) -> dict[Orders, Array]:
    """``a b / (a + b)``, by which 1 / beta(a, b) is larger than with a + 1 and b + 1."""
    c = a + b
    derivatives = {(0, 0): a * (b / c), (1, 0): (b / c) ** 2, (0, 1): (a / c) ** 2}
    for i, j in _orders_up_to(orders):
        k = i + j
        if k > 1:
            parts = 2 * i * j * (a / c) * (b / c) - i * (i - 1) * (b / c) ** 2
            parts = parts - j * (j - 1) * (a / c) ** 2
            derivatives[i, j] = (-1) ** k * factorial(k - 2) * c ** (1 - k) * parts
    return derivatives


def _share(a: Array, b: Array, orders: Orders) -> dict[Orders, Array]:
    """The factor ``b / (a + b)`` of the remaining integral near t = 0."""
    c = a + b
    derivatives = {(0, 0): b / c}
    for i, j in _orders_up_to(orders)[1:]:
        k = i + j
        derivatives[i, j] = (-1.0) ** k * factorial(k - 1) * (i * b - j * a) / c ** (k + 1)
    return derivatives


def _polynomial(
    at: _Point, log_t: Array, log_1_minus_t: Array, orders: Orders, prefactor: dict[Orders, Array]
) -> Array:
    cumulants = _harmonic(at.a, at.b, orders)
    cumulants[1, 0] = cumulants[1, 0] + log_t
    cumulants[0, 1] = cumulants[0, 1] + log_1_minus_t
    return _with_prefactor(prefactor, cumulants, orders)


def _shape_slope(a: Array, b: Array, x: Array, orders: Orders) -> Array:
    """The derivative of some orders of ``betainc`` with respect to a and b.

    Integrals of the derivative of the density from 0 to x and from x to 1 are opposite; taken is
    the one in which that has one sign, or changes it where the result does. Where x or 1 - x is
    small the series of DLMF 8.17.7 is differentiated term by term.
    """
    inside = (a > 0) & (b > 0) & (x > 0) & (x < 1) & np.isfinite(a) & np.isfinite(b)
    result = np.where((a > 0) & (b > 0) & ((x == 0) | (x == 1)), 0.0, np.nan)
    at = point(a[inside], b[inside], x[inside])
    slopes = np.zeros_like(at.x)
    low = (at.x <= 0.3) & (at.b * at.x <= 1)
    high = ~low & (at.y <= 0.3) & (at.a * at.y <= 1)
    middle = ~(low | high)
    if low.any():
        slopes[low] = _by_series(at.chosen(low), orders)
    if high.any():
        slopes[high] = -_by_series(at.chosen(high).turned(), (orders[1], orders[0]))
    if middle.any():
        by_integral = in_parts(
            lambda *parts: _by_integral(_Point(*parts), orders), *at.chosen(middle)
        )
        slopes[middle] = by_integral
    result[inside] = slopes
    return result


def _by_series(at: _Point, orders: Orders) -> Array:
    """``b / (a + b) * exp(f) * (1 + a sum of (1 - b)_n / n! * x**n / (a + n))``, differentiated."""
    a, b = at.a, at.b
    m, n = orders
    flat = _series(at, orders)
    share, cumulants = _share(a, b, orders), _harmonic(a, b, orders)
    cumulants[1, 0] = cumulants[1, 0] + at.log_x
    total = np.zeros_like(a)
    for i, j in _orders_up_to(orders):
        outer = _with_prefactor(share, cumulants, (m - i, n - j))
        total += comb(m, i) * comb(n, j) * outer * flat[i, j]
    return total * _weight(at) / (_harmonic_mean(a, b, (0, 0))[0, 0] * np.exp(b * at.log_y))


def _series(at: _Point, orders: Orders) -> dict[Orders, Array]:
    a, b, x = at.a, at.b, at.x
    m, n = orders
    terms = [np.ones_like(a)] + [np.zeros_like(a)] * n  # (1 - b)_k / k! * x**k, by b
    sums = {order: np.zeros_like(a) for order in _orders_up_to(orders)}
    for k in range(1, 48):
        for j in range(n, -1, -1):
            terms[j] = x / k * ((k - b) * terms[j] - (j * terms[j - 1] if j else 0.0))
        for i in range(m + 1):
            slope = -((-1) ** i) * factorial(i) * k / (a + k) ** (i + 1)
            for j in range(n + 1):
                sums[i, j] += (slope if i else a / (a + k)) * terms[j]
    sums[0, 0] += 1
    return sums


def _by_integral(at: _Point, orders: Orders) -> Array:
    cumulants = _harmonic(at.a, at.b, (1, 0))
    to_a = at.log_x + cumulants[1, 0] + at.b / at.a / (at.a + at.b)
    to_b = at.log_y + cumulants[0, 1] + at.a / at.b / (at.a + at.b)
    sign = {1: to_a, -1: -to_b, 0: to_a - to_b}[np.sign(orders[0] - orders[1])]
    left = sign < 0
    result = np.zeros_like(at.x)
    if left.any():
        result[left] = _tail(at.chosen(left), orders)
    if not left.all():
        result[~left] = -_tail(at.chosen(~left).turned(), (orders[1], orders[0]))
    return result


def _tail(at: _Point, orders: Orders) -> Array:
    """The integral from 0 to x, in ``s = logit(x) - logit(t)``.

    From where t is so small that 1 - t is 1 for all purposes on, in closed form.
    """
    end = np.log(at.x / at.y) + 42 + np.log1p(at.b)
    reach = np.minimum(reach_of_tail(at), end)
    a, b = at.a, at.b
    mean, harmonic = _harmonic_mean(a, b, orders), _harmonic(a, b, orders)

    def place(s: Array) -> tuple[Array, Array]:
        return -np.log1p(at.y * np.expm1(s)), -np.log1p(at.x * np.expm1(-s))

    def integrand(s: Array) -> Array:
        down, up = place(s)
        cumulants = {**harmonic, (1, 0): harmonic[1, 0] + at.log_x + down}
        cumulants[0, 1] = harmonic[0, 1] + at.log_y + up
        return np.exp(a * down + b * up) * _with_prefactor(mean, cumulants, orders)

    down, up = place(reach)
    closed = _polynomial(at, at.log_x + down, at.log_y + up, orders, _share(a, b, orders))
    far = np.where(reach < end, 0.0, np.exp(a * down + b * up) * closed)
    return _weight(at) / mean[0, 0] * (integral(integrand, reach, GRADED) + far)


def reach_of_tail(at: _Point) -> Array:
    """Where the exponent is small enough: by Newton's method, from above, on a convex function."""
    s = (NOTHING_LEFT - (at.a + at.b) * at.log_y) / at.a
    for _ in range(24):
        grown, fallen = np.expm1(np.minimum(s, 700.0)), np.expm1(-s)
        value = at.a * np.log1p(at.y * grown) + at.b * np.log1p(at.x * fallen) - NOTHING_LEFT
        slope = at.a * at.y * (1 + grown) / (1 + at.y * grown)
        slope -= at.b * at.x * (1 + fallen) / (1 + at.x * fallen)
        step = np.where((value > 0) & (slope > 0) & (s < 700.0), value / slope, 0.0)
        s = s - step
    return s


def _density(a: Array, b: Array, x: Array, orders: Orders) -> Array:
    """Its derivative of some orders in a and b. At the ends the limits from inside."""
    inside = (a > 0) & (b > 0) & (x > 0) & (x < 1) & np.isfinite(a) & np.isfinite(b)
    result = np.where((x == 0) | (x == 1), _density_at_ends(a, b, x, orders), np.nan)
    at = point(a[inside], b[inside], x[inside])
    mean = _harmonic_mean(at.a, at.b, orders)
    factor = _polynomial(at, at.log_x, at.log_y, orders, mean)
    result[inside] = _weight(at) / (at.x * at.y) / mean[0, 0] * factor
    return result


def _density_at_ends(a: Array, b: Array, x: Array, orders: Orders) -> Array:
    near, far = np.where(x == 0, a, b), np.where(x == 0, b, a)
    order = np.where(x == 0, orders[0], orders[1])
    sign = np.where(order % 2, -1.0, 1.0) * np.sign(scipy_special("betainc").rgamma(near))
    other = sum(orders) - order
    at_one = np.where(order > 0, -np.inf, np.where(other == 0, far, np.where(other == 1, 1.0, 0.0)))
    below = np.where(sign == 0, 0.0, sign * np.inf)
    return np.where(near > 1, 0.0, np.where(near == 1, at_one, below))


_TRIPLES = combined(
    lambda: [
        Sample((np.array([0.5, 2.0, 9.0]), np.array([3.0, 0.7, 20.0]), np.array([0.2, 0.6, 0.3]))),
        Sample((2.5, 1.5, 0.3)),
        Sample((np.array(2.5), np.array(1.5), np.array(0.3))),
        Sample((np.array([[0.5], [9.0]]), 1.5, np.linspace(0.1, 0.9, 6)[::-2])),
        Sample((np.zeros((0, 2)), np.zeros(2), 0.5)),
    ],
    edges((300.0, 500.0, 0.37), (40.0, 0.4, 0.995), (1e-3, 2.0, 0.3), smooth=True),
    edges((1.0, 2.0, 0.0), (2.0, 1.0, 1.0), (0.5, 3.0, 0.0), (3.0, 0.5, 1.0), (3.0, 3.0, 0.0)),
    edges((-1.0, 2.0, 0.5), (1.0, 2.0, 1.5), (np.nan, 1.0, 0.5)),
)


def _higher(operation: str, to_a: int, to_b: int) -> Factor:
    def factor(_: Value, a: Value, b: Value, x: Value, orders: Orders) -> Value:
        primitive = beta_density if operation == "density" else betainc_in_shapes
        return primitive(a, b, x, orders=(orders[0] + to_a, orders[1] + to_b))

    return factor


def _density_to_x(y: Value, a: Value, b: Value, x: Value, orders: Orders) -> Value:
    """``density * ((a - 1) / x - (b - 1) / (1 - x))``, differentiated by a and b."""
    m, n = orders
    end = (x == 0) | (x == 1)
    t = where(end, 0.5, x)
    rise, fall = bind2(divide, a - 1, t), bind2(divide, b - 1, 1 - t)
    usual = beta_density(a, b, t, orders=orders) * (rise - fall)
    if m:
        usual = usual + m * bind2(divide, beta_density(a, b, t, orders=(m - 1, n)), t)
    if n:
        usual = usual - n * bind2(divide, beta_density(a, b, t, orders=(m, n - 1)), 1 - t)
    p, q, t = where(end, a, 2.0), where(end, b, 2.0), where(end, x, 0.0)
    at_end = (p + q - 1) * _neighbours(p, q, t, (m, n))
    if m:
        at_end = at_end + m * _neighbours(p, q, t, (m - 1, n))
    if n:
        at_end = at_end + n * _neighbours(p, q, t, (m, n - 1))
    return where(end, at_end, usual)


def _neighbours(a: Value, b: Value, x: Value, orders: Orders) -> Value:
    return beta_density(a - 1, b, x, orders=orders) - beta_density(a, b - 1, x, orders=orders)


# x**(a - 1) * (1 - x)**(b - 1) / beta(a, b), and its derivatives with respect to a and b
beta_density: Primitive = elementwise(
    "beta_density",
    in_double("beta_density", _density),
    partials=(_higher("density", 1, 0), _higher("density", 0, 1), _density_to_x),
    samples=lambda: [*combined(_TRIPLES, orders=(0, 0))()],
    traits=TRANSCENDENTAL | OWNS,
    kinks=Kinks(domain=lambda a, b, x, **_: (a, b, x, 1 - x)),
)
betainc_in_shapes: Primitive = elementwise(
    "betainc_in_shapes",
    in_double("betainc_in_shapes", _shape_slope),
    partials=(
        _higher("integral", 1, 0),
        _higher("integral", 0, 1),
        lambda _, a, b, x, orders: beta_density(a, b, x, orders=orders),
    ),
    samples=lambda: [*combined(_TRIPLES, orders=(1, 0))(), *combined(_TRIPLES, orders=(0, 1))()],
    traits=TRANSCENDENTAL | UNEVEN | OWNS,
    kinks=Kinks(domain=lambda a, b, x, **_: (a, b, x, 1 - x)),
)


def _density_of(a: Value, b: Value, x: Value) -> Value:
    return beta_density(a, b, x, orders=(0, 0))


def _slopes(sign: int) -> tuple[Factor, ...]:
    return (
        lambda _, a, b, x: sign * betainc_in_shapes(a, b, x, orders=(1, 0)),
        lambda _, a, b, x: sign * betainc_in_shapes(a, b, x, orders=(0, 1)),
        lambda _, a, b, x: sign * _density_of(a, b, x),
    )


betainc: Primitive = evaluated_by_scipy(
    "betainc",
    partials=_slopes(1),
    samples=_TRIPLES,
    kinks=Kinks(domain=lambda a, b, x, **_: (a, b, x, 1 - x)),
)
betaincc: Primitive = evaluated_by_scipy(
    "betaincc",
    partials=_slopes(-1),
    samples=_TRIPLES,
    kinks=Kinks(domain=lambda a, b, x, **_: (a, b, x, 1 - x)),
)


def _inverse_slopes(sign: int) -> tuple[Factor, ...]:
    """At the levels 0 and 1 the result is 0 or 1 whatever a and b are.

    To the last digit, it also is at other levels; if the density is infinite there, the slope is 0.
    Tiny x are ``(p a beta(a, b)) ** (1 / a)``, whose slopes are finite even if the density is not.
    """

    def inner(x: Value, a: Value, b: Value) -> tuple[Value, Value]:
        flat = ((x == 0) & (a < 1)) | ((x == 1) & (b < 1))
        return flat, where(flat | is_tiny(x * (1 + b)), 0.5, x)

    def to_shape(x: Value, a: Value, b: Value, orders: Orders) -> Value:
        flat, place = inner(x, a, b)
        slope = betainc_in_shapes(a, b, place, orders=orders)
        usual = -bind2(ratio_or_zero, slope, _density_of(a, b, place))
        tiny = is_tiny(x * (1 + b))
        c, z = where(tiny, a, 1.0), where(tiny, x, 1.0)
        if orders == (1, 0):
            power = bind2(divide, 1, c) - polygamma_rise(c, b, order=0) - bind1(log, z)
        else:
            power = -polygamma_rise(b, c, order=0)
        return where(tiny, bind2(divide, z * power, c), where(flat, 0.0, usual))

    def to_level(x: Value, a: Value, b: Value, p: Value) -> Value:
        tiny, below = is_tiny(x * (1 + b)) & (a < 1), p if sign > 0 else 1 - p
        flat = ((x == 0) & (a < 1)) | ((x == 1) & (b < 1))
        usual = bind2(divide, sign, _density_of(a, b, where(flat | tiny, 0.5, x)))
        near = bind2(divide, sign * where(tiny, x, 1.0), where(tiny, a * below, 1.0))
        return where(tiny, near, where(flat, 0.0, usual))

    return (
        lambda x, a, b, _p: to_shape(x, a, b, (1, 0)),
        lambda x, a, b, _p: to_shape(x, a, b, (0, 1)),
        to_level,
    )


_LEVELS = combined(
    lambda: [
        Sample((np.array([0.5, 2.0, 9.0]), np.array([3.0, 0.7, 20.0]), np.array([0.2, 0.6, 0.3]))),
        Sample((2.5, 1.5, 0.3)),
        Sample((np.array(2.5), np.array(1.5), np.array(0.3))),
        Sample((np.array([[0.5], [9.0]]), 1.5, np.linspace(0.1, 0.9, 6)[::-2])),
        Sample((np.zeros((0, 2)), np.zeros(2), 0.5)),
    ],
    edges((1.0, 2.0, 0.0), (2.0, 1.0, 1.0), (0.5, 3.0, 0.0), (3.0, 0.5, 1.0), (3.0, 3.0, 0.0)),
    edges((1.0, 2.0, 1.5), (np.nan, 1.0, 0.5)),
)
betaincinv: Primitive = evaluated_by_scipy(
    "betaincinv",
    partials=_inverse_slopes(1),
    samples=_LEVELS,
    kinks=Kinks(domain=lambda a, b, x, **_: (a, b, x, 1 - x)),
)
betainccinv: Primitive = evaluated_by_scipy(
    "betainccinv",
    partials=_inverse_slopes(-1),
    samples=_LEVELS,
    kinks=Kinks(domain=lambda a, b, x, **_: (a, b, x, 1 - x)),
)
