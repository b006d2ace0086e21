"""RMSProp, Adagrad and Adadelta: gradients over the root of a sum or a mean of their squares.

>>> from funcgrad.tensor.tensor import tensor
>>> optimizer = adagrad(0.1, initial_accumulator_value=0.0)
>>> updates, _ = optimizer.update([tensor(4.0)], optimizer.init([tensor(1.0)]), [tensor(1.0)])
>>> updates
[Tensor(-0.1)]
"""

from __future__ import annotations

from functools import partial

import funcgrad.numpy as fnp
from funcgrad._core.pytrees import pytree
from funcgrad._core.users_values import ArrayLike
from funcgrad.optim.base import (
    LearningRate,
    Optimizer,
    Pytree,
    check_numbers,
    in_dtype,
    making,
    mean,
    real_full,
    root,
    scalar,
    square,
    zeros,
)
from funcgrad.optim.rule import Leafwise, Mask, Memory, Moment, StepRule
from funcgrad.tensor.tensor import Tensor


@pytree(slots=True)
class RmspropState:
    """The state of ``rmsprop``.

    Attributes
    ----------
    count : Tensor of int64
        The number of steps so far.
    nu : pytree of tensors
        The decaying mean of the gradients' squared absolute values; real.
    mu : pytree of tensors, or None
        If centered, the decaying mean of the gradients.
    trace : pytree of tensors
        The sum of past directions, weighted by ``momentum``; the last one without momentum.
    rate : Tensor of float64
        The learning rate of the last step; 0 before the first.
    """

    count: Tensor
    nu: Pytree
    mu: Pytree
    trace: Pytree
    rate: Tensor


@making
def rmsprop(
    learning_rate: LearningRate,
    decay: ArrayLike = 0.9,
    eps: ArrayLike = 1e-8,
    initial_scale: ArrayLike = 0.0,
    eps_in_sqrt: bool = True,
    centered: bool = False,
    momentum: ArrayLike = 0.0,
    nesterov: bool = False,
    bias_correction: bool = False,
) -> Optimizer[RmspropState]:
    """Gradients over the root of the decaying mean of their squares.

    Parameters
    ----------
    learning_rate : float, 0-d tensor, or schedule
        A schedule is a function from the number of earlier steps, a tensor, to the rate.
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

    Returns
    -------
    Optimizer

    Raises
    ------
    ArgumentError
        A number is negative, or ``decay`` or ``momentum`` is not below 1.

    Notes
    -----
    Hinton, Tieleman, "Neural networks for machine learning", lecture 6.5, 2012. Options are
    optax's; ``eps_in_sqrt=False, decay=0.99`` are PyTorch's defaults. Past directions are summed
    before they are multiplied by the rate, as in PyTorch; in optax after.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> optimizer = rmsprop(0.1, decay=0.75)
    >>> optimizer.step(tensor(4.0), optimizer.init(tensor(1.0)), tensor(1.0))[0]
    Tensor(0.8)
    """
    check_numbers("rmsprop", 1.0, decay=decay, momentum=momentum)
    check_numbers("rmsprop", eps=eps, initial_scale=initial_scale)
    leafwise = partial(
        _rmsprop, decay, eps, bool(eps_in_sqrt), momentum, bool(nesterov), bool(bias_correction)
    )
    start = partial(_start_of_rmsprop, initial_scale, bool(centered))
    return StepRule("rmsprop", RmspropState, learning_rate, leafwise, start).optimizer()


def _start_of_rmsprop(initial_scale: ArrayLike, centered: bool, p: Tensor) -> tuple[Memory, ...]:
    return real_full(p, initial_scale), (zeros(p) if centered else None), zeros(p)


def _rmsprop(
    decay: ArrayLike,
    eps: ArrayLike,
    eps_in_sqrt: bool,
    momentum: ArrayLike,
    nesterov: bool,
    bias_correction: bool,
    moment: Moment,
) -> Leafwise:
    start = 1 - decay**moment.count if bias_correction else 1.0

    def of_leaf(g: Tensor, p: Tensor, nu: Tensor, mu: Memory, trace: Tensor) -> tuple[Memory, ...]:
        nu = mean(decay, nu, square(g))
        spread = nu / scalar(start, nu)
        if mu is not None:
            mu = mean(decay, mu, g)
            spread = spread - square(mu / scalar(start, nu))
        length = root(spread + eps) if eps_in_sqrt else root(spread) + eps
        trace = in_dtype(g / length + momentum * trace, g.dtype)
        return (g / length + momentum * trace if nesterov else trace), nu, mu, trace

    return of_leaf


