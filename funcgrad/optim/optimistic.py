"""Optimistic rules: the last gradient predicts the next one, which calms games of two players.

>>> from funcgrad.tensor.tensor import tensor
>>> optimizer = optimistic_gradient_descent(0.1)
>>> params, state = optimizer.step(tensor(1.0), optimizer.init(tensor(1.0)), tensor(1.0))
>>> optimizer.step(tensor(0.5), state, params)[0]
Tensor(0.9)
"""

from __future__ import annotations

import funcgrad.numpy as fnp
from funcgrad._core.pytrees import pytree
from funcgrad._core.users_values import ArrayLike
from funcgrad.optim.base import LearningRate, Optimizer, Pytree, mean, root, scalar, square, zeros
from funcgrad.optim.option_types import Share, Size, making
from funcgrad.optim.rule import LeafRule, Leafwise, Step
from funcgrad.tensor.tensor import Tensor


@pytree(slots=True)
class OptimisticState:
    """The state of ``optimistic_gradient_descent``.

    Attributes
    ----------
    count, rate : Tensor of int64, Tensor of float64
        The number of steps so far, and the learning rate of the last one; 0 before the first.
    previous : pytree of tensors
        The last gradient, in float32 at least.
    """

    count: Tensor
    previous: Pytree
    rate: Tensor


@pytree(slots=True)
class OptimisticAdamState:
    """The state of ``optimistic_adam``.

    Attributes
    ----------
    count, rate : Tensor of int64, Tensor of float64
        The number of steps so far, and the learning rate of the last one; 0 before the first.
    mu, nu : pytree of tensors
        The decaying means of the gradients and of their squares, as in ``AdamState``.
    previous : pytree of tensors
        Adam's last direction.
    """

    count: Tensor
    mu: Pytree
    nu: Pytree
    previous: Pytree
    rate: Tensor


def _ahead(step: Step, now: Tensor, before: Tensor, alpha: ArrayLike, beta: ArrayLike) -> Tensor:
    """The direction, and how much it has changed; in the first step it has not."""
    before = fnp.where(step.count == 1, now, before)
    return (alpha + beta) * now - beta * before


@making
def optimistic_gradient_descent(
    learning_rate: LearningRate, alpha: Size = 1.0, beta: Size = 1.0
) -> Optimizer[OptimisticState]:
    """Optimistic gradient descent: extrapolate the gradient from its last change.

    In a game of two players, such as a generative adversarial network, gradient descent circles
    around the equilibrium. The extrapolated gradient comes closer to it, at the cost of one
    gradient a step.

    Parameters
    ----------
    learning_rate
        See ``sgd``.
    alpha : float or 0-d tensor
        The share of the gradient.
    beta : float or 0-d tensor
        The share of its change since the last step.

    Notes
    -----
    With gradient g, the one before g₀ and rate r: ``update = -r (alpha g + beta (g - g₀))``; the
    first step has g₀ = g. Mokhtari, Ozdaglar, Pattathil, "A unified analysis of extra-gradient and
    optimistic gradient methods for saddle point problems", AISTATS 2020, as in optax.

    Examples
    --------
    The game x * y: one player descends, the other climbs.

    >>> import funcgrad as fg
    >>> optimizer = optimistic_gradient_descent(0.2)
    >>> players = fg.tensor([1.0, 1.0])
    >>> state = optimizer.init(players)
    >>> for _ in range(200):
    ...     slopes = fg.numpy.stack([players[1], -players[0]])
    ...     players, state = optimizer.step(slopes, state, players)
    >>> abs(players).max() < 0.1
    Tensor(True)
    """

    def direction(step: Step) -> Leafwise:
        return lambda g, p, previous: (_ahead(step, g, previous, alpha, beta), g)

    return LeafRule(
        "optimistic_gradient_descent",
        OptimisticState,
        learning_rate,
        lambda p: (zeros(p),),
        direction,
    ).optimizer()


@making
def optimistic_adam(
    learning_rate: LearningRate,
    alpha: Size = 1.0,
    beta: Size = 1.0,
    b1: Share = 0.9,
    b2: Share = 0.999,
    eps: Size = 1e-8,
    eps_root: Size = 0.0,
    *,
    nesterov: bool = True,
) -> Optimizer[OptimisticAdamState]:
    """Optimistic Adam: extrapolate Adam's direction from its last change.

    For games of two players, see ``optimistic_gradient_descent``.

    Parameters
    ----------
    learning_rate, b1, b2, eps, eps_root
        See ``adam``.
    alpha, beta
        See ``optimistic_gradient_descent``.
    nesterov : bool
        Whether the direction is that of ``nadam``, rather than of ``adam``.

    Notes
    -----
    Daskalakis, Ilyas, Syrgkanis, Zeng, "Training GANs with optimism", ICLR 2018, as
    ``optax.optimistic_adam_v2``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> optimizer, w = optimistic_adam(0.1), fg.tensor([3.0, -2.0])
    >>> state = optimizer.init(w)
    >>> for _ in range(200):
    ...     w, state = optimizer.step(2 * w, state, w)  # the gradient of the sum of squares
    >>> abs(w).max() < 1e-2
    Tensor(True)
    """

    def direction(step: Step) -> Leafwise:
        n = step.count
        start, later, start2 = 1 - b1**n, 1 - b1 ** (n + 1), 1 - b2**n

        def of_leaf(
            g: Tensor, p: Tensor, mu: Tensor, nu: Tensor, previous: Tensor
        ) -> tuple[Tensor, ...]:
            mu, nu = mean(b1, mu, g), mean(b2, nu, square(g))
            if nesterov:
                top = b1 * mu / scalar(later, nu) + (1 - b1) * g / scalar(start, nu)
            else:
                top = mu / scalar(start, nu)
            now = top / (root(nu / scalar(start2, nu) + eps_root) + eps)
            return _ahead(step, now, previous, alpha, beta), mu, nu, now

        return of_leaf

    def first(p: Tensor) -> tuple[Tensor, ...]:
        return zeros(p), zeros(p, real=True), zeros(p)

    return LeafRule(
        "optimistic_adam", OptimisticAdamState, learning_rate, first, direction
    ).optimizer()
