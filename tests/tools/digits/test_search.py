"""First and second derivatives keep their digits at points that a seed draws.

``python -m tests.tools.digits`` draws more of them, also in the tails up to 1e200. What it
leaves out, each with its reason, stands in ``excuses.py``, and in ``funcgrad/scipy/README.md``.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from mpmath import mp

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn
from funcgrad.scipy import special, stats
from tests.scipy.stats import test_stats
from tests.tools.digits import activations, special_functions
from tests.tools.digits.excuses import excused
from tests.tools.digits.page import PAGE, written
from tests.tools.digits.search import losses
from tests.tools.digits.subjects import Subject, subjects
from tests.tools.digits.twins import CONTINUOUS, DISCRETE


def test_every_function_has_a_twin() -> None:
    assert set(CONTINUOUS) == set(test_stats.CONTINUOUS)
    assert set(DISCRETE) == set(test_stats.DISCRETE)
    named = {name.partition(",")[0].partition("[")[0] for name in subjects()}
    assert {f"nn.{name}" for name in nn.__all__ if name not in activations.APART} <= named
    known = special_functions.APART
    assert {f"special.{name}" for name in special.__all__ if name not in known} <= named


LONG = re.compile(
    r"""stats\.(beta|chi2|gamma|t|f|invgamma|gennorm|truncnorm)\.(ppf|isf|log.*)
    | stats\.(skewnorm|vonmises)\..* | special\.(k.*p|k1e?|y.*p|y1|kv|kei)
    | special\.(ker|hyp2f1|owens_t|zeta|gdt.*|.*tri.*|.*inv|f.*)""",
    re.VERBOSE,
)
"""Twins of these take long: the search tries them."""


@pytest.mark.slow
def test_functions_keep_their_digits() -> None:
    lost = []
    for name, subject in subjects().items():
        if not LONG.fullmatch(name):
            point = subject.draw(np.random.default_rng(list(name.encode())), False)
            lost += [str(loss) for loss in losses(name, [point]) if not excused(loss)]
    assert lost == []


FAR: dict[str, list[tuple[float, ...]]] = {
    "stats.cauchy.sf": [
        (2.75e54, 1.98e44),
        (1e200, 1e-3),
        (-3e6, 3e-63),
        (3e66, 2.6e-99),
        (2.0, 3.0),
    ],
    "stats.cauchy.cdf": [(2.75e54, 1.98e44), (-1e218, 3e40), (-8.7e-22, 4.4e-40), (-30.0, 3.0)],
    "stats.cauchy.logpdf": [(1e93, 1e34), (-4e115, 3e-60), (-1e244, 5e77), (1e-9, 7.0)],
    "stats.cauchy.logcdf": [
        (9e152, 1e-3),
        (-7e119, 1e34),
        (9e45, 3e-54),
        (-29.0, 3.0),
        (-31.0, 3.0),
    ],
    "stats.cauchy.logsf": [(-1.6e99, 9e-47), (4e106, 1e82), (4.3e60, 1.0), (31.0, 3.0)],
    "stats.expon.logcdf": [
        (2.9e34, 2.6e88),
        (5.9e-198, 4.1e-23),
        (1.4e-67, 2.4e88),
        (0.9, 1.0),
        (3.0, 1.0),
    ],
    "stats.gamma.logsf": [(400.0, 2.5, 1.0), (650.0, 0.4, 1.0)],
    "stats.gamma.logcdf": [(0.01, 2.5, 1.0), (1.0, 400.0, 1.0)],
    "stats.chi2.logsf": [(9.0, 0.8, 1.0)],
    "stats.chi2.logcdf": [(0.03, 5.0, 1.0), (2.0, 30.0, 1.0)],
    "stats.lognorm.logpdf": [(341.9, 95.6, 493.9), (1e-47, 9800.0, 2e57), (5e82, 1e100, 8e-83)],
    "stats.lognorm.logsf": [(1e-5, 4.8e4, 2e-55), (3.0, 0.5, 0.1)],
    "stats.beta.logcdf": [(1.4e-8, 0.9, 0.06, 0.026), (3.4e-14, 0.1, 0.03, 0.01)],
    "stats.beta.logsf": [(0.99999, 30.0, 2.5, 1.0), (0.7, 0.3, 40.0, 1.0)],
    "stats.beta.logpdf": [(2e-10, 0.04, 11.0, 0.075)],
    "stats.beta.ppf": [(0.9997, 4.4, 0.115, 4.0)],
    "stats.t.logsf": [(50.0, 0.3, 2.0), (8.0, 7.0, 1.0)],
    "stats.t.logcdf": [(-8.0, 70.0, 1.0), (-30.0, 2.5, 3.0)],
    "stats.halfnorm.logcdf": [(0.0099, 0.424), (5e-35, 1.9)],
    "stats.gumbel_r.logpdf": [(3e-64, 4.7e-56), (0.09, 1.0), (-0.11, 1.0)],
    "stats.gumbel_l.pdf": [(-3e-9, 4.7)],
    "stats.weibull_min.logcdf": [(2.26e-4, 2.34, 0.0159)],
    "stats.weibull_min.cdf": [(1.7e153, 6.0, 1.7e-21)],
    "stats.pareto.logpdf": [(0.00214, 0.01, 0.00197)],
    "stats.uniform.logcdf": [(1.4e-5, 0.001)],
    "stats.binom.logsf": [(9.0, 10.0, 4.3e-27), (0.0, 7.0, 3.9e-12)],
    "stats.nbinom.logcdf": [(2.0, 749.0, 0.57)],
    "stats.poisson.logsf": [(5.0, 1e-30), (30.0, 0.2)],
    "stats.binom.pmf": [(35.0, 36.0, 0.999999)],
    "stats.binom.logpmf": [(0.0, 7.0, 1.7e-62)],
    "stats.nbinom.pmf": [(0.0, 0.000388, 0.68), (1.0, 3.0, 0.9999)],
    "stats.poisson.pmf": [(1.0, 1.5e-9)],
    "stats.geom.pmf": [(2.0, 3.9e-60)],
    "stats.bernoulli.pmf": [(1.0, 7e-44)],
    "special.binom": [(2.87, 3.864), (2.87, -0.996)],
    "special.fdtrc": [(0.3, 42.65, 1e-9)],
    "special.fdtri": [(0.285, 0.0367, 0.5)],
}
"""Values, shapes and scales at which factors of derivatives are far from these."""


@pytest.mark.slow
def test_first_and_second_derivatives_keep_their_digits_far_out() -> None:
    lost = [str(loss) for name, points in FAR.items() for loss in losses(name, points)]
    assert lost == []


@pytest.mark.parametrize("df", [2e2, 3e4, 1e10, 1e15])
@pytest.mark.parametrize("z", [0.0, 1e-3, 1.7, 30.0])
def test_student_of_many_degrees_is_nearly_normal(z: float, df: float) -> None:
    """The difference from the normal distribution, of order 1 / df, in its leading terms."""
    value, slope = fg.value_and_grad(stats.t.logpdf, 1)(z, df)
    if z * z < 1e-3 * df:
        expected = -(z**4 - 2 * z**2 - 1) / (4 * df**2)
        further = abs((2 * z**6 - 3 * z**4) / (6 * df**3)) + (1 + z**8) / df**4
        assert abs(slope - expected) <= 2 * further + 1e-12 * abs(expected)
    near = np.array([z, z + 10.0 * np.sqrt(df)])
    both = stats.t.logpdf(near, df)
    assert abs(both[0] - value) <= 1e-14 * abs(value)
    staged = fg.jit(fg.grad(lambda x: fnp.sum(stats.t.logpdf(x, df))))(near)
    eager = fg.grad(lambda x: fnp.sum(stats.t.logpdf(x, df)))(near)
    np.testing.assert_allclose(staged, eager, rtol=1e-13)


@pytest.mark.parametrize("level", [1e-6, 0.3, 0.999])
@pytest.mark.parametrize("above", [False, True])
def test_quantiles_of_great_shapes_are_nearly_normal(level: float, above: bool) -> None:
    """Twice the excess of the slope over 1, times the root of a, is a normal quantile."""
    inverse = special.gammainccinv if above else special.gammaincinv
    sign = -1 if above else 1
    normal = sign * special.ndtri(level)
    rise = sign * fg.grad(special.ndtri)(level)
    for a in (1e5, 1.01e6, 1e12, 1e100):
        in_shape, in_level = fg.grad(inverse, (0, 1))(a, level)
        correction = abs(normal**2 - 7) / (36 * a) + normal**4 / a**1.5 + 1e-9 + 2e-16 * a**0.5
        if a < 1e20:
            assert abs((in_shape - 1) * 2 * a**0.5 / normal - 1) < correction
        assert abs(in_level / ((a**0.5 + normal * 2 / 3) * rise) - 1) < 30 / a + 1e-15
        bend = fg.grad(fg.grad(inverse, 1), 0)(a, level)
        assert abs(bend * 2 * a**0.5 / rise - 1) < 2e-3
        assert fg.grad(special.chdtri)(2 * a, level) == fg.grad(special.gammainccinv)(a, level)
    assert fg.grad(inverse)(1e100, 0.0) == fg.grad(inverse)(1e100, 1.0) == 0


@pytest.mark.parametrize("t", [-7.0, -1.3, 1e-3, 2.0, 20.0])
def test_slopes_of_student_in_many_degrees_are_of_order_of_their_square(t: float) -> None:
    with mp.workdps(40):
        leading = float((mp.mpf(t) ** 3 + t) / 4 * mp.npdf(t))
    for df in (5e7, 1e8, 1.01e8, 1e12, 1e100):
        slope = fg.grad(special.stdtr)(df, t)
        assert abs(slope * df * df / leading - 1) < 3e-6 + t**4 / df
    assert fg.grad(special.stdtr)(1e100, np.inf) == 0


def test_the_slope_of_the_logistic_density_is_a_tangent() -> None:
    for z in (1e-200, 1e-9, 0.3, 0.999, 1.0, 7.0, 800.0):
        slope = fg.grad(stats.logistic.logpdf)(z)
        np.testing.assert_allclose(slope, -np.tanh(z / 2), rtol=1e-15)
        change = fg.grad(fg.grad(stats.logistic.logpdf))(z)
        np.testing.assert_allclose(change, -0.5 / np.cosh(min(z, 700.0) / 2) ** 2, 1e-13, 1e-300)


def test_the_search_sees_lost_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(x: Any, scale: Any) -> Any:
        z = x / scale
        return -fnp.log(fnp.exp(z) + 2 + fnp.exp(-z)) - fnp.log(scale)

    known = subjects()["stats.logistic.logpdf"]
    wrong = {"stats.logistic.logpdf": Subject(careless, known.twin, known.draw)}
    monkeypatch.setattr("tests.tools.digits.search.subjects", lambda: wrong)
    assert [x for x in losses("stats.logistic.logpdf", [(1e-9, 1.0)]) if not excused(x)]


def test_the_page_is_up_to_date() -> None:
    # If this fails: python -m tests.tools.digits.page
    assert written() == PAGE.read_text(encoding="utf-8")
