"""Hypothesis strategies for tensors, trees, matrices with a property, and functions.

They shrink towards simple *smooth* points, 0.5, 1.25, 1.75, … in order. A test of derivatives that
shrinks to 0 would end on the kinks of abs, relu, max and norm.

>>> from hypothesis import find
>>> from funcgrad.testing import strategies as st
>>> find(st.tensors(shape=(2,)), lambda x: True)
Tensor([0.5 , 1.25])

``points`` draws arguments at which no operation of a function is at a kink:

>>> import funcgrad.numpy as fnp
>>> steep = st.points(lambda x: fnp.max(abs(x)), st.Like((3,)))
>>> find(steep, lambda args: args[0][0] < 0)[0] < 0
Tensor([ True, False, False])

Hypothesis is imported when a strategy is made. Integers, shapes and indices are in
``hypothesis.strategies`` and ``hypothesis.extra.numpy``; all strategies can be combined.
"""

from typing import TYPE_CHECKING

from funcgrad._hints.lookup import missing_from as _missing_from
from funcgrad.testing.point_strategy import Like, points
from funcgrad.testing.strategies.arrays import (
    dtypes,
    keys,
    like,
    positive,
    probabilities,
    pytrees,
    sorted,
    tensors,
)
from funcgrad.testing.strategies.drawn_functions import functions
from funcgrad.testing.strategies.drawn_matrices import clustered_spectrum, low_rank, orthogonal, spd

__all__ = [
    "Like",
    "clustered_spectrum",
    "dtypes",
    "functions",
    "keys",
    "like",
    "low_rank",
    "orthogonal",
    "points",
    "positive",
    "probabilities",
    "pytrees",
    "sorted",
    "spd",
    "tensors",
]

if not TYPE_CHECKING:  # type checkers know the names
    __getattr__ = _missing_from(__name__)
__dir__ = __all__.copy  # completion shows the public names, without the modules
