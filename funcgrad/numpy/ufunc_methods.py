"""The methods of ufuncs, such as ``np.subtract.accumulate``, in terms of the function itself.

They process an axis element by element, as NumPy does, so the function need not be associative;
cumulative extrema need only O(log n) steps. In each step, equal elements share the gradient.

>>> import funcgrad.numpy as fnp
>>> accumulate(np.subtract, fnp.subtract, [5.0, 1.0, 2.0])
Tensor([5., 4., 2.])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._core.specs import AxisLike, normalize_axes, normalize_axis
from funcgrad._core.users_values import operand
from funcgrad.errors import AxisError, DtypeError, ShapeError
from funcgrad.numpy.creation import asarray, astype, full
from funcgrad.numpy.indexing import revealed
from funcgrad.numpy.joining import concatenate, stack
from funcgrad.numpy.manipulation import moveaxis
from funcgrad.tensor.tensor import ArrayLike, Tensor

Binary = Callable[..., Tensor]

_EXTREMA: Final = frozenset({np.maximum, np.minimum, np.fmax, np.fmin})
_ASSOCIATIVE: Final = frozenset(
    (
        *(*_EXTREMA, np.add, np.multiply, np.logaddexp, np.logaddexp2, np.hypot, np.gcd, np.lcm),
        *(np.logical_and, np.logical_or, np.bitwise_and, np.bitwise_or, np.bitwise_xor),
    )
)


def outer(ufunc: np.ufunc, function: Binary, a: ArrayLike, b: ArrayLike) -> Tensor:
    """Apply the function to all pairs of elements of two arrays.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> outer(np.subtract, fnp.subtract, [1.0, 2.0], [0.0, 1.0])
    Tensor([[1., 0.],
            [2., 1.]])
    """
    first, second = (asarray(operand(x, f"{ufunc.__name__}.outer")) for x in (a, b))
    return function(first.reshape(first.shape + (1,) * second.ndim), second)


def accumulate(ufunc: np.ufunc, function: Binary, array: ArrayLike, axis: int = 0) -> Tensor:
    """Apply the function to the result so far and the next element; return all results.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> accumulate(np.maximum, fnp.maximum, [1.0, 3.0, 2.0])
    Tensor([1., 3., 3.])
    """
    name = f"{ufunc.__name__}.accumulate"
    x = asarray(operand(array, name))
    along = normalize_axis(axis, x.ndim, name)
    rows = moveaxis(_closed(function, x, name), along, 0)
    if ufunc in _EXTREMA:
        step = 1
        while step < rows.shape[0]:
            rows = concatenate((rows[:step], function(rows[:-step], rows[step:])))
            step *= 2
    elif rows.shape[0]:
        accumulated = [rows[0]]
        for row in rows[1:]:
            accumulated.append(function(accumulated[-1], row))
        rows = stack(accumulated)
    return moveaxis(rows, 0, along)


def reduce(
    ufunc: np.ufunc,
    function: Binary,
    array: ArrayLike,
    axis: AxisLike = 0,
    *,
    keepdims: bool = False,
) -> Tensor:
    """Apply the function to the result so far and the next element; return the last result.

    Raises
    ------
    ShapeError
        The array is empty and the function has no identity; or several axes are given, and the
        result depends on their order.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> reduce(np.subtract, fnp.subtract, [5.0, 1.0, 2.0])
    Tensor(2.0)
    """
    name = f"{ufunc.__name__}.reduce"
    x = asarray(operand(array, name))
    axes = normalize_axes(axis, x.ndim, name)
    if len(axes) > 1 and ufunc not in _ASSOCIATIVE:
        raise ShapeError(f"{name}: the order of elements matters, so only one axis is allowed.")
    others = [n for k, n in enumerate(x.shape) if k not in axes]
    front = moveaxis(_closed(function, x, name), axes, range(len(axes)))
    rows = front.reshape((int(np.prod([x.shape[k] for k in axes])), *others))
    if ufunc.identity is not None:  # NumPy starts with it: hypot of one element is its magnitude
        start = full(tuple(others), ufunc.identity, rows.dtype)
        folded = _folded(function, [start, *rows])
    elif rows.shape[0]:
        folded = _folded(function, list(rows))
    else:
        raise ShapeError(f"{name}: the array is empty, and the function has no identity.")
    shape = [1 if k in axes else n for k, n in enumerate(x.shape)]
    return folded.reshape(shape) if keepdims else folded


def reduceat(
    ufunc: np.ufunc, function: Binary, array: ArrayLike, indices: ArrayLike, axis: int = 0
) -> Tensor:
    """``reduce`` the elements from each index up to the next one.

    Parameters
    ----------
    indices : array_like of integers
        Concrete indices. If the next index is not greater, the result is the element itself.

    Examples
    --------
    >>> import funcgrad.numpy as fnp
    >>> reduceat(np.add, fnp.add, [1.0, 2.0, 3.0, 4.0], [0, 2])
    Tensor([3., 7.])
    """
    name = f"{ufunc.__name__}.reduceat"
    x = asarray(operand(array, name))
    if ufunc in (np.add, np.multiply):  # NumPy sums small integers in its default size
        x = astype(x, ufunc.reduceat(np.ones(1, x.dtype), [0]).dtype)
    along = normalize_axis(axis, x.ndim, name)
    places = revealed(indices, name, "indices")
    rows = moveaxis(x, along, 0)
    count = rows.shape[0]
    if places.ndim != 1 or np.any((places < 0) | (places >= count)):
        raise AxisError(f"{name}: indices are 1-d, from 0 to {count - 1}, not {places.tolist()}.")
    ends = [*places[1:].tolist(), count]
    closed = _closed(function, rows, name)
    folds = [
        _folded(function, list(closed[start : max(end, start + 1)]))
        for start, end in zip(places.tolist(), ends, strict=True)
    ]
    return moveaxis(stack(folds) if folds else closed[:0], 0, along)


def _folded(function: Binary, rows: list[Tensor]) -> Tensor:
    carry = rows[0]
    for row in rows[1:]:
        carry = function(carry, row)
    return carry


def _closed(function: Binary, x: Tensor, name: str) -> Tensor:
    """Convert elements to the dtype of the function's results."""
    sample: Any = np.ones(1, x.dtype)
    dtype = function(sample, sample).dtype
    if dtype != x.dtype:
        again = function(np.ones(1, dtype), np.ones(1, dtype)).dtype
        if dtype.kind == "b" or again != dtype:
            raise DtypeError(
                f"{name}: the function turns {x.dtype} into {dtype}, and that into {again}."
            )
    return astype(x, dtype)


METHODS: Final[Mapping[str, Callable[..., Tensor]]] = MappingProxyType(
    {"accumulate": accumulate, "outer": outer, "reduce": reduce, "reduceat": reduceat}
)
"""The methods by NumPy's names."""
