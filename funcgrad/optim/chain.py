"""One optimizer after another: clip the gradients, then step.

>>> from funcgrad.optim.sgd import sgd
>>> from funcgrad.tensor.tensor import tensor
>>> optimizer = chain(slow=sgd(0.1), turn=sgd(1.0))
>>> params, state = optimizer.step(tensor(4.0), optimizer.init(tensor(1.0)), tensor(1.0))
>>> params, state.slow.rate
(Tensor(1.4), Tensor(0.1))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeAlias

from funcgrad._core.pytrees import Structure, broadcast_prefix, pytree, static_field, unflatten
from funcgrad.errors import ArgumentError, FunctionError, MissingAttributeError, TreeError
from funcgrad.optim.base import Optimizer, Pytree, flattened
from funcgrad.optim.option_types import check_named, check_option, making
from funcgrad.tensor.tensor import Tensor
from funcgrad.tree.path_texts import matcher, no_such_path, path_text

Labels: TypeAlias = Pytree | Callable[[Pytree], Pytree]
"""A tree of names like the parameters, or a prefix, or a function from parameters to one."""


@pytree(slots=True)
class ChainState:
    """The states of several optimizers, each a field by its name: ``state.adam``.

    Attributes
    ----------
    names : tuple of str
    states : tuple
        ``state[0]`` is the first.
    """

    names: tuple[str, ...] = static_field()
    states: tuple[Any, ...]

    def __getattr__(self, name: str) -> Any:
        if name not in _FIELDS and name in self.names:
            return self.states[self.names.index(name)]
        raise MissingAttributeError(
            f"the state of a chain has no field {name}; its fields are {', '.join(self.names)}.",
            name,
        )

    def __getitem__(self, position: int) -> Any:
        return self.states[position]


_FIELDS = frozenset(field.name for field in fields(ChainState))


@making
def chain(*optimizers: Optimizer[Any], **named: Optimizer[Any]) -> Optimizer[ChainState]:
    """Apply optimizers one after another.

    Each optimizer gets the updates of the optimizer before it as gradients. So rules are put
    together from parts: clip the gradients, step by Adam, freeze some parameters.

    Parameters
    ----------
    *optimizers : Optimizer
    **named : Optimizer
        Optimizers whose states are fields of the state, of these names.

    Returns
    -------
    Optimizer
        Its state is a ``ChainState``; the states of optimizers without names are ``state[0]`` and
        so on, and those with names too. A named argument of ``update`` or ``step``, such as
        ``value=``, reaches those that take it.

    Raises
    ------
    FunctionError
        An argument is not an optimizer.
    ArgumentError
        No optimizer is passed, or ``update`` is called with an argument that none of them takes.

    Examples
    --------
    >>> from funcgrad import optim
    >>> from funcgrad.tensor.tensor import tensor
    >>> optimizer = chain(first=optim.sgd(0.5), second=optim.sgd(-1.0 * tensor(1.0)))
    >>> params, state = optimizer.step(tensor(4.0), optimizer.init(tensor(1.0)), tensor(1.0))
    >>> params, state.second.count
    (Tensor(-1.0), Tensor(1))
    """
    members = (*optimizers, *named.values())
    if not members:
        raise ArgumentError("chain: expected one optimizer or more.")
    for member in members:
        if not isinstance(member, Optimizer):
            raise FunctionError(
                f"chain: expected optimizers, as optim.adam(0.1) is, got {member!r}."
            )
    names = (*map(str, range(len(optimizers))), *named)
    takes = _all_takes(members)

    def init(params: Pytree) -> ChainState:
        return ChainState(names, tuple([member.init(params) for member in members]))

    def update(
        grads: Pytree, state: ChainState, params: Pytree, **values: Pytree
    ) -> tuple[Pytree, ChainState]:
        _check_chain("chain.update", state, names, values, takes)
        states = []
        for member, before in zip(members, state.states, strict=True):
            grads, following = _updated(member, grads, before, params, values)
            states.append(following)
        return grads, ChainState(names, tuple(states))

    return Optimizer(init, update, takes)


def _all_takes(members: Iterable[Optimizer[Any]]) -> tuple[str, ...]:
    """The named arguments that any of several optimizers takes."""
    return tuple(dict.fromkeys(name for member in members for name in member.takes))


def _updated(
    member: Optimizer[Any], grads: Pytree, state: Pytree, params: Pytree, values: dict[str, Pytree]
) -> tuple[Pytree, Any]:
    """Call ``update`` with the named arguments that an optimizer takes."""
    update: Callable[..., tuple[Pytree, Any]] = member.update
    taken = {name: values[name] for name in member.takes if name in values}
    return update(grads, state, params, **taken)


def _check_chain(
    operation: str,
    state: object,
    names: tuple[str, ...],
    values: dict[str, Pytree],
    takes: tuple[str, ...],
) -> None:
    """Check that a state holds the states of optimizers of these names, and named arguments."""
    check_named(operation, values, takes)
    if not isinstance(state, ChainState) or state.names != names:
        got = type(state).__name__
        if isinstance(state, ChainState):
            got += f" with {', '.join(state.names)}"
        raise TreeError(
            f"{operation}: expected the state of this optimizer, with the fields"
            f" {', '.join(names)}, got {got}. The order is"
            " update(grads, state, params)."
        )


@making
def partition(
    optimizers: Mapping[str, Optimizer[Any]], labels: Labels | None = None
) -> Optimizer[ChainState]:
    """Use different optimizers for different parameters.

    Parts of a model may need different optimizers or rates, such as a new head on a pretrained
    body.

    Parameters
    ----------
    optimizers : dict
        Optimizers by their labels. Without ``labels`` the keys are patterns on paths, as in
        ``fg.tree.partition``; the first pattern that matches counts.
    labels : pytree of str, or function from params to one, optional
        The label of each parameter, or of all below a place.

    Returns
    -------
    Optimizer
        Its state is a ``ChainState`` with the labels, or the patterns, as names. Each optimizer
        sees only its parameters, and None where the others are.

    Raises
    ------
    FunctionError
        A value of the dict is not an optimizer.
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
        check_option("partition", "optimizers", "Optimizer[Any]", member)
    names, operation = tuple(optimizers), "partition.update"
    takes = _all_takes(optimizers.values())

    def init(params: Pytree) -> ChainState:
        structure, leaves = flattened("partition.init", params)
        chosen = _labels(labels, names, params, structure)
        states = [
            member.init(_only(name, chosen, leaves, structure))
            for name, member in optimizers.items()
        ]
        return ChainState(names, tuple(states))

    def update(
        grads: Pytree, state: ChainState, params: Pytree, **values: Pytree
    ) -> tuple[Pytree, ChainState]:
        _check_chain(operation, state, names, values, takes)
        structure, leaves, gs = flattened(operation, params, {"grads": grads})
        chosen = _labels(labels, names, params, structure)
        moves: dict[str, Any] = {}
        states = []
        for (name, member), before in zip(optimizers.items(), state.states, strict=True):
            apart = [_only(name, chosen, column, structure) for column in (gs, leaves)]
            updates, following = _updated(member, apart[0], before, apart[1], values)
            moves[name] = iter(flattened(operation, updates)[1])
            states.append(following)
        mixed = [next(moves[label]) for label in chosen]
        return unflatten(structure, mixed), ChainState(names, tuple(states))

    return Optimizer(init, update, takes)


