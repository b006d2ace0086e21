"""First and second derivatives keep their digits over the whole range of their arguments.

Every differentiable elementwise operation of one and of two real arguments has a twin in mpmath,
which computes with hundreds of digits; its derivatives are differences there. The operations are
discovered: one without a twin fails. Special functions have theirs in ``tests/scipy/special``.
"""

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import mpmath
import numpy as np
import pytest
from mpmath import mp

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.primitive import Primitive
from funcgrad._primitives.elementwise_rules import batch_elementwise
from funcgrad._primitives.special import ndtri
from funcgrad.tensor.tensor import apply, apply1, apply2
from tests.conformance import every_case, every_primitive, special_functions
from tests.together import together

pytestmark = pytest.mark.slow

Twin = Callable[..., Any]
Point = tuple[float, ...]

# Enough for second differences by 1e-40 of functions that hardly change, at the ends of the range.
DIGITS = {1: 1100, 2: 760}

TOLERANCE = 1e-14
SMALLEST, GREATEST = 1e-290, 1e290
"""Beyond these float64 has fewer digits, or none; a result has to lie beyond them as well."""

# Where the exponent of something is computed, its rounding counts as often as the exponent's size:
# x**(y - 1) and e**(x - y), each some 700 at the ends of the range.
OF_EXPONENTS = {"power": 1e-13, "power_derivative": 1e-13, "logaddexp": 1e-13, "logaddexp2": 1e-13}
# Through its own value y, whose rounding counts y**2 times in e**(y**2 / 2).
OF_EXPONENTS |= {"ndtri": 1e-12}


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


# ---------------------------------------------------------------------------------- twins


def _log1p_exp(x: Any) -> Any:
    return mp.log(1 + mp.exp(x))


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


def _sinc(x: Any) -> Any:
    return mp.sin(mp.pi * x) / (mp.pi * x)


def _sinc_derivative(x: Any, order: int) -> Any:
    with mp.workdps(3 * mp.dps):  # of terms as large as u**-4 there is little left
        return _sinc_terms(mp.pi * x, order)


def _sinc_terms(u: Any, order: int) -> Any:
    if order == 1:
        return mp.pi * (mp.cos(u) / u - mp.sin(u) / u**2)
    if order == 2:
        return mp.pi**2 * (-mp.sin(u) / u - 2 * mp.cos(u) / u**2 + 2 * mp.sin(u) / u**3)
    return mp.pi**3 * (
        -mp.cos(u) / u + 3 * mp.sin(u) / u**2 + 6 * mp.cos(u) / u**3 - 6 * mp.sin(u) / u**4
    )


def _normal(x: Any) -> Any:
    return mp.erfc(-x / mp.sqrt(2)) / 2


def _quantile_derivatives(p: Any) -> list[Any]:
    """From the inverse, y, of the normal distribution: a second difference would cost a minute."""
    with mp.workdps(50):
        y = mp.findroot(lambda y: mp.log(_normal(y) / p), float(ndtri(np.float64(p))))
        slope = mp.sqrt(2 * mp.pi) * mp.exp(y * y / 2)
        return [slope, y * slope**2]


def _gelu_tanh(x: Any) -> Any:
    return x * _sigmoid(2 * mp.sqrt(2 / mp.pi) * (x + mpmath.mpf(0.044715) * x**3))


def _cbrt(x: Any) -> Any:
    return mp.sign(x) * mp.cbrt(abs(x))


def _power_derivative(x: Any, y: Any, orders: tuple[int, int]) -> Any:
    """Of order 1 at most in each."""
    factor, rest = (y, y - 1) if orders[0] else (1, y)
    slope = 1 if orders[0] else 0
    return x**rest * ((factor * mp.log(x) + slope) if orders[1] else factor)


def _remainder(x: Any, y: Any) -> Any:
    return x - y * mp.floor(x / y)


def _fmod(x: Any, y: Any) -> Any:
    quotient = x / y
    return x - y * (mp.floor(quotient) if quotient > 0 else mp.ceil(quotient))


