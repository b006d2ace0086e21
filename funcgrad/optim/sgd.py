"""Gradient descent, also with momentum.

>>> from funcgrad.tensor.tensor import tensor
>>> optimizer = sgd(0.5)
>>> updates, _ = optimizer.update([tensor(4.0)], optimizer.init([tensor(1.0)]), [tensor(1.0)])
>>> updates
[Tensor(-2.0)]
"""

from __future__ import annotations

from functools import partial

from funcgrad._core.pytrees import pytree
from funcgrad._core.users_values import ArrayLike
from funcgrad.optim.base import (
    LearningRate,
    Optimizer,
    Pytree,
    check_number,
    in_dtype,
    making,
    zeros,
)
from funcgrad.optim.rule import Leafwise, Moment, StepRule
from funcgrad.tensor.tensor import Tensor


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
    rate : Tensor of float64
        The learning rate of the last step; 0 before the first.
    """

    count: Tensor
    trace: Pytree
    rate: Tensor


@making
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
    >>> from funcgrad.tensor.tensor import tensor
    >>> optimizer = sgd(0.1, momentum=0.9)
    >>> state = optimizer.init(tensor(1.0))
    >>> updates, state = optimizer.update(tensor(1.0), state, tensor(1.0))
    >>> updates, state = optimizer.update(tensor(1.0), state, tensor(1.0))
    >>> updates
    Tensor(-0.19)
    """
    check_number("sgd", "momentum", momentum, below=1)
    has_momentum = isinstance(momentum, Tensor) or momentum != 0
    leafwise = partial(_momentum, momentum, bool(nesterov)) if has_momentum else _plain
    return StepRule("sgd", SgdState, learning_rate, leafwise, _trace).optimizer()


def _trace(p: Tensor) -> tuple[Tensor]:
    return (zeros(p),)


def _plain(moment: Moment) -> Leafwise:
    return lambda g, p, trace: (g, g)


def _momentum(momentum: ArrayLike, nesterov: bool, moment: Moment) -> Leafwise:
    def of_leaf(g: Tensor, p: Tensor, trace: Tensor) -> tuple[Tensor, Tensor]:
        trace = in_dtype(g + momentum * trace, g.dtype)
        return (g + momentum * trace if nesterov else trace), trace

    return of_leaf
