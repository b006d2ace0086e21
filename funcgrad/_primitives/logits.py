"""Logits relative to their maximum, the basis of softmax and cross-entropy.

>>> relative_logits(np.array([1.0, 3.0]), (0,), "softmax")
array([-2.,  0.])
>>> probabilities(np.array([0.0, np.inf]), (0,), "softmax")
array([0., 1.])
"""

from __future__ import annotations

import numpy as np

from funcgrad._core.specs import dtype_of, shape_of
from funcgrad._core.trace import Value, bind1, bind2
from funcgrad._core.users_values import ArrayLike, operand
from funcgrad._primitives.activations import constant_max, shift
from funcgrad._primitives.elementwise import log
from funcgrad._primitives.logic import equal
from funcgrad._primitives.reduction import reduce_sum
from funcgrad._primitives.selection import where
from funcgrad._primitives.structural import cast
from funcgrad._primitives.transcendental import exp
from funcgrad.errors import DtypeError, ShapeError


def relative_logits(logits: Value, axes: tuple[int, ...], operation: str) -> Value:
    """Logits minus the greatest along the axes; infinity minus infinity counts as 0.

    The maximum counts as constant, since it cancels in every function of probabilities.

    Raises
    ------
    ShapeError
        An axis has no logits.
    """
    shape = shape_of(logits)
    if 0 in shape and 0 in [shape[a] for a in axes]:
        raise ShapeError(f"{operation}: an array of shape {shape} has no logits.")
    return bind2(shift, logits, constant_max(logits, axis=axes, keepdims=True))


def log_total(relative: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    """The logarithm of the sum of exponentials of relative logits, which is at least 1."""
    return bind1(log, reduce_sum(bind1(exp, relative), axis=axes, keepdims=keepdims))


def probabilities(logits: Value, axes: tuple[int, ...], operation: str) -> Value:
    """The softmax: ``exp(logits)``, normalized to the sum 1 along the axes."""
    weights = bind1(exp, relative_logits(logits, axes, operation))
    return weights * (1 / reduce_sum(weights, axis=axes, keepdims=True))


def masked_probabilities(logits: Value, axis: int) -> Value:
    """Probabilities along an axis; all are 0 where all logits are minus infinity."""
    greatest = constant_max(logits, axis=(axis,), keepdims=True)
    is_empty = equal(greatest, -np.inf)
    weights = bind1(exp, bind2(shift, logits, where(is_empty, 0, greatest)))
    total = reduce_sum(weights, axis=(axis,), keepdims=True)
    return weights * (1 / where(is_empty, 1, total))


def log_probabilities(logits: Value, axes: tuple[int, ...], operation: str) -> Value:
    """Their logarithms, exact also where a probability is too small for a number."""
    relative = relative_logits(logits, axes, operation)
    return relative - log_total(relative, axes, keepdims=True)


def real_value(x: ArrayLike, operation: str) -> Value:
    """The value of a real floating-point argument; integers become float64.

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
        return cast(value, dtype=np.dtype(np.float64))
    return value
