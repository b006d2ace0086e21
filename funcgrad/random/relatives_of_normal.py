"""Relatives of the normal distribution: lengths, powers, balls, and times of first passage.

>>> from funcgrad.random.keys import key
>>> maxwell(key(0), 2)
Tensor([3.88663861, 0.63550543])
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._core.specs import ShapeLike, shape_of
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.random_bits import bits_to_exponential, bits_to_normal
from funcgrad._primitives.special import portable_log
from funcgrad._primitives.special_functions.error_functions import erfcx
from funcgrad._primitives.structural import cast
from funcgrad._transforms.custom import custom_jvp
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ShapeError
from funcgrad.numpy.options import natural
from funcgrad.random.gamma_family import loggamma
from funcgrad.random.parameters import drawn_shape, exponential_of, parameter, require, scaled
from funcgrad.random.philox import as_dtype, as_shape
from funcgrad.random.rejection import DOUBLE, inner_keys, open_uniform, words_of
from funcgrad.tensor.tensor import Tensor, apply, apply1, wrap

_MILLS: Final = math.sqrt(math.pi / 2)


def _signs(words: Tensor) -> Tensor:
    """One or minus one, from the highest bit of each word."""
    return fnp.where(words >> np.uint64(63) == 0, 1.0, -1.0)


def _power(logarithms: Tensor, exponent: Tensor) -> Tensor:
    """Powers, from logarithms."""
    return exponential_of(logarithms / exponent)


@answering
def maxwell(
    key: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.float64,
    scale: ArrayLike = 1.0,
) -> Tensor:
    """Draw from the Maxwell distribution: lengths of vectors of three normal variables.

    Parameters
    ----------
    key : key
    shape : int or tuple of int, optional
        By default the shape of ``scale``.
    dtype : dtype
        A real dtype.
    scale : array_like
        The standard deviation of the normal variables; samples are differentiable with respect to
        it. The mean is ``2 * sqrt(2 / pi) * scale``.

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
    >>> maxwell(key(0), 2)
    Tensor([3.88663861, 0.63550543])
    """
    wanted = as_dtype(dtype, "f", "maxwell", key)
    size = drawn_shape(shape, "maxwell", scale=scale)
    (inner,) = inner_keys(key, 1, "maxwell")
    x: Tensor = apply(bits_to_normal, words_of(inner, (*size, 3)), dtype=DOUBLE)
    length = fnp.sqrt(x[..., 0] * x[..., 0] + x[..., 1] * x[..., 1] + x[..., 2] * x[..., 2])
    return wrap(cast(scaled(length, 0.0, scale, DOUBLE, "maxwell"), dtype=wanted))


@answering
def generalized_normal(
    key: ArrayLike,
    p: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.float64,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
) -> Tensor:
    """Draw from the generalized normal distribution, with density ∝ ``exp(-abs(x) ** p)``.

    With ``p=1`` it is the Laplace distribution, with ``p=2`` the normal distribution of variance
    1/2, and for large ``p`` it is nearly uniform over [-1, 1].

    Parameters
    ----------
    key : key
    p : array_like
        The exponent, above 0 and finite. Samples are differentiable with respect to ``p``, which
        needs SciPy, as for ``gamma``.
    shape : int or tuple of int, optional
        By default the shape to which the parameters broadcast.
    dtype : dtype
        A real dtype.
    loc, scale : array_like
        Samples are ``loc + scale * x``; differentiable.

    Returns
    -------
    Tensor

    Raises
    ------
    ArgumentError
        ``p`` is not positive and finite, or ``scale`` is negative.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> generalized_normal(key(0), 4.0, 2)
    Tensor([ 0.55141109, -0.61441936])
    """
    name = "generalized_normal"
    wanted = as_dtype(dtype, "f", name, key)
    require(lambda p: (p > 0) & (p < math.inf), name, "0 < p < inf", p)
    size = drawn_shape(shape, name, p=p, loc=loc, scale=scale)
    exponent = parameter(p, DOUBLE, name, "p", size)
    first, second = inner_keys(key, 2, name)
    x = _signs(words_of(first, size)) * _power(loggamma(second, 1.0 / exponent, size), exponent)
    return wrap(cast(scaled(x, loc, scale, DOUBLE, name), dtype=wanted))


@answering
def ball(
    key: ArrayLike, d: int, p: ArrayLike = 2.0, shape: ShapeLike = (), dtype: DTypeLike = np.float64
) -> Tensor:
    """Draw points uniformly from the inside of a unit ball.

    Parameters
    ----------
    key : key
    d : int
        The dimension.
    p : array_like, shape ()
        The ball holds the points with ``sum(abs(x) ** p) <= 1``; above 0 and finite. It is 2 for
        the usual ball, and 1 for the octahedron.
    shape : int or tuple of int
        The shape of the array of points: the result without its last axis.
    dtype : dtype
        A real dtype.

    Returns
    -------
    Tensor of shape (*shape, d)

    Raises
    ------
    ArgumentError
        ``p`` is not positive and finite.
    ShapeError
        ``p`` is not a single number.

    Notes
    -----
    Barthe, Guédon, Mendelson, Naor, "A probabilistic approach to the geometry of the l_p^n-ball",
    Annals of Probability 33, 2005.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> ball(key(0), 3)
    Tensor([ 0.65466968, -0.53248384,  0.49010376])
    """
    wanted = as_dtype(dtype, "f", "ball", key)
    require(lambda p: (p > 0) & (p < math.inf), "ball", "0 < p < inf", p)
    if shape_of(operand(p, "ball")):
        raise ShapeError("ball: p has to be one number; for several balls, use fg.vmap.")
    exponent = parameter(p, DOUBLE, "ball", "p", ())
    lead = as_shape(shape, "ball")
    size = as_shape((*lead, natural(d, "ball", "d")), "ball")
    first, second, third = inner_keys(key, 3, "ball")
    logarithms = loggamma(first, 1.0 / exponent, size)
    beyond: Tensor = apply(bits_to_exponential, words_of(second, lead), dtype=DOUBLE)
    powers = exponential_of(logarithms)
    # A sum in this order is the same on every machine.
    total = beyond + (fnp.cumsum(powers, axis=-1)[..., -1] if size[-1] else 0.0)
    relative = logarithms - apply1(portable_log, total)[..., None]
    x = _signs(words_of(third, size)) * _power(relative, exponent)
    return wrap(cast(x, dtype=wanted))


@custom_jvp
def _inverse_gaussian(ratio: Tensor, y: Tensor) -> Tensor:
    """An inverse Gaussian variable of mean 1, with its derivative with respect to the shape."""
    return y


@_inverse_gaussian.defjvp
def _inverse_gaussian_derivative(
    primals: tuple[Tensor, Tensor], tangents: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    """A variable keeps its probability as the shape changes.

    With b = sqrt(ratio / y) (y + 1) and Mills' ratio m of the normal distribution, minus dF/dratio
    over the density is ``y / ratio - 2 m(b) y**1.5 / sqrt(ratio)``.
    """
    ratio, y = primals[0], _inverse_gaussian(*primals)
    root = fnp.sqrt(ratio)
    side = root / fnp.sqrt(y) * (y + 1.0) * math.sqrt(0.5)
    slope = y / ratio - 2.0 * _MILLS * apply1(erfcx, side) * y * fnp.sqrt(y) / root
    return y, slope * tangents[0] + tangents[1]


@answering
def wald(
    key: ArrayLike,
    mean: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.float64,
    scale: ArrayLike = 1.0,
) -> Tensor:
    """Draw from the Wald distribution, also called inverse Gaussian.

    It is the time at which a Brownian motion with drift first reaches a height. The variance is
    ``mean ** 3 / scale``.

    Parameters
    ----------
    key : key
    mean, scale : array_like
        Above 0; samples are differentiable with respect to both to every order, which needs SciPy.
    shape : int or tuple of int, optional
        By default the shape to which the parameters broadcast.
    dtype : dtype
        A real dtype.

    Returns
    -------
    Tensor

    Raises
    ------
    ArgumentError
        A parameter is not positive.
    MissingPackageError
        A derivative is computed, and SciPy is not installed.

    Notes
    -----
    Michael, Schucany, Haas, "Generating random variates using transformations with multiple roots",
    The American Statistician 30, 1976. The derivative keeps the value of the distribution function,
    as for ``gamma``.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> wald(key(0), 2.0, 2)
    Tensor([21.40481441,  0.55382585])
    """
    wanted = as_dtype(dtype, "f", "wald", key)
    require(lambda mean: mean > 0, "wald", "mean > 0", mean)
    require(lambda scale: scale > 0, "wald", "scale > 0", scale)
    size = drawn_shape(shape, "wald", mean=mean, scale=scale)
    centre = parameter(mean, DOUBLE, "wald", "mean", size)
    ratio = parameter(scale, DOUBLE, "wald", "scale", size) / centre
    (inner,) = inner_keys(key, 1, "wald")
    words = words_of(inner, (*size, 2))
    x: Tensor = apply(bits_to_normal, words[..., 0], dtype=DOUBLE)
    excess = x * x / (2.0 * stop_gradient(ratio))
    lesser = 1.0 / (1.0 + excess + fnp.sqrt(excess * (excess + 2.0)))
    y = fnp.where(open_uniform(words[..., 1]) <= 1.0 / (1.0 + lesser), lesser, 1.0 / lesser)
    return wrap(cast(centre * _inverse_gaussian(ratio, y), dtype=wanted))
