"""``pattern``: which elements of a result depend on which elements of the arguments.

>>> import funcgrad as fg
>>> found = pattern(lambda x: x[1:] * x[:-1])(fg.numpy.ones(4))
>>> found.nnz, found.colors()
(6, array([1, 0, 1, 0]))
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, wraps
from math import prod
from os import PathLike
from typing import Any, NamedTuple, TypeAlias

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core import pytrees
from funcgrad._core.specs import Shape
from funcgrad._core.trace import RAW, Trace, Value, concrete
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._hints.lookup import answering
from funcgrad._hints.optional_packages import optional_package
from funcgrad._primitives.sparse_matrices import SparseLayout
from funcgrad._transforms.arguments import check_argnums, check_function, choose
from funcgrad._transforms.batch import vmap
from funcgrad._transforms.callables import Argnums
from funcgrad._transforms.stage import stage
from funcgrad._transforms.stager import Stager
from funcgrad._transforms.with_derivative import example
from funcgrad.errors import ArgumentError, FuncgradError, ShapeError, TracerError
from funcgrad.sparse.coloring import column_colors, row_colors, star_colors
from funcgrad.sparse.dependence import PatternWalk
from funcgrad.sparse.element_rows import (
    Indices,
    Rows,
    compressed_rows,
    identity_rows,
    no_rows,
    scipy_sparse,
    stacked,
)
from funcgrad.sparse.pictures import braille
from funcgrad.sparse.sites import DenseOperation, Dependent
from funcgrad.tensor.tensor import wrap


class Leaf(NamedTuple):
    """One array of the arguments or of the result.

    Attributes
    ----------
    name : str
        Such as ``params['w']``.
    shape : tuple of int
    """

    name: str
    shape: Shape

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)


class Pattern:
    """The sparsity pattern of a Jacobian or Hessian: the elements that may be nonzero.

    Rows are the elements of the result, and columns the elements of the arguments, in the order of
    the leaves of their pytrees, and in C order within a leaf. Functions return patterns; make one
    from your own matrix with ``Pattern.of``. Patterns are immutable, can be compared and hashed,
    and are pytrees without leaves, so functions under ``jit`` can take and return them. Such
    programs can be saved.

    Attributes
    ----------
    shape : tuple of int
        The numbers of rows and of columns.
    indptr, indices : array of int64
        The columns of row ``i`` are ``indices[indptr[i] : indptr[i + 1]]``, ascending.
    rows, columns : tuple of Leaf
        Name and shape of each array of the result, and of the arguments.
    dense_from : tuple
        The operations that were taken to be dense, because they declare neither a structure nor
        examples, such as functions of other libraries; each has a ``name`` and the user's line.

    Examples
    --------
    >>> import funcgrad as fg
    >>> found = pattern(lambda x: x[1:] - x[:-1])(fg.numpy.ones(16))
    >>> found
    Pattern: 15 rows, 16 columns, 30 nonzeros (12.5 %)
    ⠙⢦⡀⠀⠀⠀⠀⠀
    ⠀⠀⠙⢦⡀⠀⠀⠀
    ⠀⠀⠀⠀⠙⢦⡀⠀
    ⠀⠀⠀⠀⠀⠀⠙⠦
    """

    __slots__ = ("__dict__", "columns", "dense_from", "indices", "indptr", "rows", "shape")

    def __init__(
        self,
        matrix: Rows,
        rows: Sequence[Leaf] = (),
        columns: Sequence[Leaf] = (),
        dense_from: Sequence[DenseOperation] = (),
    ) -> None:
        if not matrix.has_canonical_format:
            matrix = matrix.copy()
            matrix.sum_duplicates()  # which sorts the columns of each row
        self.shape: tuple[int, int] = tuple(matrix.shape)
        self.indptr: Indices = matrix.indptr.astype(np.int64)
        self.indices: Indices = matrix.indices.astype(np.int64)
        self.indptr.flags.writeable = self.indices.flags.writeable = False
        self.rows = tuple(rows) or (Leaf("result", self.shape[:1]),)
        self.columns = tuple(columns) or (Leaf("x", self.shape[1:]),)
        self.dense_from = tuple(dense_from)

    @classmethod
    def of(cls, matrix: PatternLike) -> Pattern:
        """Make a pattern from the nonzeros of a SciPy sparse array or a two-dimensional array.

        All elements that a sparse array stores count as nonzeros, even if they are 0.

        Raises
        ------
        ShapeError
            The matrix does not have two axes.

        Examples
        --------
        >>> import numpy as np
        >>> Pattern.of(np.eye(3)).nnz
        3
        """
        if isinstance(matrix, Pattern):
            return matrix
        scipy = scipy_sparse()
        if not scipy.issparse(matrix):
            matrix = np.asarray(fnp.asarray(matrix)) != 0
        if matrix.ndim != 2:
            raise ShapeError(
                f"sparse.Pattern.of: expected a matrix, got an array of shape {matrix.shape}. Rows"
                " are the elements of the result, columns the elements of the arguments."
            )
        rows = scipy.csr_array(matrix, copy=True)
        rows.data = np.ones(len(rows.data), np.bool_)
        return cls(rows)

    @property
    def nnz(self) -> int:
        """The number of elements that may be nonzero."""
        return len(self.indices)

    @cached_property
    def matrix(self) -> Any:
        """The pattern as a boolean ``scipy.sparse.csr_array``."""
        return compressed_rows(self.indices, self.indptr, self.shape)

    @cached_property
    def row_numbers(self) -> Indices:
        """The row of each element, beside ``indices``."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))

    @cached_property
    def transposed(self) -> Pattern:
        """The pattern of the transpose."""
        return Pattern(self.matrix.T.tocsr(), self.columns, self.rows, self.dense_from)

    @cached_property
    def layout(self) -> SparseLayout:
        """The pattern as a parameter of operations."""
        return SparseLayout.of(self.indptr, self.indices, self.shape)

    @property
    def blocks(self) -> Mapping[str, Mapping[str, Any]]:
        """The parts of ``matrix`` by the names of leaves: ``blocks["loss"]["params['w']"]``."""
        matrix, out, top = self.matrix, {}, 0
        for row in self.rows:
            parts, left = {}, 0
            for column in self.columns:
                parts[column.name] = matrix[top : top + row.size, left : left + column.size]
                left += column.size
            out[row.name] = parts
            top += row.size
        return out

    def colors(self, kind: str = "column") -> Indices:
        """Color the columns, the rows, or the columns of a symmetric pattern.

        Parameters
        ----------
        kind : {"column", "row", "star"}
            Columns of one color share no row: one Jacobian-vector product computes them. Rows of
            one color share no column. "star" is for Hessians; see ``funcgrad.sparse.coloring``.

        Returns
        -------
        array of int64
            A color for each column, or each row.

        Raises
        ------
        ArgumentError
            The kind is unknown, or the pattern of "star" is not symmetric.
        """
        if kind == "column":
            return column_colors(self.matrix)
        if kind == "row":
            return row_colors(self.matrix)
        if kind != "star":
            raise ArgumentError(
                f"Pattern.colors: kind has to be 'column', 'row' or 'star', got {kind!r}."
            )
        if not self.is_symmetric:
            raise ArgumentError("Pattern.colors: a star coloring needs a symmetric pattern.")
        return star_colors(self.matrix)

    @cached_property
    def is_symmetric(self) -> bool:
        """Whether the pattern equals its transpose."""
        if self.shape[0] != self.shape[1]:
            return False
        return self == self.transposed

    def __or__(self, other: Pattern) -> Pattern:
        """The elements of either pattern."""
        if not isinstance(other, Pattern):
            return NotImplemented
        if self.shape != other.shape:
            raise ShapeError(f"patterns of shapes {self.shape} and {other.shape} have no union.")
        dense = dict.fromkeys(self.dense_from + other.dense_from)
        return Pattern(self.matrix + other.matrix, self.rows, self.columns, tuple(dense))

    def save(self, path: str | PathLike[str]) -> None:
        """Save the pattern as a file of NumPy's, ``.npz``; ``Pattern.load`` reads it."""
        arrays: dict[str, Any] = {
            f"{name}_{field}": np.array([getattr(leaf, field) for leaf in side], dtype=kind)
            for name, side in (("rows", self.rows), ("columns", self.columns))
            for field, kind in (("name", np.str_), ("size", np.int64))
        }
        with open(path, "wb") as file:
            np.savez(file, indptr=self.indptr, indices=self.indices, shape=self.shape, **arrays)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Pattern:
        """Load a pattern that ``save`` wrote; shapes of leaves are flat."""
        with np.load(path, allow_pickle=False) as file:
            rows, columns = [
                [
                    Leaf(str(name), (int(size),))
                    for name, size in zip(file[f"{side}_name"], file[f"{side}_size"], strict=True)
                ]
                for side in ("rows", "columns")
            ]
            matrix = compressed_rows(file["indices"], file["indptr"], tuple(file["shape"].tolist()))
        return cls(matrix, rows, columns)

    def plot(self, ax: Any = None) -> Any:
        """Draw the pattern with matplotlib; return the ``Axes``.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default new axes.
        """
        if ax is None:
            pyplot = optional_package("matplotlib.pyplot", "Pattern.plot: draws with matplotlib")
            ax = pyplot.subplots()[1]
        ax.spy(self.matrix, markersize=max(1.0, min(6.0, 300.0 / max(*self.shape, 1))))
        ax.set_xlabel(", ".join(leaf.name for leaf in self.columns))
        ax.set_ylabel(", ".join(leaf.name for leaf in self.rows))
        return ax

    def __repr__(self) -> str:
        rows, columns = self.shape
        share = 100 * self.nnz / max(rows * columns, 1)
        head = f"Pattern: {rows} rows, {columns} columns, {self.nnz} nonzeros ({share:.3g} %)"
        picture = braille(self.row_numbers, self.indices, self.shape)
        dense = [f"dense from {operation}" for operation in self.dense_from]
        return "\n".join([head, *picture, *dense])

    def _key(self) -> tuple[Any, ...]:
        return self.shape, self.indptr.tobytes(), self.indices.tobytes()

    def __eq__(self, other: object) -> bool:
        return self._key() == other._key() if isinstance(other, Pattern) else NotImplemented

    @cached_property
    def _hash(self) -> int:
        return hash(self._key())

    def __hash__(self) -> int:
        return self._hash

    def __tree_flatten__(self) -> tuple[tuple[Any, ...], Pattern]:
        return (), self

    @classmethod
    def __tree_unflatten__(cls, aux: Pattern, children: object) -> Pattern:
        return aux

    def __static_parts__(self) -> tuple[Hashable, ...]:
        """The parts that saved programs and files store; names of leaves are not among them."""
        return tuple(self.layout)

    @classmethod
    def __of_static_parts__(cls, parts: tuple[bytes, bytes, tuple[int, int], bool]) -> Pattern:
        """Make a pattern of stored parts.

        Raises
        ------
        ValueError
            They are not those of a pattern.
        """
        layout = SparseLayout(*parts)
        rows, columns = layout.coordinates
        out = cls(scipy_sparse().coo_array((rows >= 0, (rows, columns)), layout.size).tocsr())
        if out.layout != layout:
            raise ValueError("the indices do not ascend")
        return out

    def __reduce__(self) -> Any:
        return Pattern, (self.matrix, self.rows, self.columns, self.dense_from)


