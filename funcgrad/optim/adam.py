"""Adam and its variants: steps whose size is learned for each parameter.

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
from funcgrad.optim.base import LearningRate, Optimizer, Pytree, mean, root, scalar, square, zeros
from funcgrad.optim.option_types import Share, Size, making
from funcgrad.optim.rule import Direction, LeafRule, Leafwise, Mask, Memory, Step
from funcgrad.tensor.tensor import Tensor


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

    Each element moves by about the learning rate, whatever the scale of its gradient. ``adam`` is
    the usual choice for networks, and for problems whose parameters have different scales. For
    weight decay use ``adamw``.

    Parameters
    ----------
    learning_rate : float, 0-d tensor, or schedule
        The size of a step, see ``sgd``; 1e-3 is usual for networks.
    b1, b2 : float or 0-d tensor
        The decay rates of the two means, below 1.
    eps : float or 0-d tensor
        A number that is added to the root mean square.
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
    """AdamW: Adam with decoupled weight decay.

    Each step shrinks the weights by a fraction, which regularizes networks. Adam would divide the
    gradient of a penalty in the loss by its root; here the decay is separate from the gradient, so
    it acts on all weights alike.

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
class MomentsState:
    """The state of ``nadam``, ``radam``, ``adamax`` and ``adabelief``.

    Attributes
    ----------
    count, rate : Tensor of int64, Tensor of float64
        The number of steps so far, and the learning rate of the last one; 0 before the first.
    mu : pytree of tensors
        The decaying mean of the gradients, as in ``AdamState``.
    nu : pytree of tensors
        A decaying mean of squares, or the decaying greatest magnitude of ``adamax``; real.
    """

    count: Tensor
    mu: Pytree
    nu: Pytree
    rate: Tensor


@making
def nadam(
    learning_rate: LearningRate,
    b1: Share = 0.9,
    b2: Share = 0.999,
    eps: Size = 1e-8,
    eps_root: Size = 0.0,
) -> Optimizer[MomentsState]:
    """Adam with Nesterov's momentum: the mean of gradients looks one step ahead.

    ``nadam`` reacts to a new gradient a little sooner than ``adam``, and takes the same options.

    Parameters
    ----------
    learning_rate, b1, b2, eps, eps_root
        See ``adam``.

    Notes
    -----
    In the formula of ``adam``, ``b1 mu' / (1 - b1ⁿ⁺¹) + (1 - b1) g / (1 - b1ⁿ)`` replaces the
    corrected mean. Dozat, "Incorporating Nesterov momentum into Adam", ICLR workshop 2016, as in
    optax. PyTorch lets ``b1`` itself grow with n.

    Examples
    --------
    >>> import funcgrad as fg
    >>> optimizer, w = nadam(0.1), fg.tensor([3.0, -2.0])
    >>> state = optimizer.init(w)
    >>> for _ in range(200):
    ...     w, state = optimizer.step(2 * w, state, w)  # the gradient of the sum of squares
    >>> abs(w).max() < 1e-3
    Tensor(True)
    """
    direction = nadam_direction(b1, b2, eps, eps_root)
    return LeafRule("nadam", MomentsState, learning_rate, two_means, direction).optimizer()


def nadam_direction(b1: ArrayLike, b2: ArrayLike, eps: ArrayLike, eps_root: ArrayLike) -> Direction:
    """The direction of Nadam."""

    def direction(step: Step) -> Leafwise:
        n = step.count
        start1, ahead1, start2 = 1 - b1**n, 1 - b1 ** (n + 1), 1 - b2**n

        def of_leaf(g: Tensor, p: Tensor, mu: Tensor, nu: Tensor) -> tuple[Tensor, ...]:
            mu, nu = mean(b1, mu, g), mean(b2, nu, square(g))
            ahead = b1 * mu / scalar(ahead1, nu) + (1 - b1) * g / scalar(start1, nu)
            return ahead / (root(nu / scalar(start2, nu) + eps_root) + eps), mu, nu

        return of_leaf

    return direction


