"""Where a recorder's entries go.

>>> ledger = Ledger()
>>> with ledger.aside() as entries:
...     ledger.append("an operation")
>>> entries, ledger.entries
(['an operation'], [])
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from funcgrad.trace import escaped

__all__ = ["Ledger"]

_ASIDE: Final[ContextVar[Any]] = ContextVar("funcgrad_aside", default=None)
"""In this context: (a ledger, the list that its entries go to, the same of the next ledger)."""


class Ledger:
    """Where a recorder's entries go: its list, unless this context has them go elsewhere.

    Attributes
    ----------
    entries : list of tuple, or None
        The list; None once the recorder has ended.
    """

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: list[Any] | None = []

    def current(self) -> list[Any] | None:
        """The list that entries go to in this context; None where values are only read.

        Raises
        ------
        EscapedTracerError
            The recorder has ended.
        """
        aside = _ASIDE.get()
        while aside is not None:
            ledger, entries, aside = aside
            if ledger is self:
                found: list[Any] | None = entries
                return found
        if self.entries is None:
            raise escaped()
        return self.entries

    def append(self, entry: Any) -> None:
        """Add an entry where it goes in this context."""
        entries = self.current()
        if entries is not None:
            entries.append(entry)

    @contextmanager
    def aside(self) -> Iterator[list[Any]]:
        """Within this context, collect entries in a list of their own."""
        entries: list[Any] = []
        token = _ASIDE.set((self, entries, _ASIDE.get()))
        try:
            yield entries
        finally:
            _ASIDE.reset(token)

    @contextmanager
    def unwritten(self) -> Iterator[None]:
        """Within this context, values are read and nothing is recorded."""
        token = _ASIDE.set((self, None, _ASIDE.get()))
        try:
            yield
        finally:
            _ASIDE.reset(token)
