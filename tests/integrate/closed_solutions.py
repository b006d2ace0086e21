"""Initial value problems with closed solutions: the slope, the span, the solution at any time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import funcgrad.numpy as fnp


class Closed(NamedTuple):
    """A problem: ``fun(t, y)``, the span, and the solution, whose time axis is the last one."""

    fun: Callable[..., Any]
    span: tuple[float, float]
    solution: Callable[[Any], Any]


def _kepler(t: Any, y: Any) -> Any:
    cube = (y[0] ** 2 + y[1] ** 2) ** 1.5
    return [y[2], y[3], -y[0] / cube, -y[1] / cube]


CLOSED = {
    "decay": Closed(lambda t, y: -y, (0.0, 2.0), lambda t: np.exp(-t)[None]),
    "logistic": Closed(
        lambda t, y: y * (1.0 - y), (0.0, 4.0), lambda t: 1.0 / (1.0 + 4.0 * np.exp(-t))[None]
    ),
    "spring": Closed(
        lambda t, y: [y[1], -4.0 * y[0]],
        (0.0, 3.0),
        lambda t: np.stack([np.cos(2.0 * t), -2.0 * np.sin(2.0 * t)]),
    ),
    "forced": Closed(
        lambda t, y: fnp.cos(t) + fnp.sin(t) - y,
        (0.0, 3.0),
        lambda t: (np.sin(t) + np.exp(-t))[None],
    ),
    "riccati": Closed(lambda t, y: -2.0 * t * y**2, (0.0, 2.0), lambda t: 1.0 / (1.0 + t**2)[None]),
    "complex": Closed(
        lambda t, y: (0.1 + 2j) * y, (0.0, 2.0), lambda t: np.exp((0.1 + 2j) * t)[None]
    ),
    "backwards": Closed(lambda t, y: fnp.cos(t) * y, (2.0, 0.5), lambda t: np.exp(np.sin(t))[None]),
    "kepler": Closed(
        _kepler, (0.0, 3.0), lambda t: np.stack([np.cos(t), np.sin(t), -np.sin(t), np.cos(t)])
    ),
}
