"""Functions that return sparse matrices of derivatives, for ``jacobian`` and ``hessian``.

Each knows, for arguments of certain shapes and dtypes, a pattern, the products that contain its
elements, and a compiled function that computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import update_wrapper
from itertools import pairwise
from math import prod
from threading import get_ident
from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core import pytrees
from funcgrad._core.pytree_class import pytree, static_field
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import Spec, spec_of
from funcgrad._core.trace import RAW, concrete, is_followed
from funcgrad._staging.jit import Jitted, jit
from funcgrad._transforms.arguments import Chosen, choose
from funcgrad._transforms.callables import Argnums
from funcgrad._transforms.forward import jvp
from funcgrad.errors import ArgumentError, CheckError, ShapeError
from funcgrad.sparse.compression import Compression
from funcgrad.sparse.element_rows import Indices
from funcgrad.sparse.patterns import Pattern, detected, is_for_all_paths
from funcgrad.sparse.sparse_arrays import SparseArray
from funcgrad.tensor.tensor import Tensor, wrap


@dataclass(frozen=True, slots=True, eq=False)
class MatrixBlock:
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
        matrix = SparseArray(mine if mine.dtype == dtype else mine.astype(dtype), self.pattern)
        return matrix.to_scipy() if type(concrete(mine)) in RAW else matrix


@pytree
class ResultForm:
    """The tree of a function's result, without the values.

    Attributes
    ----------
    specs : tuple of Spec
    structure : Structure
    """

    specs: tuple[Spec, ...] = static_field()
    structure: Structure = static_field()


def _blocks(
    pattern: Pattern, rows: Sequence[int], columns: Sequence[int]
) -> list[list[MatrixBlock]]:
    """The blocks of a pattern, for the sizes of the result's arrays and of the arguments."""
    if len(rows) == len(columns) == 1:
        return [[MatrixBlock(None, pattern)]]
    tops, lefts = np.cumsum([0, *rows]), np.cumsum([0, *columns])
    row, column = pattern.row_numbers, pattern.indices
    grid = []
    for top, below in pairwise(tops.tolist()):
        line = []
        for left, right in pairwise(lefts.tolist()):
            inside = (row >= top) & (row < below) & (column >= left) & (column < right)
            block = Pattern(pattern.matrix[top:below, left:right])
            line.append(MatrixBlock(np.flatnonzero(inside), block))
        grid.append(line)
    return grid


@dataclass(frozen=True, slots=True, eq=False)
class DerivativeRequest:
    """The derivative that is asked for.

    Attributes
    ----------
    name : str
        The name of the transformation, for errors.
    function : callable
    argnums : int or sequence of int
    pattern : Pattern or None
        The user's pattern; None if it is to be detected.
    verifies : bool
        Whether each call compares the product with a vector.
    """

    name: str
    function: Callable[..., Any]
    argnums: Argnums
    pattern: Pattern | None
    verifies: bool


@dataclass(slots=True, eq=False)
class _Prepared:
    """Everything that a derivative knows for arguments of certain shapes and dtypes.

    Attributes
    ----------
    how : Compression
    values : Jitted
        From the arguments to the function's result, if that is asked for, its form, and the
        elements of the pattern.
    on_all_paths : bool
        Whether the pattern is for all paths of the function, not only for the paths of calls.
    trusting : int or None
        The thread that has just detected the pattern for its arguments, and now stages ``values``.
    blocks : list of list of MatrixBlock
    """

    how: Compression
    values: Jitted[..., Any]
    on_all_paths: bool
    trusting: int | None = None
    blocks: list[list[MatrixBlock]] | None = None


class _AnotherPathError(Exception):
    """The function takes a path on which the pattern lacks elements."""

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern


