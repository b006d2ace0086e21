"""The inverse of the logistic function, and logarithms of it and of its slope.

>>> logit(0.5)
np.float64(0.0)
"""

from __future__ import annotations

from typing import Final

import numpy as np

from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import OWNS, TRANSCENDENTAL, Algebra
from funcgrad._core.trace import Value, bind1
from funcgrad._primitives.activations import sigmoid
from funcgrad._primitives.elementwise import (
    combined,
    edges,
    elementwise,
    reals,
    reciprocal_of_positive,
)
from funcgrad._primitives.kinks import between
from funcgrad._primitives.special import real_operand
from funcgrad._primitives.special_functions.scipys import evaluated_quietly
from funcgrad._primitives.transcendental import tanh


def _logit(m: Algebra, p: Value) -> Value:
    p = real_operand(m, p, "logit")
    s = 2 * (p - 0.5)
    far = m.log(m.divide(p, 1 - p))
    near = m.log1p(s) - m.log1p(-s)
    return m.where((p < 0.3) | (p > 0.65), far, near)


logit: Primitive = elementwise(
    "logit",
    evaluated_quietly(_logit),
    formula=_logit,
    # Written as a sum, its derivative has no factors 0 and infinity.
    partials=(
        lambda _, p: bind1(reciprocal_of_positive, p) + bind1(reciprocal_of_positive, 1 - p),
    ),
    samples=combined(reals(0.05, 0.95), edges(0.0, 1.0, -0.5, 1.5, np.inf, np.nan)),
    traits=TRANSCENDENTAL | OWNS,
    kinks=between(0.0, 1.0),
)


_REALS_AND_FAR_TAILS: Final = combined(
    reals(-3, 3),
    edges(0.0, -30.0, 30.0, smooth=True),
    edges(-np.inf, -1000.0, 1000.0, np.inf, np.nan),
)


def _log_expit(m: Algebra, x: Value) -> Value:
    x = real_operand(m, x, "log_expit")
    return m.minimum(x, 0) - m.log1p(m.exp(-m.absolute(x)))


log_expit: Primitive = elementwise(
    "log_expit",
    formula=_log_expit,
    partials=(lambda _, x: bind1(sigmoid, -x),),
    samples=_REALS_AND_FAR_TAILS,
    traits=TRANSCENDENTAL | OWNS,
)


def _log_expit_slope(m: Algebra, x: Value) -> Value:
    size = m.absolute(real_operand(m, x, "log_expit_slope"))
    return -size - 2 * m.log1p(m.exp(-size))


# The density of a logistic number. Of the sum of log_expit(x) and log_expit(-x) the derivative
# would be a difference, which near 0 has few digits.
log_expit_slope: Primitive = elementwise(
    "log_expit_slope",
    formula=_log_expit_slope,
    partials=(lambda _, x: -bind1(tanh, x / 2),),
    samples=_REALS_AND_FAR_TAILS,
    traits=TRANSCENDENTAL | OWNS,
)
"""``log(expit(x) * expit(-x))``."""
