"""Where a recorder's entries go.

>>> tape = Tape()
>>> with tape.aside() as entries:
...     tape.append("an operation")
False
>>> entries, tape.entries
(['an operation'], [])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from funcgrad.trace import TracedValue, Value, concrete, escaped
from funcgrad.transforms.masked import each

__all__ = ["Tape", "reading"]

_ASIDE: Final[ContextVar[Any]] = ContextVar("funcgrad_aside", default=None)
"""In this context: (a tape, the list that its entries go to, the same of the next tape)."""


class Tape:
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
            tape, entries, aside = aside
            if tape is self:
                found: list[Any] | None = entries
                return found
        if self.entries is None:
            raise escaped()
        return self.entries

    def append(self, entry: object) -> bool:
        """Add an entry where it goes in this context; True where it goes nowhere."""
        entries = self.current()
        if entries is not None:
            entries.append(entry)
        return entries is None

    @contextmanager
    def aside(self) -> Iterator[list[Any]]:
        """Within this context, collect entries in a list of their own."""
        entries: list[Any] = []
        token = _ASIDE.set((self, entries, _ASIDE.get()))
        try:
            yield entries
        finally:
            _ASIDE.reset(token)


def reading(
    tapes: Sequence[Tape], kind: type[TracedValue], rule: Callable[[Any], Sequence[Value]]
) -> Any:
    """A rule that runs later: recorders' tracers that it closes over are read, not recorded.

    Where the call is made by a rule that itself reads tracers of another recorder, so does this.

    Parameters
    ----------
    tapes : sequence of Tape
        The recorders'.
    kind : type
        Of tracer.
    rule : callable
    """
    tapes = list(tapes)
    aside = _ASIDE.get()
    while aside is not None:
        tapes.append(aside[0])
        aside = aside[2]

    def inner(value: Value) -> Value:
        while type(value) is kind and value._trace._tape in tapes:
            value = value._value
        return concrete(value)

    def read(values: Sequence[Value]) -> list[Value]:
        chain = _ASIDE.get()
        for own in tapes:
            chain = (own, None, chain)
        token = _ASIDE.set(chain)
        try:
            return [None if out is None else each(out, inner) for out in rule(values)]
        finally:
            _ASIDE.reset(token)

    return read
