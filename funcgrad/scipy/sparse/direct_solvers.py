"""Direct solutions of sparse linear equations: ``spsolve``, ``splu``, ``factorized``.

>>> import funcgrad as fg
>>> A = fg.sparse.diags([2.0, 4.0])
>>> fg.grad(lambda b: spsolve(A, b).sum())(fg.tensor([1.0, 1.0]))
Tensor([0.5 , 0.25])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.specs import dtype_of
from funcgrad._core.trace import RAW, TracedValue, Value, concrete, device_below
from funcgrad._core.users_values import ArrayLike
from funcgrad._hints.lookup import answering
from funcgrad._primitives.matrices import linalg_dtype
from funcgrad._primitives.sparse_matrices import SparseFactors, SparseLayout, sparse_solve
from funcgrad._transforms.record import Recorder
from funcgrad.errors import ArgumentError, DeviceError, MatrixShapeError, ShapeError, TracerError
from funcgrad.numpy.options import failed_as
from funcgrad.sparse.sparse_arrays import SparseArray, sparse_operand
from funcgrad.tensor.tensor import Tensor, wrap


def _square(A: Any, operation: str) -> SparseArray:  # SciPy's name
    matrix = sparse_operand(A)
    if matrix is None:
        raise ArgumentError(
            f"{operation}: A has to be a sparse array of fg.sparse or SciPy, got"
            f" {type(A).__name__}. For a dense matrix use fg.numpy.linalg.solve."
        )
    if matrix.pattern.shape[0] != matrix.pattern.shape[1]:
        raise MatrixShapeError(
            f"{operation}: A has to be square, its shape is {matrix.pattern.shape}. For least"
            " squares use scipy.sparse.linalg.lsmr with fg.sparse.jacobian_operator."
        )
    return matrix


def _value_inside(value: Value) -> Value | None:
    """The raw value inside of reverse mode's tracers; None inside of other transformations."""
    while isinstance(value, TracedValue):
        if not isinstance(value._trace, Recorder):
            return None
        value = value._value
    return value if type(value) in RAW else None


def _factors(matrix: SparseArray, layout: SparseLayout) -> SparseFactors | None:
    """The factors of a matrix with known values, for the solution and for all its derivatives."""
    data = _value_inside(concrete(wrap(matrix.data)))
    if data is None or np.ndim(data) != 1:
        return None
    values = np.asarray(data)
    dtype = linalg_dtype("spsolve", values.dtype)
    return SparseFactors.of(np.asarray(values, dtype), layout)


def _solved(
    operation: str,
    matrix: SparseArray,
    layout: SparseLayout,
    factors: SparseFactors | None,
    b: ArrayLike,
    failed: str,
) -> Tensor:
    if sparse_operand(b) is not None:
        raise ArgumentError(
            f"{operation}: b is sparse, and the solution would be dense. Write b.toarray()."
        )
    right, size = fnp.asarray(b), matrix.pattern.shape[0]
    is_vector = right.ndim == 1
    if not right.ndim or right.shape[0 if is_vector else -2] != size:
        raise ShapeError(
            f"{operation}: b has to have {size} rows, as A has; its shape is {right.shape}."
        )
    columns = right[:, None] if is_vector else right
    data, lead = wrap(matrix.data), matrix.shape[:-2]
    if lead:
        lead = np.broadcast_shapes(lead, columns.shape[:-2])
        data = fnp.broadcast_to(data, (*lead, data.shape[-1]))
        columns = fnp.broadcast_to(columns, (*lead, *columns.shape[-2:]))
    x = sparse_solve(
        concrete(data), concrete(columns), layout=layout, factors=factors, failed=failed
    )
    return wrap(x)[..., 0] if is_vector else wrap(x)


