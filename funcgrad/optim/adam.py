"""Adam, AdamW and LAMB: steps whose size is learned for each parameter.

>>> from funcgrad.tensor.tensor import tensor
>>> optimizer = adam(0.1)
>>> updates, _ = optimizer.update([tensor(4.0)], optimizer.init([tensor(1.0)]), [tensor(1.0)])
>>> updates
[Tensor(-0.1)]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import funcgrad.numpy as fnp
from funcgrad._core.pytrees import pytree
from funcgrad._core.users_values import ArrayLike
from funcgrad.optim.base import (
    LearningRate,
    Optimizer,
    Pytree,
    mean,
    root,
    scalar,
    square,
    zeros,
)
from funcgrad.optim.option_types import Share, Size, making
from funcgrad.optim.rule import Direction, LeafRule, Leafwise, Mask, Memory, Step
from funcgrad.tensor.tensor import Tensor
from funcgrad.tree import norm


@pytree(slots=True)
class AdamState:
    """The state of ``adam`` and ``adamw``.

    Attributes
    ----------
    count, rate : Tensor of int64, Tensor of float64
        The number of steps so far, and the learning rate of the last one; 0 before the first.
    mu : pytree of tensors
        The decaying mean of the gradients, not yet corrected for its start at zero; a tree like the
        parameters, in float32 at least.
    nu : pytree of tensors
        The decaying mean of the gradients' squared absolute values; like ``mu``, but real. A
        gradient whose square overflows makes it infinite, and the updates zero.
    nu_max : pytree of tensors, or None
        With ``amsgrad`` the greatest of the corrected means of squares, element by element.
    """

    count: Tensor
    mu: Pytree
    nu: Pytree
    nu_max: Pytree
    rate: Tensor


@making
def adam(
    learning_rate: LearningRate,
    b1: Share = 0.9,
    b2: Share = 0.999,
    eps: Size = 1e-8,
    eps_root: Size = 0.0,
    *,
    amsgrad: bool = False,
) -> Optimizer[AdamState]:
    """Adam: divide a mean of gradients by the root of the mean of their squares.

    Each number moves by about the learning rate, whatever the scale of its gradient. ``adam`` is
    the usual choice for networks, and for problems whose parameters have different scales. To
    decay weights take ``adamw``.

    Parameters
    ----------
    learning_rate : float, 0-d tensor, or schedule
        The size of a step, see ``sgd``; 1e-3 is usual for networks.
    b1, b2 : float or 0-d tensor
        The decay rates of the two means, below 1.
    eps : float or 0-d tensor
        A number that is added to the root of the mean square.
    eps_root : float or 0-d tensor
        A number that is added under the root, which has no derivative at 0: make it positive to
        differentiate through steps at which a gradient may vanish.
    amsgrad : bool
        Whether to divide by the root of the greatest mean square so far (Reddi, Kale, Kumar, ICLR
        2018), so that steps never grow again. The means are corrected before they are compared, as
        in optax; PyTorch compares the means as they are, and corrects the greatest.

    Notes
    -----
    With gradient g, rate r and steps n = 1, 2, ...::

        mu' = b1 mu + (1 - b1) g              nu' = b2 nu + (1 - b2) |g|²
        update = -r (mu' / (1 - b1ⁿ)) / (sqrt(nu' / (1 - b2ⁿ) + eps_root) + eps)

    Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015.

    Examples
    --------
    >>> import funcgrad as fg
    >>> optimizer = adam(0.1)
    >>> w = fg.tensor([3.0, -2.0])
    >>> state = optimizer.init(w)
    >>> for _ in range(200):
    ...     w, state = optimizer.step(fg.grad(lambda w: fg.numpy.sum(w**2))(w), state, w)
    >>> fg.numpy.max(abs(w)) < 1e-4
    Tensor(True)
    """
    direction = adam_direction(b1, b2, eps, eps_root)
    return LeafRule("adam", AdamState, learning_rate, _starting(amsgrad), direction).optimizer()


@making
def adamw(
    learning_rate: LearningRate,
    b1: Share = 0.9,
    b2: Share = 0.999,
    eps: Size = 1e-8,
    eps_root: Size = 0.0,
    weight_decay: Size = 1e-4,
    mask: Mask = None,
    *,
    amsgrad: bool = False,
) -> Optimizer[AdamState]:
    """Adam, and weights that decay by a fraction in each step.

    Decay keeps weights small, which regularizes networks. A penalty in the loss would be divided by
    Adam's root; here the decay is apart from the gradient, and so acts on all weights alike.

    Parameters
    ----------
    learning_rate, b1, b2, eps, eps_root
        See ``adam``.
    weight_decay : float or 0-d tensor
        The fraction of each parameter that a step subtracts, times the learning rate.
    mask : pytree of bool, or function from params to one, optional
        Which parameters decay, all by default. The mask may be a prefix of the tree of parameters,
        or a pattern on paths such as ``"*.weight"``.
    amsgrad
        See ``adam``.

    Notes
    -----
    With the direction d of ``adam``, parameter p and rate r: ``update = -r (d + weight_decay p)``.
    Loshchilov, Hutter, "Decoupled weight decay regularization", ICLR 2019.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> params = {"w": tensor(2.0), "b": tensor(2.0)}
    >>> optimizer = adamw(0.1, weight_decay=0.5, mask={"w": True, "b": False})
    >>> grads = {"w": tensor(0.0), "b": tensor(0.0)}
    >>> optimizer.step(grads, optimizer.init(params), params)[0]
    {'b': Tensor(2.0), 'w': Tensor(1.9)}
    """
    direction, start = adam_direction(b1, b2, eps, eps_root), _starting(amsgrad)
    return LeafRule(
        "adamw", AdamState, learning_rate, start, direction, weight_decay, mask
    ).optimizer()


def _starting(amsgrad: bool) -> Callable[[Tensor], Sequence[Memory]]:
    return lambda p: (*two_means(p), zeros(p, real=True) if amsgrad else None)


def two_means(p: Tensor) -> tuple[Tensor, Tensor]:
    """The first memories: a mean of gradients, and a mean of squares."""
    return zeros(p), zeros(p, real=True)


def adam_direction(b1: ArrayLike, b2: ArrayLike, eps: ArrayLike, eps_root: ArrayLike) -> Direction:
    """The direction of Adam, with ``nu_max`` for AMSGrad."""

    def direction(step: Step) -> Leafwise:
        start1, start2 = 1 - b1**step.count, 1 - b2**step.count

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

    return direction


@pytree(slots=True)
class LambState:
    """The state of ``lamb``.

    Attributes
    ----------
    count, rate : Tensor of int64, Tensor of float64
        The number of steps so far, and the learning rate of the last one; 0 before the first.
    mu, nu : pytree of tensors
        The decaying means of the gradients and of their squares, as in ``AdamState``.
    """

    count: Tensor
    mu: Pytree
    nu: Pytree
    rate: Tensor


@making
def lamb(
    learning_rate: LearningRate,
    b1: Share = 0.9,
    b2: Share = 0.999,
    eps: Size = 1e-6,
    eps_root: Size = 0.0,
    weight_decay: Size = 0.0,
    mask: Mask = None,
) -> Optimizer[LambState]:
    """LAMB: Adam for large batches, with a step for each parameter as long as the parameter.

    A large batch allows a large rate, but not for all layers: LAMB measures the step of each
    parameter by the norm of the parameter, so one rate fits all layers.

    Parameters
    ----------
    learning_rate, b1, b2, eps, eps_root
        See ``adam``. The rate is counted in norms of parameters.
    weight_decay, mask
        See ``adamw``.

    Notes
    -----
    The direction d of ``adamw``, decay included, becomes ``d |p| / |d|``, with the norms of one
    leaf; where either norm is 0 it stays d. You and others, "Large batch optimization for deep
    learning: training BERT in 76 minutes", ICLR 2020, as in optax; PyTorch has no LAMB.

    Examples
    --------
    >>> import funcgrad as fg
    >>> optimizer, w = lamb(0.1), fg.tensor([3.0, -2.0])
    >>> state = optimizer.init(w)
    >>> for _ in range(200):
    ...     w, state = optimizer.step(2 * w, state, w)  # the gradient of the sum of squares
    >>> abs(w).max() < 1e-3
    Tensor(True)
    """
    adam = adam_direction(b1, b2, eps, eps_root)

    def direction(step: Step) -> Leafwise:
        of_leaf = adam(step)
        return lambda g, p, mu, nu: of_leaf(g, p, mu, nu)[:3]

    def finish(d: Tensor, p: Tensor) -> Tensor:
        of_parameter, of_direction = norm(p), norm(d)
        is_zero = fnp.logical_or(of_parameter == 0, of_direction == 0)
        ratio = of_parameter / fnp.where(is_zero, 1.0, of_direction)
        return d * scalar(fnp.where(is_zero, 1.0, ratio), p)

    return LeafRule(
        "lamb", LambState, learning_rate, two_means, direction, weight_decay, mask, finish
    ).optimizer()
