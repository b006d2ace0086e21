"""Distributions with quantiles in closed form: one random word makes one sample.

>>> from funcgrad.random.keys import key
>>> cauchy(key(0), 2)
Tensor([-3.55688831,  2.05713362])
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import ShapeLike
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad._primitives.random_bits import (
    bits_to_cauchy,
    bits_to_exponential,
    bits_to_laplace,
    bits_to_logistic,
    bits_to_normal,
    bits_to_open_uniform,
)
from funcgrad._primitives.special import portable_log
from funcgrad._primitives.structural import cast
from funcgrad.random.parameters import drawn_shape, exponential_of, parameter, require, scaled
from funcgrad.random.philox import as_dtype, draw
from funcgrad.random.rejection import DOUBLE
from funcgrad.tensor.tensor import Tensor, apply1, wrap


@answering
def laplace(
    key: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.float64,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
) -> Tensor:
    """Draw from the Laplace distribution, with density ``exp(-abs(x - loc) / scale) / (2 scale)``.

    Parameters
    ----------
    key : key
    shape : int or tuple of int, optional
        By default the shape to which ``loc`` and ``scale`` broadcast.
    dtype : dtype
        A real dtype.
    loc, scale : array_like
        Mean and scale, which broadcast to ``shape``; samples are differentiable with respect to
        both.

    Returns
    -------
    Tensor

    Raises
    ------
    ArgumentError
        ``scale`` is negative.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> laplace(key(0), 2)
    Tensor([-1.7459552 ,  1.24460181])
    """
    return _by_quantile(bits_to_laplace, "laplace", key, shape, dtype, loc, scale)


@answering
def logistic(
    key: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.float64,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
) -> Tensor:
    """Draw from the logistic distribution, with the sigmoid as distribution function.

    Parameters
    ----------
    key, shape, dtype, loc, scale
        As for ``laplace``.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> logistic(key(0), 2)
    Tensor([-2.34782104,  1.78223162])
    """
    return _by_quantile(bits_to_logistic, "logistic", key, shape, dtype, loc, scale)


@answering
def cauchy(
    key: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.float64,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
) -> Tensor:
    """Draw from the Cauchy distribution, with density ``1 / (pi (1 + x**2))``.

    Parameters
    ----------
    key, shape, dtype, loc, scale
        As for ``laplace``; the distribution has no mean, and ``loc`` is its median.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> cauchy(key(0), 2)
    Tensor([-3.55688831,  2.05713362])
    """
    return _by_quantile(bits_to_cauchy, "cauchy", key, shape, dtype, loc, scale)


def _by_quantile(
    quantile: Primitive,
    operation: str,
    key: ArrayLike,
    shape: ShapeLike | None,
    dtype: DTypeLike,
    loc: ArrayLike,
    scale: ArrayLike,
) -> Tensor:
    wanted = as_dtype(dtype, "f", operation, key)
    size = drawn_shape(shape, operation, loc=loc, scale=scale)
    return scaled(draw(quantile, key, size, wanted, operation), loc, scale, wanted, operation)


@answering
def lognormal(
    key: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.float64,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
) -> Tensor:
    """Draw from the log-normal distribution: exponentials of normal variables.

    Parameters
    ----------
    key, shape, dtype
        As for ``laplace``.
    loc, scale : array_like
        Mean and standard deviation of the logarithm; samples are differentiable with respect to
        both.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> lognormal(key(0), 2)
    Tensor([0.25718642, 2.89329735])
    """
    wanted = as_dtype(dtype, "f", "lognormal", key)
    size = drawn_shape(shape, "lognormal", loc=loc, scale=scale)
    normal = draw(bits_to_normal, key, size, DOUBLE, "lognormal")
    numbers = exponential_of(scaled(normal, loc, scale, DOUBLE, "lognormal"))
    return wrap(cast(numbers, dtype=wanted))


@answering
def weibull(
    key: ArrayLike,
    a: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.float64,
    scale: ArrayLike = 1.0,
) -> Tensor:
    """Draw from the Weibull distribution: exponential variables to the power ``1 / a``.

    Parameters
    ----------
    key : key
    a : array_like
        Above 0; samples are differentiable with respect to ``a``.
    shape, dtype
        As for ``laplace``; by default the shape to which the parameters broadcast.
    scale : array_like

    Returns
    -------
    Tensor

    Raises
    ------
    ArgumentError
        ``a`` is not positive, or ``scale`` negative.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> weibull(key(0), 2.0, 2)
    Tensor([1.56176259, 0.39435691])
    """

    def power(waited: Tensor, a: Tensor) -> Tensor:
        return exponential_of(apply1(portable_log, waited) / a)

    return _from_waiting(power, "weibull", key, shape, dtype, scale, a=a)


@answering
def pareto(
    key: ArrayLike,
    b: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.float64,
    scale: ArrayLike = 1.0,
) -> Tensor:
    """Draw from the Pareto distribution, with density ``b / x**(b + 1)`` for x > 1.

    Parameters
    ----------
    key : key
    b : array_like
        Above 0; samples are differentiable with respect to ``b``. NumPy's generators subtract 1.
    shape, dtype
        As for ``laplace``; by default the shape to which the parameters broadcast.
    scale : array_like
        The minimum of the distribution.

    Returns
    -------
    Tensor

    Raises
    ------
    ArgumentError
        ``b`` is not positive, or ``scale`` negative.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> pareto(key(0), 3.0, 2)
    Tensor([2.25473878, 1.05320629])
    """

    def power(waited: Tensor, b: Tensor) -> Tensor:
        return exponential_of(waited / b)

    return _from_waiting(power, "pareto", key, shape, dtype, scale, b=b)


@answering
def rayleigh(
    key: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.float64,
    scale: ArrayLike = 1.0,
) -> Tensor:
    """Draw from the Rayleigh distribution: lengths of vectors of two normal variables.

    Parameters
    ----------
    key, shape, dtype
        As for ``laplace``.
    scale : array_like
        The standard deviation of the normal variables; samples are differentiable with respect to
        it.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> rayleigh(key(0), 2)
    Tensor([2.20866583, 0.55770489])
    """
    return _from_waiting(lambda waited: fnp.sqrt(2 * waited), "rayleigh", key, shape, dtype, scale)


@answering
def triangular(
    key: ArrayLike,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.float64,
) -> Tensor:
    """Draw from the triangular distribution, whose density rises to the mode and falls again.

    Parameters
    ----------
    key : key
    left, mode, right : array_like
        The minimum, the mode and the maximum: ``left <= mode <= right``. Samples are differentiable
        with respect to all three.
    shape, dtype
        As for ``laplace``; by default the shape to which the parameters broadcast.

    Returns
    -------
    Tensor

    Raises
    ------
    ArgumentError
        The parameters are not in order.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> triangular(key(0), 0.0, 1.0, 4.0, 2)
    Tensor([0.5907254 , 2.68533901])
    """
    name = "triangular"
    wanted = as_dtype(dtype, "f", name, key)
    corners = {"left": left, "mode": mode, "right": right}
    require(
        lambda left, mode, right: (left <= mode) & (mode <= right),
        *(name, "left <= mode <= right", left, mode, right),
    )
    size = drawn_shape(shape, name, **corners)
    low, top, high = [parameter(x, DOUBLE, name, word, size) for word, x in corners.items()]
    u = draw(bits_to_open_uniform, key, size, DOUBLE, name)
    rises = u * (high - low) < top - low
    # The root of the side that is not chosen might be 0, where its slope is infinite.
    rise = fnp.where(rises, u * (high - low) * (top - low), 1.0)
    fall = fnp.where(rises, 1.0, (1.0 - u) * (high - low) * (high - top))
    is_point = fall == 0
    fall = fnp.where(is_point, 0.0, fnp.sqrt(fnp.where(is_point, 1.0, fall)))
    x = fnp.where(rises, low + fnp.sqrt(rise), high - fall)
    return wrap(cast(x, dtype=wanted))


def _from_waiting(
    number: Callable[..., Tensor],
    operation: str,
    key: ArrayLike,
    shape: ShapeLike | None,
    dtype: DTypeLike,
    scale: ArrayLike,
    **positive: ArrayLike,
) -> Tensor:
    """Draw exponential variables, transform them with positive parameters, and scale the result."""
    wanted = as_dtype(dtype, "f", operation, key)
    for name, value in positive.items():
        require(lambda x: x > 0, operation, f"{name} > 0", value)
    size = drawn_shape(shape, operation, **positive, scale=scale)
    waited = draw(bits_to_exponential, key, size, DOUBLE, operation)
    values = [parameter(x, DOUBLE, operation, name, size) for name, x in positive.items()]
    numbers = scaled(number(waited, *values), 0.0, scale, DOUBLE, operation)
    return wrap(cast(numbers, dtype=wanted))
