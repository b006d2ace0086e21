"""Schedule-free learning: a mean of the places replaces a falling rate.

>>> from funcgrad.optim.parameter_means import eval_params
>>> from funcgrad.optim.sgd import sgd
>>> from funcgrad.tensor.tensor import tensor
>>> optimizer = schedule_free(sgd(0.5))
>>> params, state = tensor(4.0), optimizer.init(tensor(4.0))
>>> for _ in range(100):
...     params, state = optimizer.step(2.0 * params, state, params)
>>> abs(eval_params(state, params)) < 0.05
Tensor(True)
"""

from __future__ import annotations

from typing import Any

import funcgrad.numpy as fnp
from funcgrad._core.pytrees import pytree, unflatten
from funcgrad.errors import ArgumentError
from funcgrad.optim.base import (
    LearningRate,
    Optimizer,
    Pytree,
    flattened,
    in_dtype_of,
    mean,
    rate_at,
    recorded,
    unflattened,
    widened,
)
from funcgrad.optim.option_types import Share, Size, check_state, making
from funcgrad.optim.parameter_means import EvaluationState, records
from funcgrad.tensor.tensor import Tensor, tensor


@pytree(slots=True)
class ScheduleFreeState(EvaluationState):
    """The state of ``schedule_free``.

    Attributes
    ----------
    count : Tensor of int64
        The number of steps so far.
    x : pytree of tensors
        The weighted mean of all ``z``, to evaluate with; in float32 at least.
    z : pytree of tensors
        The place that the optimizer inside has moved to; in float32 at least.
    weight_sum : Tensor of float64
        The sum of the weights of all ``z``.
    max_rate, rate : Tensor of float64
        The greatest learning rate so far, and the last one; 0 before the first.
    inner : pytree
        The state of the optimizer inside.
    """

    count: Tensor
    x: Pytree
    z: Pytree
    weight_sum: Tensor
    max_rate: Tensor
    rate: Tensor
    inner: Any

    @property
    def evaluation(self) -> Pytree:
        """The mean."""
        return self.x


@making
def schedule_free(
    optimizer: Optimizer[Any],
    learning_rate: LearningRate | None = None,
    b1: Share = 0.9,
    weight_lr_power: Size = 2.0,
) -> Optimizer[ScheduleFreeState]:
    """Schedule-free: replace the learning-rate schedule by an average of the iterates.

    A falling rate needs the number of steps in advance. Here the mean settles instead, so a run may
    end, or go on, at any step. Put it around everything else, but inside of ``accumulate`` and
    ``apply_if_finite``.

    Parameters
    ----------
    optimizer : Optimizer
        A rule without momentum, such as ``sgd(rate)`` or ``adamw(rate, b1=0.0)``: the mean replaces
        momentum. The rate may rise first, as ``schedules.constant(rate, warmup=100)`` does, but it
        must not fall.
    learning_rate : float, 0-d tensor, or schedule, optional
        The rate that weights the iterates; by default the last rate of ``optimizer``, which its
        state holds.
    b1 : float or 0-d tensor
        The share of the mean in the parameters, below 1.
    weight_lr_power : float or 0-d tensor
        The weight of an iterate is the greatest rate so far to this power.

    Returns
    -------
    Optimizer
        The parameters that it steps are the points for gradients. To evaluate a model use
        ``eval_params(state, params)``.

    Raises
    ------
    ArgumentError
        ``learning_rate`` is missing, and the state of ``optimizer`` does not hold exactly one rate.

    Notes
    -----
    With the parameters y and the update u of the optimizer inside, for the gradient at y::

        z' = z + u      w = (greatest rate) ** weight_lr_power      c = w / (sum of all w)
        x' = (1 - c) x + c z'               y' = b1 x' + (1 - b1) z'

    Defazio and others, "The road less scheduled", NeurIPS 2024, as ``optax.contrib.schedule_free``.
    optax divides by ``b1`` to find x; here the state holds x, so half precision suffices, and
    ``b1`` may be 0. Counts of schedules start at 0 here, and at 1 there.

    Examples
    --------
    >>> from funcgrad import optim
    >>> from funcgrad.tensor.tensor import tensor
    >>> optimizer = optim.schedule_free(optim.adamw(0.1, b1=0.0))
    >>> params, state = optimizer.step(tensor(1.0), optimizer.init(tensor(1.0)), tensor(1.0))
    >>> state.x, state.rate
    (Tensor(0.89999), Tensor(0.1))
    """
    operation = "schedule_free.update"

    def init(params: Pytree) -> ScheduleFreeState:
        structure, leaves = flattened("schedule_free.init", params)
        place = unflatten(structure, [widened(leaf) for leaf in leaves])
        zero, state = tensor(0.0), optimizer.init(params)
        if learning_rate is None:
            _rate_in(state, "schedule_free.init")
        return ScheduleFreeState(tensor(0), place, place, zero, zero, zero, state)

    def update(
        grads: Pytree, state: ScheduleFreeState, params: Pytree, **values: Pytree
    ) -> tuple[Pytree, ScheduleFreeState]:
        check_state(operation, state, ScheduleFreeState, values, optimizer.takes)
        places = {"state.x": state.x, "state.z": state.z}
        structure, leaves, xs, zs = flattened(operation, params, places)
        updates, following = optimizer.update(grads, state.inner, params, **values)
        us = flattened(operation, params, {"updates": updates})[2]
        if learning_rate is None:
            rate = _rate_in(following, operation)
        else:
            rate = recorded(rate_at(learning_rate, state.count))
        most = fnp.maximum(state.max_rate, rate)
        weight = most**weight_lr_power
        total = state.weight_sum + weight
        share = fnp.where(total > 0.0, weight / fnp.where(total > 0.0, total, 1.0), 0.0)
        zs = [in_dtype_of(z + u, z) for z, u in zip(zs, us, strict=True)]
        xs = [mean(1.0 - share, x, z) for x, z in zip(xs, zs, strict=True)]
        steps = [
            in_dtype_of(mean(b1, x, z) - widened(y), y)
            for x, z, y in zip(xs, zs, leaves, strict=True)
        ]
        moves, x, z = unflattened(structure, [steps, xs, zs])
        count = state.count + 1
        return moves, ScheduleFreeState(count, x, z, total, most, rate, following)

    return Optimizer(init, update, optimizer.takes)


def _rate_in(state: Pytree, operation: str) -> Tensor:
    """The rate that a state holds; an error if it does not hold exactly one."""
    rates = [record.rate for record in records(state) if hasattr(record, "rate")]
    if len(rates) != 1:
        raise ArgumentError(
            f"{operation}: the state of the optimizer inside holds {len(rates)} learning rates."
            " Pass the rate that weights the iterates: schedule_free(optimizer,"
            " learning_rate=...)."
        )
    return recorded(rates[0])
