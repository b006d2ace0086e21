"""Indexing."""

from __future__ import annotations

from typing import Any

import numpy as np

from funcgrad.primitive import Linear, Primitive
from funcgrad.shape import Spec, dtype_of, shape_of
from funcgrad.trace import Value

__all__ = ["index"]


def _view(x: Any, key: Any) -> Any:
    return x[key]


def _place(x: Any, key: Any, shape: Any) -> Any:
    out = np.zeros(shape, dtype_of(x))
    out[key] = x
    return out


view = Primitive(
    "view",
    _view,
    lambda x, key: Spec(np.empty(x.shape)[key].shape, x.dtype),
    Linear((lambda ct, x, key: place(ct, key=key, shape=shape_of(x)),), structural=True, gaps=True),
    lambda p, size, args, batched, params: p(args[0], key=(slice(None), *params["key"])),
)
place = Primitive(
    "place",
    _place,
    lambda x, key, shape: Spec(shape, x.dtype),
    Linear((lambda ct, x, key, shape: view(ct, key=key),), structural=True),
    lambda p, size, args, batched, params: p(
        args[0], key=(slice(None), *params["key"]), shape=(size, *params["shape"])
    ),
)


def index(x: Value, key: Any) -> Value:
    return view(x, key=key if type(key) is tuple else (key,))
