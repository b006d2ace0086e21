"""Windows that slide along the last axes of an array, their sums, and the transposes of both.

>>> x = np.arange(5.0)
>>> sliding_windows(x, sizes=(2,), strides=(2,), dilations=(1,))
array([[0., 2.],
       [1., 3.]])
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from operator import lt
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import numpy as np

from funcgrad._core.primitive import Linear, Primitive
from funcgrad._core.specs import Shape, Spec, dtype_of, shape_of
from funcgrad._core.structure.structures import OWNS, Opaque
from funcgrad._core.trace import Raw, Value
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.convolving import places_of, window_numbers, windows_of
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.movement import arrays, movement
from funcgrad._primitives.reduction import reduce_sum
from funcgrad._primitives.structural import assemble, place, reshape, view


def _sizes_of(shape: Shape, rank: int) -> Shape:
    """The sizes of windows along ``rank`` axes, from the shape of an array of windows."""
    return shape[len(shape) - 2 * rank : len(shape) - rank]


def _window_index(lead: int, offsets: Shape) -> tuple[Any, ...]:
    """The index of one place in all windows, behind ``lead`` leading axes."""
    return (*(slice(None),) * lead, *offsets)


def _views_by_offset(
    x: Raw, sizes: Shape, strides: Shape, dilations: Shape
) -> Iterator[tuple[Shape, Any]]:
    """For each place in a window, the part of the array at this place."""
    for offsets, box in _boxes(x.shape, sizes, strides, dilations):
        index: tuple[Any, ...] = (..., *box)
        yield offsets, x[index]


def _boxes(
    shape: Shape, sizes: Shape, strides: Shape, dilations: Shape
) -> Iterator[tuple[Shape, list[slice]]]:
    """For each place in a window, the elements of the last axes at this place."""
    places = places_of(shape, sizes, strides, dilations)
    for offsets in product(*map(range, sizes)):
        axes = zip(offsets, dilations, strides, places, strict=True)
        yield (
            offsets,
            [
                slice(offset * dilation, offset * dilation + stride * (count - 1) + 1, stride)
                for offset, dilation, stride, count in axes
            ],
        )


def _sliding(x: Raw, sizes: Shape, strides: Shape, dilations: Shape) -> Any:
    return windows_of(x, sizes, strides, dilations).copy()


def _overlapped(y: Raw, shape: Shape, strides: Shape, dilations: Shape) -> Any:
    lead = y.ndim - 2 * len(strides)
    sizes = _sizes_of(y.shape, len(strides))
    out = np.zeros((*y.shape[:lead], *shape), y.dtype)
    if 0 not in y.shape:
        for offsets, target in _views_by_offset(out, sizes, strides, dilations):
            _put(target, y[_window_index(lead, offsets)], offsets, strides, dilations)
    return out


def _put(target: Raw, y: Raw, offsets: Shape, strides: Shape, dilations: Shape) -> None:
    """Add to the part for one place in a window; the first window to reach it assigns instead."""
    reach = [n * dilation for n, dilation in zip(offsets, dilations, strict=True)]
    if all(map(lt, reach, strides)):
        np.copyto(target, y)
    else:
        np.add(target, y, out=target)


def _axis_by_axis(
    sizes: Shape, strides: Shape, dilations: Shape
) -> Iterator[tuple[int, Shape, Shape, Shape]]:
    """Windows along one axis after the other; windows along later axes have size 1."""
    for axis in range(len(sizes)):
        one = (1,) * (len(sizes) - axis - 1)
        yield axis, (sizes[axis], *one), (strides[axis], *one), (dilations[axis], *one)


def _summed(x: Raw, sizes: Shape, strides: Shape, dilations: Shape) -> Any:
    """Without a copy of the windows; the number of sums is the total size of their axes."""
    for _, *along in _axis_by_axis(sizes, strides, dilations):
        places = places_of(x.shape, *along)
        out = np.zeros((*x.shape[: x.ndim - len(places)], *places), x.dtype)
        if out.size:
            for _, summand in _views_by_offset(x, *along):
                np.add(out, summand, out=out)
        x = out
    return np.array(x) if not sizes else x


def _handed_out(y: Raw, shape: Shape, sizes: Shape, strides: Shape, dilations: Shape) -> Any:
    for axis, *along in reversed([*_axis_by_axis(sizes, strides, dilations)]):
        rank = len(sizes) - axis
        out = np.zeros(
            (*y.shape[: y.ndim - rank], shape[axis], *y.shape[y.ndim - rank + 1 :]), y.dtype
        )
        if y.size:
            for offsets, target in _views_by_offset(out, *along):
                _put(target, y, offsets, *along[1:])
        y = out
    return np.array(y) if not sizes else y


def _index_map(
    result: Raw, x: Raw, sizes: Shape, strides: Shape, dilations: Shape
) -> Iterator[tuple[Any, Any]]:
    """One box of overlapping windows; a box for each place in a window if x has no buffer."""
    if not result.size:
        return
    if x.flags.c_contiguous:
        windows = windows_of(x, sizes, strides, dilations)
        yield result, np.ndarray(windows.shape, x.dtype, x, 0, windows.strides)
        return
    for offsets, operand_view in _views_by_offset(x, sizes, strides, dilations):
        yield result[_window_index(x.ndim - len(sizes), offsets)], operand_view


# Bodies, for compilers to which windows are views.

_FEW: Final = 8
"""The elements of a window along an axis that are added without a loop, twice as fast."""

_MOST: Final = 64
"""The elements of a window up to which contributions are added one after the other."""


def _overlapped_body(y: Value, shape: Shape, strides: Shape, dilations: Shape) -> Value:
    """The contributions of all windows at one place in the window are a strided box."""
    lead, sizes = len(shape_of(y)) - 2 * len(strides), _sizes_of(shape_of(y), len(strides))
    if 0 in shape_of(y) or prod(sizes) > _MOST:
        return NotImplemented
    boxes = [*_boxes(shape, sizes, strides, dilations)]
    return assemble(
        *[view(y, key=Key(_window_index(lead, offsets))) for offsets, _ in boxes],
        keys=tuple([Key((..., *box)) for _, box in boxes]),
        shape=(*shape_of(y)[:lead], *shape),
    )


def _sums_body(x: Value, sizes: Shape, strides: Shape, dilations: Shape) -> Value:
    """Sums along one axis after the other."""
    if 0 in places_of(shape_of(x), sizes, strides, dilations):
        return NotImplemented
    for _, *along in _axis_by_axis(sizes, strides, dilations):
        if along[0][0] <= _FEW:
            views = [view(x, key=Key((..., *box))) for _, box in _boxes(shape_of(x), *along)]
            x = sum(views[1:], views[0])
            continue
        x = sliding_windows(x, sizes=along[0], strides=along[1], dilations=along[2])
        axes = range(len(shape_of(x)) - 2 * len(along[0]), len(shape_of(x)) - len(along[0]))
        x = reduce_sum(x, axis=tuple(axes), keepdims=False)
    return x + dtype_of(x).type(0)  # a sum of negative zeros is 0.0


def _shares_body(y: Value, shape: Shape, sizes: Shape, strides: Shape, dilations: Shape) -> Value:
    """Sums of windows that move by one, with zeros around y, and between if those move further."""
    if 0 in shape_of(y):
        return NotImplemented
    start = len(shape_of(y)) - len(shape)
    lead, places = shape_of(y)[:start], shape_of(y)[start:]
    if sizes == strides and set(dilations) <= {1}:  # windows beside each other
        spread = [size for pair in zip(places, sizes, strict=True) for size in pair]
        ones = [size for n in places for size in (n, 1)]
        y = broadcast_to(reshape(y, shape=(*lead, *ones)), shape=(*lead, *spread))
        covered = tuple([n * size for n, size in zip(places, sizes, strict=True)])
        y = reshape(y, shape=(*lead, *covered))
        key = Key((..., *[slice(n) for n in covered]))
        return y if covered == shape else place(y, key=key, shape=(*lead, *shape))
    margins = [d * (n - 1) for d, n in zip(dilations, sizes, strict=True)]
    axes = zip(margins, strides, places, strict=True)
    box = [slice(m, m + stride * (n - 1) + 1, stride) for m, stride, n in axes]
    around = [n + m for n, m in zip(shape, margins, strict=True)]
    padded = place(y, key=Key((..., *box)), shape=(*lead, *around))
    return window_sums(padded, sizes=sizes, strides=(1,) * len(sizes), dilations=dilations)


_ONE: Final = MappingProxyType({"sizes": (2,), "strides": (1,), "dilations": (1,)})
_TWO: Final = MappingProxyType({"sizes": (2, 3), "strides": (2, 1), "dilations": (1, 2)})

sliding_windows: Primitive = movement(
    "sliding_windows",
    _sliding,
    shape=lambda shape, sizes, strides, dilations: (
        *shape[: len(shape) - len(sizes)],
        *sizes,
        *places_of(shape, sizes, strides, dilations),
    ),
    transpose=lambda ct, x, sizes, strides, dilations: overlapped(
        ct, shape=shape_of(x)[len(shape_of(x)) - len(sizes) :], strides=strides, dilations=dilations
    ),
    batch=lambda shape, size, **params: params,
    windows=_index_map,
    samples=arrays(
        one=((2, 5), {**_ONE}),
        two=((1, 2, 5, 7), {**_TWO}),
        gaps=((7,), {"sizes": (2,), "strides": (3,), "dilations": (1,)}),
        apart=((2, 1, 2), {"sizes": (2,), "strides": (2,), "dilations": (1,)}),
        both=((7,), {"sizes": (2,), "strides": (2,), "dilations": (2,)}),
        none=((2, 1), {**_ONE}),
        empty=((0, 5), {**_ONE}),
    ),
    gaps=True,
    traits=OWNS,
)
"""``x[..., s]`` as ``y[..., w, p]`` with s = strides * p + dilations * w, for the last axes."""


def _along_last_axes(
    primitive: Primitive, size: int, args: tuple[Value, ...], _: object, params: dict[str, Any]
) -> Value:
    return primitive(args[0], **params)


_Terms: TypeAlias = tuple[np.ndarray[Any, Any], ...]


def _overlapped_terms(y: Shape, shape: Shape, strides: Shape, dilations: Shape) -> _Terms:
    rank = len(strides)
    whole = (*y[: len(y) - 2 * rank], *shape)
    return _window_terms(whole, _sizes_of(y, rank), strides, dilations)[:2]


def _summed_terms(x: Shape, **params: Shape) -> _Terms:
    operand, _, result = _window_terms(x, **params)
    return result, operand


def _shared_terms(y: Shape, shape: Shape, **params: Shape) -> _Terms:
    whole, _, operand = _window_terms((*y[: len(y) - len(shape)], *shape), **params)
    return whole, operand


def _window_terms(whole: Shape, sizes: Shape, strides: Shape, dilations: Shape) -> _Terms:
    """For each element of each window its flat index in the array, in the windows, its window's."""
    windows = window_numbers(whole, sizes, strides, dilations)
    lead = len(whole) - len(sizes)
    places = (*windows.shape[:lead], *windows.shape[lead + len(sizes) :])
    numbers = np.arange(prod(places)).reshape(*places[:lead], *(1,) * len(sizes), *places[lead:])
    which = np.broadcast_to(numbers, windows.shape)
    return windows.reshape(-1), np.arange(windows.size), which.reshape(-1)


