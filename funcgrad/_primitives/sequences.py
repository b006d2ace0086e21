"""Convolution of sequences, or of rows of them.

A convolution is linear in each of its two arguments, and its transposes are convolutions with the
other argument reversed. Both transposes of a full convolution are valid ones; a valid convolution
has a full and a valid one.

>>> convolve_rows(np.array([1.0, 2.0, 3.0]), np.array([1.0, 10.0]), full=True)
array([ 1., 12., 23., 30.])
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from math import prod
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Linear, Primitive, Sample
from funcgrad._core.specs import Shape, Spec, dtype_of, shape_of
from funcgrad._core.structure.structures import LETTERS, OWNS, Opaque
from funcgrad._core.trace import Raw, Value
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.convolution import convolve, spread
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.joining import concatenate
from funcgrad._primitives.reduction import reduce_sum
from funcgrad._primitives.sliding import overlapped, sliding_windows
from funcgrad._primitives.structural import cast, flip, place, reshape, view

_SHORT: Final = 32
"""The sequences up to which adding products is quicker than a transposed convolution."""


def _convolve(x: Raw, v: Raw, full: bool) -> Raw:
    mode: Any = "full" if full else "valid"
    x, v = np.asarray(x), np.asarray(v)
    if x.ndim == v.ndim == 1:
        return np.convolve(x, v, mode)
    lead = x.shape[:-1] or v.shape[:-1]
    size = _size(x.shape[-1], v.shape[-1], full)
    out = np.empty((*lead, size), np.result_type(x, v))
    for row in np.ndindex(lead):
        out[row] = np.convolve(x[row] if x.ndim > 1 else x, v[row] if v.ndim > 1 else v, mode)
    return out


def _size(n: int, m: int, full: bool) -> int:
    return n + m - 1 if full else n - m + 1


def _convolved(x: Spec, v: Spec, full: bool) -> Spec:
    lead = x.shape[:-1] or v.shape[:-1]
    size = _size(x.shape[-1], v.shape[-1], full)
    return Spec((*lead, size), np.result_type(x.dtype, v.dtype))


def _reversed(x: Value) -> Value:
    return flip(x, axis=(len(shape_of(x)) - 1,))


def _summed(ct: Value, x: Value) -> Value:
    """The sum over rows, for an argument that all rows share."""
    extra = len(shape_of(ct)) - len(shape_of(x))
    return reduce_sum(ct, axis=tuple(range(extra)), keepdims=False) if extra else ct


def _pull_first(ct: Value, x: Value, v: Value, full: bool) -> Value:
    return _summed(convolve_rows(ct, _reversed(v), full=not full), x)


def _pull_second(ct: Value, x: Value, v: Value, full: bool) -> Value:
    if full:
        return _summed(convolve_rows(ct, _reversed(x), full=False), v)
    return _summed(_reversed(convolve_rows(x, _reversed(ct), full=False)), v)


def _batch(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: Mapping[str, Any],
) -> Value:
    """Align rows; an argument shared by all rows stays one row."""
    lead = max([shape_of(a)[flag:-1] for a, flag in zip(args, batched, strict=True)], key=len)
    rows = []
    for arg, flag in zip(args, batched, strict=True):
        shape = shape_of(arg)
        if flag and len(shape) == 2 and lead:  # a row for each example, for all of its rows
            arg = reshape(arg, shape=(size, *(1,) * len(lead), shape[-1]))
        if flag or len(shape) > 1:
            arg = broadcast_to(arg, shape=(size, *lead, shape[-1]))
        rows.append(arg)
    return primitive(*rows, **params)


def _samples() -> Iterator[Sample]:
    rng = np.random.default_rng(37)
    for full in (True, False):
        for first, second in (
            ((5,), (3,)),
            ((4,), (4,)),
            ((3,), (1,)),
            ((2, 4), (3,)),
            ((4,), (2, 3)),
            ((2, 3, 4), (2, 3, 2)),
            ((0, 3), (2,)),
        ):
            x, v = rng.standard_normal(first), rng.standard_normal(second)
            yield Sample((x, v), {"full": full})
            yield Sample((x + 1j * x[..., ::-1], v * (1 - 2j)), {"full": full})
        yield Sample((rng.standard_normal(8)[::-2], np.array([1, 2], np.int8)), {"full": full})
        yield Sample((np.array([True, False, True]), np.array([True, True])), {"full": full})


def _letters(x: Shape, v: Shape, **_params: Hashable) -> tuple[str, str, str]:
    """The last axes mix elements."""
    stack = LETTERS[: max(len(x), len(v)) - 1]
    return stack[: len(x) - 1] + "X", stack[: len(v) - 1] + "V", stack + "Y"


def _body(x: Value, v: Value, full: bool) -> Value:
    """Windows of rows times reversed ones; where both are rows, each row is a group."""
    lead, dtype = shape_of(x)[:-1] or shape_of(v)[:-1], np.result_type(dtype_of(x), dtype_of(v))
    if dtype.kind not in "fciu" or 0 in lead:
        return NotImplemented
    x, v = [a if dtype_of(a) == dtype else cast(a, dtype=dtype) for a in (x, v)]
    if full and shape_of(x)[-1] < shape_of(v)[-1]:
        x, v = v, x
    n, m = shape_of(x)[-1], shape_of(v)[-1]
    rows, kernels = prod(shape_of(x)[:-1]), prod(shape_of(v)[:-1])
    groups = min(rows, kernels)
    x = reshape(x, shape=(rows // groups, groups, n))
    if dtype.kind == "f":
        wide = np.promote_types(dtype, np.float32)  # machine code has no panels of float16
        v = cast(reshape(v, shape=(kernels, 1, m)), dtype=wide)
        y = cast(_joined(cast(x, dtype=wide), v, groups, full), dtype=dtype)
        return reshape(y, shape=(*lead, shape_of(y)[-1]))
    if full:
        key, shape = Key((..., slice(m - 1, m - 1 + n))), (rows // groups, groups, n + 2 * m - 2)
        x = place(x, key=key, shape=shape)
    windows = sliding_windows(x, sizes=(m,), strides=(1,), dilations=(1,))
    kernel = reshape(_reversed(v), shape=(kernels // groups, groups, m, 1))
    y = reduce_sum(windows * kernel, axis=(2,), keepdims=False)
    y = y if dtype_of(y) == dtype else cast(y, dtype=dtype)
    return reshape(y, shape=(*lead, shape_of(y)[-1]))


def _joined(x: Value, v: Value, groups: int, full: bool) -> Value:
    """The complete sums, by panels, between the sums at both ends.

    Zeros around ``x`` would give the same, but not if ``v`` is infinite or NaN.
    """
    n, m = shape_of(x)[-1], shape_of(v)[-1]
    y = convolve(x, _reversed(v), strides=(1,), dilations=(1,), groups=groups)
    if not full or m == 1:
        return y
    first, last = slice(m - 1), slice(n - m + 1, None)
    start = _added(_taken(x, first), _taken(v, first), groups)
    end = _added(_taken(x, last), _taken(v, slice(1, None)), groups)
    return concatenate(_taken(start, first), y, _taken(end, slice(m - 2, None)), axis=2)


def _taken(x: Value, places: slice) -> Value:
    return view(x, key=Key((..., places)))


def _added(x: Value, v: Value, groups: int) -> Value:
    """The sums of products of two sequences of one length, without zeros around them."""
    size, kernels = shape_of(x)[-1], shape_of(v)[0]
    around = {"shape": (2 * size - 1,), "strides": (1,), "dilations": (1,)}
    if size > _SHORT:
        v = reshape(v, shape=(groups, kernels // groups, size))
        return spread(x, v, groups=groups, **around)
    x = reshape(x, shape=(*shape_of(x)[:2], 1, size))
    return overlapped(x * reshape(v, shape=(kernels, size, 1)), **around)


convolve_rows: Primitive = Primitive(
    "convolve_rows",
    _convolve,
    _convolved,
    Linear((_pull_first, _pull_second)),
    _batch,
    _samples,
    structure=Opaque(letters=_letters),
    traits=OWNS,
    body=_body,
)
"""Sums of products ``x[j] * v[k - j]`` over the last axis: all sums, or only complete ones.

Both have the same leading axes, or one of them has none. For complete sums, ``v`` is at most as
long as ``x``; neither is empty.
"""
