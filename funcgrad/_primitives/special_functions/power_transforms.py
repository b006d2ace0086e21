"""The transforms of Box and Cox, and powers less 1.

With y = log(x) the transform is ``y exprel(lambda y)``, and derivatives of ``exprel`` are accurate
for lambda near 0. The derivatives of the transforms, and of their inverses by the inverse function
rule, are composed of these.

>>> boxcox(4.0, 0.5), inv_boxcox(2.0, 0.5)
(np.float64(2.0), np.float64(4.0))
"""

from __future__ import annotations

import numpy as np

from funcgrad._core.primitive import Kinks, Primitive, Sample
from funcgrad._core.trace import Value, bind1, bind2
from funcgrad._primitives.elementwise import combined, divide, edges, log
from funcgrad._primitives.powers import power
from funcgrad._primitives.selection import where
from funcgrad._primitives.special_functions.exponentials import exponential_moment
from funcgrad._primitives.special_functions.scipys import evaluated_by_scipy
from funcgrad._primitives.transcendental import exp, log1p


def _bent(y: Value, exponent: Value) -> Value:
    """The derivative of ``y exprel(exponent y)`` by the exponent; at y = -inf its limit."""
    gone = y == -np.inf
    inner = where(gone, 1.0, y)
    near = inner * inner * exponential_moment(exponent * inner, order=1)
    end = where(exponent > 0, bind2(divide, 1, exponent * exponent), np.inf)
    return where(gone, end, near)


_POSITIVE = combined(
    lambda: [
        Sample((np.array([0.3, 1.0, 2.5]), np.array([0.5, -1.5, 2.0]))),
        Sample((1.7, 0.4)),
        Sample((np.array([[0.4], [3.0]]), np.linspace(-1, 2, 6)[::-2])),
        Sample((np.zeros((0, 2)), np.ones(2))),
    ],
    edges((1.0, 0.3), (2.0, 0.0), (1.0, 0.0), (3.0, 1e-9), smooth=True),
    edges((0.0, 2.0), (0.0, -1.0), (-1.0, 0.5), (np.inf, 1.0), (np.nan, 1.0)),
)
_SMALL = combined(
    lambda: [
        Sample((np.array([-0.3, 1.0, 0.5]), np.array([0.5, 1.5, -0.4]))),
        Sample((0.7, 0.4)),
        Sample((np.array([[0.4], [0.9]]), np.linspace(-0.5, 1, 6)[::-2])),
        Sample((np.zeros((0, 2)), np.ones(2))),
    ],
    edges((0.0, 0.3), (0.5, 0.0), (0.0, 0.0), (1e-9, 0.3), smooth=True),
    edges((-1.0, 2.0), (0.3, np.inf), (np.nan, 1.0)),
)

boxcox: Primitive = evaluated_by_scipy(
    "boxcox",
    partials=(
        lambda _, x, exponent: bind2(power, x, exponent - 1),
        lambda _, x, exponent: _bent(bind1(log, x), exponent),
    ),
    samples=_POSITIVE,
    kinks=Kinks(domain=lambda x, y: x),
)


def _slope_of_boxcox1p(_: Value, x: Value, exponent: Value) -> Value:
    """``(1 + x)**(exponent - 1)``, by the logarithm that has the digits of small x."""
    end = x == -1
    inner = bind1(exp, (exponent - 1) * bind1(log1p, where(end, 0.0, x)))
    return where(end, bind2(power, where(end, 1 + x, 1.0), exponent - 1), inner)


boxcox1p: Primitive = evaluated_by_scipy(
    "boxcox1p",
    partials=(_slope_of_boxcox1p, lambda _, x, exponent: _bent(bind1(log1p, x), exponent)),
    samples=_SMALL,
    kinks=Kinks(domain=lambda x, y: 1 + x),
)


def _along(y: Value, exponent: Value) -> Value:
    """The reciprocal of the slope of the transform, where the logarithm of its argument is y."""
    linear = (exponent == 1) & (y == -np.inf)
    return bind1(exp, (1 - exponent) * where(linear, 0.0, y))


def _to_exponent(y: Value, exponent: Value) -> Value:
    return -_along(y, exponent) * _bent(y, exponent)


inv_boxcox1p: Primitive = evaluated_by_scipy(
    "inv_boxcox1p",
    partials=(
        lambda x, _, exponent: _along(bind1(log1p, x), exponent),
        lambda x, _, exponent: _to_exponent(bind1(log1p, x), exponent),
    ),
    samples=_SMALL,
    kinks=Kinks(domain=lambda y, power: 1 + power * y),
)
inv_boxcox: Primitive = evaluated_by_scipy(
    "inv_boxcox",
    partials=(
        lambda _, y, exponent: _along(bind1(log1p, inv_boxcox1p(y, exponent)), exponent),
        lambda _, y, exponent: _to_exponent(bind1(log1p, inv_boxcox1p(y, exponent)), exponent),
    ),
    samples=_SMALL,
    kinks=Kinks(domain=lambda y, power: 1 + power * y),
)


def _to_base(out: Value, x: Value, y: Value) -> Value:
    hole = (x == 0) & (y == 0)
    return y * bind2(power, x, y - 1 + hole)


powm1: Primitive = evaluated_by_scipy(
    "powm1",
    partials=(_to_base, lambda _, x, y: bind2(power, x, y) * bind1(log, x + ((x == 0) & (y > 0)))),
    samples=_POSITIVE,
    kinks=power.kinks,
)
