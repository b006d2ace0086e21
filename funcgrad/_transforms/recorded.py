"""The tracer of reverse mode, and the record that its recorder leaves behind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from funcgrad._core.primitive import Primitive
from funcgrad._core.trace import Raw, Value
from funcgrad._core.users_values import FREE, ArrayLike, explained
from funcgrad._primitives import elementwise as ew
from funcgrad._primitives.contraction import matmul
from funcgrad._transforms.accumulation import finished
from funcgrad._transforms.entries import Entry, VariableMap, pull_back, push_through
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
