"""Join and split arrays.

>>> concatenate([[1.0, 2.0], [3.0]])
Tensor([1., 2., 3.])
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike

from funcgrad._core.specs import Shape, dtype_of, normalize_axis, shape_of
from funcgrad._core.trace import Value
from funcgrad._core.users_values import checked_dtype, operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives import joining as _p
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.structural import cast, reshape, view
from funcgrad.errors import DtypeError, LeafError, ShapeError
from funcgrad.numpy.manipulation import atleast_1d, atleast_2d, atleast_3d
from funcgrad.numpy.options import integer, integers, is_integer, sequence
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap

_MOST_AXES: Final = 64
"""The maximum number of axes of NumPy's arrays."""

# -------------------------------------------------------------------------------------- together


def _values_to_join(arrays: Sequence[ArrayLike], operation: str) -> list[Value]:
    """The values to join: a sequence of arrays, or the slices of an array along axis 0."""
    if isinstance(arrays, (Tensor, np.ndarray)):
        arrays = unstack(arrays)
    try:
        values = [operand(x, operation) for x in sequence(arrays, operation, "arrays")]
    except TypeError as error:
        if isinstance(error, LeafError) or isinstance(arrays, (list, tuple)):
            raise
        raise LeafError(
            f"{operation}: expected a sequence of arrays, got {type(arrays).__name__}."
        ) from None
    if not values:
        raise ShapeError(f"{operation}: there is nothing to join.")
    return values


