"""The gamma distribution and its relatives: beta, Dirichlet, chi-square, Student's t.

>>> from funcgrad.random.keys import key
>>> gamma(key(0), [0.5, 2.0, 50.0])
Tensor([2.37867845e-04, 7.98365403e-01, 5.72755222e+01])

Samples are drawn as logarithms (Marsaglia, Tsang, "A simple method for generating gamma variables",
ACM TOMS 26, 2000), so that small shapes do not underflow before quotients are formed.

A sample y accepted for the shape a keeps its probability F(a, y) as the shape changes, so its
derivative is ``-(dF/da) / (dF/dy)``: Figurnov, Mohamed, Mnih, "Implicit reparameterization
gradients", NeurIPS 2018. F is ``fg.scipy.special.gammainc``, which can be differentiated again.
"""

from __future__ import annotations

import math
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._core.specs import Shape, ShapeLike, shape_of
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.random_bits import bits_to_normal
from funcgrad._primitives.special import portable_log
from funcgrad._primitives.special_functions.gammas import psi
from funcgrad._primitives.special_functions.incomplete_gammas import (
    gamma_density,
    gammainc_in_shape,
)
from funcgrad._primitives.structural import cast
from funcgrad._transforms.custom import custom_jvp
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ShapeError
from funcgrad.random.parameters import (
    drawn_shape,
    exponential_of,
    may_hold,
    parameter,
    require,
    scaled,
)
from funcgrad.random.philox import as_dtype
from funcgrad.random.rejection import DOUBLE, inner_keys, open_uniform, rejected, words_of
from funcgrad.tensor.tensor import Tensor, apply, apply1, wrap

_TINY: Final = -40.0
"""Below this logarithm, adding a number to 1 leaves 1."""

_LARGE: Final = 1e10
"""Above this shape the omitted terms of an expansion are below rounding."""

_FARTHEST: Final = 9.0
"""A bound in standard deviations that no word of 64 bits exceeds, except by rounding errors."""

_GREATEST: Final = float(np.finfo(np.float64).max)
"""A finite replacement of infinite derivatives, so that 0 times one is 0."""

_Pair: TypeAlias = tuple[Tensor, Tensor]


@custom_jvp
def _with_derivative(a: Tensor, y: Tensor) -> Tensor:
    """The logarithm of a gamma variable, with its derivative with respect to the shape."""
    return y


@_with_derivative.defjvp
def _derivative(primals: _Pair, tangents: _Pair) -> _Pair:
    y = _with_derivative(*primals)
    return y, _slopes(primals[0], y)[0] * tangents[0] + tangents[1]


@custom_jvp
def _excess(a: Tensor, y: Tensor) -> Tensor:
    """The logarithm of the shape minus the logarithm of the variable.

    Its derivative is computed directly, since both terms' derivatives may be infinite, or cancel.
    """
    return apply1(portable_log, a) - y


@_excess.defjvp
def _excess_derivative(primals: _Pair, tangents: _Pair) -> _Pair:
    slope = _slopes(primals[0], _with_derivative(*primals))[1]
    return _excess(*primals), slope * tangents[0] - tangents[1]


def _slopes(a: Tensor, y: Tensor) -> _Pair:
    """The derivatives of the logarithm y and of ``log(a) - y`` with respect to the shape a.

    The shape times dy/da is a ratio of derivatives of the distribution function. For tiny samples
    the probability is ``exp(a y) / gamma(a + 1)``. For large shapes the Cornish-Fisher expansion is
    used: ``exp(y) = a + z sqrt(a) + (z**2 - 1) / 3 + ...`` with a normal variable z. Shapes 0 and
    infinity give constant samples 0 and infinity.
    """
    positive = (a > 0) & fnp.isfinite(a)
    large, tiny = positive & (a > _LARGE), positive & (y < _TINY)
    shape = fnp.where(positive & ~large, a, 1.0)
    x = fnp.exp(fnp.where(positive & ~large & ~tiny, y, 0.0))
    density = apply(gamma_density, shape + 1, x, order=0)
    ratio = -apply(gammainc_in_shape, shape, x, order=1) / density
    ratio = fnp.where(tiny, apply1(psi, shape + 1) - fnp.where(tiny, y, 0.0), ratio)

    excess = 1 - ratio
    if may_hold(large):
        root = fnp.sqrt(fnp.where(large, a, 1.0))
        above = fnp.where(large, y, 0.0) - fnp.log(fnp.where(large, a, 1.0))
        deviation = fnp.clip(fnp.expm1(above) * root, -_FARTHEST, _FARTHEST)
        z = deviation - (deviation * deviation - 1) / (3 * root)
        whole = 1 + deviation / root
        ratio = fnp.where(large, (1 + z / (2 * root)) / whole, ratio)
        excess = fnp.where(large, (deviation - z / 2) / root / whole, excess)
    divisor = fnp.where(positive, a, 1.0)
    bounded = [fnp.clip(slope / divisor, -_GREATEST, _GREATEST) for slope in (ratio, excess)]
    return fnp.where(positive, bounded[0], 0.0), fnp.where(positive, bounded[1], 0.0)


