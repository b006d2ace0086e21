"""Compressed Jacobians: a few products give all elements, since columns of one color are disjoint.

A ``Compression`` says which products to compute: forward ones for the colors of columns, and
reverse ones for the colors of rows; and where each element of the pattern stands in them.

>>> import funcgrad as fg
>>> from funcgrad.sparse.patterns import pattern
>>> found = pattern(lambda x: x[1:] * x[:-1])(fg.numpy.ones(5))
>>> compression(found, "forward").count, compression(found, "both").count
(2, 2)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._base.fast_dataclass import dataclass
from funcgrad._core.specs import Spec
from funcgrad._core.trace import Value
from funcgrad._transforms.batch import vmap
from funcgrad.errors import ArgumentError
from funcgrad.sparse.coloring import column_colors, readable, row_colors, star_colors
from funcgrad.sparse.element_rows import Indices
from funcgrad.sparse.patterns import Pattern
from funcgrad.tensor.tensor import Tensor, wrap

_MODES: Final = ("forward", "reverse", "both")

_REVERSE_COST: Final = 1.5
"""A reverse product takes about as long as so many forward ones."""


_PROMISING: Final = 0.85
"""A split is colored if its cost may be so much less; colorings seldom reach their least cost."""


@dataclass(frozen=True, slots=True, eq=False)
class Compression:
    """Products that contain all elements of a pattern.

    Attributes
    ----------
    pattern : Pattern
    columns, rows : array of int
        The colors of the columns in forward products, and of the rows in reverse products; -1 for
        those that no product is for.
    places : array of int
        For each element of the pattern its place in the forward products, of shape (colors, rows),
        followed by the reverse products, of shape (colors, columns).
    """

    pattern: Pattern
    columns: Indices
    rows: Indices
    places: Indices

    @property
    def forward_count(self) -> int:
        """The number of forward products."""
        return int(self.columns.max(initial=-1)) + 1

    @property
    def reverse_count(self) -> int:
        """The number of reverse products."""
        return int(self.rows.max(initial=-1)) + 1

    @property
    def count(self) -> int:
        """The number of products."""
        return self.forward_count + self.reverse_count

    @property
    def cost(self) -> float:
        """The number of products, with reverse ones counted by their cost."""
        return self.forward_count + _REVERSE_COST * self.reverse_count


def compression(pattern: Pattern, mode: str | None = None) -> Compression:
    """Choose the products for a pattern.

    Parameters
    ----------
    pattern : Pattern
    mode : {"forward", "reverse", "both"}, optional
        By default the cheapest.

    Raises
    ------
    ArgumentError
        The mode is unknown.
    """
    check_mode(mode)
    if mode == "forward":
        return _split(pattern, np.zeros(pattern.shape[0], np.bool_))
    if mode == "reverse":
        return _split(pattern, np.ones(pattern.shape[0], np.bool_))
    best: Compression | None = None
    for is_reverse in _full_rows(pattern):
        if best is None or _least_cost(pattern, is_reverse) < _PROMISING * best.cost:
            candidate = _split(pattern, is_reverse)
            best = candidate if best is None or candidate.cost < best.cost else best
    assert best is not None
    return best


def _least_cost(pattern: Pattern, is_reverse: np.ndarray[Any, np.dtype[np.bool_]]) -> float:
    """The least cost of any coloring: the elements of a row, or of a column, differ in color."""
    in_reverse = is_reverse[pattern.row_numbers]
    per_row = np.diff(pattern.indptr)[~is_reverse]
    per_column = np.bincount(pattern.indices[in_reverse], minlength=1)
    return float(per_row.max(initial=0) + _REVERSE_COST * per_column.max(initial=0))


def check_mode(mode: str | None) -> None:
    """Check the name of a mode.

    Raises
    ------
    ArgumentError
        The mode is unknown.
    """
    if mode is not None and not (isinstance(mode, str) and mode in _MODES):
        raise ArgumentError(f"sparse.jacobian: mode has to be one of {_MODES}, got {mode!r}.")


def _full_rows(pattern: Pattern) -> list[np.ndarray[Any, np.dtype[np.bool_]]]:
    """Rows to compute in reverse mode: none, all, or those with far more elements than others."""
    counts = np.diff(pattern.indptr)
    candidates = [np.zeros(len(counts), np.bool_), np.ones(len(counts), np.bool_)]
    order = np.sort(np.unique(counts))
    gaps = np.flatnonzero(order[1:] > 2 * order[:-1] + 2)
    return candidates + [counts > order[gap] for gap in gaps.tolist()]


def _split(pattern: Pattern, is_reverse: np.ndarray[Any, np.dtype[np.bool_]]) -> Compression:
    """Compute some rows by reverse products, and the others by forward ones."""
    rows, columns = pattern.shape
    in_reverse = is_reverse[pattern.row_numbers]
    forward, reverse = [_some_rows(pattern, flags) for flags in (~is_reverse, is_reverse)]
    column_of = column_colors(forward) if forward.nnz else np.full(columns, -1)
    row_of = row_colors(reverse) if reverse.nnz else np.full(rows, -1)
    used = np.zeros(columns, np.bool_)
    used[pattern.indices[~in_reverse]] = True
    column_of = np.where(used, column_of, -1)
    row_of = np.where(is_reverse & (np.diff(pattern.indptr) > 0), row_of, -1)
    first = (int(column_of.max(initial=-1)) + 1) * rows
    places = np.where(
        in_reverse,
        first + row_of[pattern.row_numbers] * columns + pattern.indices,
        column_of[pattern.indices] * rows + pattern.row_numbers,
    )
    return Compression(pattern, column_of, row_of, _short(places))


def _short(places: Indices) -> np.ndarray[Any, Any]:
    """Places in 32 bits where they fit, which are read faster: 0.7 of the time to take elements."""
    return places.astype(np.int32) if places.max(initial=0) < 2**31 else places


def _some_rows(pattern: Pattern, flags: np.ndarray[Any, np.dtype[np.bool_]]) -> Any:
    """The matrix with other rows empty."""
    matrix = pattern.matrix.copy()
    matrix.data = np.repeat(flags, np.diff(pattern.indptr))
    matrix.eliminate_zeros()
    return matrix


def symmetric_compression(pattern: Pattern) -> Compression:
    """Choose the products for a Hessian, which contain each element or its mirror image."""
    colors, (count, _) = star_colors(pattern.matrix), pattern.shape
    is_direct = readable(pattern.matrix, colors)
    row, column = pattern.row_numbers, pattern.indices
    places = np.where(is_direct, colors[column] * count + row, colors[row] * count + column)
    # Both of a pair are read at one place, so that the matrix is symmetric to the bit.
    keys, flipped = row * count + column, column * count + row
    mirror = np.searchsorted(keys, flipped)
    places = np.where(row > column, places, places[mirror])
    used = np.zeros(count, np.bool_)
    used[column] = True
    return Compression(pattern, np.where(used, colors, -1), np.full(count, -1), _short(places))


Products = Callable[..., Any]
"""From one direction, as a list of leaves, to the leaves of the product."""


def compressed(
    how: Compression,
    push: Products | None,
    pull: Products | None,
    arguments: Sequence[Spec],
    results: Sequence[Spec],
) -> Tensor:
    """The elements of a pattern, row by row, by products in all colors at once."""
    parts = []
    if how.forward_count:
        assert push is not None
        parts.append(_products(push, how.columns, how.forward_count, arguments))
    if how.reverse_count:
        assert pull is not None
        parts.append(_products(pull, how.rows, how.reverse_count, results))
    if not parts:
        return fnp.zeros(0, fnp.result_type(*[spec.dtype for spec in (*arguments, *results)]))
    whole = parts[0] if len(parts) == 1 else fnp.concatenate(parts)
    return fnp.take(whole, wrap(how.places))


def _products(product: Products, colors: Indices, count: int, specs: Sequence[Spec]) -> Tensor:
    """All products with the sums of unit vectors of one color, flat."""
    start, seeds = 0, []
    for spec in specs:
        size = int(np.prod(spec.shape))
        chosen = wrap(colors[start : start + size])
        seed = fnp.astype(chosen == fnp.arange(count)[:, None], spec.dtype)
        seeds.append(fnp.reshape(seed, (count, *spec.shape)))
        start += size
    leaves: Sequence[Value] = vmap(product)(*seeds)
    rows = [fnp.reshape(leaf, (count, -1)) for leaf in leaves]
    return fnp.reshape(rows[0] if len(rows) == 1 else fnp.concatenate(rows, axis=1), -1)