@answering
def concatenate(
    arrays: Sequence[ArrayLike],
    /,
    axis: SupportsIndex | None = 0,
    *,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """Join arrays along an existing axis.

    Parameters
    ----------
    arrays : sequence of array_like
        Of equal sizes on the other axes.
    axis : int or None
        None means all elements of all arrays on one axis.
    dtype : dtype, optional

    Returns
    -------
    Tensor

    Raises
    ------
    ShapeError
        The shapes do not fit.

    Examples
    --------
    >>> concatenate([[[1.0], [2.0]], [[3.0], [4.0]]], axis=1)
    Tensor([[1., 3.],
            [2., 4.]])
    """
    values = _values_to_join(arrays, "concatenate")
    if axis is None:
        values = [reshape(x, shape=(int(np.prod(shape_of(x))),)) for x in values]
        axis = 0
    shapes = [shape_of(x) for x in values]
    if () in shapes:
        raise ShapeError(
            "concatenate: an array without axes (0-d) has no axis to join along; use stack."
        )
    axis = normalize_axis(axis, len(shapes[0]), "concatenate")
    others = {(*shape[:axis], *shape[axis + 1 :]) for shape in shapes}
    if len(others) > 1 or len({len(shape) for shape in shapes}) > 1:
        raise ShapeError(
            f"concatenate: along axis {axis} the other sizes have to be equal; the shapes are"
            f" {', '.join(map(str, shapes))}."
        )
    return _typed(_p.concatenate(*values, axis=axis), dtype, "concatenate")


def _typed(x: Value, dtype: DTypeLike | None, operation: str) -> Tensor:
    if dtype is None:
        return wrap(x)
    kind = checked_dtype(dtype, operation)
    if not np.can_cast(dtype_of(x), kind, "same_kind"):
        raise DtypeError(
            f"{operation}: joined elements of dtype {dtype_of(x)} cannot become {kind} without"
            " loss; cast them with astype."
        )
    return wrap(cast(x, dtype=kind))


concat = concatenate


@answering
def stack(
    arrays: Sequence[ArrayLike], axis: SupportsIndex = 0, *, dtype: DTypeLike | None = None
) -> Tensor:
    """Join arrays of one shape along a new axis.

    Raises
    ------
    ShapeError
        The shapes differ.

    Examples
    --------
    >>> stack([[1.0, 2.0], [3.0, 4.0]], axis=1)
    Tensor([[1., 3.],
            [2., 4.]])
    """
    values = _values_to_join(arrays, "stack")
    shapes = [shape_of(x) for x in values]
    if len(set(shapes)) > 1:
        raise ShapeError(f"stack: the shapes have to be equal: {', '.join(map(str, shapes))}.")
    if len(shapes[0]) == _MOST_AXES:
        raise ShapeError(f"stack: an array has {_MOST_AXES} axes at most, as these have.")
    axis = normalize_axis(axis, len(shapes[0]) + 1, "stack")
    return _typed(_p.stack(*values, axis=axis), dtype, "stack")


@answering
def vstack(tup: Sequence[ArrayLike], *, dtype: DTypeLike | None = None) -> Tensor:
    """Join arrays along axis 0; 1-d arrays are rows.

    Examples
    --------
    >>> vstack([[1.0, 2.0], [3.0, 4.0]])
    Tensor([[1., 2.],
            [3., 4.]])
    """
    rows = [atleast_2d(x) for x in _values_to_join(tup, "vstack")]
    return concatenate(rows, 0, dtype=dtype)


row_stack = vstack


@answering
def hstack(tup: Sequence[ArrayLike], *, dtype: DTypeLike | None = None) -> Tensor:
    """Join arrays along axis 1, or 1-d arrays along axis 0.

    Examples
    --------
    >>> hstack([[1.0], [2.0, 3.0]])
    Tensor([1., 2., 3.])
    """
    parts = [atleast_1d(x) for x in _values_to_join(tup, "hstack")]
    return concatenate(parts, 0 if parts[0].ndim == 1 else 1, dtype=dtype)


def dstack(tup: Sequence[ArrayLike]) -> Tensor:
    """Join arrays along axis 2.

    Examples
    --------
    >>> dstack([[1.0, 2.0], [3.0, 4.0]])
    Tensor([[[1., 3.],
             [2., 4.]]])
    """
    return concatenate([atleast_3d(x) for x in _values_to_join(tup, "dstack")], 2)


def column_stack(tup: Sequence[ArrayLike]) -> Tensor:
    """Join arrays along axis 1; 1-d arrays are columns.

    Examples
    --------
    >>> column_stack([[1.0, 2.0], [3.0, 4.0]])
    Tensor([[1., 3.],
            [2., 4.]])
    """
    columns = [wrap(x) for x in _values_to_join(tup, "column_stack")]
    columns = [
        x if len(shape_of(x)) > 1 else wrap(reshape(x, shape=(int(np.prod(shape_of(x))), 1)))
        for x in columns
    ]
    return concatenate(columns, 1)


def block(arrays: ArrayLike) -> Tensor:
    """Join arrays as nested lists arrange them: the innermost lists along the last axis.

    Examples
    --------
    >>> block([[1.0, 2.0], [3.0, 4.0]])
    Tensor([[1., 2.],
            [3., 4.]])
    """
    depth = _depth(arrays)
    rank = max(depth, *_ranks(arrays))
    return _block(arrays, depth, rank)


def _depth(arrays: ArrayLike) -> int:
    return 1 + max([_depth(x) for x in arrays], default=0) if isinstance(arrays, list) else 0


def _ranks(arrays: ArrayLike) -> list[int]:
    if isinstance(arrays, list):
        return [0, *[rank for x in arrays for rank in _ranks(x)]]
    return [0, len(shape_of(operand(arrays, "block")))]


def _block(arrays: ArrayLike, depth: int, rank: int) -> Tensor:
    if isinstance(arrays, list):
        return concatenate([_block(x, depth - 1, rank) for x in arrays], -depth)
    if depth:
        raise ShapeError("block: the lists have to be nested equally deep everywhere.")
    value = operand(arrays, "block")
    shape = shape_of(value)
    return wrap(reshape(value, shape=(1,) * (rank - len(shape)) + shape))


@answering
def append(arr: ArrayLike, values: ArrayLike, axis: SupportsIndex | None = None) -> Tensor:
    """Append values to an array; without an axis, both are flattened.

    Examples
    --------
    >>> append([1.0, 2.0], 3.0)
    Tensor([1., 2., 3.])
    """
    return concatenate([operand(arr, "append"), operand(values, "append")], axis)


# ----------------------------------------------------------------------------------------- apart


@answering
def unstack(x: ArrayLike, /, *, axis: SupportsIndex = 0) -> tuple[Tensor, ...]:
    """Split along an axis and remove it: the inverse of ``stack``.

    Examples
    --------
    >>> unstack([[1.0, 2.0], [3.0, 4.0]], axis=1)
    (Tensor([1., 3.]), Tensor([2., 4.]))
    """
    value = operand(x, "unstack")
    shape = shape_of(value)
    lead = (slice(None),) * normalize_axis(axis, len(shape), "unstack")
    return tuple([wrap(view(value, key=Key((*lead, k)))) for k in range(shape[len(lead)])])


def _sections(x: Value, bounds: Sequence[int], axis: int) -> list[Tensor]:
    lead = (slice(None),) * axis
    size = shape_of(x)[axis]
    # As slices do, a bound may lie outside or be counted from the end.
    pairs = zip([0, *bounds], [*bounds, size], strict=True)
    return [wrap(view(x, key=Key((*lead, slice(start, stop))))) for start, stop in pairs]


@answering
def array_split(
    ary: ArrayLike, indices_or_sections: ArrayLike, axis: SupportsIndex = 0
) -> list[Tensor]:
    """Split along an axis into a number of sections, the first ones longer, or at positions.

    Examples
    --------
    >>> array_split([1, 2, 3], 2)
    [Tensor([1, 2]), Tensor([3])]
    """
    value = operand(ary, "array_split")
    place = normalize_axis(axis, len(shape_of(value)), "array_split")
    if not is_integer(indices_or_sections):
        bounds = integers(indices_or_sections, "array_split", "indices_or_sections")
        return _sections(value, bounds, place)
    count = integer(indices_or_sections, "array_split", "indices_or_sections")
    if count <= 0:
        raise ShapeError(f"array_split: the number of parts has to be positive, not {count}.")
    size, longer = divmod(shape_of(value)[place], count)
    sizes = [size + 1] * longer + [size] * (count - longer)
    return _sections(value, np.cumsum(sizes)[:-1].tolist(), place)


@answering
def split(ary: ArrayLike, indices_or_sections: ArrayLike, axis: SupportsIndex = 0) -> list[Tensor]:
    """Split along an axis into a number of equal sections, or at positions.

    Raises
    ------
    ShapeError
        The size of the axis is not a multiple of the number of sections.

    Examples
    --------
    >>> split([1.0, 2.0, 3.0, 4.0], 2)
    [Tensor([1., 2.]), Tensor([3., 4.])]
    >>> split([1.0, 2.0, 3.0, 4.0], [1])
    [Tensor([1.]), Tensor([2., 3., 4.])]
    """
    value = operand(ary, "split")
    place = normalize_axis(axis, len(shape_of(value)), "split")
    if is_integer(indices_or_sections):
        count = integer(indices_or_sections, "split", "indices_or_sections")
        size = shape_of(value)[place]
        if count <= 0 or size % count:
            raise ShapeError(
                f"split: axis {place}, of size {size}, cannot be split into {count} equal"
                " parts; array_split makes unequal ones."
            )
    return array_split(value, indices_or_sections, place)


def hsplit(ary: ArrayLike, indices_or_sections: ArrayLike) -> list[Tensor]:
    """``split`` along axis 1, or 0 for a 1-d array.

    Examples
    --------
    >>> hsplit([[1.0, 2.0]], 2)
    [Tensor([[1.]]), Tensor([[2.]])]
    """
    value = operand(ary, "hsplit")
    return split(value, indices_or_sections, 1 if len(shape_of(value)) > 1 else 0)


def vsplit(ary: ArrayLike, indices_or_sections: ArrayLike) -> list[Tensor]:
    """``split`` along axis 0 of an array with at least two axes.

    Examples
    --------
    >>> vsplit([[1.0], [2.0]], 2)
    [Tensor([[1.]]), Tensor([[2.]])]
    """
    return _split_at_least("vsplit", ary, indices_or_sections, 0, 2)


def dsplit(ary: ArrayLike, indices_or_sections: ArrayLike) -> list[Tensor]:
    """``split`` along axis 2.

    Examples
    --------
    >>> dsplit([[[1.0, 2.0]]], 2)
    [Tensor([[[1.]]]), Tensor([[[2.]]])]
    """
    return _split_at_least("dsplit", ary, indices_or_sections, 2, 3)


def _split_at_least(
    operation: str, x: ArrayLike, indices_or_sections: ArrayLike, axis: int, rank: int
) -> list[Tensor]:
    value = operand(x, operation)
    shape: Shape = shape_of(value)
    if len(shape) < rank:
        raise ShapeError(f"{operation}: needs {rank} axes at least; the shape is {shape}.")
    return split(value, indices_or_sections, axis)
