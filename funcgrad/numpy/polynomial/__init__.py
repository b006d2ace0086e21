"""Polynomials in six bases, as in ``numpy.polynomial``, of coefficients that may be traced.

Coefficients that are 0 stay, where NumPy leaves out the last ones: shapes do not depend on values.
``polytrim`` and ``trim`` leave them out.

>>> import funcgrad as fg
>>> fg.grad(lambda c: legendre.legval(0.5, c))(fg.tensor([1.0, 2.0, 3.0]))
Tensor([ 1.   ,  0.5  , -0.125])
"""

from funcgrad.numpy.polynomial import chebyshev, hermite, hermite_e, laguerre, legendre, polynomial
from funcgrad.numpy.polynomial.polynomial_classes import (
    Chebyshev,
    Hermite,
    HermiteE,
    Laguerre,
    Legendre,
    Polynomial,
    PolynomialSeries,
)

__all__ = [
    "Chebyshev",
    "Hermite",
    "HermiteE",
    "Laguerre",
    "Legendre",
    "Polynomial",
    "PolynomialSeries",
    "chebyshev",
    "hermite",
    "hermite_e",
    "laguerre",
    "legendre",
    "polynomial",
]

__dir__ = __all__.copy  # completion shows the public names, without the modules
