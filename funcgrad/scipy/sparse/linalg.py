"""Linear systems without a matrix, under SciPy's names: ``cg``, ``gmres``, ``bicgstab``.

In addition to SciPy's arguments they accept pytrees, and linear functions in place of matrices:

>>> import funcgrad as fg
>>> import funcgrad.numpy as fnp
>>> x, info = cg(lambda x: {"u": 2.0 * x["u"]}, {"u": fnp.ones(2)})
>>> x, info
({'u': Tensor([0.5, 0.5])}, Tensor(0))
"""

from funcgrad.implicit.krylov import bicgstab, cg, gmres

__all__ = ["bicgstab", "cg", "gmres"]


def __dir__() -> list[str]:
    """List the public names for completion."""
    return list(__all__)