@answering
def spsolve(
    A: Any,  # SciPy's name
    b: ArrayLike,
    permc_spec: str | None = None,
    use_umfpack: bool = True,
    *,
    failed: str = "raise",
) -> Tensor:
    """Solve ``A x = b`` for a sparse matrix, by SciPy's SuperLU.

    The derivatives are solutions of equations with the same matrix: reverse mode uses the factors
    of the solution again, and the gradient with respect to A has the pattern of A.

    Parameters
    ----------
    A : SparseArray, or sparse array of SciPy; shape (n, n)
    b : array_like, shape (n,) or (..., n, k)
    permc_spec, use_umfpack
        Ignored.
    failed : {"raise", "nan"}
        Whether a singular matrix raises an error or gives NaN.

    Returns
    -------
    Tensor, in the shape of b

    Raises
    ------
    MatrixError
        The matrix is singular, or holds NaN or infinity.
    MatrixShapeError, ShapeError
        The matrix is not square, or b has other rows.
    MissingPackageError
        SciPy is not installed.

    Notes
    -----
    Under ``jit`` a matrix that is traced is factored when the program runs, and again when its
    nonzeros change: the program holds the last factors. Outside, ``splu`` holds them.

    Examples
    --------
    >>> import funcgrad as fg
    >>> A = fg.sparse.array([4.0, 1.0, 2.0], [0, 1, 1], [0, 2, 3], shape=(2, 2))
    >>> spsolve(A, [6.0, 4.0])
    Tensor([1., 2.])
    >>> fg.grad(lambda A: spsolve(A, [6.0, 4.0])[0])(A).data
    Tensor([-0.25, -0.5 ,  0.25])
    """
    failed = failed_as(failed, "spsolve")
    matrix = _square(A, "spsolve")
    layout = matrix.pattern.layout
    factors = _factors(matrix, layout) if failed == "raise" else None
    return _solved("spsolve", matrix, layout, factors, b, failed)


class SparseLU:
    """The factors of a sparse matrix, which ``splu`` returns.

    Attributes
    ----------
    matrix : SparseArray
    """

    __slots__ = ("_factors", "_layout", "matrix")

    def __init__(self, matrix: SparseArray, layout: SparseLayout, factors: SparseFactors) -> None:
        self.matrix = matrix
        self._layout = layout
        self._factors = factors

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the matrix."""
        return self.matrix.pattern.shape

    def __repr__(self) -> str:
        return f"SparseLU of {self.matrix!r}"

    def solve(self, b: ArrayLike, trans: str = "N") -> Tensor:
        """Solve an equation with the matrix, its transpose, or its adjoint.

        Parameters
        ----------
        b : array_like, shape (n,) or (..., n, k)
        trans : {"N", "T", "H"}
            Whether to solve with A, its transpose, or its conjugate transpose.
        """
        if not isinstance(trans, str) or trans not in ("N", "T", "H"):
            raise ArgumentError(f"splu: trans has to be 'N', 'T' or 'H', got {trans!r}.")
        if trans == "N":
            return _solved("splu", self.matrix, self._layout, self._factors, b, "raise")
        data = wrap(self.matrix.data)
        adjoint = SparseArray(
            data.conj() if dtype_of(data).kind == "c" else data, self.matrix.pattern
        )
        right = fnp.asarray(b)
        right = right.conj() if trans == "T" else right
        factors = self._factors.adjoint()
        x = _solved("splu", adjoint, self._layout.flipped, factors, right, "raise")
        return x.conj() if trans == "T" else x


@answering
def splu(A: Any) -> SparseLU:  # SciPy's name
    """Factor a sparse matrix, to solve equations with it many times.

    Parameters
    ----------
    A : SparseArray, or sparse array of SciPy; shape (n, n)
        Its values are known: constants, or arguments of ``grad``.

    Returns
    -------
    SparseLU
        Its method ``solve(b, trans="N")`` is differentiated with respect to A and b, in both modes,
        and every derivative uses the same factors.

    Raises
    ------
    MatrixError
        The matrix is singular.
    TracerError
        The values are not known, as under ``jit`` and ``vmap``: use ``spsolve`` there.
    DeviceError
        The values are on a device.

    Examples
    --------
    >>> import funcgrad as fg
    >>> lu = splu(fg.sparse.diags([2.0, 4.0]))
    >>> lu.solve([2.0, 2.0]), lu.solve([4.0, 4.0])
    (Tensor([1. , 0.5]), Tensor([2., 1.]))
    """
    matrix = _square(A, "splu")
    layout = matrix.pattern.layout
    factors = _factors(matrix, layout)
    if (device := device_below(matrix.data)) is not None:
        raise DeviceError(
            f"splu: the matrix is on {device.title}, and SciPy's factors are on the host. Copy it"
            " with fg.get, or use spsolve(A, b)."
        )
    if factors is None:
        raise TracerError(
            "splu: the matrix is traced, so nothing can be factored yet. Inside of jit, vmap and"
            " jvp use spsolve(A, b)."
        )
    return SparseLU(matrix, layout, factors)


def factorized(A: Any) -> Callable[[ArrayLike], Tensor]:  # SciPy's name
    """Return a function that solves ``A x = b``, with the factors of A; see ``splu``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> solve = factorized(fg.sparse.diags([2.0, 4.0]))
    >>> solve([2.0, 2.0])
    Tensor([1. , 0.5])
    """
    return splu(A).solve
