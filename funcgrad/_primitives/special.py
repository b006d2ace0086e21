"""The error function and the normal distribution: elementwise primitives of real arguments.

>>> erf(0.0)
np.float64(0.0)
>>> ndtri(0.975)
np.float64(1.959963984540054)

``ndtri``, ``exact_log`` and the ``portable`` functions use nothing but operations that IEEE 754
rounds in one way only (``+``, ``-``, ``*``, ``/``, square roots and powers of two), so random
numbers made with them are the same to the last bit on every machine; the ``log`` of the C library
or of NumPy's vector units is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from funcgrad._core import intrinsics
from funcgrad._core.primitive import Primitive, Sample
from funcgrad._core.specs import dtype_of
from funcgrad._core.structure.structures import OWNS, TRANSCENDENTAL, Algebra
from funcgrad._core.trace import Value, bind1
from funcgrad._primitives.elementwise import elementwise, reciprocal_of_positive
from funcgrad._primitives.kinks import POSITIVE, above, between
from funcgrad._primitives.selection import where
from funcgrad._primitives.transcendental import exp
from funcgrad.errors import DtypeError

Array = np.ndarray[Any, Any]

DOUBLE: Final = np.dtype(np.float64)
_SINGLE: Final = np.dtype(np.float32)


def clamp(x: Value, limit: float) -> Value:
    """``x`` between ``-limit`` and ``limit``, without a derivative outside; NaN stays.

    For derivatives that are constant outside: evaluated at the clamped argument they never meet an
    infinity, at any order.
    """
    return where(x > limit, limit, where(x < -limit, -limit, x))


def real_operand(m: Algebra, x: Value, operation: str) -> Value:
    """A value as a real floating-point one, in a formula; integers become float64.

    Raises
    ------
    DtypeError
        The value is complex.
    """
    dtype = dtype_of(x)
    if dtype.kind == "c":
        raise DtypeError(
            f"{operation}: not defined for {dtype}; it takes real arguments. Pass x.real or"
            " abs(x) if that is meant."
        )
    return x if dtype.kind == "f" else m.astype(x, DOUBLE)


def _in_double(name: str, function: Callable[..., Value]) -> Callable[..., Value]:
    """A formula that computes in float64, and returns the dtype of its argument."""

    def formula(m: Algebra, x: Value, **params: float) -> Value:
        x = real_operand(m, x, name)
        dtype = dtype_of(x)
        if dtype == DOUBLE:
            return function(m, x, **params)
        return m.astype(function(m, m.astype(x, DOUBLE), **params), dtype)

    return formula


def _reals(*edges: float, low: float, high: float) -> Callable[[], Iterator[Sample]]:
    """Scalars, 0-d, strided, empty; and the edges, where finite differences do not apply."""

    def samples() -> Iterator[Sample]:
        x = np.linspace(low, high, 24).reshape(4, 6)
        yield from map(Sample, [(x[0],), (x[::2, ::-3],), (x[:0],), (x[1, 1],), (float(x[2, 0]),)])
        yield Sample((np.array(edges),), smooth=False)

    return samples


_BELL_ENDS: Final = 40.0
"""From here on ``exp(-0.5 * x**2)`` underflows in float64."""


def _bell(m: Algebra, x: Value, sharpness: float) -> Value:
    # The square in two parts: the rounding error of a large one would be one of the exponential.
    x = m.minimum(m.maximum(x, -_BELL_ENDS), _BELL_ENDS)
    head = m.astype(m.astype(x, _SINGLE), DOUBLE)
    small = m.exp(-sharpness * (x - head) * (x + head))
    return m.exp(-sharpness * head * head) * small


def _bell_samples() -> Iterator[Sample]:
    for sharpness in (0.5, 1.0):
        for sample in _reals(-np.inf, -50, 30, np.inf, np.nan, low=-4, high=4)():
            yield Sample(sample.args, {"sharpness": sharpness}, sample.smooth)


bell: Primitive = elementwise(  # exp(-sharpness * x**2)
    "bell",
    formula=_in_double("bell", _bell),
    partials=(lambda y, x, sharpness: -2 * sharpness * clamp(x, _BELL_ENDS) * y,),
    samples=_bell_samples,
    traits=TRANSCENDENTAL,
)

erf: Primitive = elementwise(
    "erf",
    formula=_in_double("erf", lambda m, x: m.erf(x)),
    basic=True,
    partials=(lambda _, x: 2 / math.sqrt(math.pi) * bell(x, sharpness=1.0),),
    samples=_reals(-np.inf, -30, 0, 30, np.inf, np.nan, low=-3, high=3),
    traits=TRANSCENDENTAL,
)

erfc: Primitive = elementwise(
    "erfc",
    formula=_in_double("erfc", lambda m, x: m.erfc(x)),
    basic=True,
    partials=(lambda _, x: -2 / math.sqrt(math.pi) * bell(x, sharpness=1.0),),
    samples=_reals(-np.inf, -30, 0, 30, np.inf, np.nan, low=-3, high=3),
    traits=TRANSCENDENTAL,
)

# Through the complementary function, which keeps all digits of small probabilities.
ndtr_of: Final = _in_double("ndtr", lambda m, x: 0.5 * m.erfc(-x / math.sqrt(2)))
ndtr: Primitive = elementwise(
    "ndtr",
    formula=ndtr_of,
    partials=(lambda _, x: bell(x, sharpness=0.5) / math.sqrt(2 * math.pi),),
    samples=_reals(-np.inf, -50, 0, 50, np.inf, np.nan, low=-4, high=4),
    traits=TRANSCENDENTAL,
)


def _polynomial(x: Value, coefficients: tuple[float, ...]) -> Value:
    """Horner's scheme, from the constant coefficient on."""
    total = x * coefficients[-1]
    for coefficient in reversed(coefficients[1:-1]):
        total += coefficient
        total *= x
    total += coefficients[0]
    return total


