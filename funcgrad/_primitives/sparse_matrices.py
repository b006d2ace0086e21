"""Products and linear equations with sparse matrices, which SciPy computes.

A matrix is given by its nonzeros, row by row, and a static *layout*: the columns of each row.
Derivatives with respect to the nonzeros have an element for each, so no dense matrix is made.

>>> diagonal = SparseLayout.of(np.arange(3), np.arange(2), (2, 2))
>>> sparse_product(np.array([2.0, 4.0]), np.array([[1.0], [2.0]]), layout=diagonal)
array([[2.],
       [8.]])
>>> sparse_solve(np.array([2.0, 4.0]), np.array([[2.0], [8.0]]), layout=diagonal, factors=None)
array([[1.],
       [2.]])
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from funcgrad._base.locks import cached_property
from funcgrad._core.primitive import Kinks, Linear, Linearized, Primitive, Sample
from funcgrad._core.specs import Shape, Spec, dtype_of, shape_of
from funcgrad._core.structure.structures import OWNS, Opaque, RowProducts
from funcgrad._core.trace import Value
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.matrices import Array, conjugate, linalg_dtype, position_of
from funcgrad._primitives.reduction import reduce_sum
from funcgrad._primitives.sparse_factors import LastFactors, scipy_sparse_modules
from funcgrad._primitives.structural import reshape
from funcgrad._primitives.values_alone import least_singular_value
from funcgrad.errors import MatrixError


class _LayoutFields(NamedTuple):
    indptr: bytes
    indices: bytes
    shape: tuple[int, int]
    is_transposed: bool = False


class SparseLayout(_LayoutFields):
    """Where the nonzeros of a matrix are, as a hashable parameter that can be saved.

    Attributes
    ----------
    indptr, indices : bytes
        Arrays of int32, or of int64 for matrices that need it, as SciPy stores them: row ``i`` has
        the columns ``indices[indptr[i] : indptr[i + 1]]``.
    shape : tuple of int
    is_transposed : bool
        Whether the matrix is the transpose of the one that the other fields describe.
    """

    @classmethod
    def of(cls, indptr: Array, indices: Array, shape: tuple[int, int]) -> SparseLayout:
        """Make a layout of integer arrays."""
        dtype = np.int32 if max(*shape, len(indices)) < 2**31 else np.int64
        starts, columns = [np.ascontiguousarray(x, dtype).tobytes() for x in (indptr, indices)]
        return cls(starts, columns, shape)

    @cached_property
    def flipped(self) -> SparseLayout:
        """The layout of the transpose, with the nonzeros in the same order."""
        return SparseLayout(self.indptr, self.indices, self.shape, not self.is_transposed)

    @property
    def size(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        rows, columns = self.shape
        return (columns, rows) if self.is_transposed else self.shape

    @cached_property
    def last_factors(self) -> LastFactors:
        """The factors of the last matrix with this layout.

        A program that solves with one matrix several times, such as a Newton method that keeps its
        matrix, or a solution and its gradient, factors it once.
        """
        return LastFactors()

    @cached_property
    def coordinates(self) -> tuple[Array, Array]:
        """The row and the column of each nonzero."""
        indices, indptr = self._arrays
        rows, columns = (
            np.repeat(np.arange(self.shape[0]), np.diff(indptr)),
            indices.astype(np.intp),
        )
        return (columns, rows) if self.is_transposed else (rows, columns)

    @property
    def form(self) -> tuple[str, Array, Array]:
        """How the matrix times x gives y, in the letters of ``RowProducts``."""
        indices, indptr = self._arrays
        return "dyx" if self.is_transposed else "dxy", indptr, indices

    def times(self, data: Array, x: Array) -> Array:
        """The matrix times columns, all of one dtype.

        SciPy's loops take the arrays as they are: its operator takes 2 µs more for each product.
        """
        if self._loops is None:
            return self.matrix(data) @ x
        (one, several), count = self._loops, x.shape[1]
        rows, columns, indptr, indices = self._sizes
        flat = np.zeros(rows * count, x.dtype)
        arrays = indptr, indices, np.ascontiguousarray(data), x.reshape(-1), flat
        if count == 1:
            one(rows, columns, *arrays)
        else:
            several(rows, columns, count, *arrays)
        return flat.reshape(rows, count)

    @cached_property
    def _sizes(self) -> tuple[int, int, Array, Array]:
        indices, indptr = self._arrays
        return *self.size, indptr, indices

    @cached_property
    def _loops(self) -> tuple[Callable[..., None], Callable[..., None]] | None:
        """SciPy's loops over the rows of a matrix, or over its columns, for one vector and more."""
        scipy_sparse_modules()
        try:
            from scipy.sparse import _sparsetools as tools
        except ImportError:  # it is a private module of SciPy
            return None
        if self.is_transposed:
            return tools.csc_matvec, tools.csc_matvecs
        return tools.csr_matvec, tools.csr_matvecs

    def matrix(self, data: Array) -> Any:
        """SciPy's array, of compressed rows, or of compressed columns for a transpose."""
        template = self._template
        out = object.__new__(type(template))  # copy() takes four times as long
        out.__dict__.update(template.__dict__)
        out.data = np.ascontiguousarray(data)
        return out

    @cached_property
    def _template(self) -> Any:
        """The matrix with other nonzeros: its constructor takes longer than a product."""
        sparse, _ = scipy_sparse_modules()
        make = sparse.csc_array if self.is_transposed else sparse.csr_array
        indices, indptr = self._arrays
        return make((np.zeros(len(indices)), indices, indptr), shape=self.size)

    def __reduce__(self) -> Any:
        return SparseLayout, tuple(self)

    @cached_property
    def _arrays(self) -> tuple[Array, Array]:
        dtype = np.dtype(np.int32 if len(self.indptr) == 4 * (self.shape[0] + 1) else np.int64)
        return np.frombuffer(self.indices, dtype), np.frombuffer(self.indptr, dtype)


