"""One builder for all rules: it flattens and checks trees, and widens dtypes, once for all.

A rule is a function of one leaf: from a gradient, a parameter and what the state remembers of them
to a direction and to what it remembers next. The update is minus the rate times the direction.

>>> import funcgrad as fg
>>> from funcgrad.tensor.tensor import tensor
>>> def halved(step):
...     return lambda g, p: (g / 2,)
>>> @fg.pytree
... class PlainState:
...     count: Tensor
...     rate: Tensor
>>> optimizer = StepRule("halved", PlainState, 0.1, halved, lambda p: ()).optimizer()
>>> optimizer.step(tensor(4.0), optimizer.init(tensor(1.0)), tensor(1.0))
(Tensor(0.8), PlainState(count=Tensor(1), rate=Tensor(0.1)))
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, Generic, TypeAlias

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.pytrees import Structure, broadcast_prefix, unflatten
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad.errors import DtypeError, ShapeError, TreeError
from funcgrad.optim.base import (
    LearningRate,
    Optimizer,
    Pytree,
    State,
    aligned,
    check_rate,
    check_state,
    flatten_params,
    in_dtype,
    rate_at,
    recorded,
    widened,
)
from funcgrad.tensor.tensor import Tensor, tensor
from funcgrad.tree.pieces import chosen_leaves

Mask: TypeAlias = Pytree | str | Callable[[Pytree], Pytree]
"""A pytree of bool, a prefix of one, a pattern on paths, or a function from parameters to one."""

Memory: TypeAlias = Tensor | None
"""Numbers that a state holds of one parameter; None if the options need none."""

Leafwise: TypeAlias = Callable[..., tuple[Any, ...]]
"""``(gradient, parameter, *memories) -> (direction, *memories)``, in the working dtype."""


@dataclass(frozen=True, slots=True)
class Moment:
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


@dataclass(frozen=True, slots=True, eq=False)
class StepRule(Generic[State]):
    """A rule with its options, from which an optimizer is made.

    Attributes
    ----------
    name : str
        The function that users call, for errors.
    kind : type
        The record of the state: ``count``, a tree of each memory in their order, and ``rate``.
    learning_rate : number or schedule
    leafwise : callable
        From a ``Moment`` to a function of one leaf, so that what depends on the step alone is
        computed once. If it is a function of a module, or a ``partial`` of one, the optimizer can
        be pickled.
    start : callable
        From a parameter to its first memories.
    weight_decay : number, optional
        What is added to the direction times the parameter.
    mask : pytree of bool, or function from params to one, optional
        Which parameters decay.
    finish : callable, optional
        From a direction and a parameter to the direction at last.
    decay_first : bool
        Whether the decay is added to the gradient, in the place of the direction.
    like_params : bool
        Whether memories have the shapes of parameters; else they have those of the first memories,
        and some parameters may have none.
    has_rate : bool
        Whether directions are multiplied by the rate already.
    """

    name: str
    kind: type[State]
    learning_rate: LearningRate
    leafwise: Callable[[Moment], Leafwise]
    start: Callable[[Tensor], Sequence[Memory]]
    weight_decay: ArrayLike | None = None
    mask: Mask = None
    finish: Callable[[Tensor, Tensor], Tensor] | None = None
    decay_first: bool = False
    like_params: bool = True
    has_rate: bool = False

    def __post_init__(self) -> None:
        check_rate(self.learning_rate, self.name)

    def optimizer(self) -> Optimizer[State]:
        """Make the optimizer."""

        def init(params: Pytree) -> State:
            return self._init(params)

        def update(grads: Pytree, state: State, params: Pytree) -> tuple[Pytree, State]:
            return self._update(grads, state, params)

        return Optimizer(init, answering(update, f"{self.name}.update"), (), self)

    def _init(self, params: Pytree) -> State:
        leaves, structure = flatten_params(params, f"{self.name}.init")
        rows = [self.start(widened(leaf, leaf.dtype)) for leaf in leaves]
        return self._state(tensor(0), rows, tensor(0.0), structure)

    def _state(
        self, count: Tensor, rows: list[Sequence[Memory]], rate: Tensor, structure: Structure
    ) -> State:
        names = [field.name for field in fields(self.kind)[1:-1]]  # type: ignore[arg-type]
        columns = zip(*rows, strict=True) if rows else [[] for _ in names]
        trees = [_memory_tree(structure, list(column)) for column in columns]
        return self.kind(count, *trees, rate)  # type: ignore[call-arg]

    def _update(self, grads: Pytree, state: Pytree, params: Pytree) -> tuple[Pytree, State]:
        operation = f"{self.name}.update"
        check_state(state, self.kind, operation)
        leaves, structure = flatten_params(params, operation)
        gs = aligned(grads, "grads", leaves, structure, operation)
        memories = self._memories(state, leaves, structure)
        moment = Moment(state.count + 1, rate_at(self.learning_rate, state.count))
        decays = chosen(self.name, self.mask, params, structure)
        of_leaf = self.leafwise(moment)
        has_decay = isinstance(self.weight_decay, Tensor) or bool(self.weight_decay)
        updates: list[Tensor] = []
        rows: list[Sequence[Memory]] = []
        for leaf, g, memory, decayed in zip(leaves, gs, memories, decays, strict=True):
            parameter = widened(leaf, leaf.dtype)
            decay = self.weight_decay * parameter if has_decay and decayed else None
            if decay is not None and self.decay_first:
                g = in_dtype(g + decay, g.dtype)
            direction, *fresh = of_leaf(g, parameter, *memory)
            if decay is not None and not self.decay_first:
                direction = direction + decay
            if self.finish is not None:
                direction = self.finish(direction, parameter)
            step = -direction if self.has_rate else -moment.rate * direction
            updates.append(in_dtype(step, leaf.dtype))
            rows.append([_like(new, old) for new, old in zip(fresh, memory, strict=True)])
        following = self._state(moment.count, rows, recorded(moment.rate), structure)
        return unflatten(structure, updates), following

    def _memories(
        self, state: Pytree, leaves: list[Tensor], structure: Structure
    ) -> list[tuple[Memory, ...]]:
        """For each parameter, what the state remembers of it."""
        columns: list[list[Any]] = []
        operation = f"{self.name}.update"
        starts = [] if self.like_params else [self.start(widened(p, p.dtype)) for p in leaves]
        for place, field in enumerate(fields(self.kind)[1:-1]):  # type: ignore[arg-type]
            tree, name = getattr(state, field.name), f"state.{field.name}"
            if not self.like_params:
                firsts = [start[place] for start in starts]
                columns.append(memories_like(firsts, tree, name, structure, operation))
            elif tree is None:
                columns.append([None] * len(leaves))
            else:
                columns.append(aligned(tree, name, leaves, structure, operation, widen=False))
        return list(zip(*columns, strict=True)) if columns else [()] * len(leaves)


def memories_like(
    firsts: Sequence[Memory], tree: Pytree, name: str, structure: Structure, operation: str
) -> list[Memory]:
    """The memories in a tree, which has None where a parameter has none.

    Raises
    ------
    TreeError
        A memory is missing, or there is one too many, or the structure is another.
    ShapeError
        The shape of a memory is another.
    """
    memories: list[Memory] = broadcast_prefix(tree, structure, f"{operation}: {name}")
    for position, (memory, first) in enumerate(zip(memories, firsts, strict=True)):
        place = f"{operation}: {name}{structure.paths()[position]}"
        if (memory is None) != (first is None):
            expected = "None" if first is None else "a tensor"
            raise TreeError(
                f"{place}: expected {expected}, got {type(memory).__name__}. Pass the state that"
                " an optimizer of these options returned."
            )
        if memory is not None and first is not None and memory.shape != first.shape:
            raise ShapeError(f"{place}: expected shape {first.shape}, got {memory.shape}.")
    return memories


def _memory_tree(structure: Structure, column: list[Memory]) -> Pytree:
    """A tree of memories; None if there are none of any parameter."""
    absent = column and all(memory is None for memory in column)
    return None if absent else unflatten(structure, column)


def _like(fresh: Memory, memory: Memory) -> Memory:
    """A memory in the dtype that it had."""
    return fresh if fresh is None or memory is None else in_dtype(fresh, memory.dtype)


def chosen(operation: str, mask: Mask, params: Pytree, structure: Structure) -> list[bool]:
    """For each parameter, whether a mask chooses it; all if there is no mask.

    Raises
    ------
    DtypeError
        The mask has a leaf that is no bool.
    TreeError
        The mask has another structure, or a pattern matches no parameter.
    """
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
