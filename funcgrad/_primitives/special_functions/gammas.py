"""The gamma function, its logarithm and derivatives, and quotients of gamma functions.

>>> gamma(5.0), polygamma_rise(1e8, 1e-8, order=0)
(np.float64(24.0), np.float64(1.000000005e-16))

Derivatives of quotients of gamma functions of nearby arguments are differences of polygamma
functions, which ``polygamma_rise`` computes without cancellation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Kinks, Primitive, Sample
from funcgrad._core.specs import dtype_of
from funcgrad._core.structure.structures import OWNS, TRANSCENDENTAL
from funcgrad._core.trace import Raw, Value, bind1, bind2
from funcgrad._primitives.cardinal_sine import sinc, sinc_derivative
from funcgrad._primitives.elementwise import combined, complexes, edges, elementwise, reals
from funcgrad._primitives.kinks import (
    AT_POLES_OF_GAMMA,
    POSITIVE,
    from_poles_of_gamma,
    is_whole,
    unless,
)
from funcgrad._primitives.logic import isinf, logical_not
from funcgrad._primitives.powers import power
from funcgrad._primitives.rounding import rint
from funcgrad._primitives.selection import where
from funcgrad._primitives.special_functions.quadrature import in_parts
from funcgrad._primitives.special_functions.scipys import (
    evaluated_by_scipy,
    in_double,
    scipy_special,
)
from funcgrad._primitives.special_functions.zetas import zeta
from funcgrad._primitives.structural import cast
from funcgrad._primitives.transcendental import cos

Array = np.ndarray[Any, Any]

_LINE = combined(reals(0.3, 4), reals(-2.9, -2.1), edges(-np.inf, -1.0, 0.0, 200.0, np.inf, np.nan))

# Polygamma functions: the derivatives of the logarithm of the gamma function.


def _polygamma(n: Raw, x: Raw) -> Raw:
    whole = np.broadcast_to(n, np.shape(x))
    special = scipy_special("polygamma")
    return np.where(whole == 0, special.psi(x), special.polygamma(whole, x))


def _of_any(n: Raw, x: Raw) -> Raw:
    if np.result_type(x).kind != "c":
        return _of_reals(n, x)
    n, z = np.broadcast_arrays(n, np.asarray(x, np.complex128))
    orders = {int(order): n == order for order in np.unique(n)}
    result = np.zeros(z.shape, np.complex128)
    for order, mask in orders.items():
        result[mask] = _of_complex(order, z[mask])
    return result.astype(np.result_type(x))[()]


def _of_complex(order: int, z: Array) -> Array:
    """By reflection from far on the left, recurrence to the right, and Stirling's series there:
    DLMF 5.15.5, 5.15.6 and 5.15.8."""
    if order == 0:
        return np.asarray(scipy_special("polygamma").psi(z))
    far = z.real < -_SHIFT
    if np.any(far):
        right = _of_complex(order, np.where(far, 1 - z, z))
        return np.where(far, (-1) ** order * (right - _slopes_of_cotangent(order, z)), right)
    total, whole = np.zeros_like(z), math.factorial(order)
    least = _SHIFT + 2 * order
    steps = int(np.max(least - z.real, initial=0.0, where=np.isfinite(z)))
    for _ in range(steps + 1):
        left = z.real < least
        total = np.where(left, total + whole * (1 / z) ** (order + 1), total)
        z = np.where(left, z + 1, z)
    inverse = 1 / z  # its powers underflow where powers of z overflow
    total += math.factorial(order - 1) * inverse**order + whole / 2 * inverse ** (order + 1)
    for j, number in enumerate(_BERNOULLI, start=1):
        weight = number * math.factorial(2 * j + order - 1) / math.factorial(2 * j)
        total += weight * inverse ** (2 * j + order)
    return (-1) ** (order + 1) * total


def _slopes_of_cotangent(order: int, z: Array) -> Array:
    """``(-1)**order * pi`` times a derivative of ``cot(pi z)``: the square of the cosecant times a
    polynomial of the cotangent."""
    cotangent = np.polynomial.Polynomial([0.0, 1.0])
    polynomial = np.polynomial.Polynomial([-math.pi])
    for _ in range(order - 1):
        turned = (1 + cotangent * cotangent) * polynomial.deriv()
        polynomial = -math.pi * (2 * cotangent * polynomial + turned)
    near = z - np.rint(z.real)
    # Beyond this the value underflows, and the sine overflows.
    near = np.real(near) + 1j * np.clip(np.imag(near), -100, 100)
    factor = (-1) ** order * math.pi * polynomial(1 / np.tan(math.pi * near))
    return factor / np.square(np.sin(math.pi * near))


psi: Primitive = evaluated_by_scipy(
    "psi",
    partials=(lambda _, x: bind2(polygamma, 1, x),),
    samples=combined(_LINE, complexes(), edges(1.4616321449683622, smooth=True)),
    kinks=AT_POLES_OF_GAMMA,
)


def _polygamma_samples() -> Iterator[Sample]:
    for order in (0, 1, 2):
        for sample in _LINE():
            yield Sample((np.array(order), *sample.args), smooth=sample.smooth)
    yield Sample((np.array([[1], [3]]), np.array([0.5, 2.5, 20.0])))
    for sample in complexes()():
        yield Sample((np.array(1), *sample.args))


def _polygamma_by_zeta(n: Value, x: Value) -> Value:
    """SciPy's formula, in its order of operations, for compilers that call its inner loops."""
    dtype = dtype_of(x)
    if dtype.kind == "c":
        return NotImplemented
    wide, order = cast(x, dtype=np.dtype(np.float64)), cast(n, dtype=np.dtype(np.float64))
    sign = bind2(power, -1.0, order + 1.0)
    slopes = sign * bind1(gamma, order + 1.0) * bind2(zeta, order + 1.0, wide)
    result = where(order == 0.0, bind1(psi, wide), slopes)
    return cast(result, dtype=dtype) if dtype.kind == "f" else result