ONE: dict[str, Twin] = {
    "absolute": abs,
    "arccos": mp.acos,
    "arccosh": mp.acosh,
    "arccosh_slope": lambda x: 1 / (mp.sqrt(x - 1) * mp.sqrt(x + 1)),
    "arcsin": mp.asin,
    "arcsinh": mp.asinh,
    "arctan": mp.atan,
    "arctan_slope": lambda x: 1 / (1 + x * x),
    "arctanh": mp.atanh,
    "bell": lambda x, sharpness: mp.exp(-mpmath.mpf(sharpness) * x * x),
    "cbrt": _cbrt,
    "conj": lambda x: x,
    "constant_power": lambda x, exponent: mp.power(x, mpmath.mpf(exponent)),
    "cos": mp.cos,
    "cosh": mp.cosh,
    "deg2rad": lambda x: x * mp.pi / 180,
    "erf": mp.erf,
    "erfc": mp.erfc,
    "exp": mp.exp,
    "exp2": lambda x: mp.power(2, x),
    "expm1": lambda x: mp.exp(x) - 1,
    "fabs": abs,
    "fraction": lambda x: x - mp.sign(x) * mp.floor(abs(x)),
    "gelu": lambda x: x * _normal(x),
    "gelu_tanh": _gelu_tanh,
    "imag": lambda x: 0 * x,
    "log": mp.log,
    "log10": mp.log10,
    "log1p": lambda x: mp.log(1 + x),
    "log2": lambda x: mp.log(x) / mp.log(2),
    "nan_to_num": lambda x, nan, posinf, neginf: x,
    "ndtr": _normal,
    "negative": lambda x: -x,
    "one_minus_square": lambda x: 1 - x * x,
    "portable_exp": mp.exp,
    "portable_log": mp.log,
    "portable_log1p": lambda x: mp.log(1 + x),
    "positive": lambda x: x,
    "rad2deg": lambda x: x * 180 / mp.pi,
    "real": lambda x: x,
    "reciprocal": lambda x: 1 / x,
    "reciprocal_of_positive": lambda x: 1 / x,
    "relu": lambda x: max(x, 0 * x),
    "sech_squared": lambda x: mp.sech(x) ** 2,
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
    "sin": mp.sin,
    "sinc": _sinc,
    "sinc_derivative": _sinc_derivative,
    "sinh": mp.sinh,
    "softplus": _log1p_exp,
    "sqrt": mp.sqrt,
    "square": lambda x: x * x,
    "tan": mp.tan,
    "tanh": mp.tanh,
}
IN_CLOSED_FORM: dict[str, Callable[[Any], list[Any]]] = {"ndtri": _quantile_derivatives}
TWO: dict[str, Twin] = {
    "add": lambda x, y: x + y,
    "arctan2": mp.atan2,
    "copysign": lambda x, y: abs(x) if y > 0 else -abs(x),
    "divide": lambda x, y: x / y,
    "fmax": max,
    "fmin": min,
    "fmod": _fmod,
    "hypot": lambda x, y: mp.sqrt(x * x + y * y),
    "logaddexp": lambda x, y: mp.log(mp.exp(x) + mp.exp(y)),
    "logaddexp2": lambda x, y: mp.log(mp.power(2, x) + mp.power(2, y)) / mp.log(2),
    "maximum": max,
    "minimum": min,
    "multiply": lambda x, y: x * y,
    "nextafter": lambda x, y: x,
    "power": mp.power,
    "power_derivative": _power_derivative,
    "ratio_to_hypot": lambda x, y: x / mp.sqrt(x * x + y * y),
    "ratio_to_square_of_hypot": lambda x, y: x / (x * x + y * y),
    "remainder": _remainder,
    "shift": lambda x, y: x - y,
    "subtract": lambda x, y: x - y,
}

# Where to stop: beyond, a float64 is no point of a period any more, or an integer, where they jump.
UP_TO = dict.fromkeys(["cos", "sin", "sinc", "sinc_derivative", "tan"], 1e16) | {"fraction": 1e4}
JUMPING = frozenset({"fmod", "remainder"})

