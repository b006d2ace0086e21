"""Many at once: equations, roots, chains and circuits, batched loops and complex states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tools.practice.task import Task


def predators(lib: Any) -> Callable[..., Any]:
    """Predators and prey from many starts, each with steps as long as its error allows."""
    xp = lib.np

    def slope(y: Any) -> Any:
        return xp.stack([y[0] * (1.1 - 0.4 * y[1]), y[1] * (0.1 * y[0] - 0.4)])

    def solve(y: Any) -> Any:
        def go_on(state: Any) -> Any:
            return state[0] < 10.0

        def step(state: Any) -> Any:
            t, y, h = state
            h = xp.minimum(h, 10.0 - t)
            a = slope(y)
            b = slope(y + 0.5 * h * a)
            c = slope(y + 0.75 * h * b)
            ahead = y + h / 9.0 * (2.0 * a + 3.0 * b + 4.0 * c)
            d = slope(ahead)
            error = h * (-5.0 / 72.0 * a + b / 12.0 + c / 9.0 - d / 8.0)
            ratio = xp.linalg.norm(error) / (1e-6 * (1.0 + xp.linalg.norm(y)))
            good = ratio <= 1.0
            longer = h * xp.clip(0.9 * xp.maximum(ratio, 1e-8) ** (-1.0 / 3.0), 0.2, 5.0)
            return xp.where(good, t + h, t), xp.where(good, ahead, y), longer

        return lib.while_loop(go_on, step, (xp.asarray(0.0), y, xp.asarray(0.1)))[1]

    return lib.vmap(solve)


def _animals(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    return (draws.uniform(1.0, 10.0, (3 if small else 200, 2)),)


def volatility(lib: Any) -> Callable[..., Any]:
    """The volatility that an option's price implies, by Newton's method, for many options."""
    xp = lib.np

    def price(spread: Any, spot: Any, strike: Any, years: Any) -> Any:
        root = spread * xp.sqrt(years)
        first = (xp.log(spot / strike) + 0.5 * root**2) / root
        return spot * lib.normal_cdf(first) - strike * lib.normal_cdf(first - root)

    def implied(paid: Any, spot: Any, strike: Any, years: Any) -> Any:
        def far(state: Any) -> Any:
            _, move, count = state
            return (xp.abs(move) > 1e-10) & (count < 50)

        def step(state: Any) -> Any:
            spread, _, count = state
            value, slope = lib.value_and_grad(price)(spread, spot, strike, years)
            move = xp.clip((value - paid) / slope, -0.5 * spread, 0.5 * spread)
            return spread - move, move, count + 1

        return lib.while_loop(far, step, (xp.asarray(0.3), xp.asarray(1.0), xp.asarray(0)))[0]

    return lib.vmap(implied)


def _options(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    count = 3 if small else 1000
    spot, strike = draws.uniform(90.0, 110.0, (2, count))
    years = draws.uniform(0.2, 2.0, count)
    floor = np.maximum(spot - strike, 0.0)
    return floor + draws.uniform(0.1, 0.3, count) * 38.0 * np.sqrt(years), spot, strike, years


def chains(lib: Any) -> Callable[..., Any]:
    """Hamiltonian chains side by side on a crooked density, each with a step it adapts."""
    xp = lib.np

    def energy(x: Any) -> Any:
        return 0.5 * xp.sum(x**2) + 2.0 * xp.sum((x[1:] - x[:-1] ** 2) ** 2)

    def run(x: Any, normals: Any, uniforms: Any) -> Any:
        def draw(state: Any, random: Any) -> Any:
            x, log_step = state
            p, uniform = random
            h = xp.exp(log_step)

            def leap(_: Any, place: Any) -> Any:
                x, p = place
                p = p - 0.5 * h * lib.grad(energy)(x)
                x = x + h * p
                return x, p - 0.5 * h * lib.grad(energy)(x)

            moved, end = lib.fori_loop(0, 8, leap, (x, p))
            change = energy(x) + 0.5 * xp.sum(p**2) - energy(moved) - 0.5 * xp.sum(end**2)
            chance = xp.minimum(1.0, xp.exp(change))
            x = xp.where(uniform < chance, moved, x)
            return (x, log_step + 0.05 * (chance - 0.8)), x

        (x, log_step), path = lib.scan(draw, (x, xp.asarray(-2.0)), (normals, uniforms))
        return xp.mean(path, axis=0), xp.std(path, axis=0), log_step

    return lib.vmap(run)


def _states(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    count, steps, d = (2, 3, 2) if small else (16, 100, 6)
    x, normals = draws.standard_normal((count, d)), draws.standard_normal((count, steps, d))
    return x, normals, draws.random((count, steps))


def circuit(lib: Any) -> Callable[..., Any]:
    """The energy of a quantum circuit of eight bits, and its slope in the angles."""
    xp = lib.np

    def energy(angles: Any) -> Any:
        bits = angles.shape[1]
        state = xp.zeros((2,) * bits, dtype=complex).at[(0,) * bits].set(1.0)
        for layer in range(angles.shape[0]):
            for k in range(bits):
                half = 0.5 * angles[layer, k]
                c, s = xp.cos(half), xp.sin(half)
                gate = xp.stack([xp.stack([c, -1j * s]), xp.stack([-1j * s, c])])
                state = xp.moveaxis(xp.tensordot(gate, state, axes=(1, k)), 0, k)
            signs = np.ones((2,) * bits)
            for k in range(bits - 1):
                places: list[Any] = [slice(None)] * bits
                places[k] = places[k + 1] = 1
                signs[tuple(places)] *= -1.0
            state = state * signs
        chances = xp.abs(state) ** 2
        total = 0.0
        for k in range(bits):
            odd = xp.sum(chances, axis=tuple([a for a in range(bits) if a != k]))
            total = total + (k + 1.0) * (odd[0] - odd[1])
        return total

    return lib.value_and_grad(energy)


def _angles(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    return (draws.uniform(0.0, 3.0, (1, 2) if small else (3, 8)),)


def mirror(lib: Any) -> Callable[..., Any]:
    """Light on a stack of films: a product of complex 2 x 2 matrices for each color."""
    xp = lib.np

    def reflected(thick: Any, indices: Any, color: Any) -> Any:
        def step(product: Any, film: Any) -> Any:
            d, n = film
            phase = 2.0 * xp.pi * n * d / color
            c, s = xp.cos(phase), xp.sin(phase)
            rows = [xp.stack([c, 1j * s / n]), xp.stack([1j * n * s, c])]
            return product @ xp.stack(rows), None

        (a, b), (c, d) = lib.scan(step, xp.eye(2, dtype=complex), (thick, indices))[0]
        amplitude = (a + 1.5 * b - c - 1.5 * d) / (a + 1.5 * b + c + 1.5 * d)
        return xp.abs(amplitude) ** 2

    def loss(thick: Any, indices: Any, colors: Any) -> Any:
        return -xp.mean(lib.vmap(reflected, (None, None, 0))(thick, indices, colors))

    return lib.value_and_grad(loss)


def _films(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    count, colors = (3, 2) if small else (20, 64)
    indices = np.where(np.arange(count) % 2, 1.45, 2.3)
    return 0.1 + 0.02 * draws.random(count), indices, np.linspace(0.4, 0.7, colors)


def chaos(lib: Any) -> Callable[..., Any]:
    """How fast neighbours part in Lorenz's system: tangents carried along and made orthogonal."""
    xp = lib.np

    def slope(y: Any) -> Any:
        first, last = 10.0 * (y[1] - y[0]), y[0] * y[1] - 8.0 / 3.0 * y[2]
        return xp.stack([first, y[0] * (28.0 - y[2]) - y[1], last])

    def move(y: Any) -> Any:
        h = 0.01
        a = slope(y)
        b = slope(y + 0.5 * h * a)
        c = slope(y + 0.5 * h * b)
        return y + h / 6.0 * (a + 2.0 * b + 2.0 * c + slope(y + h * c))

    def exponents(y: Any, steps: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            y, frame, logs = state
            frame = lib.vmap(lambda v: lib.jvp(move, (y,), (v,))[1])(frame)
            rows: list[Any] = []
            for k in range(3):
                v = frame[k]
                for u, _ in rows:
                    v = v - (u @ v) * u
                length = xp.linalg.norm(v)
                rows.append((v / length, length))
            logs = logs + xp.log(xp.stack([length for _, length in rows]))
            return (move(y), xp.stack([u for u, _ in rows]), logs), None

        (_, _, logs), _ = lib.scan(step, (y, xp.eye(3), xp.zeros(3)), steps)
        return logs / (0.01 * len(steps))

    return exponents


def _weather(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    return 1.0 + draws.random(3), np.zeros(3 if small else 1000)


TASKS = (
    Task("predators and prey, vmap", predators, _animals, 1e-6),
    Task("implied volatility, vmap", volatility, _options, 1e-7),
    Task("Hamiltonian chains, vmap", chains, _states, 1e-6),
    Task("quantum circuit", circuit, _angles),
    Task("mirror of films, complex", mirror, _films, 1e-8),
    Task("Lyapunov exponents", chaos, _weather, 1e-3),
)
