"""Solve linear systems by their dense matrix, whose columns are the images of the unit vectors.

>>> import funcgrad.numpy as fnp
>>> dense_solve(lambda x: {"u": 2.0 * x["u"] + x["v"], "v": x["v"]}, {"u": 4.0, "v": 1.0})
{'u': Tensor(1.5), 'v': Tensor(1.0)}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad import tree
from funcgrad._transforms.arguments import check_function
from funcgrad._transforms.batch import vmap
from funcgrad.errors import MatrixError
from funcgrad.implicit.unknowns import Tree, Unknown
from funcgrad.numpy.options import failed_as
from funcgrad.tensor.tensor import Tensor


def dense_solve(matvec: Callable[[Any], Any], b: Tree, *, failed: str = "raise") -> Any:
    """Solve the linear system ``matvec(x) = b`` with its dense matrix.

    For small systems (up to some thousand unknowns) that are given as a function. For sparse ones
    use ``direct_solve``, and for large ones ``cg`` or ``gmres``, which never form the matrix.

    Parameters
    ----------
    matvec : callable
        A linear function of a pytree like ``b``, which returns a pytree like ``b``. For complex
        ``b`` it suffices that the function is linear over the reals.
    b : pytree of floating or complex arrays
    failed : {"raise", "nan"}
        Whether a singular matrix raises an error or makes the solution NaN.

    Returns
    -------
    pytree
        The solution, a pytree like ``b``.

    Raises
    ------
    TreeError, ShapeError, DtypeError
        The result of ``matvec`` is not like ``b``, or ``b`` is an integer.
    MatrixError
        The matrix is singular.

    Notes
    -----
    With n elements in ``b``, ``matvec`` is called once, on a batch of n vectors; the factorization
    needs n³/3 multiplications.

    Examples
    --------
    >>> dense_solve(lambda x: 2.0 * x, fnp.array([2.0, 4.0]))
    Tensor([1., 2.])
    """
    check_function("dense_solve", matvec)
    unknown, values = Unknown.read("dense_solve", "b", b)
    parts, join = _real_parts(unknown.tree(values))
    vector, unravel = tree.ravel(parts)

    def column(unit: Tensor) -> Tensor:
        image = unknown.values(matvec(join(unravel(unit))), "the result of matvec")
        return tree.ravel(_real_parts(unknown.tree(image))[0])[0]

    if not vector.size:
        return unknown.tree(values)
    matrix = vmap(column, out_axes=1)(np.eye(vector.size, dtype=vector.dtype))
    try:
        solution = fnp.linalg.solve(matrix, vector, failed=failed_as(failed, "dense_solve"))
    except MatrixError as error:
        raise singular("dense_solve") from error
    return join(unravel(solution))


def singular(name: str) -> MatrixError:
    """The error of a singular system."""
    return MatrixError(
        f"{name}: the linear system is singular, so it has no unique solution. If it is the"
        " system for the derivative of a root or an optimum, that root or optimum is not"
        " isolated (an unknown has no influence), or it is a double one."
    )


def _real_parts(complex_tree: Tree) -> tuple[Any, Callable[[Any], Any]]:
    """Split complex leaves into (real, imaginary); return the tree and the inverse function."""
    leaves, structure = tree.flatten(complex_tree)
    tensors = [fnp.asarray(leaf) for leaf in leaves]
    flags = [x.dtype.kind == "c" for x in tensors]
    parts = [(x.real, x.imag) if flag else x for x, flag in zip(tensors, flags, strict=True)]

    def join(real_tree: Tree) -> Any:
        pairs = zip(real_tree, flags, strict=True)
        return tree.unflatten(
            structure, [x[0] + x[1] * _unit(x[0]) if flag else x for x, flag in pairs]
        )

    return parts, join


def _unit(x: Tensor) -> Any:
    """The imaginary unit in the precision of a real tensor."""
    return np.result_type(x.dtype, np.complex64).type(1j)
