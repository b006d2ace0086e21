"""Named integrals of sines, cosines, exponentials and logarithms.

>>> spence(1.0), fresnel_sine(0.0), sine_integral(0.0)
(np.float64(0.0), np.float64(0.0), np.float64(0.0))

Their derivatives are their integrands: DLMF 6.2, 7.2 and 25.12. The derivative of Spence's function
is minus the reciprocal of ``exprel(log(z))``, which is accurate near 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from funcgrad._core.primitive import Factor, Kinks, Primitive, Sample
from funcgrad._core.specs import dtype_of
from funcgrad._core.structure.structures import OWNS, TRANSCENDENTAL
from funcgrad._core.trace import Value, bind1, bind2
from funcgrad._primitives.cardinal_sine import sinc
from funcgrad._primitives.complexes import imag, join_parts, real
from funcgrad._primitives.elementwise import combined, divide, edges, elementwise, log
from funcgrad._primitives.kinks import POSITIVE, distance_to_cut, is_complex
from funcgrad._primitives.logic import isinf
from funcgrad._primitives.rounding import fmod
from funcgrad._primitives.selection import where
from funcgrad._primitives.special_functions.exponentials import exprel
from funcgrad._primitives.special_functions.hypergeometric import hyp0f1
from funcgrad._primitives.special_functions.scipys import (
    evaluated_by_scipy,
    in_precision,
    scipy_special,
)
from funcgrad._primitives.transcendental import cos, cosh, sin, sinh

_POSITIVE = combined(
    lambda: [
        Sample((np.array([0.3, 1.2, 2.9]),)),
        Sample((0.7,)),
        Sample((np.linspace(0.4, 3, 24).reshape(4, 6)[::2, ::-3],)),
        Sample((np.zeros((0, 2)),)),
        Sample((np.array([0.5 + 0.4j, -1.1 + 0.3j]),)),
    ],
    edges(1e-9, 30.0, smooth=True),
)
_LINE = combined(_POSITIVE, edges(-2.3, -0.4, 0.0, smooth=True))


def _slope_of_spence(_: Value, z: Value) -> Value:
    if dtype_of(z).kind == "c":
        return bind2(divide, bind1(log, z), 1 - z)
    return bind2(divide, -1, bind1(exprel, bind1(log, z)))


spence: Primitive = evaluated_by_scipy(
    "spence",
    partials=(_slope_of_spence,),
    samples=combined(_POSITIVE, edges(1.0, smooth=True), edges(0.0, -1.0, np.nan)),
    kinks=POSITIVE,
)


_POLE: Final = Kinks(lambda z: distance_to_cut(z) if is_complex(z) else z)


def _one_of_two(
    name: str,
    scipys: str,
    number: int,
    slope: Factor,
    samples: Callable[[], Iterable[Sample]],
    kinks: Kinks | None = None,
) -> Primitive:
    """One result of a function of SciPy's that has two."""
    return elementwise(
        name,
        lambda x: in_precision(getattr(scipy_special(scipys), scipys)(x)[number], x),
        partials=(slope,),
        samples=samples,
        traits=TRANSCENDENTAL | OWNS,
        kinks=kinks,
    )


def _turn(z: Value) -> Value:
    """The angle, less whole turns, which are exact before they are multiplied by pi."""
    square = z * z
    if dtype_of(z).kind == "c":
        return math.pi / 2 * join_parts(bind2(fmod, bind1(real, square), 4.0), bind1(imag, square))
    return math.pi / 2 * bind2(fmod, square, 4.0)


fresnel_sine: Primitive = _one_of_two(
    "fresnel_sine", "fresnel", 0, lambda _, z: bind1(sin, _turn(z)), _LINE
)
fresnel_cosine: Primitive = _one_of_two(
    "fresnel_cosine", "fresnel", 1, lambda _, z: bind1(cos, _turn(z)), _LINE
)


def _sine_over(_: Value, z: Value) -> Value:
    if dtype_of(z).kind == "c":
        return _over(z, sin, -0.25)
    gone = bind1(isinf, z)
    return where(gone, 0.0, bind1(sinc, where(gone, 1.0, z) / math.pi))


def _cosine_over(_: Value, z: Value) -> Value:
    gone = bind1(isinf, z)
    inner = where(gone, 1.0, z)
    return where(gone, 0.0, bind2(divide, bind1(cos, inner), inner))


def _hyperbolic_sine_over(_: Value, z: Value) -> Value:
    return _over(z, sinh, 0.25)


def _over(z: Value, function: Primitive, quarter: float) -> Value:
    """Near 0 by the series in the square (DLMF 10.16.9), whose derivatives lose no digits."""
    if dtype_of(z).kind == "c":
        x, y = bind1(real, z), bind1(imag, z)
        near = (x > -2) & (x < 2) & (y > -2) & (y < 2)
    else:
        near = (z > -3) & (z < 3)
    inner, outer = where(near, z, 0.0), where(near, 3.0, z)
    series = hyp0f1(1.5, inner * inner * quarter)
    return where(near, series, bind1(function, outer) / outer)


sine_integral: Primitive = _one_of_two("sine_integral", "sici", 0, _sine_over, _LINE)
cosine_integral: Primitive = _one_of_two(
    "cosine_integral", "sici", 1, _cosine_over, _POSITIVE, _POLE
)
hyperbolic_sine_integral: Primitive = _one_of_two(
    "hyperbolic_sine_integral", "shichi", 0, _hyperbolic_sine_over, _LINE
)
hyperbolic_cosine_integral: Primitive = _one_of_two(
    "hyperbolic_cosine_integral",
    "shichi",
    1,
    lambda _, z: bind2(divide, bind1(cosh, z), z),
    _POSITIVE,
    _POLE,
)
