"""NumPy's functions for Hermite's polynomials of the weight ``exp(-x**2 / 2)``.

>>> hermeval(2.0, [0.0, 0.0, 1.0])
Tensor(3.0)
"""

from funcgrad.numpy import creation
from funcgrad.numpy.polynomial.bases import Basis
from funcgrad.numpy.polynomial.polynomial_classes import HermiteE
from funcgrad.numpy.polynomial.recurrences import HERMITE_E

# fmt: off
__all__ = [
    "HermiteE", "herme2poly", "hermeadd", "hermecompanion", "hermeder", "hermediv", "hermedomain",
    "hermefit", "hermefromroots", "hermegauss", "hermegrid2d", "hermegrid3d", "hermeint",
    "hermeline", "hermemul", "hermemulx", "hermeone", "hermepow", "hermeroots", "hermesub",
    "hermetrim", "hermeval", "hermeval2d", "hermeval3d", "hermevalnd", "hermevander",
    "hermevander2d", "hermevander3d", "hermeweight", "hermex", "hermezero", "poly2herme",
]
# fmt: on

__dir__ = __all__.copy  # completion shows the public names, without the modules

_BASIS = Basis(HERMITE_E)

hermeline, hermeadd, hermesub, hermemulx = _BASIS.line, _BASIS.add, _BASIS.sub, _BASIS.mulx
hermemul, hermediv, hermepow, hermetrim = _BASIS.mul, _BASIS.div, _BASIS.power, _BASIS.trim
hermeval, hermeval2d, hermeval3d = _BASIS.val, _BASIS.val2d, _BASIS.val3d
hermegrid2d, hermegrid3d, hermevander = _BASIS.grid2d, _BASIS.grid3d, _BASIS.vander
hermevander2d, hermevander3d, hermeder = _BASIS.vander2d, _BASIS.vander3d, _BASIS.der
hermeint, hermefromroots = _BASIS.antiderivative, _BASIS.fromroots
hermecompanion, hermeroots, hermefit = _BASIS.companion, _BASIS.roots, _BASIS.fit
herme2poly, poly2herme, hermeweight = _BASIS.to_powers, _BASIS.from_powers, _BASIS.weight
hermegauss = _BASIS.gauss
hermevalnd = _BASIS.valnd

hermezero, hermeone = creation.zeros(1), creation.ones(1)
hermex, hermedomain = hermeline(0.0, 1.0), creation.asarray(HERMITE_E.interval)
