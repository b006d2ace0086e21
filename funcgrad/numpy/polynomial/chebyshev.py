"""NumPy's functions for Chebyshev's polynomials of the first kind, with derivatives.

>>> chebval(2.0, [0.0, 0.0, 1.0])
Tensor(7.0)
"""

from funcgrad.numpy import creation
from funcgrad.numpy.polynomial.bases import Basis
from funcgrad.numpy.polynomial.chebyshev_points import chebinterpolate, chebpts1, chebpts2
from funcgrad.numpy.polynomial.polynomial_classes import Chebyshev
from funcgrad.numpy.polynomial.recurrences import CHEBYSHEV

# fmt: off
__all__ = [
    "Chebyshev", "cheb2poly", "chebadd", "chebcompanion", "chebder", "chebdiv", "chebdomain",
    "chebfit", "chebfromroots", "chebgauss", "chebgrid2d", "chebgrid3d", "chebint",
    "chebinterpolate", "chebline", "chebmul", "chebmulx", "chebone", "chebpow", "chebpts1",
    "chebpts2", "chebroots", "chebsub", "chebtrim", "chebval", "chebval2d", "chebval3d",
    "chebvalnd", "chebvander", "chebvander2d", "chebvander3d", "chebweight", "chebx", "chebzero",
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
chebvalnd = _BASIS.valnd

chebzero, chebone = creation.zeros(1), creation.ones(1)
chebx, chebdomain = chebline(0.0, 1.0), creation.asarray(CHEBYSHEV.interval)
