"""The Riemann and Hurwitz zeta functions, differentiable with respect to both arguments.

>>> zeta(2.0, 1.0), zeta_derivative(2.0, 1.0, order=1)
(np.float64(1.6449340668482266), np.float64(-0.9375482543158437))
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Kinks, Primitive
from funcgrad._core.structure.structures import OWNS, TRANSCENDENTAL
from funcgrad._core.trace import Raw, Value
from funcgrad._primitives.elementwise import combined, edges, elementwise, reals
from funcgrad._primitives.special_functions.quadrature import bell_polynomials
from funcgrad._primitives.special_functions.scipys import (
    evaluated_by_scipy,
    in_double,
    scipy_special,
)

Array = np.ndarray[Any, Any]

_TERMS: Final = 14
_FLAT: Final = 1100.0
"""From here on Riemann's function is 1, up to less than the smallest number."""

_GAMMA_ENDS: Final = 170.0
"""From here on the gamma function is too large for a number."""

_BERNOULLI: Final = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
    -174611 / 330,
)  # fmt: skip


def _zeta_derivative(s: Array, q: Array, order: int) -> Array:
    """The derivative of some order, with respect to s, of the sum of ``(n + q)**-s``.

    It uses the derivatives of the Euler-Maclaurin formula, whose terms are ``exp(-s log t)`` times
    a rational function of s: DLMF 25.11.7 with 25.11.8. It holds for s from 0 on.
    """
    inside = (q > 0) & (s > 1) & np.isfinite(s) & np.isfinite(q)
    value = _by_sum(np.where(inside, s, 2.0), np.where(inside, q, 1.0), order)
    return np.where(inside, value, np.where(np.isposinf(q) & (s > 1), 0.0, np.nan))


def _by_sum(s: Array, q: Array, order: int) -> Array:
    total = np.zeros_like(s)
    for n in range(_TERMS):
        total += (-np.log(q + n)) ** order * (q + n) ** -s
    t = q + _TERMS
    log, power = -np.log(t), t**-s
    # t**(1 - s) / (s - 1), whose rational part has the derivatives (-1)**k k! / (s - 1)**(k + 1).
    pole = [(-1) ** k * math.factorial(k) / (s - 1) ** (k + 1) for k in range(order + 1)]
    total += t * power * _leibniz(pole, log, order) + power / 2 * log**order
    rising = [np.ones_like(s)] + [np.zeros_like(s)] * order  # of s (s + 1) ... in s
    for j, number in enumerate(_BERNOULLI, start=1):
        for factor in (0,) if j == 1 else (2 * j - 3, 2 * j - 2):
            rising = _times(rising, s + factor)
        scale = number / math.factorial(2 * j) * power / t ** (2 * j - 1)
        total += scale * _leibniz(rising, log, order)
    return total


def _times(derivatives: list[Array], factor: Array) -> list[Array]:
    """The s-derivatives of a function times ``s + constant``."""
    lower = [np.zeros_like(factor), *derivatives[:-1]]
    return [
        factor * derivative + k * low
        for k, (derivative, low) in enumerate(zip(derivatives, lower, strict=True))
    ]


def _leibniz(derivatives: list[Array], log: Array, order: int) -> Array:
    """The s-derivative of a function times ``exp(s * log)``, divided by that exponential."""
    terms = [math.comb(order, k) * derivatives[k] * log ** (order - k) for k in range(order + 1)]
    return sum(terms[1:], terms[0])


_PAIRS = combined(
    reals(1.3, 4, 2),
    edges((1.1, 2.0), (30.0, 1.5), (2.0, 1e3), (3.0, 0.2), smooth=True),
    edges((1.0, 2.0), (0.5, 1.0), (2.0, 0.0), (2.0, np.inf), (np.inf, 2.0), (np.nan, 1.0)),
)
zeta_derivative: Primitive = elementwise(
    "zeta_derivative",
    in_double("zeta_derivative", _zeta_derivative),
    partials=(
        lambda _, s, q, order: zeta_derivative(s, q, order=order + 1),
        # of -s zeta(s + 1, q), by s
        lambda _, s, q, order: (
            -s * zeta_derivative(s + 1, q, order=order) - order * _lower(s + 1, q, order)
        ),
    ),
    samples=lambda: [*combined(_PAIRS, order=1)(), *combined(_PAIRS, order=2)()],
    traits=TRANSCENDENTAL | OWNS,
    kinks=Kinks(domain=lambda x, q, **_: (x - 1, q)),
)


def _lower(s: Value, q: Value, order: int) -> Value:
    return zeta(s, q) if order == 1 else zeta_derivative(s, q, order=order - 1)


zeta: Primitive = evaluated_by_scipy(
    "zeta",
    partials=(lambda _, s, q: zeta_derivative(s, q, order=1), lambda _, s, q: -s * zeta(s + 1, q)),
    samples=_PAIRS,
    kinks=Kinks(domain=lambda x, q, **_: (x - 1, q)),
    ufunc="scipy.special._ufuncs:_zeta",
)


def _riemann_zeta_derivative(s: Array, order: int) -> Array:
    """The derivative of Riemann's zeta: Hurwitz's at q = 1 from s = -1/2 on, and left of it
    by the functional equation, DLMF 25.4.2."""
    right, inside = ~(s < -0.5), np.isfinite(s) & (s != 1)
    flat = s > _FLAT
    above = _by_sum(np.where(right & inside & ~flat, s, 2.0), np.ones_like(s), order)
    above = np.where(flat, 0.0, above)
    below = _reflected(np.where(right | ~inside, -1.0, s), order)
    ends = np.where(np.isposinf(s), 0.0, np.nan)
    return np.where(inside, np.where(right, above, below), ends)


def _reflected(s: Array, order: int) -> Array:
    """The derivative of ``2 (2 pi)**(s - 1) gamma(1 - s) * sin(pi s / 2) * zeta(1 - s)``."""
    special = scipy_special("zeta")
    r = 1 - s
    cumulants = [math.log(2 * math.pi) - special.psi(r)]
    cumulants += [(-1) ** k * special.polygamma(k - 1, r) for k in range(2, order + 1)]
    bell = bell_polynomials(cumulants)
    waves = [(math.pi / 2) ** j * special.sindg(90.0 * (s + j)) for j in range(order + 1)]
    zetas = [special.zeta(r, 1.0)]
    zetas += [(-1) ** k * _by_sum(r, np.ones_like(r), k) for k in range(1, order + 1)]
    total = np.zeros_like(s)
    for i in range(order + 1):
        for j in range(order + 1 - i):
            k = order - i - j
            count = math.factorial(order) // math.prod(map(math.factorial, (i, j, k)))
            total += count * bell[i] * waves[j] * zetas[k]
    scale = (2 * math.pi) ** (s - 1) * special.gamma(r)
    beyond = np.exp((s - 1) * math.log(2 * math.pi) + special.gammaln(r))
    return 2 * np.where(r > _GAMMA_ENDS, beyond, scale) * total


_LINE = combined(
    reals(1.3, 4),
    reals(-6, 0.8),
    edges(-2.0, -4.0, 0.0, 30.0, smooth=True),
    edges(1.0, np.inf, np.nan),
)


riemann_zeta_derivative: Primitive = elementwise(
    "riemann_zeta_derivative",
    in_double("riemann_zeta_derivative", _riemann_zeta_derivative),
    partials=(lambda _, s, order: riemann_zeta_derivative(s, order=order + 1),),
    samples=lambda: [*combined(_LINE, order=1)()],
    traits=TRANSCENDENTAL | OWNS,
    kinks=Kinks(lambda x, **_: x - 1),
)


def _riemann_zeta(s: Raw) -> Raw:
    return scipy_special("zeta").zeta(s)


riemann_zeta: Primitive = elementwise(
    "riemann_zeta",
    in_double("riemann_zeta", _riemann_zeta),
    partials=(lambda _, s: riemann_zeta_derivative(s, order=1),),
    samples=_LINE,
    traits=TRANSCENDENTAL | OWNS,
    kinks=Kinks(lambda x, **_: x - 1),
)
zetac: Primitive = elementwise(
    "zetac",
    in_double("zetac", lambda s: scipy_special("zetac").zetac(s)),
    partials=(lambda _, s: riemann_zeta_derivative(s, order=1),),
    samples=combined(reals(1.3, 4), edges(-2.0, 0.0, 30.0, smooth=True), edges(1.0, np.nan)),
    traits=TRANSCENDENTAL | OWNS,
    kinks=Kinks(lambda x, **_: x - 1),
)
