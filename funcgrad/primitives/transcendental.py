"""Exponentials, logarithms, roots, trigonometry.

>>> exp(0.0)
np.float64(1.0)

Factors are written in the output where that costs no accuracy. Inverse functions of complex numbers
use it on purpose: it knows on which side of a branch cut the argument lies, which ``1 - z``
forgets, for ``1 - (2 + 0j)`` has the imaginary part 0 rather than -0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from funcgrad.primitive import Primitive, Sample
from funcgrad.primitives.elementwise import (
    combined,
    complexes,
    edges,
    elementwise,
    reals,
    reciprocal,
)
from funcgrad.primitives.logic import isinf
from funcgrad.primitives.selection import where
from funcgrad.shape import dtype_of
from funcgrad.trace import Value, bind1

__all__ = [
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "cbrt",
    "cos",
    "cosh",
    "deg2rad",
    "exp",
    "exp2",
    "expm1",
    "hypot",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "rad2deg",
    "sin",
    "sinc",
    "sinc_derivative",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]

_LINE = combined(reals(-3, 3), complexes(), edges(0.0, np.inf, -np.inf, np.nan))
_CUT = (2 + 0j, -2 + 0j, 2j, -2j, 0j)


def _is_complex(x: Value) -> bool:
    return dtype_of(x).kind == "c"


# Exponentials and logarithms.

exp = elementwise("exp", np.exp, partials=(lambda y, x: y,), samples=_LINE)
exp2 = elementwise("exp2", np.exp2, partials=(lambda y, x: y * math.log(2),), samples=_LINE)
expm1 = elementwise(  # not y + 1, of which little is left where y is close to -1
    "expm1", np.expm1, partials=(lambda y, x: bind1(exp, x),), samples=_LINE
)

_POSITIVE = combined(reals(0.1, 3), complexes(), edges(0.0, -1.0, np.inf, np.nan))

log2 = elementwise(
    "log2",
    np.log2,
    partials=(lambda y, x: bind1(reciprocal, x) / math.log(2),),
    samples=_POSITIVE,
)
log10 = elementwise(
    "log10",
    np.log10,
    partials=(lambda y, x: bind1(reciprocal, x) / math.log(10),),
    samples=_POSITIVE,
)
log1p = elementwise(
    "log1p",
    np.log1p,
    partials=(lambda y, x: bind1(reciprocal, 1 + x),),
    samples=combined(reals(-0.9, 3), complexes(), edges(-1.0, -2.0, np.inf, np.nan)),
)


def _share(add: Primitive, power: Primitive, x: Value, y: Value) -> Value:
    """The share of ``e^x`` in ``e^x + e^y``, which is 1 / (1 + e^(y - x)).

    Written as e^-log(1 + e^(y - x)), which overflows at no order; e^(x - log(e^x + e^y)) would lose
    the digits by which the sum exceeds the greater argument. Equal infinities share equally.
    """
    same_infinity = (x == y) & bind1(isinf, x)
    return where(same_infinity, 0.5, bind1(power, -add(0, y - x)))


_PAIRS = combined(
    reals(-3, 3, 2),
    edges((1.0, 1.0), (800.0, -800.0), (1e6, 1e6), smooth=True),
    edges((-np.inf, -np.inf), (np.inf, np.inf), (np.inf, 1.0), (-np.inf, 1.0), (np.nan, 1.0)),
)
logaddexp: Primitive = elementwise(
    "logaddexp",
    np.logaddexp,
    partials=(
        lambda _, x, y: _share(logaddexp, exp, x, y),
        lambda _, x, y: _share(logaddexp, exp, y, x),
    ),
    samples=_PAIRS,
)
logaddexp2: Primitive = elementwise(
    "logaddexp2",
    np.logaddexp2,
    partials=(
        lambda _, x, y: _share(logaddexp2, exp2, x, y),
        lambda _, x, y: _share(logaddexp2, exp2, y, x),
    ),
    samples=_PAIRS,
)

# Roots and distances.

sqrt = elementwise("sqrt", np.sqrt, partials=(lambda y, x: 0.5 / y,), samples=_POSITIVE)
cbrt = elementwise(
    "cbrt",
    np.cbrt,
    partials=(lambda y, x: 1 / (3 * y * y),),
    samples=combined(reals(0.1, 3), reals(-3, -0.1), edges(0.0, np.inf, np.nan)),
)


def _radius(r: Value) -> Value:
    """A distance to divide by: at the origin infinite, where the quotient is to be 0."""
    return where(r == 0, np.inf, r)


_AROUND_ORIGIN = combined(
    reals(0.2, 3, 2),
    reals(-3, -0.2, 2),
    edges((0.0, 1.0), (-2.0, 0.0), (1e-200, 1e-200), (1e200, 1e200), smooth=True),
    edges((0.0, 0.0), (np.inf, 1.0), (np.nan, 1.0)),
)
hypot: Primitive = elementwise(
    "hypot",
    np.hypot,
    partials=(lambda r, x, y: x / _radius(r), lambda r, x, y: y / _radius(r)),
    samples=_AROUND_ORIGIN,
)


def _over_square(x: Value, y: Value, length: Value) -> Value:
    """``length / (x**2 + y**2)`` for a length that is x or y, without overflow."""
    r = _radius(hypot(x, y))
    return length / r / r


arctan2 = elementwise(
    "arctan2",
    np.arctan2,
    partials=(lambda _, y, x: _over_square(x, y, x), lambda _, y, x: _over_square(x, y, -y)),
    samples=_AROUND_ORIGIN,
)

# Angles.

deg2rad = elementwise(
    "deg2rad",
    np.deg2rad,
    partials=(lambda _, x: math.pi / 180,),
    samples=combined(reals(-180, 180), edges(np.inf, np.nan)),
)
rad2deg = elementwise(
    "rad2deg",
    np.rad2deg,
    partials=(lambda _, x: 180 / math.pi,),
    samples=combined(reals(-3, 3), edges(np.inf, np.nan)),
)

# Trigonometric and hyperbolic functions.

sin: Primitive = elementwise("sin", np.sin, partials=(lambda y, x: bind1(cos, x),), samples=_LINE)
cos: Primitive = elementwise("cos", np.cos, partials=(lambda y, x: -bind1(sin, x),), samples=_LINE)
tan = elementwise(
    "tan",
    np.tan,
    partials=(lambda y, x: 1 + y * y,),
    samples=combined(reals(-1.3, 1.3), complexes(), edges(0.0, np.inf, np.nan)),
)
sinh: Primitive = elementwise(
    "sinh", np.sinh, partials=(lambda y, x: bind1(cosh, x),), samples=_LINE
)
cosh: Primitive = elementwise(
    "cosh", np.cosh, partials=(lambda y, x: bind1(sinh, x),), samples=_LINE
)
tanh = elementwise("tanh", np.tanh, partials=(lambda y, x: 1 - y * y,), samples=_LINE)

# Their inverses.

_INTERVAL = combined(
    reals(-0.9, 0.9), complexes(), edges(1.0, -1.0, 2.0, np.inf, np.nan), edges(*_CUT)
)


def _arcsin_factor(y: Value, x: Value) -> Value:
    if _is_complex(x):
        return bind1(reciprocal, bind1(cos, y))
    return bind1(reciprocal, bind1(sqrt, (1 - x) * (1 + x)))


def _arccos_factor(y: Value, x: Value) -> Value:
    if _is_complex(x):
        return -bind1(reciprocal, bind1(sin, y))
    return -bind1(reciprocal, bind1(sqrt, (1 - x) * (1 + x)))


def _arcsinh_factor(y: Value, x: Value) -> Value:
    return bind1(reciprocal, bind1(cosh, y) if _is_complex(x) else hypot(x, 1))


def _arccosh_factor(y: Value, x: Value) -> Value:
    root = bind1(sinh, y) if _is_complex(x) else bind1(sqrt, x - 1) * bind1(sqrt, x + 1)
    return bind1(reciprocal, root)


arcsin = elementwise("arcsin", np.arcsin, partials=(_arcsin_factor,), samples=_INTERVAL)
arccos = elementwise("arccos", np.arccos, partials=(_arccos_factor,), samples=_INTERVAL)
arctan = elementwise(
    "arctan",
    np.arctan,
    partials=(lambda y, x: bind1(reciprocal, 1 + x * x),),
    samples=combined(_LINE, edges(*_CUT)),
)
arcsinh = elementwise(
    "arcsinh",
    np.arcsinh,
    partials=(_arcsinh_factor,),
    samples=combined(_LINE, edges(1e200, smooth=True), edges(*_CUT)),
)
arccosh = elementwise(
    "arccosh",
    np.arccosh,
    partials=(_arccosh_factor,),
    samples=combined(reals(1.1, 3), complexes(), edges(1.0, 0.5, -2.0, np.inf), edges(*_CUT)),
)
arctanh = elementwise(
    "arctanh",
    np.arctanh,
    partials=(lambda y, x: bind1(reciprocal, (1 - x) * (1 + x)),),
    samples=_INTERVAL,
)

# The cardinal sine.


def _sinc_derivative(x: Any, order: int) -> Any:
    """The derivative of sin(u) / u, u = pi x, of a positive order.

    With f = sin(u) / u, differentiating u f = sin(u) n times gives the recurrence
    u f[n] + n f[n - 1] = sin(u + n pi / 2), which loses digits only where u < n: there the power
    series is short. Its terms are (-1)^k (2k)! / ((2k + 1)! (2k - n)!) u^(2k - n).
    """
    array = np.asarray(x)
    kind = np.result_type(array, np.sinc(array[:0] if array.ndim else array))
    u = np.pi * array.astype(np.result_type(kind, np.float64))
    near = np.abs(u) < order + 1
    out = np.empty_like(u)
    out[near] = _near_sinc(u[near], order)
    far = ~near
    out[far] = _far_sinc(u[far], order)
    return (out * np.pi**order).astype(kind)[()]


def _far_sinc(u: Any, order: int) -> Any:
    turns = [np.sin(u), np.cos(u)]
    value = turns[0] / u
    for n in range(1, order + 1):
        turn = turns[n % 2] if n % 4 < 2 else -turns[n % 2]
        value = (turn - n * value) / u
    return value


def _near_sinc(u: Any, order: int) -> Any:
    """By Horner's rule, in u^2."""
    square, first = u * u, (order + 1) // 2
    series = np.zeros_like(u)
    for k in range(2 * order + 20, first - 1, -1):
        series *= square
        series += (-1) ** k / ((2 * k + 1) * math.factorial(2 * k - order))
    return series * u if order % 2 else series


def _sinc_samples() -> Iterator[Sample]:
    smooth = combined(reals(-3, 3), complexes(0.1, 1.0), edges(0.0, 1e-9, 0.3, 1.0, smooth=True))
    for order in (1, 2, 3):
        yield from combined(smooth, edges(np.inf, np.nan), order=order)()


sinc_derivative: Primitive = elementwise(
    "sinc_derivative",
    _sinc_derivative,
    partials=(lambda _, x, order: sinc_derivative(x, order=order + 1),),
    samples=_sinc_samples,
)
sinc = elementwise(
    "sinc",
    np.sinc,
    partials=(lambda _, x: sinc_derivative(x, order=1),),
    samples=combined(_LINE, edges(0.0, 1e-9, smooth=True)),
)
