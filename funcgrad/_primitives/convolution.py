"""Convolutions of any number of axes.

Arrays have a batch axis, a channel axis, and then the axes along which the kernel slides. For an
array x, a kernel k and a result y, ``sum(y * convolve(x, k))`` is linear in each of the three. Its
derivatives with respect to y, x and k are ``convolve``, ``spread`` (also called a transposed
convolution) and ``correlate``, so the derivatives of these three are again these three. They do not
pad: ``place`` and ``view`` do that before.

>>> x = np.arange(5.0).reshape(1, 1, 5)
>>> convolve(x, np.ones((1, 1, 2)), strides=(1,), dilations=(1,), groups=1)
array([[[1., 3., 5., 7.]]])
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from funcgrad._core.primitive import Linear, Primitive, Sample
from funcgrad._core.specs import Shape, Spec, dtype_of, shape_of
from funcgrad._core.structure.structures import LETTERS, OWNS, Opaque, WindowProducts
from funcgrad._core.trace import Value
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.convolving import convolved, correlated, places_of, spread_out
from funcgrad._primitives.structural import move_axis, reshape

# Batches: examples go to the batch axis; with a kernel for each, channels to groups of their own.


def _merged(x: Value, axis: int) -> Value:
    """Merge the axis at a place with the next one."""
    shape = shape_of(x)
    return reshape(x, shape=(*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]))


def _divided(x: Value, axis: int, size: int) -> Value:
    """Split an axis into two; ``size`` is the length of the first."""
    shape = shape_of(x)
    return reshape(x, shape=(*shape[:axis], size, shape[axis] // size, *shape[axis + 1 :]))


def _batched(kernel: int | None) -> Callable[..., Value]:
    """The batching rule of an operation with a kernel as an argument or as its result."""

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


def _letters(*beginnings: str) -> Callable[..., tuple[str, ...]]:
    """The letters of both operands and the result; ``*``, and all further axes, mix elements."""

    def letters(x: Shape, _: Shape, **_params: Hashable) -> tuple[str, ...]:
        others = iter(LETTERS[26:])
        padded = [beginning.ljust(len(x), "*") for beginning in beginnings]
        return tuple(["".join([next(others) if c == "*" else c for c in axes]) for axes in padded])

    return letters


def _windows(arrays: str) -> Callable[..., WindowProducts]:
    """The products of an operation, given the names of its operands and its result."""

    def windows(
        strides: Shape, dilations: Shape, groups: int, **_params: Hashable
    ) -> WindowProducts:
        return WindowProducts(arrays, strides, dilations, groups)

    return windows


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
            y = (x[0], k[0], *places_of(x, k[2:], strides, dilations))
            shared = {"strides": strides, "dilations": dilations, "groups": groups}
            numbers = [rng.uniform(-2, 2, shape) for shape in (x, k, y)]
            yield make(*numbers, shared)
            if strides == (1,):
                yield make(*[1j * array + array[::-1] for array in numbers], shared)
                yield make(*[array.astype(np.float32) for array in numbers], shared)
                yield make(*[array.astype(np.int16) for array in numbers], shared)

    return samples


convolve: Primitive = Primitive(
    "convolve",
    convolved,
    lambda x, k, strides, dilations, groups: Spec(
        (x.shape[0], k.shape[0], *places_of(x.shape, k.shape[2:], strides, dilations)),
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
    structure=Opaque(letters=_letters("n", "o", "no"), windows=_windows("xky")),
    traits=OWNS,
)
"""``y[n, o, p] = sum over c, w of x[n, c, strides * p + dilations * w] k[o, c, w]``, where channels
and filters are divided into groups with their own channels."""

spread: Primitive = Primitive(
    "spread",
    spread_out,
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
    structure=Opaque(letters=_letters("n", "", "n"), windows=_windows("ykx")),
    traits=OWNS,
)
"""The transpose of ``convolve`` in x: the kernel spreads each element of y over a window."""

correlate: Primitive = Primitive(
    "correlate",
    correlated,
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
    structure=Opaque(letters=_letters("", "*o", "o"), windows=_windows("xyk")),
    traits=OWNS,
)
"""The transpose of ``convolve`` in the kernel: the correlation of windows of x with y."""