@pytree(slots=True)
class AdagradState:
    """The state of ``adagrad``.

    Attributes
    ----------
    count : Tensor of int64
        The number of steps so far.
    sum_of_squares : pytree of tensors
        The sum of the gradients' squared absolute values; real.
    rate : Tensor of float64
        The learning rate of the last step; 0 before the first.
    """

    count: Tensor
    sum_of_squares: Pytree
    rate: Tensor


@making
def adagrad(
    learning_rate: LearningRate,
    initial_accumulator_value: ArrayLike = 0.1,
    eps: ArrayLike = 1e-7,
) -> Optimizer[AdagradState]:
    """Gradients over the root of the sum of all their squares so far.

    Parameters
    ----------
    learning_rate
        See ``sgd``.
    initial_accumulator_value : float or 0-d tensor
        The first sum.
    eps : float or 0-d tensor
        A number that is added under the root.

    Returns
    -------
    Optimizer

    Raises
    ------
    ArgumentError
        A number is negative.

    Notes
    -----
    Duchi, Hazan, Singer, "Adaptive subgradient methods for online learning and stochastic
    optimization", JMLR 12, 2011, as in optax; PyTorch adds ``eps`` to the root.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> optimizer = adagrad(0.1, initial_accumulator_value=9.0)
    >>> optimizer.step(tensor(4.0), optimizer.init(tensor(1.0)), tensor(1.0))[0]
    Tensor(0.92)
    """
    check_numbers("adagrad", initial_accumulator_value=initial_accumulator_value, eps=eps)
    start = partial(_start_of_adagrad, initial_accumulator_value)
    leafwise = partial(_adagrad, eps)
    return StepRule("adagrad", AdagradState, learning_rate, leafwise, start).optimizer()


def _start_of_adagrad(value: ArrayLike, p: Tensor) -> tuple[Tensor]:
    return (real_full(p, value),)


def _adagrad(eps: ArrayLike, moment: Moment) -> Leafwise:
    def of_leaf(g: Tensor, p: Tensor, total: Tensor) -> tuple[Tensor, ...]:
        total = total + square(g)
        return g * fnp.where(total > 0, 1 / fnp.sqrt(total + eps), 0.0), total

    return of_leaf


@pytree(slots=True)
class AdadeltaState:
    """The state of ``adadelta``.

    Attributes
    ----------
    count : Tensor of int64
        The number of steps so far.
    e_g, e_x : pytree of tensors
        The decaying means of squared gradients and of squared directions; real.
    rate : Tensor of float64
        The learning rate of the last step; 0 before the first.
    """

    count: Tensor
    e_g: Pytree
    e_x: Pytree
    rate: Tensor


@making
def adadelta(
    learning_rate: LearningRate = 1.0,
    rho: ArrayLike = 0.9,
    eps: ArrayLike = 1e-6,
    weight_decay: ArrayLike = 0.0,
    weight_decay_mask: Mask = None,
) -> Optimizer[AdadeltaState]:
    """Gradients in the units of parameters: times the root mean square of earlier directions.

    Parameters
    ----------
    learning_rate
        See ``sgd``.
    rho : float or 0-d tensor
        The decay rate of both means, below 1.
    eps : float or 0-d tensor
        A number that is added under both roots.
    weight_decay : float or 0-d tensor
        The fraction of each parameter that is added to its gradient.
    weight_decay_mask : pytree of bool, or function from params to one, optional
        Which parameters decay, all by default.

    Returns
    -------
    Optimizer

    Raises
    ------
    ArgumentError
        A number is negative, or ``rho`` is not below 1.

    Notes
    -----
    Zeiler, "ADADELTA: an adaptive learning rate method", 2012; optax and PyTorch agree.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> optimizer = adadelta(1.0, rho=0.75, eps=1.0)
    >>> optimizer.step(tensor(4.0), optimizer.init(tensor(3.0)), tensor(3.0))[0]
    Tensor(1.21114562)
    """
    check_numbers("adadelta", 1.0, rho=rho)
    check_numbers("adadelta", eps=eps, weight_decay=weight_decay)
    return StepRule(
        "adadelta",
        AdadeltaState,
        learning_rate,
        partial(_adadelta, rho, eps),
        _start_of_adadelta,
        weight_decay,
        weight_decay_mask,
        decay_first=True,
    ).optimizer()


def _start_of_adadelta(p: Tensor) -> tuple[Tensor, Tensor]:
    return zeros(p, real=True), zeros(p, real=True)


def _adadelta(rho: ArrayLike, eps: ArrayLike, moment: Moment) -> Leafwise:
    def of_leaf(g: Tensor, p: Tensor, e_g: Tensor, e_x: Tensor) -> tuple[Tensor, ...]:
        e_g = mean(rho, e_g, square(g))
        direction = g * (root(e_x + eps) / root(e_g + eps))
        return direction, e_g, mean(rho, e_x, square(direction))

    return of_leaf
