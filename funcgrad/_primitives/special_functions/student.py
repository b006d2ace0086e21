"""Student's distribution: its distribution function and the inverse, of the degrees of freedom.

>>> stdtr(1.0, 1.0), stdtrit(1.0, 0.75)
(np.float64(0.75), np.float64(1.0))
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from funcgrad._core.primitive import Kinks, Primitive, Sample
from funcgrad._core.specs import dtype_of
from funcgrad._core.structure.structures import OWNS, TRANSCENDENTAL
from funcgrad._core.trace import Raw, Value, bind1, bind2
from funcgrad._primitives.elementwise import absolute, combined, divide, edges, elementwise, log
from funcgrad._primitives.logic import isfinite, isinf, logical_not
from funcgrad._primitives.selection import where
from funcgrad._primitives.special_functions.gammas import betaln, polygamma_rise
from funcgrad._primitives.special_functions.incomplete_betas import beta_density, betainc_in_shapes
from funcgrad._primitives.special_functions.scipys import (
    evaluated_by_scipy,
    in_precision,
    scipy_special,
)
from funcgrad._primitives.transcendental import exp, log1p

_NEARLY_NORMAL: Final = 1e8
"""From here on there are two terms of the difference from a normal distribution."""

_TINY: Final[Mapping[str, float]] = MappingProxyType({"d": 1e-90, "f": 1e-11, "e": 0.03})
"""By precision: a number whose square is nothing beside 1; the power -3 of it is a number still."""


def _density(df: Value, t: Value) -> Value:
    far = bind1(absolute, t) > 1e100
    near, out = where(far, 0.0, t), where(far, t, 1.0)
    tail = 2 * bind1(log, bind1(absolute, out)) - bind1(log, df)
    tail = where(far, tail, bind1(log1p, bind2(divide, near * near, df)))
    endless = bind1(isinf, df)
    few = where(endless, 1.0, df)
    factor = -0.5 * bind1(log, few) - bind2(betaln, 0.5 * few, 0.5)
    logarithm = factor - 0.5 * (few + 1) * where(endless, 0.0, tail)
    normal = -0.5 * near * near - 0.5 * math.log(2 * math.pi)
    return bind1(exp, where(endless, where(far, -np.inf, normal), logarithm))


def _to_df(_: Value, df: Value, t: Value) -> Value:
    """Through the incomplete beta function of the smaller of two sides: DLMF 8.17.

    At 0, where that function has the slope of a root of its argument, which is a square, both are
    taken very near to it: the product is finite there.
    """
    many = df > _NEARLY_NORMAL
    usual = _to_few(where(many, 3.0, df), where(many, 1.0, t))
    return where(many, _to_many(where(many, df, 1e20), where(many, t, 0.0)), usual)


def _to_many(df: Value, t: Value) -> Value:
    """The leading terms of the difference from the normal distribution, of order 1 / df.

    They are derivatives of Fisher's expansion (Abramowitz and Stegun, 26.7.9).
    """
    near = bind1(absolute, t) < 40
    t = where(near, t, 0.0)
    square, u = t * t, bind2(divide, 1, df)
    second = t * (3 * square * square * square - 7 * square * square - 5 * square - 3)
    terms = (t * (square + 1) * 0.25 + second * u * (1 / 48)) * u
    density = bind1(exp, -0.5 * square) * (1 / math.sqrt(2 * math.pi))
    return where(near, terms * density * u, 0.0)


def _to_few(df: Value, t: Value) -> Value:
    gone = bind1(isinf, t)
    size = bind1(absolute, where(gone, 1.0, t))
    tiny = _TINY[dtype_of(df * t).char]
    t = where(gone, 1.0, t) + where(size < tiny, tiny, 0.0)
    square = t * t
    outer = square > df
    above = bind1(logical_not, t < 0)
    tail = _slope(where(outer, df, 1.0), where(outer, square, 2.0), True)
    centre = _slope(where(outer, 2.0, df), where(outer, 1.0, square), False)
    slope = where(outer, -tail, centre)
    return where(gone, 0.0, where(above, slope, -slope))


def _slope(df: Value, square: Value, from_tail: bool) -> Value:
    """The derivative of half the incomplete beta function with respect to df, on either side."""
    half, total = 0.5 * df, df + square
    change = bind2(divide, bind2(divide, square, total), total)
    if from_tail:
        place = bind2(divide, df, total)
        by_shape = betainc_in_shapes(half, 0.5, place, orders=(1, 0))
        return 0.5 * (0.5 * by_shape + change * beta_density(half, 0.5, place, orders=(0, 0)))
    place = bind2(divide, square, total)
    by_shape = betainc_in_shapes(0.5, half, place, orders=(0, 1))
    return 0.5 * (0.5 * by_shape - change * beta_density(0.5, half, place, orders=(0, 0)))


_PAIRS = combined(
    lambda: [
        Sample((np.array([0.7, 3.0, 20.0]), np.array([-0.4, 2.0, 7.0]))),
        Sample((3.0, 1.2)),
        Sample((np.array(3.0), np.array(1.2))),
        Sample((np.array([[0.8], [4.0]]), np.linspace(-3, 2.5, 6)[::-2])),
        Sample((np.zeros((0, 2)), np.ones(2))),
    ],
    edges((3.0, 0.0), (1.0, -40.0), smooth=True),
    edges((3.0, np.inf), (3.0, -np.inf), (np.nan, 1.0)),
)
_LEVELS = combined(
    lambda: [
        Sample((np.array([0.7, 3.0, 20.0]), np.array([0.4, 0.01, 0.9]))),
        Sample((3.0, 0.2)),
        Sample((np.array(3.0), np.array(0.2))),
        Sample((np.array([[0.8], [4.0]]), np.linspace(0.1, 0.9, 6)[::-2])),
        Sample((np.zeros((0, 2)), np.ones(2))),
    ],
    edges((3.0, 0.5), smooth=True),
    edges((3.0, 0.0), (3.0, 1.0), (np.nan, 0.3)),
)
stdtr: Primitive = evaluated_by_scipy(
    "stdtr",
    partials=(_to_df, lambda _, df, t: _density(df, t)),
    samples=_PAIRS,
    kinks=Kinks(domain=lambda df, t: df),
)


def _in_tail(t: Value, df: Value) -> tuple[Value, Value, Value]:
    """Where only a power of t is left of a probability, t and df there, and 1 elsewhere."""
    size = np.finfo(dtype_of(t)).eps ** -0.75
    far = (bind1(absolute, t) > size * (1 + df)) & bind1(isfinite, t)
    return far, where(far, t, 1.0), where(far, df, 1.0)


def _inverse_to_df(t: Value, df: Value, p: Value) -> Value:
    """Far out by the logarithm of t: ``df log t = log(df**(df / 2 - 1) / (p beta))``."""
    far, out, few = _in_tail(t, df)
    gone = bind1(isinf, t) | far
    inner = where(gone, 1.0, t)
    usual = where(gone, 0.0, bind2(divide, -_to_df(p, df, inner), _density(df, inner)))
    rise = polygamma_rise(0.5 * few, 0.5, order=0)
    power = 0.5 * (1 + bind1(log, few) + rise) - bind2(divide, 1, few) - bind1(log, abs(out))
    return where(far, bind2(divide, out * power, few), usual)


def _inverse_to_level(t: Value, df: Value, p: Value) -> Value:
    far, out, few = _in_tail(t, df)
    usual = bind2(divide, 1, _density(df, where(far, 1.0, t)))
    level = where(far, where(t < 0, -p, 1 - p), 1.0)
    return where(far, bind2(divide, out, few * level), usual)


def _stdtrit(df: Raw, p: Raw) -> Raw:
    """SciPy's is positive infinity at 0, too; SciPy 1.15's is NaN at 0 and at 1."""
    quantiles = scipy_special("stdtrit").stdtrit(df, p)
    first, last = np.equal(p, 0) & np.greater(df, 0), np.equal(p, 1) & np.greater(df, 0)
    ended = np.where(first, -np.inf, np.where(last, np.inf, quantiles))
    return in_precision(ended[()], df, p)


stdtrit: Primitive = elementwise(
    "stdtrit",
    _stdtrit,
    traits=TRANSCENDENTAL | OWNS,
    partials=(_inverse_to_df, _inverse_to_level),
    samples=_LEVELS,
    kinks=Kinks(domain=lambda df, p: (df, p, 1 - p)),
)
