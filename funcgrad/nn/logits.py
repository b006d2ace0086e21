"""What softmax and cross-entropy share: logits relative to their greatest.

>>> relative_logits([1.0, 3.0], -1, "softmax")
(Tensor([-2.,  0.]), (0,))
"""

from __future__ import annotations

from typing import Any

import numpy as np

from funcgrad.border import ArrayLike, operand
from funcgrad.errors import DtypeError, ShapeError
from funcgrad.primitives.activations import shift
from funcgrad.primitives.reduction import reduce_max
from funcgrad.primitives.structural import cast
from funcgrad.shape import AxisLike, dtype_of, normalize_axes
from funcgrad.tensor import Tensor, apply, apply2, wrap
from funcgrad.transforms.stop import stop_gradient

__all__ = ["real_tensor", "relative_logits"]


def relative_logits(
    logits: ArrayLike, axis: AxisLike, operation: str
) -> tuple[Tensor, tuple[int, ...]]:
    """Logits minus the greatest along the axes, and these axes, not negative.

    The greatest is a constant to derivatives, as it cancels in every function of probabilities.

    Raises
    ------
    ShapeError
        There are no logits along an axis.
    """
    own = real_tensor(logits, operation)
    axes = normalize_axes(axis, own.ndim, operation)
    if 0 in [own.shape[a] for a in axes]:
        raise ShapeError(f"{operation}: an array of shape {own.shape} has no logits.")
    greatest: Any = apply(reduce_max, stop_gradient(own), axis=axes, keepdims=True)
    return apply2(shift, own, greatest), axes


def real_tensor(x: ArrayLike, operation: str) -> Tensor:
    """A real floating-point tensor; integers become float64.

    Raises
    ------
    DtypeError
        The argument is complex.
    """
    value = operand(x, operation)
    kind = dtype_of(value).kind
    if kind == "c":
        raise DtypeError(f"{operation}: takes real arguments, got {dtype_of(value)}.")
    if kind != "f" or type(value) is float:
        value = cast(value, dtype=np.dtype(np.float64))
    result: Tensor = wrap(value)
    return result
