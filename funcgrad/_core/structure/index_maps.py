"""Index maps as integers: which elements of an array go where.

A ``Piece`` is a box of elements that moves as a whole. ``Places`` are elements that other operands
select by integers. Both count elements in C order.

>>> rows = chosen_places((5, 2), (3,), operand=1)  # x[i] for three integers i
>>> rows.shape, rows.strides
((3, 2), (0, 1))
>>> rows.indices
(IndexArray(operand=1, strides=(1, 0), size=5, step=2, mode='raise'),)
>>> [rows.at(k, lambda operand, place: [4, 0, -1][place]) for k in [(0, 1), (1, 1), (2, 0)]]
[9, 1, 8]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from funcgrad._core.specs import Shape


class Piece(NamedTuple):
    """A box of elements of an operand, and their places in the result.

    For each index ``k`` of an array of the shape, the element ``start + sum(strides * k)`` of the
    operand goes to the element ``to + sum(to_strides * k)`` of the result, both counted in C order.

    Attributes
    ----------
    operand : int
    shape : tuple of int
    start : int
    strides : tuple of int
        Strides in elements; 0 along axes of size 1, and if one element goes to several places.
    to : int
    to_strides : tuple of int
    """

    operand: int
    shape: tuple[int, ...]
    start: int
    strides: tuple[int, ...]
    to: int
    to_strides: tuple[int, ...]


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides in elements of an array in C order, 0 along axes of size 1.

    >>> dense_strides((4, 1, 3))
    (3, 0, 1)
    """
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(0 if size == 1 else step)
        step *= size
    return tuple(reversed(strides))


def place_of(window: Any, whole: Any) -> tuple[int, tuple[int, ...]]:
    """Return the start of a window in an array, and its strides; elements have one byte."""
    strides = window.strides
    if 1 in window.shape:
        strides = tuple([0 if n == 1 else s for n, s in zip(window.shape, strides, strict=True)])
    if window.size == whole.size and window.flags.c_contiguous:  # addresses are not needed
        return 0, strides
    return window.ctypes.data - whole.ctypes.data, strides


class IndexArray(NamedTuple):
    """An operand whose integers select places along an axis.

    Attributes
    ----------
    operand : int
    strides : tuple of int
        For each axis of the index ``k`` of ``Places``, the distance from one integer to the next in
        the operand; 0 if the same integer applies to all.
    size : int
        The number of places along the axis.
    step : int
        The distance in elements from one place to the next.
    mode : str
        The meaning of integers below 0, or from ``size`` on. With "raise" and "fill" negative
        integers count from the end. With "raise" an integer out of bounds is an ``IndexError``;
        with "fill" it reads a zero, and writes nothing. "wrap" means modulo ``size``, "clip" the
        first or the last place.
    """

    operand: int
    strides: tuple[int, ...]
    size: int
    step: int
    mode: Literal["raise", "wrap", "clip", "fill"] = "raise"

    def place(self, integer: int) -> int | None:
        """Return the place that an integer selects, counted from 0, or None.

        Raises
        ------
        IndexError
            The integer is out of bounds, and the mode is "raise".
        """
        if self.mode == "wrap":
            return integer % self.size
        if self.mode == "clip":
            return min(max(integer, 0), self.size - 1)
        if -self.size <= integer < self.size:
            return integer % self.size
        if self.mode == "fill":
            return None
        raise IndexError(f"index {integer} is out of bounds for an axis of size {self.size}")


class Places(NamedTuple):
    """Elements of an array selected by integers: one for each index ``k`` of a shape.

    For ``k`` it is the element ``start + sum(strides * k)``, plus ``step * place`` for each index
    array.

    Attributes
    ----------
    shape : tuple of int
    start : int
    strides : tuple of int
    indices : tuple of IndexArray
    unique : bool
        Whether all selected elements are known to be distinct.
    """

    shape: Shape
    start: int
    strides: tuple[int, ...]
    indices: tuple[IndexArray, ...] = ()
    unique: bool = False

    def at(self, k: Sequence[int], read: Callable[[int, int], int]) -> int | None:
        """Return the position of the element for an index ``k``, or None.

        Parameters
        ----------
        k : sequence of int
        read : callable
            From the position of an operand, and the position of an element in it, to the integer.
        """
        element = self.start + _dot(self.strides, k)
        for index in self.indices:
            place = index.place(read(index.operand, _dot(index.strides, k)))
            if place is None:
                return None
            element += index.step * place
        return element


def _dot(strides: Sequence[int], k: Sequence[int]) -> int:
    return sum([step * n for step, n in zip(strides, k, strict=True)])


def chosen_places(shape: Shape, *index_shapes: Shape, operand: int, axis: int = 0) -> Places:
    """Return the places that index arrays, which broadcast, select on consecutive axes.

    Parameters
    ----------
    shape : tuple of int
        The shape of the array.
    *index_shapes : tuple of int
    operand : int
        The position of the first index array among the operands.
    axis : int
        The first of the consecutive axes.

    Returns
    -------
    Places

    Examples
    --------
    >>> chosen_places((4, 5), (3,), operand=1).shape
    (3, 5)
    """
    count, chosen = len(index_shapes), np.broadcast_shapes(*index_shapes)
    steps, behind = dense_strides(shape), len(shape) - axis - len(index_shapes)
    indices = []
    for k, index_shape in enumerate(index_shapes):
        broadcast = (0,) * (len(chosen) - len(index_shape)) + dense_strides(index_shape)
        strides = (0,) * axis + broadcast + (0,) * behind
        indices.append(IndexArray(operand + k, strides, shape[axis + k], steps[axis + k]))
    return Places(
        shape[:axis] + chosen + shape[axis + count :],
        0,
        steps[:axis] + (0,) * len(chosen) + steps[axis + count :],
        tuple(indices),
    )
