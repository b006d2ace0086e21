"""Linear equations and inverses with SciPy's options.

>>> solve([[2.0, 1.0], [1.0, 2.0]], [3.0, 3.0], assume_a="pos")
Tensor([1., 1.])
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.specs import dtype_of, shape_of
from funcgrad._core.trace import Value
from funcgrad._core.users_values import operand
from funcgrad._primitives.lu import exchanges, rows_after_exchanges
from funcgrad._primitives.matrices import adjoint, hermitian
from funcgrad._primitives.structural import swap_last_axes
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import DtypeError, MatrixError, ShapeError, TracerError
from funcgrad.numpy import linear_systems as plain
from funcgrad.numpy.matrices import square
from funcgrad.numpy.options import choice, failed_as, pair, tolerance
from funcgrad.scipy.linalg.composed import toeplitz, where_true
from funcgrad.scipy.linalg.triangular_systems import cho_factor, cho_solve, lu, solve_triangular
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap

_STRUCTURES: Final = MappingProxyType(
    {"gen": "general", "sym": "symmetric", "her": "hermitian", "pos": "positive definite"}
)
_WORDS: Final = (
    *_STRUCTURES.values(),
    *("diagonal", "upper triangular", "lower triangular", "tridiagonal", "banded"),
)


def half_of(a: Tensor, lower: bool | None, conjugated: bool) -> Tensor:
    """The symmetric part of matrices; with ``lower``, the symmetric matrices of one triangle."""
    turned = adjoint if conjugated else swap_last_axes
    if lower is None:
        return wrap(hermitian(a) if conjugated else (a + turned(a)) / 2)
    triangle = fnp.tril(a, -1) if lower else fnp.triu(a, 1)
    diagonal = fnp.linalg.diagonal(a)
    if conjugated and a.dtype.kind == "c":
        diagonal = fnp.astype(diagonal.real, a.dtype)
    middle = where_true(np.eye(a.shape[-1], dtype=bool), diagonal[..., None, :])
    return wrap(triangle + middle + turned(triangle))


def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: str | None = None,
    transposed: bool = False,
    *,
    failed: str = "raise",
) -> Tensor:
    """The solution x of the linear equations ``a @ x = b``.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
    b : array_like, shape (n,) or (..., n, k)
    lower : bool, optional
        Which triangle of a Hermitian or symmetric matrix is read; by default the Hermitian or
        symmetric part of ``a`` is taken.
    overwrite_a, overwrite_b, check_finite : bool
        Ignored.
    assume_a : str, optional
        "gen" or "general", "sym" or "symmetric", "her" or "hermitian", "pos" or "positive
        definite", "diagonal", "upper triangular", "lower triangular", "tridiagonal", "banded".
        Elements that this excludes are not read, and have no derivative; a band is not checked. By
        default the matrix is general.
    transposed : bool
        Whether to solve ``a.T @ x = b``.
    failed : {"raise", "nan"}
        Whether a matrix that is singular, or not positive definite, raises or gives NaN.

    Returns
    -------
    Tensor, in the shape of b, stacks broadcast

    Raises
    ------
    MatrixShapeError
        ``a`` is not square.
    ShapeError
        The shapes do not fit each other.
    ArgumentError
        ``assume_a`` is not one of these words.
    MatrixError
        A matrix is singular, or not positive definite.

    Examples
    --------
    >>> solve([[3.0, 1.0], [0.0, 2.0]], [9.0, 8.0], transposed=True)
    Tensor([3. , 2.5])
    """
    matrix = wrap(square(a, "solve"))
    kind = _structure(assume_a, "solve")
    if transposed:
        matrix = matrix.mT
        lower = lower if lower is None else not lower
    if kind == "positive definite":
        factor = cho_factor(half_of(matrix, lower, True), failed=failed)
        return cho_solve(factor, b, failed=failed)
    if kind.endswith("triangular"):
        # The error shall speak of a, not of its Hermitian part.
        is_lower = (kind[:5] == "lower") != transposed
        return solve_triangular(matrix, b, lower=is_lower, failed=failed)
    return plain.solve(_assumed(matrix, kind, lower), b, failed=failed)


def _structure(assume_a: str | None, operation: str) -> str:
    if assume_a is None:
        return "general"
    word = choice(assume_a, (*_STRUCTURES, *_WORDS), operation, "assume_a")
    return _STRUCTURES.get(word, word)


def _assumed(matrix: Tensor, kind: str, lower: bool | None) -> Tensor:
    """Matrices without the elements that their structure excludes."""
    if kind in ("hermitian", "positive definite", "symmetric"):
        return half_of(matrix, lower, kind != "symmetric")
    if kind.endswith("triangular"):
        return fnp.tril(matrix) if kind[:5] == "lower" else fnp.triu(matrix)
    return fnp.tril(fnp.triu(matrix)) if kind == "diagonal" else matrix


def inv(
    a: ArrayLike,
    overwrite_a: bool = False,
    check_finite: bool = True,
    *,
    assume_a: str | None = None,
    lower: bool | None = None,
    failed: str = "raise",
) -> Tensor:
    """The inverses of matrices. For parameters and errors see ``solve``.

    Returns
    -------
    Tensor, shape (..., n, n)

    Examples
    --------
    >>> inv([[1.0, 2.0], [3.0, 4.0]])
    Tensor([[-2. ,  1. ],
            [ 1.5, -0.5]])
    """
    assumed = _assumed(wrap(square(a, "inv")), _structure(assume_a, "inv"), lower)
    return plain.inv(assumed, failed=failed)


def det(a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True) -> Tensor:
    """Determinants: ``funcgrad.numpy.linalg.det``, with derivatives at singular matrices too.

    Examples
    --------
    >>> det([[1.0, 2.0], [3.0, 5.0]])
    Tensor(-1.)
    """
    return plain.det(a)


class LUFactored(NamedTuple):
    """The result of ``lu_factor``."""

    lu: Tensor
    piv: Tensor


def lu_factor(
    a: ArrayLike, overwrite_a: bool = False, check_finite: bool = True, *, failed: str = "raise"
) -> LUFactored:
    """The triangular factors of a matrix in one array, and the row exchanges, for ``lu_solve``.

    For errors see ``lu``.

    Returns
    -------
    lu : Tensor, shape (..., m, n)
        The upper factor, and below its diagonal the lower factor without its diagonal.
    piv : Tensor of int32, shape (..., min(m, n))
        Step k swapped rows k and ``piv[k]``.

    Examples
    --------
    >>> lu_factor([[1.0, 2.0], [2.0, 2.0]])[1]
    Tensor([1, 1], dtype=int32)
    """
    p, low, up = lu(a, failed=failed)
    m, n = low.shape[-2], up.shape[-1]
    k = min(m, n)
    steps = wrap(exchanges(operand(p, "lu_factor")))[..., :k]
    below, wide = fnp.tril(low, -1), [(0, 0)] * (low.ndim - 2)
    if n > k:
        below = fnp.pad(below, [*wide, (0, 0), (0, n - k)])
    if m > k:
        up = fnp.pad(up, [*wide, (0, m - k), (0, 0)])
    return LUFactored(below + up, steps)


def lu_solve(
    lu_and_piv: tuple[ArrayLike, ArrayLike],
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
    *,
    failed: str = "raise",
) -> Tensor:
    """The solution x of ``a @ x = b``, where ``lu_and_piv = lu_factor(a)``.

    Parameters
    ----------
    lu_and_piv : tuple
    b : array_like, shape (n,) or (..., n, k)
    trans : {0, 1, 2}
        Whether to solve with a, with its transpose, or with its conjugate transpose.
    overwrite_b, check_finite : bool
        Ignored.
    failed : {"raise", "nan"}
        Whether a singular matrix raises an error or gives NaN.

    Returns
    -------
    Tensor, in the shape of b

    Raises
    ------
    MatrixShapeError
        The factors are not square.
    ShapeError
        The shapes do not fit each other.
    ArgumentError
        ``trans`` has another value.
    MatrixError
        The matrix is singular.

    Examples
    --------
    >>> lu_solve(lu_factor([[0.0, 2.0], [4.0, 0.0]]), [4.0, 4.0])
    Tensor([1., 2.])
    """
    factors, steps = pair(lu_and_piv, "lu_solve", "lu_and_piv")
    matrix, failed = square(factors, "lu_solve", "lu"), failed_as(failed, "lu_solve")
    trans = choice(trans, (0, 1, 2), "lu_solve", "trans")
    right, is_vector = plain.as_columns(matrix, plain.right_side(b, "lu_solve"), "lu_solve")
    rows = wrap(rows_after_exchanges(_exchanged(steps, matrix)))
    if not trans:
        half = fnp.take_along_axis(_stacked(right, rows), rows[..., None], -2)
        half = solve_triangular(matrix, half, lower=True, unit_diagonal=True)
        x = solve_triangular(matrix, half, failed=failed)
        return plain.without_columns(operand(x, "lu_solve"), is_vector)
    half = solve_triangular(matrix, wrap(right), trans=trans, failed=failed)
    half = solve_triangular(matrix, half, trans=trans, lower=True, unit_diagonal=True)
    back = fnp.argsort(rows, axis=-1)
    solution = fnp.take_along_axis(_stacked(operand(half, "lu_solve"), back), back[..., None], -2)
    return plain.without_columns(operand(solution, "lu_solve"), is_vector)


def _exchanged(steps: ArrayLike, matrix: Value) -> Value:
    """The permutation that results from the row swaps of ``lu_factor``."""
    rows = operand(steps, "lu_solve")
    if dtype_of(rows).kind not in "iu":
        raise DtypeError(f"lu_solve: piv has to be of integers, not of {dtype_of(rows)}.")
    n = shape_of(matrix)[-1]
    if shape_of(rows)[-1:] != (n,):
        raise ShapeError(
            f"lu_solve: piv has to name a row for each of the {n} rows; its shape is"
            f" {shape_of(rows)}."
        )
    return rows


def _stacked(right: Value, rows: Tensor) -> Tensor:
    """A right-hand side with as many axes as the matrices have."""
    x = wrap(right)
    return fnp.broadcast_to(x, (*np.broadcast_shapes(x.shape[:-2], rows.shape[:-1]), *x.shape[-2:]))


# ---------------------------------------------------------------------------- constant diagonals


def _both_sides(c_or_cr: ArrayLike | tuple[ArrayLike, ArrayLike], operation: str) -> Tensor:
    if isinstance(c_or_cr, tuple):
        return toeplitz(*pair(c_or_cr, operation, "c_or_cr"))
    return toeplitz(c_or_cr)


def solve_toeplitz(
    c_or_cr: ArrayLike | tuple[ArrayLike, ArrayLike],
    b: ArrayLike,
    check_finite: bool = True,
    *,
    failed: str = "raise",
) -> Tensor:
    """The solution x of ``toeplitz(c, r) @ x = b``, by factors of the whole matrix.

    It is more accurate than SciPy's Levinson recursion, and takes n**3 instead of n**2 steps.

    Parameters
    ----------
    c_or_cr : array_like or tuple of two
        The first column, or the first column and the first row.
    b : array_like, shape (n,) or (..., n, k)
    check_finite : bool
        Ignored.
    failed : {"raise", "nan"}
        Whether a singular matrix raises an error or gives NaN.

    Returns
    -------
    Tensor, in the shape of b

    Raises
    ------
    MatrixShapeError
        The matrix is not square.
    MatrixError
        The matrix is singular.

    Examples
    --------
    >>> solve_toeplitz([2.0, 1.0], [3.0, 3.0])
    Tensor([1., 1.])
    """
    return plain.solve(_both_sides(c_or_cr, "solve_toeplitz"), b, failed=failed)


def solve_circulant(
    c: ArrayLike,
    b: ArrayLike,
    singular: str = "raise",
    tol: float | None = None,
    caxis: int = -1,
    baxis: int = 0,
    outaxis: int = 0,
    *,
    failed: str = "raise",
) -> Tensor:
    """The solution x of ``circulant(c) @ x = b``, by Fourier transforms.

    Parameters
    ----------
    c : array_like
        The first columns, along the axis ``caxis``.
    b : array_like
        The right-hand sides, along the axis ``baxis``; other axes broadcast.
    singular : {"raise", "lstsq"}
        Whether a singular matrix is an error, or the shortest least squares solution is returned.
    tol : float, optional
        Eigenvalues count as zero up to this; by default n times the precision times the greatest.
    caxis, baxis, outaxis : int
        The axis of the vectors in c, in b and in the result.
    failed : {"raise", "nan"}
        With ``singular="raise"``: whether a singular matrix raises an error or gives NaN.

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        The vectors have different lengths.
    ArgumentError
        ``singular`` is not one of these words.
    MatrixError
        A matrix is singular.
    TracerError
        It is called in a branch or loop under ``jit`` with ``singular="raise"`` and without
        ``failed="nan"``.

    Examples
    --------
    >>> solve_circulant([2.0, 1.0], [3.0, 3.0])
    Tensor([1., 1.])
    """
    choice(singular, ("raise", "lstsq"), "solve_circulant", "singular")
    column = fnp.moveaxis(fnp.atleast_1d(c), caxis, -1)
    right = fnp.moveaxis(fnp.atleast_1d(b), baxis, -1)
    n = column.shape[-1]
    if right.shape[-1] != n:
        raise ShapeError(
            "solve_circulant: c and b have to have vectors of one length; the lengths are"
            f" {n} and {right.shape[-1]}."
        )
    values = fnp.fft.fft(column, axis=-1) if n else column
    sizes = fnp.abs(stop_gradient(values))
    precision = float(np.finfo(sizes.dtype).eps)
    bound = fnp.max(sizes, axis=-1, keepdims=True, initial=0.0) * n * precision
    is_zero = sizes <= (bound if tol is None else tolerance(tol, "solve_circulant", "tol"))
    failed = failed_as(failed, "solve_circulant")
    if singular == "raise" and failed == "raise" and _any(is_zero):
        raise MatrixError(
            "solve_circulant: the matrix is singular, or nearly so. Pass singular='lstsq' for the"
            " shortest least squares solution."
        )
    shares = fnp.fft.fft(right, axis=-1) if n else right
    if singular == "lstsq":
        shares = fnp.where(is_zero, 0.0, shares / fnp.where(is_zero, 1.0, values))
    else:  # multiply, so that derivatives are NaN where values are
        shares = shares / (values * fnp.where(is_zero, np.nan, fnp.ones_like(sizes)))
    x = fnp.fft.ifft(shares, axis=-1) if n else shares
    is_real = "c" not in (column.dtype.kind, right.dtype.kind)
    return fnp.moveaxis(x.real if is_real else x, -1, outaxis)


def _any(flags: Tensor) -> bool:
    try:
        return bool(fnp.any(flags))
    except TracerError:
        raise TracerError(
            "solve_circulant: whether a matrix is singular is not known before a branch or loop"
            " runs, nor in fg.vmap with branches=False. Pass failed='nan' for NaN, or"
            " singular='lstsq'."
        ) from None


def matmul_toeplitz(
    c_or_cr: ArrayLike | tuple[ArrayLike, ArrayLike],
    x: ArrayLike,
    check_finite: bool = False,
    workers: int | None = None,
) -> Tensor:
    """``toeplitz(c, r) @ x``, by a matrix product; ``workers`` is ignored.

    Examples
    --------
    >>> matmul_toeplitz([2.0, 1.0], [3.0, 3.0])
    Tensor([9., 9.])
    """
    return _both_sides(c_or_cr, "matmul_toeplitz") @ fnp.asarray(x)
