"""At zeros, poles and ends of domains special functions have the mathematical derivatives."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
from funcgrad.errors import ArgumentError, DifferentiationError, MissingOptionError
from funcgrad.scipy import special
from tests.together import together

INF = np.inf


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


FORCED: tuple[tuple[str, tuple[float, ...], tuple[float, ...]], ...] = (
    ("rgamma", (0.0,), (1.0,)),
    ("rgamma", (-1.0,), (-1.0,)),
    ("rgamma", (-2.0,), (2.0,)),
    ("xlogy", (0.0, 0.0), (-INF, 0.0)),
    ("xlog1py", (0.0, -1.0), (-INF, 0.0)),
    ("entr", (0.0,), (INF,)),
    ("entr", (-1.0,), (0.0,)),
    ("kl_div", (0.0, 2.0), (-INF, 1.0)),
    ("kl_div", (0.0, 0.0), (INF, 1.0)),
    ("rel_entr", (-1.0, 2.0), (0.0, 0.0)),
    ("j0", (0.0,), (0.0,)),
    ("j1", (0.0,), (0.5,)),
    ("i0e", (0.0,), (0.0,)),
    ("i1e", (0.0,), (0.5,)),
    ("jv", (2.0, 0.0), (0.0, 0.0)),
    ("iv", (1.0, 0.0), (0.0, 0.5)),
    ("betainc", (1.0, 2.0, 0.0), (0.0, 0.0, 2.0)),
    ("betainc", (2.0, 1.0, 1.0), (0.0, 0.0, 2.0)),
    ("betaincinv", (1.0, 2.0, 0.0), (0.0, 0.0, 0.5)),
    ("gammainc", (1.0, 0.0), (0.0, 1.0)),
    ("gammainc", (0.5, 0.0), (0.0, INF)),
    ("gammainc", (2.0, INF), (0.0, 0.0)),
    ("gammaincinv", (1.0, 0.0), (0.0, 1.0)),
    ("erfinv", (1.0,), (INF,)),
    ("ndtri", (0.0,), (INF,)),
    ("logit", (0.0,), (INF,)),
    ("log_ndtr", (INF,), (0.0,)),
    ("exprel", (0.0,), (0.5,)),
    ("ellipk", (0.0,), (np.pi / 8,)),
    ("ellipe", (1.0,), (-INF,)),
    ("binom", (3.0, 5.0), (-0.05, 0.05)),
    ("kl_div", (-1.0, 1.0), (0.0, 0.0)),
    ("y1", (0.0,), (INF,)),
    ("beta", (1.5, -2.5), (4 * np.pi / 15, 4 * np.pi / 15)),
    ("inv_boxcox", (-1.0, 1.0), (1.0, -1.0)),
    ("voigt_profile", (3.0, 0.0, 1.0), (-0.06 / np.pi, 0.0, 0.08 / np.pi)),
)


@together(("name", "point", "expected"), FORCED)
def test_both_modes(name: str, point: tuple[float, ...], expected: tuple[float, ...]) -> None:
    function: Any = getattr(special, name)
    places = tuple(range(len(point)))
    assert_allclose(np.array(fg.grad(function, places)(*point)), expected, rtol=1e-14)
    forward = [fg.jvp(lambda x, k=k: function(*point[:k], x, *point[k + 1 :]), (point[k],), (1.0,))
               for k in places]  # fmt: skip
    assert_allclose(np.array([slope for _, slope in forward]), expected, rtol=1e-14)


ALONG: dict[str, tuple[Any, float | complex, complex]] = {
    "yv(0.5, z)": (lambda z: special.yv(0.5, z), 0.0, INF),
    "yv(-1.5, z)": (lambda z: special.yv(-1.5, z), 0.0, -INF),
    "beta(1, b)": (lambda b: special.beta(1.0, b), -1.0, -1.0),
    "betaln(a, 2)": (lambda a: special.betaln(a, 2.0), -2.0, 1.5),
    "poch(z, -1.5)": (lambda z: special.poch(z, -1.5), 1.0, -2.1755298459109595),
    "sici(x)[0]": (lambda x: special.sici(x)[0], INF, 0.0),
    "sici(x)[1]": (lambda x: special.sici(x)[1], INF, 0.0),
    "hyp1f1(-1, -1, x)": (lambda x: special.hyp1f1(-1.0, -1.0, x), 0.5, 1.0),
    "hyp2f1(0, 1, 0.5, x)": (lambda x: special.hyp2f1(0.0, 1.0, 0.5, x), 1.0, 0.0),
    "hyp2f1(2, -1, 0.5, x)": (lambda x: special.hyp2f1(2.0, -1.0, 0.5, x), 0.3, -4.0),
    "hyperu(-1, 0.5, x)": (lambda x: special.hyperu(-1.0, 0.5, x), 0.0, 1.0),
    "rgamma(0j)": (special.rgamma, 0j, 1.0),
    "rgamma(-2 + 0j)": (special.rgamma, -2 + 0j, 2.0),
    "log_ndtr(0j)": (special.log_ndtr, 0j, np.sqrt(2 / np.pi)),
    "wofz(z), at the left below": (special.wofz, -1e200 - 1e160j, 0.0),
}


@together("name", ALONG)
def test_slopes_along_one_argument(name: str) -> None:
    function, at, expected = ALONG[name]
    slope = fg.jvp(function, (at,), (type(at)(1),))[1]
    assert_allclose(np.array(slope), expected, rtol=4e-15)
    if isinstance(at, float):
        assert_allclose(np.array(fg.grad(function)(at)), expected, rtol=4e-15)


TINY = {
    "gammaincinv": ((0.01,), 0.02, 100.0),
    "betaincinv": ((0.01, 5.62), 0.01, 100.0),
    "stdtrit": ((0.02,), 0.01, -50.0),
}
"""Quantiles that are proportional to a power of the level, about 1e-160 or -1e91."""


@pytest.mark.parametrize("name", TINY)
def test_second_derivatives_of_extreme_quantiles(name: str) -> None:
    shapes, level, power = TINY[name]

    def quantile(p: Any) -> Any:
        return getattr(special, name)(*shapes, p)

    x = float(quantile(level))
    assert_allclose(np.array(fg.grad(quantile)(level)), power * x / level, rtol=1e-13)
    second = np.array(fg.grad(fg.grad(quantile))(level))
    assert_allclose(second, power * (power - 1) * x / level / level, rtol=1e-13)
    to_shape = fg.grad(lambda a: getattr(special, name)(a, *shapes[1:], level))
    there, beside = np.array(to_shape(shapes[0])), np.array(to_shape(shapes[0] * (1 + 1e-7)))
    rise = np.array(fg.grad(to_shape)(shapes[0]))
    assert_allclose((beside - there) / (shapes[0] * 1e-7), rise, rtol=1e-4)


def test_second_orders() -> None:
    assert_allclose(fg.grad(fg.grad(special.rgamma))(0.0), 2 * np.euler_gamma, rtol=1e-14)
    assert_allclose(fg.grad(fg.grad(special.j0))(0.0), -0.5)
    assert_allclose(fg.grad(fg.grad(special.exprel))(0.0), 1 / 3, rtol=1e-14)
    assert_allclose(fg.grad(fg.grad(special.xlogy, 0), 1)(0.0, 2.0), 0.5)
    assert_allclose(fg.grad(fg.grad(special.xlogy, 1), 0)(0.0, 2.0), 0.5)


def test_sums_of_exponentials_with_infinities_and_weights() -> None:
    slope = fg.grad(special.logsumexp)
    assert_allclose(slope(fg.tensor([-INF, -INF])), [0.0, 0.0])
    assert_allclose(slope(fg.tensor([INF, 1.0])), [1.0, 0.0])
    to_weights = fg.grad(lambda b: special.logsumexp([1.0, 2.0], b=b))(fg.tensor([0.0, 1.0]))
    assert_allclose(to_weights, [np.exp(-1.0), 1.0], rtol=1e-14)
    logarithm, sign = special.logsumexp([1.0, 2.0], b=[1.0, -1.0], return_sign=True)
    assert_allclose([float(logarithm), float(sign)], [np.log(np.e**2 - np.e), -1.0], rtol=1e-14)
    assert np.isnan(float(special.logsumexp([1.0, 2.0], b=[1.0, -1.0])))
    assert special.logsumexp(np.zeros((2, 0)), axis=1).tolist() == [-INF, -INF]
    assert_allclose(special.softmax([INF, 0.0]), [1.0, 0.0])


@pytest.mark.parametrize("theta", [-0.5, 3.5, -3.5, 6.0, 9.0])
def test_harmonics_beyond_the_poles_have_the_derivative_of_their_values(theta: float) -> None:
    n, m = np.array([2, 2, 3, 1, 3]), np.array([1, -1, 3, 0, -2])
    fg.testing.check_grads(lambda t: special.sph_harm_y(n, m, t, 0.4), (theta,))


@pytest.mark.parametrize(("pole", "within"), [(0.0, 1e-9), (np.pi, np.pi - 1e-9)])
def test_harmonics_at_the_poles_have_the_derivative_from_within(pole: float, within: float) -> None:
    slope = fg.grad(lambda t: special.sph_harm_y(2, 1, t, 0.0).real)
    assert_allclose(slope(pole), slope(within), rtol=1e-8)


def test_a_derivative_that_is_not_known_is_an_error() -> None:
    with pytest.raises(DifferentiationError, match="hyp1f1: the derivative with respect to a is n"):
        fg.grad(special.hyp1f1)(1.0, 1.0, 0.5)
    with pytest.raises(DifferentiationError, match="jv: the derivative with respect to the order"):
        fg.grad(lambda v: special.jv(v, 1.0 + 1.0j).real)(0.5)
    with pytest.raises(DifferentiationError, match="for arguments up to 3000"):
        fg.grad(special.jv)(4000.5, 5000.0)
    with pytest.raises(MissingOptionError, match="sph_harm_y: diff_n=1 is not available"):
        special.sph_harm_y(1, 0, 0.5, 0.5, diff_n=1)
    with pytest.raises(ArgumentError, match="multigammaln: the dimension d is at least 1"):
        special.multigammaln(3.0, 0)
    with pytest.raises(ArgumentError, match="factorial: extend has to be one of"):
        special.factorial(3.0, extend="other")  # type: ignore[arg-type]


def test_an_order_that_is_nan_has_no_value() -> None:
    assert np.isnan(special.expn([np.nan, 1.0], 1.0)).tolist() == [True, False]


def test_integers_count_as_float64() -> None:
    found = special.multigammaln(np.int8(7), 2)
    assert found.dtype == np.float64
    assert_allclose(found, 12.814178214791943, rtol=1e-14)


def test_the_slope_of_a_gamma_density_at_zero() -> None:
    """The densities are x exp(-x) and x² exp(-x) / 2."""
    slopes = [fg.grad(fg.grad(lambda x, a=a: special.gammainc(a, x)))(0.0) for a in (2.0, 3.0)]
    assert_allclose(slopes, [1.0, 0.0], atol=1e-14)
