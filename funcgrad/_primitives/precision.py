"""Precision: the dtype in which a formula computes with operands that may be integers.

>>> import funcgrad._core.intrinsics as m
>>> floating(m, np.array([3], np.int8)), floating(m, 3.0)
(array([3.], dtype=float16), 3.0)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import reduce
from operator import add

import numpy as np

from funcgrad._core.specs import dtype_of
from funcgrad._core.structure.structures import Algebra
from funcgrad._core.trace import Value


def floating(m: Algebra, x: Value) -> Value:
    """Convert integers to the smallest floating dtype that holds them, as NumPy's functions do."""
    dtype = np.result_type(dtype_of(x), np.float16)
    return x if dtype == dtype_of(x) else m.astype(x, dtype)


def floating_pair(m: Algebra, x: Value, y: Value) -> tuple[Value, Value]:
    """Convert two values to the floating dtype in which NumPy's functions compute."""
    if dtype_of(x) == dtype_of(y) and dtype_of(x).kind == "f":
        return x, y
    dtype = np.result_type(dtype_of(x + y), np.float16)  # Python numbers take the other dtype
    return m.astype(x, dtype), m.astype(y, dtype)


def through_single(formula: Callable[..., Value]) -> Callable[..., Value]:
    """Let a formula compute half precision in float32, where its intermediate results overflow.

    The square of 256 overflows in half precision, but ``1 / (1 + 256**2)`` does not.

    >>> import funcgrad._core.intrinsics as m
    >>> slope = through_single(lambda m, x: 1.0 / (1.0 + m.square(x)))
    >>> slope(m, np.array([256.0], np.float16))
    array([1.526e-05], dtype=float16)
    """

    def wide(m: Algebra, *operands: Value, **params: Hashable) -> Value:
        if dtype_of(reduce(add, operands)) != np.float16:
            return formula(m, *operands, **params)
        single = [m.astype(x, np.dtype(np.float32)) for x in operands]
        return m.astype(formula(m, *single, **params), np.dtype(np.float16))

    return wide
