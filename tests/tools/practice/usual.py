"""Programs that benchmarks of other libraries have: nets, Hessians, mixtures, chains of numbers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.tools.practice.task import Task, adam, dense, moments_of, perceptron

Inputs = Callable[[np.random.Generator, bool], tuple[Any, ...]]


def chain(lib: Any) -> Callable[..., Any]:
    """Rosenbrock's function of ten numbers and of their repeated sines."""
    xp = lib.np

    def total(x: Any) -> Any:
        value = 0.0
        for _ in range(4):
            x = xp.sin(x)
            value = value + xp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)
        return value

    return lib.value_and_grad(total)


def smooth(lib: Any) -> Callable[..., Any]:
    """One number from many, by elementwise functions and a sum."""
    xp = lib.np
    return lib.value_and_grad(lambda x: xp.sum(xp.sin(x) * xp.exp(-(x**2)) + xp.tanh(x) * x))


def _normal(size: int, draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    return (draws.standard_normal(5 if small else size),)


def _loss(lib: Any) -> Callable[..., Any]:
    xp = lib.np

    def loss(params: Any, x: Any, y: Any) -> Any:
        scores = perceptron(lib, params, x)
        scores = scores - xp.max(scores, axis=-1, keepdims=True)
        logs = xp.log(xp.sum(xp.exp(scores), axis=-1))
        return xp.mean(logs - xp.sum(y * scores, axis=-1))

    return loss


def net(lib: Any) -> Callable[..., Any]:
    """The loss of a net and its gradient."""
    return lib.value_and_grad(_loss(lib))


def net_adam(lib: Any) -> Callable[..., Any]:
    """A step of Adam for a net."""

    def step(params: Any, moments: Any, count: Any, x: Any, y: Any) -> Any:
        value, slopes = lib.value_and_grad(_loss(lib))(params, x, y)
        return value, *adam(lib, params, slopes, moments, count)

    return step


def hessian_vector(lib: Any) -> Callable[..., Any]:
    """The Hessian of a net's loss times a vector: forward over reverse."""

    def product(params: Any, vector: Any, x: Any, y: Any) -> Any:
        slope = lib.grad(_loss(lib))
        return lib.jvp(lambda p: slope(p, x, y), (params,), (vector,))[1]

    return product


def example_gradients(lib: Any) -> Callable[..., Any]:
    """A gradient for each example of a batch."""
    return lib.vmap(lib.grad(_loss(lib)), (None, 0, 0))


Sizes = tuple[int, ...]
SMALL, LARGE = (64, 64, 10), (784, 512, 512, 10)


def _batch(sizes: Sizes, count: int, draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    sizes, count = ((3, 4, 2), 3) if small else (sizes, count)
    labels = np.eye(sizes[-1])[draws.integers(sizes[-1], size=count)]
    return dense(draws, *sizes), draws.standard_normal((count, sizes[0])), labels


def _adam_batch(
    sizes: Sizes, count: int, draws: np.random.Generator, small: bool
) -> tuple[Any, ...]:
    params, *batch = _batch(sizes, count, draws, small)
    return params, moments_of(draws, params), np.float64(7.0), *batch


def _direction(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    params, *batch = _batch(SMALL, 128, draws, small)
    return params, {k: draws.standard_normal(p.shape) for k, p in params.items()}, *batch


def logistic(lib: Any) -> Callable[..., Any]:
    """The Hessian of a logistic regression."""
    xp = lib.np

    def loss(w: Any, x: Any, y: Any) -> Any:
        z = x @ w
        return xp.mean(xp.log1p(xp.exp(z)) - y * z) + 0.005 * xp.sum(w**2)

    return lib.hessian(loss)


def _points(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    count, features = (5, 3) if small else (1000, 50)
    x = draws.standard_normal((count, features))
    return draws.standard_normal(features) / 10, x, np.round(draws.random(count))


def mixture(lib: Any) -> Callable[..., Any]:
    """A mixture of Gaussians by the triangular roots of their precisions, with a prior."""
    xp = lib.np

    def loss(params: Any, x: Any, places: Any, below: Any, eye: Any) -> Any:
        alpha, mean, roots = params["alpha"], params["mean"], params["roots"]
        d = x.shape[1]
        logs = roots[:, :d]
        q = roots[:, places] * below + xp.exp(logs)[:, :, None] * eye
        scaled = xp.einsum("kij,nkj->nki", q, x[:, None, :] - mean)
        inner = alpha + xp.sum(logs, axis=1) - 0.5 * xp.sum(scaled**2, axis=2)
        value = xp.sum(lib.logsumexp(inner, axis=1)) - len(x) * lib.logsumexp(alpha)
        return value + 0.5 * (xp.sum(xp.exp(logs) ** 2) + xp.sum(roots[:, d:] ** 2))

    return lib.value_and_grad(loss)


def _mixed(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    count, d, parts = (4, 3, 2) if small else (1000, 10, 25)
    params = {
        "alpha": draws.standard_normal(parts),
        "mean": draws.standard_normal((parts, d)),
        "roots": 0.3 * draws.standard_normal((parts, d * (d + 1) // 2)),
    }
    places = np.zeros((d, d), np.int64)
    places[np.tril_indices(d, -1)] = d + np.arange(d * (d - 1) // 2)
    return params, draws.standard_normal((count, d)), places, np.tri(d, d, -1), np.eye(d)


def sequence(lib: Any, unrolled: bool) -> Callable[..., Any]:
    """A recurrent net over a hundred steps and its gradient, as a loop in Python or as a scan."""
    xp = lib.np

    def loss(params: Any, h: Any, xs: Any, y: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            return xp.tanh(x @ params["in"] + h @ params["on"] + params["bias"]), None

        if unrolled:
            for k in range(len(xs)):
                h, _ = step(h, xs[k])
        else:
            h, _ = lib.scan(step, h, xs)
        return xp.mean((h @ params["out"] - y) ** 2)

    return lib.value_and_grad(loss)


def _sequences(draws: np.random.Generator, small: bool) -> tuple[Any, ...]:
    steps, batch, features, hidden = (3, 2, 3, 4) if small else (100, 32, 16, 64)
    params = {
        "in": draws.standard_normal((features, hidden)) / features**0.5,
        "on": 0.9 * draws.standard_normal((hidden, hidden)) / hidden**0.5,
        "bias": 0.1 * draws.standard_normal(hidden),
        "out": draws.standard_normal((hidden, 1)) / hidden**0.5,
    }
    xs, y = draws.standard_normal((steps, batch, features)), draws.standard_normal((batch, 1))
    return params, np.zeros((batch, hidden)), xs, y


def _in_float32(inputs: Inputs) -> Inputs:
    def cast(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: cast(x) for name, x in value.items()}
        if isinstance(value, tuple):
            return tuple([cast(x) for x in value])
        return value.astype(np.float32) if value.dtype.kind == "f" else value

    return lambda draws, small: cast(inputs(draws, small))


_DOUBLE = (
    Task("scalar chain", chain, partial(_normal, 10)),
    Task("elementwise, 1,000", smooth, partial(_normal, 1_000)),
    Task("elementwise, 100,000", smooth, partial(_normal, 100_000)),
    Task("small net", net, partial(_batch, SMALL, 128)),
    Task("small net, Adam", net_adam, partial(_adam_batch, SMALL, 128)),
    Task("large net", net, partial(_batch, LARGE, 256)),
    Task("large net, Adam", net_adam, partial(_adam_batch, LARGE, 256)),
    Task("Hessian times vector", hessian_vector, _direction),
    Task("logistic Hessian", logistic, _points),
    Task("gradients of examples", example_gradients, partial(_batch, SMALL, 256)),
    Task("mixture", mixture, _mixed),
    Task("RNN, unrolled", partial(sequence, unrolled=True), _sequences),
    Task("RNN, scan", partial(sequence, unrolled=False), _sequences),
)
TASKS = (
    *_DOUBLE,
    *[Task(f"{t.name}, float32", t.function, _in_float32(t.inputs), 1e-3) for t in _DOUBLE],
)
