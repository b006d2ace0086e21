"""A smooth loss between a square and a magnitude, and its slopes. It needs no SciPy.

>>> pseudo_huber.evaluate(3.0, 4.0)
np.float64(6.0)

With ``h = hypot(delta, r)`` the loss is ``delta (h - delta)``, whose slopes are ``delta r / h`` and
``(h - delta)**2 / h``. Products of ratios give these and the second derivatives without
cancellation, at any quotient: ``h - delta`` is ``r`` times the tangent of half an angle.
"""

from __future__ import annotations

import numpy as np

from funcgrad._core.primitive import Kinks, Primitive
from funcgrad._core.structure.structures import Algebra
from funcgrad._core.trace import Value
from funcgrad._primitives.elementwise import combined, edges, elementwise, reals
from funcgrad._primitives.kinks import negative_axis
from funcgrad._primitives.transcendental import ratio_to_hypot

_SAMPLES = combined(
    reals(0.3, 3, 2),
    edges((1.0, -2.0), (2.0, 0.0), (0.05, 3.0), (30.0, -3.0), smooth=True),
    edges((0.0, 0.0), (0.0, 2.0), (1.0, np.inf), (1.0, -np.inf), (np.nan, 1.0)),
)


def _distance(m: Algebra, delta: Value, r: Value) -> Value:
    """``hypot(delta, r)``, to divide by: at the origin infinite, where quotients are to be 0."""
    h = m.hypot(delta, r)
    return m.where(h == 0, np.inf, h)


def _half_tangent(m: Algebra, delta: Value, r: Value) -> Value:
    """``(h - delta) / r``, also where r is 0 or infinite."""
    half = m.divide(r, delta + _distance(m, delta, r))
    return m.where(m.isinf(r), m.copysign(1.0, r), half)


def _sine(m: Algebra, delta: Value, r: Value) -> Value:
    ratio = m.divide(r, _distance(m, delta, r))
    return m.where(m.isinf(r), m.copysign(1.0, r), ratio)


def _loss(m: Algebra, delta: Value, r: Value) -> Value:
    return delta * r * _half_tangent(m, delta, r)


def _in_r(m: Algebra, delta: Value, r: Value) -> Value:
    """The smaller one of delta and r by a ratio of at least half."""
    steep = m.divide(delta, _distance(m, delta, r)) * r
    return m.where(m.absolute(r) > delta, delta * _sine(m, delta, r), steep)


def _in_delta(m: Algebra, delta: Value, r: Value) -> Value:
    half = _half_tangent(m, delta, r)
    return _sine(m, delta, r) * half * (half * r)


def _cube(x: Value) -> Value:
    return x * x * x


def _bend_in_delta(delta: Value, r: Value) -> Value:
    """``-((h - delta) / h)**2 (2 + delta / h)``."""
    sine, cosine = ratio_to_hypot(r, delta), ratio_to_hypot(delta, r)
    versed = sine * (sine / (1 + cosine))
    return -(versed * versed) * (2 + cosine)


pseudo_huber: Primitive = elementwise(
    "pseudo_huber",
    formula=_loss,
    partials=(
        lambda _, delta, r: pseudo_huber_in_delta(delta, r),
        lambda _, delta, r: pseudo_huber_in_r(delta, r),
    ),
    samples=_SAMPLES,
    kinks=Kinks(negative_axis),
)
pseudo_huber_in_r: Primitive = elementwise(
    "pseudo_huber_in_r",
    formula=_in_r,
    partials=(
        lambda _, delta, r: _cube(ratio_to_hypot(r, delta)),
        lambda _, delta, r: _cube(ratio_to_hypot(delta, r)),
    ),
    samples=_SAMPLES,
    kinks=Kinks(lambda delta, r: (delta * delta + r * r) ** 0.5),
)
pseudo_huber_in_delta: Primitive = elementwise(
    "pseudo_huber_in_delta",
    formula=_in_delta,
    partials=(
        lambda _, delta, r: _bend_in_delta(delta, r),
        lambda _, delta, r: _cube(ratio_to_hypot(r, delta)),
    ),
    samples=_SAMPLES,
    kinks=Kinks(negative_axis),
)
