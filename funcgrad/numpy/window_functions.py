"""Window functions for signals: weights that decrease towards both ends.

They depend on an integer length only, except the Kaiser window, which has a parameter.

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

# The mean of exp(x cos φ) over a circle, by the trapezoidal rule. Its error is a sum of Bessel
# functions of orders 256 and more (L. N. Trefethen and J. A. C. Weideman, The Exponentially
# Convergent Trapezoidal Rule, 2014), and is invisible until exp(x) overflows. Mirror images are
# counted together, so that all terms of all derivatives have one sign.
_QUARTER: Final = read_only(np.arange(64) * (np.pi / 128))
_WEIGHTS: Final = read_only(np.where(_QUARTER == 0, 1 / 128, 1 / 64))
_COSINES: Final = read_only(np.cos(_QUARTER))
_REST: Final = 1 / 128  # the share of the points where the cosine is 0


def bartlett(M: SupportsFloat) -> Tensor:
    """The Bartlett (triangular) window, with zeros at its ends.

    Parameters
    ----------
    M : int
        The number of weights; the result is empty if it is less than 1.

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
    """The Blackman window: three cosine terms, for little leakage.

    Examples
    --------
    >>> blackman(3).round(2)
    Tensor([-0.,  1., -0.])
    """
    return _window(np.blackman, M, "blackman")


def hamming(M: SupportsFloat) -> Tensor:
    """The Hamming window: a raised cosine with small first side lobes, nonzero at its ends.

    Examples
    --------
    >>> hamming(3)
    Tensor([0.08, 1.  , 0.08])
    """
    return _window(np.hamming, M, "hamming")


def hanning(M: SupportsFloat) -> Tensor:
    """The Hann window: a raised cosine with zeros at its ends.

    Examples
    --------
    >>> hanning(3)
    Tensor([0., 1., 0.])
    """
    return _window(np.hanning, M, "hanning")


def i0(x: ArrayLike) -> Tensor:
    """The modified Bessel function of the first kind and of order 0.

    The value and derivatives of any order are exact to the last digits, up to 713, where it
    overflows. It is a sum of 64 terms; ``jit``, even with ``exact=True``, may add them in another
    order and change the last bit.

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
    """The Kaiser window, which concentrates nearly all energy in its main lobe.

    Parameters
    ----------
    M : int
        The number of weights.
    beta : number
        How fast the weights decrease; differentiable.

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
