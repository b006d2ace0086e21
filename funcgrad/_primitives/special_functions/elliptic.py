"""Complete elliptic integrals of the parameter m, and their derivatives of every order.

>>> ellipk(0.0), ellipe(0.0)
(np.float64(1.5707963267948966), np.float64(1.5707963267948966))
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import OWNS, TRANSCENDENTAL
from funcgrad._primitives.elementwise import combined, edges, elementwise, reals
from funcgrad._primitives.kinks import POSITIVE, below
from funcgrad._primitives.special_functions.scipys import (
    evaluated_by_scipy,
    in_double,
    scipy_special,
)

Array = np.ndarray[Any, Any]

_SERIES: Final = 0.6
"""Up to this magnitude of m the hypergeometric series is used."""


def _by_series(m: Array, order: int, power: float) -> Array:
    """A derivative of ``pi / 2 * 2F1(1/2, power; 1; m)``: DLMF 19.5.1, 19.5.2 and 15.5.2."""
    factor = math.pi / 2
    for k in range(order):
        factor *= (0.5 + k) * (power + k) / (1 + k)
    hypergeometric: Array = scipy_special("ellipk").hyp2f1(0.5 + order, power + order, 1 + order, m)
    return factor * hypergeometric


def _ellipk_derivative(m: Array, order: int, less: Array | None = None) -> Array:
    """By series for small m, else by the differential equation, which does not cancel there.

    DLMF 19.4.1 and 19.4.8; with ``less`` for ``1 - m`` where that is known better.
    """
    special = scipy_special("ellipk")
    one_minus_m = 1 - m if less is None else less
    large, inside = np.abs(m) > _SERIES, one_minus_m > 0
    n, complement = np.where(large & inside, m, 0.7), np.where(large & inside, one_minus_m, 0.3)
    last = special.ellipkm1(complement)
    last = np.where(n < 0, special.ellipk(n), last)
    value = (special.ellipe(n) - complement * last) / (2 * n * complement)
    for k in range(order - 1):
        following = ((k + 0.5) ** 2 * last - (k + 1) * (1 - 2 * n) * value) / (n * complement)
        last, value = value, following
    series = _by_series(np.where(large, 0.0, m), order, 0.5)
    ends = np.where(one_minus_m == 0, np.inf, np.where(np.isneginf(m), 0.0, np.nan))
    return np.where(large, np.where(inside & np.isfinite(m), value, ends), series)


def _ellipe_derivative(m: Array, order: int) -> Array:
    """The derivatives of E: a series for small m, else the equations DLMF 19.4.2 and 19.4.9."""
    special = scipy_special("ellipe")
    large = np.abs(m) > _SERIES
    n = np.where(large & (m < 1), m, 0.7)
    last, complement = special.ellipe(n), 1 - n
    value = (last - special.ellipk(n)) / (2 * n)
    for k in range(order - 1):
        slope = k * (1 - 2 * n) + complement
        following = -(slope * value + (0.25 - k * k) * last) / (n * complement)
        last, value = value, following
    series = _by_series(np.where(large, 0.0, m), order, -0.5)
    ends = np.where(m == 1, -np.inf, np.where(np.isneginf(m), 0.0, np.nan))
    return np.where(large, np.where((m < 1) & np.isfinite(m), value, ends), series)


_LINE = combined(
    reals(-3, 0.9),
    edges(0.0, 0.6, -0.6, 0.99, -50.0, smooth=True),
    edges(1.0, 2.0, -np.inf, np.nan),
)


def _orders() -> list[Any]:
    return [*combined(_LINE, order=1)(), *combined(_LINE, order=2)()]


ellipk_derivative: Primitive = elementwise(
    "ellipk_derivative",
    in_double("ellipk_derivative", _ellipk_derivative),
    partials=(lambda _, m, order: ellipk_derivative(m, order=order + 1),),
    samples=_orders,
    traits=TRANSCENDENTAL | OWNS,
    kinks=below(1.0),
)
ellipe_derivative: Primitive = elementwise(
    "ellipe_derivative",
    in_double("ellipe_derivative", _ellipe_derivative),
    partials=(lambda _, m, order: ellipe_derivative(m, order=order + 1),),
    samples=_orders,
    traits=TRANSCENDENTAL | OWNS,
    kinks=below(1.0),
)
ellipk: Primitive = evaluated_by_scipy(
    "ellipk",
    partials=(lambda _, m: ellipk_derivative(m, order=1),),
    samples=_LINE,
    kinks=below(1.0),
)
ellipe: Primitive = evaluated_by_scipy(
    "ellipe",
    partials=(lambda _, m: ellipe_derivative(m, order=1),),
    samples=_LINE,
    kinks=below(1.0),
)


def _of_complement(p: Array, order: int) -> Array:
    slope = _ellipk_derivative(1 - p, order, p)
    return np.where(p == 0, np.inf, (-1) ** order * slope)


_NEAR_ONE = combined(
    reals(0.1, 3), edges(0.01, 1.0, smooth=True), edges(0.0, 1e-300, 1e-9, -1.0, np.inf, np.nan)
)
ellipkm1_derivative: Primitive = elementwise(
    "ellipkm1_derivative",
    in_double("ellipkm1_derivative", _of_complement),
    partials=(lambda _, p, order: ellipkm1_derivative(p, order=order + 1),),
    samples=lambda: [*combined(_NEAR_ONE, order=1)()],
    traits=TRANSCENDENTAL | OWNS,
    kinks=POSITIVE,
)
ellipkm1: Primitive = evaluated_by_scipy(
    "ellipkm1",
    partials=(lambda _, p: ellipkm1_derivative(p, order=1),),
    samples=_NEAR_ONE,
    kinks=POSITIVE,
)
