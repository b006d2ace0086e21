"""Check arguments of linear algebra, and convert them to stacks of matrices.

>>> square([[1, 2], [3, 4]], "inv").dtype
dtype('float64')
"""

from __future__ import annotations

from funcgrad._core.primitive import Primitive
from funcgrad._core.specs import dtype_of, is_inexact, shape_of
from funcgrad._core.trace import Value
from funcgrad._core.users_values import operand
from funcgrad._primitives.matrices import linalg_dtype
from funcgrad._primitives.structural import cast
from funcgrad.errors import MatrixShapeError
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap


def matrices(x: ArrayLike, operation: str, argument: str = "a") -> Value:
    """A stack of matrices of an inexact dtype.

    Raises
    ------
    MatrixShapeError
        There are fewer than two axes.
    DtypeError
        ``x`` is of half precision.
    """
    value = operand(x, operation)
    shape, dtype = shape_of(value), dtype_of(value)
    if len(shape) < 2:
        raise MatrixShapeError(
            f"{operation}: {argument} has to be a matrix, or a stack of matrices on the last two"
            f" axes; its shape is {shape}."
        )
    computed = linalg_dtype(operation, dtype)
    return value if is_inexact(dtype) else cast(value, dtype=computed)


def square(x: ArrayLike, operation: str, argument: str = "a") -> Value:
    """A stack of square matrices of an inexact dtype.

    Raises
    ------
    MatrixShapeError
        The last two axes differ in size, or there are fewer than two axes.
    """
    value = matrices(x, operation, argument)
    if shape_of(value)[-1] != shape_of(value)[-2]:
        raise MatrixShapeError(
            f"{operation}: {argument} has to be square on its last two axes; its shape is"
            f" {shape_of(value)}."
        )
    return value


def results(primitive: Primitive, *values: Value, **params: object) -> tuple[Tensor, ...]:
    """Convert the results of an operation with several results for the user."""
    return tuple([wrap(out) for out in primitive(*values, **params)])
