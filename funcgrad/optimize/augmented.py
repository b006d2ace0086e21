"""Minima under constraints, by the augmented Lagrangian.

Source: Birgin and Martínez, "Practical augmented Lagrangian methods", 2014.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

import funcgrad.numpy as fnp
from funcgrad._core.pytrees import pytree
from funcgrad.optimize.descents import DescentOptions, Objective, descended, slope_of
from funcgrad.optimize.iterations import Watch, looped
from funcgrad.optimize.solution import INFEASIBLE, RUNNING, SMALL_DECREASE, first_status
from funcgrad.optimize.solver_tasks import OfPoint
from funcgrad.tensor.tensor import Tensor

_ROUNDS: Final = 40  # the most corrections of the multipliers


@pytree(slots=True)
class _Round:
    """A minimum of the augmented function, and its multipliers and weight."""

    x: Tensor
    multipliers: Tensor
    weight: Tensor
    violation: Tensor
    gtol: Tensor
    count: Tensor
    nit: Tensor
    nfev: Tensor
    status: Tensor


def constrained(
    plus: Callable[[Callable[[Tensor], Tensor]], Objective] | None,
    function: OfPoint,
    begin: tuple[Tensor, Tensor],
    ends: tuple[Tensor, Tensor] | None,
    method: str,
    stop: DescentOptions,
    watch: Watch | None,
) -> Any:
    """Minimize the augmented function, and correct the multipliers, until no change is left.

    ``plus`` adds a term to an objective with a user's derivatives.
    """
    dtype = begin[0].dtype

    def advance(now: _Round) -> _Round:
        def parts(p: Tensor) -> tuple[Tensor, Tensor]:
            number, _, limited, _ = function((p, now.multipliers))
            distance = limited.outside(now.multipliers, now.weight)
            return number, 0.5 * now.weight * (distance @ distance)

        def whole(p: Tensor) -> Tensor:
            number, distance = parts(p)
            return number + distance

        objective = Objective.derived(whole) if plus is None else plus(lambda p: parts(p)[1])
        ended = descended(objective, now.x, ends, method, stop._replace(gtol=now.gtol))
        _, _, limited, _ = function((ended.x, now.multipliers))
        change = limited.violation(now.multipliers, now.weight)
        violation = fnp.max(fnp.abs(change), initial=0.0)
        # Rounding of the augmented function may hide the last decrease.
        slope = slope_of(ended.x, ended.gradient, ends)
        status = fnp.where(slope <= 100.0 * stop.gtol, SMALL_DECREASE, ended.status)
        status = fnp.where(ended.status > 0, ended.status, status)
        done = (violation <= stop.gtol) & (now.gtol <= stop.gtol) & (status > 0)
        stuck = (now.weight > 1e12) & (violation > stop.gtol)
        slow = violation > 0.25 * now.violation
        return _Round(
            ended.x,
            (now.multipliers + now.weight * change).astype(dtype),
            fnp.where(slow, 10.0 * now.weight, now.weight).astype(dtype),
            violation.astype(dtype),
            fnp.maximum(0.1 * now.gtol, stop.gtol).astype(dtype),
            now.count + 1,
            now.nit + ended.nit,
            now.nfev + ended.nfev,
            first_status([(done, status), (stuck, INFEASIBLE)]),
        )

    def goes_on(now: _Round) -> Tensor:
        return (now.status == RUNNING) & (now.count < _ROUNDS) & (now.nit < stop.maxiter)

    first = _first_round(function, begin, stop.gtol)
    ended = looped(goes_on, advance, first, watch)
    return (ended.x, ended.multipliers), (ended.status, ended.nit, ended.nfev)


def _first_round(function: OfPoint, begin: tuple[Tensor, Tensor], gtol: float) -> _Round:
    """The start, with a weight that makes violations count like values."""
    x, multipliers = begin
    dtype = x.dtype
    value, _, limited, _ = function(begin)
    distance = limited.outside(multipliers, 1.0)
    weight = 10.0 * fnp.maximum(1.0, fnp.abs(value)) / fnp.maximum(1.0, 0.5 * (distance @ distance))
    none = fnp.asarray(0)
    return _Round(
        x,
        multipliers,
        fnp.clip(weight, 1e-3, 1e3).astype(dtype),
        fnp.asarray(np.inf).astype(dtype),
        fnp.asarray(max(gtol, 1e-3)).astype(dtype),
        none,
        none,
        none,
        fnp.asarray(RUNNING),
    )
