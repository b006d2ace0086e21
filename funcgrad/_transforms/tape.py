"""The tape of a recorder: the list that its entries go to, and how later rules read its tracers.

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
from typing import Any

from funcgrad._core.context import current, entered
from funcgrad._core.trace import RAW, Trace, Value, concrete, escaped, running_traces
from funcgrad._transforms.masked import map_cotangent


class Tape:
    """The list that a recorder's entries go to, unless this context sends them elsewhere.

    Attributes
    ----------
    entries : list of Entry, or None
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
        for tape, entries in current().asides:
            if tape is self:
                return entries
        if self.entries is None:
            raise escaped()
        return self.entries

    def append(self, entry: object) -> bool:
        """Append an entry to the list of this context; True if there is none."""
        entries = self.current()
        if entries is not None:
            entries.append(entry)
        return entries is None

    @contextmanager
    def aside(self) -> Iterator[list[Any]]:
        """Within this context, collect entries in a list of their own."""
        entries: list[Any] = []
        context = current()
        with entered(context._replace(asides=((self, entries), *context.asides))):
            yield entries


class Readable(Trace):
    """A trace whose tracers have one value inside, which rules that run later may read.

    Attributes
    ----------
    tape : Tape
        Says whether they do, in this context.
    """

    __slots__ = ("tape",)

    def __init__(self, level: int) -> None:
        super().__init__(level)
        self.tape = Tape()


def reading(
    trace: Readable, rule: Callable[[list[Value]], Sequence[Value]]
) -> Callable[[list[Value]], Sequence[Value]]:
    """A rule that runs later, and then reads the values inside of tracers that it closes over.

    So it is of tracers of the call's trace, and of those inside of it, with which a rule may be
    made. Where the call is made by a rule that itself reads tracers of another trace, so does this.
    """
    inside = [other for other in running_traces() if other.level > trace.level]
    tapes: list[object] = [other.tape for other in (trace, *inside) if isinstance(other, Readable)]
    tapes += [tape for tape, _ in current().asides]

    def inner(value: Value) -> Value:
        while type(value) not in RAW:
            trace = value._trace
            if not isinstance(trace, Readable) or trace.tape not in tapes:
                break
            value = value._value
        return concrete(value)

    def read(values: list[Value]) -> list[Value]:
        context = current()
        asides = (*[(tape, None) for tape in reversed(tapes)], *context.asides)
        with entered(context._replace(asides=asides)):
            return [None if out is None else map_cotangent(out, inner) for out in rule(values)]

    return read