def _logarithms(inner: Tensor, a: Tensor, shape: Shape) -> Tensor:
    """Draw logarithms of gamma variables, differentiable with respect to ``a``."""
    return _with_derivative(a, _levels(inner, a, shape))


def _levels(inner: Tensor, a: Tensor, shape: Shape) -> Tensor:
    """Draw logarithms of gamma variables, without derivatives."""
    parameters = stop_gradient(a)
    usual = (parameters > 0) & fnp.isfinite(parameters)
    constant = fnp.maximum(fnp.where(usual, parameters, 1.0), 1e-300)
    small = constant < 1
    d = fnp.where(small, constant + 1, constant) - 1 / 3
    c = 1 / fnp.sqrt(9 * d)

    def attempt(words: Tensor) -> tuple[Tensor, Tensor]:
        x: Tensor = apply(bits_to_normal, words[..., 0], dtype=DOUBLE)
        root = 1 + c * x
        outside = root <= 0
        cube = fnp.where(outside, 1.0, root * root * root)
        bound = 0.5 * x * x + d * (1 - cube + apply1(portable_log, cube))
        level = apply1(portable_log, open_uniform(words[..., 1]))
        return apply1(portable_log, d * cube), outside | (level > bound)

    y = rejected(inner, shape, 2, attempt)
    # A variable of shape a is a variable of shape a + 1 times a uniform one to the power 1 / a.
    exponent = apply1(portable_log, open_uniform(words_of(inner, shape)))
    y = fnp.where(small, y + exponent / fnp.where(small, constant, 1.0), y)
    limit = fnp.where(parameters == 0, -math.inf, fnp.where(parameters > 0, math.inf, math.nan))
    return stop_gradient(fnp.where(usual, y, limit))


def _drawn(
    key: ArrayLike, a: ArrayLike, shape: ShapeLike | None, operation: str, **others: ArrayLike
) -> _Pair:
    """Draw logarithms; also return their shape parameters."""
    require(lambda a: a >= 0, operation, "a >= 0", a)
    size = drawn_shape(shape, operation, a=a, **others)
    (inner,) = inner_keys(key, 1, operation)
    shapes = parameter(a, DOUBLE, operation, "a", size)
    return shapes, _logarithms(inner, shapes, size)


def _numbers(shapes: Tensor, logarithms: Tensor) -> Tensor:
    """Gamma variables, from their logarithms; infinite shapes have the derivative 1."""
    endless = shapes == math.inf
    usual = exponential_of(fnp.where(endless, 0.0, logarithms))
    return fnp.where(endless, shapes, usual)


def _rounded(x: Tensor, dtype: np.dtype[Any]) -> Tensor:
    return wrap(cast(x, dtype=dtype))


@answering
def gamma(
    key: ArrayLike,
    a: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.float64,
    scale: ArrayLike = 1.0,
) -> Tensor:
    """Draw from the gamma distribution, with density ``x**(a - 1) * exp(-x) / gamma(a)`` for x > 0.

    Parameters
    ----------
    key : key
    a : array_like
        The shape parameter. Samples of shape 0 are 0.
    shape : int or tuple of int, optional
        The shape of the result; by default the shape of the parameters, which broadcast to it.
    dtype : dtype
        A real dtype. Samples are computed in float64, and rounded.
    scale : array_like

    Returns
    -------
    Tensor
        Differentiable to every order with respect to ``a`` (which needs SciPy) and ``scale``.

    Raises
    ------
    ArgumentError
        A parameter is negative or NaN. If it is traced, the sample is NaN instead.
    MissingPackageError
        A derivative with respect to ``a`` is computed, and SciPy is not installed.

    See Also
    --------
    loggamma : logarithms, for small shapes whose samples underflow.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> gamma(key(0), 2.0, 3)
    Tensor([1.13784993, 0.7983654 , 3.37886393])
    """
    wanted = as_dtype(dtype, "f", "gamma", key)
    numbers = _numbers(*_drawn(key, a, shape, "gamma", scale=scale))
    return _rounded(scaled(numbers, 0.0, scale, DOUBLE, "gamma"), wanted)


