"""Interpolation, slopes and phases: conventions at kinks, extreme numbers, errors."""

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad.errors import ArgumentError, DtypeError, ShapeError
from tests.together import refused, together

PLACES = np.array([1.0, 2.0, 4.0])
HEIGHTS = np.array([3.0, 2.0, -6.0])


@together(
    ("x", "slope"), [(0.0, 0.0), (1.0, -1.0), (2.0, -4.0), (3.0, -4.0), (4.0, 0.0), (5.0, 0.0)]
)
def test_the_slope_at_a_sample_is_that_to_its_right(x: float, slope: float) -> None:
    assert fg.grad(fnp.interp)(x, PLACES, HEIGHTS) == slope
    assert fg.jvp(lambda x: fnp.interp(x, PLACES, HEIGHTS), (x,), (1.0,))[1] == slope


def test_a_sample_has_its_value_and_gets_its_cotangent() -> None:
    gradient = fg.jacrev(fnp.interp, argnums=2)
    np.testing.assert_array_equal(gradient(PLACES, PLACES, HEIGHTS), np.eye(3))


def test_infinite_samples_are_met_exactly() -> None:
    heights = np.array([0.0, np.inf, 1.0])
    found = fnp.interp(PLACES, PLACES, heights)
    np.testing.assert_array_equal(found, heights)


def test_equal_positions_have_no_slope() -> None:
    found = fg.grad(fnp.interp)(2.0, [1.0, 2.0, 2.0, 3.0], [0.0, 1.0, 5.0, 6.0])
    assert found == 1.0


def test_coordinates_are_differentiated_although_they_are_evenly_spaced() -> None:
    fg.testing.check_grads(fnp.gradient, (HEIGHTS, np.array([0.0, 1.0, 2.0])))


def test_whole_periods_are_counted() -> None:
    phases = np.array([0.0, 5.0, 10.0, 1.0])
    assert fg.jacrev(fnp.unwrap)(phases).tolist() == np.eye(4).tolist()
    turns = fg.jacfwd(lambda period: fnp.unwrap(phases, period=period))(6.0)
    np.testing.assert_array_equal(turns, [0.0, -1.0, -2.0, -1.0])


test_words = refused(
    [
        (lambda: fnp.interp([], [], [1.0]), ShapeError, "xp and fp have to be sequences"),
        (lambda: fnp.interp(1.0, [], []), ShapeError, "xp and fp have to be sequences"),
        (lambda: fnp.interp(1.0, [1.0], [1.0, 2.0]), ShapeError, r"\(1,\) and \(2,\)"),
        (lambda: fnp.interp(1j, [1.0], [1.0]), DtypeError, "x has to be real"),
        (lambda: fnp.interp(1.0, [1.0], [1.0], period=0), ArgumentError, "a nonzero number"),
        (lambda: fnp.gradient([1.0]), ShapeError, "at least 2 samples are needed along axis 0"),
        (lambda: fnp.gradient([1.0, 2.0], edge_order=2), ShapeError, "at least 3 samples"),
        (lambda: fnp.gradient([1.0, 2.0], edge_order=3), ArgumentError, "edge_order has to be"),
        (lambda: fnp.gradient([1.0, 2.0], 1.0, 2.0), ArgumentError, "2 distances do not fit 1"),
        (lambda: fnp.gradient([1.0, 2.0], [1.0]), ShapeError, r"coordinates of the shape \(1,\)"),
        (lambda: fnp.unwrap([1j, 2.0]), DtypeError, "have to be real"),
    ]
)
