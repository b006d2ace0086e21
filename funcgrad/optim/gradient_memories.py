"""Changes of gradients that remember earlier steps: trace, ema, noise and reduce_on_plateau.

>>> from funcgrad.optim.chain import chain
>>> from funcgrad.optim.sgd import sgd
>>> from funcgrad.tensor.tensor import tensor
>>> optimizer = chain(trace(0.5), sgd(1.0))
>>> params, state = tensor(0.0), optimizer.init(tensor(0.0))
>>> for _ in range(2):
...     params, state = optimizer.step(tensor(1.0), state, params)
>>> params
Tensor(-2.5)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.pytrees import pytree, unflatten
from funcgrad._core.users_values import ArrayLike
from funcgrad.errors import ArgumentError
from funcgrad.optim.base import (
    Optimizer,
    Pytree,
    State,
    flattened,
    in_dtype_of,
    mean,
    recorded,
    scalar,
    unflattened,
    widened,
    zeros,
)
from funcgrad.optim.option_types import Share, Size, check_state, making, one_value
from funcgrad.random.philox import as_key, folded_key, standard_normal
from funcgrad.tensor.tensor import Tensor, tensor

Remembering: TypeAlias = Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""From a step's number, a gradient and its memory to another gradient and the next memory."""


@pytree(slots=True)
class TraceState:
    """The state of ``trace``.

    Attributes
    ----------
    count : Tensor of int64
        The number of steps so far.
    trace : pytree of tensors
        The sum of past gradients, weighted by ``decay`` to the power of their age; in float32 at
        least.
    """

    count: Tensor
    trace: Pytree


@pytree(slots=True)
class EmaState:
    """The state of ``ema``.

    Attributes
    ----------
    count : Tensor of int64
        The number of steps so far.
    ema : pytree of tensors
        The decaying mean of the gradients, not yet corrected for its start at zero; in float32 at
        least.
    """

    count: Tensor
    ema: Pytree