@answering
def loggamma(
    key: ArrayLike, a: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = np.float64
) -> Tensor:
    """Draw logarithms of gamma variables: ``log(gamma(key, a))``, without underflow.

    Half of the variables of shape 1e-3 are below 1e-300.

    Parameters
    ----------
    key, a, shape, dtype
        As for ``gamma``.

    Returns
    -------
    Tensor
        Differentiable with respect to ``a``, see ``gamma``.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> loggamma(key(0), 1e-4, 2)
    Tensor([-4.01796620e+04, -1.05722197e+01])
    """
    wanted = as_dtype(dtype, "f", "loggamma", key)
    return _rounded(_drawn(key, a, shape, "loggamma")[1], wanted)


@answering
def chisquare(
    key: ArrayLike, df: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = np.float64
) -> Tensor:
    """Draw from the chi-square distribution: a sum of ``df`` squares of normal variables.

    Parameters
    ----------
    key : key
    df : array_like
        Degrees of freedom, at least 0; differentiable, see ``gamma``.
    shape, dtype
        As for ``gamma``.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> chisquare(key(0), 3.0, 2)
    Tensor([1.46972836, 0.94539211])
    """
    wanted = as_dtype(dtype, "f", "chisquare", key)
    require(lambda df: df >= 0, "chisquare", "df >= 0", df)
    size = drawn_shape(shape, "chisquare", df=df)
    half = parameter(df, DOUBLE, "chisquare", "df", size) / 2
    return _rounded(2 * _numbers(*_drawn(key, half, size, "chisquare")), wanted)


@answering
def t(
    key: ArrayLike,
    df: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.float64,
    loc: ArrayLike = 0.0,
    scale: ArrayLike = 1.0,
) -> Tensor:
    """Draw from Student's t-distribution, with ``df`` degrees of freedom.

    Parameters
    ----------
    key : key
    df : array_like
        Degrees of freedom, above 0. With infinity the samples are normal.
    shape, dtype
        As for ``gamma``.
    loc, scale : array_like

    Returns
    -------
    Tensor
        Differentiable with respect to all parameters; for ``df`` see ``gamma``.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> t(key(0), 5.0, 2)
    Tensor([-1.759997  ,  3.14707644])
    """
    wanted = as_dtype(dtype, "f", "t", key)
    require(lambda df: df > 0, "t", "df > 0", df)
    size = drawn_shape(shape, "t", df=df, loc=loc, scale=scale)
    first, second = inner_keys(key, 2, "t")
    normal: Tensor = apply(bits_to_normal, words_of(first, size), dtype=DOUBLE)
    freedom = parameter(df, DOUBLE, "t", "df", size)
    endless = freedom == math.inf
    half = fnp.where(endless, 1.0, freedom) / 2
    half = fnp.where(half == 0, freedom, half)  # half of the smallest float is 0
    excess = _excess(half, _levels(second, half, size))
    root = exponential_of(fnp.where(endless, 0.0, excess / 2))
    return _rounded(scaled(normal * root, loc, scale, DOUBLE, "t"), wanted)


@answering
def f(
    key: ArrayLike,
    dfnum: ArrayLike,
    dfden: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.float64,
) -> Tensor:
    """Draw from the F distribution: a ratio of two mean squares of normal variables.

    Parameters
    ----------
    key : key
    dfnum, dfden : array_like
        Degrees of freedom of the numerator and of the denominator, above 0 and finite;
        differentiable, see ``gamma``.
    shape, dtype
        As for ``gamma``.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> f(key(0), 3.0, 10.0, 2)
    Tensor([0.37175713, 0.3090755 ])
    """
    wanted = as_dtype(dtype, "f", "f", key)
    freedoms = {"dfnum": dfnum, "dfden": dfden}
    for name, x in freedoms.items():
        require(lambda x: (x > 0) & (x < math.inf), "f", f"0 < {name} < inf", x)
    size = drawn_shape(shape, "f", **freedoms)
    halves = [parameter(x, DOUBLE, "f", name, size) / 2 for name, x in freedoms.items()]
    pairs = zip(inner_keys(key, 2, "f"), halves, strict=True)
    above, below = [_excess(half, _levels(inner, half, size)) for inner, half in pairs]
    return _rounded(exponential_of(below - above), wanted)


