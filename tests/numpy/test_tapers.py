"""The Bessel function in Kaiser's window and its derivatives are exact to the last digits."""

from typing import Any

import mpmath
import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import DtypeError, ShapeError
from tests.together import refused

POINTS = [-650.0, -20.0, -1.5, -1e-3, 1e-200, 1e-8, 0.3, 2.0, 7.9, 8.1, 45.0, 300.0, 709.0]


def derivative(order: int, x: Any) -> Any:
    """The derivatives of I₀ by Bessel functions of higher orders: I' = (I₋ + I₊) / 2."""
    bessel = [mpmath.besseli(n, x) for n in range(4)]
    i0, i1, i2, i3 = bessel
    return [i0, i1, (i0 + i2) / 2, (3 * i1 + i3) / 4][order]


@pytest.mark.parametrize("order", [0, 1, 2, 3])
def test_derivatives_have_their_digits_over_the_whole_range(order: int) -> None:
    f: Any = fnp.i0
    for _ in range(order):
        f = fg.grad(f)
    with mpmath.workdps(60):
        for x in POINTS:
            expected = float(derivative(order, mpmath.mpf(x)))
            assert abs(float(f(x)) - expected) <= 1e-13 * abs(expected), x


def test_it_is_even_and_one_at_zero() -> None:
    assert fnp.i0(0.0) == 1.0
    assert fg.grad(fnp.i0)(0.0) == 0.0
    assert fg.grad(fg.grad(fnp.i0))(0.0) == pytest.approx(0.5, rel=1e-14)
    assert fnp.i0(np.inf) == fnp.i0(-np.inf) == np.inf


def test_a_window_is_differentiable_in_its_parameter() -> None:
    fg.testing.check_grads(lambda beta: fnp.kaiser(7, beta), (4.5,))
    np.testing.assert_allclose(fg.jacfwd(lambda beta: fnp.kaiser(5, beta))(0.0), np.zeros(5))
    assert fnp.kaiser(0, 2.0).shape == (0,)
    assert fnp.kaiser(1, 2.0).tolist() == [1.0]


test_words = refused(
    [
        (lambda: fnp.i0(1j), DtypeError, "i0: x has to be real"),
        (lambda: fnp.kaiser(3, 1j), ShapeError, "beta has to be a real number"),
        (lambda: fnp.kaiser(3, [1.0, 2.0]), ShapeError, "beta has to be a real number"),
        (lambda: fnp.hanning("3"), DtypeError, "hanning: M has to be a real number"),  # type: ignore[arg-type]
    ]
)
