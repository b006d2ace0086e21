"""Programs as people write them, each with its derivative and its arguments, for measuring passes.

The first ones are usual in benchmarks of other libraries; ordinary ones follow.
"""

from collections.abc import Callable
from itertools import pairwise
from math import pi
from typing import Any, NamedTuple

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import nn, optim


class Case(NamedTuple):
    """A function to stage, and its arguments."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]


def _draws() -> np.random.Generator:
    return np.random.default_rng(7)


# ------------------------------------------------------------------------------- common benchmarks


def smooth(x: Any) -> Any:
    """One number from many, by elementwise functions and a sum."""
    return fnp.sum(fnp.exp(-(x**2)) * fnp.sin(x) + x * fnp.tanh(x))


def _net(*sizes: int) -> dict[str, Any]:
    draws, params = _draws(), {}
    for k, (rows, columns) in enumerate(pairwise(sizes)):
        params[f"weight{k}"] = draws.standard_normal((rows, columns)) / rows**0.5
        params[f"bias{k}"] = 0.1 * draws.standard_normal(columns)
    return params


def _labelled(batch: int, features: int, classes: int) -> tuple[Any, Any]:
    draws = _draws()
    labels = draws.integers(classes, size=batch)
    return draws.standard_normal((batch, features)), np.eye(classes)[labels]


def tanh_net_loss(params: Any, x: Any, y: Any) -> Any:
    """Cross-entropy of a net, of a batch or of one example."""
    last = len(params) // 2 - 1
    for k in range(last):
        x = fnp.tanh(x @ params[f"weight{k}"] + params[f"bias{k}"])
    scores = x @ params[f"weight{last}"] + params[f"bias{last}"]
    shifted = scores - fnp.max(scores, axis=-1, keepdims=True)
    log_total = fnp.log(fnp.sum(fnp.exp(shifted), axis=-1))
    return fnp.mean(log_total - fnp.sum(y * shifted, axis=-1))


def adam_step(params: Any, first: Any, second: Any, step: Any, x: Any, y: Any) -> Any:
    """One step of Adam, written out."""
    value, slope = fg.value_and_grad(tanh_net_loss)(params, x, y)
    first = {k: 0.9 * first[k] + 0.1 * slope[k] for k in slope}
    second = {k: 0.999 * second[k] + 0.001 * slope[k] ** 2 for k in slope}
    rate = 1e-3 * fnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    moved = {k: params[k] - rate * first[k] / (fnp.sqrt(second[k]) + 1e-8) for k in slope}
    return value, moved, first, second


def _adam_arguments(sizes: tuple[int, ...], batch: int) -> tuple[Any, ...]:
    params, draws = _net(*sizes), _draws()
    first = {k: 0.01 * draws.standard_normal(p.shape) for k, p in params.items()}
    second = {k: 0.01 * draws.random(p.shape) for k, p in params.items()}
    return params, first, second, np.array(7.0), *_labelled(batch, sizes[0], sizes[-1])


def ridge_logistic_loss(w: Any, x: Any, y: Any) -> Any:
    scores = x @ w
    return fnp.mean(fnp.log1p(fnp.exp(scores)) - y * scores) + 0.005 * fnp.sum(w**2)


def _points(count: int, features: int) -> tuple[Any, ...]:
    draws = _draws()
    x = draws.standard_normal((count, features))
    return draws.standard_normal(features) / 10, x, np.round(draws.random(count))


def recurrent_loss(params: Any, state: Any, inputs: Any, y: Any) -> Any:
    for x in inputs:
        state = fnp.tanh(x @ params["in"] + state @ params["on"] + params["bias"])
    return fnp.mean((state @ params["out"] - y) ** 2)


def _sequence(steps: int, batch: int, features: int, hidden: int) -> tuple[Any, ...]:
    draws = _draws()
    params = {
        "in": draws.standard_normal((features, hidden)) / features**0.5,
        "on": 0.9 * draws.standard_normal((hidden, hidden)) / hidden**0.5,
        "bias": 0.1 * draws.standard_normal(hidden),
        "out": draws.standard_normal((hidden, 1)) / hidden**0.5,
    }
    inputs = draws.standard_normal((steps, batch, features))
    return params, np.zeros((batch, hidden)), inputs, draws.standard_normal((batch, 1))


def full_mixture_loss(params: Any, x: Any, places: Any, below: Any, eye: Any) -> Any:
    """A mixture of Gaussians by the triangular roots of their precisions, with a prior."""
    weights, means, roots = params["weights"], params["means"], params["roots"]
    (count, d) = x.shape
    logs = roots[:, :d]
    triangles = roots[:, places] * below + fnp.exp(logs)[:, :, None] * eye
    scaled = fnp.einsum("kij,nkj->nki", triangles, x[:, None, :] - means)
    scores = weights + fnp.sum(logs, axis=1) - 0.5 * fnp.sum(scaled**2, axis=2)
    prior = 0.5 * (fnp.sum(fnp.exp(logs) ** 2) + fnp.sum(roots[:, d:] ** 2))
    return fnp.sum(_log_sum(scores)) - count * _log_sum(weights) + prior


def _log_sum(x: Any) -> Any:
    top = fnp.max(x, axis=-1, keepdims=True)
    return fnp.log(fnp.sum(fnp.exp(x - top), axis=-1)) + top[..., 0]


def _mixture(count: int, d: int, parts: int) -> tuple[Any, ...]:
    draws = _draws()
    params = {
        "weights": draws.standard_normal(parts),
        "means": draws.standard_normal((parts, d)),
        "roots": 0.3 * draws.standard_normal((parts, d * (d + 1) // 2)),
    }
    places = np.zeros((d, d), np.int64)
    places[np.tril_indices(d, -1)] = d + np.arange(d * (d - 1) // 2)
    return params, draws.standard_normal((count, d)), places, np.tri(d, d, -1), np.eye(d)


def repeated_rosenbrock(x: Any) -> Any:
    total: Any = 0.0
    for _ in range(4):
        x = fnp.sin(x)
        total = total + rosenbrock(x)
    return total


def rosenbrock(x: Any) -> Any:
    return fnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def _common() -> dict[str, Case]:
    draws, small, large = _draws(), (64, 64, 10), (784, 512, 512, 10)
    net, batch = _net(*small), _labelled(128, 64, 10)
    both = fg.value_and_grad
    cases = {
        f"elementwise {n:.0e}": Case(both(smooth), (draws.standard_normal(n),))
        for n in (10**3, 10**5, 10**6)
    }
    return cases | {
        "small net": Case(both(tanh_net_loss), (net, *batch)),
        "small net, Adam": Case(adam_step, _adam_arguments(small, 128)),
        "large net": Case(both(tanh_net_loss), (_net(*large), *_labelled(256, 784, 10))),
        "large net, Adam": Case(adam_step, _adam_arguments(large, 256)),
        "logistic Hessian": Case(fg.hessian(ridge_logistic_loss), _points(1000, 50)),
        "gradients of examples": Case(
            fg.vmap(fg.grad(tanh_net_loss), (None, 0, 0)), (net, *_labelled(256, 64, 10))
        ),
        "recurrent net": Case(both(recurrent_loss), _sequence(100, 32, 16, 64)),
        "full mixture": Case(both(full_mixture_loss), _mixture(1000, 10, 25)),
        "Hessian times vector": Case(
            lambda p, v, x, y: fg.hvp(lambda p: tanh_net_loss(p, x, y), (p,), (v,)),
            (net, _net(*small), *batch),
        ),
        "scalar chain": Case(both(repeated_rosenbrock), (draws.uniform(-1.0, 1.0, 10),)),
    }


# ---------------------------------------------------------------------------------------- ordinary


def relu_net_loss(params: Any, x: Any, labels: Any) -> Any:
    hidden = nn.relu(x @ params["weight0"] + params["bias0"])
    hidden = nn.relu(hidden @ params["weight1"] + params["bias1"])
    return fnp.mean(nn.cross_entropy(hidden @ params["weight2"] + params["bias2"], labels))


def train_step(params: Any, state: Any, x: Any, labels: Any) -> Any:
    value, slope = fg.value_and_grad(relu_net_loss)(params, x, labels)
    updates, state = optim.adam(1e-3).update(slope, state, params)
    return value, optim.apply_updates(params, updates), state


def _training() -> tuple[Any, ...]:
    params, draws = _net(196, 128, 64, 10), _draws()
    x, labels = draws.standard_normal((64, 196)), draws.integers(10, size=64)
    return params, optim.adam(1e-3).init(params), x, labels


def convolved(x: Any, kernel: Any) -> Any:
    """Images by kernels, as a sum over the places of the kernel."""
    height, width = kernel.shape[2:]
    rows, columns = x.shape[2] - height + 1, x.shape[3] - width + 1
    total: Any = 0.0
    for i in range(height):
        for j in range(width):
            part = x[:, :, i : i + rows, j : j + columns]
            total = total + fnp.einsum("ncij,dc->ndij", part, kernel[:, :, i, j])
    return total


def convolutional_loss(params: Any, images: Any, labels: Any) -> Any:
    x = nn.relu(convolved(images, params["first"]) + params["bias"][:, None, None])
    n, channels, height, width = x.shape
    x = fnp.max(x.reshape(n, channels, height // 2, 2, width // 2, 2), axis=(3, 5))
    x = nn.relu(convolved(x, params["second"]))
    return fnp.mean(nn.cross_entropy(fnp.mean(x, axis=(2, 3)) @ params["last"], labels))


def _images() -> tuple[Any, ...]:
    draws = _draws()
    params = {
        "first": 0.3 * draws.standard_normal((8, 1, 3, 3)),
        "bias": 0.1 * draws.standard_normal(8),
        "second": 0.1 * draws.standard_normal((16, 8, 3, 3)),
        "last": 0.2 * draws.standard_normal((16, 10)),
    }
    return params, draws.standard_normal((16, 1, 28, 28)), draws.integers(10, size=16)


def normalized(x: Any) -> Any:
    centred = x - fnp.mean(x, axis=-1, keepdims=True)
    return centred / fnp.sqrt(fnp.mean(centred**2, axis=-1, keepdims=True) + 1e-5)


def attention_loss(params: Any, x: Any, y: Any) -> Any:
    """A block of a transformer with four heads."""
    batch, length, width = x.shape
    own = normalized(x)
    q, k, v = [
        (own @ params[name]).reshape(batch, length, 4, width // 4).transpose(0, 2, 1, 3)
        for name in ("query", "key", "value")
    ]
    scores = fnp.einsum("bhqd,bhkd->bhqk", q, k) / (width // 4) ** 0.5
    scores = fnp.where(np.tri(length, dtype=bool), scores, -1e9)
    mixed = fnp.einsum("bhqk,bhkd->bhqd", nn.softmax(scores), v)
    x = x + mixed.transpose(0, 2, 1, 3).reshape(batch, length, width) @ params["out"]
    x = x + nn.gelu(normalized(x) @ params["up"]) @ params["down"]
    return fnp.mean((x - y) ** 2)


def _tokens() -> tuple[Any, ...]:
    draws, width = _draws(), 64
    params = {
        name: draws.standard_normal((width, width)) / width**0.5
        for name in ("query", "key", "value", "out")
    }
    params["up"] = draws.standard_normal((width, 4 * width)) / width**0.5
    params["down"] = draws.standard_normal((4 * width, width)) / (2 * width**0.5)
    return params, draws.standard_normal((4, 48, width)), draws.standard_normal((4, 48, width))


def gated_loss(params: Any, inputs: Any, y: Any) -> Any:
    """A recurrent net with gates and memory."""
    hidden = memory = fnp.zeros((inputs.shape[1], params["out"].shape[0]))
    for x in inputs:
        gates = x @ params["in"] + hidden @ params["on"] + params["bias"]
        take, keep, show, new = fnp.split(gates, 4, axis=-1)
        memory = nn.sigmoid(keep) * memory + nn.sigmoid(take) * fnp.tanh(new)
        hidden = nn.sigmoid(show) * fnp.tanh(memory)
    return fnp.mean((hidden @ params["out"] - y) ** 2)


def _gated() -> tuple[Any, ...]:
    draws = _draws()
    params = {
        "in": draws.standard_normal((8, 128)) / 3,
        "on": draws.standard_normal((32, 128)) / 6,
        "bias": np.zeros(128),
        "out": draws.standard_normal((32, 1)) / 6,
    }
    return params, draws.standard_normal((30, 16, 8)), draws.standard_normal((16, 1))


def mixture_loss(params: Any, x: Any) -> Any:
    """A mixture of Gaussians with diagonal covariances."""
    spread = fnp.exp(params["log_spread"])
    distance = (x[:, None, :] - params["mean"]) / spread
    log_density = -0.5 * fnp.sum(distance**2, axis=-1) - fnp.sum(params["log_spread"], axis=-1)
    log_density = log_density - 0.5 * x.shape[1] * np.log(2 * pi)
    return -fnp.mean(nn.logsumexp(nn.log_softmax(params["score"]) + log_density, axis=-1))


def _clusters() -> tuple[Any, ...]:
    draws = _draws()
    params = {
        "score": np.zeros(8),
        "mean": draws.standard_normal((8, 5)),
        "log_spread": 0.1 * draws.standard_normal((8, 5)),
    }
    return params, draws.standard_normal((2000, 5))


def logistic_loss(params: Any, x: Any, y: Any) -> Any:
    scores = x @ params["weight"] + params["bias"]
    return fnp.mean(nn.softplus(scores) - y * scores) + 1e-3 * fnp.sum(params["weight"] ** 2)


def _logistic() -> tuple[Any, ...]:
    w, x, y = _points(5000, 20)
    return {"weight": w, "bias": 0.1}, x, y


def predator_loss(rates: Any, observed: Any) -> Any:
    """Predators and prey by Runge and Kutta's method, in numbers."""
    grow, eat, die, breed = rates

    def slope(x: Any, y: Any) -> Any:
        return grow * x - eat * x * y, breed * x * y - die * y

    x, y, step, total = 1.0, 0.5, 0.05, 0.0
    for target in observed:
        a, b = slope(x, y)
        c, d = slope(x + step / 2 * a, y + step / 2 * b)
        e, f = slope(x + step / 2 * c, y + step / 2 * d)
        g, h = slope(x + step * e, y + step * f)
        x = x + step / 6 * (a + 2 * c + 2 * e + g)
        y = y + step / 6 * (b + 2 * d + 2 * f + h)
        total = total + (x - target) ** 2
    return total


