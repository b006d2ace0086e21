"""Derivatives of functions of large complex numbers: no NaN where there is a value."""

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.scipy import special
from tests.together import together

SIZES = (0.5, 30.0, 400.0, 720.0, 1e5, 1e10, 1e155, 1e200, 1e300)
PLACES = np.array(
    [complex(s * x, t * y) for x in SIZES for y in SIZES for s in (1, -1) for t in (1, -1)]
)

FUNCTIONS = {
    name: getattr(fnp, name)
    for name in """arccos arccosh arcsin arcsinh arctan arctanh cos cosh exp exp2 expm1 log log10
    log1p log2 reciprocal sin sinc sinh sqrt square tan tanh""".split()
} | {name: getattr(special, name) for name in "digamma erf erfc erfi gamma loggamma".split()}


@together("name", FUNCTIONS)
def test_derivatives_are_numbers_where_values_are(name):
    f = FUNCTIONS[name]
    ones = np.ones_like(PLACES)
    with np.errstate(all="ignore"):
        value, pull = fg.vjp(f, PLACES)
        slope = fg.jvp(f, (PLACES,), (ones,))[1]
        bend = fg.jvp(lambda z: fg.jvp(f, (z,), (ones,))[1], (PLACES,), (ones,))[1]
        (pulled,) = pull(fg.tensor(ones))
    known = np.isfinite(np.asarray(value))
    for derivative in (slope, pulled, bend):
        assert PLACES[known & np.isnan(np.asarray(derivative))].tolist() == []


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_the_slope_of_tanh_has_its_digits_and_its_limit(dtype):
    z = np.array([10 + 1j, -20 + 2j, 50 + 0.5j, 1000 + 1j, -1000 - 3j, 1 + 20j], dtype)
    slope = np.asarray(fg.jvp(fnp.tanh, (z,), (np.ones_like(z),))[1])
    w = np.exp(-2 * np.where(z.real < 0, -z, z).astype(complex))
    np.testing.assert_allclose(
        slope, 4 * w / (1 + w) ** 2, rtol=200 * np.finfo(dtype).eps, atol=1e-37
    )
    turned = np.asarray(fg.jvp(fnp.tan, (1j * z,), (np.ones_like(z),))[1])
    np.testing.assert_allclose(turned, slope, rtol=200 * np.finfo(dtype).eps, atol=1e-37)


def test_polygamma_functions_far_on_the_left_are_reflected():
    z = np.array([-50.25 + 0.5j, -1e10 + 0.5j, -30 + 100j])

    def slopes(z):  # DLMF 5.15.6
        return fg.jvp(special.digamma, (z,), (np.ones_like(z),))[1]

    mirrored = (np.pi / np.sin(np.pi * (z - np.rint(z.real)))) ** 2 - np.asarray(slopes(1 - z))
    np.testing.assert_allclose(slopes(z), mirrored, rtol=1e-13)
    one = -21.3 + 0.4j  # with two terms of Stirling's series less accurate than reflection
    step = 1e-3 * np.array([-2, -1, 1, 2])
    values = np.asarray(special.digamma(one + step))
    expected = (values @ [1, -8, 8, -1]) / 12e-3
    np.testing.assert_allclose(slopes(np.array(one)), expected, rtol=1e-8)


def test_sine_integrals_at_a_complex_origin():
    z = np.array([0j, 1e-9 + 1e-9j])
    for f in (special.sici, special.shichi):
        slope = np.asarray(fg.jvp(lambda z, f=f: f(z)[0], (z,), (np.ones_like(z),))[1])
        np.testing.assert_allclose(slope, 1.0, rtol=1e-15)
