"""Interpolation and images under ``jit``: processor time, beside SciPy's.

python -m tests.tools.benchmarks.interpolation
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.interpolate
import scipy.ndimage

import funcgrad as fg
from funcgrad import interpolate
from funcgrad.scipy import ndimage
from tests.tools.benchmarks.measured import seconds
from tests.tools.benchmarks.solvers import shown, steady

RNG = np.random.default_rng(0)
KNOTS, HEIGHTS = np.sort(RNG.uniform(0.0, 1000.0, 1000)), RNG.normal(size=1000)
IMAGE = RNG.normal(size=(512, 512))


def row(name: str, ours: Callable[..., Any], theirs: Callable[..., Any], *args: Any) -> None:
    """Time a function under ``jit`` beside SciPy's."""
    shown(name, steady(partial(fg.jit(ours), *args)), SciPy=seconds(partial(theirs, *args), 20))


def curves() -> None:
    """Splines of 1,000 knots at 100,000 points, and their construction."""
    at = RNG.uniform(0.0, 1000.0, 100_000)
    for name in ("CubicSpline", "PchipInterpolator", "make_interp_spline"):
        make, their_make = (getattr(home, name) for home in (interpolate, scipy.interpolate))
        curve, theirs = make(KNOTS, HEIGHTS), their_make(KNOTS, HEIGHTS)
        row(f"{name}, construction", lambda x, y, f=make: f(x, y).c, their_make, KNOTS, HEIGHTS)
        for order, points in (("random", at), ("sorted", np.sort(at))):
            time = steady(partial(fg.jit(lambda s, t: s(t)), curve, points))
            name_of_row = f"{name}, 100,000 {order} points"
            shown(name_of_row, time, SciPy=seconds(partial(theirs, points), 20))


def images() -> None:
    """An image of 512 x 512 elements."""
    rows, columns = np.mgrid[:512, :512]
    waves = np.stack([rows + 3.0 * np.sin(columns / 20.0), columns + 3.0 * np.cos(rows / 20.0)])
    for order in (1, 3):
        row(
            f"map_coordinates, order {order}",
            lambda x, at, k=order: ndimage.map_coordinates(x, at, order=k),
            lambda x, at, k=order: scipy.ndimage.map_coordinates(x, at, order=k),
            IMAGE,
            waves,
        )
    for name, option in (
        ("gaussian_filter", 2.0),
        ("uniform_filter", 5),
        ("zoom", 2.0),
        ("rotate", 30.0),
        ("shift", 1.5),
    ):
        ours, theirs = (getattr(home, name) for home in (ndimage, scipy.ndimage))
        row(
            f"{name}({option})",
            lambda x, f=ours, o=option: f(x, o),
            lambda x, f=theirs, o=option: f(x, o),
            IMAGE,
        )


if __name__ == "__main__":
    curves()
    images()
