"""Convolutions and correlations of arrays with any number of axes.

>>> convolve([1.0, 2.0, 3.0], [0.0, 1.0, 0.5], mode="same")
Tensor([1. , 2.5, 4. ])
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.specs import normalize_axis
from funcgrad._primitives.convolution import convolve as slide
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.numpy.options import integers
from funcgrad.scipy.signal.signal_arguments import one_of
from funcgrad.tensor.tensor import ArrayLike, Tensor, apply, tensor

_MODES = ("full", "same", "valid")
_DIRECT = 2**14
"""Up to so many products for each of the longer operand's elements, sums are quicker than FFT."""


def convolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto") -> Tensor:
    """The convolution of two arrays with equally many axes.

    Parameters
    ----------
    in1, in2 : array_like
    mode : str
        ``"full"``; ``"same"``, the centre, of the shape of ``in1``; or ``"valid"``, where one array
        lies inside of the other.
    method : str
        ``"direct"`` sums products, ``"fft"`` multiplies Fourier transforms; ``"auto"`` chooses
        by sizes, and the direct way for integers.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        The numbers of axes differ, or neither array contains the other in mode ``"valid"``.
    ArgumentError
        An unknown mode or method.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.grad(lambda v: convolve([1.0, 2.0, 3.0], v)[2])(fg.tensor([1.0, 1.0]))
    Tensor([3., 2.])
    """
    one_of("convolve", "method", method, ("auto", "direct", "fft"))
    first, second = _pair("convolve", in1, in2, mode)
    if not first.ndim:
        return first * second
    if not first.size or not second.size:
        return fnp.zeros((0,) * first.ndim, np.result_type(first.dtype, second.dtype))
    if method == "auto":
        exact = first.dtype.kind not in "fc" and second.dtype.kind not in "fc"
        short = min(first.size, second.size)
        method = "direct" if exact or first.ndim == 1 or short <= _DIRECT else "fft"
        if first.ndim == 1 and short > 500 and not exact:
            method = "fft"
    if method == "fft":
        return fftconvolve(first, second, mode)
    if mode == "valid" and not _contains(first.shape, second.shape):
        first, second = second, first
    return _cut(_direct(first, second), first.shape, second.shape, mode)


def fftconvolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: int | Sequence[int] | None = None
) -> Tensor:
    """The convolution of two arrays by the product of their Fourier transforms.

    Parameters
    ----------
    in1, in2 : array_like
        With equally many axes.
    mode : str
        See ``convolve``.
    axes : int or sequence of int, optional
        The axes along which they are convolved; the others broadcast. By default all.

    Returns
    -------
    Tensor
        Of floating-point numbers, also for integers.

    Examples
    --------
    >>> fftconvolve([1.0, 2.0, 3.0], [0.0, 1.0, 0.5]).round(12)
    Tensor([0. , 1. , 2.5, 4. , 1.5])
    """
    first, second = _pair("fftconvolve", in1, in2, mode)
    if not first.ndim:
        return first * second
    if not first.size or not second.size:
        return fnp.zeros((0,) * first.ndim, np.result_type(first.dtype, second.dtype))
    chosen = _chosen("fftconvolve", axes, first.ndim)
    sizes = [(first.shape[axis], second.shape[axis]) for axis in chosen]
    if mode == "valid" and not _contains(*[[size[k] for size in sizes] for k in (0, 1)]):
        first, second = second, first
    shape = [first.shape[axis] + second.shape[axis] - 1 for axis in chosen]
    lengths = [_smooth(size) for size in shape]
    if first.dtype.kind == "c" or second.dtype.kind == "c":
        product = fnp.fft.fftn(first, lengths, chosen) * fnp.fft.fftn(second, lengths, chosen)
        whole = fnp.fft.ifftn(product, lengths, chosen)
    else:
        product = fnp.fft.rfftn(first, lengths, chosen) * fnp.fft.rfftn(second, lengths, chosen)
        whole = fnp.fft.irfftn(product, lengths, chosen)
    for axis, size in zip(chosen, shape, strict=True):
        whole = _slice(whole, axis, 0, size)
    dtype = np.result_type(first.dtype, second.dtype)
    whole = whole if dtype.kind not in "fc" else whole.astype(dtype)
    return _cut(whole, first.shape, second.shape, mode, chosen)


