"""Derivatives in the points, the values and the points of the samples; programs and batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import interpolate
from tests.every_mode import assert_every_mode

RNG = np.random.default_rng(3)
X = np.arange(6.0) + RNG.uniform(-0.3, 0.3, 6)
Y = np.array([0.3, 1.1, 2.0, 1.2, -0.7, 0.4]) + RNG.uniform(-0.1, 0.1, 6)
AT = np.array([-0.6, 0.37, 1.61, 2.45, 4.7, 5.9])  # between points, and outside
INSIDE = AT[1:5]
GRID = X[:5]
VALUES = RNG.normal(size=(6, 5))
PAIRS = np.stack([INSIDE, INSIDE[::-1] * 0.7 + 0.2], -1)
PLACES = np.stack([X, np.sin(3.0 * X)], -1)


def periodic(y: Any) -> Any:
    return fnp.concatenate([y[:-1], y[:1]])


def grid(method: str) -> Callable[..., Any]:
    return lambda x, v, at: interpolate.RegularGridInterpolator((x, GRID), v, method)(at)


def radial(kernel: str, smoothing: float = 0.0) -> Callable[..., Any]:
    return lambda y, d, at, epsilon: interpolate.RBFInterpolator(
        y, d, smoothing=smoothing, kernel=kernel, epsilon=epsilon
    )(at)


def integral(x: Any, y: Any, a: Any, b: Any) -> Any:
    return interpolate.CubicSpline(x, y, bc_type="natural").integrate(a, b)


def curve(name: str, **options: Any) -> Callable[..., Any]:
    return lambda x, y, at: getattr(interpolate, name)(x, y, **options)(at)


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "spline": (curve("CubicSpline"), (X, Y, AT)),
    "natural spline": (curve("CubicSpline", bc_type="natural"), (X, Y, AT)),
    "periodic spline": (
        lambda x, y, at: interpolate.CubicSpline(x, periodic(y), bc_type="periodic")(at),
        (X, Y, AT),
    ),
    "spline with slopes": (
        lambda x, y, a, b: interpolate.CubicSpline(x, y, bc_type=((1, a), (2, b)))(AT),
        (X, Y, 0.3, -0.4),
    ),
    "slope of a spline": (lambda x, y, at: interpolate.CubicSpline(x, y)(at, 1), (X, Y, AT)),
    "complex spline": (
        lambda x, y, at: interpolate.CubicSpline(x, y)(at),
        (X, Y + 1j * Y[::-1], INSIDE),
    ),
    "hermite": (
        lambda x, y, s, at: interpolate.CubicHermiteSpline(x, y, s)(at),
        (X, Y, Y[::-1], AT),
    ),
    "integral": (integral, (X, Y, 0.4, 4.1)),
    "integral of a B-spline": (
        lambda t, c, a, b: interpolate.BSpline(t, c, 2, "periodic").integrate(a, b),
        (np.r_[X, X[-1] + 1.0], Y[:4], 0.4, 14.1),
    ),
    "pchip": (curve("PchipInterpolator"), (X, Y, AT)),
    "akima": (curve("Akima1DInterpolator"), (X, Y, INSIDE)),
    "makima": (curve("Akima1DInterpolator", method="makima"), (X, Y, INSIDE)),
    "B-spline": (lambda t, c, at: interpolate.BSpline(t, c, 2)(at), (np.r_[X, 7.0], Y[:4], AT)),
    "spline of degree 5": (curve("make_interp_spline", k=5), (X, Y, INSIDE)),
    "spline of degree 2": (curve("make_interp_spline", k=2), (X, Y, AT)),
    "periodic spline of degree 4": (
        lambda x, y, at: interpolate.make_interp_spline(x, periodic(y), 4, bc_type="periodic")(at),
        (X, Y, AT),
    ),
    "given knots": (
        lambda x, y, t: interpolate.make_interp_spline(
            fnp.concatenate([X[:1], x, X[5:]]), y, 2, fnp.concatenate([[X[0]] * 3, t, [X[5]] * 3])
        )(INSIDE),
        (X[1:5], Y, X[2:5] - 0.6),
    ),
    "lines": (curve("interp1d", fill_value="extrapolate"), (X, Y, AT)),
    "steps": (curve("interp1d", kind="nearest"), (X, Y, INSIDE)),
    "fill": (
        lambda x, y, low, high: interpolate.interp1d(
            x, y, bounds_error=False, fill_value=(low, high)
        )(AT),
        (X, Y, 0.5, 2.0),
    ),
    "linear grid": (grid("linear"), (X, VALUES, PAIRS)),
    "cubic grid": (grid("cubic"), (X, VALUES, PAIRS)),
    "monotone grid": (grid("pchip"), (X, VALUES, PAIRS[:2])),
    "thin plates": (radial("thin_plate_spline"), (PLACES, Y, PAIRS, 1.0)),
    "gaussians": (radial("gaussian", 0.1), (PLACES, Y, PAIRS, 1.3)),
    "linear radial functions": (radial("linear"), (PLACES, Y, PAIRS, 1.0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_mode(name: str) -> None:
    function, args = CASES[name]
    assert_every_mode(function, *args)


def test_interpolators_are_trees() -> None:
    spline = interpolate.CubicSpline(X, Y)
    assert isinstance(spline, interpolate.PPoly)
    at = fg.tensor(INSIDE)
    evaluate = fg.jit(lambda s, at: s(at))
    np.testing.assert_allclose(evaluate(spline, at), spline(at), rtol=1e-14)
    made = fg.jit(interpolate.CubicSpline)(X, Y)
    assert isinstance(made, interpolate.CubicSpline)
    np.testing.assert_allclose(made.c, spline.c, rtol=1e-12)
    slope = fg.grad(lambda s: s(1.5))(spline)
    assert slope.c.shape == spline.c.shape
    assert float(slope.c[3, 1]) == 1.0
    batch = fg.vmap(interpolate.CubicSpline, in_axes=(None, 0))(X, np.stack([Y, 2.0 * Y]))
    values = fg.vmap(lambda s: s(at))(batch)
    np.testing.assert_allclose(values[1], 2.0 * spline(at), rtol=1e-12)
    trees: list[Any] = [
        interpolate.make_interp_spline(X, Y),
        interpolate.interp1d(X, Y, "cubic"),
        interpolate.RegularGridInterpolator((X,), Y),
    ]
    for curve in trees:
        again = fg.tree.map(lambda leaf: leaf, curve)
        assert type(again) is type(curve)
        rows = at[:, None] if hasattr(curve, "grid") else at
        np.testing.assert_allclose(evaluate(curve, rows), again(rows), rtol=1e-13)


def test_one_program_evaluates_all_splines_of_a_size() -> None:
    evaluate = fg.jit(lambda s, at: s(at))
    for scale in (1.0, 2.0, 3.0):
        evaluate(interpolate.CubicSpline(X, scale * Y), INSIDE)
    assert evaluate.stagings == 1


def test_conventions_at_knots() -> None:
    line = interpolate.interp1d([0.0, 1.0, 2.0], [0.0, 1.0, 3.0])
    assert float(fg.grad(line)(1.0)) == 2.0
    assert float(fg.grad(line)(2.0)) == 2.0
    bent = interpolate.PchipInterpolator([0.0, 1.0, 2.0], [0.0, 1.0, 0.0])
    assert float(fg.grad(bent)(1.0)) == 0.0
    flat = fg.jacrev(lambda y: interpolate.PchipInterpolator([0.0, 1.0, 2.0], y)(1.0, 1))
    np.testing.assert_array_equal(flat(fg.tensor([0.0, 1.0, 1.0])), np.zeros(3))
    level = fg.jacrev(lambda y: interpolate.Akima1DInterpolator(X, y)(INSIDE))(np.ones(6))
    assert np.all(np.isfinite(level))


def test_a_degenerate_sample_makes_one_example_of_a_batch_nan() -> None:
    knots = np.stack([X, np.r_[X[:2], X[1], X[3:]]])
    values = fg.vmap(lambda x: interpolate.CubicSpline(x, Y)(INSIDE))(knots)
    assert np.all(np.isfinite(values[0]))
    assert np.all(np.isnan(values[1]))
    inside = fg.jit(lambda y: interpolate.PchipInterpolator(X, y)(INSIDE))
    assert np.all(np.isnan(inside(np.r_[Y[:5], np.nan])))


def test_axes_may_be_examples_of_a_batch() -> None:
    axes, values = np.array([[0.0, 1.0, 3.0], [0.0, 2.0, 3.0]]), np.array([1.0, 5.0, 2.0])
    points = np.array([[0.5], [2.5]])

    def f(axis: Any) -> Any:
        return interpolate.interpn((axis,), values, points)

    np.testing.assert_allclose(fg.vmap(f)(axes), [f(axis) for axis in axes])
