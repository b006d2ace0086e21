"""Scattering: arrays with new elements at some places, the functional form of assignment.

``x`` is the array, ``u`` holds the updates, and the index arrays are as in ``gather``. Duplicate
places behave like a loop over the updates: sums and products use all updates, a replacement keeps
the last, an extremum the greatest or the least.

>>> scatter_add(np.zeros(3), np.array([1.0, 2.0]), np.array([1, 1]), axis=0, unique=False)
array([0., 3., 0.])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import prod
from typing import Any

import numpy as np

from funcgrad._core.primitive import (
    DISCRETE,
    Differential,
    Kinks,
    Linear,
    Linearized,
    Primitive,
    Sample,
    Transposes,
)
from funcgrad._core.specs import Shape, Spec, broadcast_shapes, dtype_of, shape_of
from funcgrad._core.structure.folds import GREATEST, LEAST, SUM, Fold
from funcgrad._core.structure.index_maps import Places, chosen_places, place_of
from funcgrad._core.structure.structures import OWNS, Scatter
from funcgrad._core.trace import RAW, Raw, Value
from funcgrad._primitives.elementwise_rules import batch_elementwise
from funcgrad._primitives.index_keys import Key, index_text, part_at
from funcgrad._primitives.indexing import (
    align_indices,
    deposit,
    fold_at,
    gather,
    move_block,
    positions,
    with_batch,
)
from funcgrad._primitives.joining import concatenate
from funcgrad._primitives.logic import logical_or
from funcgrad._primitives.selection import where
from funcgrad._primitives.sorting import argsort
from funcgrad._primitives.structural import cast, reshape, view

# ------------------------------------------------------------------------------------ basic keys


def _replace(x: Raw, u: Raw, key: Key) -> Raw:
    out = np.array(x)
    out[key] = u
    return out


def _batch_replace(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
) -> Value:
    x, u = [with_batch(arg, size, flag) for arg, flag in zip(args, batched, strict=True)]
    return primitive(x, u, key=Key((slice(None), *params["key"])))


def _places_of_key(x: Shape, u: Shape, key: Key) -> Places:
    whole = np.empty(x, np.bool_)
    window = part_at(whole, key)
    return Places(window.shape, *place_of(window, whole))


replace: Primitive = Primitive(
    "replace",
    _replace,
    lambda x, u, key: x,
    Linear(
        (
            lambda ct, x, u, key: replace(ct, np.zeros(shape_of(u), dtype_of(ct)), key=key),
            lambda ct, x, u, key: view(ct, key=key),
        ),
        jointly=True,
        structural=True,
        gaps=True,
    ),
    _batch_replace,
    lambda: (
        Sample((np.arange(5.0), np.ones(2)), {"key": Key((slice(None, None, -3),))}),
        Sample((np.ones((2, 3)), np.float64(4.0)), {"key": Key((1, -1))}),
        Sample((np.ones((2, 3))[:, ::-1], np.zeros((2, 1))), {"key": Key((..., None, 0))}),
        Sample((np.ones(3), np.zeros(0)), {"key": Key((slice(3, None),))}),
        Sample((np.ones(2) * 1j, np.complex128(2 - 1j)), {"key": Key((0,))}),
    ),
    lambda x, u, key: f"np.array({x})\n{{out}}[{index_text(key)}] = {u}",
    structure=Scatter(_places_of_key),
    traits=OWNS,
)
"""``x`` with ``u``, of the shape of ``x[key]``, at a basic index."""

# --------------------------------------------------------------------------------- index arrays


def _scatter(
    name: str,
    write: Callable[[Any, Any, Any], None],
    differential: Differential,
    samples: Callable[[], Iterator[Sample]],
    fold: Fold | None = None,
    kinks: Kinks | None = None,
) -> Primitive:
    """Declare a scatter from a function that writes updates to a flat array, in order.

    ``fold`` combines updates of one place.
    """

    def evaluate(x: Raw, u: Raw, *indices: Raw, axis: int, unique: bool) -> Raw:
        out = np.array(x, order="C")
        write(out.reshape(-1), positions(out.shape, indices, axis), np.ravel(u))
        return out

    return Primitive(
        name,
        evaluate,
        lambda x, *others, axis, unique: Spec(x.shape, x.dtype),
        differential,
        _batch_scatter,
        samples,
        structure=Scatter(_places, fold=fold),
        kinks=kinks,
        traits=OWNS,
    )


def _places(x: Shape, u: Shape, *indices: Shape, axis: int, unique: bool) -> Places:
    return chosen_places(x, *indices, operand=2, axis=axis)


def _batch_scatter(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
) -> Value:
    indices = args[2:]
    axis, unique = params["axis"], params["unique"]
    x, u = [with_batch(arg, size, flag) for arg, flag in zip(args[:2], batched[:2], strict=True)]
    if not any(batched[2:]):
        return primitive(x, u, *indices, axis=axis + 1, unique=unique)
    aligned, rank = align_indices(size, indices, batched[2:])
    x = move_block(x, axis + 1, len(indices), 1)
    u = move_block(u, axis + 1, rank, 1)
    out = primitive(x, u, *aligned, axis=0, unique=unique)
    return move_block(out, 1, len(indices), axis + 1)


def _routes(
    for_x: Callable[..., Value], for_u: Callable[..., Value]
) -> Callable[[int], Transposes]:
    return lambda arity: (for_x, for_u) + (None,) * (arity - 2)


def _scatter_samples(ties: bool) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(17)
        draw = rng.standard_normal
        plain = {"axis": 0, "unique": False}
        yield Sample((draw(4), draw(5), np.array([2, 0, 2, -2, 3])), plain)
        yield Sample((draw((3, 2)), draw((2, 2, 2)), np.array([[0, 2], [2, 2]])), plain)
        yield Sample((draw((2, 3)), draw((2, 4)), np.array([0, 1, 0, 0])), {**plain, "axis": 1})
        rows, columns = np.array([[0], [1]]), np.array([1, 1, -1])
        yield Sample((draw((2, 3, 2)), draw((2, 3, 2)), rows, columns), plain)
        yield Sample((draw((2, 3)), draw(3), np.intp(-1)), {"axis": 0, "unique": True})
        yield Sample((draw((4, 6))[::2, ::-2], draw((2, 3)), np.array([1, 0])), plain)
        yield Sample((draw(3), draw(0), np.zeros(0, np.intp)), plain)
        if ties:
            tied, u = np.array([1.0, 2.0, 0.0]), np.array([1.0, 1.0, 2.0, 2.0, -1.0])
            yield Sample((tied, u, np.array([0, 0, 1, 1, 2])), plain, smooth=False)
            tied = np.array([np.nan, 2.0, np.inf])
            yield Sample((tied, u, np.array([0, 1, 1, 1, 2])), plain, smooth=False)
        else:
            yield Sample((draw(3) + 1j, 1j * draw(2), np.array([2, 2])), plain)

    return samples


def _set(out: Raw, where_to: Raw, u: Raw) -> None:
    out[where_to] = u


scatter_add: Primitive = _scatter(
    "scatter_add",
    partial(fold_at, np.add),
    Linear(
        _routes(
            lambda ct, x, u, *indices, axis, unique: ct,
            lambda ct, x, u, *indices, axis, unique: gather(ct, *indices, axis=axis, unique=unique),
        ),
        jointly=True,
        structural=True,
    ),
    _scatter_samples(ties=False),
    SUM,
)
"""``x`` with ``u`` added at index arrays."""


def _erased(ct: Value, x: Value, u: Value, *indices: Value, axis: int, unique: bool) -> Value:
    nothing = np.zeros(shape_of(u), dtype_of(ct))
    return scatter_set(ct, nothing, *indices, axis=axis, unique=unique)


def _winners(ct: Value, x: Value, u: Value, *indices: Value, axis: int, unique: bool) -> Value:
    gathered = gather(ct, *indices, axis=axis, unique=unique)
    if unique or all(prod(shape_of(index)) == 1 for index in indices):
        return gathered
    shape = shape_of(x)
    last = last_writes(*indices, shape=shape[axis : axis + len(indices)])
    behind = len(shape) - axis - len(indices)
    nothing = np.zeros((), dtype_of(ct))  # of its dtype, so that a mask stays a mask
    return where(reshape(last, shape=shape_of(last) + (1,) * behind), gathered, nothing)


scatter_set: Primitive = _scatter(
    "scatter_set",
    _set,
    Linear(_routes(_erased, _winners), jointly=True, structural=True, gaps=True),
    _scatter_samples(ties=False),
)
"""``x`` with ``u`` at index arrays; the last of several updates for one place wins."""


def _last(*indices: Raw, shape: Shape) -> Raw:
    places = positions(shape, indices, 0)
    number = np.arange(places.size)
    stamps = np.empty(int(np.prod(shape)), np.intp)
    stamps[places] = number
    return (stamps[places] == number).reshape(np.broadcast_shapes(*map(np.shape, indices)))


def _batch_last(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
) -> Value:
    aligned, _ = align_indices(size, args, batched)
    return primitive(*aligned, shape=(size, *params["shape"]))


last_writes: Primitive = Primitive(
    "last_writes",
    _last,
    lambda *indices, shape: Spec(
        broadcast_shapes("last_writes", *(i.shape for i in indices)), np.dtype(np.bool_)
    ),
    DISCRETE,
    _batch_last,
    lambda: (
        Sample((np.array([2, 0, 2, -1]),), {"shape": (3,)}),
        Sample((np.array([[0], [1]]), np.array([1, 1, 0])), {"shape": (2, 2)}),
        Sample((np.zeros(0, np.intp),), {"shape": (3,)}),
        Sample((np.intp(1),), {"shape": (3,)}),
    ),
)
"""Flags of the entries of index arrays that are the last for their element."""

# ------------------------------------------------------------------------------------- extrema


def _writes_extremum(ufunc: np.ufunc) -> Callable[[Any, Any, Any], None]:
    def write(out: Raw, where_to: Raw, u: Raw) -> None:
        with np.errstate(invalid="ignore"):  # ufunc.at warns of NaN where the ufunc does not
            fold_at(ufunc, out, where_to, u)

    return write


def _attains(x: Value, best: Value) -> Value:
    """Whether a value attains an extremum; every NaN attains a NaN."""
    return logical_or(x == best, x != x)


def _push_extremum(
    tangents: tuple[Value, ...],
    out: Value,
    x: Value,
    u: Value,
    *indices: Value,
    axis: int,
    unique: bool,
) -> Value:
    """Equal factors for all that attain the extremum: the subgradient of least norm."""
    where_to: Any = {"axis": axis, "unique": unique, "shape": shape_of(x)}
    stays = _attains(x, out)
    wins = _attains(u, gather(out, *indices, axis=axis, unique=unique))
    dtype = dtype_of(out)
    count = cast(stays, dtype=dtype) + deposit(cast(wins, dtype=dtype), *indices, **where_to)
    total: Value = 0
    if tangents[0] is not None:
        total = where(stays, tangents[0], 0)
    if tangents[1] is not None:
        total = total + deposit(where(wins, tangents[1], 0), *indices, **where_to)
    return total / count


def _gap(x: Value, u: Value, *indices: Value, axis: int, unique: bool, sign: int) -> Value:
    """The distance of the extremum of an element and its updates from the next value."""
    x, u, where_to = x * sign, u * sign, {"axis": axis, "unique": unique}
    out = scatter_max(x, u, *indices, **where_to)
    top = gather(out, *indices, **where_to)
    stays, wins = x == out, u == top
    number = deposit(cast(wins, dtype=dtype_of(out)), *indices, **where_to, shape=shape_of(out))
    second = scatter_max(where(stays, -np.inf, x), where(wins, -np.inf, u), *indices, **where_to)
    return where(number + stays > 1, out - out, out - second)


def _gaps(sign: int) -> Kinks:
    return Kinks(partial(_gap, sign=sign))


scatter_max: Primitive = _scatter(
    "scatter_max",
    _writes_extremum(np.maximum),
    Linearized(_push_extremum),
    _scatter_samples(ties=True),
    fold=GREATEST,
    kinks=_gaps(1),
)
"""The greatest of ``x`` and all updates for a place."""

scatter_min: Primitive = _scatter(
    "scatter_min",
    _writes_extremum(np.minimum),
    Linearized(_push_extremum),
    _scatter_samples(ties=True),
    fold=LEAST,
    kinks=_gaps(-1),
)
"""The least of ``x`` and all updates for a place."""

# ------------------------------------------------------------------------------------- products


def scatter_multiply(x: Value, u: Value, *indices: Value, axis: int, unique: bool) -> Value:
    """``x`` multiplied by all of ``u`` at index arrays.

    This is not a primitive: the updates for one place, made neighbours by sorting, are multiplied
    in a segmented scan (Hillis and Steele, 1986), a polynomial with right derivatives at zeros.
    """
    if unique:
        gathered = gather(x, *indices, axis=axis, unique=True)
        return scatter_set(x, gathered * u, *indices, axis=axis, unique=True)
    shape = shape_of(x)
    sizes = shape[axis : axis + len(indices)]
    places = flat_places(*indices, shape=sizes)
    places = reshape(places, shape=(int(np.prod(shape_of(places))),))
    row_shape = shape[:axis] + shape[axis + len(indices) :]
    rank = len(shape_of(u)) - len(row_shape)
    rows = reshape(move_block(u, axis, rank, 0), shape=(*shape_of(places), *row_shape))
    table = reshape(move_block(x, axis, len(indices), 0), shape=(int(np.prod(sizes)), *row_shape))
    order = argsort(places, axis=0, descending=False)
    places = gather(places, order, axis=0, unique=True)
    rows = _segmented_product(gather(rows, order, axis=0, unique=True), places)
    # The last write stays, and the last of a segment is its whole product.
    rows = gather(table, places, axis=0, unique=False) * rows
    table = scatter_set(table, rows, places, axis=0, unique=False)
    return move_block(reshape(table, shape=(*sizes, *row_shape)), 0, len(indices), axis)


flat_places: Primitive = Primitive(
    "flat_places",
    lambda *indices, shape: np.arange(int(np.prod(shape))).reshape(shape)[indices],
    lambda *indices, shape: Spec(
        broadcast_shapes("flat_places", *(i.shape for i in indices)), np.dtype(np.intp)
    ),
    DISCRETE,
    batch_elementwise,
    lambda: (
        Sample((np.array([2, 0, -1]),), {"shape": (3,)}),
        Sample((np.array([[0], [-1]]), np.array([1, 1, 0])), {"shape": (2, 2)}),
        Sample((np.asarray(1), -1), {"shape": (2, 3)}),
        Sample((np.zeros((0, 2), int), 1), {"shape": (0, 3)}),
    ),
)
"""The flat positions, in C order of a shape, of the elements at index arrays."""


def _segmented_product(rows: Value, places: Value) -> Value:
    """Cumulative products within the segments of equal places."""
    count = shape_of(places)[0]
    longest = int(np.bincount(places).max()) if count and type(places) in RAW else count
    behind = (1,) * (len(shape_of(rows)) - 1)
    distance = 1
    while distance < longest:
        tail, head = Key((slice(distance, None),)), Key((slice(None, -distance),))
        same = view(places, key=tail) == view(places, key=head)
        same = reshape(same, shape=(count - distance, *behind))
        factor = where(same, view(rows, key=head), 1)
        start = view(rows, key=Key((slice(None, distance),)))
        rows = concatenate(start, view(rows, key=tail) * factor, axis=0)
        distance *= 2
    return rows
