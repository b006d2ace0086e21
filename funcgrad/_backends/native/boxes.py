"""Boxes of an array, in which the same pieces of a movement meet.

>>> from funcgrad._core.structure.index_maps import Piece
>>> left, right = Piece(0, (4,), 0, (1,), 0, (1,)), Piece(1, (4,), 0, (1,), 1, (1,))
>>> places = [place_in((6,), piece) for piece in (left, right)]
>>> for box in boxes_of((6,), places):
...     print(box.low, box.shape, box.pieces)
(0,) (1,) (0,)
(1,) (3,) (0, 1)
(4,) (1,) (1,)
(5,) (1,) ()
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from funcgrad._backends.native.views import View
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Shape
from funcgrad._core.structure.index_maps import Piece, dense_strides


@dataclass(frozen=True, slots=True)
class Place:
    """Where a piece lies in the result.

    Attributes
    ----------
    low : tuple of int
        The index of its first element.
    high : tuple of int
        One more than the index of its last element.
    axes : tuple of int or None
        For each axis of the result the axis of the piece along it, if there is one.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    axes: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Box:
    """Elements side by side along each axis.

    Attributes
    ----------
    low : tuple of int
        The index of the first one.
    shape : tuple of int
    pieces : tuple of int
        The numbers of the pieces that come there, in their order.
    """

    low: tuple[int, ...]
    shape: Shape
    pieces: tuple[int, ...]

    def has(self, index: Sequence[int]) -> bool:
        """Whether the element of an index is one of them."""
        places = zip(index, self.low, self.shape, strict=True)
        return all(0 <= at - first < size for at, first, size in places)


def place_in(shape: Shape, piece: Piece) -> Place | None:
    """Where a piece lies in a result of a shape; None if that is not a box."""
    steps = dense_strides(shape)
    low, left = [], piece.to
    for size, step in zip(shape, steps, strict=True):
        low.append(left // step if size > 1 else 0)
        left -= low[-1] * step
    high, axes = [place + 1 for place in low], list[int | None]([None] * len(shape))
    for axis, (count, step) in enumerate(zip(piece.shape, piece.to_strides, strict=True)):
        if count == 1:
            continue
        if step not in steps or step == 0:
            return None
        along = steps.index(step)
        if axes[along] is not None:
            return None
        high[along], axes[along] = low[along] + count, axis
        if high[along] > shape[along]:
            return None
    return Place(tuple(low), tuple(high), tuple(axes))


def boxes_of(shape: Shape, places: Sequence[Place]) -> Iterator[Box]:
    """The boxes that an array consists of; where no pieces come they are as large as possible."""

    def inside(low: tuple[int, ...], extents: Shape, active: Sequence[int]) -> Iterator[Box]:
        axis = len(low)
        if axis == len(shape) or not active:
            ends = shape[axis:]
            yield Box((*low, *[0] * len(ends)), (*extents, *ends), tuple(active))
            return
        starting: dict[int, list[int]] = {0: [], shape[axis]: []}
        for k in active:
            starting.setdefault(places[k].low[axis], []).append(k)
            starting.setdefault(places[k].high[axis], [])
        here: list[int] = []
        for begin, end in pairwise(sorted(starting)):
            going_on = [k for k in here if places[k].high[axis] > begin]
            here = sorted(going_on + starting[begin])
            yield from inside((*low, begin), (*extents, end - begin), here)

    yield from inside((), (), range(len(places)))


def box_of_piece(view: View, place: Place, box: Box) -> View:
    """The elements of a piece, which lie in memory as a view says, that come to a box."""
    strides, offset = [], view.offset
    for axis, low, start in zip(place.axes, place.low, box.low, strict=True):
        stride = 0 if axis is None else view.strides[axis]
        strides.append(stride)
        offset += (start - low) * stride
    return View(view.buffer, box.shape, tuple(strides), offset)
