"""Sparse Jacobians and Hessians, and sparse matrices as operands.

>>> import funcgrad as fg
>>> fg.sparse.jacobian(lambda x: x[1:] - x[:-1])(fg.numpy.ones(1000)).nnz
1998
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.sparse.constructors import array, block_array, diags, eye, kron, random
from funcgrad.sparse.hessians import hessian
from funcgrad.sparse.jacobians import jacobian, value_and_jacobian
from funcgrad.sparse.operators import hessian_operator, jacobian_operator
from funcgrad.sparse.patterns import Pattern, pattern
from funcgrad.sparse.sparse_arrays import SparseArray, from_scipy

__all__ = [
    "Pattern",
    "SparseArray",
    "array",
    "block_array",
    "diags",
    "eye",
    "from_scipy",
    "hessian",
    "hessian_operator",
    "jacobian",
    "jacobian_operator",
    "kron",
    "pattern",
    "random",
    "value_and_jacobian",
]

if not TYPE_CHECKING:  # type checkers see the imports above
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules
