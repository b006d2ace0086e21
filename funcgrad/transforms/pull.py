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
from funcgrad.primitives.elementwise import twice
from funcgrad.primitives.logic import logical_or
from funcgrad.primitives.reduction import reduce_any
from funcgrad.primitives.selection import where
from funcgrad.primitives.structural import cast, reshape
from funcgrad.shape import Shape, dtype_of, shape_of
from funcgrad.trace import RAW, Value
from funcgrad.transforms.collage import UNSETTLED, Collage
from funcgrad.transforms.factors import PRECISE, in_precision_of, operands_of_factors
from funcgrad.transforms.masked import (
    LARGE,
    Cotangent,
    Masked,
    Patchwork,
    broadcast,
    buffered,
    is_raw,
    merged,
    plain,
    selected,
    unbroadcast,
)

__all__ = [
    "Cotangents",
    "Entry",
    "fit",
    "outlined",
    "pull_back",
    "pull_bilinear",
    "pull_binary",
    "pull_bundle",
    "pull_carried",
    "pull_linear",
    "pull_mark",
    "pull_partials",
    "pull_patch",
    "pull_projection",
    "pull_reduction",
    "pull_transposed",
    "pull_unary",
]

Entry: TypeAlias = tuple[Any, ...]
Cotangents: TypeAlias = Any
"""A list by variable, or a mapping that yields None for what it lacks."""


_DOUBLE: Final = frozenset({float, np.float64})
"""Types of single numbers whose cotangents are of double precision."""


