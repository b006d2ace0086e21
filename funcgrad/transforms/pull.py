"""Pulling cotangents back through a record: reverse mode's half of every differential.

A record is a list of entries in the order of execution. An entry is a tuple that begins with the
function that pulls a cotangent through it and the number of the variable that it defines; the rest
is that function's business. Variables have numbers; inputs have no entry. Everything here works on
values: raw arrays when nothing else is being transformed, tracers otherwise, which is why
derivatives of derivatives need no rule of their own.

A cotangent may be smaller than its variable when it broadcasts to it (that of a sum does), and it
may be ``Masked``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad.primitive import OPPOSITE, SAME, Linear, Partials, Selection
from funcgrad.primitives.complexes import conj
from funcgrad.primitives.selection import where
from funcgrad.primitives.structural import cast, reshape
from funcgrad.shape import Shape, dtype_of, reduced_shape, shape_of
from funcgrad.trace import RAW, Value
from funcgrad.transforms.masked import (
    Cotangent,
    Masked,
    Patchwork,
    broadcast,
    is_raw,
    merged,
    plain,
    unbroadcast,
)

__all__ = [
    "Cotangents",
    "Entry",
    "fit",
    "pull_back",
    "pull_bilinear",
    "pull_binary",
    "pull_bundle",
    "pull_linear",
    "pull_mark",
    "pull_partials",
    "pull_patch",
    "pull_projection",
    "pull_reduction",
    "pull_unary",
]

Entry: TypeAlias = tuple[Any, ...]
Cotangents: TypeAlias = Any
"""A list by variable, or a mapping that yields None for what it lacks."""


_LARGE: Final = 2048
"""The size from which adding in place saves more than it costs to keep account of it."""


def pull_back(
    backwards: Iterable[Entry], cotangents: Cotangents, seeds: Iterable[tuple[int, Value]]
) -> None:
    """The cotangents of all that entries read, by one sweep from the last to the first.

    Parameters
    ----------
    backwards : iterable of Entry
        The last first.
    cotangents : list, or mapping with a default
        By variable, None at first. Afterwards those of variables that no entry defines are set,
        if they were reached.
    seeds : iterable of (variable, cotangent)
    """
    for index, seed in seeds:
        accumulate(cotangents, index, seed)
    for entry in backwards:
        index = entry[1]
        ct = cotangents[index]
        if ct is not None:
            cotangents[index] = None
            if type(ct) is Patchwork:
                ct = ct.settle()
            entry[0](cotangents, ct, entry)


def accumulate(cotangents: Cotangents, index: int, ct: Cotangent) -> None:
    """Add to a variable's cotangent."""
    previous = cotangents[index]
    if previous is None:
        cotangents[index] = ct
    elif type(previous) is Patchwork:
        if is_raw(ct):
            previous.add(ct)
        else:
            cotangents[index] = merged(previous.settle(), ct)
    elif type(previous) is Masked or type(ct) is Masked:
        cotangents[index] = merged(previous, ct)
    else:
        total = previous + ct
        # A large sum is this sweep's own, so what comes next is added in place.
        large = type(total) is np.ndarray and total.size >= _LARGE
        cotangents[index] = Patchwork(total, None) if large else total


def pull_unary(cotangents: Cotangents, ct: Cotangent, entry: Entry) -> None:
    """Through an elementwise operation of one argument: the fast path of ``pull_partials``."""
    _, _, primitive, operand, x, out = entry
    if type(ct) is Masked:
        pull_partials(cotangents, ct, (None, 0, primitive, (operand,), (x,), out, {}))
        return
    factor = primitive.factors[0]
    if factor is SAME:
        g = ct
    elif factor is OPPOSITE:
        g = -ct
    else:
        g = ct * factor(out, x)  # in one expression, so that NumPy can reuse the factor's memory
        if g.dtype.kind == "c":
            g = ct * conj(factor(out, x))
    if type(x) is not np.ndarray or g.dtype is not x.dtype:
        g = fit(g, x, shape_of(x))
    if cotangents[operand] is None:
        cotangents[operand] = g
    else:
        accumulate(cotangents, operand, g)


