"""Windows for signals: weights that fall off towards both ends.

They are constants of integer lengths, except Kaiser's, which has a parameter.

>>> hanning(5)
Tensor([0. , 0.5, 1. , 0.5, 0. ])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, SupportsFloat

import numpy as np

from funcgrad._core.users_values import operand, read_only
from funcgrad.errors import DtypeError, ShapeError
from funcgrad.numpy.creation import asarray, astype, made
from funcgrad.numpy.exponential import sqrt
from funcgrad.numpy.options import real_number
from funcgrad.numpy.reductions import sum
from funcgrad.numpy.trigonometry import cosh
from funcgrad.tensor.tensor import ArrayLike, Tensor

# The mean of exp(x cos φ) over a circle, by the trapezoidal rule, whose error is that of Bessel
# functions of orders 256 and more (L. N. Trefethen and J. A. C. Weideman, The Exponentially
# Convergent Trapezoidal Rule, 2014): none that shows before exp(x) overflows. Places that are
# mirror images are counted together, so that all terms of all derivatives have one sign.
_QUARTER: Final = read_only(np.arange(64) * (np.pi / 128))
_WEIGHTS: Final = read_only(np.where(_QUARTER == 0, 1 / 128, 1 / 64))
_COSINES: Final = read_only(np.cos(_QUARTER))
_REST: Final = 1 / 128  # of the places where the cosine is 0


def bartlett(M: SupportsFloat) -> Tensor:
    """A triangle with zeros at its ends.

    Parameters
    ----------
    M : int
        The number of weights; none if it is less than 1.

    Returns
    -------
    Tensor, shape (M,)

    Examples
    --------
    >>> bartlett(5)
    Tensor([0. , 0.5, 1. , 0.5, 0. ])
    """
    return _window(np.bartlett, M, "bartlett")


def blackman(M: SupportsFloat) -> Tensor:
    """The first three terms of a sum of cosines, close to the least leakage.

    Examples
    --------
    >>> blackman(3).round(2)
    Tensor([-0.,  1., -0.])
    """
    return _window(np.blackman, M, "blackman")


def hamming(M: SupportsFloat) -> Tensor:
    """A weighted cosine above zero, with the least first side lobe.

    Examples
    --------
    >>> hamming(3)
    Tensor([0.08, 1.  , 0.08])
    """
    return _window(np.hamming, M, "hamming")


def hanning(M: SupportsFloat) -> Tensor:
    """A raised cosine with zeros at its ends.

    Examples
    --------
    >>> hanning(3)
    Tensor([0., 1., 0.])
    """
    return _window(np.hanning, M, "hanning")


def i0(x: ArrayLike) -> Tensor:
    """The modified Bessel function of the first kind and of order 0.

    It is exact to the last digits, and so are its derivatives of any order, up to 713, where it
    overflows. It is a sum of 64 terms: with ``jit``, ``exact=True`` too, sums may be added in
    another order, which the last bit shows.

    Parameters
    ----------
    x : array_like
        Real.

    Returns
    -------
    Tensor
        In the shape of ``x``.

    Raises
    ------
    DtypeError
        The argument is complex.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.grad(i0)(2.0)
    Tensor(1.590636854637329)
    """
    value = asarray(operand(x, "i0"))
    if value.dtype.kind == "c":
        raise DtypeError("i0: x has to be real, not complex.")
    if value.dtype.kind != "f":
        value = astype(value, np.float64)
    kind = value.dtype
    terms = cosh(value[..., None] * _COSINES.astype(kind)) * _WEIGHTS.astype(kind)
    return sum(terms, -1) + kind.type(_REST)


def kaiser(M: SupportsFloat, beta: ArrayLike) -> Tensor:
    """Kaiser's window, close to the one with most energy in its main lobe.

    Parameters
    ----------
    M : int
        The number of weights.
    beta : number
        How fast they fall off; the weights are differentiable in it.

    Returns
    -------
    Tensor, shape (M,)

    Examples
    --------
    >>> import funcgrad as fg
    >>> kaiser(3, 2.0).round(3)
    Tensor([0.439, 1.   , 0.439])
    >>> fg.jacfwd(lambda beta: kaiser(3, beta))(2.0).round(3)
    Tensor([-0.306,  0.   , -0.306])
    """
    length = real_number(M, "kaiser", "M")
    slope = asarray(operand(beta, "kaiser"))
    if slope.ndim or slope.dtype.kind == "c":
        raise ShapeError(f"kaiser: beta has to be a real number, not {slope.dtype} {slope.shape}.")
    slope = astype(slope, np.float64)
    if length == 1:
        return made(np.ones, "kaiser", 1)
    middle = (length - 1) / 2
    places = made(np.arange, "kaiser", 0, length)
    steepness: Tensor = slope * sqrt(1 - ((places - middle) / middle) ** 2)
    return i0(steepness) / i0(slope)


def _window(build: Callable[[float], Any], length: SupportsFloat, operation: str) -> Tensor:
    return made(build, operation, real_number(length, operation, "M"))
