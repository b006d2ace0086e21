"""Wrong arguments have errors that name the interpolator, the argument and the cause."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from funcgrad import errors, interpolate
from tests.together import refused

X, Y = np.arange(5.0), np.arange(5.0) ** 2
SPLINE: Any = interpolate.CubicSpline
STEPS: Any = interpolate.interp1d
GRID: Any = interpolate.RegularGridInterpolator
RADIAL: Any = interpolate.RBFInterpolator
FIT: Any = interpolate.make_interp_spline

REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "descending": (lambda: SPLINE(X[::-1], Y), errors.ArgumentError, "ascend strictly"),
    "equal points": (lambda: SPLINE([0.0, 0.0, 1.0], X[:3]), errors.ArgumentError, "ascend"),
    "one point": (lambda: SPLINE([0.0], [1.0]), errors.ShapeError, "at least 2 points"),
    "lengths": (lambda: SPLINE(X, Y[:4]), errors.ShapeError, "y has 4 values along axis 0"),
    "matrix of points": (lambda: SPLINE(X[:, None], Y), errors.ShapeError, "x is 1-d"),
    "complex points": (lambda: SPLINE(X + 1j, Y), errors.DtypeError, "x has to be real"),
    "NaN": (lambda: SPLINE(X, Y * np.nan), errors.ArgumentError, "y has to be finite"),
    "NaN point": (lambda: SPLINE(np.r_[np.nan, X[1:]], Y), errors.ArgumentError, "x has to be fin"),
    "axis": (lambda: SPLINE(X, Y, 1), errors.ShapeError, "axis 1"),
    "condition": (lambda: SPLINE(X, Y, bc_type="free"), errors.ArgumentError, "'free'"),
    "mixed": (lambda: SPLINE(X, Y, bc_type=("periodic", "natural")), errors.ArgumentError, "both"),
    "not periodic": (lambda: SPLINE(X, Y, bc_type="periodic"), errors.ArgumentError, "equal"),
    "third": (lambda: SPLINE(X, Y, bc_type=((3, 0.0), (1, 0.0))), errors.ArgumentError, "order 1"),
    "shape of a slope": (
        lambda: SPLINE(X, Y, bc_type=((1, [0.0]), (1, 0.0))),
        errors.ShapeError,
        "and a sample",
    ),
    "extrapolate": (lambda: SPLINE(X, Y, extrapolate="on"), errors.ArgumentError, "'periodic'"),
    "nu": (lambda: SPLINE(X, Y)(0.5, -1), errors.ShapeError, "nu must not be negative"),
    "limits": (lambda: SPLINE(X, Y).integrate(X, 1.0), errors.ShapeError, "scalars"),
    "slopes": (
        lambda: interpolate.CubicHermiteSpline(X, Y, Y[:3]),
        errors.ShapeError,
        "y and dydx",
    ),
    "complex pchip": (
        lambda: interpolate.PchipInterpolator(X, Y + 1j),
        errors.DtypeError,
        "y has to be real",
    ),
    "akima's method": (
        lambda: interpolate.Akima1DInterpolator(X, Y, method="none"),
        errors.ArgumentError,
        "akima, makima",
    ),
    "coefficients": (
        lambda: interpolate.PPoly(np.ones((2, 3)), X),
        errors.ShapeError,
        r"\(k, m, ...\)",
    ),
    "few knots": (lambda: interpolate.BSpline(X, Y, 3), errors.ShapeError, "at least 8 knots"),
    "few coefficients": (
        lambda: interpolate.BSpline(X, Y[:1], 1),
        errors.ShapeError,
        "take 3 coefficients",
    ),
    "falling knots": (lambda: interpolate.BSpline(-X, Y, 1), errors.ArgumentError, "t has to"),
    "too few points": (lambda: FIT(X[:3], Y[:3]), errors.ShapeError, "at least 4 points"),
    "conditions": (
        lambda: FIT(X, Y, bc_type=([(1, 0.0)], None)),
        errors.ShapeError,
        "take 7 conditions",
    ),
    "word": (lambda: FIT(X, Y, bc_type="free"), errors.ArgumentError, "'free'"),
    "knots miss points": (
        lambda: FIT(X, Y, 1, [0.0, 0.0, 0.2, 0.5, 0.7, 4.0, 4.0]),
        errors.MatrixError,
        "Schoenberg",
    ),
    "outside of knots": (
        lambda: FIT(X, Y, 1, [1.0, 1.0, 2.0, 2.5, 3.0, 4.0, 4.0]),
        errors.ArgumentError,
        "between t",
    ),
    "kind": (lambda: STEPS(X, Y, "septic"), errors.ArgumentError, "'septic'"),
    "outside": (lambda: STEPS(X, Y)(7.0), errors.ArgumentError, "bounds_error=False"),
    "contradiction": (
        lambda: STEPS(X, Y, bounds_error=True, fill_value="extrapolate"),
        errors.ArgumentError,
        "contradict",
    ),
    "fill": (lambda: STEPS(X, Y, fill_value=[1.0, 2.0, 3.0]), errors.ShapeError, "fill_value"),
    "cubic needs more": (lambda: STEPS(X[:3], Y[:3], "cubic"), errors.ShapeError, "at least 4"),
    "grid": (lambda: GRID((X, X), Y), errors.ShapeError, "as long as the points"),
    "grid's order": (lambda: GRID(([0.0, 2.0, 1.0],), Y[:3]), errors.ArgumentError, "points.0."),
    "grid's method": (lambda: GRID((X,), Y, "splinef2d"), errors.ArgumentError, "splinef2d"),
    "grid's size": (lambda: GRID((X,), Y, "quintic"), errors.ShapeError, "at least 6 points"),
    "outside of the grid": (lambda: GRID((X,), Y)([[9.0]]), errors.ArgumentError, "outside"),
    "coordinates": (lambda: GRID((X,), Y)(np.ones((2, 3))), errors.ShapeError, r"\(..., 1\)"),
    "solver": (lambda: GRID((X,), Y, "cubic", solver=1), errors.ArgumentError, "no solver"),
    "nu of lines": (lambda: GRID((X,), Y)([[1.0]], nu=[1]), errors.ArgumentError, "fg.grad"),
    "neighbors": (lambda: RADIAL(X[:, None], Y, 3), errors.ArgumentError, "neighbors"),
    "epsilon": (lambda: RADIAL(X[:, None], Y, kernel="gaussian"), errors.ArgumentError, "epsilon"),
    "kernel": (lambda: RADIAL(X[:, None], Y, kernel="round"), errors.ArgumentError, "'round'"),
    "data": (lambda: RADIAL(X, Y), errors.ShapeError, r"\(n, d\)"),
    "data points": (lambda: RADIAL(X[:2, None], Y[:2], degree=2), errors.ShapeError, "at least 3"),
    "rows": (lambda: RADIAL(X[:, None], Y)(1.0), errors.ShapeError, "one row a point"),
    "equal data": (
        lambda: RADIAL(np.zeros((3, 1)), Y[:3], kernel="cubic", degree=-1),
        errors.MatrixError,
        "singular",
    ),
}


test_refusals = refused(REFUSED)


def test_low_degrees_are_warned_of() -> None:
    with pytest.warns(UserWarning, match="from the degree 1 on"):
        RADIAL(X[:, None], Y, degree=0)