polygamma: Primitive = elementwise(
    "polygamma",
    _of_any,
    partials=(None, lambda _, n, x: bind2(polygamma, n + 1, x)),
    samples=_polygamma_samples,
    traits=TRANSCENDENTAL | OWNS,
    body=_polygamma_by_zeta,
    kinks=Kinks(lambda n, x: from_poles_of_gamma(x)),
)

_of_reals: Final = in_double("polygamma", _polygamma, keep=(0,))
_SHIFT: Final = 16
_BERNOULLI: Final = (
        1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
        -174611 / 330,
)  # fmt: skip
"""From the second on, of even index: those that are not 0."""


def _is_pole(x: Value) -> Value:
    return (x <= 0) & (x == bind1(rint, x))


def _rise(a: Array, b: Array, order: int) -> Array:
    """The difference itself where it loses three bits at most: the series takes long."""
    start = _polygamma(np.array(order), a)
    result = _polygamma(np.array(order), a + b) - start
    lost = ~(8 * np.abs(result) > np.abs(start))
    if lost.any():
        series = in_parts(lambda a, b: _rise_of_some(a, b, order), a[lost], b[lost])
        result[lost] = series
    both = _is_pole(a) & _is_pole(a + b) & np.isfinite(b)
    if both.any():  # from pole to pole, by reflection: the cotangents of both sides agree
        result[both] = (-1) ** order * _rise(1 - a[both], -b[both], order)
    return result


def _rise_of_some(a: Array, b: Array, order: int) -> Array:
    """The recurrence to arguments above 16, and Stirling's series there, term by term.

    Each term is a power, and a difference of powers is ``a**-p * expm1(-p * log1p(b / a))``: no
    digits are lost for small b. NIST Digital Library of Mathematical Functions, 5.5.2, 5.11.2,
    5.15.5 and 5.15.9.
    """
    inside = (a > 0) & (a + b > 0) & np.isfinite(a)
    direct = _polygamma(np.array(order), a + b) - _polygamma(np.array(order), a)
    direct = np.where(np.isposinf(a) & np.isfinite(b), 0.0, direct)
    a, b = np.where(inside, a, 1.0), np.where(inside, b, 1.0)
    sign, whole = (-1) ** (order + 1), math.factorial(order)
    shift = _SHIFT + 2 * order
    z = a + shift
    total = math.factorial(order - 1) * _power_rise(z, b, order) if order else -np.log1p(b / z)
    total += whole / 2 * _power_rise(z, b, order + 1)
    log = np.log1p(b / z)
    for j, number in enumerate(_BERNOULLI, start=1):
        p = 2 * j + order
        weight = number * math.factorial(p - 1) / math.factorial(2 * j)
        total += weight * z**-p * np.expm1(-p * log)
    steps = np.arange(shift - 1, -1, -1)[:, None]
    total += whole * np.sum(_power_rise(a + steps, b, order + 1), 0)
    infinite = np.where(np.isposinf(b), direct, sign * total)
    return np.where(inside, infinite, direct)


