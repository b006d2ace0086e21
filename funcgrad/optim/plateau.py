"""Smaller steps where a value has stopped to improve.

>>> from funcgrad.optim.chain import chain
>>> from funcgrad.optim.sgd import sgd
>>> from funcgrad.tensor.tensor import tensor
>>> optimizer = chain(sgd(1.0), plateau=reduce_on_plateau(factor=0.5, patience=2))
>>> params, state = tensor(0.0), optimizer.init(tensor(0.0))
>>> for value in (3.0, 2.0, 2.0, 2.0):
...     params, state = optimizer.step(tensor(1.0), state, params, value=value)
>>> params, state.plateau.scale
(Tensor(-3.5), Tensor(0.5))
"""

from __future__ import annotations

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.pytrees import pytree, unflatten
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad.errors import ArgumentError
from funcgrad.optim.base import (
    Optimizer,
    Pytree,
    aligned,
    check_number,
    check_numbers,
    check_state,
    flatten_params,
    in_dtype,
    making,
    one_value,
    scalar,
)
from funcgrad.tensor.tensor import Tensor, tensor


@pytree(slots=True)
class ReduceOnPlateauState:
    """The state of ``reduce_on_plateau``.

    Attributes
    ----------
    scale : Tensor of float64
        What the last gradients were multiplied by; 1 before the first.
    best_value : Tensor of float64
        The least mean of ``accumulation_size`` values; infinite before the first.
    plateau_count, cooldown_count : Tensor of int64
        How many means in a row were no better, and how many will not be counted.
    count : Tensor of int64
        How many values the mean in the making holds.
    avg_value : Tensor of float64
        The mean of these.
    """

    scale: Tensor
    best_value: Tensor
    plateau_count: Tensor
    cooldown_count: Tensor
    count: Tensor
    avg_value: Tensor


@making
def reduce_on_plateau(
    factor: ArrayLike = 0.1,
    patience: ArrayLike = 10,
    rtol: ArrayLike = 1e-4,
    atol: ArrayLike = 0.0,
    cooldown: ArrayLike = 0,
    accumulation_size: ArrayLike = 1,
    min_scale: ArrayLike = 0.0,
) -> Optimizer[ReduceOnPlateauState]:
    """Multiply updates by a number that falls where a value does not improve.

    Put it after a rule in a ``chain``. ``update`` and ``step`` take the ``value`` by name, such as
    the loss of the step, or of data for validation.

    Parameters
    ----------
    factor : float or 0-d tensor
        What the scale is multiplied by, between 0 and 1.
    patience : int or 0-d tensor
        After how many values without an improvement.
    rtol, atol : float or 0-d tensor
        A value is better if it is below the best by more than ``rtol`` times that and ``atol``.
    cooldown : int or 0-d tensor
        How many values after that are not counted.
    accumulation_size : int or 0-d tensor
        How many values make a mean, which is counted as one value: more for losses of batches.
    min_scale : float or 0-d tensor
        The least scale.

    Returns
    -------
    Optimizer

    Raises
    ------
    ArgumentError
        A number is out of bounds, both tolerances are 0, or ``update`` is called without
        ``value=``.

    Notes
    -----
    As ``optax.contrib.reduce_on_plateau``; but where the best value is negative, the tolerance is
    ``rtol`` times its magnitude, while optax and PyTorch take a somewhat worse value for a better
    one. NaN and infinity are no improvement.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> change = reduce_on_plateau(factor=0.5, patience=1)
    >>> state = change.init(tensor(0.0))
    >>> for value in (1.0, 1.0):
    ...     update, state = change.update(tensor(4.0), state, tensor(0.0), value=value)
    >>> update
    Tensor(2.0)
    """
    check_number("reduce_on_plateau", "factor", factor, 1.0)
    check_numbers("reduce_on_plateau", patience=patience, rtol=rtol, atol=atol, cooldown=cooldown)
    check_numbers("reduce_on_plateau", accumulation_size=accumulation_size, min_scale=min_scale)
    known = {
        name: option
        for name, option in (
            ("factor", factor),
            ("patience", patience),
            ("accumulation_size", accumulation_size),
        )
        if not isinstance(option, Tensor)
    }
    for name, option in known.items():
        if option == 0:
            raise ArgumentError(f"reduce_on_plateau: {name} has to be above 0, got {option!r}.")
    if not isinstance(rtol, Tensor) and not isinstance(atol, Tensor) and rtol == 0 == atol:
        raise ArgumentError(
            "reduce_on_plateau: rtol or atol has to be above 0: without a tolerance, rounding is an"
            " improvement."
        )
    if not isinstance(rtol, Tensor) and rtol > 1:
        raise ArgumentError(f"reduce_on_plateau: rtol has to be 1 at most, got {rtol!r}.")
    return _Plateau(
        factor, patience, rtol, atol, cooldown, accumulation_size, min_scale
    ).optimizer()


@dataclass(frozen=True, slots=True, eq=False)
class _Plateau:
    factor: ArrayLike
    patience: ArrayLike
    rtol: ArrayLike
    atol: ArrayLike
    cooldown: ArrayLike
    size: ArrayLike
    least: ArrayLike

    def optimizer(self) -> Optimizer[ReduceOnPlateauState]:
        operation = "reduce_on_plateau.update"

        def init(params: Pytree) -> ReduceOnPlateauState:
            flatten_params(params, "reduce_on_plateau.init")
            none = tensor(0)
            return ReduceOnPlateauState(tensor(1.0), tensor(np.inf), none, none, none, tensor(0.0))

        def update(
            grads: Pytree,
            state: ReduceOnPlateauState,
            params: Pytree,
            value: ArrayLike | None = None,
        ) -> tuple[Pytree, ReduceOnPlateauState]:
            call = "step(grads, state, params, value=loss(params))"
            number = one_value(value, operation, call)
            check_state(state, ReduceOnPlateauState, operation)
            leaves, structure = flatten_params(params, operation)
            gs = aligned(grads, "grads", leaves, structure, operation)
            following = self._following(state, number)
            scaled = [g * scalar(following.scale, g) for g in gs]
            return unflatten(structure, scaled), following

        return Optimizer(init, answering(update, operation), ("value",), self)

    def _following(self, state: ReduceOnPlateauState, value: Tensor) -> ReduceOnPlateauState:
        count = state.count + 1
        average = state.avg_value + (value - state.avg_value) / count
        is_full = count >= self.size
        best = state.best_value
        bound = best - self.rtol * abs(fnp.where(fnp.isinf(best), 0.0, best)) - self.atol
        is_better = is_full & (average < bound)
        waited = fnp.where(is_better, 0, state.plateau_count + 1)
        is_cool = state.cooldown_count > 0
        is_due = ~is_cool & (waited >= self.patience)
        reduced = fnp.maximum(fnp.where(is_due, state.scale * self.factor, state.scale), self.least)
        cooling = fnp.where(is_cool, state.cooldown_count - 1, fnp.where(is_due, self.cooldown, 0))
        chosen = (
            (reduced, state.scale),
            (fnp.where(is_better, average, best), best),
            (fnp.where(is_cool | is_due, 0, waited), state.plateau_count),
            (cooling, state.cooldown_count),
            (0, count),
            (0.0, average),
        )
        return ReduceOnPlateauState(
            *(in_dtype(fnp.where(is_full, new, old), old.dtype) for new, old in chosen)
        )
