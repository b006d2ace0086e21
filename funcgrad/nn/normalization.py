"""Normalizations: arrays with mean 0 and variance 1 along chosen axes, then scaled and shifted.

>>> layer_norm([1.0, 3.0], epsilon=0.0)
Tensor([-1.,  1.])

Constant rows become 0, even with ``epsilon=0``; then their derivatives are 0. Half precision is
normalized in single precision. A row whose squares overflow is scaled first.
"""

from __future__ import annotations

from typing import SupportsIndex

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.specs import AxisLike, Shape, broadcasts_to, normalize_axes, normalize_axis
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad._primitives.logits import real_value
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.numpy.options import integer, real_number
from funcgrad.scipy.precision import real_numbers
from funcgrad.tensor.tensor import Tensor, wrap


@answering
def layer_norm(
    x: ArrayLike,
    scale: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    *,
    axis: AxisLike = -1,
    epsilon: float = 1e-5,
) -> Tensor:
    """Layer normalization: ``(x - mean) / sqrt(variance + epsilon) * scale + bias``.

    Each example gets mean 0 and variance 1 over its features, whatever the other examples of the
    batch are. ``LayerNorm`` is the layer.

    Parameters
    ----------
    x : array_like
        Real.
    scale, bias : array_like, optional
        They broadcast to the shape of ``x``.
    axis : int or tuple of int
        The axes of the mean and the variance.
    epsilon : float
        At least 0.

    Returns
    -------
    Tensor
        The shape of ``x``.

    Raises
    ------
    ShapeError
        The scale or the bias does not broadcast to the shape of ``x``.
    ArgumentError
        ``epsilon`` is negative.

    Notes
    -----
    Ba, Kiros, Hinton, "Layer normalization", arXiv:1607.06450 (2016).

    Examples
    --------
    >>> layer_norm([[1.0, 3.0], [5.0, 5.0]], bias=[0.0, 10.0], epsilon=0.0)
    Tensor([[-1., 11.],
            [ 0., 10.]])
    """
    value = wrap(real_value(x, "layer_norm"))
    axes = normalize_axes(axis, value.ndim, "layer_norm")
    return scaled(standardized(value, axes, epsilon, "layer_norm"), scale, bias, "layer_norm")


@answering
def standardize(
    x: ArrayLike,
    axis: AxisLike = -1,
    *,
    mean: ArrayLike | None = None,
    variance: ArrayLike | None = None,
    epsilon: float = 1e-5,
    where: ArrayLike | None = None,
) -> Tensor:
    """Subtract a mean and divide by a standard deviation: ``(x - mean) / sqrt(var + epsilon)``.

    Parameters
    ----------
    x : array_like
        Real.
    axis : int or tuple of int
        The axes of the mean and the variance that are not passed.
    mean, variance : array_like, optional
        Known ones, such as of the training data; they broadcast to the shape of ``x``.
    epsilon : float
        At least 0.
    where : array_like of bool, optional
        The elements that count in the mean and in the variance; it broadcasts to ``x``.

    Returns
    -------
    Tensor
        The shape of ``x``.

    See Also
    --------
    layer_norm : with a scale and a bias.

    Examples
    --------
    >>> standardize([1.0, 3.0], epsilon=0.0)
    Tensor([-1.,  1.])
    >>> standardize([1.0, 3.0, 100.0], epsilon=0.0, where=[True, True, False])
    Tensor([-1.,  1., 98.])
    """
    value = wrap(real_value(x, "standardize"))
    axes = normalize_axes(axis, value.ndim, "standardize")
    small = checked_epsilon(epsilon, "standardize")
    if mean is None and variance is None and where is None:
        return standardized(value, axes, small, "standardize")
    options = {} if where is None else {"where": where}
    if mean is None:
        mean = fnp.mean(value, axes, keepdims=True, **options)
    above = value - real_value(mean, "standardize")
    if variance is None:
        variance = fnp.mean(above * above, axes, keepdims=True, **options)
    size = fnp.sqrt(wrap(real_value(variance, "standardize")) + small)
    return (above / size).astype(value.dtype)


@answering
def rms_norm(
    x: ArrayLike, scale: ArrayLike | None = None, *, axis: AxisLike = -1, epsilon: float = 1e-6
) -> Tensor:
    """Root mean square normalization: ``x / sqrt(mean(x**2) + epsilon) * scale``.

    Like ``layer_norm``, without the subtraction of the mean. ``RMSNorm`` is the layer.

    Parameters
    ----------
    x : array_like
        Real.
    scale : array_like, optional
        They broadcast to the shape of ``x``.
    axis : int or tuple of int
        The axes of the mean.
    epsilon : float
        At least 0.

    Returns
    -------
    Tensor
        The shape of ``x``.

    Raises
    ------
    ShapeError
        The scale does not broadcast to the shape of ``x``.
    ArgumentError
        ``epsilon`` is negative.

    Notes
    -----
    Zhang, Sennrich, "Root mean square layer normalization", NeurIPS 2019.

    Examples
    --------
    >>> rms_norm([1.0, -1.0, 1.0, -1.0], epsilon=0.0)
    Tensor([ 1., -1.,  1., -1.])
    """
    value = wrap(real_value(x, "rms_norm"))
    axes = normalize_axes(axis, value.ndim, "rms_norm")
    return scaled(_divided(value, axes, epsilon, "rms_norm"), scale, None, "rms_norm")


