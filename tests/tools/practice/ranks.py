"""Order: medians, quantiles, sorted samples, the best few, ranks of survivors and candidates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tools.practice.task import Task, dense, perceptron


def sliced(lib: Any) -> Callable[..., Any]:
    """How far two clouds are apart along many directions, by sorted projections."""
    xp = lib.np

    def distance(x: Any, y: Any, ways: Any) -> Any:
        ways = ways / xp.linalg.norm(ways, axis=0)
        return xp.mean((xp.sort(x @ ways, axis=0) - xp.sort(y @ ways, axis=0)) ** 2)

    return lib.value_and_grad(distance)


def _clouds(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    count, d, ways = (5, 2, 3) if small else (500, 3, 32)
    x, y = draws.standard_normal((2, count, d))
    return x, y + 0.5, draws.standard_normal((d, ways))


def robust(lib: Any) -> Callable[..., Any]:
    """A regression without fear of outliers: weights from the median of the residuals."""
    xp = lib.np

    def fit(x: Any, y: Any, steps: Any) -> Any:
        def step(w: Any, _: Any) -> Any:
            off = y - x @ w
            spread = 1.4826 * xp.median(xp.abs(off - xp.median(off))) + 1e-9
            ratio = off / (4.685 * spread)
            weights = xp.where(xp.abs(ratio) < 1.0, (1.0 - ratio**2) ** 2, 0.0)
            rows = x * weights[:, None]
            return xp.linalg.solve(rows.T @ x + 1e-6 * xp.eye(len(w)), rows.T @ y), spread

        return lib.scan(step, xp.linalg.solve(x.T @ x, x.T @ y), steps)

    return fit


def _outliers(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    count, features, steps = (9, 2, 3) if small else (400, 6, 20)
    x = draws.standard_normal((count, features))
    y = x @ np.linspace(-1.0, 1.0, features) + 0.1 * draws.standard_t(1.5, count)
    return x, y, np.zeros(steps)


def experts(lib: Any) -> Callable[..., Any]:
    """A mixture of experts: the best two for each example, and a gate that is trained."""
    xp = lib.np

    def loss(params: Any, x: Any, y: Any) -> Any:
        scores = x @ params["gate"]
        best = xp.argsort(-scores, axis=-1)[:, :2]
        shares = lib.softmax(xp.take_along_axis(scores, best, axis=-1))
        hidden = xp.tanh(xp.einsum("ni,eih->neh", x, params["in"]))
        out = xp.einsum("neh,eh->ne", hidden, params["out"])
        chosen = xp.take_along_axis(out, best, axis=-1)
        load = xp.mean(lib.softmax(scores), axis=0)
        return xp.mean((xp.sum(shares * chosen, axis=-1) - y) ** 2) + 0.01 * xp.sum(load**2)

    return lib.value_and_grad(loss)


def _gated(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    count, d, kinds, hidden = (4, 3, 4, 2) if small else (256, 16, 8, 16)
    params = {
        "gate": draws.standard_normal((d, kinds)),
        "in": draws.standard_normal((kinds, d, hidden)) / d**0.5,
        "out": draws.standard_normal((kinds, hidden)) / hidden**0.5,
    }
    return params, draws.standard_normal((count, d)), draws.standard_normal(count)


def quantiles(lib: Any) -> Callable[..., Any]:
    """The risk of a portfolio: the mean of its worst losses, beyond a quantile."""
    xp = lib.np

    def risk(logits: Any, moves: Any) -> Any:
        gains = moves @ lib.softmax(logits)
        worst = xp.quantile(gains, xp.asarray([0.01, 0.05, 0.1]))
        tails = xp.maximum(worst[:, None] - gains, 0.0)
        return xp.sum(xp.mean(tails, axis=1) - worst) - xp.mean(gains)

    return lib.value_and_grad(risk)


def _market(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    days, count = (15, 3) if small else (2000, 20)
    return draws.standard_normal(count), 0.01 * draws.standard_normal((days, count))


def survival(lib: Any) -> Callable[..., Any]:
    """Cox's model of survival by a net: each death against all who lived as long."""
    xp = lib.np

    def loss(params: Any, x: Any, times: Any, died: Any) -> Any:
        order = xp.argsort(-times)
        scores = perceptron(lib, params, x)[order, 0]
        top = xp.max(scores)
        risks = top + xp.log(xp.cumsum(xp.exp(scores - top)))
        weights = sum([xp.sum(p**2) for p in params.values()])
        return 1e-3 * weights - xp.sum((scores - risks) * died[order]) / xp.sum(died)

    return lib.value_and_grad(loss)


def _patients(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    count, features, width = (6, 2, 3) if small else (500, 10, 32)
    died = (draws.random(count) < 0.7).astype(float)
    died[0] = 1.0
    x = draws.standard_normal((count, features))
    return dense(draws, features, width, 1), x, draws.random(count), died


def evolution(lib: Any) -> Callable[..., Any]:
    """An evolution strategy: candidates by their ranks move the mean and the spread."""
    xp = lib.np

    def cost(x: Any) -> Any:
        waves = xp.sum(x**2 - 10.0 * xp.cos(2.0 * xp.pi * x), axis=-1)
        return 10.0 * x.shape[-1] + waves

    def search(mean: Any, noise: Any) -> Any:
        count = noise.shape[1]
        shares = np.maximum(0.0, np.log(count / 2 + 1) - np.log(np.arange(1, count + 1)))
        shares = shares / np.sum(shares) - 1.0 / count

        def step(state: Any, z: Any) -> Any:
            mean, log_spread = state
            costs = cost(mean + xp.exp(log_spread) * z)
            ranks = xp.argsort(xp.argsort(costs))
            weights = xp.asarray(shares)[ranks]
            mean = mean + xp.exp(log_spread) * (weights @ z)
            return (mean, log_spread + 0.1 * (weights @ (z**2 - 1.0))), xp.min(costs)

        return lib.scan(step, (mean, xp.zeros(mean.shape)), noise)

    return search


def _generations(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    steps, count, d = (3, 6, 2) if small else (100, 40, 10)
    return 3.0 + draws.standard_normal(d), draws.standard_normal((steps, count, d))


def neighbours(lib: Any) -> Callable[..., Any]:
    """Read a function off its nearest samples, weighted by their distances."""
    xp = lib.np

    def estimate(scale: Any, asked: Any, places: Any, values: Any) -> Any:
        apart = xp.linalg.norm((asked[:, None, :] - places[None, :, :]) * scale, axis=-1)
        nearest = xp.argsort(apart, axis=-1)[:, :8]
        weights = lib.softmax(-xp.take_along_axis(apart, nearest, axis=-1))
        return xp.sum(weights * values[nearest], axis=-1)

    def loss(scale: Any, asked: Any, places: Any, values: Any, targets: Any) -> Any:
        return xp.mean((estimate(scale, asked, places, values) - targets) ** 2)

    return lib.value_and_grad(loss)


def _samples(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    asked, count, d = (3, 12, 2) if small else (100, 300, 3)
    places = draws.standard_normal((count, d))
    points = draws.standard_normal((asked, d))
    return np.ones(d), points, places, np.sin(places[:, 0]), np.sin(points[:, 0])


TASKS = (
    Task("sliced transport, sort", sliced, _clouds),
    Task("robust regression, median", robust, _outliers),
    Task("mixture of experts, top 2", experts, _gated),
    Task("portfolio risk, quantiles", quantiles, _market),
    Task("Cox's survival", survival, _patients),
    Task("evolution strategy, ranks", evolution, _generations),
    Task("nearest neighbours", neighbours, _samples),
)
