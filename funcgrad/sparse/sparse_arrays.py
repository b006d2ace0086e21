"""``SparseArray``: a matrix whose nonzeros are a tensor, and whose pattern is static.

Every transformation follows the tensor: derivatives of a function of a sparse matrix have its
pattern, and are never dense.

>>> import funcgrad as fg
>>> A = fg.sparse.array([1.0, 2.0, 3.0], [0, 1, 1], [0, 2, 3], shape=(2, 2))
>>> A @ fg.tensor([1.0, 10.0])
Tensor([21., 30.])
>>> fg.grad(lambda A: (A @ fg.tensor([1.0, 10.0])).sum())(A).data
Tensor([ 1., 10., 10.])
"""

from __future__ import annotations

from collections.abc import Callable
from operator import add, matmul, mul, sub, truediv
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

import funcgrad.numpy as fnp
from funcgrad._core.pytree_class import pytree, static_field
from funcgrad._core.specs import Shape, dtype_of, shape_of
from funcgrad._core.trace import concrete
from funcgrad._core.users_values import ArrayLike
from funcgrad._primitives.sparse_matrices import SparseLayout, sparse_product
from funcgrad._transforms.arguments import is_whole
from funcgrad.errors import ArgumentError, AxisError, LeafError, ShapeError
from funcgrad.sparse.element_rows import Indices, numbered, scipy_sparse
from funcgrad.sparse.matrix_arithmetic import (
    Nonzeros,
    chosen_block,
    elementwise_product,
    matrix_product,
    matrix_sum,
)
from funcgrad.sparse.patterns import Pattern
from funcgrad.tensor.conversion import is_operand_of_scipy
from funcgrad.tensor.tensor import Tensor, wrap

KEEP_ZERO: Final = frozenset(
    "absolute fabs sign sqrt cbrt square conjugate real imag sin tan arcsin arctan sinh tanh"
    " arcsinh arctanh expm1 log1p deg2rad rad2deg floor ceil trunc rint negative positive".split()
)
"""NumPy's functions with the value 0 at 0, which can be applied to the nonzeros."""

_BY_NAME: Final = MappingProxyType(
    {"matmul": matmul, "multiply": mul, "divide": truediv, "add": add, "subtract": sub}
)

_OPERATORS: Final = MappingProxyType(
    {"add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__", "matmul": "__rmatmul__"}
)
"""Operators with an array of NumPy on the left."""


Operand: TypeAlias = Any
"""A sparse array, or one of SciPy's, or an array."""


