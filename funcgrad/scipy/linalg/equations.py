"""The equations of Sylvester and of Lyapunov, under SciPy's names.

>>> solve_sylvester([[1.0]], [[1.0]], [[4.0]])
Tensor([[2.]])
"""

from __future__ import annotations

import numpy as np

from funcgrad._core.specs import broadcast_shapes, dtype_of, shape_of
from funcgrad._core.trace import Value
from funcgrad._primitives.linear_systems import solve as solve_any
from funcgrad._primitives.matrices import adjoint, linalg_dtype
from funcgrad._primitives.matrix_equations import sylvester
from funcgrad._primitives.structural import cast, reshape, swap_last_axes
from funcgrad.errors import ShapeError
from funcgrad.numpy.manipulation import broadcast_to
from funcgrad.numpy.matrices import matrices, square
from funcgrad.numpy.options import choice, failed_as
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap


def solve_sylvester(a: ArrayLike, b: ArrayLike, q: ArrayLike, *, failed: str = "raise") -> Tensor:
    """The solution x of Sylvester's equation ``a @ x + x @ b = q``.

    Parameters
    ----------
    a : array_like, shape (..., m, m)
    b : array_like, shape (..., n, n)
    q : array_like, shape (..., m, n)
    failed : {"raise", "nan"}
        Whether an equation without a unique solution raises an error or gives NaN.

    Returns
    -------
    Tensor, shape (..., m, n)

    Raises
    ------
    MatrixShapeError
        ``a`` or ``b`` is not square.
    ShapeError
        The shapes do not fit each other.
    MatrixError
        ``a`` and ``-b`` have an eigenvalue in common, so the solution is not unique.
    MissingPackageError
        SciPy is not installed.

    Notes
    -----
    Bartels and Stewart, "Solution of the matrix equation AX + XB = C", 1972.

    Examples
    --------
    >>> solve_sylvester([[1.0]], [[3.0]], [[8.0]])
    Tensor([[2.]])
    """
    left, right = square(a, "solve_sylvester"), square(b, "solve_sylvester", "b")
    goal = matrices(q, "solve_sylvester", "q")
    return wrap(_sylvester(left, right, goal, "solve_sylvester", failed))


def _sylvester(a: Value, b: Value, q: Value, operation: str, failed: str) -> Value:
    """The solution, of stacks that broadcast."""
    failed = failed_as(failed, operation)
    if (shape_of(a)[-1], shape_of(b)[-1]) != shape_of(q)[-2:]:
        raise ShapeError(
            f"{operation}: q has to have the rows of a and the columns of b; the shapes are"
            f" {shape_of(a)}, {shape_of(b)} and {shape_of(q)}."
        )
    lead = broadcast_shapes(operation, *[shape_of(x)[:-2] for x in (a, b, q)])
    dtype = linalg_dtype(operation, *map(dtype_of, (a, b, q)))
    parts = [broadcast_to(wrap(x), (*lead, *shape_of(x)[-2:])) for x in (a, b, q)]
    parts = [x if x.dtype == dtype else cast(x, dtype=dtype) for x in parts]
    return sylvester(*parts, failed=failed)


def solve_continuous_lyapunov(a: ArrayLike, q: ArrayLike, *, failed: str = "raise") -> Tensor:
    """The solution x of Lyapunov's equation ``a @ x + x @ a.mH = q``.

    For errors see ``solve_sylvester``.

    Parameters
    ----------
    a, q : array_like, shape (..., n, n)
    failed : {"raise", "nan"}
        See ``solve_sylvester``.

    Returns
    -------
    Tensor, shape (..., n, n)

    Examples
    --------
    >>> solve_continuous_lyapunov([[-1.0]], [[-4.0]])
    Tensor([[2.]])
    """
    name = "solve_continuous_lyapunov"
    matrix = square(a, name)
    return wrap(_sylvester(matrix, adjoint(matrix), square(q, name, "q"), name, failed))


_DIRECT = 10
"""Discrete equations of this size or more are transformed to continuous ones."""


def solve_discrete_lyapunov(
    a: ArrayLike, q: ArrayLike, method: str | None = None, *, failed: str = "raise"
) -> Tensor:
    """The solution x of the discrete equation ``a @ x @ a.mH - x + q = 0``.

    Parameters
    ----------
    a, q : array_like, shape (n, n)
    method : {"direct", "bilinear"}, optional
        Whether to solve n**2 linear equations (the default for n < 10), or to transform the
        equation for ``solve_continuous_lyapunov`` by the map (z - 1) / (z + 1).
    failed : {"raise", "nan"}
        See ``solve_sylvester``.

    Returns
    -------
    Tensor, shape (n, n)

    Raises
    ------
    MatrixShapeError
        A matrix is not square.
    ShapeError
        The sizes differ.
    ArgumentError
        ``method`` is not one of these words.
    MatrixError
        Two eigenvalues of ``a`` have a product of magnitude 1, so the solution is not unique.
    MissingPackageError
        SciPy is not installed, with "bilinear".

    Examples
    --------
    >>> solve_discrete_lyapunov([[0.5]], [[3.0]])
    Tensor([[4.]])
    """
    name = "solve_discrete_lyapunov"
    matrix, right, failed = square(a, name), square(q, name, "q"), failed_as(failed, name)
    n = shape_of(matrix)[-1]
    if len(shape_of(matrix)) != 2 or shape_of(right) != shape_of(matrix):
        raise ShapeError(
            f"{name}: a and q have to be matrices of one size; the shapes are"
            f" {shape_of(matrix)} and {shape_of(right)}. Use fg.vmap for stacks."
        )
    chosen = "direct" if n < _DIRECT else "bilinear"
    if method is not None:
        chosen = choice(method, ("direct", "bilinear"), name, "method")
    unit = np.eye(n, dtype=dtype_of(matrix))
    back = adjoint(matrix)
    if chosen == "direct":
        pairs = reshape(matrix, shape=(n, 1, n, 1)) * reshape(
            swap_last_axes(back), shape=(1, n, 1, n)
        )
        whole = np.eye(n * n, dtype=unit.dtype) - reshape(pairs, shape=(n * n, n * n))
        x = solve_any(whole, reshape(right, shape=(n * n, 1)), failed=failed)
        return wrap(reshape(x, shape=(n, n)))
    mapped = solve_any(back + unit, back - unit, failed=failed)
    half = solve_any(matrix + unit, right, failed=failed)
    moved = adjoint(solve_any(matrix + unit, adjoint(half), failed=failed))
    return wrap(_sylvester(adjoint(mapped), mapped, moved * -2, name, failed))
