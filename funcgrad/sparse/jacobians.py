"""``jacobian`` and ``hessian``: sparse matrices of derivatives, from a few products.

>>> import funcgrad as fg
>>> J = jacobian(lambda x: x[1:] * x[:-1])
>>> J(fg.tensor([1.0, 2.0, 3.0])).toarray()
array([[2., 1., 0.],
       [0., 3., 2.]])
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import update_wrapper
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import dtype_of, is_inexact, spec_of
from funcgrad._core.trace import RAW, concrete
from funcgrad._hints.lookup import answering
from funcgrad._staging.jit import Jitted, jit
from funcgrad._transforms.arguments import Chosen, check_argnums, check_function, choose
from funcgrad._transforms.callables import Argnums
from funcgrad._transforms.forward import jvp
from funcgrad._transforms.reverse import grad, vjp
from funcgrad.errors import ArgumentError, CheckError, DifferentiationError, ShapeError
from funcgrad.sparse.arrays import SparseArray
from funcgrad.sparse.compression import (
    Compression,
    compressed,
    compression,
    symmetric_compression,
)
from funcgrad.sparse.element_rows import Indices, scipy_sparse
from funcgrad.sparse.patterns import Pattern, detected
from funcgrad.tensor.tensor import Tensor, wrap


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """The part of a matrix that belongs to one array of the result and one argument.

    Attributes
    ----------
    places : array of int or None
        The elements of the whole pattern; None for all.
    pattern : Pattern
    """

    places: Indices | None
    pattern: Pattern

    def of(self, data: Tensor, dtype: np.dtype[Any]) -> Any:
        """The block of a whole matrix: SciPy's array, or a sparse array if the data are traced."""
        mine = data if self.places is None else fnp.take(data, self.places)
        mine = mine if mine.dtype == dtype else mine.astype(dtype)
        value = concrete(mine)
        if type(value) not in RAW:
            return SparseArray(mine, self.pattern)
        matrix = self.pattern.matrix
        parts = np.asarray(value), matrix.indices, matrix.indptr
        return scipy_sparse().csr_array(parts, shape=matrix.shape, copy=True)


def _blocks(pattern: Pattern, rows: Sequence[int], columns: Sequence[int]) -> list[list[_Block]]:
    """The blocks of a pattern, for the sizes of the result's arrays and of the arguments."""
    if len(rows) == len(columns) == 1:
        return [[_Block(None, pattern)]]
    tops, lefts = np.cumsum([0, *rows]), np.cumsum([0, *columns])
    row, column = pattern.row_numbers, pattern.indices
    grid = []
    for top, below in pairwise(tops.tolist()):
        line = []
        for left, right in pairwise(lefts.tolist()):
            inside = (row >= top) & (row < below) & (column >= left) & (column < right)
            part = pattern.matrix[top:below, left:right]
            line.append(_Block(np.flatnonzero(inside), Pattern(part)))
        grid.append(line)
    return grid


@dataclass(slots=True, eq=False)
class _Prepared:
    """Everything that a derivative knows for arguments of certain shapes and dtypes.

    Attributes
    ----------
    how : Compression
    values : Jitted
        From the arguments to the function's result and the elements of the pattern.
    stagings : int
        How often ``values`` had been staged when the pattern was last detected.
    blocks : list of list of _Block
    """

    how: Compression
    values: Jitted[..., Any]
    stagings: int = 0
    blocks: list[list[_Block]] | None = None


