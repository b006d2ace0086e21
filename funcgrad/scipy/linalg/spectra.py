"""Eigenvalues with SciPy's options.

>>> eigh([[2.0, 1.0], [1.0, 2.0]], eigvals_only=True, subset_by_index=[1, 1])
Tensor([3.])
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._primitives import eigen_general
from funcgrad._primitives.matrices import adjoint, hermitian
from funcgrad._transforms.stop import stop_gradient
from funcgrad.errors import ArgumentError, MissingOptionError, ShapeError, TracerError
from funcgrad.numpy import decompositions as plain
from funcgrad.numpy.matrices import results, square
from funcgrad.numpy.options import choice, failed_as, integer, pair, real_number
from funcgrad.scipy.linalg.composed import where_true
from funcgrad.scipy.linalg.systems import half_of
from funcgrad.scipy.linalg.triangular_systems import cholesky, solve_triangular
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap

Pair = tuple[Tensor, Tensor]


def eigh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    *,
    lower: bool | None = None,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Sequence[int] | None = None,
    subset_by_value: Sequence[float] | None = None,
    driver: str | None = None,
    failed: str = "raise",
) -> Tensor | Pair:
    """The eigenvalues and the eigenvectors of Hermitian matrices, or of pairs of them.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
    b : array_like, shape (..., n, n), optional
        Positive definite.
    lower : bool, optional
        Which triangle of the matrices is read; by default their Hermitian part is taken.
    eigvals_only : bool
        Whether to return only the eigenvalues. They have derivatives at every matrix.
    type : {1, 2, 3}
        With b: ``a @ v = w * b @ v``, ``a @ b @ v = w * v`` or ``b @ a @ v = w * v``.
    subset_by_index : (int, int), optional
        The first and the last eigenvalue that is returned, in ascending order.
    subset_by_value : (float, float), optional
        The half-open interval ``(low, high]`` of the eigenvalues that are returned. In ``fg.vmap``
        it has to hold as many for all matrices.
    overwrite_a, overwrite_b, check_finite, driver
        Ignored.
    failed : {"raise", "nan"}
        Whether a matrix raises or gives NaN if its ``b`` is not positive definite, it has
        infinities or NaN, or a derivative is undefined.

    Returns
    -------
    w : Tensor, shape (..., k)
        In ascending order.
    v : Tensor, shape (..., n, k)
        The eigenvectors in columns, of length 1; with b such that ``v.mH @ b @ v``, or for the
        third type ``v.mH @ inv(b) @ v``, is the identity.

    Raises
    ------
    MatrixShapeError
        The matrices are not square.
    ShapeError
        ``a`` and ``b`` differ in size.
    MatrixError
        ``b`` is not positive definite, or there are infinities or NaN.
    ArgumentError
        ``type`` or a subset is invalid, or both subsets are given.
    DegenerateError
        See ``funcgrad.numpy.linalg.eigh``.
    BatchError
        Intervals hold different numbers of eigenvalues in ``fg.vmap``.
    TracerError
        ``subset_by_value`` in a loop or a branch under ``jit``.

    Notes
    -----
    With ``b = L @ L.mH`` all types are eigenvalues of one Hermitian matrix, which is differentiated
    (Golub and Van Loan, "Matrix computations", section 8.7).

    Examples
    --------
    >>> eigh([[2.0, 0.0], [0.0, 3.0]], [[1.0, 0.0], [0.0, 4.0]], eigvals_only=True)
    Tensor([0.75, 2.  ])
    """
    failed = failed_as(failed, "eigh")
    type = choice(type, (1, 2, 3), "eigh", "type")
    matrix = half_of(wrap(square(a, "eigh")), lower, True)
    if b is None:
        subsets = subset_by_index, subset_by_value
        return _selected(matrix, None, False, eigvals_only, *subsets, failed)
    other = half_of(wrap(square(b, "eigh", "b")), lower, True)
    if other.shape[-1] != matrix.shape[-1]:
        raise ShapeError(
            "eigh: a and b have to be of one size; the shapes are"
            f" {matrix.shape} and {other.shape}."
        )
    factor = cholesky(other, lower=True, failed=failed)
    if type == 1:
        half = solve_triangular(factor, matrix, lower=True, failed=failed)
        matrix = solve_triangular(factor, wrap(adjoint(half)), lower=True, failed=failed)
    else:
        matrix = wrap(adjoint(factor)) @ matrix @ factor
    matrix = wrap(hermitian(matrix))
    subsets = subset_by_index, subset_by_value
    return _selected(matrix, factor, type == 3, eigvals_only, *subsets, failed)


def _selected(
    matrix: Tensor,
    factor: Tensor | None,
    is_product: bool,
    eigvals_only: bool,
    by_index: Sequence[int] | None,
    by_value: Sequence[float] | None,
    failed: str,
) -> Tensor | Pair:
    """Eigenvalues, and the eigenvectors with their basis changed back by the factor of b."""
    if by_index is not None and by_value is not None:
        raise ArgumentError("eigh: give subset_by_index or subset_by_value, not both.")
    if eigvals_only:
        w = plain.eigvalsh(matrix, failed=failed)
        return w[..., _chosen(w, by_index, by_value)]
    w, v = plain.eigh(matrix, failed=failed)
    if factor is not None and is_product:
        v = factor @ v
    elif factor is not None:
        v = solve_triangular(factor, v, trans="C", lower=True, failed=failed)
    chosen = _chosen(w, by_index, by_value)
    return w[..., chosen], v[..., chosen]


def _chosen(w: Tensor, by_index: Sequence[int] | None, by_value: Sequence[float] | None) -> slice:
    """The requested range of ascending eigenvalues."""
    n = w.shape[-1]
    if by_index is not None:
        ends = pair(by_index, "eigh", "subset_by_index")
        low, high = [integer(end, "eigh", "subset_by_index") for end in ends]
        if not 0 <= low <= high < n:
            raise ArgumentError(
                f"eigh: subset_by_index is (first, last) with 0 <= first <= last < {n}, not"
                f" {(low, high)}."
            )
        return slice(low, high + 1)
    if by_value is None:
        return slice(n)
    limits = pair(by_value, "eigh", "subset_by_value")
    low_value, high_value = [real_number(limit, "eigh", "subset_by_value") for limit in limits]
    if not low_value < high_value or w.ndim != 1:
        raise ArgumentError(
            "eigh: subset_by_value is (low, high) with low < high, for one matrix; got"
            f" {(low_value, high_value)} and eigenvalues of shape {w.shape}."
        )
    held = stop_gradient(w)
    counts = [
        known_count(fnp.sum(held <= limit), "eigh with subset_by_value")
        for limit in (low_value, high_value)
    ]
    return slice(*counts)


def known_count(number: Tensor, operation: str) -> int:
    """A count that determines a shape, as an integer; it must not be traced."""
    try:
        return int(number)
    except TracerError:
        raise TracerError(
            f"{operation}: the shape of the result depends on values, which are not known in"
            " fg.vmap with branches=False, nor in a loop or a branch under jit. Call it outside."
        ) from None


def eigvalsh(
    a: ArrayLike,
    b: ArrayLike | None = None,
    *,
    lower: bool | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Sequence[int] | None = None,
    subset_by_value: Sequence[float] | None = None,
    driver: str | None = None,
    failed: str = "raise",
) -> Tensor:
    """The eigenvalues of Hermitian matrices: ``eigh`` with ``eigvals_only``.

    Examples
    --------
    >>> eigvalsh([[2.0, 1.0], [1.0, 2.0]])
    Tensor([1., 3.])
    """
    eigenvalues = eigh(
        a,
        b,
        lower=lower,
        eigvals_only=True,
        type=type,
        subset_by_index=subset_by_index,
        subset_by_value=subset_by_value,
        failed=failed,
    )
    assert isinstance(eigenvalues, Tensor)
    return eigenvalues


def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: Sequence[float] | None = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
    *,
    failed: str = "raise",
) -> Tensor | Pair:
    """The eigenvalues and the eigenvectors of real symmetric tridiagonal matrices.

    The whole matrix is passed to ``eigh``; see there for results and errors.

    Parameters
    ----------
    d : array_like, shape (..., n)
        The diagonal.
    e : array_like, shape (..., n - 1)
        The elements beside the diagonal.
    eigvals_only : bool
    select : {"a", "v", "i"}
        Whether all eigenvalues are returned, or those that ``select_range`` chooses by value or by
        index.
    select_range : (float, float), optional
    check_finite, tol, lapack_driver
        Ignored.
    failed : {"raise", "nan"}
        See ``eigh``.

    Returns
    -------
    Tensor, or tuple of Tensor
        The eigenvalues; and the eigenvectors in columns, unless ``eigvals_only``.

    Examples
    --------
    >>> eigh_tridiagonal([2.0, 2.0], [1.0], eigvals_only=True)
    Tensor([1., 3.])
    """
    choice(select, ("a", "v", "i"), "eigh_tridiagonal", "select")
    if (select_range is None) != (select == "a"):
        raise ArgumentError(
            "eigh_tridiagonal: select is 'a' without a select_range, or 'v' or 'i' with one; got"
            f" {select!r} and {select_range!r}."
        )
    middle, beside = fnp.atleast_1d(d), fnp.atleast_1d(e)
    n = middle.shape[-1]
    if beside.shape[-1] != n - 1 or "c" in (middle.dtype.kind, beside.dtype.kind):
        raise ShapeError(
            "eigh_tridiagonal: e has to have one element less than d, and both are real; the shapes"
            f" are {middle.shape} and {beside.shape}, the dtypes {middle.dtype} and {beside.dtype}."
        )
    above = where_true(np.eye(n - 1, n, 1, dtype=bool), beside[..., :, None])
    none = fnp.zeros((*above.shape[:-2], 1, n), dtype=above.dtype)
    half = fnp.concatenate([above, none], -2)
    matrix = where_true(np.eye(n, dtype=bool), middle[..., :, None]) + half + half.mT
    indices = values = None
    if select_range is not None:
        ends = pair(select_range, "eigh_tridiagonal", "select_range")
        if select == "i":
            indices = [integer(end, "eigh_tridiagonal", "select_range") for end in ends]
        else:
            values = [real_number(end, "eigh_tridiagonal", "select_range") for end in ends]
    failed = failed_as(failed, "eigh_tridiagonal")
    return _selected(matrix, None, False, eigvals_only, indices, values, failed)


def eigvalsh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    select: str = "a",
    select_range: Sequence[float] | None = None,
    check_finite: bool = True,
    tol: float = 0.0,
    lapack_driver: str = "auto",
    *,
    failed: str = "raise",
) -> Tensor:
    """The eigenvalues of real symmetric tridiagonal matrices: see ``eigh_tridiagonal``.

    Examples
    --------
    >>> eigvalsh_tridiagonal([2.0, 2.0], [1.0])
    Tensor([1., 3.])
    """
    eigenvalues = eigh_tridiagonal(d, e, True, select, select_range, failed=failed)
    assert isinstance(eigenvalues, Tensor)
    return eigenvalues


def eig(
    a: ArrayLike,
    b: ArrayLike | None = None,
    left: bool = False,
    right: bool = True,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
    *,
    failed: str = "raise",
) -> Tensor | Pair:
    """The eigenvalues and the right eigenvectors of square matrices.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
    b, left, homogeneous_eigvals
        Not supported: leave them at their defaults.
    right : bool
        Whether to return also the eigenvectors.
    overwrite_a, overwrite_b, check_finite : bool
        Ignored.
    failed : {"raise", "nan"}
        Whether a matrix with infinities, NaN or an undefined derivative raises or gives NaN.

    Returns
    -------
    w : Tensor, complex, shape (..., n)
    vr : Tensor, complex, shape (..., n, n)
        Complex for all matrices; SciPy's are real where all eigenvalues of a real matrix are.

    Raises
    ------
    MissingOptionError
        ``b``, ``left`` or ``homogeneous_eigvals`` is given.
    MatrixShapeError, MatrixError, DegenerateError
        See ``funcgrad.numpy.linalg.eig``.

    Examples
    --------
    >>> eig([[2.0, 0.0], [0.0, 3.0]], right=False)
    Tensor([2.+0.j, 3.+0.j])
    """
    if left:
        raise MissingOptionError(
            "eig: left=True is not available. The left eigenvectors are the right ones of"
            " fnp.conj(a.mT), of the conjugate eigenvalues; their order may be another."
        )
    _refuse_pairs("eig", b, homogeneous_eigvals)
    matrix, failed = square(a, "eig"), failed_as(failed, "eig")
    if not right:
        return wrap(eigen_general.eigvals(matrix, failed=failed))
    values, vectors = results(eigen_general.eig, matrix, failed=failed)
    return values, vectors


def _refuse_pairs(operation: str, b: ArrayLike | None, homogeneous_eigvals: bool) -> None:
    if b is not None or homogeneous_eigvals:
        raise MissingOptionError(
            f"{operation}: generalized eigenvalues of matrices that are not Hermitian are not"
            f" available. For an invertible b pass {operation}(solve(b, a)); for Hermitian ones use"
            " eigh(a, b)."
        )


def eigvals(
    a: ArrayLike,
    b: ArrayLike | None = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    homogeneous_eigvals: bool = False,
    *,
    failed: str = "raise",
) -> Tensor:
    """The eigenvalues of square matrices, always complex. For parameters and errors see ``eig``.

    The order of parameters is SciPy 1.18's; earlier ones have no ``overwrite_b``.

    Examples
    --------
    >>> eigvals([[2.0, 5.0], [0.0, 3.0]])
    Tensor([2.+0.j, 3.+0.j])
    """
    _refuse_pairs("eigvals", b, homogeneous_eigvals)
    failed = failed_as(failed, "eigvals")
    return wrap(eigen_general.eigvals(square(a, "eigvals"), failed=failed))
