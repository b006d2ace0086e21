"""Pseudoinverses and least squares, as in ``numpy.linalg``.

>>> solution = lstsq([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [1.0, 3.0, 5.0])
>>> solution[0].round(6), solution[2]
(Tensor([1., 2.]), Tensor(2, dtype=int32))
"""

from __future__ import annotations

import numpy as np

from funcgrad._core.specs import broadcast_shapes, dtype_of, shape_of
from funcgrad._core.trace import RAW, concrete
from funcgrad._core.users_values import operand
from funcgrad._primitives import pseudoinverses
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.matrices import conjugate, linalg_dtype, real_part
from funcgrad._primitives.matrices import hermitian as hermitian_part
from funcgrad._primitives.reduction import reduce_sum
from funcgrad._primitives.structural import cast, reshape, unfollowed
from funcgrad.errors import ArgumentError, MatrixShapeError, ShapeError
from funcgrad.numpy.decompositions import svdvals
from funcgrad.numpy.matrices import matrices, square
from funcgrad.numpy.options import failed_as, real_number
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap


class _NotGiven:
    def __repr__(self) -> str:
        return "<no value>"


_NOT_GIVEN = _NotGiven()


def pinv(
    a: ArrayLike,
    rcond: ArrayLike = None,
    hermitian: bool = False,
    *,
    rtol: ArrayLike = _NOT_GIVEN,
    failed: str = "raise",
) -> Tensor:
    """The Moore-Penrose pseudoinverses of matrices.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
    rcond : array_like, shape (...), optional
        Singular values below ``rcond`` times the greatest count as zero; by default 1e-15.
    hermitian : bool
        Whether ``a`` is Hermitian, so that eigenvalues can be used.
    rtol : array_like, shape (...), optional
        The array API's name of ``rcond``; None means the greater size times the machine epsilon.
    failed : {"raise", "nan"}
        For infinities and NaN in the matrix, raise an error or fill its result with NaN.

    Returns
    -------
    Tensor, shape (..., n, m)

    Raises
    ------
    ArgumentError
        Both tolerances are given.
    MatrixError
        A matrix has infinities or NaN; also a ``numpy.linalg.LinAlgError``.
    DegenerateError
        The derivative is undefined: a singular value above the tolerance and one below it are equal
        up to rounding.

    Notes
    -----
    The derivative assumes that no singular value crosses the tolerance; nonzero values may be below
    it (Noferini 2017, "A formula for the Fréchet derivative of a generalized matrix function").
    Values that are 0 up to rounding are assumed to stay 0, so the derivative is also right for
    matrices that have low rank by construction (Golub and Pereyra 1973). The tolerance itself
    counts as constant.

    Examples
    --------
    >>> pinv([[2.0, 0.0], [0.0, 0.0]])
    Tensor([[0.5, 0. ],
            [0. , 0. ]])
    """
    matrix = hermitian_part(square(a, "pinv")) if hermitian else matrices(a, "pinv")
    failed = failed_as(failed, "pinv")
    if rcond is not None and rtol is not _NOT_GIVEN:
        raise ArgumentError("pinv: give rcond or rtol, not both.")
    shape, dtype = shape_of(matrix), dtype_of(matrix)
    real_dtype = np.dtype(dtype.char.lower())
    if rcond is None:
        rcond = 1e-15 if rtol is _NOT_GIVEN else rtol
    if rcond is None:
        rcond = max(shape[-2:]) * np.finfo(real_dtype).eps
    bound = cast(unfollowed(operand(rcond, "pinv")), dtype=real_dtype)
    if broadcast_shapes("pinv", shape_of(bound), shape[:-2]) != shape[:-2]:
        raise ShapeError(
            f"pinv: {'rcond' if rtol is _NOT_GIVEN else 'rtol'} has the shape {shape_of(bound)};"
            f" it needs the shape {shape[:-2]}, one for each matrix of the stack."
        )
    bound = broadcast_to(bound, shape=shape[:-2])
    if 0 in shape:
        return wrap(np.zeros((*shape[:-2], shape[-1], shape[-2]), dtype))
    return wrap(pseudoinverses.pinv(matrix, bound, hermitian=bool(hermitian), failed=failed))


