"""``jacobian``: a sparse matrix of first derivatives, from a few products.

>>> import funcgrad as fg
>>> J = jacobian(lambda x: x[1:] * x[:-1])
>>> J(fg.tensor([1.0, 2.0, 3.0])).toarray()
array([[2., 1., 0.],
       [0., 3., 2.]])
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import update_wrapper
from math import prod
from typing import Any

import numpy as np

from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import dtype_of, is_inexact, spec_of
from funcgrad._core.trace import concrete
from funcgrad._hints.lookup import answering
from funcgrad._transforms.arguments import check_argnums, check_function, choose
from funcgrad._transforms.callables import Argnums
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.reverse import vjp
from funcgrad.errors import DifferentiationError, ShapeError
from funcgrad.sparse.compression import Compression, compressed, compression
from funcgrad.sparse.element_rows import scipy_sparse
from funcgrad.sparse.patterns import Pattern, detected
from funcgrad.sparse.sparse_derivatives import SparseDerivative
from funcgrad.tensor.tensor import Tensor, wrap


@answering
def jacobian(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    pattern: Any = None,
    mode: str | None = None,
    holomorphic: bool = False,
    verify: bool = False,
) -> SparseDerivative:
    """Transform a function into one that returns its Jacobian as a sparse matrix.

    Most elements of the Jacobian of a discretized equation, a chain or a network of parts are zero.
    This finds the others, and computes them with a few products: as many as there are colors of
    columns or rows, instead of one for each column. Use it in place of ``jacfwd`` if a result
    depends on few elements of the arguments.

    Parameters
    ----------
    f : callable
        Takes pytrees and returns a pytree.
    argnums : int or sequence of int
        The positions of the arguments to differentiate with respect to.
    pattern : Pattern, sparse matrix or array, optional
        The elements that may be nonzero, with a row for each element of the result. By default it
        is detected.
    mode : {"forward", "reverse", "both"}, optional
        Whether to color columns (forward products), rows (reverse products), or some rows and for
        the others columns. By default the cheapest.
    holomorphic : bool
        As for ``jacfwd``.
    verify : bool
        Whether each call compares the product of the matrix with a vector with ``jvp``, so that a
        wrong pattern raises an error.

    Returns
    -------
    callable
        It takes the arguments of ``f`` and returns a ``scipy.sparse.csr_array``, with a row for
        each element of the result and a column for each element of the argument. For pytrees it
        returns the trees that ``jacfwd`` returns, of such matrices. Inside of other transformations
        the matrices are ``SparseArray``. Its method ``pattern(*args)`` returns the pattern, and
        ``products(*args)`` the numbers of forward and of reverse products.

    Raises
    ------
    DifferentiationError
        An argument or a result holds integers or booleans.
    ShapeError
        The given pattern does not fit the arguments or the result.
    CheckError
        ``verify`` is true, and the pattern lacks elements.
    MissingPackageError
        SciPy is not installed.

    Notes
    -----
    The first call for arguments of new shapes or dtypes detects and colors the pattern, and
    compiles the products. If the function then takes another path, the pattern becomes the union of
    both; elements that are zero on a path are stored as 0.

    Coloring: Curtis, Powell, Reid, "On the estimation of sparse Jacobian matrices", 1974.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> def heat(u):  # a second difference, with a source
    ...     return fnp.roll(u, 1) - 2.0 * u + fnp.roll(u, -1) + u**3
    >>> J = jacobian(heat)
    >>> u = fnp.ones(1000)
    >>> J(u).nnz, J.products(u)
    (3000, (4, 0))
    """
    check_function("sparse.jacobian", f)
    check_argnums("sparse.jacobian", argnums, False)
    return _jacobian("sparse.jacobian", f, argnums, pattern, mode, holomorphic, verify, False)


@answering
def value_and_jacobian(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    pattern: Any = None,
    mode: str | None = None,
    holomorphic: bool = False,
    verify: bool = False,
) -> SparseDerivative:
    """Transform a function into one that returns its result together with its sparse Jacobian.

    See ``jacobian`` for the parameters.

    Returns
    -------
    callable
        It takes the arguments of ``f`` and returns ``(result, jacobian)``.

    Examples
    --------
    >>> import funcgrad as fg
    >>> value, J = value_and_jacobian(lambda x: x**2)(fg.tensor([1.0, 3.0]))
    >>> value, J.diagonal()
    (Tensor([1., 9.]), array([2., 6.]))
    """
    check_function("sparse.value_and_jacobian", f)
    check_argnums("sparse.value_and_jacobian", argnums, False)
    name = "sparse.value_and_jacobian"
    return _jacobian(name, f, argnums, pattern, mode, holomorphic, verify, True)


def _jacobian(
    name: str,
    f: Callable[..., Any],
    argnums: Argnums,
    pattern: Any,
    mode: str | None,
    holomorphic: bool,
    verify: bool,
    gives_value: bool,
) -> SparseDerivative:
    compression(Pattern(scipy_sparse().csr_array((0, 0), dtype=np.bool_)), mode)  # checks the mode

    def values(how: Compression) -> Callable[..., Any]:
        def out_and_elements(*args: Any, **kwargs: Any) -> tuple[Any, Tensor]:
            return _out_and_elements(name, f, argnums, how, holomorphic, args, kwargs)

        return update_wrapper(out_and_elements, f, updated=())

    def compress(found: Pattern) -> Compression:
        return compression(found, mode)

    def detect(args: Any, kwargs: Any) -> Pattern:
        return detected(name, f, argnums, args, kwargs)

    return SparseDerivative(
        name, f, argnums, pattern, values, compress, detect, verify, gives_value
    )


def _out_and_elements(
    name: str,
    f: Callable[..., Any],
    argnums: Argnums,
    how: Compression,
    holomorphic: bool,
    args: Any,
    kwargs: Any,
) -> tuple[Any, Tensor]:
    chosen = choose(name, f, args, argnums)
    primals = [wrap(leaf) for leaf in chosen.leaves]
    structures = []

    def run(*leaves: Any) -> list[Any]:
        outs, structure = pytrees.flatten(f(*chosen.arguments(args, leaves), **kwargs))
        structures.append(structure)
        return outs

    def push(*tangents: Any) -> Any:
        return jvp(run, primals, tangents)[1]

    pullback: Any = None
    if how.reverse_count:
        outs, pullback = vjp(run, *primals)
    else:
        outs = run(*primals)
    _check_results(name, outs, structures[0])
    size = sum(prod(spec_of(concrete(wrap(leaf))).shape) for leaf in outs)
    if how.pattern.shape[0] != size:
        raise ShapeError(
            f"{name}: pattern has {how.pattern.shape[0]} rows, but the result has {size} elements."
        )

    def pull(*cts: Any) -> Any:
        pulled = pullback(list(cts))
        return [ct.conj() for ct in pulled] if holomorphic else list(pulled)

    arguments, results = [
        [spec_of(concrete(wrap(leaf))) for leaf in each] for each in (primals, outs)
    ]
    is_complex = any(spec.dtype.kind == "c" for spec in (*arguments, *results))
    if is_complex and not holomorphic:
        raise DifferentiationError(
            f"{name}: arguments or results are complex. Say holomorphic=True if the function is,"
            " for f'(z); otherwise differentiate real and imaginary parts."
        )
    data = compressed(how, push, pull, arguments, results)
    return pytrees.unflatten(structures[0], outs), data


def _check_results(name: str, outs: Sequence[Any], structure: Structure) -> None:
    for leaf, path in zip(outs, structure.paths(), strict=True):
        dtype = dtype_of(concrete(wrap(leaf)))
        if not is_inexact(dtype):
            raise DifferentiationError(
                f"{name}: the function's result{path} is of dtype {dtype}, whose derivative is zero"
                " everywhere."
            )
