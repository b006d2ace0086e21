"""Indexing: ``x[key]`` for every key that NumPy has.

A key has a *basic* part (integers, slices, None, Ellipsis), the static parameter of ``view``, and
an *advanced* part (integer arrays, boolean masks). Its index arrays are operands of ``gather``, so
batches of indices need no extra rule. The transpose of ``gather`` is ``deposit``, which adds up the
elements for each place.

>>> index(np.array([10.0, 20.0, 30.0]), [2, 0, 2])
array([30., 10., 30.])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._core.primitive import Linear, Patch, Primitive, Sample, Transposes
from funcgrad._core.specs import Shape, Spec, broadcast_shapes, dtype_of, shape_of
from funcgrad._core.structure.folds import SUM
from funcgrad._core.structure.index_maps import Places, chosen_places
from funcgrad._core.structure.structures import OWNS, Gather, Scatter
from funcgrad._core.trace import RAW, Raw, Value, bind, concrete
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.index_keys import (
    IndexPlan,
    explain_index,
    is_basic,
    plan_index,
    with_plain_integers,
)
from funcgrad._primitives.joining import concatenate
from funcgrad._primitives.structural import cast, reshape, transpose, view
from funcgrad._primitives.traced_slices import traced_slices

# ----------------------------------------------------------------------------- gather and deposit


def index_key(indices: Sequence[Any], axis: int) -> tuple[Any, ...]:
    """NumPy's index for index arrays on consecutive axes."""
    return (slice(None),) * axis + tuple(indices)


def positions(shape: Shape, indices: Sequence[Any], axis: int) -> np.ndarray[Any, Any]:
    """The elements of a flat array that an index selects, in order.

    Writing through these visits the elements in order, so the last of several writes to one place
    wins; with NumPy's own index the order depends on the memory layout.
    """
    chosen: np.ndarray[Any, Any] = np.arange(prod(shape)).reshape(shape)[index_key(indices, axis)]
    return chosen.reshape(-1)


_Array: TypeAlias = np.ndarray[Any, Any]

_LONG_RUN: Final = 64
"""From so many updates in a row to one place, ``reduceat`` is at least twice as fast."""


def fold_at(ufunc: np.ufunc, out: _Array, places: _Array, u: _Array) -> None:
    """Fold updates into a flat array, as ``ufunc.at`` does.

    Updates of one place wait for each other. So long runs of a place, as in sorted segments, are
    folded first, which is up to five times as fast.
    """
    look = slice(0, 64 * _LONG_RUN, _LONG_RUN)
    if len(places) > look.stop and np.mean(places[1:][look] == places[look]) > 0.9:
        starts = np.concatenate([[0], np.flatnonzero(places[1:] != places[:-1]) + 1])
        if len(starts) * _LONG_RUN <= len(places):
            places, u = places[starts], ufunc.reduceat(u, starts, dtype=out.dtype)
    ufunc.at(out, places, u)


def _gather(x: Raw, *indices: Raw, axis: int, unique: bool) -> Raw:
    return np.asarray(x)[index_key(indices, axis)]


def _deposit(x: Raw, *indices: Raw, axis: int, unique: bool, shape: Shape) -> Raw:
    out = np.zeros(shape, dtype_of(x))
    if unique:
        out[index_key(indices, axis)] = x
    else:  # several times as fast as np.add.at with a key
        fold_at(np.add, out.reshape(-1), positions(shape, indices, axis), np.ravel(x))
    return out


def _patch(buffer: Raw, ct: Raw, fresh: bool, *indices: Raw, axis: int, unique: bool) -> None:
    key = index_key(indices, axis)
    if fresh and (unique or ct is True):
        buffer[key] = ct
    elif unique:
        buffer[key] += ct
    else:
        buffer += _deposit(
            np.broadcast_to(ct, buffer[key].shape),
            *indices,
            axis=axis,
            unique=unique,
            shape=buffer.shape,
        )


def _deposited_together(patches: Sequence[Patch], shape: Shape) -> Value:
    """One deposit for all patches that index the same axes. Patches may be narrow masks."""
    kinds: dict[tuple[int, int], list[Patch]] = {}
    for patch in patches:
        _, indices, params = patch
        kinds.setdefault((params["axis"], len(indices)), []).append(patch)
    total = None
    for (axis, count), alike in kinds.items():
        unique = len(alike) == 1 and alike[0][2]["unique"]
        cts, indices = zip(*[_in_a_row(patch) for patch in alike], strict=True)
        joined = [concatenate(*column, axis=0) for column in zip(*indices, strict=True)]
        sizes = np.broadcast_shapes(*[_resized(shape_of(ct), axis, (1,)) for ct in cts])
        wide = [_broadcast(ct, _resized(sizes, axis, shape_of(ct)[axis : axis + 1])) for ct in cts]
        whole = _resized(sizes, axis, shape[axis : axis + count])
        ct = concatenate(*wide, axis=axis)
        ct = deposit(ct, *joined, axis=axis, unique=unique, shape=whole)
        total = ct if total is None else total + ct
    return total


