"""Whether functions run without being staged: within many others, and where tests ask for it.

A context variable is read where ``jit`` is applied, not where a jitted function is called: calls
cost what they cost without.

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
from typing import Any, Final

from funcgrad._core import pytrees
from funcgrad._core.trace import running_traces
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._transforms.probe import running_probes
from funcgrad.tensor.tensor import Tensor, wrap

EAGER: Final[ContextVar[bool]] = ContextVar("funcgrad_eager", default=False)
"""True while functions that are jitted shall run as they are."""

_DEEPEST: Final = 16
"""So many functions are staged within one another, each of which takes twelve frames of Python's
thousand. What they call is a part of them, and takes four."""


def belongs_to_caller() -> bool:
    """Whether a jitted function that meets tracers is a part of what runs, without a program."""
    # Programs do not contain probes.
    return running_probes() is not None or len(running_traces()) > _DEEPEST


def unstaged_entries(
    f: Callable[..., Any], static: frozenset[int | str]
) -> tuple[Callable[[Any, Any], Any], ...]:
    """The entries of a new jitted function: none, or one that takes every call.

    Arguments and results are tensors then too, but for static arguments.
    """
    if not EAGER.get():
        return ()

    def entry(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        count = len(args)
        dynamic = [
            arg if {place, place - count} & static else pytrees.map(_wrapped, arg)
            for place, arg in enumerate(args)
        ]
        named = {
            name: arg if name in static else pytrees.map(_wrapped, arg)
            for name, arg in kwargs.items()
        }
        return pytrees.map(_wrapped, f(*dynamic, **named))

    return (entry,)


def _wrapped(leaf: ArrayLike) -> Tensor:
    return wrap(operand(leaf, "jit"))
