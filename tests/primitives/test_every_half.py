"""Every elementwise operation and its derivative at every number of half precision.

There are 65,536 of them. What an operation returns, and its derivative, are compared with the same
in float64, where the digits of derivatives are compared with mpmath's (``test_digits.py``); a draw
of numbers is compared with mpmath here. The operations are discovered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import mpmath
import numpy as np
import pytest
from mpmath import mp

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._core.primitive import Primitive
from funcgrad.tensor.tensor import apply
from tests.primitives.test_digits import ONE, SUBJECTS, names
from tests.together import together

pytestmark = pytest.mark.slow

EVERY: Final = np.arange(2**16, dtype=np.uint16).view(np.float16)
NUMBERS: Final = np.where(np.isnan(EVERY), np.float16(np.nan), EVERY)
"""All of them; NaN in one form, since a signaling NaN changes what C's functions return."""

WIDE: Final = NUMBERS.astype(np.float64)
GREATEST: Final = float(np.finfo(np.float16).max)
LEAST: Final = float(np.finfo(np.float16).smallest_subnormal)
TIMES: Final = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 1e-3, 300.0, np.inf, -np.inf, np.nan)
"""The second arguments of operations of two."""

ROUNDED = 0.501
"""Half a unit in the last place, and what float32 adds to it: one rounding."""

SEVERAL: Final = {
    "arccosh_slope": 3.0,
    "gelu": 3.0,
    "gelu_tanh": 17.0,  # x * sigmoid(...): below 1e-4 the sigmoid has few digits
    "hypot": 1.0,
    "logaddexp": 1.0,
    "logaddexp2": 1.0,
    "one_minus_square": 1.5,
    "power_derivative": 0.75,  # in float32, whose rounding shows where terms cancel
    "ratio_to_hypot": 2.0,
    "ratio_to_square_of_hypot": 3.5,
    "sech_squared": 3.5,
    "sigmoid": 2.0,
    "silu": 9.0,  # as gelu_tanh
    "softplus": 1.5,
}
"""Operations whose formula rounds several times: the greatest error in units in the last place."""

UNLIKE_WIDER: Final = {
    "constant_power": "C's pow(-inf, 0.5) is inf, and NumPy's for wider numbers NaN",
    "nextafter": "the next number of its own dtype",
    "power": "as constant_power",
    "sinc": "NumPy's sin(pi * x) rounds pi * x, which far out is any angle",
}
"""Operations whose values are NumPy's, and not those of wider numbers."""

SLOPES: Final = {
    "gelu_tanh": 24.0,  # as its values
    "ndtri": 16.0,  # through its own value y, whose rounding counts y**2 times
    "silu": 24.0,  # as its values
}
"""Operations whose derivatives are further off than four units."""

MOST_LOST: Final = {
    "exp2": 30,  # y * log(2), where y has overflowed: from 16 on
    "log10": 141,  # 1 / x overflows before the division by log(10): where x is subnormal
}
"""Derivatives that overflow too early, and at how many numbers."""

JITTED: Final = 2.5
"""A jitted function is within two units of the exact result, an eager one within half of one."""

BACKWARD: Final = 4
"""A derivative is right if it is, up to four units, that of a number up to so many units away."""


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def units_off(found: Any, low: Any, high: Any) -> Any:
    """How many units in the last place numbers lie outside of an interval."""
    found, low, high = (np.asarray(x).astype(np.float64) for x in (found, low, high))
    nearest = np.clip(found, low, high)
    size = np.minimum(np.abs(nearest), GREATEST).astype(np.float16)
    unit = np.maximum(np.spacing(size).astype(np.float64), LEAST)
    off = np.abs(found - nearest) / unit
    beyond = (np.abs(nearest) > GREATEST * (1 - 2**-9)) & (np.abs(found) > GREATEST * (1 - 2**-9))
    same = (found == nearest) | (np.isnan(found) & np.isnan(low + high))
    same |= beyond & (np.sign(found) == np.sign(nearest))
    return np.where(same, 0.0, np.where(np.isnan(off), np.inf, off))


def interval(f: Callable[[Any], Any], x: Any) -> tuple[Any, Any]:
    """The least and greatest value of a function at a number and at its neighbours."""
    exponent = np.frexp(np.where(np.isfinite(x), x, 0.0))[1]
    step = np.where(np.isfinite(x), np.ldexp(1.0, np.maximum(exponent - 11, -24)), 0.0)
    around = [np.asarray(f(x + k * step)) for k in range(-BACKWARD, BACKWARD + 1)]
    around = [np.where(np.isnan(values), around[BACKWARD], values) for values in around]
    return np.min(around, axis=0), np.max(around, axis=0)