def _of_nonzeros(left: Value, right: Value, data: Value, layout: SparseLayout) -> Value:
    """The cotangent of nonzeros, added up over a stack of columns that share one matrix."""
    products = sampled_product(left, right, layout=layout)
    stack = tuple(range(len(shape_of(products)) - len(shape_of(data))))
    return reduce_sum(products, axis=stack, keepdims=False) if stack else products


def _stacked(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
) -> Value:
    """Batch: a stack of matrices needs a stack of columns of its shape."""
    data, x = args
    if batched[0]:
        lead = shape_of(x)[1:-2] if batched[1] else shape_of(x)[:-2]
        shape = shape_of(data)
        if len(shape) - 2 < len(lead):
            data = reshape(data, shape=(size, *(1,) * (len(lead) + 2 - len(shape)), *shape[1:]))
            data = broadcast_to(data, shape=(size, *lead, shape[-1]))
        if not batched[1]:
            x = broadcast_to(x, shape=(size, *shape_of(x)))
        if "factors" in params:  # of one matrix
            params = {**params, "factors": None}
    return primitive(data, x, **params)


def _samples(layout: SparseLayout, others: dict[str, Any]) -> Callable[[], Iterator[Sample]]:
    def samples() -> Iterator[Sample]:
        rng = np.random.default_rng(5)
        params = {"layout": layout, **others}
        shapes: Sequence[tuple[Shape, Shape, int]] = (
            ((), (), 2),
            ((), (), 1),
            ((2,), (2,), 1),
            ((), (2,), 2),
            ((0,), (0,), 1),
        )
        for lead, lead_x, k in shapes:
            data = rng.standard_normal((*lead, 5)) + np.array([4, 0, 4, 0, 4])
            x = rng.standard_normal((*lead_x, layout.shape[1], k))
            yield Sample((data, x), params)
            if k == 2:
                imaginary = 1j * rng.standard_normal(data.shape)
                yield Sample((data + imaginary, x[..., ::-1, :]), params)
        empty = SparseLayout.of(np.zeros(1), np.zeros(0), (0, 0))
        yield Sample((np.zeros(0), np.zeros((0, 1))), {**params, "layout": empty})

    return samples