def oscillator_loss(coupling: Any, start: Any) -> Any:
    """Coupled oscillators by Runge and Kutta's method, as vectors."""

    def slope(phase: Any) -> Any:
        return 1.0 + coupling @ fnp.sin(phase) - fnp.sin(phase) * fnp.sum(coupling, axis=1)

    phase, step = start, 0.05
    for _ in range(40):
        a = slope(phase)
        b = slope(phase + step / 2 * a)
        c = slope(phase + step / 2 * b)
        phase = phase + step / 6 * (a + 2 * b + 2 * c + slope(phase + step * c))
    return fnp.sum(fnp.cos(phase) ** 2)


def orbit_loss(place: Any, speed: Any, mass: Any) -> Any:
    """Bodies that attract each other, by leaps."""

    def pull(place: Any) -> Any:
        apart = place[None, :, :] - place[:, None, :]
        cubed = (fnp.sum(apart**2, axis=-1) + 0.01) ** 1.5
        return fnp.sum(mass[None, :, None] * apart / cubed[..., None], axis=1)

    for _ in range(10):
        speed = speed + 0.005 * pull(place)
        place = place + 0.01 * speed
        speed = speed + 0.005 * pull(place)
    return fnp.sum(mass * fnp.sum(speed**2, axis=-1)) / 2


def _bodies(count: int) -> tuple[Any, ...]:
    draws = _draws()
    return (
        draws.standard_normal((count, 3)),
        0.1 * draws.standard_normal((count, 3)),
        draws.uniform(0.5, 1.0, count),
    )


def filter_loss(params: Any, observed: Any) -> Any:
    """The likelihood of a track by Kalman's filter: two places and two speeds, of which two are
    seen."""
    move = np.eye(4) + np.eye(4, k=2)
    see = np.eye(2, 4)
    noise, error = fnp.exp(params["noise"]) * np.eye(4), fnp.exp(params["error"]) * np.eye(2)
    state, spread, total = params["start"], 10.0 * np.eye(4), 0.0
    for y in observed:
        state, spread = move @ state, move @ spread @ move.T + noise
        apart, own = y - see @ state, see @ spread @ see.T + error
        size = own[0, 0] * own[1, 1] - own[0, 1] * own[1, 0]
        turned = fnp.stack([own[1, 1], -own[0, 1], -own[1, 0], own[0, 0]]).reshape(2, 2)
        inverse = turned / size
        gain = spread @ see.T @ inverse
        state, spread = state + gain @ apart, spread - gain @ see @ spread
        total = total + fnp.log(size) + apart @ inverse @ apart
    return total / 2


