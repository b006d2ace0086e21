"""Sorting: the order is discrete, and tangents are permuted with their elements.

Equal elements keep their order (all sorting is stable), and so do their tangents.

>>> sort(np.array([3.0, 1.0, 2.0]), axis=0, descending=False)
array([1., 2., 3.])
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import DISCRETE, Kinks, Primitive, Sample, carried
from funcgrad._core.specs import Shape, Spec, dtype_of, shape_of
from funcgrad._core.structure.structures import Opaque, Ordering, mixing
from funcgrad._core.trace import Raw, Value
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.indexing import gather, with_batch
from funcgrad._primitives.kinks import differences, is_complex
from funcgrad._primitives.logic import (
    equal,
    greater,
    greater_equal,
    logical_and,
    logical_or,
    not_equal,
)
from funcgrad._primitives.recurrence import batch_along_axis
from funcgrad._primitives.reduction import reduce_any
from funcgrad._primitives.selection import minimum, where
from funcgrad._primitives.structural import cast, move_axis, reshape


def take_along_axis(x: Value, indices: Value, axis: int, *, unique: bool = False) -> Value:
    """The elements of ``x`` at positions along one axis, which may differ along the others.

    Parameters
    ----------
    x : value
    indices : value of integers
        Positions with the rank of ``x``; the sizes of the other axes broadcast.
    axis : int
        Not negative.
    unique : bool
        Whether no element is selected twice.
    """
    return gather(x, *indices_along(shape_of(x), indices, axis), axis=0, unique=unique)


def indices_along(shape: Shape, indices: Value, axis: int) -> tuple[Value, ...]:
    """Indices along one axis, combined with indices of the other axes."""
    rank = len(shape)
    grid: list[Value] = [
        np.arange(n).reshape((1,) * a + (n,) + (1,) * (rank - 1 - a)) for a, n in enumerate(shape)
    ]
    grid[axis] = indices
    return tuple(grid)


_LONG: Final = 64
"""From this length on, an unstable sort and a search for ties are faster than a stable sort."""
_LONG_PARTITION: Final = 1000
"""Shorter lines are sorted, which takes less time."""

_FEW: Final = 4
"""A part of this share of an order, or less, is selected, and then sorted."""


def one_axis_back(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
) -> Value:
    """Batch an operation of one operand along an axis: the batch comes first."""
    return primitive(args[0], **{**params, "axis": params["axis"] + 1})


def _samples() -> Iterator[Sample]:
    rng = np.random.default_rng(13)
    x = rng.standard_normal((4, 3))
    for descending in (False, True):
        yield Sample((x[:, 0],), {"axis": 0, "descending": descending})
        yield Sample((x,), {"axis": 1, "descending": descending})
        ties = np.array([1.0, 0.0, 1.0, -0.0, 1.0])
        yield Sample((ties,), {"axis": 0, "descending": descending}, smooth=False)
        special = np.array([np.nan, 1.0, -np.inf, np.inf, np.nan])
        yield Sample((special,), {"axis": 0, "descending": descending}, smooth=False)
    yield Sample((x[::-1, ::-2],), {"axis": 0, "descending": False})
    yield Sample((np.zeros((0, 2)),), {"axis": 0, "descending": False})
    yield Sample((x + 1j,), {"axis": 0, "descending": False})


def _argsort(x: Raw, axis: int, descending: bool) -> Raw:
    x = np.asarray(x)
    if x.dtype.kind == "f" and x.shape[axis] >= _LONG:
        return _order(x, np.sort(x, axis), axis, descending, falling=False)
    return _stable_order(x, axis, descending)


def _stable_order(x: Raw, axis: int, descending: bool) -> Raw:
    if not descending:
        return np.argsort(x, axis, kind="stable")
    # Sorted backwards twice, so that equal elements keep their order.
    backwards = np.argsort(np.flip(x, axis), axis, kind="stable")
    return np.shape(x)[axis] - 1 - np.flip(backwards, axis)


def _order(x: Raw, arranged: Raw, axis: int, descending: bool, falling: bool) -> Raw:
    """The stable order; by NumPy's unstable sort, five times as fast, if no elements are equal."""
    if x.dtype.kind != "f" or x.shape[axis] < _LONG:
        return _stable_order(x, axis, descending)
    rows = np.moveaxis(arranged, axis, -1)
    before, after = rows[..., :-1], rows[..., 1:]
    if not np.all(before > after if falling else before < after):  # nor with NaN
        return _stable_order(x, axis, descending)
    order = np.argsort(x, axis)
    return np.flip(order, axis) if descending else order


