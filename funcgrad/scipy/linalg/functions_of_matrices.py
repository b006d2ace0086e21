"""Exponentials, logarithms and square roots of matrices, under SciPy's names.

>>> expm([[0.0]])
Tensor([[1.]])
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._core.specs import dtype_of, shape_of
from funcgrad._core.trace import Value
from funcgrad._hints.lookup import answering
from funcgrad._primitives import matrix_functions
from funcgrad._primitives.structural import cast
from funcgrad._transforms.arguments import check_function
from funcgrad.errors import ArgumentError, ShapeError
from funcgrad.numpy.decompositions import eig as eig_of
from funcgrad.numpy.linear_systems import solve
from funcgrad.numpy.matrices import square
from funcgrad.numpy.matrix_products import matrix_power
from funcgrad.numpy.norms import norm
from funcgrad.numpy.options import complex_dtype, failed_as
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap


def expm(A: ArrayLike) -> Tensor:
    """The exponentials of matrices: ``1 + A + A @ A / 2 + ...``.

    Derivatives of every order are right at every matrix, also if it has equal eigenvalues or no
    basis of eigenvectors.

    Parameters
    ----------
    A : array_like, shape (..., n, n)

    Returns
    -------
    Tensor, shape (..., n, n)

    Raises
    ------
    MatrixShapeError
        The matrices are not square.
    MissingPackageError
        SciPy is not installed.

    Notes
    -----
    Al-Mohy and Higham, "Computing the Fréchet derivative of the matrix exponential", 2009.

    Examples
    --------
    >>> expm([[0.0, 1.0], [0.0, 0.0]])
    Tensor([[1., 1.],
            [0., 1.]])
    """
    return wrap(matrix_functions.expm(square(A, "expm", "A")))


@answering
def logm(A: ArrayLike, *, failed: str = "raise", dtype: DTypeLike | None = None) -> Tensor:
    """The principal logarithms of matrices, the inverse of ``expm``.

    For derivatives see ``expm``; each order doubles the size of the matrices.

    Parameters
    ----------
    A : array_like, shape (..., n, n)
    failed : {"raise", "nan"}
        Whether a matrix without a logarithm raises an error or gives NaN.
    dtype : complex dtype, optional
        The dtype of the computation: real matrices with negative eigenvalues have complex
        logarithms.

    Returns
    -------
    Tensor, shape (..., n, n)
        Real for real matrices, complex for complex ones and with ``dtype``.

    Raises
    ------
    MatrixShapeError
        The matrices are not square.
    MatrixError
        A matrix is singular; or it is real and its logarithm is not (a negative eigenvalue).
    MissingPackageError
        SciPy is not installed.

    Notes
    -----
    Mathias, "A chain rule for matrix functions and applications", 1996.

    Examples
    --------
    >>> logm([[1.0, 1.0], [0.0, 1.0]])
    Tensor([[0., 1.],
            [0., 0.]])
    """
    matrix = _in_dtype(A, dtype, "logm")
    return wrap(matrix_functions.logm(matrix, failed=failed_as(failed, "logm")))


@answering
def sqrtm(A: ArrayLike, *, failed: str = "raise", dtype: DTypeLike | None = None) -> Tensor:
    """The principal square roots of matrices: their eigenvalues have no negative real part.

    The derivative solves Sylvester's equation ``X @ dX + dX @ X = dA``.

    Parameters
    ----------
    A : array_like, shape (..., n, n)
    failed : {"raise", "nan"}
        Whether a matrix without a root, or without a derivative, raises an error or gives NaN.
    dtype : complex dtype, optional
        The dtype of the computation: real matrices with negative eigenvalues have complex roots.

    Returns
    -------
    Tensor, shape (..., n, n)
        Real for real matrices, complex for complex ones and with ``dtype``.

    Raises
    ------
    MatrixShapeError
        The matrices are not square.
    MatrixError
        A matrix has no root, or a real one has no real root; or a derivative is asked for at a
        singular matrix, where it does not exist.
    MissingPackageError
        SciPy is not installed.

    Examples
    --------
    >>> sqrtm([[4.0, 1.0], [0.0, 4.0]])
    Tensor([[2.  , 0.25],
            [0.  , 2.  ]])
    """
    matrix = _in_dtype(A, dtype, "sqrtm")
    return wrap(matrix_functions.sqrtm(matrix, failed=failed_as(failed, "sqrtm")))


def _in_dtype(A: ArrayLike, dtype: DTypeLike | None, operation: str) -> Value:
    """Square matrices, in a complex dtype if one is given."""
    matrix = square(A, operation, "A")
    return matrix if dtype is None else cast(matrix, dtype=complex_dtype(dtype, operation))


@answering
def funm(
    A: ArrayLike,
    func: Callable[[Tensor], ArrayLike],
    *,
    failed: str = "raise",
    dtype: DTypeLike | None = None,
) -> Tensor:
    """A function of a matrix, by its values at the eigenvalues.

    It needs a basis of eigenvectors, and loses as many digits as their condition number has. Where
    there is a function of its own, such as ``expm`` or ``logm``, that one is right at every matrix.

    Parameters
    ----------
    A : array_like, shape (..., n, n)
    func : callable
        An analytic function of the complex eigenvalues, elementwise, made of operations that can be
        differentiated.
    failed : {"raise", "nan"}
        Whether equal eigenvalues, for which derivatives do not exist here, raise or give NaN.
    dtype : complex dtype, optional
        The dtype of the computation. The result for a real matrix is real: ``func`` has to take
        conjugates to conjugates, or a complex dtype has to be given.

    Returns
    -------
    Tensor, shape (..., n, n)

    Raises
    ------
    FunctionError
        ``func`` is not a function.
    MatrixShapeError
        The matrices are not square.
    DegenerateError
        A derivative is asked for where eigenvalues are equal.

    Notes
    -----
    Higham, "Functions of Matrices", 2008, 4.5.

    Examples
    --------
    >>> funm([[1.0, 2.0], [0.0, 4.0]], fnp.sqrt).round(12)
    Tensor([[1.        , 0.66666667],
            [0.        , 2.        ]])
    """
    check_function("funm", func)
    matrix = wrap(_in_dtype(A, dtype, "funm"))
    values, vectors = eig_of(matrix, failed=failed)
    scaled = vectors * fnp.asarray(func(values))[..., None, :]
    result = solve(vectors.mT, scaled.mT, failed=failed).mT
    return result if matrix.dtype.kind == "c" else fnp.real(result)


# ------------------------------------------------------------------- composed of the above


def cosm(A: ArrayLike) -> Tensor:
    """The cosines of matrices. For parameters, results and errors see ``expm``.

    Examples
    --------
    >>> cosm([[0.0, 1.0], [0.0, 0.0]])
    Tensor([[1., 0.],
            [0., 1.]])
    """
    return _of_turns(A, "cosm")[0]


def sinm(A: ArrayLike) -> Tensor:
    """The sines of matrices. For parameters, results and errors see ``expm``.

    Examples
    --------
    >>> sinm([[0.0, 1.0], [0.0, 0.0]])
    Tensor([[0., 1.],
            [0., 0.]])
    """
    return _of_turns(A, "sinm")[1]


def tanm(A: ArrayLike, *, failed: str = "raise") -> Tensor:
    """The tangents of matrices. For parameters and results see ``expm``.

    Parameters
    ----------
    A : array_like, shape (..., n, n)
    failed : {"raise", "nan"}
        Whether a matrix with a singular cosine raises an error or gives NaN.

    Returns
    -------
    Tensor, shape (..., n, n)

    Raises
    ------
    MatrixError
        The cosine is singular.

    Examples
    --------
    >>> tanm([[0.0, 1.0], [0.0, 0.0]])
    Tensor([[0., 1.],
            [0., 0.]])
    """
    return solve(*_of_turns(A, "tanm"), failed=failed_as(failed, "tanm"))


def _of_turns(A: ArrayLike, operation: str) -> tuple[Tensor, Tensor]:
    """The cosine and the sine of matrices."""
    matrix = wrap(square(A, operation, "A"))
    ahead = wrap(matrix_functions.expm(square(1j * matrix, operation, "A")))
    if matrix.dtype.kind != "c":
        return ahead.real, ahead.imag
    behind = wrap(matrix_functions.expm(square(-1j * matrix, operation, "A")))
    return (ahead + behind) / 2, (ahead - behind) / 2j


def coshm(A: ArrayLike) -> Tensor:
    """The hyperbolic cosines of matrices. For parameters, results and errors see ``expm``.

    Examples
    --------
    >>> coshm([[0.0, 1.0], [0.0, 0.0]])
    Tensor([[1., 0.],
            [0., 1.]])
    """
    return _hyperbolic(A, "coshm")[0]


def sinhm(A: ArrayLike) -> Tensor:
    """The hyperbolic sines of matrices. For parameters, results and errors see ``expm``.

    Examples
    --------
    >>> sinhm([[0.0, 1.0], [0.0, 0.0]])
    Tensor([[0., 1.],
            [0., 0.]])
    """
    return _hyperbolic(A, "sinhm")[1]


def tanhm(A: ArrayLike, *, failed: str = "raise") -> Tensor:
    """The hyperbolic tangents of matrices. For parameters and results see ``expm``.

    Parameters
    ----------
    A : array_like, shape (..., n, n)
    failed : {"raise", "nan"}
        Whether a matrix with a singular cosine raises an error or gives NaN.

    Returns
    -------
    Tensor, shape (..., n, n)

    Raises
    ------
    MatrixError
        The hyperbolic cosine is singular.

    Examples
    --------
    >>> tanhm([[0.0, 1.0], [0.0, 0.0]])
    Tensor([[0., 1.],
            [0., 0.]])
    """
    return solve(*_hyperbolic(A, "tanhm"), failed=failed_as(failed, "tanhm"))


def _hyperbolic(A: ArrayLike, operation: str) -> tuple[Tensor, Tensor]:
    """The hyperbolic cosine and sine of matrices."""
    matrix = wrap(square(A, operation, "A"))
    rising, falling = expm(matrix), expm(-matrix)
    return (rising + falling) / 2, (rising - falling) / 2


def fractional_matrix_power(
    A: ArrayLike, t: ArrayLike, *, failed: str = "raise", dtype: DTypeLike | None = None
) -> Tensor:
    """Powers of matrices, with any real exponent: ``expm(t * logm(A))``.

    Parameters
    ----------
    A : array_like, shape (..., n, n)
    t : float
        A Python integer, or a float that is whole, computes ``matrix_power``, also of singular
        matrices. The result is differentiable with respect to any other exponent.
    failed : {"raise", "nan"}
        Whether a matrix without such a power raises an error or gives NaN.
    dtype : complex dtype, optional
        The dtype of the computation: real matrices with negative eigenvalues have complex powers.

    Returns
    -------
    Tensor, shape (..., n, n)
        Real for real matrices, complex for complex ones and with ``dtype``.

    Raises
    ------
    MatrixShapeError
        The matrices are not square.
    ShapeError
        ``t`` is not a scalar.
    MatrixError
        A matrix is singular, or real with a negative eigenvalue, and the exponent is not whole; or
        it is singular and the exponent negative.
    MissingPackageError
        SciPy is not installed.

    Examples
    --------
    >>> fractional_matrix_power([[4.0, 0.0], [0.0, 9.0]], 0.5)
    Tensor([[2., 0.],
            [0., 3.]])
    """
    name = "fractional_matrix_power"
    matrix, failed = _in_dtype(A, dtype, name), failed_as(failed, name)
    if isinstance(t, (int, float)) and float(t).is_integer():
        return matrix_power(wrap(matrix), int(t), failed=failed)
    exponent = fnp.asarray(t)
    if exponent.ndim:
        raise ShapeError(
            f"fractional_matrix_power: t has to be a scalar; its shape is {exponent.shape}. Use"
            " fg.vmap for several."
        )
    factor = t if isinstance(t, (int, float)) else exponent  # the dtype of an array counts
    return expm(factor * logm(wrap(matrix), failed=failed))


def expm_frechet(
    A: ArrayLike,
    E: ArrayLike,
    method: str | None = None,
    compute_expm: bool = True,
    check_finite: bool = True,
) -> Tensor | tuple[Tensor, Tensor]:
    """The exponentials of matrices, and their derivatives in a direction.

    Parameters
    ----------
    A, E : array_like, shape (..., n, n)
    method, check_finite
        Ignored.
    compute_expm : bool
        Whether to return the exponentials, too.

    Returns
    -------
    expm_A : Tensor, shape (..., n, n)
        Only with ``compute_expm``.
    expm_frechet_AE : Tensor, shape (..., n, n)

    Raises
    ------
    MatrixShapeError
        The matrices are not square.
    ArgumentError
        The matrices differ in shape.
    MissingPackageError
        SciPy is not installed.

    Examples
    --------
    >>> expm_frechet([[0.0]], [[2.0]])
    (Tensor([[1.]]), Tensor([[2.]]))
    """
    matrix, direction = square(A, "expm_frechet", "A"), square(E, "expm_frechet", "E")
    if shape_of(matrix) != shape_of(direction):
        raise ArgumentError(
            "expm_frechet: A and E have to be of one shape; the shapes are"
            f" {shape_of(matrix)} and {shape_of(direction)}."
        )
    change = wrap(matrix_functions.expm_along(matrix, direction))
    return (expm(wrap(matrix)), change) if compute_expm else change


def expm_cond(A: ArrayLike, check_finite: bool = True) -> Tensor:
    """The condition number of the exponential: the greatest growth of a relative error.

    Parameters
    ----------
    A : array_like, shape (n, n)
    check_finite : bool
        Ignored.

    Returns
    -------
    Tensor, shape ()

    Raises
    ------
    ShapeError
        A is not a square matrix.
    MissingPackageError
        SciPy is not installed.

    Notes
    -----
    It is the greatest singular value of the Fréchet derivative, relative to norms.

    Examples
    --------
    >>> expm_cond([[2.0]])
    Tensor(2.)
    """
    matrix = square(A, "expm_cond", "A")
    n = shape_of(matrix)[-1]
    if len(shape_of(matrix)) != 2:
        raise ShapeError(
            f"expm_cond: A has to be one matrix; its shape is {shape_of(matrix)}. Use fg.vmap."
        )
    every = np.eye(n * n, dtype=dtype_of(matrix)).reshape(n * n, n, n)
    repeated = fnp.broadcast_to(wrap(matrix), every.shape)
    whole = expm_frechet(repeated, every, compute_expm=False)
    assert isinstance(whole, Tensor)
    greatest = norm(whole.reshape(n * n, n * n), 2)
    return greatest * norm(wrap(matrix)) / norm(expm(wrap(matrix)))
