"""Signals and grids: convolutions, waves by slices, lags, windows that move, smooth curves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tools.practice.task import Task


def blind(lib: Any) -> Callable[..., Any]:
    """Undo a filter whose taps are not known: one step for the signal and the taps."""
    xp = lib.np

    def loss(params: Any, seen: Any) -> Any:
        off = xp.convolve(params["signal"], params["taps"], mode="same") - seen
        rough = xp.sum(xp.abs(xp.diff(params["signal"])))
        return xp.mean(off**2) + 1e-3 * rough + (xp.linalg.norm(params["taps"]) - 1.0) ** 2

    def step(params: Any, seen: Any) -> Any:
        value, slopes = lib.value_and_grad(loss)(params, seen)
        return value, {name: p - 0.1 * slopes[name] for name, p in params.items()}

    return step


def _blurred(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    size, taps = (12, 3) if small else (1000, 31)
    params = {"signal": draws.standard_normal(size), "taps": draws.random(taps) / taps}
    return params, draws.standard_normal(size)


def wave(lib: Any) -> Callable[..., Any]:
    """Find the speed of waves from what is heard: updates of the inner points in a loop."""
    xp = lib.np

    def misfit(speed: Any, pulse: Any, heard: Any) -> Any:
        def step(fields: Any, source: Any) -> Any:
            before, now = fields
            bend = now[2:, 1:-1] + now[:-2, 1:-1] + now[1:-1, 2:] + now[1:-1, :-2]
            bend = bend - 4.0 * now[1:-1, 1:-1]
            inner = 2.0 * now[1:-1, 1:-1] - before[1:-1, 1:-1] + 0.1 * speed**2 * bend
            after = now.at[1:-1, 1:-1].set(inner)
            after = after.at[8 % len(now), 8 % len(now)].add(source)
            return (now, after), after[-2, 1:-1]

        side = len(speed) + 2
        start = xp.zeros((side, side))
        return xp.mean((lib.scan(step, (start, start), pulse)[1] - heard) ** 2)

    return lib.value_and_grad(misfit)


def _ground(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    side, steps = (4, 3) if small else (48, 100)
    pulse = np.exp(-(((np.arange(steps) - 15.0) / 5.0) ** 2))
    speed = 1.0 + 0.1 * draws.random((side, side))
    return speed, pulse, 0.1 * draws.standard_normal((steps, side))


def lags(lib: Any) -> Callable[..., Any]:
    """How a series depends on its past: products with its rolled self, lag by lag."""
    xp = lib.np

    def correlations(x: Any, shifts: Any) -> Any:
        even = (x - xp.mean(x)) / xp.std(x)

        def step(_: Any, shift: Any) -> Any:
            return None, xp.mean(even * xp.roll(even, shift))

        return lib.scan(step, None, shifts)[1]

    return correlations


def _series(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    size, count = (10, 4) if small else (2000, 100)
    return np.cumsum(draws.standard_normal(size)), np.arange(count)


def epoch(lib: Any) -> Callable[..., Any]:
    """An epoch of stochastic gradient descent: a slice of the data a step, gradients clipped."""
    xp = lib.np

    def loss(w: Any, x: Any, y: Any) -> Any:
        hidden = xp.tanh(x @ w[0])
        return xp.mean((hidden @ w[1] - y) ** 2)

    def run(w: Any, x: Any, y: Any, order: Any) -> Any:
        size = len(x) // len(order)

        def step(w: Any, place: Any) -> Any:
            rows, targets = lib.cut(x, place * size, size), lib.cut(y, place * size, size)
            value, slopes = lib.value_and_grad(loss)(w, rows, targets)
            length = xp.sqrt(sum([xp.linalg.norm(slope) ** 2 for slope in slopes]))
            scale = 0.1 * xp.minimum(1.0, 1.0 / length)
            return tuple([p - scale * slope for p, slope in zip(w, slopes, strict=True)]), value

        return lib.scan(step, w, order)

    return run


def _table(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    size, steps, features, hidden = (6, 3, 2, 3) if small else (1600, 50, 16, 32)
    w = draws.standard_normal((features, hidden)) / 4.0, draws.standard_normal(hidden) / 4.0
    x = draws.standard_normal((size, features))
    return w, x, np.sin(x[:, 0]), draws.permutation(steps)


def crops(lib: Any) -> Callable[..., Any]:
    """Cut a piece out of each image at a place of its own, flip some, and even out each."""
    xp = lib.np

    def crop(image: Any, row: Any, column: Any, flip: Any) -> Any:
        size = image.shape[0] - 4
        piece = lib.cut(lib.cut(image, row, size), column, size, 1)
        piece = xp.where(flip, piece[:, ::-1], piece)
        return (piece - xp.mean(piece)) / (xp.std(piece) + 1e-6)

    return lib.vmap(crop)


def _pictures(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    count, side = (2, 6) if small else (64, 32)
    places = draws.integers(5, size=(2, count))
    return draws.random((count, side, side, 3)), places[0], places[1], draws.random(count) < 0.5


def spline(lib: Any) -> Callable[..., Any]:
    """Fit a smooth curve of cubic pieces: its value at any place depends on four numbers."""
    xp = lib.np

    def curve(heights: Any, x: Any) -> Any:
        place = xp.clip(xp.floor(x), 0.0, len(heights) - 4.0)
        t, first = x - place, place.astype(int)
        weights = (
            (1.0 - t) ** 3,
            3.0 * t**3 - 6.0 * t**2 + 4.0,
            -3.0 * t**3 + 3.0 * t**2 + 3.0 * t + 1.0,
            t**3,
        )
        return sum([w * heights[first + k] for k, w in enumerate(weights)]) / 6.0

    def loss(heights: Any, x: Any, y: Any) -> Any:
        bends = heights[2:] - 2.0 * heights[1:-1] + heights[:-2]
        return xp.mean((curve(heights, x) - y) ** 2) + 0.1 * xp.sum(bends**2)

    return lib.value_and_grad(loss)


def _scattered(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    count, knots = (6, 6) if small else (2000, 40)
    x = draws.uniform(0.0, knots - 3.0, count)
    return draws.standard_normal(knots), x, np.sin(x)


TASKS = (
    Task("blind deconvolution", blind, _blurred),
    Task("waves, slices", wave, _ground),
    Task("autocorrelation, roll", lags, _series),
    Task("epoch of slices, clipped", epoch, _table),
    Task("random crops, vmap", crops, _pictures),
    Task("cubic spline", spline, _scattered),
)
