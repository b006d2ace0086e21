"""Elementwise functions have NumPy's values and dtypes, and the documented slopes at kinks."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, DtypeError, FuncgradError, LeafError, ShapeError

UNARY = """
    abs absolute acos acosh angle arccos arccosh arcsin arcsinh arctan arctanh around asin asinh
    atan atanh bitwise_count bitwise_invert bitwise_not cbrt ceil conj conjugate cos cosh deg2rad
    degrees exp exp2 expm1 fabs floor imag invert iscomplex iscomplexobj isfinite isinf isnan
    isneginf isposinf isreal isrealobj log log10 log1p log2 logical_not nan_to_num negative
    positive rad2deg radians real reciprocal rint round sign signbit sin sinc sinh sqrt square tan
    tanh trunc
""".split()
BINARY = """
    add allclose arctan2 array_equal array_equiv atan2 bitwise_and bitwise_left_shift bitwise_or
    bitwise_right_shift bitwise_xor copysign divide divmod equal float_power floor_divide fmax fmin
    fmod gcd greater greater_equal heaviside hypot isclose lcm left_shift less less_equal logaddexp
    logaddexp2 logical_and logical_or logical_xor maximum minimum mod multiply nextafter not_equal
    pow power remainder right_shift subtract true_divide
""".split()
DTYPES = "? b B l Q e f d F D".split()
NUMBERS = np.array([0.0, 1.0, 2.0, 0.5, 3.0, 1.0])

pytestmark = pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")


def numbers(char: str) -> np.ndarray:
    x = NUMBERS.astype(char)
    return x + np.array([0, 1j, -1j, 2j, 0, 1]).astype(char) if char in "FD" else x


def assert_same(actual, expected) -> None:
    if isinstance(expected, tuple):
        for part, other in zip(actual, expected, strict=True):
            assert_same(part, other)
        return
    expected = np.asarray(expected)
    actual = np.asarray(actual)
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape
    assert_array_equal(actual, expected)


def assert_like_numpy(name: str, *args) -> None:
    with np.errstate(all="ignore"):
        try:
            expected = getattr(np, name)(*args)
        except TypeError:
            with pytest.raises(DtypeError, match="not defined for these dtypes"):
                getattr(fnp, name)(*args)
        else:
            assert_same(getattr(fnp, name)(*args), expected)


@pytest.mark.parametrize("name", UNARY)
def test_unary_values_and_dtypes_are_numpys(name):
    for char in DTYPES:
        assert_like_numpy(name, numbers(char))
        assert_like_numpy(name, numbers(char)[1])


@pytest.mark.parametrize("name", BINARY)
def test_binary_values_and_dtypes_are_numpys(name):
    for first, second in product(DTYPES, repeat=2):
        assert_like_numpy(name, numbers(first), np.flip(numbers(second)).copy())


@pytest.mark.parametrize("name", BINARY)
def test_python_numbers_give_way_to_the_dtype_of_arrays(name):
    for char in "befF":
        for number in (True, 2, 1.5):
            assert_like_numpy(name, numbers(char), number)
            assert_like_numpy(name, number, numbers(char))


@pytest.mark.parametrize("name", ["sin", "negative", "isnan", "sign", "real", "nan_to_num"])
def test_lists_tensors_and_numbers_are_accepted(name):
    expected = getattr(np, name)([[0.5, 1.0]])
    assert_same(getattr(fnp, name)([[0.5, 1.0]]), expected)
    assert_same(getattr(fnp, name)(fg.tensor([[0.5, 1.0]])), expected)
    assert float(getattr(fnp, name)(0.5)) == float(getattr(np, name)(0.5))
    assert isinstance(getattr(fnp, name)(0.5), fg.Tensor)


def test_infinities_and_nan_are_numpys():
    x = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1.0])
    for name in ("exp", "log1p", "sign", "isposinf", "isneginf", "signbit", "nan_to_num", "sinc"):
        assert_like_numpy(name, x)
    for name in ("maximum", "fmax", "minimum", "fmin", "logaddexp", "hypot", "isclose", "copysign"):
        assert_like_numpy(name, x[:, None], x)


def test_shapes_broadcast():
    assert fnp.add(np.ones((2, 1)), np.ones(3)).shape == (2, 3)
    assert fnp.where(np.ones((2, 1), bool), np.zeros(3), 1.0).shape == (2, 3)
    assert fnp.sin(np.zeros((0, 3))).shape == (0, 3)


def test_aliases_are_the_same_functions():
    pairs = """acos arccos, acosh arccosh, asin arcsin, asinh arcsinh, atan arctan, atan2 arctan2,
    atanh arctanh, pow power, mod remainder, abs absolute, conjugate conj, true_divide divide,
    around round, radians deg2rad, degrees rad2deg, invert bitwise_invert, fix trunc"""
    for pair in pairs.split(","):
        alias, name = pair.split()
        assert getattr(fnp, alias) is getattr(fnp, name)


# Errors.


def test_shapes_that_do_not_broadcast_are_named():
    with pytest.raises(ShapeError, match=r"add\(float64\[2\], float64\[3\]\)"):
        fnp.add(np.ones(2), np.ones(3))


def test_dtypes_without_meaning_are_named():
    with pytest.raises(DtypeError, match=r"cbrt\(complex128\[\]\)"):
        fnp.cbrt(1j)


def test_what_is_no_array_is_named():
    with pytest.raises(LeafError, match="sin: expected an array or a number, got 'one'"):
        fnp.sin("one")


def test_integers_have_no_negative_integer_powers():
    for exponent in (-1, np.array([-1])):
        with pytest.raises(ArgumentError, match="negative integer powers"):
            fnp.power([1, 2], exponent)


def test_clip_rejects_bounds_given_twice():
    with pytest.raises(FuncgradError, match="a bound is given twice"):
        fnp.clip(1.0, a_min=0.0, min=0.0)


def test_where_needs_both_choices():
    with pytest.raises(FuncgradError, match="give both x and y"):
        fnp.where(True, 1.0)


@pytest.mark.parametrize("choices", [[], [1.0, 2.0]])
def test_select_needs_a_choice_for_each_condition(choices):
    with pytest.raises(FuncgradError, match="1 conditions and"):
        fnp.select([True], choices)


def test_piecewise_needs_a_function_for_each_condition():
    with pytest.raises(FuncgradError, match="1 conditions and 3 functions"):
        fnp.piecewise([1.0], [[True]], [1, 2, 3])


# Functions with arguments of their own.


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (None, 1.0), (0.0, None), (None, None), (2.0, 1.0)])
def test_clip_is_numpys(bounds):
    x = np.array([-1.0, 0.0, 0.5, 2.0, np.nan])
    expected = x if bounds == (None, None) else np.clip(x, *bounds)  # NumPy 2.0 asks for a bound
    assert_same(fnp.clip(x, *bounds), expected)
    assert_same(fnp.clip(x, min=bounds[0], max=bounds[1]), expected)
    assert_same(fg.tensor(x).clip(*bounds), expected)


def test_clip_keeps_the_dtype_and_takes_arrays():
    assert fnp.clip(np.arange(3, dtype=np.float32), 0.5, None).dtype == np.float32
    assert_same(fnp.clip([3, 4], [[4], [0]], 3), np.clip([3, 4], [[4], [0]], 3))


@pytest.mark.parametrize("condition", [True, [1, 0], [0.0, 0.5], np.array([True, False])])
def test_where_is_numpys(condition):
    x = np.array([1, 2], np.float32)
    assert_same(fnp.where(condition, x, 0.0), np.where(condition, x, 0.0))
    assert_same(fnp.where(condition, 1, x.astype(int)), np.where(condition, 1, x.astype(int)))


def test_where_finds_positions():
    condition = [[True, False], [True, True]]
    assert_same(fnp.where(condition), np.where(condition))


@pytest.mark.parametrize("decimals", [0, 2, -1])
def test_round_is_numpys(decimals):
    for x in (np.array([15.0, 0.125, -2.5, np.inf]), np.array([15, 25, 4]), np.array([1.256 + 2j])):
        assert_same(fnp.round(x, decimals), np.round(x, decimals))
        assert_same(fnp.round(x, decimals=np.int8(decimals)), np.round(x, decimals))


def test_nan_to_num_is_numpys():
    x = np.array([np.nan, np.inf, -np.inf, 1.0])
    for dtype in (np.float16, np.float32, np.float64):
        assert_same(fnp.nan_to_num(x.astype(dtype)), np.nan_to_num(x.astype(dtype)))
    z = np.empty(4, np.complex64)
    z.real, z.imag = x, x[::-1]
    given: Any = {"nan": 1.0, "posinf": 2.0, "neginf": -3.0}
    assert_same(fnp.nan_to_num(z, **given), np.nan_to_num(z, **given))
    infinite: Any = {"nan": np.inf, "posinf": -np.inf}
    assert_same(fnp.nan_to_num(x, **infinite), np.nan_to_num(x, **infinite))
    assert_same(fg.jit(lambda x: fnp.nan_to_num(x, **infinite))(x), np.nan_to_num(x, **infinite))


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


def test_replacements_that_do_not_fit():
    with pytest.raises(ShapeError, match=r"nan_to_num: nan, of the shape \(2, 1\), does not broad"):
        fnp.nan_to_num([1.0, 2.0], nan=np.ones((2, 1)))
    with pytest.raises(DtypeError, match="nan_to_num: posinf has to be real"):
        fnp.nan_to_num([1.0, 2.0], posinf=np.ones(2, complex))


def test_select_and_piecewise_are_numpys():
    x = np.array([-2.0, 0.0, 0.5, 3.0])
    conditions, choices = [x < 0, x < 1], [-x, x * x]
    assert_same(fnp.select(conditions, choices, 7), np.select(conditions, choices, 7))
    functions: Any = [lambda v: -v, 5.0, lambda v: v + 1]
    expected: Any = np.piecewise  # NumPy's stubs ask for functions without further arguments
    for at, condition, pieces in (
        (x, conditions, functions),
        (x, x < 0, [1]),
        (x[0], x[0] < 0, [1, 2]),
        (x[0], [x[0] < 0, x[0] > -5], [1, 2]),
    ):
        assert_same(fnp.piecewise(at, condition, pieces), expected(at, condition, pieces))


def test_angles_in_degrees():
    assert_same(fnp.angle([1j, -1.0, 0.0], deg=True), np.angle([1j, -1.0, 0.0], deg=True))


def test_parts_of_floating_point_numbers_are_numpys():
    x = np.array([3.0, -0.1, 0.0, np.inf, 1e-310])
    assert_same(fnp.frexp(x), np.frexp(x))
    assert_same(fnp.modf(x), np.modf(x))
    assert_same(fnp.modf([3, -4]), np.modf([3, -4]))
    halves, powers = np.array([0.5, 3.0], np.float32), [2, -1]
    assert_same(fnp.ldexp(halves, powers), np.ldexp(halves, powers))


def test_closeness_counts_nan_and_tolerances():
    a, b = np.array([np.nan, 1.0, np.inf, 100.0]), np.array([np.nan, 1.01, np.inf, 101.0])
    cases: Any = ({"equal_nan": True}, {"rtol": 0.011}, {"atol": 0.02}, {"rtol": 0.0})
    for options in cases:
        assert_same(fnp.isclose(a, b, **options), np.isclose(a, b, **options))
        assert_same(fnp.allclose(a, b, **options), np.allclose(a, b, **options))
    assert not fnp.array_equal(a, a)
    assert fnp.array_equal(a, a, equal_nan=True)
    assert not fnp.array_equal(a, a[:2])
    assert not fnp.array_equiv(a, a[:2])


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
    for f in wide:
        for slope in slopes:
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
