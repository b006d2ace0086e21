"""Means of the parameters over the steps of a run, which often generalize better than the last.

>>> from funcgrad.optim.sgd import sgd
>>> from funcgrad.tensor.tensor import tensor
>>> optimizer = average_params(sgd(1.0), decay=lambda count: count / (count + 1.0))
>>> params, state = tensor(9.0), optimizer.init(tensor(9.0))
>>> for gradient in (1.0, 2.0, 3.0):
...     params, state = optimizer.step(tensor(gradient), state, params)
>>> params, state.average.round(6)  # of 8, 6 and 3
(Tensor(3.0), Tensor(5.666667))
"""

from __future__ import annotations

from typing import Any

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.pytrees import pytree, unflatten
from funcgrad._hints.lookup import answering
from funcgrad.optim.base import (
    LearningRate,
    Optimizer,
    Pytree,
    aligned,
    apply_updates,
    check_number,
    check_optimizer,
    check_state,
    flatten_params,
    in_dtype,
    in_dtypes,
    making,
    rate_at,
    recorded,
    scalar,
    widened,
)
from funcgrad.optim.chain import check_named
from funcgrad.optim.evaluation import EvaluationState
from funcgrad.tensor.tensor import Tensor, tensor


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
        The product of all decays: the weight of what was before the first step, which the mean is
        corrected for.
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
    optimizer: Optimizer[Any], decay: LearningRate = 0.999
) -> Optimizer[AverageState]:
    """Keep a decaying mean of the parameters beside the steps of an optimizer.

    Parameters
    ----------
    optimizer : Optimizer
        It steps as it does alone.
    decay : float, 0-d tensor, or schedule
        The share of the mean so far in the next, below 1; or a function from the number of earlier
        steps to it. ``lambda count: count / (count + 1.0)`` gives all steps one weight.

    Returns
    -------
    Optimizer
        ``state.average`` is the mean, and ``eval_params(state, params)`` is it in the dtypes of the
        parameters.

    Raises
    ------
    ArgumentError
        ``decay`` is negative or not below 1.
    FunctionError
        ``optimizer`` is none.

    Notes
    -----
    Polyak, Juditsky, "Acceleration of stochastic approximation by averaging", SIAM J. Control
    Optim. 30, 1992; with one weight for all steps, Izmailov and others, "Averaging weights leads to
    wider optima and better generalization", UAI 2018. The mean is corrected for its start, so the
    parameters before the first step have no weight: it is that of ``optax.ema``, given parameters.
    PyTorch's ``AveragedModel`` starts at the parameters after the first step, and so gives them
    more weight.

    Put it around all else, since a mean is that of the parameters that its own updates make.

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
    check_optimizer("average_params", optimizer)
    if not callable(decay):
        check_number("average_params", "decay", decay, 1.0)
    return _Average(optimizer, decay).optimizer()


@dataclass(frozen=True, slots=True, eq=False)
class _Average:
    inner: Optimizer[Any]
    decay: LearningRate

    def optimizer(self) -> Optimizer[AverageState]:
        inner, operation = self.inner, "average_params.update"

        def init(params: Pytree) -> AverageState:
            leaves, structure = flatten_params(params, "average_params.init")
            average = unflatten(structure, [widened(leaf, leaf.dtype) for leaf in leaves])
            return AverageState(tensor(0), average, tensor(1.0), inner.init(params))

        def update(
            grads: Pytree, state: AverageState, params: Pytree, **values: Pytree
        ) -> tuple[Pytree, AverageState]:
            check_named(operation, values, inner.takes)
            check_state(state, AverageState, operation)
            leaves, structure = flatten_params(params, operation)
            before = aligned(state.average, "state.average", leaves, structure, operation)
            updates, following = inner.update(grads, state.inner, params, **values)
            updates = in_dtypes(updates, leaves, structure, operation)
            decay = recorded(rate_at(self.decay, state.count))
            forgotten = state.forgotten * decay
            remembered = 1.0 - forgotten
            is_any = remembered > 0.0
            share = fnp.where(is_any, (1.0 - decay) / fnp.where(is_any, remembered, 1.0), 1.0)
            moved = aligned(apply_updates(params, updates), "params", leaves, structure, operation)
            after = [
                in_dtype(old + scalar(share, old) * (new - old), old.dtype)
                for old, new in zip(before, moved, strict=True)
            ]
            average = unflatten(structure, after)
            return updates, AverageState(state.count + 1, average, forgotten, following)

        return Optimizer(init, answering(update, operation), inner.takes, self)
