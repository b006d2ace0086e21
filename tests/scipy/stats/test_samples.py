"""Statistics of samples, estimated densities and counts in classes are SciPy's."""

import pickle
from typing import Any

import numpy as np
import scipy.stats
from numpy.testing import assert_allclose, assert_array_equal

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, ImmutableError, MissingOptionError, ShapeError
from funcgrad.scipy import stats
from tests.together import refused, together

RNG = np.random.default_rng(3)
SAMPLES, PLANE = RNG.standard_normal(12), RNG.standard_normal((2, 12))
WEIGHTS, POINTS = RNG.random(12), RNG.standard_normal((2, 5))
WHOLE = RNG.integers(0, 4, (3, 6, 2))
BANDWIDTHS: list[Any] = [None, "scott", "silverman", 0.4, lambda estimate: estimate.n**-0.5]


@together("bw", BANDWIDTHS)
def test_estimated_densities(bw: Any) -> None:
    for weights in (None, WEIGHTS):
        own = stats.gaussian_kde(SAMPLES, bw, weights)
        peer = scipy.stats.gaussian_kde(SAMPLES, bw, weights)
        for name in ("factor", "covariance", "inv_cov", "neff", "n", "d", "dataset", "weights"):
            assert_allclose(getattr(own, name), getattr(peer, name), rtol=1e-13)
        x = np.array([-3.0, 0.2, 9.0])
        for method in ("evaluate", "pdf", "logpdf", "__call__"):
            assert_allclose(getattr(own, method)(x), getattr(peer, method)(x), rtol=1e-12)
        for ends in ((-np.inf, 0.3), (-1.0, 2.0), (2.0, -1.0)):
            expected = peer.integrate_box_1d(*ends)
            assert_allclose(own.integrate_box_1d(*ends), expected, rtol=1e-12)
    plane, other = stats.gaussian_kde(PLANE, bw), scipy.stats.gaussian_kde(PLANE, bw)
    assert_allclose(plane(POINTS), other(POINTS), rtol=1e-12)
    assert_allclose(plane(POINTS[:, 0]), other(POINTS[:, 0]), rtol=1e-12)
    other.set_bandwidth(0.3)
    assert_allclose(plane.set_bandwidth(0.3)(POINTS), other(POINTS), rtol=1e-12)
    assert_allclose(plane.silverman_factor(), other.silverman_factor(), rtol=1e-14)
    assert_allclose(plane.covariance_factor(), plane.scotts_factor(), rtol=0)


def test_estimated_densities_differentiate_in_everything() -> None:
    def density(data: Any, weights: Any, factor: Any, x: Any) -> Any:
        return stats.gaussian_kde(data, factor, weights).logpdf(x)

    def share(data: Any, weights: Any, low: Any, high: Any) -> Any:
        return stats.gaussian_kde(data, "silverman", weights).integrate_box_1d(low, high)

    args = SAMPLES[:5], WEIGHTS[:5], 0.4, np.array([0.3, 0.6])
    fg.testing.check_grads(density, args, order=2)
    fg.testing.check_grads(share, (*args[:3], 1.1), order=2)
    fg.testing.check_grads(lambda d, x: stats.gaussian_kde(d)(x), (PLANE[:, :5], POINTS), order=1)


def test_an_estimate_is_a_tree_and_a_value() -> None:
    estimate = stats.gaussian_kde(SAMPLES, 0.4)
    slope = fg.grad(lambda e: fnp.sum(e.logpdf([0.3, 0.5])))(estimate)
    assert isinstance(slope, stats.gaussian_kde)
    assert slope.dataset.shape == (1, 12)
    staged = fg.jit(lambda e, x: e.logpdf(x))(estimate, np.array([0.3]))
    assert_allclose(staged, estimate.logpdf(0.3), rtol=1e-13)
    many = fg.vmap(lambda d: stats.gaussian_kde(d).logpdf(0.1)[0])(PLANE)
    assert_allclose(many[1], stats.gaussian_kde(PLANE[1]).logpdf(0.1)[0], rtol=1e-13)
    copy = pickle.loads(pickle.dumps(estimate))
    assert_array_equal(copy.dataset, estimate.dataset)
    assert "12 samples in 1 dimensions" in repr(copy)
    low = stats.gaussian_kde(SAMPLES.astype(np.float32))(np.float32(0.5))
    assert low.dtype == np.float32


test_refusals = refused(
    [
        (lambda: stats.gaussian_kde([1.0]), ShapeError, "at least two samples"),
        (lambda: stats.gaussian_kde(SAMPLES, weights=[1.0]), ShapeError, "one weight"),
        (lambda: stats.gaussian_kde(SAMPLES, "scot"), ArgumentError, "bw_method is 'scot'"),
        (lambda: stats.gaussian_kde(PLANE)(np.ones((3, 4))), ShapeError, r"shape \(2, m\)"),
        (lambda: stats.gaussian_kde(PLANE).integrate_box_1d(0, 1), ShapeError, "2 dimensions"),
        (lambda: setattr(stats.gaussian_kde(PLANE), "factor", 1.0), ImmutableError, "change"),
        (lambda: stats.mode(SAMPLES, nan_policy="omit"), MissingOptionError, "nan_policy='omit'"),
        (lambda: stats.mode(5.0), ShapeError, "mode: axis 0 is out of bounds"),
        (lambda: stats.sem(SAMPLES, 2), ShapeError, "sem: axis 2 is out of bounds"),
        (lambda: stats.rankdata(SAMPLES, "last"), ArgumentError, "method is 'last'"),
        (lambda: stats.multinomial.pmf([1.0, 2.0], 3, [1.0]), ShapeError, "do not fit"),
        (lambda: stats.multinomial.mean(3, 1.0), ShapeError, "needs a class"),
    ]
)


