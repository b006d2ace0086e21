"""Delegation: which trace interprets an operation while a function is staged within another.

A function that is staged by itself may close over tracers of the transformation around. That has
to see the operations on those alone as well, so the trace around delegates them for that time.

>>> with delegated("trace", "stager"):
...     delegate("trace"), delegate("another")
('stager', None)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

__all__ = ["delegate", "delegated"]

_DELEGATES: Final[ContextVar[Any]] = ContextVar("funcgrad_delegates", default=None)
"""In this context: (a trace, which trace interprets in its place, the same of other traces)."""


@contextmanager
def delegated(trace: object, to: Any) -> Iterator[None]:
    """Within this context, let another trace interpret operations on a trace's tracers alone.

    Only the trace next to it may: tracers of traces in between must not hold tracers of its own.
    With None in the place of the other trace, this one interprets them itself again.
    """
    token = _DELEGATES.set((trace, to, _DELEGATES.get()))
    try:
        yield
    finally:
        _DELEGATES.reset(token)


def delegate(trace: object) -> Any:
    """The trace that interprets in the place of another in this context; None if none does."""
    found = _DELEGATES.get()
    while found is not None:
        owner, to, found = found
        if owner is trace:
            return to
    return None