def slope(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: fg.grad(lambda x: fnp.sum(f(x)))(x)


def places(off: Any, most: float) -> list[tuple[float, float]]:
    """The first numbers at which an error is too large, with the error."""
    bad = np.flatnonzero(~(np.ravel(off) <= most))
    return [(float(NUMBERS[k]), float(np.ravel(off)[k])) for k in bad[:5]]


ONE_ARGUMENT = [(p, params) for p, params, arity in SUBJECTS if arity == 1]
TWO_ARGUMENTS = [(p, params) for p, params, arity in SUBJECTS if arity == 2]


@together(("primitive", "params"), ONE_ARGUMENT, ids=names, pieces=2)
def test_values_and_derivatives_at_every_number(primitive: Primitive, params: Any) -> None:
    def f(x: Any) -> Any:
        return apply(primitive, x, **params)

    name = primitive.name
    value, wide = f(NUMBERS), np.asarray(f(WIDE))
    assert value.dtype == np.float16
    if name not in UNLIKE_WIDER:
        assert places(units_off(value, wide, wide), SEVERAL.get(name, ROUNDED)) == []
    derivative = slope(f)(NUMBERS)
    assert derivative.dtype == np.float16
    off = units_off(derivative, *interval(slope(f), WIDE))
    if name in MOST_LOST:
        assert 0 < np.count_nonzero(off > BACKWARD) <= MOST_LOST[name]
    else:
        assert places(off, SLOPES.get(name, BACKWARD)) == []
    jitted, eager = np.asarray(fg.jit(f)(NUMBERS)), np.asarray(value)
    most = max(JITTED, 2 * SEVERAL.get(name, 0.0))
    assert places(units_off(jitted, eager, eager), most) == []


def test_there_are_all_of_them() -> None:
    assert len(NUMBERS) == 65_536
    assert len(np.unique(NUMBERS[~np.isnan(NUMBERS)].view(np.uint16))) == 63_490
    assert len(ONE_ARGUMENT) > 60


@together(("primitive", "params"), TWO_ARGUMENTS, ids=names, pieces=2)
def test_values_and_derivatives_beside_a_second_argument(primitive: Primitive, params: Any) -> None:
    name = primitive.name
    for y in TIMES:

        def f(x: Any, y: float = y) -> Any:
            return apply(primitive, x, np.float16(y).astype(x.dtype), **params)

        value, wide = f(NUMBERS), np.asarray(f(WIDE))
        assert value.dtype == np.float16
        if name not in UNLIKE_WIDER:
            least = places(units_off(value, wide, wide), SEVERAL.get(name, ROUNDED))
            assert least == [], (y, least)


def test_wider_numbers_have_the_digits_of_mpmath() -> None:
    """At 64 numbers of each operation float64 is within 1e-13 of the exact value."""
    drawn = np.random.default_rng(5).permutation(WIDE[np.isfinite(WIDE)])[:64]
    tried = 0
    with mp.workdps(40):
        for primitive, params in ONE_ARGUMENT:
            twin = ONE.get(primitive.name)
            for x in drawn.tolist() if twin is not None else ():
                try:
                    exact = twin(mpmath.mpf(x), **params)  # type: ignore[misc]
                except (ValueError, ZeroDivisionError, OverflowError):
                    continue
                found = float(primitive.evaluate(np.float64(x), **params))
                if isinstance(exact, mpmath.mpc) or not 1e-290 < abs(exact) < 1e290:
                    continue
                if primitive.name in UNLIKE_WIDER or np.isnan(found):  # outside of its domain
                    continue
                assert abs(mpmath.mpf(found) - exact) <= 1e-13 * abs(exact), (primitive.name, x)
                tried += 1
    assert tried > 1000


def test_a_wrong_digit_is_seen() -> None:
    wide = np.tanh(WIDE)
    off = units_off((wide * (1 + 2e-3)).astype(np.float16), wide, wide)
    assert np.count_nonzero(off > ROUNDED) > 10_000
    shifted = interval(slope(fnp.tanh), WIDE)
    wrong = slope(lambda x: 1.01 * fnp.tanh(x))(NUMBERS)
    assert places(units_off(wrong, *shifted), BACKWARD) != []
