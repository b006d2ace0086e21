"""The record of a computation, as a value of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from funcgrad._core.trace import Value
from funcgrad._transforms.accumulation import finished
from funcgrad._transforms.entries import Entry, VariableMap, pull_back, push_through


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
