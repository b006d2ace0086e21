"""A call that works for every function of ``funcgrad.sparse``, and of direct solvers.

>>> sample = sparse_matrices()["fg.sparse.eye"]
>>> sample.function(*sample.args).nnz
2
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import sparse
from funcgrad.errors import DeviceError
from funcgrad.scipy.sparse import linalg
from tests.differential.working_sample import Sample

X = fg.tensor([1.0, 2.0])


def _differences(x: Any) -> Any:
    return x[1:] * x[:-1]


def _valley(x: Any) -> Any:
    return fnp.sum(x**3)


def _of_x(made: Any) -> Any:
    return made(X)


def sparse_matrices() -> dict[str, Sample]:
    """Constructors, derivatives and solvers."""
    matrix = sparse.diags([2.0, 4.0])
    made = {
        "array": Sample(sparse.array, ([5.0, 7.0], [1, 0], [0, 1, 2], (2, 2))),
        "block_array": Sample(sparse.block_array, ([[matrix, None], [None, matrix]],)),
        "diags": Sample(sparse.diags, ([[1.0, 2.0], [3.0]], [0, 1], (2, 2))),
        "eye": Sample(sparse.eye, (2, 3, 1)),
        "from_scipy": Sample(sparse.from_scipy, (csr_array(np.eye(2)),)),
        "hessian": Sample(sparse.hessian, (_valley,), {"pattern": np.eye(2)}, _of_x),
        "hessian_operator": Sample(sparse.hessian_operator, (_valley,), then=_of_x),
        "jacobian": Sample(sparse.jacobian, (_differences,), then=_of_x),
        "jacobian (of a pattern)": Sample(
            sparse.jacobian, (_differences,), {"pattern": np.ones((1, 2))}, _of_x
        ),
        "jacobian_operator": Sample(sparse.jacobian_operator, (_differences,), then=_of_x),
        "kron": Sample(sparse.kron, (matrix, matrix)),
        "pattern": Sample(sparse.pattern, (_differences,), then=_of_x),
        "random": Sample(sparse.random, (fg.random.key(0), 3, 2, 0.5)),
        "value_and_jacobian": Sample(sparse.value_and_jacobian, (_differences,), then=_of_x),
    }
    solvers = {
        "factorized": Sample(linalg.factorized, (matrix,), then=_of_x),
        "splu": Sample(linalg.splu, (matrix,), then=lambda lu: lu.solve(X)),
        "spsolve": Sample(linalg.spsolve, (matrix, X)),
    }
    with suppress(DeviceError):  # where arrays are on a device by default
        solvers["splu(A).solve"] = Sample(linalg.splu(matrix).solve, (X,))
    return {
        **{f"fg.sparse.{name}": sample for name, sample in made.items()},
        **{f"fg.scipy.sparse.linalg.{name}": sample for name, sample in solvers.items()},
    }
