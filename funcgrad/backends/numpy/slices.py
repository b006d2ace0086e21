"""Find the variables of a program that are rows of arrays, or the same part of each row.

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> staged = fg.program(lambda x: [fnp.sin(x[row, 1:]) for row in range(3)])(fnp.ones((3, 4)))
>>> slices = Slices(staged)
>>> slices.run((1, 3, 5))
Slice(array=0, key=(slice(1, 4, None),), row=0)
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

from funcgrad.primitives.index_keys import Key
from funcgrad.programs.program import Program
from funcgrad.programs.structures import rearranged
from funcgrad.shape import Shape
from funcgrad.structure import Piece, dense_strides

__all__ = ["Slice", "Slices"]


class Slice(NamedTuple):
    """A part of an array at one place of its first axis.

    Attributes
    ----------
    array : int
    key : Key
        The index for its other axes, but for axes of size 1.
    row : int
    """

    array: int
    key: Key
    row: int


class Slices:
    """The slices that variables of a program are, each looked for once."""

    __slots__ = ("_found", "_program")

    def __init__(self, program: Program) -> None:
        self._program = program
        self._found: dict[int, Slice | None] = {}

    def of(self, variable: int) -> Slice | None:
        """The array, row and key of a variable that is a part such as ``x[3]`` or ``x[3, 1:]``."""
        if variable not in self._found:
            self._found[variable] = self._slice(variable)
        return self._found[variable]

    def run(self, variables: Sequence[int]) -> Slice | None:
        """The first slice, if variables are ``x[n]``, ``x[n + 1]`` and so on of one array."""
        first = self.of(variables[0])
        if first is None:
            return None
        for row, variable in enumerate(variables, first.row):
            if self.of(variable) != first._replace(row=row):
                return None
        return first

    def _slice(self, variable: int) -> Slice | None:
        position, specs = self._program.index.makers[variable], self._program.index.specs
        if position < 0:
            return None
        maker = self._program.equations[position]
        piece = rearranged(maker, specs)
        if piece is None:
            return None
        array = maker.operands[0]
        shape = specs[array].shape
        if not shape:
            return None
        row, start = divmod(piece.start, prod(shape[1:]))
        key = _key(shape[1:], start, piece)
        return None if key is None else Slice(array, key, row)


def _key(shape: Shape, start: int, piece: Piece) -> Key | None:
    """The index that takes a piece of a row, from a place on, in the order of its axes."""
    if piece.strides == dense_strides(piece.shape) and prod(piece.shape) == prod(shape):
        return None if start else Key(())
    axes = [(n, step) for n, step in zip(piece.shape, piece.strides, strict=True) if n > 1]
    entries: list[int | slice] = []
    for size, stride in zip(shape, dense_strides(shape), strict=True):
        if not stride:  # the only place there is
            entries.append(0)
            continue
        place, start = divmod(start, stride)
        count, step = axes[0] if axes else (1, 0)
        last = place + (count - 1) * step // stride
        if step and not step % stride and 0 <= last < size:
            step //= stride
            stop = place + count * step
            entries.append(slice(place, None if stop < 0 else stop, None if step == 1 else step))
            del axes[0]
        else:
            entries.append(place)
    return None if axes else Key(entries)
