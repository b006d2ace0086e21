"""Indexing: ``x[key]`` for every key that NumPy has.

A key falls apart into a *basic* part (integers, slices, None, Ellipsis), which is the static
parameter of ``view``, and an *advanced* part (integer arrays, boolean masks), whose index arrays
are operands of ``gather``, so that a batch of indices is nothing special. The transpose of
``gather`` is ``deposit``, which adds up what arrives at one place.

>>> index(np.array([10.0, 20.0, 30.0]), [2, 0, 2])
array([30., 10., 30.])
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import index as as_integer
from typing import Any, Final

import numpy as np

from funcgrad.border import operand
from funcgrad.errors import AxisError, DtypeError, ShapeError, TracerError
from funcgrad.primitive import Linear, Primitive, Sample, Transposes
from funcgrad.primitives.reduction import broadcast_to
from funcgrad.primitives.structural import Key, reshape, transpose, view
from funcgrad.shape import Shape, Spec, broadcast_shapes, dtype_of, shape_of
from funcgrad.trace import RAW, TracedValue, Value, bind

__all__ = [
    "Plan",
    "align_indices",
    "deposit",
    "explain_index",
    "gather",
    "index",
    "index_key",
    "indexed_part",
    "plan_index",
    "positions",
    "with_batch",
]

# ----------------------------------------------------------------------------- gather and deposit


def index_key(indices: Sequence[Any], axis: int) -> tuple[Any, ...]:
    """NumPy's index for index arrays on consecutive axes."""
    return (slice(None),) * axis + tuple(indices)


def positions(shape: Shape, indices: Sequence[Any], axis: int) -> np.ndarray[Any, Any]:
    """Which elements of a flat array an index chooses, in order.

    A write through these visits the elements one after the other, so that of several writes to one
    place the last wins; through NumPy's own index the order depends on the memory layout.
    """
    size = int(np.prod(shape))
    chosen: np.ndarray[Any, Any] = np.arange(size).reshape(shape)[index_key(indices, axis)]
    return chosen.reshape(-1)


def _gather(x: Any, *indices: Any, axis: int, unique: bool) -> Any:
    return np.asarray(x)[index_key(indices, axis)]


def _deposit(x: Any, *indices: Any, axis: int, unique: bool, shape: Shape) -> Any:
    out = np.zeros(shape, dtype_of(x))
    if unique:
        out[index_key(indices, axis)] = x
    else:  # several times quicker than np.add.at with a key
        np.add.at(out.reshape(-1), positions(shape, indices, axis), np.ravel(x))
    return out


def _gathered(x: Spec, *indices: Spec, axis: int, unique: bool) -> Spec:
    chosen = broadcast_shapes("indexing", *(i.shape for i in indices))
    return Spec(x.shape[:axis] + chosen + x.shape[axis + len(indices) :], x.dtype)


def align_indices(
    size: int, indices: Sequence[Value], batched: Sequence[bool]
) -> tuple[tuple[Value, ...], int]:
    """Index arrays of which some carry a batch, for use behind an index array for the batch axis.

    Returns
    -------
    tuple of values
        The index array of the batch axis, then the given ones, the batch on their first axis.
    rank : int
        The number of axes that the indices have in one example.
    """
    ranks = [len(shape_of(i)) - flag for i, flag in zip(indices, batched, strict=True)]
    rank = max(ranks)
    aligned = [
        reshape(i, shape=(size,) + (1,) * (rank - own) + shape_of(i)[1:]) if flag else i
        for i, flag, own in zip(indices, batched, ranks, strict=True)
    ]
    return (np.arange(size).reshape((size,) + (1,) * rank), *aligned), rank


def with_batch(x: Value, size: int, flag: bool) -> Value:
    """A value with the batch on axis 0, whether it had one or not."""
    return x if flag else broadcast_to(x, shape=(size, *shape_of(x)))


def move_block(x: Value, start: int, count: int, destination: int) -> Value:
    """Consecutive axes moved together."""
    if start == destination or not count:
        return x
    axes = [a for a in range(len(shape_of(x))) if not start <= a < start + count]
    axes[destination:destination] = range(start, start + count)
    return transpose(x, axes=tuple(axes))


def _batch_gather(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
) -> Value:
    x, *indices = args
    axis, unique = params["axis"], params["unique"]
    if not any(batched[1:]):
        return primitive(x, *indices, axis=axis + 1, unique=unique)
    # Each example has its own indices: an array of the examples' numbers joins them, in front.
    aligned, rank = align_indices(size, indices, batched[1:])
    x = move_block(with_batch(x, size, batched[0]), axis + 1, len(indices), 1)
    out = primitive(x, *aligned, axis=0, unique=unique)
    return move_block(out, 1, rank, axis + 1)