PatternLike: TypeAlias = Any
"""A pattern, or a matrix whose nonzeros are one."""


@answering
def pattern(
    f: Callable[..., Any], argnums: Argnums = 0, *, local: bool = False
) -> Callable[..., Pattern]:
    """Transform a function into one that returns the sparsity pattern of its Jacobian.

    The pattern is read from the operations of ``f``, without a derivative. It may hold elements
    that are zero at every point, such as in ``x - x``, but it never lacks an element. Use it to
    see a structure, or pass it to ``jacobian``, which otherwise detects it by itself.

    Parameters
    ----------
    f : callable
        Takes pytrees and returns a pytree.
    argnums : int or sequence of int
        The positions of the arguments to differentiate with respect to.
    local : bool
        Whether the pattern is for the values of the arguments, and not for all values of these
        shapes: then ``where``, ``maximum``, ``cond``, ``max`` and the like contribute only the
        elements that they select at this point, and an index only the elements that it selects.

    Returns
    -------
    callable
        It takes the arguments of ``f``, and returns a ``Pattern``.

    Raises
    ------
    DifferentiationError
        A chosen argument holds integers or booleans.
    ArgumentError
        ``local`` is true, and an argument is traced by another transformation, so that it has no
        value.

    Notes
    -----
    If ``f`` chooses its path by ``if``, the pattern is for the path of these arguments. An
    operation that declares neither a structure nor examples counts as dense, and is listed in
    ``Pattern.dense_from``. Loops of up to 1,000 steps are followed step by step; in longer ones,
    and in a ``while_loop`` that depends on the arguments, every step may be any step.

    Examples
    --------
    >>> import funcgrad as fg
    >>> import funcgrad.numpy as fnp
    >>> def f(x):
    ...     return fnp.where(x > 0, x, x[::-1])
    >>> found = pattern(f)(fg.tensor([1.0, -2.0]))
    >>> found.matrix.toarray().astype(int)
    array([[1, 1],
           [1, 1]])
    >>> pattern(f, local=True)(fg.tensor([1.0, -2.0])).matrix.toarray().astype(int)
    array([[1, 0],
           [1, 0]])
    """
    check_function("sparse.pattern", f)
    check_argnums("sparse.pattern", argnums, False)

    def pattern_of(*args: Any, **kwargs: Any) -> Pattern:
        return detected("sparse.pattern", f, argnums, args, kwargs, local)

    return pattern_of