def _sort(x: Raw, axis: int, descending: bool) -> Raw:
    ascending = np.sort(x, axis)
    return np.flip(ascending, axis) if descending else ascending


def _carry(
    out: Value, x: Value, axis: int, descending: bool
) -> tuple[Primitive, tuple[Value, ...], dict[str, Any]]:
    order = order_of_sorted(x, out, axis=axis, descending=descending)
    return gather, indices_along(shape_of(x), order, axis), {"axis": 0, "unique": True}


def _sorted_samples() -> Iterator[Sample]:
    for sample in _samples():
        (x,) = sample.args
        yield Sample((x, _sort(x, **sample.params)), sample.params)
    x = np.random.default_rng(3).standard_normal((2, _LONG))
    for descending in (False, True):
        yield Sample((x, _sort(x, 1, descending)), {"axis": 1, "descending": descending})


def _gaps(x: Value, axis: int, **_: Hashable) -> Value:
    """The gaps between neighbours in order."""
    ordered = sort(x.real if is_complex(x) else x, axis=axis, descending=False)
    return differences(move_axis(ordered, axis, len(shape_of(x)) - 1))


def _gaps_of_keys(keys: Value, axis: int) -> Value:
    """Gaps of the primary key."""
    return _gaps(keys[-1], axis)


def _apart(table: Value, x: Value, lead: int, **_: Hashable) -> Value:
    """The differences of all elements and all of the table."""
    shape, inner = shape_of(x), len(shape_of(x)) - lead
    *batch, size = shape_of(table)
    wide = reshape(table, shape=(*batch, *[1] * inner, size))
    return reshape(x, shape=(*shape, 1)) - wide


def _places(axis: int, descending: bool) -> Ordering:
    return Ordering(axis, descending, places=True)


argsort: Primitive = Primitive(
    "argsort",
    _argsort,
    lambda x, axis, descending: Spec(x.shape, np.dtype(np.intp)),
    DISCRETE,
    one_axis_back,
    _samples,
    lambda x, axis, descending: None if descending else f"{x}.argsort({axis}, 'stable')",
    structure=Opaque(counted=0, orders=_places),
    kinks=Kinks(_gaps),
)


def _part_of_order(x: Raw, axis: int, descending: bool, count: int, last: bool) -> Raw:
    """Some places of an order, by NumPy's selection if no element outside equals one of them."""
    x = np.asarray(x)
    size = x.shape[axis]
    some = slice(size - count, None) if last else slice(0, count)
    if x.dtype.kind in "fiu" and 0 < count <= size // _FEW:
        rows = np.moveaxis(x, axis, -1)
        ends = descending == last  # whether the least elements are wanted
        places = np.argpartition(rows, count - 1 if ends else size - count, -1)
        places = np.sort(places[..., :count] if ends else places[..., size - count :], -1)
        values = np.take_along_axis(rows, places, -1)
        bound = values.max(-1, keepdims=True) if ends else values.min(-1, keepdims=True)
        number = np.count_nonzero(rows <= bound if ends else rows >= bound, -1)
        if np.all(number == count):  # nor with NaN
            order = np.take_along_axis(places, _stable_order(values, -1, descending), -1)
            return np.moveaxis(order, -1, axis)
    return np.moveaxis(np.moveaxis(_argsort(x, axis, descending), axis, -1)[..., some], -1, axis)