def _power_rise(z: Array, b: Array, p: int) -> Array:
    return z**-p * np.expm1(-p * np.log1p(b / z))


def _rise_samples() -> Iterator[Sample]:
    points = combined(
        reals(0.3, 3, 2),
        edges((1e6, 1e-3), (2.0, -1.0), (0.5, 30.0), smooth=True),
        edges((0.0, 1.0), (-1.5, 3.0), (np.inf, 1.0), (1.0, np.inf), (np.nan, 1.0)),
    )
    for order in (0, 1):
        yield from combined(points, order=order)()


# polygamma(order, a + b) - polygamma(order, a)
polygamma_rise: Primitive = elementwise(
    "polygamma_rise",
    in_double("polygamma_rise", _rise),
    partials=(
        lambda _, a, b, order: polygamma_rise(a, b, order=order + 1),
        lambda _, a, b, order: bind2(polygamma, order + 1, a + b),
    ),
    samples=_rise_samples,
    traits=TRANSCENDENTAL | OWNS,
    kinks=Kinks(lambda x, rise, order: (from_poles_of_gamma(x), from_poles_of_gamma(x + rise))),
)


def _rising(a: Value, b: Value) -> Value:
    return polygamma_rise(a, b, order=0)


# The gamma function.

gamma: Primitive = evaluated_by_scipy(
    "gamma",
    partials=(lambda y, x: y * bind1(psi, x),),
    samples=combined(_LINE, complexes()),
    kinks=AT_POLES_OF_GAMMA,
)
gammaln: Primitive = evaluated_by_scipy(
    "gammaln", partials=(lambda _, x: bind1(psi, x),), samples=_LINE, kinks=AT_POLES_OF_GAMMA
)


def _slope_of_loggamma(_: Value, z: Value) -> Value:
    """NaN for negative real numbers, as the function is."""
    return bind1(psi, z if dtype_of(z).kind == "c" else where(z < 0, np.nan, z))


loggamma: Primitive = evaluated_by_scipy(
    "loggamma",
    partials=(_slope_of_loggamma,),
    samples=combined(reals(0.3, 4), complexes(), edges(-1.5, 0.0, np.inf, np.nan)),
    kinks=POSITIVE,
)
gammasgn: Primitive = evaluated_by_scipy(
    "gammasgn", partials=None, samples=_LINE, kinks=AT_POLES_OF_GAMMA
)


def _not(condition: Value) -> Value:
    """Negate a condition. ``~`` would make a number of a Python bool."""
    return bind1(logical_not, condition)


_VANISHES: Final = 300.0
"""From well before on, 1 / gamma is 0 in float64."""


def _slope_of_reciprocal(_: Value, x: Value) -> Value:
    """``-psi(x) / gamma(x)``; below 1/2 reflected, so that it is finite at the poles.

    1 / gamma(x) = gamma(1 - x) sin(pi x) / pi, and at -n the derivative is (-1)**n n!.
    """
    if dtype_of(x).kind == "c":
        near = (x.real < 0.5) & (x.imag > -1) & (x.imag < 1)
        far, below = where(near, 1.0, x), where(near, x, 0.0)
        return where(near, _reflected_slope(below), -bind1(psi, far) * bind1(rgamma, far))
    right, gone = _not(x < 0.5), x > _VANISHES
    above = where(right & _not(gone), x, 1.0)
    below = where(right, 0.25, x)
    direct = where(gone, 0.0, -bind1(psi, above) * bind1(rgamma, above))
    return where(right, direct, _reflected_slope(below))


def _reflected_slope(x: Value) -> Value:
    mirrored = 1 - x
    slope = bind1(cos, math.pi * x) - bind1(psi, mirrored) * x * bind1(sinc, x)
    return bind1(gamma, mirrored) * slope


rgamma: Primitive = evaluated_by_scipy(
    "rgamma",
    partials=(_slope_of_reciprocal,),
    samples=combined(
        reals(0.3, 4),
        reals(-2.9, -2.1),
        complexes(),
        edges(0.0, -1.0, -2.0, 400.0, smooth=True),
        edges(np.inf, np.nan),
    ),
)