def _batch_deposit(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
) -> Value:
    x, *indices = args
    axis, unique, shape = params["axis"], params["unique"], params["shape"]
    if not any(batched[1:]):
        return primitive(x, *indices, axis=axis + 1, unique=unique, shape=(size, *shape))
    aligned, rank = align_indices(size, indices, batched[1:])
    x = move_block(with_batch(x, size, batched[0]), axis + 1, rank, 1)
    stop = axis + len(indices)
    moved = (size, *shape[axis:stop], *shape[:axis], *shape[stop:])
    out = primitive(x, *aligned, axis=0, unique=unique, shape=moved)
    return move_block(out, 1, len(indices), axis + 1)


def _first_of(rule: Callable[..., Value]) -> Callable[[int], Transposes]:
    """The first argument has a transpose; the indices behind it have none."""
    return lambda arity: (rule,) + (None,) * (arity - 1)


def _gather_samples() -> Iterator[Sample]:
    rng = np.random.default_rng(3)
    one = {"axis": 0, "unique": False}
    x = rng.standard_normal((4, 3))
    yield Sample((rng.standard_normal(5), np.array([3, 0, 3, -1])), one)
    yield Sample((x, np.array([[1, 1], [0, -4]])), one)
    yield Sample((x, np.array([2, 0, 2, 1])), {"axis": 1, "unique": False})
    yield Sample((x, np.array([[3], [0]]), np.array([1, 1, 0])), one)
    yield Sample((rng.standard_normal((2, 3, 2)), np.array([0, 2]), 1), {"axis": 1, "unique": False})
    yield Sample((x, np.intp(2)), one)
    yield Sample((x, np.array([3, 1])), {"axis": 0, "unique": True})
    yield Sample((x[::-1, ::-2], np.array([0, 0], np.int8)), one)
    yield Sample((x, np.zeros((0, 2), np.intp)), one)
    yield Sample((np.zeros((2, 0)), np.array([1, 1])), one)
    yield Sample((x + 1j * x[::-1], np.array([2, 2])), one)


def _deposit_samples() -> Iterator[Sample]:
    rng = np.random.default_rng(3)
    for sample in _gather_samples():
        x, *indices = sample.args
        out = gather(x, *indices, **sample.params)
        arrived = rng.standard_normal(out.shape) + (1j * out if out.dtype.kind == "c" else 0)
        yield Sample((arrived, *indices), {**sample.params, "shape": x.shape})


gather: Primitive = Primitive(
    "gather",
    _gather,
    _gathered,
    Linear(
        _first_of(
            lambda ct, x, *indices, axis, unique: deposit(
                ct, *indices, axis=axis, unique=unique, shape=shape_of(x)
            )
        ),
        structural=True,
        gaps=True,
    ),
    _batch_gather,
    _gather_samples,
)
"""The elements of ``x`` at index arrays, which broadcast, on consecutive axes from ``axis`` on.

``unique`` promises that no element is chosen twice, which makes the transpose quicker.
"""

deposit: Primitive = Primitive(
    "deposit",
    _deposit,
    lambda x, *indices, axis, unique, shape: Spec(shape, x.dtype),
    Linear(
        _first_of(
            lambda ct, x, *indices, axis, unique, shape: gather(
                ct, *indices, axis=axis, unique=unique
            )
        ),
        structural=True,
    ),
    _batch_deposit,
    _deposit_samples,
)
"""Zeros of a shape, to which ``x`` is added at index arrays: the transpose of ``gather``."""

# ------------------------------------------------------------------------------ from key to plan

_BOUNDS: Final = frozenset({int, type(None)})


@dataclass(frozen=True, slots=True)
class Plan:
    """A key in the form that the primitives have.

    Attributes
    ----------
    key : Key or None
        The basic part, which comes first; None where it would change nothing.
    order : tuple of int or None
        A transposition that comes second, when NumPy puts the indexed axes in front.
    indices : tuple of values
        Index arrays on consecutive axes, third; they may be empty.
    axis : int
        The first of those axes.
    unique : bool
        Whether the index arrays surely choose no element twice.
    """

    key: Key | None
    order: tuple[int, ...] | None = None
    indices: tuple[Value, ...] = ()
    axis: int = 0
    unique: bool = False