def _track() -> tuple[Any, ...]:
    draws = _draws()
    params = {"noise": -2.0, "error": -1.0, "start": 0.1 * draws.standard_normal(4)}
    return params, draws.standard_normal((40, 2))


def process_loss(params: Any, x: Any, y: Any) -> Any:
    """Part of the likelihood of a Gaussian process; systems are solved by conjugate gradients."""
    scale, length, noise = (fnp.exp(params[name]) for name in ("scale", "length", "noise"))
    apart = (x[:, None] - x[None, :]) / length
    kernel = scale * fnp.exp(-0.5 * apart**2) + noise * np.eye(len(x))
    solution, rest = fnp.zeros_like(y), y
    way, size = rest, rest @ rest
    for _ in range(20):
        image = kernel @ way
        step = size / (way @ image)
        solution, rest = solution + step * way, rest - step * image
        size, before = rest @ rest, size
        way = rest + size / before * way
    return 0.5 * y @ solution + 0.5 * fnp.log(fnp.trace(kernel))


def _curve() -> tuple[Any, ...]:
    x = np.linspace(0.0, 5.0, 150)
    params = {"scale": 0.1, "length": -0.2, "noise": -1.0}
    return params, x, np.sin(3 * x) + 0.1 * _draws().standard_normal(len(x))


