"""Pooling: the greatest numbers, or the means, of windows of the last axes.

>>> max_pool([[[1.0, 5.0, 2.0, 4.0]]], 2)
Tensor([[[5., 4.]]])
"""

from __future__ import annotations

from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad.errors import ShapeError
from funcgrad.nn.windows import Padding, Sizes, numbers_of, padded, padding_of
from funcgrad.numpy.options import integers
from funcgrad.primitives.sliding import sliding_windows
from funcgrad.shape import dtype_of, is_inexact, shape_of
from funcgrad.tensor import Tensor, wrap
from funcgrad.trace import Value
from funcgrad.users_values import ArrayLike, operand

__all__ = ["adaptive_avg_pool", "adaptive_max_pool", "avg_pool", "max_pool"]


def max_pool(
    x: ArrayLike,
    window: Sizes,
    *,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
) -> Tensor:
    """The greatest number in each place of a window; NaN where there is one.

    Numbers that tie for the greatest share the derivative equally.

    Parameters
    ----------
    x : array_like, shape (..., *sizes)
        Real.
    window : int or sequence of int
        The sizes of the window along the last axes. A single number is for all axes but the first
        two, the batch and the channels.
    stride : int or sequence of int, optional
        From one place to the next; by default the size of the window, so that no two overlap.
    padding : int, sequence of int, sequence of pairs, "valid" or "same"
        How much of nothing comes around the axes, see ``conv``.
    dilation : int or sequence of int
        From one number in the window to the next.

    Returns
    -------
    Tensor, shape (..., *places)

    Raises
    ------
    ShapeError
        There are too few axes, or the window is larger than what it slides over.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> max_pool(fnp.arange(16.0).reshape(1, 1, 4, 4), 2)
    Tensor([[[[ 5.,  7.],
              [13., 15.]]]])
    """
    value = operand(x, "max_pool")
    least = _lowest(dtype_of(value))
    parts, axes = _windows(value, window, stride, padding, dilation, least, "max_pool")
    result: Tensor = fnp.max(parts, axes)
    return result


