"""Choose elements by position or condition, and find positions.

>>> take([10.0, 20.0, 30.0], [2, 0])
Tensor([30., 10.])
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Literal, SupportsIndex

import numpy as np

from funcgrad._core.specs import ShapeLike, broadcast_shapes, dtype_of, normalize_axis, shape_of
from funcgrad._core.trace import RAW, Value, beside, concrete, reason
from funcgrad._core.users_values import operand
from funcgrad._hints.lookup import answering
from funcgrad._primitives import scatter as _s
from funcgrad._primitives.broadcasting import broadcast_to
from funcgrad._primitives.index_keys import explain_index
from funcgrad._primitives.indexing import gather
from funcgrad._primitives.joining import stack
from funcgrad._primitives.selection import maximum, minimum
from funcgrad._primitives.sorting import take_along_axis as _take_along
from funcgrad._primitives.structural import cast, reshape
from funcgrad.errors import AxisError, DtypeError, ShapeError, TracerError
from funcgrad.numpy.options import choice, integers, sequence, shape_argument
from funcgrad.numpy.updates import at
from funcgrad.tensor.tensor import ArrayLike, Tensor, wrap

# ------------------------------------------------------------------------------------- choosing


@answering
def take(
    a: ArrayLike,
    indices: ArrayLike,
    axis: SupportsIndex | None = None,
    *,
    mode: Literal["raise", "wrap", "clip"] = "raise",
) -> Tensor:
    """The elements at positions along an axis.

    Parameters
    ----------
    a : array_like
    indices : array_like of integers
        Positions of any shape, which replaces the axis in the result. They may be traced.
    axis : int, optional
        By default the elements of ``a`` are taken row by row, as one axis.
    mode : {"raise", "wrap", "clip"}
        How to treat positions out of bounds: an error, modulo the size, or the nearest end.

    Returns
    -------
    Tensor

    Raises
    ------
    AxisError
        A position or the axis is out of bounds.

    Examples
    --------
    >>> take([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [2, 0], axis=1)
    Tensor([[3., 1.],
            [6., 4.]])
    """
    value, chosen = operand(a, "take"), as_integers(indices, "take", "indices")
    if axis is None:
        value = reshape(value, shape=(int(np.prod(shape_of(value))),))
        axis = 0
    shape = shape_of(value)
    axis = normalize_axis(axis, len(shape), "take")
    chosen = _inside_by_mode(chosen, shape[axis], mode, "take")
    try:
        return wrap(gather(value, chosen, axis=axis, unique=False))
    except (IndexError, ValueError) as error:
        raise explain_index(shape, (*(slice(None),) * axis, chosen), error) from None


@answering
def take_along_axis(arr: ArrayLike, indices: ArrayLike, axis: SupportsIndex | None = -1) -> Tensor:
    """The elements at positions along an axis that may differ along the other axes.

    Parameters
    ----------
    arr : array_like
    indices : array_like of integers
        An array with as many axes as ``arr``, such as the result of ``argsort``; the other axes
        broadcast.
    axis : int, optional
        None means along all elements as one axis.

    Returns
    -------
    Tensor

    Raises
    ------
    AxisError
        A position or the axis is out of bounds.
    ShapeError
        The numbers of axes differ.

    Examples
    --------
    >>> take_along_axis([[3.0, 1.0], [2.0, 4.0]], [[1], [0]], axis=1)
    Tensor([[1.],
            [2.]])
    """
    value, chosen = (
        operand(arr, "take_along_axis"),
        as_integers(indices, "take_along_axis", "indices"),
    )
    value, axis = _raveled("take_along_axis", value, chosen, axis)
    try:
        return wrap(_take_along(value, chosen, axis))
    except (IndexError, ValueError) as error:
        key = (slice(None),) * axis + (chosen,)
        raise explain_index(shape_of(value), key, error) from None


@answering
def put_along_axis(
    arr: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: SupportsIndex | None
) -> Tensor:
    """Return a new tensor with the elements at positions along an axis replaced.

    NumPy's function of this name writes into its argument; this one returns the result.

    Parameters
    ----------
    arr : array_like
    indices : array_like of integers
        See ``take_along_axis``.
    values : array_like
        Values that broadcast to the shape of the positions; the last one for an element counts.
    axis : int or None

    Returns
    -------
    Tensor
        A tensor of the shape of ``arr``, or 1-d for ``axis=None``.

    Examples
    --------
    >>> put_along_axis([[3.0, 1.0], [2.0, 4.0]], [[1], [0]], 0.0, axis=1)
    Tensor([[3., 0.],
            [0., 4.]])
    """
    value, chosen = (
        operand(arr, "put_along_axis"),
        as_integers(indices, "put_along_axis", "indices"),
    )
    value, axis = _raveled("put_along_axis", value, chosen, axis)
    key: list[Any] = list(np.ix_(*[np.arange(n) for n in shape_of(value)]))
    key[axis] = chosen
    return at(wrap(value))[tuple(key)].set(values)


def _raveled(
    operation: str, x: Value, indices: Value, axis: SupportsIndex | None
) -> tuple[Value, int]:
    if axis is None:
        x = reshape(x, shape=(int(np.prod(shape_of(x))),))
        axis = 0
    if len(shape_of(indices)) != len(shape_of(x)):
        raise ShapeError(
            f"{operation}: the positions, of the shape {shape_of(indices)}, need as many axes as"
            f" the array, whose shape is {shape_of(x)}."
        )
    return x, normalize_axis(axis, len(shape_of(x)), operation)


@answering
def choose(
    a: ArrayLike, choices: Sequence[ArrayLike], *, mode: Literal["raise", "wrap", "clip"] = "raise"
) -> Tensor:
    """Choose between several arrays: at each place an integer names the array.

    Parameters
    ----------
    a : array_like of integers
        Integers that broadcast with the choices; they may be traced.
    choices : sequence of array_like, or array_like
        A sequence of arrays, or an array of them along axis 0. Their dtypes are promoted.
    mode : {"raise", "wrap", "clip"}
        How to treat integers out of bounds: an error, modulo the number of choices, or the nearest
        choice.

    Returns
    -------
    Tensor
        In the shape to which ``a`` and the choices broadcast.

    Raises
    ------
    AxisError
        An integer names no choice.

    Examples
    --------
    >>> choose([0, 1, 0], [[1.0, 2.0, 3.0], 10.0])
    Tensor([ 1., 10.,  3.])
    """
    options = choice(mode, ("raise", "wrap", "clip"), "choose", "mode")
    chosen = operand(a, "choose")
    chosen = as_integers(
        chosen if dtype_of(chosen).kind != "b" else cast(chosen, dtype=np.dtype(np.intp)),
        "choose",
        "a",
    )
    if isinstance(choices, (Tensor, np.ndarray)):
        values: list[Value] = list(wrap(operand(choices, "choose")))
    else:
        values = [operand(x, "choose") for x in sequence(choices, "choose", "choices")]
    if not values:
        raise ShapeError("choose: there is nothing to choose from.")
    dtype = np.result_type(*map(dtype_of, values))
    shape = broadcast_shapes("choose", shape_of(chosen), *map(shape_of, values))
    count = len(values)
    if options == "raise":
        raw = concrete(chosen)
        if type(raw) in RAW and np.any((raw < 0) | (raw >= count)):
            raise AxisError(f"choose: the integers have to be from 0 to {count - 1}.")
    spread = [cast(broadcast_to(x, shape=shape), dtype=dtype) for x in values]
    table = stack(*spread, axis=0)
    places = reshape(broadcast_to(chosen, shape=shape), shape=(1, *shape))
    places = cast(places, dtype=np.dtype(np.intp))
    if options == "wrap":
        places = places % count
    elif options == "clip":
        places = minimum(maximum(places, 0), count - 1)
    return wrap(reshape(_take_along(table, places, 0), shape=shape))


def as_integers(x: ArrayLike, operation: str, argument: str) -> Value:
    value = operand(x, operation)
    if not isinstance(x, (Tensor, np.ndarray)) and not np.size(value):
        value = np.asarray(value, np.intp)  # an empty list is of floats
    if dtype_of(value).kind not in "iu":
        raise DtypeError(
            f"{operation}: {argument} has to be of integers, not of {dtype_of(value)}."
        )
    return value


@answering
def compress(condition: ArrayLike, a: ArrayLike, axis: SupportsIndex | None = None) -> Tensor:
    """Select slices along an axis by a condition, a 1-d concrete mask.

    Examples
    --------
    >>> compress([True, False, True], [1.0, 2.0, 3.0])
    Tensor([1., 3.])
    """
    mask = revealed(condition, "compress", "condition") != 0
    if mask.ndim != 1:
        raise ShapeError(f"compress: the condition has to be 1-d, not of shape {mask.shape}.")
    return take(a, np.flatnonzero(mask), axis)


def extract(condition: ArrayLike, arr: ArrayLike) -> Tensor:
    """Select elements by a condition, a concrete mask; the result is 1-d.

    Examples
    --------
    >>> extract([[True, False], [False, True]], [[1.0, 2.0], [3.0, 4.0]])
    Tensor([1., 4.])
    """
    return take(arr, np.flatnonzero(revealed(condition, "extract", "condition")))


# ------------------------------------------------------------------------------------ positions


def revealed(x: ArrayLike, operation: str, argument: str = "x") -> np.ndarray[Any, Any]:
    """The array behind a value on which the shape of a result depends.

    Raises
    ------
    TracerError
        The value is not concrete.
    """
    value = operand(x, operation)
    try:
        while type(value) not in RAW:
            value = value._reveal(operation, exact=False)
    except TracerError as error:
        raise TracerError(
            f"{operation}: {argument} has to be concrete, since the shape of the result depends on"
            f" its elements. {reason(error, operation)}"
        ) from None
    return np.asarray(value)


def nonzero(a: ArrayLike) -> tuple[Tensor, ...]:
    """The positions of the elements that are not zero, a tensor for each axis.

    The argument has to be concrete; inside ``vmap``, use the three-argument ``where``.

    Examples
    --------
    >>> nonzero([0.0, 2.0, 3.0])
    (Tensor([1, 2]),)
    """
    value = operand(a, "nonzero")
    array = revealed(value, "nonzero")
    if not array.ndim:
        raise ShapeError("nonzero: the array has no axes (0-d) to count positions along.")
    return tuple([wrap(beside(positions, value)) for positions in np.nonzero(array)])


def argwhere(a: ArrayLike) -> Tensor:
    """The positions of the elements that are not zero, a row for each; see ``nonzero``.

    Examples
    --------
    >>> argwhere([[0.0, 2.0], [3.0, 0.0]])
    Tensor([[0, 1],
            [1, 0]])
    """
    value = operand(a, "argwhere")
    return wrap(beside(np.argwhere(revealed(value, "argwhere")), value))


def flatnonzero(a: ArrayLike) -> Tensor:
    """The positions of the elements that are not zero, counted row by row; see ``nonzero``.

    Examples
    --------
    >>> flatnonzero([[0.0, 2.0], [3.0, 0.0]])
    Tensor([1, 2])
    """
    value = operand(a, "flatnonzero")
    return wrap(beside(np.flatnonzero(revealed(value, "flatnonzero")), value))


@answering
def unravel_index(indices: ArrayLike, shape: ShapeLike) -> tuple[Tensor, ...]:
    """Convert positions, counted row by row, to positions along each axis of a shape.

    Raises
    ------
    AxisError
        A position is out of bounds. (Traced ones are not checked.)

    Examples
    --------
    >>> unravel_index([1, 5], (2, 3))
    (Tensor([0, 1]), Tensor([1, 2]))
    """
    sizes = shape_argument(shape, "unravel_index")
    flat = as_integers(indices, "unravel_index", "indices")
    count = prod(sizes)
    raw = concrete(flat)
    if type(raw) in RAW and np.any((raw < 0) | (raw >= count)):
        raise AxisError(
            f"unravel_index: positions have to be from 0 to {count - 1}, for the shape {sizes}."
        )
    quotient = wrap(cast(flat, dtype=np.dtype(np.intp)))
    positions: list[Tensor] = []
    for size in sizes[::-1]:
        quotient, place = divmod(quotient, size)
        positions.append(place)
    return tuple(positions[::-1])


def _inside_by_mode(indices: Value, size: int, mode: str, operation: str) -> Value:
    """Wrap or clip positions that are out of bounds, if the mode says so."""
    choice(mode, ("raise", "wrap", "clip"), operation, "mode")
    if mode == "raise":
        return indices
    if dtype_of(indices) != np.uint64:  # the size may be beyond the dtype
        indices = cast(indices, dtype=np.dtype(np.int64))
    return indices % size if mode == "wrap" else minimum(maximum(indices, 0), max(size - 1, 0))


def ravel_multi_index(
    multi_index: ArrayLike, dims: ShapeLike, mode: str | Sequence[str] = "raise", order: str = "C"
) -> Tensor:
    """Convert positions along each axis of a shape to positions counted row by row.

    Parameters
    ----------
    multi_index : sequence of array_like
        One for each axis.
    dims : tuple of int
        The shape.
    mode : {"raise", "wrap", "clip"}, or a sequence of these
        How to treat positions that are out of bounds, along all axes or along each: an error,
        modulo the size, or the nearest end.
    order : {"C", "F"}
        "F" means counted column by column.

    Returns
    -------
    Tensor of int64

    Examples
    --------
    >>> ravel_multi_index(([0, 1], [1, 2]), (2, 3))
    Tensor([1, 5])
    """
    sizes = integers(dims, "ravel_multi_index", "dims")
    several = sequence(multi_index, "ravel_multi_index", "multi_index")
    parts = [as_integers(positions, "ravel_multi_index", "multi_index") for positions in several]
    if len(parts) != len(sizes):
        raise ShapeError(
            f"ravel_multi_index: {len(parts)} index arrays do not fit {len(sizes)} sizes."
        )
    modes = (
        [mode] * len(sizes)
        if isinstance(mode, str)
        else sequence(mode, "ravel_multi_index", "mode")
    )
    if len(modes) != len(sizes):
        raise ShapeError(f"ravel_multi_index: {len(modes)} modes do not fit {len(sizes)} sizes.")
    parts = [
        _inside_by_mode(*entry, "ravel_multi_index")
        for entry in zip(parts, sizes, modes, strict=True)
    ]
    known = [concrete(positions) for positions in parts]
    if any(type(positions) in RAW and np.any(positions < 0) for positions in known):
        raise AxisError("ravel_multi_index: positions must not be negative, unless mode wraps.")
    if choice(order, ("C", "F"), "ravel_multi_index", "order") == "F":
        parts, sizes = parts[::-1], sizes[::-1]
    try:
        return wrap(_s.flat_places(*parts, shape=sizes))
    except (IndexError, ValueError) as error:
        raise explain_index(sizes, tuple(parts), error) from None


def ix_(*args: ArrayLike) -> tuple[Tensor, ...]:
    """One-dimensional index arrays, shaped so that together they choose a block.

    Masks have to be concrete.

    Examples
    --------
    >>> import funcgrad as fg
    >>> fg.tensor([[1.0, 2.0], [3.0, 4.0]])[ix_([1, 0], [1])]
    Tensor([[4.],
            [2.]])
    """
    result: list[Tensor] = []
    for place, arg in enumerate(args):
        value = operand(arg, "ix_")
        if dtype_of(value).kind == "b":
            value = np.flatnonzero(revealed(value, "ix_", f"argument {place}"))
        value = as_integers(value, "ix_", f"argument {place}")
        if len(shape_of(value)) != 1:
            raise ShapeError(f"ix_: argument {place} has to be 1-d, not {shape_of(value)}.")
        shape = (1,) * place + shape_of(value) + (1,) * (len(args) - place - 1)
        result.append(wrap(reshape(value, shape=shape)))
    return tuple(result)
