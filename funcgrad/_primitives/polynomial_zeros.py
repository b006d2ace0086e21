"""The zeros of polynomials: they move as the implicit function theorem says.

>>> polynomial_zeros(np.array([1.0, -3.0, 2.0]), count=2)
array([2.+0.j, 1.+0.j])
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from funcgrad._core.primitive import Kinks, Linearized, Primitive, Sample
from funcgrad._core.specs import Spec, shape_of
from funcgrad._core.structure.structures import OWNS
from funcgrad._core.trace import Raw, Value
from funcgrad._primitives.index_keys import Key
from funcgrad._primitives.kinks import pairs
from funcgrad._primitives.matrices import of_stacks
from funcgrad._primitives.structural import view


def _zeros(p: Raw, count: int) -> Raw:
    out = np.zeros((*p.shape[:-1], count), _complex(p.dtype))
    for row in np.ndindex(p.shape[:-1]):
        out[row] = np.roots(p[row])
    return out


def _complex(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.result_type(dtype, np.complex64)


def _value(coefficients: list[Value], at: Value) -> Value:
    """Horner's rule."""
    total = coefficients[0]
    for coefficient in coefficients[1:]:
        total = total * at + coefficient
    return total


def _columns(p: Value) -> list[Value]:
    """The coefficients, each with an axis of size 1 for the zeros."""
    return [view(p, key=Key((..., slice(k, k + 1)))) for k in range(shape_of(p)[-1])]


def _push(tangents: tuple[Value, ...], out: Value, p: Value, count: int) -> Value:
    degree = shape_of(p)[-1] - 1
    slopes = [column * (degree - k) for k, column in enumerate(_columns(p)[:-1])]
    return -_value(_columns(tangents[0]), out) / _value(slopes, out)


def _samples() -> Iterator[Sample]:
    for zeros in ([2.0, -1.0, 0.5], [1 + 1j, 1 - 1j, 3.0], [1 + 2j, -1.5j, 0.5], [4.0]):
        p = np.poly(zeros) * 1.5
        yield Sample((p,), {"count": len(zeros)})
    rows = np.stack([np.poly([1.0, -2.0]), np.poly([0.5, 3.0])])
    yield Sample((rows,), {"count": 2})
    yield Sample((rows[::-1, ::-1],), {"count": 2})
    yield Sample((np.array([0.0, 1.0, -4.0, 1.0, 0.0]),), {"count": 3}, smooth=False)


polynomial_zeros: Primitive = Primitive(
    "polynomial_zeros",
    _zeros,
    lambda p, count: Spec((*p.shape[:-1], count), _complex(p.dtype)),
    Linearized(_push),
    lambda primitive, size, args, batched, params: primitive(*args, **params),
    _samples,
    structure=of_stacks(1),
    traits=OWNS,
    kinks=Kinks(lambda p, count: (*pairs(polynomial_zeros(p, count=count)), p[..., 0])),
)
"""The zeros of polynomials. The coefficients are on the last axis, the highest power first. The
number of zeros is the degree, without leading coefficients that are 0."""
