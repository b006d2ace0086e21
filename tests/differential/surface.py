"""Arguments of sets, histograms, polynomials, samples, and functions of rows."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

import numpy as np

from tests.differential.draw import Draw
from tests.differential.family import Call, Family, call, plain


def _conversion(d: Draw) -> Call:
    x = d.array()
    return call(x, **d.options(0.3, dtype=lambda: d.target(x)))


# -------------------------------------------------------------------------------------------- sets


def _isin(d: Draw) -> Call:
    kinds = d.pick("biuf", "f", "c")
    flags = dict.fromkeys(("assume_unique", "invert"), d.flag)
    options = {} if "assume_unique" in (chosen := d.options(0.3, **flags)) else chosen
    return call(d.array(kinds), d.array(kinds), **options)


def _two_sets(d: Draw) -> Call:
    kinds = d.pick("biuf", "iu", "f")
    return call(d.ndarray(kinds), d.ndarray(kinds))


def _intersection(d: Draw) -> Call:
    args, _ = _two_sets(d)
    return args, d.options(0.5, return_indices=d.flag)


# -------------------------------------------------------------------------------------- histograms


def _bincount(d: Draw) -> Call:
    count = d.integer(0, 9)
    x = d.rng.integers(-1 if d.chance(0.05) else 0, 6, count).astype(d.pick("l", "l", "i", "B"))
    options = d.options(minlength=lambda: d.count(0, 9))
    if d.chance():
        options["weights"] = d.ndarray("biuf", (count + d.chance(0.05),))
    return call(x, **options)


def _bins(d: Draw) -> Any:
    if d.chance():
        return d.count(0 if d.chance(0.1) else 1, 6)
    return np.sort(d.rng.normal(0, 2, d.integer(2, 5))) if d.chance() else [-1, 0, 2, 3]


def _histogram(d: Draw) -> Call:
    d.finite = True
    shape = d.shape()
    bins = _bins(d)
    options = d.options(0.3, range=lambda: d.pick((-2, 3), (0.0, 1.5), (1, 1), (2, 1)))
    if d.chance(0.4):
        options["weights"] = d.ndarray("biufc" if d.chance(0.2) else "iuf", shape)
    elif d.chance(0.3):
        bins = d.pick("auto", "sturges", "sqrt", "fd", "no such rule")
    if d.chance(0.3):
        options["density"] = True
    kinds = "iuf" if not isinstance(bins, str) else "if"
    return call(d.array(kinds, shape), bins, **options)


def _bin_edges(d: Draw) -> Call:
    args, options = _histogram(d)
    return args, {k: v for k, v in options.items() if k == "range"}


def _histogram2d(d: Draw) -> Call:
    d.finite = True
    count = d.integer(1, 9)
    bins = d.pick(_bins(d), [d.count(1, 4), d.count(1, 4)], [[-1, 0, 2], [0.0, 1.0, 5.0, 6.0]])
    options = d.options(
        0.3,
        weights=lambda: d.ndarray("if", (count,)),
        density=lambda: True,
        range=lambda: [[-2, 3], [0.0, 1.5]],
    )
    return call(d.ndarray("if", (count,)), d.ndarray("if", (count,)), bins, **options)


def _histogramdd(d: Draw) -> Call:
    d.finite = True
    count, rank = d.integer(1, 9), d.integer(1, 3)
    bins = d.pick(d.count(1, 4), [d.integer(1, 3) for _ in range(rank)], [[-1, 0, 3]] * rank)
    sample: Any = d.ndarray("if", (count, rank))
    if d.chance(0.3):
        sample = [d.ndarray("if", (count,)) for _ in range(rank)]
    options = d.options(
        0.3, weights=lambda: d.ndarray("if", (count,)), density=lambda: True, range=lambda: None
    )
    return call(sample, bins, **options)


# ------------------------------------------------------------------------- sequences, polynomials


def _sequences(d: Draw) -> Call:
    sizes = [d.integer(1 - d.chance(0.05), 6) for _ in "ab"]
    args = [d.array("biufc", (n,)) for n in sizes]
    return call(*args, **d.options(mode=lambda: d.pick("full", "same", "valid", "none of these")))


def _polynomials(d: Draw, least: int = 1) -> Call:
    d.finite = True
    return call(*[d.array("iufc", (d.integer(least, 5),)) for _ in "ab"])


def _division(d: Draw) -> Call:
    """By what begins with no zero, and divides exactly or not at all."""
    d.finite = True
    u, v = (d.rng.integers(-4, 5, d.integer(1, 5)).astype(d.dtype("ifc")) for _ in "ab")
    v[0] = d.pick(1, 2, -1)
    return call(u, v)


def _polyint(d: Draw) -> Call:
    m = d.integer(0, 3)
    options = d.options(k=lambda: d.pick(2.5, [1.0, 2.0, 3.0], [1, 2], np.float32(1.5)))
    return call(d.array("iuf", (d.integer(0, 5),)), m, **options)


def _polyval(d: Draw) -> Call:
    d.finite = True
    return call(d.array("iuf", (d.integer(0, 5),)), d.array("ifc"))


def _poly(d: Draw) -> Call:
    d.finite = True
    zeros = d.ndarray("iufc", (d.integer(0, 4),))
    if zeros.dtype.kind == "c" and d.chance():
        zeros = np.concatenate([zeros, zeros.conj()])
    return call(zeros)


def _roots(d: Draw) -> Call:
    """Of polynomials whose zeros are apart, so that they have an order."""
    count = d.integer(0, 4)
    p = np.poly(np.arange(1, count + 1) * d.pick(1.0, -0.5, 1j)) * d.pick(1, 2.5)
    if d.finite:  # where differences are taken: a zero coefficient less is a zero more
        return call(p)
    parts = [np.zeros(d.integer(0, 1)), np.atleast_1d(p), np.zeros(d.count(0, 2))]
    return call(np.concatenate(parts))


def _polyfit(d: Draw) -> Call:
    """Of more samples than coefficients, at places that are apart."""
    count = d.integer(4, 7)
    x = np.arange(count) + d.rng.uniform(-0.2, 0.2, count)
    y = d.rng.normal(0, 1, (count,) if d.chance() else (count, 2))
    options: dict[str, Any] = d.options(0.4, w=lambda: d.rng.uniform(0.5, 2.0, count))
    if d.chance(0.4):
        options.update(d.pick({"full": True}, {"cov": True}, {"cov": "unscaled"}))
    return call(x, y, d.integer(0, 2), **options)


# ----------------------------------------------------------------------------------------- samples


def _interp(d: Draw) -> Call:
    d.finite = d.chance(0.7)
    count = d.integer(1 - d.chance(0.05), 6)
    places = np.sort(d.rng.normal(0, 2, count)) if d.chance() else np.arange(count)
    heights = d.ndarray("iufc", (count,))
    number = lambda: d.pick(-7, 2.5)  # noqa: E731
    options = d.options(0.3, left=number, right=number)
    if d.chance(0.3):
        d.finite = True
        options["period"] = d.pick(3, 4.5, -2.5, 0)
        heights = d.ndarray("iufc", (count,))
        places = d.rng.permutation(np.linspace(0.0, 2.4, count))  # apart, in one period
    x = d.array("if")
    return call(x if d.chance() else places, places, heights, **options)


def _gradient(d: Draw) -> Call:
    d.finite = True
    shape = d.pick((4,), (3, 5), (3, 3, 4), (2, 3), (1, 3))
    f = d.ndarray("ifc", shape)
    options: dict[str, Any] = d.options(0.4, edge_order=lambda: d.pick(1, 2))
    axes = list(range(len(shape)))
    if d.chance(0.4):
        options["axis"] = d.pick(-1, 0, tuple(axes), tuple(axes[:1]))
        axes = axes if np.ndim(options["axis"]) and len(options["axis"]) > 1 else [options["axis"]]
        axes = [int(np.ravel(axis)[0]) for axis in axes]
    style = d.pick("none", "one", "each", "coordinates")
    if style == "one":
        return call(f, d.pick(2, 0.5), **options)
    if style == "each":
        return call(f, *[d.pick(1, 2.5) for _ in axes], **options)
    if style == "coordinates" and all(shape[axis] > 1 for axis in axes):
        places = [np.cumsum(d.rng.uniform(0.5, 2.0, shape[axis])) for axis in axes]
        return call(f, *[d.pick(x, x * 4 // 1 + np.arange(x.size)) for x in places], **options)
    return call(f, **options)


def _unwrap(d: Draw) -> Call:
    d.finite = True
    x = d.ndarray(d.pick("i", "f"), low=1)
    options = d.options(0.4, axis=lambda: d.axis(x, False), discont=lambda: d.pick(4, 5.5))
    period = d.pick(6, 4) if x.dtype.kind == "i" else d.pick(6.5, 4)
    return call(x, **options, period=period)


def _windows(d: Draw) -> Call:
    x = d.array(low=1)
    shape = np.shape(x)
    if d.chance(0.4):
        axis = d.integer(-len(shape), len(shape) - 1)
        return call(x, d.integer(0, shape[axis] + d.chance(0.1)), axis)
    return call(x, tuple(d.integer(0, n) for n in shape))


# --------------------------------------------------------------------------------------- complex

_SCIMATH: Final = "arccos arcsin arctanh log log2 log10 sqrt".split()


def _complex_function(d: Draw) -> Call:
    d.finite = True
    return call(d.ndarray("ifc") if d.chance() else abs(d.ndarray("f")) / 9)


def _complex_pair(d: Draw) -> Call:
    d.finite = True
    x = d.ndarray("if")
    return call(x if d.chance() else abs(x) + 2, d.pick(2, 3, -2, 1.5))


# ------------------------------------------------------------------------------------------ others


def _choose(d: Draw) -> Call:
    shape = d.shape(empty=False)
    count = d.integer(1, 4)
    mode = d.pick("raise", "wrap", "clip")
    beyond = mode != "raise" or d.chance(0.1)
    chosen = d.rng.integers(-2 if beyond else 0, count + 2 * beyond, shape)
    choices = [np.asarray(d.beside(shape)) for _ in range(count)]
    return call(chosen, choices, **({} if mode == "raise" and d.chance() else {"mode": mode}))


def _trim_zeros(d: Draw) -> Call:
    x = d.rng.integers(0, 2, d.shape(1, 2)).astype(d.dtype())
    options = d.options(trim=lambda: d.pick("f", "b", "fb", "bf", "F", "x"))
    return call(x, **options)


def _real_if_close(d: Draw) -> Call:
    x = d.ndarray("fc")
    if x.dtype.kind == "c" and d.chance():
        x = x.real + 1j * x.real.dtype.type(1e-16)
    return call(x, **d.options(tol=lambda: d.pick(1e-3, 1000)))


def _nan_quantile(d: Draw, top: float) -> Call:
    """Of numbers in whose dtype the differences fit."""
    d.finite = d.chance()
    x = d.numbers("l" if d.finite else "d", d.shape(empty=False))
    q = d.pick(0.25, 0.5, [0.0, 1.0], 0.8, [[0.1], [0.6]])
    options = d.options(0.3, keepdims=d.flag, method=lambda: d.pick("linear", "lower", "midpoint"))
    if d.chance(0.2):
        options |= {"method": "inverted_cdf", "weights": d.rng.integers(1, 4, x.shape)}
    order = np.asarray(q) * top if d.chance(0.3) else np.multiply(q, top).tolist()
    return call(x, order, _some_axes(d, x), **options)


def _some_axes(d: Draw, x: np.ndarray[Any, Any]) -> Any:
    """Axes, but not none of them, of which NumPy makes an axis at a place of its own."""
    axes = d.axes(x)
    return None if isinstance(axes, tuple) and not axes else axes


def _apply_along(d: Draw) -> Call:
    x = d.ndarray(low=1)
    function = d.pick(np.sum, np.sort, lambda row: row[:1], lambda row: np.outer(row, row))
    return call(function, d.axis(x, False), x)


def _apply_over(d: Draw) -> Call:
    x = d.ndarray("biuf", low=1)
    axes = d.pick(0, [0], tuple(range(x.ndim)), -1)
    return call(d.pick(np.sum, np.cumsum), x, axes)


def _einsum_path(d: Draw) -> Call:
    arrays = [np.ones((2, 3)), np.ones((3, 4)), np.ones(4)]
    return call("ij,jk,k->i", *arrays, **d.options(optimize=lambda: d.pick("optimal", False, True)))


SURFACE: Final[Family] = MappingProxyType(
    {
        **dict.fromkeys(
            "asanyarray asarray_chkfinite ascontiguousarray asfortranarray".split(), _conversion
        ),
        **dict.fromkeys(
            "bartlett blackman hamming hanning".split(), lambda d: call(d.pick(-1, 0, 1, 2, 5, 6.5))
        ),
        "i0": lambda d: call(d.rng.normal(0, 20, d.shape()).astype(d.pick("l", "f", "d"))),
        "from_dlpack": lambda d: call(d.ndarray("iufc")),
        "kaiser": lambda d: call(d.pick(0, 1, 2, 5, 6.5), d.pick(0, 2.5, 8.6, np.float32(3))),
        **dict.fromkeys(("in1d", "isin"), _isin),
        **dict.fromkeys(("union1d", "setdiff1d", "setxor1d"), _two_sets),
        "intersect1d": _intersection,
        "bincount": _bincount,
        "histogram": _histogram,
        "histogram_bin_edges": _bin_edges,
        "histogram2d": _histogram2d,
        "histogramdd": _histogramdd,
        **dict.fromkeys(("convolve", "correlate"), _sequences),
        **dict.fromkeys(("polyadd", "polysub", "polymul"), _polynomials),
        "polydiv": _division,
        "polyder": lambda d: call(d.array("iuf", (d.integer(0, 5),)), d.integer(0, 4)),
        "polyint": _polyint,
        "polyval": _polyval,
        "poly": _poly,
        "polyfit": _polyfit,
        "roots": _roots,
        "interp": _interp,
        "gradient": _gradient,
        "unwrap": _unwrap,
        **{f"lib.scimath.{name}": _complex_function for name in _SCIMATH},
        **dict.fromkeys(("lib.scimath.logn", "lib.scimath.power"), _complex_pair),
        "lib.stride_tricks.sliding_window_view": _windows,
        "choose": _choose,
        "trim_zeros": _trim_zeros,
        "real_if_close": _real_if_close,
        "sort_complex": lambda d: call(d.ndarray(low=1)),
        "nanmedian": lambda d: call(x := d.array("if", empty=False), d.axes(x)),
        "nanquantile": lambda d: _nan_quantile(d, 1.0),
        "nanpercentile": lambda d: _nan_quantile(d, 100.0),
        "mask_indices": lambda d: call(d.integer(0, 4), d.pick(np.triu, np.tril), d.integer(-1, 1)),
        "broadcast_shapes": lambda d: call(*[d.pick((), (2,), 1, (3, 1), (3, 2)) for _ in "abc"]),
        "common_type": lambda d: call(*[d.ndarray("iufc") for _ in range(d.integer(1, 3))]),
        "min_scalar_type": lambda d: call(plain(d.array("biufc"))),
        "issubdtype": lambda d: call(d.dtype(), d.pick(np.floating, np.integer, np.number, float)),
        "isscalar": lambda d: call(d.pick(3, 2.5, "text", np.float32(1), None)),
        "iterable": lambda d: call(d.pick(3, [1], "text", np.ones(2))),
        "einsum_path": _einsum_path,
        "apply_along_axis": _apply_along,
        "apply_over_axes": _apply_over,
    }
)
