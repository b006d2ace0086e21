"""Running sums and products, and the product of all elements.

Their derivatives hold where factors are zero, at every order: the product of the *other* elements
is multiplied out, never divided out. The tangents of running products are a linear recurrence,
which is a primitive of its own and differentiates to itself, so all orders take linear time.

>>> cumulative_sum(np.array([1.0, 2.0, 3.0]), axis=0, reverse=False)
array([1., 3., 6.])
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt, log2, prod
from typing import Any, Final

import numpy as np

from funcgrad.primitive import Linear, Linearized, Primitive, Sample
from funcgrad.primitives.complexes import conj
from funcgrad.primitives.elementwise import absolute
from funcgrad.primitives.joining import concatenate
from funcgrad.primitives.keys import Key
from funcgrad.primitives.reduction import (
    broadcast_to,
    numbers,
    reduce_sum,
    reduce_text,
    reduction,
)
from funcgrad.primitives.rounding import binary_exponent, ldexp
from funcgrad.primitives.structural import inverse_axes, move_axis, reshape, transpose, view
from funcgrad.shape import Shape, Spec, dtype_of, shape_of
from funcgrad.trace import Value

__all__ = [
    "cumulative_prod",
    "cumulative_sum",
    "product_of_others",
    "recurrence",
    "reduce_prod",
]

_multiply: Final[Any] = np.multiply.reduce


def _batch(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
) -> Value:
    """The axis is one further back."""
    return primitive(args[0], **{**params, "axis": params["axis"] + 1})


def _arrays() -> Iterator[tuple[Any, int]]:
    rng = np.random.default_rng(31)
    for shape, axis in (((5,), 0), ((2, 3), 1), ((4, 2), 0), ((1,), 0), ((0, 2), 0), ((2, 0), 0)):
        yield rng.uniform(-2, 2, shape), axis
    yield rng.uniform(-2, 2, (4, 6))[::-2, ::3], 1
    yield rng.uniform(-2, 2, (2, 3)) + 1j * rng.uniform(-2, 2, (2, 3)), 1
    yield np.array([2.0, 0.0, 3.0, 0.0, 5.0]), 0
    yield np.arange(4, dtype=np.int8), 0


# Running sums.


def _cumulative_sum(x: Any, axis: int, reverse: bool) -> Any:
    if not reverse:
        return np.add.accumulate(x, axis)
    return np.flip(np.add.accumulate(np.flip(x, axis), axis), axis)


def _cumulative_source(x: Any, axis: int, reverse: bool) -> str:
    if not reverse:
        return f"np.add.accumulate({x}, {axis})"
    backwards = ":, " * axis + "::-1"
    return f"np.add.accumulate({x}[{backwards}], {axis})[{backwards}]"


def _sum_samples() -> Iterator[Sample]:
    for x, axis in _arrays():
        yield Sample((x,), {"axis": axis, "reverse": False})
        yield Sample((x,), {"axis": axis, "reverse": True})


cumulative_sum: Primitive = Primitive(
    "cumsum",
    _cumulative_sum,
    lambda x, axis, reverse: Spec(x.shape, np.add.accumulate(np.zeros(1, x.dtype)).dtype),
    Linear(
        (lambda ct, x, axis, reverse: cumulative_sum(ct, axis=axis, reverse=not reverse),),
        structural=True,
    ),
    _batch,
    _sum_samples,
    _cumulative_source,
)


# First-order linear recurrences, of which the tangents of running products are one.


def _along(axis: int, start: int | None, stop: int | None) -> Key:
    return Key((*(slice(None),) * axis, slice(start, stop)))


def _shifted(x: Value, axis: int, first: float, backward: bool) -> Value:
    """The elements one place further along an axis, or further back, behind a number."""
    shape = shape_of(x)
    if not shape[axis]:
        return x
    edge = np.full((*shape[:axis], 1, *shape[axis + 1 :]), first, dtype_of(x))
    if backward:
        return concatenate(view(x, key=_along(axis, 1, None)), edge, axis=axis)
    return concatenate(edge, view(x, key=_along(axis, None, -1)), axis=axis)


_LONGEST_BLOCK: Final = 64


def _recurrence(a: Any, b: Any, axis: int, reverse: bool) -> Any:
    """All blocks of an axis at once, and then from block to block.

    This takes a product of the factors in a block. A block is so short that it neither overflows
    nor vanishes, so every term is what the factors make of it one after the other.
    """
    dtype = np.result_type(a, b)
    a, b = [np.moveaxis(np.asarray(part, dtype), axis, 0) for part in (a, b)]
    if reverse:
        a, b = a[::-1], b[::-1]
    shape, size = b.shape, len(b)
    if not b.size:
        return np.zeros(np.moveaxis(b, 0, axis).shape, dtype)
    length = _block_length(a, size)
    blocks, lanes = -(-size // length), b.size // size
    factors, states = np.zeros((2, blocks * length, lanes), dtype)
    factors[:size], states[:size] = a.reshape(size, lanes), b.reshape(size, lanes)
    factors, states = [
        np.ascontiguousarray(part.reshape(blocks, length, lanes).swapaxes(0, 1))
        for part in (factors, states)
    ]
    term = np.empty((blocks, lanes), dtype)
    for k in range(1, length):
        np.multiply(factors[k], states[k - 1], out=term)
        states[k] += term
        factors[k] *= factors[k - 1]
    factors[:, 0] = 0  # nothing is before the first block
    states += factors * _carried(factors[-1], states[-1])
    out = states.swapaxes(0, 1).reshape(blocks * length, *shape[1:])[:size]
    return np.ascontiguousarray(np.moveaxis(out[::-1] if reverse else out, 0, axis))


def _block_length(a: np.ndarray[Any, Any], size: int) -> int:
    sizes = np.abs(a[1:])
    sizes = sizes if np.all(sizes) else sizes[sizes != 0]
    length = min(_LONGEST_BLOCK, isqrt(size - 1) + 1)
    if not sizes.size:
        return length
    least, greatest = float(np.min(sizes)), float(np.max(sizes))
    if not greatest < np.inf:  # or NaN
        return 1
    powers = max(abs(log2(least)), abs(log2(greatest)))
    return max(1, min(length, int((np.finfo(sizes.dtype).maxexp - 2) / max(powers, 1))))


def _carried(factors: np.ndarray[Any, Any], states: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """What comes into each block from the blocks before it."""
    carried = np.zeros_like(states)
    if states.shape[1] > 1:
        for k in range(1, len(states)):
            carried[k] = factors[k - 1] * carried[k - 1] + states[k - 1]
        return carried
    state, numbers = 0.0, []
    for factor, own in zip(factors[:, 0].tolist(), states[:, 0].tolist(), strict=True):
        numbers.append(state)
        state = factor * state + own
    carried[:, 0] = numbers
    return carried


def _push_recurrence(
    tangents: tuple[Value, ...], out: Value, a: Value, b: Value, axis: int, reverse: bool
) -> Value:
    total = tangents[1]
    if tangents[0] is not None:
        change = tangents[0] * _shifted(out, axis, 0.0, reverse)
        total = change if total is None else total + change
    return recurrence(a, total, axis=axis, reverse=reverse)


def _pull_recurrence(
    ct: Value, out: Value, a: Value, b: Value, axis: int, reverse: bool
) -> tuple[Value, Value]:
    behind = _shifted(_conjugate(a), axis, 0.0, not reverse)
    for_b = recurrence(behind, ct, axis=axis, reverse=not reverse)
    return for_b * _conjugate(_shifted(out, axis, 0.0, reverse)), for_b


def _conjugate(x: Value) -> Value:
    return conj(x) if dtype_of(x).kind == "c" else x


def _batch_recurrence(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
) -> Value:
    a, b = [
        arg if flag else broadcast_to(arg, shape=(size, *shape_of(arg)))
        for arg, flag in zip(args, batched, strict=True)
    ]
    return primitive(a, b, axis=params["axis"] + 1, reverse=params["reverse"])


def _recurrence_samples() -> Iterator[Sample]:
    rng = np.random.default_rng(37)
    for x, axis in _arrays():
        if x.dtype.kind in "fc":
            for reverse in (False, True):
                b = rng.uniform(-2, 2, x.shape).astype(x.dtype)
                yield Sample((x, b), {"axis": axis, "reverse": reverse})
    long = rng.uniform(-1, 1, 150)
    yield Sample((long, long[::-1]), {"axis": 0, "reverse": False})


recurrence: Primitive = Primitive(
    "recurrence",
    _recurrence,
    lambda a, b, axis, reverse: Spec(b.shape, np.result_type(a.dtype, b.dtype)),
    Linearized(_push_recurrence, _pull_recurrence, linear_in=(1,)),
    _batch_recurrence,
    _recurrence_samples,
)
"""``s[i] = a[i] * s[i - 1] + b[i]`` along an axis, from ``s[0] = b[0]`` on; or from the end."""


# Running products.


def _push_product(tangents: tuple[Value, ...], out: Value, x: Value, axis: int) -> Value:
    """That of y[i] = x[i] y[i - 1]."""
    changes = tangents[0] * _shifted(out, axis, 1.0, backward=False)
    return recurrence(x, changes, axis=axis, reverse=False)


def _pull_product(ct: Value, out: Value, x: Value, axis: int) -> tuple[Value]:
    behind = _shifted(_conjugate(x), axis, 0.0, backward=True)
    later = recurrence(behind, ct, axis=axis, reverse=True)
    return (later * _conjugate(_shifted(out, axis, 1.0, backward=False)),)


def _product_samples() -> Iterator[Sample]:
    for x, axis in _arrays():
        yield Sample((x,), {"axis": axis})
    yield Sample((np.array([np.inf, 0.0, np.nan]),), {"axis": 0}, smooth=False)


cumulative_prod: Primitive = Primitive(
    "cumprod",
    lambda x, axis: np.multiply.accumulate(x, axis),
    lambda x, axis: Spec(x.shape, np.multiply.accumulate(np.zeros(1, x.dtype)).dtype),
    Linearized(_push_product, _pull_product),
    _batch,
    _product_samples,
    lambda x, axis: f"np.multiply.accumulate({x}, {axis})",
)


# The product of all elements.

_FEW: Final = 16


def _products_of_others(x: Any) -> Any:
    """By products of pairs, and of pairs of pairs, of what is not zero: 0 where others are."""
    zero = x == 0
    if not np.count_nonzero(zero):
        return _paired(x)
    others = np.add.reduce(zero, 0) - zero
    nothing = np.add.reduce(x * 0, 0)  # NaN beside infinities
    return np.where(others > 0, nothing, _paired(np.where(zero, x.dtype.type(1), x)))


def _paired(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The first half of the elements is paired with the second; of an odd number one is alone.

    Of a few it is the product of what is before, times that of what is after.
    """
    if len(x) <= _FEW:
        out = np.ones_like(x)
        np.multiply.accumulate(x[:-1], 0, out=out[1:])
        out[:-1] *= np.multiply.accumulate(x[:0:-1], 0)[::-1]
        return out
    half = len(x) // 2
    first, second, alone = x[:half], x[half : 2 * half], x[2 * half :]
    others = _paired(np.concatenate([first * second, alone]) if len(alone) else first * second)
    out = np.empty_like(x)
    np.multiply(others[:half], second, out[:half])
    np.multiply(others[:half], first, out[half : 2 * half])
    out[2 * half :] = others[half:]
    return out


