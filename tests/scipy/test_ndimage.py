"""``fg.scipy.ndimage`` beside SciPy's, in every mode, and its errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import funcgrad as fg
from funcgrad import errors
from funcgrad.scipy import ndimage
from tests.every_mode import assert_every_mode
from tests.together import refused, together

scipy_ndimage: Any = pytest.importorskip("scipy.ndimage")

RNG = np.random.default_rng(5)
MODES = "reflect grid-mirror constant grid-constant nearest mirror wrap grid-wrap".split()
IMAGE, CUBE, ROW = (RNG.normal(size=shape) for shape in ((15, 16), (3, 5, 4), (20,)))
AT = np.concatenate([RNG.uniform(-40.0, 40.0, (2, 60)), [[0, 14, -3], [15, 2, 20]]], 1) + 1e-7
MAP = np.array([[1.1, 0.2], [-0.3, 0.83]])


def close(ours: Any, theirs: Any) -> None:
    np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("mode", MODES)
def test_filters(mode: str) -> None:
    def both(name: str, *args: Any, **options: Any) -> None:
        ours, theirs = (getattr(home, name) for home in (ndimage, scipy_ndimage))
        close(ours(*args, **options, mode=mode), theirs(*args, **options, mode=mode))

    for image in (IMAGE, CUBE, CUBE * (1.0 + 2.0j)):
        for size, origin in ((1, 0), (2, -1), (3, 1), (4, 0), (9, 2)):
            weights = RNG.normal(size=size)
            both("correlate1d", image, weights, 0, cval=2.0, origin=origin)
            if size % 2:
                both("convolve1d", image, weights + 1j, cval=2.0, origin=-origin)
            both("uniform_filter1d", image, size, cval=2.0, origin=origin)
        weights = RNG.normal(size=(2, 3, 2)[: image.ndim])
        both("correlate", image, weights, cval=1.0, origin=0)
        both("convolve", image, weights, cval=1.0, origin=-1 if image.ndim == 0 else 0)
        both("uniform_filter", image, 3, cval=0.5)
    for order in (0, 1, 2, 3):
        both("gaussian_filter", IMAGE, (1.1, 0.6), order=order, cval=0.5)
    both("gaussian_filter1d", IMAGE, 1.3, radius=2)
    for name in ("sobel", "prewitt"):
        both(name, CUBE, 1)
    both("laplace", IMAGE)
    both("gaussian_laplace", IMAGE, 0.8)
    both("gaussian_gradient_magnitude", IMAGE, 0.8)


def test_filters_along_some_axes() -> None:
    weights = RNG.normal(size=(3, 2))
    for name in ("correlate", "convolve"):
        ours, theirs = (getattr(home, name) for home in (ndimage, scipy_ndimage))
        close(ours(CUBE, weights, axes=(2, 0)), theirs(CUBE, weights, axes=(2, 0)))
    for name, option in (("gaussian_filter", (1.0, 2.0)), ("uniform_filter", (2, 3))):
        ours, theirs = (getattr(home, name) for home in (ndimage, scipy_ndimage))
        modes = ["mirror", "wrap"]
        close(
            ours(CUBE, option, mode=modes, axes=(0, 2)),
            theirs(CUBE, option, mode=modes, axes=(0, 2)),
        )


@together("mode", MODES)
@together("order", [0, 1, 3, 2, 4, 5], quick=3)
def test_resampling(order: int, mode: str) -> None:
    options: dict[str, Any] = {"order": order, "mode": mode, "cval": 0.5}

    def both(name: str, *args: Any, **more: Any) -> None:
        ours, theirs = (getattr(home, name) for home in (ndimage, scipy_ndimage))
        close(ours(*args, **options, **more), theirs(*args, **options, **more))

    both("map_coordinates", IMAGE, AT)
    both("map_coordinates", ROW, AT[:1])
    both("map_coordinates", IMAGE * (1.0 + 2.0j), AT.reshape(2, 3, 21), prefilter=False)
    both("shift", IMAGE, (0.3, -2.7))
    both("zoom", IMAGE, (0.6, 2.1))
    if "grid" in mode:
        both("zoom", IMAGE, 1.9, grid_mode=True)
    both("affine_transform", IMAGE, MAP, (1.01, -2.031), (9, 21))
    both("affine_transform", IMAGE, [0.71, 1.23], 1.57)
    both("rotate", IMAGE, 30.0)
    if order:
        both("rotate", IMAGE, -90.0)
    both("rotate", IMAGE, 200.3, reshape=False)
    if order > 1:
        ours = ndimage.spline_filter(IMAGE, order, mode=mode)
        if mode not in ("reflect", "grid-mirror", "nearest"):  # SciPy's are inexact, see below
            close(ours, scipy_ndimage.spline_filter(IMAGE, order, mode=mode))


def test_planes_of_a_cube() -> None:
    image = np.concatenate([CUBE] * 5)
    close(ndimage.rotate(image, 25.0, (0, 2)), scipy_ndimage.rotate(image, 25.0, (0, 2)))
    close(ndimage.shift(image, 1.3), scipy_ndimage.shift(image, 1.3))
    whole = np.c_[MAP, [1.0, 2.0]]
    close(ndimage.affine_transform(IMAGE, whole), scipy_ndimage.affine_transform(IMAGE, whole))


@pytest.mark.parametrize("mode", MODES)
def test_splines_go_through_short_images(mode: str) -> None:
    """In the modes of reflection SciPy's miss the elements of a short image by 1e-4."""
    image = RNG.normal(size=(3, 4))
    places = np.indices(image.shape)
    for order in range(2, 6):
        spline = ndimage.spline_filter(image, order, mode=mode)
        if mode not in ("nearest", "grid-constant", "constant", "wrap"):
            values = ndimage.map_coordinates(
                spline, places, order=order, mode=mode, prefilter=False
            )
            close(values, image)


