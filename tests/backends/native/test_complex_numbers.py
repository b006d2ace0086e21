"""Complex numbers in machine code: pairs of registers, and NumPy's numbers at every edge."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.together import together

EDGES = (0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan)


def _edges(char: str) -> np.ndarray[Any, Any]:
    """Numbers of which both parts are edges, also of the dtype's range."""
    info = np.finfo(char)
    parts = (*EDGES, float(info.max), float(info.tiny), -float(info.smallest_subnormal))
    numbers = np.empty((len(parts),) * 2, char)
    numbers.real, numbers.imag = np.array(parts)[:, None], np.array(parts)
    return numbers.ravel()


def _assert_same(actual: Any, expected: Any) -> None:
    """The same dtype and numbers, zeros with their signs; a NaN is like any other."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.dtype == expected.dtype
    assert_array_equal(actual, expected)
    if expected.dtype.kind in "fc":
        for x, y in ((actual.real, expected.real), (actual.imag, expected.imag)):
            assert_array_equal(np.isnan(x), np.isnan(y))
            assert_array_equal(np.signbit(x[~np.isnan(x)]), np.signbit(y[~np.isnan(y)]))


def _assert_near(result: Any, expected: Any, units: float) -> None:
    """As near as so many units of the greatest digit; zeros have their signs."""
    result, expected = np.asarray(result), np.asarray(expected)
    assert result.dtype == expected.dtype
    eps, tiny = float(np.finfo(result.dtype).eps), float(np.finfo(result.dtype).tiny)
    for x, y in ((result.real, expected.real), (result.imag, expected.imag)):
        np.testing.assert_allclose(x, y, rtol=units * eps, atol=tiny)
        assert_array_equal(np.signbit(x[y == y]), np.signbit(y[y == y]))


def _assert_is_machine_code(f: Callable[..., Any], *arguments: Any, exact: bool = False) -> Any:
    """Run what has no call of NumPy."""
    staged = fg.jit(f, backend="native", exact=exact)
    source = staged.lower(*arguments).source
    assert source.startswith("; called back: nothing")
    assert not re.search("call void @(?!llvm|nest)", source)  # none of NumPy's loops either
    return staged(*arguments)


def _numbers(char: str, *shape: int) -> np.ndarray[Any, Any]:
    real, imag = np.random.default_rng(0).standard_normal((2, *shape))
    return (real + 1j * imag).astype(char)


OF_ONE = {
    "negative": lambda z: -z,
    "conj": fnp.conj,
    "real": lambda z: z.real,
    "imag": lambda z: z.imag,
    "square": lambda z: z**2,
    "reciprocal": fnp.reciprocal,
    "isnan": fnp.isnan,
    "isinf": fnp.isinf,
    "isfinite": fnp.isfinite,
    "rint": fnp.rint,
    "to single": lambda z: fnp.astype(z, np.complex64),
    "to double": lambda z: fnp.astype(z, np.complex128),
    "to truth": lambda z: fnp.astype(z, np.bool_),
    "one by it": lambda z: 1 / z,
    "turned": lambda z: z * 1j,
    "with a number": lambda z: 2.5 - z,
}

OF_TWO = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "equal": lambda x, y: x == y,
    "not equal": lambda x, y: x != y,
    "where": lambda x, y: fnp.where(x == y, x, -y),
    "with real": lambda x, y: x.real * y + y / x.imag,
}


@together("exact", [False, True])
@together("char", "FD")
@together("name", OF_ONE)
def test_functions_of_a_number_at_all_edges(name: str, char: str, exact: bool) -> None:
    f, z = OF_ONE[name], _edges(char)
    with np.errstate(all="ignore"):
        _assert_same(_assert_is_machine_code(f, z, exact=exact), f(z))


@together("char", "FD")
@together("name", OF_TWO)
def test_functions_of_two_numbers_at_all_edges(name: str, char: str) -> None:
    f, z = OF_TWO[name], _edges(char)
    x, y = [np.array(column) for column in zip(*product(z, z), strict=True)]
    with np.errstate(all="ignore"):
        _assert_same(_assert_is_machine_code(f, x, y, exact=True), f(x, y))


BY_THE_STANDARD = (
    *("arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "cos", "cosh", "exp"),
    *("exp2", "log", "log10", "log2", "sin", "sinh", "sqrt", "tan", "tanh"),
)


@pytest.mark.slow
@together("char", "FD")
@together("name", BY_THE_STANDARD)
def test_functions_by_the_c_standard_at_all_edges(name: str, char: str) -> None:
    f, far = getattr(fnp, name), np.array([800, 800j, 800 + 3j, -800 + 3j, 3 - 800j, 1 + 1e-20j])
    z = np.concatenate([_edges(char), far.astype(char), _numbers(char, 200)])
    if name == "exp2" and char == "F":  # NumPy rounds the product with log(2)
        z = z[~(np.abs(z.imag) > 1)]
    with np.errstate(all="ignore"):
        result, expected = _assert_is_machine_code(f, z), f(z)
    _assert_near(result, expected, 8)


@together("char", "FD")
@together("exponent", [*range(-5, 6), 9.0, -8])
def test_whole_powers_at_all_edges(exponent: float, char: str) -> None:
    z = np.concatenate([_edges(char), _numbers(char, 40)])
    with np.errstate(all="ignore"):
        result = _assert_is_machine_code(lambda z: z**exponent, z)
        expected = np.square(z) if exponent == 2 else np.power(z, exponent)
    _assert_near(result, expected, 20)


@together("name", ["arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "log1p"])
def test_inverse_functions_of_numbers_of_all_sizes(name: str) -> None:
    rng, f = np.random.default_rng(1), getattr(fnp, name)
    z = _numbers("D", 4000) * 10.0 ** rng.uniform(-9, 9, 4000)
    near = _numbers("D", 2000)
    z = np.concatenate([z, 1 + near * 1e-6, -1 + 1j * near.real * 1e-9, near.real + 1e-12j])
    _assert_near(_assert_is_machine_code(f, z), f(z), 12 if name == "log1p" else 8)


def test_exponentials_minus_one() -> None:
    z = _numbers("D", 4000) * np.geomspace(1e-9, 100, 4000)
    expected = np.expm1(z)
    error = np.abs(_assert_is_machine_code(fnp.expm1, z) - expected)
    assert np.all(error <= 8 * np.finfo(float).eps * np.maximum(np.abs(expected), 1e-300))
    with np.errstate(all="ignore"):
        _assert_near(_assert_is_machine_code(fnp.expm1, _edges("D")), fnp.expm1(_edges("D")), 8)


@together("char", "FD")
@together("exponent", [*range(-5, 6), 9, 99, -99, 0.5, -0.5, 2.5, 1j, 1 + 1j, -2.5 - 0.3j, 120])
def test_traced_exponents_at_all_edges(exponent: complex, char: str) -> None:
    z = np.concatenate([_edges(char), _numbers(char, 40)])
    # NumPy's results for infinities beside NaN, and for subnormals, are those of the C library.
    z = z[~(np.isinf(z) & (np.isnan(z.real) | np.isnan(z.imag)))]
    z = z[(np.abs(z) == 0) | (np.abs(z) >= np.finfo(char).tiny) | ~np.isfinite(z)]
    exponents = np.full(z.shape, exponent, char)
    with np.errstate(all="ignore"):
        result = _assert_is_machine_code(lambda z, y: z**y, z, exponents)
        exact = np.power(z.astype("D"), exponents.astype("D"))  # as machine code does
        expected = np.power(z, exponents) if char == "D" else exact.astype(char)
    _assert_near(result, expected, 3000)


def test_powers_of_numbers_with_numbers() -> None:
    x, y = _numbers("D", 1000), _numbers("D", 1000)[::-1] * 2
    result = _assert_is_machine_code(lambda x, y: x**y, x, y)
    sizes = 1 + np.abs(y * np.log(x))  # by as much the exponential enlarges an error
    assert np.all(np.abs(result - x**y) <= 8 * np.finfo(float).eps * sizes * np.abs(result))
    staged = fg.jit(fg.grad(lambda y: fnp.real(fnp.sum(x**y))), backend="native")
    np.testing.assert_allclose(staged(y), fg.grad(lambda y: fnp.real(fnp.sum(x**y)))(y), rtol=1e-11)


def test_logarithms_near_the_unit_circle_have_all_digits() -> None:
    z = np.exp(1j * np.linspace(0, 7, 100)) * (1 + 1e-9 * np.arange(100))
    result = _assert_is_machine_code(fnp.log, z).real
    beyond = [float(Fraction(w.real) ** 2 + Fraction(w.imag) ** 2 - 1) for w in z.tolist()]
    np.testing.assert_allclose(result, np.log1p(beyond) / 2, rtol=1e-15, atol=0)


REDUCED = {
    "sum": lambda x, y: fnp.sum(x * y, axis=1),
    "sum of all": lambda x, y: fnp.sum(x),
    "sum over the first axis": lambda x, y: fnp.sum(x * y, axis=0),
    "mean": lambda x, y: fnp.mean(x - y, axis=-1),
    "any": lambda x, y: fnp.any(x != y, axis=0),
    "count": lambda x, y: fnp.count_nonzero(x * (y.real > 0)),
    "product of pairs": lambda x, y: fnp.einsum("ij,ij->i", x, y),
    "variance": lambda x, y: fnp.var(x),
}


@together("shape", [(3, 5), (70, 130), (1, 20_000), (20_000, 1), (2, 1)])
@together("char", "DF", quick=1)
@together("name", REDUCED)
def test_sums(name: str, char: str, shape: tuple[int, ...]) -> None:
    f, x = REDUCED[name], _numbers(char, *shape)
    y = x[::-1] + 1
    result, expected = _assert_is_machine_code(f, x, y), np.asarray(f(x, y))
    assert np.asarray(result).dtype == expected.dtype
    np.testing.assert_allclose(result, expected, rtol=3e-5 if char == "F" else 1e-11, atol=1e-6)


MOVED = {
    "turned": lambda x: x.T * x[0, 0],
    "backward": lambda x: x[:, ::-1] - x,
    "every other": lambda x: x[:, ::2] * 2.0,
    "of one": lambda x: x[1:2] * x,
    "its parts": lambda x: x.real[:, ::-1] * x.imag,
    "beside others": lambda x: fnp.concatenate([x * 2, fnp.conj(x)], axis=1),
    "with real ones": lambda x: fnp.concatenate([x, x.real], axis=1),
    "nothing": lambda x: x[:0] * x[:0],
    "a number": lambda x: x[0, 1] * x[1, 0],
}


@together("shape", [(2, 3), (7, 70)])
@together("char", "FD")
@together("name", MOVED)
def test_movements_and_strides(name: str, char: str, shape: tuple[int, ...]) -> None:
    f, x = MOVED[name], _numbers(char, *shape)
    _assert_same(_assert_is_machine_code(f, x), np.asarray(f(fg.tensor(x))))


@pytest.mark.parametrize("char", "FD")
def test_gradients_of_real_numbers_through_complex_ones(char: str) -> None:
    def f(x: Any, z: Any) -> Any:
        return fnp.sum(fnp.real(z * x / (1 + x * 1j)) ** 2)

    z = _numbers(char, 3, 4)
    slope = fg.grad(f, argnums=(0, 1))
    for got, expected in zip(
        _assert_is_machine_code(slope, z.real.copy(), z), slope(z.real, z), strict=True
    ):
        assert np.asarray(got).dtype == np.asarray(expected).dtype
        np.testing.assert_allclose(got, expected, rtol=1e-4 if char == "F" else 1e-12)


def test_python_numbers_and_arrays_of_different_precision() -> None:
    single, double, whole = _numbers("F", 5), _numbers("D", 5), np.arange(5)
    for f in (
        lambda x, y, k: x * y + k,
        lambda x, y, k: k / x,
        lambda x, y, k: x * (1 + 2j),
        lambda x, y, k: x.real * 1j + k,
    ):
        _assert_same(_assert_is_machine_code(f, single, double, whole), f(single, double, whole))
    for x, number in ((single, 1.5 - 2j), (single.real, 2j)):
        result, expected = fg.jit(lambda x, z: x * z + z, backend="native")(x, number), x * number
        assert np.asarray(result).dtype == np.complex64
        np.testing.assert_allclose(result, expected + number, rtol=1e-6)


FOLDED = {
    "prod": lambda x: fnp.prod(x),
    "prod of rows": lambda x: fnp.prod(x, axis=1),
    "prod of columns": lambda x: fnp.prod(x, axis=0),
    "cumsum": lambda x: fnp.cumsum(x, axis=1),
    "cumsum of columns": lambda x: fnp.cumsum(x, axis=0),
    "cumprod": lambda x: fnp.cumprod(x, axis=-1),
    "cumprod of columns": lambda x: fnp.cumprod(x, axis=0),
    "deposit": lambda x: fnp.zeros_like(x).at[np.array([1, 0, 1, -1])].add(x[:1] * 2),
    "factors": lambda x: x.at[:, np.array([0, 0, 1])].multiply(x[:, :3]),
    "picked": lambda x: x[np.array([1, 0, 1]), ::2] * 1j,
}


@together("shape", [(3, 4), (2, 131), (70, 3), (1, 9000)])
@together("char", "FD", quick=1)
@together("name", FOLDED)
def test_folds_scatters_and_gathers(name: str, char: str, shape: tuple[int, ...]) -> None:
    f, x = FOLDED[name], _numbers(char, *shape)
    x /= np.abs(x) ** 0.999  # whose products are no larger
    if shape[0] < 2:
        x = np.concatenate([x, x])
    result, expected = _assert_is_machine_code(f, x), np.asarray(f(fg.tensor(x)))
    assert result.dtype == expected.dtype
    rtol = 1e-3 if char == "F" else 1e-11
    np.testing.assert_allclose(result, expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("f", [fnp.prod, fnp.cumsum, fnp.cumprod, fnp.sum])
def test_folds_of_numbers_that_are_not_finite(f: Callable[..., Any]) -> None:
    staged = fg.jit(lambda x: f(x, axis=1), backend="native")
    for size in (1, 2, 40):
        for edge in (np.inf, -1j * np.inf, complex(np.inf, np.nan), complex(0, np.nan), -0.0):
            x = _numbers("D", 3, size)
            x[1, size // 2] = edge
            with np.errstate(all="ignore"):
                expected = np.asarray(f(fg.tensor(x), axis=1))
            result = np.asarray(staged(x))
            for actual, exact in ((result.real, expected.real), (result.imag, expected.imag)):
                np.testing.assert_allclose(actual, exact, rtol=1e-12)
