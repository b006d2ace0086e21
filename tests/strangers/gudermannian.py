"""A unary function: gd x = 2 arctan(tanh(x / 2)), whose derivative is cos(gd x)."""

from typing import Any

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from funcgrad import extend

gudermannian = extend.elementwise(
    "gudermannian",
    formula=lambda m, x: 2 * m.arctan(m.tanh(x / 2)),
    partials=(lambda y, _: fnp.cos(y),),
    samples=extend.combined(extend.reals(-3, 3), extend.edges(np.inf, -np.inf, np.nan, 0.0)),
    traits=extend.TRANSCENDENTAL,
)

in_operators = extend.elementwise(
    "in_operators",
    lambda x: x / (1 + abs(x)),  # Python's numbers make Python's
    partials=(lambda _, x: 1 / (1 + abs(x)) ** 2,),
    samples=extend.reals(-3, 3),
)


def gd(x: Any) -> fg.Tensor:
    """The operation as users call it."""
    return extend.apply(gudermannian, x)
