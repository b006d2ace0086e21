"""The parameters of a scan in programs.

>>> import funcgrad as fg
>>> body = fg.program(lambda w, c, x: (w * c, x + c))(2.0, 3.0, 4.0)
>>> scan = ScanSettings(body, consts=1, carry=1, length=5)
>>> scan.parts("wcx"), list(scan._replace(reverse=True).steps())
(('w', 'c', 'x'), [4, 3, 2, 1, 0])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from funcgrad.programs.program import Program
from funcgrad.shape import Spec

T = TypeVar("T")


class ScanSettings(NamedTuple):
    """How a scan runs.

    Attributes
    ----------
    body : Program
        Takes the values that all steps share, the carry, and one slice of each array.
    consts, carry : int
        The number of values that all steps share, and of those in the carry.
    length : int
    reverse : bool
        Whether the last slice comes first.
    unroll : int
        How many steps a compiler may write out; it changes no result.
    """

    body: Program
    consts: int
    carry: int
    length: int
    reverse: bool = False
    unroll: int = 1

    def parts(self, values: Sequence[T]) -> tuple[Sequence[T], Sequence[T], Sequence[T]]:
        """Split a sequence with an entry for each operand: shared values, carry and arrays."""
        stop = self.consts + self.carry
        return values[: self.consts], values[self.consts : stop], values[stop:]

    def is_carry(self, position: int) -> bool:
        """Whether an operand is a part of the carry."""
        return self.consts <= position < self.consts + self.carry

    def steps(self) -> range:
        """The numbers of the slices, in the order of the steps."""
        return range(self.length - 1, -1, -1) if self.reverse else range(self.length)

    def slices(self) -> list[Spec]:
        """The specs of the results of a step besides the carry."""
        specs = self.body.specs()
        return [specs[variable] for variable in self.body.outputs[self.carry :]]

    def over(self, body: Program) -> ScanSettings:
        """Replace the body."""
        return self._replace(body=body)
