"""Dynamic programming and filters: aligned series, best paths, tracking, gaps in the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tools.practice.task import Task


def warping(lib: Any) -> Callable[..., Any]:
    """The soft cost to align two series: a table filled number by number, and its gradient."""
    xp = lib.np

    def cost(x: Any, y: Any) -> Any:
        apart = (x[:, None] - y[None, :]) ** 2

        def cell(left: Any, now: Any) -> Any:
            corner, above, here = now
            options = xp.stack([left, corner, above])
            value = here - 0.1 * lib.logsumexp(-options / 0.1)
            return value, value

        def row(above: Any, here: Any) -> Any:
            corner = above[:-1]
            values = lib.scan(cell, xp.asarray(1e3), (corner, above[1:], here))[1]
            return xp.concatenate([xp.full(1, 1e3), values]), None

        start = xp.concatenate([xp.zeros(1), xp.full(len(y), 1e3)])
        return lib.scan(row, start, apart)[0][-1]

    return lib.value_and_grad(cost)


def _melodies(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    size = 4 if small else 60
    x = np.cumsum(draws.standard_normal(size)) / 3.0
    return x, np.roll(x, size // 5) + 0.1 * draws.standard_normal(size)


def best_path(lib: Any) -> Callable[..., Any]:
    """Viterbi's most likely states of a chain: forth by maxima, back by their places."""
    xp = lib.np

    def decode(start: Any, moves: Any, scores: Any) -> Any:
        def forth(value: Any, score: Any) -> Any:
            ahead = value[:, None] + moves
            return xp.max(ahead, axis=0) + score, xp.argmax(ahead, axis=0)

        value, sources = lib.scan(forth, start + scores[0], scores[1:])
        last = xp.argmax(value)

        def back(state: Any, source: Any) -> Any:
            before = source[state]
            return before, state

        first, states = lib.scan(back, last, sources, reverse=True)
        return xp.max(value), first, states

    return decode


