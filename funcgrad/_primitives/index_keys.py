"""Split index keys, the objects in the brackets of ``x[key]``, into steps.

A key has a *basic* part (integers, slices, None, Ellipsis) and an *advanced* part (integer arrays
and boolean masks). An ``IndexPlan`` divides a key into three steps; each is a primitive.

>>> plan_index((5, 4), (slice(1, None), [0, 2]))
IndexPlan(key=(slice(1, None, None), slice(None, None, None)), order=None, indices=(array([0, 2]),),
     axis=1, unique=False)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from operator import index as as_integer
from typing import Any, Final

import numpy as np

from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Shape, dtype_of, shape_of
from funcgrad._core.trace import RAW, Raw, TracedValue, Value, concrete, reason
from funcgrad._core.users_values import operand
from funcgrad.errors import (
    AxisError,
    DtypeError,
    FuncgradError,
    IndexKindError,
    LeafError,
    ShapeError,
    TracerError,
)

_BOUNDS: Final = frozenset({int, type(None)})
_INDEX: Final = "t as an index"
_MASK: Final = "a boolean mask as an index"
_WHOLE: Final = slice(None)


class Key(tuple[Any, ...]):
    """A basic index that can be hashed: integers, slices of integers, None and an Ellipsis.

    >>> hash(Key((slice(1, 2), 0))) == hash(Key((slice(1, 2), 0)))
    True
    """

    __slots__ = ()

    def __hash__(self) -> int:
        # Slices are hashable from Python 3.12 on only.
        return hash(tuple([(e.start, e.stop, e.step) if type(e) is slice else e for e in self]))


def part_at(x: Raw, key: Key) -> Raw:
    """The part of an array that an index selects: a view, even for a single element."""
    return x[key] if ... in key else x[(*key, ...)]


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """A key in the form of the primitives' arguments.

    Attributes
    ----------
    key : Key or None
        The basic part, applied first; None if it has no effect.
    order : tuple of int or None
        A transposition, applied second, if NumPy puts the indexed axes in front.
    indices : tuple of values
        Index arrays on consecutive axes, applied third; possibly empty.
    axis : int
        The first of these axes.
    unique : bool
        Whether the index arrays are known to select no element twice.
    """

    key: Key | None
    order: tuple[int, ...] | None = None
    indices: tuple[Value, ...] = ()
    axis: int = 0
    unique: bool = False


@dataclass(frozen=True, slots=True)
class _Mask:
    """A boolean mask as an entry of a key."""

    mask: np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class _Arrays:
    """Index arrays as an entry of a key: one array, or the arrays of a mask.

    Attributes
    ----------
    indices : tuple of values
    depth : int
        The number of axes that they index; a 0-d mask indexes a new axis.
    masked : bool
    """

    indices: tuple[Value, ...]
    depth: int
    masked: bool = False


def is_basic(key: tuple[Any, ...]) -> bool:
    """Whether a key consists of plain integers, slices of them, None and Ellipsis."""
    for entry in key:
        kind = type(entry)
        if kind is slice:
            if (
                type(entry.start) not in _BOUNDS
                or type(entry.stop) not in _BOUNDS
                or type(entry.step) not in _BOUNDS
            ):
                return False
        elif kind is not int and entry is not None and entry is not ...:
            return False
    return True


def with_plain_integers(key: tuple[Any, ...]) -> tuple[Any, ...]:
    """A key with Python integers instead of tensors of one integer, such as loop counters."""
    return tuple([_plain(entry) if isinstance(entry, TracedValue) else entry for entry in key])


def _plain(entry: TracedValue) -> Any:
    value = concrete(entry)
    is_one = type(value) is int or isinstance(value, np.integer)
    return int(value) if is_one else entry


def index_text(key: Iterable[Any]) -> str:
    """A basic index as Python text.

    >>> index_text((slice(1, None), None, ..., -1))
    '1:, None, ..., -1'
    """
    return ", ".join(map(_entry_text, key)) or "()"


def _entry_text(entry: object) -> str:
    if type(entry) is not slice:
        return "..." if entry is ... else repr(entry)
    start, stop, step = ["" if n is None else str(n) for n in (entry.start, entry.stop, entry.step)]
    return f"{start}:{stop}:{step}" if step else f"{start}:{stop}"


def plan_index(shape: Shape, key: Any) -> IndexPlan:
    """Split a key into its basic and its advanced part.

    Raises
    ------
    AxisError
        The key has more indices than axes.
    ShapeError
        A mask does not fit the shape.
    DtypeError
        An index is not of an integer dtype.
    TracerError
        A mask is not concrete.
    """
    if not isinstance(key, tuple) and shape:
        entry = _entry(key)
        if type(entry) is _Arrays:  # the most common cases, answered directly
            return IndexPlan(None, None, entry.indices, 0, False)
        if type(entry) is int or type(entry) is slice:
            return IndexPlan(Key((entry, *[_WHOLE] * (len(shape) - 1))))
    entries = _spelled_out(shape, key)
    arrays = [entry for entry in entries if type(entry) is _Arrays]
    if not arrays:
        return IndexPlan(Key(entries))
    basic: list[Any] = []
    axes: list[int] = []  # with index arrays on them, counted behind the basic part
    rank = runs = 0
    before = False
    for entry in entries:
        if type(entry) is _Arrays:
            axes += range(rank, rank + len(entry.indices))
            basic += [_WHOLE] * entry.depth if entry.depth else [None]
            rank += len(entry.indices)
        else:
            basic.append(entry)
            rank += type(entry) is not int and entry is not ...
        # Runs of indices that NumPy counts as advanced: integers join arrays.
        advanced = type(entry) in (int, _Arrays)
        runs += advanced and not before
        before = advanced
    basic_key = None if all(entry is ... or entry == _WHOLE for entry in basic) else Key(basic)
    indices = tuple([array for entry in arrays for array in entry.indices])
    unique = len(arrays) == 1 and arrays[0].masked
    unique = unique or all(n == 1 for array in indices for n in shape_of(array))
    if runs == 1:
        return IndexPlan(basic_key, None, indices, axes[0], unique)
    order = (*axes, *[a for a in range(rank) if a not in axes])
    return IndexPlan(basic_key, None if order == tuple(range(rank)) else order, indices, 0, unique)


def _spelled_out(shape: Shape, key: Any) -> list[Any]:
    """The entries of a key, one for every axis; masks have become index arrays.

    An Ellipsis without axes is kept, since in NumPy it still separates advanced indices.
    """
    entries = [_entry(raw) for raw in (key if isinstance(key, tuple) else (key,))]
    depth = sum([_depth(entry) for entry in entries])
    if depth > len(shape):
        raise AxisError(f"Too many indices: {depth} for a tensor of the shape {shape}.")
    dots = sum([entry is ... for entry in entries])
    if dots > 1:
        raise AxisError("An index can have one ellipsis (...) only.")
    whole_axes: list[Any] = [_WHOLE] * (len(shape) - depth)
    result: list[Any] = []
    axis = 0
    for entry in entries if dots else [*entries, ...]:
        if entry is ...:
            result += whole_axes or [...] * dots
            axis += len(whole_axes)
            continue
        taken = _depth(entry)
        result.append(_chosen(entry.mask, shape, axis) if type(entry) is _Mask else entry)
        axis += taken
    return result


def _depth(entry: object) -> int:
    """The number of axes that an entry indexes."""
    if entry is None or entry is ...:
        return 0
    if type(entry) is _Mask:
        return entry.mask.ndim
    return 1


def _entry(raw: Any) -> Any:
    """One entry of a key as an int, a slice of ints, None, Ellipsis, a mask or index arrays."""
    if raw is None or raw is ... or type(raw) is int:
        return raw
    if isinstance(raw, slice):
        return slice(_bound(raw.start), _bound(raw.stop), _bound(raw.step))
    value: Value = raw
    if isinstance(raw, TracedValue):
        pass
    elif hasattr(raw, "__index__") and not isinstance(raw, (bool, np.bool_, np.ndarray)):
        return as_integer(raw)
    else:
        try:
            value = operand(raw, "indexing")
        except (LeafError, DtypeError) as error:
            raise IndexKindError(str(error)) from None
        if isinstance(raw, Sequence) and not np.size(value):
            value = np.zeros(shape_of(value), np.intp)  # as in NumPy: [] has floats
    kind = dtype_of(value).kind
    if kind == "b":
        return _Mask(_revealed(value))
    if kind not in "iu":
        raise IndexKindError(
            f"Indices have to be integers or booleans, not {dtype_of(value)}: cast them with"
            " astype(int)."
        )
    if not shape_of(value) and (type(value) in RAW or value._trace is None):
        return as_integer(value)
    return _Arrays((value,), 1)


def _bound(bound: Any) -> int | None:
    try:
        return None if bound is None else as_integer(bound)
    except TracerError as error:
        raise TracerError(
            "The bounds of a slice have to be concrete, since the shape of the result depends on"
            f" them; use an integer array, as fnp.take does. {reason(error, _INDEX)}"
        ) from None
    except TypeError:
        raise DtypeError(
            f"The bounds of a slice have to be integers or None, not {type(bound).__name__}."
        ) from None


def _revealed(mask: Any) -> np.ndarray[Any, Any]:
    """The booleans of a mask."""
    try:
        while type(mask) not in RAW:
            mask = mask._reveal(_MASK, exact=False)
    except TracerError as error:
        raise TracerError(
            "A traced boolean mask cannot be an index, since the shape of the result depends on"
            f" it: write fnp.where(mask, x, other), which keeps the shape. {reason(error, _MASK)}"
        ) from None
    return np.asarray(mask)


def _chosen(mask: np.ndarray[Any, Any], shape: Shape, axis: int) -> _Arrays:
    """The index arrays for a mask on the axes from ``axis`` on."""
    sizes = shape[axis : axis + mask.ndim]
    if mask.shape != sizes:
        raise AxisError(
            f"A boolean mask of the shape {mask.shape} does not fit the axes {axis} to"
            f" {axis + mask.ndim - 1}, of the sizes {sizes}, of a tensor of the shape {shape}."
        )
    if not mask.ndim:
        return _Arrays((np.zeros(int(mask), np.intp),), 0, masked=True)
    return _Arrays(np.nonzero(mask), mask.ndim, masked=True)


def explain_index(shape: Shape, key: object, error: Exception) -> Exception:
    """The error for a key that does not fit: it names the axis, its size and the index."""
    if isinstance(error, FuncgradError):
        return error
    axis = 0
    try:
        entries = _spelled_out(shape, key)
    except FuncgradError as refusal:
        return refusal
    for entry in entries:
        if type(entry) in (int, _Arrays):
            size = shape[axis] if axis < len(shape) else 0
            for bad in _outside(entry, size):
                return AxisError(
                    f"The index {bad} is out of bounds for axis {axis}, of size {size}, of a tensor"
                    f" of the shape {shape}."
                )
        axis += entry.depth if type(entry) is _Arrays else _depth(entry)
    seen = re.search(r"index (-?\d+) is out of bounds .* size (\d+)", str(error))
    if seen:
        return AxisError(
            f"The index {seen[1]} is out of bounds for an axis of size {seen[2]} of a tensor of"
            f" the shape {shape}."
        )
    shapes = [shape_of(i) for entry in entries if type(entry) is _Arrays for i in entry.indices]
    # For index arrays that do not broadcast, NumPy raises an IndexError, which users may catch.
    kind = AxisError if len(shapes) > 1 else ShapeError
    return kind(
        f"Indexing a tensor of the shape {shape} with arrays of the shapes {shapes}: {error}"
    )


def _outside(entry: Any, size: int) -> list[int]:
    """The first index out of bounds, if its value is known."""
    for array in entry.indices if type(entry) is _Arrays else (entry,):
        if type(array) in RAW or array._trace is None:
            array = np.asarray(array if type(array) in RAW else array._value)
            bad = array[(array < -size) | (array >= size)]
            if bad.size:
                return [int(bad.flat[0])]
    return []
