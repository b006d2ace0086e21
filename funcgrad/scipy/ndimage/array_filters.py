"""Correlations and convolutions of images with weights.

>>> correlate1d([0.0, 1.0, 2.0, 3.0], [-1.0, 0.0, 1.0])
Tensor([1., 2., 2., 1.])
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._core.specs import normalize_axis, shape_of
from funcgrad._core.users_values import operand
from funcgrad._primitives.convolution import convolve as sliding_products
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.numpy.options import integer
from funcgrad.scipy.ndimage.boundaries import axes_of, extended, image_of, mode_of, per_axis
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap


def correlate(
    input: ArrayLike,
    weights: ArrayLike,
    output: DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Tensor:
    """The correlation of an image with weights, of the size of the image.

    Parameters
    ----------
    input : array_like
        Real or complex; integers become float64, unlike in SciPy.
    weights : array_like
        With as many axes as ``axes``. Complex weights are conjugated.
    output : dtype, optional
        The precision; by default as in the image.
    mode : str
        How the image goes on beyond its edges: "reflect" (d c b a | a b c d | d c b a, also
        "grid-mirror"), "mirror" (d c b | a b c d | c b a), "nearest" (a a a | a b c d | d d d),
        "wrap" (a b c d | a b c d | a b c d, also "grid-wrap") or "constant" (``cval``, also
        "grid-constant").
    cval : scalar
        The value beyond the edges for "constant"; differentiable.
    origin : int or sequence of int
        How far the weights are moved from their middle, for each axis.
    axes : int or sequence of int, optional
        The axes that are filtered; by default all. The axes of the weights belong to them from the
        first axis of the image to the last, the origins in the order of ``axes``, as in SciPy.

    Returns
    -------
    Tensor, of the shape of the image

    Raises
    ------
    ShapeError, ArgumentError, DtypeError
        The weights do not fit, an origin lies outside of them, or an option is unknown.

    Examples
    --------
    >>> correlate([[1.0, 2.0], [3.0, 4.0]], [[0.0, 1.0], [0.0, 0.0]])
    Tensor([[1., 2.],
            [1., 2.]])
    """
    name = "correlate"
    image, kernel = image_of(name, input, output), image_of(name, weights)
    kernel, origins = _placed(name, image, kernel, origin, axes)
    kernel = fnp.conj(kernel) if kernel.dtype.kind == "c" else kernel
    return _filtered(name, image, kernel, mode, cval, origins)


def convolve(
    input: ArrayLike,
    weights: ArrayLike,
    output: DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Tensor:
    """The convolution of an image with weights: a correlation with reversed weights.

    Parameters
    ----------
    input, weights, output, mode, cval, origin, axes
        As for `correlate`; complex weights are not conjugated.

    Returns
    -------
    Tensor, of the shape of the image

    Examples
    --------
    >>> convolve([0.0, 1.0, 0.0, 0.0], [1.0, 2.0, 3.0])
    Tensor([1., 2., 3., 0.])
    """
    name = "convolve"
    image, kernel = image_of(name, input, output), image_of(name, weights)
    kernel, origins = _placed(name, image, kernel, origin, axes)
    return _filtered(name, image, fnp.flip(kernel), mode, cval, _reversed(kernel, origins))


def correlate1d(
    input: ArrayLike,
    weights: ArrayLike,
    axis: int = -1,
    output: DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int = 0,
) -> Tensor:
    """The correlation of an image with weights along one axis.

    Parameters
    ----------
    input, output, mode, cval
        As for `correlate`.
    weights : array_like, shape (k,)
    axis : int
    origin : int
        How far the weights are moved from their middle.

    Returns
    -------
    Tensor, of the shape of the image

    Examples
    --------
    >>> correlate1d([1.0, 2.0, 4.0], [1.0, 1.0, 0.0], mode="constant")
    Tensor([1., 3., 6.])
    """
    name = "correlate1d"
    image, kernel = image_of(name, input, output), image_of(name, weights)
    kernel, origins = _placed(name, image, kernel, origin, axis)
    kernel = fnp.conj(kernel) if kernel.dtype.kind == "c" else kernel
    return _filtered(name, image, kernel, mode, cval, origins)


def convolve1d(
    input: ArrayLike,
    weights: ArrayLike,
    axis: int = -1,
    output: DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int = 0,
) -> Tensor:
    """The convolution of an image with weights along one axis.

    Parameters
    ----------
    input, weights, axis, output, mode, cval, origin
        As for `correlate1d`.

    Returns
    -------
    Tensor, of the shape of the image

    Examples
    --------
    >>> convolve1d([0.0, 1.0, 0.0, 0.0], [1.0, 2.0, 3.0])
    Tensor([1., 2., 3., 0.])
    """
    name = "convolve1d"
    image, kernel = image_of(name, input, output), image_of(name, weights)
    kernel, origins = _placed(name, image, kernel, origin, axis)
    return _filtered(name, image, fnp.flip(kernel), mode, cval, _reversed(kernel, origins))


def _placed(
    name: str,
    image: Tensor,
    kernel: Tensor,
    origin: int | Sequence[int],
    axes: int | Sequence[int] | None,
) -> tuple[Tensor, list[int]]:
    """Weights with an axis for each axis of the image, and their origins."""
    chosen = axes_of(name, axes, image.ndim)
    if kernel.ndim != len(chosen) or not prod(kernel.shape):
        raise ShapeError(
            f"{name}: the weights need {len(chosen)} axes and at least one element; their shape is"
            f" {kernel.shape}, and the image has {image.shape}."
        )
    given_origins = per_axis(name, "origin", origin, len(chosen))
    origins = [0] * image.ndim
    for axis, number in zip(chosen, given_origins, strict=True):
        origins[axis] = integer(number, name, "origin")
    sizes = iter(kernel.shape)
    shape = [next(sizes) if axis in chosen else 1 for axis in range(image.ndim)]
    return fnp.reshape(kernel, tuple(shape)), origins


def _reversed(kernel: Tensor, origins: list[int]) -> list[int]:
    """The origins of reversed weights."""
    return [
        -origin if size % 2 else -origin - 1
        for size, origin in zip(kernel.shape, origins, strict=True)
    ]


def _filtered(
    name: str,
    image: Tensor,
    kernel: Tensor,
    mode: str | Sequence[str],
    cval: ArrayLike,
    origins: Sequence[int],
) -> Tensor:
    """The correlation of an image with weights of the same number of axes.

    Raises
    ------
    ArgumentError
        An origin lies outside of the weights, or a mode is unknown.
    """
    modes = [mode_of(name, m) for m in per_axis(name, "mode", mode, image.ndim)]
    widths = []
    for size, origin in zip(kernel.shape, origins, strict=True):
        before = size // 2 + origin
        if not 0 <= before < size:
            raise ArgumentError(
                f"{name}: the origin lies outside of the {size} weights: it is at least"
                f" {-(size // 2)} and at most {(size - 1) // 2}."
            )
        widths.append((before, size - 1 - before))
    if shape_of(operand(cval, name)):
        raise ShapeError(f"{name}: cval has to be one number, got {cval!r}.")
    if not image.size:
        return image
    if kernel.dtype.kind != "c" or image.dtype.kind == "c":
        kernel = kernel.astype(image.dtype)
    else:
        kernel = kernel.astype(np.result_type(image.dtype, np.complex64))
    around = extended(image, widths, modes, cval)
    products = sliding_products(
        operand(around[None, None], name),
        operand(kernel[None, None], name),
        strides=(1,) * image.ndim,
        dilations=(1,) * image.ndim,
        groups=1,
    )
    return wrap(products)[0, 0]


def filtered_along(
    name: str, image: Tensor, weights: ArrayLike, axis: int, mode: str, cval: ArrayLike, origin: int
) -> Tensor:
    """The correlation of an image with real weights along one axis."""
    place = normalize_axis(integer(axis, name, "axis"), image.ndim, name)
    kernel = fnp.asarray(weights)
    shape = [1] * image.ndim
    shape[place] = kernel.shape[0]
    origins = [0] * image.ndim
    origins[place] = integer(origin, name, "origin")
    return _filtered(name, image, fnp.reshape(kernel, tuple(shape)), mode, cval, origins)
