"""The evaluations that are a few lines: hello, lse, llsq, ode, det and kmeans."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np

from tests.tools.benchmarks.gradbench.evaluation import Draws, Evaluation

Function = Callable[..., Any]


def log_sum_exp(lib: Any) -> Function:
    """The logarithm of the sum of exponentials."""
    xp = lib.np

    def lse(x: Any) -> Any:
        top = xp.max(x)
        return top + xp.log(xp.sum(xp.exp(x - top)))

    return lse


def least_squares(lib: Any) -> Function:
    """How far a polynomial is from the sign of its variable."""
    xp = lib.np

    def llsq(x: Any, t: Any) -> Any:
        powers = xp.cumprod(xp.broadcast_to(t[:, None], (len(t), len(x) - 1)), axis=1)
        fit = x[0] + powers @ x[1:]
        return xp.sum((xp.sign(t) - fit) ** 2) / 2.0

    return llsq


def equation(lib: Any) -> Function:
    """Runge and Kutta's steps for ``y[0]' = x[0]``, ``y[k]' = x[k] y[k - 1]``, up to time 2."""
    xp = lib.np

    def solve(x: Any, steps: Any) -> Any:
        h = 2.0 / len(steps)

        def slope(y: Any) -> Any:
            return xp.concatenate([x[:1], x[1:] * y[:-1]])

        def step(y: Any, _: Any) -> Any:
            a = slope(y)
            b = slope(y + h / 2.0 * a)
            c = slope(y + h / 2.0 * b)
            d = slope(y + h * c)
            return y + h / 6.0 * (a + 2.0 * b + 2.0 * c + d), None

        return lib.scan(step, xp.zeros(x.shape), steps)[0]

    return solve


def determinant(lib: Any) -> Function:
    """The determinant by minors of the last rows, each of which is computed once."""
    xp = lib.np

    def det(a: Any) -> Any:
        size, minors = len(a), xp.ones(1)
        places: dict[tuple[int, ...], int] = {(): 0}
        for count in range(1, size + 1):
            sets = list(combinations(range(size), count))
            without = [[places[s[:k] + s[k + 1 :]] for k in range(count)] for s in sets]
            signs = (-1.0) ** np.arange(count)
            row = a[size - count]
            minors = xp.sum(signs * row[np.array(sets)] * minors[np.array(without)], axis=1)
            places = {columns: k for k, columns in enumerate(sets)}
        return minors[0]

    return det


def clusters(lib: Any) -> Function:
    """The squared distances of points from their nearest centroids, in sum."""
    xp = lib.np

    def cost(centroids: Any, points: Any) -> Any:
        squares = xp.sum(points**2, axis=1) + xp.sum(centroids**2, axis=1)[:, None]
        return xp.sum(xp.min(squares - 2.0 * (centroids @ points.T), axis=0))

    return cost


def direction(lib: Any) -> Function:
    """Newton's direction for the centroids: the Hessian of the cost is diagonal."""
    slope = lib.grad(clusters(lib))

    def step(centroids: Any, points: Any) -> Any:
        ones = lib.np.ones(centroids.shape)
        first, second = lib.jvp(lambda c: slope(c, points), (centroids,), (ones,))
        return first / second

    return step


def _last(lib: Any) -> Function:
    return lib.grad(lambda x, steps: equation(lib)(x, steps)[-1])


def _gradient(program: Function) -> Function:
    return lambda lib: lib.grad(program(lib))


def _line(draws: Draws, size: tuple[int, int]) -> tuple[Any, ...]:
    return draws.random(size[1]), np.linspace(-1.0, 1.0, size[0])


def _start(draws: Draws, size: tuple[int, int]) -> tuple[Any, ...]:
    return draws.random(size[0]), np.zeros(size[1])


def _points(draws: Draws, size: tuple[int, int, int]) -> tuple[Any, ...]:
    k, n, d = size
    points = draws.random((n, d))
    return points[-k:], points


def _numbers(draws: Draws, size: int) -> tuple[Any, ...]:
    return (draws.random(size),)


def _matrix(draws: Draws, size: int) -> tuple[Any, ...]:
    return (draws.random((size, size)),)


def _one(draws: Draws, size: int) -> tuple[Any, ...]:
    return (np.float64(1.5),)


_HELLO, _LSE = (1,), (100, 2_500, 40_000, 640_000)
_LLSQ, _ODE = ((16, 8), (16, 128), (256, 128), (4096, 128)), ((5, 4), (1000, 10), (10_000, 100))
_DET, _KMEANS = (3, 5, 8, 11), ((2, 20, 3), (10, 1000, 8), (100, 1000, 16), (100, 10_000, 8))

EVALUATIONS = (
    Evaluation("hello square", _HELLO, lambda lib: lambda x: x * x, _one),
    Evaluation("hello double", _HELLO, lambda lib: lib.grad(lambda x: x * x), _one),
    Evaluation("lse primal", _LSE, log_sum_exp, _numbers),
    Evaluation("lse gradient", _LSE, _gradient(log_sum_exp), _numbers),
    Evaluation("llsq primal", _LLSQ, least_squares, _line),
    Evaluation("llsq gradient", _LLSQ, _gradient(least_squares), _line),
    Evaluation("ode primal", _ODE, equation, _start),
    Evaluation("ode gradient", _ODE, _last, _start),
    Evaluation("det primal", _DET, determinant, _matrix),
    Evaluation("det gradient", _DET, _gradient(determinant), _matrix),
    Evaluation("kmeans cost", _KMEANS, clusters, _points),
    Evaluation("kmeans dir", _KMEANS, direction, _points),
)
