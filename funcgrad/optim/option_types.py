"""Options of optimizers and schedules: the type of an option says its bounds.

``making`` turns a function with such options into one that checks them, and whose optimizers print
and pickle as the call.

>>> @making
... def halved(share: Share) -> Optimizer[None]:
...     return Optimizer(lambda params: None, lambda grads, state, params: (grads, state))
>>> halved(0.5)
halved(share=0.5)
>>> halved(1.5)
Traceback (most recent call last):
funcgrad.errors.ArgumentError: halved: share has to be at least 0 and below 1, got 1.5.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial, wraps
from inspect import signature
from types import MappingProxyType
from typing import Any, Final, Generic, TypeAlias, TypeVar

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._base.record_text import call_text
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad.errors import ArgumentError, DtypeError, FunctionError, ShapeError, TreeError
from funcgrad.optim.base import LearningRate, Optimizer, State, in_dtype
from funcgrad.tensor.tensor import Tensor, tensor

Share: TypeAlias = ArrayLike
"""A number or a 0-d tensor, at least 0 and below 1."""

Size: TypeAlias = ArrayLike
"""A number or a 0-d tensor, at least 0 and finite."""

Count: TypeAlias = int
"""An integer above 0."""

ShareOrSchedule: TypeAlias = LearningRate
"""A number or a 0-d tensor, at least 0 and below 1; or a function of the number of steps."""

Steps: TypeAlias = int
"""A number of steps of a schedule, 1 or more."""

StepsOrZero: TypeAlias = int
"""A number of steps of a schedule, 0 or more."""

Schedule: TypeAlias = Any
"""A function from the number of earlier steps to a rate."""

Objective: TypeAlias = Callable[[Any], ArrayLike]
"""From parameters to a real number."""

Make = TypeVar("Make", bound=Callable[..., object])


@dataclass(frozen=True, slots=True, eq=False)
class OptimizerCall(Generic[State]):
    """The call that made an optimizer; an optimizer pickles as its call."""

    function: Callable[..., Optimizer[State]]
    args: tuple[object, ...]
    kwargs: Mapping[str, object]

    def optimizer(self) -> Optimizer[State]:
        """Call the function again."""
        return self.function(*self.args, **self.kwargs)


def making(function: Make) -> Make:
    """Wrap a function that makes an optimizer: check the options, and remember the call.

    A call of the function, or of ``update``, that Python refuses raises an error with advice.
    """
    form, name = signature(function), function.__name__
    answered: Any = answering(function)

    @wraps(function)
    def made(*args: object, **kwargs: object) -> Optimizer[Any]:
        try:
            bound = form.bind(*args, **kwargs)
        except TypeError:
            answered(*args, **kwargs)  # raises an error with advice
            raise
        bound.apply_defaults()
        shown: list[tuple[str, object]] = []
        for option, parameter in form.parameters.items():
            value = bound.arguments[option]
            if parameter.kind is parameter.VAR_POSITIONAL:
                shown += [("", member) for member in value]
                continue
            shown.append((option, value))
            if parameter.kind is not parameter.VAR_KEYWORD:
                check_option(name, option, parameter.annotation, value)
        optimizer: Optimizer[Any] = function(*args, **kwargs)  # type: ignore[assignment]
        return replace(
            optimizer,
            update=answering(optimizer.update, f"{name}.update"),
            recipe=OptimizerCall(public, bound.args, bound.kwargs),
            call=call_text(name, shown),
        )

    public: Any = answering(made)
    return public


def check_option(operation: str, option: str, kind: str, value: object) -> None:
    """Check an option by the name of its type; an option of another type is not checked."""
    check = _CHECKS.get(kind.removesuffix(" | None"))
    if check is not None and (value is not None or not kind.endswith(" | None")):
        check(operation, option, value)


def check_number(
    operation: str, option: str, value: ArrayLike, below: float = float("inf")
) -> None:
    """Check that an option is at least 0 and below a bound; of a tensor, that it is a real number.

    Raises
    ------
    ArgumentError
        The number is out of bounds.
    DtypeError
        The option is not a number.
    """
    if np.ndim(operand(value, operation)) or not np.isrealobj(value):
        remedy = " For a run with each of several, use fg.vmap." if np.ndim(value) else ""
        raise DtypeError(f"{operation}: {option} has to be a real number, got {value!r}.{remedy}")
    if not isinstance(value, Tensor) and not 0 <= value < below:
        raise ArgumentError(
            f"{operation}: {option} has to be at least 0"
            + (f" and below {below:g}" if below < float("inf") else " and finite")
            + f", got {value!r}."
        )


def _check_rate(
    operation: str, option: str, rate: LearningRate, below: float = float("inf")
) -> None:
    """Check a learning rate that is not a schedule."""
    if not callable(rate):
        check_number(operation, option, rate, below)


def _check_integer(operation: str, option: str, value: object, least: int = 1) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ArgumentError(
            f"{operation}: {option} has to be an integer above {least - 1}, got {value!r}."
        )


def _check_optimizer(operation: str, option: str, value: object) -> None:
    if not isinstance(value, Optimizer):
        raise FunctionError(
            f"{operation}: expected an optimizer, as optim.adam(0.1) is, got {value!r}."
        )


def check_steps(operation: str, option: str, value: object, least: int = 1) -> None:
    """Check a number of steps of a schedule: an integer that is large enough."""
    if not isinstance(value, int) or value < least:
        raise ArgumentError(
            f"{operation}: {option} has to be an integer, {least} or more, got {value!r}."
        )


def _check_schedule(operation: str, option: str, value: object) -> None:
    if not callable(value):
        raise FunctionError(f"{operation}: a schedule is a function of the count, got {value!r}.")


_CHECKS: Final[Mapping[str, Callable[[str, str, Any], None]]] = MappingProxyType(
    {
        "Share": partial(check_number, below=1.0),
        "Size": check_number,
        "LearningRate": _check_rate,
        "ShareOrSchedule": partial(_check_rate, below=1.0),
        "Count": _check_integer,
        "Optimizer[Any]": _check_optimizer,
        "Steps": check_steps,
        "StepsOrZero": partial(check_steps, least=0),
        "Schedule": _check_schedule,
    }
)
"""Checks by the names of the types of options."""


def check_state(
    operation: str,
    state: object,
    kind: type[Any],
    values: Collection[str] = (),
    takes: Sequence[str] = (),
) -> None:
    """Check that an optimizer takes the arguments of a call: its state, and arguments by name."""
    if values:
        check_named(operation, values, takes)
    if not isinstance(state, kind):
        raise TreeError(
            f"{operation}: expected the state of this optimizer, of type {kind.__name__}, got"
            f" {type(state).__name__}. The order is update(grads, state, params)."
        )


def check_named(operation: str, values: Collection[str], takes: Sequence[str]) -> None:
    """Check that an optimizer takes the named arguments of a call."""
    for name in values:
        if name not in takes:
            known = f"it takes {', '.join(takes)}" if takes else "it takes none"
            raise ArgumentError(f"{operation}: there is no argument {name}=; by name {known}.")


def one_value(value: ArrayLike | None, operation: str, call: str) -> Tensor:
    """The named argument ``value`` of an update, in float64; errors show how to call."""
    if value is None:
        raise ArgumentError(f"{operation}: value= is missing. Call {call}.")
    number = tensor(operand(value, f"{operation}: value"))
    if number.shape:
        raise ShapeError(f"{operation}: value has to be one number, got shape {number.shape}.")
    if number.dtype.kind not in "fiu":
        raise DtypeError(f"{operation}: value has to be a real number, got dtype {number.dtype}.")
    return in_dtype(number, np.dtype(np.float64))


def one_objective(objective: Objective | None, operation: str, call: str) -> Objective:
    """The named argument ``objective`` of an update; errors show how to call."""
    if objective is None:
        raise ArgumentError(f"{operation}: objective= is missing. Call {call}.")
    if not callable(objective):
        raise FunctionError(
            f"{operation}: objective has to be a function from parameters to a number, got"
            f" {objective!r}."
        )
    return objective
