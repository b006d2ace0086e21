"""The material of forms: a choice among variants, and parts of matrices.

A *form* takes two arrays of one shape and returns one of that shape, so that forms apply to results
of any forms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._primitives import selection as chosen
from funcgrad._primitives.structural import cast_discrete, cast_inexact

Pick: TypeAlias = Callable[..., Any]
"""Chooses one of its arguments, and calls it if it is a function."""

Form: TypeAlias = Callable[[Any, Any, Any, Pick], Any]
"""``(operation, x, y, pick) -> array``; the operation is one of those that the rule is for."""

CONSTANTS: Final = (-1.0, 2.0, -2, 0.5, -4.0, 3.0, 0.1, -0.7, 0.0, -0.0, 1e300, 1e-40, np.inf, 6)
"""Factors and divisors; some are out of the range of narrow dtypes."""


def spread(x: Any, like: Any) -> Any:
    """An array broadcast to the shape of another."""
    return fnp.broadcast_to(x, like.shape)


def flat(x: Any) -> Any:
    """The elements of a matrix in a row."""
    return fnp.reshape(x, (-1,))


def full(value: Any, like: Any) -> Any:
    """A constant array, in the dtype of another."""
    return np.full(like.shape, value, like.dtype)


def one_of(pick: Pick) -> Any:
    """A factor or a divisor."""
    return pick(*CONSTANTS)


def truth(x: Any, y: Any, pick: Pick) -> Any:
    """A matrix of truth values."""
    return pick(
        lambda: x > y,
        lambda: x == y,
        lambda: fnp.logical_not(x > y),
        lambda: fnp.logical_not(y == x),
        lambda: np.arange(x.size).reshape(x.shape) % 2 == 0,
    )


def is_bool(x: Any) -> bool:
    return bool(x.dtype.kind == "b")


def as_matrix(value: Any, x: Any, y: Any) -> Any:
    """A value as an array of the wanted shape: truth values become a choice, others broadcast."""
    if is_bool(value) and not is_bool(x):
        value = fnp.where(value, x, y)
    return value if value.shape == x.shape else spread(value, x)


def is_unary(operation: Any) -> bool:
    """Whether an elementwise operation has one operand."""
    return len(next(iter(operation.samples())).args) == 1


def called(operation: Any, pick: Pick, *operands: Any) -> Any:
    """An elementwise operation on as many of the operands as it takes."""
    x, y = operands[:2]
    if operation is cast_inexact:
        return x.astype(pick(np.float16, np.float32, np.float64))
    if operation is cast_discrete:
        return x.astype(np.bool_)
    if operation is chosen.where:
        return operation(operands[2] if len(operands) > 2 else fnp.equal(x, x), x, y)
    return operation(x) if is_unary(operation) else operation(x, y)
