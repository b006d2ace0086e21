"""Arguments of reductions, running totals and statistics."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from tests.differential.draw import Draw
from tests.differential.family import Call, Family, Generator, call


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


def _nan_extremum(d: Draw) -> Call:
    args, options = _reduction(d, "biuf", initial=lambda x: d.pick(0, 1))
    if "initial" in options and d.chance():
        options["where"] = d.mask(np.shape(args[0]))
    return args, options


def _truth(d: Draw) -> Call:
    return _reduction(d, where=lambda x: d.mask(np.shape(x)))


def _mean(d: Draw) -> Call:
    return _reduction(d, dtype=lambda x: _wider(d, x), where=lambda x: d.mask(np.shape(x)))


def _wider(d: Draw, x: Any) -> np.dtype[Any]:
    """An inexact dtype, complex just where the numbers are."""
    return d.dtype("c" if np.asarray(x).dtype.kind == "c" else "f")


def _spread(d: Draw) -> Call:
    args, options = _mean(d)
    dtype = np.asarray(args[0]).dtype
    if dtype.kind == "c":
        options.pop("dtype", None)
    if "dtype" in options and dtype.kind == "f":  # of a narrower one NumPy rounds the mean first
        options["dtype"] = np.promote_types(options["dtype"], dtype)
    x = args[0]
    if np.asarray(x).dtype.char == "d" and "dtype" not in options and d.chance(0.3):
        axis = args[1] if len(args) > 1 else options.get("axis")
        if axis is None:
            options["mean"] = np.full((1,) * np.ndim(x), 1.5)
    return args, options | d.options(0.3, ddof=lambda: d.pick(0, 1, 2, 0.5))


def _nan_mean(d: Draw) -> Call:
    return _reduction(
        d, dtype=lambda x: np.promote_types(_wider(d, x), "f"), where=lambda x: d.mask(np.shape(x))
    )


def _nan_spread(d: Draw) -> Call:
    args, options = _reduction(d, where=lambda x: d.mask(np.shape(x)))
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
        axes = None if axes is not None and not np.size(axes) else axes
        if d.chance(0.2) and np.ndim(x) and not floats:
            options |= {"method": "inverted_cdf", "weights": d.rng.integers(1, 4, np.shape(x))}
        return call(x, q, axes, **options)

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


REDUCTIONS: Final[Family] = MappingProxyType(
    {
        "sum": _total,
        "prod": _product,
        **dict.fromkeys(("max", "min", "amax", "amin"), _extremum),
        **dict.fromkeys(("any", "all"), _truth),
        "mean": _mean,
        **dict.fromkeys(("std", "var"), _spread),
        "nansum": _total,
        "nanprod": _product,
        "nanmean": _nan_mean,
        **dict.fromkeys(("nanstd", "nanvar"), _nan_spread),
        **dict.fromkeys(("ptp", "count_nonzero"), _reduction),
        **dict.fromkeys(("nanmax", "nanmin"), _nan_extremum),
        "median": _median,
        **dict.fromkeys(("argmax", "argmin", "nanargmax", "nanargmin"), _position),
        **dict.fromkeys(("cumsum", "cumprod", "nancumsum", "nancumprod"), _running),
        **dict.fromkeys(("cumulative_sum", "cumulative_prod"), _cumulative),
        "quantile": _quantile(1),
        "percentile": _quantile(100),
        "average": _average,
        "corrcoef": _observations,
        "cov": _cov,
    }
)