@answering
def group_norm(
    x: ArrayLike,
    groups: int,
    scale: ArrayLike | None = None,
    bias: ArrayLike | None = None,
    *,
    axis: SupportsIndex = 1,
    epsilon: float = 1e-5,
) -> Tensor:
    """Group normalization: mean 0 and variance 1 of groups of channels of each example.

    The mean and the variance of a group are taken over its channels and all following axes. The
    result is multiplied by ``scale`` and shifted by ``bias``. ``GroupNorm`` is the layer.

    Parameters
    ----------
    x : array_like, shape (batch, channels, *sizes)
        Real.
    groups : int
        A divisor of the number of channels. One group normalizes all channels together; as many
        groups as channels normalize each channel by itself (instance normalization).
    scale, bias : array_like, shape (channels,), optional
    axis : int
        The axis of the channels; axes before it are batch axes.
    epsilon : float
        At least 0.

    Returns
    -------
    Tensor
        The shape of ``x``.

    Raises
    ------
    ShapeError
        The channels cannot be divided into the groups, or the scale does not have one value for
        each channel.
    ArgumentError
        ``epsilon`` is negative.

    Notes
    -----
    Wu, He, "Group normalization", ECCV 2018.

    Examples
    --------
    >>> group_norm([[1.0, 3.0, 7.0, 7.0]], 2, epsilon=0.0)
    Tensor([[-1.,  1.,  0.,  0.]])
    """
    value, parts = wrap(real_value(x, "group_norm")), integer(groups, "group_norm", "groups")
    place = normalize_axis(axis, value.ndim, "group_norm")
    shape = value.shape
    if parts < 1 or shape[place] % parts:
        raise ShapeError(
            f"group_norm: {shape[place]} channels, on axis {place} of an array of shape {shape},"
            f" cannot be divided into {parts} groups."
        )
    split = (*shape[:place], parts, shape[place] // parts, *shape[place + 1 :])
    axes = tuple(range(place + 1, len(split)))
    normal = standardized(value.reshape(split), axes, epsilon, "group_norm").reshape(shape)
    factor = _along(scale, shape, place, "group_norm")
    return scaled(normal, factor, _along(bias, shape, place, "group_norm"), "group_norm")


def standardized(value: Tensor, axes: tuple[int, ...], epsilon: float, operation: str) -> Tensor:
    """Subtract the mean along axes, and divide by the standard deviation."""
    wide = widened(value)
    centered = wide - fnp.mean(wide, axis=axes, keepdims=True) if value.size else wide
    return _divided(centered, axes, epsilon, operation).astype(value.dtype)


def checked_epsilon(epsilon: float, operation: str) -> float:
    """Check the epsilon that is added to a variance.

    Raises
    ------
    ArgumentError
        It is negative.
    """
    small = real_number(epsilon, operation, "epsilon")
    if not small >= 0:
        raise ArgumentError(f"{operation}: epsilon has to be at least 0, got {small}.")
    return small


def scaled(
    normal: Tensor, scale: ArrayLike | None, bias: ArrayLike | None, operation: str
) -> Tensor:
    """Multiply by a scale and add a bias; neither may enlarge the array."""
    result = normal
    for name, factor in (("scale", scale), ("bias", bias)):
        if factor is not None:
            result, number = real_numbers(operation, result, factor)
            if not broadcasts_to(number.shape, result.shape):
                raise ShapeError(
                    f"{operation}: the {name} of shape {number.shape} does not broadcast to the"
                    f" shape of x, {result.shape}."
                )
            result = result * number if name == "scale" else result + number
    return result


def _along(factor: ArrayLike | None, shape: Shape, place: int, operation: str) -> Tensor | None:
    """Reshape one factor per channel so that it broadcasts."""
    if factor is None:
        return None
    numbers = wrap(real_value(factor, operation))
    if numbers.shape != (shape[place],):
        raise ShapeError(
            f"{operation}: there are {shape[place]} channels, so a scale or bias has the shape"
            f" ({shape[place]},), got {numbers.shape}."
        )
    return numbers.reshape((-1,) + (1,) * (len(shape) - place - 1)) if numbers.size else numbers


def _divided(value: Tensor, axes: tuple[int, ...], epsilon: float, operation: str) -> Tensor:
    """Divide by the root of the mean square along axes; 0 divided by 0 is 0."""
    small = checked_epsilon(epsilon, operation)
    if not value.size:
        return value
    wide = widened(value)
    scale = _scale(stop_gradient(wide), axes, small == 0)
    wide = wide / scale
    power = fnp.mean(wide * wide, axis=axes, keepdims=True) + small / scale / scale
    if small == 0:
        is_zero = power == 0
        wide, power = fnp.where(is_zero, 0, wide), fnp.where(is_zero, 1, power)
    return (wide / fnp.sqrt(power)).astype(value.dtype)


def _scale(constant: Tensor, axes: tuple[int, ...], matters_when_small: bool) -> Tensor:
    """Return the greatest magnitude along axes where its square over- or underflows, else 1.

    Dividing by it changes neither the quotient nor its derivatives. Finding it takes a sixth of
    the time of a normalization with its gradient.
    """
    limits, largest = np.finfo(constant.dtype), fnp.max(fnp.abs(constant), axes, keepdims=True)
    is_far = (largest > limits.max**0.25) & (largest < np.inf)
    if matters_when_small:
        is_far |= (largest < limits.tiny**0.25) & (largest > 0)
    return fnp.where(is_far, largest, 1)


def widened(value: Tensor) -> Tensor:
    """Convert half precision to single precision."""
    return value.astype(np.float32) if value.dtype == np.float16 else value