def detected(
    operation: str,
    f: Callable[..., Any],
    argnums: Argnums,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    is_local: bool = False,
    on_all_paths: bool = False,
) -> Pattern:
    """The pattern of a function at its arguments, in the name of an operation.

    It is for the path of these arguments, or for all paths of the function if they can be staged.
    """
    chosen = choose(operation, f, args, argnums)
    leaves, structure = pytrees.flatten((args, dict(kwargs)))
    examples = [_example(operation, leaf, is_local) for leaf in leaves]
    inner_args, inner_kwargs = pytrees.unflatten(structure, examples)
    program = None
    if not any(trace.is_batch for leaf in leaves for trace in _traces(leaf)):
        program = stage(operation, f, inner_args, inner_kwargs)
    if program is None or (on_all_paths and program.guards):
        with suppress(FuncgradError):  # more paths than a program has
            program = stage(operation, _on_every_path(f), inner_args, inner_kwargs)
    program = program or stage(operation, f, inner_args, inner_kwargs)
    counts = [pytrees.structure(arg).num_leaves for arg in args]
    places = [
        sum(counts[:position]) + k for position in chosen.positions for k in range(counts[position])
    ]
    columns = [Leaf(program.names[place], program.inputs[place].shape) for place in places]
    width, start = sum(leaf.size for leaf in columns), 0
    inputs: Dependent = [None] * len(program.inputs)
    for place, leaf in zip(places, columns, strict=True):
        inputs[place] = identity_rows(leaf.size, width, start)
        start += leaf.size
    known = {k: concrete(leaf) for k, leaf in enumerate(examples)} if is_local else {}
    walk = PatternWalk(width, is_local)
    outputs = walk.outputs(program, inputs, known)
    rows = [
        Leaf(_result_name(path), spec.shape)
        for path, spec in zip(program.result.paths(), program.output_specs, strict=True)
    ]
    parts = [
        no_rows(leaf.size, width) if output is None else output
        for output, leaf in zip(outputs, rows, strict=True)
    ]
    return Pattern(stacked([*parts, no_rows(0, width)]), rows, columns, tuple(walk.dense))