def lstsq(
    a: ArrayLike, b: ArrayLike, rcond: float | None = None, *, failed: str = "raise"
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The x of least norm that minimizes ``norm(a @ x - b)``.

    Parameters
    ----------
    a : array_like, shape (m, n)
    b : array_like, shape (m,) or (m, k)
    rcond : float, optional
        Singular values below ``rcond`` times the greatest count as zero; by default the greater
        size times the precision.
    failed : {"raise", "nan"}
        For infinities and NaN in the matrix, raise an error or fill its result with NaN.

    Returns
    -------
    x : Tensor, shape (n,) or (n, k)
    residuals : Tensor, shape (1,) or (k,)
        The sums of squares of ``b - a @ x``; of shape (0,) if the columns of ``a`` are linearly
        dependent, or m <= n. Traced matrices, whose rank is unknown, count as having full rank
        here, as do all matrices with ``failed="nan"``.
    rank : Tensor, integer
        The rank of ``a``; 0 for a failed matrix, since integers have no NaN.
    s : Tensor
        The singular values of ``a``.

    Raises
    ------
    MatrixShapeError
        ``a`` is not a matrix, or ``b`` has neither one axis nor two.
    ShapeError
        The numbers of rows differ.

    Notes
    -----
    See ``pinv`` for the derivative, and for its errors.

    Examples
    --------
    >>> lstsq([[1.0], [1.0]], [1.0, 3.0])[0]
    Tensor([2.])
    """
    matrix, right = operand(a, "lstsq"), operand(b, "lstsq")
    matrix_shape, shape = shape_of(matrix), shape_of(right)
    if len(matrix_shape) != 2 or len(shape) not in (1, 2):
        raise MatrixShapeError(
            f"lstsq: a has to have two axes, and b one or two; the shapes are {matrix_shape}"
            f" and {shape}. Use fg.vmap for stacks."
        )
    if shape[0] != matrix_shape[0]:
        raise ShapeError(
            f"lstsq: a and b have to have as many rows; the shapes are {matrix_shape} and {shape}."
        )
    dtype = linalg_dtype("lstsq", dtype_of(matrix), dtype_of(right))
    matrix, right = (x if dtype_of(x) == dtype else cast(x, dtype=dtype) for x in (matrix, right))
    columns = right if len(shape) == 2 else reshape(right, shape=(*shape, 1))
    if rcond is None:
        tolerance = float(np.finfo(dtype).eps) * max(matrix_shape)
    else:
        tolerance = real_number(rcond, "lstsq", "rcond")
        if not 0 < tolerance < 1:  # as in LAPACK
            tolerance = float(np.finfo(dtype).eps) / 2
    failed = failed_as(failed, "lstsq")
    x = pseudoinverses.least_squares(matrix, columns, rcond=tolerance, failed=failed)
    s = svdvals(matrix, failed=failed)
    held = unfollowed(s._value if type(s) is Tensor else s)
    rank = (
        wrap(held > tolerance * held[:1]).sum()
        if matrix_shape[1] and matrix_shape[0]
        else wrap(np.int64(0))
    )
    rank = wrap(cast(rank, dtype=np.dtype(np.int32)))
    known = concrete(rank)
    full = failed == "nan" or type(known) not in RAW or int(known) == matrix_shape[1]
    residual = columns - matrix @ x
    squares = reduce_sum(real_part(conjugate(residual) * residual), axis=(0,), keepdims=False)
    if not full or matrix_shape[0] <= matrix_shape[1]:
        squares = np.zeros(0, np.dtype(dtype.char.lower()))
    if len(shape) == 1:
        x = reshape(x, shape=(matrix_shape[1],))
    return wrap(x), wrap(squares), rank, s
