"""Functions of integers, remainders and parts of floats have NumPy's bits for all operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad._backends.native.native_backend import EXACT, NATIVE
from tests.backends.native.vector_functions import EDGES, HOST
from tests.together import together

pytest.importorskip("llvmlite")

INTEGERS: Final = "bBhHiIlL"


def assert_numpys(f: Callable[..., Any], *operands: Any) -> None:
    """Whether machine code has the bits of evaluation; no operation is called back."""
    jitted = fg.jit(f, backend="native")
    with np.errstate(all="ignore"):
        expected = np.asarray(f(*operands))
    actual = np.asarray(jitted(*operands))
    assert actual.dtype == expected.dtype
    assert_array_equal(actual, expected)
    if actual.dtype.kind == "f":
        nan = np.isnan(expected)
        assert_array_equal(np.signbit(actual) | nan, np.signbit(expected) | nan)
    assert jitted.lower(*operands).source.startswith("; called back: nothing")


def test_whoever_asks_for_numpys_bits_gets_them() -> None:
    x = np.random.default_rng(0).standard_normal(1001)
    for f in (lambda x: fnp.tanh(x) * fnp.exp(-x), lambda x: fnp.logaddexp(x, 2 * x), fnp.cbrt):
        assert_array_equal(fg.jit(f, backend="native", exact=True)(x), f(x))
    assert not np.array_equal(fg.jit(fnp.tanh, backend="native")(x), np.tanh(x))


def test_what_cannot_be_exact_says_so() -> None:
    with pytest.raises(fg.errors.ArgumentError, match="relaxed=True gives up"):
        fg.jit(fnp.sin, exact=True, relaxed=True)
    with pytest.raises(fg.errors.ArgumentError, match="cannot make the backend 'native' exact"):
        fg.jit(fnp.sin, backend=NATIVE, exact=True)
    assert fg.jit(fnp.sin, backend=EXACT, exact=True)(0.0) == 0.0


def all_pairs(values: Any, others: Any) -> list[Any]:
    return [grid.ravel() for grid in np.meshgrid(values, others)]


def whole_numbers(char: str) -> Any:
    limits = np.iinfo(char)
    numbers = [limits.min, limits.max, limits.max - 1, limits.min + 1, 0, 1, 2, 3, 7, 12, 100]
    return np.array([*numbers, *([-1, -2, -7, -100] if limits.min else [])], char)


@together(
    "f",
    [
        lambda x, y: x // y,
        lambda x, y: x % y,
        lambda x, y: (x < y) ^ (x >= y) ^ (x == y),
        fnp.fmod,
        fnp.gcd,
        fnp.lcm,
        fnp.maximum,
        fnp.fmin,
        fnp.logical_and,
    ],
    ids=["//", "%", "compared", "fmod", "gcd", "lcm", "maximum", "fmin", "logical_and"],
)
@together("char", INTEGERS, quick=4)
def test_functions_of_two_integers(f: Callable[..., Any], char: str) -> None:
    assert_numpys(f, *all_pairs(whole_numbers(char), whole_numbers(char)))


@together("char", INTEGERS)
def test_shifts_powers_and_bits_of_integers(char: str) -> None:
    x = whole_numbers(char)
    assert_numpys(lambda x: x**5, x)
    assert_numpys(lambda x: x**0, x)
    assert_numpys(fnp.bitwise_count, x)
    assert_numpys(lambda x, y: x << y, *all_pairs(x, np.arange(12).astype(char)))
    assert_numpys(lambda x, y: x >> y, *all_pairs(x, np.arange(12).astype(char)))


@pytest.mark.slow
@together("signed", "bhil")
@together("unsigned", "BHIL")
def test_integers_with_and_without_sign_are_compared_exactly(signed: str, unsigned: str) -> None:
    x, y = all_pairs(whole_numbers(signed), whole_numbers(unsigned))
    for f in (fnp.less, fnp.less_equal, fnp.greater, fnp.greater_equal, fnp.equal, fnp.not_equal):
        assert_numpys(f, x, y)
        assert_numpys(f, y, x)


def halves() -> Any:
    return np.arange(2**16, dtype=np.uint16).view(np.float16)


HALF: Final = pytest.mark.skipif(not HOST.halves, reason="the processor has no half precision")


@HALF
@together(
    "f",
    [
        lambda x, y: (x + y) * x - y,
        lambda x, y: x / y,
        lambda x, y: fnp.where(x < y, fnp.abs(x), -y),
        lambda x, y: fnp.maximum(x, y) + 2.5,
        lambda x, y: fnp.sqrt(x) + fnp.floor(y) * fnp.copysign(x, y),
        lambda x, y: fnp.square(x) + fnp.rint(y),
    ],
)
def test_half_precision_is_rounded_after_each_operation(f: Callable[..., Any]) -> None:
    x = halves()
    assert_numpys(f, x, np.random.default_rng(0).permutation(x))


@HALF
def test_conversions_to_and_from_half_precision() -> None:
    x = halves()
    finite = np.sort(x[np.isfinite(x)])
    middles = (finite[:-1].astype(float) + finite[1:].astype(float)) / 2
    for beside in (-1e-12, -1e-20, 0.0, 1e-20, 1e-12):
        assert_numpys(lambda x: x.astype(np.float16), middles * (1 + beside))
        assert_numpys(lambda x: x.astype(np.float16), middles + beside)
    assert_numpys(lambda x: x.astype(np.float16), any_bits("d", 5001, 5))
    assert_numpys(lambda x: x.astype(np.float16), any_bits("f", 5001, 6))
    assert_numpys(lambda x: (x.astype(float), x.astype(np.float32))[0], x)
    for char in "bhilBHIL":
        limits = np.iinfo(char)
        whole = np.random.default_rng(7).integers(limits.min, limits.max, 3001, char)
        assert_numpys(lambda x: x.astype(np.float16), whole)
        assert_numpys(lambda x: x.astype(np.float16), np.arange(3001).astype(char))
    assert_numpys(lambda x: x.astype(np.int32), finite)
    assert_numpys(lambda x: x.astype(bool), x)


@HALF
def test_functions_of_half_precision_are_within_a_unit() -> None:
    x = halves()
    x = x[np.isfinite(x)]
    for f in (np.exp, np.sin, np.tanh, np.log, np.arctan):
        with np.errstate(all="ignore"):
            expected = f(x.astype(np.float64)).astype(np.float16)
        actual = np.asarray(fg.jit(getattr(fnp, f.__name__), backend="native")(x))
        assert actual.dtype == np.float16
        np.testing.assert_array_max_ulp(actual, expected, 1)


def floats(char: str) -> Any:
    with np.errstate(all="ignore"):
        return np.array([*EDGES, *[-x for x in EDGES]]).astype(char)


def any_bits(char: str, count: int, seed: int) -> Any:
    bits = np.dtype(f"u{np.dtype(char).itemsize}")
    most = np.iinfo(bits).max
    return np.random.default_rng(seed).integers(0, most, count, bits, endpoint=True).view(char)


@together(
    "f",
    [fnp.fmod, lambda x, y: x % y, lambda x, y: x // y, fnp.nextafter, fnp.copysign],
    ids=["fmod", "%", "//", "nextafter", "copysign"],
)
@together("char", "fd")
def test_remainders_and_neighbours_of_floats(f: Callable[..., Any], char: str) -> None:
    assert_numpys(f, *all_pairs(floats(char), floats(char)))
    assert_numpys(f, any_bits(char, 1001, 1), any_bits(char, 1001, 2))


@pytest.mark.parametrize("char", "fd")
def test_exponents_of_floats(char: str) -> None:
    x = np.append(floats(char), any_bits(char, 1001, 3))
    assert_numpys(lambda x: fnp.frexp(x)[0], x)
    assert_numpys(lambda x: fnp.frexp(x)[1], x)
    exponents = [0, 1, -1, 52, -52, 127, -127, 1023, -1023, 1074, -1074, -1100, 2098, -2098, 10**6]
    assert_numpys(fnp.ldexp, *all_pairs(x, np.array(exponents)))
    assert_numpys(fnp.ldexp, *all_pairs(x, np.array(exponents, np.int32)))
    numbers = np.random.default_rng(4).integers(-2200, 2200, x.size)
    assert_numpys(fnp.ldexp, x, numbers)


@pytest.mark.parametrize("exponent", [-0.5, 1.5])
@pytest.mark.parametrize("char", "fd")
def test_powers_of_a_root_have_their_digits_and_the_values_at_the_edges(
    exponent: float, char: str
) -> None:
    info, rng = np.finfo(char), np.random.default_rng(0)
    scales = 2.0 ** rng.uniform(info.minexp // 2, info.maxexp // 2, 5000)
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, info.max, info.tiny, info.smallest_subnormal]
    x = np.concatenate([scales, rng.uniform(0.25, 4, 5000), edges]).astype(char)
    with np.errstate(all="ignore"):
        expected = np.power(x.astype(np.longdouble), np.longdouble(exponent))
        nearest = expected.astype(char)
    actual = np.asarray(fg.jit(lambda x: x**exponent, backend="native")(x))
    assert actual.dtype == x.dtype
    normal = np.isfinite(nearest) & (nearest != 0)
    unit = np.spacing(np.abs(nearest[normal])).astype(np.longdouble)
    assert np.max(np.abs(actual[normal] - expected[normal]) / unit) < 2
    assert_array_equal(actual[~normal], nearest[~normal])
    others = ~normal & ~np.isnan(nearest)
    assert_array_equal(np.signbit(actual[others]), np.signbit(nearest[others]))