@together("axis", [0, 1, -1, None])
@together("values", [WHOLE, WHOLE * 0.5], ids=["int", "float"])
def test_statistics_are_scipys(values: Any, axis: Any) -> None:
    for keepdims in (False, True):
        own = stats.mode(values, axis, keepdims=keepdims)
        peer = scipy.stats.mode(values, axis, keepdims=keepdims)
        assert_array_equal(own.mode, peer.mode, strict=False)
        assert_array_equal(own.count, peer.count)
        assert np.shape(own.mode) == np.shape(peer.mode) == np.shape(own.count)
        error = scipy.stats.sem(values, axis, keepdims=keepdims)
        assert_allclose(stats.sem(values, axis, keepdims=keepdims), error, rtol=1e-13)
    for method in ("average", "min", "max", "dense", "ordinal"):
        expected = scipy.stats.rankdata(values, method, axis=axis)
        assert_array_equal(np.asarray(stats.rankdata(values, method, axis=axis)), expected)
        staged = fg.jit(lambda x, m=method: stats.rankdata(x, m, axis=axis))(values)
        assert_array_equal(np.asarray(staged), expected)


def test_statistics_of_nan_and_of_nothing() -> None:
    x = np.array([1.0, np.nan, 1.0, np.nan, np.nan])
    assert np.isnan(float(stats.mode(x).mode))
    assert int(stats.mode(x).count) == 3
    assert np.all(np.isnan(np.asarray(stats.rankdata(x))))
    assert np.isnan(float(stats.sem(x)))
    assert stats.rankdata([]).shape == (0,)
    assert float(stats.mode([]).count) == 0
    assert stats.rankdata(np.zeros((0, 2)), "min", axis=0).shape == (0, 2)


def test_derivatives_of_statistics() -> None:
    x = np.array([3.0, 1.0, 3.0, 2.0])
    assert_array_equal(fg.grad(lambda x: stats.mode(x).mode)(x), [1.0, 0.0, 0.0, 0.0])
    assert_array_equal(fg.grad(lambda x: fnp.sum(stats.rankdata(x)))(x), np.zeros(4))
    fg.testing.check_grads(stats.sem, (PLANE,), order=2)
    batch = fg.vmap(lambda x: stats.mode(x).mode)(np.stack([x, x[::-1] + 1]))
    assert_array_equal(batch, [3.0, 4.0])


def test_counts_in_classes_are_scipys() -> None:
    own, peer = stats.multinomial, scipy.stats.multinomial
    p = np.array([[0.2, 0.3, 0.5], [0.0, 0.6, 0.4]])
    x = np.array([[1, 2, 4], [0, 3, 4], [2, 2, 2], [-1, 4, 4], [7, 0, 0]])[:, None]
    for n in (7, 6):
        for method in ("pmf", "logpmf"):
            with np.errstate(invalid="ignore"):
                expected = getattr(peer, method)(x, n, p)
            assert_allclose(getattr(own, method)(x, n, p), expected, rtol=1e-13)
    assert np.isnan(float(own.pmf([1, 1], 2, [1.5, -0.5])))
    assert np.isnan(float(own.pmf([1, 1], -2, [0.5, 0.5])))
    for method in ("cov", "mean"):
        expected = getattr(peer(7, p[0]), method)
        expected = expected() if callable(expected) else expected
        assert_allclose(getattr(own, method)(7, p[0]), expected, rtol=1e-13)
    assert_allclose(own(7, p).logpmf(x[0]), peer.logpmf(x[0], 7, p), rtol=1e-13)
    fg.testing.check_grads(lambda p: own.logpmf(x[0, 0], 7, p), (p[0],), order=2)
    fg.testing.check_grads(lambda p: own.pmf(x[1], 7, p), (p[:1],), order=2)
    assert_allclose(fg.grad(own.pmf, 2)(np.array([0.0, 3.0, 4.0]), 7, p[1])[2], 0.0)


def test_sums_of_masses_have_their_digits_at_both_ends() -> None:
    parameters = 300.0, 2.0, 90.0
    k = np.array([0.0, 5.0, 60.0, 299.0])
    own, peer = stats.betabinom, scipy.stats.betabinom
    assert_allclose(own.cdf(k, *parameters), peer.cdf(k, *parameters), rtol=1e-11)
    exact = [float(np.sum(peer.pmf(np.arange(x + 1, 301), *parameters))) for x in k]
    assert_allclose(own.sf(k, *parameters), exact, rtol=1e-11)
    assert_allclose(own.logsf(k, *parameters), np.log(exact), rtol=1e-11)
    several = np.array([3.0, 7.0])
    assert_allclose(own.cdf(2.0, several, 2.0, 3.0), peer.cdf(2.0, several, 2.0, 3.0), rtol=1e-13)
    for method in ("logpmf", "cdf", "logsf"):
        function = getattr(own, method)
        fg.testing.check_grads(lambda a, b, f=function: f(5.0, 20.0, a, b), (2.0, 3.0), order=2)
        batch = fg.vmap(lambda n, f=function: f(2.0, n, 2.0, 3.0))(several)
        assert_allclose(batch[1], function(2.0, 7.0, 2.0, 3.0), rtol=1e-14)
        assert_allclose(fg.jit(function)(2.0, 7.0, 2.0, 3.0), batch[1], rtol=1e-14)
