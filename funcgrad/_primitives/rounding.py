"""Rounding, and the parts of floating-point numbers.

Functions that are constant between jumps are discrete; ``fmod`` and ``copysign`` follow their first
argument between jumps.

>>> floor(1.7)
np.float64(1.0)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from funcgrad._core import intrinsics
from funcgrad._core.primitive import SAME, Kinks, Primitive, Sample
from funcgrad._core.specs import dtype_of
from funcgrad._core.structure.structures import JUMPS, OWNS, Algebra
from funcgrad._core.trace import Value, bind1, bind2
from funcgrad._primitives.elementwise import combined, complexes, edges, elementwise, reals, sign
from funcgrad._primitives.kinks import (
    AT_ARGUMENTS,
    CUT_OFF,
    WHOLE_NUMBERS,
    from_cut_off,
    from_whole,
    is_complex,
)
from funcgrad._primitives.precision import floating, floating_pair
from funcgrad._primitives.structural import cast

_SAMPLES = combined(reals(-3, 3), edges(0.5, -0.5, 1.5, -0.0, 2.0, np.inf, np.nan))

floor: Primitive = elementwise(
    "floor", np.floor, partials=None, samples=_SAMPLES, kinks=WHOLE_NUMBERS
)
ceil: Primitive = elementwise(
    "ceil",
    np.ceil,
    formula=lambda m, x: -m.floor(-x) if dtype_of(x).kind == "f" else m.floor(x),
    partials=None,
    samples=_SAMPLES,
    kinks=WHOLE_NUMBERS,
)
trunc: Primitive = elementwise("trunc", np.trunc, partials=None, samples=_SAMPLES, kinks=CUT_OFF)


def _from_halves(x: Value, scale: float) -> tuple[Value, ...]:
    """The distance of values from the midpoints between multiples of ``1 / scale``."""
    parts = (x.real, x.imag) if is_complex(x) else (x,)
    return tuple([from_whole(component * scale + 0.5) / scale for component in parts])


rint: Primitive = elementwise(
    "rint",
    np.rint,
    partials=None,
    samples=combined(_SAMPLES, complexes()),
    kinks=Kinks(lambda x: _from_halves(x, 1.0)),
)


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


round_to: Primitive = (
    elementwise(  # some versions of NumPy return integers themselves: no memory of its own
        "round",
        np.round,
        formula=_round,
        partials=None,
        samples=_round_samples,
        operator="round",
        kinks=Kinks(lambda x, decimals: _from_halves(x, 10.0**decimals)),
    )
)


def _from_powers_of_two(x: Value) -> Value:
    exponent = binary_exponent(x)
    share = ldexp(abs(x), -exponent)  # from 1/2 to 1
    below, above = share - 0.5, 1 - share
    return ldexp((below + above - abs(below - above)) * share, exponent)


_POWERS_OF_TWO: Final = Kinks(_from_powers_of_two)


def _spacing(m: Algebra, x: Value) -> Value:
    """The distance to the next number away from 0; in half precision to the next greater one."""
    x = floating(m, x) + 0.0  # -0.0 is 0
    if dtype_of(x).char == "e":
        return m.where(m.isinf(x), np.nan, m.nextafter(x, np.inf) - x)
    return m.nextafter(x, m.copysign(np.inf, x)) - x


spacing: Primitive = elementwise(
    "spacing",
    np.spacing,
    formula=_spacing,
    partials=None,
    samples=_SAMPLES,
    kinks=Kinks(lambda x: _from_powers_of_two(x) + (x == 0)),  # at 0 it is next to nothing
)

# Integers.


def _integers() -> Iterator[Sample]:
    x = np.array([12, 18, 0, -6])
    for first in (x, x.astype(np.int16), x[:, None], 8, np.asarray(6), np.zeros((0, 4), np.uint8)):
        yield Sample((first, np.array([8, 27, 5, 4])[::-1]))
    yield Sample((np.asarray(12), 18))


gcd: Primitive = elementwise("gcd", np.gcd, partials=None, samples=_integers)


def _lcm(m: Algebra, x: Value, y: Value) -> Value:
    divisor = m.gcd(x, y)
    # In the result's dtype, since a narrower one may have no absolute value of its least number.
    x, y = x + (divisor - divisor), y + (divisor - divisor)
    multiple = m.absolute(x) // m.where(divisor == 0, 1, divisor) * m.absolute(y)
    return m.where(divisor == 0, 0, multiple)


lcm: Primitive = elementwise("lcm", np.lcm, formula=_lcm, partials=None, samples=_integers)

# Floating-point numbers.


def _quotient(out: Value, x: Value, y: Value) -> Value:
    """How often ``y`` was taken from ``x``: close to an integer, which rounding makes exact."""
    return -bind1(rint, (x - out) / y)


fmod: Primitive = elementwise(
    "fmod",
    np.fmod,
    partials=(SAME, _quotient),
    samples=combined(
        reals(0.5, 3, 2), reals(-3, -0.5, 2), edges((1.0, 0.0), (2.0, 1.0), (1.0, np.inf))
    ),
    traits=JUMPS,
    kinks=Kinks(lambda x, y: (from_cut_off(x / y) * y, y)),
)
# Division with remainder, of the sign of the divisor.


def _leans(x: Value, y: Value) -> Value:
    """A mask where the remainder of x has the opposite sign of y."""
    return (x != 0) & ((x < 0) != (y < 0))


def _floor_divide(m: Algebra, x: Value, y: Value) -> Value:
    left = m.fmod(x, y)
    dtype = dtype_of(left)
    if dtype.kind != "f":
        return x // y
    if dtype.char == "e":  # half precision would round on the way
        wide = np.dtype(np.float32)
        return m.astype(_floor_divide(m, m.astype(x, wide), m.astype(y, wide)), dtype)
    exact, quotient = m.divide(x, y), m.divide(x - left, y)
    quotient = m.where(_leans(left, y), quotient - 1, quotient)
    whole = m.floor(quotient)
    whole = m.where(quotient - whole > 0.5, whole + 1, whole)
    return m.where(y == 0, exact, m.where(quotient == 0, m.copysign(quotient, exact), whole))


def _remainder(m: Algebra, x: Value, y: Value) -> Value:
    left = m.fmod(x, y)
    moved = m.where(_leans(left, y), left + y, left)
    if dtype_of(left).kind != "f":
        return moved
    return m.where(left == 0, m.copysign(left, y), moved)


floor_divide: Primitive = elementwise(
    "floor_divide",
    np.floor_divide,
    formula=_floor_divide,
    basic=True,
    operator="//",
    partials=None,
    samples=combined(reals(0.5, 3, 2), edges((1.0, 0.0), (2.0, 1.0), (-1.0, np.inf))),
    kinks=Kinks(lambda x, y: (from_whole(x / y) * y, y)),
)
remainder: Primitive = elementwise(
    "remainder",
    np.remainder,
    formula=_remainder,
    operator="%",
    partials=(SAME, lambda _, x, y: -bind2(floor_divide, x, y)),
    samples=combined(
        reals(0.5, 3, 2), reals(-3, -0.5, 2), edges((1.0, 0.0), (2.0, 1.0), (1.0, np.inf))
    ),
    traits=JUMPS,
    kinks=Kinks(lambda x, y: (from_whole(x / y) * y, y)),
)

# Parts.

copysign: Primitive = elementwise(
    "copysign",
    np.copysign,
    partials=(lambda _, x, y: bind1(sign, x) * bind2(copysign, 1.0, y), None),
    samples=combined(reals(-3, 3, 2), edges((0.0, -1.0), (-0.0, 1.0), (1.0, -0.0), (np.inf, -1.0))),
    kinks=AT_ARGUMENTS,
)
nextafter: Primitive = elementwise(
    "nextafter",
    np.nextafter,
    partials=(SAME, None),
    samples=combined(reals(-3, 3, 2), edges((1.0, 1.0), (0.0, np.inf))),
)


def _heaviside(m: Algebra, x: Value, y: Value) -> Value:
    x, y = floating_pair(m, x, y)
    return m.where(x == 0, y, m.where(x < 0, 0, m.where(x > 0, 1, x)))


heaviside: Primitive = (
    elementwise(  # a step in the first argument; the second is its value at the step
        "heaviside",
        np.heaviside,
        formula=_heaviside,
        partials=(None, lambda _, x, y: x == 0),
        selects=True,
        samples=combined(reals(-3, 3, 2), edges((0.0, 0.5), (-0.0, 2.0), (np.nan, 1.0))),
        kinks=Kinks(lambda x, y: x),
    )
)


def _scalings() -> Iterator[Sample]:
    x = np.array([0.75, -1.5, 3.0])
    for first in (x, x[::-2], 0.75, np.asarray(-1.5), np.zeros((0, 1))):
        yield Sample((first, np.array([2]) if np.ndim(first) else 2))
    yield Sample((x, np.array([[1], [-2]])))


ldexp: Primitive = elementwise(
    "ldexp",
    np.ldexp,
    # Factors get arguments in the result's precision; this one has to be an integer.
    partials=(lambda _, _x, n: ldexp(1.0, cast(n, dtype=np.dtype(np.intp))), None),
    samples=_scalings,
)


binary_exponent: Primitive = elementwise(
    "binary_exponent",
    intrinsics.binary_exponent,
    partials=None,
    samples=_SAMPLES,
    kinks=_POWERS_OF_TWO,
    traits=OWNS,
)


def _fraction(m: Algebra, x: Value) -> Value:
    x = floating(m, x)
    return m.copysign(m.where(m.isinf(x), 0, x - m.trunc(x)), x)


fraction: Primitive = elementwise(
    "fraction",
    lambda x: np.modf(x)[0],  # a fifth of the time of the formula
    formula=_fraction,
    partials=(SAME,),
    samples=_SAMPLES,
    traits=JUMPS | OWNS,
    kinks=CUT_OFF,
)
integral: Primitive = elementwise(
    "integral",
    formula=lambda m, x: m.trunc(floating(m, x)),
    partials=None,
    samples=_SAMPLES,
    kinks=CUT_OFF,
)
