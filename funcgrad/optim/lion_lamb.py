"""Lion and LAMB: steps whose size does not come from the gradient.

>>> from funcgrad.tensor.tensor import tensor
>>> optimizer = lion(0.1)
>>> updates, _ = optimizer.update([tensor(4.0)], optimizer.init([tensor(0.0)]), [tensor(0.0)])
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
    making,
    mean,
    root,
    scalar,
    square,
    zeros,
)
from funcgrad.optim.rule import Leafwise, Mask, Moment, StepRule
from funcgrad.tensor.tensor import Tensor
from funcgrad.tree import norm


@pytree(slots=True)
class LionState:
    """The state of ``lion``.

    Attributes
    ----------
    count : Tensor of int64
        The number of steps so far.
    mu : pytree of tensors
        The decaying mean of the gradients.
    rate : Tensor of float64
        The learning rate of the last step; 0 before the first.
    """

    count: Tensor
    mu: Pytree
    rate: Tensor


@making
def lion(
    learning_rate: LearningRate,
    b1: ArrayLike = 0.9,
    b2: ArrayLike = 0.99,
    weight_decay: ArrayLike = 1e-3,
    mask: Mask = None,
) -> Optimizer[LionState]:
    """The sign of a mean of gradients: every step has the size of the rate.

    Parameters
    ----------
    learning_rate
        See ``sgd``; it is to be 3 to 10 times smaller than for Adam.
    b1 : float or 0-d tensor
        The share of the mean in what the sign is taken of, below 1.
    b2 : float or 0-d tensor
        The decay rate of the mean, below 1.
    weight_decay, mask
        See ``adamw``.

    Returns
    -------
    Optimizer

    Raises
    ------
    ArgumentError
        A number is negative, or ``b1`` or ``b2`` is not below 1.

    Notes
    -----
    Chen and others, "Symbolic discovery of optimization algorithms", NeurIPS 2023, as in optax;
    PyTorch has none. The sign of a complex number is its direction::

        update = -r (sign(b1 mu + (1 - b1) g) + weight_decay p)         mu' = b2 mu + (1 - b2) g

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> optimizer = lion(0.1, weight_decay=0.5)
    >>> optimizer.step(tensor(4.0), optimizer.init(tensor(2.0)), tensor(2.0))[0]
    Tensor(1.8)
    """
    check_numbers("lion", 1.0, b1=b1, b2=b2)
    check_numbers("lion", weight_decay=weight_decay)
    leafwise = partial(_lion, b1, b2)
    return StepRule(
        "lion", LionState, learning_rate, leafwise, _mean_alone, weight_decay, mask
    ).optimizer()


def _mean_alone(p: Tensor) -> tuple[Tensor]:
    return (zeros(p),)


def _lion(b1: ArrayLike, b2: ArrayLike, moment: Moment) -> Leafwise:
    def of_leaf(g: Tensor, p: Tensor, mu: Tensor) -> tuple[Tensor, ...]:
        return fnp.sign(mean(b1, mu, g)), mean(b2, mu, g)

    return of_leaf


@pytree(slots=True)
class LambState:
    """The state of ``lamb``.

    Attributes
    ----------
    count : Tensor of int64
        The number of steps so far.
    mu, nu : pytree of tensors
        The decaying means of the gradients and of their squares, as in ``AdamState``.
    rate : Tensor of float64
        The learning rate of the last step; 0 before the first.
    """

    count: Tensor
    mu: Pytree
    nu: Pytree
    rate: Tensor


@making
def lamb(
    learning_rate: LearningRate,
    b1: ArrayLike = 0.9,
    b2: ArrayLike = 0.999,
    eps: ArrayLike = 1e-6,
    eps_root: ArrayLike = 0.0,
    weight_decay: ArrayLike = 0.0,
    mask: Mask = None,
) -> Optimizer[LambState]:
    """Adam for large batches: the step of each parameter is as long as the parameter.

    Parameters
    ----------
    learning_rate, b1, b2, eps, eps_root
        See ``adam``.
    weight_decay, mask
        See ``adamw``.

    Returns
    -------
    Optimizer

    Raises
    ------
    ArgumentError
        A number is negative, or ``b1`` or ``b2`` is not below 1.

    Notes
    -----
    You and others, "Large batch optimization for deep learning: training BERT in 76 minutes", ICLR
    2020, as in optax; PyTorch has none. The direction d of Adam with weight decay becomes
    ``d |p| / |d|``, with the norms of one leaf; where either is 0 it is d.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> optimizer = lamb(0.1)
    >>> optimizer.step(tensor(4.0), optimizer.init(tensor(2.0)), tensor(2.0))[0]
    Tensor(1.8)
    """
    check_numbers("lamb", 1.0, b1=b1, b2=b2)
    check_numbers("lamb", eps=eps, eps_root=eps_root, weight_decay=weight_decay)
    return StepRule(
        "lamb",
        LambState,
        learning_rate,
        partial(_adam_direction, b1, b2, eps, eps_root),
        _two_means,
        weight_decay,
        mask,
        finish=_as_long_as_parameter,
    ).optimizer()


def _two_means(p: Tensor) -> tuple[Tensor, Tensor]:
    return zeros(p), zeros(p, real=True)


def _adam_direction(
    b1: ArrayLike, b2: ArrayLike, eps: ArrayLike, eps_root: ArrayLike, moment: Moment
) -> Leafwise:
    start1, start2 = 1 - b1**moment.count, 1 - b2**moment.count

    def of_leaf(g: Tensor, p: Tensor, mu: Tensor, nu: Tensor) -> tuple[Tensor, ...]:
        mu, nu = mean(b1, mu, g), mean(b2, nu, square(g))
        spread = root(nu / scalar(start2, nu) + eps_root) + eps
        return mu / scalar(start1, nu) / spread, mu, nu

    return of_leaf


def _as_long_as_parameter(direction: Tensor, p: Tensor) -> Tensor:
    of_parameter, of_direction = norm(p), norm(direction)
    is_zero = fnp.logical_or(of_parameter == 0, of_direction == 0)
    ratio = of_parameter / fnp.where(is_zero, 1.0, of_direction)
    return direction * scalar(fnp.where(is_zero, 1.0, ratio), p)
