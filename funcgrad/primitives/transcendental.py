"""Exponentials, logarithms, trigonometry.

>>> exp(0.0)
np.float64(1.0)
"""

from __future__ import annotations

import numpy as np

from funcgrad.primitives.elementwise import elementwise, reals

__all__ = ["cos", "exp", "sin", "sqrt", "tanh"]

exp = elementwise("exp", np.exp, partials=(lambda y, x: y,), samples=reals(-3, 3))
sin = elementwise("sin", np.sin, partials=(lambda y, x: cos(x),), samples=reals(-3, 3))
cos = elementwise("cos", np.cos, partials=(lambda y, x: -sin(x),), samples=reals(-3, 3))
tanh = elementwise("tanh", np.tanh, partials=(lambda y, x: 1 - y * y,), samples=reals(-3, 3))
sqrt = elementwise("sqrt", np.sqrt, partials=(lambda y, x: 0.5 / y,), samples=reals(0.1, 3))
