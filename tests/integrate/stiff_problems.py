"""The stiff problems of Hairer and Wanner, with their solutions at the end.

Sources: E. Hairer and G. Wanner, "Solving ordinary differential equations II", section IV.10; the
end values of ROBER, HIRES, OREGO, VDPOL and POLLU: F. Mazzia and C. Magherini, "Test set for
initial value problem solvers", release 2.4, 2008. Those of E5 and BRUSS were computed by SciPy's
Radau at rtol 1e-12.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import funcgrad.numpy as fnp
from funcgrad.tensor.tensor import Tensor


class StiffProblem(NamedTuple):
    """An initial value problem with its solution at the end.

    Attributes
    ----------
    name : str
    slope : callable
        ``slope(t, y)``
    start : array
    end : float
    solution : array or None
    smallest : float
        An absolute tolerance, relative to the relative one.
    """

    name: str
    slope: Callable[[Any, Tensor], Tensor]
    start: np.ndarray[Any, Any]
    end: float
    solution: np.ndarray[Any, Any]
    smallest: float


def robertson(t: Any, y: Tensor) -> Tensor:
    """A chemical reaction with rates of 0.04, 1e4 and 3e7."""
    first, second = 0.04 * y[0] - 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return fnp.stack([-first, first - second, second])


def hires(t: Any, y: Tensor) -> Tensor:
    """How light acts on the growth of a plant."""
    binding = 280.0 * y[5] * y[7]
    return fnp.stack(
        [
            -1.71 * y[0] + 0.43 * y[1] + 8.32 * y[2] + 0.0007,
            1.71 * y[0] - 8.75 * y[1],
            -10.03 * y[2] + 0.43 * y[3] + 0.035 * y[4],
            8.32 * y[1] + 1.71 * y[2] - 1.12 * y[3],
            -1.745 * y[4] + 0.43 * y[5] + 0.43 * y[6],
            -binding + 0.69 * y[3] + 1.71 * y[4] - 0.43 * y[5] + 0.69 * y[6],
            binding - 1.81 * y[6],
            -binding + 1.81 * y[6],
        ]
    )


def oregonator(t: Any, y: Tensor) -> Tensor:
    """The Belousov-Zhabotinskii reaction."""
    return fnp.stack(
        [
            77.27 * (y[1] + y[0] * (1.0 - 8.375e-6 * y[0] - y[1])),
            (y[2] - (1.0 + y[0]) * y[1]) / 77.27,
            0.161 * (y[0] - y[2]),
        ]
    )


def van_der_pol(t: Any, y: Tensor) -> Tensor:
    """An oscillation that jumps."""
    return fnp.stack([y[1], ((1.0 - y[0] ** 2) * y[1] - y[0]) / 1e-6])


_RATES = (
    *(0.35, 26.6, 1.23e4, 8.6e-4, 8.2e-4, 1.5e4, 1.3e-4, 2.4e4, 1.65e4, 9e3, 0.022, 1.2e4, 1.88),
    *(1.63e4, 4.8e6, 3.5e-4, 0.0175, 1e8, 4.44e11, 1240.0, 2.1, 5.78, 0.0474, 1780.0, 3.12),
)
_FIRST = (0, 1, 4, 6, 6, 6, 8, 8, 10, 10, 12, 9, 13, 0, 2, 3, 3, 15, 15, 16, 18, 18, 0, 18, 19)
_SECOND = {1: 3, 2: 1, 5: 5, 7: 5, 8: 1, 9: 0, 11: 1, 13: 5, 19: 5, 22: 3, 23: 0}
_TAKEN = (
    *((0, 9, 13, 22, 23), (1, 2, 8, 11), (14,), (1, 15, 16, 22), (2,), (5, 7, 13, 19), (3, 4, 5)),
    *((), (6, 7), (11,), (8, 9), (), (10,), (12,), (), (17, 18), (19,), (), (20, 21, 23), (24,)),
)
_MADE = (
    *((1, 2, 8, 10, 11, 21, 24), (0, 20), (0, 16, 18, 21), (14,), (3, 3, 5, 6, 12, 19)),
    *((2, 17, 17), (12,), (3, 4, 5, 6), (), (6, 8), (7, 10), (8,), (9,), (11,), (13,), (15,), ()),
    *((19,), (22, 24), (23,)),
)


def pollution(t: Any, y: Tensor) -> Tensor:
    """Reactions in polluted air: 20 species, 25 reactions."""
    rates = [
        k * y[first] * (y[_SECOND[place]] if place in _SECOND else 1.0)
        for place, (k, first) in enumerate(zip(_RATES, _FIRST, strict=True))
    ]
    zero = 0.0 * y[0]
    return fnp.stack(
        [
            sum((rates[k] for k in made), zero) - sum((rates[k] for k in taken), zero)
            for made, taken in zip(_MADE, _TAKEN, strict=True)
        ]
    )


def e5(t: Any, y: Tensor) -> Tensor:
    """Enright's chemical reaction, with values from 1e-3 down to 1e-22."""
    first, second = 7.89e-10 * y[0], 1.1e7 * y[0] * y[2]
    third, back = 1.13e9 * y[1] * y[2], 1.13e3 * y[3]
    middle = first - third
    return fnp.stack([-first - second, middle, middle - second + back, second - back])


