"""First-order linear recurrences, such as the tangents of cumulative products.

>>> recurrence(np.array([5.0, 2.0, 3.0]), np.ones(3), axis=0, reverse=False)
array([ 1.,  3., 10.])
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isqrt, log2
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Linearized, Primitive, Sample
from funcgrad._core.specs import Spec, dtype_of, shape_of
from funcgrad._core.structure.folds import LINEAR
from funcgrad._core.structure.structures import OWNS, Scan
from funcgrad._core.trace import Raw, Value
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.complexes import conj
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.joining import concatenate
from funcgrad._primitives.structural import view


def arrays_and_axes() -> Iterator[tuple[Any, int]]:
    """Sample arrays, each with an axis, for operations along an axis."""
    rng = np.random.default_rng(31)
    for shape, axis in (((5,), 0), ((2, 3), 1), ((4, 2), 0), ((1,), 0), ((0, 2), 0), ((2, 0), 0)):
        yield rng.uniform(-2, 2, shape), axis
    yield rng.uniform(-2, 2, (4, 6))[::-2, ::3], 1
    yield rng.uniform(-2, 2, (2, 3)) + 1j * rng.uniform(-2, 2, (2, 3)), 1
    yield np.array([2.0, 0.0, 3.0, 0.0, 5.0]), 0
    yield np.arange(4, dtype=np.int8), 0


def conjugate(x: Value) -> Value:
    """The conjugate of complex numbers; others are unchanged."""
    return conj(x) if dtype_of(x).kind == "c" else x


def _along(axis: int, start: int | None, stop: int | None) -> Key:
    return Key((*(slice(None),) * axis, slice(start, stop)))


def shifted(x: Value, axis: int, first: float, backward: bool) -> Value:
    """Shift the elements by one along an axis, forwards or backwards, and fill with a number."""
    shape = shape_of(x)
    if not shape[axis]:
        return x
    edge = np.full((*shape[:axis], 1, *shape[axis + 1 :]), first, dtype_of(x))
    if backward:
        return concatenate(view(x, key=_along(axis, 1, None)), edge, axis=axis)
    return concatenate(edge, view(x, key=_along(axis, None, -1)), axis=axis)


def batch_along_axis(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
) -> Value:
    """Batch arguments of one shape: the axis shifts by one."""
    args = tuple(
        [
            arg if flag else broadcast_to(arg, shape=(size, *shape_of(arg)))
            for arg, flag in zip(args, batched, strict=True)
        ]
    )
    return primitive(*args, **{**params, "axis": params["axis"] + 1})


_LONGEST_BLOCK: Final = 64


def _recurrence(a: Raw, b: Raw, axis: int, reverse: bool) -> Raw:
    dtype = np.result_type(a, b)
    a, b = [np.moveaxis(np.asarray(array, dtype), axis, 0) for array in (a, b)]
    if not b.size:
        return np.zeros(np.moveaxis(b, 0, axis).shape, dtype)
    if reverse:
        a, b = a[::-1], b[::-1]
    out = _by_blocks(a, b)
    if dtype.kind == "f" and not all_finite(out) and all_finite(a[1:]) and all_finite(b):
        out = _one_by_one(a, b)
    return np.ascontiguousarray(np.moveaxis(out[::-1] if reverse else out, 0, axis))


def all_finite(x: Raw) -> bool:
    """Whether all elements are finite; in one pass, unless the sum overflows."""
    return bool(np.isfinite(np.add.reduce(x, None)) or np.all(np.isfinite(x)))


def _by_blocks(a: Raw, b: Raw) -> Raw:
    """Process all blocks of an axis at once, and then go from block to block.

    This needs the product of the factors in a block. Blocks are so short that it neither overflows
    nor underflows, so every term equals the one of sequential multiplication.
    """
    dtype, shape, size = b.dtype, b.shape, len(b)
    length = _block_length(a, size)
    blocks, lanes = -(-size // length), b.size // size
    factors, states = np.zeros((2, blocks * length, lanes), dtype)
    factors[:size], states[:size] = a.reshape(size, lanes), b.reshape(size, lanes)
    factors, states = [
        np.ascontiguousarray(array.reshape(blocks, length, lanes).swapaxes(0, 1))
        for array in (factors, states)
    ]
    term = np.empty((blocks, lanes), dtype)
    for k in range(1, length):
        np.multiply(factors[k], states[k - 1], out=term)
        states[k] += term
        factors[k] *= factors[k - 1]
    factors[:, 0] = 0  # the first block has no predecessor
    states += factors * _carried(factors[-1], states[-1])
    return states.swapaxes(0, 1).reshape(blocks * length, *shape[1:])[:size]


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
    """The state with which each block begins, from the blocks before it."""
    carried = np.zeros_like(states)
    if states.shape[1] > 1:
        for k in range(1, len(states)):
            carried[k] = factors[k - 1] * carried[k - 1] + states[k - 1]
        return carried
    state, numbers = 0.0, []
    for factor, block_state in zip(factors[:, 0].tolist(), states[:, 0].tolist(), strict=True):
        numbers.append(state)
        state = factor * state + block_state
    carried[:, 0] = numbers
    return carried


_NOTHING: Final = -(1 << 40)
"""The exponent of zero, below all others."""


def _one_by_one(a: Raw, b: Raw) -> Raw:
    """The states, with unbounded intermediate exponents, of a and b that are real and finite."""
    out = np.empty_like(b)
    state = _normal(b[0], 0)
    for k in range(len(b)):
        if k:
            state = _sum(_normal(state[0] * a[k], state[1]), _normal(b[k], 0))
        out[k] = np.ldexp(state[0], np.clip(state[1], -10_000, 10_000).astype(np.int32))
    return out


def _normal(mantissa: Raw, exponent: Raw) -> tuple[Any, Any]:
    mantissa, more = np.frexp(mantissa)
    return mantissa, np.where(mantissa == 0, _NOTHING, np.add(exponent, more, dtype=np.int64))


def _sum(first: tuple[Any, Any], second: tuple[Any, Any]) -> tuple[Any, Any]:
    top = np.maximum(first[1], second[1])
    parts = [
        np.ldexp(mantissa, np.maximum(exponent - top, -10_000).astype(np.int32))
        for mantissa, exponent in (first, second)
    ]
    return _normal(parts[0] + parts[1], top)


def _push_recurrence(
    tangents: tuple[Value, ...], out: Value, a: Value, b: Value, axis: int, reverse: bool
) -> Value:
    total = tangents[1]
    if tangents[0] is not None:
        change = tangents[0] * shifted(out, axis, 0.0, reverse)
        total = change if total is None else total + change
    return recurrence(a, total, axis=axis, reverse=reverse)


def _pull_recurrence(
    ct: Value, out: Value, a: Value, b: Value, axis: int, reverse: bool
) -> tuple[Value, Value]:
    behind = shifted(conjugate(a), axis, 0.0, not reverse)
    for_b = recurrence(behind, ct, axis=axis, reverse=not reverse)
    return for_b * conjugate(shifted(out, axis, 0.0, reverse)), for_b


def _samples() -> Iterator[Sample]:
    rng = np.random.default_rng(37)
    for x, axis in arrays_and_axes():
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
    batch_along_axis,
    _samples,
    structure=Scan(LINEAR),
    traits=OWNS,
)
"""Compute ``s[i] = a[i] * s[i - 1] + b[i]`` along an axis, from ``s[0] = b[0]`` on, or backwards.

An intermediate overflow that is multiplied by zero gives 0."""
