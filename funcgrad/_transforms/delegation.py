"""Delegation: which trace interprets an operation while a function is staged within another.

A function that is staged by itself may close over tracers of the transformation around. Operations
on these alone belong to the staged function, too, so for that time the trace around delegates them.

>>> with delegated("trace", "stager"):
...     delegate("trace"), delegate("another")
('stager', None)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

_DELEGATES: Final[ContextVar[Any]] = ContextVar("funcgrad_delegates", default=None)
"""A linked list in this context: (a trace, the trace that interprets in its place, whether only
calls whose pullback may be nonlinear, the next)."""


@contextmanager
def delegated(trace: object, to: Any, only_nonlinear: bool = False) -> Iterator[None]:
    """Within this context, let another trace interpret operations on a trace's tracers alone.

    The other trace has to be the next one inside: tracers of traces in between must not hold its
    tracers. With None for the other trace, the trace interprets them itself again. With
    ``only_nonlinear`` it gives away no more than calls whose pullback may be nonlinear.
    """
    token = _DELEGATES.set((trace, to, only_nonlinear, _DELEGATES.get()))
    try:
        yield
    finally:
        _DELEGATES.reset(token)


def delegate(trace: object, is_linear: bool = True) -> Any:
    """The trace that interprets in the place of another in this context; None if none does.

    What is to be interpreted is an operation, or a call whose pullback may be nonlinear.
    """
    delegates = _DELEGATES.get()
    while delegates is not None:
        owner, to, only_nonlinear, delegates = delegates
        if owner is trace and not (only_nonlinear and is_linear):
            return to
    return None


def holds_linear(trace: object) -> bool:
    """Whether a trace gives away calls in this context, but those that are linear for certain."""
    return delegate(trace, is_linear=False) is not delegate(trace)


@contextmanager
def within_linear() -> Iterator[None]:
    """Within this context, no trace gives away calls only: they are of one that is linear."""
    entries, delegates = [], _DELEGATES.get()
    while delegates is not None:
        *entry, delegates = delegates
        entries.append(entry)
    chain: Any = None
    for owner, to, only_nonlinear in reversed(entries):
        chain = chain if only_nonlinear else (owner, to, only_nonlinear, chain)
    token = _DELEGATES.set(chain)
    try:
        yield
    finally:
        _DELEGATES.reset(token)