# Derivatives themselves: the second of theirs are of third and higher order.
OF_FIRST_ORDER = frozenset(
    {"bell", "power_derivative", "ratio_to_square_of_hypot", "sinc_derivative"}
)


# ---------------------------------------------------------------------------------- points

_DECADES = (-300, -150, -100, -30, -12, -8, -5, -3, -2)
_NEAR_ONE = (1 - 1e-8, 1 - 2**-53, 1 + 2**-52, 1 + 1e-12, 1 + 1e-8, 1.001)
_COMMON = (0.1, 0.3, 0.5, 0.7, 0.9, 0.999, 1.3, 2.1, 3.7, 5.3, 10.3, 20.1, 30.7, 37.2, 101.7, 351.1)
_LARGE = (700.3, *[1.2345 * 10.0**k for k in (3, 5, 8, 12, 15, 30, 100, 150, 200, 300)])
LINE = (*[1.2345 * 10.0**k for k in _DECADES], *_NEAR_ONE, *_COMMON, *_LARGE)
PLANE = (1.2e-150, 1.2e-16, 1.2e-8, 0.01, 0.5, 0.999, 2.1, 30.7, 301.3, 1.23e5, 1.2e8, 1.2e150)
CLOSE = ((1 + 1e-9, 1.0), (1e8, 1e8 * (1 + 1e-12)), (700.1, 700.3), (-1.0, 1 + 1e-14))


def points(name: str, arity: int) -> list[Point]:
    """Log-spaced magnitudes of both signs, and what is hard."""
    if arity == 1:
        signed = [(sign * x,) for x in LINE for sign in (1, -1)]
        return [p for p in signed if abs(p[0]) < UP_TO.get(name, np.inf)]
    signs = list(product((1, -1), repeat=2))
    pairs = [
        (s * x, t * 1.0731 * y)
        for i, x in enumerate(PLANE)
        for j, y in enumerate(PLANE)
        for s, t in (signs if (i + j) % 3 == 0 else signs[(i + j) % 4 :][:1])
    ]
    return [*CLOSE, *[p for p in pairs if name not in JUMPING or abs(p[0] / p[1]) < 1e15]]


def exact(twin: Twin, point: Point) -> list[Any] | None:
    """First and second derivatives by differences with many digits; None outside the domain."""
    x = [mpmath.mpf(coordinate) for coordinate in point]
    h = [abs(coordinate) * mpmath.mpf(10) ** -40 for coordinate in x]

    def at(*steps: int) -> Any:
        return twin(*[a + k * b for a, b, k in zip(x, h, steps, strict=True)])

    try:
        found = _of_one(at, h[0]) if len(x) == 1 else _of_two(at, *h)
    except (ValueError, ZeroDivisionError, OverflowError):
        return None
    return None if any(isinstance(each, mpmath.mpc) for each in found) else found


def _of_one(at: Callable[..., Any], h: Any) -> list[Any]:
    behind, here, ahead = at(-1), at(0), at(1)
    return [(ahead - behind) / (2 * h), (behind - 2 * here + ahead) / h**2]


def _of_two(at: Callable[..., Any], h: Any, k: Any) -> list[Any]:
    here, east, west, north, south = at(0, 0), at(1, 0), at(-1, 0), at(0, 1), at(0, -1)
    return [
        (east - west) / (2 * h),
        (north - south) / (2 * k),
        (east - 2 * here + west) / h**2,
        (at(1, 1) - at(1, -1) - at(-1, 1) + at(-1, -1)) / (4 * h * k),
        (north - 2 * here + south) / k**2,
    ]


# ---------------------------------------------------------------------------------- subjects


def subjects() -> list[tuple[Primitive, dict[str, Any], int]]:
    """The operations of one or two real arguments, with all parameters they are tried at."""
    found: dict[str, tuple[Primitive, dict[str, Any], int]] = {}
    special = special_functions()
    for case in every_case([each for each in every_primitive() if each not in special]):
        reals = all(np.asarray(x).dtype == np.float64 for x in (*case.args, case.value()))
        selects = case.primitive.form == "selecting" and 0 not in case.differentiable
        if case.primitive.batch is not batch_elementwise or not case.differentiable or not reals:
            continue
        if len(case.args) <= 2 and not selects:  # of which the first argument chooses
            params = dict(case.sample.params)
            found[f"{case.primitive.name}{params or ''}"] = (case.primitive, params, len(case.args))
    return list(found.values())


