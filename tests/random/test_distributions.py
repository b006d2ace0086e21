"""Distributions by rejection and by quantiles: right, the same for ever, and differentiable.

The seeds are fixed, so statistical bounds are checked once and for all.
"""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special, stats

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import random
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from tests.scripts import printed
from tests.together import refused, together

KEY = random.key(5)
SAMPLE = 10_000


def array(x):
    return np.asarray(x)


def passes_ks(numbers, cdf):
    """The test of Kolmogorov and Smirnov, which one seed in a thousand fails."""
    return stats.kstest(array(numbers).ravel(), cdf).pvalue > 1e-3


def passes_chi2(counts, law):
    """Pearson's test on at most 30 classes, which one seed in a thousand fails."""
    counts = array(counts).ravel()
    low, high = law.ppf([1e-3, 1 - 1e-3])
    edges = np.unique(np.linspace(low, high, 30).round())
    observed = np.diff([0, *[(counts <= edge).sum() for edge in edges], counts.size])
    expected = np.diff([0.0, *law.cdf(edges), 1.0]) * counts.size
    common = expected > 5
    both = [[*x[common], x[~common].sum() + 1e-9] for x in (observed, expected)]
    return stats.chisquare(*both, sum_check=False).pvalue > 1e-3


# ---------------------------------------------------------------------------------- golden numbers

GOLDEN = {
    "gamma": ((2.5,), ["0x1.6edaa0663aa98p+0", "0x1.497b7625b2fd7p+2", "0x1.41a2965d1453ap+1"]),
    "loggamma": (
        (0.01,),
        ["-0x1.9d67425019917p+7", "-0x1.1a979f492c1d3p+7", "-0x1.4aad2e3a6e192p+5"],
    ),
    "chisquare": ((3.0,), ["0x1.4ee44a9706a37p+0", "0x1.8afcfc339c42fp+0", "0x1.6cdd77c97147ep+1"]),
    "t": ((4.0,), ["-0x1.b72a8f76cad81p+0", "-0x1.11d1b26f7923fp-1", "0x1.9efdbc3749b9dp-2"]),
    "beta": ((0.5, 2.0), ["0x1.3f50f4a5a4721p-9", "0x1.8873657ee03ddp-3", "0x1.997bc34020dcfp-6"]),
    "laplace": ((), ["0x1.78d28cabf0d08p-2", "-0x1.08974756c4910p-1", "0x1.c34ea3dcd32e0p+0"]),
    "logistic": ((), ["0x1.45d59e97c1c4ap-1", "-0x1.b62a6219eddcep-1", "0x1.2ee5e5a0d596ap+1"]),
    "cauchy": ((), ["0x1.0ce83c059b2bbp-1", "-0x1.78624dd2cdf11p-1", "0x1.cf78b103ae12dp+1"]),
    "lognormal": ((), ["0x1.7c5f79e508072p+0", "0x1.2d81f8bd81367p-1", "0x1.f658e0806cd96p+1"]),
    "weibull": ((1.5,), ["0x1.214db47483737p-1", "0x1.22ada402b644ap+0", "0x1.9a4f0d0a059d9p-3"]),
    "pareto": ((3.0,), ["0x1.26ef9b55226b3p+0", "0x1.7f2c40bc392a7p+0", "0x1.07c48d6b4281dp+0"]),
    "rayleigh": ((), ["0x1.d7e5cadb461d7p-1", "0x1.8e3afcae9cd5cp+0", "0x1.b1a9471399d7dp-2"]),
    "maxwell": ((), ["0x1.6467fe694017bp+0", "0x1.65d5a2a68414bp+0", "0x1.6b7004629c57dp-2"]),
    "generalized_normal": (
        (0.8,),
        ["0x1.5a2dae0da8752p-3", "0x1.716e891c48750p+0", "-0x1.46ab7178e78aep-1"],
    ),
    "wald": ((2.0,), ["0x1.d6e178edaebddp-2", "0x1.cafe31e743deep+1", "0x1.9986f9aa8102fp+1"]),
    "triangular": (
        (0.0, 1.0, 4.0),
        ["0x1.f650ec4f35388p+0", "0x1.19192e425856ap+0", "0x1.7e240ca78445cp+1"],
    ),
    "f": ((3.0, 10.0), ["0x1.5964f887e387cp-1", "0x1.6f9b3d6832966p-2", "0x1.c068e8789a26dp-1"]),
}
GOLDEN_COUNTS = {
    "poisson": ((4.0,), [2, 3, 5, 5, 3, 6]),
    "binomial": ((20, 0.3), [4, 5, 7, 7, 5, 9]),
    "geometric": ((0.1,), [5, 12, 1, 2, 2, 16]),
    "rademacher": ((), [-1, 1, -1, -1, -1, 1]),
}


