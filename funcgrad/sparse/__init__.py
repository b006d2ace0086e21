"""Sparse Jacobians and Hessians, and sparse matrices as operands.

>>> import funcgrad as fg
>>> fg.sparse.jacobian(lambda x: x[1:] - x[:-1])(fg.numpy.ones(1000)).nnz
1998
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lazy_names import LateNames as _LateNames

if TYPE_CHECKING:
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

_LATE = _LateNames(
    __name__,
    {
        "constructors": "array block_array diags eye kron random",
        "hessians": "hessian",
        "jacobians": "jacobian value_and_jacobian",
        "operators": "hessian_operator jacobian_operator",
        "patterns": "Pattern pattern",
        "sparse_arrays": "SparseArray from_scipy",
    },
)

if not TYPE_CHECKING:  # which see the names above, and report others
    __getattr__ = _LATE.load
__dir__ = __all__.copy  # completion shows the public names, without the modules
