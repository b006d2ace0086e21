"""Nets of other kinds: critics, graphs, rays of light, masks, contrasts, normalized weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tools.practice.task import Task, dense, perceptron


def critic(lib: Any) -> Callable[..., Any]:
    """A critic of images whose slope is held near 1 (WGAN-GP): the gradient of a gradient."""
    xp = lib.np

    def score(params: Any, image: Any) -> Any:
        x = lib.conv(image[None], params["k0"])
        x = lib.conv(xp.where(x > 0, x, 0.2 * x), params["k1"])
        x = xp.where(x > 0, x, 0.2 * x)
        return xp.sum(x * params["out"])

    def loss(params: Any, real: Any, made: Any, shares: Any) -> Any:
        judge = lib.vmap(score, (None, 0))
        between = real + shares[:, None, None, None] * (made - real)
        slopes = lib.vmap(lib.grad(score, argnums=1), (None, 0))(params, between)
        lengths = xp.linalg.norm(slopes.reshape(len(real), -1), axis=1)
        penalty = xp.mean((lengths - 1.0) ** 2)
        return xp.mean(judge(params, made)) - xp.mean(judge(params, real)) + 10.0 * penalty

    return lib.value_and_grad(loss)


def _drawings(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    count, side, channels = (2, 3, 2) if small else (8, 12, 8)
    params = {
        "k0": 0.3 * draws.standard_normal((channels, 1, 3, 3)),
        "k1": 0.1 * draws.standard_normal((channels, channels, 3, 3)),
        "out": draws.standard_normal((channels, side, side)) / side,
    }
    real, made = draws.standard_normal((2, count, 1, side, side))
    return params, real, made, draws.random(count)


def spectral(lib: Any) -> Callable[..., Any]:
    """A net whose matrices are divided by their greatest stretch, found by the power method."""
    xp = lib.np

    def stretch(w: Any, v: Any) -> Any:
        def step(_: Any, v: Any) -> Any:
            u = w @ v
            v = w.T @ (u / xp.linalg.norm(u))
            return v / xp.linalg.norm(v)

        v = lib.fori_loop(0, 10, step, v)
        return xp.linalg.norm(w @ v)

    def loss(params: Any, x: Any, y: Any) -> Any:
        for k in range(len(params) // 2):
            w = params[f"w{k}"]
            even = w / stretch(w, xp.ones(w.shape[1]) / w.shape[1] ** 0.5)
            x = lib.relu(x @ even + params[f"b{k}"])
        return xp.mean((xp.sum(x, axis=-1) - y) ** 2)

    return lib.value_and_grad(loss)


def _even(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    count, sizes = (3, (2, 3, 2)) if small else (64, (32, 48, 48, 16))
    return dense(draws, *sizes), draws.standard_normal((count, sizes[0])), draws.random(count)


def graph(lib: Any) -> Callable[..., Any]:
    """A net on a graph: messages along edges, shares by attention, sums at nodes."""
    xp = lib.np

    def loss(params: Any, x: Any, sources: Any, targets: Any, y: Any) -> Any:
        nodes = len(x)
        for layer in params:
            h = x @ layer["w"]
            scores = h[sources] @ layer["from"] + h[targets] @ layer["to"]
            scores = xp.exp(xp.where(scores > 0, scores, 0.2 * scores))
            totals = lib.segment_sum(scores, targets, nodes) + 1e-9
            shares = scores / totals[targets]
            x = xp.tanh(lib.segment_sum(shares[:, None] * h[sources], targets, nodes) + h)
        return xp.mean((x[:, 0] - y) ** 2)

    return lib.value_and_grad(loss)


def _edges(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    nodes, edges, width = (4, 7, 3) if small else (200, 1000, 16)
    params = [
        {
            "w": draws.standard_normal((width, width)) / width**0.5,
            "from": draws.standard_normal(width) / width**0.5,
            "to": draws.standard_normal(width) / width**0.5,
        }
        for _ in range(2)
    ]
    sources, targets = draws.integers(nodes, size=(2, edges))
    x = draws.standard_normal((nodes, width))
    return params, x, sources, np.sort(targets), draws.standard_normal(nodes)


def rays(lib: Any) -> Callable[..., Any]:
    """Colors along rays through a cloud that a net describes: shares by running products."""
    xp = lib.np

    def loss(params: Any, starts: Any, ways: Any, depths: Any, colors: Any) -> Any:
        places = starts[:, None, :] + ways[:, None, :] * depths[:, None]
        waves = places[..., None] * 2.0 ** np.arange(3)
        features = xp.concatenate([xp.sin(waves), xp.cos(waves)], axis=-1)
        out = perceptron(lib, params, features.reshape(*places.shape[:2], -1))
        opaque = 1.0 - xp.exp(-lib.softplus(out[..., 3]) * (depths[1] - depths[0]))
        clear = xp.cumprod(1.0 - opaque + 1e-10, axis=-1)
        before = xp.concatenate([xp.ones((len(starts), 1)), clear[:, :-1]], axis=-1)
        shares = opaque * before
        seen = xp.sum(shares[..., None] * lib.sigmoid(out[..., :3]), axis=1)
        return xp.mean((seen - colors) ** 2)

    return lib.value_and_grad(loss)


def _cameras(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    count, points, width = (2, 3, 4) if small else (128, 32, 32)
    starts, ways = draws.standard_normal((2, count, 3))
    depths = np.linspace(0.5, 3.0, points)
    return dense(draws, 18, width, width, 4), starts, ways, depths, draws.random((count, 3))


def masked(lib: Any) -> Callable[..., Any]:
    """Attention in float32 over sentences of different lengths: loss and gradient."""
    xp = lib.np

    def loss(params: Any, x: Any, lengths: Any, y: Any) -> Any:
        there = np.arange(x.shape[1]) < lengths[:, None]
        q, k, v = [x @ params[name] for name in ("query", "key", "value")]
        scores = q @ xp.swapaxes(k, -1, -2) / x.shape[-1] ** 0.5
        scores = xp.where(there[:, None, :], scores, -xp.inf)
        mixed = x + lib.softmax(scores) @ v
        means = xp.sum(mixed * there[..., None], axis=1) / lengths[:, None].astype(x.dtype)
        logs = lib.log_softmax(lib.relu(means @ params["up"]) @ params["down"])
        return -xp.mean(xp.take_along_axis(logs, y[:, None], axis=-1))

    return lib.value_and_grad(loss)


def _sentences(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    count, length, width, kinds = (2, 3, 4, 3) if small else (16, 40, 32, 5)
    shapes = {"up": (width, 2 * width), "down": (2 * width, kinds)}
    shapes |= dict.fromkeys(("query", "key", "value"), (width, width))
    params = {
        name: (draws.standard_normal(s) / s[0] ** 0.5).astype(np.float32)
        for name, s in shapes.items()
    }
    x = draws.standard_normal((count, length, width)).astype(np.float32)
    return params, x, draws.integers(1, length + 1, count), draws.integers(kinds, size=count)


def contrast(lib: Any) -> Callable[..., Any]:
    """Two views of each example are to be alike: cosines of all pairs, and a temperature."""
    xp = lib.np

    def embedded(params: Any, x: Any) -> Any:
        z = perceptron(lib, params, x)
        return z / xp.linalg.norm(z, axis=-1, keepdims=True)

    def loss(params: Any, log_heat: Any, first: Any, second: Any) -> Any:
        cosines = embedded(params, first) @ embedded(params, second).T * xp.exp(log_heat)
        rows = xp.diagonal(lib.log_softmax(cosines))
        columns = xp.diagonal(lib.log_softmax(cosines.T))
        return -0.5 * (xp.mean(rows) + xp.mean(columns))

    return lib.value_and_grad(loss, argnums=(0, 1))


def _views(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    count, sizes = (3, (4, 3, 2)) if small else (128, (32, 64, 32))
    x = draws.standard_normal((count, sizes[0]))
    return dense(draws, *sizes), np.float64(1.0), x, x + 0.1 * draws.standard_normal(x.shape)


TASKS = (
    Task("WGAN critic", critic, _drawings, 1e-8),
    Task("spectral norms", spectral, _even, 1e-7),
    Task("graph attention", graph, _edges),
    Task("rays, cumprod", rays, _cameras),
    Task("masked attention, float32", masked, _sentences, 1e-3),
    Task("contrastive loss, norms", contrast, _views),
)