SUBJECTS = subjects()


def names(part: Any) -> str | None:
    return part.name if isinstance(part, Primitive) else str(part or "")


def test_every_operation_has_a_twin() -> None:
    assert {p.name for p, _, arity in SUBJECTS if arity == 1} == set(ONE) | set(IN_CLOSED_FORM)
    assert {p.name for p, _, arity in SUBJECTS if arity == 2} == set(TWO)


def derivatives(f: Callable[..., Any], arity: int) -> list[Callable[..., Any]]:
    """In the order of ``exact``, elementwise."""

    def along(f: Callable[..., Any], k: int) -> Callable[..., Any]:
        return fg.grad(lambda *x: fnp.sum(f(*x)), k)

    if arity == 1:
        return [along(f, 0), along(along(f, 0), 0)]
    first, second = along(f, 0), along(f, 1)
    return [first, second, along(first, 0), along(first, 1), along(second, 1)]


def wrong(found: float, expected: Any, tolerance: float) -> bool:
    """Whether a number is off by more than a relative tolerance."""
    if abs(expected) < SMALLEST:
        return not abs(found) < 10 * SMALLEST
    if abs(expected) > GREATEST:
        return not abs(found) > GREATEST / 10
    return not (
        np.isfinite(found) and abs(mpmath.mpf(found) - expected) <= tolerance * abs(expected)
    )


def failures(
    f: Callable[..., Any],
    exactly: Sequence[tuple[Point, list[Any]]],
    tolerance: float,
    count: int | None,
) -> list[Any]:
    """The points, with what was found and expected there."""
    columns = [np.array(column) for column in zip(*[point for point, _ in exactly], strict=True)]
    return [
        (point, order, found, mpmath.nstr(expected[order], 20))
        for order, derivative in enumerate(derivatives(f, len(columns))[:count])
        for (point, expected), found in zip(
            exactly, np.asarray(derivative(*columns)).tolist(), strict=True
        )
        if wrong(found, expected[order], tolerance)
    ]


@together(("primitive", "params", "arity"), SUBJECTS, ids=names, pieces=2)
def test_derivatives_keep_their_digits(
    primitive: Primitive, params: dict[str, Any], arity: int
) -> None:
    name = primitive.name
    twin = ONE.get(name) if arity == 1 else TWO[name]

    def f(*x: Any) -> Any:
        if params:
            return apply(primitive, *x, **params)
        return apply1(primitive, *x) if arity == 1 else apply2(primitive, *x)

    def expected(point: Point) -> list[Any] | None:
        if twin is None:
            return IN_CLOSED_FORM[name](*point)
        return exact(lambda *x: twin(*x, **params), point)

    with mp.workdps(DIGITS[arity]):
        exactly = [
            (point, found)
            for point in points(name, arity)
            if np.isfinite(primitive.evaluate(*[np.float64(x) for x in point], **params))
            and (found := expected(point)) is not None
        ]
        assert len(exactly) > 15
        count = arity if name in OF_FIRST_ORDER else None
        assert failures(f, exactly, OF_EXPONENTS.get(name, TOLERANCE), count) == []


def test_the_sweep_sees_lost_digits() -> None:
    def careless(x: Any) -> Any:
        y = fnp.tanh(x)
        return (1 + y) * (1 - y)

    with mp.workdps(DIGITS[1]):
        exactly = [
            (point, [mp.sech(point[0]) ** 2, 0])
            for point in points("tanh", 1)
            if abs(point[0]) < 300
        ]
        by_hand = [
            wrong(float(careless(point[0])), expected[0], TOLERANCE) for point, expected in exactly
        ]
    assert any(by_hand)
    assert not all(by_hand)