def _part_samples() -> Iterator[Sample]:
    rng = np.random.default_rng(14)
    for number, sample in enumerate(_samples()):
        (x,), params = sample.args, sample.params
        count = min(2, x.shape[params["axis"]])
        yield Sample(sample.args, {**params, "count": count, "last": number % 2 == 1})
    long = rng.standard_normal((3, 130))
    tied = rng.integers(-4, 5, (2, 150))
    special = np.where(rng.random((2, 140)) < 0.1, np.nan, rng.standard_normal((2, 140)))
    for descending in (False, True):
        for last in (False, True):
            params = {"axis": 1, "descending": descending, "last": last}
            yield Sample((long,), {**params, "count": 7})
            yield Sample((tied,), {**params, "count": 20})
            yield Sample((special,), {**params, "count": 30}, smooth=False)


part_of_order: Primitive = Primitive(
    "part_of_order",
    _part_of_order,
    lambda x, axis, count, **_: Spec(
        (*x.shape[:axis], count, *x.shape[axis + 1 :]), np.dtype(np.intp)
    ),
    DISCRETE,
    one_axis_back,
    _part_samples,
    structure=Opaque(
        counted=0,
        orders=lambda axis, descending, count, last: Ordering(axis, descending, True, count, last),
    ),
    kinks=Kinks(lambda x, axis, **_: _gaps(x, axis)),
)
"""The first, or the last, so many entries of ``argsort``, without a sort of all elements."""

order_of_sorted: Primitive = Primitive(
    "order_of_sorted",
    lambda x, out, axis, descending: _order(
        np.asarray(x), np.asarray(out), axis, descending, falling=descending
    ),
    lambda x, out, axis, descending: Spec(x.shape, np.dtype(np.intp)),
    DISCRETE,
    batch_along_axis,
    _sorted_samples,
    structure=Opaque(orders=_places),
    kinks=Kinks(lambda x, out, **params: _gaps(x, **params)),
)
"""``argsort`` of an array whose sorted result is known, which shows whether elements are equal."""

sort: Primitive = Primitive(
    "sort",
    _sort,
    lambda x, axis, descending: Spec(x.shape, x.dtype),
    carried(_carry),
    one_axis_back,
    _samples,
    lambda x, axis, descending: None if descending else f"{x}.copy('K')\n{{out}}.sort({axis})",
    structure=Opaque(
        counted=0,
        letters=lambda x, axis, **_: mixing(x, (axis,)),
        orders=lambda axis, descending: Ordering(axis, descending, places=False),
    ),
    kinks=Kinks(_gaps),
)


def _argpartition(x: Raw, kth: tuple[int, ...], axis: int) -> Raw:
    """The places of a partition; equal elements are divided at ``kth`` as ``argsort`` does.

    So the derivatives at ``kth`` do not depend on how the elements are selected. NumPy's
    ``argpartition``, which may take another one of equal elements, needs 0.4 to 0.7 of the time.
    """
    x = np.asarray(x)
    is_plain = x.dtype.kind != "c" and not (x.dtype.kind == "f" and np.isnan(x).any())
    if not is_plain or x.shape[axis] < _LONG_PARTITION:
        return np.argsort(x, axis, kind="stable")
    arranged = np.partition(x, kth, axis)
    sides = np.zeros(x.shape, np.int16)  # NumPy sorts so short integers by counting
    for place in kth:
        element = np.take(arranged, [place], axis)
        sides += x > element
        sides -= x < element
    return np.argsort(sides, axis, kind="stable")


argpartition: Primitive = Primitive(
    "argpartition",
    _argpartition,
    lambda x, kth, axis: Spec(x.shape, np.dtype(np.intp)),
    DISCRETE,
    one_axis_back,
    lambda: (
        Sample((np.array([3.0, 1.0, 2.0, 0.5]),), {"kth": (1,), "axis": 0}),
        Sample((np.array([[3.0, 1.0, 2.0], [0.0, 5.0, -1.0]]),), {"kth": (0, 2), "axis": 1}),
    ),
    kinks=Kinks(_gaps),
)


