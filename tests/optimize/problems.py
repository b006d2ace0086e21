"""Problems with known solutions, from collections of test problems.

Moré, Garbow, Hillstrom, "Testing unconstrained optimization software", ACM TOMS 7, 1981 (residuals
and systems); Hock, Schittkowski, "Test examples for nonlinear programming codes", 1981
(constraints).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import funcgrad.numpy as fnp

_TEN = np.arange(1, 11)


class Residuals(NamedTuple):
    """Residuals, a start, and half the least sum of squares; None where SciPy tells it."""

    fun: Callable[[Any], Any]
    start: list[float]
    least: float | None = None


def rosenbrock(x: Any) -> Any:
    return fnp.stack([10.0 * (x[1] - x[0] ** 2), 1.0 - x[0]])


def freudenstein(x: Any) -> Any:
    first = -13.0 + x[0] + ((5.0 - x[1]) * x[1] - 2.0) * x[1]
    return fnp.stack([first, -29.0 + x[0] + ((x[1] + 1.0) * x[1] - 14.0) * x[1]])


def badly_scaled(x: Any) -> Any:
    return fnp.stack([1e4 * x[0] * x[1] - 1.0, fnp.exp(-x[0]) + fnp.exp(-x[1]) - 1.0001])


def beale(x: Any) -> Any:
    return fnp.stack([y - x[0] * (1.0 - x[1] ** k) for k, y in ((1, 1.5), (2, 2.25), (3, 2.625))])


def jennrich(x: Any) -> Any:
    return 2.0 + 2.0 * _TEN - (fnp.exp(_TEN * x[0]) + fnp.exp(_TEN * x[1]))


def helix(x: Any) -> Any:
    angle = fnp.arctan2(x[1], x[0]) / (2.0 * np.pi)
    length = fnp.sqrt(x[0] ** 2 + x[1] ** 2)
    return fnp.stack([10.0 * (x[2] - 10.0 * angle), 10.0 * (length - 1.0), x[2]])


_BARD = np.array(
    [0.14, 0.18, 0.22, 0.25, 0.29, 0.32, 0.35, 0.39, 0.37, 0.58, 0.73, 0.96, 1.34, 2.10, 4.39]
)


def bard(x: Any) -> Any:
    u = np.arange(1.0, 16.0)
    v = 16.0 - u
    return _BARD - (x[0] + u / (v * x[1] + np.minimum(u, v) * x[2]))


def wood(x: Any) -> Any:
    return fnp.stack(
        [
            10.0 * (x[1] - x[0] ** 2),
            1.0 - x[0],
            90.0**0.5 * (x[3] - x[2] ** 2),
            1.0 - x[2],
            10.0**0.5 * (x[1] + x[3] - 2.0),
            0.1**0.5 * (x[1] - x[3]),
        ]
    )


_KOWALIK = np.array(
    [0.1957, 0.1947, 0.1735, 0.16, 0.0844, 0.0627, 0.0456, 0.0342, 0.0323, 0.0235, 0.0246]
)
_PLACES = np.array([4.0, 2.0, 1.0, 0.5, 0.25, 0.167, 0.125, 0.1, 0.0833, 0.0714, 0.0625])


def kowalik(x: Any) -> Any:
    u = _PLACES
    return _KOWALIK - x[0] * (u**2 + u * x[1]) / (u**2 + u * x[2] + x[3])


_COUNTS = "34780 28610 23650 19630 16370 13720 11540 9744 8261 7030 6005 5147 4427 3820 3307 2872"
_MEYER = np.array(_COUNTS.split(), float)


def meyer(x: Any) -> Any:
    return x[0] * fnp.exp(x[1] / (45.0 + 5.0 * np.arange(1, 17) + x[2])) - _MEYER


def powell(x: Any) -> Any:
    return fnp.stack(
        [
            x[0] + 10.0 * x[1],
            5.0**0.5 * (x[2] - x[3]),
            (x[1] - 2.0 * x[2]) ** 2,
            10.0**0.5 * (x[0] - x[3]) ** 2,
        ]
    )


def box(x: Any) -> Any:
    t = 0.1 * _TEN
    return fnp.exp(-t * x[0]) - fnp.exp(-t * x[1]) - x[2] * (np.exp(-t) - np.exp(-10.0 * t))


def brown_dennis(x: Any) -> Any:
    t = np.arange(1, 21) / 5.0
    return (x[0] + t * x[1] - np.exp(t)) ** 2 + (x[2] + x[3] * np.sin(t) - np.cos(t)) ** 2


RESIDUALS = {
    "rosenbrock": Residuals(rosenbrock, [-1.2, 1.0], 0.0),
    "freudenstein": Residuals(freudenstein, [0.5, -2.0]),
    "badly scaled": Residuals(badly_scaled, [0.0, 1.0], 0.0),
    "beale": Residuals(beale, [1.0, 1.0], 0.0),
    "jennrich": Residuals(jennrich, [0.3, 0.4], 62.181),
    "helix": Residuals(helix, [-1.0, 0.0, 0.0], 0.0),
    "bard": Residuals(bard, [1.0, 1.0, 1.0], 8.21487e-3 / 2),
    "wood": Residuals(wood, [-3.0, -1.0, -3.0, -1.0], 0.0),
    "kowalik": Residuals(kowalik, [0.25, 0.39, 0.415, 0.39], 3.07505e-4 / 2),
    "meyer": Residuals(meyer, [0.02, 4000.0, 250.0], 87.9458 / 2),
    "powell": Residuals(powell, [3.0, -1.0, 0.0, 1.0], 0.0),
    "box": Residuals(box, [0.0, 10.0, 20.0], 0.0),
    "brown and dennis": Residuals(brown_dennis, [25.0, 5.0, -5.0, -1.0], 85822.2 / 2),
}

# ----------------------------------------------------------------------------------------- systems

_N = 10
_H = 1.0 / (_N + 1)
_T = np.arange(1, _N + 1) * _H


def trigonometric(x: Any) -> Any:
    return _N - fnp.sum(fnp.cos(x)) + np.arange(1, _N + 1) * (1.0 - fnp.cos(x)) - fnp.sin(x)


def almost_linear(x: Any) -> Any:
    return fnp.append(x[:-1] + fnp.sum(x) - (_N + 1.0), fnp.prod(x) - 1.0)


def boundary_value(x: Any) -> Any:
    z = fnp.pad(x, 1)
    return 2.0 * x - z[:-2] - z[2:] + _H**2 * (x + _T + 1.0) ** 3 / 2.0


def integral(x: Any) -> Any:
    kernel = np.where(_T[:, None] >= _T, (1.0 - _T[:, None]) * _T, _T[:, None] * (1.0 - _T))
    return x + 0.5 * _H * (kernel @ (x + _T + 1.0) ** 3)


def tridiagonal(x: Any) -> Any:
    z = fnp.pad(x, 1)
    return (3.0 - 2.0 * x) * x - z[:-2] - 2.0 * z[2:] + 1.0


SYSTEMS = {
    "rosenbrock": (rosenbrock, [-1.2, 1.0]),
    "powell": (powell, [3.0, -1.0, 0.0, 1.0]),
    "badly scaled": (badly_scaled, [0.0, 1.0]),
    "helix": (helix, [-1.0, 0.0, 0.0]),
    "trigonometric": (trigonometric, [1.0 / _N] * _N),
    "almost linear": (almost_linear, [0.5] * _N),
    "boundary value": (boundary_value, list(_T * (_T - 1.0))),
    "integral": (integral, list(_T * (_T - 1.0))),
    "tridiagonal": (tridiagonal, [-1.0] * _N),
}

# ------------------------------------------------------------------------------------- constraints


class Constrained(NamedTuple):
    """A problem of Hock and Schittkowski, by its number there."""

    fun: Callable[[Any], Any]
    start: list[float]
    bounds: Any
    constraints: list[tuple[str, Callable[[Any], Any]]]
    least: float


CONSTRAINED = {
    6: Constrained(
        lambda x: (1 - x[0]) ** 2,
        [-1.2, 1.0],
        None,
        [("eq", lambda x: 10 * (x[1] - x[0] ** 2))],
        0.0,
    ),
    7: Constrained(
        lambda x: fnp.log(1 + x[0] ** 2) - x[1],
        [2.0, 2.0],
        None,
        [("eq", lambda x: (1 + x[0] ** 2) ** 2 + x[1] ** 2 - 4)],
        -(3.0**0.5),
    ),
    10: Constrained(
        lambda x: x[0] - x[1],
        [-10.0, 10.0],
        None,
        [("ineq", lambda x: -3 * x[0] ** 2 + 2 * x[0] * x[1] - x[1] ** 2 + 1)],
        -1.0,
    ),
    11: Constrained(
        lambda x: (x[0] - 5) ** 2 + x[1] ** 2 - 25,
        [4.9, 0.1],
        None,
        [("ineq", lambda x: -(x[0] ** 2) + x[1])],
        -8.498464223,
    ),
    12: Constrained(
        lambda x: 0.5 * x[0] ** 2 + x[1] ** 2 - x[0] * x[1] - 7 * x[0] - 7 * x[1],
        [0.0, 0.0],
        None,
        [("ineq", lambda x: 25 - 4 * x[0] ** 2 - x[1] ** 2)],
        -30.0,
    ),
    24: Constrained(
        lambda x: ((x[0] - 3) ** 2 - 9) * x[1] ** 3 / (27 * 3**0.5),
        [1.0, 0.5],
        (0.0, None),
        [
            (
                "ineq",
                lambda x: fnp.stack(
                    [x[0] / 3**0.5 - x[1], x[0] + 3**0.5 * x[1], 6 - x[0] - 3**0.5 * x[1]]
                ),
            )
        ],
        -1.0,
    ),
    35: Constrained(
        lambda x: (
            9
            - 8 * x[0]
            - 6 * x[1]
            - 4 * x[2]
            + 2 * x[0] ** 2
            + 2 * x[1] ** 2
            + x[2] ** 2
            + 2 * x[0] * x[1]
            + 2 * x[0] * x[2]
        ),
        [0.5] * 3,
        (0.0, None),
        [("ineq", lambda x: 3 - x[0] - x[1] - 2 * x[2])],
        1.0 / 9.0,
    ),
    39: Constrained(
        lambda x: -x[0],
        [2.0] * 4,
        None,
        [
            ("eq", lambda x: x[1] - x[0] ** 3 - x[2] ** 2),
            ("eq", lambda x: x[0] ** 2 - x[1] - x[3] ** 2),
        ],
        -1.0,
    ),
    40: Constrained(
        lambda x: -fnp.prod(x),
        [0.8] * 4,
        None,
        [
            (
                "eq",
                lambda x: fnp.stack(
                    [x[0] ** 3 + x[1] ** 2 - 1, x[0] ** 2 * x[3] - x[2], x[3] ** 2 - x[1]]
                ),
            )
        ],
        -0.25,
    ),
    43: Constrained(
        lambda x: x @ x + x[2] ** 2 - 5 * x[0] - 5 * x[1] - 21 * x[2] + 7 * x[3],
        [0.0] * 4,
        None,
        [
            ("ineq", lambda x: 8 - x @ x - x[0] + x[1] - x[2] + x[3]),
            ("ineq", lambda x: 10 - x @ x - x[1] ** 2 - x[3] ** 2 + x[0] + x[3]),
            ("ineq", lambda x: 5 - 2 * x[0] ** 2 - x[1] ** 2 - x[2] ** 2 - 2 * x[0] + x[1] + x[3]),
        ],
        -44.0,
    ),
    71: Constrained(
        lambda x: x[0] * x[3] * (x[0] + x[1] + x[2]) + x[2],
        [1.0, 5.0, 5.0, 1.0],
        (1.0, 5.0),
        [("ineq", lambda x: fnp.prod(x) - 25), ("eq", lambda x: x @ x - 40)],
        17.0140173,
    ),
    76: Constrained(
        lambda x: (
            x[0] ** 2
            + 0.5 * x[1] ** 2
            + x[2] ** 2
            + 0.5 * x[3] ** 2
            - x[0] * x[2]
            + x[2] * x[3]
            - x[0]
            - 3 * x[1]
            + x[2]
            - x[3]
        ),
        [0.5] * 4,
        (0.0, None),
        [
            ("ineq", lambda x: 5 - x[0] - 2 * x[1] - x[2] - x[3]),
            ("ineq", lambda x: 4 - 3 * x[0] - x[1] - 2 * x[2] + x[3]),
            ("ineq", lambda x: x[1] + 4 * x[2] - 1.5),
        ],
        -4.681818181,
    ),
}