def _each_matrix(data: Array, x: Array) -> list[tuple[Array, Array]]:
    """The matrices of a stack, each with its columns."""
    count = prod(x.shape[:-2])
    flat = np.broadcast_to(data, (*x.shape[:-2], data.shape[-1])).reshape(count, data.shape[-1])
    return list(zip(flat, x.reshape(count, *x.shape[-2:]), strict=True))


# ------------------------------------------------------------------------------- products


def _product_dtype(*dtypes: np.dtype[Any]) -> np.dtype[Any]:
    linalg_dtype("A @ x", *dtypes)  # which refuses float16, as SciPy's products do
    return np.result_type(*dtypes)


def _multiply(data: Array, x: Array, layout: SparseLayout) -> Any:
    dtype, rows = data.dtype, layout.size[0]
    if dtype is not x.dtype or dtype.char not in "fdFD":
        dtype = _product_dtype(dtype, x.dtype)
        data, x = np.asarray(data, dtype), np.asarray(x, dtype)
    if not (data.size and x.size):
        return np.zeros((*x.shape[:-2], rows, x.shape[-1]), dtype)
    if data.ndim == 1 and x.ndim == 2:
        return layout.times(data, x)
    if data.ndim == 1:
        across = np.moveaxis(x, -2, 0)  # all columns of the stack at once
        out = layout.times(data, across.reshape(across.shape[0], -1))
        return np.ascontiguousarray(np.moveaxis(out.reshape(rows, *across.shape[1:]), 0, -2))
    out = np.stack([layout.times(values, columns) for values, columns in _each_matrix(data, x)])
    return out.reshape(*x.shape[:-2], rows, x.shape[-1])


def _products(layout: SparseLayout) -> RowProducts:
    return RowProducts(*layout.form)


sparse_product: Primitive = Primitive(
    "sparse_product",
    _multiply,
    lambda data, x, layout: Spec(
        (*x.shape[:-2], layout.size[0], x.shape[-1]), _product_dtype(data.dtype, x.dtype)
    ),
    Linear(
        (
            lambda ct, data, x, layout: _of_nonzeros(ct, x, data, layout),
            lambda ct, data, x, layout: sparse_product(data, ct, layout=layout.flipped),
        )
    ),
    _stacked,
    _samples(SparseLayout.of(np.array([0, 2, 3, 5, 5]), np.array([0, 2, 1, 0, 2]), (4, 3)), {}),
    structure=Opaque(cores=(1, 2), rows=_products),
    traits=OWNS,
    label=lambda **_: "sparse_product",
)
"""A matrix times columns. Without axes of a stack, one matrix is for all columns."""


def _sample(left: Array, right: Array, layout: SparseLayout) -> Any:
    dtype = _product_dtype(left.dtype, right.dtype)
    rows, columns = layout.coordinates
    first = np.asarray(left, dtype).take(rows, axis=-2, mode="clip")  # which needs no buffer
    second = np.asarray(right, dtype).take(columns, axis=-2, mode="clip")
    if left.shape[-1] == 1:
        return np.multiply(first, second, out=first)[..., 0]
    return np.einsum("...ij,...ij->...i", first, second)


def _sampled(layout: SparseLayout) -> RowProducts:
    letters, indptr, indices = layout.form
    return RowProducts(f"{letters[2]}{letters[1]}d", indptr, indices)


