"""``np.r_`` and ``np.c_``, which join what stands in their brackets; ``make_diagonal``."""

from __future__ import annotations

from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad.compat.autograd.arrays import holds_tensor, plain
from funcgrad.errors import ArgumentError
from funcgrad.tensor.tensor import ArrayLike


def _items(key: object, name: str) -> list[Any]:
    items = []
    for item in key if isinstance(key, tuple) else (key,):
        if isinstance(item, str):
            raise ArgumentError(
                f"np.{name}: a text in the brackets is not available for traced values. Write"
                " np.concatenate(parts, axis)."
            )
        items.append(np.r_[item] if isinstance(item, slice) else item)
    return items


class Rows:
    """``np.r_[x, y, 1:3]``: arrays and numbers joined along the first axis."""

    def __getitem__(self, key: object) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        if not any(map(holds_tensor, items)):
            return np.r_[key]
        return fnp.concatenate([fnp.atleast_1d(fnp.asarray(item)) for item in _items(key, "r_")])


class Columns:
    """``np.c_[x, y]``: arrays joined along the last axis, vectors as columns."""

    def __getitem__(self, key: object) -> Any:
        items = key if isinstance(key, tuple) else (key,)
        if not any(map(holds_tensor, items)):
            return np.c_[key]
        arrays = [fnp.atleast_1d(fnp.asarray(item)) for item in _items(key, "c_")]
        columns = [array[:, None] if array.ndim == 1 else array for array in arrays]
        return fnp.concatenate(columns, axis=-1)


def make_diagonal(
    D: ArrayLike,
    offset: int = 0,
    axis1: int = -1,
    axis2: int = -2,
) -> Any:
    """Matrices with the vectors along the last axis for their diagonals.

    Raises
    ------
    ArgumentError
        The options are others than ``offset=0, axis1=-1, axis2=-2``, which alone are available, as
        in autograd.

    Examples
    --------
    >>> make_diagonal(np.array([1.0, 2.0]))
    array([[1., 0.],
           [0., 2.]])
    """
    if (offset, axis1, axis2) != (0, -1, -2):
        raise ArgumentError(
            "make_diagonal: the options have to be offset=0, axis1=-1, axis2=-2, got"
            f" {offset}, {axis1}, {axis2}."
        )
    vectors = fnp.asarray(D)
    return plain(vectors[..., None] * fnp.eye(vectors.shape[-1], dtype=vectors.dtype))
