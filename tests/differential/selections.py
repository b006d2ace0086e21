"""Arguments of what sorts, searches, selects and indexes."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

import numpy as np

from tests.differential.draw import Draw
from tests.differential.family import Call, Family, call

# --------------------------------------------------------------------------------- order and search


def _sort(d: Draw) -> Call:
    x = d.array()
    return call(x, d.axis(x)) if d.chance() else call(x, **d.options(axis=lambda: d.axis(x)))


def _argsort(d: Draw) -> Call:
    args, options = _sort(d)
    return args, {**options, "stable": True}


def _partition(d: Draw) -> Call:
    """Of different numbers, so that only one order is right where ``kth`` names every place."""
    x = d.rng.permutation(24).reshape(d.pick((24,), (4, 6), (2, 3, 4))).astype(d.dtype("iuf"))
    axis = d.pick(None, *range(-x.ndim, x.ndim))
    size = x.size if axis is None else x.shape[axis]
    kth = tuple(range(size))
    if d.chance(0.1):
        kth = d.pick((size,), (-size - 1,))
    return call(x, d.pick(kth, list(kth), np.array(kth)), axis)


def _lexsort(d: Draw) -> Call:
    shape = d.shape(1, 2)
    keys = [d.ndarray("biuf", shape) for _ in range(d.integer(1, 3))]
    return call(
        d.pick(keys, tuple(keys), np.array(keys)), **d.options(axis=lambda: d.axis(keys[0], False))
    )


def _searchsorted(d: Draw) -> Call:
    table = np.sort(d.ndarray("biuf", shape=d.shape(1, 1)))
    options = d.options(side=lambda: d.pick("left", "right"))
    if d.chance(0.3):
        order = d.rng.permutation(table.size)
        return call(
            table[order], d.array("biuf"), **options, sorter=np.argsort(table[order], kind="stable")
        )
    return call(table, d.array("biuf"), **options)


def _digitize(d: Draw) -> Call:
    d.finite = True
    bins = np.sort(d.ndarray("iuf", shape=d.shape(1, 1)))
    d.finite = False
    bins = bins[::-1] if d.chance() else d.rng.permutation(bins) if d.chance(0.1) else bins
    return call(d.array("iuf"), bins, **d.options(right=d.flag))


def _unique(d: Draw) -> Call:
    x = d.array("biuf")
    flags = dict.fromkeys(("return_index", "return_inverse", "return_counts"), d.flag)
    options = d.options(0.3, **flags, equal_nan=d.flag)
    if d.chance(0.3) and np.ndim(x):
        options["axis"] = d.axis(x)
    return call(x, **options)


# ---------------------------------------------------------------------------------------- selection


def _clip(d: Draw) -> Call:
    x = d.array("iuf")
    low, high = (
        d.pick(None, d.number(), d.pick(-1, 300, 2.5, -1e9), d.beside(np.shape(x), "iuf"))
        for _ in "ab"
    )
    return d.pick(call(x, low, high), call(x, min=low, max=high), call(x, a_min=low, a_max=high))


def _where(d: Draw) -> Call:
    if d.chance(0.15):
        return call(d.array(low=1))
    x, y = d.pair()
    return (
        call(d.beside(np.broadcast_shapes(np.shape(x), np.shape(y)), "bif"), x, y)
        if _fit(x, y)
        else call(True, x, y)
    )


def _fit(*arrays: Any) -> bool:
    try:
        np.broadcast_shapes(*map(np.shape, arrays))
    except ValueError:
        return False
    return True


def _select(d: Draw) -> Call:
    shape = d.shape()
    count = d.integer(1, 3)
    conditions = [d.mask(shape) for _ in range(count)]
    choices = [np.asarray(d.beside(shape)) for _ in range(count + d.chance(0.05))]
    if d.chance(0.1):
        conditions[0] = d.beside(shape, "if")
    return call(
        conditions,
        choices,
        **d.options(default=lambda: d.pick(0, np.float32(1.5), np.float64(np.nan))),
    )


def _piecewise(d: Draw) -> Call:
    x = d.ndarray("if")
    masks = [d.rng.random(x.shape) < 0.5 for _ in range(d.integer(1, 2))]
    values = [d.pick(0, 1.5, np.negative, np.abs) for _ in range(len(masks) + d.chance())]
    return call(x, masks, values)


def _nan_to_num(d: Draw) -> Call:
    return call(
        d.array(),
        **d.options(nan=lambda: d.pick(1.5, 7), posinf=lambda: d.pick(1, 2.5), neginf=lambda: -3.0),
    )


# ----------------------------------------------------------------------------------------- indexing


def _indices(d: Draw, size: int, shape: tuple[int, ...] | None = None) -> Any:
    """Positions along an axis, from either end; sometimes beyond it."""
    beyond = d.chance(0.06)
    low, high = (-size - 2, size + 2) if beyond else (-size, max(size, 1 - size))
    drawn = d.rng.integers(low, max(high, low + 1), d.shape(0, 2) if shape is None else shape)
    drawn = drawn.astype(d.pick("l", "l", "i", "b")) if drawn.size else drawn
    if not beyond and d.chance(0.1):
        drawn = abs(drawn).astype("B") % max(size, 1)
    return drawn.tolist() if d.chance(0.2) and drawn.size else drawn


def _take(d: Draw) -> Call:
    x = d.array(low=1)
    axis = d.pick(None, *range(-np.ndim(x), np.ndim(x)))
    size = np.size(x) if axis is None else np.shape(x)[axis]
    return call(
        x, _indices(d, size), axis, **d.options(0.3, mode=lambda: d.pick("raise", "wrap", "clip"))
    )


def _take_along(d: Draw) -> Call:
    x = d.ndarray(low=1)
    axis = d.pick(None, *range(-x.ndim, x.ndim))
    if axis is None:
        return call(x, np.asarray(_indices(d, x.size, (3,))), None)
    shape = list(x.shape)
    shape[axis] = d.integer(0, 3)
    return call(x, np.asarray(_indices(d, x.shape[axis], tuple(shape)), dtype=int), axis)


def _compress(d: Draw) -> Call:
    x = d.array(low=1)
    axis = d.pick(None, *range(-np.ndim(x), np.ndim(x)))
    size = np.size(x) if axis is None else np.shape(x)[axis]
    return call(d.rng.random(d.integer(0, size)) < 0.5, x, axis)


def _extract(d: Draw) -> Call:
    x = d.array()
    return call(d.array("bif", np.shape(x)), x)


def _ravel_multi_index(d: Draw) -> Call:
    dims = tuple(d.integer(1, 4) for _ in range(d.integer(1, 3)))
    modes = ("raise", "wrap", "clip")
    options = d.options(
        0.4,
        mode=lambda: d.pick(*modes, tuple(d.pick(*modes) for _ in dims)),
        order=lambda: d.pick("C", "F"),
    )
    beyond = 3 if "mode" in options else d.chance(0.05)
    places = tuple(d.rng.integers(-beyond if beyond > 1 else 0, n + beyond, (3,)) for n in dims)
    return call(places, dims, **options)


def _unravel_index(d: Draw) -> Call:
    dims = tuple(d.integer(1, 4) for _ in range(d.integer(1, 3)))
    return call(d.rng.integers(0, int(np.prod(dims)) + d.chance(0.05), d.shape(0, 2)), dims)


def _insert(d: Draw) -> Call:
    x = d.array(low=1)
    axis = d.pick(None, *range(-np.ndim(x), np.ndim(x)))
    size = np.size(x) if axis is None else np.shape(x)[axis]
    places = d.pick(
        d.integer(-size, size), [d.integer(0, size) for _ in range(2)], slice(0, size, 2)
    )
    return call(x, places, d.number(), axis)


def _delete(d: Draw) -> Call:
    x = d.array(low=1)
    axis = d.pick(None, *range(-np.ndim(x), np.ndim(x)))
    size = np.size(x) if axis is None else np.shape(x)[axis]
    mask = d.rng.random(size) < 0.5
    place = d.integer(-size, max(size - 1, -size))
    return call(
        x, d.pick(place, _indices(d, size, (2,)) if size else [], mask, slice(None, None, 2)), axis
    )


SELECTIONS: Final[Family] = MappingProxyType(
    {
        "sort": _sort,
        "argsort": _argsort,
        **dict.fromkeys(("partition", "argpartition"), _partition),
        "lexsort": _lexsort,
        "searchsorted": _searchsorted,
        "digitize": _digitize,
        "unique": _unique,
        **dict.fromkeys(
            ("unique_all", "unique_counts", "unique_inverse", "unique_values"),
            lambda d: call(d.array("biu")),
        ),
        "clip": _clip,
        "where": _where,
        "select": _select,
        "piecewise": _piecewise,
        "nan_to_num": _nan_to_num,
        "take": _take,
        "take_along_axis": _take_along,
        "compress": _compress,
        "extract": _extract,
        "ix_": lambda d: call(
            *[d.rng.integers(0, 3, d.integer(0, 3)) for _ in range(d.integer(1, 3))]
        ),
        "ravel_multi_index": _ravel_multi_index,
        "unravel_index": _unravel_index,
        "insert": _insert,
        "delete": _delete,
        **dict.fromkeys(("argwhere", "flatnonzero", "nonzero"), lambda d: call(d.array(low=1))),
    }
)
