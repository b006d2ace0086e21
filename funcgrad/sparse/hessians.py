"""``hessian``: a sparse symmetric matrix of second derivatives, from a few products.

>>> import funcgrad as fg
>>> H = hessian(lambda x: (x[1:] * x[:-1]).sum())
>>> H(fg.tensor([1.0, 2.0, 3.0])).toarray()
array([[0., 1., 0.],
       [1., 0., 1.],
       [0., 1., 0.]])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import update_wrapper
from typing import Any

import numpy as np

from funcgrad._core import pytrees
from funcgrad._core.specs import spec_of
from funcgrad._hints.lookup import answering
from funcgrad._transforms.arguments import check_argnums, check_function, choose
from funcgrad._transforms.callables import Argnums
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.reverse import grad
from funcgrad.errors import ArgumentError, DifferentiationError
from funcgrad.sparse.compression import Compression, compressed, symmetric_compression
from funcgrad.sparse.patterns import Pattern, PatternLike
from funcgrad.sparse.sparse_derivatives import (
    DerivativeRequest,
    MatrixBlock,
    ResultForm,
    SparseDerivative,
)
from funcgrad.tensor.tensor import Tensor, wrap


class SparseHessian(SparseDerivative):
    """A function that returns a sparse Hessian; see ``hessian``."""

    def __init__(self, request: DerivativeRequest) -> None:
        super().__init__(request, _gradient(request.function, request.argnums))

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """The lower triangle, with the diagonal, as solvers for symmetric matrices want it.

        For one array as the argument; a tree of arguments has blocks instead of a triangle.
        """
        (_, _, data), prepared, _ = self._evaluate(args, kwargs)
        pattern = prepared.how.pattern
        below = np.flatnonzero(pattern.indices <= pattern.row_numbers)
        matrix = pattern.matrix.copy()
        matrix.data = pattern.indices <= pattern.row_numbers
        matrix.eliminate_zeros()
        return MatrixBlock(below, Pattern(matrix)).of(data, data.dtype)

    def _compress(self, pattern: Pattern) -> Compression:
        if self._request.pattern is None:
            pattern = pattern | pattern.transposed
        elif not pattern.is_symmetric:
            raise ArgumentError(
                f"{self._request.name}: pattern has to be symmetric, as Hessians are."
            )
        return symmetric_compression(pattern)

    def _values(
        self, how: Compression, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Any, ResultForm, Tensor]:
        name = self._request.name
        chosen = choose(name, self._request.function, args, self._request.argnums)
        primals = [wrap(leaf) for leaf in chosen.leaves]
        specs = [spec_of(leaf) for leaf in chosen.leaves]
        if any(spec.dtype.kind == "c" for spec in specs):
            raise DifferentiationError(
                f"{name}: an argument is complex. Take real and imaginary parts as arguments, or"
                " use fg.hessian."
            )

        def run(*leaves: Tensor) -> list[Any]:
            return pytrees.leaves(self._function(*chosen.arguments(args, leaves), **kwargs))

        def push(*tangents: Tensor) -> Any:
            return jvp(run, primals, tangents)[1]

        form = ResultForm(tuple(specs), pytrees.structure(chosen.result(chosen.leaves)))
        return None, form, compressed(how, push, None, specs, specs)


def _gradient(f: Callable[..., Any], argnums: Argnums) -> Callable[..., Any]:
    return update_wrapper(lambda *args, **kwargs: grad(f, argnums)(*args, **kwargs), f, updated=())


@answering
def hessian(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    pattern: PatternLike | None = None,
    verify: bool = False,
) -> SparseHessian:
    """Transform a scalar function into one that returns its Hessian as a sparse matrix.

    If a function is a sum of terms, the Hessian is zero for two elements that share no term. This
    function finds the other pairs, and computes them with a few Hessian-vector products. The result
    is exactly symmetric.

    Parameters
    ----------
    f : callable
        Takes pytrees of real arrays and returns a real scalar.
    argnums : int or sequence of int
        The positions of the arguments to differentiate with respect to.
    pattern : Pattern, sparse matrix or array, optional
        The elements that may be nonzero: symmetric, with a row and a column for each element of the
        arguments. By default it is detected.
    verify : bool
        Whether each call compares the product of the matrix with a vector with ``hvp``.

    Returns
    -------
    callable
        It takes the arguments of ``f`` and returns a ``scipy.sparse.csr_array``, or for pytrees the
        trees that ``fg.hessian`` returns, of such matrices. Inside of other transformations the
        matrices are ``SparseArray``. Its method ``lower(*args)`` returns the lower triangle;
        ``pattern`` and ``products`` are as for ``jacobian``.

    Raises
    ------
    DifferentiationError
        The result is not one real number, or an argument is complex or holds integers.
    ShapeError
        The given pattern does not fit the arguments.
    ArgumentError
        The given pattern is not symmetric.
    CheckError
        ``verify`` is true, and the pattern lacks elements.

    Notes
    -----
    The products are chosen by a star coloring: Coleman, Moré, "Estimation of sparse Hessian
    matrices and graph coloring problems", 1984.

    Examples
    --------
    >>> import funcgrad as fg
    >>> def rosenbrock(x):
    ...     return (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()
    >>> H = hessian(rosenbrock)
    >>> H(fg.tensor([1.0, 1.0, 1.0])).toarray()
    array([[ 802., -400.,    0.],
           [-400., 1002., -400.],
           [   0., -400.,  200.]])
    >>> H.products(fg.numpy.ones(1000))
    (3, 0)
    """
    check_function("sparse.hessian", f)
    check_argnums("sparse.hessian", argnums, False)
    user_pattern = None if pattern is None else Pattern.of(pattern)
    return SparseHessian(DerivativeRequest("sparse.hessian", f, argnums, user_pattern, verify))
