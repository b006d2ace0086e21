"""Rounding, and the parts of floating-point numbers.

What only jumps is discrete; ``fmod`` and ``copysign`` follow their first argument between jumps.

>>> floor(1.7)
np.float64(1.0)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from funcgrad import intrinsics
from funcgrad.primitive import SAME, Primitive, Sample
from funcgrad.primitives.elementwise import combined, complexes, edges, elementwise, reals, sign
from funcgrad.primitives.structural import cast
from funcgrad.shape import dtype_of
from funcgrad.structure import JUMPS, Algebra
from funcgrad.trace import Value, bind1, bind2

__all__ = [
    "binary_exponent",
    "ceil",
    "copysign",
    "floor",
    "fmod",
    "fraction",
    "gcd",
    "heaviside",
    "integral",
    "lcm",
    "ldexp",
    "nextafter",
    "rint",
    "round_to",
    "spacing",
    "trunc",
]

_SAMPLES = combined(reals(-3, 3), edges(0.5, -0.5, 1.5, -0.0, 2.0, np.inf, np.nan))

floor = elementwise("floor", np.floor, partials=None, samples=_SAMPLES)
ceil = elementwise("ceil", np.ceil, partials=None, samples=_SAMPLES)
trunc = elementwise("trunc", np.trunc, partials=None, samples=_SAMPLES)
rint = elementwise("rint", np.rint, partials=None, samples=combined(_SAMPLES, complexes()))


def _round(m: Algebra, x: Value, decimals: int) -> Value:
    if dtype_of(x).kind == "c":
        return m.join_parts(_round(m, m.real(x), decimals), _round(m, m.imag(x), decimals))
    if dtype_of(x).kind in "iu" and decimals >= 0:
        return x
    if decimals >= 0:
        return m.rint(x * 10.0**decimals) / 10.0**decimals if decimals else m.rint(x)
    return m.astype(m.rint(x / 10.0**-decimals) * 10.0**-decimals, dtype_of(x))


def _round_samples() -> Iterator[Sample]:
    for decimals in (0, 1, -1):
        yield from combined(_SAMPLES, complexes(), decimals=decimals)()
        yield Sample((np.array([15, 25, -4]),), {"decimals": decimals})


round_to = elementwise(  # some versions of NumPy return integers themselves: no memory of its own
    "round",
    np.round,
    formula=_round,
    partials=None,
    samples=_round_samples,
    operator="round",
)

spacing = elementwise("spacing", np.spacing, partials=None, samples=_SAMPLES)

# Integers.


def _integers() -> Iterator[Sample]:
    x = np.array([12, 18, 0, -6])
    for first in (x, x.astype(np.int16), x[:, None], 8, np.asarray(6), np.zeros((0, 4), np.uint8)):
        yield Sample((first, np.array([8, 27, 5, 4])[::-1]))
    yield Sample((np.asarray(12), 18))


gcd = elementwise("gcd", np.gcd, partials=None, samples=_integers)
lcm = elementwise("lcm", np.lcm, partials=None, samples=_integers)

# Floating-point numbers.


def _quotient(out: Value, x: Value, y: Value) -> Value:
    """How often ``y`` was taken from ``x``: close to an integer, which rounding makes exact."""
    return -bind1(rint, (x - out) / y)


fmod = elementwise(
    "fmod",
    np.fmod,
    partials=(SAME, _quotient),
    samples=combined(
        reals(0.5, 3, 2), reals(-3, -0.5, 2), edges((1.0, 0.0), (2.0, 1.0), (1.0, np.inf))
    ),
    traits=JUMPS,
)
copysign: Primitive = elementwise(
    "copysign",
    np.copysign,
    partials=(lambda _, x, y: bind1(sign, x) * bind2(copysign, 1.0, y), None),
    samples=combined(reals(-3, 3, 2), edges((0.0, -1.0), (-0.0, 1.0), (1.0, -0.0), (np.inf, -1.0))),
)
nextafter = elementwise(
    "nextafter",
    np.nextafter,
    partials=(SAME, None),
    samples=combined(reals(-3, 3, 2), edges((1.0, 1.0), (0.0, np.inf))),
)
heaviside = elementwise(  # a step in the first argument; the second is its value at the step
    "heaviside",
    np.heaviside,
    partials=(None, lambda _, x, y: x == 0),
    selects=True,
    samples=combined(reals(-3, 3, 2), edges((0.0, 0.5), (-0.0, 2.0), (np.nan, 1.0))),
)


def _scalings() -> Iterator[Sample]:
    x = np.array([0.75, -1.5, 3.0])
    for first in (x, x[::-2], 0.75, np.asarray(-1.5), np.zeros((0, 1))):
        yield Sample((first, np.array([2]) if np.ndim(first) else 2))
    yield Sample((x, np.array([[1], [-2]])))


ldexp: Primitive = elementwise(
    "ldexp",
    np.ldexp,
    # Factors get numbers of the result's precision; this one is an integer again.
    partials=(lambda _, _x, n: ldexp(1.0, cast(n, dtype=np.dtype(np.intp))), None),
    samples=_scalings,
)


binary_exponent = elementwise(
    "binary_exponent",
    intrinsics.binary_exponent,
    partials=None,
    samples=_SAMPLES,
    owns=True,
)


def _fraction(m: Algebra, x: Value) -> Value:
    x = _floating(m, x)
    return m.copysign(m.where(m.isinf(x), 0, x - m.trunc(x)), x)


def _floating(m: Algebra, x: Value) -> Value:
    """Convert integers to the smallest floating dtype that holds them, as NumPy's functions do."""
    dtype = np.result_type(dtype_of(x), np.float16)
    return x if dtype == dtype_of(x) else m.astype(x, dtype)


fraction = elementwise(
    "fraction",
    lambda x: np.modf(x)[0],  # a fifth of the time of the formula
    formula=_fraction,
    partials=(SAME,),
    samples=_SAMPLES,
    traits=JUMPS,
    owns=True,
)
integral = elementwise(
    "integral", formula=lambda m, x: m.trunc(_floating(m, x)), partials=None, samples=_SAMPLES
)
