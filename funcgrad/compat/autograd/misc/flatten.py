"""Containers as vectors: ``flatten``.

>>> vector, unflatten = flatten({"b": np.array([2.0, 3.0]), "a": 1.0})
>>> vector, unflatten(vector)
(array([1., 2., 3.]), {'b': array([2., 3.]), 'a': np.float64(1.0)})
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.specs import shape_of
from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.compat.autograd.arrays import holds_tensor, plain
from funcgrad.errors import ShapeError, TreeError
from funcgrad.tensor.tensor import Tensor


def flatten(value: object) -> tuple[Any, Callable[[Any], Any]]:
    """Flatten nested tuples, lists and dicts of arrays and numbers to a vector.

    Parameters
    ----------
    value : container, array or number
        The keys of dicts are sorted.

    Returns
    -------
    vector : array of shape (n,)
    unflatten : callable
        From a vector of n numbers to containers like ``value``; both are differentiable.

    Raises
    ------
    TreeError
        A leaf is no array.
    ShapeError
        When ``unflatten`` is called: its argument has another shape.
    """
    leaves = list(_leaves(value))
    if any(map(holds_tensor, leaves)):
        vector = plain(fnp.concatenate([fnp.ravel(leaf) for leaf in leaves]))
    else:
        vector = np.concatenate([np.ravel(leaf) for leaf in leaves]) if leaves else np.array([])
    size = sum(int(np.size(leaf)) for leaf in leaves)

    def unflatten(flat: Any) -> Any:
        if shape_of(flat) != (size,):
            raise ShapeError(
                f"unflatten: expected shape {(size,)}, of the vector that flatten returned, got"
                f" {shape_of(flat)}."
            )
        return _built(value, flat, 0)[0]

    return vector, unflatten


def flatten_func(
    func: Callable[..., Any], example: object
) -> tuple[Callable[..., Any], Callable[[Any], Any], Any]:
    """Make a function from containers to containers one from vectors to vectors.

    Returns
    -------
    flat_func : callable
    unflatten : callable
    vector : array
        The example as a vector.

    Examples
    --------
    >>> flat, _, vector = flatten_func(lambda t: [t[1], t[0]], (1.0, 2.0))
    >>> flat(vector)
    array([2., 1.])
    """
    vector, unflatten = flatten(example)
    return lambda x, *args: flatten(func(unflatten(x), *args))[0], unflatten, vector


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)):
        for item in value:
            yield from _leaves(item)
    elif isinstance(value, dict):
        for key in sorted(value):
            yield from _leaves(value[key])
    else:
        if not isinstance(value, Tensor) and np.asarray(value).dtype.kind not in "biufc":
            raise TreeError(
                f"flatten: expected arrays, numbers and containers, got a"
                f" {type(value).__name__}: {value!r}."
            )
        yield value


def _built(value: Any, flat: Any, start: int) -> tuple[Any, int]:
    """A container like ``value`` of the numbers from a place on, and the place after them."""
    if isinstance(value, dict):
        filled = {}
        for key in sorted(value):
            filled[key], start = _built(value[key], flat, start)
        return {key: filled[key] for key in value}, start
    if isinstance(value, (tuple, list)):
        items = []
        for item in value:
            built, start = _built(item, flat, start)
            items.append(built)
        if hasattr(value, "_fields"):  # a named tuple
            return type(value)(*items), start
        return type(value)(items), start
    shape = shape_of(value)
    stop = start + int(np.prod(shape))
    return flat[start:stop].reshape(shape) if shape else flat[start], stop


if not TYPE_CHECKING:  # which know the names that there are
    __getattr__ = _missing_from(__name__)
