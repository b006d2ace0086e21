"""The problems of Moré, Garbow and Hillstrom that ``problems.py`` does not have.

Source: "Testing unconstrained optimization software", ACM TOMS 7, 1981, by the numbers there. The
least sums of squares are those of the paper.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import funcgrad as fg
import funcgrad.numpy as fnp
from tests.optimize.problems import (
    SYSTEMS,
    almost_linear,
    boundary_value,
    integral,
    powell,
    rosenbrock,
    tridiagonal,
    trigonometric,
    wood,
)


class SquareSum(NamedTuple):
    """Residuals, a start, and the sums of squares of the known minima."""

    fun: Callable[[Any], Any]
    start: Any
    least: tuple[float, ...]


def _numbers(text: str) -> np.ndarray[Any, Any]:
    return np.array(text.split(), float)


_GAUSSIAN = _numbers(".0009 .0044 .0175 .054 .1295 .242 .3521 .3989")
_GAUSSIAN = np.concatenate([_GAUSSIAN, _GAUSSIAN[-2::-1]])
_OSBORNE1 = _numbers(
    ".844 .908 .932 .936 .925 .908 .881 .85 .818 .784 .751 .718 .685 .658 .628 .603 .58 .558 .538"
    " .522 .506 .49 .478 .467 .457 .448 .438 .431 .424 .42 .414 .411 .406"
)
_OSBORNE2 = _numbers(
    "1.366 1.191 1.112 1.013 .991 .885 .831 .847 .786 .725 .746 .679 .608 .655 .616 .606 .602 .626"
    " .651 .724 .649 .649 .694 .644 .624 .661 .612 .558 .533 .495 .5 .423 .395 .375 .372 .391 .396"
    " .405 .428 .429 .523 .562 .607 .653 .672 .708 .633 .668 .645 .632 .591 .559 .597 .625 .739 .71"
    " .729 .72 .636 .581 .428 .292 .162 .098 .054"
)


def gaussian(x: Any) -> Any:
    t = (7.0 - np.arange(15)) / 2.0
    return x[0] * fnp.exp(-x[1] * (t - x[2]) ** 2 / 2.0) - _GAUSSIAN


def gulf(x: Any) -> Any:
    t = np.arange(1, 100) / 100.0
    y = 25.0 + (-50.0 * np.log(t)) ** (2.0 / 3.0)
    return fnp.exp(-(fnp.abs(y - x[1]) ** x[2]) / x[0]) - t


def osborne1(x: Any) -> Any:
    t = 10.0 * np.arange(33)
    return _OSBORNE1 - (x[0] + x[1] * fnp.exp(-t * x[3]) + x[2] * fnp.exp(-t * x[4]))


def osborne2(x: Any) -> Any:
    t = np.arange(65) / 10.0
    peaks = sum(x[k] * fnp.exp(-((t - x[k + 7]) ** 2) * x[k + 4]) for k in (1, 2, 3))
    return _OSBORNE2 - (x[0] * fnp.exp(-t * x[4]) + peaks)


def biggs(x: Any) -> Any:
    t = 0.1 * np.arange(1, 14)
    y = np.exp(-t) - 5.0 * np.exp(-10.0 * t) + 3.0 * np.exp(-4.0 * t)
    return x[2] * fnp.exp(-t * x[0]) - x[3] * fnp.exp(-t * x[1]) + x[5] * fnp.exp(-t * x[4]) - y


def watson(x: Any) -> Any:
    t = np.arange(1, 30)[:, None] / 29.0
    powers = t ** np.arange(len(x))
    slopes = np.arange(1, len(x)) * powers[:, :-1]
    first = slopes @ x[1:] - (powers @ x) ** 2 - 1.0
    return fnp.concatenate([first, fnp.stack([x[0], x[1] - x[0] ** 2 - 1.0])])


def _pairs(f: Callable[[Any], Any], size: int) -> Callable[[Any], Any]:
    return lambda x: fnp.ravel(fg.vmap(f)(fnp.reshape(x, (-1, size))))


def penalty1(x: Any) -> Any:
    return fnp.append(1e-5**0.5 * (x - 1.0), x @ x - 0.25)


def penalty2(x: Any) -> Any:
    size = len(x)
    e, places = fnp.exp(x / 10.0), np.exp(np.arange(1, size + 1) / 10.0)
    middle = 1e-5**0.5 * (e[1:] + e[:-1] - (places[1:] + places[:-1]))
    last = 1e-5**0.5 * (e[1:] - np.exp(-0.1))
    ends = fnp.stack([x[0] - 0.2, np.arange(size, 0.0, -1.0) @ x**2 - 1.0])
    return fnp.concatenate([ends, middle, last])


def variably(x: Any) -> Any:
    total = np.arange(1.0, len(x) + 1) @ (x - 1.0)
    return fnp.concatenate([x - 1.0, fnp.stack([total, total**2])])


def banded(x: Any) -> Any:
    size, around = len(x), x * (1.0 + x)
    places = np.arange(size)
    near = (places[:, None] - places <= 5) & (places - places[:, None] <= 1)
    near &= places[:, None] != places
    return x * (2.0 + 5.0 * x**2) + 1.0 - near.astype(float) @ around


def full_rank(x: Any) -> Any:
    m = 20
    share = 2.0 * fnp.sum(x) / m
    return fnp.concatenate([x - share - 1.0, fnp.full(m - len(x), -1.0) - share])


def rank_one(x: Any) -> Any:
    return np.arange(1.0, 21.0) * (np.arange(1.0, len(x) + 1) @ x) - 1.0


def rank_one_zeros(x: Any) -> Any:
    inner = np.arange(2.0, len(x)) @ x[1:-1]
    rows = np.concatenate([np.arange(19.0), [0.0]])
    return rows * inner - 1.0


def chebyquad(x: Any) -> Any:
    before, now, sums = fnp.ones_like(x), 2.0 * x - 1.0, []
    for k in range(1, len(x) + 1):
        sums.append(fnp.mean(now) - (-1.0 / (k * k - 1) if k % 2 == 0 else 0.0))
        before, now = now, 2.0 * (2.0 * x - 1.0) * now - before
    return fnp.stack(sums)


def _steps(size: int) -> np.ndarray[Any, Any]:
    return np.arange(1, size + 1) / (size + 1.0)


_H10 = _steps(10) * (_steps(10) - 1.0)

SQUARE_SUMS: dict[int, SquareSum] = {
    4: SquareSum(lambda x: fnp.stack([x[0] - 1e6, x[1] - 2e-6, x[0] * x[1] - 2.0]), [1, 1], (0.0,)),
    9: SquareSum(gaussian, [0.4, 1, 0], (1.12793e-8,)),
    11: SquareSum(gulf, [5, 2.5, 0.15], (0.0,)),
    17: SquareSum(osborne1, [0.5, 1.5, -1, 0.01, 0.02], (5.46489e-5,)),
    18: SquareSum(biggs, [1, 2, 1, 1, 1, 1], (0.0, 5.65565e-3, 0.306367)),
    19: SquareSum(osborne2, [1.3, 0.65, 0.65, 0.7, 0.6, 3, 5, 7, 2, 4.5, 5.5], (4.01377e-2,)),
    20: SquareSum(watson, [0] * 6, (2.28767e-3,)),
    21: SquareSum(_pairs(rosenbrock, 2), [-1.2, 1] * 5, (0.0,)),
    22: SquareSum(_pairs(powell, 4), [3, -1, 0, 1] * 3, (0.0,)),
    23: SquareSum(penalty1, [1, 2, 3, 4], (2.24997e-5,)),
    24: SquareSum(penalty2, [0.5] * 4, (9.37629e-6,)),
    25: SquareSum(variably, 1.0 - np.arange(1, 11) / 10.0, (0.0,)),
    26: SquareSum(trigonometric, [0.1] * 10, (0.0, 2.79506e-5)),
    27: SquareSum(almost_linear, [0.5] * 10, (0.0, 1.0)),
    28: SquareSum(boundary_value, _H10, (0.0,)),
    29: SquareSum(integral, _H10, (0.0,)),
    30: SquareSum(tridiagonal, [-1] * 10, (0.0,)),
    31: SquareSum(banded, [-1] * 10, (0.0,)),
    32: SquareSum(full_rank, [1] * 10, (10.0,)),
    33: SquareSum(rank_one, [1] * 10, (20 * 19 / (2 * 41),)),
    34: SquareSum(rank_one_zeros, [1] * 10, ((400 + 60 - 6) / (2 * 37),)),
    35: SquareSum(chebyquad, _steps(8), (3.51687e-3,)),
}


def _slope(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return fg.grad(lambda x: fnp.sum(f(x) ** 2))


MORE_SYSTEMS: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "wood": (_slope(wood), [-3, -1, -3, -1]),
    "watson": (_slope(watson), [0] * 6),
    "chebyquad": (chebyquad, _steps(7)),
    "variably dimensioned": (_slope(variably), 1.0 - np.arange(1, 11) / 10.0),
    "banded": (banded, [-1] * 10),
}
assert len({*SYSTEMS, *MORE_SYSTEMS}) == 14
