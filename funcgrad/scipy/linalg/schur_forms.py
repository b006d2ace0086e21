"""Schur's triangular form of square matrices, with SciPy's options.

>>> t, z = schur([[0.0, 2.0], [-2.0, 0.0]])
>>> t
Tensor([[ 0.,  2.],
        [-2.,  0.]])
>>> rsf2csf(t, z)[0].diagonal()
Tensor([0.+2.j, 0.-2.j])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, overload

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._primitives import schur as forms
from funcgrad._primitives.structural import cast
from funcgrad.errors import MissingOptionError, ShapeError
from funcgrad.numpy.matrices import results, square
from funcgrad.numpy.options import choice, failed_as
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap

_COMES_FIRST: Final[Mapping[str, Callable[[Tensor], Tensor]]] = MappingProxyType(
    {
        "lhp": lambda w: w.real < 0,
        "rhp": lambda w: w.real >= 0,
        "iuc": lambda w: abs(w) <= 1,
        "ouc": lambda w: abs(w) > 1,
    }
)
"""SciPy's words for the eigenvalues that come first."""


@overload
def schur(
    a: ArrayLike,
    output: str = "real",
    lwork: int | None = None,
    overwrite_a: bool = False,
    sort: None = None,
    check_finite: bool = True,
    *,
    failed: str = "raise",
) -> tuple[Tensor, Tensor]: ...


@overload
def schur(
    a: ArrayLike,
    output: str = "real",
    lwork: int | None = None,
    overwrite_a: bool = False,
    *,
    sort: str | Callable[..., Any],
    check_finite: bool = True,
    failed: str = "raise",
) -> tuple[Tensor, Tensor, Tensor]: ...


def schur(
    a: ArrayLike,
    output: str = "real",
    lwork: int | None = None,
    overwrite_a: bool = False,
    sort: str | Callable[..., Any] | None = None,
    check_finite: bool = True,
    *,
    failed: str = "raise",
) -> tuple[Tensor, ...]:
    """Schur's form T of a matrix, and the unitary Z with ``a = Z @ T @ Z.mH``.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
    output : {"real", "complex"}
        For real matrices: whether T and Z are real, or complex. "r" and "c" mean the same.
    sort : {"lhp", "rhp", "iuc", "ouc"}, optional
        The eigenvalues that come first on the diagonal of T: in the left half plane, in the right
        one, inside the unit circle, or outside of it.
    lwork, overwrite_a, check_finite
        Ignored.
    failed : {"raise", "nan"}
        Whether a matrix with infinities, NaN or an undefined derivative raises or gives NaN.

    Returns
    -------
    T : Tensor, shape (..., n, n)
        Upper triangular. The real form has blocks of 2 x 2 on its diagonal for pairs of conjugate
        eigenvalues; the diagonal elements of a block are equal.
    Z : Tensor, shape (..., n, n)
    sdim : Tensor, int, shape (...)
        With ``sort``: how many eigenvalues come first.

    Raises
    ------
    MatrixShapeError
        The matrices are not square.
    MatrixError
        There are infinities or NaN, or LAPACK finds no form.
    ArgumentError
        ``output`` or ``sort`` is not one of these words.
    MissingOptionError
        ``sort`` is a function.
    DegenerateError
        A derivative is asked for where two eigenvalues are equal; where a 2 x 2 block is a multiple
        of a rotation, which any rotation leaves as it is; or, with "complex", of a result that
        depends on the phases of the columns of Z, which are arbitrary.
    MissingPackageError
        SciPy is not installed.

    Notes
    -----
    The signs (or phases) of the columns of Z are LAPACK's. Derivatives keep signs. Phases have no
    derivative: ``fg.jvp`` has the tangent of Z for which the diagonal of ``Z.mH @ dZ`` is 0, and
    ``fg.grad`` raises an error if another choice of phases would change the gradient. It has the
    right derivative of ``abs(Z)``, of the diagonal of T, and of ``Z @ f(T) @ Z.mH``. To fix phases
    divide the columns of Z by those of one of its rows. The rule is derived in
    ``funcgrad/_primitives/schur.py``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> t, z = schur([[1.0, 2.0], [0.0, 3.0]])
    >>> t
    Tensor([[1., 2.],
            [0., 3.]])
    >>> fg.grad(lambda a: schur(a)[0][0, 0])(fg.tensor([[1.0, 2.0], [0.0, 3.0]]))
    Tensor([[ 1.,  0.],
            [-1.,  0.]])
    """
    failed = failed_as(failed, "schur")
    kind = choice(output, ("real", "complex", "r", "c"), "schur", "output")
    if callable(sort):
        raise MissingOptionError(
            "schur: a function as sort is not available. Pass one of the words"
            f" {', '.join(map(repr, _COMES_FIRST))}, or sort=None."
        )
    order = "" if sort is None else choice(sort, tuple(_COMES_FIRST), "schur", "sort")
    matrix = square(a, "schur")
    if kind in ("complex", "c"):
        matrix = cast(matrix, dtype=np.result_type(wrap(matrix).dtype, np.complex64))
    t, z = results(forms.schur, matrix, order=order, failed=failed)
    if not order:
        return t, z
    chosen = _COMES_FIRST[order](_eigenvalues(t))
    return t, z, fnp.count_nonzero(chosen, axis=-1)