def exact_log(m: Algebra, x: Value) -> Value:
    """The formula of the natural logarithm of positive float64 values, the same on every machine.

    With ``x = 2**e * m`` and ``m`` near 1, ``log(m) = 2 artanh((m - 1) / (m + 1))`` by its Taylor
    series. The relative error is below 4 units in the last place.

    >>> exact_log(intrinsics, np.array([1.0, 10.0]))
    array([0.        , 2.30258509])
    """
    mantissa, exponent = m.frexp(x)
    small = mantissa < math.sqrt(0.5)
    mantissa = m.where(small, 2 * mantissa, mantissa)
    s = (mantissa - 1) / (mantissa + 1)
    series = s * _polynomial(s * s, _ARTANH)
    scale = m.astype(exponent - small, DOUBLE)
    return scale * _LN2_HIGH + (2 * series + scale * _LN2_LOW)


# s * s < 0.0295, whose 12th power no longer counts.
_ARTANH: Final = tuple([1 / (2 * k + 1) for k in range(12)])
# log(2) in two parts; the first has 21 zero bits at its end, so that a multiple of it is exact.
_LN2_HIGH: Final = float.fromhex("0x1.62e42fee00000p-1")
_LN2_LOW: Final = float.fromhex("0x1.a39ef35793c76p-33")


def ndtri_of(m: Algebra, p: Value) -> Value:
    """Wichura, "The percentage points of the normal distribution", Appl. Statist. 37 (1988), AS241.

    Rational approximations on three intervals; the relative error is about 1e-16.
    """
    q = p - 0.5
    tail = _tail_of_ndtri(m, p, q, _distance)
    return m.where(m.absolute(q) <= 0.425, _centre_of_ndtri(q), tail)


def _centre_of_ndtri(q: Value) -> Value:
    return q * _ratio(0.180625 - q * q, _CENTRE)


def _tail_of_ndtri(
    m: Algebra, p: Value, q: Value, distance: Callable[[Algebra, Value], Value]
) -> Value:
    """How far out from the centre a small probability lies."""
    p = m.where(q < 0, p, 1 - p)
    inside = p > 0
    s = m.sqrt(-exact_log(m, m.where(inside, p, 0.5)))
    magnitude = m.where(inside, distance(m, s), m.where(m.equal(p, 0), np.inf, np.nan))
    return m.copysign(magnitude, q)


