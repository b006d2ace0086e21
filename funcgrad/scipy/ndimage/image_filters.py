"""Filters with given weights: Gaussian and uniform means, and differences.

>>> uniform_filter1d([0.0, 3.0, 0.0, 0.0], 3)
Tensor([1., 1., 1., 0.])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._core.specs import normalize_axis
from funcgrad._core.users_values import Setting, operand
from funcgrad.errors import ArgumentError
from funcgrad.numpy.options import integer, natural, real_number
from funcgrad.scipy.ndimage.array_filters import filtered_along
from funcgrad.scipy.ndimage.boundaries import Modes, axes_of, image_of, per_axis
from funcgrad.tensor.tensor import ArrayLike, Tensor


def gaussian_filter1d(
    input: ArrayLike,
    sigma: ArrayLike,
    axis: int = -1,
    order: int = 0,
    output: DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | None = None,
) -> Tensor:
    """The mean along an axis with the weights of a normal distribution, or a derivative.

    Parameters
    ----------
    input : array_like
        Real or complex; integers become float64, unlike in SciPy.
    sigma : scalar
        The standard deviation; differentiable. Without ``radius`` its value decides how many
        elements count, so `jit` stages again for every value.
    axis : int
    order : int
        0 for the mean, k for its k-th derivative.
    output : dtype, optional
        The precision; by default as in the image.
    mode : str
        How the image goes on beyond its edges, see `correlate`.
    cval : scalar
        The value beyond the edges for "constant".
    truncate : float
        The number of standard deviations up to which weights count.
    radius : int, optional
        The number of elements on each side up to which weights count, instead.

    Returns
    -------
    Tensor, of the shape of the image

    Raises
    ------
    ArgumentError, ShapeError, DtypeError
        An option is unknown or negative.

    Examples
    --------
    >>> import funcgrad as fg
    >>> gaussian_filter1d([0.0, 1.0, 0.0], 0.5, radius=1)
    Tensor([0.10650698, 0.78698604, 0.10650698])
    >>> fg.grad(lambda s: gaussian_filter1d([0.0, 1.0, 0.0], s, radius=1)[1])(0.5)
    Tensor(-1.341...)
    """
    name = "gaussian_filter1d"
    return _gaussian(
        name, image_of(name, input, output), sigma, axis, order, mode, cval, truncate, radius
    )


def _gaussian(
    name: str,
    image: Tensor,
    sigma: ArrayLike,
    axis: int,
    order: int,
    mode: str,
    cval: ArrayLike,
    truncate: float,
    radius: int | None,
) -> Tensor:
    if radius is None:
        width = real_number(sigma, name, "sigma")
        widths = real_number(truncate, name, "truncate")
        reach = widths * width + 0.5
        if not np.isfinite(reach) or int(reach) < 0:
            raise ArgumentError(
                f"{name}: sigma and truncate have to be positive numbers, not {width} and {widths}."
            )
        count = int(reach)
    else:
        count = natural(radius, name, "radius")
    weights = _gaussian_weights(sigma, natural(order, name, "order"), count)
    return filtered_along(name, image, fnp.flip(weights), axis, mode, cval, 0)


def _gaussian_weights(sigma: ArrayLike, order: int, radius: int) -> Tensor:
    """Normalized values of exp(-x²/2σ²), times the polynomial of its derivative of an order."""
    x = np.arange(-radius, radius + 1).astype(np.float64)
    width = fnp.asarray(operand(sigma, "sigma")).astype(np.float64)
    inverse = 1.0 / (width * width)
    bell = fnp.exp(-0.5 * inverse * x**2)
    bell = bell / fnp.sum(bell)
    # The k-th derivative is a polynomial p times the function: p' - x p / σ² comes next.
    polynomial = [fnp.ones(())]
    for _ in range(order):
        slope = [power * factor for power, factor in enumerate(polynomial)][1:]
        longer = [fnp.zeros(()), *[-inverse * factor for factor in polynomial]]
        slope += [fnp.zeros(())] * (len(longer) - len(slope))
        polynomial = [a + b for a, b in zip(longer, slope, strict=True)]
    value: Any = 0.0
    for factor in reversed(polynomial):
        value = value * x + factor
    return bell * value


def gaussian_filter(
    input: ArrayLike,
    sigma: Setting,
    order: int | Sequence[int] = 0,
    output: DTypeLike | None = None,
    mode: Modes = "reflect",
    cval: ArrayLike = 0.0,
    truncate: float = 4.0,
    *,
    radius: int | Sequence[int] | None = None,
    axes: int | Sequence[int] | None = None,
) -> Tensor:
    """The mean with the weights of a normal distribution along all axes, or derivatives.

    Parameters
    ----------
    input, output, cval, truncate
        As for `gaussian_filter1d`.
    sigma, order, mode, radius
        As for `gaussian_filter1d`: one for all axes or one for each. An axis whose sigma is 0 is
        not filtered.
    axes : int or sequence of int, optional
        The axes that are filtered; by default all.

    Returns
    -------
    Tensor, of the shape of the image

    Examples
    --------
    >>> gaussian_filter(np.eye(3), 0.5, radius=1)[0]
    Tensor([0.80967352, 0.17898275, 0.01134374])
    """
    name = "gaussian_filter"
    image = image_of(name, input, output)
    chosen = axes_of(name, axes, image.ndim)
    count = len(chosen)
    options = zip(
        chosen,
        per_axis(name, "sigma", sigma, count),
        per_axis(name, "order", order, count),
        per_axis(name, "mode", mode, count),
        per_axis(name, "radius", radius, count),
        strict=True,
    )
    for axis, width, degree, one_mode, reach in options:
        if isinstance(width, int | float) and width <= 1e-15:
            continue
        image = _gaussian(name, image, width, axis, degree, one_mode, cval, truncate, reach)
    return image


def uniform_filter1d(
    input: ArrayLike,
    size: int,
    axis: int = -1,
    output: DTypeLike | None = None,
    mode: str = "reflect",
    cval: ArrayLike = 0.0,
    origin: int = 0,
) -> Tensor:
    """The mean of neighbouring elements along an axis.

    Parameters
    ----------
    input, axis, output, mode, cval
        As for `gaussian_filter1d`.
    size : int
        The number of elements.
    origin : int
        How far they are moved from their middle.

    Returns
    -------
    Tensor, of the shape of the image

    Raises
    ------
    ArgumentError
        The size is not positive, or the origin lies outside.

    Examples
    --------
    >>> uniform_filter1d([1.0, 2.0, 4.0], 2)
    Tensor([1. , 1.5, 3. ])
    """
    name = "uniform_filter1d"
    return _uniform(name, image_of(name, input, output), size, axis, mode, cval, origin)


def _uniform(
    name: str, image: Tensor, size: int, axis: int, mode: str, cval: ArrayLike, origin: int
) -> Tensor:
    count = integer(size, name, "size")
    if count < 1:
        raise ArgumentError(f"{name}: the size has to be positive, not {count}.")
    return filtered_along(name, image, np.full(count, 1.0 / count), axis, mode, cval, origin)


def uniform_filter(
    input: ArrayLike,
    size: int | Sequence[int] = 3,
    output: DTypeLike | None = None,
    mode: Modes = "reflect",
    cval: ArrayLike = 0.0,
    origin: int | Sequence[int] = 0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Tensor:
    """The mean of neighbouring elements along all axes.

    Parameters
    ----------
    input, output, cval
        As for `uniform_filter1d`.
    size, mode, origin
        As for `uniform_filter1d`: one for all axes or one for each.
    axes : int or sequence of int, optional
        The axes that are filtered; by default all.

    Returns
    -------
    Tensor, of the shape of the image

    Examples
    --------
    >>> uniform_filter(np.eye(2), 2)
    Tensor([[1. , 0.5],
            [0.5, 0.5]])
    """
    name = "uniform_filter"
    image = image_of(name, input, output)
    chosen = axes_of(name, axes, image.ndim)
    options = zip(
        chosen,
        per_axis(name, "size", size, len(chosen)),
        per_axis(name, "mode", mode, len(chosen)),
        per_axis(name, "origin", origin, len(chosen)),
        strict=True,
    )
    for axis, count, one_mode, place in options:
        if integer(count, name, "size") != 1:
            image = _uniform(name, image, count, axis, one_mode, cval, place)
    return image


def sobel(
    input: ArrayLike,
    axis: int = -1,
    output: DTypeLike | None = None,
    mode: Modes = "reflect",
    cval: ArrayLike = 0.0,
) -> Tensor:
    """Differences along an axis, added over neighbours with the weights 1, 2, 1.

    Parameters
    ----------
    input, axis, output, mode, cval
        As for `gaussian_filter1d`; ``mode`` may be one for each axis.

    Returns
    -------
    Tensor, of the shape of the image

    Examples
    --------
    >>> sobel([[0.0, 1.0, 3.0], [0.0, 1.0, 3.0]])
    Tensor([[ 4., 12.,  8.],
            [ 4., 12.,  8.]])
    """
    return _difference("sobel", input, axis, output, mode, cval, (1.0, 2.0, 1.0))


def prewitt(
    input: ArrayLike,
    axis: int = -1,
    output: DTypeLike | None = None,
    mode: Modes = "reflect",
    cval: ArrayLike = 0.0,
) -> Tensor:
    """Differences along an axis, added over neighbours with equal weights.

    Parameters
    ----------
    input, axis, output, mode, cval
        As for `gaussian_filter1d`; ``mode`` may be one for each axis.

    Returns
    -------
    Tensor, of the shape of the image

    Examples
    --------
    >>> prewitt([[0.0, 1.0, 3.0], [0.0, 1.0, 3.0]])
    Tensor([[3., 9., 6.],
            [3., 9., 6.]])
    """
    return _difference("prewitt", input, axis, output, mode, cval, (1.0, 1.0, 1.0))


def _difference(
    name: str,
    input: ArrayLike,
    axis: int,
    output: DTypeLike | None,
    mode: Modes,
    cval: ArrayLike,
    across: tuple[float, float, float],
) -> Tensor:
    image = image_of(name, input, output)
    place = normalize_axis(integer(axis, name, "axis"), image.ndim, name)
    modes = per_axis(name, "mode", mode, image.ndim)
    image = filtered_along(name, image, (-1.0, 0.0, 1.0), place, modes[place], cval, 0)
    for other in range(image.ndim):
        if other != place:
            image = filtered_along(name, image, across, other, modes[other], cval, 0)
    return image


def laplace(
    input: ArrayLike,
    output: DTypeLike | None = None,
    mode: Modes = "reflect",
    cval: ArrayLike = 0.0,
    *,
    axes: int | Sequence[int] | None = None,
) -> Tensor:
    """The sum of second differences along all axes.

    Parameters
    ----------
    input, output, mode, cval
        As for `gaussian_filter1d`; ``mode`` may be one for each axis.
    axes : int or sequence of int, optional
        The axes that count; by default all.

    Returns
    -------
    Tensor, of the shape of the image

    Examples
    --------
    >>> laplace([0.0, 1.0, 4.0, 9.0])
    Tensor([ 1.,  2.,  2., -5.])
    """
    name = "laplace"
    image = image_of(name, input, output)

    def along(axis: int, one_mode: str) -> Tensor:
        return filtered_along(name, image, (1.0, -2.0, 1.0), axis, one_mode, cval, 0)

    return _summed(name, image, mode, axes, along)


def gaussian_laplace(
    input: ArrayLike,
    sigma: Setting,
    output: DTypeLike | None = None,
    mode: Modes = "reflect",
    cval: ArrayLike = 0.0,
    *,
    axes: int | Sequence[int] | None = None,
    truncate: float = 4.0,
    radius: int | Sequence[int] | None = None,
) -> Tensor:
    """The sum of second derivatives of a Gaussian mean along all axes.

    Parameters
    ----------
    input, sigma, output, cval, axes, truncate, radius
        As for `gaussian_filter`.
    mode : str or sequence of str
        For each second derivative the mode of all axes.

    Returns
    -------
    Tensor, of the shape of the image

    Examples
    --------
    >>> gaussian_laplace([0.0, 0.0, 1.0, 0.0, 0.0], 1.0)[2]
    Tensor(-0.39894347)
    """
    name = "gaussian_laplace"
    image = image_of(name, input, output)
    chosen = axes_of(name, axes, image.ndim)

    def along(axis: int, one_mode: str) -> Tensor:
        orders = [2 if other == axis else 0 for other in chosen]
        return gaussian_filter(
            image, sigma, orders, None, one_mode, cval, truncate, radius=radius, axes=chosen
        )

    return _summed(name, image, mode, chosen, along)


def gaussian_gradient_magnitude(
    input: ArrayLike,
    sigma: Setting,
    output: DTypeLike | None = None,
    mode: Modes = "reflect",
    cval: ArrayLike = 0.0,
    *,
    axes: int | Sequence[int] | None = None,
    truncate: float = 4.0,
    radius: int | Sequence[int] | None = None,
) -> Tensor:
    """The length of the gradient of a Gaussian mean; where it is 0, so is its derivative.

    Parameters
    ----------
    input, sigma, output, mode, cval, axes, truncate, radius
        As for `gaussian_laplace`.

    Returns
    -------
    Tensor, of the shape of the image

    Examples
    --------
    >>> gaussian_gradient_magnitude([0.0, 0.0, 0.0, 1.0, 1.0, 1.0], 1.0)[2]
    Tensor(0.36378461)
    """
    name = "gaussian_gradient_magnitude"
    image = image_of(name, input, output)
    chosen = axes_of(name, axes, image.ndim)

    def along(axis: int, one_mode: str) -> Tensor:
        orders = [1 if other == axis else 0 for other in chosen]
        slope = gaussian_filter(
            image, sigma, orders, None, one_mode, cval, truncate, radius=radius, axes=chosen
        )
        return slope * slope

    square = _summed(name, image, mode, chosen, along)
    is_flat = square == 0.0
    return fnp.where(is_flat, 0.0, fnp.sqrt(fnp.where(is_flat, 1.0, square)))


def _summed(
    name: str,
    image: Tensor,
    mode: Modes,
    axes: int | Sequence[int] | None,
    along: Callable[[int, str], Tensor],
) -> Tensor:
    """The sum of a filter's results along the axes; without axes the image."""
    chosen = axes_of(name, axes, image.ndim)
    modes = per_axis(name, "mode", mode, len(chosen))
    total: Tensor | None = None
    for axis, one_mode in zip(chosen, modes, strict=True):
        term = along(axis, one_mode)
        total = term if total is None else total + term
    return image if total is None else total
