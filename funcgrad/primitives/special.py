"""The error function and the normal distribution: elementwise primitives of real arguments.

>>> erf(0.0)
np.float64(0.0)
>>> ndtri(0.975)
np.float64(1.959963984540054)

``ndtri`` and ``exact_log`` use nothing but operations that IEEE 754 rounds in one way only (``+``,
``-``, ``*``, ``/``, square roots and powers of two), so random numbers made with them are the same
to the last bit on every machine; the ``log`` of the C library or of NumPy's vector units is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from funcgrad.errors import DtypeError
from funcgrad.primitive import Primitive, Sample
from funcgrad.primitives.elementwise import elementwise
from funcgrad.primitives.selection import where
from funcgrad.primitives.transcendental import exp
from funcgrad.structure import TRANSCENDENTAL
from funcgrad.trace import Raw, Value

__all__ = ["bell", "clamp", "erf", "exact_log", "ndtr", "ndtri", "real_floating"]

Array = np.ndarray[Any, Any]


def clamp(x: Value, limit: float) -> Value:
    """``x`` between ``-limit`` and ``limit``, without a derivative outside; NaN stays.

    For derivatives that are constant outside: evaluated at the clamped argument they never meet an
    infinity, at any order.
    """
    return where(x > limit, limit, where(x < -limit, -limit, x))


def real_floating(x: Raw, operation: str) -> Array:
    """A raw value as a real floating-point array; integers become float64.

    Raises
    ------
    DtypeError
        The value is complex.
    """
    array = np.asarray(x)
    if array.dtype.kind == "c":
        raise DtypeError(
            f"{operation}: not defined for {array.dtype}; it takes real arguments. Pass x.real or"
            " abs(x) if that is meant."
        )
    return array if array.dtype.kind == "f" else array.astype(np.float64)


def _in_double(name: str, function: Callable[..., Array]) -> Callable[..., Any]:
    """Evaluate in float64, and return what came in."""

    def evaluate(x: Raw, **params: float) -> Raw:
        array = real_floating(x, name)
        return function(array.astype(np.float64), **params).astype(array.dtype)[()]

    return evaluate


def _reals(*edges: float, low: float, high: float) -> Callable[[], Iterator[Sample]]:
    """Scalars, 0-d, strided, empty; and the edges, where finite differences do not apply."""

    def samples() -> Iterator[Sample]:
        x = np.linspace(low, high, 24).reshape(4, 6)
        yield from map(Sample, [(x[0],), (x[::2, ::-3],), (x[:0],), (x[1, 1],), (float(x[2, 0]),)])
        yield Sample((np.array(edges),), smooth=False)

    return samples


_BELL_ENDS: Final = 40.0
"""From here on nothing is left of ``exp(-0.5 * x**2)`` in float64."""


def _bell(x: Array, sharpness: float) -> Array:
    # The square in two parts: the rounding error of a large one would be one of the exponential.
    x = np.clip(x, -_BELL_ENDS, _BELL_ENDS)
    head = x.astype(np.float32).astype(np.float64)
    small: Array = np.exp(-sharpness * (x - head) * (x + head))
    return np.exp(-sharpness * head * head) * small


def _bell_samples() -> Iterator[Sample]:
    for sharpness in (0.5, 1.0):
        for sample in _reals(-np.inf, -50, 30, np.inf, np.nan, low=-4, high=4)():
            yield Sample(sample.args, {"sharpness": sharpness}, sample.smooth)


bell: Primitive = elementwise(  # exp(-sharpness * x**2)
    "bell",
    _in_double("bell", _bell),
    partials=(lambda y, x, sharpness: -2 * sharpness * clamp(x, _BELL_ENDS) * y,),
    samples=_bell_samples,
    traits=TRANSCENDENTAL,
)

# From the C library by way of Python: exact to the last digit or two, some 100 ns an element.
_erf: Final = np.frompyfunc(math.erf, 1, 1)
_erfc: Final = np.frompyfunc(math.erfc, 1, 1)

erf: Primitive = elementwise(
    "erf",
    _in_double("erf", lambda x: np.asarray(_erf(x), np.float64)),
    partials=(lambda _, x: 2 / math.sqrt(math.pi) * bell(x, sharpness=1.0),),
    samples=_reals(-np.inf, -30, 0, 30, np.inf, np.nan, low=-3, high=3),
    traits=TRANSCENDENTAL,
)

# Through the complementary function, which keeps all digits of small probabilities.
ndtr: Primitive = elementwise(
    "ndtr",
    _in_double("ndtr", lambda x: 0.5 * np.asarray(_erfc(-x / math.sqrt(2)), np.float64)),
    partials=(lambda _, x: bell(x, sharpness=0.5) / math.sqrt(2 * math.pi),),
    samples=_reals(-np.inf, -50, 0, 50, np.inf, np.nan, low=-4, high=4),
    traits=TRANSCENDENTAL,
)


def _polynomial(x: Array, coefficients: tuple[float, ...]) -> Array:
    """Horner's scheme, from the constant coefficient on."""
    total: Array = x * coefficients[-1]
    for coefficient in reversed(coefficients[1:-1]):
        total += coefficient
        total *= x
    total += coefficients[0]
    return total


def exact_log(x: Array) -> Array:
    """The natural logarithm of positive float64 numbers, the same on every machine.

    With ``x = 2**e * m`` and ``m`` near 1, ``log(m) = 2 artanh((m - 1) / (m + 1))`` by its Taylor
    series. The relative error is below 4 units in the last place.

    >>> exact_log(np.array([1.0, 10.0]))
    array([0.        , 2.30258509])
    """
    mantissa, exponent = np.frexp(x)
    small = mantissa < math.sqrt(0.5)
    mantissa = np.where(small, 2 * mantissa, mantissa)
    s = (mantissa - 1) / (mantissa + 1)
    series = s * _polynomial(s * s, _ARTANH)
    scale: Array = (exponent - small).astype(np.float64)
    logarithm: Array = scale * _LN2_HIGH + (2 * series + scale * _LN2_LOW)
    return logarithm


# s * s < 0.0295, whose 12th power no longer counts.
_ARTANH: Final = tuple([1 / (2 * k + 1) for k in range(12)])
# log(2) in two parts; the first has 21 zero bits at its end, so that a multiple of it is exact.
_LN2_HIGH: Final = float.fromhex("0x1.62e42fee00000p-1")
_LN2_LOW: Final = float.fromhex("0x1.a39ef35793c76p-33")


def _ndtri(p: Array) -> Array:
    """Wichura, "The percentage points of the normal distribution", Appl. Statist. 37 (1988), AS241.

    Rational approximations on three intervals; the relative error is about 1e-16.
    """
    q = p - 0.5
    out: Array = q * _ratio(0.180625 - q * q, _CENTRE)
    tail = np.flatnonzero(~(np.abs(q) <= 0.425))
    if tail.size:
        out[tail] = np.copysign(_tail_of_ndtri(np.where(q < 0, p, 1 - p)[tail]), q[tail])
    return out


def _tail_of_ndtri(p: Array) -> Array:
    """How far out from the centre a small probability lies."""
    inside = p > 0
    s = np.sqrt(-exact_log(np.where(inside, p, 0.5)))
    distance = _ratio(s - 1.6, _TAIL)
    if s.max() > 5:
        distance = np.where(s > 5, _ratio(s - 5, _FAR), distance)
    return np.where(inside, distance, np.where(p == 0, np.inf, np.nan))


def _ratio(x: Array, coefficients: tuple[tuple[float, ...], tuple[float, ...]]) -> Array:
    return _polynomial(x, coefficients[0]) / _polynomial(x, coefficients[1])


# fmt: off
_CENTRE: Final = (
    (3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125,
     45921.953931549871457, 67265.770927008700853, 33430.575583588128105, 2509.0809287301226727),
    (1.0, 42.313330701600911252, 687.18700749205790830, 5394.1960214247511077,
     21213.794301586595867, 39307.895800092710610, 28729.085735721942674, 5226.4952788528545610),
)
_TAIL: Final = (
    (1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550,
     3.64784832476320460504, 1.27045825245236838258, 0.241780725177450611770,
     0.0227238449892691845833, 7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187, 1.67638483018380384940, 0.689767334985100004550,
     0.148103976427480074590, 0.0151986665636164571966, 5.47593808499534494600e-4,
     1.05075007164441684324e-9),
)
_FAR: Final = (
    (6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580,
     0.296560571828504891230, 0.0265321895265761230930, 1.24266094738807843860e-3,
     2.71155556874348757815e-5, 2.01033439929228813265e-7),
    (1.0, 0.599832206555887937690, 0.136929880922735805310, 0.0148753612908506148525,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
     2.04426310338993978564e-15),
)
# fmt: on

ndtri: Primitive = elementwise(
    "ndtri",
    _in_double("ndtri", lambda p: _ndtri(p.ravel()).reshape(p.shape)),
    partials=(lambda y, _p: math.sqrt(2 * math.pi) * exp(0.5 * y * y),),
    samples=_reals(-1, 0, 1e-300, 1, 2, np.nan, low=0.02, high=0.98),
    traits=TRANSCENDENTAL,
)
