"""Spherical harmonics.

>>> sph_harm_y(0, 0, 0.5, 0.5)
np.complex128(0.28209479177387814+0j)
"""

from __future__ import annotations

import numpy as np

from funcgrad._core.primitive import Kinks, Primitive, Sample
from funcgrad._core.trace import Value, bind1
from funcgrad._primitives.elementwise import combined
from funcgrad._primitives.kinks import unless
from funcgrad._primitives.selection import maximum, where
from funcgrad._primitives.special_functions.scipys import evaluated_by_scipy
from funcgrad._primitives.transcendental import cos, sin, sqrt


def _to_theta(_: Value, n: Value, m: Value, theta: Value, phi: Value) -> Value:
    """The ladder operators, which stay finite at the poles (DLMF 14.30 and 14.10).

    Beyond the poles SciPy has powers of ``abs(sin(theta))``, so that the harmonics of neighbouring
    orders have opposite signs there.
    """
    cosine, sine = bind1(cos, phi), 1j * bind1(sin, phi)
    # Harmonics exist for |m| <= n only; beyond, the factor would be the root of a negative number.
    up = bind1(sqrt, maximum(1.0 * ((n - m) * (n + m + 1)), 0.0)) * (cosine - sine)
    down = bind1(sqrt, maximum(1.0 * ((n + m) * (n - m + 1)), 0.0)) * (cosine + sine)
    half = 0.5 * (up * sph_harm_y(n, m + 1, theta, phi) - down * sph_harm_y(n, m - 1, theta, phi))
    return where(bind1(sin, theta) < 0, -half, half)


sph_harm_y: Primitive = evaluated_by_scipy(
    "sph_harm_y",
    whole=(0, 1),
    partials=(None, None, _to_theta, lambda y, _n, m, _theta, _phi: 1j * m * y),
    samples=combined(
        lambda: [
            Sample((np.array([2, 1, 3]), np.array([1, -1, 3]), np.array([0.5, 1.2, 2.0]), 0.7)),
            Sample((2, 1, 0.3, 0.4)),
            Sample((np.array(2), np.array(-2), np.array(0.3), np.array(0.4))),
            Sample((np.array([[1], [3]]), 1, np.linspace(0.1, 0.9, 6)[::-2], 2.0)),
            Sample((np.zeros((0, 2), np.int64), 1, np.zeros(2), 0.5)),
            Sample(
                (np.array([2, 3, 3, 1]), np.array([1, 2, -3, 0]), np.array([-0.5, 3.5, 6, 9]), 0.4)
            ),
            # At the poles, where powers of abs(sin(theta)) have kinks.
            Sample((2, 0, np.array([0.0, np.pi]), np.array([0.3, 0.4])), smooth=False),
        ]
    ),
    kinks=Kinks(lambda n, m, theta, phi: unless(m % 2 == 0, bind1(sin, theta))),
)