@together("name", GOLDEN)
def test_golden_numbers(name):
    """These numbers must never change: other numbers would break everybody's experiments."""
    parameters, golden = GOLDEN[name]
    numbers = getattr(random, name)(random.key(42), *parameters, shape=3)
    assert [number.hex() for number in numbers.tolist()] == golden


def test_golden_counts_and_shares():
    key = random.key(42)
    for name, (parameters, golden) in GOLDEN_COUNTS.items():
        assert getattr(random, name)(key, *parameters, shape=6).tolist() == golden
    assert random.poisson(key, 1e6, 3).tolist() == [999853, 999530, 1000251]
    assert random.binomial(key, 10**6, 0.3, 3).tolist() == [299933, 299785, 300115]
    assert random.multinomial(key, 100, [1.0, 2.0, 3.0]).tolist() == [18, 42, 40]
    shares = random.dirichlet(key, [0.5, 1.0, 2.0]).tolist()
    assert [share.hex() for share in shares] == [
        "0x1.2966370e133ccp-8",
        "0x1.49d34e3507f8ep-3",
        "0x1.ab386004a1db6p-1",
    ]


# ----------------------------------------------------------------------------------- distributions

CONTINUOUS = {
    "gamma": (2.5, stats.gamma(2.5)),
    "gamma of a small shape": (0.2, stats.gamma(0.2)),
    "gamma of a large shape": (1e5, stats.gamma(1e5)),
    "chisquare": (3.0, stats.chi2(3)),
    "t": (3.0, stats.t(3)),
    "weibull": (1.7, stats.weibull_min(1.7)),
    "pareto": (1.7, stats.pareto(1.7)),
    "laplace": (None, stats.laplace),
    "logistic": (None, stats.logistic),
    "cauchy": (None, stats.cauchy),
    "lognormal": (None, stats.lognorm(1)),
    "rayleigh": (None, stats.rayleigh),
    "maxwell": (None, stats.maxwell),
    "generalized_normal": (0.8, stats.gennorm(0.8)),
    "generalized_normal of a large exponent": (6.0, stats.gennorm(6.0)),
    "wald": (2.0, stats.invgauss(2.0)),
    "wald of a small mean": (0.05, stats.invgauss(0.05)),
    "triangular": ((-1.0, 0.5, 3.0), stats.triang(0.375, -1.0, 4.0)),
    "triangular without a rise": ((-1.0, -1.0, 3.0), stats.triang(0.0, -1.0, 4.0)),
    "f": ((3.0, 10.0), stats.f(3, 10)),
}


@together("case", CONTINUOUS)
def test_continuous_distributions(case):
    parameter, law = CONTINUOUS[case]
    draw = getattr(random, case.partition(" ")[0])
    parameters = () if parameter is None else np.atleast_1d(parameter)
    assert passes_ks(draw(KEY, *parameters, shape=SAMPLE), law.cdf)


def test_logarithms_of_tiny_shapes():
    for a in (1e-5, 1e-3):
        logarithms = array(random.loggamma(KEY, a, SAMPLE))
        assert np.isfinite(logarithms).all()
        assert (logarithms < -800).mean() > 0.4
        assert passes_ks(
            logarithms, lambda y, a=a: np.exp(a * y - special.gammaln(a + 1)).clip(0, 1)
        )
    assert_allclose(random.gamma(KEY, 0.3, 9), np.exp(random.loggamma(KEY, 0.3, 9)), rtol=1e-13)