# Quotients.

_PAIRS = combined(
    reals(0.3, 4, 2),
    edges((1e4, 0.5), (0.5, 1e4), smooth=True),
    edges((0.0, 1.0), (1.0, 0.0), (-0.5, 2.0), (np.inf, 1.0), (np.nan, 1.0)),
)


def _log_rising(a: Array, b: Array) -> Array:
    """The difference itself where it loses three bits at most."""
    special = scipy_special("log_rising")
    start = special.gammaln(a)
    result = special.gammaln(a + b) - start
    lost = (8 * np.abs(result) < np.abs(start)) & (a > 0) & (b > 0) & np.isfinite(a)
    inner = np.where(lost, a, 1.0), np.where(lost, b, 1.0)
    return np.where(lost, special.gammaln(inner[1]) - special.betaln(*inner), result)


# gammaln(a + b) - gammaln(a): the logarithm of a rising factorial
def _poles_of_quotient(z: Value, m: Value) -> Value:
    """Poles of the numerator; with a constant integer number of factors there are none."""
    whole = is_whole(m)
    smooth = False if whole is False else whole & (m >= 0)
    return unless(smooth, from_poles_of_gamma(z + m))


log_rising: Primitive = elementwise(
    "log_rising",
    in_double("log_rising", _log_rising),
    partials=(lambda _, a, b: _rising(a, b), lambda _, a, b: bind1(psi, a + b)),
    samples=combined(
        reals(0.3, 4, 2),
        edges((200.0, 3.0), (0.5, 1e4), (2.0, 0.0), smooth=True),
        edges((0.0, 1.0), (np.inf, 1.0), (1.0, np.inf), (np.nan, 1.0)),
    ),
    traits=TRANSCENDENTAL | OWNS,
    kinks=Kinks(lambda z, m: (from_poles_of_gamma(z), from_poles_of_gamma(z + m))),
)


def _slope_of_beta(y: Value, a: Value, b: Value) -> Value:
    """Near its zeros, the poles of ``gamma(a + b)``, by the reciprocal of that."""
    total = a + b
    near = (total < 0.25) & (abs(total - bind1(rint, total)) < 0.25)
    near = near & _not(_is_pole(a) | _is_pole(b))
    between = _is_pole(a) & _is_pole(total) & bind1(isinf, y)  # of two sides that differ
    rise = where(between, np.nan, _rising(a, where(near, 1.0, b)))
    usual = where(b == np.inf, 0.0, -y * rise)
    first, second = where(near, a, 0.5), where(near, b, 0.5)
    total = first + second
    slope = bind1(psi, first) * bind1(rgamma, total) + _slope_of_reciprocal(0.0, total)
    return where(near, bind1(gamma, first) * bind1(gamma, second) * slope, usual)


beta: Primitive = evaluated_by_scipy(
    "beta",
    partials=(_slope_of_beta, lambda y, a, b: _slope_of_beta(y, b, a)),
    samples=_PAIRS,
    kinks=Kinks(lambda a, b: (from_poles_of_gamma(a), from_poles_of_gamma(b))),
)
betaln: Primitive = evaluated_by_scipy(
    "betaln",
    partials=(lambda _, a, b: -_rising(a, b), lambda _, a, b: -_rising(b, a)),
    samples=_PAIRS,
    kinks=Kinks(lambda a, b: tuple(map(from_poles_of_gamma, (a, b, a + b)))),
)


def _poch_to_first(y: Value, z: Value, m: Value) -> Value:
    """``y * (psi(z + m) - psi(z))``; finite where z is a pole, and 1 / gamma(z) is 0."""
    to = z + m
    crossing = (to > 0) & ((z <= 0) | ((z < 0.5) & (to < 100)))  # small z: psi is large there
    usual = (z > 0) & (to > 0) & _not(crossing)
    a, b = where(usual, z, 1.0), where(usual, m, 1.0)
    below, above = where(crossing, z, -0.5), where(crossing, to, 1.0)
    crossed = bind1(gamma, above) * (
        bind1(psi, above) * bind1(rgamma, below) + _slope_of_reciprocal(0.0, below)
    )
    # Both below 0: reflected. At a pole only integers m matter, so other terms are dropped.
    right = _not(to > 0) & (z > 0)
    left, pole = _not((to > 0) | right), z == bind1(rint, z)
    start = where(left, 1 - z, 1.0)
    mirrored = _rising(start, where(left, -m, 0.0))
    free = left & _not(pole)
    n, first, second = where(free, m, 0.0), where(free, z, 0.5), where(free, to, 0.5)
    waves = _sine(n) / (_sine(first) * _sine(second))
    reflected = y * (mirrored + where(free, math.pi * waves, 0.0))
    down = y * (bind1(psi, where(right, to, 1.0)) - bind1(psi, where(right, z, 1.0)))
    outside = where(crossing, crossed, where(right, down, reflected))
    slope = where(usual, y * _rising(a, b), outside)
    return where(z == np.inf, _slope_of_power_at_infinity(m), slope)


