"""Simulations: cloth, molecules, heat, tomography, prices of options, transport, cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tools.practice.task import Task


def cloth(lib: Any) -> Callable[..., Any]:
    """Drop a square of cloth that hangs by one edge; how its lowest place depends on stiffness."""
    xp = lib.np

    def pulls(x: Any, stiffness: Any) -> Any:
        total = xp.zeros(x.shape)
        for axis in (0, 1):
            way = xp.diff(x, axis=axis)
            length = xp.sqrt(xp.sum(way * way, axis=-1, keepdims=True))
            pull = stiffness * (1.0 - 1.0 / length) * way
            edge = xp.zeros((1, *x.shape[1:]) if axis == 0 else (x.shape[0], 1, 3))
            total = total + xp.concatenate([pull, edge], axis=axis)
            total = total - xp.concatenate([edge, pull], axis=axis)
        return total

    def lowest(stiffness: Any, x: Any, v: Any, steps: Any) -> Any:
        gravity = xp.asarray([0.0, 0.0, -9.81])
        held = xp.arange(len(x))[:, None, None] == 0

        def step(state: Any, wind: Any) -> Any:
            x, v = state
            v = v + 0.01 * (pulls(x, stiffness) + gravity + wind - 0.1 * v)
            v = xp.where(held, 0.0, v)
            return (x + 0.01 * v, v), None

        (x, _), _ = lib.scan(step, (x, v), steps)
        return xp.mean(x[-1, :, 2])

    return lib.value_and_grad(lowest)


def _hanging(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    side, steps = (3, 4) if small else (16, 100)
    places = np.stack(np.meshgrid(np.arange(side), np.arange(side), indexing="ij"), axis=-1)
    x = np.concatenate([places, np.zeros((side, side, 1))], axis=-1).astype(float)
    return np.float64(50.0), x, np.zeros_like(x), draws.standard_normal((steps, 3))


def molecules(lib: Any) -> Callable[..., Any]:
    """Move atoms by the gradient of their energy, and add up the energy."""
    xp = lib.np

    def energy(x: Any, size: Any) -> Any:
        way = x[:, None, :] - x[None, :, :]
        squares = xp.sum(way * way, axis=-1) + xp.eye(len(x))
        inverse = (size**2 / squares) ** 3
        pairs = 4.0 * (inverse * inverse - inverse) * (1.0 - xp.eye(len(x)))
        return 0.5 * xp.sum(pairs) + 0.5 * xp.sum(x * x)

    def mean_energy(x: Any, v: Any, size: Any, steps: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            x, v = state
            v = v - 5e-4 * lib.grad(energy)(x, size)
            x = x + 1e-3 * v
            v = v - 5e-4 * lib.grad(energy)(x, size)
            return (x, v), energy(x, size) + 0.5 * xp.sum(v * v)

        return lib.scan(step, (x, v), steps)

    return mean_energy


def _atoms(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    side, steps = (2, 3) if small else (4, 50)
    places = np.stack(np.meshgrid(*[1.2 * np.arange(side)] * 3), axis=-1).reshape(-1, 3)
    x = places + 0.01 * draws.standard_normal(places.shape)
    return x, 0.1 * draws.standard_normal(x.shape), np.float64(1.0), np.zeros(steps)


def heat(lib: Any) -> Callable[..., Any]:
    """Conduct heat by steps of Crank and Nicolson: one system of three bands a step."""
    xp = lib.np

    def misfit(logs: Any, start: Any, target: Any, steps: Any) -> Any:
        flow = xp.exp(logs)  # between neighbours
        zero = xp.zeros(1)
        left, right = xp.concatenate([zero, flow]), xp.concatenate([flow, zero])

        def step(u: Any, source: Any) -> Any:
            change = xp.diff(u) * flow
            net = xp.concatenate([change, zero]) - xp.concatenate([zero, change])
            middle = 1.0 + 0.05 * (left + right)
            return lib.tridiagonal(
                -0.05 * left, middle, -0.05 * right, u + 0.05 * net + source
            ), None

        end = lib.scan(step, start, steps)[0]
        return xp.mean((end - target) ** 2)

    return lib.value_and_grad(misfit)


def _rod(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    points, steps = (5, 3) if small else (200, 100)
    source = 0.01 * draws.standard_normal((steps, points))
    logs = 0.3 * draws.standard_normal(points - 1)
    return logs, draws.random(points), draws.random(points), source


def tomography(lib: Any) -> Callable[..., Any]:
    """Restore an image from a part of its Fourier transform, by steps along the gradient."""
    xp = lib.np

    def loss(image: Any, seen: Any, mask: Any) -> Any:
        off = (xp.fft.fft2(image) - seen) * mask / len(image)
        right, down = xp.diff(image, axis=1), xp.diff(image, axis=0)
        rough = xp.sum(xp.sqrt(right**2 + 1e-4)) + xp.sum(xp.sqrt(down**2 + 1e-4))
        return 0.5 * xp.sum(off.real**2 + off.imag**2) + 0.01 * rough

    def restored(image: Any, seen: Any, mask: Any, steps: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            image, speed = state
            value, slope = lib.value_and_grad(loss)(image, seen, mask)
            speed = 0.8 * speed - 0.2 * slope
            return (image + speed, speed), value

        return lib.scan(step, (image, xp.zeros(image.shape)), steps)

    return restored


def _scanner(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    side, steps = (4, 3) if small else (64, 20)
    image = np.zeros((side, side))
    image[side // 4 : side // 2, side // 4 : side - 1] = 1.0
    mask = (draws.random((side, side)) < 0.4).astype(float)
    return np.zeros_like(image), np.fft.fft2(image) * mask, mask, np.zeros(steps)


def options(lib: Any) -> Callable[..., Any]:
    """The price of an option under Heston's model by simulated paths, and what it depends on."""
    xp = lib.np

    def price(model: Any, first: Any, second: Any) -> Any:
        h = 1.0 / len(first)

        def step(state: Any, random: Any) -> Any:
            log, variance = state
            z, w = random
            w = model["rho"] * z + xp.sqrt(1.0 - model["rho"] ** 2) * w
            v = xp.maximum(variance, 0.0)
            root = xp.sqrt(v * h + 1e-12)
            log = log + (0.02 - 0.5 * v) * h + root * z
            pull = model["kappa"] * (model["theta"] - v) * h
            return (log, variance + pull + model["sigma"] * root * w), None

        count = first.shape[1]
        start = (xp.log(model["spot"]) + xp.zeros(count), model["v"] + xp.zeros(count))
        (log, _), _ = lib.scan(step, start, (first, second))
        return xp.exp(-0.02) * xp.mean(xp.maximum(xp.exp(log) - 100.0, 0.0))

    return lib.value_and_grad(price)


