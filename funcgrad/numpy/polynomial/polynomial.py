"""NumPy's functions for polynomials in powers of x, with derivatives.

>>> polyval(2.0, [1.0, 0.0, 3.0])
Tensor(13.0)
"""

from funcgrad.numpy import creation, reductions
from funcgrad.numpy.polynomial.bases import Basis, inexact
from funcgrad.numpy.polynomial.polynomial_classes import Polynomial
from funcgrad.numpy.polynomial.recurrences import POWER
from funcgrad.tensor.tensor import ArrayLike, Tensor

# fmt: off
__all__ = [
    "Polynomial", "polyadd", "polycompanion", "polyder", "polydiv", "polydomain", "polyfit",
    "polyfromroots", "polygrid2d", "polygrid3d", "polyint", "polyline", "polymul", "polymulx",
    "polyone", "polypow", "polyroots", "polysub", "polytrim", "polyval", "polyval2d", "polyval3d",
    "polyvalfromroots", "polyvalnd", "polyvander", "polyvander2d", "polyvander3d", "polyx",
    "polyzero",
]
# fmt: on

__dir__ = __all__.copy  # completion shows the public names, without the modules

_BASIS = Basis(POWER)

polyline, polyadd, polysub, polymulx = _BASIS.line, _BASIS.add, _BASIS.sub, _BASIS.mulx
polymul, polydiv, polypow, polytrim = _BASIS.mul, _BASIS.div, _BASIS.power, _BASIS.trim
polyval, polyval2d, polyval3d, polygrid2d = _BASIS.val, _BASIS.val2d, _BASIS.val3d, _BASIS.grid2d
polygrid3d, polyvander, polyvander2d = _BASIS.grid3d, _BASIS.vander, _BASIS.vander2d
polyvander3d, polyder, polyint = _BASIS.vander3d, _BASIS.der, _BASIS.antiderivative
polyfromroots, polycompanion, polyroots = _BASIS.fromroots, _BASIS.companion, _BASIS.roots
polyfit = _BASIS.fit
polyvalnd = _BASIS.valnd

polyzero, polyone = creation.zeros(1), creation.ones(1)
polyx, polydomain = polyline(0.0, 1.0), creation.asarray(POWER.interval)


def polyvalfromroots(x: ArrayLike, r: ArrayLike, tensor: bool = True) -> Tensor:
    """The values of polynomials that are given by their zeros, on the first axis of ``r``.

    Parameters
    ----------
    x : array_like
        The points.
    r : array_like, shape (n, ...)
    tensor : bool
        Whether each of several polynomials is evaluated at all points; otherwise they broadcast.

    Returns
    -------
    Tensor

    Examples
    --------
    >>> polyvalfromroots(3.0, [1.0, 2.0])
    Tensor(2.)
    """
    at, zeros = (inexact(value, "polyvalfromroots") for value in (x, r))
    zeros = zeros if zeros.ndim else zeros.reshape(1)
    if tensor:
        zeros = zeros.reshape(zeros.shape + (1,) * at.ndim)
    return reductions.prod(at - zeros, axis=0)
