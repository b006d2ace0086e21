"""Contractions."""

from __future__ import annotations

from typing import Any

import numpy as np

from funcgrad.primitive import Linear, Primitive
from funcgrad.primitives.structural import transpose
from funcgrad.shape import Spec, shape_of
from funcgrad.trace import Value

__all__ = ["matmul"]


def _mT(x: Value) -> Value:
    n = len(shape_of(x))
    return x.T if type(x) is np.ndarray and n == 2 else transpose(x, axes=(*range(n - 2), n - 1, n - 2))


matmul = Primitive(
    "matmul",
    np.matmul,
    lambda x, y: Spec(x.shape[:-1] + y.shape[-1:], np.result_type(x.dtype, y.dtype)),
    Linear((lambda ct, x, y: matmul(ct, _mT(y)), lambda ct, x, y: matmul(_mT(x), ct))),
    lambda p, size, args, batched, params: p(*args),
)