def brusselator(t: Any, y: Tensor) -> Tensor:
    """A reaction on a line of 20 points, with diffusion."""
    u, v = y[:20], y[20:]
    one = fnp.ones((1,))
    factor = 0.02 * 21.0**2

    def spread(w: Tensor, side: float) -> Tensor:
        wide = fnp.concatenate([side * one, w, side * one])
        return factor * (wide[2:] - 2.0 * wide[1:-1] + wide[:-2])

    uuv = u * u * v
    return fnp.concatenate([1.0 + uuv - 4.0 * u + spread(u, 1.0), 3.0 * u - uuv + spread(v, 3.0)])


def _sparse_start(size: int, values: dict[int, float]) -> np.ndarray[Any, Any]:
    return np.array([values.get(k, 0.0) for k in range(size)])


_POLLUTED = """
    0.5646255480022769e-1 0.1342484130422339e0 0.4139734331099427e-8 0.5523140207484359e-2
    0.2018977262302196e-6 0.1464541863493966e-6 0.7784249118997964e-1 0.3245075353396018e0
    0.7494013383880406e-2 0.1622293157301561e-7 0.1135863833257075e-7 0.2230505975721359e-2
    0.2087162882798630e-3 0.1396921016840158e-4 0.8964884856898295e-2 0.4352846369330103e-17
    0.6899219696263405e-2 0.1007803037365946e-3 0.1772146513969984e-5 0.5682943292316392e-4
"""
_REACTED = """
    0.8776530097282947 0.7658928273837942 0.6712478470947391 0.5958550017513156 0.5386469677140443
    0.4969386018730552 0.4676720876727137 0.4481320348200271 0.4362471260013290 0.4306606757476790
    0.4307112500402455 0.4364053271659308 0.4484169183817667 0.4681131789868330 0.4975692041709349
    0.5394886457356598 0.5968897247446778 0.6723805302574414 0.7669226841236675 0.8782943216042853
    3.1547039090604483 3.2955488200908900 3.4136432654868710 3.5058300900927835 3.5734511663628480
    3.6204057913837360 3.6514468675417513 3.6710454230898610 3.6827708468618567 3.6890130427683796
    3.6908875512491790 3.6882193830021950 3.6795566628454024 3.6622147859678105 3.6324010314509340
    3.5855235488191717 3.5168399755683937 3.4226091121028435 3.3017784392481520 3.1578531172421154
"""
_PLACES = np.arange(1.0, 21.0) / 21.0

STIFF_PROBLEMS = (
    StiffProblem(
        "ROBER",
        robertson,
        np.array([1.0, 0.0, 0.0]),
        1e11,
        np.array([0.2083340149701255e-7, 0.8333360770334713e-13, 0.9999999791665050e0]),
        1e-9,
    ),
    StiffProblem(
        "HIRES",
        hires,
        _sparse_start(8, {0: 1.0, 7: 0.0057}),
        321.8122,
        np.array(
            [
                *(0.7371312573325668e-3, 0.1442485726316185e-3, 0.5888729740967575e-4),
                *(0.1175651343283149e-2, 0.2386356198831331e-2, 0.6238968252742796e-2),
                *(0.2849998395185769e-2, 0.2850001604814231e-2),
            ]
        ),
        1e-4,
    ),
    StiffProblem(
        "OREGO",
        oregonator,
        np.array([1.0, 2.0, 3.0]),
        360.0,
        np.array([0.1000814870318523e1, 0.1228178521549917e4, 0.1320554942846706e3]),
        1e-4,
    ),
    StiffProblem(
        "VDPOL",
        van_der_pol,
        np.array([2.0, 0.0]),
        2.0,
        np.array([0.1706167732170483e1, -0.8928097010247975e0]),
        1e-4,
    ),
    StiffProblem(
        "POLLU",
        pollution,
        _sparse_start(20, {1: 0.2, 3: 0.04, 6: 0.1, 7: 0.3, 8: 0.01, 16: 0.007}),
        60.0,
        np.array(_POLLUTED.split(), float),
        1e-11,
    ),
    StiffProblem(
        "E5",
        e5,
        _sparse_start(4, {0: 1.76e-3}),
        1e5,
        np.array(
            [
                7.4813208185061130e-6,
                2.3734781542166023e-12,
                2.2123586695782601e-12,
                1.6111948712310170e-13,
            ]
        ),
        1e-16,
    ),
    StiffProblem(
        "BRUSS",
        brusselator,
        np.concatenate([1.0 + np.sin(2 * np.pi * _PLACES), np.full(20, 3.0)]),
        10.0,
        np.array(_REACTED.split(), float),
        1e-2,
    ),
)