overlapped: Primitive = Primitive(
    "overlapped",
    _overlapped,
    lambda y, shape, strides, dilations: Spec(
        (*y.shape[: len(y.shape) - 2 * len(strides)], *shape), y.dtype
    ),
    Linear(
        (
            lambda ct, y, shape, strides, dilations: sliding_windows(
                ct, sizes=_sizes_of(shape_of(y), len(strides)), strides=strides, dilations=dilations
            ),
        ),
        structural=True,
    ),
    _along_last_axes,
    arrays(
        one=((2, 2, 4), {"shape": (5,), "strides": (1,), "dilations": (1,)}),
        two=((1, 2, 3, 2, 3), {"shape": (5, 7), "strides": (2, 1), "dilations": (1, 2)}),
        gaps=((2, 2), {"shape": (7,), "strides": (3,), "dilations": (1,)}),
        both=((2, 3), {"shape": (7,), "strides": (2,), "dilations": (2,)}),
        none=((2, 2, 0), {"shape": (1,), "strides": (1,), "dilations": (1,)}),
    ),
    structure=Opaque(counted=0, terms=_overlapped_terms),
    traits=OWNS,
    body=_overlapped_body,
)
"""The transpose of ``sliding_windows``: contributions to one place are added up."""

window_sums: Primitive = Primitive(
    "window_sums",
    _summed,
    lambda x, sizes, strides, dilations: Spec(
        (*x.shape[: len(x.shape) - len(sizes)], *places_of(x.shape, sizes, strides, dilations)),
        x.dtype,
    ),
    Linear(
        (
            lambda ct, x, sizes, **params: window_shares(
                ct, shape=shape_of(x)[len(shape_of(x)) - len(sizes) :], sizes=sizes, **params
            ),
        ),
        structural=True,
        gaps=True,
    ),
    _along_last_axes,
    arrays(
        one=((2, 5), {**_ONE}),
        two=((1, 2, 5, 7), {**_TWO}),
        gaps=((7,), {"sizes": (2,), "strides": (3,), "dilations": (1,)}),
        both=((7,), {"sizes": (2,), "strides": (2,), "dilations": (2,)}),
        none=((2, 1), {**_ONE}),
        still=((3,), {"sizes": (), "strides": (), "dilations": ()}),
        empty=((0, 5), {**_ONE}),
    ),
    structure=Opaque(terms=_summed_terms),
    traits=OWNS,
    body=_sums_body,
)
"""The sums of windows of the last axes."""

window_shares: Primitive = Primitive(
    "window_shares",
    _handed_out,
    lambda y, shape, sizes, strides, dilations: Spec(
        (*y.shape[: len(y.shape) - len(sizes)], *shape), y.dtype
    ),
    Linear((lambda ct, y, shape, **params: window_sums(ct, **params),), structural=True),
    _along_last_axes,
    arrays(
        one=((2, 4), {"shape": (5,), **_ONE}),
        two=((1, 2, 2, 3), {"shape": (5, 7), **_TWO}),
        gaps=((2,), {"shape": (7,), "sizes": (2,), "strides": (3,), "dilations": (1,)}),
        both=((3,), {"shape": (7,), "sizes": (2,), "strides": (2,), "dilations": (2,)}),
        none=((2, 0), {"shape": (1,), **_ONE}),
    ),
    structure=Opaque(terms=_shared_terms),
    traits=OWNS,
    body=_shares_body,
)
"""The transpose of ``window_sums``: each element of a window gets the cotangent of its place."""
