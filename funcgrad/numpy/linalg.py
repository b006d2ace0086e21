"""Linear algebra of stacks of matrices, as in ``numpy.linalg``.

The matrices are on the last two axes here, where ``fnp.trace`` and ``fnp.diagonal`` take the first
two.

>>> import numpy as np
>>> trace(np.ones((5, 2, 2)))
Tensor([2., 2., 2., 2., 2.])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsIndex

from numpy.linalg import LinAlgError
from numpy.typing import DTypeLike

from funcgrad._core.specs import shape_of
from funcgrad._core.users_values import operand
from funcgrad._hints.lookup import answering
from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.errors import ShapeError
from funcgrad.numpy import contraction, diagonals
from funcgrad.numpy.contraction import matmul, tensordot, vecdot
from funcgrad.numpy.decompositions import cholesky, eig, eigh, eigvals, eigvalsh, qr, svd, svdvals
from funcgrad.numpy.linear_systems import det, inv, slogdet, solve, tensorinv, tensorsolve
from funcgrad.numpy.manipulation import matrix_transpose
from funcgrad.numpy.matrix_products import matrix_power, multi_dot
from funcgrad.numpy.norms import cond, matrix_norm, matrix_rank, norm, vector_norm
from funcgrad.numpy.pseudoinverses import lstsq, pinv
from funcgrad.tensor.tensor import ArrayLike, Tensor

__all__ = [
    "LinAlgError",
    "cholesky",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "tensorinv",
    "tensorsolve",
    "trace",
    "vecdot",
    "vector_norm",
]


if not TYPE_CHECKING:  # type checkers see the imports above
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules


@answering
def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: SupportsIndex = -1) -> Tensor:
    """The vector product of vectors with three components; the other axes broadcast.

    Parameters
    ----------
    x1, x2 : array_like
    axis : int
        The components' axis, in both and in the result.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        The axes do not have the size 3.

    Examples
    --------
    >>> cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0])
    Tensor([0., 0., 1.])
    """
    return contraction.cross(x1, x2, axis=axis)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices, along a last axis.

    Parameters
    ----------
    x : array_like, shape (..., n, m)
    offset : int
        The offset above the main diagonal; negative below it.

    Returns
    -------
    Tensor, shape (..., k)

    Raises
    ------
    ShapeError
        There are fewer than two axes.

    Examples
    --------
    >>> diagonal([[[1.0, 2.0], [3.0, 4.0]]])
    Tensor([[1., 4.]])
    """
    return diagonals.diagonal(x, offset=offset, axis1=-2, axis2=-1)


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Tensor:
    """The products of all pairs of elements of two vectors.

    Parameters
    ----------
    x1 : array_like, shape (n,)
    x2 : array_like, shape (m,)

    Returns
    -------
    Tensor, shape (n, m)

    Raises
    ------
    ShapeError
        An argument is not 1-d; ``fnp.outer`` flattens it.

    Examples
    --------
    >>> outer([1.0, 2.0], [3.0, 4.0])
    Tensor([[3., 4.],
            [6., 8.]])
    """
    x, y = operand(x1, "outer"), operand(x2, "outer")
    if len(shape_of(x)) != 1 or len(shape_of(y)) != 1:
        raise ShapeError(
            f"outer: both arguments have to be 1-d; the shapes are {shape_of(x)} and {shape_of(y)}."
        )
    return contraction.outer(x, y)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Tensor:
    """The sums of the diagonals of matrices.

    Parameters
    ----------
    x : array_like, shape (..., n, m)
    offset : int
        The offset above the main diagonal; negative below it.
    dtype : dtype, optional
        The dtype in which to sum.

    Returns
    -------
    Tensor, shape (...)

    Raises
    ------
    ShapeError
        There are fewer than two axes.

    Examples
    --------
    >>> trace([[1.0, 2.0], [3.0, 4.0]])
    Tensor(5.0)
    """
    return diagonals.trace(x, offset=offset, axis1=-2, axis2=-1, dtype=dtype)
