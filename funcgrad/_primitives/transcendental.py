"""Exponentials, logarithms, roots, trigonometry.

>>> exp(0.0)
np.float64(1.0)

Factors use the output if that costs no accuracy. Inverse functions of complex numbers always use
it: it tells on which side of a branch cut the argument is, which ``1 - z`` loses, since ``1 - (2 +
0j)`` has the imaginary part 0 rather than -0.

A factor and its derivative keep their digits over the whole range. If the derivative of the
factor's formula would cancel (``x / hypot(x, y)`` gives ``1 / r - x**2 / r**3``), the factor is an
operation with its own derivative (``y**2 / r**3``): ``ratio_to_hypot``,
``ratio_to_square_of_hypot``, ``one_minus_square``, ``sech_squared``.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Final

import numpy as np

from funcgrad._core import intrinsics
from funcgrad._core.primitive import Kinks, Primitive
from funcgrad._core.structure.structures import OWNS, ROUNDED_ONCE, TRANSCENDENTAL, Algebra
from funcgrad._core.trace import RAW, Raw, Value, bind1
from funcgrad._primitives.complexes import reciprocal_of_product, within_cosh
from funcgrad._primitives.elementwise import (
    combined,
    complexes,
    edges,
    elementwise,
    reals,
    reciprocal,
    reciprocal_of_positive,
    square,
)
from funcgrad._primitives.kinks import (
    AT_ZERO,
    CUT_ALONG_IMAGINARY_AXIS,
    POSITIVE,
    above,
    between,
    greater_of,
    is_complex,
)
from funcgrad._primitives.logic import isinf
from funcgrad._primitives.precision import floating, floating_pair, through_single
from funcgrad._primitives.selection import where

_LINE = combined(reals(-3, 3), complexes(), edges(0.0, np.inf, -np.inf, np.nan))
_DOUBLE: Final = np.dtype(np.float64)
_FAR: Final = 1e120
_CUT = (2 + 0j, -2 + 0j, 2j, -2j, 0j)


_transcendental = partial(elementwise, traits=TRANSCENDENTAL)

_OUTSIDE = "clip the argument, or choose inside: {0}(where({1}, x, 1))"

# Exponentials and logarithms.

exp: Primitive = _transcendental(
    "exp",
    np.exp,
    remedy="clip the argument from above, or stay with logarithms: logsumexp, log_softmax",
    partials=(lambda y, _x: y,),
    samples=_LINE,
)
exp2: Primitive = elementwise(
    "exp2", np.exp2, partials=(lambda y, _x: y * math.log(2),), samples=_LINE, traits=TRANSCENDENTAL
)
expm1: Primitive = elementwise(  # not y + 1, which cancels for y close to -1
    "expm1",
    np.expm1,
    remedy="clip the argument from above",
    partials=(lambda _, x: bind1(exp, x),),
    samples=_LINE,
    traits=TRANSCENDENTAL,
)

_POSITIVE = combined(reals(0.1, 3), complexes(), edges(0.0, -1.0, np.inf, np.nan))

log2: Primitive = _transcendental(
    "log2",
    np.log2,
    remedy=_OUTSIDE.format("log2", "x > 0"),
    partials=(lambda _, x: bind1(reciprocal_of_positive, x) / math.log(2),),
    samples=_POSITIVE,
    kinks=POSITIVE,
)
log10: Primitive = _transcendental(
    "log10",
    np.log10,
    remedy=_OUTSIDE.format("log10", "x > 0"),
    partials=(lambda _, x: bind1(reciprocal_of_positive, x) / math.log(10),),
    samples=_POSITIVE,
    kinks=POSITIVE,
)
log1p: Primitive = _transcendental(
    "log1p",
    np.log1p,
    remedy=_OUTSIDE.format("log1p", "x > -1"),
    partials=(lambda _, x: bind1(reciprocal_of_positive, 1 + x),),
    samples=combined(reals(-0.9, 3), complexes(), edges(-1.0, -2.0, np.inf, np.nan)),
    kinks=above(-1.0),
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


def _logaddexp(m: Algebra, x: Value, y: Value) -> Value:
    x, y = floating_pair(m, x, y)
    behind = m.log1p(m.exp(-m.absolute(x - y)))
    return m.where(x == y, x + math.log(2), m.maximum(x, y) + behind)


def _logaddexp2(m: Algebra, x: Value, y: Value) -> Value:
    x, y = floating_pair(m, x, y)
    behind = m.log1p(m.exp2(-m.absolute(x - y))) * (1 / math.log(2))
    return m.where(x == y, x + 1, m.maximum(x, y) + behind)


# Near 0 it has the digits of the greater argument. Bits of float32 depend on the C library.
logaddexp: Primitive = _transcendental(
    "logaddexp",
    np.logaddexp,
    formula=_logaddexp,
    ulps=4,
    partials=(
        lambda _, x, y: _share(logaddexp, exp, x, y),
        lambda _, x, y: _share(logaddexp, exp, y, x),
    ),
    samples=_PAIRS,
)
logaddexp2: Primitive = _transcendental(
    "logaddexp2",
    np.logaddexp2,
    formula=_logaddexp2,
    ulps=4,
    partials=(
        lambda _, x, y: _share(logaddexp2, exp2, x, y),
        lambda _, x, y: _share(logaddexp2, exp2, y, x),
    ),
    samples=_PAIRS,
)

# Roots and distances.

sqrt: Primitive = elementwise(
    "sqrt",
    np.sqrt,
    remedy=_OUTSIDE.format("sqrt", "x > 0")
    + "; for a sum of squares use linalg.norm, which has the slope 0 at 0",
    partials=(lambda y, _x: 0.5 / (y + 0.0),),  # at -0.0 as at 0, which have one side only
    samples=_POSITIVE,
    traits=ROUNDED_ONCE,
    kinks=POSITIVE,
)
cbrt: Primitive = elementwise(
    "cbrt",
    np.cbrt,
    # Not 1 / (3 * y * y), whose derivative would be 0 times infinity at an infinite root.
    partials=(lambda y, _x: bind1(square, bind1(reciprocal, y)) / 3,),
    samples=combined(reals(0.1, 3), reals(-3, -0.1), edges(0.0, np.inf, np.nan)),
    kinks=AT_ZERO,
)


def _radius(m: Algebra, r: Value) -> Value:
    """A distance to divide by: at the origin infinite, where the quotient is to be 0."""
    return m.where(r == 0, np.inf, r)


_OFF_ORIGIN = combined(reals(0.2, 3, 2), reals(-3, -0.2, 2))
_AROUND_ORIGIN = combined(
    _OFF_ORIGIN,
    edges((0.0, 1.0), (-2.0, 0.0), (1e-200, 1e-200), (1e200, 1e200), smooth=True),
    edges((0.0, 0.0), (np.inf, 1.0), (np.nan, 1.0)),
)


def _ratio_to_radius(r: Value, x: Value, y: Value) -> Value:
    # Then it is known already, and no derivative of the quotient is wanted.
    if type(r) in RAW and not np.any(np.isinf(r)):
        return x / _radius(intrinsics, r)
    return ratio_to_hypot(x, y)


hypot: Primitive = elementwise(
    "hypot",
    np.hypot,
    partials=(lambda r, x, y: _ratio_to_radius(r, x, y), lambda r, x, y: _ratio_to_radius(r, y, x)),
    samples=_AROUND_ORIGIN,
    kinks=Kinks(lambda x, y: hypot(x, y)),
)


def _ratio_to_hypot(m: Algebra, x: Value, y: Value) -> Value:
    """``x / hypot(x, y)``, also at infinity: 1 for infinite x, and NaN if both are infinite."""
    ratio = m.divide(x, _radius(m, m.hypot(x, y)))
    ratio = m.where((x == np.inf) & m.isfinite(y), 1.0, ratio)
    return m.where((x == -np.inf) & m.isfinite(y), -1.0, ratio)


# x / r and x / r**2 with r = hypot(x, y), without overflow, and 0 at the origin.
ratio_to_hypot: Primitive = elementwise(
    "ratio_to_hypot",
    formula=_ratio_to_hypot,
    partials=(
        lambda _, x, y: ratio_to_hypot(y, x) * ratio_to_square_of_hypot(y, x),
        lambda _, x, y: -ratio_to_hypot(x, y) * ratio_to_square_of_hypot(y, x),
    ),
    samples=_AROUND_ORIGIN,
    kinks=Kinks(lambda x, y: hypot(x, y)),
)


def _ratio_to_square_of_hypot(m: Algebra, x: Value, y: Value) -> Value:
    r = _radius(m, m.hypot(x, y))
    return m.where(m.isinf(r), 0.0, m.divide(m.divide(x, r), r))


def _turned(x: Value, y: Value) -> Value:
    """``(y**2 - x**2) / r**4``; on the diagonal nothing cancels."""
    r = hypot(x, y)
    inside = (r > 0) & (r < np.inf)
    x, y, r = where(inside, x, 0.0), where(inside, y, 0.0), where(inside, r, 1.0)
    return (y - x) / r / r * ((y + x) / r / r)


ratio_to_square_of_hypot: Primitive = elementwise(
    "ratio_to_square_of_hypot",
    formula=_ratio_to_square_of_hypot,
    partials=(
        lambda _, x, y: _turned(x, y),
        lambda u, x, y: -2 * u * ratio_to_square_of_hypot(y, x),
    ),
    samples=combined(_OFF_ORIGIN, edges((1e-200, 1e-200), (1e200, 1e200), (0.0, 0.0))),
    kinks=Kinks(lambda x, y: hypot(x, y)),
)
arctan2: Primitive = _transcendental(
    "arctan2",
    np.arctan2,
    partials=(
        lambda _, y, x: ratio_to_square_of_hypot(x, y),
        lambda _, y, x: -ratio_to_square_of_hypot(y, x),
    ),
    samples=_AROUND_ORIGIN,
    kinks=Kinks(lambda y, x: hypot(greater_of(x, 0 * x), y)),
)

# Angles.

deg2rad: Primitive = elementwise(
    "deg2rad",
    np.deg2rad,
    formula=lambda m, x: floating(m, x) * (math.pi / 180),
    ulps=2,
    partials=(lambda _, _x: math.pi / 180,),
    samples=combined(reals(-180, 180), edges(np.inf, np.nan)),
)
rad2deg: Primitive = elementwise(
    "rad2deg",
    np.rad2deg,
    formula=lambda m, x: floating(m, x) * (180 / math.pi),
    ulps=2,
    partials=(lambda _, _x: 180 / math.pi,),
    samples=combined(reals(-3, 3), edges(np.inf, np.nan)),
)

# Trigonometric and hyperbolic functions.

sin: Primitive = elementwise(
    "sin", np.sin, partials=(lambda _, x: bind1(cos, x),), samples=_LINE, traits=TRANSCENDENTAL
)
cos: Primitive = elementwise(
    "cos", np.cos, partials=(lambda _, x: -bind1(sin, x),), samples=_LINE, traits=TRANSCENDENTAL
)
tan: Primitive = _transcendental(
    "tan",
    np.tan,
    partials=(lambda y, x: bind1(sech_squared, 1j * x) if is_complex(x) else 1 + y * y,),
    samples=combined(reals(-1.3, 1.3), complexes(), edges(0.0, np.inf, np.nan)),
    kinks=Kinks(lambda x: cos(x)),
)
sinh: Primitive = _transcendental(
    "sinh",
    np.sinh,
    remedy="clip the argument",
    partials=(lambda _, x: bind1(cosh, x),),
    samples=_LINE,
)
cosh: Primitive = _transcendental(
    "cosh",
    np.cosh,
    remedy="clip the argument",
    partials=(lambda _, x: bind1(sinh, x),),
    samples=_LINE,
)


def _sech_squared(x: Raw) -> Raw:
    cosh = np.cosh(within_cosh(intrinsics, x))
    if type(cosh) is np.ndarray:
        return np.square(np.reciprocal(cosh, out=cosh), out=cosh)
    sech = np.reciprocal(cosh)
    return sech * sech


# Not 1 - tanh(x)**2, which is 0 where tanh(x) rounds to 1.
sech_squared: Primitive = _transcendental(
    "sech_squared",
    _sech_squared,
    formula=lambda m, x: m.square(m.reciprocal(m.cosh(within_cosh(m, x)))),
    partials=(lambda y, x: -2 * y * bind1(tanh, x),),
    samples=combined(_LINE, edges(300.0, -20.0, smooth=True), edges(1000.0)),
    traits=TRANSCENDENTAL | OWNS,
)
tanh: Primitive = _transcendental(
    "tanh",
    np.tanh,
    partials=(lambda _, x: bind1(sech_squared, x),),
    samples=combined(_LINE, edges(1000.0, -30.0)),
    kinks=Kinks(lambda x: cosh(x) if is_complex(x) else ()),
)

# Their inverses.

_INTERVAL = combined(
    reals(-0.9, 0.9), complexes(), edges(1.0, -1.0, 2.0, np.inf, np.nan), edges(*_CUT)
)


one_minus_square: Primitive = elementwise(
    "one_minus_square",
    # Keeps its digits also near 1 and -1.
    formula=lambda m, x: m.multiply(m.subtract(1, x), m.add(1, x)),
    partials=(lambda _, x: -2 * x,),
    samples=_LINE,
)


def _arcsin_factor(y: Value, x: Value) -> Value:
    root = bind1(cos, y) if is_complex(x) else bind1(sqrt, bind1(one_minus_square, x))
    return bind1(reciprocal, root)


def _arccos_factor(y: Value, x: Value) -> Value:
    root = bind1(sin, y) if is_complex(x) else bind1(sqrt, bind1(one_minus_square, x))
    return -bind1(reciprocal, root)


def _arctan_factor(_: Value, x: Value) -> Value:
    if is_complex(x):
        return reciprocal_of_product(1 - 1j * x, 1 + 1j * x)
    return bind1(arctan_slope, x)


def _bend_of_arctan(y: Value, x: Value) -> Value:
    """``-2 x / (1 + x**2)**2``, which underflows far out."""
    return -2 * y * (y * where((x > -_FAR) & (x < _FAR), x, 0.0))


arctan_slope: Primitive = _transcendental(
    "arctan_slope",
    formula=through_single(lambda m, x: m.reciprocal(1.0 + m.square(x))),
    partials=(_bend_of_arctan,),
    samples=combined(reals(-3, 3), edges(1e200, smooth=True), edges(np.inf, np.nan)),
)


def _arcsinh_factor(y: Value, x: Value) -> Value:
    return bind1(reciprocal, bind1(cosh, y) if is_complex(x) else hypot(x, 1))


def _arccosh_factor(y: Value, x: Value) -> Value:
    return bind1(reciprocal, bind1(sinh, y)) if is_complex(x) else bind1(arccosh_slope, x)


def _bend_of_arccosh(y: Value, x: Value) -> Value:
    """``-x / (x**2 - 1)**1.5``, as factors that are 0 at infinity and infinite at 1."""
    return -y * (bind1(reciprocal, x - 1) / (1 + bind1(reciprocal, x)))


arccosh_slope: Primitive = _transcendental(
    "arccosh_slope",
    formula=lambda m, x: m.reciprocal(m.multiply(m.sqrt(x - 1), m.sqrt(x + 1))),
    partials=(_bend_of_arccosh,),
    samples=combined(reals(1.1, 3), edges(1.0, 0.5, np.inf), edges(1e200, smooth=True)),
    kinks=above(1.0),
)


arcsin: Primitive = _transcendental(
    "arcsin",
    np.arcsin,
    remedy="clip the argument a little inside of -1 and 1; for a quotient use arctan2",
    partials=(_arcsin_factor,),
    samples=_INTERVAL,
    kinks=between(-1.0, 1.0),
)
arccos: Primitive = _transcendental(
    "arccos",
    np.arccos,
    remedy="clip the argument a little inside of -1 and 1; for the angle of vectors use arctan2",
    partials=(_arccos_factor,),
    samples=_INTERVAL,
    kinks=between(-1.0, 1.0),
)
arctan: Primitive = _transcendental(
    "arctan",
    np.arctan,
    partials=(_arctan_factor,),
    samples=combined(_LINE, edges(1e200, smooth=True), edges(*_CUT)),
    kinks=CUT_ALONG_IMAGINARY_AXIS,
)
arcsinh: Primitive = _transcendental(
    "arcsinh",
    np.arcsinh,
    partials=(_arcsinh_factor,),
    samples=combined(_LINE, edges(1e200, smooth=True), edges(*_CUT)),
    kinks=CUT_ALONG_IMAGINARY_AXIS,
)
arccosh: Primitive = _transcendental(
    "arccosh",
    np.arccosh,
    remedy=_OUTSIDE.format("arccosh", "x > 1"),
    partials=(_arccosh_factor,),
    samples=combined(reals(1.1, 3), complexes(), edges(1.0, 0.5, -2.0, np.inf), edges(*_CUT)),
    kinks=above(1.0),
)
arctanh: Primitive = _transcendental(
    "arctanh",
    np.arctanh,
    remedy="clip the argument a little inside of -1 and 1",
    partials=(
        lambda _, x: (
            reciprocal_of_product(1 - x, 1 + x)
            if is_complex(x)
            else bind1(reciprocal_of_positive, bind1(one_minus_square, x))
        ),
    ),
    samples=_INTERVAL,
    kinks=between(-1.0, 1.0),
)
