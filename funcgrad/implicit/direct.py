"""``direct_solve``: solve linear systems by their matrix, which is sparse if its pattern is.

>>> import funcgrad.numpy as fnp
>>> x = direct_solve(lambda x: 3.0 * x - fnp.roll(x, 1), fnp.ones(400))
>>> fnp.allclose(x, 0.5)
Tensor(True)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad import tree
from funcgrad._core.specs import Spec
from funcgrad._core.trace import concrete
from funcgrad._primitives.sparse_matrices import sparse_solve
from funcgrad._transforms.arguments import check_function
from funcgrad.errors import FuncgradError, MatrixError
from funcgrad.implicit.dense import dense_solve, singular
from funcgrad.implicit.unknowns import Solve, Tree, Unknown
from funcgrad.numpy.options import failed_as
from funcgrad.sparse.compression import Compression, compressed, compression
from funcgrad.sparse.element_rows import identity_rows
from funcgrad.sparse.patterns import Pattern, detected
from funcgrad.tensor.tensor import Tensor, wrap

FEWEST_SPARSE: Final = 200
"""A dense matrix of fewer unknowns takes less time than a pattern."""

_SPARSE: Final = 10
"""A sparse matrix has at most one nonzero in so many elements."""


def direct_solve(matvec: Callable[[Any], Any], b: Tree, *, failed: str = "raise") -> Any:
    """Solve the linear system ``matvec(x) = b`` with its matrix, dense or sparse.

    From 200 real unknowns on, the sparsity pattern of the matrix is detected first. If at most a
    tenth of its elements may be nonzero, a few products compute them, and SciPy factors the sparse
    matrix. Otherwise, and without SciPy, this is ``dense_solve``. It is the default of the
    functions that take ``tangent_solve``, such as ``fg.custom_root`` and ``fg.implicit.root``.

    Parameters
    ----------
    matvec : callable
        A linear function of a pytree like ``b``, which returns a pytree like ``b``.
    b : pytree of floating or complex arrays
    failed : {"raise", "nan"}
        Whether a singular matrix raises an error or makes the solution NaN.

    Returns
    -------
    pytree
        The solution, a pytree like ``b``.

    Raises
    ------
    TreeError, ShapeError, DtypeError
        The result of ``matvec`` is not like ``b``, or ``b`` is an integer.
    MatrixError
        The matrix is singular.

    See Also
    --------
    dense_solve
    funcgrad.scipy.sparse.linalg : iterative solvers, which never form the matrix.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> direct_solve(lambda x: 2.0 * x, fnp.array([2.0, 4.0]))
    Tensor([1., 2.])
    """
    check_function("direct_solve", matvec)
    failed = failed_as(failed, "direct_solve")
    unknown, values = Unknown.read("direct_solve", "b", b)
    vector, unravel = tree.ravel(unknown.tree(values))

    def image(x: Tensor) -> Tensor:
        out = unknown.values(matvec(unravel(x)), "the result of matvec")
        return tree.ravel(unknown.tree(out))[0]

    how = _products(image, vector)
    if how is None:
        return dense_solve(matvec, unknown.tree(values), failed=failed)
    spec = Spec(vector.shape, vector.dtype)
    data = compressed(how, lambda x: [image(x)], None, [spec], [spec])
    return unravel(_solved(data, how.pattern, vector, failed))


def is_sparse_enough(pattern: Pattern) -> bool:
    """Whether a square matrix with this pattern is solved faster as a sparse one."""
    return pattern.nnz * _SPARSE <= pattern.shape[0] ** 2


def _products(image: Callable[[Tensor], Tensor], vector: Tensor) -> Compression | None:
    """The products that contain the matrix of a linear function; None if it is not sparse."""
    size = vector.size
    if size < FEWEST_SPARSE or vector.dtype.kind == "c" or find_spec("scipy") is None:
        return None
    try:
        pattern = detected("direct_solve", image, 0, (vector,), {})
    except FuncgradError:  # the dense matrix does not need a program of the function
        return None
    if not is_sparse_enough(pattern):
        return None
    return compression(pattern | Pattern(identity_rows(size, size, 0)), "forward")


def _solved(data: Tensor, pattern: Pattern, b: Tensor, failed: str) -> Tensor:
    """Solve; NaN and infinity in the matrix make the solution NaN, as in a dense matrix."""
    is_finite = fnp.all(fnp.isfinite(data))
    unit = (pattern.row_numbers == pattern.indices).astype(data.dtype)
    matrix, column = fnp.where(is_finite, data, unit), fnp.where(is_finite, b, np.nan)[:, None]
    try:
        x = sparse_solve(
            concrete(matrix), concrete(column), layout=pattern.layout, factors=None, failed=failed
        )
    except MatrixError as error:
        raise singular("direct_solve") from error
    return wrap(x)[:, 0]


def failing_as(solve: Solve, failed: str) -> Solve:
    """Pass ``failed`` on to a linear solver if it is one of this package; return other solvers."""
    ours: Any = solve
    return partial(ours, failed=failed) if ours in (dense_solve, direct_solve) else solve
