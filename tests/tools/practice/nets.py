"""Training: a transformer, a convolutional net, diffusion, RealNVP, a latent equation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.tools.practice.task import Task, adam, dense, moments_of, perceptron


def transformer(lib: Any) -> Callable[..., Any]:
    """A step of Adam for a block of attention and its net, with the next symbols to predict."""
    xp = lib.np

    def normalized(x: Any, scale: Any) -> Any:
        centred = x - xp.mean(x, axis=-1, keepdims=True)
        return scale * centred / xp.sqrt(xp.mean(centred**2, axis=-1, keepdims=True) + 1e-5)

    def loss(params: Any, symbols: Any) -> Any:
        before, after = symbols[:, :-1], symbols[:, 1:]
        x = params["symbols"][before] + params["places"]
        batch, length, width = x.shape
        heads = (batch, length, 4, width // 4)
        even = normalized(x, params["first"])
        q, k, v = [(even @ params[name]).reshape(heads) for name in ("query", "key", "value")]
        scores = xp.einsum("bqhd,bkhd->bhqk", q, k) / (width // 4) ** 0.5
        scores = xp.where(np.tri(length, dtype=bool), scores, -1e9)
        mixed = xp.einsum("bhqk,bkhd->bqhd", lib.softmax(scores), v).reshape(x.shape)
        x = x + mixed @ params["mixed"]
        x = x + lib.gelu(normalized(x, params["second"]) @ params["up"]) @ params["down"]
        logs = lib.log_softmax(x @ params["symbols"].T)
        return -xp.mean(xp.take_along_axis(logs, after[..., None], axis=-1))

    def step(params: Any, moments: Any, count: Any, symbols: Any) -> Any:
        value, slopes = lib.value_and_grad(loss)(params, symbols)
        return value, *adam(lib, params, slopes, moments, count)

    return step


def _text(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    return text(draws, *((2, 3, 8, 5) if small else (8, 32, 64, 50)))


def text(
    draws: np.random.Generator, batch: int, length: int, width: int, kinds: int
) -> tuple[Any, ...]:
    """The transformer's parameters, Adam's state, and symbols."""
    shapes = {
        "symbols": (kinds, width),
        "places": (length, width),
        "up": (width, 4 * width),
        "down": (4 * width, width),
        **dict.fromkeys(("query", "key", "value", "mixed"), (width, width)),
    }
    params = {name: draws.standard_normal(s) / s[0] ** 0.5 for name, s in shapes.items()}
    params |= {"first": np.ones(width), "second": np.ones(width)}
    symbols = draws.integers(kinds, size=(batch, length + 1))
    return params, moments_of(draws, params), np.float64(9.0), symbols


def convolutional(lib: Any) -> Callable[..., Any]:
    """A step with momentum for a net of convolutions whose batches are normalized."""
    xp = lib.np

    def normalized(x: Any, scale: Any, offset: Any) -> Any:
        mean = xp.mean(x, axis=(0, 2, 3), keepdims=True)
        spread = xp.mean((x - mean) ** 2, axis=(0, 2, 3), keepdims=True)
        even = (x - mean) / xp.sqrt(spread + 1e-5)
        return even * scale[:, None, None] + offset[:, None, None], (mean, spread)

    def halved(x: Any) -> Any:
        n, c, h, w = x.shape
        return xp.max(x.reshape(n, c, h // 2, 2, w // 2, 2), axis=(3, 5))

    def loss(params: Any, images: Any, labels: Any) -> Any:
        x, first = normalized(lib.conv(images, params["k0"]), params["scale0"], params["offset0"])
        x = halved(lib.relu(x))
        x, second = normalized(lib.conv(x, params["k1"]), params["scale1"], params["offset1"])
        x = halved(lib.relu(x)).reshape(len(images), -1)
        logs = lib.log_softmax(x @ params["last"])
        return -xp.mean(xp.sum(logs * labels, axis=-1)), (first, second)

    def step(params: Any, speed: Any, images: Any, labels: Any) -> Any:
        (value, seen), slopes = lib.value_and_grad(loss, has_aux=True)(params, images, labels)
        speed = {k: 0.9 * speed[k] + slopes[k] + 1e-4 * params[k] for k in params}
        return value, {k: params[k] - 0.1 * speed[k] for k in params}, speed, seen

    return step


def _images(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    return images(draws, *((2, 4, 2) if small else (16, 16, 8)))


def images(draws: np.random.Generator, batch: int, side: int, channels: int) -> tuple[Any, ...]:
    """The convolutional net's parameters, their speed, images and labels."""
    wide = 2 * channels
    params = {
        "k0": 0.3 * draws.standard_normal((channels, 3, 3, 3)),
        "k1": 0.1 * draws.standard_normal((wide, channels, 3, 3)),
        "last": 0.1 * draws.standard_normal((wide * (side // 4) ** 2, 10)),
    }
    for k, size in enumerate((channels, wide)):
        params |= {f"scale{k}": np.ones(size), f"offset{k}": np.zeros(size)}
    speed = {k: 0.01 * draws.standard_normal(p.shape) for k, p in params.items()}
    labels = np.eye(10)[draws.integers(10, size=batch)]
    return params, speed, draws.standard_normal((batch, 3, side, side)), labels


def diffusion(lib: Any) -> Callable[..., Any]:
    """A step of training a net to remove noise of many strengths."""
    xp = lib.np

    def loss(params: Any, points: Any, noise: Any, times: Any) -> Any:
        left = xp.cos(0.5 * xp.pi * times) ** 2
        noisy = xp.sqrt(left)[:, None] * points + xp.sqrt(1 - left)[:, None] * noise
        angles = times[:, None] * xp.exp(xp.linspace(0.0, 5.0, 8))
        features = xp.concatenate([noisy, xp.sin(angles), xp.cos(angles)], axis=-1)
        return xp.mean((perceptron(lib, params, features) - noise) ** 2)

    def step(params: Any, moments: Any, count: Any, points: Any, noise: Any, times: Any) -> Any:
        value, slopes = lib.value_and_grad(loss)(params, points, noise, times)
        return value, *adam(lib, params, slopes, moments, count)

    return step


def _points(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    batch, width = (4, 5) if small else (256, 128)
    params = dense(draws, 18, width, width, 2)
    angle = draws.uniform(0.0, 9.0, batch)
    points = (angle * np.stack([np.cos(angle), np.sin(angle)]) / 9.0).T
    times, noise = draws.uniform(0.01, 0.99, batch), draws.standard_normal((batch, 2))
    return params, moments_of(draws, params), np.float64(3.0), points, noise, times


def flow(lib: Any) -> Callable[..., Any]:
    """The likelihood of points under RealNVP, and its gradient."""
    xp = lib.np

    def loss(layers: Any, x: Any) -> Any:
        total = xp.zeros(len(x))
        for layer in layers:
            a, b = xp.split(x, 2, axis=-1)
            scale, shift = xp.split(perceptron(lib, layer, a), 2, axis=-1)
            scale = xp.tanh(scale)
            total = total + xp.sum(scale, axis=-1)
            x = xp.concatenate([b * xp.exp(scale) + shift, a], axis=-1)
        return xp.mean(0.5 * xp.sum(x * x, axis=-1) - total)

    return lib.value_and_grad(loss)


def _layers(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    batch, width, depth = (3, 4, 2) if small else (256, 64, 6)
    return [dense(draws, 2, width, 4) for _ in range(depth)], draws.standard_normal((batch, 4))


def latent_equation(lib: Any) -> Callable[..., Any]:
    """Read sequences backwards by a GRU, follow a net's equation, and compare what it gives."""
    xp = lib.np

    def encoded(params: Any, seen: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            both = xp.concatenate([h, x], axis=-1)
            update, reset = xp.split(lib.sigmoid(both @ params["gates"]), 2, axis=-1)
            fresh = xp.tanh(xp.concatenate([reset * h, x], axis=-1) @ params["fresh"])
            return update * h + (1 - update) * fresh, None

        start = xp.zeros((seen.shape[1], params["fresh"].shape[1]))
        return lib.scan(step, start, seen, reverse=True)[0] @ params["latent"]

    def loss(params: Any, seen: Any, noise: Any) -> Any:
        mean, log_spread = xp.split(encoded(params, seen), 2, axis=-1)
        z = mean + xp.exp(log_spread) * noise

        def slope(z: Any) -> Any:
            return perceptron(lib, params["slope"], z)

        def step(z: Any, _: Any) -> Any:
            a = slope(z)
            b = slope(z + 0.05 * a)
            c = slope(z + 0.05 * b)
            d = slope(z + 0.1 * c)
            return z + 0.1 / 6 * (a + 2 * b + 2 * c + d), z @ params["out"]

        path = lib.scan(step, z, None, length=len(seen))[1]
        prior = -0.5 * xp.sum(1 + 2 * log_spread - mean**2 - xp.exp(2 * log_spread), axis=-1)
        return xp.mean((path - seen) ** 2) + 0.01 * xp.mean(prior)

    return lib.value_and_grad(loss)


def _sequences(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    steps, batch, hidden, latent = (3, 2, 4, 2) if small else (50, 32, 25, 6)
    params = {
        "gates": draws.standard_normal((hidden + 2, 2 * hidden)) / hidden**0.5,
        "fresh": draws.standard_normal((hidden + 2, hidden)) / hidden**0.5,
        "latent": 0.1 * draws.standard_normal((hidden, 2 * latent)),
        "slope": dense(draws, latent, 20, latent),
        "out": draws.standard_normal((latent, 2)),
    }
    return params, draws.standard_normal((steps, batch, 2)), draws.standard_normal((batch, latent))


TASKS = (
    Task("transformer, Adam", transformer, _text),
    Task("convolutional net", convolutional, _images, 1e-8),
    Task("diffusion, Adam", diffusion, _points),
    Task("RealNVP", flow, _layers),
    Task("latent equation", latent_equation, _sequences),
)