def pull_binary(cotangents: Cotangents, ct: Cotangent, entry: Entry) -> None:
    """Through an elementwise operation of two arguments: the fast path of ``pull_partials``."""
    _, _, primitive, first, second, x, y, out = entry
    if type(ct) is Masked:
        pull_partials(cotangents, ct, (None, 0, primitive, (first, second), (x, y), out, {}))
        return
    wide = shape_of(out)
    if first >= 0:
        g = _scaled(ct, primitive.factors[0], out, x, y)
        if type(x) is not np.ndarray or g.dtype is not x.dtype or x.shape != wide:
            g = fit(g, x, wide)
        if cotangents[first] is None:
            cotangents[first] = g
        else:
            accumulate(cotangents, first, g)
    if second >= 0:
        g = _scaled(ct, primitive.factors[1], out, x, y)
        if type(y) is not np.ndarray or g.dtype is not y.dtype or y.shape != wide:
            g = fit(g, y, wide)
        if cotangents[second] is None:
            cotangents[second] = g
        else:
            accumulate(cotangents, second, g)


def _scaled(ct: Value, factor: Any, out: Value, x: Value, y: Value) -> Value:
    if factor is SAME:
        return ct
    if factor is OPPOSITE:
        return -ct
    g = ct * factor(out, x, y)
    return g if g.dtype.kind != "c" else ct * conj(factor(out, x, y))


def pull_bilinear(cotangents: Cotangents, ct: Cotangent, entry: Entry) -> None:
    """Through a product of two arguments: the fast path of ``pull_linear``."""
    _, _, primitive, first, second, x, y, out = entry
    if type(ct) is Masked or out.dtype.kind == "c":
        pull_linear(cotangents, ct, (None, 0, primitive, (first, second), (x, y), out, {}))
        return
    if ct.shape != out.shape:
        ct = broadcast(ct, out.shape)
    transposes = primitive.differential.transposes
    for operand, arg, transpose in ((first, x, transposes[0]), (second, y, transposes[1])):
        if operand < 0:
            continue
        g = transpose(ct, x, y)
        if type(arg) is not np.ndarray or g.dtype is not arg.dtype:
            g = fit(g, arg, shape_of(arg))
        accumulate(cotangents, operand, g)


def fit(ct: Cotangent, x: Value, wide: Shape) -> Cotangent:
    """Give a cotangent the dtype of its argument, and undo the argument's broadcast to ``wide``."""
    if type(ct) is type(x) and type(x) is np.float64 and not wide:
        return ct  # the commonest case of scalar programs
    shape = shape_of(x)
    if shape != wide:
        ct = unbroadcast(ct, shape, wide)
    dtype = dtype_of(x)
    if dtype_of(plain(ct)) == dtype:
        return ct
    if type(ct) is Masked:
        return Masked(cast(ct.value, dtype=dtype), ct.mask)
    return cast(ct, dtype=dtype)


def pull_partials(cotangents: Cotangents, ct: Cotangent, entry: Entry) -> None:
    """Through an elementwise operation or a reduction, in all generality."""
    _, _, primitive, operands, primals, out, params = entry
    partials: Partials = primitive.differential
    wide = shape_of(out)
    if partials.reduces:
        wide = shape_of(primals[0])
        kept = reduced_shape(wide, params["axis"], keepdims=True)
        out = keep(out, kept)
        ct = ct.map(lambda part: keep(part, kept)) if type(ct) is Masked else keep(ct, kept)
    for operand, x, factor in zip(operands, primals, partials.factors, strict=True):
        if operand >= 0 and factor is not None:
            if callable(factor):
                factor = factor(out, *primals, **params)
            accumulate(cotangents, operand, fit(scale(ct, factor), x, wide))


def keep(x: Value, kept: Shape) -> Value:
    """Give a reduction's output, or its cotangent, its reduced axes back, with size 1."""
    shape = shape_of(x)
    return x if shape == kept or not shape else reshape(x, shape=kept)


def scale(ct: Cotangent, factor: Any) -> Cotangent:
    """A cotangent times the conjugate of a factor of whatever kind."""
    if factor is SAME:
        return ct
    if factor is OPPOSITE:
        return Masked(-ct.value, ct.mask) if type(ct) is Masked else -ct
    if isinstance(factor, Selection):
        if type(ct) is Masked:
            return scale(scale(ct, factor.mask), factor.weight)
        return Masked(where(factor.mask, ct * factor.weight, 0), factor.mask)
    if dtype_of(factor).kind == "b":
        if type(ct) is Masked:
            return ct.select(factor)
        return Masked(where(factor, ct, 0), factor)
    if dtype_of(factor).kind == "c":
        factor = conj(factor)
    return ct.scale(factor) if type(ct) is Masked else ct * factor


