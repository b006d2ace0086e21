"""One optimizer after another: clip the gradients, then step.

>>> from funcgrad.optim.sgd import sgd
>>> from funcgrad.tensor.tensor import tensor
>>> optimizer = chain(slow=sgd(0.1), turn=sgd(1.0))
>>> params, state = optimizer.step(tensor(4.0), optimizer.init(tensor(1.0)), tensor(1.0))
>>> params, state.slow.rate
(Tensor(1.4), Tensor(0.1))
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.pytrees import pytree, static_field
from funcgrad._hints.lookup import answering
from funcgrad.errors import ArgumentError, FunctionError, MissingAttributeError, TreeError
from funcgrad.optim.base import Optimizer, Pytree, making


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
    """Apply optimizers one after another: each gets the updates of the one before as gradients.

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
        An argument is no optimizer.
    ArgumentError
        There is none, or ``update`` is called with an argument that none of them takes.

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
    positions = tuple(str(position) for position in range(len(optimizers)))
    return _Chain((*positions, *named), members).optimizer()


@dataclass(frozen=True, slots=True, eq=False)
class _Chain:
    names: tuple[str, ...]
    members: tuple[Optimizer[Any], ...]

    def optimizer(self) -> Optimizer[ChainState]:
        names, members = self.names, self.members
        takes = tuple(dict.fromkeys(name for member in members for name in member.takes))

        def init(params: Pytree) -> ChainState:
            return ChainState(names, tuple(member.init(params) for member in members))

        def update(
            grads: Pytree, state: ChainState, params: Pytree, **values: Pytree
        ) -> tuple[Pytree, ChainState]:
            check_named("chain.update", values, takes)
            check_states(state, names, "chain.update")
            states = []
            for member, before in zip(members, state.states, strict=True):
                taken = {name: values[name] for name in member.takes if name in values}
                grads, following = member.update(grads, before, params, **taken)
                states.append(following)
            return grads, ChainState(names, tuple(states))

        return Optimizer(init, answering(update, "chain.update"), takes, self)


def check_states(state: object, names: tuple[str, ...], operation: str) -> None:
    """Check that a state holds those of optimizers of these names.

    Raises
    ------
    TreeError
        It does not.
    """
    if not isinstance(state, ChainState) or state.names != names:
        got = type(state).__name__
        if isinstance(state, ChainState):
            got += f" with {', '.join(state.names)}"
        raise TreeError(
            f"{operation}: expected the state of this optimizer, with the fields"
            f" {', '.join(names)}, got {got}. The order is"
            " update(grads, state, params)."
        )


def check_named(operation: str, values: dict[str, Pytree], takes: tuple[str, ...]) -> None:
    """Check that an optimizer takes the named arguments of a call.

    Raises
    ------
    ArgumentError
        It does not.
    """
    for name in values:
        if name not in takes:
            known = f"it takes {', '.join(takes)}" if takes else "it takes none"
            raise ArgumentError(f"{operation}: there is no argument {name}=; by name {known}.")
