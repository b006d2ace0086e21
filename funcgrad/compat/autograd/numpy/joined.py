"""``np.r_`` and ``np.c_``, which join what stands in their brackets."""

from __future__ import annotations

from typing import Any

import numpy as np

import funcgrad.numpy as fnp
from funcgrad.compat.autograd.arrays import holds_tensor
from funcgrad.errors import ArgumentError


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
