"""The cardinal sine, ``sin(pi x) / (pi x)``, and its derivatives of every order.

>>> sinc(0.0), sinc_derivative(0.0, order=2)
(np.float64(1.0), np.float64(-3.289868133696453))
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np

from funcgrad._core import intrinsics
from funcgrad._core.primitive import Primitive, Sample
from funcgrad._core.specs import dtype_of, is_inexact
from funcgrad._core.structure.structures import OWNS, TRANSCENDENTAL, UNEVEN, Algebra
from funcgrad._core.trace import Raw, Value
from funcgrad._primitives.elementwise import combined, complexes, edges, elementwise, reals

_LINE: Final = combined(reals(-3, 3), complexes(), edges(0.0, np.inf, -np.inf, np.nan))
_DOUBLE: Final = np.dtype(np.float64)


def _sinc_derivative(x: Raw, order: int) -> Raw:
    """Evaluate the formula on arrays: each of its two parts only at the elements that need it."""
    array = np.asarray(x)
    kind = np.result_type(array, np.sinc(array[:0] if array.ndim else array))
    array = array.astype(np.result_type(kind, np.float64))
    near = np.abs(np.pi * array) < order + 1
    out = np.empty_like(array)
    out[near] = _near_sinc(np.pi * array[near], order)
    far = ~near
    out[far] = _far_sinc(intrinsics, array[far], order)
    return (out * np.pi**order).astype(kind)[()]


def _formula_of_sinc_derivative(m: Algebra, x: Value, order: int) -> Value:
    """The derivative of sin(u) / u, u = pi x, of a positive order.

    With f = sin(u) / u, differentiating u f = sin(u) n times gives the recurrence
    u f[n] + n f[n - 1] = sin(u + n pi / 2), which loses digits only where u < n: there the power
    series is short. Its terms are (-1)^k (2k)! / ((2k + 1)! (2k - n)!) u^(2k - n).
    """
    kind = np.result_type(dtype_of(x), np.float16) if is_inexact(dtype_of(x)) else _DOUBLE
    x = m.astype(x, np.result_type(kind, _DOUBLE))
    near = m.absolute(np.pi * x) < order + 1
    close = _near_sinc(np.pi * m.where(near, x, 0), order)
    distant = _far_sinc(m, m.where(near, 1, x), order)
    return m.astype(m.where(near, close, distant) * np.pi**order, kind)


def _far_sinc(m: Algebra, x: Value, order: int) -> Value:
    u, turns = np.pi * x, _waves(m, x)
    value = turns[0] / u
    for n in range(1, order + 1):
        turn = turns[n % 2] if n % 4 < 2 else -turns[n % 2]
        value = (turn - n * value) / u
    return value


def _near_sinc(u: Value, order: int) -> Value:
    """Evaluate the power series in u^2, by Horner's rule."""
    square, first = u * u, (order + 1) // 2
    series = 0 * square
    for k in range(2 * order + 20, first - 1, -1):
        series *= square
        series += (-1) ** k / ((2 * k + 1) * math.factorial(2 * k - order))
    return series * u if order % 2 else series


def _waves(m: Algebra, x: Value) -> tuple[Value, Value]:
    """The sine and the cosine of pi x. Whole turns are taken off before the product rounds."""
    whole = m.rint(m.real(x))
    sign = 1 - 2 * m.absolute(m.fmod(whole, 2))
    fraction = x - whole
    sine = sign * m.sin(np.pi * fraction)
    cosine = sign * m.sin(np.pi * (0.5 - m.where(m.real(fraction) < 0, -fraction, fraction)))
    return sine, cosine


def _sinc_samples() -> Iterator[Sample]:
    smooth = combined(reals(-3, 3), complexes(0.1, 1.0), edges(0.0, 1e-9, 0.3, 1.0, smooth=True))
    for order in (1, 2, 3):
        yield from combined(smooth, edges(np.inf, np.nan), order=order)()


sinc_derivative: Primitive = elementwise(
    "sinc_derivative",
    _sinc_derivative,
    formula=_formula_of_sinc_derivative,
    partials=(lambda _, x, order: sinc_derivative(x, order=order + 1),),
    samples=_sinc_samples,
    traits=TRANSCENDENTAL | UNEVEN | OWNS,
)


def _sinc(m: Algebra, x: Value) -> Value:
    u = m.multiply(np.pi, x)
    u = m.where(u, u, np.finfo(dtype_of(u)).eps)
    return m.sin(u) / u


sinc: Primitive = elementwise(
    "sinc",
    formula=_sinc,
    partials=(lambda _, x: sinc_derivative(x, order=1),),
    samples=combined(_LINE, edges(0.0, 1e-9, smooth=True)),
    traits=TRANSCENDENTAL,
)
