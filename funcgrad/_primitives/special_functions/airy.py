"""Airy's functions: the two solutions of ``y'' = x y``, and their derivatives.

>>> airy_ai(0.0), airy_bi_slope(0.0)
(np.float64(0.3550280538878172), np.float64(0.4482883573538264))
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from funcgrad._core.primitive import Primitive, Sample
from funcgrad._core.structure.structures import OWNS, TRANSCENDENTAL
from funcgrad._core.trace import Value, bind1
from funcgrad._primitives.elementwise import combined, edges, elementwise
from funcgrad._primitives.special_functions.scipys import in_precision, scipy_special

_SAMPLES = combined(
    lambda: [
        Sample((np.array([-4.1, -0.3, 2.6]),)),
        Sample((0.7,)),
        Sample((np.zeros((0, 2)),)),
        Sample((np.array([0.5 + 0.4j, -1.1 + 0.3j]),)),
    ],
    edges(0.0, smooth=True),
    edges(np.nan),
)


def _solution(name: str, number: int, slope: Callable[[Value], Value]) -> Primitive:
    return elementwise(
        name,
        lambda z: in_precision(scipy_special("airy").airy(z)[number], z),
        partials=(lambda _, z: slope(z),),
        samples=_SAMPLES,
        traits=TRANSCENDENTAL | OWNS,
    )


airy_ai: Primitive = _solution("airy_ai", 0, lambda z: bind1(airy_ai_slope, z))
airy_ai_slope: Primitive = _solution("airy_ai_slope", 1, lambda z: z * bind1(airy_ai, z))
airy_bi: Primitive = _solution("airy_bi", 2, lambda z: bind1(airy_bi_slope, z))
airy_bi_slope: Primitive = _solution("airy_bi_slope", 3, lambda z: z * bind1(airy_bi, z))