def _chain(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    steps, states = (4, 3) if small else (500, 16)
    numbers = draws.standard_normal
    return numbers(states), numbers((states, states)), numbers((steps, states))


def distance_of_words(lib: Any) -> Callable[..., Any]:
    """How many edits turn one text into another, in a table of integers updated in place."""
    xp = lib.np

    def edits(a: Any, b: Any) -> Any:
        n, m = len(a), len(b)
        table = xp.zeros((n + 1, m + 1), dtype=int)
        table = table.at[0, :].set(xp.arange(m + 1)).at[:, 0].set(xp.arange(n + 1))

        def cell(k: Any, table: Any) -> Any:
            i, j = k // m + 1, k % m + 1
            change = table[i - 1, j - 1] + (a[i - 1] != b[j - 1])
            least = xp.minimum(xp.minimum(table[i - 1, j], table[i, j - 1]) + 1, change)
            return table.at[i, j].set(least)

        return lib.fori_loop(0, n * m, cell, table)[n, m]

    return edits


def _words(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    size = 4 if small else 50
    return draws.integers(4, size=size), draws.integers(4, size=size)


def tracking(lib: Any) -> Callable[..., Any]:
    """An extended Kalman filter: a body seen by angle and distance; gradient of the likelihood."""
    xp = lib.np

    def move(state: Any) -> Any:
        x, y, speed, heading, turn = state
        place = xp.stack([x + 0.1 * speed * xp.cos(heading), y + 0.1 * speed * xp.sin(heading)])
        return xp.concatenate([place, xp.stack([speed, heading + 0.1 * turn, turn])])

    def seen(state: Any) -> Any:
        return xp.stack([xp.linalg.norm(state[:2]), xp.arctan2(state[1], state[0])])

    def minus_log(logs: Any, start: Any, measured: Any) -> Any:
        noise, error = xp.diag(xp.exp(logs[:5])), xp.diag(xp.exp(logs[5:]))

        def step(carry: Any, z: Any) -> Any:
            state, spread = carry
            forth = lib.jacfwd(move)(state)
            state, spread = move(state), forth @ spread @ forth.T + noise
            look = lib.jacfwd(seen)(state)
            own = look @ spread @ look.T + error
            off = z - seen(state)
            gain = xp.linalg.solve(own, look @ spread).T
            cost = off @ xp.linalg.solve(own, off) + xp.linalg.slogdet(own)[1]
            return (state + gain @ off, spread - gain @ look @ spread), cost

        _, costs = lib.scan(step, (start, xp.eye(5)), measured)
        return 0.5 * xp.sum(costs)

    return lib.value_and_grad(minus_log)


def _flight(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    steps = 3 if small else 100
    measured = np.stack([np.linspace(5.0, 8.0, steps), np.linspace(0.3, 0.6, steps)], axis=1)
    start = np.array([5.0, 1.5, 3.0, 0.4, 0.05])
    logs = np.array([-4.0, -4.0, -3.0, -4.0, -5.0, -3.0, -6.0])
    return logs, start, measured + 0.02 * draws.standard_normal((steps, 2))


def gaps(lib: Any) -> Callable[..., Any]:
    """Fit many series with gaps, NaN where nothing was seen; a series without data gives NaN."""
    xp = lib.np

    def fit(y: Any, basis: Any) -> Any:
        there = ~xp.isnan(y)
        rows = basis * there[:, None]
        root = lib.cholesky(rows.T @ rows)  # NaN where it is singular
        half = lib.solve_triangular(root, rows.T @ xp.where(there, y, 0.0), True)
        weights = lib.solve_triangular(root.T, half, False)
        return weights, xp.nanmean((basis @ weights - y) ** 2)

    return lib.vmap(fit, (0, None))


def _stations(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    count, days, terms = (3, 9, 3) if small else (200, 60, 5)
    t = np.linspace(0.0, 1.0, days)
    basis = np.stack([np.cos(np.pi * k * t) for k in range(terms)], axis=1)
    y = draws.standard_normal((count, terms)) @ basis.T + draws.standard_normal((count, days))
    y[draws.random(y.shape) < 0.2] = np.nan
    y[count // 2 :: 9] = np.nan
    return y, basis


def damped(lib: Any) -> Callable[..., Any]:
    """Newton's method with as much damping as a decomposition needs to be without NaN."""
    xp = lib.np

    def f(x: Any) -> Any:
        return xp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    def step(x: Any, _: Any) -> Any:
        slope, curve = lib.grad(f)(x), lib.hessian(f)(x)

        def root(damping: Any) -> Any:
            return lib.cholesky(curve + damping * xp.eye(len(x)))

        def failed(damping: Any) -> Any:
            return xp.isnan(xp.sum(root(damping)))

        lower = root(lib.while_loop(failed, lambda damping: 4.0 * damping, xp.asarray(1e-3)))
        half = lib.solve_triangular(lower, slope, True)
        x = x - lib.solve_triangular(lower.T, half, False)
        return x, f(x)

    return lambda x, steps: lib.scan(step, x, steps)


def _hill(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    size, steps = (3, 2) if small else (8, 30)
    return draws.uniform(-2.0, 2.0, size), np.zeros(steps)


def decoding(lib: Any) -> Callable[..., Any]:
    """Write symbols one by one by a recurrent net, each drawn from what the net expects."""
    xp = lib.np

    def write(params: Any, symbol: Any, gumbels: Any) -> Any:
        def step(carry: Any, gumbel: Any) -> Any:
            h, symbol, total = carry
            h = xp.tanh(params["symbols"][symbol] + h @ params["on"])
            logs = lib.log_softmax(h @ params["out"])
            symbol = xp.argmax(logs + gumbel)
            return (h, symbol, total + logs[symbol]), symbol

        start = (xp.zeros(len(params["on"])), symbol, xp.asarray(0.0))
        (_, _, total), symbols = lib.scan(step, start, gumbels)
        return total, symbols

    return write


def _alphabet(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    steps, width, kinds = (3, 4, 5) if small else (200, 64, 30)
    params = {
        "symbols": draws.standard_normal((kinds, width)),
        "on": draws.standard_normal((width, width)) / width**0.5,
        "out": draws.standard_normal((width, kinds)) / width**0.5,
    }
    return params, np.asarray(1), draws.gumbel(size=(steps, kinds))


TASKS = (
    Task("soft time warping", warping, _melodies, 1e-7),
    Task("Viterbi", best_path, _chain),
    Task("edit distance", distance_of_words, _words),
    Task("extended Kalman", tracking, _flight, 1e-7),
    Task("series with gaps, vmap", gaps, _stations, 1e-7),
    Task("damped Newton, NaN", damped, _hill, 1e-6),
    Task("decoding", decoding, _alphabet),
)
