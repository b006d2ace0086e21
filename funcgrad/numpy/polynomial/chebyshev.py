"""NumPy's functions for Chebyshev's polynomials of the first kind, with derivatives.

>>> chebval(2.0, [0.0, 0.0, 1.0])
Tensor(7.0)
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.numpy import creation
from funcgrad.numpy.functional import check_callable
from funcgrad.numpy.polynomial.bases import Basis, limited
from funcgrad.numpy.polynomial.polynomial_classes import Chebyshev
from funcgrad.numpy.polynomial.recurrences import CHEBYSHEV
from funcgrad.tensor.tensor import ArrayLike, Tensor

# fmt: off
__all__ = [
    "Chebyshev", "cheb2poly", "chebadd", "chebcompanion", "chebder", "chebdiv", "chebdomain",
    "chebfit", "chebfromroots", "chebgauss", "chebgrid2d", "chebgrid3d", "chebint",
    "chebinterpolate", "chebline", "chebmul", "chebmulx", "chebone", "chebpow", "chebpts1",
    "chebpts2", "chebroots", "chebsub", "chebtrim", "chebval", "chebval2d", "chebval3d",
    "chebvander", "chebvander2d", "chebvander3d", "chebweight", "chebx", "chebzero",
    "poly2cheb",
]
# fmt: on

__dir__ = __all__.copy  # completion shows the public names, without the modules

_BASIS = Basis(CHEBYSHEV)

chebline, chebadd, chebsub, chebmulx = _BASIS.line, _BASIS.add, _BASIS.sub, _BASIS.mulx
chebmul, chebdiv, chebpow, chebtrim = _BASIS.mul, _BASIS.div, _BASIS.power, _BASIS.trim
chebval, chebval2d, chebval3d, chebgrid2d = _BASIS.val, _BASIS.val2d, _BASIS.val3d, _BASIS.grid2d
chebgrid3d, chebvander, chebvander2d = _BASIS.grid3d, _BASIS.vander, _BASIS.vander2d
chebvander3d, chebder, chebint = _BASIS.vander3d, _BASIS.der, _BASIS.antiderivative
chebfromroots, chebcompanion, chebroots = _BASIS.fromroots, _BASIS.companion, _BASIS.roots
chebfit, cheb2poly, poly2cheb = _BASIS.fit, _BASIS.to_powers, _BASIS.from_powers
chebweight = _BASIS.weight
chebgauss = _BASIS.gauss

chebzero, chebone = creation.zeros(1), creation.ones(1)
chebx, chebdomain = chebline(0.0, 1.0), creation.asarray(CHEBYSHEV.interval)


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
    return (chebvander(points, count - 1).mT @ values) * scale
