"""The evaluations that GradBench has from ADBench: gmm, lstm, ba and ht (there called hand)."""

from __future__ import annotations

from collections.abc import Callable
from math import lgamma, log, pi
from typing import Any

import numpy as np

from tests.tools.benchmarks.gradbench.evaluation import Draws, Evaluation

Function = Callable[..., Any]


def mixture(lib: Any) -> Function:
    """The logarithm of the posterior of a mixture of Gaussians, with a prior of Wishart's."""
    xp = lib.np

    def gmm(alpha: Any, mean: Any, logs: Any, below: Any, x: Any, constant: Any) -> Any:
        k, d = mean.shape
        columns, rows = np.triu_indices(d, 1)  # of the numbers below the diagonal, by columns
        roots = xp.zeros((k, d, d)).at[:, rows, columns].set(below)
        apart = x[:, None, :] - mean
        scaled = xp.exp(logs) * apart + xp.einsum("kij,nkj->nki", roots, apart)
        inner = alpha + xp.sum(logs, axis=1) - 0.5 * xp.sum(scaled**2, axis=2)
        likelihood = xp.sum(lib.logsumexp(inner, axis=1)) - len(x) * lib.logsumexp(alpha)
        return constant + likelihood - 0.5 * (xp.sum(xp.exp(logs) ** 2) + xp.sum(below**2))

    return gmm


def _mixture_gradient(lib: Any) -> Function:
    return lib.grad(mixture(lib), argnums=(0, 1, 2, 3))