def _labels(
    labels: Labels | None, names: tuple[str, ...], params: Pytree, structure: Structure
) -> list[str]:
    """The name of each parameter's optimizer."""
    paths = [path_text(path) for path in structure.key_paths()]
    if labels is None:
        return _by_patterns(names, paths)
    tree = labels(params) if callable(labels) else labels
    chosen = broadcast_prefix(tree, structure, "partition: labels")
    for label, path in zip(chosen, paths, strict=True):
        if not isinstance(label, str) or label not in names:
            raise TreeError(
                f"partition: the label of {path} is {label!r}; the optimizers are"
                f" {', '.join(names)}."
            )
    return chosen


def _by_patterns(names: tuple[str, ...], paths: list[str]) -> list[str]:
    matchers = {name: matcher(name) for name in names}
    for name, matches in matchers.items():
        if not any(matches(path) for path in paths):
            raise no_such_path("partition", name, paths)
    labels = []
    for path in paths:
        label = next((name for name in names if matchers[name](path)), None)
        if label is None:
            raise TreeError(f"partition: no pattern matches {path}. Put '*' last, for all others.")
        labels.append(label)
    return labels


def _only(name: str, labels: list[str], leaves: list[Tensor], structure: Structure) -> Pytree:
    """A tree of the leaves with one label."""
    return unflatten(
        structure,
        [leaf if label == name else None for leaf, label in zip(leaves, labels, strict=True)],
    )