class SparseDerivative:
    """A function that returns a sparse matrix of derivatives; see ``jacobian`` and ``hessian``.

    The pattern is detected and colored at the first call for arguments of certain shapes and
    dtypes, and whenever the function takes a new path through its control flow.
    """

    def __init__(
        self,
        name: str,
        f: Callable[..., Any],
        argnums: Argnums,
        given: Any,
        values: Callable[[Compression], Callable[..., Any]],
        compress: Callable[[Pattern], Compression],
        detect: Callable[..., Pattern],
        verify: bool,
        gives_value: bool = False,
    ) -> None:
        self._name = name
        self._function = f
        self._argnums = argnums
        self._given = None if given is None else Pattern.of(given)
        self._values = values
        self._compress = compress
        self._detect = detect
        self._verifies = verify
        self._gives_value = gives_value
        self._known: dict[Hashable, _Prepared] = {}
        update_wrapper(self, f, updated=())

    def __repr__(self) -> str:
        return f"{self._name}({self._function!r})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        out, data, prepared, chosen = self._evaluate(args, kwargs)
        leaves, structure = pytrees.flatten(out)
        matrix = self._assembled(leaves, structure, data, prepared, chosen)
        return (out, matrix) if self._gives_value else matrix

    def pattern(self, *args: Any, **kwargs: Any) -> Pattern:
        """The pattern of the matrix for these arguments."""
        return self._prepared(args, kwargs)[0].how.pattern

    def products(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        """How many forward products and how many reverse products a call computes."""
        how = self._prepared(args, kwargs)[0].how
        return how.forward_count, how.reverse_count

    def _prepared(self, args: Any, kwargs: Any) -> tuple[_Prepared, Chosen]:
        chosen = choose(self._name, self._function, args, self._argnums)
        leaves, structure = pytrees.flatten((args, kwargs))
        key = structure, tuple([spec_of(wrap(leaf)) for leaf in leaves])
        known = self._known.get(key)
        if known is None:
            pattern = self._given
            if pattern is None:
                pattern = self._detect(args, kwargs)
            size = sum([prod(spec_of(leaf).shape) for leaf in chosen.leaves])
            if pattern.shape[1] != size:
                raise ShapeError(
                    f"{self._name}: pattern has {pattern.shape[1]} columns, but the arguments have"
                    f" {size} elements."
                )
            known = self._known[key] = self._made(pattern)
        return known, chosen

    def _made(self, pattern: Pattern) -> _Prepared:
        how = self._compress(pattern)
        return _Prepared(how, jit(self._values(how)))

    def _evaluate(self, args: Any, kwargs: Any) -> tuple[Any, Tensor, _Prepared, Chosen]:
        prepared, chosen = self._prepared(args, kwargs)
        out, data = prepared.values(*args, **kwargs)
        stagings = prepared.values.stagings
        if stagings > prepared.stagings and self._given is None:
            first = prepared.stagings == 0
            prepared.stagings = stagings
            if not first:  # it took another path: the pattern is the union of all paths'
                merged = prepared.how.pattern | self._detect(args, kwargs)
                if merged.nnz > prepared.how.pattern.nnz:
                    fresh = self._made(merged)
                    prepared.how, prepared.values, prepared.blocks = fresh.how, fresh.values, None
                    out, data = prepared.values(*args, **kwargs)
                    prepared.stagings = prepared.values.stagings
        self._check(data, prepared, args, kwargs, chosen)
        return out, data, prepared, chosen

    def _assembled(
        self,
        leaves: Sequence[Any],
        structure: Structure,
        data: Tensor,
        prepared: _Prepared,
        chosen: Chosen,
    ) -> Any:
        rows = self._rows(leaves, chosen)
        if prepared.blocks is None:
            sizes = [[prod(spec_of(leaf).shape) for leaf in each] for each in (rows, chosen.leaves)]
            if sum(sizes[0]) != prepared.how.pattern.shape[0]:
                raise ShapeError(
                    f"{self._name}: pattern has {prepared.how.pattern.shape[0]} rows, but the"
                    f" matrix has {sum(sizes[0])}."
                )
            prepared.blocks = _blocks(prepared.how.pattern, *sizes)
        lines = [
            chosen.result(
                [block.of(data, np.result_type(dtype_of(row), data.dtype)) for block in line]
            )
            for row, line in zip(rows, prepared.blocks, strict=True)
        ]
        return self._in_tree(structure, lines, chosen)

    def _rows(self, leaves: Sequence[Any], chosen: Chosen) -> Sequence[Any]:
        return leaves

    def _in_tree(self, structure: Structure, lines: list[Any], chosen: Chosen) -> Any:
        return pytrees.unflatten(structure, lines)

    def _check(
        self, data: Tensor, prepared: _Prepared, args: Any, kwargs: Any, chosen: Chosen
    ) -> None:
        """Compare the product with a fixed vector, if asked for."""
        if not self._verifies:
            return
        value = concrete(data)
        if type(value) not in RAW:
            raise ArgumentError(
                f"{self._name}: verify=True compares numbers, and arguments are traced by another"
                " transformation. Call it outside of grad, vmap and jit."
            )
        pattern = prepared.how.pattern
        v = np.cos(np.arange(1, pattern.shape[1] + 1) ** 2)
        parts = (np.asarray(value), pattern.indices, pattern.indptr)
        matrix = scipy_sparse().csr_array(parts, shape=pattern.shape)
        expected, product = self._pushed(v, args, kwargs, chosen), matrix @ v
        scale = abs(matrix) @ abs(v) + abs(expected)
        precision = np.finfo(np.result_type(expected, np.float32)).eps
        wrong = abs(product - expected) > np.sqrt(precision) * scale
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise CheckError(
                f"{self._name}: the pattern lacks elements: in row {row} the product with a vector"
                f" is {expected[row]}, but {product[row]} by the elements of the pattern, as in"
                f" {int(wrong.sum())} of {pattern.shape[0]} rows. Leave out pattern=, so that it is"
                " detected."
            )

    def _pushed(self, v: Any, args: Any, kwargs: Any, chosen: Chosen) -> Any:
        """The product of the matrix with a vector, by forward mode."""
        f = self._function
        return _pushed_through(f, v, args, kwargs, chosen)


def _pushed_through(f: Any, v: Any, args: Any, kwargs: Any, chosen: Chosen) -> Any:
    start, tangents = 0, []
    for leaf in chosen.leaves:
        spec = spec_of(leaf)
        size = prod(spec.shape)
        tangents.append(v[start : start + size].reshape(spec.shape).astype(spec.dtype))
        start += size

    def run(*leaves: Any) -> Any:
        return pytrees.leaves(f(*chosen.arguments(args, leaves), **kwargs))

    pushed = jvp(run, [wrap(leaf) for leaf in chosen.leaves], tangents)[1]
    return np.concatenate([np.asarray(leaf).reshape(-1) for leaf in pushed])


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


class SparseHessian(SparseDerivative):
    """A function that returns a sparse Hessian; see ``hessian``."""

    def lower(self, *args: Any, **kwargs: Any) -> Any:
        """The lower triangle, with the diagonal, as solvers for symmetric matrices want it.

        For one array as the argument; a tree of arguments has blocks instead of a triangle.
        """
        _, data, prepared, _ = self._evaluate(args, kwargs)
        pattern = prepared.how.pattern
        below = np.flatnonzero(pattern.indices <= pattern.row_numbers)
        matrix = pattern.matrix.copy()
        matrix.data = pattern.indices <= pattern.row_numbers
        matrix.eliminate_zeros()
        return _Block(below, Pattern(matrix)).of(data, data.dtype)

    def _rows(self, leaves: Sequence[Any], chosen: Chosen) -> Sequence[Any]:
        return chosen.leaves

    def _in_tree(self, structure: Structure, lines: list[Any], chosen: Chosen) -> Any:
        return chosen.result(lines)

    def _pushed(self, v: Any, args: Any, kwargs: Any, chosen: Chosen) -> Any:
        slope = _gradient(self._function, self._argnums)
        return _pushed_through(slope, v, args, kwargs, chosen)


def _gradient(f: Callable[..., Any], argnums: Argnums) -> Callable[..., Any]:
    return update_wrapper(lambda *args, **kwargs: grad(f, argnums)(*args, **kwargs), f, updated=())


@answering
def hessian(
    f: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    pattern: Any = None,
    verify: bool = False,
) -> SparseHessian:
    """Transform a scalar function into one that returns its Hessian as a sparse matrix.

    The Hessian of a sum of terms is zero for two elements that share no term. This finds the other
    pairs, and computes them with a few Hessian-vector products. The result is symmetric to the bit.

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
    name, slope = "sparse.hessian", _gradient(f, argnums)

    def values(how: Compression) -> Callable[..., Any]:
        def out_and_elements(*args: Any, **kwargs: Any) -> tuple[Any, Tensor]:
            chosen = choose(name, f, args, argnums)
            primals = [wrap(leaf) for leaf in chosen.leaves]
            specs = [spec_of(leaf) for leaf in chosen.leaves]
            if any(spec.dtype.kind == "c" for spec in specs):
                raise DifferentiationError(
                    f"{name}: an argument is complex. Take real and imaginary parts as arguments,"
                    " or use fg.hessian."
                )

            def push(*tangents: Any) -> Any:
                def run(*leaves: Any) -> list[Any]:
                    return pytrees.leaves(slope(*chosen.arguments(args, leaves), **kwargs))

                return jvp(run, primals, tangents)[1]

            return (), compressed(how, push, None, specs, specs)

        return update_wrapper(out_and_elements, f, updated=())

    def compress(found: Pattern) -> Compression:
        if pattern is None:
            found = found | found.transposed
        elif not found.is_symmetric:
            raise ArgumentError(f"{name}: pattern has to be symmetric, as Hessians are.")
        return symmetric_compression(found)

    def detect(args: Any, kwargs: Any) -> Pattern:
        return detected(name, slope, argnums, args, kwargs)

    return SparseHessian(name, f, argnums, pattern, values, compress, detect, verify)