def test_shares():
    assert passes_ks(random.beta(KEY, 0.5, 2.0, SAMPLE), stats.beta(0.5, 2).cdf)
    shares = array(random.dirichlet(KEY, [0.5, 1.0, 2.0], SAMPLE))
    assert_allclose(shares.sum(-1), 1)
    assert passes_ks(shares[:, 1], stats.beta(1, 2.5).cdf)
    corners = array(random.dirichlet(KEY, np.full(4, 1e-5), 100))
    assert_allclose(np.sort(corners, -1), np.tile([0.0, 0, 0, 1], (100, 1)), atol=1e-6)


@together("mean", [0.01, 0.5, 4.0, 9.99, 10.0, 30.0, 1e3, 1e6])
def test_poisson_counts(mean):
    assert passes_chi2(random.poisson(KEY, mean, SAMPLE), stats.poisson(mean))


@together(
    ("n", "p"),
    [(1, 0.5), (10, 0.3), (50, 0.9), (40, 0.5), (1000, 0.3), (10**6, 0.7), (10**15, 1e-15)],
)
def test_binomial_counts(n, p):
    assert passes_chi2(random.binomial(KEY, n, p, SAMPLE), stats.binom(n, p))


def test_huge_counts_have_the_right_deviation():
    excess = (array(random.poisson(KEY, 1e16, 1000)) - 1e16) / 1e8
    assert passes_ks(excess, stats.norm.cdf)
    excess = (array(random.binomial(KEY, 2**52, 0.5, 1000)) - 2.0**51) / 2**25
    assert passes_ks(excess, stats.norm.cdf)


