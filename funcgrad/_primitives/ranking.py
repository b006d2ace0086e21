"""Elements with some ranks along an axis, without an order of all elements.

>>> ranked(np.array([3.0, 1.0, 2.0, 9.0]), axis=0, kth=(0, 2))
array([1., 3.])
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import DISCRETE, Kinks, Primitive, Sample, carried
from funcgrad._core.specs import Shape, Spec, dtype_of, shape_of
from funcgrad._core.structure.structures import Opaque, Ordering, mixing
from funcgrad._core.trace import Raw, Value
from funcgrad._primitives.cumulative import cumulative_sum
from funcgrad._primitives.indexing import gather
from funcgrad._primitives.kinks import differences
from funcgrad._primitives.logic import equal, isnan, less, logical_and, logical_not, logical_or
from funcgrad._primitives.recurrence import batch_along_axis
from funcgrad._primitives.reduction import reduce_sum
from funcgrad._primitives.selection import where
from funcgrad._primitives.sorting import indices_along, one_axis_back, sort
from funcgrad._primitives.structural import cast, move_axis, reshape

_INDEX: Final = np.dtype(np.intp)


def _ranked(x: Raw, axis: int, kth: tuple[int, ...]) -> Raw:
    return np.take(np.partition(x, kth, axis) if np.size(x) else x, kth, axis)


def _carry(
    out: Value, x: Value, axis: int, kth: tuple[int, ...]
) -> tuple[Primitive, tuple[Value, ...], dict[str, Any]]:
    places = places_of_ranked(x, out, axis=axis, kth=kth)
    return gather, indices_along(shape_of(x), places, axis), {"axis": 0, "unique": True}


def _along(shape: Shape, axis: int, kth: tuple[int, ...]) -> Shape:
    return (*shape[:axis], len(kth), *shape[axis + 1 :])


def _samples() -> Iterator[Sample]:
    rng = np.random.default_rng(15)
    x = rng.standard_normal((5, 3))
    yield Sample((x[:, 0],), {"axis": 0, "kth": (1, 4)})
    yield Sample((x,), {"axis": 0, "kth": (2,)})
    yield Sample((x[::-1, ::-2],), {"axis": 1, "kth": (0, 1)})
    yield Sample((np.zeros((4, 0)),), {"axis": 0, "kth": (1, 3)})
    yield Sample((rng.integers(-3, 4, (2, 9)),), {"axis": 1, "kth": (0, 4, 8)})
    ties = np.array([1.0, 0.0, 1.0, -0.0, 1.0])
    yield Sample((ties,), {"axis": 0, "kth": (0, 3)}, smooth=False)
    special = np.array([np.nan, 1.0, -np.inf, np.inf, np.nan])
    yield Sample((special,), {"axis": 0, "kth": (1, 2, 3, 4)}, smooth=False)
    yield Sample((rng.standard_normal((2, 300)),), {"axis": 1, "kth": (3, 150, 299)})


def _placed_samples() -> Iterator[Sample]:
    for sample in _samples():
        (x,) = sample.args
        yield Sample((x, _ranked(x, **sample.params)), sample.params)


def _gaps(x: Value, axis: int, **_: Hashable) -> Value:
    """The gaps between neighbours in order."""
    ordered = sort(x, axis=axis, descending=False)
    return differences(move_axis(ordered, axis, len(shape_of(x)) - 1))


def _places(x: Raw, out: Raw, axis: int, kth: tuple[int, ...]) -> Raw:
    rows, values = [np.moveaxis(np.asarray(array), axis, -1) for array in (x, out)]
    places = np.empty(values.shape, np.intp)
    for number, rank in enumerate(kth if rows.size else ()):
        value = values[..., number : number + 1]
        same = rows == value
        if rows.dtype.kind == "f" and np.isnan(value).any():
            same |= np.isnan(rows) & np.isnan(value)
        is_single = np.count_nonzero(same, -1, keepdims=True) == 1
        if not np.all(is_single):
            among = rank - np.count_nonzero(_before(rows, value), -1, keepdims=True)
            same &= is_single | (np.cumsum(same, -1) == among + 1)
        places[..., number] = np.argmax(same, -1)
    return np.moveaxis(places, -1, axis)


def _before(x: Raw, value: Raw) -> Raw:
    below = x < value
    return below | (np.isnan(value) & ~np.isnan(x)) if x.dtype.kind == "f" else below


def _places_by_counts(x: Value, out: Value, axis: int, kth: tuple[int, ...]) -> Value:
    """Among elements that are equal, an element has as many before it as its rank says."""
    shape, dtype = shape_of(x), dtype_of(x)
    if dtype.kind == "c" or 0 in shape:
        return NotImplemented
    x = reshape(x, shape=(*shape[:axis], 1, *shape[axis:]))
    out = reshape(out, shape=(*shape[:axis], len(kth), 1, *shape[axis + 1 :]))
    same, below = equal(x, out), less(x, out)
    if dtype.kind == "f":
        same = logical_or(same, logical_and(isnan(x), isnan(out)))
        below = logical_or(below, logical_and(logical_not(isnan(x)), isnan(out)))
    behind = [1] * (len(shape) - axis - 1)
    number = cumulative_sum(cast(same, dtype=_INDEX), axis=axis + 1, reverse=False)
    count = reduce_sum(cast(below, dtype=_INDEX), axis=(axis + 1,), keepdims=True)
    wanted = np.array(kth).reshape(len(kth), 1, *behind) + 1 - count
    line = np.arange(shape[axis]).reshape(-1, *behind)
    hits = where(logical_and(same, equal(number, wanted)), line, np.intp(0))
    return reduce_sum(hits, axis=(axis + 1,), keepdims=False)


places_of_ranked: Primitive = Primitive(
    "places_of_ranked",
    _places,
    lambda x, out, axis, kth: Spec(_along(x.shape, axis, kth), _INDEX),
    DISCRETE,
    batch_along_axis,
    _placed_samples,
    structure=Opaque(counted=0),
    body=_places_by_counts,
    kinks=Kinks(lambda x, out, **params: _gaps(x, **params)),
)
"""The places at which a stable sort finds the elements ``ranked(x)``, which are known."""

ranked: Primitive = Primitive(
    "ranked",
    _ranked,
    lambda x, axis, kth: Spec(_along(x.shape, axis, kth), x.dtype),
    carried(_carry),
    one_axis_back,
    _samples,
    structure=Opaque(
        counted=0,
        letters=lambda x, axis, **_: mixing(x, (axis,)),
        orders=lambda axis, kth: Ordering(axis, False, places=False, ranks=kth),
    ),
    body=lambda x, axis, kth: gather_along(sort(x, axis=axis, descending=False), kth, axis),
    kinks=Kinks(_gaps),
)
"""The elements of a real array that a sort would put at the places ``kth`` along an axis.

The places are distinct, and ascend.
"""


def gather_along(x: Value, places: tuple[int, ...], axis: int) -> Value:
    """The elements at some places along an axis."""
    return gather(x, np.array(places), axis=axis, unique=True)