def is_for_all_paths(leaf: ArrayLike) -> bool:
    """Whether a leaf stands for several values, which a batch or a program may have.

    They may take different paths, and their matrices have one pattern.
    """
    return any(trace.is_batch or isinstance(trace, Stager) for trace in _traces(leaf))


def _traces(leaf: ArrayLike) -> Iterator[Trace]:
    value: Value = concrete(wrap(leaf))
    while type(value) not in RAW and value._trace is not None:
        yield value._trace
        value = value._value


def _on_every_path(f: Callable[..., Any]) -> Callable[..., Any]:
    """Run a function on a batch of one: a program of it has all paths of the function."""

    @wraps(f)
    def function(*args: object, **kwargs: object) -> Any:
        batch = pytrees.map(lambda x: x[None], (args, kwargs))
        out = vmap(lambda every: f(*every[0], **every[1]))(batch)
        return pytrees.map(lambda x: x[0], out)

    return function


def _example(operation: str, leaf: Any, needs_number: bool) -> Any:
    """A value of the shape and dtype of a leaf, which may be a tracer."""
    value = concrete(operand(leaf, operation))
    if type(value) in RAW:
        return wrap(value)
    if needs_number and value._trace.is_remote:
        return value
    if needs_number:
        raise TracerError(
            f"{operation}: local=True reads the arguments' values, and an argument is traced by"
            " another transformation. Call it outside of grad, vmap and jit."
        )
    return wrap(example(value))


def _result_name(path: str) -> str:
    """Name a leaf of the result: by its key, or by its path.

    >>> _result_name("['loss']"), _result_name("[0]['w']"), _result_name("")
    ('loss', "result[0]['w']", 'result')
    """
    quoted, _, further = path[2:].partition("']")
    return quoted + further if path.startswith("['") else f"result{path}"
