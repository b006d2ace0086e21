"""A reduction: the sum of squares."""

from typing import Any

import numpy as np

import funcgrad as fg
from funcgrad import extend

sum_of_squares = extend.reduction(
    "sum_of_squares",
    lambda x, axis, keepdims: np.add.reduce(np.square(x), axis, keepdims=keepdims),
    factor=lambda _, x, **_params: 2 * x,
    samples=extend.numbers(imaginary=False),
    fold=extend.Fold(
        lambda m, x, y: x + y,
        0,
        start=lambda m, dtype, place, x: m.square(m.astype(x, dtype)),
        ufunc=np.add,
    ),
)


def energy(x: Any, axis: tuple[int, ...] = (0,)) -> fg.Tensor:
    """The operation as users call it."""
    return extend.apply(sum_of_squares, x, axis=axis, keepdims=False)
