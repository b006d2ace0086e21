"""NumPy's functions for Laguerre's polynomials, with derivatives.

>>> lagval(2.0, [0.0, 0.0, 1.0])
Tensor(-1.0)
"""

from funcgrad.numpy import creation
from funcgrad.numpy.polynomial.bases import Basis
from funcgrad.numpy.polynomial.polynomial_classes import Laguerre
from funcgrad.numpy.polynomial.recurrences import LAGUERRE

# fmt: off
__all__ = [
    "Laguerre", "lag2poly", "lagadd", "lagcompanion", "lagder", "lagdiv", "lagdomain", "lagfit",
    "lagfromroots", "laggauss", "laggrid2d", "laggrid3d", "lagint", "lagline", "lagmul", "lagmulx",
    "lagone", "lagpow", "lagroots", "lagsub", "lagtrim", "lagval", "lagval2d", "lagval3d",
    "lagvalnd", "lagvander", "lagvander2d", "lagvander3d", "lagweight", "lagx", "lagzero",
    "poly2lag",
]
# fmt: on

__dir__ = __all__.copy  # completion shows the public names, without the modules

_BASIS = Basis(LAGUERRE)

lagline, lagadd, lagsub, lagmulx = _BASIS.line, _BASIS.add, _BASIS.sub, _BASIS.mulx
lagmul, lagdiv, lagpow, lagtrim = _BASIS.mul, _BASIS.div, _BASIS.power, _BASIS.trim
lagval, lagval2d, lagval3d, laggrid2d = _BASIS.val, _BASIS.val2d, _BASIS.val3d, _BASIS.grid2d
laggrid3d, lagvander, lagvander2d = _BASIS.grid3d, _BASIS.vander, _BASIS.vander2d
lagvander3d, lagder, lagint = _BASIS.vander3d, _BASIS.der, _BASIS.antiderivative
lagfromroots, lagcompanion, lagroots = _BASIS.fromroots, _BASIS.companion, _BASIS.roots
lagfit, lag2poly, poly2lag = _BASIS.fit, _BASIS.to_powers, _BASIS.from_powers
lagweight = _BASIS.weight
laggauss = _BASIS.gauss
lagvalnd = _BASIS.valnd

lagzero, lagone = creation.zeros(1), creation.ones(1)
lagx, lagdomain = lagline(0.0, 1.0), creation.asarray(LAGUERRE.interval)
