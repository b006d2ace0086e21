"""NumPy's functions for Hermite's polynomials of the weight ``exp(-x**2)``.

>>> hermval(2.0, [0.0, 0.0, 1.0])
Tensor(14.0)
"""

from funcgrad.numpy import creation
from funcgrad.numpy.polynomial.bases import Basis
from funcgrad.numpy.polynomial.polynomial_classes import Hermite
from funcgrad.numpy.polynomial.recurrences import HERMITE

# fmt: off
__all__ = [
    "Hermite", "herm2poly", "hermadd", "hermcompanion", "hermder", "hermdiv", "hermdomain",
    "hermfit", "hermfromroots", "hermgauss", "hermgrid2d", "hermgrid3d", "hermint", "hermline",
    "hermmul", "hermmulx", "hermone", "hermpow", "hermroots", "hermsub", "hermtrim", "hermval",
    "hermval2d", "hermval3d", "hermvalnd", "hermvander", "hermvander2d", "hermvander3d",
    "hermweight", "hermx", "hermzero", "poly2herm",
]
# fmt: on

__dir__ = __all__.copy  # completion shows the public names, without the modules

_BASIS = Basis(HERMITE)

hermline, hermadd, hermsub, hermmulx = _BASIS.line, _BASIS.add, _BASIS.sub, _BASIS.mulx
hermmul, hermdiv, hermpow, hermtrim = _BASIS.mul, _BASIS.div, _BASIS.power, _BASIS.trim
hermval, hermval2d, hermval3d, hermgrid2d = _BASIS.val, _BASIS.val2d, _BASIS.val3d, _BASIS.grid2d
hermgrid3d, hermvander, hermvander2d = _BASIS.grid3d, _BASIS.vander, _BASIS.vander2d
hermvander3d, hermder, hermint = _BASIS.vander3d, _BASIS.der, _BASIS.antiderivative
hermfromroots, hermcompanion, hermroots = _BASIS.fromroots, _BASIS.companion, _BASIS.roots
hermfit, herm2poly, poly2herm = _BASIS.fit, _BASIS.to_powers, _BASIS.from_powers
hermweight = _BASIS.weight
hermgauss = _BASIS.gauss
hermvalnd = _BASIS.valnd

hermzero, hermone = creation.zeros(1), creation.ones(1)
hermx, hermdomain = hermline(0.0, 1.0), creation.asarray(HERMITE.interval)
