"""Linear algebra: ``numpy.linalg`` with derivatives.

>>> import numpy as np
>>> from funcgrad.compat.autograd import grad
>>> from funcgrad.compat.autograd.numpy import linalg
>>> grad(linalg.det)(2.0 * np.eye(2))
array([[2., 0.],
       [0., 2.]])
"""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy

import funcgrad.numpy as fnp
from funcgrad.compat.autograd.arrays import plain, trace_of
from funcgrad.compat.autograd.namespaces import Names
from funcgrad.tensor.tensor import ArrayLike

Triangle = Literal["L", "U", "l", "u"]
_NAMES: Final = Names(__name__, numpy.linalg)
__getattr__ = _NAMES.load
__dir__ = _NAMES.listed


def eigh(a: ArrayLike, UPLO: Triangle = "L") -> Any:
    """The eigenvalues and eigenvectors of symmetric matrices, of which one triangle is read.

    Derivatives flow into that triangle, as in autograd; ``fnp.linalg.eigh`` shares them among both.
    """
    return numpy.linalg.eigh(a, UPLO) if trace_of(a) is None else plain(fnp.linalg.eigh(a, UPLO))


def eigvalsh(a: ArrayLike, UPLO: Triangle = "L") -> Any:
    """The eigenvalues of symmetric matrices, of which one triangle is read: see ``eigh``."""
    if trace_of(a) is None:
        return numpy.linalg.eigvalsh(a, UPLO)
    return plain(fnp.linalg.eigvalsh(a, UPLO))