@making
def trace(decay: Share, nesterov: bool = False) -> Optimizer[TraceState]:
    """Replace gradients by the decaying sum of all gradients so far: momentum.

    ``trace`` does not descend: put it before a rule, or ``scale(-rate)`` after it.
    ``chain(trace(m), sgd(rate))`` is ``sgd(rate, m)``.

    Parameters
    ----------
    decay : float or 0-d tensor
        The factor of the sum in a step, below 1.
    nesterov : bool
        Whether to use Nesterov's momentum, which adds the momentum once more.

    Notes
    -----
    With gradient g the trace becomes ``t' = g + decay t``. The update is t', or ``g + decay t'``
    with Nesterov's momentum, as ``optax.trace``.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> change = trace(0.5)
    >>> state = change.init(tensor(0.0))
    >>> _, state = change.update(tensor(4.0), state, tensor(0.0))
    >>> change.update(tensor(1.0), state, tensor(0.0))[0]
    Tensor(3.0)
    """

    def change(count: Tensor, g: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        after = in_dtype_of(g + decay * before, before)
        return (g + scalar(decay, g) * after if nesterov else after), after

    return _remembering("trace", TraceState, change)


@making
def ema(decay: Share, debias: bool = True) -> Optimizer[EmaState]:
    """Replace gradients by their exponential moving average.

    The mean has less noise than one gradient. ``ema`` does not descend: put it before or after a
    rule. For a mean of parameters see ``average_params``.

    Parameters
    ----------
    decay : float or 0-d tensor
        The share of the mean so far in the next, below 1.
    debias : bool
        Whether to correct the mean for its start at zero.

    Notes
    -----
    With gradient g the mean becomes ``m' = decay m + (1 - decay) g``, and the update of step n is
    ``m' / (1 - decay ** n)``, or m' without ``debias``, as ``optax.ema``.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> change = ema(0.5)
    >>> state = change.init(tensor(0.0))
    >>> first, state = change.update(tensor(3.0), state, tensor(0.0))
    >>> second, state = change.update(tensor(6.0), state, tensor(0.0))
    >>> first, second, state.ema
    (Tensor(3.0), Tensor(5.0), Tensor(3.75))
    """

    def change(count: Tensor, g: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        after = mean(decay, before, g)
        return (after / scalar(1 - decay**count, after.real) if debias else after), after

    return _remembering("ema", EmaState, change)


def _remembering(name: str, kind: type[State], change: Remembering) -> Optimizer[State]:
    """Make an optimizer that changes each gradient by one memory, the field ``name`` of a state."""

    def init(params: Pytree) -> State:
        structure, leaves = flattened(f"{name}.init", params)
        starts = unflatten(structure, [zeros(widened(leaf)) for leaf in leaves])
        return kind(tensor(0), starts)  # type: ignore[call-arg]

    def update(grads: Pytree, state: Pytree, params: Pytree) -> tuple[Pytree, State]:
        operation = f"{name}.update"
        check_state(operation, state, kind)
        memory = {f"state.{name}": getattr(state, name)}
        structure, _, gs, before = flattened(operation, params, {"grads": grads}, memory)
        count = state.count + 1
        pairs = [change(count, g, old) for g, old in zip(gs, before, strict=True)]
        columns = [[pair[place] for pair in pairs] for place in (0, 1)]
        updates, after = unflattened(structure, columns)
        return updates, kind(count, after)  # type: ignore[call-arg]

    return Optimizer(init, update)


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
def noise(eta: Size, gamma: Size, key: ArrayLike) -> Optimizer[NoiseState]:
    """Add normal noise to gradients; its variance falls with the number of steps.

    Noise helps very deep networks out of bad regions early in a run. ``noise`` does not descend:
    put it before an optimizer such as ``sgd``.

    Parameters
    ----------
    eta : float or 0-d tensor
        The variance of the noise in the first step.
    gamma : float or 0-d tensor
        In step n the variance is ``eta / n ** gamma``; 0.55 is usual.
    key : key
        A key of ``fg.random``; the state holds the next, so runs of one key are the same.

    Raises
    ------
    DtypeError, ShapeError
        ``key`` is not a key.

    Notes
    -----
    Neelakantan and others, "Adding gradient noise improves learning for very deep networks", 2015,
    as ``optax.add_noise``, with other random numbers. Noise of complex gradients has half of the
    variance in each part.

    Examples
    --------
    >>> from funcgrad import optim, random
    >>> from funcgrad.tensor.tensor import tensor
    >>> optimizer = optim.chain(optim.noise(1e-4, 0.55, random.key(0)), optim.sgd(0.1))
    >>> params, state = optimizer.step(tensor(1.0), optimizer.init(tensor(1.0)), tensor(1.0))
    >>> abs(params - 0.9) < 0.01, state[0].count
    (Tensor(True), Tensor(1))
    """
    as_key(key, "noise")
    operation, first = "noise.update", tensor(key)

    def init(params: Pytree) -> NoiseState:
        flattened("noise.init", params)
        return NoiseState(tensor(0), first, tensor(0.0))

    def update(grads: Pytree, state: NoiseState, params: Pytree) -> tuple[Pytree, NoiseState]:
        check_state(operation, state, NoiseState)
        structure, _, gs = flattened(operation, params, {"grads": grads})
        count = state.count + 1
        deviation = recorded(fnp.sqrt(eta / (1.0 * count) ** gamma))

        def noisy(place: int, g: Tensor) -> Tensor:
            leaf_key = folded_key(state.key, place + 1, operation)
            draw = standard_normal(leaf_key, g.shape, g.dtype, operation)
            return g + scalar(deviation, g) * draw

        changed = [noisy(place, g) for place, g in enumerate(gs)]
        following = folded_key(state.key, 0, operation)
        return unflatten(structure, changed), NoiseState(count, following, deviation)

    return Optimizer(init, update)


@pytree(slots=True)
class ReduceOnPlateauState:
    """The state of ``reduce_on_plateau``.

    Attributes
    ----------
    scale : Tensor of float64
        The factor of the last gradients; 1 before the first.
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
    factor: Share = 0.1,
    patience: Size = 10,
    rtol: Size = 1e-4,
    atol: Size = 0.0,
    cooldown: Size = 0,
    accumulation_size: Size = 1,
    min_scale: Size = 0.0,
) -> Optimizer[ReduceOnPlateauState]:
    """Reduce updates by a factor when a value has stopped improving.

    It is a schedule that watches the run: long steps while the loss falls, and shorter steps when
    it stalls. Put it after a rule in a ``chain``. ``update`` and ``step`` take the ``value`` by
    name, such as the loss of the step, or the loss of data for validation.

    Parameters
    ----------
    factor : float or 0-d tensor
        The scale is multiplied by this factor, between 0 and 1.
    patience : int or 0-d tensor
        After how many values without an improvement the scale falls.
    rtol, atol : float or 0-d tensor
        A value is better if it is below the best value by more than ``rtol |best| + atol``.
    cooldown : int or 0-d tensor
        How many values are ignored after the scale has fallen.
    accumulation_size : int or 0-d tensor
        How many values make a mean, which counts as one value: more for losses of batches.
    min_scale : float or 0-d tensor
        The least scale.

    Raises
    ------
    ArgumentError
        A number is out of bounds, both tolerances are 0, or ``update`` is called without
        ``value=``.

    Notes
    -----
    As ``optax.contrib.reduce_on_plateau``; but where the best value is negative, the tolerance is
    ``rtol`` times its magnitude, while optax and PyTorch take a somewhat worse value for a better
    one. NaN and infinity never improve a value.

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
    _check_plateau(factor, patience, accumulation_size, rtol, atol)
    operation = "reduce_on_plateau.update"

    def init(params: Pytree) -> ReduceOnPlateauState:
        flattened("reduce_on_plateau.init", params)
        none = tensor(0)
        return ReduceOnPlateauState(tensor(1.0), tensor(np.inf), none, none, none, tensor(0.0))

    def update(
        grads: Pytree, state: ReduceOnPlateauState, params: Pytree, value: ArrayLike | None = None
    ) -> tuple[Pytree, ReduceOnPlateauState]:
        number = one_value(value, operation, "step(grads, state, params, value=loss(params))")
        check_state(operation, state, ReduceOnPlateauState)
        structure, _, gs = flattened(operation, params, {"grads": grads})
        following = next_state(state, number)
        scaled = [g * scalar(following.scale, g) for g in gs]
        return unflatten(structure, scaled), following

    def next_state(state: ReduceOnPlateauState, value: Tensor) -> ReduceOnPlateauState:
        count = state.count + 1
        average = state.avg_value + (value - state.avg_value) / count
        is_full = count >= accumulation_size
        best = state.best_value
        bound = best - rtol * abs(fnp.where(fnp.isinf(best), 0.0, best)) - atol
        is_better = is_full & (average < bound)
        waited = fnp.where(is_better, 0, state.plateau_count + 1)
        is_cool = state.cooldown_count > 0
        is_due = ~is_cool & (waited >= patience)
        reduced = fnp.maximum(fnp.where(is_due, state.scale * factor, state.scale), min_scale)
        cooling = fnp.where(is_cool, state.cooldown_count - 1, fnp.where(is_due, cooldown, 0))
        chosen = (
            (reduced, state.scale),
            (fnp.where(is_better, average, best), best),
            (fnp.where(is_cool | is_due, 0, waited), state.plateau_count),
            (cooling, state.cooldown_count),
            (0, count),
            (0.0, average),
        )
        return ReduceOnPlateauState(
            *(in_dtype_of(fnp.where(is_full, new, old), old) for new, old in chosen)
        )

    return Optimizer(init, update, ("value",))


def _check_plateau(
    factor: ArrayLike, patience: ArrayLike, size: ArrayLike, rtol: ArrayLike, atol: ArrayLike
) -> None:
    """Check options of ``reduce_on_plateau`` beyond the bounds of their types."""
    positive = {"factor": factor, "patience": patience, "accumulation_size": size}
    for name, option in positive.items():
        if not isinstance(option, Tensor) and option == 0:
            raise ArgumentError(f"reduce_on_plateau: {name} has to be above 0, got {option!r}.")
    if not isinstance(rtol, Tensor) and not isinstance(atol, Tensor) and rtol == 0 == atol:
        raise ArgumentError(
            "reduce_on_plateau: rtol or atol has to be above 0: without a tolerance, rounding is an"
            " improvement."
        )
    if not isinstance(rtol, Tensor) and rtol > 1:
        raise ArgumentError(f"reduce_on_plateau: rtol has to be 1 at most, got {rtol!r}.")
