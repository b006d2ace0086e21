"""``jacobian``: a sparse matrix of first derivatives, from a few products.

>>> import funcgrad as fg
>>> J = jacobian(lambda x: x[1:] * x[:-1])
>>> J(fg.tensor([1.0, 2.0, 3.0])).toarray()
array([[2., 1., 0.],
       [0., 3., 2.]])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import Spec, dtype_of, is_inexact, spec_of
from funcgrad._core.trace import concrete
from funcgrad._hints.lookup import answering
from funcgrad._transforms.arguments import check_argnums, check_function, choose
from funcgrad._transforms.callables import Argnums
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.reverse import vjp
from funcgrad.errors import DifferentiationError, ShapeError
from funcgrad.sparse.compression import Compression, check_mode, compressed, compression
from funcgrad.sparse.patterns import Pattern, PatternLike
from funcgrad.sparse.sparse_derivatives import DerivativeRequest, ResultForm, SparseDerivative
from funcgrad.tensor.tensor import Tensor, wrap


@answering
def jacobian(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    pattern: PatternLike | None = None,
    mode: str | None = None,
    holomorphic: bool = False,
    verify: bool = False,
) -> SparseDerivative:
    """Transform a function into one that returns its Jacobian as a sparse matrix.

    Most elements of the Jacobian of a discretized equation, a chain or a network of parts are zero.
    This function finds the nonzero elements, and computes them with a few products: one for each
    color of the columns or rows, instead of one for each column. Use it instead of ``jacfwd`` if
    each result depends on few elements of the arguments.

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
        Whether to color columns (forward products), rows (reverse products), or some rows and the
        columns of the other rows. By default the cheapest.
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
    both; elements that are zero on a path are stored as 0. Under ``vmap`` and ``jit`` the pattern
    is the union of all paths from the beginning, since a batch and a program have one pattern. If
    there are more than 16 paths, pass ``pattern``, or return ``toarray()`` from a batch.

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
    request = _request("sparse.jacobian", f, argnums, pattern, verify)
    return _SparseJacobian(request, mode, holomorphic, False)


@answering
def value_and_jacobian(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    pattern: PatternLike | None = None,
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
    request = _request("sparse.value_and_jacobian", f, argnums, pattern, verify)
    return _SparseJacobian(request, mode, holomorphic, True)


def _request(
    name: str, f: Callable[..., Any], argnums: Argnums, pattern: PatternLike | None, verify: bool
) -> DerivativeRequest:
    check_function(name, f)
    check_argnums(name, argnums, False)
    user_pattern = None if pattern is None else Pattern.of(pattern)
    return DerivativeRequest(name, f, argnums, user_pattern, verify)


class _SparseJacobian(SparseDerivative):
    """A function that returns a sparse Jacobian, and if asked for the function's result."""

    def __init__(
        self, request: DerivativeRequest, mode: str | None, holomorphic: bool, gives_value: bool
    ) -> None:
        check_mode(mode)
        super().__init__(request, request.function)
        self._mode = mode
        self._is_holomorphic = holomorphic
        self._gives_value = gives_value

    def _compress(self, pattern: Pattern) -> Compression:
        return compression(pattern, self._mode)

    def _returned(self, out: Any, matrix: Any) -> Any:
        return (out, matrix) if self._gives_value else matrix

    def _values(
        self, how: Compression, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Any, ResultForm, Tensor]:
        request = self._request
        chosen = choose(request.name, request.function, args, request.argnums)
        primals = [wrap(leaf) for leaf in chosen.leaves]
        structures = []

        def run(*leaves: Tensor) -> list[Any]:
            result = request.function(*chosen.arguments(args, leaves), **kwargs)
            outs, structure = pytrees.flatten(result)
            structures.append(structure)
            return outs

        def push(*tangents: Tensor) -> Any:
            return jvp(run, primals, tangents)[1]

        pullback: Any = None
        if how.reverse_count:
            outs, pullback = vjp(run, *primals)
        else:
            outs = run(*primals)
        _check_results(request.name, outs, structures[0])
        arguments, results = [
            [spec_of(concrete(wrap(leaf))) for leaf in leaves] for leaves in (primals, outs)
        ]
        self._check_specs(how.pattern.shape[0], arguments, results)

        def pull(*cts: Tensor) -> Any:
            pulled = pullback(list(cts))
            return [ct.conj() for ct in pulled] if self._is_holomorphic else list(pulled)

        data = compressed(how, push, pull, arguments, results)
        value = pytrees.unflatten(structures[0], outs) if self._gives_value else None
        return value, ResultForm(tuple(results), structures[0]), data

    def _check_specs(self, rows: int, arguments: Sequence[Spec], results: Sequence[Spec]) -> None:
        size = sum([prod(spec.shape) for spec in results])
        if rows != size:
            raise ShapeError(
                f"{self._request.name}: pattern has {rows} rows, but the result has {size}"
                " elements."
            )
        is_complex = any(spec.dtype.kind == "c" for spec in (*arguments, *results))
        if is_complex and not self._is_holomorphic:
            raise DifferentiationError(
                f"{self._request.name}: arguments or results are complex. Say holomorphic=True if"
                " the function is, for f'(z); otherwise differentiate real and imaginary parts."
            )


def _check_results(name: str, outs: Sequence[Any], structure: Structure) -> None:
    for leaf, path in zip(outs, structure.paths(), strict=True):
        dtype = dtype_of(concrete(wrap(leaf)))
        if not is_inexact(dtype):
            raise DifferentiationError(
                f"{name}: the function's result{path} is of dtype {dtype}, whose derivative is zero"
                " everywhere."
            )
