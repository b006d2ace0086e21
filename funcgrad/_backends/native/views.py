"""Arrays as they lie in memory: a buffer, and strides within it.

Movements cost nothing where their result is a view of their operand: an index map is composed onto
the strides. Strides and offsets are counted in elements.

>>> from funcgrad._core.structure.index_maps import Piece
>>> rows = View(buffer=0, shape=(2, 3), strides=(3, 1))
>>> composed(rows, Piece(0, (3, 2), 0, (1, 3), 0, (2, 1)))  # transposed
View(buffer=0, shape=(3, 2), strides=(1, 3), offset=0)

Loops over axes go along several places at once. Others carry values from step to step.

>>> merged((2, 3, 4), (12, 4, 1), (0, 0, 0))  # one axis suffices
([24], [[1], [0]])
>>> merged((2, 3, 1), (3, 1, 0), (1, 2, 0))
([2, 3], [[3, 1], [1, 2]])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import TypeVar

from funcgrad._backends.native.function_text import FunctionText
from funcgrad._backends.native.instructions import Value, like, parts_of
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Shape
from funcgrad._core.structure.index_maps import Piece, dense_strides

K = TypeVar("K")


@dataclass(frozen=True, slots=True)
class View:
    """Elements of a buffer as an array.

    Attributes
    ----------
    buffer : int
        The variable whose memory it is.
    shape : tuple of int
    strides : tuple of int
        In elements; 0 where one element is repeated.
    offset : int
        The element with which it begins.
    """

    buffer: int
    shape: Shape
    strides: tuple[int, ...]
    offset: int = 0

    @property
    def is_dense(self) -> bool:
        """Whether its elements lie side by side in C order."""
        dense = dense_strides(self.shape)
        axes = zip(self.shape, self.strides, dense, strict=True)
        return all(size == 1 or stride == step for size, stride, step in axes)

    def covers(self, shape: Shape) -> bool:
        """Whether it is all of a buffer of some shape, in C order."""
        return self.is_dense and not self.offset and prod(self.shape) == prod(shape)

    def moved(self, axes: Sequence[int]) -> View:
        """The view with its axes in another order."""
        return replace(
            self,
            shape=tuple([self.shape[axis] for axis in axes]),
            strides=tuple([self.strides[axis] for axis in axes]),
        )

    def broadcast(self, shape: Shape) -> tuple[int, ...]:
        """The strides with which it is read beside arrays of a shape."""
        leading = len(shape) - len(self.shape)
        pairs = zip(self.shape, self.strides, strict=True)
        return (*(0,) * leading, *[0 if size == 1 else stride for size, stride in pairs])


def whole(buffer: int, shape: Shape) -> View:
    """All elements of a buffer, in C order."""
    return View(buffer, shape, dense_strides(shape))


def composed(view: View, piece: Piece) -> View | None:
    """A box of elements of a view, which a movement counts in C order; None if it is not strided.

    >>> composed(View(0, (4,), (2,)), Piece(0, (2,), 3, (-2,), 0, (1,)))
    View(buffer=0, shape=(2,), strides=(-4,), offset=6)
    """
    joined: list[tuple[int, int, int]] = []  # the size, the step in C order, the step in memory
    axes = zip(view.shape, dense_strides(view.shape), view.strides, strict=True)
    for size, step, stride in reversed([axis for axis in axes if axis[0] != 1]):
        if joined and joined[-1][2] * joined[-1][0] == stride:  # as one axis with the next
            joined[-1] = (joined[-1][0] * size, *joined[-1][1:])
        else:
            joined.append((size, step, stride))
    lowest = [piece.start // step % size for size, step, _ in joined]
    highest = list(lowest)
    offset = view.offset
    for index, (_, _, stride) in zip(lowest, joined, strict=True):
        offset += index * stride
    strides: list[int] = []
    for count, step in zip(piece.shape, piece.strides, strict=True):
        if not step:
            strides.append(0)
            continue
        place = _axis_of(step, joined)
        if place is None:
            return None
        steps = step // joined[place][1]
        strides.append(steps * joined[place][2])
        reach = highest if steps > 0 else lowest
        reach[place] += steps * (count - 1)
    bounds = zip(lowest, highest, joined, strict=True)
    if any(low < 0 or high >= size for low, high, (size, _, _) in bounds):
        return None  # an axis of the piece goes on from one axis of the view to the next
    return View(view.buffer, piece.shape, tuple(strides), offset)


def _axis_of(step: int, joined: Sequence[tuple[int, int, int]]) -> int | None:
    """The axis along which a step in C order goes, the slowest that fits."""
    for place in reversed(range(len(joined))):
        size, along, _ = joined[place]
        if step % along == 0 and abs(step // along) < size:
            return place
    return None


def reshaped(view: View, shape: Shape) -> View | None:
    """The view with another shape; None where that takes a copy.

    >>> reshaped(View(0, (2, 3), (3, 1)), (6,))
    View(buffer=0, shape=(6,), strides=(1,), offset=0)
    >>> reshaped(View(0, (3, 2), (1, 3)), (6,)) is None
    True
    """
    if prod(view.shape) != prod(shape):
        return None
    return composed(view, Piece(0, shape, 0, dense_strides(shape), 0, dense_strides(shape)))


def merged(shape: Sequence[int], *strides: Sequence[int]) -> tuple[list[int], list[list[int]]]:
    """A walk with as few axes as possible: sizes, and strides for each place that moves."""
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis, size in enumerate(shape):
        if size == 1:
            continue
        here = [along[axis] for along in strides]
        if sizes and all(
            before[-1] == step * size for before, step in zip(steps, here, strict=True)
        ):
            sizes[-1] *= size
            for before, step in zip(steps, here, strict=True):
                before[-1] = step
        else:
            sizes.append(size)
            for before, step in zip(steps, here, strict=True):
                before.append(step)
    return sizes, steps


def scanned_along(view: View, axis: int) -> tuple[int, int, int] | None:
    """The strides from row to row, along an axis, and from neighbour to neighbour.

    None where the axes before it, or those behind it, are several walks.

    >>> scanned_along(View(0, (2, 3, 4), (4, 8, 1)), 1)
    (4, 8, 1)
    """
    walks = [
        merged(view.shape[axes], view.strides[axes])
        for axes in (slice(axis), slice(axis + 1, None))
    ]
    if any(len(sizes) > 1 for sizes, _ in walks):
        return None
    before, after = [strides[0][0] if sizes else 0 for sizes, strides in walks]
    return before, view.strides[axis], after


def walk(
    lines: FunctionText,
    sizes: Sequence[int],
    strides: Sequence[Sequence[int]],
    places: Sequence[str],
    step: Callable[[Sequence[str]], None],
) -> None:
    """Write loops over axes, the last one innermost; none of them is empty.

    Parameters
    ----------
    lines : FunctionText
    sizes : sequence of int
    strides : sequence of sequence of int
        For each place how far it moves along each axis.
    places : sequence of str
        Where they begin.
    step : callable
        Writes the work at the places.
    """
    if not sizes:
        step(places)
        return

    def one(index: str, _: Sequence[str]) -> Sequence[str]:
        moved = [
            shifted(lines, place, index, along[0])
            for place, along in zip(places, strides, strict=True)
        ]
        walk(lines, sizes[1:], [along[1:] for along in strides], moved, step)
        return ()

    lines.counted(sizes[0], one)


def shifted(lines: FunctionText, place: str, index: str, stride: int) -> str:
    """Write a place so many strides further on."""
    if not stride:
        return place
    offset = lines.times(index, stride)
    return offset if place == "0" else lines.op(f"add i64 {place}, {offset}")


def repeated(
    lines: FunctionText,
    count: str | int,
    body: Callable[[str, list[Value]], Sequence[Value]],
    values: Sequence[Value],
    step: int = 1,
    start: str | int = 0,
) -> list[Value]:
    """Write a loop that carries values, as ``FunctionText.counted`` does texts."""

    def named(texts: Iterator[str]) -> list[Value]:
        return [like(value, texts) for value in values]

    def one(index: str, texts: Sequence[str]) -> list[str]:
        after = body(index, named(iter(texts)))
        return [component.text for value in after for component in parts_of(value)]

    components = [component for value in values for component in parts_of(value)]
    first = [(component.kind, component.text) for component in components]
    return named(iter(lines.counted(count, one, first, step, start)))


def carried(
    lines: FunctionText,
    count: str | int,
    body: Callable[[str, dict[K, Value]], Mapping[K, Value]],
    values: Mapping[K, Value],
    step: int = 1,
    start: str | int = 0,
) -> dict[K, Value]:
    """Write a loop that carries values by their names."""

    def one(index: str, before: list[Value]) -> list[Value]:
        after = body(index, dict(zip(values, before, strict=True)))
        return [after[name] for name in values]

    ended = repeated(lines, count, one, list(values.values()), step, start)
    return dict(zip(values, ended, strict=True))


def chosen(
    lines: FunctionText,
    condition: str,
    write: Callable[[], Sequence[Value]],
    otherwise: Sequence[Value],
) -> list[Value]:
    """Write a branch that makes values where a condition holds; else they are others."""
    before, ends = lines.block, list[tuple[Value, str]]()

    def branch() -> None:
        values = write()
        ends.extend([(value, lines.block) for value in values])

    lines.when(condition, branch)
    return [
        Value(
            lines.op(f"phi {old.kind} [{old.text}, %{before}], [{new.text}, %{end}]"),
            old.dtype,
            old.lanes,
        )
        for old, (new, end) in zip(otherwise, ends, strict=True)
    ]
