"""``convolve`` along chosen axes, as autograd has it.

>>> import numpy as np
>>> convolve(np.array([1.0, 2.0]), np.array([1.0, 1.0]))
array([1., 3., 2.])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import funcgrad.numpy as fnp
from funcgrad.compat.autograd.arrays import plain
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.tensor.tensor import ArrayLike, Tensor

Axes = Sequence[Sequence[int]]


def convolve(
    A: ArrayLike,
    B: ArrayLike,
    axes: Axes | None = None,
    dot_axes: Axes = ((), ()),
    mode: str = "full",
) -> Any:
    """Convolve two arrays along some axes, and sum products along others.

    Parameters
    ----------
    A, B : array_like
    axes : pair of sequences of int, optional
        The axes of A and of B to convolve along, in pairs; by default all.
    dot_axes : pair of sequences of int
        The axes of A and of B to sum over, in pairs.
    mode : {"full", "valid", "same"}
        How far the shorter array slides: "full" as long as they overlap, "valid" within the longer
        one, "same" over as many places as A has.

    Returns
    -------
    array
        Its axes are the others of A, the others of B, and the convolved ones.

    Raises
    ------
    ArgumentError
        There is no such mode.
    ShapeError
        With "valid", neither array is the longer one along all axes.
    """
    if mode not in ("full", "valid", "same"):
        raise ArgumentError(f"convolve: mode has to be full, valid or same, got {mode!r}.")
    first, second = fnp.asarray(A), fnp.asarray(B)
    if axes is None:
        axes = (range(first.ndim), range(first.ndim))
    summed = (tuple(dot_axes[0]), tuple(dot_axes[1]))
    pairs = [(tuple(axes[0]), first), (tuple(axes[1]), second)]
    sizes = [[array.shape[axis] for axis in chosen] for chosen, array in pairs]
    is_longer = all(a >= b for a, b in zip(*sizes, strict=True))
    is_shorter = all(a <= b for a, b in zip(*sizes, strict=True))
    if mode == "valid" and not (is_longer or is_shorter):
        raise ShapeError(
            f"convolve: with mode='valid' one array has to be at least as long as the other along"
            f" all axes, got {sizes[0]} and {sizes[1]}."
        )
    swapped = mode == "valid" and not is_longer
    (long_axes, long), (short_axes, short) = pairs[::-1] if swapped else pairs
    long_sums, short_sums = summed[::-1] if swapped else summed
    long = _padded(long, long_axes, [short.shape[axis] for axis in short_axes], mode)
    out = _slid(long, long_axes, long_sums, fnp.flip(short, short_axes), short_axes, short_sums)
    count = len(long_axes)
    others = out.ndim - count
    if swapped:
        lead = others - (short.ndim - count - len(short_sums))
        order = [*range(lead, others), *range(lead), *range(others, out.ndim)]
        out = fnp.transpose(out, order)
    return plain(out)


def _padded(array: Tensor, axes: Sequence[int], sizes: Sequence[int], mode: str) -> Tensor:
    """Zeros around an array that another slides over."""
    widths = [(0, 0)] * array.ndim
    for axis, size in zip(axes, sizes, strict=True):
        if mode == "full":
            widths[axis] = (size - 1, size - 1)
        elif mode == "same":
            widths[axis] = (size // 2, (size - 1) // 2)
    return fnp.pad(array, widths)


def _slid(
    long: Tensor,
    long_axes: Sequence[int],
    long_sums: Sequence[int],
    short: Tensor,
    short_axes: Sequence[int],
    short_sums: Sequence[int],
) -> Tensor:
    """Sums of products of an array with windows of another."""
    windows = fnp.lib.stride_tricks.sliding_window_view(
        long, [short.shape[axis] for axis in short_axes], long_axes
    )
    count = len(long_axes)
    contracted = [*long_sums, *range(long.ndim, long.ndim + count)]
    out = fnp.tensordot(windows, short, (contracted, [*short_sums, *short_axes]))
    remaining = [axis for axis in range(long.ndim) if axis not in long_sums]
    convolved = [remaining.index(axis % long.ndim) for axis in long_axes]
    others = [axis for axis in range(out.ndim) if axis not in convolved]
    return fnp.transpose(out, [*others, *convolved])
