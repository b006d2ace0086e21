"""Factors of tangents and cotangents: what they are computed of.

A rule reads the operation's arguments as numbers of the result's precision. The arguments
themselves may be narrower, or no floating-point numbers at all: in ``-y`` a ``uint8`` would wrap
and a boolean be refused, the logarithm of a small integer would be one of half precision, and a
boolean that is multiplied with would be taken for a mask.

>>> in_precision_of(np.dtype(np.float64), np.uint8(3))
array(3.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from funcgrad.border import is_weak
from funcgrad.primitive import Partials
from funcgrad.primitives.structural import cast
from funcgrad.shape import dtype_of
from funcgrad.trace import Value

__all__ = ["PRECISE", "in_precision_of", "operands_of_factors"]

PRECISE: Final = frozenset({int, float, complex, np.float64, np.complex128})
"""The exact types of what ``in_precision_of`` leaves alone, whatever the result: Python's numbers,
which take the precision of what they meet (a bool is NumPy's boolean there), and numbers of the
highest precision that there is. Asked first, it spares scalar programs the rest."""


def in_precision_of(dtype: np.dtype[Any], x: Value) -> Value:
    """An argument as its operation's result has it: of that precision, and complex if it was.

    Complex numbers stay complex, also where the result is real, as a magnitude is.
    """
    own = dtype_of(x)
    if own == dtype or (own.kind != "b" and is_weak(x)):
        return x
    wanted = np.dtype(dtype.char.lower())
    if own.kind == "c":
        wanted = np.result_type(wanted, np.complex64)
    return x if own == wanted else cast(x, dtype=wanted)


def operands_of_factors(
    partials: Partials, primals: Sequence[Value], out: Value
) -> Sequence[Value]:
    """What factors are computed of; those that select compare the arguments as they are."""
    if partials.selects or len(primals) == 1:
        return primals
    dtype = dtype_of(out)
    return [in_precision_of(dtype, x) for x in primals]