class SparseDerivative:
    """A function that returns a sparse matrix of derivatives; see ``jacobian`` and ``hessian``.

    The matrix is the Jacobian of a function: of the user's, or of its gradient.
    The pattern is detected and colored at the first call for arguments of certain shapes and
    dtypes, and whenever the function takes a new path through its control flow.
    """

    def __init__(self, request: DerivativeRequest, function: Callable[..., Any]) -> None:
        self._request, self._function = request, function
        self._known: dict[Hashable, _Prepared] = {}
        update_wrapper(self, request.function, updated=())

    # The parts in which Jacobians and Hessians differ.

    def _values(
        self, how: Compression, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Any, ResultForm, Tensor]:
        """The result of the function, if it is asked for, its form, and the elements."""
        raise NotImplementedError

    def _compress(self, pattern: Pattern) -> Compression:
        raise NotImplementedError

    def _returned(self, out: Any, matrix: Any) -> Any:
        return matrix

    def __repr__(self) -> str:
        return f"{self._request.name}({self._request.function!r})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        (out, form, data), prepared, chosen = self._evaluate(args, kwargs)
        if prepared.blocks is None:
            sizes = [
                [prod(spec.shape) for spec in specs]
                for specs in (form.specs, map(spec_of, chosen.leaves))
            ]
            prepared.blocks = _blocks(prepared.how.pattern, *sizes)
        lines = [
            chosen.result([block.of(data, np.result_type(row.dtype, data.dtype)) for block in line])
            for row, line in zip(form.specs, prepared.blocks, strict=True)
        ]
        return self._returned(out, pytrees.unflatten(form.structure, lines))

    def pattern(self, *args: Any, **kwargs: Any) -> Pattern:
        """The pattern of the matrix for these arguments."""
        return self._prepared(args, kwargs)[0].how.pattern

    def products(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        """How many forward products and how many reverse products a call computes."""
        how = self._prepared(args, kwargs)[0].how
        return how.forward_count, how.reverse_count

    def _prepared(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[_Prepared, Chosen, Hashable, bool]:
        """The record for these arguments, its key, and whether its pattern is for their path."""
        name = self._request.name
        chosen = choose(name, self._request.function, args, self._request.argnums)
        leaves, structure = pytrees.flatten((args, kwargs))
        on_all_paths = any(map(is_for_all_paths, leaves))
        key = structure, on_all_paths, tuple([spec_of(wrap(x)) for x in leaves])
        known = self._known.get(key)
        is_fresh = known is None
        if known is None:
            pattern = self._request.pattern
            if pattern is None:
                pattern = self._detect(args, kwargs, on_all_paths)
            size = sum([prod(spec_of(leaf).shape) for leaf in chosen.leaves])
            if pattern.shape[1] != size:
                raise ShapeError(
                    f"{name}: pattern has {pattern.shape[1]} columns, but the arguments have {size}"
                    " elements."
                )
            known = self._known[key] = self._made(pattern, on_all_paths)
        return known, chosen, key, is_fresh

    def _made(self, pattern: Pattern, on_all_paths: bool) -> _Prepared:
        how = self._compress(pattern)

        def values(*args: Any, **kwargs: Any) -> tuple[Any, ResultForm, Tensor]:
            self._check_path(prepared, args, kwargs)
            return self._values(how, args, kwargs)

        compiled = jit(update_wrapper(values, self._request.function, updated=()))
        prepared = _Prepared(how, compiled, on_all_paths)
        return prepared

    def _detect(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], on_all_paths: bool
    ) -> Pattern:
        name, argnums = self._request.name, self._request.argnums
        return detected(name, self._function, argnums, args, kwargs, on_all_paths=on_all_paths)

    def _check_path(
        self, prepared: _Prepared, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> None:
        """Check, where the products are staged, that the pattern holds on the path that is taken.

        No other thread sees the products of a path before this.
        """
        if self._request.pattern is None and prepared.trusting != get_ident():
            pattern = prepared.how.pattern
            merged = pattern | self._detect(args, kwargs, prepared.on_all_paths)
            if merged.nnz > pattern.nnz:
                raise _AnotherPathError(merged)

    def _evaluate(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ResultForm, Tensor], _Prepared, Chosen]:
        prepared, chosen, key, is_fresh = self._prepared(args, kwargs)
        try:
            values = self._run(prepared, is_fresh, args, kwargs)
        except _AnotherPathError as another:
            prepared = self._known[key] = self._made(another.pattern, prepared.on_all_paths)
            values = self._run(prepared, True, args, kwargs)
        self._check(values[2], prepared, args, kwargs, chosen)
        return values, prepared, chosen

    def _run(
        self, prepared: _Prepared, is_fresh: bool, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[Any, ResultForm, Tensor]:
        prepared.trusting = get_ident() if is_fresh else None
        try:
            values: tuple[Any, ResultForm, Tensor] = prepared.values(*args, **kwargs)
        finally:
            prepared.trusting = None
        return values

    def _check(
        self,
        data: Tensor,
        prepared: _Prepared,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        chosen: Chosen,
    ) -> None:
        """Compare the product with a fixed vector, if asked for."""
        if not self._request.verifies:
            return
        name = self._request.name
        if is_followed(data):
            raise ArgumentError(
                f"{name}: verify=True compares values, and arguments are traced by another"
                " transformation. Call it outside of grad, vmap and jit."
            )
        pattern = prepared.how.pattern
        v = np.cos(np.arange(1, pattern.shape[1] + 1) ** 2)
        matrix = pattern.layout.matrix(np.asarray(data))
        expected, product = self._pushed(v, args, kwargs, chosen), matrix @ v
        scale = abs(matrix) @ abs(v) + abs(expected)
        precision = np.finfo(np.result_type(expected, np.float32)).eps
        wrong = abs(product - expected) > np.sqrt(precision) * scale
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            raise CheckError(
                f"{name}: the pattern lacks elements: in row {row} the product with a vector"
                f" is {expected[row]}, but {product[row]} by the elements of the pattern, as in"
                f" {int(wrong.sum())} of {pattern.shape[0]} rows. Leave out pattern=, so that it is"
                " detected."
            )

    def _pushed(
        self, v: np.ndarray, args: tuple[Any, ...], kwargs: Mapping[str, Any], chosen: Chosen
    ) -> Any:
        """The product of the matrix with a vector, by forward mode."""
        start, tangents = 0, []
        for leaf in chosen.leaves:
            spec = spec_of(leaf)
            size = prod(spec.shape)
            tangents.append(v[start : start + size].reshape(spec.shape).astype(spec.dtype))
            start += size

        def run(*leaves: Tensor) -> Any:
            return pytrees.leaves(self._function(*chosen.arguments(args, leaves), **kwargs))

        pushed = jvp(run, [wrap(leaf) for leaf in chosen.leaves], tangents)[1]
        return np.concatenate([np.asarray(leaf).reshape(-1) for leaf in pushed])
