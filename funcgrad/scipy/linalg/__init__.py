"""What SciPy's linear algebra adds to NumPy's, under SciPy's names.

Triangular systems, Cholesky factors, and matrices made of others need no SciPy; matrix functions,
Sylvester's equation and LU factors are SciPy's to compute. Options that say what may be overwritten
or left unchecked are taken and have no effect: tensors never change.

>>> import funcgrad as fg
>>> factor = cho_factor(fg.tensor([[4.0, 2.0], [2.0, 5.0]]))
>>> cho_solve(factor, [2.0, 1.0])
Tensor([0.5, 0. ])
>>> fg.grad(lambda a: expm(a)[0, 1])(fg.tensor([[0.0, 0.0], [0.0, 0.0]]))
Tensor([[0., 1.],
        [0., 0.]])
"""

from funcgrad.scipy.linalg.composed import block_diag, toeplitz
from funcgrad.scipy.linalg.equations import (
    solve_continuous_lyapunov,
    solve_discrete_lyapunov,
    solve_sylvester,
)
from funcgrad.scipy.linalg.functions_of_matrices import expm, logm, sqrtm
from funcgrad.scipy.linalg.triangular_systems import (
    cho_factor,
    cho_solve,
    cholesky,
    lu,
    solve_triangular,
)

__all__ = [
    "block_diag",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "expm",
    "logm",
    "lu",
    "solve_continuous_lyapunov",
    "solve_discrete_lyapunov",
    "solve_sylvester",
    "solve_triangular",
    "sqrtm",
    "toeplitz",
]


def __dir__() -> list[str]:
    """The public names alone, for completion; modules that hold parts are not among them."""
    return list(__all__)