def _distance(m: Algebra, s: Value) -> Value:
    return m.where(s > 5, _ratio(s - 5, _FAR), _ratio(s - 1.6, _TAIL))


def _quick_distance(m: Algebra, s: Array) -> Value:
    return _distance(m, s) if s.max() > 5 else _ratio(s - 1.6, _TAIL)


def quick_ndtri(p: Array) -> Any:
    """Evaluate the formula of ``ndtri`` on an array, the tails only at the elements there."""
    q = p.ravel() - 0.5
    out: Array = _centre_of_ndtri(q)
    tail = np.flatnonzero(~(np.abs(q) <= 0.425))
    if tail.size:
        out[tail] = _tail_of_ndtri(intrinsics, p.ravel()[tail], q[tail], _quick_distance)
    return out.reshape(p.shape)[()]


def _ratio(x: Value, coefficients: tuple[tuple[float, ...], tuple[float, ...]]) -> Value:
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
    partial(_in_double("ndtri", lambda _, p: quick_ndtri(np.asarray(p))), intrinsics),
    formula=_in_double("ndtri", ndtri_of),
    partials=(lambda y, _p: math.sqrt(2 * math.pi) * exp(0.5 * y * y),),
    samples=_reals(-1, 0, 1e-300, 1, 2, np.nan, low=0.02, high=0.98),
    traits=TRANSCENDENTAL | OWNS,
    kinks=between(0.0, 1.0),
)


def _portable_log(m: Algebra, x: Value) -> Value:
    inside = (x > 0) & m.isfinite(x)
    edge = m.where(x < 0, np.nan, m.where(m.equal(x, 0), -np.inf, x))
    return m.where(inside, exact_log(m, m.where(inside, x, 1.0)), edge)


def _portable_log1p(m: Algebra, x: Value) -> Value:
    """The logarithm of the rounded sum, corrected by the rounding error."""
    total = 1 + x
    inside = (total > 0) & m.isfinite(x)
    safe = m.where(inside, total, 1.0)
    lost = m.where(inside, x - (safe - 1), 0.0)
    result = _portable_log(m, safe) + m.divide(lost, safe)
    return m.where(inside, result, _portable_log(m, total))


def _portable_exp(m: Algebra, x: Value) -> Value:
    """``2**k * exp(r)``, with the Taylor polynomial of a number r below log(2) / 2."""
    inside = m.absolute(x) < 746
    t = m.where(inside, x, 0.0)
    k = m.rint(t * (1 / math.log(2)))
    remainder = (t - k * _LN2_HIGH) - k * _LN2_LOW
    result = m.ldexp(_polynomial(remainder, _FACTORIALS), m.astype(k, np.dtype(np.int32)))
    return m.where(inside, result, m.where(x > 0, np.inf, m.where(x < 0, 0.0, x)))


_FACTORIALS: Final = tuple([1 / math.factorial(k) for k in range(15)])

portable_log: Primitive = elementwise(
    "portable_log",
    formula=_in_double("portable_log", _portable_log),
    partials=(lambda _, x: bind1(reciprocal_of_positive, x),),
    samples=_reals(-1, 0, 5e-324, 1e300, np.inf, np.nan, low=0.1, high=4),
    traits=TRANSCENDENTAL | OWNS,
    kinks=POSITIVE,
)
portable_log1p: Primitive = elementwise(
    "portable_log1p",
    formula=_in_double("portable_log1p", _portable_log1p),
    partials=(lambda _, x: bind1(reciprocal_of_positive, 1 + x),),
    samples=_reals(-2, -1, -1e-300, 1e300, np.inf, np.nan, low=-0.9, high=4),
    traits=TRANSCENDENTAL | OWNS,
    kinks=above(-1.0),
)
portable_exp: Primitive = elementwise(
    "portable_exp",
    formula=_in_double("portable_exp", _portable_exp),
    partials=(lambda y, _: y,),
    samples=_reals(-np.inf, -745.1, -708.5, 710, np.inf, np.nan, low=-3, high=3),
    traits=TRANSCENDENTAL | OWNS,
)
