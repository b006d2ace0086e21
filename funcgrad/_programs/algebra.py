"""The algebra of primitives: it evaluates formulas on tensors and tracers.

It defines the names of ``funcgrad._core.intrinsics`` as primitives. So a formula can be staged,
which gives the *body* of an operation: a program of other primitives.

>>> import funcgrad as fg
>>> from funcgrad._primitives.activations import softplus
>>> print(fg.program(body_of(softplus))(fg.tensor(1.0)).to_text(sources=False))
program softplus(x: float64[]) -> float64[]
  a = constant 0
  b: float64[] = maximum x a
  c: float64[] = absolute x
  d: float64[] = negative c
  e: float64[] = exp d
  f: float64[] = log1p e
  g: float64[] = add b f
  return g
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import Elementwise
from funcgrad._core.trace import Value
from funcgrad._primitives.complexes import imag, join_parts, real
from funcgrad._primitives.elementwise import (
    absolute,
    add,
    divide,
    log,
    multiply,
    reciprocal,
    square,
    subtract,
)
from funcgrad._primitives.logic import bitwise_count, equal, isfinite, isinf, isnan
from funcgrad._primitives.powers import power
from funcgrad._primitives.rounding import (
    binary_exponent,
    copysign,
    floor,
    fmod,
    gcd,
    ldexp,
    nextafter,
    rint,
    trunc,
)
from funcgrad._primitives.selection import maximum, minimum, where
from funcgrad._primitives.special import erf, erfc
from funcgrad._primitives.structural import cast
from funcgrad._primitives.transcendental import (
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    cbrt,
    cos,
    cosh,
    exp,
    exp2,
    expm1,
    hypot,
    log1p,
    log2,
    log10,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
)

__all__ = [
    "absolute",
    "add",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "astype",
    "binary_exponent",
    "bitwise_count",
    "body_of",
    "cbrt",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "fmod",
    "frexp",
    "gcd",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "join_parts",
    "ldexp",
    "log",
    "log1p",
    "log2",
    "log10",
    "maximum",
    "minimum",
    "multiply",
    "nextafter",
    "power",
    "real",
    "reciprocal",
    "rint",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "where",
]


def astype(x: Value, dtype: np.dtype[Any]) -> Value:
    """Convert ``x`` to another dtype."""
    return cast(x, dtype=dtype)


def frexp(x: Value) -> tuple[Value, Value]:
    """The mantissa m with 1/2 <= m < 1, and the exponent."""
    exponent = binary_exponent(x)
    return ldexp(x, -exponent), exponent


def body_of(primitive: Primitive) -> Callable[..., Value] | None:
    """An operation written in other primitives: its declared body, or its formula."""
    structure = primitive.structure
    if not isinstance(structure, Elementwise) or structure.formula is None or structure.basic:
        return primitive.body
    body: Any = partial(structure.formula, sys.modules[__name__])
    body.__name__ = primitive.name
    return body
