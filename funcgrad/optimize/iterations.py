"""Loops of solvers, with a callback of the user's after each step.

>>> import funcgrad as fg
>>> looped(lambda x: x > 1.0, lambda x: x / 2.0, fg.tensor(5.0))
Tensor(0.625)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from inspect import signature
from typing import Any, TypeAlias, TypeVar

import funcgrad.numpy as fnp
from funcgrad._control.carry import placed
from funcgrad._control.whiles import while_loop
from funcgrad._core import pytrees
from funcgrad._core.trace import is_followed
from funcgrad._transforms.arguments import check_function
from funcgrad.errors import ArgumentError
from funcgrad.optimize.solution import STOPPED, Solution
from funcgrad.tensor.tensor import Tensor

State = TypeVar("State")
Watch: TypeAlias = Callable[[Any], bool]
"""Looks at a state; whether the solver shall stop."""


def looped(
    goes_on: Callable[[State], Tensor],
    step: Callable[[State], State],
    start: State,
    watch: Watch | None = None,
) -> State:
    """``while_loop``; with somebody who looks at each state, Python's loop."""
    if watch is None:
        return while_loop(goes_on, step, start)
    now = start
    while goes_on(now):
        now = step(now)
        if watch(now):
            stopped: Any = now
            return replace(stopped, status=fnp.asarray(STOPPED))
    return now


def watch_of(
    name: str,
    callback: Callable[..., Any] | None,
    reported: Callable[[Any], Solution[Any]],
    arguments: Sequence[str] = ("x",),
) -> Watch | None:
    """The watch that calls a user's function as SciPy does.

    A parameter ``intermediate_result`` takes the whole result, other functions take the fields of
    ``arguments``. ``StopIteration`` stops the solver.
    """
    if callback is None:
        return None
    call = callback
    check_function(f"{name} with callback", callback)
    try:
        takes_all = list(signature(callback).parameters) == ["intermediate_result"]
    except (TypeError, ValueError):
        takes_all = False

    def watch(state: Any) -> bool:
        result = reported(state)
        if any(map(is_followed, pytrees.leaves(result))):
            raise placed(
                ArgumentError,
                f"{name}: with derivative='steps' callback is called outside of jit and vmap only,"
                " where values are known. Leave it out inside them.",
            )
        try:
            if takes_all:
                call(intermediate_result=result)
            else:
                call(*[getattr(result, field) for field in arguments])
        except StopIteration:
            return True
        return False

    return watch
