"""The parts of complex numbers.

>>> conj(1 + 2j)
np.complex128(1-2j)
"""

from __future__ import annotations

import numpy as np

from funcgrad.primitive import Linear, Primitive, SAME
from funcgrad.primitives.elementwise import batch_elementwise, elementwise
from funcgrad.shape import Spec

__all__ = ["conj", "imag", "real"]

conj = Primitive(
    "conj",
    np.conjugate,
    lambda x: Spec(x.shape, x.dtype),
    Linear((lambda ct, x: conj(ct),), structural=True),
    batch_elementwise,
)
