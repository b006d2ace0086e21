"""`debug.conventions`: kinks at a point, with the convention and the slopes on both sides."""

import math

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.debug import conventions
from funcgrad.errors import ArgumentError
from tests.together import together

LEAST, SHARED = "the subgradient of least norm", "shared among equal elements"
PLACES = "with equal elements ordered by position"
INSIDE, BOTH = "the limit from inside", "the slope on both sides"
UNDEFINED = "following the value"

AT = [
    (abs, (0.0,), "absolute", "a kink", LEAST, 0, -1, 1),
    (fg.nn.relu, (0.0,), "relu", "a kink", LEAST, 0, 0, 1),
    (lambda x: fnp.maximum(x, 1.0), (1.0,), "maximum", "a kink", SHARED, 0.5, 0, 1),
    (fnp.max, (np.ones(2),), "max", "a kink", SHARED, 0.5, 0, 1),
    (fnp.sort, (np.ones(2),), "sort", "a kink", PLACES, 1, 1, 0),
    (fnp.linalg.norm, (np.zeros(2),), "length", "a kink", LEAST, 0, -1, 1),
    (fnp.std, (np.ones(2),), "std", "a kink", LEAST, 0, -0.5, 0.5),
    (fnp.floor, (2.0,), "floor", "a jump", BOTH, 0, 0, 0),
    (fnp.sign, (0.0,), "sign", "a jump", BOTH, 0, 0, 0),
    (fnp.cbrt, (0.0,), "cbrt", "a kink", "the limit", math.inf, math.inf, math.inf),
    (fnp.sqrt, (0.0,), "sqrt", "the end of its domain", INSIDE, math.inf, math.nan, math.inf),
    (fnp.arcsin, (1.0,), "arcsin", "the end of its domain", INSIDE, math.inf, math.inf, math.nan),
    (fnp.log, (-1.0,), "log", "outside of its domain", "following the value", *[math.nan] * 3),
    (fg.scipy.special.i1e, (0.0,), "i1e", "a kink", "", 0.5, 0.5, 0.5),
]


@together("row", AT, ids=[str(row[2]) for row in AT])
def test_a_convention_is_told(row):
    f, args, operation, place, rule, *slopes = row
    (entry,) = conventions(f, *args)
    assert (entry.operation, entry.place) == (operation, place)
    assert rule in entry.rule
    found = [entry.derivative, entry.left, entry.right]
    np.testing.assert_allclose(found, slopes, atol=1e-6)


def test_the_poles_of_a_quotient():
    (entry,) = conventions(lambda x: 1 / x, 0.0)
    assert entry.place == "a pole"


def test_nothing_is_told_of_smooth_points():
    report = conventions(lambda x: abs(x) + fnp.sqrt(x), 1.0)
    assert not len(report)
    assert (
        repr(report) == "conventions of the function: no operation is at a kink, a tie or an edge"
    )


def test_near_kinks_are_listed_within_a_tolerance():
    assert not len(conventions(abs, 0.01))
    assert [entry.operation for entry in conventions(abs, 0.01, tolerance=0.1)] == ["absolute"]


def test_lines_are_the_users_also_in_compiled_loops():
    def step(c, k):
        return fnp.maximum(c, k), c

    (entry,) = conventions(fg.jit(lambda x: fg.scan(step, x, fnp.arange(3.0))[0]), 1.0)
    assert entry.line == f"test_conventions.py:{step.__code__.co_firstlineno + 1}"


def test_equal_elements_are_counted():
    report = conventions(fg.nn.relu, np.zeros(3))
    assert report.counts == (3,)
    assert "(in 3 elements)" in repr(report)


def test_what_a_comparison_chooses_by_is_constant():
    assert not len(conventions(lambda x: abs(fnp.floor(x)) * x, 0.5))


def test_a_negative_tolerance_is_refused():
    with pytest.raises(ArgumentError, match="tolerance has to be at least 0"):
        conventions(abs, 0.0, tolerance=-1.0)
