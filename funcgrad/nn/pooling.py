"""Pooling: the maximum or the mean of windows over the last axes.

>>> max_pool([[[1.0, 5.0, 2.0, 4.0]]], (2,))
Tensor([[[5., 4.]]])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import gcd, prod
from typing import Any, NamedTuple

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import Shape, dtype_of, is_inexact, shape_of
from funcgrad._core.trace import Value
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.sliding import sliding_windows, window_sums
from funcgrad._primitives.structural import cast, view
from funcgrad.errors import ShapeError
from funcgrad.nn.windows import Padding, Sizes, check_window, numbers_of, padded, padding_of
from funcgrad.numpy.options import integer, integers, is_integer
from funcgrad.tensor.tensor import Tensor, wrap


@answering
def max_pool(
    x: ArrayLike,
    window: Sizes,
    *,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
) -> Tensor:
    """Max pooling: the maximum of each window; NaN if the window contains NaN.

    It shrinks images between convolutions and keeps the strongest response.

    Elements that tie for the maximum share the derivative equally.

    Parameters
    ----------
    x : array_like, shape (..., *sizes)
        Real.
    window : int or sequence of int
        The size of the window along each of the last axes. A single integer is for all axes but the
        first two, the batch and the channels. For three axes a single integer is an error, because
        they may also be the channels, the height and the width of one image.
    stride : int or sequence of int, optional
        The step by which the window moves; by default its size, so that windows do not overlap.
    padding : int, sequence of int, sequence of pairs, "valid" or "same"
        The padding of the axes, see ``conv``; padding is never the maximum.
    dilation : int or sequence of int
        The distance between neighbouring elements of the window.

    Returns
    -------
    Tensor, shape (..., *places)

    Raises
    ------
    ShapeError
        The array has too few axes, the window is larger than the padded axes, or a single integer
        is given for three axes.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> max_pool(fnp.arange(16.0).reshape(1, 1, 4, 4), 2)
    Tensor([[[[ 5.,  7.],
              [13., 15.]]]])
    """
    value = operand(x, "max_pool")
    least = _lowest(dtype_of(value))
    parts, sizes = _slid(
        sliding_windows, value, window, stride, padding, dilation, least, "max_pool"
    )
    lead = len(shape_of(value)) - len(sizes)
    return fnp.max(wrap(parts), tuple(range(lead, lead + len(sizes))))


@answering
def avg_pool(
    x: ArrayLike,
    window: Sizes,
    *,
    stride: Sizes | None = None,
    padding: Padding = 0,
    count_include_pad: bool = True,
) -> Tensor:
    """Average pooling: the mean of each window.

    Parameters
    ----------
    x : array_like, shape (..., *sizes)
    window, stride, padding
        See ``max_pool``; the axes are padded with zeros.
    count_include_pad : bool
        Whether these zeros count in the mean, as they do in PyTorch and in Flax.

    Returns
    -------
    Tensor, shape (..., *places)

    Raises
    ------
    ShapeError
        The array has too few axes, the window is larger than the padded axes, or a single integer
        is given for three axes.

    Examples
    --------
    >>> avg_pool([[[1.0, 3.0, 5.0]]], (2,), stride=1)
    Tensor([[[2., 4.]]])
    >>> avg_pool([[[1.0, 3.0]]], (3,), stride=1, padding=1, count_include_pad=False)
    Tensor([[[2., 2.]]])
    """
    value = operand(x, "avg_pool")
    shape = shape_of(value)
    sums, sizes = _slid(window_sums, _summable(value), window, stride, padding, 1, 0, "avg_pool")
    counts: Any = prod(sizes)
    if not count_include_pad:
        ones = np.ones(shape[len(shape) - len(sizes) :], dtype_of(sums))
        counts, _ = _slid(window_sums, ones, sizes, stride, padding, 1, 0, "avg_pool")
    return _as_mean(wrap(sums) / counts, value)


@answering
def adaptive_avg_pool(x: ArrayLike, output_size: Sizes) -> Tensor:
    """Average pooling to a given output size, whatever the size of the input.

    Often the last step before a linear layer: ``output_size=1`` is the mean of each channel.

    Along an axis of length ``size``, window i of n goes from ``floor(i * size / n)`` to ``ceil((i +
    1) * size / n)``, as in PyTorch.

    Parameters
    ----------
    x : array_like, shape (..., *sizes)
    output_size : int or sequence of int
        The number of windows along each of the last axes. A single integer is for all axes but the
        first two; for three axes it is an error, as for ``max_pool``.

    Returns
    -------
    Tensor, shape (..., *output_size)

    Raises
    ------
    ShapeError
        The array has too few axes, an axis is empty, or a single integer is given for three axes.

    Examples
    --------
    >>> adaptive_avg_pool([[[1.0, 2.0, 3.0, 4.0, 5.0]]], (2,))
    Tensor([[[2., 4.]]])
    """
    value = operand(x, "adaptive_avg_pool")
    axes = _stretches(value, output_size, "adaptive_avg_pool")

    def mean(region: Value, sizes: Shape, strides: Shape) -> Tensor:
        sums = window_sums(region, sizes=sizes, strides=strides, dilations=(1,) * len(sizes))
        return wrap(sums) / prod(sizes)

    pooled = _summable(value)
    for axis, stretches in enumerate(axes):  # the mean of a box is the mean of means along its axes
        others = shape_of(pooled)[len(shape_of(pooled)) - len(axes) :]
        single = [[_Stretch(0, 1, 1, n)] for n in others]
        pooled = operand(
            _put_together(pooled, [*single[:axis], stretches, *single[axis + 1 :]], mean), ""
        )
    return _as_mean(wrap(pooled), value)


@answering
def adaptive_max_pool(x: ArrayLike, output_size: Sizes) -> Tensor:
    """Max pooling to a given output size, whatever the size of the input.

    Parameters and windows are as in ``adaptive_avg_pool``. Elements that tie for the maximum share
    the derivative equally.

    Examples
    --------
    >>> adaptive_max_pool([[[1.0, 2.0, 3.0, 5.0, 4.0]]], (2,))
    Tensor([[[3., 5.]]])
    """
    value = operand(x, "adaptive_max_pool")

    def greatest(region: Value, sizes: Shape, strides: Shape) -> Tensor:
        windows = sliding_windows(region, sizes=sizes, strides=strides, dilations=(1,) * len(sizes))
        lead = len(shape_of(region)) - len(sizes)
        return fnp.max(wrap(windows), tuple(range(lead, lead + len(sizes))))

    return _put_together(value, _stretches(value, output_size, "adaptive_max_pool"), greatest)


def _lowest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return False
    return -np.inf if is_inexact(dtype) else np.iinfo(dtype).min


class _Stretch(NamedTuple):
    """Windows of equal size at equal distances along an axis."""

    start: int
    size: int
    stride: int
    times: int


def _stretches(value: Value, output_size: Sizes, name: str) -> list[list[_Stretch]]:
    """Return the windows that cover each of the last axes, as groups of equal windows.

    Among n windows, the pattern of the first ``n // gcd(n, size)`` repeats."""
    rank = _rank(value, output_size, name, "output_size")
    counts = numbers_of(output_size, rank, 1, name, "output_size")
    sizes = shape_of(value)[len(shape_of(value)) - rank :]
    if 0 in sizes:
        raise ShapeError(f"{name}: the sizes {sizes} leave nothing to make windows of.")
    axes = []
    for size, count in zip(sizes, counts, strict=True):
        times = gcd(size, count)
        starts = [(i * size // count, -(-(i + 1) * size // count)) for i in range(count // times)]
        axes.append([_Stretch(a, b - a, size // times, times) for a, b in starts])
    return axes


def _put_together(
    value: Value, axes: Sequence[Sequence[_Stretch]], pool: Callable[[Value, Shape, Shape], Tensor]
) -> Tensor:
    """Pool each combination of stretches, and arrange the results in the order of the windows."""
    rank = len(axes)
    parts = []
    for chosen in product(*axes):
        slices = [slice(s.start, s.start + (s.times - 1) * s.stride + s.size) for s in chosen]
        region = view(value, key=Key((..., *slices)))
        parts.append(
            pool(region, tuple([s.size for s in chosen]), tuple([s.stride for s in chosen]))
        )
    if len(parts) == 1:
        return parts[0]
    lead = parts[0].shape[: len(parts[0].shape) - rank]
    together = fnp.stack(parts).reshape((*map(len, axes), *parts[0].shape))
    order = [position for axis in range(rank) for position in (rank + len(lead) + axis, axis)]
    turned = fnp.transpose(together, (*range(rank, rank + len(lead)), *order))
    return turned.reshape((*lead, *[len(stretches) * stretches[0].times for stretches in axes]))


def _summable(value: Value) -> Value:
    """Convert a value to floats of at least single precision, for sums."""
    dtype = dtype_of(value)
    if not is_inexact(dtype):
        return cast(value, dtype=np.dtype(np.float64))
    return cast(value, dtype=np.dtype(np.float32)) if dtype == np.float16 else value


def _as_mean(means: Tensor, value: Value) -> Tensor:
    """Convert means to the precision of the values that were averaged."""
    return means.astype(np.float16) if dtype_of(value) == np.float16 else means


def _rank(value: Value, numbers: Sizes, name: str, argument: str) -> int:
    """Return the number of last axes along which windows slide."""
    shape = shape_of(value)
    single = is_integer(numbers)
    if single and len(shape) == 3:
        n = integer(numbers, name, argument)
        raise ShapeError(
            f"{name}: {argument}={n} is ambiguous for an array of shape {shape}, which may be"
            f" (batch, channels, size) or (channels, height, width). Write {argument}=({n},) for"
            f" windows of the last axis, {argument}=({n}, {n}) for windows of the last two."
        )
    rank = len(shape) - 2 if single else len(integers(numbers, name, argument))
    if rank < 1 or rank > len(shape):
        raise ShapeError(
            f"{name}: {argument}={numbers!r} does not fit an array of shape {shape}. A single"
            " number is for all axes but the first two; give one for each of the last axes instead."
        )
    return rank


def _slid(
    operation: Primitive,
    value: Value,
    window: Sizes,
    stride: Sizes | None,
    padding: Padding,
    dilation: Sizes,
    filler: float,
    name: str,
) -> tuple[Value, Shape]:
    """Apply an operation to the windows of a value; return the result and the window's sizes."""
    rank = _rank(value, window, name, "window")
    sizes = numbers_of(window, rank, 1, name, "window")
    strides = sizes if stride is None else numbers_of(stride, rank, 1, name, "stride")
    dilations = numbers_of(dilation, rank, 1, name, "dilation")
    lengths = shape_of(value)[len(shape_of(value)) - rank :]
    widths = padding_of(padding, lengths, sizes, strides, dilations, name)
    check_window(lengths, sizes, dilations, widths, name)
    if any(map(any, widths)):
        value = _filled(value, widths, filler)
    pooled = operation(value, sizes=sizes, strides=strides, dilations=dilations)
    return pooled, sizes


def _filled(value: Value, widths: tuple[tuple[int, int], ...], filler: float) -> Value:
    """Pad the last axes of an array with one value."""
    if not filler:
        return padded(value, widths)
    lead = len(shape_of(value)) - len(widths)
    around = fnp.pad(wrap(value), ((0, 0),) * lead + widths, constant_values=filler)
    return operand(around, "pad")
