"""NumPy's functions for Legendre's polynomials, with derivatives.

>>> legval(2.0, [0.0, 0.0, 1.0])
Tensor(5.5)
"""

from funcgrad.numpy import creation
from funcgrad.numpy.polynomial.bases import Basis
from funcgrad.numpy.polynomial.polynomial_classes import Legendre
from funcgrad.numpy.polynomial.recurrences import LEGENDRE

# fmt: off
__all__ = [
    "Legendre", "leg2poly", "legadd", "legcompanion", "legder", "legdiv", "legdomain", "legfit",
    "legfromroots", "leggauss", "leggrid2d", "leggrid3d", "legint", "legline", "legmul", "legmulx",
    "legone", "legpow", "legroots", "legsub", "legtrim", "legval", "legval2d", "legval3d",
    "legvalnd", "legvander", "legvander2d", "legvander3d", "legweight", "legx", "legzero",
    "poly2leg",
]
# fmt: on

__dir__ = __all__.copy  # completion shows the public names, without the modules

_BASIS = Basis(LEGENDRE)

legline, legadd, legsub, legmulx = _BASIS.line, _BASIS.add, _BASIS.sub, _BASIS.mulx
legmul, legdiv, legpow, legtrim = _BASIS.mul, _BASIS.div, _BASIS.power, _BASIS.trim
legval, legval2d, legval3d, leggrid2d = _BASIS.val, _BASIS.val2d, _BASIS.val3d, _BASIS.grid2d
leggrid3d, legvander, legvander2d = _BASIS.grid3d, _BASIS.vander, _BASIS.vander2d
legvander3d, legder, legint = _BASIS.vander3d, _BASIS.der, _BASIS.antiderivative
legfromroots, legcompanion, legroots = _BASIS.fromroots, _BASIS.companion, _BASIS.roots
legfit, leg2poly, poly2leg = _BASIS.fit, _BASIS.to_powers, _BASIS.from_powers
legweight = _BASIS.weight
leggauss = _BASIS.gauss
legvalnd = _BASIS.valnd

legzero, legone = creation.zeros(1), creation.ones(1)
legx, legdomain = legline(0.0, 1.0), creation.asarray(LEGENDRE.interval)
