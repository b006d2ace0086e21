"""Elementwise functions: errors, replacements, and the documented slopes at kinks."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, DtypeError, FuncgradError, LeafError, ShapeError
from tests.together import refused, together

pytestmark = pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")


def assert_same(actual, expected) -> None:
    assert actual.dtype == expected.dtype
    assert_array_equal(np.asarray(actual), expected, strict=True)


def test_aliases_are_the_same_functions():
    pairs = """acos arccos, acosh arccosh, asin arcsin, asinh arcsinh, atan arctan, atan2 arctan2,
    atanh arctanh, pow power, mod remainder, abs absolute, conjugate conj, true_divide divide,
    around round, radians deg2rad, degrees rad2deg, invert bitwise_invert, fix trunc"""
    for pair in pairs.split(","):
        alias, name = pair.split()
        assert getattr(fnp, alias) is getattr(fnp, name)


test_words = refused(
    [
        (lambda: fnp.add([1.0] * 2, [1.0] * 3), ShapeError, r"add\(float64\[2\], float64\[3\]\)"),
        (lambda: fnp.cbrt(1j), DtypeError, r"cbrt\(complex128\[\]\)"),
        (lambda: fnp.sin("one"), LeafError, "sin: expected an array or a number, got 'one'"),
        (lambda: fnp.power([1, 2], -1), ArgumentError, "negative integer powers"),
        (lambda: fnp.power([1, 2], [-1]), ArgumentError, "negative integer powers"),
        (lambda: fnp.clip(1.0, a_min=0.0, min=0.0), FuncgradError, "a bound is given twice"),
        (lambda: fnp.where(True, 1.0), FuncgradError, "give both x and y"),
        (lambda: fnp.select([True], []), FuncgradError, "1 conditions and"),
        (lambda: fnp.select([True], [1.0, 2.0]), FuncgradError, "1 conditions and"),
        (
            lambda: fnp.piecewise([1.0], [[True]], [1, 2, 3]),
            FuncgradError,
            "1 conditions and 3 functions",
        ),
        (
            lambda: fnp.nan_to_num([1.0, 2.0], nan=np.ones((2, 1))),
            ShapeError,
            r"nan_to_num: nan, of the shape \(2, 1\), does not broad",
        ),
        (
            lambda: fnp.nan_to_num([1.0, 2.0], posinf=np.ones(2, complex)),
            DtypeError,
            "nan_to_num: posinf has to be real",
        ),
    ]
)


# Functions with arguments of their own.


@pytest.mark.parametrize("dtype", "fdFi")
def test_replacements_may_be_arrays(dtype):
    x = np.array([[np.nan, np.inf, 1.0], [2.0, -np.inf, np.nan]])
    if dtype in "Fi":
        x = (np.where(np.isfinite(x), x, 0) if dtype == "i" else x + 1j * x[::-1]).astype(dtype)
    fills: Any = {"nan": np.arange(3.0), "posinf": [[4.0], [5.0]], "neginf": np.array(-1)}
    expected = np.nan_to_num(x.astype(dtype), **fills)
    for function in (fnp.nan_to_num, np.nan_to_num):
        assert_same(function(fg.tensor(x.astype(dtype)), **fills), expected)
    batched = fg.vmap(lambda x, nan: fnp.nan_to_num(x, nan=nan))(x.astype(dtype), fills["nan"][:2])
    assert_same(batched, np.nan_to_num(x.astype(dtype), nan=fills["nan"][:2, None]))


def test_replacements_are_differentiated():
    x = fg.tensor([1.0, 3.0, np.nan])

    def filled(x, infinity):
        return fnp.sum(fnp.nan_to_num(x, nan=fnp.nanmean(x), posinf=infinity) * [1.0, 2.0, 4.0])

    for gradient in (fg.grad(filled), fg.jit(fg.grad(filled))):
        np.testing.assert_allclose(gradient(x, 5.0), [3.0, 4.0, 0.0])
    assert fg.grad(filled, 1)(fg.tensor([np.inf, 1.0, np.inf]), 5.0) == 5.0


# Conventions, and what no difference quotient shows.


def test_powers_are_exact_at_zero():
    for exponent, expected in ((0, (0, 0, 0)), (1, (1, 0, 0)), (2, (0, 2, 0)), (3, (0, 0, 6))):
        for f in (
            lambda x, n=exponent: fnp.power(x, n),
            lambda x, n=exponent: x**n,
            lambda x, n=exponent: fnp.power(x, np.array(n)),
            lambda x, n=exponent: fnp.power(x, np.array(float(n))),
        ):
            first = fg.grad(f)
            second = fg.grad(first)
            third = fg.grad(second)
            assert [float(g(0.0)) for g in (first, second, third)] == list(expected)


def test_powers_of_zero_do_not_change_with_the_exponent():
    assert float(fg.grad(lambda y: fnp.power(0.0, y))(2.0)) == 0.0
    assert float(fg.grad(lambda y: fnp.power(0.0, y))(1e-300)) == 0.0


def test_a_power_of_zero_falls_from_one_to_zero():
    # With the exponent at least, so x**x has the slope -inf at 0; x**0 is constant.
    for slope in (fg.grad, fg.jacfwd, fg.jacrev, lambda f: fg.jit(fg.grad(f))):
        assert float(slope(lambda x: x**x)(0.0)) == -np.inf
        assert float(slope(lambda y: fnp.power(0.0, y))(0.0)) == -np.inf
        assert float(slope(lambda x: fnp.power(x, 0.0))(0.0)) == 0.0
        assert float(slope(lambda x: x**x)(1e-300)) == pytest.approx(1 + np.log(1e-300))


def test_complex_powers_of_negative_bases_have_complex_logarithms():
    _, tangent = fg.jvp(lambda y: fnp.power(-2.0, y), (1 + 0j,), (1 + 0j,))
    assert complex(tangent) == pytest.approx(-2 * (np.log(2) + 1j * np.pi))


def test_a_tie_gives_half_the_gradient_to_each():
    for function in (fnp.maximum, fnp.minimum, fnp.fmax, fnp.fmin):
        assert tuple(map(float, fg.grad(function, argnums=(0, 1))(1.0, 1.0))) == (0.5, 0.5)


def test_nan_takes_the_gradient_where_it_is_chosen():
    assert tuple(map(float, fg.grad(fnp.maximum, argnums=(0, 1))(np.nan, 1.0))) == (1.0, 0.0)
    assert tuple(map(float, fg.grad(fnp.fmax, argnums=(0, 1))(np.nan, 1.0))) == (0.0, 1.0)


def test_clip_shares_the_gradient_with_its_bounds():
    gradient = fg.grad(lambda x, low, high: fnp.clip(x, low, high), argnums=(0, 1, 2))
    assert gradient(0.5, 0.0, 1.0) == (1.0, 0.0, 0.0)
    assert gradient(2.0, 0.0, 1.0) == (0.0, 0.0, 1.0)
    assert gradient(0.0, 0.0, 1.0) == (0.5, 0.5, 0.0)
    assert gradient(1.0, 0.0, 1.0) == (0.5, 0.0, 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("x", [0.5, 1.0, 1.5, np.inf, -np.inf])
@pytest.mark.parametrize(("low", "high"), [(1.0, 1.0), (1.5, 1.0), (2.0, 0.5), (-np.inf, -np.inf)])
def test_clip_to_no_more_than_one_number_is_constant(x, low, high):
    slopes: list[Callable[..., Any]] = [
        fg.grad,
        fg.jacfwd,
        lambda f: fg.jit(fg.grad(f)),
        lambda f: fg.grad(fg.jit(f)),
    ]
    wide = [
        lambda x: fnp.clip(x, low, high),
        lambda x: fnp.clip(x, np.array(low), high),
        lambda x: fnp.sum(fnp.clip(x, [low, 9.0], [high, 9.0])),
        lambda x: fnp.clip(fnp.asarray(x), low, high) + 0 * low,
        lambda x: np.clip(fnp.asarray(x), low, high),
        lambda x: fnp.asarray(x).clip(low, high),
    ]
    for turn, f in enumerate(wide):  # each takes two of the slopes
        for slope in slopes[turn % 2 :: 2]:
            assert float(slope(f)(x)) == 0.0
            assert float(slope(slope(f))(x)) == 0.0
    bounds = fg.jit(fg.grad(fnp.clip, argnums=(0, 1, 2)))(x, low, high)
    eagerly = fg.grad(fnp.clip, argnums=(0, 1, 2))(x, low, high)
    mapped = fg.vmap(fg.grad(fnp.clip, argnums=(0, 1, 2)))(*np.array([[x], [low], [high]]))
    assert tuple(map(float, bounds)) == tuple(map(float, eagerly)) == tuple(map(float, mapped))
    assert float(eagerly[0]) == 0.0
    assert float(sum(eagerly)) == 1.0  # moved together, all three move the result
    assert np.isnan(float(fnp.clip(np.nan, low, high)))


def test_clip_decides_for_each_element():
    x, low, high = np.ones(4), np.array([0.0, 1.0, 1.0, 2.0]), np.array([2.0, 1.0, 3.0, 1.0])
    gradient = fg.grad(lambda *args: fnp.sum(fnp.clip(*args)), argnums=(0, 1, 2))
    expected = [[1.0, 0.0, 0.5, 0.0], [0.0, 0.5, 0.5, 0.0], [0.0, 0.5, 0.0, 1.0]]
    assert_array_equal(gradient(x, low, high), expected)
    assert_array_equal(fg.jit(gradient)(x, low, high), expected)
    assert_array_equal(fg.grad(lambda x: fnp.sum(fnp.clip(x, low, high)))(x), expected[0])
    ones = tuple(np.ones((3, 4)))
    assert_array_equal(fg.jvp(fnp.clip, (x, low, high), ones)[1], np.ones(4))


def test_kinks_have_the_derivative_zero():
    for function in (
        fnp.absolute,
        fnp.fabs,
        lambda x: fnp.hypot(x, 0.0),
        lambda x: fnp.arctan2(x, x),
    ):
        assert float(fg.grad(function)(0.0)) == 0.0
    assert complex(fg.grad(fnp.absolute)(0j)) == 0


def test_what_was_not_chosen_does_no_harm_at_any_order():
    def safe_sqrt(x):
        return fnp.where(x > 0, fnp.sqrt(x), 0.0)

    derivative = safe_sqrt
    for _ in range(3):
        derivative = fg.grad(derivative)
        assert float(derivative(0.0)) == 0.0
    assert float(fg.grad(lambda x: fnp.nan_to_num(fnp.log(x)))(0.0)) == 0.0
    assert float(fg.grad(lambda x: fnp.maximum(fnp.sqrt(x), 1.0))(0.0)) == 0.0


def test_the_complex_sign_turns():
    _, tangent = fg.jvp(fnp.sign, (2 + 0j,), (1 + 1j,))
    assert complex(tangent) == 0.5j
    assert float(fg.grad(fnp.sign)(2.0)) == 0.0


def test_sinc_has_all_derivatives_at_zero():
    derivative: Any = fnp.sinc
    expected = [0.0, -(np.pi**2) / 3, 0.0, np.pi**4 / 5]
    for value in expected:
        derivative = fg.grad(derivative)
        assert float(derivative(0.0)) == pytest.approx(value, abs=1e-12)


def test_infinite_arguments_of_logaddexp_have_shares():
    gradient = fg.grad(fnp.logaddexp, argnums=(0, 1))
    assert tuple(map(float, gradient(-np.inf, -np.inf))) == (0.5, 0.5)
    assert tuple(map(float, gradient(-np.inf, 0.0))) == (0.0, 1.0)
    assert tuple(map(float, gradient(np.inf, 0.0))) == (1.0, 0.0)
    x = np.float32(1e6)  # where the result shows nothing of what is added
    assert tuple(map(float, gradient(x, x))) == (0.5, 0.5)


def test_inverse_functions_know_the_side_of_a_branch_cut():
    for function, z in (
        (fnp.arcsin, 2 + 0j),
        (fnp.arccos, -2 + 0j),
        (fnp.arcsinh, 2j),
        (fnp.arccosh, 0.5 + 0j),
        (fnp.arctanh, 2 + 0j),
        (fnp.sqrt, -1 + 0j),
        (fnp.log, -1 + 0j),
    ):
        step = 1e-6j if function is not fnp.arcsinh else 1e-6  # away from the cut
        _, tangent = fg.jvp(function, (z,), (step,))
        change = complex(function(z + step)) - complex(function(z))
        assert complex(tangent) == pytest.approx(change, rel=1e-4)


@together("first", [np.int8, np.int16, np.int32, np.int64])
@together("second", [np.uint8, np.int16, np.int64])
def test_multiples_of_the_least_integers_are_of_the_wider_dtype(first: Any, second: Any) -> None:
    least, most = np.iinfo(first).min, np.iinfo(first).max
    x, y = np.array([least, least, -3, 0, most], first), np.array([1, 3, 2, 0, 5], second)
    for a, b in ((x, y), (y, x)):
        expected = np.lcm(a, b)
        for found in (fnp.lcm(a, b), fg.jit(fnp.lcm)(a, b), fg.jit(fnp.lcm, backend="numpy")(a, b)):
            assert_array_equal(found, expected)
            assert found.dtype == expected.dtype