def oaconvolve(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: int | Sequence[int] | None = None
) -> Tensor:
    """The convolution of two arrays; the same as ``fftconvolve``, whose values it shares.

    Examples
    --------
    >>> oaconvolve([1.0, 2.0, 3.0], [0.0, 1.0, 0.5], mode="valid").round(12)
    Tensor([2.5])
    """
    one_of("oaconvolve", "mode", mode, _MODES)
    return fftconvolve(in1, in2, mode, axes)


def correlate(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto") -> Tensor:
    """The correlation of two arrays: sums of ``in1[j + k] * conj(in2[j])`` over all ``j``.

    Parameters
    ----------
    in1, in2 : array_like
    mode, method : str
        See ``convolve``.

    Returns
    -------
    Tensor
        In the order of SciPy: the last value of ``in2`` meets the first one of ``in1`` first.

    Examples
    --------
    >>> correlate([1.0, 2.0, 3.0], [0.0, 1.0, 0.5])
    Tensor([0.5, 2. , 3.5, 3. , 0. ])
    """
    first, second = _pair("correlate", in1, in2, mode)
    return convolve(first, _mirrored(fnp.conj(second)), mode, method)


def convolve2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: ArrayLike = 0,
) -> Tensor:
    """The convolution of two matrices.

    Parameters
    ----------
    in1, in2 : array_like, of two axes
    mode : str
        See ``convolve``.
    boundary : str
        How ``in1`` goes on: ``"fill"`` with a value, ``"wrap"`` periodically, ``"symm"`` mirrored.
    fillvalue : scalar
        The value of ``"fill"``.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        An operand is not a matrix.
    ArgumentError
        An unknown mode or boundary.

    Examples
    --------
    >>> convolve2d([[1.0, 2.0], [3.0, 4.0]], [[1.0, -1.0]], mode="same", boundary="symm")
    Tensor([[0., 1.],
            [0., 1.]])
    """
    return _of_matrices("convolve2d", in1, in2, mode, boundary, fillvalue)


def correlate2d(
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str = "full",
    boundary: str = "fill",
    fillvalue: ArrayLike = 0,
) -> Tensor:
    """The correlation of two matrices; see ``convolve2d``.

    Examples
    --------
    >>> correlate2d([[1.0, 2.0], [3.0, 4.0]], [[1.0, -1.0]], mode="valid")
    Tensor([[-1.],
            [-1.]])
    """
    first, second = _pair("correlate2d", in1, in2, mode)
    mirrored = _mirrored(fnp.conj(second))
    # SciPy's centre is one place later than a convolution's where the second size is even.
    return _of_matrices("correlate2d", first, mirrored, mode, boundary, fillvalue, 1)


