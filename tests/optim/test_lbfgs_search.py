"""The line search tries rates in the bracket that values and slopes prove, and ends at the best."""

import math

import pytest
from numpy.testing import assert_allclose

import funcgrad as fg
from funcgrad.optim.lbfgs_search import Conditions, LinePlace, searched

STRICT = Conditions(1e-4, 0.1, 1e-15, 20)


def search(value, slope, conditions=STRICT):
    """The best rate, and all that were tried, for functions of the rate."""
    seen = []

    def along(rate):
        seen.append(rate.item())
        return tuple(map(fg.tensor, (value(seen[-1]), slope(seen[-1]), seen[-1])))

    start = LinePlace(*map(fg.tensor, (0.0, value(0.0), slope(0.0))))
    low, gradient, evaluations = searched(along, start, fg.tensor(0.0), conditions)
    assert evaluations.item() == len(seen)
    assert gradient.item() == low.rate.item()  # which is the gradient here
    return low.rate.item(), seen


@pytest.mark.parametrize("a", [3.0, 0.5])
def test_the_minimum_of_a_cubic_polynomial_is_the_second_rate(a):
    rate, seen = search(lambda t: a * t**3 - t, lambda t: 3 * a * t * t - 1.0)
    assert_allclose(rate, math.sqrt(1.0 / (3.0 * a)), rtol=1e-12)
    assert len(seen) == 2


def test_rates_grow_by_four_times_the_last_way_at_most():
    rate, seen = search(lambda t: (t - 100.0) ** 2, lambda t: 2.0 * (t - 100.0))
    assert_allclose(rate, 100.0, rtol=1e-12)
    assert seen[:4] == [1.0, 5.0, 21.0, 85.0]
    assert len(seen) == 5


def test_without_a_minimum_the_last_rate_counts():
    rate, seen = search(
        lambda t: -t - t * t, lambda t: -1.0 - 2.0 * t, STRICT._replace(evaluations=5)
    )
    assert seen == [1.0, 5.0, 21.0, 85.0, 341.0]
    assert rate == 341.0


@pytest.mark.parametrize("wall", [math.inf, -math.inf, math.nan])
def test_a_value_that_is_not_finite_halves_the_rate(wall):
    rate, seen = search(
        lambda t: (t - 0.2) ** 2 if t < 0.3 else wall, lambda t: 2.0 * (t - 0.2) if t < 0.3 else 1.0
    )
    assert seen[:3] == [1.0, 0.5, 0.25]
    assert_allclose(rate, 0.2, rtol=1e-12)


def test_a_flat_place_that_is_not_lower_is_too_far():
    rate, seen = search(
        lambda t: -t + 3.5 * t * t - 2.0 * t**3, lambda t: -1.0 + 7.0 * t - 6.0 * t * t
    )
    assert seen[0] == 1.0
    assert 0.0 < rate < 0.3


def test_a_place_above_the_best_ends_the_bracket():
    places = {0.0: (0.0, -1.0), 1.0: (-1.0, -1.0), 5.0: (-0.5, -0.5)}
    rate, seen = search(
        lambda t: places.get(t, (-6.0, 0.0))[0], lambda t: places.get(t, (-6.0, 0.0))[1]
    )
    assert seen[:2] == [1.0, 5.0]
    assert 1.0 < rate < 5.0
    assert len(seen) == 3


def test_a_slope_towards_the_best_place_turns_the_bracket():
    places = [(0.0, -1.0), (-1.0, 1.0), (-2.0, -0.5), (-3.0, 0.0)]
    values, slopes = (iter([place[k] for place in places]) for k in (0, 1))
    rate, (first, second, third) = search(lambda t: next(values), lambda t: next(slopes))
    assert first == 1.0
    assert second < third < first
    assert rate == third


def test_slopes_decide_where_values_differ_by_rounding():
    def value(t):
        return 1e8 if t == 0.0 else math.nextafter(1e8, math.inf)

    def slope(t):
        return 1e-5 * (t - 0.5)

    rate, seen = search(value, slope)
    assert len(seen) == 2
    assert 0.4 < rate < 0.6
    assert search(value, slope, STRICT._replace(noise=0.0))[0] == 0.0


@pytest.mark.parametrize(("value", "slope"), [(math.nan, -1.0), (0.0, 0.0), (0.0, -math.inf)])
def test_nothing_is_tried_where_no_descent_begins(value, slope):
    assert search(lambda t: value, lambda t: slope) == (0.0, [])
