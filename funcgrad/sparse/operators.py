"""SciPy's ``LinearOperator`` of a Jacobian or Hessian, without its matrix.

>>> import funcgrad as fg
>>> A = jacobian_operator(lambda x: x[1:] * x[:-1])(fg.tensor([1.0, 2.0, 3.0]))
>>> A.matvec([1.0, 0.0, 0.0]), A.rmatvec([1.0, 0.0])
(array([2., 0.]), array([2., 1., 0.]))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from funcgrad._core.specs import spec_of
from funcgrad._hints.lookup import answering
from funcgrad._hints.optional_packages import optional_package
from funcgrad._staging.jit import jit
from funcgrad._transforms.arguments import check_function, choose
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.jacobian import hvp
from funcgrad._transforms.reverse import vjp
from funcgrad.tree.vectors import ravel

Product: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""The product of an operator with a vector."""


def _linear_operator(
    shape: tuple[int, int], dtype: np.dtype[Any], matvec: Product, rmatvec: Product
) -> Any:
    linalg = optional_package("scipy.sparse.linalg", "fg.sparse: operators need SciPy")
    return linalg.LinearOperator(shape, matvec=matvec, rmatvec=rmatvec, dtype=dtype)


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
        From the argument to a ``scipy.sparse.linalg.LinearOperator`` between vectors: the leaves of
        the trees, one after another.

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
    return _operators(f)


def _operators(f: Callable[..., Any]) -> Callable[[Any], Any]:
    def flat(x: Any, unravel: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda v: ravel(f(unravel(v)))[0]

    def operator(x: Any) -> Any:
        choose("sparse.jacobian_operator", f, (x,), 0)
        point, unravel = ravel(x)
        g = flat(x, unravel)
        out = spec_of(np.asarray(g(point)))
        push = jit(lambda point, v: jvp(g, (point,), (v,))[1])
        pull = jit(lambda point, ct: vjp(g, point)[1](ct)[0])

        def matvec(v: np.ndarray) -> np.ndarray:
            return np.asarray(push(point, np.asarray(v, point.dtype).reshape(-1)))

        def rmatvec(ct: np.ndarray) -> np.ndarray:
            return np.asarray(pull(point, np.asarray(ct, out.dtype).reshape(-1)))

        return _linear_operator((out.shape[0], point.shape[0]), out.dtype, matvec, rmatvec)

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
        From the argument to a symmetric ``scipy.sparse.linalg.LinearOperator``.

    Raises
    ------
    DifferentiationError
        An array of the argument holds integers or booleans; or the result is not one real number,
        which the first product finds out.

    Examples
    --------
    >>> import funcgrad as fg
    >>> from scipy.sparse.linalg import eigsh
    >>> H = hessian_operator(lambda x: (fg.numpy.arange(10.0) * x**2).sum())(fg.numpy.ones(10))
    >>> eigsh(H, 1, return_eigenvectors=False).round(6)
    array([18.])
    """
    check_function("sparse.hessian_operator", f)

    def operator(x: Any) -> Any:
        choose("sparse.hessian_operator", f, (x,), 0)
        point, unravel = ravel(x)
        product = jit(lambda point, v: hvp(lambda p: f(unravel(p)), (point,), (v,)))

        def matvec(v: np.ndarray) -> np.ndarray:
            return np.asarray(product(point, np.asarray(v, point.dtype).reshape(-1)))

        return _linear_operator((point.shape[0], point.shape[0]), point.dtype, matvec, matvec)

    return operator
