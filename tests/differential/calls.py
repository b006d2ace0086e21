"""For each function of ``funcgrad.numpy`` that NumPy has too, how to draw arguments for it.

A generator takes a ``Draw`` and returns positional and named arguments. Ufuncs need none of their
own: their arguments follow from the number of them.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from tests.differential.draw import Draw

__all__ = ["GENERATORS", "Call", "Generator", "generator_of"]

Call = tuple[tuple[Any, ...], dict[str, Any]]
Generator = Callable[[Draw], Call]


def call(*args: Any, **kwargs: Any) -> Call:
    """The arguments of one call."""
    return args, kwargs


def generator_of(name: str) -> Generator | None:
    """The generator for a function of a name; None where there is none."""
    if name in GENERATORS:
        return GENERATORS[name]
    return _ufunc(getattr(np, name)) if isinstance(getattr(np, name, None), np.ufunc) else None


def _ufunc(function: np.ufunc) -> Generator:
    if function.nin == 1:
        return lambda d: call(d.array())
    return lambda d: call(*d.pair())


# ------------------------------------------------------------------------------------ reductions


def _reduction(d: Draw, kinds: str = "biufc", **choices: Callable[[Any], Any]) -> Call:
    """An array, an axis, by position or by name, and options that may look at the array."""
    x = d.array(kinds)
    axis = d.axes(x)
    options = d.options(0.25, **{name: lambda c=choose: c(x) for name, choose in choices.items()})
    options |= d.options(keepdims=d.flag)
    if d.chance(0.3) and "dtype" not in options:
        return call(x, axis, **options)
    return call(x, **options) if d.chance(0.2) else call(x, axis=axis, **options)


def _total(d: Draw) -> Call:
    return _reduction(
        d,
        dtype=d.target,
        initial=lambda x: d.pick(0, 1, 3) if np.asarray(x).dtype.kind in "biu" else d.number(),
        where=lambda x: d.mask(np.shape(x)),
    )


def _product(d: Draw) -> Call:
    """Of finite complex numbers: the order of products decides between infinity and NaN."""
    call = _total(d)
    while np.asarray(call[0][0]).dtype.kind == "c" and not d.finite:
        d.finite = True
        call = _total(d)
    return call


def _extremum(d: Draw) -> Call:
    (x, *rest), options = _reduction(d)
    if d.chance(0.3):
        options["initial"] = d.pick(-2, 0, 3, 1.5)
        if d.chance():
            options["where"] = d.mask(np.shape(x))
    return (x, *rest), options


def _nan_total(d: Draw) -> Call:
    return _reduction(d, dtype=d.target)


def _truth(d: Draw) -> Call:
    return _reduction(d, where=lambda x: d.mask(np.shape(x)))


def _mean(d: Draw) -> Call:
    return _reduction(d, dtype=lambda x: _wider(d, x), where=lambda x: d.mask(np.shape(x)))


def _wider(d: Draw, x: Any) -> np.dtype[Any]:
    """An inexact dtype, complex just where the numbers are."""
    return d.dtype("c" if np.asarray(x).dtype.kind == "c" else "f")


def _spread(d: Draw) -> Call:
    args, options = _mean(d)
    if np.asarray(args[0]).dtype.kind == "c":
        options.pop("dtype", None)
    return args, options | d.options(0.3, ddof=lambda: d.pick(0, 1, 2, 0.5))


def _nan_mean(d: Draw) -> Call:
    return _reduction(d, dtype=lambda x: np.promote_types(_wider(d, x), "f"))


def _nan_spread(d: Draw) -> Call:
    args, options = _reduction(d)
    return args, options | d.options(0.3, ddof=lambda: d.pick(0, 1, 2, 0.5))


def _position(d: Draw) -> Call:
    x = d.array()
    return call(x, d.axis(x), **d.options(keepdims=d.flag))


def _running(d: Draw) -> Call:
    x = d.array()
    return call(x, d.axis(x), **d.options(0.3, dtype=lambda: d.target(x)))


def _cumulative(d: Draw) -> Call:
    x = d.array()
    choices = {"axis": lambda: d.axis(x), "dtype": lambda: d.target(x), "include_initial": d.flag}
    return call(x, **d.options(**choices))


METHODS = (
    *["linear", "hazen", "weibull", "median_unbiased", "normal_unbiased", "lower", "higher"],
    *["nearest", "midpoint", "interpolated_inverted_cdf", "inverted_cdf", "averaged_inverted_cdf"],
    *["closest_observation"],
)


def _quantile(top: float) -> Generator:
    def draw(d: Draw) -> Call:
        floats = d.chance(0.6)
        d.finite = not floats
        x = d.array("f", empty=False) if floats else d.numbers("l", d.shape(empty=False))
        orders = [0, 0.0, 0.1, 0.25, 1 / 3, 0.5, 0.75, 0.9, 1, np.float32(0.3), np.float16(0.7)]
        q = d.pick(*orders)
        if d.chance(0.3):
            q = np.array([d.pick(*orders) for _ in range(d.integer(0, 3))], d.pick("f", "d"))
        q = q if top == 1 else q * 100 if isinstance(q, np.ndarray) else type(q)(q * 100)
        options = d.options(method=lambda: d.pick(*METHODS), keepdims=d.flag)
        axes = d.axes(x)
        return call(x, q, None if axes is not None and not np.size(axes) else axes, **options)

    return draw


def _median(d: Draw) -> Call:
    x = d.array("biuf")
    return call(x, **d.options(axis=lambda: d.axis(x), keepdims=d.flag))


def _average(d: Draw) -> Call:
    x = d.array(empty=False)
    axis = d.axes(x)
    options = d.options(0.3, keepdims=d.flag, returned=d.flag)
    if d.chance():
        options["weights"] = d.array(shape=np.shape(x))
        if isinstance(axis, (int, np.integer)) and np.ndim(x) and d.chance():
            options["weights"] = d.array(shape=(np.shape(x)[int(axis) % np.ndim(x)],))
    return call(x, axis=axis, **options)


def _observations(d: Draw) -> Call:
    x = d.array(low=0, high=2, empty=False)
    options = d.options(0.3, rowvar=d.flag)
    if d.chance(0.3) and np.shape(x)[:1] != (1,):  # else NumPy takes y for columns
        options["y"] = d.array(shape=np.shape(x))
    return call(x, **options)


def _cov(d: Draw) -> Call:
    (x,), options = _observations(d)
    shape = np.shape(x)
    size = (
        1 if not shape else shape[-1] if options.get("rowvar", True) or len(shape) < 2 else shape[0]
    )
    options |= d.options(0.25, bias=d.flag, ddof=lambda: d.pick(0, 1, 2))
    if d.chance(0.2):
        options["fweights"] = d.rng.integers(1, 4, size)
    if d.chance(0.2):
        options["aweights"] = d.rng.uniform(0.5, 2, size)
    return call(x, **options)


# -------------------------------------------------------------------------------- order and search


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
    options = d.options(0.3, **flags)
    if d.chance(0.3) and np.ndim(x):
        options["axis"] = d.axis(x)
    return call(x, **options)


# ------------------------------------------------------------------------------------ selection


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


# ------------------------------------------------------------------------------------- indexing


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
    return call(tuple(d.rng.integers(0, n + d.chance(0.05), (3,)) for n in dims), dims)


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


# -------------------------------------------------------------------------------- shapes and axes


def _reshape(d: Draw) -> Call:
    x = d.array()
    size = np.size(x)
    shapes = [
        (size,),
        -1,
        (1, size),
        (size, 1, 1),
        (-1, 1),
        (2, -1),
        size,
        [size],
        (0, -1),
        (-1, -1),
    ]
    if size % 2 == 0:
        shapes += [(2, size // 2), (size // 2, -1)]
    return call(x, d.pick(*shapes), **d.options(0.2, order=lambda: d.pick("C", "F")))


def _permuted(d: Draw) -> Call:
    x = d.array()
    axes = [int(a) - np.ndim(x) * d.chance(0.3) for a in d.rng.permutation(np.ndim(x))]
    if d.chance(0.05):
        axes = axes[1:]
    return call(x, d.pick(tuple(axes), axes))


def _transpose(d: Draw) -> Call:
    return call(d.array()) if d.chance(0.3) else _permuted(d)


def _moveaxis(d: Draw) -> Call:
    x = d.array(low=1)
    count = d.integer(1, np.ndim(x))
    source, target = (tuple(map(int, d.rng.permutation(np.ndim(x))[:count])) for _ in "ab")
    return call(x, source, target) if d.chance() else call(x, d.axis(x, False), d.axis(x, False))


def _expand(d: Draw) -> Call:
    x = d.array()
    return call(x, d.pick(d.integer(-np.ndim(x) - 1, np.ndim(x)), (0, -1), (0, 2), (0, 0), ()))


def _broadcast_to(d: Draw) -> Call:
    x = d.array()
    shape = tuple(3 if n == 1 and d.chance() else n for n in np.shape(x))
    return call(x, d.pick(shape, (2, *shape), list(shape), shape[1:]))


def _roll(d: Draw) -> Call:
    x = d.array()
    if d.chance(0.3):
        return call(x, d.count(-9, 9))
    if np.ndim(x) > 1 and d.chance(0.4):
        return call(x, d.pick((1, -2), 3, [2, 1]), d.pick((0, 1), (1, -1)))
    return call(x, d.integer(-9, 9), d.axis(x))


def _repeat(d: Draw) -> Call:
    x = d.array()
    axis = d.pick(None, *range(-np.ndim(x), np.ndim(x)))
    size = np.size(x) if axis is None else np.shape(x)[axis]
    return call(x, d.pick(d.count(0, 3), [2], d.rng.integers(0, 3, size)), axis)


def _pad(d: Draw) -> Call:
    x = d.array(empty=d.chance(0.2))
    width = d.pick(d.integer(0, 4), (1, 2), [(1, 2)] * max(np.ndim(x), 1), ((0, 3),))
    mode = d.pick("constant", "edge", "reflect", "symmetric", "wrap", "constant")
    options = (
        d.options(constant_values=lambda: d.pick(1, 2.5, (1, 2), 0)) if mode == "constant" else {}
    )
    return call(x, width, mode, **options)


def _split(d: Draw, axis: bool = True, low: int = 1) -> Call:
    x = d.array(low=low)
    sections = d.pick(1, 2, 3, [1], [0, 2], [2, 1], (1, 5), [], np.array([1, 2]))
    return call(x, sections, **(d.options(axis=lambda: d.axis(x, False)) if axis else {}))


def _sequence(d: Draw, low: int = 0, vary: bool = True) -> list[Any]:
    """Arrays of one shape but perhaps for the first axis, and of different dtypes."""
    shape = d.shape(low)
    made = []
    for _ in range(d.integer(1, 3)):
        first = d.integer(0, 3) if vary and shape and d.chance(0.3) else None
        made.append(d.array(shape=shape if first is None else (first, *shape[1:])))
    return d.pick(made, tuple(made))


def _joined(d: Draw) -> Call:
    parts = _sequence(d, 1)
    return call(
        parts,
        **d.options(
            axis=lambda: d.pick(0, -1, None, 1, d.axis(parts[0])), dtype=lambda: d.dtype("fc")
        ),
    )


def _stacked(d: Draw) -> Call:
    parts = _sequence(d, 0, d.chance(0.1))
    rank = np.ndim(parts[0])
    return call(parts, **d.options(axis=lambda: d.integer(-rank - 1, rank)))


def _piled(d: Draw) -> Call:
    return call(_sequence(d))


def _append(d: Draw) -> Call:
    x = d.array()
    return call(x, d.array(shape=np.shape(x)), d.axis(x)) if d.chance() else call(x, d.array())


def _block(d: Draw) -> Call:
    a, b = d.ndarray(shape=(2, 2)), d.ndarray(shape=(2, 3))
    c, e = d.ndarray(shape=(1, 2)), d.ndarray(shape=(1, 3))
    return call(d.pick([[a, b], [c, e]], [a, b], [a, c], [1, 2], [[c], [a]], a, [[a, b], [c, c]]))


# ---------------------------------------------------------------------------------- diagonals


def _offset(d: Draw) -> Any:
    return d.pick(d.count(-3, 3), d.integer(-5, 5))


def _diagonal(d: Draw) -> Call:
    x = d.array(low=2) if d.chance(0.95) else d.array()
    rank = max(np.ndim(x), 1)
    axes = {
        "axis1": lambda: d.integer(-rank, rank - 1),
        "axis2": lambda: d.integer(-rank, rank - 1),
    }
    return call(
        x, **d.options(offset=lambda: _offset(d)), **(d.options(1.0, **axes) if d.chance() else {})
    )


def _trace(d: Draw) -> Call:
    args, options = _diagonal(d)
    return args, options | d.options(0.3, dtype=lambda: d.target(args[0]))


def _with_offset(low: int, high: int = 3) -> Generator:
    return lambda d: call(d.array(low=low, high=high), **d.options(k=lambda: _offset(d)))


def _triangle(d: Draw) -> Call:
    return call(d.count(), **d.options(k=lambda: _offset(d), m=d.count))


def _eye(d: Draw) -> Call:
    return call(d.count(), **d.options(M=d.count, k=lambda: _offset(d), dtype=d.dtype))


# ------------------------------------------------------------------------------------- creation


def _sizes(d: Draw) -> Any:
    return d.pick(d.count(), (2, 3), [1, 2], (), (0, 2), np.array([2, 1]), (np.int32(2), 1), -1)


def _shaped(d: Draw) -> Call:
    return call(_sizes(d), **d.options(dtype=d.dtype))


def _like(d: Draw) -> Call:
    return call(d.array(), **d.options(0.3, dtype=d.dtype, shape=lambda: _sizes(d)))


def _full_like(d: Draw) -> Call:
    (x,), options = _like(d)
    return call(x, d.pick(0, 1, 2.5, np.int8(3), np.float32(1.5)), **options)


def _arange(d: Draw) -> Call:
    ends = [
        d.pick(d.integer(-4, 9), d.pick(0.5, -2.25, 7.0), np.float32(3), np.int8(5))
        for _ in range(3)
    ]
    return call(*ends[: d.integer(1, 3)], **d.options(0.3, dtype=lambda: d.dtype("iufc")))


def _spaced(d: Draw) -> Call:
    start, stop = d.pair("iuf", low=0, high=2)
    rank = max(np.ndim(start), np.ndim(stop))
    choices = {"num": lambda: d.pick(0, 1, 2, 5, d.count()), "endpoint": d.flag}
    choices |= {"dtype": lambda: d.dtype("ifc"), "axis": lambda: d.integer(-rank - 1, rank)}
    return call(start, stop, **d.options(**choices))


def _linspace(d: Draw) -> Call:
    args, options = _spaced(d)
    return args, options | d.options(0.3, retstep=d.flag)


def _logspace(d: Draw) -> Call:
    args, options = _spaced(d)
    return args, options | d.options(0.3, base=lambda: d.pick(2, 10.0, np.float32(3)))


def _geomspace(d: Draw) -> Call:
    start = d.rng.uniform(0.5, 3, d.shape(0, 1)).astype(d.dtype("f"))
    _, options = _spaced(d)
    options.pop("axis", None)
    if options.get("dtype", np.dtype("d")).kind in "iu":
        del options["dtype"]
    return call(start, d.pick(2.0, 9, start * 3), **options)


def _meshgrid(d: Draw) -> Call:
    axes = [d.array(shape=d.shape(0, 1)) for _ in range(d.integer(1, 3))]
    return call(*axes, **d.options(indexing=lambda: d.pick("xy", "ij"), sparse=d.flag))


# ------------------------------------------------------------------------------------- products


def _matmul(d: Draw) -> Call:
    d.finite = True
    n, k, m = (d.integer(0, 3) if d.chance(0.1) else d.integer(1, 3) for _ in "nkm")
    lead = d.pick((), (2,), (1,), (2, 1))
    left, right = d.pick((n, k), (k,), (*lead, n, k)), d.pick((k, m), (k,), (*lead, k, m))
    if d.chance(0.06):
        right = d.shape()
    return call(d.array(shape=left), d.array(shape=right))


def _inner(d: Draw) -> Call:
    d.finite = True
    k = d.integer(1, 3)
    return call(
        d.array(shape=d.pick((k,), (2, k), ())), d.array(shape=d.pick((k,), (3, k), (), (k + 1,)))
    )


def _vectors(d: Draw) -> Call:
    d.finite = True
    k = d.integer(0, 4)
    return call(
        d.array(shape=d.pick((k,), (2, k))),
        d.array(shape=d.pick((k,), (2, k))),
        **d.options(0.2, axis=lambda: -1),
    )


def _matvec(d: Draw) -> Call:
    d.finite = True
    n, k = d.integer(1, 3), d.integer(1, 3)
    return call(d.array(shape=d.pick((n, k), (2, n, k))), d.array(shape=d.pick((k,), (2, k))))


def _vecmat(d: Draw) -> Call:
    d.finite = True
    n, k = d.integer(1, 3), d.integer(1, 3)
    return call(d.array(shape=d.pick((k,), (2, k))), d.array(shape=d.pick((k, n), (2, k, n))))


def _vdot(d: Draw) -> Call:
    d.finite = True
    shape = d.shape()
    return call(d.array(shape=shape), d.array(shape=shape[::-1]))


def _tensordot(d: Draw) -> Call:
    d.finite = True
    a, b = d.array(shape=(2, 3, 4)), d.array(shape=d.pick((3, 4, 2), (4, 3), (3, 4)))
    return call(a, b, d.pick(0, 1, 2, ([1], [0]), ([1, 2], [0, 1]), (2, 0), ((0, 1), (0, 1))))


def _einsum(d: Draw) -> Call:
    d.finite = True
    form = d.pick(
        "ij,jk->ik", "ii", "ij->ji", "ij,ij", "i,i->", "...j,j", "ij,j->i", "ab,bc,cd", "ii->i"
    )
    letters = {letter: d.integer(1, 3) for letter in "abcdijk"}
    terms = form.split("->")[0].split(",")
    return call(
        form,
        *[d.ndarray(shape=tuple(letters[c] for c in term.replace("...", ""))) for term in terms],
    )


def _cross(d: Draw) -> Call:
    d.finite = True
    size = 3 if d.chance(0.9) else 4
    return call(
        d.array("iuf", shape=d.pick((size,), (2, size))),
        d.array("iufc", shape=d.pick((3,), (2, 3))),
    )


def _kron(d: Draw) -> Call:
    d.finite = True
    return call(d.array(high=2), d.array(high=2))


def _any_pair(d: Draw) -> Call:
    d.finite = True
    return call(d.array(high=2), d.array(high=2))


# ------------------------------------------------------------------------------------ differences


def _diff(d: Draw) -> Call:
    x = d.array()
    options = d.options(0.3, axis=lambda: d.axis(x, False), n=lambda: d.count(0, 3))
    return call(
        x, **options, **d.options(0.15, prepend=lambda: d.number(), append=lambda: d.number())
    )


def _ediff1d(d: Draw) -> Call:
    ends = {"to_end": lambda: 1, "to_begin": lambda: d.pick(0, [3])}
    return call(d.array("ifc"), **d.options(0.3, **ends))


def _trapezoid(d: Draw) -> Call:
    y = d.array(low=1)
    options = d.options(
        0.3, axis=lambda: d.axis(y, False), dx=lambda: d.pick(2, 0.5, np.float32(0.25))
    )
    if d.chance(0.6):
        size = np.shape(y)[-1]
        options["x"] = d.pick(
            d.array(shape=(size,)), d.array(shape=np.shape(y)), d.array(shape=(2, size))
        )
    return call(y, **options)


def _vander(d: Draw) -> Call:
    return call(
        d.array(shape=d.pick((3,), (0,), (4,), (2, 2))), **d.options(N=d.count, increasing=d.flag)
    )


# ----------------------------------------------------------------------------------- comparison


def _close(d: Draw) -> Call:
    x, y = d.pair("iufbc")
    if d.chance(0.3):
        y = _nudged(x)
    return call(
        x,
        y,
        **d.options(0.3, rtol=lambda: d.pick(0, 1e-3), atol=lambda: d.pick(0, 1), equal_nan=d.flag),
    )


def _nudged(x: Any) -> Any:
    """Nearly the same numbers."""
    with np.errstate(invalid="ignore"):
        return np.asarray(x) * 1.000001


def _same(d: Draw) -> Call:
    x = d.array()
    return call(x, d.pick(x, d.array(shape=np.shape(x)), d.array()))


def _same_or_nan(d: Draw) -> Call:
    args, _ = _same(d)
    return args, d.options(equal_nan=d.flag)


def _one(d: Draw) -> Call:
    return call(d.array())


def _plain(x: Any) -> Any:
    """Lists as they are, of which NumPy makes the array here."""
    return list(x) if isinstance(x, list) else x


def _dtypes(d: Draw) -> Call:
    numbers = (True, 1, 2.0, 1j)
    return call(*[d.pick(d.dtype(), d.ndarray(), d.pick(*numbers)) for _ in range(d.integer(1, 3))])


GENERATORS: Final = MappingProxyType(
    {
        "sum": _total,
        "prod": _product,
        **dict.fromkeys(("max", "min", "amax", "amin"), _extremum),
        **dict.fromkeys(("any", "all"), _truth),
        "mean": _mean,
        **dict.fromkeys(("std", "var"), _spread),
        **dict.fromkeys(("nansum", "nanprod"), _nan_total),
        "nanmean": _nan_mean,
        **dict.fromkeys(("nanstd", "nanvar"), _nan_spread),
        **dict.fromkeys(("ptp", "count_nonzero"), _reduction),
        **dict.fromkeys(
            (
                "nanmax",
                "nanmin",
            ),
            lambda d: _reduction(d, "biuf"),
        ),
        "median": _median,
        **dict.fromkeys(("argmax", "argmin", "nanargmax", "nanargmin"), _position),
        **dict.fromkeys(("cumsum", "cumprod", "nancumsum", "nancumprod"), _running),
        **dict.fromkeys(("cumulative_sum", "cumulative_prod"), _cumulative),
        "quantile": _quantile(1),
        "percentile": _quantile(100),
        "average": _average,
        "corrcoef": _observations,
        "cov": _cov,
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
        "reshape": _reshape,
        "ravel": lambda d: call(d.array(), **d.options(order=lambda: d.pick("C", "F"))),
        "transpose": _transpose,
        "permute_dims": _permuted,
        "matrix_transpose": lambda d: call(d.array(low=1)),
        "moveaxis": _moveaxis,
        "rollaxis": lambda d: call(d.array(shape=(2, 3, 4)), d.integer(-3, 2), d.integer(-3, 3)),
        "swapaxes": lambda d: call(d.array(shape=(2, 3, 4)), d.integer(-3, 3), d.integer(-3, 2)),
        "expand_dims": _expand,
        "squeeze": lambda d: call(x := d.array(), **d.options(axis=lambda: d.axes(x))),
        "broadcast_to": _broadcast_to,
        "broadcast_arrays": lambda d: call(*d.pair()),
        **dict.fromkeys(("atleast_1d", "atleast_2d", "atleast_3d"), lambda d: call(*_sequence(d))),
        "flip": lambda d: call(x := d.array(), d.axes(x)),
        **dict.fromkeys(("fliplr", "flipud"), _one),
        "rot90": lambda d: call(d.array(low=2), d.integer(-5, 5), **d.options(axes=lambda: (1, 0))),
        "roll": _roll,
        "repeat": _repeat,
        "tile": lambda d: call(
            d.array(), d.pick(2, (2, 1), [1, 3], (), 0, (2, 1, 2), np.array([2]))
        ),
        "resize": lambda d: call(d.array(), d.pick(4, (2, 3), (), (0,), [5], -1)),
        "pad": _pad,
        **dict.fromkeys(("split", "array_split"), _split),
        **dict.fromkeys(("hsplit", "vsplit", "dsplit"), lambda d: _split(d, False)),
        "unstack": lambda d: call(x := d.array(low=1), **d.options(axis=lambda: d.axis(x, False))),
        **dict.fromkeys(("concat", "concatenate"), _joined),
        "stack": _stacked,
        **dict.fromkeys(("hstack", "vstack", "row_stack", "dstack", "column_stack"), _piled),
        "append": _append,
        "block": _block,
        **dict.fromkeys(("diag",), _with_offset(1, 2)),
        "diagflat": _with_offset(0),
        **dict.fromkeys(("tril", "triu"), _with_offset(1)),
        "diagonal": _diagonal,
        "trace": _trace,
        "diag_indices": lambda d: call(d.count(), **d.options(ndim=lambda: d.count(1, 3))),
        "diag_indices_from": lambda d: call(d.array(shape=d.pick((2, 2), (3, 3, 3), (2, 3), (2,)))),
        **dict.fromkeys(("tril_indices", "triu_indices"), _triangle),
        **dict.fromkeys(("tril_indices_from", "triu_indices_from"), _with_offset(2, 2)),
        "vander": _vander,
        **dict.fromkeys(("eye", "tri"), _eye),
        "identity": lambda d: call(d.count(), **d.options(dtype=d.dtype)),
        **dict.fromkeys(("zeros", "ones", "empty"), _shaped),
        **dict.fromkeys(("zeros_like", "ones_like", "empty_like"), _like),
        "full": lambda d: call(_sizes(d), x := d.number(), **d.options(dtype=lambda: d.target(x))),
        "full_like": _full_like,
        "array": lambda d: call(
            x := _plain(d.array()), **d.options(dtype=lambda: d.target(x), ndmin=d.count)
        ),
        "asarray": lambda d: call(x := _plain(d.array()), **d.options(dtype=lambda: d.target(x))),
        "astype": lambda d: call(x := d.ndarray(), d.target(x)),
        "copy": _one,
        "arange": _arange,
        "linspace": _linspace,
        "logspace": _logspace,
        "geomspace": _geomspace,
        "meshgrid": _meshgrid,
        "indices": lambda d: call(
            d.pick((2, 3), (2,), (), (0, 2)), **d.options(dtype=d.dtype, sparse=d.flag)
        ),
        "fromfunction": lambda d: call(
            lambda *axes: sum(axes), d.pick((2, 3), (4,)), **d.options(dtype=d.dtype)
        ),
        "matmul": _matmul,
        "dot": _matmul,
        "inner": _inner,
        "outer": _any_pair,
        "kron": _kron,
        "vdot": _vdot,
        "vecdot": _vectors,
        "matvec": _matvec,
        "vecmat": _vecmat,
        "tensordot": _tensordot,
        "einsum": _einsum,
        "cross": _cross,
        "diff": _diff,
        "ediff1d": _ediff1d,
        "trapezoid": _trapezoid,
        **dict.fromkeys(("isclose", "allclose"), _close),
        "array_equal": _same_or_nan,
        "array_equiv": _same,
        **dict.fromkeys(
            ("real", "imag", "iscomplex", "isreal", "iscomplexobj", "isrealobj", "ndim", "shape"),
            _one,
        ),
        **dict.fromkeys(("isposinf", "isneginf", "fix", "sinc"), _one),
        "angle": lambda d: call(d.array(), **d.options(deg=d.flag)),
        **dict.fromkeys(("round", "around"), lambda d: call(d.array(), d.pick(0, 1, 2, -1, -2))),
        "size": lambda d: call(x := d.array(), d.axis(x)),
        "result_type": _dtypes,
        "promote_types": lambda d: call(d.dtype(), d.dtype()),
        "can_cast": lambda d: call(
            d.pick(d.dtype(), d.ndarray()), d.dtype(), d.pick("safe", "same_kind", "unsafe", "no")
        ),
        "isdtype": lambda d: call(
            d.dtype(), d.pick("bool", "integral", "real floating", "numeric", ("bool", "integral"))
        ),
        "finfo": lambda d: call(d.dtype("fc")),
        "iinfo": lambda d: call(d.dtype("iu")),
        "ldexp": lambda d: call(*d.pair("iuf", "i")),
    }
)