def _paths(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    steps, count = (3, 4) if small else (100, 1000)
    model = {"spot": 100.0, "v": 0.04, "kappa": 2.0, "theta": 0.05, "sigma": 0.3, "rho": -0.6}
    shape = (steps, count)
    numbers = {name: np.float64(x) for name, x in model.items()}
    return numbers, draws.standard_normal(shape), draws.standard_normal(shape)


def transport(lib: Any) -> Callable[..., Any]:
    """The cost of moving one cloud of points to another, by Sinkhorn's steps, and its gradient."""
    xp = lib.np

    def cost(x: Any, y: Any, steps: Any) -> Any:
        squares = xp.sum((x[:, None, :] - y[None, :, :]) ** 2, axis=-1)
        level = -xp.log(1.0 * len(x))

        def step(pair: Any, _: Any) -> Any:
            _, g = pair
            f = 0.1 * (level - lib.logsumexp((g[None, :] - squares) / 0.1, axis=1))
            g = 0.1 * (level - lib.logsumexp((f[:, None] - squares) / 0.1, axis=0))
            return (f, g), None

        (f, g), _ = lib.scan(step, (xp.zeros(len(x)), xp.zeros(len(y))), steps)
        return xp.sum(xp.exp((f[:, None] + g[None, :] - squares) / 0.1) * squares)

    return lib.value_and_grad(cost)


def _clouds(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    count, steps = (4, 3) if small else (64, 50)
    return draws.standard_normal((count, 2)), draws.standard_normal((count, 2)), np.zeros(steps)


def cells(lib: Any) -> Callable[..., Any]:
    """Conway's game of life, in small integers."""
    xp = lib.np

    def play(board: Any, steps: Any) -> Any:
        def step(board: Any, _: Any) -> Any:
            rows = board + xp.roll(board, 1, axis=0) + xp.roll(board, -1, axis=0)
            count = rows + xp.roll(rows, 1, axis=1) + xp.roll(rows, -1, axis=1) - board
            lives = (count == 3) | ((board == 1) & (count == 2))
            return lives.astype(board.dtype), xp.sum(board)

        return lib.scan(step, board, steps)

    return play


def _board(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    side, steps = (5, 3) if small else (64, 100)
    return draws.integers(2, size=(side, side)).astype(np.int8), np.zeros(steps)


def noise(lib: Any) -> Callable[..., Any]:
    """Estimate the price of an option on a mean from numbers that the program draws."""
    xp = lib.np

    def estimate(seed: Any, spread: Any) -> Any:
        paths = xp.exp(xp.cumsum(0.1 * spread * lib.normal(seed, (1000, 50)), axis=1))
        return xp.mean(xp.maximum(xp.mean(paths, axis=1) - 1.0, 0.0))

    return lib.value_and_grad(estimate, argnums=1)


def _seed(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    return 3, np.float64(0.7)


TASKS = (
    Task("cloth", cloth, _hanging, 1e-7),
    Task("molecules", molecules, _atoms, 1e-8),
    Task("heat, bands", heat, _rod),
    Task("tomography", tomography, _scanner, 1e-8),
    Task("Heston", options, _paths),
    Task("optimal transport", transport, _clouds),
    Task("game of life", cells, _board),
)
DRAWING = Task("Asian option, drawing", noise, _seed)
