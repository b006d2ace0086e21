"""The inverse of the logistic function, and logarithms of it and of its slope, in NumPy.

>>> logit(0.5)
np.float64(0.0)
"""

from __future__ import annotations

from typing import Final

import numpy as np

from funcgrad.primitive import Primitive
from funcgrad.primitives.activations import sigmoid
from funcgrad.primitives.elementwise import (
    combined,
    edges,
    elementwise,
    reals,
    reciprocal_of_positive,
)
from funcgrad.primitives.special import real_floating
from funcgrad.primitives.transcendental import tanh
from funcgrad.structure import TRANSCENDENTAL
from funcgrad.trace import Raw, bind1

__all__ = ["log_expit", "log_expit_slope", "logit"]


def _logit(p: Raw) -> Raw:
    p = real_floating(p, "logit")
    s = 2 * (p - p.dtype.type(0.5))
    with np.errstate(all="ignore"):
        far = np.log(p / (1 - p))
        near = np.log1p(s) - np.log1p(-s)
    return np.where((p < 0.3) | (p > 0.65), far, near)[()]


logit: Primitive = elementwise(
    "logit",
    _logit,
    # As a sum its own derivative has no factors that are 0 and infinite.
    partials=(
        lambda _, p: bind1(reciprocal_of_positive, p) + bind1(reciprocal_of_positive, 1 - p),
    ),
    samples=combined(reals(0.05, 0.95), edges(0.0, 1.0, -0.5, 1.5, np.inf, np.nan)),
    traits=TRANSCENDENTAL,
    owns=True,
)


_REALS_AND_FAR_TAILS: Final = combined(
    reals(-3, 3),
    edges(0.0, -30.0, 30.0, smooth=True),
    edges(-np.inf, -1000.0, 1000.0, np.inf, np.nan),
)


def _log_expit(x: Raw) -> Raw:
    x = real_floating(x, "log_expit")
    return (np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x))))[()]


log_expit: Primitive = elementwise(
    "log_expit",
    _log_expit,
    partials=(lambda _, x: bind1(sigmoid, -x),),
    samples=_REALS_AND_FAR_TAILS,
    traits=TRANSCENDENTAL,
    owns=True,
)


def _log_expit_slope(x: Raw) -> Raw:
    size = np.abs(real_floating(x, "log_expit_slope"))
    return (-size - 2 * np.log1p(np.exp(-size)))[()]


# The density of a logistic number. Of the sum of log_expit(x) and log_expit(-x) the derivative
# would be a difference, which near 0 has few digits.
log_expit_slope: Primitive = elementwise(
    "log_expit_slope",
    _log_expit_slope,
    partials=(lambda _, x: -bind1(tanh, x / 2),),
    samples=_REALS_AND_FAR_TAILS,
    traits=TRANSCENDENTAL,
    owns=True,
)
"""``log(expit(x) * expit(-x))``."""
