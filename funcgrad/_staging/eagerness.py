"""Whether functions run without being staged: deep inside others, or when tests ask for it.

A context variable is read where ``jit`` is applied, not where a jitted function is called, so calls
do not get slower.

>>> import funcgrad as fg
>>> token = EAGER.set(True)
>>> f = fg.jit(lambda x: x * x)
>>> EAGER.reset(token)
>>> f(3.0), f.stagings, fg.jit(lambda x: x * x).stagings
(Tensor(9.0), 0, 0)
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from functools import partial
from typing import Any, Final, TypeVar

from funcgrad._core import pytrees
from funcgrad._core.trace import running_traces
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._transforms.probe import running_probes
from funcgrad._transforms.stage import came_through, stage
from funcgrad.tensor.tensor import Tensor, wrap

R = TypeVar("R")

EAGER: Final[ContextVar[bool]] = ContextVar("funcgrad_eager", default=False)
"""True while new jitted functions shall run without being staged."""

_DEEPEST: Final = 16
"""The most functions that are staged within one another: each takes twelve of Python's thousand
frames. A function deeper inside is run as a part of its caller, and takes four."""


def belongs_to_caller() -> bool:
    """Whether a jitted function that meets tracers runs as a part of its caller, unstaged."""
    # Programs do not contain probes.
    return running_probes() is not None or len(running_traces()) > _DEEPEST


def unstaged_entries(
    f: Callable[..., Any], static: frozenset[int | str]
) -> tuple[Callable[[Any, Any], Any], ...]:
    """The entries of a new jitted function: none, or one that takes every call."""
    return (partial(run_unstaged, f, static),) if EAGER.get() else ()


def run_unstaged(
    f: Callable[..., R], static: frozenset[int | str], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> R:
    """Call a function of a ``jit`` without staging it.

    Arguments and results are tensors then too, except for static arguments.
    """
    count = len(args)
    dynamic = [
        arg if {place, place - count} & static else pytrees.map(_wrapped, arg)
        for place, arg in enumerate(args)
    ]
    named = {
        name: arg if name in static else pytrees.map(_wrapped, arg) for name, arg in kwargs.items()
    }
    return pytrees.map(_wrapped, f(*dynamic, **named))


def may_run_again(error: BaseException) -> bool:
    """Whether a function may run once more, since a program raised an error, and not itself."""
    return not belongs_to_caller() and not came_through(error, stage, run_unstaged)


def _wrapped(leaf: ArrayLike) -> Tensor:
    return wrap(operand(leaf, "jit"))
