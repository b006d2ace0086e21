"""Windows that slide along the last axes of an array, and what comes back from them.

>>> x = np.arange(5.0)
>>> sliding_windows(x, sizes=(2,), strides=(2,), dilations=(1,))
array([[0., 2.],
       [1., 3.]])
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad.primitive import Linear, Primitive
from funcgrad.primitives.convolving import places_of, windows_of
from funcgrad.primitives.movement import arrays, movement
from funcgrad.shape import Shape, Spec, shape_of
from funcgrad.structure import Opaque
from funcgrad.trace import Raw, Value

__all__ = ["overlapped", "sliding_windows"]


def _sizes_of(shape: Shape, rank: int) -> Shape:
    """The sizes of windows, of the shape that windows with so many axes have."""
    return shape[len(shape) - 2 * rank : len(shape) - rank]


def _within(lead: int, offsets: Shape) -> tuple[Any, ...]:
    """The index of one place in all windows, behind so many leading axes."""
    return (*(slice(None),) * lead, *offsets)


def _parts(x: Raw, sizes: Shape, strides: Shape, dilations: Shape) -> Iterator[tuple[Shape, Any]]:
    """For each place in a window, the part of an array that comes to lie there."""
    places = places_of(x.shape, sizes, strides, dilations)
    for offsets in product(*map(range, sizes)):
        slices: list[Any] = [
            slice(offset * dilation, offset * dilation + stride * (count - 1) + 1, stride)
            for offset, dilation, stride, count in zip(
                offsets, dilations, strides, places, strict=True
            )
        ]
        yield offsets, x[(..., *slices)]


def _sliding(x: Raw, sizes: Shape, strides: Shape, dilations: Shape) -> Any:
    return windows_of(x, sizes, strides, dilations).copy()


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
        *places_of(shape, sizes, strides, dilations),
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
        apart=((2, 1, 2), {"sizes": (2,), "strides": (2,), "dilations": (1,)}),
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
