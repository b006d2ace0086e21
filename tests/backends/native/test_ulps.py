"""Functions on vectors: close to the exact results, and the same bits in every vector."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import funcgrad as fg

pytest.importorskip("llvmlite")

from funcgrad._backends.native.coefficients import PIECES, POLYNOMIALS, TWO_OVER_PI
from tests.backends.native import fits
from tests.backends.native.ulps import greatest
from tests.backends.native.vector_functions import (
    AVX2,
    GENERIC,
    HOST,
    VectorFunction,
    approximated,
    draws,
)
from tests.conformance import in_turn

FUNCTIONS = approximated()
DTYPES = [np.dtype(np.float64), np.dtype(np.float32)]

extended = pytest.mark.skipif(
    np.finfo(np.longdouble).nmant < 63, reason="there is no reference in extended precision"
)


def test_there_are_functions() -> None:
    assert len(FUNCTIONS) > 20


def test_the_coefficients_are_those_that_are_fitted() -> None:
    assert fits.polynomials() == {name: {**table} for name, table in POLYNOMIALS.items()}
    assert fits.constants() == {name: {**table} for name, table in PIECES.items()}
    assert fits.words_of_two_over_pi() == TWO_OVER_PI


@pytest.mark.slow
@extended
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("ufunc", FUNCTIONS, ids=lambda ufunc: ufunc.__name__)
def test_functions_are_within_two_units(ufunc: np.ufunc, dtype: np.dtype[np.generic]) -> None:
    for machine, count in ((HOST, 30_000), (GENERIC, 10_000), (AVX2, 10_000)):
        if machine is AVX2 and "+avx2" not in HOST.features:
            continue
        assert greatest(VectorFunction(ufunc, dtype, machine), count) <= 2


@pytest.mark.parametrize("name", ["erf", "erfc"])
def test_error_functions_are_within_two_units(name: str) -> None:
    x = np.concatenate(
        [np.random.default_rng(0).uniform(low, high, 700) for low, high in ((-6, 6), (-1, 1))]
        + [np.linspace(0.4, 27.5, 700), [0.0, -0.0, 1e-300, 5e-324, 40.0, -40.0, np.inf, -np.inf]]
    )
    actual = np.asarray(fg.jit(getattr(fg.scipy.special, name), backend="native")(x))
    with mpmath.workdps(40):
        exact = [getattr(mpmath, name)(mpmath.mpf(float(number))) for number in x]
        away = [float(abs(mpmath.mpf(float(a)) - e)) for a, e in zip(actual, exact, strict=True)]
    nearest = np.array([float(number) for number in exact])
    assert max(np.array(away) / np.spacing(np.abs(nearest))) <= 2
    negative = np.signbit(x) if name == "erf" else np.zeros(x.shape, bool)  # mpmath has one zero
    np.testing.assert_array_equal(np.signbit(actual), negative)
    assert np.isnan(fg.jit(getattr(fg.scipy.special, name), backend="native")(np.nan))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("ufunc", FUNCTIONS, ids=lambda ufunc: ufunc.__name__)
def test_bits_do_not_depend_on_lanes_or_on_the_optimizer(
    ufunc: np.ufunc, dtype: np.dtype[np.generic]
) -> None:
    """In each precision with two of four kinds of code; over all functions it is all of them."""
    kinds_of_code = ((0, 0), (1, 2), (1, 0), (2, 2))
    turn = FUNCTIONS.index(ufunc) + DTYPES.index(dtype)
    for machine, count in ((HOST, 2), (GENERIC, 1)):
        kinds = in_turn(kinds_of_code, turn, count)
        functions = [
            VectorFunction(ufunc, dtype, machine, width, level) for width, level in ((0, 2), *kinds)
        ]
        for operands in draws(ufunc, dtype, 2_000, seed=1):
            first, *others = [function(*operands) for function in functions]
            for other in others:
                np.testing.assert_array_equal(other, first)
                both = np.isnan(first)
                np.testing.assert_array_equal(np.signbit(other) | both, np.signbit(first) | both)
