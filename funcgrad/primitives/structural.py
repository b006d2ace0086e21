"""Structural primitives: they move elements and compute nothing.

Each is linear, and its transpose moves the cotangent's elements back.

>>> reshape(np.arange(6.0), shape=(2, 3)).shape
(2, 3)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from funcgrad.primitive import DISCRETE, SAME, Differential, Linear, Partials, Primitive, Sample
from funcgrad.errors import ShapeError
from funcgrad.shape import Shape, Spec, is_inexact, shape_of
from funcgrad.trace import Value

__all__ = ["cast", "reshape", "reverse_axes", "structural", "swap_last_axes", "transpose"]


def _as_array(x: Any) -> np.ndarray[Any, Any]:
    return x if type(x) is np.ndarray else np.asarray(x)


def structural(
    name: str,
    evaluate: Callable[..., Any],
    *,
    shape: Callable[..., Shape],
    transpose: Callable[..., Value],
    batch: Callable[..., dict[str, Any]],
    samples: Callable[[], Iterator[Sample]],
    gaps: bool = False,
) -> Primitive:
    """Declare a primitive of one array that only moves elements.

    Parameters
    ----------
    name : str
    evaluate : callable
        ``(ndarray, **params) -> ndarray``; a view where it can be.
    shape : callable
        ``(shape, **params) -> shape`` of the result.
    transpose : callable
        ``(cotangent, x, **params) -> cotangent of x``.
    batch : callable
        ``(shape of one example, batch size, **params) -> params`` that do to the array with the
        batch on axis 0 what ``params`` does to one example.
    samples : callable
    gaps : bool
        Whether the transpose leaves elements untouched.
    """

    def batched(
        primitive: Primitive, size: int, args: tuple[Value, ...], _: Any, params: dict[str, Any]
    ) -> Value:
        return primitive(args[0], **batch(shape_of(args[0])[1:], size, **params))

    return Primitive(
        name,
        lambda x, **params: evaluate(_as_array(x), **params),
        lambda x, **params: Spec(shape(x.shape, **params), x.dtype),
        Linear((transpose,), structural=True, gaps=gaps),
        batched,
        samples,
    )


def _arrays(**cases: tuple[Shape, dict[str, Any]]) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(7)
        for shape, params in cases.values():
            yield Sample((rng.standard_normal(shape),), params)

    return samples


reshape = structural(
    "reshape",
    lambda x, shape: x.reshape(shape),
    shape=lambda _, shape: shape,
    transpose=lambda ct, x, shape: reshape(ct, shape=shape_of(x)),
    batch=lambda _, size, shape: {"shape": (size, *shape)},
    samples=_arrays(
        split=((6,), {"shape": (2, 3)}),
        merge=((2, 3), {"shape": (6,)}),
        scalar=((), {"shape": (1, 1)}),
        empty=((0, 3), {"shape": (3, 0)}),
    ),
)


def _inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


transpose = structural(
    "transpose",
    lambda x, axes: x.transpose(axes),
    shape=lambda shape, axes: tuple(shape[a] for a in axes),
    transpose=lambda ct, x, axes: transpose(ct, axes=_inverse(axes)),
    batch=lambda shape, size, axes: {"axes": (0, *(a + 1 for a in axes))},
    samples=_arrays(
        matrix=((2, 3), {"axes": (1, 0)}),
        cycle=((2, 3, 4), {"axes": (1, 2, 0)}),
        scalar=((), {"axes": ()}),
        empty=((0, 2), {"axes": (1, 0)}),
    ),
)


def reverse_axes(x: Value) -> Value:
    """The axes in reverse order."""
    return transpose(x, axes=tuple(reversed(range(len(shape_of(x))))))


def swap_last_axes(x: Value) -> Value:
    """The matrices of a stack, transposed.

    Raises
    ------
    ShapeError
        There are no two axes.
    """
    rank = len(shape_of(x))
    if rank < 2:
        raise ShapeError(f"mT needs at least two axes; the shape is {shape_of(x)}.")
    return transpose(x, axes=(*range(rank - 2), rank - 1, rank - 2))


def _cast(x: Any, dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    array = _as_array(x)
    if array.dtype.kind == "c" and dtype.kind not in "cb":
        array = array.real
    return array.astype(dtype)


def cast(x: Value, *, dtype: np.dtype[Any]) -> Value:
    """``x`` in another dtype; a complex number becomes real by its real part."""
    return (cast_inexact if is_inexact(dtype) else cast_discrete)(x, dtype=dtype)


def _cast_primitive(name: str, differential: Differential, *targets: str) -> Primitive:
    def samples() -> Iterator[Sample]:
        for target in targets:
            for source in (np.arange(3.0) - 1, np.float32(2), np.arange(2) * 1j, np.zeros((0, 2))):
                yield Sample((source,), {"dtype": np.dtype(target)}, smooth=target != "e")

    return Primitive(
        name,
        _cast,
        lambda x, dtype: Spec(x.shape, dtype),
        differential,
        lambda primitive, size, args, batched, params: primitive(*args, **params),
        samples,
    )


# The transformations cast tangents to the output's dtype and cotangents to the argument's, which
# is all there is to a cast's differential.
cast_inexact = _cast_primitive("cast", Partials((SAME,)), "e", "f", "d", "D")
cast_discrete = _cast_primitive("cast_discrete", DISCRETE, "i", "?")