class Outline:
    """What an entry keeps of an array of which its rules read only shape and dtype.

    The memory is free for the next operation then, while it is still in the processor's cache.
    """

    __slots__ = ("dtype", "shape")

    def __init__(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype


def outlined(x: Value) -> Any:
    """The outline of an array; any other value as it is."""
    return Outline(x.shape, x.dtype) if type(x) is np.ndarray else x


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
            if type(ct) in UNSETTLED:
                ct = ct.settle()
            entry[0](cotangents, ct, entry)


def accumulate(cotangents: Cotangents, index: int, ct: Cotangent) -> None:
    """Add to a variable's cotangent."""
    previous = cotangents[index]
    if previous is None:
        cotangents[index] = ct
    elif type(previous) is np.ndarray and type(ct) is np.ndarray:
        total = previous + ct
        # A large sum is this sweep's own, so what comes next is added in place.
        cotangents[index] = Patchwork(total, None) if total.size >= LARGE else total
    elif type(previous) is Patchwork:
        if is_raw(ct):
            previous.add(ct)
        else:
            cotangents[index] = merged(previous.settle(), ct)
    elif type(previous) is Collage:
        previous.add(ct)
    elif type(previous) is Masked or type(ct) is Masked:
        cotangents[index] = merged(previous, ct)
    else:
        cotangents[index] = previous + ct


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
    elif factor is twice and ct.dtype.kind != "c":
        g = (ct + ct) * x
    else:
        g = ct * factor(out, x)  # in one expression, so that NumPy can reuse the factor's memory
        if g.dtype.kind == "c":
            g = ct * conj(factor(out, x))
    if type(g) is np.float64 and type(x) in _DOUBLE:
        pass  # the commonest case of scalar programs: it fits
    elif type(x) is not np.ndarray or g.dtype is not x.dtype:
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
    left, right = x, y
    if not primitive.additive:
        if type(x) not in PRECISE and (type(x) is bool or x.dtype is not ct.dtype):
            left = in_precision_of(ct.dtype, x)
        if type(y) not in PRECISE and (type(y) is bool or y.dtype is not ct.dtype):
            right = in_precision_of(ct.dtype, y)
    if first >= 0:
        g = _pulled(ct, primitive.factors[0], x, out, left, right)
        if cotangents[first] is None:
            cotangents[first] = g
        else:
            accumulate(cotangents, first, g)
    if second >= 0:
        g = _pulled(ct, primitive.factors[1], y, out, left, right)
        if cotangents[second] is None:
            cotangents[second] = g
        else:
            accumulate(cotangents, second, g)


def _pulled(ct: Value, factor: Any, own: Value, out: Value, x: Value, y: Value) -> Value:
    """The cotangent of ``own``, which stands among the factor's operands x and y."""
    g = ct
    if factor is not SAME and factor is not OPPOSITE:
        g = ct * factor(out, x, y)
        if g.dtype.kind == "c":
            g = ct * conj(factor(out, x, y))
    if type(g) is np.float64 and type(own) in _DOUBLE and type(out) in _DOUBLE:
        pass  # as above
    elif type(own) is not np.ndarray or g.dtype is not own.dtype or own.shape != out.shape:
        g = fit(g, own, shape_of(out))
    return -g if factor is OPPOSITE else g  # the sign comes last: summed, there are fewer to turn


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
        out = keep(out, wide, params)
        ct = (
            ct.map(lambda part: keep(part, wide, params))
            if type(ct) is Masked
            else keep(ct, wide, params)
        )
    values = operands_of_factors(partials, primals, out)
    for operand, x, factor_of in zip(operands, primals, partials.factors, strict=True):
        if operand >= 0 and factor_of is not None:
            factor: Any = factor_of
            if callable(factor):
                factor = factor(out, *values, **params)
            previous = cotangents[operand]
            if (
                type(previous) is Patchwork
                and partials.selects
                and previous.choose(factor, ct, wide)
            ):
                continue  # added in place
            g = fit(scale(ct, factor, partials.selects), x, wide)
            if previous is None and callable(factor_of) and type(g) is Masked:
                g = buffered(g)
            accumulate(cotangents, operand, g)


def keep(x: Value, wide: Shape, params: Mapping[str, Any]) -> Value:
    """Give the output of a reduction of a shape its reduced axes back, with size 1.

    Also for a cotangent, which may be smaller than the output if it broadcasts to it.
    """
    shape, axis = shape_of(x), params["axis"]
    if params["keepdims"] or not shape or not axis:
        return x
    missing = len(wide) - len(axis) - len(shape)
    sizes = iter((1,) * missing + shape)
    kept = tuple([1 if a in axis else next(sizes) for a in range(len(wide))])
    return x.reshape(kept) if type(x) is np.ndarray else reshape(x, shape=kept)


def scale(ct: Cotangent, factor: Any, selects: bool) -> Cotangent:
    """A cotangent times the conjugate of a factor of whatever kind, which may be a mask."""
    if factor is SAME:
        return ct
    if factor is OPPOSITE:
        return Masked(-ct.value, ct.mask) if type(ct) is Masked else -ct
    if isinstance(factor, Selection):
        if type(ct) is Masked:
            return ct.select(factor.mask).scale(factor.weight)
        return Masked(where(factor.mask, ct * factor.weight, 0), factor.mask)
    if selects:
        if type(ct) is Masked:
            return ct.select(factor)
        return Masked(selected(factor, ct), factor)
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
    if ct.shape:
        ct = keep(ct, shape_of(x), params)
    if factor is not SAME:
        factor = factor(keep(out, shape_of(x), params), x, **params)
        ct = ct * factor if type(factor) is float else scale(ct, factor, selects=False)
    if type(x) is not np.ndarray or ct.dtype is not x.dtype:
        ct = fit(ct, x, shape_of(x))
    accumulate(cotangents, operands[0], ct)


def pull_patch(cotangents: Cotangents, ct: Cotangent, entry: Entry) -> None:
    """Through a slice or a gather: add to a buffer, unless a transformation follows the values."""
    _, _, primitive, operands, primals, _, params = entry
    operand, x, indices = operands[0], primals[0], primals[1:]
    buffer = cotangents[operand]
    plain_ct = type(ct) in RAW
    fresh = buffer is None
    if type(buffer) is Patchwork:
        buffer.widen(shape_of(x))
    if (not plain_ct and not is_raw(ct)) or (indices and not all(type(i) in RAW for i in indices)):
        _collect(cotangents, ct, entry)
        return
    if type(buffer) is not Patchwork:
        if not fresh and not is_raw(buffer):
            _collect(cotangents, ct, entry)
            return
        shape = shape_of(x)
        whole = buffer
        buffer = Patchwork(np.zeros(shape, dtype_of(x)), np.zeros(shape, np.bool_))
        cotangents[operand] = buffer
        if not fresh:
            buffer.add(whole)
    patch = primitive.differential.patch
    patch(buffer.value, ct if plain_ct else ct.value, fresh, *indices, **params)
    if buffer.mask is not None:
        patch(buffer.mask, True if plain_ct else ct.mask, plain_ct, *indices, **params)


def pull_carried(cotangents: Cotangents, ct: Cotangent, entry: Entry) -> None:
    """Through an operation whose tangent another carries: through that one."""
    _, _, primitive, operands, primals, out, params = entry
    operation, others, own = primitive.differential.carry(out, *primals, **params)
    pull_patch(cotangents, ct, (None, 0, operation, operands, (*primals, *others), out, own))


def _collect(cotangents: Cotangents, ct: Cotangent, entry: Entry) -> None:
    """Keep a patch until all have come."""
    _, _, primitive, operands, primals, out, params = entry
    operand, x = operands[0], primals[0]
    collage = cotangents[operand]
    if type(collage) is not Collage:
        whole = collage.settle() if type(collage) is Patchwork else collage
        collage = cotangents[operand] = Collage(shape_of(x), dtype_of(x), whole)
    collage.put(primitive, (broadcast(ct, shape_of(out)), primals[1:], params))


def pull_linear(cotangents: Cotangents, ct: Cotangent, entry: Entry) -> None:
    """Through an operation that is linear in each argument."""
    _, _, primitive, operands, primals, out, params = entry
    linear: Linear = primitive.differential
    ct = broadcast(ct, shape_of(out))
    if len(primals) > 1 and dtype_of(out).kind == "c":
        primals = [conj(x) if dtype_of(x).kind == "c" else x for x in primals]
    simple = type(ct) is not Masked and not linear.gaps
    g: Cotangent
    if linear.split is not None:
        _pull_split(cotangents, ct, entry)
        return
    routes = linear.routes(len(primals))
    for operand, x, transpose in zip(operands, primals, routes, strict=True):
        if operand < 0 or transpose is None:
            continue
        if simple:
            g = transpose(ct, *primals, **params)
        elif primitive.bilinear:
            g = _pull_product(ct, transpose, primals, params)
        else:
            g = _pull_structural(linear, ct, partial(_swapped, transpose, primals, params))
        if type(g) is Masked or type(x) is not np.ndarray or g.dtype is not x.dtype:
            g = fit(g, x, shape_of(x))
        accumulate(cotangents, operand, g)


def _pull_split(cotangents: Cotangents, ct: Cotangent, entry: Entry) -> None:
    """Through an operation of many arguments, of which each element is a sum of elements."""
    _, _, primitive, operands, primals, _, params = entry
    split = primitive.differential.split
    parts = split(plain(ct), *primals, **params)
    masks = split(ct.mask, *primals, **params) if type(ct) is Masked else parts
    for operand, x, part, mask in zip(operands, primals, parts, masks, strict=True):
        if operand >= 0:
            g = part if mask is part else Masked(part, mask)
            accumulate(cotangents, operand, fit(g, x, shape_of(x)))


def pull_transposed(cotangents: Cotangents, ct: Cotangent, entry: Entry) -> None:
    """Through an operation that gives its pushforward, and the transpose of that."""
    _, _, primitive, operands, primals, out, params = entry
    transposed = primitive.differential.pull
    ct = broadcast(ct, shape_of(out))
    reached: Sequence[Value] = ()
    if type(ct) is Masked:
        # At ones no product is zero. What nothing present reaches is made one, which is finite.
        ones = [np.ones(shape_of(x)) for x in (out, *primals)]
        present = cast(ct.mask, dtype=np.dtype(np.float64))
        reached = [part != 0 for part in transposed(present, *ones, **params)]
        primals = [where(part, x, 1) for part, x in zip(reached, primals, strict=True)]
    pulled = transposed(plain(ct), out, *primals, **params)
    if reached:
        pulled = [Masked(where(m, g, 0), m) for g, m in zip(pulled, reached, strict=True)]
    for operand, x, g in zip(operands, primals, pulled, strict=True):
        if operand >= 0 and dtype_of(x).kind in "fc":
            accumulate(cotangents, operand, fit(g, x, shape_of(x)))


def _pull_structural(linear: Linear, ct: Cotangent, pull: Callable[[Value], Value]) -> Cotangent:
    """Pull a cotangent that has gaps, or gets them here."""
    if type(ct) is Masked and linear.structural:
        return ct.map(pull)
    if linear.gaps:
        value = plain(ct)
        return Masked(pull(value), pull(np.ones(shape_of(value), np.bool_)) != 0)
    return pull(plain(ct))


def _pull_product(
    ct: Masked, transpose: Callable[..., Value], primals: Sequence[Value], params: Mapping[str, Any]
) -> Masked:
    """Through a product: absent is what no present cotangent reaches, whatever the numbers are."""
    ones = [np.ones(shape_of(x)) for x in primals]
    reached = transpose(cast(ct.mask, dtype=np.dtype(np.float64)), *ones, **params) != 0
    return Masked(where(reached, transpose(ct.value, *primals, **params), 0), reached)


def _swapped(
    transpose: Callable[..., Value], primals: Sequence[Value], params: Mapping[str, Any], ct: Value
) -> Value:
    return transpose(ct, *primals, **params)


def pull_bundle(cotangents: Cotangents, cts: Any, entry: Entry) -> None:
    """Through a call of several inputs and outputs that brings its own pullback."""
    _, _, operands, pull, _ = entry
    reached = _reached(cts)
    for operand, ct in zip(operands, pull(cts), strict=True):
        if operand >= 0 and ct is not None:
            if reached is not None:
                ct = Masked(where(reached, plain(ct), 0), reached)
            accumulate(cotangents, operand, ct)


def _reached(cts: Sequence[Cotangent]) -> Value | None:
    """Whether any part of some cotangents is present; None where that is certain.

    A mask that is followed by a transformation, as in a batch, may be empty for some examples.
    """
    reached: Value | None = None
    for ct in cts:
        if ct is None:
            continue
        if type(ct) is not Masked or type(ct.mask) in RAW:
            return None
        axes = tuple(range(len(shape_of(ct.mask))))
        own = reduce_any(ct.mask, axis=axes, keepdims=False)
        reached = own if reached is None else logical_or(reached, own)
    return reached


def pull_projection(cotangents: Cotangents, ct: Cotangent, entry: Entry) -> None:
    """Through the choice of one output of a bundle: collect the cotangents for it."""
    _, _, bundle, position, count, closed_over = entry
    if type(ct) is Masked and type(ct.mask) in RAW and not np.any(ct.mask):
        return  # wholly absent, which a rule could not tell from zeros
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