def test_other_counts():
    counts = array(random.multinomial(KEY, [20, 1000], [2.0, 0, 5, 3, 0], (SAMPLE // 2, 2)))
    assert (counts.sum(-1) == [20, 1000]).all()
    assert not counts[..., [1, 4]].any()
    assert passes_chi2(counts[:, 0, 2], stats.binom(20, 0.5))
    assert passes_chi2(counts[:, 1, 3], stats.binom(1000, 0.3))
    assert passes_chi2(random.geometric(KEY, 0.2, SAMPLE), stats.geom(0.2))
    signs = array(random.rademacher(KEY, SAMPLE, "int8"))
    assert set(signs) == {-1, 1}
    assert abs(signs.mean()) < 0.03


def test_dependent_vectors():
    cov = np.array([[2.0, 0.5], [0.5, 1.0]])
    x = array(random.multivariate_normal(KEY, [1.0, 2.0], cov, SAMPLE))
    assert_allclose(x.mean(0), [1, 2], atol=0.05)
    white = np.linalg.solve(np.linalg.cholesky(cov), (x - [1, 2]).T)
    assert passes_ks(white, stats.norm.cdf)
    assert abs(np.corrcoef(white)[0, 1]) < 0.04
    batch = random.multivariate_normal(KEY, np.zeros((3, 1, 2)), np.tile(cov, (4, 1, 1)))
    assert batch.shape == (3, 4, 2)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_orthogonal_matrices(dtype):
    q = array(random.orthogonal(KEY, 3, (300,), dtype))
    assert q.dtype == dtype
    assert_allclose(q @ q.conj().swapaxes(-1, -2), np.tile(np.eye(3), (300, 1, 1)), atol=1e-6)
    # A column of Haar's measure is uniform on the sphere: its coordinates, on [-1, 1].
    if dtype == "float64":
        assert passes_ks(q[:, 0, 0], stats.uniform(-1, 2).cdf)
    assert random.orthogonal(KEY, 0).shape == (0, 0)


# ------------------------------------------------------------------------- shapes, dtypes, edges

ALL = {
    "gamma": (2.5,), "loggamma": (0.5,), "chisquare": (3,), "t": (4,), "beta": (2, 3),
    "laplace": (), "logistic": (), "cauchy": (), "lognormal": (), "weibull": (2,), "pareto": (3,),
    "maxwell": (), "generalized_normal": (0.8,), "wald": (2,), "triangular": (0, 1, 4),
    "f": (3, 10), "rayleigh": (), "poisson": (4,), "binomial": (30, 0.4), "geometric": (0.3,),
}  # fmt: skip
COUNTS = frozenset({"poisson", "binomial", "geometric"})


@together("name", ALL)
def test_shapes_and_dtypes(name):
    draw, parameters = getattr(random, name), ALL[name]
    many = draw(KEY, *parameters, shape=12)
    assert_array_equal(draw(KEY, *parameters, shape=(2, 3)), array(many)[:6].reshape(2, 3))
    assert_array_equal(draw(KEY, *parameters), array(many)[0])
    assert draw(KEY, *parameters, shape=(2, 0)).shape == (2, 0)
    for dtype in ("int16", "uint8") if name in COUNTS else ("float16", "float32"):
        numbers = draw(KEY, *parameters, shape=12, dtype=dtype)
        assert numbers.dtype == dtype
        assert_allclose(numbers, many, rtol=2e-3 if dtype == "float16" else 1e-6)
    if parameters:
        rows = [np.reshape(p, (1, 1)) for p in parameters]
        assert draw(KEY, *rows).shape == (1, 1)
        mixed = draw(KEY, *[np.float32(p) for p in parameters], shape=12)
        assert_allclose(mixed, many, rtol=1e-5)
        with pytest.raises(ShapeError, match=f"{name}: .* does not broadcast to shape=\\(3,\\)"):
            draw(KEY, *[[p] * 2 for p in parameters], shape=3)


@together("name", ALL)
def test_numbers_do_not_depend_on_batching_or_staging(name):
    draw, parameters = getattr(random, name), ALL[name]
    keys = random.split(KEY, 3)
    rows = [np.linspace(p, p / 2, 3).round(1) for p in parameters]
    if name == "binomial":
        rows[0] = np.array([3, 30, 3000])
    if name == "poisson":
        rows[0] = np.array([0.5, 9.0, 500.0])
    looped = [draw(keys[k], *[row[k] for row in rows], shape=2) for k in range(3)]
    batched = fg.vmap(lambda key, *row: draw(key, *row, shape=2))(keys, *rows)
    assert_array_equal(batched, looped)
    staged = fg.jit(lambda key, *row: draw(key, *row, shape=3))(keys[0], *rows)
    assert_array_equal(staged, draw(keys[0], *rows, shape=3))


def test_vectors_do_not_depend_on_batching_or_staging():
    keys = random.split(KEY, 2)
    for draw in (
        lambda key: random.dirichlet(key, [0.1, 2.0, 3.0]),
        lambda key: random.multinomial(key, 1000, [0.1, 2.0, 3.0]),
    ):
        assert_array_equal(fg.vmap(draw)(keys), [draw(key) for key in keys])
        assert_array_equal(fg.jit(draw)(KEY), draw(KEY))


def test_limits():
    inf = np.inf
    assert random.gamma(KEY, [0.0, inf, 1e-300]).tolist() == [0, inf, 0]
    assert random.loggamma(KEY, [0.0, inf]).tolist() == [-inf, inf]
    assert random.beta(KEY, [inf, 1.0, inf], [1.0, inf, inf]).tolist() == [1, 0, 0.5]
    assert_array_equal(random.t(KEY, inf, 3), random.t(KEY, 1e300, 3))
    assert random.weibull(KEY, inf).item() == random.pareto(KEY, inf).item() == 1
    assert random.gamma(KEY, 2.0, 3, scale=0.0).tolist() == [0, 0, 0]
    assert random.poisson(KEY, 0.0).item() == 0
    assert random.binomial(KEY, [0, 7, 7], [0.5, 0.0, 1.0]).tolist() == [0, 0, 7]
    assert random.geometric(KEY, 1.0).item() == 1
    assert random.geometric(KEY, 1e-300).item() > 2**62
    assert random.poisson(KEY, 1e4, dtype="int8").item() == 127


@pytest.mark.parametrize("bad", [-1.0, np.nan])
def test_parameters_out_of_range(bad):
    for name in (
        "gamma",
        "loggamma",
        "chisquare",
        "t",
        "weibull",
        "pareto",
        "poisson",
        "geometric",
        "wald",
        "generalized_normal",
    ):
        draw = getattr(random, name)
        with pytest.raises(ArgumentError, match=f"{name}: the parameters have to satisfy"):
            draw(KEY, bad)
        traced = fg.vmap(lambda p, draw=draw: draw(KEY, p))(fg.tensor([bad, 0.5]))
        refused = -1 if name in ("poisson", "geometric") else np.nan
        assert name in ("weibull", "pareto") or traced[0].item() == pytest.approx(
            refused, nan_ok=True
        )
    for make in (
        lambda: random.beta(KEY, bad, 1.0),
        lambda: random.dirichlet(KEY, [1.0, bad]),
        lambda: random.binomial(KEY, 3, bad),
        lambda: random.binomial(KEY, bad, 0.5),
        lambda: random.multinomial(KEY, 3, [bad, 1.0]),
        lambda: random.laplace(KEY, scale=bad),
    ):
        with pytest.raises(ArgumentError, match="have to satisfy"):
            make()


def vectors(mean, cov):
    return random.multivariate_normal(KEY, mean, cov)


test_bad_arguments = refused(
    [
        (lambda: random.gamma(KEY, 1j), DtypeError, "have to be real"),
        (lambda: random.gamma(KEY, 1.0, dtype=int), DtypeError, "float16, float32 or float64"),
        (lambda: random.poisson(KEY, 1.0, dtype=float), DtypeError, "an integer"),
        (lambda: random.beta(KEY, [1.0] * 2, [1.0] * 3), ShapeError, "beta: the shapes .* a of"),
        (lambda: random.dirichlet(KEY, 1.0), ShapeError, "needs a last axis"),
        (lambda: random.dirichlet(KEY, [[1.0]] * 2, 3), ShapeError, "alpha of shape"),
        (lambda: random.multinomial(KEY, 1, 1.0), ShapeError, "needs a last axis"),
        (lambda: random.multinomial(KEY, 1, [0.0, 0.0]), ArgumentError, "one of them positive"),
        (lambda: random.multinomial(KEY, 1, [[1.0]] * 2, 3), ShapeError, "p without the last"),
        (lambda: random.binomial(KEY, 2.5, 0.5), ArgumentError, "whole"),
        (lambda: vectors([0.0], np.eye(2)), ShapeError, r"\(\.\.\., n, n\)"),
        (lambda: vectors(np.ones((2, 1)), np.ones((3, 1, 1))), ShapeError, "do not"),
        (lambda: random.gamma(0, 1.0), DtypeError, "fg.random.key"),
        (lambda: random.beta(KEY, 1.0, 1.0, 2**50), ShapeError, "beta.*address space"),
    ]
)


# ------------------------------------------------------------------------------------- derivatives


@together("a", [0.05, 2.0, 0.5, 30.0], quick=2)
def test_gamma_numbers_move_along_their_quantile(a):
    level, step = special.gammainc(a, random.gamma(KEY, a).item()), 1e-4 * a
    ahead, here, behind = [special.gammaincinv(a + k * step, level) for k in (1, 0, -1)]
    draw = lambda a: random.gamma(KEY, a)  # noqa: E731
    slope = fg.grad(draw)
    assert_allclose(slope(a), (ahead - behind) / (2 * step), rtol=1e-5)
    assert_allclose(fg.grad(slope)(a), (ahead - 2 * here + behind) / step**2, rtol=1e-4)
    assert_allclose(fg.jvp(draw, (a,), (1.0,))[1], slope(a), rtol=1e-14)
    assert_allclose(fg.grad(fg.jit(draw))(a), slope(a), rtol=1e-14)


def test_logarithms_of_tiny_shapes_have_derivatives():
    a = 1e-3
    y = random.loggamma(KEY, a).item()
    level = a * y - special.gammaln(a + 1)  # the logarithm of the probability, which is kept
    expected = -(y - special.psi(a + 1)) / a
    assert level < 0
    assert_allclose(fg.grad(lambda a: random.loggamma(KEY, a))(a), expected, rtol=1e-12)
    assert fg.grad(lambda a: random.gamma(KEY, a))(0.0).item() == 0


def test_mean_derivatives_are_those_of_the_moments():
    n = 4000
    mean = lambda draw: lambda *p: draw(KEY, *p, shape=n).mean()  # noqa: E731
    assert_allclose(fg.grad(mean(random.gamma))(2.5), 1, atol=0.05)
    a, b = 2.0, 3.0
    to_a, to_b = fg.grad(mean(random.beta), (0, 1))(a, b)
    assert_allclose([to_a, to_b], [b / (a + b) ** 2, -a / (a + b) ** 2], atol=0.005)
    squares = fg.grad(lambda df: (random.t(KEY, df, n) ** 2).mean())(9.0)
    assert_allclose(squares, -2 / 49, atol=0.01)
    shares = fg.jacrev(lambda alpha: random.dirichlet(KEY, alpha, n).mean(0))(np.array([1.0, 3.0]))
    assert_allclose(shares, np.array([[3, -1], [-3, 1]]) / 16, atol=0.01)


@pytest.mark.parametrize("ratio", [0.01, 1.0, 40.0])
def test_wald_numbers_move_along_their_quantile(ratio):
    law = lambda ratio: stats.invgauss(1.0 / ratio, scale=ratio)  # noqa: E731
    draw = lambda ratio: random.wald(KEY, 1.0, scale=ratio)  # noqa: E731
    level, step = law(ratio).cdf(draw(ratio).item()), 1e-4 * ratio
    ahead, here, behind = [law(ratio + k * step).ppf(level) for k in (1, 0, -1)]
    slope = fg.grad(draw)
    assert_allclose(slope(ratio), (ahead - behind) / (2 * step), rtol=1e-4)
    second = (ahead - 2 * here + behind) / step**2
    assert_allclose(fg.grad(slope)(ratio), second, rtol=1e-2)
    assert_allclose(draw(ratio) / ratio, random.wald(KEY, 1.0 / ratio), rtol=1e-14)


def test_points_in_balls():
    for p in (1.0, 2.0, 5.0):
        points = array(random.ball(KEY, 3, p, SAMPLE))
        radii = (abs(points) ** p).sum(-1) ** (1 / p)
        assert passes_ks(radii**3, stats.uniform.cdf)  # the volume within a radius
        halves = [stats.kstest(x.ravel(), (-x).ravel()).pvalue for x in np.moveaxis(points, -1, 0)]
        assert min(halves) > 1e-3
    plane = array(random.ball(KEY, 2, 2.0, SAMPLE))
    assert passes_ks(np.arctan2(plane[..., 1], plane[..., 0]), stats.uniform(-np.pi, 2 * np.pi).cdf)
    assert random.ball(KEY, 0).shape == (0,)
    keys = random.split(KEY, 3)
    assert_array_equal(
        fg.vmap(lambda key: random.ball(key, 2))(keys), [random.ball(key, 2) for key in keys]
    )
    with pytest.raises(ShapeError, match="ball: p has to be one number"):
        random.ball(KEY, 2, [1.0, 2.0])


@together(("d", "p"), [(1, 0.7), (2, 1.0), (3, 3.5)], quick=1)
def test_powers_of_radii_in_balls_have_the_derivatives_of_their_moments(d, p):
    """Derivatives of means by both modes, against the moments: the p-th power of the radius."""

    def power(p):
        return fnp.mean(fnp.sum(abs(random.ball(KEY, d, p, (20_000,))) ** p, -1))

    value, forward = fg.jvp(power, (p,), (1.0,))
    slope, curve = fg.value_and_grad(fg.grad(power))(p)
    assert_allclose(value, d / (d + p), rtol=0.02)
    assert_allclose(slope, -d / (d + p) ** 2, rtol=0.05)
    assert_allclose(curve, 2 * d / (d + p) ** 3, rtol=0.1)
    assert_allclose(forward, slope, rtol=1e-12)


def test_points_in_balls_move_with_the_shape():
    def points(p):
        return random.ball(KEY, 2, p, (5,))

    shapes = np.array([0.7, 2.0])
    for f in (points, fg.jacfwd(points), fg.jacfwd(fg.jacrev(points))):
        one = np.stack([f(p) for p in shapes])
        assert_allclose(fg.vmap(f)(shapes), one, rtol=1e-9, atol=1e-12)
        assert_allclose(fg.jit(f)(2.0), one[1], rtol=1e-9, atol=1e-12)


def test_further_distributions_are_differentiable():
    check = fg.testing.check_grads
    check(lambda a, b, c: random.triangular(KEY, a, b, c, 4), (0.0, 1.0, 4.0), order=2)
    check(lambda a, c: random.triangular(KEY, a, a, c, 4), (0.0, 4.0), order=2)
    check(lambda s: random.maxwell(KEY, 4, scale=s), (2.0,), order=2)
    n = 4000
    variance = lambda m, s: ((random.wald(KEY, m, n, scale=s) - m) ** 2).mean()  # noqa: E731
    assert_allclose(fg.grad(variance, (0, 1))(1.0, 9.0), [3 / 9, -1 / 81], rtol=0.15)
    ratios = lambda d: random.f(KEY, 5.0, d, n).mean()  # noqa: E731
    assert_allclose(fg.grad(ratios)(12.0), -2 / 100, rtol=0.15)
    power = lambda p: (abs(random.generalized_normal(KEY, p, n)) ** 2).mean()  # noqa: E731
    moment = lambda p: np.exp(special.gammaln(3 / p) - special.gammaln(1 / p))  # noqa: E731
    assert_allclose(fg.grad(power)(1.5), (moment(1.501) - moment(1.499)) / 0.002, rtol=0.15)


def test_keys_have_the_name_that_jax_has():
    assert_array_equal(random.PRNGKey(3), random.key(3))


@together("name", ["weibull", "pareto", "laplace", "lognormal", "rayleigh", "cauchy"])
def test_quantiles_are_differentiable(name):
    draw = getattr(random, name)
    if name in ("weibull", "pareto"):
        fg.testing.check_grads(lambda a, s: draw(KEY, a, 3, scale=s), (1.7, 2.0), order=2)
    elif name == "rayleigh":
        fg.testing.check_grads(lambda s: draw(KEY, 3, scale=s), (2.0,), order=2)
    else:
        fg.testing.check_grads(lambda m, s: draw(KEY, 3, loc=m, scale=s), (0.3, 1.2), order=2)


def test_covariances_are_differentiable():
    cov = np.array([[2.0, 0.5], [0.5, 1.0]])
    draw = lambda m, c: random.multivariate_normal(KEY, m, c, 3)  # noqa: E731
    fg.testing.check_grads(lambda m, s: draw(m, cov + s * np.eye(2)), (np.zeros(2), 0.1))


def test_drawing_needs_no_scipy():
    script = """if True:
        import sys
        sys.modules["scipy"] = None
        import funcgrad as fg
        from funcgrad import random
        key = random.key(0)
        random.gamma(key, 0.5), random.beta(key, 2.0, 3.0), random.t(key, 3.0)
        random.poisson(key, 50.0), random.binomial(key, 100, 0.4), random.cauchy(key)
        try:
            fg.grad(lambda a: random.gamma(key, a))(0.5)
        except fg.errors.MissingPackageError as error:
            print(error)
    """
    assert "pip install scipy" in printed(script)


EXTREME = [5e-324, 1e-300, 1e-20, 1e-3, 1e3, 9e9, 2e10, 1e20, 1e100, 1e300, np.inf]
BY_PARAMETER = {
    "gamma": lambda x: random.gamma(KEY, x, 3),
    "loggamma": lambda x: random.loggamma(KEY, x, 3),
    "chisquare": lambda x: random.chisquare(KEY, x, 3),
    "t": lambda x: random.t(KEY, x, 3),
    "beta in a": lambda x: random.beta(KEY, x, 2.0, 3),
    "beta in b": lambda x: random.beta(KEY, 2.0, x, 3),
    "beta in both": lambda x: random.beta(KEY, x, x, 3),
    "beta beside 1e300": lambda x: random.beta(KEY, x, 1e300, 3),
    "beta beside 1e-300": lambda x: random.beta(KEY, x, 1e-300, 3),
    "dirichlet": lambda x: random.dirichlet(KEY, fnp.stack([x, 1.0, 2.0])),
    "weibull": lambda x: random.weibull(KEY, x, 3),
    "pareto": lambda x: random.pareto(KEY, x, 3),
    "lognormal in loc": lambda x: random.lognormal(KEY, 3, loc=x),
    "lognormal in scale": lambda x: random.lognormal(KEY, 3, scale=x),
}


def by_scale(name):
    return lambda x: getattr(random, name)(KEY, 3, scale=x)


for scaled in "normal exponential gumbel laplace logistic cauchy rayleigh".split():
    BY_PARAMETER[scaled] = by_scale(scaled)


@together("name", BY_PARAMETER)
def test_nothing_is_nan_at_extreme_parameters(name):
    draw = BY_PARAMETER[name]
    for x in EXTREME:
        with np.errstate(all="ignore"):
            numbers, slopes = fg.jvp(draw, (x,), (1.0,))
            gradient = fg.grad(lambda x: draw(x)[0])(x)
        assert not np.isnan(array(numbers)).any(), (name, x)
        assert not np.isnan(array(slopes)).any(), (name, x)
        assert array(gradient) == pytest.approx(array(slopes)[0], rel=1e-9), (name, x)


def test_derivatives_at_extreme_parameters_are_limits():
    def slope(draw, x):
        return array(fg.jvp(draw, (x,), (1.0,))[1])

    # A large shape: numbers are a + z sqrt(a), and z stays.
    for x in (1e20, 1e100, 1e300, np.inf):
        np.testing.assert_allclose(slope(BY_PARAMETER["gamma"], x), 1.0, rtol=1e-9)
        np.testing.assert_allclose(slope(BY_PARAMETER["chisquare"], x), 1.0, rtol=1e-9)
        np.testing.assert_allclose(slope(BY_PARAMETER["loggamma"], x), 1 / x, rtol=1e-9)
        assert (abs(slope(BY_PARAMETER["t"], x)) <= 10 / x / x**0.5).all()
    staged = fg.jit(fg.grad(lambda x: random.gamma(KEY, x)))
    for x in (2.0, 1e300):  # what one of them does not need, the other does
        assert float(staged(x)) == float(fg.grad(lambda x: random.gamma(KEY, x))(x))
    z = (array(random.gamma(KEY, 1e12, 3)) - 1e12) / 1e6
    assert slope(BY_PARAMETER["gamma"], 1e12) - 1 == pytest.approx(z / 2e6, rel=1e-5)
    # The two sides of the place where the expansion begins.
    for name in ("gamma", "t"):
        below, above = (slope(BY_PARAMETER[name], 1e10 * (1 + e)) for e in (0.0, 1e-12))
        past = 1.0 if name == "gamma" else 0.0
        assert below - past == pytest.approx(above - past, rel=1e-4)
    # A share of a number beside one of a large shape is the number over the shape.
    shares = BY_PARAMETER["beta in b"](1e100)
    assert slope(BY_PARAMETER["beta in b"], 1e100) == pytest.approx(-array(shares) / 1e100)
    # A tiny shape: the number is 0 for all shapes nearby, and its logarithm is log(u) / a.
    logarithms = array(random.loggamma(KEY, 1e-20, 3))
    assert slope(BY_PARAMETER["loggamma"], 1e-20) == pytest.approx(-logarithms / 1e-20)
    for name in ("gamma", "beta in a", "beta in both", "dirichlet"):
        assert (slope(BY_PARAMETER[name], 1e-300) == 0).all()
    below_one = array(random.exponential(KEY, 3)) < 1
    expected = np.where(below_one, 0.0, -np.inf)
    with np.errstate(over="ignore"):
        assert slope(BY_PARAMETER["weibull"], 1e-300).tolist() == expected.tolist()
