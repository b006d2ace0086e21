"""Vectors of correlated normal variables, and random orthogonal matrices.

These are matrix products, whose rounding depends on the machine; all other distributions are the
same to the last bit everywhere.

>>> from funcgrad.random.keys import key
>>> multivariate_normal(key(0), [0.0, 1.0], [[2.0, 1.0], [1.0, 1.0]])
Tensor([-1.92043711,  0.79100943])
"""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._core.specs import Shape, ShapeLike, shape_of
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives.structural import cast
from funcgrad.errors import ShapeError
from funcgrad.random.parameters import check_broadcast, parameter, require
from funcgrad.random.philox import as_dtype, as_shape, standard_normal
from funcgrad.random.rejection import DOUBLE
from funcgrad.tensor.tensor import Tensor, wrap


@answering
def multivariate_normal(
    key: ArrayLike,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = np.float64,
) -> Tensor:
    """Draw vectors from a normal distribution.

    Parameters
    ----------
    key : key
    mean : array_like
        A vector of length n, or several.
    cov : array_like
        A positive definite covariance matrix, n × n, or several. Only its symmetric part is used.
    shape : int or tuple of int, optional
        The shape without the axis of the vectors; by default the shape to which the parameters
        broadcast.
    dtype : dtype
        A real dtype.

    Returns
    -------
    Tensor
        ``mean + L @ z`` with the Cholesky factor L; differentiable with respect to ``mean`` and
        ``cov``.

    Raises
    ------
    ShapeError
        The shapes do not belong to vectors and matrices of one size.
    numpy.linalg.LinAlgError
        A covariance is not positive definite.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> multivariate_normal(key(0), [0.0, 0.0], [[1.0, 0.5], [0.5, 1.0]], 3).shape
    (3, 2)
    """
    wanted = as_dtype(dtype, "f", "multivariate_normal", key)
    operation = "multivariate_normal"
    require(lambda mean, cov: np.True_, operation, "mean and cov", mean, cov)
    vector, matrix = shape_of(operand(mean, operation)), shape_of(operand(cov, operation))
    n = vector[-1] if vector else -1
    if matrix[-2:] != (n, n):
        raise ShapeError(
            f"{operation}: mean has to be of shape (..., n), and cov of shape (..., n, n); got"
            f" {vector} and {matrix}."
        )
    size = _batch(shape, vector[:-1], matrix[:-2])
    numbers = standard_normal(key, (*size, n), DOUBLE, operation)
    factor = fnp.linalg.cholesky(parameter(cov, DOUBLE, operation, "cov", matrix))
    centre = parameter(mean, DOUBLE, operation, "mean", vector)
    moved = centre + fnp.matmul(factor, numbers[..., None])[..., 0]
    return wrap(cast(moved, dtype=wanted))


def _batch(shape: ShapeLike | None, vectors: Shape, matrices: Shape) -> Shape:
    operation = "multivariate_normal"
    if shape is None:
        try:
            return np.broadcast_shapes(vectors, matrices)
        except ValueError:
            raise ShapeError(
                f"{operation}: means of shape {vectors} do not broadcast to covariances of shape"
                f" {matrices}."
            ) from None
    size = as_shape(shape, operation)
    check_broadcast(vectors, size, operation, "mean without its last axis")
    check_broadcast(matrices, size, operation, "cov without its last axes")
    return size


@answering
def orthogonal(
    key: ArrayLike, n: int, shape: ShapeLike = (), dtype: DTypeLike = np.float64
) -> Tensor:
    """Draw orthogonal matrices, uniformly distributed (by the Haar measure).

    Parameters
    ----------
    key : key
    n : int
        Rows and columns.
    shape : int or tuple of int
        The shape of the stack of matrices: the result without its last two axes.
    dtype : dtype
        A real or complex dtype. Complex matrices are unitary.

    Returns
    -------
    Tensor

    Notes
    -----
    The result is Q of the QR decomposition of a normal matrix, with signs that make the diagonal of
    R positive: Mezzadri, "How to generate random matrices from the classical compact groups",
    Notices of the AMS 54, 2007.

    Examples
    --------
    >>> from funcgrad.random.keys import key
    >>> q = orthogonal(key(0), 3)
    >>> bool(abs(q @ q.T - np.eye(3)).max() < 1e-14)
    True
    """
    wanted = as_dtype(dtype, "fc", "orthogonal", key)
    size = (*as_shape(shape, "orthogonal"), *as_shape((n, n), "orthogonal"))
    inner = np.dtype(np.complex128) if wanted.kind == "c" else DOUBLE
    q, r = fnp.linalg.qr(standard_normal(key, size, inner, "orthogonal"))
    diagonal = fnp.diagonal(r, axis1=-2, axis2=-1)
    return wrap(cast(q * fnp.sign(diagonal)[..., None, :], dtype=wanted))
