"""Inference: Hamiltonian Monte Carlo, particles, a Gaussian process, a hidden Markov model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tools.practice.task import Task


def hamiltonian(lib: Any) -> Callable[..., Any]:
    """Draw from the posterior of a logistic regression: leapfrog steps, and a choice to accept."""
    xp = lib.np

    def minus_log(w: Any, x: Any, y: Any) -> Any:
        scores = x @ w
        return xp.sum(lib.softplus(scores) - y * scores) + 0.5 * xp.sum(w * w)

    def sample(w: Any, x: Any, y: Any, normals: Any, uniforms: Any) -> Any:
        slope = lib.grad(minus_log)

        def leap(_: Any, place: Any) -> Any:
            w, p = place
            p = p - 0.01 * slope(w, x, y)
            w = w + 0.02 * p
            return w, p - 0.01 * slope(w, x, y)

        def draw(w: Any, random: Any) -> Any:
            p, uniform = random
            before = minus_log(w, x, y) + 0.5 * xp.sum(p * p)
            moved, end = lib.fori_loop(0, 10, leap, (w, p))
            after = minus_log(moved, x, y) + 0.5 * xp.sum(end * end)
            accepted = xp.log(uniform) < before - after
            w = xp.where(accepted, moved, w)
            return w, (w, accepted)

        end, (samples, accepted) = lib.scan(draw, w, (normals, uniforms))
        return end, xp.mean(samples, axis=0), xp.mean(xp.where(accepted, 1.0, 0.0))

    return sample


def _regression(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    count, features, steps = (20, 3, 4) if small else (200, 10, 100)
    x = draws.standard_normal((count, features))
    y = (x @ np.linspace(-1.0, 1.0, features) > 0).astype(float)
    normals = draws.standard_normal((steps, features))
    return np.zeros(features), x, y, normals, draws.random(steps)


def particles(lib: Any) -> Callable[..., Any]:
    """The likelihood of a model of stochastic volatility, by particles that are drawn again."""
    xp = lib.np

    def likelihood(model: Any, seen: Any, noise: Any, offsets: Any) -> Any:
        mean, persistence, spread = model
        count = noise.shape[1]

        def step(carry: Any, now: Any) -> Any:
            h, total = carry
            y, shocks, offset = now
            h = mean + persistence * (h - mean) + spread * shocks
            weights = -0.5 * (h + y * y * xp.exp(-h))
            total = total + lib.logsumexp(weights) - xp.log(1.0 * count)
            edges = xp.cumsum(lib.softmax(weights))
            chosen = xp.searchsorted(edges, (xp.arange(count) + offset) / count)
            return (h[xp.minimum(chosen, count - 1)], total), xp.mean(h)

        start = (mean + spread * noise[0], xp.asarray(0.0))
        (_, total), means = lib.scan(step, start, (seen, noise, offsets))
        return total, means

    return likelihood


def _returns(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    steps, count = (5, 8) if small else (200, 500)
    model = (np.float64(-0.5), np.float64(0.95), np.float64(0.3))
    shocks = draws.standard_normal((steps, count))
    return model, draws.standard_normal(steps), shocks, draws.random(steps)


def gaussian_process(lib: Any) -> Callable[..., Any]:
    """Likelihood and gradient of a Gaussian process, by a Cholesky decomposition."""
    xp = lib.np

    def minus_log(logs: Any, x: Any, y: Any) -> Any:
        scale, length, noise = xp.exp(logs["scale"]), xp.exp(logs["length"]), xp.exp(logs["noise"])
        squares = xp.sum((x[:, None, :] - x[None, :, :]) ** 2 / length**2, axis=-1)
        covariance = scale * xp.exp(-0.5 * squares) + noise * xp.eye(len(y))
        root = xp.linalg.cholesky(covariance)
        white = xp.linalg.solve(root, y)
        return 0.5 * xp.sum(white * white) + xp.sum(xp.log(xp.diagonal(root)))

    return lib.value_and_grad(minus_log)


def _field(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    count, features = (6, 2) if small else (100, 3)
    logs = {"scale": np.float64(0.1), "length": np.zeros(features), "noise": np.float64(-2.0)}
    x = draws.standard_normal((count, features))
    return logs, x, np.sin(x[:, 0]) + 0.1 * draws.standard_normal(count)


def hidden_markov(lib: Any) -> Callable[..., Any]:
    """The likelihood of sequences under a hidden Markov model, and its gradient."""
    xp = lib.np

    def minus_log(params: Any, seen: Any) -> Any:
        moves = lib.log_softmax(params["moves"])
        emits = lib.log_softmax(params["emits"])

        def step(alpha: Any, symbols: Any) -> Any:
            ahead = lib.logsumexp(alpha[:, :, None] + moves, axis=1)
            return ahead + emits[:, symbols].T, None

        start = lib.log_softmax(params["start"]) + emits[:, seen[0]].T
        return -xp.mean(lib.logsumexp(lib.scan(step, start, seen[1:])[0], axis=1))

    return lib.value_and_grad(minus_log)


def _symbols(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    steps, count, states, kinds = (4, 2, 3, 4) if small else (100, 16, 8, 12)
    params = {
        "moves": draws.standard_normal((states, states)),
        "emits": draws.standard_normal((states, kinds)),
        "start": draws.standard_normal(states),
    }
    return params, draws.integers(kinds, size=(steps, count))


TASKS = (
    Task("Hamiltonian Monte Carlo", hamiltonian, _regression),
    Task("particle filter", particles, _returns),
    Task("Gaussian process", gaussian_process, _field),
    Task("hidden Markov model", hidden_markov, _symbols),
)
