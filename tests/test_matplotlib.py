"""Matplotlib draws concrete tensors as it draws arrays: every kind of plot of its gallery."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import matplotlib
import numpy as np
import pytest

import funcgrad as fg

matplotlib.use("Agg")

from matplotlib import pyplot as plt

Make = Callable[[Any], Any]
"""What an array is handed over as: itself, or a tensor."""


class Data:
    """The data of all plots, as arrays or as tensors."""

    def __init__(self, make: Make) -> None:
        random = np.random.default_rng(0)
        grid = np.linspace(-3.0, 3.0, 12)
        X, Y = np.meshgrid(grid, grid)
        Z = (1 - X / 2 + X**5 + Y**3) * np.exp(-(X**2) - Y**2)
        self.make = make
        self.x, self.y = make(np.linspace(0.5, 7.5, 8)), make(np.array([4.0, 5, 2, 6, 3, 7, 1, 4]))
        self.edges, self.errors = make(np.arange(9.0)), make(np.full(8, 0.3))
        self.X, self.Y, self.Z = make(X), make(Y), make(Z)
        self.U, self.V = make(-1 - X**2 + Y), make(1 + X - Y**2)
        self.columns, self.places = make(random.normal(size=(200, 3))), make(np.array([2.0, 4, 6]))
        self.cloud, self.other = make(random.normal(size=60)), make(random.normal(size=60))
        self.shares, self.rows = make(np.array([1.0, 2.0, 3.0])), make(np.ones((3, 8)))
        self.colors, self.bins = make(random.uniform(size=(4, 4, 3))), make(np.linspace(-3, 3, 9))
        self.cells = make(np.arange(27).reshape(3, 3, 3) % 2 == 0)
        self.one = make(np.float64(1.5))


FLAT: dict[str, Callable[[Any, Data], Any]] = {
    # Pairwise data.
    "plot": lambda a, d: a.plot(d.x, d.y, "o-", d.x, d.y * 2),
    "plot of columns": lambda a, d: a.plot(d.X, d.Z),
    "plot of one": lambda a, d: a.plot(d.y, linewidth=d.one),
    "scatter": lambda a, d: a.scatter(d.x, d.y, s=d.y * 10, c=d.y, vmin=0, vmax=d.one * 10),
    "bar": lambda a, d: a.bar(d.x, d.y, width=d.one, edgecolor="w", linewidth=0.7),
    "bar with errors": lambda a, d: a.bar_label(a.bar(d.x, d.y, yerr=d.errors, bottom=d.errors)),
    "barh": lambda a, d: a.barh(d.x, d.y),
    "stem": lambda a, d: a.stem(d.x, d.y),
    "step": lambda a, d: a.step(d.x, d.y),
    "fill": lambda a, d: a.fill(d.x, d.y),
    "fill_between": lambda a, d: a.fill_between(d.x, d.y, d.y * 2, where=d.y > 2),
    "stackplot": lambda a, d: a.stackplot(d.x, d.rows),
    "stackplot of several": lambda a, d: a.stackplot(d.x, d.y, d.y),
    "stairs": lambda a, d: a.stairs(d.y, d.edges),
    # Statistics.
    "hist": lambda a, d: a.hist(d.cloud, bins=8),
    "hist with weights": lambda a, d: a.hist(
        d.cloud, bins=d.bins, weights=d.other * d.other, range=(d.bins[0], d.bins[-1])
    ),
    "hist of columns": lambda a, d: a.hist(d.columns),
    "hist of several": lambda a, d: a.hist([d.cloud, d.other]),
    "boxplot": lambda a, d: a.boxplot(d.columns, positions=d.places, widths=d.places / 4),
    "boxplot of one": lambda a, d: a.boxplot(d.cloud),
    "errorbar": lambda a, d: a.errorbar(d.x, d.y, d.errors, d.errors),
    "errorbar of one error": lambda a, d: a.errorbar(d.x, d.y, yerr=d.one),
    "violinplot": lambda a, d: a.violinplot(d.columns, d.places, widths=2),
    "eventplot": lambda a, d: a.eventplot(d.columns.T, lineoffsets=d.places, linewidth=0.75),
    "eventplot of one": lambda a, d: a.eventplot(d.cloud),
    "hist2d": lambda a, d: a.hist2d(d.cloud, d.other, bins=(d.bins, d.bins)),
    "hexbin": lambda a, d: a.hexbin(d.cloud, d.other, gridsize=10),
    "pie": lambda a, d: a.pie(d.shares, explode=d.shares / 30, radius=2),
    "ecdf": lambda a, d: a.ecdf(d.cloud),
    # Gridded data.
    "imshow": lambda a, d: a.imshow(d.Z, origin="lower"),
    "imshow of colors": lambda a, d: a.imshow(d.colors),
    "pcolormesh": lambda a, d: plt.colorbar(a.pcolormesh(d.X, d.Y, d.Z, vmin=-d.one, vmax=d.one)),
    "contour": lambda a, d: a.contour(d.X, d.Y, d.Z, levels=d.bins),
    "contourf": lambda a, d: a.contourf(d.X, d.Y, d.Z),
    "barbs": lambda a, d: a.barbs(d.X, d.Y, d.U, d.V),
    "quiver": lambda a, d: a.quiver(d.X, d.Y, d.U, d.V),
    "streamplot": lambda a, d: a.streamplot(d.X, d.Y, d.U, d.V, density=0.5),
    # Irregularly gridded data.
    "tricontour": lambda a, d: a.tricontour(d.cloud, d.other, d.cloud * d.other),
    "tricontourf": lambda a, d: a.tricontourf(d.cloud, d.other, d.cloud * d.other),
    "tripcolor": lambda a, d: a.tripcolor(d.cloud, d.other, d.cloud * d.other),
    "triplot": lambda a, d: a.triplot(d.cloud, d.other),
    # Lines, limits and marks.
    "axhline": lambda a, d: (a.axhline(d.one), a.axvline(d.one), a.axhspan(d.one, d.one + 1)),
    "hlines": lambda a, d: (a.hlines(d.y, 0, d.one), a.vlines(d.x, d.y, d.y + 1)),
    "limits": lambda a, d: (a.set_xlim(d.one, d.one + 1), a.set_ylim(d.places[:2])),
    "ticks": lambda a, d: (a.set_xticks(d.x), a.set_yticks(d.places, ["a", "b", "c"])),
    "text": lambda a, d: (a.text(d.one / 2, d.one / 2, "a"), a.annotate("b", xy=d.places[:2] / 9)),
    "logarithmic": lambda a, d: a.loglog(d.x, d.y),
}

DEEP: dict[str, Callable[[Any, Data], Any]] = {
    "plot3D": lambda a, d: a.plot(d.x, d.y, d.y * 2),
    "scatter3D": lambda a, d: a.scatter(d.x, d.y, d.y * 2, c=d.y),
    "bar3d": lambda a, d: a.bar3d(d.x, d.y, d.y * 0, 1, 1, d.y),
    "stem3D": lambda a, d: a.stem(d.x, d.y, d.y),
    "fill_between3D": lambda a, d: a.fill_between(d.x, d.y, d.y, d.x, d.y, d.y + 1),
    "plot_surface": lambda a, d: a.plot_surface(d.X, d.Y, d.Z, cmap="viridis", vmin=d.Z.min() * 2),
    "plot_trisurf": lambda a, d: a.plot_trisurf(d.cloud, d.other, d.cloud),
    "plot_wireframe": lambda a, d: a.plot_wireframe(d.X, d.Y, d.Z, rstride=3),
    "voxels": lambda a, d: a.voxels(d.cells, edgecolor="k"),
    "limits3D": lambda a, d: (a.set_zlim(d.one, d.one + 1), a.text(d.one, d.one, d.one, "a")),
}

PLOTS: tuple[Any, ...] = tuple(
    pytest.param(draw, projection, id=name)
    for plots, projection in ((FLAT, None), (DEEP, "3d"))
    for name, draw in plots.items()
)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    plt.close("all")


def picture(draw: Callable[[Any, Data], Any], projection: str | None, make: Make) -> Any:
    """The pixels of a plot."""
    figure: Any = plt.figure(figsize=(2.0, 2.0), dpi=60)
    draw(figure.add_subplot(projection=projection), Data(make))
    figure.canvas.draw()
    return np.array(figure.canvas.buffer_rgba())


@pytest.mark.slow
@pytest.mark.parametrize(("draw", "projection"), PLOTS)
def test_tensors_are_drawn_as_arrays_are(draw: Any, projection: str | None) -> None:
    expected = picture(draw, projection, lambda x: x)
    assert expected.std() > 0  # there is something to see
    np.testing.assert_array_equal(picture(draw, projection, fg.tensor), expected)
