"""Optimizers around optimizers: steps of several gradients, steps that are skipped, parts of trees.

>>> from funcgrad.optim.sgd import sgd
>>> from funcgrad.tensor.tensor import tensor
>>> optimizer = accumulate(sgd(1.0), steps=2)
>>> params, state = tensor(0.0), optimizer.init(tensor(0.0))
>>> for gradient in (1.0, 3.0):
...     params, state = optimizer.step(tensor(gradient), state, params)
...     print(float(params))
0.0
-2.0
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._control.choices import cond
from funcgrad._core.pytrees import Structure, broadcast_prefix, map, pytree, unflatten
from funcgrad._hints.lookup import answering
from funcgrad.errors import ArgumentError, TreeError
from funcgrad.optim.base import (
    Optimizer,
    Pytree,
    aligned,
    check_optimizer,
    check_state,
    check_whole,
    flatten_params,
    in_dtype,
    in_dtypes,
    making,
    widened,
    zeros,
)
from funcgrad.optim.chain import ChainState, check_named, check_states
from funcgrad.tensor.tensor import Tensor, tensor
from funcgrad.tree.path_texts import matcher, no_such_path, path_text

Labels: TypeAlias = Pytree | Callable[[Pytree], Pytree]
"""A tree of names like the parameters, or a prefix, or a function from parameters to one."""


def _stay(leaves: list[Tensor], structure: Structure) -> Pytree:
    return unflatten(structure, [zeros(leaf) for leaf in leaves])


@pytree(slots=True)
class AccumulateState:
    """The state of ``accumulate``.

    Attributes
    ----------
    count : Tensor of int64
        How many gradients the mean holds.
    mean : pytree of tensors
        The mean of the gradients since the last step; in float32 at least.
    inner : pytree
        The state of the optimizer inside.
    """

    count: Tensor
    mean: Pytree
    inner: Any


@making
def accumulate(optimizer: Optimizer[Any], steps: int) -> Optimizer[AccumulateState]:
    """Step once for several gradients, by their mean; the updates in between are zero.

    Parameters
    ----------
    optimizer : Optimizer
        It never sees the calls in between: its count and its rate are those of its own steps.
    steps : int
        How many gradients make a step.

    Returns
    -------
    Optimizer

    Raises
    ------
    ArgumentError
        ``steps`` is no integer above 0.
    FunctionError
        ``optimizer`` is none.

    Notes
    -----
    As ``optax.MultiSteps`` with the mean in the dtype of the parameters, or in float32 for those of
    lower precision; optax's is in float32 by default.

    Examples
    --------
    >>> from funcgrad import optim
    >>> from funcgrad.tensor.tensor import tensor
    >>> optimizer = accumulate(optim.sgd(1.0), steps=2)
    >>> state = optimizer.init(tensor(0.0))
    >>> optimizer.step(tensor(4.0), state, tensor(0.0))[0]
    Tensor(0.0)
    """
    check_optimizer("accumulate", optimizer)
    check_whole("accumulate", "steps", steps)
    return _Accumulated(optimizer, steps).optimizer()


@dataclass(frozen=True, slots=True, eq=False)
class _Accumulated:
    inner: Optimizer[Any]
    steps: int

    def optimizer(self) -> Optimizer[AccumulateState]:
        inner, steps = self.inner, self.steps

        def init(params: Pytree) -> AccumulateState:
            leaves, structure = flatten_params(params, "accumulate.init")
            means = [zeros(widened(leaf, leaf.dtype)) for leaf in leaves]
            return AccumulateState(tensor(0), unflatten(structure, means), inner.init(params))

        def update(
            grads: Pytree, state: AccumulateState, params: Pytree, **values: Pytree
        ) -> tuple[Pytree, AccumulateState]:
            operation = "accumulate.update"
            check_named(operation, values, inner.takes)
            check_state(state, AccumulateState, operation)
            leaves, structure = flatten_params(params, operation)
            gs = aligned(grads, "grads", leaves, structure, operation)
            means = aligned(state.mean, "state.mean", leaves, structure, operation)
            count = state.count + 1
            means = [
                in_dtype(mean + (g - mean) / in_dtype(count, _real(mean)), mean.dtype)
                for g, mean in zip(gs, means, strict=True)
            ]

            def stepped(mean: Pytree, before: Pytree) -> tuple[Pytree, Any]:
                updates, following = inner.update(mean, before, params, **values)
                return in_dtypes(updates, leaves, structure, operation), following

            def waited(mean: Pytree, before: Pytree) -> tuple[Pytree, Any]:
                return _stay(leaves, structure), before

            is_last = count == steps
            tree = unflatten(structure, means)
            updates, following = cond(is_last, stepped, waited, tree, state.inner)
            emptied = map(lambda mean: fnp.where(is_last, 0.0, mean), tree)
            return updates, AccumulateState(fnp.where(is_last, 0, count), emptied, following)

        return Optimizer(init, answering(update, "accumulate.update"), inner.takes, self)


def _real(x: Tensor) -> Any:
    return x.real.dtype


@making
def partition(
    optimizers: Mapping[str, Optimizer[Any]], labels: Labels | None = None
) -> Optimizer[ChainState]:
    """Give each parameter to one of several optimizers.

    Parameters
    ----------
    optimizers : dict
        Optimizers by their labels; or, without ``labels``, by patterns on paths as those of
        ``fg.tree.partition``, of which the first that matches counts.
    labels : pytree of str, or function from params to one, optional
        The label of each parameter, or of all below a place.

    Returns
    -------
    Optimizer
        Its state is a ``ChainState`` with the labels, or the patterns, as names. Each optimizer
        sees its parameters alone, with None in the place of others.

    Raises
    ------
    FunctionError
        A value of the dict is no optimizer.
    ArgumentError
        The dict is empty.
    TreeError
        A parameter has no optimizer, or a pattern no parameter.

    Notes
    -----
    As ``optax.partition``, once ``multi_transform``.

    Examples
    --------
    >>> from funcgrad import optim
    >>> from funcgrad.tensor.tensor import tensor
    >>> params = {"body": tensor(1.0), "head": tensor(1.0)}
    >>> optimizer = partition({"head": optim.sgd(0.5), "*": optim.sgd(0.1)})
    >>> optimizer.step(params, optimizer.init(params), params)[0]
    {'body': Tensor(0.9), 'head': Tensor(0.5)}
    >>> by_name = partition({"fast": optim.sgd(0.5)}, {"body": "fast", "head": "fast"})
    >>> by_name.init(params).fast.count
    Tensor(0)
    """
    if not isinstance(optimizers, Mapping) or not optimizers:
        raise ArgumentError(
            f"partition: expected a dict of optimizers by labels or patterns, got {optimizers!r}."
        )
    for member in optimizers.values():
        check_optimizer("partition", member)
    return _Partition(tuple(optimizers), tuple(optimizers.values()), labels).optimizer()


@dataclass(frozen=True, slots=True, eq=False)
class _Partition:
    names: tuple[str, ...]
    members: tuple[Optimizer[Any], ...]
    labels: Labels | None

    def optimizer(self) -> Optimizer[ChainState]:
        names, members = self.names, self.members
        takes = tuple(dict.fromkeys(name for member in members for name in member.takes))

        def init(params: Pytree) -> ChainState:
            leaves, structure = flatten_params(params, "partition.init")
            labels = self._labels(params, structure)
            states = [
                member.init(_only(name, labels, leaves, structure))
                for name, member in zip(names, members, strict=True)
            ]
            return ChainState(names, tuple(states))

        def update(
            grads: Pytree, state: ChainState, params: Pytree, **values: Pytree
        ) -> tuple[Pytree, ChainState]:
            operation = "partition.update"
            check_named(operation, values, takes)
            check_states(state, names, operation)
            leaves, structure = flatten_params(params, operation)
            gs = aligned(grads, "grads", leaves, structure, operation)
            labels = self._labels(params, structure)
            moved: dict[str, Any] = {}
            states = []
            for name, member, before in zip(names, members, state.states, strict=True):
                taken = {key: values[key] for key in member.takes if key in values}
                update: Callable[..., tuple[Pytree, Any]] = member.update
                updates, following = update(
                    _only(name, labels, gs, structure),
                    before,
                    _only(name, labels, leaves, structure),
                    **taken,
                )
                moved[name] = iter(flatten_params(updates, operation)[0])
                states.append(following)
            mixed = [next(moved[label]) for label in labels]
            return unflatten(structure, mixed), ChainState(names, tuple(states))

        return Optimizer(init, answering(update, "partition.update"), takes, self)

    def _labels(self, params: Pytree, structure: Structure) -> list[str]:
        """The name of each parameter's optimizer."""
        paths = [path_text(path) for path in structure.key_paths()]
        if self.labels is None:
            return self._by_patterns(paths)
        tree = self.labels(params) if callable(self.labels) else self.labels
        labels = broadcast_prefix(tree, structure, "partition: labels")
        for label, path in zip(labels, paths, strict=True):
            if not isinstance(label, str) or label not in self.names:
                raise TreeError(
                    f"partition: the label of {path} is {label!r}; the optimizers are"
                    f" {', '.join(self.names)}."
                )
        return labels

    def _by_patterns(self, paths: list[str]) -> list[str]:
        matchers = {name: matcher(name) for name in self.names}
        for name, matches in matchers.items():
            if not any(matches(path) for path in paths):
                raise no_such_path("partition", name, paths)
        labels = []
        for path in paths:
            label = next((name for name in self.names if matchers[name](path)), None)
            if label is None:
                raise TreeError(
                    f"partition: no pattern matches {path}. Put '*' last, for all others."
                )
            labels.append(label)
        return labels


def _only(name: str, labels: list[str], leaves: list[Tensor], structure: Structure) -> Pytree:
    """A tree of the leaves with one label."""
    return unflatten(
        structure,
        [leaf if label == name else None for leaf, label in zip(leaves, labels, strict=True)],
    )