def test_integers_become_floats() -> None:
    image = np.arange(12).reshape(3, 4)
    smooth = ndimage.gaussian_filter(image, 1.0)
    close(smooth, scipy_ndimage.gaussian_filter(image, 1.0, output=float))
    assert ndimage.shift(image.astype(np.float32), 0.5).dtype == np.float32
    assert ndimage.uniform_filter(image, output=np.float32).dtype == np.float32


def test_images_without_elements() -> None:
    assert ndimage.gaussian_filter(np.ones((0, 3)), 1.0).shape == (0, 3)
    assert ndimage.map_coordinates(np.ones(4), np.ones((1, 0))).shape == (0,)
    with pytest.raises(errors.ShapeError, match="no elements"):
        ndimage.shift(np.ones((0, 3)), 1.0)


SMALL = RNG.normal(size=(5, 6))
INSIDE = np.array([[0.3, 1.7, 3.2], [2.1, 4.4, 0.6]])
CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    **{
        f"map by order {order}, {mode}": (
            lambda x, at, order=order, mode=mode: ndimage.map_coordinates(
                x, at, order=order, mode=mode
            ),
            (SMALL, INSIDE + (9.0 if mode in ("mirror", "grid-wrap") else 0.0)),
        )
        for order, mode in ((1, "constant"), (1, "reflect"), (3, "mirror"), (3, "nearest"))
    },
    "map by order 2": (
        lambda x, at, c: ndimage.map_coordinates(x, at, order=2, mode="grid-constant", cval=c),
        (SMALL, INSIDE - 1.27, 0.4),
    ),
    "complex": (
        lambda x, at: ndimage.map_coordinates(x, at, mode="grid-wrap"),
        (SMALL + 1j * SMALL[::-1], INSIDE),
    ),
    "shift": (lambda x, s: ndimage.shift(x, s, mode="nearest"), (SMALL, np.array([0.3, -0.8]))),
    "zoom": (lambda x: ndimage.zoom(x, 1.5, order=3), (SMALL,)),
    "rotate": (
        lambda x, a: ndimage.rotate(x, a, reshape=False, order=3, mode="mirror"),
        (SMALL, 33.0),
    ),
    "affine": (
        lambda x, m, o: ndimage.affine_transform(x, m, o, order=1, mode="wrap"),
        (SMALL, MAP, np.array([0.37, -0.2])),
    ),
    "correlate": (
        lambda x, w: ndimage.correlate(x, w, mode="wrap"),
        (SMALL, RNG.normal(size=(2, 3))),
    ),
    "convolve": (
        lambda x, w, c: ndimage.convolve1d(x, w, 0, mode="constant", cval=c),
        (SMALL, RNG.normal(size=3), 0.5),
    ),
    "gaussian": (
        lambda x, s: ndimage.gaussian_filter(x, s, (0, 1), radius=2, mode="mirror"),
        (SMALL, np.array([0.9, 1.4])),
    ),
    "laplace": (lambda x: ndimage.laplace(x) + ndimage.sobel(x), (SMALL,)),
    "magnitude": (lambda x: ndimage.gaussian_gradient_magnitude(x, 1.0), (SMALL,)),
    "spline filter": (lambda x: ndimage.spline_filter(x, 5, mode="grid-mirror"), (SMALL,)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_mode(name: str) -> None:
    function, args = CASES[name]
    assert_every_mode(function, *args)


def test_conventions() -> None:
    row = fg.tensor([0.0, 1.0, 3.0])
    slope = fg.grad(lambda at: ndimage.map_coordinates(row, at, order=1, mode="mirror"))
    assert float(slope(fg.tensor([1.0]))[0]) == 2.0  # to the right
    nearest = fg.grad(lambda at: ndimage.map_coordinates(row, at, order=0))
    assert float(nearest(fg.tensor([1.2]))[0]) == 0.0
    flat = fg.jacrev(lambda x: ndimage.gaussian_gradient_magnitude(x, 1.0))(np.zeros(4))
    np.testing.assert_array_equal(flat, np.zeros((4, 4)))


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "mode": (lambda: ndimage.laplace(SMALL, mode="edge"), errors.ArgumentError, "'edge'"),
    "output": (
        lambda: ndimage.laplace(SMALL, np.zeros((5, 6))),
        errors.ArgumentError,
        "tensors never change",
    ),
    "integers": (lambda: ndimage.laplace(SMALL, int), errors.DtypeError, "fnp.rint"),
    "weights": (lambda: ndimage.correlate(SMALL, np.ones(3)), errors.ShapeError, "need 2 axes"),
    "origin": (
        lambda: ndimage.correlate1d(SMALL, np.ones(3), origin=2),
        errors.ArgumentError,
        "at most 1",
    ),
    "axes": (
        lambda: ndimage.uniform_filter(SMALL, 3, axes=(0, -2)),
        errors.ArgumentError,
        "different",
    ),
    "size": (lambda: ndimage.uniform_filter(SMALL, 0), errors.ArgumentError, "positive"),
    "sigmas": (lambda: ndimage.gaussian_filter(SMALL, [1.0] * 3), errors.ShapeError, "2 axes"),
    "negative sigma": (
        lambda: ndimage.gaussian_filter1d(SMALL, -2.0),
        errors.ArgumentError,
        "positive",
    ),
    "order": (lambda: ndimage.zoom(SMALL, 2.0, order=6), errors.ArgumentError, "from 0 to 5"),
    "factor": (lambda: ndimage.zoom(SMALL, -2.0), errors.ArgumentError, "negative"),
    "coordinates": (
        lambda: ndimage.map_coordinates(SMALL, np.ones((3, 2))),
        errors.ShapeError,
        r"\(2, ...\)",
    ),
    "complex coordinates": (
        lambda: ndimage.map_coordinates(SMALL, np.ones((2, 2)) * 1j),
        errors.DtypeError,
        "real",
    ),
    "matrix": (lambda: ndimage.affine_transform(SMALL, np.eye(4)), errors.ShapeError, r"\(4, 4\)"),
    "plane": (lambda: ndimage.rotate(SMALL, 3.0, (0, -2)), errors.ArgumentError, "different"),
    "one axis": (lambda: ndimage.rotate(ROW, 3.0), errors.ShapeError, "at least two"),
    "distances": (lambda: ndimage.shift(SMALL, [1.0] * 3), errors.ShapeError, "2 axes"),
}


test_refusals = refused(REFUSED)
