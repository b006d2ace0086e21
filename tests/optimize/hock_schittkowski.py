"""Constrained minima with known values.

Source: Hock and Schittkowski, "Test examples for nonlinear programming codes", 1981, by their
numbers there.
"""

from __future__ import annotations

from collections.abc import Callable
from math import exp, inf, log, pi
from typing import Any, NamedTuple

import numpy as np

import funcgrad.numpy as fnp


class Program(NamedTuple):
    """A function, a start, its least value, bounds, equations and inequalities c(x) >= 0."""

    fun: Callable[[Any], Any]
    start: list[float]
    least: float
    bounds: tuple[Any, Any] | None = None
    equal: Callable[[Any], list[Any]] | None = None
    above: Callable[[Any], list[Any]] | None = None

    def constraints(self) -> list[dict[str, Any]]:
        """The constraints in SciPy's form."""
        pairs = (("eq", self.equal), ("ineq", self.above))
        return [
            {"type": kind, "fun": lambda x, c=c: fnp.stack([fnp.asarray(v) for v in c(x)])}
            for kind, c in pairs
            if c is not None
        ]


def _rosenbrock(x: Any) -> Any:
    return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2


def _wood(x: Any) -> Any:
    other = 90 * (x[3] - x[2] ** 2) ** 2 + (1 - x[2]) ** 2
    mixed = 10.1 * ((x[1] - 1) ** 2 + (x[3] - 1) ** 2) + 19.8 * (x[1] - 1) * (x[3] - 1)
    return _rosenbrock(x) + other + mixed


def _chain(x: Any) -> Any:
    return (x[0] - x[1]) ** 2 + (x[1] + x[2] - 2) ** 2 + (x[3] - 1) ** 2 + (x[4] - 1) ** 2


def _links(x: Any) -> list[Any]:
    return [x[0] + 3 * x[1], x[2] + x[3] - 2 * x[4], x[1] - x[4]]


def _spheres(x: Any) -> list[Any]:
    return [x @ x - 10, x[1] * x[2] - 5 * x[3] * x[4], x[0] ** 3 + x[1] ** 3 + 1]


def _sine(x: Any, level: float, other: float) -> list[Any]:
    first = x[0] ** 2 * x[3] + fnp.sin(x[3] - x[4]) - level
    return [first, x[1] + x[2] ** 4 * x[3] ** 2 - other]


def _powers(x: Any) -> Any:
    return (x[2] - 1) ** 2 + (x[3] - 1) ** 4 + (x[4] - 1) ** 6


_BOX5 = ([-2.3, -2.3, -3.2, -3.2, -3.2], [2.3, 2.3, 3.2, 3.2, 3.2])
_R2, _R3 = 2**0.5, 3**0.5

