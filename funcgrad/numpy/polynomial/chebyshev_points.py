"""Interpolation at the places of Chebyshev's polynomials.

>>> chebinterpolate(lambda x: x**2 + x, 2).round(6)
Tensor([0.5, 1. , 0.5])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.numpy import creation
from funcgrad.numpy.functional import check_callable
from funcgrad.numpy.polynomial.bases import Basis, limited
from funcgrad.numpy.polynomial.recurrences import CHEBYSHEV
from funcgrad.tensor.tensor import ArrayLike, Tensor


def chebpts1(npts: int) -> Tensor:
    """The zeros of the polynomial of degree ``npts``.

    Examples
    --------
    >>> chebpts1(2).round(6)
    Tensor([-0.707107,  0.707107])
    """
    return creation.asarray(np.polynomial.chebyshev.chebpts1(_at_least(npts, "chebpts1", 1)))


def chebpts2(npts: int) -> Tensor:
    """The places of the extrema of the polynomial of degree ``npts - 1``.

    Examples
    --------
    >>> chebpts2(2)
    Tensor([-1.,  1.])
    """
    return creation.asarray(np.polynomial.chebyshev.chebpts2(_at_least(npts, "chebpts2", 2)))


def _at_least(npts: int, operation: str, least: int) -> int:
    count = limited(npts, operation, "npts")
    if count < least:
        raise ShapeError(f"{operation}: npts has to be at least {least}, but is {count}.")
    return count


def chebinterpolate(func: Callable[..., ArrayLike], deg: int, args: Sequence[Any] = ()) -> Tensor:
    """The coefficients of the polynomial that interpolates a function at ``chebpts1(deg + 1)``.

    Parameters
    ----------
    func : callable
        Takes an array of points, and ``args``; the result is differentiable in these.
    deg : int
    args : sequence

    Returns
    -------
    Tensor, shape (deg + 1,)

    Raises
    ------
    ArgumentError
        ``args`` is neither a tuple nor a list.
    FunctionError
        ``func`` is not a function.

    Examples
    --------
    >>> chebinterpolate(lambda x: 3 * x, 1).round(6)
    Tensor([0., 3.])
    """
    check_callable(func, "chebinterpolate")
    if not isinstance(args, (tuple, list)):
        raise ArgumentError(
            f"chebinterpolate: args has to be a tuple or a list, not {type(args).__name__}."
        )
    count = limited(deg, "chebinterpolate", "deg") + 1
    points = chebpts1(count)
    values = creation.asarray(func(points, *args))
    scale = np.where(np.arange(count) == 0, 1.0, 2.0) / count
    return (Basis(CHEBYSHEV).vander(points, count - 1).mT @ values) * scale