def avg_pool(
    x: ArrayLike,
    window: Sizes,
    *,
    stride: Sizes | None = None,
    padding: Padding = 0,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each place of a window.

    Parameters
    ----------
    x : array_like, shape (..., *sizes)
    window, stride, padding
        See ``max_pool``; what comes around the axes is zero.
    count_include_pad : bool
        Whether these zeros count, as they do in PyTorch and in Flax.

    Returns
    -------
    Tensor, shape (..., *places)

    Raises
    ------
    ShapeError
        There are too few axes, or the window is larger than what it slides over.

    Examples
    --------
    >>> avg_pool([[[1.0, 3.0, 5.0]]], 2, stride=1)
    Tensor([[[2., 4.]]])
    >>> avg_pool([[[1.0, 3.0]]], 3, stride=1, padding=1, count_include_pad=False)
    Tensor([[[2., 2.]]])
    """
    value = operand(x, "avg_pool")
    parts, axes = _windows(value, window, stride, padding, 1, 0, "avg_pool")
    if count_include_pad:
        result: Tensor = fnp.mean(parts, axes)
        return result
    ones = np.ones(shape_of(value)[len(shape_of(value)) - len(axes) :])
    sizes = numbers_of(window, len(axes), 1, "avg_pool", "window")
    counts, own = _windows(ones, sizes, stride, padding, 1, 0, "avg_pool")
    means: Tensor = fnp.sum(parts, axes) / np.sum(np.asarray(counts), own)
    return means


def adaptive_avg_pool(x: ArrayLike, output_size: Sizes) -> Tensor:
    """The means of as many windows along each axis as wanted, which cover it.

    Window i of n along an axis of a size goes from ``floor(i * size / n)`` to
    ``ceil((i + 1) * size / n)``, as in PyTorch.

    Parameters
    ----------
    x : array_like, shape (..., *sizes)
    output_size : int or sequence of int
        How many windows there are along the last axes. A single number is for all axes but the
        first two.

    Returns
    -------
    Tensor, shape (..., *output_size)

    Raises
    ------
    ShapeError
        There are too few axes, or one is empty.

    Examples
    --------
    >>> adaptive_avg_pool([[[1.0, 2.0, 3.0, 4.0, 5.0]]], 2)
    Tensor([[[2., 4.]]])
    """
    parts, mask, axes = _adaptive_windows(x, output_size, "adaptive_avg_pool")
    means: Tensor = fnp.mean(parts, axis=axes, where=mask)
    return means


def adaptive_max_pool(x: ArrayLike, output_size: Sizes) -> Tensor:
    """The greatest numbers of as many windows along each axis as wanted, which cover it.

    The parameters are those of ``adaptive_avg_pool``. Numbers that tie share the derivative
    equally.

    Examples
    --------
    >>> adaptive_max_pool([[[1.0, 2.0, 3.0, 5.0, 4.0]]], 2)
    Tensor([[[3., 5.]]])
    """
    parts, mask, axes = _adaptive_windows(x, output_size, "adaptive_max_pool")
    lowest = _lowest(dtype_of(parts))
    greatest: Tensor = fnp.max(parts, axis=axes, where=mask, initial=lowest)
    return greatest


def _lowest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return False
    return -np.inf if is_inexact(dtype) else np.iinfo(dtype).min


def _adaptive_windows(
    x: ArrayLike, output_size: Sizes, name: str
) -> tuple[Tensor, np.ndarray[Any, Any], tuple[int, ...]]:
    """Windows that cover the last axes, all as long as the longest; which of their numbers belong
    to them; and the axes along which they lie."""
    value = operand(x, name)
    rank = _rank(value, output_size, name, "output_size")
    counts = numbers_of(output_size, rank, 1, name, "output_size")
    lead = len(shape_of(value)) - rank
    sizes = shape_of(value)[lead:]
    if 0 in sizes:
        raise ShapeError(f"{name}: the sizes {sizes} leave nothing to make windows of.")
    keys: list[Any] = []
    mask = np.ones((1,) * (2 * rank), bool)
    for place, (size, count) in enumerate(zip(sizes, counts, strict=True)):
        starts = np.arange(count) * size // count
        lengths = -(-(np.arange(count) + 1) * size // count) - starts
        offsets = np.arange(int(np.max(lengths)))
        shape = [1] * (2 * rank)
        shape[place], shape[rank + place] = count, len(offsets)
        own = offsets < lengths[:, None]
        keys.append(np.where(own, starts[:, None] + offsets, 0).reshape(shape))
        mask = mask & own.reshape(shape)
    parts: Tensor = wrap(value)[(..., *keys)]
    return parts, mask, tuple(range(lead + rank, lead + 2 * rank))


def _rank(value: Value, numbers: Sizes, name: str, argument: str) -> int:
    """Along how many of the last axes windows slide."""
    found = integers(numbers, name, argument)
    shape = shape_of(value)
    rank = len(shape) - 2 if hasattr(numbers, "__index__") else len(found)
    if rank < 1 or rank > len(shape):
        raise ShapeError(
            f"{name}: {argument}={numbers!r} does not fit an array of shape {shape}. A single"
            " number is for all axes but the first two; give one for each of the last axes instead."
        )
    return rank


def _windows(
    value: Value,
    window: Sizes,
    stride: Sizes | None,
    padding: Padding,
    dilation: Sizes,
    filler: float,
    name: str,
) -> tuple[Tensor, tuple[int, ...]]:
    """The windows of a value, and the axes along which one of them lies."""
    rank = _rank(value, window, name, "window")
    sizes = numbers_of(window, rank, 1, name, "window")
    strides = sizes if stride is None else numbers_of(stride, rank, 1, name, "stride")
    dilations = numbers_of(dilation, rank, 1, name, "dilation")
    shape = shape_of(value)
    own = shape[len(shape) - rank :]
    widths = padding_of(padding, own, sizes, strides, dilations, name)
    if any(map(any, widths)):
        value = _filled(value, widths, filler)
    found = sliding_windows(value, sizes=sizes, strides=strides, dilations=dilations)
    lead = len(shape) - rank
    if 0 in shape_of(found)[lead + rank :] and 0 not in own:
        raise ShapeError(
            f"{name}: a window of {sizes} with the dilation {dilations} is larger than the sizes"
            f" {own} with the padding {widths}."
        )
    result: Tensor = wrap(found)
    return result, tuple(range(lead, lead + rank))


def _filled(value: Value, widths: tuple[tuple[int, int], ...], filler: float) -> Value:
    """A value with a number around its last axes."""
    if not filler:
        return padded(value, widths)
    lead = len(shape_of(value)) - len(widths)
    around = fnp.pad(wrap(value), ((0, 0),) * lead + widths, constant_values=filler)
    return operand(around, "pad")
