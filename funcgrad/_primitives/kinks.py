"""Kinks that operations share: where their derivatives jump, and where their domains end.

A ``Kinks`` consists of functions of an operation's arguments and parameters, written in operators,
so that they are differentiated and batched like rules.

>>> TIES.zeros(3.0, 1.0), POSITIVE.domain(0.25), from_whole(2.75)
(2.0, 0.25, -0.25)

A real function with a domain has a branch cut for complex numbers: one record has both.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final

from funcgrad._core.primitive import Kinks
from funcgrad._core.specs import dtype_of, shape_of
from funcgrad._core.trace import RAW, Value


def is_complex(x: Value) -> bool:
    """Whether a value has complex numbers."""
    return dtype_of(x).kind == "c"


def greater_of(x: Value, y: Value) -> Value:
    """The greater of two real values, using only operators."""
    return (x + y + abs(x - y)) * 0.5


def from_whole(x: Value) -> Value:
    """The signed distance of real values from the nearest integer."""
    return (x + 0.5) % 1 - 0.5


def unless(mask: Value, x: Value) -> Value:
    """Values that are 1 where a mask holds, and ``x`` elsewhere."""
    one = dtype_of(x).type(1)  # so that booleans do not widen
    return x * (one - mask) + mask


def is_whole(x: Value) -> Value:
    """A mask of constants that are integers; false everywhere for traced values."""
    return x % 1 == 0 if type(x) in RAW and not is_complex(x) else False


def differences(x: Value) -> Value:
    """The differences of neighbours along the last axis."""
    return x[..., 1:] - x[..., :-1]


def pairs(x: Value) -> tuple[Value, ...]:
    """The differences of all pairs along the last axis."""
    size = shape_of(x)[-1]
    return tuple([x[..., k:] - x[..., :-k] for k in range(1, size)])


def from_cut_off(x: Value) -> Value:
    """The distance of real numbers from the jumps of truncation, except 0."""
    return from_whole(greater_of(abs(x), 0.5))


def negative_axis(x: Value, y: Value) -> Value:
    """The distance of points (x, y) of the plane from the half line of negative x."""
    right = greater_of(x, 0 * x)
    return (right * right + y * y) ** 0.5


def distance_to_cut(z: Value, end: float = 0.0) -> Value:
    """The distance of complex numbers from a branch cut along the real axis, up to its end."""
    return negative_axis(z.real - end, z.imag)


def to_cut(z: Value) -> Value:
    """The distance from the cut up to 0, for complex numbers only."""
    return distance_to_cut(z) if is_complex(z) else ()


def if_real(x: Value) -> Value:
    """The values themselves, for real numbers only."""
    return () if is_complex(x) else x


def _cut_below(end: float) -> Callable[..., Value]:
    def zeros(z: Value, **params: Hashable) -> Value:
        return distance_to_cut(z, end) if is_complex(z) else ()

    return zeros


def _of_reals(domain: Callable[[Value], Value]) -> Callable[..., Value]:
    def inside(x: Value, **params: Hashable) -> Value:
        return () if is_complex(x) else domain(x)

    return inside


def above(end: float) -> Kinks:
    """Make the kinks of a function with a value above a number, and a cut below it."""
    return Kinks(_cut_below(end), _of_reals(lambda x: x - end))


def below(end: float) -> Kinks:
    """Make the kinks of a function with a value below a number, and a cut above it."""

    def zeros(z: Value, **params: Hashable) -> Value:
        return distance_to_cut(-z, -end) if is_complex(z) else ()

    return Kinks(zeros, _of_reals(lambda x: end - x))


def between(low: float, high: float) -> Kinks:
    """Make the kinks of a function defined between two numbers, with cuts beyond them."""

    def zeros(z: Value, **params: Hashable) -> Value:
        return (distance_to_cut(z, low), distance_to_cut(-z, -high)) if is_complex(z) else ()

    return Kinks(zeros, _of_reals(lambda x: (x - low, high - x)))


def from_poles_of_gamma(x: Value) -> Value:
    """The distance from the integers up to 0; signed on one side for real values."""
    if not is_complex(x):
        return greater_of(x, from_whole(x))
    real = greater_of(x.real, from_whole(x.real))
    return (real * real + x.imag * x.imag) ** 0.5


def _along_imaginary_axis(z: Value) -> Value:
    if not is_complex(z):
        return ()
    return negative_axis(1 - z.imag, z.real), negative_axis(1 + z.imag, z.real)


def _ordered(x: Value, y: Value) -> Value:
    return x.real - y.real if is_complex(x) or is_complex(y) else x - y


AT_ZERO: Final = Kinks(lambda x, **_: x)
"""At 0, as for an absolute value or a pole."""

AT_ARGUMENTS: Final = Kinks(lambda *args: args)
"""Where any argument is 0, as for logical operations."""

TIES: Final = Kinks(lambda x, y: x - y)
"""Where two arguments are equal."""

ORDER: Final = Kinks(_ordered)
"""Where two arguments change their order; for complex numbers, real parts decide."""

POSITIVE: Final = above(0.0)
"""The end of a domain at 0."""

WHOLE_NUMBERS: Final = Kinks(from_whole)
"""Jumps at integers."""

CUT_OFF: Final = Kinks(lambda x, **_: from_cut_off(x))
"""Jumps at nonzero integers."""

AT_POLES_OF_GAMMA: Final = Kinks(from_poles_of_gamma)
"""Poles at 0, -1, -2 and so on."""

CUT_ALONG_IMAGINARY_AXIS: Final = Kinks(_along_imaginary_axis)
"""Branch cuts of complex numbers beyond i and -i, as for the arc tangent."""
