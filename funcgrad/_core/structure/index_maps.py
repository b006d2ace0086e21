"""Index maps as numbers: which elements of an array go where.

A ``Piece`` is a box of elements that moves as it is. ``Places`` are elements that other operands
choose, by integers. Both count elements in C order.

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
    """A box of elements of an operand, and where they go.

    For each index ``k`` of an array of the shape, the element ``start + sum(strides * k)`` of the
    operand goes to the element ``to + sum(to_strides * k)`` of the result, both counted in C order.

    Attributes
    ----------
    operand : int
    shape : tuple of int
    start : int
    strides : tuple of int
        In elements; 0 along axes of size 1, and where one element goes to several places.
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
    """Return where a window of an array begins, and its strides; elements have one byte."""
    strides = window.strides
    if 1 in window.shape:
        strides = tuple([0 if n == 1 else s for n, s in zip(window.shape, strides, strict=True)])
    if window.size == whole.size and window.flags.c_contiguous:  # no need to ask for addresses
        return 0, strides
    return window.ctypes.data - whole.ctypes.data, strides


class IndexArray(NamedTuple):
    """An operand whose integers choose places along an axis.

    Attributes
    ----------
    operand : int
    strides : tuple of int
        For each axis of the index ``k`` of ``Places``, the distance from one integer to the next in
        the operand; 0 where the same integer stands for all.
    size : int
        The number of places along the axis.
    step : int
        The distance in elements from one place to the next.
    mode : str
        What an integer below 0, or from ``size`` on, means. With "raise" and "fill" negative
        integers count from the end. With "raise" an integer out of bounds is an ``IndexError``;
        with "fill" it reads a zero, and writes nothing. "wrap" counts round and round, "clip" takes
        the first or the last place.
    """

    operand: int
    strides: tuple[int, ...]
    size: int
    step: int
    mode: Literal["raise", "wrap", "clip", "fill"] = "raise"

    def place(self, integer: int) -> int | None:
        """Return the place that an integer chooses, counted from 0; None where there is none.

        Raises
        ------
        IndexError
            There is no such place, and the mode is "raise".
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
    """Elements of an array that integers choose: one for each index ``k`` of a shape.

    For ``k`` it is the element ``start + sum(strides * k)``, and ``step * place`` further on for
    each of the index arrays.

    Attributes
    ----------
    shape : tuple of int
    start : int
    strides : tuple of int
    indices : tuple of IndexArray
    unique : bool
        Whether it is known that no element is chosen twice.
    """

    shape: Shape
    start: int
    strides: tuple[int, ...]
    indices: tuple[IndexArray, ...] = ()
    unique: bool = False

    def at(self, k: Sequence[int], read: Callable[[int, int], int]) -> int | None:
        """Return the number of the element for an index ``k``; None where there is no such place.

        Parameters
        ----------
        k : sequence of int
        read : callable
            From the position of an operand, and the number of one of its elements, to that integer.
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
    """Return the places that index arrays, which broadcast, choose on consecutive axes.

    Parameters
    ----------
    shape : tuple of int
        The shape of the array.
    *index_shapes : tuple of int
    operand : int
        The position of the first of the index arrays among the operands.
    axis : int
        The first of these axes.

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
