"""Confluent and Gauss hypergeometric functions, differentiable with respect to the argument.

>>> hyp1f1(1.0, 1.0, 0.0), hyp2f1(1.0, 1.0, 2.0, 0.5)
(np.float64(1.0), np.float64(1.3862943611198901))

No formula for derivatives with respect to parameters is accurate over the whole range; these raise
an error.
"""

from __future__ import annotations

import numpy as np

from funcgrad._core.primitive import Kinks, Primitive, Sample
from funcgrad._core.trace import Value, bind2
from funcgrad._primitives.elementwise import combined, divide
from funcgrad._primitives.kinks import from_poles_of_gamma, if_real, is_complex, to_cut
from funcgrad._primitives.selection import where
from funcgrad._primitives.special_functions.scipys import evaluated_by_scipy, no_derivative

_REMEDY = "Hold it constant with fg.stop_gradient, or write its series, which fg differentiates."


def _slope(a: Value, factor: Value, higher: Value) -> Value:
    """The factor times the function of parameters greater by 1: series that end at ``a = -n`` are
    constant for a = 0, and linear for a = -1, whatever the other parameters are."""
    return where(a == 0, 0.0, factor * where(a == -1, 1.0, higher))


def _slope_of_gauss(_: Value, a: Value, b: Value, c: Value, z: Value) -> Value:
    least = where((b == 0) | ((b == -1) & (a != 0)), b, a)
    return _slope(least, bind2(divide, a * b, c), hyp2f1(a + 1, b + 1, c + 1, z))


hyp0f1: Primitive = evaluated_by_scipy(
    "hyp0f1",
    partials=(
        no_derivative("hyp0f1", "v", _REMEDY),
        lambda _, v, z: bind2(divide, hyp0f1(v + 1, z), v),
    ),
    samples=combined(
        lambda: [
            Sample((np.array([1, 2, 3]), np.array([0.5, -2.0, 1.5]))),
            Sample((2, 0.3)),
            Sample((np.array(2), np.array(0.3))),
            Sample((np.array([[1], [3]]), np.linspace(0.1, 0.9, 6)[::-2])),
            Sample((np.zeros((0, 2), np.int64), np.zeros(2))),
        ]
    ),
    kinks=Kinks(lambda v, z: from_poles_of_gamma(v)),
)
hyp1f1: Primitive = evaluated_by_scipy(
    "hyp1f1",
    partials=(
        no_derivative("hyp1f1", "a", _REMEDY),
        no_derivative("hyp1f1", "b", _REMEDY),
        lambda _, a, b, x: _slope(a, bind2(divide, a, b), hyp1f1(a + 1, b + 1, x)),
    ),
    samples=combined(
        lambda: [
            Sample((np.array([1, 2, 3]), np.array([2, 1, 5]), np.array([0.5, -2.0, 1.5]))),
            Sample((2, 3, 0.3)),
            Sample((np.array(2), np.array(3), np.array(0.3))),
            Sample((np.array([[1], [3]]), 2, np.linspace(0.1, 0.9, 6)[::-2])),
            Sample((np.zeros((0, 2), np.int64), 1, np.zeros(2))),
        ]
    ),
    kinks=Kinks(lambda a, b, z: from_poles_of_gamma(b)),
)
hyp2f1: Primitive = evaluated_by_scipy(
    "hyp2f1",
    partials=(
        no_derivative("hyp2f1", "a", _REMEDY),
        no_derivative("hyp2f1", "b", _REMEDY),
        no_derivative("hyp2f1", "c", _REMEDY),
        _slope_of_gauss,
    ),
    samples=combined(
        lambda: [
            Sample((np.array([1, 2, 3]), 2, np.array([2, 1, 5]), np.array([0.5, -2.0, 0.8]))),
            Sample((2, 1, 3, 0.3)),
            Sample((np.array(2), np.array(1), np.array(3), np.array(0.3))),
            Sample((np.array([[1], [3]]), 2, 3, np.linspace(0.1, 0.9, 6)[::-2])),
            Sample((np.zeros((0, 2), np.int64), 1, 2, np.zeros(2))),
        ]
    ),
    kinks=Kinks(
        lambda a, b, c, z: (from_poles_of_gamma(c), 1.0 if not is_complex(z) else to_cut(1 - z)),
        lambda a, b, c, z: if_real(1 - z),
    ),
)
hyperu: Primitive = evaluated_by_scipy(
    "hyperu",
    partials=(
        no_derivative("hyperu", "a", _REMEDY),
        no_derivative("hyperu", "b", _REMEDY),
        lambda _, a, b, x: _slope(a, -a, hyperu(a + 1, b + 1, x)),
    ),
    samples=combined(
        lambda: [
            Sample((np.array([1, 2, 3]), np.array([2, 1, 5]), np.array([0.5, 2.0, 1.5]))),
            Sample((2, 3, 0.3)),
            Sample((np.array([[1], [3]]), 2, np.linspace(0.1, 0.9, 6)[::-2])),
            Sample((np.zeros((0, 2), np.int64), 1, np.ones(2))),
        ]
    ),
    kinks=Kinks(domain=lambda a, b, x: x),
)
