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
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.pytrees import leaves as tree_leaves
from funcgrad._core.pytrees import map, pytree, unflatten
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad.optim.base import (
    Optimizer,
    Pytree,
    aligned,
    apply_updates,
    check_number,
    check_optimizer,
    check_state,
    check_whole,
    flatten_params,
    in_dtype,
    in_dtypes,
    making,
    scalar,
    widened,
)
from funcgrad.optim.chain import check_named
from funcgrad.optim.evaluation import EvaluationState
from funcgrad.tensor.tensor import Tensor, tensor


@pytree(slots=True)
class LookaheadState(EvaluationState):
    """The state of ``lookahead``.

    Attributes
    ----------
    count : Tensor of int64
        The number of fast steps since the last slow one.
    slow : pytree of tensors
        The parameters after the last slow step, which are those to evaluate with; in float32 at
        least.
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
    sync_period: int = 5,
    slow_step_size: ArrayLike = 0.5,
    reset_state: bool = False,
) -> Optimizer[LookaheadState]:
    """Go back a part of the way after some steps, and start again from there.

    Parameters
    ----------
    optimizer : Optimizer
        It makes the fast steps.
    sync_period : int
        How many fast steps make a slow one.
    slow_step_size : float or 0-d tensor
        The share of the way that a slow step goes, from where the fast steps began to their end.
    reset_state : bool
        Whether the optimizer inside starts anew after each slow step.

    Returns
    -------
    Optimizer
        Its parameters are the fast ones, a tree like any; the slow ones are in its state, and
        ``eval_params(state, params)`` are they in the dtypes of the parameters.

    Raises
    ------
    ArgumentError
        ``sync_period`` is no integer above 0, or ``slow_step_size`` is negative.
    FunctionError
        ``optimizer`` is none.

    Notes
    -----
    Zhang, Lucas, Hinton, Ba, "Lookahead optimizer: k steps forward, 1 step back", NeurIPS 2019. The
    steps are those of ``optax.lookahead``, whose parameters are a pair of both kinds. Put it around
    all else, since it counts on its updates.

    Examples
    --------
    >>> from funcgrad import optim
    >>> from funcgrad.tensor.tensor import tensor
    >>> optimizer = optim.lookahead(optim.adam(0.1), sync_period=1, slow_step_size=0.5)
    >>> optimizer.step(tensor(4.0), optimizer.init(tensor(1.0)), tensor(1.0))[0]
    Tensor(0.95)
    """
    check_optimizer("lookahead", optimizer)
    check_whole("lookahead", "sync_period", sync_period)
    check_number("lookahead", "slow_step_size", slow_step_size)
    return _Lookahead(optimizer, sync_period, slow_step_size, bool(reset_state)).optimizer()


@dataclass(frozen=True, slots=True, eq=False)
class _Lookahead:
    inner: Optimizer[Any]
    period: int
    share: ArrayLike
    resets: bool

    def optimizer(self) -> Optimizer[LookaheadState]:
        inner, operation = self.inner, "lookahead.update"

        def init(params: Pytree) -> LookaheadState:
            leaves, structure = flatten_params(params, "lookahead.init")
            slow = unflatten(structure, [widened(leaf, leaf.dtype) for leaf in leaves])
            return LookaheadState(tensor(0), slow, inner.init(params))

        def update(
            grads: Pytree, state: LookaheadState, params: Pytree, **values: Pytree
        ) -> tuple[Pytree, LookaheadState]:
            check_named(operation, values, inner.takes)
            check_state(state, LookaheadState, operation)
            leaves, structure = flatten_params(params, operation)
            slows = aligned(state.slow, "state.slow", leaves, structure, operation)
            updates, following = inner.update(grads, state.inner, params, **values)
            updates = in_dtypes(updates, leaves, structure, operation)
            fast = aligned(apply_updates(params, updates), "params", leaves, structure, operation)
            count = state.count + 1
            is_last = count == self.period
            after = [
                fnp.where(
                    is_last, in_dtype(slow + scalar(self.share, slow) * (x - slow), x.dtype), slow
                )
                for slow, x in zip(slows, fast, strict=True)
            ]
            steps = [
                in_dtype(fnp.where(is_last, slow - widened(p, p.dtype), u), p.dtype)
                for slow, p, u in zip(after, leaves, tree_leaves(updates), strict=True)
            ]
            if self.resets:
                first = inner.init(params)
                following = map(lambda new, old: fnp.where(is_last, old, new), following, first)
            count = fnp.where(is_last, 0, count)
            slow = unflatten(structure, after)
            return unflatten(structure, steps), LookaheadState(count, slow, following)

        return Optimizer(init, answering(update, operation), inner.takes, self)
