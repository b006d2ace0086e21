"""SciPy's ``LinearOperator`` of a Jacobian or Hessian, without its matrix.

>>> import funcgrad as fg
>>> A = jacobian_operator(lambda x: x[1:] * x[:-1])(fg.tensor([1.0, 2.0, 3.0]))
>>> A.matvec([1.0, 0.0, 0.0]), A.rmatvec([1.0, 0.0])
(array([2., 0.]), array([2., 1., 0.]))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from funcgrad._core.specs import spec_of
from funcgrad._hints.lookup import answering
from funcgrad._hints.optional_packages import optional_package
from funcgrad._staging.jit import jit
from funcgrad._transforms.arguments import check_function, choose
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.reverse import grad, vjp
from funcgrad.tree.vectors import ravel


@answering
def jacobian_operator(f: Callable[..., Any]) -> Callable[[Any], Any]:
    """Transform a function into one that returns its Jacobian as an operator.

    Iterative solvers, such as ``scipy.sparse.linalg.gmres`` and ``lsmr``, need only products with
    vectors: forward mode multiplies by the matrix, reverse mode by its transpose.

    Parameters
    ----------
    f : callable
        Takes one pytree of real arrays and returns a pytree.

    Returns
    -------
    callable
        It takes the argument of ``f`` and returns a ``scipy.sparse.linalg.LinearOperator`` on
        vectors: the leaves of the trees, one after another.

    Raises
    ------
    DifferentiationError
        An array of the argument holds integers or booleans.

    Examples
    --------
    >>> import funcgrad as fg
    >>> from scipy.sparse.linalg import lsmr
    >>> A = jacobian_operator(lambda x: x[1:] * x[:-1])(fg.tensor([1.0, 2.0, 3.0]))
    >>> A.shape, lsmr(A, np.array([2.0, 3.0]))[0].round(3)
    ((2, 3), array([0.607, 0.786, 0.321]))
    """
    check_function("sparse.jacobian_operator", f)
    return _operators("sparse.jacobian_operator", f, is_symmetric=False)


def _operators(name: str, f: Callable[..., Any], *, is_symmetric: bool) -> Callable[[Any], Any]:
    def operator(x: Any) -> Any:
        choose(name, f, (x,), 0)
        point, unravel = ravel(x)

        def flat(v: Any) -> Any:
            return ravel(f(unravel(v)))[0]

        out = spec_of(np.asarray(flat(point)))
        push = jit(lambda point, v: jvp(flat, (point,), (v,))[1])
        pull = jit(lambda point, ct: vjp(flat, point)[1](ct)[0])

        def matvec(v: np.ndarray) -> np.ndarray:
            return np.asarray(push(point, np.asarray(v, point.dtype).reshape(-1)))

        def rmatvec(ct: np.ndarray) -> np.ndarray:
            return np.asarray(pull(point, np.asarray(ct, out.dtype).reshape(-1)))

        linalg = optional_package("scipy.sparse.linalg", "fg.sparse: operators need SciPy")
        return linalg.LinearOperator(
            (out.shape[0], point.shape[0]),
            matvec=matvec,
            rmatvec=matvec if is_symmetric else rmatvec,
            dtype=out.dtype,
        )

    return operator


@answering
def hessian_operator(f: Callable[..., Any]) -> Callable[[Any], Any]:
    """Transform a scalar function into one that returns its Hessian as an operator.

    Parameters
    ----------
    f : callable
        Takes one pytree of real arrays and returns a real scalar.

    Returns
    -------
    callable
        It takes the argument of ``f`` and returns a symmetric
        ``scipy.sparse.linalg.LinearOperator``.

    Raises
    ------
    DifferentiationError
        An array of the argument holds integers or booleans, or the result is not one real number.

    Examples
    --------
    >>> import funcgrad as fg
    >>> from scipy.sparse.linalg import eigsh
    >>> H = hessian_operator(lambda x: (fg.numpy.arange(10.0) * x**2).sum())(fg.numpy.ones(10))
    >>> eigsh(H, 1, return_eigenvectors=False).round(6)
    array([18.])
    """
    check_function("sparse.hessian_operator", f)
    return _operators("sparse.hessian_operator", grad(f), is_symmetric=True)
