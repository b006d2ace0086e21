"""Loops: filters, equations, recurrent nets, and Newton's method for many numbers at once."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.tools.practice.task import Task

Program = Callable[[Any], Callable[..., Any]]


def kalman(lib: Any) -> Callable[..., Any]:
    """The likelihood of measurements under a linear model, by a Kalman filter."""
    xp, n = lib.np, 4
    draws = np.random.default_rng(5)
    forth, seen = np.eye(n) + 0.1 * draws.standard_normal((n, n)), draws.standard_normal((n, n))

    def likelihood(scale: Any, ys: Any) -> Any:
        def step(carry: Any, y: Any) -> Any:
            mean, cov, total = carry
            mean, cov = forth @ mean, forth @ cov @ forth.T + scale * 0.1 * np.eye(n)
            cross = seen @ cov
            spread = cross @ seen.T + 0.5 * np.eye(n)
            gain, off = xp.linalg.solve(spread, cross).T, y - seen @ mean
            log_det = xp.linalg.slogdet(spread)[1]
            total = total - 0.5 * (off @ xp.linalg.solve(spread, off) + log_det)
            return (mean + gain @ off, cov - gain @ cross, total), None

        start = (xp.zeros(n), xp.eye(n), xp.asarray(0.0))
        return lib.scan(step, start, ys)[0][2]

    return likelihood


def _measured(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    return np.float64(1.0), draws.standard_normal((3 if small else 200, 4))


def runge_kutta(lib: Any) -> Callable[..., Any]:
    """A scalar equation, by steps of Runge and Kutta."""
    xp, h = lib.np, 0.01

    def slope(y: Any, t: Any) -> Any:
        return xp.sin(t) * y * 0.1 - 0.5 * y

    def solve(y: Any, steps: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            y, t = carry
            a = slope(y, t)
            b = slope(y + 0.5 * h * a, t + 0.5 * h)
            c = slope(y + 0.5 * h * b, t + 0.5 * h)
            d = slope(y + h * c, t + h)
            return (y + h / 6 * (a + 2 * b + 2 * c + d), t + h), None

        return lib.scan(step, (y, xp.asarray(0.0)), steps)[0][0]

    return solve


def _start(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    return np.float64(1.3), np.zeros(4 if small else 500)


def recurrence(lib: Any) -> Callable[..., Any]:
    """A recurrence on eight numbers."""
    xp = lib.np

    def repeat(c: Any, steps: Any) -> Any:
        return xp.sum(lib.scan(lambda c, _: (0.99 * xp.tanh(c) + 0.01 * c, None), c, steps)[0])

    return repeat


def _numbers(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    return draws.standard_normal(8), np.zeros(4 if small else 10_000)


def recurrent(lib: Any) -> Callable[..., Any]:
    """A recurrent net without biases."""
    xp = lib.np

    def loss(weights: Any, h: Any, xs: Any) -> Any:
        return xp.sum(lib.scan(lambda h, x: (xp.tanh(x + h @ weights), None), h, xs)[0] ** 2)

    return loss


def _net(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    steps, batch, width = (3, 2, 3) if small else (100, 32, 64)
    weights = 0.1 * draws.standard_normal((width, width))
    return weights, np.zeros((batch, width)), draws.standard_normal((steps, batch, width))


def long_short(lib: Any) -> Callable[..., Any]:
    """A net with long and short memory: an LSTM."""
    xp = lib.np

    def loss(params: Any, xs: Any) -> Any:
        w, u, b = params

        def step(carry: Any, x: Any) -> Any:
            h, c = carry
            i, g, o, q = xp.split(x @ w + h @ u + b, 4, axis=-1)
            c = lib.sigmoid(g) * c + lib.sigmoid(i) * xp.tanh(q)
            return (lib.sigmoid(o) * xp.tanh(c), c), None

        start = xp.zeros((xs.shape[1], u.shape[0]), dtype=xs.dtype)
        (h, _), _ = lib.scan(step, (start, start), xs)
        return xp.sum(h * h)

    return loss


def _gates(
    draws: np.random.Generator, small: bool, dtype: type[Any] = np.float64
) -> tuple[Any, ...]:
    steps, batch, width = (3, 2, 3) if small else (100, 32, 64)
    w, u = 0.1 * draws.standard_normal((2, width, 4 * width)).astype(dtype)
    xs = draws.standard_normal((steps, batch, width)).astype(dtype)
    return (w, u, np.zeros(4 * width, dtype)), xs


def newton(lib: Any) -> Callable[..., Any]:
    """Square roots of many numbers, each by as many steps as it takes."""

    def root(x: Any) -> Any:
        def far(y: Any) -> Any:
            return lib.np.abs(y * y - x) > 1e-12 * x

        return lib.while_loop(far, lambda y: (y + x / y) / 2.0, x)

    return lib.vmap(root)


def _squares(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    return (np.linspace(0.5, 50.0, 5 if small else 1000),)


def pendulum(lib: Any) -> Callable[..., Any]:
    """A pendulum by an adaptive method: the angle at the end."""
    xp = lib.np

    def angle(length: Any, t: Any) -> Any:
        def slope(state: Any, t: Any, length: Any) -> Any:
            return state[1], -9.81 / length * xp.sin(state[0])

        start = (xp.asarray(0.3), xp.asarray(0.0))
        return lib.odeint(slope, start, xp.stack([0.0 * t, t]), length)[0][-1]

    return angle


def _swing(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    return np.float64(1.0), np.float64(0.2 if small else 0.8)


def _gradient(program: Program) -> Program:
    return lambda lib: lib.value_and_grad(program(lib))


def _both(name: str, program: Program, inputs: Any, tolerance: float = 1e-9) -> list[Task]:
    gradient = Task(f"{name}, gradient", _gradient(program), inputs, tolerance)
    return [Task(name, program, inputs, tolerance), gradient]


TASKS = (
    *_both("Kalman 4x4, 200", kalman, _measured),
    *_both("Runge-Kutta, 500", runge_kutta, _start),
    *_both("recurrence, 10,000 x 8", recurrence, _numbers),
    *_both("RNN, 100", recurrent, _net),
    *_both("LSTM, 100", long_short, _gates),
    *_both("LSTM, float32", long_short, partial(_gates, dtype=np.float32), 1e-3),
    Task("Newton, vmap", newton, _squares),
    *_both("pendulum", pendulum, _swing, 1e-6),
)
