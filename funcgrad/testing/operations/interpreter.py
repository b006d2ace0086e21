"""A small interpreter of structures: it moves and folds single elements, as declared.

Arrays are lists of NumPy scalars in C order, with their shapes. It does not use ``evaluate``, so it
shows that the declaration suffices for a compiler.

>>> from funcgrad._core.structure.folds import SUM
>>> folded(SUM, np.dtype(int), ([1, 2, 3, 4],), (2, 2), (1,))
[np.int64(3), np.int64(7)]
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from funcgrad._core import intrinsics
from funcgrad._core.specs import Shape
from funcgrad._core.structure.folds import Fold
from funcgrad._core.structure.index_maps import Places, dense_strides
from funcgrad._core.trace import Raw
from funcgrad.errors import CheckError


def folded(
    fold: Fold, dtype: np.dtype[Any], operands: Sequence[list[Raw]], shape: Shape, axes: Shape
) -> list[Raw]:
    """Fold elements along axes, starting from the identity if there is one.

    Parameters
    ----------
    fold : Fold
    dtype : dtype
        Of the result.
    operands : sequence of list
        The elements of operands of one shape.
    shape : tuple of int
    axes : tuple of int
    """
    states: dict[Shape, Any] = {}
    across = [range(n) for axis, n in enumerate(shape) if axis not in axes]
    for place in product(*across):
        identity = fold.identity
        states[place] = None if identity is None else intrinsics.astype(identity, dtype)[()]
    along = [shape[axis] for axis in axes]
    for number, index in enumerate(product(*map(range, shape))):
        place = tuple([k for axis, k in enumerate(index) if axis not in axes])
        position = _position([index[axis] for axis in axes], along)
        elements = [operand[number] for operand in operands]
        state = fold.of(intrinsics, dtype, np.intp(position), *elements)
        before = states[place]
        states[place] = state if before is None else fold.combine(intrinsics, before, state)
    if any(state is None for state in states.values()):
        raise CheckError("no elements are folded, and the fold has no identity")
    return [fold.element(intrinsics, state) for state in states.values()]


def _position(index: Sequence[int], sizes: Sequence[int]) -> int:
    return sum([k * step for k, step in zip(index, dense_strides(sizes), strict=True)])


def scanned(
    fold: Fold,
    dtype: np.dtype[Any],
    operands: Sequence[list[Raw]],
    shape: Shape,
    axis: int,
    reverse: bool,
) -> list[Raw]:
    """Fold the elements up to each place along an axis; see ``folded``."""
    out: list[Raw] = [None] * prod(shape)
    for lane in _lanes(shape, axis):
        state = None
        for position, number in enumerate(lane[::-1] if reverse else lane):
            elements = [operand[number] for operand in operands]
            here = fold.of(intrinsics, dtype, np.intp(position), *elements)
            state = here if state is None else fold.combine(intrinsics, state, here)
            out[number] = fold.element(intrinsics, state)
    return out


def _lanes(shape: Shape, axis: int) -> Iterator[list[int]]:
    """Yield the flat indices of the elements along an axis, for each position across it."""
    numbers = np.arange(prod(shape)).reshape(shape)
    for lane in np.moveaxis(numbers, axis, -1).reshape(-1, shape[axis] or 1):
        yield lane.tolist()


def gathered(places: Places, operands: Sequence[list[Raw]], zero: Raw) -> list[Raw]:
    """Read elements of the first operand at places; see ``Places``."""
    elements = [places.at(k, _reader(operands)) for k in product(*map(range, places.shape))]
    return [zero if element is None else operands[0][element] for element in elements]


def scattered(
    places: Places,
    fold: Fold | None,
    dtype: np.dtype[Any],
    base: Sequence[Raw],
    updates: Sequence[Raw],
    operands: Sequence[list[Raw]],
) -> list[Raw]:
    """Write updates over the elements of a base, or fold them with the old elements."""
    out = [dtype.type(element) for element in base]
    for update, k in zip(updates, product(*map(range, places.shape)), strict=True):
        element = places.at(k, _reader(operands))
        if element is None:
            continue
        if fold is None:
            out[element] = dtype.type(update)
        else:
            state = fold.of(intrinsics, dtype, element, update)
            out[element] = fold.combine(intrinsics, out[element], state)
    return out


def drawn(
    block: Callable[..., Sequence[Raw]],
    params: Mapping[str, Hashable],
    shape: Shape,
    key: Raw,
    *numbers: Raw,
) -> Raw:
    """Make the random words of a shape; see ``Random``."""
    keys = np.asarray(key)
    if numbers:
        chosen = np.broadcast_to(np.asarray(numbers[0]).astype(np.uint64), shape[:-1])
        keys, count = np.broadcast_to(keys, (*shape[:-1], 2)), shape[-1]
    else:
        count = prod(shape[keys.ndim - 1 :])
        chosen = np.arange(count, dtype=np.uint64)
        keys = keys[..., None, :]
    with np.errstate(over="ignore"):  # words wrap around
        words = block(intrinsics, keys[..., 0], keys[..., 1], chosen, **params)
    stacked = np.stack(np.broadcast_arrays(*words), -1)
    if not numbers:
        stacked = stacked.reshape(*stacked.shape[:-2], -1)
    return stacked[..., :count].reshape(shape)


def _reader(operands: Sequence[list[Raw]]) -> Callable[[int, int], int]:
    return lambda operand, place: int(operands[operand][place])