_MODERATE: Final = 16
"""Powers of two up to which numbers are multiplied as they are: long products of them stay far
from the bounds as often as not, those of fractions between 1/2 and 1 would vanish."""


def _push_others(tangents: tuple[Value, ...], out: Value, x: Value) -> Value:
    """Of huge and tiny numbers powers of two are taken out, so that 0 never meets an infinity."""
    if dtype_of(x).kind == "c":
        return _paired_with_tangents(x, tangents[0])[1]
    exponent = binary_exponent(x)
    exponent = exponent * (absolute(exponent) > _MODERATE)
    inner = ldexp(x, -exponent), ldexp(tangents[0], -exponent)
    outside = reduce_sum(exponent, axis=(0,), keepdims=True) - exponent
    return ldexp(_paired_with_tangents(*inner)[1], outside)


def _paired_with_tangents(x: Value, tangent: Value) -> tuple[Value, Value]:
    """The products of the others, and their tangents, in primitives: they differentiate again."""
    size = shape_of(x)[0]
    if size < 2:
        return np.ones(shape_of(x), dtype_of(x)), tangent * 0
    half = size // 2
    ends = (slice(half), slice(half, 2 * half), slice(2 * half, None))
    u, v, alone = [view(x, key=Key((end,))) for end in ends]
    du, dv, d_alone = [view(tangent, key=Key((end,))) for end in ends]
    others, changes = _paired_with_tangents(
        concatenate(u * v, alone, axis=0), concatenate(du * v + u * dv, d_alone, axis=0)
    )
    pair, d_pair = view(others, key=Key((slice(half),))), view(changes, key=Key((slice(half),)))
    rest, d_rest = [view(part, key=Key((slice(half, None),))) for part in (others, changes)]
    return (
        concatenate(pair * v, pair * u, rest, axis=0),
        concatenate(d_pair * v + pair * dv, d_pair * u + pair * du, d_rest, axis=0),
    )


