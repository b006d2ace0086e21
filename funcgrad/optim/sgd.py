"""Gradient descent, also with momentum.

>>> from funcgrad.tensor import tensor
>>> optimizer = sgd(0.5)
>>> updates, _ = optimizer.update([tensor(4.0)], optimizer.init([tensor(1.0)]), [tensor(1.0)])
>>> updates
[Tensor(-2.0)]
"""

from __future__ import annotations

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
    working_dtype,
    zeros_like,
)
from funcgrad.tensor import Tensor, tensor
from funcgrad.trees import pytree, unflatten
from funcgrad.users_values import ArrayLike


@pytree(slots=True)
class SgdState:
    """The state of ``sgd``.

    Attributes
    ----------
    count : Tensor of int64
        The number of steps so far.
    trace : pytree of tensors
        The sum of past gradients, each weighted by ``momentum`` to the power of its age; a tree
        like the parameters, in float32 at least. Without momentum it is the last gradient.
    """

    count: Tensor
    trace: Pytree


@answering
def sgd(
    learning_rate: LearningRate, momentum: ArrayLike = 0.0, nesterov: bool = False
) -> Optimizer[SgdState]:
    """Gradient descent.

    Parameters
    ----------
    learning_rate : float, 0-d tensor, or schedule
        A schedule is a function from the number of earlier steps, a tensor, to the rate.
    momentum : float or 0-d tensor
        The decay rate of past gradients, below 1.
    nesterov : bool
        Whether to use Nesterov's momentum, which adds the momentum once more.

    Returns
    -------
    Optimizer

    Raises
    ------
    ArgumentError
        A number is negative, or the momentum is not below 1.

    Notes
    -----
    With gradient g, trace t, rate r and momentum m::

        t' = g + m t
        update = -r t'            or with Nesterov's momentum  -r (g + m t')

    See Sutskever, Martens, Dahl, Hinton, "On the importance of initialization and momentum in deep
    learning", ICML 2013; here the rate scales the whole update. Without momentum the state has a
    trace too, so that its structure is always the same; it is the gradient, and costs no
    arithmetic.

    Examples
    --------
    >>> optimizer = sgd(0.1, momentum=0.9)
    >>> state = optimizer.init(tensor(1.0))
    >>> updates, state = optimizer.update(tensor(1.0), state, tensor(1.0))
    >>> updates, state = optimizer.update(tensor(1.0), state, tensor(1.0))
    >>> updates
    Tensor(-0.19)
    """
    check_rate(learning_rate, "sgd")
    check_number("sgd", "momentum", momentum, below=1)
    has_momentum = isinstance(momentum, Tensor) or momentum != 0

    def init(params: Pytree) -> SgdState:
        leaves, structure = flatten_params(params, "sgd.init")
        traces = [zeros_like(leaf, working_dtype(leaf.dtype)) for leaf in leaves]
        return SgdState(tensor(0), unflatten(structure, traces))

    def update(grads: Pytree, state: SgdState, params: Pytree) -> tuple[Pytree, SgdState]:
        check_state(state, SgdState, "sgd.update")
        leaves, structure = flatten_params(params, "sgd.update")
        gs = aligned(grads, "grads", leaves, structure, "sgd.update")
        traces = aligned(state.trace, "state.trace", leaves, structure, "sgd.update")
        directions = traces = [
            in_dtype(g + momentum * trace, g.dtype) if has_momentum else g
            for g, trace in zip(gs, traces, strict=True)
        ]
        if nesterov and has_momentum:
            directions = [g + momentum * trace for g, trace in zip(gs, traces, strict=True)]
        rate = rate_at(learning_rate, state.count)
        updates = [
            in_dtype(-rate * direction, leaf.dtype)
            for direction, leaf in zip(directions, leaves, strict=True)
        ]
        following = SgdState(state.count + 1, unflatten(structure, traces))
        return unflatten(structure, updates), following

    return Optimizer(init, answering(update, "sgd.update"))
