"""Nadam, RAdam, AdaMax and AdaBelief: Adam with one formula changed.

>>> from funcgrad.tensor.tensor import tensor
>>> optimizer = adamax(0.1)
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
    making,
    mean,
    root,
    scalar,
    square,
    zeros,
)
from funcgrad.optim.rule import Leafwise, Moment, StepRule
from funcgrad.tensor.tensor import Tensor


@pytree(slots=True)
class MomentsState:
    """The state of ``nadam``, ``radam``, ``adamax`` and ``adabelief``.

    Attributes
    ----------
    count : Tensor of int64
        The number of steps so far.
    mu : pytree of tensors
        The decaying mean of the gradients, as in ``AdamState``.
    nu : pytree of tensors
        A decaying mean of squares, or the decaying greatest magnitude of ``adamax``; real.
    rate : Tensor of float64
        The learning rate of the last step; 0 before the first.
    """

    count: Tensor
    mu: Pytree
    nu: Pytree
    rate: Tensor


def _start(p: Tensor) -> tuple[Tensor, Tensor]:
    return zeros(p), zeros(p, real=True)


@making
def nadam(
    learning_rate: LearningRate,
    b1: ArrayLike = 0.9,
    b2: ArrayLike = 0.999,
    eps: ArrayLike = 1e-8,
    eps_root: ArrayLike = 0.0,
) -> Optimizer[MomentsState]:
    """Adam with Nesterov's momentum.

    Parameters
    ----------
    learning_rate, b1, b2, eps, eps_root
        See ``adam``.

    Returns
    -------
    Optimizer

    Raises
    ------
    ArgumentError
        A number is negative, or ``b1`` or ``b2`` is not below 1.

    Notes
    -----
    Dozat, "Incorporating Nesterov momentum into Adam", ICLR workshop 2016, as in optax: Adam, whose
    corrected mean is ``b1 mu' / (1 - b1ⁿ⁺¹) + (1 - b1) g / (1 - b1ⁿ)``. PyTorch lets ``b1`` itself
    grow with n.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> optimizer = nadam(0.1)
    >>> optimizer.step(tensor(4.0), optimizer.init(tensor(1.0)), tensor(1.0))[0]
    Tensor(0.85263158)
    """
    check_numbers("nadam", 1.0, b1=b1, b2=b2)
    check_numbers("nadam", eps=eps, eps_root=eps_root)
    leafwise = partial(nadam_direction, b1, b2, eps, eps_root)
    return StepRule("nadam", MomentsState, learning_rate, leafwise, _start).optimizer()


def nadam_direction(
    b1: ArrayLike, b2: ArrayLike, eps: ArrayLike, eps_root: ArrayLike, moment: Moment
) -> Leafwise:
    """The direction of Nadam at a step."""
    n = moment.count
    start1, ahead1, start2 = 1 - b1**n, 1 - b1 ** (n + 1), 1 - b2**n

    def of_leaf(g: Tensor, p: Tensor, mu: Tensor, nu: Tensor) -> tuple[Tensor, ...]:
        mu, nu = mean(b1, mu, g), mean(b2, nu, square(g))
        ahead = b1 * mu / scalar(ahead1, nu) + (1 - b1) * g / scalar(start1, nu)
        return ahead / (root(nu / scalar(start2, nu) + eps_root) + eps), mu, nu

    return of_leaf


@making
def radam(
    learning_rate: LearningRate,
    b1: ArrayLike = 0.9,
    b2: ArrayLike = 0.999,
    eps: ArrayLike = 1e-8,
    eps_root: ArrayLike = 0.0,
    threshold: ArrayLike = 5.0,
) -> Optimizer[MomentsState]:
    """Adam that warms up by itself: it divides by the mean square as far as that is known.

    Parameters
    ----------
    learning_rate, b1, b2, eps, eps_root
        See ``adam``.
    threshold : float or 0-d tensor
        The length of the mean of squares from which on it is divided by; before, the step is that
        of the corrected mean of gradients alone.

    Returns
    -------
    Optimizer

    Raises
    ------
    ArgumentError
        A number is negative, or ``b1`` or ``b2`` is not below 1.

    Notes
    -----
    Liu, Jiang, He, Chen, Liu, Gao, Han, "On the variance of the adaptive learning rate and beyond",
    ICLR 2020, as in optax; PyTorch differs where ``eps`` matters. With l = 2 / (1 - b2) - 1 and
    k = l - 2 n b2ⁿ / (1 - b2ⁿ), Adam's direction is multiplied by
    ``sqrt((k - 4) (k - 2) l / ((l - 4) (l - 2) k))`` if ``k >= threshold``.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> optimizer = radam(0.1)
    >>> optimizer.step(tensor(4.0), optimizer.init(tensor(1.0)), tensor(1.0))[0]
    Tensor(0.6)
    """
    check_numbers("radam", 1.0, b1=b1, b2=b2)
    check_numbers("radam", eps=eps, eps_root=eps_root, threshold=threshold)
    leafwise = partial(_radam, b1, b2, eps, eps_root, threshold)
    return StepRule("radam", MomentsState, learning_rate, leafwise, _start).optimizer()


def _radam(
    b1: ArrayLike,
    b2: ArrayLike,
    eps: ArrayLike,
    eps_root: ArrayLike,
    threshold: ArrayLike,
    moment: Moment,
) -> Leafwise:
    n = moment.count
    start1, start2 = 1 - b1**n, 1 - b2**n
    most = 2 / (1 - b2) - 1
    length = most - 2 * n * (1 - start2) / start2
    is_known = fnp.logical_and(length >= threshold, length > 4)
    safe = fnp.where(is_known, length, 5.0)  # no root of a negative number, nor its derivative
    shrinks = (safe - 4) * (safe - 2) * most / ((most - 4) * (most - 2) * safe)
    factor = fnp.sqrt(fnp.where(is_known, shrinks, 1.0))

    def of_leaf(g: Tensor, p: Tensor, mu: Tensor, nu: Tensor) -> tuple[Tensor, ...]:
        mu, nu = mean(b1, mu, g), mean(b2, nu, square(g))
        plain = mu / scalar(start1, nu)
        spread = root(nu / scalar(start2, nu) + eps_root) + eps
        return fnp.where(is_known, scalar(factor, nu) * plain / spread, plain), mu, nu

    return of_leaf


@making
def adamax(
    learning_rate: LearningRate,
    b1: ArrayLike = 0.9,
    b2: ArrayLike = 0.999,
    eps: ArrayLike = 1e-8,
) -> Optimizer[MomentsState]:
    """Adam with the greatest magnitude in the place of the root of the mean square.

    Parameters
    ----------
    learning_rate, b1
        See ``adam``.
    b2 : float or 0-d tensor
        The decay rate of the greatest magnitude.
    eps : float or 0-d tensor
        A number that is added to each magnitude.

    Returns
    -------
    Optimizer

    Raises
    ------
    ArgumentError
        A number is negative, or ``b1`` or ``b2`` is not below 1.

    Notes
    -----
    Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015, section 7.1; optax and
    PyTorch agree. ``nu' = max(b2 nu, |g| + eps)``, and the direction is
    ``mu' / (1 - b1ⁿ) / nu'``.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> optimizer = adamax(0.1)
    >>> optimizer.step(tensor(4.0), optimizer.init(tensor(1.0)), tensor(1.0))[0]
    Tensor(0.9)
    """
    check_numbers("adamax", 1.0, b1=b1, b2=b2)
    check_numbers("adamax", eps=eps)
    return StepRule(
        "adamax", MomentsState, learning_rate, partial(_adamax, b1, b2, eps), _start
    ).optimizer()


def _adamax(b1: ArrayLike, b2: ArrayLike, eps: ArrayLike, moment: Moment) -> Leafwise:
    start1 = 1 - b1**moment.count

    def of_leaf(g: Tensor, p: Tensor, mu: Tensor, nu: Tensor) -> tuple[Tensor, ...]:
        mu, nu = mean(b1, mu, g), fnp.maximum(b2 * nu, abs(g) + eps)
        return mu / scalar(start1, nu) / nu, mu, nu

    return of_leaf


@making
def adabelief(
    learning_rate: LearningRate,
    b1: ArrayLike = 0.9,
    b2: ArrayLike = 0.999,
    eps: ArrayLike = 1e-16,
    eps_root: ArrayLike = 1e-16,
) -> Optimizer[MomentsState]:
    """Adam with the mean square of the gradients' deviations from their mean.

    Parameters
    ----------
    learning_rate, b1, b2, eps
        See ``adam``.
    eps_root : float or 0-d tensor
        A number that each step adds to the mean square.

    Returns
    -------
    Optimizer

    Raises
    ------
    ArgumentError
        A number is negative, or ``b1`` or ``b2`` is not below 1.

    Notes
    -----
    Zhuang and others, "AdaBelief optimizer: adapting stepsizes by the belief in observed
    gradients", NeurIPS 2020, as in optax: ``nu' = b2 nu + (1 - b2) |g - mu'|² + eps_root``.
    PyTorch has none.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> optimizer = adabelief(0.1)
    >>> optimizer.step(tensor(4.0), optimizer.init(tensor(1.0)), tensor(1.0))[0]
    Tensor(0.88888889)
    """
    check_numbers("adabelief", 1.0, b1=b1, b2=b2)
    check_numbers("adabelief", eps=eps, eps_root=eps_root)
    leafwise = partial(_adabelief, b1, b2, eps, eps_root)
    return StepRule("adabelief", MomentsState, learning_rate, leafwise, _start).optimizer()


def _adabelief(
    b1: ArrayLike, b2: ArrayLike, eps: ArrayLike, eps_root: ArrayLike, moment: Moment
) -> Leafwise:
    start1, start2 = 1 - b1**moment.count, 1 - b2**moment.count

    def of_leaf(g: Tensor, p: Tensor, mu: Tensor, nu: Tensor) -> tuple[Tensor, ...]:
        mu = mean(b1, mu, g)
        nu = mean(b2, nu, square(g - mu)) + eps_root
        return mu / scalar(start1, nu) / (root(nu / scalar(start2, nu)) + eps), mu, nu

    return of_leaf