def _others_samples() -> Iterator[Sample]:
    for x, axis in _arrays():
        if x.dtype.kind in "fc":
            yield Sample((np.moveaxis(x, axis, 0),))
    yield Sample((np.array([0.0, 3.0, 0.0, 2.0, 1.5]),))


product_of_others: Primitive = Primitive(
    "product_of_others",
    _products_of_others,
    lambda x: x,
    Linearized(_push_others),
    lambda primitive, size, args, batched, params: move_axis(
        primitive(move_axis(args[0], 0, 1)), 1, 0
    ),
    _others_samples,
)
"""For each element the product of all others along the first axis."""


def _others(y: Value, x: Value, axis: tuple[int, ...], keepdims: bool) -> Value:
    """For each element the product of those that it is multiplied with."""
    shape = shape_of(x)
    if not axis:
        return np.ones(shape, dtype_of(x))
    order = (*axis, *[a for a in range(len(shape)) if a not in axis])
    moved: Shape = tuple([shape[a] for a in order])
    rows = (prod(moved[: len(axis)]), *moved[len(axis) :])
    if order == tuple(range(len(shape))):  # as without an axis: nothing moves
        return reshape(product_of_others(reshape(x, shape=rows)), shape=shape)
    products = product_of_others(reshape(transpose(x, axes=order), shape=rows))
    return transpose(reshape(products, shape=moved), axes=inverse_axes(order))


def _prod_samples() -> Iterator[Sample]:
    yield from numbers()()
    for row in ([2.0, 0, 3], [0.0, 0, 3], [0.0, 0, 0], [1.0, 2, 3, 4, 5, 6, 7], [3.0], [2.0, 5]):
        yield Sample((np.array([row, row[::-1]]),), {"axis": (1,), "keepdims": False})


reduce_prod: Primitive = reduction(
    "prod",
    lambda x, axis, keepdims: _multiply(x, axis, None, None, keepdims),
    factor=_others,
    samples=_prod_samples,
    source=reduce_text("multiply"),
)
