"""Slices ``x[i : i + n]`` whose bounds are traced, and whose size is constant.

The shape of such a slice is known, although its place is not, so one program serves all places: it
takes a block (``take_block``). The size is the difference of the bounds. It is constant if both are
sums of one traced integer and known ones; or, in a batch, if all examples have the same.

NumPy's slices end where the array ends, so their shape may differ. Such a place is an error in a
loop; where the function may look at values, it looks whether the slice lies in the array.
"""

from __future__ import annotations

from itertools import repeat
from operator import attrgetter
from typing import Any, Final

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Shape, dtype_of, shape_of
from funcgrad._core.trace import RAW, TracedValue, Value, bind, concrete
from funcgrad._primitives.blocks import put_block, take_block
from funcgrad._primitives.elementwise import add, subtract
from funcgrad._primitives.logic import logical_and, logical_or
from funcgrad._primitives.selection import where
from funcgrad._primitives.structural import cast
from funcgrad.errors import EscapedTracerError, TracerError


def is_traced(x: object) -> bool:
    """Whether a value is traced, so that its numbers are not known, or known for a batch only."""
    return isinstance(x, TracedValue) and x._trace is not None


@dataclass(frozen=True, slots=True)
class TracedSlices:
    """The traced slices of a key, as a block, and the rest of the key.

    Attributes
    ----------
    axes, sizes : tuple of int
    starts : tuple of values
    mode : str
        "clip" where the block is known to lie in the array, else "raise".
    key : tuple
        The key of the block, with whole axes where the slices were.
    """

    axes: tuple[int, ...]
    sizes: Shape
    starts: tuple[Value, ...]
    mode: str
    key: tuple[Any, ...]

    def taken(self, x: Value) -> Value:
        """The block of an array."""
        params = {"axes": self.axes, "sizes": self.sizes, "mode": self.mode}
        return bind(take_block, (x, *self.starts), params)

    def put(self, x: Value, block: Value) -> Value:
        """The array with another block."""
        return bind(put_block, (x, block, *self.starts), {"axes": self.axes, "mode": self.mode})


def traced_slices(shape: Shape, key: object) -> TracedSlices | None:
    """Find the slices of a key that have traced bounds and a constant size.

    Returns
    -------
    TracedSlices or None
        None if there is none, or if some reach beyond the array: then the bounds are looked at.
    """
    entries = list(key) if type(key) is tuple else [key]
    if not any(type(e) is slice and (is_traced(e.start) or is_traced(e.stop)) for e in entries):
        return None
    depth = sum([_depth(entry) for entry in entries])
    axis, blocks, inside = 0, [], True
    for place, entry in enumerate(entries):
        size = _constant_size(entry) if isinstance(entry, slice) else None
        if (
            isinstance(entry, slice)
            and size is not None
            and axis < len(shape)
            and 0 < size <= shape[axis]
        ):
            start, is_inside = _place(entry.start, size, shape[axis])
            blocks.append((axis, size, start))
            inside = logical_and(inside, is_inside)
            entries[place] = slice(None)
        axis += len(shape) - depth if entry is ... else _depth(entry)
    if not blocks:
        return None
    mode = "clip"
    try:
        if not _looked_at(inside):
            return None
    except TracerError as error:
        if isinstance(error, EscapedTracerError):
            raise
        mode = "raise"
    axes, sizes, starts = zip(*blocks, strict=True)
    return TracedSlices(axes, sizes, starts, mode, tuple(entries))


def _looked_at(flag: Value) -> bool:
    """Whether a flag holds.

    Raises
    ------
    TracerError
        The function may not look at it, or it is staged for each example of a batch: then a program
        would have a path for slices that reach beyond the array, whose shapes are not known.
    """
    while type(flag) not in RAW:
        if flag._trace is None:
            flag = flag._value
        elif flag._trace.is_batch and is_traced(flag._trace.inner(flag)):
            raise TracerError("The bounds of a slice are traced in a batch.")
        else:
            flag = flag._reveal("bool(t)", exact=False)
    return bool(flag)


