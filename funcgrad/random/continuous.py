"""Continuous distributions, whose samples are differentiable with respect to parameters.

>>> from funcgrad.random.keys import key
>>> uniform(key(0), (2,))
Tensor([0.08723912, 0.85597221])
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._core.specs import ShapeLike
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad._primitives.random_bits import (
    bits_to_exponential,
    bits_to_gumbel,
    bits_to_open_uniform,
)
from funcgrad._primitives.special import ndtr, ndtri, portable_log
from funcgrad._primitives.structural import cast
from funcgrad.random.parameters import exponential_of, may_hold, parameter, require, scaled
from funcgrad.random.philox import as_dtype, as_shape, draw, standard_normal, standard_uniform
from funcgrad.tensor.tensor import Tensor, apply1, wrap

_FAR: Final = -37.0
"""Below this value the normal distribution function loses digits; at -38.5 it underflows to 0."""


@answering
def uniform(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike = np.float64,
    minval: ArrayLike = 0.0,
    maxval: ArrayLike = 1.0,
) -> Tensor:
    """Draw from the uniform distribution over ``[minval, maxval)``.

    Parameters
    ----------
    key : key
    shape : int or tuple of int
    dtype : dtype
        One of float16, float32 and float64. Samples of [0, 1) are multiples of 2**-11, 2**-24 and
        2**-53.
    minval, maxval : array_like
        Bounds, which broadcast to ``shape``. Unless they are the default, rounding may make a
        sample equal to ``maxval``.

    Returns
    -------
    Tensor

    Raises
    ------
    ArgumentError
        ``minval`` exceeds ``maxval``.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> uniform(key(0), (2,), minval=-1.0)
    Tensor([-0.82552175,  0.71194441])
    """
    wanted = as_dtype(dtype, "f", "uniform", key)
    numbers = standard_uniform(key, as_shape(shape, "uniform"), wanted, "uniform")
    if type(minval) is float and type(maxval) is float and (minval, maxval) == (0.0, 1.0):
        return numbers
    require(lambda low, high: low <= high, "uniform", "minval <= maxval", minval, maxval)
    low = parameter(minval, wanted, "uniform", "minval", numbers.shape)
    high = parameter(maxval, wanted, "uniform", "maxval", numbers.shape)
    return low + numbers * (high - low)


@answering
def normal(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike = np.float64,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
) -> Tensor:
    """Draw from a normal distribution.

    Parameters
    ----------
    key : key
    shape : int or tuple of int
    dtype : dtype
        A real or complex dtype. The real and imaginary parts of complex numbers are independent,
        with half of the variance each.
    loc, scale : array_like
        Mean and standard deviation; they broadcast to ``shape``.

    Returns
    -------
    Tensor

    Raises
    ------
    ArgumentError
        ``scale`` is negative.

    Notes
    -----
    Samples are computed by the inverse of the distribution function, AS241, in operations that
    every machine rounds alike. All are within 8.3 standard deviations of the mean.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> normal(key(0), (2,))
    Tensor([-1.35795411,  1.0623968 ])
    """
    wanted = as_dtype(dtype, "fc", "normal", key)
    numbers = standard_normal(key, as_shape(shape, "normal"), wanted, "normal")
    return scaled(numbers, loc, scale, wanted, "normal")


@answering
def exponential(
    key: ArrayLike, shape: ShapeLike = (), dtype: DTypeLike = np.float64, scale: ArrayLike = 1.0
) -> Tensor:
    """Draw from the exponential distribution, with density ``exp(-x / scale) / scale`` for x > 0.

    Parameters
    ----------
    key : key
    shape : int or tuple of int
    dtype : dtype
        A real dtype.
    scale : array_like
        The mean; it broadcasts to ``shape``.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> exponential(key(0), (2,))
    Tensor([2.43910238, 0.15551737])
    """
    wanted = as_dtype(dtype, "f", "exponential", key)
    size = as_shape(shape, "exponential")
    numbers = draw(bits_to_exponential, key, size, wanted, "exponential")
    return scaled(numbers, 0.0, scale, wanted, "exponential")


@answering
def gumbel(
    key: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike = np.float64,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
) -> Tensor:
    """Draw from the Gumbel distribution, with distribution function ``exp(-exp(-x))``.

    Parameters
    ----------
    key : key
    shape : int or tuple of int
    dtype : dtype
        A real dtype.
    loc, scale : array_like
        Mode and scale; they broadcast to ``shape``.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> gumbel(key(0), (2,))
    Tensor([-0.8916301 ,  1.86099784])
    """
    wanted = as_dtype(dtype, "f", "gumbel", key)
    numbers = draw(bits_to_gumbel, key, as_shape(shape, "gumbel"), wanted, "gumbel")
    return scaled(numbers, loc, scale, wanted, "gumbel")


@answering
def truncated_normal(
    key: ArrayLike,
    lower: ArrayLike,
    upper: ArrayLike,
    shape: ShapeLike = (),
    dtype: DTypeLike = np.float64,
) -> Tensor:
    """Draw from the standard normal distribution, truncated to an interval.

    Parameters
    ----------
    key : key
    lower, upper : array_like
        Bounds, which may be infinite; they broadcast to ``shape``. Samples are differentiable with
        respect to them.
    shape : int or tuple of int
    dtype : dtype
        A real dtype.

    Returns
    -------
    Tensor

    Raises
    ------
    ArgumentError
        ``lower`` is not below ``upper``.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> truncated_normal(key(0), 3.0, np.inf, (2,))
    Tensor([3.6775035, 3.0470555])
    """
    wanted = as_dtype(dtype, "f", "truncated_normal", key)
    require(lambda low, high: low < high, "truncated_normal", "lower < upper", lower, upper)
    double, size = np.dtype(np.float64), as_shape(shape, "truncated_normal")
    u = draw(bits_to_open_uniform, key, size, double, "truncated_normal")
    low = parameter(lower, double, "truncated_normal", "lower", u.shape)
    high = parameter(upper, double, "truncated_normal", "upper", u.shape)
    # Probabilities of the left tail are small and keep all digits; probabilities of the right tail
    # are nearly 1 and lose them. So intervals right of the centre are mirrored.
    mirror = low > 0
    low, high = fnp.where(mirror, -high, low), fnp.where(mirror, -low, high)
    start, end = apply1(ndtr, low), apply1(ndtr, high)
    numbers = fnp.clip(apply1(ndtri, start + u * (end - start)), low, high)
    far = high < _FAR
    if may_hold(far):
        near, distant = fnp.where(far, -high, -_FAR), fnp.where(far, -low, 1.0 - _FAR)
        numbers = fnp.where(far, fnp.clip(-_in_tail(u, near, distant), low, high), numbers)
    return wrap(cast(fnp.where(mirror, -numbers, numbers), dtype=wanted))


def _in_tail(u: Tensor, near: Tensor, distant: Tensor) -> Tensor:
    """The z between two bounds above 37 that is exceeded with the conditional probability u.

    The tail Q has ``log Q(z) = -z**2 / 2 - log(z) + g(1 / z**2)`` up to a constant, with the series
    g. The tails at the bounds may underflow, but their ratio does not. Newton's method finds d in
    ``z = near (1 + d)``, starting with the first term.
    """
    square = 1 / near / near
    width = fnp.minimum(distant - near, 1500 / near)  # the tail beyond that is 0
    ratio = 1 + width / near
    inner, outer = _tail_series(square), _tail_series(square / (ratio * ratio))
    drop = width * (near + width / 2) + apply1(portable_log, ratio)
    beyond = exponential_of(outer - inner - drop)
    level = -apply1(portable_log, beyond + u * (1 - beyond))

    first = 2 * level * square
    d = first / (1 + fnp.sqrt(1 + first))
    for _ in range(2):
        shrunk = square / ((1 + d) * (1 + d))
        curve = apply1(portable_log, 1 + d) + inner - _tail_series(shrunk) - level
        d = d - (d * (2 + d) + 2 * square * curve) / (2 * (1 + d) + 2 * square / (1 + d))
    return near * (1 + d)


def _tail_series(v: Tensor) -> Tensor:
    """The logarithm of ``1 - v + 3 v**2 - 15 v**3 + 105 v**4`` (Abramowitz and Stegun, 26.2.12)."""
    return v * (-1 + v * (5 / 2 + v * (-37 / 3 + v * (353 / 4))))
