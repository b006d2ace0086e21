"""Sliding windows, and convolutions of any number of axes.

Arrays have a batch axis, channels, and then the axes along which something slides. A convolution,
with an array x, a kernel k and a result y, is what makes ``sum(y * convolve(x, k))`` linear in each
of the three. Its derivatives are the other two ways to read that sum, and theirs are again these:
``convolve``, ``spread`` (also called a transposed convolution) and ``correlate``. Padding is no
part of them: ``place`` and ``view`` do that before.

>>> x = np.arange(5.0).reshape(1, 1, 5)
>>> convolve(x, np.ones((1, 1, 2)), strides=(1,), dilations=(1,), groups=1)
array([[[1., 3., 5., 7.]]])
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.lib.stride_tricks import as_strided

from funcgrad.primitive import Linear, Primitive, Sample
from funcgrad.primitives.broadcasting import broadcast_to
from funcgrad.primitives.movement import arrays, movement
from funcgrad.primitives.structural import move_axis, reshape
from funcgrad.shape import Shape, Spec, dtype_of, shape_of
from funcgrad.structure import Opaque
from funcgrad.trace import Raw, Value

__all__ = ["convolve", "correlate", "overlapped", "sliding_windows", "spread", "steps"]

_FEW: Final = 512
"""So many places are enough for a product of matrices to be quick: fewer are joined with those of
further examples."""


def steps(size: int, window: int, stride: int, dilation: int) -> int:
    """How many places a window has along an axis of a size.

    >>> steps(7, window=3, stride=2, dilation=1)
    3
    """
    return max((size - dilation * (window - 1) - 1) // stride + 1, 0)


def _places(shape: Shape, sizes: Shape, strides: Shape, dilations: Shape) -> Shape:
    own = shape[len(shape) - len(sizes) :]
    return tuple(map(steps, own, sizes, strides, dilations))


def _sizes_of(shape: Shape, rank: int) -> Shape:
    """The sizes of windows, of the shape that windows with so many axes have."""
    return shape[len(shape) - 2 * rank : len(shape) - rank]


def _within(lead: int, offsets: Shape) -> tuple[Any, ...]:
    """The index of one place in all windows, behind so many leading axes."""
    return (*(slice(None),) * lead, *offsets)


def _view(x: Raw, sizes: Shape, strides: Shape, dilations: Shape) -> Any:
    """Windows of an array, without a copy: the leading axes, those of a window, and its places."""
    x = np.asarray(x)
    rank = len(sizes)
    lead, own = x.strides[: x.ndim - rank], x.strides[x.ndim - rank :]
    places = _places(x.shape, sizes, strides, dilations)
    if 0 in places:
        return np.empty((*x.shape[: x.ndim - rank], *sizes, *places), x.dtype)
    within = [step * dilation for step, dilation in zip(own, dilations, strict=True)]
    between = [step * stride for step, stride in zip(own, strides, strict=True)]
    shape = (*x.shape[: x.ndim - rank], *sizes, *places)
    return as_strided(x, shape, (*lead, *within, *between), writeable=False)


def _parts(x: Raw, sizes: Shape, strides: Shape, dilations: Shape) -> Iterator[tuple[Shape, Any]]:
    """For each place in a window, the part of an array that comes to lie there."""
    places = _places(x.shape, sizes, strides, dilations)
    for offsets in product(*map(range, sizes)):
        slices: list[Any] = [
            slice(offset * dilation, offset * dilation + stride * (count - 1) + 1, stride)
            for offset, dilation, stride, count in zip(
                offsets, dilations, strides, places, strict=True
            )
        ]
        yield offsets, x[(..., *slices)]


def _sliding(x: Raw, sizes: Shape, strides: Shape, dilations: Shape) -> Any:
    return np.ascontiguousarray(_view(x, sizes, strides, dilations))


def _overlapped(y: Raw, shape: Shape, strides: Shape, dilations: Shape) -> Any:
    lead = y.ndim - 2 * len(strides)
    sizes = _sizes_of(y.shape, len(strides))
    out = np.zeros((*y.shape[:lead], *shape), y.dtype)
    if 0 not in y.shape:
        for offsets, part in _parts(out, sizes, strides, dilations):
            part += y[_within(lead, offsets)]
    return out


def _index_map(
    result: Raw, x: Raw, sizes: Shape, strides: Shape, dilations: Shape
) -> Iterator[tuple[Any, Any]]:
    if result.size:
        for offsets, part in _parts(x, sizes, strides, dilations):
            yield result[_within(x.ndim - len(sizes), offsets)], part


_ONE: Final = MappingProxyType({"sizes": (2,), "strides": (1,), "dilations": (1,)})
_TWO: Final = MappingProxyType({"sizes": (2, 3), "strides": (2, 1), "dilations": (1, 2)})

sliding_windows: Primitive = movement(
    "sliding_windows",
    _sliding,
    shape=lambda shape, sizes, strides, dilations: (
        *shape[: len(shape) - len(sizes)],
        *sizes,
        *_places(shape, sizes, strides, dilations),
    ),
    transpose=lambda ct, x, sizes, strides, dilations: overlapped(
        ct,
        shape=shape_of(x)[len(shape_of(x)) - len(sizes) :],
        strides=strides,
        dilations=dilations,
    ),
    batch=lambda shape, size, **params: params,
    windows=_index_map,
    samples=arrays(
        one=((2, 5), {**_ONE}),
        two=((1, 2, 5, 7), {**_TWO}),
        gaps=((7,), {"sizes": (2,), "strides": (3,), "dilations": (1,)}),
        none=((2, 1), {**_ONE}),
        empty=((0, 5), {**_ONE}),
    ),
    gaps=True,
)
"""``x[..., s]`` as ``y[..., w, p]`` with s = strides * p + dilations * w, for the last axes."""


def _overlapped_batch(
    primitive: Primitive, size: int, args: tuple[Value, ...], _: object, params: dict[str, Any]
) -> Value:
    return primitive(args[0], **params)


overlapped: Primitive = Primitive(
    "overlapped",
    _overlapped,
    lambda y, shape, strides, dilations: Spec(
        (*y.shape[: len(y.shape) - 2 * len(strides)], *shape), y.dtype
    ),
    Linear(
        (
            lambda ct, y, shape, strides, dilations: sliding_windows(
                ct,
                sizes=_sizes_of(shape_of(y), len(strides)),
                strides=strides,
                dilations=dilations,
            ),
        ),
        structural=True,
    ),
    _overlapped_batch,
    arrays(
        one=((2, 2, 4), {"shape": (5,), "strides": (1,), "dilations": (1,)}),
        two=((1, 2, 3, 2, 3), {"shape": (5, 7), "strides": (2, 1), "dilations": (1, 2)}),
        gaps=((2, 2), {"shape": (7,), "strides": (3,), "dilations": (1,)}),
        none=((2, 2, 0), {"shape": (1,), "strides": (1,), "dilations": (1,)}),
    ),
    structure=Opaque(counted=0, owns=True),
)
"""The transpose of ``sliding_windows``: what comes to one place is added up."""


# --------------------------------------------------------------------------------- convolutions


def _grouped(shape: Shape, groups: int) -> Shape:
    """A shape whose first axis, the channels, is divided into groups."""
    return (groups, shape[0] // groups, *shape[1:])


def _columns(
    x: Raw, sizes: Shape, strides: Shape, dilations: Shape, groups: int
) -> Iterator[tuple[slice, Any]]:
    """For some examples after the others the matrices, one for each group, of which the columns are
    windows. They lie in one place in memory, which the next ones take."""
    views = _view(x, sizes, strides, dilations)
    places = views.shape[2 + len(sizes) :]
    count = max(1, _FEW // max(prod(places), 1))
    shape = (*views.shape[1 : 2 + len(sizes)], min(count, len(x)), *places)
    memory = np.empty(shape, x.dtype)
    for start in range(0, len(x), count):
        own = views[start : start + count]
        columns = memory
        if len(own) < shape[1 + len(sizes)]:
            columns = np.empty((*shape[: 1 + len(sizes)], len(own), *places), x.dtype)
        np.copyto(columns, np.moveaxis(own, 0, 1 + len(sizes)))
        rows = shape[0] // groups * prod(sizes)
        yield slice(start, start + count), columns.reshape(groups, rows, -1)


def _convolve(x: Raw, k: Raw, strides: Shape, dilations: Shape, groups: int) -> Any:
    dtype = np.result_type(x, k)
    x, k = np.asarray(x, dtype), np.asarray(k, dtype)
    sizes = k.shape[2:]
    places = _places(x.shape, sizes, strides, dilations)
    if not (x.size and k.size and prod(places)):
        return np.zeros((len(x), len(k), *places), dtype)
    out = np.empty((len(x), len(k), *places), dtype)
    weights = k.reshape(groups, len(k) // groups, -1)
    for part, columns in _columns(x, sizes, strides, dilations, groups):
        target = out[part]
        if len(target) == 1:
            np.matmul(weights, columns, out=target.reshape(groups, len(k) // groups, -1))
        else:
            found = (weights @ columns).reshape(len(k), len(target), *places)
            target[...] = np.moveaxis(found, 0, 1)
    return out


def _correlate(x: Raw, y: Raw, sizes: Shape, strides: Shape, dilations: Shape, groups: int) -> Any:
    dtype = np.result_type(x, y)
    x, y = np.asarray(x, dtype), np.asarray(y, dtype)
    channels, filters = x.shape[1] // groups, y.shape[1]
    out = np.zeros((groups, channels * prod(sizes), filters // groups), dtype)
    if out.size and y.size and x.size:
        for part, columns in _columns(x, sizes, strides, dilations, groups):
            own = np.moveaxis(y[part], 1, 0).reshape(groups, filters // groups, -1)
            out += columns @ np.swapaxes(own, 1, 2)
    return np.swapaxes(out, 1, 2).reshape(filters, channels, *sizes)


def _spread(y: Raw, k: Raw, shape: Shape, strides: Shape, dilations: Shape, groups: int) -> Any:
    dtype = np.result_type(y, k)
    y, k = np.asarray(y, dtype), np.asarray(k, dtype)
    sizes, places = k.shape[2:], y.shape[2:]
    channels = k.shape[1] * groups
    out = np.zeros((len(y), channels, *shape), dtype)
    if not (out.size and y.size and k.size):
        return out
    weights = np.swapaxes(k.reshape(groups, len(k) // groups, -1), 1, 2)
    memory = np.empty((groups, weights.shape[1], prod(places)), dtype)
    columns = memory.reshape(channels, *sizes, *places)
    for example, own in zip(out, y, strict=True):
        np.matmul(weights, own.reshape(groups, len(k) // groups, -1), out=memory)
        for offsets, part in _parts(example, sizes, strides, dilations):
            part += columns[_within(1, offsets)]
    return out


# Batches: examples go to the batch axis; with a kernel for each, channels to groups of their own.


def _merged(x: Value, axis: int) -> Value:
    """A value whose axes at a place and after it are one."""
    shape = shape_of(x)
    return reshape(x, shape=(*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def _divided(x: Value, axis: int, size: int) -> Value:
    """A value whose axis is two, of which the first has a size."""
    shape = shape_of(x)
    return reshape(x, shape=(*shape[:axis], size, shape[axis] // size, *shape[axis + 1 :]))


def _batched(kernel: int | None) -> Callable[..., Value]:
    """The batching rule of an operation one of whose arguments, or whose result, is a kernel."""

    def batch(
        primitive: Primitive,
        size: int,
        args: tuple[Value, ...],
        batched: tuple[bool, ...],
        params: dict[str, Any],
    ) -> Value:
        if not size:
            examples = zip(args, batched, strict=True)
            specs = [Spec(shape_of(a)[flag:], dtype_of(a)) for a, flag in examples]
            (empty,) = primitive.results(*specs, **params)
            return np.zeros((0, *empty.shape), empty.dtype)
        if kernel is not None and not batched[kernel]:
            first, second = args
            out = primitive(_merged(first, 0), second, **params)
            return _divided(out, 0, size)
        every = [
            arg if flag else broadcast_to(arg, shape=(size, *shape_of(arg)))
            for arg, flag in zip(args, batched, strict=True)
        ]
        channels = [
            _merged(arg if place == kernel else move_axis(arg, 0, 1), 0 if place == kernel else 1)
            for place, arg in enumerate(every)
        ]
        out = primitive(*channels, **{**params, "groups": params["groups"] * size})
        if kernel is None:
            return _divided(out, 0, size)
        return move_axis(_divided(out, 1, size), 1, 0)

    return batch


_SIZES: Final[Sequence[tuple[Shape, Shape, Shape, Shape, int]]] = (
    ((2, 3, 6), (2, 3, 3), (1,), (1,), 1),
    ((2, 4, 7), (6, 2, 2), (2,), (2,), 2),
    ((1, 2, 5, 6), (3, 2, 3, 2), (1, 1), (1, 1), 1),
    ((2, 2, 5, 6), (2, 1, 2, 3), (2, 1), (1, 2), 2),
    ((1, 1, 3, 4, 3), (1, 1, 2, 2, 2), (1, 2, 1), (1, 1, 1), 1),
    ((2, 2), (3, 2), (), (), 1),
    ((0, 2, 4), (3, 2, 2), (1,), (1,), 1),
    ((1, 1, 2), (1, 1, 3), (1,), (1,), 1),
)


def _samples(make: Callable[..., Sample]) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(23)
        for x, k, strides, dilations, groups in _SIZES:
            y = (x[0], k[0], *_places(x, k[2:], strides, dilations))
            shared = {"strides": strides, "dilations": dilations, "groups": groups}
            numbers = [rng.uniform(-2, 2, shape) for shape in (x, k, y)]
            yield make(*numbers, shared)
            if strides == (1,):
                yield make(*[1j * each + each[::-1] for each in numbers], shared)
                yield make(*[each.astype(np.float32) for each in numbers], shared)
                yield make(*[each.astype(np.int16) for each in numbers], shared)

    return samples


convolve: Primitive = Primitive(
    "convolve",
    _convolve,
    lambda x, k, strides, dilations, groups: Spec(
        (x.shape[0], k.shape[0], *_places(x.shape, k.shape[2:], strides, dilations)),
        np.result_type(x.dtype, k.dtype),
    ),
    Linear(
        (
            lambda ct, x, k, **params: spread(ct, k, shape=shape_of(x)[2:], **params),
            lambda ct, x, k, **params: correlate(x, ct, sizes=shape_of(k)[2:], **params),
        )
    ),
    _batched(kernel=1),
    _samples(lambda x, k, y, shared: Sample((x, k), shared)),
    structure=Opaque(owns=True),
)
"""``y[n, o, p] = sum over c, w of x[n, c, strides * p + dilations * w] k[o, c, w]``, where channels
and filters are divided into groups, of which each has its own."""

spread: Primitive = Primitive(
    "spread",
    _spread,
    lambda y, k, shape, strides, dilations, groups: Spec(
        (y.shape[0], k.shape[1] * groups, *shape), np.result_type(y.dtype, k.dtype)
    ),
    Linear(
        (
            lambda ct, y, k, shape, **params: convolve(ct, k, **params),
            lambda ct, y, k, shape, **params: correlate(ct, y, sizes=shape_of(k)[2:], **params),
        )
    ),
    _batched(kernel=1),
    _samples(lambda x, k, y, shared: Sample((y, k), {**shared, "shape": x.shape[2:]})),
    structure=Opaque(owns=True),
)
"""The transpose of ``convolve`` in x: each number of y is spread over a window by the kernel."""

correlate: Primitive = Primitive(
    "correlate",
    _correlate,
    lambda x, y, sizes, strides, dilations, groups: Spec(
        (y.shape[1], x.shape[1] // groups, *sizes), np.result_type(x.dtype, y.dtype)
    ),
    Linear(
        (
            lambda ct, x, y, sizes, **params: spread(y, ct, shape=shape_of(x)[2:], **params),
            lambda ct, x, y, sizes, **params: convolve(x, ct, **params),
        )
    ),
    _batched(kernel=None),
    _samples(lambda x, k, y, shared: Sample((x, y), {**shared, "sizes": k.shape[2:]})),
    structure=Opaque(owns=True),
)
"""The transpose of ``convolve`` in the kernel: how windows of x and numbers of y go together."""
