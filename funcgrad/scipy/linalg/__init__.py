"""SciPy's linear algebra under SciPy's names and signatures.

Functions that NumPy has too compute as in ``funcgrad.numpy.linalg``, with SciPy's options.
Triangular and Toeplitz systems, Cholesky factors, generalized eigenvalues, polar factors and
matrices built from elements do not need SciPy; SciPy computes matrix functions, Sylvester's
equation, LU factors, Schur's form, banded systems and constant matrices. Options that allow
overwriting or skip checks are accepted and ignored: tensors never change.

>>> import funcgrad as fg
>>> factor = cho_factor(fg.tensor([[4.0, 2.0], [2.0, 5.0]]))
>>> cho_solve(factor, [2.0, 1.0])
Tensor([0.5, 0. ])
>>> fg.grad(lambda a: expm(a)[0, 1])(fg.tensor([[0.0, 0.0], [0.0, 0.0]]))
Tensor([[0., 1.],
        [0., 0.]])
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.scipy.linalg.banded_systems import solve_banded, solveh_banded
from funcgrad.scipy.linalg.composed import block_diag, toeplitz
from funcgrad.scipy.linalg.equations import (
    solve_continuous_lyapunov,
    solve_discrete_lyapunov,
    solve_sylvester,
)
from funcgrad.scipy.linalg.functions_of_matrices import (
    coshm,
    cosm,
    expm,
    expm_cond,
    expm_frechet,
    fractional_matrix_power,
    funm,
    logm,
    sinhm,
    sinm,
    sqrtm,
    tanhm,
    tanm,
)
from funcgrad.scipy.linalg.orthogonal_factors import (
    hessenberg,
    orthogonal_procrustes,
    polar,
    qr,
    qr_multiply,
    rq,
    subspace_angles,
)
from funcgrad.scipy.linalg.pseudoinverses import lstsq, pinv, pinvh
from funcgrad.scipy.linalg.schur_forms import rsf2csf, schur
from funcgrad.scipy.linalg.singular_values import diagsvd, norm, null_space, orth, svd, svdvals
from funcgrad.scipy.linalg.special_matrices import (
    circulant,
    companion,
    convolution_matrix,
    dft,
    fiedler,
    fiedler_companion,
    hadamard,
    hankel,
    helmert,
    hilbert,
    invhilbert,
    invpascal,
    khatri_rao,
    leslie,
    pascal,
)
from funcgrad.scipy.linalg.spectra import (
    eig,
    eigh,
    eigh_tridiagonal,
    eigvals,
    eigvalsh,
    eigvalsh_tridiagonal,
)
from funcgrad.scipy.linalg.systems import (
    det,
    inv,
    lu_factor,
    lu_solve,
    matmul_toeplitz,
    solve,
    solve_circulant,
    solve_toeplitz,
)
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
    "circulant",
    "companion",
    "convolution_matrix",
    "coshm",
    "cosm",
    "det",
    "dft",
    "diagsvd",
    "eig",
    "eigh",
    "eigh_tridiagonal",
    "eigvals",
    "eigvalsh",
    "eigvalsh_tridiagonal",
    "expm",
    "expm_cond",
    "expm_frechet",
    "fiedler",
    "fiedler_companion",
    "fractional_matrix_power",
    "funm",
    "hadamard",
    "hankel",
    "helmert",
    "hessenberg",
    "hilbert",
    "inv",
    "invhilbert",
    "invpascal",
    "khatri_rao",
    "leslie",
    "logm",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_solve",
    "matmul_toeplitz",
    "norm",
    "null_space",
    "orth",
    "orthogonal_procrustes",
    "pascal",
    "pinv",
    "pinvh",
    "polar",
    "qr",
    "qr_multiply",
    "rq",
    "rsf2csf",
    "schur",
    "sinhm",
    "sinm",
    "solve",
    "solve_banded",
    "solve_circulant",
    "solve_continuous_lyapunov",
    "solve_discrete_lyapunov",
    "solve_sylvester",
    "solve_toeplitz",
    "solve_triangular",
    "solveh_banded",
    "sqrtm",
    "subspace_angles",
    "svd",
    "svdvals",
    "tanhm",
    "tanm",
    "toeplitz",
]


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules
