"""Distributions have SciPy's values; their derivatives agree with differences of these."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import scipy.stats
from mpmath import mp
from numpy.testing import assert_allclose

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ImmutableError, MissingAttributeError, MissingOptionError, ShapeError
from funcgrad.scipy import stats
from funcgrad.scipy.stats.distributions import ContinuousDistribution, DiscreteDistribution
from funcgrad.testing import laws
from tests.together import together
from tests.tools.digits.twins import twin_of

CONTINUOUS = sorted(
    name for name in stats.__all__ if isinstance(getattr(stats, name), ContinuousDistribution)
)
DISCRETE = sorted(
    name for name in stats.__all__ if isinstance(getattr(stats, name), DiscreteDistribution)
)
SHAPES: dict[str, tuple[tuple[float, ...], ...]] = {
    "beta": ((2.5, 0.7), (1.0, 3.0), (30.0, 2.0)),
    "chi2": ((1.0,), (3.5,), (40.0,)),
    "gamma": ((0.6,), (1.0,), (25.0,)),
    "f": ((2.0, 5.0), (1.5, 0.8), (30.0, 12.0)),
    "genextreme": ((0.4,), (0.0,), (-0.3,), (-1.7,)),
    "gennorm": ((0.6,), (1.0,), (2.0,), (3.7,)),
    "invgamma": ((0.6,), (2.5,), (25.0,)),
    "lognorm": ((0.5,), (1.7,)),
    "skewnorm": ((0.7,), (-3.5,), (0.0,), (40.0,)),
    "truncnorm": ((-0.7, 1.2), (0.3, 9.0), (-4.0, 0.2), (-np.inf, 0.5)),
    "vonmises": ((0.7,), (0.0,), (12.0,)),
    "wrapcauchy": ((0.3,), (0.95,)),
    "pareto": ((0.8,), (3.5,)),
    "weibull_min": ((0.7,), (1.0,), (2.5,)),
    "t": ((1.0,), (4.5,), (60.0,), (1e8,)),
    "betabinom": ((7.0, 0.6, 2.5), (1.0, 1.0, 1.0), (40.0, 30.0, 0.4)),
    "bernoulli": ((0.3,), (0.0,), (1.0,)),
    "binom": ((7.0, 0.3), (1.0, 1.0), (40.0, 0.5)),
    "geom": ((0.3,), (1.0,)),
    "nbinom": ((2.5, 0.3), (1.0, 0.9)),
    "poisson": ((0.4,), (12.0,), (0.0,)),
}
EXACT: dict[str, Any] = {"rtol": 3e-13, "atol": 1e-300}
TOLERANCES: dict[str, dict[str, Any]] = {
    # SciPy's probabilities in tails have 5 digits; mpmath's are compared below.
    "skewnorm": {"rtol": 1e-4, "atol": 1e-14},
    "vonmises": {"rtol": 1e-4, "atol": 1e-14},
    "wrapcauchy": {"rtol": 3e-13, "atol": 1e-15},
}
PLACES = ((0.0, 1.0), (-0.3, 2.0))
VALUES = (-np.inf, -30.0, -1.2, -0.3, 0.0, 0.2, 0.7, 1.0, 1.7, 2.4, 3.0, 9.0, 60.0, np.inf, np.nan)
LEVELS = (0.0, 1e-12, 0.02, 0.3, 0.5, 0.8, 0.999, 1.0, -0.1, 1.1, np.nan)
METHODS = ("logpdf", "pdf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")
MOMENTS = ("mean", "var", "std", "entropy")


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def test_every_distribution_is_compared() -> None:
    rest = {"dirichlet", "multinomial", "multivariate_normal"}
    rest |= {"gaussian_kde", "mode", "rankdata", "sem"}  # compared in test_samples
    assert set(CONTINUOUS) | set(DISCRETE) | rest == set(stats.__all__)


@together("level", [1e-120, 1e-20, 1e-12], quick=1)
@together("name", CONTINUOUS)
def test_quantiles_of_small_levels(name: str, level: float) -> None:
    distribution = getattr(stats, name)
    shapes = {"truncnorm": ((-10.0, 12.0), (-np.inf, np.inf)), "f": ((2.0, 5.0),)}
    for args in shapes.get(name, SHAPES.get(name, ((),))):
        for side, probability, turn in (("ppf", "cdf", 1), ("isf", "sf", -1)):
            x = float(getattr(distribution, side)(level, *args))
            step = turn * (1e-11 * abs(x) + 1e-290)
            before, after = (
                float(getattr(distribution, probability)(x + s, *args)) for s in (-step, step)
            )
            assert before <= level * (1 + 1e-8), (args, side, x)
            assert level * (1 - 1e-8) <= after, (args, side, x)


def pair(name: str, method: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return getattr(getattr(stats, name), method), getattr(getattr(scipy.stats, name), method)


@together("method", METHODS)
@together("name", CONTINUOUS)
def test_values_are_scipys(name: str, method: str) -> None:
    ours, theirs = pair(name, method)
    x = np.array(LEVELS if method in ("ppf", "isf") else VALUES)
    for shapes, (loc, scale) in product(SHAPES.get(name, ((),)), PLACES):
        expected = theirs(x, *shapes, loc, scale)
        found = np.asarray(ours(x, *shapes, loc, scale))
        if method in ("logpdf", "pdf"):  # where SciPy's is NaN: infinity minus infinity
            expected = np.where(np.isinf(x), -np.inf if method == "logpdf" else 0.0, expected)
        if method in ("ppf", "isf"):  # SciPy's quantiles of small levels may lose digits
            back = getattr(getattr(scipy.stats, name), {"ppf": "cdf", "isf": "sf"}[method])
            ahead, behind = (back(z, *shapes, loc, scale) for z in (found, expected))
            better = (x < 1e-9) & (np.abs(ahead - x) <= np.abs(behind - x))
            expected = np.where(better & (np.abs(ahead / x - 1) < 1e-12), found, expected)
        if name in ("gennorm", "skewnorm", "truncnorm", "vonmises"):  # SciPy's lose digits in tails
            lost = np.isfinite(x) & (np.asarray(found) < (-30 if name == "skewnorm" else -300))
            lost &= method.startswith("log")
            expected = np.where(lost, found, expected)
        if (name, method) == ("halfnorm", "logsf"):  # SciPy's is -inf where the probability is 0
            lost = np.isneginf(expected) & np.isfinite(x)
            logarithm = scipy.stats.norm.logsf((x - loc) / scale) + np.log(2)
            expected = np.where(lost, logarithm, expected)
        assert_allclose(
            found, expected, **TOLERANCES.get(name, EXACT), err_msg=f"{shapes}, {loc}, {scale}"
        )


FAR: dict[str, tuple[tuple[float, ...], ...]] = {
    "f": ((1e-40, 3.0, 4.0), (1e9, 2.0, 5.0), (40.0, 300.0, 200.0)),
    "genextreme": ((2.49, 0.4), (-8.0, 0.4), (300.0, -0.3), (-2.0, 1e-7), (30.0, -1e-3)),
    "gennorm": ((-70.0, 1.5), (1e-9, 0.6), (0.79, 3.0), (40.0, 1.2)),
    "invgamma": ((2e-3, 1.5), (1e12, 3.0)),
    "rayleigh": ((1e-9,), (60.0,)),
    "skewnorm": ((-60.0, -3.0), (-7.0, 2.0), (-0.01, 40.0), (0.02, 30.0), (20.0, -4.0), (3.0, 8.0)),
    "truncnorm": (
        (50.0, 49.0, 52.0),
        (0.0000001, 0.0, 5.0),
        (1.0000002, 1.0, 1.0000005),
        (-3.0, -9.0, 8.0),
        (-41.0, -45.0, -40.0),
        (0.3, -0.5, 0.9),
        (-0.4, -0.5, 300.0),
    ),
    "vonmises": ((-3.1, 12.0), (-0.4, 900.0), (-0.001, 1e6), (2.0, 0.0), (1.5, 70.0)),
    "wrapcauchy": ((1e-8, 0.3), (3.0, 0.95), (6.2, 0.5)),
}


@pytest.mark.slow
@together("name", sorted(FAR))
def test_probabilities_have_their_digits_in_tails(name: str) -> None:
    with mp.workdps(40):
        for point in FAR[name]:
            for method in METHODS[:6]:
                found = float(getattr(getattr(stats, name), method)(*point))
                exact = twin_of(name, method)(*map(mp.mpf, point), mp.mpf(1))
                where = f"{name}.{method}{point}"
                # Of a logarithm near 0 the probability itself has the digits.
                assert abs(found - exact) <= 2e-13 * abs(exact) + 1e-300, where
            for method, inverse in (("cdf", "ppf"), ("sf", "isf")):
                level = getattr(getattr(stats, name), method)(*point)
                if 1e-280 < float(level) < 0.4:
                    back = getattr(getattr(stats, name), inverse)(level, *point[1:])
                    assert_allclose(
                        back, point[0], rtol=1e-11, atol=1e-15, err_msg=f"{name}.{inverse}{point}"
                    )


UNROLLED = ("skewnorm", "ppf")
"""Steps of Newton's method on Owen's function: to stage them takes as long as all else."""


@pytest.mark.slow
@together("method", METHODS)
@pytest.mark.parametrize("name", CONTINUOUS)
def test_every_mode(name: str, method: str) -> None:
    """First derivatives at two places inside of the support, and at one of them second ones for
    one choice of shapes, which takes turns; compiled for some methods. Of ``isf``, which is
    ``ppf`` from the other side, for the last shapes only."""
    ours, theirs = pair(name, method)
    places = (0.03, 0.4, 0.8) if method in ("ppf", "isf") else (0.05, 0.35, 0.9, 1.4, -0.8)
    # Steps of differences from an infinite shape, or one at an end, have no meaning.
    choices = [s for s in SHAPES.get(name, ((),)) if np.all(np.isfinite(s))]
    choices = choices if name != "vonmises" else choices[::2]
    for turn, shapes in enumerate(choices[-1:] if method == "isf" else choices):
        twice = turn == [*METHODS].index(method) % len(choices)
        points = [(x, *shapes, 0.02, 1.3) for x in places]
        inside = [p for p in points if np.isfinite(theirs(*p)) and theirs(*p) != 0]
        middle = len(inside) // 2
        for number, point in enumerate(inside):
            if number in (0, middle):
                fg.testing.check_grads(ours, point, order=2 if twice and number == middle else 1)
        if method in ("logpdf", "sf", "ppf") and turn == 0 and (name, method) != UNROLLED:
            laws.jit_is_eager(ours, inside[middle])


def moment_of_an_angle(method: str, kappa: float, loc: float, scale: float) -> float:
    """Fourier's series: SciPy's integrals take seconds, and have 9 digits."""
    if method == "mean":
        return loc
    k = np.arange(1, 200)
    shares = (-1.0) ** k * scipy.special.ive(k, kappa) / scipy.special.i0e(kappa) / k**2
    variance = scale**2 * float(np.pi**2 / 3 + 4 * np.sum(shares))
    return variance if method == "var" else variance**0.5


@together("method", MOMENTS)
@together("name", CONTINUOUS + DISCRETE)
def test_moments_are_scipys(name: str, method: str) -> None:
    if method == "entropy" and name in DISCRETE:
        return
    ours, theirs = pair(name, method)
    places = PLACES if name in CONTINUOUS else ((0.0,), (2.0,))
    for shapes, place in product(SHAPES.get(name, ((),)), places):
        # SciPy's entropies of some distributions are integrals by quadrature.
        tolerance = 1e-8 if method == "entropy" else 1e-12
        if name == "vonmises" and method in ("mean", "var", "std"):
            expected = moment_of_an_angle(method, *shapes, *place)
        else:
            expected = theirs(*shapes, *place)
        if (name, method) == ("truncnorm", "entropy") and np.isnan(expected):
            continue  # SciPy's is NaN where an end is infinite
        assert_allclose(ours(*shapes, *place), expected, rtol=tolerance, atol=1e-15)
        point = np.array([*shapes, *place])
        smooth = np.isfinite(expected) and expected > 0 and (0 < point[0] < 1 or shapes == ())
        if smooth and place == places[-1]:
            fg.testing.check_grads(lambda p, f=ours: f(*p), (point,), order=2)


def test_infinitely_many_degrees_of_freedom_are_the_normal_distribution() -> None:
    for method in MOMENTS:
        expected = getattr(scipy.stats.norm, method)()
        found = [getattr(stats.t, method)(df) for df in (1e12, np.inf)]
        assert_allclose(found, expected, rtol=1e-11)
        assert_allclose(fg.grad(getattr(stats.t, method))(1e12), 0.0, atol=1e-20)


@together("name", CONTINUOUS + DISCRETE)
def test_frozen_distributions_are_the_same(name: str) -> None:
    distribution = getattr(stats, name)
    shapes = SHAPES.get(name, ((),))[0]
    frozen = distribution(*shapes, loc=0.5)
    assert set(dir(frozen)) >= {"cdf", "logcdf", "sf", "logsf", "mean", "var", "std"}
    for method in dir(frozen):
        given = () if method in MOMENTS else (0.5,)
        direct = getattr(distribution, method)(*given, *shapes, loc=0.5)
        assert_allclose(getattr(frozen, method)(*given), direct, rtol=1e-15)

    def likelihood(*shapes: Any) -> Any:
        return distribution(*shapes, loc=0.0).logcdf(1.2)

    point = [fg.tensor(x) for x in shapes]
    if point:
        expected = fg.grad(lambda *s: distribution.logcdf(1.2, *s))(*point)
        assert float(fg.grad(likelihood)(*point)) == float(expected)


def test_frozen_distributions_of_vectors_and_what_they_refuse() -> None:
    mean, cov = np.array([1.0, 2.0, 0.5]), np.diag([1.0, 2.0, 3.0])
    peer = scipy.stats.multivariate_normal(mean, cov).logpdf(mean + 0.1)
    assert_allclose(stats.multivariate_normal(mean, cov).logpdf(mean + 0.1), peer, rtol=1e-13)
    peer = scipy.stats.multivariate_normal(cov=2.0).pdf(0.3)
    assert_allclose(stats.multivariate_normal(cov=2.0).pdf(0.3), peer, rtol=1e-13)


def test_vectors_of_a_stack_lie_along_its_last_axis() -> None:
    x = np.linspace(-1.0, 2.0, 12).reshape(4, 3)
    for cov in (2.0, np.array([1.0, 2.0, 0.5]), np.diag([1.0, 2.0, 0.5]) + 0.1):
        peer = scipy.stats.multivariate_normal(np.zeros(3), cov).logpdf(x)
        assert_allclose(stats.multivariate_normal.logpdf(x, cov=cov), peer, rtol=1e-13)
    column = x[:, :1]
    peer = scipy.stats.multivariate_normal(0.5, 2.0).logpdf(column)
    assert_allclose(stats.multivariate_normal.logpdf(column, 0.5, 2.0).ravel(), peer, rtol=1e-13)
    shares = np.array([[0.2, 0.3, 0.5], [0.1, 0.6, 0.3]])
    peer = scipy.stats.dirichlet([1.5, 2.0, 3.0]).logpdf(shares.T)
    assert_allclose(stats.dirichlet.logpdf(shares.T, [1.5, 2.0, 3.0]), peer, rtol=1e-13)


@pytest.mark.parametrize("p", [0.1, 0.5, 0.7, 0.95])
def test_first_successes_are_likely_and_rare(p: float) -> None:
    k = np.arange(1.0, 6.0)
    for method in ("cdf", "sf", "logcdf", "logsf"):
        ours, theirs = pair("geom", method)
        assert_allclose(ours(k, p), theirs(k, p), rtol=1e-10)  # SciPy's log(cdf) rounds
    alpha, x = np.array([0.7, 1.2]), np.array([0.4, 0.6])
    assert_allclose(stats.dirichlet(alpha).pdf(x), scipy.stats.dirichlet(alpha).pdf(x), rtol=1e-13)
    with pytest.raises(MissingAttributeError, match="norm: there is no 'rvs' here"):
        _ = stats.norm().rvs
    with pytest.raises(ImmutableError, match="norm: a frozen distribution does not change"):
        stats.norm().loc = 1.0  # type: ignore[misc, unused-ignore]
    with pytest.raises(MissingOptionError, match="gamma: the parameters are a, loc, scale"):
        stats.gamma()


@together("method", ["logpmf", "pmf", "cdf", "sf", "logcdf", "logsf"])
@pytest.mark.parametrize("name", DISCRETE)
def test_masses_are_scipys(name: str, method: str) -> None:
    ours, theirs = pair(name, method)
    k = np.array([-2.0, -0.5, 0.0, 0.5, 1.0, 2.0, 5.0, 7.0, 8.0, 30.0, 100.0])
    # SciPy's logarithms of some probabilities near 1 have the digits of these alone.
    rounding = 3e-16 if method in ("logcdf", "logsf") else 1e-300
    for shapes, loc in product(SHAPES[name], (0, 2)):
        expected = theirs(k, *shapes, loc)
        found = ours(k, *shapes, loc)
        assert_allclose(found, expected, rtol=2e-13, atol=rounding, err_msg=str(shapes))


@together("method", ["logpmf", "cdf", "sf"])
@pytest.mark.parametrize("name", DISCRETE)
def test_masses_differentiate_in_their_parameters(name: str, method: str) -> None:
    ours, theirs = pair(name, method)
    shapes = SHAPES[name][0]
    last = len(shapes) - 1
    for k in (0.0, 1.0, 3.0):
        slope = float(fg.grad(ours, last + 1)(k, *shapes))
        h = 1e-5
        up, down = ((*shapes[:last], shapes[last] + d) for d in (h, -h))
        expected = (theirs(k, *up) - theirs(k, *down)) / (2 * h)
        assert_allclose(slope, np.nan_to_num(expected), rtol=1e-6, atol=1e-9)
        assert float(fg.grad(ours, 0)(k, *shapes)) == 0.0


@pytest.mark.parametrize("count", [1.0, 5.0])
def test_all_of_a_count_has_the_slope_of_its_formula(count: float) -> None:
    p, digamma = 0.3, scipy.special.psi
    for k in np.arange(count + 1):
        slope = digamma(count + 1) - digamma(count - k + 1) + np.log1p(-p)
        assert_allclose(fg.grad(stats.binom.logpmf, 1)(k, count, p), slope, rtol=1e-13)
        mass = scipy.stats.binom.pmf(k, count, p)
        assert_allclose(fg.grad(stats.binom.pmf, 1)(k, count, p), mass * slope, rtol=1e-12)
        many = fg.vmap(fg.grad(stats.binom.logpmf, 1), in_axes=(0, None, None))
        assert_allclose(many(np.array([k, 9.0]), count, p), [slope, 0.0], rtol=1e-13)
    change = fg.grad(fg.grad(stats.binom.logpmf, 1), 1)(count, count, p)
    polygamma = scipy.special.polygamma
    assert_allclose(change, polygamma(1, count + 1) - polygamma(1, 1), rtol=1e-12)


@together("name", CONTINUOUS)
def test_at_ends_of_the_support_derivatives_are_those_from_inside(name: str) -> None:
    distribution = getattr(stats, name)
    for shapes in SHAPES.get(name, ((),)):
        ends = (distribution.low, 1.0), (distribution.high, -1.0)
        for (end, inwards), method in product(ends, METHODS[:6]):
            if not np.isfinite(end):
                continue
            slopes = fg.grad(getattr(distribution, method), tuple(range(len(shapes) + 3)))
            at = slopes(end, *shapes, 0.0, 1.0)
            near, nearer = (slopes(end + inwards * h, *shapes, 0.0, 1.0) for h in (1e-9, 1e-12))
            for k, (here, first, second) in enumerate(zip(at, near, nearer, strict=True)):
                settled = abs(first - second) <= 1e-6 * abs(second) or abs(second) < 1e-6
                if settled and np.isfinite(here):
                    assert_allclose(here, second, rtol=1e-5, atol=2e-6, err_msg=f"{method}, {k}")


@together("name", CONTINUOUS)
def test_outside_of_the_support_derivatives_are_absent(name: str) -> None:
    distribution = getattr(stats, name)
    if not np.isfinite(distribution.low):
        return
    shapes = SHAPES.get(name, ((),))[0]
    for method in ("logpdf", "pdf", "cdf", "sf"):
        found = fg.grad(getattr(distribution, method), tuple(range(len(shapes) + 3)))
        for slope in found(-1.5, *shapes, 0.0, 2.0):
            assert float(slope) == 0.0


INVALID = {"genextreme": (np.inf,), "skewnorm": (np.nan,), "truncnorm": (2.0, 1.0)}


@together("name", CONTINUOUS)
def test_parameters_that_are_none_give_nan(name: str) -> None:
    distribution = getattr(stats, name)
    shapes = SHAPES.get(name, ((),))[0]
    assert np.isnan(float(distribution.logpdf(0.5, *shapes, 0.0, -1.0)))
    if shapes:
        wrong = INVALID.get(name, (-1.0, *shapes[1:]))
        assert np.isnan(float(distribution.cdf(0.5, *wrong)))
        assert np.isnan(float(getattr(scipy.stats, name).cdf(0.5, *wrong)))


def test_parameters_by_name() -> None:
    assert float(stats.gamma.pdf(1.0, a=2.0, scale=2.0)) == float(
        stats.gamma.pdf(1.0, 2.0, 0.0, 2.0)
    )
    with pytest.raises(MissingOptionError, match=r"gamma\.pdf: the parameters are a, loc, scale"):
        stats.gamma.pdf(1.0)
    with pytest.raises(MissingOptionError, match="1 by position and a, b by name"):
        stats.gamma.pdf(1.0, 2.0, a=2.0, b=1.0)
    with pytest.raises(MissingOptionError, match="1 by position and a by name"):
        stats.gamma.pdf(1.0, 2.0, a=2.0)
    with pytest.raises(MissingOptionError, match="4 by position and none by name"):
        stats.gamma.pdf(1.0, 2.0, 0.0, 1.0, 3.0)


# ---------------------------------------------------------------------------------- vectors


COVARIANCE = np.array([[2.0, 0.3, 0.1], [0.3, 1.0, -0.2], [0.1, -0.2, 0.5]])


@pytest.mark.parametrize("method", ["logpdf", "pdf"])
def test_normal_vectors_are_scipys(method: str) -> None:
    ours, theirs = pair("multivariate_normal", method)
    rng = np.random.default_rng(0)
    x, mean = rng.standard_normal((4, 2, 3)), rng.standard_normal(3)
    for args in (
        (x, mean, COVARIANCE),
        (x[0, 0], mean, COVARIANCE),
        (x, mean, np.array([1.0, 2.0, 3.0])),
        (x, mean, 2.0),
        (x, None, COVARIANCE),
        (0.5, 0.1, 2.0),
        (np.array([0.5, 1.5]), np.array([0.2]), np.array([[2.0]])),
    ):
        assert_allclose(ours(*args), theirs(*args), rtol=1e-13)
    with pytest.raises(ShapeError, match="do not fit"):
        ours(x, mean, np.eye(2))


def test_normal_vectors_differentiate_in_all_parameters() -> None:
    rng = np.random.default_rng(1)
    x, mean = rng.standard_normal((5, 3)), rng.standard_normal(3)

    def f(x: Any, mean: Any, cov: Any) -> Any:
        return fnp.sum(stats.multivariate_normal.logpdf(x, mean, (cov + cov.T) / 2))

    inverse = np.linalg.inv(COVARIANCE)
    to_x, to_mean, to_cov = fg.grad(f, (0, 1, 2))(x, mean, COVARIANCE)
    pulls = (x - mean) @ inverse
    assert_allclose(to_x, -pulls, rtol=1e-12)
    assert_allclose(to_mean, pulls.sum(0), rtol=1e-12)
    assert_allclose(to_cov, (pulls.T @ pulls - 5 * inverse) / 2, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("method", ["logpdf", "pdf"])
def test_dirichlet_is_scipys(method: str) -> None:
    ours, theirs = pair("dirichlet", method)
    alpha = np.array([0.7, 1.0, 3.5])
    x = np.random.default_rng(2).dirichlet(alpha, 4).T
    assert_allclose(ours(x, alpha), theirs(x, alpha), rtol=2e-13)
    assert_allclose(ours(x[:2, 0], alpha), theirs(x[:2, 0], alpha), rtol=1e-12)
    with pytest.raises(ShapeError, match="do not fit"):
        ours(x, alpha[:1])
    slope = fg.grad(lambda a: stats.dirichlet.logpdf(x[:, 0], a))(alpha)
    digamma = scipy.special.psi
    assert_allclose(slope, np.log(x[:, 0]) + digamma(alpha.sum()) - digamma(alpha), rtol=1e-12)


OF_VALUES = "pdf logpdf pmf logpmf cdf logcdf sf logsf ppf isf".split()


@together("name", [*CONTINUOUS, *DISCRETE, "dirichlet"])
def test_shapes_that_do_not_broadcast(name: str) -> None:
    distribution: Any = getattr(stats, name)
    shapes = getattr(distribution, "shapes", ())
    harmless = {"p": 0.5, "n": 3.0, "c": 0.5, "b": 2.5}
    for method in [method for method in OF_VALUES if hasattr(distribution, method)]:
        for wrong in shapes:
            named: dict[str, Any] = {shape: harmless.get(shape, 1.5) for shape in shapes}
            named[wrong] = np.full(3, named[wrong])
            with pytest.raises(ShapeError, match="broadcast"):
                getattr(distribution, method)(np.array([0.5, 0.25]), **named)


def test_slopes_of_probabilities_and_quantiles_where_formulas_change() -> None:
    slope = fg.grad(lambda x: stats.vonmises.cdf(x, 2.0))(0.0)
    assert_allclose(slope, stats.vonmises.pdf(0.0, 2.0), rtol=1e-14)
    for q in (0.0, 1.0):  # the ends, at which the density is not 0
        z = stats.truncnorm.ppf(q, -0.5, 2.0)
        slope = fg.grad(lambda q: stats.truncnorm.ppf(q, -0.5, 2.0))(q)
        assert_allclose(slope * stats.truncnorm.pdf(z, -0.5, 2.0), 1.0, rtol=1e-13)
    for q in (1e-30, 1e-4, 0.5):  # of a share of 1 the slope is lost
        z = stats.f.ppf(q, 0.5, 7.0)
        slope = fg.grad(lambda q: stats.f.ppf(q, 0.5, 7.0))(q)
        assert_allclose(slope * stats.f.pdf(z, 0.5, 7.0), 1.0, rtol=1e-12)
