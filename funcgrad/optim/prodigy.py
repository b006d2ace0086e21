"""Prodigy: Adam with a learning rate that is estimated along the way.

>>> from funcgrad.tensor.tensor import tensor
>>> optimizer, w = prodigy(), tensor([3.0, -2.0])
>>> state = optimizer.init(w)
>>> for _ in range(300):
...     w, state = optimizer.step(2 * w, state, w)  # the gradient of the sum of squares
>>> abs(w).max() < 0.01
Tensor(True)
"""

from __future__ import annotations

import funcgrad.numpy as fnp
from funcgrad._core.pytrees import pytree
from funcgrad.optim.base import (
    LearningRate,
    Optimizer,
    Pytree,
    flattened,
    in_dtype_of,
    in_dtypes_of,
    mean,
    rate_at,
    recorded,
    root,
    scalar,
    square,
    unflattened,
    widened,
    zeros,
)
from funcgrad.optim.option_types import Share, Size, check_state, making
from funcgrad.tensor.tensor import Tensor, tensor
from funcgrad.tree import vdot


@pytree(slots=True)
class ProdigyState:
    """The state of ``prodigy``.

    Attributes
    ----------
    count, rate : Tensor of int64, Tensor of float64
        The number of steps so far, and the last learning rate, without the estimate; 0 at first.
    mu, nu : pytree of tensors
        The decaying means of the gradients and of their squares, each gradient times the estimate.
    total : pytree of tensors
        The weighted sum of the gradients.
    start : pytree of tensors
        The first parameters.
    estimate : Tensor of float64
        The estimated distance from the start to the solution.
    gain : Tensor of float64
        The weighted sum of the products of gradients and the ways from the start.
    """

    count: Tensor
    mu: Pytree
    nu: Pytree
    total: Pytree
    start: Pytree
    estimate: Tensor
    gain: Tensor
    rate: Tensor


@making
def prodigy(
    learning_rate: LearningRate = 1.0,
    b1: Share = 0.9,
    b2: Share = 0.999,
    b3: Share | None = None,
    eps: Size = 1e-8,
    start: Size = 1e-6,
    growth: Size = 1.0,
    weight_decay: Size = 0.0,
    safeguard_warmup: bool = False,
) -> Optimizer[ProdigyState]:
    """Prodigy: Adam whose learning rate is an estimate of the distance to the solution.

    The learning rate needs no tuning: the estimate grows from a tiny start within some steps.

    Parameters
    ----------
    learning_rate : float, 0-d tensor, or schedule
        A factor of the estimate. Leave it at 1, or take a schedule that falls from 1 to 0.
    b1, b2, eps
        See ``adam``.
    b3 : float or 0-d tensor, optional
        The decay rate of the sums that give the estimate; by default the root of ``b2``.
    start : float
        The first estimate, which should be too small.
    growth : float or 0-d tensor
        A factor of all later estimates.
    weight_decay : float or 0-d tensor
        The fraction of each parameter that a step subtracts, times the rate.
    safeguard_warmup : bool
        Whether the sum of gradients leaves out the rate, for schedules with a warmup.

    Notes
    -----
    Mishchenko, Defazio, "Prodigy: an expeditiously adaptive parameter-free learner", ICML 2024, as
    ``optax.contrib.prodigy``, whose options are ``betas=(b1, b2)``, ``beta3``, ``estim_lr0`` and
    ``estim_lr_coef``.

    Examples
    --------
    >>> from funcgrad import optim
    >>> optimizer = optim.prodigy(optim.schedules.cosine(1.0, 0.0, steps=1000))
    """
    decay = fnp.sqrt(b2) if b3 is None else b3
    operation = "prodigy.update"

    def init(params: Pytree) -> ProdigyState:
        structure, leaves = flattened("prodigy.init", params)
        wide = [widened(leaf) for leaf in leaves]
        none = [zeros(leaf) for leaf in wide]
        squares = [zeros(leaf, real=True) for leaf in wide]
        mu, nu, total, first = unflattened(structure, [none, squares, none, wide])
        zero = tensor(0.0)
        return ProdigyState(tensor(0), mu, nu, total, first, recorded(start), zero, zero)

    def update(grads: Pytree, state: ProdigyState, params: Pytree) -> tuple[Pytree, ProdigyState]:
        check_state(operation, state, ProdigyState)
        memories = {
            f"state.{name}": getattr(state, name) for name in ("mu", "nu", "total", "start")
        }
        structure, leaves, gs, mus, nus, totals, firsts = flattened(
            operation, params, {"grads": grads}, memories
        )
        wide = [widened(leaf) for leaf in leaves]
        n, before = state.count + 1, state.estimate
        factor = rate_at(learning_rate, state.count)
        rate = before * factor * fnp.sqrt(1 - b2**n) / (1 - b1**n)
        way = [first - p for first, p in zip(firsts, wide, strict=True)]
        gain = decay * state.gain + before / start * rate * vdot(gs, way).real.astype(float)
        share = before * before / start if safeguard_warmup else rate * before / start
        moves, after = [], []
        for g, total in zip(gs, totals, strict=True):
            after.append(in_dtype_of(scalar(decay, total) * total + scalar(share, g) * g, total))
        size = fnp.sum(fnp.stack([fnp.sum(abs(x)).astype(float) for x in after] or [tensor(0.0)]))
        # Without any gradient so far there is nothing to learn from.
        guess = fnp.where(size == 0, 0.0, growth * gain / fnp.where(size == 0, 1.0, size))
        estimate = fnp.maximum(before, guess)
        for place, (g, p) in enumerate(zip(gs, wide, strict=True)):
            scaled = scalar(before, g) * g
            mus[place] = mean(b1, mus[place], scaled)
            nus[place] = mean(b2, nus[place], square(scaled))
            spread = root(nus[place]) + scalar(estimate * eps, p)
            moves.append(-scalar(rate, p) * (weight_decay * p + mus[place] / spread))
        trees = unflattened(structure, [in_dtypes_of(leaves, moves), mus, nus, after, firsts])
        updates, mu, nu, total, first = trees
        rate_now = recorded(factor)
        return updates, ProdigyState(n, mu, nu, total, first, estimate, gain, rate_now)

    return Optimizer(init, update)
