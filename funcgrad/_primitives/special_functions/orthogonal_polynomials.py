"""Orthogonal polynomials of integer degree, differentiable with respect to the argument.

>>> eval_legendre(2, 0.5), eval_hermite(2, 1.0)
(np.float64(-0.125), np.float64(2.0))

Each derivative is a polynomial of one degree less, of the next parameters: DLMF 18.9.15 to 18.9.26.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from funcgrad._core.primitive import Primitive, Sample
from funcgrad._core.trace import Value
from funcgrad._primitives.elementwise import combined
from funcgrad._primitives.selection import maximum, where
from funcgrad._primitives.special_functions.scipys import evaluated_by_scipy, no_derivative

_REMEDY = "Hold it constant with fg.stop_gradient."
Slope = Callable[..., Value]


def _family(name: str, parameters: tuple[int, ...], slope: Slope) -> Primitive:
    """Polynomials of a degree, some parameters and the argument.

    Parameters
    ----------
    name : str
    parameters : tuple of int
        At which it is tried: integers, in which no derivative is asked.
    slope : callable
        ``(m, *parameters, x)`` to the derivative of the polynomial of the degree m + 1, for m from
        0 on.
    """

    names = ("alpha", "beta") if len(parameters) == 2 else ("alpha",)
    held = [no_derivative(name, parameter, _REMEDY) for parameter in names[: len(parameters)]]
    return evaluated_by_scipy(
        name,
        whole=(0,),
        partials=(None, *held, partial(_lowered, slope)),
        samples=combined(
            lambda: [
                Sample((np.array([0, 1, 4]), *parameters, np.array([-0.6, 0.3, 0.8]))),
                Sample((3, *parameters, 0.4)),
                Sample((np.array([[1], [5]]), *parameters, np.array([-2.0, 1.0, 0.3])[::-2])),
                Sample((np.zeros((0, 2), np.int64), *parameters, np.ones(2))),
            ]
        ),
    )


def _lowered(slope: Slope, _: Value, n: Value, *arguments: Value) -> Value:
    return where(n > 0, slope(maximum(n - 1, 0), *arguments), 0.0)


eval_jacobi: Primitive = _family(
    "eval_jacobi", (1, 2), lambda m, a, b, x: (m + a + b + 2) / 2 * eval_jacobi(m, a + 1, b + 1, x)
)
eval_gegenbauer: Primitive = _family(
    "eval_gegenbauer", (2,), lambda m, a, x: 2 * a * eval_gegenbauer(m, a + 1, x)
)
eval_genlaguerre: Primitive = _family(
    "eval_genlaguerre", (1,), lambda m, a, x: -eval_genlaguerre(m, a + 1, x)
)
eval_legendre: Primitive = _family("eval_legendre", (), lambda m, x: eval_gegenbauer(m, 1.5, x))
eval_chebyt: Primitive = _family("eval_chebyt", (), lambda m, x: (m + 1) * eval_chebyu(m, x))
eval_chebyu: Primitive = _family("eval_chebyu", (), lambda m, x: 2 * eval_gegenbauer(m, 2.0, x))
eval_hermite: Primitive = _family("eval_hermite", (), lambda m, x: 2 * (m + 1) * eval_hermite(m, x))
eval_hermitenorm: Primitive = _family(
    "eval_hermitenorm", (), lambda m, x: (m + 1) * eval_hermitenorm(m, x)
)
