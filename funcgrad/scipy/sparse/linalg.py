"""Sparse linear systems, under SciPy's names.

``spsolve``, ``splu`` and ``factorized`` solve directly, with matrices of ``fg.sparse``. ``cg``,
``gmres`` and ``bicgstab`` iterate; in addition to SciPy's arguments they accept pytrees, and linear
functions in place of matrices:

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> x, info = cg(lambda x: {"u": 2.0 * x["u"]}, {"u": fnp.ones(2)})
>>> x, info
({'u': Tensor([0.5, 0.5])}, Tensor(0))
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.implicit.krylov import bicgstab, cg, gmres
from funcgrad.scipy.sparse.direct_solvers import factorized, splu, spsolve

__all__ = ["bicgstab", "cg", "factorized", "gmres", "splu", "spsolve"]


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules
