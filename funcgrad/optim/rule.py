"""One builder for all rules: it checks trees, widens dtypes, decays weights and applies the rate.

A rule is a function of one leaf: from a gradient, a parameter and the memories of the parameter to
a direction and the next memories. The update is minus the rate times the direction.

>>> import funcgrad as fg
>>> from funcgrad.tensor.tensor import tensor
>>> @fg.pytree
... class PlainState:
...     count: Tensor
...     rate: Tensor
>>> def direction(step):
...     return lambda g, p: (g / 2,)
>>> optimizer = LeafRule("halved", PlainState, 0.1, lambda p: (), direction).optimizer()
>>> optimizer.step(tensor(4.0), optimizer.init(tensor(1.0)), tensor(1.0))
(Tensor(0.8), PlainState(count=Tensor(1), rate=Tensor(0.1)))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Generic, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.pytrees import Structure, broadcast_prefix
from funcgrad._core.users_values import ArrayLike
from funcgrad.errors import DtypeError, ShapeError, TreeError
from funcgrad.optim.base import (
    LearningRate,
    Optimizer,
    Pytree,
    State,
    flattened,
    in_dtype_of,
    rate_at,
    recorded,
    unflattened,
    widened,
)
from funcgrad.optim.option_types import check_state
from funcgrad.tensor.tensor import Tensor, tensor
from funcgrad.tree.pieces import chosen_leaves

Mask: TypeAlias = Pytree | str | Callable[[Pytree], Pytree]
"""A pytree of bool, a prefix of one, a pattern on paths, or a function from parameters to one."""

Memory: TypeAlias = Tensor | None
"""A tensor that a state holds for one parameter; None if the options need none."""

Leafwise: TypeAlias = Callable[..., tuple[Any, ...]]
"""``(gradient, parameter, *memories) -> (direction, *memories)``, in the working dtype."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a run.

    Attributes
    ----------
    count : Tensor of int64
        The number of the step: 1, 2, ...
    rate : number
        The learning rate.
    """

    count: Tensor
    rate: ArrayLike


Direction: TypeAlias = Callable[[Step], Leafwise]
"""From a step to a function of one leaf: whatever depends only on the step is computed once."""


@dataclass(frozen=True, slots=True, eq=False)
class LeafRule(Generic[State]):
    """A rule; ``optimizer`` makes an optimizer of it.

    Attributes
    ----------
    name : str
        The function that users call, for errors.
    kind : type
        The record of the state: ``count``, a tree of each memory in their order, and ``rate``.
    learning_rate : number or schedule
    start : callable
        From a parameter to the first memories.
    direction : callable
        From a step to a function of one leaf.
    weight_decay : number, optional
        This number times the parameter is added to the direction.
    mask : pytree of bool, or function from params to one, optional
        Which parameters decay.
    finish : callable, optional
        From a direction and a parameter to the last direction.
    decay_first : bool
        Whether the decay is added to the gradient, before the rule.
    like_params : bool
        Whether memories have the shapes of parameters. If not, memories have the shapes of the
        first memories, and a parameter may have none.
    has_rate : bool
        Whether directions are multiplied by the rate already.
    """

    name: str
    kind: type[State]
    learning_rate: LearningRate
    start: Callable[[Tensor], Sequence[Memory]]
    direction: Direction
    weight_decay: ArrayLike | None = None
    mask: Mask = None
    finish: Callable[[Tensor, Tensor], Tensor] | None = None
    decay_first: bool = False
    like_params: bool = True
    has_rate: bool = False

    def optimizer(self) -> Optimizer[State]:
        """Make the optimizer."""

        def update(grads: Pytree, state: State, params: Pytree) -> tuple[Pytree, State]:
            return self._moves(grads, state, params, is_applied=False)

        update.stepper = partial(self._moves, is_applied=True)  # type: ignore[attr-defined]
        return Optimizer(self._init, update)

    def _init(self, params: Pytree) -> State:
        structure, leaves = flattened(f"{self.name}.init", params)
        columns: list[list[Memory] | None] = []
        for column in self._first_memories(leaves):
            columns.append(None if column and all(x is None for x in column) else column)
        memories = unflattened(structure, columns)
        return self.kind(tensor(0), *memories, tensor(0.0))  # type: ignore[call-arg]

    def _first_memories(self, leaves: list[Tensor]) -> list[list[Memory]]:
        """The first memories of all parameters: a list for each field of the state."""
        rows = [self.start(widened(leaf)) for leaf in leaves]
        count = len(self.kind.__match_args__) - 2  # type: ignore[attr-defined]
        return [[row[place] for row in rows] for place in range(count)]

    def _moves(
        self, grads: Pytree, state: Pytree, params: Pytree, *, is_applied: bool
    ) -> tuple[Pytree, State]:
        """The updates, or the parameters that they move, and the next state."""
        operation = f"{self.name}.update"
        check_state(operation, state, self.kind)
        structure, leaves, gs, *before = self._flattened(operation, grads, state, params)
        flags = [True] * len(leaves)
        if self.mask is not None:
            flags = chosen(self.name, self.mask, params, structure)
        has_decay = isinstance(self.weight_decay, Tensor) or bool(self.weight_decay)
        columns: list[list[Any]] = []
        after: list[list[Any] | None] = []
        for column in before:
            columns.append([None] * len(leaves) if column is None else column)
            after.append(None if column is None else [])
        step = Step(state.count + 1, rate_at(self.learning_rate, state.count))
        of_leaf = self.direction(step)
        moves = []
        for leaf, g, flag, *memories in zip(leaves, gs, flags, *columns, strict=True):
            parameter = widened(leaf)
            decay = self.weight_decay * parameter if has_decay and flag else None
            if decay is not None and self.decay_first:
                g = in_dtype_of(g + decay, g)
            direction, *fresh = of_leaf(g, parameter, *memories)
            if decay is not None and not self.decay_first:
                direction = direction + decay
            if self.finish is not None:
                direction = self.finish(direction, parameter)
            move = in_dtype_of(-direction if self.has_rate else -step.rate * direction, leaf)
            moves.append(in_dtype_of(leaf + widened(move, leaf), leaf) if is_applied else move)
            for column, new, old in zip(after, fresh, memories, strict=True):
                if column is not None:
                    column.append(new if new is None else in_dtype_of(new, old))
        tree, *memories = unflattened(structure, [moves, *after])
        rate = recorded(step.rate)
        return tree, self.kind(step.count, *memories, rate)  # type: ignore[call-arg]

    def _flattened(
        self, operation: str, grads: Pytree, state: Pytree, params: Pytree
    ) -> tuple[Any, ...]:
        """The structure, and the leaves of parameters, gradients and memories; None if none are."""
        memories = {}
        for name in self.kind.__match_args__[1:-1]:  # type: ignore[attr-defined]
            memories[f"state.{name}"] = getattr(state, name)
        if self.like_params:
            return flattened(operation, params, {"grads": grads}, memories)
        structure, leaves, *columns = flattened(operation, params, {"grads": grads})
        for (name, tree), first in zip(memories.items(), self._first_memories(leaves), strict=True):
            column = memories_like(first, tree, name, structure, operation)
            columns.append(None if tree is None else column)
        return structure, leaves, *columns


def memories_like(
    firsts: Sequence[Memory], tree: Pytree, name: str, structure: Structure, operation: str
) -> list[Memory]:
    """The memories in a tree, which has None for parameters without; the tree is checked."""
    memories: list[Memory] = broadcast_prefix(tree, structure, f"{operation}: {name}")
    for position, (memory, first) in enumerate(zip(memories, firsts, strict=True)):
        place = f"{operation}: {name}{structure.paths()[position]}"
        if (memory is None) != (first is None):
            expected = "None" if first is None else "a tensor"
            raise TreeError(
                f"{place}: expected {expected}, got"
                f" {'None' if memory is None else 'a tensor'}. Pass the state that an optimizer of"
                " these options returned."
            )
        if memory is not None and first is not None and memory.shape != first.shape:
            raise ShapeError(f"{place}: expected shape {first.shape}, got {memory.shape}.")
    return memories


def chosen(operation: str, mask: Mask, params: Pytree, structure: Structure) -> list[bool]:
    """For each parameter, whether a mask chooses it; all without a mask."""
    if mask is None:
        return [True] * structure.num_leaves
    if isinstance(mask, str):
        return chosen_leaves(params, mask, operation)
    flags = broadcast_prefix(mask(params) if callable(mask) else mask, structure, "mask")
    for flag, path in zip(flags, structure.paths(), strict=True):
        if not isinstance(flag, (bool, np.bool_)):
            raise DtypeError(
                f"{operation}: mask at params{path} has to be True or False, got {flag!r}."
            )
    return flags
