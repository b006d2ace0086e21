"""Exponentials, logarithms, roots, trigonometry.

>>> exp(0.0)
np.float64(1.0)

Factors are written in the output where that costs no accuracy. Complex inverse functions use it on
purpose: it knows which side of a branch cut the argument lies on, which ``1 - z`` forgets, since
``1 - 0j`` has a positive zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import factorial, log2, pi
from math import log as _log
from typing import Any

import numpy as np

from funcgrad.primitive import Primitive, Sample
from funcgrad.primitives.elementwise import (
    combined,
    complexes,
    edges,
    elementwise,
    reals,
    reciprocal,
)
from funcgrad.primitives.logic import isinf
from funcgrad.primitives.selection import where
from funcgrad.shape import dtype_of
from funcgrad.trace import Value, bind1

__all__ = [
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "cbrt",
    "cos",
    "cosh",
    "deg2rad",
    "exp",
    "exp2",
    "expm1",
    "hypot",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logaddexp2",
    "rad2deg",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
]
