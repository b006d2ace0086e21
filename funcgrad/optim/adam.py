"""Adam and AdamW: steps whose size is learned for each parameter.

>>> from funcgrad.tensor import tensor
>>> optimizer = adam(0.1)
>>> updates, _ = optimizer.update([tensor(4.0)], optimizer.init([tensor(1.0)]), [tensor(1.0)])
>>> updates
[Tensor(-0.1)]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcgrad.errors import DtypeError
from funcgrad.foreign_names import answering
from funcgrad.optim.base import (
    LearningRate,
    Optimizer,
    Pytree,
    aligned,
    check_number,
    check_rate,
    check_state,
    flatten_params,
    in_dtype,
    rate_at,
    widened,
    working_dtype,
    zeros_like,
)
from funcgrad.primitives.transcendental import sqrt
from funcgrad.tensor import Tensor, apply1, tensor
from funcgrad.trees import Structure, broadcast_prefix, pytree, unflatten
from funcgrad.users_values import ArrayLike


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
    """

    count: Tensor
    mu: Pytree
    nu: Pytree


@answering
def adam(
    learning_rate: LearningRate,
    b1: ArrayLike = 0.9,
    b2: ArrayLike = 0.999,
    eps: ArrayLike = 1e-8,
    eps_root: ArrayLike = 0.0,
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
    >>> params = {"w": tensor([1.0, -2.0])}
    >>> optimizer = adam(0.1)
    >>> grads = {"w": tensor([5.0, -7.0])}
    >>> updates, state = optimizer.update(grads, optimizer.init(params), params)
    >>> updates
    {'w': Tensor([-0.1,  0.1])}
    """
    return _adam("adam", learning_rate, b1, b2, eps, eps_root)


@answering
def adamw(
    learning_rate: LearningRate,
    b1: ArrayLike = 0.9,
    b2: ArrayLike = 0.999,
    eps: ArrayLike = 1e-8,
    eps_root: ArrayLike = 0.0,
    weight_decay: ArrayLike = 1e-4,
    mask: Pytree | Callable[[Pytree], Pytree] = None,
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
    >>> params = {"w": tensor(2.0), "b": tensor(2.0)}
    >>> optimizer = adamw(0.1, weight_decay=0.5, mask={"w": True, "b": False})
    >>> grads = {"w": tensor(0.0), "b": tensor(0.0)}
    >>> updates, state = optimizer.update(grads, optimizer.init(params), params)
    >>> float(updates["w"]), float(updates["b"])
    (-0.1, -0.0)
    """
    check_number("adamw", "weight_decay", weight_decay)
    return _adam("adamw", learning_rate, b1, b2, eps, eps_root, weight_decay, mask)


def _adam(
    name: str,
    learning_rate: LearningRate,
    b1: ArrayLike,
    b2: ArrayLike,
    eps: ArrayLike,
    eps_root: ArrayLike,
    weight_decay: ArrayLike | None = None,
    mask: Pytree | Callable[[Pytree], Pytree] = None,
) -> Optimizer[AdamState]:
    check_rate(learning_rate, name)
    check_number(name, "b1", b1, below=1)
    check_number(name, "b2", b2, below=1)
    check_number(name, "eps", eps)
    check_number(name, "eps_root", eps_root)

    def init(params: Pytree) -> AdamState:
        leaves, structure = flatten_params(params, f"{name}.init")
        mu = [zeros_like(leaf, working_dtype(leaf.dtype)) for leaf in leaves]
        nu = [zeros_like(leaf, _real(working_dtype(leaf.dtype))) for leaf in leaves]
        return AdamState(tensor(0), unflatten(structure, mu), unflatten(structure, nu))

    def update(grads: Pytree, state: AdamState, params: Pytree) -> tuple[Pytree, AdamState]:
        operation = f"{name}.update"
        check_state(state, AdamState, operation)
        leaves, structure = flatten_params(params, operation)
        gs = aligned(grads, "grads", leaves, structure, operation)
        mu = aligned(state.mu, "state.mu", leaves, structure, operation)
        nu = aligned(state.nu, "state.nu", leaves, structure, operation)
        mu = [in_dtype(b1 * m + (1 - b1) * g, g.dtype) for m, g in zip(mu, gs, strict=True)]
        nu = [
            in_dtype(b2 * in_dtype(v, _real(g.dtype)) + (1 - b2) * _square(g), _real(g.dtype))
            for v, g in zip(nu, gs, strict=True)
        ]
        count = state.count + 1
        start1, start2 = 1 - b1**count, 1 - b2**count
        directions = [
            (m / in_dtype(start1, v.dtype))
            / (apply1(sqrt, v / in_dtype(start2, v.dtype) + eps_root) + eps)
            for m, v in zip(mu, nu, strict=True)
        ]
        if weight_decay is not None:
            directions = [
                direction + weight_decay * widened(leaf, leaf.dtype) if decays else direction
                for direction, leaf, decays in zip(
                    directions, leaves, _decaying(mask, params, structure), strict=True
                )
            ]
        rate = rate_at(learning_rate, state.count)
        updates = [
            in_dtype(-rate * direction, leaf.dtype)
            for direction, leaf in zip(directions, leaves, strict=True)
        ]
        following = AdamState(count, unflatten(structure, mu), unflatten(structure, nu))
        return unflatten(structure, updates), following

    return Optimizer(init, answering(update, f"{name}.update"))


def _real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a number's real part."""
    return np.dtype(dtype.char.lower()) if dtype.kind == "c" else dtype


def _square(g: Tensor) -> Tensor:
    """The squared absolute value."""
    return g.real * g.real + g.imag * g.imag if g.dtype.kind == "c" else g * g


def _decaying(
    mask: Pytree | Callable[[Pytree], Pytree], params: Pytree, structure: Structure
) -> list[bool]:
    """For each parameter, whether it decays."""
    if mask is None:
        return [True] * structure.num_leaves
    flags = broadcast_prefix(mask(params) if callable(mask) else mask, structure, "mask")
    for flag, path in zip(flags, structure.paths(), strict=True):
        if not isinstance(flag, (bool, np.bool_)):
            raise DtypeError(f"adamw: mask at params{path} has to be True or False, got {flag!r}.")
    return flags
