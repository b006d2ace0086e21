"""RMSProp, Adagrad and Adadelta: gradients over the root of a sum or a mean of their squares.

>>> from funcgrad.tensor.tensor import tensor
>>> optimizer = adagrad(0.1, initial_accumulator_value=0.0)
>>> updates, _ = optimizer.update([tensor(4.0)], optimizer.init([tensor(1.0)]), [tensor(1.0)])
>>> updates
[Tensor(-0.1)]
"""

from __future__ import annotations

import funcgrad.numpy as fnp
from funcgrad._core.pytrees import pytree
from funcgrad.optim.base import (
    LearningRate,
    Optimizer,
    Pytree,
    in_dtype_of,
    mean,
    real_full,
    root,
    scalar,
    square,
    zeros,
)
from funcgrad.optim.option_types import Share, Size, making
from funcgrad.optim.rule import LeafRule, Leafwise, Mask, Memory, Step
from funcgrad.tensor.tensor import Tensor


@pytree(slots=True)
class RmspropState:
    """The state of ``rmsprop``.

    Attributes
    ----------
    count, rate : Tensor of int64, Tensor of float64
        The number of steps so far, and the learning rate of the last one; 0 before the first.
    nu : pytree of tensors
        The decaying mean of the gradients' squared absolute values; real.
    mu : pytree of tensors, or None
        If centered, the decaying mean of the gradients.
    trace : pytree of tensors
        The sum of past directions, weighted by ``momentum``; the last one without momentum.
    """

    count: Tensor
    nu: Pytree
    mu: Pytree
    trace: Pytree
    rate: Tensor


@making
def rmsprop(
    learning_rate: LearningRate,
    decay: Share = 0.9,
    eps: Size = 1e-8,
    initial_scale: Size = 0.0,
    eps_in_sqrt: bool = True,
    centered: bool = False,
    momentum: Share = 0.0,
    nesterov: bool = False,
    bias_correction: bool = False,
) -> Optimizer[RmspropState]:
    """RMSProp: divide gradients by the root of the decaying mean of their squares.

    The mean forgets, so steps follow the size of recent gradients. It is used for recurrent
    networks and reinforcement learning, where the size of gradients changes during a run.

    Parameters
    ----------
    learning_rate
        See ``sgd``.
    decay : float or 0-d tensor
        The decay rate of the means, below 1.
    eps : float or 0-d tensor
        A number that is added under the root, or to it.
    initial_scale : float or 0-d tensor
        The first mean square.
    eps_in_sqrt : bool
        Whether ``eps`` stands under the root.
    centered : bool
        Whether the square of the mean gradient is subtracted from the mean square.
    momentum : float or 0-d tensor
        The decay rate of past directions, below 1.
    nesterov : bool
        Whether to use Nesterov's momentum, which adds the momentum once more.
    bias_correction : bool
        Whether to correct the means for their start.

    Notes
    -----
    With gradient g, rate r and momentum m::

        nu' = decay nu + (1 - decay) |g|²     t' = g / sqrt(nu' + eps) + m t     update = -r t'

    Hinton, Tieleman, "Neural networks for machine learning", lecture 6.5, 2012. Options are
    optax's; ``eps_in_sqrt=False, decay=0.99`` are PyTorch's defaults. Past directions are summed
    before they are multiplied by the rate, as in PyTorch; in optax after.

    Examples
    --------
    >>> import funcgrad as fg
    >>> optimizer, w = rmsprop(0.05), fg.tensor([3.0, -2.0])
    >>> state = optimizer.init(w)
    >>> for _ in range(200):
    ...     w, state = optimizer.step(2 * w, state, w)  # the gradient of the sum of squares
    >>> abs(w).max() < 0.05
    Tensor(True)
    """

    def start(p: Tensor) -> tuple[Memory, ...]:
        return real_full(p, initial_scale), (zeros(p) if centered else None), zeros(p)

    def direction(step: Step) -> Leafwise:
        start = 1 - decay**step.count if bias_correction else 1.0

        def of_leaf(
            g: Tensor, p: Tensor, nu: Tensor, mu: Memory, trace: Tensor
        ) -> tuple[Memory, ...]:
            nu = mean(decay, nu, square(g))
            spread = nu / scalar(start, nu)
            if mu is not None:
                mu = mean(decay, mu, g)
                spread = spread - square(mu / scalar(start, nu))
            length = root(spread + eps) if eps_in_sqrt else root(spread) + eps
            trace = in_dtype_of(g / length + momentum * trace, g)
            return (g / length + momentum * trace if nesterov else trace), nu, mu, trace

        return of_leaf

    return LeafRule("rmsprop", RmspropState, learning_rate, start, direction).optimizer()


