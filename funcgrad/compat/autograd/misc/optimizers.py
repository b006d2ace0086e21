"""``sgd``, ``rmsprop`` and ``adam`` on containers, with autograd's signatures.

Each minimizes by ``grad(x, i)``, the gradient at step i, and calls ``callback(x, i, g)`` before
each step. ``funcgrad.optim`` has more of them, as functions of one step.

>>> x = sgd(lambda x, i: x, {"a": np.ones(2)}, num_iters=100)
>>> bool(np.all(np.abs(x["a"]) < 0.6))
True
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.compat.autograd.misc.flatten import flatten

Gradient = Callable[[Any, int], Any]
Callback = Callable[[Any, int, Any], object]


def unflatten_optimizer(optimize: Callable[..., Any]) -> Callable[..., Any]:
    """Make an optimizer of vectors one of containers.

    Parameters
    ----------
    optimize : callable
        ``optimize(grad, x, callback, *args, **kwargs)`` for a vector x.
    """

    @wraps(optimize)
    def on_containers(
        grad: Gradient,
        x0: object,
        callback: Callback | None = None,
        *args: object,
        **kwargs: object,
    ) -> Any:
        vector, unflatten = flatten(x0)

        def flat_grad(x: Any, i: int) -> Any:
            return flatten(grad(unflatten(x), i))[0]

        def flat_callback(x: Any, i: int, g: Any) -> None:
            assert callback is not None
            callback(unflatten(x), i, unflatten(g))

        shown = flat_callback if callback else None
        return unflatten(optimize(flat_grad, vector, shown, *args, **kwargs))

    return on_containers


@unflatten_optimizer
def sgd(
    grad: Gradient,
    x: Any,
    callback: Callback | None = None,
    num_iters: int = 200,
    step_size: float = 0.1,
    mass: float = 0.9,
) -> Any:
    """Gradient descent with momentum: v = mass v - (1 - mass) g, x = x + step_size v."""
    velocity = np.zeros(len(x))
    for i in range(num_iters):
        g = grad(x, i)
        if callback:
            callback(x, i, g)
        velocity = mass * velocity - (1.0 - mass) * g
        x = x + step_size * velocity
    return x


@unflatten_optimizer
def rmsprop(
    grad: Gradient,
    x: Any,
    callback: Callback | None = None,
    num_iters: int = 100,
    step_size: float = 0.1,
    gamma: float = 0.9,
    eps: float = 1e-8,
) -> Any:
    """RMSProp: steps of the gradient over the root of its mean square, which begins at 1.

    References
    ----------
    T. Tieleman and G. Hinton, Neural Networks for Machine Learning, lecture 6e, 2012.
    """
    mean_square = np.ones(len(x))
    for i in range(num_iters):
        g = grad(x, i)
        if callback:
            callback(x, i, g)
        mean_square = gamma * mean_square + (1.0 - gamma) * g**2
        x = x - step_size * g / (np.sqrt(mean_square) + eps)
    return x


@unflatten_optimizer
def adam(
    grad: Gradient,
    x: Any,
    callback: Callback | None = None,
    num_iters: int = 100,
    step_size: float = 0.001,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
) -> Any:
    """Adam: unbiased running means of the gradient and of its square.

    References
    ----------
    D. Kingma and J. Ba, Adam: a method for stochastic optimization, ICLR 2015.
    """
    mean, mean_square = np.zeros(len(x)), np.zeros(len(x))
    for i in range(num_iters):
        g = grad(x, i)
        if callback:
            callback(x, i, g)
        mean = (1.0 - b1) * g + b1 * mean
        mean_square = (1.0 - b2) * g**2 + b2 * mean_square
        unbiased = mean / (1.0 - b1 ** (i + 1))
        scale = np.sqrt(mean_square / (1.0 - b2 ** (i + 1))) + eps
        x = x - step_size * unbiased / scale
    return x


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