def _eigenvalues(t: Tensor) -> Tensor:
    """The eigenvalues of a form; both of a pair have a positive imaginary part here."""
    w = fnp.linalg.diagonal(t)
    if t.dtype.kind == "c" or t.shape[-1] < 2:
        return w
    below, above = (fnp.linalg.diagonal(t, offset=k) for k in (-1, 1))
    half = fnp.sqrt(abs(below * above)) * (below != 0)
    zero = fnp.zeros((*t.shape[:-2], 1), t.dtype)
    return w + 1j * (
        fnp.concatenate([half, zero], axis=-1) + fnp.concatenate([zero, half], axis=-1)
    )


def rsf2csf(T: ArrayLike, Z: ArrayLike, check_finite: bool = True) -> tuple[Tensor, Tensor]:
    """The complex Schur form of a matrix from its real one, by a rotation of each block.

    Parameters
    ----------
    T, Z : array_like, shape (..., n, n)
        The results of ``schur``.
    check_finite
        Ignored.

    Returns
    -------
    T, Z : Tensor, complex, shape (..., n, n)
        Upper triangular, and unitary.

    Raises
    ------
    MatrixShapeError
        The matrices are not square.
    ShapeError
        The shapes differ.

    Notes
    -----
    Golub and Van Loan, "Matrix Computations", 2013, 7.4.1, and as in SciPy: an element below the
    diagonal counts as 0 up to rounding, and of a pair the eigenvalue comes first that LAPACK finds
    first. The rotations are smooth functions of T, so derivatives include these phases.

    Examples
    --------
    >>> rsf2csf([[0.0, 4.0], [-1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]])[0].diagonal()
    Tensor([0.+2.j, 0.-2.j])
    """
    form, vectors = wrap(square(T, "rsf2csf", "T")), wrap(square(Z, "rsf2csf", "Z"))
    if form.shape != vectors.shape:
        raise ShapeError(
            "rsf2csf: T and Z have to be of one shape; the shapes are"
            f" {form.shape} and {vectors.shape}."
        )
    dtype = np.result_type(form.dtype, vectors.dtype, np.complex64)
    form, vectors = form.astype(dtype), vectors.astype(dtype)
    for m in range(form.shape[-1] - 1, 0, -1):
        pair = slice(m - 1, m + 1)
        turn = _rotation(form[..., pair, pair])
        back = fnp.conj(turn.mT)
        form = form.at[..., pair, m - 1 :].set(turn @ form[..., pair, m - 1 :])
        form = form.at[..., : m + 1, pair].set(form[..., : m + 1, pair] @ back)
        vectors = vectors.at[..., pair].set(vectors[..., pair] @ back)
        form = form.at[..., m, m - 1].set(0.0)
    return form, vectors


def _rotation(block: Tensor) -> Tensor:
    """The unitary matrix that makes a block upper triangular; the identity if it is already."""
    below, last = block[..., 1, 0], block[..., 1, 1]
    size = abs(block[..., 0, 0]) + abs(last)
    is_pair = abs(below) > np.finfo(np.float64).eps * size
    usual = np.array([[0.0, 1.0], [-1.0, 0.0]], block.dtype)
    block = fnp.where(is_pair[..., None, None], block, usual)
    gap = fnp.linalg.eigvals(block)[..., 0] - block[..., 1, 1]
    below = block[..., 1, 0]
    length = fnp.sqrt(abs(gap) ** 2 + abs(below) ** 2)
    c, s = gap / length, below / length
    rows = [fnp.stack([fnp.conj(c), s], -1), fnp.stack([-s, c], -1)]
    turn = fnp.stack(rows, -2).astype(block.dtype)
    return fnp.where(is_pair[..., None, None], turn, np.eye(2, dtype=block.dtype))