def index(x: Value, key: Any) -> Value:
    """``x[key]`` as NumPy has it.

    Parameters
    ----------
    x : value
    key : object
        Integers, slices, None, Ellipsis, integer arrays (also traced), boolean masks (concrete).

    Raises
    ------
    AxisError
        An index is out of range, or there are more indices than axes.
    ShapeError
        Index arrays do not broadcast, or a mask does not fit.
    DtypeError
        An index is of no integer kind.
    TracerError
        A mask is not concrete.
    """
    kind = type(key)
    if kind is slice or kind is int:
        key = (key,)
        kind = tuple
    if kind is tuple and _is_basic(key):  # by far the commonest, and worth no more than a look
        try:
            return bind(view, (x,), {"key": Key(key)})
        except (IndexError, ValueError) as error:
            raise explain_index(shape_of(x), key, error) from None
    plan = plan_index(shape_of(x), key)
    part = indexed_part(x, plan, key)
    if not plan.indices:
        return part
    try:
        return gather(part, *plan.indices, axis=plan.axis, unique=plan.unique)
    except (IndexError, ValueError) as error:
        raise explain_index(shape_of(x), key, error) from None


def indexed_part(x: Value, plan: Plan, key: Any) -> Value:
    """What the basic part of a key leaves, with the axes in the order for the advanced part."""
    if plan.key is not None:
        try:
            x = bind(view, (x,), {"key": plan.key})
        except (IndexError, ValueError) as error:
            raise explain_index(shape_of(x), key, error) from None
    return x if plan.order is None else transpose(x, axes=plan.order)


def _is_basic(key: tuple[Any, ...]) -> bool:
    for entry in key:
        kind = type(entry)
        if kind is slice:
            if (
                type(entry.start) not in _BOUNDS
                or type(entry.stop) not in _BOUNDS
                or type(entry.step) not in _BOUNDS
            ):
                return False
        elif not (kind is int or entry is None or entry is ...):
            return False
    return True


def plan_index(shape: Shape, key: Any) -> Plan:
    """Split a key into its basic and its advanced part.

    Raises
    ------
    AxisError, ShapeError, DtypeError, TracerError
        The key is none for this shape.
    """
    entries = _spelled_out(shape, key)
    if not any(isinstance(entry, _Advanced) for entry in entries):
        return Plan(Key(entries))
    basic: list[Any] = []
    axes: list[int] = []  # those of the part with indices on them
    rank = 0
    runs = 0  # of entries that NumPy counts as advanced: integers join arrays
    before: Any = None
    for entry in entries:
        advanced = isinstance(entry, (int, _Advanced))
        runs += advanced and not before
        before = advanced
        if isinstance(entry, _Advanced):
            axes += range(rank, rank + len(entry.indices))
            rank += len(entry.indices)
            basic += [None] if entry.depth == 0 else [slice(None)] * entry.depth
        else:
            basic.append(entry)
            rank += type(entry) is not int
    found = [entry for entry in entries if isinstance(entry, _Advanced)]
    indices = tuple([array for entry in found for array in entry.indices])
    unique = (len(found) == 1 and found[0].unique) or all(np.prod(shape_of(i)) == 1 for i in indices)
    trivial = all(type(entry) is slice and entry == slice(None) for entry in basic)
    part = None if trivial else Key(basic)
    if runs == 1:
        return Plan(part, None, indices, axes[0], unique)
    order = (*axes, *[a for a in range(rank) if a not in axes])
    return Plan(part, None if order == tuple(range(rank)) else order, indices, 0, unique)


@dataclass(frozen=True, slots=True)
class _Advanced:
    """An entry of a key that is an integer array, or a mask turned into some.

    Attributes
    ----------
    indices : tuple of values
    depth : int
        How many axes it takes; a 0-d mask takes none, and indexes a new axis.
    unique : bool
        Whether no element is chosen twice.
    """

    indices: tuple[Value, ...]
    depth: int
    unique: bool = False


class _Separator:
    """Where an Ellipsis stood: it parts advanced indices also where it stands for no axis."""


def _spelled_out(shape: Shape, key: Any) -> list[Any]:
    """The entries of a key: int, slice, None or _Advanced, and one Ellipsis where it matters."""
    given = key if isinstance(key, tuple) else (key,)
    entries: list[Any] = []
    axis = 0  # as far as it is known: behind an ellipsis masks are checked from the end
    for position, raw in enumerate(given):
        entries.append(_entry(raw))
        _ = position
    depth = sum([_depth(entry) for entry in entries])
    if depth > len(shape):
        raise AxisError(
            f"Too many indices: {depth} for a tensor of {len(shape)} axes, shape {shape}."
        )
    dots = [place for place, entry in enumerate(entries) if entry is ...]
    if len(dots) > 1:
        raise AxisError("An index can have one ellipsis (...) only.")
    rest = len(shape) - depth
    result: list[Any] = []
    for entry in entries:
        if entry is ...:
            axis += rest
            result.append(...)
            continue
        if isinstance(entry, _Mask):
            entry = _chosen(entry.mask, shape, axis)
        result.append(entry)
        axis += _depth(entry)
    return result