@pytree
class SparseArray:
    """A sparse matrix in compressed rows: nonzeros as a tensor, with a static pattern.

    Make one with ``array``, ``from_scipy``, ``diags``, ``eye`` and the others of ``fg.sparse``. It
    is a pytree with the one leaf ``data``, so it can be an argument and a result of every
    transformation. Sizes and indices are static.

    Attributes
    ----------
    data : Tensor
        The nonzeros, row by row. Axes before the last are a batch of matrices.
    pattern : Pattern
    """

    data: Any
    pattern: Pattern = static_field()

    def __post_init__(self) -> None:
        if isinstance(self.data, np.ndarray):  # which could change
            object.__setattr__(self, "data", fnp.asarray(self.data))

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Apply NumPy's functions that keep zero, such as ``np.sin(A)``; operators are ours."""
        name = ufunc.__name__
        if method == "__call__" and not options:
            if len(inputs) == 1 and name in KEEP_ZERO:
                return self._with(getattr(fnp, name)(self.data))
            if name in _BY_NAME and inputs[0] is self:
                return _BY_NAME[name](*inputs)
            if name in _OPERATORS and inputs[-1] is self:
                return getattr(self, _OPERATORS[name])(inputs[0])
        raise ArgumentError(
            f"np.{name} of a sparse array is not available: the result would be dense, or there is"
            f" no rule. Write np.{name} of A.toarray(), or A.map(f) for an elementwise function"
            " with f(0) = 0."
        )

    def __array_function__(
        self, function: Callable[..., object], _types: object, _args: object, _options: object
    ) -> NoReturn:
        """Refuse NumPy's other functions."""
        short = function.__name__
        name = f"{function.__module__.replace('numpy', 'np')}.{short}"
        fix = f"A.{short}(...)" if hasattr(SparseArray, short) else f"{name} of A.toarray()"
        raise ArgumentError(f"{name} of a sparse array is not available. Write {fix}.")

    @property
    def shape(self) -> Shape:
        """The shape of the matrix, after the axes of a batch."""
        return (*shape_of(wrap(self.data))[:-1], *self.pattern.shape)

    @property
    def ndim(self) -> int:
        """The number of axes: 2, and the axes of a batch."""
        return len(self.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the nonzeros."""
        return dtype_of(wrap(self.data))

    @property
    def nnz(self) -> int:
        """The number of stored elements; some may be 0."""
        return self.pattern.nnz

    @property
    def indices(self) -> Indices:
        """The column of each stored element."""
        return self.pattern.indices

    @property
    def indptr(self) -> Indices:
        """Where each row begins among the stored elements, and where the last one ends."""
        return self.pattern.indptr

    def __repr__(self) -> str:
        batch = f" in a batch of {self.shape[:-2]}" if self.ndim > 2 else ""
        rows, columns = self.pattern.shape
        return f"SparseArray: {rows} rows, {columns} columns, {self.nnz} of {self.dtype}{batch}"

    @property
    def _nonzeros(self) -> Nonzeros:
        return Nonzeros(self.data, self.pattern)

    def _with(self, data: ArrayLike, pattern: Pattern | None = None) -> SparseArray:
        return SparseArray(data, self.pattern if pattern is None else pattern)

    # Other forms.

    def toarray(self) -> Tensor:
        """The dense matrix."""
        rows, columns = self.pattern.shape
        flat = fnp.zeros((*self.shape[:-2], rows * columns), self.dtype)
        places = self.pattern.row_numbers * columns + self.indices
        return fnp.reshape(flat.at[..., places].set(self.data), self.shape)

    todense = toarray

    def to_scipy(self) -> Any:
        """The matrix as a ``scipy.sparse.csr_array``, which owns copies.

        Raises
        ------
        ShapeError
            It is a batch of matrices.
        """
        data = np.array(self.data)
        if data.ndim > 1:
            raise ShapeError(
                f"SparseArray.to_scipy: {self!r} is not one matrix. Convert each of them:"
                " SparseArray(A.data[k], A.pattern).to_scipy()."
            )
        matrix = self.pattern.layout.matrix(data)
        matrix.indices, matrix.indptr = matrix.indices.copy(), matrix.indptr.copy()
        return matrix

    def astype(self, dtype: DTypeLike) -> SparseArray:
        """Convert the nonzeros to a dtype."""
        return self._with(wrap(self.data).astype(dtype))

    def map(self, f: Callable[[Tensor], Tensor]) -> SparseArray:
        """Apply an elementwise function with ``f(0) = 0`` to the stored elements.

        Raises
        ------
        ArgumentError
            ``f`` of zero is not zero, so that the result would be dense.
        """
        at_zero = np.asarray(f(fnp.zeros(1, self.dtype)))
        if at_zero.any():
            raise ArgumentError(
                f"SparseArray.map: the function is {at_zero[0]} at 0, so the result would be dense."
                " Apply it to A.toarray(), or to the stored elements: SparseArray(f(A.data),"
                " A.pattern)."
            )
        return self._with(f(wrap(self.data)))

    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> np.ndarray[Any, Any]:
        if is_operand_of_scipy():
            return np.array(None)  # so SciPy leaves S @ A to __rmatmul__
        raise LeafError(
            "np.asarray(A) of a sparse array would make it dense. Write A.toarray() for a dense"
            " tensor, A.map(f) for an elementwise function with f(0) = 0, or A.to_scipy() for"
            " SciPy's sparse array."
        )

    # Products.

    def __matmul__(self, other: Operand) -> Any:
        x = other
        if type(x) is not Tensor:
            if (sparse := sparse_operand(other)) is not None:
                return SparseArray(*matrix_product(self._nonzeros, sparse._nonzeros))
            x = fnp.asarray(other)
        _check_sizes("A @ x", self.pattern.shape[1], x.shape[-2:][:1], x.shape)
        return self._times(x, self.pattern.layout)

    def _times(self, x: Tensor, layout: SparseLayout) -> Tensor:
        """The matrix, or its transpose, times a vector or columns."""
        data, vector = concrete(self.data), concrete(x)
        if type(vector) is type(data) is np.ndarray and vector.ndim == data.ndim == 1:
            # The views of NumPy take a third of the time of a small product.
            return wrap(sparse_product(data, vector[:, None], layout=layout)[:, 0])
        data, columns = wrap(self.data), x[:, None] if x.ndim == 1 else x
        if data.ndim > 1:
            lead = np.broadcast_shapes(data.shape[:-1], columns.shape[:-2])
            data = fnp.broadcast_to(data, (*lead, data.shape[-1]))
            columns = fnp.broadcast_to(columns, (*lead, *columns.shape[-2:]))
        out = wrap(sparse_product(concrete(data), concrete(columns), layout=layout))
        return out[..., 0] if x.ndim == 1 else out

    def __rmatmul__(self, other: Operand) -> Any:
        if (sparse := sparse_operand(other)) is not None:
            return sparse @ self
        x = fnp.asarray(other)
        _check_sizes("x @ A", self.pattern.shape[0], x.shape[-1:], x.shape)
        flipped = self.pattern.layout.flipped
        if x.ndim == 1:
            return self._times(x, flipped)
        return fnp.matrix_transpose(self._times(fnp.matrix_transpose(x), flipped))

    def dot(self, other: Operand) -> Any:
        """The product ``A @ other``."""
        return self @ other

    @property
    def T(self) -> SparseArray:  # NumPy's name
        """The transpose."""
        order = np.argsort(self.indices, kind="stable")
        flipped = self.pattern.transposed
        return self._with(fnp.take(wrap(self.data), order, axis=-1), flipped)

    def transpose(self) -> SparseArray:
        """The transpose."""
        return self.T

    # Elementwise arithmetic.

    def __mul__(self, other: Operand) -> Any:
        return self._scaled(other, fnp.multiply, "*")

    __rmul__ = multiply = __mul__

    def __truediv__(self, other: Operand) -> Any:
        if sparse_operand(other) is not None:
            raise ArgumentError(
                "A / B of sparse arrays divides by the zeros of B. Divide by a number or a dense"
                " array, or write A.toarray() / B.toarray()."
            )
        return self._scaled(other, fnp.divide, "/")

    def _scaled(self, other: Operand, combine: Callable[..., Tensor], sign: str) -> Any:
        if (sparse := sparse_operand(other)) is not None:
            _check_star(other)
            return SparseArray(*elementwise_product(self._nonzeros, sparse._nonzeros))
        x = fnp.asarray(other)
        if x.ndim == 0:
            return self._with(combine(self.data, other))  # a number of Python is weak
        try:
            places = np.broadcast_to(numbered(x.shape), self.pattern.shape)
        except ValueError:
            raise ShapeError(
                f"A {sign} x: shapes {self.pattern.shape} and {x.shape} do not fit: x has to"
                " broadcast to the shape of A."
            ) from None
        chosen = fnp.take(x.reshape(-1), places[self.pattern.row_numbers, self.indices])
        return self._with(combine(self.data, chosen))

    def __neg__(self) -> SparseArray:
        return self._with(-wrap(self.data))

    def __abs__(self) -> SparseArray:
        return self._with(abs(wrap(self.data)))

    def power(self, exponent: float) -> SparseArray:
        """Raise the stored elements to a positive power.

        Raises
        ------
        ArgumentError
            The exponent is not positive, so that zeros would become 1 or infinite.
        """
        if not exponent > 0:
            raise ArgumentError(
                f"SparseArray.power: the exponent has to be positive, got {exponent}: zeros would"
                " not stay zero. Write A.toarray() ** exponent."
            )
        return self._with(wrap(self.data) ** exponent)

    __pow__ = power

    def __add__(self, other: Operand) -> SparseArray:
        return self._sum(other, 1, "+")

    __radd__ = __add__

    def __sub__(self, other: Operand) -> SparseArray:
        return self._sum(other, -1, "-")

    def __rsub__(self, other: Operand) -> SparseArray:
        return (-self)._sum(other, 1, "-", is_right=True)

    def _sum(self, other: Operand, sign: int, name: str, is_right: bool = False) -> SparseArray:
        sparse = sparse_operand(other)
        if sparse is None:
            if is_whole(other) and other == 0:  # as sum(matrices) begins
                return self
            did, does = [
                f"x {name} {A}" if is_right else f"{A} {name} x" for A in ("A", "A.toarray()")
            ]
            raise ArgumentError(
                f"{did} of a sparse array A and a dense operand would be dense. Write {does}, or"
                " make x sparse, such as c * fg.sparse.eye(n)."
            )
        other_part = sparse if sign > 0 else -sparse
        return SparseArray(*matrix_sum(self._nonzeros, other_part._nonzeros))

    # Parts and sums.

    def sum(self, axis: int | None = None) -> Tensor:
        """The sum of all elements, or along an axis, as a dense tensor."""
        if axis is None:
            return fnp.sum(self.data, axis=-1)
        side = self._axis(axis)
        places = self.indices if side == 0 else self.pattern.row_numbers
        out = fnp.zeros((*self.shape[:-2], self.pattern.shape[1 - side]), self.dtype)
        return out.at[..., places].add(self.data)

    def mean(self, axis: int | None = None) -> Tensor:
        """The mean of all elements, or along an axis, as a dense tensor."""
        rows, columns = self.pattern.shape
        count = rows * columns if axis is None else self.pattern.shape[self._axis(axis)]
        return self.sum(axis) / count

    def _axis(self, axis: int) -> int:
        if not -2 <= axis < 2:
            raise AxisError(f"SparseArray: axis has to be 0, 1, -1 or -2, got {axis}.")
        return axis % 2

    def diagonal(self, k: int = 0) -> Tensor:
        """The elements ``A[i, i + k]`` as a dense tensor; those that are not stored are 0."""
        rows, columns = self.pattern.shape
        size = max(0, min(rows + min(k, 0), columns - max(k, 0)))
        on = np.flatnonzero(self.indices - self.pattern.row_numbers == k)
        out = fnp.zeros((*self.shape[:-2], size), self.dtype)
        places = self.pattern.row_numbers[on] + min(k, 0)
        return out.at[..., places].set(fnp.take(wrap(self.data), on, axis=-1))

    def trace(self) -> Tensor:
        """The sum of the diagonal."""
        return fnp.sum(self.diagonal(), axis=-1)

    def __getitem__(self, key: Any) -> Any:
        """Rows, columns or elements: ``A[i]``, ``A[i, j]``, ``A[2:5]``, ``A[:, columns]``.

        Integers give dense vectors and single elements; slices and arrays of integers or booleans
        give sparse arrays. Keys are static.
        """
        block, is_integer = chosen_block(self._nonzeros, key)
        out = SparseArray(*block)
        if not any(is_integer):
            return out
        return out.toarray()[(..., *[0 if flag else slice(None) for flag in is_integer])]


def from_scipy(matrix: Any) -> SparseArray:
    """Convert a SciPy sparse array of any format; duplicate elements are summed.

    Examples
    --------
    >>> import numpy as np
    >>> import scipy.sparse
    >>> from_scipy(scipy.sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(2, 2))).toarray()
    Tensor([[0., 3.],
            [0., 0.]])
    """
    scipy = scipy_sparse()
    if not scipy.issparse(matrix) or matrix.ndim != 2:
        raise LeafError(
            "sparse.from_scipy: expected a sparse matrix of SciPy, got"
            f" {type(matrix).__name__}. For a dense one write"
            " from_scipy(scipy.sparse.csr_array(matrix))."
        )
    rows = scipy.csr_array(matrix, copy=True)
    rows.sum_duplicates()
    data = rows.data
    rows.data = np.ones(len(data), np.bool_)
    return SparseArray(fnp.asarray(data), Pattern(rows))


def sparse_operand(x: Operand) -> SparseArray | None:
    """An operand as a sparse array: a sparse array, or SciPy's; None for anything else."""
    if isinstance(x, SparseArray):
        return x
    if type(x).__module__.startswith("scipy.sparse") and scipy_sparse().issparse(x):
        return from_scipy(x)
    return None


def operated(name: str, x: Operand, y: Operand) -> Any:
    """Apply Python's operator to a tensor and a sparse array of SciPy, in their order."""
    if name not in _BY_NAME:
        raise ArgumentError(
            f"{name} of a tensor and a sparse array would be dense. Write A.toarray() for the"
            " sparse array."
        )
    if name == "multiply":
        _check_star(x, y)
    first, second = [
        converted if (converted := sparse_operand(v)) is not None else v for v in (x, y)
    ]
    return _BY_NAME[name](first, second)


def _check_star(*operands: Operand) -> None:
    if any(map(scipy_sparse().isspmatrix, operands)):
        raise ArgumentError(
            "A * S with a sparse matrix of SciPy, such as csr_matrix: for these * is the product of"
            " matrices, for sparse arrays elementwise. Write A @ S, or A.multiply("
            "scipy.sparse.csr_array(S))."
        )


def _check_sizes(what: str, size: int, axis: Shape, shape: Shape) -> None:
    if axis != (size,):
        raise ShapeError(
            f"{what}: an operand of shape {shape} does not fit a sparse array with {size}"
            f" {'columns' if what == 'A @ x' else 'rows'}."
        )