def _order_by_keys(keys: Value, axis: int) -> Value:
    """Stable orders by one key after the other, the primary key last.

    Lines of 5 to 30 elements take 0.3 to 0.55 of the time of a call of NumPy's function, lines of
    100 to 10,000 elements up to 3 times as long.
    """
    count, *shape = shape_of(keys)
    if not count or dtype_of(keys).kind == "c" or shape[axis] >= _LONG:
        return NotImplemented
    rows = [keys[k] for k in range(count)]
    order = argsort(rows[0], axis=axis, descending=False)
    for row in rows[1:]:
        ordered = take_along_axis(row, order, axis, unique=True)
        changes = argsort(ordered, axis=axis, descending=False)
        order = take_along_axis(order, changes, axis, unique=True)
    return order


lexsort: Primitive = Primitive(
    "lexsort",
    lambda keys, axis: np.lexsort(keys, axis),
    lambda keys, axis: Spec(keys.shape[1:], np.dtype(np.intp)),
    DISCRETE,
    lambda primitive, size, args, batched, params: primitive(
        move_axis(args[0], 0, 1), axis=params["axis"] + 1
    ),
    lambda: (
        Sample((np.array([[1, 0, 1, 0], [2, 2, 1, 1]]),), {"axis": 0}),
        Sample((np.array([[[1.0, 0.0], [0.0, 1.0]], [[2.0, 2.0], [3.0, 1.0]]]),), {"axis": 1}),
    ),
    body=_order_by_keys,
    kinks=Kinks(_gaps_of_keys),
)
"""The order by several keys, stacked on the first axis; the last key is the primary one."""


def _search(table: Raw, x: Raw, side: Any, lead: int) -> Raw:
    if not lead:
        return np.searchsorted(table, x, side)
    batch: Shape = np.shape(table)[:lead]
    out = np.empty(np.shape(x), np.intp)
    for example in np.ndindex(batch):
        out[example] = np.searchsorted(table[example], x[example], side)
    return out


def _batch_search(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
) -> Value:
    table, x = args
    if not (batched[0] or params["lead"]):
        return primitive(table, x, **params)
    table, x = with_batch(table, size, batched[0]), with_batch(x, size, batched[1])
    return primitive(table, x, **{**params, "lead": params["lead"] + 1})


def _batch_search_in(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
) -> Value:
    """Batch ``search_in``, whose second argument is the table."""
    x, table = args
    if not (batched[1] or params["lead"]):
        return primitive(x, table, **params)
    x, table = with_batch(x, size, batched[0]), with_batch(table, size, batched[1])
    return primitive(x, table, **{**params, "lead": params["lead"] + 1})


def _search_samples() -> Iterator[Sample]:
    table = np.array([0.0, 1.0, 1.0, 4.0])
    for x in (np.array([-1.0, 1.0, 2.5, 9.0]), 1.0, table.reshape(2, 2), np.zeros(0)):
        for side in ("left", "right"):
            yield Sample((table, x), {"side": side, "lead": 0})
    tables = np.array([[1, 2, 2, 3, 9], [0, 0, 1, 2, 2]])
    yield Sample((tables, np.array([2, 1])), {"side": "right", "lead": 1})
    yield Sample((table, np.array([[np.nan, -0.0]])), {"side": "left", "lead": 0}, smooth=False)


def _search_body(table: Value, x: Value, side: str, lead: int) -> Value:
    """Bisection: the first half comes before ``x`` if its last element does.

    NaN comes last.
    """
    dtype = np.result_type(dtype_of(table), dtype_of(x))
    if dtype.kind == "c":
        return NotImplemented
    *batch, left = shape_of(table)
    rows = np.arange(prod(batch)).reshape((*batch, *[1] * (len(shape_of(x)) - lead)))
    table, x = [y if dtype_of(y) == dtype else cast(y, dtype=dtype) for y in (table, x)]
    elements = reshape(table, shape=(prod(batch) * left,))
    first = place = broadcast_to(rows * left, shape=shape_of(x))
    while left:
        half = (left + 1) // 2
        element = gather(elements, place + (half - 1), axis=0, unique=False)
        if side == "left":
            stays = logical_or(greater_equal(element, x), not_equal(element, element))
        else:
            stays = greater(element, x)
            stays = logical_or(stays, logical_and(not_equal(element, element), equal(x, x)))
        place = where(stays, place, place + half)
        left -= half
    return place - first


