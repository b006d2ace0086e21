"""The parts of complex numbers.

>>> conj(1 + 2j)
np.complex128(1-2j)
>>> real(1 + 2j), imag(1 + 2j)
(1.0, 2.0)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from funcgrad._core import intrinsics
from funcgrad._core.primitive import SAME, Linear, Primitive, UnitFactor
from funcgrad._core.specs import dtype_of
from funcgrad._core.structure.structures import OWNS, Algebra, Elementwise
from funcgrad._core.trace import Value, bind1
from funcgrad._primitives.elementwise import (
    combined,
    complexes,
    edges,
    elementwise,
    reals,
    reciprocal,
)
from funcgrad._primitives.elementwise_rules import batch_elementwise, elementwise_result

_SAMPLES = combined(reals(-3, 3), complexes(), edges(complex(np.inf, 1), complex(0, np.nan)))


def _conj(m: Algebra, x: Value) -> Value:
    kind = dtype_of(x).kind
    if kind == "c":
        return m.join_parts(m.real(x), -m.imag(x))
    return m.astype(x, np.dtype(np.int8)) if kind == "b" else x


# Conjugation is linear over the reals only, and its own adjoint.
conj: Primitive = Primitive(
    "conj",
    np.conjugate,
    elementwise_result("conj", np.conjugate),
    Linear((lambda ct, x: conj(ct),), structural=True),
    batch_elementwise,
    _SAMPLES,
    structure=Elementwise(_conj),
    traits=OWNS,
)


def _imag_factor(_: Value, x: Value) -> Value:
    """Im z is the real part of -i z."""
    return -1j if dtype_of(x).kind == "c" else 0


def _complex_part(
    name: str, evaluate: Callable[..., Any], factor: Callable[..., Value] | UnitFactor
) -> Primitive:
    made = elementwise(name, evaluate, partials=(factor,), samples=_SAMPLES, operator=name)
    return replace(
        made,
        source=lambda x: f"{x.array if x.spec.weak else x}.{name}",
        structure=Elementwise(lambda m, x: getattr(m, name)(x), is_view=True, basic=True),
    )


real: Primitive = _complex_part("real", intrinsics.real, SAME)
imag: Primitive = _complex_part("imag", intrinsics.imag, _imag_factor)

# x + iy without the products of x + 1j * y, in which an infinite y makes the real part NaN.
join_parts: Primitive = elementwise(
    "join_parts",
    intrinsics.join_parts,
    partials=(SAME, lambda _, _x, _y: 1j),
    samples=combined(reals(-3, 3, 2), edges((np.nan, 1.0), (0.0, np.inf))),
    traits=OWNS,
)


def reciprocal_of_product(x: Value, y: Value) -> Value:
    """``1 / (x * y)`` of complex numbers whose product may overflow."""
    return bind1(reciprocal, x) * bind1(reciprocal, y)


def within_cosh(m: Algebra, x: Value) -> Value:
    """Complex numbers moved towards 0 where the square of cosh is infinite, but a part is NaN."""
    if dtype_of(x).kind != "c":
        return x
    most = 60.0 if np.finfo(dtype_of(x)).bits == 32 else 380.0
    return m.join_parts(m.maximum(m.minimum(m.real(x), most), -most), m.imag(x))