def pull_reduction(cotangents: Cotangents, ct: Cotangent, entry: Entry) -> None:
    """Through a reduction: the fast path of ``pull_partials`` for sums and means."""
    _, _, primitive, operands, primals, out, params = entry
    factor = primitive.factors[0]
    if type(ct) is Masked or primitive.differential.selects:
        pull_partials(cotangents, ct, entry)
        return
    x = primals[0]
    if ct.shape and not params["keepdims"]:
        ct = reshape(ct, shape=reduced_shape(shape_of(x), params["axis"], keepdims=True))
    if factor is not SAME:
        kept = reduced_shape(shape_of(x), params["axis"], keepdims=True)
        ct = scale(ct, factor(keep(out, kept), x, **params))
    if type(x) is not np.ndarray or ct.dtype is not x.dtype:
        ct = fit(ct, x, shape_of(x))
    accumulate(cotangents, operands[0], ct)


def pull_patch(cotangents: Cotangents, ct: Cotangent, entry: Entry) -> None:
    """Through a slice or a gather: add to a buffer, unless a transformation follows the values."""
    _, _, primitive, operands, primals, _, params = entry
    operand, x, indices = operands[0], primals[0], primals[1:]
    buffer = cotangents[operand]
    plain_ct = type(ct) in RAW
    if (not plain_ct and not is_raw(ct)) or (indices and not all(type(i) in RAW for i in indices)):
        pull_linear(cotangents, ct, entry)
        return
    patch = primitive.differential.patch
    fresh = buffer is None
    if type(buffer) is not Patchwork:
        if not fresh and not is_raw(buffer):
            pull_linear(cotangents, ct, entry)
            return
        shape = shape_of(x)
        whole = buffer
        buffer = cotangents[operand] = Patchwork(
            np.zeros(shape, dtype_of(x)), np.zeros(shape, bool)
        )
        if not fresh:
            buffer.add(whole)
    patch(buffer.value, ct if plain_ct else ct.value, fresh, *indices, **params)
    if buffer.mask is not None:
        patch(buffer.mask, True if plain_ct else ct.mask, plain_ct, *indices, **params)


def pull_linear(cotangents: Cotangents, ct: Cotangent, entry: Entry) -> None:
    """Through an operation that is linear in each argument."""
    _, _, primitive, operands, primals, out, params = entry
    linear: Linear = primitive.differential
    ct = broadcast(ct, shape_of(out))
    if len(primals) > 1 and dtype_of(out).kind == "c":
        primals = [conj(x) if dtype_of(x).kind == "c" else x for x in primals]
    simple = type(ct) is not Masked and not linear.gaps
    routes = linear.routes(len(primals))
    for operand, x, transpose in zip(operands, primals, routes, strict=True):
        if operand < 0 or transpose is None:
            continue
        if simple:
            g = transpose(ct, *primals, **params)
        else:
            g = _pull_structural(linear, ct, partial(_swapped, transpose, primals, params))
        if type(g) is Masked or type(x) is not np.ndarray or g.dtype is not x.dtype:
            g = fit(g, x, shape_of(x))
        accumulate(cotangents, operand, g)


def _pull_structural(linear: Linear, ct: Cotangent, pull: Callable[[Value], Value]) -> Cotangent:
    """Pull a cotangent that has gaps, or gets them here."""
    if type(ct) is Masked and linear.structural:
        return ct.map(pull)
    if linear.gaps:
        value = plain(ct)
        return Masked(pull(value), pull(np.ones(shape_of(value), np.bool_)) != 0)
    return pull(plain(ct))


def _swapped(
    transpose: Callable[..., Value], primals: Sequence[Value], params: Mapping[str, Any], ct: Value
) -> Value:
    return transpose(ct, *primals, **params)


def pull_bundle(cotangents: Cotangents, cts: Any, entry: Entry) -> None:
    """Through a call of several inputs and outputs that brings its own pullback."""
    _, _, operands, pull, _ = entry
    for operand, ct in zip(operands, pull(cts), strict=True):
        if operand >= 0 and ct is not None:
            accumulate(cotangents, operand, ct)


def pull_projection(cotangents: Cotangents, ct: Cotangent, entry: Entry) -> None:
    """Through the choice of one output of a bundle: collect the cotangents for it."""
    _, _, bundle, position, count, closed_over = entry
    if cotangents[bundle] is None:
        cotangents[bundle] = [None] * count
    cotangents[bundle][position] = ct
    if closed_over >= 0:
        accumulate(cotangents, closed_over, ct)


def pull_mark(cotangents: Cotangents, ct: Cotangent, entry: Entry) -> None:
    """Through a marked value: keep what arrives, and hand it on."""
    _, _, operand, slot = entry
    accumulate(cotangents, slot, ct)
    if operand >= 0:
        accumulate(cotangents, operand, ct)
