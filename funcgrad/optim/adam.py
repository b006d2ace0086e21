"""Adam and AdamW: steps whose size is learned for each parameter.

>>> from funcgrad.tensor.tensor import tensor
>>> optimizer = adam(0.1)
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
    check_number,
    check_numbers,
    making,
    mean,
    root,
    scalar,
    square,
    zeros,
)
from funcgrad.optim.rule import Leafwise, Mask, Memory, Moment, StepRule
from funcgrad.tensor.tensor import Tensor


@pytree(slots=True)
class AdamState:
    """The state of ``adam`` and ``adamw``.

    Attributes
    ----------
    count : Tensor of int64
        The number of steps so far.
    mu : pytree of tensors
        The decaying mean of the gradients, not yet corrected for its start at zero; a tree like the
        parameters, in float32 at least.
    nu : pytree of tensors
        The decaying mean of the gradients' squared absolute values; like ``mu``, but real. A
        gradient whose square overflows makes it infinite, and the updates zero.
    nu_max : pytree of tensors, or None
        With ``amsgrad`` the greatest of the corrected means of squares, element by element.
    rate : Tensor of float64
        The learning rate of the last step; 0 before the first.
    """

    count: Tensor
    mu: Pytree
    nu: Pytree
    nu_max: Pytree
    rate: Tensor


@making
def adam(
    learning_rate: LearningRate,
    b1: ArrayLike = 0.9,
    b2: ArrayLike = 0.999,
    eps: ArrayLike = 1e-8,
    eps_root: ArrayLike = 0.0,
    *,
    amsgrad: bool = False,
) -> Optimizer[AdamState]:
    """Adam: gradient descent whose steps are nearly independent of the gradient's scale.

    Parameters
    ----------
    learning_rate : float, 0-d tensor, or schedule
        A schedule is a function from the number of earlier steps, a tensor, to the rate.
    b1, b2 : float or 0-d tensor
        The decay rates of the two means, below 1.
    eps : float or 0-d tensor
        A number that is added to the root of the mean square.
    eps_root : float or 0-d tensor
        A number that is added under the root, which has no derivative at 0: make it positive to
        differentiate through steps at which a gradient may vanish.
    amsgrad : bool
        Whether to divide by the root of the greatest mean square so far (Reddi, Kale, Kumar, ICLR
        2018), so that steps never grow again. The greatest is that of the corrected means, as in
        optax; PyTorch takes that of the means as they are, and corrects it.

    Returns
    -------
    Optimizer

    Raises
    ------
    ArgumentError
        A number is negative, or ``b1`` or ``b2`` is not below 1.

    Notes
    -----
    Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015. With gradient g, rate r and
    steps n = 1, 2, ...::

        mu' = b1 mu + (1 - b1) g              nu' = b2 nu + (1 - b2) |g|²
        update = -r (mu' / (1 - b1ⁿ)) / (sqrt(nu' / (1 - b2ⁿ) + eps_root) + eps)

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> params = {"w": tensor([1.0, -2.0])}
    >>> optimizer = adam(0.1)
    >>> grads = {"w": tensor([5.0, -7.0])}
    >>> updates, state = optimizer.update(grads, optimizer.init(params), params)
    >>> updates
    {'w': Tensor([-0.1,  0.1])}
    """
    return _adam("adam", learning_rate, b1, b2, eps, eps_root, amsgrad)


@making
def adamw(
    learning_rate: LearningRate,
    b1: ArrayLike = 0.9,
    b2: ArrayLike = 0.999,
    eps: ArrayLike = 1e-8,
    eps_root: ArrayLike = 0.0,
    weight_decay: ArrayLike = 1e-4,
    mask: Mask = None,
    *,
    amsgrad: bool = False,
) -> Optimizer[AdamState]:
    """Adam with decoupled weight decay.

    Parameters
    ----------
    learning_rate, b1, b2, eps, eps_root
        See ``adam``.
    weight_decay : float or 0-d tensor
        The fraction of each parameter that a step subtracts, times the learning rate.
    mask : pytree of bool, or function from params to one, optional
        Which parameters decay, all by default. It may be a prefix of the tree of parameters.
    amsgrad
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
    Loshchilov, Hutter, "Decoupled weight decay regularization", ICLR 2019: Adam's update, and
    ``-learning_rate * weight_decay * params`` whatever the gradient.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> params = {"w": tensor(2.0), "b": tensor(2.0)}
    >>> optimizer = adamw(0.1, weight_decay=0.5, mask={"w": True, "b": False})
    >>> grads = {"w": tensor(0.0), "b": tensor(0.0)}
    >>> updates, state = optimizer.update(grads, optimizer.init(params), params)
    >>> float(updates["w"]), float(updates["b"])
    (-0.1, -0.0)
    """
    check_number("adamw", "weight_decay", weight_decay)
    return _adam("adamw", learning_rate, b1, b2, eps, eps_root, amsgrad, weight_decay, mask)


def _adam(
    name: str,
    learning_rate: LearningRate,
    b1: ArrayLike,
    b2: ArrayLike,
    eps: ArrayLike,
    eps_root: ArrayLike,
    amsgrad: bool,
    weight_decay: ArrayLike | None = None,
    mask: Mask = None,
) -> Optimizer[AdamState]:
    check_numbers(name, 1.0, b1=b1, b2=b2)
    check_numbers(name, eps=eps, eps_root=eps_root)
    leafwise = partial(adam_direction, b1, b2, eps, eps_root)
    start = partial(_start, bool(amsgrad))
    return StepRule(name, AdamState, learning_rate, leafwise, start, weight_decay, mask).optimizer()


def _start(amsgrad: bool, p: Tensor) -> tuple[Memory, ...]:
    return zeros(p), zeros(p, real=True), (zeros(p, real=True) if amsgrad else None)


def adam_direction(
    b1: ArrayLike, b2: ArrayLike, eps: ArrayLike, eps_root: ArrayLike, moment: Moment
) -> Leafwise:
    """The direction of Adam at a step, with ``nu_max`` for AMSGrad."""
    start1, start2 = 1 - b1**moment.count, 1 - b2**moment.count

    def of_leaf(
        g: Tensor, p: Tensor, mu: Tensor, nu: Tensor, nu_max: Memory = None
    ) -> tuple[Memory, ...]:
        mu, nu = mean(b1, mu, g), mean(b2, nu, square(g))
        corrected = nu / scalar(start2, nu)
        if nu_max is not None:
            corrected = nu_max = fnp.maximum(nu_max, corrected)
        spread = root(corrected + eps_root) + eps
        return (mu / scalar(start1, nu)) / spread, mu, nu, nu_max

    return of_leaf
