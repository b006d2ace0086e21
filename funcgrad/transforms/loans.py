"""Loans: whose an operation is while a function is staged within another transformation.

A function that is staged by itself may close over tracers of the transformation around. What it
does to those alone belongs to it all the same: the trace around lends them for that time.

>>> with lent("trace", "stager"):
...     borrower("trace"), borrower("another")
('stager', None)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

__all__ = ["borrower", "lent"]

_LOANS: Final[ContextVar[Any]] = ContextVar("funcgrad_loans", default=None)
"""In this context: (a trace, who borrows its tracers, the next loan)."""


@contextmanager
def lent(lender: object, to: Any) -> Iterator[None]:
    """Within this context, let the trace ``to`` interpret operations on another's tracers alone.

    With None in the place of that trace, it interprets its own again.

    Only the trace next to it may borrow: tracers of traces in between must not hold its own.
    """
    token = _LOANS.set((lender, to, _LOANS.get()))
    try:
        yield
    finally:
        _LOANS.reset(token)


def borrower(lender: object) -> Any:
    """Who borrows a trace's tracers in this context; None if nobody does."""
    loans = _LOANS.get()
    while loans is not None:
        owner, to, loans = loans
        if owner is lender:
            return to
    return None
