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

from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from funcgrad._core import intrinsics
from funcgrad._core.primitive import Primitive
from funcgrad._core.structure.structures import Elementwise
from funcgrad._core.trace import Value
from funcgrad._primitives import (
    complexes,
    elementwise,
    logic,
    powers,
    rounding,
    selection,
    special,
    transcendental,
)
from funcgrad._primitives.rounding import binary_exponent, ldexp
from funcgrad._primitives.structural import cast


def _astype(x: Value, dtype: np.dtype[Any]) -> Value:
    """Convert ``x`` to another dtype."""
    return cast(x, dtype=dtype)


def _frexp(x: Value) -> tuple[Value, Value]:
    """The mantissa m with 1/2 <= m < 1, and the exponent."""
    exponent = binary_exponent(x)
    return ldexp(x, -exponent), exponent


_FAMILIES: Final = (
    complexes,
    elementwise,
    logic,
    powers,
    rounding,
    selection,
    special,
    transcendental,
)

FUNCTIONS: Final = MappingProxyType(
    {
        name: getattr(family, name)
        for family in _FAMILIES
        for name in intrinsics.__all__
        if hasattr(family, name)
    }
    | {"astype": _astype, "frexp": _frexp}
)
"""The intrinsics as primitives, by name."""


class PrimitiveAlgebra:
    """The algebra whose functions are primitives."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name not in FUNCTIONS:
            raise AttributeError(f"m.{name}: see funcgrad._core.intrinsics.__all__.", name=name)
        return FUNCTIONS[name]


ALGEBRA: Final = PrimitiveAlgebra()


def body_of(primitive: Primitive) -> Callable[..., Value] | None:
    """An operation written in other primitives: its declared body, or its formula."""
    structure = primitive.structure
    if not isinstance(structure, Elementwise) or structure.formula is None or structure.basic:
        return primitive.body
    body: Any = partial(structure.formula, ALGEBRA)
    body.__name__ = primitive.name
    return body
