"""Exponential integrals, and the relative error of the exponential.

>>> exprel(0.0), exp1(1.0)
(np.float64(1.0), np.float64(0.21938393439552))
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Kinks, Primitive, Sample
from funcgrad._core.structure.structures import OWNS, TRANSCENDENTAL, UNEVEN
from funcgrad._core.trace import Raw, bind1, bind2
from funcgrad._primitives.elementwise import (
    combined,
    complexes,
    divide,
    edges,
    elementwise,
    reals,
    reciprocal_of_positive,
)
from funcgrad._primitives.kinks import POSITIVE, distance_to_cut, is_complex
from funcgrad._primitives.selection import where
from funcgrad._primitives.special_functions.quadrature import in_parts, integral
from funcgrad._primitives.special_functions.scipys import (
    evaluated_by_scipy,
    in_double,
    scipy_special,
)
from funcgrad._primitives.transcendental import exp

Array = np.ndarray[Any, Any]

_MANY: Final = 1e9
"""Orders above are none of the integers that SciPy's loop takes."""

_POSITIVE = combined(reals(0.2, 3), edges(0.0, 1e-3, 30.0, 800.0, np.inf, np.nan))


exp1: Primitive = evaluated_by_scipy(
    "exp1",
    partials=(lambda _, z: -bind1(exp, -z) * bind1(reciprocal_of_positive, z),),
    samples=combined(_POSITIVE, complexes()),
    kinks=POSITIVE,
)
expi: Primitive = evaluated_by_scipy(
    "expi",
    partials=(lambda _, x: where(x == np.inf, np.inf, bind2(divide, bind1(exp, x), x)),),
    samples=combined(
        reals(0.2, 3), reals(-3, -0.2), complexes(), edges(0.0, -np.inf, np.inf, np.nan)
    ),
    kinks=Kinks(lambda x: distance_to_cut(x) if is_complex(x) else x),
)


def _expn(n: Raw, x: Raw) -> Raw:
    """The recurrence of DLMF 8.19.12, upwards, to orders below 0, which SciPy lacks."""
    special = scipy_special("expn")
    n, exponential = np.asarray(n, np.float64), np.exp(-x)
    above = special.expn(np.nan_to_num(np.clip(n, 1, _MANY), nan=1.0).astype(np.intp), x)
    value = np.where(n >= 1, np.where(n > _MANY, _expn_of_many(n, x), above), exponential / x)
    lowest, below = -np.min(n, initial=0), exponential / x
    for k in count(1):
        before, below = below, (exponential + k * below) / x
        settled = not np.any(np.isfinite(below) & (below != before))
        value = np.where((n <= -k) if settled else (n == -k), below, value)
        if settled or k >= lowest:
            break
    return np.where(np.isnan(n), np.nan, np.where(np.isposinf(x), 0.0, value))


def _expn_of_many(n: Array, x: Array) -> Array:
    """Two terms of the expansion for large orders, DLMF 8.20.6."""
    total = np.where(n > _MANY, x + n, 1.0)
    return np.exp(-x) / total * (1 + (1 - x / total) / total)


def _expn_samples() -> Iterator[Sample]:
    for order in (0, 1, 2, 5):
        for sample in _POSITIVE():
            yield Sample((np.array(order), *sample.args), smooth=sample.smooth)
    yield Sample((np.array([[1], [3]]), np.array([0.5, 2.5, 20.0])))


expn: Primitive = elementwise(
    "expn",
    in_double("expn", _expn, keep=(0,)),
    partials=(None, lambda _, n, x: -bind2(expn, n - 1, x)),
    samples=_expn_samples,
    traits=TRANSCENDENTAL | OWNS,
    kinks=Kinks(domain=lambda n, x: x),
)

_MODERATE: Final = 30.0


def _exponential_moment(x: Array, order: int) -> Array:
    """The integral of ``t**order * exp(x t)`` from 0 to 1.

    By quadrature for moderate x; by parts, which loses nothing, for large.
    """
    near = np.abs(x) <= _MODERATE
    inner = np.where(near, x, 0.0)
    quadrature = in_parts(lambda x: _moment(x, order), inner)
    outer = np.where(near | np.isinf(x), 2 * _MODERATE, x)
    moment = np.expm1(outer) / outer
    for n in range(1, order + 1):
        moment = (np.exp(outer) - n * moment) / outer
    ends = np.where(x > 0, np.inf, 0.0)
    return np.where(near, quadrature, np.where(np.isinf(x), ends, np.where(np.isnan(x), x, moment)))


def _moment(x: Array, order: int) -> Array:
    return integral(lambda t: t**order * np.exp(x * t), np.ones_like(x))


_LINE = combined(
    reals(-3, 3),
    edges(0.0, 1e-9, -1e-9, 8.0, -50.0, smooth=True),
    edges(-np.inf, 50.0, 800.0, np.inf, np.nan),
)
exponential_moment: Primitive = elementwise(
    "exponential_moment",
    in_double("exponential_moment", _exponential_moment),
    partials=(lambda _, x, order: exponential_moment(x, order=order + 1),),
    samples=lambda: [*combined(_LINE, order=1)(), *combined(_LINE, order=2)()],
    traits=TRANSCENDENTAL | UNEVEN | OWNS,
)


def _exprel(x: Array) -> Array:
    small = np.abs(x) < 1e-16
    ratio = np.expm1(x) / np.where(small, 1.0, x)
    return np.where(small, 1.0, np.where(np.isposinf(x), np.inf, ratio))


exprel: Primitive = elementwise(
    "exprel",
    in_double("exprel", _exprel),
    partials=(lambda _, x: exponential_moment(x, order=1),),
    samples=_LINE,
    traits=TRANSCENDENTAL | OWNS,
)
