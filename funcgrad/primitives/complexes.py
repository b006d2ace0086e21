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

from funcgrad.primitive import SAME, Linear, Primitive, UnitFactor
from funcgrad.primitives.elementwise import (
    batch_elementwise,
    combined,
    complexes,
    edges,
    elementwise,
    elementwise_result,
    reals,
)
from funcgrad.shape import dtype_of
from funcgrad.structure import Elementwise
from funcgrad.trace import Raw, Value

__all__ = ["conj", "imag", "join_parts", "real"]

_SAMPLES = combined(reals(-3, 3), complexes(), edges(complex(np.inf, 1), complex(0, np.nan)))


def _array(x: Raw) -> Raw:
    """The value with NumPy's attributes: a Python number as a NumPy scalar."""
    return np.asarray(x)[()] if type(x) in (bool, int, float, complex) else x


# Conjugation is linear over the reals only, and its own adjoint.
conj: Primitive = Primitive(
    "conj",
    np.conjugate,
    elementwise_result("conj", np.conjugate),
    Linear((lambda ct, x: conj(ct),), structural=True),
    batch_elementwise,
    _SAMPLES,
    structure=Elementwise(),
)


def _real(x: Raw) -> Raw:
    return _array(x).real


def _imag(x: Raw) -> Raw:
    return _array(x).imag


def _imag_factor(_: Value, x: Value) -> Value:
    """Im z is the real part of -i z."""
    return -1j if dtype_of(x).kind == "c" else 0


def _part(
    part: str, evaluate: Callable[..., Any], factor: Callable[..., Value] | UnitFactor
) -> Primitive:
    made = elementwise(
        part,
        evaluate,
        partials=(factor,),
        samples=_SAMPLES,
        source=lambda x: f"{x.array if x.spec.weak else x}.{part}",
        operator=part,
    )
    return replace(made, structure=Elementwise(owns=False, is_view=True))


real = _part("real", _real, SAME)
imag = _part("imag", _imag, _imag_factor)


def _join_parts(x: Raw, y: Raw) -> Raw:
    dtype = np.result_type(np.result_type(x, y), np.complex64)
    out = np.empty(np.broadcast_shapes(np.shape(x), np.shape(y)), dtype)
    out.real = x
    out.imag = y
    return out[()]


# x + iy without the products of x + 1j * y, in which an infinite y makes the real part NaN.
join_parts = elementwise(
    "join_parts",
    _join_parts,
    partials=(SAME, lambda _, _x, _y: 1j),
    samples=combined(reals(-3, 3, 2), edges((np.nan, 1.0), (0.0, np.inf))),
)
