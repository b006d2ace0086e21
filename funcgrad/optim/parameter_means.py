"""Means of the parameters over the steps of a run, and parameters to evaluate a model with.

A mean of the parameters often generalizes better than the last parameters.

>>> from funcgrad.optim.sgd import sgd
>>> from funcgrad.tensor.tensor import tensor
>>> optimizer = average_params(sgd(1.0), decay=lambda count: count / (count + 1.0))
>>> params, state = tensor(9.0), optimizer.init(tensor(9.0))
>>> for gradient in (1.0, 2.0, 3.0):
...     params, state = optimizer.step(tensor(gradient), state, params)
>>> params, eval_params(state, params).round(6)  # the mean of 8, 6 and 3
(Tensor(3.0), Tensor(5.666667))
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import funcgrad.numpy as fnp
from funcgrad._core.pytrees import broadcast_prefix, pytree, unflatten
from funcgrad.errors import TreeError
from funcgrad.optim.base import (
    Optimizer,
    Parameters,
    Pytree,
    flattened,
    in_dtype,
    in_dtype_of,
    in_dtypes_of,
    moved,
    rate_at,
    recorded,
    scalar,
    unflattened,
    widened,
)
from funcgrad.optim.chain import ChainState
from funcgrad.optim.option_types import ShareOrSchedule, check_state, making
from funcgrad.optim.rule import Memory, memories_like
from funcgrad.tensor.tensor import Tensor, tensor


class EvaluationState:
    """A state that holds parameters to evaluate with."""

    __slots__ = ()

    @property
    @abstractmethod
    def evaluation(self) -> Pytree:
        """The parameters, in float32 at least."""


@pytree(slots=True)
class AverageState(EvaluationState):
    """The state of ``average_params``.

    Attributes
    ----------
    count : Tensor of int64
        The number of steps so far.
    average : pytree of tensors
        The mean of the parameters after each step; in float32 at least. Before the first step it is
        the parameters.
    forgotten : Tensor of float64
        The product of all decays: the weight of the first parameters, which the mean is corrected
        for.
    inner : pytree
        The state of the optimizer inside.
    """

    count: Tensor
    average: Pytree
    forgotten: Tensor
    inner: Any

    @property
    def evaluation(self) -> Pytree:
        """The mean."""
        return self.average


@making
def average_params(
    optimizer: Optimizer[Any], decay: ShareOrSchedule = 0.999
) -> Optimizer[AverageState]:
    """Keep an exponential moving average of the parameters beside an optimizer's steps.

    The steps do not change. The mean has less noise than the last parameters, and often predicts
    better: evaluate the model with it. Put ``average_params`` around everything else, since it
    averages the parameters after its own updates.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer that makes the steps.
    decay : float, 0-d tensor, or schedule
        The share of the mean so far in the next mean, below 1; or a function from the number of
        earlier steps to the share. ``lambda count: count / (count + 1.0)`` gives all steps the same
        weight.

    Returns
    -------
    Optimizer
        ``state.average`` is the mean. ``eval_params(state, params)`` returns the mean in the dtypes
        of the parameters.

    Notes
    -----
    With the parameters p after step n the mean becomes ``m' = decay m + (1 - decay) p``, divided by
    ``1 - decayⁿ``: so the parameters before the first step have the weight 0, as in ``optax.ema``
    of parameters. PyTorch's ``AveragedModel`` gives the first parameters more weight.

    Polyak, Juditsky, "Acceleration of stochastic approximation by averaging", SIAM J. Control
    Optim. 30, 1992; with one weight for all steps, Izmailov and others, "Averaging weights leads to
    wider optima and better generalization", UAI 2018.

    Examples
    --------
    >>> from funcgrad import optim
    >>> from funcgrad.tensor.tensor import tensor
    >>> optimizer = optim.average_params(optim.sgd(1.0), decay=0.5)
    >>> params, state = tensor(4.0), optimizer.init(tensor(4.0))
    >>> for _ in range(2):
    ...     params, state = optimizer.step(tensor(1.0), state, params)
    >>> params, state.average.round(3)  # (3 / 4 + 2 / 2) / (3 / 4)
    (Tensor(2.0), Tensor(2.333))
    """
    operation = "average_params.update"

    def init(params: Pytree) -> AverageState:
        structure, leaves = flattened("average_params.init", params)
        average = unflatten(structure, [widened(leaf) for leaf in leaves])
        return AverageState(tensor(0), average, tensor(1.0), optimizer.init(params))

    def update(
        grads: Pytree, state: AverageState, params: Pytree, **values: Pytree
    ) -> tuple[Pytree, AverageState]:
        check_state(operation, state, AverageState, values, optimizer.takes)
        means = {"state.average": state.average}
        structure, leaves, before = flattened(operation, params, means)
        updates, following = optimizer.update(grads, state.inner, params, **values)
        us = in_dtypes_of(leaves, flattened(operation, params, {"updates": updates})[2])
        share_kept = recorded(rate_at(decay, state.count))
        forgotten = state.forgotten * share_kept
        remembered = 1.0 - forgotten
        is_any = remembered > 0.0
        share = fnp.where(is_any, (1.0 - share_kept) / fnp.where(is_any, remembered, 1.0), 1.0)
        after = [
            in_dtype_of(old + scalar(share, old) * (widened(new) - old), old)
            for old, new in zip(before, moved(leaves, us), strict=True)
        ]
        moves, average = unflattened(structure, [us, after])
        return moves, AverageState(state.count + 1, average, forgotten, following)

    return Optimizer(init, update, optimizer.takes)


def eval_params(state: Pytree, params: Parameters) -> Parameters:
    """Return the parameters to evaluate a model with.

    Parameters
    ----------
    state : pytree
        The state of an optimizer in which there is ``average_params``, ``schedule_free`` or
        ``lookahead``, also inside ``chain``, ``partition`` and others. If one is around another,
        the outer one counts.
    params : pytree of tensors
        The parameters that belong to the state. Those of a ``partition`` that none of these
        optimizers moves are returned as they are.

    Returns
    -------
    pytree of tensors
        Parameters in the dtypes of ``params``.

    Raises
    ------
    TreeError
        The state has no such optimizer, or the parameters do not belong to it.

    Examples
    --------
    >>> from funcgrad import optim
    >>> from funcgrad.tensor.tensor import tensor
    >>> optimizer = optim.lookahead(optim.sgd(1.0), sync_period=2, slow_step_size=0.5)
    >>> params, state = optimizer.step(tensor(1.0), optimizer.init(tensor(4.0)), tensor(4.0))
    >>> params, optim.eval_params(state, params)
    (Tensor(3.0), Tensor(4.0))
    """
    structure, leaves = flattened("eval_params", params)
    chosen: list[Memory] = [None] * len(leaves)
    holders = [record for record in records(state) if isinstance(record, EvaluationState)]
    for holder in holders:
        tree, name = holder.evaluation, f"state.{type(holder).__name__}"
        means = broadcast_prefix(tree, structure, f"eval_params: {name}")
        # a partition has None where the parameters of other optimizers are
        places = [None if x is None else p for x, p in zip(means, leaves, strict=True)]
        means = memories_like(places, tree, name, structure, "eval_params")
        chosen = [x if x is not None else y for x, y in zip(chosen, means, strict=True)]
    if not holders:
        raise TreeError(
            "eval_params: nothing in the state holds parameters for evaluation. Put"
            " optim.average_params, optim.schedule_free or optim.lookahead around the optimizer."
        )
    pairs = zip(chosen, leaves, strict=True)
    return unflatten(
        structure, [leaf if x is None else in_dtype(x, leaf.dtype) for x, leaf in pairs]
    )


def records(state: Pytree) -> Iterator[Pytree]:
    """Yield a state, the states in it, those in them, and so on."""
    yield state
    inside = state.states if isinstance(state, ChainState) else [getattr(state, "inner", None)]
    for member in inside:
        if member is not None:
            yield from records(member)