def _in_a_row(patch: Patch) -> tuple[Value, list[Value]]:
    """A cotangent and its indices, with the axes of the indices merged into one."""
    ct, indices, params = patch
    axis, chosen = params["axis"], np.broadcast_shapes(*map(shape_of, indices))
    ct_shape, size = shape_of(ct), prod(chosen)
    stop = axis + len(chosen)
    ct = _broadcast(ct, (*ct_shape[:axis], *chosen, *ct_shape[stop:]))
    ct = reshape(ct, shape=(*ct_shape[:axis], size, *ct_shape[stop:]))
    wide = [_broadcast(i, chosen) for i in indices]
    # Use one dtype, since int64 and uint64 promote to a float.
    return ct, [cast(reshape(i, shape=(size,)), dtype=np.dtype(np.intp)) for i in wide]


def _resized(shape: Shape, axis: int, sizes: Shape) -> Shape:
    """Replace an axis of a shape by other sizes."""
    return (*shape[:axis], *sizes, *shape[axis + 1 :])


def _broadcast(x: Value, shape: Shape) -> Value:
    return x if shape_of(x) == shape else broadcast_to(x, shape=shape)


def _indices_text(indices: Sequence[Any], axis: int) -> str:
    """``index_key`` as text."""
    return ", ".join([":"] * axis + [str(index) for index in indices])


def _gathered(x: Spec, *indices: Spec, axis: int, unique: bool) -> Spec:
    chosen = broadcast_shapes("indexing", *(i.shape for i in indices))
    return Spec(x.shape[:axis] + chosen + x.shape[axis + len(indices) :], x.dtype)


def align_indices(
    size: int, indices: Sequence[Value], batched: Sequence[bool]
) -> tuple[tuple[Value, ...], int]:
    """Index arrays, some with a batch, to be used after an index array for the batch axis.

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
        reshape(i, shape=(size,) + (1,) * (rank - index_rank) + shape_of(i)[1:]) if flag else i
        for i, flag, index_rank in zip(indices, batched, ranks, strict=True)
    ]
    return (np.arange(size).reshape((size,) + (1,) * rank), *aligned), rank


def with_batch(x: Value, size: int, flag: bool) -> Value:
    """A value with the batch on axis 0, added if necessary."""
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
    # Each example has its own indices: put an array of example positions in front.
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
    """Only the first argument has a transpose; the indices have none."""
    return lambda arity: (rule,) + (None,) * (arity - 1)


def _gather_samples() -> Iterator[Sample]:
    rng = np.random.default_rng(3)
    one = {"axis": 0, "unique": False}
    x = rng.standard_normal((4, 3))
    yield Sample((rng.standard_normal(5), np.array([3, 0, 3, -1])), one)
    yield Sample((x, np.array([[1, 1], [0, -4]])), one)
    yield Sample((x, np.array([2, 0, 2, 1])), {"axis": 1, "unique": False})
    yield Sample((x, np.array([[3], [0]]), np.array([1, 1, 0])), one)
    yield Sample(
        (rng.standard_normal((2, 3, 2)), np.array([0, 2]), 1), {"axis": 1, "unique": False}
    )
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


def _places_read(x: Shape, *indices: Shape, axis: int, unique: bool) -> Places:
    return chosen_places(x, *indices, operand=1, axis=axis)


def _places_added_to(x: Shape, *indices: Shape, axis: int, unique: bool, shape: Shape) -> Places:
    return chosen_places(shape, *indices, operand=1, axis=axis)._replace(unique=unique)


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
        patch=_patch,
        join=_deposited_together,
        narrow=True,
    ),
    _batch_gather,
    _gather_samples,
    lambda x, *indices, axis, unique: f"{x.array}[{_indices_text(indices, axis)}]",
    structure=Gather(_places_read),
)
"""The elements of ``x`` at index arrays, which broadcast, on consecutive axes from ``axis`` on.

``unique`` declares that no element is selected twice, which makes the transpose faster.
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
    structure=Scatter(_places_added_to, updates=0, fold=SUM),
    traits=OWNS,
)
"""Zeros of a shape, to which ``x`` is added at index arrays: the transpose of ``gather``."""

# ------------------------------------------------------------------------------------------ index


def index(x: Value, key: Any) -> Value:
    """Compute ``x[key]`` as in NumPy.

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
    entries = key if type(key) is tuple else (key,)
    try:
        if not is_basic(entries):
            entries = with_plain_integers(entries)
            key = entries if type(key) is tuple else entries[0]
        if is_basic(entries):  # by far the most common case
            if type(x) in RAW or x._trace is None:
                return view.evaluate(concrete(x), key)
            return x._trace.process(view, (x,), {"key": entries})
        slices = traced_slices(shape_of(x), key)
        if slices is not None:
            return index(slices.taken(x), slices.key)
        plan = plan_index(shape_of(x), key)
        viewed = indexed_part(x, plan)
        if not plan.indices:
            return viewed
        return gather(viewed, *plan.indices, axis=plan.axis, unique=plan.unique)
    except (IndexError, ValueError) as error:
        raise explain_index(shape_of(x), key, error) from None


def indexed_part(x: Value, plan: IndexPlan) -> Value:
    """The array after the basic part of a key, with its axes in the order for the advanced part."""
    if plan.key is not None:
        x = bind(view, (x,), {"key": plan.key})
    return x if plan.order is None else transpose(x, axes=plan.order)