def _paired(
    primitive: Primitive,
    size: int,
    args: tuple[Value, ...],
    batched: tuple[bool, ...],
    params: dict[str, Any],
) -> Value:
    """Batch: both operands have the axes of a stack."""
    stacked = [
        x if has_axis else broadcast_to(x, shape=(size, *shape_of(x)))
        for x, has_axis in zip(args, batched, strict=True)
    ]
    return primitive(*stacked, **params)


def _sampled_samples() -> Iterator[Sample]:
    for sample in sparse_product.samples():
        data, x = sample.args
        layout: Any = sample.params["layout"]
        shape = (*np.shape(x)[:-2], layout.size[0], np.shape(x)[-1])
        y = np.cos(np.arange(1.0, prod(shape) + 1)).reshape(shape)
        if np.ndim(data) == 1 or np.ndim(x) > 2:
            yield Sample((y, x), sample.params)


sampled_product: Primitive = Primitive(
    "sampled_product",
    _sample,
    lambda left, right, layout: Spec(
        (*left.shape[:-2], len(layout.form[2])), _product_dtype(left.dtype, right.dtype)
    ),
    Linear(
        (
            lambda ct, left, right, layout: sparse_product(ct, right, layout=layout),
            lambda ct, left, right, layout: sparse_product(ct, left, layout=layout.flipped),
        )
    ),
    _paired,
    _sampled_samples,
    structure=Opaque(cores=(2, 2), rows=_sampled),
    traits=OWNS,
    label=lambda **_: "sampled_product",
)
"""The elements of ``left @ right.T`` at the places of the nonzeros.

They are the cotangent of the nonzeros. Two gathers, a product and a sum say the same, and keep an
array of nonzeros by columns for each: the gradient of ``A @ x`` took twice as long.
"""


# ------------------------------------------------------------------------------ solutions


class SparseFactors:
    """The triangular factors of one sparse matrix, which solve equations with it and its adjoint.

    Attributes
    ----------
    lu : scipy.sparse.linalg.SuperLU
    dtype : dtype
    trans : str
        SciPy's name of the matrix to solve with: "N" for the matrix that was factored, "T" for its
        transpose, "H" for its adjoint; and "C" for its conjugate.
    """

    __slots__ = ("dtype", "lu", "trans")

    def __init__(self, lu: Any, dtype: np.dtype[Any], trans: str) -> None:
        self.lu = lu
        self.dtype = dtype
        self.trans = trans

    @classmethod
    def of(cls, data: Array, layout: SparseLayout) -> SparseFactors:
        """Factor a matrix, or its transpose, which is what compressed rows store for SuperLU.

        Raises
        ------
        MatrixError
            The matrix is singular, or an element is not finite.
        """
        stored = layout if layout.is_transposed else layout.flipped
        lu = stored.last_factors.get(data)
        if lu is None:
            if not np.isfinite(data).all():
                raise MatrixError("spsolve: the matrix holds NaN or infinity.")
            try:
                lu = scipy_sparse_modules()[1].splu(stored.matrix(data))
            except RuntimeError as error:  # "Factor is exactly singular"
                raise MatrixError("spsolve: the matrix is singular.") from error
            stored.last_factors.put(data, lu)
        return cls(lu, data.dtype, "N" if layout.is_transposed else "T")

    def __static_parts__(self) -> tuple[Hashable, ...]:
        """Nothing: a program that is saved and read factors its matrix again."""
        return ()

    @classmethod
    def __of_static_parts__(cls, _parts: object) -> None:
        return None

    def adjoint(self) -> SparseFactors:
        """The factors of the adjoint matrix, for nonzeros that are conjugated."""
        trans = {"N": "H", "H": "N", "T": "C", "C": "T"}[self.trans]
        return SparseFactors(self.lu, self.dtype, trans)

    def solve(self, b: Array) -> Array:
        """Solve with columns ``b`` of the dtype of the matrix."""
        b = np.ascontiguousarray(b)
        if self.trans == "C":  # the conjugate of the factored matrix
            return np.conjugate(self.lu.solve(np.conjugate(b)))
        return self.lu.solve(b, self.trans)


