"""Tracers of reverse mode, the tape that its entries go to, and the record that remains.

>>> tape = Tape()
>>> with tape.aside() as entries:
...     tape.append("an operation")
False
>>> entries, tape.entries
(['an operation'], [])
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from funcgrad._core.context import current, entered
from funcgrad._core.primitive import Primitive
from funcgrad._core.trace import RAW, Raw, Trace, Value, concrete, escaped, running_traces
from funcgrad._core.users_values import FREE, ArrayLike, explained
from funcgrad._primitives import elementwise as ew
from funcgrad._primitives.contraction import matmul
from funcgrad._transforms.accumulation import finished
from funcgrad._transforms.entries import Entry, VariableMap, pull_back, push_through
from funcgrad._transforms.masked import map_cotangent
from funcgrad.tensor.conversion import reveal_primal
from funcgrad.tensor.tensor import Tensor, operate_generally


def _operators(primitive: Primitive) -> tuple[Any, Any]:
    """An operator of recorded values and its reflection, in one call rather than five.

    The calls on the way to ``process2`` are half the cost of recording a small operation; they are
    left out where the other operand is a number, a concrete tensor, or recorded by the same trace.
    """

    def operate(self: Recorded, other: ArrayLike) -> Any:
        trace, kind = self._trace, type(other)
        if kind is Recorded and other._trace is trace:
            second, y = other._index, other._value
        elif kind in FREE:
            second, y = -1, other
        elif kind is Tensor:
            second, y = -1, other._value
        else:
            return operate_generally(primitive, self, other)
        try:
            if trace.is_plain:
                return trace.record2(primitive, self._index, second, self._value, y)
            return trace.process2(primitive, self, other)
        except (ValueError, TypeError, OverflowError) as error:
            raise explained(error, primitive.name, self, other) from error

    def reflected(self: Recorded, other: ArrayLike) -> Any:
        trace = self._trace
        if type(other) in FREE and trace.is_plain:
            return trace.record2(primitive, -1, self._index, other, self._value)
        return operate_generally(primitive, other, self)

    return operate, reflected


class Recorded(Tensor):
    """A value whose history is being recorded."""

    __slots__ = ("_index", "_trace")
    _index: int

    __add__, __radd__ = _operators(ew.add)
    __sub__, __rsub__ = _operators(ew.subtract)
    __mul__, __rmul__ = _operators(ew.multiply)
    __truediv__, __rtruediv__ = _operators(ew.divide)
    __matmul__, __rmatmul__ = _operators(matmul)

    def _reveal(self, use: str, exact: bool) -> Raw:
        self._trace.check()
        return reveal_primal(self._value, use, exact and self._trace.keeps_numbers)


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


class Record:
    """A recorded computation, as a value: it pushes and pulls any number of times.

    Attributes
    ----------
    entries : tuple of Entry
        In the order of execution.
    size : int
        One more than the largest number of a variable.
    inputs : tuple of int
        The variables that were recorded from.
    """

    __slots__ = ("entries", "inputs", "size")

    def __init__(self, entries: Sequence[Entry], inputs: tuple[int, ...], size: int) -> None:
        self.entries = entries
        self.inputs = inputs
        self.size = size

    def push(self, outputs: Sequence[int], tangents: Sequence[Value]) -> list[Value]:
        """The tangents of outputs, from the inputs'; None is a zero."""
        known = VariableMap(zip(self.inputs, tangents, strict=True))
        push_through(self.entries, known)
        return [known[index] for index in outputs]

    def pull(self, outputs: Sequence[int], cts: Sequence[Value]) -> list[Value]:
        """The inputs' cotangents, from the outputs'; None where none reaches an input.

        The outputs are variables, and negative where one does not depend on the inputs.
        """
        return self._pull(reversed(self.entries), outputs, cts)

    def pull_once(self, output: int, ct: Value) -> list[Value]:
        """Pull once, and free each entry after it has been pulled through."""
        entries: list[Any] = [None, *self.entries]  # None is where `iter` stops
        self.entries = ()
        return self._pull(iter(entries.pop, None), [output], [ct])

    def _pull(
        self, backwards: Iterable[Entry], outputs: Sequence[int], cts: Sequence[Value]
    ) -> list[Value]:
        cotangents: list[Value] = [None] * self.size
        pull_back(backwards, cotangents, outputs, cts)
        return [finished(cotangents[index]) for index in self.inputs]