def _shares(logarithms: Tensor) -> Tensor:
    """The share of each element in the sum along the last axis, in the same order on every machine.

    Elements are divided by the greatest first, which counts as constant, as do equal infinite ones.
    """
    place = fnp.argmax(logarithms, axis=-1, keepdims=True)
    greatest = fnp.take_along_axis(logarithms, place, axis=-1)
    infinite = fnp.isinf(greatest)
    measures = (fnp.arange(logarithms.shape[-1]) == place) | (infinite & (logarithms == greatest))
    relative = fnp.where(measures, 0.0, logarithms) - fnp.where(measures, 0.0, greatest)
    numbers = exponential_of(relative)
    return numbers / fnp.cumsum(numbers, axis=-1)[..., -1:]


@answering
def beta(
    key: ArrayLike,
    a: ArrayLike,
    b: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.float64,
) -> Tensor:
    """Draw from the beta distribution, with density ``x**(a - 1) (1 - x)**(b - 1) / B(a, b)``.

    Parameters
    ----------
    key : key
    a, b : array_like
        Above 0; infinite parameters give the limits.
    shape, dtype
        As for ``gamma``.

    Returns
    -------
    Tensor
        Samples from 0 to 1; small parameters give samples that round to 0 and 1. Differentiable
        with respect to ``a`` and ``b`` through two gamma variables, see ``gamma``.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> beta(key(0), 2.0, 3.0, 2)
    Tensor([0.42911188, 0.73394663])
    """
    wanted = as_dtype(dtype, "f", "beta", key)
    require(lambda a: a > 0, "beta", "a > 0", a)
    require(lambda b: b > 0, "beta", "b > 0", b)
    size = drawn_shape(shape, "beta", a=a, b=b)
    both = [parameter(x, DOUBLE, "beta", name, size) for name, x in (("a", a), ("b", b))]
    pairs = fnp.stack([fnp.broadcast_to(x, size) for x in both], axis=-1)
    (inner,) = inner_keys(key, 1, "beta")
    return _rounded(_shares(_logarithms(inner, pairs, (*size, 2)))[..., 0], wanted)


@answering
def dirichlet(
    key: ArrayLike, alpha: ArrayLike, shape: ShapeLike | None = None, dtype: DTypeLike = np.float64
) -> Tensor:
    """Draw from the Dirichlet distribution: vectors of probabilities that sum to 1.

    Parameters
    ----------
    key : key
    alpha : array_like
        Concentrations, above 0, along the last axis.
    shape : int or tuple of int, optional
        The shape without the last axis; by default taken from ``alpha``, which broadcasts to it.
    dtype : dtype
        A real one.

    Returns
    -------
    Tensor
        Differentiable with respect to ``alpha``, see ``gamma``. For tiny concentrations the
        greatest share is 1, and no share is NaN.

    Raises
    ------
    ShapeError
        ``alpha`` has no axis, or an empty last one.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> dirichlet(key(0), [1.0, 2.0, 3.0])
    Tensor([0.06051883, 0.13581622, 0.80366495])
    """
    wanted = as_dtype(dtype, "f", "dirichlet", key)
    require(lambda alpha: alpha > 0, "dirichlet", "alpha > 0", alpha)
    lengths = shape_of(operand(alpha, "dirichlet"))
    if not lengths or not lengths[-1]:
        raise ShapeError(
            "dirichlet: alpha needs a last axis with one concentration for each share; its shape"
            f" is {lengths}."
        )
    if shape is None:
        size = lengths
    else:
        size = (*drawn_shape(shape, "dirichlet"), lengths[-1])
    concentrations = parameter(alpha, DOUBLE, "dirichlet", "alpha", size)
    (inner,) = inner_keys(key, 1, "dirichlet")
    return _rounded(_shares(_logarithms(inner, concentrations, size)), wanted)