def _depth(entry: object) -> int:
    """The number of axes that an entry of a key indexes."""
    if entry is None or entry is ...:
        return 0
    if isinstance(entry, (TracedValue, np.ndarray)) and dtype_of(concrete(entry)).kind == "b":
        return len(shape_of(concrete(entry)))
    return 1


def _place(start: Value, size: int, length: int) -> tuple[Value, Value]:
    """The start of a block, counted from the front or beyond all bounds; whether it is inside."""
    value = concrete(start)
    if dtype_of(value) != np.int64:
        value = cast(value, dtype=np.dtype(np.int64))
    from_front = logical_and(value >= 0, value <= length - size)
    from_end = logical_and(value >= -length, value < -size)
    place = where(value < 0, where(from_end, value + length, value - 2 * length), value)
    return place, logical_or(from_front, from_end)


# ---------------------------------------------------------------------------------- constant sizes


def _constant_size(entry: slice) -> int | None:
    """The size of a slice, if it is constant."""
    step = entry.step
    if entry.start is None or entry.stop is None or not (step is None or step == 1):
        return None
    for bound in (entry.start, entry.stop):
        if is_traced(bound) and (shape_of(bound) or dtype_of(bound).kind not in "iu"):
            return None
    return constant_difference(entry.stop, entry.start)


def constant_difference(x: Value, y: Value) -> int | None:
    """The difference of two integers, if it is known not to depend on traced values."""
    (base, more), (other, less) = _anchored(x), _anchored(y)
    traced = [z for z in (base, other) if is_traced(z)]
    if not traced:
        differences = np.asarray(concrete(base)) + more - np.asarray(concrete(other)) - less
        first = differences.flat[0] if differences.size else 0
        is_constant = differences.dtype.kind in "iu" and bool(np.all(differences == first))
        return int(first) if is_constant else None
    trace = max([z._trace for z in traced], key=attrgetter("level"))
    if _are_same(base, other, _DEEPEST):
        return more - less
    if not trace.is_batch:
        return None
    difference = constant_difference(trace.inner(base), trace.inner(other))
    return None if difference is None else difference + more - less


_DEEPEST: Final = 6
"""The operations on top of each other by which two integers are compared."""


def _are_same(x: Value, y: Value, depth: int) -> bool:
    """Whether two integers are known to be the same, as results of the same operations."""
    if not (is_traced(x) and is_traced(y)):
        is_known = not (is_traced(x) or is_traced(y))
        return is_known and np.array_equal(concrete(x), concrete(y))
    if x._trace is not y._trace:
        return False
    if x._trace.is_same(x, y):
        return True
    first, second = x._trace.origin(x), x._trace.origin(y)
    if not depth or first is None or second is None or first[0].is_foreign:
        return False
    is_alike = first[0] is second[0] and first[2] == second[2] and len(first[1]) == len(second[1])
    return is_alike and all(map(_are_same, first[1], second[1], repeat(depth - 1)))


def _anchored(x: Value) -> tuple[Any, int]:
    """An integer as another one plus a known number."""
    more = 0
    while is_traced(x):
        origin = x._trace.origin(x)
        if origin is None:
            break
        operation, args, _ = origin
        known = [_known_integer(arg) for arg in args]
        if operation is add and None not in known[1:]:
            x, more = args[0], more + (known[1] or 0)
        elif operation is add and known[0] is not None:
            x, more = args[1], more + known[0]
        elif operation is subtract and known[1] is not None:
            x, more = args[0], more - known[1]
        else:
            break
    return x, more


def _known_integer(x: Value) -> int | None:
    """The number that all elements of an untraced array of integers have."""
    if is_traced(x):
        return None
    value = np.asarray(concrete(x))
    if value.dtype.kind not in "iu" or not value.size:
        return None
    return int(value.flat[0]) if np.all(value == value.flat[0]) else None
