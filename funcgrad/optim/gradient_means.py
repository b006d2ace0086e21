"""Transformations of gradients that remember earlier ones: ``trace`` and ``ema``.

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
from functools import partial
from typing import Generic

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.pytrees import pytree, unflatten
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad.optim.base import (
    Optimizer,
    Pytree,
    State,
    aligned,
    check_number,
    check_state,
    flatten_params,
    in_dtype,
    making,
    mean,
    scalar,
    widened,
    zeros,
)
from funcgrad.tensor.tensor import Tensor, tensor


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
def trace(decay: ArrayLike, nesterov: bool = False) -> Optimizer[TraceState]:
    """Replace gradients by the decaying sum of all so far: momentum.

    Parameters
    ----------
    decay : float or 0-d tensor
        What the sum is multiplied by in a step, below 1.
    nesterov : bool
        Whether to use Nesterov's momentum, which adds the momentum once more.

    Returns
    -------
    Optimizer
        It does not descend: put it before a rule, or ``scale(-rate)`` after it.

    Raises
    ------
    ArgumentError
        ``decay`` is negative or not below 1.

    Notes
    -----
    With gradient g the trace becomes ``t' = g + decay t``, and the update is t', or
    ``g + decay t'`` with Nesterov's momentum, as ``optax.trace``. ``chain(trace(m), sgd(rate))`` is
    ``sgd(rate, m)``.

    Examples
    --------
    >>> from funcgrad.tensor.tensor import tensor
    >>> change = trace(0.5)
    >>> state = change.init(tensor(0.0))
    >>> _, state = change.update(tensor(4.0), state, tensor(0.0))
    >>> change.update(tensor(1.0), state, tensor(0.0))[0]
    Tensor(3.0)
    """
    check_number("trace", "decay", decay, 1.0)
    return _Remembering("trace", TraceState, partial(_traced, decay, bool(nesterov))).optimizer()


def _traced(
    decay: ArrayLike, is_ahead: bool, count: Tensor, g: Tensor, before: Tensor
) -> tuple[Tensor, Tensor]:
    after = in_dtype(g + decay * before, before.dtype)
    return (g + scalar(decay, g) * after if is_ahead else after), after


@making
def ema(decay: ArrayLike, debias: bool = True) -> Optimizer[EmaState]:
    """Replace gradients by the decaying mean of all so far.

    For a mean of parameters see ``average_params``.

    Parameters
    ----------
    decay : float or 0-d tensor
        The share of the mean so far in the next, below 1.
    debias : bool
        Whether to correct the mean for its start at zero.

    Returns
    -------
    Optimizer
        It does not descend: put it before or after a rule.

    Raises
    ------
    ArgumentError
        ``decay`` is negative or not below 1.

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
    check_number("ema", "decay", decay, 1.0)
    return _Remembering("ema", EmaState, partial(_averaged, decay, bool(debias))).optimizer()


def _averaged(
    decay: ArrayLike, debias: bool, count: Tensor, g: Tensor, before: Tensor
) -> tuple[Tensor, Tensor]:
    after = mean(decay, before, g)
    return (after / scalar(1 - decay**count, after.real) if debias else after), after


@dataclass(frozen=True, slots=True, eq=False)
class _Remembering(Generic[State]):
    """A function of a step's number, a gradient and one memory, for each leaf."""

    name: str
    kind: type[State]
    change: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]

    def optimizer(self) -> Optimizer[State]:
        def init(params: Pytree) -> State:
            leaves, structure = flatten_params(params, f"{self.name}.init")
            starts = [zeros(widened(leaf, leaf.dtype)) for leaf in leaves]
            return self.kind(tensor(0), unflatten(structure, starts))  # type: ignore[call-arg]

        def update(grads: Pytree, state: Pytree, params: Pytree) -> tuple[Pytree, State]:
            operation = f"{self.name}.update"
            check_state(state, self.kind, operation)
            leaves, structure = flatten_params(params, operation)
            gs = aligned(grads, "grads", leaves, structure, operation)
            memory, name = getattr(state, self.name), f"state.{self.name}"
            before = aligned(memory, name, leaves, structure, operation, widen=False)
            count = state.count + 1
            pairs = [self.change(count, g, old) for g, old in zip(gs, before, strict=True)]
            updates, after = (unflatten(structure, [pair[i] for pair in pairs]) for i in (0, 1))
            return updates, self.kind(count, after)  # type: ignore[call-arg]

        return Optimizer(init, answering(update, f"{self.name}.update"), (), self)