@making
def radam(
    learning_rate: LearningRate,
    b1: Share = 0.9,
    b2: Share = 0.999,
    eps: Size = 1e-8,
    eps_root: Size = 0.0,
    threshold: Size = 5.0,
) -> Optimizer[MomentsState]:
    """Rectified Adam: scale steps by how well the mean of squares is known.

    Adam's first steps divide by a mean of few squares, so they are often too long. ``radam`` starts
    with plain momentum, and lengthens its steps as the mean settles: it needs no warmup.

    Parameters
    ----------
    learning_rate, b1, b2, eps, eps_root
        See ``adam``.
    threshold : float or 0-d tensor
        The length k of the mean of squares from which on steps are divided by it. Shorter means are
        left out: the step follows the corrected mean of gradients.

    Notes
    -----
    With l = 2 / (1 - b2) - 1 and k = l - 2 n b2ⁿ / (1 - b2ⁿ), the direction of ``adam`` is
    multiplied by ``sqrt((k - 4) (k - 2) l / ((l - 4) (l - 2) k))`` if ``k >= threshold``. Liu and
    others, "On the variance of the adaptive learning rate and beyond", ICLR 2020, as in optax;
    PyTorch differs where ``eps`` matters.

    Examples
    --------
    >>> import funcgrad as fg
    >>> optimizer, w = radam(0.1), fg.tensor([3.0, -2.0])
    >>> state = optimizer.init(w)
    >>> for _ in range(200):
    ...     w, state = optimizer.step(2 * w, state, w)  # the gradient of the sum of squares
    >>> abs(w).max() < 1e-3
    Tensor(True)
    """

    def direction(step: Step) -> Leafwise:
        n = step.count
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

    return LeafRule("radam", MomentsState, learning_rate, two_means, direction).optimizer()


@making
def adamax(
    learning_rate: LearningRate, b1: Share = 0.9, b2: Share = 0.999, eps: Size = 1e-8
) -> Optimizer[MomentsState]:
    """AdaMax: divide Adam's mean by the largest recent gradient.

    The greatest magnitude replaces the root of the mean square. It suits gradients that are mostly
    zero, as embeddings have: a rare gradient is not divided by a mean that has nearly vanished.

    Parameters
    ----------
    learning_rate, b1
        See ``adam``.
    b2 : float or 0-d tensor
        The decay rate of the greatest magnitude, below 1.
    eps : float or 0-d tensor
        A number that is added to each magnitude.

    Notes
    -----
    With gradient g, rate r and steps n = 1, 2, ...::

        mu' = b1 mu + (1 - b1) g              nu' = max(b2 nu, |g| + eps)
        update = -r (mu' / (1 - b1ⁿ)) / nu'

    Kingma, Ba, "Adam: a method for stochastic optimization", ICLR 2015, section 7.1; optax and
    PyTorch agree.

    Examples
    --------
    >>> import funcgrad as fg
    >>> optimizer, w = adamax(0.1), fg.tensor([3.0, -2.0])
    >>> state = optimizer.init(w)
    >>> for _ in range(200):
    ...     w, state = optimizer.step(2 * w, state, w)  # the gradient of the sum of squares
    >>> abs(w).max() < 1e-3
    Tensor(True)
    """

    def direction(step: Step) -> Leafwise:
        start1 = 1 - b1**step.count

        def of_leaf(g: Tensor, p: Tensor, mu: Tensor, nu: Tensor) -> tuple[Tensor, ...]:
            mu, nu = mean(b1, mu, g), fnp.maximum(b2 * nu, abs(g) + eps)
            return mu / scalar(start1, nu) / nu, mu, nu

        return of_leaf

    return LeafRule("adamax", MomentsState, learning_rate, two_means, direction).optimizer()


@making
def adabelief(
    learning_rate: LearningRate,
    b1: Share = 0.9,
    b2: Share = 0.999,
    eps: Size = 1e-16,
    eps_root: Size = 1e-16,
) -> Optimizer[MomentsState]:
    """AdaBelief: Adam with longer steps where gradients are close to their mean.

    The mean of squares is taken of the gradients' deviations from their mean. So a steady gradient
    makes long steps, and a noisy gradient short steps.

    Parameters
    ----------
    learning_rate, b1, b2, eps
        See ``adam``.
    eps_root : float or 0-d tensor
        A number that each step adds to the mean square.

    Notes
    -----
    In the formula of ``adam`` the mean of squares is
    ``nu' = b2 nu + (1 - b2) |g - mu'|² + eps_root``. Zhuang and others, "AdaBelief optimizer:
    adapting stepsizes by the belief in observed gradients", NeurIPS 2020, as in optax; PyTorch has
    no AdaBelief.

    Examples
    --------
    >>> import funcgrad as fg
    >>> optimizer, w = adabelief(0.1), fg.tensor([3.0, -2.0])
    >>> state = optimizer.init(w)
    >>> for _ in range(200):
    ...     w, state = optimizer.step(2 * w, state, w)  # the gradient of the sum of squares
    >>> abs(w).max() < 1e-3
    Tensor(True)
    """

    def direction(step: Step) -> Leafwise:
        start1, start2 = 1 - b1**step.count, 1 - b2**step.count

        def of_leaf(g: Tensor, p: Tensor, mu: Tensor, nu: Tensor) -> tuple[Tensor, ...]:
            mu = mean(b1, mu, g)
            nu = mean(b2, nu, square(g - mu)) + eps_root
            return mu / scalar(start1, nu) / (root(nu / scalar(start2, nu)) + eps), mu, nu

        return of_leaf

    return LeafRule("adabelief", MomentsState, learning_rate, two_means, direction).optimizer()