searchsorted: Primitive = Primitive(
    "searchsorted",
    _search,
    lambda table, x, side, lead: Spec(x.shape, np.dtype(np.intp)),
    DISCRETE,
    _batch_search,
    _search_samples,
    body=_search_body,
    kinks=Kinks(_apart),
)
"""The positions to insert ``x`` into a sorted table; both have ``lead`` leading batch axes."""


def _is_in(x: Raw, table: Raw, lead: int) -> Raw:
    if not lead:
        return np.isin(x, table)
    out = np.empty(np.shape(x), np.bool_)
    for example in np.ndindex(np.shape(table)[:lead]):
        out[example] = np.isin(x[example], table[example])
    return out


_COMPARED: Final = 32
"""With so many elements of a table at most, an element is compared with each of them."""

_SEARCHED: Final = 2000
"""So many integers at most are searched for in a sorted table."""


def _is_in_body(x: Value, table: Value, lead: int) -> Value:
    """Comparisons with all elements of a short table, and a search in a long one.

    They take 0.02 to 0.7 of the time of a call of NumPy's function. Only for many integers NumPy is
    faster, 2 to 7 times: it counts them in a table of all integers between their extremes.
    """
    kinds = {dtype_of(x).kind, dtype_of(table).kind}
    if "c" in kinds or kinds == {"i", "u"} or 0 in shape_of(table):
        return NotImplemented
    dtype = np.result_type(dtype_of(table), dtype_of(x), np.int8)
    table, x = [y if dtype_of(y) == dtype else cast(y, dtype=dtype) for y in (table, x)]
    batch, count = shape_of(table)[:lead], prod(shape_of(table)[lead:])
    is_many = count > _COMPARED and count + prod(shape_of(x)) > _SEARCHED
    if is_many and not lead and dtype.kind in "iu":
        return NotImplemented
    elements = reshape(table, shape=(*batch, *[1] * (len(shape_of(x)) - lead), count))
    if count <= _COMPARED:
        hits = equal(reshape(x, shape=(*shape_of(x), 1)), elements)
        return reduce_any(hits, axis=(len(shape_of(x)),), keepdims=False)
    rows = sort(reshape(table, shape=(*batch, count)), axis=lead, descending=False)
    places = minimum(searchsorted(rows, x, side="left", lead=lead), count - 1)
    starts = np.arange(prod(batch)).reshape((*batch, *[1] * (len(shape_of(x)) - lead))) * count
    flat = reshape(rows, shape=(prod(batch) * count,))
    return equal(gather(flat, places + starts, axis=0, unique=False), x)


def _member_samples() -> Iterator[Sample]:
    table = np.array([4.0, 1.0, 1.0, 0.0])
    for x in (np.array([-1.0, 1.0, 2.5, np.nan]), 1.0, table.reshape(2, 2), np.zeros(0)):
        yield Sample((x, table), {"lead": 0})
    yield Sample((np.array([[1, 2], [3, 4]]), np.array([[2, 9], [4, 3]])), {"lead": 1})
    rng = np.random.default_rng(5)
    tables, x = rng.integers(99, size=(2, 40)), rng.integers(99, size=(2, 3, 5))
    yield Sample((x, tables), {"lead": 1})
    yield Sample((x / 2, np.where(tables < 9, np.nan, tables / 2)), {"lead": 0}, smooth=False)


is_in: Primitive = Primitive(
    "is_in",
    _is_in,
    lambda x, table, lead: Spec(x.shape, np.dtype(np.bool_)),
    DISCRETE,
    _batch_search_in,
    _member_samples,
    body=_is_in_body,
    kinks=Kinks(lambda x, table, lead: _apart(table, x, lead)),
)
"""Whether each element is in a table; both have ``lead`` leading batch axes."""
