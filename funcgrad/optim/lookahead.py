"""Lookahead: some fast steps, and then a slow one to a place on the way.

>>> from funcgrad.optim.sgd import sgd
>>> from funcgrad.tensor.tensor import tensor
>>> optimizer = lookahead(sgd(1.0), sync_period=2, slow_step_size=0.5)
>>> params, state = tensor(8.0), optimizer.init(tensor(8.0))
>>> for _ in range(2):
...     params, state = optimizer.step(tensor(1.0), state, params)
...     print(float(params), float(state.slow))
7.0 8.0
7.0 7.0
"""

from __future__ import annotations

from typing import Any

import funcgrad.numpy as fnp
from funcgrad._core.pytrees import map, pytree, unflatten
from funcgrad.optim.base import (
    Optimizer,
    Pytree,
    flattened,
    in_dtype_of,
    in_dtypes_of,
    moved,
    scalar,
    unflattened,
    widened,
)
from funcgrad.optim.option_types import Count, Size, check_state, making
from funcgrad.optim.parameter_means import EvaluationState
from funcgrad.tensor.tensor import Tensor, tensor


@pytree(slots=True)
class LookaheadState(EvaluationState):
    """The state of ``lookahead``.

    Attributes
    ----------
    count : Tensor of int64
        The number of fast steps since the last slow one.
    slow : pytree of tensors
        The parameters after the last slow step, to evaluate with; in float32 at least.
    inner : pytree
        The state of the optimizer inside.
    """

    count: Tensor
    slow: Pytree
    inner: Any

    @property
    def evaluation(self) -> Pytree:
        """The slow parameters."""
        return self.slow


@making
def lookahead(
    optimizer: Optimizer[Any],
    sync_period: Count = 5,
    slow_step_size: Size = 0.5,
    reset_state: bool = False,
) -> Optimizer[LookaheadState]:
    """Lookahead: after some fast steps go part of the way back, and start again from there.

    The slow steps average the fast steps, so runs are steadier at large rates. Put ``lookahead``
    around everything else, since it counts on its updates.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer that makes the fast steps.
    sync_period : int
        How many fast steps make a slow one.
    slow_step_size : float or 0-d tensor
        The share of the way that a slow step goes, from where the fast steps began to their end.
    reset_state : bool
        Whether the optimizer inside starts anew after each slow step.

    Returns
    -------
    Optimizer
        The parameters that it steps are the fast ones. Its state holds the slow ones:
        ``eval_params(state, params)`` returns them in the dtypes of the parameters.

    Notes
    -----
    After ``sync_period`` fast steps from the slow parameters s to the fast parameters f::

        s' = s + slow_step_size (f - s)       f' = s'

    Zhang, Lucas, Hinton, Ba, "Lookahead optimizer: k steps forward, 1 step back", NeurIPS 2019, as
    in optax, where a pair holds both kinds of parameters.

    Examples
    --------
    >>> from funcgrad import optim
    >>> from funcgrad.tensor.tensor import tensor
    >>> optimizer = optim.lookahead(optim.adam(0.1), sync_period=1, slow_step_size=0.5)
    >>> optimizer.step(tensor(4.0), optimizer.init(tensor(1.0)), tensor(1.0))[0]
    Tensor(0.95)
    """
    operation = "lookahead.update"

    def init(params: Pytree) -> LookaheadState:
        structure, leaves = flattened("lookahead.init", params)
        slow = unflatten(structure, [widened(leaf) for leaf in leaves])
        return LookaheadState(tensor(0), slow, optimizer.init(params))

    def update(
        grads: Pytree, state: LookaheadState, params: Pytree, **values: Pytree
    ) -> tuple[Pytree, LookaheadState]:
        check_state(operation, state, LookaheadState, values, optimizer.takes)
        structure, leaves, slows = flattened(operation, params, {"state.slow": state.slow})
        updates, following = optimizer.update(grads, state.inner, params, **values)
        us = in_dtypes_of(leaves, flattened(operation, params, {"updates": updates})[2])
        count = state.count + 1
        is_last = count == sync_period

        def slow_step(slow: Tensor, fast: Tensor) -> Tensor:
            there = slow + scalar(slow_step_size, slow) * (fast - slow)
            return fnp.where(is_last, in_dtype_of(there, fast), slow)

        fasts = [widened(fast) for fast in moved(leaves, us)]
        after = [slow_step(slow, fast) for slow, fast in zip(slows, fasts, strict=True)]
        steps = [
            in_dtype_of(fnp.where(is_last, slow - widened(p), u), p)
            for slow, p, u in zip(after, leaves, us, strict=True)
        ]
        if reset_state:
            first = optimizer.init(params)
            following = map(lambda new, old: fnp.where(is_last, old, new), following, first)
        moves, slow = unflattened(structure, [steps, after])
        return moves, LookaheadState(fnp.where(is_last, 0, count), slow, following)

    return Optimizer(init, update, optimizer.takes)
