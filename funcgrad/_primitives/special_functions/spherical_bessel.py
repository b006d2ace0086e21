"""Spherical Bessel functions of all kinds, of whole orders.

>>> spherical_jn(0, 0.0), spherical_kn(0, 1.0)
(np.float64(1.0), np.float64(0.5778636748954609))

Their derivatives are sums of neighbouring orders, which lose no digits near 0: DLMF 10.51.2 and
10.51.5.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from funcgrad._core.primitive import Kinks, Primitive, Sample
from funcgrad._core.structure.structures import OWNS, TRANSCENDENTAL
from funcgrad._core.trace import Raw, Value
from funcgrad._primitives.elementwise import combined, edges, elementwise
from funcgrad._primitives.selection import maximum, where
from funcgrad._primitives.special_functions.scipys import in_precision, scipy_special, whole_numbers

_SAMPLES = combined(
    lambda: [
        Sample((np.array([0, 1, 4]), np.array([0.7, 2.0, 5.0]))),
        Sample((2, 1.5)),
        Sample((np.array([[0], [3]]), np.linspace(0.5, 4, 6)[::-2])),
        Sample((np.zeros((0, 2), np.int64), np.ones(2))),
        Sample((np.array([0, 2]), np.array([0.5 + 0.4j, 1.5 - 0.3j]))),
    ],
    edges((0, 30.0), (2, 0.4), smooth=True),
    edges((0, 0.0), (1, 0.0), (2, 0.0), (1, np.nan)),
)


def _kind(name: str, below: int, above: int, kinks: Kinks | None = None) -> Primitive:
    """With ``(2 n + 1) f_n' = below n f_(n - 1) + above (n + 1) f_(n + 1)``."""

    def evaluate(n: Raw, z: Raw) -> Raw:
        function = getattr(scipy_special(name), name)
        return in_precision(np.asarray(function(whole_numbers(name, n), z)), n, z)

    def slope(_: Value, n: Value, z: Value) -> Value:
        lower = where(n > 0, primitive(maximum(n - 1, 0), z), 0.0)
        return (below * n * lower + above * (n + 1) * primitive(n + 1, z)) / (2 * n + 1)

    primitive: Primitive = elementwise(
        name,
        evaluate,
        partials=(None, slope),
        samples=_SAMPLES,
        traits=TRANSCENDENTAL | OWNS,
        kinks=kinks,
    )
    return primitive


_POLE: Final = Kinks(lambda n, z: z)

spherical_jn: Primitive = _kind("spherical_jn", 1, -1)
spherical_yn: Primitive = _kind("spherical_yn", 1, -1, _POLE)
spherical_in: Primitive = _kind("spherical_in", 1, 1)
spherical_kn: Primitive = _kind("spherical_kn", -1, -1, _POLE)
