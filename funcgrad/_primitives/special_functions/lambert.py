"""The solutions of ``w * exp(w) = z`` and ``w + log(w) = z``.

>>> lambertw(0.0, k=0, tol=1e-8)
np.complex128(0j)
"""

from __future__ import annotations

import math

import numpy as np

from funcgrad._core.primitive import Kinks, Primitive, Sample
from funcgrad._core.structure.structures import OWNS, TRANSCENDENTAL
from funcgrad._core.trace import Raw, Value, bind1, bind2
from funcgrad._primitives.elementwise import (
    combined,
    complexes,
    divide,
    edges,
    elementwise,
    reals,
    square,
)
from funcgrad._primitives.kinks import distance_to_cut, is_complex, negative_axis
from funcgrad._primitives.special_functions.scipys import evaluated_by_scipy, scipy_special
from funcgrad._primitives.transcendental import exp


def _lambertw(z: Raw, k: int, tol: float) -> Raw:
    """In the precision of z: SciPy's result is complex128 whatever that is."""
    kind = np.result_type(z)
    result = scipy_special("lambertw").lambertw(z, k, tol)
    return result.astype(np.complex64) if kind.char in "efF" else result


def _branches(z: Value, k: int, tol: float) -> Value:
    """Where branches meet, at -1 / e and at 0, and the cuts of complex numbers."""
    if is_complex(z):
        return distance_to_cut(z, 0.0 if k else -math.exp(-1))
    return (z + math.exp(-1), z) if k else z + math.exp(-1)


def _strips(z: Value) -> Value:
    """The cuts along ``x + pi i`` and ``x - pi i`` for x below -1."""
    if not is_complex(z):
        return ()
    return tuple([negative_axis(z.real + 1, z.imag - y) for y in (-math.pi, math.pi)])


def _samples() -> list[Sample]:
    points = combined(
        reals(-0.3, 3),
        complexes(),
        edges(0.0, 1e-9, 1e6, smooth=True),
        edges(-np.exp(-1), np.inf, np.nan),
    )
    samples = list(combined(points, k=0, tol=1e-8)())
    for k in (-1, 2):
        samples += combined(complexes(), edges(0.0), k=k, tol=1e-8)()
    return samples


lambertw: Primitive = elementwise(
    "lambertw",
    _lambertw,
    # dw = dz / (exp(w) (1 + w)), which is 1 at z = 0, and infinite where branches meet at -1 / e
    partials=(lambda w, _z, k, tol: bind2(divide, bind1(exp, -w), 1 + w),),
    samples=_samples,
    traits=TRANSCENDENTAL | OWNS,
    kinks=Kinks(_branches),
)
# A quotient whose derivative, by the rule for quotients, would cancel for large arguments.
odds_to_share: Primitive = elementwise(
    "odds_to_share",
    lambda w: np.where(np.isinf(w), 1, np.divide(w, 1 + w))[()],
    partials=(lambda _, w: bind1(square, bind2(divide, 1, 1 + w)),),
    samples=combined(reals(0.3, 3), complexes(), edges(0.0, smooth=True), edges(-1.0, np.nan)),
    kinks=Kinks(lambda x: 1 + x),
    traits=OWNS,
)
wrightomega: Primitive = evaluated_by_scipy(
    "wrightomega",
    partials=(lambda w, _z: bind1(odds_to_share, w),),
    samples=combined(reals(-3, 3), complexes(), edges(-60.0, 0.0, 1e6), edges(-np.inf, np.nan)),
    kinks=Kinks(_strips),
)
