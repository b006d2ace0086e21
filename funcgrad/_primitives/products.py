"""Compute contractions as one product of matrices, of stacks of matrices, or of vectors.

``plan_product`` takes subscripts and shapes, and returns a ``ProductPlan``: how the axes of both
arguments have to lie, and where the axes of the result go. ``compute`` carries it out, and
``product_text`` writes what ``compute`` does.

>>> x, y = np.ones((60, 2, 30)), np.ones((2, 30, 4))
>>> product = plan_product("nij,ijk->kn", x.shape, y.shape)
>>> compute(product, x, y).shape
(4, 60)
>>> product_text(product, "x", "y")
'y.transpose(2, 0, 1).reshape(4, 60) @ x.transpose(1, 2, 0).reshape(60, 60)'
"""

from __future__ import annotations

from math import prod
from typing import Final, NamedTuple

import numpy as np

from funcgrad._core.specs import Shape
from funcgrad._core.trace import Raw

Axes = tuple[int, ...]
Sizes = dict[str, int]

_SMALL: Final = 2**13
"""If the product of the arguments' sizes is at most this, NumPy's plain loop is faster than a plan.
Products of two matrices are recognized directly."""

_LONG: Final = 32
"""The length from which dot products of two stacks of vectors are faster in BLAS."""

_OFTEN: Final = 256
"""If each element of a stack of matrices is used this often, a dense copy is negligible."""


def split_subscripts(subscripts: str) -> tuple[str, str, str]:
    """The letters of both arguments and of the result.

    >>> split_subscripts("ij,jk->ik")
    ('ij', 'jk', 'ik')
    """
    inputs, _, out = subscripts.partition("->")
    first, _, second = inputs.partition(",")
    return first, second, out


class Arranged(NamedTuple):
    """An array with permuted axes, some of them merged or split.

    (A tuple, like ``ProductPlan``, which is made three times as fast: eager calls make one each
    time.)

    Attributes
    ----------
    axes : tuple of int or None
        The order; None for an unchanged order.
    shape : Shape or None
        The shape of a following reshape.
    dense : bool
        Whether a result that is not contiguous is copied.
    """

    axes: Axes | None = None
    shape: Shape | None = None
    dense: bool = False


class ProductPlan(NamedTuple):
    """A product of two arrays.

    Attributes
    ----------
    swapped : bool
        Whether the second argument is the left factor.
    left, right : Arranged
    of_rows : bool
        Whether each result is the dot product of two rows, rather than a product of matrices.
    shape : Shape or None
        The shape to which the product is reshaped.
    axes : tuple of int or None
        The order of the axes after that.
    target : Shape or None
        The shape of the result if BLAS writes into it directly. The other two then arrange this
        memory, ``axes`` first.
    """

    swapped: bool
    left: Arranged
    right: Arranged
    of_rows: bool = False
    shape: Shape | None = None
    axes: Axes | None = None
    target: Shape | None = None


# Plans.


def plan_product(
    subscripts: str, first_shape: Shape, second_shape: Shape, is_complex: bool = False
) -> ProductPlan | None:
    """Plan a contraction; None for NumPy's plain loop, ``np.einsum``.

    Parameters
    ----------
    subscripts : str
        Subscripts as in ``contract``: no argument has an index twice, or one that occurs only
        there.
    first_shape, second_shape : Shape
    is_complex : bool
        Whether the values are complex: NumPy's products of rows would conjugate them.
    """
    if len(subscripts) == 9 and subscripts[2] == "," and subscripts[5] == "-":
        return _of_matrices(subscripts)
    first, second, out = split_subscripts(subscripts)
    if out and prod(first_shape) * prod(second_shape) <= _SMALL:
        return None
    summed = "".join([c for c in second if c not in out])
    if not summed:
        return None  # products of two scalars
    sizes = dict(zip(first + second, first_shape + second_shape, strict=True))
    batch = "".join([c for c in out if c in first and c in second])
    rows = "".join([c for c in first if c not in second])
    columns = "".join([c for c in second if c not in first])
    if batch and not rows and not columns:
        return None if is_complex else _of_rows(first, second, batch, summed, sizes)
    swapped = columns != "" and (not rows or out[-1] in rows)
    if swapped:  # so that the result's last axis is contiguous in memory
        first, second, rows, columns = second, first, columns, rows
    if summed not in first and _size(first, sizes) > _size(second, sizes):
        summed = "".join([c for c in first if c in summed])  # the larger need not be copied then
    left = _stack(first, batch, rows, summed, sizes)
    right = _stack(second, batch, summed, columns, sizes)
    return ProductPlan(swapped, left, right, False, *_placed(batch, rows, columns, out, sizes))


_TURNS: Final = (Arranged(), Arranged((1, 0)))
_OF_MATRICES: Final = tuple(
    [
        tuple([tuple([ProductPlan(swapped, x, y) for y in _TURNS]) for x in _TURNS])
        for swapped in (False, True)
    ]
)


