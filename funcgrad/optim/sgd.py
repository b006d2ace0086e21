"""Gradient descent, also with momentum; Lion and LAMB, whose steps have lengths of their own.

>>> from funcgrad.tensor.tensor import tensor
>>> optimizer = sgd(0.5)
>>> updates, _ = optimizer.update([tensor(4.0)], optimizer.init([tensor(1.0)]), [tensor(1.0)])
>>> updates
[Tensor(-2.0)]
"""

from __future__ import annotations

import funcgrad.numpy as fnp
from funcgrad._core.pytrees import pytree
from funcgrad.optim.adam import adam_direction, two_means
from funcgrad.optim.base import LearningRate, Optimizer, Pytree, in_dtype_of, mean, scalar, zeros
from funcgrad.optim.option_types import Share, Size, making
from funcgrad.optim.rule import LeafRule, Leafwise, Mask, Step
from funcgrad.tensor.tensor import Tensor
from funcgrad.tree import norm


@pytree(slots=True)
class SgdState:
    """The state of ``sgd``.

    Attributes
    ----------
    count, rate : Tensor of int64, Tensor of float64
        The number of steps so far, and the learning rate of the last one; 0 before the first.
    trace : pytree of tensors
        The sum of past gradients, each weighted by ``momentum`` to the power of its age; a tree
        like the parameters, in float32 at least. Without momentum it is the last gradient.
    """

    count: Tensor
    trace: Pytree
    rate: Tensor


@making
def sgd(
    learning_rate: LearningRate, momentum: Share = 0.0, nesterov: bool = False
) -> Optimizer[SgdState]:
    """Gradient descent, with or without momentum.

    Each step goes along the negative gradient. With momentum a step goes along a sum of past
    gradients, which is faster in long valleys and averages noise. ``sgd`` is a good baseline for
    well-scaled problems; where gradients of parameters differ much in size, try ``adam``.

    Parameters
    ----------
    learning_rate : float, 0-d tensor, or schedule
        The factor of each step. A schedule is a function from the number of earlier steps, a
        tensor, to the rate.
    momentum : float or 0-d tensor
        The decay rate of past gradients, below 1; 0.9 is usual.
    nesterov : bool
        Whether to use Nesterov's momentum, which adds the momentum once more.

    Notes
    -----
    With gradient g, trace t, rate r and momentum m::

        t' = g + m t
        update = -r t'            or with Nesterov's momentum  -r (g + m t')

    See Sutskever, Martens, Dahl, Hinton, "On the importance of initialization and momentum in deep
    learning", ICML 2013; here the rate scales the whole update. The state has a trace also without
    momentum, so that its structure never changes; the trace costs no arithmetic then.

    Examples
    --------
    >>> import funcgrad as fg
    >>> optimizer = sgd(0.1, momentum=0.5)
    >>> w = fg.tensor([3.0, -2.0])
    >>> state = optimizer.init(w)
    >>> for _ in range(40):
    ...     w, state = optimizer.step(fg.grad(lambda w: fg.numpy.sum(w**2))(w), state, w)
    >>> fg.numpy.max(abs(w)) < 1e-4
    Tensor(True)
    """
    has_momentum = isinstance(momentum, Tensor) or momentum != 0

    def start(p: Tensor) -> tuple[Tensor]:
        return (zeros(p),)

    def direction(step: Step) -> Leafwise:
        return of_leaf if has_momentum else lambda g, p, trace: (g, g)

    def of_leaf(g: Tensor, p: Tensor, trace: Tensor) -> tuple[Tensor, Tensor]:
        trace = in_dtype_of(g + momentum * trace, g)
        return (g + momentum * trace if nesterov else trace), trace

    return LeafRule("sgd", SgdState, learning_rate, start, direction).optimizer()


@pytree(slots=True)
class LionState:
    """The state of ``lion``.

    Attributes
    ----------
    count, rate : Tensor of int64, Tensor of float64
        The number of steps so far, and the learning rate of the last one; 0 before the first.
    mu : pytree of tensors
        The decaying mean of the gradients.
    """

    count: Tensor
    mu: Pytree
    rate: Tensor


@making
def lion(
    learning_rate: LearningRate,
    b1: Share = 0.9,
    b2: Share = 0.99,
    weight_decay: Size = 1e-3,
    mask: Mask = None,
) -> Optimizer[LionState]:
    """Lion: step along the sign of a mean of gradients.

    Each element moves by the learning rate, whatever the size of its gradient. Lion remembers one
    mean, half as much as Adam, and is used for large networks with large batches.

    Parameters
    ----------
    learning_rate
        See ``sgd``. Take a rate 3 to 10 times smaller than for Adam.
    b1 : float or 0-d tensor
        The weight of the past mean in the mean whose sign is used, below 1.
    b2 : float or 0-d tensor
        The decay rate of the mean that is remembered, below 1.
    weight_decay, mask
        See ``adamw``.

    Notes
    -----
    With gradient g, parameter p and rate r::

        update = -r (sign(b1 mu + (1 - b1) g) + weight_decay p)         mu' = b2 mu + (1 - b2) g

    Chen and others, "Symbolic discovery of optimization algorithms", NeurIPS 2023, as in optax;
    PyTorch has no Lion. The sign of a complex number is its direction.

    Examples
    --------
    >>> import funcgrad as fg
    >>> optimizer = lion(0.1, weight_decay=0.0)
    >>> w = fg.tensor([1.0, -200.0])
    >>> w, state = optimizer.step(2.0 * w, optimizer.init(w), w)
    >>> w
    Tensor([   0.9, -199.9])
    """

    def start(p: Tensor) -> tuple[Tensor]:
        return (zeros(p),)

    def direction(step: Step) -> Leafwise:
        return lambda g, p, mu: (fnp.sign(mean(b1, mu, g)), mean(b2, mu, g))

    return LeafRule(
        "lion", LionState, learning_rate, start, direction, weight_decay, mask
    ).optimizer()


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
    """LAMB: Adam for large batches, with each step scaled to the norm of its parameter.

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
