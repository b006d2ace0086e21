"""Functions that return sparse matrices of derivatives, for ``jacobian`` and ``hessian``.

Each knows, for arguments of certain shapes and dtypes, a pattern, the products that contain its
elements, and a compiled function that computes them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from copy import copy
from functools import update_wrapper
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core import pytrees
from funcgrad._core.pytrees import Structure
from funcgrad._core.specs import dtype_of, spec_of
from funcgrad._core.trace import RAW, concrete
from funcgrad._staging.jit import Jitted, jit
from funcgrad._transforms.arguments import Chosen, choose
from funcgrad._transforms.callables import Argnums
from funcgrad._transforms.forward import jvp
from funcgrad.errors import ArgumentError, CheckError, ShapeError
from funcgrad.sparse.compression import Compression
from funcgrad.sparse.element_rows import Indices, scipy_sparse
from funcgrad.sparse.patterns import Pattern
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
        mine = mine if mine.dtype == dtype else mine.astype(dtype)
        value = concrete(mine)
        if type(value) not in RAW:
            return SparseArray(mine, self.pattern)
        template = self.pattern.matrix
        matrix = copy(template)  # the constructor would check the indices at each call
        matrix.data = np.array(value)
        matrix.indices, matrix.indptr = template.indices.copy(), template.indptr.copy()
        return matrix


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
            part = pattern.matrix[top:below, left:right]
            line.append(MatrixBlock(np.flatnonzero(inside), Pattern(part)))
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
    blocks : list of list of MatrixBlock
    """

    how: Compression
    values: Jitted[..., Any]
    stagings: int = 0
    blocks: list[list[MatrixBlock]] | None = None


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
                f"{self._name}: verify=True compares values, and arguments are traced by another"
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
        return pushed_through(f, v, args, kwargs, chosen)


def pushed_through(f: Any, v: Any, args: Any, kwargs: Any, chosen: Chosen) -> Any:
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