@pytree(slots=True)
class AdagradState:
    """The state of ``adagrad``.

    Attributes
    ----------
    count, rate : Tensor of int64, Tensor of float64
        The number of steps so far, and the learning rate of the last one; 0 before the first.
    sum_of_squares : pytree of tensors
        The sum of the gradients' squared absolute values; real.
    """

    count: Tensor
    sum_of_squares: Pytree
    rate: Tensor


@making
def adagrad(
    learning_rate: LearningRate, initial_accumulator_value: Size = 0.1, eps: Size = 1e-7
) -> Optimizer[AdagradState]:
    """Adagrad: divide gradients by the root of the sum of all their squares so far.

    The steps of an element become shorter with each of its gradients. So rare features, whose
    gradients are mostly zero, keep long steps. Long training runs of networks stall: use
    ``rmsprop`` or ``adam`` for them.

    Parameters
    ----------
    learning_rate
        See ``sgd``.
    initial_accumulator_value : float or 0-d tensor
        The first sum.
    eps : float or 0-d tensor
        A number that is added under the root.

    Notes
    -----
    With gradient g, sum s and rate r: ``s' = s + |g|²`` and ``update = -r g / sqrt(s' + eps)``.
    Duchi, Hazan, Singer, "Adaptive subgradient methods for online learning and stochastic
    optimization", JMLR 12, 2011, as in optax; PyTorch adds ``eps`` to the root.

    Examples
    --------
    >>> import funcgrad as fg
    >>> optimizer, w = adagrad(1.0), fg.tensor([3.0, -2.0])
    >>> state = optimizer.init(w)
    >>> for _ in range(100):
    ...     w, state = optimizer.step(2 * w, state, w)  # the gradient of the sum of squares
    >>> abs(w).max() < 1e-3
    Tensor(True)
    """

    def start(p: Tensor) -> tuple[Tensor]:
        return (real_full(p, initial_accumulator_value),)

    def of_leaf(g: Tensor, p: Tensor, total: Tensor) -> tuple[Tensor, ...]:
        total = total + square(g)
        return g * fnp.where(total > 0, 1 / fnp.sqrt(total + eps), 0.0), total

    return LeafRule("adagrad", AdagradState, learning_rate, start, lambda step: of_leaf).optimizer()


@pytree(slots=True)
class AdadeltaState:
    """The state of ``adadelta``.

    Attributes
    ----------
    count, rate : Tensor of int64, Tensor of float64
        The number of steps so far, and the learning rate of the last one; 0 before the first.
    e_g, e_x : pytree of tensors
        The decaying means of squared gradients and of squared directions; real.
    """

    count: Tensor
    e_g: Pytree
    e_x: Pytree
    rate: Tensor


@making
def adadelta(
    learning_rate: LearningRate = 1.0,
    rho: Share = 0.9,
    eps: Size = 1e-6,
    weight_decay: Size = 0.0,
    weight_decay_mask: Mask = None,
) -> Optimizer[AdadeltaState]:
    """Adadelta: steps in the units of the parameters, without a learning rate to tune.

    Gradients are divided by the root of the mean of their squares, and multiplied by the root of
    the mean of squared earlier directions. The first steps are small, and grow by themselves.

    Parameters
    ----------
    learning_rate
        See ``sgd``; 1 is usual.
    rho : float or 0-d tensor
        The decay rate of both means, below 1.
    eps : float or 0-d tensor
        A number that is added under both roots.
    weight_decay : float or 0-d tensor
        The fraction of each parameter that is added to its gradient.
    weight_decay_mask : pytree of bool, or function from params to one, optional
        Which parameters decay, all by default.

    Notes
    -----
    With gradient g, direction d and rate r::

        e_g' = rho e_g + (1 - rho) |g|²       d = g sqrt(e_x + eps) / sqrt(e_g' + eps)
        e_x' = rho e_x + (1 - rho) |d|²       update = -r d

    Zeiler, "ADADELTA: an adaptive learning rate method", 2012; optax and PyTorch agree.

    Examples
    --------
    >>> import funcgrad as fg
    >>> optimizer, w = adadelta(), fg.tensor([3.0, -2.0])
    >>> state = optimizer.init(w)
    >>> for _ in range(1000):
    ...     w, state = optimizer.step(2 * w, state, w)  # the gradient of the sum of squares
    >>> abs(w).max() < 1e-3
    Tensor(True)
    """

    def start(p: Tensor) -> tuple[Tensor, Tensor]:
        return zeros(p, real=True), zeros(p, real=True)

    def of_leaf(g: Tensor, p: Tensor, e_g: Tensor, e_x: Tensor) -> tuple[Tensor, ...]:
        e_g = mean(rho, e_g, square(g))
        d = g * (root(e_x + eps) / root(e_g + eps))
        return d, e_g, mean(rho, e_x, square(d))

    return LeafRule(
        "adadelta",
        AdadeltaState,
        learning_rate,
        start,
        lambda step: of_leaf,
        weight_decay,
        weight_decay_mask,
        decay_first=True,
    ).optimizer()