PROGRAMS: dict[int, Program] = {
    1: Program(_rosenbrock, [-2, 1], 0.0, ([-inf, -1.5], None)),
    2: Program(_rosenbrock, [-2, 1], 0.0504261879, ([-inf, 1.5], None)),
    3: Program(lambda x: x[1] + 1e-5 * (x[1] - x[0]) ** 2, [10, 1], 0.0, ([-inf, 0], None)),
    4: Program(lambda x: (x[0] + 1) ** 3 / 3 + x[1], [1.125, 0.125], 8 / 3, ([1, 0], None)),
    5: Program(
        lambda x: fnp.sin(x[0] + x[1]) + (x[0] - x[1]) ** 2 - 1.5 * x[0] + 2.5 * x[1] + 1,
        [0, 0],
        -(_R3 / 2 + pi / 3),
        ([-1.5, -3], [4, 3]),
    ),
    8: Program(lambda x: 0 * x[0] - 1, [2, 1], -1.0, equal=lambda x: [x @ x - 25, x[0] * x[1] - 9]),
    9: Program(
        lambda x: fnp.sin(pi * x[0] / 12) * fnp.cos(pi * x[1] / 16),
        [0, 0],
        -0.5,
        equal=lambda x: [4 * x[0] - 3 * x[1]],
    ),
    14: Program(
        lambda x: (x[0] - 2) ** 2 + (x[1] - 1) ** 2,
        [2, 2],
        9 - 2.875 * 7**0.5,
        equal=lambda x: [x[0] - 2 * x[1] + 1],
        above=lambda x: [1 - 0.25 * x[0] ** 2 - x[1] ** 2],
    ),
    15: Program(
        _rosenbrock,
        [-2, 1],
        306.5,
        (None, [0.5, inf]),
        above=lambda x: [x[0] * x[1] - 1, x[0] + x[1] ** 2],
    ),
    16: Program(
        _rosenbrock,
        [-2, 1],
        0.25,
        ([-0.5, -inf], [0.5, 1]),
        above=lambda x: [x[0] + x[1] ** 2, x[0] ** 2 + x[1]],
    ),
    17: Program(
        _rosenbrock,
        [-2, 1],
        1.0,
        ([-0.5, -inf], [0.5, 1]),
        above=lambda x: [x[1] ** 2 - x[0], x[0] ** 2 - x[1]],
    ),
    18: Program(
        lambda x: 0.01 * x[0] ** 2 + x[1] ** 2,
        [2, 2],
        5.0,
        ([2, 0], 50),
        above=lambda x: [x[0] * x[1] - 25, x @ x - 25],
    ),
    19: Program(
        lambda x: (x[0] - 10) ** 3 + (x[1] - 20) ** 3,
        [20.1, 5.84],
        -6961.81381,
        ([13, 0], 100),
        above=lambda x: [
            (x[0] - 5) ** 2 + (x[1] - 5) ** 2 - 100,
            82.81 - (x[1] - 5) ** 2 - (x[0] - 6) ** 2,
        ],
    ),
    20: Program(
        _rosenbrock,
        [-2, 1],
        81.5 - 25 * _R3,
        ([-0.5, -inf], [0.5, inf]),
        above=lambda x: [x[0] + x[1] ** 2, x[0] ** 2 + x[1], x @ x - 1],
    ),
    21: Program(
        lambda x: 0.01 * x[0] ** 2 + x[1] ** 2 - 100,
        [-1, -1],
        -99.96,
        ([2, -50], 50),
        above=lambda x: [10 * x[0] - x[1] - 10],
    ),
    22: Program(
        lambda x: (x[0] - 2) ** 2 + (x[1] - 1) ** 2,
        [2, 2],
        1.0,
        above=lambda x: [2 - x[0] - x[1], x[1] - x[0] ** 2],
    ),
    23: Program(
        lambda x: x @ x,
        [3, 1],
        2.0,
        (-50, 50),
        above=lambda x: [
            x[0] + x[1] - 1,
            x @ x - 1,
            9 * x[0] ** 2 + x[1] ** 2 - 9,
            x[0] ** 2 - x[1],
            x[1] ** 2 - x[0],
        ],
    ),
    26: Program(
        lambda x: (x[0] - x[1]) ** 2 + (x[1] - x[2]) ** 4,
        [-2.6, 2, 2],
        0.0,
        equal=lambda x: [(1 + x[1] ** 2) * x[0] + x[2] ** 4 - 3],
    ),
    27: Program(
        lambda x: 0.01 * (x[0] - 1) ** 2 + (x[1] - x[0] ** 2) ** 2,
        [2, 2, 2],
        0.04,
        equal=lambda x: [x[0] + x[2] ** 2 + 1],
    ),
    28: Program(
        lambda x: (x[0] + x[1]) ** 2 + (x[1] + x[2]) ** 2,
        [-4, 1, 1],
        0.0,
        equal=lambda x: [x[0] + 2 * x[1] + 3 * x[2] - 1],
    ),
    29: Program(
        lambda x: -fnp.prod(x),
        [1, 1, 1],
        -16 * _R2,
        above=lambda x: [48 - x[0] ** 2 - 2 * x[1] ** 2 - 4 * x[2] ** 2],
    ),
    30: Program(
        lambda x: x @ x,
        [1, 1, 1],
        1.0,
        ([1, -10, -10], 10),
        above=lambda x: [x[0] ** 2 + x[1] ** 2 - 1],
    ),
    31: Program(
        lambda x: 9 * x[0] ** 2 + x[1] ** 2 + 9 * x[2] ** 2,
        [1, 1, 1],
        6.0,
        ([-10, 1, -10], [10, 10, 1]),
        above=lambda x: [x[0] * x[1] - 1],
    ),
    32: Program(
        lambda x: (x[0] + 3 * x[1] + x[2]) ** 2 + 4 * (x[0] - x[1]) ** 2,
        [0.1, 0.7, 0.2],
        1.0,
        (0, None),
        equal=lambda x: [1 - fnp.sum(x)],
        above=lambda x: [6 * x[1] + 4 * x[2] - x[0] ** 3 - 3],
    ),
    33: Program(
        lambda x: (x[0] - 1) * (x[0] - 2) * (x[0] - 3) + x[2],
        [0, 0, 3],
        _R2 - 6,
        (0, [inf, inf, 5]),
        above=lambda x: [x[2] ** 2 - x[1] ** 2 - x[0] ** 2, x @ x - 4],
    ),
    34: Program(
        lambda x: -x[0],
        [0, 1.05, 2.9],
        -log(log(10)),
        (0, [100, 100, 10]),
        above=lambda x: [x[1] - fnp.exp(x[0]), x[2] - fnp.exp(x[1])],
    ),
    36: Program(
        lambda x: -fnp.prod(x),
        [10, 10, 10],
        -3300.0,
        (0, [20, 11, 42]),
        above=lambda x: [72 - x[0] - 2 * x[1] - 2 * x[2]],
    ),
    37: Program(
        lambda x: -fnp.prod(x),
        [10, 10, 10],
        -3456.0,
        (0, 42),
        above=lambda x: [72 - x[0] - 2 * x[1] - 2 * x[2], x[0] + 2 * x[1] + 2 * x[2]],
    ),
    38: Program(_wood, [-3, -1, -3, -1], 0.0, (-10, 10)),
    41: Program(
        lambda x: 2 - x[0] * x[1] * x[2],
        [2, 2, 2, 2],
        52 / 27,
        (0, [1, 1, 1, 2]),
        equal=lambda x: [x[0] + 2 * x[1] + 2 * x[2] - x[3]],
    ),
    42: Program(
        lambda x: fnp.sum((x - np.arange(1, 5)) ** 2),
        [1, 1, 1, 1],
        28 - 10 * _R2,
        equal=lambda x: [x[0] - 2, x[2] ** 2 + x[3] ** 2 - 2],
    ),
    45: Program(lambda x: 2 - fnp.prod(x) / 120, [2] * 5, 1.0, (0, [1, 2, 3, 4, 5])),
    46: Program(
        lambda x: (x[0] - x[1]) ** 2 + _powers(x),
        [_R2 / 2, 1.75, 0.5, 2, 2],
        0.0,
        equal=lambda x: _sine(x, 1, 2),
    ),
    48: Program(
        lambda x: (x[0] - 1) ** 2 + (x[1] - x[2]) ** 2 + (x[3] - x[4]) ** 2,
        [3, 5, -3, 2, -2],
        0.0,
        equal=lambda x: [fnp.sum(x) - 5, x[2] - 2 * (x[3] + x[4]) + 3],
    ),
    49: Program(
        lambda x: (x[0] - x[1]) ** 2 + _powers(x),
        [10, 7, 2, -3, 0.8],
        0.0,
        equal=lambda x: [x[0] + x[1] + x[2] + 4 * x[3] - 7, x[2] + 5 * x[4] - 6],
    ),
    50: Program(
        lambda x: (x[0] - x[1]) ** 2 + (x[1] - x[2]) ** 2 + (x[2] - x[3]) ** 4 + (x[3] - x[4]) ** 2,
        [35, -31, 11, 5, -5],
        0.0,
        equal=lambda x: [x[k] + 2 * x[k + 1] + 3 * x[k + 2] - 6 for k in range(3)],
    ),
    51: Program(
        _chain, [2.5, 0.5, 2, -1, 0.5], 0.0, equal=lambda x: [x[0] + 3 * x[1] - 4, *_links(x)[1:]]
    ),
    52: Program(
        lambda x: (4 * x[0] - x[1]) ** 2 + _chain(x) - (x[0] - x[1]) ** 2,
        [2] * 5,
        1859 / 349,
        equal=_links,
    ),
    53: Program(_chain, [2] * 5, 176 / 43, (-10, 10), equal=_links),
    60: Program(
        lambda x: (x[0] - 1) ** 2 + (x[0] - x[1]) ** 2 + (x[1] - x[2]) ** 4,
        [2] * 3,
        0.03256820025,
        (-10, 10),
        equal=lambda x: [x[0] * (1 + x[1] ** 2) + x[2] ** 4 - 4 - 3 * _R2],
    ),
    61: Program(
        lambda x: 4 * x[0] ** 2 + 2 * x[1] ** 2 + 2 * x[2] ** 2 - 33 * x[0] + 16 * x[1] - 24 * x[2],
        [0] * 3,
        -143.6461422,
        equal=lambda x: [3 * x[0] - 2 * x[1] ** 2 - 7, 4 * x[0] - x[2] ** 2 - 11],
    ),
    63: Program(
        lambda x: 1000 - x @ x - x[1] ** 2 - x[0] * x[1] - x[0] * x[2],
        [2] * 3,
        961.7151721,
        (0, None),
        equal=lambda x: [8 * x[0] + 14 * x[1] + 7 * x[2] - 56, x @ x - 25],
    ),
    65: Program(
        lambda x: (x[0] - x[1]) ** 2 + (x[0] + x[1] - 10) ** 2 / 9 + (x[2] - 5) ** 2,
        [-5, 5, 0],
        0.9535288567,
        ([-4.5, -4.5, -5], [4.5, 4.5, 5]),
        above=lambda x: [48 - x @ x],
    ),
    66: Program(
        lambda x: 0.2 * x[2] - 0.8 * x[0],
        [0, 1.05, 2.9],
        0.5181632741,
        (0, [100, 100, 10]),
        above=lambda x: [x[1] - fnp.exp(x[0]), x[2] - fnp.exp(x[1])],
    ),
    77: Program(
        lambda x: (x[0] - 1) ** 2 + (x[0] - x[1]) ** 2 + _powers(x),
        [2] * 5,
        0.24150513,
        equal=lambda x: _sine(x, 2 * _R2, 8 + _R2),
    ),
    78: Program(fnp.prod, [-2, 1.5, 2, -1, -1], -2.91970041, equal=_spheres),
    79: Program(
        lambda x: (
            (x[0] - 1) ** 2
            + (x[0] - x[1]) ** 2
            + (x[1] - x[2]) ** 2
            + (x[2] - x[3]) ** 4
            + (x[3] - x[4]) ** 4
        ),
        [2] * 5,
        0.0787768209,
        equal=lambda x: [
            x[0] + x[1] ** 2 + x[2] ** 3 - 2 - 3 * _R2,
            x[1] - x[2] ** 2 + x[3] + 2 - 2 * _R2,
            x[0] * x[4] - 2,
        ],
    ),
    80: Program(
        lambda x: fnp.exp(fnp.prod(x)), [-2, 2, 2, -1, -1], exp(-2.91970041), _BOX5, equal=_spheres
    ),
    81: Program(
        lambda x: fnp.exp(fnp.prod(x)) - 0.5 * (x[0] ** 3 + x[1] ** 3 + 1) ** 2,
        [-2, 2, 2, -1, -1],
        exp(-2.91970041),
        _BOX5,
        equal=_spheres,
    ),
}
