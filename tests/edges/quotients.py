"""Bounds on a derivative by difference quotients on both sides.

A derivative lies between the quotients from the left and from the right: at a smooth point they are
the same, at a kink they bound the subgradients, at the end of a domain there is one. Where they
grow without bound, and the function does not jump, the derivative is infinite.

>>> bounds(np.abs, 0.0), bounds(np.sqrt, 0.0), bounds(np.floor, 1.0)
((-1.0, 1.0), (inf, inf), None)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

STEPS = tuple([1e-3 / 16**k for k in range(4)])
CONVERGED = 2e-2
GROWTH = 1.5


def bounds(function: Callable[[Any], Any], x: float) -> tuple[float, float] | None:
    """The least and the greatest limit of quotients at a number; None where these are unknown."""
    unit = abs(x) if x else 1.0
    steps = unit * np.outer([1.0, -1.0], STEPS)
    near = x + steps
    with np.errstate(all="ignore"):
        found = np.asarray(function(np.array([x, *near.ravel()])), float)
        here, rise = float(found[0]), found[1:].reshape(near.shape) - found[0]
        sides = [
            _limit(r / (n - x), np.abs(r), here, n - x) for r, n in zip(rise, near, strict=True)
        ]
    known = [side for side in sides if side is not None]
    if not np.isfinite(here) or not known or any(np.isnan(side) for side in known):
        return None
    return min(known), max(known)


def _limit(quotients: Any, rises: Any, here: float, steps: Any) -> float | None:
    """The limit on one side: None outside of the domain, NaN while the quotients do not settle."""
    if np.isnan(quotients).any():
        return None
    *_, before, last = quotients.tolist()
    noise = 4 * np.finfo(float).eps * abs(here) / abs(steps[-1])
    if noise > CONVERGED * abs(last) + 1e-6:
        return np.nan  # of numbers so close, differences are those of rounding
    if abs(last - before) <= CONVERGED * abs(last) + 8 * noise:
        return float(last)
    grows = np.all(np.abs(quotients[1:]) > GROWTH * np.abs(quotients[:-1]))
    continuous = np.all(rises[1:] < 0.8 * rises[:-1])
    return float(np.copysign(np.inf, last)) if grows and continuous else np.nan


def within(derivative: float, limits: tuple[float, float]) -> bool:
    """Whether a derivative lies between limits, as far as differences can tell."""
    low, high = limits
    slack = [2 * CONVERGED * abs(x) + 1e-5 if np.isfinite(x) else 0.0 for x in limits]
    return low - slack[0] <= derivative <= high + slack[1]