def _of_matrices(subscripts: str) -> ProductPlan | None:
    """The product of two matrices, with swapped arguments if that gives the order of the result."""
    a, b, _, c, d, _, _, e, f = tuple(subscripts)
    summed, row = (a, b) if b in (e, f) else (b, a)
    if summed in (e, f):
        return None  # two matrices, elementwise
    if f == row:
        return _OF_MATRICES[True][d != summed][a != summed]
    return _OF_MATRICES[False][b != summed][c != summed]


def _of_rows(first: str, second: str, batch: str, summed: str, sizes: Sizes) -> ProductPlan | None:
    """A stack of dot products, if the summed axes are contiguous in both arguments."""
    length = _size(summed, sizes)
    if length < _LONG or not (first.endswith(summed) and second.endswith(summed)):
        return None
    shape = (*[sizes[c] for c in batch], length) if len(summed) > 1 else None
    left, right = [Arranged(_order(x, batch + summed), shape) for x in (first, second)]
    return ProductPlan(False, left, right, of_rows=True)


def _stack(letters: str, batch: str, rows: str, columns: str, sizes: Sizes) -> Arranged:
    """A stack of matrices; with fewer indices a matrix or a vector."""
    dense = batch != "" and (
        letters[-1] in batch  # BLAS needs contiguous rows or columns
        or _size(letters, sizes) * _OFTEN <= prod(sizes.values())
    )
    axes = _order(letters, batch + rows + columns)
    return Arranged(axes, _merged(batch, rows, columns, sizes), dense)


def _merged(batch: str, rows: str, columns: str, sizes: Sizes) -> Shape | None:
    """The shape with one axis each for rows and columns; None if it has this form already.

    Beside a stack a vector is a matrix of one column.
    """
    if len(rows) == len(columns) == 1 or not (batch or rows[1:] or columns[1:]):
        return None
    groups = [_size(group, sizes) for group in (rows, columns) if group or batch]
    return tuple([sizes[c] for c in batch] + groups)


def _placed(
    batch: str, rows: str, columns: str, out: str, sizes: Sizes
) -> tuple[Shape | None, Axes | None, Shape | None]:
    """The reordering of the result's axes: the last three parts of a plan."""
    order = batch + rows + columns
    shape = _merged(batch, rows, columns, sizes)
    if batch and order != out and columns and out.endswith(columns) and rows in out:
        return shape, _order(out, order), tuple([sizes[c] for c in out])
    whole = None if shape is None else tuple([sizes[c] for c in order])
    return whole, _order(order, out), None


def _order(letters: str, wanted: str) -> Axes | None:
    return None if letters == wanted else tuple([letters.index(c) for c in wanted])


def _size(letters: str, sizes: Sizes) -> int:
    return prod([sizes[c] for c in letters])


# Where they are used.


def compute(product: ProductPlan, x: Raw, y: Raw) -> Raw:
    """The result for two arrays."""
    if product.swapped:
        x, y = y, x
    left, right = _arranged(x, product.left), _arranged(y, product.right)
    if product.of_rows:
        return np.vecdot(left, right)
    if product.target is not None:
        out = np.empty(product.target, np.result_type(left, right))
        np.matmul(left, right, _arranged(out, Arranged(product.axes, product.shape)))
        return out
    result = np.matmul(left, right)
    if product.shape is not None:
        result = result.reshape(product.shape)
    return result if product.axes is None else result.transpose(product.axes)


def _arranged(x: Raw, arranged: Arranged) -> Raw:
    if arranged.axes is not None:
        x = x.transpose(arranged.axes)
    if arranged.shape is not None:
        x = x.reshape(arranged.shape)
    return np.ascontiguousarray(x) if arranged.dense else x


def product_text(product: ProductPlan, x: str, y: str) -> str | None:
    """Write ``compute`` as an expression; None if it makes the array that BLAS writes into."""
    if product.target is not None:
        return None
    if product.swapped:
        x, y = y, x
    left, right = _arranged_text(x, product.left), _arranged_text(y, product.right)
    if product.of_rows:
        return f"np.vecdot({left}, {right})"
    result = f"{left} @ {right}"
    if product.shape is not None:
        result = f"({result}).reshape{product.shape}"
    return result if product.axes is None else transposed_text(f"({result})", product.axes)


def _arranged_text(x: str, arranged: Arranged) -> str:
    if arranged.axes is not None:
        x = transposed_text(x, arranged.axes)
    if arranged.shape is not None:
        x = f"{x}.reshape{arranged.shape}"
    return f"np.ascontiguousarray({x})" if arranged.dense else x


def transposed_text(x: str, axes: Axes) -> str:
    """The text of an array with its axes in this order; ``x.T`` takes a third of the time."""
    order = tuple(range(len(axes)))
    if axes == order:
        return x
    return f"{x}.T" if axes == order[::-1] else f"{x}.transpose{axes}"