def _solve(
    data: Array,
    b: Array,
    layout: SparseLayout,
    factors: SparseFactors | None,
    failed: str = "raise",
) -> Any:
    dtype = linalg_dtype("spsolve", data.dtype, b.dtype)
    size, count = b.shape[-2], prod(b.shape[:-2])
    if not b.size:
        return np.zeros(b.shape, dtype)
    data = np.asarray(data, dtype)
    if data.ndim == 1:
        try:
            known = factors is not None and factors.dtype == dtype
            solver = factors if known else SparseFactors.of(data, layout)
        except MatrixError:
            if failed == "raise":
                raise
            return np.full(b.shape, np.nan, dtype)
        assert solver is not None
        across = np.moveaxis(np.asarray(b, dtype), -2, 0)  # all columns of the stack at once
        solved = solver.solve(across.reshape(size, -1)).reshape(across.shape)
        return np.ascontiguousarray(np.moveaxis(solved, 0, -2))
    out = np.empty((count, size, b.shape[-1]), dtype)
    for number, (values, right) in enumerate(_each_matrix(data, np.asarray(b, dtype))):
        try:
            out[number] = SparseFactors.of(values, layout).solve(right)
        except MatrixError as error:
            if failed == "raise":
                which = np.arange(count).reshape(b.shape[:-2]) == number
                text = str(error).replace("the matrix", f"the matrix{position_of(which)}")
                raise MatrixError(text) from error.__cause__
            out[number] = np.nan
    return out.reshape(b.shape)


def _push(
    tangents: tuple[Value, ...],
    x: Value,
    data: Value,
    b: Value,
    layout: SparseLayout,
    factors: SparseFactors | None,
    failed: str = "raise",
) -> Value:
    change, right = tangents
    if change is not None:
        moved = -sparse_product(change, x, layout=layout)
        right = moved if right is None else right + moved
    return sparse_solve(data, right, layout=layout, factors=factors, failed=failed)


def _pull(
    ct: Value,
    x: Value,
    data: Value,
    b: Value,
    layout: SparseLayout,
    factors: SparseFactors | None,
    failed: str = "raise",
) -> tuple[Any, ...]:
    adjoint = None if factors is None else factors.adjoint()
    y = sparse_solve(conjugate(data), ct, layout=layout.flipped, factors=adjoint, failed=failed)
    return lambda: -_of_nonzeros(y, conjugate(x), data, layout), y


def _least(data: Value, b: Value, layout: SparseLayout, **_: Hashable) -> Value:
    size = shape_of(b)[-2]
    unit = np.broadcast_to(np.eye(size, dtype=dtype_of(b)), (*shape_of(b)[:-2], size, size))
    return least_singular_value(sparse_product(data, unit, layout=layout))


def _solved_samples() -> Iterator[Sample]:
    square = SparseLayout.of(np.array([0, 2, 3, 5]), np.array([0, 2, 1, 0, 2]), (3, 3))
    known = [*_samples(square, {"factors": None})()]
    yield from known
    yield Sample(known[0].args, {**known[0].params, "failed": "nan"})


sparse_solve: Primitive = Primitive(
    "sparse_solve",
    _solve,
    lambda data, b, layout, factors, failed="raise": Spec(
        b.shape, linalg_dtype("spsolve", data.dtype, b.dtype)
    ),
    Linearized(_push, _pull, linear_in=(1,)),
    _stacked,
    _solved_samples,
    structure=Opaque(cores=(1, 2)),
    kinks=Kinks(_least),
    traits=OWNS,
    label=lambda **_: "sparse_solve",
)
"""The x with A x = b, of columns; ``factors`` are factors of A, if they are known already.

Without axes of a stack, one matrix is for all right sides.
"""
