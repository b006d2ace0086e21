"""Values, derivatives and integrals of interpolators beside SciPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import funcgrad as fg
from funcgrad import interpolate
from funcgrad.interpolate.cyclic_bands import solve_cyclic
from tests.together import together

scipy_interpolate: Any = pytest.importorskip("scipy.interpolate")

RNG = np.random.default_rng(11)
POINTS = RNG.uniform(-1.0, 9.0, (3, 5))


def samples(count: int, *behind: int, axis: int = 0) -> tuple[Any, Any]:
    """Points that are apart, and values along an axis."""
    rng = np.random.default_rng(count)
    x = np.arange(count) + rng.uniform(-0.3, 0.3, count)
    y = rng.normal(size=(count, *behind))
    return x, np.moveaxis(y, 0, axis)


def close(ours: Any, theirs: Any, digits: float = 1e-12) -> None:
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert ours.shape == theirs.shape
    scale = np.max(np.nan_to_num(np.abs(theirs)), initial=1.0)
    np.testing.assert_allclose(ours, theirs, rtol=digits, atol=digits * scale)


def same_curves(ours: Any, theirs: Any) -> None:
    """Values, derivatives, integrals, and what lies outside."""
    for extrapolate in (None, True, False, "periodic"):
        for nu in (0, 1, 2, 3, 4):
            close(ours(POINTS, nu, extrapolate), theirs(POINTS, nu, extrapolate), 1e-11)
        close(ours.integrate(-0.5, 13.3, extrapolate), theirs.integrate(-0.5, 13.3, extrapolate))
    close(ours.derivative(2)(POINTS), theirs.derivative(2)(POINTS), 1e-11)
    whole, their_whole = ours.antiderivative(2), theirs.antiderivative(2)
    close(whole(POINTS, extrapolate=True), their_whole(POINTS, extrapolate=True))


CONDITIONS = (
    "not-a-knot",
    "natural",
    "clamped",
    "periodic",
    ("natural", "clamped"),
    ((1, 0.5), (2, -1.0)),
    ("not-a-knot", (1, 2.0)),
)


@together("condition", CONDITIONS, ids=str)
@together("count", [2, 3, 4, 5, 9])
def test_cubic_splines(count: int, condition: Any) -> None:
    x, y = samples(count)
    if condition == "periodic":
        y[-1] = y[0]
    same_curves(
        interpolate.CubicSpline(x, y, bc_type=condition),
        scipy_interpolate.CubicSpline(x, y, bc_type=condition),
    )


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("CubicSpline", {}),
        ("PchipInterpolator", {}),
        ("Akima1DInterpolator", {}),
        ("Akima1DInterpolator", {"method": "makima"}),
    ],
    ids=str,
)
@pytest.mark.parametrize("count", [2, 3, 4, 9])
def test_curves_along_an_axis(name: str, options: dict[str, Any], count: int) -> None:
    x, y = samples(count, 2, 3, axis=1)
    y[0, count // 2 :] = y[0, count // 2 - 1]  # flat parts, and corners of the limiter
    ours = getattr(interpolate, name)(x, y, 1, **options)
    theirs = getattr(scipy_interpolate, name)(x, y, 1, **options)
    close(ours.c, theirs.c)
    same_curves(ours, theirs)


def test_hermite_splines_and_complex_values() -> None:
    x, y = samples(6, 2)
    y, slopes = y + 1j * y[::-1], y * 1j
    same_curves(
        interpolate.CubicHermiteSpline(x, y, slopes),
        scipy_interpolate.CubicHermiteSpline(x, y, slopes),
    )
    same_curves(interpolate.CubicSpline(x, y), scipy_interpolate.CubicSpline(x, y))
    close(
        interpolate.make_interp_spline(x, y)(POINTS),
        scipy_interpolate.make_interp_spline(x, y)(POINTS),
    )


def test_piecewise_polynomials() -> None:
    x, c = samples(5)[0], RNG.normal(size=(2, 3, 4, 2))
    ours, theirs = (home.PPoly(c, x, axis=1) for home in (interpolate, scipy_interpolate))
    same_curves(ours, theirs)
    close(ours.c, theirs.c)
    spline = interpolate.make_interp_spline(*samples(7))
    theirs = scipy_interpolate.make_interp_spline(*samples(7))
    close(
        interpolate.PPoly.from_spline(spline)(POINTS),
        scipy_interpolate.PPoly.from_spline(theirs)(POINTS),
        1e-11,
    )


@pytest.mark.parametrize("k", [0, 1, 2, 3, 5])
def test_b_splines(k: int) -> None:
    t = np.r_[[0.0] * (k + 1), np.sort(RNG.uniform(0.0, 7.0, 5)), [7.5] * (k + 1)]
    c = RNG.normal(size=(2, t.size - k - 1))
    for extrapolate in (True, False, "periodic"):
        ours = interpolate.BSpline(t, c, k, extrapolate, 1)
        theirs = scipy_interpolate.BSpline(t, c, k, extrapolate, 1)
        for nu in range(k + 2):
            close(ours(POINTS, nu), theirs(POINTS, nu), 1e-10)
        for order in range(k + 1):
            wanted = theirs.derivative(order)(POINTS)
            close(ours.derivative(order)(POINTS), wanted, 1e-10)
        close(
            ours.antiderivative(2)(POINTS, extrapolate=True),
            theirs.antiderivative(2)(POINTS, extrapolate=True),
        )
        close(ours.integrate(-0.5, 9.3), theirs.integrate(-0.5, 9.3))
    inside = RNG.uniform(0.0, 7.5, 9)
    matrix = scipy_interpolate.BSpline.design_matrix(inside, t, k).toarray()
    close(interpolate.BSpline.design_matrix(inside, t, k), matrix)
    element = scipy_interpolate.BSpline.basis_element(t[: k + 2] + np.arange(k + 2))
    ours = interpolate.BSpline.basis_element(t[: k + 2] + np.arange(k + 2))
    close(ours(POINTS), element(POINTS), 1e-11)


@together(
    "condition",
    [
        None,
        "periodic",
        "natural",
        "clamped",
        ([(1, 0.5)], [(2, -1.0)]),
        ([(1, 0.5), (2, 1.0)], [(1, 0.0), (2, 0.5)]),
        ([(2, 0.5), (3, 1.0)], None),
    ],
    ids=str,
)
@together("k", [0, 1, 2, 3, 4, 5])
def test_interpolating_splines(k: int, condition: Any) -> None:
    for count in (2, 4, 6, 7, 15):
        x, y = samples(count)
        if condition == "periodic":
            y[-1] = y[0]
        try:
            theirs = scipy_interpolate.make_interp_spline(x, y, k, bc_type=condition)
        except ValueError:
            with pytest.raises(ValueError, match="make_interp_spline"):
                interpolate.make_interp_spline(x, y, k, bc_type=condition)
            continue
        ours = interpolate.make_interp_spline(x, y, k, bc_type=condition)
        close(ours(POINTS, extrapolate=theirs.extrapolate), theirs(POINTS), 1e-10)


def test_splines_with_given_knots() -> None:
    x, y = samples(8, 2)
    t = np.r_[[x[0]] * 4, x[2:-2] + 0.1, [x[-1]] * 4]
    ours = interpolate.make_interp_spline(x, y, 3, t)
    close(ours(POINTS), scipy_interpolate.make_interp_spline(x, y, 3, t)(POINTS), 1e-11)


KINDS = "linear nearest nearest-up previous next zero slinear quadratic cubic".split()


@pytest.mark.parametrize("kind", [*KINDS, 4])
def test_interpolation_by_kind(kind: Any) -> None:
    x, y = samples(8, 2, 3, axis=1)
    order = RNG.permutation(8)
    at = np.concatenate([x, (x[1:] + x[:-1]) / 2.0, [-3.0, 20.0]])
    for fill in (np.nan, "extrapolate", (0.0, 1.0), np.ones((2, 3))):
        options = {"kind": kind, "axis": 1, "fill_value": fill, "bounds_error": False}
        ours = interpolate.interp1d(x[order], y[:, order], **options)
        close(ours(at), scipy_interpolate.interp1d(x[order], y[:, order], **options)(at), 1e-11)


@pytest.mark.parametrize("rank", [1, 2, 3])
@pytest.mark.parametrize("method", ["linear", "nearest", "slinear", "cubic", "quintic", "pchip"])
def test_grids(method: str, rank: int) -> None:
    solve = pytest.importorskip("scipy.sparse.linalg").spsolve
    axes = [samples(count)[0] for count in (7, 6, 8)][:rank]
    values = RNG.normal(size=(*[axis.size for axis in axes], 2))
    axes[0], values = axes[0][::-1], values[::-1]  # descends
    at = RNG.uniform(-1.0, 7.5, (3, 4, rank))
    if method != "pchip":
        at[0, 0, 0] = np.nan
    solver = {} if method in ("linear", "nearest", "pchip") else {"solver": solve}
    for fill in (np.nan, 3.0, None):
        options: Any = {"method": method, "bounds_error": False, "fill_value": fill}
        theirs = scipy_interpolate.RegularGridInterpolator(axes, values, **options, **solver)
        ours = interpolate.RegularGridInterpolator(axes, values, **options)
        close(ours(at), theirs(at), 1e-10)
        if method in ("cubic", "quintic"):
            close(ours(at, nu=[1] * rank), theirs(at, nu=np.ones(rank, int)), 1e-9)
    inside = np.full((1, rank), 2.5)
    ours = interpolate.RegularGridInterpolator(axes, values, method)
    theirs = scipy_interpolate.RegularGridInterpolator(axes, values, method="linear")(inside)
    close(ours(inside, method="linear"), theirs)
    close(interpolate.interpn(axes, values, inside), theirs)
    close(interpolate.interpn(axes, values, tuple(inside[0])), theirs[0])


KERNELS = """linear thin_plate_spline cubic quintic multiquadric inverse_multiquadric
inverse_quadratic gaussian""".split()


@pytest.mark.parametrize("kernel", KERNELS)
def test_radial_functions(kernel: str) -> None:
    grid = np.stack(np.meshgrid(np.arange(4.0), np.arange(3.0)), -1).reshape(-1, 2)
    places = grid + RNG.uniform(-0.2, 0.2, grid.shape)
    data = RNG.normal(size=(12, 2)) + 1j * RNG.normal(size=(12, 2))
    at = RNG.uniform(0.0, 3.0, (5, 2))
    smooth = RNG.uniform(0.1, 1.0, 12)
    choices: list[Any] = [{}, {"smoothing": 0.5}, {"smoothing": smooth}, {"degree": 2}]
    for choice in choices:
        options = {**choice, "kernel": kernel, "epsilon": 1.5}
        ours = interpolate.RBFInterpolator(places, data, **options)(at)
        close(ours, scipy_interpolate.RBFInterpolator(places, data, **options)(at), 1e-11)


def test_single_precision_stays() -> None:
    x, y = (a.astype(np.float32) for a in samples(6))
    at = np.full(2, 1.5, np.float32)
    spline = interpolate.CubicSpline(x, y)
    others: list[Any] = [
        interpolate.PchipInterpolator(x, y),
        interpolate.make_interp_spline(x, y),
        interpolate.interp1d(x, y, bounds_error=False),
        interpolate.interp1d(x, y, "cubic"),
    ]
    for curve in (spline, *others):
        assert curve(at).dtype == np.float32
    for method in ("linear", "cubic", "pchip"):
        grid = interpolate.RegularGridInterpolator((x,), y, method)
        assert grid(at[:, None]).dtype == np.float32
    assert interpolate.RBFInterpolator(x[:, None], y)(at[:, None]).dtype == np.float32
    assert spline(1.5).dtype == np.float32
    assert spline(np.float64(1.5)).dtype == np.float64


def test_points_without_elements() -> None:
    x, y = samples(6, 2)
    assert interpolate.CubicSpline(x, y)(np.ones((0, 3))).shape == (0, 3, 2)
    assert interpolate.interp1d(x, y, axis=0)(np.ones(0)).shape == (0, 2)
    grid = interpolate.RegularGridInterpolator((x,), y, "pchip")
    assert grid(np.ones((0, 1))).shape == (0, 2)
    assert interpolate.CubicSpline(x, np.ones((6, 0)))(1.0).shape == (0,)
    assert np.isnan(np.asarray(interpolate.CubicSpline(x, y[:, 0])(fg.tensor([np.nan, 1.0]))[0]))


@pytest.mark.parametrize(("before", "after"), [(1, 1), (0, 2), (2, 1), (1, 0)])
def test_cyclic_equations(before: int, after: int) -> None:
    """Banded, and with corners, as for periodic splines; also shorter than their band."""
    for count in (1, 2, 4, 9):
        width = before + after + 1
        rows = RNG.uniform(0.5, 1.0, (width, count))
        rows[before] += width
        right = RNG.normal(size=(count, 2))
        matrix = np.zeros((count, count))
        for line in range(count):
            for diagonal in range(width):
                matrix[line, (line + diagonal - before) % count] += rows[diagonal, line]
        ours = solve_cyclic(fg.tensor(rows), before, fg.tensor(right))
        close(ours, np.linalg.solve(matrix, right))


def test_many_equal_knots_at_an_end() -> None:
    x, y = np.array([0.0, 1.0, 2.5, 3.0]), np.array([1.0, 2.0, 4.0, 3.0])
    steps = interpolate.make_interp_spline(x, y, 0)  # the last interval is empty
    np.testing.assert_allclose(steps.integrate(-1.0, 3.0), 7.0)  # SciPy: 0.0
    np.testing.assert_allclose(steps.antiderivative()([1.0, 3.0]), [1.0, 6.0])
    knots = np.array([0.0, 0.0, 0.0, 1.0, 2.0, 2.0, 2.0])
    line = interpolate.BSpline(knots, [9.0, 1.0, 2.0, 7.0, 9.0], 1)
    np.testing.assert_allclose(line([-1.0, 0.0, 1.5, 2.0, 3.0]), [0.0, 1.0, 4.5, 7.0, 12.0])
    assert fg.grad(line)(2.0) == 5.0
