"""Noise that is added to gradients, less with every step.

>>> from funcgrad.tensor.tensor import tensor
>>> change = noise(eta=0.01, gamma=0.55, key=tensor([0, 7], dtype="uint64"))
>>> updates, state = change.update(tensor([1.0]), change.init(tensor([1.0])), tensor([1.0]))
>>> abs(updates - 1.0) < 0.4, state.scale.round(6)
(Tensor([ True]), Tensor(0.1))
"""

from __future__ import annotations

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.pytrees import pytree, unflatten
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad.optim.base import (
    Optimizer,
    Pytree,
    aligned,
    check_numbers,
    check_state,
    flatten_params,
    making,
    recorded,
    scalar,
)
from funcgrad.random.philox import as_key, folded_key, standard_normal
from funcgrad.tensor.tensor import Tensor, tensor


@pytree(slots=True)
class NoiseState:
    """The state of ``noise``.

    Attributes
    ----------
    count : Tensor of int64
        The number of steps so far.
    key : Tensor of uint64, shape (2,)
        The key of the next step.
    scale : Tensor of float64
        The standard deviation of the last noise; 0 before the first.
    """

    count: Tensor
    key: Tensor
    scale: Tensor


@making
def noise(eta: ArrayLike, gamma: ArrayLike, key: ArrayLike) -> Optimizer[NoiseState]:
    """Add normal noise to gradients, whose variance falls with the number of steps.

    Parameters
    ----------
    eta : float or 0-d tensor
        The variance of the noise of the first step.
    gamma : float or 0-d tensor
        In step n the variance is ``eta / n ** gamma``.
    key : key
        A key of ``fg.random``; the state holds the next, so runs of one key are the same.

    Returns
    -------
    Optimizer
        It does not descend: put it before a rule.

    Raises
    ------
    ArgumentError
        A number is negative.
    DtypeError, ShapeError
        The key is none.

    Notes
    -----
    Neelakantan and others, "Adding gradient noise improves learning for very deep networks", 2015,
    as ``optax.add_noise``, with other random numbers. The variance of a complex number is that of
    its distance from the mean, half of it in each part.

    Examples
    --------
    >>> from funcgrad import optim, random
    >>> from funcgrad.tensor.tensor import tensor
    >>> optimizer = optim.chain(optim.noise(1e-4, 0.55, random.key(0)), optim.sgd(0.1))
    >>> params, state = optimizer.step(tensor(1.0), optimizer.init(tensor(1.0)), tensor(1.0))
    >>> abs(params - 0.9) < 0.01, state[0].count
    (Tensor(True), Tensor(1))
    """
    check_numbers("noise", eta=eta, gamma=gamma)
    as_key(key, "noise")
    return _Noise(eta, gamma, tensor(key)).optimizer()


@dataclass(frozen=True, slots=True, eq=False)
class _Noise:
    eta: ArrayLike
    gamma: ArrayLike
    key: Tensor

    def optimizer(self) -> Optimizer[NoiseState]:
        operation = "noise.update"

        def init(params: Pytree) -> NoiseState:
            flatten_params(params, "noise.init")
            return NoiseState(tensor(0), self.key, tensor(0.0))

        def update(grads: Pytree, state: NoiseState, params: Pytree) -> tuple[Pytree, NoiseState]:
            check_state(state, NoiseState, operation)
            leaves, structure = flatten_params(params, operation)
            gs = aligned(grads, "grads", leaves, structure, operation)
            count = state.count + 1
            scale = recorded(fnp.sqrt(self.eta / (1.0 * count) ** self.gamma))
            noisy = []
            for place, g in enumerate(gs):
                key = folded_key(state.key, place + 1, operation)
                noisy.append(
                    g + scalar(scale, g) * standard_normal(key, g.shape, g.dtype, operation)
                )
            following = folded_key(state.key, 0, operation)
            return unflatten(structure, noisy), NoiseState(count, following, scale)

        return Optimizer(init, answering(update, operation), (), self)