def option_price(spot: Any, strike: Any, years: Any, rate: Any, volatility: Any) -> Any:
    """Black's and Scholes's formula for many options."""
    spread = volatility * fnp.sqrt(years)
    first = (fnp.log(spot / strike) + (rate + volatility**2 / 2) * years) / spread
    second = first - spread
    below = [nn.sigmoid(1.702 * each) for each in (first, second)]
    return fnp.sum(spot * below[0] - strike * fnp.exp(-rate * years) * below[1])


def _options() -> tuple[Any, ...]:
    draws = _draws()
    return (
        draws.uniform(80.0, 120.0, 200_000),
        draws.uniform(80.0, 120.0, 200_000),
        draws.uniform(0.1, 2.0, 200_000),
        0.03,
        0.2,
    )


def noise_loss(image: Any, noisy: Any) -> Any:
    """The distance of an image from a noisy one, and a measure of its roughness."""
    down, right = image[1:, :-1] - image[:-1, :-1], image[:-1, 1:] - image[:-1, :-1]
    return fnp.sum((image - noisy) ** 2) + 0.1 * fnp.sum(fnp.sqrt(down**2 + right**2 + 1e-6))


def wave(params: Any, t: Any) -> Any:
    hidden = fnp.tanh(params["weight0"][0] * t + params["bias0"])
    hidden = fnp.tanh(hidden @ params["weight1"] + params["bias1"])
    return (hidden @ params["weight2"] + params["bias2"])[0]


def physics_loss(params: Any, times: Any) -> Any:
    """The error of a net as a solution of an oscillator's equation; it needs a third derivative."""

    def residual(t: Any) -> Any:
        speed = fg.grad(wave, argnums=1)
        return fg.grad(speed, argnums=1)(params, t) + 0.2 * speed(params, t) + wave(params, t)

    return fnp.mean(fg.vmap(residual)(times) ** 2)


def weighted_sines(x: Any) -> Any:
    return fnp.sum(fnp.exp(-x) * fnp.sin(x))


def _ordinary() -> dict[str, Case]:
    draws, both = _draws(), fg.value_and_grad
    large = draws.standard_normal((256, 256))
    coupling = draws.standard_normal((12, 12)) / 12
    cases = {
        "training step": Case(train_step, _training()),
        "convolutional net": Case(both(convolutional_loss), _images()),
        "attention": Case(both(attention_loss), _tokens()),
        "gated recurrent net": Case(both(gated_loss), _gated()),
        "diagonal mixture": Case(both(mixture_loss), _clusters()),
        "logistic regression": Case(both(logistic_loss), _logistic()),
        "predators and prey": Case(
            both(predator_loss), ((1.1, 0.4, 0.4, 0.1), draws.uniform(0.5, 1.5, 40))
        ),
        "oscillators": Case(both(oscillator_loss), (coupling, draws.uniform(0, 6, 12))),
        "five bodies": Case(both(orbit_loss, argnums=(0, 1)), _bodies(5)),
        "a hundred bodies": Case(both(orbit_loss, argnums=(0, 1)), _bodies(100)),
        "Rosenbrock": Case(both(rosenbrock), (draws.uniform(-1, 1, 1000),)),
        "Rosenbrock's Hessian": Case(fg.hessian(rosenbrock), (draws.uniform(-1, 1, 20),)),
        "Kalman filter": Case(both(filter_loss), _track()),
        "Gaussian process": Case(both(process_loss), _curve()),
        "option prices": Case(both(option_price, argnums=(0, 2)), _options()),
        "noisy image": Case(both(noise_loss), (large, large + 0.1)),
        "physics": Case(both(physics_loss), (_net(1, 32, 32, 1), np.linspace(0, 6, 64))),
    }
    for n in (10**5, 10**6):
        x = draws.uniform(0.0, 2.0, n)
        cases[f"weighted sines {n:.0e}"] = Case(weighted_sines, (x,))
        cases[f"weighted sines {n:.0e}, gradient"] = Case(both(weighted_sines), (x,))
    return cases


def every_program() -> dict[str, Case]:
    """All programs by name."""
    return _common() | _ordinary()