def _of_matrices(
    operation: str,
    in1: ArrayLike,
    in2: ArrayLike,
    mode: str,
    boundary: str,
    fillvalue: ArrayLike,
    later: int = 0,
) -> Tensor:
    one_of(operation, "boundary", boundary, ("fill", "wrap", "symm"))
    first, second = _pair(operation, in1, in2, mode)
    if first.ndim != 2:
        raise ShapeError(
            f"{operation}: takes matrices, got shapes {first.shape} and {second.shape}."
        )
    if mode == "valid":
        if not _contains(first.shape, second.shape):
            first, second = second, first
        return _cut(_direct(first, second), first.shape, second.shape, mode)
    widths = [(size - 1, size - 1) for size in second.shape]
    if boundary == "fill":
        padded = fnp.pad(first - fillvalue, widths) + fillvalue
    else:
        padded = fnp.pad(first, widths, mode="wrap" if boundary == "wrap" else "symmetric")
    whole = _cut(_direct(padded, second), padded.shape, second.shape, "valid")
    if mode == "same":
        starts = [(size - 1 + later) // 2 for size in second.shape]
        for axis, start in enumerate(starts):
            whole = _slice(whole, axis, start, start + first.shape[axis])
    return whole


def _pair(operation: str, in1: ArrayLike, in2: ArrayLike, mode: str) -> tuple[Tensor, Tensor]:
    one_of(operation, "mode", mode, _MODES)
    first, second = tensor(in1), tensor(in2)
    if first.ndim != second.ndim:
        raise ShapeError(
            f"{operation}: the arrays have {first.ndim} and {second.ndim} axes, not equally many."
            " Insert axes of size 1."
        )
    if mode == "valid" and not (
        _contains(first.shape, second.shape) or _contains(second.shape, first.shape)
    ):
        raise ShapeError(
            f"{operation}: in mode 'valid' one array has to be at least as long as the other along"
            f" every axis, got shapes {first.shape} and {second.shape}."
        )
    return first, second


def _chosen(operation: str, axes: int | Sequence[int] | None, rank: int) -> list[int]:
    """The axes along which arrays are convolved, counted from the first one.

    Raises
    ------
    ArgumentError
        There are none, or an axis occurs twice.
    """
    if axes is None:
        return [*range(rank)]
    numbers = integers(axes, operation, "axes")
    chosen = [normalize_axis(axis, rank, operation) for axis in numbers]
    if not chosen or len({*chosen}) < len(chosen):
        raise ArgumentError(f"{operation}: axes are {numbers}; it needs different axes, and one.")
    return chosen


def _contains(first: Sequence[int], second: Sequence[int]) -> bool:
    return all(a >= b for a, b in zip(first, second, strict=True))


def _mirrored(x: Tensor) -> Tensor:
    return fnp.flip(x) if x.ndim else x


def _slice(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    return x[(slice(None),) * axis + (slice(start, stop),)]


def _direct(first: Tensor, second: Tensor) -> Tensor:
    """All sums of products; the shorter array slides over the longer one."""
    if first.size < second.size:
        first, second = second, first
    if first.ndim == 1:
        return fnp.convolve(first, second)
    dtype = np.result_type(first.dtype, second.dtype)
    padded = fnp.pad(first.astype(dtype), [(size - 1, size - 1) for size in second.shape])
    ones = (1,) * first.ndim
    sums = apply(
        slide,
        padded[None, None],
        _mirrored(second.astype(dtype))[None, None],
        strides=ones,
        dilations=ones,
        groups=1,
    )
    return sums[0, 0]


def _cut(
    whole: Tensor,
    first: Sequence[int],
    second: Sequence[int],
    mode: str,
    axes: Sequence[int] | None = None,
) -> Tensor:
    """The centre of a full convolution, of the size of the first array, or its valid places."""
    if mode == "full":
        return whole
    for axis in range(whole.ndim) if axes is None else axes:
        long, short = first[axis], second[axis]
        size = long if mode == "same" else long - short + 1
        start = (whole.shape[axis] - size) // 2
        whole = _slice(whole, axis, start, start + size)
    return whole


def _smooth(size: int) -> int:
    """The least length from a size on whose only prime factors are 2, 3 and 5."""
    best = 1 << max(size - 1, 0).bit_length()
    for threes in range(math.ceil(math.log(max(size, 2), 3)) + 1):
        for fives in range(math.ceil(math.log(max(size, 2), 5)) + 1):
            odd = 3**threes * 5**fives
            twos = max(0, math.ceil(math.log2(size / odd))) if size > odd else 0
            if size <= odd << twos < best:
                best = odd << twos
    return best
