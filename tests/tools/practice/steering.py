"""Control and fitting: iLQR, PPO, L-BFGS, and Levenberg and Marquardt's method for many curves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tools.practice.task import Task, adam, dense, moments_of, perceptron


def linear_quadratic(lib: Any) -> Callable[..., Any]:
    """Swing a pendulum up by iLQR: roll out, linearize along the path, go back, repeat."""
    xp = lib.np

    def move(x: Any, u: Any) -> Any:
        speed = x[1] + 0.05 * (u[0] - 9.81 * xp.sin(x[0]) - 0.1 * x[1])
        return xp.stack([x[0] + 0.05 * speed, speed])

    def cost(x: Any, u: Any) -> Any:
        return 0.05 * ((1.0 + xp.cos(x[0])) ** 2 + 0.1 * x[1] ** 2 + 0.1 * u[0] ** 2)

    def improved(start: Any, controls: Any, path: Any) -> Any:
        moves = lib.vmap(lib.jacfwd(move, argnums=(0, 1)))(path, controls)
        slopes = lib.vmap(lib.grad(cost, argnums=(0, 1)))(path, controls)
        curves = lib.vmap(lib.hessian(cost, argnums=(0, 1)))(path, controls)

        def back(value: Any, now: Any) -> Any:
            v, vv = value
            (fx, fu), (cx, cu), ((cxx, _), (cux, cuu)) = now
            qx, qu = cx + fx.T @ v, cu + fu.T @ v
            qxx, quu = cxx + fx.T @ vv @ fx, cuu + fu.T @ vv @ fu + 1e-3 * xp.eye(1)
            qux = cux + fu.T @ vv @ fx
            gain, offset = -xp.linalg.solve(quu, qux), -xp.linalg.solve(quu, qu)
            return (qx + qux.T @ offset, qxx + qux.T @ gain), (gain, offset)

        last = (xp.zeros(2), xp.diag(xp.asarray([1.0, 0.1])))
        _, gains = lib.scan(back, last, (moves, slopes, curves), reverse=True)

        def step(x: Any, now: Any) -> Any:
            u, old, (gain, offset) = now
            u = u + 0.5 * offset + gain @ (x - old)
            return move(x, u), (u, x)

        return lib.scan(step, start, (controls, path, gains))[1]

    def solve(start: Any, controls: Any) -> Any:
        path = lib.scan(lambda x, u: (move(x, u), x), start, controls)[1]
        pair = lib.fori_loop(0, 5, lambda _, pair: improved(start, *pair), (controls, path))
        return pair[0], xp.sum(lib.vmap(cost)(pair[1], pair[0]))

    return solve


def _pendulum(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    return np.array([0.3, 0.0]), 0.5 * draws.standard_normal((4 if small else 100, 1))


def policy(lib: Any) -> Callable[..., Any]:
    """An update of PPO: advantages by a scan, the clipped objective, a step of Adam."""
    xp = lib.np

    def loss(params: Any, states: Any, actions: Any, old: Any, gains: Any, targets: Any) -> Any:
        logs = lib.log_softmax(perceptron(lib, params["policy"], states))
        taken = xp.sum(logs * actions, axis=-1)
        ratio = xp.exp(taken - old)
        clipped = xp.clip(ratio, 0.8, 1.2)
        entropy = -xp.mean(xp.sum(xp.exp(logs) * logs, axis=-1))
        values = perceptron(lib, params["value"], states)[..., 0]
        objective = xp.mean(xp.minimum(ratio * gains, clipped * gains))
        return xp.mean((values - targets) ** 2) - objective - 0.01 * entropy

    def update(
        params: Any, moments: Any, count: Any, states: Any, actions: Any, old: Any, rewards: Any
    ) -> Any:
        values = perceptron(lib, params["value"], states)[..., 0]

        def back(gain: Any, now: Any) -> Any:
            reward, value, after = now
            gain = reward + 0.99 * after - value + 0.95 * 0.99 * gain
            return gain, gain

        after = xp.concatenate([values[1:], xp.zeros((1, values.shape[1]))])
        start = xp.zeros(values.shape[1])
        gains = lib.scan(back, start, (rewards, values, after), reverse=True)[1]
        targets, scaled = gains + values, (gains - xp.mean(gains)) / (xp.std(gains) + 1e-8)
        value, slopes = lib.value_and_grad(loss)(params, states, actions, old, scaled, targets)
        moved = {
            name: adam(lib, params[name], slopes[name], moments[name], count) for name in params
        }
        return value, {k: pair[0] for k, pair in moved.items()}, {k: p[1] for k, p in moved.items()}

    return update


def _episodes(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    steps, count, width = (4, 2, 3) if small else (128, 8, 64)
    params = {"policy": dense(draws, 6, width, width, 4), "value": dense(draws, 6, width, 1)}
    moments = {name: moments_of(draws, layers) for name, layers in params.items()}
    states = draws.standard_normal((steps, count, 6))
    actions = np.eye(4)[draws.integers(4, size=(steps, count))]
    old = np.log(draws.uniform(0.1, 0.5, (steps, count)))
    rewards = draws.standard_normal((steps, count))
    return params, moments, np.float64(5.0), states, actions, old, rewards


def quasi_newton(lib: Any) -> Callable[..., Any]:
    """Minimize by L-BFGS: the last ten pairs in arrays, and a search that halves its step."""
    xp, memory = lib.np, 10

    def f(x: Any) -> Any:
        return xp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    def direction(slope: Any, moves: Any, turns: Any) -> Any:
        products = xp.sum(moves * turns, axis=1)
        inverses = xp.where(products > 0, 1.0 / xp.where(products > 0, products, 1.0), 0.0)

        def back(q: Any, pair: Any) -> Any:
            move, turn, inverse = pair
            a = inverse * (move @ q)
            return q - a * turn, a

        q, a = lib.scan(back, slope, (moves, turns, inverses), reverse=True)
        squares = xp.sum(turns[-1] ** 2)
        q = q * xp.where(squares > 0, products[-1] / xp.where(squares > 0, squares, 1.0), 1e-3)

        def forth(r: Any, now: Any) -> Any:
            (move, turn, inverse), a = now
            return r + (a - inverse * (turn @ r)) * move, None

        return -lib.scan(forth, q, ((moves, turns, inverses), a))[0]

    def step(state: Any, _: Any) -> Any:
        x, moves, turns = state
        value, slope = lib.value_and_grad(f)(x)
        way = direction(slope, moves, turns)
        least = 1e-4 * (slope @ way)

        def too_long(size: Any) -> Any:
            return (f(x + size * way) > value + size * least) & (size > 1e-6)

        size = lib.while_loop(too_long, lambda size: 0.5 * size, xp.asarray(1.0))
        move = size * way
        turn = lib.grad(f)(x + move) - slope
        moves = xp.concatenate([moves[1:], move[None]])
        return (x + move, moves, xp.concatenate([turns[1:], turn[None]])), value

    def minimize(x: Any, steps: Any) -> Any:
        empty = xp.zeros((memory, len(x)))
        (x, _, _), values = lib.scan(step, (x, empty, empty), steps)
        return x, values

    return minimize


def _valley(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    size, steps = (4, 3) if small else (50, 40)
    return draws.uniform(-1.0, 1.0, size), np.zeros(steps)


def curves(lib: Any) -> Callable[..., Any]:
    """Fit many decaying curves at once, each by steps of Levenberg and Marquardt."""
    xp = lib.np

    def model(p: Any, t: Any) -> Any:
        return p[0] * xp.exp(-p[1] * t) + p[2]

    def fit(p: Any, t: Any, y: Any) -> Any:
        def off(p: Any) -> Any:
            return model(p, t) - y

        def step(state: Any, _: Any) -> Any:
            p, damping = state
            r, jacobian = off(p), lib.jacfwd(off)(p)
            matrix = jacobian.T @ jacobian
            damped = matrix + damping * xp.diag(xp.diagonal(matrix))
            moved = p - xp.linalg.solve(damped, jacobian.T @ r)
            better = xp.sum(off(moved) ** 2) < xp.sum(r * r)
            damping = xp.where(better, damping * 0.3, damping * 2.0)
            return (xp.where(better, moved, p), damping), None

        (p, _), _ = lib.scan(step, (p, xp.asarray(0.1)), None, length=10)
        return p, xp.sum(off(p) ** 2)

    return lib.vmap(fit, (0, None, 0))


def _decays(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    count, points = (2, 6) if small else (200, 30)
    t = np.linspace(0.0, 3.0, points)
    true = draws.uniform(0.5, 2.0, (count, 3))
    y = true[:, :1] * np.exp(-true[:, 1:2] * t) + true[:, 2:]
    noise = 0.01 * draws.standard_normal(y.shape)
    return true * draws.uniform(0.7, 1.3, true.shape), t, y + noise


TASKS = (
    Task("iLQR", linear_quadratic, _pendulum, 1e-7),
    Task("PPO update", policy, _episodes),
    Task("L-BFGS", quasi_newton, _valley, 1e-6),
    Task("Levenberg-Marquardt, vmap", curves, _decays, 1e-7),
)
