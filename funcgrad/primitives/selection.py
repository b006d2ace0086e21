"""Selections: each element of the result is an element of one of the arguments.

>>> where(True, 1.0, 2.0)
array(1.)
"""

from __future__ import annotations

import numpy as np

from funcgrad.primitives.elementwise import elementwise
from funcgrad.primitives.logic import logical_not

__all__ = ["where"]

where = elementwise(
    "where",
    np.where,
    partials=(None, lambda _, c, x, y: c, lambda _, c, x, y: logical_not(c)),
    selects=True,
)