def _mixed(draws: Draws, size: tuple[int, int, int]) -> tuple[Any, ...]:
    d, k, n = size
    gammas = sum([lgamma(0.5 * (d + 2 - j)) for j in range(1, d + 1)])
    wishart = -0.5 * log(2.0) * d * (d + 1) - 0.25 * d * (d - 1) * log(pi) - gammas
    logs, below = draws.standard_normal((k, d)), draws.standard_normal((k, d * (d - 1) // 2))
    x, alpha = draws.standard_normal((n, d)), draws.standard_normal(k)
    constant = np.float64(-0.5 * n * d * log(2.0 * pi) + k * wishart)
    return alpha, draws.random((k, d)), logs, below, x, constant


def memory(lib: Any) -> Function:
    """How well a net of LSTM cells with diagonal weights foretells a sequence of bits."""
    xp = lib.np

    def loss(weights: Any, biases: Any, outer: Any, states: Any, sequence: Any) -> Any:
        def step(states: Any, x: Any) -> Any:
            x, after = x * outer[0], []
            for (h, c), w, b in zip(states, weights, biases, strict=True):
                forget, keep = lib.sigmoid(x * w[0] + b[0]), lib.sigmoid(h * w[1] + b[1])
                show, change = lib.sigmoid(x * w[2] + b[2]), xp.tanh(h * w[3] + b[3])
                c = c * forget + keep * change
                x = show * xp.tanh(c)
                after.append((x, c))
            y = x * outer[1] + outer[2]
            return after, y - xp.log(xp.sum(xp.exp(y)) + 2.0)

        start = [(states[k, 0], states[k, 1]) for k in range(len(weights))]
        logs = lib.scan(step, start, sequence[:-1])[1]
        return -xp.mean(sequence[1:] * logs)

    return loss


def _memory_gradient(lib: Any) -> Function:
    return lib.grad(memory(lib), argnums=(0, 1, 2))


def _text(draws: Draws, size: tuple[int, int]) -> tuple[Any, ...]:
    layers, length = size
    bits = 14
    weights, biases = draws.random((2, layers, 4, bits))
    sequence = draws.integers(2, size=(length, bits)).astype(float)
    return weights, biases, draws.random((3, bits)), draws.random((layers, 2, bits)), sequence


def rotated(lib: Any, axis: Any, x: Any) -> Any:
    """Rodrigues's formula: turn vectors about an axis whose length is the angle."""
    xp = lib.np
    angle = xp.sqrt(xp.sum(axis**2))
    unit, cosine = axis / angle, xp.cos(angle)
    turned = xp.cross(unit, x)
    along = xp.sum(unit * x, axis=-1, keepdims=True)
    return cosine * x + xp.sin(angle) * turned + (1.0 - cosine) * along * unit


def seen(lib: Any) -> Function:
    """Where a camera shows a point, less where it was seen, by the weight of the observation."""
    xp = lib.np

    def off(camera: Any, x: Any, weight: Any, feature: Any) -> Any:
        place = rotated(lib, camera[:3], x - camera[3:6])
        flat = place[:2] / place[2]
        r = xp.sum(flat**2)
        bent = flat * (1.0 + camera[9] * r + camera[10] * r**2)
        return weight * (camera[6] * bent + camera[7:9] - feature)

    return off


def bundle(lib: Any) -> Function:
    """Bundle adjustment: all residuals."""

    def residuals(cameras: Any, x: Any, weights: Any, features: Any, pairs: Any) -> Any:
        off = lib.vmap(seen(lib))(cameras[pairs[:, 0]], x[pairs[:, 1]], weights, features)
        return off, 1.0 - weights**2

    return residuals


def bundle_jacobian(lib: Any) -> Function:
    """The numbers of the Jacobian that are not zero: 2 x 15 of each observation, and of weights."""
    xp = lib.np

    def jacobian(cameras: Any, x: Any, weights: Any, features: Any, pairs: Any) -> Any:
        slopes = lib.vmap(lib.jacrev(seen(lib), argnums=(0, 1, 2)))
        parts = slopes(cameras[pairs[:, 0]], x[pairs[:, 1]], weights, features)
        return xp.concatenate([*parts[:2], parts[2][..., None]], axis=-1), -2.0 * weights

    return jacobian


def _cameras(draws: Draws, size: tuple[int, int, int]) -> tuple[Any, ...]:
    n, m, p = size
    cameras = 0.1 * draws.standard_normal((n, 11))
    cameras[:, 6] += 1.0
    x = draws.standard_normal((m, 3)) + np.array([0.0, 0.0, 5.0])
    pairs = np.stack([draws.integers(n, size=p), draws.integers(m, size=p)], axis=1)
    return cameras, x, draws.random(p), draws.standard_normal((p, 2)), pairs


PARENTS = np.array([-1, *[0 if k % 4 == 1 else k - 1 for k in range(1, 22)]])
"""The bone on which each of 22 hangs: five fingers of four bones, and the wrist."""


def _angles() -> tuple[Any, Any]:
    """Which of 26 parameters bend each bone, first and second; 26 where none does."""
    first, second = np.full(22, 26), np.full(22, 26)
    for finger in range(5):
        bones = 4 * finger + np.arange(2, 5)
        first[bones] = 6 + 4 * finger + np.array([0, 2, 3])
        second[bones[0]] = 7 + 4 * finger
    return first, second


def hand(lib: Any) -> Function:
    """How far points are from the places on a posed hand to which they belong."""
    xp, (first, second) = lib.np, _angles()

    def turns(theta: Any) -> Any:
        """The matrices of all bones, which turn about x and then about y."""
        angles = xp.concatenate([theta, xp.zeros(1)])
        x, y, zero, one = angles[first], angles[second], xp.zeros(22), xp.ones(22)
        s, c, p, q = xp.sin(x), xp.cos(x), xp.sin(y), xp.cos(y)
        numbers = [q, p * s, p * c, zero, zero, c, -s, zero, -p, q * s, q * c, zero]
        return xp.stack([*numbers, zero, zero, zero, one], axis=1).reshape(22, 4, 4)

    def off(
        theta: Any,
        shares: Any,
        relatives: Any,
        inverses: Any,
        corners: Any,
        weights: Any,
        triangles: Any,
        which: Any,
        points: Any,
    ) -> Any:
        moves = relatives @ turns(theta)
        absolute: list[Any] = []
        for bone, parent in enumerate(PARENTS):
            absolute.append(moves[bone] if parent < 0 else absolute[parent] @ moves[bone])
        transforms = xp.stack(absolute) @ inverses
        places = xp.einsum("vb,bij,vj->vi", weights, transforms[:, :3], corners)
        a, b, c = [places[triangles[which, k]] for k in range(3)]
        u, v = shares[:, :1], shares[:, 1:]
        place = u * a + v * b + (1.0 - u - v) * c
        return points - rotated(lib, theta[:3], place) - theta[3:6]

    return off


def hand_jacobian(lib: Any) -> Function:
    """The Jacobian in the shares of each point, which move only that point, and in the pose."""
    xp = lib.np

    def jacobian(theta: Any, shares: Any, *model: Any) -> Any:
        def off(theta: Any, shares: Any) -> Any:
            return hand(lib)(theta, shares, *model)

        columns = []
        for k in range(2):
            way = xp.broadcast_to(xp.asarray(np.eye(2)[k]), shares.shape)
            columns.append(lib.jvp(lambda s: off(theta, s), (shares,), (way,))[1])
        return xp.concatenate([xp.stack(columns, axis=-1), lib.jacfwd(off)(theta, shares)], axis=-1)

    return jacobian


def _posed(draws: Draws, size: tuple[int, int]) -> tuple[Any, ...]:
    vertices, count = size
    relatives = np.tile(np.eye(4), (22, 1, 1))
    for bone in range(22):
        relatives[bone, :3, :3] = np.linalg.qr(draws.standard_normal((3, 3)))[0]
        relatives[bone, :3, 3] = draws.standard_normal(3)
    absolute: list[Any] = []
    for bone, parent in enumerate(PARENTS):
        absolute.append(relatives[bone] if parent < 0 else absolute[parent] @ relatives[bone])
    weights = np.zeros((vertices, 22))
    for row in weights:
        row[draws.choice(22, 4, replace=False)] = draws.dirichlet(np.ones(4))
    corners = np.concatenate([draws.standard_normal((vertices, 3)), np.ones((vertices, 1))], axis=1)
    triangles = draws.integers(vertices, size=(2 * vertices, 3))
    theta, shares = 0.3 * draws.standard_normal(26), draws.random((count, 2)) / 2.0
    which, points = draws.integers(len(triangles), size=count), draws.standard_normal((count, 3))
    inverses = np.linalg.inv(np.stack(absolute))
    return theta, shares, relatives, inverses, corners, weights, triangles, which, points


_GMM = ((2, 3, 5), (2, 5, 1000), (10, 25, 1000), (20, 50, 1000), (64, 25, 1000))
_LSTM, _BA = ((2, 5), (2, 1024), (4, 4096)), ((2, 3, 5), (21, 1000, 4000), (49, 7776, 31_843))
_HT = ((5, 4), (544, 100), (544, 1600))

EVALUATIONS = (
    Evaluation("gmm objective", _GMM, mixture, _mixed),
    Evaluation("gmm jacobian", _GMM, _mixture_gradient, _mixed),
    Evaluation("lstm objective", _LSTM, memory, _text),
    Evaluation("lstm jacobian", _LSTM, _memory_gradient, _text),
    Evaluation("ba objective", _BA, bundle, _cameras),
    Evaluation("ba jacobian", _BA, bundle_jacobian, _cameras),
    Evaluation("ht objective", _HT, hand, _posed),
    Evaluation("ht jacobian", _HT, hand_jacobian, _posed),
)
