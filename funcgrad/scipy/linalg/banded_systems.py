"""Linear equations with banded matrices, under SciPy's names.

>>> solve_banded((1, 1), [[0.0, 1.0], [2.0, 2.0], [1.0, 0.0]], [3.0, 3.0])
Tensor([1., 1.])
"""

from __future__ import annotations

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.specs import shape_of
from funcgrad._core.trace import Value
from funcgrad._core.users_values import operand
from funcgrad._primitives.banded_systems import banded_solve, shifted
from funcgrad._primitives.structural import reshape
from funcgrad.errors import ShapeError
from funcgrad.numpy.linear_systems import right_side, without_columns
from funcgrad.numpy.matrices import matrices
from funcgrad.numpy.options import failed_as, integers
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap


def solve_banded(
    l_and_u: tuple[int, int],
    ab: ArrayLike,
    b: ArrayLike,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    *,
    failed: str = "raise",
) -> Tensor:
    """The solution x of ``a @ x = b`` for a banded matrix a.

    Values and derivatives take time and memory only for the diagonals of the band.

    Parameters
    ----------
    l_and_u : (int, int)
        The number of diagonals below and above the main one.
    ab : array_like, shape (..., l + u + 1, n)
        The diagonals: ``ab[u + i - j, j]`` is ``a[i, j]``. The unused corners are not read.
    b : array_like, shape (n,) or (..., n, k)
    overwrite_ab, overwrite_b, check_finite : bool
        Ignored.
    failed : {"raise", "nan"}
        Whether a singular matrix raises an error or gives NaN.

    Returns
    -------
    Tensor, in the shape of b, stacks broadcast

    Raises
    ------
    ShapeError
        The shapes do not fit each other.
    MatrixError
        The matrix is singular.
    MissingPackageError
        SciPy is not installed.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.grad(lambda b: solve_banded((0, 0), [[2.0, 4.0]], b)[1])(fg.tensor([1.0, 1.0]))
    Tensor([0.  , 0.25])
    """
    counts = integers(l_and_u, "solve_banded", "l_and_u")
    if len(counts) != 2:
        raise ShapeError(
            "solve_banded: l_and_u has to be a pair (l, u), the numbers of diagonals below and"
            f" above the main one; not {l_and_u!r}."
        )
    below, above = counts
    bands = matrices(ab, "solve_banded", "ab")
    if min(below, above) < 0 or shape_of(bands)[-2] != below + above + 1:
        raise ShapeError(
            "solve_banded: ab has to have l + u + 1 rows, and l and u are not negative; the shape"
            f" is {shape_of(bands)}, and (l, u) is {(below, above)}."
        )
    return _solved(bands, b, below, above, "solve_banded", failed)


def _solved(
    bands: Value, b: ArrayLike, below: int, above: int, operation: str, failed: str
) -> Tensor:
    failed = failed_as(failed, operation)
    right, n = right_side(b, operation), shape_of(bands)[-1]
    shape = shape_of(right)
    is_vector = len(shape) == 1
    if not shape or shape[0 if is_vector else -2] != n:
        raise ShapeError(
            f"{operation}: b has to have as many rows as ab has columns; the shapes are {shape} and"
            f" {shape_of(bands)}."
        )
    columns = wrap(reshape(right, shape=(n, 1)) if is_vector else right)
    lead = np.broadcast_shapes(shape_of(bands)[:-2], columns.shape[:-2])
    parts = [
        operand(fnp.broadcast_to(x, (*lead, *x.shape[-2:])), operation)
        for x in (wrap(bands), columns)
    ]
    x = banded_solve(*parts, lower=below, upper=above, failed=failed)
    return without_columns(x, is_vector)


def solveh_banded(
    ab: ArrayLike,
    b: ArrayLike,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = True,
    *,
    failed: str = "raise",
) -> Tensor:
    """The solution x of ``a @ x = b`` for a Hermitian banded matrix a.

    It has the parameters and errors of ``solve_banded``. The matrix need not be positive definite:
    the equations are solved as general ones.

    Parameters
    ----------
    ab : array_like, shape (..., u + 1, n)
        The diagonals from the main one upwards, ``ab[u + i - j, j]``, or downwards, ``ab[i - j,
        j]``. The imaginary parts of the main one are not read.
    b : array_like, shape (..., n) or (..., n, k)
    overwrite_ab, overwrite_b, check_finite : bool
        Ignored.
    lower : bool
        Whether ``ab`` holds the diagonals below the main one.
    failed : {"raise", "nan"}
        See ``solve_banded``.

    Returns
    -------
    Tensor
        In the shape of ``b``.

    Examples
    --------
    >>> solveh_banded([[0.0, 1.0], [2.0, 2.0]], [3.0, 3.0])
    Tensor([1., 1.])
    """
    half = wrap(matrices(ab, "solveh_banded", "ab"))
    beside = half.shape[-2] - 1
    if beside < 0:
        raise ShapeError(
            f"solveh_banded: ab has to have at least one row, the main diagonal; its shape is"
            f" {half.shape}."
        )
    sign = 1 if lower else -1
    order = range(1, beside + 1) if lower else range(beside)
    off_diagonals = [half[..., k : k + 1, :] for k in order]
    distances = order if lower else range(beside, 0, -1)
    turned = [
        wrap(shifted(operand(fnp.conj(row), "solveh_banded"), sign * distance))
        for row, distance in zip(off_diagonals, distances, strict=True)
    ]
    middle = half[..., :1, :] if lower else half[..., beside:, :]
    middle = fnp.astype(middle.real, half.dtype)
    above, below = (turned[::-1], off_diagonals) if lower else (off_diagonals, turned[::-1])
    bands = fnp.concatenate([*above, middle, *below], -2)
    return _solved(operand(bands, "solveh_banded"), b, beside, beside, "solveh_banded", failed)