def _slope_of_power_at_infinity(exponent: Value) -> Value:
    """The slope of ``x**exponent`` times a positive number, which is 1 if the exponent is 1."""
    return where(exponent > 1, np.inf, where(exponent == 1, 1.0, 0.0))


def _sine(x: Value) -> Value:
    return math.pi * x * bind1(sinc, x)


poch: Primitive = evaluated_by_scipy(
    "poch",
    partials=(_poch_to_first, lambda y, z, m: y * bind1(psi, z + m)),
    samples=combined(
        reals(0.3, 4, 2),
        edges((0.0, 1.0), (1.0, 0.0), (np.inf, 1.0), (np.nan, 1.0)),
        edges((-2.0, 3.0), (-2.5, 2.0), (-0.5, 2.0), (1e8, 1e-3), smooth=True),
        edges((-3.0, 2.0)),
    ),
    kinks=Kinks(_poles_of_quotient),
)


def _mirrored(n: Value, d: Value) -> tuple[Value, Value, Value]:
    """``beta(n + 1, d) * sin(pi d) / pi`` and its derivatives with respect to n and d.

    It equals ``binom(n, n + d)`` and ``binom(n, -d)``, reflected at poles of gamma functions in the
    denominator (DLMF 5.5.3), so that derivatives are finite there.
    """
    whole, near = bind2(beta, n + 1, d), bind1(sinc, d)
    sine = d * near
    cosine = near + d * sinc_derivative(d, order=1)
    to_n = -whole * _rising(n + 1, d) * sine
    return whole * sine, to_n, whole * (cosine - _rising(d, n + 1) * sine)


def _binom_in(n: Value, k: Value, to: int) -> Value:
    """The derivative by n or k: inside, above n, or below 0; near poles from outside."""
    regular = n > 0
    above = (n - k + 1 <= 0) | ((n - k < -0.5) & regular)
    below = (k + 1 <= 0) | ((k < -0.5) & regular)
    inside = _not(above | below)
    a, b = where(inside, n, 2.0), where(inside, k, 1.0)
    rise = _rising(a - b + 1, b) if to == 0 else _rising(b + 1, a - b - b)
    usual = bind2(binom, a, b) * rise
    _, to_n, to_d = _mirrored(where(above, n, 1.0), where(above, k - n, 1.5))
    beyond = to_n - to_d if to == 0 else to_d
    _, to_n, to_d = _mirrored(where(below, n, 1.0), where(below, -k, 1.5))
    before = where(k == -np.inf, 0.0, to_n if to == 0 else -to_d)
    slope = where(inside, usual, where(above, beyond, before))
    if to == 1:
        return slope
    return where((n == np.inf) & (k >= 1), _slope_of_power_at_infinity(k), slope)


binom: Primitive = evaluated_by_scipy(
    "binom",
    partials=(lambda _, n, k: _binom_in(n, k, 0), lambda _, n, k: _binom_in(n, k, 1)),
    samples=combined(
        lambda: [
            Sample((np.array([5.3, 7.0, 0.5]), np.array([2.1, 3.0, 0.25]))),
            Sample((5.3, 2.1)),
            Sample((np.array(5.3), np.array(2.1))),
            Sample((np.array([5.3, 7.0])[::-1], np.array(2.1))),
            Sample((np.zeros((0, 2)), np.zeros(2))),
        ],
        edges((3.0, 5.0), (3.0, -1.0), (4.0, 4.5), (1e6, 3.0), (0.0, 0.0), smooth=True),
        edges((-1.0, 2.0), (np.nan, 1.0)),
    ),
    kinks=Kinks(lambda n, k: from_poles_of_gamma(n + 1)),
)
