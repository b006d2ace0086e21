"""Parameters to evaluate a model with, where they are others than those that are stepped.

>>> from funcgrad.optim.chain import chain
>>> from funcgrad.optim.parameter_means import average_params
>>> from funcgrad.optim.sgd import sgd
>>> from funcgrad.tensor.tensor import tensor
>>> optimizer = chain(average_params(sgd(1.0), decay=0.5))
>>> params, state = tensor(4.0), optimizer.init(tensor(4.0))
>>> for _ in range(2):
...     params, state = optimizer.step(tensor(1.0), state, params)
>>> params, eval_params(state, params).round(3)
(Tensor(2.0), Tensor(2.333))
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from funcgrad._core.pytrees import broadcast_prefix, unflatten
from funcgrad.errors import TreeError
from funcgrad.optim.base import Parameters, Pytree, flatten_params, in_dtype
from funcgrad.optim.chain import ChainState
from funcgrad.optim.rule import Memory, memories_like


class EvaluationState:
    """A state that holds parameters to evaluate with."""

    __slots__ = ()

    @property
    @abstractmethod
    def evaluation(self) -> Pytree:
        """The parameters, in float32 at least."""


def eval_params(state: Pytree, params: Parameters) -> Parameters:
    """Return the parameters to evaluate a model with.

    Parameters
    ----------
    state : pytree
        The state of an optimizer in which there is ``average_params``, ``schedule_free`` or
        ``lookahead``, also inside ``chain``, ``partition`` and others. Of one around another the
        outer counts.
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
        There is no such optimizer, or the parameters do not belong to the state.

    Examples
    --------
    >>> from funcgrad import optim
    >>> from funcgrad.tensor.tensor import tensor
    >>> optimizer = optim.lookahead(optim.sgd(1.0), sync_period=2, slow_step_size=0.5)
    >>> params, state = optimizer.step(tensor(1.0), optimizer.init(tensor(4.0)), tensor(4.0))
    >>> params, optim.eval_params(state, params)
    (Tensor(3.0), Tensor(4.0))
    """
    leaves, structure = flatten_params(params, "eval_params")
    chosen: list[Memory] = [None] * len(leaves)
    holders = [record for record in records(state) if isinstance(record, EvaluationState)]
    for holder in holders:
        tree, name = holder.evaluation, f"state.{type(holder).__name__}"
        means = broadcast_prefix(tree, structure, f"eval_params: {name}")
        # in a partition there is None in the place of parameters of other optimizers
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
